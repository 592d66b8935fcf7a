"""What ddprobe sees on a real disk that is slow, stands still or is frozen. Root and loop devices needed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import ddprobe
import pytest

from support.paths import ROOT
from support.probe import throttled_disk as boxes
from support.probe.fake_imds import Cloud
from support.probe.probe_process import PROGRAM, Probe, gone, start
from support.probe.throttled_disk import Box
from support.runbooks.external_commands import page_command


def counted(box: Box, probe: Probe, *words: object) -> dict[str, int]:
    """What the device did during a run; the file is there, and the journal quiet, beforehand."""
    probe.read("run", *words, box.path)
    boxes.run("sync", "-f", box.path)
    before = box.stat()
    probe.read("run", *words, box.path)
    after = box.stat()
    return {key: after[key] - before[key] for key in before}


def in_state_d(box: Box, probe: Probe) -> list[str]:
    """Processes of ddprobe that wait for this disk."""
    places = (str(box.path), str(probe.memory))
    waiting = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
                files = [str(fd.readlink()) for fd in (entry / "fd").iterdir()]
            except OSError:
                continue
            if words[0] == "D" and any(name.startswith(places) for name in files):
                waiting.append(entry.name)
    return waiting


# -- the header's promise: each run spends this many


@pytest.mark.parametrize("engine", ["inproc", "dd"])
def test_a_classic_run_is_sixty_writes_of_which_twenty_flush(box, probe, engine):
    done = counted(box, probe, "--level", "classic", "--engine", engine)
    # 10 MiB in requests of 256 KiB are 40; 10 x journal descriptor and commit are 20
    assert 58 <= done["writes"] <= 66
    assert done["flushes"] in (20, 21)
    assert 10_240 <= done["kib"] <= 10_600
    assert done["writes"] + done["flushes"] <= ddprobe.CLASSIC_CREDITS


def test_a_lite_write_is_one_write_and_one_flush(box, probe):
    done = counted(box, probe, "--level", "lite", "--writes", "20")
    # an empty flush counts as a write too
    assert 40 <= done["writes"] <= 46
    assert 20 <= done["flushes"] <= 22
    assert done["kib"] <= 120


def test_looking_writes_nothing(box, probe):
    boxes.run("sync", "-f", box.path)
    before = box.stat()
    probe.read("passive", "--look", "500ms", box.path)
    probe.run("explain", box.path)
    after = box.stat()
    assert (after["writes"], after["reads"]) == (before["writes"], before["reads"])


def test_the_ladder_of_a_healthy_disk_stays_at_its_foot(box, probe):
    for _ in range(3):
        reading = probe.read("run", box.path)
        assert (reading["verdict"], reading["reached"]) == ("ok", "lite")
    assert reading["cost"]["credits"] == 42
    assert reading["healthy_s"] is not None or reading["ratio"] is None


# -- causes


@pytest.mark.usefixtures("limit")
def test_a_queue_at_two_hundred_iops_is_throttled_and_names_who_waits(box, probe):
    healthy = probe.read("run", "--level", "classic", box.path)
    box.limit(200)
    box.load(48)
    time.sleep(1.5)
    passive = probe.read("passive", box.path)
    assert (passive["verdict"], passive["cause"]) == ("crit", "throttled")
    reading = run_as_on_the_page(box, probe)
    assert (reading["verdict"], reading["cause"], reading["reached"]) == ("crit", "throttled", "classic")
    assert reading["dd_s"] > 5
    assert reading["dd_s"] > 10 * healthy["dd_s"]
    assert len(reading["lite_ms"]) == 2  # two slow ones were enough to climb
    assert reading["dstate"]["most"] >= 40
    assert reading["dstate"]["main_only"] < 40  # most are threads
    top = reading["dstate"]["top"][0]
    assert top["here"] is True
    assert top["count"] >= 40
    assert top["wchan"] not in {"", "0"}
    box.limit(3000)
    time.sleep(2)
    assert probe.read("run", box.path)["verdict"] != "crit"


def run_as_on_the_page(box: Box, probe: Probe) -> dict[str, object]:
    """Run what ddprobe.md begins with: it says what is shown there, but for numbers, disk, and who waits."""
    line = page_command("ddprobe/ddprobe.md", "ddprobe run /data")
    _, *words = [str(box.path) if word == "/data" else word for word in line.text.split()]
    shown = line.expected_output[0].replace("/data (nvme1n1)", f"{box.path} ({box.device})").removesuffix("…")
    said = probe.run(*words).stdout
    assert without_numbers(said).startswith(without_numbers(shown)), said
    [kept] = probe.memory.glob("*.json")
    return json.loads(kept.read_text())


def without_numbers(text: str) -> str:
    return re.sub(r"\d[\d.,]*(?= )", "0", text)


@pytest.mark.usefixtures("limit")
def test_a_hundred_iops_and_nobody_else_is_exhausted_while_idle(box, probe):
    for _ in range(4):
        healthy = probe.read("run", "--level", "classic", "--max-credit-share", "100%", box.path)
    assert healthy["verdict"] == "ok"
    box.limit(100)
    time.sleep(1)
    reading = probe.read("run", "--level", "classic", "--max-credit-share", "100%", box.path)
    assert (reading["verdict"], reading["cause"]) == ("warn", "exhausted_idle")
    assert reading["ratio"] >= 5  # beside other work the healthy runs take longer


@pytest.mark.usefixtures("limit")
def test_the_ladder_sees_a_hundred_iops_with_nobody_else_although_ten_are_let_through_at_once(box, probe):
    """A limit of the kernel hands out a tenth of a second's operations at once: few writes feel nothing."""
    words = ["run", "--look", "100ms", "--max-credit-share", "100%", box.path]
    number = Path("/sys/block", box.device, "dev").read_text().strip().replace(":", "-")
    (probe.memory / f"{number}.memory").write_text(
        "lite 0.0005 0.0005 0.0005\n"
    )  # as on a machine at leisure
    box.limit(100)
    time.sleep(0.5)
    told = []
    while ("warn", "exhausted_idle", "lite") not in told:  # the first climbs, and then none for 150 s
        reading = probe.read(*words)
        told.append((reading["verdict"], reading["cause"], reading["reached"]))
        assert reading["verdict"] != "crit"
        assert len(told) < 10, told  # a writer that waits for its processor too feels no limit


@pytest.mark.usefixtures("limit")
def test_of_ten_ticks_at_once_on_a_slow_disk_none_says_that_all_is_well(box, probe):
    box.limit(100)
    box.load(48)
    time.sleep(1.5)
    words = ["run", "--json", "-", "--deadline", "8s", box.path]
    ticks = [probe.start(*words, stdout=subprocess.PIPE) for _ in range(10)]
    readings = [json.loads(tick.communicate(timeout=60)[0]) for tick in ticks]
    assert {(reading["verdict"], reading["cause"]) for reading in readings} == {("crit", "throttled")}
    assert sum(reading["reached"] == "classic" and not reading["skipped"] for reading in readings) == 1


def test_a_disk_from_which_nothing_comes_back_is_stalled(box, probe):
    assert probe.read("run", box.path)["verdict"] == "ok"
    box.stall()
    began_s = time.monotonic()
    reading = probe.read("run", box.path)
    took_s = time.monotonic() - began_s
    assert (reading["verdict"], reading["cause"], reading["completed"]) == ("crit", "stalled", False)
    assert took_s < 8
    assert reading["stuck_since"]
    again = probe.read("run", box.path)
    assert (again["verdict"], again["cause"]) == ("crit", "stalled")
    assert again["stuck_since"][:18] == reading["stuck_since"][:18]
    assert again["total_s"] > reading["total_s"]
    assert "still has one under way" in again["skipped"][0]
    box.thaw()
    time.sleep(0.5)
    assert probe.read("run", box.path)["verdict"] == "ok"


def test_a_frozen_file_system_is_told_from_a_stalled_disk(box, probe):
    box.freeze()
    reading = probe.read("run", box.path)
    assert (reading["verdict"], reading["cause"], reading["completed"]) == ("crit", "frozen_or_lock", False)
    assert reading["disk"]["in_flight_max"] == 0
    assert reading["dstate"]["own_wchan"].startswith(ddprobe.LOCK_WAITS)
    box.thaw()


# -- it works while the disk does not


@pytest.mark.parametrize("level", ["lite", "classic", "ladder"])
@pytest.mark.parametrize("engine", ["inproc", "dd"])
def test_no_level_outstays_its_deadline_and_the_writer_ends_with_the_stall(box, probe, level, engine):
    box.freeze()
    began_s = time.monotonic()
    words = ["--level", level, "--engine", engine, "--deadline", "3s", "--crit", "2s"]
    reading = probe.read("run", *words, box.path)
    assert time.monotonic() - began_s < 3 + 1
    assert (reading["verdict"], reading["completed"]) == ("crit", False)
    left = in_state_d(box, probe)
    assert len(left) == 1
    box.thaw()
    assert gone(left)


def test_ten_ticks_of_cron_leave_one_process_and_the_later_ones_say_since_when(box, probe):
    box.freeze()
    words = ["run", "--json", "-", "--crit", "2s", "--deadline", "3s", box.path]
    ticks = []
    for _ in range(10):
        ticks.append(probe.start(*words, stdout=subprocess.PIPE))
        time.sleep(0.3)
    readings = [json.loads(tick.communicate(timeout=30)[0]) for tick in ticks]
    assert len(in_state_d(box, probe)) == 1
    assert all(reading["completed"] is False for reading in readings)
    since = {reading["stuck_since"] for reading in readings}
    assert len(since) == 1 or max(since)[:19] == min(since)[:19]
    assert all("still has one under way" in reading["skipped"][0] for reading in readings[1:])
    assert all(reading["cause"] == "frozen_or_lock" for reading in readings)
    last = probe.read("run", box.path)
    assert last["total_s"] > 3
    left = in_state_d(box, probe)
    box.thaw()
    assert gone(left)
    time.sleep(0.2)
    assert probe.read("run", box.path)["verdict"] == "ok"


def test_a_log_on_the_sick_disk_delays_nothing_and_the_reading_is_in_memory(box, probe):
    log, prom = box.path / "readings.json", box.path / "ddprobe.prom"
    words = ["run", "--json", log, "--prom", prom, "--crit", "2s", "--deadline", "3s", box.path]
    assert probe.run(*words).returncode == 0
    box.freeze()
    began_s = time.monotonic()
    done = probe.run(*words)
    assert time.monotonic() - began_s < 3 + 2
    assert done.returncode == 2
    assert f"not written now: {log}, {prom}" in done.stderr
    (kept,) = probe.memory.glob("*.json")
    assert json.loads(kept.read_text())["cause"] == "frozen_or_lock"
    left = in_state_d(box, probe)
    box.thaw()
    assert gone(left)
    assert len(left) == 1
    probe.run(*words)
    logged = [json.loads(line)["completed"] for line in log.read_text().splitlines()]
    assert logged == [True, False, True]  # what could not be written then came before what came next


HOLDER = """
import ctypes, mmap, os, sys, threading, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 1 << 20)
shared = mmap.mmap(fd, 1 << 20)
address = ctypes.addressof(ctypes.c_char.from_buffer(shared))
protect = ctypes.CDLL(None).mprotect
def fault():
    shared[0] = 1
def change():
    time.sleep(0.5)
    protect(ctypes.c_void_p(address), ctypes.c_size_t(1 << 20), 1)
print("ready", flush=True)
sys.stdin.readline()
for work in (fault, change):
    threading.Thread(target=work, daemon=True).start()
time.sleep(600)
"""


def test_a_process_whose_memory_lock_is_held_in_state_d_does_not_hang_it(box, probe):
    """The state in which ps, pgrep, lsof and fuser hang: main thread asleep, a thread with mmap_lock in D."""
    command = [sys.executable, "-c", HOLDER, box.path / "mapped"]
    holder = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        box.freeze()
        holder.stdin.write(b"go\n")
        holder.stdin.flush()
        time.sleep(1.5)
        threads = [entry.read_text() for entry in Path(f"/proc/{holder.pid}/task").glob("*/stat")]
        states = [line.rpartition(")")[2].split()[0] for line in threads]
        assert "D" in states
        reading = probe.read("passive", box.path, within_s=10)
        assert (reading["verdict"], reading["cause"]) == ("warn", "frozen_or_lock")
        assert reading["dstate"]["stuck_here"] >= 1
        assert any(group["here"] for group in reading["dstate"]["top"])
    finally:
        box.thaw()
        holder.kill()
        holder.communicate(timeout=10)


def test_without_privileges_it_measures_and_tells_what_it_may_see(box):
    folder = box.path / "theirs"
    folder.mkdir(exist_ok=True)
    os.chown(folder, 65534, 65534)
    for parent in (box.path, box.folder):
        parent.chmod(0o755)
    memory = Path("/dev/shm/ddprobe-65534")
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-IS", "-"]
    source = PROGRAM.read_bytes() + b"\n"
    arguments = ["run", "--json", "-", "--level", "classic", "--max-credit-share", "100%", str(folder)]
    code = source.replace(b"sys.exit(main(sys.argv[1:]))", f"sys.exit(main({arguments!r}))".encode())
    try:
        done = subprocess.run(command, input=code, capture_output=True, timeout=60, check=False)
        reading = json.loads(done.stdout)
        assert (reading["verdict"], reading["completed"]) == ("ok", True)
        assert (folder / ".ddprobe").stat().st_uid == 65534
        box.freeze()
        stalled = json.loads(
            subprocess.run(
                command,
                input=code.replace(b"'classic'", b"'lite', '--crit', '2s', '--deadline', '3s'"),
                capture_output=True,
                timeout=60,
                check=False,
            ).stdout
        )
        assert (stalled["verdict"], stalled["cause"]) == ("crit", "frozen_or_lock")
        assert stalled["dstate"]["own_in_d"] >= 1
    finally:
        box.thaw()
        shutil.rmtree(memory, ignore_errors=True)


def test_serve_sees_a_freeze_and_its_end_and_stays_small(box, probe):
    prom = probe.memory / "ddprobe.prom"
    words = ["serve", "--interval", "2s", "--passive-every", "1s", "--crit", "2s", "--deadline", "3s"]
    words += ["--max-credit-share", "100%", "--prom", prom, box.path]
    serving = probe.start(*words, stderr=subprocess.PIPE)
    try:
        assert told(prom, "ok", 10)
        box.freeze()
        assert told(prom, "frozen_or_lock", 10)
        assert len(in_state_d(box, probe)) == 1
        box.thaw()
        assert told(prom, "ok", 10)
        status = Path(f"/proc/{serving.pid}/status").read_text()
    finally:
        box.thaw()
        serving.send_signal(signal.SIGTERM)
        words_told = serving.communicate(timeout=20)[1]
    assert "frozen_or_lock" in words_told
    assert serving.returncode == 0
    rss_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert rss_kib <= 30 * 1024


def told(prom: Path, cause: str, within_s: float) -> bool:
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        if prom.exists() and any(
            f'cause="{cause}"' in line and line.endswith(" 1") for line in prom.read_text().splitlines()
        ):
            return True
        time.sleep(0.1)
    return False


def test_a_stall_is_put_on_the_watchdogs_bus_while_it_lasts(box, probe):
    cloud = Cloud()
    environment = os.environ | {
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": cloud.url,
        "AWS_ENDPOINT_URL": cloud.url,
    }
    box.freeze()
    words = [
        "--volume-id",
        "vol-0123456789abcdef0",
        "--event-bus",
        "probe",
        "--crit",
        "2s",
        "--deadline",
        "3s",
    ]
    try:
        reading = probe.read("run", *words, box.path, env=environment)
        until_s = time.monotonic() + 5  # a run does not wait for it longer than a second
        while not cloud.posts() and time.monotonic() < until_s:
            time.sleep(0.05)
        ((_, body),) = cloud.posts()
    finally:
        box.thaw()
        cloud.close()
    detail = json.loads(json.loads(body)["Entries"][0]["Detail"])
    assert (detail["schema"], detail["cause"]) == ("burstwatch.probe/v1", "frozen_or_lock")
    assert (detail["volume_id"], detail["instance_id"]) == ("vol-0123456789abcdef0", "i-0123456789abcdef0")
    assert detail["total_s"] == pytest.approx(reading["total_s"], abs=0.001)
    assert detail["top"][0].keys() == {"comm", "wchan", "count"}


# -- and the box itself

VICTIM = """
import sys, time
sys.path.insert(0, sys.argv[1])
from support.probe.throttled_disk import Box
from support.probe.fake_imds import Cloud
box = Box()
{deed}
print(box.folder, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("deed", ["box.freeze()", "box.stall()", "box.load(8)"])
def test_a_box_whose_owner_is_killed_leaves_nothing(deed):
    if boxes.why_not():
        pytest.skip(f"a real disk to slow down {boxes.why_not()}")
    code = VICTIM.format(deed=deed)
    command = [sys.executable, "-c", code, ROOT / "tests"]
    owner = start(command, stdout=subprocess.PIPE, text=True)
    folder = Path(owner.stdout.readline().strip())
    assert boxes.mounts_in(folder)
    owner.kill()
    owner.communicate(timeout=10)
    until_s = time.monotonic() + 20
    while folder.exists() and time.monotonic() < until_s:
        time.sleep(0.1)
    assert not folder.exists()
    assert boxes.mounts_in(folder) == boxes.loops_in(folder) == []

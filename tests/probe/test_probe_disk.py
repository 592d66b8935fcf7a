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
from support.probe import throttled_disk
from support.probe.fake_imds import Cloud
from support.probe.probe_process import PROGRAM, Probe, gone, start
from support.probe.throttled_disk import ThrottledDisk
from support.runbooks.external_commands import page_command


def count_operations(loop_disk: ThrottledDisk, probe: Probe, *arguments: object) -> dict[str, int]:
    """What the device did during a run; the file is there, and the journal quiet, beforehand."""
    probe.read("run", *arguments, loop_disk.path)
    throttled_disk.run("sync", "-f", loop_disk.path)
    before = loop_disk.stat()
    probe.read("run", *arguments, loop_disk.path)
    after = loop_disk.stat()
    return {key: after[key] - before[key] for key in before}


def in_state_d(loop_disk: ThrottledDisk, probe: Probe) -> list[str]:
    """Processes of ddprobe that wait for this disk."""
    places = (str(loop_disk.path), str(probe.run_dir))
    waiting = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                files = [str(fd.readlink()) for fd in (entry / "fd").iterdir()]
            except OSError:
                continue
            if fields[0] == "D" and any(name.startswith(places) for name in files):
                waiting.append(entry.name)
    return waiting


# -- the header's promise: each run spends this many


@pytest.mark.parametrize("engine", ["inproc", "dd"])
def test_a_classic_run_is_sixty_writes_of_which_twenty_flush(loop_disk, probe, engine):
    done = count_operations(loop_disk, probe, "--level", "classic", "--engine", engine)
    # 10 MiB in requests of 256 KiB are 40; 10 x journal descriptor and commit are 20
    assert 58 <= done["writes"] <= 66
    assert done["flushes"] in (20, 21)
    assert 10_240 <= done["kib"] <= 10_600
    assert done["writes"] + done["flushes"] <= ddprobe.CLASSIC_CREDITS


def test_a_lite_write_is_one_write_and_one_flush(loop_disk, probe):
    done = count_operations(loop_disk, probe, "--level", "lite", "--writes", "20")
    # an empty flush counts as a write too
    assert 40 <= done["writes"] <= 46
    assert 20 <= done["flushes"] <= 22
    assert done["kib"] <= 120


def test_looking_writes_nothing(loop_disk, probe):
    def io_of_a_look():
        before = loop_disk.stat()
        probe.read("passive", "--look", "500ms", loop_disk.path)
        probe.run("explain", loop_disk.path)
        after = loop_disk.stat()
        return {name: after[name] - before[name] for name in ("writes", "reads")}

    throttled_disk.run("sync", "-f", loop_disk.path)
    nothing = {"writes": 0, "reads": 0}
    # the file system itself may write at any time, but hardly during each of three looks
    assert nothing in (io_of_a_look() for _ in range(3))


def test_the_ladder_of_a_healthy_disk_stays_at_its_foot(loop_disk, probe):
    for _ in range(3):
        reading = probe.read("run", loop_disk.path)
        assert (reading["verdict"], reading["reached"]) == ("ok", "lite")
    assert reading["cost"]["credits"] == 42
    assert reading["healthy_s"] is not None or reading["ratio"] is None


# -- causes


@pytest.mark.usefixtures("limit")
def test_a_queue_at_two_hundred_iops_is_throttled_and_names_who_waits(loop_disk, probe):
    healthy = probe.read("run", "--level", "classic", loop_disk.path)
    loop_disk.limit(200)
    loop_disk.load(48)
    time.sleep(1.5)
    passive = probe.read("passive", loop_disk.path)
    assert (passive["verdict"], passive["cause"]) == ("crit", "throttled")
    reading = run_as_on_the_page(loop_disk, probe)
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
    loop_disk.limit(3000)
    time.sleep(2)
    assert probe.read("run", loop_disk.path)["verdict"] != "crit"


def run_as_on_the_page(loop_disk: ThrottledDisk, probe: Probe) -> dict[str, object]:
    """Run what ddprobe.md begins with: it says what is shown there, but for numbers, disk, and who waits."""
    line = page_command("ddprobe/ddprobe.md", "ddprobe run /data")
    _, *arguments = [str(loop_disk.path) if word == "/data" else word for word in line.text.split()]
    documented = (
        line.expected_output[0]
        .replace("/data (nvme1n1)", f"{loop_disk.path} ({loop_disk.device})")
        .removesuffix("…")
    )
    output = probe.run(*arguments).stdout
    assert without_numbers(output).startswith(without_numbers(documented)), output
    [state_file] = probe.run_dir.glob("*.json")
    return json.loads(state_file.read_text())


def without_numbers(text: str) -> str:
    return re.sub(r"\d[\d.,]*(?= )", "0", text)


@pytest.mark.usefixtures("limit")
def test_a_hundred_iops_without_other_load_is_exhausted_while_idle(loop_disk, probe):
    for _ in range(4):
        healthy = probe.read("run", "--level", "classic", "--max-credit-share", "100%", loop_disk.path)
    assert healthy["verdict"] == "ok"
    loop_disk.limit(100)
    time.sleep(1)
    reading = probe.read("run", "--level", "classic", "--max-credit-share", "100%", loop_disk.path)
    assert (reading["verdict"], reading["cause"]) == ("warn", "exhausted_idle")
    assert reading["ratio"] >= 5  # beside other work the healthy runs take longer


@pytest.mark.usefixtures("limit")
def test_the_levels_detect_a_hundred_iops_without_other_load_although_ten_pass_at_once(loop_disk, probe):
    """A limit of the kernel hands out a tenth of a second's operations at once: few writes feel nothing."""
    arguments = ["run", "--look", "100ms", "--max-credit-share", "100%", loop_disk.path]
    number = Path("/sys/block", loop_disk.device, "dev").read_text().strip().replace(":", "-")
    (probe.run_dir / f"{number}.memory").write_text(
        "lite 0.0005 0.0005 0.0005\n"
    )  # as on a machine at leisure
    loop_disk.limit(100)
    time.sleep(0.5)
    verdicts = []
    while ("warn", "exhausted_idle", "lite") not in verdicts:  # the first climbs, and then none for 150 s
        reading = probe.read(*arguments)
        verdicts.append((reading["verdict"], reading["cause"], reading["reached"]))
        assert reading["verdict"] != "crit"
        assert len(verdicts) < 10, verdicts  # a writer that waits for its processor too feels no limit


@pytest.mark.usefixtures("limit")
def test_of_ten_ticks_at_once_on_a_slow_disk_none_reports_that_all_is_well(loop_disk, probe):
    loop_disk.limit(100)
    loop_disk.load(48)
    time.sleep(1.5)
    arguments = ["run", "--json", "-", "--deadline", "8s", loop_disk.path]
    ticks = [probe.start(*arguments, stdout=subprocess.PIPE) for _ in range(10)]
    readings = [json.loads(tick.communicate(timeout=60)[0]) for tick in ticks]
    assert {(reading["verdict"], reading["cause"]) for reading in readings} == {("crit", "throttled")}
    assert sum(reading["reached"] == "classic" and not reading["skipped"] for reading in readings) == 1


def test_a_disk_from_which_nothing_comes_back_is_stalled(loop_disk, probe):
    assert probe.read("run", loop_disk.path)["verdict"] == "ok"
    loop_disk.stall()
    began_s = time.monotonic()
    reading = probe.read("run", loop_disk.path)
    took_s = time.monotonic() - began_s
    assert (reading["verdict"], reading["cause"], reading["completed"]) == ("crit", "stalled", False)
    assert took_s < 8
    assert reading["stuck_since"]
    again = probe.read("run", loop_disk.path)
    assert (again["verdict"], again["cause"]) == ("crit", "stalled")
    assert again["stuck_since"][:18] == reading["stuck_since"][:18]
    assert again["total_s"] > reading["total_s"]
    assert "still has one under way" in again["skipped"][0]
    loop_disk.thaw()
    time.sleep(0.5)
    assert probe.read("run", loop_disk.path)["verdict"] == "ok"


def test_a_frozen_file_system_is_distinguished_from_a_stalled_disk(loop_disk, probe):
    loop_disk.freeze()
    reading = probe.read("run", loop_disk.path)
    assert (reading["verdict"], reading["cause"], reading["completed"]) == ("crit", "frozen_or_lock", False)
    assert reading["disk"]["in_flight_max"] == 0
    assert reading["dstate"]["own_wchan"].startswith(ddprobe.LOCK_WAITS)
    loop_disk.thaw()


# -- it works while the disk does not


@pytest.mark.parametrize("level", ["lite", "classic", "ladder"])
@pytest.mark.parametrize("engine", ["inproc", "dd"])
def test_no_level_exceeds_its_deadline_and_the_writer_ends_with_the_stall(loop_disk, probe, level, engine):
    loop_disk.freeze()
    began_s = time.monotonic()
    arguments = ["--level", level, "--engine", engine, "--deadline", "3s", "--crit", "2s"]
    reading = probe.read("run", *arguments, loop_disk.path)
    assert time.monotonic() - began_s < 3 + 1
    assert (reading["verdict"], reading["completed"]) == ("crit", False)
    stuck = in_state_d(loop_disk, probe)
    assert len(stuck) == 1
    loop_disk.thaw()
    assert gone(stuck)


def test_ten_ticks_of_cron_leave_one_process_and_the_later_ones_report_since_when(loop_disk, probe):
    loop_disk.freeze()
    arguments = ["run", "--json", "-", "--crit", "2s", "--deadline", "3s", loop_disk.path]
    ticks = []
    for _ in range(10):
        ticks.append(probe.start(*arguments, stdout=subprocess.PIPE))
        time.sleep(0.3)
    readings = [json.loads(tick.communicate(timeout=60)[0]) for tick in ticks]
    assert len(in_state_d(loop_disk, probe)) == 1
    assert all(reading["completed"] is False for reading in readings)
    since = {reading["stuck_since"] for reading in readings}
    assert len(since) == 1 or max(since)[:19] == min(since)[:19]
    assert all("still has one under way" in reading["skipped"][0] for reading in readings[1:])
    assert all(reading["cause"] == "frozen_or_lock" for reading in readings)
    last = probe.read("run", loop_disk.path)
    assert last["total_s"] > 3
    stuck = in_state_d(loop_disk, probe)
    loop_disk.thaw()
    assert gone(stuck)
    time.sleep(0.2)
    assert probe.read("run", loop_disk.path)["verdict"] == "ok"


def test_a_log_on_the_stalled_disk_delays_nothing_and_the_reading_is_in_memory(loop_disk, probe):
    log, prom = loop_disk.path / "readings.json", loop_disk.path / "ddprobe.prom"
    arguments = ["run", "--json", log, "--prom", prom, "--crit", "2s", "--deadline", "3s", loop_disk.path]
    assert probe.run(*arguments).returncode == 0
    loop_disk.freeze()
    began_s = time.monotonic()
    done = probe.run(*arguments)
    assert time.monotonic() - began_s < 3 + 2
    assert done.returncode == 2
    assert f"not written now: {log}, {prom}" in done.stderr
    (state_file,) = probe.run_dir.glob("*.json")
    assert json.loads(state_file.read_text())["cause"] == "frozen_or_lock"
    stuck = in_state_d(loop_disk, probe)
    loop_disk.thaw()
    assert gone(stuck)
    assert len(stuck) == 1
    probe.run(*arguments)
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


def test_a_process_whose_memory_lock_is_held_in_state_d_does_not_hang_it(loop_disk, probe):
    """The state in which ps, pgrep, lsof and fuser hang: main thread asleep, a thread with mmap_lock in D."""
    command = [sys.executable, "-c", HOLDER, loop_disk.path / "mapped"]
    holder = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        loop_disk.freeze()
        holder.stdin.write(b"go\n")
        holder.stdin.flush()
        time.sleep(1.5)
        threads = [entry.read_text() for entry in Path(f"/proc/{holder.pid}/task").glob("*/stat")]
        states = [line.rpartition(")")[2].split()[0] for line in threads]
        assert "D" in states
        reading = probe.read("passive", loop_disk.path, within_s=10)
        assert (reading["verdict"], reading["cause"]) == ("warn", "frozen_or_lock")
        assert reading["dstate"]["stuck_here"] >= 1
        assert any(group["here"] for group in reading["dstate"]["top"])
    finally:
        loop_disk.thaw()
        holder.kill()
        holder.communicate(timeout=60)


def test_without_privileges_it_measures_and_reports_what_it_may_read(loop_disk):
    folder = loop_disk.path / "theirs"
    folder.mkdir(exist_ok=True)
    os.chown(folder, 65534, 65534)
    for parent in (loop_disk.path, loop_disk.folder):
        parent.chmod(0o755)
    run_dir = Path("/dev/shm/ddprobe-65534")
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-IS", "-"]
    source = PROGRAM.read_bytes() + b"\n"
    arguments = ["run", "--json", "-", "--level", "classic", "--max-credit-share", "100%", str(folder)]
    code = source.replace(b"sys.exit(main(sys.argv[1:]))", f"sys.exit(main({arguments!r}))".encode())
    try:
        done = subprocess.run(command, input=code, capture_output=True, timeout=60, check=False)
        reading = json.loads(done.stdout)
        assert (reading["verdict"], reading["completed"]) == ("ok", True)
        assert (folder / ".ddprobe").stat().st_uid == 65534
        loop_disk.freeze()
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
        loop_disk.thaw()
        shutil.rmtree(run_dir, ignore_errors=True)


def test_serve_sees_a_freeze_and_its_end_and_stays_small(loop_disk, probe):
    prom = probe.run_dir / "ddprobe.prom"
    arguments = ["serve", "--interval", "2s", "--passive-every", "1s", "--crit", "2s", "--deadline", "3s"]
    arguments += ["--max-credit-share", "100%", "--prom", prom, loop_disk.path]
    serving = probe.start(*arguments, stderr=subprocess.PIPE)
    try:
        assert is_reported(prom, "ok", 10)
        loop_disk.freeze()
        assert is_reported(prom, "frozen_or_lock", 10)
        assert len(in_state_d(loop_disk, probe)) == 1
        loop_disk.thaw()
        assert is_reported(prom, "ok", 10)
        status = Path(f"/proc/{serving.pid}/status").read_text()
    finally:
        loop_disk.thaw()
        serving.send_signal(signal.SIGTERM)
        text = serving.communicate(timeout=60)[1]
    assert "frozen_or_lock" in text
    assert serving.returncode == 0
    rss_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert rss_kib <= 30 * 1024


def is_reported(prom: Path, cause: str, within_s: float) -> bool:
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        if prom.exists() and any(
            f'cause="{cause}"' in line and line.endswith(" 1") for line in prom.read_text().splitlines()
        ):
            return True
        time.sleep(0.1)
    return False


def test_a_stall_is_put_on_the_watchdogs_bus_while_it_lasts(loop_disk, probe):
    cloud = Cloud()
    environment = os.environ | {
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": cloud.url,
        "AWS_ENDPOINT_URL": cloud.url,
    }
    loop_disk.freeze()
    arguments = [
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
        reading = probe.read("run", *arguments, loop_disk.path, env=environment)
        until_s = time.monotonic() + 5  # a run does not wait for it longer than a second
        while not cloud.posts() and time.monotonic() < until_s:
            time.sleep(0.05)
        ((_, body),) = cloud.posts()
    finally:
        loop_disk.thaw()
        cloud.close()
    detail = json.loads(json.loads(body)["Entries"][0]["Detail"])
    assert (detail["schema"], detail["cause"]) == ("burstwatch.probe/v1", "frozen_or_lock")
    assert (detail["volume_id"], detail["instance_id"]) == ("vol-0123456789abcdef0", "i-0123456789abcdef0")
    assert detail["total_s"] == pytest.approx(reading["total_s"], abs=0.001)
    assert detail["top"][0].keys() == {"comm", "wchan", "count"}


# -- the throttled disk itself

VICTIM = """
import sys, time
sys.path.insert(0, sys.argv[1])
from support.probe.throttled_disk import ThrottledDisk
from support.probe.fake_imds import Cloud
disk = ThrottledDisk()
{action}
print(disk.folder, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("action", ["disk.freeze()", "disk.stall()", "disk.load(8)"])
def test_a_throttled_disk_whose_owner_is_killed_leaves_nothing(action):
    if throttled_disk.why_not():
        pytest.skip(f"a real disk to slow down {throttled_disk.why_not()}")
    code = VICTIM.format(action=action)
    command = [sys.executable, "-c", code, ROOT / "tests"]
    owner = start(command, stdout=subprocess.PIPE, text=True)
    folder = Path(owner.stdout.readline().strip())
    assert throttled_disk.mounts_in(folder)
    owner.kill()
    owner.communicate(timeout=60)
    until_s = time.monotonic() + 20
    while folder.exists() and time.monotonic() < until_s:
        time.sleep(0.1)
    assert not folder.exists()
    assert throttled_disk.mounts_in(folder) == throttled_disk.loops_in(folder) == []

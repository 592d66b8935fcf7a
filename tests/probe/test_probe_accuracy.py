"""ddprobe says what is so: of throughput limits, full and read-only disks, missing counters, stuck tasks."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import ddprobe
import pytest

from support.probe import throttled_disk
from support.probe.probe_process import Probe, start
from support.probe.throttled_disk import ThrottledDisk


def remember(loop_disk: ThrottledDisk, probe: Probe, credit_count: float, climbed_ago_s: float = 0.0) -> None:
    """Give ddprobe credits that are left, and a classic write that it made before."""
    number = Path("/sys/block", loop_disk.device, "dev").read_text().strip().replace(":", "-")
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    line = f"credits {credit_count} {now_s:.3f} 0 {now_s - climbed_ago_s:.3f}\n"
    (probe.run_dir / f"{number}.memory").write_text(line)


def dd_s(loop_disk: ThrottledDisk) -> float:
    target = loop_disk.path / "dd"
    target.unlink(missing_ok=True)
    began_s = time.monotonic()
    throttled_disk.run("dd", "if=/dev/zero", f"of={target}", "bs=1M", "count=10", "oflag=sync")
    return time.monotonic() - began_s


def verdict(reading: dict) -> tuple[str, str]:
    return reading["verdict"], reading["cause"]


# -- throughput limits


@pytest.mark.usefixtures("limit")
def test_one_mib_a_second_without_other_load_is_critical_without_the_whole_dd(loop_disk, probe):
    probe.read("run", loop_disk.path)
    remember(loop_disk, probe, 600)  # so it does not climb
    loop_disk.limit_bytes(1 << 20)
    reading = probe.read("run", loop_disk.path)
    assert verdict(reading) == ("crit", "exhausted_idle")
    assert reading["reached"] == "lite"
    assert reading["dd_s"] == pytest.approx(10.1, rel=0.15)
    assert reading["total_s"] < 5


@pytest.mark.usefixtures("limit")
def test_five_megabytes_a_second_is_a_warning_measured_and_estimated(loop_disk, probe):
    probe.read("run", loop_disk.path)
    loop_disk.limit_bytes(5_400_000)
    took_s = dd_s(loop_disk)
    time.sleep(0.5)
    measured, estimated = (probe.read("run", "--look", "500ms", loop_disk.path) for _ in range(2))
    assert [verdict(result) for result in (measured, estimated)] == [("warn", "exhausted_idle")] * 2
    assert [result["reached"] for result in (measured, estimated)] == ["classic", "lite"]
    for reading in (measured, estimated):
        assert reading["dd_s"] == pytest.approx(took_s, rel=0.15)


@pytest.mark.usefixtures("limit")
def test_serve_sees_a_throughput_limit(loop_disk, probe):
    remember(loop_disk, probe, 600)
    prom = probe.run_dir / "ddprobe.prom"
    loop_disk.limit_bytes(1 << 20)
    arguments = ["serve", "--interval", "22s", "--classic-every", "1h", "--prom", prom, loop_disk.path]
    serving = probe.start(*arguments, stderr=subprocess.DEVNULL)
    try:
        until_s = time.monotonic() + 15
        while not prom.exists() and time.monotonic() < until_s:
            time.sleep(0.1)
        assert 'cause="exhausted_idle"} 1' in prom.read_text()
        assert "ddprobe_verdict{" in prom.read_text()
    finally:
        serving.terminate()
        serving.wait(60)


@pytest.mark.usefixtures("limit")
def test_just_over_the_line_the_measured_dd_decides(loop_disk, probe):
    probe.read("run", loop_disk.path)
    loop_disk.limit_bytes(9_500_000)
    took_s = dd_s(loop_disk)
    time.sleep(0.5)
    measured = probe.read("run", "--look", "100ms", loop_disk.path)
    assert measured["reached"] == "classic"
    assert measured["dd_s"] == pytest.approx(took_s, rel=0.25)


BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(100_000):
        pass
"""


@contextmanager
def busy_processors():
    """Four times as many busy processes as there are processors."""
    busy = [start([sys.executable, "-c", BUSY]) for _ in range(4 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait(60)


@pytest.mark.keeps_processors_busy
@pytest.mark.usefixtures("limit")
def test_busy_processors_do_not_hide_a_throughput_limit(loop_disk, probe):
    probe.read("run", loop_disk.path)
    loop_disk.limit_bytes(5_400_000)
    with busy_processors():
        for _ in range(8):  # one in seven was OK, with 0.73 and 0.95 s
            time.sleep(0.5)
            remember(loop_disk, probe, 600)  # so it does not climb
            reading = probe.read("run", "--look", "300ms", loop_disk.path)
            assert reading["verdict"] == "warn"
            assert reading["dd_s"] > 1  # dd takes 2 s, and as much longer as the processors are late


@pytest.mark.usefixtures("limit")
def test_what_is_appended_in_a_queue_is_charged(loop_disk, probe):
    probe.read("run", loop_disk.path)
    loop_disk.limit(10)
    remember(loop_disk, probe, 600)
    throttled_disk.run("sync", "-f", loop_disk.path)
    before = loop_disk.stat()
    reading = probe.read("run", "--look", "100ms", loop_disk.path)
    loop_disk.unlimit()
    throttled_disk.run("sync", "-f", loop_disk.path)
    after = loop_disk.stat()
    assert reading["append_ms"]
    assert reading["bulk_ms"] == []
    assert (loop_disk.path / ".ddprobe").stat().st_size == (1 + len(reading["append_ms"])) << 20
    assert after["writes"] - before["writes"] <= reading["cost"]["credits"] + 8


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize(("operations", "writers"), [(200, 0), (200, 8), (200, 24), (100, 16)])
def test_the_estimate_is_dd_under_a_limit_of_operations(loop_disk, probe, operations, writers):
    probe.read("run", loop_disk.path)
    loop_disk.limit(operations)
    loop_disk.load(writers) if writers else None
    time.sleep(1)
    took_s = sum(dd_s(loop_disk) for _ in range(2)) / 2
    remember(loop_disk, probe, 600)
    reading = probe.read("run", "--look", "500ms", loop_disk.path)
    assert reading["reached"] == "lite"
    # the kernel's own limit hands out a tenth of a second at once: alone, a run sees two or three of those
    assert reading["dd_at_least"] is (not writers)
    if reading["dd_at_least"]:
        assert (reading["verdict"], "would take at least" in ddprobe.headline(reading)) == ("ok", True)
        assert reading["dd_s"] < 1.15 * took_s
    else:
        assert reading["dd_s"] == pytest.approx(took_s, rel=0.15)


# -- credits


def test_no_run_spends_more_than_it_is_charged(loop_disk, probe):
    (loop_disk.path / ".ddprobe").unlink(missing_ok=True)
    throttled_disk.run("sync", "-f", loop_disk.path)
    for arguments in ([], [], ["--level", "lite"]):
        before = loop_disk.stat()
        reading = probe.read("run", "--look", "100ms", *arguments, loop_disk.path)
        after = loop_disk.stat()
        writes, flushes = (after[key] - before[key] for key in ("writes", "flushes"))
        # an empty flush counts among the writes too; what was written before is written back at the same time
        assert writes <= reading["cost"]["credits"] + 8, (arguments, writes, flushes)
        assert reading["cost"]["credits"] <= writes + 16
    assert reading["credits_total"] >= 42 + 42 + 2


@pytest.mark.parametrize("arguments", [["--level", "classic"], []])
def test_without_credits_of_its_own_it_reports_that_it_did_not_measure(loop_disk, probe, arguments):
    remember(loop_disk, probe, 0)
    done = probe.run("run", *arguments, "--look", "100ms", loop_disk.path)
    assert done.returncode == 3
    assert "UNKNOWN" in done.stdout
    assert "--max-credit-share" in done.stdout
    loop_disk.freeze()
    remember(loop_disk, probe, 0)
    done = probe.run("run", *arguments, "--look", "100ms", "--exit-style", "cron", loop_disk.path)
    assert done.returncode == 3
    assert "UNKNOWN" in done.stdout


@contextmanager
def full(loop_disk: ThrottledDisk):
    """Leave no room, except for root's own files if they exist."""
    filler = loop_disk.path / "filler"
    with filler.open("wb") as file:
        size = 1 << 24
        while size >= 4096:
            try:
                os.posix_fallocate(file.fileno(), file.seek(0, 2), size)
            except OSError:
                size //= 2
    try:
        yield
    finally:
        filler.unlink()


def test_a_refused_classic_is_not_charged_and_one_whose_file_exists_needs_no_room(loop_disk, probe):
    own = loop_disk.path / ".ddprobe"
    own.unlink(missing_ok=True)
    with full(loop_disk):
        refused = probe.read("run", "--level", "classic", loop_disk.path)
        assert (refused["verdict"], refused["error"]) == ("unknown", "ENOSPC")
        assert (refused["credits_total"], refused["cost"]["credits"]) == (0, 0)
    own.write_bytes(bytes(10 << 20))
    with full(loop_disk):
        assert probe.read("run", "--level", "classic", loop_disk.path)["verdict"] == "ok"


# -- a write that cannot be made takes nothing from what is known


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("size_kib", [0, 4, 1024])
def test_a_full_disk_that_is_throttled_is_throttled(loop_disk, probe, size_kib):
    own = loop_disk.path / ".ddprobe"
    own.unlink(missing_ok=True)
    loop_disk.load(0)  # makes its file
    loop_disk.idle()
    if size_kib:
        own.write_bytes(bytes(size_kib << 10))
    throttled_disk.run("sync", "-f", loop_disk.path)
    with full(loop_disk):
        loop_disk.limit(100)
        loop_disk.load(48)
        time.sleep(1.5)
        reading = probe.read("run", loop_disk.path)
        assert verdict(reading) == ("crit", "throttled")
        assert reading["dd_s"] > 5
        assert reading["error"] == "ENOSPC"
        assert any("ENOSPC" in why for why in reading["skipped"])
        assert reading["reached"] == ("lite" if size_kib else "passive")
        assert ddprobe.headline(reading).count("would take") == 1
        loop_disk.unlimit()
        loop_disk.idle()


def no_large_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))


def test_where_a_mib_may_not_be_written_the_small_writes_are_measured(loop_disk, probe):
    (loop_disk.path / ".ddprobe").unlink(missing_ok=True)
    reading = probe.read("run", "--look", "100ms", loop_disk.path, preexec_fn=no_large_files)
    assert (reading["verdict"], reading["error"], reading["bulk_ms"]) == ("ok", None, [])
    assert len(reading["write_ms"]) >= 16
    assert reading["skipped"] == ["bulk: File too large (EFBIG)"]
    assert "throughput not measured" in ddprobe.headline(reading)


# -- read-only


def test_a_mount_that_is_read_only_on_purpose_is_refused_and_an_error_is_not(loop_disk, probe, tmp_path):
    read_only, writable = tmp_path / "ro", tmp_path / "rw"
    for folder in (read_only, writable):
        folder.mkdir()
        throttled_disk.run("mount", "--bind", loop_disk.path, folder)
    try:
        throttled_disk.run("mount", "-o", "remount,bind,ro", read_only)
        done = probe.run("run", read_only)
        assert (done.returncode, done.stderr) == (3, "")
        assert "UNKNOWN" in done.stdout
        assert "mounted read-only" in done.stdout
        assert "(ext4, ro" in probe.run("explain", read_only).stdout
        assert probe.run("passive", read_only).returncode == 0
        throttled_disk.run(
            "mount", "-o", "remount,ro", loop_disk.path
        )  # the file system: what the kernel does after an error
        assert verdict(probe.read("run", writable)) == ("crit", "io_error")
    finally:
        throttled_disk.run("mount", "-o", "remount,rw,noatime", loop_disk.path)
        for folder in (read_only, writable):
            throttled_disk.run("umount", folder)


def test_a_disk_that_turns_read_only_while_it_is_served_has_an_error(loop_disk, probe):
    prom = probe.run_dir / "ddprobe.prom"
    arguments = ["serve", "--interval", "1s", "--max-credit-share", "100%", "--prom", prom, loop_disk.path]
    serving = probe.start(*arguments, stderr=subprocess.DEVNULL)
    try:
        assert is_reported(prom, "ok")
        throttled_disk.run("mount", "-o", "remount,ro", loop_disk.path)
        throttled_disk.run(
            "mount", "-o", "remount,bind,rw", loop_disk.path
        )  # the kernel leaves the mount writable
        assert is_reported(prom, "io_error")
        throttled_disk.run("mount", "-o", "remount,rw,noatime", loop_disk.path)
        assert is_reported(prom, "ok")
    finally:
        throttled_disk.run("mount", "-o", "remount,rw,noatime", loop_disk.path)
        serving.terminate()
        serving.wait(60)


def test_a_mount_made_read_only_on_purpose_while_it_is_served_is_no_error_of_the_disk(
    loop_disk, probe, tmp_path
):
    folder = tmp_path / "bound"
    folder.mkdir()
    throttled_disk.run("mount", "--bind", loop_disk.path, folder)
    log = probe.run_dir / "readings.json"
    arguments = ["serve", "--interval", "1s", "--max-credit-share", "100%", "--json", log, folder]
    serving = probe.start(*arguments, stderr=subprocess.DEVNULL)
    try:
        assert until_last(log, "ok")
        throttled_disk.run("mount", "-o", "remount,bind,ro", folder)
        assert until_last(log, "not_measured")
        throttled_disk.run("mount", "-o", "remount,bind,rw", folder)
        assert until_last(log, "ok")
        readings = [json.loads(line) for line in log.read_text().splitlines()]
        assert {reading["cause"] for reading in readings} == {"ok", "not_measured"}
        assert any("mounted read-only" in reading["reason"] for reading in readings)
    finally:
        serving.terminate()
        serving.wait(60)
        throttled_disk.run("umount", folder)


def until_last(log: Path, cause: str, within_s: float = 10) -> bool:
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        lines = log.read_text().splitlines() if log.exists() else []
        if lines and json.loads(lines[-1])["cause"] == cause:
            return True
        time.sleep(0.1)
    return False


def is_reported(prom: Path, cause: str, within_s: float = 10) -> bool:
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        if prom.exists() and f'cause="{cause}"}} 1' in prom.read_text():
            return True
        time.sleep(0.1)
    return False


def threads_in_d_reach(pid: int, count: int, within_s: float = 60) -> bool:
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        lines = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
        if sum(line.rpartition(")")[2].split()[0] == "D" for line in lines) >= count:
            return True
        time.sleep(0.1)
    return False


# -- who is stuck, and why

CROWD = """
import os, sys, threading, time
threading.stack_size(65536)
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
gate = threading.Event()
def write():
    gate.wait()
    os.pwrite(fd, b"x", 0)
for _ in range(int(sys.argv[2])):
    threading.Thread(target=write, daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
gate.set()
time.sleep(600)
"""


@pytest.mark.keeps_processors_busy
def test_four_thousand_threads_in_state_d_on_a_frozen_file_system_are_not_fine(loop_disk, probe):
    command = [sys.executable, "-c", CROWD, loop_disk.path / "crowd", "4000"]
    crowd = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        crowd.stdout.readline()
        loop_disk.freeze()
        crowd.stdin.write(b"go\n")
        crowd.stdin.flush()
        assert threads_in_d_reach(crowd.pid, 4000)
        reading = probe.read("passive", loop_disk.path)
        assert verdict(reading) == ("warn", "frozen_or_lock")
        assert reading["dstate"]["most_here"] >= 4000
        assert reading["dstate"]["stuck_here"] >= 3900
    finally:
        loop_disk.thaw()
        crowd.kill()
        crowd.communicate(timeout=60)


VFORK = """
import ctypes, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
libc = ctypes.CDLL(None)
if libc.syscall(int(sys.argv[2]), 0x4000 | 17, 0, 0, 0, 0) == 0:  # clone(CLONE_VFORK | SIGCHLD)
    libc.prctl(1, 9)
    libc.sleep(30)
    os._exit(0)
"""


def test_a_user_who_waits_in_vfork_is_no_evidence(loop_disk, probe):
    (loop_disk.path / "file").touch(mode=0o644)
    for parent in (loop_disk.path, loop_disk.folder):
        parent.chmod(0o755)
    clone = {"x86_64": "56", "aarch64": "220"}.get(os.uname().machine)
    if clone is None:
        pytest.skip("needs the number of clone(2) on this machine")
    code = [sys.executable, "-c", VFORK, loop_disk.path / "file", clone]
    forged = start(code)
    try:
        until_s = time.monotonic() + 5
        while "\nState:\tD" not in Path(f"/proc/{forged.pid}/status").read_text():
            assert time.monotonic() < until_s
            time.sleep(0.05)
        reading = probe.read("passive", loop_disk.path)
        assert reading["dstate"]["stuck"] >= 1
        assert reading["dstate"]["stuck_here"] == 0
        assert reading["verdict"] == "ok"
    finally:
        forged.kill()
        forged.wait(10)


BEHIND_FUSE = """
import ctypes, mmap, os, signal, struct, sys
held, server = os.open(sys.argv[1], os.O_RDONLY), os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = f"fd={server},rootmode=40000,user_id=65534,group_id=65534"
if libc.mount(b"hung", b"/mnt", b"fuse", 0, options.encode()):
    sys.exit(f"no mount: {os.strerror(ctypes.get_errno())}")
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
libc.prctl(1, signal.SIGKILL)
for _ in range(3):
    if os.fork() == 0:
        libc.prctl(1, signal.SIGKILL)
        os.close(server)
        page = mmap.mmap(os.open("/mnt/file", os.O_RDWR), 4096)
        page[0] = 1
        page.flush()
attributes = struct.pack("<6Q10I", 2, 65536, 128, 0, 0, 0, 0, 0, 0, 0o100644, 1, 65534, 65534, 0, 4096, 0)
folder = struct.pack("<6Q10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 65534, 65534, 0, 4096, 0)
while True:
    request = os.read(server, 1 << 17)
    _, kind, unique, node = struct.unpack("<IIQQ", request[:24])
    if kind in (2, 16):  # FORGET wants no answer, and WRITE gets none
        continue
    answer = {
        26: struct.pack("<4I2H2I2HI28x", 7, 31, 65536, 0, 12, 9, 65536, 1, 16, 0, 0),  # INIT
        1: struct.pack("<4Q2I", 2, 0, 9, 9, 0, 0) + attributes,  # LOOKUP
        3: struct.pack("<Q2I", 9, 0, 0) + (attributes if node == 2 else folder),  # GETATTR
        14: struct.pack("<Q2I", 1, 0, 0),  # OPEN
        15: bytes(65536),  # READ
    }.get(kind)
    size = struct.unpack("<I", request[56:60])[0] if kind == 15 else 1 << 17
    answer, fault = (answer[:size], 0) if answer else (b"", -38)
    os.write(server, struct.pack("<IiQ", 16 + len(answer), fault, unique) + answer)
"""


def test_a_user_whose_own_fuse_server_does_not_answer_is_no_evidence(loop_disk, probe):
    if not Path("/dev/fuse").exists() or not shutil.which("unshare"):
        pytest.skip("needs /dev/fuse and unshare")
    (loop_disk.path / "file").touch(mode=0o644)
    command = ["unshare", "--mount", sys.executable, "-c", BEHIND_FUSE, loop_disk.path / "file"]
    forged = start(command, start_new_session=True)
    try:
        until_s = time.monotonic() + 10
        while True:
            reading = probe.read("passive", "--look", "2s", loop_disk.path)
            top = [group for group in reading["dstate"]["top"] if group["here"]]
            is_waiting = any(group["wchan"].startswith("folio_wait") for group in top)
            if is_waiting and reading["dstate"]["stuck"]:
                break
            if time.monotonic() > until_s:
                pytest.skip(f"on this kernel no process waits for a page of FUSE by that name: {top}")
        assert reading["dstate"]["stuck"] >= 1
        assert reading["dstate"]["stuck_here"] == 0
        assert reading["verdict"] == "ok"
    finally:
        os.killpg(forged.pid, signal.SIGKILL)
        forged.wait(10)


@pytest.mark.usefixtures("limit")
def test_what_is_held_above_the_device_is_stalled_and_not_throttled(loop_disk, probe):
    probe.read("run", loop_disk.path)
    loop_disk.hold()
    arguments = ["--look", "1s", "--crit", "2s", "--deadline", "3s", loop_disk.path]
    try:
        reading = probe.read("run", *arguments)
        assert verdict(reading) == ("crit", "stalled")
        assert reading["completed"] is False
        assert verdict(probe.read("passive", loop_disk.path)) == ("warn", "stalled")
    finally:
        loop_disk.unlimit()
    time.sleep(1)


def test_without_counters_the_cause_is_reported_as_unknown(loop_disk, probe):
    counting = Path("/sys/block", loop_disk.device, "queue/iostats")
    counting.write_text("0")
    arguments = ["run", "--look", "100ms", "--crit", "2s", "--deadline", "3s", loop_disk.path]
    try:
        assert "iostats" in probe.run("explain", loop_disk.path).stdout
        assert probe.run("passive", "--look", "100ms", loop_disk.path).returncode == 3
        assert verdict(probe.read(*arguments)) == ("ok", "ok")
        loop_disk.stall()
        reading = probe.read(*arguments)
        assert verdict(reading) == ("crit", "unknown")
        assert "iostats" in reading["reason"]
        loop_disk.thaw()
        time.sleep(0.5)
        loop_disk.freeze()
        assert verdict(probe.read(*arguments)) == ("crit", "frozen_or_lock")  # that is seen in where we wait
    finally:
        loop_disk.thaw()
        counting.write_text("1")


def test_the_headline_names_the_tasks_of_this_disk_and_no_others(loop_disk, probe):
    reading = json.loads((probe.run("passive", "--json", "-", loop_disk.path)).stdout)
    stray = {"comm": "rustc", "wchan": "folio_wait", "unit": "", "here": False, "count": 3}
    tasks = reading["dstate"] | {"most": 3, "most_here": 0, "top": [stray]}
    assert "rustc" not in ddprobe.headline(reading | {"dstate": tasks})
    assert "state D" not in ddprobe.headline(reading | {"dstate": tasks})


# -- several paths of one disk


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("level", ["classic", "ladder"])
def test_paths_of_one_disk_do_not_take_each_other_for_a_stall(loop_disk, probe, level):
    folders = [loop_disk.path / f"path-{number}" for number in range(6)]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    loop_disk.limit(300)
    done = probe.run("run", "--level", level, "--json", "-", *folders)
    readings = [json.loads(line) for line in done.stdout.splitlines()]
    assert [reading["completed"] for reading in readings] == [True] * 6
    # The limit lets writes through in groups: some series wait for it often enough to see it, others do not.
    assert {reading["cause"] for reading in readings} <= {"ok", "exhausted_idle"}

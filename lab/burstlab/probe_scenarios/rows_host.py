"""Many probes at once, signals, clocks, privileges, what the host hides, and outputs that refuse."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from burstlab.disk.state_dir import wait_until
from burstlab.probe_scenarios.rows import HELD, is_alarm, is_crit, is_ok, is_unknown, row
from burstlab.probe_scenarios.stage import SkipError, Stage
from burstlab.probe_scenarios.table import WELL, Seen

_STARTS: Final = 30
_UNBOUND: Final = ("--max-credit-share", "100%")
_IN_TIME_S: Final = 12.0
_ENOUGH_MIB: Final = 10


@row("four-classics", "OK each, nothing left")
def four_classics(stage: Stage) -> bool:
    """Four `run --level classic` at once, one of them by dd itself."""
    options = ("run", "--level", "classic", *_UNBOUND)
    started = [stage.start(*options, truth=WELL) for _ in range(3)]
    started.append(stage.start(*options, "--engine", "dd", truth=WELL))
    seen = [stage.finish(each) for each in started]
    stage.count_left()
    return all(map(is_ok, seen)) and not stage.left


@row("two-throttled", "CRIT each")
def two_throttled(stage: Stage) -> bool:
    """Two runs at once, 100 IOPS and 48 writers."""
    stage.throttle()
    started = [stage.start("run") for _ in range(2)]
    return all(is_crit(stage.finish(each)) for each in started)


def _many(stage: Stage, *options: object) -> list[Seen]:
    """So many starts as cron would make of them, and what is left when each has answered."""
    started = []
    for _ in range(_STARTS):
        started.append(stage.start("run", *options))
        time.sleep(0.3)
    seen = [stage.finish(each) for each in started]
    stage.count_left()
    return seen


@row("thirty-starts", "CRIT each, one writer left")
def thirty_starts(stage: Stage) -> bool:
    """30 starts in a stall."""
    stage.probe("--look", "100ms", truth=None)
    stage.seen.clear()
    stage.stall()
    return all(is_crit(each) for each in _many(stage)) and stage.left <= 1


@row("thirty-cold", "no OK, at most 2 left")
def thirty_cold(stage: Stage) -> bool:
    """30 starts in a stall, names not cached."""
    stage.forget_names()
    stage.stall()
    seen = _many(stage)
    return not any(each.is_false_ok for each in seen) and stage.left <= 2  # noqa: PLR2004 - lookup and write


@row(
    "thirty-logs",
    "CRIT each, at most 3 left",
    fs=("ext4", "xfs"),
)
def thirty_logs(stage: Stage) -> bool:
    """30 starts in a stall, log and textfile on that disk."""
    outputs = ("--json", stage.path / "log.json", "--prom", stage.path / "ddprobe.prom")
    stage.probe("--look", "100ms", *outputs, truth=None)
    stage.seen.clear()
    stage.load(2)  # so that the journal is at work when it stands still
    stage.stall()
    seen = _many(stage, *outputs)
    return all(each.code == 2 for each in seen) and stage.left <= 3  # noqa: PLR2004 - writer, log, textfile


@row("log-on-it", "exit 2 in time")
def log_on_it(stage: Stage) -> bool:
    """Log and textfile on the stalled disk, one run."""
    outputs = ("--json", stage.path / "log.json", "--prom", stage.path / "ddprobe.prom")
    stage.probe("--look", "100ms", *outputs, truth=None)
    stage.seen.clear()
    stage.stall()
    seen = stage.probe(*outputs)
    return seen.code == 2 and seen.took_s < _IN_TIME_S  # noqa: PLR2004 - Nagios' CRITICAL


@row("stdout-on-it", "CRIT in time")
def stdout_on_it(stage: Stage) -> bool:
    """Stdout is a file on the stalled disk."""
    stage.probe("--look", "100ms", truth=None)
    stage.seen.clear()
    with (stage.path / "output").open("a") as output:
        output.write("here\n")
        output.flush()
        stage.stall()
        seen = stage.probe(stdout=output)
        stage.count_left()
        stage.resume()
    return is_crit(seen) and seen.took_s < _IN_TIME_S


@row("run-dir-on-it", "an answer within 30 s, no OK")
def run_dir_on_it(stage: Stage) -> bool:
    """`--run-dir` on the stalled disk."""
    run_dir = stage.path / "run"
    run_dir.mkdir(mode=0o700)
    stage.probe("--look", "100ms", run_dir=run_dir, truth=None)
    stage.seen.clear()
    stage.stall()
    seen = stage.probe(run_dir=run_dir, within_s=45)
    return seen.code in (2, 3) and seen.took_s < 30  # noqa: PLR2004 - as expected


@row(
    "killed-mid-classic",
    "the file stays below 10 MiB; the next run is OK",
)
def killed_mid_classic(stage: Stage) -> bool:
    """SIGTERM, then SIGKILL in the middle of classic."""
    held = []
    for number in (signal.SIGTERM, signal.SIGKILL):
        stage.device.limit(20)
        started = stage.start("run", "--level", "classic", *_UNBOUND, truth=None)
        time.sleep(1.5)
        started.process.send_signal(number)
        stage.finish(started)
        stage.seen.pop()
        stage.device.limit(3_000)
        time.sleep(1)
        own = stage.path / ".ddprobe"
        size_mib = own.stat().st_size / 2**20 if own.exists() else 0
        held.append(size_mib <= _ENOUGH_MIB and is_ok(stage.probe(*_UNBOUND, truth=WELL)))
        stage.notes.append(f"{size_mib:.0f} MiB after {number.name}")
    return all(held)


@row("serve-sigterm", "ends within 10 s")
def serve_sigterm(stage: Stage) -> bool:
    """SIGTERM of `serve` in an incident."""
    with stage.serve(*_UNBOUND, "--interval", "5s") as serving:
        serving.wait_for(lambda _: True, 15)
        stage.throttle()
        serving.wait_for(lambda each: each["verdict"] == "crit", 30)
        time.sleep(3)
        serving.process.terminate()
        began_s = time.monotonic()
        wait_until(lambda: serving.process.poll() is not None, 40)
        took_s = time.monotonic() - began_s
        code = serving.process.poll()
    stage.notes.append(f"ended after {took_s:.1f} s, exit {code}")
    return took_s < 10 and code == 0  # noqa: PLR2004 - what systemd gave it


_SHIFTED: Final = """
import runpy, sys, time
real, began_s = time.time, time.monotonic()
shift_s, after_s = float(sys.argv[1]), float(sys.argv[2])
time.time = lambda: real() + (shift_s if time.monotonic() - began_s >= after_s else 0)
sys.argv = sys.argv[3:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""The probe with another time of day; nothing else of the machine notices."""


def _with_clock(stage: Stage, shift_s: int, after_s: float, truth: str, path: object) -> Seen:
    python = stage.python("-c", _SHIFTED, str(shift_s), str(after_s))
    return stage.finish(stage.start("run", truth=truth, program=python, paths=[path]))


@row(
    "wall-clock",
    "no effect: OK, OK, OK, CRIT",
)
def wall_clock(stage: Stage) -> bool:
    """The time of day jumps by -1 and +30 days, between runs and during one; in a stall."""
    day_s = 86_400
    jumps = ((0, 0.0), (-day_s, 0.0), (30 * day_s, 0.5))
    held = [is_ok(_with_clock(stage, shift_s, after_s, WELL, stage.path)) for shift_s, after_s in jumps]
    stage.stall()
    seen = _with_clock(stage, -day_s, 2.0, "sick", stage.path)
    return all(held) and is_crit(seen, "stalled") and seen.took_s < _IN_TIME_S


@row("crowd-stall", "CRIT, in time")
def crowd_stall(stage: Stage) -> bool:
    """4,000 threads in D, total stall."""
    stage.load(4_000)
    stage.stall()
    time.sleep(3)
    seen = stage.probe()
    return is_crit(seen) and seen.took_s < _IN_TIME_S


@row("crowd-freeze", "WARN, CRIT")
def crowd_freeze(stage: Stage) -> bool:
    """4,000 threads in D, fsfreeze: `passive`, `run`."""
    stage.load(4_000)
    stage.freeze()
    time.sleep(3)
    passive, seen = stage.probe(mode="passive"), stage.probe()
    stage.thaw()
    return is_alarm(passive) and is_crit(seen)


@row("nobody-throttled", "CRIT throttled")
def nobody_throttled(stage: Stage) -> bool:
    """Uid 65534 in its own directory, 100 IOPS and 48 writers."""
    return is_crit(_as_nobody(stage, stage.throttle), "throttled")


@row("nobody-stall", "CRIT stalled")
def nobody_stall(stage: Stage) -> bool:
    """Uid 65534 in its own directory, total stall."""
    return is_crit(_as_nobody(stage, stage.stall), "stalled")


@row(
    "hidepid",
    "CRIT throttled, says that tasks are hidden",
)
def hidepid(stage: Stage) -> bool:
    """Uid 65534, /proc with hidepid=2, 100 IOPS and 48 writers."""
    seen = _as_nobody(stage, stage.throttle, "mount -t proc -o hidepid=2 proc /proc;")
    return is_crit(seen, "throttled") and bool((seen.reading.get("dstate") or {}).get("hidden"))


def _as_nobody(stage: Stage, deed: object, script: str = "") -> Seen:
    theirs = stage.device.mount / "theirs"
    theirs.mkdir(mode=0o755)
    os.chown(theirs, 65534, 65534)
    assert callable(deed)
    deed()
    return stage.probe_as_nobody(where=theirs, script=script)


@row("no-proc", "exit 3, with a clear message")
def no_proc(stage: Stage) -> bool:
    """No /proc."""
    seen = stage.probe(truth=WELL, prefix=stage.in_namespace("mount -t tmpfs none /proc"))
    return is_unknown(seen) and "Traceback" not in seen.said and bool(seen.said)


_NO_SYSFS: Final = "mount -t tmpfs none /sys"


@row("no-sysfs-throttled", "CRIT, not called idle")
def no_sysfs_throttled(stage: Stage) -> bool:
    """No /sys, 100 IOPS and 48 writers."""
    stage.throttle()
    seen = stage.probe(prefix=stage.in_namespace(_NO_SYSFS))
    return is_crit(seen) and seen.cause != "exhausted_idle"


@row("no-sysfs-stall", "CRIT, not called throttled")
def no_sysfs_stall(stage: Stage) -> bool:
    """No /sys, total stall."""
    stage.stall()
    seen = stage.probe(prefix=stage.in_namespace(_NO_SYSFS))
    return is_crit(seen) and seen.cause != "throttled"


@row("no-iostats-throttled", "no OK, CRIT")
def no_iostats_throttled(stage: Stage) -> bool:
    """Queue/iostats=0, 100 IOPS and 24 writers: `passive`, `run`."""
    with _no_iostats(stage):
        stage.throttle(writers=24)
        passive, seen = stage.probe(mode="passive"), stage.probe()
    return passive.verdict != "ok" and is_crit(seen)


@row("no-iostats-stall", "CRIT, not called throttled")
def no_iostats_stall(stage: Stage) -> bool:
    """Queue/iostats=0, total stall."""
    with _no_iostats(stage):
        stage.stall()
        seen = stage.probe()
    return is_crit(seen) and seen.cause in (*HELD, "not_measured", "unknown")


@contextmanager
def _no_iostats(stage: Stage) -> Iterator[None]:
    """The setting outlives the loop device: the next user of its number would have it."""
    setting = Path(f"/sys/block/{stage.device.loop}/queue/iostats")
    setting.write_text("0", encoding="ascii")
    try:
        yield
    finally:
        stage.resume()
        setting.write_text("1", encoding="ascii")


@row("closed", "OK each")
def closed(stage: Stage) -> bool:
    """Stdin, stdout, stderr closed, two of them, all three."""
    held = []
    for which in ("<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"):
        prefix = ["sh", "-c", f'exec "$@" {which}', "sh"]
        held.append(is_ok(stage.probe(*_UNBOUND, "--look", "100ms", truth=WELL, prefix=prefix)))
    return all(held)


@row(
    "outputs-refuse",
    "exit 2 in time",
)
def outputs_refuse(stage: Stage) -> bool:
    """Stdout is /dev/full, a broken pipe, a full pipe nobody reads; in a stall."""
    stage.probe("--look", "100ms", truth=None)
    stage.seen.clear()
    stage.stall()
    held = []
    with open("/dev/full", "w", encoding="ascii") as full:  # noqa: PTH123 - a device
        held.append(stage.probe(stdout=full))
    reader, writer = os.pipe()
    os.close(reader)
    held.append(stage.probe(stdout=writer))
    os.close(writer)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while os.write(writer, bytes(4096)):
            pass
    except BlockingIOError:
        os.set_blocking(writer, True)
    held.append(stage.probe(stdout=writer))
    os.close(writer)
    os.close(reader)
    return all(each.code == 2 and each.took_s < _IN_TIME_S for each in held)  # noqa: PLR2004 - CRITICAL


@row("callers-pipe", "the pipe closes in time")
def callers_pipe(stage: Stage) -> bool:
    """The caller reads to the end of a pipe, in a stall."""
    stage.stall()
    seen = stage.probe()
    stage.count_left()
    return is_crit(seen) and seen.took_s < _IN_TIME_S


@row("credits-spent", "CRIT or UNKNOWN")
def credits_spent(stage: Stage) -> bool:
    """One more `run --level classic` than its credits allow, on a frozen file system."""
    for _ in range(10):  # the allowance of 600 credits, and what is refilled
        stage.probe("--level", "classic", "--look", "100ms", truth=None)
    stage.seen.clear()
    stage.freeze()
    seen = stage.probe("--level", "classic")
    return is_crit(seen) or is_unknown(seen)


@row("serve-lookups", "no more than 8 tasks in 20 s")
def serve_lookups(stage: Stage) -> bool:
    """`serve` started while lookups hang, at most 32 tasks."""
    most = stage.cgroup / "pids.max"
    if not most.exists():
        raise SkipError("needs the pids controller")
    stage.forget_names()
    stage.stall()
    most.write_text("32", encoding="ascii")
    peak = 0
    with stage.serve(*_UNBOUND, "--interval", "3s", "--passive-every", "1s"):
        until_s = time.monotonic() + 20
        while time.monotonic() < until_s:
            peak = max(peak, len((stage.cgroup / "cgroup.procs").read_text(encoding="ascii").split()))
            time.sleep(0.2)
    stage.notes.append(f"{peak} tasks at most")
    return 0 < peak <= 8  # noqa: PLR2004 - as expected

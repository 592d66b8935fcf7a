"""Many probes at once, signals, clocks, privileges, what the host hides, and outputs that refuse."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from burstlab.disk.state_dir import wait_until
from burstlab.probe_scenarios.registry import HELD_CAUSES, is_alarm, is_crit, is_ok, is_unknown, scenario
from burstlab.probe_scenarios.table import HEALTHY, ProbeRun
from burstlab.probe_scenarios.testbed import SkipError, Testbed

_START_COUNT: Final = 30  # as many as a misconfigured monitoring would start in some minutes
_NO_CREDIT_LIMIT: Final = ("--max-credit-share", "100%")
_MAX_ANSWER_S: Final = 12.0  # critical takes 5 s; the rest is for starting processes on a busy host
_MAX_OWN_FILE_MIB: Final = 10  # the probe's file must not fill a small disk


@scenario("four-classics", "OK each, nothing left")
def four_classics(testbed: Testbed) -> bool:
    """Four `run --level classic` at once, one of them by dd itself."""
    options = ("run", "--level", "classic", *_NO_CREDIT_LIMIT)
    started = [testbed.start(*options, truth=HEALTHY) for _ in range(3)]
    started.append(testbed.start(*options, "--engine", "dd", truth=HEALTHY))
    probe_runs = [testbed.finish(running_probe) for running_probe in started]
    testbed.count_processes_left()
    return all(map(is_ok, probe_runs)) and not testbed.processes_left


@scenario("two-throttled", "CRIT each")
def two_throttled(testbed: Testbed) -> bool:
    """Two runs at once, 100 IOPS and 48 writers."""
    testbed.throttle()
    started = [testbed.start("run") for _ in range(2)]
    return all(is_crit(testbed.finish(running_probe)) for running_probe in started)


def _start_many(testbed: Testbed, *options: object) -> list[ProbeRun]:
    """Start many probes at once, as cron would, and count what is left when each has ended."""
    started = []
    for _ in range(_START_COUNT):
        started.append(testbed.start("run", *options))
        time.sleep(0.3)
    probe_runs = [testbed.finish(running_probe) for running_probe in started]
    testbed.count_processes_left()
    return probe_runs


@scenario("thirty-starts", "CRIT each, one writer left")
def thirty_starts(testbed: Testbed) -> bool:
    """30 starts in a stall."""
    testbed.probe("--look", "100ms", truth=None)
    testbed.probe_runs.clear()
    testbed.stall()
    return all(is_crit(probe_run) for probe_run in _start_many(testbed)) and testbed.processes_left <= 1


@scenario("thirty-cold", "no OK, at most 2 left")
def thirty_cold(testbed: Testbed) -> bool:
    """30 starts in a stall, names not cached."""
    testbed.drop_name_cache()
    testbed.stall()
    probe_runs = _start_many(testbed)
    return not any(probe_run.is_false_ok for probe_run in probe_runs) and testbed.processes_left <= 2  # noqa: PLR2004 - lookup and write


@scenario(
    "thirty-logs",
    "CRIT each, at most 3 left",
    file_systems=("ext4", "xfs"),
)
def thirty_logs(testbed: Testbed) -> bool:
    """30 starts in a stall, log and textfile on that disk."""
    outputs = ("--json", testbed.path / "log.json", "--prom", testbed.path / "ddprobe.prom")
    testbed.probe("--look", "100ms", *outputs, truth=None)
    testbed.probe_runs.clear()
    testbed.start_load(2)  # so that the journal is at work when it stands still
    testbed.stall()
    probe_runs = _start_many(testbed, *outputs)
    return all(probe_run.code == 2 for probe_run in probe_runs) and testbed.processes_left <= 3  # noqa: PLR2004 - writer, log, textfile


@scenario("log-on-it", "exit 2 in time")
def log_on_it(testbed: Testbed) -> bool:
    """Log and textfile on the stalled disk, one run."""
    outputs = ("--json", testbed.path / "log.json", "--prom", testbed.path / "ddprobe.prom")
    testbed.probe("--look", "100ms", *outputs, truth=None)
    testbed.probe_runs.clear()
    testbed.stall()
    probe_run = testbed.probe(*outputs)
    return probe_run.code == 2 and probe_run.duration_s < _MAX_ANSWER_S  # noqa: PLR2004 - Nagios' CRITICAL


@scenario("stdout-on-it", "CRIT in time")
def stdout_on_it(testbed: Testbed) -> bool:
    """Stdout is a file on the stalled disk."""
    testbed.probe("--look", "100ms", truth=None)
    testbed.probe_runs.clear()
    with (testbed.path / "output").open("a") as output:
        output.write("here\n")
        output.flush()
        testbed.stall()
        probe_run = testbed.probe(stdout=output)
        testbed.count_processes_left()
        testbed.resume()
    return is_crit(probe_run) and probe_run.duration_s < _MAX_ANSWER_S


@scenario("run-dir-on-it", "an answer within 30 s, no OK")
def run_dir_on_it(testbed: Testbed) -> bool:
    """`--run-dir` on the stalled disk."""
    run_dir = testbed.path / "run"
    run_dir.mkdir(mode=0o700)
    testbed.probe("--look", "100ms", run_dir=run_dir, truth=None)
    testbed.probe_runs.clear()
    testbed.stall()
    probe_run = testbed.probe(run_dir=run_dir, timeout_s=45)
    return probe_run.code in (2, 3) and probe_run.duration_s < 30  # noqa: PLR2004 - as expected


@scenario(
    "killed-mid-classic",
    "the file stays below 10 MiB; the next run is OK",
)
def killed_mid_classic(testbed: Testbed) -> bool:
    """SIGTERM, then SIGKILL in the middle of classic."""
    results = []
    for number in (signal.SIGTERM, signal.SIGKILL):
        testbed.device.set_iops_limit(20)
        started = testbed.start("run", "--level", "classic", *_NO_CREDIT_LIMIT, truth=None)
        time.sleep(1.5)
        started.process.send_signal(number)
        testbed.finish(started)
        testbed.probe_runs.pop()
        testbed.device.set_iops_limit(3_000)
        time.sleep(1)
        own_file = testbed.path / ".ddprobe"
        size_mib = own_file.stat().st_size / 2**20 if own_file.exists() else 0
        results.append(
            size_mib <= _MAX_OWN_FILE_MIB and is_ok(testbed.probe(*_NO_CREDIT_LIMIT, truth=HEALTHY))
        )
        testbed.notes.append(f"{size_mib:.0f} MiB after {number.name}")
    return all(results)


@scenario("serve-sigterm", "ends within 10 s")
def serve_sigterm(testbed: Testbed) -> bool:
    """SIGTERM of `serve` in an incident."""
    with testbed.serve(*_NO_CREDIT_LIMIT, "--interval", "5s") as serving:
        serving.wait_for(lambda _: True, 15)
        testbed.throttle()
        serving.wait_for(lambda reading: reading["verdict"] == "crit", 30)
        time.sleep(3)
        serving.process.terminate()
        terminated_at_s = time.monotonic()
        wait_until(lambda: serving.process.poll() is not None, 40)
        took_s = time.monotonic() - terminated_at_s
        code = serving.process.poll()
    testbed.notes.append(f"ended after {took_s:.1f} s, exit {code}")
    return took_s < 10 and code == 0  # noqa: PLR2004 - what systemd gave it


_SHIFTED_CLOCK_SCRIPT: Final = """
import runpy, sys, time
real, began_s = time.time, time.monotonic()
shift_s, after_s = float(sys.argv[1]), float(sys.argv[2])
time.time = lambda: real() + (shift_s if time.monotonic() - began_s >= after_s else 0)
sys.argv = sys.argv[3:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""The probe with another time of day; nothing else of the machine notices."""


def _probe_with_clock(testbed: Testbed, shift_s: int, after_s: float, truth: str, path: object) -> ProbeRun:
    python = testbed.python("-c", _SHIFTED_CLOCK_SCRIPT, str(shift_s), str(after_s))
    return testbed.finish(testbed.start("run", truth=truth, program=python, paths=[path]))


@scenario(
    "wall-clock",
    "no effect: OK, OK, OK, CRIT",
)
def wall_clock(testbed: Testbed) -> bool:
    """The time of day jumps by -1 and +30 days, between runs and during one; in a stall."""
    day_s = 86_400
    jumps = ((0, 0.0), (-day_s, 0.0), (30 * day_s, 0.5))
    results = [
        is_ok(_probe_with_clock(testbed, shift_s, after_s, HEALTHY, testbed.path))
        for shift_s, after_s in jumps
    ]
    testbed.stall()
    probe_run = _probe_with_clock(testbed, -day_s, 2.0, "sick", testbed.path)
    return all(results) and is_crit(probe_run, "stalled") and probe_run.duration_s < _MAX_ANSWER_S


@scenario("crowd-stall", "CRIT, in time")
def crowd_stall(testbed: Testbed) -> bool:
    """4,000 threads in D, total stall."""
    testbed.start_load(4_000)
    testbed.stall()
    time.sleep(3)
    probe_run = testbed.probe()
    return is_crit(probe_run) and probe_run.duration_s < _MAX_ANSWER_S


@scenario("crowd-freeze", "WARN, CRIT")
def crowd_freeze(testbed: Testbed) -> bool:
    """4,000 threads in D, fsfreeze: `passive`, `run`."""
    testbed.start_load(4_000)
    testbed.freeze()
    time.sleep(3)
    passive, probe_run = testbed.probe(mode="passive"), testbed.probe()
    testbed.thaw()
    return is_alarm(passive) and is_crit(probe_run)


@scenario("nobody-throttled", "CRIT throttled")
def unprivileged_throttled(testbed: Testbed) -> bool:
    """Uid 65534 in its own directory, 100 IOPS and 48 writers."""
    return is_crit(_probe_unprivileged_after(testbed, testbed.throttle), "throttled")


@scenario("nobody-stall", "CRIT stalled")
def unprivileged_stall(testbed: Testbed) -> bool:
    """Uid 65534 in its own directory, total stall."""
    return is_crit(_probe_unprivileged_after(testbed, testbed.stall), "stalled")


@scenario(
    "hidepid",
    "CRIT throttled, says that tasks are hidden",
)
def hidepid(testbed: Testbed) -> bool:
    """Uid 65534, /proc with hidepid=2, 100 IOPS and 48 writers."""
    probe_run = _probe_unprivileged_after(testbed, testbed.throttle, "mount -t proc -o hidepid=2 proc /proc;")
    return is_crit(probe_run, "throttled") and bool((probe_run.reading.get("dstate") or {}).get("hidden"))


def _probe_unprivileged_after(testbed: Testbed, disturb: object, script: str = "") -> ProbeRun:
    directory = testbed.device.mount / "theirs"
    directory.mkdir(mode=0o755)
    os.chown(directory, 65534, 65534)
    assert callable(disturb)
    disturb()
    return testbed.probe_unprivileged(directory=directory, script=script)


@scenario("no-proc", "exit 3, with a clear message")
def no_proc(testbed: Testbed) -> bool:
    """No /proc."""
    probe_run = testbed.probe(truth=HEALTHY, prefix=testbed.in_namespace("mount -t tmpfs none /proc"))
    return is_unknown(probe_run) and "Traceback" not in probe_run.output and bool(probe_run.output)


_NO_SYSFS: Final = "mount -t tmpfs none /sys"


@scenario("no-sysfs-throttled", "CRIT, not called idle")
def no_sysfs_throttled(testbed: Testbed) -> bool:
    """No /sys, 100 IOPS and 48 writers."""
    testbed.throttle()
    probe_run = testbed.probe(prefix=testbed.in_namespace(_NO_SYSFS))
    return is_crit(probe_run) and probe_run.cause != "exhausted_idle"


@scenario("no-sysfs-stall", "CRIT, not called throttled")
def no_sysfs_stall(testbed: Testbed) -> bool:
    """No /sys, total stall."""
    testbed.stall()
    probe_run = testbed.probe(prefix=testbed.in_namespace(_NO_SYSFS))
    return is_crit(probe_run) and probe_run.cause != "throttled"


@scenario("no-iostats-throttled", "no OK, CRIT")
def no_iostats_throttled(testbed: Testbed) -> bool:
    """Queue/iostats=0, 100 IOPS and 24 writers: `passive`, `run`."""
    with _no_iostats(testbed):
        testbed.throttle(writers=24)
        passive, probe_run = testbed.probe(mode="passive"), testbed.probe()
    return passive.verdict != "ok" and is_crit(probe_run)


@scenario("no-iostats-stall", "CRIT, not called throttled")
def no_iostats_stall(testbed: Testbed) -> bool:
    """Queue/iostats=0, total stall."""
    with _no_iostats(testbed):
        testbed.stall()
        probe_run = testbed.probe()
    return is_crit(probe_run) and probe_run.cause in (*HELD_CAUSES, "not_measured", "unknown")


@contextmanager
def _no_iostats(testbed: Testbed) -> Iterator[None]:
    """The setting outlives the loop device: the next user of its number would have it."""
    setting = Path(f"/sys/block/{testbed.device.loop}/queue/iostats")
    setting.write_text("0", encoding="ascii")
    try:
        yield
    finally:
        testbed.resume()
        setting.write_text("1", encoding="ascii")


@scenario("closed", "OK each")
def closed(testbed: Testbed) -> bool:
    """Stdin, stdout, stderr closed, two of them, all three."""
    results = []
    for redirections in ("<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"):
        prefix = ["sh", "-c", f'exec "$@" {redirections}', "sh"]
        results.append(
            is_ok(testbed.probe(*_NO_CREDIT_LIMIT, "--look", "100ms", truth=HEALTHY, prefix=prefix))
        )
    return all(results)


@scenario(
    "outputs-refuse",
    "exit 2 in time",
)
def outputs_refuse(testbed: Testbed) -> bool:
    """Stdout is /dev/full, a broken pipe, a full pipe without a reader; in a stall."""
    testbed.probe("--look", "100ms", truth=None)
    testbed.probe_runs.clear()
    testbed.stall()
    probe_runs = []
    with open("/dev/full", "w", encoding="ascii") as full_device:  # noqa: PTH123 - a device
        probe_runs.append(testbed.probe(stdout=full_device))
    reader, writer = os.pipe()
    os.close(reader)
    probe_runs.append(testbed.probe(stdout=writer))
    os.close(writer)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while os.write(writer, bytes(4096)):
            pass
    except BlockingIOError:
        os.set_blocking(writer, True)
    probe_runs.append(testbed.probe(stdout=writer))
    os.close(writer)
    os.close(reader)
    return all(probe_run.code == 2 and probe_run.duration_s < _MAX_ANSWER_S for probe_run in probe_runs)  # noqa: PLR2004 - CRITICAL


@scenario("callers-pipe", "the pipe closes in time")
def callers_pipe(testbed: Testbed) -> bool:
    """The caller reads to the end of a pipe, in a stall."""
    testbed.stall()
    probe_run = testbed.probe()
    testbed.count_processes_left()
    return is_crit(probe_run) and probe_run.duration_s < _MAX_ANSWER_S


@scenario("credits-spent", "CRIT or UNKNOWN")
def credits_spent(testbed: Testbed) -> bool:
    """One more `run --level classic` than its credits allow, on a frozen file system."""
    for _ in range(10):  # the allowance of 600 credits, and what is refilled
        testbed.probe("--level", "classic", "--look", "100ms", truth=None)
    testbed.probe_runs.clear()
    testbed.freeze()
    probe_run = testbed.probe("--level", "classic")
    return is_crit(probe_run) or is_unknown(probe_run)


@scenario("serve-lookups", "no more than 8 tasks in 20 s")
def serve_lookups(testbed: Testbed) -> bool:
    """`serve` started while lookups hang, at most 32 tasks."""
    limit_file = testbed.cgroup / "pids.max"
    if not limit_file.exists():
        raise SkipError("needs the pids controller")
    testbed.drop_name_cache()
    testbed.stall()
    limit_file.write_text("32", encoding="ascii")
    peak = 0
    with testbed.serve(*_NO_CREDIT_LIMIT, "--interval", "3s", "--passive-every", "1s"):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            peak = max(peak, len((testbed.cgroup / "cgroup.procs").read_text(encoding="ascii").split()))
            time.sleep(0.2)
    testbed.notes.append(f"{peak} tasks at most")
    return 0 < peak <= 8  # noqa: PLR2004 - as expected

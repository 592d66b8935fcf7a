"""The cost of ddprobe and the time to a verdict, on a real disk; compared with ioping and fio if installed.

.venv/bin/python lab/bench/probe.py             everything but hour, in about eight minutes; needs root.
.venv/bin/python lab/bench/probe.py levels serve causes sick passes   some of it.
.venv/bin/python lab/bench/probe.py hour        a healthy hour of serve, reported every ten minutes.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "ddprobe")]

import ddprobe  # noqa: E402

from support.probe import throttled_disk  # noqa: E402

PROGRAM: Final = [sys.executable, "-IS", ddprobe.__file__]
NO_CREDIT_LIMIT: Final = ["--max-credit-share", "100%"]
# long enough to average over many rounds of the resident probe, short enough for a benchmark run
HEALTHY_S: Final = 120
INCIDENT_S: Final = 60
TENTHS_OF_AN_HOUR: Final = 6  # an hour in lines of ten minutes each
PASSES: Final = 20  # the mean of this many passes varies by a few per cent
THREADS: Final = (100, 4000)
UNPRIVILEGED_UID: Final = 65534  # the usual user ID of a user without rights


class Bench:
    """A disk under test, and a folder in memory for the state of ddprobe."""

    def __init__(self, disk: throttled_disk.ThrottledDisk, memory_directory: Path) -> None:
        self.disk, self.memory_directory = disk, memory_directory

    def command(self, *arguments: object) -> list[str]:
        return [
            *PROGRAM,
            str(arguments[0]),
            "--run-dir",
            str(self.memory_directory),
            *(str(argument) for argument in arguments[1:]),
        ]

    def read(self, *arguments: object) -> dict:
        completed = subprocess.run(
            self.command(*arguments, "--json", "-"), stdout=subprocess.PIPE, check=False, timeout=120
        )
        return json.loads(completed.stdout)


def measure_levels(bench: Bench) -> None:
    """Writes, flushes, processor time and memory of one run of each level and of the tools like it."""
    path = bench.disk.path
    lite = ("run", "--level", "lite", *NO_CREDIT_LIMIT, path)
    classic = ("run", "--level", "classic", *NO_CREDIT_LIMIT, path)
    rows = {
        "ddprobe passive (2 s)": bench.command("passive", path),
        "ddprobe lite, one write": bench.command(*lite),
        "ddprobe ladder, healthy": bench.command("run", path),
        "ddprobe classic, in process": bench.command(*classic),
        "ddprobe classic, dd itself": bench.command(*classic, "--engine", "dd"),
        "dd bs=1M count=10 oflag=sync": [
            "dd", "if=/dev/zero", f"of={path}/dd", "bs=1M", "count=10", "oflag=sync",
        ],
        "ioping -c 5 -i 0.2 -WWW -k": ["ioping", "-c", "5", "-i", "0.2", "-WWW", "-D", "-k", "-B", path],
        "ioping -c 5 -i 0.2 (reads)": ["ioping", "-c", "5", "-i", "0.2", "-B", path],
        "fio etcd recipe, 100 writes": [
            "fio", "--rw=write", "--ioengine=sync", "--fdatasync=1", f"--directory={path}", "--size=230k",
            "--bs=2300", "--name=etcd",
        ],
    }  # fmt: skip
    headings = f"{'writes':>6s} {'flushes':>7s} {'KiB':>6s} {'wall s':>7s} {'cpu ms':>7s} {'MiB':>5s}"
    print(f"{'one run':30s} {headings}")
    for name, command in rows.items():
        if not shutil.which(str(command[0])):
            print(f"{name:30s} not installed")
            continue
        measure_command(bench.disk, command)
        counts, wall_s, cpu_ms, rss_mib = measure_command(bench.disk, command)
        cells = f"{counts['writes']:6d} {counts['flushes']:7d} {counts['kib']:6d}"
        print(f"{name:30s} {cells} {wall_s:7.2f} {cpu_ms:7.0f} {rss_mib:5.1f}")


def measure_command(
    disk: throttled_disk.ThrottledDisk, command: list
) -> tuple[dict[str, int], float, float, float]:
    throttled_disk.run("sync", "-f", disk.path)
    arguments = [str(argument) for argument in command]
    before, started_at_s, max_kib = disk.stat(), time.monotonic(), 0
    usage_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        max_kib = max(max_kib, status_kib(process.pid, "VmHWM"))
        time.sleep(0.002)
    wall_s, after = time.monotonic() - started_at_s, disk.stat()
    usage_after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_ms = 1000 * (
        usage_after.ru_utime + usage_after.ru_stime - usage_before.ru_utime - usage_before.ru_stime
    )
    return {key: after[key] - before[key] for key in before}, wall_s, cpu_ms, max_kib / 1024


def status_kib(pid: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def measure_serve(bench: Bench) -> None:
    """The resident probe at its default schedule: a healthy while, then an incident."""
    disk = bench.disk
    for _ in range(3):
        bench.read("run", "--look", "100ms", disk.path)
    throttled_disk.run("sync", "-f", disk.path)
    serving = start_process(
        bench.command("serve", "--prom", bench.memory_directory / "p.prom", disk.path), stderr=-3
    )
    try:
        time.sleep(5)
        print_serve_usage("healthy", bench, serving.pid, HEALTHY_S)
        if throttled_disk.why_no_limit() is None:
            disk.limit(100)
            disk.load(48)
            print_serve_usage("incident", bench, serving.pid, INCIDENT_S, is_loaded=True)
    finally:
        disk.idle()
        disk.limit(0)
        serving.terminate()
        serving.wait(30)


def measure_serve_hour(bench: Bench) -> None:
    """The resident probe at its default schedule, a whole hour of a healthy disk."""
    serving = start_process(
        bench.command("serve", "--prom", bench.memory_directory / "p.prom", bench.disk.path)
    )
    try:
        time.sleep(5)
        for _ in range(TENTHS_OF_AN_HOUR):
            print_serve_usage("healthy", bench, serving.pid, 600)
            lines = (bench.memory_directory / "p.prom").read_text().splitlines()
            print(*(line for line in lines if line.startswith("ddprobe_credits_total")), flush=True)
    finally:
        serving.terminate()
        serving.wait(30)


def start_process(command: list[str], **popen_options: int) -> subprocess.Popen:
    """Start a process that the kernel ends when we are gone."""
    return subprocess.Popen(command, preexec_fn=throttled_disk.die_with_parent, **popen_options)  # noqa: PLW1509 - one libc call


def print_serve_usage(name: str, bench: Bench, pid: int, seconds: float, *, is_loaded: bool = False) -> None:
    counters_before, cpu_before_s = bench.disk.stat(), cpu_time_s(pid)
    time.sleep(seconds)
    counters_after, cpu_pct = bench.disk.stat(), 100 * (cpu_time_s(pid) - cpu_before_s) / seconds
    rss_mib = status_kib(pid, "VmRSS") / 1024
    print(f"serve, {name} for {seconds:g} s: {cpu_pct:.2f} % of a core, {rss_mib:.1f} MiB")
    if not is_loaded:
        per_s = (counters_after["writes"] - counters_before["writes"]) / seconds
        print(f"  device: {per_s:.2f} writes/s, flushes counted among them: {per_s:.2f} % of 100 IOPS")


def cpu_time_s(pid: int) -> float:
    """The processor time of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def measure_detection(bench: Bench) -> None:
    """Seconds from a fault to a verdict that identifies it, for one run and for the resident probe."""
    disk = bench.disk
    can_limit = throttled_disk.why_no_limit() is None
    faults = {"stalled": disk.stall, "frozen_or_lock": disk.freeze} | (
        {"throttled": lambda: load_to_limit(disk), "exhausted_idle": lambda: disk.limit(100)}
        if can_limit
        else {}
    )
    for _ in range(4):
        bench.read("run", "--look", "100ms", *NO_CREDIT_LIMIT, disk.path)  # so that a healthy median is known
    for cause, cause_fault in faults.items():
        cause_fault()
        started_at_s = time.monotonic()
        reading = bench.read("run", disk.path)
        duration_s = time.monotonic() - started_at_s
        second_duration_s, second_reading = 0.0, {}
        if cause in ("stalled", "frozen_or_lock"):
            started_at_s = time.monotonic()
            second_reading = bench.read("run", disk.path)
            second_duration_s = time.monotonic() - started_at_s
        reset_disk(disk)
        dd = "not measured" if reading["dd_s"] is None else f"{reading['dd_s']:.1f} s"
        print(
            f"run:   {cause:15s} after {duration_s:5.1f} s: {reading['verdict']} {reading['cause']}, dd {dd}"
        )
        if second_reading:
            print(
                f"       {'the next run':15s} after {second_duration_s:5.1f} s: {second_reading['verdict']}"
                f" {second_reading['cause']}"
            )
        print(f"serve: {cause:15s} after {measure_serve_detection(bench, cause_fault, cause):5.1f} s")
        reset_disk(disk)


def load_to_limit(disk: throttled_disk.ThrottledDisk) -> None:
    disk.limit(100)
    disk.load(48)


def reset_disk(disk: throttled_disk.ThrottledDisk) -> None:
    disk.thaw()
    disk.idle()
    if throttled_disk.why_no_limit() is None:
        disk.limit(0)
    time.sleep(1)


def measure_serve_detection(bench: Bench, cause_fault, cause: str) -> float:
    prom = bench.memory_directory / "c.prom"
    prom.unlink(missing_ok=True)
    serving = start_process(
        bench.command("serve", "--prom", prom, *NO_CREDIT_LIMIT, bench.disk.path), stderr=-3
    )
    try:
        while not prom.exists():
            time.sleep(0.05)
        time.sleep(2)
        cause_fault()
        started_at_s = time.monotonic()
        while f'cause="{cause}"}} 1' not in prom.read_text() and time.monotonic() - started_at_s < 60:
            time.sleep(0.05)
        return time.monotonic() - started_at_s
    finally:
        bench.disk.thaw()
        serving.terminate()
        serving.wait(30)


def measure_stalled_disk(bench: Bench) -> None:
    """A total stall: ten ticks at once, the log on the stalled disk, no privileges."""
    disk = bench.disk
    log = ("--json", disk.path / "readings.json", "--prom", disk.path / "ddprobe.prom")
    subprocess.run(bench.command("run", *log, disk.path), stdout=-3, check=False)
    disk.stall()
    started_at_s = time.monotonic()
    completed = subprocess.run(
        bench.command("run", *log, disk.path), capture_output=True, text=True, check=False
    )
    outcome = f"{time.monotonic() - started_at_s:.1f} s, exit code {completed.returncode}"
    print(f"log and textfile on the stalled disk: {outcome}; {completed.stderr.strip()}")
    reset_disk(disk)
    disk.stall()
    started_at_s = time.monotonic()
    ticks = [
        subprocess.Popen(bench.command("run", "--json", "-", disk.path), stdout=-1, stderr=-3, text=True)
        for _ in range(10)
    ]
    readings = [json.loads(tick.communicate()[0]) for tick in ticks]
    duration_s, waiting_count = time.monotonic() - started_at_s, len(find_blocked_processes(disk.path))
    causes = sorted({f"{reading['verdict']} {reading['cause']}" for reading in readings})
    print(
        f"ten ticks at once: the last after {duration_s:.1f} s, {waiting_count} in state D,"
        f" {', '.join(causes)}"
    )
    reset_disk(disk)
    measure_unprivileged(disk)


def find_blocked_processes(directory: Path) -> list[int]:
    """Processes in state D with a file of ours open on the disk."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            names = [str(fd.readlink()) for fd in (entry / "fd").iterdir()]
        except OSError:
            continue
        if state == "D" and any(name.startswith(f"{directory}/.ddprobe") for name in names):
            pids.append(int(entry.name))
    return pids


def measure_unprivileged(disk: throttled_disk.ThrottledDisk) -> None:
    """The stall as seen by a user who may not look at other users' processes."""
    private_directory = disk.path / "theirs"
    private_directory.mkdir(exist_ok=True)
    os.chown(private_directory, UNPRIVILEGED_UID, UNPRIVILEGED_UID)
    for directory in (disk.path, disk.folder):
        directory.chmod(0o755)
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    command = [python, "-IS", "-", "run", "--json", "-", str(private_directory)]
    source = Path(ddprobe.__file__).read_bytes()  # the unprivileged user may not be able to read the file
    disk.stall()
    started_at_s = time.monotonic()
    try:
        completed = subprocess.run(
            command,
            input=source,
            capture_output=True,
            check=False,
            user=UNPRIVILEGED_UID,
            group=UNPRIVILEGED_UID,
            extra_groups=[],
        )
        duration_s, reading = time.monotonic() - started_at_s, json.loads(completed.stdout)
    finally:
        reset_disk(disk)
        shutil.rmtree(f"/dev/shm/ddprobe-{UNPRIVILEGED_UID}", ignore_errors=True)  # noqa: S108 - where ddprobe makes it
    outcome = f"{reading['verdict']} {reading['cause']}, {reading['dstate']['most']} in state D seen"
    print(f"without privileges: {outcome}, after {duration_s:.1f} s")


def measure_passes(_: Bench) -> None:
    """Milliseconds of one pass over this many threads in a separate PID namespace."""
    for threads in THREADS:
        unshare_command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        subprocess.run([*unshare_command, sys.executable, __file__, "pass", str(threads)], check=False)


def run_passes(threads: int) -> None:
    """As the first process of a PID namespace: start others, and examine them all."""
    site = ddprobe.find_site("/", 5)
    holders = [
        start_sleepers(min(1000, threads - 1 - started_threads))
        for started_threads in range(0, threads - 1, 1000)
    ]
    observer = ddprobe.Observer(site, -1, 10)
    observer.one_pass()
    total = sum(len(list(entry.iterdir())) for entry in Path("/proc").glob("[0-9]*/task"))
    started_at_s, usage_before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(PASSES):
        observer.one_pass()
    usage_after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = usage_after.ru_utime + usage_after.ru_stime - usage_before.ru_utime - usage_before.ru_stime
    pass_ms = 1000 * (time.monotonic() - started_at_s) / PASSES
    pause_ms = max(1000 * ddprobe.STEP_S, ddprobe.PAUSE_SHARE * pass_ms)
    cpu_pct = 100 * (1000 * cpu_s / PASSES) / (pass_ms + pause_ms)
    frequency_text = f"one every {pause_ms + pass_ms:.0f} ms: {cpu_pct:.1f} % of a core"
    print(f"a pass over {total:5d} threads: {pass_ms:5.1f} ms, {frequency_text}")
    for holder in holders:
        holder.kill()
        holder.wait()


def start_sleepers(threads: int) -> subprocess.Popen:
    code = (
        "import threading, time\nthreading.stack_size(65536)\n"
        f"for _ in range({threads - 1}):\n"
        "  threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "print('ready', flush=True)\ntime.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    return holder


def main() -> None:
    """Run the selected measurements."""
    if sys.argv[1:2] == ["pass"]:
        run_passes(int(sys.argv[2]))
        return
    measurements = {
        "levels": measure_levels,
        "serve": measure_serve,
        "causes": measure_detection,
        "sick": measure_stalled_disk,
        "passes": measure_passes,
        "hour": measure_serve_hour,
    }
    selected = sys.argv[1:] or [name for name in measurements if name != "hour"]
    if unknown := [name for name in selected if name not in measurements]:
        sys.exit(f"{unknown[0]} is none of {', '.join(measurements)}")
    if throttled_disk.why_not():
        sys.exit(f"a real disk to measure on {throttled_disk.why_not()}")
    with (
        throttled_disk.ThrottledDisk() as disk,
        tempfile.TemporaryDirectory(dir="/dev/shm") as memory_directory,
    ):
        bench = Bench(disk, Path(memory_directory))
        for name in selected:
            print(f"== {name}")
            measurements[name](bench)


if __name__ == "__main__":
    main()

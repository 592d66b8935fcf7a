"""What ddprobe costs and how soon it sees what, on a real disk; beside ioping and fio where installed.

.venv/bin/python lab/bench/probe.py             everything but hour, in about eight minutes; needs root
.venv/bin/python lab/bench/probe.py levels serve causes sick passes   some of it
.venv/bin/python lab/bench/probe.py hour        a healthy hour of serve, told every ten minutes
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
sys.path[:0] = [str(ROOT / "tests" / "probe"), str(ROOT / "ddprobe")]

import box as boxes  # noqa: E402 - the disk of the tests
import ddprobe  # noqa: E402

PROGRAM: Final = [sys.executable, "-IS", ddprobe.__file__]
UNBOUND: Final = ["--max-credit-share", "100%"]
HEALTHY_S: Final = 120
INCIDENT_S: Final = 60
TENTHS_OF_AN_HOUR: Final = 6
PASSES: Final = 20
THREADS: Final = (100, 4000)
NOBODY: Final = 65534


class Bench:
    """A box, and a folder in memory for what ddprobe remembers."""

    def __init__(self, box: boxes.Box, memory: Path) -> None:
        self.box, self.memory = box, memory

    def command(self, *words: object) -> list[str]:
        return [*PROGRAM, str(words[0]), "--run-dir", str(self.memory), *(str(word) for word in words[1:])]

    def read(self, *words: object) -> dict:
        done = subprocess.run(
            self.command(*words, "--json", "-"), stdout=subprocess.PIPE, check=False, timeout=120
        )
        return json.loads(done.stdout)


def levels(bench: Bench) -> None:
    """Writes, flushes, processor time and memory of one run of each level and of the tools like it."""
    path = bench.box.path
    lite = ("run", "--level", "lite", *UNBOUND, path)
    classic = ("run", "--level", "classic", *UNBOUND, path)
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
    heads = f"{'writes':>6s} {'flushes':>7s} {'KiB':>6s} {'wall s':>7s} {'cpu ms':>7s} {'MiB':>5s}"
    print(f"{'one run':30s} {heads}")
    for name, command in rows.items():
        if not shutil.which(str(command[0])):
            print(f"{name:30s} not installed")
            continue
        measured(bench.box, command)
        counts, wall_s, cpu_ms, rss_mib = measured(bench.box, command)
        figures = f"{counts['writes']:6d} {counts['flushes']:7d} {counts['kib']:6d}"
        print(f"{name:30s} {figures} {wall_s:7.2f} {cpu_ms:7.0f} {rss_mib:5.1f}")


def measured(box: boxes.Box, command: list) -> tuple[dict[str, int], float, float, float]:
    boxes.run("sync", "-f", box.path)
    words = [str(word) for word in command]
    before, began_s, most_kib = box.stat(), time.monotonic(), 0
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        most_kib = max(most_kib, status_kib(process.pid, "VmHWM"))
        time.sleep(0.002)
    wall_s, after = time.monotonic() - began_s, box.stat()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_ms = 1000 * (used.ru_utime + used.ru_stime - began.ru_utime - began.ru_stime)
    return {key: after[key] - before[key] for key in before}, wall_s, cpu_ms, most_kib / 1024


def status_kib(pid: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def serve(bench: Bench) -> None:
    """The resident probe at its default schedule: a healthy while, then an incident."""
    box = bench.box
    for _ in range(3):
        bench.read("run", "--look", "100ms", box.path)
    boxes.run("sync", "-f", box.path)
    serving = start(bench.command("serve", "--prom", bench.memory / "p.prom", box.path), stderr=-3)
    try:
        time.sleep(5)
        report_serve("healthy", bench, serving.pid, HEALTHY_S)
        if boxes.why_no_limit() is None:
            box.limit(100)
            box.load(48)
            report_serve("incident", bench, serving.pid, INCIDENT_S, loaded=True)
    finally:
        box.idle()
        box.limit(0)
        serving.terminate()
        serving.wait(30)


def hour(bench: Bench) -> None:
    """The resident probe at its default schedule, a whole hour of a healthy disk."""
    serving = start(bench.command("serve", "--prom", bench.memory / "p.prom", bench.box.path))
    try:
        time.sleep(5)
        for _ in range(TENTHS_OF_AN_HOUR):
            report_serve("healthy", bench, serving.pid, 600)
            lines = (bench.memory / "p.prom").read_text().splitlines()
            print(*(line for line in lines if line.startswith("ddprobe_credits_total")), flush=True)
    finally:
        serving.terminate()
        serving.wait(30)


def start(words: list[str], **more: int) -> subprocess.Popen:
    """Start a process that the kernel ends when we are gone."""
    return subprocess.Popen(words, preexec_fn=boxes.die_with_parent, **more)  # noqa: PLW1509 - one libc call


def report_serve(name: str, bench: Bench, pid: int, seconds: float, *, loaded: bool = False) -> None:
    before, began = bench.box.stat(), spent_s(pid)
    time.sleep(seconds)
    after, share = bench.box.stat(), 100 * (spent_s(pid) - began) / seconds
    rss_mib = status_kib(pid, "VmRSS") / 1024
    print(f"serve, {name} for {seconds:g} s: {share:.2f} % of a core, {rss_mib:.1f} MiB")
    if not loaded:
        per_s = (after["writes"] - before["writes"]) / seconds
        print(f"  device: {per_s:.2f} writes/s, flushes counted among them: {per_s:.2f} % of 100 IOPS")


def spent_s(pid: int) -> float:
    """Processor time of a process and of its children that have ended."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(word) for word in words[11:15]) / os.sysconf("SC_CLK_TCK")


def causes(bench: Bench) -> None:
    """Seconds from the beginning of a fault to a verdict that names it: one run, and the resident probe."""
    box = bench.box
    limited = boxes.why_no_limit() is None
    deeds = {"stalled": box.stall, "frozen_or_lock": box.freeze} | (
        {"throttled": lambda: at_the_limit(box), "exhausted_idle": lambda: box.limit(100)} if limited else {}
    )
    for _ in range(4):
        bench.read("run", "--look", "100ms", *UNBOUND, box.path)  # so that a healthy median is known
    for cause, deed in deeds.items():
        deed()
        began_s = time.monotonic()
        reading = bench.read("run", box.path)
        took_s = time.monotonic() - began_s
        again_s, again = 0.0, {}
        if cause in ("stalled", "frozen_or_lock"):
            began_s = time.monotonic()
            again = bench.read("run", box.path)
            again_s = time.monotonic() - began_s
        heal(box)
        dd = "not measured" if reading["dd_s"] is None else f"{reading['dd_s']:.1f} s"
        print(f"run:   {cause:15s} after {took_s:5.1f} s: {reading['verdict']} {reading['cause']}, dd {dd}")
        if again:
            print(f"       {'the next run':15s} after {again_s:5.1f} s: {again['verdict']} {again['cause']}")
        print(f"serve: {cause:15s} after {seen_by_serve(bench, deed, cause):5.1f} s")
        heal(box)


def at_the_limit(box: boxes.Box) -> None:
    box.limit(100)
    box.load(48)


def heal(box: boxes.Box) -> None:
    box.thaw()
    box.idle()
    if boxes.why_no_limit() is None:
        box.limit(0)
    time.sleep(1)


def seen_by_serve(bench: Bench, deed, cause: str) -> float:
    prom = bench.memory / "c.prom"
    prom.unlink(missing_ok=True)
    serving = start(bench.command("serve", "--prom", prom, *UNBOUND, bench.box.path), stderr=-3)
    try:
        while not prom.exists():
            time.sleep(0.05)
        time.sleep(2)
        deed()
        began_s = time.monotonic()
        while f'cause="{cause}"}} 1' not in prom.read_text() and time.monotonic() - began_s < 60:
            time.sleep(0.05)
        return time.monotonic() - began_s
    finally:
        bench.box.thaw()
        serving.terminate()
        serving.wait(30)


def sick(bench: Bench) -> None:
    """What else holds in a total stall: ten ticks at once, the log on the sick disk, no privileges."""
    box = bench.box
    log = ("--json", box.path / "readings.json", "--prom", box.path / "ddprobe.prom")
    subprocess.run(bench.command("run", *log, box.path), stdout=-3, check=False)
    box.stall()
    began_s = time.monotonic()
    done = subprocess.run(bench.command("run", *log, box.path), capture_output=True, text=True, check=False)
    told = f"{time.monotonic() - began_s:.1f} s, exit code {done.returncode}"
    print(f"log and textfile on the stalled disk: {told}; {done.stderr.strip()}")
    heal(box)
    box.stall()
    began_s = time.monotonic()
    ticks = [
        subprocess.Popen(bench.command("run", "--json", "-", box.path), stdout=-1, stderr=-3, text=True)
        for _ in range(10)
    ]
    readings = [json.loads(tick.communicate()[0]) for tick in ticks]
    took_s, writers = time.monotonic() - began_s, len(waiting_for(box.path))
    causes = sorted({f"{reading['verdict']} {reading['cause']}" for reading in readings})
    print(f"ten ticks at once: the last after {took_s:.1f} s, {writers} in state D, {', '.join(causes)}")
    heal(box)
    as_nobody(box)


def waiting_for(folder: Path) -> list[int]:
    """Processes in state D with a file of ours open on the disk."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            names = [str(fd.readlink()) for fd in (entry / "fd").iterdir()]
        except OSError:
            continue
        if state == "D" and any(name.startswith(f"{folder}/.ddprobe") for name in names):
            found.append(int(entry.name))
    return found


def as_nobody(box: boxes.Box) -> None:
    """The stall as seen by a user who may look at nobody else's processes."""
    theirs = box.path / "theirs"
    theirs.mkdir(exist_ok=True)
    os.chown(theirs, NOBODY, NOBODY)
    for folder in (box.path, box.folder):
        folder.chmod(0o755)
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    command = [python, "-IS", "-", "run", "--json", "-", str(theirs)]
    source = Path(ddprobe.__file__).read_bytes()  # where it lies nobody may be able to read it
    box.stall()
    began_s = time.monotonic()
    try:
        done = subprocess.run(
            command,
            input=source,
            capture_output=True,
            check=False,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
        )
        took_s, reading = time.monotonic() - began_s, json.loads(done.stdout)
    finally:
        heal(box)
        shutil.rmtree(f"/dev/shm/ddprobe-{NOBODY}", ignore_errors=True)  # noqa: S108 - where ddprobe makes it
    seen = f"{reading['verdict']} {reading['cause']}, {reading['dstate']['most']} in state D seen"
    print(f"without privileges: {seen}, after {took_s:.1f} s")


def passes(_: Bench) -> None:
    """Milliseconds of one pass over the threads of a space of processes of its own, so many as are said."""
    for threads in THREADS:
        space = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        subprocess.run([*space, sys.executable, __file__, "pass", str(threads)], check=False)


def passes_over(threads: int) -> None:
    """As the first process of a space: start others, look at them all."""
    site = ddprobe.find_site("/", 5)
    holders = [sleeper(min(1000, threads - 1 - done)) for done in range(0, threads - 1, 1000)]
    observer = ddprobe.Observer(site, -1, 10)
    observer.one_pass()
    total = sum(len(list(entry.iterdir())) for entry in Path("/proc").glob("[0-9]*/task"))
    began_s, began_cpu = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(PASSES):
        observer.one_pass()
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = used.ru_utime + used.ru_stime - began_cpu.ru_utime - began_cpu.ru_stime
    each_ms = 1000 * (time.monotonic() - began_s) / PASSES
    pause_ms = max(1000 * ddprobe.STEP_S, ddprobe.PAUSE_SHARE * each_ms)
    share = 100 * (1000 * cpu_s / PASSES) / (each_ms + pause_ms)
    often = f"one every {pause_ms + each_ms:.0f} ms: {share:.1f} % of a core"
    print(f"a pass over {total:5d} threads: {each_ms:5.1f} ms, {often}")
    for holder in holders:
        holder.kill()
        holder.wait()


def sleeper(threads: int) -> subprocess.Popen:
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
    """Run what is asked for."""
    if sys.argv[1:2] == ["pass"]:
        passes_over(int(sys.argv[2]))
        return
    parts = {"levels": levels, "serve": serve, "causes": causes, "sick": sick, "passes": passes, "hour": hour}
    wanted = sys.argv[1:] or [name for name in parts if name != "hour"]
    if unknown := [name for name in wanted if name not in parts]:
        sys.exit(f"{unknown[0]} is none of {', '.join(parts)}")
    if boxes.why_not():
        sys.exit(f"a real disk to measure on {boxes.why_not()}")
    with boxes.Box() as box, tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        bench = Bench(box, Path(memory))
        for name in wanted:
            print(f"== {name}")
            parts[name](bench)


if __name__ == "__main__":
    main()

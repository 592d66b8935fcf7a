"""What ddprobe says beside dd, fio and ioping, on a throttled disk: seconds for 10 MiB, and ratios to dd.

.venv/bin/python lab/bench/probe_compare.py [--runs 3] [--cache "write back"] [--fs xfs] [SCENARIO...]

Needs root, qemu-storage-daemon, fio and ioping. ``run`` is a run that may climb to the classic write.
``estimate`` is the next one, which may not because --classic-every has not passed; ``serve`` is the same with
the fewer writes of serve. Each is followed by the others, so that all see the same disk. A run takes five
minutes.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("tests", "ddprobe", "lab", "lambdas")]

import ddprobe  # noqa: E402

from burstlab.disk.block_device import ThrottledDevice  # noqa: E402
from burstlab.disk.state_dir import NO_LIMIT, THROTTLE_GROUP  # noqa: E402
from support.probe import throttled_disk as boxes  # noqa: E402

SCENARIOS: Final = {
    # IOPS, bytes per second, writers of 4 KiB
    "healthy": (3000, 0, 0),
    "100 IOPS": (100, 0, 0),
    "100 IOPS + 8 writers": (100, 0, 8),
    "100 IOPS + 16 writers": (100, 0, 16),
    "100 IOPS + 24 writers": (100, 0, 24),
    "200 IOPS + 8 writers": (200, 0, 8),
    "1 MiB/s": (NO_LIMIT, 1 << 20, 0),
    "5.4 MB/s": (NO_LIMIT, 5_400_000, 0),
}
NO_CREDIT_LIMIT: Final = ["--max-credit-share", "100%", "--baseline-iops", "10000"]
SETTLE_S: Final = 1.0


class ByteLimitedDevice(ThrottledDevice):
    """The lab's disk, limited in bytes as well."""

    def set_limits(self, iops: int, bytes_per_s: int) -> None:
        """Set both; a limit's burst is a tenth of a second of it, which is what the daemon does by itself."""
        limits = {"iops-total": iops, "bps-total": bytes_per_s}
        monitor = self._throttle._monitor  # type: ignore[attr-defined]  # noqa: SLF001 - it has one connection
        monitor.ask("qom-set", path=f"/objects/{THROTTLE_GROUP}", property="limits", value=limits)

    def make_xfs(self) -> None:
        """Put xfs in the place of ext4; the device goes with the last that has it open."""
        with Path(self.path).open("rb"):
            boxes.run("umount", self.mount)
            boxes.run("mkfs.xfs", "-q", "-f", self.path)
            boxes.run("mount", self.path, self.mount)


@contextmanager
def run_writers(disk: ThrottledDevice, count: int) -> Iterator[None]:
    """Random 4 KiB writes past the page cache, ``count`` at once."""
    data = disk.mount / "load.bin"
    if not data.exists():
        data.write_bytes(bytes(32 << 20))
        boxes.run("sync", "-f", data)
    command = [sys.executable, boxes.__file__, "load", str(data), str(count)]
    load = subprocess.Popen(command) if count else None
    try:
        yield
    finally:
        if load:
            load.kill()
            load.wait(60)


def time_command(command: list[str]) -> float:
    started_at_s = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=120)
    return time.monotonic() - started_at_s


def time_dd(directory: Path) -> float:
    """Run what everybody types."""
    target = directory / "dd"
    target.unlink(missing_ok=True)
    return time_command(["dd", "if=/dev/zero", f"of={target}", "bs=1M", "count=10", "oflag=sync"])


def time_fio(directory: Path) -> float:
    """Give fio's own time for the same writes, without its start."""
    target = directory / "fio"
    target.unlink(missing_ok=True)
    command = [
        "fio",
        "--name=probe",
        f"--filename={target}",
        "--rw=write",
        "--bs=1M",
        "--size=10M",
        "--sync=1",
    ]
    command += ["--ioengine=psync", "--create_on_open=1", "--output-format=json"]
    completed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return float(json.loads(completed.stdout)["jobs"][0]["write"]["runtime"]) / 1000


def time_ioping(directory: Path) -> float:
    """Give the average of ten synchronous 4 KiB writes, in seconds."""
    command = ["ioping", "-c", "10", "-i", "0", "-W", "-Y", "-S", "64k", "-B", str(directory)]
    completed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return float(re.split(r"\s+", completed.stdout.strip())[5]) / 1e9


def run_ddprobe(run_directory: str, *arguments: str) -> dict:
    command = [sys.executable, "-IS", ddprobe.__file__, "run", "--run-dir", run_directory, "--json", "-"]
    command += [*NO_CREDIT_LIMIT, *arguments]
    completed = subprocess.run(command, stdout=subprocess.PIPE, check=False, timeout=120)
    return json.loads(completed.stdout)


def measure_round(disk: ByteLimitedDevice, run_directory: str) -> dict[str, float]:
    """One round of all of them."""
    directory, state_directory = disk.mount, Path(run_directory)
    device_number = Path("/sys/block", disk.loop, "dev").read_text().strip().replace(":", "-")
    verdicts = {}

    def run_and_print(name: str, *arguments: str) -> float:
        time.sleep(SETTLE_S)
        reading_document = run_ddprobe(run_directory, *arguments, str(directory))
        verdicts[name] = f"{reading_document['verdict']} {reading_document['cause']}"
        bulk = " ".join(f"{ms:.0f}" for ms in reading_document["bulk_ms"])
        append = " ".join(f"{ms:.0f}" for ms in reading_document["append_ms"])
        lite = reading_document["lite_ms"] or reading_document["write_ms"]
        print(
            f"    {name:9s} {reading_document['dd_s'] or -1:7.3f} s {verdicts[name]:22s}"
            f" {reading_document['reached']:8s} {reading_document['cost']['credits']:3d} credits"
            f" {reading_document['total_s'] or 0:6.2f} s lite {len(lite)} last {lite[-1] if lite else 0:.1f}"
            f" ms, bulk {bulk} ms, append {append} ms",
            flush=True,
        )
        return reading_document["dd_s"] or 0.0

    (state_directory / f"{device_number}.memory").unlink(missing_ok=True)
    results = {"run": run_and_print("run")}
    arguments_by_name = {"estimate": (), "serve": ("--writes", "6"), "classic": ("--level", "classic")}
    for name, arguments in arguments_by_name.items():
        results[name] = run_and_print(name, "--classic-every", "1h", *arguments)
    for name, tool in {"dd": time_dd, "fio": time_fio, "ioping": time_ioping}.items():
        time.sleep(SETTLE_S)
        results[name] = tool(directory)
    return results


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cache", default="write through", choices=["write through", "write back"])
    parser.add_argument("--fs", default="ext4", choices=["ext4", "xfs"])
    options = parser.parse_args()
    selected = options.scenarios or list(SCENARIOS)
    if unknown := [name for name in selected if name not in SCENARIOS]:
        sys.exit(f"{unknown[0]} is not one of {', '.join(SCENARIOS)}")
    rows = []
    with (
        ByteLimitedDevice(backend="qsd", size_mib=400) as disk,
        TemporaryDirectory(dir="/dev/shm") as run_directory,
    ):
        Path("/sys/block", disk.loop, "queue", "write_cache").write_text(options.cache)
        if options.fs == "xfs":
            disk.make_xfs()
        time_dd(disk.mount)
        for name in selected:
            iops, bytes_per_s, count = SCENARIOS[name]
            disk.set_limits(NO_LIMIT, 0)
            time.sleep(SETTLE_S)
            with run_writers(disk, count):
                disk.set_limits(iops, bytes_per_s)
                time.sleep(2 * SETTLE_S)
                print(name)
                rounds = [measure_round(disk, run_directory) for _ in range(options.runs)]
                disk.set_limits(NO_LIMIT, 0)
            rows.append(
                (
                    name,
                    {key: statistics.median(measurement[key] for measurement in rounds) for key in rounds[0]},
                )
            )
    headings = ["run", "estimate", "serve", "classic"]
    print(f"\n{'median, seconds for 10 MiB':27s}{'dd':>8s}{'fio':>8s}{'ioping':>10s}", end="")
    print("".join(f"{head:>10s}{'/dd':>6s}" for head in headings))
    for name, row in rows:
        print(f"{name:27s}{row['dd']:8.3f}{row['fio']:8.3f}{1000 * row['ioping']:8.1f}ms", end="")
        print("".join(f"{row[head]:10.3f}{row[head] / row['dd']:6.2f}" for head in headings))


if __name__ == "__main__":
    main()

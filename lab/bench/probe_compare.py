"""What ddprobe says beside dd, fio and ioping, on a throttled disk: seconds for 10 MiB, and ratios to dd.

.venv/bin/python lab/bench/probe_compare.py [--runs 3] [--cache "write back"] [--fs xfs] [SCENARIO...]

Needs root, qemu-storage-daemon, fio and ioping. ``run`` is a run that may climb to the classic write,
``estimate`` the next one, which may not because --classic-every has not passed, ``serve`` the same with the
fewer writes of serve. Each is followed by the others, so that all see the same disk. Five minutes for a run.
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
sys.path[:0] = [str(ROOT / part) for part in ("tests/probe", "ddprobe", "lab", "lambdas")]

import box as boxes  # noqa: E402 - the load of the tests
import ddprobe  # noqa: E402

from burstlab.disk.block_device import Device  # noqa: E402
from burstlab.disk.state_dir import NO_LIMIT, THROTTLE_GROUP  # noqa: E402

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
FREE: Final = ["--max-credit-share", "100%", "--baseline-iops", "10000"]
SETTLE_S: Final = 1.0


class Throttled(Device):
    """The lab's disk, limited in bytes as well."""

    def limits(self, iops: int, bytes_per_s: int) -> None:
        """Set both; a limit's burst is a tenth of a second of it, which is what the daemon does by itself."""
        limits = {"iops-total": iops, "bps-total": bytes_per_s}
        monitor = self._throttle._monitor  # type: ignore[attr-defined] # noqa: SLF001 - it has one connection
        monitor.ask("qom-set", path=f"/objects/{THROTTLE_GROUP}", property="limits", value=limits)

    def make_xfs(self) -> None:
        """Put xfs in the place of ext4; the device goes with the last that has it open."""
        with Path(self.path).open("rb"):
            boxes.run("umount", self.mount)
            boxes.run("mkfs.xfs", "-q", "-f", self.path)
            boxes.run("mount", self.path, self.mount)


@contextmanager
def writers(disk: Device, count: int) -> Iterator[None]:
    """Random 4 KiB writes past the page cache, so many at once."""
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


def seconds_of(command: list[str]) -> float:
    began_s = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=120)
    return time.monotonic() - began_s


def dd(folder: Path) -> float:
    """Run what everybody types."""
    target = folder / "dd"
    target.unlink(missing_ok=True)
    return seconds_of(["dd", "if=/dev/zero", f"of={target}", "bs=1M", "count=10", "oflag=sync"])


def fio(folder: Path) -> float:
    """Give fio's own time for the same writes, without its start."""
    target = folder / "fio"
    target.unlink(missing_ok=True)
    words = ["fio", "--name=probe", f"--filename={target}", "--rw=write", "--bs=1M", "--size=10M", "--sync=1"]
    words += ["--ioengine=psync", "--create_on_open=1", "--output-format=json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    return float(json.loads(done.stdout)["jobs"][0]["write"]["runtime"]) / 1000


def ioping(folder: Path) -> float:
    """Give the average of ten synchronous 4 KiB writes, in seconds."""
    words = ["ioping", "-c", "10", "-i", "0", "-W", "-Y", "-S", "64k", "-B", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    return float(re.split(r"\s+", done.stdout.strip())[5]) / 1e9


def reading(memory: str, *words: str) -> dict:
    command = [sys.executable, "-IS", ddprobe.__file__, "run", "--run-dir", memory, "--json", "-"]
    command += [*FREE, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, timeout=120)
    return json.loads(done.stdout)


def measured(disk: Throttled, memory: str) -> dict[str, float]:
    """One round of all of them."""
    folder, kept = disk.mount, Path(memory)
    number = Path("/sys/block", disk.loop, "dev").read_text().strip().replace(":", "-")
    verdicts = {}

    def say(name: str, *words: str) -> float:
        time.sleep(SETTLE_S)
        found = reading(memory, *words, str(folder))
        verdicts[name] = f"{found['verdict']} {found['cause']}"
        bulk = " ".join(f"{ms:.0f}" for ms in found["bulk_ms"])
        append = " ".join(f"{ms:.0f}" for ms in found["append_ms"])
        lite = found["lite_ms"] or found["write_ms"]
        print(
            f"    {name:9s} {found['dd_s'] or -1:7.3f} s {verdicts[name]:22s} {found['reached']:8s}"
            f" {found['cost']['credits']:3d} credits {found['total_s'] or 0:6.2f} s"
            f" lite {len(lite)} last {lite[-1] if lite else 0:.1f} ms, bulk {bulk} ms, append {append} ms",
            flush=True,
        )
        return found["dd_s"] or 0.0

    (kept / f"{number}.memory").unlink(missing_ok=True)
    results = {"run": say("run")}
    kinds = {"estimate": (), "serve": ("--writes", "6"), "classic": ("--level", "classic")}
    for name, words in kinds.items():
        results[name] = say(name, "--classic-every", "1h", *words)
    for name, tool in {"dd": dd, "fio": fio, "ioping": ioping}.items():
        time.sleep(SETTLE_S)
        results[name] = tool(folder)
    return results


def main() -> None:
    """Print the table."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    asked.add_argument("--runs", type=int, default=3)
    asked.add_argument("--cache", default="write through", choices=["write through", "write back"])
    asked.add_argument("--fs", default="ext4", choices=["ext4", "xfs"])
    options = asked.parse_args()
    wanted = options.scenarios or list(SCENARIOS)
    if unknown := [name for name in wanted if name not in SCENARIOS]:
        sys.exit(f"{unknown[0]} is not one of {', '.join(SCENARIOS)}")
    rows = []
    with Throttled(backend="qsd", size_mib=400) as disk, TemporaryDirectory(dir="/dev/shm") as memory:
        Path("/sys/block", disk.loop, "queue", "write_cache").write_text(options.cache)
        if options.fs == "xfs":
            disk.make_xfs()
        dd(disk.mount)
        for name in wanted:
            iops, bytes_per_s, count = SCENARIOS[name]
            disk.limits(NO_LIMIT, 0)
            time.sleep(SETTLE_S)
            with writers(disk, count):
                disk.limits(iops, bytes_per_s)
                time.sleep(2 * SETTLE_S)
                print(name)
                rounds = [measured(disk, memory) for _ in range(options.runs)]
                disk.limits(NO_LIMIT, 0)
            rows.append((name, {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}))
    heads = ["run", "estimate", "serve", "classic"]
    print(f"\n{'median, seconds for 10 MiB':27s}{'dd':>8s}{'fio':>8s}{'ioping':>10s}", end="")
    print("".join(f"{head:>10s}{'/dd':>6s}" for head in heads))
    for name, row in rows:
        print(f"{name:27s}{row['dd']:8.3f}{row['fio']:8.3f}{1000 * row['ioping']:8.1f}ms", end="")
        print("".join(f"{row[head]:10.3f}{row[head] / row['dd']:6.2f}" for head in heads))


if __name__ == "__main__":
    main()

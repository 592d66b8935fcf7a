"""How exact ``burstctl simulate`` is, from five-minute sums, beside a simulation of every second.

    .venv/bin/python lab/bench/alerts/simulate_accuracy.py TRACES [--peaks 1.5,3,5] [--kib 32]

Each recording below TRACES is the I/O of an instance, on each of ``TYPES``. It is multiplied so that its
busiest five minutes are as many times the baseline of the type as ``--peaks`` says. A recording without bytes
has operations of ``--kib`` KiB. Within a step of a recording the load is ``even``, or ``bursty``: one burst
at the maximum of the type, somewhere in the step. Steps longer than five minutes are first cut into five
minutes with the same mean, because five minutes are what CloudWatch shows.

``burstctl simulate`` sees the sums of five minutes. The other simulation is a loop over the seconds, for all
cases at once; what waits is served as a mix instead of in its order. Spells less than 15 minutes apart are
one in both. The printed errors are those of cases that are empty in either. Two figures with a slash are
those of the seconds and of ``burstctl simulate``.
"""

import argparse
import csv
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from burstctl.simulate.simulation import (
    MERGE_GAP_S,
    InstanceBucket,
    InstanceBuckets,
    LoadInterval,
    SimulationResult,
    lowest_if_bursts,
    simulate,
)
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.instances.instance_buckets import instance_io_bucket, instance_throughput_bucket

PERIOD_S: Final = 300
_BLOCK_S: Final = 3_600
"""How much of all loads is in memory at once."""
MIB: Final = 2**20
_MIB_PER_MBIT: Final = 1e6 / 8 / MIB


def _limits(baseline_iops: int, max_iops: int, baseline_mbit_s: int, max_mbit_s: int) -> InstanceLimits:
    return InstanceLimits(
        baseline_iops=baseline_iops,
        max_iops=max_iops,
        baseline_throughput_mib_s=baseline_mbit_s * _MIB_PER_MBIT,
        max_throughput_mib_s=max_mbit_s * _MIB_PER_MBIT,
    )


TYPES: Final = {
    "t4g.small": _limits(1_000, 11_800, 174, 2_085),
    "t3.medium": _limits(2_000, 11_800, 347, 2_085),
    "m5.large": _limits(3_600, 18_750, 650, 4_750),
    "m6i.large": _limits(3_600, 40_000, 650, 10_000),
}
"""As AWS's DescribeInstanceTypes returns them."""

SHAPES: Final = ("even", "bursty")


@dataclass(frozen=True, slots=True)
class Recording:
    """Means per second over steps."""

    folder: str
    step_s: int
    iops: Sequence[float]
    mib_s: Sequence[float]


@dataclass(frozen=True, slots=True)
class Case:
    """A recording on a type."""

    recording: Recording
    scale: float
    type_name: str
    shape: str

    @property
    def buckets(self) -> InstanceBuckets:
        limits = TYPES[self.type_name]
        return InstanceBuckets(instance_io_bucket(limits), instance_throughput_bucket(limits))


class CaseLoad:
    """The load of a case, second by second: bursts of ``burst_s`` seconds in equal steps."""

    def __init__(self, case: Case, random: np.random.Generator) -> None:
        recording = case.recording
        repeat = max(1, recording.step_s // PERIOD_S)
        self.step_s = min(recording.step_s, PERIOD_S)
        steps = len(recording.iops) * repeat * self.step_s // PERIOD_S * PERIOD_S // self.step_s
        self.iops = np.repeat(np.asarray(recording.iops) * case.scale, repeat)[:steps]
        self.mib_s = np.repeat(np.asarray(recording.mib_s) * case.scale, repeat)[:steps]
        self.length_s = steps * self.step_s
        limits = TYPES[case.type_name]
        share = np.maximum(self.iops / limits.max_iops, self.mib_s / limits.max_throughput_mib_s)
        shortest = 1.0 if case.shape == "even" else 1 / self.step_s
        self.burst_s = np.ceil(share.clip(shortest, 1) * self.step_s).astype(int)
        self.offsets_s = (random.random(steps) * (self.step_s - self.burst_s + 1)).astype(int)

    def seconds(self, first_s: int, length_s: int) -> tuple[Any, Any]:
        """The operations and MiB of each of ``length_s`` seconds, a whole number of steps."""
        steps = slice(first_s // self.step_s, (first_s + length_s) // self.step_s)
        position = np.arange(self.step_s)[None, :]
        begin, burst_s = self.offsets_s[steps, None], self.burst_s[steps, None]
        is_burst = (position >= begin) & (position < begin + burst_s)
        factor = is_burst * (self.step_s / burst_s)
        ops, mib = ((factor * rates[steps, None]).ravel() for rates in (self.iops, self.mib_s))
        return ops, mib


@dataclass(frozen=True, slots=True)
class Outcome:
    """The number of spells and their length."""

    spells: int
    empty_s: float


def read_recordings(folder: Path, default_kib: float) -> Iterator[Recording]:
    """Every recording below a folder, of which whole periods are kept."""
    for path in sorted(folder.glob("*/*.csv.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
        step_s = int(rows[1]["seconds_since_start"]) - int(rows[0]["seconds_since_start"])
        iops = [_sum_of(row, "read_ops_per_s", "write_ops_per_s") for row in rows]
        has_bytes = any(row.get("read_bytes_per_s") or row.get("write_bytes_per_s") for row in rows)
        mib_s = [
            _sum_of(row, "read_bytes_per_s", "write_bytes_per_s") / MIB
            if has_bytes
            else rate * default_kib / 1024
            for row, rate in zip(rows, iops, strict=True)
        ]
        yield Recording(path.parent.name, step_s, iops, mib_s)


def _sum_of(row: dict[str, str], *columns: str) -> float:
    return sum(float(row.get(column) or 0) for column in columns)


def scale_to_baseline(recording: Recording, type_name: str) -> float:
    """What multiplies a recording so that its busiest five minutes are at the baseline of a type."""
    limits, per_period = TYPES[type_name], max(1, PERIOD_S // recording.step_s)
    whole = len(recording.iops) // per_period * per_period
    peaks = (
        float(np.asarray(rates[:whole]).reshape(-1, per_period).mean(axis=1).max())
        for rates in (recording.iops, recording.mib_s)
    )
    baselines = (limits.baseline_iops, limits.baseline_throughput_mib_s)
    return 1 / max(peak / baseline for peak, baseline in zip(peaks, baselines, strict=True))


def to_intervals(load: CaseLoad) -> list[LoadInterval]:
    """What CloudWatch shows of the seconds."""
    per_period = PERIOD_S // load.step_s
    sums = [rates.reshape(-1, per_period).sum(axis=1) * load.step_s for rates in (load.iops, load.mib_s)]
    return [
        LoadInterval(index * PERIOD_S, PERIOD_S, float(ops), float(mib))
        for index, (ops, mib) in enumerate(zip(*sums, strict=True))
    ]


def play_seconds(cases: Sequence[Case], loads: Sequence[CaseLoad]) -> list[Outcome]:
    """The reference: one second after the other, for all cases of a group at once."""
    lanes = len(cases)
    bounds = {
        kind: np.array(
            [(b.capacity, b.refill_per_s, b.burst_per_s) for case in cases for b in [case.buckets.of(kind)]]
        ).T
        for kind in InstanceBucket
    }
    (io_capacity, io_refill, io_burst), (mib_capacity, mib_refill, mib_burst) = bounds.values()
    io_credits, mib_credits = io_capacity.copy(), mib_capacity.copy()
    waiting_ops, waiting_mib = np.zeros(lanes), np.zeros(lanes)
    spells, empty_s = np.zeros(lanes, int), np.zeros(lanes)
    last_empty_s = np.full(lanes, -np.inf)
    ends_s = np.array([load.length_s for load in loads])
    for first_s in range(0, int(ends_s.max()), _BLOCK_S):
        ops, mib = _seconds_of_all(loads, first_s)
        for offset_s in range(_BLOCK_S):
            waiting_ops += ops[offset_s]
            waiting_mib += mib[offset_s]
            # in this second no more can be spent than the bucket holds and gains
            io_limit = np.minimum(io_burst, io_credits + io_refill)
            mib_limit = np.minimum(mib_burst, mib_credits + mib_refill)
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.fmin(1.0, np.fmin(io_limit / waiting_ops, mib_limit / waiting_mib))
            served_ops, served_mib = share * waiting_ops, share * waiting_mib
            waiting_ops -= served_ops
            waiting_mib -= served_mib
            io_credits = np.minimum(io_capacity, io_credits + io_refill - served_ops)
            mib_credits = np.minimum(mib_capacity, mib_credits + mib_refill - served_mib)
            at_s = first_s + offset_s
            is_empty = ((io_credits <= 1e-6 * io_capacity) | (mib_credits <= 1e-6 * mib_capacity)) & (
                at_s < ends_s
            )
            if is_empty.any():
                spells += is_empty & (at_s - last_empty_s > MERGE_GAP_S)
                last_empty_s = np.where(is_empty, at_s, last_empty_s)
                empty_s += is_empty
    return [Outcome(int(spells[lane]), float(empty_s[lane])) for lane in range(lanes)]


def _seconds_of_all(loads: Sequence[CaseLoad], first_s: int) -> tuple[Any, Any]:
    """A row for each second and a column for each load, which is idle after its end."""
    ops, mib = np.zeros((_BLOCK_S, len(loads))), np.zeros((_BLOCK_S, len(loads)))
    for lane, load in enumerate(loads):
        length_s = max(0, min(_BLOCK_S, load.length_s - first_s))
        ops[:length_s, lane], mib[:length_s, lane] = load.seconds(first_s, length_s)
    return ops, mib


def play_all(cases: Sequence[Case]) -> Iterator[tuple[Case, Outcome, SimulationResult, float]]:
    """Each case with what the seconds say, what the simulation says, and its bound for bursts."""
    loads = [CaseLoad(case, np.random.default_rng(number)) for number, case in enumerate(cases)]
    for case, load, truth in zip(cases, loads, play_seconds(cases, loads), strict=True):
        intervals = to_intervals(load)
        bound = min(lowest_if_bursts(intervals, kind, case.buckets.of(kind)) for kind in InstanceBucket)
        yield case, truth, simulate(intervals, case.buckets), bound


def summarise(results: Sequence[tuple[Case, Outcome, SimulationResult, float]]) -> list[str]:
    """The cells of a row of the table."""
    empty = [(truth, result) for _, truth, result, _ in results if truth.spells or result.spells]
    missed = sum(bool(truth.spells) and not result.spells for truth, result in empty)
    needless = sum(bool(result.spells) and not truth.spells for truth, result in empty)
    broken = sum(bool(truth.spells) and bound > 0 for _, truth, _, bound in results)
    spells = [len(result.spells) - truth.spells for truth, result in empty]
    errors_min = [abs(result.empty_s - truth.empty_s) / 60 for truth, result in empty]
    shares = [abs(result.empty_s - truth.empty_s) / truth.empty_s for truth, result in empty if truth.empty_s]
    in_all_h = sum(truth.empty_s for truth, _ in empty) / 3_600
    simulated_h = sum(result.empty_s for _, result in empty) / 3_600
    return [
        f"{len(results):,}",
        f"{sum(bool(truth.spells) for truth, _ in empty):,}",
        f"{missed}",
        f"{needless}",
        f"{broken}",
        f"{sum(truth.spells for truth, _ in empty):,} / {sum(len(result.spells) for _, result in empty):,}",
        f"{sum(not error for error in spells) / len(spells):.0%}" if spells else "",
        f"{in_all_h:,.0f} / {simulated_h:,.0f}",
        f"{median(errors_min):.1f}" if errors_min else "",
        f"{100 * float(np.percentile(shares, 95)):.1f}" if shares else "",
    ]


def main() -> None:
    """Print a row for each set of recordings and each shape."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", type=Path)
    parser.add_argument("--peaks", default="1.5,3,5")
    parser.add_argument("--kib", type=float, default=32)
    options = parser.parse_args()
    peaks = [float(text) for text in options.peaks.split(",")]
    recordings = list(read_recordings(options.traces, options.kib))
    titles = (
        "recordings", "load", "cases", "empty", "missed", "needless", "bound broken", "spells",
        "same number", "hours", "error: median, min", "p95, %",
    )  # fmt: skip
    print(f"| {' | '.join(titles)} |")
    print(f"| --- | --- |{' ---: |' * (len(titles) - 2)}")
    for shape in SHAPES:
        everything: list[tuple[Case, Outcome, SimulationResult, float]] = []
        for folder in sorted({recording.folder for recording in recordings}):
            cases = [
                Case(recording, peak * scale_to_baseline(recording, type_name), type_name, shape)
                for recording in recordings
                if recording.folder == folder
                for type_name in TYPES
                for peak in peaks
            ]
            results = list(play_all(cases))
            everything += results
            print(f"| {folder} | {shape} | {' | '.join(summarise(results))} |", flush=True)
        print(f"| all | {shape} | {' | '.join(summarise(everything))} |", flush=True)


if __name__ == "__main__":
    main()

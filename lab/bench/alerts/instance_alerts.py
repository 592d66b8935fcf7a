"""Recorded load on EC2 instances: how early their empty buckets are announced, and how often needlessly.

    .venv/bin/python lab/bench/alerts/instance_alerts.py [TRACES] [--peaks 1.5,3,5] [--every N] [--workers N]

Each load is the I/O of an instance of each of ``TYPES``. It is multiplied so that its busiest five minutes
are as many times the baseline of the type as ``--peaks`` says. It goes to one volume that serves the
maximum of the type, or is split over two default gp3. Within a recorded step, the load is flat, or one
burst at the maximum of the type. The lab simulates the buckets. Without TRACES, only the synthetic loads of
this script are used.

CloudWatch shows the minimum of five minutes 60 to 300 s after the period. From that, burstwatch assesses
each bucket, decides, and chooses its next poll, with the default policy. One alarm on both balances is at
the 10 % that AWS recommends, after one datapoint or three in a row. Another is at the balance at which a
burst at the maximum leaves the lead of the bound. They see a datapoint at once when it appears, and its
minimum.

A depletion counts again only after the bucket was half full. It is ``in time`` if it was announced as early
as the bound says: by ``act_lead`` of the bucket, or less if the last fall without a pause began low. If the
bound leaves no lead, it is in time in any case. An alert is needless if its bucket is not empty within the
next 24 hours. If the recording ends before, it starts again.
"""

import argparse
import math
import random
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import chain, product
from pathlib import Path
from statistics import median
from typing import Any, Final

from simulate_accuracy import TYPES, Recording, read_recordings, scale_to_baseline

from burstlab.fake_aws.cloudwatch.volume_metrics import datapoint_lag_s
from burstlab.harness.world import PASS_DELAY_S, TICK_S, build_services
from burstlab.model.bucket import FULL_CREDITS
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabInstance, LabSettings
from burstlab.model.loads.load import Load, ScaledLoad, SizedLoad
from burstlab.model.loads.load import Recording as LabRecording
from burstlab.model.minute_history import MINUTE_S
from burstlab.model.volume import LabVolume
from burstlab.score.cases import BurstyLoad, LoadShape
from burstlab.score.ground_truth import DAY_S, START, START_S, Depletion, GroundTruth
from burstlab.score.job import find_lead_s
from burstlab.score.record import SpanRecorder
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.assessment.assess_resource import BucketReading, assess_resource
from burstwatch.core.assessment.resource import AdvisedResource
from burstwatch.core.assessment.resource_buckets import bucket_or_unknown
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.buckets.series import Series
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import INSTANCE_KINDS, instance_bucket
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.bucket_policy import policy_of_bucket
from burstwatch.core.policy.policy import CadencePolicy, Policy
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.watch.decide import decide
from burstwatch.core.watch.decision import TickContext
from burstwatch.core.watch.polling.cadence import sweep_interval_s

PERIOD_S: Final = 300
SETTINGS: Final = LabSettings(lag_s=60, lag_most_s=300)
ALARM_PCT: Final = 10.0
_REARM_PCT: Final = 50.0
INSTANCE_ID: Final = "i-00000000000000001"
_READ_SPAN_S: Final = 4_500
"""How far back the watchdog reads: its longest horizon, and a quarter of an hour."""
_MAX_KIB: Final = 256
_SYNTHETIC_DAYS: Final = 3
_DAY_STEPS: Final = DAY_S // PERIOD_S

VOLUMES: Final = {
    "type's maximum": [{"volume_type": "io2", "iops": 64_000}],
    "two gp3": [{"volume_type": "gp3", "iops": 3_000, "throughput_mib_s": 125}] * 2,
}
LEVELS: Final = {"burstwatch, from warning": Level.WARNING, "burstwatch, critical": Level.CRITICAL}
ALARMS: Final = {"alarm at 10 %": 1, "alarm at 10 %, 3 in a row": 3}
"""The datapoints in a row that each needs."""
EARLY_ALARM: Final = "alarm with the bound's lead"
WATCHERS: Final = (*LEVELS, *ALARMS, EARLY_ALARM)
Spans = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A recording on an instance of a type, with the volumes that ``volumes`` names."""

    recording: Recording
    number: int
    type_name: str
    peak: float
    shape: LoadShape
    volumes: str

    @property
    def duration_s(self) -> int:
        """Whole periods."""
        return len(self.recording.iops) * self.recording.step_s // PERIOD_S * PERIOD_S

    @property
    def phase(self) -> float:
        """Where between two sweeps it is polled, 0 to 1: the same in every run."""
        text = (
            f"{self.recording.folder}/{self.number}/{self.type_name}/{self.peak}/{self.shape}/{self.volumes}"
        )
        return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") / 2**32


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """A depletion, how long before it an alert was active (None: not at all), and what the bound says."""

    lead_s: int | None
    bound_lead_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one watcher did for one instance, both buckets together."""

    case: Case
    watcher: str
    announcements: Sequence[Announcement]
    alerts: int
    needless_alerts: int


def synthetic_recordings() -> list[Recording]:
    """Loads of three days, by five minutes, relative to the busiest: what instances do, in the pure form."""
    pauses = random.Random(1)  # noqa: S311 - the same in every run
    starts = [step for step in range(0, _SYNTHETIC_DAYS * _DAY_STEPS, 18) if pauses.random() < 0.7]
    shapes: list[Callable[[int], float]] = [
        lambda step: 1.0 if 24 <= step % _DAY_STEPS < 48 else 0.05,  # a batch of two hours each night
        lambda step: max(0.05, math.sin(math.pi * (step % _DAY_STEPS - 96) / 120)),  # an office day
        lambda step: 1.0 if step % 12 < 2 else 0.1,  # ten minutes of each hour
        lambda step: 0.1 + 0.9 * step / (_SYNTHETIC_DAYS * _DAY_STEPS),  # a load that grows
        lambda step: 1.0 if 432 <= step < 576 else 0.02,  # half a day without a pause
        lambda step: (
            1.0 if any(0 <= step - start < 1 + start % 3 for start in starts) else 0.2
        ),  # short bursts
        lambda step: 0.6 if step % 2 else 1.0,  # never quiet
    ]
    loads = [[shape(step) for step in range(_SYNTHETIC_DAYS * _DAY_STEPS)] for shape in shapes]
    return [Recording("synthetic", PERIOD_S, load, [rate * 32 / 1_024 for rate in load]) for load in loads]


def with_even_operations(recording: Recording) -> Recording:
    """The recording with operations of its mean size, because a load of the lab has one size."""
    kib = min(_MAX_KIB, 1_024 * sum(recording.mib_s) / sum(recording.iops))
    return replace(recording, mib_s=[rate * kib / 1_024 for rate in recording.iops])


def make_load(case: Case) -> SizedLoad:
    """What the volumes of the instance get together."""
    recording, limits = case.recording, TYPES[case.type_name]
    scale = case.peak * scale_to_baseline(recording, case.type_name)
    kib = 1_024 * sum(recording.mib_s) / sum(recording.iops)
    load: Load = LabRecording(
        recording.step_s, [0.0] * len(recording.iops), [scale * r for r in recording.iops]
    )
    if case.shape is LoadShape.BURSTY:
        load = BurstyLoad(load, min(limits.max_iops, limits.max_throughput_mib_s * 1_024 / kib))  # type: ignore[arg-type]
    return SizedLoad(load=load, operation_kib=kib)


def make_fleet(case: Case) -> LabFleet:
    """The instance with its volumes, which share the load."""
    fleet = LabFleet(LabClock.manual(START), SETTINGS)
    fleet.add_instance(
        LabInstance(instance_id=INSTANCE_ID, launched_at=START, instance_type=case.type_name, tags={})
    )
    load, volumes = make_load(case), VOLUMES[case.volumes]
    for configuration in volumes:
        part = replace(load, load=ScaledLoad(load.load, 1 / len(volumes)))
        fleet.add(LabVolume(size_gib=1_000, load=part, instance_id=INSTANCE_ID, **configuration))  # type: ignore[arg-type]
    return fleet


def simulate(case: Case) -> tuple[Instance, list[GroundTruth]]:
    """The instance as burstwatch reads it, and the truth about both buckets, to a day after the end."""
    fleet = make_fleet(case)
    services = build_services(fleet, SqliteLedger.in_memory(), Policy())
    (instance,) = services.build_collector(fleet.clock.now_s()).instances() or ()
    minima: list[list[float]] = [[] for _ in INSTANCE_KINDS]
    end_s = START_S + case.duration_s + DAY_S
    while (from_s := fleet.now_s()) < end_s:
        fleet.clock.advance(min(DAY_S, end_s - from_s))
        simulated = fleet.catch_up_instance(INSTANCE_ID)
        assert simulated is not None
        assert simulated.buckets is not None
        first, last = from_s // MINUTE_S, fleet.now_s() // MINUTE_S
        for known, bucket in zip(minima, simulated.buckets, strict=True):
            # the lab simulates no minute in which the bucket stays full
            day = [100.0] * (last - first)
            for run in bucket.history.runs(first, last):
                for index in range(run.minute_count):
                    level = (run.minimum + index * run.step) / FULL_CREDITS
                    day[run.first_minute - first + index] = 100 * level
            known.extend(day)
    truths = [GroundTruth(case.duration_s, values, (), 0.0) for values in minima]
    return instance, truths


@dataclass(frozen=True, slots=True)
class PublishedBalance:
    """The lowest balance of each period from ``START_S`` on, and when CloudWatch shows it."""

    values: Sequence[float]
    shown_at_s: Sequence[float]
    period_s: int = PERIOD_S

    @classmethod
    def of(
        cls, truth: GroundTruth, period_s: int = PERIOD_S, resource_id: str = INSTANCE_ID
    ) -> "PublishedBalance":
        """The periods that count, each with a delay of its own."""
        minutes = period_s // MINUTE_S
        values = [
            round(max(0.0, min(truth.minima[first : first + minutes])), 4)
            for first in range(0, truth.duration_s // MINUTE_S, minutes)
        ]
        starts_s = range(START_S, START_S + truth.duration_s, period_s)
        shown_at_s = [
            start_s + period_s + datapoint_lag_s(resource_id, start_s // MINUTE_S, SETTINGS)
            for start_s in starts_s
        ]
        return cls(values, shown_at_s, period_s)

    def read(self, at_s: float, span_s: float = _READ_SPAN_S) -> Series:
        """What the watchdog reads at a moment."""
        end = bisect_right(self.shown_at_s, at_s)
        first = max(0, math.ceil((at_s - span_s - START_S) / self.period_s))
        starts_s = tuple(START_S + index * self.period_s for index in range(first, end))
        return Series(starts_s, tuple(self.values[first:end]), self.period_s)


def watch(
    resource: AdvisedResource, kind: BucketKind, balance: PublishedBalance, policy: Policy, *, phase: float
) -> dict[str, Spans]:
    """Let burstwatch poll one bucket to the end; when it was at each of ``LEVELS`` or above."""
    state, settings = None, read_tags({}, policy.mode)
    spans = {name: SpanRecorder() for name in LEVELS}
    bucket = bucket_or_unknown(resource, kind)
    interval_s = sweep_interval_s(bucket, policy.cadence)
    tick_at_s = START_S + 2 * max(PERIOD_S, balance.period_s) + int(phase * interval_s) // TICK_S * TICK_S
    end_s = START_S + len(balance.values) * balance.period_s
    while tick_at_s < end_s:
        now_s = tick_at_s + PASS_DELAY_S
        series = balance.read(now_s, _READ_SPAN_S * bucket.time_scale)
        if state is None and min(series.values) >= policy.cadence.calm_from_pct:
            # calm, and nothing is remembered: only the next sweep is due, and the bench saves its time
            tick_at_s += interval_s
            continue
        if kind.is_in_credits:
            series = replace(series, values=tuple(map(bucket.credits_in, series.values)))
        reading = BucketReading(balance=series)
        assessment = assess_resource(resource, kind, reading, now_s=now_s, telemetry=policy.telemetry)
        decision = decide(
            assessment,
            state,
            settings,
            policy=policy,
            context=TickContext(now_s=now_s, tick_at_s=tick_at_s, location=AwsLocation(region="us-east-1")),
        )
        for name, level in LEVELS.items():
            if decision.level is not Level.UNKNOWN:
                spans[name].set(now_s, is_on=decision.level.rank >= level.rank)
        state = decision.change.state if decision.change else state
        tick_at_s += decision.poll_interval_s or interval_s
    return {name: recorder.close(end_s) for name, recorder in spans.items()}


def find_alarms(balance: PublishedBalance, threshold_pct: float, datapoints: int = 1) -> Spans:
    """When an alarm is active: from this many datapoints in a row below its threshold to the first above."""
    spans, below = SpanRecorder(), 0
    for value, shown_at_s in zip(balance.values, balance.shown_at_s, strict=True):
        below = below + 1 if value < threshold_pct else 0
        if not 0 < below < datapoints:
            spans.set(int(shown_at_s), is_on=below > 0)
    return spans.close(START_S + len(balance.values) * balance.period_s)


def early_threshold_pct(bucket: Bucket, cadence: CadencePolicy) -> float:
    """The balance that lasts for the lag and the lead at the highest drain: 73 % of a bucket of 30 min."""
    seconds = cadence.act_lead.total_seconds() + cadence.metric_lag.total_seconds()
    return min(cadence.watch_below_pct, 100 * seconds * bucket.highest_drain_per_s / bucket.capacity)


def find_depletions(truth: GroundTruth) -> list[Depletion]:
    """Each time the bucket became empty; again only after it was half full."""
    depletions: list[Depletion] = []
    first = 0
    for depletion in truth.depletions:
        minute = (depletion.empty_at_s - START_S) // MINUTE_S
        if not depletions or max(truth.minima[first:minute]) >= _REARM_PCT:
            depletions.append(depletion)
            first = minute
    return depletions


def bound_lead_s(
    depletion: Depletion, balance: PublishedBalance, bucket: Bucket, cadence: CadencePolicy
) -> float:
    """The lead that the rule of polling leaves at worst, with what the bucket held when it began to fall.

    Example: a full bucket lasts 30 min at least, and it fell from 60 % on. 18 min less 10 for the lag, one
    for the slack and one for the interval of polling are 6 min.
    """
    index = (depletion.empty_at_s - START_S) // balance.period_s
    while index > 0 and balance.values[index - 1] > balance.values[index]:
        index -= 1
    is_calm = balance.values[index] >= cadence.watch_below_pct
    interval_s = sweep_interval_s(bucket, cadence) if is_calm else TICK_S
    reaction_s = interval_s + cadence.metric_lag.total_seconds() + cadence.tick_slack.total_seconds()
    lasts_s = bucket.credits_in(balance.values[index]) / bucket.highest_drain_per_s
    return min(cadence.act_lead.total_seconds(), max(0.0, lasts_s - reaction_s))


def _bucket(instance: Instance, kind: BucketKind) -> Bucket:
    bucket = instance_bucket(instance, kind)
    assert bucket is not None
    return bucket


def score(case: Case) -> list[Outcome]:
    """What each watcher did for both buckets of a case."""
    announcements: dict[str, list[Announcement]] = {watcher: [] for watcher in WATCHERS}
    alerts, needless = Counter[str](), Counter[str]()
    instance, truths = simulate(case)
    for kind, truth in zip(INSTANCE_KINDS, truths, strict=True):
        bucket = _bucket(instance, kind)
        policy = policy_of_bucket(Policy(), kind, bucket)
        # A bucket above the threshold of the sweep cannot be empty within what an alert looks ahead.
        if not bucket.highest_drain_per_s or min(truth.minima) >= policy.cadence.watch_below_pct:
            continue
        balance = PublishedBalance.of(truth)
        spans_by_watcher = watch(instance, kind, balance, policy, phase=case.phase)
        spans_by_watcher |= {name: find_alarms(balance, ALARM_PCT, count) for name, count in ALARMS.items()}
        spans_by_watcher[EARLY_ALARM] = find_alarms(balance, early_threshold_pct(bucket, policy.cadence))
        depletions = find_depletions(truth)
        for watcher, spans in spans_by_watcher.items():
            announcements[watcher] += [
                Announcement(
                    lead_s=find_lead_s(depletion, spans),
                    bound_lead_s=bound_lead_s(depletion, balance, bucket, policy.cadence),
                )
                for depletion in depletions
            ]
            alerts[watcher] += len(spans)
            needless[watcher] += sum(not truth.is_empty_within(start_s) for start_s, _ in spans)
    return [
        Outcome(
            case=case,
            watcher=watcher,
            announcements=announcements[watcher],
            alerts=alerts[watcher],
            needless_alerts=needless[watcher],
        )
        for watcher in announcements
    ]


def make_cases(recordings: Sequence[Recording], peaks: Sequence[float]) -> list[Case]:
    """Each recording on each type, at each peak, in each shape, with each set of volumes."""
    return [
        Case(recording=recording, number=number, type_name=type_name, peak=peak, shape=shape, volumes=volumes)
        for number, recording in enumerate(recordings)
        if sum(recording.iops) > 0
        for type_name, peak, shape, volumes in product(TYPES, peaks, LoadShape, VOLUMES)
    ]


def format_rows(outcomes: Sequence[Any], *labels: str) -> Iterator[str]:
    """A row for each watcher of the outcomes, of instances or of storage."""
    for watcher in dict.fromkeys(outcome.watcher for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.watcher == watcher]
        days = sum(outcome.case.duration_s for outcome in mine) / DAY_S
        announcements = [announcement for outcome in mine for announcement in outcome.announcements]
        leads_min = [(announcement.lead_s or 0) / 60 for announcement in announcements]
        bounds_min = [announcement.bound_lead_s / 60 for announcement in announcements]
        in_time = sum(lead >= bound for lead, bound in zip(leads_min, bounds_min, strict=True))
        announced = sum(announcement.lead_s is not None for announcement in announcements)
        needless = sum(outcome.needless_alerts for outcome in mine)
        cells = [
            *labels,
            watcher,
            f"{days:,.0f}",
            f"{announced:,} of {len(announcements):,}",
            f"{in_time:,}",
            f"{min(leads_min):.0f} / {median(leads_min):.0f}" if leads_min else "",
            f"{min(bounds_min):.0f} / {median(bounds_min):.0f}" if bounds_min else "",
            f"{sum(outcome.alerts for outcome in mine):,}",
            f"{needless:,}",
            f"{100 * needless / days:.2f}",
        ]
        yield f"| {' | '.join(cells)} |"


def parse_arguments(description: str, factors: str, default: str) -> argparse.Namespace:
    """The options of a benchmark of alerts; ``factors`` is the one that multiplies the loads."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", type=Path, nargs="?", help="a folder with folders of recordings")
    parser.add_argument(f"--{factors}", dest="factors", default=default)
    parser.add_argument("--kib", type=float, default=32, help="of operations whose size was not recorded")
    parser.add_argument("--every", type=int, default=1, help="use only every n-th case")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    options.factors = [float(text) for text in options.factors.split(",")]
    return options


def read_loads(options: argparse.Namespace) -> list[Recording]:
    """The synthetic loads, and those of the recordings that do any I/O."""
    loads = synthetic_recordings()
    if options.traces is None:
        print("no TRACES: recorded load is skipped, and only the synthetic loads are used", file=sys.stderr)
        return loads
    recordings = read_recordings(options.traces, options.kib)
    return loads + [with_even_operations(recording) for recording in recordings if sum(recording.iops)]


def score_all(
    score: Callable[[Any], Sequence[Any]], cases: Sequence[Any], workers: int
) -> list[Sequence[Any]]:
    """The outcomes of each case, in several processes."""
    outcomes = []
    with ProcessPoolExecutor(workers) as pool:
        for number, scored in enumerate(pool.map(score, cases, chunksize=4), start=1):
            outcomes.append(scored)
            if sys.stderr.isatty():
                print(f"\r{number:,} of {len(cases):,} cases", end="", file=sys.stderr)
    return outcomes


def main() -> None:
    """Print the rows of each set, shape and set of volumes, and of all together."""
    options = parse_arguments(str(__doc__), "peaks", "1.5,3,5")
    cases = make_cases(read_loads(options), options.factors)[:: options.every]
    outcomes = list(chain.from_iterable(score_all(score, cases, options.workers)))
    titles = (
        "load", "shape", "volumes", "watcher", "instance-days", "announced", "in time",
        "lead, min: least / median", "bound", "alerts", "needless", "per 100 days",
    )  # fmt: skip
    print(f"| {' | '.join(titles)} |\n| --- | --- | --- | --- |{' ---: |' * (len(titles) - 4)}")
    folders = dict.fromkeys(outcome.case.recording.folder for outcome in outcomes)
    for folder, shape, volumes in product(folders, LoadShape, VOLUMES):
        group = [
            outcome
            for outcome in outcomes
            if (outcome.case.recording.folder, outcome.case.shape, outcome.case.volumes)
            == (folder, shape, volumes)
        ]
        print("\n".join(format_rows(group, folder, shape, volumes)))
    print("\n".join(format_rows(outcomes, "all", "", "")))


if __name__ == "__main__":
    main()

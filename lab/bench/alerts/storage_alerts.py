"""Recorded load on EFS and on RDS storage: how early empty buckets are announced, and how often needlessly.

    .venv/bin/python lab/bench/alerts/storage_alerts.py [TRACES] [--depths 0.6,1.2,2] [--every N]

Each load is what a file system of each of ``FILE_SYSTEMS_GIB`` writes, or the operations of a database with
gp2 storage of each of ``DATABASES_GIB``. It is multiplied so that the deepest fall of an unlimited bucket
that is full at first is as many times the capacity as ``--depths`` says. Below 1, the bucket is never empty.
Within a recorded step, the load is flat, or one burst at the highest rate. The lab simulates the buckets.
Without TRACES, only the synthetic loads of ``instance_alerts.py`` are used.

CloudWatch shows the minimum of each minute 60 to 300 s later. burstwatch reads ten minutes of a file system
at once. From that it assesses, decides and chooses its next poll, with the default policy. AWS's sample
alarms for EFS are at the balance that lasts 180 or 60 minutes at the permitted throughput, and need ten
datapoints in a row (aws-samples/amazon-efs-tutorial, efs-burst-credit-balance-alarms.yml). A Terraform module
has 192 GB. Of RDS, the alarm is at 20 %. Alarms see a datapoint at once when it appears.

What counts as a depletion, as ``in time`` and as needless is as for instances, see ``instance_alerts.py``.
"""

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, product
from math import inf
from typing import Final

from instance_alerts import (
    SETTINGS,
    Announcement,
    PublishedBalance,
    bound_lead_s,
    find_alarms,
    find_depletions,
    format_rows,
    parse_arguments,
    read_loads,
    score_all,
    watch,
)
from simulate_accuracy import Recording

from burstlab.model.clock import LabClock
from burstlab.model.database import STORAGE, LabDatabase
from burstlab.model.file_system import BUCKET, LabFileSystem
from burstlab.model.fleet import LabFleet
from burstlab.model.loads.load import Load, SizedLoad
from burstlab.model.loads.load import Recording as LabRecording
from burstlab.model.metered_resource import MeteredResource
from burstlab.model.minute_history import MINUTE_S
from burstlab.score.cases import BurstyLoad, LoadShape
from burstlab.score.ground_truth import DAY_S, START, START_S, GroundTruth
from burstlab.score.job import find_lead_s
from burstwatch.core.assessment.resource import AdvisedResource
from burstwatch.core.assessment.resource_buckets import bucket_or_unknown
from burstwatch.core.buckets.bucket import Bucket, BucketKind
from burstwatch.core.buckets.units import GIB, MIB
from burstwatch.core.efs.efs_bucket import EFS_BYTES
from burstwatch.core.efs.file_system import FileSystem
from burstwatch.core.policy.bucket_policy import policy_of_bucket
from burstwatch.core.policy.policy import Policy
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.rds.rds_buckets import RDS_IO

FILE_SYSTEMS_GIB: Final = (20, 100, 1_024)
DATABASES_GIB: Final = (20, 100, 400)
_FILE_SYSTEM_ID: Final = "fs-00000000000000001"
_DATABASE: Final = "orders"
_WRITE_KIB: Final = 1_024
_TRIES: Final = 40  # of the factor of a load: more than enough for a rounding error
MINUTES_ALARMS: Final = {"minutes to zero, 180": 180, "minutes to zero, 60": 60}
_MINUTES_DATAPOINTS: Final = 10
FIXED_BYTES: Final = 192e9
FIXED_ALARM: Final = "alarm at 192 GB"
PCT_ALARM: Final = "alarm at 20 %"
ALARM_PCT: Final = 20.0
CRITICAL: Final = "burstwatch, critical"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A recording on a file system or on the storage of a database, of a size in GiB."""

    recording: Recording
    number: int
    is_efs: bool
    size_gib: int
    depth: float
    shape: LoadShape

    @property
    def kind(self) -> BucketKind:
        return EFS_BYTES if self.is_efs else RDS_IO

    @property
    def duration_s(self) -> int:
        """Whole periods of ten minutes, which are those of EFS."""
        return len(self.recording.iops) * self.recording.step_s // EFS_BYTES.period_s * EFS_BYTES.period_s

    @property
    def phase(self) -> float:
        """Where between two sweeps it is polled, 0 to 1: the same in every run."""
        place = f"{self.kind.name}/{self.size_gib}"
        text = f"{self.recording.folder}/{self.number}/{place}/{self.depth}/{self.shape}"
        return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") / 2**32


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one watcher did for one resource."""

    case: Case
    watcher: str
    announcements: Sequence[Announcement]
    alerts: int
    needless_alerts: int
    needless_at_pace: int = 0
    """Those about a bucket that, at its pace, would have been empty within ``act_lead``."""


def deepest_fall(rates: Sequence[float], step_s: float, bucket: Bucket) -> float:
    """The deepest fall below full of a bucket that may go below empty, in shares of its capacity."""
    level = lowest = 0.0
    for rate in rates:
        level = min(0.0, level + (bucket.refill_per_s - min(rate, bucket.burst_per_s)) * step_s)
        lowest = min(lowest, level)
    return -lowest / bucket.capacity


def scale_to_depth(rates: Sequence[float], step_s: float, bucket: Bucket, depth: float) -> float | None:
    """What multiplies a load so that the deepest fall is this; None if even the highest rate does less."""
    lower, upper = 0.0, bucket.burst_per_s / min(rate for rate in rates if rate > 0)
    if deepest_fall([upper * rate for rate in rates], step_s, bucket) < depth:
        return None
    for _ in range(_TRIES):
        middle = (lower + upper) / 2
        if deepest_fall([middle * rate for rate in rates], step_s, bucket) < depth:
            lower = middle
        else:
            upper = middle
    return upper


def make_load(case: Case, bucket: Bucket) -> Load | None:
    """The load of the case; None if the recording is too short for its depth."""
    recording, is_efs = case.recording, case.is_efs
    rates = [mib_s * MIB for mib_s in recording.mib_s] if is_efs else list(recording.iops)
    scale = scale_to_depth(rates, recording.step_s, bucket, case.depth)
    if scale is None:
        return None
    unit = _WRITE_KIB * 1_024 if is_efs else 1
    load: Load = LabRecording(
        recording.step_s, [0.0] * len(rates), [min(bucket.burst_per_s, scale * rate) / unit for rate in rates]
    )
    if case.shape is LoadShape.BURSTY:
        load = BurstyLoad(load, bucket.burst_per_s / unit)  # type: ignore[arg-type]
    return SizedLoad(load=load, operation_kib=_WRITE_KIB if is_efs else 16)


def resource_of(case: Case) -> AdvisedResource:
    """The resource of a case, as burstwatch reads it."""
    if case.is_efs:
        size_bytes = case.size_gib * GIB
        return FileSystem(
            file_system_id=_FILE_SYSTEM_ID,
            throughput_mode="bursting",
            standard_bytes=size_bytes,
            size_bytes=size_bytes,
            state="available",
            created_at=START,
        )
    return DbInstance(
        identifier=_DATABASE,
        dbi_resource_id="db-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        engine="postgres",
        instance_class="db.m5.4xlarge",
        storage_type="gp2",
        allocated_gib=case.size_gib,
        status="available",
        created_at=START,
    )


def simulate(case: Case, load: Load) -> GroundTruth:
    """The truth about the bucket, to a day after the end."""
    fleet = LabFleet(LabClock.manual(START), SETTINGS)
    if case.is_efs:
        fleet.file_systems.add(
            LabFileSystem(
                file_system_id=_FILE_SYSTEM_ID,
                size_gib=case.size_gib,
                load=load,
                starts_at=START,
                created_at=START,
            )
        )
    else:
        fleet.databases.add(
            LabDatabase(
                identifier=_DATABASE,
                allocated_gib=case.size_gib,
                load=load,
                starts_at=START,
                created_at=START,
            )
        )
    minima: list[float] = []
    end_s = START_S + case.duration_s + DAY_S
    while (from_s := fleet.now_s()) < end_s:
        fleet.clock.advance(min(DAY_S, end_s - from_s))
        simulated = _find(fleet, case)
        history, pool = simulated.balances[_pool_of(case)], simulated.pools[_pool_of(case)]
        first, last = (from_s - START_S) // MINUTE_S, (fleet.now_s() - START_S) // MINUTE_S
        day = [100.0] * (last - first)
        for run in history.runs(first, last):
            for index in range(run.minute_count):
                day[run.first_minute - first + index] = (
                    100 * (run.minimum + index * run.step) / pool.recorded_full
                )
        minima.extend(day)
    return GroundTruth(case.duration_s, minima, (), 0.0)


def _find(fleet: LabFleet, case: Case) -> MeteredResource:
    if case.is_efs:
        return fleet.file_systems.find(_FILE_SYSTEM_ID)
    return fleet.databases.find(_DATABASE)


def _pool_of(case: Case) -> str:
    return BUCKET if case.is_efs else STORAGE


def alarms_of(kind: BucketKind, bucket: Bucket) -> dict[str, tuple[float, int]]:
    """The threshold of each alarm in per cent, and the datapoints in a row that it needs."""
    if kind is RDS_IO:
        return {PCT_ALARM: (ALARM_PCT, 1)}
    alarms = {
        name: (min(100.0, bucket.pct_of(60 * minutes * bucket.burst_per_s)), _MINUTES_DATAPOINTS)
        for name, minutes in MINUTES_ALARMS.items()
    }
    return alarms | {FIXED_ALARM: (bucket.pct_of(FIXED_BYTES), 1)}


def lasts_s(balance: PublishedBalance, at_s: float) -> float:
    """How long the bucket lasts from a moment on, at the faster pace of the last period and the last five."""
    newest = bisect_right(balance.shown_at_s, at_s) - 1
    value_pct = balance.values[newest]
    age_s = at_s - (START_S + (newest + 1) * balance.period_s)
    paces = [
        (balance.values[max(0, newest - back)] - value_pct) / (back * balance.period_s) for back in (1, 5)
    ]
    return value_pct / max(paces) - age_s if max(paces) > 0 else inf


def score(case: Case) -> list[Outcome]:
    """What each watcher did; nothing if the recording is too short for this depth."""
    resource = resource_of(case)
    bucket = bucket_or_unknown(resource, case.kind)
    load = make_load(case, bucket)
    if load is None:
        return []
    truth = simulate(case, load)
    policy = policy_of_bucket(Policy(), case.kind, bucket)
    balance = PublishedBalance.of(truth, case.kind.period_s, resource.resource_id)
    by_minute = PublishedBalance.of(truth, MINUTE_S, resource.resource_id)
    spans_by_watcher = watch(resource, case.kind, balance, policy, phase=case.phase)
    for name, (threshold_pct, datapoints) in alarms_of(case.kind, bucket).items():
        spans_by_watcher[name] = find_alarms(by_minute, threshold_pct, datapoints)
    depletions = find_depletions(truth)
    counts = Counter({watcher: len(spans) for watcher, spans in spans_by_watcher.items()})
    return [
        Outcome(
            case=case,
            watcher=watcher,
            announcements=[
                Announcement(
                    lead_s=find_lead_s(depletion, spans),
                    bound_lead_s=bound_lead_s(depletion, balance, bucket, policy.cadence),
                )
                for depletion in depletions
            ],
            alerts=counts[watcher],
            needless_alerts=len(needless),
            needless_at_pace=sum(
                lasts_s(balance, start_s) <= policy.cadence.act_lead.total_seconds() for start_s in needless
            ),
        )
        for watcher, spans in spans_by_watcher.items()
        for needless in [[start_s for start_s, _ in spans if not truth.is_empty_within(start_s)]]
    ]


def make_cases(recordings: Sequence[Recording], depths: Sequence[float]) -> list[Case]:
    """Each recording on each kind and size, at each depth, in each shape."""
    places = [*product([True], FILE_SYSTEMS_GIB), *product([False], DATABASES_GIB)]
    return [
        Case(recording=recording, number=number, is_efs=is_efs, size_gib=size_gib, depth=depth, shape=shape)
        for number, recording in enumerate(recordings)
        if sum(recording.iops) > 0
        for (is_efs, size_gib), depth, shape in product(places, depths, LoadShape)
    ]


def main() -> None:
    """Print the rows of each kind and shape, and of each kind."""
    options = parse_arguments(str(__doc__), "depths", "0.6,1.2,2")
    cases = make_cases(read_loads(options), options.factors)[:: options.every]
    scored = score_all(score, cases, options.workers)
    outcomes = list(chain.from_iterable(scored))
    titles = (
        "bucket", "shape", "watcher", "resource-days", "announced", "in time",
        "lead, min: least / median", "bound", "alerts", "needless", "per 100 days",
    )  # fmt: skip
    print(f"| {' | '.join(titles)} |\n| --- | --- | --- |{' ---: |' * (len(titles) - 3)}")
    for kind in (EFS_BYTES, RDS_IO):
        of_kind = [outcome for outcome in outcomes if outcome.case.kind is kind]
        for shape in LoadShape:
            group = [outcome for outcome in of_kind if outcome.case.shape == shape]
            print("\n".join(format_rows(group, kind.name, shape)))
        print("\n".join(format_rows(of_kind, kind.name, "all")))
        critical = [outcome for outcome in of_kind if outcome.watcher == CRITICAL]
        needless = sum(outcome.needless_alerts for outcome in critical)
        at_pace = sum(outcome.needless_at_pace for outcome in critical)
        print(
            f"{kind.name}: of {needless:,} needless critical alerts, {at_pace:,} were about a bucket that, "
            "at its pace, would have been empty within act_lead",
            file=sys.stderr,
        )
    print(
        f"{len(cases):,} cases, of which {scored.count([]):,} recordings are too short to drain so much",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()

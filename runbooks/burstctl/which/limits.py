"""Every limit between a process and its storage: which one applies now, which is next, and how it is known.

Pure: what was read is an argument. A limit whose data are missing is unknown, and never counts as far away.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Final

from burstctl.which.host_report import HostReport
from burstwatch.core.assessment.assess import STOPPED_STATES, Assessment, UnknownReason
from burstwatch.core.buckets.bucket import BucketKind
from burstwatch.core.buckets.forecast import describe_trend
from burstwatch.core.buckets.series import PERIOD_S, Series, sum_of
from burstwatch.core.ebs.hdd_bucket import HDD_RATES
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_ceiling import VolumeCeiling, ceiling_of
from burstwatch.core.efs.efs_bucket import MIB, limit_when_empty_per_s, no_bucket_reason
from burstwatch.core.efs.file_system import GENERAL_PURPOSE, FileSystem
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import INSTANCE_IO, INSTANCE_KINDS, drain_proof
from burstwatch.core.instances.instance_metrics import InstanceMetrics
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.rds.rds_buckets import (
    RDS_CLASS_IO,
    RDS_CLASS_THROUGHPUT,
    RDS_IO,
    no_storage_bucket_reason,
    not_running_reason,
    storage_limits,
)
from burstwatch.core.text import format_duration, format_time
from burstwatch.core.watch.witness import capacity_sentences, capitalise, reset_sentences

AT_LIMIT_SHARE: Final = 0.95
"""A judgement: a load of this share of its limit is at it. Sums of a minute hide the bursts within it."""

BELOW_BASELINE_SHARE: Final = 0.9
"""A judgement: an empty bucket does not hold back a load below this share of its baseline."""

_FALLEN_LIMIT_FACTOR: Final = 1.5
"""A judgement: a load above a limit by this was served before the limit fell, as EFS does without credits."""
_RECENT_S: Final = 5 * 60
"""What counts as now: the newest five minutes of data."""
_MAX_VOLUME_AGE_S: Final = 10 * 60
"""Older minutes say nothing about now; twice the usual lag."""
_MAX_INSTANCE_AGE_S: Final = 20 * 60
"""The same for metrics of five minutes."""
_BYTES_PER_MIB: Final = 2**20


class LimitKind(StrEnum):
    """Public: ``kind`` in the document."""

    INSTANCE_IO_CREDITS = "instance-io-credits"
    INSTANCE_THROUGHPUT_CREDITS = "instance-throughput-credits"
    CLASS_IO_CREDITS = "class-io-credits"
    CLASS_THROUGHPUT_CREDITS = "class-throughput-credits"
    VOLUME_CREDITS = "volume-credits"
    STORAGE_CREDITS = "storage-credits"
    INSTANCE_IOPS = "instance-iops"
    INSTANCE_THROUGHPUT = "instance-throughput"
    CLASS_IOPS = "class-iops"
    CLASS_THROUGHPUT = "class-throughput"
    VOLUME_IOPS = "volume-iops"
    VOLUME_THROUGHPUT = "volume-throughput"
    STORAGE_IOPS = "storage-iops"
    STORAGE_THROUGHPUT = "storage-throughput"
    FILE_SYSTEM_CREDITS = "file-system-credits"
    FILE_SYSTEM_THROUGHPUT = "file-system-throughput"
    FILE_SYSTEM_IO = "file-system-io"
    HOST = "host"

    @property
    def is_credits(self) -> bool:
        return self.value.endswith("credits")

    @property
    def is_of_volume(self) -> bool:
        return self.value.startswith("volume") or self is LimitKind.HOST

    @property
    def owner(self) -> str:
        """``instance``, ``volume``, ``file system``, and of a database ``class`` or ``storage``; ``host``."""
        owner = self.value.partition("-")[0]
        return "file system" if owner == "file" else owner


class LimitState(StrEnum):
    """Public: whether a limit applies. The most important first."""

    NOW = "now"
    NEXT = "next"
    UNKNOWN = "unknown"
    NO = "no"
    NEVER = "never"


_NO_HISTORY: Final = MetricHistory(period_s=PERIOD_S)
_NO_METRICS: Final = InstanceMetrics()
_STATE_ORDER: Final = tuple(LimitState)
_KIND_ORDER: Final = tuple(LimitKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit, in ``unit`` (IOPS, MiB/s, or % of the I/O of a file system), and how near the load is to it.

    Of credits, ``limit`` is the baseline, which applies once they are used up. ``balance_pct`` and its age
    are those of CloudWatch's newest datapoint; if that is at the exhausted level, it ``is_empty``. Both times
    are in seconds from now; ``time_to_empty_s`` is None if the credits are not draining. ``use`` is the
    highest load of the newest five minutes. Each is None if it is not known. ``evidence`` are sentences
    without their full stops.
    """

    kind: LimitKind
    resource_id: str
    state: LimitState
    unit: str = ""
    limit: float | None = None
    use: float | None = None
    credits: str = ""
    balance_pct: float | None = None
    is_empty: bool = False
    datapoint_age_s: float | None = None
    time_to_empty_s: float | None = None
    soonest_empty_s: float | None = None
    evidence: tuple[str, ...] = ()

    @property
    def headroom(self) -> float | None:
        """What is left of the limit; 0 above it."""
        return None if self.limit is None or self.use is None else max(0.0, self.limit - self.use)

    @property
    def use_share(self) -> float | None:
        """The used share of the limit, from 0 on."""
        return None if not self.limit or self.use is None else self.use / self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeFacts:
    """A volume and what was read of it; ``assessment`` is that of its bucket, None without a bucket.

    ``instance`` is the one that it is attached to, None without one or if it could not be described.
    """

    volume: Volume
    instance: Instance | None = None
    assessment: Assessment | None = None
    history: MetricHistory = _NO_HISTORY
    load_error: str | None = None
    iops_exceeded: Series = Series()
    throughput_exceeded: Series = Series()
    reports: tuple[HostReport, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFacts:
    """An instance and what was read of it; ``assessments`` are those of its buckets."""

    instance: Instance
    assessments: Mapping[BucketKind, Assessment]
    metrics: InstanceMetrics = _NO_METRICS
    load_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFacts:
    """A database and what was read of it; ``assessments`` are those of its storage and its class."""

    database: DbInstance
    assessments: Mapping[BucketKind, Assessment]
    history: MetricHistory = _NO_HISTORY
    load_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemFacts:
    """A file system and what was read of it; ``assessment`` is that of its burst credits.

    ``metered`` are sums of bytes by the minute, ``permitted`` the bytes per second that EFS allows, and
    ``io_limit_pct`` how much of the I/O of the general purpose mode it uses.
    """

    file_system: FileSystem
    assessment: Assessment
    metered: Series = Series()
    permitted: Series = Series()
    io_limit_pct: Series = Series()
    load_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Every limit, the most important first; ``now`` are those that apply, ``next_limit`` the next one.

    The next limit is the bucket that is empty first. If none drains and nothing applies, it is the limit that
    the load would reach first if all of it grew by the same factor.
    """

    limits: Sequence[Limit]

    @property
    def now(self) -> list[Limit]:
        return [limit for limit in self.limits if limit.state is LimitState.NOW]

    @property
    def next_limit(self) -> Limit | None:
        return next((limit for limit in self.limits if limit.state is LimitState.NEXT), None)

    @property
    def unknown(self) -> list[Limit]:
        return [limit for limit in self.limits if limit.state is LimitState.UNKNOWN]


def decide(limits: Iterable[Limit]) -> Answer:
    """Name the next limit among these, and put them in order."""
    ordered = list(limits)
    upcoming = _choose_next(ordered)
    marked = [replace(limit, state=LimitState.NEXT) if limit is upcoming else limit for limit in ordered]
    return Answer(limits=sorted(marked, key=_urgency))


def _choose_next(limits: Sequence[Limit]) -> Limit | None:
    open_limits = [limit for limit in limits if limit.state is LimitState.NO]
    draining = [limit for limit in open_limits if limit.time_to_empty_s is not None]
    if draining:
        return min(draining, key=lambda limit: limit.time_to_empty_s or 0.0)
    used = [limit for limit in open_limits if not limit.kind.is_credits and limit.use_share]
    if not used or any(limit.state is LimitState.NOW for limit in limits):
        return None
    return max(used, key=lambda limit: limit.use_share or 0.0)


def _urgency(limit: Limit) -> tuple[int, int, float, float, str]:
    time_to_empty_s = inf if limit.time_to_empty_s is None else limit.time_to_empty_s
    return (
        _STATE_ORDER.index(limit.state),
        _KIND_ORDER.index(limit.kind) if limit.state is LimitState.NOW else 0,
        time_to_empty_s,
        -(limit.use_share or 0.0),
        f"{_KIND_ORDER.index(limit.kind)}{limit.resource_id}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """The highest rate of the newest five minutes, and how long ago they ended; why it is unknown."""

    rate: float | None = None
    age_s: float = 0.0
    why_unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """What the limits of one resource share: ``unused`` says why no process can use it."""

    resource_id: str
    now_s: float
    exhausted_pct: float
    max_age_s: float
    unused: str | None


def volume_limits(facts: VolumeFacts, *, now_s: float, exhausted_pct: float) -> list[Limit]:
    """The limits of a volume: its credits, its IOPS and throughput, and what its host reports.

    ``exhausted_pct`` is the balance at or below which credits count as used up.
    """
    volume, assessment = facts.volume, facts.assessment
    scope = _Scope(
        resource_id=volume.volume_id,
        now_s=now_s,
        exhausted_pct=exhausted_pct,
        max_age_s=_MAX_VOLUME_AGE_S,
        unused=why_unused(volume, facts.instance),
    )
    history = facts.history
    iops = _measure(sum_of(history.read_ops, history.write_ops), scope, facts.load_error)
    mib_s = _measure(_in_mib(sum_of(history.read_bytes, history.write_bytes)), scope, facts.load_error)
    is_hdd, is_empty = volume.volume_type in HDD_RATES, _is_empty(assessment, scope)
    limits = []
    if assessment is not None:
        load, exceeded = (mib_s, facts.throughput_exceeded) if is_hdd else (iops, facts.iops_exceeded)
        limits.append(_volume_credits(assessment, load, exceeded, scope))
    ceiling, proofs = ceiling_of(volume), _instance_proofs(facts.instance, ceiling_of(volume))
    no_limit = f"AWS shows no limits of the type {volume.volume_type}"
    # AWS limits st1 and sc1 by throughput: it counts their operations after merging.
    if not is_hdd:
        limits.append(
            _rate(
                LimitKind.VOLUME_IOPS,
                ceiling.iops if ceiling else None,
                iops,
                facts.iops_exceeded,
                scope,
                is_empty=is_empty,
                proof=proofs[0],
                no_limit=no_limit,
            )
        )
    limits.append(
        _rate(
            LimitKind.VOLUME_THROUGHPUT,
            ceiling.mib_s if ceiling else None,
            mib_s,
            facts.throughput_exceeded,
            scope,
            is_empty=is_empty and is_hdd,
            proof=proofs[1],
            no_limit=no_limit,
        )
    )
    return [*limits, *(_host(report, scope) for report in facts.reports)]


def instance_limits(facts: InstanceFacts, *, now_s: float, exhausted_pct: float) -> list[Limit]:
    """The limits of an instance: its credits for I/O and throughput, and the maximum of its type in both."""
    instance = facts.instance
    scope = _Scope(
        resource_id=instance.instance_id,
        now_s=now_s,
        exhausted_pct=exhausted_pct,
        max_age_s=_MAX_INSTANCE_AGE_S,
        unused=_why_stopped(instance),
    )
    return [limit for kind in INSTANCE_KINDS for limit in _limits_of_bucket(facts, kind, scope)]


def _limits_of_bucket(facts: InstanceFacts, kind: BucketKind, scope: _Scope) -> Iterator[Limit]:
    instance, assessment, proof = facts.instance, facts.assessments[kind], drain_proof(facts.instance, kind)
    load = _measure(facts.metrics.load_of(kind), scope, facts.load_error)
    exceeded = facts.metrics.exceeded(kind)
    credits_limit = _credits(
        LimitKind.INSTANCE_IO_CREDITS if kind is INSTANCE_IO else LimitKind.INSTANCE_THROUGHPUT_CREDITS,
        assessment,
        load,
        exceeded,
        scope,
        baseline=None if proof is None else proof.baseline,
        proof=proof.describe() if proof is not None and proof.cannot_drain else None,
    )
    yield credits_limit
    volumes_limit = None if proof is None else proof.volumes_limit
    is_out_of_reach = proof is not None and volumes_limit is not None and volumes_limit < proof.maximum
    volumes = "its volume serves" if len(instance.volume_ids) == 1 else "together, its volumes serve"
    limit = _rate(
        LimitKind.INSTANCE_IOPS if kind is INSTANCE_IO else LimitKind.INSTANCE_THROUGHPUT,
        None if proof is None else proof.maximum,
        load,
        exceeded,
        scope,
        is_empty=_is_empty(assessment, scope),
        proof=f"{volumes} {rate_text(volumes_limit or 0, kind.rate_unit)} at most"
        if is_out_of_reach
        else None,
        no_limit="The limits of its type could not be read"
        if instance.limits_error
        else f"EC2 shows no EBS limits of the type {instance.instance_type}",
    )
    if limit.state is LimitState.NOW and credits_limit.state is LimitState.UNKNOWN:
        doubt = (
            "Its credits are unknown: if they are used up, the limit that applies is the baseline of"
            f" {rate_text(credits_limit.limit or 0, kind.rate_unit)}"
        )
        limit = replace(limit, evidence=(*limit.evidence, doubt))
    yield limit


def database_limits(facts: DatabaseFacts, *, now_s: float, exhausted_pct: float) -> list[Limit]:
    """The limits of a database: credits, IOPS and throughput, of its storage and of its class.

    RDS has no check of a limit, as EC2 has. The load of the root volume, which counts against the class, is
    not known.
    """
    database, history = facts.database, facts.history
    scope = _Scope(
        resource_id=database.resource_id,
        now_s=now_s,
        exhausted_pct=exhausted_pct,
        max_age_s=_MAX_VOLUME_AGE_S,
        unused="it is stopped" if not_running_reason(database) else None,
    )
    iops = _measure(sum_of(history.read_ops, history.write_ops), scope, facts.load_error)
    mib_s = _measure(_in_mib(sum_of(history.read_bytes, history.write_bytes)), scope, facts.load_error)
    storage, no_bucket = facts.assessments[RDS_IO], no_storage_bucket_reason(database)
    limits = [
        _credits(
            LimitKind.STORAGE_CREDITS,
            storage,
            iops,
            None,
            scope,
            baseline=None if no_bucket else storage.bucket.refill_per_s,
            proof=no_bucket,
        )
    ]
    for kind, most, load in zip(
        (LimitKind.STORAGE_IOPS, LimitKind.STORAGE_THROUGHPUT),
        storage_limits(database),
        (iops, mib_s),
        strict=True,
    ):
        is_empty = kind is LimitKind.STORAGE_IOPS and _is_empty(storage, scope)
        no_limit = f"RDS shows no limit of its {database.storage_type} storage"
        limits.append(_rate(kind, most, load, None, scope, is_empty=is_empty, proof=None, no_limit=no_limit))
    return [
        *limits,
        *_class_limits(facts, iops, RDS_CLASS_IO, scope),
        *_class_limits(facts, mib_s, RDS_CLASS_THROUGHPUT, scope),
    ]


def _class_limits(facts: DatabaseFacts, load: _Load, kind: BucketKind, scope: _Scope) -> Iterator[Limit]:
    """The credits and the maximum of the class, in one unit."""
    database, assessment, is_io = facts.database, facts.assessments[kind], kind is RDS_CLASS_IO
    known = database.limits
    baseline = most = None
    if known is not None:
        baseline = known.baseline_iops if is_io else known.baseline_throughput_mib_s
        most = known.max_iops if is_io else known.max_throughput_mib_s
    proof = None
    if assessment.unknown_reason in (UnknownReason.NO_SUCH_BUCKET, UnknownReason.NEVER_EMPTY) and known:
        proof = assessment.unknown_because
    yield _credits(
        LimitKind.CLASS_IO_CREDITS if is_io else LimitKind.CLASS_THROUGHPUT_CREDITS,
        assessment,
        load,
        None,
        scope,
        baseline=baseline,
        proof=proof,
    )
    yield _rate(
        LimitKind.CLASS_IOPS if is_io else LimitKind.CLASS_THROUGHPUT,
        most,
        load,
        None,
        scope,
        is_empty=_is_empty(assessment, scope),
        proof=None,
        no_limit=f"the limits of {database.instance_class} are not known",
    )


def file_system_limits(facts: FileSystemFacts, *, now_s: float, exhausted_pct: float) -> list[Limit]:
    """The limits of a file system: its credits, its throughput, and the I/O of its performance mode.

    Reads are metered at one third. Without credits, the throughput that EFS permits is their baseline.
    """
    file_system, assessment = facts.file_system, facts.assessment
    scope = _Scope(
        resource_id=file_system.file_system_id,
        now_s=now_s,
        exhausted_pct=exhausted_pct,
        max_age_s=_MAX_INSTANCE_AGE_S,
        unused=None,
    )
    load = _measure(_in_mib(facts.metered), scope, facts.load_error)
    credits_limit = _credits(
        LimitKind.FILE_SYSTEM_CREDITS,
        assessment,
        load,
        None,
        scope,
        baseline=limit_when_empty_per_s(file_system.standard_bytes) / MIB,
        proof=no_bucket_reason(file_system),
        unit="MiB/s",
    )
    permitted = facts.permitted.newest
    throughput_limit = _rate(
        LimitKind.FILE_SYSTEM_THROUGHPUT,
        permitted.value / MIB if permitted else None,
        load,
        None,
        scope,
        is_empty=False,
        proof=None,
        no_limit="CloudWatch has no recent PermittedThroughput of it",
    )
    mode = file_system.performance_mode
    io_limit = _rate(
        LimitKind.FILE_SYSTEM_IO,
        100.0,
        _measure(_as_sums(facts.io_limit_pct), scope, facts.load_error),
        None,
        scope,
        is_empty=False,
        proof=None if mode == GENERAL_PURPOSE else f"the performance mode {mode} has no such limit",
        no_limit="",
    )
    is_throttled = credits_limit.state is LimitState.NOW
    return [credits_limit, *([] if is_throttled else [throughput_limit]), io_limit]


def _as_sums(series: Series) -> Series:
    """Values as sums of their periods, so that their rate per second is the value."""
    return Series(
        series.starts_at_s, tuple(value * series.period_s for value in series.values), series.period_s
    )


def unknown_instance_limits(instance_id: str, reason: str) -> list[Limit]:
    """The limits of an instance that could not be described."""
    kinds = [kind for kind in LimitKind if kind.owner == "instance"]
    return [
        Limit(kind=kind, resource_id=instance_id, state=LimitState.UNKNOWN, evidence=(reason,))
        for kind in kinds
    ]


def why_unused(volume: Volume, instance: Instance | None) -> str | None:
    """Why no process can use a volume; None if one can."""
    if not volume.attached:
        return "it is not attached"
    return _why_stopped(instance) if instance else None


def _why_stopped(instance: Instance) -> str | None:
    return f"{instance.instance_id} is {instance.state}" if instance.state in STOPPED_STATES else None


def _is_empty(assessment: Assessment | None, scope: _Scope) -> bool:
    balance_pct = assessment.balance_pct if assessment else None
    return balance_pct is not None and balance_pct <= scope.exhausted_pct


def _credits(
    kind: LimitKind,
    assessment: Assessment,
    load: _Load,
    exceeded: Series | None,
    scope: _Scope,
    *,
    baseline: float | None,
    proof: str | None,
    unit: str | None = None,
) -> Limit:
    """Credits; ``baseline`` is what applies without them, and ``proof`` says why they cannot run out.

    ``exceeded`` is CloudWatch's check of the limit, None where it has none. ``unit`` is that of the baseline
    and the load, if it is not that of the bucket.
    """
    unit = unit or assessment.kind.rate_unit
    limit = Limit(
        kind=kind,
        resource_id=scope.resource_id,
        state=LimitState.NO,
        unit=unit,
        limit=baseline,
        use=load.rate,
        credits=assessment.kind.credits,
    )
    if scope.unused is not None:
        return replace(limit, evidence=(capitalise(scope.unused),))
    if proof is not None:
        return replace(limit, state=LimitState.NEVER, evidence=(capitalise(proof),))
    if assessment.unknown_reason is not None or baseline is None:
        return replace(limit, state=LimitState.UNKNOWN, evidence=(_why_unread(assessment),))
    # An assessment without a reason has these.
    assert assessment.sample is not None
    assert assessment.age_s is not None
    assert assessment.forecast is not None
    balance_pct, forecast = assessment.sample.value, assessment.forecast
    limit = replace(
        limit,
        balance_pct=balance_pct,
        datapoint_age_s=assessment.age_s,
        time_to_empty_s=forecast.time_to_empty_s,
        soonest_empty_s=forecast.soonest_empty_s,
    )
    sampled_at = format_time(assessment.sample.end_at_s, scope.now_s)
    balance = (
        f"{assessment.kind.metric} was {balance_pct:.1f} % at {sampled_at} UTC,"
        f" {format_duration(assessment.age_s)} ago"
    )
    load_evidence = _load_evidence(load, baseline, unit, "baseline")
    observed = (*capacity_sentences(assessment), *reset_sentences(assessment, scope.now_s))
    if not _is_empty(assessment, scope):
        has_trend = forecast.time_to_empty_s is not None or forecast.drain_per_s is not None
        if not has_trend and load.rate is not None and load.rate > baseline:
            limit = replace(limit, time_to_empty_s=_empty_by_load_s(assessment, load.rate / baseline))
        trend = _trend(limit, assessment, scope)
        return replace(limit, evidence=(balance, *trend, *observed, *load_evidence))
    minutes_above = _minutes_above(exceeded, scope)
    is_below = load.rate is not None and load.rate < BELOW_BASELINE_SHARE * baseline
    if is_below and not minutes_above:
        effect = f"A load above {rate_text(baseline, unit)} would be held to it at once"
        return replace(limit, is_empty=True, time_to_empty_s=0.0, evidence=(balance, *load_evidence, effect))
    return replace(
        limit,
        state=LimitState.NOW,
        is_empty=True,
        time_to_empty_s=0.0,
        evidence=(balance, *load_evidence, *_check_evidence(exceeded, minutes_above)),
    )


def _empty_by_load_s(assessment: Assessment, load_share: float) -> float:
    """Seconds until its credits are used up by a load of ``load_share`` times the baseline, above 1.

    Example: 2,160,000 credits are left of a volume of 100 GiB that serves 840 IOPS, 2.8 times its baseline of
    300: 2,160,000 / (300 * 1.8) = 4,000 s.
    """
    bucket, forecast = assessment.bucket, assessment.forecast
    assert assessment.credits_left is not None
    assert forecast is not None
    empty_s = assessment.credits_left / (bucket.refill_per_s * (load_share - 1))
    return max(empty_s, forecast.soonest_empty_s or 0.0)


def _why_unread(assessment: Assessment) -> str:
    """Why a balance is unknown; the cause of a failed read is reported once, beside the answer."""
    reason = assessment.unknown_reason
    if reason in (None, UnknownReason.READ_FAILED):
        return "It could not be read"
    return capitalise(assessment.unknown_because or reason.description)


def _volume_credits(assessment: Assessment, load: _Load, exceeded: Series, scope: _Scope) -> Limit:
    baseline, unit = assessment.bucket.refill_per_s, assessment.kind.rate_unit
    proof = None
    if assessment.unknown_reason is UnknownReason.NEVER_EMPTY:
        proof = f"its baseline of {rate_text(baseline, unit)} is as high as its burst, so it loses no credits"
    return _credits(
        LimitKind.VOLUME_CREDITS, assessment, load, exceeded, scope, baseline=baseline, proof=proof
    )


def _trend(limit: Limit, assessment: Assessment, scope: _Scope) -> Iterator[str]:
    """When credits are used up: by the estimate, by the bound, or not."""
    bound = ""
    if limit.soonest_empty_s is not None:
        bound = format_time(scope.now_s + limit.soonest_empty_s, scope.now_s)
    forecast = assessment.forecast
    assert forecast is not None
    if limit.time_to_empty_s is not None:
        empty_at = format_time(scope.now_s + limit.time_to_empty_s, scope.now_s)
        has_estimate = forecast.time_to_empty_s is not None
        basis = "By the drain that was measured" if has_estimate else "No trend yet: by its present load"
        yield f"{basis} it is empty at about {empty_at} UTC"
    elif bound:
        yield capitalise(describe_trend(forecast.drain_per_s))
    if bound:
        model = ", if it holds what AWS's rules imply" if assessment.bucket.is_inferred else ""
        yield f"No load can empty it before {bound} UTC{model}"


def _rate(
    kind: LimitKind,
    most: float | None,
    load: _Load,
    exceeded: Series | None,
    scope: _Scope,
    *,
    is_empty: bool,
    proof: str | None,
    no_limit: str,
) -> Limit:
    """A limit of IOPS or MiB/s that does not change.

    ``is_empty``: credits are used up, so their baseline applies before it. ``proof`` says why the load cannot
    reach it, and ``no_limit`` why there is no ``most``.
    """
    unit = "MiB/s" if kind.value.endswith("throughput") else "IOPS"
    unit = "%" if kind is LimitKind.FILE_SYSTEM_IO else unit
    limit = Limit(
        kind=kind, resource_id=scope.resource_id, state=LimitState.NO, unit=unit, limit=most, use=load.rate
    )
    if scope.unused is not None:
        return replace(limit, evidence=(capitalise(scope.unused),))
    if most is None:
        return replace(limit, state=LimitState.UNKNOWN, evidence=(capitalise(no_limit),))
    minutes_above = _minutes_above(exceeded, scope)
    evidence = (*_load_evidence(load, most, unit, "limit"), *_check_evidence(exceeded, minutes_above))
    # CloudWatch's check sees the bursts within a minute, which the sums hide: a load below the limit that the
    # check did not see exceed it is not held back.
    share = 1 if minutes_above == 0 else AT_LIMIT_SHARE
    is_at_limit = load.rate is not None and load.rate >= share * most
    if is_at_limit or (minutes_above and not is_empty):
        return replace(limit, state=LimitState.NOW, evidence=evidence)
    if proof is not None:
        return replace(limit, state=LimitState.NEVER, evidence=(capitalise(proof),))
    if is_empty:
        evidence = (*evidence, "Its credits are used up, so their baseline applies before this limit")
    elif load.rate is None and minutes_above is None:
        return replace(limit, state=LimitState.UNKNOWN, evidence=evidence)
    return replace(limit, evidence=evidence)


def _instance_proofs(
    instance: Instance | None, ceiling: VolumeCeiling | None
) -> tuple[str | None, str | None]:
    """Why a volume cannot reach its own IOPS, and its throughput: its instance allows less."""
    if instance is None or instance.limits is None or ceiling is None:
        return None, None

    def proof(of_volume: float, of_instance: float, unit: str) -> str | None:
        if of_instance >= of_volume:
            return None
        most = rate_text(of_instance, unit)
        return f"its instance, {instance.instance_type}, serves {most} at most, which is less"

    limits = instance.limits
    return (
        proof(ceiling.iops, limits.max_iops, "IOPS"),
        proof(ceiling.mib_s, limits.max_throughput_mib_s, "MiB/s"),
    )


def _host(report: HostReport, scope: _Scope) -> Limit:
    """What ddprobe saw on the host; it applies now if it is recent and the volume made a process wait."""
    is_now = report.is_stalled and report.is_recent(scope.now_s)
    return Limit(
        kind=LimitKind.HOST,
        resource_id=scope.resource_id,
        state=LimitState.NOW if is_now else LimitState.NO,
        evidence=tuple(report.to_sentences(scope.now_s)),
    )


def _measure(sums: Series, scope: _Scope, load_error: str | None) -> _Load:
    if scope.unused is not None or load_error is not None:
        return _Load(why_unknown=load_error or "")
    closed = sums.closed_by(scope.now_s)
    newest = closed.newest
    if newest is None or scope.now_s - newest.end_at_s > scope.max_age_s:
        return _Load(
            why_unknown=f"CloudWatch has no load of it in the last {format_duration(scope.max_age_s)}"
        )
    recent = closed.since(newest.end_at_s - max(_RECENT_S, closed.period_s))
    return _Load(rate=max(recent.values) / closed.period_s, age_s=max(0.0, scope.now_s - newest.end_at_s))


def _minutes_above(exceeded: Series | None, scope: _Scope) -> int | None:
    """In how many of the newest five minutes CloudWatch's check was 1; None without recent datapoints."""
    if exceeded is None:
        return None
    closed = exceeded.closed_by(scope.now_s)
    newest = closed.newest
    if newest is None or scope.now_s - newest.end_at_s > _MAX_VOLUME_AGE_S:
        return None
    return sum(value > 0 for value in closed.since(newest.end_at_s - _RECENT_S).values)


def _load_evidence(load: _Load, most: float, unit: str, name: str) -> tuple[str, ...]:
    if load.rate is None:
        return (f"Its load is not known: {load.why_unknown}",)
    share = f"{100 * load.rate / most:.0f} % of its {name} of {rate_text(most, unit)}" if most else ""
    if name == "limit" and load.rate > _FALLEN_LIMIT_FACTOR * most:
        share = f"its limit is {rate_text(most, unit)} now, and was higher then"
    served = f"up to {rate_text(load.rate, unit)}" if load.rate else "nothing"
    served = f"It {'used' if unit == '%' else 'served'} {served} in the last 5 min of data"
    return (f"{served}, {format_duration(load.age_s)} old: {share}",)


def _check_evidence(exceeded: Series | None, minutes_above: int | None) -> tuple[str, ...]:
    if exceeded is None:
        return ()
    if minutes_above is None:
        return ("CloudWatch's check of this limit has no recent datapoint",)
    if not minutes_above:
        return ("CloudWatch's check: the limit was not exceeded in the last 5 min",)
    return (f"CloudWatch's check: the limit was exceeded in {minutes_above} of the last 5 min",)


def rate_text(rate: float, unit: str) -> str:
    """``3,600 IOPS``, ``81.2 MiB/s``."""
    digits = 1 if unit == "MiB/s" and rate != round(rate) and rate < 1_000 else 0  # noqa: PLR2004 - layout
    return f"{rate:,.{digits}f} {unit}"


def _in_mib(sums: Series) -> Series:
    return Series(sums.starts_at_s, tuple(value / _BYTES_PER_MIB for value in sums.values), sums.period_s)

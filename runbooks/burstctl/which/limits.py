"""Every limit between a process and its storage: which one applies now, which is next, and how it is known.

Pure: what was read is an argument. A limit whose data are missing is unknown, and never counts as far away.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from burstctl.which.host_report import HostReport
from burstctl.which.judge_limit import (
    MAX_VOLUME_AGE_S,
    Load,
    Scope,
    has_no_credits,
    judge_credits,
    judge_rate,
    measure_load,
)
from burstctl.which.limit import Limit, LimitKind, LimitState
from burstwatch.core.assessment.assess import STOPPED_STATES, Assessment, UnknownReason
from burstwatch.core.buckets.bucket import BucketKind
from burstwatch.core.buckets.series import PERIOD_S, Series, sum_of
from burstwatch.core.buckets.units import MIB, format_limit
from burstwatch.core.ebs.hdd_bucket import HDD_RATES
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_ceiling import VolumeCeiling, ceiling_of
from burstwatch.core.efs.efs_bucket import limit_when_empty_per_s, no_bucket_reason
from burstwatch.core.efs.file_system import GENERAL_PURPOSE, FileSystem
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import INSTANCE_IO, INSTANCE_KINDS, drain_proof
from burstwatch.core.instances.instance_metrics import InstanceMetrics
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.rds.rds_buckets import (
    OTHER_VOLUMES,
    RDS_CLASS_IO,
    RDS_CLASS_THROUGHPUT,
    RDS_IO,
    no_storage_bucket_reason,
    not_running_reason,
    storage_limits,
)

_MAX_INSTANCE_AGE_S: Final = 20 * 60
"""The same for metrics of five minutes."""


_NO_HISTORY: Final = MetricHistory(period_s=PERIOD_S)
_NO_METRICS: Final = InstanceMetrics()


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


def volume_limits(facts: VolumeFacts, *, now_s: float, exhausted_pct: float) -> list[Limit]:
    """The limits of a volume: its credits, its IOPS and throughput, and what its host reports.

    ``exhausted_pct`` is the balance at or below which credits count as used up.
    """
    volume, assessment = facts.volume, facts.assessment
    scope = Scope(
        resource_id=volume.volume_id,
        now_s=now_s,
        exhausted_pct=exhausted_pct,
        max_age_s=MAX_VOLUME_AGE_S,
        unused=why_unused(volume, facts.instance),
    )
    history = facts.history
    iops = measure_load(sum_of(history.read_ops, history.write_ops), scope, facts.load_error)
    mib_s = measure_load(_in_mib(sum_of(history.read_bytes, history.write_bytes)), scope, facts.load_error)
    is_hdd, is_empty = volume.volume_type in HDD_RATES, has_no_credits(assessment, scope)
    limits = []
    if assessment is not None:
        load, exceeded = (mib_s, facts.throughput_exceeded) if is_hdd else (iops, facts.iops_exceeded)
        limits.append(_volume_credits(assessment, load, exceeded, scope))
    ceiling, proofs = ceiling_of(volume), _instance_proofs(facts.instance, ceiling_of(volume))
    no_limit = f"AWS shows no limits of the type {volume.volume_type}"
    # AWS limits st1 and sc1 by throughput: it counts their operations after merging.
    if not is_hdd:
        limits.append(
            judge_rate(
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
        judge_rate(
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
    scope = Scope(
        resource_id=instance.instance_id,
        now_s=now_s,
        exhausted_pct=exhausted_pct,
        max_age_s=_MAX_INSTANCE_AGE_S,
        unused=_why_stopped(instance),
    )
    return [limit for kind in INSTANCE_KINDS for limit in _limits_of_bucket(facts, kind, scope)]


def _limits_of_bucket(facts: InstanceFacts, kind: BucketKind, scope: Scope) -> Iterator[Limit]:
    instance, assessment, proof = facts.instance, facts.assessments[kind], drain_proof(facts.instance, kind)
    load = measure_load(facts.metrics.load_of(kind), scope, facts.load_error)
    exceeded = facts.metrics.exceeded(kind)
    no_credits = proof.describe() if proof is not None and proof.cannot_drain else None
    if assessment.unknown_reason is UnknownReason.NO_SUCH_BUCKET:
        no_credits = assessment.unknown_because
    credits_limit = judge_credits(
        LimitKind.INSTANCE_IO_CREDITS if kind is INSTANCE_IO else LimitKind.INSTANCE_THROUGHPUT_CREDITS,
        assessment,
        load,
        exceeded,
        scope,
        baseline=None if proof is None else proof.baseline,
        proof=no_credits,
    )
    yield credits_limit
    volumes_limit = None if proof is None else proof.volumes_limit
    is_out_of_reach = proof is not None and volumes_limit is not None and volumes_limit < proof.maximum
    volumes = "its volume serves" if len(instance.volume_ids) == 1 else "together, its volumes serve"
    limit = judge_rate(
        LimitKind.INSTANCE_IOPS if kind is INSTANCE_IO else LimitKind.INSTANCE_THROUGHPUT,
        None if proof is None else proof.maximum,
        load,
        exceeded,
        scope,
        is_empty=has_no_credits(assessment, scope),
        proof=f"{volumes} {format_limit(volumes_limit or 0, kind.rate_unit)} at most"
        if is_out_of_reach
        else None,
        no_limit="The limits of its type could not be read"
        if instance.limits_error
        else f"EC2 shows no EBS limits of the type {instance.instance_type}",
    )
    if limit.state is LimitState.NOW and credits_limit.state is LimitState.UNKNOWN:
        doubt = (
            "Its credits are unknown: if they are used up, the limit that applies is the baseline of"
            f" {format_limit(credits_limit.limit or 0, kind.rate_unit)}"
        )
        limit = replace(limit, evidence=(*limit.evidence, doubt))
    yield limit


def database_limits(facts: DatabaseFacts, *, now_s: float, exhausted_pct: float) -> list[Limit]:
    """The limits of a database: credits, IOPS and throughput, of its storage and of its class.

    RDS has no check of a limit, as EC2 has. The load of the root volume, which counts against the class, is
    not known.
    """
    database, history = facts.database, facts.history
    scope = Scope(
        resource_id=database.resource_id,
        now_s=now_s,
        exhausted_pct=exhausted_pct,
        max_age_s=MAX_VOLUME_AGE_S,
        unused=not_running_reason(database),
    )
    iops = measure_load(sum_of(history.read_ops, history.write_ops), scope, facts.load_error)
    mib_s = measure_load(_in_mib(sum_of(history.read_bytes, history.write_bytes)), scope, facts.load_error)
    storage, no_bucket = facts.assessments[RDS_IO], no_storage_bucket_reason(database)
    limits = [
        judge_credits(
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
        is_empty = kind is LimitKind.STORAGE_IOPS and has_no_credits(storage, scope)
        no_limit = (
            OTHER_VOLUMES
            if database.has_other_volumes
            else f"RDS shows no limit of its {database.storage_type} storage"
        )
        limits.append(
            judge_rate(kind, most, load, None, scope, is_empty=is_empty, proof=None, no_limit=no_limit)
        )
    return [
        *limits,
        *_class_limits(facts, iops, RDS_CLASS_IO, scope),
        *_class_limits(facts, mib_s, RDS_CLASS_THROUGHPUT, scope),
    ]


def _class_limits(facts: DatabaseFacts, load: Load, kind: BucketKind, scope: Scope) -> Iterator[Limit]:
    """The credits and the maximum of the class, in one unit."""
    database, assessment, is_io = facts.database, facts.assessments[kind], kind is RDS_CLASS_IO
    known = database.limits
    baseline = most = None
    if known is not None:
        baseline = known.baseline_iops if is_io else known.baseline_throughput_mib_s
        most = known.max_iops if is_io else known.max_throughput_mib_s
    proof = None
    if assessment.unknown_reason in (UnknownReason.NO_SUCH_BUCKET, UnknownReason.NEVER_EMPTY):
        proof = assessment.unknown_because
    yield judge_credits(
        LimitKind.CLASS_IO_CREDITS if is_io else LimitKind.CLASS_THROUGHPUT_CREDITS,
        assessment,
        load,
        None,
        scope,
        baseline=baseline,
        proof=proof,
    )
    yield judge_rate(
        LimitKind.CLASS_IOPS if is_io else LimitKind.CLASS_THROUGHPUT,
        most,
        load,
        None,
        scope,
        is_empty=has_no_credits(assessment, scope),
        proof=None,
        no_limit=f"the limits of {database.instance_class} are not known",
    )


def file_system_limits(facts: FileSystemFacts, *, now_s: float, exhausted_pct: float) -> list[Limit]:
    """The limits of a file system: its credits, its throughput, and the I/O of its performance mode.

    Reads are metered at one third. Without credits, the throughput that EFS permits is their baseline.
    """
    file_system, assessment = facts.file_system, facts.assessment
    scope = Scope(
        resource_id=file_system.file_system_id,
        now_s=now_s,
        exhausted_pct=exhausted_pct,
        max_age_s=_MAX_INSTANCE_AGE_S,
        unused=None,
    )
    load = measure_load(_in_mib(facts.metered), scope, facts.load_error)
    credits_limit = judge_credits(
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
    throughput_limit = judge_rate(
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
    io_limit = judge_rate(
        LimitKind.FILE_SYSTEM_IO,
        100.0,
        measure_load(_as_sums(facts.io_limit_pct), scope, facts.load_error),
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


def _volume_credits(assessment: Assessment, load: Load, exceeded: Series, scope: Scope) -> Limit:
    baseline, unit = assessment.bucket.refill_per_s, assessment.kind.rate_unit
    proof = None
    if assessment.unknown_reason is UnknownReason.NEVER_EMPTY:
        proof = (
            f"its baseline of {format_limit(baseline, unit)} is as high as its burst, so it loses no credits"
        )
    return judge_credits(
        LimitKind.VOLUME_CREDITS, assessment, load, exceeded, scope, baseline=baseline, proof=proof
    )


def _instance_proofs(
    instance: Instance | None, ceiling: VolumeCeiling | None
) -> tuple[str | None, str | None]:
    """Why a volume cannot reach its own IOPS, and its throughput: its instance allows less."""
    if instance is None or instance.limits is None or ceiling is None:
        return None, None

    def proof(of_volume: float, of_instance: float, unit: str) -> str | None:
        if of_instance >= of_volume:
            return None
        most = format_limit(of_instance, unit)
        return f"its instance, {instance.instance_type}, serves {most} at most, which is less"

    limits = instance.limits
    return (
        proof(ceiling.iops, limits.max_iops, "IOPS"),
        proof(ceiling.mib_s, limits.max_throughput_mib_s, "MiB/s"),
    )


def _host(report: HostReport, scope: Scope) -> Limit:
    """What ddprobe saw on the host; it applies now if it is recent and the volume made a process wait."""
    is_now = report.is_stalled and report.is_recent(scope.now_s)
    return Limit(
        kind=LimitKind.HOST,
        resource_id=scope.resource_id,
        state=LimitState.NOW if is_now else LimitState.NO,
        evidence=tuple(report.to_sentences(scope.now_s)),
    )


def _in_mib(sums: Series) -> Series:
    return Series(sums.starts_at_s, tuple(value / MIB for value in sums.values), sums.period_s)

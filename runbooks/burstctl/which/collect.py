"""Collects what is known of a resource's limits: from EC2, CloudWatch, the ledger and the host's probe."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from burstctl.context.context import CommandContext
from burstctl.which.host_report import HostReport, RunDirectoryError, read_run_directory, report_of_stall
from burstctl.which.limit import Answer, Limit, decide
from burstctl.which.limits import (
    DatabaseFacts,
    FileSystemFacts,
    InstanceFacts,
    VolumeFacts,
    database_limits,
    file_system_limits,
    instance_limits,
    unknown_instance_limits,
    volume_limits,
    why_unused,
)
from burstwatch.adapters.aws.errors import AwsFailure
from burstwatch.adapters.aws.metric_history import ALL_METRICS, HistoryReader
from burstwatch.core.assessment.assess import (
    STOPPED_STATES,
    Assessment,
    UnknownReason,
    VolumeReading,
    assess,
    not_polled_reason,
)
from burstwatch.core.assessment.assess_resource import BucketReading, assess_resource
from burstwatch.core.buckets.bucket import BucketKind
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.modification import Modification, VolumeSpec
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.efs.file_system import FileSystem
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_metrics import InstanceMetrics
from burstwatch.core.metric_spec import MetricSpec
from burstwatch.core.policy.bucket_policy import policy_of_bucket
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.rds.rds_buckets import RDS_IO, describe_cpu_credits, not_running_reason
from burstwatch.core.resource_type import ResourceType, type_of_id
from burstwatch.core.watch.efs_evidence import EFS_DIMENSION
from burstwatch.core.watch.polling.due_buckets import DueBucket, buckets_of
from burstwatch.core.watch.rds_evidence import RDS_DAY_METRICS, RDS_DIMENSION
from burstwatch.engine.evaluate_resources import read_whether_published
from burstwatch.engine.resource_readers import find_resources
from burstwatch.wiring.bootstrap import WORKERS, build_client
from burstwatch.wiring.settings import SettingsError

_HISTORY_S: Final = 75 * PERIOD_S
"""The longest horizon of a forecast, an hour, before the newest datapoint, which may be late."""

_RECENT_S: Final = 20 * PERIOD_S
"""The load of a database or a file system, and the CPU credits of a database, now."""

_EFS_METRICS: Final = {
    "metered": MetricSpec("MeteredIOBytes", "Sum", PERIOD_S),
    "permitted": MetricSpec("PermittedThroughput", "Minimum", PERIOD_S),
    "io_limit_pct": MetricSpec("PercentIOLimit", "Maximum", PERIOD_S),
}
_LOAD_METRICS: Final = tuple(name for name in ALL_METRICS if name != "balance")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhichReport:
    """The answer about a resource, with what was read for it and what could not be read.

    ``volumes`` are those that the answer covers. ``instance`` is the resource, or the one that the volume is
    attached to; None if it is not attached, or if the instance could not be described. ``cpu_credits`` says
    that those of a database are empty.
    """

    resource_id: str
    region: str
    now_s: float
    answer: Answer = field(default_factory=lambda: Answer(limits=()))
    volumes: Sequence[Volume] = ()
    instance: Instance | None = None
    database: DbInstance | None = None
    file_system: FileSystem | None = None
    cpu_credits: str | None = None
    unused: str | None = None
    notes: Sequence[str] = ()
    failures: Sequence[str] = ()
    is_missing: bool = False
    metrics_requested: int = 0
    api_calls: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_instance(self) -> bool:
        return is_instance_id(self.resource_id)

    @property
    def is_database(self) -> bool:
        return type_of_id(self.resource_id) is ResourceType.RDS


def is_instance_id(resource_id: str) -> bool:
    """Whether it is the ID of an instance, and not that of a volume."""
    return resource_id.startswith("i-")


def collect(context: CommandContext, resource_id: str, run_directory: Path | None) -> WhichReport:
    """Read everything about one resource and decide; what cannot be read is unknown, and a failure."""
    context.progress.begin("reading every limit")
    try:
        collection = _Collection(context, resource_id)
        if type_of_id(resource_id) is ResourceType.RDS:
            return collection.to_database_report()
        if type_of_id(resource_id) is ResourceType.EFS:
            return collection.to_file_system_report()
        return collection.to_report(run_directory)
    finally:
        context.progress.end()


def _describe_spec(spec: VolumeSpec) -> str:
    """``100 GiB of gp3 with 6,000 IOPS and 250 MiB/s``."""
    rates = [f"{spec.iops:,} IOPS"] if spec.iops else []
    rates += [f"{spec.throughput_mib_s:,} MiB/s"] if spec.throughput_mib_s else []
    return f"{spec.size_gib:,} GiB of {spec.volume_type}" + (f" with {' and '.join(rates)}" if rates else "")


def _describe_modifications(modifications: Mapping[str, Modification]) -> list[str]:
    """A sentence about each volume that AWS is modifying, because its limits are changing.

    Source: the EBS user guide, "Monitor the progress of volume modifications": the performance is then
    between the two configurations.
    """
    return [
        f"AWS is modifying {volume_id} from {_describe_spec(record.original)} to"
        f" {_describe_spec(record.target)} ({record.state}, {record.progress_pct or 0} %); until that is"
        " completed, what it serves is between the two"
        for volume_id, record in sorted(modifications.items())
        if record.is_in_progress
    ]


def _checks_of_present_limit(
    checks: tuple[Series, Series], record: Modification | None
) -> tuple[Series, Series]:
    """CloudWatch's checks since the newest modification began: earlier ones are of the limits before it."""
    if record is None or record.started_at is None:
        return checks
    iops_exceeded, throughput_exceeded = checks
    started_at_s = record.started_at.timestamp()
    return iops_exceeded.since(started_at_s), throughput_exceeded.since(started_at_s)


class _Collection:
    """The reads about one resource, at one moment."""

    def __init__(self, context: CommandContext, resource_id: str) -> None:
        self._context = context
        self._services = context.services
        self._now_s = self._services.clock()
        self._resource_id = resource_id
        self._collector = self._services.build_collector(self._now_s)
        self._failures = self._collector.failures
        self._notes: list[str] = []
        self._exhausted_pct = self._services.policy.levels.exhausted_pct

    def to_report(self, run_directory: Path | None) -> WhichReport:
        volumes, instance, instance_id, is_missing = self._describe()
        limits = []
        modifications = self._read_modifications(volumes)
        if volumes:
            reports = self._host_reports({volume.volume_id for volume in volumes}, run_directory)
            for facts in self._volume_facts(volumes, instance, reports, modifications):
                limits += volume_limits(facts, now_s=self._now_s, exhausted_pct=self._exhausted_pct)
        if instance is not None:
            facts_of_instance = self._instance_facts(instance)
            limits += instance_limits(facts_of_instance, now_s=self._now_s, exhausted_pct=self._exhausted_pct)
        elif instance_id is not None and not is_missing:
            limits += unknown_instance_limits(instance_id, f"{instance_id} could not be described")
        for volume in volumes:
            if volume.multi_attach_enabled:
                self._notes.append(
                    f"{volume.volume_id} allows multi-attach: the load of every instance that it is attached"
                    " to counts against its limits; ask about each of those instances too"
                )
        self._notes += _describe_modifications(modifications)
        return WhichReport(
            resource_id=self._resource_id,
            region=self._services.location.region,
            now_s=self._now_s,
            answer=decide(limits),
            volumes=volumes,
            instance=instance,
            unused=self._why_unused(volumes, instance),
            notes=self._notes,
            failures=list(dict.fromkeys(self._failures)),
            is_missing=is_missing,
            metrics_requested=self._services.calls.metrics_requested,
            api_calls=dict(self._services.calls.calls),
        )

    def _read_modifications(self, volumes: Sequence[Volume]) -> Mapping[str, Modification]:
        """What AWS records of their newest modifications, by volume ID."""
        return self._collector.modifications(volume.volume_id for volume in volumes)[0] if volumes else {}

    def to_database_report(self) -> WhichReport:
        """The limits of the storage and of the class of a database."""
        resources, missing = find_resources(self._collector, [self._resource_id])
        database = next((resource for resource in resources if isinstance(resource, DbInstance)), None)
        limits: list[Limit] = []
        unused = cpu_credits = None
        if database is not None:
            if database.is_aurora:
                raise SettingsError(
                    f"{self._resource_id} is Aurora, whose storage is not EBS: its limits are not known",
                    fix=f"burstctl explain {self._resource_id}",
                )
            unused = not_running_reason(database)
            facts = self._database_facts(database)
            limits = database_limits(facts, now_s=self._now_s, exhausted_pct=self._exhausted_pct)
            cpu_credits = self._describe_cpu_credits(database)
        return WhichReport(
            resource_id=self._resource_id,
            region=self._services.location.region,
            now_s=self._now_s,
            answer=decide(limits),
            database=database,
            cpu_credits=cpu_credits,
            unused=unused,
            notes=self._notes,
            failures=list(dict.fromkeys(self._failures)),
            is_missing=bool(missing),
            metrics_requested=self._services.calls.metrics_requested,
            api_calls=dict(self._services.calls.calls),
        )

    def to_file_system_report(self) -> WhichReport:
        """The credits, the throughput and the I/O of a file system."""
        resources, missing = find_resources(self._collector, [self._resource_id])
        file_system = next((resource for resource in resources if isinstance(resource, FileSystem)), None)
        limits: list[Limit] = []
        if file_system is not None:
            facts = self._file_system_facts(file_system)
            limits = file_system_limits(facts, now_s=self._now_s, exhausted_pct=self._exhausted_pct)
        return WhichReport(
            resource_id=self._resource_id,
            region=self._services.location.region,
            now_s=self._now_s,
            answer=decide(limits),
            file_system=file_system,
            notes=self._notes,
            failures=list(dict.fromkeys(self._failures)),
            is_missing=bool(missing),
            metrics_requested=self._services.calls.metrics_requested,
            api_calls=dict(self._services.calls.calls),
        )

    def _file_system_facts(self, file_system: FileSystem) -> FileSystemFacts:
        [due_bucket] = buckets_of([file_system])
        balances = self._collector.bucket_balances([due_bucket] if file_system.uses_credits else [])
        self._failures += [str(balance) for balance in balances.values() if isinstance(balance, AwsFailure)]
        file_system_id = file_system.file_system_id
        read = self._collector.named_metrics([file_system_id], EFS_DIMENSION, _EFS_METRICS, _RECENT_S)
        series, balance = read[file_system_id], balances.get(due_bucket.subject)
        policy = policy_of_bucket(self._services.policy, due_bucket.kind, due_bucket.bucket)
        return FileSystemFacts(
            file_system=file_system,
            assessment=assess_resource(
                file_system,
                due_bucket.kind,
                BucketReading(balance=balance if isinstance(balance, Series) else None),
                now_s=self._now_s,
                telemetry=policy.telemetry,
            ),
            **series,
            load_error=None if "metered" in series else "it could not be read",
        )

    def _database_facts(self, database: DbInstance) -> DatabaseFacts:
        is_running = not_running_reason(database) is None
        due = list(buckets_of([database]))
        balances = self._collector.bucket_balances(due) if is_running else {}
        self._failures += [str(balance) for balance in balances.values() if isinstance(balance, AwsFailure)]
        history: MetricHistory | None = None
        if is_running:
            client = build_client(self._context.session, "cloudwatch", self._services.calls)
            reader = HistoryReader(client, period_s=PERIOD_S, workers=1, metrics=_LOAD_METRICS, kind=RDS_IO)
            end_s = int(self._now_s)
            [result] = reader.read([database.metric_id], (end_s - _RECENT_S) // PERIOD_S * PERIOD_S, end_s)
            history = result.histories.get(database.metric_id)
            self._failures += [str(failure) for failure in result.unread.values()]
            self._failures += [f"cloudwatch:GetMetricData says: {text}" for text in result.messages]
        return DatabaseFacts(
            database=database,
            assessments=self._assess_buckets(due, balances),
            history=history or MetricHistory(period_s=PERIOD_S),
            load_error="it could not be read" if is_running and history is None else None,
        )

    def _describe_cpu_credits(self, database: DbInstance) -> str | None:
        """That its CPU credits are empty: burstwatch does not watch them, and they slow down the same way."""
        if not database.has_cpu_credits or not_running_reason(database):
            return None
        spec = {"cpu_credits": RDS_DAY_METRICS["cpu_credits"]}
        read = self._collector.named_metrics([database.metric_id], RDS_DIMENSION, spec, _RECENT_S)
        newest = read[database.metric_id].get("cpu_credits", Series()).newest
        return describe_cpu_credits(database, newest.value if newest else None)

    def _describe(self) -> tuple[list[Volume], Instance | None, str | None, bool]:
        """The volumes asked about, the instance with its ID, and whether the resource does not exist."""
        resource_id, collector = self._resource_id, self._collector
        if is_instance_id(resource_id):
            instance, volumes = collector.describe_instance(resource_id)
            is_missing = instance is None and resource_id not in collector.unreadable
            return volumes, instance, resource_id, is_missing
        described, missing = collector.volumes_by_id([resource_id])
        instance_id = described[0].instance_id if described else None
        instance = None
        if instance_id is not None:
            instance, _ = collector.describe_instance(instance_id)
        return described, instance, instance_id, bool(missing)

    def _why_unused(self, volumes: Sequence[Volume], instance: Instance | None) -> str | None:
        if is_instance_id(self._resource_id):
            is_stopped = instance is not None and instance.state in STOPPED_STATES
            return f"it is {instance.state}" if instance is not None and is_stopped else None
        return why_unused(volumes[0], instance) if volumes else None

    def _volume_facts(
        self,
        volumes: Sequence[Volume],
        instance: Instance | None,
        reports: Mapping[str, Sequence[HostReport]],
        modifications: Mapping[str, Modification],
    ) -> list[VolumeFacts]:
        in_use = [volume for volume in volumes if why_unused(volume, instance) is None]
        histories = self._read_histories(in_use)
        checks = self._collector.volume_checks(in_use)
        telemetry = self._services.policy.telemetry
        facts = []
        for volume in volumes:
            history = histories.get(volume.volume_id)
            is_read = isinstance(history, MetricHistory)
            iops_exceeded, throughput_exceeded = _checks_of_present_limit(
                checks.get(volume.volume_id, (Series(), Series())), modifications.get(volume.volume_id)
            )
            reading = VolumeReading(
                balance=history.balance if isinstance(history, MetricHistory) else None,
                instance_state=instance.state if instance else None,
            )
            facts.append(
                VolumeFacts(
                    volume=volume,
                    instance=instance,
                    assessment=assess(volume, reading, now_s=self._now_s, telemetry=telemetry)
                    if volume.has_bucket
                    else None,
                    history=history
                    if isinstance(history, MetricHistory)
                    else MetricHistory(period_s=PERIOD_S),
                    load_error=None if is_read else "it could not be read",
                    iops_exceeded=iops_exceeded,
                    throughput_exceeded=throughput_exceeded,
                    reports=tuple(reports.get(volume.volume_id, ())),
                )
            )
        return facts

    def _read_histories(self, volumes: Sequence[Volume]) -> dict[str, MetricHistory | AwsFailure]:
        """Their loads by the minute, and the balances of those whose credits may run out."""
        client = build_client(self._context.session, "cloudwatch", self._services.calls)
        end_s = int(self._now_s)
        start_s = (end_s - _HISTORY_S) // PERIOD_S * PERIOD_S
        draining = [volume.volume_id for volume in volumes if not_polled_reason(volume) is None]
        others = [volume.volume_id for volume in volumes if volume.volume_id not in set(draining)]
        histories: dict[str, MetricHistory | AwsFailure] = {}
        for volume_ids, metrics in ((draining, ALL_METRICS), (others, _LOAD_METRICS)):
            reader = HistoryReader(client, period_s=PERIOD_S, workers=WORKERS, metrics=metrics)
            for result in reader.read(volume_ids, start_s, end_s) if volume_ids else ():
                histories |= {**result.histories, **result.unread}
                self._failures += [failure.problem for failure in result.unread.values()]
                self._failures += [f"cloudwatch:GetMetricData returned: {text}" for text in result.messages]
        return histories

    def _instance_facts(self, instance: Instance) -> InstanceFacts:
        is_running = instance.state not in STOPPED_STATES
        due = list(buckets_of([instance]))
        balances = self._collector.bucket_balances(due) if is_running else {}
        failures = [balance.problem for balance in balances.values() if isinstance(balance, AwsFailure)]
        self._failures += failures
        count_before = len(self._failures)
        metrics = InstanceMetrics()
        if is_running:
            metrics = self._collector.instance_metrics([instance.instance_id])[instance.instance_id]
            metrics = metrics.since(instance.launched_at.timestamp())
        has_failed = len(self._failures) > count_before
        return InstanceFacts(
            instance=instance,
            assessments=self._assess_buckets(due, balances, metrics.load_of),
            metrics=metrics,
            load_error="it could not be read" if has_failed else None,
        )

    def _assess_buckets(
        self,
        due: Sequence[DueBucket],
        balances: Mapping[str, Series | AwsFailure],
        load_of: Callable[[BucketKind], Series | None] = lambda _: None,
    ) -> dict[BucketKind, Assessment]:
        """Each bucket of a resource, as a watch pass judges it without a ledger."""
        assessments: dict[BucketKind, Assessment] = {}

        def assess_each(readings: Mapping[str, BucketReading]) -> None:
            for bucket in (bucket for bucket in due if bucket.subject in readings):
                policy = policy_of_bucket(self._services.policy, bucket.kind, bucket.bucket)
                assessments[bucket.kind] = assess_resource(
                    bucket.resource,
                    bucket.kind,
                    readings[bucket.subject],
                    now_s=self._now_s,
                    telemetry=policy.telemetry,
                )

        readings = {
            bucket.subject: BucketReading(
                balance=balance if isinstance(balance := balances.get(bucket.subject), Series) else None,
                read_error=balance.problem if isinstance(balance, AwsFailure) else None,
                load=load_of(bucket.kind),
            )
            for bucket in due
        }
        assess_each(readings)
        missing = [b for b in due if assessments[b.kind].unknown_reason is UnknownReason.TELEMETRY_GAP]
        gap_after = self._services.policy.telemetry.gap_after
        assess_each(read_whether_published(self._collector, missing, readings, gap_after=gap_after))
        return assessments

    def _host_reports(self, volume_ids: set[str], run_directory: Path | None) -> dict[str, list[HostReport]]:
        """What the host's probe says of each volume: the newest report that the ledger has, and its files."""
        states = self._services.ledger.states_of(volume_ids)
        reports: dict[str, list[HostReport]] = {
            volume_id: [report_of_stall(state.stall)]
            for volume_id, state in states.items()
            if state.stall is not None and state.stall.is_fresh(self._now_s)
        }
        if run_directory is None:
            return reports
        try:
            readings, faults = read_run_directory(run_directory)
        except RunDirectoryError as error:
            self._failures.append(error.problem)
            return reports
        self._failures += faults
        matching = [reading for reading in readings if volume_ids & set(reading.volume_ids)]
        if readings and not matching:
            other_ids = sorted({volume_id for reading in readings for volume_id in reading.volume_ids})
            self._notes.append(
                f"--run-dir {run_directory} has readings of {', '.join(other_ids) or 'no EBS volume'} only"
            )
        for reading in matching:
            for volume_id in volume_ids & set(reading.volume_ids):
                reports.setdefault(volume_id, []).append(reading)
        return reports

"""How each kind of resource other than volumes is read: listed, found by ID, and looked at in trouble.

The rest of the engine is the same for all of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final, Protocol

from burstwatch.adapters.aws.efs import EfsReader
from burstwatch.adapters.aws.errors import AwsError
from burstwatch.adapters.aws.rds import RdsReader
from burstwatch.core.assessment.resource import AdvisedResource
from burstwatch.core.efs.file_system import FileSystem
from burstwatch.core.instances.instance import Instance
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.rds.rds_buckets import storage_bucket
from burstwatch.core.rds.storage_options import StorageOption
from burstwatch.core.resource_type import DATABASE_PREFIX, ResourceType, type_of_id
from burstwatch.core.watch.efs_evidence import EFS_DIMENSION, EFS_METRICS, EFS_SPAN_S, EfsEvidence
from burstwatch.core.watch.evidence import Evidence, InstanceEvidence
from burstwatch.core.watch.rds_evidence import (
    RDS_DAY_METRICS,
    RDS_DAY_SPAN_S,
    RDS_DIMENSION,
    RDS_DRAIN_METRICS,
    RDS_DRAIN_SPAN_S,
    RDS_HISTORY_METRICS,
    RDS_HISTORY_SPAN_S,
    RdsEvidence,
)
from burstwatch.engine.collector import Collector


class ResourceReader(Protocol):
    """Reads one kind; what fails is in the ``failures`` of the collector, and never affects another kind."""

    def list_all(self) -> Sequence[AdvisedResource] | None:
        """Every resource of the Region that may have a bucket; None if that is not known."""
        ...

    def find(self, resource_ids: Iterable[str]) -> tuple[Sequence[AdvisedResource], Sequence[str]]:
        """These resources, and the IDs of those that do not exist."""
        ...

    def read_evidence(self, resources: Sequence[AdvisedResource]) -> Mapping[str, Evidence]:
        """What else CloudWatch and others show of these resources, by ID."""
        ...


@dataclass(frozen=True, slots=True)
class InstanceReader:
    """EC2 instances: what their volumes serve and what their types allow comes from EC2."""

    collector: Collector

    def list_all(self) -> Sequence[AdvisedResource] | None:
        return self.collector.instances()

    def find(self, resource_ids: Iterable[str]) -> tuple[Sequence[AdvisedResource], Sequence[str]]:
        return self.collector.instances_by_id(resource_ids)

    def read_evidence(self, resources: Sequence[AdvisedResource]) -> Mapping[str, Evidence]:
        instances = [resource for resource in resources if isinstance(resource, Instance)]
        metrics = self.collector.instance_metrics(instance.instance_id for instance in instances)
        return {
            instance.instance_id: InstanceEvidence(
                instance=instance,
                metrics=metrics[instance.instance_id],
                family=self.collector.larger_types(instance.instance_type) if instance.limits else {},
            )
            for instance in instances
        }


@dataclass(frozen=True, slots=True)
class FileSystemReader:
    """EFS file systems in any throughput mode: that the mode has no credits is a reason, not a fault."""

    collector: Collector

    @property
    def _efs(self) -> EfsReader:
        assert self.collector.efs is not None, "no reader of file systems"
        return self.collector.efs

    def list_all(self) -> Sequence[AdvisedResource] | None:
        collector = self.collector
        try:
            return list(
                self._efs.file_systems(report_failure=collector.add_failure, on_page=collector.heartbeat)
            )
        except AwsError as error:
            collector.add_unread_kind(ResourceType.EFS, error.failure)
            return None

    def find(self, resource_ids: Iterable[str]) -> tuple[Sequence[AdvisedResource], Sequence[str]]:
        result = self._efs.file_systems_by_id(sorted(resource_ids))
        self.collector.add_failures(result.unread)
        self.collector.unreadable |= result.unread.keys()
        return result.file_systems, result.missing

    def read_evidence(self, resources: Sequence[AdvisedResource]) -> Mapping[str, Evidence]:
        file_systems = [resource for resource in resources if isinstance(resource, FileSystem)]
        ids = [file_system.file_system_id for file_system in file_systems]
        series = self.collector.named_metrics(ids, EFS_DIMENSION, EFS_METRICS, EFS_SPAN_S)
        return {
            file_system.file_system_id: EfsEvidence(
                file_system=file_system,
                now_s=self.collector.now_s,
                series=series[file_system.file_system_id],
            )
            for file_system in file_systems
        }


@dataclass(frozen=True, slots=True)
class DatabaseReader:
    """RDS databases; what their classes allow is what EC2 shows of the types behind them."""

    collector: Collector

    @property
    def _rds(self) -> RdsReader:
        assert self.collector.rds is not None, "no reader of databases"
        return self.collector.rds

    def list_all(self) -> Sequence[AdvisedResource] | None:
        collector = self.collector
        try:
            listed = self._rds.databases(report_failure=collector.add_failure, on_page=collector.heartbeat)
            return self._with_limits(list(listed))
        except AwsError as error:
            collector.add_unread_kind(ResourceType.RDS, error.failure)
            return None

    def find(self, resource_ids: Iterable[str]) -> tuple[Sequence[AdvisedResource], Sequence[str]]:
        names = sorted(resource_id.removeprefix(DATABASE_PREFIX) for resource_id in resource_ids)
        result = self._rds.databases_by_name(names)
        unread = {f"{DATABASE_PREFIX}{name}": failure for name, failure in result.unread.items()}
        self.collector.add_failures(unread)
        self.collector.unreadable |= unread.keys()
        missing = [f"{DATABASE_PREFIX}{name}" for name in result.missing]
        return self._with_limits(result.databases), missing

    def find_by_lasting_id(self, lasting_ids: Iterable[str]) -> tuple[list[DbInstance], AbstractSet[str]]:
        """The databases with these DbiResourceIds, and the IDs that could not be read."""
        if not (ids := sorted(lasting_ids)):
            return [], frozenset()
        result = self._rds.databases_by_resource_id(ids)
        self.collector.add_failures(result.unread)
        return self._with_limits(result.databases), result.unread.keys()

    def _with_limits(self, databases: Sequence[DbInstance]) -> list[DbInstance]:
        """The databases with the limits of their classes; without these, only the storage is watched."""
        types = {database.ec2_type for database in databases if database.ec2_type and not database.is_aurora}
        if not types:
            return list(databases)
        result = self.collector.ec2.ebs_limits(sorted(types))
        self.collector.add_failures(result.unread)
        return [
            replace(
                database,
                limits=result.limits.get(database.ec2_type or ""),
                limits_error=failure.problem
                if (failure := result.unread.get(database.ec2_type or "")) and not database.is_aurora
                else None,
            )
            for database in databases
        ]

    def read_evidence(self, resources: Sequence[AdvisedResource]) -> Mapping[str, Evidence]:
        databases = [resource for resource in resources if isinstance(resource, DbInstance)]
        names = [database.identifier for database in databases]
        on_gp2 = [database.identifier for database in databases if storage_bucket(database) is not None]
        read = self.collector.named_metrics
        minutes = read(names, RDS_DIMENSION, RDS_DRAIN_METRICS, RDS_DRAIN_SPAN_S)
        days = read(names, RDS_DIMENSION, RDS_DAY_METRICS, RDS_DAY_SPAN_S)
        histories = read(on_gp2, RDS_DIMENSION, RDS_HISTORY_METRICS, RDS_HISTORY_SPAN_S)
        return {
            database.resource_id: RdsEvidence(
                database=database,
                series=minutes[database.identifier]
                | days[database.identifier]
                | histories.get(database.identifier, {}),
                options=self._storage_options(database) if database.identifier in on_gp2 else None,
                family=self.collector.larger_types(database.ec2_type)
                if database.limits and database.ec2_type
                else {},
            )
            for database in databases
        }

    def _storage_options(self, database: DbInstance) -> Sequence[StorageOption] | None:
        """What AWS allows for its storage; None if that cannot be read, which is reported."""
        try:
            return self._rds.storage_options(database.identifier)
        except AwsError as error:
            self.collector.add_failures({database.resource_id: error.failure})
            return None


_READERS: Final[Mapping[ResourceType, Callable[[Collector], ResourceReader]]] = {
    ResourceType.INSTANCE: InstanceReader,
    ResourceType.EFS: FileSystemReader,
    ResourceType.RDS: DatabaseReader,
}
ADVISED_KINDS: Final = tuple(_READERS)
"""The kinds that have a reader here: all but volumes."""


def list_resources(collector: Collector, kind: ResourceType) -> Sequence[AdvisedResource] | None:
    """Every resource of a kind that may have a bucket; None if that is not known."""
    return _READERS[kind](collector).list_all()


def find_resources(
    collector: Collector, resource_ids: Iterable[str]
) -> tuple[list[AdvisedResource], list[str]]:
    """These resources of any kind, and the IDs of those that do not exist."""
    ids_by_kind: dict[ResourceType, list[str]] = {}
    for resource_id in resource_ids:
        ids_by_kind.setdefault(type_of_id(resource_id), []).append(resource_id)
    existing: list[AdvisedResource] = []
    missing: list[str] = []
    for kind, ids in ids_by_kind.items():
        existing_of_kind, missing_of_kind = _READERS[kind](collector).find(ids)
        existing += existing_of_kind
        missing += missing_of_kind
    return existing, missing


def find_databases_by_lasting_id(
    collector: Collector, lasting_ids: AbstractSet[str]
) -> tuple[list[DbInstance], AbstractSet[str]]:
    """The databases with these DbiResourceIds, and the IDs that could not be read."""
    return DatabaseReader(collector).find_by_lasting_id(lasting_ids)


def read_evidence(collector: Collector, resources: Iterable[AdvisedResource]) -> dict[str, Evidence]:
    """What else is known of these resources in trouble, by ID."""
    by_kind: dict[ResourceType, dict[str, AdvisedResource]] = {}
    for resource in resources:
        by_kind.setdefault(resource.resource_type, {})[resource.resource_id] = resource
    evidence: dict[str, Evidence] = {}
    for kind, resources_by_id in by_kind.items():
        evidence |= _READERS[kind](collector).read_evidence(list(resources_by_id.values()))
    return evidence

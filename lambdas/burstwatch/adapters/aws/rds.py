"""Database instances as RDS describes them, and what their storage may be changed to."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from botocore.parsers import ResponseParserError

from burstwatch.adapters.aws.botocore_hooks import MAX_PAGES, paginate
from burstwatch.adapters.aws.descriptions import (
    EPOCH,
    Description,
    FailureCallback,
    ResourceKind,
    batches,
    parse_each,
    read_id,
    read_integer,
    read_limit,
    read_mappings,
    read_required,
    read_string,
    read_tags,
    to_utc,
)
from burstwatch.adapters.aws.errors import AwsError, AwsFailure, translate_errors
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.rds.storage_options import StorageOption, ValueRange

PAGE_SIZE: Final = 100
"""The largest page of DescribeDBInstances (RDS API reference)."""

_ACTION: Final = "rds:DescribeDBInstances"
_OPTIONS_ACTION: Final = "rds:DescribeValidDBInstanceModifications"
_TOKEN_KEYS: Final = ("Marker", "Marker")
_LIST_KEY: Final = "DBInstances"
_KIND: Final = ResourceKind("database", "DBInstanceIdentifier", "aws rds describe-db-instances")
_BY_RESOURCE_ID: Final = _KIND._replace(id_key="DbiResourceId")
_OTHER_VOLUMES: Final = ("DedicatedLogVolume", "AdditionalStorageVolumes")
_OPTIONS_KEY: Final = "ValidDBInstanceModificationsMessage"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabasesResult:
    """Each name or resource ID is in ``databases``, in ``missing``, or in ``unread`` with the reason."""

    databases: Sequence[DbInstance] = ()
    missing: Sequence[str] = ()
    unread: Mapping[str, AwsFailure] = field(default_factory=dict)


class RdsReader:
    """Reads one region; the client must retry."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def databases(
        self, *, report_failure: FailureCallback, on_page: Callable[[], None] = lambda: None
    ) -> Iterator[DbInstance]:
        """Every database instance of the region, also those of Aurora. ``on_page`` is called after each page.

        Raises:
            AwsError: a page could not be read; the databases yielded until then are incomplete.
        """
        for page in self._list_pages():
            on_page()
            yield from parse_each(page[_LIST_KEY], parse_database, _ACTION, report_failure, _KIND)

    def databases_by_name(self, names: Iterable[str]) -> DatabasesResult:
        """Describe the databases with these names; one that was renamed or deleted is missing.

        The call uses a filter, because a call that names an unknown database fails.
        """
        return self._find("db-instance-id", names, _KIND, lambda database: database.identifier)

    def databases_by_resource_id(self, resource_ids: Iterable[str]) -> DatabasesResult:
        """The same by the ID that a database keeps when it is renamed (``db-…``, in capitals)."""
        return self._find(
            "dbi-resource-id", resource_ids, _BY_RESOURCE_ID, lambda database: database.dbi_resource_id
        )

    def storage_options(self, name: str) -> Sequence[StorageOption]:
        """What the storage of this database may be changed to; types that cannot be parsed are left out.

        Raises:
            AwsError: it could not be read; RDS refuses if the status of the database allows no change.
        """
        with translate_errors(_OPTIONS_ACTION):
            response = self._client.describe_valid_db_instance_modifications(DBInstanceIdentifier=name)
            message = response.get(_OPTIONS_KEY) if isinstance(response, Mapping) else None
            if not isinstance(message, Mapping):
                raise ResponseParserError(f"the answer has no {_OPTIONS_KEY}")
        options = read_mappings(message, "Storage")
        return [parse_storage_option(option) for option in options if read_string(option, "StorageType")]

    def _find(
        self, filter_name: str, values: Iterable[str], kind: ResourceKind, key_of: Callable[[DbInstance], str]
    ) -> DatabasesResult:
        requested = list(dict.fromkeys(values))
        unread: dict[str, AwsFailure] = {}
        databases: list[DbInstance] = []
        for batch in batches(requested, PAGE_SIZE):
            filters = [{"Name": filter_name, "Values": list(batch)}]
            try:
                pages = list(self._list_pages(Filters=filters))
            except AwsError as error:
                unread.update(dict.fromkeys(batch, error.failure))
                continue
            for page in pages:
                databases += parse_each(page[_LIST_KEY], parse_database, _ACTION, unread.__setitem__, kind)
        known = {key_of(database) for database in databases} | unread.keys()
        missing = [value for value in requested if value not in known]
        return DatabasesResult(databases=databases, missing=missing, unread=unread)

    def _list_pages(self, **request: Any) -> Iterator[Description]:
        with translate_errors(_ACTION):
            yield from paginate(
                self._client.describe_db_instances,
                MAX_PAGES,
                _TOKEN_KEYS,
                list_key=_LIST_KEY,
                MaxRecords=PAGE_SIZE,
                **request,
            )


def parse_database(description: Description) -> DbInstance:
    """Parse one entry of DescribeDBInstances.

    AWS shows a size of 1 GiB for instances of Aurora, which share the storage of their cluster, and a
    throughput of 0 for every storage type but gp3.

    Raises:
        KeyError: it has no name, resource ID, engine, class, status, storage type or size.
        ValueError: one of these is invalid.
    """
    return DbInstance(
        identifier=read_id(description, _KIND.id_key),
        dbi_resource_id=read_id(description, _BY_RESOURCE_ID.id_key),
        engine=read_required(description, "Engine", read_string),
        instance_class=read_required(description, "DBInstanceClass", read_string),
        storage_type=read_required(description, "StorageType", read_string),
        allocated_gib=read_required(description, "AllocatedStorage", read_integer),
        status=read_required(description, "DBInstanceStatus", read_string),
        created_at=to_utc(description.get("InstanceCreateTime")) or EPOCH,
        provisioned_iops=read_limit(description, "Iops"),
        storage_throughput_mib_s=read_limit(description, "StorageThroughput"),
        has_other_volumes=any(description.get(name) for name in _OTHER_VOLUMES),
        multi_az=description.get("MultiAZ") is True,
        replica_of=read_string(description, "ReadReplicaSourceDBInstanceIdentifier"),
        cluster_id=read_string(description, "DBClusterIdentifier"),
        storage_operation=read_string(description, "StorageOperationStatus"),
        storage_operation_pct=read_integer(description, "StorageOperationPercentProgress"),
        max_allocated_gib=read_limit(description, "MaxAllocatedStorage"),
        zone=read_string(description, "AvailabilityZone"),
        tags=read_tags(description, "TagList"),
    )


def parse_storage_option(description: Description) -> StorageOption:
    """Parse one entry of ``Storage`` in DescribeValidDBInstanceModifications."""
    return StorageOption(
        storage_type=read_string(description, "StorageType") or "",
        size_gib=_ranges(description, "StorageSize"),
        iops=_ranges(description, "ProvisionedIops"),
        throughput_mib_s=_ranges(description, "ProvisionedStorageThroughput"),
    )


def _ranges(description: Description, name: str) -> tuple[ValueRange, ...]:
    """The ranges below a name; one without both ends, of 0 only, or with swapped ends is left out."""
    bounds = (
        (read_integer(entry, "From"), read_limit(entry, "To"), read_integer(entry, "Step"))
        for entry in read_mappings(description, name)
    )
    return tuple(
        ValueRange(lowest=lowest, highest=highest, step=step or 1)
        for lowest, highest, step in bounds
        if lowest is not None and highest is not None and lowest <= highest
    )

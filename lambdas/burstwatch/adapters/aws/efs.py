"""File systems as EFS describes them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from burstwatch.adapters.aws.botocore_hooks import MAX_PAGES, paginate
from burstwatch.adapters.aws.descriptions import (
    EPOCH,
    Description,
    FailureCallback,
    ResourceKind,
    is_valid_number,
    parse_each,
    read_id,
    read_long,
    read_nested,
    read_required,
    read_string,
    read_tags,
    to_utc,
)
from burstwatch.adapters.aws.errors import AwsError, AwsFailure, translate_errors
from burstwatch.core.efs.file_system import FileSystem

PAGE_SIZE: Final = 100
"""The largest page of DescribeFileSystems (EFS API reference)."""

_ACTION: Final = "elasticfilesystem:DescribeFileSystems"
_TOKEN_KEYS: Final = ("NextMarker", "Marker")
_LIST_KEY: Final = "FileSystems"
_KIND: Final = ResourceKind("file system", "FileSystemId", "aws efs describe-file-systems")
_NOT_FOUND: Final = "FileSystemNotFound"
_MAX_SINGLE_CALLS: Final = 10
"""A call describes one file system or a page of all: beyond this number, the pages are fewer calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemsResult:
    """Each requested ID is in ``file_systems``, in ``missing``, or in ``unread`` with the reason."""

    file_systems: Sequence[FileSystem] = ()
    missing: Sequence[str] = ()
    unread: Mapping[str, AwsFailure] = field(default_factory=dict)


class EfsReader:
    """Reads one region; the client must retry."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def file_systems(
        self, *, report_failure: FailureCallback, on_page: Callable[[], None] = lambda: None
    ) -> Iterator[FileSystem]:
        """Every file system of the region, in any throughput mode. ``on_page`` is called after each page.

        Raises:
            AwsError: a page could not be read; the file systems yielded until then are incomplete.
        """
        for page in self._pages(MaxItems=PAGE_SIZE):
            on_page()
            yield from parse_each(page[_LIST_KEY], parse_file_system, _ACTION, report_failure, _KIND)

    def file_systems_by_id(self, file_system_ids: Iterable[str]) -> FileSystemsResult:
        """Describe these file systems, even if some of them no longer exist.

        DescribeFileSystems takes one ID, so each is a call; from eleven on, all of the region are listed.
        """
        requested_ids = list(dict.fromkeys(file_system_ids))
        unread: dict[str, AwsFailure] = {}
        if len(requested_ids) <= _MAX_SINGLE_CALLS:
            file_systems = [
                file_system
                for file_system_id in requested_ids
                for file_system in self._describe(file_system_id, unread)
            ]
        else:
            file_systems = self._select(requested_ids, unread)
        known_ids = {file_system.file_system_id for file_system in file_systems} | unread.keys()
        missing = [file_system_id for file_system_id in requested_ids if file_system_id not in known_ids]
        return FileSystemsResult(file_systems=file_systems, missing=missing, unread=unread)

    def _describe(self, file_system_id: str, unread: dict[str, AwsFailure]) -> list[FileSystem]:
        try:
            descriptions = [
                description
                for page in self._pages(FileSystemId=file_system_id)
                for description in page[_LIST_KEY]
            ]
        except AwsError as error:
            if error.failure.code != _NOT_FOUND:
                unread[file_system_id] = error.failure
            return []
        return list(parse_each(descriptions, parse_file_system, _ACTION, unread.__setitem__, _KIND))

    def _select(self, requested_ids: Sequence[str], unread: dict[str, AwsFailure]) -> list[FileSystem]:
        """Those of the region's file systems that were requested."""
        failures: dict[str, AwsFailure] = {}
        try:
            file_systems = {
                file_system.file_system_id: file_system
                for file_system in self.file_systems(report_failure=failures.__setitem__)
            }
        except AwsError as error:
            unread.update(dict.fromkeys(requested_ids, error.failure))
            return []
        unread.update({key: failure for key, failure in failures.items() if key in requested_ids})
        return [file_systems[key] for key in requested_ids if key in file_systems]

    def _pages(self, **request: Any) -> Iterator[Description]:
        with translate_errors(_ACTION):
            yield from paginate(
                self._client.describe_file_systems, MAX_PAGES, _TOKEN_KEYS, list_key=_LIST_KEY, **request
            )


def parse_file_system(description: Description) -> FileSystem:
    """Parse one entry of DescribeFileSystems.

    A file system without a mode is in bursting mode, which was the only one at first. If AWS does not show
    what is in Standard, that is all of it: storage classes are newer than file systems.

    Raises:
        KeyError: it has no ID, state or size.
        ValueError: one of these is invalid.
    """
    size = read_nested(description, "SizeInBytes")
    size_bytes = read_required(size, "Value", read_long)
    standard_bytes = read_long(size, "ValueInStandard")
    provisioned: Any = description.get("ProvisionedThroughputInMibps")
    return FileSystem(
        file_system_id=read_id(description, _KIND.id_key),
        throughput_mode=read_string(description, "ThroughputMode") or "bursting",
        standard_bytes=size_bytes if standard_bytes is None else standard_bytes,
        size_bytes=size_bytes,
        state=read_required(description, "LifeCycleState", read_string),
        created_at=to_utc(description.get("CreationTime")) or EPOCH,
        provisioned_mib_s=float(provisioned) if provisioned and is_valid_number(provisioned) else None,
        performance_mode=read_string(description, "PerformanceMode") or "generalPurpose",
        zone=read_string(description, "AvailabilityZoneName"),
        tags=read_tags(description),
    )

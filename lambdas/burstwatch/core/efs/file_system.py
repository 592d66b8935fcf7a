"""What an EFS file system is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from burstwatch.core.resource_type import ResourceType

AVAILABLE: Final = "available"
"""The only life cycle state in which AWS accepts a change (``IncorrectFileSystemLifeCycleState``)."""

GENERAL_PURPOSE: Final = "generalPurpose"
"""The performance mode that allows elastic throughput, and has a limit of I/O (``PercentIOLimit``)."""


class ThroughputMode(StrEnum):
    """The throughput modes that AWS has."""

    BURSTING = "bursting"
    ELASTIC = "elastic"
    PROVISIONED = "provisioned"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystem:
    """An EFS file system as AWS describes it.

    ``throughput_mode`` is one of ``ThroughputMode``, or a mode that AWS added later. Sizes are in bytes.
    ``standard_bytes`` is what is stored in Standard, or in One Zone; ``size_bytes`` also counts Infrequent
    Access and Archive, which earn no throughput. ``state`` is the life cycle state. ``zone`` is set for
    One Zone file systems only.

    Raises:
        ValueError: a size is negative.
    """

    file_system_id: str
    throughput_mode: str
    standard_bytes: int
    size_bytes: int
    state: str
    created_at: datetime
    provisioned_mib_s: float | None = None
    performance_mode: str = GENERAL_PURPOSE
    zone: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if min(self.standard_bytes, self.size_bytes) < 0:
            sizes = f"standard_bytes={self.standard_bytes}, size_bytes={self.size_bytes}"
            raise ValueError(f"{self.file_system_id}: {sizes}; both must be 0 or more")

    @property
    def resource_id(self) -> str:
        return self.file_system_id

    @property
    def metric_id(self) -> str:
        """The value of the dimension of its metrics."""
        return self.file_system_id

    @property
    def resource_type(self) -> ResourceType:
        return ResourceType.EFS

    @property
    def name(self) -> str | None:
        """The Name tag, or None without one."""
        return self.tags.get("Name") or None

    @property
    def uses_credits(self) -> bool:
        return self.throughput_mode == ThroughputMode.BURSTING

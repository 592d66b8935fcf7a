"""What an RDS database instance is, and how its storage is built.

Source of the numbers: the RDS user guide, "Amazon RDS DB instance storage".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.resource_type import DATABASE_PREFIX, ResourceType

AVAILABLE: Final = "available"
_STARTING: Final = ("creating", "starting")
_NOT_RUNNING: Final = ("stopped", "stopping", "deleting")
"""The statuses, besides ``_STARTING``, in which somebody wants it not to run.

In any other it is polled, and a missing balance is a gap: ``storage-full``, but also ``failed``, in which
nothing says that an alert is over. Source: the RDS user guide, "Viewing Amazon RDS DB instance status".
"""

_EC2_CLASS: Final = re.compile(r"db\.([a-z][a-z0-9-]*\.[a-z0-9]+)")
_STRIPE_WIDTH: Final = 4
_STRIPED_FROM_GIB: Final = 400
_ORACLE_STRIPED_FROM_GIB: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class DbInstance:
    """An RDS database instance as AWS describes it.

    ``identifier`` is the name, which people can change; ``dbi_resource_id`` (``db-…``) stays.
    ``status`` is DBInstanceStatus. ``replica_of`` is the name of the source of a read replica, ``cluster_id``
    the cluster of a member, Aurora or not. ``storage_operation`` is ``Initializing`` or ``Optimizing`` while
    one is in progress. ``max_allocated_gib`` is set if the storage grows automatically. ``limits`` are those
    of the EC2 type behind its class, None if EC2 shows none; ``limits_error`` says why they are not known.
    ``has_other_volumes`` is set for a dedicated log volume or additional storage, whose I/O uses the credits
    of the class too.

    Raises:
        ValueError: ``allocated_gib`` is negative.
    """

    identifier: str
    dbi_resource_id: str
    engine: str
    instance_class: str
    storage_type: str
    allocated_gib: int
    status: str
    created_at: datetime
    provisioned_iops: int | None = None
    storage_throughput_mib_s: int | None = None
    has_other_volumes: bool = False
    multi_az: bool = False
    replica_of: str | None = None
    cluster_id: str | None = None
    storage_operation: str | None = None
    storage_operation_pct: int | None = None
    max_allocated_gib: int | None = None
    zone: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    limits: InstanceLimits | None = None
    limits_error: str | None = None

    def __post_init__(self) -> None:
        if self.allocated_gib < 0:
            raise ValueError(
                f"{self.identifier}: allocated_gib is {self.allocated_gib}, it must be 0 or more"
            )

    @property
    def resource_id(self) -> str:
        """``db:orders``."""
        return f"{DATABASE_PREFIX}{self.identifier}"

    @property
    def metric_id(self) -> str:
        """The value of the dimension of its metrics: its name."""
        return self.identifier

    @property
    def resource_type(self) -> ResourceType:
        return ResourceType.RDS

    @property
    def name(self) -> str | None:
        """The Name tag, or None without one."""
        return self.tags.get("Name") or None

    @property
    def is_starting(self) -> bool:
        """Whether it is created or started, and so has no metrics yet."""
        return self.status in _STARTING

    @property
    def is_running(self) -> bool:
        """Whether it serves as far as AWS describes, or tries to, so that it has metrics."""
        return self.status not in (*_STARTING, *_NOT_RUNNING)

    @property
    def is_aurora(self) -> bool:
        return self.engine.startswith("aurora")

    @property
    def is_sql_server(self) -> bool:
        return self.engine.startswith(("sqlserver", "custom-sqlserver"))

    @property
    def is_oracle(self) -> bool:
        return self.engine.startswith(("oracle", "custom-oracle"))

    @property
    def has_cpu_credits(self) -> bool:
        """Whether its class is one of the T classes, which have a bucket of CPU credits."""
        return self.instance_class.startswith("db.t")

    @property
    def ec2_type(self) -> str | None:
        """The EC2 type behind the class: ``m5.large`` for db.m5.large.

        None if the name does not show it: db.serverless, or the classes of Oracle with more memory, such as
        db.r5.large.tpc1.mem2x.
        """
        match = _EC2_CLASS.fullmatch(self.instance_class)
        return match[1] if match else None

    @property
    def striped_from_gib(self) -> int | None:
        """The size from which its storage consists of four volumes; None for SQL Server, which has one.

        400 GiB for MariaDB, MySQL, PostgreSQL and Db2, 200 GiB for Oracle. The same sizes are the limit below
        which gp3 has fixed 3,000 IOPS and 125 MiB/s.
        """
        if self.is_sql_server:
            return None
        return _ORACLE_STRIPED_FROM_GIB if self.is_oracle else _STRIPED_FROM_GIB

    @property
    def volume_count(self) -> int:
        """The number of EBS volumes that the storage is striped over: one or four."""
        striped_from_gib = self.striped_from_gib
        return _STRIPE_WIDTH if striped_from_gib and self.allocated_gib >= striped_from_gib else 1

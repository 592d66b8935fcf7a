"""Who plays in the demo: volumes, an instance, a file system and a database, each with something to show."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from burstlab.model.instances.instance_types import ebs_limits
from burstwatch.core.buckets.bucket import Bucket
from burstwatch.core.buckets.units import GIB, MIB
from burstwatch.core.durations import DAY_S
from burstwatch.core.ebs.volume import baseline_iops
from burstwatch.core.efs.efs_bucket import efs_bucket
from burstwatch.core.resource_type import DATABASE_PREFIX
from burstwatch.core.tag_keys import CRITICAL, MODE, TARGET, WINDOW

STARTS_AT: Final = datetime(2026, 11, 20, 16, 0, tzinfo=UTC)
COMPARED_NAMES: Final = ("ci-docker-7", "ci-docker-8")
"""The same load on the same volume: the first is only observed, the second is in mode auto."""

_FULL_PCT: Final = 100.0
_AUTO: Final = {MODE: "auto"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoVolume:
    """One volume of the demo; ``description`` is its load in words.

    Its metrics stop after ``silent_after``. ``hold`` is who froze it, and why, until the demo is over.
    """

    name: str
    size_gib: int
    load: str
    description: str
    tags: Mapping[str, str] = field(default_factory=dict)
    balance_pct: float = _FULL_PCT
    silent_after: timedelta | None = None
    hold: tuple[str, str] | None = None
    rate_unit: str = "IOPS"

    @property
    def mode(self) -> str:
        """As its tag says it; without one the policy's default."""
        return self.tags.get(MODE, "propose")

    @property
    def initial_load(self) -> str:
        """Demand that keeps the balance where it starts: the baseline, or nothing on a full bucket."""
        return f"steady:{0 if self.balance_pct == _FULL_PCT else baseline_iops(self.size_gib)}"

    @property
    def summary(self) -> str:
        """Its size and mode."""
        return f"{self.size_gib:,} GiB, {self.mode}"

    @property
    def baseline(self) -> int:
        """What it serves when its credits are exhausted."""
        return baseline_iops(self.size_gib)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoInstance:
    """An instance with one gp3 volume, whose limits allow all of the load: only the instance runs out."""

    name: str
    instance_id: str
    instance_type: str
    volume_iops: int
    load: str
    description: str
    mode: str = "propose"
    """burstwatch changes no instance."""
    rate_unit: str = "IOPS"

    @property
    def summary(self) -> str:
        """Its type, and the volume on it."""
        return f"{self.instance_type}, gp3 {self.volume_iops:,}"

    @property
    def baseline(self) -> int:
        """What its type serves when the EBS credits are exhausted."""
        limits = ebs_limits(self.instance_type)
        return 0 if limits is None else int(limits.io.baseline)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFileSystem:
    """An EFS file system whose throughput mode a person changes, by the command in its alert."""

    name: str
    file_system_id: str
    size_gib: int
    load: str
    description: str
    balance_pct: float
    changed_after: timedelta
    """How long after the first alert somebody runs the command."""
    mode: str = "propose"
    rate_unit: str = "MiB/s"

    @property
    def summary(self) -> str:
        """Its kind and its size."""
        return f"EFS, {self.size_gib} GiB"

    @property
    def bucket(self) -> Bucket:
        """Its bucket, in bytes."""
        return efs_bucket(self.size_gib * GIB)

    @property
    def baseline(self) -> float:
        """What its size earns, in MiB/s."""
        return self.bucket.refill_per_s / MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoDatabase:
    """An RDS database with gp2 storage, whose alert is not acted on."""

    identifier: str
    allocated_gib: int
    load: str
    description: str
    mode: str = "propose"
    rate_unit: str = "IOPS"

    @property
    def name(self) -> str:
        """As burstwatch names it."""
        return f"{DATABASE_PREFIX}{self.identifier}"

    @property
    def summary(self) -> str:
        """Its kind and its storage."""
        return f"RDS, {self.allocated_gib} GiB gp2"

    @property
    def baseline(self) -> int:
        """What it serves when its credits are exhausted."""
        return baseline_iops(self.allocated_gib)


def describe_refill(spec: DemoFileSystem) -> str:
    """``9 idle days``: how long its empty bucket takes to refill."""
    return f"{spec.bucket.refill_time_s() / DAY_S:.0f} idle days"


DemoAdvised = DemoInstance | DemoFileSystem | DemoDatabase
"""A resource that burstwatch does not change: its alert has the command."""


VOLUMES: Final = (
    DemoVolume(
        name=COMPARED_NAMES[0],
        size_gib=33,
        load="docker-loop",
        description="docker run in a loop",
        tags={MODE: "observe"},
    ),
    DemoVolume(
        name=COMPARED_NAMES[1],
        size_gib=33,
        load="docker-loop",
        description="docker run in a loop",
        tags=_AUTO,
    ),
    DemoVolume(
        name="nightly",
        size_gib=100,
        load="nightly-batch:17*0.7",
        description="a batch, 17:00 to 19:00",
        tags=_AUTO | {TARGET: "io1"},
    ),
    DemoVolume(
        name="orders-db",
        size_gib=200,
        load="nightly-batch:18",
        description="migrated 18:00 to 20:00",
        tags=_AUTO | {"tier": "orders"},
    ),
    DemoVolume(
        name="orders-log",
        size_gib=64,
        load="nightly-batch:18",
        description="migrated 18:00 to 20:00",
        tags=_AUTO | {TARGET: "io2", WINDOW: "migration"},
    ),
    DemoVolume(
        name="etcd-0",
        size_gib=20,
        load="etcd",
        description="tagged critical",
        tags=_AUTO | {CRITICAL: "true"},
    ),
    DemoVolume(
        name="ambush", size_gib=8, load="adversary:60", description="calm, then all it can", tags=_AUTO
    ),
    DemoVolume(
        name="search",
        size_gib=100,
        load="steady:450",
        description="a little over its baseline",
        tags=_AUTO | {TARGET: "io1"},
        balance_pct=43,
    ),
    DemoVolume(
        name="reports",
        size_gib=100,
        load="nab_c0d644*16+781200",
        description="a recorded disk, x16",
        tags=_AUTO,
        hold=("anna", "audit snapshot running"),
    ),
    DemoVolume(name="billing", size_gib=33, load="nab_c0d644*32+93600", description="a recorded disk, x32"),
    DemoVolume(
        name="silent",
        size_gib=60,
        load="steady:150",
        description="its metrics stop at 19:00",
        silent_after=timedelta(hours=3),
    ),
    DemoVolume(name="lake", size_gib=1000, load="steady:2900", description="earns what it can use"),
)

INSTANCE: Final = DemoInstance(
    name="api-1",
    instance_id="i-0a91f00d000000001",
    instance_type="m7g.large",
    volume_iops=10_000,
    load="steady:10000",
    description="10,000 IOPS, all day",
)
"""The surprise: 10,000 IOPS are provisioned and no volume has a balance, but the type sustains 3,600."""

FILE_SYSTEM: Final = DemoFileSystem(
    name="shared-home",
    file_system_id="fs-0a91f00d000000002",
    size_gib=58,
    load="steady:360@256%0",
    description="90 MiB/s written",
    balance_pct=50,
    changed_after=timedelta(minutes=90),
)
"""Hours of warning, then days of misery: empty after three and a half hours, it would refill in nine days."""

DATABASE: Final = DemoDatabase(
    identifier="invoices",
    allocated_gib=100,
    load="nightly-batch:18",
    description="a batch, 18:00 to 20:00",
)

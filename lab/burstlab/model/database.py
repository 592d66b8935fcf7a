"""RDS database instances in simulated time: striped gp2 storage, the buckets of the class, and modifications.

Source: the RDS user guide, "Amazon RDS DB instance storage" and "Working with storage", and the RDS API
reference, ModifyDBInstance. Where AWS does not document something, ``LabSettings`` has a choice.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from threading import RLock
from typing import Any, Final, NamedTuple

from burstlab.model.aws_error import AwsError
from burstlab.model.bucket import FULL_CREDITS
from burstlab.model.clock import LabClock
from burstlab.model.instances.instance_types import ebs_limits
from burstlab.model.loads.load import DAY_S, HOUR_S, NEVER_S, Load
from burstlab.model.metered_resource import MIB, OPERATIONS, CreditPool, Limit, MeteredResource, keep_pools
from burstlab.model.minute_history import MinuteHistory
from burstlab.model.settings import LabSettings
from burstlab.model.volume import check_tags
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.rds.rds_buckets import gp2_storage_bucket, gp2_storage_mib_s
from burstwatch.core.rds.storage_recommendation import (
    GP3_IOPS,
    GP3_MIB_S,
    GP3_STRIPED_IOPS,
    GP3_STRIPED_MIB_S,
)

STORAGE: Final = "rds-io"
CLASS_IO: Final = "instance-io"
CLASS_THROUGHPUT: Final = "instance-throughput"
POOLS: Final = (STORAGE, CLASS_IO, CLASS_THROUGHPUT)
STORAGE_TYPES: Final = ("gp2", "gp3", "io1", "io2", "aurora")
LOW_CREDITS_EVENT: Final = "RDS-EVENT-0189"
LOW_CREDITS_MESSAGE: Final = (
    "The gp2 burst balance credits for the RDS database instance are low. To resolve this issue, reduce IOPS"
    " usage or modify your storage settings to enable higher performance."
)
"""Source: the RDS user guide, "Amazon RDS event categories and event messages", RDS-EVENT-0189."""

_DEFAULT_AGE: Final = timedelta(days=30)
_MAX_CHANGES_A_DAY: Final = 4
_MIN_GIB, _MAX_GIB = 16, 4 * 1024  # as of the modifications of volumes: the time is not linear in the size
_IDENTIFIER: Final = re.compile(r"[a-z](?:-?[a-z0-9])*")
_PROVISIONED: Final = ("gp3", "io1", "io2")
_GP3_MAX_IOPS, _GP3_MAX_MIB_S = 64_000, 4_000
_NO_OPERATION: Final = (None, None)


class DatabaseError(BurstwatchError):
    """The lab does not have what was requested; the message identifies it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabDatabase:
    """A database instance as it joins the lab.

    ``balance_pct`` is that of gp2 storage, ``io_pct`` and ``byte_pct`` those of the class. ``cluster_id``
    makes it a member of a cluster. ``free_gib`` is the free storage at first, by default half of it, and
    ``free_loss_gib_per_day`` what is used up in a day. ``cpu_credits`` are published for T classes.
    """

    identifier: str
    allocated_gib: int = 100
    load: Load | str = "idle"
    balance_pct: float = 100.0
    io_pct: float = 100.0
    byte_pct: float = 100.0
    engine: str = "postgres"
    instance_class: str = "db.m5.4xlarge"
    storage_type: str = "gp2"
    iops: int | None = None
    throughput_mib_s: int | None = None
    multi_az: bool = False
    replica_of: str | None = None
    cluster_id: str | None = None
    stopped: bool = False
    free_gib: float | None = None
    free_loss_gib_per_day: float = 0.0
    cpu_credits: float = 100.0
    tags: Mapping[str, str] = field(default_factory=dict)
    starts_at: datetime | None = None
    created_at: datetime | None = None

    def __post_init__(self) -> None:
        check_identifier(self.identifier)
        if not 1 <= self.allocated_gib <= 65_536:  # noqa: PLR2004 - the widest range AWS has
            raise ValueError(f"allocated_gib is {self.allocated_gib}: give 1 to 65536")
        for name in ("balance_pct", "io_pct", "byte_pct"):
            if not 0 <= getattr(self, name) <= 100:  # noqa: PLR2004 - per cent
                raise ValueError(f"{name} is {getattr(self, name)}: give 0 to 100")
        if self.storage_type not in STORAGE_TYPES:
            raise ValueError(f"storage_type is {self.storage_type!r}: give one of {', '.join(STORAGE_TYPES)}")
        if self.free_gib is not None and self.free_gib < 0:
            raise ValueError(f"free_gib is {self.free_gib}: give 0 or more")
        check_tags(self.tags)


def check_identifier(identifier: str) -> None:
    """Refuse what AWS does not accept as the name of a database instance; ValueError."""
    if not _IDENTIFIER.fullmatch(identifier) or len(identifier) > 63:  # noqa: PLR2004 - AWS's limit
        raise ValueError(f"identifier is {identifier!r}: give 1 to 63 of a-z, 0-9 and single hyphens")


class StorageRequest(NamedTuple):
    """What ModifyDBInstance asks of the storage; None leaves it as it is."""

    storage_type: str | None = None
    allocated_gib: int | None = None
    iops: int | None = None
    throughput_mib_s: int | None = None

    @property
    def is_empty(self) -> bool:
        return self == StorageRequest()


@dataclass(frozen=True, slots=True)
class StorageChange:
    """A change of the storage: ``modifying`` until it takes effect, then ``storage-optimization``."""

    target: DbInstance
    started_at_s: int
    effective_at_s: int
    ends_at_s: int

    def progress_pct(self, at_s: int) -> int:
        done = (at_s - self.effective_at_s) / max(1, self.ends_at_s - self.effective_at_s)
        return max(0, min(99, int(100 * done)))


class Naming(NamedTuple):
    """A name of a database, and from when to when it had it; CloudWatch keeps metrics by name."""

    identifier: str
    from_s: int
    to_s: int | None = None


class LowCredits(NamedTuple):
    """That the credits of gp2 storage were low: at this moment, under this name."""

    at_s: float
    identifier: str


class SimulatedDatabase(MeteredResource):
    """One database instance; ``facts`` are what RDS describes, except for its status."""

    def __init__(
        self,
        definition: LabDatabase,
        *,
        resource_id: str,
        starts_at_s: int,
        created_at: datetime,
        settings: Callable[[], LabSettings],
    ) -> None:
        super().__init__(resource_id, definition.load, starts_at_s)
        self.facts = DbInstance(
            identifier=definition.identifier,
            dbi_resource_id=resource_id,
            engine=definition.engine,
            instance_class=definition.instance_class,
            storage_type=definition.storage_type,
            allocated_gib=definition.allocated_gib,
            status="stopped" if definition.stopped else "available",
            created_at=created_at,
            provisioned_iops=definition.iops,
            storage_throughput_mib_s=definition.throughput_mib_s,
            multi_az=definition.multi_az,
            replica_of=definition.replica_of,
            cluster_id=definition.cluster_id,
        )
        if definition.storage_type == "gp3":
            self.facts = with_gp3_defaults(self.facts)
        self.tags = dict(definition.tags)
        self.running = not definition.stopped
        self.transient_status: str | None = None
        self.cpu_credits = definition.cpu_credits
        self.namings = [Naming(definition.identifier, starts_at_s)]
        self.low_credits: list[LowCredits] = []
        self.change: StorageChange | None = None
        self.waiting: DbInstance | None = None
        self.balances = {name: MinuteHistory() for name in POOLS}
        self._settings = settings
        self._change_times_s: list[int] = []
        self._is_low_announced = False
        free_gib = definition.allocated_gib / 2 if definition.free_gib is None else definition.free_gib
        self._free_gib, self._free_from_s = free_gib, starts_at_s
        self._free_loss_gib_per_s = definition.free_loss_gib_per_day / DAY_S
        self._set_limits()
        for name, pct in zip(
            POOLS, (definition.balance_pct, definition.io_pct, definition.byte_pct), strict=True
        ):
            if name in self.pools:
                self.pools[name].credits *= pct / 100

    @property
    def identifier(self) -> str:
        return self.namings[-1].identifier

    @property
    def status(self) -> str:
        if not self.running:
            return "stopped"
        if self.transient_status is not None:
            return self.transient_status
        if self.change is None:
            return "available"
        return "modifying" if self.at_s < self.change.effective_at_s else "storage-optimization"

    @property
    def pending(self) -> DbInstance | None:
        """What is requested and not in effect: from a moment on, or in the next maintenance window."""
        return self.change.target if self.change and self.status == "modifying" else self.waiting

    @property
    def storage_operation(self) -> tuple[str, int] | tuple[None, None]:
        """The operation that is in progress on the storage, and its progress in per cent."""
        if self.change is None or self.status != "storage-optimization":
            return _NO_OPERATION
        return "Optimizing", self.change.progress_pct(self.at_s)

    def free_bytes_at(self, at_s: float) -> float:
        gib = self._free_gib - self._free_loss_gib_per_s * max(0.0, at_s - self._free_from_s)
        return max(0.0, min(gib, float(self.facts.allocated_gib))) * 2**30

    def set_free(self, free_gib: float, loss_gib_per_day: float | None = None) -> None:
        """Have this much free storage now."""
        self._free_gib, self._free_from_s = free_gib, self.at_s
        if loss_gib_per_day is not None:
            self._free_loss_gib_per_s = loss_gib_per_day / DAY_S

    def set_running(self, *, running: bool) -> None:
        """Start or stop it; a stopped database has no metrics."""
        self.running = running

    def rename(self, identifier: str) -> None:
        """Have another name from now on, under which its metrics are published."""
        check_identifier(identifier)
        self.namings[-1] = self.namings[-1]._replace(to_s=self.at_s)
        self.namings.append(Naming(identifier, self.at_s))
        self.facts = replace(self.facts, identifier=identifier)

    def set_class(self, instance_class: str) -> None:
        """Have another class from now on, whose buckets are full: they are those of another host."""
        self.facts = replace(self.facts, instance_class=instance_class)
        self._set_limits()
        for name in {CLASS_IO, CLASS_THROUGHPUT} & self.pools.keys():
            self.set_balance(100, name)

    def modify_storage(self, request: StorageRequest, *, immediately: bool) -> None:
        """Change the storage as ModifyDBInstance does.

        What is not requested immediately waits for a maintenance window, which the lab does not have.

        Raises:
            AwsError: AWS refuses, in its words as far as they are known.
        """
        if self.change is not None and self.status == "storage-optimization":
            raise _invalid(
                "You can't currently modify the storage of this DB instance because the previous storage"
                " change is being optimized."
            )
        if self.status != "available":
            raise AwsError("InvalidDBInstanceState", "Database instance is not in available state.")
        target = self._target(request)
        if target == self.facts:
            return
        if not immediately:
            self.waiting = target
            return
        self._check_rate()
        settings = self._settings()
        effective_at_s = self.at_s + max(1, int(settings.modifying_s))
        size_gib = max(_MIN_GIB, min(_MAX_GIB, target.allocated_gib))
        work_s = int(settings.modify_minutes_per_tib * 60 * size_gib / 1_024)
        self._change_times_s.append(self.at_s)
        self.change = StorageChange(target, self.at_s, effective_at_s, effective_at_s + max(1, work_s))

    def _target(self, request: StorageRequest) -> DbInstance:
        """What the storage would be.

        Raises:
            AwsError: that cannot be.
        """
        facts = self.facts
        new_type = request.storage_type or facts.storage_type
        size_gib = facts.allocated_gib if request.allocated_gib is None else request.allocated_gib
        if new_type not in ("gp2", *_PROVISIONED):
            raise AwsError("InvalidParameterValue", f"Invalid storage type: {new_type}")
        if facts.is_aurora or facts.cluster_id:
            raise _invalid("The requested DB Instance will be a member of a DB Cluster. Set storage there.")
        if size_gib < facts.allocated_gib:
            raise _invalid("Requested storage cannot be reduced.")
        if size_gib > facts.allocated_gib:
            size_gib = max(size_gib, -(-facts.allocated_gib * 11 // 10))
        target = replace(
            facts,
            storage_type=new_type,
            allocated_gib=size_gib,
            provisioned_iops=request.iops,
            storage_throughput_mib_s=request.throughput_mib_s,
        )
        has_numbers = request.iops is not None or request.throughput_mib_s is not None
        if new_type == "gp2":
            if has_numbers:
                raise _invalid("You can't specify IOPS or storage throughput for storage type gp2.")
            return target
        if new_type == "gp3":
            _check_gp3(target, has_numbers=has_numbers)
            return with_gp3_defaults(target)
        if request.iops is None:
            raise _invalid("You must specify both the storage size and iops when modifying the storage type.")
        return target

    def _check_rate(self) -> None:
        """Four changes of the storage in 24 hours."""
        recent = [at_s for at_s in self._change_times_s if at_s > self.at_s - DAY_S]
        if len(recent) >= _MAX_CHANGES_A_DAY:
            hours = -(-(recent[-_MAX_CHANGES_A_DAY] + DAY_S - self.at_s) // HOUR_S)
            raise _invalid(
                "You can't currently modify the storage of this DB instance. Try again after approximately"
                f" {hours} hours."
            )

    def _next_change_s(self) -> int:
        if self.change is None:
            return NEVER_S
        is_effective = self.at_s >= self.change.effective_at_s
        return self.change.ends_at_s if is_effective else self.change.effective_at_s

    def _apply_changes(self) -> None:
        change = self.change
        if change is None or self.at_s < change.effective_at_s:
            return
        if self.at_s == change.effective_at_s:
            self.facts = replace(change.target, identifier=self.identifier)
            self._set_limits()
        if self.at_s >= change.ends_at_s:
            self.change = None

    def _set_limits(self) -> None:
        """The limits of storage and class as they are now; a bucket that remains keeps its credits."""
        pools, limits = dict(_storage_limits(self.facts)), list(_storage_ceilings(self.facts))
        class_limits = ebs_limits(self.facts.ec2_type or "")
        if class_limits is not None:
            for name, rate, unit, factor in (
                (CLASS_IO, class_limits.io, OPERATIONS, 1),
                (CLASS_THROUGHPUT, class_limits.kib, MIB, 1_024),
            ):
                if rate.capacity:
                    pools[name] = CreditPool(
                        unit=unit,
                        capacity=rate.capacity / factor,
                        refill_per_s=rate.baseline / factor,
                        burst_per_s=rate.maximum / factor,
                        recorded_full=FULL_CREDITS,
                    )
                else:
                    limits.append(Limit(rate.baseline / factor, unit))
        self.pools, self.limits = keep_pools(self.pools, pools.items()), limits

    def _note_credits(
        self, pool: str, before: float, after: float, start_s: float, duration_s: float
    ) -> None:
        """Remember when the credits of the storage became low, once in each drain."""
        if pool != STORAGE:
            return
        low = self.pools[pool].capacity * self._settings().rds_event_below_pct / 100
        if after > 2 * low:
            self._is_low_announced = False
        if after <= low and not self._is_low_announced:
            self._is_low_announced = True
            share = (before - low) / (before - after) if before > low > after else 0.0
            self.low_credits.append(LowCredits(start_s + share * duration_s, self.identifier))


class Databases:
    """The database instances of one account and region; every method may be called from any thread."""

    def __init__(self, clock: LabClock, lock: RLock, settings: Callable[[], LabSettings]) -> None:
        self._clock, self._lock, self._settings = clock, lock, settings
        self._databases: dict[str, SimulatedDatabase] = {}
        self._by_name: dict[str, list[SimulatedDatabase]] = {}
        self._removed: list[SimulatedDatabase] = []

    def __len__(self) -> int:
        return len(self._databases)

    def __iter__(self) -> Iterator[SimulatedDatabase]:
        return iter(list(self._databases.values()))

    def add(self, definition: LabDatabase) -> str:
        """Put a database instance into the lab and answer its name."""
        with self._lock:
            if self.get(definition.identifier) is not None:
                raise DatabaseError(f"{definition.identifier} exists already: give another identifier")
            resource_id = self._make_resource_id()
            starts_at = definition.starts_at or self._clock.now()
            database = SimulatedDatabase(
                definition,
                resource_id=resource_id,
                starts_at_s=int(starts_at.timestamp()),
                created_at=definition.created_at or starts_at - _DEFAULT_AGE,
                settings=self._settings,
            )
            self._databases[resource_id] = database
            self._by_name.setdefault(definition.identifier, []).append(database)
            return definition.identifier

    def add_all(self, definitions: Iterable[LabDatabase]) -> list[str]:
        return [self.add(definition) for definition in definitions]

    def get(self, identifier: str) -> SimulatedDatabase | None:
        """The database that has this name now, brought up to now, or None."""
        with self._lock:
            for database in self._by_name.get(identifier, ()):
                if database.identifier == identifier and database.resource_id in self._databases:
                    database.catch_up(int(self._clock.now_s()))
                    return database
            return None

    def find(self, identifier: str) -> SimulatedDatabase:
        """The same; DatabaseError if there is no such database."""
        database = self.get(identifier)
        if database is None:
            raise DatabaseError(f"{identifier} is not one of the lab's {len(self)} databases")
        return database

    def named(self, identifier: str) -> list[tuple[SimulatedDatabase, Naming]]:
        """Every database that has or had this name, with the time in which it had it."""
        with self._lock:
            pairs = [
                (database, naming)
                for database in self._by_name.get(identifier, ())
                for naming in database.namings
                if naming.identifier == identifier
            ]
            for database, _ in pairs:
                database.catch_up(int(self._clock.now_s()))
            return pairs

    def rename(self, identifier: str, new_identifier: str) -> None:
        """Give a database another name.

        Raises:
            AwsError: there is a database of that name.
        """
        with self._lock:
            database = self.find(identifier)
            if self.get(new_identifier) is not None:
                raise AwsError("DBInstanceAlreadyExists", "DB instance already exists")
            database.rename(new_identifier)
            self._by_name.setdefault(new_identifier, []).append(database)

    def remove(self, identifier: str) -> None:
        with self._lock:
            self._removed.append(self._databases.pop(self.find(identifier).resource_id))

    def set_load(self, identifier: str, load: Load | str, at: datetime | None = None) -> None:
        """Set the demand, from now or from a moment to come."""
        with self._lock:
            database = self.find(identifier)
            database.set_load(load, int(at.timestamp()) if at else database.at_s)

    def set_balance(self, identifier: str, balance_pct: float, bucket: str = STORAGE) -> None:
        """Put one of its buckets at this level now."""
        with self._lock:
            self.find(identifier).set_balance(balance_pct, bucket)

    def set_class(self, identifier: str, instance_class: str) -> None:
        """Give it another class now."""
        with self._lock:
            self.find(identifier).set_class(instance_class)

    def set_running(self, identifier: str, *, running: bool) -> None:
        with self._lock:
            self.find(identifier).set_running(running=running)

    def low_credit_events(self) -> list[LowCredits]:
        """Every RDS-EVENT-0189 that AWS has sent by now, in the order of their times; they come late."""
        with self._lock:
            now_s = self._clock.now_s()
            delay_s = self._settings().rds_event_delay_s
            for database in self:
                database.catch_up(int(now_s))
            sent = (
                event._replace(at_s=event.at_s + delay_s)
                for database in (*self, *self._removed)
                for event in database.low_credits
            )
            return sorted(event for event in sent if event.at_s <= now_s)

    def _make_resource_id(self) -> str:
        """An ID that looks like AWS's and is the same in every run."""
        seed = f"db/{self._settings().seed}/{len(self._by_name)}".encode()
        return f"db-{blake2b(seed, digest_size=13).hexdigest().upper()}"


def low_credits_event(event: LowCredits, settings: LabSettings) -> dict[str, Any]:
    """RDS-EVENT-0189 as EventBridge has it, without the fields that are common to all events."""
    arn = f"arn:aws:rds:{settings.region}:{settings.account_id}:db:{event.identifier}"
    occurred_at = datetime.fromtimestamp(event.at_s, tz=UTC)
    return {
        "detail-type": "RDS DB Instance Event",
        "source": "aws.rds",
        "time": f"{occurred_at:%Y-%m-%dT%H:%M:%SZ}",
        "resources": [arn],
        "detail": {
            "EventCategories": ["notification"],
            "SourceType": "DB_INSTANCE",
            "SourceArn": arn,
            "Date": f"{occurred_at:%Y-%m-%dT%H:%M:%S}.000Z",
            "SourceIdentifier": event.identifier,
            "Message": LOW_CREDITS_MESSAGE,
            "EventID": LOW_CREDITS_EVENT,
        },
    }


def with_gp3_defaults(database: DbInstance) -> DbInstance:
    """The database with the IOPS and the throughput that gp3 has without a request."""
    is_large = database.volume_count > 1
    return replace(
        database,
        provisioned_iops=database.provisioned_iops or (GP3_STRIPED_IOPS if is_large else GP3_IOPS),
        storage_throughput_mib_s=database.storage_throughput_mib_s
        or (GP3_STRIPED_MIB_S if is_large else GP3_MIB_S),
    )


def _check_gp3(target: DbInstance, *, has_numbers: bool) -> None:
    striped_from_gib = target.striped_from_gib
    if striped_from_gib is not None and target.allocated_gib < striped_from_gib:
        if has_numbers:
            raise _invalid(
                f"You can't specify IOPS or storage throughput for engine {target.engine} and a storage size"
                f" less than {striped_from_gib}."
            )
        return
    least = with_gp3_defaults(replace(target, provisioned_iops=None, storage_throughput_mib_s=None))
    ranges = (
        ("IOPS", target.provisioned_iops, least.provisioned_iops, _GP3_MAX_IOPS),
        (
            "storage throughput",
            target.storage_throughput_mib_s,
            least.storage_throughput_mib_s,
            _GP3_MAX_MIB_S,
        ),
    )
    for name, value, lowest, highest in ranges:
        if value is not None and not (lowest or 0) <= value <= highest:
            raise _invalid(f"Invalid {name} {value}: must be between {lowest} and {highest} for gp3.")


def _storage_limits(facts: DbInstance) -> Iterator[tuple[str, CreditPool]]:
    if facts.storage_type != "gp2":
        return
    bucket = gp2_storage_bucket(facts)
    if bucket.highest_drain_per_s:
        yield (
            STORAGE,
            CreditPool(
                unit=OPERATIONS,
                capacity=bucket.capacity,
                refill_per_s=bucket.refill_per_s,
                burst_per_s=bucket.burst_per_s,
                recorded_full=FULL_CREDITS,
            ),
        )


def _storage_ceilings(facts: DbInstance) -> Iterator[Limit]:
    """The limits of the storage that have no bucket."""
    if facts.storage_type == "gp2":
        yield Limit(gp2_storage_bucket(facts).burst_per_s, OPERATIONS)
        yield Limit(gp2_storage_mib_s(facts), MIB)
        return
    if facts.provisioned_iops:
        yield Limit(facts.provisioned_iops, OPERATIONS)
    if facts.storage_throughput_mib_s:
        yield Limit(facts.storage_throughput_mib_s, MIB)


def _invalid(message: str) -> AwsError:
    return AwsError("InvalidParameterCombination", message)

"""EFS file systems in simulated time: their bucket, their throughput modes, and the rules of changing them.

Source: the EFS user guide, "Throughput modes", and the EFS API reference, UpdateFileSystem. Where AWS does
not document something, ``LabSettings`` has a choice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from threading import RLock
from typing import Final, NamedTuple

from burstlab.model.aws_error import AwsError
from burstlab.model.clock import LabClock
from burstlab.model.loads.load import DAY_S, NEVER_S, Load
from burstlab.model.metered_resource import METERED_MIB, CreditPool, Limit, MeteredResource, keep_pools
from burstlab.model.minute_history import MinuteHistory
from burstlab.model.settings import LabSettings
from burstlab.model.volume import check_tags
from burstwatch.core.buckets.units import GIB, MIB
from burstwatch.core.efs.efs_bucket import efs_bucket, limit_when_empty_per_s
from burstwatch.core.errors import BurstwatchError

BUCKET: Final = "efs-bytes"
MODES: Final = ("bursting", "provisioned", "elastic")
_DEFAULT_AGE: Final = timedelta(days=30)
_ELASTIC_MIB_S: Final = 1_024  # of what is metered; the lowest that a Region allows for writes
_MAX_PROVISIONED_MIB_S: Final = 1_024  # ThroughputLimitExceeded: "the throughput limit of 1024 MiB/s"


class FileSystemError(BurstwatchError):
    """The lab does not have what was requested; the message identifies it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabFileSystem:
    """A file system as it joins the lab.

    ``size_gib`` is what is in Standard; 0 is an empty file system. A load has operations, as that of a volume
    has: ``steady:400@256`` are 100 MiB/s.
    """

    size_gib: float
    load: Load | str = "idle"
    balance_pct: float = 100.0
    throughput_mode: str = "bursting"
    provisioned_mib_s: float | None = None
    file_system_id: str | None = None
    performance_mode: str = "generalPurpose"
    infrequent_gib: float = 0.0
    archive_gib: float = 0.0
    zone: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    starts_at: datetime | None = None
    created_at: datetime | None = None

    def __post_init__(self) -> None:
        if min(self.size_gib, self.infrequent_gib, self.archive_gib) < 0:
            raise ValueError(f"size_gib is {self.size_gib}: give 0 or more, and so for the other classes")
        if not 0 <= self.balance_pct <= 100:  # noqa: PLR2004 - per cent
            raise ValueError(f"balance_pct is {self.balance_pct}: give 0 to 100")
        if self.throughput_mode not in MODES:
            raise ValueError(f"throughput_mode is {self.throughput_mode!r}: give one of {', '.join(MODES)}")
        if (self.throughput_mode == "provisioned") != (self.provisioned_mib_s is not None):
            raise ValueError("give provisioned_mib_s with throughput_mode provisioned, and only with it")
        check_tags(self.tags)


class ThroughputLevel(NamedTuple):
    """What a file system is permitted from a moment on, in bytes per second."""

    since_s: int
    mode: str
    sustained_per_s: float
    burst_per_s: float


class StoredBytes(NamedTuple):
    """What it stores from a moment on, by storage class."""

    since_s: int
    standard: int
    infrequent: int
    archive: int

    @property
    def total(self) -> int:
        return self.standard + self.infrequent + self.archive


class SimulatedFileSystem(MeteredResource):
    """One file system; the credits of its bucket are in MiB, what AWS publishes is in bytes."""

    def __init__(
        self,
        definition: LabFileSystem,
        *,
        file_system_id: str,
        starts_at_s: int,
        created_at: datetime,
        settings: Callable[[], LabSettings],
    ) -> None:
        super().__init__(file_system_id, definition.load, starts_at_s)
        self.created_at = created_at
        self.mode, self.provisioned_mib_s = definition.throughput_mode, definition.provisioned_mib_s
        self.performance_mode, self.zone = definition.performance_mode, definition.zone
        self.tags = dict(definition.tags)
        self.is_deleted = False
        self.stored: list[StoredBytes] = []
        self.levels: list[ThroughputLevel] = []
        self.balances[BUCKET] = MinuteHistory()
        self._settings = settings
        self._effective_at_s: int | None = None
        self._last_change_at_s: int | None = None
        self._bucket = self._make_pool(0)
        self._set_stored(definition.size_gib, definition.infrequent_gib, definition.archive_gib)
        self._bucket.credits = self._bucket.capacity * definition.balance_pct / 100
        self._apply_mode()

    @property
    def state(self) -> str:
        return "available" if self._effective_at_s is None else "updating"

    @property
    def standard_bytes(self) -> int:
        return self.stored[-1].standard

    @property
    def balance_bytes(self) -> float:
        return self._bucket.credits * MIB

    def set_size(self, size_gib: float) -> None:
        """Store this much in Standard from now on; the credits stay, as far as they fit."""
        self._set_stored(size_gib, self.stored[-1].infrequent / GIB, self.stored[-1].archive / GIB)
        self._apply_mode()

    def update(self, mode: str | None, provisioned_mib_s: float | None) -> None:
        """Change the throughput mode, or the provisioned throughput, as UpdateFileSystem does.

        Raises:
            AwsError: AWS refuses, in its words as far as they are known.
        """
        if self.state != "available":
            raise AwsError(
                "IncorrectFileSystemLifeCycleState",
                f"File system '{self.resource_id}' is {self.state}.",
                409,
            )
        new_mode = self._check_request(mode, provisioned_mib_s)
        new_mib_s = provisioned_mib_s if provisioned_mib_s is not None else self.provisioned_mib_s
        if new_mode != "provisioned":
            new_mib_s = None
        if (new_mode, new_mib_s) == (self.mode, self.provisioned_mib_s):
            return
        is_raise = new_mode == self.mode and (new_mib_s or 0) > (self.provisioned_mib_s or 0)
        if not is_raise:
            self._check_rate()
        self.mode, self.provisioned_mib_s = new_mode, new_mib_s
        self._last_change_at_s = self.at_s
        self._effective_at_s = self.at_s + max(1, int(self._settings().efs_updating_s))

    def _check_request(self, mode: str | None, provisioned_mib_s: float | None) -> str:
        new_mode = mode or self.mode
        if mode is None and provisioned_mib_s is None:
            raise AwsError("BadRequest", "Either ThroughputMode or ProvisionedThroughputInMibps is required.")
        if new_mode not in MODES:
            raise AwsError("BadRequest", f"'{new_mode}' is not a valid throughput mode.")
        if new_mode == "provisioned" and provisioned_mib_s is None and self.mode != "provisioned":
            raise AwsError("BadRequest", "ProvisionedThroughputInMibps is required for provisioned mode.")
        if new_mode != "provisioned" and provisioned_mib_s is not None:
            raise AwsError("BadRequest", f"ProvisionedThroughputInMibps is not allowed in {new_mode} mode.")
        if provisioned_mib_s is not None and provisioned_mib_s < 1:
            raise AwsError("BadRequest", "ProvisionedThroughputInMibps must be 1 or more.")
        if provisioned_mib_s is not None and provisioned_mib_s > _MAX_PROVISIONED_MIB_S:
            limit = f"the throughput limit of {_MAX_PROVISIONED_MIB_S} MiB/s"
            raise AwsError("ThroughputLimitExceeded", f"{provisioned_mib_s:g} MiB/s is above {limit}.")
        if new_mode == "elastic" and self.performance_mode != "generalPurpose":
            raise AwsError("BadRequest", "Elastic throughput requires the generalPurpose performance mode.")
        return new_mode

    def _check_rate(self) -> None:
        """The 24 hours after a change, which hold for provisioned mode, or for any (``efs_mode_rule``)."""
        changed_at_s = self._last_change_at_s
        if changed_at_s is None or self.at_s >= changed_at_s + DAY_S:
            return
        if self._settings().efs_mode_rule == "provisioned" and self.mode != "provisioned":
            return
        retry_at = datetime.fromtimestamp(changed_at_s + DAY_S, tz=UTC)
        raise AwsError(
            "TooManyRequests",
            "You have reached the maximum number of throughput mode changes or provisioned throughput value"
            f" decreases. Wait until {retry_at:%Y-%m-%dT%H:%M:%SZ} UTC and try again.",
            429,
        )

    def _next_change_s(self) -> int:
        return NEVER_S if self._effective_at_s is None else self._effective_at_s

    def _apply_changes(self) -> None:
        if self._effective_at_s is not None and self.at_s >= self._effective_at_s:
            self._effective_at_s = None
            self._apply_mode()

    def _apply_mode(self) -> None:
        """Serve as the mode and the size say; the balance is kept while another mode is in force."""
        sustained, burst = limit_when_empty_per_s(self.standard_bytes), self._bucket.burst_per_s * MIB
        if self.mode == "bursting":
            self.pools, self.limits = {BUCKET: self._bucket}, ()
        else:
            sustained = (
                _ELASTIC_MIB_S * MIB
                if self.mode == "elastic"
                else max(sustained, (self.provisioned_mib_s or 0) * MIB)
            )
            burst = sustained
            self.pools, self.limits = {}, (Limit(sustained / MIB, METERED_MIB),)
        self.levels.append(ThroughputLevel(self.at_s, self.mode, sustained, burst))

    def _set_stored(self, standard_gib: float, infrequent_gib: float, archive_gib: float) -> None:
        sizes = [int(gib * GIB) for gib in (standard_gib, infrequent_gib, archive_gib)]
        self.stored.append(StoredBytes(self.at_s, *sizes))
        self._bucket = keep_pools({BUCKET: self._bucket}, [(BUCKET, self._make_pool(sizes[0]))])[BUCKET]

    @staticmethod
    def _make_pool(standard_bytes: int) -> CreditPool:
        bucket = efs_bucket(standard_bytes)
        return CreditPool(
            unit=METERED_MIB,
            capacity=bucket.capacity / MIB,
            refill_per_s=bucket.refill_per_s / MIB,
            burst_per_s=bucket.burst_per_s / MIB,
            sustained_per_s=limit_when_empty_per_s(standard_bytes) / MIB,
        )


class FileSystems:
    """The file systems of one account and region; every method may be called from any thread."""

    def __init__(self, clock: LabClock, lock: RLock, settings: Callable[[], LabSettings]) -> None:
        self._clock, self._lock, self._settings = clock, lock, settings
        self._file_systems: dict[str, SimulatedFileSystem] = {}

    def __len__(self) -> int:
        return len(self._file_systems)

    def __iter__(self) -> Iterator[SimulatedFileSystem]:
        return iter(list(self._file_systems.values()))

    def add(self, definition: LabFileSystem) -> str:
        """Put a file system into the lab and answer its ID."""
        with self._lock:
            file_system_id = definition.file_system_id or self._make_id()
            if file_system_id in self._file_systems:
                raise FileSystemError(f"{file_system_id} exists already: give another file_system_id or none")
            starts_at = definition.starts_at or self._clock.now()
            self._file_systems[file_system_id] = SimulatedFileSystem(
                definition,
                file_system_id=file_system_id,
                starts_at_s=int(starts_at.timestamp()),
                created_at=definition.created_at or starts_at - _DEFAULT_AGE,
                settings=self._settings,
            )
            return file_system_id

    def add_all(self, definitions: Iterable[LabFileSystem]) -> list[str]:
        return [self.add(definition) for definition in definitions]

    def get(self, file_system_id: str) -> SimulatedFileSystem | None:
        """The file system, brought up to now, or None."""
        with self._lock:
            file_system = self._file_systems.get(file_system_id)
            if file_system is not None:
                file_system.catch_up(int(self._clock.now_s()))
            return file_system

    def find(self, file_system_id: str) -> SimulatedFileSystem:
        """The same; FileSystemError if there is no such file system."""
        file_system = self.get(file_system_id)
        if file_system is None:
            raise FileSystemError(f"{file_system_id} is not one of the lab's {len(self)} file systems")
        return file_system

    def remove(self, file_system_id: str) -> None:
        with self._lock:
            self.find(file_system_id)
            del self._file_systems[file_system_id]

    def set_load(self, file_system_id: str, load: Load | str, at: datetime | None = None) -> None:
        """Set the demand, from now or from a moment to come."""
        with self._lock:
            file_system = self.find(file_system_id)
            file_system.set_load(load, int(at.timestamp()) if at else file_system.at_s)

    def set_balance(self, file_system_id: str, balance_pct: float) -> None:
        """Put the bucket at this level now; only in bursting mode."""
        with self._lock:
            self.find(file_system_id).set_balance(balance_pct, BUCKET)

    def set_size(self, file_system_id: str, size_gib: float) -> None:
        with self._lock:
            self.find(file_system_id).set_size(size_gib)

    def _make_id(self) -> str:
        """An ID that looks like AWS's and is the same in every run."""
        seed = f"fs/{self._settings().seed}/{len(self._file_systems)}".encode()
        return f"fs-0{blake2b(seed, digest_size=8).hexdigest()}"

"""Joins a real device to a simulated volume: operations counted drive the bucket, the bucket sets the limit.

Time runs faster: a real second is ``speed`` seconds of the volume, and each operation of the device counts as
``simulated_ops_per_real_op`` of the volume. If the two are equal, IOPS are those of EBS, and only the bucket
is smaller: 5.4 million credits at 240 times the speed are 22,500 real operations.
"""

import time
from dataclasses import dataclass
from math import ceil
from threading import Event, Thread
from typing import Final, NamedTuple, Self

from burstlab.disk.block_device import Counters, DiskError, ThrottledDevice
from burstlab.model.clock import MAX_SPEED
from burstlab.model.fleet import LabFleet
from burstlab.model.loads.load import OPERATION_KIB
from burstlab.model.simulated_volume import SimulatedVolume
from burstlab.model.volume import Truth
from burstwatch.core.ebs.volume import BUCKET_CREDITS, BURST_IOPS

DEFAULT_SPEED: Final = 60.0  # a volume's minute in a second: a small bucket is empty after half a minute
CONTROL_PERIOD_S: Final = 0.05
"""A new limit is felt after a twentieth of a second at the latest."""

MAX_REAL_IOPS: Final = 6_000
"""More a loop device does not serve everywhere without being the bottleneck itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeScale:
    """How the volume's time and operations relate to the real ones."""

    speed: float
    simulated_ops_per_real_op: float

    @classmethod
    def of(cls, *, speed: float | None = None, real_credits: float | None = None) -> Self:
        """With ``real_credits`` operations in a full bucket; if only one is given, IOPS are not scaled."""
        simulated_ops_per_real_op = BUCKET_CREDITS / real_credits if real_credits else speed or DEFAULT_SPEED
        return cls(
            speed=speed or simulated_ops_per_real_op, simulated_ops_per_real_op=simulated_ops_per_real_op
        )

    @property
    def real_credits(self) -> float:
        return BUCKET_CREDITS / self.simulated_ops_per_real_op

    def real_iops(self, iops: float) -> float:
        return iops * self.speed / self.simulated_ops_per_real_op

    def __str__(self) -> str:
        scaled = (
            "" if self.speed == self.simulated_ops_per_real_op else f", IOPS times {self.real_iops(1):.3g}"
        )
        capacity = f"{self.real_credits:,.0f} operations"
        return f"a second is {self.speed:g} s of its time, a full bucket {capacity}{scaled}"

    def check(self, baseline_iops: int) -> None:
        """Refuse what no device here can play.

        Raises:
            DiskError: the limit would be less than 1, or more than a loop device serves.
        """
        if not 1 <= self.speed <= MAX_SPEED:
            min_credits, max_credits = f"{BUCKET_CREDITS / MAX_SPEED:,.0f}", f"{BUCKET_CREDITS:,}"
            raise DiskError(
                f"a bucket of {self.real_credits:,.0f} operations at the rates of EBS is speed"
                f" {self.speed:,.2f}: give 1 to {MAX_SPEED} with --speed, or {min_credits} to {max_credits}"
                " credits"
            )
        min_iops, max_iops = self.real_iops(baseline_iops), self.real_iops(max(BURST_IOPS, baseline_iops))
        description = f"a bucket of {self.real_credits:,.0f} operations at speed {self.speed:g}"
        if min_iops < 1:
            raise DiskError(
                f"{description} has a baseline of {min_iops:.2g} operations per second, less than 1: "
                f"give at least {ceil(self.real_credits / min_iops):,} credits"
            )
        if max_iops > MAX_REAL_IOPS:
            raise DiskError(
                f"{description} serves {max_iops:,.0f} operations per second, more than {MAX_REAL_IOPS:,}: "
                f"give at most {int(self.real_credits / max_iops * MAX_REAL_IOPS):,} credits"
            )


class DiskSnapshot(NamedTuple):
    """What was so at a moment (seconds of the monotonic clock); rates are the device's own.

    ``balance_pct`` is None while there is no bucket, ``iops`` what was served since the instant before.
    """

    at_s: float
    simulated_at_s: int
    balance_pct: float | None
    iops: float
    limit_iops: int
    volume_type: str


class ThrottleController(Thread):
    """Twenty times a second: read the device's counters, apply them to the volume, set the volume's limit.

    ``snapshots`` grows by one each time; ``error`` is the exception that ended it, if any.
    """

    def __init__(
        self, device: ThrottledDevice, fleet: LabFleet, volume_id: str, time_scale: TimeScale
    ) -> None:
        super().__init__(name=f"governor of {volume_id}", daemon=True)
        self.device = device
        self.volume_id = volume_id
        self.time_scale = time_scale
        self.snapshots: list[DiskSnapshot] = []
        self.error: Exception | None = None
        self._fleet = fleet
        self._stop_requested = Event()
        self._applied_counters = self._last_counters = device.read_counters()
        self._last_read_at_s = time.monotonic()
        with fleet.lock:
            fleet.find(volume_id).measure(fleet.now_s())
        self._control()

    def run(self) -> None:
        """Govern until stopped."""
        try:
            while not self._stop_requested.wait(CONTROL_PERIOD_S):
                self._control()
        except Exception as error:  # noqa: BLE001 - whoever watches the disk is to hear of it
            self.error = error

    def stop(self) -> None:
        self._stop_requested.set()
        self.join()

    def check(self) -> None:
        """Raise an error if the controller ended unexpectedly.

        Raises:
            DiskError: the device does not take its limit any more.
        """
        if self.error is not None:
            raise DiskError(f"{self.device.path} is not governed any more: {self.error}") from self.error

    @property
    def latest(self) -> DiskSnapshot:
        return self.snapshots[-1]

    @property
    def truth(self) -> Truth:
        return self._fleet.truth(self.volume_id)

    def _control(self) -> None:
        counters, read_at_s = self.device.read_counters(), time.monotonic()
        with self._fleet.lock:
            volume = self._fleet.find(self.volume_id)
            self._apply_operations(volume, counters)
            truth = volume.truth()
            balance_pct = truth.burst_balance_pct if volume.reports_balance() else None
            volume_type = f"→{volume.change.target.volume_type}" if volume.change else volume.volume_type
        limit = max(1, round(self.time_scale.real_iops(truth.ceiling_iops)))
        self.device.set_iops_limit(limit)
        iops = (counters.completed - self._last_counters.completed) / max(
            CONTROL_PERIOD_S / 2, read_at_s - self._last_read_at_s
        )
        self._last_counters, self._last_read_at_s = counters, read_at_s
        self.snapshots.append(
            DiskSnapshot(
                at_s=read_at_s,
                simulated_at_s=volume.at_s,
                balance_pct=balance_pct,
                iops=iops,
                limit_iops=limit,
                volume_type=volume_type,
            )
        )

    def _apply_operations(self, volume: SimulatedVolume, counters: Counters) -> None:
        """Let it do what the device did; its time has whole seconds, so not each time at low speed."""
        now_s = self._fleet.now_s()
        if now_s > volume.at_s:
            reads, writes = (
                counters.reads - self._applied_counters.reads,
                counters.writes - self._applied_counters.writes,
            )
            ops_factor = self.time_scale.simulated_ops_per_real_op
            moved_kib = counters.kib - self._applied_counters.kib
            size_kib = moved_kib / (reads + writes) if reads + writes else OPERATION_KIB
            volume.measure(
                now_s, read_ops=reads * ops_factor, write_ops=writes * ops_factor, size_kib=size_kib
            )
            self._applied_counters = counters

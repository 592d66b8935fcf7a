"""Joins a real device to a simulated volume: operations counted drive the bucket, the bucket sets the limit.

Time is lapsed: a second of the wall is ``speed`` seconds of the volume, and each operation of the device
stands for ``ops_each`` of the volume's. With the two equal, IOPS are those of EBS, and only the bucket is
smaller: 5.4 million credits at 240 times the speed are 22,500 real operations.
"""

import time
from dataclasses import dataclass
from math import ceil
from threading import Event, Thread
from typing import Final, NamedTuple, Self

from burstlab.disk.block_device import Counters, Device, DiskError
from burstlab.model.clock import MOST_SPEED
from burstlab.model.fleet import LabFleet
from burstlab.model.load import OPERATION_KIB
from burstlab.model.simulated_volume import SimulatedVolume
from burstlab.model.volume import Truth
from burstwatch.core.ebs.volume import BUCKET_CREDITS, BURST_IOPS

DEFAULT_SPEED: Final = 60.0
PERIOD_S: Final = 0.05
MOST_REAL_IOPS: Final = 6_000
"""More a loop device does not serve everywhere without being the bottleneck itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapse:
    """How the volume's time and operations relate to the real ones."""

    speed: float
    ops_each: float

    @classmethod
    def of(cls, *, speed: float | None = None, real_credits: float | None = None) -> Self:
        """With so many real operations in a full bucket; where only one is given, IOPS are not scaled."""
        ops_each = BUCKET_CREDITS / real_credits if real_credits else speed or DEFAULT_SPEED
        return cls(speed=speed or ops_each, ops_each=ops_each)

    @property
    def real_credits(self) -> float:
        return BUCKET_CREDITS / self.ops_each

    def real_iops(self, iops: float) -> float:
        return iops * self.speed / self.ops_each

    def __str__(self) -> str:
        scaled = "" if self.speed == self.ops_each else f", IOPS times {self.real_iops(1):.3g}"
        held = f"{self.real_credits:,.0f} operations"
        return f"a second is {self.speed:g} s of its time, a full bucket {held}{scaled}"

    def check(self, baseline_iops: int) -> None:
        """Refuse what no device here can play.

        Raises:
            DiskError: the limit would be less than 1, or more than a loop device serves.
        """
        if not 1 <= self.speed <= MOST_SPEED:
            least, most = f"{BUCKET_CREDITS / MOST_SPEED:,.0f}", f"{BUCKET_CREDITS:,}"
            raise DiskError(
                f"a bucket of {self.real_credits:,.0f} operations at the rates of EBS is speed "
                f"{self.speed:,.2f}: give 1 to {MOST_SPEED} with --speed, or {least} to {most} credits"
            )
        lowest, highest = self.real_iops(baseline_iops), self.real_iops(max(BURST_IOPS, baseline_iops))
        shown = f"a bucket of {self.real_credits:,.0f} operations at speed {self.speed:g}"
        if lowest < 1:
            raise DiskError(
                f"{shown} has a baseline of {lowest:.2g} operations per second, less than 1: "
                f"give at least {ceil(self.real_credits / lowest):,} credits"
            )
        if highest > MOST_REAL_IOPS:
            raise DiskError(
                f"{shown} serves {highest:,.0f} operations per second, more than {MOST_REAL_IOPS:,}: "
                f"give at most {int(self.real_credits / highest * MOST_REAL_IOPS):,} credits"
            )


class Instant(NamedTuple):
    """What was so at a moment (seconds of the monotonic clock); rates are the device's own.

    ``balance_pct`` is None while there is no bucket, ``iops`` what was served since the instant before.
    """

    at_s: float
    lab_s: int
    balance_pct: float | None
    iops: float
    limit_iops: int
    volume_type: str


class Governor(Thread):
    """Twenty times a second: read the device's counters, let the volume live by them, set the limit it has.

    ``instants`` grows by one each time; ``error`` is what ended it, if anything but ``stop`` did.
    """

    def __init__(self, device: Device, fleet: LabFleet, volume_id: str, lapse: Lapse) -> None:
        super().__init__(name=f"governor of {volume_id}", daemon=True)
        self.device = device
        self.volume_id = volume_id
        self.lapse = lapse
        self.instants: list[Instant] = []
        self.error: Exception | None = None
        self._fleet = fleet
        self._stopping = Event()
        self._lived = self._seen = device.counters()
        self._seen_s = time.monotonic()
        with fleet.lock:
            fleet.find(volume_id).measure(fleet.now_s())
        self._govern()

    def run(self) -> None:
        """Govern until stopped."""
        try:
            while not self._stopping.wait(PERIOD_S):
                self._govern()
        except Exception as error:  # noqa: BLE001 - whoever watches the disk is to hear of it
            self.error = error

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def check(self) -> None:
        """Refuse to go on where governing ended by itself.

        Raises:
            DiskError: the device does not take its limit any more.
        """
        if self.error is not None:
            raise DiskError(f"{self.device.path} is not governed any more: {self.error}") from self.error

    @property
    def now(self) -> Instant:
        return self.instants[-1]

    @property
    def truth(self) -> Truth:
        return self._fleet.truth(self.volume_id)

    def _govern(self) -> None:
        seen, seen_s = self.device.counters(), time.monotonic()
        with self._fleet.lock:
            volume = self._fleet.find(self.volume_id)
            self._let_live(volume, seen)
            truth = volume.truth()
            balance_pct = truth.burst_balance_pct if volume.tells_balance() else None
            kind = f"→{volume.change.target.volume_type}" if volume.change else volume.volume_type
        limit = max(1, round(self.lapse.real_iops(truth.ceiling_iops)))
        self.device.limit(limit)
        iops = (seen.done - self._seen.done) / max(PERIOD_S / 2, seen_s - self._seen_s)
        self._seen, self._seen_s = seen, seen_s
        self.instants.append(
            Instant(
                at_s=seen_s,
                lab_s=volume.at_s,
                balance_pct=balance_pct,
                iops=iops,
                limit_iops=limit,
                volume_type=kind,
            )
        )

    def _let_live(self, volume: SimulatedVolume, seen: Counters) -> None:
        """Let it do what the device did; its time has whole seconds, so not each time at low speed."""
        until_s = self._fleet.now_s()
        if until_s > volume.at_s:
            reads, writes = seen.reads - self._lived.reads, seen.writes - self._lived.writes
            each = self.lapse.ops_each
            moved_kib = seen.kib - self._lived.kib
            size_kib = moved_kib / (reads + writes) if reads + writes else OPERATION_KIB
            volume.measure(until_s, read_ops=reads * each, write_ops=writes * each, size_kib=size_kib)
            self._lived = seen

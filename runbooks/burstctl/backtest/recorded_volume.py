"""Recorded volumes that can be modified: what EC2 and CloudWatch would have shown of them, and when.

As long as a volume is not modified, it is what was recorded. On its target it has no balance, and serves what
was recorded. Back on gp2 its balance follows from the operations recorded: credits grow by the baseline less
what was served, as ``burstwatch.core.ebs.volume`` has it. It begins with what it had when it left.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from burstctl.backtest.recording import MinuteSeries, Recording
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.modification import Modification, VolumeSpec
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import BUCKET_CREDITS, CREDITS_PER_PCT, Volume, baseline_iops
from burstwatch.core.policy.windows import LeadPolicy, expected_flip_duration

_MODIFYING_S: Final = 60
"""Then it is optimizing, and shows what it is to be."""

_FULL_PCT: Final = 99.99  # full but for rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedModification:
    """A modification that the watchdog requested, and how long it takes."""

    target: Configuration
    original: VolumeSpec
    resulting: VolumeSpec
    started_at_s: int
    completed_at_s: int

    @property
    def is_flip(self) -> bool:
        return self.target.volume_type is not VolumeType.GP2

    def state_at(self, now_s: float) -> str:
        """AWS's word for how far it is."""
        if now_s >= self.completed_at_s:
            return "completed"
        return "optimizing" if now_s >= self.started_at_s + _MODIFYING_S else "modifying"

    def record_at(self, volume_id: str, now_s: float) -> Modification:
        """AWS's record of it."""
        progress = (now_s - self.started_at_s) / (self.completed_at_s - self.started_at_s)
        is_over = now_s >= self.completed_at_s
        return Modification(
            volume_id=volume_id,
            state=self.state_at(now_s),
            original=self.original,
            target=self.resulting,
            progress_pct=min(100, int(100 * progress)),
            started_at=datetime.fromtimestamp(self.started_at_s, UTC),
            ended_at=datetime.fromtimestamp(self.completed_at_s, UTC) if is_over else None,
        )


@dataclass(slots=True)
class RecordedVolume:
    """One volume of the world; ``simulated_balance`` is its balance as it would have been, up to now."""

    recording: Recording
    lead: LeadPolicy
    modifications: list[SimulatedModification] = field(default_factory=list)
    simulated_balance: MinuteSeries = field(init=False)
    _simulated_until_s: int = field(default=0, init=False)
    _credits: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.simulated_balance = self.recording.balance

    @property
    def volume_id(self) -> str:
        return self.recording.volume.volume_id

    def exists(self, now_s: float) -> bool:
        return self.recording.volume.created_at.timestamp() <= now_s

    def volume_at(self, now_s: float) -> Volume:
        """The volume as DescribeVolumes returns it."""
        recorded = self.recording.volume
        if not self.modifications:
            return recorded
        last = self.modifications[-1]
        provision = last.original if last.state_at(now_s) == "modifying" else last.resulting
        return replace(
            recorded,
            volume_type=provision.volume_type,
            provisioned_iops=provision.iops,
            throughput_mib_s=provision.throughput_mib_s,
        )

    def modification_at(self, now_s: float) -> Modification | None:
        """AWS's newest record of it."""
        return self.modifications[-1].record_at(self.volume_id, now_s) if self.modifications else None

    def modify(self, target: Configuration, now_s: float) -> Modification:
        """Begin a modification; it takes as long as the policy expects."""
        if not self.modifications:
            self.simulated_balance = self.recording.balance.copy()
            self._simulated_until_s = int(now_s) // PERIOD_S * PERIOD_S
        self._simulate_until(now_s)
        size_gib = self.recording.volume.size_gib
        duration_s = int(expected_flip_duration(size_gib, self.lead).total_seconds())
        modification = SimulatedModification(
            target=target,
            original=_provision_of(self.volume_at(now_s)),
            resulting=_resulting_provision(target, size_gib),
            started_at_s=int(now_s),
            completed_at_s=int(now_s) + max(duration_s, 2 * _MODIFYING_S),
        )
        self.modifications.append(modification)
        return modification.record_at(self.volume_id, now_s)

    def balance(self, start_s: float, end_s: float, now_s: float) -> Series:
        """The balance of the minutes of a span, as far as they are over."""
        self._simulate_until(now_s)
        return self.simulated_balance.between(start_s, end_s)

    def _simulate_until(self, now_s: float) -> None:
        """Work out the minutes up to now; there is nothing to work out before the first modification."""
        if not self.modifications:
            return
        end_s = min(int(now_s) // PERIOD_S * PERIOD_S, self.simulated_balance.end_s)
        for start_s in range(max(self._simulated_until_s, self.simulated_balance.first_s), end_s, PERIOD_S):
            if self._is_on_credits(start_s):
                self._simulate_minute(start_s)
            else:
                self._remember_credits(start_s)
                self.simulated_balance.set_at(start_s, None)
        self._simulated_until_s = max(self._simulated_until_s, end_s)

    def _is_on_credits(self, start_s: int) -> bool:
        """Whether the volume uses credits in at least a part of a minute; then CloudWatch has a balance."""
        last = self.modifications[-1]
        return start_s < last.completed_at_s if last.is_flip else start_s + PERIOD_S > last.completed_at_s

    def _seconds_on_credits(self, start_s: int) -> int:
        last = self.modifications[-1]
        if last.is_flip:
            return min(PERIOD_S, last.completed_at_s - start_s)
        return min(PERIOD_S, start_s + PERIOD_S - last.completed_at_s)

    def _remember_credits(self, start_s: int) -> None:
        """Store the credits that the volume had when it was flipped."""
        if self._credits is None:
            before = self.simulated_balance.between(self.simulated_balance.first_s, start_s)
            self._credits = before.values[-1] * CREDITS_PER_PCT if before else None

    def _simulate_minute(self, start_s: int) -> None:
        """One minute on credits: as recorded, or after a return by the operations recorded."""
        if self._credits is None:
            return
        recorded, served = self.recording.balance.at(start_s), self.recording.served_iops(start_s)
        before = self._credits
        if served is not None:
            refill_per_s = baseline_iops(self.recording.volume.size_gib) - served
            self._credits = min(
                float(BUCKET_CREDITS), max(0.0, before + refill_per_s * self._seconds_on_credits(start_s))
            )
        min_pct = min(before, self._credits) / CREDITS_PER_PCT
        if recorded is None:
            self.simulated_balance.set_at(start_s, None)
        elif min_pct >= _FULL_PCT <= recorded:
            self._credits = None  # both are full: from here on it is again what was recorded
        else:
            self.simulated_balance.set_at(start_s, min_pct)


@dataclass(slots=True)
class RecordedFleet:
    """Every recorded volume at one moment; CloudWatch shows a minute ``lag_s`` after its start."""

    volumes: Mapping[str, RecordedVolume]
    lag_s: float
    gap_after_s: float
    now_s: float = 0.0

    @classmethod
    def of(
        cls, recordings: Iterable[Recording], *, lag_s: float, gap_after_s: float, lead: LeadPolicy
    ) -> "RecordedFleet":
        """A world of these volumes."""
        volumes = (RecordedVolume(recording, lead) for recording in recordings)
        return cls({volume.volume_id: volume for volume in volumes}, lag_s, gap_after_s)

    def existing_volumes(self) -> list[RecordedVolume]:
        """The volumes that exist now."""
        return [volume for volume in self.volumes.values() if volume.exists(self.now_s)]

    def find(self, volume_id: str) -> RecordedVolume | None:
        volume = self.volumes.get(volume_id)
        return volume if volume is not None and volume.exists(self.now_s) else None

    def visible_until_s(self, end_s: float) -> float:
        """Up to which start CloudWatch shows minutes now."""
        return min(end_s, (self.now_s - self.lag_s) // PERIOD_S * PERIOD_S + PERIOD_S)

    def instance_state(self, volume: RecordedVolume) -> str:
        """Whether its instance runs: nothing at all was recorded of one that does not."""
        is_silent = volume.recording.silence_s(self.now_s) >= self.gap_after_s
        return "stopped" if is_silent else "running"


def _provision_of(volume: Volume) -> VolumeSpec:
    return VolumeSpec(
        volume_type=volume.volume_type,
        size_gib=volume.size_gib,
        iops=volume.provisioned_iops,
        throughput_mib_s=volume.throughput_mib_s,
    )


def _resulting_provision(target: Configuration, size_gib: int) -> VolumeSpec:
    iops = target.iops if target.volume_type is not VolumeType.GP2 else baseline_iops(size_gib)
    return VolumeSpec(
        volume_type=str(target.volume_type),
        size_gib=size_gib,
        iops=iops,
        throughput_mib_s=target.throughput_mib_s,
    )

"""Recorded volumes that can be modified: what EC2 and CloudWatch would have shown of them, and when.

As long as a volume is not modified, it is what was recorded. On its target it has no balance, and serves what
was recorded. Back on gp2 its balance follows from the operations recorded: credits grow by the baseline less
what was served, as ``burstwatch.core.ebs.volume`` has it. It begins with what it had when it left.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from burstctl.backtest.recording import Recording, Track
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.modification import Modification, Provision
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.volume import BUCKET_CREDITS, CREDITS_PER_PCT, Volume, baseline_iops
from burstwatch.core.policy.windows import LeadPolicy, expected_flip

_MODIFYING_S: Final = 60
"""Then it is optimizing, and shows what it is to be."""

_FULL_PCT: Final = 99.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A modification that the watchdog asked for, and how long it takes."""

    target: Configuration
    original: Provision
    made: Provision
    started_s: int
    completed_s: int

    @property
    def is_out(self) -> bool:
        return self.target.volume_type is not VolumeType.GP2

    def state_at(self, now_s: float) -> str:
        """AWS's word for how far it is."""
        if now_s >= self.completed_s:
            return "completed"
        return "optimizing" if now_s >= self.started_s + _MODIFYING_S else "modifying"

    def told_at(self, volume_id: str, now_s: float) -> Modification:
        """AWS's record of it."""
        share = (now_s - self.started_s) / (self.completed_s - self.started_s)
        is_over = now_s >= self.completed_s
        return Modification(
            volume_id=volume_id,
            state=self.state_at(now_s),
            original=self.original,
            target=self.made,
            progress_pct=min(100, int(100 * share)),
            started_at=datetime.fromtimestamp(self.started_s, UTC),
            ended_at=datetime.fromtimestamp(self.completed_s, UTC) if is_over else None,
        )


@dataclass(slots=True)
class RecordedVolume:
    """One volume of the world; ``lived`` is its balance as it would have been, up to now."""

    recording: Recording
    lead: LeadPolicy
    moves: list[Move] = field(default_factory=list)
    lived: Track = field(init=False)
    _lived_until_s: int = field(default=0, init=False)
    _credits: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.lived = self.recording.balance

    @property
    def volume_id(self) -> str:
        return self.recording.volume.volume_id

    def exists(self, now_s: float) -> bool:
        return self.recording.volume.created_at.timestamp() <= now_s

    def shown_at(self, now_s: float) -> Volume:
        """The volume as DescribeVolumes tells it."""
        recorded = self.recording.volume
        if not self.moves:
            return recorded
        last = self.moves[-1]
        shown = last.original if last.state_at(now_s) == "modifying" else last.made
        return replace(
            recorded,
            volume_type=shown.volume_type,
            provisioned_iops=shown.iops,
            throughput_mib_s=shown.throughput_mib_s,
        )

    def modification_at(self, now_s: float) -> Modification | None:
        """AWS's newest record of it."""
        return self.moves[-1].told_at(self.volume_id, now_s) if self.moves else None

    def modify(self, target: Configuration, now_s: float) -> Modification:
        """Begin a modification; it takes as long as the policy expects."""
        if not self.moves:
            self.lived = self.recording.balance.copy()
            self._lived_until_s = int(now_s) // PERIOD_S * PERIOD_S
        self._live(now_s)
        size_gib = self.recording.volume.size_gib
        takes_s = int(expected_flip(size_gib, self.lead).total_seconds())
        move = Move(
            target=target,
            original=_provision(self.shown_at(now_s)),
            made=_made(target, size_gib),
            started_s=int(now_s),
            completed_s=int(now_s) + max(takes_s, 2 * _MODIFYING_S),
        )
        self.moves.append(move)
        return move.told_at(self.volume_id, now_s)

    def balance(self, start_s: float, end_s: float, now_s: float) -> Series:
        """The balance of the minutes of a span, as far as they are over."""
        self._live(now_s)
        return self.lived.between(start_s, end_s)

    def _live(self, now_s: float) -> None:
        """Work out the minutes up to now; there is nothing to work out before the first modification."""
        if not self.moves:
            return
        end_s = min(int(now_s) // PERIOD_S * PERIOD_S, self.lived.end_s)
        for start_s in range(max(self._lived_until_s, self.lived.first_s), end_s, PERIOD_S):
            if self._is_on_credits(start_s):
                self._spend(start_s)
            else:
                self._leave(start_s)
                self.lived.put(start_s, None)
        self._lived_until_s = max(self._lived_until_s, end_s)

    def _is_on_credits(self, start_s: int) -> bool:
        """Whether it lives on credits in a part of a minute at least: then CloudWatch tells of it."""
        last = self.moves[-1]
        return start_s < last.completed_s if last.is_out else start_s + PERIOD_S > last.completed_s

    def _seconds_on_credits(self, start_s: int) -> int:
        last = self.moves[-1]
        if last.is_out:
            return min(PERIOD_S, last.completed_s - start_s)
        return min(PERIOD_S, start_s + PERIOD_S - last.completed_s)

    def _leave(self, start_s: int) -> None:
        """Keep in mind what it had when it left."""
        if self._credits is None:
            before = self.lived.between(self.lived.first_s, start_s)
            self._credits = before.values[-1] * CREDITS_PER_PCT if before else None

    def _spend(self, start_s: int) -> None:
        """One minute on credits: as recorded, or after a return by the operations recorded."""
        if self._credits is None:
            return
        recorded, served = self.recording.balance.at(start_s), self.recording.served_iops(start_s)
        before = self._credits
        if served is not None:
            per_s = baseline_iops(self.recording.volume.size_gib) - served
            self._credits = min(
                float(BUCKET_CREDITS), max(0.0, before + per_s * self._seconds_on_credits(start_s))
            )
        least_pct = min(before, self._credits) / CREDITS_PER_PCT
        if recorded is None:
            self.lived.put(start_s, None)
        elif least_pct >= _FULL_PCT <= recorded:
            self._credits = None  # both are full: from here on it is again what was recorded
        else:
            self.lived.put(start_s, least_pct)


@dataclass(slots=True)
class World:
    """Every recorded volume at one moment; CloudWatch shows a minute ``lag_s`` after its start."""

    volumes: Mapping[str, RecordedVolume]
    lag_s: float
    gap_after_s: float
    now_s: float = 0.0

    @classmethod
    def of(
        cls, recordings: Iterable[Recording], *, lag_s: float, gap_after_s: float, lead: LeadPolicy
    ) -> "World":
        """A world of these volumes."""
        living = (RecordedVolume(recording, lead) for recording in recordings)
        return cls({each.volume_id: each for each in living}, lag_s, gap_after_s)

    def standing(self) -> list[RecordedVolume]:
        """The volumes that exist now."""
        return [each for each in self.volumes.values() if each.exists(self.now_s)]

    def find(self, volume_id: str) -> RecordedVolume | None:
        found = self.volumes.get(volume_id)
        return found if found is not None and found.exists(self.now_s) else None

    def visible_until_s(self, end_s: float) -> float:
        """Up to which start CloudWatch shows minutes now."""
        return min(end_s, (self.now_s - self.lag_s) // PERIOD_S * PERIOD_S + PERIOD_S)

    def instance_state(self, volume: RecordedVolume) -> str:
        """Whether its instance runs: nothing at all was recorded of one that does not."""
        is_silent = volume.recording.silence_s(self.now_s) >= self.gap_after_s
        return "stopped" if is_silent else "running"


def _provision(volume: Volume) -> Provision:
    return Provision(
        volume_type=volume.volume_type,
        size_gib=volume.size_gib,
        iops=volume.provisioned_iops,
        throughput_mib_s=volume.throughput_mib_s,
    )


def _made(target: Configuration, size_gib: int) -> Provision:
    iops = target.iops if target.volume_type is not VolumeType.GP2 else baseline_iops(size_gib)
    return Provision(
        volume_type=str(target.volume_type),
        size_gib=size_gib,
        iops=iops,
        throughput_mib_s=target.throughput_mib_s,
    )

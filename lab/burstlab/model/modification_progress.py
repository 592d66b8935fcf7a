"""A modification's course in time: what it is at any moment follows from the moment alone."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final

from burstlab.model.loads.load import NEVER_S
from burstlab.model.modification import Modification, VolumeSpec
from burstlab.model.settings import LabSettings

# AWS's durations are not linear in the size: the lab's rule holds between these sizes
_MIN_GIB: Final = 16
_MAX_GIB: Final = 4 * 1024
_FULL_PCT: Final = 100
_FAILURE_MESSAGE: Final = "The modification failed; the volume is as it was before. Try again."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModificationProgress:
    """A modification that was accepted under ``settings``.

    Moments are whole seconds since the epoch. ``ends_at_s`` is NEVER_S while the modification is stuck.
    ``work_done_at_s`` is when the work would be done, from which the progress is calculated.
    """

    original: VolumeSpec
    target: VolumeSpec
    started_at: datetime
    optimizing_at_s: int
    work_done_at_s: int
    ends_at_s: int
    will_fail: bool
    counts_towards_rate: bool
    request_id: str
    settings: LabSettings

    @property
    def reaches_optimizing(self) -> bool:
        """Whether it comes as far as optimizing."""
        return not self.will_fail or self.ends_at_s > self.optimizing_at_s

    @property
    def resizes_gp2(self) -> bool:
        both_gp2 = self.original.is_gp2 and self.target.is_gp2
        return both_gp2 and self.target.size_gib > self.original.size_gib

    def state_at(self, at_s: float) -> str:
        if at_s >= self.ends_at_s:
            return "failed" if self.will_fail else "completed"
        return "optimizing" if at_s >= self.optimizing_at_s else "modifying"

    def progress_at(self, at_s: float) -> int:
        """Per cent; a failed modification remains where it failed, a stuck one at 99."""
        if at_s >= self.ends_at_s and not self.will_fail:
            return _FULL_PCT
        worked_s = min(at_s, self.ends_at_s) - self.optimizing_at_s
        if worked_s <= 0:
            return 0
        return min(
            _FULL_PCT - 1, int(_FULL_PCT * worked_s // max(1, self.work_done_at_s - self.optimizing_at_s))
        )

    def uplift_fraction_at(self, at_s: float) -> float:
        """The effective share of the change from the old performance to the new one, 0 to 1."""
        if at_s >= self.ends_at_s:
            return 0.0 if self.will_fail else 1.0
        if self.settings.uplift == "linear":
            return self.progress_at(at_s) / _FULL_PCT
        return 1.0 if self.settings.uplift == "accepted" else 0.0

    def has_reached(self, moment: str, at_s: float) -> bool:
        """Whether accepted, optimizing or completed is over; a failed modification is undone."""
        if at_s >= self.ends_at_s:
            return not self.will_fail
        return moment == "accepted" or (moment == "optimizing" and at_s >= self.optimizing_at_s)

    def has_grown(self, at_s: float) -> bool:
        """A new size is there from optimizing on, and stays when the rest fails."""
        return self.reaches_optimizing and at_s >= self.optimizing_at_s

    def next_change_at_s(self, at_s: int) -> int:
        """The next moment at which something about it changes, NEVER_S if none."""
        steps = [self.optimizing_at_s, self.ends_at_s]
        if self.settings.uplift == "linear" and at_s >= self.optimizing_at_s:
            percent = self.progress_at(at_s) + 1
            if percent < _FULL_PCT:
                work_s = self.work_done_at_s - self.optimizing_at_s
                steps.append(self.optimizing_at_s - (-percent * work_s // _FULL_PCT))
        return min((step for step in steps if step > at_s), default=NEVER_S)

    def end_at(self, at_s: int, *, will_fail: bool) -> "ModificationProgress":
        """The same modification, ended at this moment."""
        return replace(
            self, optimizing_at_s=min(self.optimizing_at_s, at_s), ends_at_s=at_s, will_fail=will_fail
        )

    def describe_at(self, at_s: float) -> Modification:
        """What DescribeVolumesModifications says of it."""
        state = self.state_at(at_s)
        ended_at = max(self.started_at, datetime.fromtimestamp(min(at_s, self.ends_at_s), tz=UTC))
        return Modification(
            state=state,
            original=self.original,
            target=self.target,
            started_at=self.started_at,
            ended_at=ended_at if at_s >= self.ends_at_s else None,
            progress_pct=self.progress_at(at_s),
            status_message=_FAILURE_MESSAGE if state == "failed" else None,
        )


def plan_change(
    original: VolumeSpec, target: VolumeSpec, *, name: str, now: datetime, settings: LabSettings
) -> ModificationProgress:
    """The course of a modification accepted now; ``name`` makes it last differently from others."""
    digest = blake2b(f"{settings.seed}/{name}".encode(), digest_size=16).digest()
    started_at_s = int(now.timestamp())
    size_gib = min(_MAX_GIB, max(_MIN_GIB, target.size_gib))
    optimizing_at_s = started_at_s + _spread_duration_s(
        settings.modifying_s, settings.modify_spread, digest[0]
    )
    work_s = _spread_duration_s(
        settings.modify_minutes_per_tib * 60 * size_gib / 1024, settings.modify_spread, digest[1]
    )
    ends_at_s = {
        "completed": optimizing_at_s + work_s,
        "failed": optimizing_at_s + work_s // 2,
        "failed_early": optimizing_at_s,
        "stuck": NEVER_S,
    }[settings.modify_outcome]
    return ModificationProgress(
        original=original,
        target=target,
        started_at=now.replace(microsecond=now.microsecond // 1000 * 1000),
        optimizing_at_s=optimizing_at_s,
        work_done_at_s=optimizing_at_s + work_s,
        ends_at_s=ends_at_s,
        will_fail=settings.modify_outcome.startswith("failed"),
        counts_towards_rate=settings.no_op_counts or original != target,
        request_id=_request_id(digest.hex()),
        settings=settings,
    )


def _spread_duration_s(max_s: float, spread: float, random_byte: int) -> int:
    """At most this duration, shortened by up to the share ``spread``, according to ``random_byte``."""
    return round(max_s * (1 - spread * random_byte / 255))


def _request_id(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

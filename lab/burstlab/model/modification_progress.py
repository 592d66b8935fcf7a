"""A modification's course in time: what it is at any moment follows from the moment alone."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final

from burstlab.model.load import NEVER_S
from burstlab.model.modification import Modification, Shape
from burstlab.model.settings import LabSettings

_LEAST_GIB: Final = 16
_MOST_GIB: Final = 4 * 1024
_WHOLE_PCT: Final = 100
_FAILED: Final = "The modification failed; the volume is as it was before. Try again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A modification that was accepted under ``settings``.

    Moments are whole seconds since the epoch: ``ends_s`` is NEVER_S while it is stuck, ``done_s`` is when the
    work would be done, from which progress is told.
    """

    original: Shape
    target: Shape
    started_at: datetime
    optimizing_s: int
    done_s: int
    ends_s: int
    fails: bool
    counts: bool
    request_id: str
    settings: LabSettings

    @property
    def optimizes(self) -> bool:
        """Whether it comes as far as optimizing."""
        return not self.fails or self.ends_s > self.optimizing_s

    @property
    def resizes_gp2(self) -> bool:
        both_gp2 = self.original.is_gp2 and self.target.is_gp2
        return both_gp2 and self.target.size_gib > self.original.size_gib

    def state_at(self, at_s: float) -> str:
        if at_s >= self.ends_s:
            return "failed" if self.fails else "completed"
        return "optimizing" if at_s >= self.optimizing_s else "modifying"

    def progress_at(self, at_s: float) -> int:
        """Percent; a failed one stays where it failed, a stuck one at 99."""
        if at_s >= self.ends_s and not self.fails:
            return _WHOLE_PCT
        worked_s = min(at_s, self.ends_s) - self.optimizing_s
        if worked_s <= 0:
            return 0
        return min(_WHOLE_PCT - 1, int(_WHOLE_PCT * worked_s // max(1, self.done_s - self.optimizing_s)))

    def share_at(self, at_s: float) -> float:
        """How much of the way from the old performance to the new one is felt, 0 to 1."""
        if at_s >= self.ends_s:
            return 0.0 if self.fails else 1.0
        if self.settings.uplift == "linear":
            return self.progress_at(at_s) / _WHOLE_PCT
        return 1.0 if self.settings.uplift == "accepted" else 0.0

    def has_reached(self, moment: str, at_s: float) -> bool:
        """Whether accepted, optimizing or completed lies behind; one that failed has gone back."""
        if at_s >= self.ends_s:
            return not self.fails
        return moment == "accepted" or (moment == "optimizing" and at_s >= self.optimizing_s)

    def has_grown(self, at_s: float) -> bool:
        """A new size is there from optimizing on, and stays when the rest fails."""
        return self.optimizes and at_s >= self.optimizing_s

    def next_step_s(self, at_s: int) -> int:
        """The next moment at which something about it changes, NEVER_S if none."""
        steps = [self.optimizing_s, self.ends_s]
        if self.settings.uplift == "linear" and at_s >= self.optimizing_s:
            percent = self.progress_at(at_s) + 1
            if percent < _WHOLE_PCT:
                work_s = self.done_s - self.optimizing_s
                steps.append(self.optimizing_s - (-percent * work_s // _WHOLE_PCT))
        return min((step for step in steps if step > at_s), default=NEVER_S)

    def ended(self, at_s: int, *, fails: bool) -> "Change":
        """The same, come to its end at this moment."""
        return replace(self, optimizing_s=min(self.optimizing_s, at_s), ends_s=at_s, fails=fails)

    def told_at(self, at_s: float) -> Modification:
        """What DescribeVolumesModifications says of it."""
        state = self.state_at(at_s)
        ended_at = max(self.started_at, datetime.fromtimestamp(min(at_s, self.ends_s), tz=UTC))
        return Modification(
            state=state,
            original=self.original,
            target=self.target,
            started_at=self.started_at,
            ended_at=ended_at if at_s >= self.ends_s else None,
            progress_pct=self.progress_at(at_s),
            status_message=_FAILED if state == "failed" else None,
        )


def plan_change(original: Shape, target: Shape, *, name: str, now: datetime, settings: LabSettings) -> Change:
    """The course of a modification accepted now; ``name`` makes it last differently from others."""
    digest = blake2b(f"{settings.seed}/{name}".encode(), digest_size=16).digest()
    started_s = int(now.timestamp())
    gib = min(_MOST_GIB, max(_LEAST_GIB, target.size_gib))
    optimizing_s = started_s + _seconds(settings.modifying_s, settings.modify_spread, digest[0])
    work_s = _seconds(settings.modify_minutes_per_tib * 60 * gib / 1024, settings.modify_spread, digest[1])
    ends_s = {
        "completed": optimizing_s + work_s,
        "failed": optimizing_s + work_s // 2,
        "failed_early": optimizing_s,
        "stuck": NEVER_S,
    }[settings.modify_outcome]
    return Change(
        original=original,
        target=target,
        started_at=now.replace(microsecond=now.microsecond // 1000 * 1000),
        optimizing_s=optimizing_s,
        done_s=optimizing_s + work_s,
        ends_s=ends_s,
        fails=settings.modify_outcome.startswith("failed"),
        counts=settings.no_op_counts or original != target,
        request_id=_request_id(digest.hex()),
        settings=settings,
    )


def _seconds(most_s: float, spread: float, byte: int) -> int:
    """At most so long, less up to the share ``spread`` of it; ``byte`` is this one's luck."""
    return round(most_s * (1 - spread * byte / 255))


def _request_id(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

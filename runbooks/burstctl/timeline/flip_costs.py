"""What flips cost: the time on each target at the price it was announced with, nothing guessed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from burstctl.timeline.intervals import TargetInterval, target_intervals
from burstwatch.core.ebs.pricing import Configuration, usd_over
from burstwatch.core.ledger.flip_state import EXTERNAL, Direction
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState

FLIP_ENTRY_KINDS: Final = frozenset({
    EntryKind.ACCEPTED, EntryKind.REACHED, EntryKind.RESTORED, EntryKind.FAILED, EntryKind.NOT_DONE,
    EntryKind.CHANGED_BY_OTHERS,
})  # fmt: skip
"""What begins the time on a target, or ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipCost:
    """One time on a target, and what it costs more a month than before; negative if it costs less.

    It is billed from ``started_at_s`` to ``ended_at_s`` (None: it lasts). If it ``has_returned``, a flip-back
    of ours ended it, and it saved money until the next flip at ``flipped_again_at_s`` (None: none since).
    """

    volume_id: str
    target: Configuration
    started_at_s: float
    usd_per_month: float
    ended_at_s: float | None = None
    has_returned: bool = False
    flipped_again_at_s: float | None = None

    def usd_within(self, start_s: float, end_s: float) -> float:
        """What it added to the bill in this stretch of time."""
        billed_until_s = end_s if self.ended_at_s is None else min(self.ended_at_s, end_s)
        return usd_over(self.usd_per_month, billed_until_s - max(self.started_at_s, start_s))

    def usd_saved_by_return(self, start_s: float, end_s: float) -> float:
        """What it would have added from its return in this time until it went again, left where it was.

        A return from before is an earlier report's: else the same dollars would be saved in each of them.
        """
        if self.ended_at_s is None or not self.has_returned or not start_s <= self.ended_at_s < end_s:
            return 0.0
        until_s = end_s if self.flipped_again_at_s is None else min(self.flipped_again_at_s, end_s)
        return usd_over(self.usd_per_month, until_s - self.ended_at_s)


def begins_mid_interval(entries: Iterable[LedgerEntry]) -> bool:
    """Whether these entries begin during a flip, whose price and start are in earlier entries."""
    first = next((entry for entry in entries if entry.kind in FLIP_ENTRY_KINDS), None)
    if first is None:
        return False
    is_out = first.kind is EntryKind.ACCEPTED and first.body.get("direction") == Direction.FLIP
    return not is_out or first.body.get("from") != first.body.get("original")


def flip_costs(entries: Sequence[LedgerEntry], state: ResourceState | None) -> list[FlipCost]:
    """What each time of one volume on a target costs; without the changes that others made.

    ``entries`` are all of the volume's, or begin before a flip: see ``begins_mid_interval``. A flip from one
    target to another is priced against the volume before the first of them.
    """
    extra_usd = {
        str(entry.body.get("intent_id")): float(entry.body.get("usd_per_month_more", 0.0))
        for entry in entries
        if entry.kind is EntryKind.ACCEPTED and entry.body.get("direction") == Direction.FLIP
    }
    volume_id = entries[0].volume_id if entries else state.volume_id if state else ""
    flip = state.flip if state else None
    costs: list[FlipCost] = []
    previous: tuple[TargetInterval, float] | None = None
    for interval in target_intervals(entries, state):
        if interval.by == EXTERNAL or interval.target is None or interval.requested_at_s is None:
            continue
        is_continued = previous is not None and previous[0].restored_at_s == interval.requested_at_s
        before_usd = previous[1] if is_continued and previous is not None else 0.0
        recorded_usd = next(
            (extra_usd[intent_id] for intent_id in interval.intent_ids if intent_id in extra_usd), None
        )
        usd = (
            flip.usd_per_month
            if recorded_usd is None and flip is not None
            else before_usd + (recorded_usd or 0.0)
        )
        previous = interval, usd
        costs.append(
            FlipCost(
                volume_id=volume_id,
                target=interval.target,
                started_at_s=interval.requested_at_s,
                usd_per_month=round(usd, 6),
                ended_at_s=interval.return_requested_at_s,
                has_returned=len(interval.intent_ids) > 1,
            )
        )
    return [
        replace(cost, flipped_again_at_s=next_cost.started_at_s if next_cost else None)
        for cost, next_cost in zip(costs, [*costs[1:], None], strict=False)
    ]

"""The fleet after a pass, counted: what a dashboard shows."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger import Change, VolumeState


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """How many volumes are watched (None before the first whole sweep), in focus, flipped, at each level.

    ``lowest_balance_pct`` is that of the volumes with anything going on, None where there are none.
    """

    watched: int | None
    in_focus: int
    flipped: int
    by_level: Mapping[Level, int]
    lowest_balance_pct: float | None = None


def count_fleet(states: Mapping[str, VolumeState], changes: Iterable[Change], watched: int | None) -> Fleet:
    """The fleet as these changes leave it; a volume without a state is calm."""
    left = dict(states)
    for change in changes:
        if change.state is None:
            left.pop(change.volume_id, None)
        else:
            left[change.volume_id] = change.state
    known = left.values()
    levels = Counter(Level.UNKNOWN if each.unknown_reason else each.level for each in known)
    if watched is not None:
        levels[Level.OK] += max(0, watched - len(left))
    balances = (each.balance_pct for each in known if each.unknown_reason is None)
    return Fleet(
        watched=watched,
        in_focus=sum(each.next_look_at_s is not None for each in known),
        flipped=sum(each.flip is not None for each in known),
        by_level={level: levels[level] for level in Level},
        lowest_balance_pct=min((pct for pct in balances if pct is not None), default=None),
    )

"""The fleet after a pass, counted: what a dashboard shows."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.volume_state import VolumeState


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSummary:
    """How many volumes are watched, in focus, flipped, and at each level.

    ``watched`` is None before the first complete sweep. ``lowest_balance_pct`` is that of the volumes with
    anything going on, None without such a volume.
    """

    watched: int | None
    in_focus: int
    flipped: int
    by_level: Mapping[Level, int]
    lowest_balance_pct: float | None = None


def summarise_fleet(
    states: Mapping[str, VolumeState], changes: Iterable[Change], watched: int | None
) -> FleetSummary:
    """The fleet as these changes leave it; a volume without a state is calm."""
    remaining = dict(states)
    for change in changes:
        if change.state is None:
            remaining.pop(change.volume_id, None)
        else:
            remaining[change.volume_id] = change.state
    remaining_states = remaining.values()
    levels = Counter(
        Level.UNKNOWN if state.reading.unknown_reason else state.level for state in remaining_states
    )
    if watched is not None:
        levels[Level.OK] += max(0, watched - len(remaining))
    balances = (
        state.reading.balance_pct for state in remaining_states if state.reading.unknown_reason is None
    )
    return FleetSummary(
        watched=watched,
        in_focus=sum(state.next_poll_at_s is not None for state in remaining_states),
        flipped=sum(state.flip is not None for state in remaining_states),
        by_level={level: levels[level] for level in Level},
        lowest_balance_pct=min((pct for pct in balances if pct is not None), default=None),
    )

"""The fleet after a pass, counted: what a dashboard shows."""

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.resource_type import is_volume_subject

_MAX_BUCKETS: Final = 2**24
"""No fingerprint of 64 bits is as small as this by chance, in any fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSummary:
    """How many volumes are watched, in focus, flipped, and at each level; and the other buckets.

    ``watched`` is None before the first complete sweep. ``other_by_level`` counts the buckets of instances
    and other resources that have anything going on: calm ones are not remembered. ``lowest_balance_pct`` is
    the lowest of all of these, None without any.
    """

    watched: int | None
    in_focus: int
    flipped: int
    by_level: Mapping[Level, int]
    other_by_level: Mapping[Level, int] = field(default_factory=dict)
    lowest_balance_pct: float | None = None


def summarise_fleet(
    states: Mapping[str, ResourceState], changes: Iterable[Change], watched: int | None
) -> FleetSummary:
    """The fleet as these changes leave it; a volume without a state is calm."""
    remaining = dict(states)
    for change in changes:
        if change.state is None:
            remaining.pop(change.volume_id, None)
        else:
            remaining[change.volume_id] = change.state
    volumes = [state for subject, state in remaining.items() if is_volume_subject(subject)]
    others = [state for subject, state in remaining.items() if not is_volume_subject(subject)]
    levels, other_levels = _count_levels(volumes), _count_levels(others)
    if watched is not None:
        levels[Level.OK] += max(0, watched - len(volumes))
    balances = (
        state.reading.balance_pct for state in remaining.values() if state.reading.unknown_reason is None
    )
    return FleetSummary(
        watched=watched,
        in_focus=sum(state.next_poll_at_s is not None for state in volumes),
        flipped=sum(state.flip is not None for state in volumes),
        by_level={level: levels[level] for level in Level},
        other_by_level={level: other_levels[level] for level in Level},
        lowest_balance_pct=min((pct for pct in balances if pct is not None), default=None),
    )


def fleet_fingerprints(volumes: AbstractSet[int], buckets: AbstractSet[int]) -> frozenset[int]:
    """The fingerprints of the fleet, as a snapshot has them: with the number of other buckets among them.

    It is a fingerprint of nothing to a version that does not know this, so an upgrade can be rolled back.
    """
    return frozenset(volumes | buckets | ({len(buckets)} if buckets else set()))


def count_volumes(fingerprints: AbstractSet[int]) -> int:
    """How many of the fingerprints of ``fleet_fingerprints`` are those of volumes."""
    bucket_count = min(fingerprints, default=_MAX_BUCKETS)
    is_count = bucket_count < _MAX_BUCKETS
    return max(0, len(fingerprints) - 1 - bucket_count) if is_count else len(fingerprints)


def _count_levels(states: Iterable[ResourceState]) -> Counter[Level]:
    return Counter(Level.UNKNOWN if state.reading.unknown_reason else state.level for state in states)

"""Who comes first at a tick that has not time for all. Nothing is stored, and over time each comes first."""

from collections.abc import Sequence
from typing import Final, TypeVar

_GOLDEN_RATIO: Final = 0.618033988749895
"""Its multiples, modulo 1, are spread evenly: over the minutes, each comes first about as often."""

T = TypeVar("T")


def turn_of(tick_at_s: int) -> float:
    """A number from 0 to 1 for the minute of a tick; those of a series of ticks are spread evenly."""
    return tick_at_s // 60 * _GOLDEN_RATIO % 1


def in_turn(items: Sequence[T], tick_at_s: int) -> list[T]:
    """The items in their order, as on a ring, from the one whose turn it is.

    ``in_turn("abc", 60)`` is ``["b", "c", "a"]``.
    Steps of the golden ratio reach all of them soon, even if passes are minutes apart.
    """
    offset = int(turn_of(tick_at_s) * len(items))
    return [*items[offset:], *items[:offset]]

"""When the windows of a volume were open, and are going to be, between two moments."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

from burstwatch.core.ledger.flip_state import ManualWindowOverride
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.policy.windows import Window, occurrences


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowInterval:
    """An opening of a window, limited to the requested span."""

    window: str
    start_s: float
    end_s: float
    is_manual: bool = False


def window_intervals(
    windows: Iterable[Window],
    names: Iterable[str],
    overrides: Mapping[str, Sequence[ManualWindowOverride]],
    start_s: float,
    end_s: float,
) -> list[WindowInterval]:
    """The openings of the windows ``names``, by schedule and by hand.

    ``overrides`` are all that was done by hand to each window, oldest first.
    """
    defined = {window.name: window for window in windows}
    intervals: list[WindowInterval] = []
    for name in sorted(names):
        by_hand = overrides.get(name, ())
        scheduled = _scheduled_intervals(defined[name], start_s, end_s) if name in defined else ()
        stops = [override for override in by_hand if not override.is_start]
        intervals += [_apply_stops(interval, stops) for interval in scheduled]
        intervals += _manual_intervals(by_hand, end_s)
    clipped = (replace(o, start_s=max(o.start_s, start_s), end_s=min(o.end_s, end_s)) for o in intervals)
    return sorted((o for o in clipped if o.start_s < o.end_s), key=lambda o: (o.start_s, o.window))


def manual_overrides(entries: Iterable[LedgerEntry], name: str) -> list[ManualWindowOverride]:
    """The ledger's entries about a window that was started or stopped by hand."""
    return [
        ManualWindowOverride(
            name=name,
            is_start=bool(entry.body.get("starts")),
            by=str(entry.body.get("by")),
            at_s=entry.at_s,
            until_s=entry.body.get("until_s"),
        )
        for entry in entries
        if entry.kind is EntryKind.WINDOW
    ]


def _scheduled_intervals(window: Window, start_s: float, end_s: float) -> Iterator[WindowInterval]:
    for span in occurrences(window, datetime.fromtimestamp(start_s, UTC)):
        if span.start_at.timestamp() >= end_s:
            return
        yield WindowInterval(
            window=window.name, start_s=span.start_at.timestamp(), end_s=span.end_at.timestamp()
        )


def _apply_stops(interval: WindowInterval, stops: Iterable[ManualWindowOverride]) -> WindowInterval:
    """What is left of an opening: one that is stopped ends then, one that had not begun never opens."""
    for stop in stops:
        if stop.until_s is not None and interval.start_s < stop.until_s and stop.at_s < interval.end_s:
            interval = replace(interval, end_s=max(interval.start_s, stop.at_s))
    return interval


def _manual_intervals(overrides: Sequence[ManualWindowOverride], end_s: float) -> Iterator[WindowInterval]:
    """The openings by hand; the next word on a window ends what was said before."""
    for override, following in pairwise([*overrides, None]):
        if override is not None and override.is_start:
            ends = (override.until_s, following.at_s if following else None, end_s)
            end_at_s = min(at_s for at_s in ends if at_s is not None)
            yield WindowInterval(window=override.name, start_s=override.at_s, end_s=end_at_s, is_manual=True)

"""When the windows of a volume were open, and are going to be, between two moments."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

from burstwatch.core.ledger.flip_state import WindowMark
from burstwatch.core.ledger.ledger import EntryKind, LedgerEntry
from burstwatch.core.policy.windows import Window, occurrences


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """One time that a window was open, cut to the stretch asked for."""

    window: str
    start_s: float
    end_s: float
    by_hand: bool = False


def openings(
    windows: Iterable[Window],
    names: Iterable[str],
    marks: Mapping[str, Sequence[WindowMark]],
    start_s: float,
    end_s: float,
) -> list[Opening]:
    """The openings of the windows called ``names``: by schedule, and as started and stopped by hand.

    ``marks`` are all that was done by hand to each window, oldest first.
    """
    defined = {window.name: window for window in windows}
    found: list[Opening] = []
    for name in sorted(names):
        by_hand = marks.get(name, ())
        scheduled = _scheduled(defined[name], start_s, end_s) if name in defined else ()
        stops = [mark for mark in by_hand if not mark.starts]
        found += [_stopped(opening, stops) for opening in scheduled]
        found += _started(by_hand, end_s)
    cut = (replace(o, start_s=max(o.start_s, start_s), end_s=min(o.end_s, end_s)) for o in found)
    return sorted((o for o in cut if o.start_s < o.end_s), key=lambda o: (o.start_s, o.window))


def marks_in(entries: Iterable[LedgerEntry], name: str) -> list[WindowMark]:
    """What the ledger tells of a window that was started or stopped by hand."""
    return [
        WindowMark(
            name=name,
            starts=bool(entry.body.get("starts")),
            by=str(entry.body.get("by")),
            at_s=entry.at_s,
            until_s=entry.body.get("until_s"),
        )
        for entry in entries
        if entry.kind is EntryKind.WINDOW
    ]


def _scheduled(window: Window, start_s: float, end_s: float) -> Iterator[Opening]:
    for span in occurrences(window, datetime.fromtimestamp(start_s, UTC)):
        if span.start_at.timestamp() >= end_s:
            return
        yield Opening(window=window.name, start_s=span.start_at.timestamp(), end_s=span.end_at.timestamp())


def _stopped(opening: Opening, stops: Iterable[WindowMark]) -> Opening:
    """What is left of an opening: one that is stopped ends then, one that had not begun never opens."""
    for stop in stops:
        if stop.until_s is not None and opening.start_s < stop.until_s and stop.at_s < opening.end_s:
            opening = replace(opening, end_s=max(opening.start_s, stop.at_s))
    return opening


def _started(marks: Sequence[WindowMark], end_s: float) -> Iterator[Opening]:
    """The openings by hand; the next word on a window ends what was said before."""
    for mark, following in pairwise([*marks, None]):
        if mark is not None and mark.starts:
            ends = (mark.until_s, following.at_s if following else None, end_s)
            end_at_s = min(at_s for at_s in ends if at_s is not None)
            yield Opening(window=mark.name, start_s=mark.at_s, end_s=end_at_s, by_hand=True)

"""What lasts for a while and is no number, as stretches on lanes: levels, flips, windows, holds, stalls."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from burstctl.plot.labels import hold_words, stall_words, stay_words, window_words
from burstctl.timeline.intervals import Stay
from burstctl.timeline.timeline import Chronology
from burstwatch.core.assessment.severity import Level


class Look(StrEnum):
    """How a stretch looks: a fill of its own each, so that nothing depends on a colour."""

    OK = Level.OK
    WATCH = Level.WATCH
    WARNING = Level.WARNING
    CRITICAL = Level.CRITICAL
    EXHAUSTED = Level.EXHAUSTED
    UNKNOWN = Level.UNKNOWN
    LEAVING = "leaving"
    AWAY = "away"
    RETURNING = "returning"
    WINDOW = "window"
    HOLD = "hold"
    STALL = "stall"


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a lane, and its words."""

    start_s: float
    end_s: float
    text: str
    look: Look


@dataclass(frozen=True, slots=True)
class Lane:
    """Stretches of one sort."""

    label: str
    segments: Sequence[Segment]


def lanes_of(this: Chronology) -> list[Lane]:
    """The lanes that have anything on them, from what burstwatch saw to what people and hosts did."""
    lanes = [
        Lane("LEVEL", [Segment(r.start_s, r.end_s, str(r.level), Look(str(r.level))) for r in this.levels]),
        Lane("FLIP", [segment for stay in this.stays for segment in _stretches(stay, this)]),
        Lane("WINDOW", [Segment(o.start_s, o.end_s, window_words(o), Look.WINDOW) for o in this.windows]),
        Lane("HOLD", [Segment(r.start_s, r.end_s, hold_words(r), Look.HOLD) for r in this.holds]),
        Lane("HOST", [Segment(r.start_s, r.end_s, stall_words(r), Look.STALL) for r in this.stalls]),
    ]
    return [lane for lane in lanes if lane.segments]


def _stretches(stay: Stay, this: Chronology) -> Iterator[Segment]:
    """The way there, the time on the target, the way back."""
    asked_s = this.start_s if stay.asked_s is None else stay.asked_s
    reached_s = stay.reached_s or (this.start_s if stay.asked_s is None else None)
    left_s = stay.back_s or stay.restored_s or this.now_s
    name = stay_words(stay)
    if stay.asked_s is not None and asked_s < (reached_s or left_s):
        yield Segment(asked_s, reached_s or left_s, f"to {name}", Look.LEAVING)
    if reached_s is not None and reached_s < left_s:
        yield Segment(reached_s, left_s, name, Look.AWAY)
    if stay.back_s is not None and stay.back_s < (stay.restored_s or this.now_s):
        yield Segment(stay.back_s, stay.restored_s or this.now_s, "back", Look.RETURNING)

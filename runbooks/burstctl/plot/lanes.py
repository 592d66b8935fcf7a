"""Intervals of a picture other than numbers, by lane: levels, flips, windows, holds, stalls."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from burstctl.plot.labels import (
    describe_hold_interval,
    describe_stall,
    describe_target_interval,
    describe_window_interval,
)
from burstctl.timeline.intervals import TargetInterval
from burstctl.timeline.timeline import Timeline
from burstwatch.core.assessment.severity import Level


class SegmentStyle(StrEnum):
    """The style of a segment; each has its own fill, so that nothing depends on a colour."""

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
    """A segment of a lane, and its label."""

    start_s: float
    end_s: float
    text: str
    style: SegmentStyle


@dataclass(frozen=True, slots=True)
class Lane:
    """Segments of one kind."""

    label: str
    segments: Sequence[Segment]


def build_lanes(timeline: Timeline) -> list[Lane]:
    """The lanes that are not empty: first the watchdog's, then those of people and hosts."""
    lanes = [
        Lane(
            "LEVEL",
            [
                Segment(
                    interval.start_s, interval.end_s, str(interval.level), SegmentStyle(str(interval.level))
                )
                for interval in timeline.levels
            ],
        ),
        Lane(
            "FLIP",
            [
                segment
                for target_interval in timeline.target_intervals
                for segment in _flip_segments(target_interval, timeline)
            ],
        ),
        Lane(
            "WINDOW",
            [
                Segment(
                    window_interval.start_s,
                    window_interval.end_s,
                    describe_window_interval(window_interval),
                    SegmentStyle.WINDOW,
                )
                for window_interval in timeline.windows
            ],
        ),
        Lane(
            "HOLD",
            [
                Segment(interval.start_s, interval.end_s, describe_hold_interval(interval), SegmentStyle.HOLD)
                for interval in timeline.holds
            ],
        ),
        Lane(
            "HOST",
            [
                Segment(interval.start_s, interval.end_s, describe_stall(interval), SegmentStyle.STALL)
                for interval in timeline.stalls
            ],
        ),
    ]
    return [lane for lane in lanes if lane.segments]


def _flip_segments(interval: TargetInterval, timeline: Timeline) -> Iterator[Segment]:
    """The modification to the target, the time on the target, and the return."""
    requested_at_s = timeline.start_s if interval.requested_at_s is None else interval.requested_at_s
    reached_at_s = interval.reached_at_s or (timeline.start_s if interval.requested_at_s is None else None)
    left_at_s = interval.return_requested_at_s or interval.restored_at_s or timeline.now_s
    label = describe_target_interval(interval)
    if interval.requested_at_s is not None and requested_at_s < (reached_at_s or left_at_s):
        yield Segment(requested_at_s, reached_at_s or left_at_s, f"to {label}", SegmentStyle.LEAVING)
    if reached_at_s is not None and reached_at_s < left_at_s:
        yield Segment(reached_at_s, left_at_s, label, SegmentStyle.AWAY)
    if interval.return_requested_at_s is not None and interval.return_requested_at_s < (
        interval.restored_at_s or timeline.now_s
    ):
        yield Segment(
            interval.return_requested_at_s,
            interval.restored_at_s or timeline.now_s,
            "back",
            SegmentStyle.RETURNING,
        )

"""The labels of a picture: the resource, its state, its gaps, and its events."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH
from burstctl.plot.load import BucketPlot
from burstctl.render.resource_rows import CHANGING_LABEL, describe_depletion
from burstctl.render.table import truncate
from burstctl.render.volume import describe_place, describe_volume, format_id_and_name
from burstctl.timeline.data_gap import GAP_LABELS, DataGap
from burstctl.timeline.drawn_bucket import DrawnBucket
from burstctl.timeline.intervals import HoldInterval, StallInterval, TargetInterval, TimelineEvent
from burstctl.timeline.timeline import LoadLimit, Timeline
from burstctl.timeline.window_intervals import WindowInterval
from burstwatch.core.assessment.resource import type_name_of
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.units import format_number
from burstwatch.core.durations import DAY_S, format_duration_literal
from burstwatch.core.ebs.pricing import Configuration
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.instances.instance import Instance
from burstwatch.core.ledger.flip_state import Flip, FlipStatus
from burstwatch.core.text import (
    display_width,
    format_clock,
    format_rounded_duration,
    format_time,
    sanitise,
)

MAX_LABEL_CHARS: Final = 60  # about the width of the picture at its font size


def format_event_time(at_s: float, timeline: Timeline) -> str:
    """The hour and minute, with the day if the picture has more than one."""
    if timeline.end_s - timeline.start_s <= DAY_S:
        return format_clock(at_s)
    return _format_day_and_time(at_s)


def _format_day_and_time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%m-%d %H:%M")


def describe_drawn(drawn: DrawnBucket) -> str:
    """Which resource it is and, if it has more than one bucket, which of them."""
    resource = drawn.resource
    if isinstance(resource, Volume):
        return describe_volume(resource)
    parts = [format_id_and_name(resource), type_name_of(resource)]
    if isinstance(resource, Instance) and resource.state != "running":
        parts.append(resource.state)
    parts.append(describe_place(resource))
    return sanitise(f"{', '.join(parts)}: {drawn.kind.credits}", MAX_SENTENCE_LENGTH)


def describe_state(bucket_plot: BucketPlot) -> str:
    """The present state of the bucket: level, balance, and when it will be empty; or the flip's target."""
    timeline, decision = bucket_plot.timeline, bucket_plot.decision
    newest = timeline.balance.newest
    at_s = newest.start_at_s + timeline.period_s if newest else 0
    reading = f"{newest.value:.1f} % at {format_event_time(at_s, timeline)}" if newest else ""
    if decision is None:
        return ", ".join(filter(None, ("ignored by tag, so nothing is decided about it", reading)))
    if decision.flip is not None:
        level = [CHANGING_LABEL] if decision.is_changing else _level_text(decision.level)
        return ": ".join([*level, _describe_flip(decision.flip, timeline)])
    depletion = describe_depletion(decision, timeline.now_s)
    if decision.level is Level.UNKNOWN:
        return f"unknown: {depletion}" + (f"; last seen {reading}" if reading else "")
    forecast = decision.assessment.forecast
    has_estimate = forecast is not None and forecast.time_to_empty_s is not None
    zone = " UTC" if ":" in depletion else ""
    return f"{decision.level}: {reading}, {'empty ' if has_estimate else ''}{depletion}{zone}"


def _describe_flip(flip: Flip, timeline: Timeline) -> str:
    """The target of the flip, since when, and by whom."""
    at_s = flip.requested_at_s
    match flip.status:
        case FlipStatus.REQUESTED:
            text = f"modification requested to {flip.requested_config}"
        case FlipStatus.IN_PROGRESS:
            text = f"is being modified to {flip.requested_config}"
        case FlipStatus.ON_TARGET:
            text = f"{'stays' if flip.is_permanent else 'is on'} {flip.target}"
            at_s = flip.reached_at_s or at_s
    return f"{text} since {format_time(at_s, timeline.now_s)} UTC, requested by {flip.by}"


def _level_text(level: Level) -> list[str]:
    """The level, if there is one; a flipped volume needs none."""
    return [] if level is Level.UNKNOWN else [str(level)]


def describe_extremes(bucket_plot: BucketPlot) -> str:
    """The span in a line: the least balance, the busiest period, and what it did most."""
    timeline = bucket_plot.timeline
    parts = []
    if timeline.balance:
        lowest_pct = min(timeline.balance.values)
        at_s = timeline.balance.starts_at_s[timeline.balance.values.index(lowest_pct)]
        parts.append(f"lowest {lowest_pct:.1f} % at {format_event_time(at_s, timeline)}")
    if timeline.served:
        busiest = max(timeline.served.values)
        at_s = timeline.served.starts_at_s[timeline.served.values.index(busiest)]
        parts.append(
            f"busiest {_describe_rate(busiest, timeline)} at {format_event_time(at_s, timeline)}"
            if busiest > 0
            else "idle"
        )
    if (total := sum(timeline.served.values)) > 0:
        parts.append(f"{100 * sum(timeline.reads.values) / total:.0f} % reads")
    return f"last {format_duration_literal(bucket_plot.lookback)}: {', '.join(parts)}"


def _describe_rate(rate: float, timeline: Timeline) -> str:
    """``1,200/s`` of operations, ``31.2 MiB/s``, ``40 metered MiB/s``."""
    drawn = timeline.drawn
    return f"{rate:,.0f}/s" if drawn.counts_operations else f"{format_number(rate)} {drawn.counted_unit}"


def describe_event(event: TimelineEvent) -> str:
    """What happened, and whether an alert was sent."""
    return sanitise(event.text, MAX_SENTENCE_LENGTH) + (", alerted" if event.is_alerted else "")


def gap_labels(gap: DataGap) -> tuple[str, ...]:
    """Why there is no balance, in full and in shorter forms for narrow gaps."""
    return GAP_LABELS[gap.reason]


def describe_forecast_cone(timeline: Timeline) -> list[str]:
    """The forecast in short lines: the estimated time of an empty bucket, and the earliest possible one."""
    if timeline.forecast_cone is None or timeline.forecast_cone.estimated_empty_at_s is None:
        return []
    remaining_s, soonest_s = (
        timeline.forecast_cone.estimated_empty_at_s - timeline.now_s,
        timeline.forecast_cone.soonest_empty_at_s,
    )
    estimate = [
        f"empty in {format_rounded_duration(remaining_s)}",
        f"({format_time(timeline.forecast_cone.estimated_empty_at_s, timeline.now_s)})",
    ]
    if soonest_s is None:
        return estimate
    return [*estimate, "not before", format_time(soonest_s, timeline.now_s)]


def label_limits(limit: LoadLimit) -> dict[str, float]:
    """What a limit is called, and its rate."""
    if limit.is_provisioned:
        return {"provisioned": limit.sustained}
    burst = {"burst": limit.maximum} if limit.maximum > limit.sustained else {}
    return {"baseline": limit.sustained} | burst


def describe_target_interval(interval: TargetInterval) -> str:
    """Where it went: ``gp3 3,000 IOPS``, and whether to stay."""
    return f"{format_target(interval.target)}{', stays' if interval.is_permanent else ''}"


def format_target(target: Configuration | None) -> str:
    """``gp3 3,000 IOPS``."""
    if target is None:
        return "another type"
    return f"{target.volume_type}" + ("" if target.iops is None else f" {target.iops:,} IOPS")


def describe_window_interval(interval: WindowInterval) -> str:
    """The window's name, and whether a person started it."""
    return sanitise(interval.window, MAX_LABEL_CHARS) + (" by hand" if interval.is_manual else "")


def describe_hold_interval(interval: HoldInterval) -> str:
    """Who holds what, and why."""
    scope = "everything, " if interval.is_fleet_wide else ""
    return sanitise(f"{scope}{interval.by}: {interval.reason}", MAX_LABEL_CHARS)


def describe_stall(interval: StallInterval) -> str:
    """What the host saw."""
    duration_s = interval.end_s - interval.start_s
    return sanitise(
        f"stalled{f' {duration_s:.0f} s' if duration_s else ''}: {interval.cause}", MAX_LABEL_CHARS
    )


def format_bin_width(step_s: float, period_s: int) -> str:
    """``a minute``, ``5 min``: over how long a point or a column chooses."""
    minutes = max(1, round(max(step_s, period_s) / 60))
    if minutes == 1:
        return "a minute"
    return f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"  # noqa: PLR2004 - two hours


def fit_text(text: str, width: int) -> str:
    """The text, without its last words if it is too long; a single word that is too long is cut."""
    parts = text.split(" ")
    while len(parts) > 1 and display_width(" ".join(parts)) > width:
        parts.pop()
    message = " ".join(parts)
    return truncate(message if len(parts) == len(text.split(" ")) else message.rstrip(":,"), width)


def newest_events(events: Sequence[TimelineEvent], max_lines: int) -> tuple[Sequence[TimelineEvent], int]:
    """The newest events that fit on ``max_lines`` lines, and the number of the others."""
    if len(events) <= max_lines:
        return events, 0
    newest = events[len(events) - max(0, max_lines - 1) :]
    return newest, len(events) - len(newest)

"""A picture as PNG or SVG, with matplotlib: only modules that draw import it, and only when needed.

Lines say what they are where they end, and patterns and letters say what colours say: the picture reads in
grey, and to those who see other colours.
"""

import io
import warnings
from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import matplotlib as mpl
from matplotlib import dates as mdates
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.textpath import text_to_path

from burstctl.plot.labels import (
    describe_drawn,
    describe_event,
    describe_extremes,
    describe_forecast_cone,
    describe_state,
    fit_text,
    format_bin_width,
    format_event_time,
    gap_labels,
    label_limits,
    newest_events,
)
from burstctl.plot.lanes import Lane, Segment, SegmentStyle, build_lanes
from burstctl.plot.load import BucketPlot
from burstctl.plot.scales import place_events, rate_scale
from burstctl.timeline.data_gap import DataGap, DataGapReason
from burstctl.timeline.intervals import TimelineEvent, TimelineEventKind
from burstctl.timeline.timeline import (
    ForecastCone,
    Timeline,
    contiguous_pieces,
    downsample,
)
from burstwatch.core.buckets.series import Series
from burstwatch.core.buckets.units import format_number
from burstwatch.core.ebs.instance_bottleneck import EMPTY_PCT
from burstwatch.core.text import format_clock

INK: Final = "#1b1f24"
FAINT: Final = "#5a636e"
GRID: Final = "#dfe3e8"
BALANCE: Final = "#0072b2"
WRITES: Final = "#56b4e9"
READS: Final = "#00405f"
FORECAST: Final = "#b35c00"
CONE: Final = "#f2b45c"
EMPTY: Final = "#b3261e"
AWAY: Final = "#00795a"
WINDOW: Final = "#6a4c93"
HOLD: Final = "#41525f"

# layout: a picture as wide as a page of documentation at 150 dots per inch
_WIDTH_INCHES: Final = 11.5
_LEFT_MARGIN_INCHES: Final = 0.72
_RIGHT_MARGIN_INCHES: Final = 1.4
_EDGE_INCHES: Final = 0.14
_HEADER_INCHES: Final = 0.92
_BALANCE_INCHES: Final = 2.75
_LOAD_INCHES: Final = 1.75
_TITLE_INCHES: Final = 0.27
_NOW_LABEL_INCHES: Final = 0.14
_LANE_INCHES: Final = 0.235
_AXIS_INCHES: Final = 0.36
_LINE_INCHES: Final = 0.185
_DOTS_PER_INCH: Final = 150
_MAX_POINTS: Final = 1500  # about one for each dot of the axes: more cannot be seen and make an SVG slow
_MAX_OUTLINED_POINTS: Final = 700  # outlines of more bars would run into each other
_MAX_LISTED_EVENTS: Final = 16
_LABEL_BELOW_PCT: Final = 85
"""The label of a balance above this is below its line: above it, it would lie over the label of the time."""
_MIN_LETTER_SPACING: Final = 0.19
_LETTER_INCHES: Final = 0.075
"""Inches: of a picture's parts, of letters on the lane of events, and of one letter of small print."""

_SEGMENT_STYLES: Final[dict[SegmentStyle, dict[str, Any]]] = {
    SegmentStyle.OK: {"fc": "#eef4ef"},
    SegmentStyle.WATCH: {"fc": "#cfe3f2"},
    SegmentStyle.WARNING: {"fc": "#f6cd7f", "hatch": "//", "ec": "#b8650f"},
    SegmentStyle.CRITICAL: {"fc": "#f2a49b", "hatch": "xx", "ec": EMPTY},
    SegmentStyle.EXHAUSTED: {"fc": "#5c1010", "color": "white"},
    SegmentStyle.UNKNOWN: {"fc": "white", "hatch": "..", "ec": "#b8bec6"},
    SegmentStyle.LEAVING: {"fc": "white", "hatch": "....", "ec": "#7fb9a5"},
    SegmentStyle.AWAY: {"fc": "#bfe3d6"},
    SegmentStyle.RETURNING: {"fc": "white", "hatch": "....", "ec": "#7fb9a5"},
    SegmentStyle.WINDOW: {"fc": WINDOW, "color": "white"},
    SegmentStyle.HOLD: {"fc": "white", "hatch": "\\\\", "ec": "#aab4bd"},
    SegmentStyle.STALL: {"fc": EMPTY, "color": "white"},
}
_EVENT_COLOURS: Final = {
    TimelineEventKind.WARNING: "#9a5200",
    TimelineEventKind.CRITICAL: EMPTY,
    TimelineEventKind.EXHAUSTED: "#5c1010",
    TimelineEventKind.RECOVERED: AWAY,
    TimelineEventKind.FLIPPED: AWAY,
    TimelineEventKind.ON_TARGET: AWAY,
    TimelineEventKind.FLIPPED_BACK: AWAY,
    TimelineEventKind.RESTORED: AWAY,
    TimelineEventKind.REFUSED: EMPTY,
    TimelineEventKind.FAILED: EMPTY,
    TimelineEventKind.STALL: EMPTY,
    TimelineEventKind.CHANGED_BY_OTHERS: WINDOW,
}
RC_PARAMS: Final = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.linewidth": 0.7,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "path",
    "svg.hashsalt": "burstwatch",
    "text.parse_math": False,
}


def draw(bucket_plot: BucketPlot, kind: str) -> bytes:
    """The picture as the bytes of a file, ``png`` or ``svg``; the same values give the same bytes."""
    with mpl.rc_context(RC_PARAMS), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return render_figure(_draw_figure(bucket_plot), kind, _describe(bucket_plot))


def _describe(bucket_plot: BucketPlot) -> str:
    return (
        f"{describe_drawn(bucket_plot.timeline.drawn)}. {describe_state(bucket_plot)}."
        f" {describe_extremes(bucket_plot)}."
    )


def render_figure(figure: Figure, kind: str, title: str) -> bytes:
    """The bytes of a ``png`` or ``svg`` file; the title describes the picture to those who do not see it."""
    text = replace_unknown_characters(title)
    metadata = (
        {"Title": text, "Software": None} if kind == "png" else {"Title": text, "Date": None, "Creator": None}
    )
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=_DOTS_PER_INCH, metadata=metadata)
    return buffer.getvalue()


class _Sheet:
    """The figure, filled from the top down with axes that share one clock."""

    def __init__(self, timeline: Timeline, height: float) -> None:
        self.figure = Figure(figsize=(_WIDTH_INCHES, height), facecolor="white")
        self.timeline = timeline
        self.height = height
        self._top_inches = 0.0

    @property
    def axes_width(self) -> float:
        """How wide the axes are."""
        return _WIDTH_INCHES - _LEFT_MARGIN_INCHES - _RIGHT_MARGIN_INCHES

    def skip(self, inches: float) -> None:
        self._top_inches += inches

    def add_axes(self, height_inches: float) -> Any:
        """The next axes, so high."""
        self._top_inches += height_inches
        bounds = (
            _LEFT_MARGIN_INCHES / _WIDTH_INCHES,
            1 - self._top_inches / self.height,
            self.axes_width / _WIDTH_INCHES,
            height_inches / self.height,
        )
        axes: Any = self.figure.add_axes(bounds)
        axes.set_xlim(_to_datetime(self.timeline.start_s), _to_datetime(self.timeline.end_s))
        return axes

    def write(
        self,
        text: str,
        *,
        left_inches: float = _EDGE_INCHES,
        right_inches: float = _WIDTH_INCHES - _EDGE_INCHES,
        below_inches: float = 0.0,
        fontsize: float,
        weight: str = "normal",
        color: str = INK,
    ) -> None:
        """Write a line of text with its middle this many inches below what was drawn so far.

        A text that would go beyond ``right_inches`` is cut.
        """
        font = FontProperties(size=fontsize, weight=weight)
        self.figure.text(
            left_inches / _WIDTH_INCHES,
            1 - (self._top_inches + below_inches) / self.height,
            _truncate_to_width(replace_unknown_characters(text), right_inches - left_inches, font),
            va="center",
            fontproperties=font,
            color=color,
        )

    def time_to_inches(self, at_s: float) -> float:
        """The distance of an instant from the left edge of the axes, in inches."""
        return (
            self.axes_width * (at_s - self.timeline.start_s) / (self.timeline.end_s - self.timeline.start_s)
        )

    def inches_to_time(self, inches: float) -> float:
        """The inverse of ``time_to_inches``."""
        return self.timeline.start_s + inches / self.axes_width * (
            self.timeline.end_s - self.timeline.start_s
        )


def _draw_figure(bucket_plot: BucketPlot) -> Figure:
    timeline = bucket_plot.timeline
    lanes = build_lanes(timeline)
    events, omitted = newest_events(timeline.events, _MAX_LISTED_EVENTS)
    rows = -(-(len(events) + bool(omitted)) // 2)
    lane_inches = _LANE_INCHES * (len(lanes) + bool(timeline.events))
    height = (
        _HEADER_INCHES
        + 2 * _TITLE_INCHES
        + _NOW_LABEL_INCHES
        + _BALANCE_INCHES
        + lane_inches
        + 0.1
        + _LOAD_INCHES
        + _AXIS_INCHES
        + _LINE_INCHES * (rows + 0.6)
    )
    sheet = _Sheet(timeline, height)
    _draw_header(sheet, bucket_plot)
    balance, load = _draw_panels(sheet, timeline, lanes)
    for event in timeline.events:
        for axes in (balance, load):
            axes.axvline(_to_datetime(event.at_s), color=FAINT, lw=0.5, ls=(0, (1, 2)), zorder=1.5)
    _list_events(sheet, timeline, events, omitted)
    return sheet.figure


def _draw_header(sheet: _Sheet, bucket_plot: BucketPlot) -> None:
    level = str(bucket_plot.decision.level) if bucket_plot.decision else ""
    is_urgent = level in (SegmentStyle.WARNING, SegmentStyle.CRITICAL, SegmentStyle.EXHAUSTED)
    sheet.write(describe_drawn(sheet.timeline.drawn), below_inches=0.24, fontsize=12.5, weight="bold")
    sheet.write(
        describe_state(bucket_plot), below_inches=0.50, fontsize=11.5, color=EMPTY if is_urgent else INK
    )
    sheet.write(
        f"{describe_extremes(bucket_plot)}; times are UTC", below_inches=0.73, fontsize=9.5, color=FAINT
    )
    sheet.skip(_HEADER_INCHES)


def _draw_panels(sheet: _Sheet, timeline: Timeline, lanes: Sequence[Lane]) -> tuple[Any, Any]:
    step_s = _step_s(timeline)
    sheet.skip(_TITLE_INCHES + _NOW_LABEL_INCHES)
    balance = sheet.add_axes(_BALANCE_INCHES)
    _style_axes(balance)
    _draw_balance(balance, sheet, timeline, step_s)
    for lane in lanes:
        _draw_lane(sheet, lane)
    if timeline.events:
        _draw_letters(sheet, timeline)
    sheet.skip(_TITLE_INCHES + 0.1)
    load = sheet.add_axes(_LOAD_INCHES)
    _style_axes(load)
    _draw_load(load, timeline, step_s)
    _draw_time_axis(load, timeline)
    for axes in (balance, load):
        axes.axvline(_to_datetime(timeline.now_s), color=INK, lw=1.1)
    balance.annotate(
        f"now {format_clock(timeline.now_s)}", (_to_datetime(timeline.now_s), 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 3), textcoords="offset points", ha="center", fontsize=8.5, color=INK,
    )  # fmt: skip
    return balance, load


def _to_datetime(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def _step_s(timeline: Timeline) -> int:
    """The duration of a point: one period, or several if there would be too many points."""
    periods = (timeline.now_s - timeline.start_s) / timeline.period_s
    return timeline.period_s * max(1, -(-int(periods) // _MAX_POINTS))


def _style_axes(axes: Any) -> None:
    axes.grid(color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelbottom=False, bottom=False, left=False, labelsize=8.5, labelcolor=FAINT, pad=3)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#9aa2ac")
    axes.xaxis.set_major_locator(mdates.AutoDateLocator(tz=UTC, minticks=5, maxticks=12))


def _draw_time_axis(axes: Any, timeline: Timeline) -> None:
    formatter = mdates.ConciseDateFormatter(
        axes.xaxis.get_major_locator(),
        tz=UTC,
        formats=["%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%S"],
        zero_formats=["", "%Y", "%b", "%d %b", "%H:%M", "%H:%M"],
        show_offset=False,
    )
    axes.xaxis.set_major_formatter(formatter)
    axes.tick_params(axis="x", labelbottom=True, labelsize=9.5, labelcolor=INK)
    day = _to_datetime(timeline.now_s).strftime("%d %b %Y")
    axes.annotate(
        f"{day}\nUTC", (1, 0), xycoords="axes fraction", xytext=(24, -4), textcoords="offset points",
        va="top", fontsize=8.5, color=FAINT,
    )  # fmt: skip


def _draw_balance(axes: Any, sheet: _Sheet, timeline: Timeline, step_s: int) -> None:
    axes.set_ylim(0, 104)
    axes.set_yticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
    handles: list[Any] = [
        Line2D(
            [],
            [],
            color=BALANCE,
            lw=1.8,
            label=f"burst balance, lowest in {format_bin_width(step_s, step_s)}",
        )
    ]
    for gap in timeline.gaps:
        _draw_gap(axes, sheet, gap)
    sampled = downsample(timeline.balance, step_s, min)
    for piece in contiguous_pieces(sampled, step_s):
        times = [_to_datetime(start_s + step_s / 2) for start_s in piece.starts_at_s]
        marker = "o" if len(piece) == 1 else ""
        axes.fill_between(times, piece.values, color=BALANCE, alpha=0.18, lw=0)
        axes.plot(times, piece.values, color=BALANCE, lw=1.8, marker=marker, ms=3, solid_joinstyle="round")
    if _draw_empty(axes, sampled, step_s):
        handles.append(Patch(fc="#fae3e3", ec="#d08a84", hatch="xx", lw=0, label="empty"))
    if timeline.forecast_cone is not None:
        handles += _draw_cone(axes, timeline, timeline.forecast_cone)
    _draw_legend(axes, "BALANCE", handles, above=0.995 + _NOW_LABEL_INCHES / _BALANCE_INCHES)


def _draw_empty(axes: Any, sampled: Series, step_s: int) -> bool:
    """A pattern over the whole height while the bucket was empty; returns whether it ever was."""
    pairs = zip(sampled.starts_at_s, sampled.values, strict=True)
    empty = Series.from_pairs((start_s, pct) for start_s, pct in pairs if pct <= EMPTY_PCT)
    for piece in contiguous_pieces(empty, step_s):
        end_s = piece.starts_at_s[-1] + step_s
        axes.axvspan(
            _to_datetime(piece.starts_at_s[0]),
            _to_datetime(end_s),
            fc="#fae3e3",
            ec="#d08a84",
            hatch="xx",
            lw=0,
        )
    return bool(empty)


def _draw_gap(axes: Any, sheet: _Sheet, gap: DataGap) -> None:
    is_unexplained = gap.reason is DataGapReason.GAP
    style = (
        {"fc": "white", "ec": "#b8bec6", "hatch": "////"}
        if is_unexplained
        else {"fc": "#eaf3ef", "ec": "#eaf3ef"}
    )
    axes.axvspan(_to_datetime(gap.start_s), _to_datetime(gap.end_s), lw=0, zorder=0.6, **style)
    width = sheet.time_to_inches(gap.end_s) - sheet.time_to_inches(gap.start_s)
    label = next(
        (candidate for candidate in gap_labels(gap) if len(candidate) * _LETTER_INCHES + 0.1 <= width), None
    )
    if label is not None:
        axes.text(
            _to_datetime((gap.start_s + gap.end_s) / 2), 52, label, ha="center", va="center", fontsize=9,
            color=INK, bbox={"fc": "white", "ec": "none", "alpha": 0.85, "pad": 1.5},
        )  # fmt: skip


def _draw_cone(axes: Any, timeline: Timeline, cone: ForecastCone) -> list[Any]:
    """What is to come, from the newest datapoint on; the legend of it."""
    start_at = _to_datetime(cone.start_at_s)
    handles = _draw_estimate(axes, timeline, cone)
    if cone.soonest_empty_at_s is not None:
        axes.plot(
            [start_at, _to_datetime(cone.soonest_empty_at_s)],
            [cone.start_pct, 0],
            color=INK,
            lw=1.1,
            ls=(0, (1, 1.6)),
        )
        handles.append(Line2D([], [], color=INK, lw=1.1, ls=(0, (1, 1.6)), label="not before: full burst"))
    axes.text(
        1.01, 0.97, "\n".join(describe_forecast_cone(timeline)),
        transform=axes.transAxes, va="top", fontsize=9,
        color=FORECAST, weight="bold", linespacing=1.3,
    )  # fmt: skip
    is_below = cone.start_pct > _LABEL_BELOW_PCT
    axes.annotate(
        f"{cone.start_pct:.1f} %", (start_at, cone.start_pct), xytext=(9, -15 if is_below else 5),
        textcoords="offset points",
        fontsize=10, weight="bold", color=BALANCE, bbox={"fc": "white", "ec": "none", "alpha": 0.7, "pad": 1},
    )  # fmt: skip
    return handles


def _draw_estimate(axes: Any, timeline: Timeline, cone: ForecastCone) -> list[Any]:
    """The estimate, and the area from its earliest to its latest; the legend of both."""
    if cone.estimated_empty_at_s is None or cone.earliest_empty_at_s is None:
        return []
    start_at, end_at = _to_datetime(cone.start_at_s), _to_datetime(timeline.end_s)
    latest_at_s = cone.latest_empty_at_s
    edge = [(start_at, cone.start_pct), (_to_datetime(cone.earliest_empty_at_s), 0.0)]
    edge += (
        [(_to_datetime(latest_at_s), 0.0)]
        if latest_at_s is not None
        else [(end_at, 0.0), (end_at, cone.start_pct)]
    )
    axes.fill(*zip(*edge, strict=True), fc=CONE, alpha=0.45, ec=FORECAST, lw=0.6, hatch="||")
    axes.plot(
        [start_at, _to_datetime(cone.estimated_empty_at_s)],
        [cone.start_pct, 0],
        color=FORECAST,
        lw=1.9,
        ls=(0, (4, 1.5)),
    )
    if cone.estimated_empty_at_s < timeline.end_s:
        axes.plot(
            _to_datetime(cone.estimated_empty_at_s),
            0,
            marker="o",
            color=FORECAST,
            ms=6,
            clip_on=False,
            zorder=5,
        )
    return [
        Line2D([], [], color=FORECAST, lw=1.9, ls=(0, (4, 1.5)), marker="o", ms=5, label="forecast"),
        Patch(fc=CONE, alpha=0.45, ec=FORECAST, hatch="||", lw=0.6, label="from its earliest to its latest"),
    ]


def _draw_legend(axes: Any, title: str, handles: Sequence[Any], *, above: float = 0.995) -> None:
    """The panel's name above its upper left corner, and next to it the legend of lines and patterns."""
    axes.annotate(
        title, (0, above), xycoords="axes fraction",
        xytext=(-_LEFT_MARGIN_INCHES * 72 + 10, 8), textcoords="offset points",
        fontsize=9, weight="bold", color=INK,
    )  # fmt: skip
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.022, above), ncols=len(handles), frameon=False,
        fontsize=8.5, handlelength=2.2, columnspacing=1.5, borderaxespad=0.2, labelcolor=FAINT,
    )  # fmt: skip


def _draw_lane(sheet: _Sheet, lane: Lane) -> None:
    axes = _add_lane_axes(sheet, lane.label)
    for segment in lane.segments:
        _draw_segment(axes, sheet, segment)


def _add_lane_axes(sheet: _Sheet, label: str) -> Any:
    axes = sheet.add_axes(_LANE_INCHES)
    axes.set_axis_off()
    axes.set_ylim(0, 1)
    axes.annotate(
        label, (0, 0.5), xycoords="axes fraction",
        xytext=(-_LEFT_MARGIN_INCHES * 72 + 10, 0), textcoords="offset points",
        va="center", fontsize=8, weight="bold", color=INK,
    )  # fmt: skip
    axes.axvline(_to_datetime(sheet.timeline.now_s), color=INK, lw=1.1)
    return axes


def _draw_segment(axes: Any, sheet: _Sheet, segment: Segment) -> None:
    start_s, end_s = max(segment.start_s, sheet.timeline.start_s), min(segment.end_s, sheet.timeline.end_s)
    if end_s < start_s:
        return
    width = sheet.time_to_inches(end_s) - sheet.time_to_inches(start_s)
    end_s = max(end_s, sheet.inches_to_time(sheet.time_to_inches(start_s) + 0.03))
    style = dict(_SEGMENT_STYLES[segment.style])
    colour = style.pop("color", INK)
    axes.axvspan(_to_datetime(start_s), _to_datetime(end_s), 0.1, 0.9, lw=0, **style)
    letters = int((width - 0.06) / _LETTER_INCHES)
    if letters >= min(3, len(segment.text)):
        text_box = {"fc": style["fc"], "ec": "none", "alpha": 0.9, "pad": 0.8} if "hatch" in style else None
        axes.annotate(
            replace_unknown_characters(fit_text(segment.text, letters)), (_to_datetime(start_s), 0.48),
            xytext=(3, 0),
            textcoords="offset points", va="center", fontsize=8, color=colour, bbox=text_box,
        )  # fmt: skip


def _draw_letters(sheet: _Sheet, timeline: Timeline) -> None:
    """A letter for each event, as near to its time as possible; filled if an alert was sent."""
    axes = _add_lane_axes(sheet, "EVENT")
    last_slot, offset = divmod(sheet.time_to_inches(timeline.now_s), _MIN_LETTER_SPACING)
    slots = [
        round((sheet.time_to_inches(event.at_s) - offset) / _MIN_LETTER_SPACING) for event in timeline.events
    ]
    placed = place_events(timeline.events, slots, 0, int(last_slot) + 1)
    occupied = {slot for slot, _ in placed}
    for slot, event in placed:
        is_alone = not occupied & {slot - 1, slot + 1}
        inches = offset + slot * _MIN_LETTER_SPACING
        _draw_letter(
            axes, _to_datetime(event.at_s) if is_alone else _to_datetime(sheet.inches_to_time(inches)), event
        )


def _draw_letter(axes: Any, at: datetime, event: TimelineEvent) -> None:
    colour = _EVENT_COLOURS.get(event.kind, HOLD)
    axes.text(
        at, 0.46, event.letter, ha="center", va="center", fontsize=7.5, weight="bold",
        color="white" if event.is_alerted else colour,
        bbox={"boxstyle": "circle,pad=0.22", "fc": colour if event.is_alerted else "white", "ec": colour},
    )  # fmt: skip


def _draw_load(axes: Any, timeline: Timeline, step_s: int) -> None:
    max_rate = rate_scale(timeline)
    axes.set_ylim(0, 1.06 * max_rate)
    axes.yaxis.set_major_locator(mpl.ticker.MaxNLocator(4, steps=[1, 2, 2.5, 5, 10], integer=True))
    axes.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    reads, served = (downsample(series, step_s, max) for series in (timeline.reads, timeline.served))
    for series, style in ((served, {"fc": WRITES, "ec": "none"}), (reads, {"fc": READS, "ec": "none"})):
        for piece in contiguous_pieces(series, step_s):
            times = [_to_datetime(at_s) for at_s in (*piece.starts_at_s, piece.starts_at_s[-1] + step_s)]
            values = [*piece.values, piece.values[-1]]
            axes.fill_between(times, values, step="post", lw=0, **style)
    for piece in contiguous_pieces(served, step_s):
        times = [_to_datetime(at_s) for at_s in (*piece.starts_at_s, piece.starts_at_s[-1] + step_s)]
        values, width = (
            [*piece.values, piece.values[-1]],
            0.8 if len(served) <= _MAX_OUTLINED_POINTS else 0.25,
        )
        axes.plot(times, values, drawstyle="steps-post", color=INK, lw=width)
    _draw_limits(axes, timeline, max_rate)
    drawn = timeline.drawn
    reads_label = "reads a second" if drawn.counts_operations else f"reads in {drawn.rate_unit}"
    total_label = "served in all"
    if drawn.is_metered:
        reads_label, total_label = "a third of the reads, which is what is metered", "metered in all"
    _draw_legend(
        axes,
        drawn.rate_unit,
        [
            Patch(fc=READS, label=f"{reads_label}, busiest in {format_bin_width(step_s, step_s)}"),
            Patch(fc=WRITES, label="writes on top"),
            Line2D([], [], color=INK, lw=0.8, label=total_label),
        ],
    )


def _draw_limits(axes: Any, timeline: Timeline, max_rate: float) -> None:
    for limit in timeline.limits:
        for name, value in label_limits(limit).items():
            if value <= max_rate:
                times, dashes = (
                    [_to_datetime(limit.start_s), _to_datetime(limit.end_s)],
                    (0, (5, 2)) if name == "burst" else "-",
                )
                axes.plot(times, [value] * 2, color="white", lw=2.4, ls=dashes)
                axes.plot(times, [value] * 2, color=EMPTY, lw=1.2, ls=dashes)
    last_limits = label_limits(timeline.limits[-1])
    for name, value in last_limits.items():
        is_off_scale = value > max_rate
        axes.annotate(
            f"{name} {format_number(value)}" + ("\n(off the scale)" if is_off_scale else ""),
            (1, min(value, max_rate)),
            xycoords=("axes fraction", "data"), xytext=(6, 0), textcoords="offset points",
            va="top" if is_off_scale else "center", fontsize=9, color=EMPTY,
        )  # fmt: skip
    for name, value in label_limits(timeline.limits[0]).items():
        if name not in last_limits and value <= max_rate:
            axes.annotate(
                f"{name} {format_number(value)}", (_to_datetime(timeline.limits[0].start_s), value),
                xytext=(3, -11 if name == "burst" else 3), textcoords="offset points", fontsize=8.5,
                color=EMPTY,
            )  # fmt: skip


def _list_events(sheet: _Sheet, timeline: Timeline, events: Sequence[TimelineEvent], omitted: int) -> None:
    """The legend of the letters, in two columns."""
    lines = [f"{omitted} earlier: burstctl history {timeline.drawn.resource_id}"] if omitted else []
    lines += [
        f"{format_event_time(event.at_s, timeline)}  {event.letter}  {describe_event(event)}"
        for event in events
    ]
    rows = -(-len(lines) // 2)
    sheet.skip(_AXIS_INCHES)
    column_inches = (_WIDTH_INCHES - _LEFT_MARGIN_INCHES) / 2
    for number, line in enumerate(lines):
        column, row = divmod(number, rows)
        left_inches = _LEFT_MARGIN_INCHES + column * column_inches
        sheet.write(
            line,
            left_inches=left_inches,
            right_inches=left_inches + column_inches - _EDGE_INCHES,
            below_inches=_LINE_INCHES * (row + 0.5),
            fontsize=8.5,
        )


def _truncate_to_width(text: str, max_inches: float, font: FontProperties) -> str:
    """The text, or as much of it as is at most this wide, with ``…`` for the rest."""
    if _width_inches(text, font) <= max_inches:
        return text
    length = bisect_right(
        range(len(text)), max_inches, key=lambda end: _width_inches(f"{text[:end].rstrip()}…", font)
    )
    return f"{text[: max(0, length - 1)].rstrip()}…"


def _width_inches(text: str, font: FontProperties) -> float:
    width_points, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width_points) / 72


def replace_unknown_characters(text: str) -> str:
    """The text with a box for each character that the font does not have."""
    return "".join(
        character if ord(character) in _known_characters() else "\N{WHITE SQUARE}" for character in text
    )


@lru_cache(maxsize=1)
def _known_characters() -> frozenset[int]:
    font = font_manager.get_font(font_manager.findfont("DejaVu Sans"))
    return frozenset(font.get_charmap())

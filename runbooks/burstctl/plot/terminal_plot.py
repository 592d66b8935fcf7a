"""A picture in characters: balance above, load below, what happened between them, all on one clock."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from burstctl.cli.styled_text import StyledText
from burstctl.plot.canvas import Canvas, Glyphs
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
from burstctl.plot.lanes import Lane, SegmentStyle, build_lanes
from burstctl.plot.load import BucketPlot
from burstctl.plot.scales import Panel, TimeScale, place_events, rate_scale, values_in
from burstctl.render.resource_rows import STYLES
from burstctl.render.table import truncate
from burstctl.timeline.data_gap import DataGapReason
from burstctl.timeline.timeline import ForecastCone, Timeline
from burstwatch.core.buckets.series import Series
from burstwatch.core.buckets.units import format_number
from burstwatch.core.ebs.instance_bottleneck import EMPTY_PCT
from burstwatch.core.text import display_width, wrap

# layout in rows and columns: a chart of fewer has no room for its labels
MIN_WIDTH: Final = 60
_GUTTER_COLUMNS: Final = 7
_MIN_BALANCE_ROWS: Final = 6
_MIN_LOAD_ROWS: Final = 4
_MAX_CHART_ROWS: Final = 34
_MIN_LISTED_EVENTS: Final = 4
_MAX_LISTED_EVENTS: Final = 14
_MIN_TICK_COLUMNS: Final = 9
_TITLE_ROWS: Final = 2
_AXIS_ROWS: Final = 1
_EIGHTHS: Final = 8  # a block character has eight heights

_BOLD: Final = "bold"
_DIM: Final = "dim"
_BALANCE_STYLE: Final = "cyan"
_EMPTY_STYLE: Final = "bold red"
_FORECAST_STYLE: Final = "yellow"
_SUSTAINED_STYLE: Final = "green"
_BURST_STYLE: Final = "magenta"
_LIMIT_STYLE: Final = "cyan"

_FILL_CHARACTERS: Final = {
    SegmentStyle.OK: ".", SegmentStyle.WATCH: "-", SegmentStyle.WARNING: "=", SegmentStyle.CRITICAL: "#",
    SegmentStyle.EXHAUSTED: "@", SegmentStyle.UNKNOWN: " ", SegmentStyle.LEAVING: ">", SegmentStyle.AWAY: "-",
    SegmentStyle.RETURNING: "<", SegmentStyle.WINDOW: "=", SegmentStyle.HOLD: "-", SegmentStyle.STALL: "!",
}  # fmt: skip
_SEGMENT_STYLES: Final = {SegmentStyle(str(level)): style for level, style in STYLES.items()} | {
    SegmentStyle.LEAVING: "green", SegmentStyle.AWAY: "bold green", SegmentStyle.RETURNING: "green",
    SegmentStyle.WINDOW: "magenta", SegmentStyle.HOLD: "cyan", SegmentStyle.STALL: "bold red",
}  # fmt: skip
_BRACKETED: Final = frozenset({SegmentStyle.WINDOW, SegmentStyle.HOLD})
_URGENT_LETTERS: Final = frozenset("CEX!S")


@dataclass(frozen=True, slots=True)
class _BarSeries:
    """A series as bars: of the samples of a column one is chosen, and its value has a style."""

    series: Series
    choose: Callable[[Sequence[float]], float]
    style_of: Callable[[float, float], str]


def draw_text(bucket_plot: BucketPlot, *, width: int, height: int, glyphs: Glyphs) -> list[list[StyledText]]:
    """The whole picture as lines; on a low terminal there are more of them than fit."""
    timeline, width = bucket_plot.timeline, max(MIN_WIDTH, width)
    header, lanes = _draw_header(bucket_plot, width), build_lanes(timeline)
    rows = height - len(header) - len(lanes) - bool(timeline.events) - _TITLE_ROWS - _AXIS_ROWS
    listed_count = min(len(timeline.events), max(_MIN_LISTED_EVENTS, rows // 4), _MAX_LISTED_EVENTS)
    chart_rows = min(_MAX_CHART_ROWS, max(_MIN_BALANCE_ROWS + _MIN_LOAD_ROWS, rows - listed_count))
    sheet = _draw(timeline, lanes, width=width, chart_rows=chart_rows, glyphs=glyphs)
    lines = [*header, *sheet.lines(), *_list_events(bucket_plot, listed_count, width)]
    return [[StyledText(run.text.replace("…", glyphs.ellipsis), run.style) for run in line] for line in lines]


def _draw_header(bucket_plot: BucketPlot, width: int) -> list[list[StyledText]]:
    decision = bucket_plot.decision
    style = STYLES[decision.level] if decision else _DIM
    header_texts = ((describe_state(bucket_plot), style), (describe_extremes(bucket_plot), _DIM))
    return [
        [StyledText(truncate(describe_drawn(bucket_plot.timeline.drawn), width), _BOLD)],
        *([StyledText(line, style)] for text, style in header_texts for line in wrap(text.split(), width)),
    ]


def _draw(
    timeline: Timeline, lanes: Sequence[Lane], *, width: int, chart_rows: int, glyphs: Glyphs
) -> Canvas:
    balance_rows = max(_MIN_BALANCE_ROWS, ceil(0.6 * chart_rows))
    load_rows = max(_MIN_LOAD_ROWS, chart_rows - balance_rows)
    lane_rows = len(lanes) + bool(timeline.events)
    max_rate = rate_scale(timeline)
    balance = Panel(1, balance_rows, 100.0)
    load = Panel(balance_rows + lane_rows + _TITLE_ROWS, load_rows, max_rate)
    time_scale = TimeScale(
        start_s=timeline.start_s,
        end_s=timeline.end_s,
        first_column=_GUTTER_COLUMNS,
        column_count=width - _GUTTER_COLUMNS,
    )
    sheet = Canvas(width, balance_rows + load_rows + lane_rows + _TITLE_ROWS + _AXIS_ROWS)
    _draw_balance(sheet, timeline, time_scale, balance, glyphs)
    for row, lane in enumerate(lanes, start=balance.bottom + 1):
        _draw_lane(sheet, lane, time_scale, row)
    if timeline.events:
        _draw_events(sheet, timeline, time_scale, load.top - _TITLE_ROWS)
    _draw_load(sheet, timeline, time_scale, load, glyphs)
    _draw_now(sheet, timeline, time_scale, (balance, load), glyphs)
    _draw_axis(sheet, time_scale, glyphs)
    return sheet


def _draw_title(sheet: Canvas, row: int, title: str, legend: Iterable[tuple[str, str, str]]) -> None:
    """A panel's name, and the legend of its characters as far as there is room."""
    sheet.write(0, row, title, _BOLD)
    column = _GUTTER_COLUMNS + 1
    for glyph, meaning, style in legend:
        end = column + display_width(f"{glyph} {meaning}")
        if end > sheet.width:
            return
        sheet.write(column, row, glyph, style)
        sheet.write(column + 2, row, meaning, _DIM)
        column = end + 2


def _draw_balance(
    sheet: Canvas, timeline: Timeline, time_scale: TimeScale, panel: Panel, glyphs: Glyphs
) -> None:
    legend = [
        (
            glyphs.bars[-1],
            f"lowest in {format_bin_width(time_scale.step_s, timeline.period_s)}",
            _BALANCE_STYLE,
        )
    ]
    cone = timeline.forecast_cone
    if cone is not None and cone.estimated_empty_at_s is not None:
        legend += [
            (glyphs.estimate, "forecast", _FORECAST_STYLE),
            (glyphs.cone, "its bounds", _FORECAST_STYLE),
        ]
    if cone is not None and cone.soonest_empty_at_s is not None:
        legend.append((glyphs.bound, "not before", _FORECAST_STYLE))
    _draw_title(sheet, panel.top - 1, "BALANCE", legend)
    for row, label in ((panel.top, "100 %"), (panel.row(50), " 50 %"), (panel.bottom, "  0 %")):
        sheet.write(1, row, label, _DIM)
    _draw_gaps(sheet, timeline, time_scale, panel, glyphs)
    _draw_bars(
        sheet, _BarSeries(timeline.balance, min, _balance_style), timeline.period_s, time_scale, panel, glyphs
    )
    if cone is not None:
        _draw_cone(sheet, cone, time_scale, panel, glyphs)
        _write_if_free(sheet, time_scale.column(timeline.now_s) + 2, panel, describe_forecast_cone(timeline))


def _write_if_free(sheet: Canvas, column: int, panel: Panel, lines: Sequence[str]) -> None:
    """Lines from the top on, where all of them find free room."""
    rows = range(panel.top, panel.top + len(lines))
    ends = [column + display_width(line) for line in lines]
    if all(
        end <= sheet.width and row <= panel.bottom and sheet.is_free(column - 1, end, row)
        for row, end in zip(rows, ends, strict=True)
    ):
        for row, line in zip(rows, lines, strict=True):
            sheet.write(column, row, line, _FORECAST_STYLE)


def _balance_style(value: float, _at_s: float) -> str:
    return _EMPTY_STYLE if value <= EMPTY_PCT else _BALANCE_STYLE


def _draw_bars(
    sheet: Canvas, bars: _BarSeries, period_s: int, time_scale: TimeScale, panel: Panel, glyphs: Glyphs
) -> None:
    """A bar in each column with a sample; a value of 0 has a visible bar, too."""
    for column in range(time_scale.first_column, time_scale.end_column):
        from_s, to_s = time_scale.time_range(column)
        values = values_in(bars.series, from_s, to_s, period_s)
        if not values:
            continue
        value = bars.choose(values)
        style = bars.style_of(value, from_s)
        remaining_eighths = max(1, round(value / panel.max_value * panel.rows * _EIGHTHS))
        for row in range(panel.bottom, panel.top - 1, -1):
            if remaining_eighths <= 0:
                break
            sheet.put(column, row, glyphs.bars[min(_EIGHTHS, remaining_eighths)], style)
            remaining_eighths -= _EIGHTHS


def _draw_gaps(
    sheet: Canvas, timeline: Timeline, time_scale: TimeScale, panel: Panel, glyphs: Glyphs
) -> None:
    """A pattern over the whole height where there is no balance, with the reason as its label."""
    for gap in timeline.gaps:
        first, end = time_scale.column_range(gap.start_s, gap.end_s)
        is_unexplained = gap.reason is DataGapReason.GAP
        pattern, style = (glyphs.gap, "magenta") if is_unexplained else (glyphs.away, _DIM)
        for row in range(panel.top, panel.bottom + 1):
            for column in range(first, end):
                if (column + row) % 2 == 0:
                    sheet.put(column, row, pattern, style)
        _write_centred(sheet, first, end, panel.top + panel.rows // 2, gap_labels(gap))


def _write_centred(sheet: Canvas, first: int, end: int, row: int, texts: Iterable[str]) -> None:
    """The first of these labels that fits into a segment, in its middle, with a blank on both sides."""
    for message in (f" {text} " for text in texts):
        if display_width(message) <= end - first:
            sheet.write(first + (end - first - display_width(message)) // 2, row, message, _BOLD)
            return


def _draw_cone(
    sheet: Canvas, cone: ForecastCone, time_scale: TimeScale, panel: Panel, glyphs: Glyphs
) -> None:
    """What is to come: the estimate between its bounds, and below them what no load can outrun."""
    for column in range(time_scale.column(cone.start_at_s) + 1, time_scale.end_column):
        at_s = sum(time_scale.time_range(column)) / 2
        if cone.estimated_empty_at_s is not None:
            lowest_pct, highest_pct = (
                _projected_balance_pct(cone, cone.earliest_empty_at_s, at_s),
                _projected_balance_pct(cone, cone.latest_empty_at_s, at_s),
            )
            for row in range(panel.top, panel.bottom + 1):
                if lowest_pct <= panel.row_middle(row) <= highest_pct:
                    sheet.put(column, row, glyphs.cone, _FORECAST_STYLE)
            if (estimate_pct := _projected_balance_pct(cone, cone.estimated_empty_at_s, at_s)) > 0:
                sheet.put(column, panel.row(estimate_pct), glyphs.estimate, _FORECAST_STYLE)
        if (
            cone.soonest_empty_at_s is not None
            and (bound_pct := _projected_balance_pct(cone, cone.soonest_empty_at_s, at_s)) > 0
        ):
            sheet.put(column, panel.row(bound_pct), glyphs.bound, _FORECAST_STYLE, overwrite=False)


def _projected_balance_pct(cone: ForecastCone, empty_at_s: float | None, at_s: float) -> float:
    """The balance at an instant on a straight line to empty; unchanged if it will not be empty."""
    if empty_at_s is None:
        return cone.start_pct
    if empty_at_s <= cone.start_at_s:
        return 0.0
    return max(0.0, cone.start_pct * (empty_at_s - at_s) / (empty_at_s - cone.start_at_s))


def _draw_lane(sheet: Canvas, lane: Lane, time_scale: TimeScale, row: int) -> None:
    sheet.write(0, row, lane.label, _BOLD)
    for segment in lane.segments:
        first, end = time_scale.column_range(segment.start_s, segment.end_s)
        style = _SEGMENT_STYLES[segment.style]
        for column in range(first, end):
            sheet.put(column, row, _FILL_CHARACTERS[segment.style], style)
        if segment.style in _BRACKETED and end - first > 1:
            sheet.put(first, row, "[", style)
            sheet.put(end - 1, row, "]", style)
        text_range = (first + 1, end - 1) if segment.style in _BRACKETED else (first, end - 1)
        if text_range[1] - text_range[0] > 1:
            sheet.write(text_range[0], row, fit_text(segment.text, text_range[1] - text_range[0]), style)


def _draw_events(sheet: Canvas, timeline: Timeline, time_scale: TimeScale, row: int) -> None:
    """The letters at their times, none after now; of many at one time those that matter most."""
    sheet.write(0, row, "EVENT", _BOLD)
    event_columns = [time_scale.column(event.at_s) for event in timeline.events]
    for column, event in place_events(
        timeline.events, event_columns, time_scale.first_column, time_scale.column(timeline.now_s) + 1
    ):
        sheet.put(column, row, event.letter, _EMPTY_STYLE if event.letter in _URGENT_LETTERS else _BOLD)


def _draw_load(
    sheet: Canvas, timeline: Timeline, time_scale: TimeScale, panel: Panel, glyphs: Glyphs
) -> None:
    limits = {name: value for limit in timeline.limits for name, value in label_limits(limit).items()}
    busiest = "most metered" if timeline.drawn.is_metered else "busiest"
    line_characters = {"baseline": glyphs.baseline, "burst": glyphs.burst, "provisioned": glyphs.baseline}
    legend = [
        (
            glyphs.bars[-1],
            f"{busiest} in {format_bin_width(time_scale.step_s, timeline.period_s)}",
            _SUSTAINED_STYLE,
        )
    ]
    for name, value in limits.items():
        scale_note = " (off the scale)" if value > panel.max_value else ""
        legend.append((line_characters[name], f"{name} {format_number(value)}{scale_note}", _LIMIT_STYLE))
    _draw_title(sheet, panel.top - 1, timeline.drawn.rate_unit, legend)
    lowest_limit = min(limits.values())
    axis_labels: dict[int, float] = {
        panel.bottom: 0,
        panel.row(lowest_limit): lowest_limit,
        panel.top: panel.max_value,
    }
    for row, value_at_row in axis_labels.items():
        sheet.write(0, row, f"{format_number(value_at_row):>6}", _DIM)

    def style_of(value: float, at_s: float) -> str:
        limit = next((limit for limit in timeline.limits if at_s < limit.end_s), timeline.limits[-1])
        return _BURST_STYLE if value > limit.sustained else _SUSTAINED_STYLE

    _draw_bars(
        sheet, _BarSeries(timeline.served, max, style_of), timeline.period_s, time_scale, panel, glyphs
    )
    for limit in timeline.limits:
        for name, value in label_limits(limit).items():
            if value <= panel.max_value:
                for column in range(*time_scale.column_range(limit.start_s, limit.end_s)):
                    sheet.put(column, panel.row(value), line_characters[name], _LIMIT_STYLE, overwrite=False)


def _draw_now(
    sheet: Canvas, timeline: Timeline, time_scale: TimeScale, panels: Iterable[Panel], glyphs: Glyphs
) -> None:
    column = time_scale.column(timeline.now_s)
    for panel in panels:
        for row in range(panel.top, panel.bottom + 1):
            sheet.put(column, row, glyphs.now, _BOLD)


def _draw_axis(sheet: Canvas, time_scale: TimeScale, glyphs: Glyphs) -> None:
    row = sheet.height - 1
    sheet.write(0, row, "UTC", _BOLD)
    for column, label in time_scale.ticks(_MIN_TICK_COLUMNS):
        if column + 1 + display_width(label) <= sheet.width:
            sheet.write(column, row, f"{glyphs.tick}{label}", _DIM)


def _list_events(bucket_plot: BucketPlot, max_lines: int, width: int) -> list[list[StyledText]]:
    """The legend of the letters, the newest last."""
    timeline = bucket_plot.timeline
    events, omitted = newest_events(timeline.events, max_lines)
    lines = [
        [
            StyledText(f"{format_event_time(event.at_s, timeline)} ", _DIM),
            StyledText(event.letter, _EMPTY_STYLE if event.letter in _URGENT_LETTERS else _BOLD),
            StyledText(f" {truncate(describe_event(event), width - 14)}"),
        ]
        for event in events
    ]
    if omitted:
        text = f"and {omitted} earlier: burstctl history {timeline.drawn.resource_id}"
        lines.insert(0, [StyledText(text, _DIM)])
    return lines

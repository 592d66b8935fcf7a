"""A picture in characters: balance above, operations below, what happened between them, all on one clock."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from burstctl.plot.canvas import Canvas, Glyphs, Run
from burstctl.plot.labels import (
    absence_words,
    bins_words,
    clock_words,
    fan_words,
    fitted,
    limit_words,
    mark_words,
    seen_words,
    some_marks,
    state_words,
)
from burstctl.plot.lanes import Lane, Look, lanes_of
from burstctl.plot.load import Plotted
from burstctl.plot.scales import Clock, Panel, iops_scale, seat, values_in
from burstctl.render.table import STYLES, cut
from burstctl.render.volume import describe_in_a_line
from burstctl.timeline.timeline import AbsenceReason, Chronology, Fan
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.sizing import EMPTY_PCT
from burstwatch.core.text import columns, fill

LEAST_WIDTH: Final = 60
_GUTTER: Final = 7
_LEAST_BALANCE: Final = 6
_LEAST_IOPS: Final = 4
_MOST_CHART: Final = 34
_LEAST_LISTED: Final = 4
_MOST_LISTED: Final = 14
_TICKS_APART: Final = 9
_TITLES: Final = 2
_AXIS: Final = 1
_EIGHTHS: Final = 8

_BOLD: Final = "bold"
_DIM: Final = "dim"
_BALANCE: Final = "cyan"
_DRY: Final = "bold red"
_FORECAST: Final = "yellow"
_WITHIN: Final = "green"
_SPENDING: Final = "magenta"
_LINE: Final = "blue"

_FILLS: Final = {
    Look.OK: ".", Look.WATCH: "-", Look.WARNING: "=", Look.CRITICAL: "#", Look.EXHAUSTED: "@",
    Look.UNKNOWN: " ", Look.LEAVING: ">", Look.AWAY: "-", Look.RETURNING: "<", Look.WINDOW: "=",
    Look.HOLD: "-", Look.STALL: "!",
}  # fmt: skip
_STYLES: Final = {Look(str(level)): style for level, style in STYLES.items()} | {
    Look.LEAVING: "green", Look.AWAY: "bold green", Look.RETURNING: "green", Look.WINDOW: "magenta",
    Look.HOLD: "blue", Look.STALL: "bold red",
}  # fmt: skip
_ENCLOSED: Final = frozenset({Look.WINDOW, Look.HOLD})
_URGENT: Final = frozenset("CEX!S")


@dataclass(frozen=True, slots=True)
class _Bars:
    """A series as bars: of the samples of a column one is chosen, and its value has a style."""

    series: Series
    choose: Callable[[Sequence[float]], float]
    style_of: Callable[[float, float], str]


def draw_text(plotted: Plotted, *, width: int, height: int, glyphs: Glyphs) -> list[list[Run]]:
    """The whole picture as lines; where the terminal is low they are more than its height."""
    this, width = plotted.chronology, max(LEAST_WIDTH, width)
    head, lanes = _head(plotted, width), lanes_of(this)
    rows = height - len(head) - len(lanes) - bool(this.marks) - _TITLES - _AXIS
    listed = min(len(this.marks), max(_LEAST_LISTED, rows // 4), _MOST_LISTED)
    charts = min(_MOST_CHART, max(_LEAST_BALANCE + _LEAST_IOPS, rows - listed))
    sheet = _draw(this, lanes, width=width, charts=charts, glyphs=glyphs)
    lines = [*head, *sheet.lines(), *_list(plotted, listed, width)]
    return [[Run(run.text.replace("…", glyphs.more), run.style) for run in line] for line in lines]


def _head(plotted: Plotted, width: int) -> list[list[Run]]:
    decision = plotted.decision
    style = STYLES[decision.level] if decision else _DIM
    said = ((state_words(plotted), style), (seen_words(plotted), _DIM))
    return [
        [Run(cut(describe_in_a_line(plotted.chronology.volume), width), _BOLD)],
        *([Run(line, style)] for text, style in said for line in fill(text.split(), width)),
    ]


def _draw(this: Chronology, lanes: Sequence[Lane], *, width: int, charts: int, glyphs: Glyphs) -> Canvas:
    balance_rows = max(_LEAST_BALANCE, ceil(0.6 * charts))
    iops_rows = max(_LEAST_IOPS, charts - balance_rows)
    between = len(lanes) + bool(this.marks)
    most = iops_scale(this)
    balance = Panel(1, balance_rows, 100.0)
    iops = Panel(balance_rows + between + _TITLES, iops_rows, most)
    clock = Clock(start_s=this.start_s, end_s=this.end_s, first=_GUTTER, columns=width - _GUTTER)
    sheet = Canvas(width, balance_rows + iops_rows + between + _TITLES + _AXIS)
    _draw_balance(sheet, this, clock, balance, glyphs)
    for row, lane in enumerate(lanes, start=balance.bottom + 1):
        _draw_lane(sheet, lane, clock, row)
    if this.marks:
        _draw_marks(sheet, this, clock, iops.top - _TITLES)
    _draw_iops(sheet, this, clock, iops, glyphs)
    _draw_now(sheet, this, clock, (balance, iops), glyphs)
    _draw_axis(sheet, clock, glyphs)
    return sheet


def _title(sheet: Canvas, row: int, title: str, legend: Iterable[tuple[str, str, str]]) -> None:
    """A panel's name, and what each of its characters stands for, as far as there is room."""
    sheet.write(0, row, title, _BOLD)
    column = _GUTTER + 1
    for glyph, means, style in legend:
        end = column + columns(f"{glyph} {means}")
        if end > sheet.width:
            return
        sheet.write(column, row, glyph, style)
        sheet.write(column + 2, row, means, _DIM)
        column = end + 2


def _draw_balance(sheet: Canvas, this: Chronology, clock: Clock, panel: Panel, glyphs: Glyphs) -> None:
    legend = [(glyphs.bars[-1], f"lowest in {bins_words(clock.step_s, this.period_s)}", _BALANCE)]
    fan = this.fan
    if fan is not None and fan.about_s is not None:
        legend += [(glyphs.about, "forecast", _FORECAST), (glyphs.fan, "its bounds", _FORECAST)]
    if fan is not None and fan.soonest_s is not None:
        legend.append((glyphs.bound, "not before", _FORECAST))
    _title(sheet, panel.top - 1, "BALANCE", legend)
    for row, label in ((panel.top, "100 %"), (panel.row(50), " 50 %"), (panel.bottom, "  0 %")):
        sheet.write(1, row, label, _DIM)
    _draw_absences(sheet, this, clock, panel, glyphs)
    _draw_bars(sheet, _Bars(this.balance, min, _balance_style), this.period_s, clock, panel, glyphs)
    if fan is not None:
        _draw_fan(sheet, fan, clock, panel, glyphs)
        _write_beside(sheet, clock.column(this.now_s) + 2, panel, fan_words(this))


def _write_beside(sheet: Canvas, column: int, panel: Panel, lines: Sequence[str]) -> None:
    """Lines from the top on, where all of them find free room."""
    rows = range(panel.top, panel.top + len(lines))
    ends = [column + columns(line) for line in lines]
    if all(
        end <= sheet.width and row <= panel.bottom and sheet.is_free(column - 1, end, row)
        for row, end in zip(rows, ends, strict=True)
    ):
        for row, line in zip(rows, lines, strict=True):
            sheet.write(column, row, line, _FORECAST)


def _balance_style(value: float, _at_s: float) -> str:
    return _DRY if value <= EMPTY_PCT else _BALANCE


def _draw_bars(sheet: Canvas, bars: _Bars, period_s: int, clock: Clock, panel: Panel, glyphs: Glyphs) -> None:
    """A bar in each column that there is a sample for; even one of nothing is to be seen."""
    for column in range(clock.first, clock.end):
        from_s, to_s = clock.span(column)
        values = values_in(bars.series, from_s, to_s, period_s)
        if not values:
            continue
        value = bars.choose(values)
        style = bars.style_of(value, from_s)
        left = max(1, round(value / panel.most * panel.rows * _EIGHTHS))
        for row in range(panel.bottom, panel.top - 1, -1):
            if left <= 0:
                break
            sheet.put(column, row, glyphs.bars[min(_EIGHTHS, left)], style)
            left -= _EIGHTHS


def _draw_absences(sheet: Canvas, this: Chronology, clock: Clock, panel: Panel, glyphs: Glyphs) -> None:
    """A pattern over the whole height where there is no balance, with the reason in it."""
    for absence in this.absences:
        first, end = clock.within(absence.start_s, absence.end_s)
        is_gap = absence.reason is AbsenceReason.GAP
        pattern, style = (glyphs.gap, "magenta") if is_gap else (glyphs.away, _DIM)
        for row in range(panel.top, panel.bottom + 1):
            for column in range(first, end):
                if (column + row) % 2 == 0:
                    sheet.put(column, row, pattern, style)
        _write_inside(sheet, first, end, panel.top + panel.rows // 2, absence_words(absence))


def _write_inside(sheet: Canvas, first: int, end: int, row: int, texts: Iterable[str]) -> None:
    """The first of these words that fit into a stretch, in its middle, with a blank around them."""
    for said in (f" {text} " for text in texts):
        if columns(said) <= end - first:
            sheet.write(first + (end - first - columns(said)) // 2, row, said, _BOLD)
            return


def _draw_fan(sheet: Canvas, fan: Fan, clock: Clock, panel: Panel, glyphs: Glyphs) -> None:
    """What is to come: the estimate between its bounds, and below them what no load can outrun."""
    for column in range(clock.column(fan.from_s) + 1, clock.end):
        at_s = sum(clock.span(column)) / 2
        if fan.about_s is not None:
            least, most = _left(fan, fan.earliest_s, at_s), _left(fan, fan.latest_s, at_s)
            for row in range(panel.top, panel.bottom + 1):
                if least <= panel.middle(row) <= most:
                    sheet.put(column, row, glyphs.fan, _FORECAST)
            if (about := _left(fan, fan.about_s, at_s)) > 0:
                sheet.put(column, panel.row(about), glyphs.about, _FORECAST)
        if fan.soonest_s is not None and (bound := _left(fan, fan.soonest_s, at_s)) > 0:
            sheet.put(column, panel.row(bound), glyphs.bound, _FORECAST, over=False)


def _left(fan: Fan, empty_s: float | None, at_s: float) -> float:
    """The balance at an instant on the straight way to empty; as it is, where that is nowhere in sight."""
    if empty_s is None:
        return fan.from_pct
    if empty_s <= fan.from_s:
        return 0.0
    return max(0.0, fan.from_pct * (empty_s - at_s) / (empty_s - fan.from_s))


def _draw_lane(sheet: Canvas, lane: Lane, clock: Clock, row: int) -> None:
    sheet.write(0, row, lane.label, _BOLD)
    for segment in lane.segments:
        first, end = clock.within(segment.start_s, segment.end_s)
        style = _STYLES[segment.look]
        for column in range(first, end):
            sheet.put(column, row, _FILLS[segment.look], style)
        if segment.look in _ENCLOSED and end - first > 1:
            sheet.put(first, row, "[", style)
            sheet.put(end - 1, row, "]", style)
        inner = (first + 1, end - 1) if segment.look in _ENCLOSED else (first, end - 1)
        if inner[1] - inner[0] > 1:
            sheet.write(inner[0], row, fitted(segment.text, inner[1] - inner[0]), style)


def _draw_marks(sheet: Canvas, this: Chronology, clock: Clock, row: int) -> None:
    """The letters at their times, none after now; of many at one time those that matter most."""
    sheet.write(0, row, "EVENT", _BOLD)
    columns_of = [clock.column(mark.at_s) for mark in this.marks]
    for column, mark in seat(this.marks, columns_of, clock.first, clock.column(this.now_s) + 1):
        sheet.put(column, row, mark.letter, _DRY if mark.letter in _URGENT else _BOLD)


def _draw_iops(sheet: Canvas, this: Chronology, clock: Clock, panel: Panel, glyphs: Glyphs) -> None:
    named = {name: value for limit in this.limits for name, value in limit_words(limit).items()}
    lines = {"baseline": glyphs.baseline, "burst": glyphs.burst, "provisioned": glyphs.baseline}
    legend = [(glyphs.bars[-1], f"busiest in {bins_words(clock.step_s, this.period_s)}", _WITHIN)]
    for name, value in named.items():
        is_off = " (off the scale)" if value > panel.most else ""
        legend.append((lines[name], f"{name} {value:,}{is_off}", _LINE))
    _title(sheet, panel.top - 1, "IOPS", legend)
    least = min(named.values())
    marked: dict[int, float] = {panel.bottom: 0, panel.row(least): least, panel.top: panel.most}
    for row, reached in marked.items():
        sheet.write(0, row, f"{reached:6,.0f}", _DIM)

    def style_of(value: float, at_s: float) -> str:
        limit = next((limit for limit in this.limits if at_s < limit.end_s), this.limits[-1])
        return _SPENDING if value > limit.sustained_iops else _WITHIN

    _draw_bars(sheet, _Bars(this.served, max, style_of), this.period_s, clock, panel, glyphs)
    for limit in this.limits:
        for name, value in limit_words(limit).items():
            if value <= panel.most:
                for column in range(*clock.within(limit.start_s, limit.end_s)):
                    sheet.put(column, panel.row(value), lines[name], _LINE, over=False)


def _draw_now(sheet: Canvas, this: Chronology, clock: Clock, panels: Iterable[Panel], glyphs: Glyphs) -> None:
    column = clock.column(this.now_s)
    for panel in panels:
        for row in range(panel.top, panel.bottom + 1):
            sheet.put(column, row, glyphs.now, _BOLD)


def _draw_axis(sheet: Canvas, clock: Clock, glyphs: Glyphs) -> None:
    row = sheet.height - 1
    sheet.write(0, row, "UTC", _BOLD)
    for column, label in clock.ticks(_TICKS_APART):
        if column + 1 + columns(label) <= sheet.width:
            sheet.write(column, row, f"{glyphs.tick}{label}", _DIM)


def _list(plotted: Plotted, room: int, width: int) -> list[list[Run]]:
    """What the letters stand for, the newest last."""
    this = plotted.chronology
    marks, earlier = some_marks(this.marks, room)
    lines = [
        [
            Run(f"{clock_words(mark.at_s, this)} ", _DIM),
            Run(mark.letter, _DRY if mark.letter in _URGENT else _BOLD),
            Run(f" {cut(mark_words(mark), width - 14)}"),
        ]
        for mark in marks
    ]
    if earlier:
        said = f"and {earlier} earlier: burstctl history {this.volume.volume_id}"
        lines.insert(0, [Run(said, _DIM)])
    return lines

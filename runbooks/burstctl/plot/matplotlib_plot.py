"""A picture as PNG or SVG, with matplotlib: the only module that imports it, and itself imported when needed.

Lines say what they are where they end, and patterns and letters say what colours say: the picture reads in
grey, and to those who see other colours.
"""

import io
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import matplotlib as mpl
from matplotlib import dates as mdates
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

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
from burstctl.plot.lanes import Lane, Look, Segment, lanes_of
from burstctl.plot.load import Plotted
from burstctl.plot.scales import iops_scale, seat
from burstctl.render.volume import describe_in_a_line
from burstctl.timeline.intervals import Mark, MarkKind
from burstctl.timeline.timeline import Absence, AbsenceReason, Chronology, Fan, condense, unbroken
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.sizing import EMPTY_PCT
from burstwatch.core.text import format_clock

INK: Final = "#1b1f24"
FAINT: Final = "#5a636e"
GRID: Final = "#dfe3e8"
BALANCE: Final = "#0072b2"
WRITES: Final = "#56b4e9"
READS: Final = "#00405f"
FORECAST: Final = "#b35c00"
FAN: Final = "#f2b45c"
DRY: Final = "#b3261e"
AWAY: Final = "#00795a"
WINDOW: Final = "#6a4c93"
HOLD: Final = "#41525f"

_WIDTH: Final = 11.5
_LEFT: Final = 0.72
_RIGHT: Final = 1.3
_HEADER: Final = 0.92
_BALANCE: Final = 2.75
_IOPS: Final = 1.75
_TITLE: Final = 0.27
_NOW: Final = 0.14
_LANE: Final = 0.235
_AXIS: Final = 0.36
_LINE: Final = 0.185
_DOTS_PER_INCH: Final = 150
_MOST_POINTS: Final = 1500
_MOST_OUTLINED: Final = 700
_MOST_LISTED: Final = 16
_LEAST_LETTERS_APART: Final = 0.19
_LETTER_WIDTH: Final = 0.075
"""Inches: of a picture's parts, of letters on the lane of events, and of one letter of small print."""

_LOOKS: Final[dict[Look, dict[str, Any]]] = {
    Look.OK: {"fc": "#eef4ef"},
    Look.WATCH: {"fc": "#cfe3f2"},
    Look.WARNING: {"fc": "#f6cd7f", "hatch": "//", "ec": "#b8650f"},
    Look.CRITICAL: {"fc": "#f2a49b", "hatch": "xx", "ec": DRY},
    Look.EXHAUSTED: {"fc": "#5c1010", "color": "white"},
    Look.UNKNOWN: {"fc": "white", "hatch": "..", "ec": "#b8bec6"},
    Look.LEAVING: {"fc": "white", "hatch": "....", "ec": "#7fb9a5"},
    Look.AWAY: {"fc": "#bfe3d6"},
    Look.RETURNING: {"fc": "white", "hatch": "....", "ec": "#7fb9a5"},
    Look.WINDOW: {"fc": WINDOW, "color": "white"},
    Look.HOLD: {"fc": "white", "hatch": "\\\\", "ec": "#aab4bd"},
    Look.STALL: {"fc": DRY, "color": "white"},
}
_MARK_COLOURS: Final = {
    MarkKind.WARNING: "#9a5200",
    MarkKind.CRITICAL: DRY,
    MarkKind.EXHAUSTED: "#5c1010",
    MarkKind.RECOVERED: AWAY,
    MarkKind.FLIPPED: AWAY,
    MarkKind.ON_TARGET: AWAY,
    MarkKind.FLIPPED_BACK: AWAY,
    MarkKind.RESTORED: AWAY,
    MarkKind.REFUSED: DRY,
    MarkKind.FAILED: DRY,
    MarkKind.STALL: DRY,
    MarkKind.CHANGED_BY_OTHERS: WINDOW,
}
_STYLE: Final = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.linewidth": 0.7,
    "hatch.linewidth": 0.6,
    "svg.fonttype": "path",
    "svg.hashsalt": "burstwatch",
    "text.parse_math": False,
}


def draw(plotted: Plotted, kind: str) -> bytes:
    """The picture as the bytes of a file, ``png`` or ``svg``; the same values give the same bytes."""
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _file(_figure(plotted), kind, plotted)


def _file(figure: Figure, kind: str, plotted: Plotted) -> bytes:
    said = _shown(
        f"{describe_in_a_line(plotted.chronology.volume)}. {state_words(plotted)}. {seen_words(plotted)}."
    )
    metadata = (
        {"Title": said, "Software": None} if kind == "png" else {"Title": said, "Date": None, "Creator": None}
    )
    written = io.BytesIO()
    figure.savefig(written, format=kind, dpi=_DOTS_PER_INCH, metadata=metadata)
    return written.getvalue()


class _Sheet:
    """The figure, filled from the top down with axes that share one clock."""

    def __init__(self, this: Chronology, height: float) -> None:
        self.figure = Figure(figsize=(_WIDTH, height), facecolor="white")
        self.this = this
        self.height = height
        self._down = 0.0

    @property
    def inches(self) -> float:
        """How wide the axes are."""
        return _WIDTH - _LEFT - _RIGHT

    def skip(self, inches: float) -> None:
        self._down += inches

    def axes(self, inches: float) -> Any:
        """The next axes, so high."""
        self._down += inches
        box = (_LEFT / _WIDTH, 1 - self._down / self.height, self.inches / _WIDTH, inches / self.height)
        axes: Any = self.figure.add_axes(box)
        axes.set_xlim(_at(self.this.start_s), _at(self.this.end_s))
        return axes

    def write(self, text: str, *, left: float = 0.14, below: float = 0.0, **style: Any) -> None:
        """A line of text, its middle so many inches below what was drawn so far."""
        y = 1 - (self._down + below) / self.height
        self.figure.text(left / _WIDTH, y, _shown(text), va="center", **({"color": INK} | style))

    def inches_at(self, at_s: float) -> float:
        """How far from the axes' left edge an instant lies."""
        return self.inches * (at_s - self.this.start_s) / (self.this.end_s - self.this.start_s)

    def instant(self, inches: float) -> float:
        """The inverse of ``inches_at``."""
        return self.this.start_s + inches / self.inches * (self.this.end_s - self.this.start_s)


def _figure(plotted: Plotted) -> Figure:
    this = plotted.chronology
    lanes = lanes_of(this)
    marks, earlier = some_marks(this.marks, _MOST_LISTED)
    rows = -(-(len(marks) + bool(earlier)) // 2)
    lane_inches = _LANE * (len(lanes) + bool(this.marks))
    height = _HEADER + 2 * _TITLE + _NOW + _BALANCE + lane_inches + 0.1 + _IOPS + _AXIS + _LINE * (rows + 0.6)
    sheet = _Sheet(this, height)
    _draw_header(sheet, plotted)
    balance, iops = _draw_panels(sheet, this, lanes)
    for mark in this.marks:
        for axes in (balance, iops):
            axes.axvline(_at(mark.at_s), color=FAINT, lw=0.5, ls=(0, (1, 2)), zorder=1.5)
    _list_marks(sheet, this, marks, earlier)
    return sheet.figure


def _draw_header(sheet: _Sheet, plotted: Plotted) -> None:
    level = str(plotted.decision.level) if plotted.decision else ""
    is_urgent = level in (Look.WARNING, Look.CRITICAL, Look.EXHAUSTED)
    sheet.write(_cut(describe_in_a_line(sheet.this.volume), 92), below=0.24, fontsize=12.5, weight="bold")
    state = _cut(state_words(plotted), 118)
    sheet.write(state, below=0.50, fontsize=11.5, color=DRY if is_urgent else INK)
    sheet.write(f"{seen_words(plotted)}; times are UTC", below=0.73, fontsize=9.5, color=FAINT)
    sheet.skip(_HEADER)


def _draw_panels(sheet: _Sheet, this: Chronology, lanes: Sequence[Lane]) -> tuple[Any, Any]:
    step_s = _step_s(this)
    sheet.skip(_TITLE + _NOW)
    balance = sheet.axes(_BALANCE)
    _dress(balance)
    _draw_balance(balance, sheet, this, step_s)
    for lane in lanes:
        _draw_lane(sheet, lane)
    if this.marks:
        _draw_letters(sheet, this)
    sheet.skip(_TITLE + 0.1)
    iops = sheet.axes(_IOPS)
    _dress(iops)
    _draw_iops(iops, this, step_s)
    _show_clock(iops, this)
    for axes in (balance, iops):
        axes.axvline(_at(this.now_s), color=INK, lw=1.1)
    balance.annotate(
        f"now {format_clock(this.now_s)}", (_at(this.now_s), 1), xycoords=("data", "axes fraction"),
        xytext=(0, 3), textcoords="offset points", ha="center", fontsize=8.5, color=INK,
    )  # fmt: skip
    return balance, iops


def _at(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def _step_s(this: Chronology) -> int:
    """How long a point of the picture is: a period, or several where there would be too many."""
    periods = (this.now_s - this.start_s) / this.period_s
    return this.period_s * max(1, -(-int(periods) // _MOST_POINTS))


def _dress(axes: Any) -> None:
    axes.grid(color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelbottom=False, bottom=False, left=False, labelsize=8.5, labelcolor=FAINT, pad=3)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#9aa2ac")
    axes.xaxis.set_major_locator(mdates.AutoDateLocator(tz=UTC, minticks=5, maxticks=12))


def _show_clock(axes: Any, this: Chronology) -> None:
    formatter = mdates.ConciseDateFormatter(
        axes.xaxis.get_major_locator(),
        tz=UTC,
        formats=["%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%S"],
        zero_formats=["", "%Y", "%b", "%d %b", "%H:%M", "%H:%M"],
        show_offset=False,
    )
    axes.xaxis.set_major_formatter(formatter)
    axes.tick_params(axis="x", labelbottom=True, labelsize=9.5, labelcolor=INK)
    day = _at(this.now_s).strftime("%d %b %Y")
    axes.annotate(
        f"{day}\nUTC", (1, 0), xycoords="axes fraction", xytext=(24, -4), textcoords="offset points",
        va="top", fontsize=8.5, color=FAINT,
    )  # fmt: skip


def _draw_balance(axes: Any, sheet: _Sheet, this: Chronology, step_s: int) -> None:
    axes.set_ylim(0, 104)
    axes.set_yticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
    handles: list[Any] = [
        Line2D([], [], color=BALANCE, lw=1.8, label=f"burst balance, lowest in {bins_words(step_s, step_s)}")
    ]
    for absence in this.absences:
        _draw_absence(axes, sheet, absence)
    seen = condense(this.balance, step_s, min)
    for piece in unbroken(seen, step_s):
        times = [_at(start_s + step_s / 2) for start_s in piece.starts_s]
        marker = "o" if len(piece) == 1 else ""
        axes.fill_between(times, piece.values, color=BALANCE, alpha=0.18, lw=0)
        axes.plot(times, piece.values, color=BALANCE, lw=1.8, marker=marker, ms=3, solid_joinstyle="round")
    if _draw_dry(axes, seen, step_s):
        handles.append(Patch(fc="#fae3e3", ec="#d08a84", hatch="xx", lw=0, label="empty"))
    if this.fan is not None:
        handles += _draw_fan(axes, this, this.fan)
    _legend(axes, "BALANCE", handles, above=0.995 + _NOW / _BALANCE)


def _draw_dry(axes: Any, seen: Series, step_s: int) -> bool:
    """A pattern over the whole height where the bucket was empty, and whether it ever was."""
    pairs = zip(seen.starts_s, seen.values, strict=True)
    dry = Series.of((start_s, pct) for start_s, pct in pairs if pct <= EMPTY_PCT)
    for piece in unbroken(dry, step_s):
        ends_s = piece.starts_s[-1] + step_s
        axes.axvspan(_at(piece.starts_s[0]), _at(ends_s), fc="#fae3e3", ec="#d08a84", hatch="xx", lw=0)
    return bool(dry)


def _draw_absence(axes: Any, sheet: _Sheet, absence: Absence) -> None:
    is_gap = absence.reason is AbsenceReason.GAP
    style = (
        {"fc": "white", "ec": "#b8bec6", "hatch": "////"} if is_gap else {"fc": "#eaf3ef", "ec": "#eaf3ef"}
    )
    axes.axvspan(_at(absence.start_s), _at(absence.end_s), lw=0, zorder=0.6, **style)
    room = sheet.inches_at(absence.end_s) - sheet.inches_at(absence.start_s)
    words = next((w for w in absence_words(absence) if len(w) * _LETTER_WIDTH + 0.1 <= room), None)
    if words is not None:
        axes.text(
            _at((absence.start_s + absence.end_s) / 2), 52, words, ha="center", va="center", fontsize=9,
            color=INK, bbox={"fc": "white", "ec": "none", "alpha": 0.85, "pad": 1.5},
        )  # fmt: skip


def _draw_fan(axes: Any, this: Chronology, fan: Fan) -> list[Any]:
    """What is to come, from the newest datapoint on; the legend of it."""
    handles: list[Any] = []
    start_at, end_at = _at(fan.from_s), _at(this.end_s)
    if fan.about_s is not None and fan.earliest_s is not None:
        late_s = fan.latest_s
        edge = [(start_at, fan.from_pct), (_at(fan.earliest_s), 0.0)]
        edge += [(_at(late_s), 0.0)] if late_s is not None else [(end_at, 0.0), (end_at, fan.from_pct)]
        axes.fill(*zip(*edge, strict=True), fc=FAN, alpha=0.45, ec=FORECAST, lw=0.6, hatch="||")
        axes.plot([start_at, _at(fan.about_s)], [fan.from_pct, 0], color=FORECAST, lw=1.9, ls=(0, (4, 1.5)))
        if fan.about_s < this.end_s:
            axes.plot(_at(fan.about_s), 0, marker="o", color=FORECAST, ms=6, clip_on=False, zorder=5)
        handles += [
            Line2D([], [], color=FORECAST, lw=1.9, ls=(0, (4, 1.5)), marker="o", ms=5, label="forecast"),
            Patch(
                fc=FAN, alpha=0.45, ec=FORECAST, hatch="||", lw=0.6, label="from its earliest to its latest"
            ),
        ]
    if fan.soonest_s is not None:
        axes.plot([start_at, _at(fan.soonest_s)], [fan.from_pct, 0], color=INK, lw=1.1, ls=(0, (1, 1.6)))
        handles.append(Line2D([], [], color=INK, lw=1.1, ls=(0, (1, 1.6)), label="not before: full burst"))
    axes.text(
        1.01, 0.97, "\n".join(fan_words(this)), transform=axes.transAxes, va="top", fontsize=10,
        color=FORECAST, weight="bold", linespacing=1.3,
    )  # fmt: skip
    axes.annotate(
        f"{fan.from_pct:.1f} %", (start_at, fan.from_pct), xytext=(9, 5), textcoords="offset points",
        fontsize=10, weight="bold", color=BALANCE, bbox={"fc": "white", "ec": "none", "alpha": 0.7, "pad": 1},
    )  # fmt: skip
    return handles


def _legend(axes: Any, title: str, handles: Sequence[Any], *, above: float = 0.995) -> None:
    """The panel's name over its upper left corner, and beside it what the lines and patterns stand for."""
    axes.annotate(
        title, (0, above), xycoords="axes fraction", xytext=(-_LEFT * 72 + 10, 8), textcoords="offset points",
        fontsize=9, weight="bold", color=INK,
    )  # fmt: skip
    axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.022, above), ncols=len(handles), frameon=False,
        fontsize=8.5, handlelength=2.2, columnspacing=1.5, borderaxespad=0.2, labelcolor=FAINT,
    )  # fmt: skip


def _draw_lane(sheet: _Sheet, lane: Lane) -> None:
    axes = _lane_axes(sheet, lane.label)
    for segment in lane.segments:
        _draw_segment(axes, sheet, segment)


def _lane_axes(sheet: _Sheet, label: str) -> Any:
    axes = sheet.axes(_LANE)
    axes.set_axis_off()
    axes.set_ylim(0, 1)
    axes.annotate(
        label, (0, 0.5), xycoords="axes fraction", xytext=(-_LEFT * 72 + 10, 0), textcoords="offset points",
        va="center", fontsize=8, weight="bold", color=INK,
    )  # fmt: skip
    axes.axvline(_at(sheet.this.now_s), color=INK, lw=1.1)
    return axes


def _draw_segment(axes: Any, sheet: _Sheet, segment: Segment) -> None:
    start_s, end_s = max(segment.start_s, sheet.this.start_s), min(segment.end_s, sheet.this.end_s)
    if end_s < start_s:
        return
    room = sheet.inches_at(end_s) - sheet.inches_at(start_s)
    end_s = max(end_s, sheet.instant(sheet.inches_at(start_s) + 0.03))
    style = dict(_LOOKS[segment.look])
    colour = style.pop("color", INK)
    axes.axvspan(_at(start_s), _at(end_s), 0.1, 0.9, lw=0, **style)
    letters = int((room - 0.06) / _LETTER_WIDTH)
    if letters >= min(3, len(segment.text)):
        has_hatch = {"fc": style["fc"], "ec": "none", "alpha": 0.9, "pad": 0.8} if "hatch" in style else None
        axes.annotate(
            _shown(fitted(segment.text, letters)), (_at(start_s), 0.48), xytext=(3, 0),
            textcoords="offset points", va="center", fontsize=8, color=colour, bbox=has_hatch,
        )  # fmt: skip


def _draw_letters(sheet: _Sheet, this: Chronology) -> None:
    """A letter for each event as near to its time as there is room; filled where people were told."""
    axes = _lane_axes(sheet, "EVENT")
    last, beside = divmod(sheet.inches_at(this.now_s), _LEAST_LETTERS_APART)
    seats = [round((sheet.inches_at(mark.at_s) - beside) / _LEAST_LETTERS_APART) for mark in this.marks]
    seated = seat(this.marks, seats, 0, int(last) + 1)
    taken = {number for number, _ in seated}
    for number, mark in seated:
        is_alone = not taken & {number - 1, number + 1}
        inches = beside + number * _LEAST_LETTERS_APART
        _draw_letter(axes, _at(mark.at_s) if is_alone else _at(sheet.instant(inches)), mark)


def _draw_letter(axes: Any, at: datetime, mark: Mark) -> None:
    colour = _MARK_COLOURS.get(mark.kind, HOLD)
    axes.text(
        at, 0.46, mark.letter, ha="center", va="center", fontsize=7.5, weight="bold",
        color="white" if mark.is_told else colour,
        bbox={"boxstyle": "circle,pad=0.22", "fc": colour if mark.is_told else "white", "ec": colour},
    )  # fmt: skip


def _draw_iops(axes: Any, this: Chronology, step_s: int) -> None:
    most = iops_scale(this)
    axes.set_ylim(0, 1.06 * most)
    axes.yaxis.set_major_locator(mpl.ticker.MaxNLocator(4, steps=[1, 2, 2.5, 5, 10], integer=True))
    axes.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    reads, served = (condense(series, step_s, max) for series in (this.reads, this.served))
    for series, style in ((served, {"fc": WRITES, "ec": "none"}), (reads, {"fc": READS, "ec": "none"})):
        for piece in unbroken(series, step_s):
            times = [_at(at_s) for at_s in (*piece.starts_s, piece.starts_s[-1] + step_s)]
            values = [*piece.values, piece.values[-1]]
            axes.fill_between(times, values, step="post", lw=0, **style)
    for piece in unbroken(served, step_s):
        times = [_at(at_s) for at_s in (*piece.starts_s, piece.starts_s[-1] + step_s)]
        values, width = [*piece.values, piece.values[-1]], 0.8 if len(served) <= _MOST_OUTLINED else 0.25
        axes.plot(times, values, drawstyle="steps-post", color=INK, lw=width)
    _draw_limits(axes, this, most)
    _legend(
        axes,
        "IOPS",
        [
            Patch(fc=READS, label=f"reads a second, busiest in {bins_words(step_s, step_s)}"),
            Patch(fc=WRITES, label="writes on top"),
            Line2D([], [], color=INK, lw=0.8, label="served in all"),
        ],
    )


def _draw_limits(axes: Any, this: Chronology, most: float) -> None:
    for limit in this.limits:
        for name, value in limit_words(limit).items():
            if value <= most:
                span, dashes = [_at(limit.start_s), _at(limit.end_s)], (0, (5, 2)) if name == "burst" else "-"
                axes.plot(span, [value] * 2, color="white", lw=2.4, ls=dashes)
                axes.plot(span, [value] * 2, color=DRY, lw=1.2, ls=dashes)
    last = limit_words(this.limits[-1])
    for name, value in last.items():
        is_off = value > most
        axes.annotate(
            f"{name} {value:,}" + ("\n(off the scale)" if is_off else ""), (1, min(value, most)),
            xycoords=("axes fraction", "data"), xytext=(6, 0), textcoords="offset points",
            va="top" if is_off else "center", fontsize=9, color=DRY,
        )  # fmt: skip
    for name, value in limit_words(this.limits[0]).items():
        if name not in last and value <= most:
            axes.annotate(
                f"{name} {value:,}", (_at(this.limits[0].start_s), value),
                xytext=(3, -11 if name == "burst" else 3), textcoords="offset points", fontsize=8.5,
                color=DRY,
            )  # fmt: skip


def _list_marks(sheet: _Sheet, this: Chronology, marks: Sequence[Mark], earlier: int) -> None:
    """What the letters stand for, in two columns."""
    lines = [f"{earlier} earlier: burstctl history {this.volume.volume_id}"] if earlier else []
    lines += [f"{clock_words(mark.at_s, this)}  {mark.letter}  {mark_words(mark)}" for mark in marks]
    rows = -(-len(lines) // 2)
    sheet.skip(_AXIS)
    for number, line in enumerate(lines):
        column, row = divmod(number, rows)
        left = _LEFT + column * (_WIDTH - _LEFT) / 2
        sheet.write(_cut(line, 78), left=left, below=_LINE * (row + 0.5), fontsize=8.5, color=INK)


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: max(0, letters - 1)].rstrip() + "…"


def _shown(text: str) -> str:
    """The text with a box for each character that the font does not have."""
    return "".join(c if ord(c) in _known_characters() else "\N{WHITE SQUARE}" for c in text)


@lru_cache(maxsize=1)
def _known_characters() -> frozenset[int]:
    font = font_manager.get_font(font_manager.findfont("DejaVu Sans"))
    return frozenset(font.get_charmap())

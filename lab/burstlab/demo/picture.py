"""The picture of a demo: a row for each volume, all on one clock."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib import dates as mdates
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from burstlab.demo.activity import Trip, is_about_type
from burstlab.demo.run import Life, Moment, Role
from burstlab.demo.scenario import STARTS_AT
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.volume import baseline_iops
from burstwatch.core.ledger.ledger import EntryKind, LedgerEntry
from burstwatch.core.policy.windows import Windows, occurrences
from burstwatch.core.text import format_clock, format_duration

INK: Final = "#1b1f24"
FAINT: Final = "#6b7480"
BALANCE: Final = "#1f6fb2"
SERVED: Final = "#14532d"
DEMAND: Final = "#c3c8cf"
DRY: Final = "#c62828"
TARGET: Final = "#2e7d32"
UNDER_WAY: Final = "#7fa983"
WINDOW: Final = "#5b3f8c"

_EMPTY: Final[dict[str, Any]] = {"fc": "#fae3e3", "ec": "#dfa0a0", "hatch": "xx", "lw": 0}

_WIDTH: Final = 11.5
_ROW: Final = 1.07
_HEADER: Final = 0.98
_FOOTER: Final = 1.02
_LEFT: Final = 0.192
_RIGHT: Final = 0.826
_MARGIN: Final = 0.010
_ACTIONS: Final = 118
_LETTERS: Final = 164
_TOP: Final = 182
"""On the balance's scale: what was done and which levels there were stand in two lanes above 100 %."""

_APART_S: Final = 540
"""Letters that would cover each other are drawn so far apart."""

# Letters and shapes as well as colours: the picture must read in black and white.
_LEVELS: Final = {
    Level.WARNING: ("W", "#b8650f"),
    Level.CRITICAL: ("C", DRY),
    Level.EXHAUSTED: ("E", "#5c1010"),
}
_TOLD: Final = {AlertKind.RECOVERED: ("R", TARGET), AlertKind.TELEMETRY_GAP: ("?", FAINT)}


def draw(roles: Sequence[Role], windows: Windows, path: Path) -> None:
    """Write the picture as a PNG."""
    height = _HEADER + _ROW * len(roles) + _FOOTER
    with mpl.rc_context({"font.size": 9, "hatch.linewidth": 0.7, "axes.linewidth": 0.6}):
        figure = Figure(figsize=(_WIDTH, height), dpi=120, facecolor="white")
        _draw_header(figure, roles, height)
        panels = [
            _draw_row(figure, role, windows, top=1 - (_HEADER + _ROW * number) / height, row=_ROW / height)
            for number, role in enumerate(roles)
        ]
        _show_clock(panels[0][0], "top")
        _show_clock(panels[-1][1], "bottom")
        _draw_legend(figure)
        figure.savefig(path, pil_kwargs={"optimize": True})


def _draw_header(figure: Any, roles: Sequence[Role], height: float) -> None:
    lives, alone = [role.life for role in roles], [role.alone for role in roles]
    away = [role for role in roles if role.trips]
    saved = sum(role.alone.dry_at_s is not None and role.life.dry_at_s is None for role in away)
    usd = sum(life.usd_more() for life in lives)
    first = f"{len(lives[0].moments) / 60:g} hours of {len(roles)} gp2 volumes: {len(away)} were flipped"
    second = f"They stalled for {_stalled(lives)} in all; left alone it would have been {_stalled(alone)}."
    cost = f"The flips cost ${abs(usd):.2f} {'more' if usd >= 0 else 'less'} than gp2."
    for inches, text, style in (
        (0.24, f"{first}, which kept {saved} from running dry", {"fontsize": 14.5, "weight": "bold"}),
        (0.52, f"{second} {cost}", {"fontsize": 11}),
    ):
        figure.text(_MARGIN, 1 - inches / height, text, color=INK, va="center", **style)


def _stalled(lives: Iterable[Life]) -> str:
    return format_duration(sum(life.stalled_s for life in lives))


def _draw_row(figure: Any, role: Role, windows: Windows, *, top: float, row: float) -> tuple[Any, Any]:
    width = _RIGHT - _LEFT
    balance = figure.add_axes((_LEFT, top - 0.62 * row, width, 0.60 * row))
    iops = figure.add_axes((_LEFT, top - 0.94 * row, width, 0.28 * row), sharex=balance)
    times = [_at(moment.at_s) for moment in role.life.moments]
    for axes in (balance, iops):
        _dress(axes, times[-1])
        for trip in role.trips:
            _shade(axes, trip, times[-1])
    _draw_balance(balance, role, times)
    _draw_iops(iops, role, times)
    _draw_windows((balance, iops), role, windows)
    for trip in role.trips:
        _draw_trip(balance, role, trip)
    _draw_marks(balance, role)
    _tell(figure, role, top=top, row=row)
    return balance, iops


def _at(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, tz=UTC)


def _dress(axes: Any, ends_at: datetime) -> None:
    axes.set_xlim(STARTS_AT, ends_at)
    axes.xaxis.set_major_locator(mdates.HourLocator())
    axes.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M", tz=UTC))
    axes.grid(axis="x", color="#dfe3e8", lw=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelbottom=False, bottom=False, left=False, pad=3, labelsize=8, labelcolor=FAINT)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#9aa2ac")


def _show_clock(axes: Any, side: str) -> None:
    axes.tick_params(axis="x", labelsize=10, labelcolor=INK, **{f"label{side}": True})


def _shade(axes: Any, trip: Trip, ends_at: datetime) -> None:
    """What was on its way, there or back, and what was on its target."""
    reached_at = _at(trip.reached_at_s) if trip.reached_at_s else ends_at
    back_at = _at(trip.back_at_s) if trip.back_at_s else ends_at
    restored_at = _at(trip.restored_at_s) if trip.restored_at_s else ends_at
    axes.axvspan(reached_at, back_at, color=TARGET, alpha=0.17, lw=0)
    for from_at, to_at in ((_at(trip.asked_at_s), reached_at), (back_at, restored_at)):
        axes.axvspan(from_at, to_at, fc="white", ec=UNDER_WAY, hatch="....", lw=0)


def _draw_balance(axes: Any, role: Role, times: Sequence[datetime]) -> None:
    values = [float("nan") if m.balance_pct is None else m.balance_pct for m in role.life.moments]
    if role.trips:
        alone = [m.balance_pct or 0.0 for m in role.alone.moments]
        axes.plot(times, alone, color=FAINT, lw=1.1, ls=(0, (4, 2)))
    axes.fill_between(times, values, color=BALANCE, alpha=0.25, lw=0)
    axes.plot(times, values, color=BALANCE, lw=1.7)
    is_dry = [value <= 0 for value in values]
    axes.fill_between(times, 0, 100, where=is_dry, step="pre", **_EMPTY)
    axes.set_ylim(0, _TOP)
    axes.set_yticks([100], ["100 %"])


def _draw_iops(axes: Any, role: Role, times: Sequence[datetime]) -> None:
    moments = role.life.moments
    demand, served = [m.demand_iops for m in moments], [m.served_iops for m in moments]
    axes.fill_between(times, demand, color=DEMAND, lw=0, step="pre")
    lacks = [_lacks(moment) for moment in moments]
    axes.fill_between(
        times, served, demand, where=lacks, step="pre", fc="white", ec=DRY, hatch="//////", lw=0
    )
    axes.plot(times, served, color=SERVED, lw=1.3, drawstyle="steps-pre")
    axes.axhline(baseline_iops(role.actor.size_gib), color=INK, lw=0.8, ls=":")
    most = max(demand) or baseline_iops(role.actor.size_gib)
    axes.set_ylim(0, 1.12 * most)
    axes.set_yticks([most], [f"{most:,.0f}"])


def _lacks(moment: Moment) -> bool:
    return moment.demand_iops > 1.02 * moment.served_iops


def _draw_windows(panels: Iterable[Any], role: Role, windows: Windows) -> None:
    balance, *_ = panels
    since, ends_at = STARTS_AT, _at(role.life.moments[-1].at_s)
    for window in windows:
        if not window.holds_for(role.volume):
            continue
        span = next(occurrences(window, since), None)
        if span is None or span.start_at > ends_at:
            continue
        for axes in panels:
            for edge in (span.start_at, span.end_at):
                axes.axvline(edge, color=WINDOW, lw=1.3, ls=(0, (1, 1)))
        balance.axvspan(
            span.start_at, span.end_at, ymin=(_ACTIONS - 13) / _TOP, ymax=(_ACTIONS + 13) / _TOP, color=WINDOW
        )
        middle = span.start_at + (span.end_at - span.start_at) / 2
        said = f"window {window.name}"
        balance.text(middle, _ACTIONS - 1, said, color="white", fontsize=8.5, ha="center", va="center")


def _draw_trip(axes: Any, role: Role, trip: Trip) -> None:
    """Where it went, and what that cost."""
    axes.plot(_at(trip.asked_at_s), _ACTIONS, marker="^", color=TARGET, ms=9, clip_on=False)
    if trip.back_at_s is not None:
        axes.plot(_at(trip.back_at_s), _ACTIONS, marker="v", color=TARGET, ms=9, clip_on=False)
    if trip.reached_at_s is None:
        return
    ends_s = trip.back_at_s or role.life.moments[-1].at_s
    usd = role.life.usd_more(trip.asked_at_s, trip.back_at_s)
    stays = ", to stay" if trip.stays else ""
    sign = "+" if usd >= 0 else "\N{MINUS SIGN}"
    said = f"{trip.target.volume_type}, {trip.target.iops:,} IOPS{stays}\n{sign}${abs(usd):.4f}"
    axes.text(
        _at((trip.reached_at_s + ends_s) / 2), 52, said, ha="center", va="center", fontsize=9.5, color=INK,
        linespacing=1.2, bbox={"fc": "white", "ec": "none", "alpha": 0.7, "pad": 1.0},
    )  # fmt: skip


def _draw_marks(axes: Any, role: Role) -> None:
    for refused in role.refusals:
        axes.plot(_at(refused.at_s), _ACTIONS, marker="X", color=DRY, mec="white", mew=0.6, ms=10.5)
    last_s = 0.0
    for at_s, letter, color, is_told in _letters(role.entries):
        last_s = max(at_s, last_s + _APART_S)
        axes.text(
            _at(last_s), _LETTERS, letter, color="white" if is_told else color, fontsize=7.5, ha="center",
            va="center", weight="bold",
            bbox={"boxstyle": "circle,pad=0.18", "fc": color if is_told else "white", "ec": color},
        )  # fmt: skip


def _letters(entries: Sequence[LedgerEntry]) -> Iterator[tuple[int, str, str, bool]]:
    """Each level that people hear of: when, its letter and colour, and whether they were told."""
    told = {entry.at_s for entry in entries if entry.kind is EntryKind.ALERT}
    for entry in entries:
        body = entry.body
        if entry.kind is EntryKind.LEVEL_CHANGED and body["to"] in _LEVELS:
            yield entry.at_s, *_LEVELS[Level(body["to"])], entry.at_s in told
        elif entry.kind is EntryKind.ALERT and body["kind"] in _TOLD and not is_about_type(body):
            yield entry.at_s, *_TOLD[AlertKind(body["kind"])], True


def _tell(figure: Any, role: Role, *, top: float, row: float) -> None:
    """Who it is, on the left; what came of it, on the right."""
    actor = role.actor
    who = (
        (actor.name, {"fontsize": 12, "weight": "bold", "color": INK}),
        (f"{actor.size_gib:,} GiB, {actor.mode}", {"fontsize": 10, "color": INK}),
        (actor.story, {"fontsize": 9.5, "color": FAINT}),
    )
    for x, lines in ((_MARGIN, who), (_RIGHT + _MARGIN, _outcome(role))):
        for number, (line, style) in enumerate(lines):
            figure.text(x, top - (0.20 + 0.22 * number) * row, line, va="center", **style)


def _outcome(role: Role) -> list[tuple[str, dict[str, Any]]]:
    life, alone = role.life, role.alone
    style = {"fontsize": 9.5, "color": INK}
    lines = [(f"refused: {refused.guard}", style) for refused in role.refusals[:1]]
    if life.dry_at_s is not None:
        red = {"fontsize": 11, "weight": "bold", "color": DRY}
        stalled = (f"stalled {format_duration(life.stalled_s)}", red)
        return [(f"dry at {format_clock(life.dry_at_s)}", red), stalled, *lines]
    if alone.dry_at_s is not None:
        lines.append((f"left alone: dry {format_clock(alone.dry_at_s)},", style))
        lines.append((f"stalled {format_duration(alone.stalled_s)}", style))
    return [("never dry", {"fontsize": 11, "weight": "bold", "color": INK}), *lines]


def _draw_legend(figure: Any) -> None:
    said = {AlertKind.RECOVERED: "recovered", AlertKind.TELEMETRY_GAP: "no data"}
    letters = [*_LEVELS.items(), *((said[kind], mark) for kind, mark in _TOLD.items())]
    handles = [
        Line2D([], [], color=BALANCE, lw=1.7, label="burst balance"),
        Line2D([], [], color=FAINT, lw=1.1, ls=(0, (4, 2)), label="if left alone"),
        Patch(label="bucket empty", **_EMPTY),
        Patch(fc=DEMAND, label="IOPS wanted"),
        Line2D([], [], color=SERVED, lw=1.3, label="IOPS served"),
        Patch(fc="white", ec=DRY, hatch="//////", lw=0, label="wanted, not served"),
        Line2D([], [], color=INK, lw=0.8, ls=":", label="gp2 baseline"),
        Patch(fc="white", ec=UNDER_WAY, hatch="....", lw=0, label="modification under way"),
        Patch(fc=TARGET, alpha=0.17, label="on its target, and its cost above gp2"),
        Line2D([], [], marker="^", color=TARGET, ms=9, lw=0, label="flipped"),
        Line2D([], [], marker="v", color=TARGET, ms=9, lw=0, label="flipped back"),
        Line2D([], [], marker="X", color=DRY, mec="white", ms=10.5, lw=0, label="refused"),
        *(
            Line2D([], [], marker=f"${letter}$", color=color, lw=0, ms=8, label=str(means))
            for means, (letter, color) in letters
        ),
        Line2D([], [], marker="o", mfc="white", mec=DRY, ms=8, lw=0, label="seen, nobody told"),
    ]
    figure.legend(
        handles=handles, loc="lower center", ncols=6, frameon=False, fontsize=9.5, columnspacing=1.4
    )

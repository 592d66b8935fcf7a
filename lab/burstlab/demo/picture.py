"""The picture of a demo: a row for each resource, all on one clock."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib import dates as mdates
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from burstctl.timeline.intervals import TargetInterval
from burstlab.demo.activity import is_only_about_type
from burstlab.demo.run import AdvisedRun, MinuteSample, VolumeHistory, VolumeRun
from burstlab.demo.scenario import STARTS_AT, DemoFileSystem, describe_refill
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.policy.policy import LevelPolicy
from burstwatch.core.policy.windows import Windows, occurrences
from burstwatch.core.text import format_clock, format_duration, format_usd

INK: Final = "#1b1f24"
FAINT: Final = "#6b7480"
BALANCE: Final = "#1f6fb2"
SERVED: Final = "#14532d"
DEMAND: Final = "#c3c8cf"
EMPTY: Final = "#c62828"
TARGET: Final = "#2e7d32"
MODIFYING: Final = "#7fa983"
WINDOW: Final = "#5b3f8c"

_EMPTY_STYLE: Final[dict[str, Any]] = {"fc": "#fae3e3", "ec": "#dfa0a0", "hatch": "xx", "lw": 0}

# layout in inches and fractions of them; the letters and the actions are above 100 % of the balance
_WIDTH: Final = 11.5
_ROW_HEIGHT: Final = 1.07
_HEADER_HEIGHT: Final = 0.98
_FOOTER_HEIGHT: Final = 1.16
_LEFT_EDGE: Final = 0.192
_RIGHT_EDGE: Final = 0.826
_MARGIN: Final = 0.010
_ACTIONS_Y: Final = 118
_LETTERS_Y: Final = 164
_Y_MAX: Final = 182
"""In units of the balance; above 100 are two lanes, for actions and for levels."""

_LETTER_SPACING_S: Final = 540
"""Letters that would cover each other are drawn so far apart."""

# Letters and shapes as well as colours: the picture must read in black and white.
_LEVEL_LETTERS: Final = {
    Level.WARNING: ("W", "#b8650f"),
    Level.CRITICAL: ("C", EMPTY),
    Level.EXHAUSTED: ("E", "#5c1010"),
}
_ALERT_LETTERS: Final = {AlertKind.RECOVERED: ("R", TARGET), AlertKind.TELEMETRY_GAP: ("?", FAINT)}


def draw(runs: Sequence[VolumeRun | AdvisedRun], windows: Windows, path: Path) -> None:
    """Write the picture as a PNG."""
    height = _HEADER_HEIGHT + _ROW_HEIGHT * len(runs) + _FOOTER_HEIGHT
    with mpl.rc_context({"font.size": 9, "hatch.linewidth": 0.7, "axes.linewidth": 0.6}):
        figure = Figure(figsize=(_WIDTH, height), dpi=120, facecolor="white")
        _draw_header(figure, runs, height)
        panels = [
            _draw_row(
                figure,
                run,
                windows,
                top=1 - (_HEADER_HEIGHT + _ROW_HEIGHT * number) / height,
                row=_ROW_HEIGHT / height,
            )
            for number, run in enumerate(runs)
        ]
        _show_time_labels(panels[0][0], "top")
        _show_time_labels(panels[-1][1], "bottom")
        _draw_legend(figure)
        figure.savefig(path, pil_kwargs={"optimize": True})


def _draw_header(figure: Any, runs: Sequence[VolumeRun | AdvisedRun], height: float) -> None:
    volume_runs = [run for run in runs if isinstance(run, VolumeRun)]
    histories, unwatched = [run.history for run in volume_runs], [run.unwatched for run in volume_runs]
    flipped = [run for run in volume_runs if run.target_intervals]
    saved = sum(run.unwatched.empty_at_s is not None and run.history.empty_at_s is None for run in flipped)
    usd = sum(history.extra_usd() for history in histories)
    hours = len(histories[0].samples) / 60
    headline = f"{hours:g} hours of {len(volume_runs)} gp2 volumes: {len(flipped)} were flipped"
    stall_sentence = (
        f"They stalled for {_format_stalled(histories)} in all; left alone it would have been"
        f" {_format_stalled(unwatched)}."
    )
    cost = f"The flips cost {format_usd(abs(usd))} {'more' if usd >= 0 else 'less'} than gp2."
    for inches, text, style in (
        (0.24, f"{headline}, which kept {saved} from becoming empty", {"fontsize": 14.5, "weight": "bold"}),
        (0.52, f"{stall_sentence} {cost}", {"fontsize": 11}),
    ):
        figure.text(_MARGIN, 1 - inches / height, text, color=INK, va="center", **style)


def _format_stalled(histories: Iterable[VolumeHistory]) -> str:
    return format_duration(sum(history.stalled_s for history in histories))


def _draw_row(
    figure: Any, run: VolumeRun | AdvisedRun, windows: Windows, *, top: float, row: float
) -> tuple[Any, Any]:
    width = _RIGHT_EDGE - _LEFT_EDGE
    balance = figure.add_axes((_LEFT_EDGE, top - 0.62 * row, width, 0.60 * row))
    iops = figure.add_axes((_LEFT_EDGE, top - 0.94 * row, width, 0.28 * row), sharex=balance)
    times = [_to_datetime(sample.at_s) for sample in run.history.samples]
    for axes in (balance, iops):
        _style_axes(axes, times[-1])
        for interval in run.target_intervals:
            _shade_interval(axes, interval, times[-1])
        if (changed_at_s := _changed_at_s(run)) is not None:
            axes.axvspan(_to_datetime(changed_at_s), times[-1], color=TARGET, alpha=0.17, lw=0)
    _draw_balance(balance, run, times)
    _draw_iops(iops, run, times)
    _draw_windows((balance, iops), run, windows)
    for interval in run.target_intervals:
        _draw_interval(balance, run, interval)
    if isinstance(run, AdvisedRun):
        _draw_change(balance, run, times[-1])
    _draw_markers(balance, run)
    _draw_texts(figure, run, top=top, row=row)
    return balance, iops


def _to_datetime(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, tz=UTC)


def _style_axes(axes: Any, ends_at: datetime) -> None:
    axes.set_xlim(STARTS_AT, ends_at)
    axes.xaxis.set_major_locator(mdates.HourLocator())
    axes.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M", tz=UTC))
    axes.grid(axis="x", color="#dfe3e8", lw=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelbottom=False, bottom=False, left=False, pad=3, labelsize=8, labelcolor=FAINT)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#9aa2ac")


def _show_time_labels(axes: Any, side: str) -> None:
    axes.tick_params(axis="x", labelsize=10, labelcolor=INK, **{f"label{side}": True})


def _shade_interval(axes: Any, interval: TargetInterval, ends_at: datetime) -> None:
    """Shade the modifications in progress, and the time on the target."""
    reached_at = _to_datetime(interval.reached_at_s) if interval.reached_at_s else ends_at
    return_requested_at = (
        _to_datetime(interval.return_requested_at_s) if interval.return_requested_at_s else ends_at
    )
    restored_at = _to_datetime(interval.restored_at_s) if interval.restored_at_s else ends_at
    axes.axvspan(reached_at, return_requested_at, color=TARGET, alpha=0.17, lw=0)
    for from_at, to_at in (
        (_to_datetime(interval.start_s), reached_at),
        (return_requested_at, restored_at),
    ):
        axes.axvspan(from_at, to_at, fc="white", ec=MODIFYING, hatch="....", lw=0)


def _draw_balance(axes: Any, run: VolumeRun | AdvisedRun, times: Sequence[datetime]) -> None:
    values = [
        float("nan") if sample.balance_pct is None else sample.balance_pct for sample in run.history.samples
    ]
    if run.unwatched is not None and (run.target_intervals or _changed_at_s(run)):
        unwatched = [sample.balance_pct or 0.0 for sample in run.unwatched.samples]
        axes.plot(times, unwatched, color=FAINT, lw=1.1, ls=(0, (4, 2)))
    axes.fill_between(times, values, color=BALANCE, alpha=0.25, lw=0)
    axes.plot(times, values, color=BALANCE, lw=1.7)
    is_empty = [value <= 0 for value in values]
    axes.fill_between(times, 0, 100, where=is_empty, step="pre", **_EMPTY_STYLE)
    axes.set_ylim(0, _Y_MAX)
    axes.set_yticks([100], ["100 %"])


def _draw_iops(axes: Any, run: VolumeRun | AdvisedRun, times: Sequence[datetime]) -> None:
    samples = run.history.samples
    demand, served = [sample.demand for sample in samples], [sample.served for sample in samples]
    axes.fill_between(times, demand, color=DEMAND, lw=0, step="pre")
    is_short = [_is_short(sample) for sample in samples]
    axes.fill_between(
        times, served, demand, where=is_short, step="pre", fc="white", ec=EMPTY, hatch="//////", lw=0
    )
    axes.plot(times, served, color=SERVED, lw=1.3, drawstyle="steps-pre")
    axes.axhline(run.spec.baseline, color=INK, lw=0.8, ls=":")
    max_demand = max(demand) or run.spec.baseline
    axes.set_ylim(0, 1.12 * max_demand)
    unit = "" if run.spec.rate_unit == "IOPS" else f" {run.spec.rate_unit}"
    axes.set_yticks([max_demand], [f"{max_demand:,.0f}{unit}"])


def _is_short(sample: MinuteSample) -> bool:
    return sample.demand > 1.02 * sample.served


def _draw_windows(panels: Iterable[Any], run: VolumeRun | AdvisedRun, windows: Windows) -> None:
    if isinstance(run, AdvisedRun):
        return
    balance, *_ = panels
    starts_at, ends_at = STARTS_AT, _to_datetime(run.history.samples[-1].at_s)
    for window in windows:
        if not window.applies_to(run.volume):
            continue
        span = next(occurrences(window, starts_at), None)
        if span is None or span.start_at > ends_at:
            continue
        for axes in panels:
            for edge in (span.start_at, span.end_at):
                axes.axvline(edge, color=WINDOW, lw=1.3, ls=(0, (1, 1)))
        balance.axvspan(
            span.start_at,
            span.end_at,
            ymin=(_ACTIONS_Y - 13) / _Y_MAX,
            ymax=(_ACTIONS_Y + 13) / _Y_MAX,
            color=WINDOW,
        )
        middle = span.start_at + (span.end_at - span.start_at) / 2
        label = f"window {window.name}"
        balance.text(middle, _ACTIONS_Y - 1, label, color="white", fontsize=8.5, ha="center", va="center")


def _draw_interval(axes: Any, run: VolumeRun | AdvisedRun, interval: TargetInterval) -> None:
    """Where it went, and what that cost."""
    axes.plot(_to_datetime(interval.start_s), _ACTIONS_Y, marker="^", color=TARGET, ms=9, clip_on=False)
    if interval.return_requested_at_s is not None:
        axes.plot(
            _to_datetime(interval.return_requested_at_s),
            _ACTIONS_Y,
            marker="v",
            color=TARGET,
            ms=9,
            clip_on=False,
        )
    if interval.reached_at_s is None or interval.target is None:
        return
    end_at_s = interval.return_requested_at_s or run.history.samples[-1].at_s
    usd = run.history.extra_usd(interval.start_s, interval.return_requested_at_s)
    suffix = ", to stay" if interval.is_permanent else ""
    sign = "+" if usd >= 0 else "\N{MINUS SIGN}"
    label = (
        f"{interval.target.volume_type}, {interval.target.iops:,}"
        f" IOPS{suffix}\n{sign}{format_usd(abs(usd), decimals=4)}"
    )
    axes.text(
        _to_datetime((interval.reached_at_s + end_at_s) / 2), 52, label,
        ha="center", va="center", fontsize=9.5, color=INK,
        linespacing=1.2, bbox={"fc": "white", "ec": "none", "alpha": 0.7, "pad": 1.0},
    )  # fmt: skip


def _draw_change(axes: Any, run: AdvisedRun, ends_at: datetime) -> None:
    """When a person followed the advice, and what it is since then."""
    if run.changed_at_s is None:
        return
    changed_at = _to_datetime(run.changed_at_s)
    axes.plot(changed_at, _ACTIONS_Y, marker="^", color=TARGET, mfc="white", mew=1.4, ms=9, clip_on=False)
    axes.text(
        changed_at + (ends_at - changed_at) / 2, 52, f"changed by hand: {run.changed_to}",
        ha="center", va="center", fontsize=9.5, color=INK,
        bbox={"fc": "white", "ec": "none", "alpha": 0.7, "pad": 1.0},
    )  # fmt: skip


def _changed_at_s(run: VolumeRun | AdvisedRun) -> float | None:
    return run.changed_at_s if isinstance(run, AdvisedRun) else None


def _draw_markers(axes: Any, run: VolumeRun | AdvisedRun) -> None:
    for refused in run.refused_flips:
        axes.plot(
            _to_datetime(refused.at_s), _ACTIONS_Y, marker="X", color=EMPTY, mec="white", mew=0.6, ms=10.5
        )
    last_at_s = 0.0
    for at_s, letter, color, is_notified in _level_letters(run.entries):
        last_at_s = max(at_s, last_at_s + _LETTER_SPACING_S)
        axes.text(
            _to_datetime(last_at_s), _LETTERS_Y, letter,
            color="white" if is_notified else color, fontsize=7.5, ha="center",
            va="center", weight="bold",
            bbox={"boxstyle": "circle,pad=0.18", "fc": color if is_notified else "white", "ec": color},
        )  # fmt: skip


def _level_letters(entries: Sequence[LedgerEntry]) -> Iterator[tuple[int, str, str, bool]]:
    """Each level with alerts: its time, letter and colour, and whether an alert was sent."""
    notified_at_s = {entry.at_s for entry in entries if entry.kind is EntryKind.ALERT}
    for entry in entries:
        body = entry.body
        if entry.kind is EntryKind.LEVEL_CHANGED and body["to"] in _LEVEL_LETTERS:
            yield entry.at_s, *_LEVEL_LETTERS[Level(body["to"])], entry.at_s in notified_at_s
        elif (
            entry.kind is EntryKind.ALERT and body["kind"] in _ALERT_LETTERS and not is_only_about_type(body)
        ):
            yield entry.at_s, *_ALERT_LETTERS[AlertKind(body["kind"])], True


def _draw_texts(figure: Any, run: VolumeRun | AdvisedRun, *, top: float, row: float) -> None:
    """Who it is, on the left; what came of it, on the right."""
    spec = run.spec
    title_lines = (
        (spec.name, {"fontsize": 12, "weight": "bold", "color": INK}),
        (spec.summary, {"fontsize": 10, "color": INK}),
        (spec.description, {"fontsize": 9.5, "color": FAINT}),
    )
    for x, lines in ((_MARGIN, title_lines), (_RIGHT_EDGE + _MARGIN, _outcome_lines(run))):
        for number, (line, style) in enumerate(lines):
            figure.text(x, top - (0.20 + 0.22 * number) * row, line, va="center", **style)


def _outcome_lines(run: VolumeRun | AdvisedRun) -> list[tuple[str, dict[str, Any]]]:
    history = run.history
    style = {"fontsize": 9.5, "color": INK}
    lines = [(f"refused: {refused.guard}", style) for refused in run.refused_flips[:1]]
    if history.empty_at_s is not None:
        red = {"fontsize": 11, "weight": "bold", "color": EMPTY}
        stalled = (f"stalled {format_duration(history.stalled_s)}", red)
        if isinstance(run, AdvisedRun) and run.warning_time_s is not None:
            lines.append((f"announced {format_duration(run.warning_time_s)} before", style))
        return [(f"empty at {format_clock(history.empty_at_s)}", red), stalled, *lines]
    if run.unwatched is not None and run.unwatched.empty_at_s is not None:
        lines.append((f"left alone: empty {format_clock(run.unwatched.empty_at_s)},", style))
        outcome = f"stalled {format_duration(run.unwatched.stalled_s)}"
        if isinstance(run.spec, DemoFileSystem):
            outcome = f"for {describe_refill(run.spec)}"
        lines.append((outcome, style))
    bold = {"fontsize": 11, "weight": "bold", "color": INK}
    exhausted_pct = LevelPolicy().exhausted_pct
    balances = [sample.balance_pct for sample in history.samples if sample.balance_pct is not None]
    if exhausted_minutes := sum(balance <= exhausted_pct for balance in balances):
        outcome = f"{exhausted_pct:g} % or less, {exhausted_minutes} min"
        return [(outcome, bold), ("but never empty", style), *lines]
    return [("never empty", bold), *lines]


def _draw_legend(figure: Any) -> None:
    kind_labels = {AlertKind.RECOVERED: "recovered", AlertKind.TELEMETRY_GAP: "no data"}
    letters = [*_LEVEL_LETTERS.items(), *((kind_labels[kind], mark) for kind, mark in _ALERT_LETTERS.items())]
    handles = [
        Line2D([], [], color=BALANCE, lw=1.7, label="burst balance"),
        Line2D([], [], color=FAINT, lw=1.1, ls=(0, (4, 2)), label="if left alone"),
        Patch(label="bucket empty", **_EMPTY_STYLE),
        Patch(fc=DEMAND, label="load wanted"),
        Line2D([], [], color=SERVED, lw=1.3, label="load served"),
        Patch(fc="white", ec=EMPTY, hatch="//////", lw=0, label="wanted, not served"),
        Line2D([], [], color=INK, lw=0.8, ls=":", label="baseline"),
        Patch(fc="white", ec=MODIFYING, hatch="....", lw=0, label="modification under way"),
        Patch(fc=TARGET, alpha=0.17, label="on its target, and its cost above gp2"),
        Line2D([], [], marker="^", color=TARGET, ms=9, lw=0, label="flipped"),
        Line2D([], [], marker="v", color=TARGET, ms=9, lw=0, label="flipped back"),
        Line2D([], [], marker="^", color=TARGET, mfc="white", mew=1.4, ms=9, lw=0, label="changed by hand"),
        Line2D([], [], marker="X", color=EMPTY, mec="white", ms=10.5, lw=0, label="refused"),
        *(
            Line2D([], [], marker=f"${letter}$", color=color, lw=0, ms=8, label=str(label))
            for label, (letter, color) in letters
        ),
        Line2D([], [], marker="o", mfc="white", mec=EMPTY, ms=8, lw=0, label="seen, no alert"),
    ]
    figure.legend(
        handles=handles, loc="lower center", ncols=6, frameon=False, fontsize=9.5, columnspacing=1.4
    )

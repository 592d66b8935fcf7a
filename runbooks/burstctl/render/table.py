"""The report as a table: in colour and as wide as the terminal, otherwise plain and complete."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import not_
from typing import Final

from burstctl.cli.styled_text import StyledText, to_plain_text
from burstctl.render.flip_status import describe_flip_status, is_flip_active
from burstctl.render.volume import MAX_NAME_CHARS, display_name_of
from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.forecast import describe_trend
from burstwatch.core.ebs.volume import BUCKET_CREDITS
from burstwatch.core.text import display_width as display_columns
from burstwatch.core.text import format_count, format_relative_time, format_rounded_duration, format_time
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.pass_report import PassReport, sort_by_urgency

MAX_ROWS: Final = 20
"""More volumes than this are shown as far as they matter; the rest is counted."""

WIDE_TABLE_COLUMNS: Final = 116
"""From this width on there is a line to a volume, below it there are two."""

_FULL_FORECAST_COLUMNS: Final = 140
"""From this width on, there is room for the bound next to the estimate."""

# layout: the table fits into 80 columns with a volume ID of 21 characters
_MIN_NAME_COLUMNS: Final = 8
_VOLUME_COLUMNS: Final = 21
_FORECAST_COLUMNS: Final = 31
_BAR_CELLS: Final = 5
_NAME_INDEX: Final = 2
_FLIP_INDEX: Final = 5
_COLUMN_GAP: Final = "  "

STYLES: Final = {
    Level.EXHAUSTED: "bold white on red",
    Level.CRITICAL: "bold red",
    Level.WARNING: "yellow",
    Level.WATCH: "cyan",
    Level.OK: "green",
    Level.UNKNOWN: "dim",
}
FAULT_STYLE: Final = "magenta"
FLIP_STYLE: Final = "blue"
CHANGING_LABEL: Final = "changing"
CHANGING_STYLE: Final = "cyan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Lines of cells under titles; ``notes`` are below and state what is not shown."""

    titles: Sequence[str]
    lines: Sequence[Sequence[StyledText]]
    right_aligned: frozenset[str]
    notes: Sequence[str] = ()

    def widths(self) -> list[int]:
        """How many columns of the terminal each column takes."""
        texts = [self.titles, *([cell.text for cell in line] for line in self.lines)]
        return [max(map(text_width, column)) for column in zip(*texts, strict=True)]

    def width(self) -> int:
        """How many columns of the terminal a line takes."""
        return sum(self.widths()) + text_width(_COLUMN_GAP) * (len(self.titles) - 1)

    def to_lines(self) -> list[list[StyledText]]:
        """Titles, lines and notes; every cell is filled up to its column's width."""
        header = [StyledText(title, "bold") for title in self.titles]
        columns = [
            (width, title in self.right_aligned)
            for width, title in zip(self.widths(), self.titles, strict=True)
        ]
        return [
            *(_to_line(cells, columns) for cells in [header, *self.lines]),
            *([StyledText(note, "dim")] for note in self.notes),
        ]


def wide_table(report: PassReport, *, width: int | None, shows_all: bool, bar: str | None) -> Table:
    """A line for each volume; names are cut to the width, if there is one.

    Args:
        report: what to show.
        width: of the terminal; None where the output leads elsewhere.
        shows_all: calm volumes are shown as well, however many there are.
        bar: the characters of the balance bar from empty to full; None for no bar.
    """
    decisions, notes = _select_rows(report, shows_all=shows_all)
    flip_statuses = [describe_flip_status(decision, report) for decision in decisions]
    forecast_columns = None if width is None or width >= _FULL_FORECAST_COLUMNS else _FORECAST_COLUMNS
    table = Table(
        titles=("LEVEL", "VOLUME", "NAME", "BALANCE", "EMPTY UTC", "DRAIN/S", "BASELINE", "GIB", "INSTANCE"),
        lines=[_wide_line(decision, report.now_s, bar, forecast_columns) for decision in decisions],
        right_aligned=frozenset({"BALANCE", "DRAIN/S", "BASELINE", "GIB"}),
        notes=notes,
    )
    if any(flip_statuses):
        table = _with_flip_column(table, flip_statuses)
    if width is None:
        return table
    if table.width() > width:
        table = replace(table, titles=table.titles[:-1], lines=[line[:-1] for line in table.lines])
    name_columns = max(_MIN_NAME_COLUMNS, table.widths()[_NAME_INDEX] - max(0, table.width() - width))
    lines = zip(table.lines, decisions, strict=True)
    return replace(
        table, lines=[_with_truncated_name(line, decision, name_columns) for line, decision in lines]
    )


def _with_flip_column(table: Table, flip_statuses: Iterable[str]) -> Table:
    """The table with a column on flips and holds; no column if nothing is flipped or held."""
    return replace(
        table,
        titles=[*table.titles[:_FLIP_INDEX], "FLIP", *table.titles[_FLIP_INDEX:]],
        lines=[
            [*line[:_FLIP_INDEX], StyledText(flip_status, FLIP_STYLE), *line[_FLIP_INDEX:]]
            for line, flip_status in zip(table.lines, flip_statuses, strict=True)
        ],
    )


def _with_truncated_name(
    line: Sequence[StyledText], decision: Decision, name_columns: int
) -> list[StyledText]:
    return [*line[:_NAME_INDEX], StyledText(format_name(decision, name_columns)), *line[_NAME_INDEX + 1 :]]


def narrow_table(report: PassReport, *, shows_all: bool, bar: str | None) -> Table:
    """Two lines to a volume, one where all is calm; fits 80 columns."""
    decisions, notes = _select_rows(report, shows_all=shows_all)
    lines = [line for decision in decisions for line in _narrow_lines(decision, report, bar)]
    titles = ["LEVEL", "VOLUME", "BALANCE", "EMPTY UTC"]
    return Table(titles=titles, lines=lines, right_aligned=frozenset({"BALANCE"}), notes=notes)


def render_plain(table: Table) -> str:
    """Aligned text, no colour."""
    return to_plain_text(table.to_lines())


def text_width(text: str) -> int:
    """How many columns of a terminal the text takes; quick for the many thousand cells that are plain."""
    return len(text) if text.isascii() else display_columns(text)


def truncate(text: str, width: int) -> str:
    """The text on at most this many columns; ``…`` marks a cut."""
    if text_width(text) <= width:
        return text
    while text_width(text) >= width:
        text = text[:-1]
    return text.rstrip() + "…"


def level_label(decision: Decision) -> str:
    """The level to show; while AWS modifies the volume, its balance does not count."""
    return CHANGING_LABEL if decision.is_changing else str(decision.level)


def format_name(decision: Decision, width: int = MAX_NAME_CHARS) -> str:
    """The volume's display name, on at most this many columns; empty if it has no name."""
    return truncate(display_name_of(decision.assessment.volume, min(width, MAX_NAME_CHARS)), width)


def describe_depletion(decision: Decision, now_s: float, width: int | None = None) -> str:
    """``in 14 min (18:05), not before 17:58``, or why there is no estimate.

    The bound is left out of a calm volume, of one that refills, and where it does not fit in ``width``.
    """
    assessment = decision.assessment
    if assessment.unknown_reason is not None:
        return assessment.unknown_reason.label
    assert assessment.forecast is not None
    soonest_s, empty_s = assessment.forecast.soonest_empty_s, assessment.forecast.time_to_empty_s
    if soonest_s is None:
        return UnknownReason.NEVER_EMPTY.label
    if assessment.forecast.is_refilling:
        return _describe_refill(assessment)
    if empty_s is None:
        estimate = describe_trend(assessment.forecast.drain_per_s)
    elif empty_s <= 0:
        return "credits exhausted" if decision.is_changing else "now"
    else:
        estimate = format_relative_time(now_s + empty_s, now_s)
    estimate_and_bound = f"{estimate}, not before {format_time(now_s + soonest_s, now_s)}"
    is_short = decision.level is Level.OK or (width is not None and text_width(estimate_and_bound) > width)
    return estimate if is_short else estimate_and_bound


def _describe_refill(assessment: Assessment) -> str:
    """That it refills, and how long that takes at its present rate."""
    assert assessment.forecast is not None
    rate = -(assessment.forecast.drain_per_s or 0.0)
    if round(rate) < 1:
        return describe_trend(assessment.forecast.drain_per_s)
    missing_credits = BUCKET_CREDITS - (assessment.credits_left or 0.0)
    return f"refilling, full in {format_rounded_duration(missing_credits / rate)}"


def _select_rows(report: PassReport, *, shows_all: bool) -> tuple[list[Decision], list[str]]:
    """What to show, most urgent first, and notes about the rest."""
    ordered = sort_by_urgency(report.decisions)
    if shows_all or len(ordered) <= MAX_ROWS:
        return ordered, []
    is_important = [_is_urgent(decision) or is_flip_active(decision, report) for decision in ordered]
    selected = list(compress(ordered, is_important))
    hidden = list(compress(ordered, map(not_, is_important)))
    at_watch = [decision for decision in hidden if decision.level is Level.WATCH]
    not_at_watch = [decision for decision in hidden if decision.level is not Level.WATCH]
    room = max(0, MAX_ROWS - len(selected))
    return [*selected, *at_watch[:room]], _hidden_notes([*at_watch[room:], *not_at_watch])


def _is_urgent(decision: Decision) -> bool:
    return decision.level.is_alerting or decision.assessment.is_fault


def _hidden_notes(hidden: Sequence[Decision]) -> list[str]:
    at_watch = [decision for decision in hidden if decision.level is Level.WATCH]
    calm = [decision for decision in hidden if decision.level is Level.OK]
    unwatched_reasons = Counter(
        decision.assessment.unknown_reason.label
        for decision in hidden
        if decision.assessment.unknown_reason is not None
    )
    notes = [f"and {len(at_watch):,} more at watch, lowest {_format_lowest(at_watch)}"] if at_watch else []
    notes += [f"and {format_count(len(calm), 'calm volume')}, lowest {_format_lowest(calm)}"] if calm else []
    if unwatched_reasons:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in unwatched_reasons.most_common())
        notes.append(f"and {format_count(unwatched_reasons.total(), 'unwatched volume')}: {reasons}")
    return [*notes, "(--all shows everything)"]


def _format_lowest(decisions: Iterable[Decision]) -> str:
    return _format_percent(
        min(
            decision.assessment.balance_pct
            for decision in decisions
            if decision.assessment.balance_pct is not None
        )
    )


def _wide_line(
    decision: Decision, now_s: float, bar: str | None, forecast_columns: int | None
) -> list[StyledText]:
    assessment = decision.assessment
    drain = assessment.forecast.drain_per_s if assessment.forecast else None
    style = _level_style(decision)
    return [
        StyledText(level_label(decision), style),
        StyledText(assessment.volume.volume_id),
        StyledText(format_name(decision)),
        StyledText(_format_balance(decision, bar), _bar_style(style)),
        StyledText(
            describe_depletion(decision, now_s, forecast_columns), "" if decision.level.is_alerting else "dim"
        ),
        StyledText("" if drain is None else f"{drain:,.0f}".replace("-0", "0")),
        StyledText(f"{assessment.baseline_iops:,}" if assessment.volume.is_gp2 else ""),
        StyledText(f"{assessment.volume.size_gib:,}"),
        StyledText(assessment.volume.instance_id or "", "dim"),
    ]


def _narrow_lines(decision: Decision, report: PassReport, bar: str | None) -> list[list[StyledText]]:
    assessment = decision.assessment
    style, name = _level_style(decision), format_name(decision)
    depletion = describe_depletion(decision, report.now_s, _FORECAST_COLUMNS)
    flip_status = describe_flip_status(decision, report)
    is_calm = not (flip_status or _is_urgent(decision) or decision.level is Level.WATCH)
    if is_calm and name:
        depletion = f"{depletion} ({format_name(decision, _FORECAST_COLUMNS - len(depletion) - 3)})"
    first_line = [
        StyledText(level_label(decision), style),
        StyledText(assessment.volume.volume_id),
        StyledText(_format_balance(decision, bar), _bar_style(style)),
        StyledText(truncate(depletion, _FORECAST_COLUMNS), "" if decision.level.is_alerting else "dim"),
    ]
    if is_calm:
        return [first_line]
    second_line = [
        StyledText(""),
        StyledText(
            format_name(decision, _VOLUME_COLUMNS)
            or truncate(assessment.volume.instance_id or "", _VOLUME_COLUMNS)
        ),
        StyledText(f"{assessment.volume.size_gib:,} GiB", "dim"),
        StyledText(truncate(flip_status, _FORECAST_COLUMNS), FLIP_STYLE)
        if flip_status
        else StyledText(_describe_flow(decision), "dim"),
    ]
    return [first_line, second_line]


def _describe_flow(decision: Decision) -> str:
    assessment = decision.assessment
    drain = assessment.forecast.drain_per_s if assessment.forecast else None
    baseline = f"baseline {assessment.baseline_iops:,}"
    if decision.level is Level.EXHAUSTED and not decision.is_changing:
        return f"throttled to {baseline}"
    if drain is None or not round(drain):
        return baseline
    return f"{'drains' if drain > 0 else 'refills'} {abs(drain):,.0f}/s, {baseline}"


def _level_style(decision: Decision) -> str:
    if decision.is_changing:
        return CHANGING_STYLE
    return FAULT_STYLE if decision.assessment.is_fault else STYLES[decision.level]


def _bar_style(style: str) -> str:
    return "bold red" if style == STYLES[Level.EXHAUSTED] else style


def _format_balance(decision: Decision, bar: str | None) -> str:
    balance_pct = decision.assessment.balance_pct
    if balance_pct is None:
        return ""
    bar_text = f"{draw_bar(balance_pct, _BAR_CELLS, bar)} " if bar else ""
    return f"{bar_text}{_format_percent(balance_pct):>7}"


def draw_bar(balance_pct: float, cells: int, characters: str) -> str:
    """A bar that is filled to this share; the characters between the first and the last are finer steps."""
    empty_character, steps = characters[0], characters[1:]
    filled = round(balance_pct / 100 * cells * len(steps))
    full, partial_steps = divmod(filled, len(steps))
    bar = steps[-1] * full + (steps[partial_steps - 1] if partial_steps else "")
    return bar + empty_character * (cells - len(bar))


def _format_percent(balance_pct: float) -> str:
    return f"{balance_pct:.1f} %"


def _to_line(cells: Sequence[StyledText], columns: Sequence[tuple[int, bool]]) -> list[StyledText]:
    """The cells with blanks between them; a column has its width, and whether it is aligned to the right."""
    line: list[StyledText] = []
    for cell, (width, is_right_aligned) in zip(cells, columns, strict=True):
        blank = " " * (width - text_width(cell.text))
        text = f"{blank}{cell.text}" if is_right_aligned else f"{cell.text}{blank}"
        line += [StyledText(text, cell.style), StyledText(_COLUMN_GAP)]
    return line

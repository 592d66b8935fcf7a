"""The report as a table for people: in colour and to the width of a terminal, plain and whole elsewhere."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import not_
from typing import Final, NamedTuple

from burstctl.render.flip_status import is_moving, mark_of
from burstctl.render.volume import LONGEST_NAME, name_of
from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.forecast import standing_words
from burstwatch.core.ebs.volume import BUCKET_CREDITS
from burstwatch.core.text import columns as display_columns
from burstwatch.core.text import format_roughly, format_time, format_when
from burstwatch.core.watch.decide import Decision
from burstwatch.core.watch.report import Report, sort_by_urgency

MOST_ROWS: Final = 20
"""More volumes than this are shown as far as they matter; the rest is counted."""

WIDE: Final = 116
"""From this width on there is a line to a volume, below it there are two."""

_ROOMY: Final = 140
"""From this width on there is room for the bound beside the estimate."""

_LEAST_NAME: Final = 8
_VOLUME_COLUMNS: Final = 21
_DRY_COLUMNS: Final = 31
_BAR_CELLS: Final = 5
_NAME_AT: Final = 2
_MARK_AT: Final = 5
GAP: Final = "  "

STYLES: Final = {
    Level.EXHAUSTED: "bold white on red",
    Level.CRITICAL: "bold red",
    Level.WARNING: "yellow",
    Level.WATCH: "cyan",
    Level.OK: "green",
    Level.UNKNOWN: "dim",
}
FAULT_STYLE: Final = "magenta"
MARK_STYLE: Final = "blue"
CHANGING: Final = "changing"
CHANGING_STYLE: Final = "cyan"

UNKNOWN_WORDS: Final = {
    UnknownReason.DETACHED: "detached",
    UnknownReason.INSTANCE_STOPPED: "instance is stopped",
    UnknownReason.NOT_BURSTABLE_TYPE: "no burst credits",
    UnknownReason.CANNOT_RUN_DRY: "cannot run dry",
    UnknownReason.TOO_NEW: "too new to tell",
    UnknownReason.IDLE: "idle, no datapoint",
    UnknownReason.TELEMETRY_GAP: "no datapoint",
    UnknownReason.READ_FAILED: "could not be read",
}


class Cell(NamedTuple):
    """What stands in one column of one line; ``style`` is rich's word for its looks."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Lines of cells under titles; ``notes`` stand below and say what is not shown."""

    titles: Sequence[str]
    lines: Sequence[Sequence[Cell]]
    right_aligned: frozenset[str]
    notes: Sequence[str] = ()

    def widths(self) -> list[int]:
        """How many columns of the terminal each column takes."""
        texts = [self.titles, *([cell.text for cell in line] for line in self.lines)]
        return [max(map(columns, column)) for column in zip(*texts, strict=True)]

    def width(self) -> int:
        """How many columns of the terminal a line takes."""
        return sum(self.widths()) + columns(GAP) * (len(self.titles) - 1)

    def padded(self) -> list[list[Cell]]:
        """Titles and lines with every cell but the last filled up to its column's width."""
        widths = self.widths()
        header = [Cell(title, "bold") for title in self.titles]
        return [
            [
                Cell(_pad(cell.text, width, to_the_right=title in self.right_aligned), cell.style)
                for cell, width, title in zip(line, widths, self.titles, strict=True)
            ]
            for line in [header, *self.lines]
        ]


def wide_table(report: Report, *, width: int | None, everything: bool, bar: str | None) -> Table:
    """A line to a volume; names are cut to the width, without one nothing is.

    Args:
        report: what to show.
        width: of the terminal; None where the output leads elsewhere.
        everything: calm volumes are shown as well, however many there are.
        bar: the characters of the balance bar from empty to full; None for no bar.
    """
    shown, notes = _chosen(report, everything=everything)
    marks = [mark_of(decision, report) for decision in shown]
    dry_columns = None if width is None or width >= _ROOMY else _DRY_COLUMNS
    table = Table(
        titles=("LEVEL", "VOLUME", "NAME", "BALANCE", "DRY (UTC)", "DRAIN/S", "BASELINE", "GIB", "INSTANCE"),
        lines=[_wide_line(decision, report.now_s, bar, dry_columns) for decision in shown],
        right_aligned=frozenset({"BALANCE", "DRAIN/S", "BASELINE", "GIB"}),
        notes=notes,
    )
    if any(marks):
        table = _with_marks(table, marks)
    if width is None:
        return table
    if table.width() > width:
        table = replace(table, titles=table.titles[:-1], lines=[line[:-1] for line in table.lines])
    longest = max(_LEAST_NAME, table.widths()[_NAME_AT] - max(0, table.width() - width))
    lines = zip(table.lines, shown, strict=True)
    return replace(table, lines=[_with_name_cut(line, decision, longest) for line, decision in lines])


def _with_marks(table: Table, marks: Iterable[str]) -> Table:
    """The table with a column on flips and holds; there is none where nothing is flipped or held."""
    return replace(
        table,
        titles=[*table.titles[:_MARK_AT], "FLIP", *table.titles[_MARK_AT:]],
        lines=[
            [*line[:_MARK_AT], Cell(mark, MARK_STYLE), *line[_MARK_AT:]]
            for line, mark in zip(table.lines, marks, strict=True)
        ],
    )


def _with_name_cut(line: Sequence[Cell], decision: Decision, longest: int) -> list[Cell]:
    return [*line[:_NAME_AT], Cell(shown_name(decision, longest)), *line[_NAME_AT + 1 :]]


def narrow_table(report: Report, *, everything: bool, bar: str | None) -> Table:
    """Two lines to a volume, one where all is calm; fits 80 columns."""
    shown, notes = _chosen(report, everything=everything)
    lines = [line for decision in shown for line in _narrow_lines(decision, report, bar)]
    titles = ["LEVEL", "VOLUME", "BALANCE", "DRY (UTC)"]
    return Table(titles=titles, lines=lines, right_aligned=frozenset({"BALANCE"}), notes=notes)


def render_plain(table: Table) -> str:
    """Aligned text, no colour."""
    lines = (GAP.join(cell.text for cell in line).rstrip() for line in table.padded())
    return "\n".join([*lines, *table.notes])


def columns(text: str) -> int:
    """How many columns of a terminal the text takes; quick for the many thousand cells that are plain."""
    return len(text) if text.isascii() else display_columns(text)


def cut(text: str, width: int) -> str:
    """The text on at most so many columns of the terminal; a cut shows as ``…``."""
    if columns(text) <= width:
        return text
    while columns(text) >= width:
        text = text[:-1]
    return text.rstrip() + "…"


def level_word(decision: Decision) -> str:
    """The level as people are shown it: while AWS changes the volume, its balance is not what counts."""
    return CHANGING if decision.is_changing else str(decision.level)


def shown_name(decision: Decision, width: int = LONGEST_NAME) -> str:
    """What people call the volume, on at most so many columns; empty where nobody has named it."""
    return cut(name_of(decision.assessment.volume, min(width, LONGEST_NAME)), width)


def dry_words(decision: Decision, now_s: float, width: int | None = None) -> str:
    """``in 14 min (18:05), not before 17:58``, or why there is no estimate.

    The bound is left out of a calm volume, of one that refills, and where it does not fit in ``width``.
    """
    assessment = decision.assessment
    if assessment.unknown_reason is not None:
        return UNKNOWN_WORDS[assessment.unknown_reason]
    assert assessment.forecast is not None
    soonest_s, empty_s = assessment.forecast.soonest_empty_s, assessment.forecast.time_to_empty_s
    if soonest_s is None:
        return UNKNOWN_WORDS[UnknownReason.CANNOT_RUN_DRY]
    if assessment.forecast.refills:
        return _refill_words(assessment)
    if empty_s is None:
        when = standing_words(assessment.forecast.drain_per_s)
    elif empty_s <= 0:
        return "credits exhausted" if decision.is_changing else "now"
    else:
        when = format_when(now_s + empty_s, now_s)
    whole = f"{when}, not before {format_time(now_s + soonest_s, now_s)}"
    is_short = decision.level is Level.OK or (width is not None and columns(whole) > width)
    return when if is_short else whole


def _refill_words(assessment: Assessment) -> str:
    """That it refills, and how long that takes at its present rate."""
    assert assessment.forecast is not None
    rate = -(assessment.forecast.drain_per_s or 0.0)
    if round(rate) < 1:
        return standing_words(assessment.forecast.drain_per_s)
    missing = BUCKET_CREDITS - (assessment.credits_left or 0.0)
    return f"refilling, full in {format_roughly(missing / rate)}"


def _chosen(report: Report, *, everything: bool) -> tuple[list[Decision], list[str]]:
    """What to show, most urgent first, and notes about the rest."""
    ordered = sort_by_urgency(report.decisions)
    if everything or len(ordered) <= MOST_ROWS:
        return ordered, []
    matters = [_is_urgent(decision) or is_moving(decision, report) for decision in ordered]
    shown = list(compress(ordered, matters))
    rest = list(compress(ordered, map(not_, matters)))
    watched = [decision for decision in rest if decision.level is Level.WATCH]
    others = [decision for decision in rest if decision.level is not Level.WATCH]
    room = max(0, MOST_ROWS - len(shown))
    return [*shown, *watched[:room]], _notes([*watched[room:], *others])


def _is_urgent(decision: Decision) -> bool:
    return decision.level.is_alerting or decision.assessment.is_fault


def _notes(hidden: Sequence[Decision]) -> list[str]:
    watched = [decision for decision in hidden if decision.level is Level.WATCH]
    calm = [decision for decision in hidden if decision.level is Level.OK]
    asides = Counter(
        UNKNOWN_WORDS[decision.assessment.unknown_reason]
        for decision in hidden
        if decision.assessment.unknown_reason is not None
    )
    notes = [f"and {len(watched):,} more at watch, lowest {_lowest(watched)}"] if watched else []
    notes += [f"and {_volumes(len(calm), 'calm')}, lowest {_lowest(calm)}"] if calm else []
    if asides:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in asides.most_common())
        notes.append(f"and {_volumes(asides.total(), 'unwatched')}: {reasons}")
    return [*notes, "(--all shows everything)"]


def _volumes(count: int, adjective: str) -> str:
    return f"{count:,} {adjective} volume{'' if count == 1 else 's'}"


def _lowest(decisions: Iterable[Decision]) -> str:
    return _percent(min(d.assessment.balance_pct for d in decisions if d.assessment.balance_pct is not None))


def _wide_line(decision: Decision, now_s: float, bar: str | None, dry_columns: int | None) -> list[Cell]:
    assessment = decision.assessment
    drain = assessment.forecast.drain_per_s if assessment.forecast else None
    style = _style(decision)
    return [
        Cell(level_word(decision), style),
        Cell(assessment.volume.volume_id),
        Cell(shown_name(decision)),
        Cell(_balance(decision, bar), _bar_style(style)),
        Cell(dry_words(decision, now_s, dry_columns), "" if decision.level.is_alerting else "dim"),
        Cell("" if drain is None else f"{drain:,.0f}".replace("-0", "0")),
        Cell(f"{assessment.baseline_iops:,}" if assessment.volume.is_gp2 else ""),
        Cell(f"{assessment.volume.size_gib:,}"),
        Cell(assessment.volume.instance_id or "", "dim"),
    ]


def _narrow_lines(decision: Decision, report: Report, bar: str | None) -> list[list[Cell]]:
    assessment = decision.assessment
    style, name = _style(decision), shown_name(decision)
    dry = dry_words(decision, report.now_s, _DRY_COLUMNS)
    mark = mark_of(decision, report)
    is_calm = not (mark or _is_urgent(decision) or decision.level is Level.WATCH)
    if is_calm and name:
        dry = f"{dry} ({shown_name(decision, _DRY_COLUMNS - len(dry) - 3)})"
    first = [
        Cell(level_word(decision), style),
        Cell(assessment.volume.volume_id),
        Cell(_balance(decision, bar), _bar_style(style)),
        Cell(cut(dry, _DRY_COLUMNS), "" if decision.level.is_alerting else "dim"),
    ]
    if is_calm:
        return [first]
    second = [
        Cell(""),
        Cell(
            shown_name(decision, _VOLUME_COLUMNS) or cut(assessment.volume.instance_id or "", _VOLUME_COLUMNS)
        ),
        Cell(f"{assessment.volume.size_gib:,} GiB", "dim"),
        Cell(cut(mark, _DRY_COLUMNS), MARK_STYLE) if mark else Cell(_flow(decision), "dim"),
    ]
    return [first, second]


def _flow(decision: Decision) -> str:
    assessment = decision.assessment
    drain = assessment.forecast.drain_per_s if assessment.forecast else None
    baseline = f"baseline {assessment.baseline_iops:,}"
    if decision.level is Level.EXHAUSTED and not decision.is_changing:
        return f"pinned to {baseline}"
    if drain is None or not round(drain):
        return baseline
    return f"{'drains' if drain > 0 else 'refills'} {abs(drain):,.0f}/s, {baseline}"


def _style(decision: Decision) -> str:
    if decision.is_changing:
        return CHANGING_STYLE
    return FAULT_STYLE if decision.assessment.is_fault else STYLES[decision.level]


def _bar_style(style: str) -> str:
    return "bold red" if style == STYLES[Level.EXHAUSTED] else style


def _balance(decision: Decision, bar: str | None) -> str:
    balance_pct = decision.assessment.balance_pct
    if balance_pct is None:
        return ""
    drawn = f"{draw_bar(balance_pct, _BAR_CELLS, bar)} " if bar else ""
    return f"{drawn}{_percent(balance_pct):>7}"


def draw_bar(balance_pct: float, cells: int, characters: str) -> str:
    """So much of a bar is filled; what is between the first and the last character are its finer steps."""
    empty, steps = characters[0], characters[1:]
    filled = round(balance_pct / 100 * cells * len(steps))
    full, rest = divmod(filled, len(steps))
    drawn = steps[-1] * full + (steps[rest - 1] if rest else "")
    return drawn + empty * (cells - len(drawn))


def _percent(balance_pct: float) -> str:
    return f"{balance_pct:.1f} %"


def _pad(text: str, width: int, *, to_the_right: bool) -> str:
    blank = " " * (width - columns(text))
    return blank + text if to_the_right else text + blank

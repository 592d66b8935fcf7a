"""What a doctor found, for people: what is broken first, with what mends it; then the rest by its groups."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from burstctl.cli.output import takes_colours
from burstctl.cli.text_layout import COLUMNS, hang
from burstctl.doctor.finding import Finding, Verdict
from burstctl.doctor.line import Line
from burstctl.doctor.runner import Checked
from burstwatch.core.text import columns, fill, printable

_MARKS: Final = {
    Verdict.BROKEN: "BROKEN",
    Verdict.WARNING: "WARNING",
    Verdict.OK: "ok",
    Verdict.SKIPPED: "skipped",
}
"""Readable without any colour."""

_STYLES: Final = {
    Verdict.BROKEN: "bold red",
    Verdict.WARNING: "yellow",
    Verdict.OK: "green",
    Verdict.SKIPPED: "dim",
}
_URGENT: Final = (Verdict.BROKEN, Verdict.WARNING)
_MARK_COLUMNS: Final = 9
_NAME_COLUMNS: Final = 15
_DEEP: Final = 6
_LONGEST: Final = 600
_MOST_ABOUT: Final = 12
_COMMAND_COLUMNS: Final = COLUMNS - 8
_WORD: Final = re.compile(r"(?:'[^']*'|[^ '])+")
"""A word of a command: blanks inside quotes belong to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """Findings that differ only in what they are about, or in the check that made them."""

    finding: Finding
    checks: Sequence[str]
    abouts: Sequence[str]


def in_words(checked: Sequence[Checked]) -> list[Line]:
    """Everything, in lines of at most 80 columns but for what is to be pasted."""
    told = _merge(checked)
    lines: list[Line] = []
    for verdict in _URGENT:
        for each in told:
            if each.finding.verdict is verdict:
                lines += [*_urgent_lines(each), Line("")]
    groups = {each.check.name: str(each.check.group) for each in checked}
    calm = [each for each in told if each.finding.verdict not in _URGENT]
    for group, members in groupby(calm, key=lambda each: groups[each.checks[0]]):
        lines += [Line(group.capitalize(), "bold", len(group))]
        lines += [line for each in members for line in _calm_lines(each)]
    return lines[:-1] if lines and not lines[-1].text else lines


def render(lines: Iterable[Line]) -> str:
    """The lines as this terminal shows them, or plain where there is none."""
    if not takes_colours():
        return "\n".join(line.text for line in lines)
    from burstctl.doctor.colours import paint  # noqa: PLC0415 - rich is for screens only

    return paint(lines)


def totals_in_words(checked: Sequence[Checked]) -> str:
    """``1 broken, 2 warnings, 14 ok, 3 skipped``."""
    verdicts = [finding.verdict for each in checked for finding in each.findings]
    counts = {verdict: verdicts.count(verdict) for verdict in Verdict}
    words = {Verdict.WARNING: "warning" if counts[Verdict.WARNING] == 1 else "warnings"}
    said = [f"{count:,} {words.get(verdict, verdict)}" for verdict, count in counts.items() if count]
    return ", ".join(said)


def _merge(checked: Sequence[Checked]) -> list[_Told]:
    """What says the same is told once; within a check all of it, across checks what is bad or unknown."""
    found: dict[object, _Told] = {}
    for each in checked:
        for finding in each.findings:
            own = each.check.name if finding.verdict is Verdict.OK else ""
            key = (own, replace(finding, about=""))
            known = found.get(key)
            found[key] = _Told(
                finding=finding,
                checks=_with(known.checks if known else (), each.check.name),
                abouts=_with(known.abouts if known else (), finding.about),
            )
    return list(found.values())


def _with(known: Sequence[str], one: str) -> Sequence[str]:
    return known if not one or one in known else (*known, one)


def _urgent_lines(told: _Told) -> Iterator[Line]:
    mark = _MARKS[told.finding.verdict]
    head = f"{mark:{_MARK_COLUMNS}}{', '.join(told.checks)}"
    for index, line in enumerate(hang(head, COLUMNS)):
        yield Line(line, _STYLES[told.finding.verdict] if not index else "", len(mark))
    yield from _indented(_sentence(told), 4)
    if told.finding.fix:
        yield from _indented(f"To mend it: {_shown(told.finding.fix)}", 4)
    for command in told.finding.commands:
        yield from (Line(f"      {line}") for line in _pasteable(command))
    if told.finding.page:
        yield Line(f"      see {told.finding.page}")


def _calm_lines(told: _Told) -> Iterator[Line]:
    mark, said = _MARKS[told.finding.verdict], _sentence(told)
    first = f"  {mark:{_MARK_COLUMNS}}"
    if len(told.checks) == 1:
        first += f"{told.checks[0]:{_NAME_COLUMNS}}"
    else:
        said = f"{', '.join(told.checks)}: {said}"
    style, indent, words = _STYLES[told.finding.verdict], len(first), said.split()
    if max(map(columns, words), default=0) > COLUMNS - indent:  # a path, which is of no use in two pieces
        yield Line(first.rstrip(), style, len(mark) + 2)
        first, style, indent = " " * _DEEP, "", _DEEP
    lines = fill(words, COLUMNS - indent)
    if told.finding.fix:
        lines += hang(f"-> {_shown(told.finding.fix)}", COLUMNS - indent)
    yield Line(f"{first}{lines[0]}", style, len(mark) + 2)
    for line in lines[1:]:
        yield Line(f"{'':{indent}}{line}")


def _sentence(told: _Told) -> str:
    more = len(told.abouts) - _MOST_ABOUT
    abouts = [_shown(each) for each in told.abouts[:_MOST_ABOUT]]
    if more > 0:
        abouts.append(f"{more:,} more")
    seen = _shown(told.finding.seen)
    return f"{', '.join(abouts)}: {seen}" if abouts else seen


def _shown(text: str) -> str:
    return printable(text, _LONGEST)


def _indented(text: str, by: int) -> Iterator[Line]:
    for line in fill(text.split(), COLUMNS - by):
        yield Line(f"{' ' * by}{line}")


def _pasteable(command: str) -> list[str]:
    """A command on as many lines as it takes, each but the last continued; no word of it is broken."""
    first, *words = _WORD.findall(printable(command, 4 * _LONGEST))
    lines = [first]
    for word in words:
        if columns(f"{lines[-1]} {word}") <= _COMMAND_COLUMNS:
            lines[-1] += f" {word}"
        else:
            lines.append(f"    {word}")
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]

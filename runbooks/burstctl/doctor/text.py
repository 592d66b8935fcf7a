"""The findings as text: faults first, each with its fix, then the others by group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, TypeAlias

from burstctl.cli.options import describe_page
from burstctl.cli.styled_text import StyledText
from burstctl.cli.text_layout import text_columns, wrap_command, wrap_hanging
from burstctl.doctor.finding import CheckStatus, Finding
from burstctl.doctor.runner import CheckResult
from burstwatch.core.text import display_width, sanitise, wrap

_VERDICT_LABELS: Final = {
    CheckStatus.BROKEN: "BROKEN",
    CheckStatus.WARNING: "WARNING",
    CheckStatus.OK: "ok",
    CheckStatus.SKIPPED: "skipped",
}
"""Readable without any colour."""

_VERDICT_STYLES: Final = {
    CheckStatus.BROKEN: "bold red",
    CheckStatus.WARNING: "yellow",
    CheckStatus.OK: "green",
    CheckStatus.SKIPPED: "dim",
}
URGENT: Final = (CheckStatus.BROKEN, CheckStatus.WARNING)
# layout: the columns of a line, and how much of a long text or list is shown
_LABEL_COLUMNS: Final = 9
_NAME_COLUMNS: Final = 15
_DEEP_INDENT: Final = 6
_MAX_TEXT_LENGTH: Final = 600
_MAX_SUBJECTS: Final = 12


_Line: TypeAlias = Sequence[StyledText]


@dataclass(frozen=True, slots=True, kw_only=True)
class _MergedFinding:
    """Findings that differ only in what they are about, or in the check that made them."""

    finding: Finding
    checks: Sequence[str]
    subjects: Sequence[str]


def to_lines(results: Sequence[CheckResult]) -> list[_Line]:
    """Everything, in lines of at most 80 columns but for what is to be pasted, such as a long path."""
    merged = _merge(results)
    lines: list[_Line] = []
    for verdict in URGENT:
        for item in merged:
            if item.finding.verdict is verdict:
                lines += [*_urgent_lines(item), _styled("")]
    groups = {item.check.name: str(item.check.group) for item in results}
    not_urgent = [item for item in merged if item.finding.verdict not in URGENT]
    for group, members in groupby(not_urgent, key=lambda item: groups[item.checks[0]]):
        lines += [_styled(group.capitalize(), "bold", len(group))]
        lines += [line for item in members for line in _other_lines(item)]
    return lines[:-1] if lines and not any(part.text for part in lines[-1]) else lines


def describe_totals(results: Sequence[CheckResult]) -> str:
    """``1 broken, 2 warnings, 14 ok, 3 skipped``."""
    verdicts = [finding.verdict for result in results for finding in result.findings]
    counts = {verdict: verdicts.count(verdict) for verdict in CheckStatus}
    labels = {CheckStatus.WARNING: "warning" if counts[CheckStatus.WARNING] == 1 else "warnings"}
    parts = [f"{count:,} {labels.get(verdict, verdict)}" for verdict, count in counts.items() if count]
    return ", ".join(parts)


def _styled(text: str, style: str = "", styled_chars: int = 0) -> _Line:
    """A line whose first characters have a style."""
    return StyledText(text[:styled_chars], style), StyledText(text[styled_chars:])


def _merge(results: Sequence[CheckResult]) -> list[_MergedFinding]:
    """Merge equal findings: all of them within a check, across checks only faults and unknown results."""
    merged: dict[object, _MergedFinding] = {}
    for result in results:
        for finding in result.findings:
            check_name = result.check.name if finding.verdict is CheckStatus.OK else ""
            key = (check_name, replace(finding, subject=""))
            earlier = merged.get(key)
            merged[key] = _MergedFinding(
                finding=finding,
                checks=_append_new(earlier.checks if earlier else (), result.check.name),
                subjects=_append_new(earlier.subjects if earlier else (), finding.subject),
            )
    return list(merged.values())


def _append_new(items: Sequence[str], item: str) -> Sequence[str]:
    return items if not item or item in items else (*items, item)


def _urgent_lines(merged: _MergedFinding) -> Iterator[_Line]:
    label = _VERDICT_LABELS[merged.finding.verdict]
    head = f"{label:{_LABEL_COLUMNS}}{', '.join(merged.checks)}"
    for index, line in enumerate(wrap_hanging(head, text_columns())):
        yield _styled(line, _VERDICT_STYLES[merged.finding.verdict] if not index else "", len(label))
    yield from _indent(_describe(merged), 4)
    if merged.finding.fix:
        yield from _indent(f"To fix it:  {_sanitise(merged.finding.fix)}", 4)
    for command in merged.finding.commands:
        yield from (
            _styled(f"      {line}") for line in wrap_command(_sanitise_command(command), text_columns() - 6)
        )
    if merged.finding.page:
        yield _styled(f"      see {describe_page(merged.finding.page)}")


def _other_lines(merged: _MergedFinding) -> Iterator[_Line]:
    label, sentence = _VERDICT_LABELS[merged.finding.verdict], _describe(merged)
    first = f"  {label:{_LABEL_COLUMNS}}"
    if len(merged.checks) == 1:
        first += f"{merged.checks[0]:{_NAME_COLUMNS}}"
    else:
        sentence = f"{', '.join(merged.checks)}: {sentence}"
    style, indent, parts = _VERDICT_STYLES[merged.finding.verdict], len(first), sentence.split()
    if (
        max(map(display_width, parts), default=0) > text_columns() - indent
    ):  # a path, which is of no use in two pieces
        yield _styled(first.rstrip(), style, len(label) + 2)
        first, style, indent = " " * _DEEP_INDENT, "", _DEEP_INDENT
    lines = wrap(parts, text_columns() - indent, breaks_words=False)
    if merged.finding.fix:
        lines += wrap_hanging(f"-> {_sanitise(merged.finding.fix)}", text_columns() - indent)
    yield _styled(f"{first}{lines[0]}", style, len(label) + 2)
    for line in lines[1:]:
        yield _styled(f"{'':{indent}}{line}")


def _describe(merged: _MergedFinding) -> str:
    hidden = len(merged.subjects) - _MAX_SUBJECTS
    subjects = [_sanitise(subject) for subject in merged.subjects[:_MAX_SUBJECTS]]
    if hidden > 0:
        subjects.append(f"{hidden:,} more")
    summary = _sanitise(merged.finding.summary)
    return f"{', '.join(subjects)}: {summary}" if subjects else summary


def _sanitise(text: str) -> str:
    return sanitise(text, _MAX_TEXT_LENGTH)


def _sanitise_command(command: str) -> str:
    return sanitise(command, 4 * _MAX_TEXT_LENGTH)


def _indent(text: str, indent: int) -> Iterator[_Line]:
    for line in wrap(text.split(), text_columns() - indent, breaks_words=False):
        yield _styled(f"{' ' * indent}{line}")

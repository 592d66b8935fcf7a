"""Scenarios and their results as values, and the table of them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

BEGIN: Final = "<!-- table: begin -->"
END: Final = "<!-- table: end -->"
COLUMNS: Final = 80
HEALTHY: Final = "well"
UNHEALTHY: Final = "sick"
_ALARMS: Final = ("warn", "crit")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRun:
    """What one run of the probe reported; ``truth`` is SICK, WELL, or None if neither would be wrong.

    ``reading`` is its JSON, empty if it printed nothing; ``is_about_tested_disk`` is whether it is about the
    disk under test.
    """

    verdict: str
    cause: str
    code: int | None
    duration_s: float
    truth: str | None = None
    reading: dict[str, Any] = field(default_factory=dict)
    output: str = ""
    is_about_tested_disk: bool = True

    @property
    def is_false_ok(self) -> bool:
        """Whether processes wait for the disk, and the probe reports it as healthy or exits with 0."""
        return self.truth == UNHEALTHY and (self.verdict == "ok" or self.code == 0)

    @property
    def is_false_crit(self) -> bool:
        """CRIT of a disk that is healthy or cannot be measured; or an alarm about another disk."""
        is_about_other_disk = (
            self.truth == UNHEALTHY and self.verdict in _ALARMS and not self.is_about_tested_disk
        )
        return is_about_other_disk or (self.truth == HEALTHY and self.verdict == "crit")

    @property
    def verdict_and_cause(self) -> str:
        """Verdict and cause; probes whose log is elsewhere leave no reading."""
        return f"{self.verdict.upper()} {self.cause}" if self.verdict else "no reading"

    def __str__(self) -> str:
        if self.code is None:
            return f"no answer in {self.duration_s:.0f} s"
        seconds = self.reading.get("dd_s")
        dd = f" (dd {seconds:.3g} s)" if seconds is not None else ""
        return f"{self.verdict_and_cause}{dd}, exit {self.code}, {self.duration_s:.1f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A row of the table; ``held`` is None for one that could not be run here, and ``got`` is the reason."""

    name: str
    scenario: str
    expected: str
    got: str
    held: bool | None
    took_s: float = 0.0
    false_ok: int = 0
    false_crit: int = 0
    processes_left: int = 0

    @property
    def held_text(self) -> str:
        return {True: "yes", False: "NO", None: "not run"}[self.held]


def summarise_runs(probe_runs: Sequence[ProbeRun], notes: Sequence[str]) -> str:
    """Runs and notes in one cell; runs that said the same are counted."""
    counts = Counter(f"{probe_run.verdict_and_cause}, exit {probe_run.code}" for probe_run in probe_runs)
    if len(probe_runs) > 4:  # noqa: PLR2004 - as many as fit a cell
        longest_s = max(probe_run.duration_s for probe_run in probe_runs)
        texts = [f"{count} times {text}" for text, count in counts.items()] + [f"up to {longest_s:.1f} s"]
    else:
        texts = [str(probe_run) for probe_run in probe_runs]
    return "; ".join([*texts, *notes])


def count_results(results: Sequence[Result]) -> dict[str, int]:
    """The counts that a run of the table comes down to."""
    return {
        "scenarios": len(results),
        "as_expected": sum(result.held is True for result in results),
        "not_as_expected": sum(result.held is False for result in results),
        "not_run": sum(result.held is None for result in results),
        "false_ok": sum(result.false_ok for result in results),
        "false_crit": sum(result.false_crit for result in results),
        "processes_left": sum(result.processes_left for result in results),
    }


def format_counts(results: Sequence[Result]) -> str:
    """The same in words."""
    counts = count_results(results)
    return (
        f"{counts['as_expected']} of {counts['scenarios']} as expected, {counts['not_as_expected']} not, "
        f"{counts['not_run']} not run here.\nFalse OK: {counts['false_ok']}. "
        f"False CRIT: {counts['false_crit']}. Processes left: {counts['processes_left']}."
    )


def to_markdown(results: Sequence[Result], environment: str) -> str:
    """The table as it is in the page, between its two marks."""
    header = ["| Scenario | Expected | Got | As expected |", "| --- | --- | --- | --- |"]
    rows = [
        f"| {_escape_cell(result.scenario)} | {_escape_cell(result.expected)} | {_escape_cell(result.got)} |"
        f" {result.held_text} |"
        for result in results
    ]
    lines = [BEGIN, environment, "", *format_counts(results).splitlines(), "", *header, *rows, END]
    return "\n".join(lines) + "\n"


def replace_table(page: str, table: str) -> str:
    """The page with its table replaced, or appended if the page has no table."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        return f"{page.rstrip()}\n\n{table}".lstrip()
    return before + table.rstrip("\n") + after


def format_lines(results: Iterable[Result]) -> list[str]:
    """A line for each row, of 80 columns at most; what is not as expected shows what it got."""
    formatted = []
    for result in results:
        formatted.append(f"{result.held_text:8}{result.name[: COLUMNS - 8]}")
        if not result.held:
            formatted += [f"{'':8}{part}" for part in _wrap(result.got, COLUMNS - 8)]
    return formatted


def _wrap(text: str, width: int) -> list[str]:
    rows, row = [], ""
    for word in text.split():
        if row and len(row) + 1 + len(word) > width:
            rows.append(row)
            row = ""
        row = f"{row} {word[:width]}".strip()
    return [*rows, row]


def _escape_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

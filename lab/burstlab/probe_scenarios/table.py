"""Scenarios and their results as values, and the table that is made of them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

BEGIN: Final = "<!-- table: begin -->"
END: Final = "<!-- table: end -->"
COLUMNS: Final = 80
WELL: Final = "well"
SICK: Final = "sick"
_ALARMS: Final = ("warn", "crit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one start of the probe said; ``truth`` is SICK, WELL, or None where neither would be wrong.

    ``reading`` is its JSON, empty where it left none; ``is_about`` is whether that names the disk under test.
    """

    verdict: str
    cause: str
    code: int | None
    took_s: float
    truth: str | None = None
    reading: dict[str, Any] = field(default_factory=dict)
    said: str = ""
    is_about: bool = True

    @property
    def is_false_ok(self) -> bool:
        """A disk that people wait for, and the probe calls it healthy or exits with 0."""
        return self.truth == SICK and (self.verdict == "ok" or self.code == 0)

    @property
    def is_false_crit(self) -> bool:
        """CRIT of a disk that is healthy or cannot be measured; or an alarm about another disk."""
        elsewhere = self.truth == SICK and self.verdict in _ALARMS and not self.is_about
        return elsewhere or (self.truth == WELL and self.verdict == "crit")

    @property
    def answer(self) -> str:
        """Verdict and cause; probes whose log is elsewhere leave no reading."""
        return f"{self.verdict.upper()} {self.cause}" if self.verdict else "no reading"

    def __str__(self) -> str:
        if self.code is None:
            return f"no answer in {self.took_s:.0f} s"
        seconds = self.reading.get("dd_s")
        dd = f" (dd {seconds:.3g} s)" if seconds is not None else ""
        return f"{self.answer}{dd}, exit {self.code}, {self.took_s:.1f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A row of the table; ``held`` is None for one that could not be run here, and ``got`` says why."""

    name: str
    scenario: str
    expected: str
    got: str
    held: bool | None
    took_s: float = 0.0
    false_ok: int = 0
    false_crit: int = 0
    left: int = 0

    @property
    def word(self) -> str:
        return {True: "yes", False: "NO", None: "not run"}[self.held]


def shown_runs(seen: Sequence[Seen], notes: Sequence[str]) -> str:
    """Runs and notes in one cell; runs that said the same are counted."""
    counted = Counter(f"{each.answer}, exit {each.code}" for each in seen)
    if len(seen) > 4:  # noqa: PLR2004 - as many as fit a cell
        longest_s = max(each.took_s for each in seen)
        shown = [f"{count} times {words}" for words, count in counted.items()] + [f"up to {longest_s:.1f} s"]
    else:
        shown = [str(each) for each in seen]
    return "; ".join([*shown, *notes])


def summary(results: Sequence[Result]) -> dict[str, int]:
    """The counts that a run of the table comes down to."""
    return {
        "scenarios": len(results),
        "as_expected": sum(each.held is True for each in results),
        "not_as_expected": sum(each.held is False for each in results),
        "not_run": sum(each.held is None for each in results),
        "false_ok": sum(each.false_ok for each in results),
        "false_crit": sum(each.false_crit for each in results),
        "processes_left": sum(each.left for each in results),
    }


def summary_line(results: Sequence[Result]) -> str:
    """The same in words."""
    counts = summary(results)
    return (
        f"{counts['as_expected']} of {counts['scenarios']} as expected, {counts['not_as_expected']} not, "
        f"{counts['not_run']} not run here.\nFalse OK: {counts['false_ok']}. "
        f"False CRIT: {counts['false_crit']}. Processes left: {counts['processes_left']}."
    )


def markdown(results: Sequence[Result], about: str) -> str:
    """The table as it stands on the page, between its two marks."""
    head = ["| Scenario | Expected | Got | As expected |", "| --- | --- | --- | --- |"]
    rows = [
        f"| {_cell(each.scenario)} | {_cell(each.expected)} | {_cell(each.got)} | {each.word} |"
        for each in results
    ]
    lines = [BEGIN, about, "", *summary_line(results).splitlines(), "", *head, *rows, END]
    return "\n".join(lines) + "\n"


def replaced(page: str, table: str) -> str:
    """The page with its table replaced, or appended where there is none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        return f"{page.rstrip()}\n\n{table}".lstrip()
    return before + table.rstrip("\n") + after


def lines(results: Iterable[Result]) -> list[str]:
    """A line for each row, of 80 columns at most; what is not as expected shows what it got."""
    shown = []
    for each in results:
        shown.append(f"{each.word:8}{each.name[: COLUMNS - 8]}")
        if not each.held:
            shown += [f"{'':8}{part}" for part in _wrapped(each.got, COLUMNS - 8)]
    return shown


def _wrapped(text: str, width: int) -> list[str]:
    rows, row = [], ""
    for word in text.split():
        if row and len(row) + 1 + len(word) > width:
            rows.append(row)
            row = ""
        row = f"{row} {word[:width]}".strip()
    return [*rows, row]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

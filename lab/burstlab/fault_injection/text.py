"""The campaign as a table of at most 80 columns, and as a document for programs."""

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich import box
from rich.markup import escape
from rich.table import Table

from burstlab.fault_injection.effects import COLUMNS, column_of
from burstlab.fault_injection.runs import Campaign, Outcome, strikes
from burstwatch.core.text import format_duration

SCHEMA: Final = "burstwatch.faults/v1"

_LONGEST_NAME: Final = 25
"""What leaves room for the cells."""


def table(told: Campaign) -> Table:
    """Rows are effects and how many, columns kinds of faults, cells runs and the violations in them."""
    found = Table(
        title=f"{told.house}: runs, and /violations where there are any",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=0,
    )
    for name, justify in (("effect", "left"), ("#", "right"), *((each, "right") for each in COLUMNS)):
        found.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    operations = list(dict.fromkeys(effect.operation for effect in told.clean.effects))
    times = Counter(effect.operation for effect in told.clean.effects)
    cells = _cells(told.outcomes)
    for operation in sorted(operations):
        row = [cells[operation, column] for column in COLUMNS]
        if any(row):
            found.add_row(_short(operation), str(times[operation]), *map(_cell, row))
    total = [sum_of(cells[operation, column] for operation in operations) for column in COLUMNS]
    found.add_section()
    found.add_row("all", str(len(told.clean.effects)), *map(_cell, total))
    return found


def _short(operation: str) -> str:
    return operation if len(operation) <= _LONGEST_NAME else f"{operation[: _LONGEST_NAME - 1]}…"


def _cells(outcomes: Iterable[Outcome]) -> defaultdict[tuple[str, str], list[int]]:
    """Runs and violations by effect and column."""
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for outcome in outcomes:
        key = outcome.strike.effect.split(" #")[0], column_of(outcome.strike.fault)
        runs, bad = found[key] or [0, 0]
        found[key] = [runs + 1, bad + bool(outcome.violations)]
    return found


def sum_of(cells: Iterable[Sequence[int]]) -> list[int]:
    """Cells put together; empty where all are."""
    filled = [cell for cell in cells if cell]
    return [sum(cell[0] for cell in filled), sum(cell[1] for cell in filled)] if filled else []


def _cell(cell: Sequence[int]) -> str:
    if not cell:
        return "-"
    runs, bad = cell
    return f"[bold red]{runs}/{bad}[/]" if bad else f"{runs}"


def sentences(told: Campaign) -> list[str]:
    """What it came to, in a few lines."""
    effects, outcomes = told.clean.effects, told.outcomes
    longest = max(outcomes, key=lambda one: one.longest_s, default=None)
    took_s = sum(one.seconds for one in outcomes)
    lasts_min = (told.clean.ended_s - told.clean.begins_s) // 60
    story = f"a story of {lasts_min} minutes with {len(effects):,} effects"
    took = f"{format_duration(took_s)} of processor"
    said = [f"{len(outcomes):,} runs of {story} took {took}: {len(told.broken):,} broke a law."]
    if len(outcomes) < (every := len(strikes(effects))):
        said.append(f"That is not all of it: {every:,} runs are.")
    if longest is not None and longest.longest_s > 0:
        what = f"{longest.strike.effect}, {longest.strike.fault}"
        said.append(f"The longest that anything came late was {longest.longest_s} s ({what}).")
    return said


def senseless(told: Campaign) -> Table:
    """What was not played because it cannot be, and why."""
    found = Table(
        title=f"{told.house}: not played, and why",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in ("faults", "effects", "why"):
        found.add_column(name, overflow="fold")
    for (faults, why), operations in _reasons(told).items():
        found.add_row(", ".join(faults), ", ".join(sorted(operations)), why)
    return found


def _reasons(told: Campaign) -> dict[tuple[tuple[str, ...], str], list[str]]:
    """Effects by the faults that make no sense for them, and why."""
    found: dict[tuple[str, str], set[str]] = {}
    for effect in told.clean.effects:
        for fault, why in effect.senseless.items():
            found.setdefault((effect.operation, why), set()).add(str(fault))
    grouped: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (operation, why), faults in found.items():
        grouped.setdefault((tuple(sorted(faults)), why), []).append(operation)
    return dict(sorted(grouped.items()))


def complaint(house: str, outcome: Outcome) -> str:
    """A run that broke a law: which, where, and how to play it again."""
    effect, fault = outcome.strike
    lines = [f"{house}: {effect}, {fault}"]
    lines += [f"  {law}: {said}" for law, all_said in outcome.violations.items() for said in all_said]
    again = shlex.join(["burstlab", "faults", "--on", house, "--only", effect, "--fault", str(fault)])
    return escape("\n".join([*lines, f"  again: {again}"]))


def document(campaigns: Sequence[Campaign]) -> dict[str, Any]:
    """For programs, in the schema ``burstwatch.faults/v1``."""
    return {"schema": SCHEMA, "campaigns": [_document(each) for each in campaigns]}


def _document(told: Campaign) -> dict[str, Any]:
    return {
        "on": told.house,
        "story_s": told.clean.ended_s - told.clean.begins_s,
        "runs": len(told.outcomes),
        "runs_in_all": len(strikes(told.clean.effects)),
        "violations": len(told.broken),
        "processor_s": round(sum(one.seconds for one in told.outcomes), 1),
        "longest_delay_s": max((one.longest_s for one in told.outcomes), default=0),
        "effects": [
            {
                "effect": effect.name,
                "at_s": effect.at_s - told.clean.begins_s,
                "process": effect.process,
                "about": sorted(effect.about),
                "faults": [str(fault) for fault in effect.faults],
                "senseless": {str(fault): why for fault, why in effect.senseless.items()},
            }
            for effect in told.clean.effects
        ],
        "broken": [
            {
                "effect": outcome.strike.effect,
                "fault": str(outcome.strike.fault),
                "violations": outcome.violations,
            }
            for outcome in told.broken
        ],
    }

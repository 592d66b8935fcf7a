"""The campaign as a table of at most 80 columns, and as a document for programs."""

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.markup import escape
from rich.table import Table

from burstlab.fault_injection.effects import COLUMNS, column_of
from burstlab.fault_injection.runs import Campaign, RunOutcome, list_injectable_faults
from burstlab.output import make_table
from burstwatch.core.text import format_duration

SCHEMA: Final = "burstwatch.faults/v1"
_JSON_KEYS: Final = {
    "original_is_recorded": "the_original_is_known",
    "no_request_out_of_scope": "never_out_of_scope",
    "delays_stay_bounded": "none_is_held_back",
    "failed_delivery_delays_no_flip": "no_way_to_people_delays_a_flip",
    "lost_reads_delay_by_minutes": "a_blind_watchdog_is_late_by_no_more",
    "no_volume_becomes_empty": "none_runs_dry",
    "ledger_agrees_with_aws": "the_ledger_is_true",
    "no_false_alert": "no_false_word",
    "everything_settles": "all_comes_to_rest",
    "no_internal_errors": "no_mistake_of_ours",
}
"""The JSON keys that differ from the names of their invariants."""

_MAX_NAME_CHARS: Final = 25
"""What leaves room for the cells."""


def build_table(campaign: Campaign) -> Table:
    """Rows are effects and their number, columns kinds of faults, cells runs and the violations in them."""
    result_table = make_table(
        f"{campaign.deployment}: runs, and /violations if there are any",
        {"effect": "left", **dict.fromkeys(("#", *COLUMNS), "right")},
        show_edge=False,
        padding=0,
    )
    operations = list(dict.fromkeys(effect.operation for effect in campaign.clean.effects))
    effect_counts = Counter(effect.operation for effect in campaign.clean.effects)
    cells = _count_cells(campaign.outcomes)
    for operation in sorted(operations):
        row = [cells[operation, column] for column in COLUMNS]
        if any(row):
            result_table.add_row(_truncate(operation), str(effect_counts[operation]), *map(_format_cell, row))
    total = [sum_cells(cells[operation, column] for operation in operations) for column in COLUMNS]
    result_table.add_section()
    result_table.add_row("all", str(len(campaign.clean.effects)), *map(_format_cell, total))
    return result_table


def _truncate(operation: str) -> str:
    return operation if len(operation) <= _MAX_NAME_CHARS else f"{operation[: _MAX_NAME_CHARS - 1]}…"


def _count_cells(outcomes: Iterable[RunOutcome]) -> defaultdict[tuple[str, str], list[int]]:
    """Runs and violations by effect and column."""
    cells: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for outcome in outcomes:
        key = outcome.injected_fault.effect.split(" #")[0], column_of(outcome.injected_fault.fault)
        runs, violation_count = cells[key] or [0, 0]
        cells[key] = [runs + 1, violation_count + bool(outcome.violations)]
    return cells


def sum_cells(cells: Iterable[Sequence[int]]) -> list[int]:
    """Cells put together; empty if all are."""
    filled = [cell for cell in cells if cell]
    return [sum(cell[0] for cell in filled), sum(cell[1] for cell in filled)] if filled else []


def _format_cell(cell: Sequence[int]) -> str:
    if not cell:
        return "-"
    runs, violation_count = cell
    return f"[bold red]{runs}/{violation_count}[/]" if violation_count else f"{runs}"


def summarise(campaign: Campaign) -> list[str]:
    """The results in a few lines."""
    effects, outcomes = campaign.clean.effects, campaign.outcomes
    longest = max(outcomes, key=lambda outcome: outcome.longest_delay_s, default=None)
    cpu_s = sum(outcome.cpu_s for outcome in outcomes)
    duration_min = (campaign.clean.ended_at_s - campaign.clean.started_at_s) // 60
    scenario_text = f"a scenario of {duration_min} minutes with {len(effects):,} effects"
    cpu_text = f"{format_duration(cpu_s)} of CPU time"
    failed_text = f"{len(campaign.failed_outcomes):,} broke an invariant"
    lines = [f"{len(outcomes):,} runs of {scenario_text} took {cpu_text}: {failed_text}."]
    if len(outcomes) < (injectable_count := len(list_injectable_faults(effects))):
        lines.append(f"This is a selection: {injectable_count:,} runs are possible.")
    if longest is not None and longest.longest_delay_s > 0:
        cause = f"{longest.injected_fault.effect}, {longest.injected_fault.fault}"
        lines.append(f"The longest delay of anything was {longest.longest_delay_s} s ({cause}).")
    return lines


def build_not_applicable_table(campaign: Campaign) -> Table:
    """The faults that do not apply, and why."""
    result_table = make_table(
        f"{campaign.deployment}: not applicable, and why",
        dict.fromkeys(("faults", "effects", "why"), "left"),
        overflow="fold",
    )
    for (faults, reason), operations in _group_not_applicable(campaign).items():
        result_table.add_row(", ".join(faults), ", ".join(sorted(operations)), reason)
    return result_table


def _group_not_applicable(campaign: Campaign) -> dict[tuple[tuple[str, ...], str], list[str]]:
    """Effects by the faults that do not apply to them, and why."""
    faults_by_reason: dict[tuple[str, str], set[str]] = {}
    for effect in campaign.clean.effects:
        for fault, reason in effect.not_applicable.items():
            faults_by_reason.setdefault((effect.operation, reason), set()).add(str(fault))
    grouped: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for (operation, reason), faults in faults_by_reason.items():
        grouped.setdefault((tuple(sorted(faults)), reason), []).append(operation)
    return dict(sorted(grouped.items()))


def describe_violation(deployment: str, outcome: RunOutcome) -> str:
    """A violation: the invariant, the effect, and the command that repeats the run."""
    effect, fault = outcome.injected_fault
    lines = [f"{deployment}: {effect}, {fault}"]
    lines += [
        f"  {invariant}: {sentence}"
        for invariant, violation_sentences in outcome.violations.items()
        for sentence in violation_sentences
    ]
    command = shlex.join(["burstlab", "faults", "--on", deployment, "--only", effect, "--fault", str(fault)])
    return escape("\n".join([*lines, f"  again: {command}"]))


def to_document(campaigns: Sequence[Campaign]) -> dict[str, Any]:
    """For programs, in the schema ``burstwatch.faults/v1``."""
    return {"schema": SCHEMA, "campaigns": [_campaign_document(campaign) for campaign in campaigns]}


def _campaign_document(campaign: Campaign) -> dict[str, Any]:
    return {
        "on": campaign.deployment,
        "story_s": campaign.clean.ended_at_s - campaign.clean.started_at_s,
        "runs": len(campaign.outcomes),
        "runs_in_all": len(list_injectable_faults(campaign.clean.effects)),
        "violations": len(campaign.failed_outcomes),
        "processor_s": round(sum(run_outcome.cpu_s for run_outcome in campaign.outcomes), 1),
        "longest_delay_s": max((run_outcome.longest_delay_s for run_outcome in campaign.outcomes), default=0),
        "effects": [
            {
                "effect": effect.name,
                "at_s": effect.at_s - campaign.clean.started_at_s,
                "process": effect.process,
                "about": sorted(effect.volume_ids),
                "faults": [str(fault) for fault in effect.faults],
                "senseless": {str(fault): reason for fault, reason in effect.not_applicable.items()},
            }
            for effect in campaign.clean.effects
        ],
        "broken": [
            {
                "effect": outcome.injected_fault.effect,
                "fault": str(outcome.injected_fault.fault),
                "violations": {
                    _JSON_KEYS.get(name, name): sentences for name, sentences in outcome.violations.items()
                },
            }
            for outcome in campaign.failed_outcomes
        ],
    }

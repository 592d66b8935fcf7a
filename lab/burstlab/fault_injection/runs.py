"""The whole campaign: the run without faults lists the effects; each of their faults has its own run."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from typing import Final

from burstlab.fault_injection.effects import Effect, InjectedFault, column_of
from burstlab.fault_injection.invariants import check_invariants, measure_delays
from burstlab.fault_injection.scenario import run_scenario
from burstlab.fault_injection.world import RunResult

_CHUNK: Final = 8  # a run takes well under a second: fewer hand-overs to the worker processes


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The result of one run; ``violations`` by invariant.

    ``longest_delay_s`` is the longest that anything was delayed.
    """

    injected_fault: InjectedFault
    violations: dict[str, list[str]]
    longest_delay_s: int
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """All runs against one way to run."""

    deployment: str
    clean: RunResult
    outcomes: Sequence[RunOutcome] = field(default=())

    @property
    def failed_outcomes(self) -> list[RunOutcome]:
        return [outcome for outcome in self.outcomes if outcome.violations]


class NoSuchFaultError(Exception):
    """There is no such effect, or it cannot have that fault."""


@cache
def run_without_faults(deployment: str) -> RunResult:
    """The run without faults, once for each process."""
    return run_scenario(deployment)


def list_injectable_faults(effects: Iterable[Effect]) -> list[InjectedFault]:
    """Every effect with all its possible faults."""
    return [InjectedFault(effect.name, fault) for effect in effects for fault in effect.faults]


def select_faults(clean: RunResult, only: str | None, fault: str | None) -> list[InjectedFault]:
    """Those of one effect, or of all that bear one name, and of one fault or of one column of the table.

    Raises:
    NoSuchFaultError: it does not exist; the message lists what exists.
    """
    injectable = list_injectable_faults(clean.effects)
    selected = [
        injectable_fault
        for injectable_fault in injectable
        if (only is None or only in (injectable_fault.effect, injectable_fault.effect.split(" #")[0]))
        and (fault is None or fault in (injectable_fault.fault, column_of(injectable_fault.fault)))
    ]
    if selected:
        return selected
    matching_effects = [effect for effect in clean.effects if only in (effect.name, effect.operation)]
    if only is not None and not matching_effects:
        known_operations = ", ".join(dict.fromkeys(effect.operation for effect in clean.effects))
        raise NoSuchFaultError(
            f"the story ({clean.deployment}) has no effect {only!r}: write one of {known_operations}, with a"
            " number after # for one alone"
        )
    reasons = (
        {effect.not_applicable[fault] for effect in matching_effects if fault in effect.not_applicable}
        if fault
        else set()
    )
    reason = f": {'; '.join(sorted(reasons))}" if reasons else ""
    raise NoSuchFaultError(f"{fault!r} cannot become of {only or 'anything'}{reason}")


def run_with_fault(deployment: str, injected_fault: InjectedFault) -> RunOutcome:
    """One run, judged."""
    return judge_run(injected_fault, run_scenario(deployment, injected_fault))


def judge_run(injected_fault: InjectedFault, run: RunResult) -> RunOutcome:
    """Judge a run with this fault by the one without faults."""
    clean = run_without_faults(run.deployment)
    violations = check_invariants(run, clean)
    if run.faulted_at_s is None:
        violations["it_was_struck"] = [
            f"{injected_fault.effect} did not happen: the run is not the same as the clean one"
        ]
    longest_s = max((delay_s for _, _, delay_s in measure_delays(run, clean)), default=0)
    return RunOutcome(
        injected_fault=injected_fault, violations=violations, longest_delay_s=longest_s, cpu_s=run.cpu_s
    )


def run_campaign(
    deployment: str,
    selected: Sequence[InjectedFault],
    *,
    workers: int,
    progress: Callable[[RunOutcome], None] = lambda _outcome: None,
) -> Campaign:
    """Run all selected faults."""
    outcomes = []
    for outcome in _run_all(deployment, selected, workers):
        outcomes.append(outcome)
        progress(outcome)
    return Campaign(deployment=deployment, clean=run_without_faults(deployment), outcomes=outcomes)


def _run_all(deployment: str, selected: Sequence[InjectedFault], workers: int) -> Iterator[RunOutcome]:
    if workers <= 1 or len(selected) <= 1:
        yield from (run_with_fault(deployment, injected_fault) for injected_fault in selected)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run_with_fault, [deployment] * len(selected), selected, chunksize=_CHUNK)

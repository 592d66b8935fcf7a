"""The whole campaign: the clean run tells what there is to strike, each of which has a run of its own."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from typing import Final

from burstlab.fault_injection.effects import Effect, Strike, column_of
from burstlab.fault_injection.invariants import delays, judge
from burstlab.fault_injection.scenario import play
from burstlab.fault_injection.world import Course

_CHUNK: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run came to: ``violations`` by law; ``longest_s`` is the longest that anything was delayed."""

    strike: Strike
    violations: dict[str, list[str]]
    longest_s: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """All runs against one way to run."""

    house: str
    clean: Course
    outcomes: Sequence[Outcome] = field(default=())

    @property
    def broken(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.violations]


class NothingToStrikeError(Exception):
    """There is no such effect, or that cannot become of it."""


@cache
def clean_run(house: str) -> Course:
    """The story in which all goes well, played once in a process."""
    return play(house)


def strikes(effects: Iterable[Effect]) -> list[Strike]:
    """Every effect with everything that can become of it."""
    return [Strike(effect.name, fault) for effect in effects for fault in effect.faults]


def chosen(clean: Course, only: str | None, fault: str | None) -> list[Strike]:
    """Those of one effect, or of all that bear one name, and of one fault or of one column of the table.

    Raises:
        NothingToStrikeError: there are none; says what there is.
    """
    every = strikes(clean.effects)
    found = [
        one
        for one in every
        if (only is None or only in (one.effect, one.effect.split(" #")[0]))
        and (fault is None or fault in (one.fault, column_of(one.fault)))
    ]
    if found:
        return found
    named = [effect for effect in clean.effects if only in (effect.name, effect.operation)]
    if only is not None and not named:
        known = ", ".join(dict.fromkeys(effect.operation for effect in clean.effects))
        raise NothingToStrikeError(
            f"the story ({clean.house}) has no effect {only!r}: write one of {known}, with a number after #"
            " for one alone"
        )
    why = {effect.senseless[fault] for effect in named if fault in effect.senseless} if fault else set()
    reason = f": {'; '.join(sorted(why))}" if why else ""
    raise NothingToStrikeError(f"{fault!r} cannot become of {only or 'anything'}{reason}")


def strike(house: str, one: Strike) -> Outcome:
    """One run, judged."""
    clean = clean_run(house)
    run = play(house, one)
    violations = judge(run, clean)
    if run.struck_at_s is None:
        violations["it_was_struck"] = [
            f"{one.effect} did not happen: the run is not the same as the clean one"
        ]
    longest_s = max((late_s for _, _, late_s in delays(run, clean)), default=0)
    return Outcome(strike=one, violations=violations, longest_s=longest_s, seconds=run.took_s)


def campaign(
    house: str,
    wanted: Sequence[Strike],
    *,
    workers: int,
    progress: Callable[[Outcome], None] = lambda _outcome: None,
) -> Campaign:
    """Play every run that is wanted."""
    outcomes = []
    for outcome in _play_all(house, wanted, workers):
        outcomes.append(outcome)
        progress(outcome)
    return Campaign(house=house, clean=clean_run(house), outcomes=outcomes)


def _play_all(house: str, wanted: Sequence[Strike], workers: int) -> Iterator[Outcome]:
    if workers <= 1 or len(wanted) <= 1:
        yield from (strike(house, one) for one in wanted)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(strike, [house] * len(wanted), wanted, chunksize=_CHUNK)

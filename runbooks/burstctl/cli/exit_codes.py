"""Exit codes: of 2, 1, 4, 3, 0 the first that applies."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from burstwatch.core.flips.outcome import Done, Outcome
from burstwatch.core.watch.report import Report


class Exit(IntEnum):
    """What a process that runs ``burstctl`` can tell from its exit code."""

    FINE = 0
    FAILED = 1
    MISUSED = 2
    ATTENTION = 3
    REFUSED = 4
    INTERRUPTED = 130


_BY_PRECEDENCE: Final = (Exit.INTERRUPTED, Exit.MISUSED, Exit.FAILED, Exit.REFUSED, Exit.ATTENTION, Exit.FINE)
_CLEAR: Final = frozenset({Done.NONE, Done.FLIPPED, Done.FLIPPED_BACK, Done.REFUSED})


def exit_of(report: Report, *, exit_zero: bool) -> Exit:
    """The exit code of one pass; ``exit_zero`` excuses refusals and attention, never a failure."""
    if report.has_failed or report.missing:
        return Exit.FAILED
    if exit_zero:
        return Exit.FINE
    if report.was_refused:
        return Exit.REFUSED
    return Exit.ATTENTION if report.needs_attention else Exit.FINE


def exit_of_outcomes(outcomes: Iterable[Outcome], *, has_failed: bool, exit_zero: bool) -> Exit:
    """The exit code of an operator's modifications; what is not known to be done counts as failed."""
    done = {outcome.done for outcome in outcomes}
    if has_failed or not done <= _CLEAR:
        return Exit.FAILED
    return Exit.REFUSED if Done.REFUSED in done and not exit_zero else Exit.FINE


def exit_of_all(exits: Iterable[Exit]) -> Exit:
    """The exit code of several things done: the first that applies to any."""
    return min(exits, key=_BY_PRECEDENCE.index, default=Exit.FINE)

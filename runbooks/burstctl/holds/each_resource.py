"""An order about several resources: a failure about one hides nothing that was done about another."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, TypeVar

from burstwatch.core.errors import BurstwatchError, Problem

_Result = TypeVar("_Result")

_MAX_FAILING_S: Final = 10.0
"""After failures have taken this long, the rest is not tried: each would wait for a locked ledger."""


def try_each(
    subjects: Sequence[str | None], action: Callable[[str | None], _Result]
) -> tuple[list[_Result], dict[str, Problem]]:
    """The results, and the failures by subject; None is everything.

    Raises:
        BurstwatchError: about everything, which is the only subject then.
    """
    results: list[_Result] = []
    failures: dict[str, Problem] = {}
    failing_s = 0.0
    for subject in subjects:
        name = subject or "everything"
        if failing_s > _MAX_FAILING_S:
            failures[name] = Problem("not tried after the others failed", "run the command again for it")
            continue
        started_s = monotonic()
        try:
            results.append(action(subject))
        except BurstwatchError as error:
            if subject is None:
                raise
            failures[name] = error.problem
            failing_s += monotonic() - started_s
    return results, failures

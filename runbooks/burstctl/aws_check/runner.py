"""Trying all facts at the same time, in one thread: each yields how long it waits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from botocore.exceptions import ClientError

from burstctl.aws_check.bench import HOST_OWNER, Bench
from burstctl.aws_check.cleaning import remove
from burstctl.aws_check.fact import Fact
from burstctl.aws_check.host import ACTIONS as HOST_ACTIONS
from burstctl.aws_check.result import NotMeasured, Outcome, Result, Steps
from burstctl.aws_check.run_file import RunFile
from burstctl.cli.atomic_file import WritingError
from burstctl.experiment.waiting import Patience
from burstwatch.adapters.aws.errors import AWS_ERRORS, error_codes, explain
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import printable

_LONGEST: Final = 600
_FORBIDDEN: Final = error_codes(
    """UnauthorizedOperation AccessDenied AccessDeniedException AuthorizationError UnauthorizedException"""
)


@dataclass(slots=True)
class _Task:
    """A fact under way."""

    fact: Fact
    steps: Steps
    wake_s: float
    end_s: float


def measure_all(
    run: RunFile,
    facts: Sequence[Fact],
    bench_of: Callable[[str], Bench],
    patience: Patience,
    say: Callable[[str], None],
) -> None:
    """Try each fact until it has an answer, a reason why not, or no time left.

    The results are in the run's file.

    Raises:
        Stopped: a person wants it to end.
        WritingError: the run's file cannot be written, so nothing more may be created.
    """
    now_s = patience.clock()
    tasks = [
        _Task(fact, fact.measure(bench_of(fact.name)), now_s, now_s + fact.minutes * 60) for fact in facts
    ]
    while tasks:
        task = min(tasks, key=lambda each: each.wake_s)
        patience.until(task.wake_s)
        result = _step(task, patience.clock)
        if result is None:
            continue
        tasks.remove(task)
        run.record(task.fact.name, result)
        say(f"{task.fact.name}: {in_words(result)}")
        client = bench_of(task.fact.name).client
        remove(run, client, [], patience.clock(), owner=task.fact.name)
        if task.fact.needs_host and not any(each.fact.needs_host for each in tasks):
            remove(run, client, [], patience.clock(), owner=HOST_OWNER)


def in_words(result: Result) -> str:
    """A result on one line."""
    if result.measured is not None:
        return printable(result.measured.answer, _LONGEST)
    if result.grant is not None:
        return printable(f"not permitted: grant {result.grant}", _LONGEST)
    return printable(f"{result.outcome.replace('_', ' ')}: {result.reason}", _LONGEST)


def _step(task: _Task, clock: Callable[[], float]) -> Result | None:
    """Go on with one fact up to its next wait; its result once it has one. What goes wrong is its own."""
    try:
        if clock() >= task.end_s:
            task.steps.close()
            raise NotMeasured(f"it took longer than {task.fact.minutes} min")  # noqa: TRY301 - as all others
        task.wake_s = min(clock() + next(task.steps), task.end_s)
    except StopIteration as end:
        return Result(outcome=Outcome.MEASURED, at_s=clock(), measured=end.value)
    except WritingError:
        raise
    except NotMeasured as reason:
        return Result(outcome=Outcome.NOT_MEASURED, at_s=clock(), reason=str(reason))
    except AWS_ERRORS as error:
        return _of_aws(error, task.fact, clock())
    except BurstwatchError as error:
        return Result(outcome=Outcome.FAILED, at_s=clock(), reason=str(error))
    except Exception as error:  # noqa: BLE001 - a fault in one fact, or an answer of a new shape, hides no other
        return Result(outcome=Outcome.FAILED, at_s=clock(), reason=f"{type(error).__name__}: {error}")
    return None


def _of_aws(error: Exception, fact: Fact, now_s: float) -> Result:
    """A call that was not meant to fail; a missing permission is named."""
    operation = error.operation_name if isinstance(error, ClientError) else ""
    action = next(
        (each for each in (*fact.actions, *HOST_ACTIONS) if each.partition(":")[2] == operation), operation
    )
    failure = explain(error, action)
    if failure.code in _FORBIDDEN:
        grant = action or operation
        return Result(outcome=Outcome.NOT_PERMITTED, at_s=now_s, reason=str(failure), grant=grant)
    return Result(outcome=Outcome.FAILED, at_s=now_s, reason=str(failure))

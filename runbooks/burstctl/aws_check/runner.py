"""Trying all facts at the same time, in one thread: each yields how long it waits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from botocore.exceptions import ClientError

from burstctl.aws_check.cleanup import remove
from burstctl.aws_check.fact import Fact
from burstctl.aws_check.fact_context import HOST_OWNER, FactContext
from burstctl.aws_check.host import ACTIONS as HOST_ACTIONS
from burstctl.aws_check.result import FactOutcome, NotMeasuredError, Result, Steps
from burstctl.aws_check.run_file import RunFile
from burstctl.cli.atomic_file import WriteError
from burstctl.experiment.waiting import Waiter
from burstwatch.adapters.aws.errors import AWS_ERRORS, error_codes, to_aws_failure
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import sanitise

_MAX_TEXT_LENGTH: Final = 600  # an answer or a refusal of AWS on a few lines
_PERMISSION_CODES: Final = error_codes(
    """UnauthorizedOperation AccessDenied AccessDeniedException AuthorizationError UnauthorizedException"""
)


@dataclass(slots=True)
class _Task:
    """A fact under way."""

    fact: Fact
    steps: Steps
    wake_at_s: float
    deadline_s: float


def measure_all(
    run: RunFile,
    facts: Sequence[Fact],
    make_context: Callable[[str], FactContext],
    waiter: Waiter,
    log: Callable[[str], None],
) -> None:
    """Try each fact until it has an answer, a reason why not, or no time left.

    The results are in the run's file.

    Raises:
        Stopped: a person wants it to end.
        WriteError: the run's file cannot be written, so nothing more may be created.
    """
    now_s = waiter.clock()
    tasks = [
        _Task(fact, fact.measure(make_context(fact.name)), now_s, now_s + fact.minutes * 60) for fact in facts
    ]
    while tasks:
        task = min(tasks, key=lambda candidate: candidate.wake_at_s)
        waiter.wait_until(task.wake_at_s)
        result = _advance(task, waiter.clock)
        if result is None:
            continue
        tasks.remove(task)
        run.record_result(task.fact.name, result)
        log(f"{task.fact.name}: {describe_result(result)}")
        client = make_context(task.fact.name).client
        remove(run, client, [], waiter.clock(), owner=task.fact.name)
        if task.fact.needs_host and not any(candidate.fact.needs_host for candidate in tasks):
            remove(run, client, [], waiter.clock(), owner=HOST_OWNER)


def describe_result(result: Result) -> str:
    """A result on one line."""
    if result.measurement is not None:
        return sanitise(result.measurement.answer, _MAX_TEXT_LENGTH)
    if result.grant is not None:
        return sanitise(f"not permitted: grant {result.grant}", _MAX_TEXT_LENGTH)
    return sanitise(f"{result.outcome.replace('_', ' ')}: {result.reason}", _MAX_TEXT_LENGTH)


def _advance(task: _Task, clock: Callable[[], float]) -> Result | None:
    """Run one fact up to its next wait; return its result if it has ended. Facts fail independently."""
    try:
        if clock() >= task.deadline_s:
            task.steps.close()
            raise NotMeasuredError(f"it took longer than {task.fact.minutes} min")  # noqa: TRY301 - as all others
        task.wake_at_s = min(clock() + next(task.steps), task.deadline_s)
    except StopIteration as end:
        return Result(outcome=FactOutcome.MEASURED, at_s=clock(), measurement=end.value)
    except WriteError:
        raise
    except NotMeasuredError as reason:
        return Result(outcome=FactOutcome.NOT_MEASURED, at_s=clock(), reason=str(reason))
    except AWS_ERRORS as error:
        return _result_of_aws_error(error, task.fact, clock())
    except BurstwatchError as error:
        return Result(outcome=FactOutcome.FAILED, at_s=clock(), reason=str(error))
    except Exception as error:  # noqa: BLE001 - a fault in one fact, or an answer of a new shape, hides no other
        return Result(outcome=FactOutcome.FAILED, at_s=clock(), reason=f"{type(error).__name__}: {error}")
    return None


def _result_of_aws_error(error: Exception, fact: Fact, now_s: float) -> Result:
    """A call that was not meant to fail; a missing permission is named."""
    operation = error.operation_name if isinstance(error, ClientError) else ""
    action = next(
        (
            known_action
            for known_action in (*fact.actions, *HOST_ACTIONS)
            if known_action.partition(":")[2] == operation
        ),
        operation,
    )
    failure = to_aws_failure(error, action)
    if failure.code in _PERMISSION_CODES:
        grant = action or operation
        return Result(outcome=FactOutcome.NOT_PERMITTED, at_s=now_s, reason=str(failure), grant=grant)
    return Result(outcome=FactOutcome.FAILED, at_s=now_s, reason=str(failure))

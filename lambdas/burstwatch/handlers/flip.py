"""The function behind the queue: for each request it decides again about the volume, and flips it or not."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from aws_lambda_powertools.utilities.batch import SqsFifoPartialProcessor, process_partial_response

from burstwatch.adapters.aws.flip_queue import FlipRequest, PoisonError
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.flips.outcome import Done, Outcome
from burstwatch.core.flips.planning import Order
from burstwatch.core.text import format_duration
from burstwatch.engine.flip_executor import STOPPED, UNREAD, carry_out
from burstwatch.engine.reassess import order_now
from burstwatch.handlers.runtime import Footing, account_of, stand
from burstwatch.wiring.function_settings import FunctionClock
from burstwatch.wiring.observability import Field, Instruments, Metric, instrumented

_AGAIN_AFTER_S: Final = 60
"""When a request that failed is tried again; the queue's own time-out is several times as long."""

_ATTEMPTS: Final = 2
"""Of each read: the queue brings the request again, and there is one invocation's time for all its calls."""

_LEAST_LEFT_S: Final = 30.0
"""A request begins only with so much of the invocation left."""

_AFTER_READS_S: Final = 25.0
"""No read is sent with less of the invocation left, so that a request that failed can still be put back."""

_TO_MODIFY_S: Final = 24.0
"""No intent is recorded with less left: to write it, to send the modification and to write the answer."""

_MOST_AHEAD_S: Final = 60
"""Clocks of machines differ by less; a request from later than this was not sent by a tick."""

_METRICS = {
    Done.FLIPPED: Metric.FLIPS,
    Done.FLIPPED_BACK: Metric.FLIPS_BACK,
    Done.REFUSED: Metric.FLIPS_REFUSED,
    Done.FAILED: Metric.FLIPS_FAILED,
}


class UnreadError(BurstwatchError):
    """The volume could not be read, so it was not touched: the request is tried again."""


class NoTimeError(BurstwatchError):
    """The invocation ends too soon to begin with a request: it is tried again."""


@instrumented
def handler(event: Any, context: Any, say: Instruments) -> Any:
    """As SQS calls it: a request that fails is tried again, and holds up only those of its own volume."""
    footing = stand(account_of(context), _ATTEMPTS)

    def carry(record: Any) -> None:
        attributes = record.raw_event.get("attributes") or {}
        try:
            with _loudly(say, attributes.get("MessageGroupId")):
                _check_time(say.left_s())
                run(record.body, footing, say, wall_s=time.time())
        except Exception as error:
            # A poison message never succeeds: it must not hold up the other requests of its group.
            after_s = 0 if isinstance(error, PoisonError) else _AGAIN_AFTER_S
            _put_back(record.raw_event.get("receiptHandle"), after_s, footing, say)
            raise

    processor = SqsFifoPartialProcessor(skip_group_on_error=True)
    processor.raise_on_entire_batch_failure = False
    return process_partial_response(event=event, record_handler=carry, processor=processor, context=context)


def _check_time(left_s: float) -> None:
    if left_s < _LEAST_LEFT_S:
        raise NoTimeError(f"{left_s:.0f} s are left of the invocation, too few to begin")


@contextmanager
def _loudly(say: Instruments, volume_id: str | None) -> Iterator[None]:
    """Say why a request is tried again: Lambda is only told that it is."""
    try:
        yield
    except BurstwatchError as error:
        say.error(f"not done, and tried again: {error}", {Field.VOLUME_ID: volume_id})
        raise
    except Exception as error:
        say.bug("not done, by a mistake of burstwatch's", error, {Field.VOLUME_ID: volume_id})
        say.measure(Metric.FLIPS_FAILED, 1)
        raise


def _put_back(receipt_handle: str | None, after_s: int, footing: Footing, say: Instruments) -> None:
    """Have a failed request tried again soon; where that fails it is when the queue's time-out is over."""
    if footing.queue is not None and receipt_handle:
        trouble = footing.queue.put_back(receipt_handle, after_s)
        if trouble is not None:
            say.warn(trouble)


def run(body: str, footing: Footing, say: Instruments, *, wall_s: float) -> Outcome | None:
    """One request; None where it came too late, or this deployment may not flip.

    It is advisory: only the volume and the direction are taken from it, and it is dropped unless a pass would
    order the same now.

    Raises:
        PoisonError: the watchdog sends no such request.
        UnreadError: AWS did not say how the volume is.
        NoTimeError: reading took so long that a modification could not be sent any more.
    """
    try:
        request, now_s = _read(body, footing.settings.clock, wall_s)
    except PoisonError:
        say.measure(Metric.FLIPS_FAILED, 1)
        raise
    volume_id = request.volume_id
    told = {Field.VOLUME_ID: volume_id, Field.DECISION: str(request.direction)}
    shell = footing.modifying(now_s, say)
    late_s = now_s - request.time_s
    if late_s > shell.policy.cadence.act_lead.total_seconds():
        say.warn(f"asked for {format_duration(late_s)} ago, too long to be still wanted", told)
        say.measure(Metric.FLIPS_FAILED, 1)
        return None
    if shell.modifier is None:
        say.warn("not done: this deployment only proposes", told)
        return None
    shell.calls.reset()
    shell.calls.limit_reads(say.left_s() - _AFTER_READS_S)
    gathering = replace(shell.gathering(now_s), only=frozenset({volume_id}))
    found = order_now(shell, volume_id, request.direction, gathering)
    if isinstance(found, Order):
        shell = replace(shell, should_stop=lambda: say.left_s() < _TO_MODIFY_S)
        outcome = carry_out(shell, [found], gathering)[volume_id]
        if outcome is STOPPED:
            raise NoTimeError(
                f"too little of the invocation is left to modify {volume_id}: reading took long"
            )
    else:
        outcome = found
    if (metric := _METRICS.get(outcome.done)) is not None:
        say.measure(metric, 1)
    code = outcome.error_code or (str(outcome.refusal.guard) if outcome.refusal else None)
    result = {Field.ACTION_TAKEN: str(outcome.done), Field.ERROR_CODE: code}
    for failure in dict.fromkeys(gathering.failures):
        say.warn(failure, told)
    say.info(outcome.because or str(outcome.done), told | result)
    if outcome.error_code == UNREAD:
        raise UnreadError(f"{volume_id}: {'; '.join(gathering.failures) or outcome.because}")
    return outcome


def _read(body: str, clock: FunctionClock, wall_s: float) -> tuple[FlipRequest, float]:
    """The request, and the time that is now; by the event's clock that is the request's own.

    Raises:
        PoisonError: it is none, or from the future.
    """
    request = FlipRequest.from_body(body)
    if clock is FunctionClock.EVENT:
        return request, float(request.time_s)
    ahead_s = request.time_s - wall_s
    if ahead_s > _MOST_AHEAD_S:
        raise PoisonError(f"the message is no flip request: its time is {format_duration(ahead_s)} ahead")
    return request, wall_s

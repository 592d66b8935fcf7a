"""The function behind the queue: one volume at a time is read again, and flipped if no guard refuses."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aws_lambda_powertools.utilities.batch import SqsFifoPartialProcessor, process_partial_response

from burstwatch.adapters.flip_queue import FlipRequest, PoisonError
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.outcome import Done, Outcome
from burstwatch.core.words import format_duration
from burstwatch.flip import carry_out
from burstwatch.function_settings import FunctionClock
from burstwatch.handlers.footing import Footing, account_of, stand
from burstwatch.observability import Field, Instruments, Metric, instrumented

_METRICS = {
    Done.FLIPPED: Metric.FLIPS,
    Done.FLIPPED_BACK: Metric.FLIPS_BACK,
    Done.REFUSED: Metric.FLIPS_REFUSED,
    Done.FAILED: Metric.FLIPS_FAILED,
}


class UnreadError(BurstwatchError):
    """The volume could not be read, so it was not touched: the queue brings the request again."""


@instrumented
def handler(event: Any, context: Any, say: Instruments) -> Any:
    """As SQS calls it: a request that fails comes again, and holds up only those of its own volume."""
    footing = stand(account_of(context))

    def carry(record: Any) -> None:
        with _loudly(say, record.attributes.message_group_id):
            run(record.body, footing, say, wall_s=time.time())

    processor = SqsFifoPartialProcessor(skip_group_on_error=True)
    processor.raise_on_entire_batch_failure = False
    return process_partial_response(event=event, record_handler=carry, processor=processor, context=context)


@contextmanager
def _loudly(say: Instruments, volume_id: str | None) -> Iterator[None]:
    """Say why a request comes again: whoever called us only hears that it does."""
    try:
        yield
    except BurstwatchError as error:
        say.error(f"not done, and comes again: {error}", {Field.VOLUME_ID: volume_id})
        raise
    except Exception as error:
        say.bug("not done, by a mistake of burstwatch's", error, {Field.VOLUME_ID: volume_id})
        say.measure(Metric.FLIPS_FAILED, 1)
        raise


def run(body: str, footing: Footing, say: Instruments, *, wall_s: float) -> Outcome | None:
    """One request; None where it came too late, or this deployment may not flip.

    Raises:
        PoisonError: it is no request.
        UnreadError: AWS did not say how the volume is.
    """
    try:
        request = FlipRequest.from_body(body)
    except PoisonError:
        say.measure(Metric.FLIPS_FAILED, 1)
        raise
    order = request.order
    told = {Field.VOLUME_ID: order.volume_id, Field.DECISION: str(order.direction)}
    now_s = wall_s if footing.settings.clock is FunctionClock.WALL else float(request.time_s)
    shell = footing.modifying(now_s, say)
    late_s = now_s - request.time_s
    if late_s > shell.policy.cadence.act_lead.total_seconds():
        say.warn(f"asked for {format_duration(late_s)} ago, too long to be still wanted", told)
        return None
    if shell.modifier is None:
        say.warn("not done: this deployment only proposes", told)
        return None
    shell.calls.reset()
    gathering = shell.gathering(now_s)
    outcome = carry_out(shell, [order], gathering)[order.volume_id]
    if (metric := _METRICS.get(outcome.done)) is not None:
        say.measure(metric, 1)
    code = outcome.error_code or (str(outcome.refusal.guard) if outcome.refusal else None)
    result = {Field.ACTION_TAKEN: str(outcome.done), Field.ERROR_CODE: code}
    for failure in gathering.failures:
        say.warn(failure, told)
    say.info(outcome.because or str(outcome.done), told | result)
    if outcome.error_code == "unread":
        raise UnreadError(f"{order.volume_id}: {'; '.join(gathering.failures) or outcome.because}")
    return outcome

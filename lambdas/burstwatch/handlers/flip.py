"""The function behind the queue: one volume at a time is read again, and flipped if no guard refuses."""

import time
from typing import Any

from aws_lambda_powertools.utilities.batch import SqsFifoPartialProcessor, process_partial_response

from burstwatch.adapters.delivery import deliver
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
        run(record.body, footing, say, wall_s=time.time())

    processor = SqsFifoPartialProcessor(skip_group_on_error=True)
    processor.raise_on_entire_batch_failure = False
    return process_partial_response(event=event, record_handler=carry, processor=processor, context=context)


def run(body: str, footing: Footing, say: Instruments, *, wall_s: float) -> Outcome | None:
    """One request; None where it came too late, or this deployment may not flip.

    Raises:
        PoisonError: it is no request.
        UnreadError: AWS did not say how the volume is.
    """
    try:
        request = FlipRequest.from_body(body)
    except PoisonError as error:
        say.measure(Metric.FLIPS_FAILED, 1)
        say.error(f"a message that is no flip request: {error}")
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
    _deliver(shell, now_s, say)
    if (metric := _METRICS.get(outcome.done)) is not None:
        say.measure(metric, 1)
    code = outcome.error_code or (str(outcome.refusal.guard) if outcome.refusal else None)
    result = {Field.ACTION_TAKEN: str(outcome.done), Field.ERROR_CODE: code}
    say.info(outcome.because or str(outcome.done), told | result)
    if outcome.error_code == "unread":
        raise UnreadError(f"{order.volume_id}: {'; '.join(gathering.failures) or outcome.because}")
    return outcome


def _deliver(shell: Any, now_s: float, say: Instruments) -> None:
    """What the ledger has for people goes out now; what does not, goes with the next tick."""
    delivery = deliver(
        shell.ledger,
        shell.channels,
        digest_above=shell.policy.alerts.digest_above,
        place=shell.place,
        runbooks_url=shell.policy.alerts.runbooks_url,
        now_s=now_s,
    )
    say.measure(Metric.ALERTS_SENT, delivery.sent)
    say.measure(Metric.ALERTS_NOT_DELIVERED, delivery.failed)
    for error in delivery.errors:
        say.warn(error)

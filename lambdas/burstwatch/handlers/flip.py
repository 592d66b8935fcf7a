"""The flip function: for each request in the queue it decides again about the volume, and may flip it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from aws_lambda_powertools.utilities.batch import SqsFifoPartialProcessor, process_partial_response

from burstwatch.adapters.aws.flip_request import FlipRequest, MalformedRequestError
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.flips.flip_plan import FlipOrder
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.text import format_duration
from burstwatch.engine.flip_executor import STOPPED_OUTCOME, execute_flips
from burstwatch.engine.fresh_context import UNREAD_CODE
from burstwatch.engine.reassess import reassess_order
from burstwatch.handlers.runtime import FunctionRuntime, account_from_context, function_runtime
from burstwatch.wiring.function_settings import FunctionClock
from burstwatch.wiring.observability import Field, Metric, Telemetry, with_telemetry

_RETRY_AFTER_S: Final = 60
"""When a failed request is retried; the queue's visibility timeout is several times as long."""

_ATTEMPTS: Final = 2
"""Attempts of each read: the queue retries the request, and all calls share the time of one invocation."""

_MIN_REMAINING_S: Final = 30.0
"""A request is begun only if at least this much of the invocation remains."""

_READ_RESERVE_S: Final = 25.0
"""No read is sent if less of the invocation remains, so that a failed request can still be put back."""

_MODIFY_RESERVE_S: Final = 24.0
"""No intent is recorded if less remains: it is needed to write it, to modify, and to write the outcome."""

_MAX_AHEAD_S: Final = 60
"""The clocks of machines differ by less; a request from farther in the future was not sent by a tick."""

_METRIC_BY_STATUS = {
    OutcomeStatus.FLIPPED: Metric.FLIPS,
    OutcomeStatus.FLIPPED_BACK: Metric.FLIPS_BACK,
    OutcomeStatus.REFUSED: Metric.FLIPS_REFUSED,
    OutcomeStatus.FAILED: Metric.FLIPS_FAILED,
}


class UnreadError(BurstwatchError):
    """The volume could not be read, so it was not modified; the request is retried."""


class NoTimeError(BurstwatchError):
    """The invocation ends too soon to begin a request; the request is retried."""


@with_telemetry
def handler(event: Any, context: Any, telemetry: Telemetry) -> Any:
    """Handle a batch of SQS; a failed request is retried, and delays only those of its own volume."""
    runtime = function_runtime(account_from_context(context), _ATTEMPTS)

    def process_record(record: Any) -> None:
        attributes = record.raw_event.get("attributes") or {}
        try:
            with _log_failures(telemetry, attributes.get("MessageGroupId")):
                _check_time(telemetry.remaining_s())
                run(record.body, runtime, telemetry, wall_s=time.time())
        except Exception as error:
            # A poison message never succeeds: it must not hold up the other requests of its group.
            after_s = 0 if isinstance(error, MalformedRequestError) else _RETRY_AFTER_S
            _put_back(record.raw_event.get("receiptHandle"), after_s, runtime, telemetry)
            raise

    processor = SqsFifoPartialProcessor(skip_group_on_error=True)
    processor.raise_on_entire_batch_failure = False
    return process_partial_response(
        event=event, record_handler=process_record, processor=processor, context=context
    )


def _check_time(remaining_s: float) -> None:
    if remaining_s < _MIN_REMAINING_S:
        raise NoTimeError(f"{remaining_s:.0f} s are left of the invocation, too few to begin")


@contextmanager
def _log_failures(telemetry: Telemetry, volume_id: str | None) -> Iterator[None]:
    """Log why a request is retried: the response to Lambda only says that it failed."""
    try:
        yield
    except BurstwatchError as error:
        telemetry.error(f"not done, and tried again: {error}", {Field.VOLUME_ID: volume_id})
        raise
    except Exception as error:
        telemetry.internal_error("internal error", error, {Field.VOLUME_ID: volume_id})
        telemetry.emit_metric(Metric.FLIPS_FAILED, 1)
        raise


def _put_back(
    receipt_handle: str | None, after_s: int, runtime: FunctionRuntime, telemetry: Telemetry
) -> None:
    """Have a failed request retried soon; if that fails, it is retried after the visibility timeout."""
    if runtime.queue is not None and receipt_handle:
        problem = runtime.queue.put_back(receipt_handle, after_s)
        if problem is not None:
            telemetry.warn(problem)


def run(body: str, runtime: FunctionRuntime, telemetry: Telemetry, *, wall_s: float) -> Outcome | None:
    """Handle one request; None if it came too late, or if this deployment may not flip.

    The request is advice: only the volume and the direction are taken from it, and it is dropped unless a
    pass would order the same now.

    Raises:
        MalformedRequestError: the watchdog never sends such a request.
        UnreadError: the volume could not be read.
        NoTimeError: reading took so long that no modification could be sent.
    """
    try:
        request, now_s = _parse_request(body, runtime.settings.clock, wall_s)
    except MalformedRequestError:
        telemetry.emit_metric(Metric.FLIPS_FAILED, 1)
        raise
    volume_id = request.volume_id
    fields = {Field.VOLUME_ID: volume_id, Field.DECISION: str(request.direction)}
    services = runtime.services_for_flip(now_s, telemetry)
    late_s = now_s - request.requested_at_s
    if late_s > services.policy.cadence.act_lead.total_seconds():
        telemetry.warn(f"requested {format_duration(late_s)} ago, too long ago to be needed", fields)
        telemetry.emit_metric(Metric.FLIPS_FAILED, 1)
        return None
    if services.modifier is None:
        telemetry.warn("not done: this deployment only proposes", fields)
        return None
    services.calls.reset()
    services.calls.limit_reads(telemetry.remaining_s() - _READ_RESERVE_S)
    collector = replace(services.build_collector(now_s), only_volume_ids=frozenset({volume_id}))
    order_or_outcome = reassess_order(services, volume_id, request.direction, collector)
    if isinstance(order_or_outcome, FlipOrder):
        services = replace(services, should_stop=lambda: telemetry.remaining_s() < _MODIFY_RESERVE_S)
        outcome = execute_flips(services, [order_or_outcome], collector)[volume_id]
        if outcome is STOPPED_OUTCOME:
            raise NoTimeError(
                f"too little of the invocation is left to modify {volume_id}: reading took long"
            )
    else:
        outcome = order_or_outcome
    if (metric := _METRIC_BY_STATUS.get(outcome.status)) is not None:
        telemetry.emit_metric(metric, 1)
    code = outcome.error_code or (str(outcome.refusal.guard) if outcome.refusal else None)
    result = {Field.ACTION_TAKEN: str(outcome.status), Field.ERROR_CODE: code}
    for failure in dict.fromkeys(collector.failures):
        telemetry.warn(failure, fields)
    telemetry.info(outcome.reason or str(outcome.status), fields | result)
    if outcome.error_code == UNREAD_CODE:
        raise UnreadError(f"{volume_id}: {'; '.join(collector.failures) or outcome.reason}")
    return outcome


def _parse_request(body: str, clock: FunctionClock, wall_s: float) -> tuple[FlipRequest, float]:
    """The request and the present time; with the event's clock, that is the time of the request.

    Raises:
        MalformedRequestError: it is not a request, or it is from the future.
    """
    request = FlipRequest.from_body(body)
    if clock is FunctionClock.EVENT:
        return request, float(request.requested_at_s)
    ahead_s = request.requested_at_s - wall_s
    if ahead_s > _MAX_AHEAD_S:
        raise MalformedRequestError(
            f"the message is not a flip request: its time is {format_duration(ahead_s)} ahead"
        )
    return request, wall_s

"""Carry out flips: read again, check every guard, record the intent, call AWS once, record the answer."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Semaphore
from time import monotonic
from typing import Final

from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.flips.flip_plan import FlipOrder
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.text import format_count
from burstwatch.engine.collector import Collector
from burstwatch.engine.flip_intent import RecordedIntent, check_and_record_intent
from burstwatch.engine.flip_outcome import record_result
from burstwatch.engine.fresh_context import FreshContext, read_fresh_context
from burstwatch.engine.services import Services

WORKERS: Final = 8
"""Modifications asked for at once."""

SEND_WITHIN_S: Final = 30.0
"""An intent older than this is not sent any more: another process may soon conclude that it never was."""

_MAX_FAILING_S: Final = 20.0
"""After errors have taken this long, the rest waits: a ledger that is down would cost as much for each."""

STOPPED_OUTCOME: Final = Outcome(
    status=OutcomeStatus.NONE, reason="the watchdog was stopped; the next pass requests it"
)
"""The outcome of an order that ``services.should_stop`` came before."""


def execute_flips(
    services: Services,
    orders: Iterable[FlipOrder],
    collector: Collector,
    *,
    errors: dict[str, Exception] | None = None,
) -> dict[str, Outcome]:
    """Carry out what the guards allow, the most urgent first; a failure of one volume does not affect others.

    Intents are recorded one after the other, so that caps go to the most urgent, and none before there is a
    worker to send it; AWS is asked in parallel.

    What is raised about one volume, by the ledger or by a defect, is put into ``errors``, and its outcome
    states it. Without ``errors``, the first is raised once the other volumes are done. What was in the ledger
    by then stays there, and the next pass reconciles it with AWS.
    """
    modifier = services.modifier
    assert modifier is not None
    ordered = sorted(orders, key=lambda order: (order.urgency, order.volume_id))
    # Read the fresh context of all flips at once: volumes, tags, states, holds, modifications, limits.
    fresh = read_fresh_context(services, ordered, collector)
    outcomes: dict[str, Outcome] = {}
    raised: dict[str, Exception] = {}
    futures: dict[str, Future[Outcome]] = {}
    free_workers = Semaphore(WORKERS)
    failing_s = 0.0
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="flip") as pool:
        for index, order in enumerate(ordered):
            if failing_s > _MAX_FAILING_S:
                outcomes[order.volume_id] = _untried_outcome(raised)
                continue
            free_workers.acquire()
            started_at_s = monotonic()
            intent_or_outcome: RecordedIntent | Outcome
            try:
                intent_or_outcome = _prepare(fresh, order, ordered[index:])
            except Exception as error:  # noqa: BLE001 - whatever it is, the others must be flipped; it is reported
                failing_s += monotonic() - started_at_s
                raised[order.volume_id] = error
                intent_or_outcome = _failed_outcome(error)
            if isinstance(intent_or_outcome, RecordedIntent):
                future = pool.submit(_modify, services, modifier, intent_or_outcome)
                future.add_done_callback(lambda _: free_workers.release())
                futures[order.volume_id] = future
            else:
                outcomes[order.volume_id] = intent_or_outcome
                free_workers.release()
    _collect_outcomes(futures, outcomes, raised)
    collector.failures += [
        f"{volume_id}: {outcome.reason}"
        for volume_id, outcome in outcomes.items()
        if outcome.error_code is not None and outcome.refusal is None and outcome.reason
    ]
    if errors is None and raised:
        raise next(iter(raised.values()))
    if errors is not None:
        errors |= raised
    return outcomes


def _collect_outcomes(
    futures: Mapping[str, Future[Outcome]], outcomes: dict[str, Outcome], raised: dict[str, Exception]
) -> None:
    """Add the outcome of each modification, and what was raised about it."""
    for volume_id, future in futures.items():
        try:
            outcomes[volume_id] = future.result()
        except Exception as error:  # noqa: BLE001 - whatever it is, the other outcomes count; it is reported
            raised[volume_id] = error
            outcomes[volume_id] = _unrecorded_outcome(error)


def _prepare(
    fresh: FreshContext, order: FlipOrder, remaining: Sequence[FlipOrder]
) -> RecordedIntent | Outcome:
    """The first half of one flip, which changes nothing in AWS: its guards, and its intent."""
    fresh.refresh_if_old(remaining)
    if (unavailable := fresh.outcome_if_unavailable(order)) is not None:
        return unavailable
    if fresh.services.should_stop():
        return STOPPED_OUTCOME
    return check_and_record_intent(fresh, order)


def _failed_outcome(error: Exception) -> Outcome:
    """The outcome of an order that was not sent because of an error.

    Its intent may be in the ledger nevertheless: then AWS shows no such modification, and it is tried again.
    """
    return Outcome(
        status=OutcomeStatus.FAILED,
        reason=f"it was not modified: {_describe(error)}",
        error_code=type(error).__name__,
    )


def _unrecorded_outcome(error: Exception) -> Outcome:
    """The outcome of an order whose intent is in the ledger without what came of it."""
    return Outcome(
        status=OutcomeStatus.IN_FLIGHT,
        reason=f"its outcome was not recorded, so the next pass reads it from AWS: {_describe(error)}",
        error_code=type(error).__name__,
    )


def _untried_outcome(raised: Mapping[str, Exception]) -> Outcome:
    return Outcome(
        status=OutcomeStatus.FAILED,
        reason=f"it was not tried: errors about {format_count(len(raised), 'other volume')} took too long",
        error_code="untried",
    )


def _describe(error: Exception) -> str:
    """What went wrong: an error that is expected explains itself, any other is a defect."""
    if isinstance(error, BurstwatchError):
        return str(error)
    return f"an internal error, {type(error).__name__}: {error}"


def _modify(services: Services, modifier: Ec2Modifier, intent: RecordedIntent) -> Outcome:
    """The second half of one flip, in a thread of its own: the call to AWS, and its outcome."""
    plan = intent.plan
    assert plan.target is not None
    if monotonic() - intent.started_at_s > SEND_WITHIN_S:
        reason = "the intent was recorded too long ago to be sent; its outcome is read, and it is tried again"
        return Outcome(status=OutcomeStatus.IN_FLIGHT, reason=reason)
    # Call ModifyVolume, once: a call whose answer is lost may have had its effect.
    result = modifier.modify(plan.order.volume_id, plan.target)
    # Record the outcome; an outcome that is not known is settled by a later pass.
    return record_result(services, intent, result)

"""Decides again about one volume, as a pass does, for the function that is asked to modify it."""

from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.flips.flip_plan import FlipOrder
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.tag_keys import IGNORE
from burstwatch.core.watch.decision import TickContext
from burstwatch.core.watch.window_status import WindowSchedule
from burstwatch.engine.collector import Collector
from burstwatch.engine.dispatch import to_order
from burstwatch.engine.evaluate_volumes import evaluate_due, read_remembered_volumes, to_due
from burstwatch.engine.fresh_context import not_found_outcome, unread_outcome
from burstwatch.engine.pass_state import WatchPass
from burstwatch.engine.services import Services


def reassess_order(
    services: Services, volume_id: str, direction: Direction, collector: Collector
) -> FlipOrder | Outcome:
    """The order that a pass would give for this volume now, or why it would give none.

    The same code decides, from the same facts: tags, policy, windows, balance, operations and what the ledger
    remembers. What it finds is not recorded; that is for the passes. ``collector`` is about this volume only.
    """
    ledger = services.ledger
    states = ledger.states_of({volume_id})
    flip = states[volume_id].flip if volume_id in states else None
    if flip is not None and flip.is_under_way:
        return Outcome(status=OutcomeStatus.IN_FLIGHT, reason=f"being modified to {flip.requested_config}")
    now_s = collector.now_s
    watch_pass = WatchPass(
        services=services,
        context=TickContext(now_s=now_s, tick_at_s=int(now_s), location=services.location),
        collector=collector,
        states=states,
        window_schedule=WindowSchedule.at(now_s, services.policy, ledger.manual_overrides().values()),
        holds=ledger.holds(now_s),
        explains_drains=False,
    )
    volumes = read_remembered_volumes(watch_pass, {volume_id})
    evaluate_due(watch_pass, to_due(watch_pass, volumes))
    if volumes and not watch_pass.internal_errors:
        return _order_from_decision(watch_pass, direction)
    is_gone = not volumes and volume_id not in collector.unreadable
    return not_found_outcome() if is_gone else unread_outcome()


def _order_from_decision(watch_pass: WatchPass, direction: Direction) -> FlipOrder | Outcome:
    """The order or outcome of the decision about the one volume; "not needed" needs all facts."""
    if not watch_pass.decisions:
        return Outcome(status=OutcomeStatus.NONE, reason=f"not needed: it is not watched, or tagged {IGNORE}")
    (decision,) = watch_pass.decisions
    if decision.trigger is not None and decision.trigger.direction is direction:
        return to_order(decision)
    if decision.assessment.unknown_reason is UnknownReason.READ_FAILED:
        return unread_outcome(decision.assessment.unknown_because)
    if watch_pass.collector.failures:
        return unread_outcome()
    return Outcome(status=OutcomeStatus.NONE, reason=f"no longer needed: {decision.reason}")

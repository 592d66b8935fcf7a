"""Decides again about one volume, as a pass does, for the function that is asked to modify it."""

from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.flips.outcome import Done, Outcome
from burstwatch.core.flips.planning import Order
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.tag_keys import IGNORE
from burstwatch.core.watch.decide import Look
from burstwatch.core.watch.window_status import Outlook
from burstwatch.engine.collector import Gathering
from burstwatch.engine.dispatch import order_of
from burstwatch.engine.evaluate import Pass, as_due, by_id, look_at_due
from burstwatch.engine.flip_executor import not_found, unread
from burstwatch.engine.services import Shell


def order_now(shell: Shell, volume_id: str, direction: Direction, gathering: Gathering) -> Order | Outcome:
    """The order that a pass would give for this volume now, or why it would give none.

    The same code decides, from the same facts: tags, policy, windows, balance, operations and what the ledger
    remembers. What it finds is not recorded; that is for the passes. ``gathering`` is about this volume only.
    """
    ledger = shell.ledger
    states = ledger.states_of({volume_id})
    flip = states[volume_id].flip if volume_id in states else None
    if flip is not None and flip.is_under_way:
        return Outcome(done=Done.IN_FLIGHT, because=f"on its way to {flip.asked_for}")
    now_s = gathering.now_s
    this = Pass(
        shell=shell,
        look=Look(now_s=now_s, tick_s=int(now_s), place=shell.place),
        gathering=gathering,
        states=states,
        outlook=Outlook.at(now_s, shell.policy, ledger.window_marks().values()),
        holds=ledger.holds(now_s),
    )
    volumes = by_id(this, {volume_id})
    look_at_due(this, as_due(this, volumes))
    if volumes and not this.bugs:
        return _order(this, direction)
    is_gone = not volumes and volume_id not in gathering.undescribed
    return not_found() if is_gone else unread()


def _order(this: Pass, direction: Direction) -> Order | Outcome:
    """What the decision about the one volume comes to; without all facts no want is no answer."""
    if not this.decisions:
        return Outcome(done=Done.NONE, because=f"not wanted: it is tagged {IGNORE}")
    (decision,) = this.decisions
    if decision.want is not None and decision.want.direction is direction:
        return order_of(decision)
    if decision.assessment.unknown_reason is UnknownReason.READ_FAILED:
        return unread(decision.assessment.unknown_because)
    if this.gathering.failures:
        return unread()
    return Outcome(done=Done.NONE, because=f"not wanted (any more): {decision.reason}")

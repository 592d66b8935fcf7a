"""What holds at the end of every run, whichever process died or was misled; each violation is a sentence."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from burstlab.harness.outcome import Outcome
from burstwatch.core.ledger.flip_state import SAME_START_TOLERANCE_S
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.ledger.resource_state import ResourceState


def each_intent_has_one_end(outcome: Outcome) -> Iterator[str]:
    """Each intent is accepted or not done, once."""
    for volume_id, name in outcome.names.items():
        intents, accepted, not_done = (
            [body["intent_id"] for body in outcome.bodies(kind, volume_id)]
            for kind in (EntryKind.INTENT, EntryKind.ACCEPTED, EntryKind.NOT_DONE)
        )
        if Counter(accepted + not_done) != Counter(intents):
            yield (
                f"{name}: {len(intents)} intents end as {len(accepted)} accepted and {len(not_done)} not done"
            )


def each_modification_was_decided(outcome: Outcome) -> Iterator[str]:
    """A decision is an intent; AWS has at most one modification for it, and none without."""
    for volume_id, name in outcome.names.items():
        own = len(outcome.modifications_of(volume_id)) - outcome.external_modifications.get(volume_id, 0)
        accepted, intended = (
            {body["intent_id"] for body in outcome.bodies(kind, volume_id)}
            for kind in (EntryKind.ACCEPTED, EntryKind.INTENT)
        )
        if own != len(accepted):
            yield f"{name}: {own} modifications for {len(accepted)} decisions"
        if unknown_ids := accepted - intended:
            yield f"{name}: accepted, and never intended: {', '.join(sorted(unknown_ids))}"


def the_quota_counts_agree(outcome: Outcome) -> Iterator[str]:
    """What the ledger counts against AWS's quota is what AWS counts."""
    for volume_id, name in outcome.names.items():
        state = outcome.states.get(volume_id)
        used = state.modifications.used if state else ()
        started_at_s = [modification.at_s for modification in outcome.modifications_of(volume_id)]
        for at_s in started_at_s:
            count = sum(abs(use.at_s - at_s) <= SAME_START_TOLERANCE_S for use in used)
            if count != 1:
                yield f"{name}: the modification of {at_s} counts {count} times"
        if len(used) > len(started_at_s):
            yield f"{name}: {len(used)} modifications count as used up, AWS made {len(started_at_s)}"


def each_flip_is_what_aws_shows(outcome: Outcome) -> Iterator[str]:
    """Each flip in the ledger is what AWS shows or has in progress."""
    for volume_id, name in outcome.names.items():
        state = outcome.states.get(volume_id)
        flip = state.flip if state else None
        if flip is not None and flip.is_under_way:
            if volume_id in open_flips(outcome.states, outcome.modifying):
                yield f"{name}: its flip is still {flip.status}, and AWS has nothing in progress"
        elif state is not None and not state.is_contested:
            recorded_type = str(flip.requested_config.volume_type) if flip else "gp2"
            if outcome.final_types[volume_id] != recorded_type:
                yield f"{name}: it is {outcome.final_types[volume_id]}, the ledger says {recorded_type}"


def open_flips(states: Mapping[str, ResourceState], modifying: Collection[str]) -> list[str]:
    """The volumes with a flip under way of which AWS has nothing in progress."""
    return [
        volume_id
        for volume_id, state in states.items()
        if state.flip is not None and state.flip.is_under_way and volume_id not in modifying
    ]


def each_alert_is_delivered(outcome: Outcome) -> Iterator[str]:
    """People received every alert that the ledger has, and none waits."""
    delivered_ids = {alert.alert_id for alert in outcome.alerts}
    for entry in outcome.entries:
        if entry.kind is EntryKind.ALERT and entry.body["alert_id"] not in delivered_ids:
            yield f"{outcome.name(entry.volume_id)}: {entry.body['kind']} was never sent"
    if outcome.undelivered:
        yield f"{outcome.undelivered} alerts still wait"


def each_delivery_is_in_the_ledger(outcome: Outcome) -> Iterator[str]:
    """People received nothing that the ledger does not have."""
    raised_ids = {body["alert_id"] for body in outcome.bodies(EntryKind.ALERT)}
    for alert_id in dict.fromkeys(alert.alert_id for alert in outcome.alerts):
        if alert_id not in raised_ids:
            yield f"alert {alert_id} is in no history"

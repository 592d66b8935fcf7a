"""Flips for tests, their intents and their outcomes."""

from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ledger.flip_state import WATCHDOG, Direction, Flip, FlipCause, FlipStatus, make_intent_id
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState

GP2 = Configuration(volume_type=VolumeType.GP2)
GP3 = Configuration(volume_type=VolumeType.GP3, iops=3000, throughput_mib_s=128)


def a_flip(**changes) -> Flip:
    facts = {
        "status": FlipStatus.REQUESTED,
        "direction": Direction.FLIP,
        "intent_id": "0123456789abcdef",
        "cause": FlipCause.DRAINING,
        "by": WATCHDOG,
        "original": GP2,
        "target": GP3,
        "size_gib": 100,
        "requested_at_s": 100,
        "usd_per_month": 10.0,
    }
    return Flip(**(facts | changes))


def an_intent(volume_id: str, *, expected: int | None = None, revision: int = 100, **flip) -> Change:
    """A volume that is about to be modified."""
    return flip_transition(
        EntryKind.INTENT,
        a_flip(intent_id=make_intent_id(volume_id, revision), requested_at_s=revision, **flip),
        volume_id,
        expected=expected,
        revision=revision,
    )


def flip_transition(
    kind: EntryKind, flip: Flip | None, volume_id: str, *, expected: int | None, revision: int
) -> Change:
    """A volume with this flip from now on."""
    entry = LedgerEntry(volume_id=volume_id, revision=revision, kind=kind, at_s=revision)
    state = ResourceState(volume_id=volume_id, revision=revision, flip=flip)
    return Change(volume_id=volume_id, expected_revision=expected, state=state, entries=[entry])

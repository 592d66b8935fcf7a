"""What `faults`, `crowd`, `month` and the crash tests share: each invariant finds what breaks it."""

from dataclasses import replace

import pytest

from burstlab.harness import invariants
from burstlab.harness.effects import CrashPoint, ProcessKilled, RecordingChannel, watch_ledger
from burstlab.harness.outcome import AcceptedModification, DeliveredAlert, Outcome
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ledger.flip_state import WATCHDOG, FlipStatus, Hold, ModificationUse
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from support.builders.flips import a_flip
from support.builders.states import build_state

VOLUME_ID = "vol-00000000000000001"
ON_TARGET = build_state(
    VOLUME_ID, 100, flip=a_flip(status=FlipStatus.ON_TARGET), used=(ModificationUse(at_s=100, by=WATCHDOG),)
)
UNDER_WAY = replace(ON_TARGET, flip=a_flip(status=FlipStatus.REQUESTED))


def an_entry(entry_kind, **body):
    return LedgerEntry(volume_id=VOLUME_ID, revision=100, kind=entry_kind, at_s=100, body=body)


INTENT = an_entry(EntryKind.INTENT, intent_id="i1")
ACCEPTED = an_entry(EntryKind.ACCEPTED, intent_id="i1")
NOT_DONE = an_entry(EntryKind.NOT_DONE, intent_id="i1")
ALERT = an_entry(EntryKind.ALERT, alert_id="a1", kind="VolumeFlipped")
MODIFICATION = AcceptedModification(100, VOLUME_ID, "gp3")
GOOD = Outcome(
    names={VOLUME_ID: "ci-1"},
    ended_at_s=600,
    alerts=[DeliveredAlert(100, "a1", VOLUME_ID, "VolumeFlipped", "critical")],
    modifications=[MODIFICATION],
    entries=[INTENT, ACCEPTED, ALERT],
    states={VOLUME_ID: ON_TARGET},
    final_types={VOLUME_ID: "gp3"},
    modifying=frozenset(),
    undelivered=0,
    watermark_s=600,
)
INVARIANTS = (
    invariants.each_intent_has_one_end,
    invariants.each_modification_was_decided,
    invariants.the_quota_counts_agree,
    invariants.each_flip_is_what_aws_shows,
    invariants.each_alert_is_delivered,
    invariants.each_delivery_is_in_the_ledger,
)


def broken_invariants(outcome):
    return [violation for invariant in INVARIANTS for violation in invariant(outcome)]


def test_a_good_outcome_violates_nothing():
    assert broken_invariants(GOOD) == []
    modifying = replace(GOOD, states={VOLUME_ID: UNDER_WAY}, modifying=frozenset({VOLUME_ID}))
    assert broken_invariants(modifying) == []


@pytest.mark.parametrize(
    ("changes", "violations"),
    [
        (
            {"entries": [INTENT, ALERT], "modifications": [], "states": {}, "final_types": {}},
            ["ci-1: 1 intents end as 0 accepted and 0 not done"],
        ),
        (
            {"entries": [INTENT, ACCEPTED, NOT_DONE, ALERT]},
            ["ci-1: 1 intents end as 1 accepted and 1 not done"],
        ),
        (
            {"modifications": [MODIFICATION, MODIFICATION._replace(at_s=300)]},
            ["ci-1: 2 modifications for 1 decisions", "ci-1: the modification of 300 counts 0 times"],
        ),
        (
            {"entries": [ACCEPTED, ALERT]},
            [
                "ci-1: 0 intents end as 1 accepted and 0 not done",
                "ci-1: accepted, and never intended: i1",
            ],
        ),
        ({"external_modifications": {VOLUME_ID: 1}}, ["ci-1: 0 modifications for 1 decisions"]),
        (
            {"modifications": [], "external_modifications": {VOLUME_ID: -1}},
            ["ci-1: 1 modifications count as used up, AWS made 0"],
        ),
        (
            {"states": {VOLUME_ID: UNDER_WAY}},
            [f"ci-1: its flip is still {FlipStatus.REQUESTED}, and AWS has nothing in progress"],
        ),
        ({"final_types": {VOLUME_ID: "gp2"}}, ["ci-1: it is gp2, the ledger says gp3"]),
        ({"alerts": []}, ["ci-1: VolumeFlipped was never sent"]),
        ({"undelivered": 2}, ["2 alerts still wait"]),
        ({"entries": [INTENT, ACCEPTED]}, ["alert a1 is in no history"]),
    ],
)
def test_each_invariant_finds_what_breaks_it(changes, violations):
    assert broken_invariants(replace(GOOD, **changes)) == violations


def test_a_contested_volume_may_be_anything():
    contested = build_state(VOLUME_ID, 100, contested_at_s=200, used=ON_TARGET.modifications.used)
    assert broken_invariants(replace(GOOD, states={VOLUME_ID: contested})) == []


A_HOLD = Hold(volume_id=VOLUME_ID, by="ann", reason="backup", placed_at_s=0, until_s=1000)


@pytest.mark.parametrize("kills_after", [False, True])
def test_a_process_is_killed_at_its_effect_and_has_none_after_it(kills_after):
    point = CrashPoint(at_effect=1, kills_after=kills_after)
    sent = []
    with SqliteLedger.in_memory() as ledger:
        watched = watch_ledger(ledger, point.run_effect)
        channel = RecordingChannel(sent.append, point.run_effect)
        channel.send("first")
        with pytest.raises(ProcessKilled):
            watched.place_hold(A_HOLD)
        assert bool(ledger.holds(0)) is kills_after
        assert watched.holds(0) == ledger.holds(0)
        with pytest.raises(ProcessKilled):
            channel.send("second")
    assert sent == ["first"]
    assert point.effects == ["send", "place_hold"][: 1 + kills_after]

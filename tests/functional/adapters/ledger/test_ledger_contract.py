"""What every ledger keeps, sends and claims, in a file or in a table, with any number of other users."""

from dataclasses import replace

import pytest

from burstwatch.core.alerts.alert import Alert, AlertKind
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.errors import LedgerError
from burstwatch.core.flips.type_availability import remember_refusal, unavailable_types
from burstwatch.core.ledger.flip_state import (
    EXTERNAL,
    WATCHDOG,
    Direction,
    FlipCause,
    FlipStatus,
    ModificationUse,
)
from burstwatch.core.ledger.ledger import Change, Delivery, TickKind
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.ledger.resource_state import ResourceState
from support.builders.changes import (
    MAIL,
    SLACK,
    A,
    B,
    C,
    a_change,
    a_digest,
    a_ledger_alert,
    a_state,
    an_entry,
    entry_kinds,
    sent_ids,
)
from support.builders.core_values import a_volume
from support.builders.flips import a_flip
from support.builders.states import build_state

# What is kept


def test_a_new_ledger_knows_nothing(ledger):
    assert ledger.states() == {}
    assert ledger.entries(A) == []
    assert ledger.fleet_snapshot() is None
    assert ledger.pending_deliveries(channels=[MAIL]) == []


def test_a_state_comes_back_with_every_field_after_reopening(home):
    full = build_state(
        volume_id=A,
        revision=1_700_000_000,
        level=Level.CRITICAL,
        level_since_s=1,
        unknown_reason=UnknownReason.READ_FAILED,
        unknown_since_s=2,
        open_level=Level.WARNING,
        level_at_s=3,
        is_gap_open=True,
        next_poll_at_s=4,
        arrived_at_s=5,
        smaller_size_gib=6,
        modified_at_s=7,
        balance_pct=8.125,
        balance_at_s=9,
        flip=a_flip(
            status=FlipStatus.ON_TARGET,
            cause=FlipCause.WINDOW,
            return_after_s=10,
            reached_at_s=11,
            unconfirmed_since_s=12,
        ),
        unsent_intent=a_flip(direction=Direction.FLIP_BACK, previous=a_flip()),
        used=(
            ModificationUse(at_s=13, by=WATCHDOG, direction=Direction.FLIP_BACK),
            ModificationUse(at_s=14, by=EXTERNAL),
        ),
        failure_count=15,
        retry_at_s=16,
        contested_at_s=17,
        returned_at_s=18,
        refusal="fleet_cap",
        is_critical_open=True,
        missed_window_at_s=19,
        missing_since_s=20,
        unused_since_s=21,
        lasting_id="db-ABC",
        named_at_s=22,
        instance_class="db.m5.large",
        class_since_s=23,
    )
    bare = ResourceState(volume_id=B, revision=1)
    changes = [Change(volume_id=s.volume_id, expected_revision=None, state=s) for s in (full, bare)]
    assert home.open().commit(changes, channels=[]) == {A, B}
    assert repr(home.open().states()) == repr({A: full, B: bare})


def test_the_states_of_some_volumes_come_without_the_others(ledger):
    ledger.commit([a_change(A), a_change(B)], channels=[])
    assert ledger.states_of({A, C}) == {A: a_state(A)}
    assert ledger.states_of(ledger.states().keys()) == ledger.states()
    assert ledger.states_of(frozenset()) == {}


def test_a_change_writes_the_state_its_history_and_what_is_to_be_sent(ledger):
    change = a_change()
    assert ledger.commit([change], channels=[MAIL, SLACK]) == {A}
    assert ledger.states() == {A: change.state}
    assert ledger.entries(A) == list(change.entries)
    assert ledger.pending_deliveries(channels=[MAIL, SLACK]) == [
        Delivery(alert=change.alerts[0], channel=MAIL, attempts=0),
        Delivery(alert=change.alerts[0], channel=SLACK, attempts=0),
    ]


def test_a_stale_change_is_skipped_whole_and_the_rest_is_applied(ledger):
    ledger.commit([a_change(A), a_change(B)], channels=[])
    stale, fresh = a_change(A, expected=99, revision=101), a_change(B, expected=100, revision=101)
    change_of_new = a_change(C, expected=100, revision=101)
    assert ledger.commit([stale, fresh, change_of_new], channels=[MAIL]) == {B}
    assert {v: state.revision for v, state in ledger.states().items()} == {A: 100, B: 101}
    assert len(ledger.entries(A)) == 2
    assert ledger.entries(C) == []
    assert sent_ids(ledger, MAIL) == [fresh.alerts[0].alert_id]


def test_a_change_made_from_no_state_is_stale_once_there_is_one(ledger):
    ledger.commit([a_change()], channels=[])
    assert ledger.commit([a_change(expected=None, revision=101)], channels=[]) == set()


def test_a_calm_volume_loses_its_state_and_keeps_its_history(ledger):
    ledger.commit([a_change()], channels=[])
    assert ledger.commit([a_change(expected=100, revision=101, dropped=True)], channels=[]) == {A}
    assert ledger.states() == {}
    assert len(ledger.entries(A)) == 4
    assert ledger.commit([a_change(expected=None, revision=102)], channels=[]) == {A}


def test_without_channels_an_alert_is_history_and_nothing_waits(ledger):
    ledger.commit([a_change()], channels=[])
    assert entry_kinds(ledger) == [EntryKind.LEVEL_CHANGED, EntryKind.ALERT]
    assert ledger.pending_deliveries(channels=[MAIL, SLACK]) == []


def test_an_alert_without_an_entry_of_its_own_still_gets_one(ledger):
    alert = a_ledger_alert()
    ledger.commit(
        [Change(volume_id=A, expected_revision=None, state=a_state(), alerts=[alert])], channels=[MAIL]
    )
    (entry,) = ledger.entries(A)
    assert (entry.kind, entry.revision, entry.at_s) == (EntryKind.ALERT, 100, 100)
    assert Alert.from_document(entry.body) == alert
    assert sent_ids(ledger, MAIL) == [alert.alert_id]


def test_the_same_alert_committed_again_is_neither_written_nor_sent_twice(ledger):
    """Two watchdogs reject one policy at one time: no state's revision could distinguish them."""
    rejected = a_change(
        "policy", dropped=True, alerts=(a_ledger_alert("policy", 100, AlertKind.POLICY_REJECTED),)
    )
    sent = []
    for _ in range(2):
        assert ledger.commit([rejected], channels=[MAIL]) == {"policy"}
        for delivery in ledger.pending_deliveries(channels=[MAIL]):
            assert ledger.claim_delivery(delivery, now_s=0, lease_s=60)
            ledger.mark_delivered(delivery, at_s=101)
            sent.append(delivery.alert.alert_id)
    assert sent == [rejected.alerts[0].alert_id]
    assert entry_kinds(ledger, "policy") == [EntryKind.LEVEL_CHANGED, EntryKind.ALERT, EntryKind.DELIVERED]


def test_an_alert_repeated_in_one_change_is_recorded_once(ledger):
    alert = a_ledger_alert()
    reported = [an_entry(revision=r, kind=EntryKind.ALERT, body=alert.to_document()) for r in (100, 100, 101)]
    change = Change(
        volume_id=A, expected_revision=None, state=a_state(), entries=reported, alerts=[alert, alert]
    )
    assert ledger.commit([change], channels=[MAIL]) == {A}
    assert [entry.revision for entry in ledger.entries(A)] == [100, 101]
    assert sent_ids(ledger, MAIL) == [alert.alert_id]


def test_a_pending_alert_is_not_queued_again(ledger):
    alert = a_ledger_alert()
    ledger.commit([a_change(alerts=(alert,))], channels=[MAIL])
    assert ledger.commit([a_change(expected=100, revision=101, alerts=(alert,))], channels=[MAIL]) == {A}
    assert len(ledger.entries(A)) == 4
    assert sent_ids(ledger, MAIL) == [alert.alert_id]


def test_entries_are_reported_oldest_first_from_the_time_requested(ledger):
    entries = [an_entry(revision=r, at_s=at_s) for r, at_s in ((1, 30), (2, 10), (3, 20), (4, 30))]
    ledger.commit(
        [Change(volume_id=A, expected_revision=None, state=a_state(), entries=entries)], channels=[]
    )
    assert [entry.revision for entry in ledger.entries(A)] == [2, 3, 1, 4]
    assert [entry.revision for entry in ledger.entries(A, since_s=20)] == [3, 1, 4]


def test_what_a_zone_lacks_is_kept_as_its_history_and_changes_no_volume(home, ledger):
    """Old code can still read the ledger: there is no new table, item or kind of entry."""
    volume = a_volume(volume_id=A, zone="us-east-1-bos-1a")
    ledger.commit([a_change(A)], channels=[])
    for at_s, kind in ((100, VolumeType.GP3), (900, VolumeType.IO2)):
        change = remember_refusal(volume, kind, "not supported", at_s)
        assert ledger.commit([change], channels=()) == {"zone us-east-1-bos-1a"}
        assert ledger.commit([change], channels=()) == {"zone us-east-1-bos-1a"}
    assert ledger.states().keys() == {A}
    reported = home.open().entries("zone us-east-1-bos-1a")
    assert [entry.body["volume_type"] for entry in reported] == ["gp3", "io2"]
    late = ledger.entries("zone us-east-1-bos-1a", since_s=101)
    assert unavailable_types(volume, late).keys() == {VolumeType.IO2}


def test_a_write_that_fails_half_way_leaves_the_ledger_as_it_was(ledger):
    unwritable = a_change(B, alerts=(replace(a_ledger_alert(B), evidence={"not": {"JSON"}}),))
    unwritable = replace(unwritable, entries=())
    with pytest.raises(TypeError):
        ledger.commit([a_change(A), unwritable], channels=[MAIL])
    assert ledger.states() == {}
    assert ledger.entries(A) == []
    assert ledger.commit([a_change(A)], channels=[MAIL]) == {A}


# Sending


def test_each_channel_takes_an_alert_for_itself(ledger):
    ledger.commit([a_change()], channels=[MAIL, SLACK])
    by_mail, by_slack = ledger.pending_deliveries(channels=[MAIL, SLACK])
    assert ledger.claim_delivery(by_mail, now_s=0, lease_s=60)
    ledger.mark_delivered(by_mail, at_s=111)
    assert ledger.pending_deliveries(channels=[MAIL, SLACK]) == [by_slack]
    assert ledger.entries(A)[-1] == an_entry(
        kind=EntryKind.DELIVERED,
        at_s=111,
        body={
            "alert_id": by_mail.alert.alert_id,
            "channel": MAIL,
            "attempts": 1,
            "last_error": None,
            "digest_id": None,
        },
    )
    assert ledger.claim_delivery(by_slack, now_s=0, lease_s=60)
    ledger.mark_delivered(by_slack, at_s=112)
    assert entry_kinds(ledger)[2:] == [EntryKind.DELIVERED, EntryKind.DELIVERED]


def test_pending_alerts_are_listed_oldest_first_for_the_given_channels(ledger):
    late, early = a_ledger_alert(A, 100, time_s=300), a_ledger_alert(B, 100, time_s=200)
    ledger.commit([a_change(A, alerts=(late,)), a_change(B, alerts=(early,))], channels=[MAIL])
    assert sent_ids(ledger, MAIL, SLACK) == [early.alert_id, late.alert_id]
    assert sent_ids(ledger, SLACK) == []
    assert sent_ids(ledger) == []


def test_an_alert_about_the_watchdog_itself_is_delivered_without_an_entry(ledger):
    rejected = replace(a_ledger_alert("policy", 100, AlertKind.POLICY_REJECTED), volume_id=None, volume={})
    ledger.commit([a_change("policy", dropped=True, alerts=(rejected,))], channels=[MAIL])
    (delivery,) = ledger.pending_deliveries(channels=[MAIL])
    assert delivery.alert == rejected
    assert ledger.claim_delivery(delivery, now_s=0, lease_s=60)
    ledger.mark_delivered(delivery, at_s=101)
    assert ledger.pending_deliveries(channels=[MAIL]) == []
    assert EntryKind.DELIVERED not in entry_kinds(ledger, "policy")


@pytest.mark.parametrize(("now_s", "free"), [(100.0, False), (159.9, False), (160.0, True), (1000.0, True)])
def test_a_claim_holds_until_its_lease_has_run(ledger, second_ledger, now_s, free):
    """Claimed at 100 for 60 s: free again from 160 on."""
    ledger.commit([a_change()], channels=[MAIL])
    (delivery,) = ledger.pending_deliveries(channels=[MAIL])
    assert ledger.claim_delivery(delivery, now_s=100, lease_s=60)
    assert second_ledger.claim_delivery(delivery, now_s=now_s, lease_s=60) is free
    assert [waiting.attempts for waiting in ledger.pending_deliveries(channels=[MAIL])] == [1 + free]


def test_a_delivered_alert_cannot_be_claimed_or_delivered_again(ledger, second_ledger):
    ledger.commit([a_change()], channels=[MAIL])
    (delivery,) = ledger.pending_deliveries(channels=[MAIL])
    assert ledger.claim_delivery(delivery, now_s=0, lease_s=60)
    ledger.mark_delivered(delivery, at_s=101)
    assert not second_ledger.claim_delivery(delivery, now_s=1000, lease_s=60)
    second_ledger.mark_delivered(delivery, at_s=1001)
    second_ledger.mark_undelivered(delivery, error="too late")
    assert entry_kinds(ledger).count(EntryKind.DELIVERED) == 1
    assert ledger.pending_deliveries(channels=[MAIL]) == []


def test_an_alert_that_was_not_taken_is_free_at_once_and_its_error_ends_up_in_the_history(
    ledger, second_ledger
):
    ledger.commit([a_change()], channels=[MAIL])
    (delivery,) = ledger.pending_deliveries(channels=[MAIL])
    assert ledger.claim_delivery(delivery, now_s=0, lease_s=60)
    ledger.mark_undelivered(delivery, error="mail: connection refused")
    (again,) = second_ledger.pending_deliveries(channels=[MAIL])
    assert again.attempts == 1
    assert second_ledger.claim_delivery(again, now_s=1, lease_s=60)
    second_ledger.mark_delivered(again, at_s=102)
    body = ledger.entries(A)[-1].body
    assert (body["attempts"], body["last_error"]) == (2, "mail: connection refused")


def test_a_sender_whose_lease_ran_out_does_not_give_back_the_claim_of_its_successor(ledger, second_ledger):
    ledger.commit([a_change()], channels=[MAIL])
    (delivery,) = ledger.pending_deliveries(channels=[MAIL])
    assert ledger.claim_delivery(delivery, now_s=0, lease_s=60)
    assert second_ledger.claim_delivery(delivery, now_s=60, lease_s=60)
    ledger.mark_undelivered(delivery, error="slept through the lease")
    assert not ledger.claim_delivery(delivery, now_s=61, lease_s=60)


# Digests


def test_a_digest_goes_out_in_place_of_its_alerts(ledger):
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL])
    digest = a_digest(a_ledger_alert(A), a_ledger_alert(B))
    individual = ledger.pending_deliveries(channels=[MAIL])
    ledger.replace_with_digest(sent_ids(ledger, MAIL), digest, channels=[MAIL])
    assert ledger.pending_deliveries(channels=[MAIL]) == [Delivery(alert=digest, channel=MAIL, attempts=0)]
    assert [ledger.claim_delivery(delivery, now_s=0, lease_s=60) for delivery in individual] == [False, False]


def test_the_history_of_each_volume_shows_when_the_digest_with_its_alert_was_sent(home, ledger):
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL])
    digest = a_digest(a_ledger_alert(A), a_ledger_alert(B))
    ledger.replace_with_digest(sent_ids(ledger, MAIL), digest, channels=[MAIL])
    (delivery,) = ledger.pending_deliveries(channels=[MAIL])
    assert ledger.claim_delivery(delivery, now_s=0, lease_s=60)
    ledger.mark_delivered(delivery, at_s=501)
    assert ledger.pending_deliveries(channels=[MAIL]) == []
    assert home.count_undelivered() == 0
    for volume_id in (A, B):
        last = ledger.entries(volume_id)[-1]
        assert (last.kind, last.at_s, last.revision) == (EntryKind.DELIVERED, 501, 100)
        assert last.body["alert_id"] == a_ledger_alert(volume_id).alert_id
        assert last.body["digest_id"] == digest.alert_id


def test_the_alerts_of_a_digest_are_reported_in_the_order_in_which_they_were_raised(ledger):
    alerts = [replace(a_ledger_alert(A), alert_id=name * 32, at_s=100) for name in "cab"]
    ledger.commit([a_change(A, alerts=alerts)], channels=[MAIL])
    assert sent_ids(ledger, MAIL) == [alert.alert_id for alert in alerts]
    ledger.replace_with_digest(sent_ids(ledger, MAIL), a_digest(*alerts), channels=[MAIL])
    deliver(ledger, *ledger.pending_deliveries(channels=[MAIL]))
    reported = [entry.body["alert_id"] for entry in ledger.entries(A) if entry.kind is EntryKind.DELIVERED]
    assert reported == [alert.alert_id for alert in alerts]


def test_a_repeated_bundle_changes_nothing_before_or_after_the_digest_is_sent(ledger):
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL])
    ids, digest = sent_ids(ledger, MAIL), a_digest(a_ledger_alert(A), a_ledger_alert(B))
    for _ in range(2):
        ledger.replace_with_digest(ids, digest, channels=[MAIL])
    (delivery,) = ledger.pending_deliveries(channels=[MAIL])
    assert ledger.claim_delivery(delivery, now_s=0, lease_s=60)
    ledger.replace_with_digest(ids, digest, channels=[MAIL])
    ledger.mark_delivered(delivery, at_s=501)
    ledger.replace_with_digest(ids, digest, channels=[MAIL])
    assert ledger.pending_deliveries(channels=[MAIL]) == []
    assert entry_kinds(ledger).count(EntryKind.DELIVERED) == 1


def claim(ledger, delivery):
    assert ledger.claim_delivery(delivery, now_s=0, lease_s=60)


def try_to_send(ledger, delivery):
    claim(ledger, delivery)
    ledger.mark_undelivered(delivery, error="refused")


def deliver(ledger, delivery):
    claim(ledger, delivery)
    ledger.mark_delivered(delivery, at_s=101)


def replace_with_digest(ledger, delivery):
    ledger.replace_with_digest(
        [delivery.alert.alert_id], replace(a_digest(delivery.alert), alert_id="d" * 32), channels=[MAIL]
    )


@pytest.mark.parametrize("happens", [claim, try_to_send, deliver, replace_with_digest])
def test_a_digest_with_an_alert_that_no_longer_waits_untouched_is_not_sent(ledger, second_ledger, happens):
    """It would send that alert a second time; the others go out one by one, or in the next digest."""
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL])
    ids, digest = sent_ids(ledger, MAIL), a_digest(a_ledger_alert(A), a_ledger_alert(B))
    happens(second_ledger, second_ledger.pending_deliveries(channels=[MAIL])[0])
    before = ledger.pending_deliveries(channels=[MAIL])
    ledger.replace_with_digest(ids, digest, channels=[MAIL])
    assert ledger.pending_deliveries(channels=[MAIL]) == before
    assert a_ledger_alert(B).alert_id in sent_ids(ledger, MAIL)


def test_a_digest_takes_the_place_of_alerts_on_the_channels_that_sent_none_of_them(ledger):
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL, SLACK])
    deliver(ledger, ledger.pending_deliveries(channels=[MAIL])[0])
    digest = a_digest(a_ledger_alert(A), a_ledger_alert(B))
    ledger.replace_with_digest(
        [a_ledger_alert(A).alert_id, a_ledger_alert(B).alert_id], digest, channels=[MAIL, SLACK]
    )
    assert sent_ids(ledger, MAIL) == [a_ledger_alert(B).alert_id]
    assert sent_ids(ledger, SLACK) == [digest.alert_id]


def test_a_digest_can_take_the_place_of_a_digest(ledger):
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL])
    small = a_digest(a_ledger_alert(A))
    ledger.replace_with_digest([a_ledger_alert(A).alert_id], small, channels=[MAIL])
    large = a_digest(small, a_ledger_alert(B))
    ledger.replace_with_digest([small.alert_id, a_ledger_alert(B).alert_id], large, channels=[MAIL])
    assert sent_ids(ledger, MAIL) == [large.alert_id]
    deliver(ledger, ledger.pending_deliveries(channels=[MAIL])[0])
    assert ledger.pending_deliveries(channels=[MAIL]) == []
    assert [entry_kinds(ledger, v).count(EntryKind.DELIVERED) for v in (A, B)] == [1, 1]


def test_a_digest_of_nothing_is_not_sent(ledger):
    ledger.replace_with_digest([], a_digest(a_ledger_alert(A)), channels=[MAIL])
    assert ledger.pending_deliveries(channels=[MAIL]) == []


# Ticks and the roster


def test_a_tick_is_claimed_once_while_its_lease_runs(ledger, second_ledger):
    """Claimed at 0 for 60 s."""
    assert ledger.claim_tick(TickKind.SWEEP, 300, now_s=0, lease_s=60)
    assert not second_ledger.claim_tick(TickKind.SWEEP, 300, now_s=59.9, lease_s=60)
    assert second_ledger.claim_tick(TickKind.SWEEP, 300, now_s=60, lease_s=60)


def test_a_running_tick_holds_back_the_ticks_before_it_and_not_those_after(ledger, second_ledger):
    assert ledger.claim_tick(TickKind.FOCUS, 120, now_s=0, lease_s=600)
    assert not second_ledger.claim_tick(TickKind.FOCUS, 60, now_s=0, lease_s=600)
    assert second_ledger.claim_tick(TickKind.FOCUS, 180, now_s=0, lease_s=600)
    assert not ledger.claim_tick(TickKind.FOCUS, 120, now_s=30, lease_s=600)


def test_one_sweep_runs_at_a_time_and_a_later_one_waits_for_it(ledger, second_ledger):
    """A sweep of a large region takes longer than the time from one sweep tick to the next."""
    assert ledger.claim_tick(TickKind.SWEEP, 300, now_s=300, lease_s=50)
    assert ledger.renew_tick(TickKind.SWEEP, 300, until_s=350, now_s=580, lease_s=50)
    assert not second_ledger.claim_tick(TickKind.SWEEP, 600, now_s=600, lease_s=50)
    assert second_ledger.claim_tick(TickKind.FOCUS, 600, now_s=600, lease_s=50)
    ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=frozenset())
    assert second_ledger.claim_tick(TickKind.SWEEP, 600, now_s=610, lease_s=50)


def test_no_one_else_takes_a_renewed_tick_until_the_new_lease_ends(ledger, second_ledger):
    assert ledger.claim_tick(TickKind.SWEEP, 300, now_s=0, lease_s=50)
    assert ledger.renew_tick(TickKind.SWEEP, 300, until_s=50, now_s=30.5, lease_s=50)
    assert not second_ledger.claim_tick(TickKind.SWEEP, 300, now_s=80, lease_s=50)
    assert ledger.renew_tick(TickKind.SWEEP, 300, until_s=80.5, now_s=70, lease_s=50)
    assert second_ledger.claim_tick(TickKind.SWEEP, 300, now_s=120, lease_s=50)


def test_a_tick_that_another_process_took_is_not_renewed(ledger, second_ledger):
    assert ledger.claim_tick(TickKind.SWEEP, 300, now_s=0, lease_s=50)
    assert second_ledger.claim_tick(TickKind.SWEEP, 300, now_s=60, lease_s=50)
    assert not ledger.renew_tick(TickKind.SWEEP, 300, until_s=50, now_s=61, lease_s=50)
    assert second_ledger.renew_tick(TickKind.SWEEP, 300, until_s=110, now_s=90, lease_s=50)


def test_a_sweep_that_a_later_one_replaced_is_not_renewed(ledger, second_ledger):
    assert ledger.claim_tick(TickKind.SWEEP, 300, now_s=300, lease_s=50)
    assert second_ledger.claim_tick(TickKind.SWEEP, 600, now_s=600, lease_s=50)
    assert not ledger.renew_tick(TickKind.SWEEP, 300, until_s=350, now_s=601, lease_s=50)


def test_a_late_renewal_holds_if_no_one_took_the_tick(ledger, second_ledger):
    assert ledger.claim_tick(TickKind.SWEEP, 300, now_s=0, lease_s=50)
    assert ledger.renew_tick(TickKind.SWEEP, 300, until_s=50, now_s=70, lease_s=50)
    assert not second_ledger.claim_tick(TickKind.SWEEP, 300, now_s=119, lease_s=50)


def test_records_from_a_fast_clock_block_no_one(ledger, second_ledger):
    """Three hours ahead, a pass claimed its tick and died, another was completed."""
    assert ledger.claim_tick(TickKind.FOCUS, 10_800, now_s=10_800, lease_s=50)
    ledger.complete_tick(TickKind.SWEEP, 10_800, fleet_fingerprints=frozenset())
    assert second_ledger.claim_tick(TickKind.FOCUS, 60, now_s=60, lease_s=50)
    assert second_ledger.claim_tick(TickKind.SWEEP, 0, now_s=60, lease_s=50)


def test_a_ledger_is_kept_to_one_account_and_region(ledger, second_ledger):
    ledger.bind("account 1 in us-east-1")
    second_ledger.bind("account 1 in us-east-1")
    with pytest.raises(
        LedgerError, match=r"is that of account 1 in us-east-1, this is account 2 in us-east-1"
    ):
        second_ledger.bind("account 2 in us-east-1")


def test_an_alert_waits_for_channels_that_only_another_process_serves(ledger, second_ledger):
    ledger.commit([a_change(A)], channels=[MAIL, SLACK])
    second_ledger.commit([a_change(B)], channels=[MAIL])
    assert {waits.alert.volume_id for waits in ledger.pending_deliveries(channels=[SLACK])} == {A, B}


def test_the_two_schedules_do_not_hold_each_other_back(ledger):
    assert ledger.claim_tick(TickKind.SWEEP, 300, now_s=0, lease_s=60)
    assert ledger.claim_tick(TickKind.FOCUS, 300, now_s=0, lease_s=60)
    ledger.complete_tick(TickKind.FOCUS, 900)
    ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=frozenset())
    assert ledger.claim_tick(TickKind.SWEEP, 600, now_s=0, lease_s=60)


def test_a_completed_tick_and_those_before_it_are_never_claimed_again(ledger):
    assert ledger.claim_tick(TickKind.SWEEP, 300, now_s=0, lease_s=60)
    ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=frozenset())
    assert not ledger.claim_tick(TickKind.SWEEP, 300, now_s=1000, lease_s=60)
    assert not ledger.claim_tick(TickKind.SWEEP, 0, now_s=1000, lease_s=60)
    assert ledger.claim_tick(TickKind.SWEEP, 600, now_s=1000, lease_s=60)


def test_the_roster_is_that_of_the_last_sweep_and_never_moves_back(ledger):
    ledger.complete_tick(TickKind.SWEEP, 600, fleet_fingerprints=frozenset({1, 2**64 - 1}))
    ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=frozenset({3}))
    ledger.complete_tick(TickKind.FOCUS, 900)
    roster = ledger.fleet_snapshot()
    assert roster is not None
    assert (roster.tick_at_s, roster.fingerprints) == (600, {1, 2**64 - 1})


def test_a_sweep_completed_twice_keeps_the_later_roster(ledger, second_ledger):
    """The first to claim it was so slow that its lease ran out, and another did the work as well."""
    ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=frozenset({1}))
    second_ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=frozenset({1, 2}))
    roster = ledger.fleet_snapshot()
    assert roster is not None
    assert roster.fingerprints == {1, 2}


def test_a_sweep_without_a_roster_moves_the_watermark_and_keeps_the_roster(ledger):
    ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=frozenset({1}))
    ledger.complete_tick(TickKind.SWEEP, 600)
    roster = ledger.fleet_snapshot()
    assert roster is not None
    assert (roster.tick_at_s, roster.fingerprints) == (600, {1})

"""The SQLite ledger: what it keeps, who wins a race, and what it says when it cannot be used."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from burstwatch.adapters.ledger_sqlite import SCHEMA_VERSION, LedgerError, SqliteLedger
from burstwatch.core.alerts import Alert, AlertKind, alert_id, make_digest
from burstwatch.core.assess import UnknownReason
from burstwatch.core.ledger import Change, Delivery, EntryKind, LedgerEntry, TickKind, VolumeState
from burstwatch.core.levels import Level
from burstwatch.core.place import Place

A, B, C = "vol-0a", "vol-0b", "vol-0c"
MAIL, SLACK = "mail", "slack"
SOURCES = Path(__file__).parents[2] / "lambdas"
NOBODY = 65534


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path):
    with SqliteLedger.open(path) as opened:
        yield opened


@pytest.fixture
def other(ledger, path):
    """The same ledger as another process would have it open."""
    with SqliteLedger.open(path, lock_timeout_s=0.05) as opened:
        yield opened


def a_state(volume_id=A, revision=100, **known):
    return VolumeState(volume_id=volume_id, revision=revision, **({"level": Level.WARNING} | known))


def an_alert(volume_id=A, revision=100, kind=AlertKind.DRAINING, time_s=None):
    return Alert(
        alert_id=alert_id(str(volume_id), kind, revision),
        kind=kind,
        level=Level.WARNING,
        previous_level=Level.OK,
        volume_id=volume_id,
        time_s=revision if time_s is None else time_s,
        volume={"volume_id": volume_id, "name": "ci-7"},
        reading={"burst_balance_pct": 31.5, "unknown_reason": None},
        forecast={"time_to_empty_s": 715},
        evidence={"drain_per_s_by_horizon": {"3m": 2100.0}, "tag_faults": ["a", "ü"]},
        action="aws ec2 modify-volume",
    )


def an_entry(volume_id=A, revision=100, kind=EntryKind.LEVEL_CHANGED, at_s=None, body=None):
    return LedgerEntry(
        volume_id=volume_id,
        revision=revision,
        kind=kind,
        at_s=revision if at_s is None else at_s,
        body=body or {},
    )


def a_change(volume_id=A, *, expected=None, revision=100, dropped=False, alerts=None):
    """A volume that enters a level, with the alert about it."""
    alerts = (an_alert(volume_id, revision),) if alerts is None else alerts
    told = [an_entry(volume_id, revision, EntryKind.ALERT, body=alert.to_document()) for alert in alerts]
    return Change(
        volume_id=volume_id,
        expected_revision=expected,
        state=None if dropped else a_state(volume_id, revision),
        entries=[an_entry(volume_id, revision, body={"from": "ok", "to": "warning"}), *told],
        alerts=alerts,
    )


def a_digest(*alerts):
    return make_digest(alerts, place=Place(region="us-east-1"), runbooks_url="https://runbooks", now_s=500)


def kinds(ledger, volume_id=A):
    return [entry.kind for entry in ledger.entries(volume_id)]


def sent_ids(ledger, *channels):
    return [delivery.alert.alert_id for delivery in ledger.waiting(channels=channels)]


# What is kept


def test_a_new_ledger_knows_nothing(ledger):
    assert ledger.states() == {}
    assert ledger.entries(A) == []
    assert ledger.roster() is None
    assert ledger.waiting(channels=[MAIL]) == []


def test_a_state_comes_back_with_every_field_after_reopening(path):
    full = VolumeState(
        volume_id=A,
        revision=1_700_000_000,
        level=Level.CRITICAL,
        level_since_s=1,
        unknown_reason=UnknownReason.READ_FAILED,
        unknown_since_s=2,
        alerted_level=Level.WARNING,
        alerted_at_s=3,
        gap_alerted=True,
        next_look_at_s=4,
        arrived_at_s=5,
        smaller_size_gib=6,
        modified_at_s=7,
        balance_pct=8.125,
        balance_at_s=9,
    )
    bare = VolumeState(volume_id=B, revision=1)
    with SqliteLedger.open(path) as ledger:
        changes = [Change(volume_id=s.volume_id, expected_revision=None, state=s) for s in (full, bare)]
        assert ledger.commit(changes, channels=[]) == {A, B}
    with SqliteLedger.open(path) as ledger:
        assert repr(ledger.states()) == repr({A: full, B: bare})


def test_a_change_writes_the_state_its_history_and_what_is_to_be_sent(ledger):
    change = a_change()
    assert ledger.commit([change], channels=[MAIL, SLACK]) == {A}
    assert ledger.states() == {A: change.state}
    assert ledger.entries(A) == list(change.entries)
    assert ledger.waiting(channels=[MAIL, SLACK]) == [
        Delivery(alert=change.alerts[0], channel=MAIL, attempts=0),
        Delivery(alert=change.alerts[0], channel=SLACK, attempts=0),
    ]


def test_a_stale_change_is_skipped_whole_and_the_rest_is_applied(ledger):
    ledger.commit([a_change(A), a_change(B)], channels=[])
    stale, fresh = a_change(A, expected=99, revision=101), a_change(B, expected=100, revision=101)
    unseen = a_change(C, expected=100, revision=101)
    assert ledger.commit([stale, fresh, unseen], channels=[MAIL]) == {B}
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
    assert kinds(ledger) == [EntryKind.LEVEL_CHANGED, EntryKind.ALERT]
    assert ledger.waiting(channels=[MAIL, SLACK]) == []


def test_an_alert_without_an_entry_of_its_own_still_gets_one(ledger):
    alert = an_alert()
    ledger.commit(
        [Change(volume_id=A, expected_revision=None, state=a_state(), alerts=[alert])], channels=[MAIL]
    )
    (entry,) = ledger.entries(A)
    assert (entry.kind, entry.revision, entry.at_s) == (EntryKind.ALERT, 100, 100)
    assert Alert.from_document(entry.body) == alert
    assert sent_ids(ledger, MAIL) == [alert.alert_id]


def test_the_same_alert_committed_again_is_neither_written_nor_sent_twice(ledger):
    """Two watchdogs reject one policy at one time: there is no state whose revision could tell them apart."""
    rejected = a_change("policy", dropped=True, alerts=(an_alert("policy", 100, AlertKind.POLICY_REJECTED),))
    sent = []
    for _ in range(2):
        assert ledger.commit([rejected], channels=[MAIL]) == {"policy"}
        for delivery in ledger.waiting(channels=[MAIL]):
            assert ledger.claim(delivery, now_s=0, lease_s=60)
            ledger.delivered(delivery, at_s=101)
            sent.append(delivery.alert.alert_id)
    assert sent == [rejected.alerts[0].alert_id]
    assert kinds(ledger, "policy") == [EntryKind.LEVEL_CHANGED, EntryKind.ALERT, EntryKind.DELIVERED]


def test_entries_are_told_oldest_first_from_the_time_asked_for(ledger):
    entries = [an_entry(revision=r, at_s=at_s) for r, at_s in ((1, 30), (2, 10), (3, 20), (4, 30))]
    ledger.commit(
        [Change(volume_id=A, expected_revision=None, state=a_state(), entries=entries)], channels=[]
    )
    assert [entry.revision for entry in ledger.entries(A)] == [2, 3, 1, 4]
    assert [entry.revision for entry in ledger.entries(A, since_s=20)] == [3, 1, 4]


def test_a_write_that_fails_half_way_leaves_the_ledger_as_it_was(ledger):
    unwritable = a_change(B, alerts=(replace(an_alert(B), evidence={"not": {"JSON"}}),))
    unwritable = replace(unwritable, entries=())
    with pytest.raises(TypeError):
        ledger.commit([a_change(A), unwritable], channels=[MAIL])
    assert ledger.states() == {}
    assert ledger.entries(A) == []
    assert ledger.commit([a_change(A)], channels=[MAIL]) == {A}


def test_a_ledger_in_memory_is_a_ledger_too():
    with SqliteLedger.in_memory() as ledger:
        assert ledger.location == "sqlite::memory:"
        assert ledger.commit([a_change()], channels=[MAIL]) == {A}
        assert ledger.commit([a_change()], channels=[MAIL]) == set()
        assert len(ledger.waiting(channels=[MAIL])) == 1


# Sending


def test_each_channel_takes_an_alert_for_itself(ledger):
    ledger.commit([a_change()], channels=[MAIL, SLACK])
    by_mail, by_slack = ledger.waiting(channels=[MAIL, SLACK])
    assert ledger.claim(by_mail, now_s=0, lease_s=60)
    ledger.delivered(by_mail, at_s=111)
    assert ledger.waiting(channels=[MAIL, SLACK]) == [by_slack]
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
    assert ledger.claim(by_slack, now_s=0, lease_s=60)
    ledger.delivered(by_slack, at_s=112)
    assert kinds(ledger)[2:] == [EntryKind.DELIVERED, EntryKind.DELIVERED]


def test_what_waits_is_told_oldest_first_and_only_for_the_channels_asked_for(ledger):
    late, early = an_alert(A, 100, time_s=300), an_alert(B, 100, time_s=200)
    ledger.commit([a_change(A, alerts=(late,)), a_change(B, alerts=(early,))], channels=[MAIL])
    assert sent_ids(ledger, MAIL, SLACK) == [early.alert_id, late.alert_id]
    assert sent_ids(ledger, SLACK) == []
    assert sent_ids(ledger) == []


def test_an_alert_about_the_watchdog_itself_is_delivered_without_an_entry(ledger):
    rejected = replace(an_alert("policy", 100, AlertKind.POLICY_REJECTED), volume_id=None, volume={})
    ledger.commit([a_change("policy", dropped=True, alerts=(rejected,))], channels=[MAIL])
    (delivery,) = ledger.waiting(channels=[MAIL])
    assert delivery.alert == rejected
    assert ledger.claim(delivery, now_s=0, lease_s=60)
    ledger.delivered(delivery, at_s=101)
    assert ledger.waiting(channels=[MAIL]) == []
    assert EntryKind.DELIVERED not in kinds(ledger, "policy")


@pytest.mark.parametrize(("now_s", "free"), [(100.0, False), (159.9, False), (160.0, True), (1000.0, True)])
def test_a_claim_holds_until_its_lease_has_run(ledger, other, now_s, free):
    """Claimed at 100 for 60 s: free again from 160 on."""
    ledger.commit([a_change()], channels=[MAIL])
    (delivery,) = ledger.waiting(channels=[MAIL])
    assert ledger.claim(delivery, now_s=100, lease_s=60)
    assert other.claim(delivery, now_s=now_s, lease_s=60) is free
    assert [waiting.attempts for waiting in ledger.waiting(channels=[MAIL])] == [1 + free]


def test_a_delivered_alert_cannot_be_claimed_or_delivered_again(ledger, other):
    ledger.commit([a_change()], channels=[MAIL])
    (delivery,) = ledger.waiting(channels=[MAIL])
    assert ledger.claim(delivery, now_s=0, lease_s=60)
    ledger.delivered(delivery, at_s=101)
    assert not other.claim(delivery, now_s=1000, lease_s=60)
    other.delivered(delivery, at_s=1001)
    other.not_delivered(delivery, error="too late")
    assert kinds(ledger).count(EntryKind.DELIVERED) == 1
    assert ledger.waiting(channels=[MAIL]) == []


def test_an_alert_that_was_not_taken_is_free_at_once_and_its_error_ends_up_in_the_history(ledger, other):
    ledger.commit([a_change()], channels=[MAIL])
    (delivery,) = ledger.waiting(channels=[MAIL])
    assert ledger.claim(delivery, now_s=0, lease_s=60)
    ledger.not_delivered(delivery, error="mail: connection refused")
    (again,) = other.waiting(channels=[MAIL])
    assert again.attempts == 1
    assert other.claim(again, now_s=1, lease_s=60)
    other.delivered(again, at_s=102)
    body = ledger.entries(A)[-1].body
    assert (body["attempts"], body["last_error"]) == (2, "mail: connection refused")


def test_a_sender_whose_lease_ran_out_does_not_give_back_the_claim_of_its_successor(ledger, other):
    ledger.commit([a_change()], channels=[MAIL])
    (delivery,) = ledger.waiting(channels=[MAIL])
    assert ledger.claim(delivery, now_s=0, lease_s=60)
    assert other.claim(delivery, now_s=60, lease_s=60)
    ledger.not_delivered(delivery, error="slept through the lease")
    assert not ledger.claim(delivery, now_s=61, lease_s=60)


# Digests


def test_a_digest_goes_out_in_place_of_its_alerts(ledger):
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL])
    digest = a_digest(an_alert(A), an_alert(B))
    individual = ledger.waiting(channels=[MAIL])
    ledger.bundle(sent_ids(ledger, MAIL), digest, channels=[MAIL])
    assert ledger.waiting(channels=[MAIL]) == [Delivery(alert=digest, channel=MAIL, attempts=0)]
    assert [ledger.claim(delivery, now_s=0, lease_s=60) for delivery in individual] == [False, False]


def test_the_history_of_each_volume_tells_when_the_digest_with_its_alert_went_out(ledger):
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL])
    digest = a_digest(an_alert(A), an_alert(B))
    ledger.bundle(sent_ids(ledger, MAIL), digest, channels=[MAIL])
    (delivery,) = ledger.waiting(channels=[MAIL])
    assert ledger.claim(delivery, now_s=0, lease_s=60)
    ledger.delivered(delivery, at_s=501)
    assert ledger.waiting(channels=[MAIL]) == []
    assert ledger._connection.execute("SELECT * FROM deliveries").fetchall() == []
    for volume_id in (A, B):
        last = ledger.entries(volume_id)[-1]
        assert (last.kind, last.at_s, last.revision) == (EntryKind.DELIVERED, 501, 100)
        assert last.body["alert_id"] == an_alert(volume_id).alert_id
        assert last.body["digest_id"] == digest.alert_id


def test_a_repeated_bundle_changes_nothing_before_or_after_the_digest_is_sent(ledger):
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL])
    ids, digest = sent_ids(ledger, MAIL), a_digest(an_alert(A), an_alert(B))
    for _ in range(2):
        ledger.bundle(ids, digest, channels=[MAIL])
    (delivery,) = ledger.waiting(channels=[MAIL])
    assert ledger.claim(delivery, now_s=0, lease_s=60)
    ledger.bundle(ids, digest, channels=[MAIL])
    ledger.delivered(delivery, at_s=501)
    ledger.bundle(ids, digest, channels=[MAIL])
    assert ledger.waiting(channels=[MAIL]) == []
    assert kinds(ledger).count(EntryKind.DELIVERED) == 1


def claimed(ledger, delivery):
    assert ledger.claim(delivery, now_s=0, lease_s=60)


def tried(ledger, delivery):
    claimed(ledger, delivery)
    ledger.not_delivered(delivery, error="refused")


def delivered(ledger, delivery):
    claimed(ledger, delivery)
    ledger.delivered(delivery, at_s=101)


def bundled_elsewhere(ledger, delivery):
    ledger.bundle(
        [delivery.alert.alert_id], replace(a_digest(delivery.alert), alert_id="d" * 32), channels=[MAIL]
    )


@pytest.mark.parametrize("happens", [claimed, tried, delivered, bundled_elsewhere])
def test_a_digest_with_an_alert_that_no_longer_waits_untouched_is_not_sent(ledger, other, happens):
    """It would tell that alert a second time; the others go out one by one, or in the next digest."""
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL])
    ids, digest = sent_ids(ledger, MAIL), a_digest(an_alert(A), an_alert(B))
    happens(other, other.waiting(channels=[MAIL])[0])
    before = ledger.waiting(channels=[MAIL])
    ledger.bundle(ids, digest, channels=[MAIL])
    assert ledger.waiting(channels=[MAIL]) == before
    assert an_alert(B).alert_id in sent_ids(ledger, MAIL)


def test_a_digest_takes_the_place_of_alerts_on_the_channels_that_sent_none_of_them(ledger):
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL, SLACK])
    delivered(ledger, ledger.waiting(channels=[MAIL])[0])
    digest = a_digest(an_alert(A), an_alert(B))
    ledger.bundle([an_alert(A).alert_id, an_alert(B).alert_id], digest, channels=[MAIL, SLACK])
    assert sent_ids(ledger, MAIL) == [an_alert(B).alert_id]
    assert sent_ids(ledger, SLACK) == [digest.alert_id]


def test_a_digest_can_take_the_place_of_a_digest(ledger):
    ledger.commit([a_change(A), a_change(B)], channels=[MAIL])
    small = a_digest(an_alert(A))
    ledger.bundle([an_alert(A).alert_id], small, channels=[MAIL])
    large = a_digest(small, an_alert(B))
    ledger.bundle([small.alert_id, an_alert(B).alert_id], large, channels=[MAIL])
    assert sent_ids(ledger, MAIL) == [large.alert_id]
    delivered(ledger, ledger.waiting(channels=[MAIL])[0])
    assert ledger.waiting(channels=[MAIL]) == []
    assert [kinds(ledger, v).count(EntryKind.DELIVERED) for v in (A, B)] == [1, 1]


def test_a_digest_of_nothing_is_not_sent(ledger):
    ledger.bundle([], a_digest(an_alert(A)), channels=[MAIL])
    assert ledger.waiting(channels=[MAIL]) == []


# Ticks and the roster


def test_a_tick_is_claimed_once_while_its_lease_runs(ledger, other):
    """Claimed at 0 for 60 s."""
    assert ledger.claim_tick(TickKind.SWEEP, 300, now_s=0, lease_s=60)
    assert not other.claim_tick(TickKind.SWEEP, 300, now_s=59.9, lease_s=60)
    assert other.claim_tick(TickKind.SWEEP, 300, now_s=60, lease_s=60)


def test_a_running_tick_holds_back_the_ticks_before_it_and_not_those_after(ledger, other):
    assert ledger.claim_tick(TickKind.FOCUS, 120, now_s=0, lease_s=600)
    assert not other.claim_tick(TickKind.FOCUS, 60, now_s=0, lease_s=600)
    assert other.claim_tick(TickKind.FOCUS, 180, now_s=0, lease_s=600)
    assert not ledger.claim_tick(TickKind.FOCUS, 120, now_s=30, lease_s=600)


def test_what_a_clock_that_was_ahead_has_left_stops_nobody(ledger, other):
    """Three hours ahead, a pass claimed its tick and died, another was completed."""
    assert ledger.claim_tick(TickKind.FOCUS, 10_800, now_s=10_800, lease_s=50)
    ledger.complete_tick(TickKind.SWEEP, 10_800, roster=frozenset())
    assert other.claim_tick(TickKind.FOCUS, 60, now_s=60, lease_s=50)
    assert other.claim_tick(TickKind.SWEEP, 0, now_s=60, lease_s=50)


def test_a_ledger_is_kept_to_one_account_and_region(ledger, other):
    ledger.bind("account 1 in us-east-1")
    other.bind("account 1 in us-east-1")
    with pytest.raises(
        LedgerError, match=r"is that of account 1 in us-east-1, this is account 2 in us-east-1"
    ):
        other.bind("account 2 in us-east-1")


def test_an_alert_waits_for_channels_that_only_another_process_serves(ledger, other):
    ledger.commit([a_change(A)], channels=[MAIL, SLACK])
    other.commit([a_change(B)], channels=[MAIL])
    assert {waits.alert.volume_id for waits in ledger.waiting(channels=[SLACK])} == {A, B}


def test_the_two_schedules_do_not_hold_each_other_back(ledger):
    assert ledger.claim_tick(TickKind.SWEEP, 300, now_s=0, lease_s=60)
    assert ledger.claim_tick(TickKind.FOCUS, 300, now_s=0, lease_s=60)
    ledger.complete_tick(TickKind.FOCUS, 900)
    assert ledger.claim_tick(TickKind.SWEEP, 600, now_s=0, lease_s=60)


def test_a_completed_tick_and_those_before_it_are_never_claimed_again(ledger):
    assert ledger.claim_tick(TickKind.SWEEP, 300, now_s=0, lease_s=60)
    ledger.complete_tick(TickKind.SWEEP, 300, roster=frozenset())
    assert not ledger.claim_tick(TickKind.SWEEP, 300, now_s=1000, lease_s=60)
    assert not ledger.claim_tick(TickKind.SWEEP, 0, now_s=1000, lease_s=60)
    assert ledger.claim_tick(TickKind.SWEEP, 600, now_s=1000, lease_s=60)


def test_the_roster_is_that_of_the_last_sweep_and_never_moves_back(ledger):
    ledger.complete_tick(TickKind.SWEEP, 600, roster=frozenset({1, 2**64 - 1}))
    ledger.complete_tick(TickKind.SWEEP, 300, roster=frozenset({3}))
    ledger.complete_tick(TickKind.FOCUS, 900)
    roster = ledger.roster()
    assert roster is not None
    assert (roster.tick_s, roster.fingerprints) == (600, {1, 2**64 - 1})


def test_a_sweep_completed_twice_keeps_the_later_roster(ledger, other):
    """The first to claim it was so slow that its lease ran out, and another did the work as well."""
    ledger.complete_tick(TickKind.SWEEP, 300, roster=frozenset({1}))
    other.complete_tick(TickKind.SWEEP, 300, roster=frozenset({1, 2}))
    roster = ledger.roster()
    assert roster is not None
    assert roster.fingerprints == {1, 2}


def test_a_sweep_without_a_roster_moves_the_watermark_and_keeps_the_roster(ledger):
    ledger.complete_tick(TickKind.SWEEP, 300, roster=frozenset({1}))
    ledger.complete_tick(TickKind.SWEEP, 600)
    roster = ledger.roster()
    assert roster is not None
    assert (roster.tick_s, roster.fingerprints) == (600, {1})


# The file


def test_the_ledger_and_its_directory_are_for_their_owner_only(tmp_path):
    path = tmp_path / "state" / "burstwatch" / "ledger.db"
    before = os.umask(0)
    try:
        with SqliteLedger.open(path) as ledger:
            ledger.commit([a_change()], channels=[])
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["ledger.db"]


def test_the_location_is_what_the_command_line_takes(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    with SqliteLedger.open(Path("ledger.db")) as ledger:
        assert ledger.location == f"sqlite:{path}"


@pytest.mark.parametrize("name", ["a b.db", "50%.db", "what?.db", "#1.db", "ü.db"])
def test_any_file_name_will_do(tmp_path, name):
    with SqliteLedger.open(tmp_path / name) as ledger:
        ledger.commit([a_change()], channels=[])
        assert name in {file.name for file in tmp_path.iterdir()}
    with SqliteLedger.open(tmp_path / name) as ledger:
        assert set(ledger.states()) == {A}


def test_opening_writes_nothing_to_a_ledger_that_is_there(path):
    with SqliteLedger.open(path) as ledger:
        ledger.commit([a_change()], channels=[])
    before = path.read_bytes()
    SqliteLedger.open(path).close()
    assert path.read_bytes() == before


# When it cannot be used


def said_by(fails):
    with pytest.raises(LedgerError) as raised:
        fails()
    message = str(raised.value)
    assert "\n" not in message
    return message


def test_a_directory_is_not_a_ledger(tmp_path):
    said = said_by(lambda: SqliteLedger.open(tmp_path))
    assert said == f"ledger {tmp_path} is a directory: name a file in it, such as {tmp_path}/ledger.db"


def test_a_device_is_not_a_ledger():
    assert "/dev/null is not a file" in said_by(lambda: SqliteLedger.open(Path("/dev/null")))


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    said = said_by(lambda: SqliteLedger.open(tmp_path / "file" / "sub" / "ledger.db"))
    assert f"ledger {tmp_path}/file/sub/ledger.db cannot be used" in said
    assert "Not a directory" in said
    assert "--ledger sqlite:PATH" in said


@contextmanager
def as_an_ordinary_user():
    """Root may do anything: be nobody for a while."""
    am_root = os.geteuid() == 0
    if am_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if am_root:
            os.seteuid(0)


@pytest.fixture
def public_directory():
    """One that every user can enter; the directories pytest makes are for their owner."""
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        directory.chmod(0o755)
        yield directory


@pytest.mark.parametrize(
    ("file_mode", "directory_mode", "reason"),
    [
        (None, 0o555, "Permission denied"),
        (0o000, 0o555, "unable to open database file"),
        (0o444, 0o555, "attempt to write a readonly database"),
        (0o600, 0o000, "Permission denied"),
    ],
    ids=["no new file", "no reading", "no writing", "no entering"],
)
def test_missing_permission_is_said_with_what_to_check(public_directory, file_mode, directory_mode, reason):
    path = public_directory / "ledger.db"
    if file_mode is not None:
        SqliteLedger.open(path).close()
        path.chmod(file_mode)
    public_directory.chmod(directory_mode)
    try:
        with as_an_ordinary_user():
            said = said_by(lambda: SqliteLedger.open(path))
    finally:
        public_directory.chmod(0o755)
    assert f"ledger {path} cannot be used" in said
    assert reason in said
    assert "check owner and permissions of the file and its directory" in said


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "it is empty"), (b"not a database\n" * 1000, "file is not a database")],
    ids=["empty", "garbage"],
)
def test_a_file_that_is_no_database_is_damaged_and_stays_as_it_is(path, content, reason):
    path.write_bytes(content)
    said = said_by(lambda: SqliteLedger.open(path))
    assert said == (
        f"ledger {path} is damaged ({reason}): restore a copy, or move it away (mv {path}* ELSEWHERE) to"
        " start a new ledger, without the alert state and history of this one; nothing was deleted"
    )
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def harmed(path, harm):
    """Does something to the bytes of a ledger of 200 volumes; returns what is in the file then."""
    with SqliteLedger.open(path) as ledger:
        ledger.commit([a_change(f"vol-{i:017x}") for i in range(200)], channels=[MAIL])
    path.write_bytes(harm(path.read_bytes()))
    return path.read_bytes()


def test_a_ledger_damaged_inside_is_said_to_be_damaged_by_whatever_meets_the_damage(path):
    content = harmed(path, lambda whole: whole[:4096] + b"\xff" * (len(whole) - 4096))
    with SqliteLedger.open(path) as ledger:
        for use in (ledger.states, lambda: ledger.commit([a_change(A)], channels=[MAIL])):
            assert f"ledger {path} is damaged (database disk image is malformed)" in said_by(use)
    assert path.read_bytes() == content


def test_a_ledger_cut_short_is_damaged(path):
    content = harmed(path, lambda whole: whole[:8192])
    said = said_by(lambda: SqliteLedger.open(path))
    assert f"ledger {path} is damaged (database disk image is malformed): restore a copy" in said
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_left_alone(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
    before = path.read_bytes()
    assert f"{path} is a database of another program" in said_by(lambda: SqliteLedger.open(path))
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused_with_both_versions(path):
    SqliteLedger.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    said = said_by(lambda: SqliteLedger.open(path))
    assert f"ledger {path} has schema 2" in said
    assert "this one knows schemas up to 1: update burstwatch" in said


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE states SET body = json_set(body, '$.flipped_at_s', 7)",
        "UPDATE states SET body = json_set(body, '$.level', 'doomed')",
        "UPDATE states SET body = '{'",
        "UPDATE entries SET kind = 'flipped'",
        "UPDATE deliveries SET document = '{}'",
        "UPDATE completed_ticks SET fingerprints = x'00'",
    ],
)
def test_a_row_that_cannot_be_read_is_said_so_and_is_not_skipped(path, ledger, change):
    ledger.commit([a_change()], channels=[MAIL])
    ledger.complete_tick(TickKind.SWEEP, 300, roster=frozenset({1}))
    ledger._connection.execute(change)

    def read_all():
        return ledger.states(), ledger.entries(A), ledger.waiting(channels=[MAIL]), ledger.roster()

    said = said_by(read_all)
    assert f"ledger {path} holds a row that this burstwatch cannot read" in said
    assert "use the newest burstwatch that ever wrote to it" in said


def test_a_ledger_locked_for_too_long_is_said_so_and_nothing_is_written(path, ledger, other):
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        said = said_by(lambda: other.commit([a_change()], channels=[MAIL]))
        assert other.states() == {}
        holder.execute("ROLLBACK")
    assert f"ledger {path} has been locked by another process for 0.05 s" in said
    assert f"fuser -v {path}" in said
    assert other.commit([a_change()], channels=[MAIL]) == {A}


def test_a_short_lock_is_waited_for(path, ledger):
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.1, holder.execute, ["ROLLBACK"])
        release.start()
        assert ledger.commit([a_change()], channels=[MAIL]) == {A}
        release.join()


@pytest.mark.parametrize("then", ["gone", "replaced"])
def test_a_ledger_moved_away_while_in_use_is_not_written_to_any_more(path, then, tmp_path):
    with SqliteLedger.open(path) as ledger:
        ledger.commit([a_change()], channels=[])
        for file in tmp_path.glob("ledger.db*"):
            file.rename(file.with_name(f"old-{file.name}"))
        if then == "replaced":
            SqliteLedger.open(path).close()
        said = said_by(lambda: ledger.commit([a_change(B)], channels=[]))
        assert f"ledger {path} was moved, deleted or replaced while in use" in said
    with SqliteLedger.open(tmp_path / "old-ledger.db") as ledger:
        assert set(ledger.states()) == {A}


def test_the_last_writes_of_a_missing_ledger_are_not_mixed_into_a_new_one(path, tmp_path):
    wal = tmp_path / "ledger.db-wal"
    wal.write_bytes(b"writes")
    said = said_by(lambda: SqliteLedger.open(path))
    assert f"there is no ledger {path}, but {wal} holds its last writes" in said
    assert list(tmp_path.iterdir()) == [wal]


def fill(ledger):
    """Write history until the ledger refuses; returns the last revision that was committed."""
    changes = (
        Change(
            volume_id=A,
            expected_revision=revision - 1 or None,
            state=a_state(revision=revision),
            entries=[an_entry(revision=revision, body={"text": "x" * 1000})],
        )
        for revision in range(1, 10_000)
    )
    committed = []
    with pytest.raises(LedgerError, match="no space left on its file system, nothing was written: free some"):
        committed += (change.state.revision for change in changes if ledger.commit([change], channels=[]))
    return committed[-1]


def test_a_full_ledger_keeps_what_it_held_and_goes_on_when_there_is_room(ledger):
    (limit,) = ledger._connection.execute("PRAGMA max_page_count = 60").fetchone()
    assert limit == 60
    last = fill(ledger)
    assert (ledger.states()[A].revision, len(ledger.entries(A))) == (last, last)
    ledger._connection.execute("PRAGMA max_page_count = 1000000")
    assert ledger.commit([a_change(expected=last, revision=last + 1)], channels=[]) == {A}


@pytest.fixture
def tiny_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root can mount a tiny disk here")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_loses_nothing_and_the_ledger_goes_on_when_there_is_room(tiny_disk):
    with SqliteLedger.open(tiny_disk / "ledger.db") as ledger:
        last = fill(ledger)
        assert (ledger.states()[A].revision, len(ledger.entries(A))) == (last, last)
        subprocess.run(["mount", "-o", "remount,size=8m", tiny_disk], check=True)
        assert ledger.commit([a_change(expected=last, revision=last + 1)], channels=[]) == {A}


def test_a_full_disk_leaves_no_half_made_ledger(tiny_disk):
    (tiny_disk / "ballast").write_bytes(b"x" * 500_000)
    assert "no space left" in said_by(lambda: SqliteLedger.open(tiny_disk / "ledger.db"))
    assert [file.name for file in tiny_disk.iterdir()] == ["ballast"]


# Races and crashes, with real processes

PRELUDE = """
import sys
from pathlib import Path
from burstwatch.adapters.ledger_sqlite import SqliteLedger
from burstwatch.core.alerts import Alert, AlertKind, make_digest
from burstwatch.core.ledger import Change, EntryKind, LedgerEntry, TickKind, VolumeState
from burstwatch.core.levels import Level
from burstwatch.core.place import Place

path, me = Path(sys.argv[1]), int(sys.argv[2])

def change(volume_id, expected, revision, text=""):
    alert = Alert(alert_id=f"{volume_id} {revision}", kind=AlertKind.DRAINING, level=Level.WARNING,
        previous_level=Level.OK, volume_id=volume_id, time_s=revision, volume={"volume_id": volume_id})
    entry = LedgerEntry(volume_id=volume_id, revision=revision, kind=EntryKind.LEVEL_CHANGED, at_s=revision,
        body={"by": me, "text": text})
    return Change(volume_id=volume_id, expected_revision=expected,
        state=VolumeState(volume_id=volume_id, revision=revision), entries=[entry], alerts=[alert])

def wait_for_the_start():
    print("ready", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def processes(script, path, count):
    environ = {**os.environ, "PYTHONPATH": str(SOURCES)}
    code = PRELUDE + textwrap.dedent(script)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, path, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
        )
        for number in range(count)
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def race(script, path, count=6):
    """What each of several processes printed that all began at once."""
    with processes(script, path, count) as racers:
        for racer in racers:
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        said = [racer.communicate(timeout=30)[0].splitlines() for racer in racers]
        assert [racer.returncode for racer in racers] == [0] * count
    return said


def test_of_many_processes_that_change_one_revision_exactly_one_wins_each_time(path, ledger):
    """Six processes each try all of revisions 1 to 50: 50 wins in all, each with its entry and its alert."""
    said = race(
        """
        with SqliteLedger.open(path) as ledger:
            wait_for_the_start()
            for revision in range(1, 51):
                while True:
                    if ledger.commit([change("vol-0a", revision - 1 or None, revision)], channels=["mail"]):
                        print(revision)
                        break
                    if ledger.states() and ledger.states()["vol-0a"].revision >= revision:
                        break
        """,
        path,
    )
    wins = sorted(int(line) for lines in said for line in lines)
    assert wins == list(range(1, 51))
    changed = [entry.revision for entry in ledger.entries(A) if entry.kind is EntryKind.LEVEL_CHANGED]
    assert changed == wins
    assert sent_ids(ledger, MAIL) == [f"{A} {revision}" for revision in wins]


def test_of_many_processes_that_send_alerts_exactly_one_sends_each(path, ledger):
    alerts = [an_alert(f"vol-{number:02}") for number in range(30)]
    ledger.commit([a_change(str(alert.volume_id), alerts=(alert,)) for alert in alerts], channels=[MAIL])
    said = race(
        """
        with SqliteLedger.open(path) as ledger:
            waiting = ledger.waiting(channels=["mail"])
            wait_for_the_start()
            for delivery in waiting:
                if ledger.claim(delivery, now_s=0, lease_s=60):
                    print(delivery.alert.alert_id)
                    ledger.delivered(delivery, at_s=1)
        """,
        path,
    )
    assert sorted(chain.from_iterable(said)) == sorted(alert.alert_id for alert in alerts)
    assert ledger.waiting(channels=[MAIL]) == []


def test_a_digest_that_races_with_senders_neither_loses_nor_doubles_an_alert(path, ledger):
    """Each of 20 pairs is bundled by some while others send its parts: a part goes alone or in its digest."""
    pairs = [[an_alert(f"vol-{number:02}-{part}") for part in "ab"] for number in range(20)]
    ledger.commit([a_change(str(a.volume_id), alerts=(a,)) for pair in pairs for a in pair], channels=[MAIL])
    said = race(
        """
        place = Place(region="us-east-1")
        with SqliteLedger.open(path) as ledger:
            waiting = ledger.waiting(channels=["mail"])
            wait_for_the_start()
            for one, two in zip(waiting[::2], waiting[1::2]):
                if me % 2:
                    digest = make_digest([one.alert, two.alert], place=place, runbooks_url="", now_s=1)
                    ledger.bundle([one.alert.alert_id, two.alert.alert_id], digest, channels=["mail"])
                elif ledger.claim(two, now_s=0, lease_s=60):
                    print(two.alert.volume_id)
                    ledger.delivered(two, at_s=1)
            for delivery in ledger.waiting(channels=["mail"]):
                if ledger.claim(delivery, now_s=0, lease_s=60):
                    alert = delivery.alert
                    for line in alert.evidence.get("most_urgent") or [{"volume_id": alert.volume_id}]:
                        print(line["volume_id"])
                    ledger.delivered(delivery, at_s=1)
        """,
        path,
    )
    assert sorted(chain.from_iterable(said)) == sorted(
        str(alert.volume_id) for pair in pairs for alert in pair
    )
    assert ledger.waiting(channels=[MAIL]) == []


def test_of_many_processes_that_make_the_ledger_all_find_the_same_one(path):
    said = race(
        """
        wait_for_the_start()
        with SqliteLedger.open(path) as ledger:
            print(len(ledger.commit([change("vol-0a", None, 1), change(f"vol-{me}", None, 1)], channels=[])))
            print(ledger.claim_tick(TickKind.SWEEP, 300, now_s=0, lease_s=60))
        """,
        path,
    )
    assert sorted(lines[0] for lines in said) == ["1"] * 5 + ["2"]
    assert sorted(lines[1] for lines in said) == ["False"] * 5 + ["True"]
    assert list(path.parent.iterdir()) == [path]


def test_threads_that_share_one_ledger_do_not_mix_their_changes(ledger):
    def change_again_and_again(volume_id):
        for revision in range(1, 41):
            change = a_change(volume_id, expected=revision - 1 or None, revision=revision)
            assert ledger.commit([change], channels=[MAIL]) == {volume_id}
            assert ledger.states()[volume_id] == change.state

    volume_ids = [f"vol-{number}" for number in range(4)]
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(change_again_and_again, volume_ids))
    assert len(ledger.waiting(channels=[MAIL])) == 4 * 40


def test_a_killed_writer_leaves_whole_changes_and_everything_it_was_told_is_done(path):
    """Killed ten times while it writes; each revision brings one entry and one delivery, or nothing."""
    done = 0
    for _ in range(10):
        with processes(
            """
            with SqliteLedger.open(path) as ledger:
                state = ledger.states().get("vol-0a")
                revision = state.revision if state else 0
                while True:
                    applied = ledger.commit(
                        [change("vol-0a", revision or None, revision + 1, "x" * 20_000)], channels=["mail"])
                    assert applied
                    revision += 1
                    print(revision, flush=True)
            """,
            path,
            1,
        ) as (writer,):
            for _ in range(5):
                done = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            done = max([done, *(int(line) for line in writer.stdout.read().split("\n")[:-1])])
        with SqliteLedger.open(path) as ledger:
            revision = ledger.states()[A].revision
            changed = [entry.revision for entry in ledger.entries(A) if entry.kind is EntryKind.LEVEL_CHANGED]
            assert done <= revision <= done + 1
            assert changed == list(range(1, revision + 1))
            assert sent_ids(ledger, MAIL) == [f"{A} {number}" for number in changed]


def test_a_process_killed_while_it_makes_ledgers_leaves_only_whole_ones(path):
    for attempt in range(5):
        directory = path.parent / str(attempt)
        with processes(
            """
            print("ready", flush=True)
            for number in range(10_000):
                SqliteLedger.open(path / f"{number}.db").close()
            """,
            directory,
            1,
        ) as (maker,):
            assert maker.stdout.readline() == "ready\n"
            while not (directory / "3.db").exists():
                time.sleep(0.001)
            maker.kill()
            maker.wait()
        for made in [*directory.glob("[0-9]*.db"), directory / "next.db"]:
            with SqliteLedger.open(made) as ledger:
                assert ledger.states() == {}


# How much it holds


def test_a_roster_of_a_hundred_thousand_takes_eight_bytes_a_volume(ledger):
    fleet = frozenset(range(2**63, 2**63 + 100_000))
    ledger.complete_tick(TickKind.SWEEP, 300, roster=fleet)
    assert ledger.roster().fingerprints == fleet
    (stored,) = ledger._connection.execute("SELECT length(fingerprints) FROM completed_ticks").fetchone()
    assert stored == 8 * 100_000


@contextmanager
def counted_steps(ledger):
    """How many steps of SQLite's virtual machine the block takes: its work, whatever the machine."""
    steps = []
    ledger._connection.set_progress_handler(lambda: steps.append(1) and None, 1)
    try:
        yield steps
    finally:
        ledger._connection.set_progress_handler(None, 0)


def test_a_long_history_of_other_volumes_costs_nothing(ledger):
    """The work for one volume, and for all states, is the same beside 20,000 entries of others as without."""

    def work(revision):
        with counted_steps(ledger) as steps:
            assert ledger.commit(
                [a_change(A, expected=revision - 1 or None, revision=revision)], channels=[MAIL]
            )
            ledger.states()
            ledger.entries(A, since_s=revision)
            (delivery,) = ledger.waiting(channels=[MAIL])
            assert ledger.claim(delivery, now_s=0, lease_s=60)
            ledger.delivered(delivery, at_s=revision)
        return len(steps)

    work(1)
    alone = work(2)
    entries = [an_entry(f"vol-{i % 100}", revision=i) for i in range(20_000)]
    ledger.commit([Change(volume_id=B, expected_revision=None, state=None, entries=entries)], channels=[MAIL])
    assert work(3) < alone * 1.2


def test_closing_twice_does_no_harm(ledger):
    ledger.close()
    ledger.close()
    with suppress(LedgerError):
        ledger.states()

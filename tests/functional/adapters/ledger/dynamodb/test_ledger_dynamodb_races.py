"""The DynamoDB ledger in races, where calls take time and meet each other, and when a process is killed."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from itertools import chain, count
from math import inf

import pytest

from burstlab.fake_aws.dynamodb import FakeDynamoDb
from burstlab.harness.effects import ProcessKilled
from burstwatch.core.ledger.caps import Caps, IntentStatus
from burstwatch.core.ledger.flip_state import Direction, Hold
from burstwatch.core.ledger.ledger import Change, TickKind
from burstwatch.core.ledger.ledger_entry import EntryKind
from support.builders.changes import MAIL, A, a_change, a_digest, a_ledger_alert, entry_kinds, sent_ids
from support.builders.flips import an_intent, flip_transition
from support.ledger.ledger_stores import DynamoStore

pytestmark = pytest.mark.call_s(0.002)


HOLD = Hold(volume_id=A, by="ann", reason="", placed_at_s=1, until_s=100)
VOLUME_IDS = [f"vol-{number:02}" for number in range(10)]
CAPS = [{"volumes": 4}, {"usd_per_month": 45.0}, {"volumes": 4, "usd_per_month": 1000.0}]


def run_concurrently(actions):
    """What each of several threads found that all began at once."""
    barrier = threading.Barrier(len(actions))

    def act(action):
        barrier.wait(timeout=60)
        return action()

    with ThreadPoolExecutor(max_workers=len(actions)) as pool:
        return list(pool.map(act, actions))


def race_in_threads(home, act, how_many=6):
    """What each of several processes found that has the ledger open for itself."""
    ledgers = [home.open() for _ in range(how_many)]
    return run_concurrently(
        [lambda worker=worker, own=own: act(worker, own) for worker, own in enumerate(ledgers)]
    )


# Races


@pytest.mark.parametrize("caps", CAPS)
def test_of_ten_racing_for_four_places_four_succeed_and_know_who_came_before(home, ledger, caps):
    """Each wants all ten volumes, beginning with another: four intents, on four volumes, at $10 each."""

    def act(worker, own):
        results = []
        for number in range(10):
            intent = an_intent(VOLUME_IDS[(worker + number) % 10], revision=100 + worker)
            results.append((intent.volume_id, begin(own, intent, **caps)))
        return [(volume_id, item) for volume_id, item in results if item.status is IntentStatus.RECORDED]

    recorded = list(chain.from_iterable(race_in_threads(home, act, 10)))
    assert sorted(item.volumes for _, item in recorded) == [0, 1, 2, 3]
    assert sorted(item.usd_per_month for _, item in recorded) == [0.0, 10.0, 20.0, 30.0]
    assert home.reserved() == (4, 40.0)
    assert set(ledger.states()) == {volume_id for volume_id, _ in recorded}


def begin(ledger, intent, **caps):
    return ledger.record_intent(intent, Caps(**caps), now_s=0, respects_holds=True, channels=[])


def test_however_flips_begin_and_end_no_cap_is_ever_exceeded(home, ledger):
    """Six flip ten volumes out and home, again and again; at $10 each the spend cap lets two be away."""
    caps = {"volumes": 3, "usd_per_month": 25.0}

    def act(worker, own):
        results = []
        for number in range(8):
            volume_id = VOLUME_IDS[(worker * 3 + number) % 10]
            state = own.states_of({volume_id}).get(volume_id)
            if state and state.flip:
                continue
            revision = state.revision if state else None
            for direction in Direction:
                new = (revision or 0) + 1
                intent_result = begin(
                    own, an_intent(volume_id, expected=revision, revision=new, direction=direction), **caps
                )
                results.append(intent_result)
                if intent_result.status is not IntentStatus.RECORDED:
                    break
                revision = new
            else:
                restored = flip_transition(
                    EntryKind.RESTORED, None, volume_id, expected=revision, revision=revision + 1
                )
                assert own.commit([restored], channels=[]) == {volume_id}
        return results

    text = list(chain.from_iterable(race_in_threads(home, act)))
    recorded = [intent_result for intent_result in text if intent_result.status is IntentStatus.RECORDED]
    assert recorded
    assert {intent_result.volumes for intent_result in recorded} <= {0, 1}
    assert home.reserved() == (0, 0.0)
    intents = [e for v in VOLUME_IDS for e in ledger.entries(v) if e.kind is EntryKind.INTENT]
    assert len(intents) == len(recorded)


def test_of_many_writers_of_one_revision_exactly_one_wins_each_time(home, ledger):
    """With an entry it is a transaction, without one it is not; both count."""

    def act(worker, own):
        wins = []
        for revision in range(1, 13):
            change = a_change(expected=revision - 1 or None, revision=revision)
            if revision % 2:
                change = Change(volume_id=A, expected_revision=change.expected_revision, state=change.state)
            while True:
                if own.commit([change], channels=[MAIL]):
                    wins.append(revision)
                    break
                if own.states_of({A}) and own.states_of({A})[A].revision >= revision:
                    break
        return wins

    wins = sorted(chain.from_iterable(race_in_threads(home, act)))
    assert wins == list(range(1, 13))
    changed = [entry.revision for entry in ledger.entries(A) if entry.kind is EntryKind.LEVEL_CHANGED]
    assert changed == [revision for revision in wins if revision % 2 == 0]
    assert len(sent_ids(ledger, MAIL)) == 6


def test_of_many_senders_exactly_one_sends_each_alert(home, ledger):
    alerts = [a_ledger_alert(f"vol-{number:02}") for number in range(20)]
    ledger.commit([a_change(str(alert.volume_id), alerts=(alert,)) for alert in alerts], channels=[MAIL])
    waiting = ledger.pending_deliveries(channels=[MAIL])

    def act(worker, own):
        sent = []
        for delivery in waiting:
            if own.claim_delivery(delivery, now_s=0, lease_s=60):
                sent.append(delivery.alert.alert_id)
                own.mark_delivered(delivery, at_s=1)
        return sent

    assert sorted(chain.from_iterable(race_in_threads(home, act))) == sorted(
        alert.alert_id for alert in alerts
    )
    assert home.count_undelivered() == 0


def test_a_digest_that_races_with_senders_neither_loses_nor_doubles_an_alert(home, ledger):
    """Each of 15 pairs is bundled by some while others send its parts: a part goes alone or in its digest."""
    pairs = [[a_ledger_alert(f"vol-{number:02}-{part}") for part in "ab"] for number in range(15)]
    ledger.commit([a_change(str(a.volume_id), alerts=(a,)) for pair in pairs for a in pair], channels=[MAIL])
    by_id = {delivery.alert.alert_id: delivery for delivery in ledger.pending_deliveries(channels=[MAIL])}

    def act(worker, own):
        reported = []
        for item, two in pairs:
            if worker % 2:
                own.replace_with_digest([item.alert_id, two.alert_id], a_digest(item, two), channels=[MAIL])
            elif own.claim_delivery(by_id[two.alert_id], now_s=0, lease_s=60):
                reported.append(two.volume_id)
                own.mark_delivered(by_id[two.alert_id], at_s=1)
        for delivery in own.pending_deliveries(channels=[MAIL]):
            if own.claim_delivery(delivery, now_s=0, lease_s=60):
                reported += an_entry_for(delivery.alert)
                own.mark_delivered(delivery, at_s=1)
        return reported

    reported = list(chain.from_iterable(race_in_threads(home, act)))
    for delivery in ledger.pending_deliveries(channels=[MAIL]):
        assert ledger.claim_delivery(delivery, now_s=0, lease_s=60)
        reported += an_entry_for(delivery.alert)
        ledger.mark_delivered(delivery, at_s=1)
    assert sorted(reported) == sorted(alert.volume_id for pair in pairs for alert in pair)
    assert home.count_undelivered() == 0


def an_entry_for(alert):
    return [
        line["volume_id"] for line in alert.evidence.get("most_urgent") or [{"volume_id": alert.volume_id}]
    ]


def test_a_contended_tick_is_claimed_by_one(home, ledger):
    def act(worker, own):
        ticks = range(60, 360, 60)
        return [tick_s for tick_s in ticks if own.claim_tick(TickKind.FOCUS, tick_s, now_s=0, lease_s=60)]

    assert sorted(chain.from_iterable(race_in_threads(home, act))) == list(range(60, 360, 60))


def test_rosters_that_are_written_at_once_leave_one_whole(home, ledger):
    fleets = [frozenset(range(worker, worker + 50_000)) for worker in range(4)]

    def act(worker, own):
        own.complete_tick(TickKind.SWEEP, 300 * worker, fleet_fingerprints=fleets[worker])
        return own.fleet_snapshot().tick_at_s

    assert max(race_in_threads(home, act, 4)) == 900
    assert (ledger.fleet_snapshot().tick_at_s, ledger.fleet_snapshot().fingerprints) == (900, fleets[3])
    assert sum(bool(items) and pk.startswith("roster ") for pk, items in home.dump().items()) == 1


def test_holds_that_are_placed_and_lifted_at_once_are_each_recorded(home, ledger):
    def act(worker, own):
        own.place_hold(replace(HOLD, by=f"{worker}"))
        return own.lift_hold(A, by=f"{worker}", at_s=2)

    lifted = [hold for hold in race_in_threads(home, act) if hold]
    assert lifted
    assert Counter(entry_kinds(ledger)) == {EntryKind.HELD: 6, EntryKind.RELEASED: len(lifted)}


def test_entries_within_one_second_take_one_transaction_each(home, ledger):
    """Otherwise concurrent writers would delay each other the longer the more they are."""
    for number in range(6):
        ledger.place_hold(replace(HOLD, by=f"{number}"))
    assert home.table.calls["TransactWriteItems"] == 6
    assert [entry.body["by"] for entry in ledger.entries(A)] == [f"{number}" for number in range(6)]


def before_it_writes(ledger, monkeypatch, happens):
    """This happens once, when the ledger has read and not yet written."""
    write = ledger._table.write_now

    def write_late(actions):
        monkeypatch.undo()
        happens()
        return write(actions)

    monkeypatch.setattr(ledger._table, "write_now", write_late)


def test_of_a_hold_that_is_replaced_while_it_is_lifted_the_new_one_is_lifted(home, ledger, monkeypatch):
    old, new = (replace(HOLD, reason=reason) for reason in ("old", "new"))
    ledger.place_hold(old)
    before_it_writes(ledger, monkeypatch, lambda: home.open().place_hold(new))
    assert ledger.lift_hold(A, by="bob", at_s=2) == new
    reported = [(entry.kind, entry.body["reason"]) for entry in ledger.entries(A)]
    assert reported == [(EntryKind.HELD, "old"), (EntryKind.HELD, "new"), (EntryKind.RELEASED, "new")]


def test_an_intent_that_meets_a_hold_half_way_is_held(home, ledger, monkeypatch):
    before_it_writes(ledger, monkeypatch, lambda: home.open().place_hold(replace(HOLD, volume_id=None)))
    assert begin(ledger, an_intent(A)).status is IntentStatus.HELD
    assert home.reserved() == (0, 0.0)
    assert ledger.entries(A) == []


# Crashes


class CrashingTable(FakeDynamoDb):
    """One whose client dies right before, or right after, the call of this number has its effect."""

    crash_at_call = None

    def set_crash(self, number, *, after=False):
        self.crash_at_call, self.dies_after, self.numbers = number, after, count()
        self.calls.clear()

    def _send(self, request, event_name, **fields):
        remaining = inf if self.crash_at_call is None else self.crash_at_call - next(self.numbers)
        if remaining < 0 or (remaining == 0 and not self.dies_after):
            raise ProcessKilled
        answer = super()._send(request, event_name, **fields)
        if remaining == 0:
            raise ProcessKilled
        return answer


ALERTS = [a_ledger_alert(f"vol-{number:03}") for number in range(120)]
CHANGES = [a_change(str(alert.volume_id), alerts=(alert,)) for alert in ALERTS]
IDS = [alert.alert_id for alert in ALERTS]
DIGEST = a_digest(*ALERTS)


def do_nothing(ledger, _now_s=0):
    """Of a ledger that is new."""


def commit_some(ledger, _now_s=0):
    ledger.commit(CHANGES[:5], channels=[MAIL])


def record_flip_intent(ledger, _now_s=0):
    begin(ledger, an_intent(A))


def complete_return(ledger, _now_s=0):
    ledger.commit([flip_transition(EntryKind.RESTORED, None, A, expected=100, revision=101)], channels=[])


def raise_alerts(ledger, _now_s=0):
    ledger.commit(CHANGES, channels=[MAIL])


def bundle(ledger, _now_s=0):
    ledger.replace_with_digest(IDS, DIGEST, channels=[MAIL])


def create_digest(ledger, _now_s=0):
    raise_alerts(ledger)
    bundle(ledger)


def send(ledger, now_s):
    for delivery in ledger.pending_deliveries(channels=[MAIL]):
        if ledger.claim_delivery(delivery, now_s=now_s, lease_s=60):
            ledger.mark_delivered(delivery, at_s=7)


def sweep(ledger, _now_s=0):
    ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=frozenset(range(60_000)))


def sweep_again(ledger, _now_s=0):
    ledger.complete_tick(TickKind.SWEEP, 600, fleet_fingerprints=frozenset(range(100_000)))


@pytest.mark.parametrize(
    ("before", "act"),
    [
        (do_nothing, commit_some),
        (do_nothing, record_flip_intent),
        (record_flip_intent, complete_return),
        (raise_alerts, bundle),
        (create_digest, send),
        (commit_some, send),
        (sweep, sweep_again),
    ],
)
def test_a_process_killed_before_or_after_any_call_leaves_what_the_next_can_finish(before, act):
    """It ends as if no process had been killed: nothing lost, nothing half done, each alert sent once."""
    items = items_after(before)
    calls, expected = run_with_crash(items, act)
    for number in range(calls):
        for after in (False, True):
            assert run_with_crash(items, act, dies_at=number, dies_after=after)[1] == expected


def items_after(act):
    home = DynamoStore(endpoint=None, table=FakeDynamoDb())
    try:
        act(home.open(clock=lambda: 0.0))
        return home.table.items
    finally:
        home.close()


def run_with_crash(items, act, *, dies_at=None, dies_after=False):
    """How many calls a process makes that does not die, and what the table with these items has in the end.

    A process that dies is followed by another, an hour later.
    """
    home = DynamoStore(endpoint=None, table=CrashingTable(items=deepcopy(items)))
    try:
        home.table.set_crash(dies_at, after=dies_after)
        if dies_at is not None:
            with pytest.raises(ProcessKilled):
                act(home.open(clock=lambda: 0.0), 0.0)
            home.table.set_crash(None)
            home.reserved()
        act(home.open(clock=lambda: 3600.0), 3600.0)
        return home.table.calls.total(), observed_state(home)
    finally:
        home.close()


def observed_state(home):
    ledger = home.open()
    reported = Counter(
        (pk, item["kind"]["S"])
        for pk, items in home.dump().items()
        for item in items.values()
        if pk.startswith("history ")
    )
    sent = sorted(sent_ids(ledger, MAIL))
    return ledger.states(), reported, sent, home.count_undelivered(), home.reserved(), ledger.fleet_snapshot()


@pytest.mark.parametrize("dies_after", [False, True])
def test_a_hold_exists_exactly_when_it_was_acknowledged(dies_after):
    home = DynamoStore(endpoint=None, table=CrashingTable())
    try:
        home.table.set_crash(0, after=dies_after)
        with pytest.raises(ProcessKilled):
            home.open().place_hold(HOLD)
        home.table.set_crash(None)
        assert len(home.open().holds(0)) == len(home.open().entries(A)) == dies_after
    finally:
        home.close()

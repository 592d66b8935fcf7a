"""Intents in the SQLite ledger: processes of their own that race for the caps, and that are killed."""

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import pytest

from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.errors import LedgerError
from burstwatch.core.ledger.caps import Caps, IntentStatus
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.ledger.resource_state import ResourceState
from support.builders.flips import an_intent
from support.concurrency.race_harness import run_race, start_process, start_race

A, B = "vol-0a", "vol-0b"
MAIL = "mail"
NOW_S = 1000
VOLUME_IDS = [f"vol-{number:02}" for number in range(10)]
CAPS = [{"volumes": 4}, {"usd_per_month": 45.0}, {"volumes": 4, "usd_per_month": 1000.0}]


def begin(ledger, change, **caps):
    return ledger.record_intent(change, Caps(**caps), now_s=NOW_S, respects_holds=True, channels=[MAIL])


def read_reservations(ledger):
    return dict(ledger._connection.execute("SELECT * FROM reservations"))


def reserving(ledger):
    """What the states say of what is reserved."""
    return {
        volume_id: max(0.0, state.flip.usd_per_month)
        for volume_id, state in ledger.states().items()
        if state.flip and state.flip.counts_against_caps
    }


@pytest.mark.parametrize("caps", CAPS)
def test_of_ten_processes_that_race_for_four_places_four_get_one(path, ledger, caps):
    """Each process wants all ten volumes, each beginning with another: four intents, on four volumes."""
    text = run_race(
        f"""
        from burstwatch.core.ledger.caps import Caps
        from support.builders.flips import an_intent
        with SqliteLedger.open(path) as ledger:
            wait_for_the_start()
            for number in range(10):
                volume_id = f"vol-{{(me + number) % 10:02}}"
                intent = an_intent(volume_id, revision=100 + me)
                print(volume_id, ledger.record_intent(
                    intent, Caps(**{caps}), now_s=1000, respects_holds=True, channels=["mail"]).status)
        """,
        path,
        10,
    )
    recorded = [line.split()[0] for line in chain.from_iterable(text) if line.endswith(IntentStatus.RECORDED)]
    assert len(recorded) == len(set(recorded)) == 4
    assert read_reservations(ledger) == reserving(ledger) == dict.fromkeys(recorded, 10.0)
    for volume_id in VOLUME_IDS:
        assert len(ledger.entries(volume_id)) == (volume_id in recorded)


def test_however_flips_begin_and_end_no_cap_is_ever_exceeded(path, ledger):
    """Six processes flip ten volumes out and home, again and again, at most three away and $25 at once.

    An onlooker reads the states all the while. At $10 each the spend cap lets two be away: one that begins
    to leave, or to return, finds at most one other.
    """
    script = """
        from burstwatch.core.ledger.flip_state import Direction
        from burstwatch.core.ledger.caps import Caps, IntentStatus
        from support.builders.flips import an_intent, flip_transition
        caps = Caps(volumes=3, usd_per_month=25.0)
        with SqliteLedger.open(path) as ledger:
            wait_for_the_start()
            for number in range(60):
                volume_id = f"vol-{(me * 3 + number) % 10:02}"
                state = ledger.states().get(volume_id)
                if state and state.flip:
                    continue
                revision = state.revision if state else None
                for direction in Direction:
                    new = (revision or 0) + 1
                    intent = an_intent(volume_id, expected=revision, revision=new, direction=direction)
                    result = ledger.record_intent(intent, caps, now_s=0, respects_holds=True, channels=[])
                    print(result.status, result.volumes)
                    if result.status is not IntentStatus.RECORDED:
                        break
                    revision = new
                else:
                    restored = flip_transition(
                        EntryKind.RESTORED, None, volume_id, expected=revision, revision=revision + 1)
                    assert ledger.commit([restored], channels=[])
        """
    most = 0
    with start_race(script, path) as race:
        race.begin()
        while race.is_running:
            most = max(most, sum(reserving(ledger).values()))
        text = Counter(chain.from_iterable(race.wait()))
    assert 10.0 <= most <= 20.0
    assert {line for line in text if line.startswith("recorded")} <= {"recorded 0", "recorded 1"}
    assert read_reservations(ledger) == reserving(ledger) == {}
    intents = [e for v in VOLUME_IDS for e in ledger.entries(v) if e.kind is EntryKind.INTENT]
    assert len(intents) == text["recorded 0"] + text["recorded 1"]


def test_a_process_killed_while_recording_intents_leaves_whole_ones(path):
    """Killed five times: no reservation without its state and its entry, none lost that was answered."""
    for start in range(0, 50_000, 10_000):
        with start_process(
            f"""
            from burstwatch.core.ledger.caps import Caps
            from support.builders.flips import an_intent
            with SqliteLedger.open(path) as ledger:
                for number in range({start}, {start} + 10_000):
                    intent = an_intent(f"vol-{{number}}")
                    caps = Caps(volumes=100_000)
                    ledger.record_intent(intent, caps, now_s=0, respects_holds=True, channels=[])
                    print(f"vol-{{number}}", flush=True)
            """,
            path,
        ) as writer:
            reported = [writer.stdout.readline().strip() for _ in range(5)]
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            reported += writer.stdout.read().split("\n")[:-1]
        with SqliteLedger.open(path) as ledger:
            states = ledger.states()
            assert set(reported) <= set(states)
            assert read_reservations(ledger) == reserving(ledger) == dict.fromkeys(states, 10.0)
            assert all(len(ledger.entries(volume_id)) == 1 for volume_id in states)


def test_an_intent_waits_for_a_concurrent_writer_and_sees_its_write(path, ledger):
    """The other has already placed its hold, and not committed yet, when the intent comes."""
    with SqliteLedger.open(path) as other, other._transaction() as connection:
        connection.execute("INSERT INTO holds VALUES ('*', 'ann', '', 0, ?)", (NOW_S + 1,))
        with ThreadPoolExecutor(max_workers=1) as pool:
            answer = pool.submit(begin, ledger, an_intent(A))
            assert not answer.done()
            connection.execute("COMMIT")
            assert answer.result(timeout=60).status is IntentStatus.HELD


def test_a_ledger_in_memory_keeps_the_caps_too():
    with SqliteLedger.in_memory() as ledger:
        assert begin(ledger, an_intent(A), volumes=1).status is IntentStatus.RECORDED
        assert begin(ledger, an_intent(B), volumes=1).status is IntentStatus.FLEET_CAP
        assert ledger.states() == {A: ResourceState(volume_id=A, revision=100, flip=an_intent(A).state.flip)}


def test_a_hold_that_cannot_be_recorded_is_not_placed(ledger):
    ledger._connection.execute("DROP TABLE entries")
    hold = Hold(volume_id=A, by="ann", reason="the release", placed_at_s=NOW_S, until_s=2000)
    with pytest.raises(LedgerError):
        ledger.place_hold(hold)
    assert ledger.holds(NOW_S) == []

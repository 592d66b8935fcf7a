"""A ledger of an older burstwatch is brought up to date where it lies, whole or not at all."""

import sqlite3
from contextlib import closing

import pytest

from burstwatch.adapters.ledger import sqlite_schema
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.ledger.sqlite_schema import SCHEMA_VERSION
from burstwatch.core.assessment.severity import Level
from burstwatch.core.errors import LedgerError
from burstwatch.core.ledger.caps import Caps, IntentStatus
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import FleetSnapshot, TickKind
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from support.builders.flips import an_intent
from support.builders.states import build_state
from support.concurrency.race_harness import run_race, start_process
from support.ledger.old_ledger import an_old_ledger

A, B = "vol-0a", "vol-0b"

OLD_STATE = build_state(
    volume_id=A,
    revision=100,
    level=Level.WARNING,
    level_since_s=90,
    open_level=Level.WARNING,
    level_at_s=100,
    balance_pct=31.5,
)


def dump_schema_and_rows(old_path):
    """Which schema a file has, by its own word and by its tables."""
    with closing(sqlite3.connect(old_path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return version, set(connection.execute("SELECT type, name, sql FROM sqlite_master"))


def test_what_an_old_ledger_held_it_still_holds(old_path):
    with SqliteLedger.open(old_path) as ledger:
        assert ledger.states() == {A: OLD_STATE}
        assert ledger.entries(A) == [
            LedgerEntry(
                volume_id=A,
                revision=100,
                kind=EntryKind.LEVEL_CHANGED,
                at_s=100,
                body={"from": "ok", "to": "warning"},
            )
        ]
        assert ledger.fleet_snapshot() == FleetSnapshot(tick_at_s=300, fingerprints=frozenset({1}))
        assert not ledger.claim_tick(TickKind.SWEEP, 300, now_s=400, lease_s=60)
        with pytest.raises(LedgerError, match="is that of account 1 in us-east-1"):
            ledger.bind("account 2 in us-east-1")


def test_an_old_ledger_learns_everything_a_new_one_can(old_path, tmp_path):
    SqliteLedger.open(old_path).close()
    SqliteLedger.open(tmp_path / "new.db").close()
    assert dump_schema_and_rows(old_path) == dump_schema_and_rows(tmp_path / "new.db")
    with SqliteLedger.open(old_path) as ledger:
        caps = {"caps": Caps(volumes=1), "now_s": 0, "respects_holds": True, "channels": []}
        assert (
            ledger.record_intent(an_intent(A, expected=100, revision=101), **caps).status
            is IntentStatus.RECORDED
        )
        assert ledger.record_intent(an_intent(B), **caps).status is IntentStatus.FLEET_CAP
        hold = Hold(volume_id=A, by="ann", reason="", placed_at_s=0, until_s=9)
        ledger.place_hold(hold)
        assert ledger.holds(0) == [hold]


def test_an_upgrade_happens_once(old_path):
    SqliteLedger.open(old_path).close()
    before = old_path.read_bytes()
    SqliteLedger.open(old_path).close()
    assert old_path.read_bytes() == before


def test_of_many_processes_that_open_an_old_ledger_at_once_each_can_use_it(tmp_path):
    for attempt in range(5):
        path = an_old_ledger(tmp_path / f"{attempt}.db")
        text = run_race(
            """
            from burstwatch.core.ledger.caps import Caps
            from support.builders.flips import an_intent
            wait_for_the_start()
            with SqliteLedger.open(path) as ledger:
                intent = an_intent(f"vol-{me}")
                print(ledger.record_intent(intent, Caps(volumes=2), now_s=0, respects_holds=True,
                    channels=[]).status)
            """,
            path,
        )
        assert sorted(word for (word,) in text) == ["fleet_cap"] * 4 + ["recorded"] * 2
        assert dump_schema_and_rows(path)[0] == SCHEMA_VERSION


@pytest.mark.parametrize("step", range(4))
def test_a_process_killed_in_the_middle_of_an_upgrade_leaves_the_old_ledger(old_path, step):
    """Killed before each of the three statements, and before the schema's number is written."""
    before = dump_schema_and_rows(old_path)
    with start_process(
        f"""
        import os, signal
        from burstwatch.adapters.ledger import sqlite_schema
        class Deadly(tuple):
            def __iter__(self):
                yield from self[:{step}]
                print("upgrading", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
        sqlite_schema._SCHEMA_2_STATEMENTS = Deadly(sqlite_schema._SCHEMA_2_STATEMENTS)
        SqliteLedger.open(path)
        """,
        old_path,
    ) as upgrader:
        assert upgrader.stdout.readline() == "upgrading\n"
        assert upgrader.wait(timeout=60) == -9
    assert dump_schema_and_rows(old_path) == before
    with SqliteLedger.open(old_path) as ledger:
        assert ledger.states() == {A: OLD_STATE}
    assert dump_schema_and_rows(old_path)[0] == SCHEMA_VERSION


def test_processes_killed_anywhere_in_an_upgrade_leave_the_old_schema_or_the_new_one(tmp_path):
    directory = tmp_path / "many"
    directory.mkdir()
    paths = [an_old_ledger(directory / f"{number}.db") for number in range(60)]
    old = dump_schema_and_rows(paths[-1])
    SqliteLedger.open(tmp_path / "new.db").close()
    new = dump_schema_and_rows(tmp_path / "new.db")
    for start in range(0, 60, 10):
        with start_process(
            f"""
            print("ready", flush=True)
            for number in range({start}, {start} + 10):
                SqliteLedger.open(path / f"{{number}}.db").close()
                print(number, flush=True)
            """,
            directory,
        ) as upgrader:
            for _ in range(1 + start // 15):
                upgrader.stdout.readline()
            upgrader.kill()
            upgrader.wait()
    for path in paths:
        assert dump_schema_and_rows(path) in (old, new)
        with SqliteLedger.open(path) as ledger:
            assert ledger.states() == {A: OLD_STATE}


def test_an_upgrade_that_fails_changes_nothing(old_path, monkeypatch):
    before = dump_schema_and_rows(old_path)
    monkeypatch.setattr(
        sqlite_schema, "_SCHEMA_2_STATEMENTS", (*sqlite_schema._SCHEMA_2_STATEMENTS, "CREATE NONSENSE")
    )
    with pytest.raises(LedgerError, match=f"ledger {old_path} cannot be used"):
        SqliteLedger.open(old_path)
    assert dump_schema_and_rows(old_path) == before


def test_an_upgrade_waits_for_a_writer_and_names_what_blocks_it(old_path):
    before = dump_schema_and_rows(old_path)
    with closing(sqlite3.connect(old_path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match=r"has been locked by another process for 0\.05 s"):
            SqliteLedger.open(old_path, lock_timeout_s=0.05)
        holder.execute("ROLLBACK")
    assert dump_schema_and_rows(old_path) == before


def test_a_ledger_that_is_upgraded_by_a_newer_burstwatch_in_the_meantime_is_refused(old_path, monkeypatch):
    """The schema is looked at again once no one else can write."""
    looks = sqlite_schema._check_schema

    def upgraded_after_the_look(connection, path):
        version = looks(connection, old_path)
        if not connection.in_transaction:
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        return version

    monkeypatch.setattr(sqlite_schema, "_check_schema", upgraded_after_the_look)
    with pytest.raises(LedgerError, match="has schema 3, made by a newer burstwatch"):
        SqliteLedger.open(old_path)

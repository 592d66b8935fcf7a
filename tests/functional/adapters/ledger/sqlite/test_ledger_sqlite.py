"""The SQLite ledger's file: who wins a race for it, and what is said when it cannot be used."""

import os
import signal
import sqlite3
import stat
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from itertools import chain
from pathlib import Path

import pytest

from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.ledger.sqlite_schema import SCHEMA_VERSION
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.errors import LedgerError
from burstwatch.core.ledger.caps import Caps, IntentResult, IntentStatus
from burstwatch.core.ledger.ledger import Change, TickKind
from burstwatch.core.ledger.ledger_entry import EntryKind
from support.builders.changes import MAIL, A, B, C, a_change, a_ledger_alert, a_state, an_entry, sent_ids
from support.builders.flips import an_intent
from support.builders.states import build_state
from support.concurrency.race_harness import run_race, start_process
from support.unprivileged import UNPRIVILEGED_ID

# What is kept


def test_a_state_that_an_older_burstwatch_wrote_is_read_as_it_was_meant(ledger):
    """It wrote every field that was not None, also if it was the default."""
    body = (
        '{"volume_id":"vol-0a","revision":7,"level":"ok","level_since_s":0,"unknown_reason":"detached",'
        '"alerted_level":"warning","gap_alerted":false,"balance_pct":31.5}'
    )
    ledger._connection.execute("INSERT INTO states VALUES (?, 7, ?)", (A, body))
    assert ledger.states() == {
        A: build_state(
            volume_id=A,
            revision=7,
            unknown_reason=UnknownReason.DETACHED,
            open_level=Level.WARNING,
            balance_pct=31.5,
        )
    }


def test_no_file_is_taken_for_a_ledger_in_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SqliteLedger.in_memory() as ledger:
        (tmp_path / ":memory:").touch()
        assert ledger.states() == {}


def test_a_ledger_in_memory_is_a_ledger_too():
    with SqliteLedger.in_memory() as ledger:
        assert ledger.location == "sqlite::memory:"
        assert ledger.commit([a_change()], channels=[MAIL]) == {A}
        assert ledger.commit([a_change()], channels=[MAIL]) == set()
        assert len(ledger.pending_deliveries(channels=[MAIL])) == 1


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
def test_any_file_name_works(tmp_path, name):
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


def error_message(fails):
    with pytest.raises(LedgerError) as exc_info:
        fails()
    message = str(exc_info.value)
    assert "\n" not in message
    return message


def test_a_directory_is_not_a_ledger(tmp_path):
    message = error_message(lambda: SqliteLedger.open(tmp_path))
    assert message == f"ledger {tmp_path} is a directory; name a file in it, such as {tmp_path}/ledger.db"


def test_a_device_is_not_a_ledger():
    assert "/dev/null is not a file" in error_message(lambda: SqliteLedger.open(Path("/dev/null")))


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    message = error_message(lambda: SqliteLedger.open(tmp_path / "file" / "sub" / "ledger.db"))
    assert f"ledger {tmp_path}/file/sub/ledger.db cannot be used" in message
    assert "Not a directory" in message
    assert "--ledger sqlite:PATH" in message


@contextmanager
def run_unprivileged():
    """Root may do anything: run as an unprivileged user for a while."""
    am_root = os.geteuid() == 0
    if am_root:
        os.seteuid(UNPRIVILEGED_ID)
    try:
        yield
    finally:
        if am_root:
            os.seteuid(0)


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
def test_missing_permission_is_reported_with_what_to_check(
    public_directory, file_mode, directory_mode, reason
):
    path = public_directory / "ledger.db"
    if file_mode is not None:
        SqliteLedger.open(path).close()
        path.chmod(file_mode)
    public_directory.chmod(directory_mode)
    try:
        with run_unprivileged():
            message = error_message(lambda: SqliteLedger.open(path))
    finally:
        public_directory.chmod(0o755)
    assert f"ledger {path} cannot be used" in message
    assert reason in message
    assert "check owner and permissions of the file and its directory" in message


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "it is empty"), (b"not a database\n" * 1000, "file is not a database")],
    ids=["empty", "garbage"],
)
def test_a_file_that_is_not_a_database_is_damaged_and_stays_as_it_is(path, content, reason):
    path.write_bytes(content)
    message = error_message(lambda: SqliteLedger.open(path))
    assert message == (
        f"ledger {path} is damaged ({reason}); restore a copy, or move it away (mv {path}* ELSEWHERE) to"
        " start a new ledger, without the alert state and history of this one; nothing was deleted"
    )
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def damage(path, harm):
    """Does something to the bytes of a ledger of 200 volumes; returns what is in the file then."""
    with SqliteLedger.open(path) as ledger:
        ledger.commit([a_change(f"vol-{i:017x}") for i in range(200)], channels=[MAIL])
    path.write_bytes(harm(path.read_bytes()))
    return path.read_bytes()


def test_a_ledger_damaged_inside_is_reported_as_damaged_by_all_that_meet_the_damage(path):
    content = damage(path, lambda whole: whole[:4096] + b"\xff" * (len(whole) - 4096))
    with SqliteLedger.open(path) as ledger:
        for use in (ledger.states, lambda: ledger.commit([a_change(A)], channels=[MAIL])):
            assert f"ledger {path} is damaged (database disk image is malformed)" in error_message(use)
    assert path.read_bytes() == content


def test_a_ledger_cut_short_is_damaged(path):
    content = damage(path, lambda whole: whole[:8192])
    message = error_message(lambda: SqliteLedger.open(path))
    assert f"ledger {path} is damaged (database disk image is malformed); restore a copy" in message
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_left_alone(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
    before = path.read_bytes()
    assert f"{path} is a database of another program" in error_message(lambda: SqliteLedger.open(path))
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused_with_both_versions(path):
    SqliteLedger.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    message = error_message(lambda: SqliteLedger.open(path))
    assert f"ledger {path} has schema 3" in message
    assert "this one knows schemas up to 2; update burstwatch" in message


def test_a_ledger_locked_for_too_long_is_reported_and_nothing_is_written(path, ledger, second_ledger):
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        message = error_message(lambda: second_ledger.commit([a_change()], channels=[MAIL]))
        assert second_ledger.states() == {}
        holder.execute("ROLLBACK")
    assert f"ledger {path} has been locked by another process for 0.05 s" in message
    assert f"fuser -v {path}" in message
    assert second_ledger.commit([a_change()], channels=[MAIL]) == {A}


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
        message = error_message(lambda: ledger.commit([a_change(B)], channels=[]))
        assert f"ledger {path} was moved, deleted or replaced while in use" in message
    with SqliteLedger.open(tmp_path / "old-ledger.db") as ledger:
        assert set(ledger.states()) == {A}


def test_the_last_writes_of_a_missing_ledger_are_not_mixed_into_a_new_one(path, tmp_path):
    wal = tmp_path / "ledger.db-wal"
    wal.write_bytes(b"writes")
    message = error_message(lambda: SqliteLedger.open(path))
    assert f"there is no ledger {path}, but {wal} holds its last writes" in message
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
    with pytest.raises(LedgerError, match="no space left on its file system, nothing was written; free some"):
        committed += (change.state.revision for change in changes if ledger.commit([change], channels=[]))
    return committed[-1]


def test_a_full_ledger_keeps_what_it_held_and_goes_on_when_there_is_room(ledger):
    (limit,) = ledger._connection.execute("PRAGMA max_page_count = 60").fetchone()
    assert limit == 60
    last = fill(ledger)
    assert (ledger.states()[A].revision, len(ledger.entries(A))) == (last, last)
    ledger._connection.execute("PRAGMA max_page_count = 1000000")
    assert ledger.commit([a_change(expected=last, revision=last + 1)], channels=[]) == {A}


def test_a_full_disk_loses_nothing_and_the_ledger_goes_on_when_there_is_room(tiny_disk):
    with SqliteLedger.open(tiny_disk / "ledger.db") as ledger:
        last = fill(ledger)
        assert (ledger.states()[A].revision, len(ledger.entries(A))) == (last, last)
        subprocess.run(["mount", "-o", "remount,size=8m", tiny_disk], check=True)
        assert ledger.commit([a_change(expected=last, revision=last + 1)], channels=[]) == {A}


def test_a_full_disk_leaves_no_half_made_ledger(tiny_disk):
    (tiny_disk / "ballast").write_bytes(b"x" * 500_000)
    assert "no space left" in error_message(lambda: SqliteLedger.open(tiny_disk / "ledger.db"))
    assert [file.name for file in tiny_disk.iterdir()] == ["ballast"]


# Races and crashes, with real processes


def test_of_many_processes_that_change_one_revision_exactly_one_wins_each_time(path, ledger):
    """Six processes each try all of revisions 1 to 50: 50 wins in all, each with its entry and its alert."""
    text = run_race(
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
    wins = sorted(int(line) for lines in text for line in lines)
    assert wins == list(range(1, 51))
    changed = [entry.revision for entry in ledger.entries(A) if entry.kind is EntryKind.LEVEL_CHANGED]
    assert changed == wins
    assert sent_ids(ledger, MAIL) == [f"{A} {revision}" for revision in wins]


def test_of_many_processes_that_send_alerts_exactly_one_sends_each(path, ledger):
    alerts = [a_ledger_alert(f"vol-{number:02}") for number in range(30)]
    ledger.commit([a_change(str(alert.volume_id), alerts=(alert,)) for alert in alerts], channels=[MAIL])
    text = run_race(
        """
        with SqliteLedger.open(path) as ledger:
            waiting = ledger.pending_deliveries(channels=["mail"])
            wait_for_the_start()
            for delivery in waiting:
                if ledger.claim_delivery(delivery, now_s=0, lease_s=60):
                    print(delivery.alert.alert_id)
                    ledger.mark_delivered(delivery, at_s=1)
        """,
        path,
    )
    assert sorted(chain.from_iterable(text)) == sorted(alert.alert_id for alert in alerts)
    assert ledger.pending_deliveries(channels=[MAIL]) == []


def test_a_digest_that_races_with_senders_neither_loses_nor_doubles_an_alert(path, ledger):
    """Each of 20 pairs is bundled by some while others send its parts: a part goes alone or in its digest."""
    pairs = [[a_ledger_alert(f"vol-{number:02}-{part}") for part in "ab"] for number in range(20)]
    ledger.commit([a_change(str(a.volume_id), alerts=(a,)) for pair in pairs for a in pair], channels=[MAIL])
    text = run_race(
        """
        location = AwsLocation(region="us-east-1")
        with SqliteLedger.open(path) as ledger:
            waiting = ledger.pending_deliveries(channels=["mail"])
            wait_for_the_start()
            for one, two in zip(waiting[::2], waiting[1::2]):
                if me % 2:
                    digest = make_digest([one.alert, two.alert], location=location, runbooks_url="", now_s=1)
                    alert_ids = [one.alert.alert_id, two.alert.alert_id]
                    ledger.replace_with_digest(alert_ids, digest, channels=["mail"])
                elif ledger.claim_delivery(two, now_s=0, lease_s=60):
                    print(two.alert.volume_id)
                    ledger.mark_delivered(two, at_s=1)
            for delivery in ledger.pending_deliveries(channels=["mail"]):
                if ledger.claim_delivery(delivery, now_s=0, lease_s=60):
                    alert = delivery.alert
                    for line in alert.evidence.get("most_urgent") or [{"volume_id": alert.volume_id}]:
                        print(line["volume_id"])
                    ledger.mark_delivered(delivery, at_s=1)
        """,
        path,
    )
    assert sorted(chain.from_iterable(text)) == sorted(
        str(alert.volume_id) for pair in pairs for alert in pair
    )
    assert ledger.pending_deliveries(channels=[MAIL]) == []


def test_of_many_processes_that_make_the_ledger_all_find_the_same_one(path):
    text = run_race(
        """
        wait_for_the_start()
        with SqliteLedger.open(path) as ledger:
            print(len(ledger.commit([change("vol-0a", None, 1), change(f"vol-{me}", None, 1)], channels=[])))
            print(ledger.claim_tick(TickKind.SWEEP, 300, now_s=0, lease_s=60))
        """,
        path,
    )
    assert sorted(lines[0] for lines in text) == ["1"] * 5 + ["2"]
    assert sorted(lines[1] for lines in text) == ["False"] * 5 + ["True"]
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
    assert len(ledger.pending_deliveries(channels=[MAIL])) == 4 * 40


def test_a_killed_writer_leaves_whole_changes_and_everything_it_was_reported_is_done(path):
    """Killed ten times while it writes; each revision brings one entry and one delivery, or nothing."""
    result = 0
    for _ in range(10):
        with start_process(
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
        ) as writer:
            for _ in range(5):
                result = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            writer.wait()
            result = max([result, *(int(line) for line in writer.stdout.read().split("\n")[:-1])])
        with SqliteLedger.open(path) as ledger:
            revision = ledger.states()[A].revision
            changed = [entry.revision for entry in ledger.entries(A) if entry.kind is EntryKind.LEVEL_CHANGED]
            assert result <= revision <= result + 1
            assert changed == list(range(1, revision + 1))
            assert sent_ids(ledger, MAIL) == [f"{A} {number}" for number in changed]


def test_a_process_killed_while_it_makes_ledgers_leaves_only_whole_ones(path):
    for attempt in range(5):
        directory = path.parent / str(attempt)
        with start_process(
            """
            print("ready", flush=True)
            for number in range(10_000):
                SqliteLedger.open(path / f"{number}.db").close()
            """,
            directory,
        ) as maker:
            assert maker.stdout.readline() == "ready\n"
            while not (directory / "3.db").exists():
                time.sleep(0.001)
            maker.kill()
            maker.wait()
        for item in [*directory.glob("[0-9]*.db"), directory / "next.db"]:
            with SqliteLedger.open(item) as ledger:
                assert ledger.states() == {}


# How much it holds


def test_a_roster_of_a_hundred_thousand_takes_eight_bytes_a_volume(ledger):
    fleet = frozenset(range(2**63, 2**63 + 100_000))
    ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=fleet)
    assert ledger.fleet_snapshot().fingerprints == fleet
    (stored,) = ledger._connection.execute("SELECT length(fingerprints) FROM completed_ticks").fetchone()
    assert stored == 8 * 100_000


@contextmanager
def count_steps(ledger):
    """How many steps of SQLite's virtual machine the block takes: its work, whatever the machine."""
    steps = []
    ledger._connection.set_progress_handler(lambda: steps.append(1) and None, 1)
    try:
        yield steps
    finally:
        ledger._connection.set_progress_handler(None, 0)


def test_a_long_history_of_other_volumes_costs_nothing(ledger):
    """The work for one volume, and for all states, is the same with 20,000 entries of others as without."""

    def work(revision):
        with count_steps(ledger) as steps:
            assert ledger.commit(
                [a_change(A, expected=revision - 1 or None, revision=revision)], channels=[MAIL]
            )
            intent = an_intent(C, expected=revision - 1 or None, revision=revision)
            assert ledger.record_intent(
                intent, Caps(volumes=1), now_s=0, respects_holds=True, channels=[MAIL]
            ) == IntentResult(status=IntentStatus.RECORDED)
            ledger.states()
            ledger.states_of({A})
            ledger.entries(A, since_s=revision)
            (delivery,) = ledger.pending_deliveries(channels=[MAIL])
            assert ledger.claim_delivery(delivery, now_s=0, lease_s=60)
            ledger.mark_delivered(delivery, at_s=revision)
        return len(steps)

    work(1)
    expected = work(2)
    entries = [an_entry(f"vol-{i % 100}", revision=i) for i in range(20_000)]
    ledger.commit([Change(volume_id=B, expected_revision=None, state=None, entries=entries)], channels=[MAIL])
    assert work(3) < expected * 1.2


def test_closing_twice_does_no_harm(ledger):
    ledger.close()
    ledger.close()
    with suppress(LedgerError):
        ledger.states()

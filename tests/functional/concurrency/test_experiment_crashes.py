"""An experiment killed before any of its effects and begun again ends as if it had not been killed.

The one that is not killed speaks AWS's protocols with the lab; the others call its functions, and must have
the same effects until they die.
"""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from burstctl.experiment import runner
from burstctl.experiment.journal import Journal, JournalStore, Stage
from burstctl.experiment.waiting import Waiter
from burstlab.harness.effects import CrashPoint, ProcessKilled
from burstlab.model.volume import LabVolume
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ledger.ledger_entry import EntryKind
from support.concurrency.crash_harness import SharedLab, a_policy

pytestmark = pytest.mark.usefixtures("long_poll_interval")


VOLUME_ID = "vol-000000000000000e1"


@dataclass
class CrashingJournalStore:
    store: JournalStore
    fuse: CrashPoint

    def save(self, journal):
        self.fuse.run_effect(f"save {journal.stage}", lambda: self.store.save(journal))


@dataclass
class LabWaiter:
    """Waiting that only moves the lab's clock."""

    lab: SharedLab
    is_requested: bool = False

    def wait(self, seconds):
        self.lab.fleet.clock.advance(seconds)


def a_journal(lab, directory) -> Journal:
    return Journal(
        volume_id=VOLUME_ID,
        region="us-east-1",
        ledger="sqlite:here",
        label="0badcafe",
        by="anna",
        begun_s=lab.fleet.now_s(),
        size_gib=100,
        original=Configuration(volume_type=VolumeType.GP2),
        target=Configuration(volume_type=VolumeType.IO1, iops=3000),
        away_s=1800,
        lasts_s=7200,
        report=str(directory / "answer.md"),
    )


def resume(clients, lab, directory, fuse, monkeypatch) -> Journal:
    """A process that takes up what the last one left, and lives as long as its fuse."""
    store = JournalStore(directory)
    journal = store.find_open(VOLUME_ID)
    assert journal is not None
    write = runner.write_report
    with SqliteLedger.open(directory / "ledger.sqlite") as ledger, monkeypatch.context() as patched:
        shell = clients.build_services(ledger, a_policy(), fuse, [])
        shell = runner.replace(
            shell,
            channels=[],
            clock=lambda: float(lab.fleet.now_s()),
        )
        patched.setattr(runner, "write_report", lambda *args: fuse.run_effect("report", lambda: write(*args)))
        experiment = runner.ExperimentRunner(
            context=SimpleNamespace(services=shell, operator="anna"),
            store=CrashingJournalStore(store, fuse),
            journal=journal,
            waiter=Waiter(clock=shell.clock, stop=LabWaiter(lab), max_sleep_s=3600),
        )
        return experiment.run()


def run_to_end(clients, lab, directory, fuse, monkeypatch) -> Journal:
    """The whole experiment, with one death where the fuse says so."""
    directory.mkdir()
    begins_at = lab.next_day(balance_after="refilled")
    lab.fleet.add(
        LabVolume(volume_id=VOLUME_ID, size_gib=100, balance_pct=40, starts_at=begins_at, load="steady:20")
    )
    lab.fleet.clock.advance(1800)
    JournalStore(directory).save(a_journal(lab, directory))
    try:
        return resume(clients, lab, directory, fuse, monkeypatch)
    except ProcessKilled:
        lab.fleet.clock.advance(30)
        return resume(clients, lab, directory, CrashPoint(), monkeypatch)


def check_outcome(lab, directory, journal):
    assert (journal.stage, journal.conclusion) == (Stage.OVER, "refilled while away")
    assert [modification.target.volume_type for modification in lab.fleet.modifications(VOLUME_ID)] == [
        "io1",
        "gp2",
    ]
    assert JournalStore(directory).find_open(VOLUME_ID) is None
    assert "**Refilled while away. " in (directory / "answer.md").read_text()
    with SqliteLedger.open(directory / "ledger.sqlite") as ledger:
        assert ledger.holds(lab.fleet.now_s()) == []
        kinds = [entry.kind for entry in ledger.entries(VOLUME_ID)]
        assert kinds.count(EntryKind.RESTORED) == 1
        assert kinds.count(EntryKind.RELEASED) == kinds.count(EntryKind.HELD) == 1
        assert ledger.states()[VOLUME_ID].flip is None


def test_killed_before_any_effect_and_begun_again_it_ends_the_same(lab, tmp_path, monkeypatch):
    fuse = CrashPoint()
    journal = run_to_end(lab.clients, lab, tmp_path / "alive", fuse, monkeypatch)
    check_outcome(lab, tmp_path / "alive", journal)
    assert fuse.effects.count("ModifyVolume") == 2
    assert {"place_hold", "lift_hold", "report", "record_intent", "save over"} <= set(fuse.effects)
    for point, effect in enumerate(fuse.effects):
        directory = tmp_path / str(point)
        try:
            fatal_fuse = CrashPoint(at_effect=point)
            journal = run_to_end(lab.quick_clients, lab, directory, fatal_fuse, monkeypatch)
            assert fatal_fuse.effects == fuse.effects[:point]
            check_outcome(lab, directory, journal)
        except BaseException as error:
            error.add_note(f"killed before effect {point}, {effect}, of {fuse.effects}")
            raise
    print(f"{len(fuse.effects)} crash points: {fuse.effects}")  # noqa: T201 - the figure is asked for

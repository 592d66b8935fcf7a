"""An experiment killed before any of its effects and begun again ends as if nobody had died."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from crashing import Clients, Lab, a_lab, a_policy

from burstctl.experiment import runner
from burstctl.experiment.journal import Journal, Shelf, Stage
from burstctl.experiment.waiting import Patience
from burstlab.model.volume import LabVolume
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ledger.ledger import EntryKind
from fuse import Fuse, Killed, LedgerOnFuse

SPARE = "vol-000000000000000e1"
HOLDS = frozenset({"place_hold", "lift_hold"})


class LedgerWithHoldsOnFuse(LedgerOnFuse):
    """Placing and lifting a hold are effects as well."""

    def __getattr__(self, name):
        if name not in HOLDS:
            return super().__getattr__(name)
        known = getattr(self._ledger, name)
        return lambda *given, **named: self._fuse.effect(name, lambda: known(*given, **named))


@dataclass
class ShelfOnFuse:
    shelf: Shelf
    fuse: Fuse

    def save(self, journal):
        self.fuse.effect(f"save {journal.stage}", lambda: self.shelf.save(journal))


@dataclass
class Lapse:
    """Waiting that only moves the lab's clock."""

    lab: Lab
    is_asked: bool = False

    def wait(self, seconds):
        self.lab.fleet.clock.advance(seconds)


@pytest.fixture(scope="module")
def lab():
    with a_lab() as lab:
        yield lab


@pytest.fixture(autouse=True)
def seldom_looks(monkeypatch):
    monkeypatch.setattr(runner, "_LOOK_EVERY_S", 600)
    monkeypatch.setattr(runner, "_CHECK_EVERY_S", 3600)


def a_journal(lab, directory) -> Journal:
    return Journal(
        volume_id=SPARE,
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


def go_on(lab, directory, fuse, monkeypatch) -> Journal:
    """A process that takes up what the last one left, and lives as long as its fuse."""
    shelf = Shelf(directory)
    journal = shelf.open_one(SPARE)
    assert journal is not None
    write = runner.write_report
    with SqliteLedger.open(directory / "ledger.sqlite") as ledger, monkeypatch.context() as patched:
        shell = Clients.shell(lab.clients, ledger, a_policy(), fuse, [])
        shell = runner.replace(
            shell,
            ledger=LedgerWithHoldsOnFuse(ledger, fuse),
            channels=[],
            clock=lambda: float(lab.fleet.now_s()),
        )
        patched.setattr(runner, "write_report", lambda *given: fuse.effect("report", lambda: write(*given)))
        experiment = runner.Experiment(
            desk=SimpleNamespace(shell=shell, by="anna"),
            shelf=ShelfOnFuse(shelf, fuse),
            journal=journal,
            patience=Patience(clock=shell.clock, stop=Lapse(lab), longest_s=3600),
        )
        return experiment.run()


def perform(lab, directory, fuse, monkeypatch) -> Journal:
    """The whole experiment, with one death where the fuse says so."""
    directory.mkdir()
    begins_at = lab.next_day(balance_after="refilled")
    lab.fleet.add(
        LabVolume(volume_id=SPARE, size_gib=100, balance_pct=40, starts_at=begins_at, load="steady:20")
    )
    lab.fleet.clock.advance(1800)
    Shelf(directory).save(a_journal(lab, directory))
    try:
        return go_on(lab, directory, fuse, monkeypatch)
    except Killed:
        lab.fleet.clock.advance(30)
        return go_on(lab, directory, Fuse(), monkeypatch)


def all_is_well(lab, directory, journal):
    assert (journal.stage, journal.conclusion) == (Stage.OVER, "refilled while away")
    assert [each.target.volume_type for each in lab.fleet.modifications(SPARE)] == ["io1", "gp2"]
    assert Shelf(directory).open_one(SPARE) is None
    assert "**Refilled while away. " in (directory / "answer.md").read_text()
    with SqliteLedger.open(directory / "ledger.sqlite") as ledger:
        assert ledger.holds(lab.fleet.now_s()) == []
        kinds = [entry.kind for entry in ledger.entries(SPARE)]
        assert kinds.count(EntryKind.RESTORED) == 1
        assert kinds.count(EntryKind.RELEASED) == kinds.count(EntryKind.HELD) == 1
        assert ledger.states()[SPARE].flip is None


def test_killed_before_any_effect_and_begun_again_it_ends_the_same(lab, tmp_path, monkeypatch):
    fuse = Fuse()
    journal = perform(lab, tmp_path / "alive", fuse, monkeypatch)
    all_is_well(lab, tmp_path / "alive", journal)
    assert fuse.effects.count("ModifyVolume") == 2
    assert {"place_hold", "lift_hold", "report", "begin", "save over"} <= set(fuse.effects)
    for point, effect in enumerate(fuse.effects):
        directory = tmp_path / str(point)
        try:
            journal = perform(lab, directory, Fuse(blows_before=point), monkeypatch)
            all_is_well(lab, directory, journal)
        except BaseException as error:
            error.add_note(f"killed before effect {point}, {effect}, of {fuse.effects}")
            raise
    print(f"{len(fuse.effects)} crash points: {fuse.effects}")  # noqa: T201 - the figure is asked for

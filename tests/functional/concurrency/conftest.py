from dataclasses import dataclass, field
from pathlib import Path

import pytest

from burstctl.experiment import runner
from burstlab.harness.effects import CrashPoint, ProcessKilled
from burstlab.harness.world import World
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import TargetOverride
from burstwatch.core.flips.flip_plan import FlipOrder
from burstwatch.core.ledger.flip_state import Direction, FlipCause
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.flip_executor import execute_flips
from support.concurrency.crash_harness import (
    HELD_POINTS,
    VOLUME_ID,
    CrashRun,
    LabClients,
    a_lab_volume,
    a_policy,
    add_draining,
    shared_lab,
)


@pytest.fixture(scope="module")
def lab():
    with shared_lab() as lab:
        yield lab
    if HELD_POINTS:
        print(f"\n{sum(HELD_POINTS)} crash points, all held")  # noqa: T201 - the figure is asked for
        HELD_POINTS.clear()


@pytest.fixture
def externally_reverted(lab, tmp_path):
    """AWS took it, the process died, and somebody reverted it before the next one looked."""
    lab.next_day()
    play = CrashRun(lab=lab, path=tmp_path / "ledger.db", policy=a_policy(), fuse=CrashPoint(at_effect=5))
    add_draining(play, target="io1")
    lab.fleet.clock.advance(60)
    with pytest.raises(ProcessKilled):
        play.run_pass(play.now_s)
    lab.fleet.clock.advance(300)
    lab.fleet.modify(VOLUME_ID, volume_type="gp2")
    play.restart()
    for _ in range(4):
        play.tick()
    yield play
    play.close()


@pytest.fixture
def long_poll_interval(monkeypatch):
    monkeypatch.setattr(runner, "_POLL_INTERVAL_S", 600)
    monkeypatch.setattr(runner, "_SLOW_POLL_INTERVAL_S", 3600)


@dataclass
class RaceSetup(World):
    """A lab, a ledger file, and the processes that use them, each with its own connection."""

    lab: object
    path: Path
    policy: Policy
    sent_alert_ids: list[str] = field(default_factory=list)
    connections: list[SqliteLedger] = field(default_factory=list)

    @property
    def fleet(self):
        return self.lab.fleet

    @property
    def ledger(self) -> SqliteLedger:
        return self.connections[0]

    def worker(self, fuse: CrashPoint | None = None):
        self.connections.append(SqliteLedger.open(self.path, lock_timeout_s=30))
        clients = LabClients.connect(self.lab.endpoint.url)
        return clients.build_services(
            self.connections[-1], self.policy, fuse or CrashPoint(), self.sent_alert_ids
        )

    def add_draining(self, count: int, *, size_gib: int = 100, **tags: str) -> list[str]:
        """Each is empty in seven minutes."""
        added = [
            a_lab_volume(
                f"vol-{number:017x}",
                "steady:2500",
                size_gib=size_gib,
                balance_pct=46,
                starts_at=self.fleet.clock.now(),
                **tags,
            )
            for number in range(1, count + 1)
        ]
        ids = self.fleet.add_all(added)
        self.fleet.clock.advance(660)
        return ids

    def modified(self, volume_ids) -> dict[str, int]:
        return {volume_id: len(self.fleet.modifications(volume_id)) for volume_id in volume_ids}

    def intents(self, volume_id: str) -> list[str]:
        """Who asked, as the ledger has it."""
        entries = self.ledger.entries(volume_id)
        return [entry.body["by"] for entry in entries if entry.kind is EntryKind.INTENT]

    def order(self, shell, volume_id: str, direction: Direction = Direction.FLIP):
        """An operator's, by name."""
        order = FlipOrder(
            volume_id=volume_id,
            direction=direction,
            cause=FlipCause.MANUAL,
            reason="anna wants it",
            by="anna",
            override=TargetOverride(volume_type=VolumeType.GP3) if direction is Direction.FLIP else None,
        )
        return execute_flips(shell, [order], shell.build_collector(self.now_s))[volume_id]


@pytest.fixture
def race(lab, tmp_path):
    lab.next_day()
    scene = RaceSetup(lab=lab, path=tmp_path / "ledger.db", policy=a_policy())
    scene.worker()
    yield scene
    for ledger in scene.connections:
        ledger.close()

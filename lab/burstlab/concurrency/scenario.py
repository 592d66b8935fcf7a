"""The scenario for concurrent watchdogs: what happens to the volumes, minute by minute."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabInstance, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import Ledger
from burstwatch.core.tag_keys import MODE, TARGET, WINDOW

STARTS_AT: Final = datetime(2026, 11, 20, 16, 0, tzinfo=UTC)
MINUTES: Final = 60  # enough for a drain of 31 minutes, a flip and a return
WINDOW_NAME: Final = "release"
POLICY: Final = f"""\
version: 1
flip: {{cooldown: 4m}}
flip_back: {{dwell: 5m, calm_for: 5m}}
lead: {{least: 4m, reserve: 8m, per_tib: 10m}}
windows:
  {WINDOW_NAME}:
    from: 2026-11-20T16:25Z
    to: 2026-11-20T16:40Z
"""
"""Quick to return; but for that, and the window, all defaults."""

_HOST: Final = "i-00000000000000005"
_HELD_FOR_MIN: Final = 29  # five minutes before it is empty: full burst from minute 3 for 31 minutes
_FULL_BURST: Final = "steady:3000"
_AUTO: Final = {MODE: "auto"}
_SMALL_GIB: Final = 8
"""Empty after 31 minutes of full burst: 5.4 million credits at 2,900 a second."""
_IO1_GIB: Final = 64
"""Empty 32 minutes after, at 2,808 a second; io1 gives it 50 IOPS a GiB, more than the burst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScenarioVolume:
    """A volume; ``loads`` are its loads by the minute from which they apply."""

    description: str
    tags: Mapping[str, str] = field(default_factory=dict)
    loads: Mapping[int, str] = field(default_factory=dict)
    size_gib: int = _SMALL_GIB


VOLUMES: Final[Mapping[str, _ScenarioVolume]] = {
    "ci-1": _ScenarioVolume(
        description="drains, and is gp3 from then on", tags=_AUTO, loads={3: _FULL_BURST}
    ),
    "ci-2": _ScenarioVolume(
        description="drains, and is gp3 from then on", tags=_AUTO, loads={4: _FULL_BURST}
    ),
    "batch-1": _ScenarioVolume(
        description="drains, io1, returns",
        tags=_AUTO | {TARGET: "io1"},
        loads={3: _FULL_BURST, 28: "idle"},
        size_gib=_IO1_GIB,
    ),
    "batch-2": _ScenarioVolume(
        description="drains, io1, returns",
        tags=_AUTO | {TARGET: "io1"},
        loads={5: _FULL_BURST, 30: "idle"},
        size_gib=_IO1_GIB,
    ),
    "proposed": _ScenarioVolume(
        description="drains, is told, and recovers", loads={4: _FULL_BURST, 24: "idle"}
    ),
    "orders": _ScenarioVolume(
        description="io1 for a window",
        tags=_AUTO | {TARGET: "io1", WINDOW: WINDOW_NAME},
        size_gib=_IO1_GIB,
    ),
    "held": _ScenarioVolume(
        description="held while it drains, then released", tags=_AUTO, loads={3: _FULL_BURST}
    ),
    "reverted": _ScenarioVolume(
        description="gp3, then changed by others", tags=_AUTO, loads={3: _FULL_BURST}
    ),
    "silent": _ScenarioVolume(description="its metrics stop", loads={0: "steady:50"}, size_gib=100),
    "calm": _ScenarioVolume(description="nothing happens", size_gib=500),
    "lake": _ScenarioVolume(description="cannot run dry", size_gib=1_000),
}
_VOLUME_IDS: Final = {name: f"vol-{number:017x}" for number, name in enumerate(VOLUMES, start=1)}


@dataclass(slots=True)
class Scenario:
    """The fleet and what happens to it.

    ``external_modifications`` counts the modifications that no watchdog requested.
    """

    fleet: LabFleet
    external_modifications: dict[str, int] = field(default_factory=dict)

    @classmethod
    def create(cls) -> "Scenario":
        """A fleet that has been calm for ten minutes."""
        settings = LabSettings(lag_s=60, modifying_s=20, modify_minutes_per_tib=1, modify_spread=0)
        fleet = LabFleet(LabClock.manual(STARTS_AT - timedelta(minutes=10)), settings)
        fleet.add_instance(
            LabInstance(
                instance_id=_HOST,
                launched_at=STARTS_AT - timedelta(days=1),
                instance_type="m5.4xlarge",
                tags={},
            )
        )
        for name, spec in VOLUMES.items():
            fleet.add(
                LabVolume(
                    volume_id=_VOLUME_IDS[name],
                    size_gib=spec.size_gib,
                    load="idle",
                    instance_id=_HOST,
                    tags={"Name": name, **spec.tags},
                )
            )
        fleet.clock.advance(timedelta(minutes=10).total_seconds())
        return cls(fleet)

    @property
    def volume_ids(self) -> Mapping[str, str]:
        """The id of each volume, by its name."""
        return _VOLUME_IDS

    @property
    def now_s(self) -> int:
        return self.fleet.now_s()

    def place_initial_hold(self, ledger: Ledger) -> None:
        """What an operator did before the first watchdog looked."""
        until_s = self.now_s + _HELD_FOR_MIN * 60
        hold = Hold(
            volume_id=_VOLUME_IDS["held"],
            by="anna",
            reason="snapshot running",
            placed_at_s=self.now_s,
            until_s=until_s,
        )
        ledger.place_hold(hold)

    def apply_events(self, minute: int) -> None:
        """What happens at this minute, before anybody looks."""
        for name, spec in VOLUMES.items():
            if minute in spec.loads:
                self.fleet.set_load(_VOLUME_IDS[name], spec.loads[minute])
        if apply_event := _EVENTS.get(minute):
            apply_event(self)

    def _stop_metrics(self) -> None:
        now = self.fleet.clock.now()
        self.fleet.hide_metrics(
            _VOLUME_IDS["silent"], from_at=now, to_at=now + timedelta(days=1), only_balance=True
        )

    def _modify_externally(self) -> None:
        """Somebody with another tool makes gp2 of it again, if it is anything else."""
        volume_id = _VOLUME_IDS["reverted"]
        if self.fleet.find(volume_id).volume_type != "gp2":
            self.fleet.modify(volume_id, volume_type="gp2")
            self.external_modifications[volume_id] = self.external_modifications.get(volume_id, 0) + 1


_EVENTS: Final[Mapping[int, Callable[[Scenario], None]]] = {
    8: Scenario._stop_metrics,  # noqa: SLF001 - its own
    45: Scenario._modify_externally,  # noqa: SLF001 - its own
}

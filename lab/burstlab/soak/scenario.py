"""What happens to a small fleet in a month: batches, builds, windows, holds, gaps, others' changes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import Ledger
from burstwatch.core.policy.policy import Policy
from burstwatch.core.tag_keys import CRITICAL, MODE, TARGET, WINDOW

STARTS_AT: Final = datetime(2026, 10, 12, tzinfo=UTC)
"""A Monday; on the 25th Berlin's clocks go back, and New York's on 1 November."""

POLICY: Final = Policy.from_mapping(
    {
        "version": "1",
        "windows": {
            "release": {"cron": "0 20 * * FRI", "zone": "Europe/Berlin", "duration": "4h"},
            "report": {"cron": "30 1 * * SUN", "zone": "America/New_York", "duration": "2h"},
        },
    }
)
"""All defaults, and two windows, the second one in an hour that New York's clocks show twice."""

_AUTO: Final = {MODE: "auto"}
_IO1: Final = _AUTO | {TARGET: "io1"}
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScenarioVolume:
    """A volume that is there from one day to another."""

    load: str
    size_gib: int = 100
    tags: Mapping[str, str] = field(default_factory=dict)
    from_day: int = 0
    to_day: int | None = None


VOLUMES: Final[Mapping[str, _ScenarioVolume]] = {
    "nightly": _ScenarioVolume(load="nightly-batch:2", tags=_IO1),
    "nightly-2": _ScenarioVolume(load="nightly-batch:3", tags=_IO1, size_gib=64),
    "held": _ScenarioVolume(load="nightly-batch:4", tags=_IO1),
    "builds": _ScenarioVolume(load="ci-day", tags=_AUTO),
    "proposed": _ScenarioVolume(load="nab_c0d644*16", size_gib=33),
    "watched": _ScenarioVolume(load="nab_c0d644*12", size_gib=33, tags={MODE: "observe"}),
    "orders": _ScenarioVolume(load="steady:40", tags=_IO1 | {WINDOW: "release"}),
    "ledger-db": _ScenarioVolume(load="steady:90", size_gib=334, tags=_IO1 | {WINDOW: "report"}),
    "reverted": _ScenarioVolume(load="nightly-batch:5", tags=_AUTO),
    "silent": _ScenarioVolume(load="steady:50"),
    "moved": _ScenarioVolume(load="steady:50", size_gib=200),
    "etcd-0": _ScenarioVolume(load="etcd", size_gib=20, tags=_AUTO | {CRITICAL: "true"}, from_day=8),
    "scratch": _ScenarioVolume(load="docker-loop", size_gib=33, from_day=3, to_day=6),
    "scratch-2": _ScenarioVolume(load="docker-loop", size_gib=33, tags=_AUTO, from_day=17, to_day=20),
    "calm-1": _ScenarioVolume(load="idle", size_gib=500),
    "calm-2": _ScenarioVolume(load="steady:20", size_gib=8),
    "lake": _ScenarioVolume(load="steady:2900", size_gib=1_000),
}
_VOLUME_IDS: Final = {name: f"vol-{number:017x}" for number, name in enumerate(VOLUMES, start=1)}


@dataclass(slots=True)
class Scenario:
    """The fleet, and the events that happen to it."""

    fleet: LabFleet

    @classmethod
    def create(cls) -> "Scenario":
        """A fleet that has been there for ten minutes."""
        settings = LabSettings(lag_s=60, lag_most_s=180, modifying_s=60, modify_minutes_per_tib=60)
        scenario = cls(LabFleet(LabClock.manual(STARTS_AT - timedelta(minutes=10)), settings))
        scenario._add(name for name, spec in VOLUMES.items() if spec.from_day == 0)
        scenario.fleet.clock.advance(timedelta(minutes=10).total_seconds())
        return scenario

    def apply_events(self, minute: int, ledger: Ledger) -> None:
        """What happens at this minute of the month, before anybody looks."""
        day, time_of_day = divmod(timedelta(minutes=minute), _DAY)
        if time_of_day == timedelta(hours=12):
            self._add(name for name, spec in VOLUMES.items() if spec.from_day == day > 0)
            self._remove(name for name, spec in VOLUMES.items() if spec.to_day == day)
        for event in (
            scheduled
            for scheduled in _EVENTS
            if time_of_day == scheduled.time_of_day and day % scheduled.interval_days == scheduled.day
        ):
            event.apply(self, ledger)

    def hold(self, ledger: Ledger) -> None:
        """Somebody keeps a volume as it is through its nightly batch."""
        now_s = self.fleet.now_s()
        until_s = now_s + int(_DAY.total_seconds()) // 4
        hold = Hold(
            volume_id=_VOLUME_IDS["held"],
            by="anna",
            reason="restore test",
            placed_at_s=now_s,
            until_s=until_s,
        )
        ledger.place_hold(hold)

    def hide_metrics(self, _: Ledger) -> None:
        """CloudWatch loses three hours of a volume."""
        now = self.fleet.clock.now()
        ends_at = now + timedelta(hours=3)
        self.fleet.hide_metrics(_VOLUME_IDS["silent"], from_at=now, to_at=ends_at, only_balance=True)

    def detach(self, _: Ledger) -> None:
        """A volume is taken off its instance."""
        self.fleet.detach(_VOLUME_IDS["moved"])

    def attach(self, _: Ledger) -> None:
        """And put back."""
        self.fleet.attach(_VOLUME_IDS["moved"])

    def modify_externally(self, _: Ledger) -> None:
        """Somebody with another tool makes gp2 of a volume that was flipped."""
        volume_id = _VOLUME_IDS["reverted"]
        if self.fleet.find(volume_id).volume_type != "gp2":
            self.fleet.modify(volume_id, volume_type="gp2")

    def _add(self, names: Iterable[str]) -> None:
        for name in names:
            spec = VOLUMES[name]
            tags = {"Name": name, **spec.tags}
            self.fleet.add(
                LabVolume(volume_id=_VOLUME_IDS[name], size_gib=spec.size_gib, load=spec.load, tags=tags)
            )

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.fleet.remove(_VOLUME_IDS[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class _ScheduledEvent:
    """An event at a time of day, on one ``day`` of a cycle."""

    apply: Callable[[Scenario, Ledger], None]
    time_of_day: timedelta
    day: int
    interval_days: int


_EVENTS: Final = (
    _ScheduledEvent(apply=Scenario.hold, time_of_day=timedelta(hours=3), day=1, interval_days=7),
    _ScheduledEvent(apply=Scenario.hide_metrics, time_of_day=timedelta(hours=8), day=2, interval_days=10),
    _ScheduledEvent(apply=Scenario.detach, time_of_day=timedelta(hours=9), day=4, interval_days=10),
    _ScheduledEvent(apply=Scenario.attach, time_of_day=timedelta(hours=9), day=5, interval_days=10),
    _ScheduledEvent(
        apply=Scenario.modify_externally, time_of_day=timedelta(hours=15), day=9, interval_days=366
    ),
)

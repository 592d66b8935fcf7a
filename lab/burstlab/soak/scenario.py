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

BEGINS_AT: Final = datetime(2026, 10, 12, tzinfo=UTC)
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
class _Actor:
    """A volume that is there from one day to another."""

    load: str
    size_gib: int = 100
    tags: Mapping[str, str] = field(default_factory=dict)
    from_day: int = 0
    to_day: int | None = None


CAST: Final[Mapping[str, _Actor]] = {
    "nightly": _Actor(load="nightly-batch:2", tags=_IO1),
    "nightly-2": _Actor(load="nightly-batch:3", tags=_IO1, size_gib=64),
    "held": _Actor(load="nightly-batch:4", tags=_IO1),
    "builds": _Actor(load="ci-day", tags=_AUTO),
    "proposed": _Actor(load="nab_c0d644*16", size_gib=33),
    "watched": _Actor(load="nab_c0d644*12", size_gib=33, tags={MODE: "observe"}),
    "orders": _Actor(load="steady:40", tags=_IO1 | {WINDOW: "release"}),
    "ledger-db": _Actor(load="steady:90", size_gib=334, tags=_IO1 | {WINDOW: "report"}),
    "reverted": _Actor(load="nightly-batch:5", tags=_AUTO),
    "silent": _Actor(load="steady:50"),
    "moved": _Actor(load="steady:50", size_gib=200),
    "etcd-0": _Actor(load="etcd", size_gib=20, tags=_AUTO | {CRITICAL: "true"}, from_day=8),
    "scratch": _Actor(load="docker-loop", size_gib=33, from_day=3, to_day=6),
    "scratch-2": _Actor(load="docker-loop", size_gib=33, tags=_AUTO, from_day=17, to_day=20),
    "calm-1": _Actor(load="idle", size_gib=500),
    "calm-2": _Actor(load="steady:20", size_gib=8),
    "lake": _Actor(load="steady:2900", size_gib=1_000),
}
_IDS: Final = {name: f"vol-{number:017x}" for number, name in enumerate(CAST, start=1)}


@dataclass(slots=True)
class Story:
    """The fleet, and what becomes of it at the hours at which something does."""

    fleet: LabFleet

    @classmethod
    def begin(cls) -> "Story":
        """A fleet that has been there for ten minutes."""
        settings = LabSettings(lag_s=60, lag_most_s=180, modifying_s=60, modify_minutes_per_tib=60)
        story = cls(LabFleet(LabClock.by_hand(BEGINS_AT - timedelta(minutes=10)), settings))
        story._add(name for name, actor in CAST.items() if actor.from_day == 0)
        story.fleet.clock.advance(timedelta(minutes=10).total_seconds())
        return story

    def happen(self, minute: int, ledger: Ledger) -> None:
        """What happens at this minute of the month, before anybody looks."""
        day, of_day = divmod(timedelta(minutes=minute), _DAY)
        if of_day == timedelta(hours=12):
            self._add(name for name, actor in CAST.items() if actor.from_day == day > 0)
            self._remove(name for name, actor in CAST.items() if actor.to_day == day)
        for due in (one for one in _DEEDS if of_day == one.at and day % one.every == one.day):
            due.do(self, ledger)

    def hold(self, ledger: Ledger) -> None:
        """Somebody keeps a volume as it is through its nightly batch."""
        now_s = self.fleet.now_s()
        until_s = now_s + int(_DAY.total_seconds()) // 4
        hold = Hold(
            volume_id=_IDS["held"], by="anna", reason="restore test", placed_at_s=now_s, until_s=until_s
        )
        ledger.place_hold(hold)

    def hide_metrics(self, _: Ledger) -> None:
        """CloudWatch loses three hours of a volume."""
        now = self.fleet.clock.now()
        ends_at = now + timedelta(hours=3)
        self.fleet.hide_metrics(_IDS["silent"], from_at=now, to_at=ends_at, only_balance=True)

    def detach(self, _: Ledger) -> None:
        """A volume is taken off its instance."""
        self.fleet.detach(_IDS["moved"])

    def attach(self, _: Ledger) -> None:
        """And put back."""
        self.fleet.attach(_IDS["moved"])

    def revert(self, _: Ledger) -> None:
        """Somebody with another tool makes gp2 of a volume that was flipped."""
        volume_id = _IDS["reverted"]
        if self.fleet.find(volume_id).volume_type != "gp2":
            self.fleet.modify(volume_id, volume_type="gp2")

    def _add(self, names: Iterable[str]) -> None:
        for name in names:
            actor = CAST[name]
            tags = {"Name": name, **actor.tags}
            self.fleet.add(
                LabVolume(volume_id=_IDS[name], size_gib=actor.size_gib, load=actor.load, tags=tags)
            )

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.fleet.remove(_IDS[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deed:
    """Something done at a time of day, on one ``day`` of so many."""

    do: Callable[[Story, Ledger], None]
    at: timedelta
    day: int
    every: int


_DEEDS: Final = (
    _Deed(do=Story.hold, at=timedelta(hours=3), day=1, every=7),
    _Deed(do=Story.hide_metrics, at=timedelta(hours=8), day=2, every=10),
    _Deed(do=Story.detach, at=timedelta(hours=9), day=4, every=10),
    _Deed(do=Story.attach, at=timedelta(hours=9), day=5, every=10),
    _Deed(do=Story.revert, at=timedelta(hours=15), day=9, every=366),
)

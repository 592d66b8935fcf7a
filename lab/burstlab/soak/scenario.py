"""What happens to a small fleet in a month: batches, builds, windows, holds, gaps, others' changes."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from burstlab.harness.world import NamedWorld
from burstlab.model.fleet import LabSettings
from burstlab.model.volume import LabVolume
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
DAY_MIN: Final = 24 * 60
_NOON: Final = 12
_REVERT_DAY: Final = 9


VOLUMES: Final[Mapping[str, LabVolume]] = {
    "nightly": LabVolume(load="nightly-batch:2", size_gib=100, tags=_IO1),
    "nightly-2": LabVolume(load="nightly-batch:3", size_gib=64, tags=_IO1),
    "held": LabVolume(load="nightly-batch:4", size_gib=100, tags=_IO1),
    "builds": LabVolume(load="ci-day", size_gib=100, tags=_AUTO),
    "proposed": LabVolume(load="nab_c0d644*16", size_gib=33),
    "watched": LabVolume(load="nab_c0d644*12", size_gib=33, tags={MODE: "observe"}),
    "orders": LabVolume(load="steady:40", size_gib=100, tags=_IO1 | {WINDOW: "release"}),
    "ledger-db": LabVolume(load="steady:90", size_gib=334, tags=_IO1 | {WINDOW: "report"}),
    "reverted": LabVolume(load="nightly-batch:5", size_gib=100, tags=_AUTO),
    "silent": LabVolume(load="steady:50", size_gib=100),
    "moved": LabVolume(load="steady:50", size_gib=200),
    "etcd-0": LabVolume(load="etcd", size_gib=20, tags=_AUTO | {CRITICAL: "true"}),
    "scratch": LabVolume(load="docker-loop", size_gib=33),
    "scratch-2": LabVolume(load="docker-loop", size_gib=33, tags=_AUTO),
    "calm-1": LabVolume(load="idle", size_gib=500),
    "calm-2": LabVolume(load="steady:20", size_gib=8),
    "lake": LabVolume(load="steady:2900", size_gib=1_000),
}
_ADDED_ON_DAY: Final = {"scratch": 3, "etcd-0": 8, "scratch-2": 17}
_REMOVED_ON_DAY: Final = {"scratch": 6, "scratch-2": 20}
"""At noon; the other volumes are there all the time."""


class Scenario(NamedWorld):
    """The fleet, and the events that happen to it."""

    def __init__(self, ledger: Ledger) -> None:
        """A fleet that has been there for ten minutes."""
        settings = LabSettings(lag_s=60, lag_most_s=180, modifying_s=60, modify_minutes_per_tib=60)
        super().__init__(VOLUMES, STARTS_AT, settings)
        self.ledger = ledger
        self.add(name for name in VOLUMES if name not in _ADDED_ON_DAY)
        self.begin()

    def apply_events(self, minute: int) -> None:
        """What happens at this minute of the month, before anybody looks."""
        day, minute_of_day = divmod(minute, DAY_MIN)
        hour, minute_of_hour = divmod(minute_of_day, 60)
        if minute_of_hour != 0:
            return
        if hour == _NOON:
            self.add(name for name, added_on in _ADDED_ON_DAY.items() if added_on == day)
            for name, removed_on in _REMOVED_ON_DAY.items():
                if removed_on == day:
                    self.fleet.remove(self.volume_ids[name])
        volume_ids = self.volume_ids
        match hour, day % 7, day % 10:
            case 3, 1, _:  # somebody keeps a volume as it is through its nightly batch
                self.hold(volume_ids["held"], 6 * 3600, by="anna", reason="restore test")
            case 8, _, 2:
                self.hide_balance(volume_ids["silent"], timedelta(hours=3))
            case 9, _, 4:
                self.fleet.detach(volume_ids["moved"])
            case 9, _, 5:
                self.fleet.attach(volume_ids["moved"])
            case 15, _, _ if day % 366 == _REVERT_DAY:
                self.revert_externally(volume_ids["reverted"])

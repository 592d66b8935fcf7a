"""The scenario for concurrent watchdogs: what happens to the volumes, minute by minute."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from burstlab.harness.world import NamedWorld
from burstlab.model.fleet import LabInstance, LabSettings
from burstlab.model.volume import LabVolume
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
_HELD_FOR_MIN: Final = 31  # it is empty in minute 34; late ticks, too, are refused a flip before
_FULL_BURST: Final = "steady:3000"
_TAG_KEYS: Final = {"mode": MODE, "target": TARGET, "window": WINDOW}
_SMALL_GIB: Final = 8
"""Empty after 31 minutes of full burst: 5.4 million credits at 2,900 a second."""
_IO1_GIB: Final = 64
"""Empty 32 minutes after, at 2,808 a second; io1 gives it 50 IOPS a GiB, more than the burst."""


def _volume(size_gib: int = _SMALL_GIB, **tags: str) -> LabVolume:
    """A volume that is idle at first, on the host of them all."""
    return LabVolume(
        size_gib=size_gib, instance_id=_HOST, tags={_TAG_KEYS[key]: tag for key, tag in tags.items()}
    )


VOLUMES: Final[Mapping[str, LabVolume]] = {
    "ci-1": _volume(mode="auto"),  # drains, and is gp3 from then on.
    "ci-2": _volume(mode="auto"),  # drains, and is gp3 from then on.
    "batch-1": _volume(_IO1_GIB, mode="auto", target="io1"),  # drains, io1, returns.
    "batch-2": _volume(_IO1_GIB, mode="auto", target="io1"),  # drains, io1, returns.
    "proposed": _volume(),  # drains, is reported, and recovers.
    "orders": _volume(_IO1_GIB, mode="auto", target="io1", window=WINDOW_NAME),  # io1 for a window.
    "held": _volume(mode="auto"),  # held while it drains, then released.
    "reverted": _volume(mode="auto"),  # gp3, then changed by others.
    "silent": _volume(100),  # its metrics stop
    "calm": _volume(500),  # nothing happens
    "lake": _volume(1_000),  # cannot become empty
}
_LOADS: Final[Mapping[int, Mapping[str, str]]] = {
    0: {"silent": "steady:50"},
    3: dict.fromkeys(("ci-1", "batch-1", "held", "reverted"), _FULL_BURST),
    4: dict.fromkeys(("ci-2", "proposed"), _FULL_BURST),
    5: {"batch-2": _FULL_BURST},
    24: {"proposed": "idle"},
    28: {"batch-1": "idle"},
    30: {"batch-2": "idle"},
}
"""The minutes at which loads change."""

_METRICS_STOP_MIN: Final = 8
_REVERT_MIN: Final = 45


class Scenario(NamedWorld):
    """The fleet and what happens to it.

    ``external_modifications`` counts the modifications that no watchdog requested.
    """

    def __init__(self) -> None:
        """A fleet that has been calm for ten minutes."""
        settings = LabSettings(lag_s=60, modifying_s=20, modify_minutes_per_tib=1, modify_spread=0)
        super().__init__(VOLUMES, STARTS_AT, settings)
        host = LabInstance(
            instance_id=_HOST, launched_at=STARTS_AT - timedelta(days=1), instance_type="m5.4xlarge", tags={}
        )
        self.fleet.add_instance(host)
        self.add(VOLUMES)
        self.begin()
        self.external_modifications: dict[str, int] = {}

    def place_initial_hold(self) -> None:
        """What an operator did before the first watchdog looked."""
        self.hold(self.volume_ids["held"], _HELD_FOR_MIN * 60, by="anna", reason="snapshot running")

    def apply_events(self, minute: int) -> None:
        """What happens at this minute, before anybody looks."""
        for name, load in _LOADS.get(minute, {}).items():
            self.fleet.set_load(self.volume_ids[name], load)
        if minute == _METRICS_STOP_MIN:
            self.hide_balance(self.volume_ids["silent"], timedelta(days=1))
        reverted_id = self.volume_ids["reverted"]
        if minute == _REVERT_MIN and self.revert_externally(reverted_id):
            self.external_modifications[reverted_id] = 1

"""What happens to a volume without any action, minute by minute; everything is judged by it."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.minute_history import MINUTE_S
from burstlab.model.simulated_volume import SimulatedVolume
from burstlab.model.volume import LabVolume
from burstlab.score.cases import Case
from burstwatch.core.ebs.volume import CREDITS_PER_PCT

START: Final = datetime(2026, 11, 16, tzinfo=UTC)
START_S: Final = int(START.timestamp())
DAY_S: Final = 24 * 3600
NEEDED_HORIZON_S: Final = DAY_S
"""An action was needless if the volume would not have been empty within this time."""

_HIGH_PCT: Final = 95.0  # the policy's watch_below: from here on a volume is calm
_REARM_PCT: Final = 5.0  # a bucket that hovers around empty must not count once a minute


@dataclass(frozen=True, slots=True, kw_only=True)
class Depletion:
    """A bucket that became empty at ``empty_at_s`` and was last at 95 % at ``drain_started_at_s``.

    ``is_from_high`` is False if the balance never reached 95 % since the previous depletion.
    """

    empty_at_s: int
    drain_started_at_s: int
    is_from_high: bool


@dataclass(frozen=True)
class GroundTruth:
    """The balance of each minute at its lowest, in per cent, from ``START_S`` on.

    The minutes go on for a day after the ``duration_s`` that count, for what is judged by the day after it.
    """

    duration_s: int
    minima: Sequence[float]
    served_iops: Sequence[float]
    stalled_s: float

    @cached_property
    def empty_minutes(self) -> Sequence[int]:
        return [minute for minute, pct in enumerate(self.minima) if pct <= 0]

    @cached_property
    def depletions(self) -> Sequence[Depletion]:
        """Each time the bucket became empty; while the balance stays below 5 %, it counts once."""
        depletions_found: list[Depletion] = []
        high_minute, is_armed, is_from_high = 0, True, True
        for minute, pct in enumerate(self.minima[: self.duration_s // MINUTE_S]):
            if pct >= _HIGH_PCT:
                high_minute, is_from_high = minute, True
            if pct >= _REARM_PCT:
                is_armed = True
            elif pct <= 0 and is_armed:
                empty_at_s, high_at_s = (
                    START_S + event_minute * MINUTE_S for event_minute in (minute, high_minute)
                )
                depletions_found.append(
                    Depletion(empty_at_s=empty_at_s, drain_started_at_s=high_at_s, is_from_high=is_from_high)
                )
                is_armed = is_from_high = False
        return depletions_found

    def is_empty_within(self, at_s: float, horizon_s: float = NEEDED_HORIZON_S) -> bool:
        """Whether it becomes empty within this time after a moment."""
        first_minute, last_minute = (
            (instant_s - START_S) / MINUTE_S for instant_s in (at_s, at_s + horizon_s)
        )
        return bisect_left(self.empty_minutes, first_minute - 1) < bisect_right(
            self.empty_minutes, last_minute
        )


def make_fleet(cases: Sequence[Case], settings: LabSettings) -> LabFleet:
    """Full volumes under these loads, each under its own id."""
    fleet = LabFleet(LabClock.manual(START), settings)
    for case in cases:
        fleet.add(
            LabVolume(
                size_gib=case.size_gib,
                load=case.load,
                volume_id=case.volume_id,
                tags={"burstwatch:mode": "auto", "Name": case.recorded.name},
                created_at=datetime.fromtimestamp(START_S - 30 * DAY_S, tz=UTC),
            )
        )
    return fleet


def simulate_unattended(case: Case, settings: LabSettings) -> GroundTruth:
    """Simulate a case without any action, and one more day in which its recording starts again."""
    volume = make_fleet([case], settings).find(case.volume_id)
    minima, served_iops = array("d"), array("d")
    stalled_s, collected_s = 0.0, 0
    for next_s in [
        *range(DAY_S, case.duration_s, DAY_S),
        case.duration_s,
        case.duration_s + NEEDED_HORIZON_S,
    ]:
        volume.catch_up(START_S + next_s)
        _append_minutes(volume, collected_s // MINUTE_S, next_s // MINUTE_S, minima, served_iops)
        stalled_s, collected_s = volume.truth().stalled_s if next_s <= case.duration_s else stalled_s, next_s
    return GroundTruth(
        duration_s=case.duration_s, minima=minima, served_iops=served_iops, stalled_s=stalled_s
    )


def _append_minutes(
    volume: SimulatedVolume,
    first_minute: int,
    end_minute: int,
    minima: "array[float]",
    served_iops: "array[float]",
) -> None:
    for run in volume.history.runs(first_minute, end_minute):
        iops = (run.read_ops + run.write_ops) / MINUTE_S
        for index in range(run.minute_count):
            minima.append((run.minimum + index * run.step) / CREDITS_PER_PCT)
            served_iops.append(iops)

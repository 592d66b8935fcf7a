"""What becomes of a volume that nobody helps, minute by minute: the truth that everything is judged by."""

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
NEEDED_WITHIN_S: Final = DAY_S
"""What was done about a volume was needless if it would not have run dry in so long."""

_HIGH_PCT: Final = 95.0
_REARMED_PCT: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Depletion:
    """A bucket that ran empty: dry in the minute from ``dry_s`` on, last at 95 % at ``drains_from_s``.

    ``from_high`` is False where the balance never came up to 95 % since the last time it was dry.
    """

    dry_s: int
    drains_from_s: int
    from_high: bool


@dataclass(frozen=True)
class Course:
    """The balance of each minute at its lowest, in per cent, from ``START_S`` on.

    The minutes go on for a day after the ``seconds`` that count, for what is judged by the day after it.
    """

    seconds: int
    minima: Sequence[float]
    served_iops: Sequence[float]
    stalled_s: float

    @cached_property
    def dry_minutes(self) -> Sequence[int]:
        return [minute for minute, pct in enumerate(self.minima) if pct <= 0]

    @cached_property
    def depletions(self) -> Sequence[Depletion]:
        """Each time it ran dry; one that hovers below 5 % runs dry once."""
        found: list[Depletion] = []
        high_minute, is_armed, from_high = 0, True, True
        for minute, pct in enumerate(self.minima[: self.seconds // MINUTE_S]):
            if pct >= _HIGH_PCT:
                high_minute, from_high = minute, True
            if pct >= _REARMED_PCT:
                is_armed = True
            elif pct <= 0 and is_armed:
                dry_s, high_s = (START_S + each * MINUTE_S for each in (minute, high_minute))
                found.append(Depletion(dry_s=dry_s, drains_from_s=high_s, from_high=from_high))
                is_armed = from_high = False
        return found

    def is_dry_within(self, at_s: float, span_s: float = NEEDED_WITHIN_S) -> bool:
        """Whether it is ever dry from a moment on, for so long."""
        first, last = ((s - START_S) / MINUTE_S for s in (at_s, at_s + span_s))
        return bisect_left(self.dry_minutes, first - 1) < bisect_right(self.dry_minutes, last)


def fleet_of(cases: Sequence[Case], settings: LabSettings) -> LabFleet:
    """Full volumes under these loads, each under its own id."""
    fleet = LabFleet(LabClock.by_hand(START), settings)
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


def leave_alone(case: Case, settings: LabSettings) -> Course:
    """Live through a case without any help, and on for a day in which its recording begins anew."""
    volume = fleet_of([case], settings).find(case.volume_id)
    minima, served = array("d"), array("d")
    stalled_s, since_s = 0.0, 0
    for until_s in [*range(DAY_S, case.seconds, DAY_S), case.seconds, case.seconds + NEEDED_WITHIN_S]:
        volume.catch_up(START_S + until_s)
        _collect(volume, since_s // MINUTE_S, until_s // MINUTE_S, minima, served)
        stalled_s, since_s = volume.truth().stalled_s if until_s <= case.seconds else stalled_s, until_s
    return Course(seconds=case.seconds, minima=minima, served_iops=served, stalled_s=stalled_s)


def _collect(
    volume: SimulatedVolume, first: int, last: int, minima: "array[float]", served: "array[float]"
) -> None:
    for run in volume.history.runs(first, last):
        iops = (run.read_ops + run.write_ops) / MINUTE_S
        for index in range(run.minutes):
            minima.append((run.least + index * run.step) / CREDITS_PER_PCT)
            served.append(iops)

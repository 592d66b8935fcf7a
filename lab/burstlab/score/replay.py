"""A case lived through with modifications at given moments: how rivals and the oracle are carried out."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from burstlab.model.aws_error import AwsError
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.minute_history import MINUTE_S
from burstlab.model.modification import Wanted
from burstlab.score.cases import Case
from burstlab.score.ground_truth import START_S, Course, fleet_of
from burstlab.score.record import Move, moves_of
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, VolumeType
from burstwatch.core.ebs.sizing import Demand, Target, Wish, choose_target
from burstwatch.core.ebs.volume import BURST_IOPS, Volume

BACK: Final = Configuration(volume_type=VolumeType.GP2)
_PINNED: Final = 0.9
_SEEN_MIN: Final = 15


def live_with(case: Case, moves: Sequence[Move], settings: LabSettings) -> tuple[float, list[Move]]:
    """Stalled seconds and the moves that EC2 accepted; one that it refuses is left out."""
    fleet = fleet_of([case], settings)
    for move in moves:
        advance_to(fleet, move.at_s)
        try:
            fleet.modify(case.volume_id, wanted(move.configuration))
        except AwsError:
            continue
    advance_to(fleet, START_S + case.seconds)
    volume = fleet.find(case.volume_id)
    return volume.truth().stalled_s, moves_of(volume.modifications)


def advance_to(fleet: LabFleet, at_s: int) -> None:
    """Let it be that moment."""
    fleet.clock.advance(max(0, at_s - fleet.now_s()))


def wanted(configuration: Configuration) -> Wanted:
    """The configuration as ModifyVolume is asked for it."""
    return Wanted(
        volume_type=str(configuration.volume_type),
        iops=configuration.iops,
        throughput_mib_s=configuration.throughput_mib_s,
    )


def target_for(case: Case, peak_iops: float, target: VolumeType) -> Configuration:
    """What the watchdog's own rule buys for so many IOPS at the busiest."""
    created_at = datetime.fromtimestamp(START_S, tz=UTC)
    volume = Volume(
        volume_id=case.volume_id, volume_type="gp2", size_gib=case.size_gib, created_at=created_at
    )
    demand = Demand(peak_iops=min(peak_iops, BURST_IOPS), pinned=peak_iops >= _PINNED * BURST_IOPS)
    found = choose_target(volume, demand, Wish(volume_type=target), US_EAST_1)
    assert isinstance(found, Target), f"{case.name}: {found}"
    return found.configuration


def served_before(course: Course, at_s: int) -> float:
    """The busiest minute of the quarter of an hour before a moment."""
    last = (at_s - START_S) // MINUTE_S
    return max(course.served_iops[max(0, last - _SEEN_MIN) : last], default=0.0)

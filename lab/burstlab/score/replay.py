"""Replays a case with modifications at given moments, for other contenders and for the oracle."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from burstlab.model.aws_error import AwsError
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.minute_history import MINUTE_S
from burstlab.model.modification import ModifyRequest
from burstlab.score.cases import Case
from burstlab.score.ground_truth import START_S, GroundTruth, make_fleet
from burstlab.score.record import AcceptedModification, accepted_modifications
from burstwatch.core.ebs.demand import Demand
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, VolumeType
from burstwatch.core.ebs.sizing import Target, TargetOverride, choose_target
from burstwatch.core.ebs.volume import BURST_IOPS, Volume

GP2: Final = Configuration(volume_type=VolumeType.GP2)
_AT_CEILING_FRACTION: Final = 0.9
"""Gp2 delivers at least 90 % of its IOPS; Source: EBS user guide, "EBS-optimized"."""

_OBSERVED_MIN: Final = 15  # the watchdog's own estimate looks at five minutes


def replay(
    case: Case, modifications: Sequence[AcceptedModification], settings: LabSettings
) -> tuple[float, list[AcceptedModification]]:
    """Stalled seconds and the moves that EC2 accepted; one that it refuses is left out."""
    fleet = make_fleet([case], settings)
    for modification in modifications:
        advance_to(fleet, modification.at_s)
        try:
            fleet.modify(case.volume_id, to_modify_request(modification.configuration))
        except AwsError:
            continue
    advance_to(fleet, START_S + case.duration_s)
    volume = fleet.find(case.volume_id)
    return volume.truth().stalled_s, accepted_modifications(volume.modifications)


def advance_to(fleet: LabFleet, at_s: int) -> None:
    """Let it be that moment."""
    fleet.clock.advance(max(0, at_s - fleet.now_s()))


def to_modify_request(configuration: Configuration) -> ModifyRequest:
    """The configuration as the parameters of ModifyVolume."""
    return ModifyRequest(
        volume_type=str(configuration.volume_type),
        iops=configuration.iops,
        throughput_mib_s=configuration.throughput_mib_s,
    )


def choose_configuration(case: Case, peak_iops: float, target: VolumeType) -> Configuration:
    """The configuration that the watchdog's own rule chooses for this peak of IOPS."""
    created_at = datetime.fromtimestamp(START_S, tz=UTC)
    volume = Volume(
        volume_id=case.volume_id, volume_type="gp2", size_gib=case.size_gib, created_at=created_at
    )
    demand = Demand(
        peak_iops=min(peak_iops, BURST_IOPS), is_throttled=peak_iops >= _AT_CEILING_FRACTION * BURST_IOPS
    )
    chosen = choose_target(volume, demand, TargetOverride(volume_type=target), US_EAST_1)
    assert isinstance(chosen, Target), f"{case.name}: {chosen}"
    return chosen.configuration


def peak_served_before(ground_truth: GroundTruth, at_s: int) -> float:
    """The busiest minute of the quarter of an hour before a moment."""
    end_minute = (at_s - START_S) // MINUTE_S
    return max(ground_truth.served_iops[max(0, end_minute - _OBSERVED_MIN) : end_minute], default=0.0)

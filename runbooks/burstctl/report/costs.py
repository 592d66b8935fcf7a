"""What flips cost and saved in a stretch of time: the ledger's stays at list prices, nothing guessed."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from burstctl.timeline.flip_costs import FlipCost
from burstwatch.core.ebs.pricing import (
    US_EAST_1,
    Configuration,
    VolumeType,
    usd_per_month,
)
from burstwatch.core.ebs.volume import Volume, baseline_iops, gp2_throughput_mib_s
from burstwatch.core.ebs.volume_types import GP3_MIN_MIB_S
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import FlipPolicy

_GP3_LEAST_IOPS: Final = 3_000
"""Included in the price of every gp3; Source: EBS user guide, General Purpose SSD."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSummary:
    """Dollars of a stretch of time, and a month from now on.

    ``flips`` and ``returns`` are those that AWS accepted in that time. ``flips_usd`` is the additional cost
    on more expensive targets, ``saved_on_cheaper_usd`` the saving on cheaper ones. ``saved_by_return_usd`` is
    what volumes that returned would have cost since on their target, until now or their next flip.
    ``on_target`` volumes count against the policy's caps now, for ``on_target_usd_per_month`` more.
    """

    start_s: float
    end_s: float
    flip_costs: Sequence[FlipCost]
    flips: int
    returns: int
    flips_usd: float
    saved_on_cheaper_usd: float
    saved_by_return_usd: float
    on_target: int
    on_target_usd_per_month: float
    fleet_cap: int
    spend_cap_usd: float
    gp3: "Gp3Savings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gp3Savings:
    """The gp2 volumes that gp3 with the same throughput and 3,000 IOPS would cost less for, and how much."""

    volumes: int
    gp2_volumes: int
    usd_per_month: float


def summarise_costs(
    flip_costs: Iterable[FlipCost],
    *,
    states: Mapping[str, ResourceState],
    volumes: Iterable[Volume],
    without_gp3: AbstractSet[str] = frozenset(),
    policy: FlipPolicy,
    start_s: float,
    end_s: float,
) -> CostSummary:
    """Sum up the costs in the span; flips without a share in it are left out.

    The volumes ``without_gp3`` are where gp3 does not exist: nothing is saved there.
    """
    costs = list(flip_costs)
    billed = [cost.usd_within(start_s, end_s) for cost in costs]
    on_target = [
        state.flip for state in states.values() if state.flip is not None and state.flip.counts_against_caps
    ]
    return CostSummary(
        start_s=start_s,
        end_s=end_s,
        flip_costs=[
            cost
            for cost, usd in zip(costs, billed, strict=True)
            if usd or cost.usd_saved_by_return(start_s, end_s) or cost.ended_at_s is None
        ],
        flips=sum(start_s <= cost.started_at_s < end_s for cost in costs),
        returns=sum(cost.has_returned and start_s <= (cost.ended_at_s or 0) < end_s for cost in costs),
        flips_usd=sum(usd for usd in billed if usd > 0),
        saved_on_cheaper_usd=-sum(usd for usd in billed if usd < 0),
        saved_by_return_usd=sum(max(0.0, cost.usd_saved_by_return(start_s, end_s)) for cost in costs),
        on_target=len(on_target),
        on_target_usd_per_month=sum(flip.reserved_usd for flip in on_target),
        fleet_cap=policy.fleet_cap,
        spend_cap_usd=policy.spend_cap_usd,
        gp3=_gp3_savings(volumes, without_gp3),
    )


def _gp3_savings(volumes: Iterable[Volume], without_gp3: AbstractSet[str]) -> Gp3Savings:
    """By size alone: gp3 with at least 3,000 IOPS, and no less than the baseline and throughput of gp2."""
    gp2 = [volume for volume in volumes if volume.is_gp2]
    movable = [volume for volume in gp2 if volume.volume_id not in without_gp3]
    saved = [usd for volume in movable if (usd := _gp3_saving(volume.size_gib)) > 0]
    return Gp3Savings(volumes=len(saved), gp2_volumes=len(gp2), usd_per_month=sum(saved))


def _gp3_saving(size_gib: int) -> float:
    gp3_configuration = Configuration(
        volume_type=VolumeType.GP3,
        iops=max(_GP3_LEAST_IOPS, baseline_iops(size_gib)),
        throughput_mib_s=max(GP3_MIN_MIB_S, gp2_throughput_mib_s(size_gib)),
    )
    gp2_configuration = Configuration(volume_type=VolumeType.GP2)
    return usd_per_month(gp2_configuration, size_gib, US_EAST_1) - usd_per_month(
        gp3_configuration, size_gib, US_EAST_1
    )

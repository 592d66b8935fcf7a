"""What flips cost and saved in a stretch of time: the ledger's stays at list prices, nothing guessed."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from burstctl.timeline.intervals import TargetInterval, target_intervals
from burstwatch.core.ebs.pricing import (
    HOURS_PER_MONTH,
    US_EAST_1,
    Configuration,
    VolumeType,
    usd_per_month,
)
from burstwatch.core.ebs.sizing import GP3_MIN_MIB_S
from burstwatch.core.ebs.volume import Volume, baseline_iops, gp2_throughput_mib_s
from burstwatch.core.ledger.flip_state import EXTERNAL, Direction
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.volume_state import VolumeState
from burstwatch.core.policy.policy import FlipPolicy

FLIP_ENTRY_KINDS: Final = frozenset({
    EntryKind.ACCEPTED, EntryKind.REACHED, EntryKind.RESTORED, EntryKind.FAILED, EntryKind.NOT_DONE,
    EntryKind.CHANGED_BY_OTHERS,
})  # fmt: skip
"""What begins a stay, or ends it."""

PRICES: Final = f"{US_EAST_1.region} list prices of {US_EAST_1.as_of:%Y-%m-%d}"

_HOUR_S: Final = 3600
_GP3_LEAST_IOPS: Final = 3_000
"""Included in the price of every gp3; Source: EBS user guide, General Purpose SSD."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipCost:
    """A stay away from what the volume was, and what it costs more a month; negative where it costs less.

    It is billed from ``started_at_s`` on, to ``ended_at_s`` (None: it lasts). ``has_returned``: by a return
    of ours, so that it might as well have been left where it was, until it went again at
    ``flipped_again_at_s`` (None: it has not).
    """

    volume_id: str
    target: Configuration
    started_at_s: float
    usd_per_month: float
    ended_at_s: float | None = None
    has_returned: bool = False
    flipped_again_at_s: float | None = None

    def usd_within(self, start_s: float, end_s: float) -> float:
        """What it added to the bill in this stretch of time."""
        billed_until_s = end_s if self.ended_at_s is None else min(self.ended_at_s, end_s)
        return _prorated_usd(self.usd_per_month, billed_until_s - max(self.started_at_s, start_s))

    def usd_saved_by_return(self, start_s: float, end_s: float) -> float:
        """What it would have added from its return in this time until it went again, left where it was.

        A return from before is an earlier report's: else the same dollars would be saved in each of them.
        """
        if self.ended_at_s is None or not self.has_returned or not start_s <= self.ended_at_s < end_s:
            return 0.0
        until_s = end_s if self.flipped_again_at_s is None else min(self.flipped_again_at_s, end_s)
        return _prorated_usd(self.usd_per_month, until_s - self.ended_at_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSummary:
    """Dollars of a stretch of time, and a month from now on.

    ``flips`` and ``returns`` are those that AWS took in that time. ``flips_usd`` is what stays that cost
    more have cost, ``saved_on_cheaper_usd`` what stays that cost less have saved, ``saved_by_return_usd``
    what those that came back in that time would have cost since, left where they were until they went again.
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


def begins_mid_interval(entries: Iterable[LedgerEntry]) -> bool:
    """Whether these entries begin during a flip, whose price and start are in earlier entries."""
    first = next((entry for entry in entries if entry.kind in FLIP_ENTRY_KINDS), None)
    if first is None:
        return False
    is_out = first.kind is EntryKind.ACCEPTED and first.body.get("direction") == Direction.FLIP
    return not is_out or first.body.get("from") != first.body.get("original")


def flip_costs(entries: Sequence[LedgerEntry], state: VolumeState | None) -> list[FlipCost]:
    """The stays of one volume, by entries that do not begin midway; those that others made are theirs."""
    extra_usd = {
        str(entry.body.get("intent_id")): float(entry.body.get("usd_per_month_more", 0.0))
        for entry in entries
        if entry.kind is EntryKind.ACCEPTED and entry.body.get("direction") == Direction.FLIP
    }
    volume_id = entries[0].volume_id if entries else state.volume_id if state else ""
    flip = state.flip if state else None
    costs: list[FlipCost] = []
    previous: tuple[TargetInterval, float] | None = None
    for interval in target_intervals(entries, state):
        if interval.by == EXTERNAL or interval.target is None or interval.requested_at_s is None:
            continue
        is_continued = previous is not None and previous[0].restored_at_s == interval.requested_at_s
        before_usd = previous[1] if is_continued and previous is not None else 0.0
        recorded_usd = next(
            (extra_usd[intent_id] for intent_id in interval.intent_ids if intent_id in extra_usd), None
        )
        usd = (
            flip.usd_per_month
            if recorded_usd is None and flip is not None
            else before_usd + (recorded_usd or 0.0)
        )
        previous = interval, usd
        costs.append(
            FlipCost(
                volume_id=volume_id,
                target=interval.target,
                started_at_s=interval.requested_at_s,
                usd_per_month=round(usd, 6),
                ended_at_s=interval.return_requested_at_s,
                has_returned=len(interval.intent_ids) > 1,
            )
        )
    return [
        replace(interval, flipped_again_at_s=following.started_at_s if following else None)
        for interval, following in pairwise([*costs, None])
        if interval is not None
    ]


def summarise_costs(
    flip_costs: Iterable[FlipCost],
    *,
    states: Mapping[str, VolumeState],
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


def _prorated_usd(per_month: float, duration_s: float) -> float:
    return per_month / HOURS_PER_MONTH * max(0.0, duration_s) / _HOUR_S


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

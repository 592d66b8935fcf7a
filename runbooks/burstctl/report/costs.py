"""What flips cost and saved in a stretch of time: the ledger's stays at list prices, nothing guessed."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from burstctl.timeline.intervals import Stay, stays_of
from burstwatch.core.ebs.pricing import (
    HOURS_PER_MONTH,
    US_EAST_1,
    Configuration,
    VolumeType,
    usd_per_month,
)
from burstwatch.core.ebs.sizing import GP3_LEAST_MIB_S
from burstwatch.core.ebs.volume import Volume, baseline_iops, gp2_throughput_mib_s
from burstwatch.core.ledger.flip_state import OTHERS, Direction
from burstwatch.core.ledger.ledger import EntryKind, LedgerEntry, VolumeState
from burstwatch.core.policy.policy import FlipPolicy

MOVES: Final = frozenset({
    EntryKind.ACCEPTED, EntryKind.REACHED, EntryKind.RESTORED, EntryKind.FAILED, EntryKind.NOT_DONE,
    EntryKind.CHANGED_BY_OTHERS,
})  # fmt: skip
"""What begins a stay, or ends it."""

PRICES: Final = f"{US_EAST_1.region} list prices of {US_EAST_1.as_of:%Y-%m-%d}"

_HOUR_S: Final = 3600
_GP3_LEAST_IOPS: Final = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidStay:
    """A stay away from what the volume was, and what it costs more a month; negative where it costs less.

    It is billed from ``began_s`` on, to ``ended_s`` (None: it lasts). ``came_back``: by a return of ours, so
    that it might as well have been left where it was, until it went again at ``again_s`` (None: it has not).
    """

    volume_id: str
    target: Configuration
    began_s: float
    usd_per_month: float
    ended_s: float | None = None
    came_back: bool = False
    again_s: float | None = None

    def usd_within(self, start_s: float, end_s: float) -> float:
        """What it added to the bill in this stretch of time."""
        last_s = end_s if self.ended_s is None else min(self.ended_s, end_s)
        return _usd(self.usd_per_month, last_s - max(self.began_s, start_s))

    def usd_had_it_stayed(self, start_s: float, end_s: float) -> float:
        """What it would have added from its return in this time until it went again, left where it was.

        A return from before is an earlier report's: else the same dollars would be saved in each of them.
        """
        if self.ended_s is None or not self.came_back or not start_s <= self.ended_s < end_s:
            return 0.0
        until_s = end_s if self.again_s is None else min(self.again_s, end_s)
        return _usd(self.usd_per_month, until_s - self.ended_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """Dollars of a stretch of time, and a month from now on.

    ``flips`` and ``returns`` are those that AWS took in that time. ``flips_usd`` is what stays that cost
    more have cost, ``cheaper_usd`` what stays that cost less have saved, ``returned_usd`` what those that
    came back in that time would have cost since, left where they were until they went again. ``away``
    volumes count against the policy's caps now, for ``away_usd_per_month`` more.
    """

    start_s: float
    end_s: float
    stays: Sequence[PaidStay]
    flips: int
    returns: int
    flips_usd: float
    cheaper_usd: float
    returned_usd: float
    away: int
    away_usd_per_month: float
    fleet_cap: int
    spend_cap_usd: float
    gp3: "CheaperOnGp3"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheaperOnGp3:
    """The gp2 volumes that gp3 with the same throughput and 3,000 IOPS would cost less for, and how much."""

    volumes: int
    gp2_volumes: int
    usd_per_month: float


def begins_midway(entries: Iterable[LedgerEntry]) -> bool:
    """Whether these entries begin within a stay: what it costs, and since when, earlier ones tell."""
    first = next((entry for entry in entries if entry.kind in MOVES), None)
    if first is None:
        return False
    is_out = first.kind is EntryKind.ACCEPTED and first.body.get("direction") == Direction.OUT
    return not is_out or first.body.get("from") != first.body.get("original")


def paid_stays(entries: Sequence[LedgerEntry], state: VolumeState | None) -> list[PaidStay]:
    """The stays of one volume, by entries that do not begin midway; those that others made are theirs."""
    more = {
        str(entry.body.get("intent_id")): float(entry.body.get("usd_per_month_more", 0.0))
        for entry in entries
        if entry.kind is EntryKind.ACCEPTED and entry.body.get("direction") == Direction.OUT
    }
    volume_id = entries[0].volume_id if entries else state.volume_id if state else ""
    flip = state.flip if state else None
    found: list[PaidStay] = []
    last: tuple[Stay, float] | None = None
    for stay in stays_of(entries, state):
        if stay.by == OTHERS or stay.target is None or stay.asked_s is None:
            continue
        goes_on = last is not None and last[0].restored_s == stay.asked_s
        before_usd = last[1] if goes_on and last is not None else 0.0
        known = next((more[i] for i in stay.intent_ids if i in more), None)
        usd = flip.usd_per_month if known is None and flip is not None else before_usd + (known or 0.0)
        last = stay, usd
        found.append(
            PaidStay(
                volume_id=volume_id,
                target=stay.target,
                began_s=stay.asked_s,
                usd_per_month=round(usd, 6),
                ended_s=stay.back_s,
                came_back=len(stay.intent_ids) > 1,
            )
        )
    return [
        replace(stay, again_s=following.began_s if following else None)
        for stay, following in pairwise([*found, None])
        if stay is not None
    ]


def sum_money(
    stays: Iterable[PaidStay],
    *,
    states: Mapping[str, VolumeState],
    volumes: Iterable[Volume],
    without_gp3: AbstractSet[str] = frozenset(),
    policy: FlipPolicy,
    start_s: float,
    end_s: float,
) -> Money:
    """What it comes to between ``start_s`` and ``end_s``; only stays that have a share in it are kept.

    The volumes ``without_gp3`` are where gp3 does not exist: nothing is saved there.
    """
    known = list(stays)
    billed = [stay.usd_within(start_s, end_s) for stay in known]
    away = [state.flip for state in states.values() if state.flip is not None and state.flip.reserves]
    return Money(
        start_s=start_s,
        end_s=end_s,
        stays=[
            stay
            for stay, usd in zip(known, billed, strict=True)
            if usd or stay.usd_had_it_stayed(start_s, end_s) or stay.ended_s is None
        ],
        flips=sum(start_s <= stay.began_s < end_s for stay in known),
        returns=sum(stay.came_back and start_s <= (stay.ended_s or 0) < end_s for stay in known),
        flips_usd=sum(usd for usd in billed if usd > 0),
        cheaper_usd=-sum(usd for usd in billed if usd < 0),
        returned_usd=sum(max(0.0, stay.usd_had_it_stayed(start_s, end_s)) for stay in known),
        away=len(away),
        away_usd_per_month=sum(max(0.0, flip.usd_per_month) for flip in away),
        fleet_cap=policy.fleet_cap,
        spend_cap_usd=policy.spend_cap_usd,
        gp3=_cheaper_on_gp3(volumes, without_gp3),
    )


def _usd(per_month: float, span_s: float) -> float:
    return per_month / HOURS_PER_MONTH * max(0.0, span_s) / _HOUR_S


def _cheaper_on_gp3(volumes: Iterable[Volume], without_gp3: AbstractSet[str]) -> CheaperOnGp3:
    """By size alone: gp3 with no less throughput and IOPS than gp2 has for good, 3,000 IOPS at least."""
    gp2 = [volume for volume in volumes if volume.is_gp2]
    movable = [volume for volume in gp2 if volume.volume_id not in without_gp3]
    saved = [usd for volume in movable if (usd := _saved_on_gp3(volume.size_gib)) > 0]
    return CheaperOnGp3(volumes=len(saved), gp2_volumes=len(gp2), usd_per_month=sum(saved))


def _saved_on_gp3(size_gib: int) -> float:
    gp3 = Configuration(
        volume_type=VolumeType.GP3,
        iops=max(_GP3_LEAST_IOPS, baseline_iops(size_gib)),
        throughput_mib_s=max(GP3_LEAST_MIB_S, gp2_throughput_mib_s(size_gib)),
    )
    gp2 = Configuration(volume_type=VolumeType.GP2)
    return usd_per_month(gp2, size_gib, US_EAST_1) - usd_per_month(gp3, size_gib, US_EAST_1)

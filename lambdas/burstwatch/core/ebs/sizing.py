"""What to change a volume to, and why: the configuration, its price and what else there was.

Source of the limits: the EBS user guide, "Amazon EBS volume types", and the EC2 API reference, ModifyVolume.

Demand cannot be seen, only what was *served*. Where the volume was not held back the two are the same. Where
it was (``Demand.pinned``) the peak served is the least that demand can be, and the target is never below what
the volume serves at best: pinned at 3,000 it gets 3,000 with headroom, pinned to a baseline of 300 the 3,000
it had while it had credits, because nothing says that it wants more.

A wish replaces the computed number. From a tag it is raised to what the volume needs and clamped to what AWS
allows, with the reason; insisted on by an operator it is taken exactly, with a warning, or refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, isfinite
from typing import Final

from burstwatch.core.ebs.pricing import Configuration, PriceChange, PriceTable, VolumeType, usd_per_month
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, baseline_iops, gp2_throughput_mib_s

EMPTY_PCT: Final = 1.0
"""An EBSIOBalance% or EBSByteBalance% at or below this is empty."""

AT_CEILING: Final = 0.9
"""A pinned volume that served this share of its ceiling was held back there: AWS delivers as much.

gp3 alone asks: it serves 3,000 IOPS anyway, and more are bought only for a demand that is known to be there.
"""

GP3_LEAST_MIB_S: Final = 125
GP3_MOST_MIB_S: Final = 2_000
IO1_LARGE_MIB_S: Final = 500
"""Up to here io1 moves 256 KiB an operation, above it 16 KiB."""

IOPS_PER_MIB_S: Final = 4
"""Operations of 256 KiB; a rule for gp3, what io1 reaches, and a little more than io2 needs."""


@dataclass(frozen=True, slots=True)
class TypeLimits:
    """What AWS allows for a volume type."""

    least_gib: int
    most_gib: int
    least_iops: int
    most_iops: int
    iops_per_gib: int

    def most_iops_at(self, size_gib: int) -> int:
        """The ratio to the size binds only above the least, which every size may have."""
        return max(self.least_iops, min(self.most_iops, self.iops_per_gib * size_gib))


LIMITS: Final = {
    VolumeType.GP3: TypeLimits(1, 65_536, 3_000, 80_000, 500),
    VolumeType.IO1: TypeLimits(4, 16_384, 100, 64_000, 50),
    VolumeType.IO2: TypeLimits(4, 65_536, 100, 256_000, 1_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The most that was served of late; None where it was not measured.

    ``peak_iops`` is that of the busiest of the last five minutes; measured for an order that comes without
    it, the mean of the busiest five minutes in a row. ``pinned``: the volume was held back meanwhile, at its
    ceiling or (exhausted) at its baseline. ``ahead``: what matters is still to come, and nobody has seen it.
    """

    peak_iops: float | None = None
    peak_throughput_mib_s: float | None = None
    pinned: bool = False
    ahead: bool = False

    def __post_init__(self) -> None:
        for peak in (self.peak_iops, self.peak_throughput_mib_s):
            if peak is not None and not (isfinite(peak) and peak >= 0):
                raise ValueError(f"a peak of {peak} cannot be; give 0 or more, or None where not measured")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceLimits:
    """What the instance allows all its volumes together; the baselines, once its own bucket is empty."""

    max_iops: int
    max_throughput_mib_s: float
    baseline_iops: int
    baseline_throughput_mib_s: float
    io_balance_pct: float | None = None
    byte_balance_pct: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a tag or an operator asks for; None leaves it to us."""

    volume_type: VolumeType | None = None
    iops: int | None = None
    throughput_mib_s: int | None = None

    def __post_init__(self) -> None:
        if self.volume_type == VolumeType.GP2:
            raise ValueError("gp2 is no target; write gp3, io1 or io2, and flip back to return to gp2")


class TargetRefusalName(StrEnum):
    """Why there is no target."""

    UNSUPPORTED_TYPE = "unsupported_type"
    SIZE_OUT_OF_RANGE = "size_out_of_range"
    SLOWER_THAN_BURST = "slower_than_burst"
    WISH_OUT_OF_RANGE = "wish_out_of_range"
    INSTANCE_IS_BOTTLENECK = "instance_is_bottleneck"
    NO_CHANGE_NEEDED = "no_change_needed"
    TYPE_NOT_AVAILABLE = "type_not_available"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRefusal:
    """A change that makes no sense; ``because`` has the value and the limit."""

    name: TargetRefusalName
    because: str
    next_step: str
    command: str | None = None
    """What a person can run instead, where another type would do."""

    @property
    def sentence(self) -> str:
        return f"{self.because}; {self.next_step}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A configuration the volume could have; a sentence in ``reasons`` for each number and each clamp."""

    configuration: Configuration
    usd_per_month: float
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What to change the volume to; ``alternatives`` has gp3, io1, io2 and ``stay`` side by side."""

    configuration: Configuration
    reasons: tuple[str, ...]
    price: PriceChange
    gp2_usd_per_month: float
    alternatives: Mapping[str, Offer | TargetRefusal]

    @property
    def costs_no_more_than_gp2(self) -> bool:
        return self.price.after_usd_per_month <= self.gp2_usd_per_month


class ReturnMode(StrEnum):
    """Whether a flipped volume goes back to gp2; ``auto`` leaves a gp3 that costs no more."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """Whether a volume stays where it was flipped to, and why in words."""

    stays: bool
    reason: str


def choose_target(
    volume: Volume,
    demand: Demand,
    wish: Wish,
    prices: PriceTable,
    *,
    instance: InstanceLimits | None = None,
    headroom_pct: float = 25.0,
    insist: bool = False,
    unavailable: Mapping[VolumeType, str] | None = None,
) -> Target | TargetRefusal:
    """Choose what to change the volume to; gp3 unless the wish names a type.

    A type that the size rules out, or allows only below the burst, becomes gp3; with ``insist`` a refusal.
    So does one of those ``unavailable`` where the volume is, each with its reason.
    """
    if volume.volume_type not in frozenset(VolumeType):
        return TargetRefusal(
            name=TargetRefusalName.UNSUPPORTED_TYPE,
            because=f"{volume.volume_id} is {volume.volume_type}, not gp2, gp3, io1 or io2",
            next_step="change it by hand",
        )
    if instance and (refusal := _why_instance_binds(volume, demand, instance)):
        return refusal
    case = _Case(
        volume=volume, demand=demand, wish=wish, instance=instance, headroom_pct=headroom_pct, insist=insist
    )
    unavailable = unavailable or {}
    offers: dict[str, Offer | TargetRefusal] = {
        kind: _offer(kind, case, prices) for kind in LIMITS if kind not in unavailable
    }
    missing = [kind for kind in unavailable if kind in LIMITS]
    step, command = instead_of(offers, volume, prices) if missing else ("", None)
    offers |= {
        kind: TargetRefusal(
            name=TargetRefusalName.TYPE_NOT_AVAILABLE,
            because=unavailable[kind],
            next_step=step,
            command=command,
        )
        for kind in missing
    }
    chosen = offers[wish.volume_type or VolumeType.GP3]
    if isinstance(chosen, TargetRefusal) and not insist:
        chosen = _redirect(chosen, offers[VolumeType.GP3])
    if isinstance(chosen, TargetRefusal):
        return chosen
    return _compare(chosen, offers, volume, prices)


def instead_of(
    offers: Mapping[str, Offer | TargetRefusal], volume: Volume, prices: PriceTable
) -> tuple[str, str | None]:
    """What to do where a type does not exist, and the command: the first of ``offers`` that helps.

    They are gp3, io1, which exists everywhere, and io2, in this order.
    """
    helpful = [offer for offer in offers.values() if isinstance(offer, Offer)]
    if not helpful:
        return "no type that is there helps at its size: take load away", None
    best = helpful[0]
    now_usd = usd_per_month(configuration_of(volume), volume.size_gib, prices)
    command = f"burstctl flip {volume.volume_id} --to {best.configuration.volume_type}"
    step = (
        f"{best.configuration} costs ${best.usd_per_month:,.2f} a month instead of ${now_usd:,.2f}"
        f" ({prices.region} list prices): {command}"
    )
    return step, command


def stays_after(target: Target, return_mode: ReturnMode) -> Stay:
    """Whether the volume stays on its target when demand is calm again."""
    kind = target.configuration.volume_type
    prices = f"${target.price.after_usd_per_month:,.2f} a month, gp2 ${target.gp2_usd_per_month:,.2f}"
    match return_mode:
        case ReturnMode.ALWAYS:
            return Stay(stays=False, reason=f"returns to gp2 (return: always); {kind} costs {prices}")
        case ReturnMode.NEVER:
            return Stay(stays=True, reason=f"stays (return: never); {kind} costs {prices}")
        case ReturnMode.AUTO if kind == VolumeType.GP3 and target.costs_no_more_than_gp2:
            return Stay(stays=True, reason=f"stays: gp3 costs no more, {prices}")
        case ReturnMode.AUTO:
            return Stay(stays=False, reason=f"returns to gp2 when calm: {kind} costs {prices}")


def configuration_of(volume: Volume) -> Configuration:
    """How the volume is now; a number that AWS did not tell is read as the least of its type.

    Raises:
        ValueError: the volume is neither gp2, gp3, io1 nor io2.
    """
    kind = VolumeType(volume.volume_type)
    iops = None if kind is VolumeType.GP2 else volume.provisioned_iops or LIMITS[kind].least_iops
    mib_s = volume.throughput_mib_s or GP3_LEAST_MIB_S if kind is VolumeType.GP3 else None
    return Configuration(volume_type=kind, iops=iops, throughput_mib_s=mib_s)


def reachable_mib_s(configuration: Configuration, size_gib: int) -> float:
    """Throughput with large operations.

    io1 counts 256 KiB an operation, 16 KiB above 500 MiB/s; io2 has 0.256 MiB/s for each IOPS, to 4,000.
    """
    iops = configuration.iops or 0
    match configuration.volume_type:
        case VolumeType.GP2:
            return gp2_throughput_mib_s(size_gib)
        case VolumeType.GP3:
            return configuration.throughput_mib_s or 0
        case VolumeType.IO1:
            return min(iops / IOPS_PER_MIB_S, max(IO1_LARGE_MIB_S, iops / 64))
        case VolumeType.IO2:
            return min(iops * 0.256, 4_000)


def _why_instance_binds(volume: Volume, demand: Demand, instance: InstanceLimits) -> TargetRefusal | None:
    """Why the instance is the bottleneck: a faster volume would cost and not help.

    Its limits are held against what the volume sustains, *without* credits: where they allow more, a flip
    helps. Throughput is judged at the operation size that was seen, and not at all without one.
    """
    now = configuration_of(volume)
    iops = now.iops or baseline_iops(volume.size_gib)
    buckets = (
        ("EBSIOBalance%", instance.io_balance_pct, f"{instance.baseline_iops:,} IOPS"),
        ("EBSByteBalance%", instance.byte_balance_pct, f"{instance.baseline_throughput_mib_s:g} MiB/s"),
    )
    found = [
        f"its {bucket} is at {pct:g} %, empty, which holds all its volumes together to {held_to}"
        for bucket, pct, held_to in buckets
        if pct is not None and pct <= EMPTY_PCT
    ]
    if instance.max_iops <= iops:
        found.append(f"it allows {instance.max_iops:,} IOPS, and the volume sustains {iops:,}")
    if demand.peak_iops and demand.peak_throughput_mib_s:
        operation_mib = demand.peak_throughput_mib_s / demand.peak_iops
        mib_s = min(reachable_mib_s(now, volume.size_gib), iops * operation_mib)
        if instance.max_throughput_mib_s <= mib_s:
            found.append(
                f"it allows {instance.max_throughput_mib_s:g} MiB/s, and the volume sustains {mib_s:.4g} at"
                f" the {operation_mib * 1024:.0f} KiB an operation that were seen"
            )
    if not found:
        return None
    return TargetRefusal(
        name=TargetRefusalName.INSTANCE_IS_BOTTLENECK,
        because=f"instance {volume.instance_id}, not the volume, is the bottleneck: {'; '.join(found)}",
        next_step="take a larger instance type, or wait for its bucket to refill",
    )


def _redirect(refusal: TargetRefusal, gp3: Offer | TargetRefusal) -> Offer | TargetRefusal:
    if isinstance(gp3, TargetRefusal):
        return gp3
    return replace(gp3, reasons=(f"Redirected to gp3: {refusal.because}.", *gp3.reasons))


def _compare(
    chosen: Offer, offers: Mapping[str, Offer | TargetRefusal], volume: Volume, prices: PriceTable
) -> Target | TargetRefusal:
    """The offer beside what the volume is and costs now."""
    now = configuration_of(volume)
    if chosen.configuration == now:
        return TargetRefusal(
            name=TargetRefusalName.NO_CHANGE_NEEDED,
            because=f"{volume.volume_id} is {now} already, and asking for the same may use up one of the four"
            " modifications AWS allows in 24 h",
            next_step="leave it, or ask for other numbers",
        )
    stay = Offer(configuration=now, usd_per_month=usd_per_month(now, volume.size_gib, prices))
    gp2 = Configuration(volume_type=VolumeType.GP2)
    return Target(
        configuration=chosen.configuration,
        reasons=chosen.reasons,
        price=PriceChange(before_usd_per_month=stay.usd_per_month, after_usd_per_month=chosen.usd_per_month),
        gp2_usd_per_month=usd_per_month(gp2, volume.size_gib, prices),
        alternatives={**offers, "stay": stay},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """All that the numbers of an offer follow from."""

    volume: Volume
    demand: Demand
    wish: Wish
    instance: InstanceLimits | None
    headroom_pct: float
    insist: bool

    @property
    def best_iops(self) -> int:
        """The most it serves as it is: a gp2's burst, or its baseline where that is more."""
        return configuration_of(self.volume).iops or max(BURST_IOPS, baseline_iops(self.volume.size_gib))

    @property
    def has_mib_s(self) -> float:
        return reachable_mib_s(configuration_of(self.volume), self.volume.size_gib)

    @property
    def needed_mib_s(self) -> int:
        """What it has, or more where more was seen."""
        return ceil(max(self.has_mib_s, self.demand.peak_throughput_mib_s or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figure:
    """A number being settled, and every reason it became what it is; ``insisted`` ones yield to AWS only."""

    value: int
    unit: str
    reasons: tuple[str, ...]
    insisted: bool = False

    @classmethod
    def asked(cls, value: int, unit: str, *, insisted: bool) -> "_Figure":
        return cls(value=value, unit=unit, reasons=(f"{value:,} {unit} as asked.",), insisted=insisted)

    def needing(self, least: int, why: str) -> "_Figure":
        if not self.insisted or self.value >= least:
            return self.at_least(least, why)
        return self._changed(self.value, f"are fewer than {least:,}", why)

    def at_least(self, least: int, why: str) -> "_Figure":
        return self if self.value >= least else self._changed(least, f"become {least:,}", why)

    def at_most(self, most: int, why: str) -> "_Figure":
        return self if self.value <= most else self._changed(most, f"become {most:,}", why)

    def _changed(self, value: int, said: str, why: str) -> "_Figure":
        reason = f"{self.value:,} {self.unit} {said}: {why}."
        return replace(self, value=value, reasons=(*self.reasons, reason))


def _offer(kind: VolumeType, case: _Case, prices: PriceTable) -> Offer | TargetRefusal:
    if refusal := _why_not_at(kind, case.volume.size_gib):
        return refusal
    iops = _settle_iops(kind, case)
    throughput = _settle_throughput(kind, case, iops.value)
    for figure, asked in ((iops, case.wish.iops), (throughput, case.wish.throughput_mib_s)):
        if case.insist and asked is not None and figure.value != asked:
            return TargetRefusal(
                name=TargetRefusalName.WISH_OUT_OF_RANGE,
                because=f"asked for {asked:,} {figure.unit}, but {figure.reasons[-1].removesuffix('.')}",
                next_step=f"ask for {figure.value:,}, or leave it out",
            )
    configuration = Configuration(
        volume_type=kind,
        iops=iops.value,
        throughput_mib_s=throughput.value if kind is VolumeType.GP3 else None,
    )
    return Offer(
        configuration=configuration,
        usd_per_month=usd_per_month(configuration, case.volume.size_gib, prices),
        reasons=iops.reasons + throughput.reasons,
    )


def _why_not_at(kind: VolumeType, size_gib: int) -> TargetRefusal | None:
    limits = LIMITS[kind]
    if not limits.least_gib <= size_gib <= limits.most_gib:
        return TargetRefusal(
            name=TargetRefusalName.SIZE_OUT_OF_RANGE,
            because=f"{kind} takes {limits.least_gib:,} to {limits.most_gib:,} GiB, not {size_gib:,}",
            next_step="take gp3" if size_gib < limits.least_gib else "leave it as it is",
        )
    if (most := limits.most_iops_at(size_gib)) >= BURST_IOPS:
        return None
    return TargetRefusal(
        name=TargetRefusalName.SLOWER_THAN_BURST,
        because=f"{kind} allows {limits.iops_per_gib} IOPS per GiB, {limits.iops_per_gib} x {size_gib} ="
        f" {most:,}, fewer than the {BURST_IOPS:,} of a gp2's burst",
        next_step="take gp3 or io2",
    )


def _settle_iops(kind: VolumeType, case: _Case) -> _Figure:
    limits, size_gib, asked = LIMITS[kind], case.volume.size_gib, case.wish.iops
    floors = _iops_floors(kind, case)
    if asked is not None:
        figure = _Figure.asked(asked, "IOPS", insisted=case.insist)
    else:
        figure = _wanted_iops(kind, case)
        if case.instance:
            useful = max(case.instance.max_iops, *(least for least, _ in floors))
            figure = figure.at_most(useful, f"the instance allows {case.instance.max_iops:,} in all")
    for least, why in floors:
        figure = figure.needing(least, why)
    return figure.at_least(limits.least_iops, f"the least that {kind} takes").at_most(
        limits.most_iops_at(size_gib),
        f"{kind} allows {limits.iops_per_gib:,} per GiB, here {size_gib:,}, within {limits.least_iops:,} to"
        f" {limits.most_iops:,}",
    )


def _wanted_iops(kind: VolumeType, case: _Case) -> _Figure:
    peak, best = case.demand.peak_iops, case.best_iops
    value, headroom = ceil((peak or 0) * (100 + case.headroom_pct) / 100), f"{case.headroom_pct:g} % headroom"
    if peak is None:
        value, why = best, "what it serves at best; its demand was not measured"
    elif case.demand.pinned and value > best and (kind is not VolumeType.GP3 or peak >= AT_CEILING * best):
        why = f"held back at {peak:,.0f} it wants that at least; {headroom}"
    elif case.demand.pinned:
        value, why = best, f"what it serves at best; held back at {peak:,.0f}, its demand is unknown"
    elif kind is VolumeType.GP3:
        value, why = best, f"what it serves at best; its demand of {peak:,.0f} was not held back"
    else:
        why = f"its demand of {peak:,.0f} was not held back; {headroom}"
    return _Figure(value=value, unit="IOPS", reasons=(f"{value:,} IOPS: {why}.",))


def _iops_floors(kind: VolumeType, case: _Case) -> tuple[tuple[int, str], ...]:
    """Below what the IOPS should not be, and why: slower than it is now, or too few for the throughput."""
    if kind is VolumeType.GP3:
        slowest = (case.best_iops, "what it serves at best")
        mib_s = min(GP3_MOST_MIB_S, max(case.needed_mib_s, case.wish.throughput_mib_s or 0))
    else:
        slowest = (min(BURST_IOPS, ceil(case.demand.peak_iops or 0)), "that many were served")
        if case.demand.ahead:
            slowest = (case.best_iops, "what it serves at best; the demand to come is not known")
        mib_s = min(IO1_LARGE_MIB_S, case.needed_mib_s)
    return slowest, (mib_s * IOPS_PER_MIB_S, f"{mib_s:,} MiB/s take that many, at 256 KiB an operation")


def _settle_throughput(kind: VolumeType, case: _Case, iops: int) -> _Figure:
    """What gp3 is given; what io1 and io2 reach, whatever was asked."""
    asked, needed = case.wish.throughput_mib_s, case.needed_mib_s
    if kind is not VolumeType.GP3:
        reached = int(reachable_mib_s(Configuration(volume_type=kind, iops=iops), case.volume.size_gib))
        reason = f"{reached:,} MiB/s follow from the IOPS of {kind} and cannot be set."
        return _Figure(value=reached, unit="MiB/s", reasons=(reason,))
    why = "what it has" if needed <= ceil(case.has_mib_s) else "what was seen, more than it should have"
    if asked is None:
        figure = _Figure(value=needed, unit="MiB/s", reasons=(f"{needed:,} MiB/s: {why}.",))
    else:
        figure = _Figure.asked(asked, "MiB/s", insisted=case.insist).needing(needed, why)
    most = min(GP3_MOST_MIB_S, iops // IOPS_PER_MIB_S)
    why = f"gp3 allows 1 for every {IOPS_PER_MIB_S} of {iops:,} IOPS, and {GP3_MOST_MIB_S:,} at most"
    return figure.at_least(GP3_LEAST_MIB_S, "the least that gp3 takes").at_most(most, why)

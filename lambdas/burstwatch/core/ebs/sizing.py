"""What to change a volume to, and why: the configuration, its price and the alternatives.

Source of the limits: the EBS user guide, "Amazon EBS volume types", and the EC2 API reference, ModifyVolume.

CloudWatch shows what was *served*, not what was wanted. If the volume was not throttled, the two are equal.
If it was (``Demand.is_throttled``), the peak that was served is the least that the demand can be. The target
is then never below what the volume serves at best.

IOPS of a gp2 volume of 100 GiB (300 baseline, 3,000 burst) by ``choose_target`` with 25 % headroom::

    peak served   throttled     gp3      io1 and io2   why
            800   no           3,000         1,000     gp3 includes 3,000; io1 is priced by IOPS: 800 + 25 %
          2,600   no           3,000         3,250     2,600 + 25 %
            300   yes          3,000         3,000     throttled to its baseline: its demand is unknown
          3,000   yes          3,750         3,750     throttled at full burst: 3,000 + 25 %
    not measured  -            3,000         3,000     what the volume serves at best

The throughput of gp3 is at least that of gp2, 128 MiB/s here. The 125 MiB/s that the price of gp3
includes are less than any gp2 volume has.

An override (from a tag or a person) replaces the computed number. From a tag it is raised to what the volume
needs and clamped to what AWS allows, and the reasons say so. From a person (``exact``) it is taken as it is,
with a warning, or refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, isfinite
from typing import Final

from burstwatch.core.ebs.pricing import Configuration, PriceChange, PriceTable, VolumeType, usd_per_month
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, baseline_iops, gp2_throughput_mib_s
from burstwatch.core.text import format_usd

EMPTY_PCT: Final = 1.0
"""An EBSIOBalance% or EBSByteBalance% at or below this is empty: as for the level ``exhausted``."""

NEARLY_EMPTY_PCT: Final = 5.0
"""At or below this it is empty before a flip has helped: 5 % last 90 s at the maximum of the type."""

THROTTLED_SHARE: Final = 0.9
"""A throttled volume that served this share of its ceiling was held back by that ceiling.

AWS designs gp2 to deliver at least 90 % of its performance, 99 % of the time (EBS user guide, "Amazon
EBS-optimized instances"). Only gp3 asks for this: it serves 3,000 IOPS anyway, and more are bought only for a
demand that was observed.
"""

GP3_MIN_MIB_S: Final = 125
GP3_MAX_MIB_S: Final = 2_000
"""AWS raised it from 1,000 in September 2025; on Outposts it is still 1,000."""
IO1_LARGE_OPERATION_MAX_MIB_S: Final = 500
"""Up to here io1 moves 256 KiB with each operation, above it 16 KiB."""

IOPS_PER_MIB_S: Final = 4
"""IOPS for each MiB/s: operations of 256 KiB, the largest that EBS counts as one on an SSD.

It is AWS's rule for gp3, what io1 reaches, and slightly more than io2 needs.
"""


@dataclass(frozen=True, slots=True)
class TypeLimits:
    """What AWS allows for a volume type; ``iops_per_gib`` is the highest ratio of IOPS to size."""

    min_gib: int
    max_gib: int
    min_iops: int
    max_iops: int
    iops_per_gib: int

    def max_iops_at(self, size_gib: int) -> int:
        """The highest IOPS at this size; every size may have ``min_iops``, whatever the ratio says.

        Examples: io1 allows 50 IOPS per GiB, so 100 GiB may have 5,000 and 8 GiB 400. gp3 allows 3,000 at any
        size and 4,000 at 8 GiB.
        """
        return max(self.min_iops, min(self.max_iops, self.iops_per_gib * size_gib))


# gp3 was limited to 16 TiB and 16,000 IOPS until September 2025; io2 to 500 IOPS per GiB until 2025.
# Source: the EBS user guide, "Document history".
TYPE_LIMITS: Final = {
    VolumeType.GP3: TypeLimits(1, 65_536, 3_000, 80_000, 500),
    VolumeType.IO1: TypeLimits(4, 16_384, 100, 64_000, 50),
    VolumeType.IO2: TypeLimits(4, 65_536, 100, 256_000, 1_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The highest rates that were served recently; None if they were not measured.

    ``peak_iops`` is that of the busiest of the last five minutes. If it is measured for an order of a person,
    it is the mean of the busiest five minutes in a row. ``is_throttled`` says that the volume was at its
    ceiling at the time, or at its baseline because it was exhausted. ``is_future`` says that the demand that
    matters is still to come, as before a window.

    Raises:
        ValueError: a peak is negative or not finite.
    """

    peak_iops: float | None = None
    peak_throughput_mib_s: float | None = None
    is_throttled: bool = False
    is_future: bool = False

    def __post_init__(self) -> None:
        for peak in (self.peak_iops, self.peak_throughput_mib_s):
            if peak is not None and not (isfinite(peak) and peak >= 0):
                raise ValueError(f"a peak of {peak} cannot be; give 0 or more, or None where not measured")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceLimits:
    """What the instance allows all its volumes together.

    The baselines apply while its own bucket is empty. Source: DescribeInstanceTypes, EbsOptimizedInfo. The
    balances are percentages; None for an instance type that has no bucket. ``other_iops`` and ``other_mib_s``
    are what the other volumes of the instance can serve together; ``used_iops`` and ``used_mib_s`` what all
    of them serve now. Each is None if it is not known.
    """

    max_iops: int
    max_throughput_mib_s: float
    baseline_iops: int
    baseline_throughput_mib_s: float
    io_balance_pct: float | None = None
    byte_balance_pct: float | None = None
    other_iops: float | None = None
    other_mib_s: float | None = None
    used_iops: float | None = None
    used_mib_s: float | None = None

    @property
    def is_nearly_empty(self) -> bool:
        """Whether one of its buckets may be empty before a flip has helped."""
        balances = (self.io_balance_pct, self.byte_balance_pct)
        return any(pct is not None and pct <= NEARLY_EMPTY_PCT for pct in balances)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOverride:
    """What a tag or a person asks for; None leaves the choice to burstwatch; ValueError for gp2."""

    volume_type: VolumeType | None = None
    iops: int | None = None
    throughput_mib_s: int | None = None

    def __post_init__(self) -> None:
        if self.volume_type == VolumeType.GP2:
            raise ValueError(
                "gp2 is not a valid target; write gp3, io1 or io2, and flip back to return to gp2"
            )


class TargetRefusalCode(StrEnum):
    """Why there is no target."""

    UNSUPPORTED_TYPE = "unsupported_type"
    SIZE_OUT_OF_RANGE = "size_out_of_range"
    SLOWER_THAN_BURST = "slower_than_burst"
    OVERRIDE_OUT_OF_RANGE = "wish_out_of_range"
    INSTANCE_IS_BOTTLENECK = "instance_is_bottleneck"
    NO_CHANGE_NEEDED = "no_change_needed"
    TYPE_NOT_AVAILABLE = "type_not_available"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRefusal:
    """Why there is no target: ``reason`` states the value and the limit, ``next_step`` what to do instead."""

    code: TargetRefusalCode
    reason: str
    next_step: str
    command: str | None = None
    """What a person can run instead, if another type would help."""

    @property
    def sentence(self) -> str:
        return f"{self.reason}; {self.next_step}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A configuration that the volume could have; ``reasons`` explains each number and each limit applied."""

    configuration: Configuration
    usd_per_month: float
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What to change the volume to; ``alternatives`` has the keys gp3, io1, io2 and ``stay``."""

    configuration: Configuration
    reasons: tuple[str, ...]
    price: PriceChange
    gp2_usd_per_month: float
    alternatives: Mapping[str, Candidate | TargetRefusal]

    @property
    def costs_no_more_than_gp2(self) -> bool:
        return self.price.after_usd_per_month <= self.gp2_usd_per_month


class ReturnMode(StrEnum):
    """Whether a flipped volume returns to gp2; with ``auto`` a gp3 that costs no more stays."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnDecision:
    """Whether a volume stays on its target, and the reason in words."""

    is_permanent: bool
    reason: str


def unsupported_type_refusal(volume: Volume) -> TargetRefusal:
    """Why a volume is never modified whose type is not gp2, gp3, io1 or io2."""
    return TargetRefusal(
        code=TargetRefusalCode.UNSUPPORTED_TYPE,
        reason=(
            f"{volume.volume_id} is {volume.volume_type}, and burstwatch changes only gp2, gp3, io1 and io2"
        ),
        next_step=(
            f"see what limits it with burstctl which {volume.volume_id}, and change it in the EC2 console"
        ),
    )


def choose_target(
    volume: Volume,
    demand: Demand,
    override: TargetOverride,
    prices: PriceTable,
    *,
    instance: InstanceLimits | None = None,
    headroom_pct: float = 25.0,
    exact: bool = False,
    unavailable: Mapping[VolumeType, str] | None = None,
) -> Target | TargetRefusal:
    """Choose what to change the volume to: gp3, unless the override names a type.

    A type that the volume's size rules out, or for which it allows fewer than 3,000 IOPS, is replaced by gp3.
    So is a type that is unavailable. With ``exact`` such a type is refused instead.

    Args:
        volume: the volume as it is now.
        demand: what it served recently.
        override: what a tag or a person asks for.
        prices: the list prices to compare with.
        instance: the limits of its instance; None if they are not known or do not matter.
        headroom_pct: what is added to an observed demand, in per cent.
        exact: take the numbers of the override as they are, or refuse.
        unavailable: the types that do not exist in the volume's zone or Outpost, each with the reason.

    Returns:
        The target, or the reason why no target fits.
    """
    if volume.volume_type not in frozenset(VolumeType):
        return unsupported_type_refusal(volume)
    # The instance first: if it is the bottleneck, no type of volume helps.
    if instance and (refusal := _instance_bottleneck_refusal(volume, demand, instance)):
        return refusal
    inputs = _SizingInput(
        volume=volume,
        demand=demand,
        override=override,
        instance=instance,
        headroom_pct=headroom_pct,
        exact=exact,
    )
    unavailable = unavailable or {}
    # Every type is computed, not only the chosen one, because the output shows the alternatives.
    candidates: dict[str, Candidate | TargetRefusal] = {
        kind: _make_candidate(kind, inputs, prices) for kind in TYPE_LIMITS if kind not in unavailable
    }
    unavailable_types = [kind for kind in unavailable if kind in TYPE_LIMITS]
    next_step, command = suggest_alternative(candidates, volume, prices) if unavailable_types else ("", None)
    candidates |= {
        kind: TargetRefusal(
            code=TargetRefusalCode.TYPE_NOT_AVAILABLE,
            reason=unavailable[kind],
            next_step=next_step,
            command=command,
        )
        for kind in unavailable_types
    }
    chosen = candidates[override.volume_type or VolumeType.GP3]
    if isinstance(chosen, TargetRefusal) and not exact:
        chosen = _redirect_to_gp3(chosen, candidates[VolumeType.GP3])
    if isinstance(chosen, TargetRefusal):
        return chosen
    return _build_target(chosen, candidates, volume, prices)


def suggest_alternative(
    candidates: Mapping[str, Candidate | TargetRefusal], volume: Volume, prices: PriceTable
) -> tuple[str, str | None]:
    """What to do if a type does not exist in the volume's zone, and the command for it.

    It is the first of ``candidates`` that is not a refusal: gp3, io1 (which exists everywhere) or io2.
    """
    helpful_candidates = [candidate for candidate in candidates.values() if isinstance(candidate, Candidate)]
    if not helpful_candidates:
        return "no available type helps at its size: reduce the load", None
    best = helpful_candidates[0]
    current_usd = usd_per_month(configuration_of(volume), volume.size_gib, prices)
    command = f"burstctl flip {volume.volume_id} --to {best.configuration.volume_type}"
    next_step = (
        f"{best.configuration} costs {format_usd(best.usd_per_month)} a month instead of"
        f" {format_usd(current_usd)}"
        f" ({prices.region} list prices): {command}"
    )
    return next_step, command


def return_decision(target: Target, return_mode: ReturnMode) -> ReturnDecision:
    """Decide whether the volume stays on its target when the demand is calm again."""
    kind = target.configuration.volume_type
    prices = (
        f"{format_usd(target.price.after_usd_per_month)} a month, gp2 {format_usd(target.gp2_usd_per_month)}"
    )
    match return_mode:
        case ReturnMode.ALWAYS:
            return ReturnDecision(
                is_permanent=False, reason=f"returns to gp2 (return: always); {kind} costs {prices}"
            )
        case ReturnMode.NEVER:
            return ReturnDecision(is_permanent=True, reason=f"stays (return: never); {kind} costs {prices}")
        case ReturnMode.AUTO if kind == VolumeType.GP3 and target.costs_no_more_than_gp2:
            return ReturnDecision(is_permanent=True, reason=f"stays: gp3 costs no more, {prices}")
        case ReturnMode.AUTO:
            return ReturnDecision(
                is_permanent=False, reason=f"returns to gp2 when calm: {kind} costs {prices}"
            )


def configuration_of(volume: Volume) -> Configuration:
    """The volume's present configuration.

    Raises:
        ValueError: the volume is neither gp2, gp3, io1 nor io2.
    """
    return as_configuration(VolumeType(volume.volume_type), volume.provisioned_iops, volume.throughput_mib_s)


def as_configuration(kind: VolumeType, iops: int | None, throughput_mib_s: int | None) -> Configuration:
    """What ModifyVolume would be given; a number that AWS did not send is read as the minimum of the type."""
    return Configuration(
        volume_type=kind,
        iops=None if kind is VolumeType.GP2 else iops or TYPE_LIMITS[kind].min_iops,
        throughput_mib_s=throughput_mib_s or GP3_MIN_MIB_S if kind is VolumeType.GP3 else None,
    )


def reachable_mib_s(configuration: Configuration, size_gib: int) -> float:
    """The highest throughput with large operations, in MiB/s.

    io1 moves 256 KiB with each operation up to 500 MiB/s, and 16 KiB above that: 2,000 IOPS reach 500, and
    64,000 IOPS reach 1,000. io2 has 0.256 MiB/s for each IOPS, at most 4,000.
    Source: the EBS user guide, "Provisioned IOPS SSD volumes".
    """
    iops = configuration.iops or 0
    match configuration.volume_type:
        case VolumeType.GP2:
            return gp2_throughput_mib_s(size_gib)
        case VolumeType.GP3:
            return configuration.throughput_mib_s or 0
        case VolumeType.IO1:
            return min(iops / IOPS_PER_MIB_S, max(IO1_LARGE_OPERATION_MAX_MIB_S, iops / 64))
        case VolumeType.IO2:
            return min(iops * 0.256, 4_000)


def _instance_bottleneck_refusal(
    volume: Volume, demand: Demand, instance: InstanceLimits
) -> TargetRefusal | None:
    """Why the instance is the bottleneck, so that a faster volume would cost money and not help.

    The instance's limits are compared with what the volume sustains *without* credits: if they allow more
    than that, a flip helps. Throughput is compared at the observed size of operations, and not at all if none
    was observed. With a bucket that is nearly empty, a flip helps as far as the volumes together serve less
    than the instance sustains. If their load is not known, none is made.
    """
    current = configuration_of(volume)
    iops = current.iops or baseline_iops(volume.size_gib)
    buckets = (
        ("EBSIOBalance%", instance.io_balance_pct, instance.used_iops, instance.baseline_iops, "IOPS"),
        (
            "EBSByteBalance%",
            instance.byte_balance_pct,
            instance.used_mib_s,
            instance.baseline_throughput_mib_s,
            "MiB/s",
        ),
    )
    bottlenecks = [
        f"its {bucket} is at {pct:.3g} %, which {'' if pct <= EMPTY_PCT else 'soon '}limits all its volumes"
        f" together to {baseline:,.6g} {unit}, and what they serve now is"
        f" {'not known' if used is None else f'{used:,.0f}'}"
        for bucket, pct, used, baseline, unit in buckets
        if pct is not None
        and pct <= NEARLY_EMPTY_PCT
        and (used is None or used >= THROTTLED_SHARE * baseline)
    ]
    if instance.max_iops <= iops:
        bottlenecks.append(f"it allows {instance.max_iops:,} IOPS, and the volume sustains {iops:,}")
    if demand.peak_iops and demand.peak_throughput_mib_s:
        operation_mib = demand.peak_throughput_mib_s / demand.peak_iops
        mib_s = min(reachable_mib_s(current, volume.size_gib), iops * operation_mib)
        if instance.max_throughput_mib_s <= mib_s:
            bottlenecks.append(
                f"it allows {instance.max_throughput_mib_s:g} MiB/s, and the volume sustains {mib_s:.4g} at"
                f" the {operation_mib * 1024:.0f} KiB of an average operation"
            )
    if not bottlenecks:
        return None
    return TargetRefusal(
        code=TargetRefusalCode.INSTANCE_IS_BOTTLENECK,
        reason=f"instance {volume.instance_id}, not the volume, is the bottleneck: {'; '.join(bottlenecks)}",
        next_step="use a larger instance type, or wait for its bucket to refill",
    )


def _redirect_to_gp3(refusal: TargetRefusal, gp3: Candidate | TargetRefusal) -> Candidate | TargetRefusal:
    if isinstance(gp3, TargetRefusal):
        return gp3
    return replace(gp3, reasons=(f"Redirected to gp3: {refusal.reason}.", *gp3.reasons))


def _build_target(
    chosen: Candidate, candidates: Mapping[str, Candidate | TargetRefusal], volume: Volume, prices: PriceTable
) -> Target | TargetRefusal:
    """The chosen candidate, beside what the volume is and costs now."""
    current = configuration_of(volume)
    if chosen.configuration == current:
        return TargetRefusal(
            code=TargetRefusalCode.NO_CHANGE_NEEDED,
            reason=(
                f"{volume.volume_id} is {current} already, and requesting the same may use up one of the four"
                " modifications AWS allows in 24 h"
            ),
            next_step="leave it, or request other numbers",
        )
    unchanged = Candidate(
        configuration=current, usd_per_month=usd_per_month(current, volume.size_gib, prices)
    )
    gp2 = Configuration(volume_type=VolumeType.GP2)
    return Target(
        configuration=chosen.configuration,
        reasons=chosen.reasons,
        price=PriceChange(
            before_usd_per_month=unchanged.usd_per_month, after_usd_per_month=chosen.usd_per_month
        ),
        gp2_usd_per_month=usd_per_month(gp2, volume.size_gib, prices),
        alternatives={**candidates, "stay": unchanged},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SizingInput:
    """Everything that the numbers of a candidate depend on."""

    volume: Volume
    demand: Demand
    override: TargetOverride
    instance: InstanceLimits | None
    headroom_pct: float
    exact: bool

    @property
    def current_max_iops(self) -> int:
        """The most that it serves now: the burst of a gp2, or its baseline if that is higher."""
        return configuration_of(self.volume).iops or max(BURST_IOPS, baseline_iops(self.volume.size_gib))

    @property
    def current_mib_s(self) -> float:
        return reachable_mib_s(configuration_of(self.volume), self.volume.size_gib)

    @property
    def required_mib_s(self) -> int:
        """The throughput that it has, or more if more was observed."""
        return ceil(max(self.current_mib_s, self.demand.peak_throughput_mib_s or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class _SizedValue:
    """A number that is being determined, and its reasons; only AWS's limits change one that ``is_exact``."""

    value: int
    unit: str
    reasons: tuple[str, ...]
    is_exact: bool = False

    @classmethod
    def from_request(cls, value: int, unit: str, *, is_exact: bool) -> "_SizedValue":
        return cls(value=value, unit=unit, reasons=(f"{value:,} {unit} as requested.",), is_exact=is_exact)

    def require(self, minimum: int, reason: str) -> "_SizedValue":
        if not self.is_exact or self.value >= minimum:
            return self.at_least(minimum, reason)
        return self._with_reason(self.value, f"are fewer than {minimum:,}", reason)

    def at_least(self, minimum: int, reason: str) -> "_SizedValue":
        return self if self.value >= minimum else self._with_reason(minimum, f"become {minimum:,}", reason)

    def at_most(self, maximum: int, reason: str) -> "_SizedValue":
        return self if self.value <= maximum else self._with_reason(maximum, f"become {maximum:,}", reason)

    def _with_reason(self, value: int, change: str, detail: str) -> "_SizedValue":
        reason = f"{self.value:,} {self.unit} {change}: {detail}."
        return replace(self, value=value, reasons=(*self.reasons, reason))


def _make_candidate(kind: VolumeType, inputs: _SizingInput, prices: PriceTable) -> Candidate | TargetRefusal:
    if refusal := _size_refusal(kind, inputs.volume.size_gib):
        return refusal
    # IOPS first: the throughput of every type but gp2 is limited by them.
    iops = _size_iops(kind, inputs)
    throughput = _size_throughput(kind, inputs, iops.value)
    for sized, requested in ((iops, inputs.override.iops), (throughput, inputs.override.throughput_mib_s)):
        if inputs.exact and requested is not None and sized.value != requested:
            return TargetRefusal(
                code=TargetRefusalCode.OVERRIDE_OUT_OF_RANGE,
                reason=f"requested {requested:,} {sized.unit}, but {sized.reasons[-1].removesuffix('.')}",
                next_step=f"ask for {sized.value:,}, or leave it out",
            )
    configuration = Configuration(
        volume_type=kind,
        iops=iops.value,
        throughput_mib_s=throughput.value if kind is VolumeType.GP3 else None,
    )
    return Candidate(
        configuration=configuration,
        usd_per_month=usd_per_month(configuration, inputs.volume.size_gib, prices),
        reasons=iops.reasons + throughput.reasons,
    )


def _size_refusal(kind: VolumeType, size_gib: int) -> TargetRefusal | None:
    limits = TYPE_LIMITS[kind]
    if not limits.min_gib <= size_gib <= limits.max_gib:
        return TargetRefusal(
            code=TargetRefusalCode.SIZE_OUT_OF_RANGE,
            reason=f"{kind} takes {limits.min_gib:,} to {limits.max_gib:,} GiB, not {size_gib:,}",
            next_step="take gp3" if size_gib < limits.min_gib else "leave it as it is",
        )
    if (max_iops := limits.max_iops_at(size_gib)) >= BURST_IOPS:
        return None
    return TargetRefusal(
        code=TargetRefusalCode.SLOWER_THAN_BURST,
        reason=f"{kind} allows {limits.iops_per_gib} IOPS per GiB, {limits.iops_per_gib} x {size_gib} ="
        f" {max_iops:,}, fewer than the {BURST_IOPS:,} of a gp2's burst",
        next_step="take gp3 or io2",
    )


def _size_iops(kind: VolumeType, inputs: _SizingInput) -> _SizedValue:
    limits, size_gib, requested = TYPE_LIMITS[kind], inputs.volume.size_gib, inputs.override.iops
    floors = _min_iops_reasons(kind, inputs)
    if requested is not None:
        sized = _SizedValue.from_request(requested, "IOPS", is_exact=inputs.exact)
    else:
        sized = _iops_for_demand(kind, inputs)
        # More than the instance allows in all would cost money and not be served.
        if inputs.instance:
            useful = max(inputs.instance.max_iops, *(minimum for minimum, _ in floors))
            sized = sized.at_most(useful, f"the instance allows {inputs.instance.max_iops:,} in all")
    for minimum, reason in floors:
        sized = sized.require(minimum, reason)
    return sized.at_least(limits.min_iops, f"the minimum of {kind}").at_most(
        limits.max_iops_at(size_gib),
        f"{kind} allows {limits.iops_per_gib:,} per GiB, here {size_gib:,}, within {limits.min_iops:,} to"
        f" {limits.max_iops:,}",
    )


def _iops_for_demand(kind: VolumeType, inputs: _SizingInput) -> _SizedValue:
    peak, best = inputs.demand.peak_iops, inputs.current_max_iops
    value, headroom = (
        ceil((peak or 0) * (100 + inputs.headroom_pct) / 100),
        f"{inputs.headroom_pct:g} % headroom",
    )
    if peak is None:
        value, reason = best, "its current maximum; its demand was not measured"
    elif (
        inputs.demand.is_throttled
        and value > best
        and (kind is not VolumeType.GP3 or peak >= THROTTLED_SHARE * best)
    ):
        held_back = (
            f"throttled at {peak:,.0f}, so its demand is at least that"
            if round(peak) >= best
            else f"it served {peak:,.0f} of {best:,} at most, so more may be wanted"
        )
        reason = f"{held_back}; {headroom}"
    elif inputs.demand.is_throttled:
        value, reason = best, f"its current maximum; throttled at {peak:,.0f}, its demand is unknown"
    elif kind is VolumeType.GP3:
        value, reason = best, f"its current maximum; its demand of {peak:,.0f} was not throttled"
    else:
        reason = f"its demand of {peak:,.0f} was not throttled; {headroom}"
    return _SizedValue(value=value, unit="IOPS", reasons=(f"{value:,} IOPS: {reason}.",))


def _min_iops_reasons(kind: VolumeType, inputs: _SizingInput) -> tuple[tuple[int, str], ...]:
    """The lower bounds of the IOPS with their reasons: what it serves now, and what its throughput needs."""
    if kind is VolumeType.GP3:
        slowest = (inputs.current_max_iops, "its current maximum")
        mib_s = min(GP3_MAX_MIB_S, max(inputs.required_mib_s, inputs.override.throughput_mib_s or 0))
    else:
        slowest = (min(BURST_IOPS, ceil(inputs.demand.peak_iops or 0)), "the highest number that was served")
        if inputs.demand.is_future:
            slowest = (inputs.current_max_iops, "its current maximum; the future demand is unknown")
        mib_s = min(IO1_LARGE_OPERATION_MAX_MIB_S, inputs.required_mib_s)
    return slowest, (mib_s * IOPS_PER_MIB_S, f"{mib_s:,} MiB/s take that many, at 256 KiB an operation")


def _size_throughput(kind: VolumeType, inputs: _SizingInput, iops: int) -> _SizedValue:
    """The throughput that gp3 is given; for io1 and io2 the one that follows from their IOPS."""
    requested, needed = inputs.override.throughput_mib_s, inputs.required_mib_s
    if kind is not VolumeType.GP3:
        derived_mib_s = int(
            reachable_mib_s(Configuration(volume_type=kind, iops=iops), inputs.volume.size_gib)
        )
        reason = f"{derived_mib_s:,} MiB/s follow from the IOPS of {kind} and cannot be set."
        return _SizedValue(value=derived_mib_s, unit="MiB/s", reasons=(reason,))
    detail = (
        "its current throughput"
        if needed <= ceil(inputs.current_mib_s)
        else "measured, and more than its maximum"
    )
    if requested is None:
        sized = _SizedValue(value=needed, unit="MiB/s", reasons=(f"{needed:,} MiB/s: {detail}.",))
    else:
        sized = _SizedValue.from_request(requested, "MiB/s", is_exact=inputs.exact).require(needed, detail)
    maximum = min(GP3_MAX_MIB_S, iops // IOPS_PER_MIB_S)
    detail = f"gp3 allows 1 for every {IOPS_PER_MIB_S} of {iops:,} IOPS, and {GP3_MAX_MIB_S:,} at most"
    return sized.at_least(GP3_MIN_MIB_S, "the minimum of gp3").at_most(maximum, detail)

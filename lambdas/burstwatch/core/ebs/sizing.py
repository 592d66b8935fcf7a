"""What to change a volume to, and why: the configuration, its price and the alternatives.

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
from math import ceil

from burstwatch.core.ebs.demand import THROTTLED_SHARE, Demand
from burstwatch.core.ebs.instance_bottleneck import (
    LARGER_INSTANCE,
    InstanceLimits,
    describe_bottlenecks,
    ssd_bottlenecks,
)
from burstwatch.core.ebs.pricing import Configuration, PriceChange, PriceTable, VolumeType, usd_per_month
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, baseline_iops
from burstwatch.core.ebs.volume_types import (
    GP3_MAX_MIB_S,
    GP3_MIN_MIB_S,
    IO1_LARGE_OPERATION_MAX_MIB_S,
    IOPS_PER_MIB_S,
    TYPE_LIMITS,
    configuration_of,
    reachable_mib_s,
)
from burstwatch.core.text import format_usd


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
    if instance and (bottlenecks := ssd_bottlenecks(volume, demand, instance)):
        return TargetRefusal(
            code=TargetRefusalCode.INSTANCE_IS_BOTTLENECK,
            reason=describe_bottlenecks(volume, bottlenecks),
            next_step=LARGER_INSTANCE,
        )
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

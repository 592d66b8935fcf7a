"""Permanent rightsizing of a volume: the cheapest configuration that serves the observed load.

A flip must be fast at once and never slower than the burst (``burstwatch.core.ebs.sizing``). Advice has days
of history and applies for the rest of the volume's life. It chooses what was served at a percentile, with
headroom, and no more than the volume has now. While a volume was throttled, its demand is unknown: at its
ceiling it gets additional headroom, and at the baseline of an empty bucket the best that a gp2 serves.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil
from typing import Final

from burstctl.advise.usage import Peak, Usage
from burstwatch.core.buckets.units import format_limit
from burstwatch.core.ebs.demand import THROTTLED_SHARE, Demand
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.pricing import Configuration, PriceChange, PriceTable, VolumeType, usd_per_month
from burstwatch.core.ebs.sizing import Target, TargetOverride, choose_target
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, baseline_iops, can_burst, gp2_throughput_mib_s
from burstwatch.core.ebs.volume_types import (
    GP3_MAX_MIB_S,
    GP3_MIN_MIB_S,
    IO1_LARGE_OPERATION_MAX_MIB_S,
    IOPS_PER_MIB_S,
    TYPE_LIMITS,
    configuration_of,
    reachable_mib_s,
)
from burstwatch.core.text import format_duration, format_instant

STAY: Final = "stay"
IDLE_BALANCE_PCT: Final = 99.0
"""A volume whose balance never fell below this does not burst."""

_PREFERENCE: Final = (STAY, "gp3", "flip", "io2", "io1")
"""Of equal prices: no change, then the type that has most for it."""

_ROUNDING_FACTOR: Final = 1.02
"""A volume may appear to exceed its ceiling by this factor, because operations fall into the next minute."""

_MIN_WEEK_DAYS: Final = 6.9  # a week, less the minutes that CloudWatch sometimes lacks.
_MIN_FORTNIGHT_DAYS: Final = 13.5  # Two weeks, likewise; CloudWatch keeps minutes for only 15 days.
_DEEP_DRAIN_PCT: Final = 50.0  # A load that grows by as much again would empty the bucket.
_IO1_IOPS_PER_MIB_S: Final = 64
"""16 KiB per IOPS above 500 MiB/s; Source: EBS user guide, Provisioned IOPS SSD."""

_IO2_MIB_S_PER_IOPS: Final = 0.256  # Source: EBS user guide, Provisioned IOPS SSD


class AdviceVerdict(StrEnum):
    """What to do with a volume; ``undecided``: too little was seen of it, and moving it would cost more."""

    MOVE = "move"
    STAY = "stay"
    UNDECIDED = "undecided"


class Confidence(StrEnum):
    """How much of the volume's life was seen: two weeks, one, less, nothing."""

    GOOD = "good"
    FAIR = "fair"
    LOW = "low"
    NONE = "none"


_INSUFFICIENT: Final = (Confidence.LOW, Confidence.NONE)


class DrainRisk(StrEnum):
    """The risk with gp2: the bucket was empty, came close to empty, or did not."""

    EMPTIED = "ran_dry"
    DRAINS = "drains"
    NONE = "none"

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(DrainRisk).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What a configuration must serve at least, and what it should serve if its type allows that.

    If it ``is_held_by_instance``, it should serve more, but the instance sustains no more than it has now.
    """

    min_iops: float
    min_mib_s: float
    iops: int
    mib_s: int
    is_throttled: bool
    reasons: tuple[str, ...]
    is_held_by_instance: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A configuration and its price; ``shortfall`` is why it is not sufficient, None if it is."""

    configuration: Configuration
    usd_per_month: float
    shortfall: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceInput:
    """The input of the advice on a volume; ``instance`` if its limits are known.

    ``flipped_from`` is the configuration before the flip; ``is_critical`` requires ``critical_type``. Types
    that are ``unavailable`` at the volume's location are not options. A command that a reason names has the
    ``context_options``.
    """

    volume: Volume
    usage: Usage | None
    prices: PriceTable
    headroom_pct: float = 25.0
    instance: InstanceLimits | None = None
    is_critical: bool = False
    critical_type: VolumeType = VolumeType.GP3
    flipped_from: Configuration | None = None
    unavailable: Mapping[VolumeType, str] = field(default_factory=dict)
    context_options: Sequence[str] = ()

    @property
    def current(self) -> Configuration:
        return configuration_of(self.volume)

    @property
    def max_iops(self) -> int:
        """The most that it serves now; for a gp2 the burst, or the baseline if that is higher."""
        return self.current.iops or max(BURST_IOPS, baseline_iops(self.volume.size_gib))

    @property
    def max_mib_s(self) -> float:
        return reachable_mib_s(self.current, self.volume.size_gib)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The recommended type of a volume, the reasons, the cost and the risks.

    ``options`` has gp3, io1, io2, ``stay`` and the target of a flip (``flip``). It lacks a type that the
    size or the place of the volume rules out, and gp3 if several instances share the volume.
    """

    inputs: AdviceInput
    requirement: Requirement
    verdict: AdviceVerdict
    target: Configuration
    price: PriceChange
    options: Mapping[str, Option]
    drain_risk: DrainRisk
    confidence: Confidence
    reasons: tuple[str, ...]
    risks: tuple[str, ...]

    @property
    def volume(self) -> Volume:
        return self.inputs.volume

    @property
    def is_off_credits(self) -> bool:
        """Whether the volume, so configured, has no credits to lose or never came close to losing them."""
        if self.target.volume_type is not VolumeType.GP2 or not can_burst(self.volume):
            return True
        return self.verdict is AdviceVerdict.STAY and self.options[STAY].shortfall is None

    @property
    def differs_from_alert(self) -> bool:
        """Whether an alert about this gp2 volume recommends another gp3 configuration than this advice."""
        return _alert_configuration(self.inputs, self.options, self.target) is not None

    @property
    def usd_more_on_io2(self) -> float | None:
        """The additional cost of io2 for a critical volume, dollars a month; None if io2 is not an option."""
        io2 = self.options.get(VolumeType.IO2)
        is_not_io2 = self.target.volume_type is not VolumeType.IO2
        if not self.inputs.is_critical or io2 is None or io2.shortfall is not None or not is_not_io2:
            return None
        return io2.usd_per_month - self.price.after_usd_per_month

    @property
    def urgency(self) -> tuple[int, float, str]:
        """Sorts by danger first, then by dollars either way."""
        return self.drain_risk.rank, -abs(self.price.difference_usd_per_month), self.volume.volume_id


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAdvice:
    """The sum of the advice: what all cost now and then, and whether anything is left to watch.

    ``critical`` and ``not_critical`` split ``price``, by the tag. ``usd_more_on_io2`` is what the critical
    volumes for which io2 is an option cost more a month on it.
    """

    count: int
    by_target: Mapping[str, int]
    undecided: int
    price: PriceChange
    needs_no_watch: bool
    critical_count: int
    critical: PriceChange
    not_critical: PriceChange
    usd_more_on_io2: float


def is_advisable(volume: Volume) -> bool:
    """Whether there is advice for volumes of this type."""
    return volume.volume_type in frozenset(VolumeType)


def advise(inputs: AdviceInput) -> Advice:
    """The cheapest configuration that serves what the volume needs; of equal prices no change.

    A critical volume gets its type if its size allows that, so it never stays on burst credits to save money;
    io2, which is more durable, is also an option. If no option is sufficient, the volume stays as it is.
    """
    requirement = derive_requirement(inputs)
    options = _build_options(inputs, requirement)
    choice = _choose_option(inputs, options)
    is_unchanged = options[choice].configuration == inputs.current
    confidence = confidence_of(inputs.usage)
    is_unknown = is_unchanged and can_burst(inputs.volume) and confidence in _INSUFFICIENT
    verdict = (
        AdviceVerdict.UNDECIDED if is_unknown else AdviceVerdict.STAY if is_unchanged else AdviceVerdict.MOVE
    )
    price = PriceChange(
        before_usd_per_month=options[STAY].usd_per_month,
        after_usd_per_month=options[choice].usd_per_month,
    )
    return Advice(
        inputs=inputs,
        requirement=requirement,
        verdict=verdict,
        target=options[choice].configuration,
        price=price,
        options=options,
        drain_risk=_drain_risk(inputs),
        confidence=confidence,
        reasons=_reasons(inputs, requirement, options, choice),
        risks=_risks(inputs, requirement, options[choice].configuration),
    )


def summarise(advice: Sequence[Advice]) -> FleetAdvice:
    """The total effect of following all advice."""
    by_target: dict[str, int] = {}
    for item in advice:
        name = str(item.target.volume_type) if item.verdict is AdviceVerdict.MOVE else STAY
        by_target[name] = by_target.get(name, 0) + 1
    return FleetAdvice(
        count=len(advice),
        by_target=by_target,
        undecided=sum(item.verdict is AdviceVerdict.UNDECIDED for item in advice),
        price=_sum_prices(advice),
        needs_no_watch=bool(advice) and all(item.is_off_credits for item in advice),
        critical_count=sum(item.inputs.is_critical for item in advice),
        critical=_sum_prices([item for item in advice if item.inputs.is_critical]),
        not_critical=_sum_prices([item for item in advice if not item.inputs.is_critical]),
        usd_more_on_io2=round(sum(item.usd_more_on_io2 or 0.0 for item in advice), 6),
    )


def _sum_prices(advice: Sequence[Advice]) -> PriceChange:
    return PriceChange(
        before_usd_per_month=round(sum(item.price.before_usd_per_month for item in advice), 6),
        after_usd_per_month=round(sum(item.price.after_usd_per_month for item in advice), 6),
    )


def confidence_of(usage: Usage | None) -> Confidence:
    """How far the history can be trusted: most loads have a weekly rhythm, and one week may be odd."""
    if usage is None or usage.iops is None:
        return Confidence.NONE
    if usage.days < _MIN_WEEK_DAYS:
        return Confidence.LOW
    return Confidence.FAIR if usage.days < _MIN_FORTNIGHT_DAYS else Confidence.GOOD


def derive_requirement(inputs: AdviceInput) -> Requirement:
    """What the volume needs, by what it was seen to serve and by what held it back."""
    min_iops, iops, iops_throttled, iops_reason = _required_iops(inputs)
    min_mib_s, mib_s, mib_s_throttled, mib_s_reason = _required_mib_s(inputs)
    is_paid = inputs.current.volume_type is not VolumeType.GP2
    is_held_by_instance = False
    if (instance := inputs.instance) is not None:
        # What the instance serves only while it has credits is not worth paying for, beyond what is there.
        lasting_iops = min(instance.max_iops, max(instance.baseline_iops, inputs.max_iops))
        lasting_mib_s = min(
            instance.max_throughput_mib_s, max(instance.baseline_throughput_mib_s, inputs.max_mib_s)
        )
        usable_iops, usable_mib_s = max(lasting_iops, ceil(min_iops)), ceil(max(lasting_mib_s, min_mib_s))
        if usable_iops < iops:
            is_held_by_instance = lasting_iops < instance.max_iops
            limit = _describe_instance_limit(instance.baseline_iops, "IOPS", is_lasting=is_held_by_instance)
            iops, iops_reason = usable_iops, f"{iops_reason}; {limit}"
            iops_throttled = iops_throttled and not (is_held_by_instance and is_paid)
        if usable_mib_s < mib_s:
            is_held = lasting_mib_s < instance.max_throughput_mib_s
            limit = _describe_instance_limit(instance.baseline_throughput_mib_s, "MiB/s", is_lasting=is_held)
            mib_s, mib_s_reason = usable_mib_s, f"{mib_s_reason}; {limit}"
            mib_s_throttled = mib_s_throttled and not (is_held and is_paid)
            is_held_by_instance |= is_held
    return Requirement(
        min_iops=min_iops,
        min_mib_s=min_mib_s,
        iops=iops,
        mib_s=mib_s,
        is_throttled=iops_throttled or mib_s_throttled,
        reasons=(f"{iops:,} IOPS: {iops_reason}.", f"{mib_s:,} MiB/s: {mib_s_reason}."),
        is_held_by_instance=is_held_by_instance,
    )


def _describe_instance_limit(baseline: float, unit: str, *, is_lasting: bool) -> str:
    if not is_lasting:
        return "the instance allows no more"
    return f"its instance sustains only {format_limit(baseline, unit)}, so more would not help for long"


def _required_iops(inputs: AdviceInput) -> tuple[float, int, bool, str]:
    """The minimum, the target, whether the volume was throttled, and the reason."""
    usage, max_iops = inputs.usage, inputs.max_iops
    if usage is None or usage.iops is None:
        return max_iops, max_iops, False, "its present maximum; its operations are not known"
    served = _clamp_rounding(usage.iops.at_percentile, max_iops)
    if usage.is_throttled and served < THROTTLED_SHARE * max_iops:
        minimum = max(served, BURST_IOPS)
        reason = (
            f"throttled to its baseline for {format_duration(usage.throttled_s)}, so its demand is unknown"
        )
        return minimum, max(ceil(minimum), _with_headroom(served, inputs)), True, reason
    return _size_with_headroom(inputs, usage, served, max_iops)


def _required_mib_s(inputs: AdviceInput) -> tuple[float, int, bool, str]:
    usage, max_mib_s = inputs.usage, inputs.max_mib_s
    if usage is None or usage.mib_s is None:
        return max_mib_s, ceil(max_mib_s), False, "what it has; its throughput is not known"
    served = _clamp_rounding(usage.mib_s.at_percentile, max_mib_s)
    if usage.is_throttled and served < THROTTLED_SHARE * max_mib_s:
        assumed, reason = _assumed_mib_s(inputs, usage)
        return served, max(assumed, _with_headroom(served, inputs)), True, reason
    return _size_with_headroom(inputs, usage, served, max_mib_s)


def _assumed_mib_s(inputs: AdviceInput, usage: Usage) -> tuple[int, str]:
    """The throughput that the volume may have needed while it was throttled; at most what a gp2 has."""
    max_mib_s, operation_mib = gp2_throughput_mib_s(inputs.volume.size_gib), usage.throttled_operation_mib
    if operation_mib is None:
        return max_mib_s, "what a gp2 has; its demand is unknown"
    kib = f"{operation_mib * 1024:,.0f} KiB"
    reason = f"{BURST_IOPS:,} operations of {kib}, measured while it was throttled to its baseline"
    return min(max_mib_s, _with_headroom(BURST_IOPS * operation_mib, inputs)), reason


def _size_with_headroom(
    inputs: AdviceInput, usage: Usage, served: float, available: float
) -> tuple[float, int, bool, str]:
    """With headroom; more than the volume has only if it was throttled, less only if enough data was seen."""
    with_headroom, served_text = (
        _with_headroom(served, inputs),
        f"{served:,.0f} in {_describe_percentile(usage)}",
    )
    if served >= THROTTLED_SHARE * available:
        reason = f"{served_text}, held back by its {available:,.0f}; {_describe_headroom(inputs)}"
        return served, max(ceil(available), with_headroom), True, reason
    if confidence_of(usage) in _INSUFFICIENT:
        reason = "what it has; less than a week was seen, too little to give it less"
        return served, ceil(available), False, reason
    if with_headroom >= available:
        return (
            served,
            ceil(available),
            False,
            f"{served_text}, and no more than the {available:,.0f} that it has",
        )
    return served, with_headroom, False, f"{served_text}; {_describe_headroom(inputs)}"


def _clamp_rounding(served: float, ceiling: float) -> float:
    return ceiling if ceiling < served <= _ROUNDING_FACTOR * ceiling else served


def _with_headroom(served: float, inputs: AdviceInput) -> int:
    return ceil(round(served * (100 + inputs.headroom_pct) / 100, 6))


def _describe_headroom(inputs: AdviceInput) -> str:
    return f"{inputs.headroom_pct:g} % headroom"


def _describe_percentile(usage: Usage) -> str:
    unit = describe_period(usage.period_s)
    return f"its busiest {unit}" if usage.percentile == 100 else f"{usage.percentile:g} % of all {unit}s"  # noqa: PLR2004


def describe_period(period_s: int) -> str:
    """``minute``, or ``5 minute`` for the coarser kind."""
    return "minute" if period_s == 60 else f"{period_s // 60}-minute mean"  # noqa: PLR2004 - seconds


def _build_options(inputs: AdviceInput, requirement: Requirement) -> dict[str, Option]:
    size_gib, prices = inputs.volume.size_gib, inputs.prices
    options = {
        STAY: Option(
            configuration=inputs.current,
            usd_per_month=usd_per_month(inputs.current, size_gib, prices),
            shortfall=_stay_shortfall(inputs, requirement),
        )
    }
    volume_types = [volume_type for volume_type in TYPE_LIMITS if volume_type not in inputs.unavailable]
    if inputs.volume.multi_attach_enabled and VolumeType.GP3 in volume_types:
        volume_types.remove(VolumeType.GP3)
    for volume_type in volume_types:
        if (configuration := _cheapest_fit(volume_type, size_gib, requirement)) is not None:
            options[str(volume_type)] = Option(
                configuration=configuration,
                usd_per_month=usd_per_month(configuration, size_gib, prices),
                shortfall=_performance_shortfall(configuration, size_gib, requirement),
            )
    flip_target = choose_target(inputs.volume, Demand(), TargetOverride(volume_type=VolumeType.GP3), prices)
    if isinstance(flip_target, Target) and VolumeType.GP3 in volume_types:
        options["flip"] = Option(
            configuration=flip_target.configuration,
            usd_per_month=flip_target.price.after_usd_per_month,
            shortfall=_performance_shortfall(flip_target.configuration, size_gib, requirement)
            or _headroom_shortfall(flip_target, requirement),
        )
    return options


def _headroom_shortfall(flip_target: Target, requirement: Requirement) -> str | None:
    """A flip's target has no headroom for throttled spans, because a flip does not use days of history."""
    iops, mib_s = flip_target.configuration.iops or 0, flip_target.configuration.throughput_mib_s or 0
    is_tight = requirement.is_throttled and (iops < requirement.iops or mib_s < requirement.mib_s)
    return "it leaves no room for the suppressed demand of the volume" if is_tight else None


def _cheapest_fit(volume_type: VolumeType, size_gib: int, requirement: Requirement) -> Configuration | None:
    """The smallest configuration of a type that meets the requirement; None if the size rules it out."""
    limits = TYPE_LIMITS[volume_type]
    if not limits.min_gib <= size_gib <= limits.max_gib:
        return None
    iops = max(requirement.iops, limits.min_iops, _iops_for_throughput(volume_type, requirement.mib_s))
    iops = min(iops, limits.max_iops_at(size_gib))
    if volume_type is not VolumeType.GP3:
        return Configuration(volume_type=volume_type, iops=iops)
    max_mib_s = min(GP3_MAX_MIB_S, iops // IOPS_PER_MIB_S)
    mib_s = min(max(requirement.mib_s, GP3_MIN_MIB_S), max_mib_s)
    return Configuration(volume_type=volume_type, iops=iops, throughput_mib_s=mib_s)


def _iops_for_throughput(volume_type: VolumeType, mib_s: int) -> int:
    """How many IOPS a throughput takes; see ``reachable_mib_s``."""
    if volume_type is VolumeType.IO2:
        return ceil(round(mib_s / _IO2_MIB_S_PER_IOPS, 6))
    if volume_type is VolumeType.IO1 and mib_s > IO1_LARGE_OPERATION_MAX_MIB_S:
        return mib_s * _IO1_IOPS_PER_MIB_S
    return mib_s * IOPS_PER_MIB_S


def _performance_shortfall(
    configuration: Configuration, size_gib: int, requirement: Requirement
) -> str | None:
    iops, mib_s = configuration.iops or 0, reachable_mib_s(configuration, size_gib)
    if iops < requirement.min_iops:
        return f"it has {iops:,} IOPS at {size_gib:,} GiB, {requirement.min_iops:,.0f} are needed"
    if mib_s < requirement.min_mib_s:
        return f"it moves {mib_s:,.0f} MiB/s at {size_gib:,} GiB, {requirement.min_mib_s:,.0f} are needed"
    return None


def _stay_shortfall(inputs: AdviceInput, requirement: Requirement) -> str | None:
    """Why the volume should not stay as it is; None if it may."""
    if inputs.current.volume_type is VolumeType.GP2 and (
        reason := burst_evidence(inputs.volume, inputs.usage)
    ):
        return reason
    if requirement.is_throttled:
        return "it is already limited"
    if inputs.current.volume_type is not VolumeType.GP2:
        return _performance_shortfall(inputs.current, inputs.volume.size_gib, requirement)
    return None


def burst_evidence(volume: Volume, usage: Usage | None) -> str | None:
    """The evidence that a gp2 volume depends on burst credits; None without evidence."""
    if usage is None or not can_burst(volume):
        return None
    min_balance, baseline = usage.lowest_balance, baseline_iops(volume.size_gib)
    if usage.empty_s:
        return f"it depends on credits: they were exhausted for {format_duration(usage.empty_s)}"
    if min_balance is not None and min_balance.value < IDLE_BALANCE_PCT:
        return f"it depends on credits: its balance fell to {_describe_peak(min_balance, '%')}"
    if usage.iops is not None and usage.iops.busiest.value > baseline:
        return (
            f"it depends on credits: it served {_describe_peak(usage.iops.busiest, 'IOPS')}, and sustains"
            f" {baseline:,}"
        )
    return None


def _choose_option(inputs: AdviceInput, options: Mapping[str, Option]) -> str:
    """The name of the option to take; ``stay`` where none will do."""
    if inputs.is_critical:
        critical_option = options.get(str(inputs.critical_type))
        if critical_option is not None and critical_option.shortfall is None:
            is_current_type = (
                inputs.current.volume_type is inputs.critical_type and options[STAY].shortfall is None
            )
            is_cheaper = options[STAY].usd_per_month <= critical_option.usd_per_month
            return STAY if is_current_type and is_cheaper else str(inputs.critical_type)
    sufficient = [name for name, option in options.items() if option.shortfall is None]
    return min(
        sufficient, key=lambda name: (options[name].usd_per_month, _PREFERENCE.index(name)), default=STAY
    )


def _drain_risk(inputs: AdviceInput) -> DrainRisk:
    usage = inputs.usage
    if usage is None or not can_burst(inputs.volume):
        return DrainRisk.NONE
    if usage.empty_s:
        return DrainRisk.EMPTIED
    min_balance = usage.lowest_balance
    return (
        DrainRisk.DRAINS
        if min_balance is not None and min_balance.value < _DEEP_DRAIN_PCT
        else DrainRisk.NONE
    )


def _alert_configuration(
    inputs: AdviceInput, options: Mapping[str, Option], target: Configuration
) -> Configuration | None:
    """The smallest gp3 that an alert about a gp2 volume recommends; None if the target is the same."""
    flip = options.get("flip")
    is_to_gp3 = inputs.current.volume_type is VolumeType.GP2 and target.volume_type is VolumeType.GP3
    return flip.configuration if is_to_gp3 and flip and flip.configuration != target else None


def _explain_alert_difference(
    alert_configuration: Configuration, target: Configuration, usage: Usage | None
) -> str:
    """An alert must be safe on minutes of history; advice has days of it, so the two may differ."""
    alert_values = f"{alert_configuration.iops:,} IOPS and {alert_configuration.throughput_mib_s:,} MiB/s"
    advised_values = f"{target.iops:,} IOPS and {target.throughput_mib_s:,} MiB/s"
    days = "" if usage is None else f"; {usage.days:.1f} days of history call for {advised_values}"
    return (
        f"An alert requests at least {alert_values}: it sees only the last minutes, so it never proposes a"
        f" gp3 slower than the gp2 at its best{days}."
    )


def _reasons(
    inputs: AdviceInput, requirement: Requirement, options: Mapping[str, Option], choice: str
) -> tuple[str, ...]:
    reasons = list(requirement.reasons)
    shortfall = options[STAY].shortfall
    volume_type = options[choice].configuration.volume_type
    is_unchanged = options[choice].configuration == inputs.current
    if inputs.is_critical and volume_type is inputs.critical_type:
        reasons.insert(0, f"It is tagged critical: {inputs.critical_type} depends on no burst credits.")
    elif inputs.is_critical:
        reasons.insert(
            0, f"It is tagged critical, but {inputs.critical_type} does not fit its size and load."
        )
    if not is_unchanged and shortfall is not None:
        reasons.append(f"{shortfall[0].upper()}{shortfall[1:]}.")
    elif is_unchanged and shortfall is not None:
        reasons.append(f"No type that AWS offers at this size does better, although {shortfall}.")
    elif is_unchanged:
        reasons.append(_why_unchanged(inputs, requirement))
    if (
        alert_configuration := _alert_configuration(inputs, options, options[choice].configuration)
    ) is not None:
        reasons.append(
            _explain_alert_difference(alert_configuration, options[choice].configuration, inputs.usage)
        )
    reasons += [
        f"{volume_type} is left out: {reason}."
        for volume_type, reason in inputs.unavailable.items()
        if volume_type is not inputs.current.volume_type
    ]
    if inputs.flipped_from is not None:
        reasons.append(f"A flip made it so; before it was {inputs.flipped_from}.")
    return tuple(reasons)


def _why_unchanged(inputs: AdviceInput, requirement: Requirement) -> str:
    """Why a volume that lacks nothing stays as it is."""
    if requirement.is_held_by_instance:
        simulate = shlex.join(
            ["burstctl", "simulate", str(inputs.volume.instance_id), *inputs.context_options]
        )
        return f"Change the instance, not the volume: to find the type, run {simulate}."
    if confidence_of(inputs.usage) in _INSUFFICIENT:
        return "It has too little data, and no other type that is as fast costs less."
    if inputs.current.volume_type is VolumeType.GP2:
        return "It never bursts, and no other type that serves this costs less."
    return "Its type is right."


def _risks(inputs: AdviceInput, requirement: Requirement, target: Configuration) -> tuple[str, ...]:
    """What could go wrong, in words; the surest first."""
    risks = [_history_risk(inputs.usage)]
    usage = inputs.usage
    if usage is not None:
        risks += _above_percentile_risks(usage, target, inputs.volume.size_gib)
    if requirement.is_throttled:
        risks.append(
            "Its true demand was higher than measured and is unknown: check again two weeks after the move."
        )
    if target.volume_type is VolumeType.IO2 and (target.iops or 0) < BURST_IOPS:
        risks.append(
            f"Within a minute it may request more than {target.iops:,} IOPS; a gp2 with credits served"
            f" {BURST_IOPS:,}, this one delays the excess."
        )
    if (target.iops or 0) < requirement.iops and target.volume_type is not VolumeType.GP2:
        risks.append(
            f"{target.volume_type} allows no more than {target.iops:,} IOPS at {inputs.volume.size_gib:,}"
            f" GiB; {requirement.iops:,} are needed: a larger volume may have more."
        )
    if (instance := inputs.instance) is not None and instance.max_iops < (target.iops or 0):
        risks.append(f"Its instance allows {instance.max_iops:,} IOPS to all its volumes together.")
    elif instance is not None and instance.baseline_iops < min(requirement.iops, instance.max_iops):
        risks.append(
            f"Its instance sustains {instance.baseline_iops:,} IOPS for all its volumes together, and"
            f" {requirement.iops:,} are needed: while its credits are empty, a faster volume does not help."
        )
    if inputs.volume.managed_by:
        risks.append(f"{inputs.volume.managed_by} manages it: change it there, AWS refuses it here.")
    if inputs.volume.multi_attach_enabled:
        risks.append(
            "Several instances may share it: only io1 and io2 support this, and AWS may refuse a change."
        )
    if usage is not None and usage.is_idle:
        risks.append("It served nothing in all that time: if it is not needed, a snapshot costs less.")
    return tuple(risks)


def _history_risk(usage: Usage | None) -> str:
    if usage is None or usage.iops is None:
        return "It has no data: it is sized for its present maximum speed."
    unit = describe_period(usage.period_s)
    limitation = {
        Confidence.LOW: "less than a week: it may not include a weekly job",
        Confidence.FAIR: "one week may not be typical",
        Confidence.GOOD: "it may not include a quarterly job",
    }[confidence_of(usage)]
    caveat = "" if unit == "minute" else "; peaks of single minutes are hidden in the means"
    return f"{usage.days:.1f} days were seen, by the {unit}: {limitation}{caveat}."


def _above_percentile_risks(usage: Usage, target: Configuration, size_gib: int) -> list[str]:
    """What the percentile leaves out, as far as the target would make it wait."""
    iops = target.iops or max(BURST_IOPS, baseline_iops(size_gib))
    sides = (
        (usage.iops, float(iops), "IOPS"),
        (usage.mib_s, reachable_mib_s(target, size_gib), "MiB/s"),
    )
    return [
        f"{rate.periods_above:,} {describe_period(usage.period_s)}{'' if rate.periods_above == 1 else 's'}"
        f" went beyond the {usage.percentile:g} %, up to {_describe_peak(rate.busiest, unit)}; the target"
        f" serves {capacity:,.0f}."
        for rate, capacity, unit in sides
        if rate is not None and rate.busiest.value > capacity * _ROUNDING_FACTOR
    ]


def _describe_peak(peak: Peak, unit: str) -> str:
    digits = 1 if unit == "%" else 0
    return f"{peak.value:,.{digits}f} {unit} at {format_instant(peak.at_s)}"

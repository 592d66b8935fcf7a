"""What a volume should be for good: the cheapest configuration that serves what it was seen to serve.

A flip must be fast at once and never slower than the burst, whatever comes (``core.target``). Advice has days
of history and the rest of the volume's life: it buys what was served at a percentile, with headroom, and no
more than the volume has. Where the volume was held back nobody saw what it wanted: at its ceiling it gets
headroom on top of that, at the baseline of an empty bucket what a gp2 serves at best.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil
from typing import Final

from burstwatch.core.ebs.pricing import Configuration, PriceChange, PriceTable, VolumeType, usd_per_month
from burstwatch.core.ebs.sizing import (
    AT_CEILING,
    GP3_LEAST_MIB_S,
    GP3_MOST_MIB_S,
    IO1_LARGE_MIB_S,
    IOPS_PER_MIB_S,
    LIMITS,
    Demand,
    InstanceLimits,
    Target,
    Wish,
    choose_target,
    configuration_of,
    reachable_mib_s,
)
from burstwatch.core.ebs.usage import Peak, Usage
from burstwatch.core.ebs.volume import BURST_IOPS, Volume, baseline_iops, gp2_throughput_mib_s
from burstwatch.core.flips.triggers import can_burst
from burstwatch.core.text import format_duration, format_instant

STAY: Final = "stay"
LEAST_IDLE_BALANCE_PCT: Final = 99.0
"""A bucket that was never below this lost nothing worth counting: the volume does not burst."""

_PREFERENCE: Final = (STAY, "gp3", "flip", "io2", "io1")
"""Of equal prices: no change, then the type that has most for it."""

_EDGE: Final = 1.02
"""So much above its ceiling a volume seems to serve where operations fall into the next minute."""

_WEEK_DAYS: Final = 6.9
_FORTNIGHT_DAYS: Final = 13.5
_DEEP_PCT: Final = 50.0
_IO1_SMALL_PER_MIB_S: Final = 64
_IO2_MIB_S_PER_IOPS: Final = 0.256


class Verdict(StrEnum):
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


_TOO_LITTLE: Final = (Confidence.LOW, Confidence.NONE)


class Danger(StrEnum):
    """What gp2 does to the volume: it ran dry, it comes near, it need not fear."""

    RAN_DRY = "ran_dry"
    DRAINS = "drains"
    NONE = "none"

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Danger).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a configuration must serve at least, and what is wanted of it where its type allows that."""

    least_iops: float
    least_mib_s: float
    iops: int
    mib_s: int
    is_held_back: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A configuration and its price; ``short`` says why it will not do, None where it will."""

    configuration: Configuration
    usd_per_month: float
    short: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that advice on a volume follows from; ``instance`` where its limits are known.

    ``flipped_from`` is what it was before its flip; ``is_critical`` asks for ``critical_type``. Types
    that are ``unavailable`` where it is are no options.
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

    @property
    def now(self) -> Configuration:
        return configuration_of(self.volume)

    @property
    def best_iops(self) -> int:
        """The most it serves as it is: of a gp2 the burst, or the baseline where that is more."""
        return self.now.iops or max(BURST_IOPS, baseline_iops(self.volume.size_gib))

    @property
    def has_mib_s(self) -> float:
        return reachable_mib_s(self.now, self.volume.size_gib)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to make of a volume, why, what it costs, and what could go wrong.

    ``options`` has gp3, io1, io2, ``stay`` and what a flip would make of it (``flip``) side by side; a type
    that its size or its place rules out is missing, and gp3 where several instances share the volume.
    """

    case: Case
    need: Need
    verdict: Verdict
    target: Configuration
    price: PriceChange
    options: Mapping[str, Option]
    danger: Danger
    confidence: Confidence
    reasons: tuple[str, ...]
    risks: tuple[str, ...]

    @property
    def volume(self) -> Volume:
        return self.case.volume

    @property
    def is_off_credits(self) -> bool:
        """Whether the volume, once it is so, cannot run dry or was seen not to come near."""
        if self.target.volume_type is not VolumeType.GP2 or not can_burst(self.volume):
            return True
        return self.verdict is Verdict.STAY and self.options[STAY].short is None

    @property
    def differs_from_alert(self) -> bool:
        """Whether an alert about this gp2 volume asks for another gp3 than the one advised."""
        return _alert_asks(self.case, self.options, self.target) is not None

    @property
    def usd_more_on_io2(self) -> float | None:
        """What durability costs a critical volume: dollars a month more on io2; None if it is no option."""
        io2 = self.options.get(VolumeType.IO2)
        is_other = self.target.volume_type is not VolumeType.IO2
        if not self.case.is_critical or io2 is None or io2.short is not None or not is_other:
            return None
        return io2.usd_per_month - self.price.after_usd_per_month

    @property
    def urgency(self) -> tuple[int, float, str]:
        """Sorts by danger first, then by dollars either way."""
        return self.danger.rank, -abs(self.price.difference_usd_per_month), self.volume.volume_id


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetAdvice:
    """The sum of the advice: what all cost now and then, and whether anything is left to watch.

    ``critical`` and ``others`` split ``price``, by the tag. ``usd_more_on_io2`` is what the critical volumes
    for which io2 is an option cost more a month on it.
    """

    count: int
    by_target: Mapping[str, int]
    undecided: int
    price: PriceChange
    nothing_left_to_watch: bool
    critical_count: int
    critical: PriceChange
    others: PriceChange
    usd_more_on_io2: float


def is_advisable(volume: Volume) -> bool:
    """Whether it is of a type that there is advice for."""
    return volume.volume_type in frozenset(VolumeType)


def advise(case: Case) -> Advice:
    """The cheapest configuration that serves what the volume needs; of equal prices no change.

    A critical volume gets its type, if its size allows that, so it never stays on burst credits for being
    cheap; more durable io2 is an option beside it. Where nothing will do, it stays.
    """
    need = need_of(case)
    options = _options(case, need)
    chosen = _choose(case, options)
    stays = options[chosen].configuration == case.now
    confidence = confidence_of(case.usage)
    is_unknown = stays and can_burst(case.volume) and confidence in _TOO_LITTLE
    verdict = Verdict.UNDECIDED if is_unknown else Verdict.STAY if stays else Verdict.MOVE
    price = PriceChange(
        before_usd_per_month=options[STAY].usd_per_month,
        after_usd_per_month=options[chosen].usd_per_month,
    )
    return Advice(
        case=case,
        need=need,
        verdict=verdict,
        target=options[chosen].configuration,
        price=price,
        options=options,
        danger=_danger(case),
        confidence=confidence,
        reasons=_reasons(case, need, options, chosen),
        risks=_risks(case, need, options[chosen].configuration),
    )


def sum_advice(advice: Sequence[Advice]) -> FleetAdvice:
    """What following all of it comes to."""
    by_target: dict[str, int] = {}
    for each in advice:
        name = str(each.target.volume_type) if each.verdict is Verdict.MOVE else STAY
        by_target[name] = by_target.get(name, 0) + 1
    return FleetAdvice(
        count=len(advice),
        by_target=by_target,
        undecided=sum(each.verdict is Verdict.UNDECIDED for each in advice),
        price=_sum_prices(advice),
        nothing_left_to_watch=bool(advice) and all(each.is_off_credits for each in advice),
        critical_count=sum(each.case.is_critical for each in advice),
        critical=_sum_prices([each for each in advice if each.case.is_critical]),
        others=_sum_prices([each for each in advice if not each.case.is_critical]),
        usd_more_on_io2=round(sum(each.usd_more_on_io2 or 0.0 for each in advice), 6),
    )


def _sum_prices(advice: Sequence[Advice]) -> PriceChange:
    return PriceChange(
        before_usd_per_month=round(sum(each.price.before_usd_per_month for each in advice), 6),
        after_usd_per_month=round(sum(each.price.after_usd_per_month for each in advice), 6),
    )


def confidence_of(usage: Usage | None) -> Confidence:
    """How far the history can be trusted: most loads have a weekly rhythm, and one week may be odd."""
    if usage is None or usage.iops is None:
        return Confidence.NONE
    if usage.days < _WEEK_DAYS:
        return Confidence.LOW
    return Confidence.FAIR if usage.days < _FORTNIGHT_DAYS else Confidence.GOOD


def need_of(case: Case) -> Need:
    """What the volume needs, by what it was seen to serve and by what held it back."""
    least_iops, iops, iops_held, iops_why = _iops_needed(case)
    least_mib_s, mib_s, mib_s_held, mib_s_why = _mib_s_needed(case)
    if (instance := case.instance) is not None:
        useful_iops = max(instance.max_iops, ceil(least_iops))
        useful_mib_s = max(ceil(instance.max_throughput_mib_s), ceil(least_mib_s))
        if useful_iops < iops:
            iops, iops_why = useful_iops, f"{iops_why}; the instance allows no more"
        if useful_mib_s < mib_s:
            mib_s, mib_s_why = useful_mib_s, f"{mib_s_why}; the instance allows no more"
    return Need(
        least_iops=least_iops,
        least_mib_s=least_mib_s,
        iops=iops,
        mib_s=mib_s,
        is_held_back=iops_held or mib_s_held,
        reasons=(f"{iops:,} IOPS: {iops_why}.", f"{mib_s:,} MiB/s: {mib_s_why}."),
    )


def _iops_needed(case: Case) -> tuple[float, int, bool, str]:
    """The least, what is wanted, whether the volume was held back, and why."""
    usage, best = case.usage, case.best_iops
    if usage is None or usage.iops is None:
        return best, best, False, "what it serves at best; its operations are not known"
    served = _within(usage.iops.at_percentile, best)
    if usage.is_held and served < AT_CEILING * best:
        least = max(served, BURST_IOPS)
        why = f"held to its baseline for {format_duration(usage.held_s)}, so its demand is unknown"
        return least, max(ceil(least), _with_headroom(served, case)), True, why
    return _sized(case, usage, served, best)


def _mib_s_needed(case: Case) -> tuple[float, int, bool, str]:
    usage, has = case.usage, case.has_mib_s
    if usage is None or usage.mib_s is None:
        return has, ceil(has), False, "what it has; its throughput is not known"
    served = _within(usage.mib_s.at_percentile, has)
    if usage.is_held and served < AT_CEILING * has:
        unseen, why = _unseen_mib_s(case, usage)
        return served, max(unseen, _with_headroom(served, case)), True, why
    return _sized(case, usage, served, has)


def _unseen_mib_s(case: Case, usage: Usage) -> tuple[int, str]:
    """What the volume may have wanted to move while it was held to its baseline, at most what a gp2 has."""
    has, operation_mib = gp2_throughput_mib_s(case.volume.size_gib), usage.held_operation_mib
    if operation_mib is None:
        return has, "what a gp2 has; its demand is unknown"
    kib = f"{operation_mib * 1024:,.0f} KiB"
    why = f"{BURST_IOPS:,} operations of the {kib} that were seen while it was held to its baseline"
    return min(has, _with_headroom(BURST_IOPS * operation_mib, case)), why


def _sized(case: Case, usage: Usage, served: float, has: float) -> tuple[float, int, bool, str]:
    """With headroom; more than it has only where that held it back, less only where enough was seen."""
    wanted, seen = _with_headroom(served, case), f"{served:,.0f} in {_share(usage)}"
    if served >= AT_CEILING * has:
        why = f"{seen}, held back by its {has:,.0f}; {_headroom(case)}"
        return served, max(ceil(has), wanted), True, why
    if confidence_of(usage) in _TOO_LITTLE:
        why = "what it has; less than a week was seen, too little to give it less"
        return served, ceil(has), False, why
    if wanted >= has:
        return served, ceil(has), False, f"{seen}, and no more than the {has:,.0f} that it has"
    return served, wanted, False, f"{seen}; {_headroom(case)}"


def _within(served: float, ceiling: float) -> float:
    return ceiling if ceiling < served <= _EDGE * ceiling else served


def _with_headroom(served: float, case: Case) -> int:
    return ceil(round(served * (100 + case.headroom_pct) / 100, 6))


def _headroom(case: Case) -> str:
    return f"{case.headroom_pct:g} % headroom"


def _share(usage: Usage) -> str:
    unit = period_words(usage.period_s)
    return f"its busiest {unit}" if usage.percentile == 100 else f"{usage.percentile:g} % of all {unit}s"  # noqa: PLR2004


def period_words(period_s: int) -> str:
    """``minute``, or ``5 minute`` for the coarser kind."""
    return "minute" if period_s == 60 else f"{period_s // 60}-minute mean"  # noqa: PLR2004 - seconds


def _options(case: Case, need: Need) -> dict[str, Option]:
    size_gib, prices = case.volume.size_gib, case.prices
    options = {
        STAY: Option(
            configuration=case.now,
            usd_per_month=usd_per_month(case.now, size_gib, prices),
            short=_why_not_stay(case, need),
        )
    }
    kinds = [kind for kind in LIMITS if kind not in case.unavailable]
    if case.volume.multi_attached and VolumeType.GP3 in kinds:
        kinds.remove(VolumeType.GP3)
    for kind in kinds:
        if (configuration := _fit(kind, size_gib, need)) is not None:
            options[str(kind)] = Option(
                configuration=configuration,
                usd_per_month=usd_per_month(configuration, size_gib, prices),
                short=_why_slower(configuration, size_gib, need),
            )
    flipped = choose_target(case.volume, Demand(), Wish(volume_type=VolumeType.GP3), prices)
    if isinstance(flipped, Target) and VolumeType.GP3 in kinds:
        options["flip"] = Option(
            configuration=flipped.configuration,
            usd_per_month=flipped.price.after_usd_per_month,
            short=_why_slower(flipped.configuration, size_gib, need) or _why_tight(flipped, need),
        )
    return options


def _why_tight(flipped: Target, need: Need) -> str | None:
    """A flip's target has no room where the volume was held back: a flip does not look back for days."""
    iops, mib_s = flipped.configuration.iops or 0, flipped.configuration.throughput_mib_s or 0
    is_tight = need.is_held_back and (iops < need.iops or mib_s < need.mib_s)
    return "it has no room for what the volume was held back from" if is_tight else None


def _fit(kind: VolumeType, size_gib: int, need: Need) -> Configuration | None:
    """The least of a type that has what is wanted, as far as AWS allows; None where the size rules it out."""
    limits = LIMITS[kind]
    if not limits.least_gib <= size_gib <= limits.most_gib:
        return None
    iops = max(need.iops, limits.least_iops, _iops_for(kind, need.mib_s))
    iops = min(iops, limits.most_iops_at(size_gib))
    if kind is not VolumeType.GP3:
        return Configuration(volume_type=kind, iops=iops)
    most_mib_s = min(GP3_MOST_MIB_S, iops // IOPS_PER_MIB_S)
    mib_s = min(max(need.mib_s, GP3_LEAST_MIB_S), most_mib_s)
    return Configuration(volume_type=kind, iops=iops, throughput_mib_s=mib_s)


def _iops_for(kind: VolumeType, mib_s: int) -> int:
    """How many IOPS a throughput takes; see ``reachable_mib_s``."""
    if kind is VolumeType.IO2:
        return ceil(round(mib_s / _IO2_MIB_S_PER_IOPS, 6))
    if kind is VolumeType.IO1 and mib_s > IO1_LARGE_MIB_S:
        return mib_s * _IO1_SMALL_PER_MIB_S
    return mib_s * IOPS_PER_MIB_S


def _why_slower(configuration: Configuration, size_gib: int, need: Need) -> str | None:
    iops, mib_s = configuration.iops or 0, reachable_mib_s(configuration, size_gib)
    if iops < need.least_iops:
        return f"it has {iops:,} IOPS at {size_gib:,} GiB, {need.least_iops:,.0f} are needed"
    if mib_s < need.least_mib_s:
        return f"it moves {mib_s:,.0f} MiB/s at {size_gib:,} GiB, {need.least_mib_s:,.0f} are needed"
    return None


def _why_not_stay(case: Case, need: Need) -> str | None:
    """Why the volume should not stay what it is, None where it may."""
    if case.now.volume_type is VolumeType.GP2 and (why := why_it_bursts(case.volume, case.usage)):
        return why
    if need.is_held_back:
        return "it is held back as it is"
    if case.now.volume_type is not VolumeType.GP2:
        return _why_slower(case.now, case.volume.size_gib, need)
    return None


def why_it_bursts(volume: Volume, usage: Usage | None) -> str | None:
    """What shows that a gp2 volume lives on credits; None where nothing does."""
    if usage is None or not can_burst(volume):
        return None
    least, baseline = usage.least_balance, baseline_iops(volume.size_gib)
    if usage.dry_s:
        return f"it lives on credits: they were spent for {format_duration(usage.dry_s)}"
    if least is not None and least.value < LEAST_IDLE_BALANCE_PCT:
        return f"it lives on credits: its balance fell to {_at(least, '%')}"
    if usage.iops is not None and usage.iops.busiest.value > baseline:
        return f"it lives on credits: it served {_at(usage.iops.busiest, 'IOPS')}, and sustains {baseline:,}"
    return None


def _choose(case: Case, options: Mapping[str, Option]) -> str:
    """The name of the option to take; ``stay`` where none will do."""
    if case.is_critical:
        wanted = options.get(str(case.critical_type))
        if wanted is not None and wanted.short is None:
            is_there = case.now.volume_type is case.critical_type and options[STAY].short is None
            cheaper = options[STAY].usd_per_month <= wanted.usd_per_month
            return STAY if is_there and cheaper else str(case.critical_type)
    enough = [name for name, option in options.items() if option.short is None]
    return min(enough, key=lambda name: (options[name].usd_per_month, _PREFERENCE.index(name)), default=STAY)


def _danger(case: Case) -> Danger:
    usage = case.usage
    if usage is None or not can_burst(case.volume):
        return Danger.NONE
    if usage.dry_s:
        return Danger.RAN_DRY
    least = usage.least_balance
    return Danger.DRAINS if least is not None and least.value < _DEEP_PCT else Danger.NONE


def _alert_asks(case: Case, options: Mapping[str, Option], target: Configuration) -> Configuration | None:
    """The least gp3 that an alert about a gp2 volume asks for; None where the target is the same."""
    flip = options.get("flip")
    is_to_gp3 = case.now.volume_type is VolumeType.GP2 and target.volume_type is VolumeType.GP3
    return flip.configuration if is_to_gp3 and flip and flip.configuration != target else None


def _why_not_as_alerted(asked: Configuration, target: Configuration, usage: Usage | None) -> str:
    """An alert must be safe on minutes of history; advice has days of it, so the two may differ."""
    least = f"{asked.iops:,} IOPS and {asked.throughput_mib_s:,} MiB/s"
    enough = f"{target.iops:,} IOPS and {target.throughput_mib_s:,} MiB/s"
    days = "" if usage is None else f"; {usage.days:.1f} days of history call for {enough}"
    return (
        f"An alert asks for at least {least}: it sees only the last minutes, so it never proposes a gp3"
        f" slower than the gp2 at its best{days}."
    )


def _reasons(case: Case, need: Need, options: Mapping[str, Option], chosen: str) -> tuple[str, ...]:
    reasons = list(need.reasons)
    short = options[STAY].short
    kind = options[chosen].configuration.volume_type
    stays = options[chosen].configuration == case.now
    if case.is_critical and kind is case.critical_type:
        reasons.insert(0, f"It is tagged critical: {case.critical_type} depends on no burst credits.")
    elif case.is_critical:
        reasons.insert(0, f"It is tagged critical, but {case.critical_type} does not fit its size and load.")
    if not stays and short is not None:
        reasons.append(f"{short[0].upper()}{short[1:]}.")
    elif stays and short is not None:
        reasons.append(f"Nothing AWS has at this size does better, although {short}.")
    elif stays and confidence_of(case.usage) in _TOO_LITTLE:
        reasons.append("Too little was seen of it, and no other type that is as fast costs less.")
    elif stays and case.now.volume_type is VolumeType.GP2:
        reasons.append("It never bursts, and no other type that serves this costs less.")
    elif stays:
        reasons.append("It is what it should be.")
    if (asked := _alert_asks(case, options, options[chosen].configuration)) is not None:
        reasons.append(_why_not_as_alerted(asked, options[chosen].configuration, case.usage))
    reasons += [
        f"{kind} is left out: {why}."
        for kind, why in case.unavailable.items()
        if kind is not case.now.volume_type
    ]
    if case.flipped_from is not None:
        reasons.append(f"It is so by a flip, before which it was {case.flipped_from}.")
    return tuple(reasons)


def _risks(case: Case, need: Need, target: Configuration) -> tuple[str, ...]:
    """What could go wrong, in words; the surest first."""
    risks = [_history_risk(case.usage)]
    usage = case.usage
    if usage is not None:
        risks += _busier_risks(usage, target, case.volume.size_gib)
    if need.is_held_back:
        risks.append(
            "It wanted more than was seen, and nobody knows how much: look again two weeks after the move."
        )
    if target.volume_type is VolumeType.IO2 and (target.iops or 0) < BURST_IOPS:
        risks.append(
            f"Within a minute it may ask for more than {target.iops:,} IOPS; a gp2 with credits served"
            f" {BURST_IOPS:,}, this one makes such a second wait."
        )
    if (target.iops or 0) < need.iops and target.volume_type is not VolumeType.GP2:
        risks.append(
            f"{target.volume_type} allows no more than {target.iops:,} IOPS at {case.volume.size_gib:,} GiB;"
            f" {need.iops:,} were wanted: a larger volume may have more."
        )
    if (instance := case.instance) is not None and instance.max_iops < (target.iops or 0):
        risks.append(f"Its instance allows {instance.max_iops:,} IOPS to all its volumes together.")
    if case.volume.managed_by:
        risks.append(f"{case.volume.managed_by} manages it: change it there, AWS refuses it here.")
    if case.volume.multi_attached:
        risks.append(
            "Several instances may share it: only io1 and io2 can be that, and AWS may refuse a change."
        )
    if usage is not None and usage.is_idle:
        risks.append("It served nothing in all that time: if nobody needs it, a snapshot costs less.")
    return tuple(risks)


def _history_risk(usage: Usage | None) -> str:
    if usage is None or usage.iops is None:
        return "Nothing was seen of it: it is sized to be as fast as it is at best."
    unit = period_words(usage.period_s)
    rest = {
        Confidence.LOW: "less than a week: a weekly job may be missing",
        Confidence.FAIR: "one week may be an odd one",
        Confidence.GOOD: "what happens once a quarter may be missing",
    }[confidence_of(usage)]
    hidden = "" if unit == "minute" else "; peaks of single minutes are hidden in the means"
    return f"{usage.days:.1f} days were seen, by the {unit}: {rest}{hidden}."


def _busier_risks(usage: Usage, target: Configuration, size_gib: int) -> list[str]:
    """What the percentile leaves out, as far as the target would make it wait."""
    iops = target.iops or max(BURST_IOPS, baseline_iops(size_gib))
    sides = (
        (usage.iops, float(iops), "IOPS"),
        (usage.mib_s, reachable_mib_s(target, size_gib), "MiB/s"),
    )
    return [
        f"{rate.above:,} {period_words(usage.period_s)}{'' if rate.above == 1 else 's'} went beyond the"
        f" {usage.percentile:g} %, up to {_at(rate.busiest, unit)}; the target serves {most:,.0f}."
        for rate, most, unit in sides
        if rate is not None and rate.busiest.value > most * _EDGE
    ]


def _at(peak: Peak, unit: str) -> str:
    digits = 1 if unit == "%" else 0
    return f"{peak.value:,.{digits}f} {unit} at {format_instant(peak.at_s)}"

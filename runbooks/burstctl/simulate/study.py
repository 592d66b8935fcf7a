"""The study of one instance: its load on another type, on the candidates, and what the load does not show."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import isfinite
from statistics import fmean, median
from typing import Final

from burstctl.simulate.ceilings import Ceiling, PlannedVolume, limited_buckets
from burstctl.simulate.instance_reads import PERIOD_S, InstanceType, SimulatedInstance
from burstctl.simulate.simulation import (
    InstanceBucket,
    InstanceBuckets,
    LoadInterval,
    SimulationResult,
    lowest_if_bursts,
    measured_result,
    simulate,
)
from burstwatch.core.buckets.series import Series
from burstwatch.core.durations import DAY_S
from burstwatch.core.ebs.instance_bottleneck import EMPTY_PCT, InstanceLimits
from burstwatch.core.instances.larger_type import InstanceLoad, larger_types, possible_load

_NEAR_LIMIT_SHARE: Final = 0.95
"""A mean of five minutes at this share of a limit was held back by it. A judgement."""

_ABOVE_LIMIT_SHARE: Final = 1.05
"""A load above a limit by more than this was never under it: the limit was another one then."""


_TOLERANCE: Final = 1e-6
"""Rounding errors, as a share of a rate."""

_ROUNDING: Final = 1.02
"""A rate up to this share of a limit is that limit. A judgement."""

_ENOUGH_SHARE: Final = 0.9
"""Data of a smaller share of the time that was wanted do not show what the load is. A judgement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SustainedDrain:
    """A bucket whose load is more, on average, than the type sustains: it is empty ``empty_in_s`` later."""

    kind: InstanceBucket
    mean_per_s: float
    empty_in_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeStudy:
    """The load on one type; ``bounds_pct`` are the lowest balances whatever the bursts within intervals.

    If it ``is_measured``, its own balances show when it was empty. ``sustained_drain`` is of the bucket that
    the load would empty first if it went on. A type ``is_below_served`` if it sustains no more than was
    served while the instance was out of credits: it would have been out of them as well.
    """

    instance_type: InstanceType
    buckets: InstanceBuckets
    result: SimulationResult
    bounds_pct: dict[InstanceBucket, float]
    sustained_drain: SustainedDrain | None = None
    is_below_served: bool = False
    is_measured: bool = False

    @property
    def name(self) -> str:
        return self.instance_type.name

    @property
    def is_sustained(self) -> bool:
        """Whether the type has no burst buckets: its baselines are its maximums."""
        return not (self.buckets.io.capacity or self.buckets.throughput.capacity)

    @property
    def is_certain(self) -> bool:
        """Whether nothing is held back, and no shape of the load within five minutes empties a bucket."""
        return self.is_enough and min(self.bounds_pct.values()) > 0

    @property
    def is_enough(self) -> bool:
        """Whether it would have held nothing back, and would not if the load went on as it was."""
        return self.result.is_sufficient and self.sustained_drain is None and not self.is_below_served

    def cannot_drain(self, kind: InstanceBucket) -> bool:
        """Whether the volumes cannot draw more than the type sustains, whatever the load is."""
        bucket = self.buckets.of(kind)
        return bucket.capacity > 0 and not bucket.highest_drain_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReached:
    """What may have held the load back when it was measured, for how long, and when first.

    ``is_certain`` if it did: a bucket of its own, or of a volume of it, was empty.
    """

    limit: str
    is_certain: bool
    seconds: float
    first_at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyInput:
    """What is known of an instance and its load; what could not be read is None.

    ``measured_on`` is the present type, ``ceiling`` the most that the attached volumes serve together, and
    ``planned_ceiling`` the same after the plan. ``volume_balances`` are those of the attached volumes with
    credits, by ID. ``wanted_s`` is the time that was requested.
    """

    load: Sequence[LoadInterval]
    instance: SimulatedInstance | None
    measured_on: InstanceType | None
    target: InstanceType
    candidates: Sequence[InstanceType]
    balances: dict[InstanceBucket, Series]
    ceiling: Ceiling
    planned: Sequence[PlannedVolume]
    planned_ceiling: Ceiling
    daily_reset_s: int | None
    wanted_s: float
    volume_balances: Mapping[str, Series] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The answer. ``raised`` is the target under a load that uses the plan: an upper bound; None without one.

    ``ceiling`` is what limits the load: that of the volumes, or the peak of the load if that was higher
    (``was_above_ceiling``). ``data_gaps`` are the times without data, as start and end. ``at_ceiling_s`` is
    how long the load was at the limit of the volumes of today.
    """

    inputs: StudyInput
    target: TypeStudy
    candidates: Sequence[TypeStudy]
    raised: SimulationResult | None
    ceiling: Ceiling
    was_above_ceiling: bool
    at_ceiling_s: float
    limits_reached: Sequence[LimitReached]
    above_type_at_s: float | None
    data_gaps: Sequence[tuple[int, int]]

    @property
    def start_s(self) -> int:
        return self.inputs.load[0].start_s

    @property
    def end_s(self) -> int:
        return self.inputs.load[-1].end_s

    @property
    def throttled_s(self) -> float:
        """For how long a bucket of it or of a volume was empty: what was wanted then is not known."""
        return max((reached.seconds for reached in self.limits_reached if reached.is_certain), default=0.0)

    @property
    def sustaining(self) -> TypeStudy | None:
        """The smallest of the target's family that sustains all that may have been wanted.

        ``explain`` recommends the same. None if no credits of the instance were empty, or if no type does.
        """
        inputs, limits = self.inputs, self.inputs.measured_on.limits if self.inputs.measured_on else None
        empty = [kind for kind, series in _balances_since_start(inputs).items() if _is_empty(series)]
        if limits is None or not empty:
            return None
        measured = InstanceLoad(
            iops=max(interval.rate(InstanceBucket.IO) for interval in inputs.load),
            mib_s=max(interval.rate(InstanceBucket.THROUGHPUT) for interval in inputs.load),
        )
        is_out_of_iops = InstanceBucket.IO in empty
        iops, mib_s = (
            value if isfinite(value) else None for value in (self.ceiling.iops, self.ceiling.mib_s)
        )
        wanted = possible_load(measured, limits, (iops, mib_s), is_out_of_iops=is_out_of_iops) or measured
        family = {
            candidate.name: candidate.instance_type.limits
            for candidate in self.candidates
            if candidate.instance_type.family == self.target.instance_type.family
            and candidate.instance_type.limits is not None
        }
        names = larger_types(limits, wanted, family, count=1)
        return next((candidate for candidate in self.candidates if candidate.name in names), None)

    @property
    def is_short(self) -> bool:
        """Whether the data are of much less than the time that was wanted."""
        return self.end_s - self.start_s < _ENOUGH_SHARE * self.inputs.wanted_s

    @property
    def unknown_s(self) -> int:
        return sum(end_s - start_s for start_s, end_s in self.data_gaps)

    @property
    def smallest(self) -> list[TypeStudy]:
        """The smallest type of each family that is enough, in the order of baselines."""
        families: dict[str, TypeStudy] = {}
        for study in self.candidates:
            if study.is_enough:
                families.setdefault(study.instance_type.family, study)
        return list(families.values())


def make_study(inputs: StudyInput) -> Study:
    """Play the load on the target and on every candidate.

    Raises:
        ValueError: there is no load, or the target has no limits.
    """
    if not inputs.load:
        raise ValueError("there is no load to simulate")
    resets_at_s = _resets_at_s(inputs.load[0].start_s, inputs.load[-1].end_s, inputs.daily_reset_s)
    ceiling, was_above = _effective_ceiling(inputs)

    own_balances = _balances_since_start(inputs)
    served_when_empty = _served_when_empty(inputs, own_balances)
    shows_measured = _is_any_empty(own_balances) and not _plan_lowers(inputs, own_balances)
    means_per_s = {kind: fmean(interval.rate(kind) for interval in inputs.load) for kind in InstanceBucket}

    def study_type(instance_type: InstanceType) -> TypeStudy:
        study = _study_type(instance_type, inputs.load, ceiling, resets_at_s)
        study = replace(
            study,
            sustained_drain=_find_sustained_drain(study, inputs.load, means_per_s, resets_at_s),
            is_below_served=any(
                study.buckets.of(kind).refill_per_s <= served * _ROUNDING and not study.cannot_drain(kind)
                for kind, served in served_when_empty.items()
            ),
        )
        if instance_type != inputs.measured_on or not shows_measured:
            return study
        result = measured_result(study.result, inputs.load, own_balances, EMPTY_PCT)
        return replace(study, result=result, is_measured=True)

    target = study_type(inputs.target)
    raised_load = _raise_load(inputs)
    return Study(
        inputs=inputs,
        target=target,
        candidates=[
            target if candidate == inputs.target else study_type(candidate) for candidate in inputs.candidates
        ],
        raised=simulate(raised_load, target.buckets, resets_at_s=resets_at_s) if raised_load else None,
        ceiling=ceiling,
        was_above_ceiling=was_above,
        at_ceiling_s=sum(interval.duration_s for interval in inputs.load if _is_at(interval, inputs.ceiling)),
        limits_reached=_find_limits_reached(inputs),
        above_type_at_s=_find_above_type(inputs),
        data_gaps=_find_data_gaps(inputs.load),
    )


def _balances_since_start(inputs: StudyInput) -> dict[InstanceBucket, Series]:
    """The balances that are certainly those of the present type: it changes while an instance is stopped."""
    started_at_s = (inputs.instance.started_at_s if inputs.instance else None) or 0
    return {kind: series.since(int(started_at_s)) for kind, series in inputs.balances.items()}


def _served_when_empty(
    inputs: StudyInput, own_balances: Mapping[InstanceBucket, Series]
) -> dict[InstanceBucket, float]:
    """What was served a second while a bucket of the instance was empty; kinds that never were are left out.

    It is the baseline of the type that the instance had, which is known only since it was started.
    """
    limits = inputs.measured_on.limits if inputs.measured_on else None
    served = {}
    for kind, series in inputs.balances.items():
        empty_at_s = {at_s for at_s, pct in _pairs(series) if pct <= EMPTY_PCT}
        rates = [interval.rate(kind) for interval in inputs.load if interval.start_s in empty_at_s]
        if rates:
            served[kind] = median(rates)
        if limits is not None and _is_empty(own_balances[kind]):
            served[kind] = max(served.get(kind, 0.0), _baseline(limits, kind))
    return served


def _plan_lowers(inputs: StudyInput, own_balances: Mapping[InstanceBucket, Series]) -> bool:
    """Whether the volumes could draw less from an empty bucket after the plan: then it is not as measured."""
    return bool(inputs.planned) and any(
        inputs.planned_ceiling.of(kind) < inputs.ceiling.of(kind)
        for kind, series in own_balances.items()
        if _is_empty(series)
    )


def _find_sustained_drain(
    study: TypeStudy,
    load: Sequence[LoadInterval],
    means_per_s: Mapping[InstanceBucket, float],
    resets_at_s: Sequence[int],
) -> SustainedDrain | None:
    """The bucket that is empty first if the load goes on; with daily resets, only of less than a day."""
    if resets_at_s and load[-1].end_s - load[0].start_s >= DAY_S:
        return None
    drains = []
    for kind in InstanceBucket:
        bucket, own = study.buckets.of(kind), study.result.of(kind)
        mean = min(bucket.burst_per_s, means_per_s[kind])
        if bucket.capacity and not own.spells and mean > bucket.refill_per_s * (1 + _TOLERANCE):
            credits_left = bucket.capacity * own.balances_pct[-1] / 100
            drains.append(
                SustainedDrain(
                    kind=kind, mean_per_s=mean, empty_in_s=credits_left / (mean - bucket.refill_per_s)
                )
            )
    return min(drains, key=lambda drain: drain.empty_in_s, default=None)


def _is_any_empty(balances: Mapping[InstanceBucket, Series]) -> bool:
    return any(map(_is_empty, balances.values()))


def _is_empty(balance: Series) -> bool:
    """Whether it was empty at some time."""
    return min(balance.values, default=100.0) <= EMPTY_PCT


def _study_type(
    instance_type: InstanceType, load: Sequence[LoadInterval], ceiling: Ceiling, resets_at_s: Sequence[int]
) -> TypeStudy:
    if instance_type.limits is None:
        raise ValueError(f"{instance_type.name} has no EBS limits")
    buckets = limited_buckets(instance_type.limits, ceiling)
    return TypeStudy(
        instance_type=instance_type,
        buckets=buckets,
        result=simulate(load, buckets, resets_at_s=resets_at_s),
        bounds_pct={
            kind: lowest_if_bursts(load, kind, buckets.of(kind), resets_at_s=resets_at_s)
            for kind in InstanceBucket
        },
    )


def _resets_at_s(start_s: int, end_s: int, daily_reset_s: int | None) -> list[int]:
    """The daily resets after the start, in seconds since the epoch."""
    if daily_reset_s is None:
        return []
    first_s = start_s // DAY_S * DAY_S + daily_reset_s
    return [at_s for at_s in range(first_s, end_s, DAY_S) if at_s > start_s]


def _effective_ceiling(inputs: StudyInput) -> tuple[Ceiling, bool]:
    """What the volumes can draw, and whether the measured load was above it.

    A load that was higher than the volumes of today allow proves that they were others then, or that EBS
    counts in another way. So the bound is not below the load, unless a plan changes the volumes.
    """
    if inputs.planned:
        return inputs.planned_ceiling, False
    peaks = {kind: max(interval.rate(kind) for interval in inputs.load) for kind in InstanceBucket}
    was_above = any(peak > _ABOVE_LIMIT_SHARE * inputs.ceiling.of(kind) for kind, peak in peaks.items())
    return Ceiling(
        iops=max(inputs.ceiling.iops, peaks[InstanceBucket.IO]),
        mib_s=max(inputs.ceiling.mib_s, peaks[InstanceBucket.THROUGHPUT]),
    ), was_above


def _is_at(interval: LoadInterval, ceiling: Ceiling) -> bool:
    return any(_is_near(interval.rate(kind), ceiling.of(kind)) for kind in InstanceBucket)


def _is_near(rate: float, limit: float) -> bool:
    return _NEAR_LIMIT_SHARE * limit <= rate <= _ABOVE_LIMIT_SHARE * limit


def _raise_load(inputs: StudyInput) -> list[LoadInterval] | None:
    """The load if what was held back by the volumes of today used all that the plan allows."""
    growth = {kind: _growth(inputs, kind) for kind in InstanceBucket} if inputs.planned else {}
    if not growth or max(growth.values()) <= 1:
        return None
    raised = []
    for interval in inputs.load:
        at_limit = [kind for kind in InstanceBucket if _is_near(interval.rate(kind), inputs.ceiling.of(kind))]
        factor = max((growth[kind] for kind in at_limit), default=1.0)
        raised.append(interval._replace(ops=interval.ops * factor, mib=interval.mib * factor))
    return raised


def _growth(inputs: StudyInput, kind: InstanceBucket) -> float:
    now, planned = inputs.ceiling.of(kind), inputs.planned_ceiling.of(kind)
    return max(1.0, planned / now) if now and isfinite(now) and isfinite(planned) else 1.0


def _find_limits_reached(inputs: StudyInput) -> list[LimitReached]:
    """What held the load back when it was measured, as far as it shows."""
    limits_reached = [
        _reached(
            f"its own {kind.metric} was at most {EMPTY_PCT:g} %",
            [at_s for at_s, pct in _pairs(inputs.balances[kind]) if pct <= EMPTY_PCT],
            is_certain=True,
        )
        for kind in InstanceBucket
    ]
    limits_reached += [
        _reached(
            f"the BurstBalance of {volume_id} was at most {EMPTY_PCT:g} %",
            [at_s for at_s, pct in _pairs(series.since(inputs.load[0].start_s)) if pct <= EMPTY_PCT],
            is_certain=True,
        )
        for volume_id, series in inputs.volume_balances.items()
    ]
    limits = inputs.measured_on.limits if inputs.measured_on else None
    started_at_s = inputs.instance.started_at_s if inputs.instance else None
    if limits is not None and inputs.measured_on is not None:
        on_this_type = [i for i in inputs.load if i.start_s >= (started_at_s or 0.0)]
        most = Ceiling(iops=limits.max_iops, mib_s=limits.max_throughput_mib_s)
        at_maximum = [i.start_s for i in on_this_type if _is_at(i, most)]
        at_type = f"its load was at the maximum of {inputs.measured_on.name}"
        limits_reached.append(_reached(at_type, at_maximum))
        for kind in InstanceBucket:
            at_baseline = [i.start_s for i in on_this_type if _is_near(i.rate(kind), _baseline(limits, kind))]
            if not inputs.balances[kind] and _has_bucket(limits, kind):
                text = f"its {kind.label} was at the baseline of {inputs.measured_on.name} (balance unknown)"
                limits_reached.append(_reached(text, at_baseline))
    at_ceiling = [i.start_s for i in inputs.load if _is_at(i, inputs.ceiling)]
    limits_reached.append(_reached("its load was at the limit of its volumes", at_ceiling))
    return [reached for reached in limits_reached if reached is not None]


def _reached(limit: str, starts_s: Sequence[float], *, is_certain: bool = False) -> LimitReached | None:
    if not starts_s:
        return None
    return LimitReached(
        limit=limit, is_certain=is_certain, seconds=PERIOD_S * len(starts_s), first_at_s=starts_s[0]
    )


def _baseline(limits: InstanceLimits, kind: InstanceBucket) -> float:
    return limits.baseline_iops if kind is InstanceBucket.IO else limits.baseline_throughput_mib_s


def _has_bucket(limits: InstanceLimits, kind: InstanceBucket) -> bool:
    most = limits.max_iops if kind is InstanceBucket.IO else limits.max_throughput_mib_s
    return _baseline(limits, kind) < most


def _find_above_type(inputs: StudyInput) -> float | None:
    """When the load was first higher than the present type allows: it was another type then."""
    limits = inputs.measured_on.limits if inputs.measured_on else None
    if limits is None:
        return None
    above = (
        interval.start_s
        for interval in inputs.load
        if interval.rate(InstanceBucket.IO) > _ABOVE_LIMIT_SHARE * limits.max_iops
        or interval.rate(InstanceBucket.THROUGHPUT) > _ABOVE_LIMIT_SHARE * limits.max_throughput_mib_s
    )
    return next(above, None)


def _find_data_gaps(load: Sequence[LoadInterval]) -> list[tuple[int, int]]:
    return [
        (earlier.end_s, later.start_s) for earlier, later in pairwise(load) if later.start_s > earlier.end_s
    ]


def _pairs(series: Series) -> Iterable[tuple[int, float]]:
    return zip(series.starts_at_s, series.values, strict=True)

"""The last hours of one bucket as values: all that a picture of it shows, on paper, screen or page.

This module draws nothing and interpolates nothing: a missing datapoint is a gap with its reason, and the
future is the forecast by which the watchdog decides.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

from burstctl.timeline.data_gap import CURRENT_REASONS, DataGap, DataGapReason
from burstctl.timeline.drawn_bucket import DrawnBucket, to_rate_unit
from burstctl.timeline.intervals import (
    HoldInterval,
    LevelInterval,
    StallInterval,
    TargetInterval,
    TimelineEvent,
    hold_intervals,
    level_intervals,
    stall_intervals,
    target_intervals,
    timeline_events,
)
from burstctl.timeline.window_intervals import WindowInterval
from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.durations import HOUR_S
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ledger.ledger_entry import LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState

MAX_METRIC_DELAY_S: Final = 600
"""CloudWatch is late: a balance that ends so shortly before now does not end in a gap."""

_LATE_PERIODS: Final = 3
"""Nor does one that lacks this many datapoints: an instance has one every five minutes."""

_LAST_MINUTE_DELAY_S: Final = 120
"""So late may the last minute of a longer period be."""

_RETURN_GAP_S: Final = 900
"""How long after a return the balance may be missing because of it."""

_MAX_SWEEP_INTERVAL_S: Final = HOUR_S
"""The sweep's longest interval: a calm volume that begins to drain is noticed within this time."""

# 8 % leave room for "now" and its label; beyond 75 % the past could not be read any more
_MIN_FUTURE_SHARE: Final = 0.08
_MIN_FORECAST_SHARE: Final = 0.2
_MAX_FUTURE_SHARE: Final = 0.75
"""The future's share of the past: more if there is a forecast, and up to this for a distant one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimit:
    """What a resource can serve permanently, and while it has credits, in the unit of the picture.

    If it ``is_provisioned`` there are no credits, and both are the provisioned rate.
    """

    start_s: float
    end_s: float
    sustained: float
    maximum: float
    is_provisioned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastCone:
    """The forecast from the newest datapoint on, for a bucket that is not empty; instants are absolute.

    ``estimated_empty_at_s`` is None if the bucket is not draining, and ``latest_empty_at_s`` if some horizon
    shows no drain. No load can empty the bucket before ``soonest_empty_at_s``; it is None if the bucket
    cannot become empty.
    """

    start_at_s: int
    start_pct: float
    soonest_empty_at_s: float | None
    earliest_empty_at_s: float | None = None
    estimated_empty_at_s: float | None = None
    latest_empty_at_s: float | None = None
    is_believed: bool = False
    drain_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineInput:
    """What is known of a bucket and of what happened to its resource.

    ``history`` begins at ``start_s``. ``entries`` are the ledger's about the bucket, its resource and
    everything, oldest first; they should begin earlier than the history, so that what lasted then is known.
    ``modification`` is AWS's newest modification of a volume. ``watch_below_pct`` is the policy's: above it
    a bucket is ok.
    """

    drawn: DrawnBucket
    history: MetricHistory
    start_s: int
    now_s: float
    assessment: Assessment | None = None
    state: ResourceState | None = None
    modification: Modification | None = None
    entries: Sequence[LedgerEntry] = ()
    windows: Sequence[WindowInterval] = ()
    watch_below_pct: float = 95.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The content of a picture from ``start_s`` to ``end_s``; everything after ``now_s`` is forecast.

    ``balance`` is the least of each period in per cent. ``served`` and ``reads`` are its means in the
    ``rate_unit`` of ``drawn``, as the ``limits`` are. Intervals and events are in the order of their starts.
    """

    drawn: DrawnBucket
    start_s: int
    now_s: float
    end_s: float
    period_s: int
    balance: Series
    served: Series
    reads: Series
    gaps: Sequence[DataGap]
    limits: Sequence[LoadLimit]
    target_intervals: Sequence[TargetInterval]
    levels: Sequence[LevelInterval]
    holds: Sequence[HoldInterval]
    windows: Sequence[WindowInterval]
    stalls: Sequence[StallInterval]
    events: Sequence[TimelineEvent]
    forecast_cone: ForecastCone | None

    @property
    def has_no_metrics(self) -> bool:
        """Whether CloudWatch has no data at all."""
        return not (self.balance or self.served)


def build_timeline(inputs: TimelineInput) -> Timeline:
    """Put together what happened to a bucket, and what is to come."""
    start_s, now_s, history = inputs.start_s, inputs.now_s, inputs.history
    reads, writes = inputs.drawn.loads_of(history)
    balance = inputs.drawn.balance_of(history)
    entries = [entry for entry in inputs.entries if entry.at_s <= now_s]
    intervals = target_intervals(entries, inputs.state, inputs.modification)
    cone = _forecast_cone(inputs.assessment, now_s)
    end_s = _end_s(start_s, now_s, cone)
    return Timeline(
        drawn=inputs.drawn,
        start_s=start_s,
        now_s=now_s,
        end_s=end_s,
        period_s=history.period_s,
        balance=balance.since(start_s),
        served=_rates(history, now_s, reads, writes).since(start_s),
        reads=_rates(history, now_s, reads).since(start_s),
        gaps=_data_gaps(inputs, intervals),
        limits=_load_limits(inputs, intervals, end_s),
        target_intervals=[interval for interval in intervals if (interval.restored_at_s or now_s) > start_s],
        levels=level_intervals(entries, inputs.state, start_s, now_s, partial(_ok_since, inputs, balance)),
        holds=hold_intervals(entries, start_s, end_s),
        windows=[window for window in inputs.windows if window.start_s < end_s],
        stalls=stall_intervals(entries, inputs.state, start_s),
        events=[event for event in timeline_events(entries) if event.at_s >= start_s],
        forecast_cone=cone,
    )


def contiguous_pieces(series: Series, period_s: int) -> Iterator[Series]:
    """The series in pieces that have no gap inside."""
    if not series:
        return
    steps = pairwise(series.starts_at_s)
    cuts = [index for index, (a, b) in enumerate(steps, start=1) if b - a > period_s]
    for first, end in pairwise([0, *cuts, len(series)]):
        yield Series(series.starts_at_s[first:end], series.values[first:end])


def downsample(series: Series, step_s: int, choose: Callable[[Sequence[float]], float]) -> Series:
    """One value for each step with samples: their minimum, maximum, or another aggregate.

    A step without a sample is a gap. Steps begin at multiples of ``step_s``.
    """
    steps: dict[int, list[float]] = {}
    for start_s, value in zip(series.starts_at_s, series.values, strict=True):
        steps.setdefault(start_s // step_s * step_s, []).append(value)
    return Series(tuple(steps), tuple(choose(values) for values in steps.values()))


def _rates(history: MetricHistory, now_s: float, *sums: Series) -> Series:
    """The mean rate of each period; if only reads or writes are known, they are the lower bound.

    The sum of a period is left out if the period is not over, or if its last minute may still come. It would
    show a drop that never happened.
    """
    complete_until_s = now_s if history.period_s == PERIOD_S else now_s - _LAST_MINUTE_DELAY_S
    total: dict[int, float] = {}
    for series in sums:
        for start_s, value in zip(series.starts_at_s, series.values, strict=True):
            if start_s + history.period_s <= complete_until_s:
                total[start_s] = total.get(start_s, 0.0) + value
    return Series.from_pairs((start_s, value / history.period_s) for start_s, value in total.items())


def _forecast_cone(assessment: Assessment | None, now_s: float) -> ForecastCone | None:
    if assessment is None or assessment.sample is None or assessment.forecast is None:
        return None
    if assessment.sample.value <= 0:
        return None  # it is empty: nothing to forecast
    forecast = assessment.forecast

    def to_instant(seconds: float | None) -> float | None:
        return None if seconds is None else now_s + seconds

    return ForecastCone(
        start_at_s=assessment.sample.end_at_s,
        start_pct=assessment.sample.value,
        soonest_empty_at_s=to_instant(forecast.soonest_empty_s),
        earliest_empty_at_s=to_instant(forecast.earliest_s),
        estimated_empty_at_s=to_instant(forecast.time_to_empty_s),
        latest_empty_at_s=to_instant(forecast.latest_s),
        is_believed=forecast.is_within_extrapolation,
        drain_per_s=None
        if forecast.drain_per_s is None
        else to_rate_unit(assessment.kind, forecast.drain_per_s),
    )


def _end_s(start_s: int, now_s: float, cone: ForecastCone | None) -> float:
    past_s = now_s - start_s
    if cone is None or cone.estimated_empty_at_s is None:
        return now_s + _MIN_FUTURE_SHARE * past_s
    ahead_s = max(cone.estimated_empty_at_s, cone.latest_empty_at_s or 0.0) - now_s
    return now_s + min(max(1.15 * ahead_s, _MIN_FORECAST_SHARE * past_s), _MAX_FUTURE_SHARE * past_s)


def _data_gaps(inputs: TimelineInput, intervals: Sequence[TargetInterval]) -> list[DataGap]:
    period_s, balance = inputs.history.period_s, inputs.history.balance.since(inputs.start_s)
    max_delay_s = max(MAX_METRIC_DELAY_S, _LATE_PERIODS * inputs.drawn.kind.period_s)
    ends = [inputs.start_s, *(start_s + period_s for start_s in balance.starts_at_s)]
    starts = [*balance.starts_at_s, inputs.now_s]
    gaps: list[DataGap] = []
    for number, (from_s, to_s) in enumerate(zip(ends, starts, strict=True)):
        is_last = number == len(balance)
        if to_s - from_s < period_s or (is_last and balance and to_s - from_s <= max_delay_s):
            continue
        gaps += _split_by_reason(inputs, intervals, from_s, to_s, is_last=is_last)
    return gaps


def _split_by_reason(
    inputs: TimelineInput, intervals: Sequence[TargetInterval], from_s: float, to_s: float, *, is_last: bool
) -> Iterator[DataGap]:
    """One stretch without balance, in pieces that have a reason each."""
    reason = _current_reason(inputs) if is_last else DataGapReason.GAP
    causes = [(-1.0, inputs.drawn.exists_since_s, inputs.drawn.absence)]
    for interval in intervals:
        resumes_at_s = (
            inputs.now_s if interval.restored_at_s is None else interval.restored_at_s + _RETURN_GAP_S
        )
        causes.append((interval.requested_at_s or 0.0, resumes_at_s, DataGapReason.FLIPPED))
    for begins_at_s, ends_at_s, cause in causes:
        if begins_at_s >= to_s or ends_at_s <= from_s:
            continue
        if begins_at_s - from_s >= inputs.history.period_s:
            yield DataGap(start_s=from_s, end_s=begins_at_s, reason=DataGapReason.GAP)
            from_s = begins_at_s
        if ends_at_s >= to_s:
            yield DataGap(start_s=from_s, end_s=to_s, reason=cause)
            return
        yield DataGap(start_s=from_s, end_s=ends_at_s, reason=cause)
        from_s = ends_at_s
    if to_s - from_s >= inputs.history.period_s:
        yield DataGap(start_s=from_s, end_s=to_s, reason=reason)


def _current_reason(inputs: TimelineInput) -> DataGapReason:
    unknown = inputs.assessment.unknown_reason if inputs.assessment else None
    return DataGapReason.GAP if unknown is None else CURRENT_REASONS.get(unknown, DataGapReason.GAP)


def _ok_since(inputs: TimelineInput, balance: Series, until_s: float) -> float:
    """Since when the balance says that it was ok, up to a moment; that moment where it does not.

    A running watchdog notices a fall within the hour: if the balance is low for longer, none was running.
    """
    period_s = inputs.history.period_s
    pairs = zip(balance.starts_at_s, balance.values, strict=True)
    samples = [(start_s, pct) for start_s, pct in pairs if start_s <= until_s - _MAX_SWEEP_INTERVAL_S]
    if not samples or samples[-1][1] < inputs.watch_below_pct:
        return until_s
    return max(
        (at_s + period_s for at_s, pct in samples if pct < inputs.watch_below_pct), default=samples[0][0]
    )


def _load_limits(inputs: TimelineInput, intervals: Sequence[TargetInterval], end_s: float) -> list[LoadLimit]:
    """What bounded it when: its bucket, and what was provisioned on a target; nothing if unknown."""
    drawn, start_s, own_limits = inputs.drawn, float(inputs.start_s), inputs.drawn.limits()
    if own_limits is None:
        return []
    provisioned: list[tuple[float, float, float]] = []
    for interval in intervals:
        target_rate = drawn.rate_of(interval.target)
        if target_rate is not None and (interval.reached_at_s is not None or interval.requested_at_s is None):
            provisioned.append(
                (
                    interval.reached_at_s or start_s,
                    interval.return_requested_at_s or interval.restored_at_s or end_s,
                    target_rate,
                )
            )
    if drawn.provisioned and not intervals:
        provisioned.append((start_s, end_s, drawn.provisioned))
    limits: list[LoadLimit] = []
    at_s, (baseline, burst) = start_s, own_limits
    for from_s, to_s, rate in [*provisioned, (end_s, end_s, 0)]:
        if from_s > at_s:
            maximum = max(baseline, burst)
            limits.append(LoadLimit(start_s=at_s, end_s=from_s, sustained=baseline, maximum=maximum))
            at_s = from_s
        if to_s > at_s:
            limits.append(
                LoadLimit(start_s=at_s, end_s=to_s, sustained=rate, maximum=rate, is_provisioned=True)
            )
            at_s = to_s
    return limits

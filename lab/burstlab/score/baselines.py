"""The usual alternatives: thresholds on the balance, with the data that CloudWatch shows and no more.

Each flips a volume once and never back: an alarm does not know when a volume may return, and sees no balance
while it is flipped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Final

from burstlab.model.minute_history import MINUTE_S
from burstlab.score.cases import Case
from burstlab.score.ground_truth import START_S, GroundTruth
from burstlab.score.metric_delay import MetricDelay
from burstwatch.core.ebs.volume import CREDITS_PER_PCT, baseline_iops, highest_drain_per_s

LOW_PCT: Final = 20.0  # the threshold of most published examples
_HOUR_MIN: Final = 60
_FIVE_MIN: Final = 5
_BURST_RESERVE_S: Final = 20 * MINUTE_S  # time for a person to read the alarm and to act
# us-east-1: a standard alarm, and a metric of GetMetricData; Source: CloudWatch pricing page
ALARM_USD_PER_MONTH: Final = 0.10
POLL_USD: Final = 0.01 / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A threshold on the mean balance of the last ``span_min``, evaluated every ``interval_min`` minutes."""

    name: str
    description: str
    interval_min: int
    span_min: int
    threshold_pct: Callable[[int], float] = lambda _gib: LOW_PCT
    is_fleet_wide: bool = False
    is_alarm: bool = True

    def watching_usd(self, seconds: float) -> float:
        """The cost of watching one volume for this long."""
        if self.is_alarm:
            return ALARM_USD_PER_MONTH * seconds / (730 * 3600)
        return POLL_USD * seconds / (self.interval_min * MINUTE_S)


def burst_reserve_pct(size_gib: int) -> float:
    """The balance that lasts for 20 minutes of full burst; small volumes have no such balance."""
    return min(100.0, highest_drain_per_s(baseline_iops(size_gib)) * _BURST_RESERVE_S / CREDITS_PER_PCT)


BASELINES: Final = (
    Baseline(
        name="20 %, 5 min",
        description="an alarm on each volume: mean BurstBalance of five minutes below 20 %",
        interval_min=_FIVE_MIN,
        span_min=_FIVE_MIN,
    ),
    Baseline(
        name="20 %, 1 min",
        description="the same on one-minute datapoints",
        interval_min=1,
        span_min=1,
    ),
    Baseline(
        name="% by size",
        description="an alarm at the balance that lasts for 20 minutes of full burst",
        interval_min=1,
        span_min=1,
        threshold_pct=burst_reserve_pct,
    ),
    Baseline(
        name="fleet mean",
        description=(
            "one alarm: the mean of all volumes below 20 % for an hour; then all below 20 % are flipped"
        ),
        interval_min=_FIVE_MIN,
        span_min=_HOUR_MIN,
        is_fleet_wide=True,
    ),
    Baseline(
        name="like Custodian",
        description="every five minutes, each volume's mean BurstBalance of the last hour below 20 %",
        interval_min=_FIVE_MIN,
        span_min=_HOUR_MIN,
        is_alarm=False,
    ),
)


class PublishedBalance:
    """The balance as CloudWatch shows it: minutes that never appear are left out, the others are late."""

    def __init__(self, case: Case, ground_truth: GroundTruth, metric_delay: MetricDelay) -> None:
        values_pct = list(ground_truth.minima[: case.duration_s // MINUTE_S])
        for gap_start_s, gap_end_s in (
            metric_delay.gaps(case.volume_id, case.duration_s) if metric_delay.gap_interval_s else ()
        ):
            first, last = (int(at_s - START_S) // MINUTE_S for at_s in (gap_start_s, gap_end_s))
            values_pct[first:last] = [nan] * (min(last, len(values_pct)) - min(first, len(values_pct)))
        self._sums, self._counts = [0.0], [0]
        for pct in values_pct:
            is_shown = pct == pct  # noqa: PLR0124 - not a number is not shown
            self._sums.append(self._sums[-1] + (pct if is_shown else 0.0))
            self._counts.append(self._counts[-1] + is_shown)
        self.minutes = len(values_pct)

    def mean(self, minute: int, span_min: int) -> float | None:
        """The mean of the published minutes in the span that ends with this minute; None without any."""
        end, start = minute + 1, max(0, minute + 1 - span_min)
        count = self._counts[end] - self._counts[start]
        return (self._sums[end] - self._sums[start]) / count if count else None


def find_alarm_spans(
    baseline: Baseline, case: Case, balance: PublishedBalance, metric_delay: MetricDelay
) -> list[tuple[int, int]]:
    """When the threshold is crossed, and until when it stays crossed; seconds since the epoch."""
    threshold = baseline.threshold_pct(case.size_gib)
    spans: list[tuple[int, int]] = []
    alarm_at_s: int | None = None
    for minute in range(baseline.interval_min - 1, balance.minutes, baseline.interval_min):
        if minute + 1 < baseline.span_min:
            continue
        mean = balance.mean(minute, baseline.span_min)
        known_at_s = _published_at_s(minute, metric_delay)
        if mean is not None and mean < threshold and alarm_at_s is None:
            alarm_at_s = known_at_s
        elif mean is not None and mean >= threshold and alarm_at_s is not None:
            spans.append((alarm_at_s, known_at_s))
            alarm_at_s = None
    end_s = START_S + case.duration_s
    if alarm_at_s is not None:
        spans.append((alarm_at_s, end_s))
    return [(start_at_s, end_at_s) for start_at_s, end_at_s in spans if start_at_s < end_s]


def find_fleet_alarm_spans(
    baseline: Baseline,
    balances: Mapping[str, PublishedBalance],
    cases: Sequence[Case],
    metric_delay: MetricDelay,
) -> dict[str, list[tuple[int, int]]]:
    """The spans of a single alarm for all volumes; while it is active, those below the threshold count."""
    minutes = max(balance.minutes for balance in balances.values())
    alarm_minutes = []
    for minute in range(baseline.span_min - 1, minutes, baseline.interval_min):
        means = [
            mean
            for balance in balances.values()
            if minute < balance.minutes and (mean := balance.mean(minute, baseline.span_min)) is not None
        ]
        if means and sum(means) / len(means) < LOW_PCT:
            alarm_minutes.append(minute)
    spans_by_volume: dict[str, list[tuple[int, int]]] = {}
    for case in cases:
        balance = balances[case.volume_id]
        low_minutes = [
            alarm_minute
            for alarm_minute in alarm_minutes
            if alarm_minute < balance.minutes and (balance.mean(alarm_minute, _FIVE_MIN) or inf) < LOW_PCT
        ]
        spans_by_volume[case.volume_id] = _merge_spans(
            low_minutes, baseline.interval_min, metric_delay, START_S + case.duration_s
        )
    return spans_by_volume


def _merge_spans(
    minutes: Sequence[int], interval_min: int, metric_delay: MetricDelay, end_s: int
) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for minute in minutes:
        start_at_s = _published_at_s(minute, metric_delay)
        end_at_s = min(end_s, start_at_s + interval_min * MINUTE_S)
        if spans and spans[-1][1] >= start_at_s:
            spans[-1] = (spans[-1][0], end_at_s)
        elif start_at_s < end_s:
            spans.append((start_at_s, end_at_s))
    return spans


def _published_at_s(minute: int, metric_delay: MetricDelay) -> int:
    """When the last datapoint of a period has surely appeared."""
    return START_S + (minute + 1) * MINUTE_S + metric_delay.max_lag_s

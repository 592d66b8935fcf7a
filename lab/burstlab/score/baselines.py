"""What people use today: thresholds on the balance, each seeing what CloudWatch shows and no more.

Each flips once and leaves it at that: an alarm knows neither when a volume may come back nor, while it is
flipped, any balance.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Final

from burstlab.model.minute_history import MINUTE_S
from burstlab.score.cases import Case
from burstlab.score.ground_truth import START_S, Course
from burstlab.score.metric_delay import Weather
from burstwatch.core.ebs.volume import CREDITS_PER_PCT, baseline_iops, worst_drain_per_s

LOW_PCT: Final = 20.0
_HOUR_MIN: Final = 60
_FIVE_MIN: Final = 5
_SCALED_TO_LAST_S: Final = 20 * MINUTE_S
ALARM_USD_PER_MONTH: Final = 0.10
POLL_USD: Final = 0.01 / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A threshold on the mean balance of the last ``span_min``, looked at every ``every_min`` minutes."""

    name: str
    says: str
    every_min: int
    span_min: int
    threshold_pct: Callable[[int], float] = lambda _gib: LOW_PCT
    over_fleet: bool = False
    is_alarm: bool = True

    def usd(self, seconds: float) -> float:
        """What it costs to watch one volume for so long."""
        if self.is_alarm:
            return ALARM_USD_PER_MONTH * seconds / (730 * 3600)
        return POLL_USD * seconds / (self.every_min * MINUTE_S)


def lasts_20_minutes_pct(size_gib: int) -> float:
    """The balance that lasts for 20 minutes of full burst; small volumes have no such balance."""
    return min(100.0, worst_drain_per_s(baseline_iops(size_gib)) * _SCALED_TO_LAST_S / CREDITS_PER_PCT)


RIVALS: Final = (
    Rival(
        name="20 %, 5 min",
        says="an alarm on each volume: mean BurstBalance of five minutes below 20 %",
        every_min=_FIVE_MIN,
        span_min=_FIVE_MIN,
    ),
    Rival(
        name="20 %, 1 min",
        says="the same on one-minute datapoints",
        every_min=1,
        span_min=1,
    ),
    Rival(
        name="% by size",
        says="an alarm at the balance that lasts for 20 minutes of full burst",
        every_min=1,
        span_min=1,
        threshold_pct=lasts_20_minutes_pct,
    ),
    Rival(
        name="fleet mean",
        says="one alarm: the mean of all volumes below 20 % for an hour; then all below 20 % are flipped",
        every_min=_FIVE_MIN,
        span_min=_HOUR_MIN,
        over_fleet=True,
    ),
    Rival(
        name="like Custodian",
        says="every five minutes, each volume's mean BurstBalance of the last hour below 20 %",
        every_min=_FIVE_MIN,
        span_min=_HOUR_MIN,
        is_alarm=False,
    ),
)


class Seen:
    """The balance as CloudWatch shows it: minutes that never appear are left out, the others are late."""

    def __init__(self, case: Case, course: Course, weather: Weather) -> None:
        shown = list(course.minima[: case.seconds // MINUTE_S])
        for since_s, until_s in weather.gaps(case.volume_id, case.seconds) if weather.gap_every_s else ():
            first, last = (int(each - START_S) // MINUTE_S for each in (since_s, until_s))
            shown[first:last] = [nan] * (min(last, len(shown)) - min(first, len(shown)))
        self._sums, self._counts = [0.0], [0]
        for pct in shown:
            is_shown = pct == pct  # noqa: PLR0124 - not a number is not shown
            self._sums.append(self._sums[-1] + (pct if is_shown else 0.0))
            self._counts.append(self._counts[-1] + is_shown)
        self.minutes = len(shown)

    def mean(self, minute: int, span_min: int) -> float | None:
        """Of the minutes shown in the span that ends with this minute; None where there is none."""
        last, first = minute + 1, max(0, minute + 1 - span_min)
        count = self._counts[last] - self._counts[first]
        return (self._sums[last] - self._sums[first]) / count if count else None


def calls_of(rival: Rival, case: Case, seen: Seen, weather: Weather) -> list[tuple[int, int]]:
    """When the threshold is crossed, and until when it stays crossed; seconds since the epoch."""
    threshold = rival.threshold_pct(case.size_gib)
    found: list[tuple[int, int]] = []
    since_s: int | None = None
    for minute in range(rival.every_min - 1, seen.minutes, rival.every_min):
        if minute + 1 < rival.span_min:
            continue
        mean = seen.mean(minute, rival.span_min)
        known_s = _known_s(minute, weather)
        if mean is not None and mean < threshold and since_s is None:
            since_s = known_s
        elif mean is not None and mean >= threshold and since_s is not None:
            found.append((since_s, known_s))
            since_s = None
    end_s = START_S + case.seconds
    if since_s is not None:
        found.append((since_s, end_s))
    return [(first_s, last_s) for first_s, last_s in found if first_s < end_s]


def calls_of_fleet(
    rival: Rival, seen: Mapping[str, Seen], cases: Sequence[Case], weather: Weather
) -> dict[str, list[tuple[int, int]]]:
    """The same of one alarm for all of them: while it stands, each volume below the threshold is called."""
    minutes = max(one.minutes for one in seen.values())
    standing = []
    for minute in range(rival.span_min - 1, minutes, rival.every_min):
        means = [
            mean
            for one in seen.values()
            if minute < one.minutes and (mean := one.mean(minute, rival.span_min)) is not None
        ]
        if means and sum(means) / len(means) < LOW_PCT:
            standing.append(minute)
    found: dict[str, list[tuple[int, int]]] = {}
    for case in cases:
        one = seen[case.volume_id]
        low = [m for m in standing if m < one.minutes and (one.mean(m, _FIVE_MIN) or inf) < LOW_PCT]
        found[case.volume_id] = _spans(low, rival.every_min, weather, START_S + case.seconds)
    return found


def _spans(minutes: Sequence[int], every_min: int, weather: Weather, end_s: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for minute in minutes:
        since_s = _known_s(minute, weather)
        until_s = min(end_s, since_s + every_min * MINUTE_S)
        if found and found[-1][1] >= since_s:
            found[-1] = (found[-1][0], until_s)
        elif since_s < end_s:
            found.append((since_s, until_s))
    return found


def _known_s(minute: int, weather: Weather) -> int:
    """When the last datapoint of a period has surely appeared."""
    return START_S + (minute + 1) * MINUTE_S + weather.lag_most_s

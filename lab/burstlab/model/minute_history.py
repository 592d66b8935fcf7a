"""What a volume did, minute by minute, kept small.

Minutes that continue a straight line (idle, steady, or a pattern that repeats every minute) are one run, so
two weeks of a calm volume are one record. A minute in which nothing was published is absent.
"""

from bisect import bisect_right
from collections import deque
from typing import Final, NamedTuple

from burstlab.model.loads.load import OPERATION_KIB

MINUTE_S: Final = 60
RETENTION_MINUTES: Final = 15 * 24 * 60
"""As long as CloudWatch keeps minutes; Source: CloudWatch API reference, GetMetricData."""
IOPS_EXCEEDED: Final = 1
THROUGHPUT_EXCEEDED: Final = 2

_CREDITS_TOLERANCE: Final = 1e-3  # a thousandth of a credit of 5.4 million is rounding
_OPS_TOLERANCE: Final = 1e-6  # relative; sums of floats in another order differ by less


class Interval(NamedTuple):
    """What a volume did from one moment to another, at constant rates; times are seconds since the origin.

    ``exceeded`` has ``IOPS_EXCEEDED`` and ``THROUGHPUT_EXCEEDED``, the limits that held it back.
    """

    start_s: float
    end_s: float
    credits_before: float
    credits_after: float
    read_iops: float
    write_iops: float
    has_balance: bool
    operation_kib: float = OPERATION_KIB
    exceeded: int = 0

    def cut(self, start_s: float, end_s: float) -> "Interval":
        """The part of it between two moments inside it."""
        slope = (self.credits_after - self.credits_before) / (self.end_s - self.start_s)
        return self._replace(
            start_s=start_s,
            end_s=end_s,
            credits_before=self.credits_before + slope * (start_s - self.start_s),
            credits_after=self.credits_after - slope * (self.end_s - end_s),
        )


class MinuteRun(NamedTuple):
    """``minute_count`` minutes from minute number ``first_minute`` on.

    Credits change by ``step`` from one minute to the next.

    ``read_kib`` and ``write_kib`` are what the operations of a minute moved. ``seconds`` is how much of each
    minute was published, ``balance_seconds`` the same for the balance; 0 is none.
    """

    first_minute: int
    minute_count: int
    minimum: float
    mean: float
    maximum: float
    step: float
    read_ops: float
    write_ops: float
    read_kib: float
    write_kib: float
    seconds: float
    balance_seconds: float
    exceeded: int = 0

    def slice(self, from_minute: int, end_minute: int) -> "MinuteRun":
        """The minutes of it numbered ``from_minute`` up to but not including ``end_minute``."""
        start_minute = max(from_minute, self.first_minute)
        change = (start_minute - self.first_minute) * self.step
        return self._replace(
            first_minute=start_minute,
            minute_count=min(end_minute, self.first_minute + self.minute_count) - start_minute,
            minimum=self.minimum + change,
            mean=self.mean + change,
            maximum=self.maximum + change,
        )


class _OpenMinute:
    """A minute being filled."""

    __slots__ = (
        "balance_seconds",
        "exceeded",
        "integral",
        "maximum",
        "minimum",
        "read_kib",
        "read_ops",
        "seconds",
        "write_kib",
        "write_ops",
    )

    def __init__(self) -> None:
        self.seconds = self.balance_seconds = self.integral = self.read_ops = self.write_ops = 0.0
        self.read_kib = self.write_kib = 0.0
        self.exceeded = 0
        self.minimum, self.maximum = float("inf"), float("-inf")

    def add(self, interval: Interval) -> None:
        seconds = interval.end_s - interval.start_s
        self.seconds += seconds
        self.exceeded |= interval.exceeded
        self.read_ops += interval.read_iops * seconds
        self.write_ops += interval.write_iops * seconds
        self.read_kib += interval.read_iops * seconds * interval.operation_kib
        self.write_kib += interval.write_iops * seconds * interval.operation_kib
        if interval.has_balance:
            self.balance_seconds += seconds
            self.integral += (interval.credits_before + interval.credits_after) / 2 * seconds
            self.minimum = min(self.minimum, interval.credits_before, interval.credits_after)
            self.maximum = max(self.maximum, interval.credits_before, interval.credits_after)

    def as_run(self, number: int) -> MinuteRun:
        balance_seconds = self.balance_seconds
        return MinuteRun(
            first_minute=number,
            minute_count=1,
            minimum=self.minimum if balance_seconds else 0.0,
            mean=self.integral / balance_seconds if balance_seconds else 0.0,
            maximum=self.maximum if balance_seconds else 0.0,
            step=0.0,
            read_ops=self.read_ops,
            write_ops=self.write_ops,
            read_kib=self.read_kib,
            write_kib=self.write_kib,
            seconds=round(self.seconds, 6),
            balance_seconds=round(balance_seconds, 6),
            exceeded=self.exceeded,
        )


class MinuteHistory:
    """The minutes of one volume, oldest first, at most fifteen days of them.

    Times are seconds since an origin on a whole minute: small numbers keep fractions of a second exact.
    """

    def __init__(self, *, recent_s: float = 0) -> None:
        """Keep spans unchanged for ``recent_s`` seconds, so that a minute that is still open can be shown."""
        self._runs: list[MinuteRun] = []
        self._open_minute: _OpenMinute | None = None
        self._open_minute_number = 0
        self._recent_intervals: deque[Interval] = deque()
        self.recent_s = recent_s

    def add(self, interval: Interval) -> None:
        """Record a span that begins at the end of the last one, or later if nothing was published between."""
        if self.recent_s:
            self._keep_recent(interval)
        self.close_until(interval.start_s)
        minute = int(interval.start_s // MINUTE_S)
        at_s = interval.start_s
        if interval.end_s < (minute + 1) * MINUTE_S:
            self._fill(minute, interval)
            return
        if at_s > minute * MINUTE_S:
            at_s = min(interval.end_s, (minute + 1) * MINUTE_S)
            self._fill(minute, interval.cut(interval.start_s, at_s))
            minute += 1
        whole_minutes = int((interval.end_s - at_s) // MINUTE_S)
        if whole_minutes > 0:
            self._append(_to_run(minute, whole_minutes, interval.cut(at_s, at_s + whole_minutes * MINUTE_S)))
            at_s += whole_minutes * MINUTE_S
        if at_s < interval.end_s:
            self._fill(minute + whole_minutes, interval.cut(at_s, interval.end_s))

    def close_until(self, at_s: float) -> None:
        """Close the open minute if it ended by ``at_s``, for minutes in which publishing stopped."""
        if self._open_minute is not None and at_s >= (self._open_minute_number + 1) * MINUTE_S:
            closed, self._open_minute = self._open_minute.as_run(self._open_minute_number), None
            self._append(closed)

    def runs(self, from_minute: int, end_minute: int) -> list[MinuteRun]:
        """Closed minutes numbered ``from_minute`` up to but not including ``end_minute``, oldest first."""
        runs_found = []
        for run in self._runs[max(0, bisect_right(self._runs, from_minute, key=_first_minute) - 1) :]:
            if run.first_minute >= end_minute:
                break
            if run.first_minute + run.minute_count > from_minute:
                runs_found.append(run.slice(from_minute, end_minute))
        return runs_found

    def last_minute(self) -> MinuteRun:
        """The last closed minute."""
        last = self._runs[-1]
        return last.slice(last.first_minute + last.minute_count - 1, last.first_minute + last.minute_count)

    def repeat_last_minute(self, times: int, step: float) -> None:
        """The last closed minute comes again ``times`` times, credits moved by ``step`` each time."""
        last_run = self.last_minute()
        self._append(
            last_run._replace(
                first_minute=last_run.first_minute + 1,
                minute_count=times,
                minimum=last_run.minimum + step,
                mean=last_run.mean + step,
                maximum=last_run.maximum + step,
                step=step,
            )
        )

    def known_at(self, minute: int, known_until_s: float) -> MinuteRun | None:
        """The minute as far as it was known at ``known_until_s``: an aggregate that may still change."""
        partial = _OpenMinute()
        for interval in self._recent_intervals:
            start = max(interval.start_s, minute * MINUTE_S)
            end = min(interval.end_s, (minute + 1) * MINUTE_S, known_until_s)
            if end > start:
                partial.add(interval.cut(start, end))
        return partial.as_run(minute) if partial.seconds else None

    def _keep_recent(self, interval: Interval) -> None:
        self._recent_intervals.append(interval)
        while self._recent_intervals[0].end_s < interval.end_s - self.recent_s:
            self._recent_intervals.popleft()

    def _fill(self, minute: int, interval: Interval) -> None:
        if self._open_minute is None:
            self._open_minute, self._open_minute_number = _OpenMinute(), minute
        self._open_minute.add(interval)
        self.close_until(interval.end_s)

    def _append(self, run: MinuteRun) -> None:
        joined = _join_runs(self._runs[-1], run) if self._runs else None
        if joined is None:
            self._runs.append(run)
        else:
            self._runs[-1] = joined
        while (
            self._runs[0].first_minute + self._runs[0].minute_count
            <= run.first_minute + run.minute_count - RETENTION_MINUTES
        ):
            del self._runs[0]


def _first_minute(run: MinuteRun) -> int:
    return run.first_minute


def _to_run(first_minute: int, minute_count: int, interval: Interval) -> MinuteRun:
    """Whole minutes of one span."""
    step = (interval.credits_after - interval.credits_before) / minute_count
    start, end = interval.credits_before, interval.credits_before + step
    return MinuteRun(
        first_minute=first_minute,
        minute_count=minute_count,
        minimum=min(start, end),
        mean=(start + end) / 2,
        maximum=max(start, end),
        step=step,
        read_ops=interval.read_iops * MINUTE_S,
        write_ops=interval.write_iops * MINUTE_S,
        read_kib=interval.read_iops * MINUTE_S * interval.operation_kib,
        write_kib=interval.write_iops * MINUTE_S * interval.operation_kib,
        seconds=MINUTE_S,
        balance_seconds=MINUTE_S if interval.has_balance else 0,
        exceeded=interval.exceeded,
    )


def _join_runs(last: MinuteRun, run: MinuteRun) -> MinuteRun | None:
    """One run of both if the second continues the first, else None."""
    is_same_coverage = (run.seconds, run.balance_seconds, run.exceeded) == (
        last.seconds,
        last.balance_seconds,
        last.exceeded,
    )
    if run.first_minute != last.first_minute + last.minute_count or not is_same_coverage:
        return None
    if not (_is_close(run.read_ops, last.read_ops) and _is_close(run.write_ops, last.write_ops)):
        return None
    if not (_is_close(run.read_kib, last.read_kib) and _is_close(run.write_kib, last.write_kib)):
        return None
    step = last.step if last.minute_count > 1 else run.minimum - last.minimum
    if run.minute_count > 1 and abs(run.step - step) > _OPS_TOLERANCE:
        return None
    drift = step * last.minute_count
    deviations = (
        run.minimum - last.minimum - drift,
        run.mean - last.mean - drift,
        run.maximum - last.maximum - drift,
    )
    if max(map(abs, deviations)) > _CREDITS_TOLERANCE:
        return None
    return last._replace(minute_count=last.minute_count + run.minute_count, step=step)


def _is_close(first: float, second: float) -> bool:
    return abs(first - second) <= _OPS_TOLERANCE * max(1.0, abs(first))

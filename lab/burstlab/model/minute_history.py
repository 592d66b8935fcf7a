"""What a volume did, minute by minute, kept small.

Minutes that continue a straight line (idle, steady, or a pattern that repeats every minute) are one run, so a
calm volume's two weeks are one record. A minute in which nothing was published is absent.
"""

from bisect import bisect_right
from collections import deque
from typing import Final, NamedTuple

from burstlab.model.load import OPERATION_KIB

MINUTE_S: Final = 60
KEPT_MINUTES: Final = 15 * 24 * 60
_SAME_CREDITS: Final = 1e-3
_SAME_OPS: Final = 1e-6


class Stretch(NamedTuple):
    """What a volume did from one moment to another, at constant rates; times are seconds since the origin."""

    start_s: float
    end_s: float
    credits_before: float
    credits_after: float
    read_iops: float
    write_iops: float
    has_balance: bool
    operation_kib: float = OPERATION_KIB

    def cut(self, start_s: float, end_s: float) -> "Stretch":
        """The part of it between two moments inside it."""
        slope = (self.credits_after - self.credits_before) / (self.end_s - self.start_s)
        return self._replace(
            start_s=start_s,
            end_s=end_s,
            credits_before=self.credits_before + slope * (start_s - self.start_s),
            credits_after=self.credits_after - slope * (self.end_s - end_s),
        )


class Run(NamedTuple):
    """``minutes`` minutes from minute number ``first`` on; credits move by ``step`` from one to the next.

    ``read_kib`` and ``write_kib`` are what the operations of a minute moved. ``seconds`` is how much of each
    minute was published, ``balance_seconds`` the same for the balance; 0 is none.
    """

    first: int
    minutes: int
    least: float
    mean: float
    most: float
    step: float
    read_ops: float
    write_ops: float
    read_kib: float
    write_kib: float
    seconds: float
    balance_seconds: float

    def between(self, first: int, last: int) -> "Run":
        """The minutes of it numbered ``first`` up to but not including ``last``."""
        start = max(first, self.first)
        moved = (start - self.first) * self.step
        return self._replace(
            first=start,
            minutes=min(last, self.first + self.minutes) - start,
            least=self.least + moved,
            mean=self.mean + moved,
            most=self.most + moved,
        )


class _Open:
    """A minute being filled."""

    __slots__ = (
        "balance_seconds",
        "integral",
        "least",
        "most",
        "read_kib",
        "read_ops",
        "seconds",
        "write_kib",
        "write_ops",
    )

    def __init__(self) -> None:
        self.seconds = self.balance_seconds = self.integral = self.read_ops = self.write_ops = 0.0
        self.read_kib = self.write_kib = 0.0
        self.least, self.most = float("inf"), float("-inf")

    def add(self, part: Stretch) -> None:
        seconds = part.end_s - part.start_s
        self.seconds += seconds
        self.read_ops += part.read_iops * seconds
        self.write_ops += part.write_iops * seconds
        self.read_kib += part.read_iops * seconds * part.operation_kib
        self.write_kib += part.write_iops * seconds * part.operation_kib
        if part.has_balance:
            self.balance_seconds += seconds
            self.integral += (part.credits_before + part.credits_after) / 2 * seconds
            self.least = min(self.least, part.credits_before, part.credits_after)
            self.most = max(self.most, part.credits_before, part.credits_after)

    def as_run(self, number: int) -> Run:
        held = self.balance_seconds
        return Run(
            first=number,
            minutes=1,
            least=self.least if held else 0.0,
            mean=self.integral / held if held else 0.0,
            most=self.most if held else 0.0,
            step=0.0,
            read_ops=self.read_ops,
            write_ops=self.write_ops,
            read_kib=self.read_kib,
            write_kib=self.write_kib,
            seconds=round(self.seconds, 6),
            balance_seconds=round(held, 6),
        )


class History:
    """The minutes of one volume, oldest first, at most fifteen days of them.

    Times are seconds since an origin on a whole minute: small numbers keep fractions of a second exact.
    """

    def __init__(self, *, recent_s: float = 0) -> None:
        """Keep stretches as they were for ``recent_s`` seconds, so that a still-open minute can be shown."""
        self._runs: list[Run] = []
        self._open: _Open | None = None
        self._open_number = 0
        self._recent: deque[Stretch] = deque()
        self.recent_s = recent_s

    def add(self, stretch: Stretch) -> None:
        """Record a stretch that begins where the last ended or, after a time without publishing, later."""
        if self.recent_s:
            self._remember(stretch)
        self.close_until(stretch.start_s)
        number = int(stretch.start_s // MINUTE_S)
        at_s = stretch.start_s
        if stretch.end_s < (number + 1) * MINUTE_S:
            self._fill(number, stretch)
            return
        if at_s > number * MINUTE_S:
            at_s = min(stretch.end_s, (number + 1) * MINUTE_S)
            self._fill(number, stretch.cut(stretch.start_s, at_s))
            number += 1
        whole = int((stretch.end_s - at_s) // MINUTE_S)
        if whole > 0:
            self._append(_line(number, whole, stretch.cut(at_s, at_s + whole * MINUTE_S)))
            at_s += whole * MINUTE_S
        if at_s < stretch.end_s:
            self._fill(number + whole, stretch.cut(at_s, stretch.end_s))

    def close_until(self, at_s: float) -> None:
        """Close the open minute if it ended by ``at_s``; for those in which publishing stopped half-way."""
        if self._open is not None and at_s >= (self._open_number + 1) * MINUTE_S:
            closed, self._open = self._open.as_run(self._open_number), None
            self._append(closed)

    def runs(self, first: int, last: int) -> list[Run]:
        """Closed minutes numbered ``first`` up to but not including ``last``, oldest first."""
        found = []
        for run in self._runs[max(0, bisect_right(self._runs, first, key=_first_of) - 1) :]:
            if run.first >= last:
                break
            if run.first + run.minutes > first:
                found.append(run.between(first, last))
        return found

    def newest(self) -> Run:
        """The last closed minute."""
        last = self._runs[-1]
        return last.between(last.first + last.minutes - 1, last.first + last.minutes)

    def repeat(self, times: int, step: float) -> None:
        """The last closed minute comes again ``times`` times, credits moved by ``step`` each time."""
        again = self.newest()
        self._append(
            again._replace(
                first=again.first + 1,
                minutes=times,
                least=again.least + step,
                mean=again.mean + step,
                most=again.most + step,
                step=step,
            )
        )

    def known_at(self, number: int, seen_s: float) -> Run | None:
        """The minute as far as it was known at ``seen_s``: an aggregate that may still change."""
        partial = _Open()
        for part in self._recent:
            start = max(part.start_s, number * MINUTE_S)
            end = min(part.end_s, (number + 1) * MINUTE_S, seen_s)
            if end > start:
                partial.add(part.cut(start, end))
        return partial.as_run(number) if partial.seconds else None

    def _remember(self, stretch: Stretch) -> None:
        self._recent.append(stretch)
        while self._recent[0].end_s < stretch.end_s - self.recent_s:
            self._recent.popleft()

    def _fill(self, number: int, part: Stretch) -> None:
        if self._open is None:
            self._open, self._open_number = _Open(), number
        self._open.add(part)
        self.close_until(part.end_s)

    def _append(self, run: Run) -> None:
        joined = _joined(self._runs[-1], run) if self._runs else None
        if joined is None:
            self._runs.append(run)
        else:
            self._runs[-1] = joined
        while self._runs[0].first + self._runs[0].minutes <= run.first + run.minutes - KEPT_MINUTES:
            del self._runs[0]


def _first_of(run: Run) -> int:
    return run.first


def _line(number: int, minutes: int, part: Stretch) -> Run:
    """Whole minutes of one stretch."""
    step = (part.credits_after - part.credits_before) / minutes
    start, end = part.credits_before, part.credits_before + step
    return Run(
        first=number,
        minutes=minutes,
        least=min(start, end),
        mean=(start + end) / 2,
        most=max(start, end),
        step=step,
        read_ops=part.read_iops * MINUTE_S,
        write_ops=part.write_iops * MINUTE_S,
        read_kib=part.read_iops * MINUTE_S * part.operation_kib,
        write_kib=part.write_iops * MINUTE_S * part.operation_kib,
        seconds=MINUTE_S,
        balance_seconds=MINUTE_S if part.has_balance else 0,
    )


def _joined(last: Run, run: Run) -> Run | None:
    """One run of both where the second goes on as the first did, else None."""
    published = (run.seconds, run.balance_seconds) == (last.seconds, last.balance_seconds)
    if run.first != last.first + last.minutes or not published:
        return None
    if not (_near(run.read_ops, last.read_ops) and _near(run.write_ops, last.write_ops)):
        return None
    if not (_near(run.read_kib, last.read_kib) and _near(run.write_kib, last.write_kib)):
        return None
    step = last.step if last.minutes > 1 else run.least - last.least
    if run.minutes > 1 and abs(run.step - step) > _SAME_OPS:
        return None
    drift = step * last.minutes
    off_line = (run.least - last.least - drift, run.mean - last.mean - drift, run.most - last.most - drift)
    if max(map(abs, off_line)) > _SAME_CREDITS:
        return None
    return last._replace(minutes=last.minutes + run.minutes, step=step)


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _SAME_OPS * max(1.0, abs(one))

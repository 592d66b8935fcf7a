"""What the two buckets of an instance type would have done under a recorded load.

Source of the method: the AWS Compute Blog of 2026-06-17, "Simulating Amazon EC2 EBS burst credits before
downsizing an instance". Each five minutes drain or refill each bucket. Beyond the blog:

- The two buckets act on one load. If one of them is empty, the load that it holds back does not reach the
  other one.
- Load that is held back waits and is served in its order, as soon as the limits allow it. Nothing is lost, so
  a bucket stays empty until the queue is served. This is how a job behaves that takes longer; an application
  that gives up would end the spell earlier.
- Within an interval the load is even. ``lowest_if_bursts`` is the bound for any other shape.
- In an interval without data, the balance stays what it was: unknown load neither spends nor refills.

Worked example: m5.large sustains 3,600 operations a second, bursts to 18,750, and holds (18,750 - 3,600) x
1,800 = 27,270,000 operations. At 9,660 a second the bucket loses 6,060 a second and is empty after 75
minutes. In the next 25 minutes, 1,500 x 6,060 = 9,090,000 operations have to wait. If the load then ends,
they are served at 3,600 a second in 42 minutes. So the spell lasts 67 minutes.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

from burstwatch.core.buckets.bucket import Bucket
from burstwatch.core.buckets.series import Series

MERGE_GAP_S: Final = 900
"""Spells less than this apart are one: three datapoints. A judgement; people see one incident."""

_TOLERANCE: Final = 1e-9
"""Rounding errors, as a share of a rate or of a second."""

_MAX_SPEED: Final = 1e6
"""Load that is almost nothing is served a million times as fast as it came, not infinitely fast."""


class InstanceBucket(StrEnum):
    """The buckets of an instance, by their public names."""

    IO = "instance-io"
    THROUGHPUT = "instance-throughput"

    @property
    def label(self) -> str:
        return "I/O" if self is InstanceBucket.IO else "throughput"

    @property
    def metric(self) -> str:
        """The metric that shows its balance in CloudWatch."""
        return "EBSIOBalance%" if self is InstanceBucket.IO else "EBSByteBalance%"


class LoadInterval(NamedTuple):
    """What was read and written from ``start_s`` (seconds since the epoch, UTC) for ``duration_s``."""

    start_s: int
    duration_s: int
    ops: float
    mib: float

    @property
    def end_s(self) -> int:
        return self.start_s + self.duration_s

    def amount(self, kind: InstanceBucket) -> float:
        """How much it is in the unit of a bucket: operations, or MiB."""
        return self.ops if kind is InstanceBucket.IO else self.mib

    def rate(self, kind: InstanceBucket) -> float:
        """The mean per second in the unit of a bucket."""
        return self.amount(kind) / self.duration_s


class InstanceBuckets(NamedTuple):
    """Both buckets of an instance type, limited by its volumes if these are known."""

    io: Bucket
    throughput: Bucket

    def of(self, kind: InstanceBucket) -> Bucket:
        return self.io if kind is InstanceBucket.IO else self.throughput


@dataclass(slots=True, kw_only=True)
class EmptySpell:
    """A time in which a bucket was empty, and the load was held back to the baseline.

    ``empty_s`` is less than the time from ``start_s`` to ``end_s`` if the spell has gaps shorter than
    ``MERGE_GAP_S``. ``max_waiting`` is the most that had to wait at once, in the unit of the bucket; 0 in a
    list of the spells of both buckets.
    """

    start_s: float
    end_s: float
    empty_s: float
    max_waiting: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketResult:
    """What one bucket would have done; percentages are of its capacity.

    ``balances_pct`` are the balances at the ends of the intervals. ``lowest_pct`` is None for a type without
    this bucket, which sustains its maximum. ``at_maximum_s`` is how long the load was held back although the
    bucket was not empty: it asked for more than the maximum of the type.
    """

    spells: Sequence[EmptySpell]
    lowest_pct: float | None
    at_maximum_s: float
    balances_pct: Sequence[float]

    @property
    def empty_s(self) -> float:
        return sum(spell.empty_s for spell in self.spells)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """What both buckets would have done; ``spells`` are the times in which at least one was empty."""

    io: BucketResult
    throughput: BucketResult
    spells: Sequence[EmptySpell]

    def of(self, kind: InstanceBucket) -> BucketResult:
        return self.io if kind is InstanceBucket.IO else self.throughput

    @property
    def empty_s(self) -> float:
        return sum(spell.empty_s for spell in self.spells)

    @property
    def at_maximum_s(self) -> float:
        """How long the load asked for more than the maximum of the type."""
        return max(self.io.at_maximum_s, self.throughput.at_maximum_s)

    @property
    def is_sufficient(self) -> bool:
        """Whether nothing would have been held back."""
        return not self.spells and not self.at_maximum_s

    def buckets_of(self, spell: EmptySpell) -> list[InstanceBucket]:
        """Which buckets were empty in one of ``spells``."""
        return [
            kind
            for kind in InstanceBucket
            if any(own.start_s < spell.end_s and own.end_s > spell.start_s for own in self.of(kind).spells)
        ]


def simulate(
    load: Sequence[LoadInterval], buckets: InstanceBuckets, *, resets_at_s: Sequence[int] = ()
) -> SimulationResult:
    """Play the load, in the order of time, on two buckets that are full at first.

    Args:
        load: intervals that do not overlap; those that are missing leave the balances as they are.
        buckets: the buckets of a type. ``burst_per_s`` is the most that it serves.
        resets_at_s: when AWS fills both buckets, in order; none if it never does.
    """
    run = _Run(buckets)
    for piece in _split(load, resets_at_s):
        if piece.is_reset:
            run.refill()
        run.play(piece)
    return run.result()


def measured_result(
    simulated: SimulationResult,
    load: Sequence[LoadInterval],
    balances: Mapping[InstanceBucket, Series],
    empty_pct: float,
) -> SimulationResult:
    """What the buckets did by their own balances, where CloudWatch has these; the rest is simulated.

    The load that was served while a bucket was empty is not what was wanted. So to play it again shows too
    little. How much had to wait is not known either: ``max_waiting`` is 0.
    """
    empty = {
        kind: [at_s for at_s, pct in zip(series.starts_at_s, series.values, strict=True) if pct <= empty_pct]
        for kind, series in balances.items()
    }
    results = {
        kind: replace(
            simulated.of(kind),
            spells=_spells_at(empty[kind], series.period_s),
            lowest_pct=min(series.values),
            balances_pct=_balances_at(load, series),
        )
        if (series := balances[kind])
        else simulated.of(kind)
        for kind in InstanceBucket
    }
    starts_s = sorted(set().union(*empty.values()))
    period_s = max(series.period_s for series in balances.values())
    return SimulationResult(
        io=results[InstanceBucket.IO],
        throughput=results[InstanceBucket.THROUGHPUT],
        spells=_spells_at(starts_s, period_s),
    )


def _balances_at(load: Sequence[LoadInterval], series: Series) -> list[float]:
    """The balance in each interval, or else the one before it; 100 before the first."""
    known, latest_pct, balances_pct = dict(zip(series.starts_at_s, series.values, strict=True)), 100.0, []
    for interval in load:
        latest_pct = known.get(interval.start_s, latest_pct)
        balances_pct.append(latest_pct)
    return balances_pct


def _spells_at(starts_s: Sequence[int], period_s: int) -> list[EmptySpell]:
    spells: list[EmptySpell] = []
    for start_s in starts_s:
        _extend(spells, start_s, period_s, 0.0)
    return spells


def lowest_if_bursts(
    load: Sequence[LoadInterval], kind: InstanceBucket, bucket: Bucket, *, resets_at_s: Sequence[int] = ()
) -> float:
    """The least balance in per cent, however the load of each interval is spread within it; at least 0.

    Worst for the bucket is one burst at ``burst_per_s``. It comes at the end of an interval, after the bucket
    became full and refill was lost, or at its start, before anything was refilled. The bound takes both at
    once. If it is above 0, no shape of the load empties the bucket. Load that even a burst cannot serve
    within its interval goes on in the next one.

    Example: on m5.large, five minutes with a mean of 3,600 operations a second leave the bucket full if they
    are even. A burst of 57.6 s at 18,750 takes 57.6 x 15,150 = 872,640 operations of 27,270,000 at once:
    96.8 % are left.
    """
    drain_per_s = bucket.highest_drain_per_s
    if not drain_per_s or not bucket.capacity:
        return 100.0
    level = lowest = bucket.capacity
    waiting_s = 0.0
    for piece in _split(load, resets_at_s, cuts_intervals=False):
        interval = piece.interval
        work_s = waiting_s + interval.amount(kind) / bucket.burst_per_s
        burst_s = min(interval.duration_s, work_s)
        waiting_s = work_s - burst_s
        lowest = min(lowest, level - drain_per_s * burst_s)
        refilled = level + bucket.refill_per_s * (interval.duration_s - burst_s)
        before_burst = bucket.capacity if piece.is_reset else min(bucket.capacity, refilled)
        level = before_burst - drain_per_s * burst_s
        lowest = min(lowest, level)
        if lowest <= 0:
            return 0.0
    return 100 * lowest / bucket.capacity


class _Piece(NamedTuple):
    """An interval or a part of one; with ``is_reset`` the buckets are filled as it begins."""

    interval: LoadInterval
    is_reset: bool
    is_last: bool


def _split(
    load: Sequence[LoadInterval], resets_at_s: Sequence[int], *, cuts_intervals: bool = True
) -> Iterator[_Piece]:
    """The intervals, cut where the buckets are filled."""
    resets = deque(resets_at_s)
    for interval in load:
        if not resets:
            yield _Piece(interval, is_reset=False, is_last=True)
            continue
        is_reset = False
        start_s = interval.start_s
        while resets and resets[0] < interval.end_s:
            reset_at_s = resets.popleft()
            if cuts_intervals and reset_at_s > start_s:
                yield _Piece(_cut(interval, start_s, reset_at_s), is_reset, is_last=False)
                start_s = reset_at_s
            is_reset = True
        yield _Piece(_cut(interval, start_s, interval.end_s), is_reset, is_last=True)


def _cut(interval: LoadInterval, start_s: int, end_s: int) -> LoadInterval:
    if (start_s, end_s) == (interval.start_s, interval.end_s):
        return interval
    share = (end_s - start_s) / interval.duration_s
    return LoadInterval(start_s, end_s - start_s, interval.ops * share, interval.mib * share)


@dataclass(slots=True)
class _Chunk:
    """Load that waits: ``seconds`` of a demand with these rates."""

    iops: float
    mib_s: float
    seconds: float


class _Level:
    """One bucket while the load is played."""

    __slots__ = ("at_maximum_s", "balances_pct", "bucket", "credits", "lowest", "spells")

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.credits = self.lowest = bucket.capacity
        self.spells: list[EmptySpell] = []
        self.at_maximum_s = 0.0
        self.balances_pct: list[float] = []

    @property
    def is_empty(self) -> bool:
        return self.bucket.capacity > 0 and self.credits <= 0

    @property
    def limit_per_s(self) -> float:
        return self.bucket.refill_per_s if self.is_empty else self.bucket.burst_per_s

    def net_per_s(self, served_per_s: float) -> float:
        """The change of the credits per second, before the bucket is full."""
        net = self.bucket.refill_per_s - served_per_s
        return 0.0 if abs(net) <= _TOLERANCE * self.bucket.refill_per_s else net

    def seconds_to_empty(self, served_per_s: float) -> float:
        net = self.net_per_s(served_per_s)
        return self.credits / -net if net < 0 and self.credits > 0 else inf

    def credits_after(self, rate: float, seconds: float) -> float | None:
        """The credits if all of a load is served; None if the bucket holds it back before it ends."""
        if rate > self.limit_per_s:
            return None
        if self.credits == self.bucket.capacity and rate <= self.bucket.refill_per_s:
            return self.credits  # it stays full, as it mostly is
        net = self.net_per_s(rate)
        if net < 0 < self.credits and self.credits / -net < seconds:
            return None
        return self._credits_in(net, seconds)

    def advance(self, served_per_s: float, seconds: float) -> None:
        self.set_credits(self._credits_in(self.net_per_s(served_per_s), seconds))

    def set_credits(self, credits_left: float) -> None:
        self.credits = credits_left
        self.lowest = min(self.lowest, credits_left)

    def _credits_in(self, net_per_s: float, seconds: float) -> float:
        capacity = self.bucket.capacity
        after = min(capacity, self.credits + net_per_s * seconds)
        return after if after > _TOLERANCE * capacity else 0.0

    def result(self) -> BucketResult:
        capacity = self.bucket.capacity
        return BucketResult(
            spells=self.spells,
            lowest_pct=100 * self.lowest / capacity if capacity else None,
            at_maximum_s=self.at_maximum_s,
            balances_pct=self.balances_pct,
        )


@dataclass(slots=True)
class _Run:
    """Both buckets, and what waits of earlier intervals."""

    buckets: InstanceBuckets
    io: _Level = field(init=False)
    throughput: _Level = field(init=False)
    spells: list[EmptySpell] = field(default_factory=list)
    queue: deque[_Chunk] = field(default_factory=deque)
    waiting_ops: float = 0.0
    waiting_mib: float = 0.0

    def __post_init__(self) -> None:
        self.io, self.throughput = _Level(self.buckets.io), _Level(self.buckets.throughput)

    def refill(self) -> None:
        for level in (self.io, self.throughput):
            level.credits = level.bucket.capacity

    def play(self, piece: _Piece) -> None:
        interval = piece.interval
        iops, mib_s = interval.ops / interval.duration_s, interval.mib / interval.duration_s
        if not self._play_at_once(iops, mib_s, interval.duration_s):
            self._play_in_steps(iops, mib_s, interval)
        if piece.is_last:
            for level in (self.io, self.throughput):
                if level.bucket.capacity:
                    level.balances_pct.append(100 * level.credits / level.bucket.capacity)

    def result(self) -> SimulationResult:
        return SimulationResult(io=self.io.result(), throughput=self.throughput.result(), spells=self.spells)

    def _play_at_once(self, iops: float, mib_s: float, duration_s: float) -> bool:
        """Serve all of the load if nothing waits and no bucket limits it; that is almost always so."""
        if self.queue:
            return False
        io_credits = self.io.credits_after(iops, duration_s)
        throughput_credits = self.throughput.credits_after(mib_s, duration_s)
        if io_credits is None or throughput_credits is None:
            return False
        self.io.set_credits(io_credits)
        self.throughput.set_credits(throughput_credits)
        return True

    def _play_in_steps(self, iops: float, mib_s: float, interval: LoadInterval) -> None:
        """From event to event: a bucket is empty, what waited is served, or the interval ends.

        ``arrived`` is what waits of this interval itself, in seconds of its load.
        """
        offset_s, arrived = 0.0, 0.0
        arrival = 1.0 if iops or mib_s else 0.0
        while interval.duration_s - offset_s > _TOLERANCE:
            is_held_back = bool(self.queue or arrived)
            chunk = self.queue[0] if self.queue else _Chunk(iops, mib_s, arrived)
            speed = self._speed(chunk)
            step_s = interval.duration_s - offset_s
            if self.queue:
                step_s = min(step_s, chunk.seconds / speed)
            elif not arrived:
                speed = min(1.0, speed)
            elif speed > 1:
                step_s = min(step_s, arrived / (speed - 1))
            served_iops, served_mib_s = chunk.iops * speed, chunk.mib_s * speed
            step_s = min(
                step_s, self.io.seconds_to_empty(served_iops), self.throughput.seconds_to_empty(served_mib_s)
            )
            if self.queue:
                arrived += arrival * step_s
                chunk.seconds -= speed * step_s
                if chunk.seconds <= _TOLERANCE:
                    self.queue.popleft()
            else:
                arrived += (arrival - speed) * step_s if arrival else 0.0
            arrived = arrived if arrived > _TOLERANCE else 0.0
            is_waiting = bool(self.queue or arrived)
            self.waiting_ops = max(0.0, self.waiting_ops + (iops - served_iops) * step_s) * is_waiting
            self.waiting_mib = max(0.0, self.waiting_mib + (mib_s - served_mib_s) * step_s) * is_waiting
            start_s = interval.start_s + offset_s
            is_held_back = is_held_back or is_waiting
            self._note(start_s, step_s, served_iops, served_mib_s, is_held_back=is_held_back)
            self.io.advance(served_iops, step_s)
            self.throughput.advance(served_mib_s, step_s)
            offset_s += step_s
        if arrived:
            self.queue.append(_Chunk(iops, mib_s, arrived))

    def _speed(self, chunk: _Chunk) -> float:
        """How many seconds of a demand are served in a second."""
        return min(
            _MAX_SPEED,
            self.io.limit_per_s / chunk.iops if chunk.iops else inf,
            self.throughput.limit_per_s / chunk.mib_s if chunk.mib_s else inf,
        )

    def _note(
        self, start_s: float, step_s: float, served_iops: float, served_mib_s: float, *, is_held_back: bool
    ) -> None:
        is_any_empty = False
        for level, served_per_s, waiting in (
            (self.io, served_iops, self.waiting_ops),
            (self.throughput, served_mib_s, self.waiting_mib),
        ):
            if level.is_empty and level.net_per_s(served_per_s) <= 0:
                is_any_empty = True
                _extend(level.spells, start_s, step_s, waiting)
            elif is_held_back and served_per_s >= level.bucket.burst_per_s * (1 - _TOLERANCE):
                level.at_maximum_s += step_s
        if is_any_empty:
            _extend(self.spells, start_s, step_s, 0.0)


def _extend(spells: list[EmptySpell], start_s: float, seconds: float, waiting: float) -> None:
    """Add a time to the last spell, or begin another one."""
    if not spells or start_s - spells[-1].end_s >= MERGE_GAP_S:
        spells.append(EmptySpell(start_s=start_s, end_s=start_s, empty_s=0.0))
    spell = spells[-1]
    spell.end_s = start_s + seconds
    spell.empty_s += seconds
    spell.max_waiting = max(spell.max_waiting, waiting)

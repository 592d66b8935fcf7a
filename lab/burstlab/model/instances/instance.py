"""The instances that volumes are attached to, with their own buckets, and what CloudWatch shows of those."""

from bisect import insort
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from typing import Final, NamedTuple

from burstlab.model.bucket import FULL_CREDITS
from burstlab.model.instances.instance_types import RateLimit, ebs_limits
from burstlab.model.minute_history import MINUTE_S, Interval, MinuteHistory
from burstlab.model.simulated_volume import SimulatedVolume
from burstlab.model.volume import MetricFault

DEFAULT_INSTANCE_TYPE: Final = "m5.24xlarge"
"""Sustains 80,000 operations and 2,375 MB a second, so it holds back no volume that is alone on it."""
STATES: Final = ("running", "stopped", "terminated")
_FULL_PCT: Final = 100.0
_ROUNDING: Final = 1e-9


class InstanceBalances(NamedTuple):
    """What CloudWatch shows of an instance's buckets from a moment on, whatever they hold.

    None is for a bucket that is not published.
    """

    since_s: int
    io_pct: float | None
    byte_pct: float | None


BALANCES: Final = {"EBSIOBalance%": attrgetter("io_pct"), "EBSByteBalance%": attrgetter("byte_pct")}
"""The metrics of an instance's buckets, with the field for each."""


class InstanceState(NamedTuple):
    """What an instance is from a moment on."""

    since_s: float
    state: str
    instance_type: str
    detailed_monitoring: bool


@dataclass(slots=True)
class Hosting:
    """A volume on an instance from one moment to another; ``share`` of its operations come from there."""

    volume: SimulatedVolume
    from_s: int
    share: float
    to_s: int | None = None

    def covers(self, minute: int) -> bool:
        """Whether it is there in the minute with this number, or in a part of it."""
        starts_s = minute * MINUTE_S
        return self.from_s < starts_s + MINUTE_S and (self.to_s is None or self.to_s > starts_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitTruth:
    """A limit of an instance at a moment, and its bucket: operations, or MiB per second.

    ``balance_pct`` is None without a bucket. ``empty_since`` is None unless it is empty; ``first_empty_at``
    remains.
    """

    limit: float
    balance_pct: float | None
    empty_since: datetime | None
    first_empty_at: datetime | None


class InstanceBucket:
    """One of the buckets of an instance, in operations or in KiB, and the limit that it gives.

    Up to ``rate.baseline`` a second is served always, up to ``rate.maximum`` while there are credits; the
    difference to the baseline is taken from the bucket, or refills it. A type whose rates are equal has no
    bucket, only the limit.
    """

    __slots__ = ("credits", "driven", "empty_since_s", "first_empty_at_s", "history", "rate", "served")

    def __init__(self, rate: RateLimit, balance_pct: float, history: MinuteHistory) -> None:
        self.rate = rate
        self.credits = rate.capacity * balance_pct / _FULL_PCT
        self.history = history
        self.served = self.driven = 0.0
        self.first_empty_at_s: int | None = None
        self.empty_since_s: int | None = None

    @property
    def balance_pct(self) -> float | None:
        """None without a bucket."""
        return _FULL_PCT * self.credits / self.rate.capacity if self.rate.capacity else None

    @property
    def is_full(self) -> bool:
        return self.credits >= self.rate.capacity

    @property
    def limit(self) -> float:
        """The most that it allows in the second that comes, of which the credits may last for a part only."""
        return min(self.rate.maximum, self.rate.baseline + self.credits)

    def scaled(self, amount: float) -> float:
        """In credits as a history has them: shares of the bucket."""
        return amount / self.rate.capacity * FULL_CREDITS if self.rate.capacity else 0.0

    def describe(self, unit: float = 1.0) -> LimitTruth:
        """The truth, in units of this many operations or KiB."""
        return LimitTruth(
            limit=self.limit / unit,
            balance_pct=self.balance_pct,
            empty_since=_to_datetime(self.empty_since_s),
            first_empty_at=_to_datetime(self.first_empty_at_s),
        )

    def seconds_to_change(self, served: float, driven: float) -> float:
        """When it is full, or allows less than is driven, if this is served and driven a second.

        The limit of the last credits changes with each second in which they do.
        """
        surplus = self.rate.baseline - served
        if driven > self.limit < self.rate.maximum and abs(surplus) > _ROUNDING * self.rate.baseline:
            return 0.0
        if surplus < 0:
            needed = min(driven, self.rate.maximum) - self.rate.baseline
            return max(0.0, self.credits - needed) / -surplus
        missing = self.rate.capacity - self.credits
        return missing / surplus if surplus and missing else float("inf")

    def serve(self, at_s: int, seconds: int, *, served: float, driven: float) -> None:
        """Serve a total of ``served`` in whole seconds in which volumes tried ``driven`` a second."""
        credits_before, is_exceeded = self.credits, driven > self.limit * (1 + _ROUNDING)
        surplus = self.rate.baseline * seconds - served
        self.credits = min(self.rate.capacity, max(0.0, credits_before + surplus))
        self.served, self.driven = served / seconds, driven
        self.history.add(
            Interval(
                at_s,
                at_s + seconds,
                self.scaled(credits_before),
                self.scaled(self.credits),
                0,
                0,
                has_balance=True,
                exceeded=int(is_exceeded),
            )
        )
        self._note_empty(at_s + seconds)

    def repeat(self, times: int, credits_step: float) -> None:
        """The last minute comes again, with the bucket moved by this much each time."""
        self.history.repeat_last_minute(times, self.scaled(credits_step))
        self.credits = min(self.rate.capacity, max(0.0, self.credits + times * credits_step))

    def _note_empty(self, at_s: int) -> None:
        if self.credits > 0 or not self.rate.capacity:
            self.empty_since_s = None
        elif self.empty_since_s is None:
            self.empty_since_s = at_s
            self.first_empty_at_s = self.first_empty_at_s or at_s


@dataclass(slots=True, kw_only=True, eq=False)
class LabInstance:
    """An instance the fleet's volumes hang on; ``state`` is EC2's: running, stopped, terminated.

    ``io_pct`` and ``byte_pct`` are what its buckets hold at first, if its type has any. A type that EC2 does
    not know has no limits. ``own_volumes`` are deleted with it; ``script`` is its user data. ``balances`` are
    shown in place of what the buckets hold.
    """

    instance_id: str
    launched_at: datetime
    state: str = "running"
    instance_type: str = DEFAULT_INSTANCE_TYPE
    tags: dict[str, str]
    detailed_monitoring: bool = False
    io_pct: float = _FULL_PCT
    byte_pct: float = _FULL_PCT
    balances: list[InstanceBalances] = field(default_factory=list)
    own_volumes: set[str] = field(default_factory=set)
    script: str = ""
    hostings: list[Hosting] = field(default_factory=list, init=False, repr=False)
    states: list[InstanceState] = field(default_factory=list, init=False, repr=False)
    gaps: list[tuple[float, float]] = field(default_factory=list, init=False)
    balance_gaps: list[tuple[float, float]] = field(default_factory=list, init=False)
    metric_fault: MetricFault | None = field(default=None, init=False)
    histories: tuple[MinuteHistory, MinuteHistory] = field(init=False, repr=False)
    _buckets: tuple[InstanceBucket, InstanceBucket] | None = field(default=None, init=False)
    _bucket_type: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise ValueError(f"{self.instance_id}: state is {self.state!r}: give one of {', '.join(STATES)}")
        for name in ("io_pct", "byte_pct"):
            _check_pct(name, getattr(self, name))
        self.histories = MinuteHistory(), MinuteHistory()
        self.note_state(float("-inf"))

    @property
    def buckets(self) -> tuple[InstanceBucket, InstanceBucket] | None:
        """Of operations and of KiB; None for a type without limits of its own."""
        if self._bucket_type != self.instance_type:
            limits = ebs_limits(self.instance_type)
            self._bucket_type = self.instance_type
            self._buckets = limits and (
                InstanceBucket(limits.io, self.io_pct, self.histories[0]),
                InstanceBucket(limits.kib, self.byte_pct, self.histories[1]),
            )
        return self._buckets

    @property
    def volumes(self) -> list[SimulatedVolume]:
        """Those that are attached to it now."""
        return [hosting.volume for hosting in self.hostings if hosting.to_s is None]

    @property
    def starts_at_s(self) -> int | None:
        """When CloudWatch begins to have metrics of it: with its first volume."""
        return min((hosting.from_s for hosting in self.hostings), default=None)

    def note_state(self, at_s: float) -> None:
        """Remember what it is from this moment on."""
        self.states.append(InstanceState(at_s, self.state, self.instance_type, self.detailed_monitoring))

    def change_type(self, instance_type: str) -> None:
        """Be of another type, whose buckets are full."""
        self.instance_type, self.io_pct, self.byte_pct = instance_type, _FULL_PCT, _FULL_PCT

    def fill(self, io_pct: float | None, byte_pct: float | None) -> None:
        """Put its buckets to these levels now; None leaves one as it is.

        Raises:
            ValueError: one is not a percentage, or the type has no such bucket.
        """
        for name, pct, bucket in zip(
            ("io_pct", "byte_pct"), (io_pct, byte_pct), self.buckets or (None, None), strict=True
        ):
            if pct is None:
                continue
            _check_pct(name, pct)
            if bucket is None or not bucket.rate.capacity:
                raise ValueError(f"{self.instance_id}: {self.instance_type} has no bucket for {name}")
            bucket.credits = bucket.rate.capacity * pct / _FULL_PCT

    def set_balances(self, new_balances: InstanceBalances) -> None:
        """Publish this from its moment on.

        Raises:
            ValueError: one is not a percentage.
        """
        for name, value in (("io_pct", new_balances.io_pct), ("byte_pct", new_balances.byte_pct)):
            if value is not None:
                _check_pct(name, value)
        insort(self.balances, new_balances, key=attrgetter("since_s"))

    def balances_between(self, from_s: int, to_s: int) -> list[InstanceBalances]:
        """What was set by ``set_balances`` and is shown between two moments."""
        last_before = [published for published in self.balances if published.since_s <= from_s][-1:]
        return last_before + [published for published in self.balances if from_s < published.since_s < to_s]

    def states_between(self, from_s: int, to_s: int) -> list[InstanceState]:
        """What it was between two moments, oldest first."""
        if len(self.states) == 1:
            return self.states
        first = max(index for index, noted in enumerate(self.states) if noted.since_s <= from_s)
        return [noted for noted in self.states[first:] if noted.since_s < to_s]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceTruth:
    """What is really so on an instance at a moment.

    The demand is what its volumes would serve if it did not hold them back. ``io`` and ``throughput`` are
    None for a type without limits of its own.
    """

    instance_id: str
    at: datetime
    demand_iops: float
    served_iops: float
    demand_mib_s: float
    served_mib_s: float
    io: LimitTruth | None
    throughput: LimitTruth | None


def _check_pct(name: str, value: float) -> None:
    if not 0 <= value <= _FULL_PCT:
        raise ValueError(f"{name} is {value}: give 0 to 100, or none for a bucket that is not there")


def _to_datetime(at_s: float | None) -> datetime | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, tz=UTC)

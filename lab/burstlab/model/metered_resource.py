"""A resource that serves a load within limits, some of which have a bucket of credits: EFS and RDS.

An operation costs each limit something: one operation, the MiB that it moves, or the MiB that are metered.
What is served is the least that any limit allows. A limit with a bucket allows its burst while there are
credits, and what it sustains without. With credits C, refill r and the cost c of what is served:
dC/dt = r - c, between 0 and the capacity. So within a stretch of constant demand each C is piecewise linear,
and a day of steady load costs a handful of steps.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from burstlab.model.loads.load import (
    NEVER_S,
    OPERATION_KIB,
    Load,
    Segment,
    get_operation_kib,
    repeats_every_minute,
)
from burstlab.model.loads.load_parser import parse_load
from burstlab.model.minute_history import MINUTE_S, Interval, MinuteHistory, MinuteRun

if TYPE_CHECKING:
    from burstlab.model.volume import MetricFault

OPERATIONS: Final = "operations"
MIB: Final = "MiB"
METERED_MIB: Final = "metered MiB"
_KIB_PER_MIB: Final = 1_024
_METERED_READ_SHARE: Final = 1 / 3
_MIN_STEP_S: Final = 1e-9  # a rest below this is rounding, and must not cost another turn of the loop
_ROUNDING: Final = 1e-9  # relative: a rate below this is none
_FULL_PCT: Final = 100.0


class Limit(NamedTuple):
    """What a resource serves at most, in units per second; the unit is one of the three above."""

    per_s: float
    unit: str


class CreditPool:
    """A limit with a bucket, which may be faster while there are credits.

    ``sustained_per_s`` is served without credits; it may be more than ``refill_per_s``, which is earned.
    Histories have ``recorded_full`` for a full bucket, by default its capacity.
    """

    __slots__ = (
        "burst_per_s",
        "capacity",
        "credits",
        "empty_since_s",
        "first_empty_at_s",
        "recorded_full",
        "refill_per_s",
        "sustained_per_s",
        "unit",
    )

    def __init__(
        self,
        *,
        unit: str,
        capacity: float,
        refill_per_s: float,
        burst_per_s: float,
        sustained_per_s: float | None = None,
        recorded_full: float | None = None,
    ) -> None:
        self.unit = unit
        self.recorded_full = capacity if recorded_full is None else recorded_full
        self.capacity, self.refill_per_s, self.burst_per_s = capacity, refill_per_s, burst_per_s
        self.sustained_per_s = refill_per_s if sustained_per_s is None else sustained_per_s
        self.credits = capacity
        self.first_empty_at_s: float | None = None
        self.empty_since_s: float | None = None

    @property
    def balance_pct(self) -> float:
        return _FULL_PCT * self.credits / self.capacity

    @property
    def scale(self) -> float:
        """What a credit is in its history."""
        return self.recorded_full / self.capacity

    @property
    def ceiling_per_s(self) -> float:
        return self.burst_per_s if self.credits > 0 else self.sustained_per_s

    def rate(self, spent_per_s: float) -> float:
        """The credits that are gained in a second in which this much is spent, within the bounds."""
        rate = self.refill_per_s - spent_per_s
        if abs(rate) <= _ROUNDING * spent_per_s:
            return 0.0
        is_at_bound = self.credits <= 0 if rate < 0 else self.credits >= self.capacity
        return 0.0 if is_at_bound else rate

    def seconds_to_bound(self, rate: float) -> float:
        if rate == 0:
            return math.inf
        return self.credits / -rate if rate < 0 else (self.capacity - self.credits) / rate

    def note_empty(self, at_s: float) -> None:
        """Remember since when it is empty, if it is."""
        if self.credits > 0:
            self.empty_since_s = None
        elif self.empty_since_s is None:
            self.empty_since_s = at_s
            self.first_empty_at_s = at_s if self.first_empty_at_s is None else self.first_empty_at_s


class LoadSchedule:
    """The loads of a resource, each from its moment on."""

    def __init__(self, load: Load | str, starts_at_s: int) -> None:
        self._loads: list[tuple[int, Load]] = [(starts_at_s, to_load(load))]

    def set(self, load: Load | str, at_s: int) -> None:
        """Set the load from ``at_s`` on; changes that were planned for later are dropped."""
        self._loads = [entry for entry in self._loads if entry[0] < at_s]
        self._loads.append((at_s, to_load(load)))

    def at(self, at_s: int) -> tuple[Segment, float]:
        """The demand from this second on, and the size of its operations in KiB."""
        self._drop_old(at_s)
        since_s, load = self._loads[0]
        if since_s > at_s:
            return Segment(0, 0, since_s), OPERATION_KIB
        segment = load.segment(at_s, since_s)
        return segment._replace(ends_at_s=min(segment.ends_at_s, self._next_s())), get_operation_kib(load)

    def repeats_until_s(self, at_s: int) -> int:
        """How long the demand is the same in every minute; ``at_s`` if it is not."""
        self._drop_old(at_s)
        since_s, load = self._loads[0]
        return self._next_s() if since_s <= at_s and repeats_every_minute(load) else at_s

    def _next_s(self) -> int:
        return self._loads[1][0] if len(self._loads) > 1 else NEVER_S

    def _drop_old(self, at_s: int) -> None:
        while len(self._loads) > 1 and self._loads[1][0] <= at_s:
            del self._loads[0]


class MeteredResource:
    """A resource in simulated time, which is advanced only when its state is requested.

    Times are whole seconds since the epoch. Demand that cannot be served is lost. ``pools`` are its limits
    with a bucket by name, ``limits`` those without. A subclass changes them in ``_apply_changes``, which is
    called at the moments that ``_next_change_s`` returns.
    """

    def __init__(self, resource_id: str, load: Load | str, starts_at_s: int) -> None:
        self.resource_id = resource_id
        self.at_s = starts_at_s
        self.origin_s = starts_at_s // MINUTE_S * MINUTE_S
        self.running = True
        self.pools: dict[str, CreditPool] = {}
        self.limits: Sequence[Limit] = ()
        self.operations = MinuteHistory()
        self.balances: dict[str, MinuteHistory] = {}
        self.gaps: list[tuple[float, float]] = []
        self.metric_fault: MetricFault | None = None
        self.demand_per_s = self.served_per_s = 0.0
        self.throttled_s = self.lost_operations = 0.0
        self._schedule = LoadSchedule(load, starts_at_s)

    def set_load(self, load: Load | str, at_s: int) -> None:
        """Set the demand from ``at_s`` on.

        Raises:
            ValueError: that moment is in the past.
        """
        if at_s < self.at_s:
            raise ValueError(f"{self.resource_id}: the load cannot change at {at_s}, which is in the past")
        self._schedule.set(load, at_s)

    def set_balance(self, balance_pct: float, pool: str) -> None:
        """Put a bucket at this level now.

        Raises:
            ValueError: it is not a percentage, or there is no such bucket now.
        """
        if not 0 <= balance_pct <= _FULL_PCT:
            raise ValueError(f"{self.resource_id}: a balance of {balance_pct} %: give 0 to 100")
        if pool not in self.pools:
            raise ValueError(f"{self.resource_id} has no bucket {pool!r} now, only {sorted(self.pools)}")
        self.pools[pool].credits = self.pools[pool].capacity * balance_pct / _FULL_PCT

    def catch_up(self, now_s: int) -> None:
        """Advance to ``now_s``."""
        while self.at_s < now_s:
            until_s = min(now_s, self._next_change_s())
            if not self.running:
                self._rest_until(until_s)
            elif not self._serve_repeated_minutes(until_s):
                self._serve_segment(until_s)
            self._apply_changes()
        for history in (self.operations, *self.balances.values()):
            history.close_until(now_s - self.origin_s)

    def _next_change_s(self) -> int:
        """When the resource itself changes next."""
        return NEVER_S

    def _apply_changes(self) -> None:
        """Change what is due at ``at_s``."""

    def _note_credits(
        self, pool: str, before: float, after: float, start_s: float, duration_s: float
    ) -> None:
        """Called for each stretch in which the credits of a bucket change on a straight line."""

    def _rest_until(self, until_s: int) -> None:
        """Nothing is served or published; buckets refill."""
        for pool in self.pools.values():
            pool.credits = min(pool.capacity, pool.credits + pool.refill_per_s * (until_s - self.at_s))
            pool.note_empty(until_s)
        self.demand_per_s = self.served_per_s = 0.0
        self.at_s = until_s

    def _serve_repeated_minutes(self, until_s: int) -> bool:
        """One minute step by step, then all those at once that are like it but for the levels of the buckets.

        False if the load does not repeat, or for less than two minutes.
        """
        if self.at_s % MINUTE_S:
            return False
        repeats_until_s = min(until_s, self._schedule.repeats_until_s(self.at_s))
        if repeats_until_s - self.at_s < 2 * MINUTE_S:
            return False
        before = {name: pool.credits for name, pool in self.pools.items()}
        lost_before, throttled_before = self.lost_operations, self.throttled_s
        end_s = self.at_s + MINUTE_S
        while self.at_s < end_s:
            self._serve_segment(end_s)
        steps = {name: pool.credits - before[name] for name, pool in self.pools.items()}
        times = min(
            (repeats_until_s - self.at_s) // MINUTE_S,
            *(
                _count_repeats(self.balances[name].last_minute(), step * pool.scale, pool.recorded_full)
                for name, step in steps.items()
                if (pool := self.pools[name])
            ),
            NEVER_S,
        )
        if times > 0:
            self.operations.repeat_last_minute(times, 0.0)
            for name, step in steps.items():
                self._repeat_balance(name, times, step)
            self.at_s += times * MINUTE_S
            self.lost_operations += times * (self.lost_operations - lost_before)
            self.throttled_s += times * (self.throttled_s - throttled_before)
        return True

    def _repeat_balance(self, name: str, times: int, step: float) -> None:
        pool, credits_before = self.pools[name], self.pools[name].credits
        self.balances[name].repeat_last_minute(times, step * pool.scale)
        pool.credits = min(pool.capacity, max(0.0, credits_before + times * step))
        self._note_credits(name, credits_before, pool.credits, self.at_s, times * MINUTE_S)

    def _serve_segment(self, until_s: int) -> None:
        """One span of constant demand."""
        segment, operation_kib = self._schedule.at(self.at_s)
        end_s = min(segment.ends_at_s, until_s)
        demand = self.demand_per_s = segment.read_iops + segment.write_iops
        read_share = segment.read_iops / demand if demand else 0.0
        costs = cost_per_operation(read_share, operation_kib)
        start_s = float(self.at_s)
        while end_s - start_s > _MIN_STEP_S:
            start_s = self._serve_step(start_s, end_s, demand, read_share, operation_kib, costs)
        self.at_s = end_s

    def _serve_step(
        self,
        start_s: float,
        end_s: int,
        demand: float,
        read_share: float,
        operation_kib: float,
        costs: Mapping[str, float],
    ) -> float:
        """Serve until a bucket becomes empty or full, or the span ends; returns that moment."""
        ceilings = [limit.per_s / costs[limit.unit] for limit in self.limits]
        ceilings += [pool.ceiling_per_s / costs[pool.unit] for pool in self.pools.values()]
        served = self.served_per_s = min(demand, *ceilings, demand)
        rates = {name: pool.rate(served * costs[pool.unit]) for name, pool in self.pools.items()}
        bound_s = min(
            (pool.seconds_to_bound(rates[name]) for name, pool in self.pools.items()), default=math.inf
        )
        duration_s = min(end_s - start_s, bound_s)
        step_end_s = float(end_s) if duration_s < bound_s else start_s + duration_s
        reads = served * read_share
        span = (start_s - self.origin_s, step_end_s - self.origin_s)
        if step_end_s > start_s:
            self.operations.add(Interval(*span, 0, 0, reads, served - reads, False, operation_kib))
        is_held_back = served < demand * (1 - _ROUNDING)
        self.throttled_s += duration_s if is_held_back else 0.0
        self.lost_operations += (demand - served) * duration_s
        for name, pool in self.pools.items():
            before, rate = pool.credits, rates[name]
            if rate and pool.seconds_to_bound(rate) <= duration_s:
                pool.credits = 0.0 if rate < 0 else pool.capacity
            else:
                pool.credits = before + rate * duration_s
            pool.note_empty(step_end_s)
            if step_end_s > start_s:
                ends = (before * pool.scale, pool.credits * pool.scale)
                self.balances[name].add(Interval(*span, *ends, 0, 0, has_balance=True))
            self._note_credits(name, before, pool.credits, start_s, duration_s)
        return step_end_s


def cost_per_operation(read_share: float, operation_kib: float) -> dict[str, float]:
    """What an operation costs in each unit; a third of what is read is metered."""
    mib = operation_kib / _KIB_PER_MIB
    return {
        OPERATIONS: 1.0,
        MIB: mib,
        METERED_MIB: mib * (read_share * _METERED_READ_SHARE + 1 - read_share),
    }


def to_load(load: Load | str) -> Load:
    """The load, parsed if it is text."""
    return parse_load(load) if isinstance(load, str) else load


def keep_pools(old: Mapping[str, CreditPool], new: Iterable[tuple[str, CreditPool]]) -> dict[str, CreditPool]:
    """The new buckets; one that was there before keeps its credits, as far as they fit."""
    pools = dict(new)
    for name, pool in pools.items():
        if name in old:
            pool.credits = min(pool.capacity, old[name].credits)
            pool.first_empty_at_s = old[name].first_empty_at_s
            pool.empty_since_s = old[name].empty_since_s
    return pools


def _count_repeats(minute: MinuteRun, step: float, full: float) -> int:
    """How often a minute can come again, moved by ``step`` each time, and touch no bound."""
    if step == 0:
        return NEVER_S
    to_full, to_empty = full - minute.maximum, minute.minimum
    ahead, behind = (to_empty, to_full) if step < 0 else (to_full, to_empty)
    return math.ceil(ahead / abs(step)) - 1 if behind > 0 else 0

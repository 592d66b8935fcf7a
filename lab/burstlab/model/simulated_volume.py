"""One volume living in simulated time."""

import math
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

from burstlab.model.bucket import (
    FULL_CREDITS,
    BucketSegment,
    credit_rate,
    seconds_to_bound,
    split_at_changes,
)
from burstlab.model.describe import DescribedVolume
from burstlab.model.loads.load import (
    MAX_OPERATION_KIB,
    MAX_SSD_OPERATION_KIB,
    NEVER_S,
    OPERATION_KIB,
    Load,
    Segment,
    SizedLoad,
    Steady,
    get_operation_kib,
    is_steady,
    peak_iops,
    repeats_every_minute,
)
from burstlab.model.loads.load_parser import parse_load
from burstlab.model.minute_history import (
    IOPS_EXCEEDED,
    MINUTE_S,
    THROUGHPUT_EXCEEDED,
    Interval,
    MinuteHistory,
    MinuteRun,
)
from burstlab.model.modification import BUCKET_TYPES
from burstlab.model.modification_progress import ModificationProgress
from burstlab.model.performance import (
    HDD_RATES,
    PerformanceLevel,
    bucket_capacity,
    bucket_spec,
    can_drain,
    performance_between,
    performance_of,
)
from burstlab.model.settings import LabSettings
from burstlab.model.volume import LabVolume, MetricFault, Truth
from burstwatch.core.ebs.volume import CREDITS_PER_PCT

_NOT_HELD_BACK: Final = float("inf")


class Demand(NamedTuple):
    """What a volume serves at this moment if no instance holds it back, and when that may change."""

    iops: float
    operation_kib: float
    ends_at_s: int


class VolumeGroup(Protocol):
    """Volumes that are simulated together."""

    def catch_up(self, now_s: int) -> None:
        """Live up to ``now_s``."""
        ...


class _Snapshot(NamedTuple):
    """The state before a minute that may come again."""

    credits: float
    backlog_ops: float | None
    lost_ops: float
    stalled_s: float


class SimulatedVolume(DescribedVolume):
    """A volume in simulated time, which is advanced only when its state is requested.

    Times are whole seconds since the epoch. Demand that cannot be served is lost, or queued and served later.
    """

    def __init__(
        self,
        definition: LabVolume,
        *,
        volume_id: str,
        number: int,
        starts_at_s: int,
        settings: LabSettings,
        retention_s: float,
    ) -> None:
        super().__init__(definition, volume_id=volume_id, number=number, starts_at_s=starts_at_s)
        self.metric_fault: MetricFault | None = None
        self.gaps: list[tuple[float, float]] = []
        self.balance_gaps: list[tuple[float, float]] = []
        self.running = False
        self.group: VolumeGroup | None = None
        self.origin_s = starts_at_s // MINUTE_S * MINUTE_S
        self.history = MinuteHistory(recent_s=retention_s)
        self._settings = settings
        self._credits = definition.balance_pct * CREDITS_PER_PCT
        self._left_bucket_at_s = None if definition.volume_type in BUCKET_TYPES else starts_at_s
        self._backlog_ops: float | None = 0.0 if settings.queued else None
        self._loads: list[tuple[int, Load]] = [(starts_at_s, _to_load(definition.load))]
        self._read_fraction, self._operation_kib = 0.0, OPERATION_KIB
        self._levels: dict[float, PerformanceLevel] = {}
        self._segment = Segment(0, 0, 0)
        self._known_until_s = NEVER_S
        self._served_iops = 0.0
        self._first_empty_at_s: float | None = None
        self._empty_since_s: float | None = None
        self._stalled_s = self._lost_ops = 0.0

    def set_load(self, load: Load | str, at_s: int) -> None:
        """Set the demand from ``at_s`` on; changes that were planned for later are dropped."""
        if at_s < self.at_s:
            raise ValueError(
                f"{self.volume_id}: the load cannot change at {at_s}, {self.at_s - at_s} s ago; "
                "give a moment from now on"
            )
        self._loads = [(from_s, load_before) for from_s, load_before in self._loads if from_s < at_s]
        self._loads.append((at_s, _to_load(load)))

    def set_balance(self, balance_pct: float) -> None:
        self._credits = balance_pct * CREDITS_PER_PCT

    def measure(
        self, until_s: int, *, read_ops: float = 0, write_ops: float = 0, size_kib: float = OPERATION_KIB
    ) -> None:
        """Advance to ``until_s`` with the operations that a real device completed, of this mean size.

        From the first call on, the volume advances only in this way, and has no state after ``until_s``.
        """
        seconds = until_s - self.at_s
        if seconds < 0 or (seconds == 0 and read_ops + write_ops > 0):
            raise ValueError(
                f"{self.volume_id}: it has lived up to {self.at_s}, {until_s} brings it no further; "
                "give a later second"
            )
        self._known_until_s = until_s
        load = Steady(read_ops / (seconds or 1), write_ops / (seconds or 1))
        self._loads = [(self.at_s, SizedLoad(load=load, operation_kib=size_kib))]
        self._simulate_to(until_s)

    @property
    def is_measured(self) -> bool:
        """Whether a real device says what it serves: no limit of a size or an instance applies to it."""
        return self._known_until_s != NEVER_S

    def catch_up(self, now_s: int) -> None:
        """Live up to ``now_s``, or as far as it was measured; with those that share its instance's limits."""
        if self.group is None or self.is_measured:
            self._simulate_to(min(now_s, self._known_until_s))
        else:
            self.group.catch_up(now_s)

    def _simulate_to(self, now_s: int) -> None:
        """Live as if it were alone on its instance."""
        while self.at_s < now_s:
            until_s = min(now_s, self.next_change_s)
            if not self.running:
                self._idle_until(until_s)
            elif self._can_repeat_minutes(until_s):
                self._serve_repeated_minutes(until_s)
            else:
                self._serve_segment(until_s)
            self._apply_change()
        self.history.close_until(now_s - self.origin_s)

    @property
    def next_change_s(self) -> int:
        """When a modification next changes what it can serve."""
        return NEVER_S if self._open_change is None else self._open_change.next_change_at_s(self.at_s)

    def peak(self) -> tuple[float, float]:
        """The most operations and KiB per second that it serves from now on, by its loads and its limits."""
        if not self.running or self.is_measured:
            return 0.0, 0.0
        specs = [self.spec] if self._open_change is None else [self.spec, self._open_change.target]
        most_iops = most_kib_s = 0.0
        self._drop_old_loads()
        for _, load in self._loads:
            demand_iops = _NOT_HELD_BACK if self._settings.queued else peak_iops(load)
            for spec in specs:
                parts, size_kib = _split_operation(spec.volume_type, get_operation_kib(load))
                level = performance_of(spec, size_kib)
                iops = min(demand_iops * parts, level.ceiling_iops(1), level.ceiling_kib_s(1) / size_kib)
                most_iops, most_kib_s = max(most_iops, iops), max(most_kib_s, iops * size_kib)
        return most_iops, most_kib_s

    def next_demand(self) -> Demand:
        """What it does now, for those that share an instance with it."""
        self._segment = self._next_segment()
        reads, writes, ends_at_s = self._segment
        level = self._current_performance()
        ceiling = min(
            level.ceiling_iops(self._credits), level.ceiling_kib_s(self._credits) / self._operation_kib
        )
        iops = ceiling if self._backlog_ops else min(reads + writes, ceiling)
        return Demand(iops, self._operation_kib, ends_at_s)

    def seconds_to_bound(self, served_iops: float) -> float:
        """When its bucket is empty or full, or its backlog done, if it serves this."""
        level, demand_iops = self._current_performance(), self._segment.read_iops + self._segment.write_iops
        bound_s = _NOT_HELD_BACK
        if level.uses_credits:
            rate = credit_rate(level.sustained_iops, level.refill_iops, self._credits, served_iops)
            bound_s = seconds_to_bound(self._credits, rate * level.credits_per_op)
        if self._backlog_ops and served_iops > demand_iops:
            bound_s = min(bound_s, self._backlog_ops / (served_iops - demand_iops))
        return bound_s

    def serve_shared(self, until_s: int, allocated_iops: float) -> float:
        """Serve no more than this per second, after ``next_demand``; the operations that were served."""
        served_ops = self._serve_until(until_s, allocated_iops)
        self._apply_change()
        return served_ops

    def idle_shared(self, until_s: int) -> None:
        """Do nothing while the others of its group live."""
        self._idle_until(until_s)
        self._apply_change()

    @property
    def repeats_every_minute(self) -> bool:
        """Whether its load has a pattern that comes again every minute."""
        self._drop_old_loads()
        since_s, load = self._loads[0]
        return since_s <= self.at_s and repeats_every_minute(load)

    @property
    def is_same_every_minute(self) -> bool:
        """Whether it asks the same in each minute."""
        self._drop_old_loads()
        since_s, load = self._loads[0]
        return since_s <= self.at_s and (is_steady(load) or repeats_every_minute(load))

    def snapshot(self) -> _Snapshot:
        return _Snapshot(self._credits, self._backlog_ops, self._lost_ops, self._stalled_s)

    def count_repeats(self, before: _Snapshot, until_s: int) -> int:
        """How often the minute since ``before`` can come again until then."""
        credits_step = self._credits - before.credits
        if self._backlog_ops != before.backlog_ops or (credits_step and self._backlog_ops):
            return 0
        return min(self.uneventful_minutes(until_s), count_repeats(self.history.last_minute(), credits_step))

    def repeat(self, before: _Snapshot, times: int) -> None:
        """Let the minute since ``before`` come again."""
        credits_step = self._credits - before.credits
        self.history.repeat_last_minute(times, credits_step)
        self.at_s += times * MINUTE_S
        self._credits += times * credits_step
        self._lost_ops += times * (self._lost_ops - before.lost_ops)
        self._stalled_s += times * (self._stalled_s - before.stalled_s)

    def truth(self) -> Truth:
        """The state at the moment it was brought up to."""
        return Truth(
            volume_id=self.volume_id,
            at=datetime.fromtimestamp(self.at_s, tz=UTC),
            credits=self._credits / FULL_CREDITS * bucket_capacity(self.volume_type, self.size_gib),
            burst_balance_pct=self._credits / CREDITS_PER_PCT,
            demand_iops=self._segment.read_iops + self._segment.write_iops if self.running else 0.0,
            served_iops=self._served_iops,
            ceiling_iops=round(self._current_performance().ceiling_iops(self._credits)),
            first_dry_at=_to_datetime(self._first_empty_at_s),
            dry_since=_to_datetime(self._empty_since_s),
            stalled_s=self._stalled_s,
            lost_ops=self._lost_ops,
            backlog_ops=self._backlog_ops or 0.0,
        )

    def _serve_segment(self, until_s: int) -> None:
        """One span of constant demand."""
        self._segment = self._next_segment()
        self._serve_until(min(self._segment.ends_at_s, until_s))

    def _can_repeat_minutes(self, now_s: int) -> bool:
        """At the start of a minute, under a pattern that comes again every minute, with time ahead."""
        if self.at_s % MINUTE_S or not self.repeats_every_minute:
            return False
        return self.uneventful_minutes(now_s) > 1

    def uneventful_minutes(self, now_s: int) -> int:
        """Whole minutes ahead without planned events, whose details will not be requested."""
        change_s = self._loads[1][0] if len(self._loads) > 1 else NEVER_S
        return int(min(change_s, now_s - self.history.recent_s) - self.at_s) // MINUTE_S

    def _serve_repeated_minutes(self, now_s: int) -> None:
        """One minute step by step, then at once all those that are like it but for the bucket's level."""
        before, end_s = self.snapshot(), self.at_s + MINUTE_S
        while self.at_s < end_s:
            self._serve_segment(end_s)
        times = self.count_repeats(before, now_s)
        if times > 0:
            self.repeat(before, times)

    def _drop_old_loads(self) -> None:
        while len(self._loads) > 1 and self._loads[1][0] <= self.at_s:
            del self._loads[0]

    def _next_segment(self) -> Segment:
        self._drop_old_loads()
        since_s, load = self._loads[0]
        change_s = self._loads[1][0] if len(self._loads) > 1 else NEVER_S
        if since_s > self.at_s:
            return Segment(0, 0, since_s)
        reads, writes, until_s = load.segment(self.at_s, since_s)
        parts, self._operation_kib = 1, get_operation_kib(load)
        if self._operation_kib > MAX_SSD_OPERATION_KIB and not self.is_measured:
            parts, self._operation_kib = _split_operation(self.volume_type, self._operation_kib)
        return Segment(reads * parts, writes * parts, min(until_s, change_s))

    def _serve_until(self, until_s: int, allocated_iops: float = _NOT_HELD_BACK) -> float:
        """Serve the segment's demand, and no more than allocated; the operations that were served."""
        reads, writes, _ = self._segment
        demand_iops = reads + writes
        if demand_iops > 0:
            self._read_fraction = reads / demand_iops
        at_s, end_s = float(self.at_s - self.origin_s), float(until_s - self.origin_s)
        has_balance, performance = self._publishes_balance(), self._current_performance()
        served_ops = 0.0
        for segment in self._split_segment(performance, demand_iops, until_s - self.at_s, allocated_iops):
            segment_end_s = min(end_s, at_s + segment.duration_s)
            exceeded = self._exceeded_limits(performance, demand_iops, allocated_iops, segment)
            self._record(at_s, segment_end_s, segment, has_balance=has_balance, exceeded=exceeded)
            self._update_counters(segment_end_s, segment, demand_iops, uses_credits=performance.uses_credits)
            served_ops += segment.served_iops * segment.duration_s
            at_s = segment_end_s
        self.at_s = until_s
        return served_ops

    def _exceeded_limits(
        self, level: PerformanceLevel, demand_iops: float, allocated_iops: float, segment: BucketSegment
    ) -> int:
        """Which limits of its own it tried to exceed; what its instance holds back does not reach it."""
        is_baseline = self._settings.exceeded_limit == "baseline"
        if self._backlog_ops:
            demand_iops = _NOT_HELD_BACK
        elif demand_iops <= segment.served_iops and not is_baseline:
            return 0
        driven_iops = min(demand_iops, allocated_iops)
        credits_now = 0.0 if is_baseline else segment.credits_before
        iops_limit = level.ceiling_iops(credits_now)
        kib_limit = level.ceiling_kib_s(credits_now) / self._operation_kib
        if self.volume_type in HDD_RATES:
            iops_limit = _NOT_HELD_BACK
        if driven_iops == _NOT_HELD_BACK:  # a backlog drives what it can, so the lower limit is exceeded
            return IOPS_EXCEEDED if iops_limit <= kib_limit else THROUGHPUT_EXCEEDED
        exceeded = IOPS_EXCEEDED if driven_iops > iops_limit else 0
        return exceeded | (THROUGHPUT_EXCEEDED if driven_iops > kib_limit else 0)

    def _split_segment(
        self, performance: PerformanceLevel, demand_iops: float, seconds: int, allocated_iops: float
    ) -> list[BucketSegment]:
        limits = (
            (allocated_iops, allocated_iops)
            if self.is_measured
            else (
                min(allocated_iops, performance.sustained_kib_s / self._operation_kib),
                min(allocated_iops, performance.burst_kib_s / self._operation_kib),
            )
        )
        segments = split_at_changes(
            baseline=performance.sustained_iops,
            credits_now=self._credits if performance.uses_credits else FULL_CREDITS,
            demand_iops=demand_iops,
            seconds=seconds,
            backlog_ops=self._backlog_ops,
            burst_iops=performance.burst_iops,
            refill_iops=performance.refill_iops,
            limits=limits,
            credits_per_op=performance.credits_per_op,
        )
        if performance.uses_credits:
            return segments
        return [
            segment._replace(credits_before=self._credits, credits_after=self._credits)
            for segment in segments
        ]

    def _publishes_balance(self) -> bool:
        if not self.reports_balance():
            return False
        return self._settings.large_publish or can_drain(self._bucket_type, self.size_gib)

    @property
    def _bucket_type(self) -> str:
        """Its type, or the one that it becomes if that has a bucket and this has none."""
        if self.volume_type in BUCKET_TYPES or self._open_change is None:
            return self.volume_type
        return self._open_change.target.volume_type

    def _record(
        self, at_s: float, segment_end_s: float, segment: BucketSegment, *, has_balance: bool, exceeded: int
    ) -> None:
        if segment_end_s <= at_s:
            return
        reads = segment.served_iops * self._read_fraction
        has_balance = has_balance and (segment.served_iops > 0 or self._settings.idle_publishes)
        self.history.add(
            Interval(
                at_s,
                segment_end_s,
                segment.credits_before,
                segment.credits_after,
                reads,
                segment.served_iops - reads,
                has_balance,
                self._operation_kib,
                exceeded,
            )
        )

    def _update_counters(
        self, segment_end_s: float, segment: BucketSegment, demand_iops: float, *, uses_credits: bool
    ) -> None:
        unserved_ops = max(0.0, demand_iops - segment.served_iops) * segment.duration_s
        if self._backlog_ops is None:
            self._lost_ops += unserved_ops
        else:
            self._backlog_ops = max(
                0.0, self._backlog_ops + (demand_iops - segment.served_iops) * segment.duration_s
            )
        self._credits, self._served_iops = segment.credits_after, segment.served_iops
        if segment.credits_after > 0 or not uses_credits:
            self._empty_since_s = None
        elif self._empty_since_s is None:
            self._empty_since_s = self.origin_s + (
                segment_end_s if segment.credits_before > 0 else segment_end_s - segment.duration_s
            )
            self._first_empty_at_s = self._first_empty_at_s or self._empty_since_s
        if uses_credits and segment.credits_before <= 0 and (unserved_ops or self._backlog_ops):
            self._stalled_s += segment.duration_s

    def _idle_until(self, until_s: int) -> None:
        """Without demand nothing is published; a bucket continues to earn."""
        performance = self._current_performance()
        if performance.uses_credits:
            earned_credits = performance.refill_iops * performance.credits_per_op * (until_s - self.at_s)
            self._credits = min(FULL_CREDITS, self._credits + earned_credits)
            self._empty_since_s = None
        self._served_iops, self.at_s = 0.0, until_s

    def _current_performance(self) -> PerformanceLevel:
        """What can be served at this moment."""
        change = self._open_change
        if change is None:
            level = self._levels.get(self._operation_kib)
            if level is None:
                level = self._levels[self._operation_kib] = performance_of(self.spec, self._operation_kib)
            return level
        fraction, has_credits_on_return = change.uplift_fraction_at(self.at_s), self._credits_on_return() > 0
        return performance_between(
            change.original,
            change.target,
            self._operation_kib,
            fraction,
            credits_on_return=has_credits_on_return,
        )

    def _credits_on_return(self) -> float:
        """What the bucket holds, or will when the modification in progress brings it back."""
        change, left_bucket_at_s = self._open_change, self._left_bucket_at_s
        if change is None or left_bucket_at_s is None or not change.target.has_bucket:
            return self._credits
        returned = performance_of(bucket_spec(change.target.volume_type, self.size_gib), self._operation_kib)
        earned_credits = returned.refill_iops * returned.credits_per_op * (self.at_s - left_bucket_at_s)
        return {
            "kept": self._credits,
            "refilled": min(FULL_CREDITS, self._credits + earned_credits),
            "reset": FULL_CREDITS,
            "emptied": 0.0,
        }[change.settings.balance_after]

    def _apply_change(self) -> None:
        change = self._open_change
        if change is None:
            return
        credits_on_return = self._credits_on_return()
        super()._apply_change()
        self._levels.clear()
        self._apply_bucket_change(change, credits_on_return)

    def _apply_bucket_change(self, change: ModificationProgress, credits_on_return: float) -> None:
        """Leave the bucket, come back to it, or keep it through a resize; failing leaves it as it was."""
        if not (self._current_performance().uses_credits or self.reports_balance()):
            if self._left_bucket_at_s is None:
                self._left_bucket_at_s = self.at_s
            return
        if self._left_bucket_at_s is not None:
            self._left_bucket_at_s = None
            if change.state_at(self.at_s) != "failed":
                self._credits = credits_on_return
        elif change.resizes_gp2 and change.state_at(self.at_s) == "completed":
            credits_by_setting = {"kept": self._credits, "reset": FULL_CREDITS, "emptied": 0.0}
            self._credits = credits_by_setting[change.settings.balance_after_resize]


def count_repeats(minute: MinuteRun, credits_step: float) -> int:
    """How often a minute can come again, moved by ``credits_step`` credits each time, and touch no bound.

    A minute that touched the bound from which it moves away is not like the next one, which may not.
    """
    if credits_step == 0:
        return NEVER_S
    if not minute.balance_seconds:
        return 0
    to_full, to_empty = FULL_CREDITS - minute.maximum, minute.minimum
    ahead, behind = (to_empty, to_full) if credits_step < 0 else (to_full, to_empty)
    return math.ceil(ahead / abs(credits_step)) - 1 if behind > 0 else 0


def _split_operation(volume_type: str, size_kib: float) -> tuple[int, float]:
    """As how many operations EBS counts one of this size, and the size of those."""
    max_kib = MAX_OPERATION_KIB if volume_type in HDD_RATES else MAX_SSD_OPERATION_KIB
    parts = math.ceil(size_kib / max_kib)
    return parts, size_kib / parts


def _to_load(load: Load | str) -> Load:
    return parse_load(load) if isinstance(load, str) else load


def _to_datetime(at_s: float | None) -> datetime | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, tz=UTC)

"""One volume living in simulated time."""

import math
from datetime import UTC, datetime

from burstlab.model.bucket import FULL_CREDITS, BucketSegment, split_at_changes
from burstlab.model.describe import DescribedVolume
from burstlab.model.load import (
    NEVER_S,
    OPERATION_KIB,
    Load,
    Segment,
    SizedLoad,
    Steady,
    get_operation_kib,
    repeats_every_minute,
)
from burstlab.model.load_parser import parse_load
from burstlab.model.minute_history import MINUTE_S, Interval, MinuteHistory, MinuteRun
from burstlab.model.modification_progress import ModificationProgress
from burstlab.model.performance import PerformanceLevel, performance_between, performance_of
from burstlab.model.settings import LabSettings
from burstlab.model.volume import LabVolume, MetricFault, Truth
from burstwatch.core.ebs.volume import BURST_IOPS, CREDITS_PER_PCT, baseline_iops


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
        self.origin_s = starts_at_s // MINUTE_S * MINUTE_S
        self.history = MinuteHistory(recent_s=retention_s)
        self._settings = settings
        self._credits = definition.balance_pct * CREDITS_PER_PCT
        self._left_gp2_at_s = None if definition.volume_type == "gp2" else starts_at_s
        self._backlog_ops: float | None = 0.0 if settings.queued else None
        self._loads: list[tuple[int, Load]] = [(starts_at_s, _to_load(definition.load))]
        self._read_fraction, self._operation_kib = 0.0, OPERATION_KIB
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
        self.catch_up(until_s)

    def catch_up(self, now_s: int) -> None:
        """Live up to ``now_s``, or as far as it was measured."""
        now_s = min(now_s, self._known_until_s)
        while self.at_s < now_s:
            until_s = (
                now_s
                if self._open_change is None
                else min(now_s, self._open_change.next_change_at_s(self.at_s))
            )
            if not self.running:
                self._idle_until(until_s)
            elif self._can_repeat_minutes(until_s):
                self._serve_repeated_minutes(until_s)
            else:
                self._serve_segment(until_s)
            self._apply_change()
        self.history.close_until(now_s - self.origin_s)

    def truth(self) -> Truth:
        """The state at the moment it was brought up to."""
        return Truth(
            volume_id=self.volume_id,
            at=datetime.fromtimestamp(self.at_s, tz=UTC),
            credits=self._credits,
            burst_balance_pct=self._credits / CREDITS_PER_PCT,
            demand_iops=self._segment.read_iops + self._segment.write_iops if self.running else 0.0,
            served_iops=self._served_iops,
            ceiling_iops=self._current_performance().ceiling_iops(self._credits),
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
        self._drop_old_loads()
        since_s, load = self._loads[0]
        if self.at_s % MINUTE_S or since_s > self.at_s or not repeats_every_minute(load):
            return False
        return self._uneventful_minutes(now_s) > 1

    def _uneventful_minutes(self, now_s: int) -> int:
        """Whole minutes ahead without planned events, whose details will not be requested."""
        change_s = self._loads[1][0] if len(self._loads) > 1 else NEVER_S
        return int(min(change_s, now_s - self.history.recent_s) - self.at_s) // MINUTE_S

    def _serve_repeated_minutes(self, now_s: int) -> None:
        """One minute step by step, then at once all those that are like it but for the bucket's level."""
        credits_before, backlog_before = self._credits, self._backlog_ops
        lost_before, stalled_before = self._lost_ops, self._stalled_s
        end_s = self.at_s + MINUTE_S
        while self.at_s < end_s:
            self._serve_segment(end_s)
        credits_step = self._credits - credits_before
        if self._backlog_ops != backlog_before or (credits_step and self._backlog_ops):
            return
        times = min(self._uneventful_minutes(now_s), _count_repeats(self.history.last_minute(), credits_step))
        if times > 0:
            self.history.repeat_last_minute(times, credits_step)
            self.at_s += times * MINUTE_S
            self._credits += times * credits_step
            self._lost_ops += times * (self._lost_ops - lost_before)
            self._stalled_s += times * (self._stalled_s - stalled_before)

    def _drop_old_loads(self) -> None:
        while len(self._loads) > 1 and self._loads[1][0] <= self.at_s:
            del self._loads[0]

    def _next_segment(self) -> Segment:
        self._drop_old_loads()
        since_s, load = self._loads[0]
        change_s = self._loads[1][0] if len(self._loads) > 1 else NEVER_S
        if since_s > self.at_s:
            return Segment(0, 0, since_s)
        self._operation_kib = get_operation_kib(load)
        reads, writes, until_s = load.segment(self.at_s, since_s)
        return Segment(reads, writes, min(until_s, change_s))

    def _serve_until(self, until_s: int) -> None:
        reads, writes, _ = self._segment
        demand_iops = reads + writes
        if demand_iops > 0:
            self._read_fraction = reads / demand_iops
        at_s, end_s = float(self.at_s - self.origin_s), float(until_s - self.origin_s)
        has_balance, performance = self._publishes_balance(), self._current_performance()
        for segment in self._split_segment(performance, demand_iops, until_s - self.at_s):
            segment_end_s = min(end_s, at_s + segment.duration_s)
            self._record(at_s, segment_end_s, segment, has_balance=has_balance)
            self._update_counters(segment_end_s, segment, demand_iops, uses_credits=performance.uses_credits)
            at_s = segment_end_s
        self.at_s = until_s

    def _split_segment(
        self, performance: PerformanceLevel, demand_iops: float, seconds: int
    ) -> list[BucketSegment]:
        segments = split_at_changes(
            baseline=performance.sustained_iops,
            credits_now=self._credits if performance.uses_credits else FULL_CREDITS,
            demand_iops=demand_iops,
            seconds=seconds,
            backlog_ops=self._backlog_ops,
            burst_iops=performance.burst_iops,
            refill_iops=performance.refill_iops,
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
        return self._settings.large_publish or baseline_iops(self.size_gib) < BURST_IOPS

    def _record(
        self, at_s: float, segment_end_s: float, segment: BucketSegment, *, has_balance: bool
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
        """Without demand nothing is published; a gp2 bucket continues to earn."""
        performance = self._current_performance()
        if performance.uses_credits:
            earned_credits = performance.refill_iops * (until_s - self.at_s)
            self._credits = min(FULL_CREDITS, self._credits + earned_credits)
            self._empty_since_s = None
        self._served_iops, self.at_s = 0.0, until_s

    def _current_performance(self) -> PerformanceLevel:
        """What can be served at this moment."""
        change = self._open_change
        if change is None:
            return performance_of(self.volume_type, self.baseline_iops)
        fraction, has_credits_on_return = change.uplift_fraction_at(self.at_s), self._credits_on_return() > 0
        return performance_between(
            change.original, change.target, fraction, credits_on_return=has_credits_on_return
        )

    def _credits_on_return(self) -> float:
        """What the bucket holds, or will when the modification in progress brings it back."""
        change, left_gp2_at_s = self._open_change, self._left_gp2_at_s
        if change is None or left_gp2_at_s is None:
            return self._credits
        earned_credits = baseline_iops(self.size_gib) * (self.at_s - left_gp2_at_s)
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
        self._apply_bucket_change(change, credits_on_return)

    def _apply_bucket_change(self, change: ModificationProgress, credits_on_return: float) -> None:
        """Leave the bucket, come back to it, or keep it through a resize; failing leaves it as it was."""
        if not (self._current_performance().uses_credits or self.reports_balance()):
            if self._left_gp2_at_s is None:
                self._left_gp2_at_s = self.at_s
            return
        if self._left_gp2_at_s is not None:
            self._left_gp2_at_s = None
            if change.state_at(self.at_s) != "failed":
                self._credits = credits_on_return
        elif change.resizes_gp2 and change.state_at(self.at_s) == "completed":
            credits_by_setting = {"kept": self._credits, "reset": FULL_CREDITS, "emptied": 0.0}
            self._credits = credits_by_setting[change.settings.balance_after_resize]


def _count_repeats(minute: MinuteRun, credits_step: float) -> int:
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


def _to_load(load: Load | str) -> Load:
    return parse_load(load) if isinstance(load, str) else load


def _to_datetime(at_s: float | None) -> datetime | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, tz=UTC)

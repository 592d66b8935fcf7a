"""One volume living in simulated time."""

import math
from datetime import UTC, datetime

from burstlab.model.bucket import FULL, Piece, split
from burstlab.model.describe import DescribedVolume
from burstlab.model.load import (
    NEVER_S,
    OPERATION_KIB,
    Load,
    Segment,
    Shaped,
    Steady,
    operation_kib,
    repeats_every_minute,
)
from burstlab.model.load_parser import parse_load
from burstlab.model.minute_history import MINUTE_S, History, Run, Stretch
from burstlab.model.modification_progress import Change
from burstlab.model.performance import Footing, footing_between, footing_on
from burstlab.model.settings import LabSettings
from burstlab.model.volume import LabVolume, MetricFault, Truth
from burstwatch.core.ebs.volume import BURST_IOPS, CREDITS_PER_PCT, baseline_iops


class SimulatedVolume(DescribedVolume):
    """A volume that lives in simulated time, brought up to a moment only when someone looks.

    Times are whole seconds since the epoch. Demand that cannot be served is lost, or queued and served later.
    """

    def __init__(
        self,
        given: LabVolume,
        *,
        volume_id: str,
        number: int,
        starts_s: int,
        settings: LabSettings,
        recent_s: float,
    ) -> None:
        super().__init__(given, volume_id=volume_id, number=number, starts_s=starts_s)
        self.metric_fault: MetricFault | None = None
        self.gaps: list[tuple[float, float]] = []
        self.balance_gaps: list[tuple[float, float]] = []
        self.running = False
        self.origin_s = starts_s // MINUTE_S * MINUTE_S
        self.history = History(recent_s=recent_s)
        self._settings = settings
        self._credits = given.balance_pct * CREDITS_PER_PCT
        self._away_since_s = None if given.volume_type == "gp2" else starts_s
        self._backlog: float | None = 0.0 if settings.queued else None
        self._loads: list[tuple[int, Load]] = [(starts_s, _as_load(given.load))]
        self._read_share, self._operation_kib = 0.0, OPERATION_KIB
        self._segment = Segment(0, 0, 0)
        self._known_until_s = NEVER_S
        self._served_iops = 0.0
        self._first_dry_s: float | None = None
        self._dry_since_s: float | None = None
        self._stalled_s = self._lost_ops = 0.0

    def set_load(self, load: Load | str, at_s: int) -> None:
        """From ``at_s`` on this is what is asked; changes planned for later are dropped."""
        if at_s < self.at_s:
            raise ValueError(
                f"{self.volume_id}: the load cannot change at {at_s}, {self.at_s - at_s} s ago; "
                "give a moment from now on"
            )
        self._loads = [(from_s, known) for from_s, known in self._loads if from_s < at_s]
        self._loads.append((at_s, _as_load(load)))

    def set_balance(self, balance_pct: float) -> None:
        self._credits = balance_pct * CREDITS_PER_PCT

    def measure(
        self, until_s: int, *, read_ops: float = 0, write_ops: float = 0, size_kib: float = OPERATION_KIB
    ) -> None:
        """Live up to ``until_s`` as a real device did, which completed so many operations of this mean size.

        From the first time on that is the only way it lives: nothing is known of it beyond ``until_s``.
        """
        seconds = until_s - self.at_s
        if seconds < 0 or (seconds == 0 and read_ops + write_ops > 0):
            raise ValueError(
                f"{self.volume_id}: it has lived up to {self.at_s}, {until_s} brings it no further; "
                "give a later second"
            )
        self._known_until_s = until_s
        lived = Steady(read_ops / (seconds or 1), write_ops / (seconds or 1))
        self._loads = [(self.at_s, Shaped(load=lived, operation_kib=size_kib))]
        self.catch_up(until_s)

    def catch_up(self, now_s: int) -> None:
        """Live up to ``now_s``, or as far as it was measured."""
        now_s = min(now_s, self._known_until_s)
        while self.at_s < now_s:
            until_s = now_s if self._open is None else min(now_s, self._open.next_step_s(self.at_s))
            if not self.running:
                self._rest(until_s)
            elif self._may_repeat(until_s):
                self._live_like_minutes(until_s)
            else:
                self._live(until_s)
            self._follow_change()
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
            ceiling_iops=self._stands_on().ceiling_iops(self._credits),
            first_dry_at=_moment(self._first_dry_s),
            dry_since=_moment(self._dry_since_s),
            stalled_s=self._stalled_s,
            lost_ops=self._lost_ops,
            backlog_ops=self._backlog or 0.0,
        )

    def _live(self, until_s: int) -> None:
        """One stretch of constant demand."""
        self._segment = self._next_segment()
        self._work(min(self._segment.until_s, until_s))

    def _may_repeat(self, now_s: int) -> bool:
        """At the start of a minute, under a pattern that comes again every minute, with time ahead."""
        self._drop_old_loads()
        since_s, load = self._loads[0]
        if self.at_s % MINUTE_S or since_s > self.at_s or not repeats_every_minute(load):
            return False
        return self._minutes_free(now_s) > 1

    def _minutes_free(self, now_s: int) -> int:
        """Whole minutes ahead in which nothing is planned and whose course nobody will ask for in detail."""
        change_s = self._loads[1][0] if len(self._loads) > 1 else NEVER_S
        return int(min(change_s, now_s - self.history.recent_s) - self.at_s) // MINUTE_S

    def _live_like_minutes(self, now_s: int) -> None:
        """One minute step by step, then at once all those that are like it but for the bucket's level."""
        credits_before, backlog_before = self._credits, self._backlog
        lost_before, stalled_before = self._lost_ops, self._stalled_s
        end_s = self.at_s + MINUTE_S
        while self.at_s < end_s:
            self._live(end_s)
        step = self._credits - credits_before
        if self._backlog != backlog_before or (step and self._backlog):
            return
        times = min(self._minutes_free(now_s), _minutes_inside(self.history.newest(), step))
        if times > 0:
            self.history.repeat(times, step)
            self.at_s += times * MINUTE_S
            self._credits += times * step
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
        self._operation_kib = operation_kib(load)
        reads, writes, until_s = load.segment(self.at_s, since_s)
        return Segment(reads, writes, min(until_s, change_s))

    def _work(self, until_s: int) -> None:
        reads, writes, _ = self._segment
        demand = reads + writes
        if demand > 0:
            self._read_share = reads / demand
        at_s, end_s = float(self.at_s - self.origin_s), float(until_s - self.origin_s)
        shows, footing = self._shows_balance(), self._stands_on()
        for piece in self._pieces(footing, demand, until_s - self.at_s):
            after_s = min(end_s, at_s + piece.seconds)
            self._record(at_s, after_s, piece, has_balance=shows)
            self._count(after_s, piece, demand, uses_credits=footing.uses_credits)
            at_s = after_s
        self.at_s = until_s

    def _pieces(self, footing: Footing, demand_iops: float, seconds: int) -> list[Piece]:
        run = split(
            baseline=footing.sustained_iops,
            credits_now=self._credits if footing.uses_credits else FULL,
            demand_iops=demand_iops,
            seconds=seconds,
            backlog_ops=self._backlog,
            burst_iops=footing.burst_iops,
            earning_iops=footing.earning_iops,
        )
        if footing.uses_credits:
            return run
        return [piece._replace(credits_before=self._credits, credits_after=self._credits) for piece in run]

    def _shows_balance(self) -> bool:
        if not self.tells_balance():
            return False
        return self._settings.large_publish or baseline_iops(self.size_gib) < BURST_IOPS

    def _record(self, at_s: float, after_s: float, piece: Piece, *, has_balance: bool) -> None:
        if after_s <= at_s:
            return
        reads = piece.served_iops * self._read_share
        has_balance = has_balance and (piece.served_iops > 0 or self._settings.idle_publishes)
        self.history.add(
            Stretch(
                at_s,
                after_s,
                piece.credits_before,
                piece.credits_after,
                reads,
                piece.served_iops - reads,
                has_balance,
                self._operation_kib,
            )
        )

    def _count(self, after_s: float, piece: Piece, demand_iops: float, *, uses_credits: bool) -> None:
        unserved = max(0.0, demand_iops - piece.served_iops) * piece.seconds
        if self._backlog is None:
            self._lost_ops += unserved
        else:
            self._backlog = max(0.0, self._backlog + (demand_iops - piece.served_iops) * piece.seconds)
        self._credits, self._served_iops = piece.credits_after, piece.served_iops
        if piece.credits_after > 0 or not uses_credits:
            self._dry_since_s = None
        elif self._dry_since_s is None:
            self._dry_since_s = self.origin_s + (
                after_s if piece.credits_before > 0 else after_s - piece.seconds
            )
            self._first_dry_s = self._first_dry_s or self._dry_since_s
        if uses_credits and piece.credits_before <= 0 and (unserved or self._backlog):
            self._stalled_s += piece.seconds

    def _rest(self, until_s: int) -> None:
        """No one asks anything and nothing is published; a gp2 bucket goes on earning."""
        footing = self._stands_on()
        if footing.uses_credits:
            earned = footing.earning_iops * (until_s - self.at_s)
            self._credits = min(FULL, self._credits + earned)
            self._dry_since_s = None
        self._served_iops, self.at_s = 0.0, until_s

    def _stands_on(self) -> Footing:
        """What can be served at this moment."""
        change = self._open
        if change is None:
            return footing_on(self.volume_type, self.baseline_iops)
        share, returning = change.share_at(self.at_s), self._credits_on_return() > 0
        return footing_between(change.original, change.target, share, credits_on_return=returning)

    def _credits_on_return(self) -> float:
        """What the bucket holds, or will when the modification in progress brings it back."""
        change, away_since_s = self._open, self._away_since_s
        if change is None or away_since_s is None:
            return self._credits
        earned = baseline_iops(self.size_gib) * (self.at_s - away_since_s)
        return {
            "kept": self._credits,
            "refilled": min(FULL, self._credits + earned),
            "reset": FULL,
            "emptied": 0.0,
        }[change.settings.balance_after]

    def _follow_change(self) -> None:
        change = self._open
        if change is None:
            return
        on_return = self._credits_on_return()
        super()._follow_change()
        self._meet_bucket(change, on_return)

    def _meet_bucket(self, change: Change, credits_on_return: float) -> None:
        """Leave the bucket, come back to it, or keep it through a resize; failing leaves it as it was."""
        if not (self._stands_on().uses_credits or self.tells_balance()):
            if self._away_since_s is None:
                self._away_since_s = self.at_s
            return
        if self._away_since_s is not None:
            self._away_since_s = None
            if change.state_at(self.at_s) != "failed":
                self._credits = credits_on_return
        elif change.resizes_gp2 and change.state_at(self.at_s) == "completed":
            after = {"kept": self._credits, "reset": FULL, "emptied": 0.0}
            self._credits = after[change.settings.balance_after_resize]


def _minutes_inside(minute: Run, step: float) -> int:
    """How often a minute can come again, moved by ``step`` credits each time, and touch no bound."""
    if step == 0:
        return NEVER_S
    if not minute.balance_seconds:
        return 0
    room = minute.least / -step if step < 0 else (FULL - minute.most) / step
    return math.ceil(room) - 1


def _as_load(load: Load | str) -> Load:
    return parse_load(load) if isinstance(load, str) else load


def _moment(at_s: float | None) -> datetime | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, tz=UTC)

"""One volume living in simulated time."""

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from burstlab.bucket import FULL, Piece, split
from burstlab.history import MINUTE_S, History, Run, Stretch
from burstlab.load import NEVER_S, Load, Segment, parse_load, repeats_every_minute
from burstlab.volume import DEFAULT_IOPS, Attachment, LabVolume, MetricFault, Truth
from burstwatch.core.volume import BURST_IOPS, CREDITS_PER_PCT, baseline_iops

if TYPE_CHECKING:
    from burstlab.modification import Modification

_GP3_THROUGHPUT_MIB_S: Final = 125


class SimulatedVolume:
    """A volume that lives in simulated time, brought up to a moment only when someone looks.

    Times are whole seconds since the epoch. Demand that cannot be served is lost, or queued and served later.
    """

    def __init__(
        self, given: LabVolume, *, volume_id: str, number: int, starts_s: int, queued: bool, recent_s: float
    ) -> None:
        self.volume_id = volume_id
        self.number = number
        self.size_gib = given.size_gib
        self.volume_type = given.volume_type
        self.iops = given.iops
        self.throughput_mib_s = given.throughput_mib_s
        self.shown_iops = given.shown_iops
        self.tags = dict(given.tags)
        self.created_at = given.created_at or datetime.fromtimestamp(starts_s, tz=UTC)
        self.managed_by = given.managed_by
        self.hidden = given.hidden
        self.multi_attached = given.multi_attached
        self.attachment: Attachment | None = None
        self.modification: Modification | None = None
        self.metric_fault: MetricFault | None = None
        self.gaps: list[tuple[float, float]] = []
        self.running = False
        self.publishes_balance = True
        self.origin_s = starts_s // MINUTE_S * MINUTE_S
        self.history = History(recent_s=recent_s)
        self._at_s = starts_s
        self._credits = given.balance_pct * CREDITS_PER_PCT
        self._backlog: float | None = 0.0 if queued else None
        self._loads: list[tuple[int, Load]] = [(starts_s, _as_load(given.load))]
        self._read_share = 0.0
        self._segment = Segment(0, 0, 0)
        self._served_iops = 0.0
        self._first_dry_s: float | None = None
        self._dry_since_s: float | None = None
        self._stalled_s = self._lost_ops = 0.0

    @property
    def baseline_iops(self) -> int:
        """What the type sustains: by size for gp2, as provisioned otherwise."""
        if self.volume_type == "gp2":
            return baseline_iops(self.size_gib)
        return self.iops or DEFAULT_IOPS[self.volume_type]

    @property
    def shown_rate(self) -> int | None:
        """What DescribeVolumes says in ``Iops``; st1, sc1 and standard have none."""
        if self.volume_type in ("st1", "sc1", "standard"):
            return None
        return self.shown_iops or self.baseline_iops

    @property
    def shown_throughput_mib_s(self) -> int | None:
        return (self.throughput_mib_s or _GP3_THROUGHPUT_MIB_S) if self.volume_type == "gp3" else None

    def set_load(self, load: Load | str, at_s: int) -> None:
        """From ``at_s`` on this is what is asked; changes planned for later are dropped."""
        if at_s < self._at_s:
            raise ValueError(
                f"{self.volume_id}: the load cannot change at {at_s}, {self._at_s - at_s} s ago; "
                "give a moment from now on"
            )
        self._loads = [(from_s, known) for from_s, known in self._loads if from_s < at_s]
        self._loads.append((at_s, _as_load(load)))

    def set_balance(self, balance_pct: float) -> None:
        self._credits = balance_pct * CREDITS_PER_PCT

    def catch_up(self, now_s: int) -> None:
        """Live up to ``now_s``."""
        while self._at_s < now_s:
            if not self.running:
                self._rest(now_s)
            elif self._may_repeat(now_s):
                self._live_like_minutes(now_s)
            else:
                self._live(now_s)
        self.history.close_until(now_s - self.origin_s)

    def truth(self) -> Truth:
        """The state at the moment it was brought up to."""
        return Truth(
            volume_id=self.volume_id,
            at=datetime.fromtimestamp(self._at_s, tz=UTC),
            credits=self._credits,
            burst_balance_pct=self._credits / CREDITS_PER_PCT,
            demand_iops=self._segment.read_iops + self._segment.write_iops if self.running else 0.0,
            served_iops=self._served_iops,
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
        if self._at_s % MINUTE_S or since_s > self._at_s or not repeats_every_minute(load):
            return False
        return self._minutes_free(now_s) > 1

    def _minutes_free(self, now_s: int) -> int:
        """Whole minutes ahead in which nothing is planned and whose course nobody will ask for in detail."""
        change_s = self._loads[1][0] if len(self._loads) > 1 else NEVER_S
        return int(min(change_s, now_s - self.history.recent_s) - self._at_s) // MINUTE_S

    def _live_like_minutes(self, now_s: int) -> None:
        """One minute step by step, then at once all those that are like it but for the bucket's level."""
        credits_before, backlog_before = self._credits, self._backlog
        lost_before, stalled_before = self._lost_ops, self._stalled_s
        end_s = self._at_s + MINUTE_S
        while self._at_s < end_s:
            self._live(end_s)
        step = self._credits - credits_before
        if self._backlog != backlog_before or (step and self._backlog):
            return
        times = min(self._minutes_free(now_s), _minutes_inside(self.history.newest(), step))
        if times > 0:
            self.history.repeat(times, step)
            self._at_s += times * MINUTE_S
            self._credits += times * step
            self._lost_ops += times * (self._lost_ops - lost_before)
            self._stalled_s += times * (self._stalled_s - stalled_before)

    def _drop_old_loads(self) -> None:
        while len(self._loads) > 1 and self._loads[1][0] <= self._at_s:
            del self._loads[0]

    def _next_segment(self) -> Segment:
        self._drop_old_loads()
        since_s, load = self._loads[0]
        change_s = self._loads[1][0] if len(self._loads) > 1 else NEVER_S
        if since_s > self._at_s:
            return Segment(0, 0, since_s)
        reads, writes, until_s = load.segment(self._at_s, since_s)
        return Segment(reads, writes, min(until_s, change_s))

    def _work(self, until_s: int) -> None:
        reads, writes, _ = self._segment
        demand = reads + writes
        if demand > 0:
            self._read_share = reads / demand
        at_s, end_s = float(self._at_s - self.origin_s), float(until_s - self.origin_s)
        shows = self._shows_balance()
        for piece in self._pieces(demand, until_s - self._at_s):
            after_s = min(end_s, at_s + piece.seconds)
            self._record(at_s, after_s, piece, has_balance=shows)
            self._count(after_s, piece, demand)
            at_s = after_s
        self._at_s = until_s

    def _pieces(self, demand_iops: float, seconds: int) -> list[Piece]:
        bursts = self.volume_type == "gp2"
        run = split(
            baseline=self.baseline_iops,
            credits_now=self._credits if bursts else FULL,
            demand_iops=demand_iops,
            seconds=seconds,
            backlog_ops=self._backlog,
            burst_iops=BURST_IOPS if bursts else 0,
        )
        if bursts:
            return run
        return [piece._replace(credits_before=self._credits, credits_after=self._credits) for piece in run]

    def _shows_balance(self) -> bool:
        return self.volume_type == "gp2" and (self.publishes_balance or self.baseline_iops < BURST_IOPS)

    def _record(self, at_s: float, after_s: float, piece: Piece, *, has_balance: bool) -> None:
        if after_s <= at_s:
            return
        reads = piece.served_iops * self._read_share
        self.history.add(
            Stretch(
                at_s,
                after_s,
                piece.credits_before,
                piece.credits_after,
                reads,
                piece.served_iops - reads,
                has_balance,
            )
        )

    def _count(self, after_s: float, piece: Piece, demand_iops: float) -> None:
        unserved = max(0.0, demand_iops - piece.served_iops) * piece.seconds
        if self._backlog is None:
            self._lost_ops += unserved
        else:
            self._backlog = max(0.0, self._backlog + (demand_iops - piece.served_iops) * piece.seconds)
        self._credits, self._served_iops = piece.credits_after, piece.served_iops
        if piece.credits_after > 0 or self.volume_type != "gp2":
            self._dry_since_s = None
        elif self._dry_since_s is None:
            self._dry_since_s = self.origin_s + (
                after_s if piece.credits_before > 0 else after_s - piece.seconds
            )
            self._first_dry_s = self._first_dry_s or self._dry_since_s
        if piece.credits_before <= 0 and (unserved or self._backlog):
            self._stalled_s += piece.seconds

    def _rest(self, until_s: int) -> None:
        """No one asks anything and nothing is published; a gp2 bucket goes on earning."""
        if self.volume_type == "gp2":
            earned = self.baseline_iops * (until_s - self._at_s)
            self._credits = min(FULL, self._credits + earned)
            self._dry_since_s = None
        self._served_iops, self._at_s = 0.0, until_s


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

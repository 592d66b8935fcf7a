"""Measurer: one look, or one series of writes, within a deadline."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from ddprobe_source.host.blocked_threads import Observer
from ddprobe_source.host.child_task import STEP_S, ChildTask, wait_for
from ddprobe_source.host.disk_watch import Watches, cpu_pressure_pct, io_pressure_us
from ddprobe_source.host.run_history import RunHistory
from ddprobe_source.host.state_dirs import Lock, StateDirs
from ddprobe_source.host.writer import dd_failure, remove_own_file, write_file
from ddprobe_source.judgement.counters import Delta
from ddprobe_source.judgement.disks import Site
from ddprobe_source.judgement.facts import Facts, Thresholds, passive_facts
from ddprobe_source.judgement.record import Record
from ddprobe_source.judgement.series import (
    APPENDS,
    BULK_WRITES,
    CLASSIC_BLOCKS,
    CLASSIC_CREDITS,
    DEFAULT_WRITES,
    LITE_AFTER_BULK,
    MAX_BULK_WRITES,
    Cost,
    Plan,
    Progress,
    cost_of,
    cost_so_far,
)
from ddprobe_source.judgement.tasks import STILL_S, Tasks
from ddprobe_source.options import Options

OBSERVE_AFTER_S: Final = 0.2
"""A write done by then is healthy and pays for no look at the processes."""
SECOND_PASS_S: Final = 4.0
"""A look lasts at most so much longer, until a host with thousands of threads in D was seen twice."""


class WriteAttempt(Record):
    """How one series of writes went."""

    facts: Facts
    progress: Progress
    pressure_us: dict[str, int]
    started_at_s: float
    pid: int
    observer_hung: bool


class Measurer:
    """Looks at one path, or writes to it, in children and within a deadline."""

    def __init__(
        self, options: Options, site: Site, state_dirs: StateDirs, heartbeat: Callable[[], None]
    ) -> None:
        self.options, self.site, self.state_dirs, self._heartbeat = options, site, state_dirs, heartbeat
        self.history = self._run_history()
        self.thresholds = Thresholds(warn_s=options.warn, crit_s=options.crit, ratio=options.ratio)

    def _run_history(self) -> RunHistory:
        key = "_".join([self.site.key, *self.site.volume_ids])
        return RunHistory(self.state_dirs, key, self.options.max_credit_share * self.options.baseline_iops)

    def look(self, span_s: float, own_pid: int = -1) -> Facts:
        """Watch the counters for a while, and who is in D; longer when the disk stands still."""
        watches, began_s = Watches(self.site.disks), time.monotonic()
        observer = self._observe(own_pid) if self.options.dstate else None
        tasks, until_s = None, began_s + span_s
        while (now_s := time.monotonic()) < until_s:
            fds = [observer.fd] if observer and not observer.over else []
            wait_for(fds, min(STEP_S, until_s - now_s))
            tasks = self._newest(observer, tasks)
            watches.look()
            disk = watches.slowest()
            if disk and disk.in_flight and disk.quiet_s > span_s / 2:
                until_s = max(until_s, began_s + span_s / 2 + STILL_S + STEP_S)
            if observer and not observer.over and self._needs_another_pass(tasks):
                until_s = max(until_s, min(now_s + 2 * STEP_S, began_s + span_s + SECOND_PASS_S))
            self._heartbeat()
        watches.look(even_if_just_done=True)
        tasks = self._newest(observer, tasks)
        if observer:
            observer.give_up()
        return passive_facts(watches.slowest(), tasks)

    def _needs_another_pass(self, tasks: Tasks | None) -> bool:
        """Whether some were in D in the only pass so far: the second one shows who has not run since."""
        return tasks is None or (tasks.passes == 1 and tasks.most > 0)

    def _observe(self, own_pid: int) -> ChildTask:
        return ChildTask(lambda send: Observer(self.site, own_pid, self.options.top).watch(send))

    def _newest(self, observer: ChildTask | None, tasks: Tasks | None) -> Tasks | None:
        frames = observer.receive() if observer else []
        return Tasks(**frames[-1]) if frames else tasks

    def attempt(self, level: str, lock: Lock, until_s: float, *, leave_early: bool = False) -> WriteAttempt:
        """Write in a child, watch it and the disk, and leave it alone once the time is over."""
        plan = self._plan(level)
        pressure, started_at_s, began_s = io_pressure_us(), time.time(), time.monotonic()
        watches = Watches(self.site.disks)
        dd_output = self.state_dirs.open_scratch_file()
        writer = ChildTask(lambda send: write_file(plan, send, lock.fd, dd_output), keep=[lock.fd, dd_output])
        lock.close()
        progress, observer, tasks = Progress(began_s), None, None
        while not writer.over and (now_s := time.monotonic()) < until_s:
            if observer is None and now_s - began_s >= OBSERVE_AFTER_S and self.options.dstate:
                observer = self._observe(writer.pid)
            fds = [writer.fd] + ([observer.fd] if observer and not observer.over else [])
            wait_for(fds, min(STEP_S, until_s - now_s))
            progress.take(writer.receive())
            tasks = self._newest(observer, tasks)
            if progress.is_finished:
                break
            watches.look()
            if leave_early and self._nothing_more_to_learn(watches, now_s - began_s):
                break
            self._heartbeat()
        ended_s = time.monotonic()
        self._settle(writer, plan, progress, ended_s, dd_output)
        os.close(dd_output)
        watches.look(even_if_just_done=True)
        if observer:
            observer.give_up()
        return WriteAttempt(
            facts=self._facts(level, progress, ended_s, watches.slowest(), tasks),
            progress=progress,
            pressure_us={k: v - pressure.get(k, 0) for k, v in io_pressure_us().items()},
            started_at_s=started_at_s,
            pid=writer.pid,
            observer_hung=observer is not None and tasks is None and ended_s - began_s > 1 + OBSERVE_AFTER_S,
        )

    def _plan(self, level: str) -> Plan:
        options = self.options
        ladder = options.level == "ladder"
        writes = options.writes or (DEFAULT_WRITES[options.mode] if ladder else 1)
        most_extra = cost_of("lite", writes + LITE_AFTER_BULK, (), bulk=MAX_BULK_WRITES - BULK_WRITES)
        extra = self.history.allowance() >= most_extra.credits + CLASSIC_CREDITS
        return Plan(
            level=level,
            path=os.path.join(self.site.path, options.file),
            engine=options.engine,
            data=options.data,
            writes=CLASSIC_BLOCKS if level == "classic" else writes,
            bulk=BULK_WRITES if ladder and level == "lite" else 0,
            appends=APPENDS if ladder and level == "lite" and extra else 0,
            extra=extra,
            enough_s=options.climb if ladder else None,
        )

    def _nothing_more_to_learn(self, watches: Watches, elapsed_s: float) -> bool:
        disk = watches.slowest()
        return elapsed_s >= self.thresholds.crit_s and bool(
            disk and (disk.quiet_s >= STILL_S or not disk.done)
        )

    def _settle(
        self, writer: ChildTask, plan: Plan, progress: Progress, ended_s: float, dd_output: int
    ) -> None:
        """See how the writer ended. One that has not is killed, which takes effect when the disk lets it."""
        if plan.engine == "dd" and plan.level == "classic" and writer.over:
            writer.ends_within(0.1)
            if writer.status == 0 and progress.opened_s is not None:
                progress.closed_s = ended_s
            elif writer.status is not None and progress.failure is None:
                output = os.pread(dd_output, 4096, 0).decode("utf-8", "replace")
                progress.failure = dd_failure(writer.status, output)
                ChildTask(lambda _: remove_own_file(plan, self.state_dirs)).answer(1.0)
        elif writer.over and not progress.is_finished:
            progress.failure = ("?", "the writer died: is something killing processes, or is memory short?")
        writer.give_up()

    def _facts(
        self, level: str, progress: Progress, ended_s: float, disk: Delta | None, tasks: Tasks | None
    ) -> Facts:
        took_s = {kind: tuple(seconds) for kind, seconds in progress.took_s.items()}
        return Facts(
            level=level,
            completed=progress.closed_s is not None,
            given_up=not progress.is_finished,
            elapsed_s=(progress.closed_s or ended_s) - progress.began_s,
            writes_s=took_s["classic"] or took_s["lite"] + took_s["again"],
            bulk_s=took_s["bulk"],
            append_s=took_s["append"],
            failure=progress.failure,
            healthy_s=self.history.median_s(level),
            healthy_bulk_s=self.history.median_s("bulk"),
            disk=disk,
            own_ios=self._cost(level, progress).credits,
            tasks=tasks,
            cpu_wait_s=progress.cpu_wait_s,
            cpu_pressure_pct=cpu_pressure_pct(),
            measured_s=None,
        )

    def _cost(self, level: str, progress: Progress) -> Cost:
        return cost_so_far(level, progress, self.site.disks)

    def _planned_cost(self, level: str) -> Cost:
        plan = self._plan(level)
        return cost_of(level, plan.writes, self.site.disks, bulk=plan.bulk)

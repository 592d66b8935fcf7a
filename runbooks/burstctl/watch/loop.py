"""The loop of ``burstctl watch``: a pass at every nominal tick, whatever the result of the previous one."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from time import monotonic
from typing import Final

from burstctl.cli.exit_codes import ExitCode, exit_code_of
from burstctl.cli.output import (
    describe_error,
    print_error,
    print_info,
    print_internal_error,
    print_output,
    print_warning,
    to_json,
)
from burstctl.cli.signals import StopSignal
from burstctl.context.active_policy import PolicyReloader
from burstctl.context.context import CommandContext
from burstctl.context.stacks import (
    LedgerReach,
    UnreachableWatchdogError,
    check_reaches_watchdog,
    find_stacks,
)
from burstctl.render.pass_summary import print_pass_line, print_report_failures, print_runbook_hints
from burstctl.render.show_report import render_pass_table
from burstctl.watch.presence import PRESENCE_INTERVAL_S, presence_change
from burstwatch.adapters.policy.deployments import LIST_MAX_AGE_S
from burstwatch.core.alerts.alert import make_policy_rejected
from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.text import format_clock, format_count, format_instant
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.engine.services import Services
from burstwatch.engine.tick_pass import run_tick
from burstwatch.wiring.settings import Clock

_MAX_SLEEP_S: Final = {Clock.WALL: 60.0, Clock.ENDPOINT: 0.2}
"""A machine's clock may be set; an endpoint's may run a thousand times as fast."""

_CLOCK_RETRY_S: Final = 5.0  # the lab's endpoint may be starting; AWS is not asked

_PASS_TIME_LIMIT_S: Final = 300.0
"""A pass reads no longer than from one sweep to the next; 100,000 volumes take it 75 s."""

_MAX_NAMED: Final = 3  # flipped volumes in a warning


class PassStatus(StrEnum):
    """How a pass ended; ``elsewhere`` means that another process did it, or that it was done before."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedPass:
    """The result of a pass that began at ``started_at_s``; only a completed pass has a report."""

    status: PassStatus
    started_at_s: float
    duration_s: float = 0.0
    report: PassReport | None = None
    is_policy_rejected: bool = False
    only_proposes: bool = False
    """Whether a watch that may modify volumes did not, because a stack uses another ledger."""


class WatchLoop:
    """A watch under way; ``exit_code`` is that of the last pass that had anything to say.

    ``pass_count`` is the number of passes so far. ``on_pass`` is called with the result of each pass.
    """

    def __init__(
        self,
        context: CommandContext,
        *,
        every_s: int,
        as_json: bool,
        exit_zero: bool,
        on_pass: Callable[[FinishedPass], None] = lambda _ended: None,
    ) -> None:
        self._context = context
        self._every_s = every_s
        self._as_json = as_json
        self._exit_zero = exit_zero
        self._on_pass = on_pass
        self._policy_reloader: PolicyReloader | None = None
        self._presence_recorded_at_s = -inf
        self._stacks_read_at_s: float | None = None
        self._obstacle: Problem | None = None  # why it only proposes
        self._last_table = ""
        self.pass_count = 0
        self.exit_code = ExitCode.OK

    def run(self, stop: StopSignal, *, passes: int | None) -> None:
        """Run passes until a signal arrives, or until ``passes`` are done.

        Raises:
        OutputError: stdout is closed.
        """
        last_tick_at_s = None
        while not stop.is_requested and self.pass_count != passes:
            try:
                now_s = self._context.services.clock()
            except BurstwatchError as error:
                print_error(describe_error(error), subject="no pass")
                self.exit_code = ExitCode.FAILED
                self._notify(FinishedPass(status=PassStatus.FAILED, started_at_s=last_tick_at_s or 0))
                stop.wait(_CLOCK_RETRY_S)
                continue
            tick_at_s = int(now_s // self._every_s) * self._every_s
            if tick_at_s == last_tick_at_s:
                remaining_s = tick_at_s + self._every_s - now_s
                stop.wait(min(remaining_s, _MAX_SLEEP_S[self._context.clock]))
                continue
            if self.pass_count:
                print_info("")
            self._notify(self._run_pass(tick_at_s, now_s, stop))
            last_tick_at_s = tick_at_s
            self.pass_count += 1

    def _notify(self, finished: FinishedPass) -> None:
        try:
            self._on_pass(replace(finished, only_proposes=self._obstacle is not None))
        except Exception as error:  # noqa: BLE001 - who listens ends no watch
            print_internal_error(error)

    def _run_pass(self, tick_at_s: int, now_s: float, stop: StopSignal) -> FinishedPass:
        """Run one pass; any failure is reported, and the next pass starts on time."""
        self._context.services.calls.reset()
        self._context.progress.begin()
        started = monotonic()
        failed_pass = FinishedPass(status=PassStatus.FAILED, started_at_s=now_s)
        try:
            self._check_stacks(now_s)
            self._record_presence(now_s)
            report = run_tick(self._services_for_pass(now_s, stop), tick_at_s=tick_at_s, now_s=now_s)
        except BurstwatchError as error:
            self.exit_code = ExitCode.FAILED
            print_error(describe_error(error), subject=f"the pass of {format_clock(tick_at_s)} UTC failed")
            return failed_pass
        except Exception as error:  # noqa: BLE001 - a watchdog outlives a bad pass, and says what was wrong
            self.exit_code = ExitCode.FAILED
            print_internal_error(error)
            return failed_pass
        finally:
            self._context.progress.end()
        if report is None:
            print_info(
                f"{format_clock(tick_at_s)} UTC: done already, by another process or before a clock was set"
                " back"
            )
            return replace(failed_pass, status=PassStatus.ELSEWHERE)
        self.exit_code = exit_code_of(report, exit_zero=self._exit_zero)
        self._print_pass(report, tick_at_s)
        return FinishedPass(
            status=PassStatus.PARTIAL if report.has_failed else PassStatus.COMPLETE,
            started_at_s=now_s,
            duration_s=monotonic() - started,
            report=report,
            is_policy_rejected=self._policy_reloader is not None and self._policy_reloader.is_rejected,
        )

    def _print_pass(self, report: PassReport, tick_at_s: int) -> None:
        """Print one pass of many; a table like the last one is not repeated."""
        if self._as_json:
            print_output(to_json(report.to_document(), is_compact=True))
        print_pass_line(report, tick_at_s, has_other_stack=self._obstacle is not None)
        table = "" if self._as_json else render_pass_table(report)
        if table and table != self._last_table:
            print_output(table)
        self._last_table = table
        print_runbook_hints(report, self._context.services.policy.alerts.runbooks_url)
        print_report_failures(report)

    def _check_stacks(self, now_s: float) -> None:
        """Only propose while a stack uses another ledger: neither would know the other's holds and flips.

        The command has read the stacks at its start. If they cannot be read, what was last read counts.
        """
        context = self._context
        if context.services.modifier is None or context.options.ledger:
            return
        if self._stacks_read_at_s is None:
            self._stacks_read_at_s = now_s
        if abs(now_s - self._stacks_read_at_s) < LIST_MAX_AGE_S:
            return
        stacks = find_stacks(context.session, context.services.calls)
        if stacks.failure is not None:
            self._stacks_read_at_s = now_s
            print_warning(stacks.failure.problem, subject="the deployed stacks cannot be listed")
            return
        obstacle = None
        try:
            check_reaches_watchdog(
                LedgerReach.of(stacks, context.reach.ledger, context.reach.region),
                context.options,
                outcome="from now on this watch only proposes",
                action="its holds and caps",
                effect="count here",
            )
        except UnreachableWatchdogError as error:
            obstacle = error.problem
            if obstacle != self._obstacle:
                print_warning(self._with_return_commands(obstacle))
        if self._obstacle is not None and obstacle is None:
            print_info("this watch acts again: no stack uses another ledger")
        self._obstacle = obstacle
        self._stacks_read_at_s = now_s

    def _with_return_commands(self, obstacle: Problem) -> Problem:
        """The obstacle; its fix begins with how flipped volumes return, as only this ledger knows of them."""
        states = self._context.services.ledger.states()
        flipped = sorted(
            volume_id for volume_id, state in states.items() if state.flip and not state.flip.is_permanent
        )
        if not flipped:
            return obstacle
        reach = self._context.reach
        options = replace(self._context.options, ledger=reach.ledger).arguments_in(reach.region)
        count = format_count(len(flipped), "volume")
        fix = [f"first bring back what is flipped, {count}, as only this ledger knows of it"]
        fix += [shlex.join(["burstctl", "flip-back", name, *options]) for name in flipped[:_MAX_NAMED]]
        if len(flipped) > _MAX_NAMED:
            all_of_them = shlex.join(["burstctl", "assess", "--all", *options])
            fix.append(f"and {len(flipped) - _MAX_NAMED:,} more: {all_of_them}")
        return Problem(obstacle.cause, "\n".join([*fix, f"then {obstacle.fix}"]))

    def _record_presence(self, now_s: float) -> None:
        """Let ``burstctl flip --for`` see that a watchdog is at work which will return the volume."""
        services = self._context.services
        may_act = services.modifier is not None and self._obstacle is None
        if may_act and now_s - self._presence_recorded_at_s >= PRESENCE_INTERVAL_S:
            services.ledger.commit([presence_change(now_s)], channels=())
            self._presence_recorded_at_s = now_s

    def _services_for_pass(self, now_s: float, stop: StopSignal) -> Services:
        """The shell of one pass: with the policy as its file is now, or was when it was last good."""
        services = self._context.services
        if self._policy_reloader is None:
            self._policy_reloader = PolicyReloader(self._context.policy_source, services.policy, now_s=now_s)
        reloader = self._policy_reloader
        if reloader.reload(now_s):
            print_info(f"policy: {reloader.source} is valid and in force from now on")
        if reloader.unreported_read_error:
            print_error(
                reloader.unreported_read_error,
                subject="the policy could not be read, so the last valid one stays in force",
            )
        if reloader.unreported_faults:
            _record_rejection(services, reloader, int(now_s))
        reloader.mark_reported()
        return replace(
            services,
            policy=reloader.policy,
            modifier=services.modifier if self._obstacle is None else None,
            should_stop=lambda: stop.is_requested,
            read_limit_s=_PASS_TIME_LIMIT_S,
        )


def _record_rejection(services: Services, reloader: PolicyReloader, now_s: int) -> None:
    """Put the alert about a bad policy into the ledger; the pass that follows sends it."""
    alert = make_policy_rejected(
        reloader.unreported_faults,
        in_force=f"{reloader.source.location} as it was at {format_instant(reloader.in_force_since_s)}",
        action=reloader.source.check_command,
        location=services.location,
        runbooks_url=reloader.policy.alerts.runbooks_url,
        now_s=now_s,
    )
    entry = LedgerEntry(
        volume_id="policy",
        revision=now_s,
        kind=EntryKind.POLICY_REJECTED,
        at_s=now_s,
        body={"faults": list(reloader.unreported_faults)},
    )
    change = Change(volume_id="policy", expected_revision=None, state=None, entries=(entry,), alerts=(alert,))
    services.ledger.commit([change], channels=[channel.name for channel in services.channels])

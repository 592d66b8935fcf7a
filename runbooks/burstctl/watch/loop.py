"""The loop of ``burstctl watch``: a pass at every nominal tick, whatever became of the one before."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from time import monotonic
from typing import Final

from burstctl.cli.exit_codes import Exit, exit_of
from burstctl.cli.output import complain, complain_of_bug, say
from burstctl.cli.signals import StopSignal
from burstctl.context.active_policy import PolicyKeeper
from burstctl.context.context import Desk
from burstctl.render.pass_summary import tell_failures, tell_pages, tell_pass
from burstctl.render.show_report import show_pass
from burstctl.watch.presence import MARK_EVERY_S, make_mark
from burstwatch.core.alerts.alert import make_policy_rejected
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.ledger.ledger import Change, EntryKind, LedgerEntry
from burstwatch.core.text import format_clock, format_instant
from burstwatch.core.watch.report import Report
from burstwatch.engine.services import Shell
from burstwatch.engine.watch_pass import run_tick
from burstwatch.wiring.settings import Clock

_LONGEST_NAP_S: Final = {Clock.WALL: 60.0, Clock.ENDPOINT: 0.2}
"""A machine's clock may be set; an endpoint's may run a thousand times as fast."""

_CLOCK_RETRY_S: Final = 5.0

_LOOK_WITHIN_S: Final = 300.0
"""A pass reads no longer than from one sweep to the next; 100,000 volumes take it 75 s."""


class PassResult(StrEnum):
    """How a pass ended; ``elsewhere`` is one that another process did, or that was done before."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassEnded:
    """What became of a pass that began ``at_s``; only one that was carried through has a report."""

    result: PassResult
    at_s: float
    took_s: float = 0.0
    report: Report | None = None
    is_policy_rejected: bool = False


class Watch:
    """A watch under way; ``exit_code`` is that of the last pass that had anything to say.

    ``tell`` hears what became of each pass.
    """

    def __init__(
        self,
        desk: Desk,
        *,
        every_s: int,
        as_json: bool,
        exit_zero: bool,
        tell: Callable[[PassEnded], None] = lambda _ended: None,
    ) -> None:
        self._desk = desk
        self._every_s = every_s
        self._as_json = as_json
        self._exit_zero = exit_zero
        self._tell = tell
        self._keeper: PolicyKeeper | None = None
        self._marked_s = -inf
        self.exit_code = Exit.FINE

    def run(self, stop: StopSignal, *, passes: int | None) -> None:
        """Run passes until a signal comes, or so many are done.

        Raises:
            OutputError: nobody takes the output any more.
        """
        last_s, done = None, 0
        while not stop.is_asked and done != passes:
            try:
                now_s = self._desk.shell.clock()
            except BurstwatchError as error:
                complain(f"no pass: {error}")
                self.exit_code = Exit.FAILED
                self._hand_on(PassEnded(result=PassResult.FAILED, at_s=last_s or 0))
                stop.wait(_CLOCK_RETRY_S)
                continue
            tick_s = int(now_s // self._every_s) * self._every_s
            if tick_s == last_s:
                remaining_s = tick_s + self._every_s - now_s
                stop.wait(min(remaining_s, _LONGEST_NAP_S[self._desk.clock]))
                continue
            self._hand_on(self._pass(tick_s, now_s, stop))
            last_s, done = tick_s, done + 1

    def _hand_on(self, ended: PassEnded) -> None:
        try:
            self._tell(ended)
        except Exception as error:  # noqa: BLE001 - who listens ends no watch
            complain_of_bug(error)

    def _pass(self, tick_s: int, now_s: float, stop: StopSignal) -> PassEnded:
        """One pass; whatever goes wrong in it is said, and the next one comes in time."""
        self._desk.shell.calls.reset()
        self._desk.progress.begin()
        began = monotonic()
        failed = PassEnded(result=PassResult.FAILED, at_s=now_s)
        try:
            self._mark(now_s)
            report = run_tick(self._shell(now_s, stop), tick_s=tick_s, now_s=now_s)
        except BurstwatchError as error:
            self.exit_code = Exit.FAILED
            complain(f"the pass of {format_clock(tick_s)} UTC failed: {error}")
            return failed
        except Exception as error:  # noqa: BLE001 - a watchdog outlives a bad pass, and says what was wrong
            self.exit_code = Exit.FAILED
            complain_of_bug(error)
            return failed
        finally:
            self._desk.progress.end()
        if report is None:
            say(
                f"{format_clock(tick_s)} UTC: done already, by another process or before a clock was set back"
            )
            return replace(failed, result=PassResult.ELSEWHERE)
        self.exit_code = exit_of(report, exit_zero=self._exit_zero)
        show_pass(report, as_json=self._as_json)
        tell_pass(report, tick_s)
        tell_pages(report, self._desk.shell.policy.alerts.runbooks_url)
        tell_failures(report)
        return PassEnded(
            result=PassResult.PARTIAL if report.has_failed else PassResult.COMPLETE,
            at_s=now_s,
            took_s=monotonic() - began,
            report=report,
            is_policy_rejected=self._keeper is not None and self._keeper.is_rejected,
        )

    def _mark(self, now_s: float) -> None:
        """Let ``burstctl flip --for`` see that a watchdog is at work which will return the volume."""
        shell = self._desk.shell
        if shell.modifier is not None and now_s - self._marked_s >= MARK_EVERY_S:
            shell.ledger.commit([make_mark(now_s)], channels=())
            self._marked_s = now_s

    def _shell(self, now_s: float, stop: StopSignal) -> Shell:
        """The shell of one pass: with the policy as its file is now, or was when it was last good."""
        shell = self._desk.shell
        if self._keeper is None:
            self._keeper = PolicyKeeper(self._desk.policy_source, shell.policy, now_s=now_s)
        keeper = self._keeper
        if keeper.look_again(now_s):
            say(f"policy: {keeper.source} is good and in force from now on")
        if keeper.unread:
            complain(f"the policy could not be read, the last good one stays in force: {keeper.unread}")
        if keeper.untold:
            _record_rejection(shell, keeper, int(now_s))
        keeper.told()
        return replace(
            shell,
            policy=keeper.policy,
            should_stop=lambda: stop.is_asked,
            look_within_s=_LOOK_WITHIN_S,
        )


def _record_rejection(shell: Shell, keeper: PolicyKeeper, now_s: int) -> None:
    """Put the alert about a bad policy into the ledger; the pass that follows sends it."""
    alert = make_policy_rejected(
        keeper.untold,
        in_force=f"{keeper.source.place} as it was at {format_instant(keeper.in_force_since_s)}",
        action=keeper.source.check_command,
        place=shell.place,
        runbooks_url=keeper.policy.alerts.runbooks_url,
        now_s=now_s,
    )
    entry = LedgerEntry(
        volume_id="policy",
        revision=now_s,
        kind=EntryKind.POLICY_REJECTED,
        at_s=now_s,
        body={"faults": list(keeper.untold)},
    )
    change = Change(volume_id="policy", expected_revision=None, state=None, entries=(entry,), alerts=(alert,))
    shell.ledger.commit([change], channels=[channel.name for channel in shell.channels])

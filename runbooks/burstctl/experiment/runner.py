"""The steps of an experiment, from where the last process stopped: leave, stay, return, watch, conclude.

Before each effect, the journal records what is about to be done; requests to AWS are recorded in the ledger.
A process that continues reads both, and does the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final

from burstctl.cli.output import print_error, print_info
from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH
from burstctl.context.context import CommandContext
from burstctl.context.delivery import deliver_after_modification
from burstctl.experiment.credit_reset import (
    MAX_AWAY_S,
    MIN_RETURN_SPAN_S,
    RoundTrip,
    credits_on_arrival,
    min_away_s,
    reach_verdict,
)
from burstctl.experiment.datapoints import read_round_trip
from burstctl.experiment.journal import Journal, JournalStore, ModificationTimes, Stage
from burstctl.experiment.preflight import MODIFICATIONS_NEEDED
from burstctl.experiment.report import ExperimentResult, write_report
from burstctl.experiment.waiting import Waiter
from burstwatch.core.durations import DAY_S, HOUR_S
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.sizing import TargetOverride
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_types import configuration_of
from burstwatch.core.errors import LedgerError, Problem
from burstwatch.core.flips.flip_plan import FlipOrder, modifications_used
from burstwatch.core.flips.guards import QUOTA, hold_refusal
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.ledger.flip_state import Direction, Flip, FlipCause, FlipStatus, Hold
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.text import format_clock, format_duration, format_instant, sanitise
from burstwatch.engine.event_pass import evaluate_volumes
from burstwatch.engine.flip_executor import execute_flips

_POLL_INTERVAL_S: Final = 60  # a datapoint comes at most once a minute
_SLOW_POLL_INTERVAL_S: Final = 300  # nothing is expected for hours; an interruption must still be noticed
_DATAPOINT_TIMEOUT_S: Final = HOUR_S
"""How long to wait for datapoints after the return while CloudWatch responds."""

_LEDGER_OUTAGE_LIMIT_S: Final = 6 * HOUR_S
"""How long to wait for a ledger that could be used before."""

_HOLD_RENEWAL_S: Final = 12 * HOUR_S  # half of the day that a hold is placed ahead
_MAX_ATTEMPTS: Final = 5  # AWS refuses for a passing reason now and then, but not five times
_CONFIRMATION_VALID_FOR_S: Final = 2 * HOUR_S
"""A person's confirmation is based on a reading of the volume, and is valid for this long."""

_RETURN_DURATION_FACTOR: Final = 1.25
"""The return is assumed to take this much longer than the first modification."""


@dataclass(slots=True)
class ExperimentRunner:
    """An experiment under way; ``run`` does what is left of it.

    ``was_refused``: a guard said no, and nothing was modified.
    """

    context: CommandContext
    store: JournalStore
    journal: Journal
    waiter: Waiter
    was_refused: bool = field(default=False, init=False)
    _now_s: float = field(default=0.0, init=False)
    _last_step_at_s: float | None = field(default=None, init=False)
    _last_message: str = field(default="", init=False)
    _result: ExperimentResult | None = field(default=None, init=False)
    _reported: set[str] = field(default_factory=set, init=False)

    def run(self) -> Journal:
        """Go on until it is over.

        Raises:
            Stopped: a person wants to go on later.
            BurstwatchError: the ledger, the journal or the report cannot be used.
        """
        while not self.journal.is_over:
            self._now_s = self.context.services.clock()
            try:
                _STEPS[self.journal.stage](self)
            except LedgerError as error:
                self._wait_for_ledger(error)
            else:
                self._last_step_at_s = self._now_s
        return self.journal

    def _wait_for_ledger(self, error: LedgerError) -> None:
        """Do not stop: the volume would stay on its target. The journal allows a restart at any point.

        Raises:
            LedgerError: it was never there, or is away for too long.
        """
        if self._last_step_at_s is None or self._now_s - self._last_step_at_s > _LEDGER_OUTAGE_LIMIT_S:
            raise error
        self._report_progress(f"the ledger cannot be used and is tried again every minute: {error}")
        self.waiter.wait_until(self._now_s + _POLL_INTERVAL_S)

    def _step_leaving(self) -> None:
        """Modify the volume to its target, unless that is in progress."""
        self._ensure_hold()
        state = self._assess()
        flip = state.flip
        if flip is not None and not self._is_own(flip):
            self._fail(f"{flip.by} has requested {flip.requested_config} in the meantime")
        elif flip is not None and flip.status is FlipStatus.ON_TARGET:
            self._enter_stage(Stage.AWAY, self._modification_times(flip.started_at_s, flip.reached_at_s))
        elif flip is not None:
            self._wait_for_aws(flip)
        elif state.is_contested or self._has_reached_target():
            self._fail("someone else changed or returned it")
        elif self.journal.is_abandoned:
            self._save(stage=Stage.CONCLUDED)
        else:
            self._request_flip(state)

    def _has_reached_target(self) -> bool:
        """Whether it was away already, by the ledger: then it is not sent again."""
        journal = self.journal
        entries = self.context.services.ledger.entries(journal.volume_id, since_s=journal.begun_s)
        return any(entry.kind is EntryKind.REACHED for entry in entries)

    def _request_flip(self, state: ResourceState) -> None:
        journal = self.journal
        if (retry_at_s := state.next_attempt_at_s(self._now_s)) is not None:
            self._report_progress(f"tried again from {format_clock(retry_at_s)} UTC on")
            self.waiter.wait_until(retry_at_s)
            return
        if journal.attempts >= _MAX_ATTEMPTS:
            self._fail(f"it could not leave in {journal.attempts} attempts")
            return
        if (refusal := self._flip_refusal(state)) is not None:
            self.was_refused = True
            self._fail(refusal)
            return
        self._save(attempts=journal.attempts + 1)
        self._report_progress(f"asking AWS to make it {journal.target}")
        outcome = self._execute_flip(Direction.FLIP)
        if outcome.status in (OutcomeStatus.REFUSED, OutcomeStatus.FAILED) and not self._is_flip_under_way():
            self.was_refused = outcome.status is OutcomeStatus.REFUSED
            self._fail(f"it could not leave: {outcome.reason}")

    def _flip_refusal(self, state: ResourceState) -> str | None:
        """What has come up since it was agreed to."""
        if self._now_s - self.journal.begun_s > _CONFIRMATION_VALID_FOR_S:
            agreed_at = format_instant(self.journal.begun_s)
            return f"it was confirmed at {agreed_at}, and much may have changed since: start again"
        modifications = len(modifications_used(state, self._modification(), self._now_s))
        if modifications > QUOTA - MODIFICATIONS_NEEDED - 1:
            return f"{modifications} of AWS's {QUOTA} modifications in 24 h are used, which leaves too few"
        hold = self._other_hold()  # the last to be asked: from here on no hold stops it
        return None if hold is None else str(hold_refusal(hold))

    def _step_away(self) -> None:
        """Stay on the target until the answers can be distinguished."""
        journal = self.journal
        assert journal.out is not None
        state = self._assess()
        flip = state.flip
        is_own = flip is not None and self._is_own(flip) and flip.direction is Direction.FLIP
        if not is_own or state.is_contested:
            self._fail("someone else changed or returned it while it was away")
            return
        if journal.stay_s is None and not journal.is_abandoned:
            self._set_stay()
            return
        ends_s = journal.out.ended_s + (journal.stay_s or 0)
        now_s = self._now_s
        if journal.is_abandoned or now_s >= ends_s:
            self._save(stage=Stage.RETURNING)
            return
        self._ensure_hold()
        self._report_progress(f"it is {journal.target} and stays so until {format_clock(ends_s)} UTC")
        self.waiter.wait_until(min(ends_s, now_s + _SLOW_POLL_INTERVAL_S))

    def _set_stay(self) -> None:
        """Compute how long it stays. While CloudWatch does not answer, it waits until the return is due."""
        journal, now_s = self.journal, self._now_s
        assert journal.out is not None
        round_trip, failures = read_round_trip(self.context.services, journal, now_s)
        ends_s = journal.out.ended_s + journal.away_s
        if not failures or now_s >= ends_s:
            self._save(stay_s=self._required_stay_s(round_trip))
            return
        self._report_failures(failures)
        self._ensure_hold()
        self._report_progress("how long it stays is computed when CloudWatch answers")
        self.waiter.wait_until(min(ends_s, now_s + _POLL_INTERVAL_S))

    def _required_stay_s(self, round_trip: RoundTrip) -> int:
        """The agreed duration; longer if a slow modification makes refilled and kept indistinguishable."""
        journal = self.journal
        assert journal.out is not None
        on_arrival = credits_on_arrival(round_trip)
        modify_s = journal.out.ended_s - journal.out.started_s
        if on_arrival is None:
            return journal.away_s
        operations, minutes = sum(round_trip.operations.values), len(round_trip.operations) or 1
        needed_s = min_away_s(
            on_arrival,
            size_gib=journal.size_gib,
            iops=operations / (60 * minutes),
            modify_s=modify_s * _RETURN_DURATION_FACTOR,
        )
        if needed_s is None:
            self._report_progress(
                f"AWS took {format_duration(modify_s)}: if the way back takes as long, no stay up to"
                f" {format_duration(MAX_AWAY_S)} distinguishes refilled from kept with certainty"
            )
            return journal.away_s
        if needed_s > journal.away_s:
            self._report_progress(
                f"AWS took {format_duration(modify_s)}, so it stays for {format_duration(needed_s)}"
            )
        return max(needed_s, journal.away_s)

    def _step_returning(self) -> None:
        """Restore the volume's configuration; retry until it is restored."""
        self._ensure_hold()
        state = self._assess()
        flip = state.flip
        if flip is None:
            self._confirm_return(state)
        elif not self._is_own(flip) or state.is_contested:
            author = "" if self._is_own(flip) else f": {flip.by} asked for {flip.requested_config}"
            self._fail(f"someone else has changed it{author}")
        elif flip.status is FlipStatus.ON_TARGET:
            self._request_flip_back(state)
        else:
            self._wait_for_aws(flip)

    def _request_flip_back(self, state: ResourceState) -> None:
        now_s = self._now_s
        if (hold := self._other_hold()) is not None:
            self._report_progress(f"it cannot return: {hold_refusal(hold)}")
            self.waiter.wait_until(now_s + _SLOW_POLL_INTERVAL_S)
            return
        if (retry_at_s := state.next_attempt_at_s(now_s)) is not None:
            self.waiter.wait_until(min(retry_at_s, now_s + _SLOW_POLL_INTERVAL_S))
            return
        self._report_progress(f"asking AWS to make it {self.journal.original} again")
        outcome = self._execute_flip(Direction.FLIP_BACK)
        if outcome.status in (OutcomeStatus.REFUSED, OutcomeStatus.FAILED) and not self._is_flip_under_way():
            self._report_progress(f"it cannot return yet: {outcome.reason}")
            self.waiter.wait_until(now_s + _SLOW_POLL_INTERVAL_S)

    def _confirm_return(self, state: ResourceState) -> None:
        volume = self._volume()
        if volume is None:
            self.waiter.wait_until(self._now_s + _POLL_INTERVAL_S)
        elif state.is_contested or not volume.is_gp2:
            self._fail(f"someone else changed it; it is {volume.volume_type} now")
        elif self.journal.is_abandoned:
            self._save(stage=Stage.CONCLUDED)
        else:
            self._enter_stage(
                Stage.WATCHING, self._modification_times(state.modifications.returned_at_s, None)
            )

    def _step_watching(self) -> None:
        """Collect datapoints until there are enough, or no more are expected."""
        journal = self.journal
        assert journal.back is not None
        state = self._assess()
        if journal.is_abandoned:
            self._save(stage=Stage.CONCLUDED)
        elif state.flip is not None:
            self._fail(
                f"{state.flip.by} has asked for {state.flip.requested_config} before there was an answer"
            )
        else:
            self._conclude(*self._evaluate())

    def _conclude(self, result: ExperimentResult, failures: list[str]) -> None:
        assert self.journal.back is not None
        now_s, round_trip = self._now_s, result.round_trip
        assert round_trip is not None
        returned_at_s = self.journal.back.ended_s
        is_last = now_s >= returned_at_s + (DAY_S if failures else _DATAPOINT_TIMEOUT_S)
        if is_last or (round_trip.has_enough_datapoints and not failures):
            write_report(result, self.journal.report)
            self._result = result
            self._save(stage=Stage.CONCLUDED, conclusion=result.conclusion)
            return
        self._report_failures(failures)
        self._ensure_hold()
        duration = format_duration(MIN_RETURN_SPAN_S)
        reason = "its datapoints are waited for until CloudWatch answers" if failures else ""
        self._report_progress(
            f"it is {self.journal.original} again: {reason or f'{duration} of datapoints are waited for'}"
        )
        self.waiter.wait_until(now_s + _POLL_INTERVAL_S)

    def _step_concluded(self) -> None:
        journal, ledger, now_s = self.journal, self.context.services.ledger, int(self._now_s)
        if self._own_hold() is not None:
            ledger.lift_hold(journal.volume_id, by=self.context.operator, at_s=now_s)
            self._report_progress("released")
        self._save(stage=Stage.OVER)

    def _evaluate(self) -> tuple[ExperimentResult, list[str]]:
        """What the datapoints say by now."""
        now_s = self._now_s
        round_trip, failures = read_round_trip(self.context.services, self.journal, now_s)
        return ExperimentResult(
            journal=self.journal, now_s=now_s, round_trip=round_trip, verdict=reach_verdict(round_trip)
        ), list(failures)

    def result(self) -> ExperimentResult:
        """The result so far; the answer once the volume has returned."""
        if self._result is not None:
            return replace(self._result, journal=self.journal)
        if self.journal.back is None or self.journal.failed or self.journal.is_abandoned:
            return ExperimentResult(journal=self.journal, now_s=self._now_s)
        return self._evaluate()[0]

    def _enter_stage(self, stage: Stage, times: ModificationTimes) -> None:
        key = "out" if stage is Stage.AWAY else "back"
        duration = format_duration(times.ended_s - times.started_s)
        configuration = self.journal.target if stage is Stage.AWAY else self.journal.original
        self._report_progress(
            f"it is {configuration}{'' if stage is Stage.AWAY else ' again'}; AWS took {duration}"
        )
        self._save(stage=stage, **{key: times})

    def _fail(self, reason: str) -> None:
        """There will be no answer: what remains is to let go of the volume."""
        text = sanitise(f"{reason}{self._left_on_target_note()}", MAX_SENTENCE_LENGTH)
        volume_id = self.journal.volume_id
        print_error(Problem(f"{volume_id}: no answer: {text}", f"see {self._history_command()}"))
        self._save(stage=Stage.CONCLUDED, failed=text)

    def _history_command(self) -> str:
        return self.context.options.command("history", self.journal.volume_id)

    def _left_on_target_note(self) -> str:
        """A volume that others changed costs money until it is restored; the note explains how to do that.

        No note for a gp2 volume, nor for another person's flip, which has its own return.
        """
        volume, volume_id, flip = self._volume(), self.journal.volume_id, self._state().flip
        if volume is None or volume.is_gp2 or (flip is not None and not self._is_own(flip)):
            return ""
        configuration = configuration_of(volume) or volume.volume_type
        flip_back = self.context.options.command("flip-back", volume_id)
        command = flip_back if flip else f"see {self._history_command()}"
        return f". It is {configuration} now, and it is not returned automatically: {command}"

    def _report_failures(self, failures: Sequence[str]) -> None:
        """Report failed calls; a failure that repeats is reported once."""
        for failure in failures:
            if failure not in self._reported:
                self._reported.add(failure)
                print_error(failure)

    def _save(self, **changes: object) -> None:
        journal = replace(self.journal, **changes)  # type: ignore[arg-type]
        self.store.save(journal)
        self.journal = journal

    def _report_progress(self, text: str) -> None:
        """Report the phase, once."""
        if text != self._last_message:
            self._last_message = text
            print_info(f"{format_clock(self._now_s)} UTC: {sanitise(text, MAX_SENTENCE_LENGTH)}")

    def _assess(self) -> ResourceState:
        """Look at the volume as a watchdog does, which settles what AWS has done; it modifies nothing."""
        services, volume_id = replace(self.context.services, modifier=None), self.journal.volume_id
        result = evaluate_volumes(services, {volume_id}, now_s=self._now_s)
        self._report_failures(result.report.failures)
        return self._state()

    def _state(self) -> ResourceState:
        volume_id = self.journal.volume_id
        state = self.context.services.ledger.states_of({volume_id}).get(volume_id)
        return state or ResourceState(volume_id=volume_id, revision=0)

    def _is_own(self, flip: Flip) -> bool:
        return flip.reason.startswith(self.journal.flip_reason)

    def _is_flip_under_way(self) -> bool:
        """Whether the modification is in progress although the response was lost."""
        flip = self._state().flip
        return flip is not None and self._is_own(flip) and flip.is_under_way

    def _wait_for_aws(self, flip: Flip) -> None:
        modification, now_s = self._modification(), self._now_s
        text = f"being modified to {flip.requested_config}"
        if modification is not None and modification.is_in_progress:
            progress_pct = (modification.progress_pct or 0) // 25 * 25
            text += f": {modification.state}" + (f", {progress_pct} % and more" if progress_pct else "")
        self._report_progress(text)
        self._ensure_hold()
        self.waiter.wait_until(now_s + _POLL_INTERVAL_S)

    def _modification(self) -> Modification | None:
        volume_id = self.journal.volume_id
        modifications, _ = self.context.services.build_collector(self._now_s).modifications({volume_id})
        return modifications.get(volume_id)

    def _volume(self) -> Volume | None:
        volumes, _ = self.context.services.build_collector(self._now_s).volumes_by_id(
            {self.journal.volume_id}
        )
        return volumes[0] if volumes else None

    def _modification_times(self, seen_start_s: int | None, seen_end_s: int | None) -> ModificationTimes:
        """The completed modification according to AWS's record, or to what was observed without a record."""
        modification, now_s = self._modification(), int(self._now_s)
        if modification is not None and modification.started_at and modification.ended_at:
            started_at_s, ended_at_s = (
                int(at.timestamp()) for at in (modification.started_at, modification.ended_at)
            )
            if seen_start_s is None or abs(started_at_s - seen_start_s) <= _POLL_INTERVAL_S:
                return ModificationTimes(started_s=started_at_s, ended_s=max(started_at_s, ended_at_s + 1))
        end_s = seen_end_s or now_s
        return ModificationTimes(started_s=min(seen_start_s or end_s, end_s), ended_s=end_s)

    def _execute_flip(self, direction: Direction) -> Outcome:
        """Make one modification in the usual way: guards, intent, call, outcome.

        Its intent bears the time at which it is recorded, so the clock is read again.
        """
        services, journal, started = self.context.services, self.journal, monotonic()
        now_s = services.clock()
        is_flip, target = direction is Direction.FLIP, journal.target
        order = FlipOrder(
            volume_id=journal.volume_id,
            direction=direction,
            cause=FlipCause.MANUAL,
            reason=journal.flip_reason,
            by=self.context.operator,
            override=TargetOverride(
                volume_type=target.volume_type, iops=target.iops, throughput_mib_s=target.throughput_mib_s
            )
            if is_flip
            else None,
            return_after_s=self._hold_until_s() if is_flip else None,
            own_hold_reason=journal.flip_reason,
        )
        outcome = execute_flips(services, [order], services.build_collector(now_s))[journal.volume_id]
        errors = deliver_after_modification(services, now_s, lambda: now_s + monotonic() - started)
        self._report_failures(errors)
        return outcome

    def _ensure_hold(self) -> None:
        """Hold the volume against the watchdog, until a day after the expected end."""
        own_hold, now_s = self._own_hold(), int(self._now_s)
        if own_hold is not None and own_hold.until_s > now_s + _HOLD_RENEWAL_S:
            return
        ledger, volume_id = self.context.services.ledger, self.journal.volume_id
        if any(hold.volume_id == volume_id and hold != own_hold for hold in ledger.holds(now_s)):
            return
        ledger.place_hold(
            Hold(
                volume_id=volume_id,
                by=self.context.operator,
                reason=self.journal.flip_reason,
                placed_at_s=now_s,
                until_s=self._hold_until_s(),
            )
        )
        self._report_progress(f"on hold until {format_instant(self._hold_until_s())}")

    def _hold_until_s(self) -> int:
        journal = self.journal
        return max(journal.begun_s + journal.lasts_s, int(self._now_s)) + DAY_S

    def _own_hold(self) -> Hold | None:
        holds = self.context.services.ledger.holds(self._now_s)
        volume_id, reason = self.journal.volume_id, self.journal.flip_reason
        return next((hold for hold in holds if hold.volume_id == volume_id and hold.reason == reason), None)

    def _other_hold(self) -> Hold | None:
        """A hold that is not the experiment's own: the kill switch, say, which stops it as well."""
        now_s, own_hold = self._now_s, self._own_hold()
        volume_id = self.journal.volume_id
        holds = self.context.services.ledger.holds(now_s)
        return next((hold for hold in holds if hold != own_hold and hold.applies_to(volume_id, now_s)), None)


_STEPS: Final[dict[Stage, Callable[[ExperimentRunner], None]]] = {
    Stage.LEAVING: ExperimentRunner._step_leaving,  # noqa: SLF001 - its own
    Stage.AWAY: ExperimentRunner._step_away,  # noqa: SLF001
    Stage.RETURNING: ExperimentRunner._step_returning,  # noqa: SLF001
    Stage.WATCHING: ExperimentRunner._step_watching,  # noqa: SLF001
    Stage.CONCLUDED: ExperimentRunner._step_concluded,  # noqa: SLF001
}

"""The experiment itself, from wherever the last process stopped: leave, stay, return, watch, conclude.

Before each effect the journal says what is about to be done; what AWS was asked for is in the ledger. So
whoever goes on looks at both, and does what is left.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final

from burstctl.cli.output import complain, say
from burstctl.cli.text_layout import LONGEST_SENTENCE
from burstctl.context.context import Desk
from burstctl.experiment.credit_reset import (
    ENOUGH_S,
    MOST_AWAY_S,
    Journey,
    judge,
    shortest_away_s,
    weigh_there,
)
from burstctl.experiment.datapoints import read_journey
from burstctl.experiment.journal import Journal, Shelf, Stage, Trip
from burstctl.experiment.preflight import MODIFICATIONS
from burstctl.experiment.report import Finding, write_report
from burstctl.experiment.waiting import Patience
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.sizing import Wish, configuration_of
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.errors import LedgerError
from burstwatch.core.flips.guards import QUOTA, Guard, all_spent, refuse_hold
from burstwatch.core.flips.outcome import Done, Outcome
from burstwatch.core.flips.planning import Order
from burstwatch.core.ledger.flip_state import Cause, Direction, Flip, Hold, Phase
from burstwatch.core.ledger.ledger import EntryKind, VolumeState
from burstwatch.core.text import format_clock, format_duration, format_instant, printable
from burstwatch.engine.alert_delivery import deliver
from burstwatch.engine.flip_executor import carry_out
from burstwatch.engine.watch_pass import look_at

_LOOK_EVERY_S: Final = 60
_CHECK_EVERY_S: Final = 300
_PATIENCE_S: Final = 3600
"""So long datapoints are waited for after the return, where CloudWatch answers."""

_LEDGER_AWAY_S: Final = 6 * 3600
"""So long a ledger is waited for that was there before."""

_DAY_S: Final = 24 * 3600
_RENEW_S: Final = 12 * 3600
_MOST_ATTEMPTS: Final = 5
_AGREED_FOR_S: Final = 2 * 3600
"""What was shown of the volume when a person agreed holds for so long."""

_SLOWER: Final = 1.25
"""The way back is reckoned to take this much longer than the way out did."""


@dataclass(slots=True)
class Experiment:
    """An experiment under way; ``run`` does what is left of it.

    ``was_refused``: a guard said no, and nothing was modified.
    """

    desk: Desk
    shelf: Shelf
    journal: Journal
    patience: Patience
    was_refused: bool = field(default=False, init=False)
    _now_s: float = field(default=0.0, init=False)
    _stepped_s: float | None = field(default=None, init=False)
    _said: str = field(default="", init=False)
    _concluded: Finding | None = field(default=None, init=False)
    _complained: set[str] = field(default_factory=set, init=False)

    def run(self) -> Journal:
        """Go on until it is over.

        Raises:
            Stopped: a person wants to go on later.
            BurstwatchError: the ledger, the journal or the report cannot be used.
        """
        while not self.journal.is_over:
            self._now_s = self.desk.shell.clock()
            try:
                _STEPS[self.journal.stage](self)
            except LedgerError as error:
                self._wait_for_ledger(error)
            else:
                self._stepped_s = self._now_s
        return self.journal

    def _wait_for_ledger(self, error: LedgerError) -> None:
        """To stop here would leave the volume where it is; to go on from any line is what the journal is for.

        Raises:
            LedgerError: it was never there, or is away for too long.
        """
        if self._stepped_s is None or self._now_s - self._stepped_s > _LEDGER_AWAY_S:
            raise error
        self._tell(f"the ledger cannot be used and is tried again every minute: {error}")
        self.patience.until(self._now_s + _LOOK_EVERY_S)

    def _leave(self) -> None:
        """Have it become its target, unless it is on the way already."""
        self._hold()
        state = self._look()
        flip = state.flip
        if flip is not None and not self._is_ours(flip):
            self._fail(f"{flip.by} has asked for {flip.asked_for} meanwhile")
        elif flip is not None and flip.phase is Phase.ON_TARGET:
            self._arrive(Stage.AWAY, self._trip(flip.started_at_s, flip.reached_at_s))
        elif flip is not None:
            self._wait_for_aws(flip)
        elif state.contested_at_s is not None or self._has_left():
            self._fail("somebody else changed or returned it")
        elif self.journal.is_abandoned:
            self._save(stage=Stage.CONCLUDED)
        else:
            self._ask_out(state)

    def _has_left(self) -> bool:
        """Whether it was away already, by the ledger: then it is not sent again."""
        journal = self.journal
        entries = self.desk.shell.ledger.entries(journal.volume_id, since_s=journal.begun_s)
        return any(entry.kind is EntryKind.REACHED for entry in entries)

    def _ask_out(self, state: VolumeState) -> None:
        journal = self.journal
        if state.retry_at_s is not None and state.retry_at_s > self._now_s:
            self._tell(f"tried again from {format_clock(state.retry_at_s)} UTC on")
            self.patience.until(state.retry_at_s)
            return
        if journal.attempts >= _MOST_ATTEMPTS:
            self._fail(f"it could not leave in {journal.attempts} attempts")
            return
        if (refusal := self._why_not_out(state)) is not None:
            self.was_refused = True
            self._fail(refusal)
            return
        self._save(attempts=journal.attempts + 1)
        self._tell(f"asking AWS to make it {journal.target}")
        outcome = self._order(Direction.OUT)
        if outcome.done in (Done.REFUSED, Done.FAILED) and not self._is_begun():
            self.was_refused = outcome.done is Done.REFUSED
            self._fail(f"it could not leave: {outcome.because}")

    def _why_not_out(self, state: VolumeState) -> str | None:
        """What has come up since it was agreed to."""
        if self._now_s - self.journal.begun_s > _AGREED_FOR_S:
            agreed = format_instant(self.journal.begun_s)
            return f"it was agreed to at {agreed}, and much may have changed since: begin anew"
        spent = len(all_spent(state, self._record(), self._now_s))
        if spent > QUOTA - MODIFICATIONS - 1:
            return f"{spent} of AWS's {QUOTA} modifications in 24 h are used, which leaves too few"
        hold = self._others_hold()  # the last to be asked: from here on no hold stops it
        return None if hold is None else str(refuse_hold(hold))

    def _stay(self) -> None:
        """Stay away for as long as it takes to tell the answers apart."""
        journal = self.journal
        assert journal.out is not None
        state = self._look()
        flip = state.flip
        is_ours = flip is not None and self._is_ours(flip) and flip.direction is Direction.OUT
        if not is_ours or state.contested_at_s is not None:
            self._fail("somebody else changed or returned it while it was away")
            return
        if journal.stay_s is None and not journal.is_abandoned:
            self._settle_stay()
            return
        ends_s = journal.out.ended_s + (journal.stay_s or 0)
        now_s = self._now_s
        if journal.is_abandoned or now_s >= ends_s:
            self._save(stage=Stage.RETURNING)
            return
        self._hold()
        self._tell(f"it is {journal.target} and stays so until {format_clock(ends_s)} UTC")
        self.patience.until(min(ends_s, now_s + _CHECK_EVERY_S))

    def _settle_stay(self) -> None:
        """Reckon how long it stays; while CloudWatch does not answer that can wait, until it might return."""
        journal, now_s = self.journal, self._now_s
        assert journal.out is not None
        journey, failures = read_journey(self.desk.shell, journal, now_s)
        ends_s = journal.out.ended_s + journal.away_s
        if not failures or now_s >= ends_s:
            self._save(stay_s=self._long_enough(journey))
            return
        self._complain(failures)
        self._hold()
        self._tell("how long it stays is reckoned when CloudWatch answers")
        self.patience.until(min(ends_s, now_s + _LOOK_EVERY_S))

    def _long_enough(self, journey: Journey) -> int:
        """As long as agreed, or longer where AWS took so long that refilled could not be told from kept."""
        journal = self.journal
        assert journal.out is not None
        there = weigh_there(journey)
        took_s = journal.out.ended_s - journal.out.started_s
        if there is None:
            return journal.away_s
        served, minutes = sum(journey.operations.values), len(journey.operations) or 1
        needed_s = shortest_away_s(
            there, size_gib=journal.size_gib, iops=served / (60 * minutes), modify_s=took_s * _SLOWER
        )
        if needed_s is None:
            self._tell(
                f"AWS took {format_duration(took_s)}: if the way back takes as long, no stay up to"
                f" {format_duration(MOST_AWAY_S)} tells refilled from kept for sure"
            )
            return journal.away_s
        if needed_s > journal.away_s:
            self._tell(f"AWS took {format_duration(took_s)}, so it stays for {format_duration(needed_s)}")
        return max(needed_s, journal.away_s)

    def _return(self) -> None:
        """Have it become what it was, whatever it takes."""
        self._hold()
        state = self._look()
        flip = state.flip
        if flip is None:
            self._come_home(state)
        elif not self._is_ours(flip) or state.contested_at_s is not None:
            by_whom = "" if self._is_ours(flip) else f": {flip.by} asked for {flip.asked_for}"
            self._fail(f"somebody else has a hand in it{by_whom}")
        elif flip.phase is Phase.ON_TARGET:
            self._ask_back(state)
        else:
            self._wait_for_aws(flip)

    def _ask_back(self, state: VolumeState) -> None:
        now_s = self._now_s
        if (hold := self._others_hold()) is not None:
            self._tell(f"it cannot return: {refuse_hold(hold)}")
            self.patience.until(now_s + _CHECK_EVERY_S)
            return
        if state.retry_at_s is not None and state.retry_at_s > now_s:
            self.patience.until(min(state.retry_at_s, now_s + _CHECK_EVERY_S))
            return
        self._tell(f"asking AWS to make it {self.journal.original} again")
        outcome = self._order(Direction.BACK)
        if outcome.done in (Done.REFUSED, Done.FAILED) and not self._is_begun():
            self._tell(f"it cannot return yet: {outcome.because}")
            self.patience.until(now_s + _CHECK_EVERY_S)

    def _come_home(self, state: VolumeState) -> None:
        volume = self._volume()
        if volume is None:
            self.patience.until(self._now_s + _LOOK_EVERY_S)
        elif state.contested_at_s is not None or not volume.is_gp2:
            self._fail(f"somebody else changed it; it is {volume.volume_type} now")
        elif self.journal.is_abandoned:
            self._save(stage=Stage.CONCLUDED)
        else:
            self._arrive(Stage.WATCHING, self._trip(state.returned_at_s, None))

    def _watch(self) -> None:
        """Collect datapoints until they tell, or none are to be expected any more."""
        journal = self.journal
        assert journal.back is not None
        state = self._look()
        if journal.is_abandoned:
            self._save(stage=Stage.CONCLUDED)
        elif state.flip is not None:
            self._fail(f"{state.flip.by} has asked for {state.flip.asked_for} before there was an answer")
        else:
            self._conclude(*self._found())

    def _conclude(self, finding: Finding, failures: list[str]) -> None:
        assert self.journal.back is not None
        now_s, journey = self._now_s, finding.journey
        assert journey is not None
        home_s = self.journal.back.ended_s
        is_last = now_s >= home_s + (_DAY_S if failures else _PATIENCE_S)
        if is_last or (journey.has_enough and not failures):
            write_report(finding, self.journal.report)
            self._concluded = finding
            self._save(stage=Stage.CONCLUDED, conclusion=finding.conclusion)
            return
        self._complain(failures)
        self._hold()
        span = format_duration(ENOUGH_S)
        waits = "its datapoints are waited for until CloudWatch answers" if failures else ""
        self._tell(f"it is {self.journal.original} again: {waits or f'{span} of datapoints are waited for'}")
        self.patience.until(now_s + _LOOK_EVERY_S)

    def _release(self) -> None:
        journal, ledger, now_s = self.journal, self.desk.shell.ledger, int(self._now_s)
        if self._own_hold() is not None:
            ledger.lift_hold(journal.volume_id, by=self.desk.by, at_s=now_s)
            self._tell("released")
        self._save(stage=Stage.OVER)

    def _found(self) -> tuple[Finding, list[str]]:
        """What the datapoints say by now."""
        now_s = self._now_s
        journey, failures = read_journey(self.desk.shell, self.journal, now_s)
        return Finding(journal=self.journal, now_s=now_s, journey=journey, verdict=judge(journey)), list(
            failures
        )

    def finding(self) -> Finding:
        """What can be told of it now: the answer, once it has come home, as the report has it."""
        if self._concluded is not None:
            return replace(self._concluded, journal=self.journal)
        if self.journal.back is None or self.journal.failed or self.journal.is_abandoned:
            return Finding(journal=self.journal, now_s=self._now_s)
        return self._found()[0]

    def _arrive(self, stage: Stage, trip: Trip) -> None:
        key = "out" if stage is Stage.AWAY else "back"
        took = format_duration(trip.ended_s - trip.started_s)
        where = self.journal.target if stage is Stage.AWAY else self.journal.original
        self._tell(f"it is {where}{'' if stage is Stage.AWAY else ' again'}; AWS took {took}")
        self._save(stage=stage, **{key: trip})

    def _fail(self, why: str) -> None:
        """There will be no answer: what remains is to let go of the volume."""
        said = printable(f"{why}{self._left_behind()}", LONGEST_SENTENCE)
        complain(f"{self.journal.volume_id}: no answer: {said}")
        self._save(stage=Stage.CONCLUDED, failed=said)

    def _left_behind(self) -> str:
        """What others made of it costs money until a person brings it home: that, and how.

        Nothing of a gp2, and nothing of somebody else's flip, which has a way home of its own.
        """
        volume, volume_id, flip = self._volume(), self.journal.volume_id, self._state().flip
        if volume is None or volume.is_gp2 or (flip is not None and not self._is_ours(flip)):
            return ""
        is_now = configuration_of(volume) or volume.volume_type
        way = f"burstctl flip-back {volume_id}" if flip else f"see burstctl history {volume_id}"
        return f". It is {is_now} now, and nobody brings it home by itself: {way}"

    def _complain(self, failures: Sequence[str]) -> None:
        """Of calls that failed; those that fail again and again are told once."""
        for failure in failures:
            if failure not in self._complained:
                self._complained.add(failure)
                complain(printable(failure, LONGEST_SENTENCE))

    def _save(self, **changes: object) -> None:
        after = replace(self.journal, **changes)  # type: ignore[arg-type]
        self.shelf.save(after)
        self.journal = after

    def _tell(self, text: str) -> None:
        """Say where it is, once."""
        if text != self._said:
            self._said = text
            say(f"{format_clock(self._now_s)} UTC: {printable(text, LONGEST_SENTENCE)}")

    def _look(self) -> VolumeState:
        """Look at the volume as a watchdog does, which settles what AWS has done; it modifies nothing."""
        shell, volume_id = replace(self.desk.shell, modifier=None), self.journal.volume_id
        looked = look_at(shell, {volume_id}, now_s=self._now_s)
        self._complain(looked.report.failures)
        return self._state()

    def _state(self) -> VolumeState:
        volume_id = self.journal.volume_id
        known = self.desk.shell.ledger.states_of({volume_id}).get(volume_id)
        return known or VolumeState(volume_id=volume_id, revision=0)

    def _is_ours(self, flip: Flip) -> bool:
        return flip.because.startswith(self.journal.mark)

    def _is_begun(self) -> bool:
        """Whether what was asked for is under way all the same: a lost answer may be late."""
        flip = self._state().flip
        return flip is not None and self._is_ours(flip) and flip.is_under_way

    def _wait_for_aws(self, flip: Flip) -> None:
        record, now_s = self._record(), self._now_s
        said = f"on its way to {flip.asked_for}"
        if record is not None and record.is_in_progress:
            quarters = (record.progress_pct or 0) // 25 * 25
            said += f": {record.state}" + (f", {quarters} % and more" if quarters else "")
        self._tell(said)
        self._hold()
        self.patience.until(now_s + _LOOK_EVERY_S)

    def _record(self) -> Modification | None:
        volume_id = self.journal.volume_id
        found, _ = self.desk.shell.gathering(self._now_s).modifications({volume_id})
        return found.get(volume_id)

    def _volume(self) -> Volume | None:
        found, _ = self.desk.shell.gathering(self._now_s).by_id({self.journal.volume_id})
        return found[0] if found else None

    def _trip(self, started_s: int | None, reached_s: int | None) -> Trip:
        """The modification that is over, by AWS's record; where that is gone, by what was seen of it."""
        record, now_s = self._record(), int(self._now_s)
        if record is not None and record.started_at and record.ended_at:
            started_at_s, ended_at_s = (int(at.timestamp()) for at in (record.started_at, record.ended_at))
            if started_s is None or abs(started_at_s - started_s) <= _LOOK_EVERY_S:
                return Trip(started_s=started_at_s, ended_s=max(started_at_s, ended_at_s + 1))
        ended_s = reached_s or now_s
        return Trip(started_s=min(started_s or ended_s, ended_s), ended_s=ended_s)

    def _order(self, direction: Direction) -> Outcome:
        """The one modification, by the way that all take: guards, intent, call, outcome.

        Its intent bears the time at which it is recorded, so the clock is read again.
        """
        shell, journal, began = self.desk.shell, self.journal, monotonic()
        now_s = shell.clock()
        is_out, target = direction is Direction.OUT, journal.target
        order = Order(
            volume_id=journal.volume_id,
            direction=direction,
            cause=Cause.BY_HAND,
            because=journal.mark,
            by=self.desk.by,
            wish=Wish(
                volume_type=target.volume_type, iops=target.iops, throughput_mib_s=target.throughput_mib_s
            )
            if is_out
            else None,
            return_after_s=self._hold_until_s() if is_out else None,
            overridden=frozenset({Guard.HELD}),
            why=f"the hold is that of this {journal.mark}",
        )
        outcome = carry_out(shell, [order], shell.gathering(now_s))[journal.volume_id]
        deliver(
            shell.ledger,
            shell.channels,
            digest_above=shell.policy.alerts.digest_above,
            place=shell.place,
            runbooks_url=shell.policy.alerts.runbooks_url,
            now_s=now_s,
            clock=lambda: now_s + monotonic() - began,
        )
        return outcome

    def _hold(self) -> None:
        """Keep the watchdog's hands off it, a day longer than it should take."""
        own, now_s = self._own_hold(), int(self._now_s)
        if own is not None and own.until_s > now_s + _RENEW_S:
            return
        ledger, volume_id = self.desk.shell.ledger, self.journal.volume_id
        if any(hold.volume_id == volume_id and hold != own for hold in ledger.holds(now_s)):
            return
        ledger.place_hold(
            Hold(
                volume_id=volume_id,
                by=self.desk.by,
                reason=self.journal.mark,
                placed_at_s=now_s,
                until_s=self._hold_until_s(),
            )
        )
        self._tell(f"on hold until {format_instant(self._hold_until_s())}")

    def _hold_until_s(self) -> int:
        journal = self.journal
        return max(journal.begun_s + journal.lasts_s, int(self._now_s)) + _DAY_S

    def _own_hold(self) -> Hold | None:
        holds = self.desk.shell.ledger.holds(self._now_s)
        volume_id, mark = self.journal.volume_id, self.journal.mark
        return next((each for each in holds if each.volume_id == volume_id and each.reason == mark), None)

    def _others_hold(self) -> Hold | None:
        """A hold that is not the experiment's own: the kill switch, say, which stops it as well."""
        now_s, own = self._now_s, self._own_hold()
        volume_id = self.journal.volume_id
        holds = self.desk.shell.ledger.holds(now_s)
        return next((each for each in holds if each != own and each.holds(volume_id, now_s)), None)


_STEPS: Final[dict[Stage, Callable[[Experiment], None]]] = {
    Stage.LEAVING: Experiment._leave,  # noqa: SLF001 - its own
    Stage.AWAY: Experiment._stay,  # noqa: SLF001
    Stage.RETURNING: Experiment._return,  # noqa: SLF001
    Stage.WATCHING: Experiment._watch,  # noqa: SLF001
    Stage.CONCLUDED: Experiment._release,  # noqa: SLF001
}

"""What became of a flip: AWS is asked, and what it says is compared with what was asked for."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import (
    LIST_PRICES,
    US_EAST_1,
    Configuration,
    VolumeType,
    usd_per_hour,
    usd_per_month,
)
from burstwatch.core.ebs.sizing import configuration_of
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.events import Event
from burstwatch.core.ledger.flip_state import (
    OTHERS,
    SAME_START_S,
    WATCHDOG,
    Direction,
    Flip,
    Phase,
    Spent,
    configuration_document,
    spent_within,
    with_spent,
)
from burstwatch.core.ledger.ledger import EntryKind, VolumeState
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.windows import LeadPolicy, duration_sentence, expected_flip, expected_words
from burstwatch.core.text import format_duration, format_instant, format_time, format_when

IN_THE_MAIL_S: Final = 60
"""A request is not begun later than half a minute after its intent, and over within another."""

READS_APART_S: Final = 60
"""Two reads so far apart are not both stale."""

NEVER_SENT_AFTER_S: Final = 120
"""So long, and two reads, until an intent that AWS knows nothing of counts as never sent."""

LOST_FOR_S: Final = 24 * 3600
"""An intent that counts as never sent is remembered for so long: a process may sleep before it sends."""

_BACK_LATE_S: Final = 15 * 60
"""A return that begins later than this after its intent is somebody else's: much makes gp2 of a volume."""

_SKEW_S: Final = 120
"""A machine's clock may be so far from AWS's; beyond that the watchdog does not run."""

_AGREE_WITHIN_S: Final = 300
"""AWS's two answers about a finished modification may differ for so long."""

_FORGOTTEN_AFTER_S: Final = 600
"""After so long a modification without a record is judged by what the volume is."""

_LOST_AFTER_S: Final = 24 * 3600
"""After a day without a record a volume that is not what was asked for was changed by somebody else."""

_LONGEST_BACKOFF_MIN: Final = 60
_LEAST_STUCK_S: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """What AWS says of a volume now: what it is, and its newest modification (None: there is no record)."""

    volume: Volume
    record: Modification | None = None

    @property
    def configuration(self) -> Configuration | None:
        """What the volume is; None where it is a type that we never make."""
        if self.volume.volume_type not in frozenset(VolumeType):
            return None
        return configuration_of(self.volume)

    @property
    def started_s(self) -> int | None:
        """When the newest modification started."""
        started_at = self.record.started_at if self.record else None
        return None if started_at is None else int(started_at.timestamp())


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The state after a sighting, and what is to be told of it."""

    state: VolumeState
    events: tuple[Event, ...] = ()


def follow(state: VolumeState, sighting: Sighting, *, policy: Policy, now_s: float) -> Step:
    """Bring the flip of a volume up to what AWS says of it; without news, nothing changes."""
    flip, lost = state.flip, state.lost
    if lost is not None and (flip is None or not flip.is_under_way):
        this = _Case(state=state, flip=lost, sighting=sighting, policy=policy, now_s=now_s)
        if this.is_sent_after_all:
            return _revive(this)
    if flip is None:
        return Step(state=state)
    this = _Case(state=state, flip=flip, sighting=sighting, policy=policy, now_s=now_s)
    return _STEPS[flip.phase](this)


def is_worth_telling(failures: int) -> bool:
    """Whether people must hear of one more failure in a row: the first, second, fourth, eighth and so on."""
    return failures & (failures - 1) == 0


def backed_off(state: VolumeState, now_s: float) -> VolumeState:
    """The state after one more failure: the next attempt waits 1, 2, 4 … minutes, an hour at most."""
    wait_min = min(_LONGEST_BACKOFF_MIN, 2 ** min(state.failures, 10))
    return replace(state, failures=state.failures + 1, retry_at_s=int(now_s) + 60 * wait_min)


def given_up(state: VolumeState) -> VolumeState:
    """The state when what was asked for was not done: where it was before."""
    flip = state.flip
    if flip is None or flip.previous is not None or flip.direction is Direction.OUT:
        return replace(state, flip=flip and flip.previous)
    return replace(
        state, flip=replace(flip, phase=Phase.ON_TARGET, direction=Direction.OUT, started_at_s=None)
    )


def taken(state: VolumeState, started_s: int, now_s: float) -> VolumeState:
    """The state once AWS has taken what was asked for; this uses up a modification."""
    flip = state.flip
    assert flip is not None
    spent = Spent(at_s=started_s, by=flip.by, direction=flip.direction)
    return replace(
        state,
        flip=replace(flip, phase=Phase.CHANGING, started_at_s=started_s, unseen_since_s=None),
        lost=None,
        spent=with_spent(state.spent, spent, now_s),
        refusal_told=None,
    )


def accepted_event(flip: Flip, lead: LeadPolicy, *, empty_s: float | None = None, note: str = "") -> Event:
    """AWS took it; ``empty_s`` is how long the credits last, in seconds, None if that is not known."""
    is_out = flip.direction is Direction.OUT
    because = f" ({flip.because})" if flip.because else ""
    meanwhile = (
        f"{duration_sentence(flip.size_gib, lead, empty_s=empty_s)}"
        " While it optimizes, the volume performs between the two."
        if is_out
        else "Its burst balance is unknown until the first fresh datapoint."
    )
    return Event(
        kind=EntryKind.ACCEPTED,
        summary=f"is on its way to {flip.asked_for}",
        details=(
            f"Asked for by {flip.by}{because}.",
            f"It was {_before(flip)}; this {_costs(_usd_per_month_more(flip))}.",
            meanwhile,
            *([note] if note else []),
        ),
        alert=AlertKind.FLIPPED if is_out else AlertKind.FLIPPED_BACK,
        facts=flip_facts(flip)
        | {"because": flip.because, "stays": flip.stays}
        | {
            "expected_least_s": round(lead.least.total_seconds()),
            "expected_most_s": round(expected_flip(flip.size_gib, lead).total_seconds()),
            "time_to_empty_s": None if empty_s is None else round(empty_s),
        },
    )


def flip_facts(flip: Flip) -> dict[str, Any]:
    """What programs want to know of the modification last asked for."""
    return {
        "intent_id": flip.intent_id,
        "direction": str(flip.direction),
        "from": configuration_document(_before(flip)),
        "to": configuration_document(flip.asked_for),
        "original": configuration_document(flip.original),
        "usd_per_month_more": _usd_per_month_more(flip),
        "by": flip.by,
        "cause": str(flip.cause),
    }


def failed_words(
    flip: Flip, retry_at_s: float | None, now_s: float, *, lacks: str | None = None
) -> tuple[str, ...]:
    """How it is after a modification that was not made, and who tries again; ``lacks`` says why not soon."""
    if lacks is not None:
        return f"It still is {_before(flip)}, not {flip.asked_for}.", lacks
    again = f"{flip.by} asked for it, and must ask again."
    if flip.by == WATCHDOG and retry_at_s is not None:
        again = (
            f"The watchdog tries again {format_when(retry_at_s, now_s, 'UTC')}, if that is still wanted and"
            " no guard refuses."
        )
    return f"It still is {_before(flip)}, not {flip.asked_for}.", again


def ask_again(flip: Flip, volume_id: str) -> str:
    """The command by which a person asks for the same."""
    return f"burstctl {'flip' if flip.direction is Direction.OUT else 'flip-back'} {volume_id}"


def _before(flip: Flip) -> Configuration:
    """What the modification last asked for leads away from."""
    if flip.direction is Direction.BACK:
        return flip.target
    return flip.previous.target if flip.previous else flip.original


def _usd_per_month_more(flip: Flip) -> float:
    before, after = (
        usd_per_month(each, flip.size_gib, US_EAST_1) for each in (_before(flip), flip.asked_for)
    )
    return round(after - before, 6)


def _costs(usd_per_month: float) -> str:
    if abs(usd_per_month) < 0.005:  # noqa: PLR2004 - half a cent
        return "costs the same"
    word = "more" if usd_per_month > 0 else "less"
    per_month, per_hour = abs(usd_per_month), usd_per_hour(abs(usd_per_month))
    return f"costs ${per_month:,.2f} a month {word}, ${per_hour:,.4f} an hour ({LIST_PRICES})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A flip and what is seen of it."""

    state: VolumeState
    flip: Flip
    sighting: Sighting
    policy: Policy
    now_s: float

    @property
    def is_as_asked(self) -> bool:
        return self.sighting.configuration == self.flip.asked_for

    @property
    def is_sent_after_all(self) -> bool:
        """Whether AWS shows what counts as never sent."""
        news, started_s = self.news, self.sighting.started_s
        if news is None or started_s is None or news.target.configuration() != self.flip.asked_for:
            return False
        return self.flip.direction is Direction.OUT or started_s <= self.flip.asked_at_s + _BACK_LATE_S

    @property
    def is_theirs(self) -> bool:
        """Whether AWS's newest record began after our modification did."""
        started_s, ours_s = self.sighting.started_s, self.flip.started_at_s or self.flip.asked_at_s
        return started_s is not None and started_s > ours_s + SAME_START_S

    @property
    def is_doubted_again(self) -> bool:
        """Whether an earlier read, long enough ago, did not show either what should be there."""
        since_s = self.flip.unseen_since_s
        return since_s is not None and self.now_s - since_s >= READS_APART_S

    @property
    def news(self) -> Modification | None:
        """AWS's record, if it began since this was asked for and is not of a modification known already."""
        started_s = self.sighting.started_s
        if started_s is None or started_s < self.flip.asked_at_s - _SKEW_S:
            return None
        is_known = any(abs(one.at_s - started_s) <= SAME_START_S for one in self.state.spent)
        return None if is_known else self.sighting.record


def _settle(case: _Case) -> Step:
    """An intent without an outcome: did AWS take it?"""
    flip, news, record = case.flip, case.news, case.sighting.record
    if news is not None and news.target.configuration() == flip.asked_for:
        return _adopt(case, case.sighting.started_s or flip.asked_at_s)
    if news is not None and news.original.configuration() == flip.asked_for:
        return _lose(case)
    waited_s = case.now_s - flip.asked_at_s
    if waited_s < IN_THE_MAIL_S:
        return Step(state=case.state)
    if not case.is_doubted_again or waited_s < NEVER_SENT_AFTER_S:
        return _doubt(case)
    if case.is_as_asked and not (record and record.is_in_progress):
        return _adopt(case, flip.asked_at_s)
    state = replace(backed_off(given_up(case.state), case.now_s), lost=flip)
    event = _not_made(
        case,
        state,
        kind=EntryKind.NOT_DONE,
        summary=f"was not changed to {flip.asked_for.volume_type}: AWS never got the request",
        said=f"Two reads, the last after {format_duration(waited_s)}, show no such modification.",
    )
    return Step(state=state, events=(event,))


def _doubt(case: _Case) -> Step:
    """What should be there was not seen: once may be a stale answer."""
    since_s = case.flip.unseen_since_s
    doubted = replace(case.flip, unseen_since_s=int(case.now_s) if since_s is None else since_s)
    return Step(state=replace(case.state, flip=doubted))


def _revive(case: _Case) -> Step:
    """An intent that counted as never sent was sent after all."""
    state = replace(case.state, flip=case.flip, lost=None)
    note = "It counted as never sent; AWS shows now that it was."
    return _adopt(replace(case, state=state), case.sighting.started_s or case.flip.asked_at_s, note=note)


def _adopt(
    case: _Case, started_s: int, *, note: str = "AWS's answer was lost; this is what AWS shows now."
) -> Step:
    """The answer was lost, the modification was not."""
    state = taken(case.state, started_s, case.now_s)
    assert state.flip is not None
    told = accepted_event(state.flip, case.policy.lead, note=note)
    step = follow(state, case.sighting, policy=case.policy, now_s=case.now_s)
    return Step(state=step.state, events=(told, *step.events))


def _lose(case: _Case) -> Step:
    """AWS took it while nobody looked, and somebody has changed the volume since: too late for an alert."""
    state = taken(case.state, case.flip.asked_at_s, case.now_s)
    assert state.flip is not None
    note = "AWS's answer was lost, and it was changed again since."
    told = accepted_event(state.flip, case.policy.lead, note=note)
    step = _after_theirs(replace(case, state=state, flip=state.flip))
    return Step(state=step.state, events=(replace(told, alert=None), *step.events))


def _watch_change(case: _Case) -> Step:
    """A modification that AWS took: is it over, and did it do what it should?"""
    flip, started_s, record = case.flip, case.sighting.started_s, case.sighting.record
    assert flip.started_at_s is not None
    ago_s = case.now_s - flip.started_at_s
    if record is None or started_s is None or started_s < flip.started_at_s - SAME_START_S:
        return _do_without_record(case, ago_s)
    if started_s > flip.started_at_s + SAME_START_S:
        return _after_theirs(case)
    if record.is_in_progress:
        return _wait(case, record)
    if record.has_failed:
        return _fail(case, f"AWS says: {record.status_message or 'nothing more'}.")
    ended_s = record.ended_at.timestamp() if record.ended_at else flip.started_at_s
    return _verify(case, record, ended_s)


def _do_without_record(case: _Case, ago_s: float) -> Step:
    """AWS has forgotten the modification, or does not show it yet: the volume itself tells, after a while."""
    if case.is_as_asked:
        return _arrive(case) if ago_s > _FORGOTTEN_AFTER_S else Step(state=case.state)
    return _taken_over(case) if ago_s > _LOST_AFTER_S else Step(state=case.state)


def _after_theirs(case: _Case) -> Step:
    """Somebody else modified it since: what that comes to counts when it is over."""
    record = case.sighting.record
    assert record is not None
    if record.is_in_progress:
        return Step(state=case.state)
    if not record.has_failed:
        return _taken_over(case)
    if case.is_as_asked:
        return _arrive(case)
    began_as = record.original.configuration()
    if case.sighting.configuration != began_as:
        return Step(state=case.state)  # it shows old
    if began_as != _before(case.flip):
        return _taken_over(case)
    return _fail(case, "A later modification, which failed as well, began from what it was before.")


def _verify(case: _Case, record: Modification, ended_s: float) -> Step:
    """AWS says that it is done; it counts when the volume shows it, and a volume that does not shows old."""
    if case.is_as_asked:
        return _arrive(case)
    is_ours = record.target.configuration() == case.flip.asked_for
    is_early = case.now_s - ended_s < _AGREE_WITHIN_S
    return Step(state=case.state) if is_ours or is_early else _taken_over(case)


def _wait(case: _Case, record: Modification) -> Step:
    flip, lead = case.flip, case.policy.lead
    assert flip.started_at_s is not None
    ago_s = case.now_s - flip.started_at_s
    usual_s = expected_flip(flip.size_gib, lead).total_seconds()
    if flip.stuck_told or ago_s < max(_LEAST_STUCK_S, 2 * usual_s):
        return Step(state=case.state)
    since = format_time(flip.started_at_s, case.now_s)
    progress = "" if record.progress_pct is None else f" at {record.progress_pct} %"
    event = Event(
        kind=EntryKind.STUCK,
        summary=f"is still {record.state}{progress} after {format_duration(ago_s)}",
        details=(
            f"AWS was expected to take {expected_words(flip.size_gib, lead)}; it promises no duration.",
            f"On its way from {_before(flip)} to {flip.asked_for} since {since} UTC.",
            "That cannot be cancelled; while AWS optimizes, the volume performs between the two.",
        ),
        alert=AlertKind.FLIP_STUCK,
        action=f"aws ec2 describe-volumes-modifications --volume-ids {case.state.volume_id}",
        facts=flip_facts(flip)
        | {
            "state": record.state,
            "progress_pct": record.progress_pct,
            "started_at": format_instant(flip.started_at_s),
            "expected_s": round(usual_s),
        },
    )
    return Step(state=replace(case.state, flip=replace(flip, stuck_told=True)), events=(event,))


def _fail(case: _Case, said: str) -> Step:
    flip = case.flip
    state = backed_off(given_up(case.state), case.now_s)
    event = _not_made(
        case,
        state,
        kind=EntryKind.FAILED,
        summary=f"was not changed to {flip.asked_for.volume_type}: AWS's modification failed",
        said=said,
    )
    return Step(state=state, events=(event,))


def _not_made(case: _Case, after: VolumeState, *, kind: EntryKind, summary: str, said: str) -> Event:
    flip = case.flip
    return Event(
        kind=kind,
        summary=summary,
        details=(said, *failed_words(flip, after.retry_at_s, case.now_s)),
        alert=AlertKind.FLIP_FAILED if is_worth_telling(after.failures) else None,
        action=ask_again(flip, after.volume_id),
        facts=flip_facts(flip) | failure_facts(said, after.retry_at_s),
    )


def failure_facts(reason: str, retry_at_s: float | None, *, code: str | None = None) -> dict[str, Any]:
    """What programs want to know of a modification that was not made; ``code`` is AWS's."""
    retry_at = None if retry_at_s is None else format_instant(retry_at_s)
    return {"reason": reason, "error_code": code, "retry_at": retry_at}


def _arrive(case: _Case) -> Step:
    flip = case.flip
    calm = replace(case.state, failures=0, retry_at_s=None)
    if flip.direction is Direction.BACK:
        event = Event(
            kind=EntryKind.RESTORED,
            summary=f"is {flip.original} again, as it was before",
            facts=flip_facts(flip),
        )
        returned_at_s = flip.started_at_s or flip.asked_at_s
        return Step(
            state=replace(calm, flip=None, returned_at_s=returned_at_s, arrived_at_s=int(case.now_s)),
            events=(event,),
        )
    reached = Event(
        kind=EntryKind.REACHED,
        summary=f"is {flip.target} now",
        facts=flip_facts(flip),
    )
    stayed = Event(
        kind=EntryKind.STAYED, summary=f"stays {flip.target}", details=(flip.because,) if flip.because else ()
    )
    arrived = replace(flip, phase=Phase.ON_TARGET, reached_at_s=int(case.now_s), previous=None)
    return Step(state=replace(calm, flip=arrived), events=(reached, stayed) if arrived.stays else (reached,))


def _stand(case: _Case) -> Step:
    """On its target: is it still what we made it?"""
    flip, sighting = case.flip, case.sighting
    if shows(sighting.volume, flip):
        seen = case.state if flip.unseen_since_s is None else _without_doubt(case.state, flip)
        return Step(state=seen)
    record = sighting.record
    if record is not None and (record.is_in_progress or (not case.is_theirs and _led_to(record, flip))):
        return Step(state=case.state)
    is_theirs = case.is_theirs and record is not None and not record.has_failed
    return _taken_over(case) if is_theirs or case.is_doubted_again else _doubt(case)


def _led_to(record: Modification, flip: Flip) -> bool:
    """Whether AWS's newest record made the volume what it was flipped to: then what it shows is old."""
    is_target = record.target.configuration() == flip.target and record.target.size_gib == flip.size_gib
    return is_target and not record.has_failed


def shows(volume: Volume, flip: Flip) -> bool:
    """Whether a volume is what it was flipped to."""
    is_target = Sighting(volume=volume).configuration == flip.target
    return is_target and volume.size_gib == flip.size_gib


def _without_doubt(state: VolumeState, flip: Flip) -> VolumeState:
    return replace(state, flip=replace(flip, unseen_since_s=None))


def _taken_over(case: _Case) -> Step:
    """Somebody else changed it: respect that, say so, and leave the volume to people until it is released."""
    sighting, spent = case.sighting, case.state.spent
    if sighting.started_s is not None:
        theirs = Spent(at_s=sighting.started_s, by=OTHERS)
        spent = with_spent(spent, theirs, case.now_s)
    made, size_gib = sighting.configuration or sighting.volume.volume_type, sighting.volume.size_gib
    record = sighting.record
    if record is not None and case.is_theirs and not record.has_failed:
        made, size_gib = record.target.configuration() or record.target.volume_type, record.target.size_gib
    state = replace(
        case.state,
        flip=_kept(case, made, size_gib),
        contested_at_s=int(case.now_s),
        spent=spent_within(spent, case.now_s),
    )
    event = _changed_event(case, made, size_gib)
    return Step(state=state, events=(event,))


def _kept(case: _Case, made: Configuration | str, size_gib: int) -> Flip | None:
    """The flip of a volume that others have made something else, but not what it was: it still returns.

    None for gp2, from which it can only be flipped anew, and for a type that no volume is flipped to or
    from: what it was is in the event then.
    """
    flip = case.flip
    if not isinstance(made, Configuration) or made == flip.original or made.volume_type is VolumeType.GP2:
        return None
    before, after = (usd_per_month(each, size_gib, US_EAST_1) for each in (flip.original, made))
    return replace(
        flip,
        phase=Phase.ON_TARGET,
        direction=Direction.OUT,
        target=made,
        size_gib=size_gib,
        usd_per_month=round(after - before, 6),
        reached_at_s=flip.reached_at_s or int(case.now_s),
        started_at_s=case.sighting.started_s or flip.started_at_s,
        previous=None,
        unseen_since_s=None,
        left_told_at_s=int(case.now_s),
    )


def _changed_event(case: _Case, made: Configuration | str, to_gib: int) -> Event:
    flip = case.flip
    is_on_target = made == flip.target
    has_grown = is_on_target and to_gib != flip.size_gib
    is_away = isinstance(made, Configuration) and made.volume_type is not VolumeType.GP2
    returns = is_away and made != flip.original and not flip.stays
    what = f"was {'reverted to' if made == flip.original else 'made'} {made}"
    definition = (
        "If Terraform or the like did it, it will do it again: write"
        f" {_definition_of(flip.target)} into its definition."
    )
    return Event(
        kind=EntryKind.CHANGED_BY_OTHERS,
        summary=f"was resized from {flip.size_gib:,} to {to_gib:,} GiB" if has_grown else what,
        details=(
            f"It was {flip.original} until burstwatch made it {flip.target}, asked for by {flip.by}.",
            *([] if is_on_target else [definition]),
            "Until somebody releases it, the watchdog leaves it as it is.",
            *([f"Then it brings it back to {flip.original} when its load is calm."] if returns else []),
        ),
        alert=AlertKind.CHANGED_BY_OTHERS,
        action=f"burstctl release {case.state.volume_id}",
        facts={
            "from": configuration_document(flip.target),
            "to": configuration_document(made) if isinstance(made, Configuration) else {"volume_type": made},
            "original": configuration_document(flip.original),
            "from_gib": flip.size_gib,
            "to_gib": to_gib,
        },
    )


def _definition_of(configuration: Configuration) -> str:
    """The line of an infrastructure definition that agrees with a configuration."""
    parts = [f'type = "{configuration.volume_type}"']
    parts += [f"iops = {configuration.iops}"] if configuration.iops is not None else []
    if configuration.throughput_mib_s is not None:
        parts.append(f"throughput = {configuration.throughput_mib_s}")
    return ", ".join(parts)


_STEPS: Final[dict[Phase, Callable[[_Case], Step]]] = {
    Phase.ASKED: _settle,
    Phase.CHANGING: _watch_change,
    Phase.ON_TARGET: _stand,
}

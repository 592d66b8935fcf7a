"""Reconcile a flip: what AWS shows of a volume is compared with what was requested."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import (
    US_EAST_1,
    Configuration,
    VolumeType,
    usd_per_month,
)
from burstwatch.core.ebs.sizing import configuration_of
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.flip_events import (
    _previous_config,
    accepted_event,
    failure_facts,
    flip_facts,
    format_failure,
    retry_command,
)
from burstwatch.core.flips.transition import Event, Transition
from burstwatch.core.ledger.flip_state import (
    EXTERNAL,
    SAME_START_TOLERANCE_S,
    Direction,
    Flip,
    FlipStatus,
    ModificationUse,
    configuration_to_document,
)
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.ledger.volume_state import VolumeState
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.windows import (
    expected_flip_duration,
    format_expected_duration,
)
from burstwatch.core.text import (
    format_duration,
    format_instant,
    format_time,
)

REQUEST_IN_FLIGHT_S: Final = 60
"""A request is sent at most half a minute after its intent, and is over within another half."""

CONFIRMING_READ_GAP_S: Final = 60
"""A judgement: of two reads that are this far apart, at most one is stale."""

ASSUME_NOT_SENT_AFTER_S: Final = 120
"""After this time, and two reads, an intent that AWS does not know counts as never sent."""

LATE_INTENT_MEMORY_S: Final = 24 * 3600
"""How long an intent that counts as never sent is remembered: a process may sleep before it sends."""

_MAX_FLIP_BACK_DELAY_S: Final = 15 * 60
"""A return that begins later than this after its intent is somebody else's: many things make a volume gp2."""

_MAX_CLOCK_SKEW_S: Final = 120
"""A machine's clock may differ from AWS's by this much; beyond it, the watchdog does not run."""

_READS_AGREE_WITHIN_S: Final = 300
"""A judgement: DescribeVolumes and DescribeVolumesModifications agree within this time after the end."""

_RECORD_FORGOTTEN_AFTER_S: Final = 600
"""After this time, a modification without a record is judged by the configuration of the volume."""

_ASSUME_CONTESTED_AFTER_S: Final = 24 * 3600
"""After a day without a record, a volume that is not what was requested was changed by somebody else."""

_MAX_BACKOFF_MIN: Final = 60
"""A judgement: a refusal that lasts is checked once an hour, in case somebody has resolved it."""
_MIN_STUCK_S: Final = 3600
"""A judgement: no modification counts as stuck in its first hour, however small the volume is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedState:
    """What AWS shows of a volume now, and its newest modification; None without a record."""

    volume: Volume
    record: Modification | None = None

    @property
    def configuration(self) -> Configuration | None:
        """The configuration of the volume; None if its type is one that we never flip to or from."""
        if self.volume.volume_type not in frozenset(VolumeType):
            return None
        return configuration_of(self.volume)

    @property
    def started_at_s(self) -> int | None:
        """When the newest modification started."""
        started_at = self.record.started_at if self.record else None
        return None if started_at is None else int(started_at.timestamp())


def reconcile(state: VolumeState, observed: ObservedState, *, policy: Policy, now_s: float) -> Transition:
    """Update the flip of a volume by what AWS shows of it; without news, nothing changes.

    ``now_s`` is in seconds since 1970. The result has the new state, and the events to record and report.
    """
    flip, unsent_intent = state.flip, state.modifications.unsent_intent
    if unsent_intent is not None and (flip is None or not flip.is_under_way):
        context = _ReconcileContext(
            state=state, flip=unsent_intent, observed=observed, policy=policy, now_s=now_s
        )
        if context.was_sent_late:
            return _recover_late_intent(context)
    if flip is None:
        return Transition(state=state)
    context = _ReconcileContext(state=state, flip=flip, observed=observed, policy=policy, now_s=now_s)
    return _HANDLERS[flip.status](context)


def should_alert_failure(failures: int) -> bool:
    """Whether to alert about one more failure in a row: the first, second, fourth, eighth and so on."""
    return failures & (failures - 1) == 0


def with_backoff(state: VolumeState, now_s: float) -> VolumeState:
    """The state after one more failure: the next attempt is made in 1, 2, 4 … minutes, at most an hour."""
    wait_min = min(_MAX_BACKOFF_MIN, 2 ** min(state.modifications.failure_count, 10))
    history = replace(
        state.modifications,
        failure_count=state.modifications.failure_count + 1,
        retry_at_s=int(now_s) + 60 * wait_min,
    )
    return replace(state, modifications=history)


def roll_back_intent(state: VolumeState) -> VolumeState:
    """The state after a request that was not carried out: the flip is as before the request."""
    flip = state.flip
    if flip is None or flip.previous is not None or flip.direction is Direction.FLIP:
        return replace(state, flip=flip and flip.previous)
    return replace(
        state, flip=replace(flip, status=FlipStatus.ON_TARGET, direction=Direction.FLIP, started_at_s=None)
    )


def mark_accepted(state: VolumeState, started_at_s: int, now_s: float) -> VolumeState:
    """The state after AWS accepted the request at ``started_at_s``; this uses up a modification."""
    flip = state.flip
    assert flip is not None
    modification = ModificationUse(at_s=started_at_s, by=flip.by, direction=flip.direction)
    return replace(
        state,
        flip=replace(
            flip, status=FlipStatus.IN_PROGRESS, started_at_s=started_at_s, unconfirmed_since_s=None
        ),
        modifications=replace(state.modifications.with_use(modification, now_s), unsent_intent=None),
        alerts=replace(state.alerts, refusal=None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReconcileContext:
    """A flip and what is seen of it."""

    state: VolumeState
    flip: Flip
    observed: ObservedState
    policy: Policy
    now_s: float

    @property
    def is_as_requested(self) -> bool:
        return self.observed.configuration == self.flip.requested_config

    @property
    def was_sent_late(self) -> bool:
        """Whether AWS shows what counts as never sent."""
        new_modification, started_at_s = self.new_modification, self.observed.started_at_s
        if (
            new_modification is None
            or started_at_s is None
            or new_modification.target.configuration() != self.flip.requested_config
        ):
            return False
        return (
            self.flip.direction is Direction.FLIP
            or started_at_s <= self.flip.requested_at_s + _MAX_FLIP_BACK_DELAY_S
        )

    @property
    def is_external(self) -> bool:
        """Whether AWS's newest record began after our modification did."""
        started_at_s, own_start_at_s = (
            self.observed.started_at_s,
            self.flip.started_at_s or self.flip.requested_at_s,
        )
        return started_at_s is not None and started_at_s > own_start_at_s + SAME_START_TOLERANCE_S

    @property
    def is_unconfirmed_again(self) -> bool:
        """Whether an earlier read, long enough ago, did not show either what should be there."""
        since_s = self.flip.unconfirmed_since_s
        return since_s is not None and self.now_s - since_s >= CONFIRMING_READ_GAP_S

    @property
    def new_modification(self) -> Modification | None:
        """AWS's record, if it began after this request and is not of a modification that is known already."""
        started_at_s = self.observed.started_at_s
        if started_at_s is None or started_at_s < self.flip.requested_at_s - _MAX_CLOCK_SKEW_S:
            return None
        is_recorded = any(
            abs(modification.at_s - started_at_s) <= SAME_START_TOLERANCE_S
            for modification in self.state.modifications.used
        )
        return None if is_recorded else self.observed.record


def _settle_intent(context: _ReconcileContext) -> Transition:
    """An intent without an outcome: find out whether AWS accepted it."""
    flip, new_modification, record = context.flip, context.new_modification, context.observed.record
    if new_modification is not None and new_modification.target.configuration() == flip.requested_config:
        return _confirm_lost_response(context, context.observed.started_at_s or flip.requested_at_s)
    if new_modification is not None and new_modification.original.configuration() == flip.requested_config:
        return _superseded_unseen(context)
    waited_s = context.now_s - flip.requested_at_s
    if waited_s < REQUEST_IN_FLIGHT_S:
        return Transition(state=context.state)
    if not context.is_unconfirmed_again or waited_s < ASSUME_NOT_SENT_AFTER_S:
        return _note_unconfirmed_read(context)
    if context.is_as_requested and not (record and record.is_in_progress):
        return _confirm_lost_response(context, flip.requested_at_s)
    failed_state = with_backoff(roll_back_intent(context.state), context.now_s)
    state = replace(failed_state, modifications=replace(failed_state.modifications, unsent_intent=flip))
    event = _failure_event(
        context,
        state,
        kind=EntryKind.NOT_DONE,
        summary=f"was not changed to {flip.requested_config.volume_type}: AWS never got the request",
        reason=f"Two reads, the last after {format_duration(waited_s)}, show no such modification.",
    )
    return Transition(state=state, events=(event,))


def _note_unconfirmed_read(context: _ReconcileContext) -> Transition:
    """The read did not show what should be there: a single such read may be stale."""
    since_s = context.flip.unconfirmed_since_s
    unconfirmed_flip = replace(
        context.flip, unconfirmed_since_s=int(context.now_s) if since_s is None else since_s
    )
    return Transition(state=replace(context.state, flip=unconfirmed_flip))


def _recover_late_intent(context: _ReconcileContext) -> Transition:
    """An intent that counted as never sent was sent after all."""
    history = replace(context.state.modifications, unsent_intent=None)
    state = replace(context.state, flip=context.flip, modifications=history)
    note = "It counted as never sent; AWS shows now that it was."
    return _confirm_lost_response(
        replace(context, state=state), context.observed.started_at_s or context.flip.requested_at_s, note=note
    )


def _confirm_lost_response(
    context: _ReconcileContext,
    started_at_s: int,
    *,
    note: str = "AWS's answer was lost; this is what AWS shows now.",
) -> Transition:
    """AWS's answer was lost, and the modification was made."""
    state = mark_accepted(context.state, started_at_s, context.now_s)
    assert state.flip is not None
    accepted = Transition(state=state, events=(accepted_event(state.flip, context.policy.lead, note=note),))
    return accepted.then(reconcile(state, context.observed, policy=context.policy, now_s=context.now_s))


def _superseded_unseen(context: _ReconcileContext) -> Transition:
    """AWS accepted it unseen by us, and somebody has changed the volume since: too late for an alert."""
    state = mark_accepted(context.state, context.flip.requested_at_s, context.now_s)
    assert state.flip is not None
    note = "AWS's answer was lost, and it was changed again since."
    event = replace(accepted_event(state.flip, context.policy.lead, note=note), alert=None)
    accepted = Transition(state=state, events=(event,))
    return accepted.then(_check_external_modification(replace(context, state=state, flip=state.flip)))


def _check_progress(context: _ReconcileContext) -> Transition:
    """A modification that AWS took: is it over, and did it do what it should?"""
    flip, started_at_s, record = context.flip, context.observed.started_at_s, context.observed.record
    assert flip.started_at_s is not None
    elapsed_s = context.now_s - flip.started_at_s
    if record is None or started_at_s is None or started_at_s < flip.started_at_s - SAME_START_TOLERANCE_S:
        return _check_without_record(context, elapsed_s)
    if started_at_s > flip.started_at_s + SAME_START_TOLERANCE_S:
        return _check_external_modification(context)
    if record.is_in_progress:
        return _check_stuck(context, record)
    if record.has_failed:
        return _record_failure(context, f"AWS says: {record.status_message or 'nothing more'}.")
    ended_at_s = record.ended_at.timestamp() if record.ended_at else flip.started_at_s
    return _verify_finished(context, record, ended_at_s)


def _check_without_record(context: _ReconcileContext, elapsed_s: float) -> Transition:
    """AWS has no record of it, or none yet: after a while, the configuration of the volume decides."""
    if context.is_as_requested:
        return (
            _complete(context) if elapsed_s > _RECORD_FORGOTTEN_AFTER_S else Transition(state=context.state)
        )
    return (
        _mark_contested(context) if elapsed_s > _ASSUME_CONTESTED_AFTER_S else Transition(state=context.state)
    )


def _check_external_modification(context: _ReconcileContext) -> Transition:
    """Somebody else modified it since: what that comes to counts when it is over."""
    record = context.observed.record
    assert record is not None
    if record.is_in_progress:
        return Transition(state=context.state)
    if not record.has_failed:
        return _mark_contested(context)
    if context.is_as_requested:
        return _complete(context)
    previous_config = record.original.configuration()
    if context.observed.configuration != previous_config:
        return Transition(state=context.state)  # it shows old
    if previous_config != _previous_config(context.flip):
        return _mark_contested(context)
    return _record_failure(
        context, "A later modification, which failed as well, began from what it was before."
    )


def _verify_finished(context: _ReconcileContext, record: Modification, ended_at_s: float) -> Transition:
    """AWS reports that it is done; it counts when the volume shows it, as one that does not may be stale."""
    if context.is_as_requested:
        return _complete(context)
    is_ours = record.target.configuration() == context.flip.requested_config
    is_early = context.now_s - ended_at_s < _READS_AGREE_WITHIN_S
    return Transition(state=context.state) if is_ours or is_early else _mark_contested(context)


def _check_stuck(context: _ReconcileContext, record: Modification) -> Transition:
    flip, lead = context.flip, context.policy.lead
    assert flip.started_at_s is not None
    elapsed_s = context.now_s - flip.started_at_s
    expected_s = expected_flip_duration(flip.size_gib, lead).total_seconds()
    if flip.is_stuck_alerted or elapsed_s < max(_MIN_STUCK_S, 2 * expected_s):
        return Transition(state=context.state)
    since = format_time(flip.started_at_s, context.now_s)
    progress = "" if record.progress_pct is None else f" at {record.progress_pct} %"
    event = Event(
        kind=EntryKind.STUCK,
        summary=f"is still {record.state}{progress} after {format_duration(elapsed_s)}",
        details=(
            (
                f"AWS was expected to take {format_expected_duration(flip.size_gib, lead)}; it promises no"
                " duration."
            ),
            f"On its way from {_previous_config(flip)} to {flip.requested_config} since {since} UTC.",
            "That cannot be cancelled; while AWS optimizes, the volume performs between the two.",
        ),
        alert=AlertKind.FLIP_STUCK,
        action=f"aws ec2 describe-volumes-modifications --volume-ids {context.state.volume_id}",
        facts=flip_facts(flip)
        | {
            "state": record.state,
            "progress_pct": record.progress_pct,
            "started_at": format_instant(flip.started_at_s),
            "expected_s": round(expected_s),
        },
    )
    return Transition(
        state=replace(context.state, flip=replace(flip, is_stuck_alerted=True)), events=(event,)
    )


def _record_failure(context: _ReconcileContext, reason: str) -> Transition:
    flip = context.flip
    state = with_backoff(roll_back_intent(context.state), context.now_s)
    event = _failure_event(
        context,
        state,
        kind=EntryKind.FAILED,
        summary=f"was not changed to {flip.requested_config.volume_type}: AWS's modification failed",
        reason=reason,
    )
    return Transition(state=state, events=(event,))


def _failure_event(
    context: _ReconcileContext, new_state: VolumeState, *, kind: EntryKind, summary: str, reason: str
) -> Event:
    flip = context.flip
    return Event(
        kind=kind,
        summary=summary,
        details=(reason, *format_failure(flip, new_state.modifications.retry_at_s, context.now_s)),
        alert=AlertKind.FLIP_FAILED if should_alert_failure(new_state.modifications.failure_count) else None,
        action=retry_command(flip, new_state.volume_id),
        facts=flip_facts(flip) | failure_facts(reason, new_state.modifications.retry_at_s),
    )


def _complete(context: _ReconcileContext) -> Transition:
    flip = context.flip
    history = replace(context.state.modifications, failure_count=0, retry_at_s=None)
    if flip.direction is Direction.FLIP_BACK:
        event = Event(
            kind=EntryKind.RESTORED,
            summary=f"is {flip.original} again, as it was before",
            facts=flip_facts(flip),
        )
        returned_state = replace(
            context.state,
            flip=None,
            modifications=replace(history, returned_at_s=flip.started_at_s or flip.requested_at_s),
            presence=replace(context.state.presence, arrived_at_s=int(context.now_s)),
        )
        return Transition(state=returned_state, events=(event,))
    reached_event = Event(
        kind=EntryKind.REACHED,
        summary=f"is {flip.target} now",
        facts=flip_facts(flip),
    )
    stayed_event = Event(
        kind=EntryKind.STAYED, summary=f"stays {flip.target}", details=(flip.reason,) if flip.reason else ()
    )
    on_target_flip = replace(
        flip, status=FlipStatus.ON_TARGET, reached_at_s=int(context.now_s), previous=None
    )
    return Transition(
        state=replace(context.state, flip=on_target_flip, modifications=history),
        events=(reached_event, stayed_event) if on_target_flip.is_permanent else (reached_event,),
    )


def _check_on_target(context: _ReconcileContext) -> Transition:
    """A volume on its target: check that it still is what it was flipped to."""
    flip, observed = context.flip, context.observed
    if is_on_target(observed.volume, flip):
        new_state = (
            context.state
            if flip.unconfirmed_since_s is None
            else _clear_unconfirmed_read(context.state, flip)
        )
        return Transition(state=new_state)
    record = observed.record
    if record is not None and (
        record.is_in_progress or (not context.is_external and _is_record_of_target(record, flip))
    ):
        return Transition(state=context.state)
    is_external = context.is_external and record is not None and not record.has_failed
    return (
        _mark_contested(context)
        if is_external or context.is_unconfirmed_again
        else _note_unconfirmed_read(context)
    )


def _is_record_of_target(record: Modification, flip: Flip) -> bool:
    """Whether AWS's newest record made the volume what it was flipped to: then what it shows is old."""
    is_target = record.target.configuration() == flip.target and record.target.size_gib == flip.size_gib
    return is_target and not record.has_failed


def is_on_target(volume: Volume, flip: Flip) -> bool:
    """Whether a volume is what it was flipped to, in configuration and size."""
    is_target = ObservedState(volume=volume).configuration == flip.target
    return is_target and volume.size_gib == flip.size_gib


def _clear_unconfirmed_read(state: VolumeState, flip: Flip) -> VolumeState:
    return replace(state, flip=replace(flip, unconfirmed_since_s=None))


def _mark_contested(context: _ReconcileContext) -> Transition:
    """Somebody else changed it: report it, and leave the volume to people until it is released."""
    observed, history = context.observed, context.state.modifications
    if observed.started_at_s is not None:
        external = ModificationUse(at_s=observed.started_at_s, by=EXTERNAL)
        history = history.with_use(external, context.now_s)
    observed_config, size_gib = (
        observed.configuration or observed.volume.volume_type,
        observed.volume.size_gib,
    )
    record = observed.record
    if record is not None and context.is_external and not record.has_failed:
        observed_config, size_gib = (
            record.target.configuration() or record.target.volume_type,
            record.target.size_gib,
        )
    state = replace(
        context.state,
        flip=_rebase_on_external_change(context, observed_config, size_gib),
        modifications=replace(
            history, contested_at_s=int(context.now_s), used=history.within_day(context.now_s)
        ),
    )
    event = _contested_event(context, observed_config, size_gib)
    return Transition(state=state, events=(event,))


def _rebase_on_external_change(
    context: _ReconcileContext, observed_config: Configuration | str, size_gib: int
) -> Flip | None:
    """The flip of a volume that others have changed to something other than its original: it still returns.

    None for gp2, from which it can only be flipped again, and for a type that no volume is flipped to or
    from: the event then states what the volume was.
    """
    flip = context.flip
    if (
        not isinstance(observed_config, Configuration)
        or observed_config == flip.original
        or observed_config.volume_type is VolumeType.GP2
    ):
        return None
    before_usd, after_usd = (
        usd_per_month(configuration, size_gib, US_EAST_1)
        for configuration in (flip.original, observed_config)
    )
    return replace(
        flip,
        status=FlipStatus.ON_TARGET,
        direction=Direction.FLIP,
        target=observed_config,
        size_gib=size_gib,
        usd_per_month=round(after_usd - before_usd, 6),
        reached_at_s=flip.reached_at_s or int(context.now_s),
        started_at_s=context.observed.started_at_s or flip.started_at_s,
        previous=None,
        unconfirmed_since_s=None,
        overdue_alerted_at_s=int(context.now_s),
    )


def _contested_event(context: _ReconcileContext, observed_config: Configuration | str, to_gib: int) -> Event:
    flip = context.flip
    is_same_config = observed_config == flip.target
    has_grown = is_same_config and to_gib != flip.size_gib
    is_off_gp2 = (
        isinstance(observed_config, Configuration) and observed_config.volume_type is not VolumeType.GP2
    )
    returns_later = is_off_gp2 and observed_config != flip.original and not flip.is_permanent
    change = f"was {'reverted to' if observed_config == flip.original else 'made'} {observed_config}"
    definition = (
        "If Terraform or the like did it, it will do it again: write"
        f" {_terraform_attributes(flip.target)} into its definition."
    )
    return Event(
        kind=EntryKind.CHANGED_BY_OTHERS,
        summary=f"was resized from {flip.size_gib:,} to {to_gib:,} GiB" if has_grown else change,
        details=(
            f"It was {flip.original} until burstwatch made it {flip.target}, asked for by {flip.by}.",
            *([] if is_same_config else [definition]),
            "Until somebody releases it, the watchdog leaves it as it is.",
            *([f"Then it brings it back to {flip.original} when its load is calm."] if returns_later else []),
        ),
        alert=AlertKind.CHANGED_BY_OTHERS,
        action=f"burstctl release {context.state.volume_id}",
        facts={
            "from": configuration_to_document(flip.target),
            "to": configuration_to_document(observed_config)
            if isinstance(observed_config, Configuration)
            else {"volume_type": observed_config},
            "original": configuration_to_document(flip.original),
            "from_gib": flip.size_gib,
            "to_gib": to_gib,
        },
    )


def _terraform_attributes(configuration: Configuration) -> str:
    """The line of an infrastructure definition that agrees with a configuration."""
    parts = [f'type = "{configuration.volume_type}"']
    parts += [f"iops = {configuration.iops}"] if configuration.iops is not None else []
    if configuration.throughput_mib_s is not None:
        parts.append(f"throughput = {configuration.throughput_mib_s}")
    return ", ".join(parts)


_HANDLERS: Final[dict[FlipStatus, Callable[[_ReconcileContext], Transition]]] = {
    FlipStatus.REQUESTED: _settle_intent,
    FlipStatus.IN_PROGRESS: _check_progress,
    FlipStatus.ON_TARGET: _check_on_target,
}

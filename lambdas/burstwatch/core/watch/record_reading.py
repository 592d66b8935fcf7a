"""What a poll read of a volume, and what the state remembers of it."""

from dataclasses import replace
from typing import Final

from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.resource import lasting_id_of
from burstwatch.core.assessment.resource_buckets import class_behind
from burstwatch.core.assessment.severity import Level, classify
from burstwatch.core.buckets.series import Series
from burstwatch.core.flips.volume_context import VolumeContext
from burstwatch.core.ledger.flip_state import EXTERNAL, ModificationUse
from burstwatch.core.ledger.resource_state import LastReading, Presence, ResourceState
from burstwatch.core.policy.policy import CadencePolicy, Policy

_SILENT: Final = {UnknownReason.TELEMETRY_GAP, UnknownReason.NO_SUCH_BUCKET}
"""A gap that lasts for days becomes the other: the silence is the same."""


def without_stale_balance(assessment: Assessment, state: ResourceState) -> Assessment:
    """The assessment without gp2's balance, if the modification to another type is completed."""
    flip, reason = state.flip, UnknownReason.NOT_BURSTABLE_TYPE
    is_known = assessment.sample is not None or assessment.unknown_reason is reason
    if flip is None or flip.is_under_way or not is_known or assessment.volume.is_gp2:
        return assessment
    return replace(
        assessment,
        unknown_because=None,  # the flip was under way when the balance was read, and is over
        sample=None,
        age_s=None,
        spacing_s=None,
        forecast=None,
        balance=Series(),
        unknown_reason=reason,
    )


def classify_reading(
    assessment: Assessment, old_state: ResourceState, policy: Policy, *, classified: Level | None = None
) -> Level:
    """The level by the reading; ``classified`` is the level of the same reading if it is known already.

    While a volume is modified, AWS publishes no balance, and an old one must not raise an alarm.
    """
    level = Level.UNKNOWN
    if assessment.unknown_reason is None:
        level = classified or classify(assessment, old_state.level, policy)
    is_being_modified = old_state.flip is not None and old_state.flip.is_under_way
    is_stale = (assessment.age_s or 0) > policy.cadence.metric_lag.total_seconds()
    if is_being_modified and is_stale and level is not Level.UNKNOWN:
        return min(level, old_state.level, key=lambda candidate: candidate.rank)
    return level


def record_reading(
    reconciled: ResourceState,
    old_state: ResourceState,
    assessment: Assessment,
    level: Level,
    volume_context: VolumeContext,
    *,
    now_s: float,
) -> ResourceState:
    """The state after this poll, before a flip, alerts and the next poll are decided."""
    known_state = _record_external_modification(reconciled, volume_context, now_s)
    reason = assessment.unknown_reason
    is_gap_over = reason is None or _is_expected(reason, known_state)
    new_level = level
    if reason is not None:
        new_level = Level.OK if is_gap_over else known_state.level
    # a return that was just verified makes the volume a new arrival, which the reading cannot know yet
    has_just_returned = reconciled.presence.arrived_at_s != old_state.presence.arrived_at_s
    return replace(
        known_state,
        revision=max(old_state.revision + 1, int(now_s)),
        level=new_level,
        level_since_s=known_state.level_since_s if new_level is known_state.level else int(now_s),
        reading=_next_reading(known_state.reading, assessment, int(now_s)),
        presence=Presence(
            arrived_at_s=reconciled.presence.arrived_at_s if has_just_returned else assessment.arrived_at_s,
            modified_at_s=assessment.modified_at_s,
            smaller_size_gib=assessment.smaller_size_gib,
            unused_since_s=assessment.unused_since_s,
        ),
        lasting_id=lasting_id_of(assessment.resource),
        instance_class=class_behind(assessment.resource, assessment.kind),
        alerts=replace(known_state.alerts, is_gap_open=known_state.alerts.is_gap_open and not is_gap_over),
    )


def _record_external_modification(
    state: ResourceState, volume_context: VolumeContext, now_s: float
) -> ResourceState:
    """The state with what its host reports, and with a modification that others began.

    Of modifications AWS shows only the newest, and counts them all.
    """
    if volume_context.stall is not None:
        state = replace(state, stall=volume_context.stall)
    record = volume_context.modification_in_progress
    if state.flip is not None or record is None or record.started_at is None:
        return state
    external = ModificationUse(at_s=int(record.started_at.timestamp()), by=EXTERNAL)
    return replace(state, modifications=state.modifications.with_use(external, now_s))


def _is_expected(reason: UnknownReason, state: ResourceState) -> bool:
    """Whether nothing is wrong although there is no data: then the volume counts as calm."""
    is_being_modified = state.flip is not None and state.flip.is_under_way
    return not reason.is_fault and reason is not UnknownReason.TOO_NEW and not is_being_modified


def _next_reading(old_reading: LastReading, assessment: Assessment, now_s: int) -> LastReading:
    """The reading after this poll; without a new balance the last one is kept until its bucket is full."""
    reason = assessment.unknown_reason
    if reason is None:
        assert assessment.sample is not None
        return LastReading(balance_pct=assessment.sample.value, balance_at_s=assessment.sample.end_at_s)
    lasts = reason is old_reading.unknown_reason or {reason, old_reading.unknown_reason} == _SILENT
    is_full = reason is UnknownReason.DETACHED and _is_refilled(assessment, old_reading, now_s)
    return replace(
        LastReading() if is_full else old_reading,
        unknown_reason=reason,
        unknown_since_s=old_reading.unknown_since_s if lasts else now_s,
    )


def may_be_idle(
    assessment: Assessment,
    state: ResourceState | None,
    cadence: CadencePolicy,
    *,
    now_s: float,
    is_first_sweep: bool = False,
) -> bool:
    """Whether a volume without datapoints may be idle: it was full when last seen, and nothing goes on.

    One without a state was calm when it was last seen, except in the first sweep. One whose balance was never
    seen counts as full once it has been attached for as long as an empty bucket takes to refill.
    """
    if state is not None and (state.level.is_alerting or state.flip is not None):
        return False
    if state is not None and state.reading.balance_pct is not None:
        return state.reading.balance_pct >= cadence.calm_from_pct
    if not is_first_sweep if state is None else state.reading.unknown_reason is UnknownReason.IDLE:
        return True
    volume = assessment.volume
    attached_s = now_s - (volume.attached_at or volume.created_at).timestamp()
    return attached_s >= assessment.bucket.refill_time_s()


def is_newly_missing_data(
    assessment: Assessment, old_state: ResourceState, policy: Policy, now_s: int
) -> bool:
    """Whether one more poll may show why there are no datapoints: a single empty answer is not yet a gap.

    A load that has just begun looks idle for as long as CloudWatch takes to show it.
    """
    reason = assessment.unknown_reason
    if reason is UnknownReason.TELEMETRY_GAP:
        return old_state.reading.unknown_reason is not reason
    if reason is not UnknownReason.IDLE:
        return False
    since_s = old_state.reading.unknown_since_s if old_state.reading.unknown_reason is reason else None
    return since_s is None or now_s - since_s < policy.cadence.metric_lag.total_seconds()


def is_still_unused(assessment: Assessment, old_state: ResourceState, now_s: int) -> bool:
    """Whether the volume was idle or detached at the last poll as well, and nothing is new."""
    reason = assessment.unknown_reason
    if reason is not old_state.reading.unknown_reason:
        return False
    is_idle = reason is UnknownReason.IDLE
    is_refilling = old_state.reading.balance_pct is not None and not _is_refilled(
        assessment, old_state.reading, now_s
    )
    is_quiet = (
        old_state.next_poll_at_s is None
        and not old_state.impossible_times(now_s)
        and not old_state.alerts.is_gap_open
        and old_state.presence.missing_since_s is None
    )
    is_unused = is_idle or (reason is UnknownReason.DETACHED and is_refilling)
    return is_unused and is_quiet and not old_state.has_flip_history and old_state.stall is None


def _is_refilled(assessment: Assessment, reading: LastReading, now_s: int) -> bool:
    """Whether the balance last seen is so old that the bucket of an unused volume has refilled since."""
    if reading.balance_pct is None or reading.balance_at_s is None:
        return True
    return now_s - reading.balance_at_s >= assessment.bucket.refill_time_s(reading.balance_pct)

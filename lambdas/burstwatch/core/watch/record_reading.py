"""What a look read of a volume, and what is remembered of it: the reading's part of a decision."""

from dataclasses import replace

from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.severity import Level, classify
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.volume import refill_time_s
from burstwatch.core.flips.triggers import VolumeContext
from burstwatch.core.ledger.flip_state import EXTERNAL, ModificationUse, record_modification
from burstwatch.core.ledger.ledger import VolumeState
from burstwatch.core.policy.policy import CadencePolicy, Policy


def without_stale_balance(assessment: Assessment, state: VolumeState) -> Assessment:
    """What is known of a volume whose modification is completed: its gp2 bucket says nothing any more."""
    flip, reason = state.flip, UnknownReason.NOT_BURSTABLE_TYPE
    is_known = assessment.sample is not None or assessment.unknown_reason is reason
    if not is_known or assessment.volume.is_gp2 or flip is None or flip.is_under_way:
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
    assessment: Assessment, old_state: VolumeState, policy: Policy, *, classified: Level | None = None
) -> Level:
    """The level by what was read; ``classified`` is that of the same reading where it is known already.

    While a volume is modified AWS publishes no balance, and an old one must not raise an alarm.
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
    reconciled: VolumeState,
    old_state: VolumeState,
    assessment: Assessment,
    level: Level,
    volume_context: VolumeContext,
    *,
    now_s: float,
) -> VolumeState:
    """The state after this look, before a flip, alerts and the next poll are decided."""
    known_state = _record_external_modification(reconciled, volume_context, now_s)
    state = _updated_state(
        known_state,
        assessment,
        level,
        revision=max(old_state.revision + 1, int(now_s)),
        now_s=int(now_s),
    )
    # a return that was just verified makes the volume a new arrival, which the reading cannot know yet
    has_just_arrived = reconciled.arrived_at_s != old_state.arrived_at_s
    return replace(state, arrived_at_s=reconciled.arrived_at_s) if has_just_arrived else state


def _record_external_modification(
    state: VolumeState, volume_context: VolumeContext, now_s: float
) -> VolumeState:
    """The state with what its host reports, and with a modification that others began.

    Of modifications AWS shows only the newest, and counts them all.
    """
    if volume_context.stall is not None:
        state = replace(state, stall=volume_context.stall)
    record = volume_context.modification_in_progress
    if state.flip is not None or record is None or record.started_at is None:
        return state
    external = ModificationUse(at_s=int(record.started_at.timestamp()), by=EXTERNAL)
    return replace(state, modifications=record_modification(state.modifications, external, now_s))


def _updated_state(
    old_state: VolumeState, assessment: Assessment, level: Level, *, revision: int, now_s: int
) -> VolumeState:
    """The state after this look, before alerts and the next look are known."""
    reason = assessment.unknown_reason
    updated = replace(
        old_state,
        revision=revision,
        arrived_at_s=assessment.arrived_at_s,
        modified_at_s=assessment.modified_at_s,
        smaller_size_gib=assessment.smaller_size_gib,
        unused_since_s=assessment.unused_since_s,
        unknown_reason=reason,
        missing_since_s=None,
    )
    if reason is UnknownReason.DETACHED and _is_refilled(assessment, old_state, now_s):
        updated = replace(updated, balance_pct=None, balance_at_s=None)
    if reason is not None:
        since_s = old_state.unknown_since_s if old_state.unknown_reason is reason else now_s
        is_being_modified = old_state.flip is not None and old_state.flip.is_under_way
        is_over = not reason.is_fault and reason is not UnknownReason.TOO_NEW and not is_being_modified
        return _with_level(
            replace(updated, unknown_since_s=since_s, is_gap_alerted=updated.is_gap_alerted and not is_over),
            Level.OK if is_over else old_state.level,
            now_s,
        )
    assert assessment.sample is not None
    with_balance = replace(
        updated,
        unknown_since_s=None,
        is_gap_alerted=False,
        balance_pct=assessment.sample.value,
        balance_at_s=assessment.sample.end_at_s,
    )
    return _with_level(with_balance, level, now_s)


def _with_level(state: VolumeState, level: Level, now_s: int) -> VolumeState:
    return state if state.level is level else replace(state, level=level, level_since_s=now_s)


def may_be_idle(
    assessment: Assessment,
    state: VolumeState | None,
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
    if state is not None and state.balance_pct is not None:
        return state.balance_pct >= cadence.calm_from_pct
    if not is_first_sweep if state is None else state.unknown_reason is UnknownReason.IDLE:
        return True
    volume = assessment.volume
    attached_s = now_s - (volume.attached_at or volume.created_at).timestamp()
    return attached_s >= refill_time_s(assessment.baseline_iops)


def is_newly_missing_data(assessment: Assessment, old_state: VolumeState, policy: Policy, now_s: int) -> bool:
    """Whether one more answer may show why there are no datapoints: one without is not yet a gap.

    A load that has just begun looks idle for as long as CloudWatch takes to show it.
    """
    reason = assessment.unknown_reason
    if reason is UnknownReason.TELEMETRY_GAP:
        return old_state.unknown_reason is not reason
    if reason is not UnknownReason.IDLE:
        return False
    since_s = old_state.unknown_since_s if old_state.unknown_reason is reason else None
    return since_s is None or now_s - since_s < policy.cadence.metric_lag.total_seconds()


def is_still_unused(assessment: Assessment, old_state: VolumeState, now_s: int) -> bool:
    """Whether it was idle or detached at the last look as well, and nothing is new: nothing is written."""
    reason = assessment.unknown_reason
    if reason is not old_state.unknown_reason:
        return False
    is_idle = reason is UnknownReason.IDLE
    is_refilling = old_state.balance_pct is not None and not _is_refilled(assessment, old_state, now_s)
    is_quiet = (
        old_state.next_poll_at_s is None
        and not old_state.is_gap_alerted
        and old_state.missing_since_s is None
    )
    is_unused = is_idle or (reason is UnknownReason.DETACHED and is_refilling)
    return is_unused and is_quiet and not old_state.has_flip_history and old_state.stall is None


def _is_refilled(assessment: Assessment, state: VolumeState, now_s: int) -> bool:
    """Whether the balance last seen is so old that the bucket of an unused volume has refilled since."""
    if state.balance_pct is None or state.balance_at_s is None:
        return True
    return now_s - state.balance_at_s >= refill_time_s(assessment.baseline_iops, state.balance_pct)

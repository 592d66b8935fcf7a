"""From the volumes that are due to a decision about each: what is read of them, and what it comes to."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from burstwatch.adapters.aws.errors import AwsFailure
from burstwatch.core.alerts.drain_message import describe_drain_cause
from burstwatch.core.assessment.assess import (
    STOPPED_STATES,
    Assessment,
    UnknownReason,
    VolumeReading,
    assess,
    has_no_operations,
)
from burstwatch.core.assessment.severity import Level, classify
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.volume import Volume, can_burst
from burstwatch.core.ebs.volume_bucket import bucket_kind_of, bucket_of
from burstwatch.core.flips.reconciliation.observed_state import ObservedState, is_on_target
from burstwatch.core.flips.return_trigger import is_demand_known
from burstwatch.core.flips.volume_context import VolumeContext
from burstwatch.core.ledger.flip_state import Direction, FlipStatus, active_hold
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import FOCUS_TICK, Mode
from burstwatch.core.resource_type import ResourceType, is_volume_subject, type_of_id
from burstwatch.core.tag_keys import CRITICAL, IGNORE
from burstwatch.core.watch.decide import conclude, evaluate_volume
from burstwatch.core.watch.decision import Action, Decision, VolumeEvaluation
from burstwatch.core.watch.missing_volume import drop_state, mark_missing
from burstwatch.core.watch.pass_report import urgency_of
from burstwatch.core.watch.polling.cadence import is_recheck_due, sweep_interval_s
from burstwatch.core.watch.polling.due_volumes import DueVolume
from burstwatch.core.watch.polling.turns import in_turn
from burstwatch.core.watch.record_reading import may_be_idle
from burstwatch.core.watch.witness import describe_volume_witness
from burstwatch.engine.collector import OPERATIONS_SPAN_S
from burstwatch.engine.pass_state import WatchPass, isolate_errors, record_stop

_CHUNK_SIZE: Final = 5_000
"""Volumes assessed before their samples are let go: bounds the memory of a pass over a large fleet."""


def evaluate_due(watch_pass: WatchPass, due: Iterable[DueVolume]) -> None:
    """Read, assess and decide, chunk by chunk; alerts about drains wait until all of them are known."""
    watched: list[DueVolume] = []
    for due_volume in due:
        if due_volume.volume.volume_id in watch_pass.states.unreadable:
            watch_pass.decisions.append(unreadable_decision(watch_pass, _unread(due_volume.volume)))
            continue
        state = watch_pass.states.get(due_volume.volume.volume_id)
        is_ignored = IGNORE in due_volume.volume.tags and watch_pass.settings_of(due_volume.volume).is_ignored
        if is_ignored and not (state is not None and state.has_flip_history):
            watch_pass.ignored.append(due_volume.volume.volume_id)
            drop_state_of(watch_pass, due_volume.volume.volume_id, f"it is tagged {IGNORE}")
        elif not (
            watch_pass.is_read_only
            or _is_watched(watch_pass, due_volume.volume)
            or (state is not None and state.has_flip_history)
        ):
            drop_state_of(watch_pass, due_volume.volume.volume_id, "such volumes are not watched any more")
        else:
            is_being_modified = state is not None and state.flip is not None and state.flip.is_under_way
            watched.append(replace(due_volume, is_being_modified=True) if is_being_modified else due_volume)
    results: list[Decision | VolumeEvaluation] = []
    if len(watched) > _CHUNK_SIZE:
        # If the time of each pass ends before all are evaluated, none is left out for ever.
        watched = in_turn(watched, watch_pass.context.tick_at_s)
    remaining = iter(watched)
    while chunk := list(islice(remaining, _CHUNK_SIZE)):
        if watch_pass.services.should_stop():
            record_stop(watch_pass, len(chunk) + sum(1 for _ in remaining), "volume")
            break
        watch_pass.collector.heartbeat()
        results += _evaluate_chunk(watch_pass, chunk)
        watch_pass.services.report_progress(len(results), len(watched))
    _conclude_all(watch_pass, results)


def _is_watched(watch_pass: WatchPass, volume: Volume) -> bool:
    """Whether the policy watches it; one whose type has no credits was changed, and may change again."""
    resources = watch_pass.services.policy.resources
    return volume.volume_type in resources.volume_types if volume.has_bucket else resources.ebs.watch


def _evaluate_chunk(watch_pass: WatchPass, chunk: Sequence[DueVolume]) -> list[Decision | VolumeEvaluation]:
    """A decision about each volume; only the evaluation of one whose drain is yet to be explained."""
    assessments, levels = _assess_chunk(watch_pass, chunk)
    modifications, unread = _read_modifications(watch_pass, chunk)
    candidates = [
        due_volume.volume
        for due_volume in chunk
        if _may_recommend_flip(watch_pass, due_volume.volume, levels.get(due_volume.volume.volume_id))
    ]
    unavailable = watch_pass.services.unavailable_types(candidates, watch_pass.context.now_s)
    instances = _read_instances(watch_pass, assessments, levels)
    watch_pass.instances |= instances
    results: list[Decision | VolumeEvaluation] = []
    for due_volume in chunk:
        volume_id = due_volume.volume.volume_id
        if assessment := assessments.get(volume_id):
            with isolate_errors(watch_pass, volume_id):
                volume_context = _volume_context(watch_pass, due_volume.volume, modifications, unread)
                volume_context = replace(
                    volume_context,
                    unavailable=unavailable.get(volume_id, {}),
                    instance=instances.get(volume_id),
                )
                results.append(_evaluate_one(watch_pass, assessment, levels[volume_id], volume_context))
    return results


def _read_instances(
    watch_pass: WatchPass, assessments: Mapping[str, Assessment], levels: Mapping[str, Level]
) -> Mapping[str, InstanceLimits]:
    """What the instances of volumes in trouble allow, by volume id.

    It is read only if instances are watched: then the function has the permission, and the price has been
    accepted. And only for an alert, or for a volume that may be flipped: two balances a minute cost more than
    all else that is read of it.
    """
    troubled = [
        assessments[i].volume
        for i, level in levels.items()
        if level.is_alerting
        and i in assessments
        and (
            watch_pass.shows_evidence(assessments[i], level)
            or _may_recommend_at_any_poll(watch_pass, assessments[i].volume)
        )
    ]
    collector = watch_pass.collector
    is_read = collector.watches_instances and ResourceType.INSTANCE not in collector.excused_kinds
    if not troubled or not is_read:
        return {}
    limits, _ = collector.instance_limits(troubled)
    return limits


def _may_recommend_at_any_poll(watch_pass: WatchPass, volume: Volume) -> bool:
    """Whether a flip, or an event whose alert recommends one, may be due at any level that was reported."""
    volume_settings = watch_pass.settings_of(volume)
    if volume_settings.mode is Mode.PROPOSE:
        status = watch_pass.window_schedule.status_for(volume)
        return volume_settings.is_critical or (status is not None and status.wants_flip)
    return volume_settings.mode is Mode.AUTO


def _evaluate_one(
    watch_pass: WatchPass, assessment: Assessment, level: Level, volume_context: VolumeContext
) -> Decision | VolumeEvaluation:
    volume = assessment.volume
    volume_settings = watch_pass.settings_of(volume)
    state = watch_pass.states.get(volume.volume_id)
    is_followed = not volume_context.is_watched and state is not None and state.flip is None
    if volume_settings.is_ignored or is_followed:
        volume_settings = replace(volume_settings, mode=Mode.OBSERVE)
    result = evaluate_volume(
        assessment,
        state,
        volume_settings,
        policy=watch_pass.policy_of(assessment),
        context=watch_pass.context,
        volume_context=volume_context,
        classified=level,
    )
    if isinstance(result, Decision):
        return release_samples(watch_pass, result)
    if watch_pass.explains_drains and result.unexplained_drain is not None:
        return result
    return release_samples(watch_pass, conclude(result))


def release_samples(watch_pass: WatchPass, decision: Decision) -> Decision:
    """The decision without the series it was made from: those of a large fleet would not fit in memory."""
    if watch_pass.keeps_samples:
        return decision
    return replace(decision, assessment=replace(decision.assessment, balance=Series(), served_iops=Series()))


def _conclude_all(watch_pass: WatchPass, results: Iterable[Decision | VolumeEvaluation]) -> None:
    """Add the decisions in order; the drains that alerts are about are explained first, all at once."""
    results = list(results)
    evaluations = [result for result in results if isinstance(result, VolumeEvaluation)]
    drain_causes, witnesses = (
        _read_drain_causes(watch_pass, evaluations),
        _read_witnesses(watch_pass, evaluations),
    )
    for result in results:
        if isinstance(result, Decision):
            watch_pass.decisions.append(result)
            continue
        with isolate_errors(watch_pass, result.volume_id):
            context = replace(result.volume_context, witness=witnesses.get(result.volume_id, {}))
            evaluation = replace(result, volume_context=context)
            decision = conclude(evaluation, drain_causes.get(result.volume_id))
            watch_pass.decisions.append(release_samples(watch_pass, decision))


def _read_drain_causes(
    watch_pass: WatchPass, evaluations: Sequence[VolumeEvaluation]
) -> Mapping[str, Mapping[str, Any]]:
    """What drained each of these volumes, by id, the most urgent read first.

    No alert is lost over what goes wrong here.
    """
    drains = {
        evaluation.volume_id: evaluation.unexplained_drain
        for evaluation in sorted(evaluations, key=urgency_of)
    }
    try:
        drain_metrics = watch_pass.collector.drain_metrics(list(drains))
        return {
            volume_id: describe_drain_cause(drain, drain_metrics[volume_id], now_s=watch_pass.context.now_s)
            for volume_id, drain in drains.items()
            if drain is not None and volume_id in drain_metrics
        }
    except Exception as error:  # noqa: BLE001 - whatever it is, the alerts must go out; it is reported
        reason = f"{type(error).__name__}: {error}"
        count_text = "1 volume" if len(drains) == 1 else f"{len(drains)} volumes"
        watch_pass.internal_errors.append(
            f"what drained {count_text} was not read because of an internal error: {reason}"
        )
        watch_pass.collector.failures.append(watch_pass.internal_errors[-1])
        return {}


def _read_witnesses(
    watch_pass: WatchPass, evaluations: Sequence[VolumeEvaluation]
) -> Mapping[str, Mapping[str, Any]]:
    """CloudWatch's checks of the limits of the volumes that an alert is about, by volume id.

    They distinguish the limits of a volume from those of its instance, and are read only if it is watched.
    """
    if not watch_pass.collector.watches_instances or not watch_pass.explains_drains:
        return {}
    alerted = [evaluation.assessment.volume for evaluation in evaluations if evaluation.alert.kind]
    checks = watch_pass.collector.volume_checks(alerted)
    return {volume_id: describe_volume_witness(*pair) for volume_id, pair in checks.items()}


def _unread(volume: Volume) -> Assessment:
    return Assessment(resource=volume, kind=bucket_kind_of(volume), bucket=bucket_of(volume))


def unreadable_decision(watch_pass: WatchPass, assessment: Assessment) -> Decision:
    """A bucket of which the ledger's memory cannot be read: not judged, as that would be from a blank one."""
    unreadable = watch_pass.states.unreadable[assessment.subject]
    assessment = replace(
        assessment, unknown_reason=UnknownReason.READ_FAILED, unknown_because=str(unreadable)
    )
    return Decision(
        assessment=assessment,
        volume_settings=watch_pass.settings_of(assessment.resource),
        level=Level.UNKNOWN,
        previous_level=Level.UNKNOWN,
        action=Action.NONE,
        reason="its state in the ledger cannot be read",
        poll_interval_s=int(FOCUS_TICK.total_seconds()),
        change=None,
    )


def read_remembered_volumes(watch_pass: WatchPass, volume_ids: AbstractSet[str]) -> list[Volume]:
    """Remembered volumes that were not listed; those that are gone altogether are forgotten."""
    volumes, missing = watch_pass.collector.volumes_by_id(filter(is_volume_subject, volume_ids))
    drop_missing(watch_pass, missing)
    return volumes


def drop_missing(watch_pass: WatchPass, volume_ids: Iterable[str]) -> None:
    """Drop the states of volumes that do not exist, once EC2 has answered so twice."""
    for volume_id in volume_ids:
        state = watch_pass.states.get(volume_id)
        missing_change = mark_missing(state, watch_pass.context) if state is not None else None
        if missing_change is not None:
            watch_pass.dropped.append(missing_change)
        else:
            drop_state_of(watch_pass, volume_id, f"the {type_of_id(volume_id).noun} was deleted")


def drop_state_of(watch_pass: WatchPass, volume_id: str, reason: str) -> None:
    """Drop the state of a bucket, if there is one, and close its alert."""
    if state := watch_pass.states.get(volume_id):
        watch_pass.dropped.append(
            drop_state(state, reason, policy=watch_pass.services.policy, context=watch_pass.context)
        )


def to_due(watch_pass: WatchPass, volumes: Sequence[Volume]) -> list[DueVolume]:
    """These volumes with what is known of their modifications, to be polled now."""
    sizes_gib = watch_pass.collector.smaller_sizes_gib() if volumes else {}
    return [DueVolume(volume=v, smaller_size_gib=sizes_gib.get(v.volume_id)) for v in volumes]


def _assess_chunk(
    watch_pass: WatchPass, chunk: Sequence[DueVolume]
) -> tuple[dict[str, Assessment], dict[str, Level]]:
    """Facts about each volume, and its level; a second and third question only about those that need it."""
    collector = watch_pass.collector
    in_focus = {i for i, state in watch_pass.states.items() if state.next_poll_at_s is not None}
    balances = collector.balances(chunk, in_focus)
    volumes = {due_volume.volume.volume_id: due_volume.volume for due_volume in chunk}
    readings: dict[str, VolumeReading] = {}
    assessments: dict[str, Assessment] = {}

    def assess_again(volume_id: str, reading: VolumeReading) -> None:
        readings[volume_id] = reading
        with isolate_errors(watch_pass, volume_id):
            assessments[volume_id] = _assess_one(watch_pass, volumes[volume_id], reading)

    for due_volume in chunk:
        assess_again(
            due_volume.volume.volume_id,
            _volume_reading(watch_pass, due_volume, balances.get(due_volume.volume.volume_id)),
        )
    missing_data = [
        volumes[volume_id]
        for volume_id, assessment in assessments.items()
        if _is_missing_data(watch_pass, assessment)
    ]
    for volume_id, state in collector.instance_states(missing_data).items():
        instance_name = collector.instance_names.get(volume_id)
        volumes[volume_id] = replace(volumes[volume_id], instance_name=instance_name)
        assess_again(volume_id, _with_instance_state(watch_pass, volume_id, readings[volume_id], state))
    for volume_id in _find_idle(watch_pass, assessments):
        assess_again(volume_id, replace(readings[volume_id], is_idle=True))
    # operations and instance states, which are read below, never change a level that is known
    levels = {volume_id: _classify(watch_pass, assessment) for volume_id, assessment in assessments.items()}
    alerting = {volume_id for volume_id, level in levels.items() if level.is_alerting}
    returning = {volume_id for volume_id in assessments if _may_return(watch_pass.states.get(volume_id))}
    span_s = _calm_span_s(watch_pass) if returning else OPERATIONS_SPAN_S
    volume_ids = sorted(alerting | returning)
    for volume_id, (reads, writes) in collector.operations(volume_ids, span_s=span_s).items():
        assess_again(volume_id, replace(readings[volume_id], read_ops=reads, write_ops=writes))
    unknown_demand = [
        volumes[i]
        for i in sorted(returning)
        if volumes[i].instance_id and not is_demand_known(assessments[i], watch_pass.context.now_s)
    ]
    for volume_id, state in collector.instance_states(unknown_demand).items():
        assess_again(volume_id, replace(readings[volume_id], instance_state=state))
    return assessments, levels


def _may_return(state: ResourceState | None) -> bool:
    flip = state.flip if state else None
    return flip is not None and flip.status is FlipStatus.ON_TARGET and not flip.is_permanent


def _calm_span_s(watch_pass: WatchPass) -> float:
    """As far back as demand must be known to call it calm, with what CloudWatch may be late."""
    policy = watch_pass.services.policy
    span = policy.flip_back.calm_for + policy.cadence.metric_lag
    return max(OPERATIONS_SPAN_S, span.total_seconds() + 5 * PERIOD_S)


def _with_instance_state(
    watch_pass: WatchPass, volume_id: str, reading: VolumeReading, instance_state: str
) -> VolumeReading:
    """A volume whose instance was stopped at the last poll, and runs now, has just arrived."""
    state = watch_pass.states.get(volume_id)
    was_stopped = state is not None and state.reading.unknown_reason is UnknownReason.INSTANCE_STOPPED
    has_started = was_stopped and instance_state not in STOPPED_STATES
    arrived_at_s = int(watch_pass.context.now_s) if has_started else reading.arrived_at_s
    return replace(reading, instance_state=instance_state, arrived_at_s=arrived_at_s)


def _volume_reading(
    watch_pass: WatchPass, due_volume: DueVolume, series_or_failure: Series | AwsFailure | None
) -> VolumeReading:
    """One volume's share of what was read, and of what the ledger remembers for a while."""
    volume_id, now_s = due_volume.volume.volume_id, int(watch_pass.context.now_s)
    state = watch_pass.states.get(volume_id) or ResourceState(volume_id=volume_id, revision=0)
    since_s = now_s - watch_pass.services.policy.telemetry.too_new.total_seconds()
    arrived_at_s = now_s if due_volume.has_arrived else _if_after(state.presence.arrived_at_s, since_s)
    modified_at_s = _if_after(state.presence.modified_at_s, since_s)
    smaller_size_gib = state.presence.smaller_size_gib if modified_at_s is not None else None
    if due_volume.smaller_size_gib is not None:
        modified_at_s, smaller_size_gib = now_s, due_volume.smaller_size_gib
    flip = state.flip
    if flip is not None and flip.status is FlipStatus.ON_TARGET and due_volume.volume.is_gp2:
        arrived_at_s = now_s  # somebody else brought it back
    balance = series_or_failure if isinstance(series_or_failure, Series) else None
    valid_from_s = _balance_valid_from_s(state)
    if balance is not None and valid_from_s is not None:
        balance = balance.since(valid_from_s)
    return VolumeReading(
        balance=balance,
        read_error=series_or_failure.problem if isinstance(series_or_failure, AwsFailure) else None,
        arrived_at_s=arrived_at_s,
        modified_at_s=modified_at_s,
        smaller_size_gib=smaller_size_gib,
        changing_to=str(flip.requested_config) if flip is not None and flip.is_under_way else None,
        known_at_s=_if_after(state.reading.balance_at_s, valid_from_s or 0),
        unused_since_s=state.presence.unused_since_s,
    )


def _balance_valid_from_s(state: ResourceState) -> int | None:
    """Since when a balance is valid again: AWS does not document what a return to gp2 does to it.

    For a volume on its target, only a balance since it got there counts: AWS may still show it as gp2.
    """
    flip = state.flip
    if flip is not None and flip.status is FlipStatus.ON_TARGET:
        return flip.reached_at_s
    if flip is not None and flip.direction is Direction.FLIP_BACK and flip.is_under_way:
        return flip.started_at_s or flip.requested_at_s
    return state.modifications.returned_at_s


def _if_after(at_s: int | None, since_s: float) -> int | None:
    return at_s if at_s is not None and at_s > since_s else None


def _assess_one(watch_pass: WatchPass, volume: Volume, reading: VolumeReading) -> Assessment:
    return assess(
        volume, reading, now_s=watch_pass.context.now_s, telemetry=watch_pass.services.policy.telemetry
    )


def _is_missing_data(watch_pass: WatchPass, assessment: Assessment) -> bool:
    """Whether CloudWatch shows less than it should: a fault, unless the instance is stopped."""
    lag_s = watch_pass.policy_of(assessment).cadence.metric_lag.total_seconds()
    state = watch_pass.states.get(assessment.volume.volume_id)
    is_being_modified = state is not None and state.flip is not None and state.flip.is_under_way
    is_late = assessment.age_s is not None and assessment.age_s > lag_s and not is_being_modified
    return is_late or assessment.unknown_reason is UnknownReason.TELEMETRY_GAP


def _find_idle(watch_pass: WatchPass, assessments: Mapping[str, Assessment]) -> list[str]:
    """The volumes without a datapoint that need none: they were full when last seen, and are idle.

    Whether a volume serves operations is read when its data ends, and once a day after that. BurstBalance
    returns with the first operation, and each read costs as much as two polls.
    """
    idle_ids: list[str] = []
    unchecked_ids: list[str] = []
    for volume_id, assessment in assessments.items():
        state, cadence = watch_pass.states.get(volume_id), watch_pass.policy_of(assessment).cadence
        if assessment.unknown_reason is not UnknownReason.TELEMETRY_GAP or not may_be_idle(
            assessment,
            state,
            cadence,
            now_s=watch_pass.context.now_s,
            is_first_sweep=watch_pass.fleet_size is None,
        ):
            continue
        interval_s = sweep_interval_s(assessment.bucket, cadence)
        is_calm = state is not None and state.next_poll_at_s is None
        was_idle = is_calm and state is not None and state.reading.unknown_reason is UnknownReason.IDLE
        is_known = was_idle and not is_recheck_due(volume_id, watch_pass.context.now_s, interval_s, cadence)
        (idle_ids if is_known else unchecked_ids).append(volume_id)
    span_s = watch_pass.services.policy.telemetry.gap_after.total_seconds()
    operations = watch_pass.collector.operations(unchecked_ids, span_s=span_s).items()
    return idle_ids + [
        volume_id for volume_id, reads_and_writes in operations if has_no_operations(*reads_and_writes)
    ]


def _classify(watch_pass: WatchPass, assessment: Assessment) -> Level:
    state = watch_pass.states.get(assessment.volume.volume_id)
    return classify(assessment, state.level if state else Level.OK, watch_pass.policy_of(assessment))


def _read_modifications(
    watch_pass: WatchPass, chunk: Iterable[DueVolume]
) -> tuple[dict[str, Modification], frozenset[str]]:
    """AWS's newest record of each volume whose flip it settles, and the ids of those that were not read."""
    volume_ids = {
        due_volume.volume.volume_id
        for due_volume in chunk
        if (state := watch_pass.states.get(due_volume.volume.volume_id))
        and _needs_modification_record(state, due_volume.volume)
    }
    in_progress = watch_pass.collector.modifications_in_progress() if watch_pass.states else {}
    modifications, unread = watch_pass.collector.modifications(volume_ids - in_progress.keys())
    return {**in_progress, **modifications}, unread


def _may_recommend_flip(watch_pass: WatchPass, volume: Volume, level: Level | None) -> bool:
    """Whether a flip of it may be proposed: only then it matters what its zone has."""
    if level is None or not can_burst(volume):
        return False
    is_requested = CRITICAL in volume.tags or watch_pass.window_schedule.status_for(volume) is not None
    return is_requested or level.is_alerting


def _needs_modification_record(state: ResourceState, volume: Volume) -> bool:
    """Whether only AWS's record shows the state of a flip; one in progress is known anyway."""
    flip = state.flip
    if flip is None or state.modifications.unsent_intent is not None:
        return state.modifications.unsent_intent is not None
    return flip.is_under_way or not is_on_target(volume, flip)


def _volume_context(
    watch_pass: WatchPass, volume: Volume, modifications: Mapping[str, Modification], unread: frozenset[str]
) -> VolumeContext:
    volume_id = volume.volume_id
    state = watch_pass.states.get(volume_id)
    observed = None
    if state is not None and (state.flip or state.modifications.unsent_intent) and volume_id not in unread:
        observed = ObservedState(volume=volume, record=modifications.get(volume_id))
    return VolumeContext(
        observed=observed,
        modification_in_progress=watch_pass.collector.modifications_in_progress().get(volume_id),
        windows=watch_pass.window_schedule.status_for(volume),
        hold=active_hold(watch_pass.holds, volume_id, watch_pass.context.now_s),
        stall=watch_pass.stalls.get(volume_id),
        is_watched=_is_watched(watch_pass, volume),
    )

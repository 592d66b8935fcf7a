"""From an operator's request to a plan for each volume."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from burstctl.cli.tag_filter import TagTerm, ec2_filters
from burstctl.context.context import CommandContext
from burstctl.context.resources import resolve_volumes
from burstctl.flip.cap_preview import check_caps
from burstctl.flip.measure import VolumeMeasurement, measure_volumes
from burstctl.flip.plan_orders import plan_orders
from burstctl.render.planned_flip import PlannedFlip
from burstwatch.adapters.aws.errors import AwsFailure
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import TargetOverride
from burstwatch.core.ebs.volume import Volume, can_burst
from burstwatch.core.errors import Problem
from burstwatch.core.flips.flip_plan import FlipOrder, FlipPlan
from burstwatch.core.flips.flip_trigger import describe_windows
from burstwatch.core.flips.outcome import Outcome
from burstwatch.core.flips.refusal import Guard
from burstwatch.core.ledger.flip_state import Direction, FlipCause
from burstwatch.core.policy.policy import Mode
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.watch.window_status import WindowSchedule
from burstwatch.engine.collector import Collector
from burstwatch.wiring.settings import SettingsError

MANUAL_REASON: Final = "by hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipSelection:
    """An operator's request, for volumes by what the operator calls them or by tag.

    ``duration`` is how long it is to stay.
    """

    direction: Direction
    names: Sequence[str] = ()
    terms: Sequence[TagTerm] = ()
    target_override: TargetOverride | None = None
    duration: timedelta | None = None
    overridden: frozenset[Guard] = frozenset()
    reason: str | None = None
    dry_run: bool = False
    assumes_yes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """The plans, and the volumes without a plan.

    ``unplanned`` while planning, or ``missing`` in the region.
    """

    planned: Sequence[PlannedFlip]
    unplanned: Mapping[str, Outcome]
    missing: Sequence[str]
    failures: Sequence[str]

    @property
    def to_execute(self) -> list[PlannedFlip]:
        return [flip for flip in self.planned if flip.is_wanted]

    @property
    def has_failed(self) -> bool:
        return bool(self.unplanned or self.missing or self.failures)


def plan_request(context: CommandContext, request: FlipSelection) -> PlannedBatch:
    """Choose the volumes, measure what they serve, and plan.

    Raises:
    SettingsError: no volume matches.
    AwsError: the volumes cannot be listed.
    """
    context.progress.begin("planning")
    try:
        return _plan_request(context, request)
    finally:
        context.progress.end()


def _plan_request(context: CommandContext, request: FlipSelection) -> PlannedBatch:
    services = context.services
    collector = services.build_collector(services.clock())
    volumes, missing = _select_volumes(context, request, collector)
    measurements = (
        measure_volumes(services, collector, volumes) if request.direction is Direction.FLIP else {}
    )
    orders = [
        _make_order(
            context,
            request,
            volume,
            measurements.get(volume.volume_id, VolumeMeasurement()),
            collector.now_s,
            position,
        )
        for position, volume in enumerate(volumes)
    ]
    results = plan_orders(services, orders, collector) if orders else {}
    unplanned = {volume_id: result for volume_id, result in results.items() if isinstance(result, Outcome)}
    plans = [result for result in results.values() if isinstance(result, FlipPlan)]
    checked = check_caps(plans, services.ledger.states(), services.policy.flip)
    schedule = WindowSchedule.at(
        collector.now_s, services.policy, services.ledger.manual_overrides().values()
    )
    planned = [
        PlannedFlip(
            plan=plan,
            region=services.location.region,
            options=context.options,
            lead=services.policy.lead,
            duration=request.duration,
            reflip_reason=_reflip_reason(plan, schedule),
            is_automation_disabled=services.policy.mode.highest is not Mode.AUTO,
        )
        for plan in checked.values()
    ]
    return PlannedBatch(planned=planned, unplanned=unplanned, missing=missing, failures=collector.failures)


def _reflip_reason(plan: FlipPlan, schedule: WindowSchedule) -> str | None:
    """Why a volume that returns would soon be flipped again; None if nothing causes that."""
    if plan.order.direction is Direction.FLIP or plan.context.volume_settings.mode is not Mode.AUTO:
        return None
    if plan.context.volume_settings.is_critical:
        return "it is tagged critical"
    windows = schedule.status_for(plan.context.volume)
    return (
        describe_windows(windows, plan.context.now_s) if windows is not None and windows.wants_flip else None
    )


def _select_volumes(
    context: CommandContext, request: FlipSelection, collector: Collector
) -> tuple[list[Volume], list[str]]:
    if request.names:
        volume_ids = resolve_volumes(context, request.names, prefers=_preference(context, request.direction))
        volumes, missing = collector.volumes_by_id(volume_ids)
        positions = {volume_id: position for position, volume_id in enumerate(volume_ids)}
        return sorted(volumes, key=lambda volume: positions[volume.volume_id]), missing

    def report(subject: str, failure: AwsFailure) -> None:
        problem = failure.problem
        collector.failures.append(Problem(f"{subject}: {problem.cause}", problem.fix))

    candidates = context.services.ec2.volumes(
        ec2_filters(request.terms, list(VolumeType)), report_failure=report
    )
    selected = [volume for volume in candidates if all(term.matches(volume) for term in request.terms)]
    states = context.services.ledger.states()
    flipped = {volume_id for volume_id, state in states.items() if state.flip is not None}
    is_flip = request.direction is Direction.FLIP
    selected = [volume for volume in selected if volume.volume_id in flipped or (is_flip and volume.is_gp2)]
    if not selected:
        raise SettingsError(_no_match(context, request))
    return sorted(selected, key=lambda volume: volume.volume_id), []


def _preference(context: CommandContext, direction: Direction) -> Callable[[Volume], bool]:
    """Of the volumes of an instance, a flip is about those that burst, a return about those that are away."""
    if direction is Direction.FLIP:
        return can_burst
    flipped = {volume_id for volume_id, state in context.services.ledger.states().items() if state.flip}
    return lambda volume: volume.volume_id in flipped


def _no_match(context: CommandContext, request: FlipSelection) -> Problem:
    terms, region = " and ".join(map(str, request.terms)), context.services.location.region
    if request.direction is Direction.FLIP:
        return Problem(
            f"no gp2 volume in {region} carries {terms}, so nothing was done",
            "check the tag and the Region; burstctl assess lists the gp2 volumes",
        )
    return Problem(
        f"no volume in {region} that carries {terms} has a flip in this ledger, so nothing was done",
        "check the tag, the Region and --ledger; burstctl assess -v names the ledger",
    )


def _make_order(
    context: CommandContext,
    request: FlipSelection,
    volume: Volume,
    measured: VolumeMeasurement,
    now_s: float,
    position: int,
) -> FlipOrder:
    target_override = request.target_override
    if target_override is not None and target_override.volume_type is None:
        tag_target = read_tags(volume.tags, context.services.policy.mode).target_override
        target_override = replace(target_override, volume_type=tag_target.volume_type)
    duration = request.duration
    return FlipOrder(
        volume_id=volume.volume_id,
        direction=request.direction,
        cause=FlipCause.MANUAL,
        reason=request.reason or MANUAL_REASON,
        by=context.operator,
        override=target_override,
        demand=measured.demand,
        time_to_empty_s=measured.time_to_empty_s,
        return_after_s=int(now_s + duration.total_seconds()) if duration else None,
        overridden=request.overridden,
        override_reason=request.reason,
        urgency=(float(position),),
    )

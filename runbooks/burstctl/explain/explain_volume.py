"""Reads what is explained of a volume."""

from typing import Final

from burstctl.cli.text_layout import lay_out_topics
from burstctl.context.context import CommandContext
from burstctl.explain.explain_resource import Explainer
from burstctl.explain.explanation import (
    MAX_ENTRIES,
    Explanation,
    is_completion_unrecorded,
    render_explanation,
    to_document,
    urgent_lines,
)
from burstctl.flip.cap_preview import check_caps
from burstctl.flip.measure import measure_volumes
from burstctl.flip.plan_orders import plan_orders
from burstctl.render.guard_override import command_about
from burstctl.render.planned_flip import PlannedFlip
from burstctl.render.volume import describe_volume
from burstwatch.core.ebs.volume import can_burst
from burstwatch.core.flips.flip_plan import FlipOrder, FlipPlan
from burstwatch.core.flips.recommendation import demand_of
from burstwatch.core.flips.refusal import Guard
from burstwatch.core.ledger.flip_state import Direction, FlipCause
from burstwatch.core.policy.windows import window_names_of
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.core.watch.window_status import WindowSchedule
from burstwatch.engine.collector import Collector


def _render(explanation: Explanation, *, verbose: bool) -> str:
    topics = render_explanation(explanation, verbose=verbose)
    body = lay_out_topics(describe_volume(explanation.assessment.volume), topics)
    return "\n".join([*urgent_lines(explanation), body])


def _next_commands(explanation: Explanation) -> list[list[str]]:
    history = ["history", explanation.assessment.volume.volume_id]
    return [_next_command(explanation), *([history] if explanation.entries else [])]


def _next_command(explanation: Explanation) -> list[str]:
    """What shows more: of a missing balance, of the instance that is the bottleneck, or of the load."""
    if explanation.assessment.is_fault:
        return ["doctor"]
    volume = explanation.assessment.volume
    guards = {refusal.guard for refusal in explanation.refusals_of_flip}
    planned = explanation.planned
    if Guard.INSTANCE_IS_BOTTLENECK in guards and planned and planned.plan.context.instance_unread is None:
        return command_about(volume, guards)
    is_plotted = volume.is_gp2 or explanation.decision.flip is not None
    return ["plot" if is_plotted else "which", volume.volume_id]


def _explain(context: CommandContext, report: PassReport, collector: Collector) -> Explanation | None:
    """The explanation of the only decision; None if the volume is ignored, or was not found."""
    if not report.decisions:
        return None
    (decision,) = report.decisions
    volume, services = decision.assessment.volume, context.services
    schedule = WindowSchedule.at(report.now_s, services.policy, services.ledger.manual_overrides().values())
    states = services.ledger.states_of({volume.volume_id})
    state, is_unread = states.get(volume.volume_id), volume.volume_id in states.unreadable
    return Explanation(
        decision=decision,
        policy=services.policy,
        now_s=report.now_s,
        state=state,
        is_unread=is_unread,
        entries=services.ledger.entries(volume.volume_id)[-MAX_ENTRIES:],
        holds=[hold for hold in report.holds if hold.applies_to(volume.volume_id, report.now_s)],
        planned=None
        if is_unread or is_completion_unrecorded(decision, state)
        else _plan_flip(context, decision, collector),
        windows=schedule.status_for(volume),
        window_names=sorted(window_names_of(services.policy.windows, volume)),
    )


def _flip_cause(decision: Decision) -> FlipCause:
    """The cause for which the watchdog would modify the volume, now or if it drained."""
    if decision.trigger is not None:
        return decision.trigger.cause
    return decision.flip.cause if decision.flip else FlipCause.DRAINING


def _plan_flip(context: CommandContext, decision: Decision, collector: Collector) -> PlannedFlip | None:
    """The plan of a modification by the watchdog now; None for a volume that it would not modify."""
    volume, services = decision.assessment.volume, context.services
    if decision.flip is None and not can_burst(volume):
        return None
    demand = demand_of(decision.assessment)
    if demand.peak_iops is None and decision.assessment.unknown_reason is None:
        # A pass reads the operations of volumes in trouble only.
        demand = measure_volumes(services, collector, [volume])[volume.volume_id].demand
    order = FlipOrder(
        volume_id=volume.volume_id,
        direction=Direction.FLIP if decision.flip is None else Direction.FLIP_BACK,
        cause=_flip_cause(decision),
        reason=decision.reason,
        demand=demand,
        is_early=decision.trigger is not None and decision.trigger.is_early,
        time_to_empty_s=decision.assessment.time_to_empty_s,
    )
    result = plan_orders(services, [order], collector)[volume.volume_id]
    if not isinstance(result, FlipPlan):
        return None
    plan = check_caps([result], services.ledger.states(), services.policy.flip)[volume.volume_id]
    return PlannedFlip(
        plan=plan, region=services.location.region, options=context.options, lead=services.policy.lead
    )


VOLUME_EXPLAINER: Final = Explainer(
    read=_explain, to_document=to_document, render=_render, next_commands=_next_commands
)

"""``burstctl explain``: the decision about one resource, and every number behind it."""

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import (
    INSTANCE_ID,
    RESOURCE_NAMES,
    Command,
    Options,
    ResourceName,
    common_options,
)
from burstctl.cli.output import print_info, print_next, print_output, to_json
from burstctl.cli.text_layout import lay_out_topics
from burstctl.context.context import CommandContext, open_readonly
from burstctl.context.on_demand_pass import assess_volumes
from burstctl.context.resources import resolve_resource
from burstctl.explain.explain_instance import explain_instance
from burstctl.explain.explain_storage import explain_storage
from burstctl.explain.explanation import (
    MAX_ENTRIES,
    Explanation,
    is_completion_unrecorded,
    not_explained,
    render_explanation,
    to_document,
    urgent_lines,
)
from burstctl.flip.cap_preview import check_caps
from burstctl.flip.plan_orders import plan_orders
from burstctl.render.guard_override import command_about
from burstctl.render.pass_summary import print_holds, print_report_failures
from burstctl.render.planned_flip import PlannedFlip
from burstctl.render.volume import describe_volume
from burstwatch.core.ebs.volume import can_burst
from burstwatch.core.flips.flip_plan import FlipOrder, FlipPlan
from burstwatch.core.flips.recommendation import demand_of
from burstwatch.core.flips.refusal import Guard
from burstwatch.core.ledger.flip_state import Direction, FlipCause
from burstwatch.core.ledger.unreadable_item import ItemKind
from burstwatch.core.policy.windows import window_names_of
from burstwatch.core.resource_type import ResourceType, type_of_id
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.core.watch.window_status import WindowSchedule
from burstwatch.engine.collector import Collector

if TYPE_CHECKING:
    from documents.explanation import ExplainedDocument, NotExplainedDocument, SkippedDocument


@click.command(
    cls=Command,
    examples=(
        ("burstctl explain ci-7", "the reason for its level, and what would change it"),
        ("burstctl explain i-0123456789abcdef0", "each bucket of an instance, and what can drain it"),
        ("burstctl explain fs-0123456789abcdef0", "a file system, and what each throughput mode would cost"),
        ("burstctl explain db:orders", "the storage and the class of a database, and the change to gp3"),
        ("burstctl explain vol-0123456789abcdef0 --json", "the same numbers for programs"),
    ),
    page="runbooks/BurstBalanceDraining.md",
    option_help={
        "verbose": "Also show how each number and the next look are computed, and which policy and ledger are"
        " used."
    },
)
@click.argument("name", metavar="RESOURCE", type=ResourceName(RESOURCE_NAMES))
@common_options
def explain(name: str, options: Options) -> ExitCode:
    """Show the decision about RESOURCE and every number behind it; changes nothing.

    For a volume: its balance, its flip, the guards that would refuse one now, its windows, holds, and AWS's
    quota. For an instance: each of its buckets, and the proof if its volumes cannot drain one. For a file
    system or a database: its load of a day, and the throughput mode or the storage that serves it.
    """
    with open_readonly(options) as context:
        volume = resolve_resource(context, name)
        if INSTANCE_ID.fullmatch(volume):
            return explain_instance(context, volume)
        if type_of_id(volume) is not ResourceType.EBS:
            return explain_storage(context, volume)
        report = assess_volumes(context.services, [volume], now_s=context.services.clock())
        if volume in report.ignored:
            print_info(f"{volume} carries the tag burstwatch:ignore=true, so nothing is decided about it")
        collector = context.services.build_collector(report.now_s)
        explanation = _explain(context, report, collector)
        report = replace(report, failures=[*report.failures, *collector.failures])
        if options.json:
            print_output(to_json(_document(explanation, report)))
        elif explanation is not None:
            topics = render_explanation(explanation, verbose=options.verbose)
            body = lay_out_topics(describe_volume(explanation.assessment.volume), topics)
            print_output("\n".join([*urgent_lines(explanation), body]))
        print_holds(report.holds, report.now_s, {volume})
        print_report_failures(report)
        is_unread = explanation is not None and explanation.is_unread
        if is_unread:
            _drop_repeated_failure(context, volume)
        if explanation is not None and not options.json:
            commands = [_next_command(explanation), *([["history", volume]] if explanation.entries else [])]
            print_next(shlex.join(["burstctl", *command, *options.repeated]) for command in commands)
        return ExitCode.FAILED if is_unread or report.has_failed or report.missing else ExitCode.OK


def _next_command(explanation: Explanation) -> list[str]:
    """What shows more: of a missing balance, of the instance that is the bottleneck, or of the load."""
    if explanation.assessment.is_fault:
        return ["doctor"]
    volume = explanation.assessment.volume
    guards = {refusal.guard for refusal in explanation.refusals_of_flip}
    if Guard.INSTANCE_IS_BOTTLENECK in guards:
        return command_about(volume, guards)
    is_plotted = volume.is_gp2 or explanation.decision.flip is not None
    return ["plot" if is_plotted else "which", volume.volume_id]


def _drop_repeated_failure(context: CommandContext, volume_id: str) -> None:
    """Do not repeat at the end that the volume's state cannot be read: it is the reason shown."""
    ledger = context.services.ledger
    for unreadable in ledger.take_unreadable():
        if (unreadable.kind, unreadable.subject) != (ItemKind.STATE, volume_id):
            ledger.note_unreadable(unreadable)


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
    order = FlipOrder(
        volume_id=volume.volume_id,
        direction=Direction.FLIP if decision.flip is None else Direction.FLIP_BACK,
        cause=_flip_cause(decision),
        reason=decision.reason,
        demand=demand_of(decision.assessment),
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


def _document(
    explanation: Explanation | None, report: PassReport
) -> "ExplainedDocument | NotExplainedDocument":
    skipped: SkippedDocument = {
        "ignored": list(report.ignored),
        "missing": list(report.missing),
        "failures": list(report.failures),
    }
    if explanation is None:
        return not_explained(skipped)
    return {**to_document(explanation), **skipped}

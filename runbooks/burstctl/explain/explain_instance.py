"""Reads what is explained of an instance, and prints it."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.output import print_info, print_next, print_output, to_json
from burstctl.context.context import CommandContext
from burstctl.context.on_demand_pass import assess_volumes
from burstctl.explain.explanation import MAX_ENTRIES, not_explained
from burstctl.explain.instance_explanation import (
    ExplainedBucket,
    InstanceExplanation,
    render_instance,
    to_document,
)
from burstctl.render.pass_summary import print_holds, print_report_failures
from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.instances.balance import observed_capacity
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_metrics import InstanceMetrics
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.engine.collector import Collector

if TYPE_CHECKING:
    from documents.explanation import ExplainedInstanceDocument, NotExplainedDocument, SkippedDocument


def explain_instance(context: CommandContext, instance_id: str) -> ExitCode:
    """Print the explanation of each bucket of an instance; changes nothing."""
    services, options = context.services, context.options
    report = assess_volumes(services, [instance_id], now_s=services.clock())
    if instance_id in report.ignored:
        print_info(f"{instance_id} carries the tag burstwatch:ignore=true, so nothing is decided about it")
    collector = services.build_collector(report.now_s)
    explanation = _explain(context, report, collector)
    report = replace(report, failures=[*report.failures, *collector.failures])
    if options.json:
        print_output(to_json(_document(explanation, report)))
    elif explanation is not None:
        print_output(render_instance(explanation, verbose=options.verbose))
    print_holds(report.holds, report.now_s, {instance_id})
    print_report_failures(report)
    if explanation is not None and not options.json:
        commands = [["which", instance_id], *_next_commands(explanation)]
        print_next(shlex.join(["burstctl", *command, *options.repeated]) for command in commands)
    is_unread = explanation is not None and explanation.is_unread
    return ExitCode.FAILED if is_unread or report.has_failed or report.missing else ExitCode.OK


def _next_commands(explanation: InstanceExplanation) -> list[list[str]]:
    instance_id = explanation.instance.instance_id
    is_alerting = any(bucket.decision.level.is_alerting for bucket in explanation.buckets)
    has_entries = any(bucket.entries for bucket in explanation.buckets)
    is_drawable = any(bucket.decision.assessment.sample for bucket in explanation.buckets)
    return [
        *([["simulate", instance_id]] if is_alerting else []),
        *([["plot", instance_id]] if is_drawable else []),
        *([["history", instance_id]] if has_entries else []),
    ]


def _explain(context: CommandContext, report: PassReport, collector: Collector) -> InstanceExplanation | None:
    """The explanation of its decisions; None if the instance is ignored, or was not found."""
    decisions = [
        decision
        for decision in sorted(report.decisions, key=lambda decision: -decision.level.rank)
        if isinstance(decision.assessment.resource, Instance)
    ]
    if not decisions:
        return None
    instance = decisions[0].assessment.resource
    assert isinstance(instance, Instance)
    metrics = InstanceMetrics()
    if any(decision.assessment.forecast for decision in decisions):
        metrics = collector.instance_metrics([instance.instance_id])[instance.instance_id]
    volumes, _ = collector.volumes_by_id(instance.volume_ids)
    return InstanceExplanation(
        instance=instance,
        buckets=_explained_buckets(context, decisions, metrics, report.now_s),
        now_s=report.now_s,
        metrics=metrics,
        volumes=volumes,
        holds=[hold for hold in report.holds if hold.applies_to(instance.instance_id, report.now_s)],
    )


def _explained_buckets(
    context: CommandContext, decisions: Sequence[Decision], metrics: InstanceMetrics, now_s: float
) -> list[ExplainedBucket]:
    """The decisions with the capacity that the load shows, and with what the ledger has of each bucket."""
    ledger = context.services.ledger
    subjects = {decision.assessment.subject for decision in decisions}
    states = ledger.states_of(subjects)
    return [
        ExplainedBucket(
            decision=replace(decision, assessment=_with_observation(decision.assessment, metrics)),
            policy=context.services.policy,
            now_s=now_s,
            state=states.get(decision.assessment.subject),
            is_unread=decision.assessment.subject in states.unreadable,
            entries=ledger.entries(decision.assessment.subject)[-MAX_ENTRIES:],
        )
        for decision in decisions
    ]


def _with_observation(assessment: Assessment, metrics: InstanceMetrics) -> Assessment:
    if assessment.unknown_reason is not None or assessment.observed_capacity is not None:
        return assessment
    load = metrics.load_of(assessment.kind)
    return replace(
        assessment, observed_capacity=observed_capacity(assessment.balance, load, assessment.bucket)
    )


def _document(
    explanation: InstanceExplanation | None, report: PassReport
) -> "ExplainedInstanceDocument | NotExplainedDocument":
    skipped: SkippedDocument = {
        "ignored": list(report.ignored),
        "missing": list(report.missing),
        "failures": list(report.failures),
    }
    if explanation is None:
        return not_explained(skipped)
    return {**to_document(explanation), **skipped}

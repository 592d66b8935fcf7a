"""Reads what is explained of an instance."""

from dataclasses import replace
from typing import Final

from burstctl.context.context import CommandContext
from burstctl.explain.explain_resource import Explainer, explained_buckets
from burstctl.explain.instance_explanation import InstanceExplanation, render_instance, to_document
from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.instances.balance import observed_capacity
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_metrics import InstanceMetrics
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.engine.collector import Collector


def _next_commands(explanation: InstanceExplanation) -> list[list[str]]:
    instance_id = explanation.instance.instance_id
    has_known_limits = explanation.instance.limits is not None
    is_alerting = any(bucket.decision.level.is_alerting for bucket in explanation.buckets)
    has_entries = any(bucket.entries for bucket in explanation.buckets)
    is_drawable = any(bucket.decision.assessment.sample for bucket in explanation.buckets)
    return [
        ["which", instance_id],
        *([["simulate", instance_id]] if is_alerting and has_known_limits else []),
        *([["plot", instance_id]] if is_drawable and has_known_limits else []),
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
    observed = [
        replace(decision, assessment=_with_observation(decision.assessment, metrics))
        for decision in decisions
    ]
    volumes, _ = collector.volumes_by_id(instance.volume_ids)
    return InstanceExplanation(
        instance=instance,
        buckets=explained_buckets(context, observed, report.now_s),
        now_s=report.now_s,
        metrics=metrics,
        volumes=volumes,
        holds=[hold for hold in report.holds if hold.applies_to(instance.instance_id, report.now_s)],
    )


def _with_observation(assessment: Assessment, metrics: InstanceMetrics) -> Assessment:
    """With the capacity that the load shows."""
    if assessment.unknown_reason is not None or assessment.observed_capacity is not None:
        return assessment
    load = metrics.load_of(assessment.kind)
    return replace(
        assessment, observed_capacity=observed_capacity(assessment.balance, load, assessment.bucket)
    )


INSTANCE_EXPLAINER: Final = Explainer(
    read=_explain, to_document=to_document, render=render_instance, next_commands=_next_commands
)

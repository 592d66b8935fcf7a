"""Reads what is explained of a file system or a database."""

from typing import Final

from burstctl.context.context import CommandContext
from burstctl.explain.explain_resource import Explainer, explained_buckets
from burstctl.explain.storage_explanation import StorageExplanation, render_storage, to_document
from burstwatch.core.efs.file_system import FileSystem
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.watch.efs_evidence import EfsEvidence
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.core.watch.rds_evidence import RdsEvidence
from burstwatch.engine.collector import Collector
from burstwatch.engine.resource_readers import read_evidence


def _explain(context: CommandContext, report: PassReport, collector: Collector) -> StorageExplanation | None:
    """The explanation of its decisions; None if it is ignored, or was not found."""
    decisions = sorted(report.decisions, key=lambda decision: -decision.level.rank)
    if not decisions:
        return None
    resource = decisions[0].assessment.resource
    assert isinstance(resource, FileSystem | DbInstance)
    evidence = None
    if any(decision.assessment.forecast for decision in decisions):
        read = read_evidence(collector, [resource])[resource.resource_id]
        assert isinstance(read, EfsEvidence | RdsEvidence)
        evidence = read
    return StorageExplanation(
        resource=resource,
        buckets=explained_buckets(context, decisions, report.now_s),
        now_s=report.now_s,
        region=context.services.location.region,
        evidence=evidence,
        holds=[hold for hold in report.holds if hold.applies_to(resource.resource_id, report.now_s)],
    )


def _next_commands(explanation: StorageExplanation) -> list[list[str]]:
    resource_id = explanation.resource.resource_id
    has_entries = any(bucket.entries for bucket in explanation.buckets)
    return [["which", resource_id], *([["history", resource_id]] if has_entries else [])]


STORAGE_EXPLAINER: Final = Explainer(
    read=_explain, to_document=to_document, render=render_storage, next_commands=_next_commands
)

"""Reads what is explained of a file system or a database, and prints it."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.output import print_info, print_next, print_output, to_json
from burstctl.context.context import CommandContext
from burstctl.context.on_demand_pass import assess_volumes
from burstctl.explain.explanation import MAX_ENTRIES, not_explained
from burstctl.explain.instance_explanation import ExplainedBucket
from burstctl.explain.storage_explanation import StorageExplanation, render_storage, to_document
from burstctl.render.pass_summary import print_holds, print_report_failures
from burstwatch.core.efs.file_system import FileSystem
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.efs_evidence import EfsEvidence
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.core.watch.rds_evidence import RdsEvidence
from burstwatch.engine.collector import Collector
from burstwatch.engine.resource_readers import read_evidence

if TYPE_CHECKING:
    from documents.explanation import ExplainedStorageDocument, NotExplainedDocument, SkippedDocument


def explain_storage(context: CommandContext, resource_id: str) -> ExitCode:
    """Print the explanation of a file system or a database; changes nothing."""
    services, options = context.services, context.options
    report = assess_volumes(services, [resource_id], now_s=services.clock())
    if resource_id in report.ignored:
        print_info(f"{resource_id} carries the tag burstwatch:ignore=true, so nothing is decided about it")
    collector = services.build_collector(report.now_s)
    explanation = _explain(context, report, collector)
    report = replace(report, failures=[*report.failures, *collector.failures])
    if options.json:
        print_output(to_json(_document(explanation, report)))
    elif explanation is not None:
        print_output(render_storage(explanation, verbose=options.verbose))
    print_holds(report.holds, report.now_s, {resource_id})
    print_report_failures(report)
    has_entries = explanation is not None and any(bucket.entries for bucket in explanation.buckets)
    if has_entries and not options.json:
        print_next([shlex.join(["burstctl", "history", resource_id, *options.repeated])])
    is_unread = explanation is not None and explanation.is_unread
    return ExitCode.FAILED if is_unread or report.has_failed or report.missing else ExitCode.OK


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
        buckets=_explained_buckets(context, decisions, report.now_s),
        now_s=report.now_s,
        region=context.services.location.region,
        evidence=evidence,
        holds=[hold for hold in report.holds if hold.applies_to(resource.resource_id, report.now_s)],
    )


def _explained_buckets(
    context: CommandContext, decisions: Sequence[Decision], now_s: float
) -> list[ExplainedBucket]:
    """The decisions with what the ledger has of each bucket."""
    ledger = context.services.ledger
    states = ledger.states_of({decision.assessment.subject for decision in decisions})
    return [
        ExplainedBucket(
            decision=decision,
            policy=context.services.policy,
            now_s=now_s,
            state=states.get(decision.assessment.subject),
            is_unread=decision.assessment.subject in states.unreadable,
            entries=ledger.entries(decision.assessment.subject)[-MAX_ENTRIES:],
        )
        for decision in decisions
    ]


def _document(
    explanation: StorageExplanation | None, report: PassReport
) -> "ExplainedStorageDocument | NotExplainedDocument":
    skipped: SkippedDocument = {
        "ignored": list(report.ignored),
        "missing": list(report.missing),
        "failures": list(report.failures),
    }
    if explanation is None:
        return not_explained(skipped)
    return {**to_document(explanation), **skipped}

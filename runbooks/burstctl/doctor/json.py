"""What a doctor found, for programs."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from burstctl.doctor.context import DoctorContext
from burstctl.doctor.finding import CheckFailure, CheckStatus, Finding, worst_verdict
from burstctl.doctor.runner import CheckResult
from burstwatch.core.text import format_instant

if TYPE_CHECKING:
    from documents.doctor import DoctorDocument, FindingDocument

SCHEMA: Final = "burstwatch.doctor/v1"


def to_document(
    context: DoctorContext, results: Sequence[CheckResult], *, generated_at_s: float
) -> "DoctorDocument":
    """As JSON; keys never disappear, and what is not known is null."""
    caller, settings = context.caller.get_if_ready(), context.settings.get_if_ready()
    session, stacks = context.session.get_if_ready(), context.stacks.get_if_ready()
    findings = all_findings(results)
    verdicts = Counter(finding.verdict for finding in findings)
    troubles = Counter(finding.trouble for finding in findings)
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(generated_at_s),
        "region": session.region_name if session else None,
        "account": caller.identity.account if caller else None,
        "arn": caller.identity.arn if caller else None,
        "stack": stacks.active.name if stacks and stacks.active else None,
        "ledger": str(settings.ledger) if settings else None,
        "verdict": worst_verdict(findings),
        "totals": {
            "broken": verdicts[CheckStatus.BROKEN],
            "warning": verdicts[CheckStatus.WARNING],
            "ok": verdicts[CheckStatus.OK],
            "skipped": verdicts[CheckStatus.SKIPPED],
            "failed": troubles[CheckFailure.FAILED],
            "misused": troubles[CheckFailure.MISUSED],
        },
        "findings": to_finding_documents(results),
        "cost": {"metrics_requested": context.calls.metrics_requested},
        "api_calls": context.calls.calls,
    }


def all_findings(results: Sequence[CheckResult]) -> list[Finding]:
    """Of all checks, in their order."""
    return [finding for result in results for finding in result.findings]


def to_finding_documents(results: Sequence[CheckResult]) -> "list[FindingDocument]":
    """The findings of all checks, in their order."""
    return [_finding_document(result, finding) for result in results for finding in result.findings]


def _finding_document(result: CheckResult, finding: Finding) -> "FindingDocument":
    return {
        "check": result.check.name,
        "group": result.check.group,
        "about": finding.subject or None,
        "verdict": finding.verdict,
        "seen": finding.summary,
        "fix": finding.fix or None,
        "commands": list(finding.commands),
        "page": finding.page,
        "trouble": finding.trouble,
    }

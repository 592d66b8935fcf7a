"""What a doctor found, for programs."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from burstctl.doctor.context import Patient
from burstctl.doctor.finding import Finding, Trouble, Verdict, worst_of
from burstctl.doctor.runner import Checked
from burstwatch.core.text import format_instant

SCHEMA: Final = "burstwatch.doctor/v1"


def to_document(patient: Patient, checked: Sequence[Checked], *, at_s: float) -> dict[str, Any]:
    """As JSON; keys never disappear, and what is not known is null."""
    caller, settings = patient.caller.peek(), patient.settings.peek()
    session, stacks = patient.session.peek(), patient.stacks.peek()
    findings = all_findings(checked)
    verdicts = Counter(finding.verdict for finding in findings)
    troubles = Counter(finding.trouble for finding in findings)
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(at_s),
        "region": session.region_name if session else None,
        "account": caller.identity.account if caller else None,
        "arn": caller.identity.arn if caller else None,
        "stack": stacks.standing.name if stacks and stacks.standing else None,
        "ledger": str(settings.ledger) if settings else None,
        "verdict": str(worst_of(findings)),
        "totals": {
            **{str(verdict): verdicts[verdict] for verdict in Verdict},
            **{str(trouble): troubles[trouble] for trouble in Trouble},
        },
        "findings": [_finding(each, finding) for each in checked for finding in each.findings],
        "cost": {"metrics_requested": patient.calls.metrics_requested},
        "api_calls": patient.calls.calls,
    }


def all_findings(checked: Sequence[Checked]) -> list[Finding]:
    """Of all checks, in their order."""
    return [finding for each in checked for finding in each.findings]


def _finding(checked: Checked, finding: Finding) -> dict[str, Any]:
    return {
        "check": checked.check.name,
        "group": str(checked.check.group),
        "about": finding.about or None,
        "verdict": str(finding.verdict),
        "seen": finding.seen,
        "fix": finding.fix or None,
        "commands": list(finding.commands),
        "page": finding.page,
        "trouble": finding.trouble and str(finding.trouble),
    }

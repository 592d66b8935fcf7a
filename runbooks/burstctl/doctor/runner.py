"""All checks at once: one that fails or hangs hides no other."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Final

from burstctl.doctor.check_stack import NO_STACK_MESSAGE
from burstctl.doctor.context import DoctorContext
from burstctl.doctor.finding import CheckTimeoutError, Finding, LookupFailedError, from_error, skipped
from burstctl.doctor.registry import CHECKS, CREDENTIALS_CHECK, Check
from burstwatch.core.text import format_duration

_NO_FINDINGS: Final = "there is nothing to check"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """A check, and what it found."""

    check: Check
    findings: Sequence[Finding]


def run_checks(context: DoctorContext, checks: Sequence[Check] = CHECKS) -> list[CheckResult]:
    """Run all checks, the credentials first; a check that exceeds its timeout is abandoned."""
    first = [check for check in checks if check is CREDENTIALS_CHECK]
    remaining_checks = [check for check in checks if check is not CREDENTIALS_CHECK]
    findings = {**_run_in_threads(context, first), **_run_in_threads(context, remaining_checks)}
    return [CheckResult(check=check, findings=findings[check.name]) for check in checks]


def _run_in_threads(context: DoctorContext, checks: Sequence[Check]) -> dict[str, Sequence[Finding]]:
    findings: dict[str, Sequence[Finding]] = {}

    def work(check: Check) -> None:
        findings[check.name] = run_check(check, context)

    started_at = time.monotonic()
    threads = [Thread(target=work, args=(check,), name=check.name, daemon=True) for check in checks]
    for thread in threads:
        thread.start()
    for check, thread in zip(checks, threads, strict=True):
        thread.join(max(0.0, started_at + check.timeout_s - time.monotonic()))
    return {check.name: findings.get(check.name) or _timeout_findings(check) for check in checks}


def run_check(check: Check, context: DoctorContext) -> Sequence[Finding]:
    """The findings of one check; an exception becomes a finding after those that were made before it."""
    findings: list[Finding] = []
    try:
        if check.needs_stack and context.stack is None:
            return (skipped(NO_STACK_MESSAGE),)
        findings.extend(check.run(context))
    except LookupFailedError as error:
        findings.append(_lookup_finding(check, error))
    except Exception as error:  # noqa: BLE001 - the others go on, and it is told as what it is
        findings.append(from_error(error))
    return findings or (skipped(_NO_FINDINGS),)


def _lookup_finding(check: Check, error: LookupFailedError) -> Finding:
    """A failed lookup is reported once, by the check that owns it."""
    if error.owner == check.name:
        return from_error(error.error)
    return skipped(f"unknown; see {error.owner}")


def _timeout_findings(check: Check) -> Sequence[Finding]:
    return (from_error(CheckTimeoutError(f"it did not finish within {format_duration(check.timeout_s)}")),)

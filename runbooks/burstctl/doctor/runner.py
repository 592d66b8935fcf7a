"""All checks at once: one that fails or hangs hides no other."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Thread
from typing import Final

from burstctl.doctor.check_stack import NO_STACK
from burstctl.doctor.context import Patient
from burstctl.doctor.finding import Finding, SlowError, UnknownError, of_error, skipped
from burstctl.doctor.registry import CHECKS, FIRST, Check
from burstwatch.core.text import format_duration

_NOTHING: Final = "there is nothing to look at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A check, and what it found."""

    check: Check
    findings: Sequence[Finding]


def run_checks(patient: Patient, checks: Sequence[Check] = CHECKS) -> list[Checked]:
    """Run them all, the credentials first; what has not ended in its time is left behind."""
    first = [check for check in checks if check is FIRST]
    rest = [check for check in checks if check is not FIRST]
    found = {**_run(patient, first), **_run(patient, rest)}
    return [Checked(check=check, findings=found[check.name]) for check in checks]


def _run(patient: Patient, checks: Sequence[Check]) -> dict[str, Sequence[Finding]]:
    found: dict[str, Sequence[Finding]] = {}

    def work(check: Check) -> None:
        found[check.name] = examine(check, patient)

    began = time.monotonic()
    threads = [Thread(target=work, args=(check,), name=check.name, daemon=True) for check in checks]
    for thread in threads:
        thread.start()
    for check, thread in zip(checks, threads, strict=True):
        thread.join(max(0.0, began + check.within_s - time.monotonic()))
    return {check.name: found.get(check.name) or _given_up(check) for check in checks}


def examine(check: Check, patient: Patient) -> Sequence[Finding]:
    """What one check finds; whatever ends it early is a finding, beside those it had made."""
    found: list[Finding] = []
    try:
        if check.of_stack and patient.stack is None:
            return (skipped(NO_STACK),)
        found.extend(check.examine(patient))
    except UnknownError as error:
        found.append(_told(check, error))
    except Exception as error:  # noqa: BLE001 - the others go on, and it is told as what it is
        found.append(of_error(error))
    return found or (skipped(_NOTHING),)


def _told(check: Check, error: UnknownError) -> Finding:
    """What could not be found out is told once, by the check that it belongs to."""
    if error.owner == check.name:
        return of_error(error.error)
    return skipped(f"not known, because of what is said at {error.owner}")


def _given_up(check: Check) -> Sequence[Finding]:
    return (of_error(SlowError(f"it did not end within {format_duration(check.within_s)}")),)

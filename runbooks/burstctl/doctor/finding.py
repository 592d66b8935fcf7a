"""What a check found: a verdict, what was observed, and how to fix it."""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from functools import partial
from typing import Final

from burstctl.cli.exit_codes import ExitCode
from burstwatch.adapters.aws.errors import AWS_ERRORS, AwsError, AwsFailure, FailureKind, to_aws_failure
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.policy.policy import PolicyError
from burstwatch.wiring.settings import SettingsError


class CheckStatus(StrEnum):
    """How it is, the worst first; ``skipped`` is neither good nor bad: it is not known, or does not apply."""

    BROKEN = "broken"
    WARNING = "warning"
    OK = "ok"
    SKIPPED = "skipped"


class CheckFailure(StrEnum):
    """Why a check could not be completed, if that determines the exit code."""

    FAILED = "failed"
    MISUSED = "misused"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked, and how to fix it.

    ``subject`` identifies it within its check: a permission, a quota, a queue. Findings that differ only in
    it are shown together. ``commands`` can be pasted; ``page`` has more information.
    """

    verdict: CheckStatus
    summary: str
    _: KW_ONLY
    subject: str = ""
    fix: str = ""
    commands: tuple[str, ...] = ()
    page: str | None = None
    trouble: CheckFailure | None = None


class LookupFailedError(BurstwatchError):
    """What several checks need could not be found out; its ``owner`` says why, the others are skipped."""

    def __init__(self, owner: str, error: Exception) -> None:
        super().__init__(str(error))
        self.owner = owner
        self.error = error


class CheckTimeoutError(BurstwatchError):
    """There was no response in time."""


ok: Final = partial(Finding, CheckStatus.OK)
"""All is well; a ``fix`` here says why there is nothing to do."""

skipped: Final = partial(Finding, CheckStatus.SKIPPED)
"""It is not known, or does not apply, and why."""

warning: Final = partial(Finding, CheckStatus.WARNING)
"""It works, but the operator should know about it."""

broken: Final = partial(Finding, CheckStatus.BROKEN)
"""It does not work."""


def from_error(error: Exception) -> Finding:
    """The finding for an exception that ended a check; after a denied call, the result is unknown."""
    match error:
        case AwsError():
            return from_failure(error.failure)
        case _ if isinstance(error, AWS_ERRORS):
            return from_failure(to_aws_failure(error))
        case PolicyError() | SettingsError():
            return _from_problem(error, "correct it as described in the message", CheckFailure.MISUSED)
        case CheckTimeoutError():
            return broken(
                str(error),
                fix="run it again; if it lasts, check the network, any proxy and AWS_ENDPOINT_URL",
                trouble=CheckFailure.FAILED,
            )
        case BurstwatchError():
            return _from_problem(error, "follow the instructions in the message", CheckFailure.FAILED)
        case _:
            message = f"unexpected {type(error).__name__}: {error}"
            return broken(
                message, fix="this is a bug in burstctl: please report it", trouble=CheckFailure.FAILED
            )


def _from_problem(error: BurstwatchError, default_fix: str, trouble: CheckFailure) -> Finding:
    """The cause and the fix apart, if the message has both."""
    problem = error.problem
    return broken(problem.cause, fix=problem.fix or default_fix, trouble=trouble)


def from_failure(failure: AwsFailure) -> Finding:
    """The finding for a failed call of a check that only reads."""
    if failure.kind is FailureKind.REFUSED:
        return skipped(f"not known: {failure.message}", subject=failure.action, fix=failure.next_step)
    return broken(
        f"{failure.message} ({failure.code})",
        subject=failure.action,
        fix=failure.next_step,
        trouble=CheckFailure.FAILED,
    )


_VERDICT_ORDER: Final = tuple(CheckStatus)


def worst_verdict(findings: Iterable[Finding]) -> CheckStatus:
    """The verdict on everything."""
    return min((finding.verdict for finding in findings), key=_VERDICT_ORDER.index, default=CheckStatus.OK)


def exit_code_of_findings(findings: Sequence[Finding], *, exit_zero: bool) -> ExitCode:
    """The exit code; ``exit_zero`` ignores warnings and faults, but never a check that could not run."""
    troubles = {finding.trouble for finding in findings}
    if CheckFailure.MISUSED in troubles:
        return ExitCode.USAGE
    if CheckFailure.FAILED in troubles:
        return ExitCode.FAILED
    needs_attention = worst_verdict(findings) in (CheckStatus.BROKEN, CheckStatus.WARNING)
    return ExitCode.ATTENTION if needs_attention and not exit_zero else ExitCode.OK

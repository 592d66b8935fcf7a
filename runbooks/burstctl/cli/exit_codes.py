"""Exit codes: of 2, 1, 4, 3, 0 the first that applies."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from burstwatch.core.errors import BurstwatchError
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.policy.policy import PolicyError
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.wiring.settings import SettingsError


class ExitCode(IntEnum):
    """The exit codes of ``burstctl``."""

    OK = 0
    FAILED = 1
    USAGE = 2
    ATTENTION = 3
    REFUSED = 4
    INTERRUPTED = 130


EXIT_CODE_MEANINGS: Final = {
    ExitCode.OK: "ok",
    ExitCode.FAILED: "failed, wholly or partly: a call to AWS failed, or a volume could not be read",
    ExitCode.USAGE: "usage error: arguments, policy, configuration",
    ExitCode.ATTENTION: (
        "attention: a volume at warning or worse was not flipped in this run, or lacks its data"
    ),
    ExitCode.REFUSED: "refused: a guard stopped a requested action",
    ExitCode.INTERRUPTED: "interrupted or declined",
}
_BY_PRECEDENCE: Final = (
    ExitCode.INTERRUPTED,
    ExitCode.USAGE,
    ExitCode.FAILED,
    ExitCode.REFUSED,
    ExitCode.ATTENTION,
    ExitCode.OK,
)
_SUCCESSFUL_OR_REFUSED: Final = frozenset(
    {OutcomeStatus.NONE, OutcomeStatus.FLIPPED, OutcomeStatus.FLIPPED_BACK, OutcomeStatus.REFUSED}
)


def exit_code_of(report: PassReport, *, exit_zero: bool) -> ExitCode:
    """The exit code of one pass; ``exit_zero`` excuses refusals and attention, never a failure."""
    if report.has_failed or report.missing:
        return ExitCode.FAILED
    if exit_zero:
        return ExitCode.OK
    if report.was_refused:
        return ExitCode.REFUSED
    return ExitCode.ATTENTION if report.needs_attention else ExitCode.OK


def exit_code_of_outcomes(outcomes: Iterable[Outcome], *, has_failed: bool, exit_zero: bool) -> ExitCode:
    """The exit code of an operator's modifications; what is not known to be done counts as failed."""
    statuses = {outcome.status for outcome in outcomes}
    if has_failed or not statuses <= _SUCCESSFUL_OR_REFUSED:
        return ExitCode.FAILED
    return ExitCode.REFUSED if OutcomeStatus.REFUSED in statuses and not exit_zero else ExitCode.OK


def exit_code_of_error(error: BurstwatchError) -> ExitCode:
    """Usage, if the command line, the policy, the configuration or the credentials are wrong; else failed."""
    from burstwatch.adapters.aws.errors import AwsError, FailureKind  # noqa: PLC0415 - brings botocore in

    is_setup = isinstance(error, SettingsError | PolicyError) or (
        isinstance(error, AwsError)
        and error.failure.kind in (FailureKind.NO_CREDENTIALS, FailureKind.MISCONFIGURED)
    )
    return ExitCode.USAGE if is_setup else ExitCode.FAILED


def worst_exit_code(exit_codes: Iterable[ExitCode]) -> ExitCode:
    """The exit code of several things done: the first that applies to any."""
    return min(exit_codes, key=_BY_PRECEDENCE.index, default=ExitCode.OK)

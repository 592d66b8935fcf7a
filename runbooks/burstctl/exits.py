"""Exit codes: of 2, 1, 4, 3, 0 the first that applies."""

from enum import IntEnum

from burstwatch.core.report import Report


class Exit(IntEnum):
    """What a process that runs ``burstctl`` can tell from its exit code."""

    FINE = 0
    FAILED = 1
    MISUSED = 2
    ATTENTION = 3
    REFUSED = 4
    INTERRUPTED = 130


def exit_of(report: Report, *, exit_zero: bool) -> Exit:
    """The exit code of one pass; ``exit_zero`` excuses attention, never a failure."""
    if report.has_failed or report.missing:
        return Exit.FAILED
    if report.needs_attention and not exit_zero:
        return Exit.ATTENTION
    return Exit.FINE

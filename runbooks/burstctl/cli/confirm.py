"""Asking a person before anything is done."""

import sys

from burstctl.cli.output import print_info
from burstwatch.wiring.settings import SettingsError


def require_terminal_or_yes(*, assumes_yes: bool, preview_option: str = "--dry-run") -> None:
    """Check before any work that there is a person to ask; ``preview_option`` only shows the plan.

    Raises:
        SettingsError: there is no terminal, and no --yes.
    """
    if assumes_yes or _has_terminal():
        return
    raise SettingsError(
        "there is no terminal to ask on", fix=f"add --yes to do it, or {preview_option} to see what it would do"
    )


def confirm(question: str, *, assumes_yes: bool) -> bool:
    """Whether a person says yes; anything else is no, and so is silence."""
    if assumes_yes:
        return True
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print_info("nothing was done")
    return False


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

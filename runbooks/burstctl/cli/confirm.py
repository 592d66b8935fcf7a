"""Asking a person before anything is done."""

import sys

from burstctl.cli.output import say
from burstwatch.wiring.settings import SettingsError


def require_somebody_to_ask(*, assumes_yes: bool, to_only_see: str = "--dry-run") -> None:
    """Find out before any work whether there is somebody to ask; ``to_only_see`` shows what would be done.

    Raises:
        SettingsError: there is no terminal, and no --yes.
    """
    if assumes_yes or _has_terminal():
        return
    raise SettingsError(
        f"there is no terminal to ask on: add --yes to do it, or {to_only_see} to see what it would do"
    )


def is_confirmed(question: str, *, assumes_yes: bool) -> bool:
    """Whether a person says yes; anything else is no, and so is silence."""
    if assumes_yes:
        return True
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    say("nothing was done")
    return False


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

"""Asking a person before anything is done."""

import sys
from collections.abc import Callable
from typing import TypeVar

import click

from burstctl.cli.output import print_info, wrap_to_terminal
from burstwatch.wiring.settings import SettingsError

_Parsed = TypeVar("_Parsed")


def is_interactive(*, assumes_yes: bool) -> bool:
    """Whether there is a person who may be asked."""
    return not assumes_yes and _has_terminal()


def request_answer(question: str, parse: Callable[[str], _Parsed], *, default: str | None = None) -> _Parsed:
    """The answer of a person, asked again while ``parse`` raises ValueError; no answer is the default.

    Raises:
        click.Abort: the input ends.
    """
    prompt = wrap_to_terminal(f"{question}{f' [{default}]' if default else ''}:")
    while True:
        sys.stderr.write(f"{prompt} ")
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise click.Abort
        try:
            return parse(line.strip() or default or "")
        except ValueError as error:
            print_info(str(error))


def require_terminal_or_yes(*, assumes_yes: bool, preview_option: str = "--dry-run") -> None:
    """Check before any work that there is a person to ask; ``preview_option`` only shows the plan.

    Raises:
        SettingsError: there is no terminal, and no --yes.
    """
    if assumes_yes or _has_terminal():
        return
    raise SettingsError(
        "no terminal to ask on",
        fix=f"add --yes to do it, or {preview_option} to see what it would do",
    )


def confirm(question: str, *, assumes_yes: bool) -> bool:
    """Whether a person says yes; anything else is no, and so is silence."""
    if assumes_yes:
        return True
    sys.stderr.write(f"{wrap_to_terminal(f'{question} [y/N]')} ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print_info("nothing was done")
    return False


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

"""What the keys about the selected resource do: the commands of burstctl, on the ordinary screen."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import BytesIO, TextIOWrapper
from typing import Any

import click

from burstctl.cli.confirm import confirm, request_answer
from burstctl.cli.options import ORDER_DURATION, Options, ReasonText
from burstctl.cli.output import describe_error, print_error, print_info
from burstctl.cli.pager import show_in_pager
from burstctl.context.context import Notes, open_operator
from burstctl.holds.multi_region import check_can_hold
from burstctl.main import main
from burstctl.top.view import Action
from burstwatch.core.errors import BurstwatchError


def run_for_selected(action: Action, resource_id: str, options: Options) -> None:
    """Run the command, and wait for Enter; Ctrl-C ends the command and returns to the list.

    It gets the ``options`` with which it uses the same account, policy and ledger.
    """
    try:
        if action is Action.HOLD:
            arguments = _request_hold(resource_id, options)
        else:
            arguments = _COMMANDS[action](resource_id)
        if arguments:
            command = [*arguments, *options.repeated]
            print_info(f"$ {shlex.join(['burstctl', *command])}", style="bold")
            if action is Action.HOLD:
                main(command)
            else:
                _show_output_of(command)
            print_info("")
        request_answer("Press Enter to return to the list", str)
    except (click.Abort, KeyboardInterrupt):
        print_info("")


class _TerminalBuffer(TextIOWrapper):
    """What a command prints for the terminal, kept until it has ended."""

    def __init__(self) -> None:
        super().__init__(BytesIO(), encoding=sys.stdout.encoding)

    def isatty(self) -> bool:
        return True


def _show_output_of(command: Sequence[str]) -> None:
    """Run the command, and show all that it prints, which may be longer than the screen."""
    buffer = _TerminalBuffer()
    with redirect_stdout(buffer), redirect_stderr(buffer):
        main(command)
    buffer.seek(0)
    show_in_pager(buffer.read().rstrip("\n"))


_COMMANDS = {
    Action.EXPLAIN: lambda resource_id: ["explain", resource_id],
    Action.PLAN: lambda resource_id: ["flip", resource_id, "--dry-run"],
}


def _request_hold(resource_id: str, options: Options) -> list[str]:
    """The command of a hold, after three answers; empty without a yes, or if no hold is possible."""
    try:
        with open_operator(options, notes=Notes(), needs_policy=False) as context:
            check_can_hold(context)
    except BurstwatchError as error:
        print_error(describe_error(error))
        return []
    print_info(f"hold {resource_id}: nothing is modified, or for what is not a volume, no alert is sent")
    lasts = request_answer("For how long, such as 6h", partial(_check, ORDER_DURATION))
    reason = request_answer("Why; it shows in every output", partial(_check, ReasonText()))
    if not confirm(f"Hold {resource_id} for {lasts}?", assumes_yes=False):
        return []
    return ["hold", resource_id, "--for", lasts, "--reason", reason]


def _check(parameter_type: click.ParamType[Any], text: str) -> str:
    """The text, if the option takes it.

    Raises:
        ValueError: it does not.
    """
    try:
        parameter_type.convert(text, None, None)
    except click.BadParameter as error:
        raise ValueError(error.message) from error
    return text

"""The completion scripts for shells, and the completions themselves.

Each script hands over the line up to the cursor, and takes a line for each thing on offer: kind, value, help.

click finds what to offer. Its own scripts are not enough: after ``--option=`` they offer nothing in bash and
fish. In zsh they replace ``--to=g`` by ``gp3``, and in fish they show neither the help nor our order.
"""

import os
from importlib.resources import files
from typing import Any, Final

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, split_arg_string

from burstwatch.core.text import sanitise

_LINE_ENV: Final = "BURSTCTL_LINE"
_MAX_HELP_LENGTH: Final = 200  # a shell shows one line for each completion

SHELLS: Final = ("bash", "zsh", "fish")
"""The first shows no help, the others do."""


def completion_script(shell: str) -> str:
    """The script that a shell of this name takes; the wheel also puts it where that shell looks."""
    return files("burstctl.cli").joinpath("completion", f"burstctl.{shell}").read_text("utf-8")


class _Completion(ShellComplete):
    """The completions for any shell. After ``--option=``, a value has no prefix: the script adds it."""

    name = "burstctl"
    source_template = "# burstctl completion bash, zsh or fish prints the script for that shell\n"

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get(_LINE_ENV, "")
        arguments = split_arg_string(line)
        incomplete = arguments.pop() if arguments and not line[-1].isspace() else ""
        return arguments[1:], incomplete

    def format_completion(self, item: CompletionItem[Any]) -> str:
        return "\t".join([item.type, str(item.value), sanitise(item.help or "", _MAX_HELP_LENGTH)])


def register() -> None:
    """Have click answer so whichever shell asks."""
    for shell in SHELLS:
        add_completion_class(_Completion, shell)

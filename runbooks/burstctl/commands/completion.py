"""``burstctl completion``: what makes a shell complete its commands and options."""

from typing import Final

import click
from click.shell_completion import get_completion_class

from burstctl.command import Command
from burstctl.exits import Exit
from burstctl.output import show

SHELLS: Final = ("bash", "zsh", "fish")
NAME: Final = "burstctl"
INSTRUCTION: Final = "_BURSTCTL_COMPLETE"
"""By this variable the shell asks; click looks for it before anything else."""


@click.command(
    cls=Command,
    examples=(
        ("burstctl completion bash > ~/.burstctl-completion", "then, in ~/.bashrc: . ~/.burstctl-completion"),
        ("burstctl completion zsh > ~/.zfunc/_burstctl", "where ~/.zfunc is in fpath, before compinit"),
        ("burstctl completion fish > ~/.config/fish/completions/burstctl.fish", "fish finds it by itself"),
    ),
    page="runbooks/README.md",
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> Exit:
    """Print what makes SHELL complete commands, options and their words.

    AWS is not asked while you type: volumes are not completed.
    """
    found = get_completion_class(shell)
    assert found is not None
    show(found(click.get_current_context().find_root().command, {}, NAME, INSTRUCTION).source().strip("\n"))
    return Exit.FINE

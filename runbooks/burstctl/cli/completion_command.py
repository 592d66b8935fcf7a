"""``burstctl completion``: what makes a shell complete its commands and options."""

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import Command
from burstctl.cli.output import print_output
from burstctl.cli.shell_completion import SHELLS, completion_script


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
def completion(shell: str) -> ExitCode:
    """Print what makes SHELL complete commands, options and their words.

    AWS is not asked while you type: volumes are not completed. A bash must be 4.4 or newer.
    """
    print_output(completion_script(shell).rstrip("\n"))
    return ExitCode.OK

"""``burstctl``: the operator's command of burstwatch."""

import os
from collections.abc import Sequence
from errno import EDQUOT, ENOSPC
from importlib import import_module
from typing import Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from burstctl.cli.exit_codes import ExitCode, exit_code_of_error
from burstctl.cli.options import Options, common_options, reject_empty_values, write_examples
from burstctl.cli.output import (
    abandon_stdout,
    describe_error,
    prepare_streams,
    print_error,
    print_internal_error,
    print_interruption,
    print_output,
)
from burstctl.cli.usage_errors import describe_usage_error
from burstwatch.core.errors import BurstwatchError

CONTEXT_SETTINGS: Final = {"help_option_names": ["-h", "--help"]}
EXAMPLES: Final = (
    ("burstctl assess", "which volumes run out of credits, and when"),
    ("burstctl explain ci-7", "the numbers behind the level of one volume, by its name or ID"),
    ("burstctl watch --act", "the watchdog, from any shell with AWS credentials"),
    ("burstctl flip vol-0123456789abcdef0", "off burst credits by hand; shows the plan and asks"),
    ('burstctl hold --all --for 6h --reason "INC-42"', "the kill switch: nothing is modified"),
)
RUNBOOK_PAGE: Final = "runbooks/README.md"
COMPLETION_ENV: Final = "_BURSTCTL_COMPLETE"
"""A shell sets this to ask for completions; click checks it before anything else."""


class _CommandEntry(NamedTuple):
    summary: str
    module: str


COMMANDS: Final = {
    "assess": _CommandEntry(
        "which volumes run out of credits, and when; read-only", "burstctl.assess.command"
    ),
    "top": _CommandEntry("the fleet as a live view: explain, plan and hold by key", "burstctl.top.command"),
    "explain": _CommandEntry("every number behind a decision", "burstctl.explain.command"),
    "which": _CommandEntry(
        "the limit that holds storage back now, and the next one", "burstctl.which.command"
    ),
    "watch": _CommandEntry(
        "the watchdog: look, decide, alert; with --act, flip and return", "burstctl.watch.command"
    ),
    "advise": _CommandEntry("recommended permanent type and its cost", "burstctl.advise.command"),
    "simulate": _CommandEntry(
        "an instance's I/O on the EBS credits of another type", "burstctl.simulate.command"
    ),
    "backtest": _CommandEntry("what it would have done: before auto is on", "burstctl.backtest.command"),
    "report": _CommandEntry("the fleet on one page of HTML: look, send, print", "burstctl.report.command"),
    "flip": _CommandEntry("move volumes off burst credits: plan, ask, modify", "burstctl.flip.command"),
    "flip-back": _CommandEntry("return flipped volumes to their former type", "burstctl.flip.command"),
    "plot": _CommandEntry(
        "the last hours of a resource as a picture, and its forecast", "burstctl.plot.command"
    ),
    "history": _CommandEntry(
        "audit trail of a volume: what, who, why, what it cost", "burstctl.history.command"
    ),
    "hold": _CommandEntry("modify nothing for a while: one volume, or everything", "burstctl.holds.hold"),
    "release": _CommandEntry("end a hold, or trust a volume again", "burstctl.holds.release"),
    "window": _CommandEntry("the critical periods: list, start and stop them", "burstctl.windows.command"),
    "init": _CommandEntry("ask what to deploy; write its stage file and policy", "burstctl.init.command"),
    "alert": _CommandEntry("send a test message through every alert channel", "burstctl.alert.command"),
    "doctor": _CommandEntry("check the setup and suggest fixes", "burstctl.doctor.command"),
    "runbook": _CommandEntry("what to do about an alert: its page, here", "burstctl.runbook.command"),
    "experiment": _CommandEntry(
        "measure the undocumented balance after a return", "burstctl.experiment.command"
    ),
    "aws-check": _CommandEntry(
        "measure AWS in your account, for less than a dollar", "burstctl.aws_check.command"
    ),
    "policy": _CommandEntry("check a policy, show the one in force, push one", "burstctl.policy.command"),
    "completion": _CommandEntry("completion for bash, zsh and fish", "burstctl.cli.completion_command"),
}
"""A command is a click command of this name in that module, imported only when it is called."""


class _LazyGroup(click.Group):
    """The commands, each imported when it is called and not to list it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        reject_empty_values(self, ctx, args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; ``help COMMAND`` is ``COMMAND --help``."""
        return super().resolve_command(ctx, [*args[1:], "--help"] if args[0] == "help" else args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name].module), cmd_name.replace("-", "_"))
        return command if isinstance(command, click.Command) else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete the names of the commands with their summaries, without importing the commands."""
        items = [
            CompletionItem(name, help=entry.summary)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])
        with formatter.section("Exit codes"):
            formatter.write_text(
                "0 ok · 1 failed, wholly or partly · 2 usage error · 3 something needs attention"
                " · 4 refused by a guard · 130 interrupted"
            )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        write_examples(formatter, EXAMPLES, RUNBOOK_PAGE)


@click.group(cls=_LazyGroup, context_settings=CONTEXT_SETTINGS, invoke_without_command=True)
@click.version_option(None, "--version", "-V", package_name="burstwatch", prog_name="burstctl")
@common_options
@click.pass_context
def burstctl(context: click.Context, options: Options) -> None:  # noqa: ARG001 - the commands take them
    """Predict when volumes run out of burst credits, and move them to provisioned IOPS in time.

    Endpoints, Region and credentials are found the way every AWS tool finds them.
    """
    if context.invoked_subcommand is None:
        print_output(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code; any failure becomes one message on stderr."""
    try:
        if COMPLETION_ENV in os.environ:
            import_module("burstctl.cli.shell_completion").register()
        prepare_streams()
        code = burstctl.main(arguments, prog_name="burstctl", standalone_mode=False)
        return int(code or ExitCode.OK)
    except click.ClickException as error:
        print_error(describe_usage_error(error))
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print_interruption("interrupted; unfinished work was not recorded, so you can run the command again")
        return ExitCode.INTERRUPTED
    except BurstwatchError as error:
        print_error(describe_error(error))
        return exit_code_of_error(error)
    except Exception as error:  # noqa: BLE001 - the last line of defence, and it hides nothing
        # click itself writes --help and --version
        if isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT):
            print_error(abandon_stdout(error).problem)
        else:
            print_internal_error(error)
        return ExitCode.FAILED

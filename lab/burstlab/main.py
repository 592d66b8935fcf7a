"""``burstlab``: the simulated gp2 fleet, from the command line."""

from importlib import import_module
from typing import Final, NamedTuple

import click

HELP: Final = {"help_option_names": ["-h", "--help"]}


class _Command(NamedTuple):
    summary: str
    module: str


COMMANDS: Final = {
    "demo": _Command(
        "six hours of a dozen volumes and the watchdog, in a minute or two", "burstlab.demo.command"
    ),
    "serve": _Command("answer AWS clients for a simulated fleet, until Ctrl-C", "burstlab.serve.command"),
    "slack": _Command("receive alerts in place of Slack, and print them", "burstlab.serve.slack_command"),
    "disk": _Command("a real throttled disk with a gp2 bucket; needs root", "burstlab.disk.command"),
    "incident": _Command(
        "the incident on real disks, with and without the watchdog; needs root", "burstlab.incident.command"
    ),
    "probe-scenarios": _Command(
        "ddprobe on disks with every kind of fault; needs root", "burstlab.probe_scenarios.command"
    ),
    "score": _Command("compare the watchdog with alternatives on recorded load", "burstlab.score.command"),
    "faults": _Command(
        "injects each applicable fault, one at a time",
        "burstlab.fault_injection.command",
    ),
    "crowd": _Command(
        "several watchdogs on one ledger, with crashes and wrong clocks", "burstlab.concurrency.command"
    ),
    "month": _Command(
        "check for drift, growth and leaks in a month of one-minute ticks", "burstlab.soak.command"
    ),
    "loads": _Command("list the loads that a simulated volume can have", "burstlab.serve.command"),
}


class _LazyGroup(click.Group):
    """Imports a command's module when it is called, not to list it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), cmd_name.replace("-", "_"))
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    context_settings=HELP,
    epilog="Example: burstlab serve --volumes 100 --speed 60",
)
def main() -> None:
    """Simulated gp2 volumes behind a fake AWS endpoint."""

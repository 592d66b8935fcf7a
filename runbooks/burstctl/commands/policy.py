"""``burstctl policy``: check a policy, show the one in force."""

import os
from pathlib import Path
from typing import Final

import click

from burstctl.command import Command, Options, common_options, write_examples
from burstctl.exits import Exit
from burstctl.output import complain, say, show, to_json
from burstctl.policy_in_force import PolicySource, find_policy
from burstwatch.adapters.policy_file import render_policy
from burstwatch.core.policy import PolicyError

PAGE: Final = "runbooks/PolicyRejected.md"
CHECK: Final = ("burstctl policy check policy.yaml", "every fault at once, each with its line")
SHOW: Final = ("burstctl policy show", "the policy in force, every default spelled out")


class _PolicyGroup(click.Group):
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        write_examples(formatter, (CHECK, SHOW), PAGE)


@click.group(cls=_PolicyGroup, invoke_without_command=True)
@click.pass_context
def policy(context: click.Context) -> None:
    """Check a policy, or show the one in force."""
    if context.invoked_subcommand is None:
        show(context.get_help())


@policy.command(cls=Command, examples=(CHECK,), page=PAGE)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@common_options
def check(file: Path | None, options: Options) -> Exit:
    """Report every fault of a policy at once, each with its line.

    Without a FILE: the policy in force. Exits 2 when there is a fault.
    """
    source = find_policy(file or options.policy, os.environ)
    place = str(source.path or source)
    try:
        source.read()
    except PolicyError as error:
        faults = [str(fault) for fault in error.faults]
    else:
        faults = []
    if options.json:
        show(to_json({"schema": "burstwatch.policy-check/v1", "policy": place, "faults": faults}))
    elif faults:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        show("\n".join(faults))
        complain(f"{place} has {count}")
    else:
        show(f"{place}: OK")
    return Exit.MISUSED if faults else Exit.FINE


@policy.command(name="show", cls=Command, examples=(SHOW,), page=PAGE)
@common_options
def show_policy(options: Options) -> Exit:
    """Print the policy in force with every default spelled out, as YAML or JSON."""
    source: PolicySource = find_policy(options.policy, os.environ)
    in_force = source.read()
    say(f"policy: {source}")
    show(to_json(in_force.to_mapping()) if options.json else render_policy(in_force).rstrip())
    return Exit.FINE

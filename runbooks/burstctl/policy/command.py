"""``burstctl policy``: check a policy, show the one in force, put one in force in a deployed stack."""

import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import Command, CommandGroup, Options, common_options
from burstctl.cli.output import print_error, print_info, print_next, print_output, print_warning, to_json
from burstctl.cli.text_layout import lay_out, text_columns
from burstctl.context.active_policy import (
    FILE_ARGUMENT,
    POLICY_OPTION,
    FilePolicySource,
    PolicySource,
    find_file_source,
    is_policy_named,
)
from burstctl.context.stack_policy import StackPolicySource, StackPolicyStore
from burstctl.context.stacks import (
    choose_stack,
    describe_other_stacks,
    find_stacks,
    open_aws_session,
    stack_warnings,
)
from burstctl.policy.push import PushRequest, change_policy
from burstctl.policy.settings import render_policy
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.policy.yaml_file import MAX_BYTES
from burstwatch.core.errors import Problem
from burstwatch.core.parsing import Fault
from burstwatch.core.policy.policy import SCHEMA, Policy, PolicyError
from burstwatch.wiring.bootstrap import AwsSession, build_parameters_client
from burstwatch.wiring.settings import SettingsError

if TYPE_CHECKING:
    from documents.policy import PolicyCheckDocument

PAGE: Final = "runbooks/PolicyRejected.md"
CHECK: Final = ("burstctl policy check policy.yaml", "all faults at once, each with its line")
SHOW: Final = ("burstctl policy show", "the policy in force, every default spelled out")
PUSH: Final = ("burstctl policy push policy.yaml", "in force in the deployed stack, after you agree")
_WITHOUT: Final = ("exit_zero", "ledger", "verbose")
WITHDRAW: Final = ("burstctl policy push --withdraw", "back to the policy it was deployed with")
_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


@click.group(cls=CommandGroup, examples=(CHECK, SHOW, PUSH), page=PAGE)
@click.pass_context
def policy(context: click.Context) -> None:
    """Check a policy, show the one in force, or push one to a deployed stack."""
    if context.invoked_subcommand is None:
        print_output(context.get_help())


def _stack_option(function: _Decorated) -> _Decorated:
    return click.option(
        "--stack", "stack_name", metavar="NAME", help="The deployed stack; required if there are several."
    )(function)


@policy.command(
    cls=Command,
    examples=(CHECK,),
    page=PAGE,
    without=_WITHOUT,
    short_help="every fault of a policy at once, with its line",
)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@_stack_option
@common_options
def check(file: Path | None, options: Options, *, stack_name: str | None) -> ExitCode:
    """Report every fault of a policy at once, each with its line.

    Without a FILE: the policy in force. Exits 2 when there is a fault.
    """
    source = _find_source(file, options, stack_name)
    try:
        source.read()
    except PolicyError as error:
        faults = error.faults
    else:
        faults = ()
    if options.json:
        document: PolicyCheckDocument = {
            "schema": "burstwatch.policy-check/v1",
            "policy": source.location,
            "faults": [str(fault) for fault in faults],
        }
        print_output(to_json(document))
    elif faults:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        print_output("\n".join(map(_with_excerpt, faults)))
        print_error(Problem(f"{source.location} has {count}", "correct the lines above and check again"))
    else:
        print_output(lay_out(f"{source.location}: OK"))
        commands = [["policy", "show"]]
        if file is not None:
            commands = [["backtest", "--policy", str(file)], ["policy", "push", str(file)]]
        context_options = replace(options, policy=None if file else options.policy).repeated
        print_next(shlex.join(["burstctl", *command, *context_options]) for command in commands)
    return ExitCode.USAGE if faults else ExitCode.OK


@policy.command(
    name="show",
    cls=Command,
    examples=(SHOW,),
    page=PAGE,
    without=_WITHOUT,
    short_help="the policy in force, with every default",
)
@_stack_option
@common_options
def show_policy(options: Options, *, stack_name: str | None) -> ExitCode:
    """Print the policy in force with every default spelled out, as YAML or JSON.

    A comment above each setting has its meaning, unit and default, and marks one that was CHANGED. Saved as
    policy.yaml, the YAML is the same policy.
    """
    source = _find_source(None, options, stack_name)
    active_policy = source.read()
    print_info(f"policy: {source}")
    if isinstance(source, StackPolicySource) and source.is_outdated:
        print_info(
            "policy: it was pushed over another deployed one than today's (burstctl policy push --withdraw)"
        )
    document = {"schema": SCHEMA, **active_policy.to_mapping()}
    print_output(to_json(document) if options.json else _render_saveable(active_policy).rstrip())
    if not options.json:
        print_next([options.command("doctor")])
    return ExitCode.OK


@policy.command(
    cls=Command,
    examples=(PUSH, WITHDRAW),
    page=PAGE,
    without=_WITHOUT,
    short_help="put a policy in force in the deployed stack",
)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--withdraw", is_flag=True, help="Withdraw the pushed policy; the deployed one applies again.")
@_stack_option
@click.option("--dry-run", is_flag=True, help="Check it and show what it changes; do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask; required without a terminal.")
@common_options
def push(
    file: Path | None, options: Options, *, withdraw: bool, stack_name: str | None, dry_run: bool, yes: bool
) -> ExitCode:
    """Put a policy in force in the deployed stack: check it, show what changes, ask, write.

    Without a FILE: --policy, BURSTWATCH_POLICY or ./policy.yaml. It stays in force until it is withdrawn or
    another one is pushed, across deployments.

    Exits 2 if it is invalid or does not fit the stack, 1 if AWS rejects it, 130 if you decline.
    """
    if withdraw and file is not None:
        raise click.UsageError(Problem("--withdraw withdraws the pushed policy", "leave out FILE"))
    request = PushRequest(
        source=None if withdraw else _find_file_source(file, options),
        stack=stack_name,
        dry_run=dry_run,
        assumes_yes=yes,
    )
    return change_policy(options, request)


def _render_saveable(policy: Policy) -> str:
    """The policy with comments, unless they would make it longer than a policy may be when it is saved."""
    if len(render_policy(policy).encode()) <= MAX_BYTES:
        return render_policy(policy, columns=text_columns())
    print_info(f"without comments: with them, it would exceed the {MAX_BYTES:,} bytes of a policy")
    return render_policy(policy, has_comments=False)


def _with_excerpt(fault: Fault) -> str:
    """The fault, and below it the line at fault, if an excerpt shows it."""
    return "\n    ".join([str(fault), *fault.excerpt.splitlines()])


def _find_file_source(file: Path | None, options: Options) -> FilePolicySource:
    named_by = POLICY_OPTION if file is None else FILE_ARGUMENT
    return find_file_source(file or options.policy, os.environ, named_by=named_by)


def _find_source(file: Path | None, options: Options, stack_name: str | None) -> PolicySource:
    """The policy meant: the one given, else the one in force here."""
    path, file_source = file or options.policy, _find_file_source(file, options)
    if stack_name is not None and path is not None:
        raise click.UsageError(Problem(f"{path} and --stack are two policies", "leave out one of them"))
    if stack_name is None and is_policy_named(path, os.environ):
        return file_source
    session, calls = _open_session_if_configured(options, is_needed=stack_name is not None), CallCounter()
    if session is None:
        return file_source
    stacks = find_stacks(session, calls)
    if stack_name is None:
        for warning in stack_warnings(stacks, is_ledger_named=True):
            print_warning(warning)
        for line in describe_other_stacks(stacks):
            print_info(line)
    stack = stacks.active if stack_name is None else choose_stack(stacks, stack_name)
    if stack is None:
        return file_source
    return StackPolicySource(StackPolicyStore(build_parameters_client(session, calls), stack))


def _open_session_if_configured(options: Options, *, is_needed: bool) -> AwsSession | None:
    """A session; None if AWS is not configured, because a file can be checked without it."""
    try:
        return open_aws_session(options)
    except SettingsError:
        if is_needed or options.profile or options.region:
            raise
        return None

"""Putting a policy in force in a deployed stack, and taking it back: check, show, ask, write."""

import re
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from burstctl.cli.confirm import confirm, require_terminal_or_yes
from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import Options
from burstctl.cli.output import print_error, print_info, print_next, print_output, to_json
from burstctl.cli.text_layout import text_columns, wrap_hanging
from burstctl.context.active_policy import FilePolicySource
from burstctl.context.operator_identity import name_operator
from burstctl.context.stack_policy import (
    StackPolicy,
    StackPolicyStore,
    read_or_none,
    with_header,
    without_header,
)
from burstctl.context.stacks import choose_stack, find_stacks, open_aws_session
from burstctl.policy.diff import SettingChange, changes_between, format_changes
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.errors import AwsError
from burstwatch.adapters.policy.deployments import Deployment
from burstwatch.adapters.policy.yaml_file import MAX_BYTES, parse_policy
from burstwatch.core.errors import Problem
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import format_instant, sanitise
from burstwatch.wiring.bootstrap import AwsSession, build_parameters_client, get_caller_identity
from burstwatch.wiring.settings import SettingsError

if TYPE_CHECKING:
    from documents.policy import ActivePolicyDocument, PolicyPushDocument, SettingChangeDocument

SCHEMA: Final = "burstwatch.policy-push/v1"
_STANDARD_PARAMETER_BYTES: Final = 4 * 1024  # Source: Systems Manager user guide, "Managing parameter tiers"
_MAX_CHARS: Final = 400  # the name of a parameter, and who pushed it
_BOM: Final = "\ufeff"
_PARAMETER_REFERENCE: Final = re.compile(r"\{\{.*\}\}", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRequest:
    """An operator's request; without a ``source``, the pushed policy is withdrawn."""

    source: FilePolicySource | None
    stack: str | None
    dry_run: bool
    assumes_yes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _PolicyChange:
    """A change of the policy in force, ready to be shown; a ``text`` of None withdraws the pushed one."""

    store: StackPolicyStore
    current: StackPolicy
    region: str
    text: str | None
    source: str
    changes: list[SettingChange] | None
    version: int | None = None
    is_done: bool = False

    @property
    def stack(self) -> Deployment:
        return self.store.stack

    @property
    def is_needed(self) -> bool:
        """Whether it would leave anything other than it is."""
        if self.text is None:
            return self.current.pushed is not None
        active = self.current.current
        return active is None or self.current.is_outdated or active.document != without_header(self.text)


def change_policy(options: Options, request: PushRequest) -> ExitCode:
    """Push a policy, or withdraw the pushed one.

    Raises:
    PolicyError: the policy is invalid; with every fault.
    SettingsError: it does not fit the stack, or no person can confirm it.
    AwsError: Parameter Store cannot be reached, or refused it.
    PolicyConflictError: another person changed the policy since.
    """
    document = "" if request.source is None else _read_document(request.source)
    if not request.dry_run:
        require_terminal_or_yes(assumes_yes=request.assumes_yes)
    session, calls = open_aws_session(options), CallCounter()
    stack = choose_stack(find_stacks(session, calls), request.stack)
    store = StackPolicyStore(build_parameters_client(session, calls), stack)
    current = store.read()
    if request.source is None:
        text, source, policy = None, stack.policy, _deployed_policy(current)
    else:
        text = with_header(document, current.deployed, _identify_operator(session, calls))
        source, policy = request.source.location, _validate_for_stack(text, request.source.location, stack)
    before = read_or_none(current.current) if current.current else None
    change = _PolicyChange(
        store=store,
        current=current,
        region=session.region_name,
        text=text,
        source=source,
        changes=None if before is None else changes_between(before, policy),
    )
    return _apply(options, request, change)


def _read_document(source: FilePolicySource) -> str:
    """The text of a policy that is right, as far as a file can be, without what an earlier push put above."""
    if source.path is None:
        raise SettingsError("there is nothing to push", fix="give a FILE; there is no policy.yaml here")
    source.read()
    document = without_header(source.path.read_bytes().decode().removeprefix(_BOM))
    if _PARAMETER_REFERENCE.search(document):
        raise SettingsError(
            f"{source.path} holds something in {{{{ }}}}, which Parameter Store takes for a"
            " reference and refuses",
            fix="write it another way, in comments too",
        )
    return document


def _identify_operator(session: AwsSession, calls: CallCounter) -> str:
    try:
        return name_operator(get_caller_identity(session, calls))
    except AwsError:
        return name_operator(None)


def _validate_for_stack(text: str, source: str, stack: Deployment) -> Policy:
    """The policy of this text, if the parameter and the stack's permissions can hold it."""
    size_bytes, document_bytes = len(text.encode()), len(without_header(text).encode())
    if size_bytes > MAX_BYTES:
        raise SettingsError(
            f"{source}: {document_bytes:,} bytes, and {size_bytes - document_bytes} for the lines"
            f" that say who pushed it over what, are {size_bytes:,}: a parameter holds {MAX_BYTES:,}"
            " at most",
            fix="shorten it",
        )
    policy = parse_policy(text.encode(), source=source)
    if policy.mode.opt_in_tag != stack.opt_in_tag:
        requested_tag, granted_tag = ("=".join(tag) for tag in (policy.mode.opt_in_tag, stack.opt_in_tag))
        raise SettingsError(
            f"{source}: mode.opt_in_tag is {requested_tag!r}, and the stack {stack.name} was"
            f" deployed to modify only volumes tagged {granted_tag!r}: its permissions depend on"
            " that",
            fix="to change the tag, deploy the stack with this policy (cdk deploy)",
        )
    if denied := [kind for kind in policy.resources.watched if kind not in stack.resources]:
        wanted = ", ".join(dict.fromkeys([*stack.resources, *denied]))
        raise SettingsError(
            f"{source}: resources.{denied[0]}.watch is true, and the stack {stack.name} has no"
            " permission to watch that kind",
            fix=(
                f"write resources: [{wanted}] into its stage file, and this policy beside it; then run:"
                " cdk deploy -c stage=FILE"
            ),
        )
    return policy


def _deployed_policy(current: StackPolicy) -> Policy:
    """The policy that counts once the pushed one is withdrawn."""
    if current.deployed is None:
        raise SettingsError(
            f"{current.stack.policy}, which stack {current.stack.name} was deployed with, is gone:"
            " without a pushed policy there would be none",
            fix="deploy the stack again first (cdk deploy)",
        )
    return current.deployed.read()


def _apply(options: Options, request: PushRequest, change: _PolicyChange) -> ExitCode:
    if not options.json:
        print_output(_describe_change(change))
    elif change.is_needed and not request.dry_run and not request.assumes_yes:
        print_info(_describe_change(change), is_preformatted=True)
    _print_warnings(change)
    if request.dry_run:
        print_info("a dry run: nothing was changed")
    elif change.is_needed:
        if not confirm(_question(change), assumes_yes=request.assumes_yes):
            return ExitCode.INTERRUPTED
        change = _write_change(change)
        print_info(_describe_next_steps(change))
    if options.json:
        print_output(to_json(_document(change, request)))
    else:
        print_next([_next_command(options, request, change)])
    return ExitCode.OK


def _next_command(options: Options, request: PushRequest, change: _PolicyChange) -> str:
    """After a dry run, the command that does what it shows; otherwise the one that shows what is in force."""
    command = ["show"]
    if request.dry_run and change.is_needed:
        command = ["push", "--withdraw" if request.source is None else str(request.source.path)]
    stack = ["--stack", request.stack] if request.stack else []
    return shlex.join(["burstctl", "policy", *command, *stack, *replace(options, policy=None).repeated])


def _write_change(change: _PolicyChange) -> _PolicyChange:
    if change.text is None:
        change.store.withdraw(change.current)
        return replace(change, is_done=True)
    version = change.store.push(change.text, change.current)
    if change.current.pushed is not None and version != change.current.pushed.version + 1:
        print_error(
            Problem(
                "someone else pushed at the same moment",
                "to see which one is in force, run burstctl policy show",
            )
        )
    return replace(change, is_done=True, version=version)


def _describe_change(change: _PolicyChange) -> str:
    headline = (
        f"stack {change.stack.name} in {change.region}: {_describe_active_policy(change)} -> {change.source}"
    )
    lines = wrap_hanging(headline, text_columns())
    if change.changes is None:
        lines.append("  the one in force cannot be read, so there is nothing to compare with")
    elif change.changes:
        lines += format_changes(change.changes)
    elif change.is_needed and change.text is not None:
        lines.append("  no setting changes; the text, or what it is pushed over, does")
    else:
        lines.append("  nothing changes")
    return "\n".join(lines)


def _describe_active_policy(change: _PolicyChange) -> str:
    active = change.current.current
    if active is None:
        return "no policy"
    origin = "pushed" if change.current.pushed else "deployed"
    author = f" by {active.pushed_by}" if active.pushed_by else ""
    return sanitise(
        f"{active.parameter} ({origin} {format_instant(active.modified_at.timestamp())}{author})", _MAX_CHARS
    )


def _print_warnings(change: _PolicyChange) -> None:
    """What is unusual, and would surprise later."""
    if change.current.is_outdated:
        assert change.current.deployed is not None
        deployed_at = format_instant(change.current.deployed.modified_at.timestamp())
        print_info(
            f"careful: the policy in force was pushed before the deployment of {deployed_at}, which changed"
            " the deployed policy. That change is not in force; to see it:"
            " burstctl policy push --withdraw --dry-run"
        )
    if not change.stack.flips:
        print_info("this stack was deployed with flips: false: it flips nothing, regardless of the policy")
    if change.text is not None and len(change.text.encode()) > _STANDARD_PARAMETER_BYTES:
        print_info("over 4 KB: AWS keeps and bills it as an advanced parameter")
    if not change.is_needed:
        text = (
            "no policy was pushed: there is nothing to withdraw"
            if change.text is None
            else "in force already"
        )
        print_info(text)


def _question(change: _PolicyChange) -> str:
    if change.text is None:
        return f"Withdraw the pushed policy of stack {change.stack.name}?"
    return f"Put {change.source} in force in stack {change.stack.name}?"


def _describe_next_steps(change: _PolicyChange) -> str:
    if change.text is None:
        return "withdrawn; the watchdog uses the deployed policy within a minute"
    return (
        f"pushed to {change.store.pushed_parameter}; the watchdog takes it up within a minute, and no deploy"
        " overwrites it: burstctl policy push --withdraw takes it back"
    )


def _document(policy_change: _PolicyChange, request: PushRequest) -> "PolicyPushDocument":
    changes = policy_change.changes
    return {
        "schema": SCHEMA,
        "stack": policy_change.stack.name,
        "region": policy_change.region,
        "in_force": _active_policy_document(policy_change.current),
        "policy": policy_change.source,
        "changes": None
        if changes is None
        else [_change_document(setting_change) for setting_change in changes],
        "size_bytes": None if policy_change.text is None else len(policy_change.text.encode()),
        "most_bytes": MAX_BYTES,
        "dry_run": request.dry_run,
        "pushed": policy_change.is_done and policy_change.text is not None,
        "withdrawn": policy_change.is_done and policy_change.text is None,
        "version": policy_change.version,
    }


def _active_policy_document(current: StackPolicy) -> "ActivePolicyDocument | None":
    active = current.current
    if active is None:
        return None
    return {
        "parameter": active.parameter,
        "version": active.version,
        "modified_at": format_instant(active.modified_at.timestamp()),
        "sha256": active.sha256,
        "pushed": current.pushed is not None,
        "by": active.pushed_by,
        "outdated": current.is_outdated,
    }


def _change_document(change: SettingChange) -> "SettingChangeDocument":
    return {"setting": change.setting, "before": change.before, "after": change.after}

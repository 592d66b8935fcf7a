"""Putting a policy in force in a deployed stack, and taking it back: check, show, ask, write."""

import re
from dataclasses import dataclass, replace
from typing import Any, Final

from burstctl.cli.confirm import is_confirmed, require_somebody_to_ask
from burstctl.cli.exit_codes import Exit
from burstctl.cli.options import Options
from burstctl.cli.output import complain, say, show, to_json
from burstctl.cli.text_layout import COLUMNS, hang
from burstctl.context.active_policy import FilePolicySource
from burstctl.context.operator_identity import name_operator
from burstctl.context.stack_policy import (
    StackPolicy,
    StackPolicyStore,
    try_to_read,
    with_header,
    without_header,
)
from burstctl.context.stacks import choose_stack, find_stacks, session_of
from burstctl.policy.diff import SettingChange, changes_between, changes_in_words
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.errors import AwsError
from burstwatch.adapters.policy.deployments import Deployment
from burstwatch.adapters.policy.yaml_file import MOST_BYTES, parse_policy
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import format_instant, printable
from burstwatch.wiring.bootstrap import AwsSession, build_parameters_client, find_identity
from burstwatch.wiring.settings import SettingsError

SCHEMA: Final = "burstwatch.policy-push/v1"
_STANDARD_BYTES: Final = 4 * 1024
_LONGEST: Final = 400
_BOM: Final = "\ufeff"
_NESTING: Final = re.compile(r"\{\{.*\}\}", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRequest:
    """What an operator asks for; without a ``source`` the pushed policy is to be withdrawn."""

    source: FilePolicySource | None
    stack: str | None
    dry_run: bool
    assumes_yes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Push:
    """A change of the policy in force, ready to be shown; a ``text`` of None withdraws the pushed one."""

    store: StackPolicyStore
    seen: StackPolicy
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
            return self.seen.pushed is not None
        held = self.seen.held
        return held is None or self.seen.is_outdated or held.document != without_header(self.text)


def change_policy(options: Options, request: PushRequest) -> Exit:
    """Push a policy, or withdraw the pushed one.

    Raises:
        PolicyError: the policy is wrong; with every fault.
        SettingsError: it does not fit the stack, or there is nobody to ask.
        AwsError: Parameter Store cannot be asked, or did not take it.
        OutrunError: somebody else changed the policy meanwhile.
    """
    document = "" if request.source is None else _read(request.source)
    if not request.dry_run:
        require_somebody_to_ask(assumes_yes=request.assumes_yes)
    session, calls = session_of(options), CallCounter()
    stack = choose_stack(find_stacks(session, calls), request.stack)
    store = StackPolicyStore(build_parameters_client(session, calls), stack)
    seen = store.read()
    if request.source is None:
        text, source, policy = None, stack.policy, _deployed(seen)
    else:
        text = with_header(document, seen.deployed, _operator(session, calls))
        source, policy = request.source.place, _fitting(text, request.source.place, stack)
    before = try_to_read(seen.held) if seen.held else None
    push = _Push(
        store=store,
        seen=seen,
        region=session.region_name,
        text=text,
        source=source,
        changes=None if before is None else changes_between(before, policy),
    )
    return _carry_out(options, request, push)


def _read(source: FilePolicySource) -> str:
    """The text of a policy that is right, as far as a file can be, without what an earlier push put above."""
    if source.path is None:
        raise SettingsError("there is nothing to push: name a FILE, here is no policy.yaml")
    source.read()
    document = without_header(source.path.read_bytes().decode().removeprefix(_BOM))
    if _NESTING.search(document):
        raise SettingsError(
            f"{source.path} holds something in {{{{ }}}}, which Parameter Store takes for a reference and"
            " refuses: write it another way, in comments too"
        )
    return document


def _operator(session: AwsSession, calls: CallCounter) -> str:
    try:
        return name_operator(find_identity(session, calls))
    except AwsError:
        return name_operator(None)


def _fitting(text: str, place: str, stack: Deployment) -> Policy:
    """The policy of this text, if the parameter and the stack's permissions can hold it."""
    size_bytes, document_bytes = len(text.encode()), len(without_header(text).encode())
    if size_bytes > MOST_BYTES:
        raise SettingsError(
            f"{place}: {document_bytes:,} bytes, and {size_bytes - document_bytes} for the lines that say who"
            f" pushed it over what, are {size_bytes:,}: a parameter holds {MOST_BYTES:,} at most; shorten it"
        )
    policy = parse_policy(text.encode(), source=place)
    if policy.mode.opt_in_tag != stack.opt_in_tag:
        wanted, granted = ("=".join(tag) for tag in (policy.mode.opt_in_tag, stack.opt_in_tag))
        raise SettingsError(
            f"{place}: mode.opt_in_tag is {wanted!r}, and the stack {stack.name} was deployed to modify only"
            f" volumes tagged {granted!r}: its permissions were made from that; to change the tag, deploy the"
            " stack with this policy (cdk deploy)"
        )
    return policy


def _deployed(seen: StackPolicy) -> Policy:
    """The policy that counts once the pushed one is withdrawn."""
    if seen.deployed is None:
        raise SettingsError(
            f"{seen.stack.policy}, which stack {seen.stack.name} was deployed with, is gone: without a pushed"
            " policy there would be none; deploy the stack again first (cdk deploy)"
        )
    return seen.deployed.read()


def _carry_out(options: Options, request: PushRequest, push: _Push) -> Exit:
    if not options.json:
        show(_in_words(push))
    elif push.is_needed and not request.dry_run and not request.assumes_yes:
        say(_in_words(push), as_it_is=True)
    _say_what_to_know(push)
    if request.dry_run:
        say("a dry run: nothing was changed")
    elif push.is_needed:
        if not is_confirmed(_question(push), assumes_yes=request.assumes_yes):
            return Exit.INTERRUPTED
        push = _write(push)
        say(_what_follows(push))
    if options.json:
        show(to_json(_document(push, request)))
    return Exit.FINE


def _write(push: _Push) -> _Push:
    if push.text is None:
        push.store.withdraw(push.seen)
        return replace(push, is_done=True)
    version = push.store.push(push.text, push.seen)
    if push.seen.pushed is not None and version != push.seen.pushed.version + 1:
        complain("somebody else pushed at the same moment: see which one counts with burstctl policy show")
    return replace(push, is_done=True, version=version)


def _in_words(push: _Push) -> str:
    headline = f"stack {push.stack.name} in {push.region}: {_in_force_words(push)} -> {push.source}"
    lines = hang(headline, COLUMNS)
    if push.changes is None:
        lines.append("  the one in force cannot be read, so there is nothing to compare with")
    elif push.changes:
        lines += changes_in_words(push.changes)
    elif push.is_needed and push.text is not None:
        lines.append("  no setting changes; the text, or what it is pushed over, does")
    else:
        lines.append("  nothing changes")
    return "\n".join(lines)


def _in_force_words(push: _Push) -> str:
    held = push.seen.held
    if held is None:
        return "no policy"
    how = "pushed" if push.seen.pushed else "deployed"
    by = f" by {held.by}" if held.by else ""
    return printable(f"{held.parameter} ({how} {format_instant(held.modified_at.timestamp())}{by})", _LONGEST)


def _say_what_to_know(push: _Push) -> None:
    """What is unusual, and would surprise later."""
    if push.seen.is_outdated:
        assert push.seen.deployed is not None
        at = format_instant(push.seen.deployed.modified_at.timestamp())
        say(
            "careful: the policy in force was pushed over another deployed one than today's, which is of"
            f" {at}: what that deploy changed is not in force; to see it:"
            " burstctl policy push --withdraw --dry-run"
        )
    if not push.stack.flips:
        say("this stack was deployed with flips: false: it flips nothing, whatever the policy says")
    if push.text is not None and len(push.text.encode()) > _STANDARD_BYTES:
        say("over 4 KB: AWS keeps and bills it as an advanced parameter")
    if not push.is_needed:
        said = (
            "no policy was pushed: there is nothing to withdraw" if push.text is None else "in force already"
        )
        say(said)


def _question(push: _Push) -> str:
    if push.text is None:
        return f"Withdraw the pushed policy of stack {push.stack.name}?"
    return f"Put {push.source} in force in stack {push.stack.name}?"


def _what_follows(push: _Push) -> str:
    if push.text is None:
        return "withdrawn; the watchdog goes on with the deployed policy within a minute"
    return (
        f"pushed to {push.store.pushed_parameter}; the watchdog takes it up within a minute, and no deploy"
        " overwrites it: burstctl policy push --withdraw takes it back"
    )


def _document(push: _Push, request: PushRequest) -> dict[str, Any]:
    changes = push.changes
    return {
        "schema": SCHEMA,
        "stack": push.stack.name,
        "region": push.region,
        "in_force": _held_document(push.seen),
        "policy": push.source,
        "changes": None if changes is None else [_change_document(change) for change in changes],
        "size_bytes": None if push.text is None else len(push.text.encode()),
        "most_bytes": MOST_BYTES,
        "dry_run": request.dry_run,
        "pushed": push.is_done and push.text is not None,
        "withdrawn": push.is_done and push.text is None,
        "version": push.version,
    }


def _held_document(seen: StackPolicy) -> dict[str, Any] | None:
    held = seen.held
    if held is None:
        return None
    return {
        "parameter": held.parameter,
        "version": held.version,
        "modified_at": format_instant(held.modified_at.timestamp()),
        "sha256": held.sha256,
        "pushed": seen.pushed is not None,
        "by": held.by,
        "outdated": seen.is_outdated,
    }


def _change_document(change: SettingChange) -> dict[str, str | None]:
    return {"setting": change.setting, "before": change.before, "after": change.after}

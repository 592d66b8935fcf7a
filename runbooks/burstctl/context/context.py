"""What a command stands on at an operator's desk: policy, ledger, AWS, and the ways to people."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from burstctl.cli.options import Options
from burstctl.cli.output import say
from burstctl.cli.progress import AfterTheBar, ProgressBar
from burstctl.context.active_policy import PolicySource, find_policy, is_named
from burstctl.context.operator_identity import name_operator
from burstctl.context.stacks import Reach, Stacks, find_stacks, say_how_apart, say_stacks, session_of
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.errors import AwsError, FailureKind
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.notify.channel import Channel, ChannelError
from burstwatch.adapters.notify.terminal import TerminalChannel
from burstwatch.adapters.policy.deployments import Deployment
from burstwatch.core.ledger.ledger import Unreadable
from burstwatch.core.policy.policy import Policy, PolicyError
from burstwatch.core.text import printable
from burstwatch.engine.services import Shell
from burstwatch.wiring.bootstrap import (
    AwsSession,
    BoundLedger,
    Identity,
    build_channels,
    build_modifier,
    build_parameters_client,
    build_shell,
    find_identity,
    open_ledger,
    origin_of,
)
from burstwatch.wiring.settings import LEDGER, Clock, LedgerAddress, LedgerKind, Settings, SettingsError

_LONGEST: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A shell for passes; ``ledger`` is where it remembers, even while there is no file yet.

    ``options`` are those given, for commands that are to find the same desk again. ``by`` is the operator,
    ``origin`` the account and region that a ledger is bound to, where they were asked for and could be told.
    """

    shell: Shell
    options: Options
    policy_source: PolicySource
    ledger: str
    kept: BoundLedger
    address: LedgerAddress
    session: AwsSession
    has_ledger: bool
    reach: Reach
    progress: ProgressBar
    clock: Clock
    by: str = ""
    origin: str | None = None

    @contextmanager
    def recording(self) -> Iterator["Desk"]:
        """The same desk with a ledger that can be written to; only now is one made where there was none.

        Raises:
            LedgerError: the ledger is that of another account or region.
        """
        if self.has_ledger:
            self._bind(self.kept)
            yield self
            return
        with open_ledger(self.session, self.address) as ledger:
            self._bind(ledger)
            yield replace(self, shell=replace(self.shell, ledger=ledger), kept=ledger, has_ledger=True)

    def _bind(self, ledger: BoundLedger) -> None:
        if self.origin is not None:
            ledger.bind(self.origin)


@contextmanager
def reading_desk(options: Options, *, needs_policy: bool = True) -> Iterator[Desk]:
    """A desk that changes nothing: where there is no ledger, none is made."""
    with _desk(options, {}, makes_ledger=False, needs_policy=needs_policy) as (desk, _, _):
        yield desk


@contextmanager
def operating_desk(options: Options, *, needs_policy: bool = True) -> Iterator[Desk]:
    """A desk for orders that only the ledger needs to know; where AWS is out of reach they are taken as well.

    Nothing is written before ``Desk.recording``. Without ``needs_policy`` no bad one stops it: the kill
    switch works when all else is wrong. Whom an order in this ledger reaches is in ``Desk.reach``.
    """
    with _desk(options, {}, makes_ledger=False, needs_policy=needs_policy) as (desk, session, _):
        yield _operated(desk, session, _identity(session, desk, is_needed=False))


@contextmanager
def modifying_desk(options: Options) -> Iterator[Desk]:
    """A desk for an operator's modifications; nothing is written before ``Desk.recording``."""
    with _desk(options, {}, makes_ledger=False) as (desk, session, settings):
        operated = _operated(desk, session, _identity(session, desk, is_needed=True))
        shell = replace(
            operated.shell,
            channels=_channels(session, settings, desk),
            modifier=build_modifier(session, desk.shell.calls),
        )
        yield replace(operated, shell=shell)


def _operated(desk: Desk, session: AwsSession, identity: Identity | None) -> Desk:
    place = replace(desk.shell.place, account=identity.account if identity else None)
    return replace(
        desk,
        shell=replace(desk.shell, place=place),
        by=name_operator(identity),
        origin=_origin(identity, session),
    )


@contextmanager
def watching_desk(options: Options, wiring: Mapping[str, str], *, acts: bool = False) -> Iterator[Desk]:
    """A desk that records and tells; ``wiring`` is what options say in place of the environment.

    Only where it ``acts`` is there anything that modifies volumes; and only then does it share the ledger of
    a deployed stack, whose watchdog leaves alone the ticks that are taken here.
    """
    with _desk(options, wiring, makes_ledger=True, takes_ticks=True, acts=acts) as (desk, session, settings):
        channels: list[Channel] = [AfterTheBar(TerminalChannel(sys.stderr), desk.progress)]
        channels += _channels(session, settings, desk)
        say(f"alerts: {', '.join(channel.name for channel in channels)}")
        identity = _identity(session, desk, is_needed=True)
        if (origin := _origin(identity, session)) is not None:
            desk.kept.bind(origin)
        shell = replace(
            desk.shell,
            channels=channels,
            place=replace(desk.shell.place, account=identity.account if identity else None),
            modifier=build_modifier(session, desk.shell.calls) if acts else None,
        )
        yield replace(desk, shell=shell)


def _channels(session: AwsSession, settings: Settings, desk: Desk) -> list[Channel]:
    try:
        return build_channels(session, settings, desk.shell.calls)
    except ChannelError as error:
        raise SettingsError(str(error)) from error


def _identity(session: AwsSession, desk: Desk, *, is_needed: bool) -> Identity | None:
    """Whom AWS takes us for; None where AWS cannot be asked, which stops no watchdog and no hold."""
    try:
        return find_identity(session, desk.shell.calls)
    except AwsError as error:
        is_hopeless = error.failure.kind in (FailureKind.NO_CREDENTIALS, FailureKind.MISCONFIGURED)
        if is_needed and is_hopeless:
            raise
        say(f"account unknown, the ledger is not checked against it: {error}")
        return None


def _origin(identity: Identity | None, session: AwsSession) -> str | None:
    return None if identity is None else origin_of(identity.account, session.region_name)


def _read_policy(source: PolicySource, *, needs_policy: bool) -> Policy:
    """The policy in force; one that cannot be used stops only who needs it."""
    try:
        policy = source.read()
    except (PolicyError, AwsError, SettingsError) as error:
        if needs_policy:
            raise
        say(f"policy: {source} cannot be used, and is not needed for this: {error}")
        return Policy()
    say(f"policy: {source}")
    return policy


@contextmanager
def _desk(
    options: Options,
    wiring: Mapping[str, str],
    *,
    makes_ledger: bool,
    takes_ticks: bool = False,
    acts: bool = False,
    needs_policy: bool = True,
) -> Iterator[tuple[Desk, AwsSession, Settings]]:
    session, calls = session_of(options), CallCounter()
    stacks = _stacks(options, session, calls, is_order=not needs_policy)
    source = find_policy(options.policy, os.environ, _policy_of(stacks.standing, session, calls))
    policy = _read_policy(source, needs_policy=needs_policy)
    shared = stacks.standing if acts or not takes_ticks else None
    settings = _settings(options, wiring, session, shared)
    settings = _with_topic(settings, stacks.standing, takes_ticks=takes_ticks)
    progress = ProgressBar()
    with _ledger(settings.ledger, session, makes_ledger=makes_ledger) as (ledger, is_there):
        if needs_policy:  # an order says itself whom it reaches
            say_how_apart(settings.ledger, stacks.standing, only_watches=takes_ticks and not acts)
        shell = build_shell(
            session,
            policy=policy,
            ledger=ledger,
            report_progress=progress.report,
            clock=settings.clock,
            calls=calls,
        )
        desk = Desk(
            shell=shell,
            options=options,
            policy_source=source,
            ledger=str(settings.ledger),
            kept=ledger,
            address=settings.ledger,
            session=session,
            has_ledger=is_there,
            reach=Reach.of(stacks, str(settings.ledger)),
            progress=progress,
            clock=settings.clock,
        )
        yield desk, session, settings
        _say_unreadable(ledger.take_unreadable())


def _stacks(options: Options, session: AwsSession, calls: CallCounter, *, is_order: bool) -> Stacks:
    """The deployed stacks, where their ledger or policy is wanted, or an order should reach them.

    What is odd about them is said.
    """
    names_ledger = _names_ledger(options)
    if names_ledger and is_named(options.policy, os.environ) and not is_order:
        return Stacks()
    stacks = find_stacks(session, calls)
    if stacks.standing is not None or options.ledger or not is_order:  # else the refusal says it
        say_stacks(stacks, names_ledger=names_ledger)
    return stacks


def _say_unreadable(found: Sequence[Unreadable]) -> None:
    """Say what was left out; much of one kind, such as a history's entries, is counted."""
    alike: dict[tuple[str, str], list[Unreadable]] = {}
    for one in found:
        alike.setdefault((one.kind, one.subject), []).append(one)
    for first, *others in alike.values():
        more = f" (and {len(others)} more)" if others else ""
        say(printable(f"{first}{more}", _LONGEST))


def _names_ledger(options: Options) -> bool:
    return bool(options.ledger or os.environ.get(LEDGER))


def _policy_of(stack: Deployment | None, session: AwsSession, calls: CallCounter) -> PolicySource | None:
    if stack is None:
        return None
    from burstctl.context.stack_policy import StackPolicySource, StackPolicyStore  # noqa: PLC0415 - only with a stack

    return StackPolicySource(StackPolicyStore(build_parameters_client(session, calls), stack))


def _settings(
    options: Options, wiring: Mapping[str, str], session: AwsSession, stack: Deployment | None
) -> Settings:
    """The settings, their ledger the one that counts here, with its whole path."""
    given = {LEDGER: options.ledger} if options.ledger else {}
    profile = options.profile or os.environ.get("AWS_PROFILE")
    settings = Settings.from_env(
        {**os.environ, **given, **wiring},
        home=Path.home(),
        place=f"{profile}-{session.region_name}" if profile else session.region_name,
        deployed=stack.ledger if stack else None,
    )
    if settings.ledger.kind is LedgerKind.DYNAMODB:
        return settings
    return replace(settings, ledger=replace(settings.ledger, place=str(settings.ledger.path.absolute())))


def _with_topic(settings: Settings, stack: Deployment | None, *, takes_ticks: bool) -> Settings:
    """With the topic that goes with the ledger: what waits in a stack's must reach the people of the stack.

    Whoever takes its ticks has to send for it; all others leave that to its watchdog.
    """
    if stack is None or str(settings.ledger) != stack.ledger:
        return settings
    if settings.topic_arn not in (None, stack.topic_arn):
        say(f"alerts: not to {settings.topic_arn}: what is in the stack's ledger goes to {stack.topic_arn}")
        settings = replace(settings, topic_arn=None)
    return replace(settings, topic_arn=stack.topic_arn) if takes_ticks else settings


@contextmanager
def _ledger(
    address: LedgerAddress, session: AwsSession, *, makes_ledger: bool
) -> Iterator[tuple[BoundLedger, bool]]:
    """The ledger, and whether it is one that stays: none is made for whoever only reads."""
    is_there = address.kind is LedgerKind.DYNAMODB or os.path.exists(address.path)  # noqa: PTH110 - says no, not PermissionError, where it cannot look
    if not is_there and not makes_ledger:
        say(f"ledger: {address} (none yet)")
        with SqliteLedger.in_memory() as ledger:
            yield ledger, False
        return
    with open_ledger(session, address) as ledger:
        say(f"ledger: {address}{'' if is_there else ' (new)'}")
        yield ledger, True

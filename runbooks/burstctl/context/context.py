"""What a command needs on an operator's machine: policy, ledger, AWS clients and alert channels."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from burstctl.cli.options import Options
from burstctl.cli.output import print_info, print_warning
from burstctl.cli.progress import ProgressAwareChannel, ProgressBar
from burstctl.context.active_policy import PolicySource, find_policy_source, is_policy_named
from burstctl.context.operator_identity import name_operator
from burstctl.context.regions import unknown_region_problem
from burstctl.context.sqlite_inspect import read_ledger_origin
from burstctl.context.stacks import (
    LedgerReach,
    Stacks,
    check_reaches_watchdog,
    describe_ledger_mismatch,
    describe_other_stacks,
    find_stacks,
    open_aws_session,
    stack_warnings,
)
from burstctl.render.terminal_channel import TerminalChannel
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.errors import AwsError, FailureKind
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.notify.channel import AlertChannel, ChannelError
from burstwatch.adapters.policy.deployments import Deployment
from burstwatch.core.errors import LedgerError, Problem
from burstwatch.core.ledger.unreadable_item import UnreadableItem
from burstwatch.core.policy.policy import Policy, PolicyError
from burstwatch.core.text import format_instant, sanitise
from burstwatch.engine.services import Services
from burstwatch.wiring.bootstrap import (
    AwsSession,
    BindableLedger,
    CallerIdentity,
    build_channels,
    build_modifier,
    build_parameters_client,
    build_services,
    get_caller_identity,
    ledger_origin,
    open_ledger,
)
from burstwatch.wiring.settings import LEDGER, Clock, LedgerAddress, LedgerKind, Settings, SettingsError

if TYPE_CHECKING:
    from documents.shared import HeaderDocument

_MAX_TEXT_LENGTH: Final = 1_000  # a fault of a policy may quote a long value
_UNUSABLE: Final = (FailureKind.NO_CREDENTIALS, FailureKind.MISCONFIGURED)
"""With these no call to AWS succeeds, so there is no use in going on."""


@dataclass(slots=True, kw_only=True)
class Notes:
    """What a command says about its context: which policy and ledger it uses, and what is odd about them.

    ``locations`` are those in use, the default ones only with ``--verbose``.
    """

    locations: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def print_beginning(self) -> None:
        """Print what belongs above the result."""
        for line in self.locations:
            print_info(line, style="dim")
        for line in self.remarks:
            print_info(line)

    def print_warnings(self) -> None:
        """Print what is odd."""
        for warning in self.warnings:
            print_warning(warning)

    def print_all(self) -> None:
        self.print_beginning()
        self.print_warnings()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """What a command runs with; ``ledger_location`` is the ledger's place, even if there is no file yet.

    ``options`` are the options given, for commands that must use the same context. ``origin`` is the account
    and region to which a ledger is bound, if they were requested and could be determined.
    """

    services: Services
    options: Options
    policy_source: PolicySource
    ledger_location: str
    bound_ledger: BindableLedger
    ledger_address: LedgerAddress
    session: AwsSession
    has_ledger: bool
    reach: LedgerReach
    progress: ProgressBar
    clock: Clock
    operator: str = ""
    origin: str | None = None

    def document_header(self) -> "HeaderDocument":
        """From when and where a document is."""
        return {
            "generated_at": format_instant(self.services.clock()),
            "region": self.services.location.region,
            "ledger": self.ledger_location,
        }

    @contextmanager
    def with_writable_ledger(self) -> Iterator["CommandContext"]:
        """The same context with a writable ledger, which is created if it is missing.

        Raises:
            LedgerError: the ledger is that of another account or region.
        """
        if self.has_ledger:
            self._bind_to_origin(self.bound_ledger)
            yield self
            return
        with open_ledger(self.session, self.ledger_address) as ledger:
            self._bind_to_origin(ledger)
            yield replace(
                self, services=replace(self.services, ledger=ledger), bound_ledger=ledger, has_ledger=True
            )

    def _bind_to_origin(self, ledger: BindableLedger) -> None:
        if self.origin is not None:
            ledger.bind(self.origin)


@contextmanager
def open_readonly(options: Options, *, needs_policy: bool = True) -> Iterator[CommandContext]:
    """Open a context that changes nothing; a missing ledger is not created.

    Its warnings are printed below the result, and only if there is a result: otherwise the error is enough.
    """
    notes = Notes()
    with open_silently(options, notes, needs_policy=needs_policy) as context:
        notes.print_beginning()
        yield context
        notes.print_warnings()


@contextmanager
def open_silently(
    options: Options,
    notes: Notes,
    *,
    needs_policy: bool = True,
    session: AwsSession | None = None,
) -> Iterator[CommandContext]:
    """Open the same context, and add to the ``notes`` instead of printing them.

    With a ``session``, it is one of several that share it, and shows no progress of its own.
    """
    with _open_context(
        options, {}, notes, creates_ledger=False, needs_policy=needs_policy, session=session
    ) as (
        context,
        _,
        _,
    ):
        yield context


@contextmanager
def open_operator(
    options: Options, *, notes: Notes | None = None, needs_policy: bool = True
) -> Iterator[CommandContext]:
    """Open a context for orders that only the ledger needs to know; they also work if AWS is unreachable.

    Nothing is written before ``CommandContext.recording``. Without ``needs_policy`` no bad one stops it: the
    kill switch works when all else is wrong. Whom an order in this ledger reaches is in
    ``CommandContext.reach``. What it says of itself is added to ``notes``; without them, it is printed.
    """
    is_printed, notes = notes is None, notes or Notes()
    with _open_context(options, {}, notes, creates_ledger=False, needs_policy=needs_policy) as (
        context,
        session,
        _,
    ):
        if is_printed:
            notes.print_all()
        yield _with_operator(context, session, _find_identity(session, context, is_required=False))


@contextmanager
def open_modifying(options: Options) -> Iterator[CommandContext]:
    """A context for an operator's modifications; nothing is written before ``CommandContext.recording``.

    Raises:
        UnreachableWatchdogError: a deployed stack uses another ledger, or may do so.
    """
    notes = Notes()
    with _open_context(options, {}, notes, creates_ledger=False, may_modify=True) as (
        context,
        session,
        settings,
    ):
        identity = _find_identity(session, context, is_required=True)
        notes.print_all()
        operator_context = _with_operator(context, session, identity)
        services = replace(
            operator_context.services,
            channels=_build_channels(session, settings, context),
            modifier=build_modifier(session, context.services.calls),
        )
        yield replace(operator_context, services=services)


def _with_operator(
    context: CommandContext, session: AwsSession, identity: CallerIdentity | None
) -> CommandContext:
    location = replace(context.services.location, account=identity.account if identity else None)
    return replace(
        context,
        services=replace(context.services, location=location),
        operator=name_operator(identity),
        origin=_ledger_origin(identity, session),
    )


@contextmanager
def open_watch(
    options: Options, overrides: Mapping[str, str], *, may_modify: bool = False
) -> Iterator[CommandContext]:
    """Open a context that records and sends alerts; ``overrides`` replaces variables of the environment.

    Only if it ``may_modify`` can it modify volumes. Only then does it share the ledger of a deployed stack,
    whose watchdog skips the ticks that this process claims.

    Raises:
        UnreachableWatchdogError: it may modify, and a deployed stack uses another ledger, or may do so.
    """
    notes = Notes()
    with _open_context(
        options, overrides, notes, creates_ledger=True, claims_ticks=True, may_modify=may_modify
    ) as (context, session, settings):
        notes.print_all()
        terminal = TerminalChannel(sys.stderr, options=options)
        channels: list[AlertChannel] = [ProgressAwareChannel(terminal, context.progress)]
        channels += _build_channels(session, settings, context)
        print_info(f"alerts: {', '.join(channel.name for channel in channels)}")
        identity = _find_identity(session, context, is_required=True)
        if (origin := _ledger_origin(identity, session)) is not None:
            context.bound_ledger.bind(origin)
        services = replace(
            context.services,
            channels=channels,
            location=replace(context.services.location, account=identity.account if identity else None),
            modifier=build_modifier(session, context.services.calls) if may_modify else None,
        )
        yield replace(context, services=services)


def _build_channels(session: AwsSession, settings: Settings, context: CommandContext) -> list[AlertChannel]:
    try:
        return build_channels(session, settings, context.services.calls)
    except ChannelError as error:
        raise SettingsError(error.problem) from error


def _find_identity(
    session: AwsSession, context: CommandContext, *, is_required: bool
) -> CallerIdentity | None:
    """The identity that AWS sees; None if AWS cannot be asked, which stops neither a watchdog nor a hold."""
    try:
        return get_caller_identity(session, context.services.calls)
    except AwsError as error:
        if is_required and error.failure.kind in _UNUSABLE:
            raise
        if context.reach.uncertainty is None or context.reach.uncertainty.cause != error.problem.cause:
            cause = (
                f"the account is not known, so the ledger is not checked against it: {error.problem.cause}"
            )
            print_warning(Problem(cause, error.problem.fix))
        return None


def _ledger_origin(identity: CallerIdentity | None, session: AwsSession) -> str | None:
    return None if identity is None else ledger_origin(identity.account, session.region_name)


def _read_policy(source: PolicySource, notes: Notes, *, needs_policy: bool, is_verbose: bool) -> Policy:
    """The policy in force; one that cannot be used stops only who needs it."""
    try:
        policy = source.read()
    except (PolicyError, AwsError, SettingsError) as error:
        if needs_policy:
            raise
        notes.remarks.append(f"policy: {source} cannot be used, and is not needed for this: {error}")
        return Policy()
    if is_verbose or not source.is_default:
        notes.locations.append(f"policy: {source}")
    return policy


@contextmanager
def _open_context(
    options: Options,
    overrides: Mapping[str, str],
    notes: Notes,
    *,
    creates_ledger: bool,
    claims_ticks: bool = False,
    may_modify: bool = False,
    needs_policy: bool = True,
    session: AwsSession | None = None,
) -> Iterator[tuple[CommandContext, AwsSession, Settings]]:
    is_shared, calls = session is not None, CallCounter()
    session = session or open_aws_session(options)
    if needs_policy:  # who does without it also does without AWS
        session.require_credentials()
    stacks = _find_stacks(options, session, calls, notes, is_order=not needs_policy, may_modify=may_modify)
    source = find_policy_source(
        options.policy, os.environ, _stack_policy_source(stacks.active, session, calls)
    )
    policy = _read_policy(source, notes, needs_policy=needs_policy, is_verbose=options.verbose)
    shared_stack = stacks.active if may_modify or not claims_ticks else None
    settings = _read_settings(options, overrides, session, shared_stack)
    reach = LedgerReach.of(stacks, str(settings.ledger), session.region_name)
    if may_modify:  # before a new ledger is made
        check_reaches_watchdog(
            reach,
            options,
            outcome="nothing was modified",
            action="its holds and caps",
            effect="count here",
        )
    settings = _with_stack_topic(settings, stacks.active, claims_ticks=claims_ticks)
    progress, had_ledger = ProgressBar(is_shown=not is_shared), _exists(settings.ledger)
    with _open_ledger(settings.ledger, session, creates_ledger=creates_ledger) as (ledger, has_ledger):
        if options.verbose or _has_named_ledger(options) or shared_stack is not None:
            suffix = "" if had_ledger else " (new)" if has_ledger else " (none yet)"
            notes.locations.append(f"ledger: {settings.ledger}{suffix}")
        if needs_policy:  # an order says itself whom it reaches
            notes.remarks += describe_ledger_mismatch(
                settings.ledger, stacks.active, only_watches=claims_ticks and not may_modify
            )
        services = build_services(
            session,
            policy=policy,
            ledger=ledger,
            report_progress=progress.report,
            clock=settings.clock,
            calls=calls,
        )
        context = CommandContext(
            services=services,
            options=options,
            policy_source=source,
            ledger_location=str(settings.ledger),
            bound_ledger=ledger,
            ledger_address=settings.ledger,
            session=session,
            has_ledger=has_ledger,
            reach=reach,
            progress=progress,
            clock=settings.clock,
        )
        yield context, session, settings
        _print_unreadable(ledger.take_unreadable())


def _find_stacks(
    options: Options,
    session: AwsSession,
    calls: CallCounter,
    notes: Notes,
    *,
    is_order: bool,
    may_modify: bool,
) -> Stacks:
    """The deployed stacks, if their ledger or policy is needed, or must not be missed.

    Raises:
        AwsError: the credentials cannot be used, so no other call would succeed.
        SettingsError: the Region does not exist.
    """
    is_ledger_named = _has_named_ledger(options)
    must_be_reached = is_order or (may_modify and not options.ledger)
    if is_ledger_named and is_policy_named(options.policy, os.environ) and not must_be_reached:
        return Stacks()
    stacks = find_stacks(session, calls)
    if stacks.failure is not None and not is_order:
        if (problem := unknown_region_problem(session.region_name, stacks.failure.failure)) is not None:
            raise SettingsError(problem) from stacks.failure
        if stacks.failure.failure.kind in _UNUSABLE:
            raise stacks.failure
    if stacks.active is not None or options.ledger or not is_order:  # else the refusal says it
        notes.remarks += describe_other_stacks(stacks)
        notes.warnings += stack_warnings(stacks, is_ledger_named=is_ledger_named)
    return stacks


def _print_unreadable(items: Sequence[UnreadableItem]) -> None:
    """Say what was left out; much of one kind, such as a history's entries, is counted."""
    groups: dict[tuple[str, str], list[UnreadableItem]] = {}
    for item in items:
        groups.setdefault((item.kind, item.subject), []).append(item)
    for first, *repeated in groups.values():
        suffix = f" (and {len(repeated)} more)" if repeated else ""
        print_info(sanitise(f"{first}{suffix}", _MAX_TEXT_LENGTH))


def _has_named_ledger(options: Options) -> bool:
    return bool(options.ledger or os.environ.get(LEDGER))


def _stack_policy_source(
    stack: Deployment | None, session: AwsSession, calls: CallCounter
) -> PolicySource | None:
    if stack is None:
        return None
    from burstctl.context.stack_policy import StackPolicySource, StackPolicyStore  # noqa: PLC0415 - only with a stack

    return StackPolicySource(StackPolicyStore(build_parameters_client(session, calls), stack))


def find_other_ledgers(context: CommandContext) -> list[LedgerAddress]:
    """The default ledgers of this account and Region on this machine that the context does not use.

    Each profile has its own. One whose account is not known, or that cannot be read, counts as one of them.
    """
    default = _read_settings(context.options, {LEDGER: ""}, context.session, None).ledger
    paths = sorted(default.path.parent.glob(f"ledger-*{context.session.region_name}.sqlite"))
    addresses = [LedgerAddress(kind=LedgerKind.SQLITE, name=str(path)) for path in paths]
    return [
        address
        for address in addresses
        if str(address) != context.ledger_location and _may_have_origin(address, context.origin)
    ]


def _may_have_origin(address: LedgerAddress, origin: str | None) -> bool:
    try:
        stored_origin = read_ledger_origin(address.path)
    except LedgerError:
        return True
    return origin is None or stored_origin in (None, origin)


def _read_settings(
    options: Options, overrides: Mapping[str, str], session: AwsSession, stack: Deployment | None
) -> Settings:
    """The settings, their ledger the one that counts here, with its whole path."""
    ledger_override = {LEDGER: options.ledger} if options.ledger else {}
    profile = options.profile or os.environ.get("AWS_PROFILE")
    settings = Settings.from_env(
        {**os.environ, **ledger_override, **overrides},
        home=Path.home(),
        default_ledger_id=f"{profile}-{session.region_name}" if profile else session.region_name,
        deployed=stack.ledger if stack else None,
    )
    if settings.ledger.kind is LedgerKind.DYNAMODB:
        return settings
    return replace(settings, ledger=replace(settings.ledger, name=str(settings.ledger.path.absolute())))


def _with_stack_topic(settings: Settings, stack: Deployment | None, *, claims_ticks: bool) -> Settings:
    """The settings with the stack's own topic: alerts in a stack's ledger must reach the stack's recipients.

    A process that takes its ticks must send its alerts; all others leave that to its watchdog.
    """
    if stack is None or str(settings.ledger) != stack.ledger:
        return settings
    if settings.topic_arn not in (None, stack.topic_arn):
        print_info(
            f"alerts: not to {settings.topic_arn}: what is in the stack's ledger goes to {stack.topic_arn}"
        )
        settings = replace(settings, topic_arn=None)
    return replace(settings, topic_arn=stack.topic_arn) if claims_ticks else settings


@contextmanager
def _open_ledger(
    address: LedgerAddress, session: AwsSession, *, creates_ledger: bool
) -> Iterator[tuple[BindableLedger, bool]]:
    """The ledger, and whether it is persistent; a command that only reads does not create one."""
    if not creates_ledger and not _exists(address):
        with SqliteLedger.in_memory() as ledger:
            yield ledger, False
        return
    with open_ledger(session, address) as ledger:
        yield ledger, True


def _exists(address: LedgerAddress) -> bool:
    return address.kind is LedgerKind.DYNAMODB or os.path.exists(address.path)  # noqa: PTH110 - says no, not PermissionError, where it cannot look

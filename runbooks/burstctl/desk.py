"""What a command stands on at an operator's desk: policy, ledger, AWS, and the ways to people."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from burstctl.command import Options
from burstctl.output import say
from burstctl.policy_in_force import PolicySource, find_policy
from burstctl.progress import AfterTheBar, ProgressBar
from burstctl.whoami import name_operator
from burstwatch.adapters.channel import Channel, ChannelError
from burstwatch.adapters.errors import AwsError, FailureKind
from burstwatch.adapters.ledger_sqlite import SqliteLedger
from burstwatch.adapters.terminal import TerminalChannel
from burstwatch.bootstrap import (
    AwsSession,
    Identity,
    build_channels,
    build_modifier,
    build_shell,
    find_identity,
    open_session,
)
from burstwatch.settings import LEDGER, Clock, Settings, SettingsError
from burstwatch.shell import Shell


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
    ledger_file: SqliteLedger
    ledger_path: Path
    has_ledger: bool
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
            self._bind(self.ledger_file)
            yield self
            return
        with SqliteLedger.open(self.ledger_path) as ledger:
            self._bind(ledger)
            yield replace(self, shell=replace(self.shell, ledger=ledger), ledger_file=ledger, has_ledger=True)

    def _bind(self, ledger: SqliteLedger) -> None:
        if self.origin is not None:
            ledger.bind(self.origin)


@contextmanager
def reading_desk(options: Options) -> Iterator[Desk]:
    """A desk that changes nothing: where there is no ledger, none is made."""
    with _desk(options, {}, makes_ledger=False) as (desk, _, _):
        yield desk


@contextmanager
def operating_desk(options: Options) -> Iterator[Desk]:
    """A desk for orders that only the ledger needs to know; where AWS is out of reach they are taken as well.

    Nothing is written before ``Desk.recording``.
    """
    with _desk(options, {}, makes_ledger=False) as (desk, session, _):
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

    Only where it ``acts`` is there anything that modifies volumes.
    """
    with _desk(options, wiring, makes_ledger=True) as (desk, session, settings):
        channels: list[Channel] = [AfterTheBar(TerminalChannel(sys.stderr), desk.progress)]
        channels += _channels(session, settings, desk)
        say(f"alerts: {', '.join(channel.name for channel in channels)}")
        identity = _identity(session, desk, is_needed=True)
        if (origin := _origin(identity, session)) is not None:
            desk.ledger_file.bind(origin)
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
    return None if identity is None else f"account {identity.account} in {session.region_name}"


@contextmanager
def _desk(
    options: Options, wiring: Mapping[str, str], *, makes_ledger: bool
) -> Iterator[tuple[Desk, AwsSession, Settings]]:
    source = find_policy(options.policy, os.environ)
    policy = source.read()
    say(f"policy: {source}")
    given = {LEDGER: options.ledger} if options.ledger else {}
    session = open_session(options.profile, options.region, last_region=os.environ.get("AWS_REGION"))
    profile = options.profile or os.environ.get("AWS_PROFILE")
    place = f"{profile}-{session.region_name}" if profile else session.region_name
    settings = Settings.from_env({**os.environ, **given, **wiring}, home=Path.home(), place=place)
    path = settings.ledger_path.absolute()
    is_new = not os.path.exists(path)  # noqa: PTH110 - says no, not PermissionError, where it cannot look
    progress = ProgressBar()
    with SqliteLedger.open(path) if makes_ledger or not is_new else SqliteLedger.in_memory() as ledger:
        novelty = "" if not is_new else " (new)" if makes_ledger else " (none yet)"
        say(f"ledger: sqlite:{path}{novelty}")
        shell = build_shell(
            session, policy=policy, ledger=ledger, report_progress=progress.report, clock=settings.clock
        )
        desk = Desk(
            shell=shell,
            options=options,
            policy_source=source,
            ledger=f"sqlite:{path}",
            ledger_file=ledger,
            ledger_path=path,
            has_ledger=makes_ledger or not is_new,
            progress=progress,
            clock=settings.clock,
        )
        yield desk, session, settings

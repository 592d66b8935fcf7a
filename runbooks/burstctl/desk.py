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
from burstwatch.adapters.channel import Channel, ChannelError
from burstwatch.adapters.errors import AwsError, FailureKind
from burstwatch.adapters.ledger_sqlite import SqliteLedger
from burstwatch.adapters.terminal import TerminalChannel
from burstwatch.bootstrap import AwsSession, build_channels, build_shell, find_account, open_session
from burstwatch.settings import LEDGER, Clock, Settings, SettingsError
from burstwatch.watchdog import Shell


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """A shell for passes; ``ledger`` is where it remembers, even while there is no file yet."""

    shell: Shell
    policy_source: PolicySource
    ledger: str
    ledger_file: SqliteLedger
    progress: ProgressBar
    clock: Clock


@contextmanager
def reading_desk(options: Options) -> Iterator[Desk]:
    """A desk that changes nothing: where there is no ledger, none is made."""
    with _desk(options, {}, makes_ledger=False) as (desk, _, _):
        yield desk


@contextmanager
def watching_desk(options: Options, wiring: Mapping[str, str]) -> Iterator[Desk]:
    """A desk that records and tells; ``wiring`` is what options say in place of the environment."""
    with _desk(options, wiring, makes_ledger=True) as (desk, session, settings):
        channels: list[Channel] = [AfterTheBar(TerminalChannel(sys.stderr), desk.progress)]
        try:
            channels += build_channels(session, settings, desk.shell.calls)
        except ChannelError as error:
            raise SettingsError(str(error)) from error
        say(f"alerts: {', '.join(channel.name for channel in channels)}")
        place = replace(desk.shell.place, account=_account(session, desk))
        yield replace(desk, shell=replace(desk.shell, channels=channels, place=place))


def _account(session: AwsSession, desk: Desk) -> str | None:
    """The account, to which the ledger is bound; None where AWS cannot be asked, which stops no watchdog."""
    try:
        account = find_account(session, desk.shell.calls)
    except AwsError as error:
        if error.failure.kind in (FailureKind.NO_CREDENTIALS, FailureKind.MISCONFIGURED):
            raise
        say(f"account unknown, the ledger is not checked against it: {error}")
        return None
    desk.ledger_file.bind(f"account {account} in {session.region_name}")
    return account


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
            policy_source=source,
            ledger=f"sqlite:{path}",
            ledger_file=ledger,
            progress=progress,
            clock=settings.clock,
        )
        yield desk, session, settings

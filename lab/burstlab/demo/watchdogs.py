"""The two watchdogs of the demo: in this process, or deployed by the real ``cdk deploy`` onto a local AWS."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from boto3.session import Session

from burstlab.deployed.deployed_stack import DeployedStage, bootstrap, deploy
from burstlab.deployed.local_aws import LocalAws
from burstlab.fake_aws.server import ACCESS_KEY, Endpoint
from burstlab.fake_aws.slack import Message, SlackReceiver
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.policy.yaml_file import read_policy
from burstwatch.core.alerts.alert import Alert, AlertKind, title, urgency
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger import Ledger
from burstwatch.engine.services import Shell
from burstwatch.engine.watch_pass import run_tick
from burstwatch.wiring.bootstrap import build_modifier, build_shell

_STACK: Final = "burstwatch"
_SILENCE_S: Final = 2.0
"""Longer than from one message to the next: Slack takes one a second."""
_MOST_SILENCES: Final = 10
_SECRET: Final = "demo-slack"  # noqa: S105 - its name
_MADE: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) · alert ")
_IDS: Final = re.compile(r" \((vol|i)-[^)]*\)")
_LEVELS: Final = {
    "⚪": Level.UNKNOWN,
    "🟢": Level.OK,
    "🔵": Level.WATCH,
    "🟡": Level.WARNING,
    "🟠": Level.CRITICAL,
    "🔴": Level.EXHAUSTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A message to people: when, in the lab's time, and what its first line says, without ids."""

    at_s: float
    headline: str
    level: Level


class Watchdog(Protocol):
    """Watches the volumes of the demo."""

    @property
    def place(self) -> str:
        """Where people hear of what it tells."""
        ...

    @property
    def ledger(self) -> Ledger:
        """What it remembers."""
        ...

    @property
    def heard(self) -> Sequence[Heard]:
        """What people were told so far."""
        ...

    def tick(self) -> None:
        """Do what is due at this minute."""
        ...

    def finish(self) -> None:
        """Wait for what is still on its way to people."""
        ...


class _Audience:
    """The channel of the demo."""

    name = "demo"

    def __init__(self) -> None:
        self.heard: list[Heard] = []

    def send(self, alert: Alert) -> None:
        why = f" ({alert.evidence['reason']})" if alert.kind is AlertKind.FLIP_REFUSED else ""
        headline = f"{_IDS.sub('', title(alert))}{why}"
        self.heard.append(Heard(at_s=alert.time_s, headline=headline, level=urgency(alert)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWatchdog:
    """The real watchdog in this process, over real HTTP, with leave to modify."""

    endpoint: Endpoint
    shell: Shell
    audience: _Audience
    place: str = "alerts"

    @property
    def ledger(self) -> Ledger:
        return self.shell.ledger

    @property
    def heard(self) -> Sequence[Heard]:
        return self.audience.heard

    def tick(self) -> None:
        now_s = self.endpoint.fleet.now_s()
        report = run_tick(self.shell, tick_s=now_s, now_s=now_s)
        if report is None or report.failures:
            raise RuntimeError(f"the watchdog failed in the demo: {report.failures if report else 'no tick'}")

    def finish(self) -> None:
        """Nothing is: each alert was heard when it was sent."""


@contextmanager
def local_watchdog(endpoint: Endpoint, policy: Path) -> Iterator[Watchdog]:
    """Put the watchdog in front of the endpoint, its ledger in a file that goes at the end."""
    audience = _Audience()
    with (
        TemporaryDirectory(prefix="burstwatch-demo-") as directory,
        SqliteLedger.open(Path(directory) / "ledger.sqlite") as ledger,
    ):
        settings = endpoint.fleet.settings
        session = _session(settings.region)
        shell = build_shell(
            session,
            endpoint_url=endpoint.url,
            policy=read_policy(policy),
            ledger=ledger,
            channels=[audience],
            account=settings.account_id,
        )
        modifier = build_modifier(session, shell.calls, endpoint_url=endpoint.url)
        yield LocalWatchdog(endpoint=endpoint, shell=replace(shell, modifier=modifier), audience=audience)


@dataclass(slots=True, kw_only=True)
class DeployedWatchdog:
    """The deployed functions; what they tell people arrives in what takes itself for Slack."""

    stage: DeployedStage
    slack: SlackReceiver
    ledger: Ledger
    place: str = "in Slack, as it arrives"

    @property
    def heard(self) -> Sequence[Heard]:
        return [self._hear(message) for message in self.slack.messages]

    def tick(self) -> None:
        self.stage.tell_events()
        self.stage.tick()

    def finish(self) -> None:
        until = time.monotonic() + _MOST_SILENCES * _SILENCE_S
        heard = -1
        while heard < len(self.slack.posted) and time.monotonic() < until:
            heard = len(self.slack.posted)
            time.sleep(_SILENCE_S)

    def _hear(self, message: Message) -> Heard:
        made = _MADE.search(message.words)
        at_s = datetime.fromisoformat(made[1]).timestamp() if made else self.stage.endpoint.fleet.now_s()
        emoji, _, words = message.text.partition(" ")
        level = _LEVELS.get(emoji)
        headline = _IDS.sub("", words if level else message.text)
        return Heard(at_s=at_s, headline=headline, level=level or Level.UNKNOWN)


@contextmanager
def deployed_watchdog(endpoint: Endpoint, policy: Path, say: Callable[[str], None]) -> Iterator[Watchdog]:
    """Deploy the stack onto a local AWS that goes at the end, and point it at the endpoint's volumes.

    Raises:
        LocalAwsError: something is not installed, or does not start; the message says what to do.
    """
    settings = endpoint.fleet.settings
    with LocalAws(region=settings.region, account=settings.account_id) as aws, SlackReceiver() as slack:
        stage_file = aws.folder / "stage.yaml"
        stage_file.write_text(
            f"name: {_STACK}\npolicy: {policy}\nrecipients:\n  slack_secret: {_SECRET}\n", encoding="utf-8"
        )
        say("cdk bootstrap: preparing a local AWS")
        bootstrap(aws)
        aws.client("secretsmanager").create_secret(Name=_SECRET, SecretString=slack.url)
        say("cdk deploy: the stack, as it would go to AWS")
        deploy(aws, "-c", f"stage={stage_file}")
        say("pointing its functions at the lab's volumes")
        stage = DeployedStage.find(aws, endpoint, name=_STACK)
        stage.set_schedule(is_on=False)
        stage.look_at_the_lab()
        ledger = DynamoLedger(stage.client("dynamodb"), stage.table)
        yield DeployedWatchdog(stage=stage, slack=slack, ledger=ledger)


def _session(region: str) -> Session:
    return Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name=region)

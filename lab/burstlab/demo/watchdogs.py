"""The two watchdogs of the demo: in this process, or deployed by the real ``cdk deploy`` onto a local AWS."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from boto3.session import Session

from burstctl.context.resources import ledger_keys_of
from burstlab.deployed.deployed_stack import DeployedStack, bootstrap, deploy
from burstlab.deployed.local_aws import LocalAws
from burstlab.fake_aws.server import ACCESS_KEY, Endpoint
from burstlab.fake_aws.slack import Message, SlackReceiver
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.policy.yaml_file import read_policy
from burstwatch.core.alerts.alert import Alert, AlertKind, alert_urgency, format_title
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger import Ledger
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.engine.services import Services
from burstwatch.engine.tick_pass import run_tick
from burstwatch.wiring.bootstrap import build_modifier, build_services

_STACK: Final = "burstwatch"
_ARRIVAL_TIMEOUT_S: Final = 120.0
"""For all that is still on its way; on a busy machine a function takes ten seconds to start, and more."""
_SLACK_SECRET: Final = "demo-slack"  # noqa: S105 - its name
_ALERT_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) · alert ")
_REGION: Final = re.compile(r" \([a-z]{2}(-[a-z]+)+-\d\)$")
_EMOJI_LEVELS: Final = {
    "⚪": Level.UNKNOWN,
    "🟢": Level.OK,
    "🔵": Level.WATCH,
    "🟡": Level.WARNING,
    "🔴": Level.CRITICAL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A message to people: the time in the lab, and the first line without IDs."""

    at_s: float
    headline: str
    level: Level


class Watchdog(Protocol):
    """Watches the volumes of the demo."""

    @property
    def channel_label(self) -> str:
        """The name of the channel to which it sends alerts."""
        ...

    @property
    def ledger(self) -> Ledger:
        """What it remembers."""
        ...

    @property
    def notifications(self) -> Sequence[Notification]:
        """The messages sent so far."""
        ...

    def tick(self) -> None:
        """Do what is due at this minute."""
        ...

    def finish(self) -> None:
        """Wait until the last messages are delivered."""
        ...


class _RecordingChannel:
    """The channel of the demo."""

    name = "demo"

    def __init__(self) -> None:
        self.notifications: list[Notification] = []

    def send(self, alert: Alert) -> None:
        reason = f" ({alert.evidence['reason']})" if alert.kind is AlertKind.FLIP_REFUSED else ""
        headline = f"{_REGION.sub('', format_title(alert))}{reason}"
        self.notifications.append(
            Notification(at_s=alert.at_s, headline=headline, level=alert_urgency(alert))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWatchdog:
    """The real watchdog in this process, over real HTTP, with leave to modify."""

    endpoint: Endpoint
    services: Services
    channel: _RecordingChannel
    channel_label: str = "alerts"

    @property
    def ledger(self) -> Ledger:
        return self.services.ledger

    @property
    def notifications(self) -> Sequence[Notification]:
        return self.channel.notifications

    def tick(self) -> None:
        now_s = self.endpoint.fleet.now_s()
        report = run_tick(self.services, tick_at_s=now_s, now_s=now_s)
        if report is None or report.failures:
            raise RuntimeError(f"the watchdog failed in the demo: {report.failures if report else 'no tick'}")

    def finish(self) -> None:
        """Nothing to wait for: each alert is delivered when it is sent."""


@contextmanager
def local_watchdog(endpoint: Endpoint, policy: Path) -> Iterator[Watchdog]:
    """Connect the watchdog with the endpoint; its ledger is a temporary file."""
    channel = _RecordingChannel()
    with (
        TemporaryDirectory(prefix="burstwatch-demo-") as directory,
        SqliteLedger.open(Path(directory) / "ledger.sqlite") as ledger,
    ):
        settings = endpoint.fleet.settings
        session = _session(settings.region)
        services = build_services(
            session,
            endpoint_url=endpoint.url,
            policy=read_policy(policy),
            ledger=ledger,
            channels=[channel],
            account=settings.account_id,
        )
        modifier = build_modifier(session, services.calls, endpoint_url=endpoint.url)
        yield LocalWatchdog(endpoint=endpoint, services=replace(services, modifier=modifier), channel=channel)


@dataclass(slots=True, kw_only=True)
class DeployedWatchdog:
    """The deployed functions; their alerts arrive at the lab's Slack receiver."""

    stack: DeployedStack
    slack: SlackReceiver
    ledger: Ledger
    channel_label: str = "in Slack, as it arrives"

    @property
    def notifications(self) -> Sequence[Notification]:
        return [self._to_notification(message) for message in self.slack.messages]

    def tick(self) -> None:
        self.stack.forward_events()
        self.stack.tick()

    def finish(self) -> None:
        """Wait for each alert that the topic took: how long a function takes to start is not known."""
        deadline = time.monotonic() + _ARRIVAL_TIMEOUT_S
        for alert_id in self._published_ids():
            self.slack.wait_for(partial(_is_about, alert_id), timeout_s=deadline - time.monotonic())

    def _published_ids(self) -> set[str]:
        """The IDs under which alerts went to the topic; of a digest, its own."""
        fleet = self.stack.endpoint.fleet
        resource_ids = [*fleet.instances]
        resource_ids += [file_system.resource_id for file_system in fleet.file_systems]
        resource_ids += [database.facts.resource_id for database in fleet.databases]
        subjects = [volume.volume_id for volume in fleet]
        subjects += [key for resource_id in resource_ids for key in ledger_keys_of(resource_id)]
        entries = (entry for subject in subjects for entry in self.ledger.entries(subject))
        delivered = [entry.body for entry in entries if entry.kind is EntryKind.DELIVERED]
        return {str(body["digest_id"] or body["alert_id"]) for body in delivered}

    def _to_notification(self, message: Message) -> Notification:
        match = _ALERT_TIME.search(message.full_text)
        at_s = datetime.fromisoformat(match[1]).timestamp() if match else self.stack.endpoint.fleet.now_s()
        emoji, _, headline_text = message.text.partition(" ")
        level = _EMOJI_LEVELS.get(emoji)
        headline = _REGION.sub("", headline_text if level else message.text)
        return Notification(at_s=at_s, headline=headline, level=level or Level.UNKNOWN)


@contextmanager
def deployed_watchdog(endpoint: Endpoint, policy: Path, log: Callable[[str], None]) -> Iterator[Watchdog]:
    """Deploy the stack onto a temporary local AWS, and let it use the endpoint's volumes.

    Raises:
        LocalAwsError: something is not installed, or does not start; the message says what to do.
    """
    settings = endpoint.fleet.settings
    with LocalAws(region=settings.region, account=settings.account_id) as aws, SlackReceiver() as slack:
        stage_file = aws.directory / "stage.yaml"
        stage_file.write_text(
            f"name: {_STACK}\npolicy: {policy}\nresources: [ebs, instance, efs, rds]\n"
            f"recipients:\n  slack_secret: {_SLACK_SECRET}\n",
            encoding="utf-8",
        )
        log("cdk bootstrap: preparing a local AWS")
        bootstrap(aws)
        aws.client("secretsmanager").create_secret(Name=_SLACK_SECRET, SecretString=slack.url)
        log("cdk deploy: the stack, as it would go to AWS")
        deploy(aws, "-c", f"stage={stage_file}")
        log("pointing its functions at the lab's volumes")
        stack = DeployedStack.find(aws, endpoint, name=_STACK)
        stack.set_schedule_state(is_on=False)
        stack.use_lab_endpoint()
        ledger = DynamoLedger(stack.client("dynamodb"), stack.ledger_table)
        yield DeployedWatchdog(stack=stack, slack=slack, ledger=ledger)


def _is_about(alert_id: str, message: Message) -> bool:
    return f" · alert {alert_id}" in message.full_text


def _session(region: str) -> Session:
    return Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name=region)

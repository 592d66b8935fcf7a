"""Builds the services of the notify function: the only place that builds clients, besides ``bootstrap``."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from botocore.config import Config

from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.notify.amazon_q import AmazonQChannel
from burstwatch.adapters.notify.idempotency import SentLog, SharedRateLimiter
from burstwatch.adapters.notify.message import ChatChannel
from burstwatch.adapters.notify.slack import SlackChatChannel
from burstwatch.adapters.notify.slack_secret import WebhookSecret
from burstwatch.adapters.notify.slack_webhook import SlackWebhook
from burstwatch.wiring.bootstrap import Session, build_client, open_session
from burstwatch.wiring.function_settings import NotifySettings
from burstwatch.wiring.observability import Telemetry

_QUICK_CONFIG: Final = Config(
    connect_timeout=2,
    read_timeout=4,
    retries={"mode": "standard", "total_max_attempts": 2},
    user_agent_extra="burstwatch",
)
"""Short waits, because an alert must not wait for the table: if AWS is slow, it may be sent twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyServices:
    """The services of the notify function; ``remaining_s`` is the remaining time of the invocation."""

    channels: Sequence[ChatChannel]
    sent_log: SentLog
    telemetry: Telemetry
    remaining_s: Callable[[], float]


def build_chat_channels(
    settings: NotifySettings, session: Session, *, sleep: Callable[[float], None] = time.sleep
) -> tuple[list[ChatChannel], SentLog]:
    """Build the chat channels that the settings name, and the log of what was sent to them."""
    calls = CallCounter()
    dynamodb_client = build_client(session, "dynamodb", calls, config=_QUICK_CONFIG)
    channels: list[ChatChannel] = []
    if settings.chat_topic_arn:
        sns_client = build_client(session, "sns", calls, config=_QUICK_CONFIG)
        channels.append(AmazonQChannel(sns_client, settings.chat_topic_arn))
    if settings.slack_secret:
        secrets_client = build_client(session, "secretsmanager", calls, config=_QUICK_CONFIG)
        rate_limiter = SharedRateLimiter(dynamodb_client, settings.table, SlackChatChannel.name, sleep=sleep)
        secret = WebhookSecret(secrets_client, settings.slack_secret)
        channels.append(
            SlackChatChannel(
                secret, lambda address: SlackWebhook(address, rate_limiter=rate_limiter, sleep=sleep)
            )
        )
    return channels, SentLog(dynamodb_client, settings.table)


def open_notify(settings: NotifySettings) -> tuple[list[ChatChannel], SentLog]:
    """The same, with the region and the credentials of the function."""
    return build_chat_channels(settings, open_session(None, settings.region))

"""What the notify function stands on: beside ``bootstrap`` the only place that builds clients."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from botocore.config import Config

from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.notify.amazon_q import ChatChannel
from burstwatch.adapters.notify.idempotency import SentMarks, SharedTurns
from burstwatch.adapters.notify.message import Teller
from burstwatch.adapters.notify.slack import SlackTeller
from burstwatch.adapters.notify.slack_secret import WebhookSecret
from burstwatch.adapters.notify.slack_webhook import Webhook
from burstwatch.wiring.bootstrap import Session, build_client, open_session
from burstwatch.wiring.function_settings import NotifySettings
from burstwatch.wiring.observability import Instruments

_QUICK: Final = Config(
    connect_timeout=2,
    read_timeout=4,
    retries={"mode": "standard", "total_max_attempts": 2},
    user_agent_extra="burstwatch",
)
"""An alert waits for no table: where AWS is slow it may come twice, and is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyShell:
    """What notify stands on; ``time_left_s`` is that of the invocation."""

    tellers: Sequence[Teller]
    sent: SentMarks
    say: Instruments
    time_left_s: Callable[[], float]


def build_tellers(
    settings: NotifySettings, session: Session, *, sleep: Callable[[float], None] = time.sleep
) -> tuple[list[Teller], SentMarks]:
    """The ways to people that the settings name, and what remembers what they took."""
    calls = CallCounter()
    table = build_client(session, "dynamodb", calls, config=_QUICK)
    tellers: list[Teller] = []
    if settings.chat_topic_arn:
        sns = build_client(session, "sns", calls, config=_QUICK)
        tellers.append(ChatChannel(sns, settings.chat_topic_arn))
    if settings.slack_secret:
        secrets = build_client(session, "secretsmanager", calls, config=_QUICK)
        turns = SharedTurns(table, settings.table, SlackTeller.name, sleep=sleep)
        secret = WebhookSecret(secrets, settings.slack_secret)
        tellers.append(SlackTeller(secret, lambda address: Webhook(address, turns=turns, sleep=sleep)))
    return tellers, SentMarks(table, settings.table)


def open_notify(settings: NotifySettings) -> tuple[list[Teller], SentMarks]:
    """The same, in the region and with the credentials of the function."""
    return build_tellers(settings, open_session(None, settings.region))

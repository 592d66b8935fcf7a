"""What was sent already, and the rate limit of a webhook: in the ledger's table, apart from the ledger.

Alerts must reach people even if the table cannot be used: then one may be sent twice, which is logged.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Any, Final, cast

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyInconsistentStateError,
    IdempotencyPersistenceLayerError,
)

from burstwatch.adapters.aws.errors import AWS_ERRORS, to_aws_failure
from burstwatch.adapters.ledger.dynamodb_table import IF_ABSENT, Client, Table, if_unchanged
from burstwatch.adapters.notify.slack_webhook import MIN_INTERVAL_S, LocalRateLimiter, RateLimitedError
from burstwatch.core.errors import LedgerError

PARTITION: Final = "sent"
"""The prefix of these partitions; the notify function may access no others."""

EXPIRY_ATTRIBUTE: Final = "expires_at_s"
"""The TTL attribute: DynamoDB removes an item some time, within a few days, after that second.

Source: the DynamoDB developer guide, "Using time to live (TTL)".
"""

_RETENTION_S: Final = 15 * 24 * 3600
"""Longer than any queue keeps a message: SQS keeps one for at most 14 days."""
_RATE_LIMIT_PARTITION: Final = f"{PARTITION} turns"
_MAX_PAUSE_S: Final = 3600.0
"""A turn farther off than this was reserved by a clock that was wrong."""


class SendStatus(StrEnum):
    """The outcome of a message; one that is being sent ``elsewhere`` is retried there if it fails."""

    SENT = "sent"
    SENT_BEFORE = "sent before"
    SENT_ELSEWHERE = "being sent by another invocation"


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """The outcome of a message, and the problem of the table that should remember it, if any."""

    status: SendStatus
    problem: str | None = None


class _LambdaContextStub:
    """The part of a Lambda context that Powertools uses."""

    def __init__(self, seconds: float) -> None:
        self._milliseconds = max(0, int(seconds * 1000))

    def get_remaining_time_in_millis(self) -> int:
        return self._milliseconds


class SentLog:
    """Remembers for 15 days which messages each channel has taken."""

    def __init__(self, client: Client, table_name: str) -> None:
        self._location = f"dynamodb:{table_name}"
        self._store = DynamoDBPersistenceLayer(
            table_name=table_name,
            key_attr="pk",
            sort_key_attr="sk",
            static_pk_value=PARTITION,
            expiry_attr=EXPIRY_ATTRIBUTE,
            boto3_client=cast("Any", client),
        )

    def send_once(
        self, channel: str, message_id: str, send: Callable[[], None], *, lease_s: float
    ) -> SendResult:
        """Send a message, unless the channel has taken it before.

        Args:
            channel: the name of the channel.
            message_id: an ID that is the same whenever the same message is sent again.
            send: sends the message; it raises if the channel does not take it, and may then be called again.
            lease_s: how long other processes wait for this call if it never returns.

        Raises:
            Exception: what ``send`` raises.
        """
        attempt = _Attempt(send)
        send_idempotently = idempotent_function(
            attempt.run,
            data_keyword_argument="notice_id",
            persistence_store=self._store,
            config=IdempotencyConfig(
                expires_after_seconds=_RETENTION_S, lambda_context=cast("Any", _LambdaContextStub(lease_s))
            ),
            key_prefix=channel,
        )
        try:
            send_idempotently(notice_id=message_id)
        except (IdempotencyAlreadyInProgressError, IdempotencyInconsistentStateError):
            return SendResult(status=SendStatus.SENT_ELSEWHERE)
        except IdempotencyPersistenceLayerError as error:
            return self._send_unrecorded(attempt, error)
        return SendResult(status=SendStatus.SENT if attempt.is_started else SendStatus.SENT_BEFORE)

    def _send_unrecorded(self, attempt: "_Attempt", error: IdempotencyPersistenceLayerError) -> SendResult:
        """Send a message that could not be claimed; one that was sent and not marked counts as sent."""
        if not attempt.is_started:
            attempt.run()
        if attempt.error is not None:
            raise attempt.error from None
        cause = next(
            (argument for argument in error.args if isinstance(argument, AWS_ERRORS)),
            error.__cause__ or error,
        )
        reason = str(to_aws_failure(cause)) if isinstance(cause, AWS_ERRORS) else str(cause)
        problem = f"{self._location} cannot record what was sent, so an alert may be sent twice: {reason}"
        return SendResult(status=SendStatus.SENT, problem=problem)


class _Attempt:
    """One attempt to send, and its outcome."""

    def __init__(self, send: Callable[[], None]) -> None:
        self._send = send
        self.is_started = False
        self.error: Exception | None = None

    def run(self, *, notice_id: str = "") -> None:  # noqa: ARG002 - Powertools takes the key from it
        self.is_started = True
        try:
            self._send()
        except Exception as error:
            self.error = error
            raise


class SharedRateLimiter:
    """A rate limit for all processes of one webhook; for this process alone while the table is unusable."""

    def __init__(
        self,
        client: Client,
        table_name: str,
        name: str,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._table = Table(client, table_name, workers=1, sleep=sleep)
        self._key = (_RATE_LIMIT_PARTITION, name)
        self._clock = clock
        self._local_limiter = LocalRateLimiter(clock)

    def acquire(self, max_wait_s: float) -> float:
        """See ``RateLimiter``."""
        try:
            return self._reserve(max_wait_s=max_wait_s, delay_s=0.0)
        except LedgerError:
            return self._local_limiter.acquire(max_wait_s)

    def back_off(self, seconds: float) -> None:
        """Let no process send for ``seconds``."""
        self._local_limiter.back_off(seconds)
        try:
            self._reserve(max_wait_s=None, delay_s=min(seconds, _MAX_PAUSE_S) - MIN_INTERVAL_S)
        except LedgerError:
            return

    def _reserve(self, *, max_wait_s: float | None, delay_s: float) -> float:
        """Reserve the first turn after ``delay_s``, unless it is too far off; other processes do the same."""
        tries = count()
        while True:
            now_s = self._clock()
            item = self._table.get(self._key)
            with self._table.translate_unreadable():
                free_at_s = float(item["free_at_s"]) if item else now_s
            # Not before the wanted delay, nor before the turn that others have reserved (if it is plausible).
            slot_s = max(now_s + delay_s, now_s, min(free_at_s, now_s + _MAX_PAUSE_S))
            if max_wait_s is not None and slot_s - now_s > max_wait_s:
                raise RateLimitedError(slot_s - now_s)
            reservation = {
                "pk": self._key[0],
                "sk": self._key[1],
                "free_at_s": slot_s + MIN_INTERVAL_S,
                EXPIRY_ATTRIBUTE: int(slot_s) + _RETENTION_S,
            }
            # Optimistic locking: if another process has reserved this turn, try the next one.
            if self._table.put(reservation, if_unchanged(item, "free_at_s") if item else IF_ABSENT):
                return slot_s - now_s
            self._table.pause(next(tries), "other functions took their turns")

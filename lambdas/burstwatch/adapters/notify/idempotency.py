"""What was sent already, and whose turn it is to send: kept in the ledger's table, apart from the ledger.

Alerts must reach people also when the table cannot be used: then one may come twice, and says so in the log.
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

from burstwatch.adapters.aws.errors import AWS_ERRORS, explain
from burstwatch.adapters.ledger.dynamodb_table import ABSENT, Client, Table, unchanged
from burstwatch.adapters.notify.slack_webhook import SPACING_S, LocalTurns, PauseError
from burstwatch.core.errors import LedgerError

PARTITION: Final = "sent"
"""Every partition of ours begins so; notify may touch no other."""

EXPIRES: Final = "expires_at_s"
"""The attribute by which DynamoDB removes items, some time after that second."""

_KEPT_S: Final = 15 * 24 * 3600
"""Longer than any queue keeps what was not delivered."""
_TURNS: Final = f"{PARTITION} turns"
_LONGEST_PAUSE_S: Final = 3600.0
"""A turn farther off is one of a clock that was wrong."""


class Became(StrEnum):
    """What became of something to send; what is sent ``elsewhere`` is tried again there, should it fail."""

    SENT = "sent"
    SENT_BEFORE = "sent before"
    SENT_ELSEWHERE = "being sent by another invocation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """What became of it, and what is wrong with the table that should remember it."""

    became: Became
    trouble: str | None = None


class _Lease:
    """As much of a Lambda context as Powertools asks for."""

    def __init__(self, seconds: float) -> None:
        self._milliseconds = max(0, int(seconds * 1000))

    def get_remaining_time_in_millis(self) -> int:
        return self._milliseconds


class SentMarks:
    """Remembers for 15 days what each channel has taken."""

    def __init__(self, client: Client, table_name: str) -> None:
        self._location = f"dynamodb:{table_name}"
        self._store = DynamoDBPersistenceLayer(
            table_name=table_name,
            key_attr="pk",
            sort_key_attr="sk",
            static_pk_value=PARTITION,
            expiry_attr=EXPIRES,
            boto3_client=cast("Any", client),
        )

    def once(self, channel: str, notice_id: str, send: Callable[[], None], *, lease_s: float) -> Sending:
        """Send, unless the channel has taken this before.

        Args:
            channel: by its name.
            notice_id: what is the same whenever the same is sent again.
            send: what raises when the channel does not take it; then it may be tried again at once.
            lease_s: how long others leave it to this call, should it never come back.

        Raises:
            Exception: what ``send`` raises.
        """
        attempt = _Attempt(send)
        guarded = idempotent_function(
            attempt.run,
            data_keyword_argument="notice_id",
            persistence_store=self._store,
            config=IdempotencyConfig(
                expires_after_seconds=_KEPT_S, lambda_context=cast("Any", _Lease(lease_s))
            ),
            key_prefix=channel,
        )
        try:
            guarded(notice_id=notice_id)
        except (IdempotencyAlreadyInProgressError, IdempotencyInconsistentStateError):
            return Sending(became=Became.SENT_ELSEWHERE)
        except IdempotencyPersistenceLayerError as error:
            return self._without_table(attempt, error)
        return Sending(became=Became.SENT if attempt.is_begun else Became.SENT_BEFORE)

    def _without_table(self, attempt: "_Attempt", error: IdempotencyPersistenceLayerError) -> Sending:
        """What could not be claimed is sent all the same; what was sent and not marked counts as sent."""
        if not attempt.is_begun:
            attempt.run()
        if attempt.error is not None:
            raise attempt.error from None
        cause = next((part for part in error.args if isinstance(part, AWS_ERRORS)), error.__cause__ or error)
        said = str(explain(cause)) if isinstance(cause, AWS_ERRORS) else str(cause)
        trouble = f"{self._location} cannot remember what was sent, so it may come twice: {said}"
        return Sending(became=Became.SENT, trouble=trouble)


class _Attempt:
    """One attempt to send, and what became of it."""

    def __init__(self, send: Callable[[], None]) -> None:
        self._send = send
        self.is_begun = False
        self.error: Exception | None = None

    def run(self, *, notice_id: str = "") -> None:  # noqa: ARG002 - Powertools takes the key from it
        self.is_begun = True
        try:
            self._send()
        except Exception as error:
            self.error = error
            raise


class SharedTurns:
    """Turns among all who send to one webhook; of this process alone while the table cannot be used."""

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
        self._key = (_TURNS, name)
        self._clock = clock
        self._own = LocalTurns(clock)

    def take(self, longest_s: float) -> float:
        """As the port says."""
        try:
            return self._reserve(longest_s=longest_s, from_s=0.0)
        except LedgerError:
            return self._own.take(longest_s)

    def put_off(self, seconds: float) -> None:
        """Let there be no turn for so long, for anybody."""
        self._own.put_off(seconds)
        try:
            self._reserve(longest_s=None, from_s=min(seconds, _LONGEST_PAUSE_S) - SPACING_S)
        except LedgerError:
            return

    def _reserve(self, *, longest_s: float | None, from_s: float) -> float:
        """Take the first turn from so many seconds on, unless it is too far off; others may be at it too."""
        tries = count()
        while True:
            now_s = self._clock()
            item = self._table.get(self._key)
            with self._table.readable():
                free_at_s = float(item["free_at_s"]) if item else now_s
            turn_s = max(now_s + from_s, now_s, min(free_at_s, now_s + _LONGEST_PAUSE_S))
            if longest_s is not None and turn_s - now_s > longest_s:
                raise PauseError(turn_s - now_s)
            taken = {
                "pk": self._key[0],
                "sk": self._key[1],
                "free_at_s": turn_s + SPACING_S,
                EXPIRES: int(turn_s) + _KEPT_S,
            }
            if self._table.put(taken, unchanged(item, "free_at_s") if item else ABSENT):
                return turn_s - now_s
            self._table.pause(next(tries), "other functions took their turns")

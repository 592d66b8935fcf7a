"""A few small texts in the ledger's table that a function must still know after a cold start."""

import time
from collections.abc import Callable
from typing import Final, Protocol

from burstwatch.adapters.ledger.dynamodb_table import Client, Condition, Table

_PARTITION: Final = "notes"
_UNCONDITIONAL: Final = Condition("")


class KeyValueStore(Protocol):
    """Stores texts for the next cold start."""

    def read(self, name: str) -> str | None: ...

    def write(self, name: str, value: str) -> None: ...


class DynamoKeyValueStore:
    """Texts by name; the last write wins."""

    def __init__(
        self, client: Client, table_name: str, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._table = Table(client, table_name, workers=1, sleep=sleep)

    def read(self, name: str) -> str | None:
        """The text that was written last; None if nothing was written, or if it is damaged.

        What is not known after a cold start is read or decided again, so a damaged item stops nothing.

        Raises:
            LedgerError: the table cannot be read.
        """
        item = self._table.get((_PARTITION, name)) or {}
        body = item.get("body")
        return body if isinstance(body, str) else None

    def write(self, name: str, value: str) -> None:
        """Write a text; it replaces the previous one.

        Raises:
            LedgerError: the table cannot be written.
        """
        self._table.put({"pk": _PARTITION, "sk": name, "body": value}, _UNCONDITIONAL)

"""The table under the DynamoDB ledger: consistent reads, conditional writes, and words for what fails."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from random import random
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from botocore.exceptions import ClientError

from burstwatch.adapters.aws.errors import AWS_ERRORS, FailureKind, explain, left_no_effect
from burstwatch.core.errors import BurstwatchError, LedgerError
from burstwatch.core.stored_values import UNREADABLE
from burstwatch.core.text import printable

T = TypeVar("T")
R = TypeVar("R")

Key: TypeAlias = tuple[str, str]
"""Partition key ``pk`` and sort key ``sk``, both text: the table has no other key and no index."""

Item: TypeAlias = dict[str, Any]
"""An item with its keys, in Python's types: text, whole numbers, floats, bytes and sets of text."""

Action: TypeAlias = dict[str, dict[str, Any]]
"""One part of a transaction, as DynamoDB takes it but for the table's name."""

MOST_ACTIONS: Final = 100
"""What one transaction takes at most."""

_MOST_KEYS: Final = 100
_MOST_PAGES: Final = 1_000
"""Of one query: 1 GB, hundreds of thousands of volumes under one of the keys that they are spread over."""

_TRIES: Final = 24
_FIRST_WAIT_S: Final = 0.02
_LONGEST_WAIT_S: Final = 0.5
_LONGEST_SAID: Final = 200
_PASSING: Final = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})
"""Why a transaction was cancelled that may go through the next time; no client retries these by itself."""


class Client(Protocol):
    """What is used of boto3's client for DynamoDB."""

    @property
    def meta(self) -> Any: ...

    def get_item(self, **request: Any) -> Any: ...

    def batch_get_item(self, **request: Any) -> Any: ...

    def query(self, **request: Any) -> Any: ...

    def put_item(self, **request: Any) -> Any: ...

    def delete_item(self, **request: Any) -> Any: ...

    def transact_write_items(self, **request: Any) -> Any: ...


class BusyError(BurstwatchError):
    """A transaction met others, or the table was asked for too much; it may go through the next time."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold of an item as it is: DynamoDB's own words, and the values they name."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


_COMPARED: Final = frozenset({str, int, float, bytes, frozenset})

ABSENT: Final = Condition("attribute_not_exists(pk)")
PRESENT: Final = Condition("attribute_exists(pk)")


def unchanged(item: Item | None, *names: str) -> Condition:
    """That these attributes still are what they were when the item was read.

    One of a type that no burstwatch writes only has to be there still.
    """
    was = {name: item[name] for name in names if item and name in item}
    known = {name: value for name, value in was.items() if type(value) in _COMPARED}
    same = (
        f"{name} = :was_{name}"
        if name in known
        else f"attribute_exists({name})"
        if name in was
        else f"attribute_not_exists({name})"
        for name in names
    )
    return Condition(" AND ".join(same), {f":was_{name}": value for name, value in known.items()})


def put(item: Item, condition: Condition | None = None) -> Action:
    """Write a whole item."""
    return {"Put": {"Item": _to_wire(item), **_conditional(condition)}}


def update(
    key: Key, expression: str, values: Mapping[str, Any], condition: Condition | None = None
) -> Action:
    """Change parts of an item; one that is not there begins empty."""
    both = Condition(condition.text, {**condition.values, **values}) if condition else Condition("", values)
    return {"Update": {"Key": _key(key), "UpdateExpression": expression, **_conditional(both)}}


def delete(key: Key, condition: Condition) -> Action:
    """Remove an item."""
    return {"Delete": {"Key": _key(key), **_conditional(condition)}}


def check(key: Key, condition: Condition) -> Action:
    """Let the other parts of the transaction happen only if this holds."""
    return {"ConditionCheck": {"Key": _key(key), **_conditional(condition)}}


class Table:
    """One table, read consistently and written conditionally.

    Throttling is for the client to retry; what it does not retry, such as a transaction that met another on
    the same item, is tried again here for some five seconds.
    """

    def __init__(self, client: Client, name: str, *, workers: int, sleep: Callable[[float], None]) -> None:
        self.location = f"dynamodb:{name}"
        self._client = client
        self._name = name
        self._workers = workers
        self._sleep = sleep

    def each(self, do: Callable[[T], R], things: Sequence[T]) -> list[R]:
        """What comes of each of these, several at once."""
        if len(things) <= 1:
            return [do(thing) for thing in things]
        with ThreadPoolExecutor(self._workers, thread_name_prefix="ledger") as pool:
            return list(pool.map(do, things))

    def get(self, key: Key) -> Item | None:
        with self._explained("GetItem"):
            answer = self._client.get_item(TableName=self._name, Key=_key(key), ConsistentRead=True)
        return _from_wire(answer["Item"]) if "Item" in answer else None

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """Those of these items that are there."""
        asked = [_key(key) for key in dict.fromkeys(keys)]
        batches = [asked[first : first + _MOST_KEYS] for first in range(0, len(asked), _MOST_KEYS)]
        items = (item for found in self.each(self._get_batch, batches) for item in found)
        return {(item["pk"], item["sk"]): item for item in items}

    def _get_batch(self, keys: list[Any]) -> list[Item]:
        found: list[Item] = []
        tries = count()
        while True:
            request = {self._name: {"Keys": keys, "ConsistentRead": True}}
            with self._explained("BatchGetItem"):
                answer = self._client.batch_get_item(RequestItems=request)
            found += map(_from_wire, answer["Responses"].get(self._name, ()))
            unread = answer.get("UnprocessedKeys", {}).get(self._name)
            if not unread:
                return found
            keys = unread["Keys"]
            self.pause(next(tries), "items were left unread")

    def query(
        self, pk: str, *, only: Condition | None = None, attributes: Sequence[str] = ()
    ) -> Iterator[Item]:
        """Every item under a partition key, by sort key; ``only`` filters what was read and paid for."""
        request: dict[str, Any] = {
            "TableName": self._name,
            "ConsistentRead": True,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": _to_wire({":pk": pk, **(only.values if only else {})}),
        }
        if attributes:
            request["ProjectionExpression"] = ", ".join(attributes)
        if only:
            request["FilterExpression"] = only.text
        for _ in range(_MOST_PAGES):
            with self._explained("Query"):
                answer = self._client.query(**request)
            yield from map(_from_wire, answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
        raise LedgerError(
            f"{self.location}: what is under {printable(pk, _LONGEST_SAID)} did not end after {_MOST_PAGES:,}"
            " pages of a query; check AWS_ENDPOINT_URL, and that nothing else writes to the table"
        )

    def put(self, item: Item, condition: Condition) -> bool:
        """Write one item for half of what a transaction costs; False where the condition does not hold.

        The client sends it again when an answer is lost, and may then meet the item that it wrote itself.
        """
        tries = count()
        while True:
            try:
                self._client.put_item(TableName=self._name, **put(item, condition)["Put"])
            except AWS_ERRORS as error:
                match _code(error):
                    case "ConditionalCheckFailedException":
                        return False
                    case "TransactionConflictException" as conflict:
                        self.pause(next(tries), conflict)
                    case _:
                        raise self._error(error, "PutItem") from error
            else:
                return True

    def remove(self, key: Key) -> None:
        """Remove an item that nobody needs any more, whatever is in it."""
        with self._explained("DeleteItem"):
            self._client.delete_item(TableName=self._name, Key=_key(key))

    def write(self, actions: Sequence[Action]) -> frozenset[int]:
        """Do all of these or nothing; however often the client sends them, they happen once.

        Returns:
            Nothing where all is done; else the places of those whose condition does not hold.
        """
        tries = count()
        while True:
            try:
                return self.write_now(actions)
            except BusyError as busy:
                self.pause(next(tries), str(busy))

    def write_now(self, actions: Sequence[Action]) -> frozenset[int]:
        """The same, tried once.

        Raises:
            BusyError: others were at the same items; nothing was written.
        """
        request = [
            {kind: {"TableName": self._name, **what} for kind, what in action.items()} for action in actions
        ]
        try:
            self._client.transact_write_items(TransactItems=request)
        except AWS_ERRORS as error:
            codes = _cancelled(error)
            if failed := frozenset(i for i, code in enumerate(codes) if code == "ConditionalCheckFailed"):
                return failed
            causes = set(codes) - {"None"}
            if causes and causes <= _PASSING:
                raise BusyError(" and ".join(sorted(causes))) from error
            raise self._error(error, "TransactWriteItems") from error
        return frozenset()

    def pause(self, attempt: int, cause: str) -> None:
        """Wait before the next try, longer each time and at random, so that rivals do not meet again.

        Raises:
            LedgerError: it was the last.
        """
        if attempt == _TRIES - 1:
            raise LedgerError(
                f"ledger {self.location} was busy in {_TRIES} tries ({cause}), nothing was written:"
                " run again; if it lasts, see in CloudWatch how much this table is used"
            )
        longest_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2**attempt)
        self._sleep(longest_s * random())  # noqa: S311 - to be apart, not to be secret

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Say which table it is that holds what cannot be read."""
        try:
            yield
        except UNREADABLE as error:
            said = printable(str(error), _LONGEST_SAID)
            raise LedgerError(
                f"ledger {self.location} holds an item that this burstwatch cannot read ({said}): use the"
                " newest burstwatch that ever wrote to it; if that fails too, restore the table to an earlier"
                " point in time; nothing was deleted"
            ) from error

    @contextmanager
    def _explained(self, operation: str) -> Iterator[None]:
        try:
            yield
        except AWS_ERRORS as error:
            raise self._error(error, operation) from error

    def _error(self, error: Exception, operation: str) -> LedgerError:
        """What happened, whether it may have been written, and the next step."""
        failure = explain(error, f"dynamodb:{operation}")
        if failure.kind is FailureKind.NOT_FOUND:
            return LedgerError(
                f"ledger {self.location} does not exist in {self._client.meta.region_name}: deploy the stack"
                " that makes it, or check --ledger, the region and the account"
            )
        if failure.code == "ValidationException" and _OTHER_KEYS.search(failure.message):
            return LedgerError(
                f"ledger {self.location} is a table of something else: it has other keys than pk and sk"
                f" ({failure.message}), nothing was written: name the stack's with --ledger dynamodb:TABLE"
            )
        effect = ""
        if operation not in _READS:
            is_sure = left_no_effect(error) and failure.code != "TransactionInProgressException"
            effect = ", nothing was written" if is_sure else ", and this may have been written all the same"
        reasons = "; ".join(sorted(set(_cancelled(error, "Message")) - {"None"}))
        said = f"{failure} DynamoDB's reasons: {reasons}." if reasons else str(failure)
        return LedgerError(f"ledger {self.location} cannot be used{effect}: {said}")


_READS: Final = frozenset({"GetItem", "BatchGetItem", "Query"})
_OTHER_KEYS: Final = re.compile(r"key element|key schema|Missing the key|Type mismatch for key")
"""In what DynamoDB says where a request has other keys than the table."""


def _conditional(condition: Condition | None) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    if condition and condition.text:
        parts["ConditionExpression"] = condition.text
    if condition and condition.values:
        parts["ExpressionAttributeValues"] = _to_wire(condition.values)
    return parts


def _key(key: Key) -> dict[str, Any]:
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}}


def _to_wire(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _typed(value) for name, value in values.items()}


def _from_wire(item: Mapping[str, Mapping[str, Any]]) -> Item:
    return {name: _plain(*typed.items()) for name, typed in item.items()}


def _typed(value: Any) -> dict[str, Any]:
    match value:
        case str():
            return {"S": str(value)}
        case bytes():
            return {"B": value}
        case int() | float():
            return {"N": repr(value)}
        case frozenset():
            return {"SS": sorted(value)}
    raise TypeError(f"{value!r} has no place in an item")


def _plain(typed: tuple[str, Any]) -> Any:
    match typed:
        case ("N", number):
            try:
                return int(number)
            except ValueError:
                return float(number)
        case ("SS", members):
            return frozenset(members)
        case (_, value):
            return value


def _code(error: Exception) -> str | None:
    return error.response.get("Error", {}).get("Code") if isinstance(error, ClientError) else None


def _cancelled(error: Exception, part: str = "Code") -> list[str]:
    """Why each action of a transaction was cancelled; nothing where it failed for another reason."""
    reasons = error.response.get("CancellationReasons", ()) if isinstance(error, ClientError) else ()
    return [str(reason.get(part)) for reason in reasons]

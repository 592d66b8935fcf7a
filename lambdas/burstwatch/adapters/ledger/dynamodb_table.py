"""The table of the DynamoDB ledger: consistent reads, conditional writes, and messages for failures."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from random import random
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from botocore.exceptions import ClientError

from burstwatch.adapters.aws.errors import AWS_ERRORS, FailureKind, had_no_effect, to_aws_failure
from burstwatch.core.errors import BurstwatchError, LedgerError, Problem
from burstwatch.core.stored_values import DECODE_ERRORS
from burstwatch.core.text import sanitise

T = TypeVar("T")
R = TypeVar("R")

Key: TypeAlias = tuple[str, str]
"""Partition key ``pk`` and sort key ``sk``, both text: the table has no other key and no index."""

Item: TypeAlias = dict[str, Any]
"""An item with its keys, in Python's types: text, whole numbers, floats, bytes and sets of text."""

Action: TypeAlias = dict[str, dict[str, Any]]
"""One action of a transaction, as DynamoDB takes it, without the name of the table."""

MAX_ACTIONS: Final = 100
"""The most actions of one transaction (DynamoDB API reference, TransactWriteItems)."""

_MAX_KEYS: Final = 100
"""The most keys of BatchGetItem (DynamoDB API reference)."""
_MAX_PAGES: Final = 1_000
"""Pages of one query: a page has 1 MB, so 1 GB, or hundreds of thousands of volumes in one shard."""

# The waits double from 20 ms to half a second: 24 attempts take about five seconds on average.
_MAX_TRIES: Final = 24
_FIRST_WAIT_S: Final = 0.02
_MAX_WAIT_S: Final = 0.5
_MAX_MESSAGE_CHARS: Final = 200
_TRANSIENT_REASONS: Final = frozenset(
    {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
)
"""Reasons of a cancelled transaction that may succeed the next time; no client retries these by itself."""


class Client(Protocol):
    """The used part of boto3's client for DynamoDB."""

    @property
    def meta(self) -> Any: ...

    def get_item(self, **request: Any) -> Any: ...

    def batch_get_item(self, **request: Any) -> Any: ...

    def query(self, **request: Any) -> Any: ...

    def put_item(self, **request: Any) -> Any: ...

    def delete_item(self, **request: Any) -> Any: ...

    def transact_write_items(self, **request: Any) -> Any: ...


class ContentionError(BurstwatchError):
    """A transaction conflicted with another, or the table was throttled; it may succeed the next time."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the stored item: an expression of DynamoDB, with its names and values."""

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


_COMPARABLE_TYPES: Final = frozenset({str, int, float, bytes, frozenset})

IF_ABSENT: Final = Condition("attribute_not_exists(pk)")
IF_PRESENT: Final = Condition("attribute_exists(pk)")


def if_unchanged(item: Item | None, *names: str) -> Condition:
    """The condition that these attributes are what they were when the item was read.

    An attribute of a type that burstwatch never writes only has to exist.
    """
    seen_values = {name: item[name] for name in names if item and name in item}
    comparable = {name: value for name, value in seen_values.items() if type(value) in _COMPARABLE_TYPES}
    clauses = (
        f"{name} = :was_{name}"
        if name in comparable
        else f"attribute_exists({name})"
        if name in seen_values
        else f"attribute_not_exists({name})"
        for name in names
    )
    return Condition(" AND ".join(clauses), {f":was_{name}": value for name, value in comparable.items()})


def put(item: Item, condition: Condition | None = None) -> Action:
    """Write a whole item."""
    return {"Put": {"Item": _to_wire(item), **_condition_parameters(condition)}}


def update(
    key: Key, expression: str, values: Mapping[str, Any], condition: Condition | None = None
) -> Action:
    """Change attributes of an item; an item that does not exist is created."""
    merged = Condition(condition.text, {**condition.values, **values}) if condition else Condition("", values)
    return {"Update": {"Key": _key(key), "UpdateExpression": expression, **_condition_parameters(merged)}}


def delete(key: Key, condition: Condition) -> Action:
    """Remove an item."""
    return {"Delete": {"Key": _key(key), **_condition_parameters(condition)}}


def check(key: Key, condition: Condition) -> Action:
    """Make the other actions of the transaction depend on this condition."""
    return {"ConditionCheck": {"Key": _key(key), **_condition_parameters(condition)}}


class Table:
    """One table, read consistently and written conditionally.

    The client must retry throttled calls. What it does not retry, such as a transaction that conflicted with
    another on the same item, is retried here for about five seconds.
    """

    def __init__(self, client: Client, name: str, *, workers: int, sleep: Callable[[float], None]) -> None:
        self.location = f"dynamodb:{name}"
        self._client = client
        self._name = name
        self._workers = workers
        self._sleep = sleep

    def map_parallel(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Call the function for each of these items, in parallel; the results are in their order."""
        if len(items) <= 1:
            return [function(item) for item in items]
        with ThreadPoolExecutor(self._workers, thread_name_prefix="ledger") as pool:
            return list(pool.map(function, items))

    def get(self, key: Key) -> Item | None:
        with self._translate_errors("GetItem"):
            response = self._client.get_item(TableName=self._name, Key=_key(key), ConsistentRead=True)
        return _from_wire(response["Item"]) if "Item" in response else None

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """Read those of these items that exist."""
        request_keys = [_key(key) for key in dict.fromkeys(keys)]
        batches = [
            request_keys[offset : offset + _MAX_KEYS] for offset in range(0, len(request_keys), _MAX_KEYS)
        ]
        items = (item for batch_items in self.map_parallel(self._get_batch, batches) for item in batch_items)
        return {(item["pk"], item["sk"]): item for item in items}

    def _get_batch(self, keys: list[Any]) -> list[Item]:
        items: list[Item] = []
        tries = count()
        while True:
            request = {self._name: {"Keys": keys, "ConsistentRead": True}}
            with self._translate_errors("BatchGetItem"):
                response = self._client.batch_get_item(RequestItems=request)
            items += map(_from_wire, response["Responses"].get(self._name, ()))
            unread = response.get("UnprocessedKeys", {}).get(self._name)
            if not unread:
                return items
            keys = unread["Keys"]
            self.pause(next(tries), "items were left unread")

    def query(
        self, pk: str, *, filter_condition: Condition | None = None, attributes: Sequence[str] = ()
    ) -> Iterator[Item]:
        """Every item of a partition, by sort key.

        DynamoDB applies ``filter_condition`` after the read, so filtered items are paid for.
        """
        request: dict[str, Any] = {
            "TableName": self._name,
            "ConsistentRead": True,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": _to_wire(
                {":pk": pk, **(filter_condition.values if filter_condition else {})}
            ),
        }
        if attributes:
            request["ProjectionExpression"] = ", ".join(attributes)
        if filter_condition:
            request["FilterExpression"] = filter_condition.text
        for _ in range(_MAX_PAGES):
            with self._translate_errors("Query"):
                response = self._client.query(**request)
            yield from map(_from_wire, response["Items"])
            if "LastEvaluatedKey" not in response:
                return
            request["ExclusiveStartKey"] = response["LastEvaluatedKey"]
        raise LedgerError(
            f"{self.location}: what is under {sanitise(pk, _MAX_MESSAGE_CHARS)} did not end after"
            f" {_MAX_PAGES:,} pages of a query",
            fix="check AWS_ENDPOINT_URL, and that nothing else writes to the table",
        )

    def put(self, item: Item, condition: Condition) -> bool:
        """Write one item for half the price of a transaction; False if the condition does not hold.

        After a lost response the client sends it again, and the condition may then fail because of the item
        that the first attempt wrote.
        """
        tries = count()
        while True:
            try:
                self._client.put_item(TableName=self._name, **put(item, condition)["Put"])
            except AWS_ERRORS as error:
                match _error_code(error):
                    case "ConditionalCheckFailedException":
                        return False
                    case "TransactionConflictException" as conflict:
                        self.pause(next(tries), conflict)
                    case _:
                        raise self._to_ledger_error(error, "PutItem") from error
            else:
                return True

    def remove(self, key: Key) -> None:
        """Remove an item that is no longer needed, whatever it contains."""
        with self._translate_errors("DeleteItem"):
            self._client.delete_item(TableName=self._name, Key=_key(key))

    def write(self, actions: Sequence[Action]) -> frozenset[int]:
        """Apply all of these actions or none; they are applied once, however often the client sends them.

        Returns:
            Empty if all were applied; otherwise the positions of those whose condition does not hold.
        """
        tries = count()
        while True:
            try:
                return self.write_now(actions)
            except ContentionError as contention:
                self.pause(next(tries), str(contention))

    def write_now(self, actions: Sequence[Action]) -> frozenset[int]:
        """The same, tried once.

        Raises:
            ContentionError: other processes wrote the same items; nothing was written.
        """
        request = [
            {kind: {"TableName": self._name, **parameters} for kind, parameters in action.items()}
            for action in actions
        ]
        try:
            self._client.transact_write_items(TransactItems=request)
        except AWS_ERRORS as error:
            codes = _cancellation_reasons(error)
            if failed := frozenset(
                index for index, code in enumerate(codes) if code == "ConditionalCheckFailed"
            ):
                return failed
            causes = set(codes) - {"None"}
            if causes and causes <= _TRANSIENT_REASONS:
                raise ContentionError(" and ".join(sorted(causes))) from error
            raise self._to_ledger_error(error, "TransactWriteItems") from error
        return frozenset()

    def pause(self, attempt: int, cause: str) -> None:
        """Wait before the next attempt: longer each time and at random, so that rivals do not collide again.

        Raises:
            LedgerError: that was the last attempt.
        """
        if attempt == _MAX_TRIES - 1:
            raise LedgerError(
                f"ledger {self.location} was busy in {_MAX_TRIES} tries ({cause}), nothing was written",
                fix="run again; if it lasts, see in CloudWatch how much this table is used",
            )
        max_wait_s = min(_MAX_WAIT_S, _FIRST_WAIT_S * 2**attempt)
        self._sleep(max_wait_s * random())  # noqa: S311 - to be apart, not to be secret

    @contextmanager
    def translate_unreadable(self) -> Iterator[None]:
        """Add the name of the table to errors about what cannot be read."""
        try:
            yield
        except DECODE_ERRORS as error:
            message = sanitise(str(error), _MAX_MESSAGE_CHARS)
            raise LedgerError(
                f"ledger {self.location} holds an item that this burstwatch cannot read ({message})",
                fix=(
                    "use the newest burstwatch that ever wrote to it; if that fails too, restore the"
                    " table to an earlier point in time; nothing was deleted"
                ),
            ) from error

    @contextmanager
    def _translate_errors(self, operation: str) -> Iterator[None]:
        try:
            yield
        except AWS_ERRORS as error:
            raise self._to_ledger_error(error, operation) from error

    def _to_ledger_error(self, error: Exception, operation: str) -> LedgerError:
        """Describe what happened, whether it may have been written, and the next step."""
        failure = to_aws_failure(error, f"dynamodb:{operation}")
        if failure.kind is FailureKind.NOT_FOUND:
            return LedgerError(
                f"ledger {self.location} does not exist in {self._client.meta.region_name}",
                fix="deploy the stack that makes it, or check --ledger, the region and the account",
            )
        if failure.code == "ValidationException" and _KEY_SCHEMA_ERROR.search(failure.message):
            return LedgerError(
                f"ledger {self.location} is not a table of burstwatch: its keys are not pk"
                f" and sk ({failure.message}), nothing was written",
                fix="name the table of the stack with --ledger dynamodb:TABLE",
            )
        effect = ""
        if operation not in _READ_OPERATIONS:
            is_unwritten = had_no_effect(error) and failure.code != "TransactionInProgressException"
            effect = ", nothing was written" if is_unwritten else ", and the write may have succeeded"
        reasons = "; ".join(sorted(set(_cancellation_reasons(error, "Message")) - {"None"}))
        problem = failure.problem
        details = f" (DynamoDB's reasons: {reasons})" if reasons else ""
        subject = f"ledger {self.location} cannot be used{effect}"
        cause, sentence = f"{subject}: {problem.cause}{details}", f"{subject}: {failure}{details}"
        return LedgerError(Problem(cause, problem.fix, sentence=sentence))


_READ_OPERATIONS: Final = frozenset({"GetItem", "BatchGetItem", "Query"})
_KEY_SCHEMA_ERROR: Final = re.compile(r"key element|key schema|Missing the key|Type mismatch for key")
"""Words of DynamoDB's message when the keys of a request are not those of the table."""


def _condition_parameters(condition: Condition | None) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    if condition and condition.text:
        parts["ConditionExpression"] = condition.text
    if condition and condition.values:
        parts["ExpressionAttributeValues"] = _to_wire(condition.values)
    return parts


def _key(key: Key) -> dict[str, Any]:
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}}


def _to_wire(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _to_attribute_value(value) for name, value in values.items()}


def _from_wire(item: Mapping[str, Mapping[str, Any]]) -> Item:
    return {name: _from_attribute_value(*attribute_value.items()) for name, attribute_value in item.items()}


def _to_attribute_value(value: Any) -> dict[str, Any]:
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


def _from_attribute_value(attribute_value: tuple[str, Any]) -> Any:
    match attribute_value:
        case ("N", number):
            try:
                return int(number)
            except ValueError:
                return float(number)
        case ("SS", members):
            return frozenset(members)
        case (_, value):
            return value


def _error_code(error: Exception) -> str | None:
    return error.response.get("Error", {}).get("Code") if isinstance(error, ClientError) else None


def _cancellation_reasons(error: Exception, part: str = "Code") -> list[str]:
    """Why each action of a transaction was cancelled; empty if it failed for another reason."""
    reasons = error.response.get("CancellationReasons", ()) if isinstance(error, ClientError) else ()
    return [str(reason.get(part)) for reason in reasons]

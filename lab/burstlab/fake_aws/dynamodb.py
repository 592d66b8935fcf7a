"""A fake DynamoDB with what the ledger uses: conflicts, limits, and the capacity units that AWS would bill.

One set of items with the keys ``pk`` and ``sk``, both text, in this process. A client can be attached without
a connection, or use the lab's endpoint. It refuses everything that it does not know, so that no test passes
by accident.
"""

import json
import time
from base64 import b64decode
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ReadTimeoutError

from burstlab.fake_aws.dynamodb_expressions import Condition, ExpressionError, UpdateExpression
from burstlab.fake_aws.protocols import Call, Response
from burstlab.model.aws_error import AwsError

if TYPE_CHECKING:
    from botocore.client import BaseClient

Item: TypeAlias = dict[str, dict[str, Any]]
Key: TypeAlias = tuple[str, str]

MAX_ITEM_BYTES: Final = 400 * 1024  # Source: DynamoDB developer guide, "Service, account, and table quotas"
CONTENT_TYPE: Final = "application/x-amz-json-1.0"
# Source: DynamoDB API reference, Query and TransactWriteItems
_MAX_PAGE_BYTES: Final = 1024 * 1024
_MAX_TRANSACTION_BYTES: Final = 4 * 1024 * 1024
_MAX_ACTIONS: Final = 100
_MAX_KEY_BYTES: Final = (2048, 1024)
# Source: DynamoDB developer guide, "Read and write capacity units"
_READ_UNIT_BYTES: Final = 4096
_WRITE_UNIT_BYTES: Final = 1024


class LostResponseError(Exception):
    """The request was executed, and its response is lost."""


class DynamoDbError(Exception):
    """An error response; ``extra_fields`` are added to its code and message."""

    def __init__(self, code: str, message: str, **extra_fields: Any) -> None:
        super().__init__(message)
        self.code = code
        self.extra_fields = extra_fields


@dataclass(slots=True)
class Fault:
    """The fault of the next ``times`` calls of this operation.

    ``cancellation_codes`` are the codes of a cancelled transaction, one an action. An answer that
    ``is_response_lost`` is to something that was done. As many calls go well before as it ``skipped_calls``.
    """

    operation: str
    code: str = ""
    message: str = "a fault of the lab"
    cancellation_codes: tuple[str, ...] = ()
    times: int = 1
    skipped_calls: int = 0
    is_response_lost: bool = False


@dataclass(slots=True)
class CapacityUnits:
    """Capacity units as AWS counts them."""

    read: float = 0.0
    write: float = 0.0


@dataclass(slots=True)
class FakeDynamoDb:
    """A table by this name.

    ``latency_s`` is how long a call takes; during it, a transaction conflicts with others on its items.
    """

    table: str = "burstwatch-ledger"
    latency_s: float = 0.0
    sleep: Callable[[float], None] = time.sleep
    items: dict[str, dict[str, Item]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    units: CapacityUnits = field(default_factory=CapacityUnits)
    calls: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)
    _locked_keys: set[Key] = field(default_factory=set)
    _completed_requests: dict[str, str] = field(default_factory=dict)

    def attach(self, client: "BaseClient") -> None:
        """Have this client speak to us."""
        send: Any = self._send
        client.meta.events.register("before-send.dynamodb", send)

    def detach(self, client: "BaseClient") -> None:
        """Let go of this client."""
        send: Any = self._send
        client.meta.events.unregister("before-send.dynamodb", send)

    def handle(self, operation: str, body: bytes) -> tuple[int, bytes]:
        """The HTTP status and body that answer this request.

        Raises:
        LostResponseError: the request was executed, and its response is lost.
        """
        request = json.loads(body)
        fault = self._take_fault(operation)
        try:
            if fault and not fault.is_response_lost:
                raise _to_error(fault)
            status, response = 200, self._dispatch(operation, request)
        except DynamoDbError as error:
            status, response = 400, {"__type": error.code, "message": str(error), **error.extra_fields}
        except ExpressionError as error:
            status, response = 400, {"__type": "ValidationException", "message": str(error)}
        if fault and fault.is_response_lost:
            raise LostResponseError
        return status, json.dumps(response).encode()

    def _send(self, request: Any, event_name: str, **_: object) -> AWSResponse:
        try:
            status, body = self.handle(event_name.rsplit(".", 1)[1], request.body)
        except LostResponseError:
            raise ReadTimeoutError(endpoint_url=request.url) from None
        headers: Any = {"Content-Type": CONTENT_TYPE, "x-amzn-RequestId": "r-1"}
        return AWSResponse(request.url, status, headers, _RawBody(body))

    def _take_fault(self, operation: str) -> Fault | None:
        with self._lock:
            self.calls[operation] += 1
            for fault in self.faults:
                if fault.operation != operation or not fault.times:
                    continue
                if fault.skipped_calls:
                    fault.skipped_calls -= 1
                    continue
                fault.times -= 1
                return fault
        return None

    def _dispatch(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        match operation:
            case "TransactWriteItems":
                return self._transact(request)
            case "BatchGetItem":
                return self._get_batch(request)
        _check_parameters(request, operation, _KNOWN_PARAMETERS)
        self._check_table(request)
        self._wait_latency()
        with self._lock:
            match operation:
                case "GetItem":
                    return self._get(request)
                case "Query":
                    return self._query(request)
                case "PutItem" | "DeleteItem":
                    return self._write_one(operation, request)
                case "DescribeTable":
                    return {"Table": {"TableName": self.table, "TableStatus": "ACTIVE", **_TABLE_SETTINGS}}
        raise DynamoDbError("UnknownOperationException", f"the lab does not know {operation}")

    def _wait_latency(self) -> None:
        if self.latency_s:
            self.sleep(self.latency_s)

    def _check_table(self, request: Mapping[str, Any]) -> None:
        if request["TableName"] != self.table:
            raise DynamoDbError("ResourceNotFoundException", "Requested resource not found")

    def _find(self, key: Key) -> Item | None:
        return self.items.get(key[0], {}).get(key[1])

    # Reads

    def _get(self, request: Mapping[str, Any]) -> dict[str, Any]:
        item = self._find(_key_of(request["Key"]))
        self._bill_read([item] if item else [], is_consistent=request.get("ConsistentRead", False))
        return {"Item": item} if item else {}

    def _get_batch(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        ((table, table_request),) = batch["RequestItems"].items()
        self._check_table({"TableName": table})
        _check_parameters(table_request, "BatchGetItem", {"Keys", "ConsistentRead"})
        keys = [_key_of(key) for key in table_request["Keys"]]
        if not 1 <= len(keys) <= _MAX_ACTIONS:
            raise DynamoDbError("ValidationException", "1 to 100 keys are read at once")
        if len(set(keys)) < len(keys):
            raise DynamoDbError("ValidationException", "Provided list of item keys contains duplicates")
        self._wait_latency()
        items = []
        with self._lock:
            for key in keys:
                item = self._find(key)
                self._bill_read(
                    [item] if item else [], is_consistent=table_request.get("ConsistentRead", False)
                )
                items += [item] if item else []
        return {"Responses": {table: items}, "UnprocessedKeys": {}}

    def _query(self, request: Mapping[str, Any]) -> dict[str, Any]:
        values = request["ExpressionAttributeValues"]
        if request["KeyConditionExpression"] != "pk = :pk":
            raise DynamoDbError("ValidationException", "the lab only knows the key condition pk = :pk")
        filter_condition = Condition(request.get("FilterExpression", ""), values, used={":pk"})
        after = request.get("ExclusiveStartKey", {}).get("sk", {}).get("S", "")
        partition = self.items.get(values[":pk"]["S"], {})
        remaining = deque(partition[sk] for sk in sorted(partition) if sk > after)
        page: list[Item] = []
        size_bytes = 0
        while remaining and size_bytes < _MAX_PAGE_BYTES:
            page.append(remaining.popleft())
            size_bytes += item_size_bytes(page[-1])
        self._bill_read(page, is_consistent=request.get("ConsistentRead", False))
        names = [name.strip() for name in request.get("ProjectionExpression", "").split(",") if name]
        matching = [item for item in page if filter_condition.holds(item)]
        projected = [
            {name: item[name] for name in names if name in item} if names else item for item in matching
        ]
        response = {"Items": projected, "Count": len(projected), "ScannedCount": len(page)}
        return response | ({"LastEvaluatedKey": _key_attributes(page[-1])} if remaining else {})

    def _bill_read(self, items: Iterable[Item], *, is_consistent: bool) -> None:
        units = max(1, ceil(sum(map(item_size_bytes, items)) / _READ_UNIT_BYTES))
        self.units.read += units if is_consistent else units / 2

    # Writes

    def _write_one(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        action = _WriteAction(operation.removesuffix("Item"), request)
        if action.key in self._locked_keys:
            raise DynamoDbError("TransactionConflictException", "Transaction is ongoing for the item")
        before = self._find(action.key)
        after = action.apply(before)
        self._bill_write(before, after, 1)
        if not action.holds(before):
            raise DynamoDbError("ConditionalCheckFailedException", "The conditional request failed")
        self._store(action.key, after)
        return {}

    def _transact(self, request: Mapping[str, Any]) -> dict[str, Any]:
        _check_parameters(request, "TransactWriteItems", {"TransactItems", "ClientRequestToken"})
        actions = list(self._actions(request))
        keys = [action.key for action in actions]
        if len(set(keys)) < len(keys):
            message = "Transaction request cannot include multiple operations on one item"
            raise DynamoDbError("ValidationException", message)
        transaction = json.dumps(request["TransactItems"], sort_keys=True)  # before its items can change
        with self._lock:
            if self._is_repeated_request(request["ClientRequestToken"], transaction):
                return {}
            conflicts = self._locked_keys.intersection(keys)
            if not conflicts:
                self._locked_keys.update(keys)
        if conflicts:
            raise _transaction_cancelled(
                "TransactionConflict" if key in conflicts else "None" for key in keys
            )
        try:
            self._wait_latency()
            with self._lock:
                self._write_all(actions)
                self._completed_requests[request["ClientRequestToken"]] = transaction
        finally:
            with self._lock:
                self._locked_keys.difference_update(keys)
        return {}

    def _actions(self, request: Mapping[str, Any]) -> Iterator["_WriteAction"]:
        if not 1 <= len(request["TransactItems"]) <= _MAX_ACTIONS:
            raise DynamoDbError("ValidationException", "a transaction has 1 to 100 actions")
        for entry in request["TransactItems"]:
            ((operation, parameters),) = entry.items()
            self._check_table(parameters)
            yield _WriteAction(operation, parameters)

    def _is_repeated_request(self, token: str, transaction: str) -> bool:
        completed = self._completed_requests.get(token)
        if completed is not None and completed != transaction:
            raise DynamoDbError("IdempotentParameterMismatchException", "another request had this token")
        return completed is not None

    def _write_all(self, actions: Iterable["_WriteAction"]) -> None:
        pairs = [(action, self._find(action.key)) for action in actions]
        after = [action.apply(before) for action, before in pairs]
        if sum(item_size_bytes(item) for item in after if item) > _MAX_TRANSACTION_BYTES:
            raise DynamoDbError("ValidationException", "a transaction holds 4 MB at most")
        for (_, before), item in zip(pairs, after, strict=True):
            self._bill_write(before, item, 2)
        results = [action.holds(before) for action, before in pairs]
        if not all(results):
            raise _transaction_cancelled("None" if holds else "ConditionalCheckFailed" for holds in results)
        for (action, _), item in zip(pairs, after, strict=True):
            self._store(action.key, item)

    def _store(self, key: Key, item: Item | None) -> None:
        partition = self.items.setdefault(key[0], {})
        if item is None:
            partition.pop(key[1], None)
        else:
            partition[key[1]] = item

    def _bill_write(self, before: Item | None, after: Item | None, factor: int) -> None:
        largest = max(item_size_bytes(item) if item else 0 for item in (before, after))
        self.units.write += factor * max(1, ceil(largest / _WRITE_UNIT_BYTES))


class DynamoDbApi:
    """Serves the tables it has over HTTP, in every region; moto serves the others."""

    def __init__(self) -> None:
        self.tables: dict[str, FakeDynamoDb] = {}

    def handles(self, call: Call) -> bool:
        return _table_of(call.body) in self.tables

    def handle(self, call: Call) -> Response:
        try:
            status, body = self.tables[_table_of(call.body)].handle(call.action, call.body)
        except LostResponseError as error:
            raise AwsError("InternalServerError", "the answer is lost", 500) from error
        return Response(body=body, content_type=CONTENT_TYPE, status=status)


def _table_of(body: bytes) -> str:
    """The table of a request; empty if the request has none."""
    request = json.loads(body or b"{}")
    if batch := request.get("RequestItems"):
        return str(next(iter(batch)))
    if actions := request.get("TransactItems"):
        return str(next(iter(actions[0].values()))["TableName"])
    return str(request.get("TableName", ""))


class _WriteAction:
    """One write, alone or in a transaction."""

    def __init__(self, operation: str, parameters: Mapping[str, Any]) -> None:
        _check_parameters(parameters, operation, _KNOWN_PARAMETERS)
        self._operation = operation
        self._item: Item | None = parameters.get("Item")
        self.key = _key_of(parameters["Item"] if operation == "Put" else parameters["Key"])
        values = parameters.get("ExpressionAttributeValues", {})
        self._update = UpdateExpression(parameters.get("UpdateExpression", ""), values)
        self._condition = Condition(parameters.get("ConditionExpression", ""), values, used=self._update.used)
        if self._item is not None:
            _check_item_size(self._item)

    def holds(self, before: Item | None) -> bool:
        return self._condition.holds(before or {})

    def apply(self, before: Item | None) -> Item | None:
        """What is there afterwards."""
        match self._operation:
            case "Put":
                return self._item
            case "Delete":
                return None
            case "ConditionCheck":
                return before
        key = {"pk": {"S": self.key[0]}, "sk": {"S": self.key[1]}}
        return _check_item_size(self._update.apply(dict(before or key)))


_TABLE_SETTINGS: Final = {"DeletionProtectionEnabled": True}
_KNOWN_PARAMETERS: Final = frozenset(
    {
        "TableName",
        "Key",
        "Item",
        "ConsistentRead",
        "ConditionExpression",
        "UpdateExpression",
        "KeyConditionExpression",
        "FilterExpression",
        "ProjectionExpression",
        "ExpressionAttributeValues",
        "ExclusiveStartKey",
    }
)


class _RawBody:
    """A body as botocore reads it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: object) -> Iterator[bytes]:
        yield self._body


def _check_parameters(request: Mapping[str, Any], operation: str, known: Iterable[str]) -> None:
    if unknown := request.keys() - set(known):
        raise DynamoDbError("ValidationException", f"the lab does not know {sorted(unknown)} of {operation}")


def _to_error(fault: Fault) -> DynamoDbError:
    if fault.cancellation_codes:
        return _transaction_cancelled(fault.cancellation_codes)
    return DynamoDbError(fault.code, fault.message)


def _transaction_cancelled(codes: Iterable[str]) -> DynamoDbError:
    reasons = [{"Code": code, **({} if code == "None" else {"Message": code})} for code in codes]
    return DynamoDbError(
        "TransactionCanceledException",
        f"Transaction cancelled, please refer cancellation reasons for specific reasons"
        f" [{', '.join(str(reason['Code']) for reason in reasons)}]",
        CancellationReasons=reasons,
    )


def _key_of(item: Mapping[str, Any]) -> Key:
    key = item["pk"]["S"], item["sk"]["S"]
    for text, max_bytes in zip(key, _MAX_KEY_BYTES, strict=True):
        if not 1 <= len(text.encode()) <= max_bytes:
            raise DynamoDbError(
                "ValidationException", f"One or more parameter values were invalid: key {text}"
            )
    return key


def _key_attributes(item: Item) -> Item:
    return {name: item[name] for name in ("pk", "sk")}


def _check_item_size(item: Item) -> Item:
    if item_size_bytes(item) > MAX_ITEM_BYTES:
        raise DynamoDbError("ValidationException", "Item size has exceeded the maximum allowed size")
    return item


def item_size_bytes(item: Item) -> int:
    """The size of an item in bytes with its attribute names, as AWS defines it."""
    return sum(len(name.encode()) + _value_size_bytes(typed) for name, typed in item.items())


def _value_size_bytes(typed: Mapping[str, Any]) -> int:
    ((attribute_type, value),) = typed.items()
    match attribute_type:
        case "S":
            return len(value.encode())
        case "N":
            digits = value.lower().split("e")[0].replace(".", "").strip("-+0")
            return ceil(len(digits) / 2) + 1
        case "B":
            return len(b64decode(value))
        case "SS":
            return sum(len(member.encode()) for member in value)
    raise DynamoDbError("ValidationException", f"the lab does not know attributes of type {attribute_type}")

"""DynamoDB in a box: what the ledger asks of it, with conflicts, limits and the units that AWS would bill.

One set of items with the keys ``pk`` and ``sk``, both text, in this process: a client that is attached speaks
to it without a connection, and the lab's endpoint answers for it over one. It refuses what it does not know,
so that nothing passes by accident.
"""

import json
import time
from base64 import b64decode
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from math import ceil
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ReadTimeoutError

from burstlab.fake_aws.dynamodb_expressions import Condition, ExpressionError, Update
from burstlab.fake_aws.protocols import Answer, Call
from burstlab.model.aws_error import AwsError

if TYPE_CHECKING:
    from botocore.client import BaseClient

Item: TypeAlias = dict[str, dict[str, Any]]
Key: TypeAlias = tuple[str, str]

MOST_ITEM_BYTES: Final = 400 * 1024
CONTENT_TYPE: Final = "application/x-amz-json-1.0"
_MOST_PAGE_BYTES: Final = 1024 * 1024
_MOST_TRANSACTION_BYTES: Final = 4 * 1024 * 1024
_MOST_ACTIONS: Final = 100
_MOST_KEY_BYTES: Final = (2048, 1024)
_READ_BYTES: Final = 4096
_WRITE_BYTES: Final = 1024


class LostError(Exception):
    """What was asked for is done, and its answer is lost."""


class RefusedError(Exception):
    """An answer that is an error; ``more`` stands beside its code and message."""

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.code = code
        self.more = more


@dataclass(slots=True)
class Fault:
    """What goes wrong the next ``times`` this operation is called.

    ``reasons`` are the codes of a cancelled transaction, one an action. An answer that ``is_lost`` is to
    something that was done. As many calls go well before as it ``spares``.
    """

    operation: str
    code: str = ""
    message: str = "a fault of the lab"
    reasons: tuple[str, ...] = ()
    times: int = 1
    spares: int = 0
    is_lost: bool = False


@dataclass(slots=True)
class Units:
    """Capacity units as AWS counts them."""

    read: float = 0.0
    write: float = 0.0


@dataclass(slots=True)
class DynamoDb:
    """A table by this name.

    ``latency_s`` is how long a call takes; meanwhile a transaction stands in the way of others on its items.
    """

    table: str = "burstwatch-ledger"
    latency_s: float = 0.0
    sleep: Callable[[float], None] = time.sleep
    items: dict[str, dict[str, Item]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    units: Units = field(default_factory=Units)
    calls: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)
    _busy: set[Key] = field(default_factory=set)
    _done: dict[str, Any] = field(default_factory=dict)

    def attach(self, client: "BaseClient") -> None:
        """Have this client speak to us."""
        serve: Any = self._serve
        client.meta.events.register("before-send.dynamodb", serve)

    def detach(self, client: "BaseClient") -> None:
        """Let go of this client."""
        serve: Any = self._serve
        client.meta.events.unregister("before-send.dynamodb", serve)

    def answer(self, operation: str, body: bytes) -> tuple[int, bytes]:
        """The HTTP status and body that answer this request.

        Raises:
            LostError: it was done, and nobody is to hear of it.
        """
        asked = json.loads(body)
        fault = self._fault(operation)
        try:
            if fault and not fault.is_lost:
                raise _refusal(fault)
            status, answer = 200, self._answer(operation, asked)
        except RefusedError as error:
            status, answer = 400, {"__type": error.code, "message": str(error), **error.more}
        except ExpressionError as error:
            status, answer = 400, {"__type": "ValidationException", "message": str(error)}
        if fault and fault.is_lost:
            raise LostError
        return status, json.dumps(answer).encode()

    def _serve(self, request: Any, event_name: str, **_: object) -> AWSResponse:
        try:
            status, body = self.answer(event_name.rsplit(".", 1)[1], request.body)
        except LostError:
            raise ReadTimeoutError(endpoint_url=request.url) from None
        headers: Any = {"Content-Type": CONTENT_TYPE, "x-amzn-RequestId": "r-1"}
        return AWSResponse(request.url, status, headers, _Raw(body))

    def _fault(self, operation: str) -> Fault | None:
        with self._lock:
            self.calls[operation] += 1
            for fault in self.faults:
                if fault.operation != operation or not fault.times:
                    continue
                if fault.spares:
                    fault.spares -= 1
                    continue
                fault.times -= 1
                return fault
        return None

    def _answer(self, operation: str, asked: dict[str, Any]) -> dict[str, Any]:
        match operation:
            case "TransactWriteItems":
                return self._transact(asked)
            case "BatchGetItem":
                return self._get_batch(asked)
        _only(asked, operation, _KNOWN)
        self._check_table(asked)
        self._wait()
        with self._lock:
            match operation:
                case "GetItem":
                    return self._get(asked)
                case "Query":
                    return self._query(asked)
                case "PutItem" | "DeleteItem":
                    return self._write_one(operation, asked)
                case "DescribeTable":
                    return {"Table": {"TableName": self.table, "TableStatus": "ACTIVE", **_PROTECTED}}
        raise RefusedError("UnknownOperationException", f"the lab does not know {operation}")

    def _wait(self) -> None:
        if self.latency_s:
            self.sleep(self.latency_s)

    def _check_table(self, asked: Mapping[str, Any]) -> None:
        if asked["TableName"] != self.table:
            raise RefusedError("ResourceNotFoundException", "Requested resource not found")

    def _find(self, key: Key) -> Item | None:
        return self.items.get(key[0], {}).get(key[1])

    # Reads

    def _get(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        item = self._find(_key_of(asked["Key"]))
        self._bill_read([item] if item else [], is_consistent=asked.get("ConsistentRead", False))
        return {"Item": item} if item else {}

    def _get_batch(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        ((table, request),) = asked["RequestItems"].items()
        self._check_table({"TableName": table})
        _only(request, "BatchGetItem", {"Keys", "ConsistentRead"})
        keys = [_key_of(key) for key in request["Keys"]]
        if not 1 <= len(keys) <= _MOST_ACTIONS:
            raise RefusedError("ValidationException", "1 to 100 keys are read at once")
        if len(set(keys)) < len(keys):
            raise RefusedError("ValidationException", "Provided list of item keys contains duplicates")
        self._wait()
        found = []
        with self._lock:
            for key in keys:
                item = self._find(key)
                self._bill_read([item] if item else [], is_consistent=request.get("ConsistentRead", False))
                found += [item] if item else []
        return {"Responses": {table: found}, "UnprocessedKeys": {}}

    def _query(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        values = asked["ExpressionAttributeValues"]
        if asked["KeyConditionExpression"] != "pk = :pk":
            raise RefusedError("ValidationException", "the lab only knows the key condition pk = :pk")
        kept = Condition(asked.get("FilterExpression", ""), values, used={":pk"})
        after = asked.get("ExclusiveStartKey", {}).get("sk", {}).get("S", "")
        partition = self.items.get(values[":pk"]["S"], {})
        left = deque(partition[sk] for sk in sorted(partition) if sk > after)
        page: list[Item] = []
        size_bytes = 0
        while left and size_bytes < _MOST_PAGE_BYTES:
            page.append(left.popleft())
            size_bytes += size_of(page[-1])
        self._bill_read(page, is_consistent=asked.get("ConsistentRead", False))
        names = [name.strip() for name in asked.get("ProjectionExpression", "").split(",") if name]
        found = [item for item in page if kept.holds(item)]
        shown = [{name: item[name] for name in names if name in item} if names else item for item in found]
        answer = {"Items": shown, "Count": len(shown), "ScannedCount": len(page)}
        return answer | ({"LastEvaluatedKey": _key_in(page[-1])} if left else {})

    def _bill_read(self, items: Iterable[Item], *, is_consistent: bool) -> None:
        units = max(1, ceil(sum(map(size_of, items)) / _READ_BYTES))
        self.units.read += units if is_consistent else units / 2

    # Writes

    def _write_one(self, operation: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        action = _Action(operation.removesuffix("Item"), asked)
        if action.key in self._busy:
            raise RefusedError("TransactionConflictException", "Transaction is ongoing for the item")
        before = self._find(action.key)
        after = action.apply(before)
        self._bill_write(before, after, 1)
        if not action.holds(before):
            raise RefusedError("ConditionalCheckFailedException", "The conditional request failed")
        self._store(action.key, after)
        return {}

    def _transact(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        _only(asked, "TransactWriteItems", {"TransactItems", "ClientRequestToken"})
        actions = list(self._actions(asked))
        keys = [action.key for action in actions]
        if len(set(keys)) < len(keys):
            message = "Transaction request cannot include multiple operations on one item"
            raise RefusedError("ValidationException", message)
        with self._lock:
            if self._is_repeated(asked):
                return {}
            conflicts = self._busy.intersection(keys)
            if not conflicts:
                self._busy.update(keys)
        if conflicts:
            raise _cancelled("TransactionConflict" if key in conflicts else "None" for key in keys)
        try:
            self._wait()
            with self._lock:
                self._write_all(actions)
                self._done[asked["ClientRequestToken"]] = deepcopy(asked["TransactItems"])
        finally:
            with self._lock:
                self._busy.difference_update(keys)
        return {}

    def _actions(self, asked: Mapping[str, Any]) -> Iterator["_Action"]:
        if not 1 <= len(asked["TransactItems"]) <= _MOST_ACTIONS:
            raise RefusedError("ValidationException", "a transaction has 1 to 100 actions")
        for one in asked["TransactItems"]:
            ((kind, what),) = one.items()
            self._check_table(what)
            yield _Action(kind, what)

    def _is_repeated(self, asked: Mapping[str, Any]) -> bool:
        done = self._done.get(asked["ClientRequestToken"])
        if done is not None and done != asked["TransactItems"]:
            raise RefusedError("IdempotentParameterMismatchException", "another request had this token")
        return done is not None

    def _write_all(self, actions: Iterable["_Action"]) -> None:
        pairs = [(action, self._find(action.key)) for action in actions]
        after = [action.apply(before) for action, before in pairs]
        if sum(size_of(item) for item in after if item) > _MOST_TRANSACTION_BYTES:
            raise RefusedError("ValidationException", "a transaction holds 4 MB at most")
        for (_, before), item in zip(pairs, after, strict=True):
            self._bill_write(before, item, 2)
        held = [action.holds(before) for action, before in pairs]
        if not all(held):
            raise _cancelled("None" if is_held else "ConditionalCheckFailed" for is_held in held)
        for (action, _), item in zip(pairs, after, strict=True):
            self._store(action.key, item)

    def _store(self, key: Key, item: Item | None) -> None:
        partition = self.items.setdefault(key[0], {})
        if item is None:
            partition.pop(key[1], None)
        else:
            partition[key[1]] = item

    def _bill_write(self, before: Item | None, after: Item | None, times: int) -> None:
        largest = max(size_of(item) if item else 0 for item in (before, after))
        self.units.write += times * max(1, ceil(largest / _WRITE_BYTES))


class DynamoDbApi:
    """Answers over HTTP for the tables it is given, whatever the region; the others are moto's."""

    def __init__(self) -> None:
        self.tables: dict[str, DynamoDb] = {}

    def answers(self, call: Call) -> bool:
        return _table_of(call.body) in self.tables

    def answer(self, call: Call) -> Answer:
        try:
            status, body = self.tables[_table_of(call.body)].answer(call.action, call.body)
        except LostError as error:
            raise AwsError("InternalServerError", "the answer is lost", 500) from error
        return Answer(body=body, content_type=CONTENT_TYPE, status=status)


def _table_of(body: bytes) -> str:
    """The table that a request is about, empty where it names none."""
    asked = json.loads(body or b"{}")
    if batch := asked.get("RequestItems"):
        return str(next(iter(batch)))
    if actions := asked.get("TransactItems"):
        return str(next(iter(actions[0].values()))["TableName"])
    return str(asked.get("TableName", ""))


class _Action:
    """One write, alone or in a transaction."""

    def __init__(self, kind: str, what: Mapping[str, Any]) -> None:
        _only(what, kind, _KNOWN)
        self._kind = kind
        self._item: Item | None = what.get("Item")
        self.key = _key_of(what["Item"] if kind == "Put" else what["Key"])
        values = what.get("ExpressionAttributeValues", {})
        self._update = Update(what.get("UpdateExpression", ""), values)
        self._condition = Condition(what.get("ConditionExpression", ""), values, used=self._update.used)
        if self._item is not None:
            _check(self._item)

    def holds(self, before: Item | None) -> bool:
        return self._condition.holds(before or {})

    def apply(self, before: Item | None) -> Item | None:
        """What is there afterwards."""
        match self._kind:
            case "Put":
                return self._item
            case "Delete":
                return None
            case "ConditionCheck":
                return before
        key = {"pk": {"S": self.key[0]}, "sk": {"S": self.key[1]}}
        return _check(self._update.apply(dict(before or key)))


_PROTECTED: Final = {"DeletionProtectionEnabled": True}
_KNOWN: Final = frozenset(
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


class _Raw:
    """A body as botocore reads it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: object) -> Iterator[bytes]:
        yield self._body


def _only(asked: Mapping[str, Any], operation: str, known: Iterable[str]) -> None:
    if unknown := asked.keys() - set(known):
        raise RefusedError("ValidationException", f"the lab does not know {sorted(unknown)} of {operation}")


def _refusal(fault: Fault) -> RefusedError:
    if fault.reasons:
        return _cancelled(fault.reasons)
    return RefusedError(fault.code, fault.message)


def _cancelled(codes: Iterable[str]) -> RefusedError:
    reasons = [{"Code": code, **({} if code == "None" else {"Message": code})} for code in codes]
    return RefusedError(
        "TransactionCanceledException",
        f"Transaction cancelled, please refer cancellation reasons for specific reasons"
        f" [{', '.join(str(reason['Code']) for reason in reasons)}]",
        CancellationReasons=reasons,
    )


def _key_of(item: Mapping[str, Any]) -> Key:
    key = item["pk"]["S"], item["sk"]["S"]
    for text, most in zip(key, _MOST_KEY_BYTES, strict=True):
        if not 1 <= len(text.encode()) <= most:
            raise RefusedError(
                "ValidationException", f"One or more parameter values were invalid: key {text}"
            )
    return key


def _key_in(item: Item) -> Item:
    return {name: item[name] for name in ("pk", "sk")}


def _check(item: Item) -> Item:
    if size_of(item) > MOST_ITEM_BYTES:
        raise RefusedError("ValidationException", "Item size has exceeded the maximum allowed size")
    return item


def size_of(item: Item) -> int:
    """What an item measures, names included, as AWS describes it."""
    return sum(len(name.encode()) + _value_size(typed) for name, typed in item.items())


def _value_size(typed: Mapping[str, Any]) -> int:
    ((kind, value),) = typed.items()
    match kind:
        case "S":
            return len(value.encode())
        case "N":
            digits = value.lower().split("e")[0].replace(".", "").strip("-+0")
            return ceil(len(digits) / 2) + 1
        case "B":
            return len(b64decode(value))
        case "SS":
            return sum(len(member.encode()) for member in value)
    raise RefusedError("ValidationException", f"the lab does not know attributes of type {kind}")

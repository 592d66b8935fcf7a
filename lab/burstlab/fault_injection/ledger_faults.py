"""The faults of a ledger: in a file, in a table, and of one item that it stores."""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final

from burstlab.fake_aws.in_process_clients import client_error
from burstlab.fault_injection.effects import ITEM_FAULTS, UNCHANGED, Alter, Fault, FaultModel
from burstlab.fault_injection.fault_models import make_aws_model
from burstwatch.core.errors import LedgerError

_LOCK_TIMEOUT_S: Final = 5.0  # of the SQLite ledger
_FILE_IS_ATOMIC: Final = "a file is read and written whole, or not at all"
_FILE_NOT_APPLICABLE: Final[dict[str, str]] = dict.fromkeys(
    (Fault.THROTTLE, Fault.PARTIAL, Fault.EMPTY, Fault.STALE, Fault.GARBLED, Fault.REPEAT), _FILE_IS_ATOMIC
)


def _ledger_error_factory(message: str) -> Callable[[str], Exception]:
    return lambda operation: LedgerError(f"{operation}: {message}")


def make_ledger_file_model(*, is_write: bool) -> FaultModel:
    """One method of the SQLite ledger: its disk fails, or another process keeps the file locked."""
    not_applicable = dict(_FILE_NOT_APPLICABLE)
    if is_write:
        not_applicable[Fault.TIMEOUT_AFTER] = "what waits for the lock has written nothing"
    return FaultModel(
        is_write=is_write,
        timeout_s=_LOCK_TIMEOUT_S,
        errors={
            Fault.ERROR: _ledger_error_factory("disk I/O error"),
            Fault.TIMEOUT: _ledger_error_factory("the file is locked by another process"),
        },
        not_applicable=not_applicable,
    )


_CONSISTENT: Final = "every read of the ledger is consistent"


def _empty_first_page(response: Any, _: Any) -> Any:
    """A page with nothing on it yet: what it has comes with the next one."""
    return UNCHANGED if not response.get("Items") else {"Items": [], "LastEvaluatedKey": START_KEY}


START_KEY: Final = {"pk": {"S": " "}, "sk": {"S": ""}}
"""Where the lab's table begins to read again."""


def _leave_unprocessed(response: Any, _: Any) -> Any:
    ((table, items),) = response["Responses"].items()
    if not items:
        return UNCHANGED
    keys = [{name: item[name] for name in ("pk", "sk")} for item in items]
    unprocessed = {table: {"Keys": keys, "ConsistentRead": True}}
    return {"Responses": {table: []}, "UnprocessedKeys": unprocessed}


def damage_document(text: str, fault: Fault) -> str | None:
    """An item of a ledger, damaged; None if this damage is impossible for it."""
    if fault is Fault.DAMAGED:
        return text[: len(text) // 2]
    if fault is Fault.NULL:
        return "null"
    try:
        document = json.loads(text)
    except ValueError:
        return None  # such as the note of a policy, which is YAML
    if not isinstance(document, dict):
        return None
    if fault is Fault.LATER:
        return json.dumps(document | {"later_s": 7})
    key = next((name for name in ("level", "kind") if name in document), None)
    return None if key is None else json.dumps(document | {key: "doomed"})


_TEXT_ATTRIBUTES: Final = ("body", "document", "claims")


def _damage_first_item(fault: Fault) -> Alter:
    """Damage the first item of an answer that can be."""

    def alter(response: Any, _: Any) -> Any:
        damaged = deepcopy(response)
        items = [*damaged.get("Items", ()), *filter(None, [damaged.get("Item")])]
        items += [item for table_items in damaged.get("Responses", {}).values() for item in table_items]
        for item in items:
            name = next((name for name in _TEXT_ATTRIBUTES if name in item), None)
            text = damage_document(item[name]["S"], fault) if name else None
            if name and text is not None:
                item[name] = {"S": text}
                return damaged
            if "until_s" in item and fault is not Fault.LATER:
                item["until_s"] = {"S": "noon"}
                return damaged
        return UNCHANGED

    return alter


_ITEM_ALTERATIONS: Final[Mapping[str, Alter]] = {fault: _damage_first_item(fault) for fault in ITEM_FAULTS}
_CONSISTENT_READ: Final[Mapping[str, str]] = {Fault.EMPTY: _CONSISTENT, Fault.STALE: _CONSISTENT}
DYNAMO_READS: Final[Mapping[str, FaultModel]] = {
    "GetItem": make_aws_model(
        "dynamodb",
        alterations=_ITEM_ALTERATIONS,
        not_applicable={**_CONSISTENT_READ, Fault.PARTIAL: "an item is read whole"},
    ),
    "Query": make_aws_model(
        "dynamodb",
        alterations={Fault.PARTIAL: _empty_first_page, **_ITEM_ALTERATIONS},
        not_applicable=_CONSISTENT_READ,
    ),
    "BatchGetItem": make_aws_model(
        "dynamodb",
        alterations={Fault.PARTIAL: _leave_unprocessed, **_ITEM_ALTERATIONS},
        not_applicable=_CONSISTENT_READ,
    ),
}
_NO_RESPONSE_BODY: Final[dict[str, str]] = dict.fromkeys(
    (Fault.PARTIAL, Fault.EMPTY, Fault.STALE), "a write is answered with nothing but that it is done"
)
DYNAMO_WRITE: Final = make_aws_model(
    "dynamodb",
    is_write=True,
    can_repeat=True,
    not_applicable=_NO_RESPONSE_BODY,
)


def _transaction_conflict(operation: str) -> Exception:
    error: Any = client_error(
        "TransactionCanceledException", "Transaction cancelled", 400, operation.rpartition(":")[2]
    )
    error.response["CancellationReasons"] = [{"Code": "TransactionConflict", "Message": "ongoing"}]
    return error  # type: ignore[no-any-return]


DYNAMO_TRANSACT: Final = replace(
    DYNAMO_WRITE, errors={**DYNAMO_WRITE.errors, "TransactionConflict": _transaction_conflict}
)

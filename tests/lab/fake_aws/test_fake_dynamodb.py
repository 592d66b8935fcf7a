"""The lab's DynamoDB: transactions that meet, limits, what is billed, and that nothing unknown passes."""

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from burstlab.fake_aws.dynamodb import Fault

TWO = {":n": {"N": "1"}, ":m": {"N": "2"}}
KEY = {"pk": {"S": "a"}, "sk": {"S": "b"}}


def put(client, sk="b", **attributes):
    client.put_item(TableName="t-1", Item={"pk": {"S": "a"}, "sk": {"S": sk}, **attributes})


def put_in_transaction(client, *sort_keys, **condition):
    puts = [
        {"TableName": "t-1", "Item": {"pk": {"S": "a"}, "sk": {"S": sk}}, **condition} for sk in sort_keys
    ]
    client.transact_write_items(TransactItems=[{"Put": item} for item in puts])


def code_of(call):
    with pytest.raises(ClientError) as exc_info:
        call()
    return exc_info.value.response["Error"]["Code"]


def reasons_of(call):
    with pytest.raises(ClientError) as exc_info:
        call()
    return [reason["Code"] for reason in exc_info.value.response["CancellationReasons"]]


def test_what_is_put_is_read(client):
    put(client, n={"N": "7"}, names={"SS": ["x"]}, blob={"B": b"\0\1"})
    item = client.get_item(TableName="t-1", Key=KEY, ConsistentRead=True)["Item"]
    assert item == {**KEY, "n": {"N": "7"}, "names": {"SS": ["x"]}, "blob": {"B": b"\0\1"}}


def test_a_transaction_is_all_or_nothing_and_names_the_failed_condition(table, client):
    put(client, "b")
    absent = {"ConditionExpression": "attribute_not_exists(pk)"}
    assert reasons_of(lambda: put_in_transaction(client, "a", "b", "c", **absent)) == [
        "None",
        "ConditionalCheckFailed",
        "None",
    ]
    assert set(table.items["a"]) == {"b"}


def test_transactions_on_one_item_that_overlap_conflict_and_so_does_a_single_write(table, client):
    """The second comes while the first waits."""
    results = []

    def wait(_):
        table.latency_s = 0.0
        results.append(reasons_of(lambda: put_in_transaction(client, "b", "c")))
        results.append(code_of(lambda: put(client)))

    table.latency_s, table.sleep = 1.0, wait
    put_in_transaction(client, "a", "b")
    assert results == [["TransactionConflict", "None"], "TransactionConflictException"]
    put_in_transaction(client, "b", "c")


def test_a_transaction_sent_again_with_its_token_happens_once(table, client):
    added = {
        "Update": {
            "TableName": "t-1",
            "Key": KEY,
            "UpdateExpression": "ADD n :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
    }
    for _ in range(2):
        client.transact_write_items(TransactItems=[added], ClientRequestToken="once")
    assert table.items["a"]["b"]["n"] == {"N": "1"}


@pytest.mark.parametrize(
    ("size_bytes", "units"), [(0, 1), (1000, 1), (1024, 2), (3000, 3)], ids=["key", "1 kB", "more", "3 kB"]
)
def test_writes_are_billed_by_the_kilobyte_and_twice_in_a_transaction(table, client, size_bytes, units):
    """``pk``, ``sk``, their values and the name ``x`` are 7 bytes."""
    put(client, x={"S": "x" * size_bytes})
    assert table.units.write == units
    put_in_transaction(client, "b")
    assert table.units.write == units + 2 * units


def test_reads_are_billed_by_four_kilobytes_and_at_least_one(table, client):
    query = {"TableName": "t-1", "KeyConditionExpression": "pk = :pk", "ConsistentRead": True}
    client.query(**query, ExpressionAttributeValues={":pk": {"S": "a"}})
    assert table.units.read == 1
    for number in range(10):
        put(client, f"{number}", x={"S": "x" * 1_000})
    client.query(**query, ExpressionAttributeValues={":pk": {"S": "a"}})
    assert table.units.read == 1 + 3


@pytest.mark.parametrize(
    "call",
    [
        lambda client: put(client, x={"S": "x" * 410_000}),
        lambda client: put(client, ""),
        lambda client: put(client, "x" * 1025),
        lambda client: put_in_transaction(client, "b", "b"),
        lambda client: put_in_transaction(client, *map(str, range(101))),
        lambda client: put_in_transaction(client, "b", ConditionExpression="attribute_exists(hold)"),
        lambda client: put_in_transaction(client, "b", ConditionExpression="n = :n"),
        lambda client: put_in_transaction(client, "b", ConditionExpression="size(n)"),
        lambda client: put_in_transaction(
            client, "b", ConditionExpression="n = :n", ExpressionAttributeValues=TWO
        ),
        lambda client: client.put_item(TableName="t-1", Item=KEY, ReturnValues="ALL_OLD"),
        lambda client: client.query(TableName="t-1", KeyConditionExpression="pk = :pk", IndexName="index"),
    ],
    ids=[
        "item too large", "empty key", "long key", "item twice", "101 actions", "reserved word",
        "undefined value", "unknown function", "unused value", "unknown parameter", "index",
    ],
)  # fmt: skip
def test_what_dynamodb_would_refuse_or_the_lab_does_not_know_does_not_pass(client, call):
    assert code_of(lambda: call(client)) == "ValidationException"


def test_scan_is_not_supported(client):
    assert code_of(lambda: client.scan(TableName="t-1")) == "UnknownOperationException"


def test_another_table_is_not_there(client):
    assert code_of(lambda: client.get_item(TableName="t-2", Key=KEY)) == "ResourceNotFoundException"


def test_faults_come_when_they_are_set_and_a_lost_answer_was_to_something_done(table, client, monkeypatch):
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    table.faults = [
        Fault("PutItem", "ThrottlingException", skipped_calls=1, times=2),
        Fault("GetItem", is_response_lost=True, times=2),
    ]
    put(client)
    assert code_of(lambda: put(client)) == "ThrottlingException"
    put(client)
    table.faults = [Fault("PutItem", is_response_lost=True, times=2)]
    with pytest.raises(ReadTimeoutError):
        put(client, "c")
    assert set(table.items["a"]) == {"b", "c"}

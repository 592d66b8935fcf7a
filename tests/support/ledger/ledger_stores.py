"""A ledger of each kind, for what must hold of all of them.

With ``BURSTWATCH_TEST_DYNAMODB`` set to the address of something on this machine that speaks as DynamoDB
does, the DynamoDB ledger is tested against that instead of the lab's table.
"""

import os
from contextlib import ExitStack, contextmanager
from functools import cache

import botocore.session
import pytest
from botocore.config import Config

from burstlab.fake_aws.dynamodb import FakeDynamoDb
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.adapters.ledger.sqlite import SqliteLedger

LEDGER_KINDS = ["sqlite", "dynamodb"]
each_ledger = pytest.mark.parametrize("ledger", LEDGER_KINDS, indirect=True)
TABLE = FakeDynamoDb().table
ENDPOINT = os.environ.get("BURSTWATCH_TEST_DYNAMODB")
WORKERS = 10


class SqliteStore:
    """A place for one ledger, which may be opened any number of times."""

    def __init__(self, path):
        self._path = path
        self._opened = ExitStack()
        self._connection = self.open()._connection

    def open(self):
        return self._opened.enter_context(SqliteLedger.open(self._path))

    def end_process(self, ledger):
        """As when the process ends that had it open."""
        ledger.close()

    def close(self):
        self._opened.close()

    def dump(self):
        return list(self._connection.iterdump())

    def reserved(self):
        """How many volumes count against the caps, and their dollars a month."""
        counted = "SELECT count(*), total(usd_per_month) FROM reservations"
        return self._connection.execute(counted).fetchone()

    def count_undelivered(self):
        return self._connection.execute("SELECT count(*) FROM deliveries").fetchone()[0]


class DynamoStore:
    """The same, in a table."""

    def __init__(self, endpoint=ENDPOINT, table=None):
        self.client = dynamodb_client(endpoint)
        self.table = None if endpoint else table or FakeDynamoDb()
        if self.table:
            self.table.attach(self.client)
        else:
            make_table(self.client)

    def open(self, **options):
        return DynamoLedger(self.client, TABLE, workers=WORKERS, **options)

    def end_process(self, ledger):
        pass

    def close(self):
        if self.table:
            self.table.detach(self.client)
        else:
            self.client.delete_table(TableName=TABLE)

    def dump(self):
        """Every item, without the names that a write gives itself."""
        if self.table:
            return {pk: dict(partition) for pk, partition in self.table.items.items() if partition}
        pages = self.client.get_paginator("scan").paginate(TableName=TABLE, ConsistentRead=True)
        results = {}
        for item in (item for page in pages for item in page["Items"]):
            results.setdefault(item["pk"]["S"], {})[item["sk"]["S"]] = item
        return results

    def reserved(self):
        items = self.dump()
        totals = items.get("ledger", {}).get("away", {"volumes": {"N": "0"}, "micro_usd": {"N": "0"}})
        volumes, micro_usd = int(totals["volumes"]["N"]), int(totals["micro_usd"]["N"])
        away = [
            int(item["away"]["N"])
            for pk, partition in items.items()
            for item in partition.values()
            if pk.startswith("states ") and "away" in item
        ]
        assert (volumes, micro_usd) == (len(away), sum(away))
        return volumes, micro_usd / 1e6

    def count_undelivered(self):
        return sum(len(items) for pk, items in self.dump().items() if pk.startswith("waiting "))


@cache
def dynamodb_client(endpoint=None, attempts=2):
    """One for all tests: it takes longer to make than most of them run."""
    return botocore.session.Session().create_client(
        "dynamodb",
        region_name="us-east-1",
        endpoint_url=endpoint or "http://127.0.0.1:9",
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key="wJalrXUtnFEMIsecret",
        config=Config(
            retries={"mode": "standard", "total_max_attempts": attempts}, max_pool_connections=WORKERS
        ),
    )


def make_table(client):
    """As the stack makes it, but for what only AWS does."""
    names = {"pk": "HASH", "sk": "RANGE"}
    client.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in names.items()],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
    )
    client.get_waiter("table_exists").wait(TableName=TABLE, WaiterConfig={"Delay": 1})


@contextmanager
def ledger_store(kind, tmp_path):
    """A place for a ledger of this kind."""
    home = SqliteStore(tmp_path / "ledger.db") if kind == "sqlite" else DynamoStore()
    try:
        yield home
    finally:
        home.close()

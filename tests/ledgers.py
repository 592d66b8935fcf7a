"""A ledger of each kind, for what must hold of all of them.

With ``BURSTWATCH_TEST_DYNAMODB`` set to the address of something on this machine that speaks as DynamoDB
does, the DynamoDB ledger is tested against that instead of the lab's table.
"""

import os
from contextlib import ExitStack, contextmanager
from functools import cache

import botocore.session
from botocore.config import Config

from burstlab.fake_aws.dynamodb import DynamoDb
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.adapters.ledger.sqlite import SqliteLedger

KINDS = ["sqlite", "dynamodb"]
TABLE = DynamoDb().table
ENDPOINT = os.environ.get("BURSTWATCH_TEST_DYNAMODB")
WORKERS = 10


class SqliteHome:
    """A place for one ledger, which may be opened any number of times."""

    def __init__(self, path):
        self._path = path
        self._opened = ExitStack()
        self._connection = self.open()._connection

    def open(self):
        return self._opened.enter_context(SqliteLedger.open(self._path))

    def end(self, ledger):
        """As when the process ends that had it open."""
        ledger.close()

    def close(self):
        self._opened.close()

    def everything(self):
        return list(self._connection.iterdump())

    def reserved(self):
        """How many volumes count against the caps, and their dollars a month."""
        counted = "SELECT count(*), total(usd_per_month) FROM reservations"
        return self._connection.execute(counted).fetchone()

    def count_undelivered(self):
        return self._connection.execute("SELECT count(*) FROM deliveries").fetchone()[0]


class DynamoHome:
    """The same, in a table."""

    def __init__(self, endpoint=ENDPOINT, table=None):
        self.client = a_client(endpoint)
        self.table = None if endpoint else table or DynamoDb()
        if self.table:
            self.table.attach(self.client)
        else:
            make_table(self.client)

    def open(self, **options):
        return DynamoLedger(self.client, TABLE, workers=WORKERS, **options)

    def end(self, ledger):
        pass

    def close(self):
        if self.table:
            self.table.detach(self.client)
        else:
            self.client.delete_table(TableName=TABLE)

    def everything(self):
        """Every item, without the names that a write gives itself."""
        if self.table:
            return {pk: dict(partition) for pk, partition in self.table.items.items() if partition}
        pages = self.client.get_paginator("scan").paginate(TableName=TABLE, ConsistentRead=True)
        found = {}
        for item in (item for page in pages for item in page["Items"]):
            found.setdefault(item["pk"]["S"], {})[item["sk"]["S"]] = item
        return found

    def reserved(self):
        items = self.everything()
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
        return sum(len(items) for pk, items in self.everything().items() if pk.startswith("waiting "))


@cache
def a_client(endpoint=None, attempts=2):
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
def a_home(kind, tmp_path):
    """A place for a ledger of this kind."""
    home = SqliteHome(tmp_path / "ledger.db") if kind == "sqlite" else DynamoHome()
    try:
        yield home
    finally:
        home.close()

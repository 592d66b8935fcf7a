import pytest

from burstlab.fake_aws.dynamodb import FakeDynamoDb
from support.ledger.ledger_stores import dynamodb_client
from support.policy_function import FakeSsm, PolicyReaderFunction, policy


@pytest.fixture
def table():
    client, table = dynamodb_client(), FakeDynamoDb()
    table.attach(client)
    yield table
    table.detach(client)


@pytest.fixture
def function(table, time):
    return PolicyReaderFunction(FakeSsm(deployed=policy(61)), time)

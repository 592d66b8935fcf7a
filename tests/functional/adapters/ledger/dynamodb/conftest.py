import pytest

from support.ledger.ledger_stores import DynamoStore


@pytest.fixture
def home(request):
    """A table; with the mark ``call_s`` its calls take time, and transactions stand in each other's way."""
    place = DynamoStore(endpoint=None)
    if mark := request.node.get_closest_marker("call_s"):
        place.table.latency_s = mark.args[0]
    yield place
    place.close()


@pytest.fixture
def table(home):
    return home.table


@pytest.fixture
def ledger(home):
    return home.open(sleep=lambda _: None)


@pytest.fixture
def second_ledger(ledger, home):
    """The same ledger as another process would have it open."""
    return home.open(sleep=lambda _: None)


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()

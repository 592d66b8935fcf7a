import pytest

from support.ledger_stores import LEDGER_KINDS, ledger_store


@pytest.fixture(params=LEDGER_KINDS)
def home(request, tmp_path):
    with ledger_store(request.param, tmp_path) as place:
        yield place


@pytest.fixture
def ledger(home):
    return home.open()


@pytest.fixture
def second_ledger(ledger, home):
    """The same ledger as another process would have it open."""
    return home.open()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"

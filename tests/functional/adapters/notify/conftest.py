import pytest

from support.fake_slack import (
    FakeTime,
    start_fake_slack,
)


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
def slack():
    with start_fake_slack() as fake:
        yield fake

import pytest

from support.delivery.fake_slack import FakeTime


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
def no_retry_delay(monkeypatch):
    """botocore's own backoff takes no time."""
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)

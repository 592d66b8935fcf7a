import pytest

from support.builders.functions import (
    deploy_functions,
)


@pytest.fixture
def lab(functions):
    return functions.lab


@pytest.fixture
def functions(monkeypatch):
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    with deploy_functions(monkeypatch) as deployed:
        yield deployed

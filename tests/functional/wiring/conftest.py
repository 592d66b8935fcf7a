from io import StringIO
from itertools import count

import pytest

from burstwatch.wiring.observability import Telemetry

NUMBERS = count()


@pytest.fixture
def environ():
    """With a service of its own: Powertools keeps one logger for each until the process ends."""
    return {
        "POWERTOOLS_SERVICE_NAME": f"prod-{next(NUMBERS)}",
        "POWERTOOLS_METRICS_NAMESPACE": "Burstwatch",
        "POWERTOOLS_LOG_LEVEL": "INFO",
    }


@pytest.fixture
def log():
    return StringIO()


@pytest.fixture
def telemetry(environ, log):
    return Telemetry.from_env(environ, stream=log)


@pytest.fixture
def in_lambda(monkeypatch, environ):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

import sys
from pathlib import Path

import pytest

from burstctl.init.monthly_cost import StackResources
from burstwatch.core.instances.instance_buckets import instance_io_bucket
from support.bench_loader import VOLUMES, load_bench


@pytest.fixture(scope="module")
def functions_by_trace():
    traces = load_bench("call_trace").measure()
    return {name: trace.functions_by_file() for name, trace in traces.items()}


@pytest.fixture
def compare():
    return load_bench("compare")


@pytest.fixture
def burstwatch(compare):
    return compare.make_contenders(Path(sys.executable))[-1]


@pytest.fixture
def canned_aws():
    return load_bench("canned_aws")


@pytest.fixture
def aws(canned_aws, monkeypatch):
    """A hundred and twenty volumes of which six drain, and an environment in which they are AWS."""
    with canned_aws.CannedEndpoint(VOLUMES, some_drain=True) as aws:
        aws.faults.set_latency(0)
        for name, value in aws.environment.items():
            monkeypatch.setenv(name, value)
        yield aws


@pytest.fixture
def alerts():
    return load_bench("alerts/instance_alerts")


@pytest.fixture
def costs():
    return load_bench("cost/watch_instances")


@pytest.fixture
def bucket(alerts):
    """The I/O bucket of m5.large, which lasts for 30 minutes at the maximum."""
    return instance_io_bucket(alerts.TYPES["m5.large"])


@pytest.fixture(scope="module")
def organisation_model():
    return load_bench("cost/organisation_estimate")


@pytest.fixture
def stack():
    return StackResources(
        alarms=17,
        dashboards=1,
        keys=1,
        functions=4,
        watch_gib=1769 / 1024,
        watch_timeout_s=300,
        event_queues=2,
        flip_queues=1,
    )


@pytest.fixture
def bench():
    return load_bench("alerts/storage_alerts")


@pytest.fixture(scope="module")
def year_bench():
    return load_bench("year")


@pytest.fixture(scope="module")
def episode(year_bench):
    return year_bench.record_incident()

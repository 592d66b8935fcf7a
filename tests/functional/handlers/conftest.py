import re
from types import SimpleNamespace

import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.httpsession import URLLib3Session
from moto import mock_aws

from burstlab.model.volume import LabVolume
from burstwatch.handlers import notify
from burstwatch.handlers.runtime import FunctionRuntime
from burstwatch.wiring.function_settings import FunctionSettings
from burstwatch.wiring.observability import Telemetry
from support.builders.functions import ACCOUNT, AUTO, OTHER_HOST, deploy_functions, use_lab_time
from support.cli.cli_session import add_critical, start_lab
from support.delivery.notify_function import SECRET_VALUES, NotifyFunction
from support.ledger.ledger_stores import TABLE
from support.marks import lab_settings


@pytest.fixture
def lab(functions):
    return functions.lab


@pytest.fixture
def two_hosts(cli_lab):
    cli_lab.fleet.add(LabVolume(size_gib=8, volume_type="gp3", instance_id=OTHER_HOST))
    return cli_lab


@pytest.fixture
def ec2(two_hosts):
    client = two_hosts.client("ec2")
    yield client
    client.close()


@pytest.fixture
def cli_lab(request, cli):
    """The lab that ``cli`` takes for AWS, beside that of the deployed functions."""
    with start_lab(cli, **lab_settings(request)) as endpoint:
        yield endpoint


@pytest.fixture
def flip_candidate(functions, lab):
    """A volume for whose flip watch has asked; people know that it drains."""
    volume_id = add_critical(lab, tags=AUTO)
    functions.watch("sweep")
    assert functions.alert_kinds() == ["BurstBalanceDraining"]
    return volume_id


@pytest.fixture
def build_runtime(functions, lab, monkeypatch):
    """Builds the runtime of a function from an environment as the stack writes it."""

    def build(verb="watch", account=ACCOUNT, **changes):
        for name, value in lab.environment.items():
            monkeypatch.setenv(name, value)
        environment = lab.environment | functions.environment(verb) | changes
        runtime = FunctionRuntime.build(FunctionSettings.from_env(environment), account)
        use_lab_time(runtime, lab.clock.now_s)
        return runtime

    return build


@pytest.fixture
def telemetry(functions):
    return Telemetry.from_env({"POWERTOOLS_SERVICE_NAME": functions.service})


@pytest.fixture
def function(slack):
    with mock_aws():
        yield NotifyFunction(slack)


@pytest.fixture
def deployed_function(function, monkeypatch):
    environ = {
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "BURSTWATCH_LEDGER": f"dynamodb:{TABLE}",
        "BURSTWATCH_DEPLOYMENT": "prod",
        "BURSTWATCH_SLACK_SECRET": SECRET_VALUES,
        "BURSTWATCH_CHAT_TOPIC_ARN": function.topic,
        "POWERTOOLS_SERVICE_NAME": "prod",
        "POWERTOOLS_METRICS_NAMESPACE": "Burstwatch",
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    notify._open_channels.cache_clear()
    yield function
    notify._open_channels.cache_clear()


@pytest.fixture
def modifying_volume(functions, lab):
    """A volume being modified to gp3, of which people know."""
    lab.fleet.change_settings(modifying_s=90.0, modify_spread=0.0, modify_minutes_per_tib=60.0)
    volume_id = add_critical(lab, tags=AUTO)
    functions.tick()
    functions.flip()
    assert functions.alert_kinds() == ["BurstBalanceDraining", "VolumeFlipped"]
    return volume_id


class UnresponsiveAws:
    """Calls that are taken and never answered: their time-outs pass on a clock of its own."""

    def __init__(self):
        self.calls = frozenset()
        self.spent_s = 0.0
        self._send = URLLib3Session.send

    def send(self, session, request):
        if self.operation_of(request) not in self.calls:
            return self._send(session, request)
        self.spent_s += session._timeout.read_timeout
        raise ReadTimeoutError(endpoint_url=request.url)

    def operation_of(self, request):
        if target := request.headers.get("X-Amz-Target"):
            return target.decode().rpartition(".")[2]
        result = re.search(r"\bAction=(\w+)", str(request.body))
        return result and result[1]

    def sleep(self, seconds):
        self.spent_s += seconds


@pytest.fixture
def unresponsive_aws(monkeypatch):
    result = UnresponsiveAws()

    def send(session, request):
        return result.send(session, request)

    monkeypatch.setattr(URLLib3Session, "send", send)
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=result.sleep))
    return result


@pytest.fixture
def stuck_functions(monkeypatch, unresponsive_aws):
    with deploy_functions(monkeypatch) as deployed:
        yield deployed

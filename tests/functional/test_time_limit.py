"""No AWS call outlives an invocation, whichever service takes requests and never answers."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import some_functions as functions_module
from botocore.exceptions import ReadTimeoutError
from botocore.httpsession import URLLib3Session
from operators_desk import add_critical
from some_functions import AUTO, instant, some_functions

from burstwatch.core.errors import BurstwatchError

TEMPLATE = json.loads((Path(__file__).parents[1] / "infra" / "template.json").read_text())
TIMEOUTS_S = {
    each["Properties"]["Handler"].split(".")[2]: each["Properties"]["Timeout"]
    for each in TEMPLATE["Resources"].values()
    if each["Type"] == "AWS::Lambda::Function" and "burstwatch" in str(each["Properties"].get("Handler"))
}
CALLS = {
    "ec2": ["DescribeVolumes", "DescribeVolumesModifications", "DescribeInstances", "DescribeInstanceTypes"],
    "ec2, only modifying": ["ModifyVolume"],
    "cloudwatch": ["GetMetricData"],
    "dynamodb": ["GetItem", "Query", "BatchGetItem", "PutItem", "TransactWriteItems"],
    "ssm": ["GetParameters", "GetParametersByPath"],
    "sns": ["Publish"],
    "sqs": ["SendMessageBatch", "ChangeMessageVisibility"],
}
EVERYTHING = sorted({call for calls in CALLS.values() for call in calls})


class BlackHoles:
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
        found = re.search(r"\bAction=(\w+)", str(request.body))
        return found and found[1]

    def sleep(self, seconds):
        self.spent_s += seconds


@pytest.fixture
def holes(monkeypatch):
    found = BlackHoles()

    def send(session, request):
        return found.send(session, request)

    monkeypatch.setattr(URLLib3Session, "send", send)
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=found.sleep))
    return found


@pytest.fixture
def functions(monkeypatch, holes):
    with some_functions(monkeypatch) as found:
        yield found


def invoke(functions, holes, monkeypatch, verb, event):
    """With as much time as the stack gives; answers whether it ended by itself, in time."""
    real = functions_module.a_context
    holes.spent_s = 0.0

    def a_context(*given):
        context = real(*given)
        context.get_remaining_time_in_millis = lambda: int(1000 * (TIMEOUTS_S[verb] - holes.spent_s))
        return context

    with monkeypatch.context() as here:
        here.setattr(functions_module, "a_context", a_context)
        try:
            functions.invoke(verb, event)
        except BurstwatchError as error:
            return str(error) + functions.last.text
    return functions.last.text


def event_for(functions, verb, volume_id):
    if verb == "watch":
        functions.lab.clock.advance(300)
    now = instant(functions.lab.clock.now_s())
    if verb == "watch":
        return {"mode": "sweep", "time": now}
    if verb == "flip":
        return {"Records": functions.requests()}
    return {
        "source": "aws.ec2",
        "detail-type": "EBS Volume Notification",
        "time": now,
        "resources": [f"arn:aws:ec2:us-east-1:123456789012:volume/{volume_id}"],
        "detail": {"event": "modifyVolume"},
    }


@pytest.mark.parametrize("verb", ["watch", "flip", "settle"])
@pytest.mark.parametrize(
    ("service", "is_cold"), [*((each, False) for each in CALLS), ("everything", False), ("everything", True)]
)
def test_no_invocation_is_ended_by_a_service_that_does_not_answer(
    functions, holes, monkeypatch, verb, service, is_cold
):
    volume_id = add_critical(functions.lab, tags=AUTO)
    functions.watch("sweep")
    event = event_for(functions, verb, volume_id)
    if is_cold:
        functions.end()
    else:
        functions.invoke("flip", {"Records": [functions_module.a_message("?")]})
        functions.invoke("settle", event_for(functions, "settle", volume_id))
    holes.calls = frozenset(EVERYTHING if service == "everything" else CALLS[service])
    text = invoke(functions, holes, monkeypatch, verb, event)
    assert holes.spent_s < TIMEOUTS_S[verb]
    if holes.spent_s:
        assert any(call.removesuffix("Batch") in text for call in holes.calls), "the log names what was slow"


def test_a_call_that_could_outlive_the_invocation_is_not_sent_and_the_log_says_so(functions, monkeypatch):
    volume_id = add_critical(functions.lab, tags=AUTO)
    functions.watch("sweep")
    before = functions.lab.faults.calls().get("DescribeVolumes", 0)
    monkeypatch.setattr(functions_module, "TIME_LEFT_MS", 9_000)
    said = functions.invoke("settle", event_for(functions, "settle", volume_id))
    assert functions.lab.faults.calls().get("DescribeVolumes", 0) == before
    assert "ec2:DescribeVolumes failed (OutOfTimeError): it was not sent: 9 s are left of the" in said.text


def test_a_slow_call_is_reported_by_its_name(functions, monkeypatch):
    monkeypatch.setattr("burstwatch.adapters.aws.time_limit._SLOW_S", 0.0)
    add_critical(functions.lab, tags=AUTO)
    said = functions.watch("sweep")
    assert any(re.fullmatch(r"ec2:DescribeVolumes took \d+\.\d s", each) for each in said.warnings)

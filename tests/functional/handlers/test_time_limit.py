"""No AWS call outlives an invocation, whichever service takes requests and never answers."""

import re

import pytest

from burstwatch.core.errors import BurstwatchError
from support.builders import functions as functions_module
from support.builders.functions import AUTO, to_instant
from support.cli.cli_session import add_critical
from support.paths import ROOT

RESOURCES = (ROOT / "tests" / "infra" / "resources.txt").read_text()
TIMEOUTS_S = {
    function.lower(): int(timeout_s)
    for function, timeout_s in re.findall(
        r"^(\w+)Function\w+ AWS::Lambda::Function .*Timeout=(\d+)", RESOURCES, re.MULTILINE
    )
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
ALL_SERVICES = sorted({call for calls in CALLS.values() for call in calls})


def invoke(stuck_functions, unresponsive_aws, monkeypatch, verb, event):
    """With as much time as the stack gives; answers whether it ended by itself, in time."""
    real = functions_module.a_lambda_context
    unresponsive_aws.spent_s = 0.0

    def a_context(*args):
        context = real(*args)
        context.get_remaining_time_in_millis = lambda: int(
            1000 * (TIMEOUTS_S[verb] - unresponsive_aws.spent_s)
        )
        return context

    with monkeypatch.context() as patch:
        patch.setattr(functions_module, "a_lambda_context", a_context)
        try:
            stuck_functions.invoke(verb, event)
        except BurstwatchError as error:
            return str(error) + stuck_functions.last.text
    return stuck_functions.last.text


def event_for(stuck_functions, verb, volume_id):
    if verb == "watch":
        stuck_functions.lab.clock.advance(300)
    now = to_instant(stuck_functions.lab.clock.now_s())
    if verb == "watch":
        return {"mode": "sweep", "time": now}
    if verb == "flip":
        return {"Records": stuck_functions.requests()}
    return {
        "source": "aws.ec2",
        "detail-type": "EBS Volume Notification",
        "time": now,
        "resources": [f"arn:aws:ec2:us-east-1:123456789012:volume/{volume_id}"],
        "detail": {"event": "modifyVolume"},
    }


@pytest.mark.parametrize("verb", ["watch", "flip", "settle"])
@pytest.mark.parametrize(
    ("service", "is_cold"),
    [*((service_name, False) for service_name in CALLS), ("everything", False), ("everything", True)],
)
def test_no_invocation_is_ended_by_a_service_that_does_not_answer(
    stuck_functions, unresponsive_aws, monkeypatch, verb, service, is_cold
):
    volume_id = add_critical(stuck_functions.lab, tags=AUTO)
    stuck_functions.watch("sweep")
    event = event_for(stuck_functions, verb, volume_id)
    if is_cold:
        stuck_functions.end_invocation()
    else:
        stuck_functions.invoke("flip", {"Records": [functions_module.a_message("?")]})
        stuck_functions.invoke("settle", event_for(stuck_functions, "settle", volume_id))
    unresponsive_aws.calls = frozenset(ALL_SERVICES if service == "everything" else CALLS[service])
    text = invoke(stuck_functions, unresponsive_aws, monkeypatch, verb, event)
    assert unresponsive_aws.spent_s < TIMEOUTS_S[verb]
    if unresponsive_aws.spent_s:
        assert any(call.removesuffix("Batch") in text for call in unresponsive_aws.calls), (
            "the log names what was slow"
        )


def test_a_call_that_could_outlive_the_invocation_is_not_sent_and_is_logged(stuck_functions, monkeypatch):
    volume_id = add_critical(stuck_functions.lab, tags=AUTO)
    stuck_functions.watch("sweep")
    before = stuck_functions.lab.faults.call_counts().get("DescribeVolumes", 0)
    monkeypatch.setattr(functions_module, "TIME_LEFT_MS", 9_000)
    output = stuck_functions.invoke("settle", event_for(stuck_functions, "settle", volume_id))
    assert stuck_functions.lab.faults.call_counts().get("DescribeVolumes", 0) == before
    assert "ec2:DescribeVolumes failed (OutOfTimeError): it was not sent: 9 s are left of the" in output.text


def test_a_slow_call_is_reported_by_its_name(stuck_functions, monkeypatch):
    monkeypatch.setattr("burstwatch.adapters.aws.time_limit._SLOW_CALL_S", 0.0)
    add_critical(stuck_functions.lab, tags=AUTO)
    output = stuck_functions.watch("sweep")
    assert any(re.fullmatch(r"ec2:DescribeVolumes took \d+\.\d s", warning) for warning in output.warnings)

import json

import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.stub import Stubber
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.sns import SnsChannel
from burstwatch.core.alerts.alert import Alert
from support.builders.alerts import (
    a_digest,
    a_drain_alert_with_cause,
    a_policy_rejection,
    an_alert,
    an_event_digest,
    event_alerts_of_every_kind,
)
from support.delivery.fake_delivery import TOPIC

MAX_BYTES = 262_144


def message_formats(request):
    return json.loads(request["Message"])


def test_people_get_text_and_programs_get_json(publish):
    alert = an_alert()
    request = publish(alert)
    body = message_formats(request)
    assert request["MessageStructure"] == "json"
    assert set(body) == {"default", "email", "sms", "lambda", "sqs", "http", "https"}
    for protocol in ("lambda", "sqs", "http", "https"):
        assert Alert.from_document(json.loads(body[protocol])) == alert
        assert json.loads(body[protocol])["schema"] == "burstwatch.alert/v1"
    assert body["email"] == body["default"]
    assert all(isinstance(form, str) for form in body.values())


def test_the_words_hold_all_that_a_person_needs_to_act(publish):
    alert = an_alert()
    text = message_formats(publish(alert))["default"]
    assert text.startswith("CRITICAL: ci-7 is empty in about 12 min (us-east-1)\n\nBurst balance 31.5 % ")
    for needed in (
        alert.volume_id, "ci-7", "i-0fedcba9876543210", "31.5 %", "18:12", "18:09", alert.action,
        alert.runbook, alert.console_url, alert.alert_id, "2026-11-20T18:00:35Z",
    ):  # fmt: skip
        assert needed in text


def test_a_drain_names_its_cause_to_people_and_to_programs(publish):
    request = publish(a_drain_alert_with_cause())
    body = message_formats(request)
    for needed in (
        "Balance from 17:27 to 17:59 UTC: 100.0 % ▇▇·▇▆▅▅▃▂ 31.5 %",
        "since then it served 600 reads/s of 4 KiB and 1,800 writes/s of 16 KiB (75 % writes).",
        "The same drain at this hour on 5 of the last 7 days.",
        "See why:\n  burstctl explain vol-0123456789abcdef0 --region us-east-1",
        "Stop automatic changes:\n  burstctl hold vol-0123456789abcdef0 --region us-east-1 --for 2h",
    ):
        assert needed in body["email"]
    document = json.loads(body["lambda"])
    assert document["volume"]["claim"] == "data-etcd-0"
    assert document["evidence"]["drain"]["days_alike"] == 5
    assert request["Subject"] == (
        "CRITICAL: claim data-etcd-0 in kube-system is empty in about 12 min (us-east-1)"
    )


def test_an_e_mail_has_what_is_urgent_first_and_the_ids_last(publish):
    paragraphs = message_formats(publish(a_drain_alert_with_cause()))["email"].split("\n\n")
    assert [paragraph.split(" ")[0] for paragraph in paragraphs] == [
        "CRITICAL:", "Burst", "What", "Balance", "See", "Stop", "Runbook:", "2026-11-20T18:00:35Z",
    ]  # fmt: skip
    assert paragraphs[-2].splitlines()[2:] == [
        "Kubernetes: cluster prod",
        "Volume: vol-0123456789abcdef0",
        "Attached as: /dev/xvda on i-0fedcba9876543210 build-3",
        "Account: 123456789012",
    ]


@pytest.mark.parametrize("alert", event_alerts_of_every_kind(), ids=lambda alert: alert.kind)
def test_an_event_is_shown_in_full_to_people_and_to_programs(publish, alert):
    request = publish(alert)
    body = message_formats(request)
    assert Alert.from_document(json.loads(body["lambda"])) == alert
    for needed in (*alert.evidence["details"], alert.action or "", alert.runbook, alert.alert_id):
        assert needed in body["email"]
    assert request["MessageAttributes"]["kind"]["StringValue"] == alert.kind
    assert request["MessageAttributes"]["volume_id"]["StringValue"] == (alert.volume_id or "none")


@pytest.mark.parametrize("alert", event_alerts_of_every_kind(), ids=lambda alert: alert.kind)
def test_a_subject_is_long_enough_for_what_happened_the_volume_and_the_region(publish, alert):
    subject = publish(alert)["Subject"]
    assert alert.evidence["summary"] in subject
    assert alert.volume_id is None or ": ci-7 " in subject
    assert "us-east-1" in subject


def test_attributes_let_subscribers_filter(publish):
    attributes = publish(an_alert())["MessageAttributes"]
    assert {name: value["StringValue"] for name, value in attributes.items()} == {
        "kind": "BurstBalanceDraining",
        "level": "critical",
        "volume_id": "vol-0123456789abcdef0",
        "resource_id": "vol-0123456789abcdef0",
        "region": "us-east-1",
        "account": "123456789012",
    }
    assert {value["DataType"] for value in attributes.values()} == {"String"}


@pytest.mark.parametrize("alert", [a_digest(), a_policy_rejection("x")], ids=["digest", "policy"])
def test_an_alert_without_a_volume_still_has_every_attribute(publish, alert):
    attributes = publish(alert)["MessageAttributes"]
    assert attributes["volume_id"]["StringValue"] == "none"
    assert all(value["StringValue"] for value in attributes.values())


def test_an_unknown_account_is_reported_as_unknown(publish):
    attributes = publish(an_alert(volume={"account": None}))["MessageAttributes"]
    assert attributes["account"]["StringValue"] == "unknown"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("ci-7", "ci-7"), ("büro", "buro"), ("x\r\nBcc: all", "x Bcc: all"), ("日本", "??"), ("a\x1bb", "a?b")],
)
def test_a_subject_is_one_short_line_of_ascii(publish, name, expected):
    subject = publish(an_alert(volume={"name": name, "instance_id": None}))["Subject"]
    assert expected in subject
    assert subject.isascii()
    assert subject.isprintable()
    assert 0 < len(subject) < 100


def test_a_long_subject_is_cut_and_marked_as_cut(publish):
    subject = publish(an_alert(volume={"name": "n" * 256, "region": "r" * 80}))["Subject"]
    assert len(subject) == 99
    assert subject.endswith("...")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(max_size=300), st.text(max_size=300))
def test_any_name_and_reason_make_a_request_that_sns_takes(publish, name, because):
    alert = an_alert(volume={"name": name}, reading={"burst_balance_pct": None, "unknown_because": because})
    request = publish(alert)
    assert request["Subject"].isascii()
    assert request["Subject"].isprintable()
    assert len(request["Subject"]) < 100
    assert json.loads(message_formats(request)["sqs"])["volume"]["name"] == name
    request["Message"].encode()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(max_size=300))
def test_any_text_in_an_alert_about_a_flip_or_a_window_makes_a_request_that_sns_takes(publish, text):
    for alert in (*event_alerts_of_every_kind(text), an_event_digest(text)):
        request = publish(alert)
        assert request["Subject"].isascii()
        assert request["Subject"].isprintable()
        assert len(request["Subject"]) < 100
        assert size(request) <= MAX_BYTES
        assert all(value["StringValue"] for value in request["MessageAttributes"].values())


def test_a_huge_alert_loses_evidence_and_stays_whole(publish):
    # Four programs get the document: 3,000 faults of 40 characters are 480,000 bytes and more.
    request = publish(a_policy_rejection(*(f"levels.warning_within: fault {n:010d}" for n in range(3000))))
    assert size(request) <= MAX_BYTES
    document = json.loads(message_formats(request)["sqs"])
    assert document["evidence"]["is_cut"] is True
    assert len(document["evidence"]["faults"]) == 20
    assert document["evidence"]["in_force"] == "the policy of 2026-11-19"
    assert "… and " in message_formats(request)["default"]


def test_huge_texts_anywhere_are_cut_as_a_last_resort(publish):
    request = publish(an_alert(volume={"name": "\\" * 100_000}, reading={"unknown_because": "é" * 100_000}))
    assert size(request) <= MAX_BYTES
    document = json.loads(message_formats(request)["sqs"])
    assert document["volume"]["name"].endswith("…")
    assert document["volume"]["volume_id"] == "vol-0123456789abcdef0"


def size(request):
    attributes = request["MessageAttributes"].items()
    counted = [name + value["DataType"] + value["StringValue"] for name, value in attributes]
    return sum(len(text.encode()) for text in [request["Message"], *counted])


def test_a_standard_topic_gets_no_order(publish):
    request = publish(an_alert())
    assert request["TopicArn"] == TOPIC
    assert not {"MessageGroupId", "MessageDeduplicationId"} & set(request)


@pytest.mark.parametrize(
    ("alert", "group"), [(an_alert(), "vol-0123456789abcdef0"), (a_digest(), "burstwatch")]
)
def test_a_fifo_topic_keeps_order_per_volume_and_drops_repeats(publish, alert, group):
    request = publish(alert, f"{TOPIC}.fifo")
    assert request["MessageGroupId"] == group
    assert request["MessageDeduplicationId"] == alert.alert_id


@pytest.mark.parametrize(
    ("code", "is_permanent", "message"),
    [
        ("NotFound", True, "create the topic"),
        ("AuthorizationError", True, "grant sns:Publish"),
        ("KMSAccessDenied", True, "allow kms:GenerateDataKey"),
        ("KMSDisabled", True, "enable the topic's key"),
        ("InvalidParameter", True, "check the ARN"),
        ("InvalidClientTokenId", True, "run aws sso login"),
        ("Throttled", False, "next pass"),
        ("KMSThrottling", False, "next pass"),
        ("InternalError", False, "try again"),
    ],
)
def test_an_error_names_the_next_step(sns, code, is_permanent, message):
    with Stubber(sns) as stub:
        stub.add_client_error("publish", code, "the reason AWS gave\nin two lines")
        with pytest.raises(ChannelError, match=message) as exc_info:
            SnsChannel(sns, TOPIC).send(an_alert())
    assert exc_info.value.is_permanent is is_permanent
    assert code in str(exc_info.value)
    assert "\n" not in str(exc_info.value)
    assert TOPIC in str(exc_info.value)


def test_a_network_failure_is_transient():
    class DownClient:
        def publish(self, **_):
            raise EndpointConnectionError(endpoint_url="https://sns.us-east-1.amazonaws.com/")

    with pytest.raises(ChannelError, match="could not be reached") as exc_info:
        SnsChannel(DownClient(), TOPIC).send(an_alert())
    assert not exc_info.value.is_permanent

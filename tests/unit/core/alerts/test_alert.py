import json
import re
from dataclasses import replace

import pytest

from burstwatch.adapters.notify.message import message_from_alert
from burstwatch.core.alerts.alert import (
    Alert,
    AlertKind,
    action_label,
    alert_urgency,
    describe_forecast,
    describe_reading,
    describe_volume,
    format_forecast,
    format_sentences,
    format_title,
    is_command,
    make_alert_id,
    make_digest,
    make_policy_rejected,
    make_test_alert,
    runbook_link,
)
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.series import Series
from burstwatch.core.flips.reconciliation.observed_state import ObservedState
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.policy.volume_tags import VolumeSettings
from burstwatch.core.policy.windows import UNTIL_STOPPED, TimeInterval
from burstwatch.core.text import format_clock, format_duration, format_instant
from burstwatch.core.watch.decide import decide
from support.builders.alert_of_kind import HERE, alert_of_kind
from support.builders.core_values import (
    IO1,
    NOON,
    TrackedVolume,
    a_decision,
    a_modification,
    a_state,
    a_tick_context,
    a_volume,
    a_window_state,
    an_assessment,
    at,
    balances,
    draining_to,
)
from support.builders.events import (
    NOON_S,
    VOLUME_ID,
    a_named_volume,
    alert_after_evaluation,
    event_alerts,
    left_on_target_alert,
    on_target,
    refused_by_aws_alert,
    state_of,
    window_alert,
)

NAMED = a_volume(tags={"Name": "ci-7"}, device="/dev/sda1")
A_CLAIM = {
    "Name": "prod-dynamic-pvc-a3ab0567-3a48-4608-8cb6-4e3b1485c808",
    "kubernetes.io/created-for/pvc/name": "data-etcd-0",
    "kubernetes.io/created-for/pvc/namespace": "kube-system",
}


def a_draining_alert(**changes) -> Alert:
    # 18 % of 100 GiB = 972,000 credits, 3 % a minute = 2,700 a second: 6 min, of which one is over.
    balance = draining_to(18, 3, count=20)
    [alert] = a_decision(
        an_assessment(balance, volume=a_volume(**{"tags": {"Name": "ci-7"}} | changes))
    ).alerts
    return alert


# the document


def test_an_alert_is_one_document():
    assert a_draining_alert().to_document() == {
        "schema": "burstwatch.alert/v1",
        "alert_id": make_alert_id("vol-0a1", AlertKind.DRAINING, int(at("12:00"))),
        "kind": "BurstBalanceDraining",
        "level": "critical",
        "previous_level": "ok",
        "is_reminder": False,
        "volume": {
            "volume_id": "vol-0a1",
            "name": "ci-7",
            "called": "ci-7",
            "claim": None,
            "namespace": None,
            "cluster": None,
            "volume_type": "gp2",
            "size_gib": 100,
            "instance_id": "i-0a1",
            "instance_name": None,
            "device": None,
            "region": "us-east-1",
            "account": "111122223333",
        },
        "resource": {
            "resource_id": "vol-0a1",
            "resource_type": "ebs",
            "bucket": "ebs-io",
            "name": "ci-7",
            "called": "ci-7",
            "instance_type": None,
            "region": "us-east-1",
            "account": "111122223333",
        },
        "reading": {
            "burst_balance_pct": 18.0,
            "credits": 972_000,
            "baseline_iops": 300,
            "unit": "operations",
            "baseline": 300,
            "baseline_unit": "IOPS",
            "datapoint_at": "2026-11-20T11:59:00Z",
            "datapoint_age_s": 60,
            "unknown_reason": None,
            "unknown_because": None,
        },
        "forecast": {
            "drain_per_s": 2_700.0,
            "time_to_empty_s": 300,
            "soonest_empty_s": 300,
            "earliest_s": 300,
            "latest_s": 300,
            "time_to_empty_at": "2026-11-20T12:05:00Z",
            "soonest_empty_at": "2026-11-20T12:05:00Z",
            "earliest_at": "2026-11-20T12:05:00Z",
            "latest_at": "2026-11-20T12:05:00Z",
        },
        "evidence": {
            "because": "at this pace it is empty within 15 min",
            "drain_per_s_by_horizon": {"3m": 2_700.0, "5m": 2_700.0, "10m": 2_700.0, "15m": 2_700.0},
            "consumed_read_iops": None,
            "consumed_write_iops": None,
            # 20 samples from 11:39 on, two minutes to a point
            "course": {
                "first_at": "2026-11-20T11:41:00Z",
                "last_at": "2026-11-20T11:59:00Z",
                "step_s": 120,
                "pct": [72, 66, 60, 54, 48, 42, 36, 30, 24, 18],
            },
            "drain": {
                "began_at": "2026-11-20T11:40:00Z",
                "is_longer": True,
                "from_pct": 75,
                "to_pct": 18,
                "lasted_s": 1_140,
                "served_min": None,
                "read_iops": None,
                "write_iops": None,
                "read_kib": None,
                "write_kib": None,
                "days_asked": None,
                "days_known": None,
                "days_alike": None,
                "is_particular": None,
                "not_read": None,
            },
            "changing_to": None,
            "changing_since": None,
            "expected_least_s": 900,
            # 15 min, and 6 h for each of 100 / 1,024 TiB
            "expected_most_s": 3_009,
            "duration": "AWS is expected to take 15 min to 50 min for 100 GiB; reduce load until then.",
            "mode": "propose",
            "tag_faults": [],
            "proposal": a_draining_alert().evidence["proposal"],
            "cautions": [],
            "act_at": {"level": "critical", "because": "its target is not known yet"},
        },
        "action": a_draining_alert().action,
        "runbook": "runbooks/BurstBalanceDraining.md",
        "console_url": "https://us-east-1.console.aws.amazon.com/ec2/home?region=us-east-1"
        "#VolumeDetails:volumeId=vol-0a1",
        "time": "2026-11-20T12:00:00Z",
    }


A_TEST = make_test_alert(
    "t1",
    route="directly to the Slack webhook",
    sender="anna (role/ops)",
    location=HERE,
    runbooks_url="runbooks",
    now_s=int(at("14:00")),
)


def test_a_test_alert_is_marked_as_one_and_has_its_sender():
    assert format_title(A_TEST) == (
        "TEST: this message is a test of the alerts, and nothing is wrong (us-east-1)"
    )
    assert format_sentences(A_TEST) == [
        "anna (role/ops) sent it with burstctl alert --test, directly to the Slack webhook."
    ]
    assert A_TEST.action == "Confirm to anna (role/ops) that it arrived. There is nothing else to do."
    assert alert_urgency(A_TEST) is Level.OK
    assert A_TEST.runbook == "runbooks/TestAlert.md"


def alerts_of_every_kind() -> list[Alert]:
    tracked = TrackedVolume()
    tracked.evaluate("12:00", draining_to(18, 3, count=20), volume=NAMED)
    tracked.evaluate(
        "12:06", draining_to(0, 3, count=20, newest_starts_at="12:04"), read_ops=balances(6_000.0)
    )
    tracked.evaluate("13:00", Series())
    tracked.evaluate("14:00", balances(*[100.0] * 20, newest_starts_at="13:58"))
    digest = make_digest(tracked.alerts, location=HERE, runbooks_url="runbooks", now_s=int(at("14:00")))
    rejected = make_policy_rejected(
        ["version: is missing"],
        in_force="the policy of 11:00",
        action="burstctl policy check",
        location=HERE,
        runbooks_url="runbooks",
        now_s=int(at("14:00")),
    )
    return [*tracked.alerts, *event_alerts().values(), digest, A_TEST, rejected]


ONE_OF_EACH = alerts_of_every_kind()


def test_there_is_one_of_each_kind():
    assert {alert.kind for alert in ONE_OF_EACH} == set(AlertKind)


@pytest.mark.parametrize("alert", ONE_OF_EACH, ids=lambda alert: alert.kind)
def test_an_alert_comes_back_from_its_document(alert):
    document = json.loads(json.dumps(alert.to_document()))
    assert Alert.from_document(document) == alert
    assert Alert.from_document(document).to_document() == document


@pytest.mark.parametrize("alert", ONE_OF_EACH, ids=lambda alert: alert.kind)
def test_no_kind_lacks_a_key(alert):
    assessment = an_assessment(draining_to(18, 3, count=20))
    document, whole = alert.to_document(), a_draining_alert().to_document()
    assert document.keys() == whole.keys()
    assert document["volume"].keys() == describe_volume(NAMED, HERE).keys()
    assert document["reading"].keys() == describe_reading(assessment).keys()
    assert document["forecast"].keys() == describe_forecast(assessment, at("12:00")).keys()


def test_an_alert_from_before_a_key_was_added_can_be_read():
    document = a_draining_alert().to_document()
    del document["reading"]["unknown_because"]
    for name in ("called", "claim", "namespace", "cluster", "instance_name"):
        del document["volume"][name]
    for name in ("course", "drain", "mode"):
        del document["evidence"][name]
    alert = Alert.from_document(document)
    assert (alert.reading["unknown_because"], alert.volume["called"]) == (None, None)
    assert format_title(alert) == "CRITICAL: ci-7 is empty in about 5 min (us-east-1)"
    assert "It has been draining" not in " ".join(format_sentences(alert))


@pytest.mark.parametrize("alert", ONE_OF_EACH, ids=lambda alert: alert.kind)
def test_no_number_in_a_document_is_an_instant(alert):
    """2001-09-09 and later, in seconds."""
    assert not re.search(r"(?<=[ \[])1\d{9}\b", json.dumps(alert.to_document()))


@pytest.mark.parametrize("alert", ONE_OF_EACH, ids=lambda alert: alert.kind)
def test_no_sentence_repeats_the_title(alert):
    text = [sentence.rstrip(".") for sentence in format_sentences(alert)]
    assert len(set(text)) == len(text)
    assert not any(sentence in format_title(alert) for sentence in text)
    summary = alert.evidence.get("summary")
    assert summary is None or not any(summary in sentence for sentence in text)


@pytest.mark.parametrize("alert", ONE_OF_EACH, ids=lambda alert: alert.kind)
def test_a_command_names_its_region(alert):
    is_for_shell = alert.action is not None and is_command(alert.action)
    assert not is_for_shell or " --region us-east-1" in alert.action or "policy" in alert.action


@pytest.mark.parametrize("alert", ONE_OF_EACH, ids=lambda alert: alert.kind)
def test_every_kind_has_a_message(alert):
    text = [format_title(alert), *format_sentences(alert)]
    assert all(text)
    assert not any(word in f" {line} " for line in text for word in (" None", "{", "nan", " inf "))


def test_the_alert_carries_what_was_wrong_with_the_tags():
    settings = VolumeSettings(mode=Mode.PROPOSE, faults=("burstwatch:mode='on' is no mode",))
    assessment = an_assessment(draining_to(18, 3, count=20))
    decision = decide(assessment, None, settings, policy=Policy(), context=a_tick_context())
    assert decision.alerts[0].evidence["tag_faults"] == ["burstwatch:mode='on' is no mode"]


# ids


@pytest.mark.parametrize(
    ("subject", "kind", "revision", "is_same"),
    [
        ("vol-0a1", AlertKind.DRAINING, 7, True),
        ("vol-0a2", AlertKind.DRAINING, 7, False),
        ("vol-0a1", AlertKind.EXHAUSTED, 7, False),
        ("vol-0a1", AlertKind.DRAINING, 8, False),
    ],
)
def test_an_alert_id_is_a_function_of_subject_kind_and_revision(subject, kind, revision, is_same):
    assert (
        make_alert_id(subject, kind, revision) == make_alert_id("vol-0a1", AlertKind.DRAINING, 7)
    ) is is_same


# links


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-east-1", "us-east-1.console.aws.amazon.com"),
        ("eu-central-1", "eu-central-1.console.aws.amazon.com"),
        ("eusc-de-east-1", "console.amazonaws-eusc.eu"),
        ("us-gov-west-1", "console.amazonaws-us-gov.com"),
        ("cn-north-1", "console.amazonaws.cn"),
    ],
)
def test_the_console_link_fits_the_partition(region, host):
    url = AwsLocation(region=region).volume_url("vol-0a1")
    assert url == f"https://{host}/ec2/home?region={region}#VolumeDetails:volumeId=vol-0a1"


@pytest.mark.parametrize(
    ("where", "link"),
    [
        ("runbooks", "runbooks/TelemetryGap.md"),
        ("https://wiki.example.com/r/", "https://wiki.example.com/r/TelemetryGap.md"),
        (
            "https://docs.example.com/runbooks/{page}.html",
            "https://docs.example.com/runbooks/TelemetryGap.html",
        ),
        ("https://wiki.example.com/{page}/", "https://wiki.example.com/TelemetryGap/"),
    ],
)
def test_the_runbook_link_is_the_kinds_page(where, link):
    assert runbook_link(AlertKind.TELEMETRY_GAP, where) == link


# numbers for people


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 s"),
        (119.9, "119 s"),
        (120, "2 min"),
        (715, "11 min"),
        (7_199, "119 min"),
        (7_200, "2 h 00 min"),
        (7_500, "2 h 05 min"),
        (172_799, "47 h 59 min"),
        (172_800, "2 d 0 h"),
        (273_600, "3 d 4 h"),
    ],
)
def test_a_duration_is_as_exact_as_people_need(seconds, expected):
    assert format_duration(seconds) == expected


def test_instants_are_utc_to_the_second():
    assert format_instant(at("09:55:30") + 0.9) == "2026-11-20T09:55:30Z"
    assert format_clock(at("09:55:30")) == "09:55"


def test_an_unknown_volume_has_no_numbers_but_a_reason():
    missing = an_assessment(None, read_error="Throttling: rate exceeded")
    assert describe_reading(missing) == {
        "burst_balance_pct": None,
        "credits": None,
        "baseline_iops": 300,
        "unit": "operations",
        "baseline": 300,
        "baseline_unit": "IOPS",
        "datapoint_at": None,
        "datapoint_age_s": None,
        "unknown_reason": "read_failed",
        "unknown_because": "Throttling: rate exceeded",
    }
    assert set(describe_forecast(missing, at("12:00")).values()) == {None}


# words


@pytest.mark.parametrize(
    ("balance", "expected"),
    [
        (draining_to(18, 3, count=20), "empty in about 5 min (12:05), not before 12:05 UTC"),
        # 50 % at 0.9 % a minute: 55.6 min; at 3 % a minute 16.7 min; less one.
        (draining_to(50, 0.9, count=40), "empty in about 55 min (12:54), not before 12:15 UTC"),
        (balances(*[50.0] * 20), "not draining; not empty before 12:15 UTC"),
        (balances(*[0.0] * 20), "empty now"),
        # 90 % at 0.06 % a minute: 25 h, so the day is given as well.
        (draining_to(90, 0.06), "not empty before 12:29 UTC, at this pace in about 25 h (12:59 Sat)"),
    ],
)
def test_the_forecast_in_words(balance, expected):
    assert format_forecast(describe_forecast(an_assessment(balance), at("12:00"))) == expected


def test_without_a_forecast_there_are_no_words():
    assert format_forecast(describe_forecast(an_assessment(Series()), at("12:00"))) is None
    assert format_forecast({}) is None


def test_a_draining_volume_in_words():
    alert = a_draining_alert()
    assert format_title(alert) == "CRITICAL: ci-7 is empty in about 5 min (us-east-1)"
    assert format_sentences(alert) == [
        "Burst balance 18.0 % at 11:59 UTC, draining at 2,700 credits/s; empty at about 12:05, not before"
        " 12:05 UTC.",
        "AWS is expected to take 15 min to 50 min for 100 GiB; reduce load until then.",
        "972,000 credits left; baseline 300 IOPS (100 GiB).",
        "The drain began at 11:40 UTC or earlier.",
        "gp3 with 3,000 IOPS and 128 MiB/s costs $8.12 a month instead of $10.00"
        " (us-east-1 list prices of 2026-09-30).",
    ]


@pytest.mark.parametrize(
    ("changes", "name", "facts"),
    [
        ({}, "ci-7", {"Volume": "vol-0a1", "Attached as": "i-0a1"}),
        ({"tags": {}}, "vol-0a1", {"Attached as": "i-0a1"}),
        ({"device": "/dev/sdf"}, "ci-7", {"Volume": "vol-0a1", "Attached as": "/dev/sdf on i-0a1"}),
        (
            {"device": "/dev/sdf", "instance_name": "build-3"},
            "ci-7",
            {"Volume": "vol-0a1", "Attached as": "/dev/sdf on i-0a1 build-3"},
        ),
        (
            {"tags": A_CLAIM},
            "claim data-etcd-0 in kube-system",
            {"Volume": "vol-0a1", "Attached as": "i-0a1"},
        ),
        (
            {"tags": A_CLAIM | {"Name": "etcd"}},
            "etcd",
            {
                "Kubernetes": "claim data-etcd-0 namespace kube-system",
                "Volume": "vol-0a1",
                "Attached as": "i-0a1",
            },
        ),
        ({"instance_id": None}, "ci-7", {"Volume": "vol-0a1"}),
        ({"instance_id": None, "tags": {}}, "vol-0a1", {}),
    ],
)
def test_the_title_has_the_name_and_the_facts_have_the_ids_that_it_has_not(changes, name, facts):
    message = message_from_alert(a_draining_alert(**changes))
    assert message.title == f"CRITICAL: {name} is empty in about 5 min (us-east-1)"
    assert dict(message.facts) == facts | {"Account": "111122223333"}


@pytest.mark.parametrize(
    ("balance", "expected"),
    [
        (draining_to(18, 3, count=20), "empty in about 5 min"),
        # 50 % at 0.9 % a minute: 55.6 min, less one
        (draining_to(50, 0.9, count=40), "empty in about 55 min"),
        # 3 % at 3 % a minute: one minute, and that one is over
        (draining_to(3, 3, count=20), "empty now"),
        (draining_to(4, 3, count=20), "empty in about 1 min"),
        # at 0.1 % a minute 200 min; at worst 20 % / 3 % = 6.7 min, less one
        (draining_to(20, 0.1), "empty in 6 min at the earliest"),
    ],
)
def test_the_title_states_how_much_time_is_left(balance, expected):
    [alert] = a_decision(an_assessment(balance)).alerts
    assert format_title(alert) == f"{alert.level.upper()}: vol-0a1 is {expected} (us-east-1)"


def test_a_reminder_contains_the_word_still():
    tracked = TrackedVolume()
    tracked.evaluate("10:00", draining_to(18, 3, count=20, newest_starts_at="09:58"))
    tracked.evaluate("12:00", draining_to(18, 3, count=20))
    assert format_title(tracked.alerts[-1]).startswith("STILL CRITICAL: vol-0a1 is ")


@pytest.mark.parametrize(
    ("balance", "rule", "is_stated"),
    [
        (draining_to(18, 3, count=20), "at this pace it is empty within 15 min", False),
        # 20 % at 0.1 % a minute: 200 min; but at full burst 6.7 min.
        (draining_to(20, 0.1), "it drains, and full burst would empty it within 8 min", True),
        (draining_to(23, 2.9, count=11), "at this pace it is empty within 8 min", False),
        (draining_to(50, 0.9, count=40), "at this pace it is empty within 60 min", False),
        (draining_to(0.9, 0.1, count=9), "the balance is at or below 1 %", False),
    ],
)
def test_an_alert_names_the_rule_that_raised_it_unless_the_title_has_it(balance, rule, is_stated):
    [alert] = a_decision(an_assessment(balance)).alerts
    assert alert.evidence["because"] == rule
    sentence = f"{alert.level.capitalize()} because {rule}; it was ok."
    assert (sentence in format_sentences(alert)) is is_stated


def test_an_exhausted_volume_states_what_it_is_throttled_to():
    [alert] = a_decision(an_assessment(balances(*[0.0] * 20), volume=a_volume(8))).alerts
    assert format_title(alert) == "EXHAUSTED: vol-0a1 is out of credits, throttled to 100 IOPS (us-east-1)"
    assert format_sentences(alert) == [
        "Burst balance 0.0 % at 11:59 UTC; empty now.",
        "AWS is expected to take 15 min to 17 min for 8 GiB; reduce load until then.",
        "0 credits left; baseline 100 IOPS (8 GiB).",
        "gp3 with 3,000 IOPS and 128 MiB/s costs $0.76 a month instead of $0.80"
        " (us-east-1 list prices of 2026-09-30).",
    ]


def test_a_recovered_volume_reports_how_it_is_now():
    tracked = TrackedVolume()
    tracked.evaluate("10:00", draining_to(18, 3, count=20, newest_starts_at="09:58"))
    # Refilling: 0.5 % a minute = 450 credits/s. 50 % last 1,000 s at the worst, less 60 s.
    tracked.evaluate("12:00", draining_to(50, -0.5, count=20), volume=a_volume(150))
    alert = tracked.alerts[-1]
    assert format_title(alert) == "RECOVERED: vol-0a1 (us-east-1)"
    assert format_sentences(alert)[0].endswith("; it was critical.")
    assert format_sentences(alert)[1:] == [
        "Burst balance 50.0 % at 11:59 UTC, refilling at 450 credits/s; not empty before 12:16 UTC.",
        "2,700,000 credits left; baseline 450 IOPS (150 GiB).",
    ]


@pytest.mark.parametrize(
    ("evidence", "because"),
    [
        ({"balance": Series()}, "no datapoint for 30 min while attached to a running instance"),
        ({"balance": Series(), "volume": a_volume(attached=False)}, "it is not attached"),
        ({"balance": Series(), "volume": a_volume(volume_type="gp3")}, "its type has no burst credits"),
        ({"balance": Series(), "volume": a_volume(1_000)}, "at its size it cannot become empty"),
        ({"balance": Series(), "instance_state": "stopped"}, "instance i-0a1 is stopped"),
    ],
)
def test_a_volume_without_data_explains_why(evidence, because):
    tracked = TrackedVolume()
    tracked.evaluate("12:00", draining_to(18, 3, count=20))
    tracked.evaluate("13:00", **evidence)
    assert format_sentences(tracked.alerts[-1]) == [f"Balance unknown: {because}; it was critical."]


def test_a_gap_in_words():
    tracked = TrackedVolume()
    tracked.evaluate("12:00", Series())
    assert format_title(tracked.alerts[-1]) == "UNKNOWN: vol-0a1 has no burst balance to read (us-east-1)"


def test_what_a_volume_serves_is_reported_where_it_is_known():
    # 60,000 operations a minute are 1,000 a second.
    decision = a_decision(
        an_assessment(draining_to(18, 3, count=20), read_ops=balances(60.0), write_ops=balances(60_000.0))
    )
    assert (
        format_sentences(decision.alerts[0])[-2]
        == "Current load: 1 reads/s and 1,000 writes/s (nearly all writes)."
    )


def test_tag_faults_are_included():
    alert = replace(a_draining_alert(), evidence={"tag_faults": ["burstwatch:mode='on' is no mode"]})
    assert format_sentences(alert)[-1] == "Tags: burstwatch:mode='on' is no mode."


@pytest.mark.parametrize(
    ("balance", "mode", "label"),
    [
        (
            draining_to(18, 3, count=20),
            Mode.AUTO,
            "The watchdog flips it if it may act and no guard refuses; to do it now",
        ),
        (
            balances(0.0),
            Mode.AUTO,
            "The watchdog flips it if it may act and no guard refuses; to do it now",
        ),
        (draining_to(18, 3, count=20), Mode.PROPOSE, "What to do"),
        (draining_to(3, -0.2, count=14), Mode.AUTO, "What to do"),
    ],
    ids=["draining", "exhausted", "mode propose", "refilling, so the watchdog does not flip it"],
)
def test_the_action_is_introduced_by_who_takes_it(balance, mode, label):
    alert = a_decision(an_assessment(balance), a_state(level=Level.EXHAUSTED), mode=mode).alerts[-1]
    assert action_label(alert) == label
    assert message_from_alert(alert).action_label == label


def test_a_rejected_policy_lists_its_faults_and_what_is_in_force():
    rejected = ONE_OF_EACH[-1]
    assert format_title(rejected) == "WARNING: policy rejected; the last valid one stays in force (us-east-1)"
    assert format_sentences(rejected) == ["version: is missing", "In force: the policy of 11:00."]


# flips and windows in words

EVENTS = event_alerts()
REGION = "(us-east-1)"


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (AlertKind.FLIPPED, f"FLIPPED: ci-7 is being modified to gp3 with 3,000 IOPS and 128 MiB/s {REGION}"),
        (AlertKind.FLIPPED_BACK, f"FLIPPED BACK: ci-7 is being modified to gp2 {REGION}"),
        (AlertKind.FLIP_REFUSED, f"CRITICAL: ci-7 was not flipped to gp3: held {REGION}"),
        (AlertKind.FLIP_FAILED, f"CRITICAL: ci-7 was not changed to io1: AWS's modification failed {REGION}"),
        # since eight, and it is noon
        (AlertKind.FLIP_STUCK, f"CRITICAL: ci-7 is still optimizing at 40 % after 4 h 00 min {REGION}"),
        # $65 a month over 30.4 days
        (
            AlertKind.LEFT_ON_TARGET,
            f"WARNING: ci-7 is still io1 after 2 d 0 h, $2.14 a day more {REGION}",
        ),
        (AlertKind.CHANGED_BY_OTHERS, f"CRITICAL: ci-7 was reverted to gp2 {REGION}"),
        (
            AlertKind.CRITICAL_ON_BURST,
            f"CRITICAL: ci-7 is tagged critical and depends on burst credits {REGION}",
        ),
        (AlertKind.WINDOW_MISSED, f'CRITICAL: ci-7 will miss window "nightly" by 25 min {REGION}'),
        (
            AlertKind.WINDOW_STARTING,
            "WINDOW: nightly in 30 min (12:30 UTC), 1 volume in us-east-1",
        ),
    ],
)
def test_the_title_states_how_urgent_it_is_what_happened_and_where(kind, line):
    assert format_title(EVENTS[kind]) == line


@pytest.mark.parametrize(
    ("kind", "sentences", "action"),
    [
        (
            AlertKind.FLIPPED,
            [
                "Requested by watchdog (critical: at this pace it is empty within 15 min; it stays: gp3 costs"
                " no more, $8.12 a month, gp2 $10.00).",
                # 128 MiB/s are 3 above the free 125, at $0.04: 8.00 + 0.12 - 10.00, over 730 hours.
                "It was gp2; this costs $1.88 a month less, $0.0026 an hour (us-east-1 list prices).",
                "AWS is expected to take 15 min to 50 min for 100 GiB; empty in about 13 min; reduce load"
                " until then. While AWS optimizes it, its performance is between the two.",
            ],
            None,
        ),
        (
            AlertKind.FLIPPED_BACK,
            [
                "Requested by watchdog (calm for 30 min).",
                # 100 GiB at $0.125 and 1,000 IOPS at $0.065 are 77.50, less the 10.00 of the gp2.
                "It was io1 with 1,000 IOPS; this costs $67.50 a month less, $0.0925 an hour (us-east-1 list"
                " prices).",
                "Its burst balance is unknown until the first fresh datapoint.",
            ],
            None,
        ),
        (
            AlertKind.FLIP_REFUSED,
            [
                "Refused: everything is on hold by anna: change freeze.",
                "Wanted: gp3 with 3,000 IOPS and 128 MiB/s, because critical: at this pace it is empty within"
                " 15 min.",
                "The watchdog tries again in 6 h (18:00 UTC), as long as the reason lasts.",
            ],
            "burstctl explain vol-0123456789abcdef0 --region us-east-1",
        ),
        (
            AlertKind.FLIP_FAILED,
            [
                "AWS says: an internal error of EBS.",
                "It is still gp2, not io1 with 1,000 IOPS.",
                "The watchdog tries again in 1 min (12:01 UTC), if that is still needed and no guard"
                " refuses.",
            ],
            "burstctl flip vol-0123456789abcdef0 --region us-east-1",
        ),
        (
            AlertKind.FLIP_STUCK,
            [
                # 15 min at least, and 6 h for each of 100 / 1,024 TiB.
                "AWS was expected to take 15 min to 50 min for 100 GiB; it promises no duration.",
                "It is being changed from gp2 to io1 with 1,000 IOPS since 08:00 UTC.",
                "That cannot be cancelled; while AWS optimizes, its performance is between the two.",
            ],
            "aws ec2 describe-volumes-modifications --volume-ids vol-0123456789abcdef0 --region us-east-1",
        ),
        (
            AlertKind.LEFT_ON_TARGET,
            [
                "It is in mode propose now: the watchdog flips it back only with its opt-in tag.",
                "It was gp2 before it was changed to io1 with 1,000 IOPS. Repeats daily;"
                " us-east-1 list prices.",
            ],
            "burstctl flip-back vol-0123456789abcdef0 --region us-east-1",
        ),
        (
            AlertKind.CHANGED_BY_OTHERS,
            [
                "It was gp2 until burstwatch made it io1 with 1,000 IOPS, requested by watchdog.",
                'If Terraform or a similar tool did this, it will do it again: write type = "io1", iops ='
                " 1000 into its definition.",
                "The watchdog does not change it until it is released.",
            ],
            "burstctl release vol-0123456789abcdef0 --region us-east-1",
        ),
        (
            AlertKind.CRITICAL_ON_BURST,
            [
                "Without credits it serves 300 IOPS, not 3,000: what depends on it stalls.",
                "It is in mode propose: flipping it requires manual action.",
                "AWS is expected to take 15 min to 50 min for 100 GiB; empty in about 5 min; reduce load"
                " until then.",
                "gp3 with 3,000 IOPS and 128 MiB/s costs $8.12 a month instead of $10.00"
                " (us-east-1 list prices of 2026-09-30).",
            ],
            "burstctl flip vol-0123456789abcdef0 --region us-east-1 --to gp3 --iops 3000 --throughput 128",
        ),
        (
            AlertKind.WINDOW_MISSED,
            [
                "If it begins now, the flip is expected to finish in 55 min (12:55 UTC), but window nightly"
                " starts in 30 min (12:30 UTC).",
                "Until then, the volume depends on its credits.",
                "It is in mode auto: a watchdog that may act flips it, unless a guard refuses.",
            ],
            "burstctl flip vol-0123456789abcdef0 --region us-east-1 --to gp3 --iops 3000 --throughput 128",
        ),
        (
            AlertKind.WINDOW_STARTING,
            [
                "It lasts until 20:00 UTC.",
                "Due now: vol-0123456789abcdef0.",
                "A watchdog that may act flips the volumes in mode auto; the others require manual action.",
            ],
            "burstctl window list --region us-east-1",
        ),
    ],
)
def test_an_event_states_values_limits_and_the_next_step(kind, sentences, action):
    assert format_sentences(EVENTS[kind]) == sentences
    assert EVENTS[kind].action == action


GP2_IS = {"volume_type": "gp2", "iops": None, "throughput_mib_s": None}
GP3_IS = {"volume_type": "gp3", "iops": 3_000, "throughput_mib_s": 128}
IO1_IS = {"volume_type": "io1", "iops": 1_000, "throughput_mib_s": None}


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        (
            AlertKind.FLIPPED,
            {"from": GP2_IS, "to": GP3_IS, "original": GP2_IS, "usd_per_month_more": -1.88, "stays": True},
        ),
        (
            AlertKind.FLIPPED_BACK,
            {"from": IO1_IS, "to": GP2_IS, "original": GP2_IS, "usd_per_month_more": -67.5},
        ),
        (
            AlertKind.FLIP_REFUSED,
            {"from": GP2_IS, "to": GP3_IS, "guard": "held", "ends_at": "2026-11-20T18:00:00Z"},
        ),
        (
            AlertKind.FLIP_FAILED,
            {"from": GP2_IS, "to": IO1_IS, "error_code": None, "retry_at": "2026-11-20T12:01:00Z"},
        ),
        (
            AlertKind.FLIP_STUCK,
            {"state": "optimizing", "progress_pct": 40, "started_at": "2026-11-20T08:00:00Z"},
        ),
        (
            AlertKind.LEFT_ON_TARGET,
            {"target": IO1_IS, "original": GP2_IS, "usd_per_day_more": 2.137, "mode": "propose"},
        ),
        (AlertKind.CHANGED_BY_OTHERS, {"from": IO1_IS, "to": GP2_IS, "original": GP2_IS}),
        (AlertKind.CRITICAL_ON_BURST, {"from": GP2_IS, "to": GP3_IS, "baseline_iops": 300}),
        (
            AlertKind.WINDOW_MISSED,
            {"window": "nightly", "starts_at": "2026-11-20T12:30:00Z", "late_s": 1_500},
        ),
        (
            AlertKind.WINDOW_STARTING,
            {"window": "nightly", "ends_at": "2026-11-20T20:00:00Z", "volumes": [VOLUME_ID]},
        ),
    ],
)
def test_the_document_has_the_facts_beside_the_text(kind, facts):
    evidence = EVENTS[kind].evidence
    assert {name: evidence[name] for name in facts} == facts


def test_the_level_is_the_volumes_whatever_happened_to_it():
    of_volumes = [alert for alert in EVENTS.values() if alert.volume_id]
    critical = {alert.kind for alert in of_volumes if alert.level is Level.CRITICAL}
    assert critical == set(EVENTS) - {
        AlertKind.FLIPPED_BACK,
        AlertKind.LEFT_ON_TARGET,
        AlertKind.WINDOW_STARTING,
        AlertKind.HOST_STALL,
    }
    assert all(alert.previous_level is alert.level for alert in of_volumes)


@pytest.mark.parametrize(
    ("kind", "level", "is_as_urgent_as"),
    [
        (AlertKind.FLIPPED, Level.CRITICAL, Level.OK),
        (AlertKind.FLIPPED_BACK, Level.OK, Level.OK),
        (AlertKind.WINDOW_STARTING, Level.OK, Level.OK),
        (AlertKind.FLIP_REFUSED, Level.OK, Level.WARNING),
        (AlertKind.FLIP_FAILED, Level.EXHAUSTED, Level.EXHAUSTED),
        (AlertKind.LEFT_ON_TARGET, Level.UNKNOWN, Level.WARNING),
        (AlertKind.DRAINING, Level.CRITICAL, Level.CRITICAL),
        (AlertKind.RECOVERED, Level.WATCH, Level.WATCH),
        (AlertKind.TELEMETRY_GAP, Level.UNKNOWN, Level.UNKNOWN),
    ],
)
def test_successes_are_not_urgent_and_pending_actions_are(kind, level, is_as_urgent_as):
    assert alert_urgency(alert_of_kind(kind, level=level)) is is_as_urgent_as


def test_a_window_started_by_hand_lasts_until_it_is_stopped():
    by_hand = a_window_state(start="11:30", is_manual=True, interval=TimeInterval(NOON, UNTIL_STOPPED))
    alert = window_alert({VOLUME_ID: by_hand, "vol-2": by_hand})
    assert format_title(alert) == "WINDOW: release now (12:00 UTC), 2 volumes in us-east-1"
    assert format_sentences(alert)[0] == "It lasts until burstctl window stop release."
    assert (alert.evidence["ends_at"], alert.evidence["by_hand"]) == (None, True)


def test_a_window_with_many_volumes_names_ten_and_counts_the_rest():
    wanted = {f"vol-{number:02}": a_window_state() for number in range(1_011)}
    alert = window_alert(wanted)
    assert "1,011 volumes" in format_title(alert)
    assert "vol-09 and 1,001 more." in format_sentences(alert)[1]


def test_an_externally_resized_volume_is_described_without_a_definition():
    volume = replace(a_named_volume(IO1), size_gib=200)
    record = a_modification(IO1, IO1, started="11:40")
    record = replace(record, target=replace(record.target, size_gib=200))
    observed = ObservedState(volume=volume, record=record)
    alert, *_ = alert_after_evaluation(volume, state_of(on_target(), level=Level.OK), observed=observed)
    assert "ci-7 was resized from 100 to 200 GiB (us-east-1)" in format_title(alert)
    assert not any("definition" in sentence for sentence in format_sentences(alert))
    assert (alert.evidence["from_gib"], alert.evidence["to_gib"]) == (100, 200)


def test_a_volume_left_after_others_changed_it_is_released_first():
    alert = left_on_target_alert(a_named_volume(IO1), contested_at_s=NOON_S - 86_400)
    assert format_sentences(alert)[0].startswith(
        "Someone else changed it: the watchdog does not flip it back until"
    )
    assert alert.action == f"burstctl release {VOLUME_ID} --region us-east-1"


@pytest.mark.parametrize(
    ("usd_per_month", "cost"),
    [(65.0, "$2.14 a day more"), (-1.88, "$0.06 a day less"), (0.0, "at the same price")],
)
def test_a_volume_left_on_its_target_reports_what_a_day_costs(usd_per_month, cost):
    flip = replace(on_target(), usd_per_month=usd_per_month)
    [alert] = alert_after_evaluation(
        a_named_volume(IO1), state_of(flip, level=Level.OK), VolumeSettings(mode=Mode.PROPOSE)
    )
    assert f"after 2 d 0 h, {cost} (us-east-1)" in format_title(alert)


def test_a_denial_by_aws_names_who_lacks_what_and_who_tries_again():
    alert = refused_by_aws_alert()
    assert format_title(alert) == f"CRITICAL: ci-7 was not changed to gp3: UnauthorizedOperation {REGION}"
    assert format_sentences(alert)[0].endswith(
        "grant ec2:ModifyVolume to it, or use credentials that have it."
    )
    assert format_sentences(alert)[1:] == [
        "It is still gp2, not gp3 with 3,000 IOPS and 128 MiB/s.",
        "The watchdog tries again in 1 min (12:01 UTC), if that is still needed and no guard refuses.",
    ]
    assert (alert.evidence["error_code"], alert.action) == (
        "UnauthorizedOperation",
        f"burstctl flip {VOLUME_ID} --region us-east-1",
    )


def test_a_manual_request_is_not_retried_automatically():
    alert = refused_by_aws_alert(order={"by": "anna"})
    assert format_sentences(alert)[-1] == "Requested by anna; it must be requested again."


def test_an_aws_rule_is_named_like_a_guard_with_its_end():
    alert = refused_by_aws_alert(
        "VolumeModificationRateExceeded", "x", guard="aws_quota", retry_at_s=at("13:30")
    )
    assert format_title(alert) == f"CRITICAL: ci-7 was not changed to gp3: aws_quota {REGION}"
    assert {name: alert.evidence[name] for name in ("guard", "ends_at", "error_code")} == {
        "guard": "aws_quota",
        "ends_at": "2026-11-20T13:30:00Z",
        "error_code": "VolumeModificationRateExceeded",
    }


def test_a_refusal_by_us_and_one_by_aws_have_the_same_facts():
    assert (
        refused_by_aws_alert(guard="aws_quota").evidence.keys()
        == EVENTS[AlertKind.FLIP_REFUSED].evidence.keys()
    )


def test_a_failure_at_once_and_one_later_have_the_same_facts():
    assert refused_by_aws_alert().evidence.keys() == EVENTS[AlertKind.FLIP_FAILED].evidence.keys()


# the digest


def many_alerts() -> list[Alert]:
    """25 critical ones empty in 100..124 min, the soonest last, 2 exhausted, one recovered, one gap."""
    critical = [
        alert_of_kind(
            AlertKind.DRAINING,
            alert_id=f"c{number}",
            volume_id=f"vol-c{number}",
            forecast={"time_to_empty_s": 7_440 - 60 * number, "time_to_empty_at": "2026-11-20T13:40:00Z"},
        )
        for number in range(25)
    ]
    exhausted = [
        alert_of_kind(AlertKind.EXHAUSTED, alert_id=f"e{n}", level=Level.EXHAUSTED) for n in range(2)
    ]
    recovered = alert_of_kind(AlertKind.RECOVERED, alert_id="r", level=Level.OK)
    gap = alert_of_kind(AlertKind.TELEMETRY_GAP, alert_id="g", level=Level.UNKNOWN)
    return [gap, recovered, *critical, *exhausted]


def a_digest(alerts: list[Alert]) -> Alert:
    return make_digest(alerts, location=HERE, runbooks_url="runbooks", now_s=int(at("12:00")))


def test_a_digest_counts_them_all_and_names_the_most_urgent():
    digest = a_digest(many_alerts())
    assert (digest.kind, digest.level, digest.volume_id) == (AlertKind.DIGEST, Level.EXHAUSTED, None)
    assert digest.evidence["alerts"] == 29
    assert digest.evidence["by_kind"] == {
        "BurstBalanceExhausted": 2,
        "BurstBalanceDraining": 25,
        "BurstBalanceRecovered": 1,
        "TelemetryGap": 1,
    }
    named = [line["volume_id"] for line in digest.evidence["most_urgent"]]
    assert named == ["vol-0a1", "vol-0a1", *(f"vol-c{number}" for number in range(24, 6, -1))]


def test_a_digest_in_words():
    digest = a_digest(many_alerts())
    assert format_title(digest) == "EXHAUSTED: 29 burst-balance alerts at once (us-east-1)"
    text = format_sentences(digest)
    assert text[0].startswith("2 BurstBalanceExhausted, 25 BurstBalanceDraining, ")
    assert text[1] == "Each is in the ledger; the most urgent:"
    assert text[4] == "critical: vol-c24, balance unknown, empty in 100 min (13:40 UTC)"
    assert (len(text), text[-1]) == (23, "and 9 more")


def test_a_digest_with_flips_in_it_names_what_waits_for_people_before_what_went_well():
    draining = a_draining_alert()
    digest = a_digest([*EVENTS.values(), draining])
    assert format_title(digest) == "CRITICAL: 12 alerts at once (us-east-1)"
    text = format_sentences(digest)
    # first the one with a time, of the rest the critical ones as they came, a warning, then good news
    assert text[2] == "critical: ci-7, 18.0 %, empty in 5 min (12:05 UTC) (vol-0a1)"
    assert text[3] == "flip refused: ci-7 was not flipped to gp3: held (vol-0123456789abcdef0)"
    assert text[9:] == [
        "left on target: ci-7 is still io1 after 2 d 0 h, $2.14 a day more (vol-0123456789abcdef0)",
        "host stalled: ci-7 stalled for 8.2 s, according to its host (vol-0123456789abcdef0)",
        "flipped: ci-7 is being modified to gp3 with 3,000 IOPS and 128 MiB/s (vol-0123456789abcdef0)",
        "flipped back: ci-7 is being modified to gp2 (vol-0123456789abcdef0)",
        "window: nightly in 30 min (12:30 UTC), 1 volume in us-east-1",
    ]


def test_a_digest_of_flips_that_went_well_is_not_an_alarm():
    digest = a_digest([EVENTS[AlertKind.FLIPPED]] * 11)
    assert format_title(digest) == "OK: 11 alerts at once (us-east-1)"
    assert digest.level is Level.OK


def test_a_digest_from_before_flips_can_be_reported():
    digest = a_digest(many_alerts())
    before = [{k: v for k, v in line.items() if k != "summary"} for line in digest.evidence["most_urgent"]]
    assert format_sentences(
        replace(digest, evidence={**digest.evidence, "most_urgent": before})
    ) == format_sentences(digest)


def test_a_digest_lists_what_each_volume_holds():
    alerts = [a_draining_alert(volume_id=f"vol-{number}") for number in range(11)]
    assert (
        format_sentences(a_digest(alerts))[2] == "critical: ci-7, 18.0 %, empty in 5 min (12:05 UTC) (vol-0)"
    )


@pytest.mark.parametrize(("count", "expected_lines"), [(11, 13), (20, 22), (21, 23)])
def test_a_digest_counts_what_it_does_not_name(count, expected_lines):
    alerts = [a_draining_alert(volume_id=f"vol-{number}") for number in range(count)]
    lines = format_sentences(a_digest(alerts))
    assert len(lines) == expected_lines
    assert (lines[-1] == "and 1 more") is (count == 21)


def test_the_same_alerts_in_any_order_are_the_same_digest():
    alerts = many_alerts()
    assert a_digest(alerts).alert_id == a_digest(alerts[::-1]).alert_id
    assert a_digest(alerts).alert_id != a_digest(alerts[1:]).alert_id

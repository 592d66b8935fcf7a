import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burstwatch.adapters.notify.amazon_q import render_custom_notification
from burstwatch.adapters.notify.message import (
    ChatMessageError,
    describe_delay,
    message_from_alert,
    parse_message,
)
from burstwatch.adapters.notify.slack import render_message
from support.builders.alerts import a_digest, a_policy_rejection, an_alert, event_alerts_of_every_kind
from support.builders.sns_records import ALARM, an_alarm, to_lambda_event
from support.delivery.fake_slack import assert_within_slacks_limits, visible_text

EVERY_ALERT = [an_alert(), a_digest(25), a_policy_rejection("levels: wrong"), *event_alerts_of_every_kind()]


@pytest.mark.parametrize("alert", EVERY_ALERT, ids=lambda alert: alert.kind)
def test_an_alert_sent_through_the_topic_is_posted_unchanged(alert):
    assert parse_message(to_lambda_event(alert)) == message_from_alert(alert)


# Alarms


def test_an_alarm_names_its_page_its_state_its_reason_and_where_to_look():
    notice = parse_message(an_alarm())
    assert notice.title == "ALARM: WatchdogSilent (us-east-1)"
    assert notice.emoji == "🔴"
    assert notice.reason == "The watchdog has not run for ten minutes: no volume is watched."
    assert notice.lines[0].startswith("Threshold Crossed: no datapoints")
    assert dict(notice.facts) == {
        "Alarm": "prod-WatchdogSilent",
        "State": "ALARM, was OK",
        "Account": "123456789012",
    }
    assert dict(notice.links) == {
        "Runbook": "https://wiki.example.com/runbooks/WatchdogSilent.md",
        "Alarm in the AWS console": "https://us-east-1.console.aws.amazon.com/cloudwatch/home"
        "?region=us-east-1#alarmsV2:alarm/prod-WatchdogSilent",
    }
    assert notice.footer == "2026-11-20T18:00:35Z"


@pytest.mark.parametrize(
    ("state", "mark", "title"),
    [
        ("OK", "🟢", "ALARM OVER: WatchdogSilent (us-east-1)"),
        ("INSUFFICIENT_DATA", "⚪", "ALARM WITHOUT DATA: WatchdogSilent (us-east-1)"),
        ("DREAMING", "⚪", "ALARM IN STATE DREAMING: WatchdogSilent (us-east-1)"),
    ],
)
def test_every_state_has_its_words(state, mark, title):
    notice = parse_message(an_alarm(NewStateValue=state))
    assert (notice.emoji, notice.title) == (mark, title)


def test_a_page_of_the_documentation_site_is_a_page_too():
    address = "https://docs.example.com/runbooks/DatapointsTooOld.html"
    notice = parse_message(an_alarm(AlarmDescription=f"Old datapoints. Runbook: {address}"))
    assert notice.title == "ALARM: DatapointsTooOld (us-east-1)"
    assert dict(notice.links)["Runbook"] == address


def test_the_path_of_a_page_is_shown_and_not_linked():
    notice = parse_message(
        an_alarm(AlarmDescription="Old datapoints. Runbook: burstctl runbook DatapointsTooOld")
    )
    assert notice.title == "ALARM: DatapointsTooOld (us-east-1)"
    assert "Runbook: `burstctl runbook DatapointsTooOld`" in visible_text(render_message(notice))


def test_an_alarm_of_another_partition_leads_to_its_own_console():
    arn = "arn:aws-us-gov:cloudwatch:us-gov-west-1:123456789012:alarm:x y/z"
    notice = parse_message(an_alarm(AlarmArn=arn, AlarmName="x y/z"))
    link = dict(notice.links)["Alarm in the AWS console"]
    assert link.startswith("https://console.amazonaws-us-gov.com/cloudwatch/home?region=us-gov-west-1")
    assert link.endswith("alarm/x%20y%2Fz")


def test_an_alarm_on_many_volumes_names_the_one_it_is_about():
    contributor = {"AlarmContributorId": "6d1f", "AlarmContributorAttributes": {"VolumeId": "vol-0123"}}
    notice = parse_message(an_alarm(**contributor))
    assert dict(notice.facts)["About"] == "vol-0123"
    assert notice.message_id != parse_message(an_alarm()).message_id


def test_a_repeated_alarm_has_the_same_id_and_the_next_change_another():
    first = parse_message(an_alarm())
    assert parse_message(an_alarm(NewStateReason="in other words")).message_id == first.message_id
    for change in ({"NewStateValue": "OK"}, {"StateChangeTime": "2026-11-20T19:00:35.123+0000"}):
        assert parse_message(an_alarm(**change)).message_id != first.message_id


def test_a_name_and_a_state_are_enough():
    notice = parse_message(json.dumps({"AlarmName": "x", "NewStateValue": "ALARM"}))
    assert notice.title == "ALARM: x"
    assert_within_slacks_limits(render_message(notice))


VALUES = (
    st.none()
    | st.integers()
    | st.text(max_size=2000)
    | st.lists(st.text(), max_size=2)
    | st.just("<!here>" * 400)
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from([*sorted(ALARM), "AlarmContributorAttributes"]), VALUES))
def test_an_alarm_can_be_rendered_or_is_refused_whatever_its_content(changes):
    try:
        notice = parse_message(an_alarm(**changes))
    except ChatMessageError:
        assert {"AlarmName", "NewStateValue"} & changes.keys()
        return
    payload = render_message(notice)
    assert_within_slacks_limits(payload)
    assert "<!" not in visible_text(payload)


# Poison


@pytest.mark.parametrize(
    ("message", "phrase"),
    [
        ("", "not JSON"),
        ("hello", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("{}", "neither an alert nor a CloudWatch alarm"),
        ("[]", "neither an alert nor a CloudWatch alarm"),
        ("7", "neither an alert nor a CloudWatch alarm"),
        ('{"AlarmName": 7, "NewStateValue": "OK"}', "neither an alert nor a CloudWatch alarm"),
        ('{"schema": "burstwatch.alert/v2"}', "the schema 'burstwatch.alert/v2', not 'burstwatch.alert/v1'"),
        ('{"schema": "burstwatch.alert/v1"}', "cannot be read (KeyError: 'volume')"),
        (json.dumps(an_alert().to_document() | {"kind": "Unheard"}), "'Unheard' is not a valid AlertKind"),
        (json.dumps(an_alert().to_document() | {"volume": 7}), "cannot be read"),
        (json.dumps(an_alert().to_document() | {"time": "soon"}), "cannot be read"),
        (json.dumps(an_alert().to_document() | {"evidence": None}), "cannot be read"),
        (json.dumps(an_alert().to_document() | {"reading": {"burst_balance_pct": "full"}}), "cannot be read"),
    ],
)
def test_poison_describes_itself(message, phrase):
    with pytest.raises(ChatMessageError) as exc_info:
        parse_message(message)
    text = str(exc_info.value)
    assert phrase in text
    assert text.isprintable()
    assert len(text) < 400


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(an_alert().to_document())),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    ),
)
def test_a_broken_alert_is_read_or_refused_and_nothing_else(key, value):
    try:
        notice = parse_message(json.dumps(an_alert().to_document() | {key: value}))
    except ChatMessageError:
        return
    assert_within_slacks_limits(render_message(notice))
    assert render_custom_notification(notice)["content"]["description"]


# Late


@pytest.mark.parametrize(
    ("late_s", "expected"),
    [(-40, None), (0, None), (299, None), (300, "delivered 5 min late"), (8000, "delivered 2 h 13 min late")],
)
def test_a_late_message_is_marked_as_late(late_s, expected):
    assert describe_delay(late_s) == expected


def test_a_late_message_states_its_lateness_beside_its_time():
    payload = render_message(message_from_alert(an_alert()), delay_note="delivered 42 min late")
    assert payload["blocks"][-1]["elements"][0]["text"].endswith("· delivered 42 min late")


def test_an_alarm_with_half_a_character_in_its_name_is_reported_all_the_same():
    notice = parse_message(an_alarm(AlarmName="prod-\ud800"))
    assert notice.subject == "prod-?"
    assert dict(notice.links)["Alarm in the AWS console"].endswith("#alarmsV2:alarm/prod-%3F")

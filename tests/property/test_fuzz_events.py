"""What the functions are invoked with: ticks, EBS's events, hosts' reports, requests, alerts, alarms."""

import json
from contextlib import suppress
from io import StringIO
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from burstwatch.adapters.aws.flip_request import FlipRequest, MalformedRequestError
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.notify.amazon_q import render_custom_notification
from burstwatch.adapters.notify.idempotency import SendStatus
from burstwatch.adapters.notify.message import ChatMessage, ChatMessageError, parse_message
from burstwatch.adapters.notify.slack import render_message
from burstwatch.core.assessment.host_stall import Stall, StallError
from burstwatch.core.ledger.flip_state import Direction, FlipCause
from burstwatch.core.text import format_instant
from burstwatch.handlers import flip, notify, settle, watch
from burstwatch.handlers.event_time import EventError
from burstwatch.handlers.notify import NotDeliveredError
from burstwatch.wiring.bootstrap_notify import NotifyServices
from burstwatch.wiring.function_settings import FunctionClock
from burstwatch.wiring.observability import Telemetry
from support.aws.in_memory_aws import DRAINING, NOW_S, CannedAws, services_with
from support.builders.alerts import an_alert
from support.builders.sns_records import ALARM, a_record, to_lambda_event
from support.delivery.fake_slack import assert_no_active_markup
from support.hostile_input import (
    LONGEST_MESSAGE,
    any_value,
    assert_message,
    fuzz,
    is_plain,
    mutated,
    scalars,
    texts,
    within,
)

HOST = "i-0000000000000000a"
TICK = {"mode": "focus", "time": format_instant(NOW_S)}
EBS_EVENT = {
    "version": "0",
    "id": "00000000-0000-4000-8000-000000000000",
    "detail-type": "EBS Volume Notification",
    "source": "aws.ec2",
    "account": "123456789012",
    "time": format_instant(NOW_S),
    "region": "us-east-1",
    "resources": [f"arn:aws:ec2:us-east-1:123456789012:volume/{DRAINING}"],
    "detail": {"result": "completed", "cause": "", "event": "modifyVolume", "request-id": ""},
}
DETAIL = {
    "schema": "burstwatch.probe/v1",
    "instance_id": HOST,
    "volume_id": DRAINING,
    "verdict": "crit",
    "cause": "throttled",
    "total_s": 8.25,
    "started_at": format_instant(NOW_S - 10),
    "top": [{"comm": "systemd-udevd", "wchan": "blk_mq_get_tag", "count": 3}],
}
PROBE_EVENT = EBS_EVENT | {
    "detail-type": "stall",
    "source": "burstwatch.ddprobe",
    "resources": [],
    "detail": DETAIL,
}

TIMES_OF_EVENTS = (
    *(
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-11-20T12:00:00",
        "2026-11-20T12:00:00Z",
    ),
    *("<aws.scheduler.scheduled-time>", "2026-W47-5T12:00Z", "1970-01-01T00:00:00Z", "2099-01-01T00:00:00Z"),
)
SCHEMA_FIELD = Telemetry.from_env({"POWERTOOLS_SERVICE_NAME": "fuzz"}, stream=StringIO())


class RecordingTelemetry:
    """What a function said, as CloudWatch Logs has it."""

    def __init__(self):
        self.telemetry = SCHEMA_FIELD
        self.stream = next(h.stream for h in SCHEMA_FIELD.logger._logger.handlers)
        self.stream.seek(0)
        self.stream.truncate()

    def check(self):
        for line in self.stream.getvalue().split("\n")[:-1]:
            reported = json.loads(line)
            assert is_plain(reported["message"])
            assert len(reported["message"]) <= LONGEST_MESSAGE
        self.telemetry.metrics.clear_metrics()


def invoke(run, event, *, clock=FunctionClock.WALL):
    """The function's result, or what it says is wrong with the event."""
    telemetry = RecordingTelemetry()
    with SqliteLedger.in_memory() as ledger, within(5):
        shell = services_with(CannedAws(), ledger)
        runtime = SimpleNamespace(
            settings=SimpleNamespace(clock=clock),
            services_for_watch=lambda _now_s, _telemetry: shell,
            services_for_flip=lambda _now_s, _telemetry: shell,
        )
        try:
            result = run(event, runtime, telemetry.telemetry, wall_s=NOW_S)
        except EventError as error:
            assert_message(str(error))
            result = None
        finally:
            telemetry.check()
        json.dumps(result, allow_nan=False)
        return result


ticks = st.one_of(
    mutated(TICK),
    any_value,
    st.builds(
        lambda mode, time: {"mode": mode, "time": time},
        st.sampled_from(["focus", "sweep"]),
        st.sampled_from(TIMES_OF_EVENTS) | scalars,
    ),
)


@fuzz(20)
@given(ticks, st.sampled_from([*FunctionClock]))
@example({"mode": "focus", "time": "0001-01-01T00:00:00+14:00"}, FunctionClock.WALL)
@example({"mode": "sweep", "time": "0001-01-01T00:00:00+14:00"}, FunctionClock.EVENT)
@example({"mode": "sweep", "time": "9999-12-31T23:59:59-14:00"}, FunctionClock.WALL)
@example({"mode": "focus", "time": "9999-12-31T23:59:59-14:00"}, FunctionClock.EVENT)
def test_a_tick_is_valid_or_refused_with_a_reason(event, clock):
    invoke(watch.run, event, clock=clock)


@fuzz(10)
@given(ticks)
@example({"mode": "sweep", "time": "9999-12-31T23:59:59Z"})
@example({"mode": "focus", "time": "9999-12-31T23:59:59Z"})
def test_no_invalid_tick_prevents_the_next_valid_one(event):
    telemetry = RecordingTelemetry()
    with SqliteLedger.in_memory() as ledger:
        shell = services_with(CannedAws(), ledger)
        runtime = SimpleNamespace(
            settings=SimpleNamespace(clock=FunctionClock.WALL),
            services_for_watch=lambda _now_s, _telemetry: shell,
        )
        with suppress(EventError):
            watch.run(event, runtime, telemetry.telemetry, wall_s=NOW_S)
        later_s = NOW_S + 300
        real = {"mode": "sweep", "time": format_instant(later_s)}
        result = watch.run(real, runtime, telemetry.telemetry, wall_s=later_s)
        assert result["looked_at"] > 0
        assert ledger.states()[DRAINING].level.is_alerting
        telemetry.check()


events = st.one_of(
    mutated(EBS_EVENT, most=4),
    mutated(PROBE_EVENT, most=4),
    st.builds(lambda key, value: EBS_EVENT | {key: value}, st.sampled_from([*EBS_EVENT]), any_value),
    st.builds(lambda key, value: PROBE_EVENT | {key: value}, st.sampled_from([*PROBE_EVENT]), any_value),
    st.builds(
        lambda time, base: base | {"time": time},
        st.sampled_from(TIMES_OF_EVENTS),
        st.sampled_from([EBS_EVENT, PROBE_EVENT]),
    ),
    st.builds(
        lambda value: EBS_EVENT | {"resources": value},
        st.lists(texts.map(lambda text: f"arn:aws:ec2:us-east-1:1:volume/{text}") | scalars, max_size=5),
    ),
    any_value,
)


@fuzz(25)
@given(events)
@example(EBS_EVENT | {"resources": [f"arn:aws:ec2:us-east-1:1:volume/vol-{n:017x}" for n in range(3_000)]})
@example(EBS_EVENT | {"resources": ["arn:aws:ec2:us-east-1:1:volume/" + "x" * 100_000]})
@example(EBS_EVENT | {"resources": ["arn:aws:ec2:us-east-1:1:volume/\x1b[31m\u202e"]})
def test_an_event_is_valid_or_refused_with_a_reason(event):
    invoke(settle.run, event)


details = st.one_of(
    mutated(DETAIL, most=4),
    st.builds(lambda key, value: DETAIL | {key: value}, st.sampled_from([*DETAIL]), any_value),
    st.builds(
        lambda value: DETAIL | {"top": value},
        st.lists(
            st.fixed_dictionaries({}, optional={"comm": scalars, "wchan": scalars, "count": scalars})
            | any_value,
            max_size=40,
        ),
    ),
    st.dictionaries(texts, any_value, max_size=3),
)


@fuzz(50)
@given(details.filter(lambda value: isinstance(value, dict)))
def test_a_report_of_a_host_is_short_and_inert_or_is_dropped(detail):
    try:
        stall = Stall.from_detail(detail, now_s=NOW_S)
    except StallError as error:
        assert_message(str(error))
        return
    assert NOW_S - 31 * 86_400 <= stall.started_at_s <= NOW_S
    for sentence in stall.to_sentences(NOW_S):
        assert_message(sentence)
    repeated = json.loads(json.dumps(stall.to_document(), allow_nan=False))
    assert Stall.from_document(repeated) == stall
    json.dumps(stall.to_facts(NOW_S), allow_nan=False)


# ---- requests to flip


REQUEST = FlipRequest(
    volume_id=DRAINING,
    direction=Direction.FLIP,
    cause=FlipCause.DRAINING,
    because="it drains",
    requested_at_s=int(NOW_S),
)
GOOD_BODY = REQUEST.to_body()


def as_text(value):
    try:
        return json.dumps(value)
    except ValueError:
        return repr(value)


bodies = st.one_of(
    mutated(json.loads(GOOD_BODY), most=4).map(as_text),
    st.builds(
        lambda key, value: as_text(json.loads(GOOD_BODY) | {key: value}),
        st.sampled_from(
            [*json.loads(GOOD_BODY), "by", "overridden", "revision", "wish", "return_after_s", "why"]
        ),
        any_value,
    ),
    st.builds(
        lambda target: as_text(json.loads(GOOD_BODY) | {"wish": target}),
        st.fixed_dictionaries(
            {
                "volume_type": st.sampled_from(["gp2", "gp3", "io1", None]) | scalars,
                "iops": st.integers() | scalars,
                "throughput_mib_s": st.none() | st.integers() | scalars,
            }
        ),
    ),
    any_value.map(as_text),
    texts,
)


def each_body(test):
    for body in (
        "[" * 100_000,
        '{"a":' * 50_000,
        "9" * 5_000,
        json.dumps(json.loads(GOOD_BODY) | {f"k{n}": 1 for n in range(5_000)}),
        json.dumps(json.loads(GOOD_BODY) | {"volume_id": "vol-" + "x" * 100_000}),
        json.dumps(json.loads(GOOD_BODY) | {"because": "\x1b[31m" * 50_000}),
        json.dumps(json.loads(GOOD_BODY) | {"urgency": [0] * 50_000}),
        json.dumps(json.loads(GOOD_BODY) | {"urgency": [[]] * 10}),
        json.dumps(json.loads(GOOD_BODY) | {"revision": 10**4_000}),
        json.dumps(json.loads(GOOD_BODY) | {"time": "0001-01-01T00:00:00+14:00"}),
        json.dumps(json.loads(GOOD_BODY) | {"time": "9999-12-31T23:59:59-14:00"}),
        json.dumps(json.loads(GOOD_BODY) | {"demand": {"peak_iops": 10**400}}),
        json.dumps(
            json.loads(GOOD_BODY) | {"wish": {"volume_type": "gp2", "iops": None, "throughput_mib_s": None}}
        ),
        json.dumps(json.loads(GOOD_BODY) | {"overridden": ["nothing"] * 5_000}),
    ):
        test = example(body)(test)
    return test


@fuzz(50)
@given(bodies)
@each_body
def test_a_request_is_valid_or_poison_with_a_reason(body):
    with within(2):
        try:
            request = FlipRequest.from_body(body)
        except MalformedRequestError as error:
            assert_message(str(error))
            return
    assert FlipRequest.from_body(request.to_body()) == request
    assert len(request.to_body()) < 30_000
    assert is_plain(request.volume_id)


def a_message(number, body):
    return {
        "messageId": f"m{number}",
        "receiptHandle": "r",
        "body": body,
        "attributes": {"MessageGroupId": f"group-{number}", "SequenceNumber": str(number)},
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:flips.fifo",
        "awsRegion": "us-east-1",
    }


@fuzz(10)
@given(st.lists(bodies, max_size=4), st.integers(0, 4))
def test_poison_in_a_batch_is_retried_alone_and_hides_no_request(poison, place):
    batch = [*poison[:place], GOOD_BODY, *poison[place:]]
    carried = []
    telemetry = RecordingTelemetry()
    with pytest.MonkeyPatch.context() as patch, SqliteLedger.in_memory() as ledger:
        shell = services_with(CannedAws(), ledger)
        runtime = SimpleNamespace(
            settings=SimpleNamespace(clock=FunctionClock.WALL),
            services_for_flip=lambda _now_s, _telemetry: carried.append(1) or shell,
            queue=None,
        )
        patch.setattr(flip, "function_runtime", lambda *_: runtime)
        patch.setattr(flip, "time", SimpleNamespace(time=lambda: NOW_S))
        context = SimpleNamespace(invoked_function_arn="arn:aws:lambda:us-east-1:123456789012:function:f")
        event = {"Records": [a_message(number, body) for number, body in enumerate(batch)]}
        result = flip.handler.__wrapped__(event, context, telemetry.telemetry)
    failed = {failure["itemIdentifier"] for failure in result["batchItemFailures"]}
    number = batch.index(GOOD_BODY)
    assert f"m{number}" not in failed
    assert failed == {f"m{n}" for n, body in enumerate(batch) if not is_request(body)}
    telemetry.check()


def is_request(body):
    try:
        return FlipRequest.from_body(body).requested_at_s <= NOW_S + 60
    except MalformedRequestError:
        return False


# ---- alerts and alarms on their way to people


ALERT = json.loads(to_lambda_event(an_alert()))
messages = st.one_of(
    mutated(ALERT, most=4).map(as_text),
    mutated(ALARM, most=4).map(as_text),
    st.builds(lambda key, value: as_text(ALERT | {key: value}), st.sampled_from([*ALERT]), any_value),
    st.builds(lambda key, value: as_text(ALARM | {key: value}), st.sampled_from([*ALARM]), any_value),
    st.builds(
        lambda part, key, value: as_text(ALERT | {part: ALERT[part] | {key: value}}),
        st.sampled_from(["volume", "reading", "forecast", "evidence"]),
        st.sampled_from(
            [
                *ALERT["volume"],
                *ALERT["reading"],
                *ALERT["forecast"],
                "course",
                "because",
                "faults",
                "cause",
                "stall",
            ]
        ),
        any_value,
    ),
    any_value.map(as_text),
    texts,
)


@fuzz(60)
@given(messages)
@example("[" * 100_000)
@example(as_text(ALARM | {"AlarmName": "x" * 200_000, "NewStateReason": "\u202e" * 200_000}))
@example(as_text(ALARM | {"AlarmName": "\ud800"}))
@example(as_text(ALARM | {"AlarmContributorAttributes": {str(n): "x" * 100 for n in range(1_000)}}))
@example(as_text(ALERT | {"action": "x" * 200_000}))
@example(as_text({"schema": "\x1b[31m" * 1_000}))
@example(as_text(ALERT | {"time": "0001-01-01T00:00:00+14:00"}))
def test_a_message_is_shown_safely_or_rejected(message):
    with within(3):
        try:
            notice = parse_message(message)
        except ChatMessageError as error:
            assert_message(str(error))
            return
        assert isinstance(notice, ChatMessage)
        assert_message(notice.title)
        payload = render_message(notice, delay_note="delivered 11 min late")
        for reported in (payload, render_custom_notification(notice)):
            text = json.dumps(reported, ensure_ascii=False)
            assert is_plain(text)
            assert len(text) < 60_000
        json.dumps(payload, allow_nan=False)
        assert_no_active_markup(payload)


class RecordingChat:
    name = "teller"

    def __init__(self):
        self.received = []

    def post(self, message, *, delay_note, max_wait_s):
        self.received.append(message.message_id)


class NoSentLog:
    """Marks of what was sent, in this process."""

    def send_once(self, _name, _notice_id, send, *, lease_s):
        send()
        return SimpleNamespace(status=SendStatus.SENT, problem=None)


records = st.one_of(
    messages.map(a_record),
    mutated(a_record("x"), most=3),
    st.builds(lambda at: a_record("x", timestamp=at), scalars),
    any_value,
    st.dictionaries(texts, scalars, max_size=30),
)


@fuzz(25)
@given(st.lists(records, max_size=5), st.integers(0, 5), any_value)
@example([{"x" * 100_000: 1}], 0, None)
@example([{"\x1b[31m\u202e": 1}], 0, None)
@example(["Sns"] * 2_000, 0, None)
def test_an_invalid_record_hides_no_alert_and_fails_the_invocation(bad_records, place, event):
    good = a_record(to_lambda_event(an_alert()))
    chat, telemetry = RecordingChat(), RecordingTelemetry()
    shell = NotifyServices(
        channels=[chat], sent_log=NoSentLog(), telemetry=telemetry.telemetry, remaining_s=lambda: 50.0
    )
    batch = [*bad_records[:place], good, *bad_records[place:]]
    try:
        notify.run({"Records": batch}, NOW_S, shell)
    except NotDeliveredError as error:
        assert_message(str(error), most=4 * LONGEST_MESSAGE)
    assert an_alert().alert_id in chat.received
    telemetry.check()
    try:
        notify.run(event, NOW_S, shell)
    except NotDeliveredError as error:
        assert_message(str(error), most=4 * LONGEST_MESSAGE)
    telemetry.check()

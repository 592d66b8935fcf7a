"""No alarm triggers itself: a day with a dead webhook, by the template's own alarms and notify's own handler.

It was 481 messages when these alarms lasted a minute, reported their end and notify failed on them in turn.

The alarms are evaluated once a minute, as CloudWatch does: over the last ``EvaluationPeriods`` periods. What
an alarm publishes goes to notify like any alert; what notify fails on, Lambda retries.
"""

import json
from collections import Counter
from types import SimpleNamespace

import pytest

from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.idempotency import SendResult, SendStatus
from burstwatch.handlers import notify
from burstwatch.wiring.bootstrap_notify import NotifyServices
from support.builders.alerts import an_alert
from support.builders.sns_records import an_alarm, an_sns_event, to_lambda_event
from support.stack.synthesized_stacks import default_stack
from support.stack.template_reader import as_text

A_DAY = 24 * 60
MAX_MESSAGES = 5
RETRY_AFTER = (1, 2)
"""Minutes that Lambda waits before it invokes a function again that failed."""

ERRORS = ("Errors", "${NotifyFunction}")
NOT_DELIVERED = ("AlertsNotDelivered", "burstwatch")
DEAD_LETTERS = ("ApproximateNumberOfMessagesVisible", "${AlertsUndelivered.QueueName}")


class DeadWebhook:
    name = "slack"

    def post(self, message, *, delay_note, max_wait_s):
        raise ChannelError("the webhook was revoked (no_service)", is_permanent=True)


class SimulatedDay:
    """A day in minutes: what metrics say, in which state alarms are, and which messages reach the topic."""

    def __init__(self, stack, invoke):
        self.invoke = invoke
        self.alarms = [
            alarm for alarm in stack.of_type("AWS::CloudWatch::Alarm").values() if metric_id(alarm) in METRICS
        ]
        self.retries = next(
            config["MaximumRetryAttempts"]
            for config in stack.of_type("AWS::Lambda::EventInvokeConfig").values()
            if as_text(config["FunctionName"]) == "${NotifyFunction}"
        )
        self.states = {alarm["AlarmName"]: "OK" for alarm in self.alarms}
        self.metrics = {metric: Counter() for metric in METRICS}
        self.due = []
        self.dead_letters = 0
        self.published = []

    def publish(self, minute, message):
        self.due.append((minute + 1, message, 0))

    def run_minutes(self, minutes):
        for minute in range(minutes):
            invocations = [item for item in self.due if item[0] == minute]
            for _, message, attempt in invocations:
                self.run_notify(minute, message, attempt)
            if self.dead_letters:
                self.metrics[DEAD_LETTERS][minute] = self.dead_letters
            for alarm in self.alarms:
                self.evaluate(alarm, minute)
        return self

    def run_notify(self, minute, message, attempt):
        measured = Counter()
        try:
            self.invoke(an_sns_event(message), measured)
        except Exception:  # noqa: BLE001 - whatever ends an invocation
            self.metrics[ERRORS][minute] += 1
            if attempt < self.retries:
                self.due.append((minute + RETRY_AFTER[attempt], message, attempt + 1))
            else:
                self.dead_letters += 1
        if measured["AlertsNotDelivered"]:
            self.metrics[NOT_DELIVERED][minute] += measured["AlertsNotDelivered"]

    def evaluate(self, alarm, minute):
        assert alarm["TreatMissingData"] == "notBreaching"
        minutes = alarm["Period"] // 60
        values = self.metrics[metric_id(alarm)]
        combine = {"Sum": sum, "Maximum": max}[alarm["Statistic"]]
        periods = [
            [values[item] for item in range(last - minutes + 1, last + 1) if item in values]
            for last in range(minute, minute - minutes * alarm["EvaluationPeriods"], -minutes)
        ]
        breaching = sum(bool(period) and combine(period) >= alarm["Threshold"] for period in periods)
        state = "ALARM" if breaching >= alarm["DatapointsToAlarm"] else "OK"
        if state != self.states[alarm["AlarmName"]]:
            self.states[alarm["AlarmName"]] = state
            if alarm.get(f"{'OK' if state == 'OK' else 'Alarm'}Actions"):
                message = an_alarm(AlarmName=alarm["AlarmName"], NewStateValue=state)
                self.published.append((minute, alarm["AlarmName"], state))
                self.publish(minute, message)


METRICS = (ERRORS, NOT_DELIVERED, DEAD_LETTERS)


def metric_id(alarm):
    """The metric of an alarm and what it is of; an alarm on a query has none."""
    return alarm.get("MetricName"), *(as_text(item["Value"]) for item in alarm.get("Dimensions", ()))


def notify_with_a_dead_webhook(event, measured):
    telemetry = SimpleNamespace(
        info=lambda *_: None,
        warn=lambda *_: None,
        error=lambda *_: None,
        internal_error=lambda _, error, __: pytest.fail(repr(error)),
        emit_metric=lambda metric, value: measured.update({str(metric): value}),
    )
    shell = NotifyServices(
        channels=[DeadWebhook()], sent_log=NoSentLog(), telemetry=telemetry, remaining_s=lambda: 60.0
    )
    notify.run(event, 0.0, shell)


class NoSentLog:
    def send_once(self, channel, notice_id, send, *, lease_s):
        send()
        return SendResult(status=SendStatus.SENT)


def crash_before_handler(event, measured):
    raise ImportError("Runtime.ImportModuleError")


def test_the_alarms_that_a_failed_delivery_causes_are_the_three_that_notify_knows():
    names = {alarm["AlarmName"] for alarm in SimulatedDay(default_stack(), None).alarms}
    assert names == {f"burstwatch-{name}" for name in notify.CAUSED_BY_FAILED_DELIVERY}
    for alarm in default_stack().of_type("AWS::CloudWatch::Alarm").values():
        is_in_the_loop = alarm["AlarmName"] in names
        assert bool(alarm.get("OKActions")) != is_in_the_loop, alarm["AlarmName"]
        assert alarm["AlarmActions"]


@pytest.mark.parametrize(
    "invoke",
    [notify_with_a_dead_webhook, crash_before_handler],
    ids=lambda function: function.__name__,
)
def test_one_alert_that_fails_causes_a_handful_of_messages_in_a_day(invoke):
    day = SimulatedDay(default_stack(), invoke)
    day.publish(0, to_lambda_event(an_alert()))
    day.run_minutes(A_DAY)
    assert 2 <= len(day.published) <= MAX_MESSAGES, json.dumps(day.published[:20])
    assert {"burstwatch-AlertsDeadLettered", "burstwatch-WatchdogErrors-notify"} <= {
        name for _, name, _ in day.published
    }


def test_posting_such_an_alarm_does_not_fail_and_is_not_retried():
    for name in notify.CAUSED_BY_FAILED_DELIVERY:
        measured = Counter()
        notify_with_a_dead_webhook(an_sns_event(an_alarm(AlarmName=f"prod-{name}")), measured)
        assert not measured
    with pytest.raises(notify.NotDeliveredError):
        notify_with_a_dead_webhook(an_sns_event(an_alarm(AlarmName="prod-WatchdogErrors-watch")), Counter())

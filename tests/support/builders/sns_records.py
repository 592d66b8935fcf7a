"""What the alerts topic brings to a function: records of SNS, and alarms as CloudWatch writes them."""

import json

from burstwatch.adapters.notify.sns import SnsChannel

ALARM = {
    "AlarmName": "prod-WatchdogSilent",
    "AlarmDescription": "The watchdog has not run for ten minutes: no volume is watched."
    " Runbook: https://wiki.example.com/runbooks/WatchdogSilent.md",
    "AWSAccountId": "123456789012",
    "AlarmConfigurationUpdatedTimestamp": "2026-11-01T08:00:00.000+0000",
    "NewStateValue": "ALARM",
    "NewStateReason": "Threshold Crossed: no datapoints were received for 2 periods and 2 missing"
    " datapoints were treated as [Breaching].",
    "StateChangeTime": "2026-11-20T18:00:35.123+0000",
    "Region": "US East (N. Virginia)",
    "AlarmArn": "arn:aws:cloudwatch:us-east-1:123456789012:alarm:prod-WatchdogSilent",
    "OldStateValue": "OK",
    "OKActions": [],
    "AlarmActions": ["arn:aws:sns:us-east-1:123456789012:prod"],
    "InsufficientDataActions": [],
    "Trigger": {"MetricName": "Invocations", "Namespace": "AWS/Lambda", "Period": 300, "Threshold": 1.0},
}


class _Topic:
    def publish(self, **request):
        self.forms = json.loads(request["Message"])


def to_lambda_event(alert):
    """The form of an alert that a subscribed function gets."""
    topic = _Topic()
    SnsChannel(topic, "arn:aws:sns:us-east-1:123456789012:prod").send(alert)
    return topic.forms["lambda"]


def an_alarm(**changes):
    return json.dumps(ALARM | changes)


def a_record(message, *, timestamp="2026-11-20T18:00:36.000Z"):
    return {
        "EventSource": "aws:sns",
        "EventVersion": "1.0",
        "EventSubscriptionArn": "arn:aws:sns:us-east-1:123456789012:prod:1",
        "Sns": {
            "Type": "Notification",
            "MessageId": "95df01b4-ee98-5cb9-9903-4c221d41eb5e",
            "TopicArn": "arn:aws:sns:us-east-1:123456789012:prod",
            "Subject": "x",
            "Message": message,
            "Timestamp": timestamp,
            "MessageAttributes": {},
        },
    }


def an_sns_event(*messages, **options):
    return {"Records": [a_record(message, **options) for message in messages]}

"""Alarms that act: SetAlarmState publishes to the alarm's topics, which moto's does not.

A topic with a customer key receives the message if ``alarms_deliver`` is set. Otherwise the alarm's history
says that CloudWatch may not use the key.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from burstlab.model.aws_error import AwsError
from burstlab.model.settings import LabSettings

_ACTION_FAILED: Final = (
    'Failed to execute action {topic}. Received error: "null (Service: AWSKMS; Status Code: 400; Error Code:'
    ' AccessDeniedException)"'
)


def _set_alarm_state(settings: LabSettings, request: Mapping[str, Any]) -> dict[str, Any]:
    alarm = _find_alarm(settings, request["AlarmName"])
    alarm.update_state(request["StateReason"], request.get("StateReasonData"), request["StateValue"])
    if request["StateValue"] == "ALARM" and alarm.actions_enabled is not False:
        for topic in alarm.alarm_actions:
            if _is_delivered(settings, topic):
                _publish(settings, topic, {"AlarmName": alarm.name, "NewStateValue": "ALARM"})
    return {}


def _describe_alarm_history(settings: LabSettings, request: Mapping[str, Any]) -> dict[str, Any]:
    """Of actions only, as far as they failed."""
    alarm = _find_alarm(settings, request["AlarmName"])
    failed = [topic for topic in alarm.alarm_actions if not _is_delivered(settings, topic)]
    items = [
        {
            "AlarmName": alarm.name,
            "HistoryItemType": "Action",
            "HistorySummary": _ACTION_FAILED.format(topic=topic),
        }
        for topic in failed
    ]
    return {"AlarmHistoryItems": items}


def _find_alarm(settings: LabSettings, name: str) -> Any:
    from moto.cloudwatch.models import cloudwatch_backends  # noqa: PLC0415 - heavy, seldom needed

    alarm = cloudwatch_backends[settings.account_id][settings.region].alarms.get(name)
    if alarm is None:
        raise AwsError("ResourceNotFound", f"Unknown alarm {name}", 404)
    return alarm


def _is_delivered(settings: LabSettings, topic_arn: str) -> bool:
    topic = _sns_backend(settings).topics.get(topic_arn)
    return topic is not None and (settings.alarms_deliver or not topic.kms_master_key_id)


def _publish(settings: LabSettings, topic_arn: str, message: Mapping[str, str]) -> None:
    _sns_backend(settings).publish(json.dumps(message), arn=topic_arn)


def _sns_backend(settings: LabSettings) -> Any:
    from moto.sns.models import sns_backends  # noqa: PLC0415 - heavy, seldom needed

    return sns_backends[settings.account_id][settings.region]


ALARM_ACTIONS: Final[Mapping[str, Callable[[LabSettings, Mapping[str, Any]], dict[str, Any]]]] = {
    "SetAlarmState": _set_alarm_state,
    "DescribeAlarmHistory": _describe_alarm_history,
}

"""An alert of any kind, about one volume."""

from burstwatch.core.alerts.alert import (
    Alert,
    AlertKind,
    describe_volume,
)
from burstwatch.core.assessment.severity import Level
from burstwatch.core.location import AwsLocation
from support.builders.core_values import (
    a_volume,
    at,
)

HERE = AwsLocation(region="us-east-1", account="111122223333")


def alert_of_kind(kind: AlertKind, **changes) -> Alert:
    facts = {
        "alert_id": "a1",
        "kind": kind,
        "level": Level.CRITICAL,
        "previous_level": Level.OK,
        "volume_id": "vol-0a1",
        "at_s": int(at("12:00")),
        "volume": describe_volume(a_volume(), HERE),
        "reading": {"baseline_iops": 300},
    }
    return Alert(**(facts | changes))

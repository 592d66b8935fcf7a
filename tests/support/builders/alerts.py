"""Alerts as they travel, for the tests of the channels."""

from copy import deepcopy

from burstwatch.core.alerts.alert import Alert, make_digest
from burstwatch.core.location import AwsLocation
from support.builders.events import event_alerts, refused_by_aws_alert

PLACE = AwsLocation(region="us-east-1", account="123456789012")
NOW_S = 1_795_197_635
"""2026-11-20T18:00:35Z"""

# 100 GiB earn 300 IOPS. 31.5 % of 5.4e6 credits are 1,701,000: at 2,100 a second they last 810 s, less the
# 95 s since the datapoint: 715 s, 18:12:30. At worst 2,700 a second leave: 630 s - 95 s = 535 s, 18:09:30.
_CRITICAL = {
    "schema": "burstwatch.alert/v1",
    "alert_id": "a461d265d7905ad49f1c5b139e4f6beb",
    "kind": "BurstBalanceDraining",
    "level": "critical",
    "previous_level": "warning",
    "is_reminder": False,
    "volume": {
        "volume_id": "vol-0123456789abcdef0",
        "name": "ci-7",
        "volume_type": "gp2",
        "size_gib": 100,
        "instance_id": "i-0fedcba9876543210",
        "device": "/dev/xvda",
        "region": "us-east-1",
        "account": "123456789012",
    },
    "reading": {
        "burst_balance_pct": 31.5,
        "credits": 1701000,
        "baseline_iops": 300,
        "datapoint_at": "2026-11-20T17:59:00Z",
        "datapoint_age_s": 95,
        "unknown_reason": None,
        "unknown_because": None,
    },
    "forecast": {
        "drain_per_s": 2100.0,
        "time_to_empty_s": 715,
        "soonest_empty_s": 535,
        "earliest_s": 715,
        "latest_s": 800,
        "time_to_empty_at": "2026-11-20T18:12:30Z",
        "soonest_empty_at": "2026-11-20T18:09:30Z",
        "earliest_at": "2026-11-20T18:12:30Z",
        "latest_at": "2026-11-20T18:13:55Z",
    },
    "evidence": {
        "drain_per_s_by_horizon": {"5m": 2100.0},
        "consumed_read_iops": 1400.0,
        "consumed_write_iops": 1000.0,
        "tag_faults": [],
    },
    "action": "aws ec2 modify-volume --volume-id vol-0123456789abcdef0 --volume-type gp3"
    " --iops 3000 --throughput 128",
    "runbook": "https://wiki.example.com/runbooks/BurstBalanceDraining.md",
    "console_url": "https://us-east-1.console.aws.amazon.com/ec2/home?region=us-east-1"
    "#VolumeDetails:volumeId=vol-0123456789abcdef0",
    "time": "2026-11-20T18:00:35Z",
}


def an_alert(*, volume=None, reading=None, forecast=None, evidence=None, **changes) -> Alert:
    """A critical alert; keywords change what its document says."""
    document = deepcopy(_CRITICAL) | changes
    sections = {"volume": volume, "reading": reading, "forecast": forecast, "evidence": evidence}
    for section, changed in sections.items():
        document[section] |= changed or {}
    return Alert.from_document(document)


def a_drain_alert_with_cause(text: str | None = None, **evidence) -> Alert:
    """A critical alert about a volume of Kubernetes in auto, which says what drained it.

    ``text`` stands wherever text comes from outside.
    """
    outside = dict.fromkeys(("name", "called", "claim", "namespace", "cluster", "instance_name"), text)
    kubernetes = {
        "called": "claim data-etcd-0 in kube-system",
        "claim": "data-etcd-0",
        "namespace": "kube-system",
        "cluster": "prod",
        "instance_name": "build-3",
    }
    course = {
        "first_at": "2026-11-20T17:27:00Z",
        "last_at": "2026-11-20T17:59:00Z",
        "step_s": 240,
        "pct": [100.0, 100.0, None, 96.6, 80.3, 63.9, 56.0, 43.9, 31.5],
    }
    drain = {
        "began_at": "2026-11-20T17:37:00Z",
        "is_longer": False,
        "from_pct": 100.0,
        "to_pct": 31.5,
        "lasted_s": 1_320,
        "served_min": 22,
        "read_iops": 600.0,
        "write_iops": 1_800.0,
        "read_kib": 4.0,
        "write_kib": 16.0,
        "days_asked": 7,
        "days_known": 7,
        "days_alike": 5,
        "is_particular": True,
        "not_read": text,
    }
    return an_alert(
        volume=kubernetes if text is None else outside,
        evidence={"course": course, "drain": drain, "mode": "auto"} | evidence,
    )


def numbered_alert(number: int, *, level="critical", time_to_empty_s: int | None = 715, **changes) -> Alert:
    """One of many: a volume, a name and an id of its own."""
    volume = {"volume_id": f"vol-{number:017x}", "name": f"ci-{number}"}
    forecast = {"time_to_empty_s": time_to_empty_s}
    changes = {"alert_id": f"{number:032x}", "level": level} | changes
    return an_alert(volume=volume, forecast=forecast, **changes)


def a_digest(count: int = 25) -> Alert:
    """A digest of this many critical alerts."""
    alerts = [numbered_alert(number) for number in range(count)]
    return make_digest(alerts, location=PLACE, runbooks_url="https://wiki.example.com/runbooks", now_s=NOW_S)


def a_policy_rejection(*faults: str) -> Alert:
    """An alert about the watchdog itself, without a volume."""
    empty = {"volume": {"volume_id": None, "region": "us-east-1", "account": None}}
    rejected = {"kind": "PolicyRejected", "level": "warning", "previous_level": "unknown", "action": None}
    document = deepcopy(_CRITICAL) | empty | rejected | {"console_url": None}
    document["evidence"] = {"faults": list(faults), "in_force": "the policy of 2026-11-19"}
    return Alert.from_document(document)


def event_alerts_of_every_kind(text: str | None = None) -> list[Alert]:
    """One of each kind about a flip or a window; ``text`` stands wherever text comes from outside."""
    if text is None:
        return [*event_alerts().values(), refused_by_aws_alert()]
    outside = dict.fromkeys(("name", "by", "because", "reason", "error_text"), text)
    window = text.encode(errors="replace").decode()
    return [*event_alerts(**outside, window=window).values(), refused_by_aws_alert(text, text)]


def an_event_digest(text: str | None = None) -> Alert:
    """A digest of one of each kind."""
    alerts = event_alerts_of_every_kind(text)
    return make_digest(alerts, location=PLACE, runbooks_url="https://wiki.example.com/runbooks", now_s=NOW_S)

"""Alerts: what is sent to people about a volume, and its words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Self

from burstwatch.core import stored_values
from burstwatch.core.alerts.drain_message import describe_drain, format_drain_cause
from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.drain_cause import DrainEpisode
from burstwatch.core.assessment.resource import Resource, type_name_of
from burstwatch.core.assessment.resource_buckets import rate_when_empty_per_s
from burstwatch.core.assessment.severity import BALANCE_REASON, PACE_REASON, Level
from burstwatch.core.buckets.forecast import describe_trend
from burstwatch.core.buckets.sparkline import describe_balance_history
from burstwatch.core.buckets.units import BYTES, format_drain, format_limit, format_size
from burstwatch.core.durations import MINUTE_S
from burstwatch.core.ebs.display_name import claim_of, cluster_of, display_name_of
from burstwatch.core.ebs.gp2_bucket import EBS_IO
from burstwatch.core.ebs.hdd_bucket import EBS_THROUGHPUT, HDD_RATES
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.efs.efs_bucket import EFS_BYTES
from burstwatch.core.efs.file_system import FileSystem
from burstwatch.core.instances.instance_buckets import INSTANCE_KINDS
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import page_template
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.rds.rds_buckets import RDS_IO
from burstwatch.core.resource_type import ResourceType, resource_id_in, subject_of
from burstwatch.core.text import (
    format_instant,
    format_relative_time,
    format_rounded_duration,
    format_time,
    rounded_or_none,
    tenths_or_none,
)

if TYPE_CHECKING:
    from documents.alert import (
        AlertReadingDocument,
        AlertResourceDocument,
        AlertVolumeDocument,
        ForecastDocument,
    )
    from documents.shared import NamesDocument

SCHEMA: Final = "burstwatch.alert/v1"
_MAX_NAMED_IN_DIGEST: Final = 20
"""A judgement: no one reads more lines of one message."""
_CREDITS: Final = {
    kind.name: kind.credits for kind in (EBS_IO, EBS_THROUGHPUT, *INSTANCE_KINDS, EFS_BYTES, RDS_IO)
}
_VOLUME_BUCKETS: Final = (EBS_IO.name, EBS_THROUGHPUT.name)
"""A volume has one bucket only, so its balance needs no name."""
_UNUSED_REASONS: Final = (
    None,
    UnknownReason.DETACHED,
    UnknownReason.INSTANCE_STOPPED,
    UnknownReason.NO_SUCH_BUCKET,
)
"""An alert that ends for one of these did not end with a better balance; None: it is not watched any more."""
_COMMAND_PREFIXES: Final = ("aws ", "burstctl ")
_FAR_ESTIMATE_S: Final = 2 * 3600
"""Farther off than this, the estimate matters less than the bound and comes second."""


class AlertKind(StrEnum):
    """Each has a page of the same name in runbooks/."""

    DRAINING = "BurstBalanceDraining"
    EXHAUSTED = "BurstBalanceExhausted"
    RECOVERED = "BurstBalanceRecovered"
    TELEMETRY_GAP = "TelemetryGap"
    HOST_STALL = "HostStallReported"
    FLIPPED = "VolumeFlipped"
    FLIPPED_BACK = "VolumeFlippedBack"
    FLIP_REFUSED = "FlipRefused"
    FLIP_FAILED = "FlipFailed"
    FLIP_STUCK = "FlipStuck"
    LEFT_ON_TARGET = "LeftOnTarget"
    CHANGED_BY_OTHERS = "VolumeChangedByOthers"
    CRITICAL_ON_BURST = "CriticalVolumeOnBurstStorage"
    WINDOW_STARTING = "WindowStarting"
    WINDOW_MISSED = "WindowMissed"
    POLICY_REJECTED = "PolicyRejected"
    DIGEST = "AlertDigest"
    TEST = "TestAlert"


_EVENT_TITLES: Final[Mapping[str, str]] = {
    AlertKind.HOST_STALL: "host stalled",
    AlertKind.FLIPPED: "flipped",
    AlertKind.FLIPPED_BACK: "flipped back",
    AlertKind.FLIP_REFUSED: "flip refused",
    AlertKind.FLIP_FAILED: "flip failed",
    AlertKind.FLIP_STUCK: "flip stuck",
    AlertKind.LEFT_ON_TARGET: "left on target",
    AlertKind.CHANGED_BY_OTHERS: "changed by others",
    AlertKind.CRITICAL_ON_BURST: "at risk",
    AlertKind.WINDOW_STARTING: "window",
    AlertKind.WINDOW_MISSED: "window missed",
    AlertKind.TEST: "test",
}
"""The alerts about something that happened, and what it is called in a digest."""

_EXPECTED_EVENTS: Final = frozenset(
    {AlertKind.FLIPPED, AlertKind.FLIPPED_BACK, AlertKind.WINDOW_STARTING, AlertKind.TEST}
)
_BALANCE_ALERTS: Final = frozenset(
    {AlertKind.DRAINING, AlertKind.EXHAUSTED, AlertKind.RECOVERED, AlertKind.TELEMETRY_GAP}
)

_REQUIRED_KEYS: Final[Mapping[str, Sequence[str]]] = {
    "volume": (
        "volume_id",
        "name",
        "called",
        "claim",
        "namespace",
        "cluster",
        "volume_type",
        "size_gib",
        "instance_id",
        "instance_name",
        "device",
        "region",
        "account",
    ),
    "resource": (
        "resource_id",
        "resource_type",
        "bucket",
        "name",
        "called",
        "instance_type",
        "region",
        "account",
    ),
    "reading": (
        "burst_balance_pct",
        "credits",
        "baseline_iops",
        "unit",
        "baseline",
        "baseline_unit",
        "datapoint_at",
        "datapoint_age_s",
        "unknown_reason",
        "unknown_because",
    ),
    "forecast": (
        "drain_per_s",
        "time_to_empty_s",
        "soonest_empty_s",
        "earliest_s",
        "latest_s",
        "time_to_empty_at",
        "soonest_empty_at",
        "earliest_at",
        "latest_at",
    ),
}
"""What receivers rely on finding in each alert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One message; ``make_alert_id`` is the same whenever the same alert is sent again.

    ``level`` is the bucket's, whatever the alert is about. ``volume_id`` is the key of the bucket in the
    ledger, for a volume its ID; None for an alert about a window or about the watchdog itself. The mappings
    hold JSON values only; ``volume``, ``resource``, ``reading`` and ``forecast`` always have all their keys,
    with None for what is not known. An alert about a volume that has no ``resource`` gets one.
    """

    alert_id: str
    kind: AlertKind
    level: Level
    previous_level: Level
    volume_id: str | None
    at_s: int
    is_reminder: bool = False
    volume: Mapping[str, Any] = field(default_factory=dict)
    resource: Mapping[str, Any] = field(default_factory=dict)
    reading: Mapping[str, Any] = field(default_factory=dict)
    forecast: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)
    action: str | None = None
    runbook: str | None = None
    console_url: str | None = None

    def __post_init__(self) -> None:
        for name, keys in _REQUIRED_KEYS.items():
            object.__setattr__(self, name, dict.fromkeys(keys) | dict(getattr(self, name)))
        if self.resource["resource_id"] is None:
            object.__setattr__(self, "resource", dict(self.resource) | _resource_of_volume(self.volume))

    @property
    def resource_id(self) -> str | None:
        """The ID of the resource that it is about; None if it is about no one resource."""
        return None if self.volume_id is None else resource_id_in(self.volume_id)

    @property
    def is_about_volumes(self) -> bool:
        """Whether it is about a volume, or about no resource in particular."""
        return self.resource["resource_type"] in (None, ResourceType.EBS)

    def to_document(self) -> dict[str, Any]:
        """The alert in the schema ``burstwatch.alert/v1``."""
        return {
            "schema": SCHEMA,
            "alert_id": self.alert_id,
            "kind": str(self.kind),
            "level": str(self.level),
            "previous_level": str(self.previous_level),
            "is_reminder": self.is_reminder,
            "volume": dict(self.volume) if self.is_about_volumes else None,
            "resource": dict(self.resource),
            "reading": dict(self.reading),
            "forecast": dict(self.forecast),
            "evidence": dict(self.evidence),
            "action": self.action,
            "runbook": self.runbook,
            "console_url": self.console_url,
            "time": format_instant(self.at_s),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``to_document``; the first version wrote no ``resource``."""
        resource, volume = _read_facts(document.get("resource") or {}), _read_facts(document["volume"] or {})
        resource_type, bucket = resource.get("resource_type"), resource.get("bucket")
        subject = _OPTIONAL_TEXT(volume.get("volume_id"))
        if resource_type not in (None, ResourceType.EBS):
            subject = subject_of(ResourceType(resource_type), str(resource["resource_id"]), str(bucket))
        return cls(
            alert_id=stored_values.read_text(document["alert_id"]),
            kind=AlertKind(document["kind"]),
            level=Level(document["level"]),
            previous_level=Level(document["previous_level"]),
            volume_id=subject,
            at_s=int(stored_values.read_instant(datetime.fromisoformat(document["time"]).timestamp())),
            is_reminder=stored_values.read_bool(document["is_reminder"]),
            volume=volume,
            resource=resource,
            reading=_read_facts(document["reading"]),
            forecast=_read_facts(document["forecast"]),
            evidence=stored_values.read_mapping(document["evidence"]),
            **{key: _OPTIONAL_TEXT(document[key]) for key in ("action", "runbook", "console_url")},
        )


def _resource_of_volume(volume: Mapping[str, Any]) -> dict[str, Any]:
    """The resource of an alert that has only its volume."""
    place = {name: volume[name] for name in ("region", "account")}
    if volume["volume_id"] is None:
        return place
    return place | {
        "resource_id": volume["volume_id"],
        "resource_type": str(ResourceType.EBS),
        "bucket": (EBS_THROUGHPUT if volume["volume_type"] in HDD_RATES else EBS_IO).name,
        "name": volume["name"],
        "called": volume["called"],
    }


_OPTIONAL_TEXT: Final = stored_values.or_none(stored_values.read_text)
_OPTIONAL_NUMBER: Final = stored_values.or_none(stored_values.read_number)


def _read_facts(document: Any) -> Mapping[str, Any]:
    """Facts about a volume, of which those that are compared or counted are numbers."""
    facts = stored_values.read_mapping(document)
    for name, value in facts.items():
        if name in _NUMERIC_KEYS or name.endswith("_s"):
            _OPTIONAL_NUMBER(value)
    return facts


_NUMERIC_KEYS: Final = frozenset(
    {"burst_balance_pct", "credits", "baseline_iops", "baseline", "size_gib", "drain_per_s"}
)


def alert_urgency(alert: Alert) -> Level:
    """How pressing it is: what went as it should is ok, what waits for people is a warning at least."""
    if alert.kind in _EXPECTED_EVENTS:
        return Level.OK
    if alert.kind in _EVENT_TITLES:
        return max(alert.level, Level.WARNING, key=lambda level: level.rank)
    return alert.level


def make_alert_id(subject: str, kind: AlertKind, revision: int) -> str:
    """The same for the same subject, kind and revision of the ledger; different otherwise."""
    return sha256(f"{subject}\n{kind}\n{revision}".encode()).hexdigest()[:32]


def describe_volume(volume: Volume, location: AwsLocation) -> "AlertVolumeDocument":
    """The volume as alerts carry it; ``name`` is its Name tag, ``display_name_in`` what people call it."""
    return {
        "volume_id": volume.volume_id,
        **describe_names(volume),
        "volume_type": volume.volume_type,
        "size_gib": volume.size_gib,
        "instance_id": volume.instance_id,
        "instance_name": volume.instance_name,
        "device": volume.device,
        "region": location.region,
        "account": location.account,
    }


def describe_resource(assessment: Assessment, location: AwsLocation) -> "AlertResourceDocument":
    """The resource and its bucket as alerts carry them."""
    resource = assessment.resource
    return {
        "resource_id": resource.resource_id,
        "resource_type": resource.resource_type,
        "bucket": assessment.kind.name,
        "name": resource.name,
        "called": display_name_of(resource) if isinstance(resource, Volume) else resource.name,
        "instance_type": None if isinstance(resource, Volume | FileSystem) else type_name_of(resource),
        "region": location.region,
        "account": location.account,
    }


def console_url(resource: Resource, location: AwsLocation) -> str:
    """The page of the resource in the AWS console."""
    match resource:
        case Volume():
            return location.volume_url(resource.volume_id)
        case FileSystem():
            return location.file_system_url(resource.file_system_id)
        case DbInstance():
            return location.database_url(resource.identifier)
        case _:
            return location.instance_url(resource.instance_id)


def describe_names(volume: Volume) -> "NamesDocument":
    """The names of the volume, for programs: each name by itself, and the one that people use."""
    claim = claim_of(volume)
    return {
        "name": volume.name,
        "called": display_name_of(volume),
        "claim": claim.name if claim else None,
        "namespace": claim.namespace if claim else None,
        "cluster": cluster_of(volume),
    }


def describe_reading(assessment: Assessment) -> "AlertReadingDocument":
    """What was read of the volume, as alerts carry it."""
    sample, is_known = assessment.sample, assessment.bucket.is_known
    return {
        "burst_balance_pct": assessment.balance_pct,
        "credits": rounded_or_none(assessment.credits_left if is_known else None),
        "baseline_iops": baseline_iops_or_none(assessment),
        "unit": assessment.kind.unit,
        "baseline": round(rate_when_empty_per_s(assessment.resource, assessment.bucket), 1)
        if is_known
        else None,
        "baseline_unit": assessment.kind.rate_unit,
        "datapoint_at": format_instant(sample.end_at_s) if sample else None,
        "datapoint_age_s": rounded_or_none(assessment.age_s),
        "unknown_reason": assessment.unknown_reason,
        "unknown_because": assessment.unknown_because,
    }


def baseline_iops_or_none(assessment: Assessment) -> int | None:
    """The baseline of a volume that counts operations, as documents have it; None for any other bucket."""
    return assessment.baseline_iops if assessment.kind is EBS_IO else None


def describe_forecast(assessment: Assessment, now_s: float) -> "ForecastDocument":
    """When the volume's credits are exhausted, in seconds from ``now_s`` and as instants."""
    forecast, is_known = assessment.forecast, assessment.bucket.is_known
    time_to_empty_s = forecast.time_to_empty_s if forecast else None
    soonest_empty_s = forecast.soonest_empty_s if forecast else None
    earliest_s = forecast.earliest_s if forecast else None
    latest_s = forecast.latest_s if forecast else None
    return {
        "drain_per_s": tenths_or_none(forecast.drain_per_s if forecast and is_known else None),
        "time_to_empty_s": rounded_or_none(time_to_empty_s),
        "soonest_empty_s": rounded_or_none(soonest_empty_s),
        "earliest_s": rounded_or_none(earliest_s),
        "latest_s": rounded_or_none(latest_s),
        "time_to_empty_at": _instant_in(time_to_empty_s, now_s),
        "soonest_empty_at": _instant_in(soonest_empty_s, now_s),
        "earliest_at": _instant_in(earliest_s, now_s),
        "latest_at": _instant_in(latest_s, now_s),
    }


def _instant_in(duration_s: float | None, now_s: float) -> str | None:
    return None if duration_s is None else format_instant(now_s + duration_s)


def describe_evidence(assessment: Assessment, episode: DrainEpisode | None = None) -> dict[str, Any]:
    """What the alert rests on: how the balance went, the drain over each horizon, the operations served."""
    forecast = assessment.forecast
    drain_rates = forecast.drain_rates if forecast and assessment.bucket.is_known else ()
    return {
        "drain_per_s_by_horizon": {
            f"{rate.duration_s // 60}m": round(rate.credits_per_s, 1) for rate in drain_rates
        },
        "consumed_read_iops": tenths_or_none(assessment.consumed_read_iops),
        "consumed_write_iops": tenths_or_none(assessment.consumed_write_iops),
        "course": describe_balance_history(assessment.balance),
        "drain": describe_drain(episode),
    }


def make_digest(alerts: Sequence[Alert], *, location: AwsLocation, runbooks_url: str, now_s: int) -> Alert:
    """One alert in place of many; the most urgent are named, all of them are counted."""
    ordered = sorted(alerts, key=_urgency_key)
    ids = "\n".join(sorted(alert.alert_id for alert in alerts))
    highest_level = max(map(alert_urgency, alerts), key=lambda level: level.rank)
    counts: dict[str, int] = {}
    for alert in ordered:
        counts[alert.kind] = counts.get(alert.kind, 0) + 1
    return make_fleet_alert(
        AlertKind.DIGEST,
        sha256(ids.encode()).hexdigest()[:32],
        level=highest_level,
        evidence={
            "alerts": len(alerts),
            "by_kind": counts,
            "most_urgent": [_digest_line(alert) for alert in ordered[:_MAX_NAMED_IN_DIGEST]],
        },
        action=f"burstctl assess --region {location.region}",
        location=location,
        runbooks_url=runbooks_url,
        now_s=now_s,
    )


def make_fleet_alert(
    kind: AlertKind,
    alert_id: str,
    *,
    level: Level,
    evidence: Mapping[str, Any],
    action: str,
    location: AwsLocation,
    runbooks_url: str,
    now_s: int,
) -> Alert:
    """An alert that is not about one volume."""
    return Alert(
        alert_id=alert_id,
        kind=kind,
        level=level,
        previous_level=Level.UNKNOWN,
        volume_id=None,
        at_s=now_s,
        volume={"region": location.region, "account": location.account},
        evidence=evidence,
        action=action,
        runbook=runbook_link(kind, runbooks_url),
    )


def _urgency_key(alert: Alert) -> tuple[int, float]:
    """The most urgent first; of equal urgency, the first to be empty, then those without a forecast."""
    soonest = alert.forecast["time_to_empty_s"]
    rank = Level.WATCH.rank if alert.kind is AlertKind.TELEMETRY_GAP else alert_urgency(alert).rank
    return -rank, float("inf") if soonest is None else soonest


def _digest_line(alert: Alert) -> dict[str, Any]:
    return {
        "volume_id": alert.volume_id,
        "resource_id": alert.resource_id,
        "bucket": alert.resource["bucket"],
        "name": alert.resource["name"],
        "called": display_name_in(alert.resource),
        "kind": str(alert.kind),
        "level": str(alert.level),
        "burst_balance_pct": alert.reading["burst_balance_pct"],
        "time_to_empty_at": alert.forecast["time_to_empty_at"],
        "soonest_empty_at": alert.forecast["soonest_empty_at"],
        "summary": alert.evidence.get("summary"),
        "changing_to": alert.evidence.get("changing_to"),
    }


def make_policy_rejected(
    faults: Sequence[str],
    *,
    in_force: str,
    summary: str | None = None,
    alert_id: str | None = None,
    action: str,
    location: AwsLocation,
    runbooks_url: str,
    now_s: int,
) -> Alert:
    """The alert about a policy that turned bad under a running watchdog; ``in_force`` names the one kept."""
    return make_fleet_alert(
        AlertKind.POLICY_REJECTED,
        alert_id or make_alert_id("policy", AlertKind.POLICY_REJECTED, now_s),
        level=Level.WARNING,
        evidence={"faults": list(faults), "in_force": in_force} | ({"summary": summary} if summary else {}),
        action=action,
        location=location,
        runbooks_url=runbooks_url,
        now_s=now_s,
    )


def make_test_alert(
    alert_id: str, *, route: str, sender: str, location: AwsLocation, runbooks_url: str, now_s: int
) -> Alert:
    """The alert that shows whether people are reached; ``route`` is how it was sent, ``sender`` by whom.

    It is never in a ledger, so ``alert_id`` must be different each time.
    """
    return make_fleet_alert(
        AlertKind.TEST,
        alert_id,
        level=Level.OK,
        evidence={
            "summary": "this message is a test of the alerts, and nothing is wrong",
            "details": [f"{sender} sent it with burstctl alert --test, {route}."],
        },
        action=f"Confirm to {sender} that it arrived. There is nothing else to do.",
        location=location,
        runbooks_url=runbooks_url,
        now_s=now_s,
    )


def is_command(action: str) -> bool:
    """Whether an action can be pasted into a shell; otherwise it is a sentence."""
    return action.startswith(_COMMAND_PREFIXES)


def runbook_link(kind: AlertKind, runbooks_url: str) -> str:
    """The page about this kind of alert: its address, or without ``alerts.runbooks_url`` its path."""
    return page_template(runbooks_url).replace("{page}", kind)


def runbook_reference(page: str, link: str | None) -> str:
    """Where a person reads a page: its address, or else the command that shows it.

    ``runbook_reference("FlipStuck", "runbooks/FlipStuck.md")`` is ``burstctl runbook FlipStuck``.
    """
    return link if link is not None and link.startswith("https://") else f"burstctl runbook {page}"


def display_name_in(volume: Mapping[str, Any]) -> str | None:
    """The name that people use for the volume or resource of an alert; None if it has none."""
    return volume.get("called") or volume.get("name")


def action_label(alert: Alert) -> str:
    """What introduces the action: of a draining volume in mode auto, the watchdog makes the flip itself."""
    is_flip = alert.action is not None and alert.action.startswith("burstctl flip ")
    is_drain = alert.kind in (AlertKind.DRAINING, AlertKind.EXHAUSTED)
    is_auto = is_drain and alert.evidence.get("mode") == "auto"
    if not (is_flip and is_auto) or _is_refilling(alert.forecast) or alert.evidence.get("release"):
        return "What to do"
    rule = alert.evidence.get("act_at")
    must_wait = rule is not None and alert.level.rank < Level(rule["level"]).rank
    when = f" at {rule['level']}" if rule is not None and must_wait else ""
    return f"The watchdog flips it{when} if it may act and no guard refuses; to do it now"


def further_commands(alert: Alert) -> list[tuple[str, str]]:
    """Commands that show more, leave more time, or end a hold; each with what it is for."""
    region = f"--region {alert.resource['region']}"
    release = alert.evidence.get("release")
    releases = [("End the hold", f"burstctl release {release} {region}")] if release else []
    if alert.volume_id is None or alert.kind not in _BALANCE_ALERTS - {AlertKind.RECOVERED}:
        return releases
    volume = f"{alert.resource_id} {region}"
    commands = [("See why", f"burstctl explain {volume}"), *releases]
    if releases:
        return commands
    if alert.evidence.get("mode") == "auto" and alert.resource["bucket"] == EBS_IO.name:
        commands.append(
            ("Stop automatic changes", f"burstctl hold {volume} --for 2h --reason 'looking at it'")
        )
    return commands


def format_forecast(forecast: Mapping[str, Any]) -> str | None:
    """``empty in about 14 min (18:05), not before 17:58 UTC``; None if there is no forecast."""
    soonest, estimate = forecast.get("soonest_empty_at"), forecast.get("time_to_empty_at")
    if soonest is None:
        return None
    if forecast.get("soonest_empty_s") == 0 and forecast.get("time_to_empty_s") == 0:
        return "empty now"
    now_s = to_epoch_s(soonest) - forecast["soonest_empty_s"]
    bound = f"{format_time(to_epoch_s(soonest), now_s)} UTC"
    if estimate is None:
        trend = describe_trend(forecast.get("drain_per_s"))
        is_close = forecast["soonest_empty_s"] < MINUTE_S
        return trend if is_close else f"{trend}; not empty before {bound}"
    time_to_empty_s = forecast["time_to_empty_s"]
    about = (
        f"in about {format_rounded_duration(time_to_empty_s)} ({format_time(to_epoch_s(estimate), now_s)})"
    )
    if time_to_empty_s > _FAR_ESTIMATE_S:
        return f"not empty before {bound}, at this pace {about}"
    return f"empty {about}, not before {bound}"


def to_epoch_s(instant: str) -> float:
    """An instant of an alert as seconds of the epoch."""
    return datetime.fromisoformat(instant).timestamp()


def format_title(alert: Alert) -> str:
    """One line: how urgent it is, the volume, the time left, and the region.

    ``CRITICAL: ci-7 is empty in about 12 min (us-east-1)``.
    """
    name = display_name_in(alert.resource) or alert.resource_id
    text = " ".join(filter(None, (name, _format_title_detail(alert))))
    region = alert.resource["region"]
    where = f" ({region})" if region and region not in text else ""
    return f"{'STILL ' if alert.is_reminder else ''}{_title_lead(alert).upper()}: {text}{where}"


def _title_lead(alert: Alert) -> str:
    """The level, unless the alert is about something good, or about a volume that AWS is changing."""
    if alert.kind in _EXPECTED_EVENTS:
        return _EVENT_TITLES[alert.kind]
    if alert.kind is AlertKind.RECOVERED:
        is_unused = alert.level is Level.UNKNOWN and alert.reading.get("unknown_reason") in _UNUSED_REASONS
        return "closed" if is_unused else "recovered"
    if alert.kind not in _EVENT_TITLES and alert.evidence.get("changing_to"):
        return "changing"
    return str(alert_urgency(alert))


def _format_title_detail(alert: Alert) -> str:
    match alert.kind:
        case _ if alert.kind in _EVENT_TITLES:
            detail = str(alert.evidence["summary"])
        case AlertKind.DIGEST:
            is_about_balances = alert.evidence["by_kind"].keys() <= _BALANCE_ALERTS
            detail = (
                f"{alert.evidence['alerts']} {'burst-balance ' if is_about_balances else ''}alerts at once"
            )
        case AlertKind.POLICY_REJECTED:
            detail = alert.evidence.get("summary") or "policy rejected; the last valid one stays in force"
        case AlertKind.EXHAUSTED:
            detail = _format_exhausted(alert)
        case AlertKind.RECOVERED:
            detail = ""
        case AlertKind.TELEMETRY_GAP:
            balance = "burst balance" if alert.is_about_volumes else f"balance of its {_credits(alert)}"
            detail = f"has no {balance} to read"
        case _:
            target_text = alert.evidence.get("changing_to")
            progress = f" while AWS modifies it to {target_text}" if target_text else ""
            time_left = _format_time_left(alert.forecast)
            if not alert.is_about_volumes:
                outlook = str(alert.evidence.get("outlook") or "").partition(";")[0]
                time_left = f"{_credits(alert)}: {outlook or time_left.removeprefix('is ')}"
            detail = f"{time_left}{progress}"
    return detail


def _format_exhausted(alert: Alert) -> str:
    if target_text := alert.evidence.get("changing_to"):
        return f"has no credits left while AWS modifies it to {target_text}"
    if _is_refilling(alert.forecast):
        return f"is refilling, {alert.reading['burst_balance_pct']:.1f} % so far"
    limit = alert.evidence.get("limit_when_empty") or _format_baseline(alert.reading)
    return f"is out of {_credits(alert)}, throttled to {limit}"


def _credits(alert: Alert) -> str:
    """What people call the credits of the bucket; a bucket of a later version has just credits."""
    return _CREDITS.get(str(alert.resource["bucket"]), "credits")


def _format_baseline(reading: Mapping[str, Any]) -> str:
    """``300 IOPS``; an alert of the first version has no unit."""
    if reading["baseline"] is None and reading["baseline_iops"] is None:
        return "its baseline, which is not known"
    if reading["baseline"] is None:
        return f"{reading['baseline_iops']:,} IOPS"
    return format_limit(reading["baseline"], reading["baseline_unit"])


def _is_refilling(forecast: Mapping[str, Any]) -> bool:
    return round(forecast.get("drain_per_s") or 0) < 0 and forecast.get("time_to_empty_s") is None


def _format_time_left(forecast: Mapping[str, Any]) -> str:
    """``is empty in about 12 min``; the bound instead, if the estimate is far off or missing."""
    soonest_s, time_to_empty_s = forecast["soonest_empty_s"], forecast["time_to_empty_s"]
    if soonest_s is None:
        return "is draining"
    if _is_refilling(forecast):
        return f"is {describe_trend(forecast['drain_per_s'])}"
    if time_to_empty_s is None or time_to_empty_s > _FAR_ESTIMATE_S:
        return f"is empty in {format_rounded_duration(soonest_s)} at the earliest"
    return (
        f"is empty in about {format_rounded_duration(time_to_empty_s)}" if time_to_empty_s else "is empty now"
    )


def format_sentences(alert: Alert) -> list[str]:
    """What a person needs to know besides the title; the first sentence is the reason of the alert.

    Plain text, not yet safe for any channel.
    """
    if alert.kind is AlertKind.DIGEST:
        return _digest_sentences(alert)
    if alert.kind is AlertKind.POLICY_REJECTED:
        return [*alert.evidence["faults"], f"In force: {alert.evidence['in_force']}."]
    if alert.kind in _EVENT_TITLES:
        return [*alert.evidence["details"], *alert.evidence.get("host_says", ())]
    reason, reading = _level_reason_sentence(alert), _reading_sentence(alert)
    begins_with_reading = alert.level.is_alerting and not alert.evidence.get("changing_to")
    parts = [
        *((reading, reason) if begins_with_reading else (reason, reading)),
        alert.evidence.get("duration"),
        _credits_sentence(alert),
        *format_drain_cause(alert.evidence, at_s=alert.at_s),
        *(f"{sentence}." for sentence in alert.evidence.get("witness", ())),
        *alert.evidence.get("host_says", ()),
        *(f"{reason}." for reason in alert.evidence.get("proposal", ())[-1:]),
        *(f"Caution: {caution}." for caution in alert.evidence.get("cautions", ())),
        _act_at_sentence(alert),
        alert.evidence.get("held"),
        *(f"Tags: {fault}." for fault in alert.evidence.get("tag_faults", ())),
    ]
    return [sentence for sentence in parts if sentence]


def _level_reason_sentence(alert: Alert) -> str | None:
    reason = alert.evidence.get("because")
    if reason is None or alert.reading.get("burst_balance_pct") is None:
        return None
    if alert.evidence.get("changing_to") and alert.level.is_alerting:
        since = format_time(to_epoch_s(alert.evidence["changing_since"]), alert.at_s)
        return f"Requested from AWS at {since} UTC; by its balance it would be {alert.level}: {reason}."
    if alert.level.is_alerting and reason.startswith((PACE_REASON, BALANCE_REASON)):
        return None  # the title has the time left, or that none is left
    lead = f"{str(alert.level).capitalize()} because" if alert.level.is_alerting else "Now"
    return f"{lead} {reason}" + (
        f"; it was {alert.previous_level}." if alert.previous_level is not alert.level else "."
    )


def _act_at_sentence(alert: Alert) -> str | None:
    """The rule by which the volume is flipped: at warning what will happen, at critical if it waited."""
    rule, is_auto = alert.evidence.get("act_at"), alert.evidence.get("mode") == "auto"
    if rule is None or alert.kind is not AlertKind.DRAINING:
        return None
    has_waited = is_auto and rule["level"] == alert.level
    if alert.level is not Level.WARNING and not has_waited:
        return None
    lead = "It flips" if is_auto else "In mode auto it would flip"
    return f"{lead} at {rule['level']}: {rule['because']}."


def _reading_sentence(alert: Alert) -> str:
    reading = alert.reading
    if reading.get("burst_balance_pct") is None:
        detail = reading.get("unknown_because") or _describe_unknown(str(reading.get("unknown_reason")))
        return f"Balance unknown: {detail.rstrip('.')}; it was {alert.previous_level}."
    datapoint_time = format_time(to_epoch_s(reading["datapoint_at"]), alert.at_s)
    label = "Burst balance" if alert.is_about_volumes else f"Its {_credits(alert)}:"
    balance = f"{label} {reading['burst_balance_pct']:.1f} % at {datapoint_time} UTC"
    forecast_text = _format_times_of_day(alert.forecast) or format_forecast(alert.forecast) or ""
    if (flow := _format_flow(alert.forecast, _unit(reading))) is not None:
        balance += f", {flow}"
        forecast_text = forecast_text.removeprefix("refilling").removeprefix("; ")
    return f"{balance}{f'; {forecast_text}' if forecast_text else ''}."


def _format_flow(forecast: Mapping[str, Any], unit: str) -> str | None:
    """``draining at 2,100 credits/s``; None if the balance neither drains steadily nor refills."""
    rate_per_s = forecast.get("drain_per_s") or 0.0
    if round(rate_per_s) < 0:
        return f"refilling at {format_drain(-rate_per_s, unit)}"
    if rate_per_s > 0 and forecast.get("time_to_empty_s") is not None:
        return f"draining at {format_drain(rate_per_s, unit)}"
    return None


def _format_times_of_day(forecast: Mapping[str, Any]) -> str | None:
    """``empty at about 18:12, not before 18:09 UTC``, if the title has the time that is left; else None."""
    time_to_empty_s, soonest = forecast.get("time_to_empty_s"), forecast.get("soonest_empty_at")
    if not time_to_empty_s or time_to_empty_s > _FAR_ESTIMATE_S or soonest is None:
        return None
    now_s = to_epoch_s(soonest) - forecast["soonest_empty_s"]
    estimate_text, bound_text = (
        format_time(to_epoch_s(instant), now_s) for instant in (forecast["time_to_empty_at"], soonest)
    )
    return f"empty at about {estimate_text}, not before {bound_text} UTC"


def _describe_unknown(reason: str) -> str:
    """The reason in words; a reason of a later version as it is."""
    return UnknownReason(reason).description if reason in list(UnknownReason) else reason


def _credits_sentence(alert: Alert) -> str | None:
    reading = alert.reading
    if reading.get("credits") is None or reading.get("burst_balance_pct") is None:
        return None
    unit = _unit(reading)
    amount = format_size(reading["credits"]) if unit == BYTES else f"{reading['credits']:,} {unit}"
    if outlook := alert.evidence.get("outlook"):
        return f"{amount} left: {outlook}."
    model = f"{alert.volume['size_gib']} GiB" if alert.is_about_volumes else alert.resource["instance_type"]
    return f"{amount} left; baseline {_format_baseline(reading)}{f' ({model})' if model else ''}."


def _unit(reading: Mapping[str, Any]) -> str:
    """What people call one unit of the balance; an alert of the first version has no unit."""
    return "credits" if reading["unit"] in (None, "operations") else str(reading["unit"])


def _digest_sentences(alert: Alert) -> list[str]:
    counts = ", ".join(f"{count} {kind}" for kind, count in alert.evidence["by_kind"].items())
    listed = alert.evidence["most_urgent"]
    lines = [
        f"{counts}.",
        "Each is in the ledger; the most urgent:",
        *(_digest_sentence(line, alert.at_s) for line in listed),
    ]
    if (unnamed := alert.evidence["alerts"] - len(listed)) > 0:
        lines.append(f"and {unnamed} more")
    return lines


def _digest_sentence(line: Mapping[str, Any], now_s: int) -> str:
    name = display_name_in(line)
    resource_id = line.get("resource_id") or line["volume_id"]
    label, volume_id = name or resource_id, f" ({resource_id})" if name else ""
    if line.get("summary"):
        subject_text = " ".join(filter(None, (label, line["summary"])))
        return f"{_EVENT_TITLES[line['kind']]}: {subject_text}{volume_id}"
    balance = line["burst_balance_pct"]
    balance_text = "balance unknown" if balance is None else f"{balance:.1f} %"
    credits_text = (
        _CREDITS.get(str(line.get("bucket"))) if line.get("bucket") not in _VOLUME_BUCKETS else None
    )
    balance_text = " ".join(filter(None, (credits_text, balance_text)))
    will_empty = line["time_to_empty_at"] and line["level"] != Level.EXHAUSTED
    empty_text = (
        f", empty {format_relative_time(to_epoch_s(line['time_to_empty_at']), now_s, 'UTC')}"
        if will_empty
        else ""
    )
    lead = "changing" if line.get("changing_to") else line["level"]
    return f"{lead}: {label}, {balance_text}{empty_text}{volume_id}"

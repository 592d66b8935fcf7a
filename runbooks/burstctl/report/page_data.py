"""The data embedded in the page: columns of all resources, and details of the important ones."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from math import floor
from typing import Any, Final

from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH
from burstctl.explain.bucket_topics import rate_text
from burstctl.render.flip_status import describe_flip_status, format_configuration
from burstctl.render.flip_text import describe_flip
from burstctl.render.pass_summary import describe_hold
from burstctl.render.resource_rows import CHANGING_LABEL, describe_depletion
from burstctl.render.volume import display_name_of
from burstctl.report.activity import Activity
from burstctl.report.collect import FleetReport, ResourceDetail, resource_id_of
from burstctl.report.series import Axis
from burstctl.timeline.data_gap import GAP_LABELS
from burstctl.timeline.drawn_bucket import counts_operations, rate_unit_of, to_rate_unit
from burstctl.timeline.timeline import ForecastCone, Timeline, downsample
from burstwatch.core.alerts.alert import is_command
from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.resource import Resource, type_name_of
from burstwatch.core.assessment.resource_buckets import rate_when_empty_per_s
from burstwatch.core.assessment.severity import Level, explain_level
from burstwatch.core.buckets.series import Series
from burstwatch.core.buckets.units import BYTES, format_size
from burstwatch.core.ebs.gp2_bucket import EBS_IO
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.flip_state import active_hold
from burstwatch.core.policy.bucket_policy import policy_of_bucket
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import format_duration, rounded_or_none, sanitise, tenths_or_none
from burstwatch.core.watch.decision import Decision

FAULT: Final = "fault"
LEVELS: Final = (
    *reversed([str(level) for level in Level if level.is_alerting]),
    FAULT,
    CHANGING_LABEL,
    "watch",
    "ok",
    "unknown",
)
"""As the page calls them, most urgent first: if its data is missing, that is a fault, not just unknown."""

MAX_ACTIVITIES: Final = 60  # of one resource: its newest; `burstctl history` has all
# tags are text from outside; AWS allows 50 tags of 256 characters on a resource
_MAX_TAG_CHARS: Final = 120
_MAX_TAGS: Final = 50
_MAX_LABEL_CHARS: Final = 60
UNREAD: Final = "could not be read"
_RATE_SCALE: Final = 10
"""A load in MiB/s keeps one decimal."""


def build_page_data(fleet_report: FleetReport) -> dict[str, Any]:
    """All that the page's script reads."""
    rows = [_row(decision, fleet_report) for decision in fleet_report.decisions]
    names = _row_names()
    return {
        "now": round(fleet_report.pass_report.now_s),
        "since": fleet_report.since_s,
        "region": fleet_report.pass_report.region,
        "noun": fleet_report.noun,
        "axis": [fleet_report.axis.start_s, fleet_report.axis.period_s, fleet_report.axis.count],
        "volumes": {name: [row[name] for row in rows] for name in names},
        "details": {
            resource_id: _detail_document(detail, fleet_report)
            for resource_id, detail in fleet_report.details.items()
        },
        "unread": sorted(fleet_report.unread),
    }


def level_of(decision: Decision) -> str:
    """The level as the page shows it: one of ``LEVELS``, so that every resource is counted."""
    if decision.assessment.is_fault:
        return FAULT
    return CHANGING_LABEL if decision.is_changing else str(decision.level)


def level_counts(decisions: Iterable[Decision]) -> dict[str, int]:
    """How many resources are at each level of the page, none left out."""
    counts = Counter(map(level_of, decisions))
    return {level: counts[level] for level in LEVELS}


def encode_runs(values: Iterable[float | None], scale: int = 1) -> str:
    """Values as text, each with its number of repetitions; empty for unknown values.

    ``1000x47,985,x3``: 100.0 % 47 times, 98.5 % once, three gaps. What rounds up to something is not shown
    as more than it was.
    """
    scaled = (None if value is None else floor(value * scale + 1e-6) for value in values)
    return ",".join(_encode_run(value, sum(1 for _ in group)) for value, group in groupby(scaled))


def align_to_axis(series: Series, axis: Axis) -> list[float | None]:
    """The value of each period of the axis, None without a datapoint."""
    value_by_start = dict(zip(series.starts_at_s, series.values, strict=True))
    return [value_by_start.get(axis.start_s + index * axis.period_s) for index in range(axis.count)]


def resource_facts(decision: Decision, fleet_report: FleetReport) -> list[tuple[str, str]]:
    """The facts about a resource that are not in its row."""
    assessment, report = decision.assessment, fleet_report.pass_report
    facts = [
        ("Why", _level_reason(decision, fleet_report.policy)),
        ("Decision", f"{decision.action}: {decision.reason}"),
    ]
    if assessment.age_s is not None and assessment.credits_left is not None:
        age = format_duration(assessment.age_s)
        is_known = assessment.bucket.is_known
        amount = f"{_amount_text(assessment, assessment.credits_left)}, " if is_known else ""
        facts.append(("Reading", f"{amount}{age} old"))
    if assessment.consumed_read_iops is not None and assessment.consumed_write_iops is not None:
        reads, writes = assessment.consumed_read_iops, assessment.consumed_write_iops
        facts.append(("Served", f"{reads:,.0f} reads/s and {writes:,.0f} writes/s, newest five minutes"))
    facts += [
        ("Other bucket", _describe_bucket(other, report.now_s))
        for other in fleet_report.other_buckets.get(resource_id_of(decision), ())
    ]
    if decision.recommendation is not None:
        facts += [("Proposed", reason) for reason in decision.recommendation.reasons]
    facts += [("Tag at fault", fault) for fault in decision.volume_settings.faults]
    if decision.flip is not None:
        facts += [("Flip", line) for line in describe_flip(decision.flip, report.now_s)]
    hold = active_hold(report.holds, resource_id_of(decision), report.now_s)
    if hold is not None:
        facts.append(("Hold", describe_hold(hold, report.now_s)))
    if decision.poll_interval_s:
        facts.append(("Looked at", f"every {format_duration(decision.poll_interval_s)}"))
    return [(name, sanitise(text, MAX_SENTENCE_LENGTH)) for name, text in facts if text]


def _describe_bucket(decision: Decision, now_s: float) -> str:
    """Another bucket of the resource in short: its balance, and when it will be empty, or why it has none."""
    assessment = decision.assessment
    if assessment.balance_pct is None:
        reason = assessment.unknown_because or describe_depletion(decision, now_s)
        return f"{assessment.kind.credits}: {reason}"
    depletion = describe_depletion(decision, now_s)
    return f"{assessment.kind.credits}: {assessment.balance_pct:.1f} %, {decision.level}, {depletion}"


def _level_reason(decision: Decision, policy: Policy) -> str:
    """The rule that set its level; of the samples, only the newest is left."""
    assessment, sample = decision.assessment, decision.assessment.sample
    if sample is not None and not assessment.balance:
        assessment = replace(assessment, balance=Series((sample.start_at_s,), (sample.value,)))
    bucket_policy = policy_of_bucket(policy, assessment.kind, assessment.bucket)
    return explain_level(assessment, decision.level, bucket_policy)


def _encode_run(value: int | None, count: int) -> str:
    return ("" if value is None else str(value)) + (f"x{count}" if count > 1 else "")


def _row_names() -> tuple[str, ...]:
    return (
        "id", "name", "type", "gib", "instance", "device", "level", "balance", "least", "empty_text",
        "empty_s", "drain", "unit", "bucket", "baseline", "mode", "mark", "tags", "line",
    )  # fmt: skip


def _row(decision: Decision, fleet_report: FleetReport) -> dict[str, Any]:
    assessment, resource_id = decision.assessment, resource_id_of(decision)
    resource, forecast = assessment.resource, assessment.forecast
    kind, bucket = assessment.kind, assessment.bucket
    volume = resource if isinstance(resource, Volume) else None
    type_name = resource.volume_type if isinstance(resource, Volume) else type_name_of(resource)
    detail = fleet_report.details.get(resource_id)
    balance = fleet_report.balances.get(resource_id, Series())
    if detail is not None:
        balance = downsample(detail.timeline.balance, fleet_report.axis.period_s, min)
    balances = [*balance.values, *([] if assessment.balance_pct is None else [assessment.balance_pct])]
    return {
        "id": resource_id,
        "name": display_name_of(resource),
        "type": sanitise(type_name, _MAX_LABEL_CHARS),
        "gib": volume.size_gib if volume else None,
        "instance": (volume.instance_id or "") if volume else "",
        "device": sanitise((volume.device or "") if volume else "", _MAX_LABEL_CHARS),
        "level": level_of(decision),
        "balance": tenths_or_none(assessment.balance_pct),
        "least": tenths_or_none(min(balances, default=None)),
        "empty_text": describe_depletion(decision, fleet_report.pass_report.now_s),
        "empty_s": rounded_or_none(forecast.time_to_empty_s if forecast else None),
        "drain": rounded_or_none(
            to_rate_unit(kind, forecast.drain_per_s)
            if forecast and forecast.drain_per_s is not None and bucket.is_known
            else None
        ),
        "unit": "" if counts_operations(kind) else rate_unit_of(kind).removesuffix("/s"),
        "bucket": "" if volume else kind.credits,
        "baseline": round(to_rate_unit(kind, rate_when_empty_per_s(resource, bucket)), 1)
        if bucket.is_known
        else None,
        "mode": str(decision.volume_settings.mode),
        "mark": describe_flip_status(decision, fleet_report.pass_report),
        "tags": _format_tags(resource),
        "line": encode_runs(align_to_axis(balance, fleet_report.axis), 10),
    }


def _amount_text(assessment: Assessment, amount: float) -> str:
    """``1,200,000 credits``, ``310 GiB``."""
    if assessment.kind.unit == BYTES:
        return format_size(amount)
    return f"{amount:,.0f} {'credits' if assessment.kind is EBS_IO else assessment.kind.unit}"


def describe_baseline(assessment: Assessment) -> str:
    """``baseline 300 IOPS``; empty if the limits are not known."""
    if not assessment.bucket.is_known:
        return ""
    rate = rate_when_empty_per_s(assessment.resource, assessment.bucket)
    return f"baseline {rate_text(assessment, rate)}"


def _format_tags(resource: Resource) -> list[str]:
    """Its tags, without the name where that is how it is called anyway."""
    shown_elsewhere = {"Name"} if resource.name == display_name_of(resource) else set()
    keys = sorted(resource.tags.keys() - shown_elsewhere)[:_MAX_TAGS]
    return [sanitise(f"{key}={resource.tags[key]}", _MAX_TAG_CHARS) for key in keys]


def _detail_document(detail: ResourceDetail, fleet_report: FleetReport) -> dict[str, Any]:
    decision, timeline = detail.decision, detail.timeline
    axis = Axis(
        start_s=timeline.start_s,
        period_s=timeline.period_s,
        count=max(1, -(-int(timeline.now_s - timeline.start_s) // timeline.period_s)),
    )
    scale = 1 if timeline.drawn.counts_operations else _RATE_SCALE
    return {
        "axis": [axis.start_s, axis.period_s, axis.count],
        "end": round(timeline.end_s),
        "balance": encode_runs(align_to_axis(timeline.balance, axis), 10),
        "unit": timeline.drawn.counted_unit,
        "scale": scale,
        "iops": encode_runs(align_to_axis(timeline.served, axis), scale) if timeline.served else "",
        "fan": _cone_document(timeline.forecast_cone),
        **_interval_documents(timeline, is_unread=resource_id_of(decision) in fleet_report.unread),
        "marks": [
            [event.at_s, event.letter, str(event.kind), _sanitise_label(event.text, 200)]
            for event in timeline.events
        ],
        "facts": [list(fact) for fact in resource_facts(decision, fleet_report)],
        "history": [_activity_line(activity) for activity in reversed(detail.activities[-MAX_ACTIVITIES:])],
        "commands": [decision.recommendation.action]
        if decision.recommendation and is_command(decision.recommendation.action)
        else [],
    }


def _interval_documents(timeline: Timeline, *, is_unread: bool) -> dict[str, Any]:
    """Intervals: start, end and label; a read failure is not a gap in the data."""
    end_s = timeline.end_s
    gaps = [
        [round(interval.start_s), round(interval.end_s), GAP_LABELS[interval.reason][0]]
        for interval in timeline.gaps
    ]
    return {
        "absent": [[timeline.start_s, round(timeline.now_s), UNREAD]] if is_unread else gaps,
        "limits": [
            [
                round(interval.start_s),
                round(interval.end_s),
                round(interval.sustained, 1),
                round(interval.maximum, 1),
            ]
            for interval in timeline.limits
        ],
        "stays": [
            [
                round(target_interval.reached_at_s or target_interval.requested_at_s or timeline.start_s),
                round(
                    target_interval.return_requested_at_s or target_interval.restored_at_s or timeline.now_s
                ),
                format_configuration(target_interval.target) if target_interval.target else "its target",
            ]
            for target_interval in timeline.target_intervals
        ],
        "windows": [
            [
                round(window_interval.start_s),
                round(min(window_interval.end_s, end_s)),
                _sanitise_label(window_interval.window),
            ]
            for window_interval in timeline.windows
        ],
        "holds": [
            [
                round(hold_interval.start_s),
                round(hold_interval.end_s),
                _sanitise_label(f"{hold_interval.by}: {hold_interval.reason}"),
            ]
            for hold_interval in timeline.holds
        ],
        "stalls": [
            [round(stall.start_s), round(stall.end_s), _sanitise_label(f"{stall.verdict}: {stall.cause}")]
            for stall in timeline.stalls
        ],
    }


def _cone_document(cone: ForecastCone | None) -> dict[str, Any] | None:
    if cone is None:
        return None
    return {
        "from": cone.start_at_s,
        "pct": round(cone.start_pct, 1),
        "soonest": rounded_or_none(cone.soonest_empty_at_s),
        "earliest": rounded_or_none(cone.earliest_empty_at_s),
        "about": rounded_or_none(cone.estimated_empty_at_s),
        "latest": rounded_or_none(cone.latest_empty_at_s),
    }


def _activity_line(activity: Activity) -> list[Any]:
    return [activity.at_s, activity.letter, str(activity.kind), activity.line, list(activity.details)]


def suggested_action(decision: Decision, region: str) -> str:
    """What a person may do about a resource: a command to paste, or a sentence where no command helps."""
    if decision.recommendation is not None:
        return decision.recommendation.action
    return f"burstctl explain {resource_id_of(decision)} --region {region}"


def _sanitise_label(text: str, limit: int = _MAX_LABEL_CHARS) -> str:
    return sanitise(text, limit)

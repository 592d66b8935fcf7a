"""A report in sentences and numbers: what the page says without its script."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH
from burstctl.render.datapoint_spacing import describe_spacing
from burstctl.render.pass_summary import describe_excused_kinds, describe_hold
from burstctl.render.resource_rows import CHANGING_LABEL
from burstctl.render.volume import count_resources
from burstctl.report.activity import ActivityKind, count_activities
from burstctl.report.activity_html import activity_context
from burstctl.report.collect import MAX_DETAILED, FleetReport
from burstctl.report.costs_html import cost_context
from burstctl.report.format import (
    format_full_instant,
    format_lookback,
    resource_label,
)
from burstctl.report.page_data import FAULT, LEVELS, level_counts
from burstctl.report.urgent_cards import urgent_context
from burstwatch.core.text import format_count, format_duration, format_instant, format_usd, sanitise
from burstwatch.core.watch.api_cost import usd_per_month_now
from burstwatch.core.watch.witness import capitalise

MAX_NOTES: Final = 30  # more are usually one cause, such as a missing permission
# units of the SVG's own width; eight of a thousand are the narrowest part that is seen
_STRIP_WIDTH: Final = 1_000
_MIN_PART_WIDTH: Final = 8

_LEVEL_MEANINGS: Final = {
    "exhausted": "out of credits, throttled to its baseline",
    "critical": "will be empty within minutes",
    "warning": "will be empty within the hour at this rate",
    FAULT: "its data is missing and should not be",
    CHANGING_LABEL: "AWS is changing its configuration",
    "watch": "below full, not running out",
    "ok": "calm",
    "unknown": "no data, as expected",
}
_COLUMNS: Final = (
    ("level", "Level", "most urgent first"),
    ("volume", "Volume", "by name, or by ID without a name"),
    ("balance", "Balance", "by the burst balance now"),
    ("least", "Last {}", "by the lowest balance of this time"),
    ("empty", "Empty (UTC)", "by the time until it is empty"),
    ("drain", "Drain/s", "by the credits lost a second"),
    ("gib", "GiB", "by size"),
    ("instance", "Instance", "by where it is attached"),
    ("mark", "Flip", "by flips and holds"),
)


def build_summary(fleet_report: FleetReport, *, lookback: timedelta, runbooks_url: str) -> dict[str, Any]:
    """What the page's template is filled with; all of it is text, to be escaped."""
    now_s, region = fleet_report.pass_report.now_s, fleet_report.pass_report.region
    counts = level_counts(fleet_report.decisions)
    level_texts = [f"{counts[level]:,} {level}" for level in LEVELS if counts[level]]
    noun, count = fleet_report.noun, count_resources(fleet_report.resources)
    return {
        "title": f"burstwatch: {count} in {region}, {format_instant(now_s)}",
        "region": region,
        "count": count,
        "noun": noun,
        "generated_at": format_instant(now_s),
        "generated_at_words": format_full_instant(now_s),
        "last": format_lookback(lookback),
        "levels": [
            {"level": level, "count": f"{counts[level]:,}", "means": _LEVEL_MEANINGS[level]}
            for level in LEVELS
            if counts[level]
        ],
        "levels_said": ", ".join(level_texts) or f"no {noun}",
        "strip": _level_strip(counts),
        "tiles": _tiles(fleet_report, lookback),
        "columns": [
            {
                "key": key,
                "title": noun.capitalize() if key == "volume" else title.format(format_lookback(lookback)),
                "says": tooltip,
            }
            for key, title, tooltip in _COLUMNS
        ],
        "missing": _describe_missing(fleet_report),
        "notes": _notes(fleet_report, lookback),
        **urgent_context(fleet_report, counts, runbooks_url),
        **activity_context(fleet_report, lookback),
        **cost_context(fleet_report, lookback),
    }


def _level_strip(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """The levels side by side, none too narrow to be seen."""
    level_counts = [(level, counts[level]) for level in LEVELS if counts[level]]
    total = sum(count for _, count in level_counts)
    widths = [max(_MIN_PART_WIDTH, _STRIP_WIDTH * count / total) for _, count in level_counts]
    scale = _STRIP_WIDTH / sum(widths) if widths else 0.0
    parts, x = [], 0.0
    for (level, count), width in zip(level_counts, widths, strict=True):
        parts.append({"level": level, "count": count, "x": f"{x:.1f}", "width": f"{width * scale:.1f}"})
        x += width * scale
    return parts


def _tiles(fleet_report: FleetReport, lookback: timedelta) -> list[dict[str, str]]:
    pass_report, costs, counts = (
        fleet_report.pass_report,
        fleet_report.costs,
        count_activities(fleet_report.activities),
    )
    balances = [
        (decision.assessment.balance_pct, decision)
        for decision in fleet_report.decisions
        if decision.assessment.balance_pct is not None
    ]
    lowest = min(balances, key=lambda pair: pair[0], default=None)
    lookback_text = f"in the last {format_lookback(lookback)}"
    return [
        {
            "name": "Lowest balance",
            "value": f"{lowest[0]:.1f} %" if lowest else "none",
            "says": resource_label(lowest[1]) if lowest else f"no {fleet_report.noun} has one",
        },
        {
            "name": "Volumes flipped",
            "value": f"{costs.on_target:,}",
            "says": f"now; the policy allows {costs.fleet_cap:,}",
        },
        {
            "name": "Flips and returns",
            "value": f"{costs.flips:,} and {costs.returns:,}",
            "says": (
                f"{lookback_text}; {counts[ActivityKind.REFUSED]:,} refused, {counts[ActivityKind.FAILED]:,}"
                " failed"
            ),
        },
        {
            "name": "Cost of flips",
            "value": format_usd(costs.flips_usd),
            "says": (
                f"{lookback_text}; cheaper types and returns saved"
                f" {format_usd(costs.saved_on_cheaper_usd + costs.saved_by_return_usd)}"
            ),
        },
        {
            "name": "Cost of watching",
            "value": format_usd(usd_per_month_now(pass_report.decisions)),
            "says": f"a month as now; {format_usd(pass_report.usd_per_month_idle)} if all were calm",
        },
    ]


def _unread_notes(fleet_report: FleetReport) -> list[str]:
    """What could not be read, and why."""
    deleted = (f"no {fleet_report.noun} {missing_id}" for missing_id in fleet_report.pass_report.missing)
    unread = (f"the picture of {unread_id}: {reason}" for unread_id, reason in fleet_report.unread.items())
    return [*fleet_report.failures, *deleted, *unread]


def _describe_missing(fleet_report: FleetReport) -> str:
    """The notice at the top if the page is incomplete; otherwise empty."""
    missing = _unread_notes(fleet_report)
    if not missing:
        return ""
    more_text = f", and {len(missing) - 1:,} more at the end" if len(missing) > 1 else ""
    return sanitise(f"This page is incomplete. Not read: {missing[0]}{more_text}.", MAX_SENTENCE_LENGTH)


def _notes(fleet_report: FleetReport, lookback: timedelta) -> list[str]:
    """What the page rests on, and what is missing from it."""
    pass_report = fleet_report.pass_report
    age_s = pass_report.newest_datapoint_age_s
    calls = sum(fleet_report.api_calls.values())
    scope = (
        f"One look at {format_full_instant(pass_report.now_s)}, and the last {format_lookback(lookback)} of"
        " CloudWatch"
    )
    notes = [
        f"{scope} and of the ledger {pass_report.ledger}. Nothing was changed.",
        (
            f"{calls:,} calls to AWS, {fleet_report.metrics_requested:,} metrics read for"
            f" {format_usd(fleet_report.usd_read, decimals=4)}."
        ),
    ]
    notes += [] if age_s is None else [f"The newest datapoint was {format_duration(age_s)} old."]
    if pass_report.oldest_datapoint:
        oldest_s, volume_id = pass_report.oldest_datapoint
        notes.append(
            f"The oldest datapoint of a volume that is not full was {format_duration(oldest_s)} old"
            f" ({volume_id})."
        )
    spacing = describe_spacing(pass_report.datapoint_spacing_s)
    notes += [f"{spacing[0].upper()}{spacing[1:]}."] if spacing else []
    if len(fleet_report.details) < len(fleet_report.decisions):
        notes.append(
            f"{format_count(len(fleet_report.details), fleet_report.noun)} that matter most"
            f" ({MAX_DETAILED:,} at most) have details; for the others the page shows the balance by"
            f" {format_duration(fleet_report.axis.period_s)}."
        )
    notes.append(
        "'About' is an estimate from what was seen; 'not before' is arithmetic: no load can empty it sooner."
    )
    notes.append(f"Events of deleted {fleet_report.noun}s are still in the ledger, but not on this page.")
    notes += [describe_hold(hold, pass_report.now_s) for hold in pass_report.holds]
    if pass_report.ignored:
        notes.append(f"{format_count(len(pass_report.ignored), fleet_report.noun)} ignored by tag.")
    if fleet_report.omitted:
        count = count_resources(fleet_report.omitted)
        notes.append(f"Not on this page, because they cannot run out of credits: {count}.")
    if excused := describe_excused_kinds(pass_report):
        notes.append(f"{capitalise(excused)}.")
    missing = _unread_notes(fleet_report)
    notes += [f"Not read: {failure}" for failure in missing[:MAX_NOTES]]
    if len(missing) > MAX_NOTES:
        notes.append(f"Not read: and {len(missing) - MAX_NOTES:,} more.")
    return [sanitise(note, MAX_SENTENCE_LENGTH) for note in notes]

"""What was done and refused, newest first, for the page."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from burstctl.report.activity import Activity, ActivityKind, count_activities
from burstctl.report.collect import FleetReport
from burstctl.report.format import (
    format_lookback,
    format_short_instant,
    resource_labels,
)
from burstwatch.core.resource_type import resource_id_in
from burstwatch.core.text import format_instant

MAX_ACTIVITIES: Final = 400  # a page with more is slow to load and to print; the ledger has all
MIN_PER_KIND: Final = 60
"""The least of each kind that are shown, so that many alerts do not hide the refusals."""


def activity_context(fleet_report: FleetReport, lookback: timedelta) -> dict[str, Any]:
    """The activities as the template shows them."""
    activities, names = fleet_report.activities, resource_labels(fleet_report)
    counts = count_activities(activities)
    selected = _select(activities)
    summary = f"{len(activities):,} in the last {format_lookback(lookback)}, newest first; times are UTC"
    if len(selected) < len(activities):
        minimum = f"of each kind {MIN_PER_KIND} at least"
        summary = f"{len(selected):,} of {summary}: the newest {MAX_ACTIVITIES:,}, and {minimum}"
    return {
        "activities": [_activity_document(activity, names) for activity in selected],
        "activity_summary": summary
        if activities
        else f"The ledger has no events in the last {format_lookback(lookback)}.",
        "kind_counts": [{"kind": kind, "count": f"{count:,}"} for kind, count in counts.items() if count],
    }


def _select(activities: Sequence[Activity]) -> list[Activity]:
    """The newest activities, and the newest of each kind, in their order."""
    counts: Counter[ActivityKind] = Counter()
    selected = []
    for number, activity in enumerate(activities):
        counts[activity.kind] += 1
        if number < MAX_ACTIVITIES or counts[activity.kind] <= MIN_PER_KIND:
            selected.append(activity)
    return selected


def _activity_document(activity: Activity, names: Mapping[str, str]) -> dict[str, Any]:
    resource_id = resource_id_in(activity.subject)
    return {
        "at": format_instant(activity.at_s),
        "when": format_short_instant(activity.at_s),
        "kind": str(activity.kind),
        "kind_class": str(activity.kind).replace(" ", "-"),
        "subject": names.get(resource_id) or activity.subject_label,
        "resource_id": resource_id if resource_id in names else None,
        "line": activity.line,
        "details": list(activity.details),
    }

"""Words of the page: instants, spans, dollars, and what a resource is called in it."""

from datetime import UTC, datetime, timedelta

from burstctl.render.volume import display_name_of
from burstctl.report.collect import FleetReport, resource_id_of
from burstwatch.core.durations import DAY_S, HOUR_S
from burstwatch.core.watch.decision import Decision


def format_full_instant(at_s: float) -> str:
    """``21 Nov 2026, 18:00 UTC``."""
    return f"{datetime.fromtimestamp(at_s, UTC):%d %b %Y, %H:%M} UTC"


def format_lookback(lookback: timedelta) -> str:
    """``24 h``, ``90 min``, ``7 days``."""
    seconds = int(lookback.total_seconds())
    if seconds % DAY_S == 0 and seconds > DAY_S:
        return f"{seconds // DAY_S} days"
    return f"{seconds // HOUR_S} h" if seconds % HOUR_S == 0 else f"{seconds // 60} min"


def format_short_instant(at_s: float) -> str:
    """``21 Nov 18:00``, for lists that state the year and UTC once."""
    return f"{datetime.fromtimestamp(at_s, UTC):%d %b %H:%M}"


def resource_label(decision: Decision) -> str:
    """The name of the resource, or its ID."""
    return display_name_of(decision.assessment.resource) or resource_id_of(decision)


def resource_labels(fleet_report: FleetReport) -> dict[str, str]:
    """What each resource of the report is called, by its ID."""
    return {resource_id_of(decision): resource_label(decision) for decision in fleet_report.decisions}

"""A chronology as ``--json`` prints it, in the schema ``burstwatch.plot/v1``."""

from typing import TYPE_CHECKING, Final

from burstctl.plot.labels import describe_state
from burstctl.plot.load import BucketPlot
from burstctl.timeline.data_gap import DataGap
from burstctl.timeline.intervals import HoldInterval, LevelInterval, StallInterval, TargetInterval
from burstctl.timeline.timeline import ForecastCone, LoadLimit, Timeline
from burstctl.timeline.window_intervals import WindowInterval
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.instances.instance import Instance
from burstwatch.core.ledger.flip_state import configuration_to_document
from burstwatch.core.text import format_instant, instant_or_none

if TYPE_CHECKING:
    from documents.plot import (
        ForecastConeDocument,
        IntervalDocument,
        IntervalsDocument,
        LimitDocument,
        PlotDocument,
        Points,
        TargetIntervalDocument,
    )

SCHEMA: Final = "burstwatch.plot/v1"


def to_document(bucket_plot: BucketPlot) -> "PlotDocument":
    """The values behind the picture; instants in ISO 8601, absent values null, keys never disappear.

    A series is pairs of when a period began, in seconds since the epoch, and its value: a period that is not
    there is a gap.
    """
    timeline, decision = bucket_plot.timeline, bucket_plot.decision
    drawn, resource = timeline.drawn, timeline.drawn.resource
    volume, is_io = resource if isinstance(resource, Volume) else None, drawn.counts_operations
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(timeline.now_s),
        "region": bucket_plot.region,
        "ledger": bucket_plot.ledger,
        "volume_id": volume.volume_id if volume else None,
        "resource_id": resource.resource_id,
        "resource_type": resource.resource_type,
        "bucket": drawn.kind.name,
        "name": resource.name,
        "volume_type": volume.volume_type if volume else None,
        "instance_type": resource.instance_type if isinstance(resource, Instance) else None,
        "size_gib": volume.size_gib if volume else None,
        "level": decision.level if decision else None,
        "state": describe_state(bucket_plot),
        "starts_at": format_instant(timeline.start_s),
        "ends_at": format_instant(timeline.end_s),
        "period_s": timeline.period_s,
        "series": {
            "burst_balance_pct": _to_pairs(timeline.balance),
            "served_iops": _to_pairs(timeline.served if is_io else Series()),
            "read_iops": _to_pairs(timeline.reads if is_io else Series()),
            "served_mib_s": _to_pairs(Series() if is_io else timeline.served),
            "read_mib_s": _to_pairs(Series() if is_io else timeline.reads),
        },
        "forecast": _forecast_document(timeline.forecast_cone),
        "marks": [
            {
                "at": format_instant(event.at_s),
                "kind": event.kind,
                "letter": event.letter,
                "says": event.text,
                "told": event.is_alerted,
            }
            for event in timeline.events
        ],
        **_interval_documents(timeline),
        "metrics_requested": bucket_plot.metrics_requested,
        "api_calls": dict(bucket_plot.api_calls),
        "failures": list(bucket_plot.failures),
    }


def _to_pairs(series: Series) -> "Points":
    return [(at_s, round(value, 3)) for at_s, value in zip(series.starts_at_s, series.values, strict=True)]


def _forecast_document(cone: ForecastCone | None) -> "ForecastConeDocument | None":
    if cone is None:
        return None
    return {
        "from_at": format_instant(cone.start_at_s),
        "from_pct": cone.start_pct,
        "soonest_empty_at": instant_or_none(cone.soonest_empty_at_s),
        "earliest_at": instant_or_none(cone.earliest_empty_at_s),
        "time_to_empty_at": instant_or_none(cone.estimated_empty_at_s),
        "latest_at": instant_or_none(cone.latest_empty_at_s),
        "is_believed": cone.is_believed,
        "drain_per_s": cone.drain_per_s,
    }


def _interval_documents(timeline: Timeline) -> "IntervalsDocument":
    """All intervals, each with its start and end."""
    return {
        "absences": [{**_bounds(gap), "reason": gap.reason} for gap in timeline.gaps],
        "limits": [
            _limit_document(limit, counts_operations=timeline.drawn.counts_operations)
            for limit in timeline.limits
        ],
        "levels": [{**_bounds(interval), "level": interval.level} for interval in timeline.levels],
        "flips": [_flip_document(target_interval) for target_interval in timeline.target_intervals],
        "windows": [
            {**_bounds(window), "window": window.window, "by_hand": window.is_manual}
            for window in timeline.windows
        ],
        "holds": [
            {**_bounds(hold), "by": hold.by, "reason": hold.reason, "of_everything": hold.is_fleet_wide}
            for hold in timeline.holds
        ],
        "stalls": [
            {
                **_bounds(stall),
                "instance_id": stall.instance_id,
                "verdict": stall.verdict,
                "cause": stall.cause,
            }
            for stall in timeline.stalls
        ],
    }


def _limit_document(limit: LoadLimit, *, counts_operations: bool) -> "LimitDocument":
    """A limit in the unit of the bucket; the keys of the other unit are null."""
    rates = round(limit.sustained, 3), round(limit.maximum, 3)
    iops, mib_s = (rates, (None, None)) if counts_operations else ((None, None), rates)
    return {
        **_bounds(limit),
        "sustained_iops": iops[0],
        "most_iops": iops[1],
        "sustained_mib_s": mib_s[0],
        "most_mib_s": mib_s[1],
    }


def _bounds(
    interval: DataGap | LoadLimit | LevelInterval | WindowInterval | HoldInterval | StallInterval,
) -> "IntervalDocument":
    return {"starts_at": format_instant(interval.start_s), "ends_at": format_instant(interval.end_s)}


def _flip_document(interval: TargetInterval) -> "TargetIntervalDocument":
    return {
        "asked_at": instant_or_none(interval.requested_at_s),
        "reached_at": instant_or_none(interval.reached_at_s),
        "back_asked_at": instant_or_none(interval.return_requested_at_s),
        "restored_at": instant_or_none(interval.restored_at_s),
        "target": configuration_to_document(interval.target) if interval.target else None,
        "by": interval.by,
        "stays": interval.is_permanent,
    }

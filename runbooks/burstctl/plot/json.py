"""A chronology as ``--json`` prints it, in the schema ``burstwatch.plot/v1``."""

from typing import Any, Final

from burstctl.plot.labels import state_words
from burstctl.plot.load import Plotted
from burstctl.render.plan_json import instant_or_none
from burstctl.timeline.intervals import Stay
from burstctl.timeline.timeline import Chronology, Fan
from burstwatch.core.buckets.series import Series
from burstwatch.core.ledger.flip_state import configuration_document
from burstwatch.core.text import format_instant

SCHEMA: Final = "burstwatch.plot/v1"


def to_document(plotted: Plotted) -> dict[str, Any]:
    """The values behind the picture; instants in ISO 8601, absent values null, keys never disappear.

    A series is pairs of when a period began, in seconds since the epoch, and its value: a period that is not
    there is a gap.
    """
    this, decision = plotted.chronology, plotted.decision
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(this.now_s),
        "region": plotted.region,
        "ledger": plotted.ledger,
        "volume_id": this.volume.volume_id,
        "name": this.volume.name,
        "volume_type": this.volume.volume_type,
        "size_gib": this.volume.size_gib,
        "level": str(decision.level) if decision else None,
        "state": state_words(plotted),
        "starts_at": format_instant(this.start_s),
        "ends_at": format_instant(this.end_s),
        "period_s": this.period_s,
        "series": {
            "burst_balance_pct": _pairs(this.balance),
            "served_iops": _pairs(this.served),
            "read_iops": _pairs(this.reads),
        },
        "forecast": _forecast(this.fan),
        "marks": [
            {
                "at": format_instant(m.at_s),
                "kind": str(m.kind),
                "letter": m.letter,
                "says": m.says,
                "told": m.is_told,
            }
            for m in this.marks
        ],
        **_stretches(this),
        "metrics_requested": plotted.metrics_requested,
        "api_calls": dict(plotted.api_calls),
        "failures": list(plotted.failures),
    }


def _pairs(series: Series) -> list[list[float]]:
    return [[at_s, round(value, 3)] for at_s, value in zip(series.starts_s, series.values, strict=True)]


def _forecast(fan: Fan | None) -> dict[str, Any] | None:
    if fan is None:
        return None
    return {
        "from_at": format_instant(fan.from_s),
        "from_pct": fan.from_pct,
        "soonest_empty_at": instant_or_none(fan.soonest_s),
        "earliest_at": instant_or_none(fan.earliest_s),
        "time_to_empty_at": instant_or_none(fan.about_s),
        "latest_at": instant_or_none(fan.latest_s),
        "is_believed": fan.is_believed,
        "drain_per_s": fan.drain_per_s,
    }


def _stretches(this: Chronology) -> dict[str, Any]:
    """What lasted for a while, each with its start and end."""
    return {
        "absences": [_span(a.start_s, a.end_s) | {"reason": str(a.reason)} for a in this.absences],
        "limits": [
            _span(limit.start_s, limit.end_s)
            | {"sustained_iops": limit.sustained_iops, "most_iops": limit.most_iops}
            for limit in this.limits
        ],
        "levels": [_span(r.start_s, r.end_s) | {"level": str(r.level)} for r in this.levels],
        "flips": [_stay(stay) for stay in this.stays],
        "windows": [
            _span(o.start_s, o.end_s) | {"window": o.window, "by_hand": o.by_hand} for o in this.windows
        ],
        "holds": [
            _span(r.start_s, r.end_s) | {"by": r.by, "reason": r.reason, "of_everything": r.of_everything}
            for r in this.holds
        ],
        "stalls": [
            _span(r.start_s, r.end_s) | {"instance_id": r.instance_id, "verdict": r.verdict, "cause": r.cause}
            for r in this.stalls
        ],
    }


def _span(start_s: float, end_s: float) -> dict[str, Any]:
    return {"starts_at": format_instant(start_s), "ends_at": format_instant(end_s)}


def _stay(stay: Stay) -> dict[str, Any]:
    return {
        "asked_at": instant_or_none(stay.asked_s),
        "reached_at": instant_or_none(stay.reached_s),
        "back_asked_at": instant_or_none(stay.back_s),
        "restored_at": instant_or_none(stay.restored_s),
        "target": configuration_document(stay.target) if stay.target else None,
        "by": stay.by,
        "stays": stay.stays,
    }

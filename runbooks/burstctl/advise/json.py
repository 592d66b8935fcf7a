"""Advice for programs and for spreadsheets."""

import csv
from collections.abc import Mapping
from io import StringIO
from typing import Any, Final

from burstctl.advise.collect import Advised
from burstctl.advise.rightsizing import Advice, Option, Verdict
from burstctl.advise.text import command_for
from burstwatch.core.ebs.usage import Peak, Rate, Usage
from burstwatch.core.ledger.flip_state import configuration_document
from burstwatch.core.text import format_instant, printable

SCHEMA: Final = "burstwatch.advice/v1"

_ACTS: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r", "\n")
"""What a spreadsheet takes for the beginning of a formula, or skips before one; the full-width forms too."""

_LONGEST_CELL: Final = 1000


def to_document(advised: Advised) -> dict[str, Any]:
    """As JSON; keys never disappear."""
    table, price = advised.prices.table, advised.fleet.price
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(advised.now_s),
        "region": advised.region,
        "ledger": advised.ledger,
        "history": {
            "start": format_instant(advised.start_s),
            "end": format_instant(advised.end_s),
            "days": advised.request.days,
            "period_s": advised.period_s,
            "percentile": advised.request.percentile,
        },
        "prices": {
            "region": table.region,
            "as_of": f"{table.as_of:%Y-%m-%d}",
            "source": "built_in" if advised.prices.is_built_in else "price_list",
            "faults": list(advised.prices.faults),
        },
        "volumes": [_volume(each, advised) for each in advised.advice],
        "totals": {
            "volumes": advised.fleet.count,
            "by_target": dict(advised.fleet.by_target),
            "undecided": advised.fleet.undecided,
            "usd_per_month_now": price.before_usd_per_month,
            "usd_per_month_advised": price.after_usd_per_month,
            "usd_per_month_difference": price.difference_usd_per_month,
            "ends_the_watch": advised.ends_the_watch,
            "critical": {
                "volumes": advised.fleet.critical_count,
                "usd_per_month_difference": advised.fleet.critical.difference_usd_per_month,
                "usd_per_month_more_on_io2": advised.fleet.usd_more_on_io2,
            },
        },
        "unsuited": dict(advised.unsuited),
        "ignored": list(advised.ignored),
        "missing": list(advised.missing),
        "unread": dict(advised.unread),
        "failures": list(advised.failures),
        "cost": {"metrics_requested": advised.metrics_requested, "usd": round(advised.usd_read, 6)},
        "api_calls": dict(advised.api_calls),
    }


def _volume(advice: Advice, advised: Advised) -> dict[str, Any]:
    volume, price, original = advice.volume, advice.price, advice.case.flipped_from
    return {
        "volume_id": volume.volume_id,
        "name": volume.name,
        "size_gib": volume.size_gib,
        "instance_id": volume.instance_id,
        "managed_by": volume.managed_by,
        "critical": advice.case.is_critical,
        "now": configuration_document(advice.case.now),
        "flipped_from": configuration_document(original) if original is not None else None,
        "verdict": str(advice.verdict),
        "advised": configuration_document(advice.target),
        "usd_per_month_now": price.before_usd_per_month,
        "usd_per_month_advised": price.after_usd_per_month,
        "usd_per_month_difference": price.difference_usd_per_month,
        "danger": str(advice.danger),
        "confidence": str(advice.confidence),
        "usd_per_month_more_on_io2": advice.usd_more_on_io2,
        "reasons": list(advice.reasons),
        "risks": list(advice.risks),
        "need": {
            "iops": advice.need.iops,
            "mib_s": advice.need.mib_s,
            "iops_served": advice.need.least_iops,
            "mib_s_served": advice.need.least_mib_s,
            "held_back": advice.need.is_held_back,
        },
        "usage": _usage(advice.case.usage),
        "options": {name: _option(option) for name, option in advice.options.items()},
        "command": command_for(advice, advised) if advice.verdict is Verdict.MOVE else None,
    }


def _option(option: Option) -> dict[str, Any]:
    told = configuration_document(option.configuration)
    return {**told, "usd_per_month": option.usd_per_month, "short": option.short}


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "days": round(usage.days, 3),
        "first": format_instant(usage.first_s),
        "last": format_instant(usage.last_s),
        "iops": _rate(usage.iops),
        "mib_s": _rate(usage.mib_s),
        "read_pct": usage.read_pct,
        "least_balance_pct": _peak(usage.least_balance),
        "dry_s": usage.dry_s,
        "held_to_baseline_s": usage.held_s,
    }


def _rate(rate: Rate | None) -> dict[str, Any] | None:
    if rate is None:
        return None
    return {
        "at_percentile": rate.at_percentile,
        "busiest": _peak(rate.busiest),
        "busiest_hour": _peak(rate.busiest_hour),
        "periods_above": rate.above,
    }


def _peak(peak: Peak | None) -> dict[str, Any] | None:
    return None if peak is None else {"at": format_instant(peak.at_s), "value": peak.value}


def to_csv(*regions: Advised) -> str:
    """A line to a volume, numbers as numbers; text from outside cannot act as a formula."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    rows = [_row(each, advised) for advised in regions for each in advised.advice]
    writer.writerow(_COLUMNS)
    writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return out.getvalue().rstrip("\n")


def _cell(value: Any) -> Any:
    """A number as it is; text on one line, with a ' before what a spreadsheet would take for a formula."""
    if value is None or isinstance(value, int | float):
        return value
    text = str(value)
    shown = printable(text, _LONGEST_CELL)
    return f"'{shown}" if text.startswith(_ACTS) or shown.startswith(_ACTS) else shown


def _row(advice: Advice, advised: Advised) -> Mapping[str, Any]:
    volume, usage, price = advice.volume, advice.case.usage, advice.price
    iops = usage.iops if usage else None
    mib_s = usage.mib_s if usage else None
    least = usage.least_balance if usage else None
    values = (
        volume.volume_id,
        volume.name,
        advised.region,
        volume.instance_id,
        volume.size_gib,
        advice.case.now.volume_type,
        advice.case.now.iops,
        advice.case.now.throughput_mib_s,
        advice.verdict,
        advice.target.volume_type,
        advice.target.iops,
        advice.target.throughput_mib_s,
        price.before_usd_per_month,
        price.after_usd_per_month,
        price.difference_usd_per_month,
        advice.danger,
        usage.dry_s if usage else None,
        round(least.value, 2) if least else None,
        _rounded(iops.at_percentile if iops else None),
        _rounded(iops.busiest.value if iops else None),
        _rounded(mib_s.at_percentile if mib_s else None),
        _rounded(mib_s.busiest.value if mib_s else None),
        round(usage.days, 2) if usage else None,
        advice.confidence,
        " ".join(advice.reasons),
        " ".join(advice.risks),
        command_for(advice, advised) if advice.verdict is Verdict.MOVE else None,
    )
    return dict(zip(_COLUMNS, values, strict=True))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


_COLUMNS: Final = (
    "volume_id", "name", "region", "instance_id", "size_gib",
    "type_now", "iops_now", "mib_s_now",
    "verdict", "type_advised", "iops_advised", "mib_s_advised",
    "usd_per_month_now", "usd_per_month_advised", "usd_per_month_difference",
    "danger", "dry_s", "least_balance_pct",
    "iops_at_percentile", "iops_busiest", "mib_s_at_percentile", "mib_s_busiest",
    "days_seen", "confidence", "reasons", "risks", "command",
)  # fmt: skip

"""Advice for programs and for spreadsheets."""

import csv
from collections.abc import Mapping
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from burstctl.advise.collect import AdviceReport
from burstctl.advise.rightsizing import Advice, AdviceVerdict, Option
from burstctl.advise.text import flip_command
from burstctl.advise.usage import Peak, RateSummary, Usage
from burstwatch.core.ledger.flip_state import configuration_to_document
from burstwatch.core.text import format_instant, sanitise, tenths_or_none

if TYPE_CHECKING:
    from documents.advice import (
        AdviceDocument,
        AdvisedVolumeDocument,
        OptionDocument,
        PeakDocument,
        RateDocument,
        UsageDocument,
    )

SCHEMA: Final = "burstwatch.advice/v1"

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r", "\n")
"""What a spreadsheet takes for the start of a formula, or skips before one; includes the full-width forms."""

_MAX_CELL_LENGTH: Final = 1000  # a spreadsheet cell; texts of AWS are shorter


def to_document(report: AdviceReport) -> "AdviceDocument":
    """As JSON; keys never disappear."""
    table, price = report.prices.table, report.fleet.price
    return {
        "schema": SCHEMA,
        "generated_at": format_instant(report.now_s),
        "region": report.region,
        "ledger": report.ledger,
        "history": {
            "start": format_instant(report.start_s),
            "end": format_instant(report.end_s),
            "days": report.request.days,
            "period_s": report.period_s,
            "percentile": report.request.percentile,
        },
        "prices": {
            "region": table.region,
            "as_of": f"{table.as_of:%Y-%m-%d}",
            "source": "built_in" if report.prices.is_built_in else "price_list",
            "faults": list(report.prices.faults),
        },
        "volumes": [_volume_document(advice, report) for advice in report.advice],
        "totals": {
            "volumes": report.fleet.count,
            "by_target": dict(report.fleet.by_target),
            "undecided": report.fleet.undecided,
            "usd_per_month_now": price.before_usd_per_month,
            "usd_per_month_advised": price.after_usd_per_month,
            "usd_per_month_difference": price.difference_usd_per_month,
            "ends_the_watch": report.ends_the_watch,
            "critical": {
                "volumes": report.fleet.critical_count,
                "usd_per_month_difference": report.fleet.critical.difference_usd_per_month,
                "usd_per_month_more_on_io2": report.fleet.usd_more_on_io2,
            },
        },
        **report.selection.to_document(),
    }


def _volume_document(advice: Advice, report: AdviceReport) -> "AdvisedVolumeDocument":
    volume, price, original = advice.volume, advice.price, advice.inputs.flipped_from
    return {
        "volume_id": volume.volume_id,
        "name": volume.name,
        "size_gib": volume.size_gib,
        "instance_id": volume.instance_id,
        "managed_by": volume.managed_by,
        "critical": advice.inputs.is_critical,
        "now": configuration_to_document(advice.inputs.current),
        "flipped_from": configuration_to_document(original) if original is not None else None,
        "verdict": advice.verdict,
        "advised": configuration_to_document(advice.target),
        "usd_per_month_now": price.before_usd_per_month,
        "usd_per_month_advised": price.after_usd_per_month,
        "usd_per_month_difference": price.difference_usd_per_month,
        "danger": advice.drain_risk,
        "confidence": advice.confidence,
        "usd_per_month_more_on_io2": advice.usd_more_on_io2,
        "reasons": list(advice.reasons),
        "risks": list(advice.risks),
        "need": {
            "iops": advice.requirement.iops,
            "mib_s": advice.requirement.mib_s,
            "iops_served": advice.requirement.min_iops,
            "mib_s_served": advice.requirement.min_mib_s,
            "held_back": advice.requirement.is_throttled,
        },
        "usage": _usage_document(advice.inputs.usage),
        "options": {name: _option_document(option) for name, option in advice.options.items()},
        "command": flip_command(advice, report) if advice.verdict is AdviceVerdict.MOVE else None,
    }


def _option_document(option: Option) -> "OptionDocument":
    document = configuration_to_document(option.configuration)
    return {**document, "usd_per_month": option.usd_per_month, "short": option.shortfall}


def _usage_document(usage: Usage | None) -> "UsageDocument | None":
    if usage is None:
        return None
    return {
        "days": round(usage.days, 3),
        "first": format_instant(usage.start_at_s),
        "last": format_instant(usage.end_at_s),
        "iops": _rate_document(usage.iops),
        "mib_s": _rate_document(usage.mib_s),
        "read_pct": usage.read_pct,
        "least_balance_pct": _peak_document(usage.lowest_balance),
        "dry_s": usage.empty_s,
        "held_to_baseline_s": usage.throttled_s,
    }


def _rate_document(rate: RateSummary | None) -> "RateDocument | None":
    if rate is None:
        return None
    return {
        "at_percentile": rate.at_percentile,
        "busiest": _peak_document(rate.busiest),
        "busiest_hour": _peak_document(rate.busiest_hour),
        "periods_above": rate.periods_above,
    }


def _peak_document(peak: Peak | None) -> "PeakDocument | None":
    return None if peak is None else {"at": format_instant(peak.at_s), "value": peak.value}


def to_csv(*reports: AdviceReport) -> str:
    """A line to a volume, numbers as numbers; text from outside cannot act as a formula."""
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    rows = [_csv_row(advice, report) for report in reports for advice in report.advice]
    writer.writerow(_COLUMNS)
    writer.writerows([_csv_cell(value) for value in row.values()] for row in rows)
    return buffer.getvalue().rstrip("\n")


def _csv_cell(value: Any) -> Any:
    """A number unchanged; text on one line, with a ' in front if a spreadsheet would read a formula."""
    if value is None or isinstance(value, int | float):
        return value
    text = str(value)
    printed = sanitise(text, _MAX_CELL_LENGTH)
    return (
        f"'{printed}" if text.startswith(_FORMULA_STARTS) or printed.startswith(_FORMULA_STARTS) else printed
    )


def _csv_row(advice: Advice, report: AdviceReport) -> Mapping[str, Any]:
    volume, usage, price = advice.volume, advice.inputs.usage, advice.price
    iops = usage.iops if usage else None
    mib_s = usage.mib_s if usage else None
    min_balance = usage.lowest_balance if usage else None
    values = (
        volume.volume_id,
        volume.name,
        report.region,
        volume.instance_id,
        volume.size_gib,
        advice.inputs.current.volume_type,
        advice.inputs.current.iops,
        advice.inputs.current.throughput_mib_s,
        advice.verdict,
        advice.target.volume_type,
        advice.target.iops,
        advice.target.throughput_mib_s,
        price.before_usd_per_month,
        price.after_usd_per_month,
        price.difference_usd_per_month,
        advice.drain_risk,
        usage.empty_s if usage else None,
        round(min_balance.value, 2) if min_balance else None,
        tenths_or_none(iops.at_percentile if iops else None),
        tenths_or_none(iops.busiest.value if iops else None),
        tenths_or_none(mib_s.at_percentile if mib_s else None),
        tenths_or_none(mib_s.busiest.value if mib_s else None),
        round(usage.days, 2) if usage else None,
        advice.confidence,
        " ".join(advice.reasons),
        " ".join(advice.risks),
        flip_command(advice, report) if advice.verdict is AdviceVerdict.MOVE else None,
    )
    return dict(zip(_COLUMNS, values, strict=True))


_COLUMNS: Final = (
    "volume_id", "name", "region", "instance_id", "size_gib",
    "type_now", "iops_now", "mib_s_now",
    "verdict", "type_advised", "iops_advised", "mib_s_advised",
    "usd_per_month_now", "usd_per_month_advised", "usd_per_month_difference",
    "danger", "dry_s", "least_balance_pct",
    "iops_at_percentile", "iops_busiest", "mib_s_at_percentile", "mib_s_busiest",
    "days_seen", "confidence", "reasons", "risks", "command",
)  # fmt: skip

"""A report in sentences and numbers: what the page says without its script."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from burstctl.cli.text_layout import LONGEST_SENTENCE
from burstctl.render.pass_summary import hold_words
from burstctl.render.table import CHANGING
from burstctl.report.activity import Sort, count_deeds
from burstctl.report.activity_html import deeds_context
from burstctl.report.collect import MOST_TOLD, Reported
from burstctl.report.costs_html import money_context
from burstctl.report.format import id_words, instant_words, span_words, usd_words, volumes_words
from burstctl.report.page_data import FAULT, LEVELS, level_counts
from burstctl.report.urgent_cards import urgent_context
from burstwatch.core.text import format_duration, format_instant, printable
from burstwatch.core.watch.api_cost import usd_per_month_now
from burstwatch.core.watch.poll_interval import describe_spacing

MOST_NOTES: Final = 30
_STRIP: Final = 1_000
_LEAST_PART: Final = 8

_MEANS: Final = {
    "exhausted": "out of credits, pinned to its baseline",
    "critical": "runs dry within minutes",
    "warning": "runs dry within the hour at this pace",
    FAULT: "its data is missing and should not be",
    CHANGING: "AWS is changing its configuration",
    "watch": "below full, not running out",
    "ok": "calm",
    "unknown": "nothing to judge by, and rightly so",
}
_COLUMNS: Final = (
    ("level", "Level", "most urgent first"),
    ("volume", "Volume", "by name, or by id where there is none"),
    ("balance", "Balance", "by the burst balance now"),
    ("least", "Last {}", "by the lowest balance of this time"),
    ("dry", "Dry (UTC)", "by the time until it is dry"),
    ("drain", "Drain/s", "by the credits lost a second"),
    ("gib", "GiB", "by size"),
    ("instance", "Instance", "by where it is attached"),
    ("mark", "Flip", "by flips and holds"),
)


def summary_of(reported: Reported, *, last: timedelta, runbooks_url: str) -> dict[str, Any]:
    """What the page's template is filled with; all of it is text, to be escaped."""
    now_s, region = reported.report.now_s, reported.report.region
    counts = level_counts(reported.decisions)
    said = [f"{counts[level]:,} {level}" for level in LEVELS if counts[level]]
    volumes = volumes_words(len(reported.decisions))
    return {
        "title": f"burstwatch: {volumes} in {region}, {format_instant(now_s)}",
        "region": region,
        "count": volumes,
        "generated_at": format_instant(now_s),
        "generated_at_words": instant_words(now_s),
        "last": span_words(last),
        "levels": [
            {"level": level, "count": f"{counts[level]:,}", "means": _MEANS[level]}
            for level in LEVELS
            if counts[level]
        ],
        "levels_said": ", ".join(said) or "no volume",
        "strip": _strip(counts),
        "tiles": _tiles(reported, last),
        "columns": [
            {"key": key, "title": title.format(span_words(last)), "says": says}
            for key, title, says in _COLUMNS
        ],
        "missing": _missing_words(reported),
        "notes": _notes(reported, last),
        **urgent_context(reported, counts, runbooks_url),
        **deeds_context(reported, last),
        **money_context(reported, last),
    }


def _strip(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """The levels side by side, none too narrow to be seen."""
    shown = [(level, counts[level]) for level in LEVELS if counts[level]]
    total = sum(count for _, count in shown)
    widths = [max(_LEAST_PART, _STRIP * count / total) for _, count in shown]
    scale = _STRIP / sum(widths) if widths else 0.0
    parts, x = [], 0.0
    for (level, count), width in zip(shown, widths, strict=True):
        parts.append({"level": level, "count": count, "x": f"{x:.1f}", "width": f"{width * scale:.1f}"})
        x += width * scale
    return parts


def _tiles(reported: Reported, last: timedelta) -> list[dict[str, str]]:
    report, money, counts = reported.report, reported.money, count_deeds(reported.deeds)
    balances = [
        (d.assessment.balance_pct, d) for d in reported.decisions if d.assessment.balance_pct is not None
    ]
    lowest = min(balances, key=lambda each: each[0], default=None)
    in_time = f"in {span_words(last)}"
    return [
        {
            "name": "Lowest balance",
            "value": f"{lowest[0]:.1f} %" if lowest else "none",
            "says": id_words(lowest[1]) if lowest else "no volume has one",
        },
        {
            "name": "Away from gp2",
            "value": f"{money.away:,}",
            "says": f"of {money.fleet_cap:,} that may be",
        },
        {
            "name": "Flips and returns",
            "value": f"{money.flips:,} and {money.returns:,}",
            "says": f"{in_time}; {counts[Sort.REFUSED]:,} refused, {counts[Sort.FAILED]:,} failed",
        },
        {
            "name": "Flips cost",
            "value": usd_words(money.flips_usd),
            "says": f"{in_time}; saved {usd_words(money.cheaper_usd + money.returned_usd)}, see Money",
        },
        {
            "name": "Watching costs",
            "value": usd_words(usd_per_month_now(reported.decisions)),
            "says": f"a month as now, {usd_words(report.usd_per_month_idle)} when calm",
        },
    ]


def _missing(reported: Reported) -> list[str]:
    """What could not be read, and why."""
    gone = (f"there is no volume {volume_id}" for volume_id in reported.report.missing)
    unread = (f"the picture of {volume_id}: {why}" for volume_id, why in reported.unread.items())
    return [*reported.failures, *gone, *unread]


def _missing_words(reported: Reported) -> str:
    """What stands at the top where the page is not whole; empty where it is."""
    missing = _missing(reported)
    if not missing:
        return ""
    more = f", and {len(missing) - 1:,} more at the end" if len(missing) > 1 else ""
    return printable(f"This page is not whole. Not read: {missing[0]}{more}.", LONGEST_SENTENCE)


def _notes(reported: Reported, last: timedelta) -> list[str]:
    """What the page rests on, and what is missing from it."""
    report = reported.report
    age_s = report.newest_datapoint_age_s
    calls = sum(reported.api_calls.values())
    looked = f"One look at {instant_words(report.now_s)}, and the last {span_words(last)} of CloudWatch"
    notes = [
        f"{looked} and of the ledger {report.ledger}. Nothing was changed.",
        f"{calls:,} calls to AWS, {reported.metrics_requested:,} metrics read for ${reported.usd_read:.4f}.",
    ]
    notes += [] if age_s is None else [f"The newest datapoint was {format_duration(age_s)} old."]
    if report.oldest_datapoint:
        oldest_s, volume_id = report.oldest_datapoint
        notes.append(
            f"The oldest datapoint of a volume that is not full was {format_duration(oldest_s)} old"
            f" ({volume_id})."
        )
    spacing = describe_spacing(report.datapoint_spacing_s)
    notes += [f"{spacing[0].upper()}{spacing[1:]}."] if spacing else []
    if len(reported.told) < len(reported.decisions):
        notes.append(
            f"{volumes_words(len(reported.told))} that matter most ({MOST_TOLD:,} at most) are told at"
            f" length; of the others there is the balance by {format_duration(reported.axis.period_s)}."
        )
    notes.append(
        "'About' is an estimate from what was seen; 'not before' is arithmetic: no load can empty it sooner."
    )
    notes.append("What volumes that are gone by now did is in the ledger still, and not here.")
    notes += [hold_words(hold, report.now_s) for hold in report.holds]
    if report.ignored:
        notes.append(f"{volumes_words(len(report.ignored))} ignored by tag.")
    missing = _missing(reported)
    notes += [f"Not read: {each}" for each in missing[:MOST_NOTES]]
    if len(missing) > MOST_NOTES:
        notes.append(f"Not read: and {len(missing) - MOST_NOTES:,} more.")
    return [printable(note, LONGEST_SENTENCE) for note in notes]

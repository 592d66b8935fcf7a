"""What is said about a pass beside its table: totals, what it cost, what went wrong."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from burstctl.output import complain, say
from burstctl.table import shown_name
from burstwatch.core.cost import USD_PER_METRIC, usd_per_month_now
from burstwatch.core.decide import Decision
from burstwatch.core.levels import Level
from burstwatch.core.report import Report
from burstwatch.core.words import format_clock, format_duration, format_instant, printable

_MOST_LINES: Final = 10
_LONGEST: Final = 600
_BY_URGENCY: Final = (
    Level.EXHAUSTED, Level.CRITICAL, Level.WARNING, Level.WATCH, Level.OK, Level.UNKNOWN,
)  # fmt: skip


def tell(report: Report) -> None:
    """Say everything a person should know about a pass that is not in its table."""
    if report.decisions and sys.stdout.isatty() and sys.stderr.isatty():
        say("")
    if report.decisions or not report.failures:
        say(_totals(report))
        say(_effort(report))
    if report.ignored:
        say(f"ignored by tag: {_some(sorted(report.ignored))}")
    _say_each("tag", (_about(d, fault) for d in report.decisions for fault in d.wishes.faults))
    _say_each("fault", (_about(d, _why(d)) for d in report.decisions if d.assessment.is_fault))
    tell_failures(report)


def tell_pass(report: Report, tick_s: int) -> None:
    """Say in one line what one pass of many came to."""
    seen = count_levels(report.decisions) or "nothing was due"
    age_s = report.newest_datapoint_age_s
    newest = "" if age_s is None else f"; newest datapoint {format_duration(age_s)} old"
    say(f"{format_clock(tick_s)} UTC: {seen}{newest}")


def tell_failures(report: Report) -> None:
    """Say what could not be done: each failure, and each volume that does not exist."""
    for failure in report.failures:
        complain(printable(failure, _LONGEST))
    for volume_id in report.missing:
        complain(f"there is no volume {volume_id} in {report.region}: check the id, the region, the account")


def count_levels(decisions: Iterable[Decision]) -> str:
    """``1 critical, 3 ok``, most urgent first."""
    counts = Counter(decision.level for decision in decisions)
    return ", ".join(f"{counts[level]:,} {level}" for level in _BY_URGENCY if counts[level])


def _totals(report: Report) -> str:
    count = len(report.decisions)
    volumes = f"{count:,} volume{'' if count == 1 else 's'} in {report.region}"
    levels = f": {count_levels(report.decisions)}" if count else ""
    return f"{volumes} at {format_instant(report.now_s)}{levels}"


def _effort(report: Report) -> str:
    age_s = report.newest_datapoint_age_s
    newest = "no datapoint" if age_s is None else f"newest datapoint {format_duration(age_s)} old"
    calls, metrics = sum(report.api_calls.values()), report.metrics_requested
    idle, now = report.usd_per_month_idle, usd_per_month_now(report.decisions)
    return (
        f"{newest}; {calls:,} call{'' if calls == 1 else 's'} to AWS, {metrics:,} metrics read"
        f" for ${metrics * USD_PER_METRIC:.5f};"
        f" watching costs ${idle:,.2f} a month while all are calm, ${now:,.2f} as they are now"
    )


def _why(decision: Decision) -> str:
    return decision.assessment.unknown_because or str(decision.assessment.unknown_reason)


def _about(decision: Decision, said: str) -> str:
    name = shown_name(decision)
    who = decision.assessment.volume.volume_id + (f" ({name})" if name else "")
    return f"{who}: {printable(said, _LONGEST)}"


def _say_each(word: str, lines: Iterable[str]) -> None:
    found = list(lines)
    for line in found[:_MOST_LINES]:
        say(f"{word}: {line}")
    if len(found) > _MOST_LINES:
        say(f"{word}: and {len(found) - _MOST_LINES:,} more, which --json shows")


def _some(volume_ids: Sequence[str]) -> str:
    shown = ", ".join(volume_ids[:_MOST_LINES])
    more = len(volume_ids) - _MOST_LINES
    return f"{shown} and {more:,} more" if more > 0 else shown

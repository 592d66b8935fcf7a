"""What is said about a pass beside its table: totals, what it cost, what went wrong."""

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from burstctl.cli.output import complain, say
from burstctl.render.guard_override import page_hints
from burstctl.render.table import CHANGING, level_word
from burstctl.render.volume import id_and_name
from burstwatch.core.assessment.severity import Level
from burstwatch.core.flips.outcome import Done
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.text import format_clock, format_duration, format_instant, format_until, printable
from burstwatch.core.watch.api_cost import USD_PER_METRIC, usd_per_month_now
from burstwatch.core.watch.decide import Decision
from burstwatch.core.watch.poll_interval import describe_spacing
from burstwatch.core.watch.report import Report

_MOST_LINES: Final = 10
_LONGEST: Final = 600
_DONE_WORDS: Final = {
    Done.FLIPPED: "flipped",
    Done.FLIPPED_BACK: "flipped back",
    Done.REFUSED: "refused",
    Done.FAILED: "failed",
    Done.IN_FLIGHT: "in flight",
}
_BY_URGENCY: Final = (
    Level.EXHAUSTED, Level.CRITICAL, Level.WARNING, CHANGING, Level.WATCH, Level.OK, Level.UNKNOWN,
)  # fmt: skip


def tell(report: Report) -> None:
    """Say everything a person should know about a pass that is not in its table."""
    if report.decisions and sys.stdout.isatty() and sys.stderr.isatty():
        say("")
    if report.decisions or not report.failures:
        say(_totals(report))
        say(_effort(report))
    tell_holds(report.holds, report.now_s)
    if report.ignored:
        say(f"ignored by tag: {_some(sorted(report.ignored))}")
    _tell_outcomes(report)
    _say_each("tag", (_about(d, fault) for d in report.decisions for fault in d.wishes.faults))
    _say_each("fault", (_about(d, _why(d)) for d in report.decisions if d.assessment.is_fault))
    tell_failures(report)


def tell_pass(report: Report, tick_s: int) -> None:
    """Say in one line what one pass of many came to."""
    seen = count_levels(report.decisions) or "nothing was due"
    age_s = report.newest_datapoint_age_s
    newest = "" if age_s is None else f"; newest datapoint {format_duration(age_s)} old{_oldest(report)}"
    say(f"{format_clock(tick_s)} UTC: {seen}{_count_outcomes(report)}{newest}")
    tell_holds(report.holds, report.now_s)
    _tell_outcomes(report)


def tell_holds(holds: Iterable[Hold], now_s: float, volume_ids: Collection[str] | None = None) -> None:
    """Say which holds are in force: on everything, and on these volumes (None: on any)."""
    found = [h for h in holds if h.volume_id is None or volume_ids is None or h.volume_id in volume_ids]
    _say_each("hold", (printable(hold_words(hold, now_s), _LONGEST) for hold in found))


def hold_words(hold: Hold, now_s: float) -> str:
    """Who holds what, for how long and why."""
    what = "everything" if hold.volume_id is None else hold.volume_id
    return f"{what} is kept as it is {format_until(hold.until_s, now_s)}, by {hold.by}: {hold.reason}"


def _count_outcomes(report: Report) -> str:
    counts = {word: report.count(done) for done, word in _DONE_WORDS.items()}
    said = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
    return f"; {said}" if said else ""


def _tell_outcomes(report: Report) -> None:
    """Say what was modified in this pass or would have been, what is on its way, what was refused and why."""
    for done, word in _DONE_WORDS.items():
        if done is Done.FAILED:
            continue
        named = ((d, report.outcome_of(d)) for d in report.decisions)
        _say_each(word, (_about(d, o.because or d.reason) for d, o in named if o.done is done))
    undone = [d for d in report.decisions if d.want and report.outcome_of(d).done is Done.PROPOSED]
    _say_each("left undone without --act", (_about(d, d.reason) for d in undone))


def tell_pages(report: Report, runbooks_url: str) -> None:
    """Say where each guard that refused something in this pass is explained."""
    outcomes = (report.outcome_of(decision) for decision in report.decisions)
    for hint in page_hints({each.refusal.guard for each in outcomes if each.refusal}, runbooks_url):
        say(hint)


def tell_failures(report: Report) -> None:
    """Say what could not be done: each failure, and each volume that does not exist."""
    for failure in report.failures:
        complain(printable(failure, _LONGEST))
    for volume_id in report.missing:
        complain(f"there is no volume {volume_id} in {report.region}: check the id, the region, the account")


def count_levels(decisions: Iterable[Decision]) -> str:
    """``1 critical, 3 ok``, most urgent first."""
    counts = Counter(map(level_word, decisions))
    return ", ".join(f"{counts[level]:,} {level}" for level in _BY_URGENCY if counts[level])


def _totals(report: Report) -> str:
    count = len(report.decisions)
    volumes = f"{count:,} volume{'' if count == 1 else 's'} in {report.region}"
    levels = f": {count_levels(report.decisions)}" if count else ""
    return f"{volumes} at {format_instant(report.now_s)}{levels}{_count_outcomes(report)}"


def _oldest(report: Report) -> str:
    """The oldest datapoint that matters, if it is older than the policy allows for; else empty."""
    if report.oldest_datapoint is None:
        return ""
    age_s, volume_id = report.oldest_datapoint
    return f", oldest {format_duration(age_s)} ({volume_id})"


def _effort(report: Report) -> str:
    age_s = report.newest_datapoint_age_s
    newest = "no datapoint" if age_s is None else f"newest datapoint {format_duration(age_s)} old"
    newest += _oldest(report)
    spacing = describe_spacing(report.datapoint_spacing_s)
    newest = f"{newest}; {spacing}" if spacing else newest
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
    return f"{id_and_name(decision.assessment.volume)}: {printable(said, _LONGEST)}"


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

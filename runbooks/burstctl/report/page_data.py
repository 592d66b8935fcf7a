"""A report as the page's own data: columns of all volumes, and what is told of those that matter."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from math import floor
from typing import Any, Final

from burstctl.cli.text_layout import LONGEST_SENTENCE
from burstctl.render.flip_status import mark_of, short_configuration
from burstctl.render.flip_text import flip_in_words
from burstctl.render.pass_summary import hold_words
from burstctl.render.table import CHANGING, dry_words, level_word
from burstctl.render.volume import name_of
from burstctl.report.activity import Deed
from burstctl.report.collect import Reported, Told
from burstctl.report.series import Axis
from burstctl.timeline.timeline import AbsenceReason, Chronology, Fan, condense
from burstwatch.core.alerts.alert import is_command
from burstwatch.core.assessment.severity import Level, explain_level
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.flip_state import hold_on
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import format_duration, printable
from burstwatch.core.watch.decide import Decision

FAULT: Final = "fault"
LEVELS: Final = (
    *reversed([str(level) for level in Level if level.is_alerting]),
    FAULT,
    CHANGING,
    "watch",
    "ok",
    "unknown",
)
"""As the page calls them, most urgent first: a volume whose data is missing is a fault, not just unknown."""

MOST_STORY: Final = 60
_LONGEST_TAG: Final = 120
_MOST_TAGS: Final = 50
_LONGEST_LABEL: Final = 60
UNREAD: Final = "could not be read"
_ABSENT: Final = {
    AbsenceReason.NOT_CREATED: "not created yet",
    AbsenceReason.FLIPPED: "flipped: no balance",
    AbsenceReason.OTHER_TYPE: "no burst credits",
    AbsenceReason.CANNOT_RUN_DRY: "cannot run dry",
    AbsenceReason.DETACHED: "detached",
    AbsenceReason.INSTANCE_STOPPED: "instance stopped",
    AbsenceReason.GAP: "no datapoint",
}


def page_data(reported: Reported) -> dict[str, Any]:
    """All that the page's script reads."""
    rows = [_row(decision, reported) for decision in reported.decisions]
    names = _row_names()
    return {
        "now": round(reported.report.now_s),
        "since": reported.since_s,
        "region": reported.report.region,
        "axis": [reported.axis.start_s, reported.axis.period_s, reported.axis.count],
        "volumes": {name: [row[name] for row in rows] for name in names},
        "told": {volume_id: _told(told, reported) for volume_id, told in reported.told.items()},
        "unread": sorted(reported.unread),
    }


def level_of(decision: Decision) -> str:
    """The level as the page shows it."""
    return FAULT if decision.assessment.is_fault else level_word(decision)


def level_counts(decisions: Iterable[Decision]) -> dict[str, int]:
    """How many volumes are at each level of the page, none left out."""
    counts = Counter(map(level_of, decisions))
    return {level: counts[level] for level in LEVELS}


def packed(values: Iterable[float | None], scale: int = 1) -> str:
    """Values as text, each with how often it repeats; nothing stands for what is not known.

    ``1000x47,985,x3``: 100.0 % 47 times, 98.5 % once, three gaps. What rounds up to something is not shown
    as more than it was.
    """
    scaled = (None if value is None else floor(value * scale + 1e-6) for value in values)
    return ",".join(_run(value, sum(1 for _ in same)) for value, same in groupby(scaled))


def on_axis(series: Series, axis: Axis) -> list[float | None]:
    """The value of each period of the axis, None where there is none."""
    known = dict(zip(series.starts_s, series.values, strict=True))
    return [known.get(axis.start_s + nth * axis.period_s) for nth in range(axis.count)]


def facts_of(decision: Decision, reported: Reported) -> list[tuple[str, str]]:
    """What the watchdog knows of a volume now, beside what stands in its row."""
    assessment, report = decision.assessment, reported.report
    found = [("Why", _why(decision, reported.policy)), ("Decision", f"{decision.action}: {decision.reason}")]
    if assessment.age_s is not None and assessment.credits_left is not None:
        age = format_duration(assessment.age_s)
        found.append(("Reading", f"{assessment.credits_left:,.0f} credits, {age} old"))
    if assessment.consumed_read_iops is not None and assessment.consumed_write_iops is not None:
        reads, writes = assessment.consumed_read_iops, assessment.consumed_write_iops
        found.append(("Served", f"{reads:,.0f} reads/s and {writes:,.0f} writes/s, newest five minutes"))
    if decision.proposal is not None:
        found += [("Proposed", reason) for reason in decision.proposal.reasons]
    found += [("Tag at fault", fault) for fault in decision.wishes.faults]
    if decision.flip is not None:
        found += [("Flip", line) for line in flip_in_words(decision.flip, report.now_s)]
    hold = hold_on(report.holds, decision.volume_id, report.now_s)
    if hold is not None:
        found.append(("Hold", hold_words(hold, report.now_s)))
    if decision.look_interval_s:
        found.append(("Looked at", f"every {format_duration(decision.look_interval_s)}"))
    return [(name, printable(text, LONGEST_SENTENCE)) for name, text in found if text]


def _why(decision: Decision, policy: Policy) -> str:
    """The rule that put it at its level; the newest sample stands for those that a look let go."""
    assessment, sample = decision.assessment, decision.assessment.sample
    if sample is not None and not assessment.balance:
        assessment = replace(assessment, balance=Series((sample.start_s,), (sample.value,)))
    return explain_level(assessment, decision.level, policy)


def _run(value: int | None, times: int) -> str:
    return ("" if value is None else str(value)) + (f"x{times}" if times > 1 else "")


def _row_names() -> tuple[str, ...]:
    return (
        "id", "name", "type", "gib", "instance", "device", "level", "balance", "least", "dry_words", "dry_s",
        "drain", "baseline", "mode", "mark", "tags", "line",
    )  # fmt: skip


def _row(decision: Decision, reported: Reported) -> dict[str, Any]:
    assessment = decision.assessment
    volume, forecast = assessment.volume, assessment.forecast
    told = reported.told.get(decision.volume_id)
    balance = reported.balances.get(decision.volume_id, Series())
    if told is not None:
        balance = condense(told.chronology.balance, reported.axis.period_s, min)
    known = [*balance.values, *([] if assessment.balance_pct is None else [assessment.balance_pct])]
    return {
        "id": volume.volume_id,
        "name": name_of(volume),
        "type": printable(volume.volume_type, _LONGEST_LABEL),
        "gib": volume.size_gib,
        "instance": volume.instance_id or "",
        "device": printable(volume.device or "", _LONGEST_LABEL),
        "level": level_of(decision),
        "balance": _tenth(assessment.balance_pct),
        "least": _tenth(min(known, default=None)),
        "dry_words": dry_words(decision, reported.report.now_s),
        "dry_s": _whole(forecast.time_to_empty_s if forecast else None),
        "drain": _whole(forecast.drain_per_s if forecast else None),
        "baseline": assessment.baseline_iops,
        "mode": str(decision.wishes.mode),
        "mark": mark_of(decision, reported.report),
        "tags": _tags(volume),
        "line": packed(on_axis(balance, reported.axis), 10),
    }


def _tags(volume: Volume) -> list[str]:
    """Its tags, without the name where that is how it is called anyway."""
    told = {"Name"} if volume.name == name_of(volume) else set()
    keys = sorted(volume.tags.keys() - told)[:_MOST_TAGS]
    return [printable(f"{key}={volume.tags[key]}", _LONGEST_TAG) for key in keys]


def _told(told: Told, reported: Reported) -> dict[str, Any]:
    decision, seen = told.decision, told.chronology
    axis = Axis(
        start_s=seen.start_s,
        period_s=seen.period_s,
        count=max(1, -(-int(seen.now_s - seen.start_s) // seen.period_s)),
    )
    return {
        "axis": [axis.start_s, axis.period_s, axis.count],
        "end": round(seen.end_s),
        "balance": packed(on_axis(seen.balance, axis), 10),
        "iops": packed(on_axis(seen.served, axis)) if seen.served else "",
        "fan": _fan(seen.fan),
        **_stretches(seen, is_unread=decision.volume_id in reported.unread),
        "marks": [[mark.at_s, mark.letter, str(mark.kind), _label(mark.says, 200)] for mark in seen.marks],
        "facts": [list(fact) for fact in facts_of(decision, reported)],
        "story": [_story_line(deed) for deed in reversed(told.story[-MOST_STORY:])],
        "commands": [decision.proposal.action]
        if decision.proposal and is_command(decision.proposal.action)
        else [],
    }


def _stretches(seen: Chronology, *, is_unread: bool) -> dict[str, Any]:
    """What lasted for a while: from, to, and words; what was not read is no gap in the data."""
    end_s = seen.end_s
    absent = [[round(a.start_s), round(a.end_s), _ABSENT[a.reason]] for a in seen.absences]
    return {
        "absent": [[seen.start_s, round(seen.now_s), UNREAD]] if is_unread else absent,
        "limits": [[round(a.start_s), round(a.end_s), a.sustained_iops, a.most_iops] for a in seen.limits],
        "stays": [
            [
                round(stay.reached_s or stay.asked_s or seen.start_s),
                round(stay.back_s or stay.restored_s or seen.now_s),
                short_configuration(stay.target) if stay.target else "its target",
            ]
            for stay in seen.stays
        ],
        "windows": [[round(w.start_s), round(min(w.end_s, end_s)), _label(w.window)] for w in seen.windows],
        "holds": [[round(h.start_s), round(h.end_s), _label(f"{h.by}: {h.reason}")] for h in seen.holds],
        "stalls": [
            [round(s.start_s), round(s.end_s), _label(f"{s.verdict}: {s.cause}")] for s in seen.stalls
        ],
    }


def _fan(fan: Fan | None) -> dict[str, Any] | None:
    if fan is None:
        return None
    return {
        "from": fan.from_s,
        "pct": round(fan.from_pct, 1),
        "soonest": _whole(fan.soonest_s),
        "earliest": _whole(fan.earliest_s),
        "about": _whole(fan.about_s),
        "latest": _whole(fan.latest_s),
    }


def _story_line(deed: Deed) -> list[Any]:
    return [deed.at_s, deed.letter, str(deed.sort), deed.line, list(deed.details)]


def action_of(decision: Decision, region: str) -> str:
    """What a person may do about a volume: a command to paste, or a sentence where no command helps."""
    if decision.proposal is not None:
        return decision.proposal.action
    return f"burstctl explain {decision.volume_id} --region {region}"


def _label(text: str, limit: int = _LONGEST_LABEL) -> str:
    return printable(text, limit)


def _tenth(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)

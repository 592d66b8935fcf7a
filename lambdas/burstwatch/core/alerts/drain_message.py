"""What drained a volume, as alerts carry it and as people read it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from burstwatch.core.assessment.drain_cause import (
    BALANCE_HISTORY_PERIOD_S,
    COMPARED_DAYS,
    DrainEpisode,
    DrainMetrics,
    compare_same_hour,
    find_drain,
    measure_operations,
)
from burstwatch.core.durations import MINUTE_S
from burstwatch.core.text import format_instant, format_time, tenths_or_none

_EXACT_BELOW_KIB: Final = 10
"""A judgement: below this, a decimal place makes a difference."""
_NEARLY_ALL_PCT: Final = 99.5
"""A share that would be rounded to 100 % although it is not all."""
_MAJORITY_SHARE: Final = 0.75
"""Where a smaller share of a drain's operations is known, they say nothing of its beginning."""


def describe_drain(episode: DrainEpisode | None) -> dict[str, Any] | None:
    """The fall of a balance as alerts carry it; what has to be read besides is None at first."""
    if episode is None:
        return None
    return {
        "began_at": format_instant(episode.began_at_s),
        "is_longer": episode.began_before_samples,
        "from_pct": round(episode.from_pct, 1),
        "to_pct": round(episode.to_pct, 1),
        "lasted_s": episode.ended_at_s - episode.began_at_s,
        **dict.fromkeys(("served_min", "read_iops", "write_iops", "read_kib", "write_kib")),
        **dict.fromkeys(("days_asked", "days_known", "days_alike", "is_particular")),
        "not_read": None,
    }


def describe_drain_cause(episode: DrainEpisode, metrics: DrainMetrics, *, now_s: float) -> dict[str, Any]:
    """The same with what was served during the drain, and how the hour was on earlier days."""
    if episode.began_before_samples:
        episode = _extend_with_balance_history(episode, metrics)
    document = describe_drain(episode) or {}
    served = measure_operations(episode, metrics, now_s=now_s)
    if served is not None:
        document["served_min"] = served.minutes
        document |= {"read_iops": round(served.read_iops, 1), "write_iops": round(served.write_iops, 1)}
        document |= {
            "read_kib": tenths_or_none(served.read_kib),
            "write_kib": tenths_or_none(served.write_kib),
        }
    if (days := compare_same_hour(metrics.balance_history, episode)) is not None:
        document |= {
            "days_asked": COMPARED_DAYS,
            "days_known": days.known_days,
            "days_alike": days.matching_days,
        }
        document["is_particular"] = days.is_hour_specific
    return document | {"not_read": metrics.read_error}


def _extend_with_balance_history(episode: DrainEpisode, metrics: DrainMetrics) -> DrainEpisode:
    """A fall that is longer than the minutes at hand, as five minutes each show it; they go farther back."""
    earlier = find_drain(
        metrics.balance_history.closed_by(episode.ended_at_s), period_s=BALANCE_HISTORY_PERIOD_S
    )
    return earlier if earlier is not None and earlier.began_at_s < episode.began_at_s else episode


def format_drain_cause(evidence: Mapping[str, Any], *, at_s: int) -> list[str]:
    """Since when the volume drains, by what, and how often it did, as far as the evidence shows."""
    drain = evidence.get("drain")
    served = _format_rates(evidence.get("consumed_read_iops"), evidence.get("consumed_write_iops"))
    if drain is None:
        return [f"Current load: {served}."] if served else []
    start = _start_sentence(drain, at_s)
    since = _format_rates(drain["read_iops"], drain["write_iops"], drain["read_kib"], drain["write_kib"])
    if since:
        parts = [f"{start}; {_format_known_period(drain)} it served {since}."]
    else:
        parts = [f"{start}.", *([f"Current load: {served}."] if served else [])]
    if (days := _same_hour_sentence(drain)) is not None:
        parts.append(days)
    if drain["not_read"]:
        parts.append(f"What drained it was not read in full: {drain['not_read']}.")
    return parts


def format_drain_start(episode: DrainEpisode | None, *, now_s: float) -> list[str]:
    """Since when the balance falls, or fell until it was empty; empty if it does not fall."""
    document = describe_drain(episode)
    return [] if document is None else [_start_sentence(document, int(now_s))]


def _format_known_period(drain: Mapping[str, Any]) -> str:
    """What the operations are of: the whole drain, or what is known of the end of a long one."""
    minutes = drain["served_min"]
    if minutes * MINUTE_S >= _MAJORITY_SHARE * drain["lasted_s"]:
        return "since then"
    return "in its last minute" if minutes == 1 else f"in its last {minutes} min"


def _start_sentence(drain: Mapping[str, Any], at_s: int) -> str:
    when = format_time(datetime.fromisoformat(drain["began_at"]).timestamp(), at_s)
    if drain["is_longer"]:
        return f"The drain began at {when} UTC or earlier"
    return f"The drain began at {when} UTC, at {drain['from_pct']:.1f} %"


def _format_rates(
    reads: float | None, writes: float | None, read_kib: float | None = None, write_kib: float | None = None
) -> str | None:
    """``750 reads/s of 16 KiB and 2,250 writes/s of 64 KiB (75 % writes)``."""
    if reads is None or writes is None:
        return None
    sizes = [_format_size(read_kib), _format_size(write_kib)]
    parts = [f"{reads:,.0f} reads/s{sizes[0]}", f"{writes:,.0f} writes/s{sizes[1]}"]
    if not round(reads) and round(writes):
        return f"{parts[1]} and no reads"
    if not round(writes) and round(reads):
        return f"{parts[0]} and no writes"
    if sizes[0] and sizes[0] == sizes[1]:
        parts = [f"{reads:,.0f} reads/s", f"{parts[1]} each"]
    return f"{' and '.join(parts)}{_format_share(reads, writes)}"


def _format_share(reads: float, writes: float) -> str:
    if not reads + writes:
        return ""
    larger, operation = max((reads, "reads"), (writes, "writes"))
    pct = 100 * larger / (reads + writes)
    return f" (nearly all {operation})" if pct >= _NEARLY_ALL_PCT else f" ({pct:.0f} % {operation})"


def _format_size(kib: float | None) -> str:
    if kib is None:
        return ""
    exact = f"{kib:.1f}".removesuffix(".0")
    return f" of {exact if kib < _EXACT_BELOW_KIB else f'{kib:,.0f}'} KiB"


def _same_hour_sentence(drain: Mapping[str, Any]) -> str | None:
    known_days, matching_days, compared_days = (
        drain[f"days_{label}"] for label in ("known", "alike", "asked")
    )
    if not known_days:
        return None
    period = (
        f"the last {known_days} days"
        if known_days == compared_days
        else f"the {known_days} earlier days with data"
    )
    period = "the only earlier day with data" if known_days == 1 else period
    if not matching_days:
        return f"No such drain at this hour on {period if known_days == 1 else f'any of {period}'}."
    label = (
        period
        if known_days == 1
        else f"each of {period}"
        if matching_days == known_days
        else f"{matching_days} of {period}"
    )
    suffix = "" if drain["is_particular"] else ", and as often at other hours"
    return f"The same drain at this hour on {label}{suffix}."

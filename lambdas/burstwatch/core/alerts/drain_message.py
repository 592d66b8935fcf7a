"""What drained a volume, as alerts carry it and as people read it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from burstwatch.core.assessment.drain_cause import (
    DAYS,
    DAYS_PERIOD_S,
    Fall,
    Traces,
    compare_days,
    find_fall,
    operations_in,
)
from burstwatch.core.text import format_instant, format_time

_EXACT_BELOW_KIB: Final = 10
_NEARLY_ALL_PCT: Final = 99.5
_A_MINUTE_S: Final = 60
_MOST_OF_IT: Final = 0.75
"""Where a smaller share of a drain's operations is known, they say nothing of its beginning."""


def describe_fall(fall: Fall | None) -> dict[str, Any] | None:
    """The fall of a balance as alerts carry it; what has to be read besides is None at first."""
    if fall is None:
        return None
    return {
        "began_at": format_instant(fall.began_s),
        "is_longer": fall.is_longer,
        "from_pct": round(fall.from_pct, 1),
        "to_pct": round(fall.to_pct, 1),
        "lasted_s": fall.ended_s - fall.began_s,
        **dict.fromkeys(("served_min", "read_iops", "write_iops", "read_kib", "write_kib")),
        **dict.fromkeys(("days_asked", "days_known", "days_alike", "is_particular")),
        "not_read": None,
    }


def describe_cause(fall: Fall, traces: Traces, *, now_s: float) -> dict[str, Any]:
    """The same with what was served meanwhile, and how the hour was on earlier days."""
    if fall.is_longer:
        fall = _by_days(fall, traces)
    told = describe_fall(fall) or {}
    served = operations_in(fall, traces, now_s=now_s)
    if served is not None:
        told["served_min"] = served.minutes
        told |= {"read_iops": round(served.read_iops, 1), "write_iops": round(served.write_iops, 1)}
        told |= {"read_kib": _rounded(served.read_kib), "write_kib": _rounded(served.write_kib)}
    if (days := compare_days(traces.days, fall)) is not None:
        told |= {"days_asked": DAYS, "days_known": days.known, "days_alike": days.alike}
        told["is_particular"] = days.is_particular
    return told | {"not_read": traces.not_read}


def _by_days(fall: Fall, traces: Traces) -> Fall:
    """A fall that is longer than the minutes at hand, as five minutes each show it; they go farther back."""
    earlier = find_fall(traces.days.closed_by(fall.ended_s), period_s=DAYS_PERIOD_S)
    return earlier if earlier is not None and earlier.began_s < fall.began_s else fall


def cause_sentences(evidence: Mapping[str, Any], *, time_s: int) -> list[str]:
    """Since when it drains, by what, and how often so; as far as the evidence of an alert about it says."""
    drain = evidence.get("drain")
    served = _rates(evidence.get("consumed_read_iops"), evidence.get("consumed_write_iops"))
    if drain is None:
        return [f"It serves {served}."] if served else []
    began = _began(drain, time_s)
    since = _rates(drain["read_iops"], drain["write_iops"], drain["read_kib"], drain["write_kib"])
    if since:
        said = [f"{began}; {_meanwhile(drain)} it served {since}."]
    else:
        said = [f"{began}.", *([f"It serves {served}."] if served else [])]
    if (days := _days(drain)) is not None:
        said.append(days)
    if drain["not_read"]:
        said.append(f"What drained it was not read in full: {drain['not_read']}.")
    return said


def began_words(fall: Fall | None, *, now_s: float) -> list[str]:
    """Since when the balance falls, or fell until it was empty; nothing where it does not."""
    told = describe_fall(fall)
    return [] if told is None else [_began(told, int(now_s))]


def _meanwhile(drain: Mapping[str, Any]) -> str:
    """What the operations are of: the whole drain, or what is known of the end of a long one."""
    minutes = drain["served_min"]
    if minutes * _A_MINUTE_S >= _MOST_OF_IT * drain["lasted_s"]:
        return "since then"
    return "in its last minute" if minutes == 1 else f"in its last {minutes} min"


def _began(drain: Mapping[str, Any], time_s: int) -> str:
    when = format_time(datetime.fromisoformat(drain["began_at"]).timestamp(), time_s)
    if drain["is_longer"]:
        return f"The drain began at {when} UTC or earlier"
    return f"The drain began at {when} UTC, at {drain['from_pct']:.1f} %"


def _rates(
    reads: float | None, writes: float | None, read_kib: float | None = None, write_kib: float | None = None
) -> str | None:
    """``750 reads/s of 16 KiB and 2,250 writes/s of 64 KiB (75 % writes)``."""
    if reads is None or writes is None:
        return None
    sizes = [_size(read_kib), _size(write_kib)]
    parts = [f"{reads:,.0f} reads/s{sizes[0]}", f"{writes:,.0f} writes/s{sizes[1]}"]
    if not round(reads) and round(writes):
        return f"{parts[1]} and no reads"
    if not round(writes) and round(reads):
        return f"{parts[0]} and no writes"
    if sizes[0] and sizes[0] == sizes[1]:
        parts = [f"{reads:,.0f} reads/s", f"{parts[1]} each"]
    return f"{' and '.join(parts)}{_share(reads, writes)}"


def _share(reads: float, writes: float) -> str:
    if not reads + writes:
        return ""
    most, what = max((reads, "reads"), (writes, "writes"))
    pct = 100 * most / (reads + writes)
    return f" (nearly all {what})" if pct >= _NEARLY_ALL_PCT else f" ({pct:.0f} % {what})"


def _size(kib: float | None) -> str:
    if kib is None:
        return ""
    exact = f"{kib:.1f}".removesuffix(".0")
    return f" of {exact if kib < _EXACT_BELOW_KIB else f'{kib:,.0f}'} KiB"


def _days(drain: Mapping[str, Any]) -> str | None:
    known, alike, asked = (drain[f"days_{which}"] for which in ("known", "alike", "asked"))
    if not known:
        return None
    of = f"the last {known} days" if known == asked else f"the {known} earlier days that are known"
    of = "the one earlier day that is known" if known == 1 else of
    if not alike:
        return f"It did not do so at this hour on {of if known == 1 else f'any of {of}'}."
    which = of if known == 1 else f"each of {of}" if alike == known else f"{alike} of {of}"
    elsewhere = "" if drain["is_particular"] else ", and as often at other hours"
    return f"It did the same at this hour on {which}{elsewhere}."


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)

"""Resources as rows of a table: which ones to show, and each of them in words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import compress
from operator import not_
from typing import Final, NamedTuple

from burstctl.render.flip_status import describe_flip_status, is_flip_active
from burstctl.render.table import Row, fit, format_percent
from burstctl.render.volume import MAX_NAME_CHARS, display_name_of
from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.resource import type_name_of
from burstwatch.core.assessment.resource_buckets import rate_when_empty_per_s
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.forecast import describe_trend
from burstwatch.core.buckets.units import BYTES, format_limit, format_rate
from burstwatch.core.ebs.gp2_bucket import EBS_IO
from burstwatch.core.ebs.volume import Volume, can_burst
from burstwatch.core.policy.policy import LevelPolicy, Mode
from burstwatch.core.text import format_count, format_relative_time, format_rounded_duration, format_time
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.pass_report import PassReport, is_urgent, remembered_level, urgency_of

MAX_ROWS: Final = 20
"""More resources than this are shown as far as they matter; the rest is counted."""

MAX_UNREAD_ROWS: Final = 3
"""More resources that could not be read are counted: the error below the table has the cause and names."""

STYLES: Final = {
    Level.EXHAUSTED: "bold white on red",
    Level.CRITICAL: "bold red",
    Level.WARNING: "yellow",
    Level.WATCH: "cyan",
    Level.OK: "green",
    Level.UNKNOWN: "dim",
}
FAULT_STYLE: Final = "magenta"
CHANGING_LABEL: Final = "changing"
CHANGING_STYLE: Final = "cyan"
FIXED_LABEL: Final = "fixed"
"""A volume that its flip moved off burst credits."""
UNWATCHED_LABEL: Final = "unwatched"
"""What has no bucket that can drain: a large gp2 volume, or a resource without burst credits."""

_RECOVERED_PCT: Final = LevelPolicy().exhausted_leave_pct


class Selection(NamedTuple):
    """The rows to show, most urgent first, and notes about the resources that are not among them."""

    rows: Sequence[Row]
    notes: Sequence[str]


def select_rows(reports: Sequence[PassReport], *, shows_all: bool) -> Selection:
    """The resources of one Region or several: all of them, or those that matter if there are very many.

    A row shows the most urgent bucket of its resource. Instances, file systems and databases that have
    nothing to lose have no row.
    """
    pairs = [(decision, report) for report in reports for decision in report.by_resource]
    pairs.sort(key=lambda pair: urgency_of(pair[0]))
    if shows_all:
        return Selection([row_of(*pair) for pair in pairs], [])
    without_credits = [decision for decision, _ in pairs if has_nothing_to_lose(decision)]
    pairs = [pair for pair in pairs if not has_nothing_to_lose(pair[0])]
    read = [pair for pair in pairs if not _is_unread(*pair)]
    unread_notes: list[str] = []
    if len(pairs) - len(read) > MAX_UNREAD_ROWS:
        unread = [decision for decision, report in pairs if _is_unread(decision, report)]
        unread_notes = [f"and {_count(unread)} that could not be read"]
        pairs = read
    if len(pairs) <= MAX_ROWS:
        return Selection([row_of(*pair) for pair in pairs], unread_notes)
    is_important = [is_urgent(decision) or is_flip_active(decision, report) for decision, report in pairs]
    important = list(compress(pairs, is_important))
    others = list(compress(pairs, map(not_, is_important)))
    at_watch = [pair for pair in others if pair[0].level is Level.WATCH]
    hidden = [decision for decision, _ in others if decision.level is not Level.WATCH]
    room = max(0, MAX_ROWS - len(important))
    hidden = [*(decision for decision, _ in at_watch[room:]), *hidden, *without_credits]
    rows = [row_of(*pair) for pair in [*important, *at_watch[:room]]]
    return Selection(rows, [*unread_notes, *_hidden_notes(hidden)])


def has_nothing_to_lose(decision: Decision) -> bool:
    """Whether it is an instance, file system or database without a bucket that can drain."""
    return not isinstance(decision.assessment.resource, Volume) and _rules_out_drain(decision)


def _rules_out_drain(decision: Decision) -> bool:
    reason = decision.assessment.unknown_reason
    return reason is not None and reason.rules_out_drain


def _is_unread(decision: Decision, report: PassReport) -> bool:
    """Whether nothing is known of it but that it could not be read."""
    is_read_failed = decision.assessment.unknown_reason is UnknownReason.READ_FAILED
    return is_read_failed and not is_flip_active(decision, report)


def level_label(decision: Decision) -> str:
    """The level to show; while AWS modifies the volume, and after that, its balance does not count."""
    if decision.is_changing:
        return CHANGING_LABEL
    if _is_fixed(decision):
        return FIXED_LABEL
    return UNWATCHED_LABEL if _rules_out_drain(decision) else str(decision.level)


def describe_depletion(decision: Decision, now_s: float, width: int | None = None) -> str:
    """``in 14 min (18:05), not before 17:58``, or why there is no estimate, in the form that fits ``width``.

    The bound is left out of a calm volume and of one that refills.
    """
    return fit(_depletion_forms(decision, now_s), width)


def row_of(decision: Decision, report: PassReport) -> Row:
    """One resource, by the decision about its most urgent bucket."""
    assessment = decision.assessment
    resource, flip = assessment.resource, describe_flip_status(decision, report)
    is_critical = decision.volume_settings.is_critical
    drain = assessment.forecast.drain_per_s if assessment.forecast else None
    return Row(
        region=report.region,
        kind=resource.resource_type,
        bucket=assessment.kind.name,
        resource_id=resource.resource_id,
        name=partial(_format_name, decision),
        level=level_label(decision),
        style=_level_style(decision),
        is_calm=not (flip or is_critical or is_urgent(decision) or decision.level is Level.WATCH),
        is_alerting=decision.level.is_alerting,
        balance_pct=assessment.balance_pct,
        forecast=partial(describe_depletion, decision, report.now_s),
        flip=flip,
        mode=_mode(decision),
        drain="" if drain is None else _format_drain(assessment, drain),
        baseline=_baseline_cell(assessment),
        size=f"{resource.size_gib:,} GiB" if isinstance(resource, Volume) else type_name_of(resource),
        place=(resource.instance_id or "") if isinstance(resource, Volume) else "",
        flow=partial(_describe_flow, decision),
    )


def _format_drain(assessment: Assessment, drain_per_s: float) -> str:
    """Credits per second, or "" if not known; bytes are too many to be read, so they are in MiB."""
    if not assessment.bucket.is_known:
        return ""
    if assessment.kind.unit != BYTES:
        return f"{drain_per_s:,.0f}".replace("-0", "0")
    rate = format_rate(abs(drain_per_s)).removesuffix("/s")
    return f"-{rate}" if drain_per_s < 0 else rate


def _format_name(decision: Decision, width: int | None) -> str:
    """The resource's display name, on at most this many columns; empty if it has no name."""
    columns = MAX_NAME_CHARS if width is None else min(width, MAX_NAME_CHARS)
    return fit((display_name_of(decision.assessment.resource, columns),), columns)


def _mode(decision: Decision) -> str:
    """The mode where it matters: it is not the usual one, or the volume is tagged critical."""
    settings = decision.volume_settings
    if settings.mode is Mode.PROPOSE and not settings.is_critical:
        return ""
    return f"critical, {settings.mode}" if settings.is_critical else str(settings.mode)


def _depletion_forms(decision: Decision, now_s: float) -> tuple[str, ...]:
    """What to say of the time when it is empty, from the longest form to the shortest."""
    assessment = decision.assessment
    if (reason := assessment.unknown_reason) is not None:
        last_level = remembered_level(decision)
        return (f"{reason.label}; was {last_level}", reason.label) if last_level else (reason.label,)
    assert assessment.forecast is not None
    return _refill_forms(decision) if assessment.forecast.is_refilling else _drain_forms(decision, now_s)


def _drain_forms(decision: Decision, now_s: float) -> tuple[str, ...]:
    """The estimate and the bound of a volume that drains, or may drain."""
    forecast = decision.assessment.forecast
    assert forecast is not None
    soonest_s, empty_s = forecast.soonest_empty_s, forecast.time_to_empty_s
    if soonest_s is None:
        return (UnknownReason.NEVER_EMPTY.label,)
    short: tuple[str, ...] = ()
    if empty_s is None:
        estimate = describe_trend(forecast.drain_per_s)
    elif empty_s <= 0:
        return ("credits exhausted", "exhausted") if decision.is_changing else ("now",)
    else:
        estimate = format_relative_time(now_s + empty_s, now_s)
        short = (f"in {format_rounded_duration(empty_s)}",)
    if decision.level is Level.OK:
        return estimate, *short
    return f"{estimate}, not before {format_time(now_s + soonest_s, now_s)}", estimate, *short


def _refill_forms(decision: Decision) -> tuple[str, ...]:
    """That it refills, and how long that takes at its present rate; of an exhausted one, that it is empty."""
    assessment = decision.assessment
    assert assessment.forecast is not None
    rate = -(assessment.forecast.drain_per_s or 0.0)
    if round(rate) < 1:
        return (describe_trend(assessment.forecast.drain_per_s),)
    bucket, credits_left = assessment.bucket, assessment.credits_left or 0.0
    missing_for_recovery = bucket.credits_in(_RECOVERED_PCT) - credits_left
    if decision.level is Level.EXHAUSTED and missing_for_recovery > 0:
        recovery = f"{_RECOVERED_PCT:g} % in {format_rounded_duration(missing_for_recovery / rate)}"
        return f"empty, refilling ({recovery})", "empty, refilling", "refilling"
    full = format_rounded_duration((bucket.capacity - credits_left) / rate)
    return f"refilling, full in {full}", "refilling"


def _hidden_notes(hidden: Sequence[Decision]) -> list[str]:
    at_watch = [decision for decision in hidden if decision.level is Level.WATCH]
    calm = [decision for decision in hidden if decision.level is Level.OK]
    unwatched = [decision for decision in hidden if decision.assessment.unknown_reason is not None]
    unwatched_reasons = Counter(
        reason.label for decision in unwatched if (reason := decision.assessment.unknown_reason)
    )
    notes = [f"and {len(at_watch):,} more at watch, lowest {_format_lowest(at_watch)}"] if at_watch else []
    notes += [f"and {_count(calm, 'calm ')}, lowest {_format_lowest(calm)}"] if calm else []
    if unwatched_reasons:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in unwatched_reasons.most_common())
        notes.append(f"and {_count(unwatched, 'unwatched ')}: {reasons}")
    return [*notes, "(--all shows everything)"]


def _count(decisions: Sequence[Decision], adjective: str = "") -> str:
    """``12 calm volumes``; ``12 calm resources`` if they are of several kinds."""
    nouns = {decision.assessment.resource.resource_type.noun for decision in decisions}
    return format_count(len(decisions), f"{adjective}{nouns.pop() if len(nouns) == 1 else 'resource'}")


def _format_lowest(decisions: Iterable[Decision]) -> str:
    balances = (decision.assessment.balance_pct for decision in decisions)
    return format_percent(min(pct for pct in balances if pct is not None))


def _describe_flow(decision: Decision, width: int) -> str:
    """``drains 2,100/s, baseline 300``, or what fits ``width``; empty if nothing does.

    A bucket that is not gp2's has the unit of its limit.
    """
    return fit((*_flow_forms(decision), ""), width)


def _flow_forms(decision: Decision) -> tuple[str, ...]:
    assessment: Assessment = decision.assessment
    drain = assessment.forecast.drain_per_s if assessment.forecast else None
    baseline = _baseline_text(assessment)
    if decision.level is Level.EXHAUSTED and not decision.is_changing:
        return (f"throttled to baseline {baseline}", "throttled") if baseline else ("throttled",)
    if drain is None or not round(drain) or not assessment.bucket.is_known:
        return (f"baseline {baseline}" if baseline else "",)
    rate = f"{'drains' if drain > 0 else 'refills'} {_format_drain(assessment, abs(drain))}/s"
    return f"{rate}, baseline {baseline}", rate


def _baseline_cell(assessment: Assessment) -> str:
    """The baseline; empty for a volume whose type has no credits."""
    resource = assessment.resource
    has_none = isinstance(resource, Volume) and assessment.kind is EBS_IO and not resource.is_gp2
    return "" if has_none else _baseline_text(assessment)


def _baseline_text(assessment: Assessment) -> str:
    """A bare number of IOPS for gp2, with its unit for any other bucket; empty if it is not known."""
    if assessment.kind is EBS_IO:
        return f"{assessment.baseline_iops:,}"
    if not assessment.bucket.is_known:
        return ""
    rate = rate_when_empty_per_s(assessment.resource, assessment.bucket)
    return format_limit(rate, assessment.kind.rate_unit)


def _is_fixed(decision: Decision) -> bool:
    """Whether a flip moved the volume off burst credits, and AWS is done with it."""
    resource = decision.assessment.resource
    is_flipped = decision.flip is not None and not decision.is_changing
    return is_flipped and isinstance(resource, Volume) and not can_burst(resource)


def _level_style(decision: Decision) -> str:
    if decision.is_changing:
        return CHANGING_STYLE
    if _is_fixed(decision):
        return STYLES[Level.OK]
    return FAULT_STYLE if decision.assessment.is_fault else STYLES[decision.level]

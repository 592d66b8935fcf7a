"""One bucket with every number behind its level, in words: the same for each kind of resource."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burstctl.cli.text_layout import Topic
from burstctl.render.datapoint_spacing import describe_spacing
from burstctl.render.resource_rows import describe_depletion
from burstwatch.core.alerts.drain_message import format_drain_start
from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.drain_cause import find_drain
from burstwatch.core.assessment.severity import NEAR_EMPTY_FACTOR, SETTLING_TIME, Level, explain_level
from burstwatch.core.buckets.forecast import EXTRAPOLATION_FACTOR, DrainRate, Forecast, describe_trend
from burstwatch.core.buckets.series import PERIOD_S
from burstwatch.core.buckets.units import BYTES, MIB, format_limit
from burstwatch.core.ebs.gp2_bucket import EBS_IO
from burstwatch.core.policy.bucket_policy import policy_of_bucket
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import format_duration, format_relative_time, format_time, rounded_or_none
from burstwatch.core.watch.decision import Decision

if TYPE_CHECKING:
    from documents.explanation import DrainDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketExplanation:
    """A decision about one bucket, made from one look; ``policy`` is that of the whole fleet."""

    decision: Decision
    policy: Policy
    now_s: float

    @property
    def assessment(self) -> Assessment:
        return self.decision.assessment

    @property
    def bucket_policy(self) -> Policy:
        """The policy with the thresholds of this bucket."""
        return policy_of_bucket(self.policy, self.assessment.kind, self.assessment.bucket)

    @property
    def is_in_focus(self) -> bool:
        change = self.decision.change
        return change is not None and change.state is not None and change.state.next_poll_at_s is not None


def forecast_topics(explanation: BucketExplanation, *, verbose: bool) -> list[Topic]:
    """The balance, the bound, the drain and the estimate; nothing without a datapoint."""
    assessment, forecast = explanation.assessment, explanation.assessment.forecast
    if forecast is None:
        return []
    return [
        ("Balance", _describe_balance(explanation)),
        ("Bound", _describe_bound(explanation, forecast)),
        ("Drains", _describe_drains(assessment, forecast) if verbose else []),
        ("Began", _describe_drain_start(explanation, forecast)),
        ("Estimate", _describe_estimate(explanation, forecast)),
    ]


def describe_cause(explanation: BucketExplanation) -> str:
    """Why it is at its level, or why it has none."""
    if explanation.assessment.unknown_reason is not None:
        return describe_unknown(explanation.assessment)
    return explain_level(explanation.assessment, explanation.decision.level, explanation.bucket_policy)


def drain_documents(assessment: Assessment) -> "list[DrainDocument]":
    """The drain over each horizon, as ``--json`` prints it."""
    forecast = assessment.forecast
    if forecast is None:
        return []
    selected = _selected_drain(assessment, forecast)
    return [
        {
            "span_s": drain.duration_s,
            "drain_per_s": round(drain.credits_per_s, 1),
            "empty_in_s": rounded_or_none(_empty_in_s(assessment, drain)),
            "believed_for_s": EXTRAPOLATION_FACTOR * drain.duration_s,
            "counts": _is_within_extrapolation(assessment, drain),
            "speaks": drain is selected,
        }
        for drain in _measured_drains(forecast)
    ]


def describe_unknown(assessment: Assessment) -> str:
    """Why there is no level; the cause of a read that failed is printed below, as an error."""
    assert assessment.unknown_reason is not None
    if assessment.unknown_reason is UnknownReason.READ_FAILED:
        return assessment.unknown_reason.label
    return assessment.unknown_because or assessment.unknown_reason.label


def _describe_balance(explanation: BucketExplanation) -> list[str]:
    assessment = explanation.assessment
    assert assessment.sample is not None
    assert assessment.age_s is not None
    share = (
        f"{assessment.sample.value:.1f} % of {_in_unit(assessment, assessment.bucket.capacity):,.0f} ="
        f" {_in_unit(assessment, _credits_left(assessment)):,.0f} {_unit(assessment)}"
    )
    if not assessment.bucket.is_known:
        share = f"{assessment.sample.value:.1f} %"
    period_s = assessment.kind.period_s
    length = "minute" if period_s == PERIOD_S else f"{period_s // PERIOD_S} minutes"
    period = f"the {length} that ended {format_time(assessment.sample.end_at_s, explanation.now_s)} UTC"
    reading = f"{share}, lowest of {period}, {format_duration(assessment.age_s)} ago"
    spacing = describe_spacing(assessment.spacing_s) if period_s == PERIOD_S else ""
    return [reading, spacing] if spacing else [reading]


def rate_text(assessment: Assessment, rate_per_s: float) -> str:
    """``300 IOPS``, ``4.9 MiB/s``."""
    return format_limit(rate_per_s, assessment.kind.rate_unit)


def _unit(assessment: Assessment) -> str:
    """The unit of amounts: bytes are too small to be read, so they are shown in MiB."""
    if assessment.kind is EBS_IO:
        return "credits"
    return "MiB" if assessment.kind.unit == BYTES else assessment.kind.unit


def _in_unit(assessment: Assessment, amount: float) -> float:
    """An amount, or a rate, in that unit."""
    return amount / MIB if assessment.kind.unit == BYTES else amount


def _describe_bound(explanation: BucketExplanation, forecast: Forecast) -> list[str]:
    assessment = explanation.assessment
    if not forecast.soonest_empty_s:
        return ["none: it may be empty by now"]
    bucket = assessment.bucket
    lasting_s = _credits_left(assessment) / bucket.highest_drain_per_s
    burst, refill = (
        f"{round(_in_unit(assessment, rate), 1):,.10g}" for rate in (bucket.burst_per_s, bucket.refill_per_s)
    )
    credits_left = _in_unit(assessment, _credits_left(assessment))
    worst_case = f"{credits_left:,.0f} / ({burst} - {refill}) = {lasting_s:,.0f} s"
    if not bucket.is_known:
        full_s = bucket.capacity / bucket.highest_drain_per_s
        worst_case = f"{assessment.balance_pct:.1f} % of {full_s:,.0f} s = {lasting_s:,.0f} s"
    deduction = f"less the {assessment.age_s:,.0f} s since the datapoint"
    soonest_at = format_time(explanation.now_s + forecast.soonest_empty_s, explanation.now_s)
    model = ", by AWS's 30-minute rule" if assessment.kind.companion is not None else ""
    return [f"{worst_case}, {deduction}: not empty before {soonest_at} UTC{model}"]


def _describe_drains(assessment: Assessment, forecast: Forecast) -> list[str]:
    """One line to a horizon, and which one is used."""
    selected = _selected_drain(assessment, forecast)
    drains = _measured_drains(forecast)
    lines = [_drain_line(assessment, drain, is_selected=drain is selected) for drain in drains]
    if not lines:
        return ["too few datapoints for any horizon"]
    if selected is None:
        return [*lines, f"{_explain_no_drain(forecast)}, so no drain is used"]
    rule = f"a drain is extrapolated to at most {EXTRAPOLATION_FACTOR} times its duration"
    if forecast.is_within_extrapolation:
        return [*lines, f"{rule}; of those within it, the soonest to empty counts"]
    span = "the longest" if selected is forecast.drain_rates[-1] else "a recent one"
    return [*lines, f"{rule}; none lasted long enough, so {span} is shown and sets no level"]


def _drain_line(assessment: Assessment, drain: DrainRate, *, is_selected: bool) -> str:
    empty_in_s = _empty_in_s(assessment, drain)
    depletion = "not falling" if empty_in_s is None else f"empty in {format_duration(empty_in_s)}"
    rate = round(_in_unit(assessment, drain.credits_per_s), 1 if assessment.kind.unit == BYTES else None) or 0
    span = f"over {drain.duration_s // 60} min"
    if not assessment.bucket.is_known:
        pct_per_hour = 3_600 * 100 * drain.credits_per_s / assessment.bucket.capacity
        return f"{span}: {pct_per_hour:,.1f} %/h, {depletion}{' <-' if is_selected else ''}"
    return f"{span}: {rate:,} {_unit(assessment)}/s, {depletion}{' <-' if is_selected else ''}"


def _explain_no_drain(forecast: Forecast) -> str:
    """Why there is no estimate, in agreement with the drain of each horizon."""
    falling = [drain for drain in forecast.drain_rates if drain.credits_per_s > 0]
    if not falling:
        return "the balance has not fallen over any of these spans"
    level_drain = next(drain for drain in reversed(forecast.drain_rates) if drain.credits_per_s <= 0)
    return f"it falls, but not steadily: over {level_drain.duration_s // 60} min it has not fallen"


def _describe_drain_start(explanation: BucketExplanation, forecast: Forecast) -> list[str]:
    """When the drain began that empties it, or did; nothing if no drain is believed."""
    is_empty = forecast.time_to_empty_s is not None and forecast.time_to_empty_s <= 0
    if not (forecast.is_within_extrapolation or is_empty):
        return []
    balance = explanation.assessment.balance
    return format_drain_start(find_drain(balance, period_s=balance.period_s), now_s=explanation.now_s)


def _describe_estimate(explanation: BucketExplanation, forecast: Forecast) -> list[str]:
    if forecast.time_to_empty_s is None:
        is_falling = (
            any(drain.credits_per_s > 0 for drain in forecast.drain_rates) and not forecast.is_refilling
        )
        if is_falling:
            return [f"none: {_explain_no_drain(forecast)}"]
        trend = (
            describe_depletion(explanation.decision, explanation.now_s)
            if forecast.is_refilling
            else "it is not draining"
            if forecast.drain_rates
            else describe_trend(None)
        )
        return [f"none: {trend}"]
    if forecast.time_to_empty_s <= 0:
        return ["empty now"]
    assert forecast.drain_per_s is not None
    lasting_s = _credits_left(explanation.assessment) / forecast.drain_per_s
    assessment = explanation.assessment
    credits_left = _in_unit(assessment, _credits_left(assessment))
    drain = _in_unit(assessment, forecast.drain_per_s)
    digits = 1 if assessment.kind.unit == BYTES else 0
    division = f"{credits_left:,.0f} / {drain:,.{digits}f} = {lasting_s:,.0f} s"
    if not assessment.bucket.is_known:
        division = f"{lasting_s:,.0f} s at that pace"
    depletion = f"empty {_format_depletion(explanation.now_s, forecast.time_to_empty_s)}"
    earliest, latest = (
        _format_depletion(explanation.now_s, forecast.earliest_s),
        _format_depletion(explanation.now_s, forecast.latest_s),
    )
    bounds = [f"{earliest} by the fastest drain, {latest} by the slowest"] if earliest != latest else []
    caveat = "" if forecast.is_within_extrapolation else "; longer than the drain allows, so it sets no level"
    age_s = explanation.assessment.age_s or 0.0
    limit = ""
    if forecast.soonest_empty_s is not None and lasting_s - age_s < forecast.soonest_empty_s - 1:
        limit = "; it cannot drain that fast, so the bound is used"
    return [f"{division}, less the {age_s:,.0f} s{limit}: {depletion}{caveat}", *bounds]


def _format_depletion(now_s: float, in_s: float | None) -> str:
    return "never" if in_s is None else format_relative_time(now_s + in_s, now_s, "UTC")


def describe_next_levels(explanation: BucketExplanation) -> list[str]:
    """What would make it worse, worst last, and what ends the present level."""
    level, policy = explanation.decision.level, explanation.bucket_policy
    levels, cadence = policy.levels, policy.cadence
    is_sparse = explanation.assessment.kind.period_s > PERIOD_S
    running = "for three datapoints" if is_sparse else "for two minutes"

    def format_setting(duration: Any) -> str:
        return format_duration(duration.total_seconds())

    is_near = f"the bound is {format_setting(cadence.act_lead)} or less"
    within = format_setting(levels.critical_within)
    confirmed = f"when a drain that has lasted twice the time left ends within {within}"
    entry_rules = (
        (Level.WATCH, f"below {cadence.watch_below_pct:g} %"),
        (
            Level.WARNING,
            (
                f"when the estimate is {format_setting(levels.warning_within)} or less, or it drains"
                f" and {is_near}"
            ),
        ),
        (Level.CRITICAL, f"{confirmed}, or {is_near} and so is the estimate over ten minutes"),
        (Level.EXHAUSTED, f"at or below {levels.exhausted_pct:g} %"),
    )
    refilling_for = levels.refilling_for * explanation.assessment.bucket.time_scale
    refill_rule = (
        f"or the balance has not fallen for {format_setting(refilling_for)} (if the bound is"
        f" {format_setting(NEAR_EMPTY_FACTOR * cadence.act_lead)} or less: for"
        f" {format_setting(SETTLING_TIME)})"
    )
    exit_rules = {
        Level.WATCH: f"at {cadence.calm_from_pct:g} % or more, {running}",
        Level.WARNING: f"when the estimate is beyond {format_setting(levels.warning_leave)}, {refill_rule}",
        Level.CRITICAL: f"when the estimate is beyond {format_setting(levels.critical_leave)}, {refill_rule}",
        Level.EXHAUSTED: f"at {levels.exhausted_leave_pct:g} % or more, {running}",
    }
    entries = [
        f"{next_level}: {condition}" for next_level, condition in entry_rules if next_level.rank > level.rank
    ]
    return [*entries, *([f"{level} ends {exit_rules[level]}"] if level in exit_rules else [])]


def describe_look(explanation: BucketExplanation) -> list[str]:
    """How often it is looked at, and how that is computed."""
    interval_s, assessment = explanation.decision.poll_interval_s, explanation.assessment
    cadence = explanation.bucket_policy.cadence
    if interval_s is None:
        return ["not polled while this lasts; its state is seen at every sweep"]
    frequency = f"every {format_duration(interval_s)}"
    if assessment.forecast is None:
        return [f"{frequency} until there is a datapoint"]
    max_drain_per_s = assessment.bucket.highest_drain_per_s
    if explanation.is_in_focus:
        remaining_credits, balance = _credits_left(assessment), f"{assessment.balance_pct:.1f} %"
    else:
        remaining_credits, balance = (
            assessment.bucket.credits_in(cadence.watch_below_pct),
            f"{cadence.watch_below_pct:g} %",
        )
    lasting_s, reserve_s = remaining_credits / max_drain_per_s, cadence.reserve.total_seconds()
    schedule = "in focus" if explanation.is_in_focus else "in the sweep"
    reserve_sentence = f"{frequency}, {schedule}: {balance} lasts {lasting_s:,.0f} s at worst"
    reserve = f"the {reserve_s:,.0f} s reserved for lag, slack and acting"
    if lasting_s <= reserve_s:
        return [f"{reserve_sentence}, no longer than {reserve}, so it is polled as often as possible"]
    return [f"{reserve_sentence}; less {reserve}, {lasting_s - reserve_s:,.0f} s remain"]


def _measured_drains(forecast: Forecast) -> list[DrainRate]:
    return [*([forecast.begun_drain] if forecast.begun_drain else []), *forecast.drain_rates]


def _selected_drain(assessment: Assessment, forecast: Forecast) -> DrainRate | None:
    """The horizon whose drain the forecast took, or the drain that has just begun."""
    if forecast.time_to_empty_s is None or forecast.begun_drain is not None:
        return forecast.begun_drain
    candidates = [drain for drain in forecast.drain_rates if drain.credits_per_s == forecast.drain_per_s]
    return next(
        (drain for drain in candidates if _is_within_extrapolation(assessment, drain)),
        candidates[-1] if candidates else None,
    )


def _empty_in_s(assessment: Assessment, drain: DrainRate) -> float | None:
    return _credits_left(assessment) / drain.credits_per_s if drain.credits_per_s > 0 else None


def _is_within_extrapolation(assessment: Assessment, drain: DrainRate) -> bool:
    empty_in_s = _empty_in_s(assessment, drain)
    return empty_in_s is not None and empty_in_s <= EXTRAPOLATION_FACTOR * drain.duration_s


def _credits_left(assessment: Assessment) -> float:
    assert assessment.credits_left is not None
    return assessment.credits_left

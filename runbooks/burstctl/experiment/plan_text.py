"""The plan of an experiment as text, for a person to confirm."""

from collections.abc import Mapping
from typing import Final

from burstctl.cli.text_layout import Topic, lay_out_topics
from burstctl.experiment.credit_bounds import NOISE_PCT, Bounds
from burstctl.experiment.credit_reset import MIN_RETURN_SPAN_S, Hypothesis, indistinguishable_pairs
from burstctl.experiment.preflight import MODIFICATIONS_NEEDED, Outline, PreflightResult
from burstctl.render.plan_text import format_usd_difference
from burstctl.render.planned_flip import PRICES
from burstctl.render.volume import describe_volume
from burstwatch.core.flips.guards import QUOTA
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.text import format_clock, format_duration, format_usd

MEANT_FOR: Final = "a volume that may lose its burst: it may return with no credits at all"


def render_outline(preflight: PreflightResult, policy: Policy) -> str:
    """What would be done with the volume, what each answer would look like, what it costs, what refuses."""
    plan = preflight.planned.plan
    topics: list[Topic] = [("Only for", [MEANT_FOR]), ("Now", _now(preflight))]
    quickest, expected = preflight.quickest, preflight.expected
    if quickest and expected and plan.target is not None:
        topics += [
            ("Steps", _steps(preflight, quickest, expected)),
            ("Answers", _predictions(quickest.predictions)),
            ("Ambiguous", _ambiguities(expected)),
            ("Cost", _costs(preflight, quickest, expected)),
        ]
    topics.append(("Quota", [_quota(preflight)]))
    topics.append(("Recovery", [_recovery(policy)]))
    topics.append(
        ("Refused", [f"{failure.name}: {failure.reason}" for failure in preflight.preflight_failures])
    )
    return lay_out_topics(describe_volume(preflight.volume), topics)


def _now(preflight: PreflightResult) -> list[str]:
    newest = preflight.newest
    if newest is None:
        return ["CloudWatch has no balance"]
    balance = (
        f"{newest.value:.1f} % of its burst balance in the minute from {format_clock(newest.start_at_s)} UTC"
    )
    return [f"{balance}, {preflight.iops:,.1f} IOPS in the last half hour"]


def _steps(preflight: PreflightResult, quickest: Outline, expected: Outline) -> list[str]:
    plan = preflight.planned.plan
    predictions = quickest.predictions
    stay_step = f"stay for {format_duration(quickest.away_s)}"
    if not predictions[Hypothesis.KEPT].overlaps(predictions[Hypothesis.REFILLED]):
        stay_step += ", long enough to distinguish refilled from kept"
    if expected.away_s > quickest.away_s:
        duration = format_duration(expected.modify_s)
        stay_step += f"; {format_duration(expected.away_s)} if AWS takes {duration} for each way"
    return [
        "put it on hold, so that the watchdog leaves it alone",
        f"{plan.current} -> {plan.target}; AWS takes minutes to hours",
        stay_step,
        f"{plan.target} -> {plan.current}, whatever the result",
        f"{format_duration(MIN_RETURN_SPAN_S)} of datapoints, a report, release",
    ]


def _predictions(predictions: Mapping[Hypothesis, Bounds]) -> list[str]:
    return [
        *(f"{f'{hypothesis}:':<21}{bounds}" for hypothesis, bounds in predictions.items()),
        f"at AWS's quickest, with {NOISE_PCT:g} % for rounding; distinct if they do not overlap",
    ]


def _ambiguities(expected: Outline) -> list[str]:
    pairs = indistinguishable_pairs(expected.predictions)
    if not pairs:
        return []
    ambiguous = [str(hypothesis) for hypothesis in Hypothesis if any(hypothesis in pair for pair in pairs)]
    listed = f"{', '.join(ambiguous[:-1])} and {ambiguous[-1]}"
    condition = f"if AWS takes {format_duration(expected.modify_s)} for each way"
    return [f"{condition}, {listed} may look alike: a smaller volume with a lower balance is surer"]


def _costs(preflight: PreflightResult, quickest: Outline, expected: Outline) -> list[str]:
    plan = preflight.planned.plan
    min_usd, max_usd = preflight.extra_usd(quickest), preflight.extra_usd(expected)
    per_month = (
        f"{format_usd(plan.usd_per_month_now)} -> {format_usd(plan.usd_per_month)} a month while it is away"
    )
    total = f"{format_usd_difference(min_usd)} in all, {format_usd_difference(max_usd)} if AWS is slow"
    return [f"{per_month}: {total}; {PRICES}"]


def _quota(preflight: PreflightResult) -> str:
    used = len(preflight.planned.recent_modifications)
    verb = "is" if used == 1 else "are"
    return (
        f"{used} of AWS's {QUOTA} modifications in 24 h {verb} used; this takes {MODIFICATIONS_NEEDED} and"
        " leaves one for people at least"
    )


def _recovery(policy: Policy) -> str:
    resume = "after Ctrl-C or a crash, the same command resumes it; --abandon returns the volume"
    if policy.mode.highest is Mode.AUTO:
        return f"{resume}; without either, a watch --act returns it when the hold is over"
    return f"{resume}; without either, it is not returned"

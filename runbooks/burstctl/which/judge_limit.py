"""Whether one limit applies now, by the load, the credits and CloudWatch's check of the limit."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from burstctl.which.limit import Limit, LimitKind, LimitState
from burstwatch.core.assessment.assess import Assessment, UnknownReason
from burstwatch.core.assessment.resource_buckets import rate_when_empty_per_s
from burstwatch.core.buckets.forecast import describe_trend
from burstwatch.core.buckets.series import Series
from burstwatch.core.buckets.units import format_limit
from burstwatch.core.text import format_duration, format_time
from burstwatch.core.watch.witness import capacity_sentences, capitalise, limits_sentences, reset_sentences

AT_LIMIT_SHARE: Final = 0.95
"""A judgement: a load of this share of its limit is at it. Sums of a minute hide the bursts within it."""


BELOW_BASELINE_SHARE: Final = 0.9
"""A judgement: an empty bucket does not hold back a load below this share of its baseline."""


_FALLEN_LIMIT_FACTOR: Final = 1.5
"""A judgement: a load above a limit by this was served before the limit fell, as EFS does without credits."""


_RECENT_S: Final = 5 * 60
"""What counts as now: the newest five minutes of data."""


MAX_VOLUME_AGE_S: Final = 10 * 60
"""Older minutes say nothing about now; twice the usual lag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The highest rate of the newest five minutes, and how long ago they ended; why it is unknown."""

    rate: float | None = None
    age_s: float = 0.0
    why_unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What the limits of one resource share: ``unused`` says why no process can use it."""

    resource_id: str
    now_s: float
    exhausted_pct: float
    max_age_s: float
    unused: str | None


def measure_load(sums: Series, scope: Scope, load_error: str | None) -> Load:
    """The load now, by the sums of each period; ``load_error`` says why they could not be read."""
    if scope.unused is not None or load_error is not None:
        return Load(why_unknown=load_error or "")
    closed = sums.closed_by(scope.now_s)
    newest = closed.newest
    if newest is None or scope.now_s - newest.end_at_s > scope.max_age_s:
        return Load(
            why_unknown=f"CloudWatch has no load of it in the last {format_duration(scope.max_age_s)}"
        )
    recent = closed.since(newest.end_at_s - max(_RECENT_S, closed.period_s))
    return Load(rate=max(recent.values) / closed.period_s, age_s=max(0.0, scope.now_s - newest.end_at_s))


def has_no_credits(assessment: Assessment | None, scope: Scope) -> bool:
    """Whether a known balance is at the exhausted level."""
    balance_pct = assessment.balance_pct if assessment else None
    return balance_pct is not None and balance_pct <= scope.exhausted_pct


def judge_credits(
    kind: LimitKind,
    assessment: Assessment,
    load: Load,
    exceeded: Series | None,
    scope: Scope,
    *,
    baseline: float | None,
    proof: str | None,
    unit: str | None = None,
) -> Limit:
    """Credits; ``baseline`` is what applies without them, and ``proof`` says why they cannot run out.

    ``exceeded`` is CloudWatch's check of the limit, None if it has none. ``unit`` is that of the baseline
    and the load, if it is not that of the bucket.
    """
    unit = unit or assessment.kind.rate_unit
    limit = Limit(
        kind=kind,
        resource_id=scope.resource_id,
        state=LimitState.NO,
        unit=unit,
        limit=baseline,
        use=load.rate,
        credits=assessment.kind.credits,
    )
    if scope.unused is not None:
        return replace(limit, evidence=(capitalise(scope.unused),))
    if proof is not None:
        return replace(limit, state=LimitState.NEVER, evidence=(capitalise(proof),))
    if assessment.unknown_reason is not None:
        return replace(limit, state=LimitState.UNKNOWN, evidence=(_why_unread(assessment),))
    limit = _with_balance(limit, assessment)
    if baseline is None:
        return _judge_unknown_limit(limit, assessment, scope)
    if has_no_credits(assessment, scope):
        return _judge_used_credits(limit, assessment, load, exceeded, scope)
    return _judge_credits_left(limit, assessment, load, scope)


def _with_balance(limit: Limit, assessment: Assessment) -> Limit:
    # An assessment without a reason has these.
    assert assessment.sample is not None
    assert assessment.forecast is not None
    return replace(
        limit,
        balance_pct=assessment.sample.value,
        datapoint_age_s=assessment.age_s,
        time_to_empty_s=assessment.forecast.time_to_empty_s,
        soonest_empty_s=assessment.forecast.soonest_empty_s,
    )


def _judge_unknown_limit(limit: Limit, assessment: Assessment, scope: Scope) -> Limit:
    """Credits of a type whose limits are not known: the balance shows when they are used up."""
    is_empty = has_no_credits(assessment, scope)
    balance, unknown = _describe_balance(assessment, scope), limits_sentences(assessment)
    trend = () if is_empty else _trend(limit, assessment, scope)
    state = LimitState.NOW if is_empty else limit.state
    return replace(limit, state=state, is_empty=is_empty, evidence=(balance, *trend, *unknown))


def _judge_credits_left(limit: Limit, assessment: Assessment, load: Load, scope: Scope) -> Limit:
    """Credits that do not apply now, and when they are used up."""
    assert assessment.forecast is not None
    baseline = limit.limit
    assert baseline is not None
    has_trend = assessment.forecast.time_to_empty_s is not None or assessment.forecast.drain_per_s is not None
    if not has_trend and load.rate is not None and load.rate > baseline > 0:
        limit = replace(limit, time_to_empty_s=_empty_by_load_s(assessment, load.rate / baseline))
    evidence = (
        _describe_balance(assessment, scope),
        *_trend(limit, assessment, scope),
        *capacity_sentences(assessment),
        *reset_sentences(assessment, scope.now_s),
        *_load_evidence(load, baseline, limit.unit, "baseline"),
    )
    return replace(limit, evidence=evidence)


def _judge_used_credits(
    limit: Limit, assessment: Assessment, load: Load, exceeded: Series | None, scope: Scope
) -> Limit:
    """Credits that are used up: their baseline applies now, unless the load is well below it."""
    assert limit.limit is not None
    minutes_above = _minutes_above(exceeded, scope)
    is_below = load.rate is not None and load.rate < BELOW_BASELINE_SHARE * limit.limit
    is_now = not is_below or bool(minutes_above)
    effect = f"A load above {format_limit(limit.limit, limit.unit)} would be held to it at once"
    return replace(
        limit,
        state=LimitState.NOW if is_now else limit.state,
        is_empty=True,
        time_to_empty_s=0.0,
        evidence=(
            _describe_balance(assessment, scope),
            *_load_evidence(load, limit.limit, limit.unit, "baseline"),
            *(_check_evidence(exceeded, minutes_above) if is_now else (effect,)),
        ),
    )


def _describe_balance(assessment: Assessment, scope: Scope) -> str:
    assert assessment.sample is not None
    assert assessment.age_s is not None
    sampled_at = format_time(assessment.sample.end_at_s, scope.now_s)
    return (
        f"{assessment.kind.metric} was {assessment.sample.value:.1f} % at {sampled_at} UTC,"
        f" {format_duration(assessment.age_s)} ago"
    )


def _empty_by_load_s(assessment: Assessment, load_share: float) -> float:
    """Seconds until its credits are used up by a load of ``load_share`` times what is left without them.

    Example: 2,160,000 credits are left of a volume of 100 GiB that serves 840 IOPS, 2.8 times its baseline of
    300: 2,160,000 / (840 - 300) = 4,000 s.
    """
    bucket, forecast = assessment.bucket, assessment.forecast
    assert assessment.credits_left is not None
    assert forecast is not None
    load_per_s = load_share * rate_when_empty_per_s(assessment.resource, bucket)
    empty_s = assessment.credits_left / (load_per_s - bucket.refill_per_s)
    return max(empty_s, forecast.soonest_empty_s or 0.0)


def _why_unread(assessment: Assessment) -> str:
    """Why a balance is unknown; the cause of a failed read is reported once, beside the answer."""
    reason = assessment.unknown_reason
    if reason in (None, UnknownReason.READ_FAILED):
        return "It could not be read"
    return capitalise(assessment.unknown_because or reason.description)


def _trend(limit: Limit, assessment: Assessment, scope: Scope) -> Iterator[str]:
    """When credits are used up: by the estimate, by the bound, or not."""
    bound = ""
    if limit.soonest_empty_s is not None:
        bound = format_time(scope.now_s + limit.soonest_empty_s, scope.now_s)
    forecast = assessment.forecast
    assert forecast is not None
    if limit.time_to_empty_s is not None:
        empty_at = format_time(scope.now_s + limit.time_to_empty_s, scope.now_s)
        has_estimate = forecast.time_to_empty_s is not None
        basis = "By the drain that was measured" if has_estimate else "No trend yet: by its present load"
        yield f"{basis} it is empty at about {empty_at} UTC"
    elif bound:
        trend = describe_trend(forecast.drain_per_s)
        yield capitalise(trend) if trend.startswith("no ") else f"It is {trend}"
    if bound:
        model = ", if it holds what AWS's rules imply" if assessment.bucket.is_inferred else ""
        yield f"No load can empty it before {bound} UTC{model}"


def judge_rate(
    kind: LimitKind,
    most: float | None,
    load: Load,
    exceeded: Series | None,
    scope: Scope,
    *,
    is_empty: bool,
    proof: str | None,
    no_limit: str,
) -> Limit:
    """A limit of IOPS or MiB/s that does not change.

    ``is_empty``: credits are used up, so their baseline applies before it. ``proof`` says why the load cannot
    reach it, and ``no_limit`` why there is no ``most``.
    """
    unit = "MiB/s" if kind.value.endswith("throughput") else "IOPS"
    unit = "%" if kind is LimitKind.FILE_SYSTEM_IO else unit
    limit = Limit(
        kind=kind, resource_id=scope.resource_id, state=LimitState.NO, unit=unit, limit=most, use=load.rate
    )
    if scope.unused is not None:
        return replace(limit, evidence=(capitalise(scope.unused),))
    if most is None:
        return replace(limit, state=LimitState.UNKNOWN, evidence=(capitalise(no_limit),))
    minutes_above = _minutes_above(exceeded, scope)
    evidence = (*_load_evidence(load, most, unit, "limit"), *_check_evidence(exceeded, minutes_above))
    # CloudWatch's check sees the bursts within a minute, which the sums hide: a load below the limit that the
    # check did not see exceed it is not held back.
    share = 1 if minutes_above == 0 else AT_LIMIT_SHARE
    is_at_limit = load.rate is not None and load.rate >= share * most
    if is_at_limit or (minutes_above and not is_empty):
        return replace(limit, state=LimitState.NOW, evidence=evidence)
    if proof is not None:
        return replace(limit, state=LimitState.NEVER, evidence=(capitalise(proof),))
    if is_empty:
        evidence = (*evidence, "Its credits are used up, so their baseline applies before this limit")
    elif load.rate is None and minutes_above is None:
        return replace(limit, state=LimitState.UNKNOWN, evidence=evidence)
    return replace(limit, evidence=evidence)


def _minutes_above(exceeded: Series | None, scope: Scope) -> int | None:
    """In how many of the newest five minutes CloudWatch's check was 1; None without recent datapoints."""
    if exceeded is None:
        return None
    closed = exceeded.closed_by(scope.now_s)
    newest = closed.newest
    if newest is None or scope.now_s - newest.end_at_s > MAX_VOLUME_AGE_S:
        return None
    return sum(value > 0 for value in closed.since(newest.end_at_s - _RECENT_S).values)


def _load_evidence(load: Load, most: float, unit: str, name: str) -> tuple[str, ...]:
    if load.rate is None:
        return (f"Its load is not known: {load.why_unknown}",)
    share = f"{100 * load.rate / most:.0f} % of its {name} of {format_limit(most, unit)}" if most else ""
    if name == "limit" and load.rate > _FALLEN_LIMIT_FACTOR * most:
        share = f"its limit is {format_limit(most, unit)} now, and was higher then"
    served = f"up to {format_limit(load.rate, unit)}" if load.rate else "nothing"
    served = f"It {'used' if unit == '%' else 'served'} {served} in the last 5 min of data"
    return (f"{served}, {format_duration(load.age_s)} old: {share}",)


def _check_evidence(exceeded: Series | None, minutes_above: int | None) -> tuple[str, ...]:
    if exceeded is None:
        return ()
    if minutes_above is None:
        return ("CloudWatch's check of this limit has no recent datapoint",)
    if not minutes_above:
        return ("CloudWatch's check: the limit was not exceeded in the last 5 min",)
    return (f"CloudWatch's check: the limit was exceeded in {minutes_above} of the last 5 min",)

"""What happened to a gp2 volume's balance while it had another type: the answers that fit its datapoints.

AWS does not document it. A volume leaves gp2 at ``left_at_s``, reaches its target at ``arrived_at_s``, begins
its return at ``return_started_at_s`` and is gp2 again at ``returned_at_s``. For each answer, the bounds of
the credits are calculated (``credit_bounds``). An answer fits while every datapoint is within its bounds:

- Before it leaves and after its return, the volume behaves as gp2.
- During each modification it may behave as gp2 for none, some or all of the time.
- On the target, ``kept`` changes nothing and ``refilled`` earns the baseline; after ``reset`` the bucket is
  full on return, after ``emptied`` it is empty.

The true answer always fits, so if only one of the four fits, it is true. If its bounds overlap those of
another answer, there is no conclusion.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from math import inf
from typing import Final, Literal

from burstctl.experiment.credit_bounds import (
    ANY_CREDITS,
    BURST_ONLY,
    BURST_OR_IDLE,
    FULL_CREDITS,
    MAX_PERIOD_S,
    REFILL_ONLY,
    Bounds,
    BucketModel,
    ConstantLoad,
    MeasuredLoad,
    Segments,
    burst_model,
    burst_or_idle_model,
    metric_period_s,
)
from burstwatch.core.buckets.series import PERIOD_S, Sample, Series
from burstwatch.core.durations import HOUR_S, MINUTE_S
from burstwatch.core.ebs.volume import CREDITS_PER_PCT, baseline_iops
from burstwatch.core.text import format_duration, format_instant

MAX_START_BALANCE_PCT: Final = 80.0
"""Above it, a bucket that refills is full too soon to be distinguished from one that is reset."""

MIN_AWAY_S: Final = 15 * 60  # CloudWatch publishes the last balance before the change some minutes late
MAX_AWAY_S: Final = 12 * HOUR_S  # enough for the smallest volumes to earn 80 % of a bucket
LOOKBACK_S: Final = 30 * 60
"""How much of the balance before the volume leaves is used."""

MIN_RETURN_SPAN_S: Final = 15 * 60
"""How much of the balance after the return is needed."""

UNCLEAR: Final = "unclear"

_MIN_DATAPOINTS: Final = 3  # two could be of one period; see also MIN_RETURN_SPAN_S


class Hypothesis(StrEnum):
    """What may have happened to the balance."""

    KEPT = "kept"
    REFILLED = "refilled while away"
    RESET = "reset"
    EMPTIED = "emptied"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrip:
    """A volume's way from gp2 and back, as far as it has come; instants are seconds since the epoch.

    ``balance`` is BurstBalance as it was published; ``operations`` are reads plus writes, for each period in
    which both are known.
    """

    size_gib: int
    left_at_s: float
    arrived_at_s: float | None = None
    return_started_at_s: float | None = None
    returned_at_s: float | None = None
    balance: Series = Series()
    operations: Series = Series()

    def __post_init__(self) -> None:
        instants = [
            at
            for at in (self.left_at_s, self.arrived_at_s, self.return_started_at_s, self.returned_at_s)
            if at is not None
        ]
        if instants != sorted(instants):
            raise ValueError(
                f"the times of the round trip are {instants}; each must be at or after the one before"
            )

    @property
    def period_s(self) -> int:
        """The period of the balance's datapoints, in seconds."""
        return metric_period_s(self.balance, MAX_PERIOD_S)

    @property
    def bucket(self) -> BucketModel:
        return BucketModel(
            size_gib=self.size_gib, spending=MeasuredLoad(self.operations), period_s=self.period_s
        )

    @property
    def after_return(self) -> Series:
        """The datapoints whose period began when it surely was gp2 again."""
        return Series() if self.returned_at_s is None else self.balance.since(self.returned_at_s)

    @property
    def has_enough_datapoints(self) -> bool:
        """Whether there are datapoints enough after the return to judge by."""
        samples = self.after_return
        if len(samples) < _MIN_DATAPOINTS:
            return False
        return samples.starts_at_s[-1] + self.period_s - samples.starts_at_s[0] >= MIN_RETURN_SPAN_S

    def samples_between(self, start_s: float, end_s: float) -> list[Sample]:
        """The datapoints whose whole period is between two moments."""
        samples = self.balance.since(start_s)
        return [sample for sample in samples if sample.start_at_s + self.period_s <= end_s]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetVerdict:
    """What the datapoints show; ``hypothesis`` is None if they do not decide.

    ``consistent`` are the answers that no datapoint contradicts. ``predictions`` are the bounds, in per cent,
    that each of the four sets for the ``first_sample`` after the return.
    """

    hypothesis: Hypothesis | None
    reasoning: Sequence[str]
    consistent: Sequence[Hypothesis] = ()
    predictions: Mapping[Hypothesis, Bounds] | None = None
    first_sample: Sample | None = None

    @property
    def conclusion(self) -> Hypothesis | Literal["unclear"]:
        """One word or two: an answer, or ``unclear``."""
        return self.hypothesis or UNCLEAR


def reach_verdict(round_trip: RoundTrip) -> ResetVerdict:
    """The answer that fits the datapoints, if only one does."""
    before, on_arrival = credits_before(round_trip), credits_on_arrival(round_trip)
    if before is None or on_arrival is None:
        return _inconclusive(
            "The balance before it left does not follow from its operations, so nothing after it would."
        )
    if (
        round_trip.return_started_at_s is None
        or round_trip.returned_at_s is None
        or not round_trip.has_enough_datapoints
    ):
        return _inconclusive(
            f"{len(round_trip.after_return)} datapoints from after the return are there, and at least"
            f" {_MIN_DATAPOINTS} over {format_duration(MIN_RETURN_SPAN_S)} are wanted."
        )
    after = round_trip.after_return
    if round_trip.bucket.track(ANY_CREDITS, after.starts_at_s[0], after, BURST_ONLY) is None:
        return _inconclusive(
            f"The {len(after)} datapoints from {format_instant(after.starts_at_s[0])} on do not follow from"
            " each other and the operations between them."
        )
    return _compare_hypotheses(_CompletedTrip.from_round_trip(round_trip, on_arrival), before)


def credits_before(round_trip: RoundTrip) -> Bounds | None:
    """The credits when it left, from the half hour before; None if its datapoints contradict each other."""
    samples = round_trip.samples_between(round_trip.left_at_s - LOOKBACK_S, round_trip.left_at_s)
    if not samples:
        return ANY_CREDITS
    return round_trip.bucket.track(
        ANY_CREDITS, samples[0].start_at_s, samples, BURST_ONLY, to_s=round_trip.left_at_s
    )


def credits_on_arrival(round_trip: RoundTrip) -> Bounds | None:
    """The credits when it reached its target; None if the earlier datapoints contradict each other.

    Datapoints during the modification count, unless no gp2 bucket can have had such a balance.
    """
    before, left_at_s, arrived_at_s = (
        credits_before(round_trip),
        round_trip.left_at_s,
        round_trip.arrived_at_s,
    )
    if before is None or arrived_at_s is None:
        return before
    samples, bucket = round_trip.samples_between(left_at_s, arrived_at_s), round_trip.bucket
    tracked = bucket.track(before, left_at_s, samples, BURST_OR_IDLE, to_s=arrived_at_s)
    return tracked or bucket.advance(before, left_at_s, arrived_at_s, BURST_OR_IDLE)


def predict_on_target(balance_pct: float, *, size_gib: int, iops: float, modify_s: float = 0.0) -> Bounds:
    """The credits on the target, from the balance now, the load, and the modification's duration."""
    bucket = BucketModel(size_gib=size_gib, spending=ConstantLoad(iops))
    sample = Sample(start_at_s=0, value=balance_pct)
    at_departure = bucket.track(ANY_CREDITS, 0, [sample], BURST_ONLY)
    return bucket.advance(at_departure or ANY_CREDITS, PERIOD_S, PERIOD_S + modify_s, BURST_OR_IDLE)


def predict_after_return(
    on_arrival: Bounds, *, size_gib: int, iops: float, away_s: float, modify_s: float = 0.0
) -> dict[Hypothesis, Bounds]:
    """What each answer will let the first datapoint after the return be, in per cent.

    With the credits ``on_arrival``, a constant load of ``iops``, the time away, and ``modify_s`` for the
    return.
    """
    bucket = BucketModel(size_gib=size_gib, spending=ConstantLoad(iops))
    start_bounds = _bounds_at_return(on_arrival, bucket, 0, away_s)
    returned_at_s = away_s + modify_s
    return {
        hypothesis: bucket.predict_sample(
            bucket.advance(bounds, away_s, returned_at_s, BURST_OR_IDLE), returned_at_s
        )
        for hypothesis, bounds in start_bounds.items()
    }


def min_away_s(on_arrival: Bounds, *, size_gib: int, iops: float, modify_s: float = 0.0) -> int | None:
    """The least whole minutes away that distinguish refilled from kept; None: no duration does."""

    def is_distinguishable(away_s: int) -> bool:
        predictions = predict_after_return(
            on_arrival, size_gib=size_gib, iops=iops, away_s=away_s, modify_s=modify_s
        )
        return not predictions[Hypothesis.KEPT].overlaps(predictions[Hypothesis.REFILLED])

    choices = range(MIN_AWAY_S, MAX_AWAY_S + 1, MINUTE_S)
    index = bisect_left(choices, True, key=is_distinguishable)
    return choices[index] if index < len(choices) else None


def indistinguishable_pairs(predictions: Mapping[Hypothesis, Bounds]) -> list[tuple[Hypothesis, Hypothesis]]:
    """The pairs of answers that cannot be distinguished."""
    return [
        (first, second)
        for first, second in combinations(predictions, 2)
        if predictions[first].overlaps(predictions[second])
    ]


def pct_per_minute(size_gib: int) -> float:
    """What the bucket of an idle gp2 earns in a minute, in per cent."""
    return baseline_iops(size_gib) * MINUTE_S / CREDITS_PER_PCT


def _inconclusive(reason: str) -> ResetVerdict:
    return ResetVerdict(hypothesis=None, reasoning=[reason])


def _bounds_at_return(
    on_arrival: Bounds, bucket: BucketModel, arrived_at_s: float, return_started_at_s: float
) -> dict[Hypothesis, Bounds]:
    """What the bucket holds when it begins to come back, by each answer."""
    return {
        Hypothesis.KEPT: on_arrival,
        Hypothesis.REFILLED: bucket.advance(on_arrival, arrived_at_s, return_started_at_s, REFILL_ONLY),
        Hypothesis.RESET: Bounds(FULL_CREDITS, FULL_CREDITS),
        Hypothesis.EMPTIED: Bounds(0.0, 0.0),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _CompletedTrip:
    """A journey that is over.

    ``start_bounds`` has what each answer puts into the bucket at ``return_started_at_s``.
    """

    round_trip: RoundTrip
    bucket: BucketModel
    return_started_at_s: float
    segments: Segments
    start_bounds: Mapping[Hypothesis, Bounds]

    @classmethod
    def from_round_trip(cls, round_trip: RoundTrip, on_arrival: Bounds) -> "_CompletedTrip":
        assert round_trip.arrived_at_s is not None
        assert round_trip.return_started_at_s is not None
        assert round_trip.returned_at_s is not None
        bucket = round_trip.bucket
        return cls(
            round_trip=round_trip,
            bucket=bucket,
            return_started_at_s=round_trip.return_started_at_s,
            segments=((round_trip.returned_at_s, burst_or_idle_model), (inf, burst_model)),
            start_bounds=_bounds_at_return(
                on_arrival, bucket, round_trip.arrived_at_s, round_trip.return_started_at_s
            ),
        )

    def consistent_hypotheses(self, samples: Sequence[Sample]) -> list[Hypothesis]:
        """The answers that none of these datapoints contradicts."""
        return [
            hypothesis
            for hypothesis, bounds in self.start_bounds.items()
            if self.bucket.track(bounds, self.return_started_at_s, samples, self.segments) is not None
        ]

    def predictions_at(self, sample: Sample) -> dict[Hypothesis, Bounds]:
        """What each answer lets this datapoint be."""
        bounds_at_sample = {
            hypothesis: self.bucket.advance(
                bounds, self.return_started_at_s, sample.start_at_s, self.segments
            )
            for hypothesis, bounds in self.start_bounds.items()
        }
        return {
            hypothesis: self.bucket.predict_sample(bounds, sample.start_at_s)
            for hypothesis, bounds in bounds_at_sample.items()
        }


def _compare_hypotheses(trip: _CompletedTrip, before: Bounds) -> ResetVerdict:
    """Compare from the first datapoint of the return on, or after it if those show no bucket."""
    samples = list(trip.round_trip.balance.since(trip.return_started_at_s))
    consistent = trip.consistent_hypotheses(samples)
    if not consistent:
        samples = list(trip.round_trip.after_return)
        consistent = trip.consistent_hypotheses(samples)
    first_sample = samples[0]
    predictions = trip.predictions_at(first_sample)
    overlapping = [
        hypothesis
        for hypothesis in predictions
        if len(consistent) == 1
        and hypothesis != consistent[0]
        and predictions[hypothesis].overlaps(predictions[consistent[0]])
    ]
    is_clear = len(consistent) == 1 and not overlapping
    summary = f"Only {consistent[0]} fits, all {len(samples)} datapoints from then on." if is_clear else ""
    return ResetVerdict(
        hypothesis=consistent[0] if is_clear else None,
        reasoning=[
            *_explain_arithmetic(trip, before, first_sample, predictions),
            summary or _explain_unclear(consistent, overlapping),
        ],
        consistent=consistent,
        predictions=predictions,
        first_sample=first_sample,
    )


def _explain_arithmetic(
    trip: _CompletedTrip, before: Bounds, first_sample: Sample, predictions: Mapping[Hypothesis, Bounds]
) -> list[str]:
    round_trip = trip.round_trip
    assert round_trip.arrived_at_s is not None
    assert round_trip.returned_at_s is not None
    away_s, rate = trip.return_started_at_s - round_trip.arrived_at_s, pct_per_minute(round_trip.size_gib)
    answers = "; ".join(f"{hypothesis}, {bounds}" for hypothesis, bounds in predictions.items())
    in_transit = (
        f"{format_duration(round_trip.arrived_at_s - round_trip.left_at_s)} to change its type and"
        f" {format_duration(round_trip.returned_at_s - trip.return_started_at_s)} to return, during which it"
        " may have behaved as gp2"
    )
    earnings = (
        f"{round_trip.size_gib:,} GiB earn {baseline_iops(round_trip.size_gib):,} credits a second,"
        f" {rate:.3f} % a minute: refilling while away adds {rate * away_s / MINUTE_S:.1f} % while nothing"
        " is served"
    )
    observation = f"The datapoint of {format_instant(first_sample.start_at_s)} is {first_sample.value:.2f} %"
    return [
        f"The bucket held {before.in_pct()} when it left, at {format_instant(round_trip.left_at_s)}.",
        f"It was away for {format_duration(away_s)}, with {in_transit}.",
        f"{earnings}.",
        f"{observation}. Allowed are: {answers}.",
    ]


def _explain_unclear(consistent: Sequence[Hypothesis], overlapping: Sequence[Hypothesis]) -> str:
    if overlapping:
        alternatives = " and ".join(overlapping)
        return (
            f"Only {consistent[0]} fits, but its range overlaps the range of {alternatives}:"
            " the answer is not certain."
        )
    if not consistent:
        return "None of the four fits: the balance changed in another way, or someone intervened."
    excluded = " or ".join(hypothesis for hypothesis in Hypothesis if hypothesis not in consistent)
    exclusion = f"; it was not {excluded}" if excluded else ""
    return f"It was {' or '.join(consistent)}, which cannot be distinguished{exclusion}."

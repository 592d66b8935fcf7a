"""Whether an experiment with a volume is allowed, and whether it can be conclusive."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from burstctl.context.context import CommandContext
from burstctl.context.on_demand_pass import assess_volumes
from burstctl.experiment.credit_bounds import NOISE_PCT, Bounds
from burstctl.experiment.credit_reset import (
    LOOKBACK_S,
    MAX_AWAY_S,
    MAX_START_BALANCE_PCT,
    MIN_AWAY_S,
    MIN_RETURN_SPAN_S,
    Hypothesis,
    RoundTrip,
    credits_before,
    indistinguishable_pairs,
    min_away_s,
    pct_per_minute,
    predict_after_return,
    predict_on_target,
)
from burstctl.experiment.datapoints import Datapoints, read_datapoints
from burstctl.flip.select import FlipSelection, plan_request
from burstctl.render.planned_flip import PlannedFlip
from burstwatch.core.buckets.series import PERIOD_S, Sample
from burstwatch.core.durations import DAY_S, HOUR_S
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import TargetOverride
from burstwatch.core.ebs.volume import Volume, can_burst
from burstwatch.core.errors import BurstwatchError, Problem
from burstwatch.core.flips.guards import QUOTA
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.policy.policy import QuotaRule
from burstwatch.core.policy.windows import expected_flip_duration
from burstwatch.core.tag_keys import IGNORE
from burstwatch.core.text import format_duration, format_instant
from burstwatch.core.watch.decision import Decision
from burstwatch.core.watch.window_status import WindowSchedule

MODIFICATIONS_NEEDED: Final = 2
"""One to the target and one back. A third must remain for people."""

_MAX_DATAPOINT_AGE_S: Final = 600  # Two datapoints at five minutes: the balance is current.
_SLACK_S: Final = 1800  # For late datapoints, late ticks and a slow modification.
_SIX_HOURS_S: Final = 6 * HOUR_S  # The older rule of AWS: one modification in six hours.


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRequest:
    """What a person requested."""

    volume_id: str
    target: VolumeType = VolumeType.IO1
    min_away: timedelta | None = None
    report: Path | None = None
    includes_volume_id: bool = False
    dry_run: bool = False
    assumes_yes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightFailure:
    """Why the experiment is not made."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """How it would go: away for ``away_s``, with ``modify_s`` for each way; what each answer would show."""

    away_s: int
    modify_s: int
    predictions: Mapping[Hypothesis, Bounds]

    @property
    def duration_s(self) -> int:
        """From the first modification to the last datapoint that is needed."""
        return self.away_s + 2 * self.modify_s + MIN_RETURN_SPAN_S + _SLACK_S


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightResult:
    """A volume and the experiment with it: at AWS's ``quickest``, and as ``expected`` with by the policy.

    Both are None if the volume's balance is unknown.
    """

    read_at_s: float
    planned: PlannedFlip
    decision: Decision
    datapoints: Datapoints
    newest: Sample | None
    iops: float
    quickest: Outline | None
    expected: Outline | None
    preflight_failures: Sequence[PreflightFailure]

    @property
    def volume(self) -> Volume:
        return self.planned.plan.context.volume

    def extra_usd(self, outline: Outline) -> float:
        """What it adds to the bill: AWS bills the new type from the moment a modification to it begins."""
        billed = timedelta(seconds=outline.away_s + outline.modify_s)
        return self.planned.price.difference_usd_over(billed)


def run_preflight(context: CommandContext, request: ExperimentRequest) -> PreflightResult:
    """Read everything about the volume, and find what speaks against the experiment.

    Raises:
        BurstwatchError: the volume does not exist, or could not be read.
    """
    services, now_s = context.services, context.services.clock()
    report = assess_volumes(services, [request.volume_id], now_s=now_s)
    if report.missing:
        region = services.location.region
        raise BurstwatchError(
            f"no volume {request.volume_id} in {region}",
            fix="check the ID, the Region and the account",
        )
    if report.ignored:
        raise BurstwatchError(
            f"{request.volume_id} is tagged {IGNORE}, so it is not watched",
            fix="remove the tag, or use another volume",
        )
    batch = plan_request(
        context,
        FlipSelection(
            direction=Direction.FLIP,
            names=[request.volume_id],
            target_override=TargetOverride(volume_type=request.target),
        ),
    )
    if not (report.decisions and batch.planned):
        problem = Problem.of(next(iter([*report.failures, *batch.failures]), "EC2 does not describe it"))
        raise BurstwatchError(
            f"{request.volume_id} could not be read: {problem.cause}",
            fix=problem.fix or "check the ID, the Region and the account",
        )
    [planned], [decision] = batch.planned, report.decisions
    datapoints = read_datapoints(services, request.volume_id, now_s - LOOKBACK_S - PERIOD_S, now_s)
    operations = datapoints.operations.values
    preflight = _Preflight(
        context=context,
        request=request,
        planned=planned,
        decision=decision,
        datapoints=datapoints,
        now_s=now_s,
        iops=sum(operations) / (len(operations) * PERIOD_S) if operations else 0.0,
    )
    return preflight.result()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Preflight:
    """Everything that was read about one volume."""

    context: CommandContext
    request: ExperimentRequest
    planned: PlannedFlip
    decision: Decision
    datapoints: Datapoints
    now_s: float
    iops: float

    @property
    def volume(self) -> Volume:
        return self.planned.plan.context.volume

    @property
    def newest(self) -> Sample | None:
        return self.datapoints.balance.newest

    def result(self) -> PreflightResult:
        quickest = expected = None
        if self.newest is not None and can_burst(self.volume):
            expected_modify_s = int(
                expected_flip_duration(
                    self.volume.size_gib, self.context.services.policy.lead
                ).total_seconds()
            )
            quickest, expected = self._outline(self.newest, 0), self._outline(self.newest, expected_modify_s)
        return PreflightResult(
            read_at_s=self.now_s,
            planned=self.planned,
            decision=self.decision,
            datapoints=self.datapoints,
            newest=self.newest,
            iops=self.iops,
            quickest=quickest,
            expected=expected,
            preflight_failures=list(self._failures(quickest, expected)),
        )

    def _outline(self, newest: Sample, modify_s: int) -> Outline:
        size_gib, iops = self.volume.size_gib, self.iops
        on_arrival = predict_on_target(newest.value, size_gib=size_gib, iops=iops, modify_s=modify_s)
        needed_s = min_away_s(on_arrival, size_gib=size_gib, iops=iops, modify_s=modify_s)
        away_s = max(needed_s or 0, self._min_away_s())
        predictions = predict_after_return(
            on_arrival, size_gib=size_gib, iops=iops, away_s=away_s, modify_s=modify_s
        )
        return Outline(away_s=away_s, modify_s=modify_s, predictions=predictions)

    def _min_away_s(self) -> int:
        """The requested duration, or the one that AWS's older rule requires between two modifications."""
        requested_s = int(self.request.min_away.total_seconds()) if self.request.min_away else 0
        has_six_hour_rule = self.context.services.policy.flip.quota_rule is QuotaRule.SIX_HOURS
        return max(requested_s, _SIX_HOURS_S if has_six_hour_rule else 0, MIN_AWAY_S)

    def _failures(self, quickest: Outline | None, expected: Outline | None) -> Iterator[PreflightFailure]:
        state = self.planned.plan.context.state
        if state.flip is not None:
            reason = f"it is flipped already, to {state.flip.target}, requested by {state.flip.by}"
            yield PreflightFailure(
                name="flipped", reason=f"{reason}: burstctl flip-back {self.volume.volume_id}"
            )
            return
        for refusal in self.planned.plan.refusals:
            ends = "" if refusal.ends_at_s is None else f"; it ends {format_instant(refusal.ends_at_s)}"
            yield PreflightFailure(name=str(refusal.guard), reason=f"{refusal.reason}{ends}")
        yield from self._risk_failures(expected)
        yield from self._quota_failures()
        if not can_burst(self.volume):
            reason = f"this is a {self.volume.volume_type} of {self.volume.size_gib:,} GiB"
            yield PreflightFailure(name="no_balance", reason=f"{reason}: take a gp2 below 1,000 GiB")
            return
        yield from self._telemetry_failures()
        if self.newest is not None and quickest is not None:
            yield from self._balance_failures(self.newest, quickest)

    def _risk_failures(self, expected: Outline | None) -> Iterator[PreflightFailure]:
        """What would be hurt by a volume without its burst."""
        state, decision = self.planned.plan.context.state, self.decision
        if decision.volume_settings.is_critical:
            yield PreflightFailure(
                name="critical", reason="it is tagged critical: use a less important volume"
            )
        if state.modifications.contested_at_s is not None:
            reason = f"someone else changed it, seen {format_instant(state.modifications.contested_at_s)}"
            yield PreflightFailure(
                name="changed_by_others", reason=f"{reason}: burstctl release, when that is resolved"
            )
        alert_level = state.alerts.open_level or (decision.level if decision.level.is_alerting else None)
        if alert_level is not None:
            reason = f"it has an open alert, {alert_level}: {decision.reason}"
            yield PreflightFailure(name="alert", reason=reason)
        overrides = self.context.services.ledger.manual_overrides().values()
        windows = WindowSchedule.at(self.now_s, self.context.services.policy, overrides).status_for(
            self.volume
        )
        if windows is None:
            return
        ends_s = self.now_s + (expected.duration_s if expected else 0)
        overlapping = [
            occurrence for occurrence in windows.upcoming if occurrence.interval.start_at.timestamp() < ends_s
        ]
        for occurrence in (*windows.running, *overlapping):
            verb = "runs" if occurrence in windows.running else "starts before the experiment would be over"
            yield PreflightFailure(name="window", reason=f"its window {occurrence.window} {verb}")

    def _quota_failures(self) -> Iterator[PreflightFailure]:
        modifications = self.planned.recent_modifications
        if len(modifications) <= QUOTA - MODIFICATIONS_NEEDED - 1:
            return
        reason = (
            f"{len(modifications)} of AWS's {QUOTA} modifications in 24 h are used; it takes"
            f" {MODIFICATIONS_NEEDED}, and one is reserved for manual use"
        )
        free_at_s = modifications[-(QUOTA - MODIFICATIONS_NEEDED - 1) - 1].at_s + DAY_S
        yield PreflightFailure(name="quota_reserve", reason=f"{reason}; it ends {format_instant(free_at_s)}")

    def _telemetry_failures(self) -> Iterator[PreflightFailure]:
        newest, assessment = self.newest, self.decision.assessment
        if newest is None or self.now_s - newest.end_at_s > _MAX_DATAPOINT_AGE_S:
            cause = assessment.unknown_because or assessment.unknown_reason or "CloudWatch is behind"
            description = (
                "no datapoint" if newest is None else f"none since {format_instant(newest.end_at_s)}"
            )
            yield PreflightFailure(name="no_data", reason=f"there is {description} of its balance: {cause}")
            return
        round_trip = RoundTrip(
            size_gib=self.volume.size_gib,
            left_at_s=self.now_s,
            balance=self.datapoints.balance,
            operations=self.datapoints.operations,
        )
        if credits_before(round_trip) is None:
            reason = (
                "in the last half hour its balance did not change as its operations imply, so their cost"
                " after the return could not be computed: use a quieter volume"
            )
            yield PreflightFailure(name="unsteady", reason=reason)

    def _balance_failures(self, newest: Sample, quickest: Outline) -> Iterator[PreflightFailure]:
        if newest.value > MAX_START_BALANCE_PCT:
            reason = (
                f"its balance is {newest.value:.1f} %, above {MAX_START_BALANCE_PCT:g} %: refilled and reset"
                " would look alike; drain it first"
            )
            yield PreflightFailure(name="balance_too_high", reason=reason)
            return
        predictions = quickest.predictions
        for first, second in indistinguishable_pairs(predictions):
            reason = (
                f"{first} ({predictions[first]}) and {second} ({predictions[second]}) cannot be distinguished"
                f" after {format_duration(quickest.away_s)} away: {_advice(second, self.volume.size_gib)}"
            )
            yield PreflightFailure(name="would_not_tell", reason=reason)


def _advice(hypothesis: Hypothesis, size_gib: int) -> str:
    rate = pct_per_minute(size_gib)
    if hypothesis is Hypothesis.EMPTIED:
        return f"let it refill first, at {rate:.2f} % a minute"
    if hypothesis is Hypothesis.RESET:
        return (
            f"its size earns {rate:.2f} % a minute: start with a lower balance, stay shorter, or"
            " use a smaller volume"
        )
    return f"with datapoints good to {NOISE_PCT:g} % that takes more than {format_duration(MAX_AWAY_S)} here"

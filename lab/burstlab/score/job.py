"""Scores one fleet: every contender on the same cases, judged by what happens without any action."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from burstlab.model.fleet import LabSettings
from burstlab.model.minute_history import MINUTE_S
from burstlab.score.baselines import (
    BASELINES,
    Baseline,
    PublishedBalance,
    find_alarm_spans,
    find_fleet_alarm_spans,
)
from burstlab.score.burstwatch_runner import policy_for_scoring, policy_polling_every_minute, run_watchdog
from burstlab.score.cases import Case
from burstlab.score.ground_truth import Depletion, GroundTruth, simulate_unattended
from burstlab.score.metric_delay import MetricDelay
from burstlab.score.oracle import plan_with_foresight
from burstlab.score.record import AcceptedModification, AlertStart, CaseRecord, is_free, usd_over_gp2
from burstlab.score.replay import choose_configuration, peak_served_before, replay
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.policy.policy import Policy

NO_ACTION: Final = "nothing"
ORACLE: Final = "oracle"
BURSTWATCH: Final = "burstwatch"
TARGETS: Final = (VolumeType.GP3, VolumeType.IO1)
_POLL_S: Final = 300  # what the benchmark compares with: polling every five minutes
_CALM_PCT: Final = 95.0  # the policy's watch_below


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Cases of one fleet; ``queued``: demand that is not served waits instead of being lost."""

    cases: Sequence[Case]
    policy: Policy
    metric_delay: MetricDelay
    queued: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DepletionScore:
    """One depletion and a contender's alert; ``lead_s`` is None if no alert was active before it.

    ``is_in_focus`` and ``minute_lead_s`` (of the same decision every minute) are for burstwatch only.
    """

    is_from_high: bool
    lead_s: int | None
    is_in_focus: bool | None = None
    minute_lead_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The result of one contender on one case; without a ``target`` it only alerts.

    Of the ``needless_flips``, ``needless_free_flips`` are to what costs no more than gp2.
    """

    contender: str
    target: VolumeType | None
    stalled_s: float = 0.0
    flips: int = 0
    needless_flips: int = 0
    needless_free_flips: int = 0
    modifications: int = 0
    usd: float = 0.0
    watching_usd: float = 0.0
    criticals: int = 0
    needless_criticals: int = 0
    depletion_scores: Sequence[DepletionScore] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """A case with every contender's tally; ``is_calm``: without help it never falls below 95 %."""

    folder: str
    name: str
    scale: float
    size_gib: int
    shape: str
    queued: bool
    days: float
    stalled_s: float
    is_calm: bool
    polling_usd: float
    tallies: Sequence[Tally] = field(default_factory=list)


def score_job(job: Job) -> list[CaseOutcome]:
    """Let every contender play on these cases."""
    settings = job.metric_delay.settings(queued=job.queued)
    ground_truths = {case.volume_id: simulate_unattended(case, settings) for case in job.cases}
    tallies: dict[str, list[Tally]] = {case.volume_id: [] for case in job.cases}
    _score_baselines(job, ground_truths, settings, tallies)
    _score_oracle(job, ground_truths, settings, tallies)
    _score_burstwatch(job, ground_truths, settings, tallies)
    return [
        _make_outcome(job, case, ground_truths[case.volume_id], tallies[case.volume_id]) for case in job.cases
    ]


def _score_burstwatch(
    job: Job, ground_truths: Mapping[str, GroundTruth], settings: LabSettings, tallies: dict[str, list[Tally]]
) -> None:
    policy = policy_for_scoring(job.policy, VolumeType.GP3)
    alert_records = run_watchdog(job.cases, policy, settings, job.metric_delay, is_flipping=False)
    depleting_cases = [case for case in job.cases if ground_truths[case.volume_id].depletions]
    minute_records = run_watchdog(
        depleting_cases, policy_polling_every_minute(policy), settings, job.metric_delay, is_flipping=False
    )
    act_lead_s = int(job.policy.cadence.act_lead.total_seconds())
    for case in job.cases:
        ground_truth, record = ground_truths[case.volume_id], alert_records[case.volume_id]
        minute_record = minute_records.get(case.volume_id)
        depletion_scores = [
            DepletionScore(
                is_from_high=depletion.is_from_high,
                lead_s=find_lead_s(depletion, record.alert_spans),
                is_in_focus=_is_covered(record.focus_spans, depletion.empty_at_s - act_lead_s),
                minute_lead_s=find_lead_s(depletion, minute_record.alert_spans) if minute_record else None,
            )
            for depletion in ground_truth.depletions
        ]
        tallies[case.volume_id].append(_tally_alerts(BURSTWATCH, ground_truth, record, depletion_scores))
    alerted_cases = [case for case in job.cases if alert_records[case.volume_id].alert_spans]
    for target in TARGETS:
        # A volume that never reached warning is polled and judged alike, whether it may be flipped or not
        action_records = run_watchdog(
            alerted_cases,
            policy_for_scoring(job.policy, target),
            settings,
            job.metric_delay,
            is_flipping=True,
        )
        for case in job.cases:
            record = action_records.get(case.volume_id) or alert_records[case.volume_id]
            tallies[case.volume_id].append(
                _tally_modifications(BURSTWATCH, target, case, ground_truths[case.volume_id], record)
            )


def _score_oracle(
    job: Job, ground_truths: Mapping[str, GroundTruth], settings: LabSettings, tallies: dict[str, list[Tally]]
) -> None:
    for case in job.cases:
        ground_truth = ground_truths[case.volume_id]
        for target in TARGETS:
            record = plan_with_foresight(case, ground_truth, target, settings)
            tallies[case.volume_id].append(_tally_modifications(ORACLE, target, case, ground_truth, record))


def _score_baselines(
    job: Job, ground_truths: Mapping[str, GroundTruth], settings: LabSettings, tallies: dict[str, list[Tally]]
) -> None:
    balances = {
        case.volume_id: PublishedBalance(case, ground_truths[case.volume_id], job.metric_delay)
        for case in job.cases
    }
    for baseline in BASELINES:
        fleet_spans = (
            find_fleet_alarm_spans(baseline, balances, job.cases, job.metric_delay)
            if baseline.is_fleet_wide
            else None
        )
        for case in job.cases:
            volume_id = case.volume_id
            spans = (
                fleet_spans[volume_id]
                if fleet_spans
                else find_alarm_spans(baseline, case, balances[volume_id], job.metric_delay)
            )
            usd = baseline.watching_usd(case.duration_s) / (len(job.cases) if baseline.is_fleet_wide else 1)
            record = CaseRecord(
                stalled_s=ground_truths[volume_id].stalled_s,
                alerts=[AlertStart(alarm_at_s, is_critical=True) for alarm_at_s, _ in spans],
                alert_spans=spans,
                watching_usd=usd,
            )
            tallies[volume_id] += _baseline_tallies(
                baseline, case, ground_truths[volume_id], record, settings
            )


def _baseline_tallies(
    baseline: Baseline, case: Case, ground_truth: GroundTruth, record: CaseRecord, settings: LabSettings
) -> list[Tally]:
    depletion_scores = [
        DepletionScore(is_from_high=depletion.is_from_high, lead_s=find_lead_s(depletion, record.alert_spans))
        for depletion in ground_truth.depletions
    ]
    tallies = [_tally_alerts(baseline.name, ground_truth, record, depletion_scores)]
    for target in TARGETS:
        action_record = CaseRecord(stalled_s=ground_truth.stalled_s, watching_usd=record.watching_usd)
        if record.alerts:
            at_s = record.alerts[0].at_s
            configuration = choose_configuration(case, peak_served_before(ground_truth, at_s), target)
            stalled_s, modifications = replay(case, [AcceptedModification(at_s, configuration)], settings)
            action_record = CaseRecord(
                stalled_s=stalled_s, modifications=modifications, watching_usd=record.watching_usd
            )
        tallies.append(_tally_modifications(baseline.name, target, case, ground_truth, action_record))
    return tallies


def _tally_alerts(
    name: str, ground_truth: GroundTruth, record: CaseRecord, depletion_scores: Sequence[DepletionScore]
) -> Tally:
    critical_alerts = [alert for alert in record.alerts if alert.is_critical]
    return Tally(
        contender=name,
        target=None,
        stalled_s=ground_truth.stalled_s,
        watching_usd=record.watching_usd,
        criticals=len(critical_alerts),
        needless_criticals=sum(not ground_truth.is_empty_within(alert.at_s) for alert in critical_alerts),
        depletion_scores=depletion_scores,
    )


def _tally_modifications(
    name: str, target: VolumeType, case: Case, ground_truth: GroundTruth, record: CaseRecord
) -> Tally:
    needless_flips = [flip for flip in record.flips if not ground_truth.is_empty_within(flip.at_s)]
    return Tally(
        contender=name,
        target=target,
        stalled_s=record.stalled_s,
        flips=len(record.flips),
        needless_flips=len(needless_flips),
        needless_free_flips=sum(is_free(case, flip) for flip in needless_flips),
        modifications=len(record.modifications),
        usd=usd_over_gp2(case, record.modifications),
        watching_usd=record.watching_usd,
    )


def _make_outcome(job: Job, case: Case, ground_truth: GroundTruth, tallies: Sequence[Tally]) -> CaseOutcome:
    return CaseOutcome(
        folder=case.folder,
        name=case.recorded.name,
        scale=case.scale,
        size_gib=case.size_gib,
        shape=str(case.shape),
        queued=job.queued,
        days=case.duration_s / 86_400,
        stalled_s=ground_truth.stalled_s,
        is_calm=min(ground_truth.minima[: case.duration_s // MINUTE_S]) >= _CALM_PCT,
        polling_usd=case.duration_s / _POLL_S * 0.01 / 1000,
        tallies=tallies,
    )


def find_lead_s(depletion: Depletion, alert_spans: Sequence[tuple[int, int]]) -> int | None:
    """How long before the depletion the active alert began, or the last one since the drain began."""
    alert_starts_s = [
        start_s
        for start_s, end_s in alert_spans
        if start_s <= depletion.empty_at_s
        and (end_s >= depletion.empty_at_s or start_s >= depletion.drain_started_at_s)
    ]
    return depletion.empty_at_s - alert_starts_s[-1] if alert_starts_s else None


def _is_covered(spans: Sequence[tuple[int, int]], at_s: int) -> bool:
    return any(start_s <= at_s <= end_s for start_s, end_s in spans)

"""The real watchdog on recorded load: every tick of it, in simulated time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from burstlab.fake_aws.in_process_clients import InProcessCloudWatch
from burstlab.harness.world import PASS_DELAY_S, build_services
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.minute_history import MINUTE_S
from burstlab.score.cases import Case
from burstlab.score.ground_truth import START_S, make_fleet
from burstlab.score.metric_delay import MetricDelay
from burstlab.score.record import METRIC_USD, AlertStart, CaseRecord, SpanRecorder, accepted_modifications
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.alerts.alert import Alert, AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.policy.policy import CadencePolicy, Policy
from burstwatch.core.watch.decision import Decision
from burstwatch.engine.tick_pass import run_tick

_NO_LIMIT: Final = 10**6  # never reached
_DEPLETION_ALERTS: Final = (AlertKind.DRAINING, AlertKind.EXHAUSTED)


@dataclass(slots=True)
class _VolumeRecorder:
    """What was seen of one volume so far."""

    level: Level = Level.OK
    alerts: list[AlertStart] = field(default_factory=list)
    alert_spans: SpanRecorder = field(default_factory=SpanRecorder)
    focus_spans: SpanRecorder = field(default_factory=SpanRecorder)


def policy_for_scoring(policy: Policy, target: VolumeType) -> Policy:
    """The policy with this target and without the caps of a fleet, as each case stands for one volume."""
    flip = replace(policy.flip, target=target, fleet_cap=_NO_LIMIT, spend_cap_usd=float(_NO_LIMIT))
    return replace(policy, flip=flip)


def policy_polling_every_minute(policy: Policy) -> Policy:
    """The same policy, but every volume is polled every minute."""
    minute = timedelta(minutes=1)
    cadence: CadencePolicy = replace(
        policy.cadence, sweep_tick=minute, sweep_at_most=minute, focus_at_most=minute
    )
    return replace(policy, cadence=cadence)


def run_watchdog(
    cases: Sequence[Case],
    policy: Policy,
    settings: LabSettings,
    metric_delay: MetricDelay,
    *,
    is_flipping: bool,
    report_progress: Callable[[int], None] = lambda _minutes: None,
) -> dict[str, CaseRecord]:
    """Let the watchdog look after these volumes from tick to tick, each until its recording ends."""
    fleet = make_fleet(cases, settings)
    metric_delay.add_gaps(fleet)
    reader = InProcessCloudWatch(fleet)
    services = build_services(fleet, SqliteLedger.in_memory(), policy, cloudwatch=reader)
    if not is_flipping:
        services = replace(services, modifier=None)
    recorders = {case.volume_id: _VolumeRecorder() for case in cases}
    remaining = sorted(cases, key=lambda case: case.duration_s, reverse=True)
    records: dict[str, CaseRecord] = {}
    tick_s = START_S
    while remaining:
        while remaining and START_S + remaining[-1].duration_s <= tick_s:
            case = remaining.pop()
            records[case.volume_id] = _finish_case(
                fleet, case, recorders.pop(case.volume_id), reader.billed_metrics[case.volume_id]
            )
        fleet.clock.advance(tick_s + PASS_DELAY_S - fleet.now_s())
        report = run_tick(services, tick_at_s=tick_s, now_s=fleet.clock.now_s())
        assert report is not None
        assert not report.internal_errors, report.internal_errors
        for decision in report.decisions:
            if (recorder := recorders.get(decision.volume_id)) is not None:
                _record_decision(recorder, decision, fleet.now_s())
        tick_s += MINUTE_S
        report_progress(len(remaining))
    return records


def _record_decision(recorder: _VolumeRecorder, decision: Decision, now_s: int) -> None:
    if decision.change is not None:
        state = decision.change.state
        recorder.focus_spans.set(now_s, is_on=state is not None and state.next_poll_at_s is not None)
    if decision.level is not Level.UNKNOWN:
        recorder.alert_spans.set(now_s, is_on=decision.level.is_alerting)
    for alert in decision.alerts:
        if (
            alert.kind in _DEPLETION_ALERTS
            and not alert.is_reminder
            and alert.level.rank > recorder.level.rank
        ):
            recorder.alerts.append(
                AlertStart(now_s, is_critical=_is_critical(alert) and not _was_critical(recorder))
            )
    if decision.level is not Level.UNKNOWN:
        recorder.level = decision.level


def _is_critical(alert: Alert) -> bool:
    return alert.level.rank >= Level.CRITICAL.rank


def _was_critical(recorder: _VolumeRecorder) -> bool:
    return recorder.level.rank >= Level.CRITICAL.rank


def _finish_case(fleet: LabFleet, case: Case, recorder: _VolumeRecorder, metrics: int) -> CaseRecord:
    end_s = START_S + case.duration_s
    volume = fleet.get(case.volume_id)
    assert volume is not None
    volume.catch_up(end_s)
    record = CaseRecord(
        stalled_s=volume.truth().stalled_s,
        modifications=accepted_modifications(volume.modifications),
        alerts=recorder.alerts,
        alert_spans=recorder.alert_spans.close(end_s),
        focus_spans=recorder.focus_spans.close(end_s),
        watching_usd=metrics * METRIC_USD,
    )
    fleet.clock.advance(max(0, end_s - fleet.now_s()))
    fleet.remove(case.volume_id)
    return record

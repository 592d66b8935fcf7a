"""The real watchdog on recorded load: every tick of it, in simulated time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from burstlab.fake_aws.in_process_clients import InProcessCloudWatch, InProcessEc2
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.minute_history import MINUTE_S
from burstlab.score.cases import Case
from burstlab.score.ground_truth import START_S, fleet_of
from burstlab.score.metric_delay import Weather
from burstlab.score.record import METRIC_USD, Call, Record, Spans, moves_of
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.alerts.alert import Alert, AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.location import Place
from burstwatch.core.policy.policy import CadencePolicy, Policy
from burstwatch.core.watch.decide import Decision
from burstwatch.engine.services import Shell
from burstwatch.engine.watch_pass import run_tick

if TYPE_CHECKING:
    from burstwatch.adapters.aws.cloudwatch import CloudWatchReader

_TICK_TAKES_S: Final = 2
_WITHOUT_END: Final = 10**6
_ABOUT_DRYING_UP: Final = (AlertKind.DRAINING, AlertKind.EXHAUSTED)


@dataclass(slots=True)
class _Notes:
    """What was seen of one volume so far."""

    level: Level = Level.OK
    calls: list[Call] = field(default_factory=list)
    standing: Spans = field(default_factory=Spans)
    focus: Spans = field(default_factory=Spans)


def for_scoring(policy: Policy, target: VolumeType) -> Policy:
    """The policy with this target, and without the caps of a fleet: each case is a volume by itself."""
    flip = replace(policy.flip, target=target, fleet_cap=_WITHOUT_END, spend_cap_usd=float(_WITHOUT_END))
    return replace(policy, flip=flip)


def every_minute(policy: Policy) -> Policy:
    """The same judgement by a watcher who looks at every volume every minute."""
    minute = timedelta(minutes=1)
    cadence: CadencePolicy = replace(
        policy.cadence, sweep_tick=minute, sweep_at_most=minute, focus_at_most=minute
    )
    return replace(policy, cadence=cadence)


def watch(
    cases: Sequence[Case],
    policy: Policy,
    settings: LabSettings,
    weather: Weather,
    *,
    flips: bool,
    report_progress: Callable[[int], None] = lambda _minutes: None,
) -> dict[str, Record]:
    """Let the watchdog look after these volumes from tick to tick, each until its recording ends."""
    fleet = fleet_of(cases, settings)
    weather.spoil(fleet)
    reader = InProcessCloudWatch(fleet)
    shell = _shell(fleet, reader, policy, flips=flips)
    notes = {case.volume_id: _Notes() for case in cases}
    leaving = sorted(cases, key=lambda case: case.seconds, reverse=True)
    records: dict[str, Record] = {}
    tick_s = START_S
    while leaving:
        while leaving and START_S + leaving[-1].seconds <= tick_s:
            case = leaving.pop()
            records[case.volume_id] = _close(
                fleet, case, notes.pop(case.volume_id), reader.asked[case.volume_id]
            )
        fleet.clock.advance(tick_s + _TICK_TAKES_S - fleet.now_s())
        report = run_tick(shell, tick_s=tick_s, now_s=fleet.clock.now_s())
        assert report is not None
        assert not report.bugs, report.bugs
        for decision in report.decisions:
            if (known := notes.get(decision.volume_id)) is not None:
                _note(known, decision, fleet.now_s())
        tick_s += MINUTE_S
        report_progress(len(leaving))
    return records


def _shell(fleet: LabFleet, reader: InProcessCloudWatch, policy: Policy, *, flips: bool) -> Shell:
    ec2 = cast("Any", InProcessEc2(fleet))
    return Shell(
        ec2=Ec2Reader(ec2),
        cloudwatch=cast("CloudWatchReader", reader),
        ledger=SqliteLedger.in_memory(),
        calls=CallCounter(),
        policy=policy,
        place=Place(region=fleet.settings.region),
        modifier=Ec2Modifier(ec2) if flips else None,
    )


def _note(known: _Notes, decision: Decision, now_s: int) -> None:
    if decision.change is not None:
        state = decision.change.state
        known.focus.set(now_s, on=state is not None and state.next_look_at_s is not None)
    if decision.level is not Level.UNKNOWN:
        known.standing.set(now_s, on=decision.level.is_alerting)
    for alert in decision.alerts:
        if alert.kind in _ABOUT_DRYING_UP and not alert.is_reminder and alert.level.rank > known.level.rank:
            known.calls.append(Call(now_s, is_critical=_is_critical(alert) and not _is_critical_at(known)))
    if decision.level is not Level.UNKNOWN:
        known.level = decision.level


def _is_critical(alert: Alert) -> bool:
    return alert.level.rank >= Level.CRITICAL.rank


def _is_critical_at(known: _Notes) -> bool:
    return known.level.rank >= Level.CRITICAL.rank


def _close(fleet: LabFleet, case: Case, known: _Notes, metrics: int) -> Record:
    end_s = START_S + case.seconds
    volume = fleet.get(case.volume_id)
    assert volume is not None
    volume.catch_up(end_s)
    record = Record(
        stalled_s=volume.truth().stalled_s,
        moves=moves_of(volume.modifications),
        calls=known.calls,
        standing=known.standing.closed(end_s),
        focus=known.focus.closed(end_s),
        watching_usd=metrics * METRIC_USD,
    )
    fleet.clock.advance(max(0, end_s - fleet.now_s()))
    fleet.remove(case.volume_id)
    return record

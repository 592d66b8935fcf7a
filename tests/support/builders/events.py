"""Alerts about flips and windows, one of each kind, made by the core; texts from outside can be chosen."""

from dataclasses import replace

from burstwatch.core.alerts.alert import Alert, AlertKind
from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.demand import Demand
from burstwatch.core.ebs.pricing import Configuration
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.flip_plan import FlipContext, FlipOrder, FlipPlan
from burstwatch.core.flips.planning import make_plan
from burstwatch.core.flips.reconciliation.observed_state import ObservedState
from burstwatch.core.flips.record_intent import record_intent
from burstwatch.core.flips.record_outcome import record_accepted, record_rejected, refused_event
from burstwatch.core.flips.refusal import Guard, Refusal
from burstwatch.core.flips.transition import Event, Transition, to_alert
from burstwatch.core.flips.volume_context import VolumeContext
from burstwatch.core.ledger.flip_state import WATCHDOG, Direction, FlipCause, FlipStatus
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.policy.volume_tags import VolumeSettings
from burstwatch.core.policy.windows import WindowPhase, WindowState
from burstwatch.core.watch.decide import decide
from burstwatch.core.watch.decision import TickContext
from burstwatch.core.watch.window_status import announce_windows
from support.builders.core_values import (
    GP2,
    IO1,
    a_flip,
    a_modification,
    a_state,
    a_volume_as,
    a_window_state,
    an_assessment,
    at,
    draining_to,
    volume_settings,
)

VOLUME_ID = "vol-0123456789abcdef0"
PLACE = AwsLocation(region="us-east-1", account="123456789012")
POLICY = Policy.from_mapping(
    {"version": "1", "alerts": {"runbooks_url": "https://wiki.example.com/runbooks"}}
)
NOON_S = int(at("12:00"))
REASON = "critical: at this pace it is empty within 15 min"
REVERTED = a_modification(IO1, GP2, started="11:40")
DENIED = (
    "ec2:ModifyVolume failed (UnauthorizedOperation): arn:aws:sts::123456789012:assumed-role/burstwatch/flip"
    " may not call ec2:ModifyVolume on arn:aws:ec2:us-east-1:123456789012:volume/vol-0123456789abcdef0;"
    " grant ec2:ModifyVolume to it, or use credentials that have it."
)


def event_alerts(
    *,
    name: str = "ci-7",
    by: str = WATCHDOG,
    because: str = REASON,
    reason: str = "everything is on hold by anna: change freeze",
    error_text: str = "an internal error of EBS",
    window: str = "nightly",
) -> dict[AlertKind, Alert]:
    """An alert of each kind about a flip or a window; the volume has 18 % and loses 3 % a minute."""
    gp2, io1 = a_named_volume(GP2, name), a_named_volume(IO1, name)
    intent, plan = an_intent(gp2, reason=because, by=by)
    refusal = Refusal(guard=Guard.HELD, reason=reason, ends_at_s=at("18:00"), release="--all")
    soon = a_window_state(WindowPhase.LEADING, "12:30", "20:00", missed_min=25, window=window)
    alerts = [
        alert_of(
            record_accepted(
                intent,
                a_modification(state="modifying", started="12:00"),
                NOON_S,
                lead=POLICY.lead,
                time_to_empty_s=13 * 60,
            ),
            gp2,
        ),
        return_from_io1(io1, by=by),
        alert_for_event(state_of(), refused_event(plan, refusal), gp2),
        *alert_after_evaluation(
            gp2, state_of(modifying(by)), observed=observed(gp2, "optimizing", progress_pct=40)
        ),
        *alert_after_evaluation(
            gp2, state_of(modifying(by)), observed=observed(gp2, "failed", status_message=error_text)
        ),
        *alert_after_evaluation(
            gp2, state_of(on_target(by)), observed=ObservedState(volume=gp2, record=REVERTED)
        ),
        left_on_target_alert(io1, by=by),
        *alert_after_evaluation(gp2, state_of(), volume_settings(Mode.PROPOSE, is_critical=True)),
        *alert_after_evaluation(gp2, state_of(), windows=soon),
        window_alert({VOLUME_ID: soon}),
        host_stall_alert(gp2, error_text),
    ]
    return {alert.kind: alert for alert in alerts if "summary" in alert.evidence}


def a_named_volume(configuration: Configuration, name: str = "ci-7") -> Volume:
    return a_volume_as(
        configuration,
        volume_id=VOLUME_ID,
        instance_id="i-0fedcba9876543210",
        device="/dev/xvda",
        tags={"Name": name},
    )


def state_of(flip=None, **changes) -> ResourceState:
    known = {"volume_id": VOLUME_ID, "revision": NOON_S - 60, "level": Level.CRITICAL, "flip": flip}
    return a_state(**(known | changes))


def modifying(by: str = WATCHDOG):
    """A flip to io1 that AWS began at eight."""
    return a_flip(status=FlipStatus.IN_PROGRESS, target=IO1, by=by, started_at_s=int(at("08:00")))


def on_target(by: str = WATCHDOG):
    """On io1 for two days, for $65 a month more: 730 / 24 days have $2.14 each."""
    return a_flip(target=IO1, by=by, reached_at_s=NOON_S - 48 * 3_600, usd_per_month=65.0)


def observed(volume: Volume, state: str, **record) -> ObservedState:
    return ObservedState(
        volume=volume, record=a_modification(GP2, IO1, state=state, started="08:00", **record)
    )


def an_intent(volume: Volume, **order) -> tuple[ResourceState, FlipPlan]:
    """The state of a volume being modified to gp3, before AWS has answered."""
    wanted = {
        "volume_id": VOLUME_ID,
        "direction": Direction.FLIP,
        "cause": FlipCause.DRAINING,
        "reason": REASON,
    }
    facts = FlipContext(volume=volume, volume_settings=volume_settings(), state=state_of(), now_s=NOON_S)
    plan = make_plan(FlipOrder(**(wanted | {"demand": Demand(peak_iops=2_500)} | order)), facts, POLICY)
    state = record_intent(plan, NOON_S, NOON_S).state
    return state, plan


def alert_of(transition: Transition, volume: Volume) -> Alert:
    """The alert of a transition with one event."""
    [event] = transition.events
    return alert_for_event(transition.state, event, volume)


def alert_for_event(state: ResourceState, event: Event, volume: Volume) -> Alert:
    return to_alert(event, state, volume, policy=POLICY, location=PLACE, now_s=NOON_S)


def return_from_io1(volume: Volume, *, by: str = WATCHDOG) -> Alert:
    order = FlipOrder(
        volume_id=VOLUME_ID,
        direction=Direction.FLIP_BACK,
        cause=FlipCause.DRAINING,
        reason="calm for 30 min",
        by=by,
    )
    facts = FlipContext(
        volume=volume,
        volume_settings=volume_settings(),
        state=state_of(on_target(), level=Level.OK),
        now_s=NOON_S,
    )
    state = record_intent(make_plan(order, facts, POLICY), NOON_S, NOON_S).state
    answer = a_modification(IO1, GP2, state="modifying", started="12:00")
    return alert_of(record_accepted(state, answer, NOON_S, lead=POLICY.lead), volume)


def left_on_target_alert(volume: Volume, *, by: str = WATCHDOG, **state) -> Alert:
    state_on_target = state_of(on_target(by), **({"level": Level.OK} | state))
    reported = alert_after_evaluation(volume, state_on_target, volume_settings(Mode.PROPOSE))
    return next(alert for alert in reported if alert.kind is AlertKind.LEFT_ON_TARGET)


def alert_after_evaluation(
    volume: Volume, state: ResourceState, settings: VolumeSettings | None = None, **around
) -> list[Alert]:
    """The events of one look at noon."""
    decision = decide(
        an_assessment(draining_to(18, 3, count=20), volume=volume),
        state,
        settings or volume_settings(),
        policy=POLICY,
        context=TickContext(now_s=NOON_S, tick_at_s=NOON_S, location=PLACE),
        volume_context=VolumeContext(**around),
    )
    return list(decision.alerts)


def host_stall_alert(volume: Volume, task: str) -> Alert:
    """The bucket is full, and the host says that the volume stands still; it chooses the names of tasks."""
    detail = {
        "schema": "burstwatch.probe/v1",
        "instance_id": "i-0123456789abcdef0",
        "volume_id": VOLUME_ID,
        "verdict": "crit",
        "cause": "io_error",
        "total_s": 8.25,
        "started_at": "2026-11-20T11:58:00Z",
        "top": [{"comm": task, "wchan": task, "count": 3}],
    }
    decision = decide(
        an_assessment(draining_to(100, 0, count=20), volume=volume),
        None,
        volume_settings(),
        policy=POLICY,
        context=TickContext(now_s=NOON_S, tick_at_s=NOON_S, location=PLACE),
        volume_context=VolumeContext(stall=Stall.from_detail(detail, now_s=NOON_S)),
    )
    [alert] = decision.alerts
    return alert


def window_alert(wanted: dict[str, WindowState]) -> Alert:
    [change] = announce_windows(wanted, policy=POLICY, location=PLACE, now_s=NOON_S)
    [alert] = change.alerts
    return alert


def refused_by_aws_alert(
    code: str = "UnauthorizedOperation", message: str = DENIED, *, guard: str | None = None, **answer
) -> Alert:
    """What AWS's refusal of ModifyVolume is made into."""
    volume = a_named_volume(GP2)
    intent, _ = an_intent(volume, **answer.pop("order", {}))
    transition = record_rejected(intent, code, message, NOON_S, guard=guard, **answer)
    after, [event] = transition.state, transition.events
    kind = AlertKind.FLIP_FAILED if guard is None else AlertKind.FLIP_REFUSED
    return alert_for_event(after, replace(event, alert=kind), volume)

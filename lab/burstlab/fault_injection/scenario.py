"""The scenario: volumes drain, are flipped, return or stay, while one is on hold and a host reports a stall.

It continues minute by minute until nothing is open. A run with a fault continues in the same way, and some
minutes longer, in which nothing may happen.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from time import process_time
from typing import Any, Final, NamedTuple

from burstlab.fault_injection.cli_deployment import CliDeployment
from burstlab.fault_injection.deployment import Deployment
from burstlab.fault_injection.effects import InjectedFault
from burstlab.fault_injection.lambda_deployment import LambdaDeployment
from burstlab.fault_injection.world import (
    CALM,
    DRAINING_GP3,
    DRAINING_IO1,
    HOST,
    NAMES,
    ON_HOLD,
    STARTS_AT,
    UNTAGGED,
    FaultWorld,
    RunResult,
)
from burstlab.harness.deterministic import deterministic_execution
from burstlab.harness.effects import CHANNEL
from burstlab.harness.world import TICK_S, temporary_directory
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment import host_stall
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import Ledger
from burstwatch.core.text import format_instant
from burstwatch.handlers import settle

# minutes of the story: each step follows soon after the one before, so that runs are short
_RELEASE_AFTER_REFUSAL_MIN: Final = 1
_RELEASE_LATEST_MIN: Final = 14
_STALL_MIN: Final = 4
_IDLE_AFTER_FLIP_MIN: Final = 2
_MIN_DURATION_MIN: Final = 13  # after the load of every volume has changed
_QUIET_MIN: Final = 2  # two ticks without anything open: nothing happens any more
_MAX_DURATION_MIN: Final = 75
"""A run with a fault takes a few minutes longer; one that never settles is a failure."""

_FLIPPED_TYPES: Final = {DRAINING_IO1: "io1", DRAINING_GP3: "gp3", ON_HOLD: "gp3"}
FINAL_TYPES: Final = {DRAINING_IO1: "gp2", DRAINING_GP3: "gp3", ON_HOLD: "gp3", CALM: "gp2", UNTAGGED: "gp2"}
"""What each volume is in the end."""

DEPLOYMENTS: Final[Mapping[str, Callable[[FaultWorld, Path], Deployment]]] = {
    CliDeployment.name: CliDeployment,
    LambdaDeployment.name: LambdaDeployment,
}


def run_scenario(deployment_name: str, injected_fault: InjectedFault | None = None) -> RunResult:
    """Run the scenario once."""
    started_cpu_s = process_time()
    world = FaultWorld(injected_fault)
    with (
        temporary_directory("burstlab-faults-") as directory,
        deterministic_execution(world.fleet.clock.now_s),
    ):
        deployment = DEPLOYMENTS[deployment_name](world, directory)
        world.ledger = deployment.ledger
        try:
            is_settled = _run_until_settled(world, deployment)
            return _build_result(
                world, deployment, is_settled=is_settled, cpu_s=process_time() - started_cpu_s
            )
        finally:
            deployment.close()


def _run_until_settled(world: FaultWorld, deployment: Deployment) -> bool:
    """Whether everything settled."""
    started_at_s, clock = int(STARTS_AT.timestamp()), world.fleet.clock
    actions = _operator_actions(world)
    delivered_events, settled_minutes = 0, 0
    while (minute := (world.now_s - started_at_s) // TICK_S + 1) <= _MAX_DURATION_MIN:
        tick_s = started_at_s + minute * TICK_S
        clock.advance(tick_s - clock.now_s())
        _reduce_load_after_flip(world)
        actions = [
            action
            for action in actions
            if not (action.is_due(minute) and deployment.run_operator_change(action.change))
        ]
        events = world.fleet.events
        for event in events[delivered_events:]:
            deployment.deliver_event(event.body)
        delivered_events = len(events)
        if minute == _STALL_MIN:
            deployment.deliver_event(_stall_event(world.now_s))
        deployment.run_minute(tick_s)
        world.check_originals()
        is_over = minute >= _MIN_DURATION_MIN and not actions and deployment.is_idle
        settled_minutes = settled_minutes + 1 if is_over and _is_settled(world, deployment.ledger) else 0
        world.injector.is_recording = world.injector.is_recording and not settled_minutes
        if settled_minutes > _QUIET_MIN:
            return True
    return False


def _reduce_load_after_flip(world: FaultWorld) -> None:
    """Reduce the load of a volume shortly after its modification is completed."""
    for volume_id, flipped_type in _FLIPPED_TYPES.items():
        volume = world.fleet.find(volume_id)
        if (
            volume.volume_type == flipped_type
            and volume.change is None
            and volume_id not in world.idled_volume_ids
        ):
            world.idled_volume_ids.add(volume_id)
            idle_at = world.fleet.clock.now() + timedelta(minutes=_IDLE_AFTER_FLIP_MIN)
            world.fleet.set_load(volume_id, "idle", idle_at)


class _OperatorAction(NamedTuple):
    """What a person does to the ledger, and whether it is due; what fails is tried again a minute later."""

    change: Callable[[Any], object]
    is_due: Callable[[int], bool] = lambda _minute: True


def _operator_actions(world: FaultWorld) -> list[_OperatorAction]:
    """A person holds a volume, and releases it some minutes after the alert about the refused flip."""
    now_s = world.now_s
    hold = Hold(volume_id=ON_HOLD, by="ann", reason="backup", placed_at_s=now_s, until_s=now_s + 24 * 3600)

    def is_release_due(minute: int) -> bool:
        refused_until_s = world.now_s - _RELEASE_AFTER_REFUSAL_MIN * TICK_S
        return minute >= _RELEASE_LATEST_MIN or any(
            (alert.volume_id, alert.kind) == (ON_HOLD, AlertKind.FLIP_REFUSED)
            and alert.at_s <= refused_until_s
            for alert in world.alerts
        )

    return [
        _OperatorAction(lambda ledger: ledger.place_hold(hold)),
        _OperatorAction(lambda ledger: ledger.lift_hold(ON_HOLD, by="ann", at_s=world.now_s), is_release_due),
    ]


def _stall_event(now_s: int) -> Mapping[str, Any]:
    """What ddprobe reports from the host."""
    return {
        "source": settle.PROBE_SOURCE,
        "detail-type": "stall",
        "time": format_instant(now_s),
        "detail": {
            "schema": host_stall.SCHEMA,
            "instance_id": HOST,
            "volume_id": UNTAGGED,
            "verdict": "crit",
            "cause": "throttled",
            "total_s": 8.25,
            "started_at": format_instant(now_s - 20),
            "top": [{"comm": "systemd-udevd", "wchan": "blk_mq_get_tag", "count": 3}],
        },
    }


def _is_settled(world: FaultWorld, ledger: Ledger) -> bool:
    """Whether nothing is open: volumes and ledger are in their final state, and all alerts were delivered."""
    states = ledger.states()
    for volume_id, final_type in FINAL_TYPES.items():
        volume, state = world.fleet.find(volume_id), states.get(volume_id)
        flip = state.flip if state else None
        has_final_type = volume.volume_type == final_type and volume.change is None
        is_recorded = flip is None if final_type == "gp2" else flip is not None and flip.is_settled
        if not (has_final_type and is_recorded):
            return False
    has_open_alert = any(state.alerts.open_level is not None for state in states.values())
    return not has_open_alert and not _count_undelivered(ledger)


def _count_undelivered(ledger: Ledger) -> int:
    return len(ledger.pending_deliveries(channels=[CHANNEL, "sns"]))


def _build_result(world: FaultWorld, deployment: Deployment, *, is_settled: bool, cpu_s: float) -> RunResult:
    injector = world.injector
    volume_ids = [volume.volume_id for volume in world.fleet]
    return RunResult.collect(
        world.fleet,
        deployment.ledger,
        NAMES,
        volume_ids,
        deployment=deployment.name,
        injected_fault=injector.injected_fault,
        started_at_s=int(STARTS_AT.timestamp()),
        faulted_at_s=injector.faulted_at_s,
        crash_count=injector.crash_count,
        is_settled=is_settled,
        effects=injector.effects,
        alerts=world.alerts,
        requests=world.requests,
        unknown_originals=world.unknown_originals,
        empty_at_s={
            volume_id: int(empty_at.timestamp())
            for volume_id in volume_ids
            if (empty_at := world.fleet.truth(volume_id).first_dry_at) is not None
        },
        internal_errors=world.internal_errors,
        failed_passes=world.failed_passes,
        cpu_s=cpu_s,
    )

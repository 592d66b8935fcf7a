"""The invariants of every run, whatever went wrong; each reports its violations in sentences."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from burstlab.fault_injection.effects import DRIP_S, Fault
from burstlab.fault_injection.world import IN_SCOPE, ON_HOLD, RunResult
from burstlab.harness.invariants import (
    each_alert_is_delivered,
    each_intent_has_one_end,
    each_modification_was_decided,
    the_quota_counts_agree,
)
from burstlab.harness.outcome import AcceptedModification, DeliveredAlert
from burstlab.harness.world import TICK_S
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger_entry import EntryKind

K = TypeVar("K")
V = TypeVar("V")
Invariant = Callable[[RunResult, RunResult], list[str]]
"""Compares a run with the run without faults; returns the violations."""

MAX_DELAY_S: Final = 5 * 60
"""The longest delay that a fault of everything (a crash, a call about all volumes) may cause."""

_FAULT_ALERTS: Final = frozenset(
    {AlertKind.FLIP_FAILED, AlertKind.FLIP_REFUSED, AlertKind.TELEMETRY_GAP, AlertKind.POLICY_REJECTED}
)
"""The alerts that may be sent only because something failed."""

_ALLOWED_EXTRA_ALERTS: Final = _FAULT_ALERTS | {AlertKind.EXHAUSTED}

_FAULTS_OF_WHOLE_PROCESS: Final = frozenset(
    {Fault.CRASH, Fault.CRASH_AFTER, Fault.TIMEOUT, Fault.TIMEOUT_AFTER, Fault.DRIP, Fault.NOISY_NEIGHBOUR}
)
_DELIVERY_EFFECTS: Final = ("channel.", "sns:")
_MAX_BLIND_DELAY_S: Final = int(DRIP_S) + 150 + TICK_S
"""Of the drip, the five attempts of one read, and a tick."""
_SHARED_EFFECTS: Final = ("ledger.", "dynamodb:", "channel.", "sns:")
"""The ledger and the channels: a fault there may affect all volumes."""

_ALERTING: Final = frozenset(str(level) for level in Level if level.is_alerting)


def original_is_recorded(run: RunResult, _: RunResult) -> list[str]:
    """While a volume is flipped, or is being modified, the ledger has its original configuration."""
    return [
        f"{run.name(unknown.volume_id)} is {unknown.current_type} {_format_minute(run, unknown.at_s)},"
        f" and of what it was the ledger says {unknown.recorded_original}"
        for unknown in run.unknown_originals
    ]


def one_modification_per_decision(run: RunResult, clean: RunResult) -> list[str]:
    """Each ModifyVolume has an intent, each is sent once, and AWS makes no more than if all is well."""
    violations = [
        f"{run.name(request.volume_id)}: ModifyVolume was sent {_format_minute(run, request.at_s)}"
        " without an intent"
        for request in run.requests
        if request.intent_id is None
    ]
    send_counts = Counter(
        (request.volume_id, request.intent_id) for request in run.requests if request.intent_id
    )
    violations += [
        f"{run.name(volume_id)}: intent {intent_id} was sent {count} times"
        for (volume_id, intent_id), count in send_counts.items()
        if count > 1
    ]
    modified_types, expected_types = (
        _group((modification.volume_id, modification.volume_type) for modification in side.modifications)
        for side in (run, clean)
    )
    return violations + [
        f"{run.name(volume_id)} was modified to {' and '.join(types)},"
        f" not to {' and '.join(expected_types.get(volume_id, [])) or 'anything'}"
        for volume_id, types in modified_types.items()
        if len(types) > len(expected_types.get(volume_id, []))
    ]


def no_request_out_of_scope(run: RunResult, _: RunResult) -> list[str]:
    """Nothing is sent for a volume without the tag or the need, or while a person holds it."""
    violations = [
        f"{run.name(request.volume_id)} is out of scope, and ModifyVolume was sent"
        f" {_format_minute(run, request.at_s)}"
        for request in run.requests
        if request.volume_id not in IN_SCOPE
    ]
    return violations + [
        f"{run.name(request.volume_id)} was on hold when ModifyVolume was sent"
        f" {_format_minute(run, request.at_s)}"
        for request in run.requests
        if request.is_held
    ]


def every_level_is_alerted(run: RunResult, clean: RunResult) -> list[str]:
    """People received every alert in the ledger, one for each level, and all of the run without faults."""
    levels = {(alert.volume_id, alert.level) for alert in run.alerts}
    kinds = {(alert.volume_id, alert.kind) for alert in run.alerts}
    violations = [
        f"no alert says that {run.name(entry.volume_id)} is {entry.body['to']}"
        for entry in run.entries
        if entry.kind is EntryKind.LEVEL_CHANGED
        and entry.body["to"] in _ALERTING
        and (entry.volume_id, entry.body["to"]) not in levels
    ]
    expected = {(alert.volume_id, alert.kind) for alert in clean.alerts if alert.kind not in _FAULT_ALERTS}
    violations += [
        f"{run.name(volume_id)}: no alert of kind {kind} was sent"
        for volume_id, kind in sorted(expected - kinds)
    ]
    return [*violations, *_check_worst_levels(run, clean), *each_alert_is_delivered(run)]


def _check_worst_levels(run: RunResult, clean: RunResult) -> list[str]:
    worst, expected = _worst_levels(run.alerts), _worst_levels(clean.alerts)
    return [
        f"{run.name(volume_id)} was reported as {worst[volume_id]} at worst, but is {level}"
        for volume_id, level in expected.items()
        if volume_id in worst and worst[volume_id].rank < level.rank
    ]


def _worst_levels(alerts: Iterable[DeliveredAlert]) -> dict[str, Level]:
    worst: dict[str, Level] = {}
    for alert in alerts:
        level = Level(alert.level)
        if level.rank > worst.get(alert.volume_id, Level.UNKNOWN).rank:
            worst[alert.volume_id] = level
    return worst


def delays_stay_bounded(run: RunResult, clean: RunResult) -> list[str]:
    """A fault of one volume delays no other; a fault of everything delays them by minutes at most."""
    assert run.injected_fault is not None
    affected = next(
        (effect.volume_ids for effect in clean.effects if effect.name == run.injected_fault.effect),
        frozenset(),
    )
    affects_one_volume = (
        len(affected) == 1
        and run.injected_fault.fault not in _FAULTS_OF_WHOLE_PROCESS
        and not run.injected_fault.effect.startswith(_SHARED_EFFECTS)
    )
    allowed_s = 0 if affects_one_volume else MAX_DELAY_S
    return _describe_delays(
        run, clean, allowed_s, lambda volume_id, _: volume_id not in affected or not affects_one_volume
    )


def _describe_delays(
    run: RunResult, clean: RunResult, allowed_s: int, is_relevant: Callable[[str, str], bool]
) -> list[str]:
    """What came later than allowed, of the relevant volumes and events."""
    return [
        f"{run.name(volume_id)}: {event} came {delay_s} s late, {allowed_s} s are allowed"
        for volume_id, event, delay_s in measure_delays(run, clean)
        if delay_s > allowed_s and is_relevant(volume_id, event)
    ]


def failed_delivery_delays_no_flip(run: RunResult, clean: RunResult) -> list[str]:
    """A channel that drips, fails or says nothing costs a modification one tick at most.

    The held volume is left out: its hold is released after the operator has received the alert.
    """
    assert run.injected_fault is not None
    if not run.injected_fault.effect.startswith(_DELIVERY_EFFECTS) or run.injected_fault.fault in (
        Fault.CRASH,
        Fault.CRASH_AFTER,
    ):
        return []
    return _describe_delays(
        run,
        clean,
        TICK_S,
        lambda volume_id, event: event.startswith("modification") and volume_id != ON_HOLD,
    )


def lost_reads_delay_by_minutes(run: RunResult, clean: RunResult) -> list[str]:
    """When AWS responds to reads again, what is due is done within the time of one call and a tick."""
    return _describe_delays(run, clean, _MAX_BLIND_DELAY_S, lambda *_: _is_blind(run))


def _is_blind(run: RunResult) -> bool:
    """Whether no read ended for minutes; without data, the watchdog cannot alert each level in its minute."""
    return (
        run.injected_fault is not None
        and run.injected_fault.fault == Fault.DRIP
        and not run.injected_fault.effect.startswith(_DELIVERY_EFFECTS)
    )


def measure_delays(run: RunResult, clean: RunResult) -> list[tuple[str, str, int]]:
    """How much later than without faults each modification was made, and each kind of alert first sent."""
    delays_found = []
    for volume_id, expected_s in _modification_times(clean.modifications).items():
        pairs = zip(_modification_times(run.modifications).get(volume_id, []), expected_s, strict=False)
        delays_found += [
            (volume_id, f"modification {number}", at_s - expected_at_s)
            for number, (at_s, expected_at_s) in enumerate(pairs, 1)
        ]
    first_alerts, expected_alerts = _first_alert_times(run.alerts), _first_alert_times(clean.alerts)
    delays_found += [
        (volume_id, f"{kind} ({level})", first_alerts[volume_id, kind, level] - expected_at_s)
        for (volume_id, kind, level), expected_at_s in expected_alerts.items()
        if (volume_id, kind, level) in first_alerts
    ]
    return delays_found


def _modification_times(modifications: Iterable[AcceptedModification]) -> dict[str, list[int]]:
    return _group((modification.volume_id, modification.at_s) for modification in modifications)


def _first_alert_times(alerts: Iterable[DeliveredAlert]) -> dict[tuple[str, str, str], int]:
    return {key: times[0] for key, times in _group((_key(alert), alert.at_s) for alert in alerts).items()}


def _key(alert: DeliveredAlert) -> tuple[str, str, str]:
    return alert.volume_id, alert.kind, alert.level


def _group(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def no_volume_becomes_empty(run: RunResult, _: RunResult) -> list[str]:
    """No volume that may be flipped becomes empty or is reported as empty; the scenario has minutes to spare.

    The simulation is checked as well, because a watchdog without data reports nothing.
    """
    violations = [
        f"{run.name(volume_id)} became empty {_format_minute(run, at_s)}"
        for volume_id, at_s in run.empty_at_s.items()
        if volume_id in IN_SCOPE
    ]
    return violations + [
        f"{run.name(alert.volume_id)} was reported as empty {_format_minute(run, alert.at_s)}"
        for alert in run.alerts
        if alert.kind == AlertKind.EXHAUSTED and alert.volume_id in IN_SCOPE
    ]


def ledger_agrees_with_aws(run: RunResult, _: RunResult) -> list[str]:
    """Each intent has one end; those that AWS took, and no others, count as accepted and as used up."""
    return [*each_intent_has_one_end(run), *each_modification_was_decided(run), *the_quota_counts_agree(run)]


def no_false_alert(run: RunResult, clean: RunResult) -> list[str]:
    """No alert is about what did not happen: others' changes, failures after success, or repeats."""
    expected_kinds = {(alert.volume_id, alert.kind) for alert in clean.alerts}
    expected_kinds |= {
        (alert.volume_id, AlertKind.RECOVERED)
        for alert in run.alerts
        if alert.kind == AlertKind.TELEMETRY_GAP
    }
    violations = [
        f"{run.name(alert.volume_id)}: a false {alert.kind} alert was sent {_format_minute(run, alert.at_s)}"
        for alert in run.alerts
        if (alert.volume_id, alert.kind) not in expected_kinds and alert.kind not in _ALLOWED_EXTRA_ALERTS
    ]
    violations += [
        f"{run.name(state.volume_id)} is left to operators, as if others had changed it"
        for state in run.states.values()
        if state.is_contested
    ]
    alert_ids, expected_ids = (
        _group((_key(alert), alert.alert_id) for alert in alerts) for alerts in (run.alerts, clean.alerts)
    )
    return violations + [
        f"{run.name(volume_id)}: {kind} ({level}) was sent under {len(set(ids))} ids"
        for (volume_id, kind, level), ids in alert_ids.items()
        if kind not in _FAULT_ALERTS
        and len(set(ids)) > max(1, len(set(expected_ids.get((volume_id, kind, level), ()))))
    ]


def everything_settles(run: RunResult, clean: RunResult) -> list[str]:
    """In the end every volume is what it should be, and nothing is open."""
    violations = [
        f"{run.name(volume_id)} is {run.final_types[volume_id]} in the end, not {volume_type}"
        for volume_id, volume_type in clean.final_types.items()
        if run.final_types[volume_id] != volume_type
    ]
    if not run.is_settled and not violations:
        open_volumes = ", ".join(
            f"{run.name(state.volume_id)} {state.flip.status if state.flip else state.level}"
            for state in run.states.values()
        )
        violations.append(f"something is still open {_format_minute(run, run.ended_at_s)}: {open_volumes}")
    return violations


def no_internal_errors(run: RunResult, _: RunResult) -> list[str]:
    """A pass may fail with an expected error that says why; never with a bug."""
    return [f"a bug: {error}" for error in run.internal_errors]


INVARIANTS: Final[Mapping[str, Invariant]] = {
    invariant.__name__: invariant
    for invariant in (
        original_is_recorded,
        one_modification_per_decision,
        no_request_out_of_scope,
        every_level_is_alerted,
        delays_stay_bounded,
        failed_delivery_delays_no_flip,
        lost_reads_delay_by_minutes,
        no_volume_becomes_empty,
        ledger_agrees_with_aws,
        no_false_alert,
        everything_settles,
        no_internal_errors,
    )
}


_SKIPPED_WHEN_BLIND: Final = frozenset(
    {every_level_is_alerted, delays_stay_bounded, no_volume_becomes_empty, no_false_alert}
)


def check_invariants(run: RunResult, clean: RunResult) -> dict[str, list[str]]:
    """The violations of a run by invariant."""
    skipped = _SKIPPED_WHEN_BLIND if _is_blind(run) else frozenset()
    violations = {name: check(run, clean) for name, check in INVARIANTS.items() if check not in skipped}
    return {name: sentences for name, sentences in violations.items() if sentences}


def _format_minute(run: RunResult, at_s: float) -> str:
    return f"in minute {(at_s - run.started_at_s) / 60:.0f}"

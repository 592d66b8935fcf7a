"""Invariants of concurrent watchdogs: together they modify, alert and record what one of them does."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from burstctl.watch.loop import PassStatus
from burstlab.concurrency.runner import QUIET_MIN, ClockMode, RunResult
from burstlab.concurrency.scenario import WINDOW_NAME
from burstlab.concurrency.worker import CHANNEL, WorkerReport
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ledger.flip_state import SAME_START_TOLERANCE_S
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.volume_state import VolumeState

SCHEMA: Final = "burstwatch.lab.crowd/v1"
_COMPLETED: Final = (PassStatus.COMPLETE, PassStatus.PARTIAL)
_SWEEP_S: Final = 300  # the policy's default
_MAX_CLOCK_LEAD_S: Final = 120
"""A watchdog's clock may be two minutes ahead, and so may the sweep that it completed."""
_LATE_TICK_ALERTS: Final = frozenset({AlertKind.FLIP_FAILED, AlertKind.WINDOW_MISSED})
"""The alerts that are expected if a request was never sent, or if a tick came too late for a window."""

_TIMESTAMPS: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z|\d\d:\d\d UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a run; ``broken`` describes every violated invariant.

    Several workers did ``doubled_ticks``; nobody did ``late_ticks`` until the next one. ``told`` counts the
    alerts that were delivered, ``doubled_alerts`` those that were delivered twice. ``errors`` are those of
    passes, with their counts.
    """

    watchdogs: int
    ledger: str
    clocks: str
    dies_at: int | None
    deaths: int
    ticks: int
    doubled_ticks: int
    late_ticks: int
    decisions: int
    modifications: int
    told: int
    doubled_alerts: int
    errors: Mapping[str, int]
    moves: Mapping[str, Sequence[str]]
    alerts: Mapping[str, int]
    processor_s: float
    broken: Sequence[str] = field(default_factory=tuple)

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def check_invariants(result: RunResult, *, solo: Verdict | None = None) -> Verdict:
    """Check a run against every invariant; ``solo`` is the result of a single watchdog."""
    history = {
        name: result.ledger.entries(volume_id) for name, volume_id in result.scenario.volume_ids.items()
    }
    history[f"window {WINDOW_NAME}"] = result.ledger.entries(f"window {WINDOW_NAME}")
    sent = Counter(line.split(maxsplit=1)[0] for line in result.outbox)
    modified_types = {
        name: _modified_types(result, volume_id) for name, volume_id in result.scenario.volume_ids.items()
    }
    alerts = _count_alerts(history)
    external_count = sum(result.scenario.external_modifications.values())
    violations = [
        *_check_one_modification_per_intent(result, history),
        *_check_alerts_delivered(history, sent),
        *_check_no_two_ticks_missed(result.tick_log.ticks),
        *_check_final_minutes_without_errors(result.tick_log.ticks),
        *_check_ledger_matches_aws(result),
    ]
    if solo is not None:
        violations += _check_same_as_solo(result, modified_types, alerts, solo)
    return Verdict(
        watchdogs=result.config.watchdogs,
        ledger=result.config.ledger,
        clocks=str(result.config.clock_mode),
        dies_at=result.config.kill_at_effect,
        deaths=result.tick_log.deaths,
        ticks=len(result.tick_log.ticks),
        doubled_ticks=sum(_count_completed(tick) > 1 for tick in result.tick_log.ticks),
        late_ticks=sum(_count_completed(tick) == 0 for tick in result.tick_log.ticks),
        decisions=sum(len(_intent_ids(entries, EntryKind.ACCEPTED)) for entries in history.values()),
        modifications=sum(map(len, modified_types.values())) - external_count,
        told=len(sent),
        doubled_alerts=sum(sent.values()) - len(sent),
        errors=Counter(_normalise_error(error) for error in _iter_errors(result.tick_log.ticks)),
        moves={name: types for name, types in modified_types.items() if types},
        alerts=alerts,
        processor_s=round(result.tick_log.cpu_s, 2),
        broken=tuple(violations),
    )


def _check_one_modification_per_intent(
    result: RunResult, history: Mapping[str, Sequence[LedgerEntry]]
) -> Iterator[str]:
    """A decision is an intent; AWS has at most one modification for it, and none without."""
    for name, volume_id in result.scenario.volume_ids.items():
        modification_count = len(
            result.scenario.fleet.modifications(volume_id)
        ) - result.scenario.external_modifications.get(volume_id, 0)
        accepted = _intent_ids(history[name], EntryKind.ACCEPTED)
        if modification_count != len(accepted):
            yield f"{name}: {modification_count} modifications for {len(accepted)} decisions"
        if unknown_ids := accepted - _intent_ids(history[name], EntryKind.INTENT):
            yield f"{name}: accepted, and never intended: {', '.join(sorted(unknown_ids))}"


def _check_alerts_delivered(
    history: Mapping[str, Sequence[LedgerEntry]], sent: Mapping[str, int]
) -> Iterator[str]:
    """People received exactly the alerts that the ledger has."""
    raised = {
        entry.body["alert_id"]: f"{name}: {entry.body['kind']}"
        for name, entries in history.items()
        for entry in entries
        if entry.kind is EntryKind.ALERT
    }
    yield from (
        f"{description} was never sent" for alert_id, description in raised.items() if alert_id not in sent
    )
    yield from (f"alert {alert_id} is in no history" for alert_id in sent if alert_id not in raised)


def _check_no_two_ticks_missed(ticks: Sequence[Sequence[WorkerReport | None]]) -> Iterator[str]:
    """If nobody completes a tick, the next one makes up for it: never two in a row are missed."""
    missed = [number for number, tick in enumerate(ticks) if _count_completed(tick) == 0]
    yield from (
        f"minutes {minute} and {minute + 1} were done by nobody"
        for minute in missed
        if minute + 1 in frozenset(missed)
    )


def _check_final_minutes_without_errors(ticks: Sequence[Sequence[WorkerReport | None]]) -> Iterator[str]:
    """In the quiet minutes at the end, all whose clocks are right are without errors."""
    for number, tick in enumerate(ticks[-QUIET_MIN:], start=len(ticks) - QUIET_MIN):
        yield from (
            f"minute {number}: {_normalise_error(error)}"
            for error in _iter_errors([tick])
            if "clock" not in error
        )


def _check_ledger_matches_aws(result: RunResult) -> Iterator[str]:
    """At the end nothing waits, and each flip in the ledger is what AWS shows or has in progress."""
    if waiting := result.ledger.pending_deliveries(channels=[CHANNEL]):
        yield f"{len(waiting)} alerts still wait"
    snapshot = result.ledger.fleet_snapshot()
    sweep_s = result.scenario.now_s // _SWEEP_S * _SWEEP_S
    if snapshot is None or not sweep_s <= snapshot.tick_at_s <= result.scenario.now_s + _MAX_CLOCK_LEAD_S:
        yield f"the watermark is {snapshot and snapshot.tick_at_s}, the last sweep was {sweep_s}"
    states = result.ledger.states()
    for name, volume_id in result.scenario.volume_ids.items():
        volume = result.scenario.fleet.find(volume_id)
        state = states.get(volume_id)
        flip = state.flip if state else None
        if flip is not None and flip.is_under_way:
            if volume.change is None:
                yield f"{name}: its flip is still {flip.status}, and AWS has nothing in progress"
            continue
        if state is None or state.is_contested:
            continue
        expected_type = str(flip.requested_config.volume_type) if flip else "gp2"
        if volume.volume_type != expected_type:
            yield f"{name}: it is {volume.volume_type}, the ledger says {expected_type}"
        yield from _check_quota_count(
            name, state, [modification.started_at.timestamp() for modification in volume.modifications]
        )


def _check_quota_count(name: str, state: VolumeState, started_at_s: Sequence[float]) -> Iterator[str]:
    """What the ledger counts against AWS's quota is what AWS counts."""
    recorded_at_s = [modification.at_s for modification in state.modifications.used]
    for start_at_s in started_at_s:
        if sum(abs(at_s - start_at_s) <= SAME_START_TOLERANCE_S for at_s in recorded_at_s) != 1:
            yield (
                f"{name}: the modification of {start_at_s:.0f} counts {recorded_at_s.count(int(start_at_s))}"
                " times"
            )


def _check_same_as_solo(
    result: RunResult, modified_types: Mapping[str, Sequence[str]], alerts: Mapping[str, int], solo: Verdict
) -> Iterator[str]:
    """The same modifications, and the same alerts as often; where ticks come late, each of them at least."""
    for name, types in modified_types.items():
        if list(types) != list(solo.moves.get(name, ())):
            yield f"{name}: went to {types}; by one watchdog alone to {solo.moves.get(name, [])}"
    if result.config.kill_at_effect is None and result.config.clock_mode is ClockMode.ACCURATE:
        for alert in sorted(alerts.keys() | solo.alerts.keys()):
            if alerts.get(alert, 0) != solo.alerts.get(alert, 0):
                yield (
                    f"{alert}: raised {alerts.get(alert, 0)} times, by one alone {solo.alerts.get(alert, 0)}"
                )
        return
    kinds, solo_kinds = _strip_levels(alerts), _strip_levels(solo.alerts)
    yield from (f"{alert}: never raised, as one alone does" for alert in sorted(solo_kinds - kinds))
    for alert in sorted(kinds - solo_kinds):
        if alert.rpartition(" ")[2] not in _LATE_TICK_ALERTS:
            yield f"{alert}: raised, and by one alone never"


def _strip_levels(alerts: Mapping[str, int]) -> frozenset[str]:
    """Count each kind of alert about a volume, regardless of its level."""
    return frozenset(alert.rpartition(" ")[0] for alert in alerts)


def _modified_types(result: RunResult, volume_id: str) -> list[str]:
    return [
        str(modification.target.volume_type)
        for modification in result.scenario.fleet.modifications(volume_id)
    ]


def _count_alerts(history: Mapping[str, Sequence[LedgerEntry]]) -> dict[str, int]:
    """How often each alert was raised, reminders left out."""
    return Counter(
        f"{name} {entry.body['kind']} {entry.body['level']}"
        for name, entries in history.items()
        for entry in entries
        if entry.kind is EntryKind.ALERT and not entry.body.get("is_reminder")
    )


def _intent_ids(entries: Sequence[LedgerEntry], kind: EntryKind) -> set[str]:
    return {entry.body["intent_id"] for entry in entries if entry.kind is kind}


def _count_completed(tick: Sequence[WorkerReport | None]) -> int:
    return sum(report is not None and report.result in _COMPLETED for report in tick)


def _iter_errors(ticks: Sequence[Sequence[WorkerReport | None]]) -> Iterator[str]:
    for tick in ticks:
        for report in tick:
            if report is not None:
                yield from report.errors


def _normalise_error(error: str) -> str:
    """What was said, without the instants in it: the same trouble is counted together."""
    return _TIMESTAMPS.sub("…", error.splitlines()[0]) if error else "no word"

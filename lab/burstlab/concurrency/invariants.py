"""Invariants of concurrent watchdogs: together they modify, alert and record what one of them does."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from burstctl.watch.loop import PassStatus
from burstlab.concurrency.runner import QUIET_MIN, ClockMode, RunResult
from burstlab.concurrency.worker import WorkerReport
from burstlab.harness.invariants import (
    each_alert_is_delivered,
    each_delivery_is_in_the_ledger,
    each_flip_is_what_aws_shows,
    each_modification_was_decided,
    the_quota_counts_agree,
)
from burstlab.harness.world import SWEEP_S
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ledger.ledger_entry import EntryKind

SCHEMA: Final = "burstwatch.lab.crowd/v1"
_COMPLETED: Final = (PassStatus.COMPLETE, PassStatus.PARTIAL)
_MAX_CLOCK_LEAD_S: Final = 120
"""A watchdog's clock may be two minutes ahead, and so may the sweep that it completed."""
_LATE_TICK_ALERTS: Final = frozenset({AlertKind.FLIP_FAILED, AlertKind.WINDOW_MISSED})
"""The alerts that are expected if a request was never sent, or if a tick came too late for a window."""

_TIMESTAMPS: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z|\d\d:\d\d UTC")


_JSON_KEYS: Final = {"delivered_alerts": "told"}
"""The JSON keys that differ from the names of their fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a run; ``broken`` describes every violated invariant.

    Several workers did ``doubled_ticks``; the next tick did ``late_ticks``. ``delivered_alerts`` counts the
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
    delivered_alerts: int
    doubled_alerts: int
    errors: Mapping[str, int]
    moves: Mapping[str, Sequence[str]]
    alerts: Mapping[str, int]
    processor_s: float
    broken: Sequence[str] = field(default_factory=tuple)

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return {_JSON_KEYS.get(name, name): getattr(self, name) for name in self.__slots__}


def check_invariants(result: RunResult, *, solo: Verdict | None = None) -> Verdict:
    """Check a run against every invariant; ``solo`` is the result of a single watchdog."""
    delivered = Counter(alert.alert_id for alert in result.alerts)
    modified_types = {
        name: [modification.volume_type for modification in result.modifications_of(volume_id)]
        for volume_id, name in result.names.items()
    }
    alerts = _count_alerts(result)
    violations = [
        *each_modification_was_decided(result),
        *each_alert_is_delivered(result),
        *each_delivery_is_in_the_ledger(result),
        *_check_no_two_ticks_missed(result.ticks),
        *_check_final_minutes_without_errors(result.ticks),
        *_check_watermark(result),
        *each_flip_is_what_aws_shows(result),
        *the_quota_counts_agree(result),
    ]
    if solo is not None:
        violations += _check_same_as_solo(result, modified_types, alerts, solo)
    return Verdict(
        watchdogs=result.config.watchdogs,
        ledger=result.config.ledger,
        clocks=str(result.config.clock_mode),
        dies_at=result.config.kill_at_effect,
        deaths=result.deaths,
        ticks=len(result.ticks),
        doubled_ticks=sum(_count_completed(tick) > 1 for tick in result.ticks),
        late_ticks=sum(_count_completed(tick) == 0 for tick in result.ticks),
        decisions=len({body["intent_id"] for body in result.bodies(EntryKind.ACCEPTED)}),
        modifications=len(result.modifications) - sum(result.external_modifications.values()),
        delivered_alerts=len(delivered),
        doubled_alerts=delivered.total() - len(delivered),
        errors=Counter(_normalise_error(error) for error in _iter_errors(result.ticks)),
        moves={name: types for name, types in modified_types.items() if types},
        alerts=alerts,
        processor_s=round(result.cpu_s, 2),
        broken=tuple(violations),
    )


def _check_no_two_ticks_missed(ticks: Sequence[Sequence[WorkerReport | None]]) -> Iterator[str]:
    """If no watchdog completes a tick, the next one does its work: never two in a row are missed."""
    missed = [number for number, tick in enumerate(ticks) if _count_completed(tick) == 0]
    yield from (
        f"minutes {minute} and {minute + 1} were not done"
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


def _check_watermark(result: RunResult) -> Iterator[str]:
    """The last sweep is the watermark; it is not behind that sweep, or too far ahead."""
    sweep_s = result.ended_at_s // SWEEP_S * SWEEP_S
    watermark_s = result.watermark_s
    if watermark_s is None or not sweep_s <= watermark_s <= result.ended_at_s + _MAX_CLOCK_LEAD_S:
        yield f"the watermark is {watermark_s}, the last sweep was {sweep_s}"


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


def _count_alerts(result: RunResult) -> dict[str, int]:
    """How often each alert was raised, reminders left out."""
    return Counter(
        f"{result.name(entry.volume_id)} {entry.body['kind']} {entry.body['level']}"
        for entry in result.entries
        if entry.kind is EntryKind.ALERT and not entry.body.get("is_reminder")
    )


def _count_completed(tick: Sequence[WorkerReport | None]) -> int:
    return sum(report is not None and report.result in _COMPLETED for report in tick)


def _iter_errors(ticks: Sequence[Sequence[WorkerReport | None]]) -> Iterator[str]:
    for tick in ticks:
        for report in tick:
            if report is not None:
                yield from report.errors


def _normalise_error(error: str) -> str:
    """What was said, without the instants in it: the same trouble is counted together."""
    return _TIMESTAMPS.sub("…", " ".join(error.split())) if error else "no word"

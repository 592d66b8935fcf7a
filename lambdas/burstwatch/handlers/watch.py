"""The watch function: on schedule it evaluates what is due, sends alerts, and requests flips."""

import time
from collections.abc import Mapping
from typing import Any

from burstwatch.core.durations import MINUTE_S
from burstwatch.core.ledger.ledger import TickKind
from burstwatch.core.text import format_instant
from burstwatch.engine.reconcile_pass import reconcile_open_flips
from burstwatch.engine.tick_pass import run_tick
from burstwatch.handlers.event_time import EventError, EventTime
from burstwatch.handlers.pass_metrics import deliver_waiting, emit_pass_telemetry
from burstwatch.handlers.runtime import (
    FunctionRuntime,
    account_from_context,
    function_runtime,
    limit_to_invocation,
)
from burstwatch.wiring.observability import Field, Metric, Telemetry, with_telemetry


@with_telemetry
def handler(event: Any, context: Any, telemetry: Telemetry) -> dict[str, Any]:
    """Handle an event of EventBridge Scheduler, which has ``mode`` and ``time``."""
    return run(event, function_runtime(account_from_context(context)), telemetry, wall_s=time.time())


def run(event: Any, runtime: FunctionRuntime, telemetry: Telemetry, *, wall_s: float) -> dict[str, Any]:
    """Do the work of one tick.

    Raises:
        EventError: the event is invalid.
        PassError: because of an internal error, some volumes were not evaluated.
    """
    kind = _kind(event)
    event_time = EventTime.from_event(event, runtime.settings.clock, wall_s)
    telemetry.emit_metric(Metric.TICKS, 1)
    fields = {Field.MODE: str(kind), Field.TICK: format_instant(event_time.scheduled_at_s)}
    if event_time.problem is not None:
        telemetry.warn(event_time.problem, fields)
    services = limit_to_invocation(
        runtime.services_for_watch(event_time.now_s, telemetry), telemetry.remaining_s
    )
    if event_time.is_late:
        telemetry.emit_metric(Metric.LATE_TICKS, 1)
        telemetry.warn(
            "late tick: only open flips are reconciled", fields | {Field.LATE_S: event_time.late_s}
        )
        return emit_pass_telemetry(reconcile_open_flips(services, now_s=event_time.now_s), telemetry)
    # a tick is named after the start of its minute; Scheduler fires anywhere in it
    tick_at_s = int(event_time.scheduled_at_s) // MINUTE_S * MINUTE_S
    report = run_tick(services, tick_at_s=tick_at_s, now_s=event_time.now_s, kind=kind)
    if report is None:
        telemetry.info("tick already claimed", fields)
        deliver_waiting(
            services, event_time.now_s, telemetry
        )  # the tick may be that of a CLI, which cannot reach our topic
        return {"looked_at": 0}
    summary = emit_pass_telemetry(report, telemetry)
    telemetry.info(f"{len(report.decisions)} volumes evaluated", fields)
    return summary


def _kind(event: Any) -> TickKind:
    mode = event.get("mode") if isinstance(event, Mapping) else None
    if mode not in list(TickKind):
        raise EventError('the event must be {"mode": "sweep" | "focus", "time": "…"}')
    return TickKind(mode)

"""The function on schedule: looks at what is due, decides, alerts, and asks for flips."""

import time
from collections.abc import Mapping
from typing import Any, Final

from burstwatch.core.ledger.ledger import TickKind
from burstwatch.core.text import format_instant
from burstwatch.engine.watch_pass import run_tick, settle
from burstwatch.handlers.event_time import EventError, Timing
from burstwatch.handlers.pass_metrics import deliver_waiting, tell
from burstwatch.handlers.runtime import Footing, account_of, in_time, stand
from burstwatch.wiring.observability import Field, Instruments, Metric, instrumented

_MINUTE_S: Final = 60


@instrumented
def handler(event: Any, context: Any, say: Instruments) -> dict[str, Any]:
    """As EventBridge Scheduler calls it: with ``mode`` and ``time``."""
    return run(event, stand(account_of(context)), say, wall_s=time.time())


def run(event: Any, footing: Footing, say: Instruments, *, wall_s: float) -> dict[str, Any]:
    """One tick.

    Raises:
        EventError: the event is none of ours.
        PassError: a mistake of ours kept volumes from being judged.
    """
    kind = _kind(event)
    timing = Timing.of(event, footing.settings.clock, wall_s)
    say.measure(Metric.TICKS, 1)
    told = {Field.MODE: str(kind), Field.TICK: format_instant(timing.meant_s)}
    if timing.trouble is not None:
        say.warn(timing.trouble, told)
    shell = in_time(footing.asking(timing.now_s, say), say.left_s)
    if timing.is_late:
        say.measure(Metric.LATE_TICKS, 1)
        say.warn("the tick comes late: only what is open is settled", told | {Field.LATE_S: timing.late_s})
        return tell(settle(shell, now_s=timing.now_s), say)
    tick_s = int(timing.meant_s) // _MINUTE_S * _MINUTE_S
    report = run_tick(shell, tick_s=tick_s, now_s=timing.now_s, kind=kind)
    if report is None:
        say.info("another process has this tick", told)
        deliver_waiting(shell, timing.now_s, say)  # it may be a desk's, which cannot reach our topic
        return {"looked_at": 0}
    summary = tell(report, say)
    say.info(f"looked at {len(report.decisions)} volumes", told)
    return summary


def _kind(event: Any) -> TickKind:
    mode = event.get("mode") if isinstance(event, Mapping) else None
    if mode not in list(TickKind):
        raise EventError('the event must be {"mode": "sweep" | "focus", "time": "…"}')
    return TickKind(mode)

"""The heartbeat: when the watchdog last did its work, by the ticks that its ledger says are completed."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from burstctl.context.sqlite_inspect import connect_readonly
from burstctl.doctor.context import DoctorContext
from burstctl.doctor.finding import Finding, broken, ok, skipped, warning
from burstwatch.adapters.aws.errors import translate_errors
from burstwatch.core.ledger.ledger import TickKind
from burstwatch.core.policy.policy import FOCUS_TICK, CadencePolicy
from burstwatch.core.text import format_duration
from burstwatch.wiring.settings import LedgerAddress, LedgerKind

TICK_KEYS: Final[tuple[Mapping[str, Any], ...]] = tuple(
    {"pk": {"S": "ledger"}, "sk": {"S": f"{kind} tick"}} for kind in TickKind
)
"""Where the DynamoDB ledger has its ticks."""

_SILENT_PAGE: Final = "runbooks/WatchdogSilent.md"
_MAX_WATCH_INTERVAL: Final = timedelta(minutes=5)
"""``burstctl watch --every`` takes no longer span."""

_MAX_AHEAD_S: Final = 120.0  # a watchdog's clock may be two minutes off AWS's; see wiring/bootstrap


def check_heartbeat(context: DoctorContext) -> Iterator[Finding]:
    """How long ago the last focus and the last sweep were completed."""
    settings, policy = context.settings(), context.policy_or_default()
    stack = context.stack
    is_stack_ledger = stack is not None and str(settings.ledger) == stack.ledger
    completed = read_ticks(context, settings.ledger)
    watch_command = context.burstctl_command("watch")
    if not completed and not is_stack_ledger:
        summary = "no watch runs with this ledger: watch --once leaves no heartbeat"
        yield skipped(summary, fix=f"if one should run: {watch_command}, or deploy the stack (cdk deploy)")
        return
    cadence = policy.cadence
    now_s = context.now_s()
    interval = FOCUS_TICK if is_stack_ledger else _MAX_WATCH_INTERVAL
    for kind in TickKind:
        overdue_after_s = late_after_s(kind, cadence, interval=interval)
        yield judge_tick(
            kind,
            completed.get(kind),
            now_s=now_s,
            overdue_after_s=overdue_after_s,
            watch_command=watch_command,
            is_stack_ledger=is_stack_ledger,
        )


def late_after_s(kind: TickKind, cadence: CadencePolicy, *, interval: timedelta) -> float:
    """From which age on a tick is missing: one may be lost, and the next one late."""
    expected_interval = max(cadence.sweep_tick, interval) if kind is TickKind.SWEEP else interval
    return (2 * expected_interval + cadence.tick_slack).total_seconds()


def judge_tick(
    kind: TickKind,
    tick_at_s: int | None,
    *,
    now_s: float,
    overdue_after_s: float,
    watch_command: str,
    is_stack_ledger: bool,
) -> Finding:
    """Whether the last tick of a kind is as young as it has to be."""
    if tick_at_s is None:
        fix = "if it was deployed just now, wait ten minutes; else find out why it does not run"
        return broken("no pass was ever completed", subject=str(kind), fix=fix, page=_SILENT_PAGE)
    age_s = now_s - tick_at_s
    summary = f"the last was completed {format_duration(abs(age_s))} ago"
    if age_s < -_MAX_AHEAD_S:
        summary = f"the last was completed {format_duration(-age_s)} in the future"
        return warning(
            summary, subject=str(kind), fix="check the clock of the watch: its ticks come too early"
        )
    if age_s <= overdue_after_s:
        return ok(summary, subject=str(kind))
    summary = f"{summary}; normally it is never more than {format_duration(overdue_after_s)}"
    if is_stack_ledger:
        fix = "find out why it is silent; until then, watch from here"
        return broken(summary, subject=str(kind), fix=fix, commands=(watch_command,), page=_SILENT_PAGE)
    fix = "if the watch on this ledger was not stopped on purpose, start it again"
    return warning(summary, subject=str(kind), fix=fix, commands=(watch_command,), page=_SILENT_PAGE)


def read_ticks(context: DoctorContext, address: LedgerAddress) -> dict[TickKind, int]:
    """The last completed tick of each kind; a kind that never was is left out.

    Raises:
        AwsError: DynamoDB does not say.
        LedgerError: the file cannot be read.
    """
    if address.kind is LedgerKind.SQLITE:
        return read_file_ticks(address.path)
    client = context.client("dynamodb")
    ticks: dict[TickKind, int] = {}
    for kind, key in zip(TickKind, TICK_KEYS, strict=True):
        with translate_errors("dynamodb:GetItem"):
            item = client.get_item(TableName=address.name, Key=key, ConsistentRead=True).get("Item", {})
        if "completed_s" in item:
            ticks[kind] = int(item["completed_s"]["N"])
    return ticks


def read_file_ticks(path: Path) -> dict[TickKind, int]:
    """The same of a file, which is not touched."""
    if not path.exists():
        return {}
    with connect_readonly(path) as connection:
        rows = connection.execute("SELECT kind, tick_s FROM completed_ticks").fetchall()
    return {TickKind(kind): int(tick_at_s) for kind, tick_at_s in rows}

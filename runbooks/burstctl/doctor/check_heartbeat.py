"""The heartbeat: when the watchdog last did its work, by the ticks that its ledger says are completed."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from burstctl.doctor.context import Patient
from burstctl.doctor.finding import Finding, broken, ok, skipped, warning
from burstctl.doctor.sqlite_inspect import reading
from burstwatch.adapters.aws.errors import explained
from burstwatch.core.ledger.ledger import TickKind
from burstwatch.core.policy.policy import FOCUS_TICK, CadencePolicy
from burstwatch.core.text import format_duration
from burstwatch.wiring.settings import LedgerAddress, LedgerKind

TICK_KEYS: Final[tuple[Mapping[str, Any], ...]] = tuple(
    {"pk": {"S": "ledger"}, "sk": {"S": f"{kind} tick"}} for kind in TickKind
)
"""Where the DynamoDB ledger has its ticks."""

_PAGE: Final = "runbooks/WatchdogSilent.md"
_SLOWEST_WATCH: Final = timedelta(minutes=5)
"""``burstctl watch --every`` takes no longer span."""

_AHEAD_S: Final = 120.0


def check_heartbeat(patient: Patient) -> Iterator[Finding]:
    """How long ago the last focus and the last sweep were completed."""
    settings, policy = patient.settings(), patient.policy_or_default()
    stack = patient.stack
    is_stacks = stack is not None and str(settings.ledger) == stack.ledger
    completed = read_ticks(patient, settings.ledger)
    watch = patient.burstctl("watch")
    if not completed and not is_stacks:
        seen = "no watch goes on with this ledger: one that looks --once leaves no heartbeat"
        yield skipped(seen, fix=f"if somebody should: {watch}, or deploy the stack (docs/deploying.md)")
        return
    cadence = policy.cadence
    now_s = patient.now_s()
    slowest = FOCUS_TICK if is_stacks else _SLOWEST_WATCH
    for kind in TickKind:
        late_s = late_after_s(kind, cadence, slowest=slowest)
        yield judge_tick(
            kind, completed.get(kind), now_s=now_s, late_s=late_s, watch=watch, is_stacks=is_stacks
        )


def late_after_s(kind: TickKind, cadence: CadencePolicy, *, slowest: timedelta) -> float:
    """From which age on a tick is missing: one may be lost, and the next one late."""
    every = max(cadence.sweep_tick, slowest) if kind is TickKind.SWEEP else slowest
    return (2 * every + cadence.tick_slack).total_seconds()


def judge_tick(
    kind: TickKind, completed_s: int | None, *, now_s: float, late_s: float, watch: str, is_stacks: bool
) -> Finding:
    """Whether the last tick of a kind is as young as it has to be."""
    if completed_s is None:
        fix = "if it was deployed just now, wait ten minutes; else find out why it does not run"
        return broken("none was ever completed", about=str(kind), fix=fix, page=_PAGE)
    age_s = now_s - completed_s
    seen = f"the last was completed {format_duration(abs(age_s))} ago"
    if age_s < -_AHEAD_S:
        seen = f"the last was completed {format_duration(-age_s)} in the future"
        return warning(
            seen, about=str(kind), fix="see the clock of whoever watches: its ticks come too early"
        )
    if age_s <= late_s:
        return ok(seen, about=str(kind))
    seen = f"{seen}; while all is well it is never more than {format_duration(late_s)}"
    if is_stacks:
        fix = "find out why it is silent, and watch from here meanwhile"
        return broken(seen, about=str(kind), fix=fix, commands=(watch,), page=_PAGE)
    fix = "if the watch on this ledger was not ended on purpose, start it again"
    return warning(seen, about=str(kind), fix=fix, commands=(watch,), page=_PAGE)


def read_ticks(patient: Patient, address: LedgerAddress) -> dict[TickKind, int]:
    """The last completed tick of each kind; a kind that never was is left out.

    Raises:
        AwsError: DynamoDB does not say.
        LedgerError: the file cannot be read.
    """
    if address.kind is LedgerKind.SQLITE:
        return read_file_ticks(address.path)
    client = patient.client("dynamodb")
    found: dict[TickKind, int] = {}
    for kind, key in zip(TickKind, TICK_KEYS, strict=True):
        with explained("dynamodb:GetItem"):
            item = client.get_item(TableName=address.place, Key=key, ConsistentRead=True).get("Item", {})
        if "completed_s" in item:
            found[kind] = int(item["completed_s"]["N"])
    return found


def read_file_ticks(path: Path) -> dict[TickKind, int]:
    """The same of a file, which is not touched."""
    if not path.exists():
        return {}
    with reading(path) as connection:
        rows = connection.execute("SELECT kind, tick_s FROM completed_ticks").fetchall()
    return {TickKind(kind): int(tick_s) for kind, tick_s in rows}

"""The watchdog as one process on an operator's machine, with a ledger in a file."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from burstlab.fault_injection.deployment import Deployment
from burstlab.fault_injection.effects import ITEM_FAULTS, UNCHANGED, Fault, FaultModel
from burstlab.fault_injection.fault_models import CHANNEL
from burstlab.fault_injection.ledger_faults import damage_document, make_ledger_file_model
from burstlab.fault_injection.world import FaultWorld
from burstlab.harness.effects import LEDGER_WRITES, EffectProxy, RecordingChannel
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.ledger.ledger import Change, Delivery, Ledger
from burstwatch.engine.tick_pass import run_tick

_READS: Final = (
    *("states", "states_of", "holds", "manual_overrides", "fleet_snapshot"),
    *("pending_deliveries", "entries"),
)
_REPORTED_NAMES: Final = {
    "record_intent": "begin",
    "replace_with_digest": "bundle",
    "claim_delivery": "claim",
    "mark_delivered": "delivered",
    "mark_undelivered": "not_delivered",
    "manual_overrides": "window_marks",
    "fleet_snapshot": "roster",
    "pending_deliveries": "waiting",
}
"""What an effect is called in reports, if not as the method."""

_DAMAGED_COLUMNS: Final[Mapping[str, tuple[str, str, str]]] = {
    "states": ("states", "volume_id", "body"),
    "states_of": ("states", "volume_id", "body"),
    "holds": ("holds", "subject", "until_s"),
    "pending_deliveries": ("deliveries", "id", "document"),
}
"""Where what a method reads is: table, key and column."""

_WRITE_MODEL: Final = make_ledger_file_model(is_write=True)
_READ_MODEL: Final = make_ledger_file_model(is_write=False)


class FaultInjectingLedger(EffectProxy):
    """The SQLite ledger of one process; each of its methods is an effect."""

    def __init__(self, ledger: SqliteLedger, world: FaultWorld) -> None:
        self.injector = world.injector
        super().__init__(ledger, self._inject, {name: name for name in (*LEDGER_WRITES, *_READS)})

    def _inject(self, name: str, method: Any) -> Any:
        return self.injector.perform(
            f"ledger.{_REPORTED_NAMES.get(name, name)}",
            _WRITE_MODEL if name in LEDGER_WRITES else self._read_model(name, method),
            method,
            volume_ids=_volume_ids_of(method.args),
        )

    def _read_model(self, name: str, read: Callable[[], Any]) -> FaultModel:
        """A read, one row of which may be damaged."""
        if name not in _DAMAGED_COLUMNS:
            return _READ_MODEL
        alterations: dict[str, Any] = {
            fault: partial(self._read_damaged, name, fault, read) for fault in ITEM_FAULTS
        }
        return replace(_READ_MODEL, alterations=alterations)

    def _read_damaged(self, name: str, fault: Fault, read: Callable[[], Any], *_: Any) -> Any:
        """The result of the read with its first row damaged."""
        table, key, column = _DAMAGED_COLUMNS[name]
        connection = self.target._connection  # noqa: SLF001 - only faults damage it
        row = connection.execute(f"SELECT {key}, {column} FROM {table} LIMIT 1").fetchone()  # noqa: S608 - ours
        damaged = damage_document(row[1], fault) if row and isinstance(row[1], str) else None
        if row and isinstance(row[1], int) and fault is not Fault.LATER:
            damaged = "noon"
        if row is None or damaged is None:
            return UNCHANGED
        statement = f"UPDATE {table} SET {column} = ? WHERE {key} = ?"  # noqa: S608 - as above
        connection.execute(statement, (damaged, row[0]))
        try:
            return read()
        finally:
            connection.execute(statement, (row[1], row[0]))


def _volume_ids_of(args: tuple[Any, ...]) -> frozenset[str]:
    """The volumes that a call of the ledger or of a channel is about."""
    match args:
        case [Change(volume_id=volume_id), *_]:
            return frozenset({volume_id})
        case [[*changes], *_] if all(isinstance(change, Change) for change in changes):
            return frozenset(change.volume_id for change in changes)
        case [Delivery(alert=alert)] | [Alert() as alert]:
            return frozenset(filter(None, [alert.volume_id]))
        case [set() | frozenset() as volume_ids]:
            return frozenset(volume_ids)
    return frozenset()


class CliDeployment(Deployment):
    """``burstctl watch --act``: one process, a ledger in a file, a pass a minute."""

    name = "desk"

    def __init__(self, world: FaultWorld, directory: Path) -> None:
        super().__init__(world)
        self._path = directory / "ledger.db"
        self.ledger: Ledger = SqliteLedger.open(self._path)
        self._process_ledger = SqliteLedger.open(self._path)
        self._start()

    def _start(self) -> None:
        world, ec2 = self._world, self.make_ec2()
        ledger: Any = FaultInjectingLedger(self._process_ledger, world)
        channel = RecordingChannel(lambda alert: world.record_alert(alert.to_document()), self._deliver)
        self._services = self.make_services(ledger, ec2, [channel], modifier=Ec2Modifier(ec2))

    def _deliver(self, _: str, send: Any) -> None:
        self._world.injector.perform("channel.send", CHANNEL, send, volume_ids=_volume_ids_of(send.args))

    def _restart(self) -> None:
        """Everything that the process before knew is in the file."""
        self._process_ledger.close()
        self._process_ledger = SqliteLedger.open(self._path)
        self._start()

    def run_minute(self, tick_s: int) -> None:
        self._world.injector.start_process("watch")
        self.run_process(lambda: self._run_pass(tick_s), restart=self._restart)

    def _run_pass(self, tick_s: int) -> None:
        report = run_tick(self._services, tick_at_s=tick_s, now_s=self._world.now_s)
        if report is not None:
            self._world.internal_errors += report.internal_errors

    def run_operator_change(self, change: Callable[[Any], object]) -> bool:
        self._world.injector.start_process("operator")
        with SqliteLedger.open(self._path) as operator_ledger:
            return self.run_process(lambda: change(FaultInjectingLedger(operator_ledger, self._world)))

    def deliver_event(self, event: Mapping[str, Any]) -> None:
        """Without a stack, EventBridge has no target."""

    def close(self) -> None:
        for ledger in (self.ledger, self._process_ledger):
            ledger.close()  # type: ignore[attr-defined]

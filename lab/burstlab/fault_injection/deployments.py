"""The two ways the watchdog runs: from a desk with a ledger in a file, and deployed as three functions."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Protocol, cast

from burstlab.fault_injection import fault_models
from burstlab.fault_injection.clients import CloudWatch, DynamoClient, Ec2, Sns, Sqs, Ssm, Unbilled
from burstlab.fault_injection.effects import ITEM_FAULTS, SAME, Fault, Killed, Nature
from burstlab.fault_injection.world import NAMES, POLICY, SINCE, SimulatedShell, World
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader
from burstwatch.adapters.aws.drain_metrics import CauseReader
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.aws.flip_queue import FlipQueue
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.adapters.ledger.dynamodb_notes import Notes
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.notify.sns import SnsChannel
from burstwatch.adapters.policy.parameter_store import PolicyParameter
from burstwatch.adapters.policy.yaml_file import parse_policy
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.ledger.ledger import Change, Delivery, Ledger
from burstwatch.core.location import Place
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import format_instant
from burstwatch.engine.watch_pass import run_tick
from burstwatch.handlers import flip, settle, watch
from burstwatch.handlers.runtime import Footing
from burstwatch.wiring.bootstrap import origin_of
from burstwatch.wiring.function_settings import FunctionClock, FunctionSettings

_REGION: Final = "us-east-1"
_ACCOUNT: Final = "123456789012"
_SWEEP_S: Final = 300


class House(Protocol):
    """A way to run; ``ledger`` is for who judges, and none of what it does is an effect."""

    name: str
    ledger: Ledger

    def minute(self, tick_s: int) -> None:
        """Do what is due at a whole minute."""
        ...

    def operate(self, do: Callable[[Any], object]) -> bool:
        """A person changes something in the ledger; False where that failed, and is to be tried again."""
        ...

    def tell(self, event: Mapping[str, Any]) -> None:
        """An event comes from EventBridge, where anybody listens."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits between its parts."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


def _attempt(world: World, do: Callable[[], object], *, reborn: Callable[[], object]) -> bool:
    """Whether a process did its work to the end."""
    try:
        do()
    except Killed:
        reborn()
    except BurstwatchError:
        world.failed_passes += 1
    except Exception as error:  # noqa: BLE001 - judged as a mistake of the product's
        world.bugs.append(f"{type(error).__name__}: {error}")
    else:
        return True
    return False


def _cloudwatch(world: World, nature: Nature) -> Any:
    return CloudWatch(world.fleet, world.wire, nature)


@cache
def _policy() -> Policy:
    return parse_policy(POLICY.encode(), source="the campaign's policy")


def _do_not_sleep(_: float) -> None:
    """Simulated time does not go by in pauses of milliseconds."""


def _shell(world: World, ledger: Ledger, ec2: Any, channels: Any, **rest: Any) -> SimulatedShell:
    return SimulatedShell(
        ec2=Ec2Reader(ec2),
        cloudwatch=CloudWatchReader(
            _cloudwatch(world, fault_models.GET_METRICS), workers=1, sleep=_do_not_sleep
        ),
        causes=CauseReader(_cloudwatch(world, fault_models.GET_CAUSES)),
        ledger=ledger,
        calls=CallCounter(),
        policy=_policy(),
        place=Place(region=_REGION, account=_ACCOUNT),
        channels=channels,
        clock=world.fleet.clock.now_s,
        **rest,
    )


# From a desk

_WRITES: Final = frozenset(
    (
        "commit",
        "begin",
        "place_hold",
        "lift_hold",
        "claim_tick",
        "renew_tick",
        "complete_tick",
        "bundle",
        "claim",
        "delivered",
        "not_delivered",
    )
)
_READS: Final = frozenset(("states", "states_of", "holds", "window_marks", "roster", "waiting", "entries"))


class LedgerFile:
    """The SQLite ledger of one process; each of its methods is an effect."""

    def __init__(self, ledger: SqliteLedger, world: World) -> None:
        self._ledger = ledger
        self._wire = world.wire

    def __getattr__(self, name: str) -> Any:
        known = getattr(self._ledger, name)
        if name not in _WRITES | _READS:
            return known

        def carry(*given: Any, **named: Any) -> Any:
            about = _volumes_of(given)
            nature = _FILE_WRITE
            if name in _READS:
                nature = self._reading(name, lambda: known(*given, **named))
            return self._wire.carry(f"ledger.{name}", nature, lambda: known(*given, **named), about=about)

        return carry

    def _reading(self, name: str, again: Callable[[], Any]) -> Nature:
        """A read, of which one row may be damaged."""
        if name not in _ROWS:
            return _FILE_READ
        alters: dict[str, Any] = {fault: partial(self._spoiled, name, fault, again) for fault in ITEM_FAULTS}
        return replace(_FILE_READ, alters=alters)

    def _spoiled(self, name: str, fault: Fault, again: Callable[[], Any], *_: Any) -> Any:
        """What the read answers while its first row is damaged."""
        table, key, column = _ROWS[name]
        connection = self._ledger._connection  # noqa: SLF001 - nobody else damages it
        row = connection.execute(f"SELECT {key}, {column} FROM {table} LIMIT 1").fetchone()  # noqa: S608 - ours
        spoiled = fault_models.spoil(row[1], fault) if row and isinstance(row[1], str) else None
        if row and isinstance(row[1], int) and fault is not Fault.LATER:
            spoiled = "noon"
        if row is None or spoiled is None:
            return SAME
        put_in = f"UPDATE {table} SET {column} = ? WHERE {key} = ?"  # noqa: S608 - as above
        connection.execute(put_in, (spoiled, row[0]))
        try:
            return again()
        finally:
            connection.execute(put_in, (row[1], row[0]))


_ROWS: Final[Mapping[str, tuple[str, str, str]]] = {
    "states": ("states", "volume_id", "body"),
    "states_of": ("states", "volume_id", "body"),
    "holds": ("holds", "subject", "until_s"),
    "waiting": ("deliveries", "id", "document"),
}
"""Where what a method reads is: table, key and column."""

_FILE_WRITE: Final = fault_models.ledger_file(changes=True)
_FILE_READ: Final = fault_models.ledger_file(changes=False)


def _volumes_of(given: tuple[Any, ...]) -> frozenset[str]:
    """The volumes that a call of the ledger is about."""
    match given:
        case [Change(volume_id=volume_id), *_]:
            return frozenset({volume_id})
        case [[*changes], *_] if all(isinstance(each, Change) for each in changes):
            return frozenset(each.volume_id for each in changes)
        case [Delivery(alert=alert)]:
            return frozenset(filter(None, [alert.volume_id]))
        case [set() | frozenset() as ids]:
            return frozenset(ids)
    return frozenset()


class People:
    """A channel to people."""

    name = "people"

    def __init__(self, world: World) -> None:
        self._world = world

    def send(self, alert: Alert) -> None:
        """Hand an alert over."""
        about = frozenset(filter(None, [alert.volume_id]))
        do = lambda: self._world.hear(alert.to_document())  # noqa: E731 - it is done by the wire
        self._world.wire.carry("channel.send", fault_models.CHANNEL, do, about=about)


class Desk:
    """``burstctl watch --act``: one process, a ledger in a file, a pass a minute."""

    name = "desk"

    def __init__(self, world: World, folder: Path) -> None:
        self._world = world
        self._path = folder / "ledger.db"
        self.ledger: Ledger = SqliteLedger.open(self._path)
        self._own: SqliteLedger | None = None
        self._be_born()

    def _be_born(self) -> None:
        """Everything that the process before knew is in the file."""
        world = self._world
        if self._own is not None:
            self._own.close()
        self._own = SqliteLedger.open(self._path)
        ec2 = Ec2(world.fleet, world.wire, world.note_send)
        ledger = cast("Ledger", LedgerFile(self._own, world))
        self._shell = _shell(world, ledger, ec2, [People(world)], modifier=Ec2Modifier(cast("Any", ec2)))

    def minute(self, tick_s: int) -> None:
        self._world.wire.begin("watch")
        _attempt(self._world, lambda: self._pass(tick_s), reborn=self._be_born)

    def _pass(self, tick_s: int) -> None:
        report = run_tick(self._shell, tick_s=tick_s, now_s=self._world.now_s)
        if report is not None:
            self._world.bugs += report.bugs

    def operate(self, do: Callable[[Any], object]) -> bool:
        self._world.wire.begin("operator")
        with SqliteLedger.open(self._path) as own:
            return _attempt(self._world, lambda: do(LedgerFile(own, self._world)), reborn=lambda: None)

    def tell(self, event: Mapping[str, Any]) -> None:
        """Nobody listens at a desk."""

    @property
    def is_idle(self) -> bool:
        return True

    def close(self) -> None:
        for ledger in (self.ledger, self._own):
            cast("SqliteLedger", ledger).close()


# Deployed

_TABLE: Final = "burstwatch-ledger"
_NAME: Final = "burstwatch"
_POLICY_NAME: Final = f"/burstwatch/{_NAME}/policy"
_TOPIC: Final = f"arn:aws:sns:{_REGION}:{_ACCOUNT}:alerts"
_QUEUE: Final = f"https://sqs.{_REGION}.amazonaws.com/{_ACCOUNT}/flips.fifo"
_CARD: Final = {
    "schema": "burstwatch.deployment/v1",
    "name": _NAME,
    "ledger": f"dynamodb:{_TABLE}",
    "policy": _POLICY_NAME,
    "topic_arn": _TOPIC,
    "flips": True,
    "opt_in_tag": {"key": "burstwatch:mode", "value": "auto"},
}
_LASTS_S: Final = {"watch": 300.0, "flip": 50.0, "settle": 30.0}
"""After so long Lambda ends a function, as the stack has it."""

_PATIENCE_S: Final = {"watch": 24.0, "flip": 16.0, "settle": 24.0}
"""Three attempts of 8 s, or two, as the clients of the functions are configured."""

_RUNS: Final[Mapping[str, Callable[..., object]]] = {
    "watch": watch.run,
    "flip": flip.run,
    "settle": settle.run,
}
_ON_THE_WAY_S: Final = 3
"""How long a message takes from one function to another."""

_MOST_RECEIVES: Final = 5
_MOST_EVENT_RECEIVES: Final = 3


class _Ears:
    """Instruments that hear only of mistakes."""

    def __init__(self, world: World) -> None:
        self._world = world

    def left_s(self) -> float:
        """Who strikes ends a function that takes too long."""
        return float("inf")

    def measure(self, *_: object) -> None:
        """Nobody counts here."""

    info = warn = error = measure

    def bug(self, message: str, error: Exception, *_: object) -> None:
        self._world.bugs.append(f"{message}: {type(error).__name__}: {error}")


class _Waiting:
    """A message or an event that was not done yet, and how often it was tried."""

    def __init__(self, body: Any, sent_s: float = 0.0) -> None:
        self.body = body
        self.sent_s = sent_s
        self.tries = 0

    def record(self, message_id: str) -> dict[str, Any]:
        """As Lambda takes it from a queue."""
        attributes = {"SentTimestamp": str(int(self.sent_s * 1000))}
        return {"messageId": message_id, "body": json.dumps(self.body), "attributes": attributes}


class Deployed:
    """The stack: watch, flip and settle, each a process of its own; ledger, topic, queue and parameters."""

    name = "deployed"

    def __init__(self, world: World, folder: Path) -> None:  # noqa: ARG002 - as every house is made
        self._world = world
        self._table = Unbilled(table=_TABLE)
        self.ledger: Ledger = self._open(DynamoClient(self._table))
        self._sqs = Sqs(world.wire, world.fleet.clock.now_s)
        self._footings: dict[str, Footing] = {}
        self._messages: list[_Waiting] = []
        self._events: list[_Waiting] = []
        self._say: Any = _Ears(world)

    def _open(self, client: DynamoClient) -> DynamoLedger:
        clock = self._world.fleet.clock.now_s
        return DynamoLedger(client, _TABLE, workers=1, sleep=_do_not_sleep, clock=clock)

    def _stand(self, verb: str) -> Footing:
        """The footing of a function: made by its first invocation, kept while it lives."""
        if verb not in self._footings:
            self._footings[verb] = self._build(verb)
        return self._footings[verb]

    def _build(self, verb: str) -> Footing:
        world, now_s = self._world, self._world.fleet.clock.now_s
        client = DynamoClient(self._table, world.wire)
        ledger = self._open(client)
        ledger.bind(origin_of(_ACCOUNT, _REGION))
        ec2 = Ec2(world.fleet, world.wire, world.note_send)
        topic = SnsChannel(cast("Any", Sns(world.wire, world.hear)), _TOPIC)
        ssm: Any = Ssm(
            world.wire,
            {_POLICY_NAME: POLICY, f"/burstwatch/deployments/{_NAME}": json.dumps(_CARD)},
            SINCE,
        )
        notes = Notes(client, _TABLE, sleep=_do_not_sleep)
        return Footing(
            settings=FunctionSettings(
                region=_REGION,
                table=_TABLE,
                clock=FunctionClock.WALL,
                topic_arn=_TOPIC,
                policy_parameter=_POLICY_NAME,
                deployment=_NAME,
                flip_queue_url=_QUEUE,
            ),
            base=_shell(world, ledger, ec2, [topic]),
            policies=PolicyParameter(ssm, _POLICY_NAME, deployment=_NAME, notes=notes, clock=now_s),
            notes=notes,
            parameters=ssm,
            modifier=Ec2Modifier(cast("Any", ec2)),
            queue=None if verb == "flip" else FlipQueue(cast("Any", self._sqs), _QUEUE),
            clock=now_s,
        )

    def minute(self, tick_s: int) -> None:
        """The schedules first, then what they asked for, then what EventBridge has."""
        kinds = ["sweep", "focus"] if tick_s % _SWEEP_S == 0 else ["focus"]
        for kind in kinds:
            self._invoke("watch", {"mode": kind, "time": format_instant(tick_s)})
        self._world.fleet.clock.advance(_ON_THE_WAY_S)
        self._sqs.forge(NAMES)
        self._messages += map(_Waiting, self._sqs.waiting)
        self._sqs.waiting.clear()
        self._messages = self._work("flip", self._messages)
        self._events = self._settle(self._events)

    def _work(self, verb: str, waiting: list[_Waiting]) -> list[_Waiting]:
        """Those that failed, and are tried again in a minute."""
        left = []
        for one in waiting:
            one.tries += 1
            if not self._invoke(verb, one.body) and one.tries < _MOST_RECEIVES:
                left.append(one)
        return left

    def _settle(self, waiting: list[_Waiting]) -> list[_Waiting]:
        """Those of a batch of events that failed, and are tried again in a minute."""
        if not waiting:
            return []
        records = [one.record(str(number)) for number, one in enumerate(waiting)]
        answers: list[Any] = []
        if not self._invoke("settle", {"Records": records}, answers.append):
            failed = {record["messageId"] for record in records}
        else:
            failed = {each["itemIdentifier"] for each in answers[0]["batchItemFailures"]}
        for one in waiting:
            one.tries += 1
        return [
            one
            for one, record in zip(waiting, records, strict=True)
            if record["messageId"] in failed and one.tries < _MOST_EVENT_RECEIVES
        ]

    def _invoke(
        self, verb: str, event: Any, answer: Callable[[object], object] = lambda _answer: None
    ) -> bool:
        self._world.wire.begin(verb, lasts_s=_LASTS_S[verb], patience_s=_PATIENCE_S[verb])
        now_s = self._world.fleet.clock.now_s
        return _attempt(
            self._world,
            lambda: answer(_RUNS[verb](event, self._stand(verb), self._say, wall_s=now_s())),
            reborn=lambda: self._footings.pop(verb, None),
        )

    def operate(self, do: Callable[[Any], object]) -> bool:
        self._world.wire.begin("operator")
        own = self._open(DynamoClient(self._table, self._world.wire))
        return _attempt(self._world, lambda: do(own), reborn=lambda: None)

    def tell(self, event: Mapping[str, Any]) -> None:
        self._events.append(_Waiting(event, self._world.fleet.clock.now_s()))

    @property
    def is_idle(self) -> bool:
        return not (self._messages or self._events or self._sqs.waiting or self._sqs.forgeries)

    def close(self) -> None:
        """Nothing is open: the table is in memory."""


HOUSES: Final[Mapping[str, Callable[[World, Path], House]]] = {Desk.name: Desk, Deployed.name: Deployed}

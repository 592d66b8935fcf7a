"""A crowd of watchdogs, each a process, on one fleet and one ledger: told the time at once, and killed."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

from burstlab.concurrency.scenario import MINUTES, POLICY, Story
from burstlab.concurrency.worker import Orders, Told, live
from burstlab.deployed.local_aws import LocalAws
from burstlab.fake_aws.server import Endpoint
from burstwatch.adapters.ledger.dynamodb import DynamoLedger
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.ledger.ledger import Ledger

QUIET_MIN: Final = 6
"""So long nobody is killed at the end: what is wrong then stays wrong."""

_ANSWERS_WITHIN_S: Final = 120.0
_TABLE: Final = "burstwatch-crowd"
_PASS_BEGINS_S: Final = 2


_HOUR_S: Final = 3_600.0
_RIGHT_WITHIN_S: Final = 0.05
"""No two clocks are the same."""
_APART_S: Final = 90.0
"""The first clock and the last: each is within two minutes of AWS's, which the watchdog insists on."""
_JUMPS_S: Final = (0.0,) * 4 + (_HOUR_S,) * 3 + (0.0, -20.0, 0.0, 20.0) + (-_HOUR_S,) * 3 + (0.0, -75.0, 70.0)
"""An hour ahead for three minutes, steps of seconds, an hour behind for three, and a step of over two."""
_JUMPS_LATER: Final = 3
"""So many minutes each one is before the next: of two, never both are wrong."""


class Clocks(StrEnum):
    """What the clocks show: AWS's time to the second, up to 90 s apart, or the last one's an hour wrong."""

    RIGHT = "right"
    APART = "apart"
    AHEAD = "ahead"
    BEHIND = "behind"
    JUMPING = "jumping"


class CrowdError(BurstwatchError):
    """A member of the crowd did not do what was asked; the message says what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Who watches: so many processes, and by which clocks.

    With ``dies_at`` the first is mortal: it is killed at its effect of that number in each of its lives, and
    started again so many ticks later.
    """

    watchdogs: int
    ledger: str = "sqlite"
    clocks: Clocks = Clocks.RIGHT
    dies_at: int | None = None
    returns_after: int = 2
    minutes: int = MINUTES

    def offset_s(self, number: int, minute: int) -> float:
        """How far ahead one's clock is at a minute of the story."""
        is_last = number == self.watchdogs - 1
        match self.clocks:
            case Clocks.APART:
                return number * _APART_S / (self.watchdogs - 1) - _APART_S / 2
            case Clocks.AHEAD:
                return _HOUR_S if is_last else number * _RIGHT_WITHIN_S
            case Clocks.BEHIND:
                return -_HOUR_S if is_last else number * _RIGHT_WITHIN_S
            case Clocks.JUMPING:
                return _JUMPS_S[(minute + _JUMPS_LATER * number) % len(_JUMPS_S)]
        return number * _RIGHT_WITHIN_S


@dataclass(slots=True, kw_only=True)
class Course:
    """What became of each tick, as the members tell it: None of one that was not there, or died in it."""

    ticks: list[Sequence[Told | None]] = field(default_factory=list)
    deaths: int = 0
    processor_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A story that is over: what AWS knows, what the ledger says, and what people got."""

    setup: Setup
    story: Story
    ledger: Ledger
    course: Course
    outbox: Sequence[str]


@contextmanager
def play(setup: Setup, *, aws: LocalAws | None = None) -> Iterator[Scene]:
    """Let the crowd live through the story; ``aws`` is a local AWS whose DynamoDB is to hold the ledger."""
    story = Story.begin()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="burstlab-crowd-")))
        endpoint = stack.enter_context(Endpoint(story.fleet))
        environ = endpoint.environment | {"BURSTWATCH_CLOCK": "wall", "HOME": str(folder)}
        if aws is None:
            address = f"sqlite:{folder / 'ledger.db'}"
            ledger: Ledger = stack.enter_context(SqliteLedger.open(folder / "ledger.db", lock_timeout_s=30))
        else:
            environ["AWS_ENDPOINT_URL_DYNAMODB"] = aws.url
            address = f"dynamodb:{_TABLE}"
            ledger = DynamoLedger(_new_table(aws), _TABLE)
        (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
        outbox = folder / "outbox"
        outbox.touch()
        story.prepare(ledger)
        orders = Orders(
            environ=environ,
            ledger=address,
            policy=folder / "policy.yaml",
            outbox=outbox,
            now_s=story.now_s,
        )
        crowd = stack.enter_context(_Crowd(setup, orders))
        course = _live_through(crowd, story, setup)
        crowd.dismiss()
        told = outbox.read_text(encoding="utf-8").splitlines()
        yield Scene(setup=setup, story=story, ledger=ledger, course=course, outbox=told)


def _live_through(crowd: "_Crowd", story: Story, setup: Setup) -> Course:
    course = Course()
    for minute in range(setup.minutes + QUIET_MIN):
        story.fleet.clock.advance(60 + _PASS_BEGINS_S - story.now_s % 60)
        story.happen(minute)
        crowd.wake(is_mortal=minute < setup.minutes)
        course.ticks.append(crowd.tick(story.fleet.clock.now_s()))
    course.deaths = crowd.deaths
    course.processor_s = sum(told.processor_s for told in course.ticks[-1] if told)
    return course


@dataclass(slots=True)
class _Member:
    process: ForkServerProcess
    wire: Connection

    def hear(self) -> Told | None:
        """What became of its pass; None where it was killed in it."""
        if not self.wire.poll(_ANSWERS_WITHIN_S):
            raise CrowdError(f"a watchdog has not answered within {_ANSWERS_WITHIN_S:g} s")
        try:
            told: Told = self.wire.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            return None
        return told

    def end(self) -> None:
        self.wire.close()
        self.process.kill()
        self.process.join()
        self.process.close()


class _Crowd:
    """The members; the first is the mortal one, and is started anew every time."""

    def __init__(self, setup: Setup, orders: Orders) -> None:
        self._setup = setup
        self._orders = orders
        self._members: list[_Member | None] = [None] * setup.watchdogs
        self._lives = 0
        self._absent = 0
        self._ticks = 0
        self.deaths = 0

    def wake(self, *, is_mortal: bool) -> None:
        """Start everybody who is not there; the mortal one for good, unless it ``is_mortal`` still."""
        if not is_mortal and self._lives:
            self._end(0)
            self._absent = self._lives = 0
        self._absent = max(0, self._absent - 1)
        starting = [number for number, member in enumerate(self._members) if member is None]
        if self._absent:
            starting.remove(0)
        for number in starting:
            self._members[number] = self._start(is_mortal=is_mortal and number == 0)
        for number in starting:
            self._hear_first(number)

    def tick(self, now_s: float) -> list[Told | None]:
        """Tell everybody who lives the time, at once, each time another one first, and hear what they did."""
        there = list(self._members)
        first = self._ticks % len(there)
        for number in [*range(first, len(there)), *range(first)]:
            if (member := there[number]) is not None:
                member.wire.send(now_s + self._setup.offset_s(number, self._ticks))
        told = [None if member is None else member.hear() for member in there]
        for number, (member, answer) in enumerate(zip(there, told, strict=True)):
            if member is not None and answer is None:
                self._bury(number)
        self._ticks += 1
        return told

    def dismiss(self) -> None:
        """Send everybody home."""
        for member in self._members:
            if member is not None:
                member.wire.send(None)
                member.process.join(_ANSWERS_WITHIN_S)
        self._end_all()

    def _start(self, *, is_mortal: bool) -> _Member:
        dies_at = self._setup.dies_at if is_mortal else None
        orders = replace(self._orders, dies_at=dies_at, dies_after=self._lives % 2 == 1)
        self._lives += dies_at is not None
        ours, theirs = _context().Pipe()
        process = _context().Process(target=live, args=(orders, theirs), daemon=True)
        process.start()
        theirs.close()
        return _Member(process, ours)

    def _hear_first(self, number: int) -> None:
        """Wait until it is ready; one that is killed before that stays away for this tick."""
        member = self._members[number]
        if member is not None and member.hear() is None:
            self._bury(number)

    def _bury(self, number: int) -> None:
        if number != 0 or self._setup.dies_at is None:
            raise CrowdError(f"watchdog {number + 1} ended by itself; nothing was to kill it")
        self.deaths += 1
        self._absent = self._setup.returns_after
        self._end(number)

    def _end(self, number: int) -> None:
        member, self._members[number] = self._members[number], None
        if member is not None:
            member.end()

    def _end_all(self) -> None:
        for number in range(len(self._members)):
            self._end(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_all()


@cache
def _context() -> ForkServerContext:
    """Processes that begin with everything imported, and share nothing else."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["burstlab.concurrency.forkserver_preload"])
    return context


def _new_table(aws: LocalAws) -> Any:
    """A client of DynamoDB with an empty table, made as the stack makes it but for what only AWS does."""
    client = aws.client("dynamodb")
    if _TABLE in client.list_tables()["TableNames"]:
        client.delete_table(TableName=_TABLE)
        client.get_waiter("table_not_exists").wait(TableName=_TABLE, WaiterConfig={"Delay": 1})
    keys = {"pk": "HASH", "sk": "RANGE"}
    client.create_table(
        TableName=_TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
    )
    client.get_waiter("table_exists").wait(TableName=_TABLE, WaiterConfig={"Delay": 1})
    return client

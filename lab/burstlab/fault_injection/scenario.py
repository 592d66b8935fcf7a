"""The story: volumes drain, are moved, return and stay, while a person holds one and a host reports a stall.

It goes on from minute to minute until nothing is open any more. A run in which something is struck is lived
through to such an end as well, and some minutes longer, in which nothing more may happen.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final, NamedTuple

from burstlab.fault_injection.deployments import HOUSES, House
from burstlab.fault_injection.deterministic import alone
from burstlab.fault_injection.effects import Strike
from burstlab.fault_injection.world import (
    BEGINS_AT,
    CALM,
    HELD,
    HOST,
    SICK,
    TWIN,
    UNTAGGED,
    Course,
    Entry,
    Made,
    Standing,
    World,
)
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment import host_stall
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import Ledger, VolumeState
from burstwatch.core.text import format_instant
from burstwatch.handlers import settle

MINUTE_S: Final = 60
_HELD_FOR_MIN: Final = 1
_HELD_TO_MIN: Final = 14
_STALL_MIN: Final = 4
_BUSY_AFTER_MIN: Final = 2
_SCRIPT_MIN: Final = 13
_QUIET_MIN: Final = 2
_LONGEST_MIN: Final = 75
_BECOMES: Final = {SICK: "io1", TWIN: "gp3", HELD: "gp3"}
ENDS_AS: Final = {SICK: "gp2", TWIN: "gp3", HELD: "gp3", CALM: "gp2", UNTAGGED: "gp2"}
"""What each volume is in the end."""

_FOLDER: Final = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it
"""Where there is memory for files, a ledger is not slowed down by a disk that other work wears."""


def play(house_name: str, strike: Strike | None = None) -> Course:
    """One run of the story."""
    began = process_time()
    world = World.begin(strike, records=strike is None)
    shared = _FOLDER if _FOLDER.is_dir() else None
    with TemporaryDirectory(prefix="burstlab-faults-", dir=shared) as folder, alone(world.fleet.clock.now_s):
        house = HOUSES[house_name](world, Path(folder))
        world.ledger = house.ledger
        try:
            is_at_rest = _live(world, house)
            return _course(world, house, is_at_rest=is_at_rest, took_s=process_time() - began)
        finally:
            house.close()


def _live(world: World, house: House) -> bool:
    """Whether all came to rest."""
    begins_s, clock = int(BEGINS_AT.timestamp()), world.fleet.clock
    errands = _errands(world)
    heard, quiet = 0, 0
    while (minute := (world.now_s - begins_s) // MINUTE_S + 1) <= _LONGEST_MIN:
        tick_s = begins_s + minute * MINUTE_S
        clock.advance(tick_s - clock.now_s())
        _relieve(world)
        errands = [do for do in errands if not (_is_due(do, world, minute) and house.operate(do.deed))]
        events = world.fleet.events
        for event in events[heard:]:
            house.tell(event.body)
        heard = len(events)
        if minute == _STALL_MIN:
            house.tell(_stall(world.now_s))
        house.minute(tick_s)
        world.check_originals()
        is_over = minute >= _SCRIPT_MIN and not errands and house.is_idle
        quiet = quiet + 1 if is_over and _rests(world, house.ledger) else 0
        world.wire.records = world.wire.records and not quiet
        if quiet > _QUIET_MIN:
            return True
    return False


def _relieve(world: World) -> None:
    """Who moved a volume stops asking so much of it a little after it has arrived, whoever knows of that."""
    for volume_id, kind in _BECOMES.items():
        volume = world.fleet.find(volume_id)
        if volume.volume_type == kind and volume.change is None and volume_id not in world.relieved:
            world.relieved.add(volume_id)
            at = world.fleet.clock.now() + timedelta(minutes=_BUSY_AFTER_MIN)
            world.fleet.set_load(volume_id, "idle", at)


class _Errand(NamedTuple):
    """What a person does to the ledger, and how many minutes after what; at ``latest_min`` in any case."""

    deed: Callable[[Any], object]
    latest_min: int
    after: AlertKind | None = None


def _errands(world: World) -> list[_Errand]:
    """A person holds a volume, and lets go of it some minutes after she heard what that prevented."""
    now_s = world.now_s
    hold = Hold(volume_id=HELD, by="ann", reason="backup", placed_at_s=now_s, until_s=now_s + 24 * 3600)
    return [
        _Errand(lambda ledger: ledger.place_hold(hold), 0),
        _Errand(
            lambda ledger: ledger.lift_hold(HELD, by="ann", at_s=world.now_s),
            _HELD_TO_MIN,
            AlertKind.FLIP_REFUSED,
        ),
    ]


def _is_due(errand: _Errand, world: World, minute: int) -> bool:
    """Whether a person does it now; what fails is tried again a minute later."""
    heard_s = [one.at_s for one in world.told if (one.volume_id, one.kind) == (HELD, errand.after)]
    is_heard = bool(heard_s) and world.now_s - heard_s[0] >= _HELD_FOR_MIN * MINUTE_S
    return is_heard or minute >= errand.latest_min


def _stall(now_s: int) -> Mapping[str, Any]:
    """What ddprobe reports from the host."""
    return {
        "source": settle.PROBE_SOURCE,
        "detail-type": "stall",
        "time": format_instant(now_s),
        "detail": {
            "schema": host_stall.SCHEMA,
            "instance_id": HOST,
            "volume_id": UNTAGGED,
            "verdict": "crit",
            "cause": "throttled",
            "total_s": 8.25,
            "started_at": format_instant(now_s - 20),
            "top": [{"comm": "systemd-udevd", "wchan": "blk_mq_get_tag", "count": 3}],
        },
    }


def _rests(world: World, ledger: Ledger) -> bool:
    """Whether nothing is open: every volume is where it should be, the ledger knows, and people were told."""
    states = ledger.states()
    for volume_id, kind in ENDS_AS.items():
        volume, state = world.fleet.find(volume_id), states.get(volume_id)
        flip = state.flip if state else None
        is_there = volume.volume_type == kind and volume.change is None
        is_known = flip is None if kind == "gp2" else flip is not None and flip.is_settled
        if not (is_there and is_known):
            return False
    has_alerted = any(state.alerted_level is not None for state in states.values())
    return not has_alerted and not _waiting(ledger)


def _waiting(ledger: Ledger) -> int:
    return len(ledger.waiting(channels=["people", "sns"]))


def _course(world: World, house: House, *, is_at_rest: bool, took_s: float) -> Course:
    ledger, wire = house.ledger, world.wire
    volume_ids = [volume.volume_id for volume in world.fleet]
    made = [
        Made(int(one.started_at.timestamp()), volume_id, one.target.volume_type)
        for volume_id in volume_ids
        for one in world.fleet.modifications(volume_id)
    ]
    entries = [
        Entry(entry.at_s, volume_id, str(entry.kind), dict(entry.body))
        for volume_id in volume_ids
        for entry in ledger.entries(volume_id)
    ]
    return Course(
        house=house.name,
        strike=wire.strike,
        begins_s=int(BEGINS_AT.timestamp()),
        ended_s=world.now_s,
        struck_at_s=wire.struck_at_s,
        deaths=wire.deaths,
        is_at_rest=is_at_rest,
        effects=wire.effects,
        told=world.told,
        sent=world.sent,
        made=made,
        entries=entries,
        standings=[_standing(each) for each in ledger.states().values()],
        types={volume.volume_id: volume.volume_type for volume in world.fleet},
        lost=world.lost,
        dry_from_s={
            volume_id: int(dry_at.timestamp())
            for volume_id in volume_ids
            if (dry_at := world.fleet.truth(volume_id).first_dry_at) is not None
        },
        undelivered=_waiting(ledger),
        bugs=world.bugs,
        failed_passes=world.failed_passes,
        took_s=took_s,
    )


def _standing(state: VolumeState) -> Standing:
    return Standing(
        volume_id=state.volume_id,
        level=str(state.level),
        phase=str(state.flip.phase) if state.flip else None,
        spent=tuple(one.at_s for one in state.spent),
        is_contested=state.contested_at_s is not None,
    )

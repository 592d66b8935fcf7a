"""Whether a crowd of watchdogs did what one does: what was modified, told and remembered, law by law."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from burstctl.watch.loop import PassResult
from burstlab.concurrency.runner import QUIET_MIN, Clocks, Scene
from burstlab.concurrency.scenario import WINDOW_NAME
from burstlab.concurrency.worker import CHANNEL, Told
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ledger.flip_state import SAME_START_S
from burstwatch.core.ledger.ledger import EntryKind, LedgerEntry, VolumeState

SCHEMA: Final = "burstwatch.lab.crowd/v1"
_DONE: Final = (PassResult.COMPLETE, PassResult.PARTIAL)
_SWEEP_S: Final = 300
_CLOCKS_DIFFER_S: Final = 120
"""By so much a clock may be ahead of AWS's; the sweep it has done is ahead with it."""
_OF_LATE_TICKS: Final = frozenset({AlertKind.FLIP_FAILED, AlertKind.WINDOW_MISSED})
"""What is to be told when a request was never sent, or a tick came too late for a window."""

_INSTANTS: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z|\d\d:\d\d UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a story came to; ``broken`` names every law that did not hold, and how.

    ``doubled_ticks`` were done by several members, ``late_ticks`` by nobody until the next one. ``told`` are
    the alerts that each came, ``doubled_alerts`` how many came once more; ``errors`` are those of passes,
    with how often each came.
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


def judge(scene: Scene, *, lone: Verdict | None = None) -> Verdict:
    """Hold a story against every law; ``lone`` is what one watchdog by itself made of it."""
    history = {name: scene.ledger.entries(one) for name, one in scene.story.volume_ids.items()}
    history[f"window {WINDOW_NAME}"] = scene.ledger.entries(f"window {WINDOW_NAME}")
    sent = Counter(line.split(maxsplit=1)[0] for line in scene.outbox)
    moves = {name: _moves(scene, one) for name, one in scene.story.volume_ids.items()}
    alerts = _alerts(history)
    by_others = sum(scene.story.by_others.values())
    broken = [
        *_modified_once(scene, history),
        *_all_told(history, sent),
        *_no_tick_lost(scene.course.ticks),
        *_no_error_stays(scene.course.ticks),
        *_ledger_is_true(scene),
    ]
    if lone is not None:
        broken += _as_one_alone(scene, moves, alerts, lone)
    return Verdict(
        watchdogs=scene.setup.watchdogs,
        ledger=scene.setup.ledger,
        clocks=str(scene.setup.clocks),
        dies_at=scene.setup.dies_at,
        deaths=scene.course.deaths,
        ticks=len(scene.course.ticks),
        doubled_ticks=sum(_doers(tick) > 1 for tick in scene.course.ticks),
        late_ticks=sum(_doers(tick) == 0 for tick in scene.course.ticks),
        decisions=sum(len(_intents(entries, EntryKind.ACCEPTED)) for entries in history.values()),
        modifications=sum(map(len, moves.values())) - by_others,
        told=len(sent),
        doubled_alerts=sum(sent.values()) - len(sent),
        errors=Counter(_first_line(error) for error in _errors(scene.course.ticks)),
        moves={name: types for name, types in moves.items() if types},
        alerts=alerts,
        processor_s=round(scene.course.processor_s, 2),
        broken=tuple(broken),
    )


def _modified_once(scene: Scene, history: Mapping[str, Sequence[LedgerEntry]]) -> Iterator[str]:
    """A decision is an intent; AWS has at most one modification for it, and none without."""
    for name, volume_id in scene.story.volume_ids.items():
        made = len(scene.story.fleet.modifications(volume_id)) - scene.story.by_others.get(volume_id, 0)
        accepted = _intents(history[name], EntryKind.ACCEPTED)
        if made != len(accepted):
            yield f"{name}: {made} modifications for {len(accepted)} decisions"
        if strangers := accepted - _intents(history[name], EntryKind.INTENT):
            yield f"{name}: accepted, and never intended: {', '.join(sorted(strangers))}"


def _all_told(history: Mapping[str, Sequence[LedgerEntry]], sent: Mapping[str, int]) -> Iterator[str]:
    """What the ledger has as an alert, people have got; and nothing that it does not have."""
    raised = {
        entry.body["alert_id"]: f"{name}: {entry.body['kind']}"
        for name, entries in history.items()
        for entry in entries
        if entry.kind is EntryKind.ALERT
    }
    yield from (f"{told} was never sent" for alert_id, told in raised.items() if alert_id not in sent)
    yield from (f"alert {alert_id} is in no history" for alert_id in sent if alert_id not in raised)


def _no_tick_lost(ticks: Sequence[Sequence[Told | None]]) -> Iterator[str]:
    """Where nobody finishes a tick, the next one makes up for it: never two in a row."""
    undone = [number for number, tick in enumerate(ticks) if _doers(tick) == 0]
    yield from (
        f"minutes {one} and {one + 1} were done by nobody" for one in undone if one + 1 in frozenset(undone)
    )


def _no_error_stays(ticks: Sequence[Sequence[Told | None]]) -> Iterator[str]:
    """In the quiet minutes at the end, all whose clocks are right are without errors."""
    for number, tick in enumerate(ticks[-QUIET_MIN:], start=len(ticks) - QUIET_MIN):
        yield from (
            f"minute {number}: {_first_line(error)}" for error in _errors([tick]) if "clock" not in error
        )


def _ledger_is_true(scene: Scene) -> Iterator[str]:
    """At the end nothing waits, and each flip in the ledger is what AWS shows or has in progress."""
    if waiting := scene.ledger.waiting(channels=[CHANNEL]):
        yield f"{len(waiting)} alerts still wait"
    roster = scene.ledger.roster()
    sweep_s = scene.story.now_s // _SWEEP_S * _SWEEP_S
    if roster is None or not sweep_s <= roster.tick_s <= scene.story.now_s + _CLOCKS_DIFFER_S:
        yield f"the watermark is {roster and roster.tick_s}, the last sweep was {sweep_s}"
    states = scene.ledger.states()
    for name, volume_id in scene.story.volume_ids.items():
        shown = scene.story.fleet.find(volume_id)
        state = states.get(volume_id)
        flip = state.flip if state else None
        if flip is not None and flip.is_under_way:
            if shown.change is None:
                yield f"{name}: its flip is still {flip.phase}, and AWS has nothing in progress"
            continue
        if state is None or state.contested_at_s is not None:
            continue
        wanted = str(flip.asked_for.volume_type) if flip else "gp2"
        if shown.volume_type != wanted:
            yield f"{name}: it is {shown.volume_type}, the ledger says {wanted}"
        yield from _counted(name, state, [one.started_at.timestamp() for one in shown.modifications])


def _counted(name: str, state: VolumeState, starts_s: Sequence[float]) -> Iterator[str]:
    """What the ledger counts against AWS's quota is what AWS counts."""
    spent_s = [one.at_s for one in state.spent]
    for start_s in starts_s:
        if sum(abs(at_s - start_s) <= SAME_START_S for at_s in spent_s) != 1:
            yield f"{name}: the modification of {start_s:.0f} counts {spent_s.count(int(start_s))} times"


def _as_one_alone(
    scene: Scene, moves: Mapping[str, Sequence[str]], alerts: Mapping[str, int], lone: Verdict
) -> Iterator[str]:
    """The same modifications, and the same alerts as often; where ticks come late, each of them at least."""
    for name, types in moves.items():
        if list(types) != list(lone.moves.get(name, ())):
            yield f"{name}: went to {types}; by one watchdog alone to {lone.moves.get(name, [])}"
    if scene.setup.dies_at is None and scene.setup.clocks is Clocks.RIGHT:
        for told in sorted(alerts.keys() | lone.alerts.keys()):
            if alerts.get(told, 0) != lone.alerts.get(told, 0):
                yield f"{told}: raised {alerts.get(told, 0)} times, by one alone {lone.alerts.get(told, 0)}"
        return
    mine, theirs = _kinds(alerts), _kinds(lone.alerts)
    yield from (f"{told}: never raised, as one alone does" for told in sorted(theirs - mine))
    for told in sorted(mine - theirs):
        if told.rpartition(" ")[2] not in _OF_LATE_TICKS:
            yield f"{told}: raised, and by one alone never"


def _kinds(alerts: Mapping[str, int]) -> frozenset[str]:
    """Each kind of alert about a volume, whatever its level was just then."""
    return frozenset(told.rpartition(" ")[0] for told in alerts)


def _moves(scene: Scene, volume_id: str) -> list[str]:
    return [str(one.target.volume_type) for one in scene.story.fleet.modifications(volume_id)]


def _alerts(history: Mapping[str, Sequence[LedgerEntry]]) -> dict[str, int]:
    """How often each alert was raised, reminders left out."""
    return Counter(
        f"{name} {entry.body['kind']} {entry.body['level']}"
        for name, entries in history.items()
        for entry in entries
        if entry.kind is EntryKind.ALERT and not entry.body.get("is_reminder")
    )


def _intents(entries: Sequence[LedgerEntry], kind: EntryKind) -> set[str]:
    return {entry.body["intent_id"] for entry in entries if entry.kind is kind}


def _doers(tick: Sequence[Told | None]) -> int:
    return sum(told is not None and told.result in _DONE for told in tick)


def _errors(ticks: Sequence[Sequence[Told | None]]) -> Iterator[str]:
    for tick in ticks:
        for told in tick:
            if told is not None:
                yield from told.errors


def _first_line(error: str) -> str:
    """What was said, without the instants in it: the same trouble is counted together."""
    return _INSTANTS.sub("…", error.splitlines()[0]) if error else "no word"

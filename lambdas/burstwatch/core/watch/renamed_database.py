"""What the ledger remembers of a database that has another name now: it moves to the key of that name.

AWS's key for the metrics of a database is its name, so that is our key as well. DbiResourceId stays.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import Presence, ResourceState
from burstwatch.core.resource_type import DATABASE_PREFIX, resource_id_in
from burstwatch.core.watch.build_change import make_entry
from burstwatch.core.watch.decision import TickContext

_MOVED_TO: Final = "it is named {} now"


@dataclass(frozen=True, slots=True)
class _Move:
    state: ResourceState
    destination: str


def find_renamed(states: Mapping[str, ResourceState], names: Mapping[str, str]) -> list[str]:
    """The keys whose database has another name now; ``names`` are ``db:NAME`` by DbiResourceId."""
    return [
        subject
        for subject, state in states.items()
        if state.lasting_id is not None
        and names.get(state.lasting_id, "") not in ("", resource_id_in(subject))
    ]


def plan_moves(
    states: Mapping[str, ResourceState],
    names: Mapping[str, str],
    context: TickContext,
    *,
    renamed_by_s: Mapping[str, int],
) -> list[Change]:
    """The changes, in order, that move every state to the present name of its database.

    ``renamed_by_s`` is by when a database had its present name, by DbiResourceId; if unknown, that is now.

    Each is to be applied alone, and the rest left to the next pass if one is not applied. The new key is
    written before the old one is removed. A crash in between leaves two states of one database, and the next
    pass removes the old one. In a circle of names, one state waits under its
    DbiResourceId, from which it is moved like any other.
    """
    current, changes = dict(states), list[Change]()
    owners = {resource_id: lasting_id for lasting_id, resource_id in names.items()}

    def apply(change: Change) -> None:
        nonlocal current
        changes.append(change)
        current = apply_changes(current, [change])

    while moves := _pending_moves(current, names):
        free = [move for move in moves if _is_free(current.get(move.destination), move.state)]
        waiting = (
            [move for move in moves if current[move.destination].lasting_id in names] if not free else []
        )
        if not free and not waiting:
            break  # another database, of which nothing is known now, is remembered there
        move = free[0] if free else waiting[0]
        if not free:
            move = replace(move, destination=with_resource_id(move.state.volume_id, _parked_id(move.state)))
        if move.destination not in current:
            apply(_put(move, context, renamed_by_s.get(move.state.lasting_id or "")))
        owner = owners.get(resource_id_in(move.state.volume_id))
        awaited = {other.destination for other in moves}
        is_other = owner is not None and move.state.volume_id not in awaited
        apply(_remove(move, context, successor=owner if is_other else None))
    return changes


def apply_changes(states: Mapping[str, ResourceState], changes: Iterable[Change]) -> dict[str, ResourceState]:
    """What is remembered after these changes."""
    current = dict(states)
    for change in changes:
        current.pop(change.volume_id, None)
        if change.state is not None:
            current[change.volume_id] = change.state
    return current


def with_resource_id(subject: str, resource_id: str) -> str:
    """The key of the same bucket of another resource."""
    return f"{resource_id}#{subject.partition('#')[2]}"


def move_holds(holds: Sequence[Hold], renamed: Mapping[str, str]) -> tuple[list[Hold], set[str]]:
    """The holds to place under the new names, and the names whose hold then ends."""
    moved = [
        replace(hold, volume_id=renamed[hold.volume_id])
        for hold in holds
        if hold.volume_id is not None and hold.volume_id in renamed
    ]
    old_ids = {hold.volume_id for hold in holds if hold.volume_id in renamed}
    return moved, {i for i in old_ids if i is not None} - {hold.volume_id for hold in moved}


def new_name_in(entries: Iterable[LedgerEntry]) -> str | None:
    """``db:NAME`` to which a database that had the name of these entries moved last, by its history."""
    pattern = re.compile(_MOVED_TO.format(rf"({DATABASE_PREFIX}\S+)"))
    moves = [(entry.at_s, pattern.fullmatch(str(entry.body.get("to")))) for entry in entries]
    names = [(at_s, match[1]) for at_s, match in moves if match is not None]
    return max(names)[1] if names else None


def new_state_of(subject: str, lasting_id: str, context: TickContext, *, revision: int = 0) -> ResourceState:
    """What is known of a database that has just taken this name: nothing but that."""
    now_s = int(context.now_s)
    return ResourceState(
        volume_id=subject,
        revision=max(revision, now_s),
        level_since_s=now_s,
        next_poll_at_s=context.tick_at_s,
        presence=Presence(arrived_at_s=now_s),
        lasting_id=lasting_id,
        named_at_s=now_s,
    )


def _pending_moves(states: Mapping[str, ResourceState], names: Mapping[str, str]) -> list[_Move]:
    """The newest state of a database first: an older one of the same is then only removed."""
    renamed = sorted((states[s] for s in find_renamed(states, names)), key=lambda state: -state.revision)
    return [
        _Move(state, with_resource_id(state.volume_id, names[state.lasting_id or ""])) for state in renamed
    ]


def _is_free(occupant: ResourceState | None, state: ResourceState) -> bool:
    return occupant is None or occupant.lasting_id in (None, state.lasting_id)


def _parked_id(state: ResourceState) -> str:
    """No name of a database has capitals, as its DbiResourceId has."""
    return f"{DATABASE_PREFIX}{state.lasting_id}"


def _put(move: _Move, context: TickContext, renamed_by_s: int | None) -> Change:
    now_s, old = int(context.now_s), move.state
    state = replace(
        old,
        volume_id=move.destination,
        revision=max(old.revision + 1, now_s),
        next_poll_at_s=context.tick_at_s,
        presence=replace(old.presence, missing_since_s=None),
        named_at_s=now_s if renamed_by_s is None else renamed_by_s,
    )
    levels = {"from": f"{old.level} (as {resource_id_in(old.volume_id)})", "to": str(old.level)}
    entry = make_entry(state, EntryKind.LEVEL_CHANGED, levels, now_s)
    return Change(volume_id=state.volume_id, expected_revision=None, state=state, entries=(entry,))


def _remove(move: _Move, context: TickContext, *, successor: str | None) -> Change:
    """Forget the old key; if another database has its name now, that one begins with nothing known."""
    old, now_s = move.state, int(context.now_s)
    last = replace(old, revision=max(old.revision + 1, now_s), level=Level.OK)
    levels = {"from": str(old.level), "to": _MOVED_TO.format(resource_id_in(move.destination))}
    return Change(
        volume_id=old.volume_id,
        expected_revision=old.revision,
        state=new_state_of(old.volume_id, successor, context, revision=last.revision) if successor else None,
        entries=(make_entry(last, EntryKind.LEVEL_CHANGED, levels, now_s),),
    )

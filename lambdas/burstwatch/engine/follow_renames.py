"""Databases that have another name than the ledger remembers: their states and holds move to it."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from burstwatch.core.assessment.assess_resource import METRIC_LATENESS_S, NO_METRIC_AFTER_S
from burstwatch.core.assessment.resource import AdvisedResource, lasting_id_of
from burstwatch.core.buckets.series import Series
from burstwatch.core.ledger.flip_state import WATCHDOG
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.resource_type import DATABASE_PREFIX, resource_id_in
from burstwatch.core.watch.missing_volume import drop_state, mark_missing
from burstwatch.core.watch.polling.due_buckets import DueBucket, buckets_of
from burstwatch.core.watch.renamed_database import (
    apply_changes,
    find_renamed,
    move_holds,
    new_state_of,
    plan_moves,
    with_resource_id,
)
from burstwatch.engine.pass_state import WatchPass
from burstwatch.engine.resource_readers import find_databases_by_lasting_id


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedRenames:
    """What was found: ``databases`` under another name, and keys to leave as they are until the next pass.

    The state under a key of ``waiting_subjects`` belongs to another database than the one with this name, or
    may do so. That database could not be read, or its state could not be moved yet.
    """

    databases: Sequence[DbInstance] = ()
    waiting_subjects: AbstractSet[str] = frozenset()


_NOTHING: Final = FollowedRenames()


def follow_renames(
    watch_pass: WatchPass, resources: Iterable[AdvisedResource], subjects: Iterable[str]
) -> FollowedRenames:
    """Move what is remembered under these keys to where its database is now, in the ledger as well.

    ``resources`` are those that were described; a database that is not among them is looked for by its
    DbiResourceId. A pass that only reads moves nothing in the ledger.
    """
    names, states = _names_of(resources), watch_pass.states
    examined, sought_ids, unread_ids = set(subjects), set[str](), set[str]()
    other_databases: list[DbInstance] = []
    while new_ids := set(_strayed(states, examined, names).values()) - names.keys() - sought_ids:
        databases, new_unread_ids = find_databases_by_lasting_id(watch_pass.collector, new_ids)
        sought_ids |= new_ids
        unread_ids |= new_unread_ids
        other_databases += databases
        names |= _names_of(databases)
        # The state of a database that had such a name before may be in the way, as after a swap of names.
        examined.update(subjects_about(states, databases))
    strayed = _strayed(states, examined, names)
    if not strayed:
        return _NOTHING
    for subject, lasting_id in strayed.items():
        if lasting_id not in names and lasting_id not in unread_ids:
            _end_if_replaced(watch_pass, subject, names)
    _move_states(watch_pass, names, [*resources, *other_databases])
    owned = set(names.values())
    return FollowedRenames(
        databases=other_databases,
        waiting_subjects={
            subject
            for subject, lasting_id in _strayed(states, examined, names).items()
            if lasting_id in unread_ids or lasting_id in names or resource_id_in(subject) in owned
        },
    )


def _move_states(
    watch_pass: WatchPass, names: Mapping[str, str], resources: Sequence[AdvisedResource]
) -> None:
    """Move states, and the holds with them, as far as nothing that is not known now is in the way."""
    states = watch_pass.states
    renamed = find_renamed(states, names)
    if not renamed:
        return
    renamed_by_s = _read_renamed_by_s(watch_pass, resources, names)
    changes = plan_moves(states, names, watch_pass.context, renamed_by_s=renamed_by_s)
    # A state that waits keeps its hold: its new name has that of another database.
    waiting = find_renamed(apply_changes(states, changes), names)
    moved = [subject for subject in renamed if subject not in waiting]
    _move_holds(watch_pass, {resource_id_in(s): names[states[s].lasting_id or ""] for s in moved})
    for change in changes:
        if not _apply(watch_pass, change):
            break


def _strayed(
    states: Mapping[str, ResourceState], subjects: Iterable[str], names: Mapping[str, str]
) -> dict[str, str]:
    """The DbiResourceId for each of these keys whose database is not known to have that name now."""
    return {
        subject: state.lasting_id
        for subject in subjects
        if (state := states.get(subject)) is not None
        and state.lasting_id is not None
        and names.get(state.lasting_id) != resource_id_in(subject)
    }


def subjects_about(states: Mapping[str, ResourceState], resources: Iterable[AdvisedResource]) -> list[str]:
    """The keys of what is remembered of these databases, or under their present names."""
    names = _names_of(resources)
    resource_ids = set(names.values())
    return [
        s for s, state in states.items() if state.lasting_id in names or resource_id_in(s) in resource_ids
    ]


def _names_of(resources: Iterable[AdvisedResource]) -> dict[str, str]:
    """``db:NAME`` of each database by its DbiResourceId."""
    ids = ((lasting_id_of(resource), resource.resource_id) for resource in resources)
    return {lasting_id: resource_id for lasting_id, resource_id in ids if lasting_id is not None}


def _read_renamed_by_s(
    watch_pass: WatchPass, resources: Iterable[AdvisedResource], names: Mapping[str, str]
) -> dict[str, int]:
    """By when each database had its present name, by DbiResourceId: its datapoints under the former one end.

    A database of which that does not show is left out, as one that had no datapoints when it was last polled.
    If another database has the former name now, the datapoints do not end.
    """
    buckets = {due_bucket.subject: due_bucket for due_bucket in buckets_of(resources)}
    former: list[tuple[str, DueBucket]] = []
    for subject in find_renamed(watch_pass.states, names):
        state = watch_pass.states[subject]
        lasting_id = state.lasting_id or ""
        due_bucket = buckets.get(with_resource_id(subject, names[lasting_id]))
        if due_bucket is None or not due_bucket.is_polled or state.reading.unknown_reason is not None:
            continue
        if isinstance(database := due_bucket.resource, DbInstance):
            named_before = replace(database, identifier=resource_id_in(subject).removeprefix(DATABASE_PREFIX))
            former.append((lasting_id, replace(due_bucket, resource=named_before)))
    balances = watch_pass.collector.earlier_balances([due for _, due in former], NO_METRIC_AFTER_S)
    now_s, renamed_by_s = int(watch_pass.context.now_s), dict[str, int]()
    for lasting_id, due_bucket in former:
        balance = balances[due_bucket.subject]
        if isinstance(balance, Series) and (newest := balance.newest) is not None:
            # A datapoint that is late may not be there yet.
            end_s = min(now_s, newest.end_at_s + METRIC_LATENESS_S)
            renamed_by_s[lasting_id] = max(end_s, renamed_by_s.get(lasting_id, 0))
    return renamed_by_s


def _end_if_replaced(watch_pass: WatchPass, subject: str, names: Mapping[str, str]) -> None:
    """Close the alert of a deleted database whose name another one has now, once RDS has shown so twice."""
    owners = {resource_id: lasting_id for lasting_id, resource_id in names.items()}
    owner, state = owners.get(resource_id_in(subject)), watch_pass.states[subject]
    if owner is None:
        return
    policy, context = watch_pass.services.policy, watch_pass.context
    if not watch_pass.is_read_only and (missing := mark_missing(state, context)) is not None:
        _apply(watch_pass, missing)
        return
    change = drop_state(state, "the database was deleted", policy=policy, context=context)
    if all(other.lasting_id != owner for other in watch_pass.states.values()):
        new_state = new_state_of(subject, owner, context, revision=state.revision + 1)
        change = replace(change, state=new_state)
    _apply(watch_pass, change)


def _move_holds(watch_pass: WatchPass, renamed: Mapping[str, str]) -> None:
    """Hold the new name before the old one is released: a crash in between leaves both held."""
    placed, ended_ids = move_holds(watch_pass.holds, renamed)
    ledger, now_s = watch_pass.services.ledger, int(watch_pass.context.now_s)
    if not watch_pass.is_read_only:
        for hold in placed:
            ledger.place_hold(hold)
        for resource_id in ended_ids:
            ledger.lift_hold(resource_id, by=WATCHDOG, at_s=now_s)
    replaced_ids = ended_ids | {hold.volume_id for hold in placed}
    watch_pass.holds = [hold for hold in watch_pass.holds if hold.volume_id not in replaced_ids] + placed


def _apply(watch_pass: WatchPass, change: Change) -> bool:
    """Apply one change to the ledger and to what this pass knows; False if another process was faster."""
    services = watch_pass.services
    if not watch_pass.is_read_only and not services.ledger.commit([change], channels=services.channel_names):
        return False
    watch_pass.states.pop(change.volume_id, None)
    if change.state is not None:
        watch_pass.states[change.volume_id] = change.state
    return True

"""Databases that have another name than the ledger remembers: their states and holds move to it."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from burstwatch.core.assessment.resource import AdvisedResource, lasting_id_of
from burstwatch.core.ledger.flip_state import WATCHDOG
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.rds.db_instance import DbInstance
from burstwatch.core.resource_type import resource_id_in
from burstwatch.core.watch.missing_volume import drop_state
from burstwatch.core.watch.renamed_database import find_renamed, move_holds, new_state_of, plan_moves
from burstwatch.engine.pass_state import WatchPass
from burstwatch.engine.resource_readers import find_databases_by_lasting_id


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedRenames:
    """What was found: ``databases`` under another name, and the keys of which RDS showed nothing."""

    databases: Sequence[DbInstance] = ()
    unread_subjects: AbstractSet[str] = frozenset()


_NOTHING: Final = FollowedRenames()


def follow_renames(
    watch_pass: WatchPass, resources: Iterable[AdvisedResource], subjects: Iterable[str]
) -> FollowedRenames:
    """Move what is remembered under these keys to where its database is now, in the ledger as well.

    ``resources`` are those that were described; a database that is not among them is looked for by its
    DbiResourceId. A pass that only reads moves nothing in the ledger.
    """
    names = _names_of(resources)
    strayed = {
        subject: state.lasting_id
        for subject in subjects
        if (state := watch_pass.states.get(subject)) is not None
        and state.lasting_id is not None
        and names.get(state.lasting_id) != resource_id_in(subject)
    }
    if not strayed:
        return _NOTHING
    other_databases, unread_ids = find_databases_by_lasting_id(
        watch_pass.collector, set(strayed.values()) - names.keys()
    )
    names |= _names_of(other_databases)
    for subject, lasting_id in strayed.items():
        if lasting_id not in names and lasting_id not in unread_ids:
            _end_if_replaced(watch_pass, subject, names)
    renamed = {
        resource_id_in(subject): names[watch_pass.states[subject].lasting_id or ""]
        for subject in find_renamed(watch_pass.states, names)
    }
    if renamed:
        _move_holds(watch_pass, renamed)
        for change in plan_moves(watch_pass.states, names, watch_pass.context):
            if not _apply(watch_pass, change):
                break
    return FollowedRenames(
        databases=other_databases,
        unread_subjects={subject for subject, lasting_id in strayed.items() if lasting_id in unread_ids},
    )


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


def _end_if_replaced(watch_pass: WatchPass, subject: str, names: Mapping[str, str]) -> None:
    """Close the alert of a deleted database whose name another one has now."""
    owners = {resource_id: lasting_id for lasting_id, resource_id in names.items()}
    owner, state = owners.get(resource_id_in(subject)), watch_pass.states[subject]
    if owner is None:
        return
    policy, context = watch_pass.services.policy, watch_pass.context
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

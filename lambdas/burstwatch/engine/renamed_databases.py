"""A database that people rename keeps its alerts and its hold.

The ledger knows a database by its name, as CloudWatch does. Its states also have the ID that stays.
"""

from collections.abc import Iterable
from dataclasses import replace

from burstwatch.core.resource_type import ResourceType, resource_id_in, subject_of
from burstwatch.core.watch.due_buckets import DueBucket
from burstwatch.core.watch.missing_volume import forget_state, move_state
from burstwatch.core.watch.record_reading import lasting_id_of
from burstwatch.engine.evaluate_volumes import WatchPass, drop_state_of
from burstwatch.engine.resource_readers import find_databases_by_lasting_id


def follow_renamed(watch_pass: WatchPass, subjects: Iterable[str]) -> set[str]:
    """Move what is remembered under the keys of these databases, which have no such name, to their new names.

    Returns:
        The keys that are not those of deleted databases: they were moved, or wait. A key waits if RDS does
        not answer, or if its new name still belongs to another database in the ledger.
    """
    lasting_ids = {
        subject: state.presence.lasting_id
        for subject in subjects
        if (state := watch_pass.states.get(subject)) is not None and state.presence.lasting_id is not None
    }
    if not lasting_ids:
        return set()
    result = find_databases_by_lasting_id(watch_pass.collector, set(lasting_ids.values()))
    new_ids = {database.dbi_resource_id: database.resource_id for database in result.databases}
    followed = {subject for subject, lasting_id in lasting_ids.items() if lasting_id in result.unread}
    for subject, lasting_id in lasting_ids.items():
        if (new_id := new_ids.get(lasting_id)) is not None:
            followed.add(subject)
            _move(watch_pass, subject, new_id)
    return followed


def _move(watch_pass: WatchPass, subject: str, new_id: str) -> None:
    new_subject = subject_of(ResourceType.RDS, new_id, subject.partition("#")[2])
    state, reason = watch_pass.states[subject], f"it was renamed to {new_id}"
    if new_subject == subject:
        return
    if new_subject not in watch_pass.known_ids:
        watch_pass.dropped += move_state(state, new_subject, reason, watch_pass.context)
        watch_pass.renamed[resource_id_in(subject)] = new_id
        return
    known = watch_pass.states.get(new_subject)
    if known is not None and known.presence.lasting_id == state.presence.lasting_id:
        watch_pass.dropped.append(forget_state(state, reason, watch_pass.context))


def without_renamed(watch_pass: WatchPass, due: Iterable[DueBucket]) -> list[DueBucket]:
    """The buckets to poll now: none whose key is that of another database, or changes hands in this pass."""
    buckets = list(due)
    taken = [bucket.subject for bucket in buckets if _belongs_to_another(watch_pass, bucket)]
    deleted = set(taken) - follow_renamed(watch_pass, taken)
    for subject in deleted:
        drop_state_of(watch_pass, subject, "the database was deleted")
    changed = {change.volume_id for change in watch_pass.dropped} | set(taken)
    return [bucket for bucket in buckets if bucket.subject not in changed]


def _belongs_to_another(watch_pass: WatchPass, bucket: DueBucket) -> bool:
    state = watch_pass.states.get(bucket.subject)
    return state is not None and state.presence.lasting_id not in (None, lasting_id_of(bucket.resource))


def move_holds(watch_pass: WatchPass) -> None:
    """Hold the databases that were renamed in this pass under their new names instead."""
    ledger, now_s = watch_pass.services.ledger, int(watch_pass.context.now_s)
    for hold in watch_pass.holds:
        new_id = watch_pass.renamed.get(hold.volume_id or "")
        if new_id is not None:
            ledger.place_hold(replace(hold, volume_id=new_id))
            ledger.lift_hold(hold.volume_id, by=hold.by, at_s=now_s)

"""The pass about what an event names: volumes of EBS or of a host, or databases of RDS."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial

from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.ledger import States
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.rds.rds_buckets import RDS_IO
from burstwatch.core.resource_type import ResourceType, resource_id_in
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.core.watch.polling.due_buckets import buckets_of
from burstwatch.engine.evaluate_resources import is_own_state
from burstwatch.engine.evaluate_volumes import drop_missing, to_due
from burstwatch.engine.follow_renames import follow_renames, subjects_about
from burstwatch.engine.forced_volumes import find_forced_volumes
from burstwatch.engine.pass_state import WatchPass
from burstwatch.engine.resource_readers import find_resources
from burstwatch.engine.services import Services
from burstwatch.engine.watch_pass import (
    Collection,
    PassScope,
    read_windows_and_holds,
    run_pass,
    start_partial_pass,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """The report of a pass over a few resources, and the IDs of those that AWS did not describe."""

    report: PassReport
    unread: AbstractSet[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _EventCollection(Collection):
    """What events name and is watched here; AWS did not describe what is in ``unread``."""

    unread: AbstractSet[str]


def evaluate_volumes(
    services: Services,
    volume_ids: AbstractSet[str],
    *,
    modified: AbstractSet[str] | None = None,
    now_s: float,
) -> EvaluationResult:
    """Poll those of these volumes that are watched here, because something happened to them; claim no tick.

    A volume that was ``modified`` (default: all) may be changing to another type, and is polled if the
    ledger has a state of it.
    """
    modified_ids = volume_ids if modified is None else modified & volume_ids
    report, collection = run_pass(
        start_partial_pass(services, now_s=now_s),
        partial(_collect_events, volume_ids, modified_ids),
        scope=PassScope.SOME_VOLUMES,
    )
    return EvaluationResult(report=report, unread=collection.unread)


def _collect_events(
    volume_ids: AbstractSet[str], modified_ids: AbstractSet[str], watch_pass: WatchPass
) -> _EventCollection:
    """Those of the volumes that are ours.

    Events name volumes of every type, so EC2 is asked first, and the ledger only about what may be ours: the
    types that are watched, and what was modified.
    """
    types = watch_pass.services.policy.resources.volume_types
    described, missing = watch_pass.collector.volumes_by_id(volume_ids)
    watched_ids = {volume.volume_id for volume in described if volume.volume_type in types}
    unread = frozenset(watch_pass.collector.unreadable)
    if candidate_ids := (watched_ids | modified_ids) - unread:
        watch_pass.states = watch_pass.services.ledger.states_of(candidate_ids)
    known_ids = watch_pass.states.keys() | watch_pass.states.unreadable.keys()
    if not watched_ids and not known_ids:
        return _EventCollection(unread=unread)
    read_windows_and_holds(watch_pass)
    drop_missing(watch_pass, missing)
    volumes = [volume for volume in described if volume.volume_id in watched_ids | known_ids]
    # Everything named is due; this notes the windows that the volumes belong to.
    find_forced_volumes(watch_pass, volumes)
    detached_ids = {
        i for i, state in watch_pass.states.items() if state.reading.unknown_reason is UnknownReason.DETACHED
    }
    due = [
        replace(due_volume, has_arrived=due_volume.volume.volume_id not in known_ids - detached_ids)
        for due_volume in to_due(watch_pass, volumes)
    ]
    return _EventCollection(due=due, unread=unread)


def evaluate_databases(
    services: Services, resource_ids: AbstractSet[str], *, now_s: float
) -> EvaluationResult:
    """Poll the storage of these databases (``db:NAME``), because RDS says that their credits are low.

    Nothing happens if the policy does not watch databases. The level comes from the balance alone, so an
    event that comes late, twice or out of order causes no second alert.
    """
    report, collection = run_pass(
        start_partial_pass(services, now_s=now_s),
        partial(_collect_databases, resource_ids),
        scope=PassScope.SOME_VOLUMES,
    )
    return EvaluationResult(report=report, unread=collection.unread)


def _collect_databases(resource_ids: AbstractSet[str], watch_pass: WatchPass) -> _EventCollection:
    """The storage of the databases; one that no longer has that name is left to the next sweep."""
    if ResourceType.RDS not in watch_pass.services.policy.resources.watched:
        return _EventCollection(unread=frozenset())
    databases, _ = find_resources(watch_pass.collector, sorted(resource_ids))
    due_buckets = [due for due in buckets_of(databases) if due.kind is RDS_IO]
    waiting: AbstractSet[str] = frozenset()
    if due_buckets:
        subjects = {due.subject for due in due_buckets}
        watch_pass.states = watch_pass.services.ledger.states_of(subjects)
        read_windows_and_holds(watch_pass)
        unreadable = watch_pass.states.unreadable
        # It may be remembered under the name that it had before, and another one under its present name.
        if not all(due.subject in unreadable or is_own_state(watch_pass, due) for due in due_buckets):
            watch_pass.states = watch_pass.services.ledger.states()
        renames = follow_renames(watch_pass, databases, subjects_about(watch_pass.states, databases))
        waiting = renames.waiting_subjects & subjects
    return _EventCollection(
        due_buckets=[due for due in due_buckets if due.subject not in waiting],
        unread={*watch_pass.collector.unreadable, *map(resource_id_in, waiting)},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReportResult:
    """The outcome of the reports of hosts.

    ``repeated`` is how many came within a minute of another. ``refused`` has the reasons why some were not
    accepted, and ``unread`` the volumes of which EC2 did not show the attachment.
    """

    report: PassReport
    repeated: int = 0
    refused: Sequence[str] = ()
    unread: AbstractSet[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _HostReportCollection(Collection):
    """The volumes of the reports that are believed, and the outcome of the other reports."""

    repeated: int
    refused: Sequence[str] = ()
    unread: AbstractSet[str] = frozenset()


def ingest_host_reports(services: Services, stalls: Iterable[Stall], *, now_s: float) -> HostReportResult:
    """Record what hosts report of their volumes, and poll those now.

    One report a minute is accepted for a volume, and only from the instance that the volume is attached to.
    A flip that is wanted is left to the next tick if ``services`` can neither make nor request it.
    """
    report, collection = run_pass(
        start_partial_pass(services, now_s=now_s),
        partial(_collect_host_reports, list(stalls)),
        scope=PassScope.SOME_VOLUMES,
    )
    return HostReportResult(
        report=report,
        repeated=collection.repeated,
        refused=collection.refused,
        unread=collection.unread,
    )


def _collect_host_reports(stalls: Sequence[Stall], watch_pass: WatchPass) -> _HostReportCollection:
    """The volumes of the reports that are new and true.

    Anybody may send reports, so the volume's own item of the ledger is read first, and nothing else of one
    that is a repetition.
    """
    services = watch_pass.services
    watch_pass.leaves_flips = services.modifier is None and services.flip_queue is None
    new_stalls = _read_new_stalls(stalls, watch_pass)
    repeated = len(stalls) - len(new_stalls)
    if not new_stalls:
        return _HostReportCollection(repeated=repeated)
    described, _ = watch_pass.collector.volumes_by_id({stall.volume_id for stall in new_stalls})
    volumes = {volume.volume_id: volume for volume in described}
    unread = frozenset(watch_pass.collector.unreadable)
    refusals = [(stall, _reason_to_refuse(stall, volumes.get(stall.volume_id))) for stall in new_stalls]
    refused = [reason for stall, reason in refusals if reason and stall.volume_id not in unread]
    watch_pass.stalls = {stall.volume_id: stall for stall, reason in refusals if not reason}
    if not watch_pass.stalls:
        return _HostReportCollection(repeated=repeated, refused=refused, unread=unread)
    read_windows_and_holds(watch_pass)
    due = to_due(watch_pass, [volumes[volume_id] for volume_id in watch_pass.stalls])
    return _HostReportCollection(due=due, repeated=repeated, refused=refused, unread=unread)


def _read_new_stalls(stalls: Sequence[Stall], watch_pass: WatchPass) -> list[Stall]:
    """The newest report of each volume and instance, unless it repeats one that the ledger has."""
    newest_stalls: dict[tuple[str, str], Stall] = {}
    for stall in sorted(stalls, key=lambda host_report: host_report.seen_at_s):
        newest_stalls[stall.volume_id, stall.instance_id] = stall
    volume_ids = {stall.volume_id for stall in newest_stalls.values()}
    watch_pass.states = watch_pass.services.ledger.states_of(volume_ids) if volume_ids else States()
    return [stall for stall in newest_stalls.values() if not _is_repeat(stall, watch_pass.states)]


def _is_repeat(stall: Stall, states: Mapping[str, ResourceState]) -> bool:
    state = states.get(stall.volume_id)
    return state is not None and state.stall is not None and stall.is_repeat_of(state.stall)


def _reason_to_refuse(stall: Stall, volume: Volume | None) -> str | None:
    if volume is None:
        return f"{stall.instance_id} reports of {stall.volume_id}, which does not exist"
    if volume.instance_id == stall.instance_id:
        return None
    attached_to = volume.instance_id or "no instance"
    return f"{stall.instance_id} reports of {stall.volume_id}, which is attached to {attached_to}"

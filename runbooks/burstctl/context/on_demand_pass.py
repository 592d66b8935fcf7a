"""Passes that a person starts: they claim no tick, so they never hold one up."""

from collections.abc import Callable, Sequence
from functools import partial

from burstwatch.core.assessment.resource import Resource
from burstwatch.core.resource_type import ResourceType, is_volume_subject, type_of_id
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.core.watch.polling.due_buckets import buckets_of
from burstwatch.engine.evaluate_resources import list_buckets, read_remembered_buckets
from burstwatch.engine.evaluate_volumes import read_remembered_volumes, to_due
from burstwatch.engine.follow_renames import follow_renames, subjects_about
from burstwatch.engine.forced_volumes import find_forced_volumes
from burstwatch.engine.pass_state import WatchPass
from burstwatch.engine.resource_readers import find_resources
from burstwatch.engine.services import Services
from burstwatch.engine.watch_pass import Collection, PassScope, run_pass, start_pass


def evaluate_fleet(services: Services, *, now_s: float) -> PassReport:
    """Look at the whole fleet now, record, flip and send."""
    report, _ = run_pass(start_pass(services, now_s=now_s), _collect_fleet)
    return report


def assess_volumes(
    services: Services,
    volume_ids: Sequence[str] = (),
    *,
    now_s: float,
    excuses_denied: bool = False,
    keeps_samples: bool = False,
    with_flipped: bool = True,
    selects: Callable[[Resource], bool] = lambda _resource: True,
) -> PassReport:
    """Look at these volumes, or at the whole fleet and what was flipped away from it, and change nothing.

    Without ``with_flipped``, what was flipped away is left out. Of the fleet, metrics are read only of the
    resources that ``selects`` chooses.

    Assessments of volumes that are requested by ID keep their samples. Those of a large fleet may not fit in
    memory, so they are kept only if it ``keeps_samples``. If it ``excuses_denied``, a kind of resource that
    the caller has no permission to read is left out, which is not a failure.
    """
    watch_pass = start_pass(services, now_s=now_s)
    watch_pass.keeps_samples = keeps_samples or bool(volume_ids)
    collect = (
        partial(_collect_by_id, volume_ids)
        if volume_ids
        else partial(
            _collect_fleet_and_flipped,
            excuses_denied=excuses_denied,
            with_flipped=with_flipped,
            selects=selects,
        )
    )
    report, _ = run_pass(watch_pass, collect, scope=PassScope.READ_ONLY)
    return report


def _collect_fleet(watch_pass: WatchPass) -> Collection:
    """Every volume, and what the ledger remembers of volumes that are not listed any more."""
    volumes, is_whole = watch_pass.collector.fleet()
    # Everything is due; this notes the windows that the volumes belong to.
    find_forced_volumes(watch_pass, volumes)
    departed_ids = watch_pass.known_ids - {volume.volume_id for volume in volumes} if is_whole else set()
    buckets = list_buckets(watch_pass)
    subjects = {due_bucket.subject for due_bucket in buckets}
    buckets += read_remembered_buckets(
        watch_pass, watch_pass.known_ids - subjects, unread_kinds=watch_pass.collector.unread_kinds
    )
    return Collection(
        due=to_due(watch_pass, [*volumes, *read_remembered_volumes(watch_pass, departed_ids)]),
        due_buckets=buckets,
    )


def _collect_fleet_and_flipped(
    watch_pass: WatchPass,
    *,
    excuses_denied: bool,
    with_flipped: bool,
    selects: Callable[[Resource], bool],
) -> Collection:
    """Every watched resource, and the volumes that are not gp2 now because they were flipped."""
    volumes, _ = watch_pass.collector.fleet()
    flipped_ids = {i for i, state in watch_pass.states.items() if state.flip}
    unlisted_ids = (flipped_ids | watch_pass.states.unreadable.keys()) - {
        volume.volume_id for volume in volumes
    }
    flipped, _ = (
        watch_pass.collector.volumes_by_id(filter(is_volume_subject, unlisted_ids))
        if with_flipped
        else ([], [])
    )
    buckets = list_buckets(watch_pass)
    if excuses_denied:
        watch_pass.collector.excuse_denied_kinds()
    excused_kinds = watch_pass.collector.excused_kinds
    return Collection(
        due=to_due(watch_pass, [volume for volume in (*volumes, *flipped) if selects(volume)]),
        due_buckets=[
            bucket
            for bucket in buckets
            if bucket.resource.resource_type not in excused_kinds and selects(bucket.resource)
        ],
    )


def _collect_by_id(resource_ids: Sequence[str], watch_pass: WatchPass) -> Collection:
    """These resources, whether their kind is watched or not."""
    collector = watch_pass.collector
    volume_ids = [i for i in resource_ids if type_of_id(i) is ResourceType.EBS]
    other_ids = [i for i in resource_ids if type_of_id(i) is not ResourceType.EBS]
    volumes, missing = collector.volumes_by_id(volume_ids) if volume_ids else ([], [])
    others, missing_others = find_resources(collector, other_ids)
    watch_pass.missing = [*missing, *missing_others]
    follow_renames(watch_pass, others, subjects_about(watch_pass.states, others))
    return Collection(due=to_due(watch_pass, volumes), due_buckets=list(buckets_of(others)))

"""The pass of a tick: the volumes in focus that are due, and the sweep of the fleet when it is due."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from burstwatch.core.assessment.assess import STOPPED_STATES, UnknownReason
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.ledger import FleetSnapshot, Ledger, TickKind
from burstwatch.core.policy.policy import CadencePolicy
from burstwatch.core.resource_type import is_volume_subject, type_of_id
from burstwatch.core.watch.fleet_summary import count_volumes, fleet_fingerprints
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.core.watch.polling.due_buckets import (
    DueBucket,
    bucket_fingerprint,
    due_buckets_in_sweep,
)
from burstwatch.core.watch.polling.due_volumes import DueVolume, due_in_focus, due_in_sweep, fingerprint
from burstwatch.engine.evaluate_resources import list_buckets, read_remembered_buckets
from burstwatch.engine.evaluate_volumes import read_remembered_volumes, to_due
from burstwatch.engine.forced_volumes import find_forced_volumes
from burstwatch.engine.pass_state import WatchPass
from burstwatch.engine.services import Services
from burstwatch.engine.watch_pass import Collection, LeaseLostError, run_pass, start_pass

LEASE_S: Final = 50.0
"""A claimed tick that was not completed is free again before the next focus tick; a sweep renews it."""

_SWEEP_SCHEDULE_GRACE_S: Final = 60
"""For this long after its minute, a sweep is left to its own schedule; then a focus tick does it."""


@dataclass(slots=True)
class _SweepLease:
    """The claim of a sweep, renewed while it makes progress: a listing of a large region takes minutes."""

    ledger: Ledger
    tick_at_s: int
    until_s: float
    wall_clock_s: Callable[[], float]

    def renew_if_due(self) -> None:
        """Renew the claim when half of it is used up.

        Raises:
            LeaseLostError: it ran out before this, and another process took the sweep.
        """
        now_s = self.wall_clock_s()
        if self.until_s - now_s > LEASE_S / 2:
            return
        if not self.ledger.renew_tick(
            TickKind.SWEEP, self.tick_at_s, until_s=self.until_s, now_s=now_s, lease_s=LEASE_S
        ):
            raise LeaseLostError("another process has taken over this sweep")
        self.until_s = now_s + LEASE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClaimedTick:
    """A tick that this process has claimed: its focus, the sweep at ``sweep_at_s``, or both.

    ``snapshot`` is what the last sweep saw, None before the first.
    """

    services: Services
    tick_at_s: int
    sweep_at_s: int
    has_focus: bool
    snapshot: FleetSnapshot | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _SweepCollection(Collection):
    """What a sweep found due; ``fingerprints`` are those of the whole fleet, None if it was not listed."""

    fingerprints: frozenset[int] | None


def run_tick(
    services: Services, *, tick_at_s: int, now_s: float, kind: TickKind | None = None
) -> PassReport | None:
    """Do the work of one tick: the volumes in focus that are due, and the sweep ticks not yet completed.

    Where each ``kind`` has a schedule of its own, a focus tick leaves the sweep of its minute to the other
    schedule, and sweeps only what that has missed. A sweep tick leaves the volumes in focus to the focus
    ticks: a sweep of a large region takes longer than those may wait.

    Returns:
        The report, or None when another process has the tick.
    """
    ledger = services.ledger
    is_sweep = kind is TickKind.SWEEP
    has_focus = not is_sweep and ledger.claim_tick(TickKind.FOCUS, tick_at_s, now_s=now_s, lease_s=LEASE_S)
    if not has_focus and not is_sweep:
        return None
    sweep_at_s = _last_sweep_time(tick_at_s, services.policy.cadence)
    snapshot = ledger.fleet_snapshot()
    has_sweep = _should_sweep(
        snapshot, sweep_at_s, services.policy.cadence, tick_at_s=tick_at_s, now_s=now_s, kind=kind
    ) and ledger.claim_tick(TickKind.SWEEP, sweep_at_s, now_s=now_s, lease_s=LEASE_S)
    tick = _ClaimedTick(
        services=services,
        tick_at_s=tick_at_s,
        sweep_at_s=sweep_at_s,
        has_focus=has_focus,
        snapshot=snapshot,
    )
    if has_sweep:
        return _run_sweep(tick, now_s)
    return _run_focus(tick, now_s) if has_focus else None


def _last_sweep_time(tick_at_s: int, cadence: CadencePolicy) -> int:
    """The time of the newest sweep tick, which is this one at the latest."""
    sweep_tick_s = int(cadence.sweep_tick.total_seconds())
    return tick_at_s // sweep_tick_s * sweep_tick_s


def _should_sweep(
    snapshot: FleetSnapshot | None,
    sweep_at_s: int,
    cadence: CadencePolicy,
    *,
    tick_at_s: int,
    now_s: float,
    kind: TickKind | None,
) -> bool:
    """Whether that sweep is not completed yet, and ours to do."""
    # A snapshot from the future was taken by a clock that was ahead: it does not count.
    latest_s = now_s + cadence.sweep_tick.total_seconds()
    is_done = snapshot is not None and sweep_at_s <= snapshot.tick_at_s <= latest_s
    is_left_to_sweep_schedule = kind is TickKind.FOCUS and tick_at_s < sweep_at_s + _SWEEP_SCHEDULE_GRACE_S
    return not is_done and not is_left_to_sweep_schedule


def _run_sweep(tick: _ClaimedTick, now_s: float) -> PassReport | None:
    """Sweep, and poll the volumes in focus as well if their tick is claimed."""
    ledger, watch_pass = tick.services.ledger, _start_tick_pass(tick, now_s)
    lease = _SweepLease(ledger, tick.sweep_at_s, now_s + LEASE_S, lambda: watch_pass.collector.wall_clock_s)
    watch_pass.collector.heartbeat = lease.renew_if_due
    try:
        report, collection = run_pass(watch_pass, partial(_collect_sweep, tick))
    except LeaseLostError:
        # The other process sweeps; the volumes in focus are still ours to look at.
        return _run_focus(tick, watch_pass.collector.wall_clock_s) if tick.has_focus else None
    if collection.fingerprints is not None and not watch_pass.is_incomplete:
        with suppress(LeaseLostError):
            lease.renew_if_due()
            ledger.complete_tick(TickKind.SWEEP, tick.sweep_at_s, fleet_fingerprints=collection.fingerprints)
    _complete_focus(tick, watch_pass)
    return report


def _run_focus(tick: _ClaimedTick, now_s: float) -> PassReport:
    watch_pass = _start_tick_pass(tick, now_s)
    report, _ = run_pass(watch_pass, _collect_focus)
    _complete_focus(tick, watch_pass)
    return report


def _start_tick_pass(tick: _ClaimedTick, now_s: float) -> WatchPass:
    watch_pass = start_pass(tick.services, tick_at_s=tick.tick_at_s, now_s=now_s)
    watch_pass.fleet_size = count_volumes(tick.snapshot.fingerprints) if tick.snapshot else None
    return watch_pass


def _complete_focus(tick: _ClaimedTick, watch_pass: WatchPass) -> None:
    """Complete the focus tick, unless the pass was stopped: then the next one does what is left."""
    if tick.has_focus and not watch_pass.is_incomplete:
        tick.services.ledger.complete_tick(TickKind.FOCUS, tick.tick_at_s)


def _collect_focus(watch_pass: WatchPass) -> Collection:
    due_ids = (
        due_in_focus(watch_pass.states, watch_pass.context.tick_at_s) | watch_pass.states.unreadable.keys()
    )
    if not due_ids:
        return Collection()
    return Collection(
        due=to_due(watch_pass, read_remembered_volumes(watch_pass, due_ids)),
        due_buckets=read_remembered_buckets(watch_pass, due_ids),
    )


def _collect_sweep(tick: _ClaimedTick, watch_pass: WatchPass) -> _SweepCollection:
    """What is due of the whole fleet, and what the ledger remembers that is not in it any more."""
    volumes, is_whole = watch_pass.collector.fleet()
    focused_ids = due_in_focus(watch_pass.states, tick.tick_at_s) if tick.has_focus else set[str]()
    due = due_in_sweep(
        volumes,
        watch_pass.states,
        snapshot=tick.snapshot,
        sweep_at_s=tick.sweep_at_s,
        focused=focused_ids,
        forced=find_forced_volumes(watch_pass, volumes) | watch_pass.states.unreadable.keys(),
        instances_restarted=_find_restarted(watch_pass, volumes),
        smaller_sizes_gib=watch_pass.collector.smaller_sizes_gib(),
        policies=watch_pass.policies,
    )
    unlisted_ids = _remembered_ids(watch_pass, focused_ids, is_whole=is_whole) - {
        volume.volume_id for volume in volumes
    }
    unlisted = [DueVolume(volume=volume) for volume in read_remembered_volumes(watch_pass, unlisted_ids)]
    due_buckets, bucket_fingerprints = _collect_buckets(tick, watch_pass, focused_ids)
    if not is_whole:
        return _SweepCollection(due=[*due, *unlisted], due_buckets=due_buckets, fingerprints=None)
    return _SweepCollection(
        due=[*due, *unlisted],
        due_buckets=due_buckets,
        fleet_size=len(volumes),
        fingerprints=fleet_fingerprints(
            {fingerprint(volume, watch_pass.policies) for volume in volumes}, bucket_fingerprints
        ),
    )


def _collect_buckets(
    tick: _ClaimedTick, watch_pass: WatchPass, focused_ids: set[str]
) -> tuple[list[DueBucket], frozenset[int]]:
    """The buckets of other resources that are due, and the fingerprints of all that are polled.

    If a kind could not be listed, its buckets in focus are read by ID; the others count as new at the next
    sweep.
    """
    buckets = list_buckets(watch_pass)
    known = {subject for subject in watch_pass.known_ids if not is_volume_subject(subject)}
    unread_kinds = watch_pass.collector.unread_kinds
    due = due_buckets_in_sweep(
        buckets,
        watch_pass.states,
        snapshot=tick.snapshot,
        sweep_at_s=tick.sweep_at_s,
        focused=focused_ids | watch_pass.states.unreadable.keys(),
        policies=watch_pass.policies,
        held_ids={hold.volume_id for hold in watch_pass.holds},
    )
    unlisted_subjects = {
        subject
        for subject in known - {due_bucket.subject for due_bucket in buckets}
        if type_of_id(subject) not in unread_kinds or subject in focused_ids
    }
    unlisted = read_remembered_buckets(watch_pass, unlisted_subjects)
    return [*due, *unlisted], frozenset(
        bucket_fingerprint(due_bucket, watch_pass.policies) for due_bucket in buckets if due_bucket.is_polled
    )


def _remembered_ids(watch_pass: WatchPass, focused_ids: set[str], *, is_whole: bool) -> set[str]:
    """The ids in the ledger that this sweep polls, whether they were listed or not.

    If the listing was incomplete, a missing volume may be in the part that is missing: only those that are
    due are read by id. A permanently flipped volume is not polled until its next poll is due.
    """
    due_ids = focused_ids | watch_pass.states.unreadable.keys()
    if not is_whole:
        return due_ids
    settled_ids = {
        volume_id
        for volume_id, state in watch_pass.states.items()
        if state.flip is not None and state.flip.is_settled
    }
    return due_ids | (watch_pass.states.keys() - settled_ids)


def _find_restarted(watch_pass: WatchPass, volumes: Iterable[Volume]) -> frozenset[str]:
    """Volumes remembered with a stopped instance that is not stopped any more."""
    stopped_volumes = [
        volume
        for volume in volumes
        if (state := watch_pass.states.get(volume.volume_id))
        and state.reading.unknown_reason is UnknownReason.INSTANCE_STOPPED
    ]
    instance_states = watch_pass.collector.instance_states(stopped_volumes)
    return frozenset(volume_id for volume_id, state in instance_states.items() if state not in STOPPED_STATES)

"""One pass of the watchdog: gather, decide, record, tell. The same for Lambda, burstctl and the lab."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from burstwatch.core.assessment.assess import STOPPED_STATES, UnknownReason
from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.flips.reconcile import is_on_target
from burstwatch.core.flips.triggers import can_burst
from burstwatch.core.ledger.ledger import FleetSnapshot, ItemKind, Ledger, States, TickKind, VolumeState
from burstwatch.core.policy.policy import Mode
from burstwatch.core.tag_keys import CRITICAL, WINDOW
from burstwatch.core.watch.decision import TickContext
from burstwatch.core.watch.due_volumes import DueVolume, due_in_focus, due_in_sweep, fingerprint
from burstwatch.core.watch.fleet_summary import summarise_fleet
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.core.watch.window_status import WindowSchedule, announce_windows
from burstwatch.engine.alert_delivery import deliver
from burstwatch.engine.dispatch import dispatch_flips
from burstwatch.engine.evaluate import (
    WatchPass,
    drop_missing,
    evaluate_due,
    read_remembered_volumes,
    to_due,
)
from burstwatch.engine.services import Services

LEASE_S: Final = 50.0
"""A claimed tick that was not completed is free again before the next focus tick; a sweep renews it."""

_DISPATCH_READ_LIMIT_S: Final = 60.0
"""What is read again before a flip has time of its own, however long the pass took to look."""

_SWEEP_SCHEDULE_GRACE_S: Final = 60


class LeaseLostError(BurstwatchError):
    """Another process has taken over this sweep: its results count, and nothing of this one is recorded."""


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
    sweep_tick_s = int(services.policy.cadence.sweep_tick.total_seconds())
    sweep_at_s = tick_at_s // sweep_tick_s * sweep_tick_s
    snapshot = ledger.fleet_snapshot()
    is_due = snapshot is None or not sweep_at_s <= snapshot.tick_at_s <= now_s + sweep_tick_s
    is_left_to_sweep_schedule = kind is TickKind.FOCUS and tick_at_s < sweep_at_s + _SWEEP_SCHEDULE_GRACE_S
    should_sweep = is_due and not is_left_to_sweep_schedule
    has_sweep = should_sweep and ledger.claim_tick(TickKind.SWEEP, sweep_at_s, now_s=now_s, lease_s=LEASE_S)
    if not has_focus and not has_sweep:
        return None
    watch_pass = _start_pass(services, tick_at_s=tick_at_s, now_s=now_s)
    watch_pass.watched = len(snapshot.fingerprints) if snapshot else None
    if has_sweep:
        lease = _SweepLease(ledger, sweep_at_s, now_s + LEASE_S, lambda: watch_pass.collector.wall_clock_s)
        watch_pass.collector.heartbeat = lease.renew_if_due
        try:
            fingerprints = _sweep(watch_pass, sweep_at_s, snapshot, include_focus=has_focus)
            report = _finish(watch_pass)
        except LeaseLostError:
            if not has_focus:
                return None
            watch_pass = _start_pass(services, tick_at_s=tick_at_s, now_s=watch_pass.collector.wall_clock_s)
            _focus(watch_pass)
            report, fingerprints = _finish(watch_pass), None
        if fingerprints is not None and not watch_pass.is_stopped:
            with suppress(LeaseLostError):
                lease.renew_if_due()
                ledger.complete_tick(TickKind.SWEEP, sweep_at_s, fleet_fingerprints=fingerprints)
    else:
        _focus(watch_pass)
        report = _finish(watch_pass)
    if has_focus and not watch_pass.is_stopped:
        ledger.complete_tick(TickKind.FOCUS, tick_at_s)
    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """The report of a look at a few volumes, and which of them EC2 did not describe."""

    report: PassReport
    unread: AbstractSet[str]


def evaluate_volumes(
    services: Services,
    volume_ids: AbstractSet[str],
    *,
    modified: AbstractSet[str] | None = None,
    now_s: float,
) -> EvaluationResult:
    """Look at those of these volumes that are ours now, as something happened to them; claims no tick.

    Events name volumes of every type, so EC2 is asked first, and the ledger only about what may be ours: the
    gp2 volumes, and what was ``modified`` (default: all), as that may be on its way to another type.
    """
    watch_pass = _start_empty_pass(services, now_s)
    described, missing = watch_pass.collector.volumes_by_id(volume_ids)
    gp2_ids = {volume.volume_id for volume in described if volume.is_gp2}
    unreadable = frozenset(watch_pass.collector.unreadable)
    modified_ids = volume_ids if modified is None else modified & volume_ids
    if candidates := (gp2_ids | modified_ids) - unreadable:
        watch_pass.states = services.ledger.states_of(candidates)
    known_ids = watch_pass.states.keys() | watch_pass.states.unreadable.keys()
    if not gp2_ids and not known_ids:
        return EvaluationResult(report=_report_without_evaluation(watch_pass), unread=unreadable)
    _read_windows_and_holds(watch_pass)
    drop_missing(watch_pass, missing)
    volumes = [volume for volume in described if volume.is_gp2 or volume.volume_id in known_ids]
    _find_tag_and_window_work(watch_pass, volumes)
    due = to_due(watch_pass, volumes)
    detached_ids = {
        i for i, state in watch_pass.states.items() if state.unknown_reason is UnknownReason.DETACHED
    }
    evaluate_due(
        watch_pass,
        [
            replace(due_volume, has_arrived=due_volume.volume.volume_id not in known_ids - detached_ids)
            for due_volume in due
        ],
    )
    return EvaluationResult(report=_finish(watch_pass, is_partial=True), unread=unreadable)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReportResult:
    """What became of the reports of hosts.

    ``repeated`` says how many came within a minute of another, ``refused`` why some were not believed, and
    ``unread`` of which volumes EC2 did not say where they are attached.
    """

    report: PassReport
    repeated: int = 0
    refused: Sequence[str] = ()
    unread: AbstractSet[str] = frozenset()


def ingest_host_reports(services: Services, stalls: Iterable[Stall], *, now_s: float) -> HostReportResult:
    """Remember what hosts report of their volumes, and look at those now.

    One report a minute is taken of a volume, and only from the instance that the volume is attached to.
    Anybody may send reports, so the volume's own item of the ledger is read first, and nothing else of one
    that is a repetition.
    """
    reports = list(stalls)
    newest_stalls: dict[tuple[str, str], Stall] = {}
    for stall in sorted(reports, key=lambda host_report: host_report.seen_at_s):
        newest_stalls[stall.volume_id, stall.instance_id] = stall
    watch_pass = _start_empty_pass(services, now_s)
    volume_ids = {stall.volume_id for stall in newest_stalls.values()}
    watch_pass.states = services.ledger.states_of(volume_ids) if volume_ids else States()
    new_stalls = [stall for stall in newest_stalls.values() if not _is_repeat(stall, watch_pass.states)]
    repeated = len(reports) - len(new_stalls)
    if not new_stalls:
        return HostReportResult(report=_report_without_evaluation(watch_pass), repeated=repeated)
    described, _ = watch_pass.collector.volumes_by_id({stall.volume_id for stall in new_stalls})
    volumes = {volume.volume_id: volume for volume in described}
    unread = frozenset(watch_pass.collector.unreadable)
    refusal_reasons = [_reason_to_refuse(stall, volumes.get(stall.volume_id)) for stall in new_stalls]
    refused = [
        reason
        for stall, reason in zip(new_stalls, refusal_reasons, strict=True)
        if reason and stall.volume_id not in unread
    ]
    watch_pass.stalls = {
        stall.volume_id: stall
        for stall, reason in zip(new_stalls, refusal_reasons, strict=True)
        if not reason
    }
    if not watch_pass.stalls:
        return HostReportResult(
            report=_report_without_evaluation(watch_pass), repeated=repeated, refused=refused, unread=unread
        )
    _read_windows_and_holds(watch_pass)
    evaluate_due(watch_pass, to_due(watch_pass, [volumes[volume_id] for volume_id in watch_pass.stalls]))
    report = _finish(watch_pass, is_partial=True)
    return HostReportResult(report=report, repeated=repeated, refused=refused, unread=unread)


def _is_repeat(stall: Stall, states: Mapping[str, VolumeState]) -> bool:
    state = states.get(stall.volume_id)
    return state is not None and state.stall is not None and stall.is_repeat_of(state.stall)


def _reason_to_refuse(stall: Stall, volume: Volume | None) -> str | None:
    if volume is None:
        return f"{stall.instance_id} reports of {stall.volume_id}, which does not exist"
    if volume.instance_id == stall.instance_id:
        return None
    attached_to = volume.instance_id or "no instance"
    return f"{stall.instance_id} reports of {stall.volume_id}, which is attached to {attached_to}"


def reconcile_open_flips(services: Services, *, now_s: float) -> PassReport:
    """Find out what became of the modifications under way; begins none."""
    watch_pass = _start_pass(
        replace(services, modifier=None, flip_queue=None), tick_at_s=int(now_s), now_s=now_s
    )
    open_ids = {
        volume_id
        for volume_id, state in watch_pass.states.items()
        if state.flip is not None and state.flip.is_under_way
    }
    if open_ids:
        evaluate_due(watch_pass, to_due(watch_pass, read_remembered_volumes(watch_pass, open_ids)))
    return _finish(watch_pass)


def evaluate_fleet(services: Services, *, now_s: float) -> PassReport:
    """Look at the whole fleet now, record and tell; claims no tick, so it never holds one up."""
    watch_pass = _start_pass(services, tick_at_s=int(now_s), now_s=now_s)
    volumes, is_whole = watch_pass.collector.fleet()
    _find_tag_and_window_work(watch_pass, volumes)
    known_ids = watch_pass.states.keys() | watch_pass.states.unreadable.keys()
    departed_ids = known_ids - {volume.volume_id for volume in volumes} if is_whole else set()
    evaluate_due(
        watch_pass, to_due(watch_pass, [*volumes, *read_remembered_volumes(watch_pass, departed_ids)])
    )
    return _finish(watch_pass)


def assess_volumes(services: Services, volume_ids: Sequence[str] = (), *, now_s: float) -> PassReport:
    """Look at these volumes, or at the whole fleet and what was flipped away from it, and change nothing.

    The samples stay in the assessments of volumes asked for by id; those of a fleet would not fit in memory.
    """
    watch_pass = _start_pass(services, tick_at_s=int(now_s), now_s=now_s)
    watch_pass.keeps_samples = bool(volume_ids)
    watch_pass.explains_drains = False
    if volume_ids:
        volumes, watch_pass.missing = watch_pass.collector.volumes_by_id(volume_ids)
    else:
        fleet, _ = watch_pass.collector.fleet()
        flipped_ids = {
            i for i, state in watch_pass.states.items() if state.flip
        } | watch_pass.states.unreadable.keys()
        unlisted_ids = flipped_ids - {volume.volume_id for volume in fleet}
        volumes = [*fleet, *watch_pass.collector.volumes_by_id(unlisted_ids)[0]]
    evaluate_due(watch_pass, to_due(watch_pass, volumes))
    _report_unreadable_items(watch_pass)
    return _build_report(watch_pass, is_read_only=True)


def _start_pass(services: Services, *, tick_at_s: int, now_s: float) -> WatchPass:
    services.calls.reset()
    services.calls.limit_reads(services.read_limit_s)
    ledger = services.ledger
    return WatchPass(
        services=services,
        context=TickContext(now_s=now_s, tick_at_s=tick_at_s, location=services.location),
        collector=services.build_collector(now_s),
        states=ledger.states(),
        window_schedule=WindowSchedule.at(now_s, services.policy, ledger.manual_overrides().values()),
        holds=ledger.holds(now_s),
    )


def _start_empty_pass(services: Services, now_s: float) -> WatchPass:
    """A pass about a few volumes, for which nothing is read yet."""
    services.calls.reset()
    services.calls.limit_reads(services.read_limit_s)
    return WatchPass(
        services=services,
        context=TickContext(now_s=now_s, tick_at_s=int(now_s), location=services.location),
        collector=services.build_collector(now_s),
        states=States(),
        window_schedule=WindowSchedule.at(now_s, services.policy, ()),
        holds=(),
    )


def _read_windows_and_holds(watch_pass: WatchPass) -> None:
    """What a decision needs besides the volume's own state: windows by hand, and holds."""
    ledger, now_s = watch_pass.services.ledger, watch_pass.context.now_s
    watch_pass.window_schedule = WindowSchedule.at(
        now_s, watch_pass.services.policy, ledger.manual_overrides().values()
    )
    watch_pass.holds = ledger.holds(now_s)


def _report_without_evaluation(watch_pass: WatchPass) -> PassReport:
    return replace(
        _build_report(watch_pass, is_read_only=False), unreadable_count=_count_unreadable(watch_pass)
    )


def _sweep(
    watch_pass: WatchPass, sweep_at_s: int, snapshot: FleetSnapshot | None, *, include_focus: bool = True
) -> frozenset[int] | None:
    """Look at what the sweep finds due; the new roster, or None when the fleet could not be listed whole."""
    cadence = watch_pass.services.policy.cadence
    volumes, is_whole = watch_pass.collector.fleet()
    focused_ids = (
        due_in_focus(watch_pass.states, watch_pass.context.tick_at_s) if include_focus else set[str]()
    )
    due = due_in_sweep(
        volumes,
        watch_pass.states,
        snapshot=snapshot,
        sweep_at_s=sweep_at_s,
        focused=focused_ids,
        forced=_find_tag_and_window_work(watch_pass, volumes) | watch_pass.states.unreadable.keys(),
        instances_restarted=_find_restarted(watch_pass, volumes),
        smaller_sizes_gib=watch_pass.collector.smaller_sizes_gib(),
        cadence=cadence,
    )
    listed_ids = {volume.volume_id for volume in volumes}
    unreadable_ids = watch_pass.states.unreadable.keys()
    flipped_ids = {volume_id for volume_id, state in watch_pass.states.items() if not _is_settled(state)}
    unlisted_ids = (
        flipped_ids | focused_ids | unreadable_ids if is_whole else focused_ids | unreadable_ids
    ) - listed_ids
    evaluate_due(
        watch_pass,
        [*due, *(DueVolume(volume=volume) for volume in read_remembered_volumes(watch_pass, unlisted_ids))],
    )
    if not is_whole:
        return None
    watch_pass.watched = len(volumes)
    return frozenset(fingerprint(volume, cadence) for volume in volumes)


def _is_settled(state: VolumeState) -> bool:
    """Whether it stays where it was flipped: the sweep leaves it alone until its next look is due."""
    return state.flip is not None and state.flip.is_settled


def _find_tag_and_window_work(watch_pass: WatchPass, volumes: Iterable[Volume]) -> frozenset[str]:
    """Note which volumes a window asks for; the ids of calm ones that tags or windows want looked at now."""
    forced = set[str]()
    has_windows = bool(watch_pass.services.policy.windows)
    for volume in volumes:
        if volume.volume_id in watch_pass.states.unreadable:
            continue
        state = watch_pass.states.get(volume.volume_id)
        flip = state.flip if state else None
        if flip is not None and not flip.is_under_way and not is_on_target(volume, flip):
            forced.add(volume.volume_id)  # somebody else brought it back: it lives on its credits again
        is_critical = CRITICAL in volume.tags
        if not (is_critical or has_windows or WINDOW in volume.tags) or not can_burst(volume):
            continue
        volume_settings = watch_pass.settings_of(volume)
        if volume_settings.is_ignored or volume_settings.mode is Mode.OBSERVE or flip is not None:
            continue
        windows = watch_pass.window_schedule.status_for(volume)
        is_wanted = windows is not None and windows.wants_flip
        if windows is not None:
            watch_pass.in_window[volume.volume_id] = windows
        needs_critical_alert = volume_settings.is_critical and not (state and state.is_critical_alerted)
        is_calm = state is None or state.next_poll_at_s is None
        if is_calm and (
            needs_critical_alert
            or (volume_settings.mode is Mode.AUTO and (is_wanted or volume_settings.is_critical))
        ):
            forced.add(volume.volume_id)
    return frozenset(forced)


def _focus(watch_pass: WatchPass) -> None:
    due = due_in_focus(watch_pass.states, watch_pass.context.tick_at_s) | watch_pass.states.unreadable.keys()
    if due:
        evaluate_due(watch_pass, to_due(watch_pass, read_remembered_volumes(watch_pass, due)))


def _find_restarted(watch_pass: WatchPass, volumes: Iterable[Volume]) -> frozenset[str]:
    """Volumes remembered with a stopped instance that is not stopped any more."""
    stopped_volumes = [
        volume
        for volume in volumes
        if (state := watch_pass.states.get(volume.volume_id))
        and state.unknown_reason is UnknownReason.INSTANCE_STOPPED
    ]
    instance_states = watch_pass.collector.instance_states(stopped_volumes)
    return frozenset(volume_id for volume_id, state in instance_states.items() if state not in STOPPED_STATES)


def _finish(watch_pass: WatchPass, *, is_partial: bool = False) -> PassReport:
    """Record, act, tell: an alert is in the ledger before anybody sees it.

    With ``is_partial`` the pass knows only some of the states, so it does not count the fleet, and one that
    alerts nobody leaves what waits to the next tick, which tells it together.
    """
    services = watch_pass.services
    watch_pass.collector.heartbeat()
    changes = [*watch_pass.dropped, *(d.change for d in watch_pass.decisions if d.change is not None)]
    changes += announce_windows(
        watch_pass.in_window,
        policy=services.policy,
        location=services.location,
        now_s=watch_pass.context.now_s,
    )
    started_at_s = monotonic()
    recorded = services.ledger.commit(changes, channels=services.channel_names) if changes else set()
    services.calls.limit_reads(_DISPATCH_READ_LIMIT_S)
    dispatch_flips(watch_pass, recorded)
    should_deliver = not is_partial or any(
        change.alerts for change in changes if change.volume_id in recorded
    )
    delivery = deliver(
        services.ledger,
        services.channels if should_deliver else (),
        digest_above=services.policy.alerts.digest_above,
        location=services.location,
        runbooks_url=services.policy.alerts.runbooks_url,
        now_s=watch_pass.context.now_s,
        clock=lambda: watch_pass.context.now_s + monotonic() - started_at_s,
        should_stop=services.should_stop,
    )
    watch_pass.collector.failures += delivery.errors
    unreadable_alerts = _report_unreadable_items(watch_pass)
    report = _build_report(watch_pass, is_read_only=False)
    applied = [change for change in changes if change.volume_id in recorded]
    fleet = None if is_partial else summarise_fleet(watch_pass.states, applied, watch_pass.watched)
    return replace(
        report,
        sent=delivery.sent,
        undelivered=delivery.failed + unreadable_alerts,
        fleet=fleet,
        unreadable_count=_count_unreadable(watch_pass),
    )


def _report_unreadable_items(watch_pass: WatchPass) -> int:
    """Say what the ledger holds that cannot be read; how many alerts of it will not be sent."""
    items = watch_pass.services.ledger.take_unreadable()
    reported_ids = {decision.volume_id for decision in watch_pass.decisions}
    watch_pass.collector.failures += [
        str(item) for item in items if item.kind is not ItemKind.STATE or item.subject not in reported_ids
    ]
    return sum(item.kind is ItemKind.ALERT for item in items)


def _count_unreadable(watch_pass: WatchPass) -> int:
    """How many volumes nothing was told of; of a fleet that could not be listed, all that were known."""
    if watch_pass.collector.has_whole_fleet:
        return len(watch_pass.collector.unreadable)
    return max(1, watch_pass.watched or 0, len(watch_pass.collector.unreadable))


def _build_report(watch_pass: WatchPass, *, is_read_only: bool) -> PassReport:
    services = watch_pass.services
    return PassReport(
        now_s=watch_pass.context.now_s,
        region=services.location.region,
        ledger=services.ledger.location,
        decisions=watch_pass.decisions,
        cadence=services.policy.cadence,
        metrics_requested=services.calls.metrics_requested,
        api_calls=services.calls.calls,
        ignored=watch_pass.ignored,
        missing=watch_pass.missing,
        failures=watch_pass.collector.failures,
        internal_errors=watch_pass.internal_errors,
        is_read_only=is_read_only,
        outcomes=watch_pass.outcomes,
        holds=watch_pass.holds,
    )

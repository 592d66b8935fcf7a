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
from burstwatch.core.flips.reconcile import shows
from burstwatch.core.flips.triggers import can_burst
from burstwatch.core.ledger.ledger import ItemKind, Ledger, Roster, States, TickKind, VolumeState
from burstwatch.core.policy.policy import Mode
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.tag_keys import CRITICAL, WINDOW
from burstwatch.core.watch.decide import Look
from burstwatch.core.watch.due_volumes import DueVolume, due_in_focus, due_in_sweep, fingerprint
from burstwatch.core.watch.fleet_summary import count_fleet
from burstwatch.core.watch.report import Report
from burstwatch.core.watch.window_status import Outlook, announce_windows
from burstwatch.engine.alert_delivery import deliver
from burstwatch.engine.dispatch import act
from burstwatch.engine.evaluate import Pass, as_due, by_id, forget_missing, look_at_due, look_into_drains
from burstwatch.engine.services import Shell

LEASE_S: Final = 50.0
"""A claimed tick that was not completed is free again before the next focus tick; a sweep renews it."""

_ACT_READS_S: Final = 60.0
"""What is read again before a flip has time of its own, however long the pass took to look."""

_OWN_MINUTE_S: Final = 60


class LeaseLostError(BurstwatchError):
    """Another process has taken over this sweep: its results count, and nothing of this one is recorded."""


@dataclass(slots=True)
class _SweepLease:
    """The claim of a sweep, renewed while it makes progress: a listing of a large region takes minutes."""

    ledger: Ledger
    tick_s: int
    until_s: float
    time_s: Callable[[], float]

    def keep(self) -> None:
        """Renew the claim when half of it is used up.

        Raises:
            LeaseLostError: it ran out before this, and another process took the sweep.
        """
        now_s = self.time_s()
        if self.until_s - now_s > LEASE_S / 2:
            return
        if not self.ledger.renew_tick(
            TickKind.SWEEP, self.tick_s, until_s=self.until_s, now_s=now_s, lease_s=LEASE_S
        ):
            raise LeaseLostError("another process has taken over this sweep")
        self.until_s = now_s + LEASE_S


def run_tick(shell: Shell, *, tick_s: int, now_s: float, kind: TickKind | None = None) -> Report | None:
    """Do the work of one tick: the volumes in focus that are due, and the sweep ticks not yet completed.

    Where each ``kind`` has a schedule of its own, a focus tick leaves the sweep of its minute to the other
    schedule, and sweeps only what that has missed. A sweep tick leaves the volumes in focus to the focus
    ticks: a sweep of a large region takes longer than those may wait.

    Returns:
        The report, or None when another process has the tick.
    """
    ledger = shell.ledger
    is_sweep = kind is TickKind.SWEEP
    has_focus = not is_sweep and ledger.claim_tick(TickKind.FOCUS, tick_s, now_s=now_s, lease_s=LEASE_S)
    if not has_focus and not is_sweep:
        return None
    grid_s = int(shell.policy.cadence.sweep_tick.total_seconds())
    sweep_s = tick_s // grid_s * grid_s
    roster = ledger.roster()
    is_due = roster is None or not sweep_s <= roster.tick_s <= now_s + grid_s
    is_left_to_other = kind is TickKind.FOCUS and tick_s < sweep_s + _OWN_MINUTE_S
    sweeps = is_due and not is_left_to_other
    has_sweep = sweeps and ledger.claim_tick(TickKind.SWEEP, sweep_s, now_s=now_s, lease_s=LEASE_S)
    if not has_focus and not has_sweep:
        return None
    this = _begin(shell, tick_s=tick_s, now_s=now_s)
    this.watched = len(roster.fingerprints) if roster else None
    if has_sweep:
        lease = _SweepLease(ledger, sweep_s, now_s + LEASE_S, lambda: this.gathering.time_s)
        this.gathering.heartbeat = lease.keep
        try:
            fingerprints = _sweep(this, sweep_s, roster, with_focus=has_focus)
            report = _finish(this)
        except LeaseLostError:
            if not has_focus:
                return None
            this = _begin(shell, tick_s=tick_s, now_s=this.gathering.time_s)
            _focus(this)
            report, fingerprints = _finish(this), None
        if fingerprints is not None and not this.is_stopped:
            with suppress(LeaseLostError):
                lease.keep()
                ledger.complete_tick(TickKind.SWEEP, sweep_s, roster=fingerprints)
    else:
        _focus(this)
        report = _finish(this)
    if has_focus and not this.is_stopped:
        ledger.complete_tick(TickKind.FOCUS, tick_s)
    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedAt:
    """The report of a look at a few volumes, and which of them EC2 did not describe."""

    report: Report
    unread: AbstractSet[str]


def look_at(
    shell: Shell, volume_ids: AbstractSet[str], *, modified: AbstractSet[str] | None = None, now_s: float
) -> LookedAt:
    """Look at those of these volumes that are ours now, as something happened to them; claims no tick.

    Events name volumes of every type, so EC2 is asked first, and the ledger only about what may be ours: the
    gp2 volumes, and what was ``modified`` (default: all), as that may be on its way to another type.
    """
    this = _begin_with_nothing(shell, now_s)
    found, missing = this.gathering.by_id(volume_ids)
    gp2 = {volume.volume_id for volume in found if volume.is_gp2}
    undescribed = frozenset(this.gathering.undescribed)
    may_have_moved = volume_ids if modified is None else modified & volume_ids
    if candidates := (gp2 | may_have_moved) - undescribed:
        this.states = shell.ledger.states_of(candidates)
    known = this.states.keys() | this.states.unread.keys()
    if not gp2 and not known:
        return LookedAt(report=_report_unread(this), unread=undescribed)
    _read_surroundings(this)
    forget_missing(this, missing)
    volumes = [volume for volume in found if volume.is_gp2 or volume.volume_id in known]
    _survey(this, volumes)
    due = as_due(this, volumes)
    away = {i for i, state in this.states.items() if state.unknown_reason is UnknownReason.DETACHED}
    look_at_due(this, [replace(one, has_arrived=one.volume.volume_id not in known - away) for one in due])
    return LookedAt(report=_finish(this, only_own=True), unread=undescribed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What became of the reports of hosts.

    ``repeated`` says how many came within a minute of another, ``refused`` why some were not believed, and
    ``unread`` of which volumes EC2 did not say where they are attached.
    """

    report: Report
    repeated: int = 0
    refused: Sequence[str] = ()
    unread: AbstractSet[str] = frozenset()


def hear(shell: Shell, stalls: Iterable[Stall], *, now_s: float) -> Heard:
    """Remember what hosts report of their volumes, and look at those now.

    One report a minute is taken of a volume, and only from the instance that the volume is attached to.
    Anybody may send reports, so the volume's own item of the ledger is read first, and nothing else of one
    that is a repetition.
    """
    reports = list(stalls)
    newest: dict[tuple[str, str], Stall] = {}
    for stall in sorted(reports, key=lambda each: each.seen_at_s):
        newest[stall.volume_id, stall.instance_id] = stall
    this = _begin_with_nothing(shell, now_s)
    volume_ids = {stall.volume_id for stall in newest.values()}
    this.states = shell.ledger.states_of(volume_ids) if volume_ids else States()
    news = [stall for stall in newest.values() if not _is_known(stall, this.states)]
    repeated = len(reports) - len(news)
    if not news:
        return Heard(report=_report_unread(this), repeated=repeated)
    found, _ = this.gathering.by_id({stall.volume_id for stall in news})
    volumes = {volume.volume_id: volume for volume in found}
    unread = frozenset(this.gathering.undescribed)
    doubts = [_why_not_believed(stall, volumes.get(stall.volume_id)) for stall in news]
    refused = [why for stall, why in zip(news, doubts, strict=True) if why and stall.volume_id not in unread]
    this.stalls = {stall.volume_id: stall for stall, why in zip(news, doubts, strict=True) if not why}
    if not this.stalls:
        return Heard(report=_report_unread(this), repeated=repeated, refused=refused, unread=unread)
    _read_surroundings(this)
    look_at_due(this, as_due(this, [volumes[volume_id] for volume_id in this.stalls]))
    report = _finish(this, only_own=True)
    return Heard(report=report, repeated=repeated, refused=refused, unread=unread)


def _is_known(stall: Stall, states: Mapping[str, VolumeState]) -> bool:
    state = states.get(stall.volume_id)
    return state is not None and state.stall is not None and stall.repeats(state.stall)


def _why_not_believed(stall: Stall, volume: Volume | None) -> str | None:
    if volume is None:
        return f"{stall.instance_id} reports of {stall.volume_id}, which does not exist"
    if volume.instance_id == stall.instance_id:
        return None
    where = volume.instance_id or "no instance"
    return f"{stall.instance_id} reports of {stall.volume_id}, which is attached to {where}"


def settle(shell: Shell, *, now_s: float) -> Report:
    """Find out what became of the modifications under way; begins none."""
    this = _begin(replace(shell, modifier=None, requests=None), tick_s=int(now_s), now_s=now_s)
    open_ids = {
        volume_id
        for volume_id, state in this.states.items()
        if state.flip is not None and state.flip.is_under_way
    }
    if open_ids:
        look_at_due(this, as_due(this, by_id(this, open_ids)))
    return _finish(this)


def look_at_everything(shell: Shell, *, now_s: float) -> Report:
    """Look at the whole fleet now, record and tell; claims no tick, so it never holds one up."""
    this = _begin(shell, tick_s=int(now_s), now_s=now_s)
    volumes, is_whole = this.gathering.fleet()
    _survey(this, volumes)
    known = this.states.keys() | this.states.unread.keys()
    departed = known - {volume.volume_id for volume in volumes} if is_whole else set()
    look_at_due(this, as_due(this, [*volumes, *by_id(this, departed)]))
    return _finish(this)


def assess_volumes(shell: Shell, volume_ids: Sequence[str] = (), *, now_s: float) -> Report:
    """Look at these volumes, or at the whole fleet and what was flipped away from it, and change nothing.

    The samples stay in the assessments of volumes asked for by id; those of a fleet would not fit in memory.
    """
    this = _begin(shell, tick_s=int(now_s), now_s=now_s)
    this.keeps_samples = bool(volume_ids)
    if volume_ids:
        volumes, this.missing = this.gathering.by_id(volume_ids)
    else:
        fleet, _ = this.gathering.fleet()
        away = {i for i, state in this.states.items() if state.flip} | this.states.unread.keys()
        unlisted = away - {each.volume_id for each in fleet}
        volumes = [*fleet, *this.gathering.by_id(unlisted)[0]]
    look_at_due(this, as_due(this, volumes))
    _note_unreadable(this)
    return _report(this, is_read_only=True)


def _begin(shell: Shell, *, tick_s: int, now_s: float) -> Pass:
    shell.calls.reset()
    shell.calls.limit_reads(shell.look_within_s)
    ledger = shell.ledger
    return Pass(
        shell=shell,
        look=Look(now_s=now_s, tick_s=tick_s, place=shell.place),
        gathering=shell.gathering(now_s),
        states=ledger.states(),
        outlook=Outlook.at(now_s, shell.policy, ledger.window_marks().values()),
        holds=ledger.holds(now_s),
    )


def _begin_with_nothing(shell: Shell, now_s: float) -> Pass:
    """A pass about a few volumes, for which nothing is read yet."""
    shell.calls.reset()
    shell.calls.limit_reads(shell.look_within_s)
    return Pass(
        shell=shell,
        look=Look(now_s=now_s, tick_s=int(now_s), place=shell.place),
        gathering=shell.gathering(now_s),
        states=States(),
        outlook=Outlook.at(now_s, shell.policy, ()),
        holds=(),
    )


def _read_surroundings(this: Pass) -> None:
    """What a decision needs besides the volume's own state: windows by hand, and holds."""
    ledger, now_s = this.shell.ledger, this.look.now_s
    this.outlook = Outlook.at(now_s, this.shell.policy, ledger.window_marks().values())
    this.holds = ledger.holds(now_s)


def _report_unread(this: Pass) -> Report:
    return replace(_report(this, is_read_only=False), undescribed=_undescribed(this))


def _sweep(
    this: Pass, sweep_s: int, roster: Roster | None, *, with_focus: bool = True
) -> frozenset[int] | None:
    """Look at what the sweep finds due; the new roster, or None when the fleet could not be listed whole."""
    cadence = this.shell.policy.cadence
    volumes, is_whole = this.gathering.fleet()
    focused = due_in_focus(this.states, this.look.tick_s) if with_focus else set[str]()
    due = due_in_sweep(
        volumes,
        this.states,
        roster=roster,
        sweep_s=sweep_s,
        focused=focused,
        summoned=_survey(this, volumes) | this.states.unread.keys(),
        restarted=_restarted(this, volumes),
        smaller_sizes_gib=this.gathering.smaller_sizes_gib(),
        cadence=cadence,
    )
    listed = {volume.volume_id for volume in volumes}
    unread = this.states.unread.keys()
    moved = {volume_id for volume_id, state in this.states.items() if not _is_settled(state)}
    unlisted = (moved | focused | unread if is_whole else focused | unread) - listed
    look_at_due(this, [*due, *(DueVolume(volume=volume) for volume in by_id(this, unlisted))])
    if not is_whole:
        return None
    this.watched = len(volumes)
    return frozenset(fingerprint(volume, cadence) for volume in volumes)


def _is_settled(state: VolumeState) -> bool:
    """Whether it stays where it was flipped: the sweep leaves it alone until its next look is due."""
    return state.flip is not None and state.flip.is_settled


def _survey(this: Pass, volumes: Iterable[Volume]) -> frozenset[str]:
    """Note which volumes a window asks for; the ids of calm ones that tags or windows want looked at now."""
    mode, summoned = this.shell.policy.mode, set[str]()
    has_windows = bool(this.shell.policy.windows)
    for volume in volumes:
        if volume.volume_id in this.states.unread:
            continue
        state = this.states.get(volume.volume_id)
        flip = state.flip if state else None
        if flip is not None and not flip.is_under_way and not shows(volume, flip):
            summoned.add(volume.volume_id)  # somebody else brought it back: it lives on its credits again
        is_critical = CRITICAL in volume.tags
        if not (is_critical or has_windows or WINDOW in volume.tags) or not can_burst(volume):
            continue
        wishes = read_tags(volume.tags, mode)
        if wishes.is_ignored or wishes.mode is Mode.OBSERVE or flip is not None:
            continue
        windows = this.outlook.of(volume)
        is_wanted = windows is not None and windows.wants_flip
        if windows is not None:
            this.in_window[volume.volume_id] = windows
        is_untold = wishes.is_critical and not (state and state.critical_told)
        is_calm = state is None or state.next_look_at_s is None
        if is_calm and (is_untold or (wishes.mode is Mode.AUTO and (is_wanted or wishes.is_critical))):
            summoned.add(volume.volume_id)
    return frozenset(summoned)


def _focus(this: Pass) -> None:
    due = due_in_focus(this.states, this.look.tick_s) | this.states.unread.keys()
    if due:
        look_at_due(this, as_due(this, by_id(this, due)))


def _restarted(this: Pass, volumes: Iterable[Volume]) -> frozenset[str]:
    """Volumes remembered with a stopped instance that is not stopped any more."""
    waiting = [
        volume
        for volume in volumes
        if (state := this.states.get(volume.volume_id))
        and state.unknown_reason is UnknownReason.INSTANCE_STOPPED
    ]
    found = this.gathering.instance_states(waiting)
    return frozenset(volume_id for volume_id, state in found.items() if state not in STOPPED_STATES)


def _finish(this: Pass, *, only_own: bool = False) -> Report:
    """Look into drains, record, act, tell: an alert is in the ledger before anybody sees it.

    With ``only_own`` the pass knows only some of the states, so it does not count the fleet, and one that
    alerts nobody leaves what waits to the next tick, which tells it together.
    """
    shell = this.shell
    look_into_drains(this)
    this.gathering.heartbeat()
    changes = [*this.forgotten, *(d.change for d in this.decisions if d.change is not None)]
    changes += announce_windows(this.in_window, policy=shell.policy, place=shell.place, now_s=this.look.now_s)
    began = monotonic()
    recorded = shell.ledger.commit(changes, channels=shell.channel_names) if changes else set()
    shell.calls.limit_reads(_ACT_READS_S)
    act(this, recorded)
    tells = not only_own or any(change.alerts for change in changes if change.volume_id in recorded)
    delivery = deliver(
        shell.ledger,
        shell.channels if tells else (),
        digest_above=shell.policy.alerts.digest_above,
        place=shell.place,
        runbooks_url=shell.policy.alerts.runbooks_url,
        now_s=this.look.now_s,
        clock=lambda: this.look.now_s + monotonic() - began,
        should_stop=shell.should_stop,
    )
    this.gathering.failures += delivery.errors
    parked = _note_unreadable(this)
    report = _report(this, is_read_only=False)
    applied = [change for change in changes if change.volume_id in recorded]
    fleet = None if only_own else count_fleet(this.states, applied, this.watched)
    return replace(
        report,
        sent=delivery.sent,
        undelivered=delivery.failed + parked,
        fleet=fleet,
        undescribed=_undescribed(this),
    )


def _note_unreadable(this: Pass) -> int:
    """Say what the ledger holds that cannot be read; how many alerts of it will not be sent."""
    found = this.shell.ledger.take_unreadable()
    told = {decision.volume_id for decision in this.decisions}
    this.gathering.failures += [
        str(one) for one in found if one.kind is not ItemKind.STATE or one.subject not in told
    ]
    return sum(one.kind is ItemKind.ALERT for one in found)


def _undescribed(this: Pass) -> int:
    """How many volumes nothing was told of; of a fleet that could not be listed, all that were known."""
    if this.gathering.has_whole_fleet:
        return len(this.gathering.undescribed)
    return max(1, this.watched or 0, len(this.gathering.undescribed))


def _report(this: Pass, *, is_read_only: bool) -> Report:
    shell = this.shell
    return Report(
        now_s=this.look.now_s,
        region=shell.place.region,
        ledger=shell.ledger.location,
        decisions=this.decisions,
        cadence=shell.policy.cadence,
        metrics_requested=shell.calls.metrics_requested,
        api_calls=shell.calls.calls,
        ignored=this.ignored,
        missing=this.missing,
        failures=this.gathering.failures,
        bugs=this.bugs,
        is_read_only=is_read_only,
        outcomes=this.outcomes,
        holds=this.holds,
    )

"""One pass of the watchdog: gather, decide, record, tell. The same for Lambda, burstctl and the lab."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from time import monotonic
from typing import Final

from burstwatch.adapters.delivery import deliver
from burstwatch.adapters.errors import AwsFailure
from burstwatch.adapters.flip_queue import FlipRequest
from burstwatch.core.assess import STOPPED_STATES, Assessment, Evidence, UnknownReason, assess
from burstwatch.core.decide import Decision, Look, decide, forget
from burstwatch.core.fleet import count_fleet
from burstwatch.core.flips import Direction, Hold, Phase, hold_on
from burstwatch.core.follow import Sighting, shows
from burstwatch.core.guards import Guard, refuse_hold, refuse_pause
from burstwatch.core.ledger import Change, Roster, TickKind, VolumeState
from burstwatch.core.levels import Level, judge
from burstwatch.core.modification import Modification
from burstwatch.core.orders import Order
from burstwatch.core.outcome import Done, Outcome
from burstwatch.core.outlook import Outlook, announce_windows
from burstwatch.core.plan import DueVolume, due_in_focus, due_in_sweep, fingerprint
from burstwatch.core.policy import Mode
from burstwatch.core.propose import demand_of
from burstwatch.core.report import Report, urgency_of
from burstwatch.core.samples import PERIOD_S, Series
from burstwatch.core.stall import Stall
from burstwatch.core.tag_keys import CRITICAL, IGNORE, WINDOW
from burstwatch.core.tags import read_tags
from burstwatch.core.volume import Volume
from burstwatch.core.want import Around, can_burst
from burstwatch.core.windows import WindowState
from burstwatch.flip import carry_out
from burstwatch.gather import OPERATIONS_SPAN_S, Gathering
from burstwatch.shell import Shell

_OWN_MINUTE_S: Final = 60
LEASE_S: Final = 50.0
"""A claimed tick that was not completed is free again before the next focus tick."""

_STALL_EVERY_S: Final = 60
_MOST_STALLS: Final = 100
"""Reports of hosts are taken so often of a volume, and of so many volumes at once."""

_CHUNK: Final = 5_000
"""Volumes assessed before their samples are let go: bounds the memory of a pass over a large fleet."""


@dataclass(slots=True)
class _Pass:
    """A pass under way: what it found so far."""

    shell: Shell
    look: Look
    gathering: Gathering
    states: Mapping[str, VolumeState]
    outlook: Outlook
    holds: Sequence[Hold]
    decisions: list[Decision] = field(default_factory=list)
    in_window: dict[str, WindowState] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    forgotten: list[Change] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    stalls: Mapping[str, Stall] = field(default_factory=dict)
    bugs: list[str] = field(default_factory=list)
    watched: int | None = None
    keeps_samples: bool = False

    @property
    def known_windows(self) -> frozenset[str]:
        return frozenset(w.name for w in self.shell.policy.windows) | self.outlook.by_hand.keys()


def run_tick(shell: Shell, *, tick_s: int, now_s: float, kind: TickKind | None = None) -> Report | None:
    """Do the work of one tick: the volumes in focus that are due, and the sweep ticks not yet completed.

    Where each ``kind`` has a schedule of its own, a focus tick leaves the sweep of its minute to the other
    schedule, and sweeps only what that has missed.

    Returns:
        The report, or None when another process has the tick.
    """
    ledger = shell.ledger
    has_focus = ledger.claim_tick(TickKind.FOCUS, tick_s, now_s=now_s, lease_s=LEASE_S)
    if not has_focus and kind is not TickKind.SWEEP:
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
        fingerprints = _sweep(this, sweep_s, roster, with_focus=has_focus)
        report = _finish(this)
        if fingerprints is not None:
            ledger.complete_tick(TickKind.SWEEP, sweep_s, roster=fingerprints)
    else:
        _focus(this)
        report = _finish(this)
    if has_focus:
        ledger.complete_tick(TickKind.FOCUS, tick_s)
    return report


def look_at(shell: Shell, volume_ids: AbstractSet[str], *, now_s: float) -> Report:
    """Look at these volumes now, because something is said to have happened to them; claims no tick."""
    this = _begin(shell, tick_s=int(now_s), now_s=now_s)
    volumes = _by_id(this, set(volume_ids))
    _survey(this, volumes)
    known = this.states.keys()
    _look_at(
        this, [replace(one, has_arrived=one.volume.volume_id not in known) for one in _as_due(this, volumes)]
    )
    return _finish(this)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What became of the reports of hosts: those ``too_many``, and why some were not believed."""

    report: Report
    too_many: int
    refused: Sequence[str]


def hear(shell: Shell, stalls: Iterable[Stall], *, now_s: float) -> Heard:
    """Remember what hosts report of their volumes, and look at those now.

    One report a minute is taken of a volume, so many volumes at once, and each only from the instance that
    the volume is attached to.
    """
    this = _begin(shell, tick_s=int(now_s), now_s=now_s)
    newest: dict[str, Stall] = {}
    too_many = 0
    for stall in stalls:
        state = this.states.get(stall.volume_id)
        known = newest.get(stall.volume_id) or (state.stall if state else None)
        is_repeat = known is not None and stall.started_at_s < known.started_at_s + _STALL_EVERY_S
        if is_repeat or len(newest) >= _MOST_STALLS:
            too_many += 1
        else:
            newest[stall.volume_id] = stall
    volumes = {volume.volume_id: volume for volume in _by_id(this, set(newest))} if newest else {}
    doubts = {i: _why_not_believed(stall, volumes.get(i)) for i, stall in newest.items()}
    this.stalls = {i: stall for i, stall in newest.items() if doubts[i] is None}
    _look_at(this, _as_due(this, [volumes[volume_id] for volume_id in this.stalls]))
    return Heard(report=_finish(this), too_many=too_many, refused=[why for why in doubts.values() if why])


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
        _look_at(this, _as_due(this, _by_id(this, open_ids)))
    return _finish(this)


def look_at_everything(shell: Shell, *, now_s: float) -> Report:
    """Look at the whole fleet now, record and tell; claims no tick, so it never holds one up."""
    this = _begin(shell, tick_s=int(now_s), now_s=now_s)
    volumes, is_whole = this.gathering.fleet()
    _survey(this, volumes)
    departed = set(this.states) - {volume.volume_id for volume in volumes} if is_whole else set()
    _look_at(this, _as_due(this, [*volumes, *_by_id(this, departed)]))
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
        away = {i for i, state in this.states.items() if state.flip} - {each.volume_id for each in fleet}
        volumes = [*fleet, *this.gathering.by_id(away)[0]]
    _look_at(this, _as_due(this, volumes))
    return _report(this, is_read_only=True)


def _begin(shell: Shell, *, tick_s: int, now_s: float) -> _Pass:
    shell.calls.reset()
    ledger = shell.ledger
    return _Pass(
        shell=shell,
        look=Look(now_s=now_s, tick_s=tick_s, place=shell.place),
        gathering=shell.gathering(now_s),
        states=ledger.states(),
        outlook=Outlook.at(now_s, shell.policy, ledger.window_marks().values()),
        holds=ledger.holds(now_s),
    )


def _sweep(
    this: _Pass, sweep_s: int, roster: Roster | None, *, with_focus: bool = True
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
        summoned=_survey(this, volumes),
        restarted=_restarted(this, volumes),
        smaller_sizes_gib=this.gathering.smaller_sizes_gib(),
        cadence=cadence,
    )
    listed = {volume.volume_id for volume in volumes}
    moved = {volume_id for volume_id, state in this.states.items() if not _is_settled(state)}
    unlisted = (moved | focused if is_whole else focused) - listed
    _look_at(this, [*due, *(DueVolume(volume=volume) for volume in _by_id(this, unlisted))])
    if not is_whole:
        return None
    this.watched = len(volumes)
    return frozenset(fingerprint(volume, cadence) for volume in volumes)


def _is_settled(state: VolumeState) -> bool:
    """Whether it stays where it was flipped: the sweep leaves it alone until its next look is due."""
    return state.flip is not None and state.flip.is_settled


def _survey(this: _Pass, volumes: Iterable[Volume]) -> frozenset[str]:
    """Note which volumes a window asks for; the ids of calm ones that tags or windows want looked at now."""
    mode, summoned = this.shell.policy.mode, set[str]()
    has_windows = bool(this.shell.policy.windows)
    for volume in volumes:
        is_critical = CRITICAL in volume.tags
        if not (is_critical or has_windows or WINDOW in volume.tags) or not can_burst(volume):
            continue
        wishes = read_tags(volume.tags, mode)
        state = this.states.get(volume.volume_id)
        if wishes.is_ignored or wishes.mode is Mode.OBSERVE or (state and state.flip):
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


def _focus(this: _Pass) -> None:
    due = due_in_focus(this.states, this.look.tick_s)
    if due:
        _look_at(this, _as_due(this, _by_id(this, due)))


def _as_due(this: _Pass, volumes: Sequence[Volume]) -> list[DueVolume]:
    sizes_gib = this.gathering.smaller_sizes_gib() if volumes else {}
    return [DueVolume(volume=v, smaller_size_gib=sizes_gib.get(v.volume_id)) for v in volumes]


def _by_id(this: _Pass, volume_ids: set[str]) -> list[Volume]:
    """Remembered volumes that were not listed; those that are gone altogether are forgotten."""
    volumes, missing = this.gathering.by_id(volume_ids)
    for volume_id in missing:
        _forget(this, volume_id, "the volume was deleted")
    return volumes


def _forget(this: _Pass, volume_id: str, because: str) -> None:
    if state := this.states.get(volume_id):
        this.forgotten.append(forget(state, because, policy=this.shell.policy, look=this.look))


def _restarted(this: _Pass, volumes: Iterable[Volume]) -> frozenset[str]:
    """Volumes remembered with a stopped instance that is not stopped any more."""
    waiting = [
        volume
        for volume in volumes
        if (state := this.states.get(volume.volume_id))
        and state.unknown_reason is UnknownReason.INSTANCE_STOPPED
    ]
    found = this.gathering.instance_states(waiting)
    return frozenset(volume_id for volume_id, state in found.items() if state not in STOPPED_STATES)


def _look_at(this: _Pass, due: Iterable[DueVolume]) -> None:
    """Read, assess and decide, chunk by chunk."""
    mode = this.shell.policy.mode
    watched: list[DueVolume] = []
    for one in due:
        state = this.states.get(one.volume.volume_id)
        if read_tags(one.volume.tags, mode).is_ignored and not _has_moved(state):
            this.ignored.append(one.volume.volume_id)
            _forget(this, one.volume.volume_id, f"it is tagged {IGNORE}")
        else:
            is_leaving = state is not None and state.flip is not None and state.flip.is_under_way
            watched.append(replace(one, is_leaving=True) if is_leaving else one)
    remaining = iter(watched)
    while chunk := list(islice(remaining, _CHUNK)):
        found = _assess(this, chunk)
        records, unread = _records(this, chunk)
        for one in chunk:
            if assessment := found.get(one.volume.volume_id):
                with _loudly(this, one.volume.volume_id):
                    around = _around(this, one.volume, records, unread)
                    this.decisions.append(_decide(this, one, assessment, around))
        this.shell.report_progress(len(this.decisions), len(watched))


def _has_moved(state: VolumeState | None) -> bool:
    """Whether something must be remembered of a volume even while it is ignored."""
    if state is None:
        return False
    has_flip = state.flip is not None or state.lost is not None
    return has_flip or state.contested_at_s is not None or bool(state.spent)


@contextmanager
def _loudly(this: _Pass, volume_id: str) -> Iterator[None]:
    """Let a mistake of ours about one volume fail the pass without hiding the other volumes."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the others must be looked at; it is reported
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        this.bugs.append(f"{volume_id} was not judged, by a mistake of burstwatch's: {said}")
        this.gathering.failures.append(this.bugs[-1])


def _assess(this: _Pass, chunk: Sequence[DueVolume]) -> dict[str, Assessment]:
    """Facts about each volume; a second and third question only about those that call for it."""
    gathering = this.gathering
    in_focus = {i for i, state in this.states.items() if state.next_look_at_s is not None}
    balances = gathering.balances(chunk, in_focus)
    volumes = {one.volume.volume_id: one.volume for one in chunk}
    evidence: dict[str, Evidence] = {}
    found: dict[str, Assessment] = {}

    def look(volume_id: str, given: Evidence) -> None:
        evidence[volume_id] = given
        with _loudly(this, volume_id):
            found[volume_id] = _facts(this, volumes[volume_id], given)

    for one in chunk:
        look(one.volume.volume_id, _evidence(this, one, balances.get(one.volume.volume_id)))
    silent = [volumes[volume_id] for volume_id, facts in found.items() if _is_silent(this, facts)]
    for volume_id, state in gathering.instance_states(silent).items():
        look(volume_id, _with_instance(this, volume_id, evidence[volume_id], state))
    alerting = {volume_id for volume_id, facts in found.items() if _is_alerting(this, facts)}
    returning = {volume_id for volume_id in found if _may_return(this.states.get(volume_id))}
    span_s = _calm_span_s(this) if returning else OPERATIONS_SPAN_S
    asked = sorted(alerting | returning)
    for volume_id, (reads, writes) in gathering.operations(asked, span_s=span_s).items():
        look(volume_id, replace(evidence[volume_id], read_ops=reads, write_ops=writes))
    unheard = [volumes[i] for i in sorted(returning) if not found[i].served and volumes[i].instance_id]
    for volume_id, state in gathering.instance_states(unheard).items():
        look(volume_id, replace(evidence[volume_id], instance_state=state))
    return found


def _may_return(state: VolumeState | None) -> bool:
    flip = state.flip if state else None
    return flip is not None and flip.phase is Phase.ON_TARGET and not flip.stays


def _calm_span_s(this: _Pass) -> float:
    """As far back as demand must be known to call it calm, with what CloudWatch may be late."""
    policy = this.shell.policy
    span = policy.flip_back.calm_for + policy.cadence.metric_lag
    return max(OPERATIONS_SPAN_S, span.total_seconds() + 5 * PERIOD_S)


def _with_instance(this: _Pass, volume_id: str, evidence: Evidence, instance_state: str) -> Evidence:
    """A volume whose instance was stopped when we last looked, and runs now, has just arrived."""
    state = this.states.get(volume_id)
    was_stopped = state is not None and state.unknown_reason is UnknownReason.INSTANCE_STOPPED
    has_started = was_stopped and instance_state not in STOPPED_STATES
    arrived_at_s = int(this.look.now_s) if has_started else evidence.arrived_at_s
    return replace(evidence, instance_state=instance_state, arrived_at_s=arrived_at_s)


def _evidence(this: _Pass, one: DueVolume, answer: Series | AwsFailure | None) -> Evidence:
    """One volume's share of what was read, and of what the ledger remembers for a while."""
    volume_id, now_s = one.volume.volume_id, int(this.look.now_s)
    state = this.states.get(volume_id) or VolumeState(volume_id=volume_id, revision=0)
    since_s = now_s - this.shell.policy.telemetry.too_new.total_seconds()
    arrived_at_s = now_s if one.has_arrived else _if_after(state.arrived_at_s, since_s)
    modified_at_s = _if_after(state.modified_at_s, since_s)
    smaller_size_gib = state.smaller_size_gib if modified_at_s is not None else None
    if one.smaller_size_gib is not None:
        modified_at_s, smaller_size_gib = now_s, one.smaller_size_gib
    flip = state.flip
    if flip is not None and flip.phase is Phase.ON_TARGET and one.volume.is_gp2:
        arrived_at_s = now_s  # somebody else brought it back
    balance = answer if isinstance(answer, Series) else None
    fresh_from_s = _fresh_from_s(state)
    if balance is not None and fresh_from_s is not None:
        balance = balance.since(fresh_from_s)
    return Evidence(
        balance=balance,
        read_error=str(answer) if isinstance(answer, AwsFailure) else None,
        arrived_at_s=arrived_at_s,
        modified_at_s=modified_at_s,
        smaller_size_gib=smaller_size_gib,
        changing_to=str(flip.asked_for) if flip is not None and flip.is_under_way else None,
    )


def _fresh_from_s(state: VolumeState) -> int | None:
    """Since when a balance says something again: nobody knows what a return to gp2 does to it."""
    flip = state.flip
    if flip is not None and flip.direction is Direction.BACK and flip.is_under_way:
        return flip.started_at_s or flip.asked_at_s
    return state.returned_at_s


def _if_after(at_s: int | None, since_s: float) -> int | None:
    return at_s if at_s is not None and at_s > since_s else None


def _facts(this: _Pass, volume: Volume, evidence: Evidence) -> Assessment:
    return assess(volume, evidence, now_s=this.look.now_s, telemetry=this.shell.policy.telemetry)


def _is_silent(this: _Pass, assessment: Assessment) -> bool:
    """Whether CloudWatch says less than it should: a fault, unless the instance is stopped."""
    lag_s = this.shell.policy.cadence.metric_lag.total_seconds()
    state = this.states.get(assessment.volume.volume_id)
    is_leaving = state is not None and state.flip is not None and state.flip.is_under_way
    is_late = assessment.age_s is not None and assessment.age_s > lag_s and not is_leaving
    return is_late or assessment.unknown_reason is UnknownReason.TELEMETRY_GAP


def _is_alerting(this: _Pass, assessment: Assessment) -> bool:
    state = this.states.get(assessment.volume.volume_id)
    return judge(assessment, state.level if state else Level.OK, this.shell.policy).is_alerting


def _records(this: _Pass, chunk: Iterable[DueVolume]) -> tuple[dict[str, Modification], frozenset[str]]:
    """AWS's newest record of each volume whose flip it settles, and the ids of those it did not tell."""
    asks = {
        one.volume.volume_id
        for one in chunk
        if (state := this.states.get(one.volume.volume_id)) and _asks_for_record(state, one.volume)
    }
    in_progress = this.gathering.in_progress() if this.states else {}
    found, unread = this.gathering.modifications(asks - in_progress.keys())
    return {**in_progress, **found}, unread


def _asks_for_record(state: VolumeState, volume: Volume) -> bool:
    """Whether only AWS's record tells how it stands with a flip; one in progress is known anyway."""
    flip = state.flip
    if flip is None or state.lost is not None:
        return state.lost is not None
    return flip.is_under_way or not shows(volume, flip)


def _around(
    this: _Pass, volume: Volume, records: Mapping[str, Modification], unread: frozenset[str]
) -> Around:
    volume_id = volume.volume_id
    state = this.states.get(volume_id)
    sighting = None
    if state is not None and (state.flip or state.lost) and volume_id not in unread:
        sighting = Sighting(volume=volume, record=records.get(volume_id))
    return Around(
        sighting=sighting,
        in_progress=this.gathering.in_progress().get(volume_id),
        windows=this.outlook.of(volume),
        hold=hold_on(this.holds, volume_id, this.look.now_s),
        stall=this.stalls.get(volume_id),
    )


def _decide(this: _Pass, one: DueVolume, assessment: Assessment, around: Around) -> Decision:
    policy = this.shell.policy
    state = this.states.get(one.volume.volume_id)
    wishes = read_tags(one.volume.tags, policy.mode, known_windows=this.known_windows)
    if wishes.is_ignored:
        wishes = replace(wishes, mode=Mode.OBSERVE)
    decision = decide(assessment, state, wishes, policy=policy, look=this.look, around=around)
    if this.keeps_samples:
        return decision
    return replace(decision, assessment=replace(assessment, balance=Series(), served=Series()))


def _finish(this: _Pass) -> Report:
    """Record first, then act, then tell: an alert is in the ledger before anybody sees it."""
    shell = this.shell
    changes = [*this.forgotten, *(d.change for d in this.decisions if d.change is not None)]
    changes += announce_windows(this.in_window, policy=shell.policy, place=shell.place, now_s=this.look.now_s)
    began = monotonic()
    recorded = shell.ledger.commit(changes, channels=shell.channel_names) if changes else set()
    _act(this, recorded)
    delivery = deliver(
        shell.ledger,
        shell.channels,
        digest_above=shell.policy.alerts.digest_above,
        place=shell.place,
        runbooks_url=shell.policy.alerts.runbooks_url,
        now_s=this.look.now_s,
        clock=lambda: this.look.now_s + monotonic() - began,
    )
    this.gathering.failures += delivery.errors
    report = _report(this, is_read_only=False)
    applied = [change for change in changes if change.volume_id in recorded]
    fleet = count_fleet(this.states, applied, this.watched)
    return replace(report, sent=delivery.sent, undelivered=delivery.failed, fleet=fleet)


def _act(this: _Pass, recorded: AbstractSet[str]) -> None:
    """Have done what the decisions want, where somebody may; what another process changed waits."""
    for decision in this.decisions:
        if decision.flip is not None and decision.flip.is_under_way:
            because = f"on its way to {decision.flip.asked_for}"
            this.outcomes[decision.volume_id] = Outcome(done=Done.IN_FLIGHT, because=because)
    orders = [
        _order(decision)
        for decision in this.decisions
        if decision.want is not None and (decision.change is None or decision.volume_id in recorded)
    ]
    if this.shell.modifier is None and this.shell.requests is None:
        this.outcomes |= {order.volume_id: Outcome(done=Done.PROPOSED) for order in orders}
        return
    orders = [order for order in orders if not _waits(this, order)]
    if orders and this.shell.modifier is not None:
        this.outcomes |= carry_out(this.shell, orders, this.gathering)
    elif orders:
        _request(this, orders)


def _request(this: _Pass, orders: Sequence[Order]) -> None:
    """Ask whoever may modify; what could not be asked is asked again at the next look."""
    assert this.shell.requests is not None
    now = {decision.volume_id: decision.change for decision in this.decisions}
    requests = []
    for order in orders:
        change = now[order.volume_id]
        state = change.state if change else this.states.get(order.volume_id)
        revision = state.revision if state else int(this.look.now_s)
        requests.append(FlipRequest(order=order, time_s=this.look.tick_s, revision=revision))
    sending = this.shell.requests.send(requests)
    for volume_id in sending.sent:
        this.outcomes[volume_id] = Outcome(done=Done.IN_FLIGHT, because="asked of the flip function")
    for volume_id, because in sending.failed.items():
        this.outcomes[volume_id] = Outcome(done=Done.FAILED, because=because, error_code="unsent")
        this.gathering.failures.append(f"{volume_id}: {because}")


def _waits(this: _Pass, order: Order) -> bool:
    """Whether nothing needs to be read, or asked of anybody, to know that an order is refused."""
    return _is_held_still(this, order) or _pauses(this, order)


def _pauses(this: _Pass, order: Order) -> bool:
    """Whether the pause after a failure lasts, which was told with the failure."""
    state = this.states.get(order.volume_id)
    if state is None or not state.failures or (state.retry_at_s or 0) <= this.look.now_s:
        return False
    refusal = refuse_pause(state)
    this.outcomes[order.volume_id] = Outcome(
        done=Done.REFUSED, because=str(refusal), refusal=refusal, retry_at_s=refusal.ends_at_s
    )
    return True


def _is_held_still(this: _Pass, order: Order) -> bool:
    """Whether people were told of the hold already: then nothing needs to be read to refuse it again."""
    hold = hold_on(this.holds, order.volume_id, this.look.now_s)
    state = this.states.get(order.volume_id)
    if hold is None or state is None or state.refusal_told != Guard.HELD:
        return False
    refusal = refuse_hold(hold)
    this.outcomes[order.volume_id] = Outcome(
        done=Done.REFUSED, because=str(refusal), refusal=refusal, retry_at_s=refusal.ends_at_s
    )
    return True


def _order(decision: Decision) -> Order:
    assert decision.want is not None
    return Order(
        volume_id=decision.volume_id,
        direction=decision.want.direction,
        cause=decision.want.cause,
        because=decision.want.reason,
        demand=demand_of(decision.assessment),
        urgency=urgency_of(decision),
    )


def _report(this: _Pass, *, is_read_only: bool) -> Report:
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

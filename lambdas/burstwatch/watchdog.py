"""One pass of the watchdog: gather, decide, record, tell. The same for Lambda, burstctl and the lab."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from time import monotonic, time
from typing import Final

from burstwatch.adapters.calls import CallCounter
from burstwatch.adapters.channel import Channel
from burstwatch.adapters.cloudwatch import CloudWatchReader
from burstwatch.adapters.delivery import deliver
from burstwatch.adapters.ec2 import Ec2Reader
from burstwatch.adapters.errors import AwsFailure
from burstwatch.core.assess import STOPPED_STATES, Assessment, Evidence, UnknownReason, assess
from burstwatch.core.decide import Decision, Look, decide, forget
from burstwatch.core.ledger import Change, Ledger, Roster, TickKind, VolumeState
from burstwatch.core.levels import Level, judge
from burstwatch.core.place import Place
from burstwatch.core.plan import DueVolume, due_in_focus, due_in_sweep, fingerprint
from burstwatch.core.policy import Policy
from burstwatch.core.report import Report
from burstwatch.core.samples import Series
from burstwatch.core.tags import IGNORE, read_tags
from burstwatch.core.volume import Volume
from burstwatch.gather import Gathering

LEASE_S: Final = 50.0
"""A claimed tick that was not completed is free again before the next focus tick."""

_CHUNK: Final = 5_000
"""Volumes assessed before their samples are let go: bounds the memory of a pass over a large fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """What a pass stands on. ``report_progress`` hears how many volumes are done, and of how many.

    ``clock`` is for whoever starts a pass without being told the time.
    """

    ec2: Ec2Reader
    cloudwatch: CloudWatchReader
    ledger: Ledger
    calls: CallCounter
    policy: Policy
    place: Place
    channels: Sequence[Channel] = ()
    report_progress: Callable[[int, int], None] = lambda _done, _total: None
    clock: Callable[[], float] = time


@dataclass(slots=True)
class _Pass:
    """A pass under way: what it found so far."""

    shell: Shell
    look: Look
    gathering: Gathering
    states: Mapping[str, VolumeState]
    decisions: list[Decision] = field(default_factory=list)
    forgotten: list[Change] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    keeps_samples: bool = False


def run_tick(shell: Shell, *, tick_s: int, now_s: float) -> Report | None:
    """Do the work of one tick: the volumes in focus that are due, and the sweep ticks not yet completed.

    Returns:
        The report, or None when another process has the tick.
    """
    ledger = shell.ledger
    if not ledger.claim_tick(TickKind.FOCUS, tick_s, now_s=now_s, lease_s=LEASE_S):
        return None
    this = _begin(shell, tick_s=tick_s, now_s=now_s)
    grid_s = int(shell.policy.cadence.sweep_tick.total_seconds())
    sweep_s = tick_s // grid_s * grid_s
    roster = ledger.roster()
    is_due = roster is None or not sweep_s <= roster.tick_s <= now_s + grid_s
    if is_due and ledger.claim_tick(TickKind.SWEEP, sweep_s, now_s=now_s, lease_s=LEASE_S):
        fingerprints = _sweep(this, sweep_s, roster)
        report = _finish(this)
        if fingerprints is not None:
            ledger.complete_tick(TickKind.SWEEP, sweep_s, roster=fingerprints)
    else:
        _focus(this)
        report = _finish(this)
    ledger.complete_tick(TickKind.FOCUS, tick_s)
    return report


def look_at_everything(shell: Shell, *, now_s: float) -> Report:
    """Look at the whole fleet now, record and tell; claims no tick, so it never holds one up."""
    this = _begin(shell, tick_s=int(now_s), now_s=now_s)
    volumes, is_whole = this.gathering.fleet()
    departed = set(this.states) - {volume.volume_id for volume in volumes} if is_whole else set()
    _look_at(this, _as_due(this, [*volumes, *_by_id(this, departed)]))
    return _finish(this)


def assess_volumes(shell: Shell, volume_ids: Sequence[str] = (), *, now_s: float) -> Report:
    """Look at these volumes, or at the whole fleet, and change nothing anywhere.

    The samples stay in the assessments of volumes asked for by id; those of a fleet would not fit in memory.
    """
    this = _begin(shell, tick_s=int(now_s), now_s=now_s)
    this.keeps_samples = bool(volume_ids)
    if volume_ids:
        volumes, this.missing = this.gathering.by_id(volume_ids)
    else:
        volumes, _ = this.gathering.fleet()
    _look_at(this, _as_due(this, volumes))
    return _report(this, is_read_only=True)


def _begin(shell: Shell, *, tick_s: int, now_s: float) -> _Pass:
    shell.calls.reset()
    gathering = Gathering(
        ec2=shell.ec2,
        cloudwatch=shell.cloudwatch,
        now_s=now_s,
        gap_after_s=shell.policy.telemetry.gap_after.total_seconds(),
    )
    look = Look(now_s=now_s, tick_s=tick_s, place=shell.place)
    return _Pass(shell=shell, look=look, gathering=gathering, states=shell.ledger.states())


def _sweep(this: _Pass, sweep_s: int, roster: Roster | None) -> frozenset[int] | None:
    """Look at what the sweep finds due; the new roster, or None when the fleet could not be listed whole."""
    cadence = this.shell.policy.cadence
    volumes, is_whole = this.gathering.fleet()
    focused = due_in_focus(this.states, this.look.tick_s)
    due = due_in_sweep(
        volumes,
        this.states,
        roster=roster,
        sweep_s=sweep_s,
        focused=focused,
        restarted=_restarted(this, volumes),
        smaller_sizes_gib=this.gathering.smaller_sizes_gib(),
        cadence=cadence,
    )
    listed = {volume.volume_id for volume in volumes}
    unlisted = (set(this.states) if is_whole else focused) - listed
    _look_at(this, [*due, *(DueVolume(volume=volume) for volume in _by_id(this, unlisted))])
    return frozenset(fingerprint(volume, cadence) for volume in volumes) if is_whole else None


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
        if read_tags(one.volume.tags, mode).is_ignored:
            this.ignored.append(one.volume.volume_id)
            _forget(this, one.volume.volume_id, f"it is tagged {IGNORE}")
        else:
            watched.append(one)
    remaining = iter(watched)
    while chunk := list(islice(remaining, _CHUNK)):
        found = _assess(this, chunk)
        for one in chunk:
            if assessment := found.get(one.volume.volume_id):
                with _loudly(this, one.volume.volume_id):
                    this.decisions.append(_decide(this, one, assessment))
        this.shell.report_progress(len(this.decisions), len(watched))


@contextmanager
def _loudly(this: _Pass, volume_id: str) -> Iterator[None]:
    """Let a mistake of ours about one volume fail the pass without hiding the other volumes."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the others must be looked at; it is reported
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        this.gathering.failures.append(f"{volume_id} was not judged, by a mistake of burstwatch's: {said}")


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
    alerting = [volume_id for volume_id, facts in found.items() if _is_alerting(this, facts)]
    for volume_id, (reads, writes) in gathering.operations(alerting).items():
        look(volume_id, replace(evidence[volume_id], read_ops=reads, write_ops=writes))
    return found


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
    return Evidence(
        balance=answer if isinstance(answer, Series) else None,
        read_error=str(answer) if isinstance(answer, AwsFailure) else None,
        arrived_at_s=arrived_at_s,
        modified_at_s=modified_at_s,
        smaller_size_gib=smaller_size_gib,
    )


def _if_after(at_s: int | None, since_s: float) -> int | None:
    return at_s if at_s is not None and at_s > since_s else None


def _facts(this: _Pass, volume: Volume, evidence: Evidence) -> Assessment:
    return assess(volume, evidence, now_s=this.look.now_s, telemetry=this.shell.policy.telemetry)


def _is_silent(this: _Pass, assessment: Assessment) -> bool:
    """Whether CloudWatch says less than it should: a fault, unless the instance is stopped."""
    lag_s = this.shell.policy.cadence.metric_lag.total_seconds()
    is_late = assessment.age_s is not None and assessment.age_s > lag_s
    return is_late or assessment.unknown_reason is UnknownReason.TELEMETRY_GAP


def _is_alerting(this: _Pass, assessment: Assessment) -> bool:
    state = this.states.get(assessment.volume.volume_id)
    return judge(assessment, state.level if state else Level.OK, this.shell.policy).is_alerting


def _decide(this: _Pass, one: DueVolume, assessment: Assessment) -> Decision:
    policy = this.shell.policy
    state = this.states.get(one.volume.volume_id)
    wishes = read_tags(one.volume.tags, policy.mode)
    decision = decide(assessment, state, wishes, policy=policy, look=this.look)
    if this.keeps_samples:
        return decision
    return replace(decision, assessment=replace(assessment, balance=Series()))


def _finish(this: _Pass) -> Report:
    """Record first, then tell: an alert is in the ledger before anybody sees it."""
    shell = this.shell
    changes = [*this.forgotten, *(d.change for d in this.decisions if d.change is not None)]
    channels = [channel.name for channel in shell.channels]
    began = monotonic()
    if changes:
        shell.ledger.commit(changes, channels=channels)
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
    return _report(this, is_read_only=False)


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
        is_read_only=is_read_only,
    )

"""From the volumes that are due to a decision about each: what is read of them, and what it comes to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from burstwatch.adapters.aws.errors import AwsFailure
from burstwatch.core.assessment.assess import (
    STOPPED_STATES,
    Assessment,
    Evidence,
    UnknownReason,
    assess,
    serves_nothing,
)
from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.assessment.severity import Level, judge
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.volume import Volume, baseline_iops
from burstwatch.core.flips.outcome import Outcome
from burstwatch.core.flips.reconcile import Sighting, shows
from burstwatch.core.flips.triggers import Around, can_burst, is_demand_known
from burstwatch.core.ledger.flip_state import Direction, Hold, Phase, hold_on
from burstwatch.core.ledger.ledger import Change, States, VolumeState
from burstwatch.core.policy.policy import FOCUS_TICK, Mode
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.policy.windows import WindowState
from burstwatch.core.tag_keys import CRITICAL, IGNORE
from burstwatch.core.watch.decide import Action, Decision, Look, decide, forget, may_be_idle, miss, with_cause
from burstwatch.core.watch.due_volumes import DueVolume
from burstwatch.core.watch.poll_interval import is_rechecked, sweep_interval_s
from burstwatch.core.watch.report import urgency_of
from burstwatch.core.watch.window_status import Outlook
from burstwatch.engine.collector import OPERATIONS_SPAN_S, Gathering
from burstwatch.engine.services import Shell

_CHUNK: Final = 5_000
"""Volumes assessed before their samples are let go: bounds the memory of a pass over a large fleet."""


@dataclass(slots=True)
class Pass:
    """A pass under way: what it found so far."""

    shell: Shell
    look: Look
    gathering: Gathering
    states: States
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
    is_stopped: bool = False
    keeps_samples: bool = False

    @property
    def known_windows(self) -> frozenset[str]:
        return frozenset(w.name for w in self.shell.policy.windows) | self.outlook.by_hand.keys()


def look_at_due(this: Pass, due: Iterable[DueVolume]) -> None:
    """Read, assess and decide, chunk by chunk."""
    mode = this.shell.policy.mode
    watched: list[DueVolume] = []
    for one in due:
        if one.volume.volume_id in this.states.unread:
            this.decisions.append(_unread(this, one.volume))
            continue
        state = this.states.get(one.volume.volume_id)
        is_ignored = IGNORE in one.volume.tags and read_tags(one.volume.tags, mode).is_ignored
        if is_ignored and not (state is not None and state.has_moved):
            this.ignored.append(one.volume.volume_id)
            _forget(this, one.volume.volume_id, f"it is tagged {IGNORE}")
        else:
            is_leaving = state is not None and state.flip is not None and state.flip.is_under_way
            watched.append(replace(one, is_leaving=True) if is_leaving else one)
    remaining = iter(watched)
    while chunk := list(islice(remaining, _CHUNK)):
        if this.shell.should_stop():
            _stop(this, len(chunk) + sum(1 for _ in remaining))
            return
        this.gathering.heartbeat()
        found = _assess(this, chunk)
        records, unread = _records(this, chunk)
        asking = [one.volume for one in chunk if _may_ask(this, one.volume, found.get(one.volume.volume_id))]
        unavailable = this.shell.unavailable_types(asking, this.look.now_s)
        for one in chunk:
            if assessment := found.get(one.volume.volume_id):
                with _loudly(this, one.volume.volume_id):
                    around = _around(this, one.volume, records, unread)
                    around = replace(around, unavailable=unavailable.get(one.volume.volume_id, {}))
                    this.decisions.append(_decide(this, one, assessment, around))
        this.shell.report_progress(len(this.decisions), len(watched))


def _unread(this: Pass, volume: Volume) -> Decision:
    """A volume of which the ledger's memory cannot be read: not judged, as that would be from a blank one."""
    policy, unreadable = this.shell.policy, this.states.unread[volume.volume_id]
    assessment = Assessment(
        volume=volume,
        baseline_iops=baseline_iops(volume.size_gib),
        unknown_reason=UnknownReason.READ_FAILED,
        unknown_because=str(unreadable),
    )
    return Decision(
        assessment=assessment,
        wishes=read_tags(volume.tags, policy.mode, known_windows=this.known_windows),
        level=Level.UNKNOWN,
        previous_level=Level.UNKNOWN,
        action=Action.NONE,
        reason="what the ledger remembers of it cannot be read",
        look_interval_s=int(FOCUS_TICK.total_seconds()),
        change=None,
    )


def _stop(this: Pass, left: int) -> None:
    this.is_stopped = True
    volumes = "1 volume was" if left == 1 else f"{left:,} volumes were"
    this.gathering.failures.append(f"the pass was stopped: {volumes} not looked at; the next pass does")


@contextmanager
def _loudly(this: Pass, volume_id: str) -> Iterator[None]:
    """Let a mistake of ours about one volume fail the pass without hiding the other volumes."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the others must be looked at; it is reported
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        this.bugs.append(f"{volume_id} was not judged, by a mistake of burstwatch's: {said}")
        this.gathering.failures.append(this.bugs[-1])


def by_id(this: Pass, volume_ids: set[str]) -> list[Volume]:
    """Remembered volumes that were not listed; those that are gone altogether are forgotten."""
    volumes, missing = this.gathering.by_id(volume_ids)
    forget_missing(this, missing)
    return volumes


def forget_missing(this: Pass, volume_ids: Iterable[str]) -> None:
    """Forget what EC2 says does not exist, once it has said so twice."""
    for volume_id in volume_ids:
        state = this.states.get(volume_id)
        doubt = miss(state, this.look) if state is not None else None
        if doubt is not None:
            this.forgotten.append(doubt)
        else:
            _forget(this, volume_id, "the volume was deleted")


def _forget(this: Pass, volume_id: str, because: str) -> None:
    if state := this.states.get(volume_id):
        this.forgotten.append(forget(state, because, policy=this.shell.policy, look=this.look))


def as_due(this: Pass, volumes: Sequence[Volume]) -> list[DueVolume]:
    """These volumes with what is known of their modifications, to be looked at now."""
    sizes_gib = this.gathering.smaller_sizes_gib() if volumes else {}
    return [DueVolume(volume=v, smaller_size_gib=sizes_gib.get(v.volume_id)) for v in volumes]


def _assess(this: Pass, chunk: Sequence[DueVolume]) -> dict[str, Assessment]:
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
        name = gathering.instance_names.get(volume_id)
        volumes[volume_id] = replace(volumes[volume_id], instance_name=name)
        look(volume_id, _with_instance(this, volume_id, evidence[volume_id], state))
    for volume_id in _idle(this, found):
        look(volume_id, replace(evidence[volume_id], is_idle=True))
    alerting = {volume_id for volume_id, facts in found.items() if _is_alerting(this, facts)}
    returning = {volume_id for volume_id in found if _may_return(this.states.get(volume_id))}
    span_s = _calm_span_s(this) if returning else OPERATIONS_SPAN_S
    asked = sorted(alerting | returning)
    for volume_id, (reads, writes) in gathering.operations(asked, span_s=span_s).items():
        look(volume_id, replace(evidence[volume_id], read_ops=reads, write_ops=writes))
    unheard = [
        volumes[i]
        for i in sorted(returning)
        if volumes[i].instance_id and not is_demand_known(found[i], this.look.now_s)
    ]
    for volume_id, state in gathering.instance_states(unheard).items():
        look(volume_id, replace(evidence[volume_id], instance_state=state))
    return found


def _may_return(state: VolumeState | None) -> bool:
    flip = state.flip if state else None
    return flip is not None and flip.phase is Phase.ON_TARGET and not flip.stays


def _calm_span_s(this: Pass) -> float:
    """As far back as demand must be known to call it calm, with what CloudWatch may be late."""
    policy = this.shell.policy
    span = policy.flip_back.calm_for + policy.cadence.metric_lag
    return max(OPERATIONS_SPAN_S, span.total_seconds() + 5 * PERIOD_S)


def _with_instance(this: Pass, volume_id: str, evidence: Evidence, instance_state: str) -> Evidence:
    """A volume whose instance was stopped when we last looked, and runs now, has just arrived."""
    state = this.states.get(volume_id)
    was_stopped = state is not None and state.unknown_reason is UnknownReason.INSTANCE_STOPPED
    has_started = was_stopped and instance_state not in STOPPED_STATES
    arrived_at_s = int(this.look.now_s) if has_started else evidence.arrived_at_s
    return replace(evidence, instance_state=instance_state, arrived_at_s=arrived_at_s)


def _evidence(this: Pass, one: DueVolume, answer: Series | AwsFailure | None) -> Evidence:
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
        known_at_s=_if_after(state.balance_at_s, fresh_from_s or 0),
        unused_since_s=state.unused_since_s,
    )


def _fresh_from_s(state: VolumeState) -> int | None:
    """Since when a balance says something again: nobody knows what a return to gp2 does to it.

    Nor is that of before news of a volume on its target which AWS shows as gp2: the answer may be old.
    """
    flip = state.flip
    if flip is not None and flip.phase is Phase.ON_TARGET:
        return flip.reached_at_s
    if flip is not None and flip.direction is Direction.BACK and flip.is_under_way:
        return flip.started_at_s or flip.asked_at_s
    return state.returned_at_s


def _if_after(at_s: int | None, since_s: float) -> int | None:
    return at_s if at_s is not None and at_s > since_s else None


def _facts(this: Pass, volume: Volume, evidence: Evidence) -> Assessment:
    return assess(volume, evidence, now_s=this.look.now_s, telemetry=this.shell.policy.telemetry)


def _is_silent(this: Pass, assessment: Assessment) -> bool:
    """Whether CloudWatch says less than it should: a fault, unless the instance is stopped."""
    lag_s = this.shell.policy.cadence.metric_lag.total_seconds()
    state = this.states.get(assessment.volume.volume_id)
    is_leaving = state is not None and state.flip is not None and state.flip.is_under_way
    is_late = assessment.age_s is not None and assessment.age_s > lag_s and not is_leaving
    return is_late or assessment.unknown_reason is UnknownReason.TELEMETRY_GAP


def _idle(this: Pass, found: Mapping[str, Assessment]) -> list[str]:
    """The volumes without a datapoint that need not have one: they were full when last seen, and are idle.

    That a volume serves nothing is read when it falls silent and once a day after that: BurstBalance comes
    back with its first operation, and each time costs as much as two more looks.
    """
    policy = this.shell.policy
    idle: list[str] = []
    asked: list[str] = []
    for volume_id, facts in found.items():
        state = this.states.get(volume_id)
        if facts.unknown_reason is not UnknownReason.TELEMETRY_GAP or not may_be_idle(
            facts, state, policy.cadence, now_s=this.look.now_s, is_first_sweep=this.watched is None
        ):
            continue
        interval_s = sweep_interval_s(facts.baseline_iops, policy.cadence)
        is_calm = state is not None and state.next_look_at_s is None
        was_idle = is_calm and state is not None and state.unknown_reason is UnknownReason.IDLE
        is_known = was_idle and not is_rechecked(volume_id, this.look.now_s, interval_s, policy.cadence)
        (idle if is_known else asked).append(volume_id)
    span_s = policy.telemetry.gap_after.total_seconds()
    operations = this.gathering.operations(asked, span_s=span_s).items()
    return idle + [volume_id for volume_id, each in operations if serves_nothing(*each)]


def _is_alerting(this: Pass, assessment: Assessment) -> bool:
    state = this.states.get(assessment.volume.volume_id)
    return judge(assessment, state.level if state else Level.OK, this.shell.policy).is_alerting


def _records(this: Pass, chunk: Iterable[DueVolume]) -> tuple[dict[str, Modification], frozenset[str]]:
    """AWS's newest record of each volume whose flip it settles, and the ids of those it did not tell."""
    asks = {
        one.volume.volume_id
        for one in chunk
        if (state := this.states.get(one.volume.volume_id)) and _asks_for_record(state, one.volume)
    }
    in_progress = this.gathering.in_progress() if this.states else {}
    found, unread = this.gathering.modifications(asks - in_progress.keys())
    return {**in_progress, **found}, unread


def _may_ask(this: Pass, volume: Volume, assessment: Assessment | None) -> bool:
    """Whether a flip of it may be proposed: only then it matters what its zone has."""
    if assessment is None or not can_burst(volume):
        return False
    is_called = CRITICAL in volume.tags or this.outlook.of(volume) is not None
    return is_called or _is_alerting(this, assessment)


def _asks_for_record(state: VolumeState, volume: Volume) -> bool:
    """Whether only AWS's record tells how it stands with a flip; one in progress is known anyway."""
    flip = state.flip
    if flip is None or state.lost is not None:
        return state.lost is not None
    return flip.is_under_way or not shows(volume, flip)


def look_into_drains(this: Pass) -> None:
    """Add what drained each volume that is alerted for it now; no alert is lost over what goes wrong here."""
    found = sorted((one for one in this.decisions if one.fall is not None), key=urgency_of)
    try:
        traces = this.gathering.traces([one.volume_id for one in found])
        told = {
            one.volume_id: with_cause(one, traces[one.volume_id], now_s=this.look.now_s)
            for one in found
            if one.volume_id in traces
        }
    except Exception as error:  # noqa: BLE001 - whatever it is, the alerts must go out; it is reported
        said = f"{type(error).__name__}: {error}"
        many = "1 volume" if len(found) == 1 else f"{len(found)} volumes"
        this.bugs.append(f"what drained {many} was not read, by a mistake of burstwatch's: {said}")
        this.gathering.failures.append(this.bugs[-1])
        return
    this.decisions[:] = [told.get(one.volume_id, one) for one in this.decisions]


def _around(
    this: Pass, volume: Volume, records: Mapping[str, Modification], unread: frozenset[str]
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


def _decide(this: Pass, one: DueVolume, assessment: Assessment, around: Around) -> Decision:
    policy = this.shell.policy
    state = this.states.get(one.volume.volume_id)
    wishes = read_tags(one.volume.tags, policy.mode, known_windows=this.known_windows)
    if wishes.is_ignored:
        wishes = replace(wishes, mode=Mode.OBSERVE)
    decision = decide(assessment, state, wishes, policy=policy, look=this.look, around=around)
    if this.keeps_samples:
        return decision
    return replace(decision, assessment=replace(assessment, balance=Series(), served=Series()))

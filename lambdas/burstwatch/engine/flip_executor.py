"""Carries out orders: read afresh, ask every guard, record the intent, ask AWS once, record what it said."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Semaphore
from time import monotonic
from typing import Final

from burstwatch.adapters.aws.ec2_modify import Accepted, Allowed, Ec2Modifier, Refused, Unclear, guard_of
from burstwatch.adapters.aws.errors import AwsError, AwsFailure, FailureKind, OutOfTimeError
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.assess import Evidence, assess
from burstwatch.core.buckets.series import Series, served_per_minute
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.sizing import Demand
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.caps import caps_for, refuse_fleet_cap, refuse_spend_cap
from burstwatch.core.flips.events import Event, announce, enter
from burstwatch.core.flips.guards import (
    Guard,
    Refusal,
    all_spent,
    is_pause_after_failure,
    quota_retry_at_s,
    refuse_hold,
)
from burstwatch.core.flips.outcome import Done, Outcome
from burstwatch.core.flips.planning import (
    Facts,
    Order,
    Plan,
    accept,
    extend,
    intend,
    lack_of,
    lose_answer,
    make_plan,
    refused_event,
    reject,
)
from burstwatch.core.flips.recommendation import measured
from burstwatch.core.flips.reconcile import is_worth_telling
from burstwatch.core.flips.type_availability import remember_refusal
from burstwatch.core.ledger.flip_state import SAME_START_S, WATCHDOG, Direction
from burstwatch.core.ledger.ledger import Beginning, Begun, Caps, Change, VolumeState
from burstwatch.core.policy.policy import ActAt
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.watch.due_volumes import DueVolume
from burstwatch.engine.collector import OPERATIONS_SPAN_S, Gathering
from burstwatch.engine.services import Shell

WORKERS: Final = 8
"""Modifications asked for at once."""

UNREAD: Final = "unread"

SEND_WITHIN_S: Final = 30.0
"""An intent older than this is not sent any more: another process may soon conclude that it never was."""

_FRESH_FOR_S: Final = 5.0
"""Volumes read longer ago are read again before one of them is modified: people detach and tag them."""

_THROTTLED_S: Final = 60
_TELL_THROTTLED_FROM: Final = 3
"""AWS throttles a burst of modifications: one refused for that is tried again, and told when it goes on."""

_TRIES: Final = 5
_LIMITED: Final = (VolumeType.IO1, VolumeType.IO2)


STOPPED: Final = Outcome(done=Done.NONE, because="the watchdog was stopped; the next pass asks for it")
"""What becomes of an order that ``shell.should_stop`` came before."""


@dataclass(slots=True)
class _Reading:
    """What was read afresh for a batch of orders."""

    shell: Shell
    gathering: Gathering
    now_s: float
    missing: frozenset[str]
    facts: dict[str, Facts]
    iops_used: dict[VolumeType, int | None] = field(default_factory=dict)
    read_at: float = 0.0

    def plan(self, order: Order) -> Plan:
        """The plan for an order; asks for the account's quota where the target counts against one."""
        policy = self.shell.policy
        plan = make_plan(order, self.facts[order.volume_id], policy)
        if order.direction is Direction.BACK or plan.target is None:
            return plan
        kind = plan.target.volume_type
        if kind not in _LIMITED or (used := self._iops_used(kind)) is None:
            return plan
        limit = policy.flip.io1_iops_limit if kind is VolumeType.IO1 else policy.flip.io2_iops_limit
        return make_plan(order, replace(plan.facts, iops_left=limit - used), policy)

    def reserve(self, plan: Plan) -> None:
        """Count what a plan takes of the account's quota, for the orders after it."""
        target = plan.target
        if target is not None and plan.order.direction is Direction.OUT:
            used = self.iops_used.get(target.volume_type)
            if used is not None:
                self.iops_used[target.volume_type] = used + (target.iops or 0)

    def keep_fresh(self, remaining: Sequence[Order]) -> None:
        """Describe the volumes of the remaining orders again, all at once, if that was too long ago."""
        if monotonic() - self.read_at < _FRESH_FOR_S:
            return
        read_at = monotonic()
        ids = {order.volume_id for order in remaining} & self.facts.keys()
        found, missing = self.gathering.by_id(ids)
        volumes = {volume.volume_id: volume for volume in found}
        self.missing |= frozenset(missing)
        for volume_id in ids:
            facts = self.facts.pop(volume_id)
            if (volume := volumes.get(volume_id)) is not None:
                wishes = read_tags(volume.tags, self.shell.policy.mode)
                self.facts[volume_id] = replace(facts, volume=volume, wishes=wishes)
        self.read_at = read_at

    def refresh(self, volume_id: str) -> None:
        """Take the ledger's newest word on a volume."""
        states = self.shell.ledger.states_of({volume_id})
        if volume_id not in states.unread:
            state = states.get(volume_id) or _blank(volume_id)
            self.facts[volume_id] = replace(self.facts[volume_id], state=state)

    def _iops_used(self, kind: VolumeType) -> int | None:
        if kind not in self.iops_used:
            try:
                self.iops_used[kind] = self.shell.ec2.provisioned_iops(kind)
            except AwsError as error:
                self.gathering.failures.append(str(error))
                self.iops_used[kind] = None
        return self.iops_used[kind]


def plan_orders(shell: Shell, orders: Sequence[Order], gathering: Gathering) -> dict[str, Plan | Outcome]:
    """What each order comes to now; an outcome where the volume is gone or could not be read."""
    reading = _read(shell, orders, gathering)
    found: dict[str, Plan | Outcome] = {}
    for order in orders:
        planned = _lost(reading, order.volume_id) or reading.plan(order)
        if isinstance(planned, Plan) and not planned.refusals:
            reading.reserve(planned)
        found[order.volume_id] = planned
    return found


def carry_out(shell: Shell, orders: Iterable[Order], gathering: Gathering) -> dict[str, Outcome]:
    """Carry out what the guards allow, the most urgent first; one volume's trouble is never another's.

    Intents are recorded one after the other, so that caps go to the most urgent, and none before there is a
    worker to send it; AWS is asked in parallel.
    """
    assert shell.modifier is not None
    ordered = sorted(orders, key=lambda order: (order.urgency, order.volume_id))
    reading = _read(shell, ordered, gathering)
    outcomes: dict[str, Outcome] = {}
    asked: dict[str, Future[Outcome]] = {}
    free = Semaphore(WORKERS)
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="flip") as pool:
        for number, order in enumerate(ordered):
            free.acquire()
            reading.keep_fresh(ordered[number:])
            begun = _lost(reading, order.volume_id) or (
                STOPPED if shell.should_stop() else _begin(reading, order)
            )
            if isinstance(begun, Outcome):
                outcomes[order.volume_id] = begun
                free.release()
            else:
                asked[order.volume_id] = pool.submit(begun.run, shell.modifier)
                asked[order.volume_id].add_done_callback(lambda _: free.release())
    outcomes |= {volume_id: future.result() for volume_id, future in asked.items()}
    gathering.failures += [
        f"{volume_id}: {outcome.because}"
        for volume_id, outcome in outcomes.items()
        if outcome.error_code is not None and outcome.refusal is None and outcome.because
    ]
    return outcomes


def _read(shell: Shell, orders: Sequence[Order], gathering: Gathering) -> _Reading:
    ids, read_at = {order.volume_id for order in orders}, monotonic()
    found, missing = gathering.by_id(ids)
    volumes = {volume.volume_id: volume for volume in found}
    leaving = [
        volumes[o.volume_id] for o in orders if o.direction is Direction.OUT and o.volume_id in volumes
    ]
    records, unread = gathering.modifications(volumes)
    limits = gathering.instance_limits(leaving)
    states = shell.ledger.states_of(ids)
    gathering.failures += map(str, states.unread.values())
    unread |= states.unread.keys()
    holds = shell.ledger.holds(gathering.now_s)
    unavailable = shell.unavailable_types(leaving, gathering.now_s)
    facts = {
        volume_id: Facts(
            volume=volume,
            wishes=read_tags(volume.tags, shell.policy.mode),
            state=states.get(volume_id) or _blank(volume_id),
            now_s=gathering.now_s,
            holds=holds,
            modification=records.get(volume_id),
            instance=limits.get(volume_id),
            unavailable=unavailable.get(volume_id, {}),
        )
        for volume_id, volume in volumes.items()
        if volume_id not in unread
    }
    now_s = gathering.now_s
    return _Reading(shell, gathering, now_s, frozenset(missing), facts, read_at=read_at)


def _blank(volume_id: str) -> VolumeState:
    return VolumeState(volume_id=volume_id, revision=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a volume was seen to serve of late, and when it is empty; None if it is not draining."""

    demand: Demand = field(default_factory=Demand)
    empty_s: float | None = None


def measure(shell: Shell, gathering: Gathering, volumes: Iterable[Volume]) -> Mapping[str, Measured]:
    """What CloudWatch shows of volumes, for orders that come without a look at them."""
    by_id = {volume.volume_id: volume for volume in volumes}
    found = gathering.operations(by_id)
    balances = gathering.balances([DueVolume(volume=each) for each in by_id.values() if each.is_gp2], set())
    since_s = gathering.now_s - OPERATIONS_SPAN_S
    measurements: dict[str, Measured] = {}
    for volume_id, (reads, writes) in found.items():
        balance = balances.get(volume_id)
        near = balance.since(since_s) if isinstance(balance, Series) else Series()
        served = served_per_minute(reads, writes, gathering.now_s)
        volume, seen = by_id[volume_id], Evidence(balance=balance if isinstance(balance, Series) else None)
        facts = assess(volume, seen, now_s=gathering.now_s, telemetry=shell.policy.telemetry)
        measurements[volume_id] = Measured(
            demand=measured(volume, served, near),
            empty_s=facts.empty_s,
        )
    return measurements


def _lost(reading: _Reading, volume_id: str) -> Outcome | None:
    if volume_id in reading.facts:
        return None
    return not_found() if volume_id in reading.missing else unread()


def not_found() -> Outcome:
    """What becomes of an order for a volume that AWS does not know."""
    because = "it does not exist (any more)"
    return Outcome(done=Done.FAILED, because=because, error_code="InvalidVolume.NotFound")


def unread(why: str | None = None) -> Outcome:
    """What becomes of an order for a volume about which AWS did not say what must be known."""
    because = f"it could not be read, so it was not touched{f': {why}' if why else ''}"
    return Outcome(done=Done.FAILED, because=because, error_code=UNREAD)


def _begin(reading: _Reading, order: Order) -> "_Task | Outcome":
    """What is left to do of an order whose intent is recorded, or why there is none.

    What only the ledger can refuse is overridden where it does refuse, so that the intent says what mattered.
    """
    passed: frozenset[Guard] = frozenset()
    for _ in range(_TRIES):
        plan = reading.plan(order)
        plan = replace(plan, overridden=(*plan.overridden, *sorted(passed.difference(plan.overridden))))
        flip = plan.facts.state.flip
        if order.by == WATCHDOG and flip is not None and flip.is_under_way:
            return Outcome(done=Done.IN_FLIGHT, because=f"on its way to {flip.asked_for}")
        if plan.refusal is not None:
            return _record_refusal(reading.shell, plan, plan.refusal)
        if plan.extends:
            if (kept := _extend(reading, plan)) is not None:
                return kept
            reading.refresh(order.volume_id)
            continue
        revision, began = _next_revision(plan.facts.state, reading.now_s), monotonic()
        state, event = intend(plan, revision, int(reading.gathering.time_s))
        state = replace(state, next_look_at_s=int(reading.now_s) + 60)
        change = Change(
            volume_id=order.volume_id,
            expected_revision=plan.facts.state.revision or None,
            state=state,
            entries=(enter(event, state, reading.now_s),),
        )
        beginning = _ask_ledger(reading, plan, change)
        match beginning.begun:
            case Begun.RECORDED:
                reading.reserve(plan)
                plan = replace(plan, facts=replace(plan.facts, state=state))
                return _Task(shell=reading.shell, plan=plan, intent_id=_intent_of(plan), began=began)
            case Begun.OUTRUN:
                reading.refresh(order.volume_id)
            case _:
                refusal = _refusal_of(beginning, plan, reading.shell)
                if refusal.guard not in order.overridden:
                    return _record_refusal(reading.shell, plan, refusal)
                passed |= {refusal.guard}
    return Outcome(done=Done.IN_FLIGHT, because="other processes are at work on it")


def _extend(reading: _Reading, plan: Plan) -> Outcome | None:
    """Say in the ledger how long a volume is kept; None where another process changed it meanwhile."""
    before = plan.facts.state
    after, event = extend(plan, _next_revision(before, reading.now_s))
    after = replace(after, next_look_at_s=int(reading.now_s) + 60)
    if not _write(reading.shell, plan, before, after, [event]):
        return None
    return Outcome(done=Done.NONE, because=event.summary)


def _ask_ledger(reading: _Reading, plan: Plan, change: Change) -> Beginning:
    caps = caps_for(plan.order, reading.shell.policy.flip)
    caps = Caps(
        volumes=None if Guard.FLEET_CAP in plan.overridden else caps.volumes,
        usd_per_month=None if Guard.SPEND_CAP in plan.overridden else caps.usd_per_month,
    )
    return reading.shell.ledger.begin(
        change,
        caps,
        now_s=reading.now_s,
        heeds_holds=Guard.HELD not in plan.overridden,
        channels=reading.shell.channel_names,
    )


def _refusal_of(beginning: Beginning, plan: Plan, shell: Shell) -> Refusal:
    if beginning.begun is Begun.HELD:
        assert beginning.hold is not None
        return refuse_hold(beginning.hold)
    policy = shell.policy.flip
    if beginning.begun is Begun.FLEET_CAP:
        return refuse_fleet_cap(plan.order, beginning.volumes, policy)
    return refuse_spend_cap(plan.order, plan.usd_per_month_more, beginning.usd_per_month, policy)


def _next_revision(state: VolumeState, now_s: float) -> int:
    return max(state.revision + 1, int(now_s))


def _intent_of(plan: Plan) -> str:
    assert plan.facts.state.flip is not None
    return plan.facts.state.flip.intent_id


def _record_refusal(shell: Shell, plan: Plan, refusal: Refusal) -> Outcome:
    """Report the watchdog's own refusals once, and again when another guard refuses.

    An early flip that costs nothing may be tried again: its refusal is reported once the drain is critical.
    """
    outcome = Outcome(done=Done.REFUSED, because=str(refusal), refusal=refusal, retry_at_s=refusal.ends_at_s)
    state, order = plan.facts.state, plan.order
    is_told = state.refusal_told == refusal.guard or is_pause_after_failure(state, refusal)
    is_quiet = order.early and shell.policy.flip.act_at is ActAt.AUTO
    if order.by != WATCHDOG or is_told or is_quiet or not state.revision:
        return outcome
    after = replace(state, revision=_next_revision(state, plan.facts.now_s), refusal_told=str(refusal.guard))
    _write(shell, plan, state, after, [refused_event(plan, refusal)])
    return outcome


def _write(shell: Shell, plan: Plan, before: VolumeState, after: VolumeState, events: list[Event]) -> bool:
    now_s = plan.facts.now_s
    told = [
        announce(event, after, plan.facts.volume, policy=shell.policy, place=shell.place, now_s=now_s)
        for event in events
    ]
    change = Change(
        volume_id=after.volume_id,
        expected_revision=before.revision or None,
        state=after,
        entries=tuple(enter(event, after, now_s) for event in events),
        alerts=tuple(alert for alert in told if alert),
    )
    return bool(shell.ledger.commit([change], channels=shell.channel_names))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """An intent that is recorded: the one call to AWS, and what it said."""

    shell: Shell
    plan: Plan
    intent_id: str
    began: float
    monotonic: Callable[[], float] = monotonic

    def run(self, modifier: Ec2Modifier) -> Outcome:
        plan = self.plan
        assert plan.target is not None
        if self.monotonic() - self.began > SEND_WITHIN_S:
            because = "the intent was recorded too long ago to be sent; it is settled and tried again"
            return Outcome(done=Done.IN_FLIGHT, because=because)
        match modifier.modify(plan.order.volume_id, plan.target):
            case Accepted(modification=modification) if modification.started_at is not None:
                now_s = plan.facts.now_s
                lead, empty_s = self.shell.policy.lead, plan.order.empty_s
                self._record(
                    lambda state: accept(state, modification, now_s, lead=lead, empty_s=empty_s),
                    taken=modification,
                )
                is_out = plan.order.direction is Direction.OUT
                return Outcome(done=Done.FLIPPED if is_out else Done.FLIPPED_BACK)
            case Refused(failure=failure, retry_at=retry_at):
                return self._refused(failure, plan.target, retry_at.timestamp() if retry_at else None)
            case Accepted():
                because = "AWS took it and did not say when it began, which is asked next"
                self._record(lambda state: lose_answer(state, "NoStartTime", because))
                return Outcome(done=Done.IN_FLIGHT, because=because)
            case Unclear(failure=failure):
                self._record(lambda state: lose_answer(state, failure.code, str(failure)))
                return Outcome(done=Done.IN_FLIGHT, because=str(failure), error_code=failure.code)
            case Allowed():
                raise AssertionError("only a dry run is allowed and not done")

    def _refused(self, failure: AwsFailure, target: Configuration, retry_at_s: float | None) -> Outcome:
        named = guard_of(failure.code, failure.message)
        kind = AlertKind.FLIP_FAILED if named is None else AlertKind.FLIP_REFUSED
        now_s = self.plan.facts.now_s
        is_passing = failure.kind is FailureKind.RETRYABLE or failure.code == OutOfTimeError.__name__
        unread = ""
        if is_passing:
            retry_at_s = now_s + _THROTTLED_S
        elif named == Guard.AWS_QUOTA and retry_at_s is None:
            facts = self.plan.facts
            retry_at_s = quota_retry_at_s(all_spent(facts.state, facts.modification, now_s), now_s)
            unread = " (it names no time that burstwatch understands)"

        lacks = lack_of(self.plan, now_s) if named == Guard.TYPE_NOT_AVAILABLE else None
        said = f"AWS says: {failure.message.rstrip('.')}." if lacks else str(failure)

        def step(state: VolumeState) -> tuple[VolumeState, Event]:
            soon_s = None if is_passing and state.failures >= _TELL_THROTTLED_FROM else retry_at_s
            after, event = reject(
                state, failure.code, said, now_s, retry_at_s=soon_s, guard=named, lacks=lacks
            )
            told = after.refusal_told == named if named else not is_worth_telling(after.failures)
            told = told or (is_passing and after.failures < _TELL_THROTTLED_FROM)
            after = replace(after, refusal_told=named)
            return after, replace(event, alert=None if told else kind)

        after = self._record(step)
        if named == Guard.TYPE_NOT_AVAILABLE:
            self._remember_place(target, failure.message)
        retry_at_s = after.retry_at_s if after else retry_at_s
        if named is None:
            return Outcome(
                done=Done.FAILED, because=str(failure), error_code=failure.code, retry_at_s=retry_at_s
            )
        reason = f"AWS says {failure.message}{unread}"
        refusal = Refusal(guard=Guard(named), reason=reason, ends_at_s=retry_at_s)
        return Outcome(
            done=Done.REFUSED,
            because=str(refusal),
            error_code=failure.code,
            refusal=refusal,
            retry_at_s=retry_at_s,
        )

    def _remember_place(self, target: Configuration, said: str) -> None:
        """Spare every other volume in the same place the same refusal."""
        facts = self.plan.facts
        change = remember_refusal(facts.volume, target.volume_type, said, facts.now_s)
        if change is not None:
            self.shell.ledger.commit([change], channels=())

    def _record(
        self,
        step: Callable[[VolumeState], tuple[VolumeState, Event]],
        *,
        taken: Modification | None = None,
    ) -> VolumeState | None:
        """Write the outcome, unless another process has settled the intent already.

        What AWS has ``taken`` is written also where others gave it up: a process may sleep before it sends.
        """
        volume_id, asked = self.plan.order.volume_id, self.plan.facts.state.flip
        assert asked is not None
        for _ in range(_TRIES):
            known = self.shell.ledger.states_of({volume_id}).get(volume_id)
            state = known or _blank(volume_id)
            if taken is not None and _is_given_up(state, taken):
                state = replace(state, flip=asked)
            found = state.flip and (state.flip.intent_id, state.flip.phase)
            if found != (self.intent_id, asked.phase):
                return known
            after, event = step(state)
            after = replace(after, revision=_next_revision(state, self.plan.facts.now_s))
            if _write(self.shell, self.plan, state, after, [event]):
                return after
        return None


def _is_given_up(state: VolumeState, taken: Modification) -> bool:
    """Whether the ledger knows nothing of a modification that AWS took, and waits for no other."""
    if state.flip is not None and state.flip.is_under_way:
        return False
    start_s = taken.started_at.timestamp() if taken.started_at else None
    return start_s is not None and all(abs(one.at_s - start_s) > SAME_START_S for one in state.spent)

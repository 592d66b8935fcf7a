"""Carries out orders: read afresh, ask every guard, record the intent, ask AWS once, record what it said."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Semaphore
from time import monotonic
from typing import Final

from burstwatch.adapters.aws.ec2_modify import (
    Accepted,
    DryRunAllowed,
    Ec2Modifier,
    OutcomeUnknown,
    Refused,
    guard_for_error,
)
from burstwatch.adapters.aws.errors import AwsError, AwsFailure, FailureKind, OutOfTimeError
from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.assess import VolumeReading, assess
from burstwatch.core.buckets.series import Series, served_iops_by_minute
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.sizing import Demand
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.caps import caps_for, fleet_cap_refusal, spend_cap_refusal
from burstwatch.core.flips.events import Event, to_alert, to_ledger_entry
from burstwatch.core.flips.guards import (
    Guard,
    Refusal,
    hold_refusal,
    is_backoff_refusal,
    modifications_used,
    quota_retry_at_s,
)
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.flips.planning import (
    FlipContext,
    FlipOrder,
    FlipPlan,
    describe_unavailable_type,
    extend_stay,
    make_plan,
    record_accepted,
    record_intent,
    record_rejected,
    record_unknown_outcome,
    refused_event,
)
from burstwatch.core.flips.recommendation import measured_demand
from burstwatch.core.flips.reconcile import should_alert_failure
from burstwatch.core.flips.type_availability import remember_refusal
from burstwatch.core.ledger.flip_state import SAME_START_TOLERANCE_S, WATCHDOG, Direction
from burstwatch.core.ledger.ledger import Caps, Change, IntentResult, IntentStatus, VolumeState
from burstwatch.core.policy.policy import ActAt
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.core.watch.due_volumes import DueVolume
from burstwatch.engine.collector import OPERATIONS_SPAN_S, Collector
from burstwatch.engine.services import Services

WORKERS: Final = 8
"""Modifications asked for at once."""

UNREAD_CODE: Final = "unread"

SEND_WITHIN_S: Final = 30.0
"""An intent older than this is not sent any more: another process may soon conclude that it never was."""

_MAX_AGE_S: Final = 5.0
"""Volumes read longer ago are read again before one of them is modified: people detach and tag them."""

_THROTTLE_RETRY_S: Final = 60
_REPORT_THROTTLING_FROM: Final = 3
"""AWS throttles a burst of modifications: one refused for that is tried again, and told when it goes on."""

_MAX_TRIES: Final = 5
_QUOTA_LIMITED_TYPES: Final = (VolumeType.IO1, VolumeType.IO2)


STOPPED_OUTCOME: Final = Outcome(
    status=OutcomeStatus.NONE, reason="the watchdog was stopped; the next pass asks for it"
)
"""What becomes of an order that ``shell.should_stop`` came before."""


@dataclass(slots=True)
class _FreshContext:
    """What was read afresh for a batch of orders."""

    services: Services
    collector: Collector
    now_s: float
    missing: frozenset[str]
    contexts: dict[str, FlipContext]
    iops_used: dict[VolumeType, int | None] = field(default_factory=dict)
    read_at_s: float = 0.0

    def plan(self, order: FlipOrder) -> FlipPlan:
        """The plan for an order; asks for the account's quota where the target counts against one."""
        policy = self.services.policy
        plan = make_plan(order, self.contexts[order.volume_id], policy)
        if order.direction is Direction.FLIP_BACK or plan.target is None:
            return plan
        volume_type = plan.target.volume_type
        if volume_type not in _QUOTA_LIMITED_TYPES or (used_iops := self._iops_used(volume_type)) is None:
            return plan
        limit = policy.flip.io1_iops_limit if volume_type is VolumeType.IO1 else policy.flip.io2_iops_limit
        return make_plan(order, replace(plan.context, iops_left=limit - used_iops), policy)

    def reserve(self, plan: FlipPlan) -> None:
        """Count what a plan takes of the account's quota, for the orders after it."""
        target = plan.target
        if target is not None and plan.order.direction is Direction.FLIP:
            used_iops = self.iops_used.get(target.volume_type)
            if used_iops is not None:
                self.iops_used[target.volume_type] = used_iops + (target.iops or 0)

    def refresh_if_old(self, remaining: Sequence[FlipOrder]) -> None:
        """Describe the volumes of the remaining orders again, all at once, if that was too long ago."""
        if monotonic() - self.read_at_s < _MAX_AGE_S:
            return
        read_at_s = monotonic()
        ids = {order.volume_id for order in remaining} & self.contexts.keys()
        described, missing = self.collector.volumes_by_id(ids)
        volumes = {volume.volume_id: volume for volume in described}
        self.missing |= frozenset(missing)
        for volume_id in ids:
            context = self.contexts.pop(volume_id)
            if (volume := volumes.get(volume_id)) is not None:
                volume_settings = read_tags(volume.tags, self.services.policy.mode)
                self.contexts[volume_id] = replace(context, volume=volume, volume_settings=volume_settings)
        self.read_at_s = read_at_s

    def refresh_state(self, volume_id: str) -> None:
        """Take the ledger's newest word on a volume."""
        states = self.services.ledger.states_of({volume_id})
        if volume_id not in states.unreadable:
            state = states.get(volume_id) or _empty_state(volume_id)
            self.contexts[volume_id] = replace(self.contexts[volume_id], state=state)

    def _iops_used(self, volume_type: VolumeType) -> int | None:
        if volume_type not in self.iops_used:
            try:
                self.iops_used[volume_type] = self.services.ec2.provisioned_iops(volume_type)
            except AwsError as error:
                self.collector.failures.append(str(error))
                self.iops_used[volume_type] = None
        return self.iops_used[volume_type]


def plan_orders(
    services: Services, orders: Sequence[FlipOrder], collector: Collector
) -> dict[str, FlipPlan | Outcome]:
    """What each order comes to now; an outcome where the volume is gone or could not be read."""
    fresh = _read_fresh_context(services, orders, collector)
    plans: dict[str, FlipPlan | Outcome] = {}
    for order in orders:
        plan_or_outcome = _unavailable(fresh, order.volume_id) or fresh.plan(order)
        if isinstance(plan_or_outcome, FlipPlan) and not plan_or_outcome.refusals:
            fresh.reserve(plan_or_outcome)
        plans[order.volume_id] = plan_or_outcome
    return plans


def execute_flips(
    services: Services, orders: Iterable[FlipOrder], collector: Collector
) -> dict[str, Outcome]:
    """Carry out what the guards allow, the most urgent first; one volume's trouble is never another's.

    Intents are recorded one after the other, so that caps go to the most urgent, and none before there is a
    worker to send it; AWS is asked in parallel.
    """
    assert services.modifier is not None
    ordered = sorted(orders, key=lambda order: (order.urgency, order.volume_id))
    fresh = _read_fresh_context(services, ordered, collector)
    outcomes: dict[str, Outcome] = {}
    futures: dict[str, Future[Outcome]] = {}
    free_workers = Semaphore(WORKERS)
    with ThreadPoolExecutor(WORKERS, thread_name_prefix="flip") as pool:
        for index, order in enumerate(ordered):
            free_workers.acquire()
            fresh.refresh_if_old(ordered[index:])
            task_or_outcome = _unavailable(fresh, order.volume_id) or (
                STOPPED_OUTCOME if services.should_stop() else _record_intent(fresh, order)
            )
            if isinstance(task_or_outcome, Outcome):
                outcomes[order.volume_id] = task_or_outcome
                free_workers.release()
            else:
                futures[order.volume_id] = pool.submit(task_or_outcome.run, services.modifier)
                futures[order.volume_id].add_done_callback(lambda _: free_workers.release())
    outcomes |= {volume_id: future.result() for volume_id, future in futures.items()}
    collector.failures += [
        f"{volume_id}: {outcome.reason}"
        for volume_id, outcome in outcomes.items()
        if outcome.error_code is not None and outcome.refusal is None and outcome.reason
    ]
    return outcomes


def _read_fresh_context(
    services: Services, orders: Sequence[FlipOrder], collector: Collector
) -> _FreshContext:
    ids, read_at_s = {order.volume_id for order in orders}, monotonic()
    described, missing = collector.volumes_by_id(ids)
    volumes = {volume.volume_id: volume for volume in described}
    flipping_volumes = [
        volumes[o.volume_id] for o in orders if o.direction is Direction.FLIP and o.volume_id in volumes
    ]
    modifications, unread = collector.modifications(volumes)
    limits = collector.instance_limits(flipping_volumes)
    states = services.ledger.states_of(ids)
    collector.failures += map(str, states.unreadable.values())
    unread |= states.unreadable.keys()
    holds = services.ledger.holds(collector.now_s)
    unavailable = services.unavailable_types(flipping_volumes, collector.now_s)
    contexts = {
        volume_id: FlipContext(
            volume=volume,
            volume_settings=read_tags(volume.tags, services.policy.mode),
            state=states.get(volume_id) or _empty_state(volume_id),
            now_s=collector.now_s,
            holds=holds,
            modification=modifications.get(volume_id),
            instance=limits.get(volume_id),
            unavailable=unavailable.get(volume_id, {}),
        )
        for volume_id, volume in volumes.items()
        if volume_id not in unread
    }
    now_s = collector.now_s
    return _FreshContext(services, collector, now_s, frozenset(missing), contexts, read_at_s=read_at_s)


def _empty_state(volume_id: str) -> VolumeState:
    return VolumeState(volume_id=volume_id, revision=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeMeasurement:
    """What a volume was seen to serve of late, and when it is empty; None if it is not draining."""

    demand: Demand = field(default_factory=Demand)
    time_to_empty_s: float | None = None


def measure_volumes(
    services: Services, collector: Collector, volumes: Iterable[Volume]
) -> Mapping[str, VolumeMeasurement]:
    """What CloudWatch shows of volumes, for orders that come without a look at them."""
    volumes_by_id = {volume.volume_id: volume for volume in volumes}
    operations = collector.operations(volumes_by_id)
    balances = collector.balances(
        [DueVolume(volume=gp2_volume) for gp2_volume in volumes_by_id.values() if gp2_volume.is_gp2], set()
    )
    since_s = collector.now_s - OPERATIONS_SPAN_S
    measurements: dict[str, VolumeMeasurement] = {}
    for volume_id, (reads, writes) in operations.items():
        balance = balances.get(volume_id)
        recent_balance = balance.since(since_s) if isinstance(balance, Series) else Series()
        served_series = served_iops_by_minute(reads, writes, collector.now_s)
        volume, volume_reading = (
            volumes_by_id[volume_id],
            VolumeReading(balance=balance if isinstance(balance, Series) else None),
        )
        assessment = assess(
            volume, volume_reading, now_s=collector.now_s, telemetry=services.policy.telemetry
        )
        measurements[volume_id] = VolumeMeasurement(
            demand=measured_demand(volume, served_series, recent_balance),
            time_to_empty_s=assessment.time_to_empty_s,
        )
    return measurements


def _unavailable(fresh: _FreshContext, volume_id: str) -> Outcome | None:
    if volume_id in fresh.contexts:
        return None
    return not_found_outcome() if volume_id in fresh.missing else unread_outcome()


def not_found_outcome() -> Outcome:
    """What becomes of an order for a volume that AWS does not know."""
    reason = "it does not exist (any more)"
    return Outcome(status=OutcomeStatus.FAILED, reason=reason, error_code="InvalidVolume.NotFound")


def unread_outcome(cause: str | None = None) -> Outcome:
    """What becomes of an order for a volume about which AWS did not say what must be known."""
    reason = f"it could not be read, so it was not touched{f': {cause}' if cause else ''}"
    return Outcome(status=OutcomeStatus.FAILED, reason=reason, error_code=UNREAD_CODE)


def _record_intent(fresh: _FreshContext, order: FlipOrder) -> "_ModifyTask | Outcome":
    """What is left to do of an order whose intent is recorded, or why there is none.

    What only the ledger can refuse is overridden where it does refuse, so that the intent says what mattered.
    """
    overridden_guards: frozenset[Guard] = frozenset()
    for _ in range(_MAX_TRIES):
        plan = fresh.plan(order)
        plan = replace(
            plan, overridden=(*plan.overridden, *sorted(overridden_guards.difference(plan.overridden)))
        )
        flip = plan.context.state.flip
        if order.by == WATCHDOG and flip is not None and flip.is_under_way:
            return Outcome(status=OutcomeStatus.IN_FLIGHT, reason=f"on its way to {flip.requested_config}")
        if plan.refusal is not None:
            return _record_refusal(fresh.services, plan, plan.refusal)
        if plan.is_extension:
            if (outcome := _record_extension(fresh, plan)) is not None:
                return outcome
            fresh.refresh_state(order.volume_id)
            continue
        revision, started_at_s = _next_revision(plan.context.state, fresh.now_s), monotonic()
        state, event = record_intent(plan, revision, int(fresh.collector.wall_clock_s))
        state = replace(state, next_poll_at_s=int(fresh.now_s) + 60)
        change = Change(
            volume_id=order.volume_id,
            expected_revision=plan.context.state.revision or None,
            state=state,
            entries=(to_ledger_entry(event, state, fresh.now_s),),
        )
        result = _record_in_ledger(fresh, plan, change)
        match result.status:
            case IntentStatus.RECORDED:
                fresh.reserve(plan)
                plan = replace(plan, context=replace(plan.context, state=state))
                return _ModifyTask(
                    services=fresh.services, plan=plan, intent_id=_intent_id(plan), started_at_s=started_at_s
                )
            case IntentStatus.CONFLICT:
                fresh.refresh_state(order.volume_id)
            case _:
                refusal = _refusal_from_ledger(result, plan, fresh.services)
                if refusal.guard not in order.overridden:
                    return _record_refusal(fresh.services, plan, refusal)
                overridden_guards |= {refusal.guard}
    return Outcome(status=OutcomeStatus.IN_FLIGHT, reason="other processes are at work on it")


def _record_extension(fresh: _FreshContext, plan: FlipPlan) -> Outcome | None:
    """Say in the ledger how long a volume is kept; None where another process changed it meanwhile."""
    before = plan.context.state
    after, event = extend_stay(plan, _next_revision(before, fresh.now_s))
    after = replace(after, next_poll_at_s=int(fresh.now_s) + 60)
    if not _commit_events(fresh.services, plan, before, after, [event]):
        return None
    return Outcome(status=OutcomeStatus.NONE, reason=event.summary)


def _record_in_ledger(fresh: _FreshContext, plan: FlipPlan, change: Change) -> IntentResult:
    caps = caps_for(plan.order, fresh.services.policy.flip)
    caps = Caps(
        volumes=None if Guard.FLEET_CAP in plan.overridden else caps.volumes,
        usd_per_month=None if Guard.SPEND_CAP in plan.overridden else caps.usd_per_month,
    )
    return fresh.services.ledger.record_intent(
        change,
        caps,
        now_s=fresh.now_s,
        respects_holds=Guard.HELD not in plan.overridden,
        channels=fresh.services.channel_names,
    )


def _refusal_from_ledger(result: IntentResult, plan: FlipPlan, services: Services) -> Refusal:
    if result.status is IntentStatus.HELD:
        assert result.hold is not None
        return hold_refusal(result.hold)
    policy = services.policy.flip
    if result.status is IntentStatus.FLEET_CAP:
        return fleet_cap_refusal(plan.order, result.volumes, policy)
    return spend_cap_refusal(plan.order, plan.usd_per_month_more, result.usd_per_month, policy)


def _next_revision(state: VolumeState, now_s: float) -> int:
    return max(state.revision + 1, int(now_s))


def _intent_id(plan: FlipPlan) -> str:
    assert plan.context.state.flip is not None
    return plan.context.state.flip.intent_id


def _record_refusal(services: Services, plan: FlipPlan, refusal: Refusal) -> Outcome:
    """Report the watchdog's own refusals once, and again when another guard refuses.

    An early flip that costs nothing may be tried again: its refusal is reported once the drain is critical.
    """
    outcome = Outcome(
        status=OutcomeStatus.REFUSED, reason=str(refusal), refusal=refusal, retry_at_s=refusal.ends_at_s
    )
    state, order = plan.context.state, plan.order
    is_reported = state.alerted_refusal == refusal.guard or is_backoff_refusal(state, refusal)
    is_quiet = order.is_early and services.policy.flip.act_at is ActAt.AUTO
    if order.by != WATCHDOG or is_reported or is_quiet or not state.revision:
        return outcome
    after = replace(
        state, revision=_next_revision(state, plan.context.now_s), alerted_refusal=str(refusal.guard)
    )
    _commit_events(services, plan, state, after, [refused_event(plan, refusal)])
    return outcome


def _commit_events(
    services: Services, plan: FlipPlan, before: VolumeState, after: VolumeState, events: list[Event]
) -> bool:
    now_s = plan.context.now_s
    alerts = [
        to_alert(
            event, after, plan.context.volume, policy=services.policy, location=services.location, now_s=now_s
        )
        for event in events
    ]
    change = Change(
        volume_id=after.volume_id,
        expected_revision=before.revision or None,
        state=after,
        entries=tuple(to_ledger_entry(event, after, now_s) for event in events),
        alerts=tuple(alert for alert in alerts if alert),
    )
    return bool(services.ledger.commit([change], channels=services.channel_names))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModifyTask:
    """An intent that is recorded: the one call to AWS, and what it said."""

    services: Services
    plan: FlipPlan
    intent_id: str
    started_at_s: float
    monotonic: Callable[[], float] = monotonic

    def run(self, modifier: Ec2Modifier) -> Outcome:
        plan = self.plan
        assert plan.target is not None
        if self.monotonic() - self.started_at_s > SEND_WITHIN_S:
            reason = "the intent was recorded too long ago to be sent; it is settled and tried again"
            return Outcome(status=OutcomeStatus.IN_FLIGHT, reason=reason)
        match modifier.modify(plan.order.volume_id, plan.target):
            case Accepted(modification=modification) if modification.started_at is not None:
                now_s = plan.context.now_s
                lead, time_to_empty_s = self.services.policy.lead, plan.order.time_to_empty_s
                self._record_outcome(
                    lambda state: record_accepted(
                        state, modification, now_s, lead=lead, time_to_empty_s=time_to_empty_s
                    ),
                    accepted=modification,
                )
                is_outward = plan.order.direction is Direction.FLIP
                return Outcome(status=OutcomeStatus.FLIPPED if is_outward else OutcomeStatus.FLIPPED_BACK)
            case Refused(failure=failure, retry_at=retry_at):
                return self._record_aws_refusal(
                    failure, plan.target, retry_at.timestamp() if retry_at else None
                )
            case Accepted():
                reason = "AWS took it and did not say when it began, which is asked next"
                self._record_outcome(lambda state: record_unknown_outcome(state, "NoStartTime", reason))
                return Outcome(status=OutcomeStatus.IN_FLIGHT, reason=reason)
            case OutcomeUnknown(failure=failure):
                self._record_outcome(lambda state: record_unknown_outcome(state, failure.code, str(failure)))
                return Outcome(status=OutcomeStatus.IN_FLIGHT, reason=str(failure), error_code=failure.code)
            case DryRunAllowed():
                raise AssertionError("only a dry run is allowed and not done")

    def _record_aws_refusal(
        self, failure: AwsFailure, target: Configuration, retry_at_s: float | None
    ) -> Outcome:
        guard = guard_for_error(failure.code, failure.message)
        alert_kind = AlertKind.FLIP_FAILED if guard is None else AlertKind.FLIP_REFUSED
        now_s = self.plan.context.now_s
        is_transient = failure.kind is FailureKind.RETRYABLE or failure.code == OutOfTimeError.__name__
        retry_note = ""
        if is_transient:
            retry_at_s = now_s + _THROTTLE_RETRY_S
        elif guard == Guard.AWS_QUOTA and retry_at_s is None:
            context = self.plan.context
            retry_at_s = quota_retry_at_s(
                modifications_used(context.state, context.modification, now_s), now_s
            )
            retry_note = " (it names no time that burstwatch understands)"

        lack = describe_unavailable_type(self.plan, now_s) if guard == Guard.TYPE_NOT_AVAILABLE else None
        message = f"AWS says: {failure.message.rstrip('.')}." if lack else str(failure)

        def step(state: VolumeState) -> tuple[VolumeState, Event]:
            retry_soon_at_s = (
                None if is_transient and state.failure_count >= _REPORT_THROTTLING_FROM else retry_at_s
            )
            after, event = record_rejected(
                state,
                failure.code,
                message,
                now_s,
                retry_at_s=retry_soon_at_s,
                guard=guard,
                unavailable_type=lack,
            )
            is_reported = (
                after.alerted_refusal == guard if guard else not should_alert_failure(after.failure_count)
            )
            is_reported = is_reported or (is_transient and after.failure_count < _REPORT_THROTTLING_FROM)
            after = replace(after, alerted_refusal=guard)
            return after, replace(event, alert=None if is_reported else alert_kind)

        after = self._record_outcome(step)
        if guard == Guard.TYPE_NOT_AVAILABLE:
            self._remember_type_refusal(target, failure.message)
        retry_at_s = after.retry_at_s if after else retry_at_s
        if guard is None:
            return Outcome(
                status=OutcomeStatus.FAILED,
                reason=str(failure),
                error_code=failure.code,
                retry_at_s=retry_at_s,
            )
        reason = f"AWS says {failure.message}{retry_note}"
        refusal = Refusal(guard=Guard(guard), reason=reason, ends_at_s=retry_at_s)
        return Outcome(
            status=OutcomeStatus.REFUSED,
            reason=str(refusal),
            error_code=failure.code,
            refusal=refusal,
            retry_at_s=retry_at_s,
        )

    def _remember_type_refusal(self, target: Configuration, message: str) -> None:
        """Spare every other volume in the same place the same refusal."""
        context = self.plan.context
        change = remember_refusal(context.volume, target.volume_type, message, context.now_s)
        if change is not None:
            self.services.ledger.commit([change], channels=())

    def _record_outcome(
        self,
        step: Callable[[VolumeState], tuple[VolumeState, Event]],
        *,
        accepted: Modification | None = None,
    ) -> VolumeState | None:
        """Write the outcome, unless another process has settled the intent already.

        What AWS has ``accepted`` is written also where others gave it up: a process may sleep before it
        sends.
        """
        volume_id, expected_flip = self.plan.order.volume_id, self.plan.context.state.flip
        assert expected_flip is not None
        for _ in range(_MAX_TRIES):
            known_state = self.services.ledger.states_of({volume_id}).get(volume_id)
            state = known_state or _empty_state(volume_id)
            if accepted is not None and _is_untracked(state, accepted):
                state = replace(state, flip=expected_flip)
            current = state.flip and (state.flip.intent_id, state.flip.status)
            if current != (self.intent_id, expected_flip.status):
                return known_state
            after, event = step(state)
            after = replace(after, revision=_next_revision(state, self.plan.context.now_s))
            if _commit_events(self.services, self.plan, state, after, [event]):
                return after
        return None


def _is_untracked(state: VolumeState, accepted: Modification) -> bool:
    """Whether the ledger knows nothing of a modification that AWS took, and waits for no other."""
    if state.flip is not None and state.flip.is_under_way:
        return False
    started_at_s = accepted.started_at.timestamp() if accepted.started_at else None
    return started_at_s is not None and all(
        abs(use.at_s - started_at_s) > SAME_START_TOLERANCE_S for use in state.modifications
    )

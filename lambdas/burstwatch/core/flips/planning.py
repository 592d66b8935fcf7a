"""From an order to a plan: what would be changed, what it costs, and what refuses it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Final

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, VolumeType, usd_per_month
from burstwatch.core.ebs.sizing import (
    Demand,
    InstanceLimits,
    Stay,
    Target,
    TargetRefusal,
    TargetRefusalName,
    Wish,
    choose_target,
    configuration_of,
    instead_of,
    stays_after,
)
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.events import Event
from burstwatch.core.flips.guards import Attempt, Guard, Refusal, is_last_of_the_day, refuse
from burstwatch.core.flips.reconcile import (
    Sighting,
    accepted_event,
    ask_again,
    backed_off,
    failed_words,
    failure_facts,
    flip_facts,
    given_up,
    shows,
    taken,
)
from burstwatch.core.flips.type_availability import REMEMBERED_FOR_S, location_of
from burstwatch.core.ledger.flip_state import (
    WATCHDOG,
    Cause,
    Direction,
    Flip,
    Hold,
    Phase,
    configuration_document,
    intent_id,
)
from burstwatch.core.ledger.ledger import EntryKind, VolumeState
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.policy.volume_tags import Wishes
from burstwatch.core.policy.windows import LeadPolicy
from burstwatch.core.text import format_instant, format_when

_GUARD_OF: Final = {
    TargetRefusalName.INSTANCE_IS_BOTTLENECK: Guard.INSTANCE_IS_BOTTLENECK,
    TargetRefusalName.NO_CHANGE_NEEDED: Guard.NO_CHANGE_NEEDED,
    TargetRefusalName.TYPE_NOT_AVAILABLE: Guard.TYPE_NOT_AVAILABLE,
}


_ASKED_ELSEWHERE: Final = frozenset(
    {Guard.INSTANCE_IS_BOTTLENECK, Guard.TYPE_NOT_AVAILABLE, Guard.FLEET_CAP, Guard.SPEND_CAP}
)
"""Guards that choose the target, or that only the ledger's transaction asks."""

_NOT_AS_SHOWN: Final = "it is not what it was when the plan was shown, so nothing was done: plan again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A modification somebody wants: the watchdog, or a person.

    A person may insist on a ``wish``, override guards (``why`` says for what reason) and say for how long.
    One that ``extends`` is for a volume that is there already: it never modifies. An ``early`` one is for a
    drain that is not yet critical.
    ``urgency`` orders orders: the lower the sooner. ``empty_s`` is the time until the volume is empty, in
    seconds; None if it is not draining, or not known.
    """

    volume_id: str
    direction: Direction
    cause: Cause
    because: str
    by: str = WATCHDOG
    wish: Wish | None = None
    demand: Demand = field(default_factory=Demand)
    return_after_s: int | None = None
    overridden: frozenset[Guard] = frozenset()
    why: str | None = None
    extends: bool = False
    early: bool = False
    urgency: tuple[float | str, ...] = (inf,)
    empty_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything read afresh for one order; ``unavailable`` are types that do not exist where it is."""

    volume: Volume
    wishes: Wishes
    state: VolumeState
    now_s: float
    holds: Sequence[Hold] = ()
    modification: Modification | None = None
    instance: InstanceLimits | None = None
    iops_left: int | None = None
    unavailable: Mapping[VolumeType, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an order comes to now; with any of ``refusals`` it is not carried out.

    ``target`` is None where there is nothing it could become. ``choice`` has the alternatives beside it, for
    a way out. ``extends`` what the ledger says of a volume that is on this target already: how long, and for
    whom; AWS is asked for nothing.
    """

    order: Order
    facts: Facts
    now: Configuration | None
    target: Configuration | None = None
    choice: Target | None = None
    stay: Stay | None = None
    usd_per_month_now: float = 0.0
    usd_per_month: float = 0.0
    refusals: tuple[Refusal, ...] = ()
    overridden: tuple[Guard, ...] = ()
    extends: bool = False
    way_out: str | None = None
    """The command that flips it to a type that exists where it is."""

    @property
    def refusal(self) -> Refusal | None:
        return self.refusals[0] if self.refusals else None

    @property
    def usd_per_month_more(self) -> float:
        return round(self.usd_per_month - self.usd_per_month_now, 6)


def make_plan(order: Order, facts: Facts, policy: Policy) -> Plan:
    """Work out what an order comes to, with every guard asked."""
    if (extension := _plan_extension(order, facts, policy)) is not None:
        return extension
    if order.direction is Direction.BACK:
        plan = _plan_back(order, facts)
    else:
        order, facts = _as_paid_for(order, facts, policy)
        plan = _plan_out(order, facts, policy)
    if order.extends:
        return replace(plan, refusals=(Refusal(guard=Guard.NO_TARGET, reason=_NOT_AS_SHOWN),))
    if plan.target is None or plan.now is None:
        return plan
    attempt = Attempt(
        volume=facts.volume,
        wishes=facts.wishes,
        state=facts.state,
        direction=order.direction,
        cause=order.cause,
        by=order.by,
        target=plan.target,
        now=plan.now,
        now_s=facts.now_s,
        holds=facts.holds,
        modification=facts.modification,
        iops_left=facts.iops_left,
    )
    if plan.stay is not None and is_last_of_the_day(attempt):
        plan = _to_stay(plan, policy)
        attempt = replace(attempt, target=plan.target or attempt.target)
    attempt = replace(attempt, tags_usd_per_month=_tags_usd_per_month(plan, policy))
    if not order.overridden:
        return replace(plan, refusals=tuple(refuse(attempt, policy)))
    found = refuse(attempt, policy)
    left = refuse(attempt, policy, overridden=order.overridden)
    passed = {refusal.guard for refusal in found if refusal not in left}
    passed |= order.overridden & _ASKED_ELSEWHERE
    return replace(plan, refusals=tuple(left), overridden=tuple(sorted(passed)))


def _as_paid_for(order: Order, facts: Facts, policy: Policy) -> tuple[Order, Facts]:
    """The order and facts of a tagged critical volume that drains, by who pays for its stay.

    A stay that costs more is the tag's: within the tag cap it is planned, and counted against the caps, like
    any other flip for the tag. Beyond the tag cap it is that of a draining volume without the tag, and ends.
    """
    if order.by != WATCHDOG or order.cause is not Cause.DRAINING or not facts.wishes.is_critical:
        return order, facts
    added_usd = _plan_out(order, facts, policy).usd_per_month_more
    if added_usd > policy.flip.tag_cap_usd:
        return order, replace(facts, wishes=replace(facts.wishes, is_critical=False))
    return (replace(order, cause=Cause.CRITICAL) if added_usd > 0 else order), facts


def _tags_usd_per_month(plan: Plan, policy: Policy) -> float:
    """What the tags add to what the policy alone would choose; without them, nothing.

    A volume that only its tag calls critical would be left as it is.
    """
    order, facts = plan.order, plan.facts
    if order.direction is Direction.BACK or order.wish is not None:
        return 0.0
    if order.cause is Cause.CRITICAL:
        return plan.usd_per_month_more
    if facts.wishes.target == Wish():
        return 0.0
    bare = _plan_out(order, replace(facts, wishes=replace(facts.wishes, target=Wish())), policy)
    return round(plan.usd_per_month - bare.usd_per_month, 6)


def _to_stay(plan: Plan, policy: Policy) -> Plan:
    """The last flip of a day is to gp3 and for good; a type that somebody named is not put aside for it."""
    order, facts = plan.order, plan.facts
    is_named = order.wish is not None or facts.wishes.target.volume_type is not None
    if not is_named and policy.flip.target is not VolumeType.GP3:
        as_gp3 = _plan_out(order, facts, replace(policy, flip=replace(policy.flip, target=VolumeType.GP3)))
        plan = plan if as_gp3.target is None else as_gp3
    if plan.target is None or plan.target.volume_type is not VolumeType.GP3:
        return plan
    reason = "stays: AWS's modifications of the day leave none to come back by"
    return replace(plan, stay=Stay(stays=True, reason=reason))


def _plan_extension(order: Order, facts: Facts, policy: Policy) -> Plan | None:
    """A person wants what the volume was flipped to already; None where it is anything else."""
    flip, wish = facts.state.flip, order.wish or Wish()
    if order.by == WATCHDOG or order.direction is Direction.BACK:
        return None
    if flip is None or flip.direction is Direction.BACK or flip.phase is Phase.ASKED:
        return None
    if flip.phase is Phase.ON_TARGET and not shows(facts.volume, flip):
        return None
    now = flip.target
    asked = (wish.volume_type, wish.iops, wish.throughput_mib_s)
    is_told = (now.volume_type, now.iops, now.throughput_mib_s)
    if any(one not in (None, other) for one, other in zip(asked, is_told, strict=True)):
        return None
    costs = usd_per_month(now, facts.volume.size_gib, US_EAST_1)
    return Plan(
        order=order,
        facts=facts,
        now=now,
        target=now,
        stay=_stay(order, facts, now, None, policy),
        usd_per_month_now=costs,
        usd_per_month=costs,
        extends=True,
    )


def extend(plan: Plan, revision: int) -> tuple[VolumeState, Event]:
    """The state in which a volume on its target is kept there for somebody else, or for another time."""
    flip, order, until_s = plan.facts.state.flip, plan.order, plan.order.return_after_s
    assert flip is not None
    kept = replace(
        flip,
        cause=order.cause,
        by=order.by,
        because=_because(plan),
        stays=plan.stay is not None and plan.stay.stays,
        return_after_s=until_s,
        left_told_at_s=None,
    )
    state = replace(plan.facts.state, revision=revision, flip=kept, contested_at_s=None)
    span = "until it is flipped back" if until_s is None else f"until {format_instant(until_s)}"
    event = Event(
        kind=EntryKind.KEPT,
        summary=f"is kept {flip.target} {span}, asked for by {order.by}",
        details=tuple(filter(None, (order.because,))),
        facts=flip_facts(kept),
    )
    return state, event


def _plan_out(order: Order, facts: Facts, policy: Policy) -> Plan:
    volume = facts.volume
    now = Sighting(volume=volume).configuration
    before = usd_per_month(now, volume.size_gib, US_EAST_1) if now else 0.0
    base = Plan(order=order, facts=facts, now=now, usd_per_month_now=before, usd_per_month=before)
    wish = order.wish or facts.wishes.target
    if wish.volume_type is None:
        wish = replace(wish, volume_type=policy.flip.target)
    asks_instance = Guard.INSTANCE_IS_BOTTLENECK not in order.overridden
    chosen = choose_target(
        volume,
        replace(order.demand, ahead=order.cause is not Cause.DRAINING or facts.wishes.is_critical),
        wish,
        US_EAST_1,
        instance=facts.instance if asks_instance else None,
        headroom_pct=policy.flip.headroom_pct,
        insist=order.wish is not None,
        unavailable={} if Guard.TYPE_NOT_AVAILABLE in order.overridden else facts.unavailable,
    )
    if isinstance(chosen, TargetRefusal):
        guard = _GUARD_OF.get(chosen.name, Guard.NO_TARGET)
        refusal = Refusal(guard=guard, reason=chosen.sentence.removesuffix("."))
        return replace(base, refusals=(refusal,), way_out=chosen.command)
    return replace(
        base,
        target=chosen.configuration,
        choice=chosen,
        stay=_stay(order, facts, chosen.configuration, chosen, policy),
        usd_per_month=chosen.price.after_usd_per_month,
    )


def _stay(order: Order, facts: Facts, target: Configuration, chosen: Target | None, policy: Policy) -> Stay:
    known, size_gib = facts.state.flip, facts.volume.size_gib
    original = known.original if known else configuration_of(facts.volume)
    if order.return_after_s is not None and not _may_return_by_itself(original, target, size_gib):
        reason = f"returns by burstctl flip-back {order.volume_id} only: {original} costs more"
        return Stay(stays=False, reason=reason)
    if order.return_after_s is not None and policy.mode.highest is not Mode.AUTO:
        reason = (
            f"returns by burstctl flip-back {order.volume_id} only: the policy's mode.highest,"
            f" {policy.mode.highest}, stops every automatic modification"
        )
        return Stay(stays=False, reason=reason)
    if order.return_after_s is not None:
        return Stay(stays=False, reason="returns when the time asked for is over and its load is calm")
    if order.cause is Cause.BY_HAND:
        return Stay(stays=True, reason=f"stays until: burstctl flip-back {order.volume_id}")
    if order.cause is Cause.CRITICAL or facts.wishes.is_critical:
        return Stay(stays=True, reason="stays: it is tagged critical")
    assert chosen is not None
    return stays_after(chosen, policy.flip_back.returns)


def returns_by_itself(plan: Plan) -> bool:
    """Whether the configuration it had is one that the watchdog may return it to, when its time is over."""
    known, now = plan.facts.state.flip, plan.now
    original = known.original if known else now
    is_asked = plan.order.return_after_s is not None and plan.target is not None
    if not is_asked or original is None or plan.target is None:
        return False
    return _may_return_by_itself(original, plan.target, plan.facts.volume.size_gib)


def _plan_back(order: Order, facts: Facts) -> Plan:
    flip, volume = facts.state.flip, facts.volume
    now = Sighting(volume=volume).configuration
    before = usd_per_month(now, volume.size_gib, US_EAST_1) if now else 0.0
    base = Plan(order=order, facts=facts, now=now, usd_per_month_now=before, usd_per_month=before)
    if flip is None or now is None:
        reason = (
            "the ledger knows of no flip to take back; name what it should be: burstctl flip"
            f" {order.volume_id} --to …, or change it in the console"
        )
        return replace(base, refusals=(Refusal(guard=Guard.NO_TARGET, reason=reason),))
    after = usd_per_month(flip.original, volume.size_gib, US_EAST_1)
    if order.by == WATCHDOG and not _may_return_by_itself(flip.original, now, volume.size_gib):
        reason = (
            f"the ledger says that it was {flip.original}, which costs ${after - before:,.2f} a month more"
            " than now, and an automatic return goes to gp2 or costs no more; if that is right: burstctl"
            f" flip-back {order.volume_id}"
        )
        return replace(base, refusals=(Refusal(guard=Guard.NO_TARGET, reason=reason),))
    return replace(base, target=flip.original, usd_per_month=after)


def _may_return_by_itself(original: Configuration, now: Configuration, size_gib: int) -> bool:
    """Whether an automatic return may lead to this original: to gp2, or to what costs no more than now.

    The watchdog flips only gp2. Whatever else a ledger says may be an error, or forged by somebody who can
    write to the ledger but not modify volumes: it must not cost money.
    """
    before, after = (usd_per_month(each, size_gib, US_EAST_1) for each in (now, original))
    return original.volume_type is VolumeType.GP2 or after <= before


def intend(plan: Plan, revision: int, asked_at_s: int) -> tuple[VolumeState, Event]:
    """The state with the intent in it, and the line that says so: this comes before the call.

    ``asked_at_s`` is the time by now, not that of the pass: how long a request may still be under way
    counts from it.
    """
    order, facts = plan.order, plan.facts
    assert plan.target is not None
    assert plan.now is not None
    asked = {
        "phase": Phase.ASKED,
        "direction": order.direction,
        "intent_id": intent_id(order.volume_id, revision),
        "by": order.by,
        "asked_at_s": asked_at_s,
        "started_at_s": None,
        "unseen_since_s": None,
        "stuck_told": False,
    }
    known = facts.state.flip
    if order.direction is Direction.BACK:
        assert known is not None
        flip = replace(known, because=order.because, previous=known, **asked)  # type: ignore[arg-type]
    else:
        original = known.original if known else plan.now
        original_usd = usd_per_month(original, facts.volume.size_gib, US_EAST_1)
        flip = Flip(
            cause=order.cause,
            original=original,
            target=plan.target,
            size_gib=facts.volume.size_gib,
            because=_because(plan),
            stays=plan.stay is not None and plan.stay.stays,
            return_after_s=order.return_after_s,
            usd_per_month=round(plan.usd_per_month - original_usd, 6),
            previous=known,
            **asked,  # type: ignore[arg-type]
        )
    event = Event(
        kind=EntryKind.INTENT,
        summary=f"is to become {plan.target}, asked for by {order.by}",
        details=tuple(filter(None, (order.because, _override_words(plan)))),
        facts={
            "intent_id": flip.intent_id,
            "direction": order.direction,
            "from": configuration_document(plan.now),
            "to": configuration_document(plan.target),
            "by": order.by,
            "overridden": [str(guard) for guard in plan.overridden],
            "why": order.why,
        },
    )
    contested_at_s = facts.state.contested_at_s if order.by == WATCHDOG else None
    return replace(facts.state, revision=revision, flip=flip, contested_at_s=contested_at_s), event


def _because(plan: Plan) -> str:
    stay = f"; it {plan.stay.reason}" if plan.stay else ""
    return f"{plan.order.because}{stay}"


def _override_words(plan: Plan) -> str | None:
    if not plan.overridden:
        return None
    guards = ", ".join(plan.overridden)
    return f"{plan.order.by} overrode {guards}: {plan.order.why or 'no reason given'}"


def accept(
    state: VolumeState,
    modification: Modification,
    now_s: float,
    *,
    lead: LeadPolicy,
    empty_s: float | None = None,
) -> tuple[VolumeState, Event]:
    """AWS took what was asked for; ``empty_s`` is the order's."""
    assert modification.started_at is not None
    after = taken(state, int(modification.started_at.timestamp()), now_s)
    assert after.flip is not None
    return after, accepted_event(after.flip, lead, empty_s=empty_s)


_PASSING: Final = frozenset({Guard.MODIFICATION_IN_PROGRESS, Guard.COOLDOWN, Guard.CHANGE_HOURS, Guard.HELD})
"""A return refused by these comes a little later, or when the person who held it says so."""


def refused_event(plan: Plan, refusal: Refusal) -> Event:
    """A guard said no to what the watchdog wants."""
    order, target, ends_at_s = plan.order, plan.target, refusal.ends_at_s
    is_passing = order.direction is Direction.BACK and refusal.guard in _PASSING
    again = "at every look" if ends_at_s is None else format_when(ends_at_s, plan.facts.now_s, "UTC")
    return Event(
        kind=EntryKind.REFUSED,
        summary=f"is not moved to {target.volume_type if target else 'another type'}: {refusal.guard}",
        details=(
            f"Wanted{f': {target},' if target else ''} because {order.because}.",
            f"Refused: {refusal.reason}.",
            f"The watchdog tries again {again}, while that is wanted.",
        ),
        alert=None if is_passing else AlertKind.FLIP_REFUSED,
        action=plan.way_out or f"burstctl explain {order.volume_id}",
        facts=_plan_facts(plan)
        | failure_facts(refusal.reason, ends_at_s)
        | _guard_facts(refusal.guard, ends_at_s),
    )


def _guard_facts(guard: str, ends_at_s: float | None) -> dict[str, Any]:
    return {"guard": str(guard), "ends_at": None if ends_at_s is None else format_instant(ends_at_s)}


def _plan_facts(plan: Plan) -> dict[str, Any]:
    order, known = plan.order, plan.facts.state.flip
    original = known.original if known else plan.now
    return {
        "intent_id": None,
        "direction": str(order.direction),
        "from": configuration_document(plan.now) if plan.now else None,
        "to": configuration_document(plan.target) if plan.target else None,
        "original": configuration_document(original) if original else None,
        "usd_per_month_more": plan.usd_per_month_more,
        "by": order.by,
        "cause": str(order.cause),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """A type that AWS says does not exist where a volume is; ``command`` flips it to one that does."""

    words: str
    until_s: float
    command: str | None


def lack_of(plan: Plan, now_s: float) -> Lack | None:
    """What to say of a plan whose type does not exist there; None where no place is known."""
    location = location_of(plan.facts.volume)
    if location is None or plan.choice is None or plan.target is None:
        return None
    kind, until_s = plan.target.volume_type, now_s + REMEMBERED_FOR_S
    others = {name: offer for name, offer in plan.choice.alternatives.items() if name not in (kind, "stay")}
    step, command = instead_of(others, plan.facts.volume, US_EAST_1)
    next_at = format_when(until_s, now_s, "UTC")
    words = f"The next attempt is {next_at}: {kind} does not exist in {location}; {step}."
    return Lack(words=words, until_s=until_s, command=command)


def reject(
    state: VolumeState,
    code: str,
    message: str,
    now_s: float,
    *,
    retry_at_s: float | None = None,
    guard: str | None = None,
    lacks: "Lack | None" = None,
) -> tuple[VolumeState, Event]:
    """AWS did not take it, and says why; nothing has changed. ``guard`` would have said the same.

    Where the place ``lacks`` the type, the guard refuses until that is forgotten, and the volume's own
    ``retry_at_s`` does not matter.
    """
    flip = state.flip
    assert flip is not None
    after = backed_off(given_up(state), now_s)
    if retry_at_s is not None:
        after = replace(after, retry_at_s=int(retry_at_s))
    action = ask_again(flip, state.volume_id) if guard is None else f"burstctl explain {state.volume_id}"
    if lacks is not None:
        action, retry_at_s = lacks.command or action, lacks.until_s
    event = Event(
        kind=EntryKind.NOT_DONE,
        summary=f"was not changed to {flip.asked_for.volume_type}: {guard or code}",
        details=(message, *failed_words(flip, after.retry_at_s, now_s, lacks=lacks.words if lacks else None)),
        action=action,
        facts=flip_facts(flip)
        | failure_facts(message, lacks.until_s if lacks else after.retry_at_s, code=code)
        | (_guard_facts(guard, retry_at_s) if guard else {}),
    )
    return after, event


def lose_answer(state: VolumeState, code: str, message: str) -> tuple[VolumeState, Event]:
    """Nobody knows whether AWS took it: that is found out by asking, not by sending again."""
    flip = state.flip
    assert flip is not None
    event = Event(
        kind=EntryKind.UNCLEAR,
        summary=f"was asked to become {flip.asked_for}, and the answer was lost: {code}",
        details=(message, "It is settled by asking AWS what became of it."),
        facts=flip_facts(flip) | {"reason": message, "error_code": code},
    )
    return state, event

"""Reasons not to modify a volume: each has a name, says why, and when it ends."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import LIST_PRICES, Configuration, VolumeType
from burstwatch.core.ebs.sizing import LIMITS
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.flip_state import (
    QUOTA_SPAN_S,
    SAME_START_S,
    WATCHDOG,
    Cause,
    Direction,
    Hold,
    Spent,
    hold_on,
    spent_within,
)
from burstwatch.core.ledger.ledger import VolumeState
from burstwatch.core.policy.policy import Mode, Policy, QuotaRule
from burstwatch.core.policy.volume_tags import Wishes
from burstwatch.core.tag_keys import CRITICAL, IGNORE, IOPS, TARGET, THROUGHPUT
from burstwatch.core.text import format_duration, format_instant

QUOTA: Final = 4
"""Modifications that AWS allows a volume in 24 hours."""

AUTOMATIC_QUOTA: Final = QUOTA - 1
"""The last one is left to people."""

_SIX_HOURS_S: Final = 6 * 3600
_QUOTA_RETRY_S: Final = 3600


class Guard(StrEnum):
    """What can refuse a modification."""

    NOT_OPTED_IN = "not_opted_in"
    MANAGED = "managed"
    SERVICE_OWNED = "service_owned"
    MULTI_ATTACHED = "multi_attached"
    HELD = "held"
    CHANGED_BY_OTHERS = "changed_by_others"
    DETACHED = "detached"
    MODIFICATION_IN_PROGRESS = "modification_in_progress"
    AWS_QUOTA = "aws_quota"
    COOLDOWN = "cooldown"
    CHANGE_HOURS = "change_hours"
    INSTANCE_IS_BOTTLENECK = "instance_is_bottleneck"
    NO_TARGET = "no_target"
    NO_CHANGE_NEEDED = "no_change_needed"
    ACCOUNT_LIMIT = "account_limit"
    FLEET_CAP = "fleet_cap"
    SPEND_CAP = "spend_cap"
    TAG_CAP = "tag_cap"
    TYPE_NOT_AVAILABLE = "type_not_available"


OF_AWS: Final = frozenset(
    {
        Guard.MANAGED,
        Guard.SERVICE_OWNED,
        Guard.MULTI_ATTACHED,
        Guard.MODIFICATION_IN_PROGRESS,
        Guard.AWS_QUOTA,
        Guard.NO_TARGET,
        Guard.ACCOUNT_LIMIT,
    }
)
"""AWS refuses these itself, so nobody can override them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A guard that says no; ``ends_at_s`` is None where nobody can tell when it will say yes."""

    guard: Guard
    reason: str
    ends_at_s: float | None = None

    def __str__(self) -> str:
        until = "" if self.ends_at_s is None else f", until {format_instant(self.ends_at_s)}"
        return f"{self.guard}: {self.reason}{until}"


def guard_page(guard: Guard, runbooks_url: str) -> str:
    """Where people read what a guard means and how to go on: its row on the page of refusals."""
    return f"{runbooks_url.rstrip('/')}/FlipRefused.md#{guard}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A modification somebody wants, with everything known at this moment that speaks against it.

    ``target`` is what the volume would become. ``modification`` is AWS's newest record of the volume, None
    where there is none; ``iops_left`` what the account's quota for the target's type still allows, None where
    that does not matter. ``tags_usd_per_month`` is what its tags add to what would be chosen without.
    """

    volume: Volume
    wishes: Wishes
    state: VolumeState
    direction: Direction
    cause: Cause
    by: str
    target: Configuration
    now: Configuration
    now_s: float
    holds: Sequence[Hold] = ()
    modification: Modification | None = None
    iops_left: int | None = None
    tags_usd_per_month: float = 0.0

    @property
    def is_automatic(self) -> bool:
        return self.by == WATCHDOG

    @property
    def spent(self) -> tuple[Spent, ...]:
        """The modifications of the last 24 h: those of our ledger, and the newest that AWS shows."""
        return all_spent(self.state, self.modification, self.now_s)


def all_spent(state: VolumeState, newest: Modification | None, now_s: float) -> tuple[Spent, ...]:
    """What counts against AWS's quota: our ledger, and the newest modification if it is not in there."""
    known = state.spent
    if newest is not None and newest.started_at is not None:
        start_s = int(newest.started_at.timestamp())
        if all(abs(one.at_s - start_s) > SAME_START_S for one in known):
            known = (*known, Spent(at_s=start_s, by="others"))
    return spent_within(known, now_s)


def quota_retry_at_s(spent: Sequence[Spent], now_s: float) -> float:
    """When to try again after AWS refused for its quota and named no time: in an hour at the latest.

    AWS has counted modifications that are not among those ``spent``, or the guard would have refused before.
    The oldest one known is no older than the oldest that AWS counts, so 24 h after it the next is allowed.
    """
    latest_s = now_s + _QUOTA_RETRY_S
    return min(latest_s, spent[0].at_s + QUOTA_SPAN_S) if spent else latest_s


def leaves_no_return(spent: Sequence[Spent]) -> bool:
    """Whether no automatic modification would be left to come back by, with these used up in 24 h."""
    return len(spent) >= AUTOMATIC_QUOTA - 1


def is_last_of_the_day(attempt: Attempt) -> bool:
    """Whether an automatic modification may from here on only lead out to stay."""
    return attempt.is_automatic and leaves_no_return(attempt.spent)


def refuse(attempt: Attempt, policy: Policy, *, overridden: Collection[Guard] = ()) -> list[Refusal]:
    """Every guard that says no, the most fundamental first; none of those overridden, unless it is AWS's."""
    found = (check(attempt, policy) for check in _CHECKS)
    return [
        refusal
        for refusal in found
        if refusal and (refusal.guard not in overridden or refusal.guard in OF_AWS)
    ]


def _not_opted_in(attempt: Attempt, policy: Policy) -> Refusal | None:
    """An automatic modification needs tag and policy; a person who said for how long has said both."""
    if not attempt.is_automatic:
        return None
    if attempt.wishes.is_ignored:
        return Refusal(guard=Guard.NOT_OPTED_IN, reason=f"it is tagged {IGNORE}: nobody watches it")
    is_stopped = policy.mode.highest is not Mode.AUTO
    if attempt.wishes.mode is Mode.AUTO or (_is_return_by_hand(attempt) and not is_stopped):
        return None
    key, value = policy.mode.opt_in_tag
    reason = (
        f"its mode is {attempt.wishes.mode}: only volumes tagged {key}={value} are modified automatically"
    )
    if is_stopped:
        reason = f"the policy's mode.highest is {policy.mode.highest}, which stops every automatic flip"
    return Refusal(guard=Guard.NOT_OPTED_IN, reason=reason)


def _is_return_by_hand(attempt: Attempt) -> bool:
    return attempt.direction is Direction.BACK and attempt.cause is Cause.BY_HAND


def _not_ours(attempt: Attempt, _: Policy) -> Refusal | None:
    volume = attempt.volume
    if not volume.managed_by:
        return None
    is_service = volume.attached and volume.instance_id is None
    return Refusal(
        guard=Guard.SERVICE_OWNED if is_service else Guard.MANAGED,
        reason=f"it belongs to {volume.managed_by}: change its type there",
    )


def _multi_attached(attempt: Attempt, _: Policy) -> Refusal | None:
    if not attempt.volume.multi_attached:
        return None
    return Refusal(
        guard=Guard.MULTI_ATTACHED,
        reason="it is a Multi-Attach volume, which AWS lets nobody change this way",
    )


def _held(attempt: Attempt, _: Policy) -> Refusal | None:
    hold = hold_on(attempt.holds, attempt.volume.volume_id, attempt.now_s)
    return None if hold is None else refuse_hold(hold)


def refuse_hold(hold: Hold) -> Refusal:
    """The refusal of a volume on hold."""
    what = "everything is" if hold.volume_id is None else "it is"
    return Refusal(
        guard=Guard.HELD, reason=f"{what} on hold by {hold.by}: {hold.reason}", ends_at_s=hold.until_s
    )


def _contested(attempt: Attempt, _: Policy) -> Refusal | None:
    since_s = attempt.state.contested_at_s
    if since_s is None or not attempt.is_automatic:
        return None
    return Refusal(
        guard=Guard.CHANGED_BY_OTHERS,
        reason=f"somebody else changed it after our flip, seen {format_instant(since_s)}; mend their"
        f" configuration, then: burstctl release {attempt.volume.volume_id}",
    )


def _detached(attempt: Attempt, _: Policy) -> Refusal | None:
    return refuse_detached(attempt.volume) if attempt.is_automatic else None


def refuse_detached(volume: Volume) -> Refusal | None:
    """The refusal of a volume that is not attached, or not for much longer; None if it is.

    AWS refuses to attach a volume that is ``modifying``, for minutes, and a modification cannot be cancelled:
    a volume that moves from one instance to another, as in a node drain, would not arrive.
    """
    if volume.attached and not volume.detaching:
        return None
    return Refusal(
        guard=Guard.DETACHED,
        reason=f"it is {'being ' if volume.attached else ''}detached, and AWS refuses to attach a volume that"
        " is being modified",
    )


def _in_progress(attempt: Attempt, _: Policy) -> Refusal | None:
    flip, newest = attempt.state.flip, attempt.modification
    if newest is not None and newest.is_in_progress:
        progress = "" if newest.progress_pct is None else f", {newest.progress_pct} % done"
        return Refusal(
            guard=Guard.MODIFICATION_IN_PROGRESS,
            reason=f"a modification of it is {newest.state}{progress}; it cannot be cancelled",
        )
    if flip is not None and flip.is_under_way:
        return Refusal(
            guard=Guard.MODIFICATION_IN_PROGRESS,
            reason=f"{flip.by} asked for {flip.asked_for} at {format_instant(flip.asked_at_s)},"
            " which is not settled yet",
        )
    return None


def _quota(attempt: Attempt, policy: Policy) -> Refusal | None:
    spent = attempt.spent
    if policy.flip.quota_rule is QuotaRule.SIX_HOURS and spent:
        ends_at_s = spent[-1].at_s + _SIX_HOURS_S
        if attempt.now_s < ends_at_s:
            reason = f"AWS wants six hours between modifications, the last began {_when(spent[-1])}"
            return Refusal(guard=Guard.AWS_QUOTA, reason=reason, ends_at_s=ends_at_s)
    if len(spent) >= QUOTA:
        return _used_up(spent, QUOTA, f"AWS allows {QUOTA} modifications in 24 h, and {len(spent)} are used")
    if not attempt.is_automatic:
        return None
    if len(spent) >= AUTOMATIC_QUOTA:
        reason = (
            f"{len(spent)} of AWS's {QUOTA} modifications in 24 h are used, and the last is left to people"
        )
        return _used_up(spent, AUTOMATIC_QUOTA, reason)
    strands = attempt.direction is Direction.OUT and attempt.target.volume_type is not VolumeType.GP3
    if strands and is_last_of_the_day(attempt):
        reason = (
            f"it would be modification {len(spent) + 1} in 24 h, after which it could not come back from"
            f" {attempt.target.volume_type} in time; only gp3, to stay, is allowed now"
        )
        return _used_up(spent, AUTOMATIC_QUOTA - 1, reason)
    return None


def _used_up(spent: Sequence[Spent], allowed: int, reason: str) -> Refusal:
    """A refusal that ends when fewer than ``allowed`` are younger than 24 h."""
    ends_at_s = spent[len(spent) - allowed].at_s + QUOTA_SPAN_S
    return Refusal(guard=Guard.AWS_QUOTA, reason=reason, ends_at_s=ends_at_s)


def _when(one: Spent) -> str:
    return f"{format_instant(one.at_s)} by {one.by}"


def _cooldown(attempt: Attempt, policy: Policy) -> Refusal | None:
    retry_at_s = attempt.state.retry_at_s
    if attempt.is_automatic and retry_at_s is not None and attempt.now_s < retry_at_s:
        return refuse_pause(attempt.state)
    if attempt.direction is Direction.BACK or not attempt.spent or attempt.state.failures:
        return None  # after a failure the pause above is the one that counts
    last = attempt.spent[-1]
    ends_at_s = last.at_s + policy.flip.cooldown.total_seconds()
    if attempt.now_s >= ends_at_s:
        return None
    span = format_duration(policy.flip.cooldown.total_seconds())
    reason = f"its last modification began {_when(last)}, and the policy waits {span} between two"
    return Refusal(guard=Guard.COOLDOWN, reason=reason, ends_at_s=ends_at_s)


def refuse_pause(state: VolumeState) -> Refusal:
    """The refusal of a volume whose last attempt failed a short while ago."""
    reason = f"the last attempt failed ({state.failures} in a row)"
    return Refusal(guard=Guard.COOLDOWN, reason=reason, ends_at_s=state.retry_at_s)


def is_pause_after_failure(state: VolumeState, refusal: Refusal) -> bool:
    """Whether a refusal only repeats what was told when an attempt failed: when the next one is made."""
    return refusal.guard is Guard.COOLDOWN and bool(state.failures) and refusal.ends_at_s == state.retry_at_s


def _change_hours(attempt: Attempt, policy: Policy) -> Refusal | None:
    """Windows and people have chosen their hours themselves."""
    hours = policy.flip.change_hours
    if hours is None or not attempt.is_automatic or attempt.cause in (Cause.WINDOW, Cause.BY_HAND):
        return None
    now = datetime.fromtimestamp(attempt.now_s, UTC)
    if hours.allows(now):
        return None
    return Refusal(
        guard=Guard.CHANGE_HOURS,
        reason=f"the policy's change hours are {hours}",
        ends_at_s=hours.opens_at(now).timestamp(),
    )


def _no_change(attempt: Attempt, _: Policy) -> Refusal | None:
    if attempt.now != attempt.target:
        return None
    return Refusal(
        guard=Guard.NO_CHANGE_NEEDED,
        reason=f"it is {attempt.now} already, and asking for the same would use up one of AWS's {QUOTA}"
        " modifications in 24 h",
    )


def _account_limit(attempt: Attempt, policy: Policy) -> Refusal | None:
    kind = attempt.target.volume_type
    if attempt.iops_left is None or kind not in LIMITS or (attempt.target.iops or 0) <= attempt.iops_left:
        return None
    limit = policy.flip.io1_iops_limit if kind is VolumeType.IO1 else policy.flip.io2_iops_limit
    return Refusal(
        guard=Guard.ACCOUNT_LIMIT,
        reason=f"it wants {attempt.target.iops:,} IOPS of {kind}, and of the account's {limit:,} in this"
        f" region {max(0, attempt.iops_left):,} are left; raise the quota, then flip.{kind}_iops_limit in the"
        " policy",
    )


def _tag_cap(attempt: Attempt, policy: Policy) -> Refusal | None:
    """Whoever may tag a volume may spend this much by it; people spend by ``burstctl flip``."""
    cap_usd, added_usd = policy.flip.tag_cap_usd, attempt.tags_usd_per_month
    if not attempt.is_automatic or added_usd <= cap_usd:
        return None
    wish = attempt.wishes.target
    tags = {TARGET: wish.volume_type, IOPS: wish.iops, THROUGHPUT: wish.throughput_mib_s}
    asked = [f"{key}={value}" for key, value in tags.items() if value is not None]
    asked += [f"{CRITICAL}=true"] if attempt.cause is Cause.CRITICAL else []
    return Refusal(
        guard=Guard.TAG_CAP,
        reason=f"its tags {', '.join(asked)} would add ${added_usd:,.2f} a month ({attempt.target}), and the"
        f" policy's flip.tag_cap_usd_per_month is ${cap_usd:,.2f}, at {LIST_PRICES}; ask for less in the"
        f" tags, raise it in the policy, or: burstctl flip {attempt.volume.volume_id}",
    )


_CHECKS: Final[tuple[Callable[[Attempt, Policy], Refusal | None], ...]] = (
    _not_opted_in,
    _not_ours,
    _multi_attached,
    _held,
    _contested,
    _detached,
    _in_progress,
    _quota,
    _cooldown,
    _change_hours,
    _no_change,
    _account_limit,
    _tag_cap,
)

"""An order and its plan: what somebody wants, what is known of the volume, and what would be changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from burstwatch.core.ebs.demand import Demand
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.modification import Modification
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.sizing import ReturnDecision, Target, TargetOverride
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.refusal import Guard, Refusal
from burstwatch.core.ledger.flip_state import (
    EXTERNAL,
    SAME_START_TOLERANCE_S,
    WATCHDOG,
    Direction,
    FlipCause,
    Hold,
    ModificationUse,
    modifications_within,
)
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.volume_tags import VolumeSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipOrder:
    """A modification that the watchdog or a person wants.

    A person may name the target (``override``), override guards for a reason (``override_reason``), and set
    the end (``return_after_s``, in seconds since 1970). If ``is_extension``, the volume is on its target
    already: the order never modifies it. If ``is_early``, the drain is not yet critical. Orders are carried
    out from the lowest ``urgency`` to the highest. ``time_to_empty_s`` is in seconds; None if the volume does
    not drain, or if that is not known. A hold of the volume with the reason ``own_hold_reason`` was placed by
    who orders this, and does not stop it.
    """

    volume_id: str
    direction: Direction
    cause: FlipCause
    reason: str
    by: str = WATCHDOG
    override: TargetOverride | None = None
    demand: Demand = field(default_factory=Demand)
    return_after_s: int | None = None
    overridden: frozenset[Guard] = frozenset()
    override_reason: str | None = None
    is_extension: bool = False
    is_early: bool = False
    urgency: tuple[float | str, ...] = (inf,)
    time_to_empty_s: float | None = None
    own_hold_reason: str | None = None

    @property
    def is_automatic(self) -> bool:
        """Whether the watchdog wants it, and no person."""
        return self.by == WATCHDOG


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipContext:
    """Everything that is read again for one order, immediately before it is checked.

    ``modification`` is AWS's newest record of the volume, None if it has no record. ``iops_left`` is what the
    account's quota for the target's type still allows, None if it does not matter. ``unavailable`` has the
    types that do not exist where the volume is, each with the reason. ``instance`` is None if its type has no
    known limits, or if they could not be read: ``instance_unread`` is why.
    """

    volume: Volume
    volume_settings: VolumeSettings
    state: ResourceState
    now_s: float
    holds: Sequence[Hold] = ()
    modification: Modification | None = None
    instance: InstanceLimits | None = None
    instance_unread: str | None = None
    iops_left: int | None = None
    unavailable: Mapping[VolumeType, str] = field(default_factory=dict)

    @property
    def used_modifications(self) -> tuple[ModificationUse, ...]:
        """The modifications of the last 24 h: those of our ledger, and the newest that AWS shows."""
        return modifications_used(self.state, self.modification, self.now_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipPlan:
    """What an order results in now; with any of ``refusals`` it is not carried out.

    ``target`` is what the volume would become, None if there is nothing that it could become. ``sizing`` has
    the alternatives to it. The costs are in dollars a month; ``tags_usd_per_month`` is what the volume's tags
    add to what would be chosen without them. If ``is_extension``, the volume is on this target already: only
    the ledger changes, and nothing is requested from AWS. ``alternative_command`` flips the volume to a type
    that exists where it is.
    """

    order: FlipOrder
    context: FlipContext
    current: Configuration | None
    target: Configuration | None = None
    sizing: Target | None = None
    return_decision: ReturnDecision | None = None
    usd_per_month_now: float = 0.0
    usd_per_month: float = 0.0
    tags_usd_per_month: float = 0.0
    refusals: tuple[Refusal, ...] = ()
    overridden: tuple[Guard, ...] = ()
    is_extension: bool = False
    alternative_command: str | None = None

    @property
    def refusal(self) -> Refusal | None:
        """The most fundamental refusal, None if no guard refuses."""
        return self.refusals[0] if self.refusals else None

    @property
    def usd_per_month_more(self) -> float:
        """What it costs more than now, in dollars a month; negative if it saves."""
        return round(self.usd_per_month - self.usd_per_month_now, 6)


def modifications_used(
    state: ResourceState, newest: Modification | None, now_s: float
) -> tuple[ModificationUse, ...]:
    """What counts against AWS's quota: our ledger, and the newest modification if it is not in there."""
    modifications = state.modifications.used
    if newest is not None and newest.started_at is not None:
        started_at_s = int(newest.started_at.timestamp())
        if all(
            abs(modification.at_s - started_at_s) > SAME_START_TOLERANCE_S for modification in modifications
        ):
            modifications = (*modifications, ModificationUse(at_s=started_at_s, by=EXTERNAL))
    return modifications_within(modifications, now_s)

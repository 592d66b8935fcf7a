"""What is read again before a flip: minutes may have passed since the decision that it is needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final

from burstwatch.adapters.aws.errors import AwsError, AwsFailure
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.flips.flip_plan import FlipContext, FlipOrder, FlipPlan
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.flips.planning import make_plan
from burstwatch.core.ledger.flip_state import Direction
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.volume_tags import read_tags
from burstwatch.engine.collector import Collector
from burstwatch.engine.services import Services

UNREAD_CODE: Final = "unread"

_MAX_AGE_S: Final = 5.0
"""Volumes read longer ago are read again before one of them is modified: people detach and tag them."""

_QUOTA_LIMITED_TYPES: Final = (VolumeType.IO1, VolumeType.IO2)
"""The types whose provisioned IOPS count against a quota of the account; gp3 has none."""


@dataclass(slots=True)
class FreshContext:
    """What was read again for a batch of orders."""

    services: Services
    collector: Collector
    now_s: float
    missing: frozenset[str]
    contexts: dict[str, FlipContext]
    unread_instances: Mapping[str, AwsFailure]
    iops_used: dict[VolumeType, int | None] = field(default_factory=dict)
    read_at_s: float = 0.0

    def outcome_if_unavailable(self, order: FlipOrder) -> Outcome | None:
        """The outcome of an order for a volume that is gone or could not be read; None for the others.

        An order of the watchdog also fails if its instance could not be read for a passing reason.
        """
        volume_id = order.volume_id
        if volume_id not in self.contexts:
            return not_found_outcome() if volume_id in self.missing else unread_outcome()
        failure = self.unread_instances.get(volume_id)
        if failure is None or not failure.is_transient or not order.is_automatic:
            return None
        return unread_outcome(failure.problem.cause)

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
        """Read the newest state of a volume from the ledger."""
        states = self.services.ledger.states_of({volume_id})
        if volume_id not in states.unreadable:
            state = states.get(volume_id) or empty_state(volume_id)
            self.contexts[volume_id] = replace(self.contexts[volume_id], state=state)

    def _iops_used(self, volume_type: VolumeType) -> int | None:
        if volume_type not in self.iops_used:
            try:
                self.iops_used[volume_type] = self.services.ec2.provisioned_iops(volume_type)
            except AwsError as error:
                self.collector.failures.append(error.problem)
                self.iops_used[volume_type] = None
        return self.iops_used[volume_type]


def read_fresh_context(services: Services, orders: Sequence[FlipOrder], collector: Collector) -> FreshContext:
    """Read the volumes of these orders, and what a guard may ask of them, in as few calls as for one."""
    ids, read_at_s = {order.volume_id for order in orders}, monotonic()
    described, missing = collector.volumes_by_id(ids)
    volumes = {volume.volume_id: volume for volume in described}
    flipping_volumes = [
        volumes[o.volume_id] for o in orders if o.direction is Direction.FLIP and o.volume_id in volumes
    ]
    modifications, unread_modifications = collector.modifications(volumes)
    limits, unread_instances = collector.instance_limits(flipping_volumes)
    states = services.ledger.states_of(ids)
    collector.failures += map(str, states.unreadable.values())
    unread = unread_modifications | states.unreadable.keys()
    holds = services.ledger.holds(collector.now_s)
    unavailable = services.unavailable_types(flipping_volumes, collector.now_s)
    contexts = {
        volume_id: FlipContext(
            volume=volume,
            volume_settings=read_tags(volume.tags, services.policy.mode),
            state=states.get(volume_id) or empty_state(volume_id),
            now_s=collector.now_s,
            holds=holds,
            modification=modifications.get(volume_id),
            instance=limits.get(volume_id),
            instance_unread=str(unread_instances[volume_id]) if volume_id in unread_instances else None,
            unavailable=unavailable.get(volume_id, {}),
        )
        for volume_id, volume in volumes.items()
        if volume_id not in unread
    }
    return FreshContext(
        services,
        collector,
        collector.now_s,
        frozenset(missing),
        contexts,
        unread_instances,
        read_at_s=read_at_s,
    )


def empty_state(volume_id: str) -> ResourceState:
    """The state of a volume of which the ledger knows nothing."""
    return ResourceState(volume_id=volume_id, revision=0)


def not_found_outcome() -> Outcome:
    """The outcome of an order for a volume that AWS does not know."""
    reason = "it does not exist (anymore)"
    return Outcome(status=OutcomeStatus.FAILED, reason=reason, error_code="InvalidVolume.NotFound")


def unread_outcome(cause: str | None = None) -> Outcome:
    """The outcome of an order for a volume about which AWS did not answer everything that must be known."""
    reason = f"it could not be read, so it was not touched{f': {cause}' if cause else ''}"
    return Outcome(status=OutcomeStatus.FAILED, reason=reason, error_code=UNREAD_CODE)

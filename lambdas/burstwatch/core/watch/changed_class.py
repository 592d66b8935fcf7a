"""A database that has another instance class: the buckets of its class are those of another host.

RDS does not show when it last started an instance, so the class is compared with the one remembered.
"""

from dataclasses import replace

from burstwatch.core.assessment.resource import AdvisedResource
from burstwatch.core.assessment.resource_buckets import class_behind
from burstwatch.core.buckets.bucket import BucketKind
from burstwatch.core.ledger.resource_state import ResourceState


def forget_other_class(
    state: ResourceState, resource: AdvisedResource, kind: BucketKind, now_s: float
) -> ResourceState:
    """The state without the balance of another class, if it was another one when it was last seen."""
    instance_class = class_behind(resource, kind)
    if instance_class is None or state.instance_class in (None, instance_class):
        return state
    reading = replace(state.reading, balance_pct=None, balance_at_s=None)
    return replace(state, reading=reading, instance_class=instance_class, class_since_s=int(now_s))

"""What is read of a resource in trouble besides the balance of its bucket, and what follows from it.

Each kind that the watchdog never changes has an ``Evidence``: the engine knows no more about the kinds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from burstwatch.core.assessment.assess import Assessment
from burstwatch.core.assessment.drain_cause import DrainMetrics
from burstwatch.core.buckets.bucket import BucketKind
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.flips.recommendation import Recommendation
from burstwatch.core.instances.instance import Instance
from burstwatch.core.instances.instance_buckets import INSTANCE_IO, INSTANCE_THROUGHPUT
from burstwatch.core.instances.instance_metrics import InstanceMetrics, highest_load
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.core.watch.advice import LESS_IO_OR_OTHER_TYPE, advise_instance
from burstwatch.core.watch.witness import describe_instance_witness


class Evidence(Protocol):
    """What was read of one resource in trouble."""

    def load_of(self, kind: BucketKind) -> Series | None:
        """The sums of what the bucket counts, by its periods; None if its capacity is documented."""
        ...

    def drain_metrics(self, kind: BucketKind) -> DrainMetrics | None:
        """The operations that drained the bucket; None if they do not explain it."""
        ...

    def advise(self, assessment: Assessment, location: AwsLocation) -> Recommendation | None:
        """What people can do about the bucket; None if nothing is known."""
        ...

    def witness(self, assessment: Assessment, *, wanted_lead: timedelta, policy: Policy) -> dict[str, Any]:
        """The evidence beside the balance, as JSON: numbers, and ``witness`` sentences."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceEvidence:
    """The load and the checks of an instance; ``family`` has the limits of the types that it could have."""

    instance: Instance
    metrics: InstanceMetrics
    family: Mapping[str, InstanceLimits] = field(default_factory=dict)

    def load_of(self, kind: BucketKind) -> Series:
        return self.metrics.load_of(kind)

    def drain_metrics(self, _kind: BucketKind) -> DrainMetrics:
        return DrainMetrics(
            read_ops=self.metrics.read_ops,
            write_ops=self.metrics.write_ops,
            read_bytes=self.metrics.read_bytes,
            write_bytes=self.metrics.write_bytes,
        )

    def advise(self, assessment: Assessment, location: AwsLocation) -> Recommendation | None:
        if self.instance.limits is None:
            its_type = self.instance.instance_type
            unknown = f"EC2 shows no EBS limits of {its_type}, so which type sustains its load is not known"
            return Recommendation(action=LESS_IO_OR_OTHER_TYPE, reasons=(unknown,))
        load = highest_load(self.metrics.load_of(INSTANCE_IO), self.metrics.load_of(INSTANCE_THROUGHPUT))
        return advise_instance(assessment, self.instance, self.instance.limits, load, self.family, location)

    def witness(self, assessment: Assessment, *, wanted_lead: timedelta, policy: Policy) -> dict[str, Any]:
        exceeded = self.metrics.exceeded(assessment.kind)
        return describe_instance_witness(assessment, exceeded, wanted_lead=wanted_lead, policy=policy)

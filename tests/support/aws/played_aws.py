"""EC2 and CloudWatch of one region, whose balances are functions of the time."""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.cloudwatch import MetricsResult
from burstwatch.adapters.aws.ec2 import (
    EbsLimitsResult,
    InstancesResult,
    InstanceStates,
    ModificationsResult,
    VolumesResult,
)
from burstwatch.adapters.aws.errors import AwsError, AwsFailure, FailureKind
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.location import AwsLocation
from burstwatch.engine.services import Services
from support.builders.core_values import M5_LARGE, a_volume, an_instance

START_S = int(datetime(2026, 11, 20, 18, 0, tzinfo=UTC).timestamp())


LAG_S = 420


DENIED = AwsFailure(
    kind=FailureKind.REFUSED,
    code="UnauthorizedOperation",
    message="denied",
    next_step="grant it",
    action="ec2:DescribeInstanceTypes",
)


FAMILY = {
    "m5.large": M5_LARGE,
    "m5.xlarge": InstanceLimits(
        baseline_iops=6_000, max_iops=18_750, baseline_throughput_mib_s=137, max_throughput_mib_s=566
    ),
    "m5.2xlarge": InstanceLimits(
        baseline_iops=12_000, max_iops=18_750, baseline_throughput_mib_s=274, max_throughput_mib_s=566
    ),
}


@dataclass
class PlayedAws:
    """EC2 and CloudWatch of one region; balances are functions of the time, in per cent."""

    now_s: int = START_S
    instances: list = field(default_factory=list)
    volumes_of_region: list = field(default_factory=list)
    balances: dict = field(default_factory=dict)
    sums: dict = field(default_factory=dict)
    limits: dict = field(default_factory=lambda: dict(FAMILY))
    types_error: AwsFailure | None = None
    listing_error: AwsFailure | None = None
    unread_metrics: set = field(default_factory=set)
    read_metrics: Counter = field(default_factory=Counter)
    volume_filters: list = field(default_factory=list)

    def add(self, instance_id="i-0a1", volumes=2, **facts):
        """An m5.large with N default gp3 volumes: two can drain its I/O bucket."""
        ids = tuple(f"vol-{instance_id[2:]}{number:02x}" for number in range(volumes))
        self.volumes_of_region += [
            a_volume(volume_id=i, volume_type="gp3", provisioned_iops=3_000, throughput_mib_s=125)
            for i in ids
        ]
        facts = {"instance_id": instance_id, "volume_ids": ids, "limits": None, "ceilings": None} | facts
        self.instances.append(an_instance(**facts))

    def volumes(self, filters, *, report_failure, on_page):
        self.volume_filters.append(filters)
        types = filters.get("volume-type")
        return (v for v in self.volumes_of_region if types is None or v.volume_type in types)

    def volumes_by_id(self, volume_ids):
        wanted = set(volume_ids)
        return VolumesResult(volumes=[v for v in self.volumes_of_region if v.volume_id in wanted])

    def modifications_in_progress(self, *, report_failure):
        return iter(())

    def modifications_by_id(self, volume_ids):
        return ModificationsResult()

    def instance_states(self, instance_ids):
        return InstanceStates(
            states=dict.fromkeys(instance_ids, "running"),
            types={i.instance_id: i.instance_type for i in self.instances if i.instance_id in instance_ids},
            volume_ids={
                instance_id: [v.volume_id for v in self.volumes_of_region if v.instance_id == instance_id]
                for instance_id in instance_ids
            },
        )

    def running_instances(self, *, report_failure, on_page):
        if self.listing_error is not None:
            raise AwsError(self.listing_error)
        return (instance for instance in self.instances if instance.state == "running")

    def instances_by_id(self, instance_ids):
        wanted = set(instance_ids)
        known = [instance for instance in self.instances if instance.instance_id in wanted]
        return InstancesResult(
            instances=known, missing=sorted(wanted - {instance.instance_id for instance in known})
        )

    def ebs_limits(self, instance_types):
        if self.types_error is not None:
            return EbsLimitsResult(unread=dict.fromkeys(instance_types, self.types_error))
        return EbsLimitsResult(limits={t: self.limits[t] for t in instance_types if t in self.limits})

    def family_limits(self, instance_type):
        return self.limits

    def read(self, queries, start_s, end_s, *, on_batch=None):
        queries = list(queries)
        self.read_metrics.update(query.metric for query in queries)
        failure = replace(DENIED, action="cloudwatch:GetMetricData")
        unread = {query: failure for query in queries if query.metric in self.unread_metrics}
        return MetricsResult(
            series={query: self._series(query, start_s) for query in queries if query not in unread},
            unread=unread,
        )

    def _series(self, query, start_s):
        play = self.balances.get((query.resource_id, query.metric)) or self.sums.get(query.metric)
        if play is None:
            return Series(period_s=query.period_s)
        newest_s = (self.now_s - LAG_S) // query.period_s * query.period_s
        first_s = -(-int(start_s) // query.period_s) * query.period_s
        starts = range(first_s, newest_s + 1, query.period_s)
        pairs = ((start, play(start + query.period_s)) for start in starts)
        return Series.from_pairs(((s, value) for s, value in pairs if value is not None), query.period_s)


def make_services(aws, ledger, recorder, policy):
    return Services(
        ec2=aws, cloudwatch=aws, ledger=ledger, calls=CallCounter(), policy=policy,
        location=AwsLocation(region="us-east-1", account="123456789012"), channels=[recorder],
    )  # fmt: skip

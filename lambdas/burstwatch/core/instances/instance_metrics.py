"""What CloudWatch has about an instance in trouble."""

from dataclasses import dataclass, fields
from typing import Final

from burstwatch.core.buckets.bucket import BucketKind
from burstwatch.core.buckets.series import PERIOD_S, Series, sum_of
from burstwatch.core.buckets.units import MIB
from burstwatch.core.durations import DAY_S
from burstwatch.core.instances.instance_buckets import INSTANCE_IO
from burstwatch.core.instances.larger_type import InstanceLoad
from burstwatch.core.metric_spec import MetricSpec

_PERIOD_S: Final = INSTANCE_IO.period_s

INSTANCE_SPAN_S: Final = DAY_S + 3 * _PERIOD_S
"""A day before the newest datapoint: it shows what was served before the credits were empty."""
INSTANCE_METRICS: Final = {
    "read_ops": MetricSpec("EBSReadOps", "Sum", _PERIOD_S),
    "write_ops": MetricSpec("EBSWriteOps", "Sum", _PERIOD_S),
    "read_bytes": MetricSpec("EBSReadBytes", "Sum", _PERIOD_S),
    "write_bytes": MetricSpec("EBSWriteBytes", "Sum", _PERIOD_S),
    "iops_exceeded": MetricSpec("InstanceEBSIOPSExceededCheck", "Maximum", PERIOD_S),
    "throughput_exceeded": MetricSpec("InstanceEBSThroughputExceededCheck", "Maximum", PERIOD_S),
}
"""What is read of an instance in trouble. The checks come by the minute, also without detailed monitoring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceMetrics:
    """Sums of operations and bytes by five minutes, and the two checks by the minute (0 or 1).

    A check is 1 if the instance exceeded its limit in the minute. Source: the EC2 user guide, "CloudWatch
    metrics that are available for your instances".
    """

    read_ops: Series = Series()
    write_ops: Series = Series()
    read_bytes: Series = Series()
    write_bytes: Series = Series()
    iops_exceeded: Series = Series()
    throughput_exceeded: Series = Series()

    def load_of(self, kind: BucketKind) -> Series:
        """The sums of what the bucket counts: operations or MiB."""
        if kind is INSTANCE_IO:
            return sum_of(self.read_ops, self.write_ops)
        total = sum_of(self.read_bytes, self.write_bytes)
        return Series(total.starts_at_s, tuple(value / MIB for value in total.values), total.period_s)

    def since(self, at_s: float) -> "InstanceMetrics":
        """Without what is older, such as that of another type, before the instance was launched."""
        names = [field.name for field in fields(self)]
        return InstanceMetrics(**{name: getattr(self, name).since(at_s) for name in names})

    def exceeded(self, kind: BucketKind) -> Series:
        """The check that belongs to the bucket."""
        return self.iops_exceeded if kind is INSTANCE_IO else self.throughput_exceeded


def highest_load(io_load: Series, throughput_load: Series) -> InstanceLoad:
    """The busiest period of each, as a rate."""
    return InstanceLoad(
        iops=max(io_load.values) / io_load.period_s if io_load else None,
        mib_s=max(throughput_load.values) / throughput_load.period_s if throughput_load else None,
    )

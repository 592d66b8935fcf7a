"""EBSReadOps and its three siblings of the lab's instances, as a recording; CloudWatch shows it as EC2's."""

from collections.abc import Callable
from typing import Any

from burstlab.fake_aws.cloudwatch import api as cloudwatch
from burstlab.fake_aws.cloudwatch.instance_metrics import read_instance_datapoints
from burstlab.fake_aws.cloudwatch.volume_metrics import Datapoints

PERIOD_S = 300
METRICS = ("EBSReadOps", "EBSWriteOps", "EBSReadBytes", "EBSWriteBytes")
KIB = 1024


def publish_load(
    monkeypatch: Any,
    rate_at: Callable[[int], float | None],
    *,
    operation_kib: float = 16,
    without: dict[str, set[int]] | None = None,
) -> None:
    """Let each instance serve ``rate_at(start_s)`` operations a second, half of them reads.

    None is a hole.
    """
    missing = without or {}

    def datapoints(instance: Any, metric: str, statistic: str, **span: Any) -> Datapoints:
        if metric not in METRICS:
            return read_instance_datapoints(instance, metric, statistic, **span)
        assert statistic == "Sum"
        period_s = span["period_s"]
        factor = period_s / 2 * (operation_kib * KIB if metric.endswith("Bytes") else 1)
        starts_s = range(-(-span["from_s"] // period_s) * period_s, span["to_s"], period_s)
        rates = {
            start_s: rate
            for start_s in starts_s
            if start_s not in missing.get(metric, ()) and (rate := rate_at(start_s)) is not None
        }
        return Datapoints(list(rates), [rate * factor for rate in rates.values()])

    monkeypatch.setattr(cloudwatch, "read_instance_datapoints", datapoints)

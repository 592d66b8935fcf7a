"""The lab's AWS in this process, which may be unreadable, stale or incomplete."""

from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ReadTimeoutError

from burstlab.fake_aws.in_process_clients import (
    InProcessCloudWatch,
    InProcessEc2,
    client_error,
    volume_document,
)
from burstlab.model.fleet import LabFleet
from burstwatch.adapters.aws.cloudwatch import MetricsResult
from burstwatch.adapters.aws.errors import to_aws_failure

FAULTS: Mapping[str, tuple[Callable[[str], Exception], bool]] = {
    "lost before": (lambda _: ReadTimeoutError(endpoint_url="http://ec2"), False),
    "lost after": (lambda _: ReadTimeoutError(endpoint_url="http://ec2"), True),
    "broken before": (lambda op: client_error("InternalError", "oh", 500, op), False),
    "broken after": (lambda op: client_error("InternalError", "oh", 500, op), True),
    "throttled": (lambda op: client_error("RequestLimitExceeded", "slow down", 503, op), False),
    "forbidden": (lambda op: client_error("UnauthorizedOperation", "You are not authorized", 403, op), False),
}
"""What may become of a ModifyVolume, and whether AWS has done by then what was requested."""


class FaultyEc2(InProcessEc2):
    """The lab's EC2, which may be unreadable, stale or incomplete, and fails modifications as set."""

    def __init__(self, fleet: LabFleet) -> None:
        super().__init__(fleet)
        self.unreadable: set[str] = set()
        self.stale: dict[str, dict[str, Any]] = {}
        self.left_out: set[str] = set()
        self.fault: str | None = None

    def describe_volumes(self, VolumeIds=(), Filters=(), **rest):  # noqa: N803 - AWS's names
        self._fail("describe_volumes")
        if missing := [item for item in VolumeIds if item in self.left_out]:
            raise client_error("InvalidVolume.NotFound", f"no {missing[0]}", 400, "DescribeVolumes")
        result = super().describe_volumes(VolumeIds=VolumeIds, Filters=Filters, **rest)["Volumes"]
        types = {name for item in Filters if item["Name"] == "volume-type" for name in item["Values"]}
        reported = [item | self.stale.get(item["VolumeId"], {}) for item in result]
        stale_only = [
            self._stale(item) for item in self.stale if self._is_requested(item, VolumeIds, Filters, reported)
        ]
        return {
            "Volumes": [
                item
                for item in (*reported, *stale_only)
                if item["VolumeId"] not in self.left_out and (not types or item["VolumeType"] in types)
            ]
        }

    def describe_volumes_modifications(self, Filters=(), **rest):  # noqa: N803
        self._fail("describe_volumes_modifications")
        return super().describe_volumes_modifications(Filters=Filters, **rest)

    def modify_volume(self, **request):
        fault = FAULTS[self.fault] if self.fault else None
        if fault and not fault[1]:
            raise fault[0]("ModifyVolume")
        answer = super().modify_volume(**request)
        if fault:
            raise fault[0]("ModifyVolume")
        return answer

    def _stale(self, volume_id: str) -> dict[str, Any]:
        return volume_document(self._fleet.find(volume_id)) | self.stale[volume_id]

    def _is_requested(self, volume_id, volume_ids, filters, reported) -> bool:
        """Whether a volume that its present type hides is queried by its earlier type."""
        by_type = not volume_ids and all(item["Name"] == "volume-type" for item in filters)
        is_reported = any(item["VolumeId"] == volume_id for item in reported)
        return by_type and not is_reported and volume_id in self._fleet

    def _fail(self, operation: str) -> None:
        if operation in self.unreadable:
            raise client_error("RequestLimitExceeded", "slow down", 503, operation)


class FaultyCloudWatch(InProcessCloudWatch):
    """The lab's CloudWatch, which may be unreadable."""

    is_unreadable = False

    def read(self, queries, start_s, end_s, *, on_batch=None) -> MetricsResult:
        if self.is_unreadable:
            failure = to_aws_failure(client_error("Throttling", "slow down", 400, "GetMetricData"))
            return MetricsResult(unread=dict.fromkeys(queries, failure))
        return super().read(queries, start_s, end_s)

"""AWS's clients in front of a lab in the same process: the watchdog's own readers, without a wire between.

Calls are plain function calls instead of HTTP, so that weeks of one-minute ticks take minutes. Only the calls
of the watchdog are supported.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from burstlab.fake_aws.metrics import read_datapoints
from burstlab.model.aws_error import AwsError
from burstlab.model.fleet import LabFleet
from burstlab.model.modification import Modification, ModifyRequest, VolumeSpec
from burstlab.model.simulated_volume import SimulatedVolume
from burstwatch.adapters.aws.cloudwatch import MetricQuery, MetricsResult
from burstwatch.core.buckets.series import PERIOD_S, Series


def client_error(code: str, message: str, status: int, operation: str) -> ClientError:
    """An error as botocore raises it."""
    response: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "RequestId": "1", "HTTPHeaders": {}},
    }
    return ClientError(response, operation)


class InProcessEc2:
    """boto3's EC2 client, as far as the watchdog uses it."""

    def __init__(self, fleet: LabFleet) -> None:
        self._fleet = fleet

    def describe_volumes(
        self,
        VolumeIds: Sequence[str] = (),  # noqa: N803 - AWS's names
        Filters: Sequence[Mapping[str, Any]] = (),  # noqa: N803
        **_: object,
    ) -> dict[str, Any]:
        self._fleet.changes_in_progress()
        values_by_filter = {entry["Name"]: entry["Values"] for entry in Filters}
        if missing := [entry for entry in VolumeIds if entry not in self._fleet]:
            raise client_error("InvalidVolume.NotFound", f"no {missing[0]}", 400, "DescribeVolumes")
        types = values_by_filter.get("volume-type")
        volumes = (
            volume_document(volume)
            for volume in self._find_volumes(VolumeIds or values_by_filter.get("volume-id"))
        )
        return {"Volumes": [entry for entry in volumes if types is None or entry["VolumeType"] in types]}

    def describe_volumes_modifications(
        self,
        Filters: Sequence[Mapping[str, Any]] = (),  # noqa: N803
        **_: object,
    ) -> dict[str, Any]:
        self._fleet.changes_in_progress()
        values_by_filter = {entry["Name"]: entry["Values"] for entry in Filters}
        states = values_by_filter.get("modification-state")
        modifications = [
            modification_document(volume.volume_id, record)
            for volume in self._find_volumes(values_by_filter.get("volume-id"))
            if (record := volume.modification) is not None
        ]
        return {
            "VolumesModifications": [
                entry for entry in modifications if not states or entry["ModificationState"] in states
            ]
        }

    def describe_instances(self, InstanceIds: Sequence[str] = (), **_: object) -> dict[str, Any]:  # noqa: N803
        return {
            "Reservations": [
                {"Instances": [self._instance_document(instance_id)]} for instance_id in InstanceIds
            ]
        }

    def _instance_document(self, instance_id: str) -> dict[str, Any]:
        instance = self._fleet.instances.get(instance_id)
        state = instance.state if instance else "running"
        return {"InstanceId": instance_id, "State": {"Name": state}, "InstanceType": "t2.micro"}

    def describe_instance_types(self, **_: object) -> dict[str, Any]:
        return {"InstanceTypes": []}

    def modify_volume(
        self,
        VolumeId: str,  # noqa: N803
        VolumeType: str,  # noqa: N803
        Iops: int | None = None,  # noqa: N803
        Throughput: int | None = None,  # noqa: N803
    ) -> dict[str, Any]:
        try:
            request = ModifyRequest(volume_type=VolumeType, iops=Iops, throughput_mib_s=Throughput)
            if VolumeId not in self._fleet:
                raise AwsError("InvalidVolume.NotFound", "no such volume")  # noqa: TRY301 - reported as the rest is
            modification = self._fleet.modify(VolumeId, request)
        except AwsError as error:
            raise client_error(error.code, error.message, error.status, "ModifyVolume") from error
        return {"VolumeModification": modification_document(VolumeId, modification)}

    def _find_volumes(self, volume_ids: Iterable[str] | None) -> Iterable[SimulatedVolume]:
        if volume_ids is None:
            return self._fleet
        return [volume for volume_id in volume_ids if (volume := self._fleet.get(volume_id)) is not None]


class InProcessCloudWatch:
    """The watchdog's reader of metrics.

    ``billed_metrics`` counts what AWS would bill, by the subject's id.
    """

    def __init__(self, fleet: LabFleet) -> None:
        self._fleet = fleet
        self.billed_metrics: Counter[str] = Counter()

    def read(
        self,
        queries: Sequence[MetricQuery],
        start_s: float,
        end_s: float,
        *,
        on_batch: Callable[[], None] = lambda: None,
    ) -> MetricsResult:
        self.billed_metrics.update(query.resource_id for query in queries)
        on_batch()
        return MetricsResult(series={query: self._series(query, start_s, end_s) for query in queries})

    def _series(self, query: MetricQuery, start_s: float, end_s: float) -> Series:
        starts_s, values = read_points(
            self._fleet,
            query.resource_id,
            query.metric,
            query.stat,
            period_s=PERIOD_S,
            from_s=int(start_s),
            to_s=int(end_s),
        )
        return Series.from_pairs(zip(starts_s, values, strict=True))


def read_points(
    fleet: LabFleet, volume_id: str, metric: str, stat: str, *, period_s: int, from_s: int, to_s: int
) -> tuple[Sequence[int], Sequence[float]]:
    """The starts and the values of what CloudWatch has of a volume now; nothing of one that is not there."""
    if volume_id not in fleet:
        return (), ()
    points = read_datapoints(
        fleet.find(volume_id),
        metric,
        stat,
        period_s=period_s,
        from_s=from_s,
        to_s=to_s,
        now_s=fleet.clock.now_s(),
        settings=fleet.settings,
    )
    return points.starts_s, points.values


def volume_document(volume: SimulatedVolume) -> dict[str, Any]:
    """The volume as DescribeVolumes returns it, with the fields that the watchdog reads."""
    configuration = volume.describe_configuration()
    return {
        "VolumeId": volume.volume_id,
        "VolumeType": configuration.volume_type,
        "Size": volume.size_gib,
        "Iops": configuration.iops,
        "CreateTime": volume.created_at,
        "Attachments": [
            {"InstanceId": attachment.instance_id, "State": "attached"} for attachment in volume.attachments
        ],
        "Tags": [{"Key": key, "Value": value} for key, value in volume.tags.items()],
        **({"Throughput": configuration.throughput_mib_s} if configuration.throughput_mib_s else {}),
    }


def modification_document(volume_id: str, modification: Modification) -> dict[str, Any]:
    """The modification as DescribeVolumesModifications returns it."""
    return {
        "VolumeId": volume_id,
        "ModificationState": modification.state,
        "StartTime": modification.started_at,
        "EndTime": modification.ended_at,
        "Progress": modification.progress_pct,
        **_spec_document("Original", modification.original),
        **_spec_document("Target", modification.target),
    }


def _spec_document(side: str, spec: VolumeSpec) -> dict[str, Any]:
    return {
        f"{side}VolumeType": spec.volume_type,
        f"{side}Size": spec.size_gib,
        f"{side}Iops": spec.iops,
        f"{side}Throughput": spec.throughput_mib_s,
    }

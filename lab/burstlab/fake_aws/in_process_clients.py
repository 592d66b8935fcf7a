"""AWS's clients in front of a lab in the same process: the watchdog's own readers, without a wire between.

Calls are plain function calls instead of HTTP, so that weeks of one-minute ticks take minutes. Only the calls
of the watchdog are supported.
"""

import fnmatch
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from burstlab.fake_aws.cloudwatch.instance_metrics import read_instance_datapoints
from burstlab.fake_aws.cloudwatch.volume_metrics import read_datapoints, read_exceeded_checks
from burstlab.model.aws_error import AwsError
from burstlab.model.fleet import LabFleet
from burstlab.model.instances.instance import LabInstance
from burstlab.model.instances.instance_types import instance_types
from burstlab.model.modification import Modification, ModifyRequest, VolumeSpec
from burstlab.model.simulated_volume import SimulatedVolume
from burstwatch.adapters.aws.cloudwatch import MetricQuery, MetricsResult
from burstwatch.core.buckets.series import Series


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

    def describe_instances(
        self,
        InstanceIds: Sequence[str] = (),  # noqa: N803
        Filters: Sequence[Mapping[str, Any]] = (),  # noqa: N803
        **_: object,
    ) -> dict[str, Any]:
        states = {entry["Name"]: entry["Values"] for entry in Filters}.get("instance-state-name")
        documents = (
            instance_document(instance)
            for instance_id in InstanceIds or self._fleet.instances
            if (instance := self._fleet.instances.get(instance_id)) is not None
        )
        return {
            "Reservations": [
                {"Instances": [entry]}
                for entry in documents
                if states is None or entry["State"]["Name"] in states
            ]
        }

    def describe_instance_types(
        self,
        Filters: Sequence[Mapping[str, Any]] = (),  # noqa: N803
        **_: object,
    ) -> dict[str, Any]:
        patterns = {entry["Name"]: entry["Values"] for entry in Filters}.get("instance-type", ())
        names = {name for pattern in patterns for name in fnmatch.filter(instance_types(), pattern)}
        return {"InstanceTypes": [instance_types()[name] for name in sorted(names)]}

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
        starts_s, values = read_points(self._fleet, query, from_s=int(start_s), to_s=int(end_s))
        return Series.from_pairs(zip(starts_s, values, strict=True))


def read_points(
    fleet: LabFleet,
    query: MetricQuery,
    *,
    from_s: int,
    to_s: int,
) -> tuple[Sequence[int], Sequence[float]]:
    """The starts and the values of what CloudWatch has of a volume or an instance now; nothing of others."""
    resource_id, metric, stat = query.resource_id, query.metric, query.stat
    span: dict[str, Any] = {
        "period_s": query.period_s,
        "from_s": from_s,
        "to_s": to_s,
        "now_s": fleet.clock.now_s(),
        "settings": fleet.settings,
    }
    if query.instance_id is not None:
        volume, instance = fleet.get(resource_id), fleet.instances.get(query.instance_id)
        if volume is None or instance is None:
            return (), ()
        points = read_exceeded_checks(volume, instance, metric, stat, **span)
    elif resource_id in fleet:
        points = read_datapoints(fleet.find(resource_id), metric, stat, **span)
    elif (instance := fleet.catch_up_instance(resource_id)) is not None:
        points = read_instance_datapoints(instance, metric, stat, **span)
    else:
        return (), ()
    return points.starts_s, points.values


def instance_document(instance: LabInstance) -> dict[str, Any]:
    """The instance as DescribeInstances returns it, with the fields that the watchdog reads."""
    return {
        "InstanceId": instance.instance_id,
        "State": {"Name": instance.state},
        "InstanceType": instance.instance_type,
        "LaunchTime": instance.launched_at,
        "Monitoring": {"State": "enabled" if instance.detailed_monitoring else "disabled"},
        "BlockDeviceMappings": [{"Ebs": {"VolumeId": volume.volume_id}} for volume in instance.volumes],
        "Tags": [{"Key": key, "Value": value} for key, value in instance.tags.items()],
    }


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

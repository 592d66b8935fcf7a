"""AWS's clients in front of a lab in the same process: the watchdog's own readers, without a wire between.

What goes over HTTP elsewhere is here a function call, so that weeks of one-minute ticks take minutes. Only
what the watchdog asks for is answered.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from burstlab.fake_aws.metrics import read_datapoints
from burstlab.model.aws_error import AwsError
from burstlab.model.fleet import LabFleet
from burstlab.model.modification import Modification, Shape, Wanted
from burstlab.model.simulated_volume import SimulatedVolume
from burstwatch.adapters.aws.cloudwatch import MetricQuery, MetricsRead
from burstwatch.core.buckets.series import PERIOD_S, Series


def refused(code: str, message: str, status: int, operation: str) -> ClientError:
    """An error as botocore raises it."""
    answer: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "RequestId": "1", "HTTPHeaders": {}},
    }
    return ClientError(answer, operation)


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
        self._fleet.changes()
        chosen = {each["Name"]: each["Values"] for each in Filters}
        if missing := [each for each in VolumeIds if each not in self._fleet]:
            raise refused("InvalidVolume.NotFound", f"no {missing[0]}", 400, "DescribeVolumes")
        types = chosen.get("volume-type")
        told = (described(volume) for volume in self._named(VolumeIds or chosen.get("volume-id")))
        return {"Volumes": [each for each in told if types is None or each["VolumeType"] in types]}

    def describe_volumes_modifications(
        self,
        Filters: Sequence[Mapping[str, Any]] = (),  # noqa: N803
        **_: object,
    ) -> dict[str, Any]:
        self._fleet.changes()
        chosen = {each["Name"]: each["Values"] for each in Filters}
        states = chosen.get("modification-state")
        told = [
            told_modification(volume.volume_id, record)
            for volume in self._named(chosen.get("volume-id"))
            if (record := volume.modification) is not None
        ]
        return {
            "VolumesModifications": [
                each for each in told if not states or each["ModificationState"] in states
            ]
        }

    def describe_instances(self, InstanceIds: Sequence[str] = (), **_: object) -> dict[str, Any]:  # noqa: N803
        return {"Reservations": [{"Instances": [self._instance(each)]} for each in InstanceIds]}

    def _instance(self, instance_id: str) -> dict[str, Any]:
        known = self._fleet.instances.get(instance_id)
        state = known.state if known else "running"
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
            wanted = Wanted(volume_type=VolumeType, iops=Iops, throughput_mib_s=Throughput)
            if VolumeId not in self._fleet:
                raise AwsError("InvalidVolume.NotFound", "no such volume")  # noqa: TRY301 - told as the rest is
            modification = self._fleet.modify(VolumeId, wanted)
        except AwsError as error:
            raise refused(error.code, str(error), error.status, "ModifyVolume") from error
        return {"VolumeModification": told_modification(VolumeId, modification)}

    def _named(self, volume_ids: Iterable[str] | None) -> Iterable[SimulatedVolume]:
        if volume_ids is None:
            return self._fleet
        return [volume for each in volume_ids if (volume := self._fleet.get(each)) is not None]


class InProcessCloudWatch:
    """The watchdog's reader of metrics; ``asked`` counts what AWS would bill, by the subject's id."""

    def __init__(self, fleet: LabFleet) -> None:
        self._fleet = fleet
        self.asked: Counter[str] = Counter()

    def read(
        self,
        queries: Sequence[MetricQuery],
        start_s: float,
        end_s: float,
        *,
        on_batch: Callable[[], None] = lambda: None,
    ) -> MetricsRead:
        self.asked.update(query.subject_id for query in queries)
        on_batch()
        return MetricsRead(series={query: self._series(query, start_s, end_s) for query in queries})

    def _series(self, query: MetricQuery, start_s: float, end_s: float) -> Series:
        if query.subject_id not in self._fleet:
            return Series()
        points = read_datapoints(
            self._fleet.find(query.subject_id),
            query.metric,
            query.stat,
            period_s=PERIOD_S,
            from_s=int(start_s),
            to_s=int(end_s),
            now_s=self._fleet.clock.now_s(),
            settings=self._fleet.settings,
        )
        return Series.of(zip(points.starts_s, points.values, strict=True))


def described(volume: SimulatedVolume) -> dict[str, Any]:
    """What DescribeVolumes tells of a volume, as far as the watchdog reads it."""
    shown, attachment = volume.shown(), volume.attachment
    return {
        "VolumeId": volume.volume_id,
        "VolumeType": shown.volume_type,
        "Size": volume.size_gib,
        "Iops": shown.iops,
        "CreateTime": volume.created_at,
        "Attachments": [{"InstanceId": attachment.instance_id, "State": "attached"}] if attachment else [],
        "Tags": [{"Key": key, "Value": value} for key, value in volume.tags.items()],
        **({"Throughput": shown.throughput_mib_s} if shown.throughput_mib_s else {}),
    }


def told_modification(volume_id: str, told: Modification) -> dict[str, Any]:
    """What DescribeVolumesModifications tells of a modification."""
    return {
        "VolumeId": volume_id,
        "ModificationState": told.state,
        "StartTime": told.started_at,
        "EndTime": told.ended_at,
        "Progress": told.progress_pct,
        **_shape("Original", told.original),
        **_shape("Target", told.target),
    }


def _shape(side: str, shape: Shape) -> dict[str, Any]:
    return {
        f"{side}VolumeType": shape.volume_type,
        f"{side}Size": shape.size_gib,
        f"{side}Iops": shape.iops,
        f"{side}Throughput": shape.throughput_mib_s,
    }

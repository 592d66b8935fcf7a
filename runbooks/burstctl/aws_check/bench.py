"""What a fact may do: create, modify and look at resources of its own run, and of no other.

Whatever is created is written into the run's file first. Whatever is modified is checked first: it must be in
the run's file, and AWS must say that it carries the run's tag.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from botocore.exceptions import ClientError

from burstctl.aws_check.host import SHARED_GIB, Host, launch_request
from burstctl.aws_check.resources import KINDS, PREFIX, Client, run_of, tags
from burstctl.aws_check.result import NotMeasured
from burstctl.aws_check.run_file import RunFile
from burstwatch.adapters.aws.errors import AWS_ERRORS, FailureKind, explain, left_no_effect
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.errors import BurstwatchError

LOOK_EVERY_S: Final = 10
HOST_OWNER: Final = "host"
"""Who owns the shared instance and its volumes in the run's file."""

_BOOT_S: Final = 600

_UNRELATED: Final = (FailureKind.RETRYABLE, FailureKind.NO_CREDENTIALS, FailureKind.CLOCK_SKEW)

Waiting = Generator[float, None, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """AWS refused a call that was meant to be tried."""

    code: str
    message: str

    @classmethod
    def of(cls, error: ClientError) -> "Refusal":
        response = error.response.get("Error", {})
        return cls(code=str(response.get("Code")), message=str(response.get("Message")))

    def to_document(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


def says_nothing(error: ClientError) -> bool:
    """Whether a refusal says nothing about what was asked: it is about the caller, or AWS has a fault."""
    kind, code = explain(error).kind, Refusal.of(error).code
    return kind in _UNRELATED or code in ("UnauthorizedOperation", "InvalidVolume.NotFound")


@dataclass(slots=True)
class HostSlot:
    """The run's instance, once a fact has asked for it; ``failure`` is why there is none."""

    minutes: int
    host: Host | None = None
    is_launching: bool = False
    failure: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The means of one fact; ``owner`` is its name. Generators yield the seconds to wait."""

    run: RunFile
    client: Client
    client_as: Callable[[str, Mapping[str, str]], Any]
    clock: Callable[[], float]
    slot: HostSlot
    owner: str
    partition: str = "aws"
    note: Callable[[str], None] = field(default=lambda _text: None)

    @property
    def ec2(self) -> Any:
        return self.client("ec2")

    def now_s(self) -> float:
        return self.clock()

    @property
    def name(self) -> str:
        """The name of what has names: topics, queues, alarms, roles."""
        return f"{PREFIX}{self.run.run_id}"

    # -- creating

    def create(self, kind: str, call: Callable[[], str]) -> str:
        """Create a resource of a kind in ``resources.KINDS``; ``call`` does it and answers the id."""
        assert kind in KINDS
        return self._create(kind, self.owner, call)

    def _create(self, kind: str, owner: str, call: Callable[[], str]) -> str:
        intended = self.run.intend(kind, owner, self.now_s())
        try:
            return self.run.created(intended, call())
        except AWS_ERRORS as error:
            if left_no_effect(error):
                intended.is_gone = True
                self.run.save()
            raise

    def volume(
        self, size_gib: int, *, volume_type: str = "gp2", zone: str | None = None, **extra_tags: str
    ) -> Generator[float, None, str]:
        """Create a volume, available when it is answered."""
        zone = zone or self.zones()[0]
        request = {
            "Size": size_gib,
            "VolumeType": volume_type,
            "AvailabilityZone": zone,
            "TagSpecifications": [{"ResourceType": "volume", "Tags": tags(self.run.run_id, extra_tags)}],
        }
        volume_id = self.create("volume", lambda: str(self.ec2.create_volume(**request)["VolumeId"]))
        yield from self.until(lambda: self.described(volume_id)["State"] in ("available", "in-use"), 120)
        return volume_id

    def zones(self) -> list[str]:
        """The Region's ordinary zones by name."""
        asked = [{"Name": "zone-type", "Values": ["availability-zone"]}]
        found = self.ec2.describe_availability_zones(Filters=asked)["AvailabilityZones"]
        names = sorted(str(each["ZoneName"]) for each in found if each["State"] == "available")
        if not names:
            raise NotMeasured(f"{self.run.region} has no available zone for this account")
        return names

    # -- looking

    def described(self, volume_id: str) -> dict[str, Any]:
        """What DescribeVolumes shows; a volume that was just created may not be there yet."""
        try:
            [found] = self.ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"]
        except ClientError as error:
            if Refusal.of(error).code != "InvalidVolume.NotFound":
                raise
            return {"State": "creating"}
        return dict(found)

    def modification(self, volume_id: str) -> dict[str, Any] | None:
        """The newest modification of a volume, as DescribeVolumesModifications shows it."""
        asked = [{"Name": "volume-id", "Values": [volume_id]}]
        found = self.ec2.describe_volumes_modifications(Filters=asked)["VolumesModifications"]
        return dict(found[0]) if found else None

    def datapoints(
        self, volume_id: str, start_s: float, metric: str = "BurstBalance", statistic: str = "Minimum"
    ) -> Series:
        """The one-minute datapoints of a volume that are out by now."""
        query = {
            "Id": "m",
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/EBS",
                    "MetricName": metric,
                    "Dimensions": [{"Name": "VolumeId", "Value": volume_id}],
                },
                "Period": PERIOD_S,
                "Stat": statistic,
            },
        }
        now_s = self.now_s()
        response = self.client("cloudwatch").get_metric_data(
            MetricDataQueries=[query],
            StartTime=int(start_s // PERIOD_S * PERIOD_S),
            EndTime=int(now_s) + PERIOD_S,
            ScanBy="TimestampAscending",
        )
        [result] = response["MetricDataResults"]
        return Series.of(
            (int(_seconds(at)), float(value))
            for at, value in zip(result["Timestamps"], result["Values"], strict=True)
        )

    # -- modifying

    def check_ours(self, kind: str, resource_id: str) -> None:
        """Refuse to touch what this run did not create.

        Raises:
            BurstwatchError: it is not in the run's file, or AWS does not say that it carries the run's tag.
        """
        is_known = any(each.kind == kind and each.id == resource_id for each in self.run.left)
        if not is_known or run_of(KINDS[kind], self.client, resource_id) != self.run.run_id:
            raise BurstwatchError(
                f"{resource_id} was not created by run {self.run.run_id}: it is not touched"
            )

    def modify(self, volume_id: str, **asked: Any) -> Refusal | None:
        """ModifyVolume of a volume of this run; what AWS refuses is an answer."""
        self.check_ours("volume", volume_id)
        try:
            self.ec2.modify_volume(VolumeId=volume_id, **asked)
        except ClientError as error:
            if says_nothing(error):
                raise
            return Refusal.of(error)
        return None

    def modified(self, volume_id: str, **asked: Any) -> Generator[float, None, tuple[float, float]]:
        """Modify a volume and wait until that is completed; answers when it began and ended.

        Raises:
            NotMeasured: AWS refused it, or it failed.
        """
        before = self.modification(volume_id)
        if (refusal := self.modify(volume_id, **asked)) is not None:
            raise NotMeasured(f"ModifyVolume was refused ({refusal.code}): {refusal.message}")
        record = yield from self.completed(volume_id, before)
        return record["StartTime"].timestamp(), record["EndTime"].timestamp()

    def completed(
        self, volume_id: str, before: Mapping[str, Any] | None
    ) -> Generator[float, None, dict[str, Any]]:
        """Wait until a modification that began after the one in the record ``before`` is over.

        AWS may show the previous record for a while after it has accepted the next modification.
        """
        while True:
            yield LOOK_EVERY_S
            record = self.modification(volume_id)
            if record is None or (before is not None and record["StartTime"] <= before["StartTime"]):
                continue
            if record["ModificationState"] == "completed":
                return record
            if record["ModificationState"] == "failed":
                raise NotMeasured(f"the modification failed: {record.get('StatusMessage')}; run it again")

    def until(self, is_so: Callable[[], bool], most_s: float, what: str = "the volume") -> Waiting:
        """Wait until something is so.

        Raises:
            NotMeasured: it was not in time.
        """
        end_s = self.now_s() + most_s
        while not is_so():
            if self.now_s() >= end_s:
                raise NotMeasured(f"{what} was not ready within {most_s:.0f} s")
            yield LOOK_EVERY_S / 2

    # -- the host

    def host(self) -> Generator[float, None, Host]:
        """The running instance that all facts share; the first to ask launches it."""
        slot = self.slot
        while slot.is_launching:
            yield LOOK_EVERY_S
        if slot.failure is not None:
            raise slot.failure
        if slot.host is None:
            slot.is_launching = True
            try:
                slot.host = yield from self._launched(HOST_OWNER, slot.minutes, SHARED_GIB)
            except Exception as error:
                slot.failure = error
                raise
            finally:
                slot.is_launching = False
        return slot.host

    def instance(self, minutes: int, gib: Mapping[str, int]) -> Generator[float, None, Host]:
        """Launch an instance for this fact alone, which ends itself and its gp2 volumes after ``minutes``.

        Args:
            minutes: From the launch.
            gib: The sizes of the volumes by device.
        """
        return (yield from self._launched(self.owner, minutes, gib))

    def _launched(self, owner: str, minutes: int, gib: Mapping[str, int]) -> Generator[float, None, Host]:
        request = launch_request(self.run.run_id, minutes, self.run.subnet, gib)
        launched_s = self.now_s()

        def launch() -> str:
            return str(self.ec2.run_instances(**request)["Instances"][0]["InstanceId"])

        try:
            instance_id = self._create("instance", owner, launch)
        except ClientError as error:
            if Refusal.of(error).code == "VPCIdNotSpecified":
                raise NotMeasured(f"{self.run.region} has no default VPC: give --subnet") from error
            raise
        volumes: Mapping[str, str] = {}
        while True:
            yield LOOK_EVERY_S
            response = self._instance(instance_id)
            state = response.get("State", {}).get("Name")
            if state == "running":
                volumes = self._volumes_of(instance_id)
            if volumes.keys() >= gib.keys():
                break
            if self.now_s() >= launched_s + _BOOT_S or state in ("shutting-down", "terminated"):
                reason = response.get("StateReason", {}).get("Message", "no reason given")
                raise NotMeasured(f"the instance does not run ({reason}): try another --subnet or Region")
        for volume_id in volumes.values():
            self.run.created(self.run.intend("volume", owner, self.now_s()), volume_id)
        self.note(f"{instance_id} runs, with {len(volumes)} volumes")
        return Host(
            instance_id=instance_id,
            zone=str(response["Placement"]["AvailabilityZone"]),
            launched_s=launched_s,
            volumes=volumes,
        )

    def _instance(self, instance_id: str) -> dict[str, Any]:
        try:
            found = self.ec2.describe_instances(InstanceIds=[instance_id])["Reservations"]
        except ClientError as error:
            if Refusal.of(error).code != "InvalidInstanceID.NotFound":
                raise
            return {}
        return dict(found[0]["Instances"][0])

    def _volumes_of(self, instance_id: str) -> Mapping[str, str]:
        asked = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
        found = self.ec2.describe_volumes(Filters=asked)["Volumes"]
        return {str(each["Attachments"][0]["Device"]): str(each["VolumeId"]) for each in found}


def _seconds(at: float | datetime) -> float:
    """A timestamp as the client reads it: a number, or botocore's own datetime."""
    return at.timestamp() if isinstance(at, datetime) else float(at)

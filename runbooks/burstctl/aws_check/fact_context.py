"""What a fact may do: create, modify and look at resources of its own run, and of no other.

Whatever is created is written into the run's file first. Whatever is modified is checked first: it must be in
the run's file, and AWS must say that it carries the run's tag.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from botocore.exceptions import ClientError

from burstctl.aws_check.host import SHARED_SIZES_GIB, Host, launch_request
from burstctl.aws_check.resources import KINDS, PREFIX, Client, make_tags, run_of
from burstctl.aws_check.result import NotMeasuredError
from burstctl.aws_check.run_file import RunFile
from burstwatch.adapters.aws.errors import AWS_ERRORS, FailureKind, had_no_effect, to_aws_failure
from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.errors import BurstwatchError

POLL_INTERVAL_S: Final = 10
"""Modifications take minutes; all facts poll at once and share the quota of the account."""

GP3: Final[Mapping[str, Any]] = {"VolumeType": "gp3", "Iops": 3000, "Throughput": 125}
"""The least gp3 as a target of ModifyVolume."""

VOLUME_ACTIONS: Final = (
    "ec2:DescribeAvailabilityZones",
    "ec2:CreateVolume",
    "ec2:CreateTags",
    "ec2:DescribeVolumes",
    "ec2:DeleteVolume",
)
"""The IAM actions for volumes that a fact creates."""

MODIFICATION_ACTIONS: Final = (*VOLUME_ACTIONS, "ec2:ModifyVolume", "ec2:DescribeVolumesModifications")
"""The same for volumes that it modifies."""

HOST_OWNER: Final = "host"
"""Who owns the shared instance and its volumes in the run's file."""

_BOOT_TIMEOUT_S: Final = 600  # an instance is usually running within a minute or two

_UNRELATED_KINDS: Final = (FailureKind.RETRYABLE, FailureKind.NO_CREDENTIALS, FailureKind.CLOCK_SKEW)

WaitSteps = Generator[float, None, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRefused:
    """AWS refused a call that was meant to be tried."""

    code: str
    message: str

    @classmethod
    def from_error(cls, error: ClientError) -> "FactRefused":
        response = error.response.get("Error", {})
        return cls(code=str(response.get("Code")), message=str(response.get("Message")))

    def to_document(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


def is_unrelated(error: ClientError) -> bool:
    """Whether a refusal is not about the request, but about the caller or a failure of AWS."""
    kind, code = to_aws_failure(error).kind, FactRefused.from_error(error).code
    return kind in _UNRELATED_KINDS or code in ("UnauthorizedOperation", "InvalidVolume.NotFound")


@dataclass(slots=True)
class SharedHost:
    """The run's instance, once a fact has requested it; ``failure`` is the reason why it is missing."""

    minutes: int
    host: Host | None = None
    is_launching: bool = False
    failure: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FactContext:
    """The means of one fact; ``owner`` is its name. Generators yield the seconds to wait."""

    run_file: RunFile
    client: Client
    client_as: Callable[[str, Mapping[str, str]], Any]
    clock: Callable[[], float]
    shared_host: SharedHost
    owner: str
    partition: str = "aws"
    log: Callable[[str], None] = field(default=lambda _text: None)

    @property
    def ec2(self) -> Any:
        return self.client("ec2")

    def now_s(self) -> float:
        return self.clock()

    @property
    def resource_name(self) -> str:
        """The name of resources that have names: topics, queues, alarms, roles."""
        return f"{PREFIX}{self.run_file.run_id}"

    # -- creating

    def create(self, kind: str, call: Callable[[], str]) -> str:
        """Create a resource of a kind in ``resources.KINDS``; ``call`` creates it and returns the ID."""
        assert kind in KINDS
        return self._create(kind, self.owner, call)

    def _create(self, kind: str, owner: str, call: Callable[[], str]) -> str:
        resource = self.run_file.record_intended(kind, owner, self.now_s())
        try:
            return self.run_file.record_created(resource, call())
        except AWS_ERRORS as error:
            if had_no_effect(error):
                resource.is_gone = True
                self.run_file.save()
            raise

    def create_volume(
        self, size_gib: int, *, volume_type: str = "gp2", zone: str | None = None, **extra_tags: str
    ) -> Generator[float, None, str]:
        """Create a volume, available when it is answered."""
        zone = zone or self.list_zones()[0]
        request = {
            "Size": size_gib,
            "VolumeType": volume_type,
            "AvailabilityZone": zone,
            "TagSpecifications": [
                {"ResourceType": "volume", "Tags": make_tags(self.run_file.run_id, extra_tags)}
            ],
        }
        volume_id = self.create("volume", lambda: str(self.ec2.create_volume(**request)["VolumeId"]))
        yield from self.wait_until(
            lambda: self.describe_volume(volume_id)["State"] in ("available", "in-use"), 120
        )
        return volume_id

    def list_zones(self) -> list[str]:
        """The Region's ordinary zones by name."""
        filters = [{"Name": "zone-type", "Values": ["availability-zone"]}]
        zones = self.ec2.describe_availability_zones(Filters=filters)["AvailabilityZones"]
        names = sorted(str(zone["ZoneName"]) for zone in zones if zone["State"] == "available")
        if not names:
            raise NotMeasuredError(f"{self.run_file.region} has no available zone for this account")
        return names

    # -- looking

    def describe_volume(self, volume_id: str) -> dict[str, Any]:
        """What DescribeVolumes shows; a volume that was just created may not be there yet."""
        try:
            [volume] = self.ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"]
        except ClientError as error:
            if FactRefused.from_error(error).code != "InvalidVolume.NotFound":
                raise
            return {"State": "creating"}
        return dict(volume)

    def read_modification(self, volume_id: str) -> dict[str, Any] | None:
        """The newest modification of a volume, as DescribeVolumesModifications shows it."""
        filters = [{"Name": "volume-id", "Values": [volume_id]}]
        modifications = self.ec2.describe_volumes_modifications(Filters=filters)["VolumesModifications"]
        return dict(modifications[0]) if modifications else None

    def modification_state(self, volume_id: str) -> str:
        """The state of its newest modification; ``none`` if it was never modified."""
        record = self.read_modification(volume_id)
        return str(record["ModificationState"]) if record else "none"

    def read_datapoints(
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
        return Series.from_pairs(
            (int(_to_epoch_s(at)), float(value))
            for at, value in zip(result["Timestamps"], result["Values"], strict=True)
        )

    # -- modifying

    def check_owned(self, kind: str, resource_id: str) -> None:
        """Refuse to touch what this run did not create.

        Raises:
            BurstwatchError: it is not in the run's file, or AWS does not say that it carries the run's tag.
        """
        is_known = any(
            resource.kind == kind and resource.id == resource_id for resource in self.run_file.remaining
        )
        if not is_known or run_of(KINDS[kind], self.client, resource_id) != self.run_file.run_id:
            raise BurstwatchError(
                f"{resource_id} was not created by run {self.run_file.run_id}: it is not touched",
                fix="report this; it is a defect of burstwatch",
            )

    def modify_volume(self, volume_id: str, **parameters: Any) -> FactRefused | None:
        """ModifyVolume of a volume of this run; what AWS refuses is an answer."""
        self.check_owned("volume", volume_id)
        try:
            self.ec2.modify_volume(VolumeId=volume_id, **parameters)
        except ClientError as error:
            if is_unrelated(error):
                raise
            return FactRefused.from_error(error)
        return None

    def modify_volume_or_fail(self, volume_id: str, **parameters: Any) -> None:
        """ModifyVolume of a volume of this run.

        Raises:
            NotMeasuredError: AWS refused it.
        """
        if (refusal := self.modify_volume(volume_id, **parameters)) is not None:
            raise NotMeasuredError(f"ModifyVolume was refused ({refusal.code}): {refusal.message}")

    def modify_and_wait(
        self, volume_id: str, **parameters: Any
    ) -> Generator[float, None, tuple[float, float]]:
        """Modify a volume and wait until that is completed; return when it began and ended.

        Raises:
            NotMeasuredError: AWS refused it, or it failed.
        """
        previous = self.read_modification(volume_id)
        self.modify_volume_or_fail(volume_id, **parameters)
        record = yield from self.wait_until_completed(volume_id, previous)
        return record["StartTime"].timestamp(), record["EndTime"].timestamp()

    def wait_until_completed(
        self, volume_id: str, previous: Mapping[str, Any] | None
    ) -> Generator[float, None, dict[str, Any]]:
        """Wait until a modification that began after the one in the record ``previous`` is over.

        AWS may still return the previous record shortly after it has accepted the next modification.
        """
        while True:
            yield POLL_INTERVAL_S
            record = self.read_modification(volume_id)
            if record is None or (previous is not None and record["StartTime"] <= previous["StartTime"]):
                continue
            if record["ModificationState"] == "completed":
                return record
            if record["ModificationState"] == "failed":
                raise NotMeasuredError(
                    f"the modification failed: {record.get('StatusMessage')}; run it again"
                )

    def wait_until(
        self, is_ready: Callable[[], bool], timeout_s: float, subject: str = "the volume"
    ) -> WaitSteps:
        """Wait until something is so.

        Raises:
            NotMeasuredError: it was not in time.
        """
        deadline_s = self.now_s() + timeout_s
        while not is_ready():
            if self.now_s() >= deadline_s:
                raise NotMeasuredError(f"{subject} was not ready within {timeout_s:.0f} s")
            yield POLL_INTERVAL_S / 2

    # -- the host

    def get_host(self) -> Generator[float, None, Host]:
        """The running instance that all facts share; the first to ask launches it."""
        shared_host = self.shared_host
        while shared_host.is_launching:
            yield POLL_INTERVAL_S
        if shared_host.failure is not None:
            raise shared_host.failure
        if shared_host.host is None:
            shared_host.is_launching = True
            try:
                shared_host.host = yield from self._launch(HOST_OWNER, shared_host.minutes, SHARED_SIZES_GIB)
            except Exception as error:
                shared_host.failure = error
                raise
            finally:
                shared_host.is_launching = False
        return shared_host.host

    def launch_instance(self, minutes: int, sizes_gib: Mapping[str, int]) -> Generator[float, None, Host]:
        """Launch an instance for this fact alone, which ends itself and its gp2 volumes after ``minutes``.

        Args:
            minutes: From the launch.
            sizes_gib: The sizes of the volumes by device.
        """
        return (yield from self._launch(self.owner, minutes, sizes_gib))

    def _launch(self, owner: str, minutes: int, sizes_gib: Mapping[str, int]) -> Generator[float, None, Host]:
        request = launch_request(self.run_file.run_id, minutes, self.run_file.subnet, sizes_gib)
        launched_at_s = self.now_s()

        def run_instance() -> str:
            return str(self.ec2.run_instances(**request)["Instances"][0]["InstanceId"])

        try:
            instance_id = self._create("instance", owner, run_instance)
        except ClientError as error:
            if FactRefused.from_error(error).code == "VPCIdNotSpecified":
                raise NotMeasuredError(f"{self.run_file.region} has no default VPC: give --subnet") from error
            raise
        volumes: Mapping[str, str] = {}
        while True:
            yield POLL_INTERVAL_S
            response = self._describe_instance(instance_id)
            state = response.get("State", {}).get("Name")
            if state == "running":
                volumes = self._volumes_of(instance_id)
            if volumes.keys() >= sizes_gib.keys():
                break
            if self.now_s() >= launched_at_s + _BOOT_TIMEOUT_S or state in ("shutting-down", "terminated"):
                reason = response.get("StateReason", {}).get("Message", "no reason given")
                raise NotMeasuredError(
                    f"the instance does not run ({reason}): try another --subnet or Region"
                )
        for volume_id in volumes.values():
            self.run_file.record_created(
                self.run_file.record_intended("volume", owner, self.now_s()), volume_id
            )
        self.log(f"{instance_id} runs, with {len(volumes)} volumes")
        return Host(
            instance_id=instance_id,
            zone=str(response["Placement"]["AvailabilityZone"]),
            launched_at_s=launched_at_s,
            volumes=volumes,
        )

    def _describe_instance(self, instance_id: str) -> dict[str, Any]:
        try:
            reservations = self.ec2.describe_instances(InstanceIds=[instance_id])["Reservations"]
        except ClientError as error:
            if FactRefused.from_error(error).code != "InvalidInstanceID.NotFound":
                raise
            return {}
        return dict(reservations[0]["Instances"][0])

    def _volumes_of(self, instance_id: str) -> Mapping[str, str]:
        filters = [{"Name": "attachment.instance-id", "Values": [instance_id]}]
        volumes = self.ec2.describe_volumes(Filters=filters)["Volumes"]
        return {str(volume["Attachments"][0]["Device"]): str(volume["VolumeId"]) for volume in volumes}


def _to_epoch_s(at: float | datetime) -> float:
    """A timestamp as the client reads it: a number, or botocore's own datetime."""
    return at.timestamp() if isinstance(at, datetime) else float(at)

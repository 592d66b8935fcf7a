"""The instances of a run: small, unreachable from outside, and terminated by themselves at a fixed time.

One instance is shared; the large volume has its own, which runs for an hour. RunInstances creates their
volumes, which are deleted with them, so a killed process leaves none behind. Each volume has its own load
from a script in the user data: random reads of 4 KiB, because sequential ones may be merged.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from burstctl.aws_check.resources import make_tags

INSTANCE_TYPE: Final = "t3.small"
IMAGE: Final = "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
ROOT_DEVICE: Final = "/dev/xvda"
HOST_ROOT_GIB: Final = 8  # the size of the Amazon Linux 2023 image
CLEANUP_MINUTES: Final = 15
"""The longest time that the clean-up may take; after it, an instance terminates itself."""

DRAIN_S: Final = 20 * 60
"""How long the volumes that are to be drained are read at full burst."""

ACTIVE_DEVICE: Final = "/dev/sdf"
IDLE_DEVICE: Final = "/dev/sdg"
RETURNED_DEVICE: Final = "/dev/sdh"
RESIZED_DEVICE: Final = "/dev/sdi"
LARGE_DEVICE: Final = "/dev/sdm"
SPARE_DEVICES: Final = ("/dev/sdj", "/dev/sdk", "/dev/sdl")
"""Where the fact about attachments attaches a volume in each of its attempts."""

SHARED_SIZES_GIB: Final[Mapping[str, int]] = {
    ACTIVE_DEVICE: 1,
    IDLE_DEVICE: 2,
    RETURNED_DEVICE: 100,
    RESIZED_DEVICE: 40,
}
"""The gp2 volumes of the shared instance by device, in GiB."""

HOST_GP2_GIB: Final = sum(SHARED_SIZES_GIB.values())
_DRAINED_DEVICES: Final = (RETURNED_DEVICE, RESIZED_DEVICE)
_DRAIN_IOPS: Final = 3000  # gp2's burst ceiling, for the lab: it plays the reads that the script makes on AWS

ACTIONS: Final = ("ec2:RunInstances", "ec2:DescribeInstances", "ec2:TerminateInstances", "ssm:GetParameters")
"""The IAM actions for an instance, in addition to those of the fact."""

_READ_SCRIPT: Final = """\
import mmap, os, random, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
blocks, buffer = os.lseek(fd, 0, os.SEEK_END) // 4096, mmap.mmap(-1, 4096)
end_s, pause_s = time.monotonic() + float(sys.argv[2]), float(sys.argv[3])
while time.monotonic() < end_s:
    os.preadv(fd, [buffer], random.randrange(blocks) * 4096)
    time.sleep(pause_s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The running instance; ``volumes`` are the ids of its data volumes by device."""

    instance_id: str
    zone: str
    launched_at_s: float
    volumes: Mapping[str, str]


def launch_request(
    run_id: str, minutes: int, subnet: str | None, sizes_gib: Mapping[str, int]
) -> dict[str, Any]:
    """The parameters of RunInstances, with gp2 volumes of ``sizes_gib`` by device."""
    interface: dict[str, Any] = {"DeviceIndex": 0, "AssociatePublicIpAddress": False}
    if subnet is not None:
        interface["SubnetId"] = subnet
    return {
        "ImageId": IMAGE,
        "InstanceType": INSTANCE_TYPE,
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "CreditSpecification": {"CpuCredits": "standard"},
        "MetadataOptions": {"HttpTokens": "required"},
        "NetworkInterfaces": [interface],
        "BlockDeviceMappings": [
            _block_device_mapping(ROOT_DEVICE, HOST_ROOT_GIB, "gp3"),
            *(_block_device_mapping(device, size_gib, "gp2") for device, size_gib in sizes_gib.items()),
        ],
        "TagSpecifications": [
            {"ResourceType": resource_type, "Tags": make_tags(run_id)}
            for resource_type in ("instance", "volume")
        ],
        "UserData": make_user_data(minutes, sizes_gib),
    }


def make_user_data(minutes: int, devices: Iterable[str]) -> str:
    """The script, which reads from all devices but the idle one.

    Its lines ``# load DEVICE IOPS SECONDS`` say what it does, in turn on each device.
    """
    lines = ["#!/bin/bash", f"shutdown -h +{minutes}", "cat > /tmp/reader.py <<'END'", f"{_READ_SCRIPT}END"]
    lines += ["run() { until [ -b $1 ]; do sleep 1; done; python3 /tmp/reader.py $1 $2 $3; }"]
    total_s = minutes * 60
    for device in devices:
        if device == IDLE_DEVICE:
            continue
        steps = [f"run {device} {total_s} 1"]
        if device in _DRAINED_DEVICES:
            lines.append(f"# load {device} {_DRAIN_IOPS} {DRAIN_S}")
            fast = f"run {device} {DRAIN_S} 0"
            steps = [f"{fast} & {fast} & {fast} & wait", *steps]
        lines.append(f"# load {device} 1 {total_s}")
        lines.append(f"({'; '.join(steps)}) &")
    return "\n".join([*lines, "wait", ""])


def _block_device_mapping(device: str, size_gib: int, volume_type: str) -> dict[str, Any]:
    ebs = {"VolumeSize": size_gib, "VolumeType": volume_type, "DeleteOnTermination": True}
    return {"DeviceName": device, "Ebs": ebs}

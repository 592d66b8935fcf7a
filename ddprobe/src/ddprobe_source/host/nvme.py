"""NVMe log page 0xD0: the counters of an EBS volume."""

from __future__ import annotations

import fcntl
import os
from typing import Final

from ddprobe_source.host.child_task import ChildTask
from ddprobe_source.host.files import read_text
from ddprobe_source.host.state_dirs import FileSystemLock, Lock, StateDirs
from ddprobe_source.judgement.disks import Disk, Site
from ddprobe_source.judgement.record import ProbeError
from ddprobe_source.judgement.text import sanitise

NVME_ADMIN_COMMAND: Final = 0xC0484E41
GET_LOG_PAGE: Final = 0x02
EBS_PAGE: Final = 0xD0
EBS_PAGE_BYTES: Final = 4096
EBS_MAGIC: Final = 0x3C23B510
INSTANCE_STORE_MAGIC: Final = 0xEC2C0D7E
NVME_FIELDS: Final = {
    "total_read_ops": 8,
    "total_write_ops": 16,
    "total_read_bytes": 24,
    "total_write_bytes": 32,
    "total_read_time": 40,
    "total_write_time": 48,
    "ebs_volume_performance_exceeded_iops": 56,
    "ebs_volume_performance_exceeded_tp": 64,
    "ec2_instance_ebs_performance_exceeded_iops": 72,
    "ec2_instance_ebs_performance_exceeded_tp": 80,
    "volume_queue_length": 88,
}
"""Offsets of the 64-bit counters; times are microseconds."""
NVME_NEW_NAMES: Final = {
    "ec2_instance_performance_exceeded_iops": "ec2_instance_ebs_performance_exceeded_iops",
    "ec2_instance_performance_exceeded_tp": "ec2_instance_ebs_performance_exceeded_tp",
}
"""What nvme-cli 2.16 and later call two of them."""


def parse_ebs_page(raw: bytes) -> dict[str, int]:
    """Read the counters of an EBS volume; raises ProbeError for anything else."""
    magic = int.from_bytes(raw[:4], "little")
    if magic == INSTANCE_STORE_MAGIC:
        raise ProbeError("the device is instance store, not an EBS volume")
    if len(raw) < EBS_PAGE_BYTES or magic != EBS_MAGIC:
        raise ProbeError(
            f"log page 0xD0 begins with {magic:#010x} in {len(raw)} bytes, not with {EBS_MAGIC:#x} in 4096"
        )
    return {name: int.from_bytes(raw[at : at + 8], "little") for name, at in NVME_FIELDS.items()}


def parse_nvme_json(text: str) -> dict[str, int]:
    """Read what ``ebsnvme stats -j`` or ``nvme amzn stats -o json`` printed, under either spelling."""
    import json

    try:
        counters = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise ProbeError(f"no JSON of NVMe counters: {sanitise(str(fault), 200)}") from None
    if not isinstance(counters, dict):
        raise ProbeError("no JSON object of NVMe counters")
    named = {NVME_NEW_NAMES.get(name, name): value for name, value in counters.items()}
    return {name: named[name] for name in NVME_FIELDS if isinstance(named.get(name), int)}


def read_ebs_page(disk: Disk) -> dict[str, int]:
    """Query the controller, in a child: it is not documented to answer in a stall. Needs CAP_SYS_ADMIN."""
    import array

    page = array.array("B", bytes(EBS_PAGE_BYTES))
    address, _ = page.buffer_info()
    dwords = EBS_PAGE_BYTES // 4 - 1  # counted from 0
    command = bytearray(72)
    command[0] = GET_LOG_PAGE
    command[4:8] = (1).to_bytes(4, "little")
    command[24:32] = address.to_bytes(8, "little")
    command[36:40] = EBS_PAGE_BYTES.to_bytes(4, "little")
    command[40:44] = (EBS_PAGE | dwords << 16).to_bytes(4, "little")
    fd = os.open(f"/dev/{disk.name}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.ioctl(fd, NVME_ADMIN_COMMAND, command)
    finally:
        os.close(fd)
    return parse_ebs_page(page.tobytes())


def nvme_counters(
    site: Site, json_file: str | None, state_dirs: StateDirs | None = None
) -> dict[str, int] | None:
    """Get the EBS counters of the first volume, or None if they cannot be read within a second."""

    def read_file(path: str) -> dict[str, int]:
        FileSystemLock(state_dirs, "output", 0.0).move_to(path)
        return parse_nvme_json(read_text(path))

    def query_controller(disk: Disk) -> dict[str, int]:
        if state_dirs and not Lock(state_dirs, f"nvme-{disk.name}").take():
            raise ProbeError("the answer to an earlier question has not come yet")
        return read_ebs_page(disk)

    ebs = next((disk for disk in site.disks if disk.volume_id and disk.name.startswith("nvme")), None)
    if json_file:
        raw = ChildTask(lambda send: send(read_file(os.path.abspath(json_file)))).answer(1.0)
    elif ebs:
        raw = ChildTask(lambda send: send(query_controller(ebs))).answer(1.0)
    else:
        return None
    return raw or None


def nvme_delta(before: dict[str, int] | None, after: dict[str, int] | None) -> dict[str, int] | None:
    """Say how the counters rose; the queue length is as it is now."""
    if before is None or after is None:
        return None
    rises = {name: after[name] - before.get(name, after[name]) for name in after}
    return rises | {"volume_queue_length": after.get("volume_queue_length", 0)}

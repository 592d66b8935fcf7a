"""What the tests of real disks share: whether one can be built here, and what is left of them."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from burstlab.disk.block_device import unavailable_reason
from burstlab.disk.state_dir import limit_files

BURSTLAB = [sys.executable, "-c", "from burstlab.main import main; main()"]


def require_throttled_disk(backend="auto"):
    """Skip, loudly, where no throttled disk can be built."""
    if reason := unavailable_reason(backend):
        pytest.skip(f"NOT TESTED HERE: {reason}")


def environment():
    return os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def metric_of(lab, volume_id, metric, statistic, start_at, end_at):
    """The datapoints of a volume's metric, minute by minute, oldest first."""
    answer = lab.client("cloudwatch").get_metric_data(
        MetricDataQueries=[
            {
                "Id": "asked",
                "MetricStat": {
                    "Metric": {
                        "Namespace": "AWS/EBS",
                        "MetricName": metric,
                        "Dimensions": [{"Name": "VolumeId", "Value": volume_id}],
                    },
                    "Period": 60,
                    "Stat": statistic,
                },
            }
        ],
        StartTime=start_at,
        EndTime=end_at,
        ScanBy="TimestampAscending",
    )
    return answer["MetricDataResults"][0]["Values"]


def reaper_pid(folder: Path) -> int:
    """The process that takes down the disk of a folder should its maker be killed."""
    [keeper] = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if _holds(path, folder) and b"burstlab.disk.reaper" in path.read_bytes()
    ]
    return keeper


def leftovers_of(folder: Path) -> list[str]:
    """Every mount, loop device and process that has to do with a folder, and the disks in it."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]
    loops = [str(path) for path in Path("/sys/block").glob("loop*/loop/backing_file") if _holds(path, folder)]
    processes = [
        path.read_bytes().replace(b"\0", b" ").decode()
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if _holds(path, folder) and path.parent.name != str(os.getpid())
    ]
    return [*mounts, *loops, *processes, *(str(path) for path in folder.glob("burstlab-disk-*"))]


def _holds(path, folder):
    try:
        return str(folder) in path.read_text()
    except (OSError, UnicodeDecodeError):
        return False


def loop_numbers(folder: Path) -> set[str]:
    """The device numbers of the loop devices on files of a folder."""
    backing = [path for path in Path("/sys/block").glob("loop*/loop/backing_file") if _holds(path, folder)]
    return {(path.parents[1] / "dev").read_text().strip() for path in backing}


def rules_for(numbers: set[str]) -> list[str]:
    """The cgroup's limits of loop devices that no one uses now."""
    used = {
        (path.parents[1] / "dev").read_text().strip()
        for path in Path("/sys/block").glob("loop*/loop/backing_file")
    }
    lines = [line for path in limit_files() for line in path.read_text().splitlines()]
    return [line for line in lines if line.split()[0] in numbers - used]


NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from burstlab.disk.block_device import BACKENDS
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from support.lab.disk_support import BURSTLAB, NOON, environment, leftovers_of, require_throttled_disk
from support.unprivileged import UNPRIVILEGED_ID
from support.waiting import wait_until


@pytest.fixture(params=BACKENDS)
def backend(request):
    require_throttled_disk(request.param)
    return request.param


@pytest.fixture
def start_disk(tmp_path):
    """Starts ``burstlab disk`` on this test's folder and sees that it is gone at the end."""
    require_throttled_disk()
    running = []

    def start(*options):
        process = subprocess.Popen(
            [*BURSTLAB, "disk", "--folder", str(tmp_path), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        running.append(process)
        wait_until(lambda: "burstlab-disk-" in " ".join(leftovers_of(tmp_path)) and _is_under_load(tmp_path))
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def _is_under_load(folder):
    return any(path.name.startswith("job-") for path in folder.glob("burstlab-disk-*/mnt/*"))


@pytest.fixture
def world_writable_dir():
    """A directory as /tmp: everybody may write, and remove only what is theirs."""
    folder = Path(tempfile.mkdtemp(prefix="shared-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def other_process():
    """A process of this test that user 65534 may end, and its line for a list of processes."""
    process = subprocess.Popen(["sleep", "300"])
    started = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
    yield process, f"{process.pid} {started}\n"
    process.kill()
    process.wait()


@pytest.fixture
def run_unprivileged():
    """Give a function that runs Python as another user."""
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED HERE: acting as another user needs root")

    def run(script: str, *arguments: object) -> None:
        python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
        subprocess.run(
            [python, "-c", f"import os, sys\n{script}", *map(str, arguments)],
            user=UNPRIVILEGED_ID,
            group=UNPRIVILEGED_ID,
            extra_groups=[],
            check=True,
        )

    return run


@pytest.fixture
def queued_fleet():
    return LabFleet(LabClock.manual(NOON), LabSettings(queued=True))


@pytest.fixture
def volume(queued_fleet):
    volume_id = queued_fleet.add(LabVolume(size_gib=33, load="steady:500"))
    volume = queued_fleet.find(volume_id)
    volume.measure(queued_fleet.now_s())
    return volume

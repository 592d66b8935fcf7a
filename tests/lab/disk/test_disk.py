import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from burstlab.disk import block_device as device_module
from burstlab.disk import docker
from burstlab.disk.block_device import BACKENDS, MKFS, DiskError, ThrottledDevice
from burstlab.disk.command import disk
from burstlab.disk.job_loop import JobLoop
from burstlab.disk.simulated_disk import SETTINGS, open_simulated_disk
from burstlab.disk.state_dir import lock, orphaned_state_dirs, remove
from burstlab.disk.throttle import TimeScale
from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet
from support.lab.disk_support import (
    environment,
    leftovers_of,
    loop_numbers,
    metric_of,
    reaper_pid,
    require_throttled_disk,
    rules_for,
)
from support.waiting import wait_until


def write_synchronously(mount, operations):
    """This many 4 KiB writes in place, each of them on the device before the next."""
    path = mount / "synchronous"
    path.write_bytes(bytes(4096))
    file = os.open(path, os.O_WRONLY | os.O_DSYNC)
    os.fsync(file)
    began_s = time.monotonic()
    for _ in range(operations):
        os.pwrite(file, bytes(4096), 0)
    os.close(file)
    return time.monotonic() - began_s


@pytest.mark.measures_a_disk
def test_a_device_serves_its_limit_and_a_new_limit_is_felt_at_once(backend, tmp_path):
    with ThrottledDevice(backend=backend, parent=tmp_path) as device:
        assert write_synchronously(device.mount, 200) < 1.5
        device.set_iops_limit(100)
        before = device.read_counters()
        # 200 operations at 100 a second, less what a tenth of a second lets through at once
        assert write_synchronously(device.mount, 200) == pytest.approx(2, abs=0.5)
        assert device.read_counters().completed - before.completed == pytest.approx(200, abs=25)
        device.set_iops_limit(2_000)
        assert write_synchronously(device.mount, 200) < 1.5
    assert leftovers_of(tmp_path) == []


@pytest.mark.measures_a_disk
def test_a_device_moves_no_more_bytes_than_its_limit_whatever_the_limit_of_operations(backend, tmp_path):
    with ThrottledDevice(backend=backend, parent=tmp_path) as device:
        device.set_iops_limit(3_000)
        device.set_bytes_limit(1 << 20)
        path, began_s = device.mount / "bytes", time.monotonic()
        path.write_bytes(bytes(3 << 20))
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.close(file)
        # 3 MiB at 1 MiB a second, less what is let through at once
        assert 2 < time.monotonic() - began_s < 5
        device.set_iops_limit(2_000)
        began_s = time.monotonic()
        path.write_bytes(bytes(2 << 20))
        os.sync()
        assert time.monotonic() - began_s > 1
        device.set_bytes_limit(None)
        assert write_synchronously(device.mount, 200) < 1.5
    assert leftovers_of(tmp_path) == []


@pytest.mark.parametrize("fs", MKFS)
def test_a_device_has_the_file_system_that_was_requested(fs, tmp_path):
    require_throttled_disk()
    if not shutil.which(f"mkfs.{fs}"):
        pytest.skip(f"NOT TESTED HERE: needs mkfs.{fs}")
    with ThrottledDevice(parent=tmp_path, file_system=fs, size_mib=512) as device:
        lines = Path("/proc/mounts").read_text().splitlines()
        assert [line.split()[2] for line in lines if line.split()[1] == str(device.mount)] == [fs]
    assert leftovers_of(tmp_path) == []


@pytest.mark.measures_a_disk
def test_the_bucket_drains_by_what_the_device_does_and_sets_its_limit(backend, tmp_path):
    time_scale = TimeScale.of(speed=240)
    with ThrottledDevice(backend=backend, parent=tmp_path) as device:
        fleet = LabFleet(LabClock(speed=240), SETTINGS)
        with open_simulated_disk(fleet, device, time_scale, size_gib=33, balance_pct=10) as disk:
            first_counters = device.read_counters()
            with JobLoop(device, pace_s=0):
                # 2,250 real credits at 2,900 a second more than the baseline gives
                wait_until(lambda: disk.controller.latest.balance_pct == 0, 5)
                emptied = device.read_counters().completed - first_counters.completed
                wait_until(lambda: disk.controller.latest.limit_iops == 100, 1)
                time.sleep(1)
                held_s, held = time.monotonic(), device.read_counters()
                time.sleep(2)
                iops = (device.read_counters().completed - held.completed) / (time.monotonic() - held_s)
            assert emptied == pytest.approx(2_250, rel=0.35)
            # never more than the baseline; less where a job just ends and one process works alone
            assert 40 < iops < 115
            modify_through_the_endpoint_and_feel_it(fleet, disk)
    assert leftovers_of(tmp_path) == []


def modify_through_the_endpoint_and_feel_it(fleet, disk):
    with Endpoint(fleet) as lab:
        now = fleet.clock.now()
        balances = metric_of(lab, disk.volume_id, "BurstBalance", "Minimum", now - timedelta(hours=1), now)
        assert balances[-1] == 0
        assert balances[0] == pytest.approx(10)
        lab.client("ec2").modify_volume(VolumeId=disk.volume_id, VolumeType="gp3", Iops=3_000, Throughput=125)
        wait_until(lambda: disk.controller.latest.volume_type == "gp3", 10)
        wait_until(lambda: disk.controller.latest.limit_iops == 3_000, 1)
        assert disk.controller.latest.balance_pct is None
        assert write_synchronously(disk.device.mount, 300) < 2  # at the baseline of 100 IOPS it takes 3 s


def needs_docker():
    if missing := [tool for tool in docker.PACKAGES if shutil.which(tool) is None]:
        pytest.skip(f"NOT TESTED HERE: Docker's containers need {', '.join(missing)}")


def test_a_job_of_docker_feels_the_limit_of_the_device_and_leaves_nothing(backend, tmp_path):
    needs_docker()
    with ThrottledDevice(backend=backend, parent=tmp_path) as device:
        job = docker.prepare_docker_job(device)
        device.set_iops_limit(300)
        before, began_s = device.read_counters(), time.monotonic()
        assert subprocess.run(job, check=False, timeout=60).returncode == 0
        # 32 writers of 28 blocks each, and the container itself: at 300 a second more than two seconds
        assert device.read_counters().completed - before.completed > 600
        assert time.monotonic() - began_s > 2
        cgroups = Path("/sys/fs/cgroup")
        assert list(cgroups.glob(f"*/{device.directory.name}")) or list(cgroups.glob(device.directory.name))
    assert leftovers_of(tmp_path) == []
    assert not list(cgroups.glob(f"*/{device.directory.name}"))


DOCKER_USER = """
import subprocess, sys, time
from pathlib import Path
from burstlab.disk.block_device import ThrottledDevice
from burstlab.disk.docker import prepare_docker_job
from support.waiting import wait_until
with ThrottledDevice(parent=Path(sys.argv[1])) as device:
    job = prepare_docker_job(device)
    device.set_iops_limit(20)
    subprocess.Popen(job)
    print(device.directory.name, flush=True)
    time.sleep(600)
"""


def test_killed_while_docker_runs_a_job_nothing_is_left(tmp_path):
    require_throttled_disk()
    needs_docker()
    user = subprocess.Popen(
        [sys.executable, "-c", DOCKER_USER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    name = user.stdout.readline().strip()
    wait_until(lambda: any(" -c writer() {" in line for line in leftovers_of(tmp_path)))
    user.kill()
    user.communicate()
    wait_until(lambda: leftovers_of(tmp_path) == [], 30)
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{name}"))


def test_a_disk_in_use_is_taken_out_of_sight_and_reported(tmp_path, monkeypatch):
    require_throttled_disk()
    device = ThrottledDevice(parent=tmp_path)
    monkeypatch.setattr(device_module, "remove", partial(remove, timeout_s=0.3))
    with pytest.raises(DiskError, match=r"is in use by \d+ \(sleep\)"), device:
        user = subprocess.Popen(["sleep", "60"], cwd=device.mount)
    user.kill()
    user.wait()
    wait_until(lambda: leftovers_of(tmp_path) == [])


def test_a_disk_that_cannot_be_built_leaves_nothing(tmp_path, monkeypatch):
    require_throttled_disk()
    real = device_module._run_command

    def fail_mkfs(command):
        if command[0] == "mkfs.ext4":
            raise DiskError("mkfs.ext4: no")
        return real(command)

    monkeypatch.setattr(device_module, "_run_command", fail_mkfs)
    with pytest.raises(DiskError, match="mkfs"), ThrottledDevice(parent=tmp_path):
        pass
    assert leftovers_of(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_takes_all_down(start_disk, tmp_path, number):
    process = start_disk()
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert leftovers_of(tmp_path) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_when_killed_under_load_the_reaper_takes_the_disk_down(start_disk, tmp_path, backend):
    require_throttled_disk(backend)
    process = start_disk("--backend", backend, "--balance", "0")
    numbers = loop_numbers(tmp_path)
    process.kill()
    wait_until(lambda: leftovers_of(tmp_path) == [], 30)
    assert rules_for(numbers) == []


def test_when_killed_with_its_reaper_clean_takes_the_disk_down(start_disk, tmp_path):
    process = start_disk("--balance", "0")
    os.kill(reaper_pid(tmp_path), signal.SIGKILL)
    process.kill()
    wait_until(lambda: orphaned_state_dirs(tmp_path))
    result = CliRunner().invoke(disk, ["--clean", "--folder", str(tmp_path)])
    assert (result.exit_code, "taken down: " in result.output) == (0, True), result.output
    assert leftovers_of(tmp_path) == []
    assert "nothing was left" in CliRunner().invoke(disk, ["--clean", "--folder", str(tmp_path)]).output


def test_clean_finds_a_mounted_disk_in_any_folder(start_disk, tmp_path):
    process = start_disk("--balance", "0")
    os.kill(reaper_pid(tmp_path), signal.SIGKILL)
    process.kill()
    wait_until(lambda: orphaned_state_dirs(tmp_path))
    result = CliRunner().invoke(disk, ["--clean"])
    assert (result.exit_code, f"taken down: {tmp_path}/" in result.output) == (0, True), result.output
    assert leftovers_of(tmp_path) == []


def test_a_disk_with_a_live_owner_is_not_cleaned(tmp_path):
    require_throttled_disk()
    with ThrottledDevice(parent=tmp_path) as device:
        assert orphaned_state_dirs(tmp_path) == []
        with pytest.raises(BlockingIOError):
            lock(device.directory)


def test_on_a_terminal_or_not_it_reports_where_the_disk_is_and_how_it_drains(tmp_path):
    require_throttled_disk()
    result = CliRunner().invoke(
        disk, ["--folder", str(tmp_path), "--for", "3", "--balance", "20", "--credits", "5400"]
    )
    assert result.exit_code == 0, result.output
    assert "export AWS_ENDPOINT_URL=http://127.0.0.1:" in result.stdout
    assert f" on {tmp_path}/burstlab-disk-" in result.stderr
    assert "of 100 IOPS, gp2" in result.stderr
    assert max(map(len, result.stderr.splitlines()[2:])) <= 80
    assert leftovers_of(tmp_path) == []


def test_without_root_it_reports_that_it_needs_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for options in ([], ["--clean"]):
        result = CliRunner().invoke(disk, options)
        assert (result.exit_code, "needs root" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--speed", "0.5"], "0.5 is not in the range"),
        (["--size", "1000"], "1000 is not in the range"),
        (["--balance", "101"], "101"),
        (["--backend", "nbd"], "'nbd' is not one of"),
        (["--speed", "1", "--credits", "10"], "give at least 54,000 credits"),
        (["--folder", "/nowhere"], "does not exist"),
    ],
)
def test_bad_input_is_reported_with_what_would_do(options, message):
    result = CliRunner().invoke(disk, options)
    assert result.exit_code != 0
    assert message in result.stderr
    assert "Traceback" not in result.stderr

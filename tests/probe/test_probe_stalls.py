"""What ddprobe leaves behind, and whom it accuses, on a real disk that stands still. Root is needed."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.probe.probe_process import Probe, gone, start
from support.probe.throttled_disk import ThrottledDisk

QUICK = ["--crit", "2s", "--deadline", "3s", "--look", "500ms"]


@contextmanager
def cold_and_stalled(loop_disk: ThrottledDisk, path: Path) -> Iterator[None]:
    """Nothing comes back from the disk, and the names of the path are not in memory."""
    path.mkdir(parents=True, exist_ok=True)
    loop_disk.forget()
    (loop_disk.path / "stuck").touch()
    loop_disk.stall()
    arguments = [
        "dd",
        "if=/dev/zero",
        f"of={loop_disk.path}/stuck",
        "bs=4k",
        "count=1",
        "oflag=direct",
        "status=none",
    ]
    writer = start(arguments, stderr=subprocess.DEVNULL)  # all else waits behind it
    until_s = time.monotonic() + 10
    while not loop_disk.writes_under_way() and time.monotonic() < until_s:
        time.sleep(0.02)
    assert loop_disk.writes_under_way()
    try:
        yield
    finally:
        loop_disk.thaw()
        writer.wait(60)


def find_stuck_processes(probe: Probe) -> list[str]:
    """Processes of these runs that are in state D."""
    stuck = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                is_own = os.fsencode(probe.run_dir) in (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if state == "D" and is_own:
                stuck.append(entry.name)
    return stuck


def catches_sigterm(pid: int) -> bool:
    """Whether the process has got as far as to its handler; before that SIGTERM just ends it."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def start_often(probe: Probe, *arguments: object, times: int = 6, **more: object) -> list[str]:
    ticks = []
    for _ in range(times):
        ticks.append(probe.start(*arguments, stderr=subprocess.DEVNULL, **more))
        time.sleep(0.1)
    return [tick.communicate(timeout=60)[0] for tick in ticks]


@pytest.mark.parametrize("mode", ["run", "passive", "explain"])
def test_starts_on_a_path_that_cannot_be_looked_up_leave_one_process(loop_disk, probe, mode):
    options = {"run": QUICK, "passive": ["--look", "500ms", "--crit", "2s"], "explain": []}
    arguments = [mode, "--run-dir", probe.run_dir, *options[mode]]
    with cold_and_stalled(loop_disk, loop_disk.path / "a" / "b"):
        start_often(probe, *arguments, loop_disk.path / "a" / "b", stdout=subprocess.DEVNULL)
        stuck = find_stuck_processes(probe)
        assert len(stuck) == 1
    assert gone(stuck)


@pytest.mark.parametrize("how", ["stall", "freeze"])
def test_starts_with_every_output_on_the_stalled_disk_leave_one_process(loop_disk, probe, how):
    out, log, prom = (loop_disk.path / f"{how}.{name}" for name in ("out", "json", "prom"))
    arguments = ["run", *QUICK, "--json", log, "--prom", prom, loop_disk.path]
    assert probe.run(*arguments).returncode == 0
    with out.open("a") as stdout:
        getattr(loop_disk, how)()
        start_often(probe, *arguments, stdout=stdout)
        stuck = find_stuck_processes(probe)
        assert len(stuck) == 1
        loop_disk.thaw()
    assert gone(stuck)
    probe.run(*arguments)
    assert [json.loads(line)["completed"] for line in log.read_text().splitlines()] == [
        True, *[False] * 6, True,
    ]  # fmt: skip


def test_a_lookup_that_does_not_return_is_reported_for_the_disk_it_waits_for_and_no_other(
    loop_disk, probe, tmp_path
):
    """Through a link that lies on a disk that is well."""
    link = tmp_path / "link"
    link.symlink_to(loop_disk.path / "c" / "d")
    readings = []
    with cold_and_stalled(loop_disk, loop_disk.path / "c" / "d"):
        for _ in range(2):
            line = probe.run("run", *QUICK, link).stdout
            (state_file,) = probe.run_dir.glob("*.json")
            readings.append(json.loads(state_file.read_text()))
    first, second = readings
    assert (first["verdict"], first["disks"], first["mount"]) == (
        "crit",
        [loop_disk.device],
        str(loop_disk.path),
    )
    assert (first["completed"], first["total_s"], first["reached"]) == (False, None, "passive")
    assert first["stuck_since"]
    assert second["stuck_since"] == first["stuck_since"]
    assert second["dd_s"] > first["dd_s"]
    assert f"CRIT {loop_disk.path} ({loop_disk.device})" in line
    assert "the path lookup has not returned in" in line


def test_a_path_that_was_known_before_its_disk_stuck_is_not_looked_up_again(loop_disk, probe):
    path = loop_disk.path / "e"
    path.mkdir(exist_ok=True)
    arguments = ["run", *QUICK, path]
    assert probe.run(*arguments).returncode == 0
    loop_disk.freeze()
    assert probe.read(*arguments)["completed"] is False
    place = next(probe.run_dir.glob("path-*.place"))
    assert place.read_text() == str(path)
    (lookup,) = probe.run_dir.glob("path-*.lock")
    noted = lookup.stat().st_mtime_ns
    again = probe.read(*arguments)
    assert "still has one under way" in again["skipped"][0]
    assert lookup.stat().st_mtime_ns == noted
    loop_disk.thaw()


def test_one_deadline_holds_for_all_paths_and_the_worst_comes_first(loop_disk, probe, tmp_path):
    loop_disk.freeze()
    loop_disk.stall()
    arguments = [
        "run",
        "--level",
        "classic",
        "--crit",
        "2s",
        "--deadline",
        "4s",
        tmp_path,
        loop_disk.outer,
        loop_disk.path,
    ]
    began_s = time.monotonic()
    done = probe.run(*arguments)
    took_s = time.monotonic() - began_s
    loop_disk.thaw()
    assert done.returncode == 2
    assert took_s < 4 + 2
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines] == ["CRIT", "CRIT", "OK"]


def test_serve_ends_within_the_time_of_its_unit_also_while_a_write_is_stuck(loop_disk, probe):
    arguments = ["serve", "--interval", "1s", "--max-credit-share", "100%", loop_disk.path]
    loop_disk.freeze()
    serving = probe.start(*arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until_s = time.monotonic() + 10
        while (
            not (find_stuck_processes(probe) and catches_sigterm(serving.pid)) and time.monotonic() < until_s
        ):
            time.sleep(0.1)
        assert find_stuck_processes(probe)
        stopped_at_s = time.monotonic()
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(60) == 0
        assert time.monotonic() - stopped_at_s < 4
    finally:
        serving.kill()
        serving.wait()
        loop_disk.thaw()


def test_an_overlay_on_two_disks_is_refused_with_the_next_step(loop_disk, probe):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    script = """
    mkdir -p "$0/lower/data" "$1/up" "$1/work" "$1/merged"
    echo x > "$0/lower/data/x"
    mount -t overlay -o "lowerdir=$0/lower,upperdir=$1/up,workdir=$1/work" x "$1/merged"
    shift; exec "$@"
    """
    run_dir = probe.run_dir
    command = probe.command("run", "--allow-fs", "overlay", run_dir / "merged" / "data")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", script, loop_disk.path, run_dir, *command],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "of an overlay, name its upperdir" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "limit", "code"),
    [(["--level", "classic"], "1M", 3), (["--level", "classic", "--engine", "dd"], "1M", 3), ([], "700K", 0)],
)
def test_a_quota_that_a_run_filled_is_free_again(probe, tmp_path, arguments, limit, code):
    if os.geteuid() != 0 or not shutil.which("mkfs.btrfs"):
        pytest.skip("a quota of btrfs needs root and mkfs.btrfs")
    # mkfs.btrfs refuses while a disk without its daemon is mounted, as another test may have left one
    script = """
    awk '$1 ~ /^.dev.loop/ {print $2}' /proc/mounts | xargs -r umount -l
    truncate -s 150M "$0/image"
    mkfs.btrfs -q "$0/image"
    mkdir "$0/mounted"
    mount -o loop "$0/image" "$0/mounted"
    btrfs quota enable "$0/mounted"
    btrfs subvolume create "$0/mounted/data"
    btrfs qgroup limit "$1" "$0/mounted/data"
    shift
    "$@" || code=$?
    dd if=/dev/urandom of="$0/mounted/data/theirs" bs=64k count=8 conv=fsync
    exit $code
    """
    random = [] if "dd" in arguments else ["--data", "random"]
    command = probe.command("run", *arguments, *random, "--json", "-", tmp_path / "mounted" / "data")
    # the mount is gone with its name space, and the loop device with the mount
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", script, tmp_path, limit, *command],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "EDQUOT" in done.stdout
    assert done.returncode == code, done.stderr  # and that of dd in the script would be 1
    assert '"verdict": "crit"' not in done.stdout

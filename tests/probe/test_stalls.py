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
from box import Box
from probing import Probe, start
from test_probe_disk import gone

QUICK = ["--crit", "2s", "--deadline", "3s", "--look", "500ms"]


@contextmanager
def cold_and_stalled(box: Box, path: Path) -> Iterator[None]:
    """Nothing comes back from the disk, and the names of the path are not in memory."""
    path.mkdir(parents=True, exist_ok=True)
    box.forget()
    (box.path / "stuck").touch()
    box.stall()
    words = ["dd", "if=/dev/zero", f"of={box.path}/stuck", "bs=4k", "count=1", "oflag=direct", "status=none"]
    writer = start(words, stderr=subprocess.DEVNULL)  # all else waits behind it
    until_s = time.monotonic() + 10
    while not box.writes_under_way() and time.monotonic() < until_s:
        time.sleep(0.02)
    assert box.writes_under_way()
    try:
        yield
    finally:
        box.thaw()
        writer.wait(20)


def left_by(probe: Probe) -> list[str]:
    """Processes of these runs that are in state D."""
    left = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                is_ours = os.fsencode(probe.memory) in (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if state == "D" and is_ours:
                left.append(entry.name)
    return left


def start_often(probe: Probe, *words: object, times: int = 6, **more: object) -> list[str]:
    ticks = []
    for _ in range(times):
        ticks.append(probe.start(*words, stderr=subprocess.DEVNULL, **more))
        time.sleep(0.1)
    return [tick.communicate(timeout=30)[0] for tick in ticks]


@pytest.mark.parametrize("mode", ["run", "passive"])
def test_starts_on_a_path_that_cannot_be_looked_up_leave_one_process(box, probe, mode):
    words = [mode, *(QUICK if mode == "run" else ["--look", "500ms", "--crit", "2s"])]
    with cold_and_stalled(box, box.path / "a" / "b"):
        start_often(probe, *words, box.path / "a" / "b", stdout=subprocess.DEVNULL)
        left = left_by(probe)
        assert len(left) == 1
    assert gone(left)


@pytest.mark.parametrize("how", ["stall", "freeze"])
def test_starts_with_every_output_on_the_sick_disk_leave_one_process(box, probe, how):
    out, log, prom = (box.path / f"{how}.{name}" for name in ("out", "json", "prom"))
    words = ["run", *QUICK, "--json", log, "--prom", prom, box.path]
    assert probe.run(*words).returncode == 0
    with out.open("a") as stdout:
        getattr(box, how)()
        start_often(probe, *words, stdout=stdout)
        left = left_by(probe)
        assert len(left) == 1
        box.thaw()
    assert gone(left)
    probe.run(*words)
    assert [json.loads(line)["completed"] for line in log.read_text().splitlines()] == [
        True, *[False] * 6, True,
    ]  # fmt: skip


def test_a_lookup_that_does_not_return_is_told_of_the_disk_it_waits_for_and_no_other(box, probe, tmp_path):
    """Through a link that lies on a disk that is well."""
    link = tmp_path / "link"
    link.symlink_to(box.path / "c" / "d")
    readings = []
    with cold_and_stalled(box, box.path / "c" / "d"):
        for _ in range(2):
            line = probe.run("run", *QUICK, link).stdout
            (kept,) = probe.memory.glob("*.json")
            readings.append(json.loads(kept.read_text()))
    first, second = readings
    assert (first["verdict"], first["disks"], first["mount"]) == ("crit", [box.device], str(box.path))
    assert (first["completed"], first["total_s"], first["reached"]) == (False, None, "passive")
    assert first["stuck_since"]
    assert second["stuck_since"] == first["stuck_since"]
    assert second["dd_s"] > first["dd_s"]
    assert f"CRIT {box.path} ({box.device})" in line
    assert "the path lookup has not returned in" in line


def test_a_path_that_was_known_before_its_disk_stuck_is_not_looked_up_again(box, probe):
    path = box.path / "e"
    path.mkdir(exist_ok=True)
    words = ["run", *QUICK, path]
    assert probe.run(*words).returncode == 0
    box.freeze()
    assert probe.read(*words)["completed"] is False
    place = next(probe.memory.glob("path-*.place"))
    assert place.read_text() == str(path)
    (lookup,) = probe.memory.glob("path-*.lock")
    noted = lookup.stat().st_mtime_ns
    again = probe.read(*words)
    assert "still has one under way" in again["skipped"][0]
    assert lookup.stat().st_mtime_ns == noted
    box.thaw()


def test_one_deadline_holds_for_all_paths_and_the_worst_comes_first(box, probe, tmp_path):
    box.freeze()
    box.stall()
    words = ["run", "--level", "classic", "--crit", "2s", "--deadline", "4s", tmp_path, box.outer, box.path]
    began_s = time.monotonic()
    done = probe.run(*words)
    took_s = time.monotonic() - began_s
    box.thaw()
    assert done.returncode == 2
    assert took_s < 4 + 2
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines] == ["CRIT", "CRIT", "OK"]


def test_serve_ends_within_the_time_of_its_unit_also_while_a_write_is_stuck(box, probe):
    words = ["serve", "--interval", "1s", "--max-credit-share", "100%", box.path]
    box.freeze()
    serving = probe.start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until_s = time.monotonic() + 10
        while not left_by(probe) and time.monotonic() < until_s:
            time.sleep(0.1)
        assert left_by(probe)
        asked_s = time.monotonic()
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(10) == 0
        assert time.monotonic() - asked_s < 4
    finally:
        serving.kill()
        serving.wait()
        box.thaw()


def test_an_overlay_on_two_disks_is_refused_with_the_next_step(box, probe):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    script = """
    mkdir -p "$0/lower/data" "$1/up" "$1/work" "$1/merged"
    echo x > "$0/lower/data/x"
    mount -t overlay -o "lowerdir=$0/lower,upperdir=$1/up,workdir=$1/work" x "$1/merged"
    shift; exec "$@"
    """
    memory = probe.memory
    command = probe.command("run", "--allow-fs", "overlay", memory / "merged" / "data")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", script, box.path, memory, *command],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "of an overlay, name its upperdir" in done.stdout


@pytest.mark.parametrize(
    ("words", "limit", "code"),
    [(["--level", "classic"], "1M", 3), (["--level", "classic", "--engine", "dd"], "1M", 3), ([], "700K", 0)],
)
def test_a_quota_that_a_run_filled_is_free_again(probe, tmp_path, words, limit, code):
    if os.geteuid() != 0 or not shutil.which("mkfs.btrfs"):
        pytest.skip("a quota of btrfs needs root and mkfs.btrfs")
    script = """
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
    random = [] if "dd" in words else ["--data", "random"]
    command = probe.command("run", *words, *random, "--json", "-", tmp_path / "mounted" / "data")
    # the mount is gone with its name space, and the loop device with the mount
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", script, tmp_path, limit, *command],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "EDQUOT" in done.stdout
    assert done.returncode == code, done.stderr  # and that of dd in the script would be 1
    assert '"verdict": "crit"' not in done.stdout

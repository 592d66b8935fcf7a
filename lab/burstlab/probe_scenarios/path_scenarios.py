"""Scenarios of the path: other file systems, links, and obstacles for the probe's own file."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from burstlab.probe_scenarios.registry import is_crit, is_ok, is_unknown, scenario
from burstlab.probe_scenarios.table import HEALTHY, ProbeRun
from burstlab.probe_scenarios.testbed import UNPRIVILEGED_UID, SkipError, Testbed

_MAX_REFUSAL_S: Final = 3.0  # a refusal writes nothing, so it does not wait for the disk
_NO_CREDIT_LIMIT: Final = ("--max-credit-share", "100%")


@scenario("refused", "refused with the next step, exit 3, at once")
def refused(testbed: Testbed) -> bool:
    """Tmpfs, proc, sysfs, overlay."""
    layers = testbed.device.mount
    for name in ("upper", "work"):
        (layers / name).mkdir()
    overlay = testbed.in_namespace(
        f"mount -t overlay -o lowerdir=/usr/share,upperdir={layers}/upper,workdir={layers}/work overlay /mnt"
    )
    probe_runs = [testbed.probe(paths=[path], truth=HEALTHY) for path in ("/dev/shm", "/proc", "/sys")]  # noqa: S108
    probe_runs.append(testbed.probe(paths=["/mnt"], truth=HEALTHY, prefix=overlay))
    return all(
        is_unknown(probe_run) and "--allow-fs" in probe_run.output and probe_run.duration_s < _MAX_REFUSAL_S
        for probe_run in probe_runs
    )


@scenario("overlay-allowed", "measured: OK, OK")
def overlay_allowed(testbed: Testbed) -> bool:
    """Overlay allowed: lower and upper on one disk, on two."""
    layers, results = testbed.device.mount, []
    for lower in (layers / "lower", Path("/usr/share")):
        for path in (layers / "lower", layers / f"upper-{lower.name}", layers / f"work-{lower.name}"):
            path.mkdir(exist_ok=True)
        options = f"lowerdir={lower},upperdir={layers}/upper-{lower.name},workdir={layers}/work-{lower.name}"
        prefix = testbed.in_namespace(f"mount -t overlay -o {options} overlay /mnt")
        probe_run = testbed.probe(
            "--allow-fs", "overlay", *_NO_CREDIT_LIMIT, paths=["/mnt"], truth=HEALTHY, prefix=prefix
        )
        results.append(is_ok(probe_run))
    return all(results)


@scenario("fuse-hung", "back in 15 s, nothing left")
def fuse_hung(testbed: Testbed) -> bool:
    """A FUSE file system whose server never answers; allowed."""
    probe_runs = [_probe_hung_fuse(testbed, *options) for options in ((), ("--allow-fs", "fuse"))]
    testbed.count_processes_left()
    are_bounded = all(run.duration_s < 15 and run.code in (2, 3) for run in probe_runs)  # noqa: PLR2004
    return are_bounded and not testbed.processes_left


def _probe_hung_fuse(testbed: Testbed, *options: str) -> ProbeRun:
    try:
        server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise SkipError(f"needs /dev/fuse: {error.strerror}") from error
    mount = f"mount -i -t fuse -o fd={server},rootmode=40000,user_id=0,group_id=0 hung /mnt"
    prefix = testbed.in_namespace(mount)
    try:
        return testbed.probe(*options, paths=["/mnt"], truth=None, prefix=prefix, pass_fds=[server])
    finally:
        os.close(server)


@scenario("not-a-directory", "refused, exit 3")
def not_a_directory(testbed: Testbed) -> bool:
    """A file, a device, a missing path, an empty one."""
    file = testbed.path / "file"
    file.write_text("content")
    paths = (file, testbed.device.path, testbed.path / "missing", "")
    results = [is_unknown(testbed.probe(paths=[path], truth=HEALTHY)) for path in paths]
    return all(results) and file.read_text() == "content"


@scenario(
    "own-file-taken",
    "UNKNOWN each, content untouched",
)
def own_file_taken(testbed: Testbed) -> bool:
    """Its own file is a link, a hard link, a FIFO, a directory, another user's."""
    user_data, results = testbed.path / "user-data", []
    user_data.write_text("precious")
    for kind in ("link", "hard link", "fifo", "directory", "theirs"):
        path = testbed.path / kind
        path.mkdir()
        own_file = path / ".ddprobe"
        if kind == "link":
            own_file.symlink_to(user_data)
        elif kind == "hard link":
            own_file.hardlink_to(user_data)
        elif kind == "fifo":
            os.mkfifo(own_file)
        elif kind == "directory":
            own_file.mkdir()
        else:
            own_file.write_text("theirs")
            os.chown(own_file, UNPRIVILEGED_UID, UNPRIVILEGED_UID)
        probe_run = testbed.probe("--level", "classic", *_NO_CREDIT_LIMIT, paths=[path], truth=HEALTHY)
        results.append(is_unknown(probe_run) and (kind != "theirs" or own_file.read_text() == "theirs"))
    return all(results) and user_data.read_text() == "precious"


@scenario("file-is-user-data", "refused, content untouched")
def file_is_user_data(testbed: Testbed) -> bool:
    """`--file` names user data of root's."""
    path = testbed.path / "data.db"
    path.write_text("14 bytes of it")
    probe_run = testbed.probe("--file", "data.db", "--level", "classic", truth=HEALTHY)
    is_untouched = path.read_text(errors="replace") == "14 bytes of it"
    testbed.notes.append("untouched" if is_untouched else f"overwritten: {path.stat().st_size} bytes now")
    return is_unknown(probe_run) and is_untouched


@contextmanager
def _make_link(target: Path) -> Iterator[Path]:
    """A link to it on another disk."""
    directory = Path(tempfile.mkdtemp(prefix="burstlab-link-", dir="/var/tmp"))
    try:
        (directory / "link").symlink_to(target)
        yield directory / "link"
    finally:
        shutil.rmtree(directory)


@scenario("link-healthy", "OK, of the disk that it leads to")
def link_healthy(testbed: Testbed) -> bool:
    """A link to a directory of a healthy disk."""
    with _make_link(testbed.path) as link:
        probe_run = testbed.probe(paths=[link], truth=HEALTHY)
    return is_ok(probe_run) and probe_run.is_about_tested_disk


@scenario(
    "link-stalled",
    "CRIT on the target's disk, never another",
)
def link_stalled(testbed: Testbed) -> bool:
    """A link on another disk, names not cached, its target's disk stalled."""
    with _make_link(testbed.path) as link:
        testbed.drop_name_cache()
        testbed.stall()
        probe_run = testbed.probe(paths=[link])
        testbed.count_processes_left()
    testbed.notes.append(f"device {probe_run.reading.get('device') or 'none'}")
    return is_crit(probe_run)


@scenario("deleted-mid-run", "measured or UNKNOWN")
def deleted_mid_run(testbed: Testbed) -> bool:
    """The directory is deleted during a run."""
    started = testbed.start("run", "--look", "2s", truth=HEALTHY)
    time.sleep(1)
    with suppress(OSError):
        shutil.rmtree(testbed.path)
    probe_run = testbed.finish(started)
    return is_ok(probe_run) or is_unknown(probe_run)


@scenario("deleted-mid-serve", "no CRIT; OK again")
def deleted_mid_serve(testbed: Testbed) -> bool:
    """The directory is deleted under `serve`, and made again."""
    with testbed.serve(*_NO_CREDIT_LIMIT, "--interval", "3s") as serving:
        serving.wait_for(lambda _: True, 15)
        shutil.rmtree(testbed.path)
        serving.wait_for(lambda reading: reading["verdict"] != "ok", 8)
        testbed.path.mkdir()
        healed = serving.wait_for(
            lambda reading: reading["level"] != "passive" and reading["verdict"] == "ok", 20
        )
        was_crit = any(reading["verdict"] == "crit" for reading in serving.all_readings())
        exit_code = serving.process.poll()
    testbed.record_serve(healed, HEALTHY)
    return healed is not None and not was_crit and exit_code is None


@scenario("hidden-by-root", "the first line of output is the worst")
def several_paths(testbed: Testbed) -> bool:
    """Several paths: `/` and a stalled disk."""
    testbed.stall()
    probe_run = testbed.probe(paths=["/", testbed.path], truth=None)
    first = probe_run.output.splitlines()[0] if probe_run.output else "nothing printed"
    testbed.notes.append(f"first line: {first[:40]}")
    return probe_run.code == 2 and first.startswith("DDPROBE CRIT")  # noqa: PLR2004 - Nagios' CRITICAL

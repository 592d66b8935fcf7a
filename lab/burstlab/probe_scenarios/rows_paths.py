"""What the path is: other file systems, links, what lies in the way of its own file."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from burstlab.probe_scenarios.rows import is_crit, is_ok, is_unknown, row
from burstlab.probe_scenarios.stage import NOBODY, SkipError, Stage
from burstlab.probe_scenarios.table import WELL, Seen

_SOON_S: Final = 3.0
_UNBOUND: Final = ("--max-credit-share", "100%")


@row("refused", "refused with the next step, exit 3, at once")
def refused(stage: Stage) -> bool:
    """Tmpfs, proc, sysfs, overlay."""
    layers = stage.device.mount
    for name in ("upper", "work"):
        (layers / name).mkdir()
    overlay = stage.in_namespace(
        f"mount -t overlay -o lowerdir=/usr/share,upperdir={layers}/upper,workdir={layers}/work overlay /mnt"
    )
    seen = [stage.probe(paths=[path], truth=WELL) for path in ("/dev/shm", "/proc", "/sys")]  # noqa: S108
    seen.append(stage.probe(paths=["/mnt"], truth=WELL, prefix=overlay))
    return all(is_unknown(each) and "--allow-fs" in each.said and each.took_s < _SOON_S for each in seen)


@row("overlay-allowed", "measured: OK, OK")
def overlay_allowed(stage: Stage) -> bool:
    """Overlay allowed: lower and upper on one disk, on two."""
    layers, held = stage.device.mount, []
    for lower in (layers / "lower", Path("/usr/share")):
        for path in (layers / "lower", layers / f"upper-{lower.name}", layers / f"work-{lower.name}"):
            path.mkdir(exist_ok=True)
        options = f"lowerdir={lower},upperdir={layers}/upper-{lower.name},workdir={layers}/work-{lower.name}"
        prefix = stage.in_namespace(f"mount -t overlay -o {options} overlay /mnt")
        seen = stage.probe("--allow-fs", "overlay", *_UNBOUND, paths=["/mnt"], truth=WELL, prefix=prefix)
        held.append(is_ok(seen))
    return all(held)


@row("fuse-hung", "back in 15 s, nothing left")
def fuse_hung(stage: Stage) -> bool:
    """A FUSE file system whose server never answers; allowed."""
    seen = [_on_hung_fuse(stage, *more) for more in ((), ("--allow-fs", "fuse"))]
    stage.count_left()
    return all(each.took_s < 15 and each.code in (2, 3) for each in seen) and not stage.left  # noqa: PLR2004


def _on_hung_fuse(stage: Stage, *options: str) -> Seen:
    try:
        server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise SkipError(f"needs /dev/fuse: {error.strerror}") from error
    mount = f"mount -i -t fuse -o fd={server},rootmode=40000,user_id=0,group_id=0 hung /mnt"
    prefix = stage.in_namespace(mount)
    try:
        return stage.probe(*options, paths=["/mnt"], truth=None, prefix=prefix, pass_fds=[server])
    finally:
        os.close(server)


@row("not-a-directory", "refused, exit 3")
def not_a_directory(stage: Stage) -> bool:
    """A file, a device, a missing path, an empty one."""
    file = stage.path / "file"
    file.write_text("content")
    paths = (file, stage.device.path, stage.path / "missing", "")
    held = [is_unknown(stage.probe(paths=[path], truth=WELL)) for path in paths]
    return all(held) and file.read_text() == "content"


@row(
    "own-file-taken",
    "UNKNOWN each, content untouched",
)
def own_file_taken(stage: Stage) -> bool:
    """Its own file is a link, a hard link, a FIFO, a directory, another user's."""
    user_data, held = stage.path / "user-data", []
    user_data.write_text("precious")
    for kind in ("link", "hard link", "fifo", "directory", "theirs"):
        path = stage.path / kind
        path.mkdir()
        own = path / ".ddprobe"
        if kind == "link":
            own.symlink_to(user_data)
        elif kind == "hard link":
            own.hardlink_to(user_data)
        elif kind == "fifo":
            os.mkfifo(own)
        elif kind == "directory":
            own.mkdir()
        else:
            own.write_text("theirs")
            os.chown(own, NOBODY, NOBODY)
        seen = stage.probe("--level", "classic", *_UNBOUND, paths=[path], truth=WELL)
        held.append(is_unknown(seen) and (kind != "theirs" or own.read_text() == "theirs"))
    return all(held) and user_data.read_text() == "precious"


@row("file-is-user-data", "refused, content untouched")
def file_is_user_data(stage: Stage) -> bool:
    """`--file` names user data of root's."""
    path = stage.path / "data.db"
    path.write_text("14 bytes of it")
    seen = stage.probe("--file", "data.db", "--level", "classic", truth=WELL)
    untouched = path.read_text(errors="replace") == "14 bytes of it"
    stage.notes.append("untouched" if untouched else f"overwritten: {path.stat().st_size} bytes now")
    return is_unknown(seen) and untouched


@contextmanager
def _link(target: Path) -> Iterator[Path]:
    """A link to it on another disk."""
    folder = Path(tempfile.mkdtemp(prefix="burstlab-link-", dir="/var/tmp"))
    try:
        (folder / "link").symlink_to(target)
        yield folder / "link"
    finally:
        shutil.rmtree(folder)


@row("link-healthy", "OK, of the disk that it leads to")
def link_healthy(stage: Stage) -> bool:
    """A link to a directory of a healthy disk."""
    with _link(stage.path) as link:
        seen = stage.probe(paths=[link], truth=WELL)
    return is_ok(seen) and seen.is_about


@row(
    "link-stalled",
    "CRIT on the target's disk, never another",
)
def link_stalled(stage: Stage) -> bool:
    """A link on another disk, names not cached, its target's disk stalled."""
    with _link(stage.path) as link:
        stage.forget_names()
        stage.stall()
        seen = stage.probe(paths=[link])
        stage.count_left()
    stage.notes.append(f"device {seen.reading.get('device') or 'none'}")
    return is_crit(seen)


@row("deleted-mid-run", "measured or UNKNOWN")
def deleted_mid_run(stage: Stage) -> bool:
    """The directory is deleted during a run."""
    started = stage.start("run", "--look", "2s", truth=WELL)
    time.sleep(1)
    with suppress(OSError):
        shutil.rmtree(stage.path)
    seen = stage.finish(started)
    return is_ok(seen) or is_unknown(seen)


@row("deleted-mid-serve", "no CRIT; OK again")
def deleted_mid_serve(stage: Stage) -> bool:
    """The directory is deleted under `serve`, and made again."""
    with stage.serve(*_UNBOUND, "--interval", "3s") as serving:
        serving.wait_for(lambda _: True, 15)
        shutil.rmtree(stage.path)
        serving.wait_for(lambda each: each["verdict"] != "ok", 8)
        stage.path.mkdir()
        healed = serving.wait_for(lambda each: each["level"] != "passive" and each["verdict"] == "ok", 20)
        was_crit = any(each["verdict"] == "crit" for each in serving.all_readings())
        ended = serving.process.poll()
    stage.note_serve(healed, WELL)
    return healed is not None and not was_crit and ended is None


@row("hidden-by-root", "the first line of output is the worst")
def several_paths(stage: Stage) -> bool:
    """Several paths: `/` and a stalled disk."""
    stage.stall()
    seen = stage.probe(paths=["/", stage.path], truth=None)
    first = seen.said.splitlines()[0] if seen.said else "nothing printed"
    stage.notes.append(f"first line: {first[:40]}")
    return seen.code == 2 and first.startswith("DDPROBE CRIT")  # noqa: PLR2004 - Nagios' CRITICAL

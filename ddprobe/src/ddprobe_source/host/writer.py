"""Writer: one series of writes to the one file that is ours."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from typing import Final

from ddprobe_source.host.clock import boot_clock
from ddprobe_source.host.files import kind_of, open_folder, read_text
from ddprobe_source.host.state_dirs import FileSystemLock, StateDirs, write_holder
from ddprobe_source.judgement.series import (
    BLOCK_BYTES,
    CLASSIC_BLOCK,
    CLASSIC_BLOCKS,
    LITE_BYTES,
    MIB,
    Plan,
    next_write,
    offset_of,
)

NO_SPACE_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_file(plan: Plan, send: Callable[[object], None], lock: int, dd_output: int) -> None:
    """Do the writes and say when each was done. Runs in a child: any line of it may never return."""
    parent, fd = os.getppid(), -1
    note_writer(lock, plan)
    send({"began_s": time.monotonic()})
    try:
        fd = open_own_file(plan)
        waited_s = _waited_for_cpu_s()
        if plan.level == "classic":
            os.ftruncate(fd, 0)
        else:
            fd, plan = make_blocks(fd, plan, send)
        send({"opened_s": time.monotonic()})
        if plan.engine == "dd" and plan.level == "classic":
            _become_dd(fd, send, dd_output)
        took_s: dict[str, list[float]] = {kind: [] for kind in BLOCK_BYTES}
        blocks = {size: _block(plan, size) for size in set(BLOCK_BYTES.values())}
        while (kind := next_write(plan, took_s)) is not None and os.getppid() == parent:
            try:
                if kind == "append" and not took_s["append"]:
                    make_room(fd, plan)
                began_s = time.monotonic()
                _write_whole(fd, blocks[BLOCK_BYTES[kind]], offset_of(kind, took_s))
            except OSError as fault:
                if kind == "bulk":
                    plan = _without_bulk(plan, fault, send)
                elif kind == "append" and fault.errno in NO_SPACE_ERRORS:
                    plan = plan.replaced(appends=0)
                    fd = _shrink(fd, BLOCK_BYTES["bulk"], plan)
                else:
                    raise
                continue
            took_s[kind].append(time.monotonic() - began_s)
            send({kind: took_s[kind][-1]})
        written_s = time.monotonic()
        os.close(fd)
        send({"cpu_wait_s": _waited_for_cpu_s() - waited_s})
        send({"written_s": written_s, "closed_s": time.monotonic()})
    except OSError as fault:
        if fd >= 0 and plan.level == "classic":
            remove_own_file(plan)
        send({"failure": (errno.errorcode.get(fault.errno or 0, "?"), fault.strerror or str(fault))})


def make_blocks(fd: int, plan: Plan, send: Callable[[object], None]) -> tuple[int, Plan]:
    """Write the missing blocks, so that later writes are in place; on a full disk, write fewer."""
    size = os.fstat(fd).st_size
    if plan.bulk and size < BLOCK_BYTES["bulk"]:
        try:
            _write_whole(fd, _block(plan, BLOCK_BYTES["bulk"]), 0)
            send({"made_bytes": BLOCK_BYTES["bulk"]})
        except OSError as fault:
            plan = _without_bulk(plan, fault, send)
            fd = _shrink(fd, size, plan)
    if os.fstat(fd).st_size < LITE_BYTES:
        _write_whole(fd, _block(plan, LITE_BYTES), 0)
        send({"made_bytes": LITE_BYTES})
    return fd, plan


def _shrink(fd: int, size: int, plan: Plan) -> int:
    """Give back what a quota let through; where btrfs refuses that as well, begin a new file."""
    try:
        os.ftruncate(fd, size)
    except OSError:
        os.close(fd)
        remove_own_file(plan)
        return open_own_file(plan)
    return fd


def open_own_file(plan: Plan) -> int:
    """Open the one file we write: ours, regular, with one name, on this file system, with room beside it.

    Its name begins with .ddprobe (see the command line), and its size is one that we leave: a file that
    somebody else made is neither written nor truncated.
    """
    folder_name, name = os.path.split(plan.path)
    folder = open_folder(folder_name)
    try:
        fd = _open_own_file_in(folder, name, plan)
        if os.fstat(fd).st_dev != os.fstat(folder).st_dev:
            raise OSError(
                errno.EXDEV,
                f"{plan.path} is not on the disk of its directory; of an overlay, name its upperdir",
            )
    finally:
        os.close(folder)
    return fd


def _open_own_file_in(folder: int, name: str, plan: Plan) -> int:
    how = os.O_SYNC if plan.level == "classic" else os.O_DSYNC
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | how
    refusal = OSError(errno.EPERM, f"{plan.path} is not a regular file: remove it, or choose another --file")
    try:
        if kind_of(os.stat(name, dir_fd=folder, follow_symlinks=False)) != "file":
            raise refusal
    except FileNotFoundError:
        pass
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    status = os.fstat(fd)
    if kind_of(status) != "file":
        raise refusal
    is_our_size = status.st_size % LITE_BYTES == 0 and status.st_size <= CLASSIC_BLOCK * CLASSIC_BLOCKS
    if status.st_nlink != 1 or status.st_uid != os.geteuid() or not is_our_size:
        raise OSError(errno.EPERM, f"{plan.path} is not ddprobe's own: remove it, or choose another --file")
    if plan.level == "classic":
        refuse_to_fill(fd, CLASSIC_BLOCK * CLASSIC_BLOCKS - status.st_blocks * 512, "a classic run")
    return fd


def refuse_to_fill(fd: int, growth: int, activity: str) -> None:
    """Raise ENOSPC where less than 1 % of the file system would be free after this many bytes more."""
    room = os.fstatvfs(fd)
    needed = growth + room.f_blocks * room.f_frsize // 100
    if growth > 0 and room.f_bavail * room.f_frsize < needed:
        raise OSError(errno.ENOSPC, f"less than {needed // MIB} MiB free: {activity} would fill the disk")


def make_room(fd: int, plan: Plan) -> None:
    """Cut off what earlier runs appended: only blocks that are new cost the journal what dd costs."""
    refuse_to_fill(fd, plan.appends * CLASSIC_BLOCK, "appending")
    os.ftruncate(fd, BLOCK_BYTES["bulk"])


def remove_own_file(plan: Plan, state_dirs: StateDirs | None = None) -> None:
    """Give back what was written before a write failed: part of a file may be all that a quota allows.

    It is not truncated, because btrfs refuses that too while the quota is full.
    """
    FileSystemLock(state_dirs, "output", 0.0).move_to(plan.path)
    folder_name, name = os.path.split(plan.path)
    try:
        os.unlink(name, dir_fd=open_folder(folder_name))
    except OSError:
        pass  # the failure before it is what counts


def _without_bulk(plan: Plan, fault: OSError, send: Callable[[object], None]) -> Plan:
    """Leave out the large writes if the disk is too full for them; any other fault is the disk's."""
    if fault.errno not in NO_SPACE_ERRORS:
        raise fault
    send({"no_bulk": f"{fault.strerror} ({errno.errorcode[fault.errno]})"})
    return plan.replaced(bulk=0, appends=0)


def _block(plan: Plan, size: int) -> bytes:
    """Give bytes that are in memory: other pages the kernel copies in parts, and reads blocks for that."""
    return os.urandom(size) if plan.data == "random" else b"\0" * size


def _write_whole(fd: int, block: bytes, offset: int) -> None:
    done = 0
    while done < len(block):
        done += os.pwrite(fd, block[done:], offset + done)


def _become_dd(fd: int, send: Callable[[object], None], output: int) -> None:
    """Run dd itself, on the file that was checked. It keeps lock and pipe, which closes when it ends."""
    os.dup2(output, 2)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and os.path.exists(f"/proc/self/fd/{name}"):  # noqa: PLR2004 - after stderr
            os.set_inheritable(int(name), True)
    target = f"of=/proc/self/fd/{fd}"
    for folder in ("/usr/bin", "/bin"):
        try:
            os.execve(  # noqa: S606 - no shell is wanted
                f"{folder}/dd",
                ["dd", "if=/dev/zero", target, "bs=1M", f"count={CLASSIC_BLOCKS}", "oflag=sync"],
                {**os.environ, "LC_ALL": "C"},  # its output is searched for an error
            )
        except FileNotFoundError:
            continue
    send({"failure": ("ENOENT", "no dd in /usr/bin or /bin: use --engine inproc, which writes the same")})
    os._exit(1)


def dd_failure(status: int, output: str) -> tuple[str, str]:
    """Name the error that dd printed; if it named none, the disk is not blamed."""
    if not os.WIFEXITED(status):
        return "?", "dd was killed: is memory short?"
    for number, code in errno.errorcode.items():
        if f": {os.strerror(number)}\n" in output:
            return code, os.strerror(number)
    return "?", f"dd ended with status {os.WEXITSTATUS(status)}"


def _waited_for_cpu_s() -> float:
    """Time this task was runnable and did not run."""
    fields = read_text("/proc/self/schedstat").split()
    return int(fields[1]) / 1e9 if len(fields) > 1 else 0.0


def note_writer(fd: int, plan: Plan) -> None:
    """Write into the lock file, which is in memory, what we are about to write."""
    write_holder(fd, plan.level, (boot_clock(), time.time()), plan.path)

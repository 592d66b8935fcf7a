"""Files: small ones of the kernel, paths name by name, and files that are replaced or appended to."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import Final

from ddprobe_source.judgement.disks import Mount, parse_mounts
from ddprobe_source.judgement.series import MIB

MAX_LINKS: Final = 40
"""As many symbolic links as the kernel follows in one path."""


def read_text(path: str, max_bytes: int = 65536) -> str:
    """Content of a small file of the kernel's, or "" if it does not exist or we may not read it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, max_bytes).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(fd)


def read_mounts() -> tuple[Mount, ...]:
    """Read the mounts as this process has them; empty if /proc is not mounted."""
    return parse_mounts(read_text("/proc/self/mountinfo", 1 << 20))


def list_names(folder: str) -> list[str]:
    """List a directory; empty if it does not exist or we may not read it."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def kind_of(status: os.stat_result) -> str:
    """Say what a name stands for, without the module that has names for the bits."""
    return {0o100000: "file", 0o040000: "folder", 0o120000: "link"}.get(status.st_mode & 0o170000, "other")


def name_of(path: str) -> str:
    """Name a path in names of files: the standard library's digests would be modules more to read."""
    return f"path-{int.from_bytes(os.fsencode(path), 'little') % ((1 << 61) - 1):x}"


def resolve_links(
    path: str, mounts: Sequence[Mount], before_step: Callable[[str], None]
) -> tuple[str, str | None]:
    """Follow a path name by name, as the kernel does, and call ``before_step`` before each name.

    Gives the path without symbolic links, and the last link of another user that it led through. At
    a mount point, and above it, no disk is queried: those directories cannot be replaced.
    """
    real, names, links, foreign_link = "/", path.split("/")[::-1], 0, None
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":
            real = os.path.dirname(real)
            continue
        step = os.path.join(real, name)
        if any(f"{mount.point}/".startswith(f"{step}/") for mount in mounts):
            real = step
            continue
        before_step(step)
        status = os.lstat(step)
        if kind_of(status) != "link":
            real = step
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if status.st_uid not in (0, os.geteuid()):
            foreign_link = step
        target = os.readlink(step)
        real = "/" if target.startswith("/") else real
        names += target.split("/")[::-1]
    return real, foreign_link


def open_folder(real: str) -> int:
    """Open a directory whose path was followed; raises OSError if it is now reached through a link."""
    fd = os.open(real, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    if os.readlink(f"/proc/self/fd/{fd}") != real:
        os.close(fd)
        raise OSError(errno.EPERM, f"{real} leads through a symbolic link that was not there before")
    return fd


def replace_file(path: str, text: str) -> None:
    """Write beside it, then rename: a reader sees the old or the new one, never half."""
    folder_name, name = os.path.split(path)
    folder, new = open_folder(folder_name), f".{name}.{os.urandom(8).hex()}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(new, flags, 0o600, dir_fd=folder)
        try:
            write_all(fd, text.encode())
            os.fchmod(fd, 0o644)
            os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.unlink(new, dir_fd=folder)
            raise
        finally:
            os.close(fd)
    finally:
        os.close(folder)


def write_all(fd: int, raw: bytes) -> None:
    """Write to the end: the kernel may take less than it is given."""
    while raw:
        raw = raw[os.write(fd, raw) :]


def append_line(path: str, line: str, max_bytes: int = 5 * MIB) -> None:
    """Append to a log that stays bounded: when it is full it becomes FILE.1.

    The log must be a regular file with one name. It and its directory must be ours or root's, and not
    writable for everyone: otherwise another user could make us append to any file.
    """
    folder_name, name = os.path.split(path)
    folder = open_folder(folder_name)
    fd = -1
    try:
        status = os.fstat(folder)
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o002:
            raise OSError(errno.EPERM, f"other users may write to {folder_name}; name a file elsewhere")
        fd = _open_log(folder, name)
        if os.fstat(fd).st_size > max_bytes:
            os.rename(name, name + ".1", src_dir_fd=folder, dst_dir_fd=folder)
            os.close(fd)
            fd = -1
            fd = _open_log(folder, name)
        write_all(fd, line.encode() + b"\n")
    finally:
        if fd >= 0:
            os.close(fd)
        os.close(folder)


def _open_log(folder: int, name: str) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    fd = os.open(name, flags, 0o644, dir_fd=folder)
    status = os.fstat(fd)
    if kind_of(status) != "file" or status.st_nlink != 1 or status.st_uid not in (0, os.geteuid()):
        os.close(fd)
        raise OSError(errno.EPERM, "not a regular file of ours with one name; remove it, or name another")
    return fd

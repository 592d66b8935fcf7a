"""Child tasks: a forked child does what may block, and we do not wait for it beyond a deadline."""

from __future__ import annotations

import marshal
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn

from ddprobe_source.judgement.record import ProbeError

STEP_S: Final = 0.1
_unreaped_pids: list[int] = []


class ChildTask:
    """A forked child that does one thing which may never end. Each wait for it has a deadline."""

    def __init__(self, work: Callable[[Callable[[object], None]], None], *, keep: Sequence[int] = ()) -> None:
        """Start ``work(send)``, with the files it is to keep; what it sends comes out of ``receive``."""
        self.fd, child_end = os.pipe()
        self.over = False
        self.status: int | None = None
        self._pending = b""
        try:
            self.pid = os.fork()
        except OSError as fault:
            os.close(self.fd)
            os.close(child_end)
            raise ProbeError(
                f"no process can be started ({fault.strerror}): allow more tasks (TasksMax, ulimit -u),"
                " or name fewer paths"
            ) from None
        if self.pid == 0:
            _run_in_child(work, child_end, keep)
        os.close(child_end)
        os.set_blocking(self.fd, False)

    def receive(self) -> list[Any]:
        """Everything that has arrived; ``over`` is true once nothing can follow."""
        while not self.over:
            try:
                chunk = os.read(self.fd, 65536)
            except BlockingIOError:
                break
            self._pending += chunk
            self.over = not chunk
        arrived = []
        while len(self._pending) >= 4:  # noqa: PLR2004 - the length in front
            end = 4 + int.from_bytes(self._pending[:4], "little")
            if len(self._pending) < end:
                break
            arrived.append(marshal.loads(self._pending[4:end]))
            self._pending = self._pending[end:]
        return arrived

    def answer(self, within_s: float) -> Any:
        """Give the last thing it sent before it ended, or None when it took too long; then it is given up."""
        until_s = time.monotonic() + within_s
        frames: list[Any] = []
        while not self.over and (left_s := until_s - time.monotonic()) > 0:
            wait_for([self.fd], min(STEP_S, left_s))
            frames += self.receive()
        frames += self.receive()
        self.give_up()
        return frames[-1] if frames else None

    def has_ended(self) -> bool:
        """Whether the process is gone; never blocks."""
        if self.status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                self.status = status
        return self.status is not None

    def give_up(self) -> None:
        """Kill it if it still runs and wait but a moment: in state D it dies when the disk answers."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd, self.over = -1, True
        if not self.has_ended():
            kill(self.pid)
        if not self.ends_within(0.02):
            _unreaped_pids.append(self.pid)

    def ends_within(self, seconds: float) -> bool:
        """Whether the process is gone by then, at the latest."""
        until_s = time.monotonic() + seconds
        while not self.has_ended() and time.monotonic() < until_s:
            time.sleep(0.001)
        return self.has_ended()


def _run_in_child(work: Callable[[Callable[[object], None]], None], fd: int, keep: Sequence[int]) -> NoReturn:
    def send(value: object) -> None:
        raw = marshal.dumps(value)  # type: ignore[arg-type] # what marshal cannot take is a fault of ours
        os.write(fd, len(raw).to_bytes(4, "little") + raw)

    try:
        os.setsid()
        _reset_signal_handlers()
        _close_other_files({fd, *keep})
        work(send)
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a child of a probe never speaks, it only ends
        os._exit(70)


def _reset_signal_handlers() -> None:
    signal = sys.modules.get("signal")
    if signal is not None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)


def _close_other_files(keep: set[int]) -> None:
    """Hold nothing of the caller's: an open pipe of a stuck child makes the caller wait as well."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    for fd in _open_descriptors():
        if fd > 2 and fd not in keep:  # noqa: PLR2004 - after stderr
            try:
                os.close(fd)
            except OSError:
                pass


def _open_descriptors() -> Sequence[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return range(1024)  # no /proc: as many as a process has by default


def kill(pid: int) -> None:
    """Ask the kernel to end it, as soon as it leaves state D."""
    try:
        os.kill(pid, 9)
    except (ProcessLookupError, PermissionError):
        pass


def reap() -> None:
    """Collect children that were given up and have ended since."""
    for pid in list(_unreaped_pids):
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                _unreaped_pids.remove(pid)
        except ChildProcessError:
            _unreaped_pids.remove(pid)


def wait_for(fds: Iterable[int], within_s: float) -> None:
    """Return when something can be read, or the time is over."""
    poll = select.poll()
    for fd in fds:
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    poll.poll(max(0, int(within_s * 1000 + 0.999)))

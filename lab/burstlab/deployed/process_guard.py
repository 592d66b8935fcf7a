"""Runs a command that must not outlive its parent; a separate script with the standard library only.

``python process_guard.py FOLDER COMMAND…`` runs the command in its own process group until it ends, until
this process is terminated, or until standard input is closed, which also happens when the parent dies. Then
it ends the whole group. FOLDER, unless it is ``-``, is deleted at the end.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

_TERMINATE_TIMEOUT_S = 5.0  # for a server to close its files; then the group is killed
_POLL_INTERVAL_S = 0.05  # a delay this short is not noticed
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def main(directory: str, command: Sequence[str]) -> int:
    """Run the command and return its exit code, as a shell would."""
    signals_received = list[int]()
    # before the command starts: a signal in between would end this process alone
    for number in _SIGNALS:
        signal.signal(number, lambda number, _frame: signals_received.append(number))
    child = subprocess.Popen(  # noqa: S603 - the command is ours
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_die_with_parent,  # noqa: PLW1509 - there are no threads here
    )
    is_released = False
    try:
        while child.poll() is None and not is_released:
            is_released = bool(signals_received) or _is_input_closed()
    finally:
        _end_group(child)
        if is_released and directory != "-":
            shutil.rmtree(directory, ignore_errors=True)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _die_with_parent() -> None:
    """If even this process is killed, Linux ends the command's."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def _is_input_closed() -> bool:
    """Whether the other side of standard input is closed; waits a moment for that."""
    readable, _, _ = select.select([0], [], [], _POLL_INTERVAL_S)
    return bool(readable) and not os.read(0, 4096)


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """Ask the group to end, and end it."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    _signal_group(child.pid, signal.SIGTERM)
    deadline = time.monotonic() + _TERMINATE_TIMEOUT_S
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL_S)
    _signal_group(child.pid, signal.SIGKILL)
    child.wait()


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

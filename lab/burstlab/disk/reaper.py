"""Takes a disk down when its creator is gone; a separate process that survives a SIGKILL of the creator.

``python -m burstlab.disk.reaper FOLDER`` waits until standard input ends; the builder holds its other end.
"""

import os
import signal
import sys
from pathlib import Path

from burstlab.disk.state_dir import is_private_directory, lock, remove, wait_until

_CLEANUP_TIMEOUT_S = 60.0  # unmounting waits for writes that the throttle still holds back


def main(directory: Path) -> int:
    """0 when nothing is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    wait_until(lambda: _try_take_down(directory), _CLEANUP_TIMEOUT_S)
    return 1 if directory.exists() else 0


def _try_take_down(directory: Path) -> bool:
    """Whether it is gone after another try."""
    if not is_private_directory(directory):
        return True
    try:
        lock_fd = lock(directory)
    except OSError:
        return not is_private_directory(directory)
    try:
        return not remove(directory)
    finally:
        os.close(lock_fd)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

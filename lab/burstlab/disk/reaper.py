"""Takes a disk down when whoever built it is gone: a process of its own, that outlives even SIGKILL of that.

``python -m burstlab.disk.reaper FOLDER`` waits until standard input ends; the builder holds its other end.
"""

import os
import signal
import sys
from pathlib import Path

from burstlab.disk.state_dir import is_ours, own, take_down, wait_until

_PATIENCE_S = 60.0


def main(folder: Path) -> int:
    """0 when nothing is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    wait_until(lambda: _is_clean(folder), _PATIENCE_S)
    return 1 if folder.exists() else 0


def _is_clean(folder: Path) -> bool:
    """Whether it is gone after another try."""
    if not is_ours(folder):
        return True
    try:
        holding = own(folder)
    except OSError:
        return not is_ours(folder)
    try:
        return not take_down(folder)
    finally:
        os.close(holding)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

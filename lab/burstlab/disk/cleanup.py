"""What killed commands left behind, taken down: at the next start, and by ``burstlab disk --clean``."""

import os
from collections.abc import Callable
from pathlib import Path

from burstlab.disk.block_device import DiskError
from burstlab.disk.state_dir import lock, orphaned_state_dirs, remove


def clean(log: Callable[[str], None], parent: Path | None = None) -> int:
    """Take down every disk without an owner, and answer how many there were.

    Raises:
        DiskError: something could not be removed; the message says what holds it.
    """
    leftovers, directories = [], orphaned_state_dirs(parent)
    for directory in directories:
        try:
            lock_fd = lock(directory)
        except OSError:
            continue  # its keeper is at it
        try:
            leftovers += remove(directory)
        finally:
            os.close(lock_fd)
        log(f"taken down: {directory}")
    if leftovers:
        raise DiskError("; ".join(leftovers))
    return len(directories)

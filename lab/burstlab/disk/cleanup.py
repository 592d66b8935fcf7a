"""What killed commands left behind, taken down: at the next start, and by ``burstlab disk --clean``."""

import os
from collections.abc import Callable
from pathlib import Path

from burstlab.disk.block_device import DiskError
from burstlab.disk.state_dir import own, ownerless, take_down


def clean(say: Callable[[str], None], parent: Path | None = None) -> int:
    """Take down every disk without an owner, and answer how many there were.

    Raises:
        DiskError: something could not be removed; the message says what holds it.
    """
    left, folders = [], ownerless(parent)
    for folder in folders:
        try:
            holding = own(folder)
        except OSError:
            continue  # its keeper is at it
        try:
            left += take_down(folder)
        finally:
            os.close(holding)
        say(f"taken down: {folder}")
    if left:
        raise DiskError("; ".join(left))
    return len(folders)

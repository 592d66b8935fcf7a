"""Tasks in state D, and what they wait for."""

from __future__ import annotations

from typing import Any, Final

from ddprobe_source.judgement.record import Record

STILL_S: Final = 1.0
"""Requests in the device and none completed for this long: a stall, at any limit."""
LOCK_WAITS: Final = (
    "percpu_rwsem", "__percpu", "rwsem_", "down_", "__down", "mutex_", "__mutex", "__vma_start", "sb_start",
    "freeze",
)  # fmt: skip
IO_WAITS: Final = (
    "folio_wait", "wait_on", "__wait_on", "io_schedule", "bit_wait_io", "blk_", "__blkdev", "submit_bio",
    "__iomap_dio", "dio_", "jbd2_", "do_get_write_access", "rq_qos", "wbt_", "balance_dirty", "xfs_", "xlog_",
    "ext4_", "btrfs_",
)  # fmt: skip
FREEZE_WAITS: Final = ("percpu_rwsem", "__percpu", "sb_start", "freeze")
SHARED_IO_WAITS: Final = ("folio_wait", "wait_on", "__wait_on", "io_schedule", "bit_wait_io", "balance_dirty")
"""Waits for a page or for memory, which a FUSE server can prolong as much as a disk."""
DISK_WAITS: Final = (*FREEZE_WAITS, *(name for name in IO_WAITS if name not in SHARED_IO_WAITS))
"""FUSE file systems cannot be frozen, and have no block device below them."""


class Tasks(Record):
    """What some passes over all threads saw."""

    passes: int
    pass_ms: float
    hidden: bool
    most: int
    most_here: int
    distinct: int
    main_only: int
    stuck: int
    stuck_here: int
    stuck_wchan: str
    slow: int
    unattributed: int
    own_seen: int
    own_in_d: int
    own_wchan: str
    top: list[dict[str, Any]]


class TaskSample:
    """One thread that was in state D."""

    __slots__ = ("comm", "first_s", "here", "is_root", "last_s", "still_s", "switches", "unit", "wchan")

    def __init__(self, now_s: float, switches: int) -> None:
        self.comm = self.wchan = self.unit = ""
        self.here = self.is_root = False
        self.first_s = self.last_s = self.still_s = now_s
        self.switches = switches

    @property
    def is_stuck(self) -> bool:
        """It has not run once for as long as a device may take at any limit."""
        return self.last_s - self.still_s >= STILL_S

    @property
    def waits_here(self) -> bool:
        """It waits for I/O or a lock, with a file on this disk: other waits in D any user can bring about.

        A user with a FUSE server of their own can also bring about the waits that every file system shares.
        Those count only for root's tasks and the kernel's, which do not enter such a file system.
        """
        waits = LOCK_WAITS + IO_WAITS if self.is_root else DISK_WAITS
        return self.here and self.wchan.startswith(waits)

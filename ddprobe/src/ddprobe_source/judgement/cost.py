"""What a write costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ddprobe_source.judgement.disks import Disk
from ddprobe_source.judgement.record import Record

KIB: Final = 1024
MIB: Final = 1024 * KIB
LITE_BYTES: Final = 4 * KIB
CLASSIC_BLOCK: Final = MIB
CLASSIC_BLOCKS: Final = 10
BLOCK_BYTES: Final = {
    "lite": LITE_BYTES,
    "bulk": MIB,
    "append": CLASSIC_BLOCK,
    "again": LITE_BYTES,
    "classic": CLASSIC_BLOCK,
}
"""Kinds of writes: bulk are in place, append makes the file longer as dd does, again are lite after those."""
LARGEST_EBS_IO: Final = 256 * KIB
LITE_CREDITS: Final = 2
BULK_CREDITS: Final = 5
BULK_WRITES: Final = 2
"""A throughput limit shows in the size of a write. Limits let 0.1 s of bytes through at once: of a limit that
makes dd take 1 s, that is 1 MiB, so it takes a second MiB to see it."""
APPEND_CREDITS: Final = 5
"""Beside its data: the journal's descriptor and commit, two flushes, and what is written back later."""
NEW_FILE_CREDITS: Final = 6
"""Journal writes and flushes that making our file costs, beside its data."""
USUAL_WRITES: Final = {"run": 16, "serve": 6}
"""Lite writes of the ladder: more operations than a limit of 100, or 300, a second hands out in one lump."""
CLASSIC_CREDITS: Final = 86
"""60 writes, 20 flushes and what the journal writes back later; whether flushes are charged is not known."""


class Cost(Record):
    """What one series of writes asks of the device, flushes counted as credits."""

    writes: int
    flushes: int
    credits: int


def cost_of(level: str, writes: int, disks: Sequence[Disk], *, bulk: int = 0, appends: int = 0) -> Cost:
    """Price a level, by the sizes the device takes: checked against its counters in the tests."""
    most_kib = min([LARGEST_EBS_IO // KIB, *(disk.max_io_kib for disk in disks)])
    requests_per_mib = -(-MIB // KIB // most_kib)
    if level == "lite":
        data, flushes = (
            writes + requests_per_mib * bulk + (requests_per_mib + 2) * appends,
            writes + bulk + 2 * appends,
        )
        appended = (requests_per_mib + APPEND_CREDITS) * appends
        return Cost(
            writes=data,
            flushes=flushes,
            credits=LITE_CREDITS * writes + (requests_per_mib + 1) * bulk + appended,
        )
    if level == "classic":
        data = CLASSIC_BLOCKS * requests_per_mib
        return Cost(writes=data + 26, flushes=20, credits=data + 46)
    return Cost(writes=0, flushes=0, credits=0)

"""Clocks and chance."""

from __future__ import annotations

import os
import time

from ddprobe_source.host.files import read_text


def format_instant(at_s: float) -> str:
    """ISO 8601, UTC, milliseconds."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at_s))}.{int(at_s * 1000) % 1000:03d}Z"


def boot_clock() -> float:
    """Seconds since boot, suspended time included: comparable between processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def startup_s() -> float | None:
    """Seconds since this process was started: on a sick root disk the interpreter alone takes many."""
    fields = read_text("/proc/self/stat").rpartition(")")[2].split()
    if len(fields) < 20:  # noqa: PLR2004 - starttime is the 22nd field, the 20th after the name
        return None
    return max(0.0, boot_clock() - int(fields[19]) / os.sysconf("SC_CLK_TCK"))


def random_below(seconds: float) -> float:
    """Spread a fleet over time."""
    return seconds * int.from_bytes(os.urandom(4), "little") / 2**32

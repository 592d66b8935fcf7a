"""Parts of a reading, the record from which every output is made."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, Final

from ddprobe_source.host.clock import format_instant
from ddprobe_source.judgement.counters import Delta
from ddprobe_source.judgement.disks import Site
from ddprobe_source.judgement.facts import Facts
from ddprobe_source.judgement.text import sanitise
from ddprobe_source.measure.measurer import WriteAttempt
from ddprobe_source.options import Options

VERSION: Final = "0.1.0"
READING_SCHEMA: Final = "burstwatch.reading/v1"


def failure_text(level: str, attempt: WriteAttempt) -> str:
    """Say why a level was not written to its end."""
    code, message = attempt.facts.failure or ("?", "?")
    return f"{level}: {message} ({code})"


def timing_fields(facts: Facts) -> dict[str, Any]:
    """How long it took, and what that means for the classic dd."""
    return {
        "total_s": None if facts.level in ("passive", "lookup") else facts.elapsed_s,
        "dd_s": facts.dd_s,
        "dd_measured": facts.level == "classic",
        "dd_at_least": facts.is_at_least,
        "io_delay_ms": None if facts.io_delay_s is None else 1000 * facts.io_delay_s,
        "healthy_s": facts.healthy_s,
        "ratio": facts.ratio,
        "cpu_wait_ms": 1000 * facts.cpu_wait_s,
    }


def part_fields(
    facts: Facts, attempt: WriteAttempt | None, attempts: Sequence[WriteAttempt]
) -> dict[str, Any]:
    """How long each part of it took."""
    progress = attempt.progress if attempt else None
    lite = next((attempt for attempt in attempts if attempt.facts.level == "lite"), None)
    return {
        "open_ms": _ms(progress.began_s, progress.opened_s) if progress else None,
        "write_ms": [1000 * seconds for seconds in facts.writes_s],
        "lite_ms": [1000 * seconds for seconds in lite.facts.writes_s]
        if lite and lite is not attempt
        else [],
        "bulk_ms": [1000 * seconds for seconds in lite.facts.bulk_s] if lite else [],
        "append_ms": [1000 * seconds for seconds in lite.facts.append_s] if lite else [],
        "close_ms": _ms(progress.written_s, progress.closed_s) if progress and progress.written_s else None,
        "pressure_ms": {k: v / 1000 for k, v in attempt.pressure_us.items()} if attempt else None,
        "observer_hung": attempt.observer_hung if attempt else False,
    }


def _ms(start_s: float, end_s: float | None) -> float | None:
    return None if end_s is None else 1000 * (end_s - start_s)


def site_fields(options: Options, site: Site, disk: Delta | None) -> dict[str, Any]:
    """Where and when it was measured."""
    return {
        "schema": READING_SCHEMA,
        "version": VERSION,
        "time": format_instant(time.time()),
        "host": sanitise(os.uname().nodename, 255),
        "instance_id": options.instance_id,
        "volume_id": _volume_of(site, disk),
        "volume_ids": site.volume_ids,
        "path": site.path,
        "mount": site.mount.point,
        "fs": site.mount.fs,
        "device": site.partition or site.mount.source,
        "disks": [disk.name for disk in site.disks],
        "startup_ms": options.startup_ms,
        "state_in_memory": True,
    }


def _volume_of(site: Site, disk: Delta | None) -> str | None:
    volume_ids = {device.name: device.volume_id for device in site.disks}
    first = next(iter(site.volume_ids), None)
    return (volume_ids.get(disk.disk) or first) if disk else first

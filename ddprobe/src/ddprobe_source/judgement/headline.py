"""One line for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ddprobe_source.judgement.facts import Thresholds
from ddprobe_source.judgement.text import format_duration, sanitise, sum_counts
from ddprobe_source.judgement.verdicts import NOT_MEASURED, OK, STALLED, UNCLEAR


def headline(reading: dict[str, Any], max_length: int = 400, *, by_path: bool = False) -> str:
    """One line of at max_length ``max_length`` characters; ``by_path`` names the path and not its mount."""
    name = reading["volume_id"] or ",".join(reading["disks"]) or reading["device"] or "disk not known"
    verdict = reading["verdict"].upper()
    mount = sanitise((not by_path and reading["mount"]) or reading["path"], 120)
    if reading["cause"] == NOT_MEASURED:
        return f"{verdict} {mount}: {sanitise(reading['reason'], max_length)}"[:max_length]
    cause = "cause unknown (the disk keeps no counters)" if reading["cause"] == UNCLEAR else reading["cause"]
    text = f"{verdict} {mount} ({sanitise(name, 120)}): {cause}, {_format_dd(reading)}"
    if not reading["dd_measured"] and any(why.startswith("bulk:") for why in reading["skipped"]):
        text += ", throughput not measured (no room for 1 MiB)"
    disk, dstate = reading["disk"], reading["dstate"]
    if disk and disk["await_ms"] is not None and reading["verdict"] != OK:
        text += f", {disk['per_s']:.0f} I/Os a second of {format_duration(disk['await_ms'] / 1000)} each"
    if dstate and dstate["most_here"]:
        here = [group for group in dstate["top"] if group["here"]]
        text += f", {dstate['most_here']} in state D: " + ", ".join(_format_groups(here)[:3])
    if (reading["startup_ms"] or 0) >= 1000:  # noqa: PLR2004 - a second
        text += f", started in {format_duration(reading['startup_ms'] / 1000)}"
    return text if len(text) <= max_length else text[: max_length - 1] + "~"


def _format_groups(top: Sequence[dict[str, Any]]) -> list[str]:
    counts = sum_counts((f"{group['comm']} [{group['wchan']}]", group["count"]) for group in top)
    return [f"{count} {name}" for name, count in counts.items()]


def _format_dd(reading: dict[str, Any]) -> str:
    if reading["reached"] == "passive" and not reading["completed"]:
        return f"the path lookup has not returned in {format_duration(reading['dd_s'])}"
    if reading["dd_s"] is None:
        if reading["error"]:
            return f"a write failed with {reading['error']}"
        return "nothing written" if reading["reached"] == "passive" else "not measured"
    if reading["reached"] == "passive" and reading["cause"] == STALLED:
        return f"nothing has come back for {format_duration(reading['dd_s'])}"
    if not reading["completed"]:
        return f"a write has not ended in {format_duration(reading['dd_s'])}"
    would = "would take at least" if reading["dd_at_least"] else "would take"
    return f"dd {'took' if reading['dd_measured'] else would} {format_duration(reading['dd_s'])}"


def nagios_line(reading: dict[str, Any], thresholds: Thresholds, *, by_path: bool = False) -> str:
    """The headline with performance data."""
    dd = "U" if reading["dd_s"] is None else f"{reading['dd_s']:.6f}s"
    data = [f"dd={dd};{thresholds.warn_s:g};{thresholds.crit_s:g};0"]
    delay_ms = reading["io_delay_ms"]
    data.append("io_delay=U;;;0" if delay_ms is None else f"io_delay={delay_ms:.3f}ms;;;0")
    data.append(f"blocked={(reading['dstate'] or {}).get('max_length', 0)};;;0")
    data.append(f"credits={reading['credits_total']:.0f}c")
    text = headline(reading, by_path=by_path).replace("|", "/")
    return f"DDPROBE {text} | {' '.join(data)}"

"""Formats: Prometheus, Graphite, collectd."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from ddprobe_source.judgement.text import sum_counts
from ddprobe_source.judgement.verdicts import CAUSES, EXIT_CODES, EXIT_ORDER

PROM_METRICS: Final = (
    ("dd_seconds", "Seconds the classic dd took, or would take.", lambda r: r["dd_s"]),
    ("duration_seconds", "Seconds the write that was made took so far.", lambda r: r["total_s"]),
    ("completed", "1 when the write ended.", lambda r: int(r["completed"])),
    ("verdict", "0 ok, 1 warn, 2 crit, 3 unknown.", lambda r: EXIT_CODES["nagios"][r["verdict"]]),
    ("io_delay_seconds", "Seconds one request waits.", lambda r: _seconds(r["io_delay_ms"])),
    ("startup_seconds", "Seconds the probe itself took to start.", lambda r: _seconds(r["startup_ms"])),
    ("credits_total", "I/O credits spent by the probe.", lambda r: r["credits_total"]),
)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def prom_text(readings: Sequence[dict[str, Any]]) -> str:
    """All readings as a textfile for node_exporter: no timestamps, and labels of bounded number.

    Of several paths on one mount the worst reading counts: a series may be in a textfile only once.
    """
    ordered = sorted(readings, key=lambda reading: EXIT_ORDER.index(reading["verdict"]))
    readings = list({_labels(reading): reading for reading in ordered}.values())
    lines = []
    for name, description, value_of in PROM_METRICS:
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP ddprobe_{name} {description}", f"# TYPE ddprobe_{name} {kind}"]
        for reading in readings:
            value = value_of(reading)
            if value is not None:
                lines.append(f"ddprobe_{name}{{{_labels(reading)}}} {value:.9g}")
    lines += ["# HELP ddprobe_cause 1 for the cause of the verdict.", "# TYPE ddprobe_cause gauge"]
    for reading in readings:
        lines += [
            f'ddprobe_cause{{{_labels(reading)},cause="{cause}"}} {int(cause == reading["cause"])}'
            for cause in CAUSES
        ]
    lines += ["# HELP ddprobe_dstate_tasks Threads seen in state D.", "# TYPE ddprobe_dstate_tasks gauge"]
    for reading in readings:
        for wchan, count in _by_wchan(reading).items():
            lines.append(f'ddprobe_dstate_tasks{{{_labels(reading)},wchan="{_label(wchan)}"}} {count}')
    lines += [
        "# HELP ddprobe_last_run_timestamp_seconds When the newest reading was taken: alert on its age.",
        "# TYPE ddprobe_last_run_timestamp_seconds gauge",
        f"ddprobe_last_run_timestamp_seconds {time.time():.3f}",
    ]
    return "\n".join(lines) + "\n"


def _labels(reading: dict[str, Any]) -> str:
    named = {"mount": reading["mount"], "device": reading["device"], "volume_id": reading["volume_id"] or ""}
    return ",".join(f'{name}="{_label(value)}"' for name, value in named.items())


def _label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _by_wchan(reading: dict[str, Any], limit: int = 10) -> dict[str, int]:
    counts = sum_counts(
        (group["wchan"], group["count"]) for group in (reading["dstate"] or {}).get("top", [])
    )
    return dict(sorted(counts.items(), key=lambda item: -item[1])[:limit])


def _numbers(reading: dict[str, Any]) -> dict[str, float]:
    """What goes to tools that keep one number under one name."""
    numbers = {
        "dd_seconds": reading["dd_s"],
        "completed": float(reading["completed"]),
        "verdict": float(EXIT_CODES["nagios"][reading["verdict"]]),
        "io_delay_seconds": _seconds(reading["io_delay_ms"]),
        "blocked_tasks": float((reading["dstate"] or {}).get("most", 0)),
        "startup_seconds": _seconds(reading["startup_ms"]),
        "credits": float(reading["credits_total"]),
    }
    return {name: value for name, value in numbers.items() if value is not None}


def _replace_dots(text: str) -> str:
    safe = "".join(char if char.isalnum() or char in "-_" else "_" for char in text)
    return safe.strip("_") or "root"


def graphite_text(reading: dict[str, Any], prefix: str) -> str:
    """Plaintext protocol: name, value, time."""
    base = ".".join(
        [prefix, _replace_dots(reading["host"]), _replace_dots(reading["volume_id"] or reading["device"])]
    )
    return "".join(
        f"{base}.{name} {value:.9g} {int(time.time())}\n" for name, value in _numbers(reading).items()
    )


def collectd_text(reading: dict[str, Any], host: str, interval_s: float) -> str:
    """PUTVAL lines for collectd's exec plugin."""
    plugin = f"ddprobe-{_replace_dots(reading['volume_id'] or reading['device'])}"
    return "".join(
        f'PUTVAL "{host}/{plugin}/gauge-{name}" interval={interval_s:g} N:{value:.9g}\n'
        for name, value in _numbers(reading).items()
    )

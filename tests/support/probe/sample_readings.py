"""A reading as the outputs take it: the seed incident."""

from typing import Any


def a_reading(**changes: Any) -> dict[str, Any]:
    top = [
        {"comm": "python3", "wchan": "__iomap_dio_rw", "unit": "ci.service", "here": True, "count": 48},
        {
            "comm": "jbd2/nvme1n1-8",
            "wchan": "jbd2_journal_commit_transaction",
            "unit": "",
            "here": True,
            "count": 1,
        },
    ]
    usual = {
        "time": "2026-11-20T18:00:00.000Z", "host": "ci-7.example", "instance_id": "i-0123456789abcdef0",
        "volume_id": "vol-0123456789abcdef0", "path": "/data", "mount": "/data", "device": "nvme1n1",
        "disks": ["nvme1n1"], "verdict": "crit", "cause": "throttled", "reason": "", "completed": True,
        "reached": "classic", "started_at": "2026-11-20T17:59:37.000Z", "total_s": 22.369, "dd_s": 22.369,
        "dd_measured": True, "dd_at_least": False, "skipped": [],
        "error": None, "io_delay_ms": 456.5, "startup_ms": 90.0, "credits_total": 96.0,
        "disk": {"await_ms": 455.0, "per_s": 100.0}, "dstate": {"most": 50, "most_here": 49, "top": top},
    }  # fmt: skip
    return usual | changes

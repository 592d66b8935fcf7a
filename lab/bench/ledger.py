"""How fast the SQLite ledger is beside a year of history.

.venv/bin/python lab/bench/ledger.py [entries]
"""

import sys
import tempfile
import time
from pathlib import Path

from burstwatch.adapters.ledger_sqlite import SqliteLedger
from burstwatch.core.ledger import Change, EntryKind, LedgerEntry, TickKind, VolumeState
from burstwatch.core.levels import Level


def change(number: int) -> Change:
    """What a look at one volume changes."""
    volume_id = f"vol-{number:017x}"
    state = VolumeState(
        volume_id=volume_id, revision=1, level=Level.WARNING, next_look_at_s=1, balance_pct=31.5
    )
    return Change(volume_id=volume_id, expected_revision=None, state=state)


def history(number: int, count: int) -> list[LedgerEntry]:
    """So many entries of one volume."""
    body = {"from": "watch", "to": "warning"}
    return [
        LedgerEntry(
            volume_id=f"vol-{number:017x}", revision=at_s, kind=EntryKind.LEVEL_CHANGED, at_s=at_s, body=body
        )
        for at_s in range(1, count + 1)
    ]


def timed(name: str, action) -> None:
    """Print the wall and processor time of one action."""
    began, spent = time.perf_counter(), time.process_time()
    action()
    wall_ms, cpu_ms = (time.perf_counter() - began) * 1e3, (time.process_time() - spent) * 1e3
    print(f"{name:<44} {wall_ms:>8.1f} ms wall {cpu_ms:>8.1f} ms cpu")


def main(entries: int) -> None:
    """Fill a ledger with history, then time what a pass does with it."""
    per_volume = 1_000
    with (
        tempfile.TemporaryDirectory() as directory,
        SqliteLedger.open(Path(directory) / "ledger.sqlite") as ledger,
    ):
        for number in range(entries // per_volume):
            past = Change(
                volume_id=f"vol-{number:017x}",
                expected_revision=None,
                state=None,
                entries=history(number, per_volume),
            )
            ledger.commit([past], channels=[])
        size_mb = (Path(directory) / "ledger.sqlite").stat().st_size / 1e6
        print(f"beside {entries:,} entries, {size_mb:,.0f} MB")
        many = [change(number) for number in range(5_000)]
        timed("commit of 1,000 changes", lambda: ledger.commit(many[:1_000], channels=[]))
        ledger.commit(many[1_000:], channels=[])
        timed("states of 5,000 volumes", ledger.states)
        timed(f"entries of one volume ({per_volume:,})", lambda: ledger.entries("vol-00000000000000001"))
        fleet = frozenset(range(2**63, 2**63 + 100_000))
        timed("roster of 100,000, written", lambda: ledger.complete_tick(TickKind.SWEEP, 300, roster=fleet))
        timed("roster of 100,000, read", ledger.roster)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 100_000)

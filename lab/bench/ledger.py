"""How fast the SQLite ledger is beside a year of history.

.venv/bin/python lab/bench/ledger.py [entries]
"""

import argparse
import tempfile
import time
from pathlib import Path

from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ledger.caps import Caps, IntentStatus
from burstwatch.core.ledger.flip_state import WATCHDOG, Direction, Flip, FlipCause, FlipStatus
from burstwatch.core.ledger.ledger import Change, TickKind
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import LastReading, ResourceState


def change(number: int) -> Change:
    """What a look at one volume changes."""
    volume_id = f"vol-{number:017x}"
    state = ResourceState(
        volume_id=volume_id,
        revision=1,
        level=Level.WARNING,
        next_poll_at_s=1,
        reading=LastReading(balance_pct=31.5),
    )
    return Change(volume_id=volume_id, expected_revision=None, state=state)


def make_flip_change(number: int, phase: FlipStatus, *, revision: int) -> Change:
    """What an intent or its outcome changes, with its entry."""
    volume_id = f"vol-{number:017x}"
    flip = Flip(
        status=phase,
        direction=Direction.FLIP,
        intent_id=f"{number:016x}",
        cause=FlipCause.DRAINING,
        by=WATCHDOG,
        original=Configuration(volume_type=VolumeType.GP2),
        target=Configuration(volume_type=VolumeType.GP3, iops=3000, throughput_mib_s=128),
        size_gib=100,
        requested_at_s=1,
        usd_per_month=1.5,
    )
    state = ResourceState(volume_id=volume_id, revision=revision, level=Level.CRITICAL, flip=flip)
    kind = EntryKind.INTENT if phase is FlipStatus.REQUESTED else EntryKind.ACCEPTED
    entry = LedgerEntry(
        volume_id=volume_id, revision=revision, kind=kind, at_s=revision, body=flip.to_document()
    )
    expected = None if phase is FlipStatus.REQUESTED and revision == 1 else revision - 1
    return Change(volume_id=volume_id, expected_revision=expected, state=state, entries=[entry])


def record_flips(ledger: SqliteLedger, numbers: range) -> None:
    """The intent and the outcome of each, as a pass that flips them would record them."""
    for number in numbers:
        record_intent(ledger, number)
        accepted = make_flip_change(number, FlipStatus.IN_PROGRESS, revision=2)
        assert ledger.commit([accepted], channels=[])


def record_intent(ledger: SqliteLedger, number: int) -> None:
    """One intent, within caps that have to be added up."""
    caps = Caps(volumes=1_000_000, usd_per_month=1e9)
    intent = make_flip_change(number, FlipStatus.REQUESTED, revision=1)
    result = ledger.record_intent(intent, caps, now_s=0, respects_holds=True, channels=[])
    assert result.status is IntentStatus.RECORDED


def make_history(number: int, count: int) -> list[LedgerEntry]:
    """This many entries of one volume."""
    body = {"from": "watch", "to": "warning"}
    return [
        LedgerEntry(
            volume_id=f"vol-{number:017x}", revision=at_s, kind=EntryKind.LEVEL_CHANGED, at_s=at_s, body=body
        )
        for at_s in range(1, count + 1)
    ]


def time_action(name: str, action) -> None:
    """Print the wall and processor time of one action."""
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    action()
    wall_ms, cpu_ms = (time.perf_counter() - started_s) * 1e3, (time.process_time() - started_cpu_s) * 1e3
    print(f"{name:<44} {wall_ms:>8.1f} ms wall {cpu_ms:>8.1f} ms cpu")


def main() -> None:
    """Fill a ledger with history, then time what a pass does with it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("entries", type=int, nargs="?", default=100_000)
    entries = parser.parse_args().entries
    per_volume = 1_000
    with (
        tempfile.TemporaryDirectory() as directory,
        SqliteLedger.open(Path(directory) / "ledger.sqlite") as ledger,
    ):
        for number in range(entries // per_volume):
            history_change = Change(
                volume_id=f"vol-{number:017x}",
                expected_revision=None,
                state=None,
                entries=make_history(number, per_volume),
            )
            ledger.commit([history_change], channels=[])
        size_mb = (Path(directory) / "ledger.sqlite").stat().st_size / 1e6
        print(f"beside {entries:,} entries, {size_mb:,.0f} MB")
        many = [change(number) for number in range(5_000)]
        time_action("commit of 1,000 changes", lambda: ledger.commit(many[:1_000], channels=[]))
        ledger.commit(many[1_000:], channels=[])
        time_action("states of 5,000 volumes", ledger.states)
        volume_ids = {change.volume_id for change in many[:100]}
        time_action("states of 100 of 5,000 volumes", lambda: ledger.states_of(volume_ids))
        time_action("begin of 1 intent beside 5,000 states", lambda: record_intent(ledger, 10_000))
        time_action(
            "100 intents and 100 outcomes, one by one", lambda: record_flips(ledger, range(20_000, 20_100))
        )
        flipped_changes = [
            make_flip_change(number, FlipStatus.ON_TARGET, revision=2) for number in range(5_000)
        ]
        ledger.commit(flipped_changes, channels=[])
        time_action("begin of 1 intent beside 5,000 flips", lambda: record_intent(ledger, 30_000))
        time_action("states of 5,000 flipped volumes", ledger.states)
        time_action(
            f"entries of one volume ({per_volume:,})", lambda: ledger.entries("vol-00000000000000001")
        )
        fleet = frozenset(range(2**63, 2**63 + 100_000))
        time_action(
            "roster of 100,000, written",
            lambda: ledger.complete_tick(TickKind.SWEEP, 300, fleet_fingerprints=fleet),
        )
        time_action("roster of 100,000, read", ledger.fleet_snapshot)


if __name__ == "__main__":
    main()

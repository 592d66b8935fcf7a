"""Whether a watchdog that may act is at work: ``burstctl watch --act`` leaves a mark in its ledger."""

from collections.abc import Iterable
from typing import Final

from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry

PRESENCE_SUBJECT: Final = "watchdog"
"""What the marks are filed under."""

PRESENCE_INTERVAL_S: Final = 10 * 60  # two marks may be lost before the watchdog counts as gone
PRESENCE_TIMEOUT_S: Final = 30 * 60
"""A watchdog whose newest mark is older than this has ended."""


def presence_change(now_s: float) -> Change:
    """What to commit while a watchdog that may act is at work."""
    entry = LedgerEntry(
        volume_id=PRESENCE_SUBJECT, revision=int(now_s), kind=EntryKind.ACTING, at_s=int(now_s)
    )
    return Change(volume_id=PRESENCE_SUBJECT, expected_revision=None, state=None, entries=(entry,))


def is_watchdog_present(entries: Iterable[LedgerEntry], now_s: float) -> bool:
    """Whether one of the entries of ``PRESENCE_SUBJECT`` is a recent mark."""
    return any(
        entry.kind is EntryKind.ACTING and abs(now_s - entry.at_s) <= PRESENCE_TIMEOUT_S for entry in entries
    )

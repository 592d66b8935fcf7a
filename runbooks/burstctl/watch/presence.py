"""Whether a watchdog that may act is at work: ``burstctl watch --act`` leaves a mark in its ledger."""

from collections.abc import Iterable
from typing import Final

from burstwatch.core.ledger.ledger import Change, EntryKind, LedgerEntry

SUBJECT: Final = "watchdog"
"""What the marks are filed under."""

MARK_EVERY_S: Final = 10 * 60
RECENT_S: Final = 30 * 60
"""A watchdog that left its newest mark longer ago than this has ended."""


def make_mark(now_s: float) -> Change:
    """What to commit while a watchdog that may act is at work."""
    entry = LedgerEntry(volume_id=SUBJECT, revision=int(now_s), kind=EntryKind.ACTING, at_s=int(now_s))
    return Change(volume_id=SUBJECT, expected_revision=None, state=None, entries=(entry,))


def is_at_work(entries: Iterable[LedgerEntry], now_s: float) -> bool:
    """Whether one of the entries of ``SUBJECT`` is a recent mark."""
    return any(entry.kind is EntryKind.ACTING and abs(now_s - entry.at_s) <= RECENT_S for entry in entries)

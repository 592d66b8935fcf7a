"""Days in the life of a volume, for pictures: its history, and the ledger's lines about it."""

from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.ebs.pricing import Configuration
from burstwatch.core.ledger.flip_state import configuration_to_document
from burstwatch.core.ledger.ledger_entry import FLEET, EntryKind, LedgerEntry
from burstwatch.core.text import format_instant
from support.builders.core_values import GP2, GP3, at

VOLUME_ID = "vol-0123456789abcdef0"


def an_entry(
    kind: EntryKind, clock: str, /, *, subject: str = VOLUME_ID, revision: int | None = None, **body
) -> LedgerEntry:
    """A line of the ledger; those of one moment share a revision, as those of one change do."""
    at_s = int(at(clock))
    return LedgerEntry(volume_id=subject, revision=revision or at_s, kind=kind, at_s=at_s, body=body)


def a_level(clock: str, before: str, after: str) -> LedgerEntry:
    return an_entry(EntryKind.LEVEL_CHANGED, clock, **{"from": before, "to": after})


def an_alert_entry(clock: str, kind: str, level: str = "ok", summary: str | None = None) -> LedgerEntry:
    body = {
        "alert_id": f"{kind}-{clock}",
        "kind": kind,
        "level": level,
        "previous_level": "ok",
        "is_reminder": False,
        "volume": {"volume_id": VOLUME_ID},
        "reading": {},
        "forecast": {},
        "evidence": {} if summary is None else {"summary": summary},
        "action": None,
        "runbook": None,
        "console_url": None,
        "time": format_instant(at(clock)),
    }
    return an_entry(EntryKind.ALERT, clock, **body)


def a_flip_entry(
    kind: EntryKind,
    clock: str,
    summary: str,
    *,
    direction: str = "out",
    target: Configuration = GP3,
    intent: str = "i1",
    **body,
) -> LedgerEntry:
    """A step of a flip: out to the target, or back from it."""
    target_document, gp2_document = configuration_to_document(target), configuration_to_document(GP2)
    facts = {"direction": direction, "intent_id": intent, "by": "watchdog", "summary": summary}
    facts |= (
        {"from": gp2_document, "to": target_document}
        if direction == "out"
        else {"from": target_document, "to": gp2_document}
    )
    return an_entry(kind, clock, **(facts | body))


def a_round_trip() -> list[LedgerEntry]:
    """Out at ten, on its target at half past, asked back at two, and back at half past two."""
    back = {"direction": "back", "intent": "i2"}
    return [
        a_flip_entry(EntryKind.ACCEPTED, "10:00", "is being modified to gp3"),
        a_flip_entry(EntryKind.REACHED, "10:30", "is gp3 now"),
        a_flip_entry(EntryKind.ACCEPTED, "14:00", "is being modified to gp2", **back),
        a_flip_entry(EntryKind.RESTORED, "14:30", "is gp2 again, as before", **back),
    ]


def a_hold(clock: str, until: str, *, subject: str = VOLUME_ID, by: str = "anna") -> LedgerEntry:
    return an_entry(
        EntryKind.HELD, clock, subject=subject, by=by, reason="snapshot running", until_s=int(at(until))
    )


def a_release(clock: str, until: str, *, subject: str = VOLUME_ID) -> LedgerEntry:
    return an_entry(
        EntryKind.RELEASED,
        clock,
        subject=subject,
        by="ben",
        reason="snapshot running",
        until_s=int(at(until)),
    )


def a_stall(clock: str, total_s: float, *, reported_at: str | None = None) -> LedgerEntry:
    return an_entry(
        EntryKind.STALL,
        reported_at or clock,
        instance_id="i-0123456789abcdef0",
        verdict="CRIT",
        cause="the bucket is empty",
        started_at=format_instant(at(clock)),
        total_s=total_s,
        summary=f"stood still for {total_s:,.1f} s, says its host",
    )


def minutes(first: str, *values: float, skip: range = range(0)) -> Series:
    """One-minute values from a time on; those whose place is in ``skip`` are missing."""
    start_s = int(at(first))
    return Series.from_pairs((start_s + 60 * n, value) for n, value in enumerate(values) if n not in skip)


def a_history(balance: Series = Series(), *, reads: float = 300, writes: float = 900) -> MetricHistory:
    """The balance, and as many reads and writes a second in each of its minutes."""
    return MetricHistory(
        period_s=60,
        balance=balance,
        read_ops=Series(balance.starts_at_s, (60.0 * reads,) * len(balance)),
        write_ops=Series(balance.starts_at_s, (60.0 * writes,) * len(balance)),
    )


def falling(first: str, from_pct: float, per_minute: float, count: int, **fields) -> Series:
    """A balance that falls by so much a minute, to nothing at most."""
    return minutes(first, *(max(0.0, from_pct - per_minute * n) for n in range(count)), **fields)


def for_all_volumes(entry: LedgerEntry) -> LedgerEntry:
    return LedgerEntry(
        volume_id=FLEET, revision=entry.revision, kind=entry.kind, at_s=entry.at_s, body=entry.body
    )

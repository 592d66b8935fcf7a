"""Conversion between local times and instants."""

from bisect import bisect_left
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo


def parse_zone(text: str) -> ZoneInfo:
    """Read the IANA name of a time zone.

    Raises:
        ValueError: the name is unknown.
    """
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"{text!r} is not a known time zone; write an IANA name such as Europe/Berlin"
        ) from None


def first_instant(local: datetime, zone: tzinfo) -> datetime:
    """The first instant at which the local time of ``zone`` is ``local`` or later.

    That is the end of a skipped hour for a time in it, and the first occurrence of a time that occurs twice.
    """
    at, folded_at = (local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if at <= folded_at:
        return at

    def is_reached(second: int) -> bool:
        return (folded_at + timedelta(seconds=second)).astimezone(zone).replace(tzinfo=None) >= local

    skipped_s = int((at - folded_at).total_seconds())
    return folded_at + timedelta(seconds=bisect_left(range(skipped_s), x=True, key=is_reached))

"""Change hours: the days and hours in which changes may be made, in the local time of one zone."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from itertools import count
from typing import Final
from zoneinfo import ZoneInfo

from burstwatch.core.durations import DAY
from burstwatch.core.policy.timezones import first_instant, parse_zone

ALWAYS: Final = "always"

_MIDNIGHT: Final = time(0)
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TEXT = re.compile(r"(\S+) +(\d\d:\d\d)-(\d\d:\d\d) +(\S+)", re.ASCII)
_DAYS = re.compile(r"([a-z]{3})(?:-([a-z]{3}))?")
_EXAMPLE: Final = "mon-fri 08:00-18:00 Europe/Berlin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeHours:
    """Open on ``days``, 1 for Monday to 7 for Sunday, between two local times of ``zone``.

    An ``end`` that is not after ``start`` is on the following day. A local time that is skipped when clocks
    go forward means the end of the skipped hour. One that occurs twice means its first occurrence.

    Raises:
        ValueError: there is no day, or one outside 1 to 7.
    """

    days: frozenset[int]
    start: time
    end: time
    zone: ZoneInfo

    def __post_init__(self) -> None:
        if not self.days or not self.days <= frozenset(range(1, 8)):
            raise ValueError(f"days {sorted(self.days)} must be some of 1 (Monday) to 7 (Sunday)")

    def __str__(self) -> str:
        end = "24:00" if self.end == _MIDNIGHT else f"{self.end:%H:%M}"
        return f"{_format_days(self.days)} {self.start:%H:%M}-{end} {self.zone.key}"

    def allows(self, now: datetime) -> bool:
        """Whether it is open at ``now``."""
        return self.opens_at(now) <= now

    def opens_at(self, now: datetime) -> datetime:
        """The next instant in UTC at which it is open; ``now`` if it is open already."""
        yesterday = now.astimezone(self.zone).date() - DAY
        openings = self._openings(yesterday)
        return next(max(now.astimezone(UTC), start_at) for start_at, end_at in openings if end_at > now)

    def _openings(self, first: date) -> Iterator[tuple[datetime, datetime]]:
        """When it opens and closes, from the day ``first`` on; a day that skips these hours is left out."""
        for day in (first + number * DAY for number in count()):
            if day.isoweekday() in self.days:
                last = day if self.start < self.end else day + DAY
                start_at = first_instant(datetime.combine(day, self.start), self.zone)
                end_at = first_instant(datetime.combine(last, self.end), self.zone)
                if start_at < end_at:
                    yield start_at, end_at


def parse_change_hours(text: str) -> ChangeHours | None:
    """Read days, hours and time zone, such as ``mon-fri 08:00-18:00 Europe/Berlin``; None for ``always``.

    Raises:
        ValueError: the text is neither.
    """
    if text == ALWAYS:
        return None
    match = _TEXT.fullmatch(text)
    if not match:
        raise ValueError(
            f"{text!r} are not valid change hours; write {ALWAYS}, or days, hours and time zone"
            f" such as {_EXAMPLE}"
        )
    days_text, start_text, end_text, zone_text = match.groups()
    if start_text == end_text:
        raise ValueError(f"{text!r} opens as it closes; write {ALWAYS}, or 00:00-24:00 for whole days")
    return ChangeHours(
        days=_parse_days(days_text),
        start=_parse_time(start_text),
        end=_MIDNIGHT if end_text == "24:00" else _parse_time(end_text),
        zone=parse_zone(zone_text),
    )


def _parse_days(text: str) -> frozenset[int]:
    """Read ``mon-fri`` or ``sat,sun``; a range may go beyond the end of the week."""
    days: set[int] = set()
    for part in text.lower().split(","):
        match = _DAYS.fullmatch(part)
        first, last = (match[1], match[2] or match[1]) if match else ("", "")
        if first not in _WEEKDAYS or last not in _WEEKDAYS:
            raise ValueError(
                f"{part!r} is not a day of the week; write mon to sun, such as mon-fri or sat,sun"
            )
        begin = _WEEKDAYS.index(first)
        length = (_WEEKDAYS.index(last) - begin) % 7 + 1
        days |= {(begin + number) % 7 + 1 for number in range(length)}
    return frozenset(days)


def _parse_time(text: str) -> time:
    hour, _, minute = text.partition(":")
    try:
        return time(int(hour), int(minute))
    except ValueError:
        raise ValueError(
            f"{text!r} is not a valid time of day; write hours and minutes, from 00:00 to 23:59"
        ) from None


def _format_days(days: frozenset[int]) -> str:
    """Format days, consecutive ones as ranges: ``mon-wed,fri``."""
    firsts = [day for day in sorted(days) if day - 1 not in days]
    lasts = [day for day in sorted(days) if day + 1 not in days]
    return ",".join(
        _WEEKDAYS[first - 1] if first == last else f"{_WEEKDAYS[first - 1]}-{_WEEKDAYS[last - 1]}"
        for first, last in zip(firsts, lasts, strict=True)
    )

"""Starts on the local clock, written as in cron(5)."""

import re
from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from itertools import chain, pairwise
from typing import Final

from burstwatch.core.durations import DAY

SEARCH_YEARS: Final = 40
"""How far the next occurrence is searched: the longest wait for a 29 February on a given weekday."""

_LEAP_YEAR: Final = 2000
_CRON_PART = re.compile(r"(?:\*|(\w{1,3})(?:-(\w{1,3}))?)(?:/([1-9]\d?))?", re.ASCII)
_MONTHS: Final = ("", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_CRON_FIELDS: Final[tuple[tuple[str, int, int, Sequence[str]], ...]] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _WEEKDAYS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSchedule:
    """Starts in local time; weekdays are 1 for Monday to 7 for Sunday.

    As in cron(5), a day must match both of its fields, or only one of them if neither begins with ``*``.
    """

    times: tuple[time, ...] = field(repr=False)
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    matches_either_day: bool

    def days_from(self, first: date) -> Iterator[date]:
        """The days with starts, up to ``SEARCH_YEARS`` ahead."""
        for year in range(first.year, first.year + SEARCH_YEARS + 1):
            for month in sorted(self.months):
                if (year, month) >= (first.year, first.month):
                    begin = max(first, date(year, month, 1)).day
                    days = (date(year, month, day) for day in range(begin, monthrange(year, month)[1] + 1))
                    yield from filter(self._matches, days)

    def find_wait_below(self, duration: timedelta) -> timedelta | None:
        """A time between two starts, in local time, below the duration; None if none is so short."""
        starts = [timedelta(hours=at.hour, minutes=at.minute) for at in self.times]
        overnight = starts[0] - starts[-1]
        days = self.days_from(date(_LEAP_YEAR, 1, 1)) if duration > DAY + overnight else ()
        waits = chain(
            (later - earlier for earlier, later in pairwise(starts)),
            (later - earlier + overnight for earlier, later in pairwise(days)),
        )
        return next((wait for wait in waits if wait < duration), None)

    def _matches(self, day: date) -> bool:
        fits = (day.day in self.days, day.isoweekday() in self.weekdays)
        return any(fits) if self.matches_either_day else all(fits)


def parse_cron(text: str) -> CronSchedule:
    """Read minute, hour, day of month, month and day of week; 0 and 7 are both Sunday.

    Raises:
        ValueError: the text is not five such fields, or no day ever matches them.
    """
    fields = text.split()
    if len(fields) != len(_CRON_FIELDS):
        raise ValueError(
            f"{text!r} has {len(fields)} fields, not 5: minute hour day-of-month month day-of-week"
        )
    minutes, hours, days, months, weekdays = (
        frozenset(chain.from_iterable(_parse_cron_part(part, *limits) for part in field_text.split(",")))
        for field_text, limits in zip(fields, _CRON_FIELDS, strict=True)
    )
    # The peculiar rule of cron(5): two restricted day fields are alternatives, otherwise both must match.
    matches_either_day = not fields[2].startswith("*") and not fields[4].startswith("*")
    if not matches_either_day and min(days) > max(monthrange(_LEAP_YEAR, month)[1] for month in months):
        raise ValueError(f"{text!r} never starts: no month in it has a day {min(days)}; change day or month")
    return CronSchedule(
        times=tuple(time(hour, minute) for hour in sorted(hours) for minute in sorted(minutes)),
        days=days,
        months=months,
        weekdays=frozenset(weekday or 7 for weekday in weekdays),
        matches_either_day=matches_either_day,
    )


def _parse_cron_part(part: str, name: str, minimum: int, maximum: int, names: Sequence[str]) -> range:
    match = _CRON_PART.fullmatch(part.lower())
    first_text, last_text, step = match.groups() if match else ("?", None, None)
    first = _parse_cron_number(first_text, names) if first_text else minimum
    last = _parse_cron_number(last_text or first_text, names) if first_text else maximum
    if names is _WEEKDAYS and last == 0 < first:
        last = maximum
    if not minimum <= first <= last <= maximum or (step and first_text and not last_text):
        names_hint = f" or {names[-1]}" if names else ""
        raise ValueError(
            f"{part!r} is not a valid {name}; write *, numbers from {minimum} to"
            f" {maximum}{names_hint}, ranges such as"
            f" {minimum}-{maximum}, commas between them, and /steps after * or a range"
        )
    return range(first, last + 1, int(step or 1))


def _parse_cron_number(text: str, names: Sequence[str]) -> int:
    return names.index(text) if text in names else int(text) if text.isdecimal() else -1

"""Invariants of windows, against an oracle that looks at the clocks minute by minute.

The oracle knows no arithmetic of time zones: a start happens in the first minute in which the clocks show its
time or a later one. It counts in minutes from the begin of a few weeks around a clock change.
"""

from bisect import bisect_left
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import islice, pairwise, product
from math import inf
from zoneinfo import ZoneInfo

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from burstwatch.core.policy.change_hours import ChangeHours, parse_change_hours
from burstwatch.core.policy.windows import (
    Window,
    WindowPhase,
    manual_stop_at,
    occurrences,
    parse_windows,
    to_mapping,
    window_state,
)
from support.lab.window_occurrences import next_occurrence, occurrence_at

DAY_MIN = 24 * 60
WEEKS_MIN = 21 * DAY_MIN
BEFORE_MIN = AFTER_MIN = 4 * DAY_MIN
MINUTE = timedelta(minutes=1)
PLACES = [
    ("Europe/Berlin", datetime(2026, 3, 15, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2027, 10, 17, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 10, 20, tzinfo=UTC)),
    ("America/New_York", datetime(2027, 2, 27, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 9, 20, tzinfo=UTC)),  # by half an hour
    ("America/Santiago", datetime(2026, 8, 24, tzinfo=UTC)),  # at midnight
    ("UTC", datetime(2028, 2, 15, tzinfo=UTC)),  # a leap year
]
NAMES = ("a", "b", "c")


@dataclass(frozen=True)
class Fields:
    """A cron text and, made beside it, the numbers it stands for; Sunday is 0."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    def fits_day(self, day: date) -> bool:
        in_month = day.month in self.months
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        _, _, days_text, _, weekdays_text = self.text.split()
        if "*" in (days_text[0], weekdays_text[0]):
            return in_month and by_day and by_weekday
        return in_month and (by_day or by_weekday)


@st.composite
def field_texts(draw, least: int, most: int, names: tuple[str, ...] = ()):
    """A field and its numbers."""
    numbers = st.integers(least, most)
    match draw(st.sampled_from(["star", "steps", "list", "range"])):
        case "star":
            return "*", frozenset(range(least, most + 1))
        case "steps":
            first, last, step = draw(numbers), draw(numbers), draw(st.integers(1, 40))
            assume(first <= last)
            return draw(
                st.sampled_from(
                    [
                        (f"*/{step}", frozenset(range(least, most + 1, step))),
                        (f"{first}-{last}/{step}", frozenset(range(first, last + 1, step))),
                    ]
                )
            )
        case "list":
            chosen = draw(st.lists(numbers, min_size=1, max_size=3))
            texts = [
                names[number - least] if names and draw(st.booleans()) else str(number) for number in chosen
            ]
            return ",".join(texts), frozenset(chosen)
        case _:
            first, last = sorted((draw(numbers), draw(numbers)))
            return f"{first}-{last}", frozenset(range(first, last + 1))


MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "Mon", "TUE", "wed", "thu", "fri", "sat", "sun")


@st.composite
def crons(draw):
    parts = [
        draw(field_texts(0, 59)),
        draw(
            st.one_of(field_texts(0, 23), st.integers(0, 4).map(lambda hour: (str(hour), frozenset({hour}))))
        ),
        draw(st.one_of(st.just(("*", frozenset(range(1, 32)))), field_texts(1, 31))),
        draw(st.one_of(st.just(("*", frozenset(range(1, 13)))), field_texts(1, 12, MONTHS))),
        draw(st.one_of(st.just(("*", frozenset(range(8)))), field_texts(0, 7, WEEKDAYS))),
    ]
    numbers = [numbers for _, numbers in parts]
    numbers[4] = frozenset(number % 7 for number in numbers[4])
    return Fields(" ".join(text for text, _ in parts), *numbers)


durations_min = st.one_of(
    st.sampled_from([1, 15, 30, 60, 90, 8 * 60, DAY_MIN, 3 * DAY_MIN]), st.integers(1, 3 * DAY_MIN)
)


def read(cron: str, zone: str, duration_min: int, name: str = "a") -> Window | None:
    """The window, or None if it would overlap itself or never start."""
    setting = {"cron": cron, "zone": zone, "duration": f"{duration_min}m"}
    windows, faults = parse_windows({name: setting})
    for fault in faults:
        assert "overlaps itself" in fault.message or "never starts" in fault.message, fault
    return windows[0] if windows else None


@st.composite
def recurring_windows(draw, zone: str = "UTC", name: str = "a"):
    """A window and its fields; where the duration is too long for the starts, the shortest there is."""
    fields, duration_min = draw(crons()), draw(durations_min)
    window = read(fields.text, zone, duration_min, name)
    if window is None:
        duration_min, window = 1, read(fields.text, zone, 1, name)
    assume(window is not None)
    return window, fields, duration_min


@cache
def reached_min(zone: str, begin: datetime) -> dict[date, dict[tuple[int, int], int]]:
    """For every day and every time on the clocks, the minute in which they first show it or a later one."""
    zone_info = ZoneInfo(zone)
    minutes: dict[date, dict[tuple[int, int], int]] = {}
    first = -BEFORE_MIN - 3 * DAY_MIN
    latest = (begin + (first - 1) * MINUTE).astimezone(zone_info).replace(tzinfo=None)
    for minute in range(first, WEEKS_MIN + AFTER_MIN):
        local_time = (begin + minute * MINUTE).astimezone(zone_info).replace(tzinfo=None)
        while latest < local_time:
            latest += MINUTE
            minutes.setdefault(latest.date(), {})[latest.hour, latest.minute] = minute
    return minutes


def starts_min(fields: Fields, zone: str, begin: datetime) -> list[int]:
    """The minutes, from ``begin``, in which a start happens."""
    days = [times for day, times in reached_min(zone, begin).items() if fields.fits_day(day)]
    clock_times = list(product(fields.hours, fields.minutes))
    return sorted({times[at] for times in days for at in clock_times if at in times})


def minutes_inside(starts: list[int], duration_min: int) -> set[int]:
    return {minute for start in starts for minute in range(start, start + duration_min)}


def expected_window_phase(inside: list[int], now: int, lead: int, margin: int) -> WindowPhase:
    """The definition, read off the sorted minutes inside."""
    later = bisect_left(inside, now)
    next_start = inside[later] if later < len(inside) else inf
    last_end = inside[later - 1] + 1 if later else -inf
    if next_start == now:
        return WindowPhase.INSIDE
    if next_start - now <= lead:
        return WindowPhase.LEADING
    if next_start - last_end <= lead + margin:
        return WindowPhase.BETWEEN
    return WindowPhase.OVER if now - last_end < margin else WindowPhase.OUTSIDE


@dataclass(frozen=True, repr=False)
class WindowPlan:
    """The windows of one volume, and the sorted minutes from ``begin`` that are inside any of them."""

    windows: tuple[Window, ...]
    by_hand: dict[str, tuple[datetime, datetime]]
    begin: datetime
    inside: list[int]

    def __repr__(self) -> str:
        return f"{to_mapping(self.windows)}, by hand {self.by_hand}, from {self.begin}"


@st.composite
def plans(draw):
    """One to three windows."""
    zone, begin = draw(st.sampled_from(PLACES))
    windows, by_hand, inside = [], {}, set()
    for name in NAMES[: draw(st.integers(1, 3))]:
        match draw(st.sampled_from(["recurring", "dated", "by hand"])):
            case "recurring":
                window, fields, duration_min = draw(recurring_windows(zone, name))
                inside |= minutes_inside(starts_min(fields, zone, begin), duration_min)
                windows.append(window)
            case kind:
                start, length = draw(st.integers(0, WEEKS_MIN)), draw(durations_min)
                span = [begin + start * MINUTE, begin + (start + length) * MINUTE]
                inside |= minutes_inside([start], length)
                if kind == "dated":
                    dates = dict(zip(("from", "to"), map(datetime.isoformat, span), strict=True))
                    windows += parse_windows({name: dates})[0]
                else:
                    by_hand[name] = tuple(span)
    return WindowPlan(tuple(windows), by_hand, begin, sorted(inside))


@settings(max_examples=60, deadline=None)
@given(plans(), st.integers(0, DAY_MIN), st.integers(0, DAY_MIN), st.data())
def test_the_state_at_any_instant_follows_the_clocks_minute_by_minute(plan, lead, margin, data):
    around = [-inf, *plan.inside, inf]
    edges = [edge for item, other in pairwise(around) if other > item + 1 for edge in (item + 1, other)]
    edges = [edge for edge in edges if 0 <= edge < WEEKS_MIN][:20]
    near = [edge + by for edge in edges for by in (-lead - 1, -lead, -1, 0, margin - 1, margin)]
    drawn = data.draw(st.lists(st.integers(0, WEEKS_MIN - 1), max_size=20))
    for now in {minute for minute in near + drawn if 0 <= minute < WEEKS_MIN}:
        state = window_state(
            plan.windows,
            NAMES,
            plan.begin + now * MINUTE,
            lead=lead * MINUTE,
            expected=lead * MINUTE / 2,
            margin=margin * MINUTE,
            manual_starts=plan.by_hand,
        )
        assert state.phase is expected_window_phase(plan.inside, now, lead, margin), now


@settings(max_examples=100, deadline=None)
@given(
    plans(),
    st.sampled_from(NAMES),
    st.floats(0, WEEKS_MIN - 1) | st.integers(0, WEEKS_MIN - 1),
    st.integers(0, DAY_MIN),
)
def test_stopping_skips_what_runs_or_is_led_to_and_nothing_after_it(plan, name, now, lead):
    now_at = plan.begin + now * MINUTE

    def state(at, **stopped):
        return window_state(
            plan.windows,
            {name},
            at,
            lead=lead * MINUTE,
            expected=MINUTE,
            margin=0 * MINUTE,
            manual_starts=plan.by_hand,
            manual_stops=stopped,
        )

    stopped_at = manual_stop_at(plan.windows, name, now_at, lead=lead * MINUTE, manual_starts=plan.by_hand)
    before = state(now_at)
    assert (stopped_at is not None) is before.wants_flip
    if stopped_at is None:
        return
    after = state(now_at, **{name: stopped_at})
    expected = before if before.running else state(before.upcoming[0].interval.start_at)
    assert (after.running, after.ended, after.upcoming) == ((), None, expected.upcoming)
    repeated = manual_stop_at(
        plan.windows,
        name,
        now_at,
        lead=lead * MINUTE,
        manual_starts=plan.by_hand,
        manual_stops={name: stopped_at},
    )
    assert (repeated is not None) is (after.phase is WindowPhase.LEADING)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLACES), st.data())
def test_the_occurrences_of_one_window_are_the_starts_that_the_clocks_reach(place, data):
    zone, begin = place
    window, fields, duration_min = data.draw(recurring_windows(zone))
    spans = islice(occurrences(window, begin - BEFORE_MIN * MINUTE), 50)
    result = [(span.start_at - begin) // MINUTE for span in spans]
    starts = starts_min(fields, zone, begin)
    expected = [start for start in starts if start + duration_min > -BEFORE_MIN]
    assert [start for start in result if start < WEEKS_MIN + AFTER_MIN] == expected[:50]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLACES), st.data())
def test_occurrences_of_one_window_never_overlap_and_last_as_long_as_they_can(place, data):
    zone, begin = place
    window, _, duration_min = data.draw(recurring_windows(zone))
    for span, following in pairwise(islice(occurrences(window, begin), 100)):
        assert span.end_at <= following.start_at
        assert span.end_at == min(span.start_at + duration_min * MINUTE, following.start_at)
        if zone == "UTC":
            assert span.end_at - span.start_at == duration_min * MINUTE


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PLACES), st.integers(0, WEEKS_MIN * 60), st.data())
def test_the_next_occurrence_is_after_now_and_the_first_one(place, now_s, data):
    zone, begin = place
    window, _, _ = data.draw(recurring_windows(zone))
    now = begin + timedelta(seconds=now_s)
    span = next_occurrence(window, now)
    assert span.start_at > now
    assert occurrence_at(window, span.start_at) == span
    assert occurrence_at(window, span.end_at - timedelta.resolution) == span
    assert next_occurrence(window, span.start_at - timedelta.resolution) == span
    between = now + (span.start_at - now) * data.draw(st.floats(0, 0.999))
    assert next_occurrence(window, between) == span
    running = occurrence_at(window, between)
    assert running is None or running == occurrence_at(window, now)


def fields_of(text: str, days: set[int], months: set[int]) -> Fields:
    return Fields(
        text, frozenset({0}), frozenset({0}), frozenset(days), frozenset(months), frozenset(range(7))
    )


@settings(max_examples=60, deadline=None)
@given(crons(), st.dates(date(2020, 1, 1), date(2110, 12, 31)))
@example(fields_of("0 0 31 * *", {31}, set(range(1, 13))), date(2026, 2, 1))
@example(fields_of("0 0 29 2 *", {29}, {2}), date(2096, 3, 1))
@example(fields_of("0 0 29 2 *", {29}, {2}), date(2028, 2, 29))
def test_the_next_day_is_the_first_in_the_calendar_that_fits(fields, day):
    window = read(fields.text, "UTC", 1)
    assume(window is not None)
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    result = next_occurrence(window, midnight - MINUTE).start_at.date()
    later = (day + timedelta(days=number) for number in range(10 * 366))
    assert result == next((d for d in later if fields.fits_day(d)), result)


@given(crons())
def test_only_a_cron_text_without_any_date_never_starts(fields):
    window = read(fields.text, "UTC", 1)
    leap_cycle = [
        date(year, month, day)
        for year in range(2004, 2032, 4)
        for month in range(1, 13)
        for day in range(1, monthrange(year, month)[1] + 1)
    ]
    assert (window is None) is not any(map(fields.fits_day, leap_cycle))


@st.composite
def change_hours(draw, zone: str) -> ChangeHours:
    start, end = draw(st.lists(st.integers(0, DAY_MIN - 1), min_size=2, max_size=2, unique=True))
    days = draw(st.frozensets(st.integers(1, 7), min_size=1))
    times = [time(minute // 60, minute % 60) for minute in (start, end)]
    return ChangeHours(days=days, start=times[0], end=times[1], zone=ZoneInfo(zone))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(PLACES), st.data())
def test_change_hours_open_and_close_by_the_clocks_minute_by_minute(place, data):
    zone, begin = place
    hours = data.draw(change_hours(zone))
    reached = reached_min(zone, begin)
    overnight = timedelta(days=hours.end < hours.start)
    inside = sorted(
        minute
        for day, times in reached.items()
        if day.isoweekday() in hours.days and day + overnight in reached
        for minute in range(
            times.get((hours.start.hour, hours.start.minute), WEEKS_MIN),
            reached[day + overnight].get((hours.end.hour, hours.end.minute), WEEKS_MIN),
        )
    )
    edges = [minute for item, other in pairwise(inside) if other > item + 1 for minute in (item + 1, other)]
    near = [edge + by for edge in edges for by in (-1, 0)]
    drawn = data.draw(st.lists(st.integers(0, WEEKS_MIN - 1), max_size=10))
    for now in {minute for minute in near + drawn if 0 <= minute < WEEKS_MIN}:
        now_at = begin + now * MINUTE
        later = bisect_left(inside, now)
        opens_min = inside[later] if later < len(inside) else inf
        assert hours.allows(now_at) is (opens_min == now), now
        if opens_min < WEEKS_MIN:
            assert hours.opens_at(now_at) == begin + opens_min * MINUTE, now


@given(st.sampled_from(PLACES), st.data())
def test_change_hours_read_back_as_they_are_shown(place, data):
    hours = data.draw(change_hours(place[0]))
    assert parse_change_hours(str(hours)) == hours

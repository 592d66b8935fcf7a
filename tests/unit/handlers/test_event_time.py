from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstwatch.handlers.event_time import EventError, EventTime, parse_instant
from burstwatch.wiring.function_settings import FunctionClock
from support.builders.core_values import at

NOON = "2026-11-20T12:00:00Z"
WALL_CLOCK, EVENT_CLOCK = FunctionClock.WALL, FunctionClock.EVENT


def test_by_the_wall_clock_now_is_now_and_the_event_states_when_it_was_due():
    timing = EventTime.from_event({"time": NOON}, WALL_CLOCK, at("12:00:35"))
    assert (timing.now_s, timing.scheduled_at_s, timing.late_s) == (at("12:00:35"), at("12:00"), 35)
    assert timing.problem is None


def test_by_the_events_clock_its_time_is_now_and_no_event_is_late():
    timing = EventTime.from_event({"time": NOON}, EVENT_CLOCK, at("18:00"))
    assert (timing.now_s, timing.scheduled_at_s, timing.is_late) == (at("12:00"), at("12:00"), False)


@pytest.mark.parametrize(
    ("now", "is_late"),
    [("11:59", False), ("12:00", False), ("12:02", False), ("12:02:01", True), ("18:00", True)],
)
def test_an_event_is_late_after_two_minutes_and_never_early(now, is_late):
    timing = EventTime.from_event({"time": NOON}, WALL_CLOCK, at(now))
    assert timing.is_late is is_late
    assert timing.late_s >= 0


def test_a_time_that_scheduler_did_not_fill_in_is_now_and_that_is_reported():
    timing = EventTime.from_event({"time": "<aws.scheduler.scheduled-time>"}, WALL_CLOCK, at("12:00:35"))
    assert (timing.now_s, timing.scheduled_at_s, timing.is_late) == (at("12:00:35"), at("12:00:35"), False)
    assert timing.problem == (
        "time is '<aws.scheduler.scheduled-time>', which Scheduler did not fill in: taken as now"
    )


def test_by_the_event_clock_a_missing_time_is_an_error():
    with pytest.raises(EventError, match="not an instant in ISO 8601"):
        EventTime.from_event({"time": "<aws.scheduler.scheduled-time>"}, EVENT_CLOCK, at("12:00"))


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-20T12:00:00Z",
        "2026-11-20T12:00:00+00:00",
        "2026-11-20T13:00:00.000+01:00",
        "20261120T120000Z",
    ],
)
def test_an_instant_is_read_in_every_form_that_iso_has(text):
    assert parse_instant(text) == at("12:00")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, "None, not an instant"),
        (1_795_176_000, "1795176000, not an instant"),
        ("", "'', not an instant"),
        ("noon", "'noon', not an instant"),
        ("2026-11-31T12:00:00Z", "not an instant"),
        ("2026-11-20T12:00:00", "has no time zone: write it in UTC, with a Z"),
        ("2026-11-20", "has no time zone"),
        (["2026-11-20T12:00:00Z"], "not an instant"),
        ("\x1b[31m" + "x" * 5000, "not an instant"),
    ],
)
def test_an_invalid_instant_is_refused_with_its_text(text, names):
    with pytest.raises(EventError) as exc_info:
        parse_instant(text)
    assert names in str(exc_info.value)
    assert str(exc_info.value).isprintable()
    assert len(str(exc_info.value)) < 160


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00+14:00",
        "1969-12-31T23:59:59Z",
        "3000-01-01T00:00:00Z",
        "9999-12-31T23:59:59-12:00",
    ],
)
def test_an_instant_outside_the_supported_range_is_refused(text):
    with pytest.raises(EventError, match="not a plausible time: write when it happened"):
        parse_instant(text)


@pytest.mark.parametrize("text", ["1970-01-01T00:00:00Z", "2999-12-31T23:59:59Z"])
def test_the_ends_of_the_supported_range_are_instants(text):
    assert isinstance(parse_instant(text), float)


@given(st.text() | st.integers() | st.none() | st.floats() | st.lists(st.text()))
def test_every_time_in_an_event_is_an_instant_or_a_clear_error(text):
    try:
        reported = str(EventTime.from_event({"time": text}, WALL_CLOCK, at("12:00")).late_s)
    except EventError as error:
        reported = str(error)
    assert reported.isprintable()


@given(st.datetimes(datetime(1970, 1, 1), datetime(2999, 12, 31), timezones=st.just(UTC)))  # noqa: DTZ001 - UTC is given
def test_what_scheduler_writes_is_read_back(moment):
    assert parse_instant(moment.isoformat()) == pytest.approx(moment.timestamp())

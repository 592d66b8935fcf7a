import pytest

from burstwatch.core.buckets.forecast import Forecast
from burstwatch.core.buckets.outlook import describe_outlook

HOUR, DAY = 3_600, 86_400


def outlook(time_to_empty_s, soonest_empty_s=5 * HOUR, idle_refill_s=9 * DAY, drain_per_s=0.0):
    forecast = Forecast(
        is_draining=time_to_empty_s is not None,
        drain_per_s=drain_per_s,
        time_to_empty_s=time_to_empty_s,
        soonest_empty_s=soonest_empty_s,
    )
    return describe_outlook(forecast, limit_when_empty="2.8 MiB/s", idle_refill_s=idle_refill_s)


def test_a_draining_bucket_has_the_estimate_the_bound_the_limit_and_the_refill():
    assert outlook(7 * HOUR) == "empty in about 7 h, not before 5 h; then 2.8 MiB/s; nine idle days to refill"


def test_a_bucket_that_is_not_draining_has_the_bound_only():
    assert outlook(None) == "not draining, not empty before 5 h; then 2.8 MiB/s; nine idle days to refill"


def test_a_bucket_whose_drain_is_not_known_yet_is_not_called_one_that_does_not_drain():
    assert outlook(None, drain_per_s=None) == (
        "no trend yet, not empty before 5 h; then 2.8 MiB/s; nine idle days to refill"
    )


def test_an_empty_bucket_is_throttled_now():
    assert outlook(0, 0) == "empty, throttled to 2.8 MiB/s; nine idle days to refill"


def test_a_bucket_that_cannot_drain_has_no_times():
    assert outlook(None, None) == "its credits cannot run out"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (30, "two idle minutes"),  # never less than the plural
        (75 * 60, "75 idle minutes"),
        (2 * HOUR, "two idle hours"),
        (5 * HOUR, "five idle hours"),
        (10.4 * HOUR, "ten idle hours"),
        (11 * HOUR, "11 idle hours"),
        (2 * DAY, "two idle days"),
        (26.1 * DAY, "26 idle days"),
        (1_500 * DAY, "1,500 idle days"),
    ],
)
def test_the_refill_is_in_the_unit_that_people_use(seconds, text):
    assert outlook(0, 0, seconds).endswith(f"; {text} to refill")


def test_a_bucket_that_earns_nothing_does_not_refill():
    assert outlook(0, 0, None).endswith("; it does not refill")

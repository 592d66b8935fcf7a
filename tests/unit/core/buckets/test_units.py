import pytest

from burstwatch.core.buckets.units import format_drain, format_limit, format_rate

MIB = 2**20


@pytest.mark.parametrize(
    ("mib_s", "text"),
    [
        (3_413.6, "3,414 MiB/s"),
        (566.2, "566 MiB/s"),
        (100, "100 MiB/s"),
        (81.25, "81.2 MiB/s"),
        (10.4, "10.4 MiB/s"),
        (2.832, "2.8 MiB/s"),
        (2.04, "2 MiB/s"),
        (1, "1 MiB/s"),
        (0.5, "0.5 MiB/s"),
        (0.05, "0.05 MiB/s"),
        (0, "0 MiB/s"),
    ],
)
def test_a_rate_has_the_digits_that_matter_whichever_unit_it_is_stored_in(mib_s, text):
    assert format_rate(mib_s * MIB) == text
    assert format_limit(mib_s * MIB, "bytes/s") == text
    assert format_limit(mib_s, "MiB/s") == text
    assert format_drain(mib_s * MIB, "bytes") == text


def test_a_rate_of_operations_has_the_same_digits():
    assert format_limit(3_600, "IOPS") == "3,600 IOPS"
    assert format_limit(157.3, "IOPS") == "157 IOPS"
    assert format_limit(0.3, "IOPS") == "0.3 IOPS"

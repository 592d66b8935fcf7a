from burstwatch.core.buckets.forecast import Forecast
from burstwatch.core.buckets.units import GIB, MIB
from burstwatch.core.efs.efs_text import describe_efs_outlook, describe_metered_load


def test_the_outlook_of_58_gib_is_in_the_units_that_people_know():
    forecast = Forecast(is_draining=True, drain_per_s=1, time_to_empty_s=7 * 3_600, soonest_empty_s=5 * 3_600)
    text = describe_efs_outlook(58 * GIB, forecast)
    assert text == "empty in about 7 h, not before 5 h; then 2.8 MiB/s; nine idle days to refill"


def test_a_small_file_system_keeps_1_mib_s_and_an_empty_one_does_not_refill():
    forecast = Forecast(is_draining=False, drain_per_s=0, time_to_empty_s=0, soonest_empty_s=0)
    assert describe_efs_outlook(0, forecast) == "empty, throttled to 1 MiB/s; it does not refill"


def test_the_load_names_its_kinds():
    assert describe_metered_load(120 * MIB, 20 * MIB) == (
        "60 MiB/s metered: 120 MiB/s read, which count one third, and 20 MiB/s written"
    )
    assert describe_metered_load(0, 20 * MIB) == "20 MiB/s metered: 20 MiB/s written"
    assert describe_metered_load(0, 0) == "0 MiB/s metered"

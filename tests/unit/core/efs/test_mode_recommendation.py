import pytest

from burstwatch.core.buckets.units import GIB, MIB
from burstwatch.core.efs.file_system import ThroughputMode
from burstwatch.core.efs.mode_recommendation import EfsLoad, recommend_mode
from support.builders.storage import a_file_system


def load(read_gib=0, written_gib=0, peak_mib_s=0, **changes):
    return EfsLoad(
        read_bytes=read_gib * GIB,
        written_bytes=written_gib * GIB,
        peak_metered_per_s=peak_mib_s * MIB,
        **changes,
    )


# GiB read and written in a day, busiest MiB/s, dollars a month in elastic and provisioned mode, choice
ROWS = [
    (0, 100, 20, 182.50, 103.01, "bursting"),
    (0, 400, 60, 730.00, 343.01, "provisioned"),
    (300, 200, 100, 638.75, 583.01, "provisioned"),
    # 10 GiB a day are 0.12 MiB/s: bursting lasts, at no cost
    (0, 10, 100, 18.25, 583.01, "bursting"),
]


@pytest.mark.parametrize(("read", "written", "peak", "elastic", "provisioned", "choice"), ROWS)
def test_the_cheapest_mode_that_serves_the_load_of_a_day(read, written, peak, elastic, provisioned, choice):
    result = recommend_mode(a_file_system(58), load(read, written, peak))
    prices = {option.mode: round(option.usd_per_month, 2) for option in result.options}
    assert prices == {"bursting": 0.0, "elastic": elastic, "provisioned": provisioned}
    assert result.chosen.mode == choice


def test_a_file_system_that_lasts_stays_in_bursting_mode():
    result = recommend_mode(a_file_system(58), load(written_gib=100, peak_mib_s=20))
    assert result.reason == (
        "leave it in bursting, $0.00 a month (us-east-1 list prices):"
        " 1.2 MiB/s metered on average, and its size earns 2.8 MiB/s"
    )
    assert (result.command, result.definition, result.cautions) == (None, None, ())


def test_a_rare_burst_of_a_small_file_system_is_cheapest_in_elastic_mode():
    # 10 GiB earn 0.49 MiB/s; 50 GiB a day are 0.59 MiB/s: $91.25 elastic
    # provisioned: (100 - 0.49) x 6 = $597.07
    result = recommend_mode(a_file_system(10), load(written_gib=50, peak_mib_s=100))
    assert result.chosen.mode == ThroughputMode.ELASTIC
    assert result.chosen.usd_per_month == pytest.approx(91.25)
    assert result.command == (
        "aws efs update-file-system --file-system-id fs-0123456789abcdef0 --throughput-mode elastic"
    )
    assert result.definition.terraform == (
        'resource "aws_efs_file_system" "shared_home" {\n  throughput_mode = "elastic"\n}'
    )
    assert result.definition.cloudformation.endswith("ThroughputMode: elastic")
    assert "throughput_mode=efs.ThroughputMode.ELASTIC," in result.definition.cdk


def test_elastic_mode_comes_with_its_hourly_price_and_the_24_hours():
    ceiling, wait = recommend_mode(a_file_system(10), load(written_gib=50, peak_mib_s=100)).cautions
    assert "an hour written at 100 MiB/s costs $21.09" in ceiling
    assert "24 hours" in wait


def test_provisioned_mode_names_its_amount_everywhere():
    result = recommend_mode(a_file_system(58), load(written_gib=400, peak_mib_s=59.2))
    assert result.reason == (
        "provisioned with 60 MiB/s, $343.01 a month (us-east-1 list prices):"
        " its busiest rate was 59.2 MiB/s metered"
    )
    assert result.command.endswith("--throughput-mode provisioned --provisioned-throughput-in-mibps 60")
    assert '  throughput_mode                 = "provisioned"\n' in result.definition.terraform
    assert "  provisioned_throughput_in_mibps = 60" in result.definition.terraform
    assert "ProvisionedThroughputInMibps: 60" in result.definition.cloudformation
    assert "provisioned_throughput_per_second=Size.mebibytes(60)," in result.definition.cdk
    assert result.cautions == (
        (
            "For 24 hours, AWS refuses to leave provisioned mode and to lower the throughput"
            " (TooManyRequests). A raise is possible at any time."
        ),
    )


def test_throughput_below_the_baseline_of_the_size_costs_nothing_in_provisioned_mode():
    # 1 TiB earns 50 MiB/s
    options = recommend_mode(a_file_system(1_024), load(written_gib=10, peak_mib_s=20)).options
    assert options[2].usd_per_month == 0


def test_a_throttled_file_system_wanted_more_than_it_was_seen_to_use():
    result = recommend_mode(a_file_system(58), load(written_gib=200, peak_mib_s=3, throttled_s=3_600))
    bursting, _, provisioned = result.options
    assert not bursting.serves_load
    assert bursting.reason.startswith("it was throttled, so its load was more than the 2.4 MiB/s metered")
    assert provisioned.reason.endswith("and more may have been wanted while it was throttled")


def test_a_peak_above_the_burst_does_not_fit_bursting_mode():
    bursting = recommend_mode(a_file_system(58), load(written_gib=10, peak_mib_s=150)).options[0]
    assert bursting.reason == "its peak of 150 MiB/s is above the burst of 100 MiB/s"


def test_a_load_above_the_baseline_has_the_days_that_the_credits_last():
    # 400 GiB a day are 4.74 MiB/s, 1.91 above the baseline: 2,202,010 MiB last 13.4 days
    bursting = recommend_mode(a_file_system(58), load(written_gib=400, peak_mib_s=60)).options[0]
    assert bursting.reason == (
        "4.7 MiB/s metered on average, and its size earns 2.8 MiB/s: a full bucket lasts 13.4 days of it"
    )


def test_max_io_file_systems_cannot_be_elastic():
    result = recommend_mode(a_file_system(10, performance_mode="maxIO"), load(written_gib=50, peak_mib_s=100))
    assert result.chosen.mode == ThroughputMode.PROVISIONED
    assert result.options[1].reason == "AWS allows it for general purpose file systems only, not maxIO"


def test_aws_provisions_a_highest_amount():
    result = recommend_mode(
        a_file_system(58, performance_mode="maxIO"), load(written_gib=90_000, peak_mib_s=5_000)
    )
    assert result.chosen.provisioned_mib_s == 3_414
    assert not result.chosen.serves_load
    assert result.chosen.reason.endswith("and AWS provisions 3,414 MiB/s at most")


def test_while_a_change_is_in_progress_the_command_would_be_refused():
    result = recommend_mode(a_file_system(10, state="updating"), load(written_gib=50, peak_mib_s=100))
    assert result.blocked == (
        "its state is updating, and AWS changes the mode of available file systems only"
    )


def test_leaving_provisioned_mode_has_the_24_hour_rule_and_an_undocumented_balance():
    in_provisioned = a_file_system(58, throughput_mode="provisioned", provisioned_mib_s=200.0)
    wait, balance = recommend_mode(in_provisioned, load(written_gib=100, peak_mib_s=20)).cautions
    assert "within 24 hours of the change to provisioned mode or of a raise" in wait
    assert "not documented" in balance


def test_another_amount_in_provisioned_mode_is_a_change_and_the_same_amount_is_not():
    busy = load(written_gib=400, peak_mib_s=60)
    assert recommend_mode(
        a_file_system(58, throughput_mode="provisioned", provisioned_mib_s=60.0), busy
    ).reason.startswith("leave it in provisioned with 60 MiB/s")
    assert recommend_mode(
        a_file_system(58, throughput_mode="provisioned", provisioned_mib_s=80.0), busy
    ).command


@pytest.mark.parametrize(
    "changes",
    [{"written_gib": -1}, {"peak_mib_s": float("inf")}, {"duration_s": 0}, {"read_gib": float("nan")}],
)
def test_a_load_that_cannot_be_is_refused(changes):
    with pytest.raises(ValueError, match="cannot be"):
        load(**changes)


# GiB in Standard, MiB/s without credits, elastic, provisioned at the burst of 100 MiB/s.
# The burst of a day is 100 x 86,400 / 1,024 GiB, 30.4 times a month at 0.09: $23,097.66 more
THROTTLED_ALL_DAY = [
    (10, 1, "$153.98 to $23,251.64", 597.07),
    (100, 4.8828125, "$751.88 to $23,849.53", 570.70),
    (512, 25, "$3,849.61 to $26,947.27", 450.00),
]


@pytest.mark.parametrize(("size_gib", "limit", "elastic_price", "provisioned_usd"), THROTTLED_ALL_DAY)
def test_throttled_all_day_it_gets_what_bursting_mode_gave_with_credits(
    size_gib, limit, elastic_price, provisioned_usd
):
    written_gib = limit * 86_400 / 1_024
    throttled = load(written_gib=written_gib, peak_mib_s=limit, throttled_s=86_400)
    result = recommend_mode(a_file_system(size_gib), throttled)
    _, elastic, provisioned = result.options
    assert result.chosen is provisioned
    assert (provisioned.provisioned_mib_s, provisioned.serves_load) == (100, True)
    assert provisioned.usd_per_month == pytest.approx(provisioned_usd, abs=0.01)
    assert provisioned.reason.endswith(
        "no more than it has without credits; 100 MiB/s are its burst with credits"
    )
    assert elastic.price == elastic_price
    assert elastic.reason.endswith("written a month, or more: it was held back")


def test_elastic_is_not_chosen_at_the_price_of_throttled_bytes():
    # $46 is the least of elastic; three hours of its burst a day are $2,887 more
    result = recommend_mode(a_file_system(10), load(written_gib=25, peak_mib_s=40, throttled_s=3 * 3_600))
    _, elastic, provisioned = result.options
    assert elastic.usd_per_month < provisioned.usd_per_month < elastic.price_to_compare
    assert result.chosen is provisioned
    assert provisioned.provisioned_mib_s == 40


def test_elastic_is_chosen_if_it_is_cheaper_even_for_all_that_may_have_been_wanted():
    """Idle but for a backup of five minutes, which was held back to 1 MiB/s: its burst would be $80."""
    result = recommend_mode(a_file_system(10), load(written_gib=300 / 1_024, peak_mib_s=1, throttled_s=300))
    assert result.reason.startswith("elastic, $0.53 to $80.73 a month")


def test_max_io_throttled_all_day_is_provisioned_at_its_burst_as_well():
    throttled = load(written_gib=84, peak_mib_s=1, throttled_s=86_400)
    result = recommend_mode(a_file_system(10, performance_mode="maxIO"), throttled)
    assert str(result.chosen) == "provisioned with 100 MiB/s"

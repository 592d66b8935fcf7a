import pytest

from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.instances.balance import find_reset, observed_capacity
from burstwatch.core.instances.instance_buckets import INSTANCE_IO, INSTANCE_THROUGHPUT, instance_io_bucket
from burstwatch.core.instances.instance_metrics import InstanceMetrics, highest_load
from burstwatch.core.instances.larger_type import InstanceLoad, larger_types, possible_load
from support.builders.core_values import M5_LARGE, sparse_balances

BUCKET = instance_io_bucket(M5_LARGE)  # an idle m5.large gains 3.96 points in five minutes


def starts(series: Series) -> list[int]:
    return list(series.starts_at_s)


@pytest.mark.parametrize(
    ("values", "index"),
    [
        ((60, 50, 40, 100, 98), 3),
        ((60, 100, 90, 50, 100), 4),  # the last of two
        ((60, 50, 40, 30), None),
        ((92, 95.9, 99.8, 100), None),  # a refill
        ((40, 80, 90), None),  # a rise that is not to full
        ((94.1, 100), None),  # within what is gained and the tolerance
        ((94, 100), 1),
        ((50,), None),
        ((), None),
    ],
)
def test_a_reset_is_a_jump_to_full_that_no_refill_explains(values, index):
    balance = sparse_balances(*values)
    assert find_reset(balance, BUCKET) == (None if index is None else starts(balance)[index])


def test_a_gap_before_the_jump_leaves_time_to_refill():
    balance = Series((0, 3_600), (60.0, 100.0), 300)  # 47.5 % an hour
    assert find_reset(balance, BUCKET) is None


def load_of(balance: Series, per_s: float) -> Series:
    return Series(balance.starts_at_s, (per_s * 300,) * len(balance), 300)


# 5,000 IOPS lose 1,400 credits a second, 420,000 in five minutes: 1.54 points of 27.27 million.
def test_the_capacity_follows_from_the_load_and_the_fall():
    fall = 100 * 420_000 / 27_270_000
    balance = sparse_balances(*(90 - fall * index for index in range(6)))
    assert observed_capacity(balance, load_of(balance, 5_000), BUCKET) == pytest.approx(27_270_000)


@pytest.mark.parametrize(
    "values", [(90, 88), (50, 60, 70), (3.0, 0.0, 0.0), ()], ids=["small", "rising", "empty", "none"]
)
def test_without_a_fall_there_is_no_capacity(values):
    balance = sparse_balances(*values)
    assert observed_capacity(balance, load_of(balance, 5_000), BUCKET) is None


def test_periods_with_a_hole_or_without_a_load_are_left_out():
    fall = 100 * 420_000 / 27_270_000
    whole = sparse_balances(*(90 - fall * index for index in range(8)))
    holed = Series(whole.starts_at_s[:3] + whole.starts_at_s[4:], whole.values[:3] + whole.values[4:], 300)
    load = load_of(whole, 5_000)
    partial_load = Series(load.starts_at_s[:-1], load.values[:-1], 300)
    assert observed_capacity(holed, partial_load, BUCKET) == pytest.approx(27_270_000)


def test_a_load_below_the_baseline_explains_no_fall():
    balance = sparse_balances(90, 80, 70)
    assert observed_capacity(balance, load_of(balance, 3_000), BUCKET) is None


def test_the_load_is_the_sum_of_both_directions_where_both_are_known():
    metrics = InstanceMetrics(
        read_ops=Series((0, 300), (300.0, 600.0), 300),
        write_ops=Series((300, 600), (900.0, 1.0), 300),
        read_bytes=Series((0,), (300 * 2**20,), 300),
        write_bytes=Series((0,), (600 * 2**20,), 300),
    )
    assert metrics.load_of(INSTANCE_IO) == Series((300,), (1_500.0,), 300)
    assert metrics.load_of(INSTANCE_THROUGHPUT) == Series((0,), (900.0,), 300)
    load = highest_load(metrics.load_of(INSTANCE_IO), metrics.load_of(INSTANCE_THROUGHPUT))
    assert load == InstanceLoad(iops=5.0, mib_s=3.0)
    assert highest_load(Series(), Series()) == InstanceLoad()


def limits(iops: int, mib_s: float) -> InstanceLimits:
    return InstanceLimits(
        baseline_iops=iops, max_iops=40_000, baseline_throughput_mib_s=mib_s, max_throughput_mib_s=1_000
    )


FAMILY = {
    "m5.large": limits(3_600, 77),
    "m5.xlarge": limits(6_000, 137),
    "m5.2xlarge": limits(12_000, 274),
    "m5.4xlarge": limits(18_750, 566),
}


@pytest.mark.parametrize(
    ("load", "types"),
    [
        (InstanceLoad(), ["m5.xlarge", "m5.2xlarge"]),
        (InstanceLoad(iops=6_000, mib_s=137), ["m5.xlarge", "m5.2xlarge"]),
        (InstanceLoad(iops=6_001), ["m5.2xlarge", "m5.4xlarge"]),
        (InstanceLoad(iops=100, mib_s=300), ["m5.4xlarge"]),
        (InstanceLoad(iops=20_000), []),
    ],
)
def test_the_smallest_types_that_sustain_the_load_come_first(load, types):
    assert larger_types(FAMILY["m5.large"], load, FAMILY) == types


@pytest.mark.parametrize(
    ("iops", "mib_s", "volumes", "is_out_of_iops", "possible"),
    [
        # at its baseline: as much as its volumes serve, and the other rate grows with it
        (3_600, 36, (6_000, 256), True, (6_000, 60)),
        (3_600, 36, (None, None), True, (40_000, 400)),
        (300, 77, (6_000, 154), False, (600, 154)),
        (3_000, 77, (3_200, 154), False, (3_200, 154)),
        # it served more with credits, or wanted less: its load is known
        (4_000, 36, (6_000, 256), True, None),
        (3_000, 36, (6_000, 256), True, None),
        (None, 36, (6_000, 256), True, None),
    ],
)
def test_an_instance_that_is_held_to_its_baseline_may_want_more(
    iops, mib_s, volumes, is_out_of_iops, possible
):
    load = InstanceLoad(iops=iops, mib_s=mib_s)
    result = possible_load(load, FAMILY["m5.large"], volumes, is_out_of_iops=is_out_of_iops)
    rates = result and (result.iops, result.mib_s)
    assert rates == (possible and pytest.approx(possible))


def test_of_types_with_the_same_limits_the_smaller_size_comes_first():
    sizes = ["metal", "2xlarge", "large", "xlarge", "10xlarge", "medium"]
    family = {f"t3.{size}": limits(4_000, 83) for size in sizes} | {"t3.micro": limits(500, 10)}
    assert larger_types(family["t3.micro"], InstanceLoad(), family, count=6) == [
        *("t3.medium", "t3.large", "t3.xlarge", "t3.2xlarge", "t3.10xlarge", "t3.metal")
    ]

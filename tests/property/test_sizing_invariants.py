"""Invariants of the target: within AWS's limits, never slower than the burst, more for more demand.

The limits are written out again here, as AWS's documentation has them.
"""

from dataclasses import replace
from math import isclose

from hypothesis import assume, given
from hypothesis import strategies as st

from burstwatch.core.ebs.demand import Demand
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.pricing import US_EAST_1, Configuration, VolumeType, usd_per_month
from burstwatch.core.ebs.sizing import (
    Candidate,
    ReturnMode,
    Target,
    TargetOverride,
    TargetRefusal,
    choose_target,
    return_decision,
)
from burstwatch.core.ebs.volume_types import reachable_mib_s
from support.builders.core_values import a_volume

sizes_gib = st.one_of(st.integers(1, 300), st.integers(1, 16_384))
known_peaks = st.one_of(st.integers(0, 3_000), st.integers(0, 3_000), st.floats(0, 1e6))
peaks = st.one_of(st.none(), known_peaks)
demands = st.builds(Demand, peak_iops=peaks, peak_throughput_mib_s=peaks, is_throttled=st.booleans())
numbers = st.one_of(st.none(), st.none(), st.integers(0, 5_000), st.integers(-10, 10**9))
overrides = st.builds(
    TargetOverride,
    volume_type=st.sampled_from([None, VolumeType.GP3, VolumeType.IO1, VolumeType.IO2]),
    iops=numbers,
    throughput_mib_s=numbers,
)
balances = st.one_of(st.none(), st.floats(0, 100))
instances = st.one_of(
    st.none(),
    st.builds(
        InstanceLimits,
        max_iops=st.integers(100, 400_000),
        max_throughput_mib_s=st.floats(5, 10_000),
        baseline_iops=st.integers(100, 400_000),
        baseline_throughput_mib_s=st.floats(5, 10_000),
        io_balance_pct=balances,
        byte_balance_pct=balances,
    ),
)
gp2_volumes = st.builds(a_volume, sizes_gib)
any_volumes = st.one_of(
    gp2_volumes,
    st.builds(
        a_volume,
        st.integers(1, 70_000),
        volume_type=st.sampled_from(["gp2", "gp3", "gp3", "io1", "io2", "io2", "st1", "gp9"]),
        provisioned_iops=st.one_of(st.none(), st.integers(100, 300_000)),
        throughput_mib_s=st.one_of(st.none(), st.integers(125, 4_000)),
        instance_id=st.sampled_from(["i-0a1", None]),
    ),
)
large_instances = st.one_of(
    st.none(),
    st.builds(
        InstanceLimits,
        max_iops=st.integers(2_000, 400_000),
        max_throughput_mib_s=st.just(10_000.0),
        baseline_iops=st.just(2_000),
        baseline_throughput_mib_s=st.just(100.0),
    ),
)


def options(instance=large_instances):
    return st.fixed_dictionaries(
        {
            "instance": instance,
            "headroom_pct": st.floats(0, 200),
            "exact": st.sampled_from([False, False, True]),
        }
    )


def is_allowed(configuration: Configuration, size_gib: int) -> bool:
    iops, mib_s = configuration.iops, configuration.throughput_mib_s
    match configuration.volume_type:
        case VolumeType.GP3:
            return (
                size_gib <= 65_536
                and 3_000 <= iops <= max(3_000, min(80_000, 500 * size_gib))
                and 125 <= mib_s <= min(2_000, 0.25 * iops)
            )
        case VolumeType.IO1:
            return 4 <= size_gib <= 16_384 and 100 <= iops <= min(64_000, 50 * size_gib)
        case VolumeType.IO2:
            return 4 <= size_gib <= 65_536 and 100 <= iops <= min(256_000, 1_000 * size_gib)


@given(any_volumes, demands, overrides, options(instances))
def test_every_case_has_a_target_or_a_refusal_with_a_reason(volume, demand, override, how):
    answer = choose_target(volume, demand, override, US_EAST_1, **how)
    if isinstance(answer, TargetRefusal):
        assert answer.reason
        assert answer.next_step
        return
    assert isinstance(answer, Target)
    assert answer.reasons
    assert list(answer.alternatives) == ["gp3", "io1", "io2", "stay"]
    assert answer.configuration != answer.alternatives["stay"].configuration
    assert answer.configuration == answer.alternatives[answer.configuration.volume_type].configuration
    assert [return_decision(answer, mode).is_permanent for mode in (ReturnMode.ALWAYS, ReturnMode.NEVER)] == [
        False,
        True,
    ]


@given(any_volumes, demands, overrides, options())
def test_every_candidate_is_within_the_limits_of_aws(volume, demand, override, how):
    answer = choose_target(volume, demand, override, US_EAST_1, **how)
    assume(isinstance(answer, Target))
    for name, offer in answer.alternatives.items():
        if name != "stay" and isinstance(offer, Candidate):
            assert offer.configuration.volume_type == name
            assert is_allowed(offer.configuration, volume.size_gib)


@given(gp2_volumes, demands, overrides, options())
def test_gp3_is_never_slower_than_the_burst(volume, demand, override, how):
    answer = choose_target(volume, demand, override, US_EAST_1, **how)
    assume(isinstance(answer, Target) and answer.configuration.volume_type is VolumeType.GP3)
    assert answer.configuration.iops >= 3_000


@given(gp2_volumes, demands, overrides, options())
def test_no_target_is_slower_than_the_gp2_unless_exact(volume, demand, override, how):
    answer = choose_target(volume, demand, override, US_EAST_1, **(how | {"exact": False}))
    assume(isinstance(answer, Target))
    has_mib_s = 128 if volume.size_gib <= 170 else 250
    assert reachable_mib_s(answer.configuration, volume.size_gib) >= has_mib_s
    if answer.configuration.volume_type is VolumeType.GP3:
        assert answer.configuration.iops >= min(16_000, 3 * volume.size_gib)
    else:
        assert answer.configuration.iops >= min(3_000, demand.peak_iops or 0)


@given(any_volumes, demands, st.lists(known_peaks, min_size=2, max_size=2), overrides, options())
def test_more_demand_never_gets_fewer_iops(volume, demand, peaks_iops, override, how):
    answers = [
        choose_target(volume, replace(demand, peak_iops=peak_iops), override, US_EAST_1, **how)
        for peak_iops in sorted(peaks_iops)
    ]
    assume(all(isinstance(answer, Target) for answer in answers))
    less, more = (answer.configuration for answer in answers)
    assert less.volume_type == more.volume_type
    assert less.iops <= more.iops


@given(gp2_volumes, demands, overrides, options())
def test_demand_that_was_held_back_never_gets_fewer_iops_than_the_same_that_was_not(
    volume, demand, override, how
):
    answers = [
        choose_target(volume, replace(demand, is_throttled=pinned), override, US_EAST_1, **how)
        for pinned in (False, True)
    ]
    assume(all(isinstance(answer, Target) for answer in answers))
    free, held = (answer.configuration for answer in answers)
    assert free.iops <= held.iops


@given(gp2_volumes, demands, overrides, options())
def test_an_exact_target_is_given_or_refused(volume, demand, override, how):
    answer = choose_target(volume, demand, override, US_EAST_1, **(how | {"exact": True}))
    assume(isinstance(answer, Target))
    got = answer.configuration
    assert got.volume_type == (override.volume_type or VolumeType.GP3)
    assert override.iops in (None, got.iops)
    if got.volume_type is VolumeType.GP3:
        assert override.throughput_mib_s in (None, got.throughput_mib_s)


configurations = st.one_of(
    st.just(Configuration(volume_type=VolumeType.GP2)),
    st.builds(
        Configuration,
        volume_type=st.just(VolumeType.GP3),
        iops=st.integers(3_000, 80_000),
        throughput_mib_s=st.integers(125, 2_000),
    ),
    st.builds(
        Configuration,
        volume_type=st.sampled_from([VolumeType.IO1, VolumeType.IO2]),
        iops=st.integers(100, 256_000),
    ),
)


def usd(configuration: Configuration, size_gib: int) -> float:
    return usd_per_month(configuration, size_gib, US_EAST_1)


@given(configurations, sizes_gib, sizes_gib)
def test_storage_adds_up_and_the_rest_does_not_depend_on_the_size(configuration, one_gib, other_gib):
    together = usd(configuration, one_gib + other_gib) + usd(configuration, 0)
    assert isclose(together, usd(configuration, one_gib) + usd(configuration, other_gib), abs_tol=1e-5)


@given(st.integers(3_000, 80_000), st.integers(125, 2_000), sizes_gib)
def test_iops_and_throughput_of_gp3_are_paid_for_separately(iops, mib_s, size_gib):
    def gp3(iops: int, throughput_mib_s: int) -> Configuration:
        return Configuration(volume_type=VolumeType.GP3, iops=iops, throughput_mib_s=throughput_mib_s)

    extras = usd(gp3(iops, mib_s), size_gib) - usd(gp3(3_000, 125), size_gib)
    assert isclose(extras, usd(gp3(iops, 125), 0) + usd(gp3(3_000, mib_s), 0), abs_tol=1e-5)


@given(configurations, sizes_gib, st.integers(1, 10_000))
def test_more_never_costs_less(configuration, size_gib, extra):
    assert usd(configuration, size_gib) < usd(configuration, size_gib + 1)
    if configuration.iops is not None:
        more = replace(configuration, iops=configuration.iops + extra)
        assert usd(configuration, size_gib) < usd(more, size_gib)

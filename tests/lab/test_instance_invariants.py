"""Whatever the volumes of an instance demand, and however often one looks: the instance's limits hold."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabInstance, LabSettings
from burstlab.model.instances.instance_group import fair_shares
from burstlab.model.instances.instance_types import ebs_limits
from burstlab.model.loads.load import Cycle, SizedLoad
from burstlab.model.volume import LabVolume
from support.lab.lab_start import START

INSTANCES = ("i-0000000000000000a", "i-0000000000000000b")
DEMANDS = st.sampled_from([0, 40, 300, 900, 2_500, 6_000, 20_000])
ROUNDING = 1 + 2e-6
"""A history keeps the operations of a minute once for all the minutes that differ by less than 1e-6."""
PCTS = st.sampled_from([0, 0.01, 0.3, 2, 60, 100])
KINDS = [
    {"volume_type": "gp2"},
    {"volume_type": "gp3", "iops": 16_000, "throughput_mib_s": 1_000},
    {"volume_type": "gp3", "iops": 3_000, "throughput_mib_s": 125},
    {"volume_type": "st1"},
]


@st.composite
def loads(draw):
    seconds = st.sampled_from([1, 2, 3, 7, 20, 60, 90])
    steps = draw(st.lists(st.tuples(seconds, DEMANDS, DEMANDS), min_size=1, max_size=4))
    return SizedLoad(load=Cycle(tuple(steps)), operation_kib=draw(st.sampled_from([4, 16, 64, 256, 1_024])))


@st.composite
def volumes(draw):
    kind = draw(st.sampled_from(KINDS))
    size_gib = draw(st.sampled_from([125, 334, 2_000]))
    return LabVolume(size_gib=size_gib, load=draw(loads()), balance_pct=draw(PCTS), **kind)


shared_volumes = st.builds(
    LabVolume,
    size_gib=st.just(100),
    load=loads(),
    volume_type=st.just("io2"),
    iops=st.just(20_000),
    multi_attached=st.just(True),
    instance_ids=st.just(INSTANCES),
)


def a_fleet(instance_type, io_pct, byte_pct, *, queued=False):
    fleet = LabFleet(LabClock.manual(START), LabSettings(queued=queued))
    for instance_id in INSTANCES:
        fleet.add_instance(
            LabInstance(
                instance_id=instance_id,
                launched_at=START,
                instance_type=instance_type,
                tags={},
                io_pct=io_pct,
                byte_pct=byte_pct,
            )
        )
    return fleet


def moved(fleet, instance_id):
    """The operations and the KiB of each whole minute, by the volumes of an instance."""
    minutes = {}
    for hosting in fleet.instances[instance_id].hostings:
        for run in hosting.volume.history.runs(0, 10**9):
            for minute in range(run.first_minute, run.first_minute + run.minute_count):
                ops, kib = minutes.get(minute, (0, 0))
                minutes[minute] = (
                    ops + (run.read_ops + run.write_ops) * hosting.share,
                    kib + (run.read_kib + run.write_kib) * hosting.share,
                )
    return [amounts for _, amounts in sorted(minutes.items())]


@settings(max_examples=40, deadline=None)
@given(
    instance_type=st.sampled_from(["t3.nano", "t3.micro", "m5.large", "m5.4xlarge"]),
    on_first=st.lists(volumes(), min_size=1, max_size=3),
    on_second=st.lists(volumes(), max_size=1),
    shared=st.lists(shared_volumes, max_size=1),
    io_pct=PCTS,
    byte_pct=PCTS,
    queued=st.booleans(),
    looks_min=st.lists(st.integers(1, 15), min_size=1, max_size=3),
)
def test_no_more_is_served_than_the_instance_gives_and_nothing_is_lost_between_the_volumes(
    instance_type, on_first, on_second, shared, io_pct, byte_pct, queued, looks_min
):
    fleet = a_fleet(instance_type, io_pct, byte_pct, queued=queued)
    for instance_id, definitions in zip(INSTANCES, (on_first, on_second), strict=True):
        for definition in definitions:
            fleet.add(replaced(definition, instance_id=instance_id))
    fleet.add_all(shared)
    for minutes in looks_min:
        fleet.clock.advance(minutes * 60)
        for instance_id in INSTANCES:
            fleet.instance_truth(instance_id)
    limits = ebs_limits(instance_type)
    for instance_id in INSTANCES:
        truth = fleet.instance_truth(instance_id)
        by_minute = moved(fleet, instance_id)
        for rate, pct, index, after in (
            (limits.io, io_pct, 0, truth.io),
            (limits.kib, byte_pct, 1, truth.throughput),
        ):
            amounts = [minute[index] for minute in by_minute]
            credits_at_start = rate.capacity * pct / 100
            for elapsed_min, amount in enumerate(amounts, start=1):
                assert amount <= rate.maximum * 60 * ROUNDING
                given_so_far = rate.baseline * 60 * elapsed_min + credits_at_start
                assert sum(amounts[:elapsed_min]) <= given_so_far * ROUNDING
            if not rate.capacity:
                assert after.balance_pct is None
                continue
            assert 0 <= after.balance_pct <= 100
            credits_at_end = rate.capacity * after.balance_pct / 100
            most = rate.baseline * 60 * len(amounts) + credits_at_start
            assert credits_at_end + sum(amounts) <= most * ROUNDING
    for volume in fleet:
        served = fleet.truth(volume.volume_id)
        assert 0 <= served.burst_balance_pct <= 100


def replaced(definition, **changes):
    names = ("size_gib", "load", "balance_pct", "volume_type", "iops", "throughput_mib_s")
    return LabVolume(**{name: getattr(definition, name) for name in names}, **changes)


@settings(max_examples=60, deadline=None)
@given(
    instance_type=st.sampled_from(["t3.nano", "t3.micro", "m5.large"]),
    patterns=st.lists(loads(), min_size=1, max_size=3),
    io_pct=PCTS,
    byte_pct=PCTS,
    looks=st.lists(st.integers(1, 400), min_size=1, max_size=4),
)
@example(
    instance_type="t3.nano",
    patterns=[SizedLoad(load=Cycle(((1, 0, 900), (1, 0, 0)))), SizedLoad(load=Cycle(((60, 0, 300),)))],
    io_pct=0.01,
    byte_pct=100,
    looks=[2_000],
)
@example(
    instance_type="t3.nano",
    patterns=[
        SizedLoad(load=Cycle(((1, 0, 0), (20, 0, 2_500))), operation_kib=4),
        SizedLoad(load=Cycle(((2, 0, 900),)), operation_kib=1_024),
    ],
    io_pct=0.3,
    byte_pct=2,
    looks=[20],
)
def test_volumes_of_an_instance_equal_stepping_second_by_second_however_often_one_looks(
    instance_type, patterns, io_pct, byte_pct, looks
):
    fleet = a_fleet(instance_type, io_pct, byte_pct)
    fast = {"size_gib": 1_000, "volume_type": "gp3", "iops": 80_000, "throughput_mib_s": 2_000}
    ids = [fleet.add(LabVolume(load=load, instance_id=INSTANCES[0], **fast)) for load in patterns]
    for seconds in looks:
        fleet.clock.advance(seconds)
        fleet.find(ids[0])
    truth = fleet.instance_truth(INSTANCES[0])
    expected_ops, io_left, kib_left = by_second(
        ebs_limits(instance_type), patterns, io_pct, byte_pct, sum(looks)
    )
    lost_ops = [fleet.truth(volume_id).lost_ops for volume_id in ids]
    demanded = [sum(demands(load, sum(looks))) for load in patterns]
    served = [demand - unserved for demand, unserved in zip(demanded, lost_ops, strict=True)]
    assert served == pytest.approx(expected_ops, rel=1e-6, abs=1e-3)
    assert truth.io.balance_pct == pytest.approx(io_left, rel=1e-6, abs=1e-6)
    assert truth.throughput.balance_pct == pytest.approx(kib_left, rel=1e-6, abs=1e-6)


def demands(load, seconds):
    """The operations of each second as EBS counts them: 256 KiB at most."""
    parts = max(1, load.operation_kib // 256)
    pattern = [(reads + writes) * parts for length, reads, writes in load.load.steps for _ in range(length)]
    return [pattern[second % len(pattern)] for second in range(seconds)]


def by_second(limits, patterns, io_pct, byte_pct, seconds):
    """Naive: in each second the limits are the baseline and what is left, or the maximum."""
    sizes = [min(256, load.operation_kib) for load in patterns]
    by_volume = [demands(load, seconds) for load in patterns]
    totals = [0.0] * len(patterns)
    levels = [limits.io.capacity * io_pct / 100, limits.kib.capacity * byte_pct / 100]
    for second in range(seconds):
        wanted = [
            min(demand[second], 80_000, 2_000 * 1_024 / size)
            for demand, size in zip(by_volume, sizes, strict=True)
        ]
        ops = fair_shares(wanted, min(limits.io.maximum, limits.io.baseline + levels[0]))
        kib_wanted = [iops * size for iops, size in zip(ops, sizes, strict=True)]
        kib = fair_shares(kib_wanted, min(limits.kib.maximum, limits.kib.baseline + levels[1]))
        ops = [moved_kib / size for moved_kib, size in zip(kib, sizes, strict=True)]
        for index, (rate, used) in enumerate(((limits.io, sum(ops)), (limits.kib, sum(kib)))):
            levels[index] = min(rate.capacity, max(0.0, levels[index] + rate.baseline - used))
        totals = [total + served for total, served in zip(totals, ops, strict=True)]
    return totals, 100 * levels[0] / limits.io.capacity, 100 * levels[1] / limits.kib.capacity


@given(demands=st.lists(st.floats(0, 1e6), min_size=1, max_size=60), limit=st.floats(0, 1e6))
def test_fair_shares_use_the_limit_and_give_the_small_ones_all_they_demand(demands, limit):
    shares = fair_shares(demands, limit)
    assert sum(shares) <= min(limit, sum(demands)) * (1 + 1e-9) + 1e-9
    assert sum(shares) == pytest.approx(min(limit, sum(demands)), rel=1e-9, abs=1e-6)
    reduced = [share for share, demand in zip(shares, demands, strict=True) if share < demand - 1e-6]
    assert all(share <= demand for share, demand in zip(shares, demands, strict=True))
    assert max(reduced, default=0) == pytest.approx(max(shares) if reduced else 0)
    assert max(reduced, default=0) == pytest.approx(min(reduced, default=0))

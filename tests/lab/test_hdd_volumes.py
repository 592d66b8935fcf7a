"""st1 and sc1 in numbers of AWS's user guide, calculated by hand.

1 TiB of st1 sustains 40 MiB a second, serves 250 with credits, and has 1,048,576 MiB of them.
"""

from datetime import timedelta

import pytest

from burstlab.fake_aws.cloudwatch.volume_metrics import read_datapoints
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabInstance, LabSettings
from burstlab.model.volume import LabVolume
from support.lab.lab_start import START

TIB = 1_024


def a_fleet(**chosen):
    return LabFleet(LabClock.manual(START), LabSettings(**chosen))


def datapoints(fleet, volume_id, metric="BurstBalance", statistic="Minimum"):
    start_s = int(START.timestamp())
    result = read_datapoints(
        fleet.find(volume_id),
        metric,
        statistic,
        period_s=60,
        from_s=start_s,
        to_s=start_s + 86_400 * 2,
        now_s=fleet.clock.now_s(),
        settings=fleet.settings,
    )
    return [
        ((at_s - start_s) // 60, value) for at_s, value in zip(result.starts_s, result.values, strict=True)
    ]


# seconds from full to empty at full burst, and from empty to full if idle
AWS_RATES = [
    ("st1", 125, 4_993, 26_214),
    ("st1", 1 * TIB, 4_993, 26_214),
    ("st1", 2 * TIB, 4_993, 26_214),
    ("st1", 4 * TIB, 12_336, 26_214),
    ("st1", 8 * TIB, 46_603, 26_214),
    ("sc1", 125, 15_420, 87_381),
    ("sc1", 3 * TIB, 15_420, 87_381),
    ("sc1", 8 * TIB, 54_472, 87_381),
]


@pytest.mark.parametrize(("volume_type", "size_gib", "drain_s", "refill_s"), AWS_RATES)
def test_a_bucket_drains_and_refills_at_the_rates_of_the_user_guide(volume_type, size_gib, drain_s, refill_s):
    fleet = a_fleet()
    draining = fleet.add(LabVolume(size_gib=size_gib, volume_type=volume_type, load="steady:500@1024"))
    filling = fleet.add(LabVolume(size_gib=size_gib, volume_type=volume_type, balance_pct=0))
    fleet.clock.advance(drain_s - 2)
    assert fleet.truth(draining).credits > 0
    fleet.clock.advance(4)
    truth = fleet.truth(draining)
    assert truth.credits == 0
    assert truth.dry_since == pytest.approx(START + timedelta(seconds=drain_s), abs=timedelta(seconds=2))
    fleet.clock.advance(max(0, refill_s - drain_s - 4))
    if refill_s > drain_s:
        assert fleet.truth(filling).burst_balance_pct == pytest.approx(100, abs=0.02)
        assert fleet.truth(filling).burst_balance_pct < 100
    fleet.clock.advance(10)
    assert fleet.truth(filling).burst_balance_pct == 100


def test_a_terabyte_of_st1_is_published_by_its_balance_and_its_bytes():
    # 100 MiB a second in operations of 1 MiB: 60 of them above 40, 3,600 a minute of 1,048,576
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=TIB, volume_type="st1", load="steady:100@1024"))
    fleet.clock.advance(120)
    assert datapoints(fleet, volume_id) == [
        (0, pytest.approx(100 - 360_000 / 1_048_576)),
        (1, pytest.approx(100 - 720_000 / 1_048_576)),
    ]
    assert datapoints(fleet, volume_id, "VolumeWriteBytes", "Sum")[0] == (0, 75 * 60 * 2**20)
    truth = fleet.truth(volume_id)
    assert (truth.credits, truth.ceiling_iops) == (pytest.approx(1_048_576 - 7_200), 250)


def test_an_empty_volume_serves_its_baseline_whatever_the_size_of_its_operations():
    fleet = a_fleet()
    large, small = (
        fleet.add(LabVolume(size_gib=2 * TIB, volume_type="st1", load=load, balance_pct=0))
        for load in ("steady:500@1024", "steady:32000@16")
    )
    fleet.clock.advance(60)
    assert fleet.truth(large).served_iops == 80  # 80 MiB a second
    assert fleet.truth(small).served_iops == 80 * 64


@pytest.mark.parametrize(("volume_type", "size_gib"), [("st1", 12_800), ("st1", 16_384)])
def test_a_volume_whose_baseline_is_its_burst_never_drains_and_publishes_nothing(volume_type, size_gib):
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=size_gib, volume_type=volume_type, load="steady:600@1024"))
    fleet.clock.advance(86_400)
    assert fleet.truth(volume_id).served_iops == 500
    assert datapoints(fleet, volume_id) == []
    publishing = a_fleet(large_publish=True)
    volume_id = publishing.add(LabVolume(size_gib=size_gib, volume_type=volume_type))
    publishing.clock.advance(60)
    assert datapoints(publishing, volume_id) == [(0, 100)]


def test_an_operation_of_a_mebibyte_is_four_of_an_ssd_volume():
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(size_gib=1_000, load="steady:40@1024"))
    fleet.clock.advance(60)
    assert fleet.truth(volume_id).served_iops == 160
    assert datapoints(fleet, volume_id, "VolumeWriteOps", "Sum") == [(0, 120 * 60)]
    assert datapoints(fleet, volume_id, "VolumeWriteBytes", "Sum") == [(0, 30 * 60 * 2**20)]


@pytest.mark.parametrize(
    ("definition", "mib_s"),
    [
        ({"size_gib": 170}, 128),
        ({"size_gib": 250}, 250),
        ({"size_gib": 250, "balance_pct": 0}, 128),
        ({"size_gib": 5_334}, 250),
        ({"size_gib": 100, "volume_type": "gp3"}, 125),
        ({"size_gib": 100, "volume_type": "gp3", "iops": 4_000, "throughput_mib_s": 600}, 600),
        ({"size_gib": 1_000, "volume_type": "io1", "iops": 32_000}, 500),
        ({"size_gib": 2_000, "volume_type": "io1", "iops": 64_000}, 1_000),
    ],
)
def test_a_volume_serves_no_more_than_its_throughput(definition, mib_s):
    # the volume of 250 GiB without credits could serve 750 operations of 256 KiB by its baseline: 187.5 MiB
    fleet = a_fleet()
    volume_id = fleet.add(LabVolume(load="steady:16000@256", **definition))
    fleet.clock.advance(1)
    assert fleet.truth(volume_id).served_iops / 4 == pytest.approx(mib_s)


def test_a_larger_volume_keeps_its_share_of_the_bucket_and_a_gp2_that_becomes_one_as_well():
    fleet = a_fleet(uplift="completed", modify_spread=0)
    st1 = fleet.add(LabVolume(size_gib=TIB, volume_type="st1", balance_pct=50))
    gp2 = fleet.add(LabVolume(size_gib=500, balance_pct=50, load="steady:1500"))
    fleet.modify(st1, size_gib=2 * TIB)
    fleet.modify(gp2, volume_type="st1")
    fleet.end_modification(st1)
    fleet.end_modification(gp2)
    assert fleet.truth(st1).credits == pytest.approx(1_048_576)
    assert fleet.truth(gp2).credits == pytest.approx(1_048_576 * 500 / 1_024 / 2)
    fleet.clock.advance(60)
    assert len(datapoints(fleet, gp2)) == 1


def test_an_instance_holds_an_hdd_volume_back_by_its_throughput():
    # t3.medium sustains 43.4 MB a second: 41.4 MiB; the volume of 2 TiB with credits could serve 500
    fleet = a_fleet()
    fleet.add_instance(
        LabInstance(instance_id="i-0a", launched_at=START, instance_type="t3.medium", tags={}, byte_pct=0)
    )
    volume_id = fleet.add(
        LabVolume(size_gib=2 * TIB, volume_type="st1", load="steady:500@1024", instance_id="i-0a")
    )
    fleet.clock.advance(3_600)
    truth = fleet.instance_truth("i-0a")
    assert truth.throughput.balance_pct == 0
    assert fleet.truth(volume_id).served_iops == pytest.approx(truth.throughput.limit)
    assert fleet.truth(volume_id).burst_balance_pct == 100  # it earns 80 MiB a second

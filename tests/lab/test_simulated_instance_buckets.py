"""Instances that hold their volumes back, in numbers calculated by hand.

m5.large sustains 3,600 operations and 81.25 MB a second, and serves 18,750 and 593.75 MB at most. So its
buckets hold (18,750 - 3,600) * 1,800 = 27,270,000 operations and 512.5 MB * 1,800 = 922,500 MB.
"""

from datetime import timedelta

import pytest

from burstlab.model.clock import LabClock
from burstlab.model.fleet import FleetError, LabFleet, LabInstance, LabSettings
from burstlab.model.instances.instance_group import fair_shares
from burstlab.model.loads.load import Cycle
from burstlab.model.volume import LabVolume
from support.lab.lab_start import START

LARGE, OTHER = "i-0000000000000000a", "i-0000000000000000b"
KIB_PER_MB = 1_000_000 / 1_024


def a_fleet(instance_type="m5.large", *, chosen=None, **changes):
    fleet = LabFleet(LabClock.manual(START), LabSettings(**(chosen or {})))
    for instance_id in (LARGE, OTHER):
        fleet.add_instance(
            LabInstance(
                instance_id=instance_id,
                launched_at=START,
                instance_type=instance_type,
                tags={},
                **changes,
            )
        )
    return fleet


def a_volume(load, **changes):
    """One that allows more than the instance does."""
    fast = {"size_gib": 100, "volume_type": "gp3", "iops": 16_000, "throughput_mib_s": 1_000}
    return LabVolume(load=load, **{**fast, "instance_id": LARGE, **changes})


def served_ops(fleet, volume_id):
    """All operations so far, of whole minutes."""
    runs = fleet.find(volume_id).history.runs(0, 10**9)
    return sum((run.read_ops + run.write_ops) * run.minute_count for run in runs)


def test_the_io_bucket_of_an_instance_drains_above_its_baseline_and_then_holds_the_load_back():
    # 10 % are 2,727,000; 10,000 a second take 6,400 of them, so they last for 426.1 s
    fleet = a_fleet(io_pct=10)
    volume_id = fleet.add(a_volume("steady:10000@4"))
    fleet.clock.advance(400)
    truth = fleet.instance_truth(LARGE)
    assert truth.io.balance_pct == pytest.approx((2_727_000 - 400 * 6_400) / 272_700)
    assert (truth.demand_iops, truth.served_iops, truth.io.limit) == (10_000, 10_000, 18_750)
    fleet.clock.advance(500)
    truth = fleet.instance_truth(LARGE)
    assert (truth.io.balance_pct, truth.io.limit) == (0, 3_600)
    assert (truth.demand_iops, truth.served_iops) == (10_000, pytest.approx(3_600))
    assert truth.io.empty_since == truth.io.first_empty_at == START + timedelta(seconds=427)
    assert served_ops(fleet, volume_id) == pytest.approx(900 * 3_600 + 2_727_000)
    assert fleet.truth(volume_id).lost_ops == pytest.approx(900 * 6_400 - 2_727_000)
    # 10,000 of 4 KiB are 40.96 MB a second, below the baseline: the other bucket never drains
    assert truth.throughput.balance_pct == 100


def test_an_idle_instance_refills_its_bucket_at_the_baseline():
    # 27,270,000 / 3,600 = 7,575 s
    fleet = a_fleet(io_pct=0)
    volume_id = fleet.add(a_volume("idle"))
    fleet.clock.advance(3_600)
    assert fleet.instance_truth(LARGE).io.balance_pct == pytest.approx(100 * 3_600 / 7_575)
    fleet.clock.advance(3_975)
    truth = fleet.instance_truth(LARGE)
    assert (truth.io.balance_pct, truth.io.empty_since) == (100, None)
    assert fleet.find(volume_id).group is None


def test_the_byte_bucket_of_an_instance_holds_large_operations_back():
    # 1,000 of 256 KiB are 262.144 MB a second, 180.894 above the baseline; 10 % are 92,250 MB: 509.97 s
    fleet = a_fleet(byte_pct=10)
    volume_id = fleet.add(a_volume("steady:1000@256"))
    fleet.clock.advance(480)
    balance_pct = fleet.instance_truth(LARGE).throughput.balance_pct
    assert balance_pct == pytest.approx(10 - 480 * 180.894 / 9_225)
    fleet.clock.advance(120)
    truth = fleet.instance_truth(LARGE)
    assert truth.throughput.balance_pct == 0
    assert truth.throughput.limit == pytest.approx(81.25e6 / 2**20)
    assert truth.served_mib_s == pytest.approx(81.25e6 / 2**20)
    assert served_ops(fleet, volume_id) * 256 == pytest.approx((600 * 81.25 + 92_250) * KIB_PER_MB)


def test_a_maximum_holds_the_load_back_while_there_are_credits():
    fleet = a_fleet()
    volume_ids = fleet.add_all([a_volume("steady:12000@4")] * 2)
    fleet.clock.advance(60)
    truth = fleet.instance_truth(LARGE)
    assert (truth.demand_iops, truth.served_iops) == (24_000, 18_750)
    assert truth.io.balance_pct == pytest.approx(100 * (1 - 60 / 1_800))
    assert [served_ops(fleet, volume_id) for volume_id in volume_ids] == pytest.approx([9_375 * 60] * 2)


def test_volumes_of_an_instance_get_equal_shares_and_none_more_than_it_demands():
    fleet = a_fleet(io_pct=0)
    volume_ids = fleet.add_all([a_volume(f"steady:{iops}@4") for iops in (500, 4_000, 5_000)])
    fleet.clock.advance(60)
    assert [fleet.truth(volume_id).served_iops for volume_id in volume_ids] == [500, 1_550, 1_550]
    assert fair_shares([10, 80, 90], 100) == [10, 45, 45]
    assert fair_shares([10, 80], 100) == [10, 80]


def test_a_share_of_the_operations_that_is_too_much_throughput_is_reduced_again():
    # both buckets are empty: 3,600 operations, of which the large ones get 79,345.7 KiB less 800 KiB
    fleet = a_fleet(io_pct=0, byte_pct=0)
    small, large = fleet.add_all([a_volume("steady:200@4"), a_volume("steady:4000@64")])
    fleet.clock.advance(60)
    assert fleet.truth(small).served_iops == 200
    assert fleet.truth(large).served_iops == pytest.approx((81.25 * KIB_PER_MB - 800) / 64)


def test_a_type_without_a_bucket_has_one_limit_at_all_times():
    fleet = a_fleet("m5.4xlarge")
    volume_ids = fleet.add_all([a_volume("steady:12000@4")] * 2)
    fleet.clock.advance(86_400)
    truth = fleet.instance_truth(LARGE)
    assert (truth.io.limit, truth.io.balance_pct, truth.served_iops) == (18_750, None, 18_750)
    assert fleet.truth(volume_ids[0]).served_iops == 9_375


@pytest.mark.parametrize("instance_type", ["t2.micro", "x9.huge"])
def test_a_type_without_limits_of_its_own_holds_nothing_back(instance_type):
    fleet = a_fleet(instance_type)
    volume_ids = fleet.add_all([a_volume("steady:16000@4")] * 9)
    fleet.clock.advance(600)
    truth = fleet.instance_truth(LARGE)
    assert (truth.io, truth.throughput, truth.served_iops) == (None, None, 9 * 16_000)
    assert fleet.truth(volume_ids[0]).served_iops == 16_000


def test_volumes_that_cannot_drain_their_instance_are_simulated_on_their_own():
    # 3,000 and 500 operations at most: below 3,600 whatever the second volume, a gp2, could serve
    fleet = a_fleet()
    first, second = fleet.add_all(
        [a_volume("steady:5000", iops=3_000), a_volume("steady:500", volume_type="gp2", iops=None)]
    )
    fleet.clock.advance(600)
    assert fleet.find(first).group is fleet.find(second).group is None
    fleet.set_load(second, "steady:2000")
    assert fleet.find(first).group is fleet.find(second).group is not None
    fleet.clock.advance(600)
    # 3,000 and 2,000: 1,400 above the baseline; of the first 600 s nothing was taken
    assert fleet.instance_truth(LARGE).io.balance_pct == pytest.approx(100 - 600 * 1_400 / 272_700)
    fleet.set_load(second, "idle")
    fleet.clock.advance(3_600)
    assert fleet.instance_truth(LARGE).io.balance_pct == 100
    assert fleet.find(first).group is None


def test_a_gp2_that_its_instance_holds_back_keeps_its_own_credits():
    # t3.micro sustains 500. The volume of 100 GiB earns 300, and loses 200 a second where it would lose 2,700
    fleet = a_fleet("t3.micro", io_pct=0)
    volume_id = fleet.add(LabVolume(size_gib=100, load="steady:3000@4", instance_id=LARGE))
    fleet.clock.advance(600)
    truth = fleet.truth(volume_id)
    assert truth.served_iops == pytest.approx(500)
    assert truth.credits == pytest.approx(5_400_000 - 600 * 200)


def test_a_bucket_is_filled_daily_at_the_chosen_hour():
    fleet = a_fleet(io_pct=50, chosen={"instance_reset_hour": 19})
    fleet.add(a_volume("steady:4000@4"))
    fleet.clock.advance(3_599)
    before_pct = fleet.instance_truth(LARGE).io.balance_pct
    fleet.clock.advance(1)
    assert before_pct == pytest.approx(50 - 3_599 * 400 / 272_700)
    assert fleet.instance_truth(LARGE).io.balance_pct == 100


def test_a_minute_that_repeats_gives_what_stepping_through_it_does():
    # 900, 300 and 180 for a second each: 460 on average; two volumes at four times that, 3,680 in all
    looked_at_often, looked_at_once = a_fleet(io_pct=0.5), a_fleet(io_pct=0.5)
    for fleet in (looked_at_often, looked_at_once):
        fleet.add_all([a_volume("docker-loop*4"), a_volume("docker-loop*4+1"), a_volume("steady:1000")])
    for _ in range(400):
        looked_at_often.clock.advance(9)
        looked_at_often.instance_truth(LARGE)
    looked_at_once.clock.advance(3_600)
    for first, second in zip(looked_at_often, looked_at_once, strict=True):
        assert served_ops(looked_at_often, first.volume_id) == pytest.approx(
            served_ops(looked_at_once, second.volume_id)
        )
    often, once = (fleet.instance_truth(LARGE) for fleet in (looked_at_often, looked_at_once))
    assert often.io.balance_pct == pytest.approx(once.io.balance_pct)
    assert often.io.first_empty_at == once.io.first_empty_at
    runs = looked_at_once.instances[LARGE].histories[1].runs(0, 10**9)
    assert len(runs) < 10


def test_a_shared_volume_sends_equal_parts_and_its_slowest_instance_holds_it_back():
    fleet = a_fleet(io_pct=0)
    shared = fleet.add(
        a_volume(
            "steady:8000@4",
            volume_type="io2",
            throughput_mib_s=None,
            multi_attached=True,
            instance_id=None,
            instance_ids=(LARGE, OTHER),
        )
    )
    alone = fleet.add(a_volume("steady:4000@4"))
    fleet.clock.advance(60)
    # 4,000 and 4,000 on the first instance: 1,800 each; the second gets no more of the shared volume
    assert (fleet.truth(shared).served_iops, fleet.truth(alone).served_iops) == (3_600, 1_800)
    assert fleet.instance_truth(OTHER).served_iops == 1_800
    fleet.stop_instance(LARGE)
    fleet.clock.advance(60)
    assert fleet.truth(shared).served_iops == pytest.approx(3_600 + 1_800, abs=1_800)
    assert [attachment.instance_id for attachment in fleet.find(shared).attachments] == [LARGE, OTHER]
    fleet.detach(shared, LARGE)
    assert [attachment.instance_id for attachment in fleet.find(shared).attachments] == [OTHER]
    assert fleet.attach(shared, LARGE) == LARGE
    with pytest.raises(FleetError, match="attached already"):
        fleet.attach(shared, LARGE)


def test_several_instances_need_a_volume_that_can_be_shared():
    with pytest.raises(ValueError, match="instance_ids needs multi_attached, and one of io1, io2"):
        a_volume("idle", instance_id=None, instance_ids=(LARGE, OTHER), multi_attached=True)
    with pytest.raises(ValueError, match="give instance_id or instance_ids"):
        a_volume("idle", volume_type="io2", instance_ids=(LARGE, OTHER), multi_attached=True)
    with pytest.raises(ValueError, match="names an instance twice"):
        a_volume(
            "idle", volume_type="io2", instance_id=None, instance_ids=(LARGE, LARGE), multi_attached=True
        )


def test_another_type_has_other_limits_and_full_buckets_and_can_be_chosen_while_stopped():
    fleet = a_fleet(io_pct=0)
    volume_id = fleet.add(a_volume("steady:10000@4"))
    fleet.clock.advance(60)
    with pytest.raises(FleetError, match="is running: its type can be changed while it is stopped"):
        fleet.set_instance_type(LARGE, "m5.xlarge")
    fleet.stop_instance(LARGE)
    fleet.clock.advance(60)
    fleet.set_instance_type(LARGE, "m5.xlarge")
    fleet.start_instance(LARGE)
    fleet.clock.advance(60)
    # m5.xlarge sustains 6,000: (18,750 - 6,000) * 1,800 = 22,950,000
    assert fleet.truth(volume_id).served_iops == 10_000
    assert fleet.instance_truth(LARGE).io.balance_pct == pytest.approx(100 - 60 * 4_000 / 229_500)


def test_a_bucket_can_be_put_to_a_level():
    fleet = a_fleet()
    fleet.add(a_volume("steady:10000@4"))
    fleet.clock.advance(60)
    fleet.fill_instance(LARGE, io_pct=5)
    fleet.clock.advance(100)
    assert fleet.instance_truth(LARGE).io.balance_pct == pytest.approx(5 - 640_000 / 272_700)
    with pytest.raises(ValueError, match="io_pct is 101: give 0 to 100"):
        fleet.fill_instance(LARGE, io_pct=101)
    fleet.add_instance(LabInstance(instance_id="i-0c", launched_at=START, tags={}))
    with pytest.raises(ValueError, match=r"m5\.24xlarge has no bucket for byte_pct"):
        fleet.fill_instance("i-0c", byte_pct=50)


def test_a_volume_that_comes_later_joins_the_others():
    fleet = a_fleet(io_pct=0)
    first = fleet.add(a_volume("steady:5000@4"))
    fleet.clock.advance(60)
    assert fleet.truth(first).served_iops == 3_600
    second = fleet.add(a_volume("steady:5000@4", starts_at=START + timedelta(seconds=90)))
    fleet.clock.advance(30)
    assert fleet.truth(first).served_iops == 3_600
    fleet.clock.advance(30)
    assert (fleet.truth(first).served_iops, fleet.truth(second).served_iops) == (1_800, 1_800)
    fleet.remove(first)
    fleet.clock.advance(30)
    assert fleet.truth(second).served_iops == 3_600
    fleet.detach(second)
    fleet.clock.advance(30)
    assert fleet.instance_truth(LARGE).demand_iops == 0


def test_a_modification_to_a_faster_volume_drains_the_instance():
    # gp2 of 500 GiB serves 3,000 at most; as gp3 with 6,000 it takes 2,400 a second from the bucket
    fleet = a_fleet(chosen={"uplift": "accepted"})
    volume_id = fleet.add(LabVolume(size_gib=500, load="steady:6000@4", instance_id=LARGE))
    fleet.clock.advance(600)
    assert fleet.find(volume_id).group is None
    fleet.modify(volume_id, volume_type="gp3", iops=6_000, throughput_mib_s=250)
    fleet.clock.advance(600)
    assert fleet.truth(volume_id).served_iops == 6_000
    assert fleet.instance_truth(LARGE).io.balance_pct == pytest.approx(100 - 600 * 2_400 / 272_700)


def test_a_queue_behind_an_instance_is_served_when_the_load_is_gone():
    fleet = a_fleet(io_pct=0, chosen={"queued": True})
    volume_id = fleet.add(a_volume("steady:4600@4"))
    fleet.clock.advance(60)
    assert fleet.truth(volume_id).backlog_ops == pytest.approx(60_000)
    fleet.set_load(volume_id, Cycle(((60, 0, 600),)))
    fleet.clock.advance(30)
    # 600 come and 3,600 are served: 60,000 are gone after 20 s, then the bucket refills with 3,000 a second
    assert fleet.truth(volume_id).backlog_ops == 0
    assert fleet.instance_truth(LARGE).io.balance_pct == pytest.approx(10 * 3_000 / 272_700)

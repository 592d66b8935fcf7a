import pytest

from burstwatch.core.place import Place
from burstwatch.core.policy import ModePolicy
from burstwatch.core.propose import propose
from burstwatch.core.samples import Series
from burstwatch.core.tags import read_tags
from burstwatch.core.target import Wish
from conftest import a_volume, an_assessment, balances

HERE = Place(region="eu-west-1", account="123456789012")


def served(iops: float) -> Series:
    """Operations of five minutes up to the newest closed one."""
    return balances(*[iops * 60] * 5)


def proposed(size_gib=100, reads=None, writes=None, wish=None, **changes):
    assessment = an_assessment(
        balances(30.0), volume=a_volume(size_gib, **changes), read_ops=reads, write_ops=writes
    )
    return propose(assessment, wish or Wish(), HERE)


@pytest.mark.parametrize(("size_gib", "mib_s"), [(100, 128), (170, 128), (171, 250)])
def test_it_is_a_gp3_no_slower_than_the_burst(size_gib, mib_s):
    assert proposed(size_gib).action == (
        "aws ec2 modify-volume --region eu-west-1 --volume-id vol-0a1"
        f" --volume-type gp3 --iops 3000 --throughput {mib_s}"
    )


def test_a_volume_seen_at_the_ceiling_gets_headroom():
    # 2,900 of 3,000 IOPS served: what is wanted may be more. 2,900 and a quarter are 3,625.
    assert proposed(reads=served(900), writes=served(2_000)).target.iops == 3_625


def test_a_volume_seen_below_the_ceiling_gets_what_the_burst_gave():
    assert proposed(reads=served(400), writes=served(1_000)).target.iops == 3_000


def test_the_price_is_told_with_its_source():
    # 100 GiB gp3 at 3,000 IOPS and 128 MiB/s: 8.00 + 3 x 0.04 = 8.12; gp2 10.00.
    [*_, price] = proposed().reasons
    assert price == (
        "gp3 with 3,000 IOPS and 128 MiB/s costs $8.12 a month instead of $10.00"
        " (us-east-1 list prices of 2026-09-30)"
    )


def test_tags_choose_the_type_and_its_iops():
    wishes = read_tags({"burstwatch:target": "io2", "burstwatch:iops": "5000"}, ModePolicy())
    assert wishes.faults == ()
    target = proposed(wish=wishes.target).target
    assert (target.volume_type, target.iops, target.throughput_mib_s) == ("io2", 5_000, None)


def test_a_command_for_an_io_type_sets_no_throughput():
    assert (
        "--throughput"
        not in proposed(wish=read_tags({"burstwatch:target": "io1"}, ModePolicy()).target).action
    )


@pytest.mark.parametrize(
    "tags",
    [
        {"burstwatch:target": "gp2"},
        {"burstwatch:iops": "many"},
        {"burstwatch:iops": "0"},
        {"burstwatch:throughput": "-1"},
        {"burstwatch:iops": "9" * 30},
    ],
)
def test_bad_wishes_are_told_and_not_granted(tags):
    wishes = read_tags(tags, ModePolicy())
    assert len(wishes.faults) == 1
    assert wishes.target == Wish()


def test_a_managed_volume_is_for_its_manager_to_change():
    proposal = proposed(managed_by="ecs")
    assert proposal.action == "managed by ecs: change its volume type there"
    assert proposal.target is None

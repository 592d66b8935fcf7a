import pytest

from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import TargetOverride
from burstwatch.core.flips.flip_plan import FlipContext, FlipOrder
from burstwatch.core.flips.planning import make_plan
from burstwatch.core.flips.recommendation import demand_of, recommend
from burstwatch.core.ledger.flip_state import EXTERNAL, WATCHDOG, Direction, FlipCause, ModificationUse
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import FlipPolicy, ModePolicy, Policy
from burstwatch.core.policy.volume_tags import read_tags
from support.builders.core_values import a_state, a_volume, an_assessment, at, balances, volume_settings

LOCATION = AwsLocation(region="eu-west-1", account="123456789012")


def served_series(iops: float) -> Series:
    """Operations of five minutes up to the newest closed one."""
    return balances(*[iops * 60] * 5)


def recommend_for(size_gib=100, reads=None, writes=None, override=None, policy=None, used=0, **changes):
    assessment = an_assessment(
        balances(30.0), volume=a_volume(size_gib, **changes), read_ops=reads, write_ops=writes
    )
    return recommend(
        assessment, override or TargetOverride(), policy or FlipPolicy(), LOCATION, modifications=uses(used)
    )


def uses(count):
    """This many modifications in the last hours, ours and others'."""
    return tuple(
        ModificationUse(at_s=int(at(f"{5 + n}:00")), by=(WATCHDOG, EXTERNAL)[n % 2]) for n in range(count)
    )


@pytest.mark.parametrize(("size_gib", "mib_s"), [(100, 128), (170, 128), (171, 250)])
def test_it_is_a_gp3_no_slower_than_the_burst(size_gib, mib_s):
    assert recommend_for(size_gib).action == (
        f"burstctl flip vol-0a1 --region eu-west-1 --to gp3 --iops 3000 --throughput {mib_s}"
    )


def test_a_volume_seen_at_the_ceiling_gets_headroom():
    # 2,900 of 3,000 IOPS served: what is wanted may be more. 2,900 and a quarter are 3,625.
    assert recommend_for(reads=served_series(900), writes=served_series(2_000)).target.iops == 3_625


@pytest.mark.parametrize(("headroom_pct", "iops"), [(0.0, 3_000), (10.0, 3_190), (100.0, 5_800)])
def test_the_policy_sets_how_much_headroom_is_bought(headroom_pct, iops):
    # 2,900 served and 10 % are 3,190; with nothing added it is not slower than the burst.
    result = recommend_for(
        reads=served_series(900), writes=served_series(2_000), policy=FlipPolicy(headroom_pct=headroom_pct)
    )
    assert result.target.iops == iops


def test_a_volume_seen_below_the_ceiling_gets_what_the_burst_gave():
    assert recommend_for(reads=served_series(400), writes=served_series(1_000)).target.iops == 3_000


@pytest.mark.parametrize(
    ("older", "newer", "peak_iops"),
    [
        # The busiest of the newest five minutes counts: not the one before them,
        ([9_000.0], [600.0, 60.0, 60.0, 60.0, 60.0], 20.0),
        # and all five of them.
        ([60.0], [6_000.0, 60.0, 60.0, 60.0, 60.0], 200.0),
    ],
)
def test_demand_is_the_busiest_of_the_newest_five_minutes(older, newer, peak_iops):
    assessment = an_assessment(
        balances(30.0), read_ops=balances(*older, *newer), write_ops=balances(*older, *newer)
    )
    assert demand_of(assessment).peak_iops == peak_iops


def test_the_sum_of_mean_reads_and_writes_is_used():
    # Reads until 11:54, writes from 11:55 on: no minute of which both are known.
    reads = balances(*[6_000.0] * 5, newest_starts_at="11:54")
    writes = balances(*[12_000.0] * 5, newest_starts_at="11:59")
    assessment = an_assessment(balances(30.0), read_ops=reads, write_ops=writes)
    assert demand_of(assessment).peak_iops == 300.0


def test_the_price_is_reported_with_its_source():
    # 100 GiB gp3 at 3,000 IOPS and 128 MiB/s: 8.00 + 3 x 0.04 = 8.12; gp2 10.00.
    [*_, price] = recommend_for().reasons
    assert price == (
        "gp3 with 3,000 IOPS and 128 MiB/s costs $8.12 a month instead of $10.00"
        " (us-east-1 list prices of 2026-09-30)"
    )


def test_tags_choose_the_type_and_its_iops():
    settings = read_tags({"burstwatch:target": "io2", "burstwatch:iops": "5000"}, ModePolicy())
    assert settings.faults == ()
    target = recommend_for(override=settings.target_override).target
    assert (target.volume_type, target.iops, target.throughput_mib_s) == ("io2", 5_000, None)


@pytest.mark.parametrize(
    ("override", "volume_type"),
    [
        (TargetOverride(), VolumeType.IO2),
        (TargetOverride(iops=4_000), VolumeType.IO2),
        (TargetOverride(volume_type=VolumeType.GP3), VolumeType.GP3),
    ],
)
def test_the_type_is_the_policys_where_no_tag_names_another(override, volume_type):
    target = recommend_for(override=override, policy=FlipPolicy(target=VolumeType.IO2)).target
    assert (target.volume_type, target.iops) == (volume_type, override.iops or 3_000)


def test_a_command_for_an_io_type_sets_no_throughput():
    assert (
        "--throughput"
        not in recommend_for(
            override=read_tags({"burstwatch:target": "io1"}, ModePolicy()).target_override
        ).action
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
def test_bad_tags_are_reported_and_ignored(tags):
    settings = read_tags(tags, ModePolicy())
    assert len(settings.faults) == 1
    assert settings.target_override == TargetOverride()


def test_a_managed_volume_is_for_its_manager_to_change():
    proposal = recommend_for(managed_by="ecs")
    assert proposal.action == "managed by ecs: change its volume type there"
    assert proposal.target is None


@pytest.mark.parametrize(
    ("balance_pct", "writes", "iops"),
    [
        # 100 GiB earn 300: with credits left 280 were all it wanted. A quarter more is 350, and its
        # 128 MiB/s take 512 operations of 256 KiB.
        (30.0, 180, 512),
        (1.1, 180, 512),
        # Without credits 270 and more are 90 % of all it could: it gets what it had while it had any.
        (1.0, 180, 3_000),
        (0.0, 170, 3_000),
        (0.0, 169, 512),
    ],
)
def test_a_volume_held_to_its_baseline_gets_what_it_served_before(balance_pct, writes, iops):
    assessment = an_assessment(
        balances(balance_pct), read_ops=served_series(100), write_ops=served_series(writes), volume=a_volume()
    )
    result = recommend(assessment, TargetOverride(volume_type=VolumeType.IO2), FlipPolicy(), LOCATION)
    assert result.target.iops == iops


def test_an_exhausted_volume_is_held_back_at_its_baseline_so_its_demand_is_not_known():
    assessment = an_assessment(balances(*[0.0] * 10), read_ops=served_series(300), write_ops=served_series(0))
    demand = demand_of(assessment)
    assert (demand.peak_iops, demand.is_throttled) == (300, True)
    proposal = recommend(assessment, TargetOverride(volume_type=VolumeType.IO1), FlipPolicy(), LOCATION)
    assert proposal.target.iops == 3_000


def test_for_future_demand_no_type_is_slower_than_the_burst():
    assessment = an_assessment(balances(*[60.0] * 10), read_ops=served_series(10), write_ops=served_series(0))
    proposal = recommend(
        assessment, TargetOverride(volume_type=VolumeType.IO2), FlipPolicy(), LOCATION, is_future=True
    )
    assert proposal.target.iops == 3_000


def test_the_busiest_minute_counts_and_not_the_mean_of_five():
    minutes = balances(*[300.0 * 60] * 4, 2_900.0 * 60)
    assessment = an_assessment(balances(*[25.0] * 10), read_ops=minutes, write_ops=served_series(0))
    demand = demand_of(assessment)
    assert (demand.peak_iops, demand.is_throttled) == (2_900, True)


def test_an_impossible_override_is_refused_in_one_sentence():
    # 65,537 GiB is more than any type takes
    result = recommend_for(65_537)
    assert (result.target, result.reasons) == (None, ())
    assert result.action.startswith("gp3 takes 1 to 65,536 GiB, not 65,537")


# The last automatic flip of a day


@pytest.mark.parametrize(("used", "kind"), [(0, "io1"), (1, "io1"), (2, "gp3"), (3, "gp3"), (4, "gp3")])
def test_from_the_third_modification_of_a_day_on_it_is_a_gp3_whatever_the_policy_likes(used, kind):
    result = recommend_for(policy=FlipPolicy(target=VolumeType.IO1), used=used)
    assert result.target.volume_type == kind
    assert f" --to {kind} " in result.action


def test_the_reason_for_not_choosing_io1_is_given():
    result = recommend_for(policy=FlipPolicy(target=VolumeType.IO1), used=2)
    because = (
        "not io1, because 2 of AWS's 4 modifications in 24 h are used, which leaves the watchdog none for the"
        " return"
    )
    assert result.caveat == because
    assert result.reasons[-1] == (
        "gp3 with 3,000 IOPS and 128 MiB/s costs $8.12 a month instead of $10.00"
        f" (us-east-1 list prices of 2026-09-30); {because}"
    )


def test_a_type_that_a_tag_names_is_proposed_and_the_watchdog_is_reported_to_wait():
    result = recommend_for(override=TargetOverride(volume_type=VolumeType.IO1), used=3)
    assert result.target.volume_type == "io1"
    because = (
        "the watchdog would wait, because 3 of AWS's 4 modifications in 24 h are used, which leaves it none"
        " for the return"
    )
    assert result.caveat == because
    assert result.reasons[-1].endswith(f"; {because}")


@pytest.mark.parametrize("policy", [FlipPolicy(), FlipPolicy(target=VolumeType.IO1)])
def test_when_all_modifications_of_a_day_are_used_the_time_of_the_next_is_reported(policy):
    because = "AWS's 4 modifications in 24 h are used: it takes the next at 2026-11-21T05:00:00Z"
    assert recommend_for(policy=policy, used=4).caveat == because


@pytest.mark.parametrize(
    ("policy", "override", "used"),
    [
        (FlipPolicy(), TargetOverride(), 2),
        (FlipPolicy(target=VolumeType.IO1), TargetOverride(volume_type=VolumeType.GP3), 2),
        (FlipPolicy(target=VolumeType.IO1), TargetOverride(), 1),
    ],
)
def test_without_a_daily_limit_nothing_is_mentioned(policy, override, used):
    result = recommend_for(policy=policy, override=override, used=used)
    assert result.caveat is None
    assert "24 h" not in result.reasons[-1]


def test_an_io1_that_became_gp3_by_its_size_is_not_reported_as_one_by_the_day():
    # 50 GiB allow an io1 2,500 IOPS, fewer than the burst.
    result = recommend_for(50, policy=FlipPolicy(target=VolumeType.IO1), used=2)
    assert result.target.volume_type == "gp3"
    assert result.caveat is None
    assert result.reasons[0].startswith("Redirected to gp3")


@pytest.mark.parametrize("used", range(5))
@pytest.mark.parametrize(
    "override", [TargetOverride(), TargetOverride(iops=4_000), TargetOverride(volume_type=VolumeType.IO2)]
)
@pytest.mark.parametrize("target", [VolumeType.GP3, VolumeType.IO1])
@pytest.mark.parametrize("size_gib", [50, 200])
def test_the_proposal_is_what_the_watchdog_would_do(used, override, target, size_gib):
    volume, flip = a_volume(size_gib), FlipPolicy(target=target)
    assessment = an_assessment(
        balances(30.0), volume=volume, read_ops=served_series(900), write_ops=served_series(2_000)
    )
    order = FlipOrder(
        volume_id=volume.volume_id,
        direction=Direction.FLIP,
        cause=FlipCause.DRAINING,
        reason="critical",
        demand=demand_of(assessment),
    )
    facts = FlipContext(
        volume=volume,
        volume_settings=volume_settings(target_override=override),
        state=a_state(used=uses(used)),
        now_s=at("12:00"),
    )
    plan = make_plan(order, facts, Policy(flip=flip))
    result = recommend(assessment, override, flip, LOCATION, modifications=uses(used))
    assert result.target == plan.target


NO_GP3 = {VolumeType.GP3: "AWS refused gp3 in zone us-east-1-bos-1a"}


def recommend_without_gp3(size_gib=100, override=None, used=0, **unavailable):
    assessment = an_assessment(balances(30.0), volume=a_volume(size_gib))
    return recommend(
        assessment,
        override or TargetOverride(),
        FlipPolicy(),
        LOCATION,
        modifications=uses(used),
        unavailable=NO_GP3 | {VolumeType(kind): why for kind, why in unavailable.items()},
    )


@pytest.mark.parametrize(
    "override", [None, TargetOverride(volume_type=VolumeType.GP3), TargetOverride(volume_type=VolumeType.IO1)]
)
@pytest.mark.parametrize("used", [0, 2])
def test_when_gp3_does_not_exist_io1_is_proposed_and_not_a_command_that_aws_refuses(override, used):
    result = recommend_without_gp3(override=override, used=used)
    assert result.action == "burstctl flip vol-0a1 --region eu-west-1 --to io1 --iops 3000"
    is_named = override is not None and override.volume_type is VolumeType.IO1
    assert ("AWS refused gp3" in (result.caveat or "")) is not is_named


def test_when_no_type_helps_nothing_is_proposed_and_the_reason_is_reported():
    result = recommend_without_gp3(20, io2="no io2 there")
    assert result.target is None
    assert result.action == (
        "AWS refused gp3 in zone us-east-1-bos-1a; no available type helps at its size: reduce the load."
    )

from dataclasses import replace

import pytest

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.ebs.demand import Demand
from burstwatch.core.ebs.instance_bottleneck import InstanceLimits
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.ebs.sizing import ReturnMode, TargetOverride
from burstwatch.core.flips.cap_refusal import caps_for
from burstwatch.core.flips.flip_plan import FlipContext, FlipOrder
from burstwatch.core.flips.planning import make_plan
from burstwatch.core.flips.record_intent import extend_stay, record_intent
from burstwatch.core.flips.record_outcome import (
    record_accepted,
    record_rejected,
    record_unknown_outcome,
    refused_event,
)
from burstwatch.core.flips.refusal import Guard, Refusal
from burstwatch.core.ledger.caps import Caps
from burstwatch.core.ledger.flip_state import (
    WATCHDOG,
    Direction,
    FlipCause,
    FlipStatus,
    Hold,
    ModificationUse,
    configuration_to_document,
)
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.policy.policy import FlipBackPolicy, FlipPolicy, Mode, ModePolicy, Policy
from burstwatch.core.policy.windows import LeadPolicy
from support.builders.core_values import (
    GP2,
    GP3,
    IO2,
    a_flip,
    a_modification,
    a_state,
    a_volume,
    a_volume_as,
    at,
    volume_settings,
)
from support.builders.states import with_fields

OUT, BACK = Direction.FLIP, Direction.FLIP_BACK
OPERATOR = "ann"
NOW_S = int(at("12:00"))
HOUR_S = 3_600


def gp3(iops=3_000, throughput_mib_s=128):
    return Configuration(volume_type=VolumeType.GP3, iops=iops, throughput_mib_s=throughput_mib_s)


def io1(iops):
    return Configuration(volume_type=VolumeType.IO1, iops=iops)


def io2(iops):
    return Configuration(volume_type=VolumeType.IO2, iops=iops)


def an_order(direction=OUT, **changes):
    facts = {"volume_id": "vol-0a1", "cause": FlipCause.DRAINING, "reason": "critical: 18 % left"}
    return FlipOrder(direction=direction, **(facts | changes))


def a_manual_order(direction=OUT, **changes):
    return an_order(
        direction, **({"cause": FlipCause.MANUAL, "by": OPERATOR, "reason": "asked for"} | changes)
    )


def a_flip_context(volume=None, **changes):
    facts = {
        "volume": volume or a_volume(),
        "volume_settings": volume_settings(),
        "state": a_state(),
        "now_s": NOW_S,
    }
    return FlipContext(**(facts | changes))


def context_of_flipped(volume=None, *, flip=None, **changes):
    """On its target since half past ten."""
    return a_flip_context(volume or a_volume_as(GP3), state=a_state(flip=flip or a_flip()), **changes)


def uses(*hours_ago):
    return tuple(ModificationUse(at_s=NOW_S - int(hours * HOUR_S), by=WATCHDOG) for hours in hours_ago)


def plan_for(order=None, facts=None, **flip_settings):
    return make_plan(order or an_order(), facts or a_flip_context(), Policy(flip=FlipPolicy(**flip_settings)))


def refusing_guards(plan):
    return [refusal.guard for refusal in plan.refusals]


# what it becomes

EXACT_CONFIGURATION = Demand(peak_iops=3_000, is_throttled=True)
SMALL_INSTANCE = InstanceLimits(
    max_iops=300, max_throughput_mib_s=30, baseline_iops=300, baseline_throughput_mib_s=30
)


@pytest.mark.parametrize(
    ("order", "tags", "policy_type", "target"),
    [
        # no tag names a type: the policy's
        (an_order(), TargetOverride(), VolumeType.GP3, gp3()),
        (an_order(), TargetOverride(), VolumeType.IO2, io2(3_000)),
        (an_order(), TargetOverride(iops=5_000), VolumeType.IO2, io2(5_000)),
        # a tag goes before the policy, a person before the tag
        (an_order(), TargetOverride(volume_type=VolumeType.IO1), VolumeType.IO2, io1(3_000)),
        (an_order(), TargetOverride(volume_type=VolumeType.GP3, iops=4_000), VolumeType.IO2, gp3(4_000)),
        (
            a_manual_order(override=TargetOverride(volume_type=VolumeType.IO2)),
            TargetOverride(iops=9_000),
            VolumeType.GP3,
            io2(3_000),
        ),
        (
            a_manual_order(override=TargetOverride(iops=3_500)),
            TargetOverride(iops=9_000),
            VolumeType.IO2,
            io2(3_500),
        ),
        (a_manual_order(), TargetOverride(volume_type=VolumeType.IO1), VolumeType.GP3, io1(3_000)),
        # held back at 3,000: a quarter more
        (an_order(demand=EXACT_CONFIGURATION), TargetOverride(), VolumeType.GP3, gp3(3_750)),
        # 3,000 x 1.25 at 3,750 for io2 too; what was served unhindered gets headroom: 2,400 x 1.25
        (an_order(demand=EXACT_CONFIGURATION), TargetOverride(), VolumeType.IO2, io2(3_750)),
        (an_order(demand=Demand(peak_iops=2_400)), TargetOverride(), VolumeType.IO2, io2(3_000)),
    ],
)
def test_the_target_comes_from_the_operator_the_tags_or_the_policy(order, tags, policy_type, target):
    plan = plan_for(
        order, a_flip_context(volume_settings=volume_settings(target_override=tags)), target=policy_type
    )
    assert (plan.target, plan.refusals) == (target, ())


def test_the_policy_sets_how_much_headroom_is_bought():
    assert plan_for(an_order(demand=EXACT_CONFIGURATION), headroom_pct=50.0).target == gp3(4_500)


def test_a_tag_that_would_make_it_slower_than_the_burst_becomes_gp3():
    # io1 allows 50 per GiB: 40 x 50 = 2,000.
    facts = a_flip_context(
        a_volume(40),
        volume_settings=volume_settings(target_override=TargetOverride(volume_type=VolumeType.IO1)),
    )
    assert plan_for(facts=facts).target == gp3()


def test_an_exact_target_that_is_impossible_is_refused_with_the_arithmetic():
    plan = plan_for(
        a_manual_order(override=TargetOverride(volume_type=VolumeType.IO1)), a_flip_context(a_volume(40))
    )
    assert (plan.target, refusing_guards(plan)) == (None, [Guard.NO_TARGET])
    assert "50 x 40 = 2,000" in plan.refusal.reason


@pytest.mark.parametrize(
    ("order", "facts", "guard"),
    [
        (an_order(), a_flip_context(instance=SMALL_INSTANCE), Guard.INSTANCE_IS_BOTTLENECK),
        (an_order(), a_flip_context(a_volume(volume_type="st1", size_gib=500)), Guard.NO_TARGET),
        (a_manual_order(), a_flip_context(a_volume_as(gp3(3_000, 125))), Guard.NO_CHANGE_NEEDED),
        (an_order(BACK), a_flip_context(a_volume_as(GP3)), Guard.NO_TARGET),
        (an_order(BACK), context_of_flipped(a_volume(volume_type="st1", size_gib=500)), Guard.NO_TARGET),
    ],
)
def test_a_volume_without_a_target_is_refused_for_that_alone(order, facts, guard):
    plan = plan_for(order, facts)
    assert (plan.target, refusing_guards(plan)) == (None, [guard])
    assert plan.usd_per_month_more == 0.0
    assert not plan.refusal.reason.endswith(".")


def test_an_instance_of_which_nothing_is_known_refuses_and_can_be_overridden():
    facts = a_flip_context(instance_unread="ec2:DescribeInstanceTypes failed (Throttling): slow down; wait.")
    plan = plan_for(facts=facts)
    assert (plan.target, refusing_guards(plan)) == (None, [Guard.INSTANCE_IS_BOTTLENECK])
    assert plan.refusal.reason.startswith(
        "whether instance i-0a1 is the bottleneck is not known: ec2:DescribeInstanceTypes failed"
    )
    order = a_manual_order(overridden=frozenset({Guard.INSTANCE_IS_BOTTLENECK}))
    assert plan_for(order, facts).target == gp3()


def test_a_bottleneck_of_the_instance_can_be_overridden():
    order = a_manual_order(overridden=frozenset({Guard.INSTANCE_IS_BOTTLENECK}))
    plan = plan_for(order, a_flip_context(instance=SMALL_INSTANCE))
    assert (plan.target, plan.refusals) == (gp3(), ())


# types that do not exist where it is

NO_GP3 = {VolumeType.GP3: "AWS refused gp3 in zone us-east-1-bos-1a"}


def test_a_type_that_does_not_exist_there_is_refused_by_name_with_those_that_do():
    plan = plan_for(facts=a_flip_context(unavailable=NO_GP3))
    assert (plan.target, refusing_guards(plan)) == (None, [Guard.TYPE_NOT_AVAILABLE])
    assert plan.refusal.reason == (
        "AWS refused gp3 in zone us-east-1-bos-1a; io1 with 3,000 IOPS costs $207.50 a month instead of"
        " $10.00 (us-east-1 list prices): burstctl flip vol-0a1 --to io1"
    )
    assert refused_event(plan, plan.refusal).action == "burstctl flip vol-0a1 --to io1"


def test_a_volume_too_small_for_io1_is_shown_the_command_for_io2():
    plan = plan_for(facts=a_flip_context(a_volume(20), unavailable=NO_GP3))
    assert plan.refusal.reason.endswith("burstctl flip vol-0a1 --to io2")
    assert plan.alternative_command == "burstctl flip vol-0a1 --to io2"


def test_when_no_other_type_helps_the_refusal_reports_it():
    # io1 allows 50 per GiB: 20 x 50 = 1,000, slower than the burst
    nothing_else = NO_GP3 | {VolumeType.IO2: "no io2 there"}
    plan = plan_for(facts=a_flip_context(a_volume(20), unavailable=nothing_else))
    assert refusing_guards(plan) == [Guard.TYPE_NOT_AVAILABLE]
    assert plan.refusal.reason.endswith("no available type helps at its size: reduce the load")


def test_a_tag_names_a_type_that_is_there():
    settings = volume_settings(target_override=TargetOverride(volume_type=VolumeType.IO1))
    assert plan_for(facts=a_flip_context(volume_settings=settings, unavailable=NO_GP3)).target == io1(3_000)


@pytest.mark.parametrize("override", [None, TargetOverride(volume_type=VolumeType.GP3)])
def test_an_operator_may_override_a_missing_type(override):
    facts = a_flip_context(unavailable=NO_GP3)
    assert refusing_guards(plan_for(a_manual_order(override=override), facts)) == [Guard.TYPE_NOT_AVAILABLE]
    overridden = frozenset({Guard.TYPE_NOT_AVAILABLE})
    plan = plan_for(
        a_manual_order(override=override, overridden=overridden, override_reason="second generation"), facts
    )
    assert (plan.target, plan.refusals, plan.overridden) == (gp3(), (), (Guard.TYPE_NOT_AVAILABLE,))


# what tags may add


@pytest.mark.parametrize(
    ("order", "override", "policy_type", "cap_usd", "guards"),
    [
        # io2 with 3,000 IOPS instead of gp3: 12.50 + 195 - 8.12 = $199.38 more
        (an_order(), TargetOverride(volume_type=VolumeType.IO2), VolumeType.GP3, 199.38, []),
        (an_order(), TargetOverride(volume_type=VolumeType.IO2), VolumeType.GP3, 199.37, [Guard.TAG_CAP]),
        # a type that the policy wants anyway is not the tag's doing, more IOPS of it are: 1,000 x 0.065
        (an_order(), TargetOverride(volume_type=VolumeType.IO2), VolumeType.IO2, 0.0, []),
        (an_order(), TargetOverride(iops=4_000), VolumeType.IO2, 65.0, []),
        (an_order(), TargetOverride(iops=4_000), VolumeType.IO2, 64.99, [Guard.TAG_CAP]),
        # without the tag a critical volume would stay gp2: all of it counts, 207.50 - 10
        (an_order(cause=FlipCause.CRITICAL), TargetOverride(), VolumeType.IO2, 197.5, []),
        (an_order(cause=FlipCause.CRITICAL), TargetOverride(), VolumeType.IO2, 197.49, [Guard.TAG_CAP]),
        (an_order(cause=FlipCause.CRITICAL), TargetOverride(), VolumeType.GP3, 0.0, []),
        (an_order(cause=FlipCause.WINDOW), TargetOverride(), VolumeType.IO2, 0.0, []),
        # a person decides by name
        (a_manual_order(), TargetOverride(volume_type=VolumeType.IO2), VolumeType.GP3, 0.0, []),
        (
            a_manual_order(override=TargetOverride(volume_type=VolumeType.IO2)),
            TargetOverride(iops=9_000),
            VolumeType.GP3,
            0.0,
            [],
        ),
    ],
)
def test_tags_may_add_a_limited_amount_to_the_policy_cost(order, override, policy_type, cap_usd, guards):
    facts = a_flip_context(volume_settings=volume_settings(target_override=override))
    plan = plan_for(order, facts, target=policy_type, tag_cap_usd=cap_usd)
    assert refusing_guards(plan) == guards
    assert plan.target is not None


def test_tags_on_an_idle_volume_no_longer_cost_a_thousand_dollars_a_month():
    facts = a_flip_context(
        volume_settings=volume_settings(
            is_critical=True, target_override=TargetOverride(volume_type=VolumeType.IO2, iops=15_300)
        )
    )
    [refusal] = plan_for(an_order(cause=FlipCause.CRITICAL), facts).refusals
    assert refusal.guard is Guard.TAG_CAP
    assert refusal.reason == (
        "its tags burstwatch:target=io2, burstwatch:iops=15300, burstwatch:critical=true would add $997.00 a"
        " month (io2 with 15,300 IOPS); the policy's flip.tag_cap_usd_per_month is $250.00, at us-east-1"
        " list prices. Request less in the tags, raise the cap in the policy, or run: burstctl flip vol-0a1"
    )


def test_a_flip_back_ignores_tags():
    facts = context_of_flipped(
        volume_settings=volume_settings(
            target_override=TargetOverride(volume_type=VolumeType.IO2, iops=9_000)
        )
    )
    assert plan_for(an_order(BACK), facts, tag_cap_usd=0.0).refusals == ()


def test_a_critical_volume_that_drains_stays_as_well_and_is_no_slower_than_the_burst():
    facts = a_flip_context(
        volume_settings=volume_settings(
            is_critical=True, target_override=TargetOverride(volume_type=VolumeType.IO2)
        )
    )
    plan = plan_for(an_order(demand=Demand(peak_iops=1_000)), facts)
    assert (plan.target, plan.return_decision.is_permanent) == (io2(3_000), True)


IS_CRITICAL = volume_settings(is_critical=True)


def test_a_tag_flip_beyond_the_tag_cap_is_an_ordinary_flip_that_returns():
    # io1 with 3,000 IOPS instead of gp2: 207.50 - 10 = $197.50 more
    facts = a_flip_context(volume_settings=IS_CRITICAL)
    plan = plan_for(an_order(), facts, target=VolumeType.IO1, tag_cap_usd=197.49)
    assert (plan.target, refusing_guards(plan), plan.return_decision.is_permanent) == (io1(3_000), [], False)
    assert caps_for(plan.order, FlipPolicy()) == Caps(volumes=50, usd_per_month=1_000.0)
    refused = plan_for(an_order(cause=FlipCause.CRITICAL), facts, target=VolumeType.IO1, tag_cap_usd=197.49)
    assert refusing_guards(refused) == [Guard.TAG_CAP]


def test_a_more_expensive_permanent_tag_flip_counts_without_the_reserve():
    plan = plan_for(
        an_order(), a_flip_context(volume_settings=IS_CRITICAL), target=VolumeType.IO1, tag_cap_usd=197.5
    )
    assert (plan.target, refusing_guards(plan), plan.return_decision.is_permanent) == (io1(3_000), [], True)
    assert caps_for(plan.order, FlipPolicy()) == Caps(volumes=38, usd_per_month=750.0)


def test_a_permanent_flip_that_costs_no_more_may_use_the_reserve():
    plan = plan_for(an_order(), a_flip_context(volume_settings=IS_CRITICAL))
    assert (plan.target, plan.return_decision.is_permanent) == (gp3(), True)
    assert caps_for(plan.order, FlipPolicy()) == Caps(volumes=50, usd_per_month=1_000.0)


# what it costs: 100 GiB of gp2 are $10.00 a month


@pytest.mark.parametrize(
    ("order", "facts", "now_usd", "usd", "more"),
    [
        # gp3: 8.00 + 3 MiB/s above 125 x 0.04
        (an_order(), a_flip_context(), 10.0, 8.12, -1.88),
        # 200 GiB: 16.00 + 125 x 0.04 = 21.00, compared with 20.00
        (an_order(), a_flip_context(a_volume(200)), 20.0, 21.0, 1.0),
        # io1: 12.50 + 3,000 x 0.065 = 207.50
        (
            a_manual_order(override=TargetOverride(volume_type=VolumeType.IO1)),
            a_flip_context(),
            10.0,
            207.5,
            197.5,
        ),
        (
            a_manual_order(override=TargetOverride(volume_type=VolumeType.IO1)),
            context_of_flipped(),
            8.12,
            207.5,
            199.38,
        ),
        (an_order(BACK), context_of_flipped(), 8.12, 10.0, 1.88),
        (an_order(BACK), a_flip_context(), 10.0, 10.0, 0.0),
    ],
)
def test_the_price_is_reported_before_and_after(order, facts, now_usd, usd, more):
    plan = plan_for(order, facts)
    assert (plan.usd_per_month_now, plan.usd_per_month, plan.usd_per_month_more) == (now_usd, usd, more)


# whether it comes back


@pytest.mark.parametrize(
    ("returns", "size_gib", "override", "stays"),
    [
        # gp3 stays where it costs no more: 8.12 compared with 10.00, but 21.00 with 20.00
        (ReturnMode.AUTO, 100, TargetOverride(), True),
        (ReturnMode.AUTO, 200, TargetOverride(), False),
        (ReturnMode.AUTO, 6, TargetOverride(), True),  # 0.48 + 0.12 = 0.60, compared with 0.60
        (ReturnMode.AUTO, 100, TargetOverride(volume_type=VolumeType.IO1), False),
        (ReturnMode.AUTO, 100, TargetOverride(volume_type=VolumeType.IO2), False),
        (ReturnMode.ALWAYS, 100, TargetOverride(), False),
        (ReturnMode.NEVER, 100, TargetOverride(volume_type=VolumeType.IO1), True),
    ],
)
@pytest.mark.parametrize("cause", [FlipCause.DRAINING, FlipCause.WINDOW])
def test_a_gp3_that_costs_no_more_stays_and_the_rest_returns(returns, size_gib, override, stays, cause):
    facts = a_flip_context(a_volume(size_gib), volume_settings=volume_settings(target_override=override))
    plan = make_plan(an_order(cause=cause), facts, Policy(flip_back=FlipBackPolicy(returns=returns)))
    assert (plan.return_decision.is_permanent, plan.refusals) == (stays, ())


@pytest.mark.parametrize(
    ("order", "stays"),
    [
        (a_manual_order(), True),
        (a_manual_order(return_after_s=NOW_S + HOUR_S), False),
        (an_order(cause=FlipCause.CRITICAL), True),
    ],
)
@pytest.mark.parametrize("returns", ReturnMode)
def test_a_manual_flip_or_critical_tag_decides_whether_it_is_permanent(order, stays, returns):
    facts = a_flip_context(a_volume(200))
    plan = make_plan(order, facts, Policy(flip_back=FlipBackPolicy(returns=returns)))
    assert plan.return_decision.is_permanent is stays


@pytest.mark.parametrize(
    ("hours_ago", "order", "stays", "guards"),
    [
        ((20,), an_order(), False, []),
        # the third of the day: there would be none left to come back by
        ((20, 10), an_order(), True, []),
        ((24, 10), an_order(), False, []),
        ((20, 10), a_manual_order(return_after_s=NOW_S + HOUR_S), False, []),
        ((20, 10, 5), an_order(), True, [Guard.AWS_QUOTA]),
    ],
)
def test_the_third_flip_of_a_day_is_to_a_gp3_that_stays(hours_ago, order, stays, guards):
    plan = plan_for(order, a_flip_context(a_volume(200), state=a_state(used=uses(*hours_ago))))
    assert (plan.return_decision.is_permanent, refusing_guards(plan)) == (stays, guards)


def test_the_third_flip_of_a_day_is_to_gp3_where_only_the_policy_wanted_another_type():
    plan = plan_for(facts=a_flip_context(state=a_state(used=uses(20, 10))), target=VolumeType.IO2)
    assert (plan.target, plan.return_decision.is_permanent, refusing_guards(plan)) == (gp3(), True, [])
    assert plan.usd_per_month == plan.sizing.price.after_usd_per_month


@pytest.mark.parametrize("hours_ago", [(20, 10), (20, 10, 5)])
def test_the_third_flip_of_a_day_to_a_type_that_a_tag_names_is_refused_with_the_time(hours_ago):
    settings = volume_settings(target_override=TargetOverride(volume_type=VolumeType.IO2))
    plan = plan_for(facts=a_flip_context(volume_settings=settings, state=a_state(used=uses(*hours_ago))))
    [refusal] = plan.refusals
    assert (refusal.guard, refusal.ends_at_s) == (Guard.AWS_QUOTA, at("16:00"))
    assert (plan.target, plan.return_decision.is_permanent) == (io2(3_000), False)


def test_a_returning_volume_goes_to_its_original():
    flip = a_flip(original=io1(1_500))
    plan = plan_for(a_manual_order(BACK), context_of_flipped(flip=flip))
    assert (plan.current, plan.target, plan.return_decision, plan.sizing) == (GP3, io1(1_500), None, None)


# guards


@pytest.mark.parametrize(
    ("original", "now", "returns"),
    [
        # 100 GiB: gp2 $10.00 a month, gp3 $8.12, io1 with 1,500 IOPS $110.00, io2 with 60,000 $3,355
        (GP2, GP3, True),
        (GP2, io2(3_000), True),
        (gp3(), io1(1_500), True),
        (io1(1_500), io2(1_500), True),
        (io1(1_500), io1(1_499), False),
        (io1(1_500), GP3, False),
        (gp3(3_001), gp3(), False),
        (io2(60_000), GP3, False),
    ],
)
def test_an_automatic_return_leads_to_gp2_or_costs_no_more_than_now(original, now, returns):
    """A user who can write to the ledger must not be able to spend money with it."""
    facts = context_of_flipped(a_volume_as(now), flip=a_flip(original=original, target=now))
    by_itself, by_a_person = plan_for(an_order(BACK), facts), plan_for(a_manual_order(BACK), facts)
    assert refusing_guards(by_itself) == ([] if returns else [Guard.NO_TARGET])
    assert by_itself.target == (original if returns else None)
    assert by_a_person.target == original


def test_a_return_that_would_cost_more_is_refused_with_what_it_costs_and_reported():
    plan = plan_for(an_order(BACK), context_of_flipped(flip=a_flip(original=io2(60_000))))
    assert "was io2 with 60,000 IOPS, which costs $3," in plan.refusal.reason
    assert plan.refusal.reason.endswith("burstctl flip-back vol-0a1")
    assert refused_event(plan, plan.refusal).alert is AlertKind.FLIP_REFUSED


def test_a_timed_manual_flip_without_automatic_return_is_announced():
    order = a_manual_order(override=TargetOverride(volume_type=VolumeType.GP3), return_after_s=NOW_S + HOUR_S)
    plan = plan_for(order, a_flip_context(a_volume_as(io2(3_000))))
    assert (plan.return_decision.is_permanent, plan.refusals) == (False, ())
    assert plan.return_decision.reason == (
        "returns by burstctl flip-back vol-0a1 only: io2 with 3,000 IOPS costs more"
    )


def test_every_guard_is_checked_and_the_first_is_the_refusal():
    facts = a_flip_context(
        volume_settings=volume_settings(Mode.PROPOSE),
        holds=[Hold(volume_id=None, by=OPERATOR, reason="r", placed_at_s=0, until_s=NOW_S + 9)],
        modification=a_modification(state="modifying"),
    )
    plan = plan_for(facts=facts)
    assert refusing_guards(plan) == [Guard.NOT_OPTED_IN, Guard.HELD, Guard.MODIFICATION_IN_PROGRESS]
    assert plan.refusal.guard is Guard.NOT_OPTED_IN
    assert plan.target == gp3()


def test_what_was_overridden_is_named_where_it_would_have_refused():
    holds = [Hold(volume_id=None, by=OPERATOR, reason="r", placed_at_s=0, until_s=NOW_S + 9)]
    overridden = frozenset({Guard.HELD, Guard.COOLDOWN, Guard.MODIFICATION_IN_PROGRESS})
    plan = plan_for(a_manual_order(overridden=overridden), a_flip_context(holds=holds))
    assert (plan.refusals, plan.overridden) == ((), (Guard.HELD,))
    facts = a_flip_context(holds=holds, modification=a_modification(state="modifying"))
    plan = plan_for(a_manual_order(overridden=overridden), facts)
    assert (refusing_guards(plan), plan.overridden) == ([Guard.MODIFICATION_IN_PROGRESS], (Guard.HELD,))


def test_a_later_guard_is_named_when_overridden():
    """The instance is asked about with the target, the caps when it is this volume's turn."""
    later = frozenset({Guard.INSTANCE_IS_BOTTLENECK, Guard.FLEET_CAP, Guard.SPEND_CAP})
    assert plan_for(a_manual_order(overridden=later)).overridden == tuple(sorted(later))


def test_what_the_account_has_left_is_held_against_the_target():
    order = a_manual_order(override=TargetOverride(volume_type=VolumeType.IO2, iops=5_000))
    assert refusing_guards(plan_for(order, a_flip_context(iops_left=4_999))) == [Guard.ACCOUNT_LIMIT]
    assert refusing_guards(plan_for(order, a_flip_context(iops_left=5_000))) == []


# the intent


def test_an_intent_has_all_that_is_needed_to_settle_it_and_to_come_back():
    plan = plan_for(
        a_manual_order(return_after_s=NOW_S + HOUR_S),
        a_flip_context(a_volume(200), state=a_state(failure_count=2)),
    )
    transition = record_intent(plan, 7, NOW_S + 20)
    state, [event] = transition.state, transition.events
    flip = state.flip
    assert (state.revision, state.modifications.failure_count) == (7, 2)
    assert (flip.status, flip.direction, flip.cause, flip.by) == (
        FlipStatus.REQUESTED,
        OUT,
        FlipCause.MANUAL,
        OPERATOR,
    )
    assert (flip.original, flip.target, flip.size_gib) == (GP2, gp3(3_000, 250), 200)
    # its time is that by now: the pass began 20 s ago
    assert (flip.requested_at_s, flip.started_at_s, flip.reached_at_s) == (NOW_S + 20, None, None)
    assert (flip.is_permanent, flip.return_after_s, flip.usd_per_month) == (False, NOW_S + HOUR_S, 1.0)
    assert (event.kind, event.alert) == (EntryKind.INTENT, None)
    assert event.facts["intent_id"] == flip.intent_id
    assert event.facts["from"] == configuration_to_document(GP2)
    assert event.facts["to"] == configuration_to_document(flip.target)


def test_a_volume_that_is_sent_on_still_knows_what_it_was():
    # gp2 at $10.00 went to gp3 at $8.12; io2 with 4,000 IOPS is 12.50 + 260.00 = 272.50.
    order = a_manual_order(override=TargetOverride(volume_type=VolumeType.IO2, iops=4_000))
    state = record_intent(plan_for(order, context_of_flipped()), 7, NOW_S).state
    flip = state.flip
    assert (flip.original, flip.previous and flip.previous.target, flip.target) == (GP2, GP3, IO2)
    assert flip.usd_per_month == 262.5


def test_the_flip_back_keeps_all_that_is_known_of_the_way_out():
    out = a_flip(
        by=OPERATOR,
        usd_per_month=5.0,
        is_stuck_alerted=True,
        overdue_alerted_at_s=3,
        return_after_s=NOW_S - 9,
        unconfirmed_since_s=NOW_S - 60,
    )
    plan = plan_for(an_order(BACK, reason="calm for 30 min"), context_of_flipped(flip=out))
    transition = record_intent(plan, 7, NOW_S)
    state, [event] = transition.state, transition.events
    changed = {
        "status": FlipStatus.REQUESTED,
        "direction": BACK,
        "by": WATCHDOG,
        "reason": "calm for 30 min",
        "requested_at_s": NOW_S,
        "started_at_s": None,
        "is_stuck_alerted": False,
        "unconfirmed_since_s": None,
        "previous": out,
        "intent_id": state.flip.intent_id,
    }
    assert state.flip == replace(out, **changed)
    assert state.flip.intent_id != out.intent_id
    assert event.facts["to"] == configuration_to_document(GP2)


def test_every_intent_has_a_name_of_its_own():
    plan = plan_for()
    names = {record_intent(plan, revision, NOW_S).state.flip.intent_id for revision in range(1, 9)}
    assert len(names) == 8


@pytest.mark.parametrize(
    ("why", "recorded"), [("page of last night", "page of last night"), (None, "no reason")]
)
def test_the_ledger_records_who_overrode_which_guard_and_why(why, recorded):
    holds = [Hold(volume_id=None, by="bob", reason="r", placed_at_s=0, until_s=NOW_S + 9)]
    order = a_manual_order(overridden=frozenset({Guard.HELD}), override_reason=why)
    [event] = record_intent(plan_for(order, a_flip_context(holds=holds)), 7, NOW_S).events
    assert (event.facts["overridden"], event.facts["why"]) == (["held"], why)
    details = " ".join(event.details)
    for phrase in (OPERATOR, "held", recorded):
        assert phrase in details


def test_the_reason_to_stay_goes_into_the_ledger():
    stays = record_intent(plan_for(), 7, NOW_S).state
    assert stays.flip.is_permanent
    assert "$8.12" in stays.flip.reason
    assert "critical: 18 % left" in stays.flip.reason


# what it is already, by its flip

FOR_SIX_HOURS = {"return_after_s": NOW_S + 6 * HOUR_S}


@pytest.mark.parametrize(
    "override",
    [
        None,
        TargetOverride(volume_type=VolumeType.GP3),
        TargetOverride(volume_type=VolumeType.GP3, iops=3_000),
        TargetOverride(),
    ],
)
@pytest.mark.parametrize(
    "flip",
    [
        a_flip(),
        a_flip(is_permanent=True),
        a_flip(cause=FlipCause.WINDOW),
        a_flip(cause=FlipCause.MANUAL, by="bob"),
    ],
)
def test_an_operator_requesting_the_current_target_only_sets_its_duration(override, flip):
    plan = plan_for(a_manual_order(override=override, **FOR_SIX_HOURS), context_of_flipped(flip=flip))
    assert (plan.is_extension, plan.refusals) == (True, ())
    assert (plan.current, plan.target, plan.usd_per_month_more) == (GP3, GP3, 0.0)
    assert not plan.return_decision.is_permanent


def test_an_extension_is_refused_by_no_guard():
    facts = context_of_flipped(
        holds=[Hold(volume_id=None, by="bob", reason="r", placed_at_s=0, until_s=NOW_S + 9)],
        modification=a_modification(state="optimizing"),
    )
    full = with_fields(facts.state, used=uses(20, 10, 5, 1), retry_at_s=NOW_S + 9, failure_count=1)
    plan = plan_for(a_manual_order(**FOR_SIX_HOURS), replace(facts, state=full))
    assert (plan.is_extension, plan.refusals, plan.overridden) == (True, (), ())


@pytest.mark.parametrize(
    ("order", "facts"),
    [
        # something else is wanted
        (a_manual_order(override=TargetOverride(volume_type=VolumeType.IO1)), context_of_flipped()),
        (a_manual_order(override=TargetOverride(iops=4_000)), context_of_flipped()),
        (a_manual_order(override=TargetOverride(throughput_mib_s=250)), context_of_flipped()),
        # the watchdog has its own reasons, and a return is one
        (an_order(), context_of_flipped()),
        (a_manual_order(BACK), context_of_flipped()),
        # it was never flipped, is on its way back or perhaps not on its way at all, or is not what the
        # ledger says
        (a_manual_order(), a_flip_context()),
        (a_manual_order(), context_of_flipped(flip=a_flip(status=FlipStatus.IN_PROGRESS, direction=BACK))),
        (a_manual_order(), context_of_flipped(flip=a_flip(status=FlipStatus.REQUESTED))),
        (a_manual_order(), context_of_flipped(flip=a_flip(status=FlipStatus.REQUESTED, direction=BACK))),
        (a_manual_order(), context_of_flipped(a_volume_as(GP2))),
        (a_manual_order(), context_of_flipped(a_volume_as(GP3, 200))),
    ],
)
def test_anything_else_is_a_modification_or_is_refused(order, facts):
    assert not plan_for(order, facts).is_extension


UNDER_WAY = a_flip(status=FlipStatus.IN_PROGRESS, reached_at_s=None)


@pytest.mark.parametrize("shows", [GP2, GP3])
@pytest.mark.parametrize("override", [None, TargetOverride(volume_type=VolumeType.GP3)])
def test_the_duration_is_reported_also_for_a_flip_under_way(shows, override):
    facts = context_of_flipped(
        a_volume_as(shows), flip=UNDER_WAY, modification=a_modification(state="optimizing")
    )
    plan = plan_for(a_manual_order(override=override, **FOR_SIX_HOURS), facts)
    assert (plan.is_extension, plan.target, plan.refusals, plan.usd_per_month_more) == (True, GP3, (), 0.0)
    extended = extend_stay(plan, 7).state.flip
    assert (extended.status, extended.started_at_s, extended.intent_id) == (
        UNDER_WAY.status,
        UNDER_WAY.started_at_s,
        UNDER_WAY.intent_id,
    )
    assert (extended.by, extended.return_after_s) == (OPERATOR, NOW_S + 6 * HOUR_S)


def test_another_type_than_what_is_under_way_is_refused():
    facts = context_of_flipped(a_volume_as(GP2), flip=UNDER_WAY)
    plan = plan_for(
        a_manual_order(override=TargetOverride(volume_type=VolumeType.IO1), **FOR_SIX_HOURS), facts
    )
    assert (plan.is_extension, refusing_guards(plan)) == (False, [Guard.MODIFICATION_IN_PROGRESS])


@pytest.mark.parametrize(
    "facts",
    [
        # it has returned, is on its way back, or is something else than the ledger says
        a_flip_context(),
        context_of_flipped(flip=a_flip(status=FlipStatus.IN_PROGRESS, direction=BACK)),
        context_of_flipped(a_volume_as(GP2)),
        context_of_flipped(flip=a_flip(target=gp3(4_000))),
    ],
)
def test_a_confirmed_extension_never_modifies(facts):
    order = a_manual_order(
        override=TargetOverride(volume_type=VolumeType.GP3, iops=3_000), is_extension=True, **FOR_SIX_HOURS
    )
    plan = plan_for(order, facts)
    assert (plan.is_extension, refusing_guards(plan)) == (False, [Guard.NO_TARGET])
    assert plan.refusal.reason.endswith("plan again")
    assert plan_for(replace(order, is_extension=False), facts).refusals != plan.refusals


def test_a_confirmed_extension_that_still_applies_is_done():
    order = a_manual_order(
        override=TargetOverride(volume_type=VolumeType.GP3, iops=3_000), is_extension=True, **FOR_SIX_HOURS
    )
    assert plan_for(order, context_of_flipped()).is_extension


# what somebody else changed is ours again when a person gives an order for it

CONTESTED_S = NOW_S - HOUR_S


@pytest.mark.parametrize(
    ("order", "facts"),
    [
        (a_manual_order(), a_flip_context()),
        (
            a_manual_order(override=TargetOverride(volume_type=VolumeType.IO1), **FOR_SIX_HOURS),
            context_of_flipped(),
        ),
        (a_manual_order(BACK), context_of_flipped()),
    ],
)
def test_a_manual_order_releases_an_external_change(order, facts):
    contested = replace(facts, state=with_fields(facts.state, contested_at_s=CONTESTED_S))
    plan = plan_for(order, contested)
    assert plan.refusals == ()
    state = record_intent(plan, 7, NOW_S).state
    assert (state.modifications.contested_at_s, state.flip.status) == (None, FlipStatus.REQUESTED)


def test_an_extension_releases_what_others_changed():
    facts = context_of_flipped()
    contested = replace(facts, state=with_fields(facts.state, contested_at_s=CONTESTED_S))
    state = extend_stay(plan_for(a_manual_order(**FOR_SIX_HOURS), contested), 7).state
    assert (state.modifications.contested_at_s, state.flip.by) == (None, OPERATOR)


@pytest.mark.parametrize("order", [an_order(), an_order(BACK)])
def test_the_watchdog_releases_nothing(order):
    facts = context_of_flipped() if order.direction is BACK else a_flip_context()
    plan = plan_for(order, replace(facts, state=with_fields(facts.state, contested_at_s=CONTESTED_S)))
    assert refusing_guards(plan) == [Guard.CHANGED_BY_OTHERS]
    assert record_intent(plan, 7, NOW_S).state.modifications.contested_at_s == CONTESTED_S


# a time that no one keeps


@pytest.mark.parametrize("highest", [Mode.PROPOSE, Mode.OBSERVE])
@pytest.mark.parametrize(
    "facts", [a_flip_context(), context_of_flipped(), context_of_flipped(a_volume_as(GP2), flip=UNDER_WAY)]
)
def test_with_all_flips_stopped_a_plan_names_who_can_flip_back(highest, facts):
    policy = Policy(mode=ModePolicy(default=Mode.OBSERVE, highest=highest))
    stay = make_plan(a_manual_order(**FOR_SIX_HOURS), facts, policy).return_decision
    assert not stay.is_permanent
    assert stay.reason == (
        f"returns by burstctl flip-back vol-0a1 only: the policy's mode.highest, {highest}, stops every"
        " automatic modification"
    )


def test_an_extension_states_for_whom_and_how_long_and_leaves_the_rest_alone():
    flip = a_flip(usd_per_month=5.0, is_permanent=True, reason="stays: $8.12", overdue_alerted_at_s=NOW_S - 9)
    facts = context_of_flipped(flip=flip)
    facts = replace(facts, state=with_fields(facts.state, used=uses(20), failure_count=1))
    transition = extend_stay(plan_for(a_manual_order(reason="INC-7", **FOR_SIX_HOURS), facts), 7)
    state, [event] = transition.state, transition.events
    assert state == replace(facts.state, revision=7, flip=state.flip)
    assert (state.flip.cause, state.flip.by, state.flip.is_permanent) == (FlipCause.MANUAL, OPERATOR, False)
    assert state.flip.return_after_s == NOW_S + 6 * HOUR_S
    assert state.flip.reason.startswith("INC-7; it returns when the requested time is over")
    changed = {"cause", "by", "is_permanent", "return_after_s", "reason", "overdue_alerted_at_s"}
    changes = {name: getattr(state.flip, name) for name in changed}
    assert (replace(flip, **changes), state.flip.overdue_alerted_at_s) == (state.flip, None)
    assert (event.kind, event.alert) == (EntryKind.STAY_EXTENDED, None)
    assert event.summary.endswith("until 2026-11-20T18:00:00Z, requested by ann")
    assert event.details == ("INC-7",)


def test_without_a_time_it_stays_until_a_person_ends_it_and_counts_against_no_cap():
    # A stay for $5 more that the watchdog chose counts; ann knows what she takes over.
    chosen = a_flip(is_permanent=True, usd_per_month=5.0)
    transition = extend_stay(plan_for(a_manual_order(), context_of_flipped(flip=chosen)), 7)
    state, [event] = transition.state, transition.events
    assert (chosen.counts_against_caps, state.flip.counts_against_caps) == (True, False)
    assert (state.flip.is_permanent, state.flip.return_after_s) == (True, None)
    assert "until it is flipped back" in event.summary


# what AWS says to it


def intended_flip(order=None, facts=None, **settings):
    return record_intent(plan_for(order, facts, **settings), 7, NOW_S).state


def test_an_accepted_modification_is_in_progress_and_used_up():
    record = a_modification(state="modifying", started="12:00:02")
    transition = record_accepted(intended_flip(), record, NOW_S + 60, lead=LeadPolicy())
    state, [event] = transition.state, transition.events
    assert (state.flip.status, state.flip.started_at_s) == (FlipStatus.IN_PROGRESS, NOW_S + 2)
    assert state.modifications.used == (ModificationUse(at_s=NOW_S + 2, by=WATCHDOG, direction=OUT),)
    assert event.kind is EntryKind.ACCEPTED


@pytest.mark.parametrize(
    ("retry_at_s", "expected_s"),
    [
        (None, NOW_S + 60),
        (NOW_S + 7_200.5, NOW_S + 7_200),
        # AWS's quota is free again a day after the newest modification, which was 20 hours ago.
        (NOW_S + 10 * 86_400, NOW_S + 4 * 3_600),
    ],
)
def test_a_refused_request_leaves_only_a_backoff(retry_at_s, expected_s):
    before = a_flip_context(state=a_state(used=uses(20)))
    transition = record_rejected(
        intended_flip(facts=before), "InvalidParameterValue", "too many", NOW_S, retry_at_s=retry_at_s
    )
    state, [event] = transition.state, transition.events
    assert (state.flip, state.modifications.failure_count, state.modifications.retry_at_s) == (
        None,
        1,
        expected_s,
    )
    assert state.modifications.used == before.state.modifications.used
    assert event.kind is EntryKind.NOT_DONE
    assert event.action.startswith("burstctl flip vol-0a1")
    assert "InvalidParameterValue" in event.summary
    assert "too many" in event.details[0]


def test_a_return_that_aws_refused_leaves_the_volume_on_its_target():
    state = record_rejected(
        intended_flip(an_order(BACK), context_of_flipped()), "InternalError", "sorry", NOW_S
    ).state
    flip = state.flip
    assert (flip.status, flip.direction, flip.target, flip.original) == (FlipStatus.ON_TARGET, OUT, GP3, GP2)


def test_a_refused_redirect_leaves_the_volume_where_it_was():
    order = a_manual_order(override=TargetOverride(volume_type=VolumeType.IO2))
    state = record_rejected(intended_flip(order, context_of_flipped()), "InternalError", "sorry", NOW_S).state
    assert (state.flip.status, state.flip.target, state.flip.original) == (FlipStatus.ON_TARGET, GP3, GP2)


def test_an_aws_refusal_with_a_matching_guard_names_the_guard():
    [event] = record_rejected(
        intended_flip(),
        "VolumeModificationRateExceeded",
        "wait",
        NOW_S,
        guard="aws_quota",
        retry_at_s=NOW_S + 9,
    ).events
    assert event.action == "burstctl explain vol-0a1"
    assert "aws_quota" in event.summary
    assert event.facts["guard"] == "aws_quota"
    assert event.facts["ends_at"] == "2026-11-20T12:00:09Z"


def test_a_lost_answer_changes_nothing():
    before = intended_flip()
    transition = record_unknown_outcome(before, "ReadTimeout", "no answer within 30 s")
    state, [event] = transition.state, transition.events
    assert state == before
    assert event.kind is EntryKind.UNCLEAR
    assert event.facts["intent_id"] == before.flip.intent_id
    assert "ReadTimeout" in event.summary


@pytest.mark.parametrize(("direction", "is_alerted"), [(OUT, True), (BACK, False)])
def test_a_refused_flip_is_reported_to_people_with_its_end(direction, is_alerted):
    plan = plan_for(an_order(direction), context_of_flipped())
    refusal = Refusal(guard=Guard.HELD, reason="on hold by ann", ends_at_s=at("18:00"))
    event = refused_event(plan, refusal)
    assert (event.kind, event.alert is not None) == (EntryKind.REFUSED, is_alerted)
    assert "held" in event.summary
    assert "in 6 h (18:00 UTC)" in " ".join(event.details)
    assert event.facts["ends_at"] == "2026-11-20T18:00:00Z"
    assert event.facts["from"] == configuration_to_document(GP3)
    assert event.facts["original"] == configuration_to_document(GP2)


def test_a_refused_flip_without_a_target_is_reported_as_well():
    plan = plan_for(facts=a_flip_context(instance=SMALL_INSTANCE))
    event = refused_event(plan, plan.refusal)
    assert (event.facts["to"], event.facts["from"]) == (None, configuration_to_document(GP2))
    assert event.facts["original"] == configuration_to_document(GP2)
    assert "None" not in " ".join((event.summary, *event.details))


def test_an_intent_that_overrides_nothing_does_not_mention_overrides():
    plan = plan_for(an_order(reason="critical: 18 % left"))
    assert record_intent(plan, 7, NOW_S).events[0].details == ("critical: 18 % left",)


def test_a_refusal_names_what_it_was_to_become():
    refusal = Refusal(guard=Guard.HELD, reason="on hold by ann")
    event = refused_event(plan_for(), refusal)
    assert event.summary == "was not flipped to gp3: held"
    assert event.details[1].startswith("Wanted: gp3 with 3,000 IOPS and 128 MiB/s, because ")
    assert event.facts["to"] == configuration_to_document(gp3())


def test_an_unsupported_type_is_not_reported():
    plan = plan_for(facts=a_flip_context(a_volume(volume_type="st1", size_gib=500)))
    facts = refused_event(plan, plan.refusal).facts
    assert (facts["from"], facts["to"], facts["original"]) == (None, None, None)
    assert (plan.usd_per_month_now, plan.usd_per_month) == (0.0, 0.0)
    back = plan_for(an_order(BACK), context_of_flipped(a_volume(volume_type="st1", size_gib=500)))
    assert (back.usd_per_month_now, back.usd_per_month) == (0.0, 0.0)

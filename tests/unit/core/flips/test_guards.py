from dataclasses import dataclass, field, replace
from itertools import combinations

import pytest

from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import TargetOverride
from burstwatch.core.flips.flip_plan import FlipContext, FlipOrder, FlipPlan, modifications_used
from burstwatch.core.flips.guards import (
    check_guards,
    is_backoff_refusal,
    is_last_of_the_day,
    quota_retry_at_s,
)
from burstwatch.core.flips.refusal import AUTOMATION_ONLY, NON_OVERRIDABLE, Guard, guard_page
from burstwatch.core.ledger.flip_state import (
    WATCHDOG,
    Direction,
    FlipCause,
    FlipStatus,
    Hold,
    ModificationUse,
)
from burstwatch.core.policy.change_hours import parse_change_hours
from burstwatch.core.policy.policy import FlipPolicy, Mode, ModePolicy, Policy, QuotaRule
from burstwatch.core.policy.volume_tags import read_tags
from support.builders.core_values import (
    GP2,
    GP3,
    IO1,
    IO2,
    a_flip,
    a_modification,
    a_state,
    a_volume,
    at,
    volume_settings,
)

OUT, BACK = Direction.FLIP, Direction.FLIP_BACK
OPERATOR = "ann"
NOW_S = int(at("12:00"))
HOUR_S = 3_600
DAY_S = 24 * HOUR_S


def a_plan(*, volume=None, state=None, **changes) -> FlipPlan:
    """The watchdog wants to send an opted-in gp2 of 100 GiB to gp3 at noon, and nothing speaks against it."""
    observed = a_volume(**volume or {})
    order = {"direction": OUT, "cause": FlipCause.DRAINING, "by": WATCHDOG}
    context = {"state": a_state(**state or {}), "volume_settings": volume_settings(), "now_s": NOW_S}
    return FlipPlan(
        order=FlipOrder(volume_id=observed.volume_id, reason="", **chosen(FlipOrder, order | changes)),
        context=FlipContext(volume=observed, **chosen(FlipContext, context | changes)),
        **chosen(FlipPlan, {"current": GP2, "target": GP3} | changes),
    )


def chosen(kind, facts):
    return {name: value for name, value in facts.items() if name in kind.__dataclass_fields__}


def refusals(policy=None, *, overridden=(), **changes):
    return check_guards(a_plan(**changes), policy or Policy(), overridden=overridden)


def refusing_guards(policy=None, **changes) -> list[Guard]:
    return [refusal.guard for refusal in refusals(policy, **changes)]


def modification_uses(*hours_ago: float, by: str = WATCHDOG) -> tuple[ModificationUse, ...]:
    """Modifications that began this many hours before noon, oldest first."""
    return tuple(ModificationUse(at_s=NOW_S - int(hours * HOUR_S), by=by) for hours in hours_ago)


def a_hold(volume_id="vol-0a1", until="18:00", **changes) -> Hold:
    facts = {"by": OPERATOR, "reason": "release day", "placed_at_s": 0, "until_s": int(at(until))}
    return Hold(volume_id=volume_id, **(facts | changes))


def flip_policy(**settings) -> Policy:
    return Policy(flip=FlipPolicy(**settings))


@dataclass(frozen=True)
class GuardCase:
    """What speaks against an attempt: the words it is refused with, and the clock at which that ends."""

    reason: tuple[str, ...]
    ends_at: str | None = None
    volume: dict = field(default_factory=dict)
    state: dict = field(default_factory=dict)
    context: dict = field(default_factory=dict)
    policy: dict = field(default_factory=dict)


# In the order in which they are reported. 20 November 2026 is a Friday; noon UTC is one o'clock in Berlin.
GUARD_CASES = {
    Guard.NOT_OPTED_IN: GuardCase(
        reason=("propose", "burstwatch:mode=auto"), context={"volume_settings": volume_settings(Mode.PROPOSE)}
    ),
    Guard.MANAGED: GuardCase(reason=("ecs",), volume={"managed_by": "ecs"}),
    Guard.SERVICE_OWNED: GuardCase(
        reason=("elasticache",), volume={"managed_by": "elasticache", "instance_id": None}
    ),
    Guard.MULTI_ATTACHED: GuardCase(reason=("Multi-Attach",), volume={"multi_attach_enabled": True}),
    Guard.HELD: GuardCase(reason=("ann", "release day"), ends_at="18:00", context={"holds": [a_hold()]}),
    Guard.CHANGED_BY_OTHERS: GuardCase(
        reason=("2026-11-20T09:00:00Z", "burstctl release vol-0a1"),
        state={"contested_at_s": int(at("09:00"))},
    ),
    Guard.DETACHED: GuardCase(
        reason=("is detached", "attach a volume"), volume={"attached": False, "instance_id": None}
    ),
    Guard.MODIFICATION_IN_PROGRESS: GuardCase(
        reason=("optimizing", "42 %"),
        context={"modification": a_modification(state="optimizing", progress_pct=42)},
    ),
    # Four at 15:00, 16:00 and 17:00 yesterday and at 10:00: the first is 24 h old at 15:00.
    Guard.AWS_QUOTA: GuardCase(
        reason=("4",), ends_at="15:00", state={"used": modification_uses(21, 20, 19, 2)}
    ),
    Guard.COOLDOWN: GuardCase(
        reason=("3 in a row",), ends_at="12:04", state={"failure_count": 3, "retry_at_s": int(at("12:04"))}
    ),
    Guard.CHANGE_HOURS: GuardCase(
        reason=("mon-fri 18:00-20:00 Europe/Berlin",),
        ends_at="17:00",
        policy={"change_hours": parse_change_hours("mon-fri 18:00-20:00 Europe/Berlin")},
    ),
    Guard.NO_CHANGE_NEEDED: GuardCase(
        reason=("io2 with 4,000 IOPS already",), context={"current": IO2, "target": IO2}
    ),
    Guard.ACCOUNT_LIMIT: GuardCase(
        reason=("4,000", "100,000", "3,999", "io2_iops_limit"), context={"target": IO2, "iops_left": 3_999}
    ),
    Guard.TAG_CAP: GuardCase(
        reason=(
            "burstwatch:target=io2",
            "burstwatch:iops=15300",
            "$997.00 a month",
            "flip.tag_cap_usd_per_month is $250.00",
            "us-east-1 list prices",
            "burstctl flip vol-0a1",
        ),
        context={
            "volume_settings": volume_settings(
                target_override=TargetOverride(volume_type=VolumeType.IO2, iops=15_300)
            ),
            "tags_usd_per_month": 997.0,
        },
    ),
}
TESTED_ELSEWHERE = {
    # the plan of an order (test_orders) and the ledger's transaction (test_ledger_intents) see these
    Guard.INSTANCE_IS_BOTTLENECK,
    Guard.NO_TARGET,
    Guard.FLEET_CAP,
    Guard.SPEND_CAP,
    Guard.TYPE_NOT_AVAILABLE,
}


def refusals_of(*case: GuardCase, overridden=(), **changes):
    """The refusals if all of these cases apply; for a field that two of them set, the first wins."""
    volume, state, rest, policy = {}, {}, {}, {}
    for item in reversed(case):
        volume |= item.volume
        state |= item.state
        rest |= item.context
        policy |= item.policy
    facts = {"volume": volume, "state": state} | rest | changes
    return refusals(flip_policy(**policy), overridden=overridden, **facts)


# each of them


def test_no_guard_refuses_a_first_flip_of_an_opted_in_volume():
    assert refusals() == []
    assert a_plan().refusal is None


def test_every_guard_is_tested_here_or_elsewhere():
    assert GUARD_CASES.keys() | TESTED_ELSEWHERE == set(Guard)
    assert not GUARD_CASES.keys() & TESTED_ELSEWHERE


@pytest.mark.parametrize(("guard", "case"), GUARD_CASES.items())
def test_every_guard_refuses_alone_and_explains_why_and_until_when(guard, case):
    [refusal] = refusals_of(case)
    assert refusal.guard is guard
    assert refusal.ends_at_s == (None if case.ends_at is None else at(case.ends_at))
    assert [phrase for phrase in case.reason if phrase not in refusal.reason] == []


EXCLUSIVE_PAIRS = {(Guard.MANAGED, Guard.SERVICE_OWNED), (Guard.SERVICE_OWNED, Guard.DETACHED)}
"""A volume has one owner, and a service owns what it has attached."""

ORDERED_PAIRS = [pair for pair in combinations(GUARD_CASES, 2) if pair not in EXCLUSIVE_PAIRS]


@pytest.mark.parametrize(("first", "second"), ORDERED_PAIRS)
def test_the_more_fundamental_of_two_refusals_is_reported_first(first, second):
    reported = [refusal.guard for refusal in refusals_of(GUARD_CASES[first], GUARD_CASES[second])]
    assert reported == [first, second]


def test_a_refusal_reads_as_guard_reason_and_end():
    [held] = refusals(holds=[a_hold()])
    assert str(held).startswith("held: ")
    assert str(held).endswith(", until 2026-11-20T18:00:00Z")
    [refusal] = refusals(volume={"multi_attach_enabled": True})
    assert "until" not in str(refusal)


# overriding


@pytest.mark.parametrize(("guard", "case"), GUARD_CASES.items())
def test_a_guard_is_overridden_by_its_name_unless_it_is_an_aws_rule(guard, case):
    assert bool(refusals_of(case, overridden={guard})) is (guard in NON_OVERRIDABLE)
    other_guards = set(Guard) - {guard}
    assert [refusal.guard for refusal in refusals_of(case, overridden=other_guards)] == [guard]


def test_the_rules_of_aws():
    own_guards = {Guard.NOT_OPTED_IN, Guard.HELD, Guard.CHANGED_BY_OTHERS, Guard.COOLDOWN, Guard.CHANGE_HOURS}
    own_guards |= {Guard.INSTANCE_IS_BOTTLENECK, Guard.NO_CHANGE_NEEDED, Guard.FLEET_CAP, Guard.SPEND_CAP}
    own_guards |= {Guard.DETACHED, Guard.TAG_CAP, Guard.TYPE_NOT_AVAILABLE}
    assert set(Guard) - own_guards == NON_OVERRIDABLE


def test_overriding_everything_still_shows_every_aws_rule():
    one_of_each = [case for guard, case in GUARD_CASES.items() if guard is not Guard.SERVICE_OWNED]
    reported = [refusal.guard for refusal in refusals_of(*one_of_each, overridden=set(Guard))]
    assert reported == [
        guard for guard in GUARD_CASES if guard in NON_OVERRIDABLE and guard is not Guard.SERVICE_OWNED
    ]


# people


@pytest.mark.parametrize(("guard", "case"), GUARD_CASES.items())
def test_guards_for_the_watchdog_alone_do_not_stop_a_person(guard, case):
    # the pause after a failure does not stop a person, the policy's cooldown does
    passes = AUTOMATION_ONLY | {Guard.COOLDOWN}
    assert bool(refusals_of(case, by=OPERATOR)) is (guard not in passes)


# opt-in

OPT_IN = ModePolicy(opt_in_tag=("team:flips", "yes"))
NO_FLIPS = ModePolicy(highest=Mode.PROPOSE)


@pytest.mark.parametrize(
    ("tags", "mode_policy", "phrase"),
    [
        ({}, ModePolicy(), "burstwatch:mode=auto"),
        ({"burstwatch:mode": "auto"}, ModePolicy(), None),
        ({"burstwatch:mode": "Auto"}, ModePolicy(), "burstwatch:mode=auto"),
        ({"burstwatch:mode": "propose"}, ModePolicy(), "propose"),
        ({"burstwatch:mode": "observe"}, ModePolicy(), "observe"),
        ({"burstwatch:mode": "auto"}, NO_FLIPS, "mode.highest is propose"),
        ({"burstwatch:mode": "auto"}, OPT_IN, "team:flips=yes"),
        ({"team:flips": "yes"}, OPT_IN, None),
        ({"team:flips": "no"}, OPT_IN, "team:flips=yes"),
        ({"team:flips": "yes", "burstwatch:mode": "auto"}, OPT_IN, None),
        ({"team:flips": "yes", "burstwatch:mode": "propose"}, OPT_IN, "propose"),
    ],
)
@pytest.mark.parametrize("direction", Direction)
def test_only_tag_and_policy_together_let_the_watchdog_modify(tags, mode_policy, phrase, direction):
    settings = read_tags(tags, mode_policy)
    result = refusals(Policy(mode=mode_policy), volume_settings=settings, direction=direction)
    assert [refusal.guard for refusal in result] == ([] if phrase is None else [Guard.NOT_OPTED_IN])
    assert all(phrase in refusal.reason for refusal in result)


MANUAL_RETURN = {"direction": BACK, "cause": FlipCause.MANUAL, "current": GP3, "target": GP2}


@pytest.mark.parametrize("mode", Mode)
def test_a_timed_manual_flip_returns_without_a_tag(mode):
    assert refusing_guards(volume_settings=volume_settings(mode), **MANUAL_RETURN) == []


@pytest.mark.parametrize("highest", [Mode.PROPOSE, Mode.OBSERVE])
@pytest.mark.parametrize("mode", [Mode.PROPOSE, Mode.OBSERVE])
def test_stopping_all_flips_also_stops_the_return_of_a_manual_flip(highest, mode):
    stopped = Policy(mode=ModePolicy(default=Mode.OBSERVE, highest=highest))
    [refusal] = refusals(stopped, volume_settings=volume_settings(mode), **MANUAL_RETURN)
    assert refusal.guard is Guard.NOT_OPTED_IN
    assert f"mode.highest is {highest}" in refusal.reason
    assert refusing_guards(stopped, volume_settings=volume_settings(mode), by=OPERATOR, **MANUAL_RETURN) == []


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("sent", [{}, MANUAL_RETURN])
def test_an_unwatched_volume_is_not_modified_automatically(mode, sent):
    ignoring_settings = replace(volume_settings(mode), is_ignored=True)
    [refusal] = refusals(volume_settings=ignoring_settings, **sent)
    assert (refusal.guard, refusal.ends_at_s) == (Guard.NOT_OPTED_IN, None)
    assert "burstwatch:ignore" in refusal.reason
    assert refusing_guards(volume_settings=ignoring_settings, by=OPERATOR, **sent) == []


@pytest.mark.parametrize("cause", [cause for cause in FlipCause if cause is not FlipCause.MANUAL])
def test_an_automatic_flip_needs_the_tag_to_return(cause):
    assert refusing_guards(volume_settings=volume_settings(Mode.PROPOSE), direction=BACK, cause=cause) == [
        Guard.NOT_OPTED_IN
    ]


# whose volume it is


@pytest.mark.parametrize(
    ("volume", "guard"),
    [
        ({"managed_by": "ecs"}, Guard.MANAGED),
        ({"managed_by": "ecs", "instance_id": None}, Guard.SERVICE_OWNED),
        ({"managed_by": "ecs", "instance_id": None, "attached": False}, Guard.MANAGED),
        # attached to no known instance, and without an owner: AWS says who may not
        ({"instance_id": None}, None),
        ({"instance_id": None, "attached": False}, None),
    ],
)
def test_a_managed_volume_without_a_known_instance_belongs_to_a_service(volume, guard):
    assert refusing_guards(volume=volume, by=OPERATOR) == ([guard] if guard else [])


# attachment


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("cause", FlipCause)
def test_a_detached_volume_is_never_changed_automatically(direction, cause):
    """Neither out nor back, whether it drains, is critical or in a window, or was sent out for a time."""
    detached = {"volume": {"attached": False, "instance_id": None}, "direction": direction, "cause": cause}
    assert refusing_guards(**detached) == [Guard.DETACHED]
    assert refusing_guards(**detached, by=OPERATOR) == []


def test_a_volume_that_is_being_detached_counts_as_detached():
    [refusal] = refusals(volume={"detaching": True})
    assert refusal.guard is Guard.DETACHED
    assert "is being detached" in refusal.reason


# holds


@pytest.mark.parametrize(
    ("holds", "ends"),
    [
        ([], None),
        ([a_hold(volume_id="vol-0b2")], None),
        ([a_hold(until="12:00")], None),
        ([a_hold(until="12:00:01")], "12:00:01"),
        ([a_hold(volume_id=None, until="13:00")], "13:00"),
        # of two the one that lasts longer
        ([a_hold(until="14:00"), a_hold(volume_id=None, until="13:00")], "14:00"),
        ([a_hold(until="13:00"), a_hold(volume_id=None, until="14:00")], "14:00"),
    ],
)
@pytest.mark.parametrize("by", [WATCHDOG, OPERATOR])
def test_a_hold_keeps_its_volume_or_everything_until_it_ends(holds, ends, by):
    result = refusals(holds=holds, by=by)
    assert [refusal.guard for refusal in result] == ([] if ends is None else [Guard.HELD])
    assert [refusal.ends_at_s for refusal in result] == ([] if ends is None else [at(ends)])


def test_a_hold_on_everything_is_reported_as_such():
    [item] = refusals(holds=[a_hold()])
    [everything] = refusals(holds=[a_hold(volume_id=None)])
    assert [("everything" in refusal.reason) for refusal in (item, everything)] == [False, True]


# modifications under way


@pytest.mark.parametrize("state", ["modifying", "optimizing", "pondering"])
def test_a_modification_of_anybodys_must_be_over(state):
    [refusal] = refusals(modification=a_modification(state=state))
    assert (refusal.guard, refusal.ends_at_s) == (Guard.MODIFICATION_IN_PROGRESS, None)
    assert state in refusal.reason
    assert "%" not in refusal.reason


@pytest.mark.parametrize("state", ["completed", "failed"])
def test_a_modification_that_is_over_is_none_in_progress(state):
    assert refusing_guards(modification=a_modification(state=state)) == []


@pytest.mark.parametrize("phase", [FlipStatus.REQUESTED, FlipStatus.IN_PROGRESS])
def test_an_open_intent_must_be_settled_first(phase):
    flip = a_flip(status=phase, by=OPERATOR)
    [refusal] = refusals(state={"flip": flip}, modification=a_modification())
    assert refusal.guard is Guard.MODIFICATION_IN_PROGRESS
    for phrase in ("ann", "gp3 with 3,000 IOPS", "2026-11-20T10:00:00Z"):
        assert phrase in refusal.reason


def test_a_volume_on_target_may_be_redirected():
    assert refusing_guards(state={"flip": a_flip()}, current=GP3, target=IO2) == []


# the quota


@pytest.mark.parametrize(
    ("ledger", "newest", "counted"),
    [
        ((), None, []),
        (modification_uses(3, 2), None, [WATCHDOG, WATCHDOG]),
        # AWS's newest is the one of the ledger: they give its start within 5 s of each other.
        (modification_uses(3, 2), "10:00:00", [WATCHDOG, WATCHDOG]),
        (modification_uses(3, 2), "10:00:05", [WATCHDOG, WATCHDOG]),
        (modification_uses(3, 2), "09:59:55", [WATCHDOG, WATCHDOG]),
        # or it is not, and somebody else's
        (modification_uses(3, 2), "10:00:06", [WATCHDOG, WATCHDOG, "others"]),
        (modification_uses(3, 2), "09:30", [WATCHDOG, "others", WATCHDOG]),
        ((), "10:00", ["others"]),
        # Only the last 24 h count: what began at noon yesterday counts no more.
        (modification_uses(24, 23.999), None, [WATCHDOG]),
        ((), at("12:00") - DAY_S, []),
        ((), at("12:00") - DAY_S + 1, ["others"]),
        # A clock that was ahead: it counts.
        (modification_uses(-1), None, [WATCHDOG]),
    ],
)
def test_used_modifications_count_ledger_and_newest_aws_record_once(ledger, newest, counted):
    record = None if newest is None else a_modification(started=newest)
    result = modifications_used(a_state(used=ledger), record, NOW_S)
    assert [finding.by for finding in result] == counted
    assert list(result) == sorted(result, key=lambda finding: finding.at_s)


def test_a_record_of_aws_without_a_start_counts_nothing():
    assert modifications_used(a_state(), a_modification(started=None), NOW_S) == ()


@pytest.mark.parametrize(
    ("hours_ago", "watchdog_ends", "ann_ends"),
    [
        ((), None, None),
        ((20, 10), None, None),
        # Three: the fourth is left to people; the watchdog waits until there are two, at -20 h + 24 h.
        ((20, 10, 1), "16:00", None),
        # Four: people wait until there are three, the watchdog until there are two.
        ((20, 15, 10, 1), "16:00", "16:00"),
        ((23.5, 15, 10, 1), "12:30", "12:30"),
        # Five were possible once, or somebody counts otherwise: until three of them are left, -15 h + 24 h.
        ((20, 15, 10, 5, 1), "21:00", "21:00"),
        # The window rolls: of four the oldest is just a day old.
        ((24, 15, 10, 1), "21:00", None),
        ((24, 24, 10, 1), None, None),
    ],
)
@pytest.mark.parametrize("by_whom", [WATCHDOG, "others", OPERATOR])
def test_aws_allows_four_in_any_24_hours_and_the_last_is_left_to_people(
    hours_ago, watchdog_ends, ann_ends, by_whom
):
    # The way back: its cooldown is none of this test's business.
    state = {"used": modification_uses(*hours_ago, by=by_whom)}
    for by, ends in ((WATCHDOG, watchdog_ends), (OPERATOR, ann_ends)):
        result = refusals(state=state, by=by, direction=BACK)
        assert [refusal.guard for refusal in result] == ([] if ends is None else [Guard.AWS_QUOTA])
        assert [refusal.ends_at_s for refusal in result] == ([] if ends is None else [at(ends)])


@pytest.mark.parametrize(
    ("hours_ago", "target", "direction", "by", "ends"),
    [
        # Two are used: the third is the last that is left to the watchdog, and only gp3 may stay permanently.
        ((20, 10), IO2, OUT, WATCHDOG, "16:00"),
        ((20, 10), IO1, OUT, WATCHDOG, "16:00"),
        ((20, 10), GP3, OUT, WATCHDOG, None),
        ((20, 10), GP2, BACK, WATCHDOG, None),
        ((20, 10), IO2, OUT, OPERATOR, None),
        ((10,), IO2, OUT, WATCHDOG, None),
        ((24, 10), IO2, OUT, WATCHDOG, None),
        ((23, 20, 10), GP3, OUT, WATCHDOG, "13:00"),
        ((23, 20, 10), GP3, OUT, OPERATOR, None),
        ((10,), None, OUT, WATCHDOG, None),
    ],
)
def test_the_third_flip_of_a_day_targets_gp3_or_waits(hours_ago, target, direction, by, ends):
    facts = {"target": target, "current": GP2 if direction is OUT else GP3, "direction": direction, "by": by}
    result = refusals(state={"used": modification_uses(*hours_ago)}, **facts)
    assert [refusal.guard for refusal in result] == ([] if ends is None else [Guard.AWS_QUOTA])
    assert [refusal.ends_at_s for refusal in result] == ([] if ends is None else [at(ends)])


@pytest.mark.parametrize(
    ("hours_ago", "by", "is_last"),
    [
        ((), WATCHDOG, False),
        ((1,), WATCHDOG, False),
        ((2, 1), WATCHDOG, True),
        ((3, 2, 1), WATCHDOG, True),
        ((3, 2, 1), OPERATOR, False),
    ],
)
def test_the_watchdogs_last_of_the_day_is_its_third(hours_ago, by, is_last):
    assert is_last_of_the_day(a_plan(state={"used": modification_uses(*hours_ago)}, by=by)) is is_last


@pytest.mark.parametrize(
    ("clock", "ends"), [("06:00:01", "12:00:01"), ("06:00", None), ("11:59", "17:59"), ("05:00", None)]
)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("by", [WATCHDOG, OPERATOR])
def test_the_older_rule_requires_six_hours_between_any_two(clock, ends, direction, by):
    state = {"used": (ModificationUse(at_s=int(at(clock)), by="others"),)}
    policy = flip_policy(quota_rule=QuotaRule.SIX_HOURS)
    quota = [
        r for r in refusals(policy, state=state, direction=direction, by=by) if r.guard is Guard.AWS_QUOTA
    ]
    assert [refusal.ends_at_s for refusal in quota] == ([] if ends is None else [at(ends)])


def test_the_older_rule_still_counts_four_a_day():
    policy = flip_policy(quota_rule=QuotaRule.SIX_HOURS)
    [refusal] = refusals(policy, state={"used": modification_uses(23, 17, 11.5, 6)}, by=OPERATOR)
    assert (refusal.guard, refusal.ends_at_s) == (Guard.AWS_QUOTA, at("13:00"))


@pytest.mark.parametrize(
    ("hours_ago", "retry"),
    [
        ((), "13:00"),
        ((1,), "13:00"),
        ((23,), "13:00"),
        ((23.5,), "12:30"),
        ((23.5, 23.25), "12:30"),
    ],
)
def test_a_quota_refusal_of_aws_without_a_time_is_retried_when_one_is_free_or_in_an_hour(hours_ago, retry):
    assert quota_retry_at_s(modification_uses(*hours_ago), NOW_S) == at(retry)


def test_the_modification_that_is_left_to_people_is_refused_with_the_count():
    [refusal] = refusals(state={"used": modification_uses(20, 10, 1)}, direction=BACK)
    assert "3 of AWS's 4 modifications" in refusal.reason


def test_the_third_flip_of_a_day_is_refused_with_its_count():
    [refusal] = refusals(state={"used": modification_uses(20, 10)}, target=IO2)
    assert "modification 3" in refusal.reason
    assert "io2" in refusal.reason


# our own patience


@pytest.mark.parametrize(
    ("began", "ends"), [("11:30", None), ("11:30:01", "12:00:01"), ("11:59", "12:29"), ("12:00", "12:30")]
)
@pytest.mark.parametrize("by_whom", [WATCHDOG, OPERATOR, "others"])
def test_between_two_modifications_the_policy_waits_half_an_hour(began, ends, by_whom):
    state = {"used": (ModificationUse(at_s=int(at(began)), by=by_whom),)}
    result = refusals(state=state)
    assert [refusal.guard for refusal in result] == ([] if ends is None else [Guard.COOLDOWN])
    assert [refusal.ends_at_s for refusal in result] == ([] if ends is None else [at(ends)])
    assert all(by_whom in refusal.reason and "30 min" in refusal.reason for refusal in result)


def test_a_modification_that_only_aws_knows_of_starts_the_cooldown_too():
    [refusal] = refusals(modification=a_modification(started="11:45"))
    assert (refusal.guard, refusal.ends_at_s) == (Guard.COOLDOWN, at("12:15"))


def test_a_flip_back_has_no_cooldown():
    assert refusing_guards(state={"used": modification_uses(0.1)}, direction=BACK) == []


@pytest.mark.parametrize(("retry", "ends"), [("11:59", None), ("12:00", None), ("12:00:01", "12:00:01")])
@pytest.mark.parametrize("direction", Direction)
def test_after_a_failure_the_watchdog_waits_in_both_directions(retry, ends, direction):
    result = refusals(state={"failure_count": 1, "retry_at_s": int(at(retry))}, direction=direction)
    assert [refusal.guard for refusal in result] == ([] if ends is None else [Guard.COOLDOWN])
    assert [refusal.ends_at_s for refusal in result] == ([] if ends is None else [at(ends)])


# change hours

OFFICE = flip_policy(change_hours=parse_change_hours("mon-fri 08:00-18:00 Europe/Berlin"))


@pytest.mark.parametrize(
    ("day_offset", "clock", "ends"),
    [
        # Friday in winter: Berlin is an hour ahead, 08:00 to 18:00 are 07:00Z to 17:00Z.
        (0, "06:59:59", (0, "07:00")),
        (0, "07:00", None),
        (0, "16:59:59", None),
        (0, "17:00", (3, "07:00")),
        (1, "12:00", (3, "07:00")),
        # 17 July 2026, a Friday 126 days before: two hours ahead.
        (-126, "05:59:59", (-126, "06:00")),
        (-126, "06:00", None),
        (-126, "16:00", (-123, "06:00")),
    ],
)
@pytest.mark.parametrize("cause", [FlipCause.DRAINING, FlipCause.CRITICAL])
def test_change_hours_go_by_the_clocks_of_their_zone(day_offset, clock, ends, cause):
    result = refusals(OFFICE, now_s=at(clock) + day_offset * DAY_S, cause=cause)
    assert [refusal.guard for refusal in result] == ([] if ends is None else [Guard.CHANGE_HOURS])
    assert [r.ends_at_s for r in result] == ([] if ends is None else [at(ends[1]) + ends[0] * DAY_S])


@pytest.mark.parametrize("cause", [FlipCause.WINDOW, FlipCause.MANUAL])
@pytest.mark.parametrize("direction", Direction)
def test_windows_and_people_have_chosen_their_hours_themselves(cause, direction):
    assert refusing_guards(OFFICE, now_s=at("22:00"), cause=cause, direction=direction) == []


@pytest.mark.parametrize("cause", [FlipCause.DRAINING, FlipCause.CRITICAL])
def test_change_hours_hold_for_the_flip_back_as_well(cause):
    assert refusing_guards(OFFICE, now_s=at("22:00"), cause=cause, direction=BACK) == [Guard.CHANGE_HOURS]


# the tags


@pytest.mark.parametrize(
    ("cause", "is_named"),
    [(FlipCause.DRAINING, False), (FlipCause.CRITICAL, True), (FlipCause.WINDOW, False)],
)
def test_the_tag_for_critical_volumes_is_named_only_if_it_is_the_cause(cause, is_named):
    [refusal] = refusals(tags_usd_per_month=250.01, cause=cause)
    assert ("burstwatch:critical=true" in refusal.reason) is is_named


# the account


@pytest.mark.parametrize(
    ("target", "iops_left", "phrases"),
    [
        (IO2, None, None),
        (IO2, 4_000, None),
        (IO2, 3_999, ("4,000 IOPS of io2", "100,000", "3,999", "flip.io2_iops_limit")),
        (IO2, -500, ("100,000", "region 0 are left")),
        (IO1, 999, ("1,000 IOPS of io1", "300,000", "999", "flip.io1_iops_limit")),
        (IO1, 1_000, None),
        (GP2, 0, None),
    ],
)
def test_the_remaining_account_quota_must_be_enough(target, iops_left, phrases):
    result = refusals(target=target, iops_left=iops_left, current=GP3)
    assert [refusal.guard for refusal in result] == ([] if phrases is None else [Guard.ACCOUNT_LIMIT])
    assert all(phrase in refusal.reason for refusal in result for phrase in phrases or ())


def test_the_account_limit_is_the_policys():
    [refusal] = refusals(flip_policy(io2_iops_limit=250_000), target=IO2, iops_left=1)
    assert "250,000" in refusal.reason


@pytest.mark.parametrize("now", [GP3, replace(IO2, iops=3_999), GP2])
def test_any_other_number_is_a_change(now):
    assert refusing_guards(current=now, target=IO2) == []


def test_after_a_modification_that_failed_its_own_pause_counts_and_not_the_cooldown():
    just_now = {"used": modification_uses(0.1)}
    waited = GuardCase(reason=(), state=just_now | {"failure_count": 1, "retry_at_s": NOW_S - 1})
    assert refusals_of(waited) == []
    assert [refusal.guard for refusal in refusals_of(GuardCase(reason=(), state=just_now))] == [
        Guard.COOLDOWN
    ]


def test_the_pause_after_a_failure_was_reported_with_the_failure():
    """Only what refuses then is reported: another guard, or a cooldown that has nothing to do with it."""
    failed = {"failure_count": 1, "retry_at_s": NOW_S + 60}
    [pause] = refusals(state=failed)
    assert is_backoff_refusal(a_state(**failed), pause)
    assert not is_backoff_refusal(a_state(**failed), replace(pause, guard=Guard.HELD))
    just_now = {"used": (ModificationUse(at_s=NOW_S - 60, by=WATCHDOG),)}
    [cooldown] = refusals(state=just_now)
    assert not is_backoff_refusal(a_state(**just_now), cooldown)
    assert not is_backoff_refusal(a_state(**just_now, failure_count=1, retry_at_s=NOW_S - 9), cooldown)


def test_of_several_modifications_the_newest_is_the_one_that_counts():
    # at 16:00 yesterday and at 11:54: both rules count from the latter
    known = {"used": modification_uses(20, 0.1)}
    [quota, cooldown] = refusals(flip_policy(quota_rule=QuotaRule.SIX_HOURS), state=known)
    assert (quota.guard, quota.ends_at_s) == (Guard.AWS_QUOTA, at("17:54"))
    assert quota.reason.endswith("the last began 2026-11-20T11:54:00Z by watchdog")
    assert (cooldown.guard, cooldown.ends_at_s) == (Guard.COOLDOWN, at("12:24"))
    assert "began 2026-11-20T11:54:00Z by watchdog" in cooldown.reason


def test_each_guard_has_a_row_on_the_page_of_refusals():
    assert guard_page(Guard.COOLDOWN, "https://example.com/runbooks/") == (
        "https://example.com/runbooks/FlipRefused.md#cooldown"
    )

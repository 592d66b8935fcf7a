from dataclasses import dataclass, field, replace
from itertools import combinations

import pytest

from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.sizing import Wish
from burstwatch.core.flips.guards import (
    OF_AWS,
    Attempt,
    Guard,
    all_spent,
    guard_page,
    is_last_of_the_day,
    is_pause_after_failure,
    refuse,
)
from burstwatch.core.ledger.flip_state import WATCHDOG, Cause, Direction, Hold, Phase, Spent
from burstwatch.core.policy.change_hours import parse_change_hours
from burstwatch.core.policy.policy import FlipPolicy, Mode, ModePolicy, Policy, QuotaRule
from burstwatch.core.policy.volume_tags import read_tags
from conftest import GP2, GP3, IO1, IO2, a_flip, a_modification, a_state, a_volume, a_wishes, at

OUT, BACK = Direction.OUT, Direction.BACK
ANN = "ann"
NOW_S = int(at("12:00"))
HOUR_S = 3_600
DAY_S = 24 * HOUR_S


def an_attempt(*, volume=None, state=None, **changes) -> Attempt:
    """The watchdog wants to send an opted-in gp2 of 100 GiB to gp3 at noon, and nothing speaks against it."""
    facts = {
        "volume": a_volume(**volume or {}),
        "state": a_state(**state or {}),
        "wishes": a_wishes(),
        "direction": OUT,
        "cause": Cause.DRAINING,
        "by": WATCHDOG,
        "target": GP3,
        "now": GP2,
        "now_s": NOW_S,
    }
    return Attempt(**(facts | changes))


def refusals(policy=None, *, overridden=(), **changes):
    return refuse(an_attempt(**changes), policy or Policy(), overridden=overridden)


def refused_by(policy=None, **changes) -> list[Guard]:
    return [refusal.guard for refusal in refusals(policy, **changes)]


def spent(*hours_ago: float, by: str = WATCHDOG) -> tuple[Spent, ...]:
    """Modifications that began so many hours before noon, oldest first."""
    return tuple(Spent(at_s=NOW_S - int(hours * HOUR_S), by=by) for hours in hours_ago)


def a_hold(volume_id="vol-0a1", until="18:00", **changes) -> Hold:
    facts = {"by": ANN, "reason": "release day", "placed_at_s": 0, "until_s": int(at(until))}
    return Hold(volume_id=volume_id, **(facts | changes))


def flip_policy(**settings) -> Policy:
    return Policy(flip=FlipPolicy(**settings))


@dataclass(frozen=True)
class Shown:
    """What speaks against an attempt: the words it is refused with, and the clock at which that ends."""

    says: tuple[str, ...]
    ends: str | None = None
    volume: dict = field(default_factory=dict)
    state: dict = field(default_factory=dict)
    rest: dict = field(default_factory=dict)
    policy: dict = field(default_factory=dict)


# In the order in which they are told. 20 November 2026 is a Friday; noon UTC is one o'clock in Berlin.
ALONE = {
    Guard.NOT_OPTED_IN: Shown(
        says=("propose", "burstwatch:mode=auto"), rest={"wishes": a_wishes(Mode.PROPOSE)}
    ),
    Guard.MANAGED: Shown(says=("ecs",), volume={"managed_by": "ecs"}),
    Guard.SERVICE_OWNED: Shown(
        says=("elasticache",), volume={"managed_by": "elasticache", "instance_id": None}
    ),
    Guard.MULTI_ATTACHED: Shown(says=("Multi-Attach",), volume={"multi_attached": True}),
    Guard.HELD: Shown(says=("ann", "release day"), ends="18:00", rest={"holds": [a_hold()]}),
    Guard.CHANGED_BY_OTHERS: Shown(
        says=("2026-11-20T09:00:00Z", "burstctl release vol-0a1"), state={"contested_at_s": int(at("09:00"))}
    ),
    Guard.DETACHED: Shown(
        says=("is detached", "attach a volume"), volume={"attached": False, "instance_id": None}
    ),
    Guard.MODIFICATION_IN_PROGRESS: Shown(
        says=("optimizing", "42 %"),
        rest={"modification": a_modification(state="optimizing", progress_pct=42)},
    ),
    # Four at 15:00, 16:00 and 17:00 yesterday and at 10:00: the first is 24 h old at 15:00.
    Guard.AWS_QUOTA: Shown(says=("4",), ends="15:00", state={"spent": spent(21, 20, 19, 2)}),
    Guard.COOLDOWN: Shown(
        says=("3 in a row",), ends="12:04", state={"failures": 3, "retry_at_s": int(at("12:04"))}
    ),
    Guard.CHANGE_HOURS: Shown(
        says=("mon-fri 18:00-20:00 Europe/Berlin",),
        ends="17:00",
        policy={"change_hours": parse_change_hours("mon-fri 18:00-20:00 Europe/Berlin")},
    ),
    Guard.NO_CHANGE_NEEDED: Shown(says=("io2 with 4,000 IOPS already",), rest={"now": IO2, "target": IO2}),
    Guard.ACCOUNT_LIMIT: Shown(
        says=("4,000", "100,000", "3,999", "io2_iops_limit"), rest={"target": IO2, "iops_left": 3_999}
    ),
    Guard.TAG_CAP: Shown(
        says=(
            "burstwatch:target=io2",
            "burstwatch:iops=15300",
            "$997.00 a month",
            "flip.tag_cap_usd_per_month is $250.00",
            "us-east-1 list prices",
            "burstctl flip vol-0a1",
        ),
        rest={
            "wishes": a_wishes(target=Wish(volume_type=VolumeType.IO2, iops=15_300)),
            "tags_usd_per_month": 997.0,
        },
    ),
}
BY_OTHER_MEANS = {
    # the plan of an order (test_orders) and the ledger's transaction (test_ledger_intents) see these
    Guard.INSTANCE_IS_BOTTLENECK,
    Guard.NO_TARGET,
    Guard.FLEET_CAP,
    Guard.SPEND_CAP,
    Guard.TYPE_NOT_AVAILABLE,
}


def refusals_of(*shown: Shown, overridden=(), **changes):
    """What an attempt is refused with against which all of this speaks; the first named wins."""
    volume, state, rest, policy = {}, {}, {}, {}
    for one in reversed(shown):
        volume |= one.volume
        state |= one.state
        rest |= one.rest
        policy |= one.policy
    given = {"volume": volume, "state": state} | rest | changes
    return refusals(flip_policy(**policy), overridden=overridden, **given)


# each of them


def test_nothing_speaks_against_a_first_flip_of_an_opted_in_volume():
    assert refusals() == []


def test_every_guard_is_told_of_here_or_known_to_be_elsewhere():
    assert ALONE.keys() | BY_OTHER_MEANS == set(Guard)
    assert not ALONE.keys() & BY_OTHER_MEANS


@pytest.mark.parametrize(("guard", "shown"), ALONE.items())
def test_every_guard_refuses_alone_and_says_why_and_until_when(guard, shown):
    [refusal] = refusals_of(shown)
    assert refusal.guard is guard
    assert refusal.ends_at_s == (None if shown.ends is None else at(shown.ends))
    assert [words for words in shown.says if words not in refusal.reason] == []


NEVER_BOTH = {(Guard.MANAGED, Guard.SERVICE_OWNED), (Guard.SERVICE_OWNED, Guard.DETACHED)}
"""A volume has one owner, and a service owns what it has attached."""

TOGETHER = [pair for pair in combinations(ALONE, 2) if pair not in NEVER_BOTH]


@pytest.mark.parametrize(("first", "second"), TOGETHER)
def test_of_two_that_refuse_the_more_fundamental_is_told_first(first, second):
    told = [refusal.guard for refusal in refusals_of(ALONE[first], ALONE[second])]
    assert told == [first, second]


def test_a_refusal_reads_as_guard_reason_and_end():
    [held] = refusals(holds=[a_hold()])
    assert str(held).startswith("held: ")
    assert str(held).endswith(", until 2026-11-20T18:00:00Z")
    [untold] = refusals(volume={"multi_attached": True})
    assert "until" not in str(untold)


# overriding


@pytest.mark.parametrize(("guard", "shown"), ALONE.items())
def test_a_guard_is_overridden_by_its_name_unless_it_is_awss(guard, shown):
    assert bool(refusals_of(shown, overridden={guard})) is (guard in OF_AWS)
    others = set(Guard) - {guard}
    assert [refusal.guard for refusal in refusals_of(shown, overridden=others)] == [guard]


def test_awss_own_rules_are_these():
    ours = {Guard.NOT_OPTED_IN, Guard.HELD, Guard.CHANGED_BY_OTHERS, Guard.COOLDOWN, Guard.CHANGE_HOURS}
    ours |= {Guard.INSTANCE_IS_BOTTLENECK, Guard.NO_CHANGE_NEEDED, Guard.FLEET_CAP, Guard.SPEND_CAP}
    ours |= {Guard.DETACHED, Guard.TAG_CAP, Guard.TYPE_NOT_AVAILABLE}
    assert set(Guard) - ours == OF_AWS


def test_who_overrides_everything_is_still_told_every_rule_of_awss():
    one_of_each = [shown for guard, shown in ALONE.items() if guard is not Guard.SERVICE_OWNED]
    told = [refusal.guard for refusal in refusals_of(*one_of_each, overridden=set(Guard))]
    assert told == [guard for guard in ALONE if guard in OF_AWS and guard is not Guard.SERVICE_OWNED]


# people


@pytest.mark.parametrize(("guard", "shown"), ALONE.items())
def test_what_holds_for_the_watchdog_alone_does_not_stop_a_person(guard, shown):
    passes = {Guard.NOT_OPTED_IN, Guard.CHANGED_BY_OTHERS, Guard.CHANGE_HOURS, Guard.COOLDOWN}
    passes |= {Guard.DETACHED, Guard.TAG_CAP}
    assert bool(refusals_of(shown, by=ANN)) is (guard not in passes)


# opt-in

OPT_IN = ModePolicy(opt_in_tag=("team:flips", "yes"))
NO_FLIPS = ModePolicy(highest=Mode.PROPOSE)


@pytest.mark.parametrize(
    ("tags", "mode_policy", "says"),
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
def test_only_tag_and_policy_together_let_the_watchdog_modify(tags, mode_policy, says, direction):
    wishes = read_tags(tags, mode_policy)
    found = refusals(Policy(mode=mode_policy), wishes=wishes, direction=direction)
    assert [refusal.guard for refusal in found] == ([] if says is None else [Guard.NOT_OPTED_IN])
    assert all(says in refusal.reason for refusal in found)


BY_HAND_BACK = {"direction": BACK, "cause": Cause.BY_HAND, "now": GP3, "target": GP2}


@pytest.mark.parametrize("mode", Mode)
def test_what_a_person_sent_out_for_a_time_comes_back_without_a_tag(mode):
    assert refused_by(wishes=a_wishes(mode), **BY_HAND_BACK) == []


@pytest.mark.parametrize("highest", [Mode.PROPOSE, Mode.OBSERVE])
@pytest.mark.parametrize("mode", [Mode.PROPOSE, Mode.OBSERVE])
def test_what_stops_every_flip_stops_the_return_of_what_a_person_sent_out_as_well(highest, mode):
    stopped = Policy(mode=ModePolicy(default=Mode.OBSERVE, highest=highest))
    [refusal] = refusals(stopped, wishes=a_wishes(mode), **BY_HAND_BACK)
    assert refusal.guard is Guard.NOT_OPTED_IN
    assert f"mode.highest is {highest}" in refusal.reason
    assert refused_by(stopped, wishes=a_wishes(mode), by=ANN, **BY_HAND_BACK) == []


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("sent", [{}, BY_HAND_BACK])
def test_what_nobody_watches_is_not_modified_automatically(mode, sent):
    wishes = replace(a_wishes(mode), is_ignored=True)
    [refusal] = refusals(wishes=wishes, **sent)
    assert (refusal.guard, refusal.ends_at_s) == (Guard.NOT_OPTED_IN, None)
    assert "burstwatch:ignore" in refusal.reason
    assert refused_by(wishes=wishes, by=ANN, **sent) == []


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause is not Cause.BY_HAND])
def test_what_the_watchdog_sent_out_needs_the_tag_to_come_back(cause):
    assert refused_by(wishes=a_wishes(Mode.PROPOSE), direction=BACK, cause=cause) == [Guard.NOT_OPTED_IN]


# whose volume it is


@pytest.mark.parametrize(
    ("volume", "guard"),
    [
        ({"managed_by": "ecs"}, Guard.MANAGED),
        ({"managed_by": "ecs", "instance_id": None}, Guard.SERVICE_OWNED),
        ({"managed_by": "ecs", "instance_id": None, "attached": False}, Guard.MANAGED),
        # attached to no instance of ours, but nobody's: AWS says who may not
        ({"instance_id": None}, None),
        ({"instance_id": None, "attached": False}, None),
    ],
)
def test_a_managed_volume_that_no_instance_of_ours_holds_is_a_services(volume, guard):
    assert refused_by(volume=volume, by=ANN) == ([guard] if guard else [])


# attachment


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("cause", Cause)
def test_a_detached_volume_is_never_changed_automatically(direction, cause):
    """Neither out nor back, whether it drains, is critical or in a window, or was sent out for a time."""
    detached = {"volume": {"attached": False, "instance_id": None}, "direction": direction, "cause": cause}
    assert refused_by(**detached) == [Guard.DETACHED]
    assert refused_by(**detached, by=ANN) == []


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
@pytest.mark.parametrize("by", [WATCHDOG, ANN])
def test_a_hold_keeps_its_volume_or_everything_until_it_ends(holds, ends, by):
    found = refusals(holds=holds, by=by)
    assert [refusal.guard for refusal in found] == ([] if ends is None else [Guard.HELD])
    assert [refusal.ends_at_s for refusal in found] == ([] if ends is None else [at(ends)])


def test_a_hold_on_everything_says_so():
    [one] = refusals(holds=[a_hold()])
    [everything] = refusals(holds=[a_hold(volume_id=None)])
    assert [("everything" in refusal.reason) for refusal in (one, everything)] == [False, True]


# modifications under way


@pytest.mark.parametrize("state", ["modifying", "optimizing", "pondering"])
def test_a_modification_of_anybodys_must_be_over(state):
    [refusal] = refusals(modification=a_modification(state=state))
    assert (refusal.guard, refusal.ends_at_s) == (Guard.MODIFICATION_IN_PROGRESS, None)
    assert state in refusal.reason
    assert "%" not in refusal.reason


@pytest.mark.parametrize("state", ["completed", "failed"])
def test_a_modification_that_is_over_is_none_in_progress(state):
    assert refused_by(modification=a_modification(state=state)) == []


@pytest.mark.parametrize("phase", [Phase.ASKED, Phase.CHANGING])
def test_what_was_asked_for_must_be_settled_first(phase):
    flip = a_flip(phase=phase, by=ANN)
    [refusal] = refusals(state={"flip": flip}, modification=a_modification())
    assert refusal.guard is Guard.MODIFICATION_IN_PROGRESS
    for words in ("ann", "gp3 with 3,000 IOPS", "2026-11-20T10:00:00Z"):
        assert words in refusal.reason


def test_a_volume_that_is_on_its_target_may_be_sent_on():
    assert refused_by(state={"flip": a_flip()}, now=GP3, target=IO2) == []


# the quota


@pytest.mark.parametrize(
    ("ledger", "newest", "counted"),
    [
        ((), None, []),
        (spent(3, 2), None, [WATCHDOG, WATCHDOG]),
        # AWS's newest is the one of the ledger: they tell its start within 5 s of each other.
        (spent(3, 2), "10:00:00", [WATCHDOG, WATCHDOG]),
        (spent(3, 2), "10:00:05", [WATCHDOG, WATCHDOG]),
        (spent(3, 2), "09:59:55", [WATCHDOG, WATCHDOG]),
        # or it is not, and somebody else's
        (spent(3, 2), "10:00:06", [WATCHDOG, WATCHDOG, "others"]),
        (spent(3, 2), "09:30", [WATCHDOG, "others", WATCHDOG]),
        ((), "10:00", ["others"]),
        # Only the last 24 h count: what began at noon yesterday counts no more.
        (spent(24, 23.999), None, [WATCHDOG]),
        ((), at("12:00") - DAY_S, []),
        ((), at("12:00") - DAY_S + 1, ["others"]),
        # A clock that was ahead: it counts.
        (spent(-1), None, [WATCHDOG]),
    ],
)
def test_what_is_used_up_is_counted_from_the_ledger_and_awss_newest_record_once(ledger, newest, counted):
    record = None if newest is None else a_modification(started=newest)
    found = all_spent(a_state(spent=ledger), record, NOW_S)
    assert [one.by for one in found] == counted
    assert list(found) == sorted(found, key=lambda one: one.at_s)


def test_a_record_of_awss_without_a_start_counts_nothing():
    assert all_spent(a_state(), a_modification(started=None), NOW_S) == ()


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
@pytest.mark.parametrize("by_whom", [WATCHDOG, "others", ANN])
def test_aws_allows_four_in_any_24_hours_and_the_last_is_left_to_people(
    hours_ago, watchdog_ends, ann_ends, by_whom
):
    # The way back: its cooldown is none of this test's business.
    state = {"spent": spent(*hours_ago, by=by_whom)}
    for by, ends in ((WATCHDOG, watchdog_ends), (ANN, ann_ends)):
        found = refusals(state=state, by=by, direction=BACK)
        assert [refusal.guard for refusal in found] == ([] if ends is None else [Guard.AWS_QUOTA])
        assert [refusal.ends_at_s for refusal in found] == ([] if ends is None else [at(ends)])


@pytest.mark.parametrize(
    ("hours_ago", "target", "direction", "by", "ends"),
    [
        # Two are used: the third is the last that is left to the watchdog, and only gp3 may stay for good.
        ((20, 10), IO2, OUT, WATCHDOG, "16:00"),
        ((20, 10), IO1, OUT, WATCHDOG, "16:00"),
        ((20, 10), GP3, OUT, WATCHDOG, None),
        ((20, 10), GP2, BACK, WATCHDOG, None),
        ((20, 10), IO2, OUT, ANN, None),
        ((10,), IO2, OUT, WATCHDOG, None),
        ((24, 10), IO2, OUT, WATCHDOG, None),
        ((23, 20, 10), GP3, OUT, WATCHDOG, "13:00"),
        ((23, 20, 10), GP3, OUT, ANN, None),
    ],
)
def test_the_third_way_out_of_a_day_is_to_gp3_or_waits(hours_ago, target, direction, by, ends):
    given = {"target": target, "now": GP2 if direction is OUT else GP3, "direction": direction, "by": by}
    found = refusals(state={"spent": spent(*hours_ago)}, **given)
    assert [refusal.guard for refusal in found] == ([] if ends is None else [Guard.AWS_QUOTA])
    assert [refusal.ends_at_s for refusal in found] == ([] if ends is None else [at(ends)])


@pytest.mark.parametrize(
    ("hours_ago", "by", "is_last"),
    [
        ((), WATCHDOG, False),
        ((1,), WATCHDOG, False),
        ((2, 1), WATCHDOG, True),
        ((3, 2, 1), WATCHDOG, True),
        ((3, 2, 1), ANN, False),
    ],
)
def test_the_watchdogs_last_of_the_day_is_its_third(hours_ago, by, is_last):
    assert is_last_of_the_day(an_attempt(state={"spent": spent(*hours_ago)}, by=by)) is is_last


@pytest.mark.parametrize(
    ("clock", "ends"), [("06:00:01", "12:00:01"), ("06:00", None), ("11:59", "17:59"), ("05:00", None)]
)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("by", [WATCHDOG, ANN])
def test_the_older_rule_wants_six_hours_between_any_two(clock, ends, direction, by):
    state = {"spent": (Spent(at_s=int(at(clock)), by="others"),)}
    policy = flip_policy(quota_rule=QuotaRule.SIX_HOURS)
    quota = [
        r for r in refusals(policy, state=state, direction=direction, by=by) if r.guard is Guard.AWS_QUOTA
    ]
    assert [refusal.ends_at_s for refusal in quota] == ([] if ends is None else [at(ends)])


def test_the_older_rule_counts_four_a_day_all_the_same():
    policy = flip_policy(quota_rule=QuotaRule.SIX_HOURS)
    [refusal] = refusals(policy, state={"spent": spent(23, 17, 11.5, 6)}, by=ANN)
    assert (refusal.guard, refusal.ends_at_s) == (Guard.AWS_QUOTA, at("13:00"))


def test_the_third_way_out_of_a_day_is_refused_by_its_number():
    [refusal] = refusals(state={"spent": spent(20, 10)}, target=IO2)
    assert "modification 3" in refusal.reason
    assert "io2" in refusal.reason


# our own patience


@pytest.mark.parametrize(
    ("began", "ends"), [("11:30", None), ("11:30:01", "12:00:01"), ("11:59", "12:29"), ("12:00", "12:30")]
)
@pytest.mark.parametrize("by_whom", [WATCHDOG, ANN, "others"])
def test_between_two_modifications_the_policy_waits_half_an_hour(began, ends, by_whom):
    state = {"spent": (Spent(at_s=int(at(began)), by=by_whom),)}
    found = refusals(state=state)
    assert [refusal.guard for refusal in found] == ([] if ends is None else [Guard.COOLDOWN])
    assert [refusal.ends_at_s for refusal in found] == ([] if ends is None else [at(ends)])
    assert all(by_whom in refusal.reason for refusal in found)


def test_a_modification_that_only_aws_knows_of_starts_the_cooldown_too():
    [refusal] = refusals(modification=a_modification(started="11:45"))
    assert (refusal.guard, refusal.ends_at_s) == (Guard.COOLDOWN, at("12:15"))


def test_the_way_back_knows_no_cooldown():
    assert refused_by(state={"spent": spent(0.1)}, direction=BACK) == []


@pytest.mark.parametrize(("retry", "ends"), [("11:59", None), ("12:00", None), ("12:00:01", "12:00:01")])
@pytest.mark.parametrize("direction", Direction)
def test_after_a_failure_the_watchdog_waits_in_both_directions(retry, ends, direction):
    found = refusals(state={"failures": 1, "retry_at_s": int(at(retry))}, direction=direction)
    assert [refusal.guard for refusal in found] == ([] if ends is None else [Guard.COOLDOWN])
    assert [refusal.ends_at_s for refusal in found] == ([] if ends is None else [at(ends)])


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
@pytest.mark.parametrize("cause", [Cause.DRAINING, Cause.CRITICAL])
def test_change_hours_go_by_the_clocks_of_their_zone(day_offset, clock, ends, cause):
    found = refusals(OFFICE, now_s=at(clock) + day_offset * DAY_S, cause=cause)
    assert [refusal.guard for refusal in found] == ([] if ends is None else [Guard.CHANGE_HOURS])
    assert [r.ends_at_s for r in found] == ([] if ends is None else [at(ends[1]) + ends[0] * DAY_S])


@pytest.mark.parametrize("cause", [Cause.WINDOW, Cause.BY_HAND])
@pytest.mark.parametrize("direction", Direction)
def test_windows_and_people_have_chosen_their_hours_themselves(cause, direction):
    assert refused_by(OFFICE, now_s=at("22:00"), cause=cause, direction=direction) == []


@pytest.mark.parametrize("cause", [Cause.DRAINING, Cause.CRITICAL])
def test_change_hours_hold_for_the_way_back_as_well(cause):
    assert refused_by(OFFICE, now_s=at("22:00"), cause=cause, direction=BACK) == [Guard.CHANGE_HOURS]


# the account


@pytest.mark.parametrize(
    ("target", "iops_left", "says"),
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
def test_what_the_account_has_left_must_be_enough(target, iops_left, says):
    found = refusals(target=target, iops_left=iops_left, now=GP3)
    assert [refusal.guard for refusal in found] == ([] if says is None else [Guard.ACCOUNT_LIMIT])
    assert all(words in refusal.reason for refusal in found for words in says or ())


def test_the_account_limit_is_the_policys():
    [refusal] = refusals(flip_policy(io2_iops_limit=250_000), target=IO2, iops_left=1)
    assert "250,000" in refusal.reason


@pytest.mark.parametrize("now", [GP3, replace(IO2, iops=3_999), GP2])
def test_any_other_number_is_a_change(now):
    assert refused_by(now=now, target=IO2) == []


def test_after_a_modification_that_failed_its_own_pause_counts_and_not_the_cooldown():
    just_now = {"spent": spent(0.1)}
    waited = Shown(says=(), state=just_now | {"failures": 1, "retry_at_s": NOW_S - 1})
    assert refusals_of(waited) == []
    assert [refusal.guard for refusal in refusals_of(Shown(says=(), state=just_now))] == [Guard.COOLDOWN]


def test_the_pause_after_a_failure_was_told_with_the_failure():
    """Alone what refuses then is told: another guard, or a cooldown that has nothing to do with it."""
    failed = {"failures": 1, "retry_at_s": NOW_S + 60}
    [pause] = refusals(state=failed)
    assert is_pause_after_failure(a_state(**failed), pause)
    assert not is_pause_after_failure(a_state(**failed), replace(pause, guard=Guard.HELD))
    just_now = {"spent": (Spent(at_s=NOW_S - 60, by=WATCHDOG),)}
    [cooldown] = refusals(state=just_now)
    assert not is_pause_after_failure(a_state(**just_now), cooldown)
    assert not is_pause_after_failure(a_state(**just_now, failures=1, retry_at_s=NOW_S - 9), cooldown)


def test_of_several_modifications_the_newest_is_the_one_that_counts():
    # at 16:00 yesterday and at 11:54: both rules count from the latter
    known = {"spent": spent(20, 0.1)}
    [quota, cooldown] = refusals(flip_policy(quota_rule=QuotaRule.SIX_HOURS), state=known)
    assert (quota.guard, quota.ends_at_s) == (Guard.AWS_QUOTA, at("17:54"))
    assert quota.reason.endswith("the last began 2026-11-20T11:54:00Z by watchdog")
    assert (cooldown.guard, cooldown.ends_at_s) == (Guard.COOLDOWN, at("12:24"))
    assert "began 2026-11-20T11:54:00Z by watchdog" in cooldown.reason


def test_each_guard_has_a_row_on_the_page_of_refusals():
    assert guard_page(Guard.COOLDOWN, "https://example.com/runbooks/") == (
        "https://example.com/runbooks/FlipRefused.md#cooldown"
    )

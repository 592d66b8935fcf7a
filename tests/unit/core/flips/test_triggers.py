from datetime import timedelta

import pytest

from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.demand import Demand
from burstwatch.core.ebs.pricing import US_EAST_1, VolumeType
from burstwatch.core.ebs.sizing import ReturnMode, TargetOverride, choose_target
from burstwatch.core.ebs.volume import can_burst
from burstwatch.core.flips.flip_trigger import (
    ActRule,
    FlipTrigger,
    choose_act_rule,
    describe_windows,
    flip_trigger,
)
from burstwatch.core.flips.return_trigger import not_calm_reason, return_trigger
from burstwatch.core.ledger.flip_state import Direction, FlipCause, FlipStatus
from burstwatch.core.policy.policy import ActAt, FlipBackPolicy, FlipPolicy, Mode, Policy
from burstwatch.core.policy.windows import UNTIL_STOPPED, Occurrence, TimeInterval, WindowPhase, WindowState
from support.builders.core_values import (
    GP3,
    NOON,
    a_flip,
    a_volume,
    a_volume_as,
    a_window_state,
    an_assessment,
    at,
    volume_settings,
)

NOW_S = at("12:00")
BACK_POLICY = FlipBackPolicy()

# the way out


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({}, True),
        ({"size_gib": 999}, True),
        # 3 x 1,000 are the 3,000 of the burst: it has no bucket to empty.
        ({"size_gib": 1_000}, False),
        ({"volume_type": "gp3"}, False),
        ({"volume_type": "io1"}, False),
        ({"attached": False, "instance_id": None}, True),
    ],
)
def test_only_a_gp2_below_a_thousand_gib_needs_burst_credits(volume, expected):
    assert can_burst(a_volume(**volume)) is expected


def flip_trigger_for(
    level=Level.OK, windows=None, act_at=Level.CRITICAL, volume=None, *, refills=False, **settings
):
    return flip_trigger(
        volume or a_volume(),
        level,
        volume_settings(**settings),
        windows,
        level_reason="18 % left",
        act_at=act_at,
        is_refilling=refills,
    )


@pytest.mark.parametrize(
    ("level", "act_at", "expected"),
    [
        (Level.UNKNOWN, Level.CRITICAL, False),
        (Level.OK, Level.CRITICAL, False),
        (Level.WATCH, Level.CRITICAL, False),
        (Level.WARNING, Level.CRITICAL, False),
        (Level.CRITICAL, Level.CRITICAL, True),
        (Level.EXHAUSTED, Level.CRITICAL, True),
        (Level.UNKNOWN, Level.WARNING, False),
        (Level.WATCH, Level.WARNING, False),
        (Level.CRITICAL, Level.WARNING, True),
    ],
)
def test_a_draining_volume_should_be_flipped_from_the_level_to_act_at(level, act_at, expected):
    want = flip_trigger_for(level, act_at=act_at)
    reported = FlipTrigger(direction=Direction.FLIP, cause=FlipCause.DRAINING, reason=f"{level}: 18 % left")
    assert want == (reported if expected else None)


def test_a_flip_at_warning_is_early_and_names_the_setting():
    assert flip_trigger_for(Level.WARNING, act_at=Level.WARNING) == FlipTrigger(
        direction=Direction.FLIP,
        cause=FlipCause.DRAINING,
        reason="warning: 18 % left; flips at warning by flip.act_at",
        is_early=True,
    )


def test_a_tag_and_a_window_come_before_a_drain_that_is_not_yet_critical():
    """What they ask for does not wait, so its refusal is reported at once."""
    tagged = flip_trigger_for(Level.WARNING, act_at=Level.WARNING, is_critical=True)
    in_window = flip_trigger_for(Level.WARNING, a_window_state(), act_at=Level.WARNING)
    assert (tagged.cause, tagged.is_early) == (FlipCause.CRITICAL, False)
    assert (in_window.cause, in_window.is_early) == (FlipCause.WINDOW, False)


# the level to act at


def a_choice(kind=VolumeType.GP3, size_gib=100, override=None, **demand):
    override = override or TargetOverride(volume_type=kind)
    return choose_target(a_volume(size_gib=size_gib), Demand(**demand), override, US_EAST_1)


def trigger_rule(choice, act_at=ActAt.AUTO, returns=ReturnMode.AUTO):
    policy = Policy(flip=FlipPolicy(act_at=act_at), flip_back=FlipBackPolicy(returns=returns))
    return choose_act_rule(choice, policy)


def test_a_change_that_stays_and_costs_no_more_is_made_at_warning():
    rule = trigger_rule(a_choice(peak_iops=900))
    assert rule == ActRule(level=Level.WARNING, reason="gp3 stays and costs no more than gp2")
    assert str(rule) == "flips at warning: gp3 stays and costs no more than gp2"
    assert trigger_rule(a_choice(peak_iops=900), returns=ReturnMode.NEVER).level is Level.WARNING


@pytest.mark.parametrize(
    ("choice", "returns", "reason"),
    [
        # 3,750 IOPS for what was held back at 3,000 are $3.75 a month beyond $8, gp2 is $10
        (a_choice(peak_iops=3_000, is_throttled=True), ReturnMode.AUTO, "gp3 costs more than gp2"),
        (a_choice(peak_iops=3_000, is_throttled=True), ReturnMode.NEVER, "gp3 costs more than gp2"),
        # the throughput of a gp2 of 200 GiB, 250 MiB/s, costs more than the gigabytes save
        (a_choice(size_gib=200), ReturnMode.AUTO, "gp3 costs more than gp2"),
        (a_choice(override=TargetOverride(iops=6_000)), ReturnMode.AUTO, "gp3 costs more than gp2"),
        (a_choice(peak_iops=900), ReturnMode.ALWAYS, "gp3 returns to gp2 when calm"),
        (a_choice(VolumeType.IO1), ReturnMode.AUTO, "io1 costs more than gp2"),
        (a_choice(VolumeType.IO2), ReturnMode.NEVER, "io2 costs more than gp2"),
        (None, ReturnMode.AUTO, "its target is not known yet"),
    ],
)
def test_any_other_change_waits_until_the_drain_is_critical(choice, returns, reason):
    assert trigger_rule(choice, returns=returns) == ActRule(level=Level.CRITICAL, reason=reason)


@pytest.mark.parametrize("choice", [a_choice(peak_iops=900), a_choice(VolumeType.IO1), None])
@pytest.mark.parametrize("act_at", [ActAt.CRITICAL, ActAt.WARNING])
def test_a_level_that_the_policy_names_holds_whatever_the_change_costs(act_at, choice):
    assert trigger_rule(choice, act_at) == ActRule(level=Level(act_at), reason=f"flip.act_at is {act_at}")


@pytest.mark.parametrize("level", [Level.WARNING, Level.CRITICAL, Level.EXHAUSTED])
def test_a_refilling_volume_is_flipped_only_for_other_triggers(level):
    assert flip_trigger_for(level, refills=True, act_at=Level.WARNING) is None
    assert flip_trigger_for(level, refills=True, is_critical=True).cause is FlipCause.CRITICAL
    assert flip_trigger_for(level, a_window_state(), refills=True).cause is FlipCause.WINDOW


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        (WindowPhase.OUTSIDE, False),
        (WindowPhase.LEADING, True),
        (WindowPhase.INSIDE, True),
        (WindowPhase.BETWEEN, False),
        (WindowPhase.OVER, False),
    ],
)
def test_a_window_triggers_flips_while_running_and_just_before(phase, expected):
    want = flip_trigger_for(windows=a_window_state(phase))
    assert (want is not None) is expected
    assert want is None or (want.cause, want.direction) == (FlipCause.WINDOW, Direction.FLIP)


@pytest.mark.parametrize("level", Level)
def test_a_new_critical_volume_is_flipped_at_once(level):
    want = flip_trigger_for(level, is_critical=True)
    cause = FlipCause.DRAINING if level in (Level.CRITICAL, Level.EXHAUSTED) else FlipCause.CRITICAL
    assert (want.cause, want.direction) == (cause, Direction.FLIP)


@pytest.mark.parametrize(
    ("level", "is_critical", "cause"),
    [
        # only a volume that drains may use the reserved share of the caps, whatever its tags
        (Level.CRITICAL, True, FlipCause.DRAINING),
        (Level.CRITICAL, False, FlipCause.DRAINING),
        (Level.OK, True, FlipCause.CRITICAL),
        (Level.OK, False, FlipCause.WINDOW),
    ],
)
def test_of_several_causes_the_most_urgent_is_reported(level, is_critical, cause):
    assert flip_trigger_for(level, a_window_state(), is_critical=is_critical).cause is cause


@pytest.mark.parametrize("volume", [a_volume(1_000), a_volume_as(GP3), a_volume(volume_type="st1")])
def test_a_volume_without_burst_credits_has_no_trigger(volume):
    assert flip_trigger_for(Level.CRITICAL, a_window_state(), volume=volume, is_critical=True) is None


@pytest.mark.parametrize("mode", Mode)
def test_the_trigger_does_not_depend_on_the_mode(mode):
    assert flip_trigger_for(Level.CRITICAL, mode=mode) is not None


# windows in words


def an_occurrence(window, end_at=NOON + timedelta(hours=2)):
    return Occurrence(window=window, interval=TimeInterval(NOON - timedelta(hours=1), end_at))


@pytest.mark.parametrize(
    ("windows", "phrase"),
    [
        (a_window_state(), "release runs to 2026-11-20T14:00:00Z"),
        (
            a_window_state(WindowPhase.LEADING, "12:30", "14:00"),
            "release starts 2026-11-20T12:30:00Z",
        ),
        (
            WindowState(
                phase=WindowPhase.INSIDE,
                running=(
                    an_occurrence("nightly"),
                    an_occurrence("release", NOON + timedelta(hours=3)),
                    an_occurrence("nightly"),
                ),
            ),
            "nightly, release runs to 2026-11-20T15:00:00Z",
        ),
        (
            WindowState(phase=WindowPhase.INSIDE, running=(an_occurrence("release", UNTIL_STOPPED),)),
            "release runs until it is stopped",
        ),
    ],
)
def test_a_window_is_named_with_its_start_or_its_end(windows, phrase):
    assert phrase in describe_windows(windows)


# calm: a 100 GiB gp2 earns 300 IOPS, half of it are 150


def served_operations(*iops: float, newest: str = "11:58") -> dict:
    """Operations in one-minute steps up to the newest, half of them reads; None leaves the minute out."""
    newest_s = int(at(newest))
    pairs = [
        (newest_s - 60 * back, 30 * value) for back, value in enumerate(reversed(iops)) if value is not None
    ]
    return {"read_ops": Series.from_pairs(pairs), "write_ops": Series.from_pairs(pairs)}


def a_flipped_volume(**evidence):
    """What is known of the volume on its target: no balance, and what it serves."""
    volume = evidence.pop("volume", None) or a_volume_as(GP3)
    return an_assessment(Series(), volume=volume, **evidence)


def is_calm(assessment, **settings) -> bool:
    policy = FlipBackPolicy(**settings)
    return not_calm_reason(assessment, policy, now_s=NOW_S) is None


CALM = [149.0] * 30


@pytest.mark.parametrize(
    ("iops", "expected"),
    [
        ([0.0] * 30, True),
        (CALM, True),
        ([150.0] * 30, False),
        # one minute is enough, the first and the last of the half hour as well
        ([*CALM[1:], 150.0], False),
        ([150.0, *CALM[1:]], False),
        # but not one before it
        ([3_000.0, *CALM], True),
        # of the thirty minutes fifteen must be known
        (CALM[:15], True),
        (CALM[:14], False),
        ([149.0, None] * 15, True),
        ([149.0, None, None] * 10, False),
        ([], False),
    ],
)
def test_calm_is_every_known_minute_of_half_an_hour_below_half_the_baseline(iops, expected):
    assert is_calm(a_flipped_volume(**served_operations(*iops))) is expected


@pytest.mark.parametrize(
    ("size_gib", "calm_below_pct", "iops", "expected"),
    [
        (100, 50, 149.9, True),
        (100, 50, 150, False),
        # 8 GiB earn 100, 999 GiB 2,997
        (8, 50, 49.9, True),
        (8, 50, 50, False),
        (999, 50, 1_498, True),
        (999, 50, 1_499, False),
        (100, 10, 29, True),
        (100, 10, 30, False),
        (100, 100, 299, True),
    ],
)
def test_the_limit_is_a_share_of_what_the_gp2_would_earn(size_gib, calm_below_pct, iops, expected):
    assessment = a_flipped_volume(volume=a_volume_as(GP3, size_gib), **served_operations(*[iops] * 30))
    assert is_calm(assessment, calm_below_pct=calm_below_pct) is expected


@pytest.mark.parametrize(("newest", "expected"), [("11:58", True), ("11:49", True), ("11:48", False)])
def test_operations_of_more_than_ten_minutes_ago_are_ignored(newest, expected):
    # The minute of 11:49 ended at 11:50.
    assert is_calm(a_flipped_volume(**served_operations(*CALM, newest=newest))) is expected


@pytest.mark.parametrize("known", ["read_ops", "write_ops"])
def test_half_of_what_is_served_is_not_enough_to_call_it_calm(known):
    assert not is_calm(a_flipped_volume(**{known: served_operations(*CALM)[known]}))


def test_the_policy_sets_for_how_long_it_must_be_calm():
    busy_before = served_operations(*[3_000.0] * 30, *[0.0] * 5)
    assert is_calm(a_flipped_volume(**busy_before), calm_for=timedelta(minutes=5))
    assert not is_calm(a_flipped_volume(**busy_before), calm_for=timedelta(minutes=6))


DETACHED = {"volume": a_volume_as(GP3, attached=False, instance_id=None)}
UNUSED = pytest.mark.parametrize(
    "evidence",
    [
        DETACHED,
        *({"instance_state": state} for state in ("stopping", "stopped", "shutting-down", "terminated")),
    ],
)


@UNUSED
@pytest.mark.parametrize(
    ("since", "expected"), [(None, False), ("11:59", False), ("11:30:01", False), ("11:30", True)]
)
def test_a_volume_that_no_running_instance_has_is_calm_after_half_an_hour_of_it(evidence, since, expected):
    assert is_calm(a_flipped_volume(**evidence, unused_since_s=since and int(at(since)))) is expected


@UNUSED
def test_it_is_not_calm_if_it_was_busy_in_that_time_between_polls(evidence):
    """Detached or stopped at 11:10, in use again from 11:36 to 11:40, and again not when looked at."""
    used = {**evidence, "unused_since_s": int(at("11:10"))}
    assert not is_calm(a_flipped_volume(**used, **served_operations(0.0, 0.0, 3_000.0, newest="11:39")))
    assert is_calm(a_flipped_volume(**used, **served_operations(0.0, 0.0, 149.0, newest="11:39")))
    assert is_calm(a_flipped_volume(**used, **served_operations(3_000.0, newest="11:29")))


@pytest.mark.parametrize(
    ("evidence", "phrase"),
    [(DETACHED, "it is detached"), ({"instance_state": "stopped"}, "its instance is stopped")],
)
def test_an_unused_volume_waiting_for_calm_shows_since_when_and_how_long(evidence, phrase):
    assessment = a_flipped_volume(**evidence, unused_since_s=int(at("11:45")))
    text = not_calm_reason(assessment, FlipBackPolicy(calm_for=timedelta(minutes=20)), now_s=NOW_S)
    assert text == (
        f"waits for calm: {phrase}, first seen 2026-11-20T11:45:00Z, and that counts as calm after 20 min"
    )


@pytest.mark.parametrize("state", ["running", "pending", None])
def test_a_running_instance_without_datapoints_is_not_calm(state):
    assert not is_calm(a_flipped_volume(instance_state=state))


def test_reasons_against_calm_have_their_numbers():
    text = not_calm_reason(a_flipped_volume(**served_operations(*CALM, 1_234.0)), BACK_POLICY, now_s=NOW_S)
    assert "1,234 IOPS" in text
    assert "150" in text
    assert "50 %" in text
    text = not_calm_reason(a_flipped_volume(**served_operations(*CALM[:14])), BACK_POLICY, now_s=NOW_S)
    assert "14 of 30" in text


# the way back


def return_trigger_for(flip=None, windows=None, *, assessment=None, now="12:00", **settings):
    """The want to bring a calm volume back, or what it waits for."""
    assessment = assessment or a_flipped_volume(**served_operations(*CALM))
    policy = Policy(flip_back=FlipBackPolicy(**settings))
    return return_trigger(flip or a_flip(), assessment, windows, policy=policy, now_s=at(now))


@pytest.mark.parametrize("cause", FlipCause)
def test_a_calm_volume_gets_a_return_trigger_with_its_cause(cause):
    want = return_trigger_for(a_flip(cause=cause))
    assert (want.direction, want.cause) == (Direction.FLIP_BACK, cause)
    assert "30 min" in want.reason


@pytest.mark.parametrize("phase", [FlipStatus.REQUESTED, FlipStatus.IN_PROGRESS])
def test_a_volume_in_modification_waits_for_its_arrival(phase):
    assert str(GP3) in return_trigger_for(a_flip(status=phase))


def test_a_permanent_flip_gets_no_return_trigger():
    assert return_trigger_for(a_flip(is_permanent=True)) == f"stays {GP3}"


@pytest.mark.parametrize(
    ("reached", "expected"), [("11:00:01", False), ("11:00", True), ("10:30", True), (None, True)]
)
def test_a_volume_stays_at_least_an_hour(reached, expected):
    # If no one saw it arrive, the hour counts from its request: 10:00.
    flip = a_flip(reached_at_s=None if reached is None else int(at(reached)))
    assert isinstance(return_trigger_for(flip), FlipTrigger) is expected


def test_the_least_stay_is_the_policys():
    assert isinstance(return_trigger_for(dwell=timedelta(hours=1, minutes=30)), FlipTrigger)
    assert "31 min" not in return_trigger_for(dwell=timedelta(hours=1, minutes=31))
    assert "91 min" in return_trigger_for(dwell=timedelta(hours=1, minutes=31))


@pytest.mark.parametrize(
    ("until", "expected"), [("12:00:01", False), ("12:00", True), ("11:00", True), ("18:00", False)]
)
def test_a_timed_manual_flip_waits_for_its_end(until, expected):
    flip = a_flip(return_after_s=int(at(until)), cause=FlipCause.MANUAL, by="ann")
    result = return_trigger_for(flip)
    assert isinstance(result, FlipTrigger) is expected
    if not expected:
        assert "ann" in result
        assert f"(until {until[:5]} UTC)" in result


def test_a_timed_manual_flip_needs_no_minimum_dwell_but_calm():
    short = a_flip(return_after_s=int(at("11:55")), reached_at_s=int(at("11:50")))
    assert isinstance(return_trigger_for(short), FlipTrigger)
    assert "calm" in return_trigger_for(
        short, assessment=a_flipped_volume(**served_operations(*CALM, 1_000.0))
    )


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        (WindowPhase.OUTSIDE, True),
        (WindowPhase.LEADING, False),
        (WindowPhase.INSIDE, False),
        (WindowPhase.BETWEEN, False),
        (WindowPhase.OVER, True),
    ],
)
@pytest.mark.parametrize("cause", [FlipCause.WINDOW, FlipCause.DRAINING])
def test_a_window_keeps_its_volumes_on_target_whatever_the_cause(phase, expected, cause):
    result = return_trigger_for(a_flip(cause=cause), a_window_state(phase))
    assert isinstance(result, FlipTrigger) is expected
    assert expected or "release" in result


def test_a_busy_volume_stays_until_it_is_calm():
    assert "1,000 IOPS" in return_trigger_for(
        assessment=a_flipped_volume(**served_operations(*CALM, 1_000.0))
    )


def test_a_volume_of_an_instance_that_was_stopped_for_long_enough_is_flipped_back():
    assessment = a_flipped_volume(instance_state="stopped", unused_since_s=int(at("11:30")))
    assert isinstance(return_trigger_for(assessment=assessment), FlipTrigger)

from dataclasses import replace
from datetime import timedelta

import pytest

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.series import Series
from burstwatch.core.flips.evaluate_flip import evaluate_flip
from burstwatch.core.flips.recommendation import Recommendation
from burstwatch.core.flips.volume_context import VolumeContext
from burstwatch.core.ledger.flip_state import WATCHDOG, Direction, FlipCause, FlipStatus, Hold
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.policy.policy import Mode, ModePolicy, Policy
from burstwatch.core.policy.windows import WindowPhase, expected_flip_duration
from support.builders.core_values import (
    GP3,
    IO2,
    a_flip,
    a_state,
    a_volume,
    a_volume_as,
    a_window_state,
    an_assessment,
    at,
    balances,
    draining_to,
    volume_settings,
)
from support.builders.states import with_fields

DAY_S = 24 * 3_600
PROPOSAL = Recommendation(
    action="burstctl flip vol-0a1 --to gp3", target=GP3, reasons=("3,000 IOPS", "$8.12")
)
DRAINING = an_assessment(draining_to(18, 3, count=20))
NO_FLIPS = Policy(mode=ModePolicy(default=Mode.OBSERVE, highest=Mode.PROPOSE))
STEADY = an_assessment(balances(*[60.0] * 31))


def evaluate(
    state=None,
    *,
    level=Level.OK,
    mode=Mode.AUTO,
    windows=None,
    assessment=STEADY,
    now="12:00",
    is_critical=False,
    is_ignored=False,
    hold=None,
    proposal=PROPOSAL,
    policy=None,
):
    return evaluate_flip(
        assessment,
        state or a_state(),
        level,
        volume_settings(mode, is_critical=is_critical, is_ignored=is_ignored),
        VolumeContext(windows=windows, hold=hold),
        recommendation=proposal,
        policy=policy or Policy(),
        now_s=at(now),
    )


def kinds(move):
    return [event.alert for event in move.events]


# who may want what


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        ({"level": Level.CRITICAL, "assessment": DRAINING}, FlipCause.DRAINING),
        ({"windows": a_window_state()}, FlipCause.WINDOW),
        ({"is_critical": True}, FlipCause.CRITICAL),
    ],
)
def test_only_in_mode_auto_is_anything_done_about_it(mode, facts, cause):
    want = evaluate(mode=mode, **facts).trigger
    assert (want and want.cause) == (cause if mode is Mode.AUTO else None)


def test_a_calm_volume_has_no_trigger_and_waits_for_nothing():
    state = a_state(is_critical_open=False)
    assert evaluate(state) == evaluate(state, mode=Mode.PROPOSE)
    result = evaluate(state)
    assert (result.state, result.events, result.trigger, result.blocked_reason) == (state, (), None, None)


@pytest.mark.parametrize(("facts", "phrase"), [({"windows": a_window_state()}, "release")])
def test_a_window_volume_left_to_people_waits(facts, phrase):
    result = evaluate(mode=Mode.PROPOSE, **facts)
    assert phrase in result.blocked_reason
    assert "propose" in result.blocked_reason


def test_a_draining_volume_left_to_people_is_reported_by_its_level():
    assert evaluate(mode=Mode.PROPOSE, level=Level.CRITICAL, assessment=DRAINING).blocked_reason is None


def test_the_trigger_has_the_numbers_behind_the_level():
    assert "15 min" in evaluate(level=Level.CRITICAL, assessment=DRAINING).trigger.reason


def test_mode_observe_reports_no_critical_volume_or_window_and_remembers_nothing():
    state = a_state()
    windows = a_window_state(missed_min=10)
    result = evaluate(state, mode=Mode.OBSERVE, is_critical=True, windows=windows, level=Level.CRITICAL)
    assert (result.state, result.events, result.trigger, result.blocked_reason) == (state, (), None, None)


@pytest.mark.parametrize(("facts", "is_kept"), [({"level": Level.CRITICAL}, True), ({}, False)])
def test_which_guard_refused_is_known_while_the_move_is_wanted(facts, is_kept):
    state = a_state(refusal="held")
    assert evaluate(state, **facts).state.alerts.refusal == ("held" if is_kept else None)


# critical volumes on burst storage

WHO_MOVES = {
    Mode.PROPOSE: "It is in mode propose: flipping it requires manual action.",
    Mode.AUTO: "It is in mode auto: a watchdog that may act flips it, unless a guard refuses.",
}


@pytest.mark.parametrize("mode", [Mode.PROPOSE, Mode.AUTO])
@pytest.mark.parametrize("level", [Level.OK, Level.EXHAUSTED])
def test_a_critical_volume_on_burst_storage_is_reported_once_with_what_to_do(mode, level):
    first = evaluate(mode=mode, level=level, is_critical=True)
    [event] = first.events
    assert (event.kind, event.alert) == (EntryKind.ALERT, AlertKind.CRITICAL_ON_BURST)
    assert event.action == PROPOSAL.action
    details = " ".join(event.details)
    for phrase in ("300 IOPS", "$8.12", WHO_MOVES[mode]):
        assert phrase in details
    repeated = evaluate(first.state, mode=mode, level=level, is_critical=True, now="18:00")
    assert repeated.events == ()


def test_it_is_reported_again_after_a_time_without_the_tag():
    reported = evaluate(is_critical=True).state
    closed = evaluate(reported).state
    assert (reported.alerts.is_critical_open, closed.alerts.is_critical_open) == (True, False)
    assert kinds(evaluate(closed, is_critical=True)) == [AlertKind.CRITICAL_ON_BURST]


@pytest.mark.parametrize("volume", [a_volume_as(GP3), a_volume(1_000)])
def test_a_critical_volume_without_burst_credits_is_not_reported(volume):
    result = evaluate(is_critical=True, assessment=an_assessment(Series(), volume=volume))
    assert (result.events, result.trigger) == ((), None)


def test_it_is_reported_even_without_a_target_to_propose():
    [event] = evaluate(is_critical=True, proposal=None).events
    assert event.action is None


# windows that are missed


MISSED_WINDOW = {"windows": a_window_state(WindowPhase.LEADING, "12:30", "14:00", missed_min=20.5)}
# Begun at noon, expected over at 12:50:30.


@pytest.mark.parametrize("mode", [Mode.PROPOSE, Mode.AUTO])
def test_a_start_that_a_flip_begun_now_cannot_meet_is_reported_once(mode):
    first = evaluate(mode=mode, **MISSED_WINDOW)
    [event] = first.events
    assert (event.kind, event.alert) == (EntryKind.ALERT, AlertKind.WINDOW_MISSED)
    assert event.action == PROPOSAL.action
    assert event.facts["late_s"] == 1_230
    assert event.facts["starts_at"] == "2026-11-20T12:30:00Z"
    assert event.facts["expected_at"] == "2026-11-20T12:50:30Z"
    assert "in 50 min (12:50 UTC)" in event.details[0]
    assert event.details[1:] == ("Until then, the volume depends on its credits.", WHO_MOVES[mode])
    assert evaluate(first.state, mode=mode, **MISSED_WINDOW).events == ()


def test_the_same_start_is_reported_once_though_it_passes():
    reported = evaluate(**MISSED_WINDOW).state
    inside = a_window_state(WindowPhase.INSIDE, "12:30", "14:00", missed_min=55)
    assert evaluate(reported, windows=inside, now="12:35").events == ()


def test_the_next_start_is_reported_again():
    reported = evaluate(**MISSED_WINDOW).state
    next_window = a_window_state(WindowPhase.LEADING, "20:30", "22:00", missed_min=5)
    assert kinds(evaluate(reported, windows=next_window, now="20:00")) == [AlertKind.WINDOW_MISSED]


@pytest.mark.parametrize(
    "windows",
    [
        a_window_state(WindowPhase.LEADING, "12:30", "14:00"),
        a_window_state(WindowPhase.OVER, missed_min=5),
        # Who starts one by hand knows that it begins at once.
        a_window_state(missed_min=55, is_manual=True),
    ],
)
def test_a_start_that_can_be_met_or_was_made_by_hand_is_not_missed(windows):
    assert evaluate(windows=windows).events == ()


def test_a_volume_that_needs_no_flip_misses_nothing():
    large = an_assessment(Series(), volume=a_volume(1_000))
    assert evaluate(assessment=large, **MISSED_WINDOW).events == ()


def test_a_critical_volume_that_misses_a_window_gets_both_alerts():
    assert kinds(evaluate(is_critical=True, **MISSED_WINDOW)) == [
        AlertKind.CRITICAL_ON_BURST,
        AlertKind.WINDOW_MISSED,
    ]


# 100 GiB take 15 min + 6 h x 100 / 1,024 = 50 min 9.375 s: begun at noon, over at 12:50:09.


def under_way(**changes):
    facts = {
        "status": FlipStatus.IN_PROGRESS,
        "requested_at_s": int(at("11:59")),
        "started_at_s": int(at("12:00")),
    }
    return a_state(flip=a_flip(**(facts | {"reason": "critical: 18 % left", "reached_at_s": None} | changes)))


def a_start(start, *, phase=WindowPhase.LEADING, **changes):
    return a_window_state(phase, start, "14:00", **changes)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    ("windows", "now"),
    [
        (a_start("12:50:09"), "12:05"),
        (a_start("12:30"), "12:05"),
        # it runs by now, and the volume is not there
        (a_start("12:30", phase=WindowPhase.INSIDE), "12:40"),
    ],
)
def test_a_start_that_a_flip_under_way_does_not_meet_is_reported_once(mode, windows, now):
    """In every mode: no one can hurry it, but anyone who relies on the window should know."""
    first = evaluate(under_way(), mode=mode, windows=windows, now=now)
    [event] = first.events
    assert (event.kind, event.alert, event.action) == (EntryKind.ALERT, AlertKind.WINDOW_MISSED, None)
    assert event.facts["expected_at"] == "2026-11-20T12:50:09Z"
    assert "The flip in progress is expected to finish in " in event.details[0]
    assert event.details[1:] == (
        "Until then, its performance is between the two.",
        "critical: 18 % left.",
    )
    assert (first.trigger, first.state.flip) == (None, under_way().flip)
    assert first.state.alerts.missed_window_at_s == windows_start_s(windows)
    assert evaluate(first.state, mode=mode, windows=windows, now="12:45").events == ()


def windows_start_s(windows):
    [occurrence] = windows.running or windows.upcoming
    return occurrence.interval.start_at.timestamp()


def test_an_intent_that_is_not_answered_yet_counts_from_its_own_time():
    requested = under_way(status=FlipStatus.REQUESTED, started_at_s=None)
    assert evaluate(requested, windows=a_start("12:49:09"), now="12:01").events
    assert not evaluate(requested, windows=a_start("12:49:10"), now="12:01").events


@pytest.mark.parametrize(
    ("state", "windows"),
    [
        (under_way(), None),
        (under_way(), a_start("12:50:10")),
        (under_way(), a_start("12:30", is_manual=True)),
        (under_way(), a_start("12:30", phase=WindowPhase.OVER)),
        (under_way(direction=Direction.FLIP_BACK), a_start("12:30")),
        (a_state(flip=a_flip()), a_start("12:30")),
        (with_fields(under_way(), missed_window_at_s=int(at("12:30"))), a_start("12:30")),
    ],
)
def test_no_start_is_missed_by_what_is_there_in_time_or_goes_elsewhere(state, windows):
    assert AlertKind.WINDOW_MISSED not in kinds(evaluate(state, windows=windows, now="12:05"))


def test_a_reported_start_is_not_repeated_while_the_flip_runs():
    reported = evaluate(**MISSED_WINDOW).state
    assert (
        evaluate(replace(reported, flip=under_way().flip), windows=a_start("12:30"), now="12:05").events == ()
    )


# the way back


def on_target(**changes):
    return a_state(flip=a_flip(**changes))


def calm():
    known = balances(*[0.0] * 31)
    return an_assessment(Series(), volume=a_volume_as(GP3), read_ops=known, write_ops=known)


def test_a_calm_volume_in_mode_auto_should_be_flipped_back():
    result = evaluate(on_target(), assessment=calm())
    assert (result.trigger.direction, result.events, result.blocked_reason) == (Direction.FLIP_BACK, (), None)


def test_a_busy_volume_states_what_it_waits_for():
    result = evaluate(on_target(reached_at_s=int(at("11:30"))), assessment=calm())
    assert result.trigger is None
    assert "30 min" in result.blocked_reason


@pytest.mark.parametrize("level", [Level.OK, Level.EXHAUSTED])
def test_a_flipped_volume_never_gets_another_flip_trigger(level):
    result = evaluate(on_target(is_permanent=True), level=level, windows=a_window_state(), assessment=calm())
    assert (result.trigger, result.events) == (None, ())


@pytest.mark.parametrize("mode", Mode)
def test_a_timed_manual_flip_comes_back_in_every_mode(mode):
    state = on_target(cause=FlipCause.MANUAL, by="ann", return_after_s=int(at("11:59")))
    result = evaluate(state, mode=mode, assessment=calm())
    assert (result.trigger.direction, result.events) == (Direction.FLIP_BACK, ())


@pytest.mark.parametrize(
    ("facts", "phrase"),
    [
        (
            {"mode": Mode.PROPOSE, "policy": NO_FLIPS},
            "The policy's mode.highest is propose, which stops every automatic modification.",
        ),
        (
            {"mode": Mode.OBSERVE, "is_ignored": True},
            "It is tagged burstwatch:ignore: the watchdog flips it back only without that tag.",
        ),
    ],
)
def test_a_timed_manual_flip_is_left_and_reported_daily_where_all_is_stopped(facts, phrase):
    state = on_target(cause=FlipCause.MANUAL, by="ann", return_after_s=int(at("11:59")))
    result = evaluate(state, assessment=calm(), **facts)
    [event] = result.events
    assert (result.trigger, event.alert, event.details[0]) == (None, AlertKind.LEFT_ON_TARGET, phrase)
    assert event.action == "burstctl flip-back vol-0a1"
    assert kinds(evaluate(result.state, assessment=calm(), now=at("12:00") + DAY_S - 1, **facts)) == []
    repeated = evaluate(result.state, assessment=calm(), now=at("12:00") + DAY_S, **facts)
    assert kinds(repeated) == [AlertKind.LEFT_ON_TARGET]


def test_a_volume_that_became_critical_stays_out():
    result = evaluate(on_target(), is_critical=True, assessment=calm())
    assert (result.trigger, result.events) == (None, ())
    assert "critical" in result.blocked_reason


def test_a_critical_volume_beyond_the_tag_cap_returns():
    result = evaluate(on_target(usd_per_month=250.01), is_critical=True, assessment=calm())
    assert result.trigger.direction is Direction.FLIP_BACK
    unchanged = evaluate(on_target(usd_per_month=250.0), is_critical=True, assessment=calm())
    assert unchanged.trigger is None


@pytest.mark.parametrize("facts", [{"is_critical": True}, {"level": Level.CRITICAL}])
def test_an_externally_changed_volume_gets_no_flip_trigger(facts):
    assert evaluate(a_state(contested_at_s=int(at("12:00"))), **facts).trigger is None


# left on its target

# $100 a month: / 730 x 24 = $3.2877 a day.


@pytest.mark.parametrize("mode", [Mode.PROPOSE, Mode.OBSERVE])
@pytest.mark.parametrize("assessment", [calm(), an_assessment(Series(), volume=a_volume_as(GP3))])
def test_a_volume_that_may_not_return_is_reported_daily_with_dollars(mode, assessment):
    """Calm or not, and also in mode observe: it costs money until somebody knows."""
    state = on_target(target=IO2, usd_per_month=100.0)
    result = evaluate(state, mode=mode, assessment=assessment)
    [event] = result.events
    assert (event.kind, event.alert) == (EntryKind.LEFT_ON_TARGET, AlertKind.LEFT_ON_TARGET)
    assert event.action == "burstctl flip-back vol-0a1"
    details = " ".join((event.summary, *event.details))
    for phrase in (str(IO2), "90 min", "$3.29 a day more", "gp2", str(mode)):
        assert phrase in details
    assert event.facts["usd_per_day_more"] == 3.2877
    assert result.trigger is None
    assert result.blocked_reason


@pytest.mark.parametrize(("after_s", "is_reported"), [(60, False), (DAY_S - 1, False), (DAY_S, True)])
def test_it_is_reported_again_a_day_later(after_s, is_reported):
    first = evaluate(on_target(), mode=Mode.PROPOSE, assessment=calm())
    assert first.state.flip.overdue_alerted_at_s == at("12:00")
    later_s = at("12:00") + after_s
    repeated = evaluate(first.state, mode=Mode.PROPOSE, assessment=calm(), now=later_s)
    assert bool(repeated.events) is is_reported
    assert repeated.state.flip.overdue_alerted_at_s == at("12:00") + (after_s if is_reported else 0)


@pytest.mark.parametrize(
    ("usd_per_month", "phrase"),
    [
        # 1.88 / 730 x 24 = 0.0618
        (-1.88, "$0.06 a day less"),
        (0.0, "same price"),
        (-0.001, "same price"),
        (0.2, "$0.01 a day more"),
        (36_500.0, "$1,200.00 a day more"),
    ],
)
def test_what_it_costs_a_day_is_reported_without_a_sign(usd_per_month, phrase):
    result = evaluate(on_target(usd_per_month=usd_per_month), mode=Mode.PROPOSE, assessment=calm())
    assert phrase in result.events[0].summary


def test_an_externally_changed_volume_must_be_released_first():
    state = with_fields(on_target(usd_per_month=100.0), contested_at_s=int(at("11:00")))
    result = evaluate(state, mode=Mode.AUTO, assessment=calm())
    [event] = result.events
    assert event.alert is AlertKind.LEFT_ON_TARGET
    assert event.action == "burstctl release vol-0a1"
    assert result.trigger is None


@pytest.mark.parametrize("by", [WATCHDOG, "ann"])
def test_an_externally_changed_manual_flip_does_not_return_either(by):
    flip = a_flip(cause=FlipCause.MANUAL, by=by, return_after_s=int(at("11:00")))
    result = evaluate(a_state(flip=flip, contested_at_s=int(at("11:30"))), assessment=calm())
    assert (result.trigger, kinds(result)) == (None, [AlertKind.LEFT_ON_TARGET])


@pytest.mark.parametrize(
    "changes",
    [
        {"is_permanent": True},
        {"status": FlipStatus.IN_PROGRESS},
        {"status": FlipStatus.REQUESTED, "direction": Direction.FLIP_BACK},
    ],
)
@pytest.mark.parametrize("mode", [Mode.PROPOSE, Mode.OBSERVE])
def test_a_permanent_or_running_flip_is_not_reported_as_left(changes, mode):
    result = evaluate(on_target(**changes), mode=mode, assessment=calm())
    assert result.events == ()
    assert result.blocked_reason


@pytest.mark.parametrize(
    ("highest", "mode", "phrase"),
    [
        (Mode.AUTO, Mode.PROPOSE, "It is in mode propose now: the watchdog flips it back only with its"),
        (Mode.AUTO, Mode.OBSERVE, "It is in mode observe now: the watchdog flips it back only with its"),
        (Mode.PROPOSE, Mode.PROPOSE, "The policy's mode.highest is propose, which stops every automatic"),
        (Mode.OBSERVE, Mode.OBSERVE, "The policy's mode.highest is observe, which stops every automatic"),
    ],
)
def test_a_volume_left_on_its_target_names_its_tag_or_the_policy_as_the_obstacle(highest, mode, phrase):
    """With the policy in the way, no tag would help."""
    policy = Policy(mode=ModePolicy(default=Mode.OBSERVE, highest=highest))
    [event] = evaluate(on_target(), mode=mode, assessment=calm(), policy=policy).events
    assert event.details[0].startswith(phrase)
    assert event.action == "burstctl flip-back vol-0a1"


# a return that does not come
#
# On its target since half past ten, for an hour at least: to be back at 11:30.

OVERDUE = "11:30"


def without_data():
    """On gp3, and CloudWatch says nothing of it."""
    return an_assessment(Series(), volume=a_volume_as(GP3))


def a_day_later(clock):
    return at(clock) + DAY_S


def reading_a_day_later(iops):
    """What was served until a minute ago, a day after the return was due."""
    known = balances(*[iops * 30.0] * 31, newest_starts_at=a_day_later("11:28"))
    return an_assessment(
        Series(), volume=a_volume_as(GP3), now=a_day_later(OVERDUE), read_ops=known, write_ops=known
    )


@pytest.mark.parametrize(
    ("assessment", "reason"),
    [
        (without_data(), "waits for calm: CloudWatch does not show its load"),
        # calm is below 150: half the 300 of the gp2 baseline
        (reading_a_day_later(200), "waits for calm: 200 IOPS were served within 30 min, calm is below 150"),
        # calm, and the way back is refused or does not get through
        (reading_a_day_later(0), "the requested change was not made: see its history"),
    ],
)
def test_a_return_that_waits_a_day_longer_than_planned_is_reported_daily_with_what_it_waits_for(
    assessment, reason
):
    first = evaluate(on_target(), assessment=assessment, now=a_day_later(OVERDUE))
    [event] = first.events
    assert (event.kind, event.alert) == (EntryKind.LEFT_ON_TARGET, AlertKind.LEFT_ON_TARGET)
    assert event.details[0].startswith(f"It should have returned by now, but {reason}")
    assert event.action == "burstctl flip-back vol-0a1"
    assert first.state.flip.overdue_alerted_at_s == a_day_later(OVERDUE)
    soon, later = (
        evaluate(first.state, assessment=without_data(), now=a_day_later(OVERDUE) + s) for s in (60, DAY_S)
    )
    assert (kinds(soon), kinds(later)) == ([], [AlertKind.LEFT_ON_TARGET])


@pytest.mark.parametrize("volume_id", [None, "vol-0a1"])
def test_a_return_that_a_hold_prevents_names_the_hold_and_what_lifts_it(volume_id):
    hold = Hold(
        volume_id=volume_id,
        by="ann",
        reason="restore test",
        placed_at_s=int(at("11:00")),
        until_s=int(a_day_later("18:00")),
    )
    result = evaluate(on_target(), assessment=reading_a_day_later(0), now=a_day_later(OVERDUE), hold=hold)
    [event] = result.events
    assert event.details[0] == (
        "It should have returned by now, but it is on hold by ann for 6 h (until 18:00 UTC)."
    )
    assert event.action == f"burstctl release {'--all' if volume_id is None else volume_id}"


def test_a_return_that_waits_because_the_volume_is_detached_is_reported_daily():
    volume = a_volume_as(GP3, attached=False, instance_id=None)
    detached = an_assessment(Series(), volume=volume, unused_since_s=int(at("10:30")))
    first = evaluate(on_target(), assessment=detached, now=a_day_later(OVERDUE))
    [event] = first.events
    assert event.details[0] == (
        "It should have returned by now, but it is detached, and AWS refuses to attach a volume that is being"
        " modified."
    )
    assert event.action == "burstctl flip-back vol-0a1"
    assert first.trigger.direction is Direction.FLIP_BACK
    soon, later = (
        evaluate(first.state, assessment=detached, now=a_day_later(OVERDUE) + s) for s in (60, DAY_S)
    )
    assert (kinds(soon), kinds(later)) == ([], [AlertKind.LEFT_ON_TARGET])


def test_what_is_overdue_should_still_be_flipped_back():
    result = evaluate(on_target(), assessment=reading_a_day_later(0), now=a_day_later(OVERDUE))
    assert result.trigger is not None
    assert result.trigger.direction is Direction.FLIP_BACK


@pytest.mark.parametrize(
    "facts",
    [
        {"now": at(OVERDUE) + DAY_S - 1},
        # till when a person wants it there is planned
        {"state": {"return_after_s": int(at("11:31")), "cause": FlipCause.MANUAL, "by": "ann"}},
        {"windows": a_window_state()},
        {"is_critical": True},
        {"state": {"is_permanent": True}},
    ],
)
def test_a_return_waiting_as_planned_is_not_reported(facts):
    state, facts = on_target(**facts.get("state", {})), {k: v for k, v in facts.items() if k != "state"}
    assert evaluate(state, assessment=without_data(), **({"now": a_day_later(OVERDUE)} | facts)).events == ()


def test_a_timed_manual_flip_is_overdue_a_day_after_that_time():
    state = on_target(return_after_s=int(at("11:31")), cause=FlipCause.MANUAL, by="ann")
    [event] = evaluate(state, assessment=without_data(), now=a_day_later("11:31"), mode=Mode.PROPOSE).events
    assert event.details[0].startswith("It should have returned by now, but waits for calm")


def test_a_volume_that_is_opted_in_again_is_flipped_back():
    waiting = evaluate(on_target(), mode=Mode.PROPOSE, assessment=calm()).state
    result = evaluate(
        waiting, mode=Mode.AUTO, assessment=calm(), now=at("12:00") + timedelta(minutes=2).seconds
    )
    assert result.trigger is not None


# what an event says, whole


def test_the_event_of_a_critical_volume_has_the_cost_and_for_programs_the_proposal():
    [event] = evaluate(is_critical=True, mode=Mode.PROPOSE).events
    assert event.details == (
        "Without credits it serves 300 IOPS, not 3,000: what depends on it stalls.",
        "It is in mode propose: flipping it requires manual action.",
        "AWS is expected to take 15 min to 50 min for 100 GiB.",
        "$8.12.",
    )
    assert event.facts == {
        "from": {"volume_type": "gp2", "iops": None, "throughput_mib_s": None},
        "to": {"volume_type": "gp3", "iops": 3_000, "throughput_mib_s": 128},
        "baseline_iops": 300,
        "mode": "propose",
    }


def test_a_start_is_missed_even_without_a_target_to_propose():
    [event] = evaluate(windows=a_window_state(missed_min=5), mode=Mode.PROPOSE, proposal=None).events
    assert (event.alert, event.action, event.facts["to"]) == (AlertKind.WINDOW_MISSED, None, None)


def test_of_several_windows_that_run_the_first_is_the_one_that_is_missed():
    first, second = a_window_state(missed_min=5), a_window_state(start="11:45", missed_min=5)
    both_windows = replace(first, running=(*first.running, *second.running))
    [event] = evaluate(windows=both_windows).events
    assert event.facts["starts_at"] == "2026-11-20T11:30:00Z"


def test_a_flip_that_is_over_right_at_the_start_misses_nothing():
    lead_s = expected_flip_duration(100, Policy().lead).total_seconds()
    windows = a_window_state(start="14:00", end="16:00", phase=WindowPhase.LEADING)
    for late_s, is_missed in [(0, False), (1, True)]:
        began_s = int(at("14:00") - lead_s + late_s)
        state = a_state(flip=a_flip(status=FlipStatus.IN_PROGRESS, started_at_s=began_s, reached_at_s=None))
        assert bool(evaluate(state, windows=windows).events) is is_missed


@pytest.mark.parametrize("contested_at", [None, "11:00"])
def test_a_volume_left_on_its_target_reports_to_programs_whether_others_changed_it(contested_at):
    state = with_fields(on_target(), contested_at_s=contested_at and int(at(contested_at)))
    [event] = evaluate(state, mode=Mode.PROPOSE, assessment=calm()).events
    assert event.facts["is_contested"] is (contested_at is not None)

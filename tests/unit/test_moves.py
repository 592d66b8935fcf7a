from dataclasses import replace
from datetime import timedelta

import pytest

from burstwatch.core.alerts.alert import AlertKind
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.series import Series
from burstwatch.core.flips.evaluate import consider
from burstwatch.core.flips.recommendation import Proposal
from burstwatch.core.flips.triggers import Around
from burstwatch.core.ledger.flip_state import WATCHDOG, Cause, Direction, Hold, Phase
from burstwatch.core.ledger.ledger import EntryKind
from burstwatch.core.policy.policy import Mode, ModePolicy, Policy
from burstwatch.core.policy.windows import Phase as WindowPhase
from burstwatch.core.policy.windows import expected_flip
from conftest import (
    GP3,
    IO2,
    a_flip,
    a_state,
    a_volume,
    a_volume_as,
    a_window_state,
    a_wishes,
    an_assessment,
    at,
    balances,
    draining_to,
)

DAY_S = 24 * 3_600
PROPOSAL = Proposal(action="burstctl flip vol-0a1 --to gp3", target=GP3, reasons=("3,000 IOPS", "$8.12"))
DRAINING = an_assessment(draining_to(18, 3, count=20))
NO_FLIPS = Policy(mode=ModePolicy(default=Mode.OBSERVE, highest=Mode.PROPOSE))
STEADY = an_assessment(balances(*[60.0] * 31))


def moved(
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
    return consider(
        assessment,
        state or a_state(),
        level,
        a_wishes(mode, is_critical=is_critical, is_ignored=is_ignored),
        Around(windows=windows, hold=hold),
        proposal=proposal,
        policy=policy or Policy(),
        now_s=at(now),
    )


def kinds(move):
    return [event.alert for event in move.events]


# who may want what


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({"level": Level.CRITICAL, "assessment": DRAINING}, Cause.DRAINING),
        ({"windows": a_window_state()}, Cause.WINDOW),
        ({"is_critical": True}, Cause.CRITICAL),
    ],
)
def test_only_in_mode_auto_is_anything_done_about_it(mode, given, cause):
    want = moved(mode=mode, **given).want
    assert (want and want.cause) == (cause if mode is Mode.AUTO else None)


def test_a_calm_volume_wants_nothing_and_waits_for_nothing():
    state = a_state(critical_told=False)
    assert moved(state) == moved(state, mode=Mode.PROPOSE)
    found = moved(state)
    assert (found.state, found.events, found.want, found.waits) == (state, (), None, None)


@pytest.mark.parametrize(("given", "says"), [({"windows": a_window_state()}, "release")])
def test_what_a_window_wants_of_a_volume_left_to_people_is_waited_for(given, says):
    found = moved(mode=Mode.PROPOSE, **given)
    assert says in found.waits
    assert "propose" in found.waits


def test_a_draining_volume_left_to_people_has_its_level_to_say_so():
    assert moved(mode=Mode.PROPOSE, level=Level.CRITICAL, assessment=DRAINING).waits is None


def test_the_numbers_behind_the_level_come_with_the_want():
    assert "15 min" in moved(level=Level.CRITICAL, assessment=DRAINING).want.reason


def test_mode_observe_says_nothing_of_critical_volumes_and_windows_and_remembers_nothing():
    state = a_state()
    windows = a_window_state(missed_min=10)
    found = moved(state, mode=Mode.OBSERVE, is_critical=True, windows=windows, level=Level.CRITICAL)
    assert (found.state, found.events, found.want, found.waits) == (state, (), None, None)


@pytest.mark.parametrize(("given", "is_kept"), [({"level": Level.CRITICAL}, True), ({}, False)])
def test_which_guard_refused_is_known_while_the_move_is_wanted(given, is_kept):
    state = a_state(refusal_told="held")
    assert moved(state, **given).state.refusal_told == ("held" if is_kept else None)


# critical volumes on burst storage

WHO_MOVES = {
    Mode.PROPOSE: "It is in mode propose: moving it is left to people.",
    Mode.AUTO: "It is in mode auto: a watchdog that may act moves it, unless a guard refuses.",
}


@pytest.mark.parametrize("mode", [Mode.PROPOSE, Mode.AUTO])
@pytest.mark.parametrize("level", [Level.OK, Level.EXHAUSTED])
def test_a_critical_volume_on_burst_storage_is_told_once_with_what_to_do(mode, level):
    first = moved(mode=mode, level=level, is_critical=True)
    [event] = first.events
    assert (event.kind, event.alert) == (EntryKind.ALERT, AlertKind.CRITICAL_ON_BURST)
    assert event.action == PROPOSAL.action
    told = " ".join(event.details)
    for words in ("300 IOPS", "$8.12", WHO_MOVES[mode]):
        assert words in told
    again = moved(first.state, mode=mode, level=level, is_critical=True, now="18:00")
    assert again.events == ()


def test_it_is_told_again_when_it_was_not_critical_meanwhile():
    told = moved(is_critical=True).state
    untold = moved(told).state
    assert (told.critical_told, untold.critical_told) == (True, False)
    assert kinds(moved(untold, is_critical=True)) == [AlertKind.CRITICAL_ON_BURST]


@pytest.mark.parametrize("volume", [a_volume_as(GP3), a_volume(1_000)])
def test_a_critical_volume_without_credits_is_told_of_to_nobody(volume):
    found = moved(is_critical=True, assessment=an_assessment(Series(), volume=volume))
    assert (found.events, found.want) == ((), None)


def test_it_is_told_though_nobody_knows_what_to_propose():
    [event] = moved(is_critical=True, proposal=None).events
    assert event.action is None


# windows that are missed


LATE = {"windows": a_window_state(WindowPhase.LEADING, "12:30", "14:00", missed_min=20.5)}
# Begun at noon, expected over at 12:50:30.


@pytest.mark.parametrize("mode", [Mode.PROPOSE, Mode.AUTO])
def test_a_start_that_a_flip_begun_now_cannot_meet_is_told_once(mode):
    first = moved(mode=mode, **LATE)
    [event] = first.events
    assert (event.kind, event.alert) == (EntryKind.ALERT, AlertKind.WINDOW_MISSED)
    assert event.action == PROPOSAL.action
    assert event.facts["late_s"] == 1_230
    assert event.facts["starts_at"] == "2026-11-20T12:30:00Z"
    assert event.facts["expected_at"] == "2026-11-20T12:50:30Z"
    assert "in 50 min (12:50 UTC)" in event.details[0]
    assert event.details[1:] == ("Until it is over the volume lives on its credits.", WHO_MOVES[mode])
    assert moved(first.state, mode=mode, **LATE).events == ()


def test_the_same_start_is_told_once_though_it_passes():
    told = moved(**LATE).state
    inside = a_window_state(WindowPhase.INSIDE, "12:30", "14:00", missed_min=55)
    assert moved(told, windows=inside, now="12:35").events == ()


def test_the_next_start_is_told_again():
    told = moved(**LATE).state
    next_one = a_window_state(WindowPhase.LEADING, "20:30", "22:00", missed_min=5)
    assert kinds(moved(told, windows=next_one, now="20:00")) == [AlertKind.WINDOW_MISSED]


@pytest.mark.parametrize(
    "windows",
    [
        a_window_state(WindowPhase.LEADING, "12:30", "14:00"),
        a_window_state(WindowPhase.OVER, missed_min=5),
        # Who starts one by hand knows that it begins at once.
        a_window_state(missed_min=55, by_hand=True),
    ],
)
def test_a_start_that_can_be_met_or_was_made_by_hand_is_not_missed(windows):
    assert moved(windows=windows).events == ()


def test_a_volume_that_needs_no_flip_misses_nothing():
    large = an_assessment(Series(), volume=a_volume(1_000))
    assert moved(assessment=large, **LATE).events == ()


def test_both_are_told_of_a_critical_volume_that_misses_a_window():
    assert kinds(moved(is_critical=True, **LATE)) == [
        AlertKind.CRITICAL_ON_BURST,
        AlertKind.WINDOW_MISSED,
    ]


# 100 GiB take 15 min + 6 h x 100 / 1,024 = 50 min 9.375 s: begun at noon, over at 12:50:09.


def under_way(**changes):
    facts = {"phase": Phase.CHANGING, "asked_at_s": int(at("11:59")), "started_at_s": int(at("12:00"))}
    return a_state(
        flip=a_flip(**(facts | {"because": "critical: 18 % left", "reached_at_s": None} | changes))
    )


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
def test_a_start_that_a_flip_under_way_does_not_meet_is_told_once(mode, windows, now):
    """In every mode: nobody can hurry it, but who relies on the window should know."""
    first = moved(under_way(), mode=mode, windows=windows, now=now)
    [event] = first.events
    assert (event.kind, event.alert, event.action) == (EntryKind.ALERT, AlertKind.WINDOW_MISSED, None)
    assert event.facts["expected_at"] == "2026-11-20T12:50:09Z"
    assert "The flip under way is expected to be over in " in event.details[0]
    assert event.details[1:] == (
        "Until it is over the volume performs between the two.",
        "critical: 18 % left.",
    )
    assert (first.want, first.state.flip) == (None, under_way().flip)
    assert first.state.missed_told_s == windows_start_s(windows)
    assert moved(first.state, mode=mode, windows=windows, now="12:45").events == ()


def windows_start_s(windows):
    [occurrence] = windows.running or windows.upcoming
    return occurrence.span.start_at.timestamp()


def test_an_intent_that_is_not_answered_yet_counts_from_its_own_time():
    asked = under_way(phase=Phase.ASKED, started_at_s=None)
    assert moved(asked, windows=a_start("12:49:09"), now="12:01").events
    assert not moved(asked, windows=a_start("12:49:10"), now="12:01").events


@pytest.mark.parametrize(
    ("state", "windows"),
    [
        (under_way(), None),
        (under_way(), a_start("12:50:10")),
        (under_way(), a_start("12:30", by_hand=True)),
        (under_way(), a_start("12:30", phase=WindowPhase.OVER)),
        (under_way(direction=Direction.BACK), a_start("12:30")),
        (a_state(flip=a_flip()), a_start("12:30")),
        (replace(under_way(), missed_told_s=int(at("12:30"))), a_start("12:30")),
    ],
)
def test_no_start_is_missed_by_what_is_there_in_time_or_goes_elsewhere(state, windows):
    assert AlertKind.WINDOW_MISSED not in kinds(moved(state, windows=windows, now="12:05"))


def test_a_start_told_before_the_flip_began_is_not_told_again_while_it_is_under_way():
    told = moved(**LATE).state
    assert moved(replace(told, flip=under_way().flip), windows=a_start("12:30"), now="12:05").events == ()


# the way back


def on_target(**changes):
    return a_state(flip=a_flip(**changes))


def calm():
    known = balances(*[0.0] * 31)
    return an_assessment(Series(), volume=a_volume_as(GP3), read_ops=known, write_ops=known)


def test_a_calm_volume_in_mode_auto_is_wanted_back():
    found = moved(on_target(), assessment=calm())
    assert (found.want.direction, found.events, found.waits) == (Direction.BACK, (), None)


def test_a_busy_volume_says_what_it_waits_for():
    found = moved(on_target(reached_at_s=int(at("11:30"))), assessment=calm())
    assert found.want is None
    assert "30 min" in found.waits


@pytest.mark.parametrize("level", [Level.OK, Level.EXHAUSTED])
def test_a_flipped_volume_is_never_wanted_out(level):
    found = moved(on_target(stays=True), level=level, windows=a_window_state(), assessment=calm())
    assert (found.want, found.events) == (None, ())


@pytest.mark.parametrize("mode", Mode)
def test_what_a_person_sent_out_for_a_time_comes_back_in_every_mode(mode):
    state = on_target(cause=Cause.BY_HAND, by="ann", return_after_s=int(at("11:59")))
    found = moved(state, mode=mode, assessment=calm())
    assert (found.want.direction, found.events) == (Direction.BACK, ())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"mode": Mode.PROPOSE, "policy": NO_FLIPS},
            "The policy's mode.highest is propose, which stops every automatic modification.",
        ),
        (
            {"mode": Mode.OBSERVE, "is_ignored": True},
            "It is tagged burstwatch:ignore: the watchdog brings it back only without that tag.",
        ),
    ],
)
def test_what_a_person_sent_out_for_a_time_is_left_and_told_daily_where_all_is_stopped(given, says):
    state = on_target(cause=Cause.BY_HAND, by="ann", return_after_s=int(at("11:59")))
    found = moved(state, assessment=calm(), **given)
    [event] = found.events
    assert (found.want, event.alert, event.details[0]) == (None, AlertKind.LEFT_ON_TARGET, says)
    assert event.action == "burstctl flip-back vol-0a1"
    assert kinds(moved(found.state, assessment=calm(), now=at("12:00") + DAY_S - 1, **given)) == []
    again = moved(found.state, assessment=calm(), now=at("12:00") + DAY_S, **given)
    assert kinds(again) == [AlertKind.LEFT_ON_TARGET]


def test_a_volume_that_became_critical_stays_out():
    found = moved(on_target(), is_critical=True, assessment=calm())
    assert (found.want, found.events) == (None, ())
    assert "critical" in found.waits


def test_a_critical_volume_whose_stay_the_tag_cap_does_not_pay_for_comes_back():
    found = moved(on_target(usd_per_month=250.01), is_critical=True, assessment=calm())
    assert found.want.direction is Direction.BACK
    kept = moved(on_target(usd_per_month=250.0), is_critical=True, assessment=calm())
    assert kept.want is None


@pytest.mark.parametrize("given", [{"is_critical": True}, {"level": Level.CRITICAL}])
def test_a_volume_that_others_changed_is_not_wanted_out_again(given):
    assert moved(a_state(contested_at_s=int(at("12:00"))), **given).want is None


# left on its target

# $100 a month: / 730 x 24 = $3.2877 a day.


@pytest.mark.parametrize("mode", [Mode.PROPOSE, Mode.OBSERVE])
@pytest.mark.parametrize("assessment", [calm(), an_assessment(Series(), volume=a_volume_as(GP3))])
def test_a_volume_that_may_not_return_is_told_daily_with_dollars(mode, assessment):
    """Calm or not, and also in mode observe: it costs money until somebody knows."""
    state = on_target(target=IO2, usd_per_month=100.0)
    found = moved(state, mode=mode, assessment=assessment)
    [event] = found.events
    assert (event.kind, event.alert) == (EntryKind.LEFT, AlertKind.LEFT_ON_TARGET)
    assert event.action == "burstctl flip-back vol-0a1"
    told = " ".join((event.summary, *event.details))
    for words in (str(IO2), "90 min", "$3.29 a day more", "gp2", str(mode)):
        assert words in told
    assert event.facts["usd_per_day_more"] == 3.2877
    assert found.want is None
    assert found.waits


@pytest.mark.parametrize(("after_s", "is_told"), [(60, False), (DAY_S - 1, False), (DAY_S, True)])
def test_it_is_told_again_a_day_later(after_s, is_told):
    first = moved(on_target(), mode=Mode.PROPOSE, assessment=calm())
    assert first.state.flip.left_told_at_s == at("12:00")
    later_s = at("12:00") + after_s
    again = moved(first.state, mode=Mode.PROPOSE, assessment=calm(), now=later_s)
    assert bool(again.events) is is_told
    assert again.state.flip.left_told_at_s == at("12:00") + (after_s if is_told else 0)


@pytest.mark.parametrize(
    ("usd_per_month", "says"),
    [
        # 1.88 / 730 x 24 = 0.0618
        (-1.88, "$0.06 a day less"),
        (0.0, "same price"),
        (-0.001, "same price"),
        (0.2, "$0.01 a day more"),
        (36_500.0, "$1,200.00 a day more"),
    ],
)
def test_what_it_costs_a_day_is_told_without_a_sign(usd_per_month, says):
    found = moved(on_target(usd_per_month=usd_per_month), mode=Mode.PROPOSE, assessment=calm())
    assert says in found.events[0].summary


def test_a_volume_that_others_changed_is_to_be_released_first():
    state = replace(on_target(usd_per_month=100.0), contested_at_s=int(at("11:00")))
    found = moved(state, mode=Mode.AUTO, assessment=calm())
    [event] = found.events
    assert event.alert is AlertKind.LEFT_ON_TARGET
    assert event.action == "burstctl release vol-0a1"
    assert found.want is None


@pytest.mark.parametrize("by", [WATCHDOG, "ann"])
def test_what_was_sent_out_by_hand_and_changed_by_others_is_not_brought_back_either(by):
    flip = a_flip(cause=Cause.BY_HAND, by=by, return_after_s=int(at("11:00")))
    found = moved(a_state(flip=flip, contested_at_s=int(at("11:30"))), assessment=calm())
    assert (found.want, kinds(found)) == (None, [AlertKind.LEFT_ON_TARGET])


@pytest.mark.parametrize(
    "changes",
    [{"stays": True}, {"phase": Phase.CHANGING}, {"phase": Phase.ASKED, "direction": Direction.BACK}],
)
@pytest.mark.parametrize("mode", [Mode.PROPOSE, Mode.OBSERVE])
def test_a_volume_that_stays_or_is_on_its_way_is_not_left(changes, mode):
    found = moved(on_target(**changes), mode=mode, assessment=calm())
    assert found.events == ()
    assert found.waits


@pytest.mark.parametrize(
    ("highest", "mode", "says"),
    [
        (Mode.AUTO, Mode.PROPOSE, "It is in mode propose now: the watchdog brings it back only with its"),
        (Mode.AUTO, Mode.OBSERVE, "It is in mode observe now: the watchdog brings it back only with its"),
        (Mode.PROPOSE, Mode.PROPOSE, "The policy's mode.highest is propose, which stops every automatic"),
        (Mode.OBSERVE, Mode.OBSERVE, "The policy's mode.highest is observe, which stops every automatic"),
    ],
)
def test_a_volume_left_on_its_target_says_whether_its_tag_or_the_policy_is_in_the_way(highest, mode, says):
    """With the policy in the way, no tag would help."""
    policy = Policy(mode=ModePolicy(default=Mode.OBSERVE, highest=highest))
    [event] = moved(on_target(), mode=mode, assessment=calm(), policy=policy).events
    assert event.details[0].startswith(says)
    assert event.action == "burstctl flip-back vol-0a1"


# a return that does not come
#
# On its target since half past ten, for an hour at least: to be back at 11:30.

OVERDUE = "11:30"


def unseen():
    """On gp3, and CloudWatch says nothing of it."""
    return an_assessment(Series(), volume=a_volume_as(GP3))


def a_day_after(clock):
    return at(clock) + DAY_S


def seen_a_day_later(iops):
    """What was served until a minute ago, a day after the return was due."""
    known = balances(*[iops * 30.0] * 31, newest_starts_at=a_day_after("11:28"))
    return an_assessment(
        Series(), volume=a_volume_as(GP3), now=a_day_after(OVERDUE), read_ops=known, write_ops=known
    )


@pytest.mark.parametrize(
    ("assessment", "reason"),
    [
        (unseen(), "waits for calm: CloudWatch does not say what it serves"),
        # calm is below 150: half the 300 of the gp2 baseline
        (seen_a_day_later(200), "waits for calm: 200 IOPS were served within 30 min, calm is below 150"),
        # calm, and the way back is refused or does not get through
        (seen_a_day_later(0), "what is wanted was not done: see its history"),
    ],
)
def test_a_return_that_waits_a_day_longer_than_planned_is_told_daily_with_what_it_waits_for(
    assessment, reason
):
    first = moved(on_target(), assessment=assessment, now=a_day_after(OVERDUE))
    [event] = first.events
    assert (event.kind, event.alert) == (EntryKind.LEFT, AlertKind.LEFT_ON_TARGET)
    assert event.details[0].startswith(f"It should be back by now, but {reason}")
    assert event.action == "burstctl flip-back vol-0a1"
    assert first.state.flip.left_told_at_s == a_day_after(OVERDUE)
    soon, later = (moved(first.state, assessment=unseen(), now=a_day_after(OVERDUE) + s) for s in (60, DAY_S))
    assert (kinds(soon), kinds(later)) == ([], [AlertKind.LEFT_ON_TARGET])


@pytest.mark.parametrize("volume_id", [None, "vol-0a1"])
def test_a_return_that_a_hold_prevents_names_the_hold_and_what_lifts_it(volume_id):
    hold = Hold(
        volume_id=volume_id,
        by="ann",
        reason="restore test",
        placed_at_s=int(at("11:00")),
        until_s=int(a_day_after("18:00")),
    )
    found = moved(on_target(), assessment=seen_a_day_later(0), now=a_day_after(OVERDUE), hold=hold)
    [event] = found.events
    assert event.details[0] == (
        "It should be back by now, but it is on hold by ann for 6 h (until 18:00 UTC)."
    )
    assert event.action == f"burstctl release {'--all' if volume_id is None else volume_id}"


def test_a_return_that_waits_because_the_volume_is_detached_says_so_daily():
    volume = a_volume_as(GP3, attached=False, instance_id=None)
    detached = an_assessment(Series(), volume=volume, unused_since_s=int(at("10:30")))
    first = moved(on_target(), assessment=detached, now=a_day_after(OVERDUE))
    [event] = first.events
    assert event.details[0] == (
        "It should be back by now, but it is detached, and AWS refuses to attach a volume that is being"
        " modified."
    )
    assert event.action == "burstctl flip-back vol-0a1"
    assert first.want.direction is Direction.BACK
    soon, later = (moved(first.state, assessment=detached, now=a_day_after(OVERDUE) + s) for s in (60, DAY_S))
    assert (kinds(soon), kinds(later)) == ([], [AlertKind.LEFT_ON_TARGET])


def test_what_is_overdue_is_wanted_back_all_the_same():
    found = moved(on_target(), assessment=seen_a_day_later(0), now=a_day_after(OVERDUE))
    assert found.want is not None
    assert found.want.direction is Direction.BACK


@pytest.mark.parametrize(
    "given",
    [
        {"now": at(OVERDUE) + DAY_S - 1},
        # till when a person wants it there is planned
        {"state": {"return_after_s": int(at("11:31")), "cause": Cause.BY_HAND, "by": "ann"}},
        {"windows": a_window_state()},
        {"is_critical": True},
        {"state": {"stays": True}},
    ],
)
def test_what_waits_as_planned_is_nobodys_business(given):
    state, given = on_target(**given.get("state", {})), {k: v for k, v in given.items() if k != "state"}
    assert moved(state, assessment=unseen(), **({"now": a_day_after(OVERDUE)} | given)).events == ()


def test_what_a_person_sent_out_for_a_time_is_overdue_a_day_after_that_time():
    state = on_target(return_after_s=int(at("11:31")), cause=Cause.BY_HAND, by="ann")
    [event] = moved(state, assessment=unseen(), now=a_day_after("11:31"), mode=Mode.PROPOSE).events
    assert event.details[0].startswith("It should be back by now, but waits for calm")


def test_a_volume_that_is_opted_in_again_is_brought_back():
    left = moved(on_target(), mode=Mode.PROPOSE, assessment=calm()).state
    found = moved(left, mode=Mode.AUTO, assessment=calm(), now=at("12:00") + timedelta(minutes=2).seconds)
    assert found.want is not None


# what an event says, whole


def test_the_event_of_a_critical_volume_says_what_it_costs_and_for_programs_what_is_proposed():
    [event] = moved(is_critical=True, mode=Mode.PROPOSE).events
    assert event.details == (
        "Without credits it serves 300 IOPS, not 3,000: what depends on it stalls.",
        "It is in mode propose: moving it is left to people.",
        "AWS is expected to take 15 min to 50 min for 100 GiB.",
        "$8.12.",
    )
    assert event.facts == {
        "from": {"volume_type": "gp2", "iops": None, "throughput_mib_s": None},
        "to": {"volume_type": "gp3", "iops": 3_000, "throughput_mib_s": 128},
        "baseline_iops": 300,
        "mode": "propose",
    }


def test_a_start_is_missed_though_nobody_knows_what_to_propose():
    [event] = moved(windows=a_window_state(missed_min=5), mode=Mode.PROPOSE, proposal=None).events
    assert (event.alert, event.action, event.facts["to"]) == (AlertKind.WINDOW_MISSED, None, None)


def test_of_several_windows_that_run_the_first_is_the_one_that_is_missed():
    first, second = a_window_state(missed_min=5), a_window_state(start="11:45", missed_min=5)
    both = replace(first, running=(*first.running, *second.running))
    [event] = moved(windows=both).events
    assert event.facts["starts_at"] == "2026-11-20T11:30:00Z"


def test_a_flip_that_is_over_right_at_the_start_misses_nothing():
    lead_s = expected_flip(100, Policy().lead).total_seconds()
    windows = a_window_state(start="14:00", end="16:00", phase=WindowPhase.LEADING)
    for late_s, is_missed in [(0, False), (1, True)]:
        began_s = int(at("14:00") - lead_s + late_s)
        state = a_state(flip=a_flip(phase=Phase.CHANGING, started_at_s=began_s, reached_at_s=None))
        assert bool(moved(state, windows=windows).events) is is_missed


@pytest.mark.parametrize("contested_at", [None, "11:00"])
def test_a_volume_left_on_its_target_says_for_programs_whether_others_changed_it(contested_at):
    state = replace(on_target(), contested_at_s=contested_at and int(at(contested_at)))
    [event] = moved(state, mode=Mode.PROPOSE, assessment=calm()).events
    assert event.facts["is_contested"] is (contested_at is not None)

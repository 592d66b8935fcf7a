from dataclasses import replace
from datetime import timedelta

import pytest

from burstwatch.core.assessment.severity import Level, classify, explain_level
from burstwatch.core.policy.policy import Policy
from support.builders.core_values import a_volume, an_assessment, balances

POLICY = Policy()


def level_of(*values: float, last: Level = Level.OK, size_gib: int = 100, newest: str = "11:59") -> Level:
    assessment = an_assessment(balances(*values, newest_starts_at=newest), volume=a_volume(size_gib))
    return classify(assessment, last, POLICY)


def falling_to(end: float, per_minute: float, count: int = 61) -> list[float]:
    return [end + per_minute * index for index in reversed(range(count))]


@pytest.mark.parametrize(
    ("values", "level"),
    [
        ([100.0] * 31, Level.OK),
        ([95.0] * 31, Level.OK),
        ([94.9] * 31, Level.WATCH),
        # 0.9 % a minute at 50 %: 55 min; at 60 %: 66 min. The bound is 16 min and more.
        (falling_to(50, 0.9, 40), Level.WARNING),
        (falling_to(60, 0.9, 40), Level.WATCH),
        # Sure: 2 % a minute for half an hour, and a quarter of an hour to go.
        (falling_to(29, 2, 31), Level.CRITICAL),
        (falling_to(31, 2, 31), Level.WARNING),
        (falling_to(29, 2, 29), Level.WARNING),
        ([*falling_to(31, 2, 31), 30.0, 29.9, 29.9], Level.WARNING),
        # The bound: 24 % / 3 % a minute = 8 min. Its own pace over ten minutes: 2.9 % a minute, or less.
        (falling_to(23, 2.9, 11), Level.CRITICAL),
        (falling_to(23, 2.8, 11), Level.WARNING),
        (falling_to(25, 2.9, 11), Level.WARNING),
        ([*falling_to(26, 0, 50), 25.0, 24.0], Level.WARNING),
        # One quiet minute is no reason to wait.
        ([*falling_to(20, 3, 11), 20.0], Level.CRITICAL),
        # Any drain at all below the bound is worth a word.
        (falling_to(24, 0.01), Level.WARNING),
        (falling_to(24.2, 0.01), Level.WATCH),
        # Low, but not draining: a volume that refills pages no one.
        ([10.0] * 31, Level.WATCH),
        ([1.0] * 31, Level.EXHAUSTED),
        ([0.0], Level.EXHAUSTED),
    ],
)
def test_levels_are_entered_by_their_rules(values, level):
    assert level_of(*values) is level


@pytest.mark.parametrize(
    ("last", "values", "level"),
    [
        # exhausted: until 5 %, seen twice.
        (Level.EXHAUSTED, [0.0] * 20 + [4.9, 4.9], Level.EXHAUSTED),
        (Level.EXHAUSTED, [4.9, 5.1], Level.EXHAUSTED),
        (Level.EXHAUSTED, falling_to(6, -0.33, 12), Level.CRITICAL),
        # critical: until 30 min are left, or ten minutes without a fall. 60 % at 2.1 % a minute: 28.6 min.
        (Level.CRITICAL, falling_to(60, 2.1, 18), Level.CRITICAL),
        (Level.CRITICAL, falling_to(66, 2.1, 16), Level.WARNING),
        (Level.CRITICAL, [50.0] * 9, Level.CRITICAL),
        (Level.CRITICAL, [50.0] * 11, Level.WATCH),
        # critical within 16 min of full burst, 48 % of 100 GiB: until it has rested for an hour.
        (Level.CRITICAL, [47.0] * 60, Level.CRITICAL),
        (Level.CRITICAL, [47.0] * 61, Level.WATCH),
        (Level.CRITICAL, [47.1] * 30 + [47.0] * 31, Level.CRITICAL),
        (Level.CRITICAL, falling_to(47, 0.01), Level.CRITICAL),
        (Level.CRITICAL, falling_to(49, 0.01), Level.WATCH),
        # warning: until 90 min are left. 60 % at 0.7 % a minute: 86 min, at 0.6 %: 100 min.
        (Level.WARNING, falling_to(60, 0.7, 50), Level.WARNING),
        (Level.WARNING, falling_to(60, 0.6, 50), Level.WATCH),
        (Level.WARNING, [50.0] * 11, Level.WATCH),
        # and within 16 min of full burst as long as critical.
        (Level.WARNING, [47.0] * 60, Level.WARNING),
        (Level.WARNING, [47.0] * 61, Level.WATCH),
        # watch: until 97 %, seen twice.
        (Level.WATCH, [96.9] * 5, Level.WATCH),
        (Level.WATCH, [96.9, 97.0], Level.WATCH),
        (Level.WATCH, [96.9, 97.0, 97.0], Level.OK),
        (Level.WATCH, [97.0] * 5, Level.OK),
    ],
)
def test_levels_are_left_farther_out_than_they_are_entered(last, values, level):
    assert level_of(*values, last=last) is level


def test_a_full_volume_is_not_critical_however_long_acting_takes():
    """With so much time for acting full burst could end even a full one within twice of it."""
    slow = replace(POLICY, cadence=replace(POLICY.cadence, act_lead=timedelta(minutes=17)))
    refilled = an_assessment(balances(96.0, *[100.0] * 30, 99.9, *[100.0] * 30))
    assert classify(refilled, Level.CRITICAL, slow) is Level.OK
    nearly = an_assessment(balances(*[96.9] * 30, 96.8, *[96.9] * 30))
    assert classify(nearly, Level.CRITICAL, slow) is Level.CRITICAL
    assert "not been stable for an hour" in explain_level(nearly, Level.CRITICAL, slow)


@pytest.mark.parametrize("last", [Level.WARNING, Level.CRITICAL])
def test_one_quiet_minute_does_not_leave_a_level(last):
    values = falling_to(50, 1.0, 31)
    assert level_of(*values, values[-1], last=last).rank >= Level.WARNING.rank


@pytest.mark.parametrize(
    ("values", "why"),
    [
        # 3 % a minute for three minutes: empty in 16 min, of which three minutes predict nine
        (
            [60.0, 57.0, 54.0, 51.0],
            "the balance is below 97 %, and its drain has not lasted for a third of the time that it"
            " predicts",
        ),
        (falling_to(60, 0.1), "the balance is below 97 %, but not empty soon"),
        ([60.0] * 31, "the balance is below 97 %, but not empty soon"),
    ],
)
def test_an_estimate_that_is_soon_is_not_called_late(values, why):
    assessment = an_assessment(balances(*values))
    assert level_of(*values) is Level.WATCH
    assert explain_level(assessment, Level.WATCH, POLICY) == why


def test_one_noisy_minute_does_not_enter_a_level_above_watch():
    assert level_of(*[60.0] * 60, 57.0) is Level.WATCH


def test_a_noisy_minute_below_the_bound_is_a_warning():
    assert level_of(*[26.0] * 60, 23.0) is Level.WARNING


def test_a_fall_below_the_bound_of_which_nothing_more_is_known_is_critical():
    assert level_of(25.0, 23.0) is Level.CRITICAL


def test_without_data_the_level_is_unknown_whatever_it_was():
    missing = an_assessment(None, read_error="throttled")
    assert classify(missing, Level.CRITICAL, POLICY) is Level.UNKNOWN
    assert explain_level(missing, Level.UNKNOWN, POLICY) == "throttled"
    silent = an_assessment(None)
    assert explain_level(silent, Level.UNKNOWN, POLICY) == "reading it failed"


def test_old_data_counts_from_its_own_minute():
    # 40 % of 100 GiB lasts 13.3 min at the worst; read 6 min ago it may last 7.3 min, less than act_lead.
    assert level_of(*falling_to(40, 0.01), newest="11:53") is Level.WARNING


# 0.1 % up, 0.1 % down, for half an hour: it falls all the time, and is where it was.
SAWTOOTH = [50.0, 49.9] * 15 + [50.0]


@pytest.mark.parametrize(
    ("values", "level"),
    [
        (SAWTOOTH, Level.WATCH),
        # 0.01 % in half an hour are 0.3 credits a second: little, but not nothing.
        ([50.01, *SAWTOOTH[1:]], Level.WARNING),
        (SAWTOOTH[2:], Level.WARNING),
        ([60.0], Level.WARNING),
    ],
)
def test_a_warning_without_an_estimate_is_left_after_half_an_hour_in_which_nothing_was_lost(values, level):
    assert level_of(*values, last=Level.WARNING) is level


@pytest.mark.parametrize(
    ("last", "values", "level", "why"),
    [
        (Level.OK, falling_to(29, 2, 31), Level.CRITICAL, "at this pace it is empty within 15 min"),
        (Level.OK, falling_to(23, 2.9, 11), Level.CRITICAL, "at this pace it is empty within 8 min"),
        (
            Level.CRITICAL,
            [47.0] * 60,
            Level.CRITICAL,
            "full burst would empty it within 16 min, and the balance has not been stable for an hour",
        ),
        (
            Level.CRITICAL,
            [52.0] * 9,
            Level.CRITICAL,
            "it was critical and has not recovered for 10 min yet",
        ),
        (Level.OK, falling_to(50, 0.9, 40), Level.WARNING, "at this pace it is empty within 60 min"),
        (
            Level.OK,
            falling_to(24, 0.01),
            Level.WARNING,
            "it drains, and full burst would empty it within 8 min",
        ),
        (
            Level.WARNING,
            falling_to(60, 0.7, 50),
            Level.WARNING,
            "it was warning and has not recovered for 10 min yet",
        ),
        (
            Level.WARNING,
            [47.0] * 60,
            Level.WARNING,
            "full burst would empty it within 16 min, and the balance has not been stable for an hour",
        ),
    ],
)
def test_the_rule_that_set_the_level_is_reported(last, values, level, why):
    assessment = an_assessment(balances(*values))
    assert classify(assessment, last, POLICY) is level
    assert explain_level(assessment, level, POLICY) == why


@pytest.mark.parametrize(
    ("values", "has_arrived", "level"),
    [
        ([0.0], True, Level.WATCH),  # no trend yet
        ([0.1 * minute for minute in range(7)], True, Level.WATCH),  # it gains credits
        ([0.0] * 7, True, Level.EXHAUSTED),  # throttled
        ([0.0], False, Level.EXHAUSTED),
        ([0.1 * minute for minute in range(7)], False, Level.EXHAUSTED),
    ],
)
def test_a_volume_back_from_a_flip_is_exhausted_only_if_it_gains_no_credits(values, has_arrived, level):
    assessment = an_assessment(balances(*values, newest_starts_at="11:59"))
    arrived = replace(assessment, arrived_at_s=1 if has_arrived else None)
    assert classify(arrived, Level.OK, POLICY) is level


def test_a_volume_that_was_exhausted_since_its_arrival_leaves_by_the_rule_of_that_level():
    """It refills for a minute at 3 %: not critical in between, about which people would be alerted again."""
    refilling = replace(an_assessment(balances(*[0.0] * 20, 3.0)), arrived_at_s=1)
    assert classify(refilling, Level.EXHAUSTED, POLICY) is Level.EXHAUSTED
    assert classify(refilling, Level.OK, POLICY) is not Level.EXHAUSTED

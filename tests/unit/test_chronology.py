"""What a picture shows: gaps with their reason, limits, and the forecast by which the watchdog decides."""

import pytest

from burstctl.timeline.timeline import AbsenceReason, Sources, chronicle, condense, unbroken
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.usage import History
from conftest import GP3, IO1, NOON, a_flip, a_modification, a_state, a_volume, a_volume_as, an_assessment, at
from some_days import a_history, a_level, falling, minutes, there_and_back

NOW = "12:00"


def a_chronology(history: History, *, start="11:00", now=NOW, **given):
    volume = given.pop("volume", a_volume())
    return chronicle(Sources(volume=volume, history=history, start_s=int(at(start)), now_s=at(now), **given))


def absences(this):
    return [(each.start_s, each.end_s, each.reason) for each in this.absences]


def limits(this):
    return [(each.start_s, each.end_s, each.sustained_iops, each.most_iops) for each in this.limits]


def test_operations_are_a_second_and_the_reads_among_them_are_known():
    this = a_chronology(a_history(falling("11:00", 90, 1, 59)))
    assert set(this.served.values) == {1200.0}
    assert set(this.reads.values) == {300.0}
    assert this.balance.values[:2] == (90, 89)


def test_of_a_period_with_one_half_known_that_half_is_the_least_that_was():
    history = History(
        period_s=300,
        read_ops=Series((0, 300), (300.0, 600.0)),
        write_ops=Series((300,), (1200.0,)),
    )
    this = chronicle(Sources(volume=a_volume(), history=history, start_s=0, now_s=900))
    assert this.served == Series((0, 300), (1.0, 6.0))


def test_a_period_that_is_not_over_has_no_rate_yet():
    # 100 a second: five minutes are 30,000, and two of them 12,000, which is no fall to 40
    ops = Series((0, 300), (30_000.0, 12_000.0))
    for now_s in (420, 600, 719):
        this = chronicle(
            Sources(volume=a_volume(), history=History(period_s=300, read_ops=ops), start_s=0, now_s=now_s)
        )
        assert this.served == Series((0,), (100.0,)), "the last minute is owed for two more"


def test_a_gap_is_a_gap_and_the_minutes_that_cloudwatch_still_owes_are_none():
    balance = falling("11:00", 90, 1, 55, skip=range(20, 30))
    assert absences(a_chronology(a_history(balance))) == [
        (at("11:20"), at("11:30"), AbsenceReason.GAP),
    ]


def test_without_any_balance_all_is_a_gap():
    this = a_chronology(a_history())
    assert absences(this) == [(at("11:00"), at(NOW), AbsenceReason.GAP)]
    assert this.is_blank


def test_a_gap_at_the_end_has_the_reason_that_the_assessment_knows():
    stopped = an_assessment(Series(), volume=a_volume(), instance_state="stopped")
    assert stopped.unknown_reason is UnknownReason.INSTANCE_STOPPED
    this = a_chronology(a_history(falling("11:00", 90, 1, 30)), assessment=stopped)
    assert absences(this) == [(at("11:30"), at(NOW), AbsenceReason.INSTANCE_STOPPED)]


def test_before_it_was_created_there_was_no_volume():
    volume = a_volume(created_at=NOON.replace(hour=11, minute=10))
    this = a_chronology(a_history(falling("11:12", 100, 0, 45)), volume=volume)
    assert absences(this) == [
        (at("11:00"), at("11:10"), AbsenceReason.NOT_CREATED),
        (at("11:10"), at("11:12"), AbsenceReason.GAP),
    ]


def test_while_flipped_there_is_no_balance_and_a_quarter_of_an_hour_after_it_is_back():
    balance = Series.of([*falling_pairs("09:00", 62), *falling_pairs("14:40", 79)])
    this = a_chronology(a_history(balance), start="09:00", now="16:00", entries=there_and_back())
    # seen to 10:02 and from 14:40 on; back at 14:30
    assert absences(this) == [(at("10:02"), at("14:40"), AbsenceReason.FLIPPED)]


def test_what_is_longer_missing_than_the_flip_explains_is_a_gap():
    balance = Series.of([*falling_pairs("09:00", 30), *falling_pairs("15:00", 59)])
    this = a_chronology(a_history(balance), start="09:00", now="16:00", entries=there_and_back())
    assert absences(this) == [
        (at("09:30"), at("10:00"), AbsenceReason.GAP),
        (at("10:00"), at("14:45"), AbsenceReason.FLIPPED),
        (at("14:45"), at("15:00"), AbsenceReason.GAP),
    ]


def falling_pairs(first, count):
    series = falling(first, 90, 0.5, count)
    return zip(series.starts_s, series.values, strict=True)


def test_on_gp2_the_limits_are_baseline_and_burst_and_on_a_target_what_was_bought():
    this = a_chronology(
        a_history(falling("09:00", 90, 0, 60)), start="09:00", now="16:00", entries=there_and_back()
    )
    assert limits(this) == [
        (at("09:00"), at("10:30"), 300, 3_000),
        (at("10:30"), at("14:00"), 3_000, 3_000),
        (at("14:00"), this.end_s, 300, 3_000),
    ]
    assert [limit.is_provisioned for limit in this.limits] == [False, True, False]


def test_a_large_volume_has_no_burst_above_its_baseline():
    this = a_chronology(a_history(falling("11:00", 100, 0, 59)), volume=a_volume(2_000))
    assert limits(this) == [(at("11:00"), this.end_s, 6_000, 6_000)]


def test_a_volume_on_its_way_is_still_held_to_what_it_was():
    state = a_state(flip=a_flip(target=IO1, reached_at_s=None))
    this = a_chronology(a_history(falling("11:00", 90, 1, 59)), state=state, volume=a_volume_as(IO1))
    assert limits(this) == [(at("11:00"), this.end_s, 300, 3_000)]


def test_a_volume_that_others_moved_has_what_they_bought():
    record = a_modification(target=GP3, started="11:20")
    this = a_chronology(a_history(falling("11:00", 90, 1, 20)), volume=a_volume_as(GP3), record=record)
    assert limits(this)[1:] == [(at("11:30"), this.end_s, 3_000, 3_000)]
    assert absences(this) == [(at("11:20"), at(NOW), AbsenceReason.FLIPPED)]


def test_a_volume_that_never_was_anything_else_has_what_it_is():
    this = a_chronology(a_history(falling("11:00", 0, 0, 1)), volume=a_volume_as(IO1))
    assert limits(this) == [(at("11:00"), this.end_s, 1_000, 1_000)]


def test_the_fan_is_the_forecast_by_which_the_watchdog_decides():
    # 1 % a minute: 41 % at 11:59, dry 41 min later; 41 % are 2,214,000 credits, at 2,700/s 820 s
    balance = falling("11:00", 100, 1, 60)
    this = a_chronology(a_history(balance), assessment=an_assessment(balance))
    fan = this.fan
    assert (fan.from_s, fan.from_pct) == (at("12:00"), 41)
    assert fan.about_s == pytest.approx(at("12:41"))
    assert fan.soonest_s == pytest.approx(at("12:13:40"))
    assert fan.is_believed
    # 60 min seen, and 41 min and a little more to come
    assert this.end_s == pytest.approx(at(NOW) + 1.15 * 41 * 60)


def test_a_volume_that_does_not_drain_has_a_bound_and_no_estimate():
    balance = falling("11:00", 50, -0.1, 60)
    this = a_chronology(a_history(balance), assessment=an_assessment(balance))
    assert this.fan.about_s is None
    assert this.fan.soonest_s is not None
    assert this.end_s == at(NOW) + 0.08 * 3600


def test_a_dry_volume_and_one_that_is_not_known_have_no_fan():
    dry = falling("11:00", 0, 0, 60)
    assert a_chronology(a_history(dry), assessment=an_assessment(dry)).fan is None
    assert a_chronology(a_history(dry)).fan is None
    assert a_chronology(a_history(dry), assessment=an_assessment(Series())).fan is None


def test_a_forecast_far_away_takes_no_more_than_three_quarters_of_what_was_seen():
    balance = falling("11:00", 100, 0.1, 60)
    this = a_chronology(a_history(balance), assessment=an_assessment(balance))
    assert this.end_s == at(NOW) + 0.75 * 3600


def test_what_lasted_before_the_picture_counts_and_what_only_happened_before_it_does_not():
    this = a_chronology(
        a_history(falling("12:00", 90, 0, 60)), start="12:00", now="13:00", entries=there_and_back()
    )
    assert len(this.stays) == 1
    assert this.marks == []


def test_entries_from_a_clock_that_is_ahead_are_left_out():
    this = a_chronology(
        a_history(falling("09:00", 90, 0, 60)), start="09:00", now="10:15", entries=there_and_back()
    )
    assert [mark.letter for mark in this.marks] == ["F"]


def test_pieces_end_at_gaps():
    series = minutes("11:00", 1, 2, 3, 4, 5, skip=range(2, 3))
    assert [piece.values for piece in unbroken(series, 60)] == [(1, 2), (4, 5)]
    assert list(unbroken(Series(), 60)) == []


def test_steps_keep_the_least_or_the_most_of_them_and_gaps_stay_gaps():
    series = minutes("11:00", 5, 3, 4, 9, 8, 7, 1, 2, 3, skip=range(3, 6))
    assert condense(series, 180, min) == Series((int(at("11:00")), int(at("11:06"))), (3, 1))
    assert condense(series, 180, max).values == (5, 3)


def levels(this):
    return [(each.start_s, each.end_s, str(each.level)) for each in this.levels]


def test_that_a_volume_was_ok_before_anybody_looked_is_not_claimed():
    # below 95 % since 09:05, empty since 10:40; the first look is at 11:45
    entries = [a_level("11:45", "ok", "exhausted")]
    this = a_chronology(a_history(falling("09:00", 100, 1, 180)), start="09:00", entries=entries)
    assert levels(this) == [(at("11:45"), at(NOW), "exhausted")]


def test_it_was_ok_while_the_balance_says_so_and_until_a_look_saw_it_fall():
    calm = [(sample.start_s, sample.value) for sample in falling("09:00", 100, 0, 150)]
    falls = [(sample.start_s, sample.value) for sample in falling("11:30", 94, 1, 29)]
    entries = [a_level("11:45", "ok", "watch")]
    this = a_chronology(a_history(Series.of([*calm, *falls])), start="08:00", entries=entries)
    assert levels(this) == [
        (at("09:00"), at("11:45"), "ok"),
        (at("11:45"), at(NOW), "watch"),
    ], "nothing was seen before nine"


def test_a_level_that_is_written_down_stands_whatever_the_balance():
    entries = [a_level("09:30", "warning", "ok"), a_level("11:45", "ok", "watch")]
    this = a_chronology(a_history(falling("09:00", 50, 0, 180)), start="09:00", entries=entries)
    assert levels(this)[0] == (at("09:00"), at("09:30"), "warning")
    assert levels(this)[1] == (at("09:30"), at("11:45"), "ok")

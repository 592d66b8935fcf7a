"""What a picture shows: gaps with their reason, limits, and the forecast by which the watchdog decides."""

import pytest

from burstctl.timeline.data_gap import DataGapReason
from burstctl.timeline.drawn_bucket import drawn_advised, drawn_volume
from burstctl.timeline.timeline import (
    TimelineInput,
    build_timeline,
    contiguous_pieces,
    downsample,
)
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.assess_resource import BucketReading, assess_resource
from burstwatch.core.buckets.series import Series
from burstwatch.core.ebs.metric_history import MetricHistory
from burstwatch.core.instances.instance_buckets import INSTANCE_IO, INSTANCE_THROUGHPUT
from burstwatch.core.policy.policy import Policy
from support.builders.core_values import (
    GP3,
    IO1,
    NOON,
    a_flip,
    a_modification,
    a_state,
    a_volume,
    a_volume_as,
    an_assessment,
    an_instance,
    at,
)
from support.builders.history import a_history, a_level, a_round_trip, falling, minutes

NOW = "12:00"


def a_chronology(history: MetricHistory, *, start="11:00", now=NOW, **fields):
    volume = fields.pop("volume", a_volume())
    return build_timeline(
        TimelineInput(
            drawn=drawn_volume(volume), history=history, start_s=int(at(start)), now_s=at(now), **fields
        )
    )


def gap_reasons(timeline):
    return [(absence.start_s, absence.end_s, absence.reason) for absence in timeline.gaps]


def limits(timeline):
    return [(limit.start_s, limit.end_s, limit.sustained, limit.maximum) for limit in timeline.limits]


def test_operations_are_a_second_and_the_reads_among_them_are_known():
    timeline = a_chronology(a_history(falling("11:00", 90, 1, 59)))
    assert set(timeline.served.values) == {1200.0}
    assert set(timeline.reads.values) == {300.0}
    assert timeline.balance.values[:2] == (90, 89)


def test_of_a_period_with_only_reads_or_writes_the_known_half_is_a_minimum():
    history = MetricHistory(
        period_s=300,
        read_ops=Series((0, 300), (300.0, 600.0)),
        write_ops=Series((300,), (1200.0,)),
    )
    timeline = build_timeline(
        TimelineInput(drawn=drawn_volume(a_volume()), history=history, start_s=0, now_s=900)
    )
    assert timeline.served == Series((0, 300), (1.0, 6.0))


def test_a_period_that_is_not_over_has_no_rate_yet():
    # 100 a second: five minutes are 30,000, and two of them 12,000, which is not a fall to 40
    ops = Series((0, 300), (30_000.0, 12_000.0))
    for now_s in (420, 600, 719):
        timeline = build_timeline(
            TimelineInput(
                drawn=drawn_volume(a_volume()),
                history=MetricHistory(period_s=300, read_ops=ops),
                start_s=0,
                now_s=now_s,
            )
        )
        assert timeline.served == Series((0,), (100.0,)), "the last minute is owed for two more"


def test_a_gap_is_a_gap_and_the_minutes_that_cloudwatch_still_owes_are_none():
    balance = falling("11:00", 90, 1, 55, skip=range(20, 30))
    assert gap_reasons(a_chronology(a_history(balance))) == [
        (at("11:20"), at("11:30"), DataGapReason.GAP),
    ]


def test_without_any_balance_all_is_a_gap():
    timeline = a_chronology(a_history())
    assert gap_reasons(timeline) == [(at("11:00"), at(NOW), DataGapReason.GAP)]
    assert timeline.has_no_metrics


def test_a_gap_at_the_end_has_the_reason_that_the_assessment_knows():
    stopped = an_assessment(Series(), volume=a_volume(), instance_state="stopped")
    assert stopped.unknown_reason is UnknownReason.INSTANCE_STOPPED
    timeline = a_chronology(a_history(falling("11:00", 90, 1, 30)), assessment=stopped)
    assert gap_reasons(timeline) == [(at("11:30"), at(NOW), DataGapReason.INSTANCE_STOPPED)]


def test_before_it_was_created_there_was_no_volume():
    volume = a_volume(created_at=NOON.replace(hour=11, minute=10))
    timeline = a_chronology(a_history(falling("11:12", 100, 0, 45)), volume=volume)
    assert gap_reasons(timeline) == [
        (at("11:00"), at("11:10"), DataGapReason.NOT_CREATED),
        (at("11:10"), at("11:12"), DataGapReason.GAP),
    ]


def test_while_flipped_and_shortly_after_there_is_no_balance():
    balance = Series.from_pairs([*falling_pairs("09:00", 62), *falling_pairs("14:40", 79)])
    timeline = a_chronology(a_history(balance), start="09:00", now="16:00", entries=a_round_trip())
    # seen to 10:02 and from 14:40 on; back at 14:30
    assert gap_reasons(timeline) == [(at("10:02"), at("14:40"), DataGapReason.FLIPPED)]


def test_data_missing_longer_than_the_flip_explains_is_a_gap():
    balance = Series.from_pairs([*falling_pairs("09:00", 30), *falling_pairs("15:00", 59)])
    timeline = a_chronology(a_history(balance), start="09:00", now="16:00", entries=a_round_trip())
    assert gap_reasons(timeline) == [
        (at("09:30"), at("10:00"), DataGapReason.GAP),
        (at("10:00"), at("14:45"), DataGapReason.FLIPPED),
        (at("14:45"), at("15:00"), DataGapReason.GAP),
    ]


def falling_pairs(first, count):
    series = falling(first, 90, 0.5, count)
    return zip(series.starts_at_s, series.values, strict=True)


def test_on_gp2_the_limits_are_baseline_and_burst_and_on_a_target_what_was_bought():
    timeline = a_chronology(
        a_history(falling("09:00", 90, 0, 60)), start="09:00", now="16:00", entries=a_round_trip()
    )
    assert limits(timeline) == [
        (at("09:00"), at("10:30"), 300, 3_000),
        (at("10:30"), at("14:00"), 3_000, 3_000),
        (at("14:00"), timeline.end_s, 300, 3_000),
    ]
    assert [limit.is_provisioned for limit in timeline.limits] == [False, True, False]


def test_a_large_volume_has_no_burst_above_its_baseline():
    timeline = a_chronology(a_history(falling("11:00", 100, 0, 59)), volume=a_volume(2_000))
    assert limits(timeline) == [(at("11:00"), timeline.end_s, 6_000, 6_000)]


def test_a_volume_in_modification_keeps_its_old_limits():
    state = a_state(flip=a_flip(target=IO1, reached_at_s=None))
    timeline = a_chronology(a_history(falling("11:00", 90, 1, 59)), state=state, volume=a_volume_as(IO1))
    assert limits(timeline) == [(at("11:00"), timeline.end_s, 300, 3_000)]


def test_an_externally_changed_volume_has_its_new_limits():
    record = a_modification(target=GP3, started="11:20")
    timeline = a_chronology(
        a_history(falling("11:00", 90, 1, 20)), volume=a_volume_as(GP3), modification=record
    )
    assert limits(timeline)[1:] == [(at("11:30"), timeline.end_s, 3_000, 3_000)]
    assert gap_reasons(timeline) == [(at("11:20"), at(NOW), DataGapReason.FLIPPED)]


def test_a_volume_that_never_was_anything_else_has_what_it_is():
    timeline = a_chronology(a_history(falling("11:00", 0, 0, 1)), volume=a_volume_as(IO1))
    assert limits(timeline) == [(at("11:00"), timeline.end_s, 1_000, 1_000)]


def test_the_forecast_cone_is_the_forecast_that_decides():
    # 1 % a minute: 41 % at 11:59, empty 41 min later; 41 % are 2,214,000 credits, at 2,700/s 820 s
    balance = falling("11:00", 100, 1, 60)
    timeline = a_chronology(a_history(balance), assessment=an_assessment(balance))
    fan = timeline.forecast_cone
    assert (fan.start_at_s, fan.start_pct) == (at("12:00"), 41)
    assert fan.estimated_empty_at_s == pytest.approx(at("12:41"))
    assert fan.soonest_empty_at_s == pytest.approx(at("12:13:40"))
    assert fan.is_believed
    # 60 min seen, and 41 min and a little more to come
    assert timeline.end_s == pytest.approx(at(NOW) + 1.15 * 41 * 60)


def test_a_volume_that_does_not_drain_has_a_bound_and_no_estimate():
    balance = falling("11:00", 50, -0.1, 60)
    timeline = a_chronology(a_history(balance), assessment=an_assessment(balance))
    assert timeline.forecast_cone.estimated_empty_at_s is None
    assert timeline.forecast_cone.soonest_empty_at_s is not None
    assert timeline.end_s == at(NOW) + 0.08 * 3600


def test_empty_and_unknown_volumes_have_no_forecast_cone():
    empty = falling("11:00", 0, 0, 60)
    assert a_chronology(a_history(empty), assessment=an_assessment(empty)).forecast_cone is None
    assert a_chronology(a_history(empty)).forecast_cone is None
    assert a_chronology(a_history(empty), assessment=an_assessment(Series())).forecast_cone is None


def test_a_forecast_far_away_takes_no_more_than_three_quarters_of_what_was_seen():
    balance = falling("11:00", 100, 0.1, 60)
    timeline = a_chronology(a_history(balance), assessment=an_assessment(balance))
    assert timeline.end_s == at(NOW) + 0.75 * 3600


def test_what_lasted_before_the_picture_counts_and_what_only_happened_before_it_does_not():
    timeline = a_chronology(
        a_history(falling("12:00", 90, 0, 60)), start="12:00", now="13:00", entries=a_round_trip()
    )
    assert len(timeline.target_intervals) == 1
    assert timeline.events == []


def test_entries_from_a_clock_that_is_ahead_are_left_out():
    timeline = a_chronology(
        a_history(falling("09:00", 90, 0, 60)), start="09:00", now="10:15", entries=a_round_trip()
    )
    assert [mark.letter for mark in timeline.events] == ["F"]


def an_instance_chronology(kind, history, *, instance=None, now=NOW, **fields):
    inputs = TimelineInput(
        drawn=drawn_advised(instance or an_instance(), kind),
        history=history,
        start_s=int(at("11:00")),
        now_s=at(now),
        **fields,
    )
    return build_timeline(inputs)


def every_five_minutes(count, value, *, first="11:00"):
    return Series(tuple(int(at(first)) + 300 * n for n in range(count)), (float(value),) * count, 300)


def test_the_load_and_the_limits_of_an_instance_are_those_of_its_bucket():
    mib = 2**20
    history = MetricHistory(
        period_s=300,
        balance=every_five_minutes(10, 80),
        read_ops=every_five_minutes(10, 300 * 1_000),
        write_ops=every_five_minutes(10, 300 * 3_000),
        read_bytes=every_five_minutes(10, 300 * 10 * mib),
        write_bytes=every_five_minutes(10, 300 * 90 * mib),
    )
    io = an_instance_chronology(INSTANCE_IO, history)
    throughput = an_instance_chronology(INSTANCE_THROUGHPUT, history)
    assert (set(io.served.values), set(io.reads.values)) == ({4_000.0}, {1_000.0})
    assert (set(throughput.served.values), set(throughput.reads.values)) == ({100.0}, {10.0})
    # the type's maximum, though its one volume serves 3,000 IOPS and 125 MiB/s
    assert limits(io) == [(at("11:00"), io.end_s, 3_600, 18_750)]
    [(_, _, sustained, maximum)] = limits(throughput)
    assert (round(sustained, 2), round(maximum, 2)) == (77.49, 566.24)


def test_an_instance_may_owe_the_datapoints_of_a_quarter_of_an_hour():
    history = MetricHistory(period_s=300, balance=every_five_minutes(9, 80))
    assert gap_reasons(an_instance_chronology(INSTANCE_IO, history)) == [], "seen until 11:45"
    late = an_instance_chronology(INSTANCE_IO, history, now="12:01")
    assert gap_reasons(late) == [(at("11:45"), at("12:01"), DataGapReason.GAP)]


def test_before_its_last_start_an_instance_was_not_running():
    instance = an_instance(launched_at=NOON.replace(hour=11, minute=20))
    history = MetricHistory(period_s=300, balance=every_five_minutes(5, 100, first="11:25"))
    assert gap_reasons(an_instance_chronology(INSTANCE_IO, history, instance=instance)) == [
        (at("11:00"), at("11:20"), DataGapReason.NOT_RUNNING),
        (at("11:20"), at("11:25"), DataGapReason.GAP),
    ]


def test_a_gap_of_an_instance_has_the_reason_that_the_assessment_knows():
    instance = an_instance(has_detailed_monitoring=True)
    assessment = assess_resource(
        instance,
        INSTANCE_THROUGHPUT,
        BucketReading(balance=Series(), publishes_others=True),
        now_s=at(NOW),
        telemetry=Policy().telemetry,
    )
    timeline = an_instance_chronology(
        INSTANCE_THROUGHPUT, MetricHistory(period_s=300), instance=instance, assessment=assessment
    )
    assert gap_reasons(timeline) == [(at("11:00"), at(NOW), DataGapReason.DETAILED_MONITORING)]


def test_an_instance_of_a_type_without_known_limits_has_none():
    history = MetricHistory(period_s=300, balance=every_five_minutes(10, 80))
    assert an_instance_chronology(INSTANCE_IO, history, instance=an_instance(limits=None)).limits == []


def test_the_load_and_the_limits_of_an_st1_volume_are_in_mib():
    # 1 TiB sustains 40 MiB/s and bursts to 250
    volume = a_volume(1_024, volume_type="st1")
    balance = falling("11:00", 90, 1, 59)
    history = MetricHistory(
        period_s=60,
        balance=balance,
        read_bytes=Series(balance.starts_at_s, (60 * 200.0 * 2**20,) * len(balance)),
        write_ops=Series(balance.starts_at_s, (600.0,) * len(balance)),
    )
    timeline = a_chronology(history, volume=volume, assessment=an_assessment(balance, volume=volume))
    assert set(timeline.served.values) == {200.0}
    assert limits(timeline) == [(at("11:00"), timeline.end_s, 40, 250)]
    assert timeline.forecast_cone.estimated_empty_at_s is not None


def test_pieces_end_at_gaps():
    series = minutes("11:00", 1, 2, 3, 4, 5, skip=range(2, 3))
    assert [piece.values for piece in contiguous_pieces(series, 60)] == [(1, 2), (4, 5)]
    assert list(contiguous_pieces(Series(), 60)) == []


def test_steps_keep_the_least_or_the_most_of_them_and_gaps_stay_gaps():
    series = minutes("11:00", 5, 3, 4, 9, 8, 7, 1, 2, 3, skip=range(3, 6))
    assert downsample(series, 180, min) == Series((int(at("11:00")), int(at("11:06"))), (3, 1))
    assert downsample(series, 180, max).values == (5, 3)


def levels(timeline):
    return [(level.start_s, level.end_s, str(level.level)) for level in timeline.levels]


def test_the_level_before_the_first_evaluation_is_not_claimed():
    # below 95 % since 09:05, empty since 10:40; the first look is at 11:45
    entries = [a_level("11:45", "ok", "exhausted")]
    timeline = a_chronology(a_history(falling("09:00", 100, 1, 180)), start="09:00", entries=entries)
    assert levels(timeline) == [(at("11:45"), at(NOW), "exhausted")]


def test_the_level_is_ok_until_an_evaluation_saw_a_drain():
    calm = [(sample.start_at_s, sample.value) for sample in falling("09:00", 100, 0, 150)]
    falls = [(sample.start_at_s, sample.value) for sample in falling("11:30", 94, 1, 29)]
    entries = [a_level("11:45", "ok", "watch")]
    timeline = a_chronology(a_history(Series.from_pairs([*calm, *falls])), start="08:00", entries=entries)
    assert levels(timeline) == [
        (at("09:00"), at("11:45"), "ok"),
        (at("11:45"), at(NOW), "watch"),
    ], "nothing was seen before nine"


def test_a_level_that_is_written_down_stays_whatever_the_balance():
    entries = [a_level("09:30", "warning", "ok"), a_level("11:45", "ok", "watch")]
    timeline = a_chronology(a_history(falling("09:00", 50, 0, 180)), start="09:00", entries=entries)
    assert levels(timeline)[0] == (at("09:00"), at("09:30"), "warning")
    assert levels(timeline)[1] == (at("09:30"), at("11:45"), "ok")

"""The report's parts that are values: axes, packed lines, dollars of intervals, and JSON that cannot act."""

import json
from datetime import timedelta

import pytest

from burstctl.report.activity import ActivityKind, count_activities, read_activities
from burstctl.report.costs import summarise_costs
from burstctl.report.format import format_lookback
from burstctl.report.page import escape_json
from burstctl.report.page_data import align_to_axis, encode_runs
from burstctl.report.series import Axis, choose_axis
from burstctl.timeline.flip_costs import begins_mid_interval, flip_costs
from burstwatch.core.buckets.series import Series
from burstwatch.core.ledger.flip_state import EXTERNAL, configuration_to_document
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.policy.policy import Policy
from support.builders.core_values import GP2, GP3, IO1, a_flip, a_state, a_volume, at

HOUR_S = 3600


def entry(kind, clock, **body):
    return LedgerEntry(
        volume_id="vol-0a1", revision=int(at(clock)), kind=kind, at_s=int(at(clock)), body=body
    )


def accepted_entry(clock, direction, more, *, to=GP3, intent="i1"):
    return entry(
        EntryKind.ACCEPTED,
        clock,
        intent_id=intent,
        direction=direction,
        usd_per_month_more=more,
        to=configuration_to_document(to),
        original=configuration_to_document(GP2),
        **{"from": configuration_to_document(GP2)},
        by="watchdog",
        summary=f"is being modified to {to}",
    )


@pytest.mark.parametrize(
    ("hours", "most", "period_s", "count"),
    [
        (1, 72, 60, 60),
        (6, 72, 300, 72),
        (24, 72, 1_800, 48),
        (24, 300, 300, 288),
        (7 * 24, 72, 14_400, 42),
        (30 * 24, 72, 43_200, 60),
    ],
)
def test_an_axis_is_as_fine_as_a_few_dozen_points_allow(hours, most, period_s, count):
    axis = choose_axis(0, hours * HOUR_S, max_points=most)
    assert (axis.period_s, axis.count) == (period_s, count)


def test_an_axis_covers_the_time_requested_and_lies_on_multiples_of_its_period():
    axis = choose_axis(at("09:07"), at("12:00"), max_points=72)
    assert axis.start_s % axis.period_s == 0
    assert axis.start_s <= at("09:07")
    assert axis.end_s >= at("12:00")


def test_an_axis_is_no_finer_than_the_metric():
    axis = choose_axis(0, 6 * HOUR_S, max_points=1_000, metric_period_s=300)
    assert (axis.period_s, axis.count) == (300, 72)


def test_beyond_fifteen_days_cloudwatch_keeps_no_minutes():
    assert choose_axis(0, 16 * 24 * HOUR_S, max_points=100_000).period_s == 300


@pytest.mark.parametrize(
    ("values", "scale", "text"),
    [
        ([], 1, ""),
        ([100.0] * 47 + [98.5], 10, "1000x47,985"),
        ([None, None, 3.0, None], 1, "x2,3,"),
        ([None] * 3, 1, "x3"),
        ([0.0, 0.04], 10, "0x2"),
        ([99.99], 10, "999"),
    ],
)
def test_a_line_is_packed_and_never_shows_more_than_there_was(values, scale, text):
    assert encode_runs(values, scale) == text


def test_what_is_missing_on_an_axis_is_none_and_not_the_value_before():
    series = Series.from_pairs([(120, 5.0), (240, 6.0)])
    assert align_to_axis(series, Axis(start_s=60, period_s=60, count=5)) == [None, 5.0, None, 6.0, None]


def test_json_in_a_page_keeps_its_meaning_and_has_nothing_that_acts():
    hostile = {"</script>": "<!-- & --> \u2028\u2029 \ud800 ]]>"}
    text = escape_json(hostile)
    assert set(text) & set("<>&\u2028\u2029") == set()
    assert text.isascii()
    assert json.loads(text) == hostile


def test_an_interval_costs_its_share_of_a_month():
    # 73 a month are 0.10 an hour; away from 8 to 11
    intervals = flip_costs(
        [
            accepted_entry("08:00", "out", 73.0, to=IO1),
            accepted_entry("11:00", "back", -73.0, to=GP2, intent="i2"),
        ],
        None,
    )
    [interval] = intervals
    assert interval.usd_within(at("00:00"), at("12:00")) == pytest.approx(0.30)
    assert interval.usd_within(at("10:00"), at("12:00")) == pytest.approx(0.10)
    assert interval.usd_within(at("11:30"), at("12:00")) == 0
    assert interval.usd_saved_by_return(at("00:00"), at("12:00")) == pytest.approx(0.10)


def test_what_a_return_saves_ends_when_the_volume_goes_again():
    # 0.10 an hour; away from 8 to 9 and from 10 to 11: at home for one hour each until noon
    nightly = [
        accepted_entry(clock, direction, usd, to=IO1 if usd > 0 else GP2, intent=clock)
        for clock, direction, usd in (
            ("08:00", "out", 73.0), ("09:00", "back", -73.0),
            ("10:00", "out", 73.0), ("11:00", "back", -73.0),
        )
    ]  # fmt: skip
    for step in (2, 5):
        nightly.insert(step, entry(EntryKind.RESTORED, nightly[step - 1].body["intent_id"], direction="back"))
    intervals = flip_costs(nightly, None)
    saved = [interval.usd_saved_by_return(at("00:00"), at("12:00")) for interval in intervals]
    assert saved == [pytest.approx(0.10), pytest.approx(0.10)]


def test_a_return_saves_in_the_report_of_its_time_and_not_in_each_one_after():
    entries = [
        accepted_entry("08:00", "out", 73.0, to=IO1),
        accepted_entry("09:00", "back", -73.0, intent="i2"),
    ]
    [interval] = flip_costs(entries, None)
    assert interval.usd_saved_by_return(at("08:30"), at("12:00")) == pytest.approx(0.30)
    assert interval.usd_saved_by_return(at("09:30"), at("12:00")) == 0


@pytest.mark.parametrize(
    ("entries", "is_midway"),
    [
        ([], False),
        ([entry(EntryKind.LEVEL_CHANGED, "08:00")], False),
        ([accepted_entry("08:00", "out", 73.0, to=IO1)], False),
        ([accepted_entry("11:00", "back", -73.0)], True),
        ([entry(EntryKind.REACHED, "08:30"), accepted_entry("11:00", "back", -73.0)], True),
    ],
)
def test_only_older_intervals_need_the_whole_history(entries, is_midway):
    assert begins_mid_interval(entries) is is_midway


def test_a_second_flip_belongs_to_an_older_interval():
    further = accepted_entry("09:00", "out", 74.88, to=IO1)
    gp3 = LedgerEntry(
        volume_id="vol-0a1",
        revision=1,
        kind=further.kind,
        at_s=further.at_s,
        body={**further.body, "from": configuration_to_document(GP3)},
    )
    assert begins_mid_interval([gp3])
    assert not begins_mid_interval([accepted_entry("08:00", "out", -1.88), gp3])


def test_an_open_interval_is_billed_to_now():
    [interval] = flip_costs([accepted_entry("08:00", "out", 73.0)], a_state(flip=a_flip()))
    assert interval.ended_at_s is None
    assert interval.usd_within(at("00:00"), at("12:00")) == pytest.approx(0.40)
    assert interval.usd_saved_by_return(at("00:00"), at("12:00")) == 0


def test_a_second_flip_outward_costs_its_difference_on_top():
    intervals = flip_costs(
        [accepted_entry("08:00", "out", -1.88), accepted_entry("09:00", "out", 74.88, to=IO1, intent="i2")],
        None,
    )
    assert [interval.usd_per_month for interval in intervals] == [-1.88, 73.0]
    assert intervals[0].ended_at_s == at("09:00")


def test_a_flip_older_than_the_ledger_comes_from_the_state():
    [interval] = flip_costs([], a_state(flip=a_flip(usd_per_month=7.3)))
    assert (interval.started_at_s, interval.usd_per_month) == (at("10:00"), 7.3)


def test_a_modification_that_failed_costs_nothing():
    failed = entry(EntryKind.FAILED, "08:05", intent_id="i1", direction="out")
    assert flip_costs([accepted_entry("08:00", "out", 73.0), failed], None) == []


def test_money_is_distinguished_by_where_it_comes_from():
    expensive = flip_costs(
        [accepted_entry("08:00", "out", 73.0, to=IO1), accepted_entry("10:00", "back", -73.0, intent="i2")],
        None,
    )
    cheap = flip_costs([accepted_entry("08:00", "out", -7.3)], None)
    money = summarise_costs(
        [*expensive, *cheap],
        states={"vol-0a1": a_state(flip=a_flip(usd_per_month=10.0))},
        volumes=[a_volume(100), a_volume(2), a_volume(100, volume_type="gp3")],
        policy=Policy().flip,
        start_s=at("06:00"),
        end_s=at("12:00"),
    )
    assert money.flips_usd == pytest.approx(0.20)
    assert money.saved_by_return_usd == pytest.approx(0.20)
    assert money.saved_on_cheaper_usd == pytest.approx(0.04)
    assert (money.flips, money.returns, money.on_target, money.on_target_usd_per_month) == (2, 1, 1, 10.0)
    # 100 GiB: 10.00 less 8.00 and 3 MiB/s at 0.04; 2 GiB: 0.20 less 0.16 and 0.12, which is more expensive
    assert (money.gp3.volumes, money.gp3.gp2_volumes) == (1, 2)
    assert money.gp3.usd_per_month == pytest.approx(1.88)


def test_when_gp3_does_not_exist_it_saves_nothing():
    volumes = [a_volume(100), a_volume(100, volume_id="vol-0b2")]
    result = summarise_costs(
        [],
        states={},
        volumes=volumes,
        without_gp3={"vol-0a1"},
        policy=Policy().flip,
        start_s=at("06:00"),
        end_s=at("12:00"),
    )
    assert (result.gp3.volumes, result.gp3.gp2_volumes) == (1, 2)
    assert result.gp3.usd_per_month == pytest.approx(1.88)


def test_an_intent_shows_its_outcome_and_levels_only_in_the_volume_history():
    intent = entry(
        EntryKind.INTENT, "07:59", intent_id="i1", direction="out", summary="will be modified to gp3"
    )
    level = entry(EntryKind.LEVEL_CHANGED, "07:58", **{"from": "ok", "to": "critical"})
    activities = read_activities([level, intent, accepted_entry("08:00", "out", 1.0)])
    assert [(action.kind, action.is_secondary, action.letter) for action in activities] == [
        (ActivityKind.LEVEL, True, "C"),
        (ActivityKind.FLIPPED, True, ""),
        (ActivityKind.FLIPPED, False, "F"),
    ]
    assert count_activities(activities)["flipped"] == 1
    [activity] = read_activities([intent])
    assert not activity.is_secondary


def test_a_change_that_is_stuck_is_not_counted_as_failed():
    activities = read_activities(
        [entry(EntryKind.STUCK, "08:00", summary="is still optimizing at 40 % after 4 h 00 min")]
    )
    counts = count_activities(activities)
    assert (counts["failed"], counts["noted"]) == (0, 1)


def test_external_changes_and_windows_are_described():
    activities = read_activities(
        [
            entry(EntryKind.WINDOW, "08:00", starts=True, by="anna", until_s=int(at("10:00"))),
            entry(EntryKind.WINDOW, "09:00", starts=False, by="anna", until_s=None),
            entry(EntryKind.POLICY_REJECTED, "09:30", faults=["levels.warning: no"]),
        ]
    )
    assert [action.line for action in activities] == [
        "is started for 2 h (until 10:00 UTC) by anna",
        "is stopped by anna",
        "is rejected, the last valid one stays in force",
    ]
    assert activities[2].details == ["levels.warning: no"]


@pytest.mark.parametrize(
    ("span", "text"),
    [(timedelta(hours=24), "24 h"), (timedelta(days=7), "7 days"), (timedelta(minutes=90), "90 min")],
)
def test_a_duration_is_formatted_for_people(span, text):
    assert format_lookback(span) == text


def test_external_intervals_are_not_our_cost():
    assert flip_costs([], a_state(flip=a_flip(by=EXTERNAL))) == []

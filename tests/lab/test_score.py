"""The score: what it judges by, and that its contenders play by the same rules."""

import gzip
import json
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from burstlab.main import main
from burstlab.model.load import LoadError, Recording
from burstlab.model.minute_history import MINUTE_S
from burstlab.score.baselines import RIVALS, Seen, calls_of, lasts_20_minutes_pct
from burstlab.score.cases import Bursts, Case, Recorded, Shape, find_recordings
from burstlab.score.command import Traces
from burstlab.score.ground_truth import START_S, leave_alone
from burstlab.score.job import NOTHING, ORACLE, OURS, TARGETS, Job, score
from burstlab.score.metric_delay import Weather
from burstlab.score.oracle import foresee, next_stall_s
from burstlab.score.record import Move, is_free, usd_over_gp2
from burstlab.score.replay import BACK
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.policy.policy import Policy

HOUR_S = 3600
CLEAR = Weather(gap_every_s=0)
SETTINGS = CLEAR.settings(queued=False)
NIGHT = [20.0] * 2 + [2_900.0] * 3 + [20.0] * 7
"""Twelve hours: a batch of three hours empties a small bucket."""


def a_case(iops=NIGHT, *, size_gib=100, shape=Shape.FLAT, step_s=HOUR_S) -> Case:
    recorded = Recorded(folder="set", name="disk", recording=Recording(step_s, [0.0] * len(iops), list(iops)))
    return Case(recorded, 1, size_gib, shape)


def test_a_volume_that_is_left_alone_runs_dry_when_arithmetic_says_so():
    course = leave_alone(a_case(), SETTINGS)

    dry_s = START_S + 2 * HOUR_S + 5_400_000 / (2_900 - 300)
    [depletion] = course.depletions
    assert 0 <= dry_s - depletion.dry_s < MINUTE_S
    assert depletion.from_high
    assert course.stalled_s == pytest.approx(5 * HOUR_S - (dry_s - START_S))


def test_what_comes_within_a_day_counts_also_beyond_the_recordings_end():
    course = leave_alone(a_case(), SETTINGS)

    assert course.is_dry_within(START_S)
    assert course.is_dry_within(START_S + 11 * HOUR_S)
    assert not course.is_dry_within(START_S + 6 * HOUR_S, span_s=HOUR_S)


def test_a_bucket_that_hovers_near_empty_runs_dry_once():
    course = leave_alone(a_case([2_900.0] * 2 + [250.0, 350.0] * 5), SETTINGS)

    assert len(course.depletions) == 1


@pytest.mark.parametrize("mean", [0.0, 1.0, 700.0, 2_999.0, 3_000.0, 8_000.0])
def test_bursts_ask_for_as_much_as_was_recorded(mean):
    load = Bursts(Recording(1_800, [mean / 4] * 3, [mean * 3 / 4] * 3))

    at_s, asked = 0, 0.0
    while at_s < 3 * 1_800:
        reads, writes, until_s = load.segment(at_s, 0)
        assert until_s > at_s
        assert reads + writes <= max(3_000 * 1.01, mean)
        asked, at_s = asked + (reads + writes) * (until_s - at_s), until_s
    assert at_s == 3 * 1_800
    assert asked == pytest.approx(3 * 1_800 * mean)


def test_an_alarm_sees_a_minute_only_when_it_has_appeared():
    case = a_case()
    course = leave_alone(case, SETTINGS)
    one_minute = next(rival for rival in RIVALS if rival.every_min == rival.span_min == 1)

    [(since_s, _)] = calls_of(one_minute, case, Seen(case, course, CLEAR), CLEAR)[:1]

    crossed = next(minute for minute, pct in enumerate(course.minima) if pct < 20)
    assert since_s == START_S + (crossed + 1) * MINUTE_S + CLEAR.lag_most_s


def test_a_minute_that_never_appears_is_not_taken_for_an_empty_bucket():
    case = a_case([0.0] * 12)
    weather = Weather(gap_every_s=HOUR_S, gap_s=10 * MINUTE_S)
    seen = Seen(case, leave_alone(case, SETTINGS), weather)

    assert any(seen.mean(minute, 1) is None for minute in range(seen.minutes))
    assert all(calls_of(rival, case, seen, weather) == [] for rival in RIVALS[:2])


def test_no_balance_of_a_small_volume_lasts_for_long():
    assert lasts_20_minutes_pct(8) == pytest.approx(64.4, abs=0.1)
    assert lasts_20_minutes_pct(500) == pytest.approx(33.3, abs=0.1)


def test_the_oracle_knows_the_first_stall_to_the_second():
    stall_s = next_stall_s(a_case(), START_S, 5_400_000.0, START_S + 12 * HOUR_S)

    assert stall_s == pytest.approx(START_S + 2 * HOUR_S + 5_400_000 / 2_600)
    assert next_stall_s(a_case(), START_S + 5 * HOUR_S, 0.0, START_S + 12 * HOUR_S) is None


@pytest.mark.parametrize("target", TARGETS)
def test_the_oracle_leaves_no_stall_that_can_be_helped(target):
    case = a_case()
    course = leave_alone(case, SETTINGS)

    record = foresee(case, course, target, SETTINGS)

    assert record.stalled_s <= 0.005 * course.stalled_s
    assert record.moves


def test_the_oracle_comes_back_from_what_is_dear_where_that_is_safe():
    case = a_case()
    record = foresee(case, leave_alone(case, SETTINGS), VolumeType.IO1, SETTINGS)

    assert [move.is_out for move in record.moves] == [True, False]
    stayed_s = record.moves[1].at_s - record.moves[0].at_s
    assert stayed_s < 5 * HOUR_S


def test_the_oracle_does_nothing_where_nothing_stalls():
    case = a_case([100.0] * 12)

    assert foresee(case, leave_alone(case, SETTINGS), VolumeType.IO1, SETTINGS).moves == ()


def test_a_stay_costs_from_when_it_is_asked_for_to_when_the_return_is():
    case = a_case()
    io1 = Configuration(volume_type=VolumeType.IO1, iops=3_000)

    usd = usd_over_gp2(case, [Move(START_S, io1), Move(START_S + 2 * HOUR_S, BACK)])

    per_month = 100 * 0.125 + 3_000 * 0.065 - 100 * 0.10
    assert usd == pytest.approx(per_month * 2 / 730)
    assert usd_over_gp2(case, []) == 0


@pytest.mark.parametrize(
    ("size_gib", "iops", "throughput", "expected"),
    [
        (100, 3_000, 128, True),  # $8.12 a month, gp2 $10
        (100, 3_750, 128, False),  # $11.87
        (200, 3_000, 250, False),  # $21, gp2 $20
    ],
)
def test_a_needless_flip_is_free_where_its_target_costs_no_more_than_gp2(
    size_gib, iops, throughput, expected
):
    target = Configuration(volume_type=VolumeType.GP3, iops=iops, throughput_mib_s=throughput)
    assert is_free(a_case(size_gib=size_gib), Move(START_S, target)) is expected


def test_every_contender_plays_every_case_and_burstwatch_keeps_its_promise():
    cases = [a_case(), a_case(shape=Shape.BURSTY), a_case([30.0] * 12, size_gib=8)]

    outcomes = score(Job(cases=cases, policy=Policy(), weather=Weather()))

    names = {*(rival.name for rival in RIVALS), OURS, ORACLE}
    for outcome in outcomes:
        assert {tally.contender for tally in outcome.tallies} == names
        assert {tally.target for tally in outcome.tallies if tally.contender == OURS} == {None, *TARGETS}
    flat = outcomes[0]
    [alerts] = [one for one in flat.tallies if one.contender == OURS and one.target is None]
    [foretold] = alerts.foretold
    assert foretold.from_high
    assert foretold.in_focus
    assert foretold.lead_s >= 0.95 * foretold.minute_lead_s - 2 * MINUTE_S
    [flipped] = [one for one in flat.tallies if one.contender == OURS and one.target == VolumeType.GP3]
    assert flipped.flips == 1
    assert flipped.stalled_s < 0.1 * flat.stalled_s
    assert outcomes[2].is_calm
    assert all(tally.flips == 0 for tally in outcomes[2].tallies)


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / "disks"
    found.mkdir()
    rows = [f"{HOUR_S * hour},0,{iops}" for hour, iops in enumerate(NIGHT[:8])]
    text = "\n".join(["seconds_since_start,read_ops_per_s,write_ops_per_s", *rows])
    (found / "one.csv.gz").write_bytes(gzip.compress(text.encode()))
    return found


def test_recordings_are_found_in_a_folder_and_in_those_below_it(folder):
    empty = folder / "empty"
    empty.mkdir()
    assert [one.name for one in find_recordings([folder])] == ["one"]
    assert [one.folder for one in find_recordings([folder.parent])] == ["disks"]
    with pytest.raises(LoadError, match="no such folder"):
        find_recordings([folder / "missing"])
    with pytest.raises(LoadError, match="no recording"):
        find_recordings([empty])


def test_the_command_prints_tables_and_json_and_a_picture(folder, tmp_path):
    picture = tmp_path / "plane.png"
    given = ["score", str(folder), "--sizes", "33", "--shape", "flat", "--workers", "1"]

    ran = CliRunner().invoke(main, [*given, "--picture", str(picture)])

    assert ran.exit_code == 0, ran.output
    assert max(map(len, ran.stdout.splitlines())) <= 80
    assert NOTHING in ran.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    told = json.loads(CliRunner().invoke(main, [*given, "--json"]).stdout)
    assert told["schema"] == "burstwatch.score/v1"
    [figures] = told["sets"]
    assert figures["cases"] == 1
    avoided = [one["avoided_pct"] for one in figures["acting"]["gp3"]]
    assert avoided[0] == 0
    assert avoided[-1] == 100


def test_a_folder_may_have_scales_of_its_own(folder):
    convert = Traces().convert
    assert convert("disks", None, None) == (Path("disks"), None)
    assert convert("disks@4,8", None, None) == (Path("disks"), (4, 8))
    named = folder.rename(folder.parent / "disks@4")
    assert convert(str(named), None, None) == (named, None)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--sizes", "8,huge"], "write numbers with commas"),
        (["--sizes", "2000"], "must be from 1 to 999"),
        (["--scale", "0"], "must be from 0.001"),
        (["disks@0"], "must be from 0.001"),
        (["disks@many"], "write numbers with commas"),
        (["--policy", "missing.yaml"], "missing.yaml"),
    ],
)
def test_wrong_input_gets_one_clear_message(folder, given, says):
    ran = CliRunner().invoke(main, ["score", str(folder), *given])

    assert ran.exit_code != 0
    assert says in ran.output
    assert "Traceback" not in ran.output


def test_gaps_lie_apart_and_differ_by_volume():
    weather = Weather()
    gaps = list(weather.gaps("vol-1", 24 * HOUR_S))

    assert all(one[1] <= other[0] for one, other in pairwise(gaps))
    assert gaps != list(weather.gaps("vol-2", 24 * HOUR_S))

"""The score: what it judges by, and that its contenders play by the same rules."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from burstlab.main import main
from burstlab.model.loads.load import LoadError, Recording
from burstlab.model.minute_history import MINUTE_S
from burstlab.score import command
from burstlab.score.baselines import BASELINES, PublishedBalance, burst_reserve_pct, find_alarm_spans
from burstlab.score.cases import BurstyLoad, Case, LoadShape, NamedRecording, find_recordings
from burstlab.score.command import TracesWithScales, run_jobs
from burstlab.score.ground_truth import START_S, simulate_unattended
from burstlab.score.job import BURSTWATCH, NO_ACTION, ORACLE, TARGETS, Job, score_job
from burstlab.score.metric_delay import MetricDelay
from burstlab.score.oracle import next_stall_at_s, plan_with_foresight
from burstlab.score.record import AcceptedModification, is_free, usd_over_gp2
from burstlab.score.replay import GP2
from burstwatch.core.ebs.pricing import Configuration, VolumeType
from burstwatch.core.policy.policy import Policy
from support.lab.scored_night import HOUR_S, NIGHT

NO_DELAY = MetricDelay(gap_interval_s=0)
SETTINGS = NO_DELAY.settings(queued=False)


def a_case(iops=NIGHT, *, size_gib=100, shape=LoadShape.FLAT, step_s=HOUR_S) -> Case:
    recorded = NamedRecording(
        folder="set", name="disk", recording=Recording(step_s, [0.0] * len(iops), list(iops))
    )
    return Case(recorded, 1, size_gib, shape)


def test_a_volume_that_is_left_alone_runs_out_of_credits_at_the_computed_time():
    course = simulate_unattended(a_case(), SETTINGS)

    empty_s = START_S + 2 * HOUR_S + 5_400_000 / (2_900 - 300)
    [depletion] = course.depletions
    assert 0 <= empty_s - depletion.empty_at_s < MINUTE_S
    assert depletion.is_from_high
    assert course.stalled_s == pytest.approx(5 * HOUR_S - (empty_s - START_S))


def test_what_comes_within_a_day_counts_also_beyond_the_recordings_end():
    course = simulate_unattended(a_case(), SETTINGS)

    assert course.is_empty_within(START_S)
    assert course.is_empty_within(START_S + 11 * HOUR_S)
    assert not course.is_empty_within(START_S + 6 * HOUR_S, horizon_s=HOUR_S)


def test_a_bucket_that_hovers_near_empty_runs_out_of_credits_once():
    course = simulate_unattended(a_case([2_900.0] * 2 + [250.0, 350.0] * 5), SETTINGS)

    assert len(course.depletions) == 1


@pytest.mark.parametrize("mean", [0.0, 1.0, 700.0, 2_999.0, 3_000.0, 8_000.0])
def test_bursts_request_as_much_as_was_recorded(mean):
    load = BurstyLoad(Recording(1_800, [mean / 4] * 3, [mean * 3 / 4] * 3))

    at_s, operations = 0, 0.0
    while at_s < 3 * 1_800:
        reads, writes, until_s = load.segment(at_s, 0)
        assert until_s > at_s
        assert reads + writes <= max(3_000 * 1.01, mean)
        operations, at_s = operations + (reads + writes) * (until_s - at_s), until_s
    assert at_s == 3 * 1_800
    assert operations == pytest.approx(3 * 1_800 * mean)


def test_an_alarm_sees_a_minute_only_after_publication():
    case = a_case()
    course = simulate_unattended(case, SETTINGS)
    one_minute = next(rival for rival in BASELINES if rival.interval_min == rival.span_min == 1)

    [(since_s, _)] = find_alarm_spans(one_minute, case, PublishedBalance(case, course, NO_DELAY), NO_DELAY)[
        :1
    ]

    crossed = next(minute for minute, pct in enumerate(course.minima) if pct < 20)
    assert since_s == START_S + (crossed + 1) * MINUTE_S + NO_DELAY.max_lag_s


def test_a_minute_that_never_appears_is_not_taken_for_an_empty_bucket():
    case = a_case([0.0] * 12)
    weather = MetricDelay(gap_interval_s=HOUR_S, gap_duration_s=10 * MINUTE_S)
    published = PublishedBalance(case, simulate_unattended(case, SETTINGS), weather)

    assert any(published.mean(minute, 1) is None for minute in range(published.minutes))
    assert all(find_alarm_spans(rival, case, published, weather) == [] for rival in BASELINES[:2])


def test_no_balance_of_a_small_volume_lasts_for_long():
    assert burst_reserve_pct(8) == pytest.approx(64.4, abs=0.1)
    assert burst_reserve_pct(500) == pytest.approx(33.3, abs=0.1)


def test_the_oracle_knows_the_first_stall_to_the_second():
    stall_s = next_stall_at_s(a_case(), START_S, 5_400_000.0, START_S + 12 * HOUR_S)

    assert stall_s == pytest.approx(START_S + 2 * HOUR_S + 5_400_000 / 2_600)
    assert next_stall_at_s(a_case(), START_S + 5 * HOUR_S, 0.0, START_S + 12 * HOUR_S) is None


@pytest.mark.parametrize("target", TARGETS)
def test_the_oracle_leaves_no_stall_that_can_be_helped(target):
    case = a_case()
    course = simulate_unattended(case, SETTINGS)

    record = plan_with_foresight(case, course, target, SETTINGS)

    assert record.stalled_s <= 0.005 * course.stalled_s
    assert record.modifications


def test_the_oracle_returns_from_expensive_targets_when_safe():
    case = a_case()
    record = plan_with_foresight(case, simulate_unattended(case, SETTINGS), VolumeType.IO1, SETTINGS)

    assert [move.is_flip for move in record.modifications] == [True, False]
    stayed_s = record.modifications[1].at_s - record.modifications[0].at_s
    assert stayed_s < 5 * HOUR_S


def test_the_oracle_does_nothing_where_nothing_stalls():
    case = a_case([100.0] * 12)

    assert (
        plan_with_foresight(case, simulate_unattended(case, SETTINGS), VolumeType.IO1, SETTINGS).modifications
        == ()
    )


def test_an_interval_on_target_costs_from_request_to_return():
    case = a_case()
    io1 = Configuration(volume_type=VolumeType.IO1, iops=3_000)

    usd = usd_over_gp2(
        case, [AcceptedModification(START_S, io1), AcceptedModification(START_S + 2 * HOUR_S, GP2)]
    )

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
def test_an_unneeded_flip_is_free_when_its_target_costs_no_more_than_gp2(
    size_gib, iops, throughput, expected
):
    target = Configuration(volume_type=VolumeType.GP3, iops=iops, throughput_mib_s=throughput)
    assert is_free(a_case(size_gib=size_gib), AcceptedModification(START_S, target)) is expected


def test_every_strategy_runs_every_case_and_burstwatch_keeps_its_promise():
    cases = [a_case(), a_case(shape=LoadShape.BURSTY), a_case([30.0] * 12, size_gib=8)]

    outcomes = score_job(Job(cases=cases, policy=Policy(), metric_delay=MetricDelay()))

    names = {*(rival.name for rival in BASELINES), BURSTWATCH, ORACLE}
    for outcome in outcomes:
        assert {tally.contender for tally in outcome.tallies} == names
        assert {tally.target for tally in outcome.tallies if tally.contender == BURSTWATCH} == {
            None,
            *TARGETS,
        }
    flat = outcomes[0]
    [alerts] = [item for item in flat.tallies if item.contender == BURSTWATCH and item.target is None]
    [depletion_score] = alerts.depletion_scores
    assert depletion_score.is_from_high
    assert depletion_score.is_in_focus
    assert depletion_score.lead_s >= 0.95 * depletion_score.minute_lead_s - 2 * MINUTE_S
    [flipped] = [
        item for item in flat.tallies if item.contender == BURSTWATCH and item.target == VolumeType.GP3
    ]
    assert flipped.flips == 1
    assert flipped.stalled_s < 0.1 * flat.stalled_s
    assert outcomes[2].is_calm
    assert all(tally.flips == 0 for tally in outcomes[2].tallies)


def test_recordings_are_found_in_a_folder_and_in_those_below_it(disks):
    empty = disks / "empty"
    empty.mkdir()
    assert [recording.name for recording in find_recordings([disks])] == ["one"]
    assert [recording.folder for recording in find_recordings([disks.parent])] == ["disks"]
    with pytest.raises(LoadError, match="no such folder"):
        find_recordings([disks / "missing"])
    with pytest.raises(LoadError, match="no recording"):
        find_recordings([empty])


def test_the_command_prints_tables_and_json_and_a_picture(disks, tmp_path, monkeypatch):
    """The cases are run for the tables; JSON has the outcomes of the same cases."""
    ran = []

    def run_once(jobs, workers):
        names = [case.name for job in jobs for case in job.cases]
        if not ran:
            ran.append((names, run_jobs(jobs, workers)))
        names_before, outcomes = ran[0]
        assert names == names_before
        return outcomes

    monkeypatch.setattr(command, "run_jobs", run_once)
    picture = tmp_path / "plane.png"
    arguments = ["score", str(disks), "--sizes", "33", "--shape", "flat", "--workers", "1"]

    cli_result = CliRunner().invoke(main, [*arguments, "--picture", str(picture)])

    assert cli_result.exit_code == 0, cli_result.output
    assert max(map(len, cli_result.stdout.splitlines())) <= 80
    assert NO_ACTION in cli_result.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    result = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    assert result["schema"] == "burstwatch.score/v1"
    [figures] = result["sets"]
    assert figures["cases"] == 1
    avoided = [item["avoided_pct"] for item in figures["acting"]["gp3"]]
    assert avoided[0] == 0
    assert avoided[-1] == 100


def test_a_folder_may_have_scales_of_its_own(disks):
    convert = TracesWithScales().convert
    assert convert("disks", None, None) == (Path("disks"), None)
    assert convert("disks@4,8", None, None) == (Path("disks"), (4, 8))
    named = disks.rename(disks.parent / "disks@4")
    assert convert(str(named), None, None) == (named, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sizes", "8,huge"], "write numbers with commas"),
        (["--sizes", "2000"], "must be from 1 to 999"),
        (["--scale", "0"], "must be from 0.001"),
        (["disks@0"], "must be from 0.001"),
        (["disks@many"], "write numbers with commas"),
        (["--policy", "missing.yaml"], "missing.yaml"),
    ],
)
def test_invalid_input_gets_one_clear_message(disks, arguments, message):
    result = CliRunner().invoke(main, ["score", str(disks), *arguments])

    assert result.exit_code != 0
    assert message in result.output
    assert "Traceback" not in result.output


def test_gaps_lie_apart_and_differ_by_volume():
    weather = MetricDelay()
    gaps = list(weather.gaps("vol-1", 24 * HOUR_S))

    assert all(item[1] <= other[0] for item, other in pairwise(gaps))
    assert gaps != list(weather.gaps("vol-2", 24 * HOUR_S))

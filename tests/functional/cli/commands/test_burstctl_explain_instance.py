"""burstctl explain INSTANCE: each bucket, its numbers, and the proof if it cannot drain."""

import pytest

from burstlab.fake_aws.faults import Fault
from burstwatch.core.text import display_width
from support.cli.cli_session import (
    INSTANCE,
    add_calm,
    add_draining_instance,
    add_gp3,
    add_lab_instance,
    run_on_terminal,
)


def on_one_line(result):
    return " ".join(result.out.split())


def bucket_of(document, name):
    return next(bucket for bucket in document["buckets"] if bucket["bucket"] == name)


def test_a_draining_bucket_has_its_forecast_its_bound_and_what_shows_it(cli, lab):
    add_draining_instance(lab, io_pct=90)

    result = cli.run("explain", INSTANCE)
    text = on_one_line(result)

    # 90 % of 17,640,000 less 85 min of 2,000 a second are 5,676,000, in the datapoint of 17:55.
    assert result.code == 0, result.err
    assert result.out.startswith(
        "WARNING: EBS I/O credits empty in about 42 min (18:42), not before 18:18 UTC\n"
    )
    assert f"{INSTANCE} (build-host), t3.medium, running, 2 volumes" in text
    assert "together 6,000 IOPS and 250 MiB/s at most" in text
    assert "(11,800 - 2,000) * 1,800 s = 17,640,000 operations, by AWS's 30-minute rule" in text
    assert "more than the 2,000 IOPS that t3.medium sustains 3,000 + 3,000 = 6,000 > 2,000" in text
    assert "5,676,000 / (6,000 - 2,000) = 1,419 s, less the 300 s since the datapoint" in text
    assert "not empty before 18:18 UTC" in text
    assert "5,676,000 / 2,000 = 2,838 s, less the 300 s: empty in 42 min (18:42 UTC)" in text
    assert "By its load the bucket holds about 17,640,000 operations" in text
    assert "its load has not exceeded the limit of the instance in IOPS in the last 15 min" in text
    assert "it gives 12 min" in text, "the throughput bucket may be empty too soon"
    assert "--instance-type Value=t3.large" in text
    assert f"next: burstctl which {INSTANCE}" in result.err


def test_the_document_has_the_same_numbers(cli, lab):
    volume_ids = add_draining_instance(lab, io_pct=90)

    document = cli.run("explain", INSTANCE, "--json").document

    assert document["volume"] is None
    assert document["instance"]["level"] == "warning"
    assert sorted(volume["volume_id"] for volume in document["attached_volumes"]) == sorted(volume_ids)
    bucket = bucket_of(document, "instance-io")
    assert (bucket["time_to_empty_s"], bucket["soonest_empty_s"]) == (2_538, 1_119)
    assert bucket["observed_capacity"] == pytest.approx(17_640_000, rel=0.01)
    assert bucket["proof"] == {
        "cannot_drain": False,
        "baseline": 2_000,
        "maximum": 11_800,
        "volumes_limit": 6_000,
        "because": "its 2 volumes serve 6,000 IOPS at most, more than the 2,000 IOPS that t3.medium sustains",
    }
    assert bucket["limit_exceeded_min"] == 0


def test_a_bucket_that_its_volumes_cannot_drain_is_proved_and_not_read(cli, lab):
    add_lab_instance(lab, INSTANCE, "m5.xlarge")
    add_gp3(lab, "a", iops=3_000)
    add_gp3(lab, "b", iops=3_000)

    text = on_one_line(cli.run("explain", INSTANCE))
    document = cli.run("explain", INSTANCE, "--json").document

    assert "Level cannot drain" in text
    assert (
        "Proof Its 2 volumes serve 6,000 IOPS at most, no more than the 6,000 IOPS that m5.xlarge sustains"
        " 3,000 + 3,000 = 6,000 <= 6,000 So its load never takes credits, whatever the bucket holds" in text
    )
    bucket = bucket_of(document, "instance-io")
    assert bucket["cannot_drain"]
    assert bucket["proof"]["cannot_drain"]
    assert bucket["balance_pct"] is None


def test_an_empty_bucket_names_the_baseline_that_applies(cli, lab):
    add_draining_instance(lab, io_pct=20)
    result = cli.run("explain", INSTANCE)
    first = result.out.splitlines()[0]
    assert first == "EXHAUSTED: EBS I/O credits used up, so the baseline of 2,000 IOPS applies"
    check = "its load exceeded the limit of the instance in IOPS in 15 of the last 15 min"
    assert check in on_one_line(result)


def test_sixty_volumes_are_summed_and_the_fastest_are_listed(cli, lab):
    add_lab_instance(lab, INSTANCE, "t3.medium")
    for number in range(60):
        add_gp3(lab, f"data-{number}")

    result = cli.run("explain", INSTANCE)
    document = cli.run("explain", INSTANCE, "--json").document

    assert "and 55 more, which --json shows" in result.out
    assert "together 180,000 IOPS and 7,500 MiB/s at most" in result.out
    assert len(document["attached_volumes"]) == 60


def test_a_name_that_only_an_instance_has_is_enough(cli, lab):
    add_draining_instance(lab, io_pct=90)
    by_name, by_id = cli.run("explain", "build-host"), cli.run("explain", INSTANCE)
    assert (by_name.code, by_name.out) == (by_id.code, by_id.out)


def test_a_name_of_a_volume_and_an_instance_is_refused_with_both_ids(cli, lab):
    add_lab_instance(lab, INSTANCE, name="web-1")
    volume_id = add_calm(lab, "web-1", instance_id=INSTANCE)

    result = cli.run("explain", "web-1")

    assert result.code == 2
    assert "'web-1' stands for 1 volume and 1 instance in us-east-1" in result.err
    assert volume_id in result.err
    assert f"{INSTANCE} (web-1) m5.large" in result.err


def test_who_may_not_read_instances_still_finds_volumes_by_their_names(cli, lab):
    volume_id = add_calm(lab, "web-1")
    lab.faults.add(Fault(action="DescribeInstances", code="UnauthorizedOperation", status=403))
    assert volume_id in cli.run("explain", "web-1").out


def test_an_instance_that_does_not_exist_is_one_error(cli, lab):
    result = cli.run("explain", "i-0000000000000000f")
    assert (result.code, result.out) == (1, "")
    assert result.error_lines == ["error: no instance i-0000000000000000f in us-east-1."]


def test_a_malformed_id_is_a_usage_error(cli, lab):
    result = cli.run("explain", "i-0123")
    assert result.code == 2
    assert "'i-0123' is not a valid instance ID" in result.err


def test_a_stopped_instance_is_reported_without_a_failure(cli, lab):
    add_lab_instance(lab, INSTANCE, "t3.medium", state="stopped")
    add_gp3(lab)
    result = cli.run("explain", INSTANCE)
    assert result.code == 0, result.err
    assert "unknown: it is stopped" in result.out


def test_an_ignored_instance_is_reported_as_ignored(cli, lab):
    add_lab_instance(lab, INSTANCE, "t3.medium", tags={"burstwatch:ignore": "true"})
    add_gp3(lab)
    result = cli.run("explain", INSTANCE)
    assert (result.code, result.out) == (0, "")
    assert "burstwatch:ignore=true" in result.err


def test_types_that_may_not_be_read_are_one_failure(cli, lab):
    add_draining_instance(lab, io_pct=90)
    lab.faults.add(Fault(action="DescribeInstanceTypes", code="UnauthorizedOperation", status=403))
    result = cli.run("explain", INSTANCE)
    assert result.code == 1
    assert len([line for line in result.error_lines if "DescribeInstanceTypes" in line]) == 1


@pytest.mark.parametrize("width", [60, 80])
def test_it_fits_a_terminal_and_hostile_names_only_show(cli, lab, width):
    add_draining_instance(lab, name="\u202eevil" + "漢字" * 60)
    for name in ("\u202eevil\u202c", "e" + "\u0301" * 200, "漢字" * 100):
        add_gp3(lab, name)

    text = run_on_terminal(cli, "explain", INSTANCE, "-v", width=width, NO_COLOR="1")

    assert max(map(display_width, text.splitlines())) <= width
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_an_instance_that_was_enlarged_is_not_judged_by_its_former_type(cli, lab):
    add_draining_instance(lab, io_pct=1)

    def results():
        commands = (["assess", "--kind", "instance"], ["explain", INSTANCE], ["which", INSTANCE])
        return [cli.run(*command) for command in commands]

    assert [result.code for result in results()] == [3, 0, 3]
    assert all("used up" in result.out for result in results()[1:])
    lab.fleet.stop_instance(INSTANCE)
    lab.fleet.set_instance_type(INSTANCE, "t3.large")
    lab.fleet.start_instance(INSTANCE)
    for minutes in (2, 18):
        lab.clock.advance(60 * minutes)
        assessed, explained, limited = results()
        assert assessed.code == 0, assessed.out
        assert explained.out.startswith(f"{INSTANCE} (build-host), t3.large, running"), explained.out
        assert "used up" not in explained.out
        assert "is limited now by" not in limited.out
        assert "--instance-type" not in explained.out + limited.out

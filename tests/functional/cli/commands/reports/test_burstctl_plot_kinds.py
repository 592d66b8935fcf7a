"""burstctl plot of an instance and of an st1 volume: which bucket, in which unit, or why it is not drawn."""

import pytest

from burstlab.fake_aws.faults import Fault
from burstwatch.core.text import display_width
from support.cli.cli_session import (
    INSTANCE,
    add_gp3,
    add_lab_instance,
    add_lab_volume,
)


@pytest.mark.usefixtures("draining_instance")
@pytest.mark.parametrize("name", [INSTANCE, "build-host"])
def test_the_bucket_of_an_instance_that_empties_first_is_drawn(cli, name):
    result = cli.run("plot", name)

    lines = result.out.splitlines()
    assert result.code == 0
    assert lines[0] == f"{INSTANCE} (build-host), t3.medium, 2 volumes: EBS I/O credits"
    assert lines[1] == "warning: 32.2 % at 17:55, empty in 42 min (18:42), not before 18:18 UTC"
    assert lines[2] == "last 6h: lowest 32.2 % at 17:50, busiest 4,000/s at 16:30, 25 % reads"
    assert "IOPS    █ busiest in 6 min  ─ baseline 2,000  ┄ burst 11,800 (off the scale)" in lines
    assert max(map(display_width, lines)) <= 80
    assert f"next: burstctl explain {INSTANCE}" in result.err


@pytest.mark.usefixtures("draining_instance")
def test_the_other_bucket_of_an_instance_is_drawn_on_request(cli):
    result = cli.run("plot", INSTANCE, "--bucket", "throughput")

    assert result.out.splitlines()[0].endswith("2 volumes: EBS throughput credits")
    assert "busiest 62.5 MiB/s" in result.out
    assert "─ baseline 41.4  ┄ burst 249" in result.out


@pytest.mark.usefixtures("draining_instance")
def test_the_document_of_an_instance_has_its_bucket_in_its_unit(cli):
    io = cli.run("plot", INSTANCE, "--json").document
    throughput = cli.run("plot", INSTANCE, "--bucket", "throughput", "--json").document

    assert (io["volume_id"], io["resource_id"], io["resource_type"]) == (None, INSTANCE, "instance")
    assert (io["bucket"], throughput["bucket"]) == ("instance-io", "instance-throughput")
    assert (io["instance_type"], io["size_gib"], io["period_s"]) == ("t3.medium", None, 300)
    assert {rate for _, rate in io["series"]["served_iops"]} == {4_000}
    assert io["series"]["served_mib_s"] == []
    assert {rate for _, rate in throughput["series"]["served_mib_s"]} == {62.5}
    assert throughput["series"]["served_iops"] == throughput["series"]["read_iops"] == []
    [limit] = io["limits"]
    assert (limit["sustained_iops"], limit["most_iops"], limit["most_mib_s"]) == (2_000, 11_800, None)
    assert io["forecast"]["time_to_empty_at"].startswith("2026-11-20T18:42")


@pytest.mark.usefixtures("draining_instance")
def test_levels_alerts_and_holds_of_an_instance_are_on_its_picture(cli, lab):
    (cli.directory / "policy.yaml").write_text("version: 1\nresources: {instance: {watch: true}}\n")
    cli.run("watch", "--once")
    cli.run("hold", INSTANCE, "--for", "6h", "--reason", "load test")
    lab.clock.advance(600)

    document = cli.run("plot", INSTANCE, "--json").document

    assert [level["level"] for level in document["levels"]][-1] == "warning"
    assert "".join(mark["letter"] for mark in document["marks"]) == "WH"
    assert document["holds"][0]["reason"] == "load test"


def test_an_st1_volume_is_drawn_in_mib(cli, logs_disk):
    result = cli.run("plot", "logs")
    document = cli.run("plot", logs_disk, "--json").document

    assert "lowest 40.0 % at 16:30, busiest 3.1 MiB/s" in result.out
    assert "MiB/s   █ busiest in 5 min  ─ baseline 40  ┄ burst 250 (off the scale)" in result.out
    assert (document["volume_id"], document["bucket"]) == (logs_disk, "ebs-throughput")
    assert document["series"]["served_iops"] == []
    assert max(rate for _, rate in document["series"]["served_mib_s"]) == 3.125
    assert document["limits"][0]["most_mib_s"] == 250


def test_a_volume_has_no_bucket_to_choose(cli, logs_disk):
    result = cli.run("plot", logs_disk, "--bucket", "io")

    assert result.code == 2
    assert f"--bucket io: not a bucket of {logs_disk}" in result.err
    assert "fix: omit --bucket: it has one bucket" in result.err


def test_a_bucket_that_cannot_drain_is_not_drawn_but_proved(cli, lab):
    add_lab_instance(lab, INSTANCE, "m5.large")
    add_gp3(lab)

    result = cli.run("plot", INSTANCE, "--bucket", "io")

    assert (result.code, result.out) == (1, "")
    assert result.error_lines == [
        f"error: the EBS I/O credits of {INSTANCE} cannot drain, so nothing can be plotted: its volume"
        " serves 3,000 IOPS at most, no more than the 3,600 IOPS that m5.large sustains."
    ]
    assert f"fix: burstctl plot {INSTANCE} --bucket throughput" in result.err
    assert cli.run("plot", INSTANCE, "--json").document["bucket"] == "instance-throughput"


def test_an_instance_with_no_bucket_that_can_drain_has_both_proofs(cli, lab):
    add_lab_instance(lab, INSTANCE, "m5.xlarge")
    add_gp3(lab)

    result = cli.run("plot", INSTANCE)

    assert result.code == 1
    assert f"no bucket of {INSTANCE} can drain, so nothing can be plotted: its volume" in result.err
    assert "no more than the 6,000 IOPS" in result.err
    assert "no more than the 137 MiB/s" in result.err
    assert f"fix: burstctl explain {INSTANCE}" in result.err


def test_an_st1_volume_that_cannot_drain_is_not_drawn(cli, lab):
    volume_id = add_lab_volume(lab, "big", volume_type="st1", size_gib=12_800)

    result = cli.run("plot", volume_id)

    assert result.code == 1
    assert f"the throughput credits of {volume_id} cannot drain" in result.err
    assert "12,800 GiB of st1 sustain their maximum of 500 MiB/s" in result.err


@pytest.mark.usefixtures("draining_instance")
def test_without_the_limits_of_its_type_an_instance_is_not_drawn(cli, lab):
    lab.faults.add(Fault(action="DescribeInstanceTypes", code="UnauthorizedOperation"))

    result = cli.run("plot", INSTANCE)

    assert (result.code, result.out) == (1, "")
    assert "could not be read" in result.err or "are not known" in result.err
    assert "ec2:DescribeInstanceTypes" in result.err
    assert "cannot drain" not in result.err


def test_a_stopped_instance_and_one_that_does_not_exist(cli, lab):
    add_lab_instance(lab, INSTANCE, "t3.medium", state="stopped")
    add_gp3(lab)

    assert (
        "in the last 6h: it is stopped.\n  fix: a longer --last may show more"
        in cli.run("plot", INSTANCE).err
    )
    assert "no instance i-0123456789abcdeff in us-east-1" in cli.run("plot", "i-0123456789abcdeff").err


def test_an_ignored_instance_is_drawn_and_not_judged(cli, lab):
    add_lab_instance(lab, INSTANCE, "t3.medium", io_pct=90, tags={"burstwatch:ignore": "true"})
    add_gp3(lab, load="steady:3000", minutes=90)

    result = cli.run("plot", INSTANCE)

    assert result.code == 0
    assert result.out.splitlines()[1].startswith("ignored by tag, so nothing is decided about it")

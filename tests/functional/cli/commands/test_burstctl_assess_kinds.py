"""burstctl assess --kind: volumes and the EBS credits of instances in one table."""

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.database import LabDatabase
from burstlab.model.file_system import LabFileSystem
from support.cli.cli_session import (
    INSTANCE,
    add_calm,
    add_critical,
    add_draining_instance,
    add_gp3,
    add_lab_instance,
    add_lab_volume,
)


def test_both_kinds_are_in_one_table_the_most_urgent_first(cli, lab):
    add_draining_instance(lab, minutes=120, io_pct=60)
    critical = add_critical(lab, "ci-7")

    result = cli.run("assess", "--kind", "ebs,instance")

    header, *rows = result.out.splitlines()
    assert header.split()[:4] == ["LEVEL", "BUCKET", "RESOURCE", "NAME"]
    assert rows[0].split()[:4] == ["exhausted", "instance-io", INSTANCE, "build-host"]
    assert "2,000 IOPS" in rows[0]
    assert "t3.medium" in rows[0]
    assert rows[1].split()[:4] == ["critical", "ebs-io", critical, "ci-7"]
    assert "1 volume and 2 instances in us-east-1" in result.err
    assert f"next: burstctl which {INSTANCE}" in result.err
    assert result.code == 3


def test_one_kind_leaves_out_the_other(cli, lab):
    add_draining_instance(lab, io_pct=60)
    add_calm(lab, "web-1")

    document = cli.run("assess", "--kind", "instance", "--json").document

    assert document["volumes"] == []
    assert {item["resource_id"] for item in document["instances"]} > {INSTANCE}
    assert cli.run("assess", "--kind", "ebs", "--json").document["instances"] == []


def test_without_the_option_the_policy_decides_which_kinds(cli, lab):
    add_draining_instance(lab, io_pct=60)
    (cli.directory / "policy.yaml").write_text("version: 1\n")
    assert cli.run("assess", "--json").document["instances"] == []
    (cli.directory / "policy.yaml").write_text("version: 1\nresources: {instance: {watch: true}}\n")
    assert cli.run("assess", "--json").document["instances"] != []


def test_without_a_policy_every_kind_is_shown(cli, lab):
    add_draining_instance(lab, io_pct=60)
    file_system = lab.fleet.file_systems.add(LabFileSystem(size_gib=58))
    lab.fleet.databases.add(LabDatabase(identifier="orders"))
    st1 = add_st1(lab)

    result = cli.run("assess")

    rows = {line.split()[2] for line in result.out.splitlines()[1:]}
    assert rows >= {INSTANCE, file_system, "db:orders", st1}


def test_kinds_that_the_caller_may_not_read_are_one_line_if_none_was_requested(cli, lab):
    add_draining_instance(lab)
    calm = add_calm(lab, "web-1")
    for action in ("DescribeInstances", "DescribeFileSystems", "DescribeDBInstances"):
        lab.faults.add(Fault(action=action, code="AccessDeniedException", status=403))

    result = cli.run("assess")

    assert calm in result.out
    assert INSTANCE not in result.out
    assert result.error_lines == []
    assert (
        "left out, because you lack the permission: instances (ec2:DescribeInstances), file systems"
        " (elasticfilesystem:DescribeFileSystems), databases (rds:DescribeDBInstances)\n"
    ) in result.err
    assert result.code == 0
    assert cli.run("assess", "--json").document["left_out"] == {
        "instance": "ec2:DescribeInstances",
        "efs": "elasticfilesystem:DescribeFileSystems",
        "rds": "rds:DescribeDBInstances",
    }


def test_instances_whose_limits_may_not_be_read_are_left_out_if_no_kind_was_requested(cli, lab):
    add_draining_instance(lab, io_pct=60)
    lab.faults.add(Fault(action="DescribeInstanceTypes", code="UnauthorizedOperation", status=403))

    result = cli.run("assess")

    assert INSTANCE not in result.out
    assert "left out, because you lack the permission: instances (ec2:DescribeInstanceTypes)\n" in result.err
    assert result.code == 0


def test_requested_instances_whose_limits_may_not_be_read_are_shown_as_unread(cli, lab):
    add_draining_instance(lab, minutes=120, io_pct=60)
    calm = add_calm(lab, "web-1")
    lab.faults.add(Fault(action="DescribeInstanceTypes", code="UnauthorizedOperation", status=403))

    result = cli.run("assess", "--kind", "ebs,instance")

    assert calm in result.out
    [row] = [line for line in result.out.splitlines() if INSTANCE in line]
    assert (row.split()[0], "could not be read" in row) == ("unknown", True)
    assert "ec2:DescribeInstanceTypes" in result.err
    assert result.code == 1
    document = cli.run("assess", "--kind", "ebs,instance", "--json").document
    [instance] = [item for item in document["instances"] if item["resource_id"] == INSTANCE]
    assert (instance["level"], instance["unknown_reason"]) == ("unknown", "read_failed")
    assert (len(document["failures"]), document["totals"]["unread"] > 0) == (1, True)


def test_a_kind_that_fails_for_another_reason_is_an_error(cli, lab):
    add_calm(lab, "web-1")
    lab.faults.add(Fault(action="DescribeFileSystems", code="InternalServerError", status=500))

    result = cli.run("assess")

    assert "elasticfilesystem:DescribeFileSystems failed" in result.err
    assert result.code == 1


@pytest.mark.parametrize("regions", ["us-east-1", "us-east-1,eu-west-1"])
def test_calls_that_fail_for_the_same_reason_are_one_error(cli, lab, regions):
    for action in ("DescribeVolumes", "DescribeInstances", "DescribeFileSystems", "DescribeDBInstances"):
        lab.faults.add(Fault(action=action, code="InternalError", status=503))
    result = cli.run("assess", "--region", regions)
    [error] = result.error_lines
    assert (
        "ec2:DescribeVolumes, ec2:DescribeInstances, elasticfilesystem:DescribeFileSystems and"
        " rds:DescribeDBInstances failed (InternalError): AWS had an internal error"
    ) in error
    assert result.err.count("fix:") == 1
    assert result.code == 1


def test_after_a_listing_that_failed_comes_doctor_and_no_price(cli, lab):
    add_lab_instance(lab, INSTANCE)
    add_gp3(lab)
    lab.faults.add(Fault(action="DescribeVolumes", code="InternalError", status=503))
    result = cli.run("assess")
    assert INSTANCE in result.out
    assert "newest datapoint" in result.err
    assert "watching costs" not in result.err
    assert result.err.endswith("next: burstctl doctor\n")


def test_a_region_without_permission_for_a_kind_is_no_error_among_several(cli, lab):
    add_calm(lab, "web-1")
    lab.faults.add(Fault(action="DescribeFileSystems", code="AccessDeniedException", status=403))

    result = cli.run("assess", "--region", "us-east-1", "--region", "eu-west-1")

    assert result.error_lines == []
    assert "permission: file systems (elasticfilesystem:DescribeFileSystems)\n" in result.err
    assert result.code == 0


def test_an_unknown_kind_is_a_usage_error_before_any_call(cli, lab):
    result = cli.run("assess", "--kind", "ebs,floppy")
    assert result.code == 2
    assert "'floppy' is not a kind of resource.\n  fix: write some of ebs, instance, efs, rds" in result.err
    assert not lab.faults.call_counts()


def test_instances_that_may_not_be_read_hide_no_volume(cli, lab):
    add_draining_instance(lab)
    critical = add_critical(lab, "ci-7")
    lab.faults.add(Fault(action="DescribeInstances", code="UnauthorizedOperation", status=403))

    result = cli.run("assess", "--kind", "ebs,instance")

    assert critical in result.out
    assert "ec2:DescribeInstances" in result.err
    assert result.code == 1


def add_st1(lab, **fields):
    return add_lab_volume(
        lab, "logs", "steady:200", volume_type="st1", size_gib=1_024, balance_pct=40, minutes=90, **fields
    )


def test_an_st1_volume_is_shown_and_explained_in_mib(cli, lab):
    volume_id = add_st1(lab)
    (cli.directory / "policy.yaml").write_text("version: 1\nresources: {ebs: {types: 'gp2, st1'}}\n")

    row = cli.run("assess").out.splitlines()[1]
    explanation = " ".join(cli.run("explain", volume_id).out.split())

    assert "40 MiB/s" in row
    assert "40 MiB/s for st1 of 1,024 GiB, which bursts to 250 MiB/s" in explanation
    assert "% of 1,048,576 =" in explanation
    assert "/ (250 - 40) =" in explanation


def test_another_kind_leaves_out_a_volume_that_was_flipped(cli, lab):
    volume_id = add_lab_volume(lab, "ci-7", "steady:2500", balance_pct=20)
    assert cli.run("flip", volume_id, "--yes").code == 0
    assert cli.run("assess", "--kind", "efs,rds", "--json").document["volumes"] == []
    [volume] = cli.run("assess", "--kind", "ebs", "--json").document["volumes"]
    assert volume["volume_id"] == volume_id


def test_an_id_of_another_kind_is_refused(cli, lab):
    volume_id = add_lab_volume(lab, "ci-7")
    result = cli.run("assess", "--kind", "efs", "ci-7")
    assert result.code == 2
    assert f"{volume_id} is not of the kind efs" in result.err
    assert "fix: leave out --kind: an ID says what to look at" in result.err

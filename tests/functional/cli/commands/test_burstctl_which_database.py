"""burstctl which of a database: of its storage and its class, what applies now, what is next, and why."""

from dataclasses import replace
from datetime import timedelta

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.database import LabDatabase
from support.cli.cli_session import START

GP3 = {"storage_type": "gp3", "instance_class": "db.t3.medium"}


def add_database(lab, minutes=60, **fields):
    """A database that has been under its load for this long before 18:00."""
    defaults = {"identifier": "orders", "starts_at": START - timedelta(minutes=minutes)}
    return lab.fleet.databases.add(LabDatabase(**defaults | fields))


def states_of(document):
    return {limit["kind"]: limit["state"] for limit in document["limits"]}


def test_storage_credits_that_run_out_first_are_next(cli, lab):
    add_database(lab, 30, load="steady:2500@16%30")

    result = cli.run("which", "db:orders")

    text = " ".join(result.out.split())
    assert result.code == 0
    assert "No limit applies to db:orders now." in text
    assert (
        "Next: the storage credits are used up in 11 min (18:10 UTC), not before 18:08 UTC; then 300 IOPS"
        in text
    )
    assert "class I/O credits (never) db.m5.4xlarge sustains its maximum, so it has no burst credits." in text
    assert "833 % of its baseline of 300 IOPS" in text
    assert "CloudWatch's check" not in text, "RDS has none"
    assert all(len(line) <= 80 for line in result.out.splitlines())
    assert "next: burstctl explain db:orders" in result.err


def test_empty_storage_credits_apply_now(cli, lab):
    add_database(lab, load="steady:2500", balance_pct=0)

    result = cli.run("which", "orders")

    assert result.code == 3
    assert result.out.startswith("db:orders is limited now by the storage credits: they are used up, so the")
    assert "baseline of 300 IOPS applies" in " ".join(result.out.split())
    assert cli.run("which", "orders", "--exit-zero").code == 0


def test_empty_credits_of_the_class_apply_now_though_the_storage_is_gp3(cli, lab):
    add_database(lab, load="steady:2500", io_pct=0, **GP3)

    document = cli.run("which", "db:orders", "--json").document

    assert document["applies_now"] == [{"resource_id": "db:orders", "kind": "class-io-credits"}]
    assert (document["instance_class"], document["instance_id"], document["volumes"]) == (
        "db.t3.medium",
        None,
        [],
    )
    assert states_of(document)["storage-credits"] == "never"
    [limit] = [limit for limit in document["limits"] if limit["kind"] == "class-io-credits"]
    assert (limit["limit"], limit["unit"], limit["balance_pct"]) == (2_000, "IOPS", 0)
    assert "the EBS I/O credits of its class: they are used up" in document["answer"][0]


def test_the_throughput_of_small_gp3_storage_applies_now(cli, lab):
    """125 MiB/s, which cannot be raised below 400 GiB."""
    add_database(lab, load="steady:1000@256", storage_type="gp3")

    result = cli.run("which", "db:orders")

    assert result.code == 3
    assert "limited now by the throughput limit of the storage: it serves 125 MiB/s at most" in " ".join(
        result.out.split()
    )


def test_empty_cpu_credits_are_named(cli, lab):
    add_database(lab, load="steady:100", cpu_credits=0, **GP3)

    result = cli.run("which", "db:orders")

    assert "Its CPU credits are empty (CPUCreditBalance)" in " ".join(result.out.split())


def test_the_limits_of_storage_with_other_volumes_beside_it_are_unknown(cli, lab):
    add_database(lab, 30, load="steady:2500@16%30")
    database = lab.fleet.databases.find("orders")
    database.facts = replace(database.facts, has_other_volumes=True)
    limits = cli.run("which", "db:orders", "--json").document["limits"]
    [iops] = [limit for limit in limits if limit["kind"] == "storage-iops"]
    assert iops["state"] == "unknown"
    assert iops["evidence"] == [
        "It also has a dedicated log volume or additional storage volumes, whose limits are not taken into"
        " account"
    ]


def test_no_limit_applies_to_a_stopped_database(cli, lab):
    add_database(lab, stopped=True)

    result = cli.run("which", "db:orders")

    assert result.code == 0
    assert "db:orders: it is stopped, so it has no metrics; no limit applies." in " ".join(result.out.split())


def test_without_the_limits_of_its_class_they_are_unknown(cli, lab):
    add_database(lab, 30, load="steady:2500@16%30")
    lab.faults.add(Fault(action="DescribeInstanceTypes", code="UnauthorizedOperation"))

    result = cli.run("which", "db:orders", "--json")

    states = states_of(result.document)
    assert result.code == 1
    assert states["storage-credits"] == "next"
    assert {states[kind] for kind in states if kind.startswith("class")} == {"unknown"}
    assert "ec2:DescribeInstanceTypes" in "".join(result.document["failures"])


def test_without_its_metrics_nothing_is_known_and_no_limit_counts_as_far_away(cli, lab):
    add_database(lab, 30, load="steady:2500@16%30")
    lab.faults.add(Fault(action="GetMetricData", code="AccessDenied", status=403))

    result = cli.run("which", "db:orders", "--json")

    assert result.code == 1
    assert "cloudwatch:GetMetricData" in "".join(result.document["failures"])
    assert set(states_of(result.document).values()) == {"unknown", "never"}


@pytest.mark.parametrize(
    ("fields", "name", "code", "message"),
    [
        ({"engine": "aurora-mysql", "storage_type": "aurora"}, "db:orders", 2, "db:orders is Aurora"),
        ({}, "db:gone", 1, "no database db:gone in us-east-1"),
    ],
)
def test_a_database_without_known_limits_has_a_reason(cli, lab, fields, name, code, message):
    add_database(lab, **fields)

    result = cli.run("which", name)

    assert (result.code, result.out) == (code, "")
    assert message in result.err

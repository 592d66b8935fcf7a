"""Instances and database classes whose limits EC2 does not describe: their balance is read and judged."""

import re
from datetime import timedelta

import pytest

from burstlab.model.database import LabDatabase
from support.cli.cli_session import INSTANCE, START, add_draining_instance, add_lab_instance

pytestmark = pytest.mark.usefixtures("unknown_limits")


RULE = "its balance is judged by AWS's rule that a full bucket lasts 30 min at least"


def on_one_line(result):
    return " ".join(result.out.split())


def test_an_instance_is_judged_by_its_balance_and_no_number_is_made_up(cli, lab):
    add_draining_instance(lab, io_pct=60, minutes=120)
    result = cli.run("assess")
    [row] = [line for line in result.out.splitlines() if INSTANCE in line]
    assert (result.code, row.split()) == (
        3,
        ["exhausted", INSTANCE, "build-host", "0.0", "%", "now", "t3.medium"],
    )
    explained = on_one_line(cli.run("explain", INSTANCE, "--verbose"))
    assert "EBS I/O credits used up, so a baseline that is not known applies" in explained
    assert f"EC2 shows no EBS limits of t3.medium: {RULE}" in explained
    assert "Balance 73.6 %, lowest of the 5 minutes" in explained
    assert "Bound 73.6 % of 1,800 s = 1,324 s, less the 300 s since the datapoint" in explained
    assert "over 60 min: 7.7 %/h" in explained
    assert "5,400,000" not in explained
    answer = on_one_line(cli.run("which", INSTANCE))
    assert "is limited now by the EBS I/O credits of the instance" in answer
    assert "EBSIOBalance% was 0.0 % at 17:55 UTC" in answer
    assert RULE in answer


def test_no_command_is_offered_that_needs_the_limits(cli, lab):
    volume_id, _ = add_draining_instance(lab, io_pct=60, minutes=120)
    explain = f"next: burstctl explain {INSTANCE} --region us-east-1"
    assert explain in cli.run("which", INSTANCE).err
    assert explain in cli.run("which", volume_id).err
    assert cli.run("explain", INSTANCE).err.splitlines()[-1] == f"next: burstctl which {INSTANCE}"


def test_a_database_class_is_judged_by_its_balance_and_no_number_is_made_up(cli, lab):
    started_at = START - timedelta(minutes=25)
    lab.fleet.databases.add(
        LabDatabase(
            identifier="orders",
            instance_class="db.t3.medium",
            load="steady:2900@32",
            io_pct=50,
            starts_at=started_at,
        )
    )
    [database] = cli.run("assess", "--json").document["databases"]
    levels = {bucket["bucket"]: (bucket["level"], bucket["capacity"]) for bucket in database["buckets"]}
    assert levels == {
        "instance-io": ("warning", None),
        "instance-throughput": ("watch", None),
        "rds-io": ("critical", 5_400_000),
    }
    unknown = "EC2 describes no limits of t3.medium, the type behind db.t3.medium"
    explained = on_one_line(cli.run("explain", "orders"))
    assert f"Limits {unknown}: {RULE}" in explained
    assert f"you: {unknown}, so which class sustains its load is not known" in explained
    assert f"{unknown}: {RULE}" in on_one_line(cli.run("which", "db:orders"))
    alerts = " ".join(cli.run("watch", "--once").err.split())
    assert "WARNING: db:orders EBS I/O credits: empty in" in alerts
    assert f"{unknown}: {RULE}." in alerts


def states_of(cli, name):
    limits = cli.run("which", name, "--json").document["limits"]
    return {limit["kind"]: (limit["state"], limit["evidence"]) for limit in limits}


def test_a_class_without_any_balance_in_cloudwatch_is_taken_to_have_none(cli, lab):
    lab.fleet.databases.add(
        LabDatabase(identifier="orders", instance_class="db.zz9.large", starts_at=START - timedelta(hours=2))
    )
    reason = (
        "EC2 describes no limits of zz9.large, the type behind db.zz9.large, and CloudWatch has no {} of it"
    )
    assert reason.format("EBSIOBalance%") in on_one_line(cli.run("explain", "db:orders"))
    states = states_of(cli, "db:orders")
    assert states["class-io-credits"] == ("never", [reason.format("EBSIOBalance%")])
    assert states["class-throughput-credits"] == ("never", [reason.format("EBSByteBalance%")])


def test_a_class_that_had_a_balance_in_the_last_days_is_unknown(cli, lab):
    lab.fleet.databases.add(
        LabDatabase(
            identifier="orders",
            instance_class="db.t3.medium",
            load="steady:2900@32",
            starts_at=START - timedelta(hours=3),
        )
    )
    lab.fleet.databases.set_class("orders", "db.zz9.large")
    lab.clock.advance(7_200)
    state, [evidence] = states_of(cli, "db:orders")["class-io-credits"]
    assert state == "unknown"
    assert evidence == "No datapoint for 30 min while the database exists"


def test_an_instance_without_any_balance_in_cloudwatch_is_taken_to_have_none(cli, lab):
    add_lab_instance(lab, INSTANCE, "zz9.large")
    reason = "EC2 shows no EBS limits of zz9.large, and CloudWatch has no EBSIOBalance% of it"
    assert reason in on_one_line(cli.run("explain", INSTANCE))
    assert states_of(cli, INSTANCE)["instance-io-credits"] == ("never", [reason])


def test_the_page_of_the_report_has_the_balance_and_no_made_up_number(cli, lab):
    add_draining_instance(lab, io_pct=90)
    page = cli.directory / "report.html"
    assert cli.run("report", "--html", page).code == 0
    text = page.read_text(encoding="utf-8")
    assert INSTANCE in text
    assert not re.search(r"[0-9,]+ (operations|MiB), [0-9]+ min old", text)

"""File systems and databases in burstctl: assess, explain, hold, history and names, before the lab."""

import re
from datetime import timedelta

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.database import LabDatabase
from burstlab.model.file_system import LabFileSystem
from support.cli.cli_session import START, add_lab_volume

WATCHING = "version: 1\nresources:\n  efs: {watch: true}\n  rds: {watch: true}\n"

pytestmark = pytest.mark.policy_file(WATCHING)


def ledger_of(cli):
    return "--ledger", f"sqlite:{cli.ledger_path}"


def test_assess_shows_each_kind_in_one_table(cli, lab, home, orders):
    add_lab_volume(lab, "calm")
    result = cli.run("assess")
    assert result.code == 3
    positions = [result.out.index(resource_id) for resource_id in (orders, home, "vol-")]
    assert positions == sorted(positions)
    assert {"37.2 MiB", "2.8 MiB/s"} <= set(re.split(r" {2,}", result.out))
    assert f"next: burstctl explain {orders}" in result.err


def test_the_document_has_each_kind_in_its_list(cli, home, orders):
    document = cli.run("assess", "--json").document
    [file_system], [database] = document["file_systems"], document["databases"]
    assert (file_system["resource_id"], file_system["level"]) == (home, "warning")
    assert (file_system["throughput_mode"], file_system["baseline_mib_s"]) == ("bursting", 2.83)
    [bucket] = file_system["buckets"]
    assert (bucket["bucket"], bucket["unit"]) == ("efs-bytes", "bytes")
    assert bucket["balance_pct"] == pytest.approx(45, abs=2)
    assert bucket["capacity"] == 2_308_974_418_330
    assert (database["resource_id"], database["level"]) == (orders, "critical")
    assert [item["bucket"] for item in database["buckets"]] == [
        "instance-io",
        "instance-throughput",
        "rds-io",
    ]
    assert document["totals"]["resources"] == 2
    assert document["instances"] == document["volumes"] == []


def test_a_database_in_trouble_is_still_shown_when_it_has_another_name(cli, lab, orders):
    assert cli.run("watch", "--once").code == 3
    lab.fleet.databases.rename("orders", "orders2")
    for command in (["watch", "--once"], ["assess"]):
        result = cli.run(*command)
        assert result.code == 3
        assert re.search(r"^unknown +db:orders2 .* too new; was critical", result.out, re.MULTILINE)
        assert "1 database in us-east-1" in result.err
        assert "next: burstctl explain db:orders2" in result.err
    [database] = cli.run("assess", "--json").document["databases"]
    assert database["unknown_reason"] == "too_new"
    assert database["decision"]["reason"] == "it is too new for a datapoint; last known level critical"


def test_a_stopped_database_is_not_shown_as_one_without_burst_credits(cli, lab):
    lab.fleet.databases.add(LabDatabase(identifier="stop1", stopped=True))
    [database] = cli.run("assess", "--json").document["databases"]
    assert database["unknown_reason"] == "instance_stopped"
    result = cli.run("assess", "db:stop1")
    assert result.code == 0
    assert re.search(r"^unknown +db:stop1 .* instance is stopped", result.out, re.MULTILINE)


def test_kinds_that_the_policy_does_not_watch_are_not_read(cli, lab, home, orders):
    (cli.directory / "policy.yaml").write_text("version: 1\n")
    document = cli.run("assess", "--json").document
    assert document["file_systems"] == document["databases"] == []
    assert not {"DescribeFileSystems", "DescribeDBInstances"} & lab.faults.call_counts().keys()


def test_kind_looks_at_what_the_policy_does_not_watch(cli, home, orders):
    (cli.directory / "policy.yaml").write_text("version: 1\n")
    document = cli.run("assess", "--kind", "efs", "--json").document
    assert [item["resource_id"] for item in document["file_systems"]] == [home]
    assert document["databases"] == []


def test_a_denied_service_is_reported_and_hides_no_other(cli, lab, home, orders):
    lab.faults.add(
        Fault(action="DescribeFileSystems", code="AccessDeniedException", message="denied", status=403)
    )
    result = cli.run("assess", "--json")
    assert result.code == 1
    assert [item["level"] for item in result.document["databases"]] == ["critical"]
    [failure] = result.document["failures"]
    assert "elasticfilesystem:DescribeFileSystems" in failure


def test_explain_of_a_file_system_compares_the_modes_and_prints_the_change(cli, home):
    result = cli.run("explain", "shared-home")
    text = " ".join(result.out.split())
    assert result.code == 0
    assert f"{home} (shared-home), bursting, 58 GiB in Standard, available" in text
    assert "58 GiB in Standard earn 2.8 MiB/s" in text
    assert "then 2.8 MiB/s; nine idle days to refill" in text
    assert "30 MiB/s read, which count one third, and 30 MiB/s written" in text
    for mode in ("bursting: $0.00", "elastic: $", "provisioned with 40 MiB/s: $223.01"):
        assert mode in text
    assert f"aws efs update-file-system --file-system-id {home} --throughput-mode provisioned" in text
    assert 'resource "aws_efs_file_system" "shared_home" {' in text
    assert "For 24 hours, AWS refuses to leave provisioned mode" in text
    assert all(len(line) <= 80 for line in result.out.splitlines() if "aws efs" not in line)


def test_explain_recommends_what_the_present_load_needs_if_it_lasts(cli, lab):
    """Idle for a day, then 80 MiB/s for 45 minutes: elastic is the cheapest for the day only."""
    name = lab.fleet.file_systems.add(
        LabFileSystem(size_gib=20, balance_pct=40, starts_at=START - timedelta(days=1))
    )
    lab.clock.advance(60)
    lab.fleet.file_systems.set_load(name, "steady:320@256%0")
    lab.clock.advance(45 * 60)
    change = cli.run("explain", name, "--json").document["change"]
    assert "--throughput-mode provisioned --provisioned-throughput-in-mibps 80" in change["action"]
    by_day, if_it_lasts = change["reasons"]
    assert by_day.startswith("By its load of a day: elastic, $")
    assert if_it_lasts.startswith("If the load of its busiest five minutes lasts: provisioned with 80 MiB/s")
    assert "; elastic would cost $12," in if_it_lasts
    assert 'throughput_mode                 = "provisioned"' in change["definition"]["terraform"]


def test_explain_of_a_database_recommends_gp3_once(cli, orders):
    result = cli.run("explain", orders)
    text = " ".join(result.out.split())
    assert result.code == 0
    assert "db:orders, postgres, db.m5.4xlarge, gp2 100 GiB, available" in text
    assert "CRITICAL: storage credits" in text
    assert "100 GiB of gp2 (one volume) sustain 300 IOPS and burst to 3,000 IOPS" in text
    assert "aws rds modify-db-instance --db-instance-identifier orders --storage-type gp3" in text
    assert "storage-optimization for hours" in text


@pytest.mark.parametrize("verbose", [[], ["--verbose"], ["--json"]], ids=str)
def test_explain_speaks_of_what_has_no_credits(cli, lab, verbose):
    elastic = lab.fleet.file_systems.add(LabFileSystem(size_gib=1, throughput_mode="elastic"))
    lab.fleet.databases.add(LabDatabase(identifier="cluster-1", engine="aurora-mysql", storage_type="aurora"))
    first, second = (cli.run("explain", name, *verbose) for name in (elastic, "db:cluster-1"))
    assert (first.code, second.code) == (0, 0)
    assert "its throughput mode is elastic" in " ".join(first.out.split())
    assert "it is Aurora" in " ".join(second.out.split())


def test_explain_proves_that_the_credits_of_a_class_cannot_run_out(cli, lab):
    lab.fleet.databases.add(
        LabDatabase(identifier="small", storage_type="gp3", allocated_gib=100, instance_class="db.m5.2xlarge")
    )
    proof = "Its storage and root volume serve 6,000 IOPS at most, no more than the 12,000 IOPS that"
    text = " ".join(cli.run("explain", "db:small").out.split())
    assert f"Proof {proof} db.m5.2xlarge sustains So its load never takes credits" in text


def test_io1_storage_does_not_hide_the_empty_credits_of_the_class(cli, lab):
    lab.fleet.databases.add(
        LabDatabase(
            identifier="ledger",
            storage_type="io1",
            iops=5_000,
            allocated_gib=400,
            instance_class="db.m5.xlarge",
            load="steady:4000@64",
            byte_pct=0,
            starts_at=START - timedelta(hours=1),
        )
    )
    [database] = cli.run("assess", "--json").document["databases"]
    levels = {bucket["bucket"]: bucket["level"] for bucket in database["buckets"]}
    assert levels["instance-throughput"] == "exhausted"


def test_a_small_file_system_is_shown_with_the_rate_that_efs_leaves_to_it(cli, lab):
    lab.fleet.file_systems.add(
        LabFileSystem(size_gib=10, load="steady:240@256", balance_pct=0, starts_at=START - timedelta(hours=6))
    )
    assessed = " ".join(cli.run("assess").out.split())
    cli.run("report", "--html", "page.html", "--last", "1h")
    assert "1 MiB/s" in assessed
    assert "0.49 MiB/s" not in assessed + (cli.directory / "page.html").read_text()


def test_explain_finds_a_database_by_the_id_of_rds(cli, lab, orders):
    dbi_resource_id = lab.fleet.databases.find("orders").resource_id
    assert cli.run("explain", dbi_resource_id, "--json").document["database"]["resource_id"] == orders
    unknown = cli.run("explain", "db-ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert unknown.code == 2
    assert "no database in us-east-1 has the ID" in unknown.err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fs-0123456789abcdef0", "no file system fs-0123456789abcdef0 in us-east-1"),
        ("db:gone", "no database db:gone in us-east-1"),
    ],
)
def test_each_command_reports_what_does_not_exist(cli, lab, name, message):
    for command in ("explain", "history", "hold"):
        options = ["--for", "1h", "--reason", "x", *ledger_of(cli)] if command == "hold" else []
        result = cli.run(command, name, *options)
        assert result.code == 1
        assert message in result.err


@pytest.mark.parametrize("name", ["fs-0123", "db:", "db:1x", "db:a b"])
def test_a_malformed_id_is_refused(cli, name):
    result = cli.run("explain", name)
    assert result.code == 2
    assert result.err.startswith("error: ") or "Usage:" in result.err


def test_a_hold_silences_one_file_system_and_is_in_its_history(cli, home, orders):
    held = cli.run("hold", "shared-home", "--for", "2h", "--reason", "restore", *ledger_of(cli))
    assert held.code == 0
    assert f"no alert about {home} is sent" in held.out
    watched = cli.run("watch", "--once")
    assert "db:orders" in watched.out + watched.err
    history = cli.run("history", home, "--json").document
    assert [entry["kind"] for entry in history["entries"]].count("alert") == 0
    assert [hold["reason"] for hold in history["now"]["holds"]] == ["restore"]
    assert "alert" in [entry["kind"] for entry in cli.run("history", orders, "--json").document["entries"]]


def test_a_name_that_two_kinds_have_is_ambiguous(cli, lab, home):
    add_lab_volume(lab, "shared-home")
    result = cli.run("explain", "shared-home")
    assert result.code == 2
    assert "1 volume and 1 file system" in result.err


def test_doctor_counts_each_kind_and_tries_what_it_needs(cli, home, orders):
    result = cli.run("doctor")
    text = " ".join(result.out.split())
    assert "elasticfilesystem:DescribeFileSystems, rds:DescribeDBInstances" in text
    assert "1 file system and 1 database watched" in text


def test_doctor_names_the_permission_that_a_kind_lacks(cli, lab, home):
    lab.faults.add(
        Fault(action="DescribeFileSystems", code="AccessDeniedException", message="denied", status=403)
    )
    result = cli.run("doctor")
    text = " ".join(result.out.split())
    assert result.code == 3
    assert "elasticfilesystem:DescribeFileSystems" in text
    assert "it is needed for watching EFS file systems" in text


def test_several_regions_are_assessed_with_every_kind(cli, home, orders):
    result = cli.run("assess", "--region", "us-east-1", "--region", "eu-west-1", "--json")
    reports = {report["region"]: report for report in result.document["reports"]}
    assert [item["resource_id"] for item in reports["us-east-1"]["databases"]] == [orders]


def test_assess_looks_at_the_ones_that_are_named(cli, home, orders):
    document = cli.run("assess", home, "db:gone", "--json").document
    assert [item["resource_id"] for item in document["file_systems"]] == [home]
    assert document["databases"] == []
    assert document["missing"] == ["db:gone"]


@pytest.mark.parametrize("command", [["advise"], ["flip", "--dry-run"]], ids=str)
def test_a_command_about_volumes_names_the_one_for_file_systems(cli, home, command):
    result = cli.run(*command, home)
    assert result.code == 2
    assert f"{home} is a file system" in result.err
    assert f"fix: burstctl explain {home}" in result.err

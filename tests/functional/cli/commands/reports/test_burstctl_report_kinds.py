"""burstctl report of instances and st1 volumes: among the urgent, in the list, and with their pictures."""

import pytest
from test_burstctl_report import data_of, row_of, visible_text

from burstlab.fake_aws.faults import Fault
from support.cli.cli_session import INSTANCE
from support.cli.reported_resources import CALM_INSTANCE


@pytest.mark.usefixtures("watched_disk")
def test_an_urgent_instance_has_a_card_with_the_bucket_that_empties_first(cli, page):
    result = cli.run("report", "--html", page)

    text = visible_text(page)
    assert result.code == 0, result.err
    assert "2 volumes and 4 instances" in text
    assert "1 instance will be empty soon" in text
    assert "Next: build-host, empty in 42 min (18:42), not before 18:18 UTC" in text
    assert "Urgent 1 instance, most urgent first" in text
    assert f"{INSTANCE} · t3.medium · EBS I/O credits · baseline 2,000 IOPS · 2 volumes" in text
    assert "--instance-type Value=t3.large" in text
    assert "All resources" in text
    assert "Lowest balance 32.2 % build-host" in text
    assert ": 2 volumes and 4 instances on 0." in result.err


def test_every_kind_is_in_the_list_in_its_unit_and_with_its_picture(cli, page, watched_disk):
    cli.run("report", "--html", page)

    data = data_of(page)
    instance, volume, calm = (row_of(data, i) for i in (INSTANCE, watched_disk, CALM_INSTANCE))
    assert data["noun"] == "resource"
    assert (instance["type"], instance["gib"], instance["bucket"]) == ("t3.medium", None, "EBS I/O credits")
    assert (instance["baseline"], instance["unit"]) == (2_000, "")
    assert (volume["type"], volume["gib"], volume["bucket"]) == ("st1", 1_024, "")
    assert (volume["baseline"], volume["unit"]) == (40, "MiB")
    assert calm["level"] == "unknown"
    assert calm["empty_text"] == "cannot become empty"

    picture = data["details"][INSTANCE]
    assert picture["axis"][1] == 300
    assert picture["unit"] == "IOPS"
    assert "4000x" in picture["iops"]
    assert picture["limits"][0][2:] == [2_000, 11_800]
    facts = dict(picture["facts"])
    assert facts["Reading"] == "5,676,000 operations, 5 min old"
    assert facts["Other bucket"].startswith("EBS throughput credits: 71.1 %, watch, in 3 h")
    picture = data["details"][watched_disk]
    assert (picture["unit"], picture["scale"], picture["limits"][0][2:]) == ("MiB/s", 10, [40, 250])
    assert "31x" in picture["iops"], "3.1 MiB/s"


@pytest.mark.usefixtures("watched_disk")
def test_a_short_report_draws_an_instance_by_its_five_minutes(cli, page):
    cli.run("report", "--html", page, "--last", "1h")

    data = data_of(page)
    assert data["axis"][1:] == [300, 12]
    assert data["details"][INSTANCE]["axis"][1] == 300
    assert ",x" not in row_of(data, INSTANCE)["line"][:20]


@pytest.mark.usefixtures("watched_disk")
def test_the_history_of_an_instance_is_on_the_page(cli, page):
    cli.run("watch", "--once")
    cli.run("hold", INSTANCE, "--for", "6h", "--reason", "load test")

    document = cli.run("report", "--html", page, "--json").document

    assert (document["volumes"], document["resources"]) == (2, 6)
    assert document["by_level"]["warning"] == 1
    history = data_of(page)["details"][INSTANCE]["history"]
    assert {kind for _, _, kind, *_ in history} >= {"by people", "level", "alerted"}
    assert f'<a href="#{INSTANCE}"><bdi>build-host</bdi></a>' in page.read_text()
    assert "load test" in dict(data_of(page)["details"][INSTANCE]["facts"])["Hold"]


def test_without_a_policy_the_page_shows_what_assess_shows(cli, page, resources_of_each_kind):
    result = cli.run("report", "--html", page)

    data, text = data_of(page), visible_text(page)
    assert result.code == 0, result.err
    assert set(data["volumes"]["id"]) >= resources_of_each_kind
    rows = {line.split()[2] for line in cli.run("assess").out.splitlines()[1:]}
    assert set(data["volumes"]["id"]) == rows
    assert "Not on this page, because they cannot run out of credits: 3 instances and 1 file system." in text
    assert "left out" not in result.err


def test_a_policy_decides_what_is_on_the_page(cli, page, resources_of_each_kind):
    (cli.directory / "policy.yaml").write_text("version: 1\nresources: {rds: {watch: true}}\n")
    cli.run("report", "--html", page)
    assert resources_of_each_kind & set(data_of(page)["volumes"]["id"]) == {"db:orders"}
    assert "Not on this page" not in visible_text(page)


@pytest.mark.usefixtures("resources_of_each_kind")
def test_kinds_that_the_caller_may_not_read_are_named_in_the_terminal_and_on_the_page(cli, lab, page):
    for action in ("DescribeInstances", "DescribeFileSystems"):
        lab.faults.add(Fault(action=action, code="AccessDeniedException", status=403))

    result = cli.run("report", "--html", page)

    left_out = (
        "eft out, because you lack the permission: instances (ec2:DescribeInstances), file systems"
        " (elasticfilesystem:DescribeFileSystems)"
    )
    assert result.code == 0
    assert f"l{left_out}" in " ".join(result.err.split())
    assert f"L{left_out}." in visible_text(page)
    assert "db:orders" in data_of(page)["volumes"]["id"]

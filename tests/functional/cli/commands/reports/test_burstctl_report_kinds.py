"""burstctl report of instances and st1 volumes: among the urgent, in the list, and with their pictures."""

import pytest
from test_burstctl_report import data_of, row_of, visible_text

from support.cli_session import add_calm, add_lab_instance, add_lab_volume

INSTANCE, CALM = "i-0123456789abcdef0", "i-0123456789abcdef1"


@pytest.fixture
def page(tmp_path):
    return tmp_path / "fleet.html"


@pytest.fixture
def disk(cli, lab):
    """Every kind is watched: an instance that drains, one that cannot, 1 TiB of st1, and a calm gp2 volume.

    The lab attaches each of the two volumes to an instance of its own.
    """
    (cli.directory / "policy.yaml").write_text(
        "version: 1\nresources: {instance: {watch: true}, ebs: {types: 'gp2, st1'}}\n"
    )
    gp3 = {"volume_type": "gp3", "iops": 3_000, "throughput_mib_s": 125}
    add_lab_instance(lab, INSTANCE, "t3.medium", io_pct=90)
    for number in range(2):
        add_lab_volume(lab, f"data-{number}", "steady:2000", minutes=90, instance_id=INSTANCE, **gp3)
    add_lab_instance(lab, CALM, "m5.xlarge", name="calm-host")
    add_lab_volume(lab, "root", instance_id=CALM, **gp3)
    add_calm(lab, "web-1")
    return add_lab_volume(
        lab, "logs", "steady:200", volume_type="st1", size_gib=1_024, balance_pct=40, minutes=90
    )


@pytest.mark.usefixtures("disk")
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


def test_every_kind_is_in_the_list_in_its_unit_and_with_its_picture(cli, page, disk):
    cli.run("report", "--html", page)

    data = data_of(page)
    instance, volume, calm = (row_of(data, i) for i in (INSTANCE, disk, CALM))
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
    picture = data["details"][disk]
    assert (picture["unit"], picture["scale"], picture["limits"][0][2:]) == ("MiB/s", 10, [40, 250])
    assert "31x" in picture["iops"], "3.1 MiB/s"


@pytest.mark.usefixtures("disk")
def test_a_short_report_draws_an_instance_by_its_five_minutes(cli, page):
    cli.run("report", "--html", page, "--last", "1h")

    data = data_of(page)
    assert data["axis"][1:] == [300, 12]
    assert data["details"][INSTANCE]["axis"][1] == 300
    assert ",x" not in row_of(data, INSTANCE)["line"][:20]


@pytest.mark.usefixtures("disk")
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

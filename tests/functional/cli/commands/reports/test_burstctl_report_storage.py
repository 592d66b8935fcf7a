"""burstctl report of file systems and databases: in the headline, as cards, in the list, with pictures."""

import pytest
from test_burstctl_report import data_of, row_of, visible_text

from support.cli.reported_resources import DRAINED, ELASTIC, HOME

pytestmark = pytest.mark.usefixtures("reported_storage")


def test_each_kind_is_named_in_the_headline_and_on_its_card(cli, page):
    result = cli.run("report", "--html", page)

    text = visible_text(page)
    assert result.code == 0, result.err
    assert "3 file systems and 2 databases" in text
    assert "1 file system is empty, 1 file system and 1 database will be empty soon" in text
    assert "Next: db:orders, empty in" in text
    assert "Urgent 2 file systems and 1 database, most urgent first" in text
    assert f"{HOME} · bursting · burst credits · baseline 2.8 MiB/s · 58 GiB in Standard" in text
    assert f"{DRAINED} · bursting · burst credits · baseline 1 MiB/s · 10 GiB in Standard" in text
    assert "db:orders · db.m5.4xlarge · storage credits · baseline 300 IOPS · 100 GiB of gp2" in text
    assert "--throughput-mode provisioned" in text
    assert "--storage-type gp3" in text


def test_the_list_has_each_kind_in_its_unit(cli, page):
    cli.run("report", "--html", page)

    data = data_of(page)
    home, elastic, orders, idle = (row_of(data, i) for i in (HOME, ELASTIC, "db:orders", "db:idle"))
    assert (home["type"], home["bucket"], home["unit"]) == ("bursting", "burst credits", "MiB")
    assert (home["baseline"], home["drain"], home["gib"]) == (2.8, 37, None)
    assert row_of(data, DRAINED)["baseline"] == 1
    assert (elastic["level"], elastic["balance"]) == ("unknown", None)
    assert (orders["type"], orders["bucket"], orders["unit"]) == ("db.m5.4xlarge", "storage credits", "")
    assert (orders["baseline"], orders["drain"]) == (300, 2_200)
    assert idle["level"] == "ok"


def test_each_picture_has_the_unit_of_its_bucket(cli, page):
    cli.run("report", "--html", page)

    details = data_of(page)["details"]
    assert (details[HOME]["unit"], details[HOME]["scale"]) == ("metered MiB/s", 10)
    assert "400x" in details[HOME]["iops"], "40.0 MiB/s"
    assert details[HOME]["limits"][0][2:] == [2.8, 100]
    assert details[DRAINED]["limits"][0][2:] == [1, 100]
    assert details["db:orders"]["unit"] == "IOPS"
    assert details["db:orders"]["limits"][0][2:] == [300, 3_000]
    facts = dict(details[HOME]["facts"])
    assert facts["Reading"] == "958 GiB, 10 min old"
    others = [text for name, text in details["db:orders"]["facts"] if name == "Other bucket"]
    assert len(others) == 2
    assert all("of its class" in text for text in others)


def test_the_history_of_a_database_is_on_the_page(cli, page):
    cli.run("watch", "--once")
    cli.run("hold", "db:orders", "--for", "6h", "--reason", "migration")

    document = cli.run("report", "--html", page, "--json").document

    assert (document["volumes"], document["resources"]) == (0, 5)
    assert document["by_level"]["exhausted"] == 1
    details = data_of(page)["details"]
    assert {kind for _, _, kind, *_ in details["db:orders"]["history"]} >= {"by people", "level", "alerted"}
    assert "migration" in dict(details["db:orders"]["facts"])["Hold"]

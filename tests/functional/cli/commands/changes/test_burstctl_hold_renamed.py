"""burstctl hold and release of a database that gets another name."""

import pytest

from burstlab.model.database import LabDatabase
from support.cli_session import START


@pytest.fixture
def renamed(cli, lab):
    """A database that is held as ``orders`` and then named ``orders-old``."""
    (cli.directory / "policy.yaml").write_text("version: 1\nresources: {rds: {watch: true}}\n")
    lab.fleet.databases.add(LabDatabase(identifier="orders", starts_at=START))
    cli.run("watch", "--once")
    held = cli.run("hold", "orders", "--for", "6h", "--reason", "audit")
    assert held.code == 0, held.err
    cli.run("watch", "--once")
    lab.fleet.databases.rename("orders", "orders-old")
    return "db:orders-old"


def test_assess_shows_the_hold_under_the_new_name_and_moves_nothing(cli, renamed):
    for _ in range(2):
        [hold] = cli.run("assess", "--json").document["holds"]
        assert hold["resource_id"] == renamed
    assert "nothing released" in cli.run("release", renamed).err


def test_a_hold_is_shown_and_ended_by_the_new_name(cli, renamed):
    cli.run("watch", "--once")
    assert "no alert about db:orders-old is sent for 6 h" in cli.run("history", "orders-old").out
    assert f"{renamed}: released" in cli.run("release", "orders-old").out
    assert cli.run("assess", "--json").document["holds"] == []

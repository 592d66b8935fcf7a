"""What burstctl says of a database by a name that it does not have any more."""

import pytest

from burstlab.model.database import LabDatabase
from support.cli.cli_session import START

HINT = "fix: the database that had it is named db:orders-old now"


@pytest.mark.usefixtures("renamed_orders")
@pytest.mark.parametrize(
    "command",
    [
        ("assess", "orders"),
        ("explain", "orders"),
        ("which", "orders"),
        ("plot", "orders"),
        ("hold", "orders", "--for", "6h", "--reason", "audit"),
    ],
    ids=" ".join,
)
def test_the_present_name_is_the_next_step(cli, command):
    result = cli.run(*command)
    assert "no volume, instance, file system or database in us-east-1 has the name 'orders'" in result.err
    assert HINT in result.err
    assert result.code == 2


@pytest.mark.usefixtures("renamed_orders")
def test_explain_of_the_former_id_names_the_present_one(cli):
    result = cli.run("explain", "db:orders")
    assert "error: no database db:orders in us-east-1" in result.err
    assert "the database that had the name db:orders is named db:orders-old now" in result.err
    assert "next: burstctl explain db:orders-old" in result.err
    assert result.code == 1


def test_a_database_that_was_renamed_twice_has_its_last_name(cli, lab, remembered_orders):
    for old, new in (("orders", "orders-old"), ("orders-old", "orders-older")):
        lab.fleet.databases.rename(old, new)
        cli.run("watch", "--once")
    assert "is named db:orders-older now" in cli.run("explain", "orders").err


@pytest.mark.usefixtures("renamed_orders")
def test_a_database_that_was_deleted_has_no_name(cli, lab):
    lab.fleet.databases.remove("orders-old")
    error = cli.run("explain", "orders").err
    assert "is named" not in error
    assert "fix: burstctl assess lists the names and IDs" in error


@pytest.mark.usefixtures("remembered_orders")
def test_a_name_that_another_database_has_now_means_that_one(cli, lab):
    lab.fleet.databases.rename("orders", "orders-old")
    cli.run("watch", "--once")
    lab.fleet.databases.add(LabDatabase(identifier="orders", starts_at=START))
    result = cli.run("explain", "orders")
    assert result.out.startswith("db:orders, ")
    assert "is named" not in result.err

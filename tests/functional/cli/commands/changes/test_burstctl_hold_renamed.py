"""burstctl hold and release of a database that gets another name."""


def test_assess_shows_the_hold_under_the_new_name_and_moves_nothing(cli, renamed_database):
    for _ in range(2):
        [hold] = cli.run("assess", "--json").document["holds"]
        assert hold["resource_id"] == renamed_database
    assert "nothing released" in cli.run("release", renamed_database).err


def test_a_hold_is_shown_and_ended_by_the_new_name(cli, renamed_database):
    cli.run("watch", "--once")
    assert "no alert about db:orders-old is sent for 6 h" in cli.run("history", "orders-old").out
    assert f"{renamed_database}: released" in cli.run("release", "orders-old").out
    assert cli.run("assess", "--json").document["holds"] == []

"""What tags may spend, end to end: they no longer use up the caps of volumes that drain."""

from support.builders.functions import AUTO
from support.cli.cli_session import add_calm, add_critical, modification_targets

IO2 = AUTO | {"burstwatch:target": "io2"}


def run_minutes(functions, minutes=3):
    for _ in range(minutes):
        functions.tick(1)
        functions.run_flip_requests()
    return {
        (alert["volume"]["volume_id"], alert["evidence"]["guard"]): str(alert["evidence"])
        for alert in functions.alerts()
        if alert["kind"] == "FlipRefused"
    }


def test_tags_on_an_idle_volume_do_not_cost_a_thousand_dollars_a_month(functions):
    tags = IO2 | {"burstwatch:critical": "true", "burstwatch:iops": "15300"}
    idle = add_calm(functions.lab, tags=tags)
    functions.watch("sweep")
    functions.run_flip_requests()
    reported = run_minutes(functions)
    assert modification_targets(functions.lab, idle) == []
    assert "flip.tag_cap_usd_per_month is $250.00" in reported[idle, "tag_cap"]


def test_idle_volumes_tagged_critical_leave_a_share_of_the_dollars_to_one_that_drains(functions):
    """$197.50 each: three fit below 75 % of $1,000, a fourth does not, and the one that drains does."""
    lab, tags = functions.lab, IO2 | {"burstwatch:critical": "true"}
    idle = [add_calm(lab, f"idle-{n}", tags=tags) for n in range(5)]
    functions.watch("sweep")
    functions.run_flip_requests()
    reported = run_minutes(functions)
    assert sorted(modification_targets(lab, volume_id) for volume_id in idle) == [
        [],
        [],
        ["io2"],
        ["io2"],
        ["io2"],
    ]
    refused = {guard for _, guard in reported}
    assert refused == {"spend_cap"}
    assert all("reserved for critical drains" in item for item in reported.values())
    victim = add_critical(lab, tags=IO2)
    run_minutes(functions, 5)
    assert modification_targets(lab, victim) == ["io2"]


def test_idle_volumes_tagged_critical_leave_places_to_one_that_drains(functions):
    functions.deploy_policy(
        "version: 1\nflip:\n  fleet_cap: 4\n  target: io1\n  spend_cap_usd_per_month: 9999\n"
    )
    lab = functions.lab
    idle = [add_calm(lab, f"idle-{n}", tags=AUTO | {"burstwatch:critical": "true"}) for n in range(5)]
    functions.watch("sweep")
    functions.run_flip_requests()
    reported = run_minutes(functions)
    assert sum(modification_targets(lab, volume_id) != [] for volume_id in idle) == 3
    assert {guard for _, guard in reported} == {"fleet_cap"}
    victim = add_critical(lab, tags=AUTO)
    run_minutes(functions, 5)
    assert modification_targets(lab, victim) == ["io1"]

"""A zone or an Outpost without gp3: AWS is asked once, and people are alert what exists there."""

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.volume import LabVolume
from burstwatch.core.ledger.flip_state import EXTERNAL, ModificationUse
from burstwatch.core.ledger.ledger import Change
from support.builders.functions import AUTO
from support.builders.states import with_fields
from support.cli.cli_session import add_critical, count_modify_calls

BOSTON = "us-east-1-bos-1a"
OUTPOST = "arn:aws:outposts:us-east-1:123456789012:outpost/op-0123456789abcdef0"
DAY_S = 24 * 3600


def alerts_of_kind(alerts, kind, volume_id):
    return [alert for alert in alerts if (alert["kind"], alert["volume"]["volume_id"]) == (kind, volume_id)]


def run_ticks(functions, *pauses_min):
    """Ticks, each this many minutes after the one before, and what they request."""
    for pause_min in pauses_min:
        functions.tick(pause_min)
        functions.run_flip_requests()


def test_after_one_refusal_no_other_volume_of_the_zone_is_tried_and_io1_is_proposed(functions, lab):
    first = add_critical(lab, tags=AUTO, zone=BOSTON, lacks_gp3=True)
    functions.watch("sweep")
    functions.run_flip_requests()
    assert count_modify_calls(lab) == 1
    [alert] = alerts_of_kind(functions.alerts(), "FlipRefused", first)
    assert alert["evidence"]["guard"] == "type_not_available"
    text = " ".join(alert["evidence"]["details"])
    assert "not supported in the zone" in text
    assert (
        "The next attempt is in 7 d (18:00 27 Nov UTC): gp3 does not exist in zone us-east-1-bos-1a" in text
    )
    assert alert["evidence"]["ends_at"] == alert["evidence"]["retry_at"] == "2026-11-27T18:00:00Z"
    assert "tries again" not in text
    assert "by hand" not in text
    assert f"instead of $10.00 (us-east-1 list prices): burstctl flip {first} --to io1." in text
    assert alert["action"] == f"burstctl flip {first} --to io1 --region us-east-1"

    second = add_critical(lab, tags=AUTO, zone=BOSTON, lacks_gp3=True)
    elsewhere = add_critical(lab, tags=AUTO)
    run_ticks(functions, 1, 4, 5)
    alerts = functions.alerts()
    [alert] = alerts_of_kind(alerts, "FlipRefused", second)
    assert alert["evidence"]["guard"] == "type_not_available"
    assert "AWS refused gp3 in zone us-east-1-bos-1a at 2026-11-20T18:00:00Z" in str(alert["evidence"])
    assert f"burstctl flip {second} --to io1" in str(alert["evidence"])
    assert alert["action"] == f"burstctl flip {second} --to io1 --region us-east-1"
    [drains] = alerts_of_kind(alerts, "BurstBalanceDraining", second)
    assert "--to io1 --iops" in drains["action"]
    assert alerts_of_kind(alerts, "FlipRefused", first) == [], "people were alert"
    assert len(alerts_of_kind(alerts, "VolumeFlipped", elsewhere)) == 1
    assert count_modify_calls(lab) == 2, "one refused in Boston, one taken elsewhere"


def test_a_refusal_in_a_zone_that_has_the_type_is_only_about_that_volume(functions, lab):
    lab.fleet.add(LabVolume(size_gib=10, volume_type="gp3", zone=BOSTON))
    refused = add_critical(lab, tags=AUTO, zone=BOSTON, lacks_gp3=True)
    functions.watch("sweep")
    functions.run_flip_requests()
    [alert] = alerts_of_kind(functions.alerts(), "FlipFailed", refused)
    assert "not supported in the zone" in " ".join(alert["evidence"]["details"])

    other = add_critical(lab, tags=AUTO, zone=BOSTON)
    run_ticks(functions, 1, 4, 5)
    assert len(alerts_of_kind(functions.alerts(), "VolumeFlipped", other)) == 1


def test_after_a_week_the_zone_is_read_again(functions, lab):
    add_critical(lab, tags=AUTO, zone=BOSTON, lacks_gp3=True)
    functions.watch("sweep")
    functions.run_flip_requests()
    lab.clock.advance(8 * DAY_S)
    add_critical(lab, tags=AUTO, zone=BOSTON)
    run_ticks(functions, 1, 4, 5)
    assert count_modify_calls(lab) > 1


def test_on_an_outpost_gp3_is_not_tried_at_all(functions, lab):
    volume_id = add_critical(lab, tags=AUTO, outpost_arn=OUTPOST, lacks_gp3=True)
    functions.watch("sweep")
    functions.run_flip_requests()
    alerts = functions.alerts()
    assert count_modify_calls(lab) == 0
    [drains] = alerts_of_kind(alerts, "BurstBalanceDraining", volume_id)
    assert "--to io1 --iops" in drains["action"]
    [alert] = alerts_of_kind(alerts, "FlipRefused", volume_id)
    assert alert["evidence"]["guard"] == "type_not_available"
    assert "first-generation" in str(alert["evidence"])
    assert alert["action"] == f"burstctl flip {volume_id} --to io1 --region us-east-1"


@pytest.mark.parametrize(
    ("hours_ago", "ends"),
    [((), "2026-11-20T19:00:00Z"), ((20, 2), "2026-11-20T19:00:00Z"), ((23.5, 2), "2026-11-20T18:30:00Z")],
)
def test_a_quota_refusal_that_names_no_time_is_tried_again_in_an_hour_and_not_in_a_minute(
    functions, lab, hours_ago, ends
):
    """AWS counts more than the ledger knows; when the oldest known is a day old, one more is allowed."""
    volume_id = add_critical(lab, tags=AUTO)
    functions.watch("sweep")
    use_up_modification(functions, volume_id, hours_ago)
    text = "You've reached the maximum modification rate per volume limit. Come back later"
    lab.faults.add(Fault(action="ModifyVolume", code="VolumeModificationRateExceeded", message=text))
    line = functions.run_flip_requests().lines_about(volume_id)[-1]
    assert text in line["message"]
    assert "names no time that burstwatch understands" in line["message"]
    [alert] = alerts_of_kind(functions.alerts(), "FlipRefused", volume_id)
    assert (alert["evidence"]["guard"], alert["evidence"]["ends_at"]) == ("aws_quota", ends)
    run_ticks(functions, 1, 1, 3, 5, 10)
    assert count_modify_calls(lab) == 1


def use_up_modification(functions, volume_id, hours_ago):
    """Others have modified it, this many hours ago."""
    now_s, state = int(functions.lab.clock.now_s()), functions.ledger.states()[volume_id]
    used = tuple(ModificationUse(at_s=now_s - int(hours * 3600), by=EXTERNAL) for hours in hours_ago)
    after = with_fields(state, revision=state.revision + 1, used=used)
    change = Change(volume_id=volume_id, expected_revision=state.revision, state=after)
    assert functions.ledger.commit([change], channels=())

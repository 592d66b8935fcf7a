from dataclasses import replace

import pytest

from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.flips.type_availability import (
    REFUSAL_MEMORY_S,
    placement_of,
    readable_refusals,
    remember_acceptance,
    remember_refusal,
    unavailable_types,
)
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.stored_values import MAX_INSTANT_S
from support.builders.core_values import a_volume, at

ARN = "arn:aws:outposts:us-west-2:111122223333:outpost/op-0123456789abcdef0"
BOSTON = "us-east-1-bos-1a"
REFUSAL_TEXT = "The volume type gp3 is not supported in this zone."


@pytest.mark.parametrize(
    ("place", "location"),
    [
        ({"zone": BOSTON}, f"zone {BOSTON}"),
        ({"zone": "us-west-2a", "outpost_arn": ARN}, "outpost op-0123456789abcdef0"),
        ({"outpost_arn": ARN}, "outpost op-0123456789abcdef0"),
        ({}, None),
    ],
)
def test_a_place_is_the_outpost_or_else_the_zone(place, location):
    assert placement_of(a_volume(**place)) == location


def remember(volume, kind=VolumeType.GP3):
    return remember_refusal(volume, kind, REFUSAL_TEXT, at("12:00"))


def test_what_aws_refused_in_a_zone_is_remembered_with_when_and_how_long():
    volume = a_volume(zone=BOSTON)
    change = remember(volume)
    assert (change.volume_id, change.state, change.expected_revision) == (f"zone {BOSTON}", None, None)
    assert change.entries[0].body["reason"] == REFUSAL_TEXT
    assert unavailable_types(a_volume(zone=BOSTON), change.entries) == {
        VolumeType.GP3: f"AWS refused gp3 in zone {BOSTON} at 2026-11-20T12:00:00Z, which is remembered until"
        " 2026-11-27T12:00:00Z"
    }
    assert REFUSAL_MEMORY_S == 7 * 24 * 3600


def test_nothing_is_remembered_for_a_volume_without_a_zone():
    assert remember(a_volume()) is None


def test_in_a_zone_that_refused_nothing_everything_is_there():
    assert unavailable_types(a_volume(zone=BOSTON), ()) == {}


def test_on_an_outpost_gp3_and_io2_may_be_missing_and_io1_is_there():
    result = unavailable_types(a_volume(zone="us-west-2a", outpost_arn=ARN), ())
    assert result.keys() == {VolumeType.GP3, VolumeType.IO2}
    assert "first-generation" in result[VolumeType.GP3]


def test_what_an_outpost_refused_counts_too():
    volume = a_volume(outpost_arn=ARN)
    result = unavailable_types(volume, remember(volume, VolumeType.IO1).entries)
    assert result.keys() == {VolumeType.GP3, VolumeType.IO2, VolumeType.IO1}


@pytest.mark.parametrize("kind", ["gp9", None, 7, [], {}])
def test_a_type_that_is_not_known_is_named_and_hides_no_other_refusal(kind):
    bad, good = (remember(a_volume(zone=BOSTON)).entries[0] for _ in range(2))
    bad.body["volume_type"] = kind
    result, unread = readable_refusals([bad, good], at("12:00"))
    assert result == [good]
    assert [unread_volume.subject for unread_volume in unread] == [f"zone {BOSTON}"]


def test_a_type_that_aws_has_accepted_since_is_there_until_it_is_refused_again():
    volume = a_volume(zone=BOSTON)
    [refused] = remember(volume).entries
    [other] = remember(volume, VolumeType.IO2).entries
    [accepted] = remember_acceptance(volume, VolumeType.GP3, refused.at_s + 60).entries
    refused_again = replace(refused, at_s=refused.at_s + 120)
    now_s = refused.at_s + 180
    assert readable_refusals([refused, other, accepted], now_s) == ([other], [])
    assert readable_refusals([accepted, refused, refused_again], now_s) == ([refused_again], [])


def test_what_is_not_a_refusal_or_is_dated_ahead_of_now_blocks_nothing_and_is_named():
    entry = remember(a_volume(zone=BOSTON)).entries[0]
    now_s = entry.at_s
    stall = replace(entry, kind=EntryKind.STALL)
    ahead = [replace(entry, at_s=at_s) for at_s in (now_s + 3600, MAX_INSTANT_S - 1)]
    by_another_clock = replace(entry, at_s=now_s + 60)
    result, unread = readable_refusals([stall, *ahead, by_another_clock], now_s)
    assert result == [by_another_clock]
    assert len({unread_volume.key for unread_volume in unread}) == 3
    assert all("cannot be read" in str(unread_volume) for unread_volume in unread)

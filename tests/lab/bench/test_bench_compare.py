"""The comparison with Cloud Custodian: what counts as missed, and the cases, played with burstwatch only."""

import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import yaml


def test_a_volume_is_late_if_it_is_empty_before_it_is_changed_or_never_changed(compare):
    empty_at = compare.START
    changed = [SimpleNamespace(started_at=empty_at - timedelta(minutes=1))]
    changed_after = [SimpleNamespace(started_at=empty_at)]
    assert [compare.is_late(empty_at, done) for done in (changed, changed_after, [])] == [False, True, True]
    assert not compare.is_late(None, [])


def test_both_rules_of_custodian_are_policies_for_opted_in_volumes(compare):
    for contender in compare.make_contenders(Path(sys.executable))[:-1]:
        policies = yaml.safe_load(contender.policy)["policies"]
        assert all({"tag:burstwatch:mode": "auto"} in policy["filters"] for policy in policies)
        assert all("modifyable" in policy["filters"] for policy in policies)


def test_a_group_may_only_be_modified_if_it_is_opted_in(compare):
    fleet, grouped = compare.build_fleet(30)
    assert len(fleet) == 30
    assert {group.name for group in grouped.values() if not group.tags} == {"not opted in"}


def test_a_volume_that_is_refused_does_not_keep_the_others_from_being_changed(compare, burstwatch):
    [case] = [case for case in compare.CASES if case.name == "its zone has no gp3"]
    is_changed, neighbours, tally, volume_id = compare.run_case(case, burstwatch)
    assert (is_changed, neighbours, tally.failed_passes) == (False, compare.NEIGHBOURS, 0)
    assert any(volume_id in message for message in tally.messages)

import json
from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError
from mocked_aws import client_of
from moto import mock_aws

from burstwatch.adapters.aws.errors import AwsError
from burstwatch.adapters.policy.deployments import (
    HANDOVER_S,
    Deployment,
    DeploymentError,
    Standing,
    find_deployments,
    standing_of,
    take_over,
    write_origin,
)

DOCUMENT = {
    "schema": "burstwatch.deployment/v1",
    "name": "prod",
    "ledger": "dynamodb:prod-Ledger-1",
    "policy": "/burstwatch/prod/policy",
    "topic_arn": "arn:aws:sns:us-east-1:123456789012:prod",
    "flips": True,
    "opt_in_tag": {"key": "burstwatch:mode", "value": "auto"},
}


def parameter(name, hour, **changes):
    return {
        "Name": f"/burstwatch/deployments/{name}",
        "Value": json.dumps(DOCUMENT | {"name": name} | changes),
        "LastModifiedDate": datetime(2026, 11, 20, hour, tzinfo=UTC),
    }


class FakeSsm:
    """Parameter Store with these, two on a page; or nothing but this error."""

    def __init__(self, *parameters, error=None):
        self.parameters = parameters
        self.error = error

    def get_parameters_by_path(self, *, Path, Recursive, NextToken="0"):  # noqa: N803 - AWS's names
        assert (Path, Recursive) == ("/burstwatch/deployments", True)
        if self.error:
            raise self.error
        first = int(NextToken)
        more = {"NextToken": str(first + 2)} if first + 2 < len(self.parameters) else {}
        return {"Parameters": list(self.parameters[first : first + 2]), **more}


def names(found):
    return [one.name for one in found]


def test_the_first_deployed_stands_whatever_its_name_is():
    found = find_deployments(FakeSsm(parameter("a", 12), parameter("b", 9), parameter("c", 15)))
    assert names(found) == ["b", "a", "c"]
    assert standing_of("b", found).may_flip
    assert not standing_of("a", found).may_flip
    assert not standing_of("c", found).may_flip


def test_of_two_of_one_moment_the_first_by_name_stands():
    found = find_deployments(FakeSsm(parameter("z", 9), parameter("m", 9)))
    assert names(found) == ["m", "z"]


def test_who_gives_way_says_to_whom_since_when_and_what_to_do():
    because = standing_of(
        "test", find_deployments(FakeSsm(parameter("prod", 9), parameter("test", 10)))
    ).because
    for needed in ("'prod'", "2026-11-20T09:00:00Z", "'test' only proposes", "destroy one"):
        assert needed in because


def test_who_is_not_registered_gives_way_to_who_is_and_says_so():
    standing = standing_of("test", find_deployments(FakeSsm(parameter("prod", 9))))
    assert not standing.may_flip
    assert "/burstwatch/deployments/test is gone" in standing.because


def test_where_nobody_is_registered_there_is_nobody_to_give_way_to():
    assert standing_of("prod", find_deployments(FakeSsm())).may_flip


def test_a_deployment_that_cannot_be_read_stands_all_the_same():
    later = parameter("next", 8) | {"Value": '{"schema": "burstwatch.deployment/v2"}'}
    found = find_deployments(FakeSsm(parameter("prod", 9), later))
    assert not standing_of("prod", found).may_flip
    with pytest.raises(DeploymentError, match="burstwatch/deployments/next cannot be read"):
        found[0].read()


def test_what_a_stack_says_of_itself_is_read():
    (found,) = find_deployments(FakeSsm(parameter("prod", 9, later_key=1)))
    assert found.read() == Deployment(
        name="prod",
        ledger="dynamodb:prod-Ledger-1",
        policy="/burstwatch/prod/policy",
        topic_arn="arn:aws:sns:us-east-1:123456789012:prod",
        flips=True,
        opt_in_tag=("burstwatch:mode", "auto"),
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "null", "prod", "7", '"x"'),
        json.dumps(DOCUMENT | {"flips": "yes"}),
        json.dumps(DOCUMENT | {"ledger": None}),
        json.dumps(DOCUMENT | {"opt_in_tag": "burstwatch:mode=auto"}),
        json.dumps(DOCUMENT | {"opt_in_tag": {"key": "k"}}),
        json.dumps(DOCUMENT | {"opt_in_tag": {"key": "k", "value": 1}}),
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(DeploymentError):
        Deployment.from_document(text)


def test_a_denied_listing_names_the_permission():
    details = {
        "Code": "AccessDeniedException",
        "Message": "User: x is not authorized to perform: ssm:GetParametersByPath",
    }
    error = ClientError({"Error": details}, "GetParametersByPath")
    with pytest.raises(AwsError, match="grant ssm:GetParametersByPath"):
        find_deployments(FakeSsm(error=error))


@mock_aws
def test_a_dozen_deployments_are_found_as_aws_lists_them():
    client = client_of("ssm")
    for number in range(12):
        document = json.dumps(DOCUMENT | {"name": f"stack-{number}"})
        client.put_parameter(Name=f"/burstwatch/deployments/stack-{number}", Value=document, Type="String")
    client.put_parameter(Name="/burstwatch/prod/policy", Value="version: 1", Type="String")
    found = find_deployments(client)
    assert sorted(names(found)) == sorted(f"stack-{number}" for number in range(12))
    assert all(one.read().name == one.name for one in found)


def test_an_update_of_the_first_stack_does_not_make_it_the_second():
    first = parameter("a", 9)
    since = parameter("a", 9) | {"Name": "/burstwatch/deployments/a/since", "Value": "a"}
    updated = first | {"LastModifiedDate": datetime(2026, 11, 20, 18, tzinfo=UTC)}
    found = find_deployments(FakeSsm(updated, since, parameter("b", 12)))
    assert names(found) == ["a", "b"]
    assert standing_of("a", found).may_flip


def test_a_deployment_without_flips_stands_in_nobodys_way():
    found = find_deployments(FakeSsm(parameter("a", 9, flips=False), parameter("b", 12)))
    assert standing_of("b", found).may_flip


@pytest.mark.parametrize("text", ["[" * 100_000, json.dumps({"schema": "\x1b[31m" * 1_000}), "{}", "null"])
def test_a_card_made_to_hurt_is_refused_in_a_short_sentence(text):
    with pytest.raises(DeploymentError) as caught:
        Deployment.from_document(text)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500


def test_a_parameter_that_says_not_since_when_fails_the_call():
    class Parameters:
        def get_parameters_by_path(self, **_):
            return {"Parameters": [{"Name": "/burstwatch/deployments/one", "Value": "{}"}]}

    with pytest.raises(AwsError, match="a parameter below /burstwatch/deployments is told as"):
        find_deployments(Parameters())


# The first deploy, written once as a value


def at(hour):
    return datetime(2026, 11, 20, hour, tzinfo=UTC)


def below(name, last, value, hour):
    path = f"/burstwatch/deployments/{name}/{last}"
    return {"Name": path, "Value": value, "LastModifiedDate": at(hour)}


def a_deployment(name, *, deployed, updated=None, writes=True, stack="stack-1"):
    """Its parameters: ``updated`` is when CloudFormation wrote them last, for a tag that was changed."""
    hour = deployed if updated is None else updated
    card = {"origin": f"/burstwatch/deployments/{name}/{stack}/since"} if writes else {}
    return [
        parameter(name, hour, **card),
        below(name, "since", name, hour),
        *([below(name, f"{stack}/since", f"{at(deployed).timestamp():.3f}", hour)] if writes else []),
    ]


def standing_ones(*deployments):
    """Those that stand, each by its own look at the same list."""
    found = find_deployments(FakeSsm(*(each for one in deployments for each in one)))
    return [one.name for one in found if standing_of(one.name, found).may_flip]


def test_a_changed_tag_of_the_first_stack_does_not_make_it_the_second():
    assert standing_ones(a_deployment("a", deployed=9, updated=18), a_deployment("b", deployed=12)) == ["a"]


def test_who_gives_way_names_the_date_that_was_written():
    found = find_deployments(
        FakeSsm(*a_deployment("a", deployed=9, updated=18), *a_deployment("b", deployed=12))
    )
    assert "since 2026-11-20T09:00:00Z" in standing_of("b", found).because


def test_beside_an_older_version_the_dates_count_as_it_counts_them():
    """The older one looks at dates only; by any other rule both would flip."""
    old, new = a_deployment("old", deployed=12, writes=False), a_deployment("new", deployed=9, updated=18)
    assert standing_ones(old, new) == ["old"]
    assert standing_ones(old, a_deployment("new", deployed=9)) == ["new"]


def test_an_older_version_that_does_not_flip_changes_nothing_of_that():
    old = a_deployment("old", deployed=8, writes=False)
    old[0] |= {"Value": json.dumps(DOCUMENT | {"name": "old", "flips": False})}
    ours = a_deployment("a", deployed=9, updated=18), a_deployment("b", deployed=12)
    assert "b" not in standing_ones(old, *ours)


def test_a_stack_that_was_destroyed_and_deployed_again_does_not_inherit_its_first_date():
    left_behind = below("a", "stack-1/since", f"{at(9).timestamp():.3f}", 9)
    again = a_deployment("a", deployed=18, stack="stack-2")
    assert standing_ones([left_behind], again, a_deployment("b", deployed=12)) == ["b"]


def test_a_stack_whose_functions_have_not_run_yet_counts_by_the_date_that_they_will_write():
    young = a_deployment("young", deployed=15)[:2]
    assert standing_ones(
        a_deployment("a", deployed=9, updated=18), a_deployment("b", deployed=12), young
    ) == ["a"]


@pytest.mark.parametrize("value", ["", "soon", "nan", "inf", "-1", "1e300"])
def test_a_first_date_that_is_none_counts_for_nothing(value):
    broken = [*a_deployment("b", deployed=12)[:2], below("b", "stack-1/since", value, 12)]
    assert standing_ones(a_deployment("a", deployed=9), broken) == ["a"]


@pytest.mark.parametrize(
    "origin", ["/burstwatch/deployments/a/since/x", "/burstwatch/deployments/b/stack-1/since", 7, None]
)
def test_only_a_parameter_below_the_card_is_taken_for_its_first_date(origin):
    (found,) = find_deployments(FakeSsm(parameter("a", 9, origin=origin)))
    assert (found.origin, found.first_s) == (None, None)


@mock_aws
def test_the_first_date_is_written_once_and_is_the_one_that_counted_until_then():
    client = client_of("ssm")
    for each in a_deployment("a", deployed=9)[:2]:
        client.put_parameter(Name=each["Name"], Value=each["Value"], Type="String")
    (before,) = find_deployments(client)
    write_origin(client, before)
    (after,) = find_deployments(client)
    assert after.first_s == pytest.approx(before.since_s, abs=0.001)
    write_origin(client, after)
    write_origin(client, before)  # as another function does that looked at the same time
    (again,) = find_deployments(client)
    assert again == after


def test_a_first_date_that_may_not_be_written_names_the_permission():
    class Denied(FakeSsm):
        def put_parameter(self, **_):
            details = {
                "Code": "AccessDeniedException",
                "Message": "not authorized to perform: ssm:PutParameter",
            }
            raise ClientError({"Error": details}, "PutParameter")

    client = Denied(*a_deployment("a", deployed=9)[:2])
    (own,) = find_deployments(client)
    with pytest.raises(AwsError, match="ssm:PutParameter"):
        write_origin(client, own)


# Handing over


NOW_S = 1_795_197_600.0
ALONE = Standing(may_flip=True, is_alone=True)
FIRST = Standing(may_flip=True, first_s=NOW_S - HANDOVER_S + 1)
GIVES_WAY = Standing(may_flip=False, because="the other stands")


@pytest.mark.parametrize(("standing", "noted"), [(ALONE, None), (ALONE, "stands"), (FIRST, "stands")])
def test_who_is_alone_or_stood_before_flips_at_once(standing, noted):
    assert take_over(standing, noted, NOW_S) == (standing, "stands")


def test_an_upgrade_from_a_version_without_notes_does_not_stop_the_flips_of_the_standing_one_of_two():
    found = find_deployments(FakeSsm(parameter("a", 9), parameter("b", 10)))
    standing = standing_of("a", found)
    assert take_over(standing, None, standing.first_s + HANDOVER_S) == (standing, "stands")
    assert not take_over(standing, None, standing.first_s + HANDOVER_S - 1)[0].may_flip
    assert not take_over(standing, "gives way: b stands", standing.first_s + 10 * HANDOVER_S)[0].may_flip


@pytest.mark.parametrize("other_is_new", [False, True])
@pytest.mark.parametrize("other_hours", [(9, 9), (9, 18), (13, 13), (13, 18)])
@pytest.mark.parametrize("updated", [12, 15, 20])
def test_who_stands_without_a_note_after_an_upgrade_stood_before_it(other_is_new, other_hours, updated):
    """Therefore it need not wait: the other one did not flip."""
    first, last = other_hours
    other = a_deployment("other", deployed=first, updated=last, writes=other_is_new)
    before = standing_ones(other, a_deployment("own", deployed=updated, writes=False))
    after = standing_ones(other, a_deployment("own", deployed=updated)[:2])
    assert "own" not in after or before == ["own"]


@pytest.mark.parametrize(
    ("standing", "noted"), [(FIRST, None), (FIRST, "gives way: b stands"), (ALONE, "gives way: b stands")]
)
def test_who_did_not_stand_before_waits_until_no_function_of_the_other_can_still_flip(standing, noted):
    waiting, noted = take_over(standing, noted, NOW_S)
    assert not waiting.may_flip
    assert "flips from 2026-11-20T18:10:00Z on" in waiting.because
    assert not take_over(standing, noted, NOW_S + HANDOVER_S - 1)[0].may_flip
    assert take_over(standing, noted, NOW_S + HANDOVER_S) == (standing, "stands")


def test_who_gives_way_again_while_waiting_has_to_wait_again():
    _, noted = take_over(ALONE, "gives way: b stands", NOW_S)
    standing, noted = take_over(GIVES_WAY, noted, NOW_S + 1)
    assert (standing, noted) == (GIVES_WAY, "gives way: the other stands")
    assert not take_over(ALONE, noted, NOW_S + HANDOVER_S)[0].may_flip


@pytest.mark.parametrize("noted", ["sta", "null", ""])
def test_a_note_that_cannot_be_read_delays_only_a_deployment_that_is_not_alone(noted):
    assert take_over(ALONE, noted, NOW_S) == (ALONE, "stands")
    assert not take_over(FIRST, noted, NOW_S)[0].may_flip


@pytest.mark.parametrize("noted", ["stands from ", "stands from soon", "stands from 99999999999"])
def test_a_note_that_is_damaged_delays_no_longer_than_a_handover(noted):
    _, noted = take_over(FIRST, noted, NOW_S)
    assert take_over(FIRST, noted, NOW_S + HANDOVER_S)[0].may_flip

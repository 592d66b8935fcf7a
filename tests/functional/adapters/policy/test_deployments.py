import json
from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from burstwatch.adapters.aws.errors import AwsError
from burstwatch.adapters.policy.deployments import (
    HANDOVER_S,
    Deployment,
    DeploymentError,
    FlipAuthority,
    apply_handover,
    find_deployments,
    flip_authority,
    write_origin,
)
from support.aws.stub_clients import stubbed_client

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


def names(result):
    return [finding.name for finding in result]


def test_the_first_deployed_stack_may_flip_whatever_its_name():
    deployments = find_deployments(FakeSsm(parameter("a", 12), parameter("b", 9), parameter("c", 15)))
    assert names(deployments) == ["b", "a", "c"]
    assert flip_authority("b", deployments).may_flip
    assert not flip_authority("a", deployments).may_flip
    assert not flip_authority("c", deployments).may_flip


def test_of_two_stacks_deployed_at_once_the_first_by_name_may_flip():
    deployments = find_deployments(FakeSsm(parameter("z", 9), parameter("m", 9)))
    assert names(deployments) == ["m", "z"]


def test_a_yielding_stack_names_the_other_its_date_and_the_next_step():
    because = flip_authority(
        "test", find_deployments(FakeSsm(parameter("prod", 9), parameter("test", 10)))
    ).reason
    for needed in ("'prod'", "2026-11-20T09:00:00Z", "'test' only proposes", "destroy one"):
        assert needed in because


def test_an_unregistered_stack_yields_to_a_registered_one():
    standing = flip_authority("test", find_deployments(FakeSsm(parameter("prod", 9))))
    assert not standing.may_flip
    assert "/burstwatch/deployments/test is gone" in standing.reason


def test_without_registered_stacks_none_yields():
    assert flip_authority("prod", find_deployments(FakeSsm())).may_flip


def test_an_unreadable_deployment_record_still_counts():
    later = parameter("next", 8) | {"Value": '{"schema": "burstwatch.deployment/v2"}'}
    deployments = find_deployments(FakeSsm(parameter("prod", 9), later))
    assert not flip_authority("prod", deployments).may_flip
    with pytest.raises(DeploymentError, match="burstwatch/deployments/next cannot be read"):
        deployments[0].read()


def test_a_deployment_record_is_parsed():
    (deployments,) = find_deployments(FakeSsm(parameter("prod", 9, later_key=1)))
    assert deployments.read() == Deployment(
        name="prod",
        ledger="dynamodb:prod-Ledger-1",
        policy="/burstwatch/prod/policy",
        topic_arn="arn:aws:sns:us-east-1:123456789012:prod",
        flips=True,
        opt_in_tag=("burstwatch:mode", "auto"),
    )


@pytest.mark.parametrize(
    ("changes", "stack_name"), [({}, "prod"), ({"stack": "StackSet-prod-1"}, "StackSet-prod-1")]
)
def test_a_record_names_its_stack_in_cloudformation_or_it_is_the_deployments_name(changes, stack_name):
    [record] = find_deployments(FakeSsm(parameter("prod", 9, **changes)))
    assert (record.read().name, record.read().stack_name) == ("prod", stack_name)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "null", "prod", "7", '"x"'),
        json.dumps(DOCUMENT | {"flips": "yes"}),
        json.dumps(DOCUMENT | {"ledger": None}),
        json.dumps(DOCUMENT | {"stack": 7}),
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
    client = stubbed_client("ssm")
    for number in range(12):
        document = json.dumps(DOCUMENT | {"name": f"stack-{number}"})
        client.put_parameter(Name=f"/burstwatch/deployments/stack-{number}", Value=document, Type="String")
    client.put_parameter(Name="/burstwatch/prod/policy", Value="version: 1", Type="String")
    deployments = find_deployments(client)
    assert sorted(names(deployments)) == sorted(f"stack-{number}" for number in range(12))
    assert all(finding.read().name == finding.name for finding in deployments)


def test_an_update_of_the_first_stack_does_not_make_it_the_second():
    first = parameter("a", 9)
    since = parameter("a", 9) | {"Name": "/burstwatch/deployments/a/since", "Value": "a"}
    updated = first | {"LastModifiedDate": datetime(2026, 11, 20, 18, tzinfo=UTC)}
    deployments = find_deployments(FakeSsm(updated, since, parameter("b", 12)))
    assert names(deployments) == ["a", "b"]
    assert flip_authority("a", deployments).may_flip


def test_a_deployment_without_flips_blocks_no_other():
    deployments = find_deployments(FakeSsm(parameter("a", 9, flips=False), parameter("b", 12)))
    assert flip_authority("b", deployments).may_flip


@pytest.mark.parametrize("text", ["[" * 100_000, json.dumps({"schema": "\x1b[31m" * 1_000}), "{}", "null"])
def test_a_malicious_deployment_record_is_refused_with_a_short_message(text):
    with pytest.raises(DeploymentError) as exc_info:
        Deployment.from_document(text)
    assert str(exc_info.value).isprintable()
    assert len(str(exc_info.value)) < 500


def test_a_parameter_without_a_date_fails_the_call():
    class Parameters:
        def get_parameters_by_path(self, **_):
            return {"Parameters": [{"Name": "/burstwatch/deployments/one", "Value": "{}"}]}

    with pytest.raises(AwsError, match="a parameter below /burstwatch/deployments is given as"):
        find_deployments(Parameters())


# The first deploy, written once as a value


def at(hour):
    return datetime(2026, 11, 20, hour, tzinfo=UTC)


def child_parameter(name, last, value, hour):
    path = f"/burstwatch/deployments/{name}/{last}"
    return {"Name": path, "Value": value, "LastModifiedDate": at(hour)}


def a_deployment(name, *, deployed, updated=None, writes=True, stack="stack-1"):
    """Its parameters: ``updated`` is when CloudFormation wrote them last, for a tag that was changed."""
    hour = deployed if updated is None else updated
    card = {"origin": f"/burstwatch/deployments/{name}/{stack}/since"} if writes else {}
    return [
        parameter(name, hour, **card),
        child_parameter(name, "since", name, hour),
        *(
            [child_parameter(name, f"{stack}/since", f"{at(deployed).timestamp():.3f}", hour)]
            if writes
            else []
        ),
    ]


def standing_by_name(*deployments):
    """Those that stand, each by its own look at the same list."""
    deployments_found = find_deployments(FakeSsm(*(element for item in deployments for element in item)))
    return [item.name for item in deployments_found if flip_authority(item.name, deployments_found).may_flip]


def test_a_changed_tag_of_the_first_stack_does_not_make_it_the_second():
    assert standing_by_name(a_deployment("a", deployed=9, updated=18), a_deployment("b", deployed=12)) == [
        "a"
    ]


def test_a_yielding_stack_names_the_stored_date():
    deployments = find_deployments(
        FakeSsm(*a_deployment("a", deployed=9, updated=18), *a_deployment("b", deployed=12))
    )
    assert "since 2026-11-20T09:00:00Z" in flip_authority("b", deployments).reason


def test_beside_an_older_version_the_dates_count_as_it_counts_them():
    """The older one looks at dates only; by any other rule both would flip."""
    old, new = a_deployment("old", deployed=12, writes=False), a_deployment("new", deployed=9, updated=18)
    assert standing_by_name(old, new) == ["old"]
    assert standing_by_name(old, a_deployment("new", deployed=9)) == ["new"]


def test_an_older_version_that_does_not_flip_changes_nothing_of_that():
    old = a_deployment("old", deployed=8, writes=False)
    old[0] |= {"Value": json.dumps(DOCUMENT | {"name": "old", "flips": False})}
    newer = a_deployment("a", deployed=9, updated=18), a_deployment("b", deployed=12)
    assert "b" not in standing_by_name(old, *newer)


def test_a_stack_that_was_destroyed_and_deployed_again_does_not_inherit_its_first_date():
    left_behind = child_parameter("a", "stack-1/since", f"{at(9).timestamp():.3f}", 9)
    repeated = a_deployment("a", deployed=18, stack="stack-2")
    assert standing_by_name([left_behind], repeated, a_deployment("b", deployed=12)) == ["b"]


def test_a_stack_whose_functions_have_not_run_yet_counts_by_the_date_that_they_will_write():
    young = a_deployment("young", deployed=15)[:2]
    assert standing_by_name(
        a_deployment("a", deployed=9, updated=18), a_deployment("b", deployed=12), young
    ) == ["a"]


@pytest.mark.parametrize("value", ["", "soon", "nan", "inf", "-1", "1e300"])
def test_an_invalid_first_date_counts_for_nothing(value):
    broken = [*a_deployment("b", deployed=12)[:2], child_parameter("b", "stack-1/since", value, 12)]
    assert standing_by_name(a_deployment("a", deployed=9), broken) == ["a"]


@pytest.mark.parametrize(
    "origin", ["/burstwatch/deployments/a/since/x", "/burstwatch/deployments/b/stack-1/since", 7, None]
)
def test_only_a_parameter_below_the_card_is_taken_for_its_first_date(origin):
    (deployments,) = find_deployments(FakeSsm(parameter("a", 9, origin=origin)))
    assert (deployments.origin_parameter, deployments.first_registered_at_s) == (None, None)


@mock_aws
def test_the_first_date_is_written_once_and_is_the_one_that_counted_until_then():
    client = stubbed_client("ssm")
    for item in a_deployment("a", deployed=9)[:2]:
        client.put_parameter(Name=item["Name"], Value=item["Value"], Type="String")
    (before,) = find_deployments(client)
    write_origin(client, before)
    (after,) = find_deployments(client)
    assert after.first_registered_at_s == pytest.approx(before.registered_at_s, abs=0.001)
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
ONLY_DEPLOYMENT = FlipAuthority(may_flip=True, is_only_deployment=True)
FIRST = FlipAuthority(may_flip=True, first_registered_at_s=NOW_S - HANDOVER_S + 1)
YIELDS = FlipAuthority(may_flip=False, reason="the other stands")


@pytest.mark.parametrize(
    ("collector", "noted"), [(ONLY_DEPLOYMENT, None), (ONLY_DEPLOYMENT, "stands"), (FIRST, "stands")]
)
def test_a_lone_or_earlier_stack_flips_at_once(collector, noted):
    assert apply_handover(collector, noted, NOW_S) == (collector, "stands")


def test_an_upgrade_from_a_version_without_notes_does_not_stop_the_flips_of_the_standing_one_of_two():
    deployments = find_deployments(FakeSsm(parameter("a", 9), parameter("b", 10)))
    standing = flip_authority("a", deployments)
    assert apply_handover(standing, None, standing.first_registered_at_s + HANDOVER_S) == (standing, "stands")
    assert not apply_handover(standing, None, standing.first_registered_at_s + HANDOVER_S - 1)[0].may_flip
    assert not apply_handover(
        standing, "gives way: b stands", standing.first_registered_at_s + 10 * HANDOVER_S
    )[0].may_flip


@pytest.mark.parametrize("other_is_new", [False, True])
@pytest.mark.parametrize("other_hours", [(9, 9), (9, 18), (13, 13), (13, 18)])
@pytest.mark.parametrize("updated", [12, 15, 20])
def test_after_an_upgrade_a_stack_without_a_note_keeps_its_authority(other_is_new, other_hours, updated):
    """Therefore it need not wait: the other one did not flip."""
    first, last = other_hours
    other = a_deployment("other", deployed=first, updated=last, writes=other_is_new)
    before = standing_by_name(other, a_deployment("own", deployed=updated, writes=False))
    after = standing_by_name(other, a_deployment("own", deployed=updated)[:2])
    assert "own" not in after or before == ["own"]


@pytest.mark.parametrize(
    ("collector", "noted"),
    [(FIRST, None), (FIRST, "gives way: b stands"), (ONLY_DEPLOYMENT, "gives way: b stands")],
)
def test_a_newly_authorised_stack_waits_until_the_other_can_no_longer_flip(collector, noted):
    waiting, noted = apply_handover(collector, noted, NOW_S)
    assert not waiting.may_flip
    assert "flips from 2026-11-20T18:10:00Z on" in waiting.reason
    assert not apply_handover(collector, noted, NOW_S + HANDOVER_S - 1)[0].may_flip
    assert apply_handover(collector, noted, NOW_S + HANDOVER_S) == (collector, "stands")


def test_a_stack_that_yields_again_has_to_wait_again():
    _, noted = apply_handover(ONLY_DEPLOYMENT, "gives way: b stands", NOW_S)
    standing, noted = apply_handover(YIELDS, noted, NOW_S + 1)
    assert (standing, noted) == (YIELDS, "gives way: the other stands")
    assert not apply_handover(ONLY_DEPLOYMENT, noted, NOW_S + HANDOVER_S)[0].may_flip


@pytest.mark.parametrize("noted", ["sta", "null", ""])
def test_an_unreadable_note_delays_only_a_deployment_that_is_not_alone(noted):
    assert apply_handover(ONLY_DEPLOYMENT, noted, NOW_S) == (ONLY_DEPLOYMENT, "stands")
    assert not apply_handover(FIRST, noted, NOW_S)[0].may_flip


@pytest.mark.parametrize("noted", ["stands from ", "stands from soon", "stands from 99999999999"])
def test_a_note_that_is_damaged_delays_no_longer_than_a_handover(noted):
    _, noted = apply_handover(FIRST, noted, NOW_S)
    assert apply_handover(FIRST, noted, NOW_S + HANDOVER_S)[0].may_flip

import json
from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError
from mocked_aws import client_of
from moto import mock_aws

from burstwatch.adapters.deployments import Deployment, DeploymentError, find_deployments, standing_of
from burstwatch.adapters.errors import AwsError

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

"""The lab's Parameter Store, asked over HTTP as AWS's is: limits, paging, tiers and error codes."""

from datetime import UTC, datetime

import pytest
from botocore.exceptions import ClientError

from burstlab.fake_aws.dynamodb import FakeDynamoDb
from burstlab.fake_aws.dynamodb import Fault as TableFault
from burstlab.fake_aws.faults import Fault
from burstwatch.adapters.ledger.dynamodb import DynamoLedger


def put(ssm, name, value="x", **fields):
    return ssm.put_parameter(Name=name, Value=value, **{"Type": "String"} | fields)


def refusal(call, **parameters) -> str:
    with pytest.raises(ClientError) as refused:
        call(**parameters)
    return refused.value.response["Error"]["Code"]


def test_what_was_put_is_got_with_its_version_and_the_labs_time(lab, ssm):
    put(ssm, "/a/b", "first")
    lab.clock.advance(60)
    put(ssm, "/a/b", "second", Overwrite=True)

    reported = ssm.get_parameter(Name="/a/b")["Parameter"]

    assert (reported["Value"], reported["Version"], reported["Type"]) == ("second", 2, "String")
    assert reported["LastModifiedDate"] == datetime(2026, 11, 20, 18, 1, tzinfo=UTC)
    assert reported["ARN"] == "arn:aws:ssm:us-east-1:123456789012:parameter/a/b"


def test_an_existing_parameter_is_overwritten_only_on_request(ssm):
    put(ssm, "/a")

    assert refusal(ssm.put_parameter, Name="/a", Value="y", Type="String") == "ParameterAlreadyExists"


def test_what_is_not_there_is_neither_got_nor_deleted(ssm):
    assert refusal(ssm.get_parameter, Name="/a") == "ParameterNotFound"
    assert refusal(ssm.delete_parameter, Name="/a") == "ParameterNotFound"
    put(ssm, "/a")
    ssm.delete_parameter(Name="/a")
    assert refusal(ssm.get_parameter, Name="/a") == "ParameterNotFound"


def test_several_are_got_at_once_and_the_unknown_named(ssm):
    put(ssm, "/a")
    put(ssm, "/b")

    reported = ssm.get_parameters(Names=["/b", "/nowhere", "/a"])

    assert {parameter["Name"] for parameter in reported["Parameters"]} == {"/a", "/b"}
    assert reported["InvalidParameters"] == ["/nowhere"]


def test_more_than_ten_are_not_got_at_once(ssm):
    assert refusal(ssm.get_parameters, Names=[f"/{n}" for n in range(11)]) == "ValidationException"


def test_a_path_lists_what_is_directly_below_it_or_everything(ssm):
    for name in ("/a/1", "/a/2", "/a/deep/3", "/ab", "/a"):
        put(ssm, name)

    def names_below(**parameters):
        return [
            parameter["Name"]
            for parameter in ssm.get_parameters_by_path(Path="/a", **parameters)["Parameters"]
        ]

    assert names_below() == ["/a/1", "/a/2"]
    assert names_below(Recursive=True) == ["/a/1", "/a/2", "/a/deep/3"]
    assert ssm.get_parameters_by_path(Path="/nowhere")["Parameters"] == []


def test_a_path_is_reported_ten_at_a_time(ssm):
    names = [f"/a/{n:02d}" for n in range(23)]
    for name in names:
        put(ssm, name)

    pages = list(ssm.get_paginator("get_parameters_by_path").paginate(Path="/a"))

    assert [len(page["Parameters"]) for page in pages] == [10, 10, 3]
    assert [parameter["Name"] for page in pages for parameter in page["Parameters"]] == names


@pytest.mark.parametrize(
    ("size", "tier", "expected_tier"),
    [
        (4096, "Standard", "Standard"),
        (4096, "Intelligent-Tiering", "Standard"),
        (4097, "Intelligent-Tiering", "Advanced"),
        (8192, "Advanced", "Advanced"),
        (4097, "Standard", None),
        (8193, "Advanced", None),
        (8193, "Intelligent-Tiering", None),
    ],
)
def test_the_tier_follows_the_size(ssm, size, tier, expected_tier):
    if expected_tier is None:
        requested = {"Name": "/a", "Value": "x" * size, "Type": "String", "Tier": tier}
        assert refusal(ssm.put_parameter, **requested) == "ValidationException"
    else:
        assert put(ssm, "/a", "x" * size, Tier=tier)["Tier"] == expected_tier


def test_what_was_advanced_stays_so(ssm):
    put(ssm, "/a", "x" * 5000, Tier="Intelligent-Tiering")

    assert put(ssm, "/a", "x", Tier="Intelligent-Tiering", Overwrite=True)["Tier"] == "Advanced"


@pytest.mark.parametrize("name", ["/aws/a", "ssm", "a/b", "/a b", "/ä"])
def test_names_have_a_form(ssm, name):
    assert refusal(ssm.put_parameter, Name=name, Value="x", Type="String") == "ValidationException"


def test_paths_are_fifteen_levels_deep_at_most(ssm):
    put(ssm, "/a" * 15)

    refused = refusal(ssm.put_parameter, Name="/a" * 16, Value="x", Type="String")
    assert refused == "HierarchyLevelLimitExceededException"


def test_references_to_others_are_refused(ssm):
    requested = {"Name": "/a", "Value": "{{ssm:other}}", "Type": "String"}
    assert refusal(ssm.put_parameter, **requested) == "ValidationException"


def test_what_the_lab_does_not_know_is_refused(ssm):
    requested = {"Name": "/a", "Value": "x", "Type": "String", "AllowedPattern": ".*"}
    assert refusal(ssm.put_parameter, **requested) == "ValidationException"
    assert refusal(ssm.describe_parameters) == "UnknownOperationException"


def test_regions_have_parameters_of_their_own(lab, ssm):
    put(ssm, "/a")

    assert set(lab.parameters.parameters("us-east-1")) == {"/a"}
    assert lab.parameters.parameters("eu-west-1") == {}


def test_injected_faults_apply_to_ssm_too(lab, ssm):
    lab.faults.add(Fault(action="PutParameter", code="AccessDeniedException", times=1))

    assert refusal(ssm.put_parameter, Name="/a", Value="x", Type="String") == "AccessDeniedException"
    assert put(ssm, "/a")["Version"] == 1
    assert lab.faults.call_counts()["PutParameter"] == 2


def test_a_table_of_the_lab_is_reached_over_http_and_the_others_are_motos(lab):
    lab.tables["ledger"] = FakeDynamoDb(table="ledger")
    client = lab.client("dynamodb")
    ledger = DynamoLedger(client, "ledger")

    ledger.bind("here")

    assert ledger.states() == {}
    assert lab.tables["ledger"].items
    assert refusal(client.get_item, TableName="orders", Key={"id": {"S": "1"}}) == "ResourceNotFoundException"


def test_an_answer_of_a_table_can_be_lost_on_the_way(lab):
    table = lab.tables["ledger"] = FakeDynamoDb(table="ledger")
    table.faults.append(TableFault("PutItem", is_response_lost=True, times=9))
    client = lab.client("dynamodb")

    item = {"pk": {"S": "a"}, "sk": {"S": "b"}}
    assert refusal(client.put_item, TableName="ledger", Item=item) == "InternalServerError"
    assert table.items["a"]["b"] == item

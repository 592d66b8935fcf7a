"""Least privilege, proved: what the synthesized policies allow, to the letter, and what they never do."""

from pathlib import Path

import pytest

from support.paths import ROOT
from support.stack.synthesized_stacks import default_stack, full_stack, synth
from support.stack.template_reader import VERBS, as_list, as_text, permissions_of

TRANSCRIPT = Path(__file__).with_name("permissions.txt")

# Resources that AWS forces a wildcard on, each acknowledged beside the permission in infra/permissions.py.
REQUIRED_WILDCARDS = {
    "ReadVolumes": "*",
    "ReadMetrics": "*",
    "ReadInstanceTypes": "*",
    "ReadFileSystems": "*",
    "ReadDatabases": "*",
    "Trace": "*",
    "ModifyOptedInVolumes": "arn:${AWS::Partition}:ec2:${AWS::Region}:${AWS::AccountId}:volume/*",
    "ReadSecret": (
        "arn:${AWS::Partition}:secretsmanager:${AWS::Region}:${AWS::AccountId}:secret:burstwatch/slack-??????"
    ),
}
READS_ONLY = {
    "ec2:Describe", "cloudwatch:Get", "xray:Put", "elasticfilesystem:Describe", "rds:Describe"
}  # fmt: skip


def allowed(stack):
    """Role and statement of everything that is allowed."""
    return [
        (role, statement)
        for role, statements in stack.statements().items()
        for statement in statements
        if statement["Effect"] == "Allow"
    ]


def roles_allowed(stack, action):
    """The roles that are allowed this action."""
    return {role for role, statement in allowed(stack) if action in as_list(statement["Action"])}


def test_the_permissions_are_those_of_the_transcript(pytestconfig):
    if pytestconfig.getoption("--rewrite"):
        TRANSCRIPT.write_text(permissions_of(default_stack()))
    assert permissions_of(default_stack()) == TRANSCRIPT.read_text(), (
        "the stack's permissions changed; if each change is meant, run"
        f" `pytest tests/infra --rewrite` and commit {TRANSCRIPT.name} with the reason"
    )


@pytest.mark.parametrize("stage", [default_stack, full_stack])
def test_only_flip_may_modify_and_only_volumes_that_opted_in(stage):
    stack = stage()
    modifying = [
        (role, statement)
        for role, statement in allowed(stack)
        if any(
            not action.startswith("ec2:Describe")
            for action in as_list(statement["Action"])
            if action.startswith("ec2:")
        )
    ]
    [(role, statement)] = modifying
    assert role == "FlipRole"
    assert statement["Action"] == "ec2:ModifyVolume"
    assert as_text(statement["Resource"]) == REQUIRED_WILDCARDS["ModifyOptedInVolumes"]
    assert statement["Condition"] == {"StringEquals": {"ec2:ResourceTag/burstwatch:mode": "auto"}}


def test_the_tag_in_the_condition_is_the_one_of_the_policy(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\nmode: {opt_in_tag: storage:may-flip=Yes}\n")
    stack = synth(f"policy: {policy}")
    [conditions] = [s["Condition"] for _, s in allowed(stack) if s["Action"] == "ec2:ModifyVolume"]
    assert conditions == {"StringEquals": {"ec2:ResourceTag/storage:may-flip": "Yes"}}
    parameters = stack.of_type("AWS::SSM::Parameter").values()
    card = [p["Value"] for p in parameters if p["Name"] == "/burstwatch/deployments/burstwatch"]
    assert '"opt_in_tag":{"key":"storage:may-flip","value":"Yes"}' in as_text(card[0])


KIND_ACTIONS = {
    "efs": {"elasticfilesystem:DescribeFileSystems"},
    "rds": {
        "rds:DescribeDBInstances",
        "rds:DescribeValidDBInstanceModifications",
        "ec2:DescribeInstanceTypes",
    },
}


@pytest.mark.parametrize("kind", KIND_ACTIONS)
def test_a_kind_is_readable_only_if_the_stage_file_names_it(kind):
    without, with_kind = synth("flips: false"), synth(f"flips: false\nresources: [ebs, {kind}]")
    added = {
        action
        for _, statement in allowed(with_kind)
        for action in as_list(statement["Action"])
        if not roles_allowed(without, action)
    }
    assert added == KIND_ACTIONS[kind]
    for action in added:
        assert roles_allowed(with_kind, action) == {"WatchRole", "SettleRole", "ProbeRole"}


def test_no_statement_is_there_twice_if_two_kinds_need_it():
    stack = synth("resources: [ebs, instance, efs, rds]")
    for role, statements in stack.statements().items():
        sids = [statement["Sid"] for statement in statements if "Sid" in statement]
        assert len(sids) == len(set(sids)), role
    assert roles_allowed(stack, "ec2:DescribeInstanceTypes") == {
        "WatchRole", "FlipRole", "SettleRole", "ProbeRole",
    }  # fmt: skip


def test_without_flips_nothing_in_the_stack_may_modify_anything():
    stack = synth("flips: false")
    assert roles_allowed(stack, "ec2:ModifyVolume") == set()
    assert "ModifyVolume" not in permissions_of(stack)
    assert {f["Handler"].split(".")[2] for f in stack.of_type("AWS::Lambda::Function").values()} == {
        "watch", "settle", "probe", "notify",
    }  # fmt: skip
    assert not any(queue.get("FifoQueue") for queue in stack.of_type("AWS::SQS::Queue").values())
    sources = stack.of_type("AWS::Lambda::EventSourceMapping").values()
    assert {as_text(source["FunctionName"]) for source in sources} == {
        "${SettleFunction}",
        "${ProbeFunction}",
    }
    assert "BURSTWATCH_FLIP_QUEUE_URL" not in stack.environment("watch")


@pytest.mark.parametrize("stage", [default_stack, full_stack])
def test_the_function_that_any_host_can_feed_may_not_request_a_flip(stage):
    """Neither role that takes messages from a queue of events takes those of the other."""
    queues = {
        role: [as_text(resource) for resource in as_list(statement["Resource"])]
        for role, statement in allowed(stage())
        if statement["Sid"] == "TakeEvents"
    }
    assert queues == {"SettleRole": ["${HintsEbsEvents.Arn}"], "ProbeRole": ["${HintsProbeEvents.Arn}"]}
    senders = {role for role, statement in allowed(stage()) if statement["Sid"] == "AskForFlips"}
    assert senders == {"WatchRole", "SettleRole"}
    assert "ProbeRole" not in roles_allowed(stage(), "ssm:PutParameter")


@pytest.mark.parametrize("stage", [default_stack, full_stack])
def test_every_action_is_named_and_every_wildcard_is_one_that_aws_forces(stage):
    for role, statement in allowed(stage()):
        assert not any("*" in action for action in as_list(statement["Action"])), role
        for resource in map(as_text, as_list(statement["Resource"])):
            if "*" in resource or "?" in resource:
                assert REQUIRED_WILDCARDS.get(statement["Sid"]) == resource, (role, resource)


@pytest.mark.parametrize("stage", [default_stack, full_stack])
def test_what_is_allowed_on_everything_changes_nothing(stage):
    for role, statement in allowed(stage()):
        if "*" in map(as_text, as_list(statement["Resource"])):
            for action in as_list(statement["Action"]):
                assert any(action.startswith(item) for item in READS_ONLY), (role, action)


def test_each_function_has_a_role_of_its_own_and_no_policy_of_anybody_else():
    functions = full_stack().of_type("AWS::Lambda::Function").values()
    roles = [as_text(function["Role"]) for function in functions]
    assert sorted(roles) == sorted(f"${{{verb}Role.Arn}}" for verb in VERBS)
    for role in full_stack().of_type("AWS::IAM::Role").values():
        assert not role.keys() & {"ManagedPolicyArns", "Policies"}
    assert full_stack().of_type("AWS::IAM::ManagedPolicy") == {}


def test_no_role_may_write_the_policy_or_deployment_records_except_the_first_date():
    actions = {action for _, s in allowed(full_stack()) for action in as_list(s["Action"])}
    assert {action for action in actions if action.startswith("ssm:")} == {
        "ssm:GetParameters", "ssm:GetParametersByPath", "ssm:PutParameter",
    }  # fmt: skip
    assert roles_allowed(full_stack(), "ssm:PutParameter") == {"WatchRole", "FlipRole", "SettleRole"}
    assert roles_allowed(synth("flips: false"), "ssm:PutParameter") == set()
    for _, statement in allowed(full_stack()):
        if statement["Action"] == "ssm:PutParameter":
            [name] = [as_text(item).partition(":parameter")[2] for item in as_list(statement["Resource"])]
            assert name.startswith("/burstwatch/deployments/watch-all/")
            assert name.endswith("/since")
            assert name != "/burstwatch/deployments/watch-all/since"
            assert statement["Condition"] == {"StringNotEquals": {"ssm:Overwrite": "true"}}
    assert not any(action.startswith(("iam:", "sts:", "s3:", "events:", "scheduler:")) for action in actions)


def test_no_role_may_scan_or_change_the_ledger_table():
    actions = {action for _, s in allowed(full_stack()) for action in as_list(s["Action"])}
    assert {action for action in actions if action.startswith("dynamodb:")} == {
        "dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:PutItem",
        "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:ConditionCheckItem",
    }  # fmt: skip


def test_notify_sees_no_volume_and_of_the_ledger_only_what_was_sent():
    actions = {a for role, s in allowed(full_stack()) if role == "NotifyRole" for a in as_list(s["Action"])}
    assert not any(action.startswith(("ec2:", "cloudwatch:", "sqs:Receive", "ssm:")) for action in actions)
    [ledger] = [
        s for role, s in allowed(full_stack()) if role == "NotifyRole" and "RememberWhatWasSent" in s["Sid"]
    ]
    assert ledger["Condition"] == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["sent*"]}}


def test_the_secret_is_read_by_notify_alone_and_only_if_there_is_one():
    assert roles_allowed(full_stack(), "secretsmanager:GetSecretValue") == {"NotifyRole"}
    assert roles_allowed(default_stack(), "secretsmanager:GetSecretValue") == set()


def test_traces_are_allowed_only_where_they_are_made():
    assert roles_allowed(default_stack(), "xray:PutTraceSegments") == set()
    assert roles_allowed(full_stack(), "xray:PutTraceSegments") == {f"{verb}Role" for verb in VERBS}


def test_the_docs_give_a_reason_for_every_action():
    """A row of a table for each action that any role is allowed."""
    text = (ROOT / "docs" / "permissions.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    for role, statement in allowed(full_stack()):
        for action in as_list(statement["Action"]):
            assert any(f"`{action}`" in row for row in rows), (role, action)


def test_alarms_of_this_stack_and_no_others_may_publish_to_the_encrypted_topic():
    key = default_stack().only("AWS::KMS::Key")["KeyPolicy"]["Statement"]
    [topic] = default_stack().of_type("AWS::SNS::TopicPolicy").values()
    statements = [*key, *topic["PolicyDocument"]["Statement"]]
    alarms = {s["Sid"]: s for s in statements if "cloudwatch" in as_text(s.get("Principal", {}))}
    assert set(alarms) == {"EncryptAlarms", "PublishAlarms"}
    assert "kms:Decrypt" in alarms["EncryptAlarms"]["Action"]
    assert "kms:GenerateDataKey*" in alarms["EncryptAlarms"]["Action"]
    for statement in alarms.values():
        assert statement["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
        assert as_text(statement["Condition"]["ArnLike"]["aws:SourceArn"]).endswith(":alarm:burstwatch-*")
    for alarm in default_stack().of_type("AWS::CloudWatch::Alarm").values():
        assert alarm["AlarmName"].startswith("burstwatch-")


def test_only_notify_may_record_what_was_sent():
    """Who could mark an alert as sent could keep it from people."""
    for role, statement in allowed(full_stack()):
        if "dynamodb:PutItem" in as_list(statement["Action"]) and role != "NotifyRole":
            assert statement["Condition"] == {
                "ForAllValues:StringNotLike": {"dynamodb:LeadingKeys": ["sent*"]}
            }


@pytest.mark.parametrize(
    ("setting", "arn"),
    [
        ("base/limits", "arn:${AWS::Partition}:iam::${AWS::AccountId}:policy/base/limits"),
        ("arn:aws:iam::111122223333:policy/limits", "arn:aws:iam::111122223333:policy/limits"),
    ],
)
def test_every_role_has_the_permissions_boundary_of_the_stage(setting, arn):
    roles = synth(f"permissions_boundary: {setting}").of_type("AWS::IAM::Role").values()
    assert len(roles) == len(VERBS) + 1
    assert {as_text(role["PermissionsBoundary"]) for role in roles} == {arn}
    assert not any(
        "PermissionsBoundary" in role for role in default_stack().of_type("AWS::IAM::Role").values()
    )


def test_the_probe_may_put_events_on_its_own_bus_only():
    document = as_text(default_stack().template["Outputs"]["ProbePolicy"]["Value"])
    assert '"Action":"events:PutEvents"' in document
    assert '"Resource":"${HintsProbeBus.Arn}"' in document
    assert '"Condition":{"StringEquals":{"events:source":"burstwatch.ddprobe"}}' in document

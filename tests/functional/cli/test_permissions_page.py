"""docs/permissions.md: the policies to copy allow what the commands call, and no more."""

import json
import re

import pytest
from moto.iam.policy_validation import IAMPolicyDocumentValidator

from burstlab.model.database import LabDatabase
from burstlab.model.file_system import LabFileSystem
from support.aws.fake_cloudformation import fake_cloudformation
from support.aws.fake_stack import deploy_stack
from support.cli.cli_session import INSTANCE, add_calm, add_critical, add_draining_instance
from support.cli.permissions_page import SECTIONS, allowed_actions, operations, policies
from support.delivery.fake_slack import start_fake_slack
from support.paths import ROOT

VOLUME = "VOLUME"
TO_LOOK = [
    ("assess",),
    ("assess", "--region", "all"),
    ("explain", VOLUME),
    ("which", VOLUME),
    ("history", VOLUME),
    ("plot", VOLUME),
    ("report", "--html", "report.html"),
    ("backtest", "--last", "1d"),
    ("advise",),
    ("watch", "--once"),
    ("policy", "show"),
    ("window", "list"),
    ("experiment", "credit-reset", VOLUME, "--dry-run"),
]
TO_FLIP = [
    ("flip", VOLUME, "--dry-run"),
    ("flip", VOLUME, "--yes"),
    ("flip-back", VOLUME, "--dry-run"),
    ("watch", "--once", "--act"),
]
WITH_A_STACK = [
    *TO_LOOK,
    *TO_FLIP,
    ("hold", VOLUME, "--for", "1h", "--reason", "INC-42"),
    ("release", VOLUME),
    ("policy", "push", "policy.yaml", "--yes"),
    ("policy", "push", "--withdraw", "--yes"),
]
NO_PERMISSION_NEEDED = {"GetCallerIdentity"}
TRANSACTION = {"PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"}
"""What IAM checks of a ``TransactWriteItems``: the items in it."""


def called_operations(cli, lab, commands):
    """Every operation that AWS received; each command meets a critical volume that has opted in."""
    (cli.directory / "policy.yaml").write_text("version: 1\nlevels:\n  warning_within: 30m\n")
    called = set()
    for command in commands:
        volume_id = add_critical(lab, tags={"burstwatch:mode": "auto"})
        lab.faults.reset_calls()
        result = cli.run(*(volume_id if word == VOLUME else word for word in command))
        assert "Traceback" not in result.err
        called |= set(lab.faults.call_counts())
    items = TRANSACTION if "TransactWriteItems" in called else set()
    return (called | items) - NO_PERMISSION_NEEDED - {"TransactWriteItems"}


def test_what_only_looks_calls_exactly_what_its_policy_allows(cli, lab):
    assert called_operations(cli, lab, TO_LOOK) == operations(allowed_actions("To look"))


@pytest.mark.usefixtures("least_permissions")
def test_four_permissions_are_enough_to_assess(cli, lab):
    add_draining_instance(lab, io_pct=60)
    calm = add_calm(lab, "web-1")
    result = cli.run("assess")
    assert calm in result.out
    assert INSTANCE not in result.out
    assert result.error_lines == []
    assert "permission: instances (ec2:DescribeInstanceTypes), file systems (" in result.err
    cost = re.search(r"costs (\S+) a month at this activity, (\S+) while all are calm", result.err)
    assert cost is not None
    assert cost[1] == cost[2]
    assert result.code == 0
    add_critical(lab, "ci-7")
    assert cli.run("assess").code == 3


@pytest.mark.usefixtures("least_permissions")
@pytest.mark.parametrize("add", [add_calm, add_critical])
def test_four_permissions_are_enough_to_explain(cli, lab, add):
    add_draining_instance(lab)
    volume_id = add(lab, instance_id=INSTANCE)
    result = cli.run("explain", volume_id)
    assert "is the bottleneck is not known: ec2:DescribeInstanceTypes failed" in " ".join(result.out.split())
    assert result.error_lines == []
    assert (
        "note: what its instance allows is not known: you lack the permission ec2:DescribeInstanceTypes\n"
    ) in result.err
    assert f"next: burstctl plot {volume_id}" in result.err
    assert result.code == 0


@pytest.mark.usefixtures("least_permissions")
def test_a_flip_is_refused_while_the_limits_of_the_instance_may_not_be_read(cli, lab):
    add_draining_instance(lab)
    volume_id = add_critical(lab, instance_id=INSTANCE)
    result = cli.run("flip", volume_id, "--dry-run", "--ledger", f"sqlite:{cli.ledger_path}")
    assert "instance_is_bottleneck" in result.out
    assert result.code == 1


def test_file_systems_and_databases_need_what_their_policy_adds(cli, lab):
    lab.fleet.file_systems.add(LabFileSystem(size_gib=58, balance_pct=0, load="steady:400@256%0"))
    lab.fleet.databases.add(LabDatabase(identifier="orders", balance_pct=0, load="steady:3000@16%0"))
    lab.clock.advance(1_800)
    commands = [("assess", "--kind", "efs,rds"), ("explain", "db:orders")]

    called = called_operations(cli, lab, commands)

    added = operations(allowed_actions("To watch file systems and databases"))
    assert called & added == added
    assert called <= added | operations(allowed_actions("To look"))


def test_what_flips_needs_one_permission_more(cli, lab):
    """Together with the calls of the commands that only look, which have a test of their own."""
    called = called_operations(cli, lab, TO_FLIP)

    looks = operations(allowed_actions("To look"))
    assert called | looks == operations(allowed_actions("To look", "To flip"))
    [statement] = policies("To flip")[0]["Statement"]
    assert statement["Condition"] == {"StringEquals": {"ec2:ResourceTag/burstwatch:mode": "auto"}}


def test_with_a_stack_the_commands_call_exactly_what_its_policy_adds(cli, lab):
    deploy_stack(lab)

    called = called_operations(cli, lab, WITH_A_STACK)

    allowed = allowed_actions("To look", "To flip", "With a deployed stack")
    of_the_topic_key = {action for action in allowed if action.startswith("kms:")}
    assert called == operations(allowed - of_the_topic_key)


def test_doctor_calls_nothing_that_no_policy_allows(cli, lab):
    deploy_stack(lab)

    called = called_operations(cli, lab, [("doctor",)])

    sections = ("To look", "To flip", "With a deployed stack", "To check the setup")
    assert called <= operations(allowed_actions(*sections))


def test_a_test_of_the_alerts_calls_exactly_what_its_policy_allows(cli, lab):
    """With a topic, a chat topic and a secret; those who run it have the policies above as well."""
    sns = lab.client("sns")
    topic, chat = (sns.create_topic(Name=name)["TopicArn"] for name in ("alerts", "chat"))
    deploy_stack(lab, topic_arn=topic)
    with start_fake_slack() as slack, fake_cloudformation() as created:
        client = lab.client("secretsmanager")
        secret = client.create_secret(Name=f"slack-{id(slack)}", SecretString=slack.url)["Name"]
        cli.set(AWS_ENDPOINT_URL_CLOUDFORMATION=created.url, AWS_ENDPOINT_URL_LAMBDA=created.url)
        created.function("Notify")["Environment"] = {
            "Variables": {"BURSTWATCH_SLACK_SECRET": secret, "BURSTWATCH_CHAT_TOPIC_ARN": chat}
        }
        result = cli.run("alert", "--test", "--json")

    called = {call.replace("secrets-manager:", "secretsmanager:") for call in result.document["api_calls"]}
    own = allowed_actions("To test the alerts")
    assert own <= called
    assert called - own <= allowed_actions("To look", "With a deployed stack") | {"sts:GetCallerIdentity"}


@pytest.mark.parametrize("section", [name for name in SECTIONS if name.startswith("To ")])
def test_iam_would_take_each_policy(section):
    for policy in policies(section):
        IAMPolicyDocumentValidator(json.dumps(policy)).validate()


def test_every_action_of_a_policy_for_operators_has_its_reason():
    table = SECTIONS["Why each permission is needed"]
    sections = [name for name in SECTIONS if name.startswith(("To ", "With ")) and name != "To deploy"]
    for action in allowed_actions(*sections):
        service, _, operation = action.partition(":")
        rows = [row for row in table.splitlines() if f"{service}:" in row and operation in row]
        assert rows, action


def test_who_deploys_may_create_every_part_of_the_stack():
    types = (ROOT / "tests" / "infra" / "resources.txt").read_text()
    services = {name.lower() for name in re.findall(r"AWS::(\w+)::", types)} - {"cdk"}
    allowed = {action.partition(":")[0] for action in allowed_actions("To deploy")}
    assert services <= allowed


UPLOADS = {
    "get-bucket-location": "s3:GetBucketLocation",
    "put-object": "s3:PutObject",
    "describe-stacks": "cloudformation:*",
    "delete-stack": "cloudformation:*",  # only printed, for a stack that cannot be updated
}


def test_who_deploys_without_the_cdk_may_do_what_the_script_does_and_what_the_cdk_may():
    _, of_the_cdk, plain, terraform = policies("To deploy")
    statements = {statement["Sid"]: statement for statement in plain["Statement"]}
    for common in of_the_cdk["Statement"]:
        if common["Sid"] != "ReadAssets":
            assert statements[common["Sid"]] == common
    allowed = {action for s in statements.values() for action in [*s["Action"]]} | {"cloudformation:*"}
    script = (ROOT / "infra" / "upload.sh").read_text()
    called = set(re.findall(r"\baws (?:s3api|cloudformation) ([a-z][a-z-]+)", script))
    assert called == set(UPLOADS)
    assert {UPLOADS[operation] for operation in called} | {"s3:CreateBucket", "s3:GetObject"} <= allowed
    added = {action for s in terraform["Statement"] for action in s["Action"]}
    assert {"s3:GetObjectTagging", "s3:ListBucket", "s3:DeleteObject"} <= added

"""The plain template deployed as its page shows, beside ``cdk deploy``: the same resources."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from burstlab.deployed.deployed_stack import DeployedStack, bootstrap
from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet
from burstlab.model.volume import LabVolume
from infra.config import StageConfig
from infra.plain_parameters import parameters_of
from support.paths import ROOT
from support.stack.synthesized_stacks import synth
from support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("synthesized stacks")  # whose worker has started the CDK already

STACK = "plain-in-cloudformation"
"""Another name than the deployment's, as in a StackSet."""

BURSTCTL = shlex.quote(str(Path(sys.executable).parent / "burstctl"))


def resources_of(aws, stack):
    pages = aws.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
    summaries = [summary for page in pages for summary in page["StackResourceSummaries"]]
    assert {summary["ResourceStatus"] for summary in summaries} == {"CREATE_COMPLETE"}
    return {summary["LogicalResourceId"]: summary["ResourceType"] for summary in summaries}


def test_it_deploys_what_the_cdk_deploys_and_its_functions_run(aws, plain_files, shell):
    shell("aws s3api create-bucket --bucket our-tools")
    uploaded = shell(f"{shlex.quote(str(plain_files))}/upload.sh our-tools tools/")
    assert uploaded.stderr.count("s3://our-tools/tools/") == 3
    assert "--template-url https://our-tools.s3.us-east-1.amazonaws.com/tools/" in uploaded.stdout
    command = uploaded.stdout.replace("--stack-name burstwatch", f"--stack-name {STACK}").rstrip()
    # the local AWS takes the bucket from the path
    command = command.replace("our-tools.s3.us-east-1.amazonaws.com", "s3.us-east-1.amazonaws.com/our-tools")
    shell(f"{command} ParameterKey=Name,ParameterValue=plain")
    aws.client("cloudformation").get_waiter("stack_create_complete").wait(StackName=STACK)

    synthesized = synth("name: cdk\nrecipients: {emails: [you@example.com]}\n", copies=True)
    bootstrap(aws)
    aws.run_cdk("deploy", "--require-approval", "never", app=synthesized.folder)

    plain, cdk = resources_of(aws, STACK), resources_of(aws, "cdk")
    assert without_names(plain) == without_names(cdk)
    clock = LabClock()
    with Endpoint(LabFleet(clock)) as endpoint:
        volume_id = endpoint.fleet.add(LabVolume(size_gib=33, balance_pct=40, load="steady:2000"))
        clock.advance(600)
        for name in (STACK, "cdk"):
            stack = DeployedStack.find(aws, endpoint, name=name)
            stack.set_schedule_state(is_on=False)
            stack.use_lab_endpoint()
            stack.invoke_watch("sweep")
            items = aws.client("dynamodb").scan(TableName=stack.ledger_table)["Items"]
            assert any(volume_id in str(item) for item in items)

        findings = wait_until(lambda: whole_findings(shell))
    schedules = [finding["seen"] for finding in findings if finding["check"] == "schedule"]
    assert schedules == ["it is DISABLED: no ticks are scheduled"] * 2


def whole_findings(shell):
    """What doctor finds; None if the local AWS answers later than doctor waits, as on a busy machine."""
    result = shell(f"{BURSTCTL} doctor --json", code=1)  # the local AWS cannot answer everything
    findings = json.loads(result.stdout)["findings"]
    of_parts = [finding for finding in findings if finding["check"] in ("functions", "queues")]
    start = f"plain ({STACK} in CloudFormation), flips what opted in, "
    is_whole = (
        {finding["check"] for finding in findings} >= {"functions", "queues", "schedule", "stack"}
        and {finding["verdict"] for finding in of_parts} == {"ok"}
        and any(finding["seen"].startswith(start) for finding in findings if finding["check"] == "stack")
    )
    return findings if is_whole else None


def test_an_update_as_printed_keeps_the_parameters(aws, plain_files, shell):
    """It comes after the test above, whose stack it updates."""
    shell("aws s3api create-bucket --bucket new-tools")
    script = f"{shlex.quote(str(plain_files))}/upload.sh new-tools new/"
    command = shell(f"STACK={STACK} {script}").stdout
    shell(command.replace("new-tools.s3.us-east-1.amazonaws.com", "s3.us-east-1.amazonaws.com/new-tools"))
    aws.client("cloudformation").get_waiter("stack_update_complete").wait(StackName=STACK)

    [stack] = aws.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    values = {item["ParameterKey"]: item["ParameterValue"] for item in stack["Parameters"]}
    assert (values["AssetsBucket"], values["AssetsPrefix"]) == ("new-tools", "new/")
    assert (values["Name"], values["Email1"]) == ("plain", "you@example.com")


def without_names(resources):
    """The CDK names subscriptions by their address; the plain template by their number."""
    return sorted(
        ("" if kind == "AWS::SNS::Subscription" else name, kind)
        for name, kind in resources.items()
        if kind != "AWS::CDK::Metadata"
    )


def test_the_page_shows_the_command_that_the_script_prints(plain_files, shell):
    shell(
        "aws s3api create-bucket --bucket example-tools --region eu-central-1"
        " --create-bucket-configuration LocationConstraint=eu-central-1"
    )
    printed = shell(f"{shlex.quote(str(plain_files))}/upload.sh example-tools").stdout
    assert printed in (ROOT / "docs" / "cloudformation.md").read_text()


def test_the_page_lists_every_parameter_with_its_default():
    page = (ROOT / "docs" / "cloudformation.md").read_text()
    for parameter in parameters_of(StageConfig()):
        [row] = [line for line in page.splitlines() if line.startswith(f"| `{parameter.name}` |")]
        default = str(parameter.as_template().get("Default", "required")) or "empty"
        assert default in row.split("|")[2]
        assert parameter.description in row


def test_a_damaged_archive_is_not_uploaded(plain_files, shell, tmp_path):
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in plain_files.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    [archive] = folder.glob("burstwatch-functions-*.zip")
    archive.write_bytes(archive.read_bytes() + b"more")
    failed = shell(f"bash {shlex.quote(str(folder))}/upload.sh our-tools", code=2)
    assert "is damaged" in failed.stderr
    assert "s3://" not in failed.stderr

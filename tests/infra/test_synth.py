"""`cdk synth` as people meet it: what it says, and that it fails where it must."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT
from support.stack.synthesized_stacks import EVERYTHING, synth

UNSAFE = """
import sys
sys.path.insert(0, {root!r})
import app
from aws_cdk.aws_iam import PolicyStatement

build = app.add_stacks
def unsafe(root, stage, policy):
    build(root, stage, policy)
    stack = root.node.find_child(stage.name)
    stack.watch.role.add_to_policy(PolicyStatement(actions=["ec2:*"], resources=["*"]))
app.add_stacks = unsafe
sys.exit(app.main())
"""


def synthesize(tmp_path, *, stage=None, program=None, validates=True):
    """Run app.py as the CDK does; the context comes in a variable, and so does the folder for the result.

    The CDK validates the templates, as it does for users; that takes seconds, and cdk-nag does not need it.
    """
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    context |= {"aws:cdk:disable-asset-staging": True} | ({"stage": str(stage)} if stage else {})
    environment = {
        **os.environ,
        "CDK_VALIDATION": "true" if validates else "false",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "CDK_OUTDIR": str(tmp_path / "out"),
        "CDK_CONTEXT_JSON": json.dumps(context),
    }
    command = [sys.executable, *(["-c", program] if program else ["app.py"])]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_the_default_synthesizes_and_warns_about_missing_subscribers(tmp_path):
    completed = synthesize(tmp_path)
    assert (completed.returncode, completed.stderr) == (0, "")
    manifest = (tmp_path / "out" / "manifest.json").read_text()
    assert (
        "no one receives the alerts of this stack"
        in manifest + (tmp_path / "out" / "burstwatch.metadata.json").read_text()
    )


@pytest.mark.parametrize(
    "recipient", ["emails: [a@example.com]", "slack_secret: burstwatch/slack", "chat: true"]
)
def test_with_a_subscriber_there_is_no_warning(recipient):
    stack = synth(f"recipients: {{{recipient}}}")
    text = "".join(path.read_text() for path in stack.folder.glob("*.json") if "template" not in path.name)
    assert "no one receives" not in text


def test_a_bad_stage_is_one_message_with_every_fault_and_no_traceback(tmp_path):
    stage = tmp_path / "stage.yaml"
    stage.write_text("name: 9\nflips: x\ntags: {a: [b]}\n")
    completed = synthesize(tmp_path, stage=stage)
    assert completed.returncode == 1
    assert completed.stdout == ""
    lines = completed.stderr.splitlines()
    assert lines[0] == "error: 3 faults in the configuration"
    assert [line.split(": ")[0].strip() for line in lines[1:]] == [f"{stage}:{n}" for n in (1, 2, 3)]
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").glob("*.template.json"))


def test_there_is_a_stack_for_each_region():
    result = synth(EVERYTHING.replace("regions: [eu-central-1]", "regions: [us-east-1, eu-west-1]"))
    manifest = json.loads((result.folder / "manifest.json").read_text())
    stacks = {
        name: (artifact["environment"], artifact["properties"]["stackName"])
        for name, artifact in manifest["artifacts"].items()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    assert stacks == {
        "watch-all-us-east-1": ("aws://111122223333/us-east-1", "watch-all"),
        "watch-all-eu-west-1": ("aws://111122223333/eu-west-1", "watch-all"),
    }


def test_nag_stops_the_synth_of_a_stack_that_grants_too_much(tmp_path):
    completed = synthesize(tmp_path, program=UNSAFE.format(root=str(ROOT)), validates=False)
    assert completed.returncode == 1
    report = json.loads((tmp_path / "out" / "validation-report.json").read_text())
    result = [violation["ruleName"] for violation in report["pluginReports"][0]["violations"]]
    assert result == ["AwsSolutions-IAM5[Action::ec2:*]"]

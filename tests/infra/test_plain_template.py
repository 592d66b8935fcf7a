"""The plain template is the CDK's stack, whatever its parameters."""

import copy
import json
import os
import random
import re
import subprocess
import sys
from itertools import combinations

import pytest

from support.stack.synthesized_stacks import synth
from support.stack.template_resolver import resolve_template

BOUNDARY = "arn:aws:iam::123456789012:policy/team/bounded"
SWITCHES = {
    "Flips": ("", "flips", False, "false"),
    "Schedule": ("", "schedule", False, "false"),
    "Dashboard": ("", "dashboard", False, "false"),
    "Tracing": ("", "tracing", True, "true"),
    "WatchInstances": ("", "resources", ["instance"], "true"),
    "WatchFileSystems": ("", "resources", ["efs"], "true"),
    "WatchDatabases": ("", "resources", ["rds"], "true"),
    "Email1": ("recipients", "emails", ["one@example.com"], "one@example.com"),
    "SlackSecret": ("recipients", "slack_secret", "burstwatch/slack", "burstwatch/slack"),
    "ChatTopic": ("recipients", "chat", True, "true"),
    "LowestBurstBalance": ("alarms", "lowest_burst_balance_pct", 20, "20"),
    "PermissionsBoundary": ("", "permissions_boundary", BOUNDARY, BOUNDARY),
    "ExistingLedger": ("", "ledger", "burstwatch-Ledger-1ABCDEF", "burstwatch-Ledger-1ABCDEF"),
}
"""What differs from the default: where the stage file has it, how, and the value of the parameter."""

RULE_SID = re.compile("AllowEventRule")
"""How the CDK names a statement for a rule; the name of the stack is part of it."""


def rows_of_pairs():
    """Choices in which each pair of switches occurs with every combination of off and on."""
    dice = random.Random(20261127)
    rows = [dict.fromkeys(SWITCHES, False), dict.fromkeys(SWITCHES, True)]
    missing = {
        (*names, *states) for names in combinations(SWITCHES, 2) for states in ((False, True), (True, False))
    }
    while missing:
        candidates = [{name: dice.random() < 0.5 for name in SWITCHES} for _ in range(200)]
        row = max(candidates, key=lambda choice: len(missing & pairs_in(choice)))
        missing -= pairs_in(row)
        rows.append(row)
    return rows


def pairs_in(choice):
    return {(first, second, choice[first], choice[second]) for first, second in combinations(SWITCHES, 2)}


def stage_and_parameters(choice):
    """The same choice as a stage file and as parameters."""
    stage = {"name": "chosen", "log_retention_days": 90, "resources": ["ebs"], "recipients": {}, "alarms": {}}
    parameters = {"AssetsBucket": "assets", "Name": "chosen", "LogRetentionDays": "90"}
    for name in (name for name, is_chosen in choice.items() if is_chosen):
        section, key, value, parameters[name] = SWITCHES[name]
        settings = stage[section] if section else stage
        settings[key] = [*settings.get(key, []), *value] if isinstance(value, list) else value
    return json.dumps(stage), parameters


def as_deployed(resources):
    """What AWS gets; the names that CloudFormation has for what nothing refers to do not matter."""
    deployed, subscriptions = {}, []
    for name, resource in resources.items():
        properties = dict(resource["Properties"])
        for key in ("Code", "Content"):  # where the archives are
            properties.pop(key, None)
        for key in properties.keys() & {"RetentionInDays", "Threshold"}:  # CloudFormation reads '90' as 90
            properties[key] = float(properties[key])
        if "PolicyDocument" in properties:  # IAM reads the statements in any order
            statements = [
                {key: value for key, value in statement.items() if key != "Sid" or not RULE_SID.match(value)}
                for statement in properties["PolicyDocument"]["Statement"]
            ]
            statements.sort(key=json.dumps)
            properties["PolicyDocument"] = {**properties["PolicyDocument"], "Statement": statements}
        body = {**resource, "Properties": properties}
        if resource["Type"] == "AWS::SNS::Subscription":
            subscriptions.append(json.dumps(body, sort_keys=True))
        else:
            deployed[name] = body
    return deployed, sorted(subscriptions)


@pytest.mark.parametrize(
    "choice", rows_of_pairs(), ids=lambda choice: "".join(str(+on) for on in choice.values())
)
def test_with_the_same_choices_it_deploys_what_the_cdk_deploys(plain, choice):
    stage, parameters = stage_and_parameters(choice)
    wanted = resolve_template(synth(stage).template, {})
    got = resolve_template(plain, parameters)
    assert as_deployed(got["Resources"]) == as_deployed(wanted["Resources"])
    assert got["Outputs"] == wanted["Outputs"]


def test_its_defaults_are_those_of_the_stage_file(plain):
    got = resolve_template(plain, {"AssetsBucket": "assets"})
    assert as_deployed(got["Resources"]) == as_deployed(resolve_template(synth().template, {})["Resources"])


def test_its_code_comes_from_the_bucket_of_its_user(plain):
    got = resolve_template(plain, {"AssetsBucket": "ours", "AssetsPrefix": "tools/"})["Resources"]
    codes = [body["Properties"]["Code"] for body in got.values() if body["Type"] == "AWS::Lambda::Function"]
    [layer] = [body for body in got.values() if body["Type"] == "AWS::Lambda::LayerVersion"]
    assert len(codes) == 5
    assert all(code == {"S3Bucket": "ours", "S3Key": "tools/functions.zip"} for code in codes)
    assert layer["Properties"]["Content"] == {"S3Bucket": "ours", "S3Key": "tools/layer.zip"}


def test_it_needs_no_bootstrap(plain):
    text = json.dumps(plain)
    assert "cdk-" not in text
    assert "BootstrapVersion" not in text


def test_nothing_in_it_has_a_name_of_the_generator(plain):
    assert "PARAMETER" not in json.dumps(plain)
    emails = [name for name, body in plain["Resources"].items() if body["Type"] == "AWS::SNS::Subscription"]
    assert sorted(emails)[:3] == ["AlertsToEmail1", "AlertsToEmail2", "AlertsToEmail3"]


def test_every_output_has_a_description(plain):
    descriptions = [output["Description"] for output in plain["Outputs"].values()]
    assert len(set(descriptions)) == len(descriptions)


def test_a_number_is_written_as_a_number(plain):
    numbers = {name: body for name, body in plain["Parameters"].items() if body["Type"] == "Number"}
    assert numbers["LogRetentionDays"]["Default"] == 30
    for body in numbers.values():
        values = [body["Default"], *body.get("AllowedValues", [])]
        assert all(isinstance(value, int) for value in values)


@pytest.mark.parametrize(
    ("parameter", "accepted", "refused"),
    [
        ("AssetsBucket", ["example-tools", "a.b-c"], ["a..b", "192.168.0.1", "Example", "ab"]),
        (
            "LowestBurstBalance",
            ["0", "1", "20", "95"],
            ["0.0", "00", "20.5", "96", "off"],
        ),
        ("Name", ["burstwatch"], ["deployments", "1a"]),
    ],
)
def test_values_that_would_fail_later_are_refused(plain, parameter, accepted, refused):
    pattern = plain["Parameters"][parameter]["AllowedPattern"]
    assert all(re.fullmatch(pattern, value) for value in accepted)
    assert not any(re.fullmatch(pattern, value) for value in refused)


def test_it_fits_the_limits_of_cloudformation(plain):
    """Source: AWS CloudFormation user guide, "Understand CloudFormation quotas"."""
    assert len(json.dumps(plain, indent=1)) < 1_000_000
    assert len(plain["Parameters"]) <= 200
    assert len(plain["Resources"]) <= 500
    assert len(plain["Outputs"]) <= 200
    assert all(len(body["Description"]) <= 4000 for body in plain["Parameters"].values())


def test_every_parameter_is_used_described_and_shown_in_a_group(plain):
    groups = plain["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    assert [name for group in groups for name in group["Parameters"]] == list(plain["Parameters"])
    used = json.dumps({key: plain[key] for key in ("Conditions", "Resources")})
    for name, body in plain["Parameters"].items():
        assert f'{{"Ref": "{name}"}}' in used
        assert body["Description"]


UNFOUNDED = (
    "PermissionsBoundary: length 0",  # the default, with which the property is not there
    "Reference to 'Ledger' which is conditional on 'MakesLedger'",  # and so is the reference
    "'SlackSecret' appears to be a password",  # it is the name of one
)


def test_the_validator_of_the_cdk_finds_nothing_in_it_but_a_wrong_value(plain, tmp_path):
    """It refuses unknown properties and values; the second template has one."""
    broken = copy.deepcopy(plain)
    broken["Resources"]["Ledger"]["Properties"]["BillingMode"] = "PAY_PER_HOPE"
    findings = validate({"right": plain, "wrong": broken}, tmp_path)
    founded = [finding for finding in findings if not any(known in finding for known in UNFOUNDED)]
    assert len(founded) == 1
    assert "BillingMode" in founded[0]


def validate(templates, folder):
    """What the CDK's own validator says of templates."""
    script = "from aws_cdk import App, Stack\nfrom aws_cdk.cloudformation_include import CfnInclude\n"
    script += "app = App(outdir='out')\n"
    for name, template in templates.items():
        (folder / f"{name}.json").write_text(json.dumps(template))
        script += f"CfnInclude(Stack(app, '{name}'), 'Template', template_file='{name}.json')\n"
    environment = {**os.environ, "CDK_VALIDATION": "true"}
    command = [sys.executable, "-c", f"{script}app.synth()\n"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    report = done.stdout + done.stderr
    findings = re.findall(r"(?:WARNING|ERROR) (.*) \(CloudFormation Validate\)", report)
    assert findings, report
    return findings

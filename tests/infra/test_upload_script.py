"""``upload.sh``: what it checks before it sends anything, and the command that it prints."""

import json
import re
import shlex
import shutil
import subprocess
from hashlib import sha256

import jmespath
import pytest

from infra.config import StageConfig
from infra.plain_parameters import parameters_of
from support.paths import ROOT

SCRIPT = ROOT / "infra" / "upload.sh"
TOOLS = ("bash", "cat", "cut", "dirname", "echo", "env", "grep", "sed", "sort", "xargs", "sha256sum")
AWS = """#!/usr/bin/env bash
# what AWS answers, by the operation; every call is written down
echo "$*" >> calls
case $2 in
  get-bucket-location) cat location ;;
  describe-stacks) [ -f stack ] && cat stack || { cat no-stack >&2; exit 254; } ;;
esac
"""


@pytest.fixture
def folder(tmp_path):
    """What a release contains, with little in it."""
    folder = tmp_path / "cloudformation"
    folder.mkdir()
    shutil.copy(SCRIPT, folder)
    names = []
    for kind in ("functions", "layer"):
        content = kind.encode()
        names.append(f"burstwatch-{kind}-{sha256(content).hexdigest()[:16]}.zip")
        (folder / names[-1]).write_bytes(content)
    parameters = {parameter.name: parameter.as_template() for parameter in parameters_of(StageConfig())}
    template = {"Parameters": parameters, "Resources": {"Code": names}}
    (folder / "burstwatch.template.json").write_text(json.dumps(template, indent=1) + "\n")
    (folder / "location").write_text("eu-central-1\n")
    (folder / "no-stack").write_text("ValidationError: Stack with id burstwatch does not exist\n")
    return folder


@pytest.fixture
def upload(folder, tmp_path):
    """Runs the script with these tools only."""

    def run(*arguments, tools=TOOLS, with_aws=True, code=0, **environment):
        commands = tmp_path / "commands"
        shutil.rmtree(commands, ignore_errors=True)
        commands.mkdir()
        for tool in tools:
            (commands / tool).symlink_to(shutil.which(tool))
        if with_aws:
            (commands / "aws").write_text(AWS)
            (commands / "aws").chmod(0o755)
        done = subprocess.run(
            [shutil.which("bash"), folder / SCRIPT.name, *arguments],
            env={"PATH": str(commands), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


def calls(folder):
    path = folder / "calls"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a bucket"),
        (["our-tools", "tools/", "more"], "give a bucket"),
        ([""], "'' is not the name of a bucket"),
        (["s3://our-tools"], "'s3://our-tools' is not the name of a bucket"),
        (["our-tools", "tools"], "the prefix 'tools' must be empty, or names"),
        (["our-tools", "my prefix/"], "the prefix 'my prefix/' must be empty, or names"),
        (["our-tools", "/"], "the prefix '/' must be empty, or names"),
    ],
)
def test_wrong_arguments_are_named_in_one_line(upload, folder, arguments, message):
    failed = upload(*arguments, code=2)
    assert failed.stderr.startswith(f"upload.sh: {message}")
    assert failed.stderr.count("\n") == 1
    assert calls(folder) == []


BUCKETS = (
    "abc",
    "a-b.c",
    "123456789012",
    "a" * 63,
    "1.2.3",
    *("ab", "a" * 64, "a..b", "192.168.0.1", "A-b", "-ab"),
)
PREFIXES = ("", "a/", "a.b/c_d-e/", "burstwatch/", *("a", "/", "a//", "a b/", "ä/", "a/b"))


@pytest.mark.parametrize(
    ("name", "place", "values"), [("AssetsBucket", 0, BUCKETS), ("AssetsPrefix", 1, PREFIXES)]
)
def test_it_takes_what_the_template_takes(upload, name, place, values):
    """Without the aws command, it stops after the arguments."""
    [pattern] = [
        parameter.constraints["AllowedPattern"]
        for parameter in parameters_of(StageConfig())
        if parameter.name == name
    ]
    accepted = [
        value
        for value in values
        if "aws is missing" in upload(*["our-tools", ""][:place], value, with_aws=False, code=2).stderr
    ]
    assert accepted == [value for value in values if re.fullmatch(pattern, value)]
    assert 0 < len(accepted) < len(values)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_its_help_has_its_exit_codes(upload, option):
    text = upload(option, with_aws=False).stdout
    assert "upload.sh BUCKET [PREFIX]" in text
    assert "Exits with 0" in text
    assert "set -euo" not in text


def test_a_missing_tool_is_named(upload, folder):
    assert "the command aws is missing" in upload("our-tools", with_aws=False, code=2).stderr
    tools = [tool for tool in TOOLS if tool != "sha256sum"]
    assert "sha256sum and shasum are missing" in upload("our-tools", tools=tools, code=2).stderr
    assert calls(folder) == []


@pytest.mark.skipif(shutil.which("shasum") is None, reason="this machine has no shasum")
def test_it_checks_the_archives_with_what_macos_has(upload):
    tools = [*(tool for tool in TOOLS if tool != "sha256sum"), "shasum"]
    assert upload("our-tools", tools=tools).stdout


def test_a_file_that_is_missing_or_damaged_is_named_and_nothing_is_sent(upload, folder):
    [archive] = folder.glob("burstwatch-layer-*.zip")
    archive.write_bytes(b"other")
    assert f"{archive.name} is damaged" in upload("our-tools", code=2).stderr
    archive.unlink()
    assert f"{archive.name} is missing" in upload("our-tools", code=2).stderr
    (folder / "burstwatch.template.json").unlink()
    assert "burstwatch.template.json is missing" in upload("our-tools", code=2).stderr
    assert calls(folder) == []


def test_archives_of_an_earlier_release_in_the_folder_are_not_uploaded(upload, folder):
    (folder / "burstwatch-layer-0123456789abcdef.zip").write_bytes(b"old")
    assert "0123456789abcdef" not in upload("our-tools").stderr


@pytest.mark.parametrize(
    ("location", "region"), [("None", "us-east-1"), ("EU", "eu-west-1"), ("eu-central-1", "eu-central-1")]
)
def test_the_region_is_the_one_that_s3_means(upload, folder, location, region):
    (folder / "location").write_text(f"{location}\n")
    printed = upload("our-tools").stdout
    assert f"create-stack --region {region} " in printed
    assert f"https://our-tools.s3.{region}.amazonaws.com/burstwatch/" in printed
    assert all(f"--region {region} " in call for call in calls(folder)[1:])


def test_a_refused_call_is_not_a_wrong_argument(upload, folder):
    (folder / "location").unlink()
    assert upload("our-tools", code=1).stdout == ""


def test_for_a_stack_that_exists_it_prints_an_update_that_keeps_its_parameters(upload, folder):
    names = [parameter.name for parameter in parameters_of(StageConfig())]
    known = [name for name in names if name != "Tracing"]  # as if this release had added it
    put_stack(folder, *known, "OfAnEarlierRelease")
    done = upload("our-tools", "", STACK="our-stack")
    command = shlex.split(done.stdout.replace("\\\n", ""))
    assert command[2] == "update-stack"
    assert command[command.index("--stack-name") + 1] == "our-stack"
    assert command[command.index("--parameters") + 1 :] == [
        "ParameterKey=AssetsBucket,ParameterValue=our-tools",
        "ParameterKey=AssetsPrefix,ParameterValue=",
        *(f"ParameterKey={name},UsePreviousValue=true" for name in known if not name.startswith("Assets")),
    ]
    assert "new parameter, which gets its default: Tracing" in done.stderr


def put_stack(folder, *parameters, status="UPDATE_COMPLETE"):
    """What AWS answers about a stack with these parameters."""
    stack = {"StackStatus": status, "Parameters": [{"ParameterKey": name} for name in parameters]}
    result = jmespath.search(query_of_script(), {"Stacks": [stack]})
    (folder / "stack").write_text("\t".join(result) + "\n")


def query_of_script():
    return re.search(r"--query '(Stacks.*)'", SCRIPT.read_text())[1]


def test_an_update_that_keeps_nothing_is_a_whole_command(upload, folder):
    put_stack(folder, "AssetsBucket")
    done = upload("our-tools")
    assert done.stdout.endswith("ParameterKey=AssetsPrefix,ParameterValue=burstwatch/\n")
    assert "default: Name\n" in done.stderr
    assert "default: Assets" not in done.stderr, "the command names both"


@pytest.mark.parametrize("parameters", [["BootstrapVersion"], []])
def test_a_stack_of_the_cdk_is_not_updated(upload, folder, parameters):
    """It may have the same name; the template would replace it by its own defaults."""
    put_stack(folder, *parameters)
    failed = upload("our-tools", code=2)
    assert failed.stdout == ""
    assert "the stack burstwatch was not made from this template" in failed.stderr
    assert "STACK=NAME" in failed.stderr
    assert not [call for call in calls(folder) if "put-object" in call]


@pytest.mark.parametrize("status", ["ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "DELETE_FAILED"])
def test_a_stack_that_cannot_be_updated_must_be_deleted_first(upload, folder, status):
    put_stack(folder, "AssetsBucket", status=status)
    failed = upload("our-tools", code=2, STACK="our-stack")
    assert failed.stdout == ""
    assert f"the stack our-stack is in {status}" in failed.stderr
    assert "delete-stack --region eu-central-1 --stack-name our-stack" in failed.stderr


def test_a_stack_whose_last_update_was_rolled_back_can_be_updated(upload, folder):
    put_stack(folder, "AssetsBucket", "Name", status="UPDATE_ROLLBACK_COMPLETE")
    assert "update-stack" in upload("our-tools").stdout


def test_it_reports_that_it_cannot_see_whether_the_stack_exists(upload, folder):
    (folder / "no-stack").write_text("AccessDenied: not authorized\n")
    done = upload("our-tools")
    assert "cannot find out whether the stack burstwatch exists: AccessDenied" in done.stderr
    assert "create-stack" in done.stdout

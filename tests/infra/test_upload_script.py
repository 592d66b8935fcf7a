"""``upload.sh``: what it checks before it sends anything, and the command that it prints."""

import re
import shlex
import shutil

import jmespath
import pytest

from infra.config import StageConfig
from infra.plain_parameters import parameters_of
from support.stack.upload_script import SCRIPT, TOOLS


def calls(release):
    path = release / "calls"
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
def test_wrong_arguments_are_named_in_one_line(upload, release, arguments, message):
    failed = upload(*arguments, code=2)
    assert failed.stderr.startswith(f"upload.sh: {message}")
    assert failed.stderr.count("\n") == 1
    assert calls(release) == []


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


def test_a_missing_tool_is_named(upload, release):
    assert "the command aws is missing" in upload("our-tools", with_aws=False, code=2).stderr
    tools = [tool for tool in TOOLS if tool != "sha256sum"]
    assert "sha256sum and shasum are missing" in upload("our-tools", tools=tools, code=2).stderr
    assert calls(release) == []


@pytest.mark.skipif(shutil.which("shasum") is None, reason="this machine has no shasum")
def test_it_checks_the_archives_with_what_macos_has(upload):
    tools = [*(tool for tool in TOOLS if tool != "sha256sum"), "shasum"]
    assert upload("our-tools", tools=tools).stdout


def test_a_file_that_is_missing_or_damaged_is_named_and_nothing_is_sent(upload, release):
    [archive] = release.glob("burstwatch-layer-*.zip")
    archive.write_bytes(b"other")
    assert f"{archive.name} is damaged" in upload("our-tools", code=2).stderr
    archive.unlink()
    assert f"{archive.name} is missing" in upload("our-tools", code=2).stderr
    (release / "burstwatch.template.json").unlink()
    assert "burstwatch.template.json is missing" in upload("our-tools", code=2).stderr
    assert calls(release) == []


def test_archives_of_an_earlier_release_in_the_folder_are_not_uploaded(upload, release):
    (release / "burstwatch-layer-0123456789abcdef.zip").write_bytes(b"old")
    assert "0123456789abcdef" not in upload("our-tools").stderr


@pytest.mark.parametrize(
    ("location", "region"), [("None", "us-east-1"), ("EU", "eu-west-1"), ("eu-central-1", "eu-central-1")]
)
def test_the_region_is_the_one_that_s3_means(upload, release, location, region):
    (release / "location").write_text(f"{location}\n")
    printed = upload("our-tools").stdout
    assert f"create-stack --region {region} " in printed
    assert f"https://our-tools.s3.{region}.amazonaws.com/burstwatch/" in printed
    assert all(f"--region {region} " in call for call in calls(release)[1:])


def test_a_refused_call_is_not_a_wrong_argument(upload, release):
    (release / "location").unlink()
    assert upload("our-tools", code=1).stdout == ""


def test_for_a_stack_that_exists_it_prints_an_update_that_keeps_its_parameters(upload, release):
    names = [parameter.name for parameter in parameters_of(StageConfig())]
    known = [name for name in names if name != "Tracing"]  # as if this release had added it
    put_stack(release, *known, "OfAnEarlierRelease")
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


def put_stack(release, *parameters, status="UPDATE_COMPLETE"):
    """What AWS answers about a stack with these parameters."""
    stack = {"StackStatus": status, "Parameters": [{"ParameterKey": name} for name in parameters]}
    result = jmespath.search(query_of_script(), {"Stacks": [stack]})
    (release / "stack").write_text("\t".join(result) + "\n")


def query_of_script():
    return re.search(r"--query '(Stacks.*)'", SCRIPT.read_text())[1]


def test_an_update_that_keeps_nothing_is_a_whole_command(upload, release):
    put_stack(release, "AssetsBucket")
    done = upload("our-tools")
    assert done.stdout.endswith("ParameterKey=AssetsPrefix,ParameterValue=burstwatch/\n")
    assert "default: Name\n" in done.stderr
    assert "default: Assets" not in done.stderr, "the command names both"


@pytest.mark.parametrize("parameters", [["BootstrapVersion"], []])
def test_a_stack_of_the_cdk_is_not_updated(upload, release, parameters):
    """It may have the same name; the template would replace it by its own defaults."""
    put_stack(release, *parameters)
    failed = upload("our-tools", code=2)
    assert failed.stdout == ""
    assert "the stack burstwatch was not made from this template" in failed.stderr
    assert "STACK=NAME" in failed.stderr
    assert not [call for call in calls(release) if "put-object" in call]


@pytest.mark.parametrize("status", ["ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "DELETE_FAILED"])
def test_a_stack_that_cannot_be_updated_must_be_deleted_first(upload, release, status):
    put_stack(release, "AssetsBucket", status=status)
    failed = upload("our-tools", code=2, STACK="our-stack")
    assert failed.stdout == ""
    assert f"the stack our-stack is in {status}" in failed.stderr
    assert "delete-stack --region eu-central-1 --stack-name our-stack" in failed.stderr


def test_a_stack_whose_last_update_was_rolled_back_can_be_updated(upload, release):
    put_stack(release, "AssetsBucket", "Name", status="UPDATE_ROLLBACK_COMPLETE")
    assert "update-stack" in upload("our-tools").stdout


def test_it_reports_that_it_cannot_see_whether_the_stack_exists(upload, release):
    (release / "no-stack").write_text("AccessDenied: not authorized\n")
    done = upload("our-tools")
    assert "cannot find out whether the stack burstwatch exists: AccessDenied" in done.stderr
    assert "create-stack" in done.stdout

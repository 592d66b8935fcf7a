"""The ``aws`` of the pages' tests takes what the real one takes, and prints what it prints."""

import os
import subprocess
from datetime import UTC, datetime
from shlex import split
from shutil import which

import pytest

from support.runbooks.fake_aws_cli import SERVICE_ERROR_EXIT_CODE, USAGE_EXIT_CODE, FakeAwsCli
from support.runbooks.page_environment import VOLUME

MODIFICATIONS = f"ec2 describe-volumes-modifications --volume-ids {VOLUME}"
QUERY = "--query VolumesModifications[].[VolumeId,ModificationState,Progress,StartTime]"
SAME = [
    MODIFICATIONS,
    f"{MODIFICATIONS} {QUERY} --output text",
    f"{MODIFICATIONS} --query VolumesModifications[].VolumeId --output text",
    f"ec2 describe-volumes --filters Name=volume-type,Values=io1,io2 Name=volume-id,Values={VOLUME}",
    f"ec2 create-tags --resources {VOLUME} --tags Key=a,Value=b Key=c,Value=d",
    "ec2 describe-volumes-modifications --volume-ids vol-0ffffffffffffffff",
]


@pytest.mark.skipif(which("aws") is None, reason="the AWS CLI is not installed, to compare with")
@pytest.mark.parametrize("line", SAME)
def test_the_fake_prints_what_the_real_aws_cli_prints(page_env, aws, line):
    (page_env.cli.directory / "config").write_text("[default]\ncli_timestamp_format = iso8601\n")
    variables = {
        "AWS_CONFIG_FILE": str(page_env.cli.directory / "config"),
        "AWS_PAGER": "",
        "AWS_MAX_ATTEMPTS": "1",
    }
    environment = {**os.environ, **page_env.lab.environment, **variables}
    real = subprocess.run(
        ["aws", *split(line)], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    code, out, err = aws(line)
    assert (bool(code), out) == (bool(real.returncode), real.stdout)
    assert err.strip().split(" (reached")[0] in real.stderr.strip() or not err


def test_an_option_or_operation_that_does_not_exist_is_refused_before_any_call(page_env, aws):
    before = page_env.lab.faults.call_counts()
    for line in (
        "ec2 describe-volumes-modification",
        f"ec2 modify-volume --volume-id {VOLUME} --volume-typ gp2",
        f"ec2 modify-volume --volume-id {VOLUME} --volume-type gp9",
        f"ec2 modify-volume --volume-id {VOLUME} --iops many",
        "ec2 modify-volume --volume-type gp2",
        f"ec2 describe-volumes --filters Nam=volume-id,Values={VOLUME}",
        "dynamodb update-table --table-name t --no-deletion-protection-enabled true",
        "logs tail --since 1h",
        "logs tail group --sinc 1h",
        "ec2 describe-volumes and-more",
    ):
        code, out, err = aws(line)
        assert (code, out) == (USAGE_EXIT_CODE, ""), line
        assert err, line
    assert page_env.lab.faults.call_counts() == before


def test_a_service_error_is_printed_as_the_aws_cli_prints_it(aws):
    code, out, err = aws(f"ec2 modify-volume --volume-id {VOLUME} --volume-type gp2")
    assert (code, out) == (SERVICE_ERROR_EXIT_CODE, "")
    assert err.startswith(
        "\nAn error occurred (IncorrectModificationState) when calling the ModifyVolume operation: "
    )


class Logs:
    """What CloudWatch Logs has, whatever the request: moto takes every pattern for every line."""

    def __init__(self, *messages):
        self._events = [
            {"timestamp": 1_795_197_540_000, "logStreamName": "s", "message": message} for message in messages
        ]

    def get_paginator(self, _):
        return self

    def paginate(self, **request):
        self.request = request
        return [{"events": self._events}]


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ('{ $.level = "ERROR" || $.level = "WARNING" }', 1),
        ('{ $.level = "INFO" }', 1),
        ("?Traceback ?Task", 1),
    ],
)
def test_lines_of_a_log_are_those_that_the_pattern_lets_through(pattern, lines):
    logs = Logs('{"level": "ERROR"}', '{"level": "INFO"}', "Task timed out")
    now = datetime(2026, 11, 20, 18, tzinfo=UTC)
    code, out, _ = FakeAwsCli(lambda _: logs, lambda: now).run(
        ["logs", "tail", "group", "--since", "30m", "--format", "short", "--filter-pattern", pattern]
    )
    assert (code, len(out.splitlines())) == (0, lines)
    assert out.startswith("2026-11-20T17:59:00 ")
    assert logs.request["startTime"] == 1_795_195_800_000


def test_a_pattern_that_the_test_does_not_know_is_not_a_pattern_of_a_page():
    code, _, err = FakeAwsCli(lambda _: Logs()).run(["logs", "tail", "g", "--filter-pattern", "{ $.n > 3 }"])
    assert code == USAGE_EXIT_CODE
    assert "--filter-pattern" in err

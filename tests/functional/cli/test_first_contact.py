"""The first run of each command, when something is missing: a cause, a next step, a documented exit code."""

import math

import pytest

from burstctl.cli.exit_codes import ExitCode
from burstlab.fake_aws.faults import Fault

pytestmark = pytest.mark.usefixtures("two_volumes")


READS_VOLUMES = [
    ("assess",),
    ("explain", "ci-7"),
    ("watch", "--once"),
    ("plot", "ci-7"),
    ("report", "--html", "page.html"),
    ("advise",),
    ("which", "ci-7"),
    ("flip", "ci-7", "--dry-run"),
    ("history", "ci-7"),
    ("backtest", "--last", "1d"),
]
ORDERS = [("hold", "--all", "--for", "1h", "--reason", "x"), ("release", "--all")]
NEEDS_NO_AWS = [
    ("init", "--email", "oncall@example.com", "--yes", "--directory", "."),
    ("policy", "show"),
    ("runbook", "FlipRefused"),
]
CHECKS = [("doctor",), ("alert", "--test")]
DENIED_ACTIONS = [
    "DescribeVolumes",
    "GetMetricData",
    "DescribeInstances",
    "DescribeInstanceTypes",
    "DescribeVolumesModifications",
    "GetParametersByPath",
    "GetCallerIdentity",
]


def unset_credentials(cli, lab):
    cli.unset("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def unset_region(cli, lab):
    cli.unset("AWS_REGION", "AWS_DEFAULT_REGION")


def set_unknown_profile(cli, lab):
    cli.set(AWS_PROFILE="nobody")


def expire_credentials(cli, lab):
    # The time of the lab is not that of botocore's signatures.
    cli.monkeypatch.setattr("burstwatch.adapters.aws.errors._MIN_SUSPECT_SKEW_S", math.inf)
    lab.faults.add(Fault(code="ExpiredToken", status=403))


def stop_endpoint(cli, lab):
    cli.set(AWS_ENDPOINT_URL="http://127.0.0.1:9", BURSTWATCH_CLOCK="wall")


CONDITIONS = {
    unset_credentials: ("no AWS credentials found", "aws sso login", ExitCode.USAGE),
    unset_region: ("no AWS Region", "give --region", ExitCode.USAGE),
    set_unknown_profile: (
        "The config profile (nobody) could not be found",
        "check --profile",
        ExitCode.USAGE,
    ),
    expire_credentials: ("the AWS credentials have expired", "aws sso login", ExitCode.USAGE),
    stop_endpoint: ("http://127.0.0.1:9 could not be reached", "check the network", ExitCode.FAILED),
}


def assert_cause_and_fix(result, cause, fix):
    """One error with this cause, this next step below it, and no traceback."""
    assert "Traceback" not in result.err + result.out
    [error] = result.error_lines
    assert cause in error
    assert any(fix in line for line in result.err.splitlines() if line.startswith("  fix: "))


@pytest.mark.parametrize("arguments", READS_VOLUMES, ids=lambda arguments: arguments[0])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_what_is_missing_is_one_cause_with_one_fix(cli, lab, condition, arguments):
    cause, fix, code = CONDITIONS[condition]
    condition(cli, lab)

    result = cli.run(*arguments)

    assert result.code == code
    assert result.out == ""
    assert_cause_and_fix(result, cause, fix)


@pytest.mark.parametrize("arguments", ORDERS, ids=lambda arguments: arguments[0])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_an_order_that_may_not_arrive_is_refused_with_the_cause(cli, lab, condition, arguments):
    cause, fix, _ = CONDITIONS[condition]
    condition(cli, lab)

    result = cli.run(*arguments)

    assert result.code in (ExitCode.USAGE, ExitCode.FAILED)
    assert result.out == ""
    assert_cause_and_fix(result, cause, fix)


@pytest.mark.parametrize("arguments", CHECKS, ids=lambda arguments: arguments[0])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_check_reports_the_cause_once_with_its_fix(cli, lab, condition, arguments):
    cause, fix, _ = CONDITIONS[condition]
    condition(cli, lab)

    result = cli.run(*arguments)

    text = " ".join(result.out.split())
    assert result.code in (ExitCode.USAGE, ExitCode.FAILED)
    assert "Traceback" not in result.err + result.out
    assert text.count(cause) == 1
    _, _, advice = text.partition("To fix it: ")
    assert fix in advice
    assert "the message" not in text


@pytest.mark.parametrize("arguments", NEEDS_NO_AWS, ids=lambda arguments: arguments[0])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_what_needs_no_aws_works_without_it(cli, lab, condition, arguments):
    condition(cli, lab)

    result = cli.run(*arguments)

    assert result.code == ExitCode.OK
    assert result.out
    assert "Traceback" not in result.err


@pytest.mark.parametrize("arguments", [*READS_VOLUMES, *ORDERS], ids=lambda arguments: arguments[0])
@pytest.mark.parametrize("action", DENIED_ACTIONS)
def test_a_denied_call_is_reported_once_however_many_volumes_it_affects(cli, lab, action, arguments):
    message = f"User: arn:aws:iam::123456789012:user/ann is not authorized to perform: service:{action}"
    lab.faults.add(Fault(action=action, code="AccessDenied", message=message, status=403))

    result = cli.run(*arguments)

    assert "Traceback" not in result.err + result.out
    assert result.err.count(f"may not call service:{action}") <= 1
    assert result.err.count(f"fix: grant service:{action}") == result.err.count("may not call")
    if result.code == ExitCode.FAILED and arguments not in ORDERS:
        assert f"may not call service:{action}" in result.err


EMPTY = [("assess",), ("watch", "--once"), ("report", "--html", "page.html"), ("advise",), ("backtest",)]


@pytest.mark.parametrize("arguments", EMPTY, ids=lambda arguments: arguments[0])
def test_an_empty_region_is_one_line_with_where_to_look_next(cli, lab, arguments):
    result = cli.run(*arguments, "--region", "eu-west-1")

    assert result.code == ExitCode.OK
    assert result.out == ""
    assert "--region all" in result.err.splitlines()[-1]


@pytest.mark.parametrize("home", ["", "/nonexistent/home"])
def test_no_usable_home_directory_stops_no_command_that_only_reads(cli, lab, home):
    cli.unset("HOME")
    if home:
        cli.set(HOME=home)

    result = cli.run("assess")

    assert result.code == ExitCode.ATTENTION
    assert "ci-7" in result.out

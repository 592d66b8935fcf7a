"""All that can go wrong in the CLI is one clear message, the documented exit code, and nothing lost."""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from burstctl.__main__ import main as start
from burstlab.fake_aws.faults import Fault
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from support.cli.cli_session import add_critical
from support.waiting import wait_until


def single_error(result) -> str:
    """The only complaint of a run, which is not a traceback: its cause."""
    assert "Traceback" not in result.err
    (complaint,) = result.error_lines
    return complaint.removeprefix("error: ")


def fix_of(result) -> str:
    """What to do about the only complaint of a run, from the line below its cause."""
    (fix,) = (line for line in result.err.splitlines() if line.startswith("  fix: "))
    return fix.removeprefix("  fix: ")


@pytest.mark.parametrize(
    "arguments", [("assess",), ("explain", "ci-7"), ("advise",), ("flip", "ci-7"), ("watch", "--once")]
)
def test_no_credentials(cli, critical_lab, arguments):
    cli.unset("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

    result = cli.run(*arguments)

    assert result.code == 2
    assert result.out == ""
    assert result.err.splitlines() == [
        "error: no AWS credentials found.",
        "  fix: run aws sso login, set AWS_PROFILE, or use --profile",
    ]
    assert critical_lab.faults.call_counts() == {}


def test_no_region(cli, critical_lab):
    cli.unset("AWS_REGION", "AWS_DEFAULT_REGION")

    result = cli.run("assess")

    assert result.code == 2
    assert single_error(result) == "no AWS Region."
    assert fix_of(result) == "give --region, set AWS_REGION, or add one to the profile"


@pytest.mark.parametrize("name", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_either_name_of_the_region_will_do(cli, critical_lab, name):
    cli.unset("AWS_REGION", "AWS_DEFAULT_REGION")
    cli.set(**{name: "eu-central-1"})

    assert cli.run("assess", "--json").document["region"] == "eu-central-1"


@pytest.mark.parametrize("by_option", [True, False])
def test_an_unknown_profile(cli, critical_lab, by_option):
    if not by_option:
        cli.set(AWS_PROFILE="nobody")

    result = cli.run("assess", *(["--profile", "nobody"] if by_option else []))

    assert result.code == 2
    assert single_error(result) == "The config profile (nobody) could not be found."
    assert fix_of(result) == "check --profile, AWS_PROFILE and ~/.aws/config"


def test_no_permission_names_the_action_and_who_lacks_it(cli, critical_lab):
    message = (
        "You are not authorized to perform this operation. User: arn:aws:iam::123456789012:user/ann is not"
        " authorized to perform: ec2:DescribeVolumes because no identity-based policy allows it"
    )
    critical_lab.faults.add(
        Fault(action="DescribeVolumes", code="UnauthorizedOperation", message=message, status=403)
    )

    result = cli.run("assess")

    assert result.code == 1
    assert single_error(result) == "arn:aws:iam::123456789012:user/ann may not call ec2:DescribeVolumes."
    assert fix_of(result) == "grant ec2:DescribeVolumes to it, or use credentials that have it"


def test_a_history_that_may_not_be_read_has_the_same_cause_and_fix(cli, critical_lab):
    critical_lab.faults.add(Fault(action="GetMetricData", code="AccessDenied", status=403))
    for command in ("explain", "plot"):
        result = cli.run(command, "ci-7")
        assert result.code == 1
        assert "this identity may not call cloudwatch:GetMetricData" in single_error(result)
        assert fix_of(result) == "grant cloudwatch:GetMetricData to it, or use credentials that have it"


def test_an_endpoint_that_cannot_be_reached(cli, critical_lab, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    cli.set(AWS_ENDPOINT_URL="http://127.0.0.1:9", BURSTWATCH_CLOCK="wall")

    result = cli.run("assess")

    assert result.code == 1
    assert single_error(result) == "http://127.0.0.1:9 could not be reached."
    assert fix_of(result).startswith("try again; if it lasts, check the network")


@pytest.mark.parametrize(
    ("regions", "subject"), [("us-east-1", ""), ("us-east-1,eu-west-1", "us-east-1, eu-west-1: ")]
)
def test_services_that_cannot_be_reached_are_one_error_with_one_fix(cli, regions, subject):
    ports = {"EC2": 7, "EFS": 8, "RDS": 9, "SSM": 11}
    services = {f"AWS_ENDPOINT_URL_{name}": f"http://127.0.0.1:{port}" for name, port in ports.items()}
    cli.set(AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="x", **services)

    result = cli.run("assess", "--region", regions, "--ledger", "sqlite:x")

    assert result.code == 1
    assert result.error_lines == [
        f"error: {subject}http://127.0.0.1:7, http://127.0.0.1:8 and http://127.0.0.1:9 could not be reached."
    ]
    errors = result.err[result.err.index("error: ") :]
    assert errors.count("fix: ") == 1


def test_an_invalid_endpoint(cli, critical_lab):
    cli.set(AWS_ENDPOINT_URL="nonsense")

    result = cli.run("assess")

    assert result.code == 2
    assert single_error(result) == "Invalid endpoint: nonsense."
    assert fix_of(result) == "correct the AWS configuration or AWS_ENDPOINT_URL"


def test_a_clock_that_is_off_is_refused_before_anything_is_judged(cli, critical_lab, monkeypatch):
    seven_minutes_later = datetime(2026, 11, 20, 18, 7, tzinfo=UTC).timestamp()
    monkeypatch.setattr("burstwatch.wiring.bootstrap.time", lambda: seven_minutes_later)
    cli.set(BURSTWATCH_CLOCK="wall")

    result = cli.run("watch", "--once")

    assert result.code == 1
    assert result.out == ""
    assert single_error(result).startswith(
        "this machine's clock is 7 min ahead of AWS's (2026-11-20T18:00:00Z), more than 2 min."
    )
    assert fix_of(result).startswith("set it (for example chronyc makestep) and run again")
    with SqliteLedger.open(cli.ledger_path) as ledger:
        assert ledger.states() == {}


def test_a_slightly_wrong_clock_is_accepted(cli, critical_lab, monkeypatch):
    two_minutes_early = datetime(2026, 11, 20, 17, 58, tzinfo=UTC).timestamp()
    monkeypatch.setattr("burstwatch.wiring.bootstrap.time", lambda: two_minutes_early)
    cli.set(BURSTWATCH_CLOCK="wall")

    assert cli.run("assess").code == 3


def test_a_request_that_aws_refuses_for_its_time(cli, critical_lab):
    critical_lab.faults.add(
        Fault(action="DescribeVolumes", code="RequestExpired", message="Request has expired.", status=400)
    )

    result = cli.run("assess")

    assert result.code == 1
    assert "this machine's clock is " in single_error(result)
    assert fix_of(result).startswith("set this machine's clock")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"BURSTWATCH_CLOCK": "sun"}, "BURSTWATCH_CLOCK='sun' is not a valid clock."),
        (
            {"BURSTWATCH_LEDGER": "paper"},
            "'paper' is not a valid ledger.",
        ),
        ({"BURSTWATCH_TOPIC_ARN": "alerts"}, "'alerts' is not a topic."),
    ],
)
def test_a_setting_that_is_wrong_is_a_usage_error(cli, critical_lab, variables, message):
    cli.set(**variables)

    result = cli.run("assess")

    assert result.code == 2
    assert single_error(result).startswith(message)


def test_a_ledger_of_an_unknown_kind_is_a_usage_error(cli, critical_lab):
    result = cli.run("assess", "--ledger", "postgres:burstwatch")

    assert result.code == 2
    assert single_error(result).startswith("'postgres:burstwatch' is not a valid ledger.")


@pytest.mark.parametrize("command", ["assess", "watch"])
def test_a_bad_policy_is_a_usage_error_with_every_fault_and_no_volume_is_requested(
    cli, critical_lab, command
):
    (cli.directory / "policy.yaml").write_text("version: 2\nlevels:\n  warning_within: soon\n")

    result = cli.run(command)

    assert result.code == 2
    complaint, first, second, fix = result.err.splitlines()
    assert complaint == "error: the policy is rejected:"
    assert first == "  policy.yaml:1: version: is '2'; this burstwatch reads version: 1"
    assert second.startswith("  policy.yaml:3: levels.warning_within: 'soon' is not a valid duration;")
    assert fix == "  fix: correct it, then check it with burstctl policy check FILE"
    assert critical_lab.faults.call_counts() == {"GetParametersByPath": 1}, (
        "a deployed stack's policy would come first"
    )


def test_a_locked_ledger(cli, critical_lab, monkeypatch):
    monkeypatch.setattr(SqliteLedger.open.__func__, "__kwdefaults__", {"lock_timeout_s": 0.05})
    SqliteLedger.open(cli.ledger_path).close()
    holder = sqlite3.connect(cli.ledger_path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    result = cli.run("watch", "--once")

    holder.close()
    assert result.code == 1
    assert "has been locked by another process for 0.05 s, so nothing was written" in single_error(result)


def test_a_damaged_ledger_is_left_as_it_is(cli, critical_lab):
    cli.ledger_path.parent.mkdir(parents=True)
    cli.ledger_path.write_bytes(b"this is no database" * 100)

    result = cli.run("watch", "--once")

    assert result.code == 1
    assert "is damaged (file is not a database)." in single_error(result)
    assert fix_of(result).startswith("restore a copy, or move it away")
    assert cli.ledger_path.read_bytes() == b"this is no database" * 100


def test_a_ledger_where_none_can_be_made(cli, critical_lab):
    (cli.directory / "file").touch()

    result = cli.run("watch", "--once", "--ledger", "sqlite:file/ledger.sqlite")

    assert result.code == 1
    assert "check owner and permissions of the file and its directory" in fix_of(result)


def test_to_assess_no_ledger_needs_to_be_made(cli, critical_lab):
    (cli.directory / "file").touch()

    assert cli.run("assess", "--ledger", "sqlite:file/ledger.sqlite").code == 3


def test_a_full_disk_loses_no_alert(cli, critical_lab):
    cli.run("watch", "--passes", "1")
    add_critical(critical_lab, "another")
    critical_lab.clock.advance(60)

    def fill_the_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    result = cli.run_in_subprocess("watch", "--once", preexec_fn=fill_the_disk)

    assert result.code == 1
    assert "failing or full disk" in single_error(result)
    second_result = cli.run("watch", "--once")
    assert "CRITICAL: another" in second_result.err


def test_a_closed_pipe(cli, critical_lab):
    reader, writer = os.pipe()
    os.close(reader)

    result = cli.run_in_subprocess("assess", stdout=writer)

    os.close(writer)
    assert result.code == 1
    assert single_error(result) == "the output could not be written (Broken pipe)."


def test_a_watch_with_a_closed_pipe_has_recorded_its_pass(cli, critical_lab):
    reader, writer = os.pipe()
    os.close(reader)

    result = cli.run_in_subprocess("watch", stdout=writer)

    os.close(writer)
    assert result.code == 1
    assert "Broken pipe" in single_error(result)
    with SqliteLedger.open(cli.ledger_path) as ledger:
        assert len(ledger.states()) == 1


@pytest.mark.parametrize("arguments", [["assess", "--json"], ["assess", "--help"], ["--version"], []])
def test_output_onto_a_full_disk(cli, critical_lab, arguments):
    with Path("/dev/full").open("w") as full:
        result = cli.run_in_subprocess(*arguments, stdout=full)

    assert result.code == 1
    assert "the output could not be written (No space left on device)" in single_error(result)


def test_a_closed_stdout_is_refused_before_anything_is_done(cli, critical_lab):
    result = cli.run_in_subprocess("watch", "--once", stdout=None, preexec_fn=lambda: os.close(1))

    assert result.code == 1
    assert single_error(result).startswith("stdout is closed, nothing was done")
    assert not cli.ledger_path.exists()


def test_a_closed_stderr_stops_nothing(cli, critical_lab):
    result = cli.run_in_subprocess("assess", stderr=None, preexec_fn=lambda: os.close(2))

    assert result.code == 3
    assert "critical" in result.out


def test_an_encoding_that_lacks_characters_stops_nothing(cli, critical_lab):
    add_critical(critical_lab, "日本語")

    result = cli.run_in_subprocess("assess", env={"PYTHONIOENCODING": "ascii"})

    assert result.code == 3
    assert "???" in result.out


def test_an_interrupt_ends_it_at_once(cli, critical_lab):
    critical_lab.faults.set_latency(20_000, "DescribeVolumes")
    with cli.start_subprocess("watch", "--once", stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: "DescribeVolumes" in critical_lab.faults.call_counts())
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=60)

    assert process.returncode == 130
    assert text.splitlines()[-1].startswith("interrupted; unfinished work was not recorded")
    assert "Traceback" not in text


def test_an_interrupt_while_modules_are_read_is_no_traceback(monkeypatch, capsys):
    class Interrupt:
        def find_spec(self, name, path, target=None):
            if name == "burstctl.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "burstctl.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupt(), *sys.meta_path])

    assert start() == 130
    assert capsys.readouterr().err == "interrupted; nothing was done\n"


def test_a_bug_is_one_line_and_names_how_to_get_the_rest(cli, critical_lab, monkeypatch):
    def break_down(*_, **__):
        raise LookupError("no such\nthing")

    monkeypatch.setattr("burstctl.assess.assess_resources.assess_volumes", break_down)

    result = cli.run("assess")

    assert result.code == 1
    assert single_error(result) == "unexpected LookupError: no such thing."
    assert fix_of(result) == "set BURSTWATCH_DEBUG=1 to see the details, and report them"
    cli.set(BURSTWATCH_DEBUG="1")
    assert "Traceback" in cli.run("assess").err

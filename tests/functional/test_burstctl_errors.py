"""Everything that can go wrong at a desk is one clear message, the documented exit code, and nothing lost."""

import os
import resource
import signal
import sqlite3
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from operators_desk import OperatorsDesk, a_lab, add_critical

from burstlab.fake_aws.faults import Fault
from burstwatch.adapters.ledger.sqlite import SqliteLedger


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    return OperatorsDesk(tmp_path, monkeypatch, capsys)


@pytest.fixture
def lab(desk):
    with a_lab(desk) as endpoint:
        add_critical(endpoint)
        yield endpoint


def the_complaint(ran) -> str:
    """The only complaint of a run, which is no traceback."""
    assert "Traceback" not in ran.err
    (complaint,) = ran.complaints
    return complaint.removeprefix("burstctl: ")


def test_no_credentials(desk, lab):
    desk.unset("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

    ran = desk.run("assess")

    assert ran.code == 1
    assert ran.out == ""
    assert the_complaint(ran).startswith(
        "ec2:DescribeVolumes failed (NoCredentialsError): no AWS credentials were found; log in again"
    )


def test_no_region(desk, lab):
    desk.unset("AWS_REGION", "AWS_DEFAULT_REGION")

    ran = desk.run("assess")

    assert ran.code == 2
    assert the_complaint(ran) == "no AWS region; give --region, set AWS_REGION, or add one to the profile"


@pytest.mark.parametrize("name", ["AWS_REGION", "AWS_DEFAULT_REGION"])
def test_either_name_of_the_region_will_do(desk, lab, name):
    desk.unset("AWS_REGION", "AWS_DEFAULT_REGION")
    desk.set(**{name: "eu-central-1"})

    assert desk.run("assess", "--json").document["region"] == "eu-central-1"


@pytest.mark.parametrize("by_option", [True, False])
def test_an_unknown_profile(desk, lab, by_option):
    if not by_option:
        desk.set(AWS_PROFILE="nobody")

    ran = desk.run("assess", *(["--profile", "nobody"] if by_option else []))

    assert ran.code == 2
    assert "The config profile (nobody) could not be found; check --profile" in the_complaint(ran)


def test_no_permission_names_the_action_and_who_lacks_it(desk, lab):
    message = (
        "You are not authorized to perform this operation. User: arn:aws:iam::123456789012:user/ann is not"
        " authorized to perform: ec2:DescribeVolumes because no identity-based policy allows it"
    )
    lab.faults.add(Fault(action="DescribeVolumes", code="UnauthorizedOperation", message=message, status=403))

    ran = desk.run("assess")

    assert ran.code == 1
    assert the_complaint(ran) == (
        "ec2:DescribeVolumes failed (UnauthorizedOperation): arn:aws:iam::123456789012:user/ann may not call"
        " ec2:DescribeVolumes; grant ec2:DescribeVolumes to it, or use credentials that have it."
    )


def test_an_endpoint_that_cannot_be_reached(desk, lab, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    desk.set(AWS_ENDPOINT_URL="http://127.0.0.1:9", BURSTWATCH_CLOCK="wall")

    ran = desk.run("assess")

    assert ran.code == 1
    assert "http://127.0.0.1:9 could not be reached; try again; if it lasts, check" in the_complaint(ran)


def test_an_endpoint_that_is_none(desk, lab):
    desk.set(AWS_ENDPOINT_URL="nonsense")

    ran = desk.run("assess")

    assert ran.code == 2
    assert the_complaint(ran) == (
        "Invalid endpoint: nonsense; correct the AWS configuration or AWS_ENDPOINT_URL"
    )


def test_a_clock_that_is_off_is_refused_before_anything_is_judged(desk, lab, monkeypatch):
    seven_minutes_later = datetime(2026, 11, 20, 18, 7, tzinfo=UTC).timestamp()
    monkeypatch.setattr("burstwatch.wiring.bootstrap.time", lambda: seven_minutes_later)
    desk.set(BURSTWATCH_CLOCK="wall")

    ran = desk.run("watch", "--once")

    assert ran.code == 1
    assert ran.out == ""
    assert the_complaint(ran).startswith(
        "this machine's clock is 7 min ahead of AWS's (2026-11-20T18:00:00Z), more than 2 min: set it"
    )
    with SqliteLedger.open(desk.ledger_path) as ledger:
        assert ledger.states() == {}


def test_a_clock_that_is_a_little_off_is_none(desk, lab, monkeypatch):
    two_minutes_early = datetime(2026, 11, 20, 17, 58, tzinfo=UTC).timestamp()
    monkeypatch.setattr("burstwatch.wiring.bootstrap.time", lambda: two_minutes_early)
    desk.set(BURSTWATCH_CLOCK="wall")

    assert desk.run("assess").code == 3


def test_a_request_that_aws_refuses_for_its_time(desk, lab):
    lab.faults.add(
        Fault(action="DescribeVolumes", code="RequestExpired", message="Request has expired.", status=400)
    )

    ran = desk.run("assess")

    assert ran.code == 1
    assert "RequestExpired" in the_complaint(ran)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"BURSTWATCH_CLOCK": "sun"}, "BURSTWATCH_CLOCK='sun' is no clock; write wall or endpoint"),
        (
            {"BURSTWATCH_LEDGER": "paper"},
            "'paper' is no ledger: write sqlite:PATH or dynamodb:TABLE after --ledger",
        ),
        ({"BURSTWATCH_TOPIC_ARN": "alerts"}, "'alerts' is no topic: write its ARN after --topic-arn"),
    ],
)
def test_a_setting_that_is_wrong_is_misuse(desk, lab, given, said):
    desk.set(**given)

    ran = desk.run("assess")

    assert ran.code == 2
    assert the_complaint(ran).startswith(said)


def test_a_ledger_of_an_unknown_kind_is_misuse(desk, lab):
    ran = desk.run("assess", "--ledger", "postgres:burstwatch")

    assert ran.code == 2
    assert the_complaint(ran).startswith("'postgres:burstwatch' is no ledger: write sqlite:PATH")


@pytest.mark.parametrize("command", ["assess", "watch"])
def test_a_bad_policy_is_misuse_with_every_fault_and_no_volume_is_asked_for(desk, lab, command):
    (desk.directory / "policy.yaml").write_text("version: 2\nlevels:\n  warning_within: soon\n")

    ran = desk.run(command)

    assert ran.code == 2
    complaint, first, second = ran.err.splitlines()
    assert complaint == "burstctl: the policy is rejected:"
    assert first == "  policy.yaml:1: version: is '2'; this burstwatch reads version: 1"
    assert second.startswith("  policy.yaml:3: levels.warning_within: 'soon' is not a span;")
    assert lab.faults.calls() == {"GetParametersByPath": 1}, "a deployed stack's policy would come first"


def test_a_locked_ledger(desk, lab, monkeypatch):
    monkeypatch.setattr(SqliteLedger.open.__func__, "__kwdefaults__", {"lock_timeout_s": 0.05})
    SqliteLedger.open(desk.ledger_path).close()
    holder = sqlite3.connect(desk.ledger_path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    ran = desk.run("watch", "--once")

    holder.close()
    assert ran.code == 1
    assert "has been locked by another process for 0.05 s, so nothing was written" in the_complaint(ran)


def test_a_damaged_ledger_is_left_as_it_is(desk, lab):
    desk.ledger_path.parent.mkdir(parents=True)
    desk.ledger_path.write_bytes(b"this is no database" * 100)

    ran = desk.run("watch", "--once")

    assert ran.code == 1
    assert "is damaged (file is not a database): restore a copy, or move it away" in the_complaint(ran)
    assert desk.ledger_path.read_bytes() == b"this is no database" * 100


def test_a_ledger_where_none_can_be_made(desk, lab):
    (desk.directory / "file").touch()

    ran = desk.run("watch", "--once", "--ledger", "sqlite:file/ledger.sqlite")

    assert ran.code == 1
    assert "check owner and permissions of the file and its directory" in the_complaint(ran)


def test_to_assess_no_ledger_needs_to_be_made(desk, lab):
    (desk.directory / "file").touch()

    assert desk.run("assess", "--ledger", "sqlite:file/ledger.sqlite").code == 3


def test_a_full_disk_loses_no_alert(desk, lab):
    desk.run("watch", "--passes", "1")
    add_critical(lab, "another")
    lab.clock.advance(60)

    def fill_the_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    ran = desk.run_alone("watch", "--once", preexec_fn=fill_the_disk)

    assert ran.code == 1
    assert "failing or full disk" in the_complaint(ran)
    again = desk.run("watch", "--once")
    assert "critical: another" in again.err


def test_a_reader_that_is_gone(desk, lab):
    reader, writer = os.pipe()
    os.close(reader)

    ran = desk.run_alone("assess", stdout=writer)

    os.close(writer)
    assert ran.code == 1
    assert the_complaint(ran) == "the output could not be written (Broken pipe); the ledger is complete"


def test_a_watch_whose_reader_is_gone_has_recorded_its_pass(desk, lab):
    reader, writer = os.pipe()
    os.close(reader)

    ran = desk.run_alone("watch", stdout=writer)

    os.close(writer)
    assert ran.code == 1
    assert "Broken pipe" in the_complaint(ran)
    with SqliteLedger.open(desk.ledger_path) as ledger:
        assert len(ledger.states()) == 1


def test_output_onto_a_full_disk(desk, lab):
    with Path("/dev/full").open("w") as full:
        ran = desk.run_alone("assess", "--json", stdout=full)

    assert ran.code == 1
    assert "the output could not be written (No space left on device)" in the_complaint(ran)


def test_a_closed_stdout_is_refused_before_anything_is_done(desk, lab):
    ran = desk.run_alone("watch", "--once", stdout=None, preexec_fn=lambda: os.close(1))

    assert ran.code == 1
    assert the_complaint(ran).startswith("stdout is closed, nothing was done")
    assert not desk.ledger_path.exists()


def test_a_closed_stderr_stops_nothing(desk, lab):
    ran = desk.run_alone("assess", stderr=None, preexec_fn=lambda: os.close(2))

    assert ran.code == 3
    assert "critical" in ran.out


def test_an_encoding_that_lacks_characters_stops_nothing(desk, lab):
    add_critical(lab, "日本語")

    ran = desk.run_alone("assess", env={"PYTHONIOENCODING": "ascii"})

    assert ran.code == 3
    assert "???" in ran.out


def test_an_interrupt_ends_it_at_once(desk, lab):
    lab.faults.set_latency(20_000, "DescribeVolumes")
    with desk.start("watch", "--once", stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: "DescribeVolumes" in lab.faults.calls())
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10)

    assert process.returncode == 130
    assert said.splitlines()[-1].startswith("burstctl: interrupted;")
    assert "Traceback" not in said


def wait_for(condition):
    until_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until_s, "it did not come about within 10 s"
        time.sleep(0.01)


def test_a_bug_is_one_line_and_says_how_to_get_the_rest(desk, lab, monkeypatch):
    def break_down(*_, **__):
        raise LookupError("no such\nthing")

    monkeypatch.setattr("burstctl.assess.command.assess_volumes", break_down)

    ran = desk.run("assess")

    assert ran.code == 1
    assert the_complaint(ran) == (
        "unexpected LookupError: no such thing;"
        " see the details with BURSTWATCH_DEBUG=1, and please report them"
    )
    desk.set(BURSTWATCH_DEBUG="1")
    assert "Traceback" in desk.run("assess").err

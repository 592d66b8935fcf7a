"""burstctl init: a few questions, and the two files that a deployment needs."""

import shlex
import sys

import pytest
import yaml

from burstctl.init.files import POLICY_FILE, STAGE_FILE
from burstlab.fake_aws.faults import Fault
from burstlab.model.database import LabDatabase
from burstlab.model.file_system import LabFileSystem
from support.cli.cli_session import add_calm, add_gp3, add_lab_instance

OPTIONS = ("--email", "oncall@example.com", "--region", "eu-central-1", "--yes")


def stage_of(cli):
    return yaml.safe_load((cli.directory / STAGE_FILE).read_text())


def policy_of(cli):
    return yaml.safe_load((cli.directory / POLICY_FILE).read_text())


def test_six_answers_make_a_stage_and_a_policy(cli):
    answers = (
        "oncall@example.com, slack:burstwatch/slack",
        "eu-central-1 us-east-1",
        "instance, ebs",
        "flip",
        "200",
        "sat,sun 00:00-24:00 UTC",
    )

    result = cli.run("init", answer="\n".join(answers))

    assert result.code == 0
    assert result.err.count("?") == 6
    assert stage_of(cli) == {
        "name": "burstwatch",
        "regions": ["eu-central-1", "us-east-1"],
        "policy": "policy.yaml",
        "recipients": {"emails": ["oncall@example.com"], "slack_secret": "burstwatch/slack"},
        "resources": ["ebs", "instance"],
        "flips": True,
    }
    assert policy_of(cli) == {
        "version": 1,
        "mode": {"highest": "auto"},
        "flip": {"spend_cap_usd_per_month": 200, "change_hours": "sat-sun 00:00-24:00 UTC"},
        "resources": {"instance": {"watch": True}},
    }


def test_a_stack_that_only_alerts_needs_four_answers_and_three_have_defaults(cli):
    cli.set(AWS_REGION="us-west-2")

    result = cli.run("init", answer="oncall@example.com\n\n\n")

    assert result.code == 0
    assert "2. Which Regions? None: where your credentials point [us-west-2]: " in result.err
    assert "4. Only alert, or also flip volumes that opted in by tag? alert or flip [alert]: " in result.err
    assert "3. What is watched? Some of ebs, instance, efs, rds [ebs]: " in result.err
    assert stage_of(cli)["resources"] == ["ebs"]
    assert (stage_of(cli)["regions"], stage_of(cli)["flips"]) == (["us-west-2"], False)
    assert policy_of(cli) == {"version": 1, "mode": {"highest": "propose"}}


def test_without_a_region_anywhere_the_stack_goes_where_the_credentials_point(cli):
    cli.run("init", answer="oncall@example.com\n\n\n")

    assert "regions" not in stage_of(cli)
    assert "# regions: [us-east-1]  # a stack in each" in (cli.directory / STAGE_FILE).read_text()


def test_a_wrong_answer_is_explained_and_the_question_repeated(cli):
    answers = ("", "nobody", "oncall@example.com", "moon", "us-east-1", "floppy", "ebs", "maybe", "alert")

    result = cli.run("init", answer="\n".join(answers))

    assert result.code == 0
    for message in (
        "no one would be alerted; write an e-mail address or slack:SECRET",
        "'nobody' is not an e-mail address; write one such as oncall@example.com",
        "'moon' is not a Region; write names such as us-east-1, eu-central-1",
        "'floppy' is not a kind of resource; write some of ebs, instance, efs, rds",
        "'maybe' is not a mode; write alert or flip",
    ):
        assert message in result.err
    assert result.err.count("1. Who is alerted?") == 3


def test_questions_are_broken_between_words(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    result = cli.run("init", answer="oncall@example.com\neu-central-1\n\n\n")
    assert (
        "1. Who is alerted? E-mail addresses, or slack:SECRET (a\n  name in Secrets Manager): " in result.err
    )


def test_a_region_that_does_not_exist_is_not_written_down(cli):
    result = cli.run("init", *OPTIONS, "--region", "us-eastt-1")
    assert (result.code, result.error_lines) == (2, ["error: 'us-eastt-1' is not an AWS Region."])
    assert "fix: did you mean us-east-1 or " in result.err
    assert list(cli.directory.glob("*.yaml")) == []

    cli.set(AWS_REGION="eu-centrall-1")
    result = cli.run("init", "--email", "oncall@example.com", "--yes")
    assert (result.code, result.error_lines) == (2, ["error: 'eu-centrall-1' is not an AWS Region."])

    cli.set(AWS_REGION="eu-central-1")
    result = cli.run("init", answer="oncall@example.com\neu-centrall-1\neu-central-1\n\n\n")
    assert result.code == 0
    assert "'eu-centrall-1' is not an AWS Region; did you mean eu-central-1" in result.err
    assert stage_of(cli)["regions"] == ["eu-central-1"]


def test_a_region_that_may_be_newer_than_botocore_is_written_with_a_warning(cli):
    result = cli.run("init", *OPTIONS, "--region", "eu-west-9,us-east-1")
    assert result.code == 0
    assert "warning: Regions: not known here, so they may not exist: eu-west-9." in result.err
    assert stage_of(cli)["regions"] == ["eu-central-1", "eu-west-9", "us-east-1"]


def test_a_webhook_address_in_place_of_a_secret_is_not_repeated(cli):
    result = cli.run("init", "--slack-secret", "https://hooks.slack.com/services/T0/B0/x", "--yes")

    assert result.code == 2
    assert (
        "this is not the name of a secret.\n  fix: put the webhook's address into Secrets Manager"
        in result.err
    )
    assert "hooks.slack.com" not in result.err


def test_a_question_that_an_option_answers_is_left_out(cli):
    result = cli.run(
        "init",
        "--email",
        "a@example.com",
        "--mode",
        "flip",
        "--change-hours",
        "always",
        answer="us-east-1\nebs\n50",
    )

    assert [line.split(".")[0] for line in result.err.replace(": ", ":\n").splitlines() if ". " in line] == [
        "2",
        "3",
        "5",
    ]
    assert policy_of(cli)["flip"]["spend_cap_usd_per_month"] == 50


def test_options_and_yes_are_enough_without_a_terminal(cli):
    result = cli.run("init", *OPTIONS)

    assert (result.code, result.err) == (0, "")
    assert stage_of(cli)["recipients"] == {"emails": ["oncall@example.com"]}
    assert cli.run("policy", "check", POLICY_FILE).out == "policy.yaml: OK\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is no terminal to ask.\n  fix: add --email ADDRESS or --slack-secret NAME, and --yes"),
        (["--email", "a@example.com"], "there is no terminal to ask.\n  fix: add --yes"),
        (["--yes"], "no one would be alerted.\n  fix: add --email ADDRESS or --slack-secret NAME"),
    ],
)
def test_without_a_terminal_what_is_missing_is_one_line(cli, arguments, message):
    result = cli.run("init", *arguments)

    assert (result.code, result.out, result.err) == (2, "", f"error: {message}\n")
    assert list(cli.directory.glob("*.yaml")) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--email", "nobody"], "'nobody' is not an e-mail address"),
        (
            ["--region", "all"],
            "a stage file names each Region, so all is not possible.\n  fix: give --region NAME",
        ),
        (["--region", "us_east_1"], "'us_east_1' is not a Region"),
        (
            ["--watch", "ebs,floppy"],
            "'floppy' is not a kind of resource.\n  fix: write some of ebs, instance",
        ),
        (["--watch", "efs", "--mode", "flip"], "only volumes are flipped, and --watch lacks ebs"),
        (["--mode", "maybe"], "'maybe' is not a mode.\n  fix: write alert or flip"),
        (["--spend-cap", "-5", "--mode", "flip"], "'-5' is not an amount of dollars"),
        (["--change-hours", "noon", "--mode", "flip"], "'noon' are not valid change hours"),
        (["--spend-cap", "5"], "--spend-cap and --change-hours limit flips.\n  fix: add --mode flip"),
        (["--directory", "nowhere"], "there is no directory nowhere.\n  fix: create it first"),
        (["--profile", "unknown"], "unknown"),
    ],
)
def test_a_wrong_option_is_one_message_and_writes_nothing(cli, arguments, message):
    result = cli.run("init", "--email", "a@example.com", "--yes", *arguments)

    assert result.code == 2
    assert message in result.err
    assert list(cli.directory.glob("**/*.yaml")) == []


def test_a_file_is_not_overwritten_without_force_or_a_yes(cli):
    (cli.directory / POLICY_FILE).write_text("version: 1\n# mine\n")

    refused = cli.run("init", *OPTIONS)
    assert refused.code == 2
    assert refused.err == (
        "error: policy.yaml would be overwritten.\n  fix: add --force, or name another --directory\n"
    )
    declined = cli.run("init", *OPTIONS[:-1], answer="ebs\nalert\nn")
    assert declined.code == 130
    assert "Overwrite policy.yaml? [y/N] nothing was done" in declined.err
    assert (cli.directory / POLICY_FILE).read_text().endswith("# mine\n")
    assert not (cli.directory / STAGE_FILE).exists()

    assert cli.run("init", *OPTIONS[:-1], answer="ebs\nalert\ny").code == 0
    assert "# mine" not in (cli.directory / POLICY_FILE).read_text()
    assert cli.run("init", *OPTIONS, "--force").code == 0


def test_when_the_input_ends_nothing_is_written(cli):
    result = cli.run("init", answer="oncall@example.com")

    assert result.code == 130
    assert list(cli.directory.glob("*.yaml")) == []


def test_it_shows_what_is_created_which_permissions_that_has_and_what_it_costs(cli):
    out = cli.run("init", *OPTIONS, "--mode", "flip", "--spend-cap", "200").out

    sentences = " ".join(out.split())
    # 75 of a stack without recipients, and one for the address; the bill is that of docs/deploying.md
    assert "Creates 76 resources in eu-central-1: 5 Lambda functions, 20 CloudWatch alarms, " in sentences
    assert "read everywhere: cloudwatch:GetMetricData, ec2:DescribeInstanceTypes, " in sentences
    assert "modify only volumes tagged burstwatch:mode=auto: ec2:ModifyVolume" in sentences
    assert "$13.71 a month for 100 calm volumes of up to 100 GiB ($5.65 after AWS's free tier)" in sentences
    assert "at most $200.00 a month together" in sentences
    assert max(map(len, out.splitlines()[:-2])) <= 80


def test_an_alert_only_stack_is_shown_to_modify_nothing(cli):
    out = cli.run("init", *OPTIONS).out

    assert "modify no volume" in out
    assert "ModifyVolume" not in out


def test_a_slack_secret_adds_its_price_and_the_command_that_creates_it(cli):
    result = cli.run("init", "--slack-secret", "team/hook", "--region", "eu-central-1", "--yes")

    assert "$0.40 a month for the secret" in result.out
    assert (
        "aws secretsmanager create-secret --region eu-central-1 --name team/hook --secret-string file://webhook.txt"
        in result.out
    )


def test_the_same_in_json(cli):
    document = cli.run("init", *OPTIONS, "--directory", ".", "--json").document

    assert document["schema"] == "burstwatch.init/v1"
    assert document["files"] == [
        {"path": "policy.yaml", "overwritten": False},
        {"path": "stage.yaml", "overwritten": False},
    ]
    assert (document["flips"], document["actions_on_opted_in_volumes"]) == (False, [])
    assert sum(document["resources_by_type"].values()) == 60
    assert [cost["volumes"] for cost in document["costs_per_region"]] == [100, 1_000]


def test_aws_is_not_called(cli, lab):
    cli.run("init", *OPTIONS)

    assert lab.faults.call_counts() == {}


@pytest.mark.parametrize("directory", [(), ("--directory", "prod line")])
def test_what_to_run_next_means_the_same_files_in_every_directory(cli, monkeypatch, directory):
    (cli.directory / "prod line").mkdir()
    written = cli.directory.joinpath(*directory[1:])
    *_, check, deploy = cli.run("init", *OPTIONS, *directory).out.splitlines()
    (written / POLICY_FILE).write_text("version: 2\n")
    elsewhere = cli.directory / "checkout"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    _, *check_arguments = shlex.split(check)
    assert str(written / POLICY_FILE) in cli.run(*check_arguments).err
    *_, stage = shlex.split(deploy)
    assert stage == f"stage={written / STAGE_FILE}"


def test_another_directory_is_named_in_what_was_written(cli):
    (cli.directory / "prod").mkdir()

    result = cli.run("init", *OPTIONS, "--directory", "prod")

    assert result.out.startswith("What a deployment creates, may do and costs:\n")
    assert "wrote prod/stage.yaml, prod/policy.yaml" in result.out


def test_a_person_is_shown_what_there_is_to_watch_and_what_that_costs(cli, lab):
    add_calm(lab)
    add_lab_instance(lab, "i-0123456789abcdef0", "m5.large")
    add_gp3(lab, iops=6_000, throughput_mib_s=250)
    lab.fleet.file_systems.add(LabFileSystem(size_gib=58))
    lab.fleet.databases.add(LabDatabase(identifier="orders", allocated_gib=400))

    result = cli.run("init", "--region", "us-east-1", answer="oncall@example.com\nebs,efs\nalert")

    assert result.code == 0
    # the other instance has no buckets; those of m5.large are read every 60 and every 35 min
    assert "to watch in us-east-1: 1 volume ($0.03 a month), 2 instances ($0.02 a month)," in result.err
    assert "1 file system ($0.01 a month), 1 database (" in result.err
    assert "GetMetricData" not in lab.faults.call_counts()
    assert stage_of(cli)["resources"] == ["ebs", "efs"]


def test_what_may_not_be_read_stops_no_question(cli, lab):
    add_calm(lab)
    lab.faults.add(Fault(action="DescribeFileSystems", code="AccessDeniedException", status=403))

    result = cli.run("init", "--region", "us-east-1", answer="oncall@example.com\n\nalert")

    assert result.code == 0
    assert "not all could be looked at: elasticfilesystem:DescribeFileSystems failed" in result.err
    assert "to watch in us-east-1: 1 volume ($0.03 a month)" in result.err


def test_each_kind_shows_its_permissions_and_its_price(cli):
    result = cli.run("init", *OPTIONS, "--watch", "ebs,instance,efs")
    sentences = " ".join(result.out.split())

    assert "for instances, also: ec2:DescribeInstanceTypes" in sentences
    assert "for file systems, also: elasticfilesystem:DescribeFileSystems" in sentences
    assert "databases" not in sentences
    # two metrics every five minutes: 2 x 8,640 x $0.00001
    assert "instances: at most $0.17 a month for each calm one" in sentences
    assert policy_of(cli)["resources"] == {"instance": {"watch": True}, "efs": {"watch": True}}
    document = cli.run("init", *OPTIONS, "--watch", "efs", "--force", "--json").document
    assert document["watch"] == ["efs"]
    assert "elasticfilesystem:DescribeFileSystems" in document["actions_anywhere"]
    assert policy_of(cli)["resources"] == {"ebs": {"watch": False}, "efs": {"watch": True}}
    assert cli.run("policy", "check", POLICY_FILE).code == 0

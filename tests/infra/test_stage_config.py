"""The stage file: typed, and every mistake in it named at once, with its line."""

from pathlib import Path

import pytest

from infra.config import ROOT, Recipients, StageConfig, StageError, read_stage
from infra.policy import read_configuration


def faults_of(tmp_path, text):
    path = tmp_path / "stage.yaml"
    path.write_text(text)
    _, faults = read_stage(path)
    return [str(fault).removeprefix(f"{path}:") for fault in faults]


def test_no_file_is_a_watchdog_that_alerts_and_modifies_what_opted_in():
    stage, policy = read_configuration(None)
    assert stage == StageConfig()
    assert stage.policy == ROOT / "policy.yaml"
    assert stage.flips
    assert policy.opt_in_tag == ("burstwatch:mode", "auto")


def test_an_empty_file_is_the_same_as_none(tmp_path):
    path = tmp_path / "stage.yaml"
    path.write_text("# nothing yet\n")
    assert read_stage(path) == (StageConfig(), [])


def test_every_setting_is_read(tmp_path):
    (tmp_path / "strict.yaml").write_text("version: 1\n")
    path = tmp_path / "stage.yaml"
    path.write_text("""
name: night-watch
account: "012345678901"
regions: [us-east-1, eu-central-1]
policy: strict.yaml
schedule: false
flips: false
recipients:
  emails: [a@example.com]
  slack_secret: burstwatch/slack
  chat: true
alarms: {lowest_burst_balance_pct: 15}
dashboard: false
log_retention_days: 7
tracing: true
architecture: x86_64
permissions_boundary: base/limits
tags: {owner: storage team, "cost:centre": "0042"}
""")
    stage, faults = read_stage(path)
    assert faults == []
    assert stage == StageConfig(
        name="night-watch",
        account="012345678901",
        regions=("us-east-1", "eu-central-1"),
        policy=tmp_path / "strict.yaml",
        schedule=False,
        flips=False,
        recipients=Recipients(emails=("a@example.com",), slack_secret="burstwatch/slack", chat=True),
        lowest_burst_balance_pct=15,
        dashboard=False,
        log_retention_days=7,
        tracing=True,
        architecture="x86_64",
        permissions_boundary="base/limits",
        tags={"owner": "storage team", "cost:centre": "0042"},
    )


MISTAKES = """\
name: 9-lives
acount: "1"
regions: [us-east-1, moon]
schedule: sometimes
recipients:
  emails: [nobody]
  pager: x
log_retention_days: 31
"""


def test_all_mistakes_are_reported_at_once_in_the_order_of_their_lines(tmp_path):
    assert faults_of(tmp_path, MISTAKES) == [
        "1: name: '9-lives' is not a name: write a letter, then letters, digits and hyphens, 40 in all"
        " at most",
        "2: acount: unknown key; did you mean account? Known here: account, alarms, architecture, dashboard,"
        " flips, ledger, log_retention_days, name, permissions_boundary, policy, recipients, regions,"
        " resources, schedule, tags, tracing",
        "3: regions[2]: 'moon' is not a region; write one such as eu-central-1",
        "4: schedule: 'sometimes' is neither true nor false",
        "6: recipients.emails[1]: 'nobody' is not an e-mail address; write one such as oncall@example.com",
        "7: recipients.pager: unknown key; known here: chat, emails, slack_secret",
        "8: log_retention_days: '31' is not a retention time that CloudWatch has; write days out of"
        " 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288,"
        " 3653",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("name: deployments", "1: name: 'deployments' is what the list of deployments is called"),
        ("account: 12", "1: account: '12' is not an account; write its twelve digits, in quotes"),
        ("flips: yes", "1: flips: 'yes' is neither true nor false"),
        ("tracing: [true]", "1: tracing: a sequence is not a single value"),
        ("regions: us-east-1", "1: regions: a scalar is not a list; write [one, another]"),
        ("regions: [us-east-1, us-east-1]", "1: regions[2]: 'us-east-1' is given twice"),
        ("regions: [us-esat-1]", "1: regions[1]: 'us-esat-1' is not a region; write one such as us-"),
        ("regions: [us-east-1, cn-north-1]", "1: regions: these are of several partitions"),
        ("regions: [us-east-1, us-gov-west-1]", "1: regions: these are of several partitions"),
        ("regions: [us-east-1, us-west-2]\nledger: T-1", "2: ledger: one table cannot serve 2 regions"),
        (
            "regions: [us-east-1, us-west-2]\nrecipients:\n"
            "  slack_secret: arn:aws:secretsmanager:us-east-1:123456789012:secret:s-abcdef",
            "3: recipients.slack_secret: an ARN is of one region",
        ),
        (
            "regions: [us-west-2]\nrecipients:\n"
            "  slack_secret: arn:aws:secretsmanager:us-east-1:123456789012:secret:s-abcdef",
            "3: recipients.slack_secret: the secret is in us-east-1, the stack in us-west-2",
        ),
        (
            "recipients:\n  slack_secret: arn:aws:secretsmanager:us-east-1:123456789012:secret:slack",
            "2: recipients.slack_secret: an ARN ends in six characters of AWS's",
        ),
        ("ledger: dynamodb:T-1", "1: ledger: 'dynamodb:T-1' is not a table; write the name"),
        ("policy: nowhere.yaml", "1: policy: there is no file"),
        (
            "recipients: oncall@example.com",
            "1: recipients: a scalar is not a section; indent its settings below it",
        ),
        ("alarms: {lowest_burst_balance_pct: 0}", "1: alarms.lowest_burst_balance_pct: '0' is not a balance"),
        ("tags: {aws:x: y}", "1: tags.aws:x: 'aws:x' is not what a tag may hold"),
        ("flips: true\nflips: false", "1: flips: given twice, again at line 2; keep one"),
        ("- a list", "must be a mapping such as 'name: burstwatch', not a sequence"),
        ("name: [unclosed", "not YAML:"),
    ],
)
def test_each_mistake_is_reported_with_its_line_and_what_to_write(tmp_path, text, fault):
    [result] = faults_of(tmp_path, text)
    assert fault in result


def test_the_address_of_a_webhook_is_not_repeated(tmp_path):
    [fault] = faults_of(
        tmp_path, "recipients: {slack_secret: 'https://hooks.slack.com/services/T0/B0/s3cret'}"
    )
    assert "s3cret" not in fault
    assert "put the webhook's address into Secrets Manager" in fault


def test_a_file_that_is_not_there_is_reported(tmp_path):
    _, [fault] = read_stage(tmp_path / "none.yaml")
    assert (
        str(fault)
        == f"{tmp_path}/none.yaml: cannot be read: No such file or directory; give the path of the stage file"
    )


def test_a_file_that_is_not_text_is_reported(tmp_path):
    path = tmp_path / "stage.yaml"
    path.write_bytes(b"name: \xff")
    _, [fault] = read_stage(path)
    assert "not UTF-8 at byte 6" in str(fault)


def test_faults_of_stage_and_policy_come_in_one_message(tmp_path):
    (tmp_path / "policy.yaml").write_text("version: 1\nmode: {default: auto}\nflip: {target: io9}\n")
    path = tmp_path / "stage.yaml"
    path.write_text("policy: policy.yaml\nflips: maybe\n")
    with pytest.raises(StageError) as exc_info:
        read_configuration(path)
    lines = str(exc_info.value).splitlines()
    assert lines[0] == "3 faults in the configuration"
    assert lines[1].endswith("stage.yaml:2: flips: 'maybe' is neither true nor false")
    assert "policy.yaml:2: mode.default: 'auto' would act on untagged volumes" in lines[2]
    assert "policy.yaml:3: flip.target: 'io9' is not a target" in lines[3]


def test_a_policy_that_cloudformation_would_read_as_a_reference_is_refused(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\n# see {{resolve:ssm:/x}}\n")
    path = tmp_path / "stage.yaml"
    path.write_text("policy: policy.yaml\n")
    with pytest.raises(StageError, match=r"policy\.yaml:2: '\{\{' means a reference"):
        read_configuration(path)


def test_the_policy_path_is_relative_to_the_stage_file(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text("version: 1\nmode: {opt_in_tag: a=b}\n")
    path = tmp_path / "stage.yaml"
    path.write_text("policy: mine.yaml\n")
    monkeypatch.chdir(Path("/"))
    _, policy = read_configuration(path)
    assert policy.opt_in_tag == ("a", "b")


def test_the_example_in_the_docs_is_a_good_stage(tmp_path):
    text = (ROOT / "docs" / "deploying.md").read_text()
    example = text.partition("```yaml\n")[2].partition("```")[0]
    path = tmp_path / "stage.yaml"
    path.write_text(example)
    assert example.startswith("# stage.yaml")
    assert read_stage(path)[1] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 4_000, "nested too deeply to be read"),
        (f"policy: {'x' * 300}", "there is no file"),
        ('"\\e[2J": 1', "1: ?[2J: unknown key"),
        (f"name: {'x' * 7_000}", "hyphens, 40 in all at most"),
    ],
)
def test_a_malicious_file_is_refused_with_a_short_message(tmp_path, text, message):
    (fault,) = faults_of(tmp_path, text)
    assert message in fault
    assert len(fault) < 1_000
    assert fault.isprintable()


def test_of_very_many_faults_the_first_are_reported_and_the_rest_is_counted(tmp_path):
    faults = faults_of(tmp_path, "".join(f"k{n}: 1\n" for n in range(900)))
    assert len(faults) == 51
    assert faults[-1].endswith("850 more faults; fix these first")


def test_an_opt_in_tag_with_an_iam_variable_is_never_deployed(tmp_path):
    """In a condition ``${ec2:ResourceTag/a}`` equals whatever tag the volume has."""
    (tmp_path / "policy.yaml").write_text("version: 1\nmode: {opt_in_tag: 'a=${ec2:ResourceTag/a}'}\n")
    (tmp_path / "stage.yaml").write_text("policy: policy.yaml\n")
    with pytest.raises(StageError, match="has a \\$, with which an IAM variable begins"):
        read_configuration(tmp_path / "stage.yaml")


@pytest.mark.parametrize(
    ("key", "default"), [("regions", "the one that AWS tools use here"), ("resources", "ebs alone")]
)
def test_an_empty_list_of_regions_or_kinds_is_a_fault(tmp_path, key, default):
    path = tmp_path / "stage.yaml"
    path.write_text(f"{key}: []\n")

    _, [fault] = read_stage(path)

    assert (fault.path, fault.location) == (key, f"{path}:1")
    assert fault.message == f"it names none; write one at least, or leave it out for {default}"

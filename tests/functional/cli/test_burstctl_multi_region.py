"""Several regions at once: each reported by itself, none hiding another, one exit code for all."""

import csv
from contextlib import contextmanager
from io import StringIO

import boto3
import click
import pytest

from burstctl.cli.exit_codes import ExitCode, worst_exit_code
from burstctl.cli.options import Command
from burstctl.context.multi_region import RegionReads
from burstctl.context.regions import misspelled_region_problem
from burstlab.fake_aws.faults import Fault
from burstlab.fake_aws.server import Endpoint
from burstwatch.wiring.settings import SettingsError
from support.aws.fake_stack import deploy_stack
from support.cli.cli_session import START, add_calm, add_critical, add_warning, every_command

BOTH_REGIONS = ("--region", "us-east-1", "--region", "eu-west-1")
REGIONS = b"""<DescribeRegionsResponse><regionInfo>
<item><regionName>us-east-1</regionName><optInStatus>opt-in-not-required</optInStatus></item>
<item><regionName>eu-west-1</regionName><optInStatus>opt-in-not-required</optInStatus></item>
</regionInfo></DescribeRegionsResponse>"""


@contextmanager
def stub_describe_regions(account, monkeypatch):
    """AWS reports that these two are enabled; moto would report all there are."""
    requests = []
    real = Endpoint.__call__

    def answer(self, environ, start_response):
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length)
        if b"Action=DescribeRegions" in body:
            requests.append(body)
            start_response("200 OK", [("Content-Type", "text/xml"), ("Content-Length", str(len(REGIONS)))])
            return [REGIONS]
        environ["wsgi.input"] = _ReplayedBody(body)
        return real(self, environ, start_response)

    with monkeypatch.context() as patch:
        patch.setattr(Endpoint, "__call__", answer)
        yield requests


class _SecondRegionClients:
    """The second region's lab, for who makes clients of it."""

    def __init__(self, account):
        self._account = account
        self.tables = account.second.tables

    def client(self, service):
        return boto3.client(
            service,
            endpoint_url=self._account.url,
            region_name="eu-west-1",
            aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
            aws_secret_access_key="secret",
        )


class _ReplayedBody:
    """A body that was read, to be read once more."""

    def __init__(self, body):
        self._body = body

    def read(self, *_):
        return self._body


def break_region(lab, code="UnauthorizedOperation"):
    lab.faults.add(Fault(action="DescribeVolumes", code=code, message="no", status=403))


def test_the_volumes_of_all_regions_are_in_one_table_the_most_urgent_first(cli, account):
    warning = add_warning(account)
    critical = add_critical(account.second)

    result = cli.run("assess", *BOTH_REGIONS)

    header, first, second = (line.split()[:3] for line in result.out.splitlines())
    assert header == ["LEVEL", "REGION", "VOLUME"]
    assert first == ["critical", "eu-west-1", critical]
    assert second == ["warning", "us-east-1", warning]
    assert (
        "2 volumes and 2 instances in 2 Regions at 2026-11-20T18:00:00Z: 1 critical, 1 warning" in result.err
    )
    assert f"next: burstctl explain {critical} --region eu-west-1" in result.err
    assert result.code == 3


def test_the_ledger_of_each_region_is_named_with_verbose(cli, account):
    text = cli.run("assess", "-v", *BOTH_REGIONS).err
    assert "ledger-us-east-1.sqlite" in text
    assert "ledger-eu-west-1.sqlite" in text
    assert text.count("policy: ") == 1


def test_regions_without_volumes_are_one_line(cli, account):
    add_calm(account.second)

    result = cli.run("assess", *BOTH_REGIONS)

    assert result.out.splitlines()[0].split()[:2] == ["LEVEL", "VOLUME"]
    assert "us-east-1" not in result.out
    assert "nothing that has burst credits in us-east-1" in result.err
    assert result.code == 0


def test_an_empty_account_is_one_line_and_what_to_run_next(cli, account):
    result = cli.run("assess", *BOTH_REGIONS)

    assert (result.code, result.out) == (0, "")
    assert result.err.splitlines() == [
        "nothing that has burst credits in any of 2 Regions (account 123456789012)",
        "next: burstctl assess --region all --profile NAME",
    ]


def test_in_json_several_are_one_object_and_one_is_unchanged(cli, account):
    add_critical(account)
    add_calm(account.second)

    document = cli.run("assess", "--json", *BOTH_REGIONS).document
    item = cli.run("assess", "--json", "--region", "eu-west-1").document

    assert document["schema"] == "burstwatch.reports/v1"
    assert [report["schema"] for report in document["reports"]] == ["burstwatch.report/v1"] * 2
    assert [report["region"] for report in document["reports"]] == ["us-east-1", "eu-west-1"]
    assert document["reports"][1]["volumes"][0]["level"] == "ok"
    assert document["failures"] == []
    assert item["schema"] == "burstwatch.report/v1"
    assert item["region"] == "eu-west-1"


def test_the_same_region_twice_is_one(cli, account):
    assert cli.run("assess", "--json", "--region", "eu-west-1", "--region", "eu-west-1").document[
        "schema"
    ] == ("burstwatch.report/v1")


def test_a_region_that_fails_hides_no_other(cli, account):
    break_region(account)
    add_critical(account.second)

    result = cli.run("assess", *BOTH_REGIONS)

    assert "critical" in result.out
    assert result.error_lines == ["error: us-east-1: this identity may not call ec2:DescribeVolumes."]
    assert result.code == 1, "a failure stands before attention"


def test_a_region_that_does_not_exist_beside_one_that_was_read_is_a_partial_failure(cli, account):
    add_calm(account)

    result = cli.run("assess", "--region", "us-east-1,us-esat-1")

    assert "calm" in result.out
    assert len(result.error_lines) == 1
    assert "us-esat-1" in result.error_lines[0]
    assert result.code == 1


def test_a_failure_of_all_regions_is_reported_once(cli, account):
    break_region(account)
    break_region(account.second)

    result = cli.run("assess", *BOTH_REGIONS)

    assert result.code == 1
    assert result.error_lines == [
        "error: us-east-1, eu-west-1: this identity may not call ec2:DescribeVolumes."
    ]


def test_each_misspelled_region_is_named_with_its_suggestion(capsys):
    errors = {
        region: SettingsError(misspelled_region_problem(region)) for region in ("us-esat-1", "eu-wst-1")
    }
    RegionReads(session=None, notes={}, errors=errors).print_problems({})
    first, first_fix, second, second_fix = capsys.readouterr().err.splitlines()
    assert first == "error: us-esat-1: 'us-esat-1' is not an AWS Region."
    assert "us-east-1" in first_fix
    assert second == "error: eu-wst-1: 'eu-wst-1' is not an AWS Region."
    assert "eu-west-1" in second_fix


def test_a_region_that_cannot_be_evaluated_is_named_with_the_reason(cli, account):
    add_critical(account.second)
    broken = cli.directory / ".local" / "state" / "burstwatch"
    broken.mkdir(parents=True)
    (broken / "ledger-us-east-1.sqlite").write_text("not a ledger at all, though a file of some length")

    result = cli.run("assess", "--json", *BOTH_REGIONS)

    assert result.code == 1
    assert [report["region"] for report in result.document["reports"]] == ["eu-west-1"]
    [failure] = result.document["failures"]
    assert failure.startswith("us-east-1: ")
    assert "ledger-us-east-1.sqlite" in failure
    cause, _, fix = failure.partition("; ")
    assert result.error_lines == [f"error: {cause}."]
    assert f"fix: {fix}" in result.err


def test_a_policy_that_is_wrong_in_each_region_is_one_usage_error(cli, account):
    (cli.directory / "policy.yaml").write_text("version: 1\nlevels:\n  warning_within: soon\n")

    result = cli.run("assess", *BOTH_REGIONS)

    assert result.code == 2
    assert result.error_lines == ["error: us-east-1, eu-west-1: the policy is rejected:"]


def test_all_are_those_that_are_enabled(cli, account, monkeypatch):
    add_critical(account)
    add_calm(account.second)
    with stub_describe_regions(account, monkeypatch) as requested:
        result = cli.run("assess", "--region", "all", "--json")

    assert len(requested) == 1
    assert [report["region"] for report in result.document["reports"]] == ["eu-west-1", "us-east-1"]


def test_all_need_no_region_to_be_configured(cli, account, monkeypatch):
    cli.unset("AWS_DEFAULT_REGION", "AWS_REGION")
    with stub_describe_regions(account, monkeypatch) as requested:
        result = cli.run("--region", "all", "assess")

    assert len(requested) == 1
    assert result.code == 0


def test_a_failed_region_listing_is_one_message(cli, account):
    account.faults.add(
        Fault(action="DescribeRegions", code="UnauthorizedOperation", message="no", status=403)
    )

    result = cli.run("assess", "--region", "all")

    assert result.code == 1
    assert result.error_lines == ["error: this identity may not call ec2:DescribeRegions."]


def test_advice_on_several_regions_is_one_document_and_one_sheet(cli, account):
    add_calm(account, "here", minutes=300)
    add_calm(account.second, "there", minutes=300)

    document = cli.run("advise", "--json", *BOTH_REGIONS).document
    sheet = list(csv.DictReader(StringIO(cli.run("advise", "--csv", *BOTH_REGIONS).out)))
    output = cli.run("advise", *BOTH_REGIONS).out

    assert [report["schema"] for report in document["reports"]] == ["burstwatch.advice/v1"] * 2
    assert [(row["region"], row["name"]) for row in sheet] == [("us-east-1", "here"), ("eu-west-1", "there")]
    table = output.split("\n\n")[0]
    assert "REGION" in table.splitlines()[0]
    assert all(word in table for word in ("us-east-1", "here", "eu-west-1", "there"))
    assert "2 volumes in 2 Regions: " in output


def test_definitions_of_several_regions_are_below_the_name_of_theirs(cli, account):
    add_calm(account, "here", minutes=14 * 1440)
    add_calm(account.second, "there", minutes=14 * 1440)

    result = cli.run("advise", "--iac", "terraform", *BOTH_REGIONS)

    assert result.code == 0, result.err
    positions = [result.out.index(text) for text in ("# us-east-1", "(here)", "# eu-west-1", "(there)")]
    assert positions == sorted(positions)


@pytest.mark.parametrize("command", ["assess", "advise", "hold", "release"])
def test_a_volume_is_in_one_region(cli, account, command):
    needed = ["--for", "1h", "--reason", "x"] if command == "hold" else []
    result = cli.run(command, "vol-0123456789abcdef0", *needed, *BOTH_REGIONS)

    assert result.code == 2
    assert "VOLUMEs are in one region" in result.err


HOLD = ("hold", "--all", "--for", "1h", "--reason", "INC-42")


def test_a_hold_of_several_regions_reaches_each_and_release_ends_each(cli, account):
    first_stack, second_stack = deploy_stack(account), deploy_stack(_SecondRegionClients(account), "other")

    result = cli.run(*HOLD, *BOTH_REGIONS)

    text = " ".join(result.out.split())
    assert result.code == 0
    assert "stack burstwatch in us-east-1" in text
    assert "stack other in eu-west-1" in text
    assert [len(item.holds(START.timestamp())) for item in (first_stack, second_stack)] == [1, 1]
    document = cli.run("release", "--all", "--json", *BOTH_REGIONS).document
    assert [item["stack"] for item in document["reports"]] == ["burstwatch", "other"]
    assert [len(item.holds(START.timestamp())) for item in (first_stack, second_stack)] == [0, 0]


@pytest.mark.parametrize("broken", ["here", "there"])
def test_a_region_that_cannot_be_held_hides_no_other(cli, account, broken):
    stacks = {"here": deploy_stack(account), "there": deploy_stack(_SecondRegionClients(account))}
    lab = account if broken == "here" else account.second
    lab.faults.add(Fault(action="GetParametersByPath", code="AccessDeniedException", status=400))

    result = cli.run(*HOLD, "--json", *BOTH_REGIONS)

    assert result.code == 1
    region = "us-east-1" if broken == "here" else "eu-west-1"
    [failure] = result.document["failures"]
    assert failure.startswith(f"{region}: nothing was held: cannot find out whether a watchdog is deployed")
    held = {name for name, item in stacks.items() if item.holds(START.timestamp())}
    assert held == {"here", "there"} - {broken}


def test_the_last_line_counts_the_regions_that_were_held_and_those_that_failed(cli, account):
    deploy_stack(account)
    held = cli.run(*HOLD, *BOTH_REGIONS)
    assert held.code == 1  # the second region has neither a stack nor a ledger, and was named
    assert held.out.splitlines()[-1] == (
        "held in 1 region (us-east-1), nothing to do in 0, FAILED in 1 region (eu-west-1)"
    )

    released = cli.run("release", "--all", *BOTH_REGIONS)
    assert released.out.splitlines()[-1] == (
        "released in 1 region (us-east-1), nothing to do in 1 (no hold on everything)"
    )
    assert "eu-west-1" not in released.out


def test_all_regions_are_those_with_a_stack_or_a_ledger(cli, account, monkeypatch):
    stack = deploy_stack(_SecondRegionClients(account))

    with stub_describe_regions(account, monkeypatch):
        result = cli.run(*HOLD, "--region", "all")

    assert result.code == 0
    assert "us-east-1" not in result.out, "a Region without anything to hold is only counted"
    assert result.out.splitlines()[-1] == (
        "held in 1 region (eu-west-1), nothing to do in 1 (no stack and no ledger)"
    )
    assert result.err.splitlines()[-1] == "next: burstctl release --all --region all"
    assert len(stack.holds(START.timestamp())) == 1
    assert not cli.ledger_path.exists()

    with stub_describe_regions(account, monkeypatch):
        released = cli.run("release", "--all", "--region", "all")

    assert "us-east-1" not in released.out
    assert released.err.splitlines()[-1] == "next: burstctl assess --region all"


def test_when_regions_cannot_be_listed_they_must_be_named(cli, account):
    account.faults.add(Fault(action="DescribeRegions", code="UnauthorizedOperation", status=403))

    result = cli.run(*HOLD, "--region", "all")

    assert result.code == 1
    assert result.error_lines == ["error: nothing was done: this identity may not call ec2:DescribeRegions."]
    assert "or name the Regions: --region NAME for each" in result.err


def test_several_regions_may_have_commas_between_them(cli, account):
    add_calm(account, "web-1")
    add_calm(account.second, "web-2")

    with_commas = cli.run("assess", "--json", "--region", "us-east-1, eu-west-1").document
    repeated = cli.run("assess", "--json", *BOTH_REGIONS).document

    assert [report["region"] for report in with_commas["reports"]] == ["us-east-1", "eu-west-1"]
    assert [report["volumes"] for report in with_commas["reports"]] == [
        report["volumes"] for report in repeated["reports"]
    ]


def test_a_command_for_one_region_refuses_several_with_commas(cli, account):
    result = cli.run("watch", "--once", "--region", "us-east-1,eu-west-1")

    assert result.code == 2
    assert "watch works in one region.\n  fix: give --region once" in result.err


ONE_REGION = [
    pytest.param(path, id=" ".join(path))
    for path, command in every_command()
    if isinstance(command, Command)
    and not command.takes_regions
    and any(parameter.name == "regions" for parameter in command.params)
]


def test_the_commands_that_take_several_are_those_that_the_refusal_names():
    several = [path[0] for path, item in every_command() if isinstance(item, Command) and item.takes_regions]
    assert several == ["assess", "advise", "hold", "release", "init"]


@pytest.mark.parametrize("regions", [BOTH_REGIONS, ("--region", "all")])
@pytest.mark.parametrize("path", ONE_REGION)
def test_every_other_command_refuses_several_before_it_does_anything(cli, account, path, regions):
    result = cli.run(*regions, *path, *_arguments_of(path))

    assert result.code == 2
    refusal = f"{path[-1]} works in one region. fix: give --region once, with its name"
    assert refusal in " ".join(result.err.split())
    assert account.faults.call_counts() == {}


def _arguments_of(path):
    """What a command cannot do without, so that its regions are what is refused."""
    arguments = []
    for parameter in dict(every_command())[path].params:
        if not parameter.required:
            continue
        value = {
            "lasts": "1h",
            "reason": "why",
            "name": "release",
            "instance": "i-0123456789abcdef0",
            "target_types": "m5.xlarge",
        }.get(parameter.name, "vol-0123456789abcdef0")
        if isinstance(parameter, click.Option):
            arguments += [parameter.opts[0], value]
        else:
            arguments.append(value)
    return arguments


@pytest.mark.parametrize(
    ("exits", "first"),
    [
        ([ExitCode.OK, ExitCode.ATTENTION], ExitCode.ATTENTION),
        ([ExitCode.ATTENTION, ExitCode.REFUSED], ExitCode.REFUSED),
        ([ExitCode.REFUSED, ExitCode.FAILED, ExitCode.ATTENTION], ExitCode.FAILED),
        ([ExitCode.FAILED, ExitCode.USAGE], ExitCode.USAGE),
        ([], ExitCode.OK),
    ],
)
def test_of_all_exit_codes_the_first_that_applies_counts(exits, first):
    assert worst_exit_code(exits) is first

"""A word that is wrong gets a suggestion, and a command the options that apply to it."""

import re
from datetime import timedelta

import pytest

from burstctl.cli.options import Command
from burstlab.model.database import LabDatabase
from support.cli.cli_session import (
    INSTANCE,
    START,
    add_calm,
    add_critical,
    add_lab_instance,
    add_lab_volume,
    every_command,
    run_on_terminal,
    start_lab,
)

NARROW = 60


@pytest.mark.parametrize(
    ("arguments", "cause", "fix"),
    [
        (["asess"], "unknown command 'asess'.", "did you mean assess? Else see burstctl --help"),
        (
            ["policy", "chek"],
            "unknown command 'chek'.",
            "did you mean check? Else see burstctl policy --help",
        ),
        (["xyzzy"], "unknown command 'xyzzy'.", "see burstctl --help"),
        (
            ["assess", "--regoin", "x"],
            "unknown option '--regoin'.",
            "did you mean --region? Else see burstctl assess --help",
        ),
    ],
)
def test_a_misspelt_word_gets_a_suggestion(cli, arguments, cause, fix):
    result = cli.run(*arguments)

    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines() == [f"error: {cause}", f"  fix: {fix}"]


@pytest.mark.parametrize(
    ("arguments", "cause", "fix"),
    [
        (["explain"], "Missing argument 'RESOURCE'.", "add RESOURCE, such as: burstctl explain ci-7"),
        (["hold", "--all", "--for", "6h"], "Missing option '--reason'.", "add --reason TEXT"),
        (["assess", "--region"], "Option '--region' requires an argument.", "write a value after --region"),
        (
            ["explain", "vol-1"],
            "Invalid value for 'RESOURCE': 'vol-1' is not a valid volume ID.",
            "write vol- and 17 (or 8) digits from 0-9a-f, such as vol-0123456789abcdef0",
        ),
        (
            ["hold", "--for", "6h", "--reason", "x"],
            "no resources are named.",
            "name RESOURCEs, or give --all",
        ),
        (
            ["flip", "ci-7", "--where", "tag:a=b"],
            "VOLUME and --where are mutually exclusive.",
            "select volumes either by VOLUME or by --where tag:KEY=VALUE",
        ),
        (
            ["flip", "ci-7", "--to", "gp9"],
            "Invalid value for '--to': 'gp9' is not a valid target.",
            "give gp3,",
        ),
        (
            ["flip", "ci-7", "--iops", "0"],
            "Invalid value for '--iops': 0 is not in the range",
            "give a whole number",
        ),
        (
            ["flip", "ci-7", "--iops", "x"],
            "Invalid value for '--iops': 'x' is not a valid",
            "give a whole number",
        ),
        (
            ["plot", "ci-7", "--last", "9m"],
            "Invalid value for '--last': 9m is out of range.",
            "give from 15m to",
        ),
        (
            ["plot", "ci-7", "--last", "soon"],
            "Invalid value for '--last': 'soon' is not a valid duration.",
            "write a whole number and s, m, h or d, such as 15m",
        ),
        (["watch", "--once", "--passes", "2"], "--once is a single pass.", "leave out --passes"),
        (["doctor", "now"], "Got unexpected extra argument (now).", "see burstctl doctor --help"),
        (["assess", "--ledger", "x"], "'x' is not a valid ledger.", "write sqlite:PATH or dynamodb:TABLE"),
        (
            ["runbook", "FlipStuk"],
            "there is no runbook page 'FlipStuk'.",
            "did you mean FlipStuck or FlipsStuck?",
        ),
        (["aws-check", "--only", "x"], "the fact x does not exist.", "--list shows all"),
    ],
)
def test_a_usage_error_has_one_line_for_its_cause_and_one_for_the_fix(cli, lab, arguments, cause, fix):
    result = cli.run(*arguments)

    assert (result.code, result.out) == (2, "")
    [first, second] = result.err.splitlines()
    assert first.startswith(f"error: {cause}")
    assert second.startswith(f"  fix: {fix}")


def test_help_and_the_version_are_found_the_usual_ways(cli):
    assert cli.run("help", "flip").out == cli.run("flip", "--help").out
    assert cli.run("-V").out == cli.run("--version").out


def test_a_help_text_lists_no_option_that_has_no_effect(cli):
    listed = {
        path: {
            name
            for name in ("--exit-zero", "--ledger", "--policy")
            if re.search(rf"^  (-\w, )?{name}\b", cli.run(*path, "--help").out, re.MULTILINE)
        }
        for path, command in every_command()
        if isinstance(command, Command)
    }

    assert "--exit-zero" in listed["assess",]
    assert not {"--exit-zero"} & listed["explain",]
    assert not {"--exit-zero", "--policy"} & listed["history",]
    assert not {"--exit-zero", "--ledger"} & listed["policy", "check"]


def test_an_option_that_a_help_text_leaves_out_is_still_accepted(cli, lab):
    volume_id = add_calm(lab)
    assert cli.run("explain", volume_id, "--exit-zero").code == 0


def test_a_region_is_the_same_in_capitals_and_so_is_its_ledger(cli, lab):
    add_calm(lab)

    capitals, usual = cli.run("assess", "-v", "--region", "US-EAST-1"), cli.run("assess", "-v")

    assert capitals.code == 0
    assert capitals.err.splitlines()[1] == usual.err.splitlines()[1]


@pytest.mark.parametrize("command", ["advise", "backtest"])
def test_last_replaces_days_which_is_still_accepted(cli, lab, command):
    add_calm(lab, minutes=2 * 24 * 60)

    new, old = cli.run(command, "--last", "2d", "--json"), cli.run(command, "--days", "2", "--json")

    assert (new.code, new.document) == (old.code, old.document)
    help_text = cli.run(command, "--help").out
    assert "--last SPAN" in help_text
    assert "--days" not in help_text


@pytest.mark.parametrize(
    "arguments",
    [
        ["assess"],
        ["advise"],
        ["advise", "ci-7"],
        ["explain", "ci-7"],
        ["flip", "ci-7", "--dry-run"],
        ["backtest", "--last", "1d"],
        ["simulate", INSTANCE],
        ["policy", "check"],
    ],
    ids=" ".join,
)
def test_output_fits_a_terminal_of_60_columns(cli, arguments):
    with start_lab(cli) as lab:
        add_lab_instance(lab, instance_type="m5.large", instance_id=INSTANCE)
        add_lab_volume(
            lab, load="steady:900", size_gib=100, name="ci-7", instance_id=INSTANCE, minutes=2 * 24 * 60
        )
        add_calm(lab, "web-1")

        sent = run_on_terminal(cli, *arguments, width=NARROW)

    lines = re.sub(r"\x1b\[[0-9;]*m", "", sent).splitlines()
    assert lines
    assert [line for line in lines if len(line) > NARROW] == []


@pytest.mark.parametrize(
    ("arguments", "following"),
    [
        (["history", "web-1"], "burstctl explain VOLUME"),
        (["explain", "db:orders"], "burstctl which db:orders"),
        (["advise", "web-1", "--iac", "cdk"], "burstctl flip VOLUME"),
        (["alert", "--test"], "burstctl doctor"),
        (["doctor"], "burstctl assess"),
        (["policy", "check"], "burstctl policy show"),
        (["experiment", "credit-reset", "web-1", "--dry-run", "--away", "1h"], "burstctl explain VOLUME"),
        (["aws-check", "--list"], "burstctl aws-check --dry-run"),
        (
            ["aws-check", "--dry-run", "--only", "zone-filter", "--ceiling", "0.5"],
            "burstctl aws-check --only zone-filter --ceiling 0.5",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_output_ends_with_the_next_command(cli, lab, arguments, following):
    lab.fleet.databases.add(LabDatabase(identifier="orders", starts_at=START - timedelta(days=2)))
    volume_id = add_calm(lab, "web-1", minutes=2 * 24 * 60)

    result = cli.run(*arguments)

    [line] = [line for line in result.err.splitlines() if line.startswith("next: ")]
    assert line.startswith(f"next: {following.replace('VOLUME', volume_id)}")


@pytest.mark.parametrize(
    ("arguments", "param", "fix"),
    [
        (["assess", "--region", ""], "--region", "write NAME after --region, or leave it out"),
        (["assess", "--region", " , "], "--region", "write NAME after --region, or leave it out"),
        (["--profile", "", "assess"], "--profile", "write NAME after --profile, or leave it out"),
        (["assess", "--ledger", " "], "--ledger", "write KIND:NAME after --ledger, or leave it out"),
        (["assess", "--policy", ""], "--policy", "write FILE after --policy, or leave it out"),
        (["plot", "ci-7", "--to", ""], "--to", "write FILE after --to, or leave it out"),
        (
            ["watch", "--once", "--topic-arn", ""],
            "--topic-arn",
            "write ARN after --topic-arn, or leave it out",
        ),
        (["policy", "check", ""], "[FILE]", "write FILE, or leave it out"),
        (["window", "start", ""], "NAME", "write NAME"),
    ],
)
def test_an_empty_value_is_refused_with_the_name_of_its_option(cli, lab, arguments, param, fix):
    result = cli.run(*arguments)

    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines() == [f"error: Invalid value for '{param}': it is empty.", f"  fix: {fix}"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["assess"],
        ["explain"],
        ["history"],
        ["flip", "--dry-run"],
        ["hold", "--for", "1h", "--reason", "x"],
        ["release"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_unknown_name_is_a_usage_error_and_an_unknown_id_a_failure(cli, lab, arguments):
    add_calm(lab)
    cli.run("watch", "--once")  # a hold needs a ledger

    by_name, by_id = (cli.run(*arguments, name) for name in ("nope", "vol-0123456789abcdef9"))

    assert by_name.code == 2
    assert by_id.code == (0 if arguments == ["release"] else 1)


def test_the_help_of_hold_and_history_has_the_code_of_an_unknown_name_and_id(cli):
    for command in ("hold", "history"):
        text = " ".join(cli.run(command, "--help").out.split())
        assert "Exits 1 if there is no resource with" in text
        assert "2 if no resource has" in text


def test_explain_has_weight_and_colour_on_a_terminal(cli):
    with start_lab(cli) as lab:
        add_critical(lab, "ci-7")

        sent = run_on_terminal(cli, "explain", "ci-7")
        plain = run_on_terminal(cli, "explain", "ci-7", NO_COLOR="1")

    assert "\x1b[1;31mCRITICAL" in sent
    assert "\x1b[1mBalance\x1b[0m" in sent
    assert "\x1b[34m" not in sent, "ANSI blue is unreadable on a dark terminal"
    assert "\x1b" not in plain

"""A word that is wrong gets a suggestion, and a command the options that apply to it."""

import re

import pytest

from burstctl.cli.options import Command
from support.cli_session import add_calm, add_critical, every_command, run_on_terminal, start_lab

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
            "there is no option '--regoin'.",
            "did you mean --region? Else see burstctl assess --help",
        ),
    ],
)
def test_a_misspelt_word_gets_a_suggestion(cli, arguments, cause, fix):
    result = cli.run(*arguments)

    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines() == [f"error: {cause}", f"  fix: {fix}"]


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


@pytest.mark.parametrize("command", ["assess", "advise", "explain", "flip"])
def test_output_fits_a_terminal_of_60_columns(cli, command):
    arguments = {"explain": ["ci-7"], "flip": ["ci-7", "--dry-run"]}.get(command, [])
    with start_lab(cli) as lab:
        add_critical(lab, "ci-7")
        add_calm(lab, "web-1")

        sent = run_on_terminal(cli, command, *arguments, width=NARROW)

    lines = re.sub(r"\x1b\[[0-9;]*m", "", sent).splitlines()
    assert lines
    assert [line for line in lines if len(line) > NARROW] == []


def test_explain_has_weight_and_colour_on_a_terminal(cli):
    with start_lab(cli) as lab:
        add_critical(lab, "ci-7")

        sent = run_on_terminal(cli, "explain", "ci-7")
        plain = run_on_terminal(cli, "explain", "ci-7", NO_COLOR="1")

    assert "\x1b[1;31mCRITICAL" in sent
    assert "\x1b[1mBalance\x1b[0m" in sent
    assert "\x1b[34m" not in sent, "ANSI blue is unreadable on a dark terminal"
    assert "\x1b" not in plain

"""Every command has help, an example, and a page that says when to use it."""

from pathlib import Path

import click
import pytest

from burstctl.main import COMMANDS
from support.cli.cli_session import every_command
from support.paths import ROOT

ALL_COMMANDS = [
    pytest.param(path, command, id=" ".join(path) or "burstctl") for path, command in every_command()
]


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize(("path", "command"), ALL_COMMANDS)
def test_it_has_help_with_an_example_and_a_page(cli, path, command, flag):
    result = cli.run(*path, flag)

    assert result.code == 0
    assert len(command.help or "") > 30
    _, _, end = result.out.partition("\nExamples:\n")
    assert f"  {' '.join(('burstctl', *path))}" in end
    assert "\n\nRunbook: burstctl runbook" in end
    assert max(map(len, result.out.splitlines())) <= 80


@pytest.mark.parametrize(("path", "command"), ALL_COMMANDS)
def test_its_page_exists(cli, path, command):
    page_arguments = cli.run(*path, "-h").out.rpartition("Runbook: burstctl ")[2].split()

    assert cli.run(*page_arguments).code == 0


@pytest.mark.parametrize(("path", "command"), ALL_COMMANDS)
def test_some_page_mentions_it(path, command):
    pages = [*Path(ROOT / "runbooks").glob("*.md"), ROOT / "docs" / "burstctl.md"]

    assert any(" ".join(("burstctl", *path)) in page.read_text() for page in pages)


@pytest.mark.parametrize(("path", "command"), ALL_COMMANDS)
def test_each_option_describes_what_it_does(path, command):
    assert [
        option.name for option in command.params if isinstance(option, click.Option) and not option.help
    ] == []


def test_without_arguments_it_helps(cli):
    result = cli.run()

    assert result.code == 0
    assert all(f"\n  {name} " in result.out for name in COMMANDS)
    assert "3 something needs attention" in " ".join(result.out.split())


def test_policy_without_a_command_helps(cli):
    result = cli.run("policy")

    assert result.code == 0
    assert "burstctl policy check policy.yaml" in result.out


def test_the_version_is_reported(cli):
    assert cli.run("--version").out.startswith("burstctl, version ")


@pytest.mark.parametrize(
    "arguments", [["asses"], ["assess", "--frequently"], ["explain"], ["policy", "burn"], ["--json"]]
)
def test_what_is_not_known_is_a_usage_error(cli, arguments):
    result = cli.run(*arguments)

    assert result.code == (0 if arguments == ["--json"] else 2)
    assert "Traceback" not in result.err


def test_the_help_of_release_is_clear_about_regions_and_refusals(cli):
    text = " ".join(cli.run("release", "--help").out.split())

    assert "A release is for one region: give --region several times, or --region all, for more." in text
    assert "nothing is released in two cases" in text
    assert "works in one Region" not in text

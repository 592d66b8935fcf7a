"""Every command has help, an example, and a page that tells when to use it."""

from pathlib import Path

import click
import pytest
from operators_desk import ROOT, OperatorsDesk

from burstctl.main import COMMANDS, burstctl


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    return OperatorsDesk(tmp_path, monkeypatch, capsys)


def every_command(group=burstctl, path=()):
    """Each command and group of commands, with the words that call it."""
    context = click.Context(group)
    yield path, group
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name), command


ALL = [pytest.param(path, command, id=" ".join(path) or "burstctl") for path, command in every_command()]


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize(("path", "command"), ALL)
def test_it_has_help_with_an_example_and_a_page(desk, path, command, flag):
    ran = desk.run(*path, flag)

    assert ran.code == 0
    assert len(command.help or "") > 30
    _, _, end = ran.out.partition("\nExamples:\n")
    assert f"  {' '.join(('burstctl', *path))}" in end
    page = end.rpartition("Runbook: ")[2].strip()
    assert page.startswith("runbooks/")
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize(("path", "command"), ALL)
def test_its_page_exists(desk, path, command):
    page = desk.run(*path, "-h").out.rpartition("Runbook: ")[2].strip()

    assert (ROOT / page).is_file()


@pytest.mark.parametrize(("path", "command"), ALL)
def test_some_page_mentions_it(path, command):
    pages = [*Path(ROOT / "runbooks").glob("*.md"), ROOT / "README.md"]

    assert any(" ".join(("burstctl", *path)) in page.read_text() for page in pages)


@pytest.mark.parametrize(("path", "command"), ALL)
def test_each_option_says_what_it_does(path, command):
    assert [
        option.name for option in command.params if isinstance(option, click.Option) and not option.help
    ] == []


def test_without_arguments_it_helps(desk):
    ran = desk.run()

    assert ran.code == 0
    assert all(f"\n  {name} " in ran.out for name in COMMANDS)
    assert "3 something needs attention" in " ".join(ran.out.split())


def test_policy_without_a_command_helps(desk):
    ran = desk.run("policy")

    assert ran.code == 0
    assert "burstctl policy check policy.yaml" in ran.out


def test_the_version_is_told(desk):
    assert desk.run("--version").out.startswith("burstctl, version ")


@pytest.mark.parametrize(
    "arguments", [["asses"], ["assess", "--frequently"], ["explain"], ["policy", "burn"], ["--json"]]
)
def test_what_is_not_known_is_misuse(desk, arguments):
    ran = desk.run(*arguments)

    assert ran.code == (0 if arguments == ["--json"] else 2)
    assert "Traceback" not in ran.err

"""Colours are for terminals whose people want them: no command lets an escape out anywhere else."""

import sys

import click
import pytest

from support.cli.cli_session import add_calm, add_critical, add_exhausted, every_command

pytestmark = pytest.mark.usefixtures("colours")


VOLUME = object()
"""In place of the id of a volume in trouble."""

COMMANDS = {
    "": [],
    "assess": [],
    "top": [],
    "explain": [VOLUME],
    "which": [VOLUME],
    "watch": ["--passes", "1"],
    "advise": [],
    "simulate": ["i-0123456789abcdef0"],
    "backtest": ["--last", "1d"],
    "report": ["--html", "report.html"],
    "flip": [VOLUME, "--dry-run"],
    "flip-back": [VOLUME, "--dry-run"],
    "plot": [VOLUME],
    "history": [VOLUME],
    "hold": [VOLUME, "--for", "1h", "--reason", "why", "--ledger", "sqlite:held.sqlite"],
    "release": [VOLUME],
    "window": [],
    "window list": [],
    "window start": ["release", "--yes"],
    "window stop": ["release"],
    "init": ["--email", "a@example.com", "--yes", "--force"],
    "doctor": [],
    "alert": ["--test"],
    "runbook": [],
    "aws-check": ["--dry-run"],
    "experiment": [],
    "experiment credit-reset": [VOLUME],
    "policy": [],
    "policy check": [],
    "policy show": [],
    "policy push": ["--dry-run"],
    "completion": ["bash"],
}
"""Each command, with arguments by which it has something to say."""


def pretend_terminals(monkeypatch):
    """Let the streams of this moment be a terminal."""
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)


def commands_with_colour(cli, lab):
    """The commands that let an escape out, after each was run on a fleet in trouble."""
    add_critical(lab, tags={"burstwatch:mode": "auto", "burstwatch:window": "release"})
    volume = add_exhausted(lab)
    add_calm(lab)
    results = []
    for line, arguments in COMMANDS.items():
        result = cli.run(
            *line.split(), *(volume if argument is VOLUME else argument for argument in arguments)
        )
        assert result.out or result.err, f"burstctl {line} said nothing"
        assert "unexpected" not in result.err
        if "\x1b" in result.out + result.err:
            results.append(line)
    return results


def test_no_command_is_left_out():
    known = {" ".join(path) for path, command in every_command() if isinstance(command, click.Command)}
    assert set(COMMANDS) == known


def test_output_to_a_pipe_is_not_coloured_whatever_other_tools_are_configured(cli, lab):
    cli.set(FORCE_COLOR="1", CLICOLOR_FORCE="1")
    assert commands_with_colour(cli, lab) == []


def test_with_no_color_nothing_is_coloured_on_a_terminal_either(cli, lab, monkeypatch):
    pretend_terminals(monkeypatch)
    cli.set(NO_COLOR="1")
    assert commands_with_colour(cli, lab) == []


def test_a_terminal_that_is_dumb_gets_no_colours(cli, lab, monkeypatch):
    pretend_terminals(monkeypatch)
    cli.set(TERM="dumb")
    add_critical(lab)
    assert "\x1b" not in cli.run("assess").out


def test_output_to_a_terminal_is_coloured(cli, lab, monkeypatch):
    pretend_terminals(monkeypatch)
    add_critical(lab)
    assert "\x1b[" in cli.run("assess").out

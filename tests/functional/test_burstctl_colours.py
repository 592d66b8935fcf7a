"""Colours are for terminals whose people want them: no command lets an escape out anywhere else."""

import sys

import click
import pytest
from operators_desk import OperatorsDesk, a_lab, add_calm, add_critical, add_exhausted
from test_burstctl_help import every_command

VOLUME = object()
"""In place of the id of a volume in trouble."""

COMMANDS = {
    "": [],
    "assess": [],
    "explain": [VOLUME],
    "watch": ["--passes", "1"],
    "advise": [],
    "backtest": [],
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
    "doctor": [],
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


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    desk = OperatorsDesk(tmp_path, monkeypatch, capsys)
    desk.set(TERM="xterm-256color")
    return desk


@pytest.fixture
def lab(desk):
    with a_lab(desk) as endpoint:
        yield endpoint


def be_terminals(monkeypatch):
    """Let the streams of this moment be a terminal."""
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)


def coloured(desk, lab):
    """The commands that let an escape out, after each was run on a fleet in trouble."""
    add_critical(lab, tags={"burstwatch:mode": "auto", "burstwatch:window": "release"})
    volume = add_exhausted(lab)
    add_calm(lab)
    found = []
    for line, arguments in COMMANDS.items():
        ran = desk.run(*line.split(), *(volume if each is VOLUME else each for each in arguments))
        assert ran.out or ran.err, f"burstctl {line} said nothing"
        assert "unexpected" not in ran.err
        if "\x1b" in ran.out + ran.err:
            found.append(line)
    return found


def test_no_command_is_left_out():
    known = {" ".join(path) for path, command in every_command() if isinstance(command, click.Command)}
    assert set(COMMANDS) == known


def test_to_a_pipe_nothing_is_coloured_whatever_other_tools_are_told(desk, lab):
    desk.set(FORCE_COLOR="1", CLICOLOR_FORCE="1")
    assert coloured(desk, lab) == []


def test_with_no_color_nothing_is_coloured_on_a_terminal_either(desk, lab, monkeypatch):
    be_terminals(monkeypatch)
    desk.set(NO_COLOR="1")
    assert coloured(desk, lab) == []


def test_a_terminal_that_is_dumb_gets_no_colours(desk, lab, monkeypatch):
    be_terminals(monkeypatch)
    desk.set(TERM="dumb")
    add_critical(lab)
    assert "\x1b" not in desk.run("assess").out


def test_on_a_terminal_there_are_colours_so_that_the_tests_above_mean_something(desk, lab, monkeypatch):
    be_terminals(monkeypatch)
    add_critical(lab)
    assert "\x1b[" in desk.run("assess").out

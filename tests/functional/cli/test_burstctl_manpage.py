"""The manual page: every command and option is in it, and troff has nothing to say against it."""

import re
import shutil
import subprocess

import click
import pytest

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.output import DEBUG_ENV
from burstctl.main import burstctl
from burstctl.manpage import make_manpage
from burstwatch.wiring.settings import CLOCK, LEDGER, SLACK_WEBHOOK, TOPIC_ARN
from support.cli.cli_session import every_command
from support.paths import ROOT

GROFF = shutil.which("groff")
MANDOC = shutil.which("mandoc")
needs_groff = pytest.mark.skipif(GROFF is None, reason="groff is not installed (Debian: groff)")


@needs_groff
def test_groff_sets_it_without_a_warning(manpage):
    set_ = subprocess.run(
        [GROFF, "-man", "-ww", "-K", "utf8", "-T", "utf8"],
        input=manpage,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (set_.returncode, set_.stderr) == (0, "")
    assert "BURSTCTL(1)" in set_.stdout


@pytest.mark.skipif(MANDOC is None, reason="mandoc is not installed")
def test_mandoc_finds_no_error(manpage):
    linted = subprocess.run(
        [MANDOC, "-T", "lint", "-W", "error"],
        input=manpage,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert linted.stdout == ""


@pytest.mark.parametrize(
    ("path", "command"), [pytest.param(*case, id=" ".join(case[0]) or "burstctl") for case in every_command()]
)
def test_each_command_is_in_it_with_every_option_and_example(plain_text, path, command):
    assert " ".join(("burstctl", *path)) in plain_text
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert re.search(rf"^{re.escape(min(parameter.opts, key=len))}\b", plain_text, re.MULTILINE)
            assert " ".join((parameter.help or "").split()) in plain_text
    for line, meaning in getattr(command, "examples", ()):
        assert line in plain_text
        assert meaning in plain_text


def test_common_options_are_reported_once(plain_text):
    assert len(re.findall(r"^--ledger ", plain_text, re.MULTILINE)) == 1


def test_exit_codes_environment_and_files_are_in_it(plain_text):
    for code in ExitCode:
        assert f"\n.TP\n{int(code)}\n" in plain_text
    for name in (LEDGER, CLOCK, TOPIC_ARN, SLACK_WEBHOOK, DEBUG_ENV, "NO_COLOR"):
        assert f"\n{name}\n" in plain_text


def test_the_ledger_of_a_profile_is_named(plain_text):
    assert "ledger-PROFILE-REGION.sqlite" in plain_text


def test_it_is_the_same_whenever_it_is_made(manpage):
    assert make_manpage() == manpage


def test_it_is_the_same_after_the_parameters_of_a_command_were_read(manpage, monkeypatch):
    root = click.Context(burstctl, info_name="burstctl")
    command = burstctl.get_command(root, "watch")
    monkeypatch.setattr(command, "_help_option", None)  # click caches it here
    command.get_params(click.Context(command, info_name="watch"))
    assert make_manpage() == manpage


def test_the_page_that_ships_is_up_to_date(manpage):
    assert (ROOT / "runbooks" / "burstctl.1").read_text() == manpage, "make man writes it"

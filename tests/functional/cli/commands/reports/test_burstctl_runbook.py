"""``burstctl runbook``: the page about an alert, without a browser, a network or AWS."""

import re

import pytest

from burstctl.runbook.pages import find_page, list_pages, read_page
from burstctl.runbook.render import render_page
from burstwatch.core.text import display_width
from support.cli.cli_session import run_on_terminal
from support.paths import ROOT

RUNBOOKS = ROOT / "runbooks"
NAMES = sorted(page.stem for page in RUNBOOKS.glob("*.md") if page.stem != "README")


def test_without_a_name_it_lists_every_page_with_a_line_about_it(cli):
    result = cli.run("runbook")
    assert result.code == 0
    assert sorted(page.name for page in list_pages()) == NAMES
    assert all(f"\n  {page.name} " in result.out for page in list_pages())
    assert max(map(len, result.out.splitlines())) <= 80


def test_the_list_has_what_programs_need(cli):
    document = cli.run("runbook", "--json").document
    assert document["schema"] == "burstwatch.runbooks/v1"
    assert {page["name"] for page in document["pages"]} == set(NAMES)
    assert all(page["when"] and page["first_command"] and page["group"] for page in document["pages"])


def test_a_page_is_printed_as_markdown_for_a_program(cli):
    result = cli.run("runbook", "FlipStuck")
    assert result.code == 0
    assert result.err == ""
    assert result.out.startswith("# FlipStuck\n\n**Now:** ")
    assert "## Diagnosis\n" in result.out


def test_a_page_in_json_has_its_text(cli):
    document = cli.run("runbook", "flipstuck", "--json").document
    assert (document["schema"], document["name"]) == ("burstwatch.runbook/v1", "FlipStuck")
    assert document["markdown"] == read_page("FlipStuck")


@pytest.mark.parametrize(
    "name",
    [
        "FlipRefused",
        "fliprefused",
        "FlipRefused.md",
        "runbooks/FlipRefused.md",
        "https://wiki.example.com/runbooks/FlipRefused.md#held",
        "https://docs.example.com/runbooks/FlipRefused.html#held",
    ],
)
def test_a_page_is_found_by_its_name_in_any_case_and_by_a_link_to_it(name):
    assert find_page(name).name == "FlipRefused"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("FlipStuk", "fix: did you mean FlipStuck or FlipsStuck?"),
        ("windowm", "fix: did you mean WindowMissed?"),
        ("burstbalance", "BurstBalanceDraining or BurstBalanceExhausted or BurstBalanceRecovered?"),
        ("README", "burstctl runbook lists them"),
        ("../secrets", "burstctl runbook lists them"),
        ("", "fix: write NAME, or leave it out"),
        ("\x1b[2J", "burstctl runbook lists them"),
    ],
)
def test_a_wrong_name_is_a_usage_error_with_what_may_be_meant(cli, name, hint):
    result = cli.run("runbook", name)
    assert result.code == 2
    assert hint in result.err
    assert "\x1b" not in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("name", [*NAMES, "README"])
def test_a_page_needs_no_link_to_be_followed(name):
    text = read_page(name)
    assert "<!--" not in text
    assert "<a id" not in text
    assert re.findall(r"\]\((?!https://)[^)]*\)", text) == []


def test_a_link_to_another_page_becomes_the_command_that_shows_it():
    assert "[permanent move to gp3]" not in read_page("BurstBalanceDraining")
    assert "permanent move to gp3 (`burstctl runbook MovingToGp3`)" in " ".join(
        read_page("BurstBalanceDraining").split()
    )


@pytest.mark.parametrize("name", [*NAMES, "README"])
@pytest.mark.parametrize("width", [80, 60])
def test_every_page_fits_the_terminal_and_keeps_its_commands_whole(name, width):
    text = read_page(name)
    rows = render_page(text, width=width, has_colour=False).splitlines()
    blocks = re.findall(r"(?ms)^ *```\w*\n(.*?)^ *```", text)
    code = {" ".join(line.split()) for block in blocks for line in block.splitlines()}
    assert code <= {"", *(" ".join(row.split()) for row in rows)}
    assert [row for row in rows if display_width(row) > width and " ".join(row.split()) not in code] == []


def test_no_name_in_a_table_is_cut():
    rendered = render_page(read_page("FlipRefused"), width=60, has_colour=False)
    for name in ("modification_in_progress", "instance_is_bottleneck", "burstwatch:target=io1"):
        assert name in rendered


def test_on_a_terminal_a_page_has_weight(cli):
    output = run_on_terminal(cli, "runbook", "FlipStuck", PAGER="cat")
    assert "\x1b[1mNow:\x1b[0m" in output
    assert "**" not in output


def test_without_colours_a_terminal_gets_plain_text(cli):
    output = run_on_terminal(cli, "runbook", "FlipStuck", PAGER="cat", NO_COLOR="1")
    assert "\x1b" not in output
    assert "\nMeaning\r\n" in output

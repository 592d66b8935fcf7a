"""Which volumes the table shows, in how many rows, and what is left of a row on a narrow terminal."""

import pytest

from burstctl.render.resource_rows import MAX_UNREAD_ROWS, select_rows
from burstctl.render.table import narrow_table, render_plain
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import display_width
from burstwatch.core.watch.pass_report import PassReport
from support.builders.core_values import a_decision, a_volume, an_assessment, at, balances, draining_to


def a_report(*decisions):
    return PassReport(
        now_s=at("12:00"), region="us-east-1", ledger="", decisions=decisions, cadence=Policy().cadence
    )


def a_decision_for(number, balance=None, *, tags=None, **evidence):
    volume = a_volume(volume_id=f"vol-{number:017x}", tags=tags or {})
    return a_decision(an_assessment(balance, volume=volume, **evidence))


def an_unread(number):
    return a_decision_for(number, read_error="cloudwatch:GetMetricData failed")


def render(*decisions, shows_all=False, width=80):
    selection = select_rows([a_report(*decisions)], shows_all=shows_all)
    return render_plain(narrow_table(*selection, width=width, bar=None)).splitlines()


def test_a_few_volumes_that_could_not_be_read_have_rows():
    lines = render(*map(an_unread, range(MAX_UNREAD_ROWS)))
    assert len([line for line in lines if "could not be read" in line]) == MAX_UNREAD_ROWS


def test_many_volumes_that_could_not_be_read_are_counted_and_the_others_shown():
    lines = render(*map(an_unread, range(12)), a_decision_for(50, draining_to(20, 3)))
    assert lines[1].startswith(f"critical  vol-{50:017x}")
    assert lines[3:] == ["and 12 volumes that could not be read"]


def test_without_a_row_there_are_no_titles():
    assert render(*map(an_unread, range(12))) == ["and 12 volumes that could not be read"]


def test_all_shows_every_volume_that_could_not_be_read():
    assert len([line for line in render(*map(an_unread, range(12)), shows_all=True) if "vol-" in line]) == 12


@pytest.mark.parametrize(("width", "end"), [(80, "not draining (ci-7)"), (55, "ci-7"), (40, "ci-7")])
def test_a_calm_volume_keeps_its_name_on_a_narrow_terminal(width, end):
    _, line = render(a_decision_for(1, balances(100, 100, 100, 100), tags={"Name": "ci-7"}), width=width)
    assert line.endswith(f"100.0 %  {end}")


@pytest.mark.parametrize(
    "name", ["ci-7", "a-rather-long-name-of-a-volume", "日本語のとても長い名前のディスク"]
)
@pytest.mark.parametrize("tags", [{}, {"burstwatch:mode": "auto", "burstwatch:critical": "true"}])
@pytest.mark.parametrize("balance", [balances(100, 100, 100), draining_to(20, 3)])
def test_a_row_fits_sixty_columns(name, tags, balance):
    lines = render(a_decision_for(1, balance, tags={"Name": name, **tags}), width=60)
    assert max(map(display_width, lines)) <= 60

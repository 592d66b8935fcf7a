"""The table: on a terminal, at its width, in its colours; and of a fleet of ten thousand."""

import re
import sys
from dataclasses import replace
from io import StringIO

import pytest

from burstctl.cli.progress import ProgressBar
from burstctl.render.resource_rows import select_rows
from burstctl.render.table import draw_bar, narrow_table, render_plain, truncate, wide_table
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.policy.policy import Policy
from burstwatch.core.text import display_width
from burstwatch.core.watch.pass_report import PassReport
from support.builders.core_values import a_decision, a_volume, an_assessment, at, balances, draining_to
from support.cli.cli_session import (
    add_calm,
    add_critical,
    add_gp3,
    add_lab_volume,
    add_warning,
    run_on_terminal,
    start_lab,
)

BLOCKS = "░▏▎▍▌▋▊▉█"


def a_report(*decisions) -> PassReport:
    return PassReport(
        now_s=at("12:00"), region="us-east-1", ledger="", decisions=decisions, cadence=Policy().cadence
    )


def show_wide(report, *, shows_all, width, bar):
    return wide_table(*select_rows([report], shows_all=shows_all), width=width, bar=bar)


def show_narrow(report, *, shows_all, bar, width=80):
    return narrow_table(*select_rows([report], shows_all=shows_all), width=width, bar=bar)


def a_decision_for(number, balance, **facts):
    return a_decision(an_assessment(balance, volume=a_volume(volume_id=f"vol-{number:017x}", **facts)))


def many_alike(numbers, balance):
    """Decisions about volumes with the same balance, which is assessed once."""
    assessment = a_decision_for(0, balance).assessment
    volumes = (a_volume(volume_id=f"vol-{number:017x}") for number in numbers)
    return [a_decision(replace(assessment, resource=volume)) for volume in volumes]


def test_of_ten_thousand_volumes_the_urgent_are_shown_and_the_rest_is_counted():
    urgent = [a_decision_for(number, draining_to(20, 3)) for number in range(30)]
    watched = [a_decision_for(100 + number, balances(*[80 + number / 10] * 9)) for number in range(40)]
    numbers = range(1_000, 10_874)
    calm = many_alike(numbers[::2], balances(*[96.2] * 9)) + many_alike(numbers[1::2], balances(*[97.2] * 9))
    gap = [a_decision_for(20_000, balances(50, newest_starts_at="11:00"))]

    lines = render_plain(
        show_wide(a_report(*calm, *watched, *gap, *urgent), width=None, shows_all=False, bar=None)
    ).splitlines()

    assert [line.split()[0] for line in lines[1:32]] == ["critical"] * 30 + ["unknown"]
    assert lines[32:] == [
        "and 40 more at watch, lowest 80.0 %",
        "and 9,874 calm volumes, lowest 96.2 %",
        "(--all shows everything)",
    ]


def test_what_is_only_watched_fills_the_table_up_to_twenty_rows():
    watched = [a_decision_for(number, balances(*[80 + number / 10] * 9)) for number in range(40)]

    lines = render_plain(show_wide(a_report(*watched), width=None, shows_all=False, bar=None)).splitlines()

    assert len(lines) == 1 + 20 + 2
    assert lines[-2] == "and 20 more at watch, lowest 82.0 %"


def test_a_fleet_that_fits_is_shown_whole_and_all_shows_any():
    some = [a_decision_for(number, balances(100, 100)) for number in range(20)]
    many = [a_decision_for(number, balances(100, 100)) for number in range(21)]

    def rows(decisions, *, everything):
        table = show_wide(a_report(*decisions), width=None, shows_all=everything, bar=None)
        return len(table.lines), bool(table.notes)

    assert rows(some, everything=False) == (20, False)
    assert rows(many, everything=False) == (0, True)
    assert rows(many, everything=True) == (21, False)


@pytest.mark.parametrize(
    ("balance", "text"),
    [
        # 100 GiB: 300 IOPS. 30 % = 1,620,000 credits, age 60 s; 1 % a minute = 900/s: 1,800 - 60 s = 29 min
        (draining_to(30, 1), "in 29 min (12:29), not before 12:09"),
        (draining_to(90, 0.02), "in 3 d (14:59 Mon), not before 12:29"),
        (draining_to(50, -0.3), "refilling, full in 3 h"),
        (balances(50, 50, 50, 50), "not draining, not before 12:15"),
        (balances(50), "no trend yet, not before 12:15"),
        (balances(0, 0, 0, 0), "now"),
        (balances(100, 100, 100, 100), "not draining"),
        (balances(), "no datapoint"),
    ],
)
def test_the_time_left_in_words(balance, text):
    table = show_wide(a_report(a_decision_for(1, balance)), width=None, shows_all=False, bar=None)

    assert table.lines[0][4].text == text


def test_days_of_time_left_are_days():
    # 97 % - 0.001 % a minute: 90 % / 0.001 = 90,000 min = 62 d
    table = show_wide(
        a_report(a_decision_for(1, draining_to(90, 0.001))), width=None, shows_all=False, bar=None
    )

    assert table.lines[0][4].text.startswith("in 62 d (")


def test_a_bound_more_than_a_day_away_carries_its_day():
    # 990 GiB earn 2,970: half a bucket, 2,700,000 credits, lasts 90,000 s at least, less 60 s: 24 h 59 min
    decision = a_decision(an_assessment(balances(50, 50, 50, 50), volume=a_volume(990)))
    table = show_wide(a_report(decision), width=None, shows_all=False, bar=None)

    assert table.lines[0][4].text == "not draining, not before 12:59 Sat"


NAMES = (None, "ci-7", "日本語のとても長い名前のディスク", "x" * 200, "a\u0301" * 30, "[bold]:smile:")


@pytest.mark.parametrize("name", NAMES)
def test_two_lines_to_a_volume_fit_eighty_columns(name):
    tags = {"Name": name} if name else {}
    report = a_report(
        a_decision_for(1, draining_to(20, 3), tags=tags, size_gib=334),
        a_decision_for(2, draining_to(90, 0.02), tags=tags),
        a_decision_for(3, draining_to(50, -0.3), tags=tags),
        a_decision_for(4, draining_to(0, 3), tags=tags),
        a_decision_for(5, balances(100, 100), tags=tags),
        a_decision_for(6, balances(), tags=tags),
        a_decision_for(7, balances(), tags=tags, size_gib=16_384),
    )

    lines = render_plain(show_narrow(report, shows_all=False, bar=BLOCKS)).splitlines()

    assert max(map(display_width, lines)) <= 80
    # 334 GiB earn 1,002; a drain of 3 % a minute is 2,700/s
    assert any(line.endswith("drains 2,700/s, baseline 1,002") for line in lines)


@pytest.mark.parametrize("width", [116, 120, 143, 200])
@pytest.mark.parametrize("name", NAMES)
def test_one_line_to_a_volume_fits_its_width(name, width):
    tags = {"Name": name} if name else {}
    report = a_report(
        a_decision_for(1, draining_to(20, 3), tags=tags, instance_id="i-0123456789abcdef0"),
        a_decision_for(2, draining_to(90, 0.02), tags=tags),
        a_decision_for(3, balances(0, 0, 0, 0), tags=tags),
        a_decision_for(4, balances(50, 50, 50, 50), tags=tags),
        a_decision_for(5, balances(), tags=tags, size_gib=16_384),
    )

    lines = render_plain(show_wide(report, width=width, shows_all=False, bar=BLOCKS)).splitlines()

    assert max(map(display_width, lines)) <= width
    assert "INSTANCE" not in lines[0] or width > 120
    assert "INSTANCE" in lines[0] or width < 200


def test_columns_line_up_whatever_the_script():
    report = a_report(
        *(a_decision_for(n, draining_to(20, 3), tags={"Name": name}) for n, name in enumerate(NAMES[1:]))
    )

    lines = render_plain(show_wide(report, width=None, shows_all=False, bar=None)).splitlines()

    assert len({display_width(line.partition("in 5 min")[0]) for line in lines[1:]}) == 1


def test_a_volume_of_kubernetes_goes_by_its_claim_in_the_form_that_fits():
    claim = {
        "Name": "prod-dynamic-pvc-a3ab0567-3a48-4608-8cb6-4e3b1485c808",
        "kubernetes.io/created-for/pvc/name": "data-etcd-0",
        "kubernetes.io/created-for/pvc/namespace": "kube-system",
    }
    report = a_report(a_decision_for(1, draining_to(20, 3), tags=claim, instance_id="i-0123456789abcdef0"))

    def name_at(width):
        lines = render_plain(show_wide(report, width=width, shows_all=False, bar=BLOCKS)).splitlines()
        start, end = lines[0].index("NAME"), lines[0].index("BALANCE") - 8
        return lines[1][start:end].strip()

    assert name_at(None) == name_at(116) == "claim data-etcd-0 in kube-system"
    assert name_at(92) == "kube-system/data-etcd-0"
    assert name_at(80) == "data-etcd-0"
    narrow = render_plain(show_narrow(report, shows_all=False, bar=BLOCKS))
    assert narrow.splitlines()[2].split()[0] == "data-etcd-0"


def test_a_cut_never_exceeds_its_width():
    assert truncate("日本語", 6) == "日本語"
    assert truncate("日本語", 5) == "日本…"
    assert truncate("日本語", 4) == "日…"
    assert truncate("abc", 2) == "a…"


@pytest.mark.parametrize(
    ("balance_pct", "drawn"),
    [(0, "░░░░░"), (100, "█████"), (50, "██▌░░"), (31.5, "█▋░░░"), (2.4, "▏░░░░"), (99.9, "█████")],
)
def test_the_bar_fills_by_eighths(balance_pct, drawn):
    assert draw_bar(balance_pct, 5, BLOCKS) == drawn


def test_the_bar_in_ascii():
    assert draw_bar(50, 5, ".#") == "##..."


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_gets_colour_within_its_width(cli, width):
    with start_lab(cli) as lab:
        add_critical(lab, "[red]ci[/red]")
        add_warning(lab)
        add_calm(lab)
        add_lab_volume(lab, "lake", size_gib=1200)

        sent = run_on_terminal(cli, "assess", width=width)

    assert "\x1b[1;31mcritical" in sent
    assert "█▋░░░  33.0 %" in sent
    assert "[red]ci[/red]" in sent, "a name is no markup"
    plain = "".join(
        part.partition("m")[2] if number else part for number, part in enumerate(sent.split("\x1b["))
    )
    assert max(len(line.rstrip("\r")) for line in plain.split("\n")) <= width
    assert len(plain.splitlines()) == (7 if width == 80 else 5)


def test_the_line_about_what_is_not_shown_is_broken_between_words(cli):
    with start_lab(cli) as lab:
        add_critical(lab)
        for number in range(25):
            add_gp3(lab, f"fast-{number}")
            add_lab_volume(lab, f"lake-{number}", size_gib=1200)

        sent = run_on_terminal(cli, "assess", width=60, NO_COLOR="1")

    lines = [line.rstrip("\r") for line in sent.split("\n")]
    assert max(map(len, lines)) <= 60
    [first] = [index for index, line in enumerate(lines) if " unwatched " in line]
    assert lines[first + 1].startswith("  ")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_comments_of_a_policy_fit_the_terminal(cli, width):
    sent = run_on_terminal(cli, "policy", "show", width=width)

    lines = [line.rstrip("\r") for line in sent.split("\n")]
    assert max(map(len, lines)) <= min(width, 80)


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_color_is_respected(cli, environment):
    with start_lab(cli) as lab:
        add_critical(lab)

        sent = run_on_terminal(cli, "assess", **environment)

    assert "critical" in sent
    assert "\x1b[1;31m" not in sent
    assert "31m" not in sent


class Screen(StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("width", [80, 120, 150])
def test_flips_and_holds_are_marked_within_the_width(cli, width):
    with start_lab(cli) as lab:
        flipped, held = add_critical(lab), add_warning(lab)
        add_calm(lab)
        cli.run("flip", flipped, "--to", "io1", "--yes")
        cli.run("hold", held, "--for", "1h", "--reason", "x", "--ledger", f"sqlite:{cli.ledger_path}")
        cli.run("hold", flipped, "--for", "1h", "--reason", "x", "--ledger", f"sqlite:{cli.ledger_path}")

        sent = run_on_terminal(cli, "assess", width=width)

    assert "-> io1, 3,750 IOPS, held" in sent
    plain = re.sub("\x1b\\[[0-9;]*m", "", sent)
    assert max(len(line.rstrip("\r")) for line in plain.split("\n")) <= width


def test_of_ten_thousand_volumes_flipped_ones_are_shown():
    calm = many_alike(range(10_000), balances(100, 100))
    moved = calm[4_711]
    report = replace(a_report(*calm), outcomes={moved.volume_id: Outcome(status=OutcomeStatus.FLIPPED)})

    lines = render_plain(show_wide(report, width=None, shows_all=False, bar=None)).splitlines()

    assert "flipped now" in lines[1]
    assert lines[2] == "and 9,999 calm volumes, lowest 100.0 %"


def test_the_bar_comes_when_a_pass_takes_long_and_goes_with_it(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    bar = ProgressBar(show_after_s=0)
    bar.begin()
    bar._timer.join()
    bar.report(5_000, 10_000)
    bar.end()
    bar.end()

    assert "looking" in screen.getvalue()
    assert "5,000 of 10,000 volumes" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K"), "it leaves a clean line"


def test_a_quick_pass_shows_no_bar(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    bar = ProgressBar()
    bar.begin()
    bar.report(5_000, 10_000)
    bar.end()
    bar._show()

    assert screen.getvalue() == ""


def test_without_a_terminal_there_is_no_bar():
    bar = ProgressBar(show_after_s=0)
    bar.begin()

    assert bar._timer is None

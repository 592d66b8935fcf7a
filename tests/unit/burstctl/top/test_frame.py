"""A frame of the live view: what is on it, and that it fits any terminal."""

import re
from dataclasses import replace
from functools import cache, partial

import pytest

from burstctl.cli.styled_text import to_plain_text
from burstctl.render.table import fit, truncate
from burstctl.top.frame import page_rows, render_frame
from burstctl.top.view import FleetReading, View, begin_read, end_read, make_reading, press
from burstwatch.core.errors import Problem
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.text import display_width
from support.builders.core_values import a_decision, a_volume, an_assessment, at, balances, draining_to
from unit.burstctl.top.test_view import a_reading, a_report, a_view, after, an_item


def a_fleet_reading(count=30, **facts):
    named = a_volume(volume_id="vol-0123456789abcdef0", tags={"Name": "ci-7"})
    critical = a_decision(an_assessment(draining_to(20, 3), volume=named))
    calm = [
        a_decision(an_assessment(balances(*[100] * 20), volume=a_volume(volume_id=f"vol-{number:017x}")))
        for number in range(count - 1)
    ]
    return make_reading(a_report(critical, *calm, metrics_requested=count, **facts))


@cache
def a_failing_reading():
    """The same at every size of the terminal."""
    hold = Hold(volume_id=None, by="ben", reason="INC-42", placed_at_s=0, until_s=int(at("13:00")))
    return a_fleet_reading(failures=["throttled " * 30, "b", "c", "d", "e"], holds=[hold])


def text_of(view, *, width=80, height=16, now_s=14.0):
    return to_plain_text(render_frame(view, now_s=now_s, width=width, height=height)).split("\n")


def test_eighty_columns_have_everything():
    lines = text_of(a_view(reading=a_fleet_reading(3)), height=10)

    assert lines == [
        "read 14 s ago  data 74 s old  3 resources  us-east-1  $0.0018 an hour",
        "1 critical  2 ok",
        "  LEVEL      RESOURCE               BALANCE  HISTORY           EMPTY UTC",
        "> critical   ci-7                    20.0 %  ▇▇▇▇▇▇▇▇▇▇▆▆▅▃▂▂  in 6 min (12:05)",
        "  ok         vol-00000000000000000  100.0 %  ▇▇▇▇▇▇▇▇▇▇        not draining",
        "  ok         vol-00000000000000001  100.0 %  ▇▇▇▇▇▇▇▇▇▇        not draining",
        "",
        "",
        "vol-0123456789abcdef0  ci-7  100 GiB  drains 2,700/s, baseline 300  i-0a1",
        "j/k move  enter explain  p plan  h hold  / filter  tab kind  ? help  q quit",
    ]


def test_sixty_columns_do_without_the_sparkline():
    lines = text_of(a_view(reading=a_fleet_reading(3)), width=60, height=10)

    assert lines[3] == "> critical   ci-7                    20.0 %  in 6 min"
    assert lines[-1] == "enter explain  p plan  h hold  / filter  ? help  q quit"


def test_forty_columns_have_the_balance_and_the_time_and_below_them_the_level():
    lines = text_of(a_view(reading=a_fleet_reading(3)), width=40, height=10)

    assert lines[2:5] == [
        "  RESOURCE      BALANCE  EMPTY UTC",
        "> ci-7           20.0 %  in 6 min",
        "  vol-0000000…  100.0 %  not draining",
    ]
    assert lines[-2:] == ["critical  vol-0123456789abcdef0  ci-7", "? help  q quit"]


FORMS = [
    ("in 999 d (12:05 Mon), not before 12:03", "in 999 d (12:05 Mon)", "in 999 d"),
    ("empty, refilling (5 % in 10 min)", "empty, refilling", "refilling"),
    ("no steady drain",),
    ("not draining",),
    ("now",),
]


@pytest.mark.parametrize("width", range(40, 131))
@pytest.mark.parametrize("forms", FORMS)
def test_a_balance_and_a_time_are_whole_at_every_width(width, forms):
    names = {"name": lambda columns: truncate("production-database-primary", columns or 80)}
    item = an_item("vol-0123456789abcdef0", level="exhausted", forecast=partial(fit, forms), **names)

    row = text_of(a_view(reading=a_reading(item)), width=width)[3]

    assert re.search(r"(production-.*|…)  100\.0 %  ", row)
    assert row.rpartition("  ")[2] in forms
    assert ("exhausted" in row) == (width >= 51)


@pytest.mark.parametrize("width", [40, 50, 51, 60, 77, 78, 80, 109, 110])
def test_without_a_balance_its_column_is_for_the_reason(width):
    forms = ("instance is stopped; was critical", "instance is stopped")
    item = an_item("vol-1", level="unknown", balance_pct=None, forecast=partial(fit, forms))
    item = replace(item, sparkline="")

    assert text_of(a_view(reading=a_reading(item)), width=width)[3].rpartition("  ")[2] in forms


def test_five_lines_have_the_age_three_resources_and_the_keys():
    lines = text_of(a_view(reading=a_fleet_reading(9)), height=5)

    assert [line.split("  ")[0] for line in lines[:1]] == ["read 14 s ago"]
    assert [line[:6] for line in lines[1:4]] == ["> crit", "  ok  ", "  ok  "]
    assert lines[4].endswith("q quit")
    assert page_rows(a_view(reading=a_fleet_reading(9)), 80, 5) == 3


def test_a_wide_terminal_has_the_id_and_the_name():
    lines = text_of(a_view(reading=a_fleet_reading(3)), width=120, height=10)

    assert "critical   vol-0123456789abcdef0  ci-7  " in lines[3]


@pytest.mark.parametrize("width", [10, 40, 41, 50, 51, 60, 77, 78, 80, 109, 110, 250])
@pytest.mark.parametrize("height", [4, 5, 9, 10, 24, 80])
@pytest.mark.parametrize("keys", [(), ("?",), ("/", *"no such name"), ("G",), ("tab",)])
def test_a_frame_fits_its_terminal(width, height, keys):
    view = end_read(a_view(*keys, reading=a_failing_reading()), Problem("denied " * 30), 1.0)

    lines = render_frame(view, now_s=14.0, width=width, height=height)

    assert max(sum(display_width(part.text) for part in line) for line in lines) <= width
    assert len(lines) == (height if width >= 40 and height >= 5 else 1)


def test_wide_characters_are_counted_by_their_columns():
    item = an_item("vol-1", name=lambda _width: "数据库" * 9)

    lines = text_of(a_view(reading=a_reading(item)))

    assert lines[3].startswith("> ok         数据库数据库数据库数…  100.0 %")


def test_only_the_rows_on_the_screen_are_put_into_words():
    rendered = []
    items = [
        an_item(f"vol-{number}", forecast=lambda _width, number=number: rendered.append(number) or "")
        for number in range(5_000)
    ]

    text_of(after(a_view(reading=a_reading(*items)), "G"))

    rows = page_rows(a_view(reading=a_reading(*items)), 80, 16)
    assert rows == 11
    assert rendered == list(range(5_000 // rows * rows, 5_000))


def test_the_page_has_the_selected_row():
    view = a_view(reading=a_fleet_reading())
    for _ in range(12):
        view, _ = press(view, "j", page_rows=11, now_s=1.0)

    assert [line[:2] for line in text_of(view)[3:14]] == ["  ", "> ", *["  "] * 9]


def test_what_could_not_be_read_is_marked_and_counted():
    view = end_read(
        a_view(reading=a_fleet_reading(failures=["a", "b", "c", "d"])), Problem("throttled", "wait"), 1.0
    )

    lines = render_frame(view, now_s=14.0, width=80, height=20)

    assert [line[0] for line in lines[2:6]] == [
        ("! the last read failed (the list is older): throttled; wait", "bold white on red"),
        ("! a", "bold white on red"),
        ("! b", "bold white on red"),
        ("! and more: q, then burstctl assess", "bold white on red"),
    ]


@pytest.mark.parametrize(
    ("view", "now_s", "first"),
    [
        (begin_read(View(every_s=60), 0.0), 3.0, "reading for 3 s"),
        (View(every_s=60), 3.0, "nothing was read yet"),
        (a_view(), 14.0, "read 14 s ago"),
        (a_view(), 200.0, "OUT OF DATE: read 3 min ago"),
        (a_view(), 3_700.0, "PAUSED: no key for an hour. Press one"),
    ],
)
def test_the_first_line_begins_with_the_age(view, now_s, first):
    assert text_of(view, now_s=now_s)[0].split("  ")[0] == first


@pytest.mark.parametrize(
    ("keys", "last"),
    [
        (("/", "c", "i"), "filter: ci_"),
        (("/", "c", "i", "enter"), "[/ci]  enter explain  p plan  h hold  / filter  ? help  q quit"),
        (("tab",), "[ebs]  enter explain  p plan  h hold  / filter  ? help  q quit"),
        (("j", "j", "p"), "flip changes volumes only: e shows what helps this file system"),
    ],
)
def test_the_last_line_has_the_filter_or_a_message(keys, last):
    assert text_of(a_view(*keys))[-1] == last


def test_the_end_of_a_long_filter_is_visible():
    lines = text_of(a_view("/", *"a filter that is longer than the line", "数"), width=40)
    assert lines[-1] == "filter: …that is longer than the line数_"


def test_five_lines_have_the_first_problem():
    reading = a_fleet_reading(failures=["no metrics", "no tags"])
    assert text_of(a_view(reading=reading), width=40, height=5)[1] == "! no metrics"


def test_an_empty_list_has_its_reason():
    assert "no data yet" in text_of(View(every_s=60))[3]
    assert "nothing matches; escape shows everything" in text_of(a_view("/", "x"))[3]
    selected = FleetReading(region="us-east-1", selection="tag:nope=x", items=(), level_counts={})
    assert "nothing with burst credits matches tag:nope=x" in text_of(a_view(reading=selected))[3]


def test_the_help_lists_every_key():
    text = "\n".join(text_of(a_view("?"), height=24))

    assert all(word in text for word in ("explain", "--dry-run", "hold", "tab", "escape", "quit"))


def test_the_help_is_wrapped_on_a_narrow_terminal():
    lines = text_of(a_view("?"), width=40, height=40)

    at = lines.index("j, k, arrows    select the next, the")
    assert lines[at + 1] == f"{'':16}previous resource"
    assert not [line for line in lines if "…" in line]

"""The state of the live view: what keys and finished reads make of it."""

from dataclasses import replace

import pytest

from burstctl.cli.tag_filter import TagTerm
from burstctl.render.table import Row
from burstctl.top.keys import read_keys
from burstctl.top.view import (
    IDLE_PAUSE_S,
    Action,
    FleetReading,
    Item,
    View,
    begin_read,
    end_read,
    make_reading,
    press,
)
from burstwatch.core.buckets.series import Series
from burstwatch.core.errors import Problem
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.policy.policy import Policy
from burstwatch.core.resource_type import ResourceType
from burstwatch.core.watch.pass_report import PassReport
from support.builders.core_values import a_decision, a_volume, an_assessment, at, balances, draining_to


def an_item(resource_id, *, kind="ebs", text="", **fields):
    facts = {
        "region": "us-east-1",
        "kind": kind,
        "bucket": "ebs-io",
        "resource_id": resource_id,
        "name": lambda _width: "",
        "level": "ok",
        "style": "green",
        "is_calm": True,
        "is_alerting": False,
        "balance_pct": 100.0,
        "forecast": lambda _width: "not draining",
        "flip": "",
        "mode": "",
        "drain": "",
        "baseline": "300",
        "size": "100 GiB",
        "place": "",
        "flow": lambda _width: "baseline 300",
    }
    search_text = f"{resource_id}\n{text}".casefold()
    return Item(row=Row(**(facts | fields)), sparkline="▇▇▇▇", search_text=search_text)


ITEMS = [
    an_item("vol-1", text="ci-7\nrole=ci"),
    an_item("vol-2", text="etcd-0"),
    an_item("fs-1", kind="efs", text="home"),
    an_item("vol-3", text="CI-8\nrole=ci"),
]


def a_reading(*items, **facts):
    items = items or ITEMS
    return FleetReading(**{"region": "us-east-1", "items": items, "level_counts": {"ok": len(items)}} | facts)


def a_view(*keys, reading=None):
    return after(end_read(View(every_s=60), reading or a_reading(), 0.0), *keys)


def after(view, *keys, now_s=10.0):
    for key in keys:
        view, action = press(view, key, page_rows=2, now_s=now_s)
        assert action is None
    return view


def ids(view):
    return [item.row.resource_id for item in view.items]


def a_report(*decisions, **facts):
    return PassReport(
        now_s=at("12:00"),
        region="us-east-1",
        ledger="",
        decisions=decisions,
        cadence=Policy().cadence,
        **facts,
    )


def decide_about(volume_id, balance, **facts):
    return a_decision(an_assessment(balance, volume=a_volume(volume_id=volume_id, **facts)))


@pytest.mark.parametrize(
    ("keys", "selected"),
    [
        ([], "vol-1"),
        (["j"], "vol-2"),
        (["down", "down", "up"], "vol-2"),
        (["k"], "vol-1"),
        (["page down"], "fs-1"),
        ([" ", " "], "vol-3"),
        (["G"], "vol-3"),
        (["end", "page up"], "vol-2"),
        (["end", "g"], "vol-1"),
        (["x"], "vol-1"),
    ],
)
def test_keys_move_the_selection_and_stop_at_both_ends(keys, selected):
    assert a_view(*keys).selected.row.resource_id == selected


def test_the_selection_follows_its_resource_when_the_order_changes():
    moved = end_read(a_view("j"), a_reading(*reversed(ITEMS)), 60.0)

    assert moved.selected.row.resource_id == "vol-2"
    assert moved.position == 2


def test_until_somebody_moves_the_most_urgent_is_selected():
    assert end_read(a_view(), a_reading(*reversed(ITEMS)), 60.0).selected.row.resource_id == "vol-3"


def test_a_resource_that_is_gone_leaves_the_most_urgent_selected():
    assert end_read(a_view("j"), a_reading(ITEMS[0]), 60.0).selected.row.resource_id == "vol-1"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("ci", ["vol-1", "vol-3"]),
        ("CI-8", ["vol-3"]),
        ("role=ci", ["vol-1", "vol-3"]),
        ("fs-", ["fs-1"]),
        ("q", []),
    ],
)
def test_a_filter_narrows_the_list_while_it_is_typed(typed, expected):
    view = a_view("/", *typed)

    assert ids(view) == expected
    assert view.is_typing


def test_a_filter_stays_after_enter_and_escape_removes_it():
    view = a_view("/", "c", "x", "backspace", "i", "enter")

    assert (view.is_typing, ids(view)) == (False, ["vol-1", "vol-3"])
    assert ids(after(view, "escape")) == ids(after(view, "/", "escape")) == ids(a_view())


def test_a_filter_applies_to_the_next_read_too():
    view = end_read(a_view("/", "c", "i"), a_reading(*ITEMS, an_item("vol-9", text="ci-9")), 60.0)

    assert ids(view) == ["vol-1", "vol-3", "vol-9"]


def test_tab_goes_through_the_kinds_that_exist():
    assert [a_view(*["tab"] * count).kind for count in range(4)] == [
        None,
        ResourceType.EBS,
        ResourceType.EFS,
        None,
    ]
    assert ids(a_view("tab", "tab")) == ["fs-1"]


@pytest.mark.parametrize(
    ("key", "action"),
    [
        ("enter", Action.EXPLAIN),
        ("e", Action.EXPLAIN),
        ("p", Action.PLAN),
        ("h", Action.HOLD),
        ("r", Action.READ),
        ("q", Action.QUIT),
        ("ctrl-c", Action.QUIT),
    ],
)
def test_keys_request_what_the_view_cannot_do(key, action):
    assert press(a_view("j"), key, page_rows=2, now_s=11.0)[1] is action


def test_the_plan_of_what_is_not_a_volume_is_refused_in_one_line():
    view, action = press(a_view("j", "j"), "p", page_rows=2, now_s=11.0)

    assert action is None
    assert view.message == "flip changes volumes only: e shows what helps this file system"
    assert after(view, "k").message == ""


@pytest.mark.parametrize("key", ["enter", "p", "h"])
def test_without_a_resource_nothing_is_done(key):
    view, action = press(View(every_s=60), key, page_rows=2, now_s=1.0)

    assert (view.message, action) == ("nothing is selected", None)


def test_any_key_closes_the_help_and_does_nothing_else():
    view = a_view("?")

    assert view.is_help_shown
    closed, action = press(view, "h", page_rows=2, now_s=11.0)
    assert (closed.is_help_shown, action) == (False, None)


def test_ctrl_c_quits_while_a_filter_is_typed():
    assert press(a_view("/"), "ctrl-c", page_rows=2, now_s=11.0)[1] is Action.QUIT


def test_reads_begin_at_the_interval_and_never_overlap():
    view = begin_read(View(every_s=60, key_at_s=100.0), 100.0)
    assert not view.is_read_due(500.0)

    view = end_read(view, a_reading(), 103.0)

    assert not view.is_read_due(159.9)
    assert view.is_read_due(160.0)


def test_a_failed_read_keeps_what_was_read_and_is_tried_again_soon():
    view = end_read(begin_read(a_view(), 60.0), Problem("throttled", "wait"), 62.0)

    assert (len(view.items), view.read_at_s, view.error.cause) == (4, 0.0, "throttled")
    assert view.is_read_due(77.0)
    assert not view.is_read_due(76.9)
    assert end_read(view, a_reading(), 78.0).error is None


def test_it_stops_reading_an_hour_after_the_last_key_and_goes_on_with_the_next():
    view = replace(a_view(), key_at_s=0.0)

    assert not view.is_read_due(IDLE_PAUSE_S)
    assert after(view, "j", now_s=IDLE_PAUSE_S + 1).is_read_due(IDLE_PAUSE_S + 1)


def test_a_look_has_the_most_urgent_first_with_the_shape_of_its_balance():
    calm = decide_about("vol-0c1", balances(*[100] * 20))
    critical = decide_about("vol-0c2", draining_to(20, 3))

    reading = make_reading(a_report(calm, critical, metrics_requested=2_000))

    assert [item.row.resource_id for item in reading.items] == ["vol-0c2", "vol-0c1"]
    assert [item.sparkline for item in reading.items] == ["▇▇▇▇▇▇▇▇▇▇▆▆▅▃▂▂", "▇▇▇▇▇▇▇▇▇▇"]
    assert dict(reading.level_counts) == {"critical": 1, "ok": 1}
    assert (reading.data_age_s, reading.usd) == (60.0, 0.02)


def test_a_look_keeps_no_samples():
    [item] = make_reading(a_report(decide_about("vol-0c2", draining_to(20, 3)))).items

    decision = item.row.forecast.args[0]

    assert decision.assessment.balance == Series()


@pytest.mark.parametrize(
    ("filter_text", "expected"),
    [
        ("role=ci", ["vol-0c1", "vol-0c3"]),
        ("tag:role=ci", ["vol-0c1"]),
        ("tag:role", ["vol-0c1", "vol-0c2", "vol-0c3"]),
        ("tag:role=CI", []),
        ("tag:rol", []),
        ("tag:", ["vol-0c1", "vol-0c2", "vol-0c3"]),
    ],
)
def test_a_filter_that_is_typed_has_the_language_of_where(filter_text, expected):
    reading = make_reading(
        a_report(
            *(
                decide_about(f"vol-0c{number}", balances(100), tags={"role": role})
                for number, role in enumerate(["ci", "db", "ci-2"], start=1)
            )
        )
    )

    assert ids(a_view("/", *filter_text, "enter", reading=reading)) == expected
    if expected == ["vol-0c1"]:
        typed = a_view("/", *filter_text, reading=reading)
        assert ids(typed) == ["vol-0c1", "vol-0c3"], "the value may go on"


def test_an_item_is_found_by_id_name_instance_and_tags():
    ci = decide_about("vol-0c1", balances(100), tags={"role": "ci", "Name": "ci-7"})

    reading = make_reading(a_report(ci), [TagTerm("role", "ci"), TagTerm("Name")])
    [item] = reading.items

    assert reading.selection == "tag:role=ci tag:Name"
    assert item.search_text == "vol-0c1\nci-7\ni-0a1\ntag:role=ci\ntag:name=ci-7"


def test_a_look_reports_what_could_not_be_read_and_a_hold_on_everything():
    hold = Hold(
        volume_id=None, by="ben", reason="INC-42", placed_at_s=int(at("11:00")), until_s=int(at("13:00"))
    )
    unread = a_decision(an_assessment(None, read_error="throttled"))
    report = a_report(unread, holds=[hold], failures=["throttled", "throttled"])

    reading = make_reading(report, unreadable=["a damaged entry"], remarks=["an old stack"])

    assert reading.failures == ["1 resource could not be read", "throttled", "a damaged entry"]
    assert reading.notes == [
        "all changes are on hold for 60 min (until 13:00 UTC), by ben: INC-42",
        "an old stack",
    ]


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"jk", ["j", "k"]),
        (b"\x1b[A\x1bOB\x1b[5~", ["up", "down", "page up"]),
        (b"\r\t\x7f\x03", ["enter", "tab", "backspace", "ctrl-c"]),
        (b"\x1b", ["escape"]),
        (b"\x1b[1;5Cq", ["q"]),
        ("ä".encode(), ["ä"]),
        (b"\xff", []),
    ],
)
def test_keys_are_found_in_what_a_terminal_sends(data, keys):
    assert read_keys(data) == keys

"""Two days of a month of minutes, and that what would be wrong with a month is found."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from burstlab.soak import command
from burstlab.soak.command import find_violations, month
from burstlab.soak.scenario import DAY_MIN


def test_two_days_of_minutes_neither_drift_nor_grow_nor_leak(day_rows):
    assert find_violations(day_rows) == []
    assert [day.ticks for day in day_rows] == [DAY_MIN, DAY_MIN]


def test_the_two_days_are_not_quiet(day_rows):
    """Three volumes with nightly batches go out and come back; one is held in the second night."""
    first, second = day_rows
    assert first.flips >= 3
    assert second.returns >= 4
    assert second.delivered_alerts > first.delivered_alerts >= 15
    assert second.rows["holds"] == 1
    assert second.idle_ticks > 60


def test_memory_kept_does_not_depend_on_the_number_of_events(day_rows):
    first, second = day_rows
    assert second.rows["entries"] > first.rows["entries"] > 50
    assert second.objects <= first.objects + 20


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"missed_ticks": 1}, "day 2: 1 ticks missed"),
        ({"watermark_lag_s": 300}, "day 2: 300 seconds between the watermark and the last sweep"),
        ({"open_intents": 2}, "day 2: 2 intents unknown to AWS"),
        ({"undelivered": 3}, "day 2: 3 alerts waiting"),
        ({"doubled_alerts": 1}, "day 2: 1 alerts sent twice"),
        ({"failures": 1}, "day 2: 1 failures reported"),
        ({"ledger_kib": 9_000.0}, "day 2: the ledger has 9,000 KiB, its history explains "),
        ({"log_kib": 9_000.0}, "day 2: the log beside the ledger has 9,000 KiB, at most 8,192 are due"),
        ({"objects": 5_000}, "5,000 objects of the watchdog are alive, "),
    ],
)
def test_what_drifts_grows_or_leaks_in_a_day_is_found(day_rows, changes, fault):
    [result] = find_violations([day_rows[0], replace(day_rows[1], **changes)])
    assert result.startswith(fault)


@pytest.mark.parametrize("table", ["states", "deliveries", "claimed_ticks", "reservations", "holds"])
def test_rows_that_nothing_explains_are_found(day_rows, table):
    rows = day_rows[1].rows | {table: 99}
    [result] = find_violations([day_rows[0], replace(day_rows[1], rows=rows)])
    assert result.startswith(f"day 2: 99 rows of {table}, at most ")


def test_a_tick_that_becomes_slower_in_a_month_is_found(day_rows):
    calm = [replace(day_rows[0], number=number, idle_ms=0.4) for number in range(1, 15)]
    assert find_violations(calm) == []
    slower = [replace(day, idle_ms=0.4 if day.number < 8 else 0.9) for day in calm]
    assert find_violations(slower) == [
        "a tick with nothing due takes 0.9 ms in the last week, 0.4 ms in the first"
    ]


def test_memory_that_grows_after_the_lab_begins_to_forget_is_found(day_rows):
    month = [replace(day_rows[0], number=number, memory_mib=40.0 + number) for number in range(1, 31)]
    assert find_violations(month) == ["70 MiB, 56 on day 16"]


def test_the_command_refuses_a_ledger_that_is_there(tmp_path):
    path = tmp_path / "ledger.db"
    path.touch()
    result = CliRunner().invoke(month, ["--keep", str(path)])
    assert result.exit_code == 1
    assert f"{path} exists: name a new file" in result.output


@pytest.mark.parametrize("missed", [0, 1])
def test_the_command_prints_a_row_a_day_and_names_what_is_broken(day_rows, monkeypatch, missed):
    monkeypatch.setattr(
        command, "run", lambda *_, **__: [day_rows[0], replace(day_rows[1], missed_ticks=missed)]
    )
    result = CliRunner().invoke(month, ["--days", "2"])
    assert result.exit_code == missed
    assert "2 days, 2,880 ticks" in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert ("broken: day 2: 1 ticks missed" in result.output) is bool(missed)
    result = CliRunner().invoke(month, ["--days", "2", "--json"])
    document = json.loads(result.output)
    assert document["schema"] == "burstwatch.lab.month/v1"
    assert [day["number"] for day in document["days"]] == [1, 2]

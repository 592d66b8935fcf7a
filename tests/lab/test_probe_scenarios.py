"""``burstlab probe-scenarios``: what it counts, what it prints, and that nothing of it is left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from burstlab.main import main
from burstlab.probe_scenarios.all_scenarios import SCENARIOS
from burstlab.probe_scenarios.table import (
    BEGIN,
    END,
    HEALTHY,
    UNHEALTHY,
    ProbeRun,
    Result,
    count_results,
    format_lines,
    replace_table,
    summarise_runs,
    to_markdown,
)
from support.lab.disk_support import BURSTLAB, environment, require_throttled_disk
from support.paths import ROOT
from support.waiting import wait_until

PAGE = ROOT / "docs" / "ddprobe-scenarios.md"


def a_seen(verdict="ok", code=0, **changes):
    values = {"cause": verdict, "duration_s": 1.0, "truth": UNHEALTHY} | changes
    return ProbeRun(verdict=verdict, code=code, **values)


def a_result(**changes):
    values = {"name": "stall", "scenario": "Total stall", "expected": "CRIT", "got": "CRIT, exit 2"}
    return Result(**(values | {"held": True} | changes))


def invoke(*arguments):
    return CliRunner().invoke(main, ["probe-scenarios", *arguments])


@pytest.mark.parametrize(
    ("row", "false_ok", "false_crit"),
    [
        (a_seen("ok", 0), True, False),
        (a_seen("ok", 0, truth=HEALTHY), False, False),
        (a_seen("ok", 0, truth=None), False, False),
        (a_seen("warn", 0), True, False),
        (a_seen("", 0), True, False),
        (a_seen("unknown", 3), False, False),
        (a_seen("crit", 2), False, False),
        (a_seen("crit", 2, truth=HEALTHY), False, True),
        (a_seen("warn", 1, truth=HEALTHY), False, False),
        (a_seen("warn", 1, is_about_tested_disk=False), False, True),
        (a_seen("", None), False, False),
    ],
)
def test_an_answer_is_false_if_the_truth_is_the_opposite_or_it_is_about_another_disk(
    row, false_ok, false_crit
):
    assert (row.is_false_ok, row.is_false_crit) == (false_ok, false_crit)


def test_the_summary_counts_rows_and_false_answers():
    results = [
        a_result(false_ok=2, processes_left=1),
        a_result(held=False, false_crit=1, processes_left=4),
        a_result(held=None, got="needs mkfs.btrfs"),
    ]
    assert count_results(results) == {
        "scenarios": 3,
        "as_expected": 1,
        "not_as_expected": 1,
        "not_run": 1,
        "false_ok": 2,
        "false_crit": 1,
        "processes_left": 5,
    }


def test_lines_fit_a_terminal_and_show_what_was_not_as_expected():
    table = format_lines([a_result(), a_result(held=False, got="OK, exit 0 " * 30)])
    assert table[0] == "yes     stall"
    assert table[1] == "NO      stall"
    assert "OK, exit 0" in table[2]
    assert max(map(len, table)) <= 80


def test_runs_with_the_same_result_are_counted():
    thirty = [a_seen("crit", 2, cause="stalled", duration_s=float(took_s)) for took_s in range(30)]
    assert summarise_runs(thirty, ["1 left"]) == "30 times CRIT stalled, exit 2; up to 29.0 s; 1 left"
    item = a_seen("crit", 2, cause="throttled", duration_s=20.31, reading={"dd_s": 22.24})
    assert summarise_runs([item], []) == "CRIT throttled (dd 22.2 s), exit 2, 20.3 s"
    assert summarise_runs([a_seen("", None, duration_s=45.0)], []) == "no answer in 45 s"


def test_a_page_keeps_its_words_and_gets_a_new_table():
    table = to_markdown([a_result(got="a | b")], "ddprobe 1.")
    assert "a \\| b | yes |" in table
    page = f"# Title\n\n{BEGIN}\nold\n{END}\n\n## After\n"
    assert replace_table(page, table) == f"# Title\n\n{table.rstrip()}\n\n## After\n"
    assert replace_table("", table) == table
    assert replace_table("# Title\n", table) == f"# Title\n\n{table}"


def test_every_scenario_has_a_name_and_the_page_has_a_row_for_each():
    names = [row.name for row in SCENARIOS]
    assert len(names) == len(set(names))
    assert all(row.description and row.expected for row in SCENARIOS)
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    table = [line.split(" | ")[0].removeprefix("| ") for line in rows]
    assert [row.description for row in SCENARIOS if row.description not in table] == []


def test_a_scenario_that_is_not_known_is_refused_with_where_to_look():
    result = invoke("--only", "healhty")
    assert result.exit_code == 2
    assert "'healhty' is not a scenario; --list shows all" in result.output


def test_the_list_fits_a_terminal_and_needs_no_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    result = invoke("--list")
    assert result.exit_code == 0
    assert len(result.output.splitlines()) == len(SCENARIOS)
    assert max(map(len, result.output.splitlines())) <= 80


def test_without_root_it_reports_that_it_needs_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    result = invoke("--only", "closed")
    assert result.exit_code == 1
    assert "needs root" in result.output
    assert "Traceback" not in result.output


def test_a_probe_that_is_wrong_about_a_real_disk_is_counted(tmp_path):
    """A stand-in for the probe, which says that all is well of every disk."""
    require_throttled_disk("qsd")
    probe = tmp_path / "wrong.py"
    probe.write_text(
        "import json, sys\n"
        "path = sys.argv[sys.argv.index('--json') + 1]\n"
        "open(path, 'a').write(json.dumps({'verdict': 'ok', 'cause': 'ok'}) + '\\n')\n"
    )
    page = tmp_path / "page.md"
    result = invoke(
        *("--only", "healthy-ext4", "--only", "freeze-ext4", "--probe", probe, "--json", "--write", page)
    )
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    counts = {"as_expected": 1, "not_as_expected": 1, "false_ok": 2, "false_crit": 0, "processes_left": 0}
    assert document["summary"] | counts == document["summary"]
    assert [row["held"] for row in document["scenarios"]] == [True, False]
    assert "[2/2] freeze-ext4" in result.stderr
    assert "| Fsfreeze; again, ext4 |" in page.read_text()


def test_the_probe_is_right_about_a_stall_and_leaves_one_writer_at_most():
    require_throttled_disk("qsd")
    result = invoke("--only", "stall-ext4", "--json")
    document = json.loads(result.stdout)
    assert (document["summary"]["false_ok"], document["summary"]["as_expected"]) == (0, 1), result.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopped_in_a_stall_it_leaves_no_disk_cgroup_or_process(tmp_path, number):
    require_throttled_disk("qsd")
    running = subprocess.Popen(
        [*BURSTLAB, "probe-scenarios", "--only", "stall-classic"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        folder = wait_until(lambda: folder_of(running.pid))
        wait_until(lambda: len(inside(folder.name)) > 1)
        running.send_signal(number)
        _, text = running.communicate(timeout=60)
    finally:
        running.kill()
        running.communicate()
    assert "Traceback" not in text
    assert running.returncode == (-number if number == signal.SIGKILL else 128 + number)
    wait_until(lambda: not folder.exists() and not cgroups(folder.name), 30)
    assert str(folder) not in Path("/proc/mounts").read_text()


def folder_of(pid: int) -> Path | None:
    """The folder of the disk that this process made, by its keeper."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            text = Path(f"/proc/{child}/cmdline").read_text().split("\0")
        except (FileNotFoundError, ProcessLookupError):  # it ended since
            continue
        if "burstlab.disk.reaper" in text:
            return Path(text[text.index("burstlab.disk.reaper") + 1])
    return None


def cgroups(name: str) -> list[Path]:
    top = Path("/sys/fs/cgroup")
    return [*top.glob(name), *top.glob(f"*/{name}")]


def inside(name: str) -> list[str]:
    return [pid for cgroup in cgroups(name) for pid in (cgroup / "cgroup.procs").read_text().split()]


def test_it_runs_as_its_page_describes():
    reported = subprocess.run(
        [sys.executable, "-m", "burstlab", "probe-scenarios", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=environment() | {"COLUMNS": "80"},
    ).stdout
    assert "burstlab probe-scenarios --write docs/ddprobe-scenarios.md" in PAGE.read_text()
    assert max(map(len, reported.splitlines())) <= 80

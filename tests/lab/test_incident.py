import json
import os
import signal
import subprocess
from io import StringIO

import pytest
from click.testing import CliRunner
from rich.console import Console

from burstlab.disk.block_device import DiskError
from burstlab.disk.docker import PACKAGES
from burstlab.incident.command import incident, run_incident
from burstlab.incident.live_view import EventReporter, open_view, print_introduction, print_summary, render
from burstlab.incident.run import build_summary, choose_job_commands
from support.lab.disk_support import (
    BURSTLAB,
    environment,
    leftovers_of,
    loop_numbers,
    require_throttled_disk,
    rules_for,
)
from support.waiting import wait_until

BALANCE_PCT = 40
"""The bucket is empty after some ten seconds, and there is time to see the watchdog act before that."""


def test_the_incident_happens_without_the_watchdog_and_not_with_it(tmp_path):
    """One run for all of it: it takes most of a minute."""
    require_throttled_disk()
    lines = Console(file=StringIO(), width=80)
    boards = Console(file=StringIO(), width=80, force_terminal=True, color_system=None)
    picture = tmp_path / "sub" / "incident.png"
    reporter = EventReporter()
    print_introduction(lines, speed=240, balance_pct=BALANCE_PCT)
    with open_view(lines) as show:

        def show_both(stage):
            show(stage)
            reporter.new_events(stage)
            if int(stage.elapsed_s * 10) % 20 == 0:
                boards.print(render(stage, reporter.events))

        stage = run_incident(
            backend="auto",
            speed=240,
            balance_pct=BALANCE_PCT,
            jobs="built-in",
            picture=picture,
            directory=tmp_path,
            show=show_both,
        )
    print_summary(lines, stage)
    text, screen_text = lines.file.getvalue(), boards.file.getvalue()
    measured = json.loads(json.dumps(build_summary(stage)))
    unwatched, watched = (measured["twins"][name] for name in ("alone", "watched"))
    the_bucket_empties_and_a_job_takes_many_times_as_long(unwatched)
    ddprobe_reports_seconds_and_names_who_is_stuck(unwatched)
    the_watchdog_let_in_flips_it_and_the_loop_recovers(measured, unwatched)
    watched_from_the_start_it_is_flipped_before_and_never_empty(unwatched, watched)
    the_output_fits_80_columns_and_has_the_whole_history(text, screen_text)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert leftovers_of(tmp_path) == []


def the_bucket_empties_and_a_job_takes_many_times_as_long(unwatched):
    # 30 times where nothing else is slow: 3,000 IOPS become 100. A busy machine is slow before or after, too.
    job_s = unwatched["job_s"]
    assert unwatched["dry_s"] > 5
    assert job_s["before"]["jobs"] >= 3
    assert job_s["in"]["median"] > 10 * min(
        job_s[unthrottled]["median"] for unthrottled in ("before", "after")
    )
    assert job_s["in"]["median"] == pytest.approx(10, rel=0.5)


def ddprobe_reports_seconds_and_names_who_is_stuck(unwatched):
    stuck = unwatched["probe"]["in"]
    assert "crit" in stuck["verdicts"]
    assert stuck["most_s"] >= 5
    assert "throttled" in stuck["causes"]
    assert "ci-alone" in {group["comm"] for group in stuck["tasks"]}
    assert all(group["wchan"] for group in stuck["tasks"])
    assert "crit" not in unwatched["probe"]["before"]["verdicts"]


def the_watchdog_let_in_flips_it_and_the_loop_recovers(measured, unwatched):
    assert unwatched["dry_s"] < measured["let_in_s"] <= unwatched["flip"]["asked_s"] + 1
    assert unwatched["flip"]["target"] == "gp3, 3,000 IOPS"
    assert unwatched["job_s"]["after"]["jobs"] >= 5
    assert unwatched["job_s"]["after"]["median"] < unwatched["job_s"]["in"]["median"] / 5
    assert "crit" not in unwatched["probe"]["after"]["verdicts"]


def watched_from_the_start_it_is_flipped_before_and_never_empty(unwatched, watched):
    assert watched["dry_s"] is None
    assert watched["flip"]["asked_s"] < watched["flip"]["reached_s"] < unwatched["dry_s"] + 5
    assert watched["job_s"]["in"]["jobs"] == 0
    assert watched["job_s"]["after"]["median"] < unwatched["job_s"]["in"]["median"] / 5


def the_output_fits_80_columns_and_has_the_whole_history(reported, boards):
    assert max(map(len, (reported + boards).splitlines())) <= 80
    for phrase in (
        "alone: the bucket is empty",
        "alone: ddprobe CRIT, throttled",
        "alone: somebody tags it burstwatch:mode=auto",
        "alone: ModifyVolume to gp3, 3,000 IOPS",
        "watched: it is gp3, 3,000 IOPS",
        "bucket empty",
        "times the usual",
        "Watched, it was flipped",
    ):
        assert phrase in reported
    assert "no watchdog" in boards
    assert "in state D" in boards


def test_jobs_are_containers_of_docker_where_it_runs_then_of_podman_then_built_in(containers):
    devices = ["one", "two"]
    assert choose_job_commands(devices, "auto") == ("built-in", [(), ()])
    containers["prepare_docker_job"].add("one")  # the same on both, or the story compares nothing
    containers["prepare_podman_job"].update(devices)
    assert choose_job_commands(devices, "auto") == (
        "podman",
        [("prepare_podman_job", "one", "False"), ("prepare_podman_job", "two", "False")],
    )
    assert choose_job_commands(devices, "podman")[1][0] == ("prepare_podman_job", "one", "True")
    containers["prepare_docker_job"].add("two")
    assert choose_job_commands(devices, "auto")[0] == "docker"
    assert choose_job_commands(devices, "built-in") == ("built-in", [(), ()])


def test_jobs_that_were_requested_and_do_not_run_are_reported_with_what_is_missing(containers):
    with pytest.raises(DiskError, match="prepare_docker_job does not run on one"):
        choose_job_commands(["one"], "docker")


def test_killed_in_the_middle_of_the_incident_it_leaves_nothing_behind(tmp_path):
    require_throttled_disk()
    started = subprocess.Popen(
        [
            *BURSTLAB,
            "incident",
            "--folder",
            str(tmp_path),
            "--balance",
            "20",
            "--picture",
            str(tmp_path / "p.png"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    try:
        reported = wait_until(lambda: _line_with(started, "alone: the bucket is empty"), 60)
        assert reported
        numbers = loop_numbers(tmp_path)
        wait_until(lambda: any("ddprobe.py run" in line for line in leftovers_of(tmp_path)), 20)
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
    wait_until(lambda: leftovers_of(tmp_path) == [], 60)
    assert rules_for(numbers) == []
    assert not (tmp_path / "p.png").exists()


def _line_with(process, text):
    line = process.stdout.readline()
    assert line, "it ended before"
    return text in line


def test_without_root_it_reports_that_and_makes_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    result = CliRunner().invoke(incident, ["--picture", str(tmp_path / "sub" / "p.png")])
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: a throttled disk needs root (loop device, mount): run it with sudo\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_reported_before_anything_is_built(tmp_path):
    require_throttled_disk()
    (tmp_path / "file").touch()
    result = CliRunner().invoke(
        incident, ["--picture", str(tmp_path / "file" / "p.png"), "--folder", str(tmp_path)]
    )
    assert result.exit_code == 1
    assert "give --picture another place" in result.stderr
    assert leftovers_of(tmp_path) == []


@pytest.mark.parametrize("options", [["--balance", "5"], ["--speed", "10"], ["--backend", "tape"]])
def test_bad_input_is_reported_with_its_range(options):
    result = CliRunner().invoke(incident, options)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


def test_missing_docker_is_reported_before_the_scenario_begins(monkeypatch, tmp_path):
    require_throttled_disk()
    monkeypatch.setitem(PACKAGES, "a-daemon-that-is-not-here", "docker.io")
    result = CliRunner().invoke(incident, ["--jobs", "docker", "--picture", str(tmp_path / "p.png")])
    assert result.exit_code == 1
    assert result.output.startswith("Error: Docker's containers need ")
    assert len(result.output.splitlines()) == 1

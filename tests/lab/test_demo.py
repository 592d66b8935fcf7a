import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from io import StringIO
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from rich.console import Console

from burstlab.demo.command import demo, run_demo
from burstlab.demo.live_view import _render, open_view, print_introduction, print_summary
from burstlab.demo.picture import _outcome_lines
from burstlab.demo.watchdogs import Notification
from burstwatch.core.assessment.severity import Level

BURSTLAB = [sys.executable, "-c", "from burstlab.main import main; main()"]
HOURS = 4.9
"""Until 20:54: the last volume of the story is gp2 again."""


def at(clock):
    return datetime.fromisoformat(f"2026-11-20T{clock}Z").timestamp()


def test_the_demo_runs_its_scenario(tmp_path):
    """One run for all of it: it takes seconds."""
    lines = Console(file=StringIO(), width=80)
    boards = Console(file=StringIO(), width=80, force_terminal=True, color_system=None)
    picture = tmp_path / "sub" / "demo.png"
    print_introduction(lines, hours=HOURS, seconds=0)
    with open_view(lines) as show:

        def show_both(stage):
            show(stage)
            if stage.ticks % 5 == 0:
                boards.print(_render(stage))

        stage = run_demo(hours=HOURS, seconds=0, picture=picture, show=show_both)
    print_summary(lines, stage)
    role = {role.spec.name: role for role in stage.runs}.__getitem__
    the_observed_twin_hits_the_wall_and_the_automatic_one_does_not(stage, role)
    volumes_of_the_window_are_on_their_target_when_it_starts_and_returned_after(stage, role)
    each_flip_back_is_verified(stage, role)
    a_hold_is_respected_though_the_credits_run_out_and_people_know_before(stage, role)
    the_spend_cap_refuses_until_another_volume_is_back(role)
    a_critical_volume_leaves_burst_storage_with_the_first_tick(role)
    a_silent_volume_is_reported_and_a_large_one_left_alone(role)
    a_flip_costs_its_time_on_the_target(role)
    the_credits_of_the_instance_are_named_an_hour_before_they_run_out(stage, role)
    the_file_system_is_changed_by_the_command_in_its_alert(stage, role)
    the_database_empties_at_its_batch_and_was_announced(role)
    an_exhausted_volume_that_was_not_empty_is_described_as_that(role)
    the_output_fits_80_columns_and_reports_what_was_done(stage, lines.file.getvalue(), boards.file.getvalue())
    assert picture.read_bytes().startswith(b"\x89PNG")


def the_observed_twin_hits_the_wall_and_the_automatic_one_does_not(stage, role):
    observed, automatic = role("ci-docker-7"), role("ci-docker-8")
    # 5,400,000 credits / (460 - 100) per s = 15,000 s after 16:00
    assert observed.history.empty_at_s == pytest.approx(at("20:10"), abs=2)
    assert observed.history.stalled_s == pytest.approx(at("20:54") - at("20:10"), abs=2)
    assert not [message for message in stage.watchdog.notifications if observed.spec.name in message.headline]
    assert (automatic.history.empty_at_s, automatic.history.stalled_s, automatic.history.lost_ops) == (
        None,
        0,
        0,
    )
    assert automatic.unwatched.empty_at_s == observed.history.empty_at_s
    [interval] = automatic.target_intervals
    assert interval.reached_at_s < observed.history.empty_at_s
    assert interval.is_permanent
    assert automatic.current_type == "gp3"


def volumes_of_the_window_are_on_their_target_when_it_starts_and_returned_after(stage, role):
    for name, kind in (("orders-db", "gp3"), ("orders-log", "io2")):
        [interval] = role(name).target_intervals
        out, back = stage.endpoint.fleet.modifications(role(name).volume_id)
        assert (out.target.volume_type, out.state) == (kind, "completed")
        assert out.ended_at <= datetime(2026, 11, 20, 18, tzinfo=UTC)
        assert interval.reached_at_s <= at("18:00")
        assert interval.return_requested_at_s >= at("20:00")
        assert back.target.volume_type == "gp2"
        assert role(name).unwatched.empty_at_s < at("19:00")
        assert role(name).history.empty_at_s is None


def each_flip_back_is_verified(stage, role):
    for name in ("nightly", "orders-log"):
        [interval] = role(name).target_intervals
        kinds = [str(entry.kind) for entry in role(name).entries]
        reported = [kind for kind in kinds if kind in ("accepted", "reached", "restored")]
        assert reported == ["accepted", "reached", "accepted", "restored"]
        assert (
            interval.requested_at_s
            < interval.reached_at_s
            < interval.return_requested_at_s
            < interval.restored_at_s
        )
        volume = stage.endpoint.fleet.find(role(name).volume_id)
        assert (volume.volume_type, [m.state for m in volume.modifications]) == ("gp2", ["completed"] * 2)


def a_hold_is_respected_though_the_credits_run_out_and_people_know_before(stage, role):
    held = role("reports")
    assert [(refused.guard, refused.reason) for refused in held.refused_flips] == [
        ("held", "it is on hold by anna: audit snapshot running")
    ]
    assert not held.target_intervals
    assert held.history.empty_at_s == held.unwatched.empty_at_s
    assert held.warning_time_s > 8 * 60


def the_spend_cap_refuses_until_another_volume_is_back(role):
    capped = role("search")
    [refused] = capped.refused_flips
    [interval] = capped.target_intervals
    assert refused.guard == "spend_cap"
    assert interval.requested_at_s >= role("nightly").target_intervals[0].restored_at_s > refused.at_s
    assert capped.history.empty_at_s is None


def a_critical_volume_leaves_burst_storage_with_the_first_tick(role):
    [interval] = role("etcd-0").target_intervals
    assert (interval.requested_at_s, interval.is_permanent) == (at("16:01"), True)


def a_silent_volume_is_reported_and_a_large_one_left_alone(role):
    assert role("silent").state.reading.unknown_reason == "telemetry_gap"
    assert not role("silent").target_intervals
    assert role("lake").entries == []


def a_flip_costs_its_time_on_the_target(role):
    nightly = role("nightly")
    [interval] = nightly.target_intervals
    # io1: 100 GiB x $0.125 + 2,188 IOPS x $0.065 = $154.72 a month, gp2: $10
    per_s = 144.72 / 730 / 3600
    assert interval.target.iops == 2_188
    assert nightly.history.extra_usd() == pytest.approx(
        per_s * (interval.return_requested_at_s - interval.requested_at_s)
    )
    assert nightly.unwatched.extra_usd() == 0


def the_credits_of_the_instance_are_named_an_hour_before_they_run_out(stage, role):
    instance = role("api-1")
    # m7g.large: 30 min at 40,000 - 3,600 per s, drained by 10,000 - 3,600 per s, is 10,237 s after 16:00
    assert instance.history.empty_at_s == pytest.approx(at("18:50:37"), abs=2)
    assert instance.history.stalled_s == pytest.approx(at("20:54") - at("18:50:37"), abs=2)
    assert instance.warning_time_s > 60 * 60
    headlines = [message.headline for message in stage.watchdog.notifications]
    assert "WARNING: api-1 EBS I/O credits: empty in about 71 min" in headlines
    assert not any("api-1-data" in headline for headline in headlines)


def the_file_system_is_changed_by_the_command_in_its_alert(stage, role):
    home = role("shared-home")
    # half of 2.1 TiB and 75 idle minutes of 2.83 MiB/s, drained by 90 - 2.83 per s: 12,777 s after 16:00
    assert home.unwatched.empty_at_s == pytest.approx(at("19:32:57"), abs=2)
    assert home.first_alert.at_s == at("17:06")
    assert (home.changed_at_s, home.changed_to) == (at("18:36"), "provisioned, 90 MiB/s")
    assert (home.history.empty_at_s, home.history.stalled_s) == (None, 0)
    assert home.unwatched.stalled_s > 80 * 60
    assert stage.endpoint.fleet.file_systems.find(home.spec.file_system_id).mode == "provisioned"
    headlines = [message.headline for message in stage.watchdog.notifications]
    assert "RECOVERED: shared-home" in headlines


def the_database_empties_at_its_batch_and_was_announced(role):
    database = role("db:invoices")
    # 5,400,000 credits / (2,500 - 300) per s = 2,455 s after 18:00
    assert database.history.empty_at_s == pytest.approx(at("18:40:55"), abs=2)
    assert database.history.stalled_s == pytest.approx(at("20:00") - at("18:40:55"), abs=2)
    assert database.warning_time_s > 25 * 60


def an_exhausted_volume_that_was_not_empty_is_described_as_that(role):
    first, second, *_ = [text for text, _ in _outcome_lines(role("nightly"))]
    assert re.fullmatch(r"1 % or less, \d+ min", first)
    assert second == "but never empty"
    assert [text for text, _ in _outcome_lines(role("lake"))] == ["never empty"]


def test_alerts_of_one_tick_are_printed_in_the_order_of_their_times():
    console = Console(file=StringIO(), width=80)
    notifications = [
        Notification(at_s=at("20:06"), headline="RECOVERED: db", level=Level.OK),
        Notification(at_s=at("20:05"), headline="FLIPPED: web", level=Level.OK),
    ]
    with open_view(console) as show:
        show(SimpleNamespace(watchdog=SimpleNamespace(notifications=notifications)))
    assert console.file.getvalue() == "20:05  FLIPPED: web\n20:06  RECOVERED: db\n"


def the_output_fits_80_columns_and_reports_what_was_done(stage, lines, boards):
    assert max(map(len, (lines + boards).splitlines())) <= 80
    assert "…" not in boards.split("alerts")[0]
    assert "left alone: empty 18:02, stalled 57 min" in " ".join(lines.split())
    for phrase in (
        ": reports was not flipped",
        "became empty                  20:10          never",
        "search, spend_cap: it would add $39.09 a month",
        "Watched, 2 of 12 volumes became empty",
        "What no chart of a volume shows",
        "empty 18:50, stalled 2 h 03 min; announced 70 min before",
        "changed by hand 18:36: provisioned, 90 MiB/s; left alone: empty 19:32,",
        "empty 18:40, stalled 79 min; announced 27 min before",
    ):
        assert phrase in lines
    assert f"{stage.api_calls['ModifyVolume']} ModifyVolume" in " ".join(lines.split())


def test_the_command_ends_well_and_names_the_path_of_the_picture(tmp_path):
    picture = tmp_path / "demo.png"
    result = CliRunner().invoke(demo, ["--hours", "0.2", "--seconds", "0", "--picture", str(picture)])
    assert result.exit_code == 0, result.output
    assert result.output.endswith(f"The picture: {picture}\n")
    assert "What was refused" not in result.output


def test_a_place_that_cannot_be_written_is_reported_with_the_way_out(tmp_path):
    (tmp_path / "file").touch()
    picture = tmp_path / "file" / "demo.png"
    result = CliRunner().invoke(demo, ["--hours", "0.1", "--seconds", "0", "--picture", str(picture)])
    assert result.exit_code == 1
    assert "give --picture another place" in result.output


def test_ctrl_c_ends_it_without_a_trace():
    started = subprocess.Popen(
        [*BURSTLAB, "demo", "--seconds", "3600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        while "FLIPPED: etcd-0" not in started.stdout.readline():
            assert started.poll() is None
        started.send_signal(signal.SIGINT)
        _, errors = started.communicate(timeout=60)
        assert (started.returncode, errors) == (130, "")
    finally:
        started.kill()
        started.communicate()

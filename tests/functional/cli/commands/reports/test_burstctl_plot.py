"""burstctl plot: a volume of the lab as text, PNG, SVG and JSON, and the message if there is no history."""

import re
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
import zlib
from datetime import timedelta
from itertools import pairwise

import pytest

from burstctl.cli import output
from burstlab.fake_aws.faults import Fault
from burstwatch.core.assessment.host_stall import Stall
from burstwatch.core.text import display_width
from support.cli.cli_session import (
    START,
    add_calm,
    add_critical,
    add_exhausted,
    add_lab_volume,
    add_warning,
    count_modify_calls,
    run_on_terminal,
    start_lab,
)

HOUR_S = 3600
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = "$\\frac{x}{ </svg><script>alert(1)</script> \u202e名前\u200b"


def flip_and_return(cli, lab) -> str:
    """To io1 at 18:00, seen there at 19:00, returned at 20:00, and seen to be gp2 again at 21:00."""
    volume_id = add_lab_volume(lab, "ci-7", "steady:400", balance_pct=80, minutes=180)
    cli.run("flip", volume_id, "--to", "io1", "--iops", "1000", "--yes")
    lab.clock.advance(HOUR_S)
    cli.run("watch", "--once")
    lab.clock.advance(HOUR_S)
    cli.run("flip-back", volume_id, "--yes")
    lab.clock.advance(HOUR_S)
    cli.run("watch", "--once")
    return volume_id


def marks_in(document) -> str:
    return "".join(mark["letter"] for mark in document["marks"])


def lane_line(result, label) -> str:
    [row] = [line for line in result.out.splitlines() if line.startswith(label)]
    return row[7:]


def test_a_draining_volume_with_its_forecast_in_text(cli, lab):
    volume_id = add_warning(lab, instance_id="i-0123456789abcdef0")

    result = cli.run("plot", volume_id)

    assert result.code == 0, "attention is for assess and watch"
    lines = result.out.splitlines()
    assert lines[0].startswith(f"{volume_id} (build-3), gp2, 100 GiB, on i-0123456789abcdef0")
    assert lines[1] == "warning: 41.0 % at 17:59, empty in 40 min (18:40), not before 18:12 UTC"
    assert lines[2] == "last 6h: lowest 41.0 % at 17:58, busiest 1,200/s at 17:40, 25 % reads"
    assert "baseline 300" in result.out
    assert "burst 3,000" in result.out
    assert "●" in result.out
    assert "no datapoint" in result.out, "it lives since 17:40, and the hours before are no health"
    assert max(map(display_width, lines)) <= 80
    assert len(lines) < 24


def test_it_is_read_only_and_costs_three_metrics(cli, lab):
    volume_id = add_critical(lab)

    document = cli.run("plot", volume_id, "--json").document

    # one look, as explain takes it (balance, reads, writes), and the same three over six hours
    assert document["metrics_requested"] <= 6
    assert document["api_calls"]["cloudwatch:GetMetricData"] <= 3
    assert count_modify_calls(lab) == 0
    assert not cli.ledger_path.exists()


def test_its_forecast_is_that_of_assess(cli, lab):
    volume_id = add_warning(lab)

    [volume] = cli.run("assess", volume_id, "--json").document["volumes"]
    forecast = cli.run("plot", volume_id, "--json").document["forecast"]

    assert forecast["from_pct"] == volume["burst_balance_pct"]
    assert forecast["time_to_empty_at"] == "2026-11-20T18:40:00Z"
    assert forecast["soonest_empty_at"] == "2026-11-20T18:12:40Z"
    # 18:40 is 2,400 s away, 18:12:40 is 760 s
    assert (volume["time_to_empty_s"], volume["soonest_empty_s"]) == (2400, 760)


def test_a_volume_that_was_flipped_and_came_back(cli, lab):
    volume_id = flip_and_return(cli, lab)

    result = cli.run("plot", volume_id)
    document = cli.run("plot", volume_id, "--json").document

    assert "FTBG" in lane_line(result, "EVENT").replace(" ", "")
    assert lane_line(result, "FLIP").split() == ["to", "io1>io1----back<<<"]
    assert "flipped" in result.out
    [flip] = document["flips"]
    assert flip["asked_at"] == "2026-11-20T18:00:00Z"
    assert flip["reached_at"] == "2026-11-20T19:00:00Z"
    assert flip["back_asked_at"] == "2026-11-20T20:00:00Z"
    assert flip["restored_at"] == "2026-11-20T21:00:00Z"
    assert flip["target"] == {"volume_type": "io1", "iops": 1000, "throughput_mib_s": None}
    assert {absence["reason"] for absence in document["absences"]} == {"flipped"}
    assert [limit["most_iops"] for limit in document["limits"]] == [3000, 1000, 3000]
    assert marks_in(document) == "FTBG"


def test_a_flip_without_the_watchdog_is_taken_from_aws(cli, lab):
    volume_id = add_warning(lab)
    lab.client("ec2").modify_volume(VolumeId=volume_id, VolumeType="gp3", Iops=3000, Throughput=125)
    lab.clock.advance(HOUR_S)

    document = cli.run("plot", volume_id, "--json").document

    [flip] = document["flips"]
    assert (flip["by"], flip["target"]["volume_type"]) == ("others", "gp3")
    assert document["absences"][-1]["reason"] == "flipped"


def test_windows_holds_stalls_refusals_and_alerts_are_on_lanes_and_in_the_list(cli, lab):
    (cli.directory / "policy.yaml").write_text(
        "version: 1\nwindows:\n  nightly: {cron: '0 16 * * *', zone: UTC, duration: 90m}\n  release:\n"
    )
    tags = {"burstwatch:window": "nightly release", "burstwatch:mode": "auto"}
    volume_id = add_exhausted(lab, tags=tags, minutes=200, instance_id="i-0123456789abcdef0")
    cli.run("hold", volume_id, "--for", "6h", "--reason", "snapshot", "--ledger", f"sqlite:{cli.ledger_path}")
    cli.run("window", "start", "release", "--for", "1h", "--yes")
    cli.run("watch", "--act", "--once")
    report_a_stall(cli, volume_id)
    lab.clock.advance(600)

    result = cli.run("plot", volume_id)

    assert set(lane_line(result, "LEVEL")) == {" ", "@"}, (
        "dry for hours before the first look, it never was ok"
    )
    assert "[nightly" in lane_line(result, "WINDOW")
    assert re.search(r"\[\w+-*\]$", lane_line(result, "HOLD"))
    assert "!" in lane_line(result, "HOST")
    assert set("HXES") <= set(lane_line(result, "EVENT"))
    listed = [line for line in result.out.splitlines() if re.match(r"\d\d:\d\d . ", line)]
    assert any("was not flipped" in line and "held" in line for line in listed)
    assert "hold: " in result.err
    document = cli.run("plot", volume_id, "--json").document
    assert [(window["window"], window["by_hand"]) for window in document["windows"]] == [
        ("nightly", False), ("release", True),
    ]  # fmt: skip
    assert document["windows"][0]["starts_at"] == "2026-11-20T16:00:00Z"
    assert document["holds"][0]["reason"] == "snapshot"
    assert document["stalls"][0]["cause"] == "the bucket is empty"


def report_a_stall(cli, volume_id):
    """What ddprobe's event would bring to the deployed watchdog."""
    from burstctl.cli.options import Options  # noqa: PLC0415
    from burstctl.context.context import open_watch  # noqa: PLC0415
    from burstwatch.engine.event_pass import ingest_host_reports  # noqa: PLC0415

    with open_watch(Options(), {}) as desk_of_watchdog:
        shell = desk_of_watchdog.services
        stall = Stall(
            instance_id="i-0123456789abcdef0", volume_id=volume_id, verdict="CRIT",
            cause="the bucket is empty", total_s=82.0, started_at_s=int(shell.clock()) - 120,
        )  # fmt: skip
        assert not ingest_host_reports(shell, [stall], now_s=shell.clock()).refused


def test_a_gap_in_the_middle_is_shown_and_not_bridged(cli, lab):
    volume_id = add_calm(lab, minutes=400)
    lab.fleet.hide_metrics(
        volume_id, from_at=START - timedelta(minutes=180), to_at=START - timedelta(minutes=120)
    )

    document = cli.run("plot", volume_id, "--json").document

    assert document["absences"] == [
        {"starts_at": "2026-11-20T15:00:00Z", "ends_at": "2026-11-20T16:00:00Z", "reason": "gap"}
    ]
    starts = [at_s for at_s, _ in document["series"]["burst_balance_pct"]]
    assert max(b - a for a, b in pairwise(starts)) == 3660


@pytest.mark.parametrize(("last", "period_s"), [("15m", 60), ("14d", 60), ("15d", 300), ("63d", 3600)])
def test_older_data_is_coarser(cli, lab, last, period_s):
    volume_id = add_lab_volume(lab, "ci", "ci-day", minutes=3 * 1440)

    document = cli.run("plot", volume_id, "--last", last, "--json").document

    assert document["period_s"] == period_s
    starts = [at_s for at_s, _ in document["series"]["served_iops"]]
    assert {at_s % period_s for at_s in starts} == {0}
    assert max(starts) + period_s <= START.timestamp()
    assert cli.run("plot", volume_id, "--last", last).code == 0


def test_an_ignored_volume_is_drawn_and_not_judged(cli, lab):
    volume_id = add_warning(lab, tags={"burstwatch:ignore": "true"})

    result = cli.run("plot", volume_id)

    assert result.code == 0
    assert result.out.splitlines()[1] == "ignored by tag, so nothing is decided about it, 41.0 % at 17:59"
    assert "●" not in result.out


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"volume_type": "gp3"}, "is gp3 and had no other type in the last 6h: it has no burst credits"),
        ({"attached": False}, "has no datapoint of"),
    ],
)
def test_an_empty_plot_explains_why(cli, lab, facts, message):
    result = cli.run("plot", add_calm(lab, **facts))

    assert (result.code, result.out) == (1, "")
    [complaint] = result.error_lines
    assert message in complaint
    assert "\n  fix: " in result.err
    assert "--last" in result.err


def test_a_volume_that_does_not_exist(cli, lab):
    result = cli.run("plot", "vol-0123456789abcdef0", "--json")

    assert (result.code, result.out) == (1, "")
    assert "no volume vol-0123456789abcdef0 in us-east-1" in result.error_lines[0]


@pytest.mark.parametrize("action", ["DescribeVolumes", "GetMetricData"])
def test_missing_aws_data_is_reported_and_nothing_is_drawn(cli, lab, action):
    volume_id = add_calm(lab)
    lab.faults.add(Fault(action=action, code="UnauthorizedOperation"))

    result = cli.run("plot", volume_id)

    assert (result.code, result.out) == (1, "")
    assert "could not be read" in result.error_lines[0]
    assert "Traceback" not in result.err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ci-7.pdf", "--to ci-7.pdf names no kind of picture. fix: give a name that ends in .png or .svg"),
        ("ci-7", "--to ci-7 names no kind of picture. fix: give a name that ends in .png or .svg"),
        ("there.png", "--to there.png is a directory. fix: name a file in it"),
        ("nowhere/ci-7.png", "there is no directory nowhere. fix: create it first"),
    ],
)
def test_an_impossible_file_is_refused_before_a_call_to_aws(cli, lab, name, message):
    (cli.directory / "there.png").mkdir()

    result = cli.run("plot", add_calm(lab), "--to", name)

    assert result.code == 2
    assert message in " ".join(result.err.split())
    assert lab.faults.call_counts() == {}


def test_without_matplotlib_the_error_names_the_package_and_the_alternatives(cli, lab, monkeypatch):
    volume_id = add_calm(lab)
    monkeypatch.setitem(sys.modules, "burstctl.plot.matplotlib_plot", None)

    result = cli.run("plot", volume_id, "--to", "ci-7.png")

    assert result.code == 2
    assert "--to needs matplotlib" in result.error_lines[0]
    assert "fix: leave --to out" in result.err
    assert "py3-none-any.whl[pictures]', or '.[pictures]' in a checkout" in result.err
    assert cli.run("plot", volume_id).code == 0


def test_a_file_that_cannot_be_written_leaves_what_was_there(cli, lab, monkeypatch):
    volume_id, path = add_calm(lab), cli.directory / "ci-7.png"
    path.write_bytes(b"yesterday's")

    def raise_disk_full(_path, _data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", raise_disk_full)
    result = cli.run("plot", volume_id, "--to", path)

    assert result.code == 1
    assert "ci-7.png could not be written (No space left on device)" in result.error_lines[0]
    assert path.read_bytes() == b"yesterday's"
    assert [item.name for item in cli.directory.iterdir() if "ci-7" in item.name] == ["ci-7.png"]


def size_of_png(data) -> tuple[int, int]:
    """Width and height; every chunk's checksum is right."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    place = 8
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        body = data[place + 4 : place + 8 + length]
        assert struct.unpack(">I", data[place + 8 + length : place + 12 + length])[0] == zlib.crc32(body)
        place += 12 + length
    return struct.unpack(">II", data[16:24])


def test_a_picture_as_png_is_written_whole_and_the_same_each_time(cli, lab):
    volume_id = flip_and_return(cli, lab)

    result = cli.run("plot", volume_id, "--to", "ci-7.PNG")
    second_result = cli.run("plot", volume_id, "--to", "again.png", "--json")

    assert (result.code, result.out) == (0, "")
    assert re.search(r"^wrote ci-7.PNG, \d+ KiB$", result.err, re.MULTILINE)
    drawn = (cli.directory / "ci-7.PNG").read_bytes()
    width, height = size_of_png(drawn)
    assert (width, height > 800) == (1725, True)
    assert second_result.document["volume_id"] == volume_id
    assert (cli.directory / "again.png").read_bytes() == drawn


def test_a_picture_as_svg_is_one_drawing_in_which_nothing_can_act(cli, lab):
    volume_id = add_critical(lab, HOSTILE)

    result = cli.run("plot", volume_id, "--to", "hostile.svg")

    assert result.code == 0
    text = (cli.directory / "hostile.svg").read_text()
    root = ET.fromstring(text)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags & {"script", "foreignObject", "image", "a", "animate"} == set()
    assert "\u202e" not in text
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert f"{volume_id} ($\\frac" in (title.text or "")
    assert "empty in 10 min (18:10), not before 18:10 UTC" in (title.text or "")
    assert "http" not in re.sub(r'(xmlns\S*|href|resource)="[^"]*"|<!DOCTYPE[^>]*>', "", text)


def test_on_a_terminal_it_has_colours_and_without_them_the_same_picture(cli):
    with start_lab(cli) as lab:
        volume_id = add_critical(lab, "ci-7", instance_id="i-0123456789abcdef0")
        coloured = run_on_terminal(cli, "plot", volume_id)
        plain = run_on_terminal(cli, "plot", volume_id, NO_COLOR="1")

    assert "\x1b[1;31mcritical" in coloured
    assert "31m" not in plain
    assert COLOUR.sub("", coloured) == COLOUR.sub("", plain)
    assert max(map(len, COLOUR.sub("", coloured).replace("\r", "").splitlines())) <= 80


def test_when_the_terminal_knows_no_blocks_ascii_draws(cli, lab, monkeypatch):
    volume_id = add_warning(lab)
    monkeypatch.setattr(output, "prepare_streams", lambda: None)

    result = cli.run_in_subprocess("plot", volume_id, env={"PYTHONIOENCODING": "ascii"})

    assert result.code == 0
    assert result.out.isascii()
    assert "#" in result.out


def test_matplotlib_is_not_imported_before_a_picture_is_wanted():
    text = subprocess.run(
        [sys.executable, "-c", "import sys, burstctl.plot.command; print('matplotlib' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert text.stdout == "False\n"

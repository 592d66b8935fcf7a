import json
import os
import re
import socket
import threading
import time

import ddprobe
import pytest

from burstwatch.core.assessment.host_stall import CAUSES, VERDICTS, Stall
from support.probe.sample_readings import a_reading

SAMPLE = re.compile(r'[a-z_]+(\{[a-z_]+="[^"\n]*"(,[a-z_]+="[^"\n]*")*\})? -?[0-9.e+-]+')


def test_the_textfile_is_one_that_node_exporter_takes():
    text = ddprobe.prom_text([a_reading(), a_reading(path="/", mount="/", device="nvme0n1", dd_s=None)])
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in samples)  # and so without timestamps
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert (
        'ddprobe_dd_seconds{mount="/data",device="nvme1n1",volume_id="vol-0123456789abcdef0"} 22.369'
        in samples
    )
    assert sum(line.startswith("ddprobe_dd_seconds") for line in samples) == 1
    assert any(line.startswith("ddprobe_last_run_timestamp_seconds ") for line in samples)
    assert "python3" not in text  # names of tasks are without bound


def test_a_textfile_survives_names_made_to_break_it():
    evil = a_reading(
        mount='/x"} 1\nddprobe_verdict 0', dstate={"most": 1, "top": [{"wchan": 'a"\n', "count": 1}]}
    )
    samples = [line for line in ddprobe.prom_text([evil]).splitlines() if not line.startswith("#")]
    assert not any(line.startswith("ddprobe_verdict 0") for line in samples)
    assert all("} " in line or line.startswith("ddprobe_last_run") for line in samples)


def test_a_textfile_is_replaced_whole_and_readable_by_others(tmp_path):
    path = tmp_path / "ddprobe.prom"
    path.write_text("old")
    ddprobe.replace_file(str(path), "new\n")
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert [receiver.name for receiver in tmp_path.iterdir()] == ["ddprobe.prom"]


def test_a_log_stays_bounded(tmp_path):
    path = tmp_path / "readings.json"
    for number in range(100):
        ddprobe.append_line(str(path), json.dumps({"number": number}), max_bytes=500)
    assert path.stat().st_size <= 520
    assert (tmp_path / "readings.json.1").exists()
    assert json.loads(path.read_text().splitlines()[-1]) == {"number": 99}


def test_collectd_gets_lines_of_its_exec_protocol():
    lines = ddprobe.collectd_text(a_reading(), "ci-7", 30).splitlines()
    assert 'PUTVAL "ci-7/ddprobe-vol-0123456789abcdef0/gauge-dd_seconds" interval=30 N:22.369' in lines


def test_graphite_gets_a_name_a_value_and_a_time_on_each_line():
    lines = ddprobe.graphite_text(a_reading(), "ddprobe").splitlines()
    name, value, at = lines[0].split()
    assert name == "ddprobe.ci-7_example.vol-0123456789abcdef0.dd_seconds"
    assert float(value) == 22.369
    assert abs(int(at) - time.time()) < 5


def test_nagios_gets_one_line_with_performance_data():
    lines = ddprobe.Thresholds(warn_s=1, crit_s=5, ratio=10)
    line = ddprobe.nagios_line(a_reading(), lines)
    assert line.startswith("DDPROBE CRIT /data (vol-0123456789abcdef0): throttled, dd took 22.4 s")
    assert "48 python3 [__iomap_dio_rw]" in line
    assert line.count("|") == 1
    assert "dd=22.369000s;1;5;0" in line
    assert "dd=U;1;5;0" in ddprobe.nagios_line(a_reading(dd_s=None, completed=True), lines)


def test_node_problem_detector_gets_eighty_characters():
    assert len(ddprobe.headline(a_reading(), 80)) == 80


@pytest.mark.parametrize(
    ("style", "codes"),
    [("nagios", [0, 1, 2, 3]), ("npd", [0, 1, 1, 2]), ("cron", [0, 0, 0, 3])],
)
def test_exit_codes_of_each_style(style, codes):
    assert [ddprobe.EXIT_CODES[style][verdict] for verdict in ("ok", "warn", "crit", "unknown")] == codes


def test_a_write_that_failed_is_not_reported_as_one_that_has_not_ended():
    failed = a_reading(verdict="crit", cause="io_error", completed=False, error="EROFS", dd_s=None)
    assert "io_error, a write failed with EROFS" in ddprobe.headline(failed)


def test_a_cause_that_is_unknown_is_reported_as_unknown():
    assert "cause unknown (the disk keeps no counters)" in ddprobe.headline(a_reading(cause="unknown"))


def test_a_stall_draws_no_delay_at_all():
    lines = ddprobe.Thresholds(warn_s=1, crit_s=5, ratio=10)
    line = ddprobe.nagios_line(a_reading(completed=False, io_delay_ms=None, dd_s=5.1), lines)
    assert " io_delay=U;;;0 " in line


def test_what_the_counters_show_is_reported_although_the_write_failed():
    full = a_reading(reached="passive", error="ENOSPC", dd_s=23.5, dd_measured=False)
    assert "throttled, dd would take 23.5 s" in ddprobe.headline(full)


def test_an_estimate_that_is_a_lower_bound_is_reported_as_one():
    bound = a_reading(reached="lite", dd_measured=False, dd_at_least=True, dd_s=0.21)
    assert ", dd would take at least 210 ms" in ddprobe.headline(bound)
    assert "at least" not in ddprobe.headline(bound | {"dd_at_least": False})


def test_without_room_for_a_mib_the_headline_states_that_throughput_was_not_measured():
    no_room = a_reading(dd_measured=False, skipped=["bulk: No space left on device (ENOSPC)"])
    assert "throughput not measured" in ddprobe.headline(no_room)
    assert "throughput" not in ddprobe.headline(no_room | {"dd_measured": True})
    assert "throughput" not in ddprobe.headline(
        a_reading(dd_measured=False, skipped=["classic: again in 9 s"])
    )


def test_of_several_paths_on_one_mount_each_line_names_its_path():
    lines = ddprobe.Thresholds(warn_s=1, crit_s=5, ratio=10)
    first, second = (a_reading(path=path) for path in ("/data/one", "/data/two"))
    assert "CRIT /data (vol-" in ddprobe.nagios_line(first, lines)
    assert "CRIT /data/one (vol-" in ddprobe.nagios_line(first, lines, by_path=True)
    assert "CRIT /data/two (vol-" in ddprobe.headline(second, by_path=True)


def test_of_several_paths_on_one_mount_the_textfile_has_each_series_once_and_the_worst():
    readings = [a_reading(path=f"/data/{verdict}", verdict=verdict) for verdict in ("ok", "crit", "warn")]
    series = [line for line in ddprobe.prom_text(readings).splitlines() if line.startswith("ddprobe_verdict")]
    assert len(series) == 1
    assert series[0].endswith(" 2")


def test_a_slow_start_is_reported():
    assert "started in 10.1 s" in ddprobe.headline(a_reading(startup_ms=10_055.0))


# -- what is sent to the watchdog and to CloudWatch


def test_an_event_keeps_the_contract():
    detail = json.loads(ddprobe.event_detail(a_reading(), "i-0123456789abcdef0"))
    assert detail == {
        "schema": "burstwatch.probe/v1",
        "instance_id": "i-0123456789abcdef0",
        "volume_id": "vol-0123456789abcdef0",
        "verdict": "crit",
        "cause": "throttled",
        "total_s": 22.369,
        "started_at": "2026-11-20T17:59:37.000Z",
        "top": [
            {"comm": "python3", "wchan": "__iomap_dio_rw", "count": 48},
            {"comm": "jbd2/nvme1n1-8", "wchan": "jbd2_journal_commit_transaction", "count": 1},
        ],
    }


def test_the_watchdog_knows_every_verdict_and_cause_that_is_sent():
    assert (ddprobe.WARN, ddprobe.CRIT) == VERDICTS
    assert ddprobe.EVENT_CAUSES == CAUSES


def test_the_watchdog_reads_an_event_as_it_was_meant():
    now_s = time.time()
    reading = a_reading(started_at=ddprobe.format_instant(now_s - 22))
    stall = Stall.from_detail(json.loads(ddprobe.event_detail(reading, "i-0123456789abcdef0")), now_s=now_s)
    assert (stall.verdict, stall.cause, stall.total_s) == ("crit", "throttled", 22.369)
    assert [task.count for task in stall.top] == [48, 1]


def test_an_event_of_a_look_without_a_write_claims_no_write():
    detail = json.loads(ddprobe.event_detail(a_reading(total_s=None, dd_s=23.5), "i-0123456789abcdef0"))
    assert detail["total_s"] is None
    assert (
        Stall.from_detail(
            detail | {"started_at": ddprobe.format_instant(time.time())}, now_s=time.time()
        ).total_s
        is None
    )


def test_an_event_has_at_most_four_kilobytes_and_loses_its_rarest_tasks_first():
    top = [{"comm": "\u2603" * 64, "wchan": "w" * 64, "count": 100 - n} for n in range(50)]
    detail = ddprobe.event_detail(a_reading(dstate={"most": 50, "top": top}), "i-0")
    assert len(detail.encode()) <= 4096
    tasks = json.loads(detail)["top"]
    assert [task["count"] for task in tasks] == [100 - n for n in range(len(tasks))]


def test_an_event_goes_out_on_a_change_and_then_every_five_minutes(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(ddprobe.time, "monotonic", lambda: now[0])
    event_filter = ddprobe.EventFilter()
    crit, other = a_reading(), a_reading(cause="stalled")
    assert event_filter.should_send(crit)
    now[0] = 100
    assert not event_filter.should_send(crit)
    assert event_filter.should_send(other)
    now[0] = 110
    assert not event_filter.should_send(crit)  # not even a change more often than once a minute
    now[0] = 411
    assert event_filter.should_send(other)


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "ok", "cause": "ok"},
        {"cause": "not_this_disk"},
        {"verdict": "unknown", "cause": "not_measured"},
        {"volume_id": None},
    ],
)
def test_what_is_no_evidence_about_a_volume_is_not_sent(changes):
    assert not ddprobe.EventFilter().should_send(a_reading(**changes))


def test_a_volume_has_two_metrics_and_no_more():
    body = ddprobe.put_metric_data([a_reading()], "ddprobe").body.decode()
    assert body.count("MetricName=") == 2
    assert "MetricData.member.1.Dimensions.member.1.Name=VolumeId" in body
    assert "Timestamp=2026-11-20T18%3A00%3A00.000Z" in body


def test_the_agent_gets_an_embedded_metric():
    event = json.loads(ddprobe.emf_line(a_reading(), "ddprobe"))
    (directive,) = event["_aws"]["CloudWatchMetrics"]
    assert directive["Dimensions"] == [["VolumeId"]]
    assert {metric["Name"] for metric in directive["Metrics"]} == {"SyncWriteTime", "BlockedTasks"}
    assert all(metric["Name"] in event for metric in directive["Metrics"])
    assert event["SyncWriteTime"] == 22.369


def test_the_price_is_given_for_thirty_days():
    # 2 x $0.30; 2,592,000 s / 300 s = 8,640 calls at $0.01 a thousand
    text = ddprobe.format_price(1, 300)
    assert "$0.60 a month" in text
    assert "$0.09" in text


# -- streams


def test_a_pipe_without_a_reader_is_not_waited_for():
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    try:
        while True:
            os.write(write_fd, bytes(4096))
    except BlockingIOError:
        os.set_blocking(write_fd, True)
    began_s = time.monotonic()
    assert not ddprobe.write_stream(write_fd, "nobody", 0.3)
    assert time.monotonic() - began_s < ddprobe.OUTPUT_WAIT_S
    os.close(read_fd)
    assert not ddprobe.write_stream(write_fd, "gone", 0.3)
    os.close(write_fd)


def test_long_lines_reach_a_slow_reader_whole():
    receiver, right = socket.socketpair()
    got = []
    reader = threading.Thread(target=lambda: got.extend(iter(lambda: right.recv(65536), b"")))
    reader.start()
    assert ddprobe.write_stream(receiver.fileno(), "x" * 500_000, 5)
    receiver.close()
    reader.join(5)
    right.close()
    assert len(b"".join(got)) == 500_000

"""What ddprobe saw on a host: a report in the ledger, and the files of its run directory."""

import os

import pytest

from burstctl.which.host_report import parse_reading, read_run_directory, report_of_stall
from burstwatch.core.assessment.host_stall import Stall
from support.builders.core_values import at

NOW_S = at("12:00")
READING = {
    "schema": "burstwatch.reading/v1",
    "time": "2026-11-20T11:58:00.500Z",
    "volume_ids": ["vol-0a1", "vol-0b2"],
    "verdict": "warn",
    "cause": "throttled",
    "reason": "a write took 1.9 s.",
}


def test_a_report_in_the_ledger_has_its_host_and_what_it_measured():
    stall = Stall(
        instance_id="i-0a1",
        volume_id="vol-0a1",
        verdict="crit",
        cause="stalled",
        total_s=12.0,
        started_at_s=int(at("11:58")),
        received_at_s=int(at("11:59")),
    )
    report = report_of_stall(stall)
    assert report.is_stalled
    assert report.to_sentences(NOW_S) == [
        "ddprobe (reported by i-0a1), 108 s ago: crit, stalled",
        "It says: a synchronous write took 12.0 s",
    ]


def test_a_reading_is_of_each_volume_below_its_file_system():
    report = parse_reading(READING)
    assert report.volume_ids == ("vol-0a1", "vol-0b2")
    assert report.at_s == at("11:58") + 0.5


def test_an_old_reading_does_not_count_as_now():
    report = parse_reading(READING | {"time": "2026-11-20T11:00:00.000Z"})
    assert not report.is_recent(NOW_S)
    assert "60 min ago, too old to count as now: warn, throttled" in report.to_sentences(NOW_S)[0]


def test_text_from_the_host_is_made_safe():
    report = parse_reading(READING | {"reason": "a\x1b[31mb\nc" + "x" * 999})
    assert "\x1b" not in report.reason
    assert "\n" not in report.reason
    assert len(report.reason) <= 300


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "its schema is not burstwatch.reading/v1"),
        ({"schema": "burstwatch.probe/v1"}, "its schema is not"),
        (READING | {"verdict": 3}, "verdict is 3, not a text"),
        (READING | {"time": "2026-11-20T11:58:00"}, "without a time zone"),
        (READING | {"time": "noon"}, "Invalid isoformat"),
    ],
)
def test_what_is_not_a_reading_is_refused(document, message):
    with pytest.raises(ValueError, match=message):
        parse_reading(document)


def test_a_pipe_and_a_huge_file_are_faults_and_nothing_is_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.json")
    (tmp_path / "b.json").write_bytes(b" " * (2**20 + 1))
    (tmp_path / "c.json").write_text("{")
    (tmp_path / "d.txt").write_text("not looked at")
    reports, faults = read_run_directory(tmp_path)
    assert not reports
    assert [fault.partition(" is not a reading of ddprobe: ")[2].partition(":")[0] for fault in faults] == [
        "it is not a file",
        "it has 1,048,577 bytes, more than 1,048,576",
        "Expecting property name enclosed in double quotes",
    ]

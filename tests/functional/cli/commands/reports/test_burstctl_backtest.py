"""burstctl backtest: what the watchdog would have done, from history alone, compared with the lab."""

import os
import time
from contextlib import suppress
from datetime import datetime, timedelta
from io import StringIO
from itertools import pairwise
from threading import Thread
from typing import Any, cast

import pytest

from burstctl.backtest import load as backtest_load
from burstctl.backtest.progress import DayProgressBar
from burstlab.fake_aws.in_process_clients import InProcessCloudWatch, InProcessEc2
from burstlab.model.clock import LabClock
from burstlab.model.database import LabDatabase
from burstlab.model.file_system import LabFileSystem
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume, MetricFault
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.policy.yaml_file import read_policy
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.location import AwsLocation
from burstwatch.engine.services import Services
from burstwatch.engine.tick_pass import run_tick
from support.cli.cli_session import (
    INSTANCE,
    START,
    add_draining_instance,
    count_modify_calls,
    start_lab,
)
from support.cli.cli_session import add_lab_volume as add_volume

COLUMNS = 80
DAYS = 3
BEFORE = timedelta(hours=3)
LAG_S = 60
# The lab shows a minute 60 s after its end, so 2 min after its start; what a backtest reads at 18:00 ends two
# minutes before.
END = START - timedelta(minutes=2)
BEGIN = END - timedelta(days=DAYS)
CHANGES = {"modify_spread": 0.0, "uplift": "completed", "modifying_s": 60.0}
"""The lab changes a volume in exactly as long as the policy below expects, and is faster from then on."""

POLICY = """\
version: 1
lead: {least: 1m}
flip: {target: io1, cooldown: 30m}
"""

pytestmark = pytest.mark.policy_file(POLICY)

FLEET = [
    ("ci-docker", "docker-loop", 100),
    ("nightly", "nightly-batch:2", 100),
    ("build", "ci-day", 200),
    ("spare", "idle", 30),
]


class Terminal(StringIO):
    """What is written to a screen."""

    def isatty(self):
        return True


def nth_volume_id(nth):
    return f"vol-0{nth:016x}"


def build_fleet():
    """The fleet in a lab that stands three hours before the backtest's first tick."""
    starts_at = BEGIN - BEFORE
    fleet = LabFleet(LabClock.manual(starts_at), LabSettings(lag_s=LAG_S, **CHANGES))
    for nth, (name, load, size_gib) in enumerate(FLEET):
        fleet.add(
            LabVolume(
                volume_id=nth_volume_id(nth),
                size_gib=size_gib,
                load=load,
                starts_at=starts_at,
                created_at=starts_at - timedelta(days=30),
                tags={"Name": name, "burstwatch:mode": "auto"},
            )
        )
    return fleet


def watch_for_days(policy):
    """What the real watchdog alerted and did, by volume: it watches the lab's volumes at each tick."""
    fleet = build_fleet()
    ec2 = cast("Any", InProcessEc2(fleet))
    cloudwatch = InProcessCloudWatch(fleet)
    with SqliteLedger.in_memory() as ledger:
        shell = Services(
            ec2=Ec2Reader(ec2),
            cloudwatch=cast("Any", cloudwatch),
            ledger=ledger,
            calls=CallCounter(),
            policy=policy,
            location=AwsLocation(region="us-east-1"),
            modifier=Ec2Modifier(ec2),
        )
        for tick_s in range(int(BEGIN.timestamp()), int(END.timestamp()), 60):
            fleet.clock.advance(tick_s + 2 - fleet.clock.now_s())
            run_tick(shell, tick_at_s=tick_s, now_s=fleet.clock.now_s())
        entries = {volume.volume_id: ledger.entries(volume.volume_id) for volume in fleet}
    alerts = {
        volume_id: [alert_summary(Alert.from_document(e.body)) for e in result if e.kind is EntryKind.ALERT]
        for volume_id, result in entries.items()
    }
    flips = {
        volume_id: [(e.at_s, e.body["direction"]) for e in result if e.kind is EntryKind.ACCEPTED]
        for volume_id, result in entries.items()
    }
    return alerts, flips, cloudwatch.billed_metrics


def alert_summary(alert):
    return (str(alert.kind), str(alert.level), alert.at_s)


def at_s(instant):
    return int(datetime.fromisoformat(instant).timestamp())


def add(lab, name="ci-7", load="steady:50", *, days=1.2, **fields) -> str:
    return add_volume(lab, name, load, minutes=int(days * 1440), **fields)


def add_drained(lab, name="ci-7", **fields) -> str:
    """Wants 900 and earns 300 from Thursday 13:12 on: full it lasts 2 h 30 min, then it is held to 300."""
    return add(lab, name, "steady:900", **fields)


def join_lines(text):
    return " ".join(text.split())


# -- against the lab


def test_it_agrees_with_what_the_real_watchdog_did_over_the_same_days(cli, tmp_path):
    # no volume was held back before its flip, so what was recorded is what was wanted: all must be the same
    alerts, flips, metrics = watch_for_days(read_policy(tmp_path / "policy.yaml"))
    with start_lab(cli, **CHANGES) as lab:
        for nth, (name, load, size_gib) in enumerate(FLEET):
            minutes = int((timedelta(days=DAYS) + BEFORE).total_seconds()) // 60 + 2
            fields = {"volume_id": nth_volume_id(nth), "created_at": BEGIN - timedelta(days=30)}
            add_volume(lab, name, load, size_gib=size_gib, minutes=minutes, **fields)
        cli_result = cli.run("backtest", "--days", DAYS, "--lag", "2m", "--json")

    assert cli_result.code == 0, cli_result.err
    result = {item["volume_id"]: item for item in cli_result.document["volumes"]}
    assert result.keys() == alerts.keys()
    for volume_id, item in result.items():
        live_alerts = [(element["kind"], element["level"], at_s(element["at"])) for element in item["alerts"]]
        assert live_alerts == alerts[volume_id], item["name"]
        created = [(at_s(element["started_at"]), element["direction"]) for element in item["modifications"]]
        assert created == flips[volume_id], item["name"]
        results = round(item["usd_watching"] / 0.00001)
        # this watchdog never reads what drained a volume: five metrics for each drain alerted at a new level
        levels = ["ok", *(level for kind, level, _ in live_alerts if kind.startswith("BurstBalance"))]
        risen = [
            at for was, at in pairwise(levels) if at != was and at in ("warning", "critical", "exhausted")
        ]
        assert results == metrics[volume_id] + 5 * len(risen), item["name"]
    assert sum(len(item) for item in flips.values()) >= 6
    assert {direction for item in flips.values() for _, direction in item} == {"out", "back"}


# -- what people see


def test_the_fleet_output_has_totals_then_the_most_throttled_then_assumptions_in_80_columns(cli, lab):
    drained, calm = add_drained(lab), add(lab, "calm")

    result = cli.run("backtest", "--days", "1")

    assert result.code == 0
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= COLUMNS
    assert (
        "With this policy, the last day of 2 volumes in us-east-1, all in mode auto, would have had:"
        in join_lines(result.out)
    )
    assert [line.split()[0] for line in lines if line.startswith("vol-")] == [drained]
    assert calm not in result.out
    assert "1 volume stayed calm: no alert and no flip" in result.out
    assert "CloudWatch shows a minute 5 min after its start" in join_lines(result.out)
    assert "reading 1 day of 2 volumes by the minute: $0.00006" in result.err
    assert "read 6 metrics for $0.00006" in result.err


def test_all_shows_volumes_without_events_too(cli, lab):
    add_drained(lab)
    calm = add(lab, "calm")
    out = cli.run("backtest", "--days", "1", "--all").out
    assert f"\n{calm}" in out
    assert "calm, 100 GiB: no events" in out


def test_one_volume_is_shown_with_its_history_line_by_line(cli, lab):
    # the recording begins at 13:12 on the 19th with a full bucket: empty at 15:42, before the backtest's day
    volume_id = add(lab, "ci-7", "nightly-batch:2")

    result = cli.run("backtest", volume_id, "--days", "1")

    assert max(map(len, result.out.splitlines())) <= COLUMNS
    assert f"{volume_id} (ci-7), gp2, 100 GiB, on i-" in result.out
    assert "2026-11-20 UTC\n" in result.out
    assert "alert BurstBalanceDraining: CRITICAL: ci-7" in join_lines(result.out)
    assert "is being modified to io1 with 3,125 IOPS" in join_lines(result.out)
    assert "is gp2 again, as before" in join_lines(result.out)
    assert "delivered to" not in result.out


def test_the_json_has_every_alert_modification_and_minute(cli, lab):
    volume_id = add_drained(lab)

    document = cli.run("backtest", "--days", "1", "--json").document

    [volume] = document["volumes"]
    assert volume["volume_id"] == volume_id
    assert document["history"] == {
        "start": "2026-11-19T17:58:00Z",
        "end": "2026-11-20T17:58:00Z",
        "days": 1,
        "period_s": 60,
        "from": "cloudwatch",
    }
    assert document["metric_lag_s"] == 300
    assert volume["stalled_minutes"]["seen"] == 1440
    assert document["totals"]["stalled_minutes"] == volume["stalled_minutes"]
    assert document["totals"]["alerts"] == len(volume["alerts"])
    # flipped at once; 100 GiB take 1 min + 6 h * 100 / 1,024 = 36 min 9 s
    [out] = volume["modifications"]
    assert (out["direction"], out["started_at"]) == ("out", "2026-11-19T17:58:02Z")
    assert out["completed_at"] == "2026-11-19T18:34:11Z"
    # from 18:35 on; of the 37 minutes before, the first had begun when it was requested
    assert volume["stalled_minutes"] == {"seen": 1440, "avoided": 1403, "eased": 36, "left": 37, "added": 0}
    assert volume["away_at_end"]


def test_backtest_only_reads(cli, lab):
    add_drained(lab)
    cli.run("backtest", "--days", "1")
    assert count_modify_calls(lab) == 0
    assert not cli.ledger_path.exists()
    assert set(lab.faults.call_counts()) <= {
        "DescribeVolumes",
        "DescribeVolumesModifications",
        "DescribeInstances",
        "DescribeInstanceTypes",
        "GetMetricData",
        "GetParameters",
        "GetParametersByPath",
    }


# -- which policy, which volumes


def test_the_policy_decides_whether_anything_is_flipped(cli, lab, tmp_path):
    add_drained(lab, days=0.125)
    (tmp_path / "careful.yaml").write_text("version: 1\nmode: {highest: propose}\n")
    result = cli.run("backtest", "--days", "1", "--policy", "careful.yaml")
    assert "0 flips" in result.out
    assert "Its mode.highest is propose, so nothing is flipped: try one with highest: auto" in join_lines(
        result.out
    )


def test_the_target_can_be_another_than_the_policys(cli, lab):
    add_drained(lab)
    document = cli.run("backtest", "--days", "1", "--json", "--target", "gp3").document
    assert [
        modification["target"]["volume_type"] for modification in document["volumes"][0]["modifications"]
    ] == ["gp3"]
    assert document["target"] == "gp3"


def test_as_tagged_leaves_each_volume_in_its_mode(cli, lab):
    silent = add_drained(lab, "silent", days=0.125, tags={"burstwatch:mode": "observe"})
    auto = add_drained(lab, "auto", days=0.125, tags={"burstwatch:mode": "auto"})
    plain = add_drained(lab, "plain", days=0.125)
    result = cli.run("backtest", "--days", "1", "--json", "--as-tagged").document["volumes"]
    counts = {finding["volume_id"]: (bool(finding["alerts"]), finding["flips"]) for finding in result}
    assert counts == {silent: (False, 0), auto: (True, 1), plain: (True, 0)}


def test_caps_refuse_as_they_would_have(cli, lab, tmp_path):
    for nth in range(3):
        add_drained(lab, f"ci-{nth}", days=0.125)
    (tmp_path / "one.yaml").write_text("version: 1\nflip: {target: io1, fleet_cap: 1}\n")
    result = cli.run("backtest", "--days", "1", "--policy", "one.yaml")
    assert "1 flip and 0 returns, 2 refused" in join_lines(result.out)
    assert "refused: 1 fleet_cap" in join_lines(result.out)


def test_volumes_that_cannot_drain_were_never_gp2_or_are_ignored_are_left_out_and_listed(cli, lab):
    add_drained(lab)
    large = add(lab, "lake", size_gib=2_000)
    ignored = add(lab, "tmp", tags={"burstwatch:ignore": "true"})
    other = add(lab, "other", volume_type="gp3")
    result = cli.run("backtest", "--days", "1")
    assert "of 1 volume in" in join_lines(result.out)
    assert f"not replayed: {large}: gp2 of 2,000 GiB cannot run out of credits" in result.err
    assert f"ignored by tag: {ignored}" in result.err
    result = cli.run("backtest", other, "--days", "1")
    assert (result.code, result.out) == (0, "")
    assert f"not replayed: {other}: it is gp3, which has no burst credits" in result.err


def test_a_named_volume_is_replayed_whatever_its_tags(cli, lab):
    volume_id = add_drained(lab, tags={"burstwatch:ignore": "true", "burstwatch:mode": "observe"})
    assert "1 flip" in cli.run("backtest", volume_id, "--days", "1").out


# -- too little, gaps, changes


def test_too_little_history_is_reported(cli, lab):
    young = add_drained(lab, days=0.3)
    assert "only 7 h 12 min" not in cli.run("backtest", young, "--days", "1").err
    out = join_lines(cli.run("backtest", young, "--days", "1").out)
    assert "only 7 h 10 min of 24 h 00 min recorded, too little to rely on" in out


def test_nothing_recorded_is_reported(cli, lab):
    volume_id = add(lab, "spare", attached=False)
    result = cli.run("backtest", "--days", "1")
    assert (result.code, result.out) == (0, "")
    assert f"nothing recorded: {volume_id}" in result.err


def test_no_volume_at_all_is_reported(cli, lab):
    result = cli.run("backtest")
    assert (result.code, result.out) == (0, "")
    assert "no volume with burst credits was recorded in us-east-1" in result.err


def test_what_it_was_before_a_modification_is_not_replayed(cli, lab):
    volume_id = add_drained(lab)
    lab.client("ec2").modify_volume(VolumeId=volume_id, VolumeType="gp2", Size=200)
    lab.clock.advance(12 * 3600)
    [result] = cli.run("backtest", "--days", "1", "--json").document["volumes"]
    assert result["size_gib"] == 200
    assert result["cut_because"].startswith("it was modified until 2026-11-20T1")
    assert result["recorded_s"] < 12 * 3600


def test_sixty_days_are_read_by_five_minutes(cli, lab):
    volume_id = add(lab, "ci-7", "nightly-batch:2", days=3)  # how long CloudWatch looks back decides
    result = cli.run("backtest", volume_id, "--days", "15")
    assert "by the five minutes" in result.err
    assert "It was recorded by five minutes and is drawn out to minutes" in join_lines(result.out)
    assert "3 returns" in result.out


# -- what goes wrong


def test_reads_over_a_dollar_need_confirmation(cli, lab, monkeypatch):
    monkeypatch.setattr(backtest_load, "MAX_USD", 0.00004)
    add_drained(lab)
    add(lab, "calm")
    result = cli.run("backtest", "--days", "1")
    assert (result.code, result.out) == (2, "")
    assert len(result.error_lines) == 1
    assert "  fix: add --yes to read it, or name some of the volumes" in result.err
    assert "GetMetricData" not in lab.faults.call_counts()
    assert cli.run("backtest", "--days", "1", "--yes").code == 0


def test_an_unread_or_missing_volume_hides_no_other_and_exits_1(cli, lab):
    good, bad = add_drained(lab), add(lab, "bad")
    lab.fleet.find(bad).metric_fault = MetricFault(status_code="Forbidden", message="no")
    result = cli.run("backtest", good, bad, "vol-0000000000000dead", "--days", "1")
    assert result.code == 1
    assert "1 flip" in result.out
    assert any(f"1 volume could not be read: {bad}" in line for line in result.error_lines)
    assert any("no volume vol-0000000000000dead in us-east-1" in line for line in result.error_lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vol-1"], "is not a valid volume ID"),
        (["--size", "100"], "--size is about files. fix: add --csv FILE"),
        (["--last", "63d"], "63d is out of range. fix: give whole days from 1d to 62d"),
        (["--csv", "nowhere.csv"], "nowhere.csv cannot be read: No such file or directory"),
        (["--csv", "."], ". cannot be read: Is a directory"),
    ],
)
def test_a_usage_error_is_one_clear_message(cli, arguments, message):
    result = cli.run("backtest", *arguments)
    assert result.code == 2
    assert message in join_lines(result.err)
    assert "Traceback" not in result.err


# -- CSV


def write_csv(lab, volume_id, *, hours=24) -> str:
    """The last hours of a volume as somebody would export them."""
    client = lab.client("cloudwatch")
    metrics = {
        "b": ("BurstBalance", "Minimum"),
        "r": ("VolumeReadOps", "Sum"),
        "w": ("VolumeWriteOps", "Sum"),
    }
    queries = [
        {
            "Id": name,
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/EBS",
                    "MetricName": metric,
                    "Dimensions": [{"Name": "VolumeId", "Value": volume_id}],
                },
                "Period": 60,
                "Stat": stat,
            },
        }
        for name, (metric, stat) in metrics.items()
    ]
    start = END - timedelta(hours=hours)
    reported = client.get_metric_data(MetricDataQueries=queries, StartTime=start, EndTime=END)
    columns = [
        dict(zip(metric_result["Timestamps"], metric_result["Values"], strict=True))
        for metric_result in reported["MetricDataResults"]
    ]
    rows = [
        ",".join([at.strftime("%Y-%m-%dT%H:%M:%SZ"), *(f"{column[at]!r}" for column in columns)])
        for at in sorted(columns[0])
    ]
    return "\n".join(["time,burst_balance_pct,read_ops,write_ops", *rows]) + "\n"


def test_a_csv_file_gives_the_same_result_as_cloudwatch_without_any_call(cli, lab, tmp_path):
    volume_id = add(lab, "ci-7", "nightly-batch:2")
    # looks are spread by a hash of the name
    (tmp_path / f"{volume_id}.csv").write_text(write_csv(lab, volume_id))
    [from_aws] = cli.run("backtest", "--days", "1", "--json").document["volumes"]
    calls = lab.faults.call_counts()
    result = cli.run("backtest", "--csv", f"{volume_id}.csv", "--size", "100", "--json")
    [from_file] = result.document["volumes"]
    assert lab.faults.call_counts() == calls
    assert from_file["volume_id"] == volume_id
    for name in ("alerts", "modifications", "stalled_minutes", "depletions", "usd_over_gp2"):
        assert from_file[name] == from_aws[name], name
    assert result.document["history"]["from"] == "csv"


def table_rows(*lines, titles="time,burst_balance_pct,read_ops,write_ops,size_gib"):
    return "\n".join([titles, *lines]) + "\n"


def a_day(step_s=60, size="100", **fields):
    """Full and idle."""
    starts = range(int(START.timestamp()) - 86_400, int(START.timestamp()), step_s)
    return table_rows(*(f"{at},100,{5 * step_s},0,{size}" for at in starts), **fields)


@pytest.mark.parametrize(
    "text",
    [
        a_day(),
        "\ufeff" + a_day(),
        a_day().replace("\n", "\r\n"),
        a_day(300),
        a_day(titles="Time, Burst_Balance_Pct ,READ_OPS,write_ops,size_gib"),
        table_rows("2026-11-20T10:00:00+01:00,99.5,,,100", "2026-11-20 09:01,,60,0,"),
    ],
    ids=["plain", "bom", "crlf", "five minutes", "titles", "zones and gaps"],
)
def test_a_good_file_is_read(cli, tmp_path, text):
    (tmp_path / "a.csv").write_bytes(text.encode())
    result = cli.run("backtest", "--csv", "a.csv")
    assert (result.code, result.error_lines) == (0, [])
    assert "a, gp2, 100 GiB" in result.out


def test_several_files_are_several_volumes(cli, tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(a_day())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.csv").write_text(a_day())
    result = cli.run("backtest", "--csv", "a.csv", "b.csv", "other/a.csv", "--json")
    assert [volume["volume_id"] for volume in result.document["volumes"]] == ["a", "a-1", "b"]


GOOD = "2026-11-20T10:00:00Z,100,5,5,100"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "line 1: no column time, burst_balance_pct, read_ops, write_ops"),
        (b"hello, world\nthis is a letter\n", "found 'hello', 'world'"),
        (b"time;burst_balance_pct;read_ops;write_ops\n", "found 'time;burst"),
        (
            table_rows(GOOD, titles="time,balance,read_ops,write_ops,size_gib"),
            "line 1: no column burst_balance_pct; found",
        ),
        (
            table_rows(GOOD, titles="time,burst_balance_pct,read_ops,write_ops,time"),
            "line 1: column time is there twice",
        ),
        (table_rows(), "has no rows"),
        (table_rows(GOOD, GOOD), "line 3: time is '2026-11-20T10:00:00Z', the same minute as the row before"),
        (
            table_rows(GOOD, GOOD.replace("10:", "09:")),
            "line 3: time is '2026-11-20T09:00:00Z', earlier than the row",
        ),
        (
            table_rows(GOOD.replace("100,5", "NaN,5")),
            "line 2: burst_balance_pct is 'NaN'",
        ),
        (
            table_rows(GOOD.replace("100,5", "101,5")),
            "line 2: burst_balance_pct is '101'",
        ),
        (table_rows(GOOD.replace(",5,", ",-5,")), "line 2: read_ops is '-5'"),
        (table_rows(GOOD.replace(",5,", ",inf,")), "line 2: read_ops is 'inf'"),
        (
            table_rows(GOOD.replace("2026-11-20T10", "yesterday at 10")),
            "line 2: time is 'yesterday at 10:00:00Z'",
        ),
        (
            table_rows(GOOD.replace("2026-11-20T10:00:00Z", "1795168800000")),
            "line 2: time is '1795168800000'",
        ),
        (table_rows(GOOD.replace("2026-11-20T10:00:00Z", "12")), "line 2: time is '12'"),
        (table_rows(GOOD.replace(",100", ",1.5")), "line 2: size_gib is '1.5'"),
        (
            table_rows(GOOD, GOOD.replace("10:00", "10:01").replace("5,100", "5,200")),
            "line 3: size_gib is 200 and was 100",
        ),
        (
            table_rows(GOOD.replace("5,100", "5,")),
            "does not say how large the volume is",
        ),
        (table_rows(GOOD.replace("5,100", "5,2000")), "a gp2 of 2,000 GiB cannot run out of credits"),
        (table_rows(GOOD, GOOD.replace("10:00", "11:00")), "its rows are 60 minutes apart or more"),
        (table_rows("2026-11-20T10:00:00Z,,5,5,100"), "every burst_balance_pct is empty"),
        (b"\xff\xfet\x00i\x00m\x00e\x00", "it is not UTF-8 text"),
        (table_rows(GOOD).encode() + b"\xff\n", "it is not UTF-8 text"),
        (table_rows(GOOD) + '2026-11-20T10:01:00Z,"100,5\n', "it is not valid CSV"),
    ],
    ids=lambda value: None if isinstance(value, bytes) or "\n" in value else value[:40],
)
def test_a_hostile_file_is_one_message_with_its_line(cli, tmp_path, text, message):
    (tmp_path / "bad.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    result = cli.run("backtest", "--csv", "bad.csv")
    assert (result.code, result.out) == (2, "")
    [complaint] = result.error_lines
    assert complaint.startswith("error: bad.csv")
    assert message in complaint


def test_ten_million_rows_end_at_the_first_too_many(cli, tmp_path):
    def endless():
        yield b"time,burst_balance_pct,read_ops,write_ops\n"
        start_s = 1_500_000_000 // 60 * 60
        for nth in range(10_000_000):
            yield b"%d,100,5,5\n" % (start_s + nth * 60)

    # a pipe: reading on would mean reading it all
    path = tmp_path / "large.csv"
    os.mkfifo(path)
    written = []

    def write():
        with suppress(BrokenPipeError), path.open("wb") as pipe:
            for row in endless():
                pipe.write(row)
                written.append(1)

    writer = Thread(target=write)
    writer.start()
    result = cli.run("backtest", "--csv", "large.csv", "--size", "100")
    writer.join()
    assert result.code == 2
    assert "line 90722: more than 90,720 rows, the minutes of 63 days" in result.error_lines[0]
    assert len(written) < 200_000


def test_names_from_files_stay_text(cli, tmp_path):
    (tmp_path / "\u202eevil\x9b31m.csv").write_text(a_day())
    out = cli.run("backtest", "--csv", "\u202eevil\x9b31m.csv").out
    assert all(character.isprintable() or character == "\n" for character in out)


# -- windows, and what a run in progress looks like


def test_a_window_of_the_policy_is_kept_as_it_would_have_been(cli, lab, tmp_path):
    volume_id = add(lab, "ci-7", tags={"role": "ci"})
    add(lab, "other")
    window = "{from: 2026-11-20T08:00Z, to: 2026-11-20T10:00Z, where: tag:role=ci}"
    (tmp_path / "night.yaml").write_text(POLICY + f"windows:\n  migration: {window}\n")
    document = cli.run("backtest", "--days", "1", "--json", "--policy", "night.yaml").document
    [announced] = document["window_alerts"]
    assert announced["kind"] == "WindowStarting"
    moved = {
        volume["volume_id"]: volume["modifications"] for volume in document["volumes"] if volume["flips"]
    }
    assert moved.keys() == {volume_id}
    out, back = moved[volume_id]
    # it is there before the window begins, and leaves after it has ended
    assert at_s(out["completed_at"]) <= at_s("2026-11-20T08:00:00Z")
    assert at_s(back["started_at"]) >= at_s("2026-11-20T10:00:00Z")


def test_a_long_replay_shows_its_days_on_a_terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", a_terminal := Terminal())
    bar = DayProgressBar(show_after_s=0.0)
    bar.begin("replaying")
    until = time.monotonic() + 30
    while "day 3 of 14" not in a_terminal.getvalue() and time.monotonic() < until:
        bar.report(3, 14)
        time.sleep(0.01)
    bar.end()
    assert "day 3 of 14" in a_terminal.getvalue()


def add_st1(lab, name="logs", load="steady:200@1024", **fields):
    """1 TiB of st1 sustains 40 MiB/s: at 200 it loses 160 MiB of 1,048,576 a second, it lasts 1.8 hours."""
    return add_volume(lab, name, load, volume_type="st1", size_gib=1_024, minutes=2 * 24 * 60, **fields)


def test_an_st1_volume_is_replayed_with_its_own_bucket_and_never_flipped(cli):
    with start_lab(cli) as lab:
        volume_id = add_st1(lab)
        result = cli.run("backtest", volume_id, "--last", "2d", "--json")
        text = cli.run("backtest", volume_id, "--last", "2d")

    assert f"next: burstctl explain {volume_id}" in text.err, "there is no advice about st1"
    [volume] = result.document["volumes"]
    [depletion] = volume["depletions"]
    assert result.code == 0
    assert (volume["flips"], volume["modifications"]) == (0, [])
    # announced by a warning an hour ahead, and at the latest with the lead of 30 min left
    assert 1_800 <= depletion["lead_s"] <= 6_600
    assert volume["stalled_minutes"]["seen"] > 24 * 60


def test_st1_volumes_of_the_fleet_are_replayed_if_the_policy_watches_them(cli):
    with start_lab(cli) as lab:
        add_st1(lab)
        unwatched = cli.run("backtest", "--last", "2d")
        (cli.directory / "policy.yaml").write_text("version: 1\nresources: {ebs: {types: 'gp2, st1'}}\n")
        watched = cli.run("backtest", "--last", "2d", "--json")

    assert "no volume with burst credits was recorded in us-east-1" in unwatched.err
    assert [volume["name"] for volume in watched.document["volumes"]] == ["logs"]


def test_a_policy_that_watches_other_kinds_replays_the_volumes(cli):
    (cli.directory / "policy.yaml").write_text("version: 1\nresources: {instance: {watch: true}}\n")
    with start_lab(cli) as lab:
        add_volume(lab, "ci-7", "steady:3000", minutes=24 * 60)
        result = cli.run("backtest", "--last", "1d", "--json")

    assert result.code == 0
    assert [volume["name"] for volume in result.document["volumes"]] == ["ci-7"]


def test_the_credits_of_an_instance_are_replayed_and_their_alerts_counted(cli):
    """t3.medium sustains 2,000 IOPS: two volumes with 2,000 each empty 17.64 million credits in 2.5 hours."""
    with start_lab(cli) as lab:
        add_draining_instance(lab, minutes=24 * 60)
        document = cli.run("backtest", INSTANCE, "--last", "1d", "--json").document
        result = cli.run("backtest", "build-host", "--last", "1d")

    io, throughput = document["buckets"]
    assert (io["resource_id"], io["bucket"], throughput["bucket"]) == (
        INSTANCE,
        "instance-io",
        "instance-throughput",
    )
    assert io["alerts_by_kind"]["BurstBalanceDraining"] >= 1
    assert io["alerts_by_kind"]["BurstBalanceExhausted"] >= 1
    [depletion] = io["depletions"]
    assert depletion["lead_s"] >= 720, "the lead of its bound is 12 min"
    assert throughput["depletions"] == []
    text = " ".join(result.out.split())
    assert "Alerts about instances, file systems and databases, which are never changed:" in text
    assert f"- {INSTANCE} (build-host), EBS I/O credits: " in text
    # 64 MiB/s until the I/O credits are empty, of 41 sustained; then it refills
    assert f"- {INSTANCE} (build-host), EBS throughput credits: 1 BurstBalanceDraining, 1" in text
    assert result.code == 0


def test_a_file_system_and_a_database_are_replayed_if_they_are_named_or_watched(cli):
    (cli.directory / "policy.yaml").write_text("version: 1\nresources: {efs: {watch: true}}\n")
    with start_lab(cli) as lab:
        past = START - timedelta(days=2)
        home = lab.fleet.file_systems.add(
            LabFileSystem(
                size_gib=58, balance_pct=30, load="steady:400@256%0", starts_at=past, tags={"Name": "home"}
            )
        )
        lab.fleet.databases.add(
            LabDatabase(identifier="orders", balance_pct=90, load="steady:3000@16%0", starts_at=past)
        )
        watched = cli.run("backtest", "--last", "1d", "--json").document
        named = cli.run("backtest", "home", "db:orders", "--last", "1d", "--json").document

    assert [bucket["resource_id"] for bucket in watched["buckets"]] == [home]
    assert {bucket["resource_id"] for bucket in named["buckets"]} == {home, "db:orders"}
    assert named["volumes"] == []


def test_a_resource_that_does_not_exist_is_missing(cli, lab):
    result = cli.run("backtest", "fs-0fffffffffffffff0", "db:nope")
    assert result.code == 1
    assert "no file system fs-0fffffffffffffff0 in us-east-1" in result.err
    assert "no database db:nope in us-east-1" in result.err

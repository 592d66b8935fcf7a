"""burstctl advise: two weeks of history, the region's prices, and its output for people and programs."""

import csv
import io
import shlex
from datetime import timedelta

import pytest

from burstctl.advise import collect
from burstctl.context import metric_resolution
from burstctl.context.volume_histories import check_read_cost
from burstlab.fake_aws.faults import Fault
from burstlab.model.volume import MetricFault
from burstwatch.adapters.aws.metric_history import METRICS_PER_VOLUME
from burstwatch.core.buckets.units import MIB
from burstwatch.wiring.settings import SettingsError
from support.cli.cli_session import (
    INSTANCE,
    START,
    add_lab_instance,
    count_modify_calls,
    modification_targets,
    start_lab,
)
from support.cli.cli_session import add_lab_volume as add_volume

pytestmark = [pytest.mark.usefixtures("forget_put_metrics"), pytest.mark.lab_settings(publishes_bytes=False)]


DAY_MIN = 1440
VOLUME_ARGUMENT = "vol-0123456789abcdef0"
COLUMNS = 80


def add(lab, name, load="steady:50", *, days=14.1, **fields) -> str:
    return add_volume(lab, name, load, minutes=int(days * DAY_MIN), **fields)


def add_empty_volume(lab, name="ci-7", **fields) -> str:
    """Wants 900 and earns 300: nine days empty, at 300 operations a second."""
    return add(lab, name, "steady:900", balance_pct=40, **fields)


def put_throughput(lab, volume_id, mib_s, *, hours=8) -> None:
    """What the volume publishes to CloudWatch as read, in each minute of this many hours up to 17:00."""
    client = lab.client("cloudwatch")
    dimensions = [{"Name": "VolumeId", "Value": volume_id}]
    starts = [START - timedelta(hours=1, minutes=nth) for nth in range(hours * 60)]
    reported = [
        {
            "MetricName": "VolumeReadBytes",
            "Dimensions": dimensions,
            "Timestamp": at,
            "Value": mib_s * MIB * 60,
        }
        for at in starts
    ]
    for first in range(0, len(reported), 500):
        client.put_metric_data(Namespace="AWS/EBS", MetricData=reported[first : first + 500])


def table_rows(result):
    return list(csv.DictReader(io.StringIO(result.out)))


def find_volume(document, volume_id):
    [result] = [volume for volume in document["volumes"] if volume["volume_id"] == volume_id]
    return result


def test_the_fleet_table_fits_80_columns_with_empty_volumes_first_then_by_dollars(cli, lab):
    small, empty = add(lab, "small"), add_empty_volume(lab)
    large = add(lab, "lake", "steady:2000", size_gib=2_000)
    stays = add(lab, "stays", size_gib=200)

    result = cli.run("advise")

    assert result.code == 0
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= COLUMNS
    assert [line[:21] for line in lines if line.startswith("vol-")] == [empty, large, small, stays]
    assert lines[0].split() == ["VOLUME", "NOW", "ADVISED", "$/MONTH"]
    assert lines[1].split() == [empty, "gp2", "100", "GiB", "gp3", "3,000", "IOPS", "128", "MiB/s", "-1.88"]
    assert lines[2].split()[:2] == ["ci-7", "was"]
    assert "14.0 d, good confidence" in lines[2]
    assert lines[3].endswith("gp3 3,000 IOPS 250 MiB/s   -35.00")
    assert lines[7].endswith("stay                         0.00")
    # 10 + 10 + 200 + 20; 8.12 + 8.12 + 165 + 20
    assert "4 volumes in us-east-1: 3 to gp3, 1 stay; $240.00 -> $201.24 a month" in join_lines(result.out)


def join_lines(text):
    return " ".join(text.split())


OTHER_CREDITS = (
    "Other burst credits were not looked at: those of st1 and sc1 volumes, instances, file systems and"
    " databases. If `burstctl assess` shows none that you need to watch, you can uninstall burstwatch."
)


def test_advise_reports_when_no_volume_would_need_burst_credits_any_more(cli, lab):
    add_empty_volume(lab)
    text = join_lines(cli.run("advise").out)
    assert "Our recommendation is gp3, once: after that no gp2 volume here depends on burst credits" in text
    assert OTHER_CREDITS in text
    assert "burstctl runbook MovingToGp3" in text


def test_advise_reports_when_no_volume_needs_burst_credits_already(cli, lab):
    add(lab, "stays", size_gib=200)
    text = join_lines(cli.run("advise").out)
    assert "No gp2 volume here depends on burst credits: there is nothing to change." in text
    assert OTHER_CREDITS in text


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"days": 1}, "1 undecided"),
        ({"tags": {"burstwatch:ignore": "true"}}, "1 ignored by tag"),
    ],
)
def test_while_some_volumes_are_unknown_advise_does_not_suggest_uninstalling(cli, lab, facts, why):
    add_empty_volume(lab)
    add(lab, "other", size_gib=200, **facts)
    text = join_lines(cli.run("advise").out)
    assert f"Keep the watch until all have enough data: {why}" in text
    assert "uninstall" not in text


def test_advise_only_reads(cli, lab):
    add_empty_volume(lab)
    result = cli.run("advise")
    assert count_modify_calls(lab) == 0
    assert not cli.ledger_path.exists()
    assert set(lab.faults.call_counts()) == {
        "DescribeVolumes",
        "DescribeInstances",
        "DescribeInstanceTypes",
        "GetMetricData",
        "GetParametersByPath",
        "GetProducts",
    }
    assert "read 5 metrics for $0.00005" in result.err


def test_many_volumes_share_no_call_beyond_a_page_and_each_metric_is_requested_once(cli, lab):
    ids = [add(lab, f"v{nth}", days=1.1) for nth in range(30)]
    document = cli.run("advise", "--days", "1", "--json").document
    # 1,440 datapoints: 70 queries fill a page of 100,800, that is 14 volumes
    assert lab.faults.call_counts()["GetMetricData"] == 3
    assert lab.metrics_requested == len(ids) * METRICS_PER_VOLUME == document["cost"]["metrics_requested"]
    assert len(document["volumes"]) == 30


def test_one_volume_is_described_in_detail_with_a_command_to_paste(cli, lab):
    empty_id = add_empty_volume(lab)
    result = cli.run("advise", empty_id)

    assert result.code == 0
    assert max(map(len, result.out.splitlines())) <= COLUMNS
    text = join_lines(result.out)
    assert "Make it gp3 with 3,000 IOPS and 128 MiB/s permanently." in text
    assert "so its demand is unknown" in text
    assert "bucket empty for" in text
    assert "$10.00 -> $8.12 a month: $1.88 less" in text
    [command] = [line for line in result.out.replace("\\\n", "").splitlines() if " flip " in line]
    assert cli.run(*shlex.split(command)[1:], "--yes").code == 0
    assert modification_targets(lab, empty_id) == ["gp3"]


def test_a_flipped_volume_is_advised_on_as_well_and_kept(cli, lab):
    empty_id = add_empty_volume(lab)
    assert cli.run("flip", empty_id, "--yes", "--iops", "3000").code == 0
    lab.clock.advance(3 * 3600)

    advice = find_volume(cli.run("advise", "--json").document, empty_id)
    assert advice["now"]["volume_type"] == "gp3"
    assert advice["flipped_from"] == {"volume_type": "gp2", "iops": None, "throughput_mib_s": None}
    text = join_lines(cli.run("advise", empty_id).out)
    assert "Keep it gp3 with 3,000 IOPS and 128 MiB/s permanently." in text
    assert f"burstctl flip {empty_id}" in text


def test_a_critical_volume_is_advised_what_its_alert_proposes(cli, lab):
    etcd = add(lab, "etcd-0", "steady:200", tags={"burstwatch:critical": "true"})
    advised = cli.run("advise", "--json").document
    advice = find_volume(advised, etcd)
    cli.run("watch", "--once")
    with cli.open_ledger() as ledger:
        bodies = [entry.body for entry in ledger.entries(etcd)]
    proposed = [b["evidence"]["to"] for b in bodies if b.get("kind") == "CriticalVolumeOnBurstStorage"]
    assert [item["volume_type"] for item in proposed] == ["gp3"]
    assert advice["advised"]["volume_type"] == "gp3"
    # 45.00 on io2, as below, and 8.12 on gp3
    assert advice["usd_per_month_more_on_io2"] == pytest.approx(45.0 - 8.12)
    assert advised["totals"]["critical"] == {
        "volumes": 1,
        "usd_per_month_difference": pytest.approx(8.12 - 10.0),
        "usd_per_month_more_on_io2": pytest.approx(45.0 - 8.12),
    }
    output = " ".join(cli.run("advise").out.split())
    assert (
        "Of that, 1 critical $1.88 less; io2 for the critical, for durability: $36.88 a month more." in output
    )
    text = " ".join(cli.run("advise", etcd).out.split())
    assert "For durability, io2 with 500 IOPS is an option: $36.88 more a month than that." in text


def test_a_critical_volume_that_requests_io2_is_advised_io2(cli, lab):
    tags = {"burstwatch:critical": "true", "burstwatch:target": "io2"}
    etcd = add(lab, "etcd-0", "steady:200", tags=tags)
    advice = find_volume(cli.run("advise", "--json").document, etcd)
    # its throughput is not known, so it keeps its 128 MiB/s: 128 / 0.256; 12.5 + 500 x 0.065
    assert advice["advised"] == {"volume_type": "io2", "iops": 500, "throughput_mib_s": None}
    assert advice["usd_per_month_advised"] == 45.0
    assert advice["critical"]


def test_throughput_of_the_labs_own_small_operations_is_little(cli):
    with start_lab(cli) as lab:
        # 50 operations a second of 16 KiB are 0.8 MiB/s
        volume_id = add(lab, "small")
        advice = find_volume(cli.run("advise", "--json").document, volume_id)
    assert advice["usage"]["mib_s"]["busiest"]["value"] == pytest.approx(50 * 16 / 1024)
    assert advice["advised"]["throughput_mib_s"] == 125


def test_throughput_that_was_seen_to_be_little_is_not_bought(cli, lab):
    volume_id = add(lab, "web", size_gib=200)
    put_throughput(lab, volume_id, 40)
    advice = find_volume(cli.run("advise", "--json", "--percentile", "100").document, volume_id)
    assert advice["usage"]["mib_s"]["busiest"]["value"] == 40
    # eight hours of throughput are known, all at 40: 50 with headroom, and 125 are included
    assert advice["advised"]["throughput_mib_s"] == 125
    assert advice["usd_per_month_difference"] == -4.0


def test_advice_that_differs_from_the_alerts_is_noted_below_the_table(cli, lab):
    volume_id = add(lab, "web", size_gib=100)
    same = "An alert may request other numbers"
    assert same not in join_lines(cli.run("advise").out)
    put_throughput(lab, volume_id, 40)
    result = cli.run("advise")
    assert same in join_lines(result.out)
    assert max(map(len, result.out.splitlines())) <= 80
    text = join_lines(cli.run("advise", volume_id).out)
    assert "An alert requests at least 3,000 IOPS and 128 MiB/s" in text


def test_throughput_that_was_held_back_is_bought_with_room(cli, lab):
    volume_id = add(lab, "media", size_gib=100)
    put_throughput(lab, volume_id, 127)
    advice = find_volume(cli.run("advise", "--json").document, volume_id)
    assert advice["advised"]["throughput_mib_s"] == 159  # 127 x 1.25
    assert advice["need"]["held_back"]


def test_where_the_instance_holds_it_back_the_command_names_the_region(cli, lab):
    add_lab_instance(lab, INSTANCE, "t3.medium", io_pct=100)
    held_back = {"volume_type": "gp3", "iops": 3_000, "throughput_mib_s": 125, "instance_id": INSTANCE}
    volume_id = add(lab, "data", "steady:9000", days=2, **held_back)
    text = join_lines(cli.run("advise", volume_id).out)
    assert f"to find the type, run burstctl simulate {INSTANCE} --region us-east-1." in text


def test_above_two_weeks_it_reads_means_of_five_minutes(cli, lab):
    volume_id = add_empty_volume(lab)
    document = cli.run("advise", "--days", "60", "--json").document
    assert document["history"]["period_s"] == 300
    assert document["history"]["start"] == "2026-09-21T17:55:00Z"
    advice = find_volume(document, volume_id)
    assert 13.9 < advice["usage"]["days"] < 14.2
    assert "5-minute mean" in advice["risks"][0]


def test_a_large_fleet_is_read_at_five_minute_resolution_and_the_output_states_it(cli, lab, monkeypatch):
    monkeypatch.setattr(metric_resolution, "MAX_VOLUMES_BY_MINUTE", 1)
    add(lab, "a"), add(lab, "b")
    result = cli.run("advise", "--json")
    assert result.document["history"]["period_s"] == 300
    assert "2 volumes are read by means of five minutes" in result.err


def test_the_json_has_every_key_and_numbers_as_numbers(cli, lab):
    add_empty_volume(lab), add(lab, "new", days=0.001, size_gib=200), add(lab, "spare", attached=False)
    document = cli.run("advise", "--json").document
    assert document["schema"] == "burstwatch.advice/v1"
    assert document["generated_at"] == "2026-11-20T18:00:00Z"
    assert document["prices"] == {
        "region": "us-east-1",
        "as_of": "2026-10-28",
        "source": "price_list",
        "faults": [],
    }
    keys = {frozenset(volume) for volume in document["volumes"]}
    assert len(keys) == 1
    assert {volume["verdict"] for volume in document["volumes"]} == {"move", "undecided"}
    assert document["totals"]["by_target"] == {"gp3": 2, "stay": 1}
    assert document["totals"]["undecided"] == 1
    assert document["totals"]["ends_the_watch"] is False
    empty = document["volumes"][0]
    assert empty["usage"]["iops"]["at_percentile"] == 300  # it had spent its credits an hour after it began
    assert empty["danger"] == "ran_dry"
    assert empty["command"].startswith("burstctl flip vol-")


@pytest.mark.parametrize(
    "name", ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", 'a"b,c', "a\nb",
     "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(A1)"],
)  # fmt: skip
def test_no_name_acts_in_a_spreadsheet(cli, lab, name):
    volume_id = add(lab, name, days=1)
    result = cli.run("advise", "--csv")
    [row] = table_rows(result)
    assert row["volume_id"] == volume_id
    assert not row["name"].startswith(("=", "+", "-", "@", "\t", "\r", "\n", " "))
    assert not row["name"].startswith(("\uff1d", "\uff0b", "\uff0d", "\uff20"))
    assert len(result.out.splitlines()) == 2
    for column, value in row.items():
        if value.startswith(("=", "+", "@", "\t", "\r")) or (value.startswith("-") and not float(value)):
            pytest.fail(f"{column} acts: {value!r}")


def test_csv_has_a_line_for_each_volume_with_its_command(cli, lab):
    empty_id = add_empty_volume(lab)
    add(lab, "lake", size_gib=200)
    result = cli.run("advise", "--csv")
    first, second = table_rows(result)
    assert (first["volume_id"], first["verdict"], first["iops_advised"]) == (empty_id, "move", "3000")
    assert float(first["usd_per_month_difference"]) == -1.88
    assert first["command"].startswith(f"burstctl flip {empty_id} --to gp3")
    assert (second["verdict"], second["command"]) == ("stay", "")


def test_no_saving_is_counted_where_gp3_does_not_exist(cli, lab):
    """100 GiB idle gp2 that a flip would make cheaper: one here, one on an Outpost, one where AWS refused."""
    in_region = add(lab, "here", days=1)
    outpost = add(lab, "outpost", days=1, outpost_arn="arn:aws:outposts:us-east-1:1:outpost/op-1")
    boston = add(lab, "boston", days=1, zone="us-east-1-bos-1a", lacks_gp3=True)
    refused = cli.run("flip", boston, "--to", "gp3", "--yes")
    assert "refused now: type_not_available" in refused.out
    assert "until 2026-11-2" in join_lines(refused.out)
    assert refused.err.splitlines()[-1] == f"next: burstctl flip {boston} --to io1"
    result = {volume["volume_id"]: volume for volume in cli.run("advise", "--json").document["volumes"]}
    assert "gp3" in result[in_region]["options"]
    for volume_id in (outpost, boston):
        assert not result[volume_id]["options"].keys() & {"gp3", "flip"}
        assert result[volume_id]["advised"]["volume_type"] != "gp3"
        assert any(reason.startswith("gp3 is left out: ") for reason in result[volume_id]["reasons"])
    assert result[boston]["usd_per_month_difference"] >= 0


def test_csv_of_no_volume_is_its_header(cli, lab):
    result = cli.run("advise", "--csv")
    assert result.code == 0
    assert result.out.startswith("volume_id,name,region,")
    assert len(result.out.splitlines()) == 1


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("terraform", '  type       = "gp3"'),
        ("cloudformation", "      VolumeType: gp3"),
        ("cdk", "    volume_type=ec2.EbsDeviceVolumeType.GP3,"),
    ],
)
def test_the_definition_is_data_alone(cli, lab, kind, line):
    empty_id = add_empty_volume(lab)
    result = cli.run("advise", empty_id, "--iac", kind)
    assert result.code == 0
    assert line in result.out.splitlines()
    assert "read 5 metrics" not in result.out


def test_without_a_volume_the_definitions_are_those_of_every_volume_that_changes(cli, lab):
    empty_id, small_id, stays_id = add_empty_volume(lab), add(lab, "small"), add(lab, "stays", size_gib=200)
    result = cli.run("advise", "--iac", "terraform")
    assert result.code == 0
    assert result.out.index(empty_id) < result.out.index(small_id)
    assert result.out.count('resource "aws_ebs_volume"') == 2
    assert stays_id not in result.out
    assert "1 volume without a change" in result.err
    assert stays_id in cli.run("advise", stays_id, "--iac", "terraform").out


def test_without_a_change_no_definition_is_printed(cli, lab):
    add(lab, "stays", size_gib=200)
    result = cli.run("advise", "--iac", "cdk")
    assert (result.code, result.out) == (0, "")
    assert "1 volume without a change" in result.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--csv", "--json"], "are mutually exclusive"),
        (["--json", "--iac", "terraform"], "are mutually exclusive"),
        ([VOLUME_ARGUMENT, "--csv", "--iac", "cdk"], "are mutually exclusive"),
        (["--last", "0d"], "0d is out of range. fix: give whole days from 1d to 62d"),
        (["--last", "63d"], "63d is out of range. fix: give whole days from 1d to 62d"),
        (["--last", "36h"], "36h is not in whole days."),
        (["--days", "63"], "63 is out of range. fix: give whole days"),
        (["--percentile", "101"], "101"),
        (["--iac", "pulumi"], "'pulumi' is not one of"),
        (["vol-1"], "is not a valid volume ID"),
    ],
)
def test_usage_errors_are_reported_before_anything_is_read(cli, lab, arguments, why):
    result = cli.run("advise", *arguments)
    assert result.code == 2
    assert why in join_lines(result.err)
    assert not lab.faults.call_counts()


def test_reads_over_five_dollars_need_confirmation(cli, lab, monkeypatch):
    monkeypatch.setattr(collect, "MAX_USD", 0.00009)
    add(lab, "a"), add(lab, "b")
    result = cli.run("advise")
    assert result.code == 2
    assert "reading the history of 2 volumes costs $0.00" in result.err
    assert "add --yes to read it, or name some of the volumes" in result.err
    assert "GetMetricData" not in lab.faults.call_counts()
    assert cli.run("advise", "--yes").code == 0


def test_5_dollars_are_a_hundred_thousand_volumes():
    limit = {"max_usd": collect.MAX_USD, "assumes_yes": False}
    check_read_cost(100_000, METRICS_PER_VOLUME, **limit)
    with pytest.raises(SettingsError, match=r"100,001 volumes costs \$5.00"):
        check_read_cost(100_001, METRICS_PER_VOLUME, **limit)


def test_a_volume_that_is_not_there_fails_and_the_others_are_advised_on(cli, lab):
    empty_id = add_empty_volume(lab)
    result = cli.run("advise", empty_id, VOLUME_ARGUMENT)
    assert result.code == 1
    assert "Make it gp3" in result.out
    assert f"no volume {VOLUME_ARGUMENT} in us-east-1" in result.error_lines[0]


def test_an_unreadable_volume_fails_and_reports_why_once(cli, lab):
    add_empty_volume(lab)
    for name in "ab":
        unread = add(lab, name)
        lab.fleet.find(unread).metric_fault = MetricFault(status_code="Forbidden", message="no")
    result = cli.run("advise")
    assert result.code == 1
    assert "1 volume in us-east-1" in result.out
    assert "Keep the watch until all have enough data: 2 unread" in join_lines(result.out)
    [complaint] = result.error_lines
    assert "; 2 volumes could not be read: vol-" in complaint


def test_volumes_that_cannot_be_listed_fail(cli, lab):
    add_empty_volume(lab)
    lab.faults.add(Fault(action="DescribeVolumes", code="UnauthorizedOperation"))
    result = cli.run("advise")
    assert result.code == 1
    assert result.error_lines[0] == "error: this identity may not call ec2:DescribeVolumes."
    assert "no volume to advise on" not in result.err


def test_instances_that_cannot_be_read_limit_nothing_and_are_reported(cli, lab):
    add_empty_volume(lab)
    lab.faults.add(Fault(action="DescribeInstanceTypes", code="UnauthorizedOperation"))
    result = cli.run("advise")
    assert result.code == 1
    assert "gp3 3,000 IOPS" in result.out
    assert result.error_lines[0] == "error: this identity may not call ec2:DescribeInstanceTypes."


def test_prices_that_cannot_be_had_fall_back_loudly_and_are_no_failure(cli, lab):
    add_empty_volume(lab)
    lab.faults.add(Fault(action="GetProducts", code="AccessDeniedException"))
    result = cli.run("advise")
    assert result.code == 0
    assert "list prices of us-east-1 of 2026-09-30, built in" in join_lines(result.out)
    assert "prices: the built-in prices of us-east-1 of 2026-09-30 are used" in result.err
    assert "grant pricing:GetProducts" in result.err


def test_prices_are_those_of_the_region(cli):
    with start_lab(cli, region="eu-west-1") as lab:
        volume_id = add(lab, "a")
        advice = find_volume(cli.run("advise", "--json").document, volume_id)
    assert advice["usd_per_month_now"] == pytest.approx(11.00)  # a tenth more, in the lab
    assert advice["command"].endswith("--region eu-west-1")


def test_a_type_without_advice_is_named(cli, lab):
    disk = add(lab, "tape", size_gib=500, volume_type="st1")
    result = cli.run("advise", disk)
    assert result.code == 0
    assert result.err.splitlines() == [
        f"no advice: {disk}: it is st1, and advise recommends types for gp2, gp3, io1 and io2 volumes only;"
        f" burstctl which {disk} shows its limits",
        f"next: burstctl which {disk}",
    ]


def test_the_advice_on_one_volume_reports_its_confidence_and_ends_with_the_flip(cli, lab):
    volume_id = add(lab, "a", days=1)
    result = cli.run("advise", volume_id)
    assert "confidence: low, because less than a week was seen" in join_lines(result.out)
    next_line = result.err.splitlines()[-1]
    assert next_line.startswith(f"next: burstctl flip {volume_id} --to gp3 ")
    assert next_line.endswith(" --dry-run")
    whole_fleet = cli.run("advise").err.splitlines()
    assert f"next: burstctl advise {volume_id}" in whole_fleet


def test_a_managed_volume_is_left_to_its_manager(cli, lab):
    managed = add_empty_volume(lab, managed_by="eks.amazonaws.com")
    text = cli.run("advise", managed).out
    assert "Change its definition in eks.amazonaws.com." in text
    assert "burstctl flip" not in text


def test_an_ignored_volume_is_advised_on_when_it_is_named(cli, lab):
    ignored = add_empty_volume(lab, tags={"burstwatch:ignore": "true"})
    assert "ignored by tag" in cli.run("advise").err
    assert "Make it gp3" in cli.run("advise", ignored).out


def test_of_many_volumes_the_first_are_shown_and_all_on_demand(cli, lab):
    for nth in range(25):
        add(lab, f"v{nth}", days=1)
    few, everything = cli.run("advise", "--days", "1").out, cli.run("advise", "--days", "1", "--all").out
    assert few.count("\nvol-") == 20
    assert "and 5 more (--all shows them, --csv and --json have them)" in few
    assert everything.count("\nvol-") == 25


def test_names_from_outside_stay_text(cli, lab):
    volume_id = add_empty_volume(lab, "\u202eevil\x9b31m" + "wide\uff21" * 20)
    for arguments in ([], [volume_id], [volume_id, "--iac", "cdk"]):
        out = cli.run("advise", *arguments).out
        assert all(character.isprintable() or character == "\n" for character in out)


def test_a_fleet_without_volumes_is_reported_as_empty(cli, lab):
    result = cli.run("advise")
    assert (result.code, result.out) == (0, "")
    assert result.err.splitlines() == [
        "no volume to advise on in us-east-1",
        "next: burstctl advise --region all",
    ]

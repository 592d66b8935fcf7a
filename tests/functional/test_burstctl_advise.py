"""burstctl advise: two weeks of history, the region's prices, and what people and programs are told."""

import csv
import io
import shlex
from datetime import timedelta

import pytest
from operators_desk import START, OperatorsDesk, a_lab, asked, modified
from operators_desk import add as add_volume

from burstctl.advise import collect
from burstctl.context import metric_resolution
from burstlab.fake_aws.faults import Fault
from burstlab.model.volume import MetricFault
from burstwatch.adapters.aws.metric_history import METRICS_PER_VOLUME
from burstwatch.core.ebs.usage import MIB

DAY_MIN = 1440
THE_VOLUME = "vol-0123456789abcdef0"
COLUMNS = 80


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    return OperatorsDesk(tmp_path, monkeypatch, capsys)


@pytest.fixture
def lab(desk):
    with a_lab(desk, publishes_bytes=False) as endpoint:
        yield endpoint
        forget_put_metrics()


def forget_put_metrics():
    """Metrics that tests put are kept by moto, for the whole process."""
    from moto.cloudwatch.models import cloudwatch_backends  # noqa: PLC0415 - heavy, and mostly not there

    cloudwatch_backends.reset()


def add(lab, name, load="steady:50", *, days=14.1, **given) -> str:
    return add_volume(lab, name, load, minutes=int(days * DAY_MIN), **given)


def add_dry(lab, name="ci-7", **given) -> str:
    """Wants 900 and earns 300: nine days dry, at 300 operations a second."""
    return add(lab, name, "steady:900", balance_pct=40, **given)


def put_throughput(lab, volume_id, mib_s, *, hours=8) -> None:
    """What CloudWatch is told the volume read, in each minute of so many hours up to 17:00."""
    client = lab.client("cloudwatch")
    dimensions = [{"Name": "VolumeId", "Value": volume_id}]
    starts = [START - timedelta(hours=1, minutes=nth) for nth in range(hours * 60)]
    told = [
        {
            "MetricName": "VolumeReadBytes",
            "Dimensions": dimensions,
            "Timestamp": at,
            "Value": mib_s * MIB * 60,
        }
        for at in starts
    ]
    for first in range(0, len(told), 500):
        client.put_metric_data(Namespace="AWS/EBS", MetricData=told[first : first + 500])


def rows_of(ran):
    return list(csv.DictReader(io.StringIO(ran.out)))


def volume_in(document, volume_id):
    [found] = [each for each in document["volumes"] if each["volume_id"] == volume_id]
    return found


def test_the_fleet_is_a_table_of_80_columns_with_the_dry_ones_first_then_the_dollars(desk, lab):
    small, dry = add(lab, "small"), add_dry(lab)
    large = add(lab, "lake", "steady:2000", size_gib=2_000)
    stays = add(lab, "stays", size_gib=200)

    ran = desk.run("advise")

    assert ran.code == 0
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= COLUMNS
    assert [line[:21] for line in lines if line.startswith("vol-")] == [dry, large, small, stays]
    assert lines[0].split() == ["VOLUME", "NOW", "ADVISED", "$/MONTH"]
    assert lines[1].split() == [dry, "gp2", "100", "GiB", "gp3", "3,000", "IOPS", "128", "MiB/s", "-1.88"]
    assert lines[2].split()[:2] == ["ci-7", "dry"]
    assert "14.0 days seen: good" in lines[2]
    assert lines[3].endswith("gp3 3,000 IOPS 250 MiB/s   -35.00")
    assert lines[7].endswith("stay                         0.00")
    # 10 + 10 + 200 + 20; 8.12 + 8.12 + 165 + 20
    assert "4 volumes in us-east-1: 3 to gp3, 1 stay; $240.00 -> $201.24 a month" in joined(ran.out)


def joined(text):
    return " ".join(text.split())


def test_where_nothing_would_live_on_credits_any_more_it_says_so_plainly(desk, lab):
    add_dry(lab)
    said = joined(desk.run("advise").out)
    assert "The honest answer is gp3, once, and you can uninstall us" in said
    assert "runbooks/MovingToGp3.md" in said


def test_where_nothing_lives_on_credits_already_it_says_that(desk, lab):
    add(lab, "stays", size_gib=200)
    assert "there is nothing to watch, you can uninstall us" in joined(desk.run("advise").out)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"days": 1}, "1 undecided"),
        ({"tags": {"burstwatch:ignore": "true"}}, "1 ignored by tag"),
    ],
)
def test_while_some_are_not_judged_nobody_is_told_to_uninstall(desk, lab, given, why):
    add_dry(lab)
    add(lab, "other", size_gib=200, **given)
    said = joined(desk.run("advise").out)
    assert f"Keep the watch until all are judged: {why}" in said
    assert "uninstall" not in said


def test_it_only_reads(desk, lab):
    add_dry(lab)
    ran = desk.run("advise")
    assert asked(lab) == 0
    assert not desk.ledger_path.exists()
    assert set(lab.faults.calls()) == {
        "DescribeVolumes",
        "DescribeInstances",
        "DescribeInstanceTypes",
        "GetMetricData",
        "GetParametersByPath",
        "GetProducts",
    }
    assert "read 5 metrics for $0.00005" in ran.err


def test_many_volumes_share_no_call_beyond_a_page_and_each_metric_is_asked_for_once(desk, lab):
    ids = [add(lab, f"v{nth}", days=1.1) for nth in range(30)]
    document = desk.run("advise", "--days", "1", "--json").document
    # 1,440 datapoints: 70 queries fill a page of 100,800, that is 14 volumes
    assert lab.faults.calls()["GetMetricData"] == 3
    assert lab.metrics_asked == len(ids) * METRICS_PER_VOLUME == document["cost"]["metrics_requested"]
    assert len(document["volumes"]) == 30


def test_one_volume_is_told_at_length_and_its_command_can_be_pasted(desk, lab):
    dry = add_dry(lab)
    ran = desk.run("advise", dry)

    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= COLUMNS
    said = joined(ran.out)
    assert "Make it gp3 with 3,000 IOPS and 128 MiB/s, for good." in said
    assert "so its demand is unknown" in said
    assert "bucket empty for" in said
    assert "$10.00 -> $8.12 a month: $1.88 less" in said
    [command] = [line for line in ran.out.replace("\\\n", "").splitlines() if " flip " in line]
    assert desk.run(*shlex.split(command)[1:], "--yes").code == 0
    assert modified(lab, dry) == ["gp3"]


def test_a_flipped_volume_is_advised_on_as_well_and_kept(desk, lab):
    dry = add_dry(lab)
    assert desk.run("flip", dry, "--yes", "--iops", "3000").code == 0
    lab.clock.advance(3 * 3600)

    found = volume_in(desk.run("advise", "--json").document, dry)
    assert found["now"]["volume_type"] == "gp3"
    assert found["flipped_from"] == {"volume_type": "gp2", "iops": None, "throughput_mib_s": None}
    said = joined(desk.run("advise", dry).out)
    assert "Keep it gp3 with 3,000 IOPS and 128 MiB/s for good." in said
    assert f"burstctl flip {dry}" in said


def test_a_critical_volume_is_advised_what_its_alert_proposes(desk, lab):
    etcd = add(lab, "etcd-0", "steady:200", tags={"burstwatch:critical": "true"})
    advised = desk.run("advise", "--json").document
    found = volume_in(advised, etcd)
    desk.run("watch", "--once")
    with desk.open_ledger() as ledger:
        bodies = [entry.body for entry in ledger.entries(etcd)]
    proposed = [b["evidence"]["to"] for b in bodies if b.get("kind") == "CriticalVolumeOnBurstStorage"]
    assert [each["volume_type"] for each in proposed] == ["gp3"]
    assert found["advised"]["volume_type"] == "gp3"
    # 45.00 on io2, as below, and 8.12 on gp3
    assert found["usd_per_month_more_on_io2"] == pytest.approx(45.0 - 8.12)
    assert advised["totals"]["critical"] == {
        "volumes": 1,
        "usd_per_month_difference": pytest.approx(8.12 - 10.0),
        "usd_per_month_more_on_io2": pytest.approx(45.0 - 8.12),
    }
    said = " ".join(desk.run("advise").out.split())
    assert (
        "Of that, 1 critical $1.88 less; io2 for the critical, for durability: $36.88 a month more." in said
    )
    whole = " ".join(desk.run("advise", etcd).out.split())
    assert "For durability, io2 with 500 IOPS is an option: $36.88 more a month than that." in whole


def test_a_critical_volume_that_asks_for_io2_is_advised_io2(desk, lab):
    tags = {"burstwatch:critical": "true", "burstwatch:target": "io2"}
    etcd = add(lab, "etcd-0", "steady:200", tags=tags)
    found = volume_in(desk.run("advise", "--json").document, etcd)
    # nobody knows its throughput, so it keeps its 128 MiB/s: 128 / 0.256; 12.5 + 500 x 0.065
    assert found["advised"] == {"volume_type": "io2", "iops": 500, "throughput_mib_s": None}
    assert found["usd_per_month_advised"] == 45.0
    assert found["critical"]


def test_throughput_of_the_labs_own_small_operations_is_little(desk):
    with a_lab(desk) as lab:
        # 50 operations a second of 16 KiB are 0.8 MiB/s
        volume_id = add(lab, "small")
        advice = volume_in(desk.run("advise", "--json").document, volume_id)
    assert advice["usage"]["mib_s"]["busiest"]["value"] == pytest.approx(50 * 16 / 1024)
    assert advice["advised"]["throughput_mib_s"] == 125


def test_throughput_that_was_seen_to_be_little_is_not_bought(desk, lab):
    volume_id = add(lab, "web", size_gib=200)
    put_throughput(lab, volume_id, 40)
    found = volume_in(desk.run("advise", "--json", "--percentile", "100").document, volume_id)
    assert found["usage"]["mib_s"]["busiest"]["value"] == 40
    # eight hours of throughput are known, all at 40: 50 with headroom, and 125 are included
    assert found["advised"]["throughput_mib_s"] == 125
    assert found["usd_per_month_difference"] == -4.0


def test_a_fleet_whose_advice_differs_from_its_alerts_says_so_below_the_table(desk, lab):
    volume_id = add(lab, "web", size_gib=100)
    same = "An alert may ask for other numbers"
    assert same not in joined(desk.run("advise").out)
    put_throughput(lab, volume_id, 40)
    ran = desk.run("advise")
    assert same in joined(ran.out)
    assert max(map(len, ran.out.splitlines())) <= 80
    said = joined(desk.run("advise", volume_id).out)
    assert "An alert asks for at least 3,000 IOPS and 128 MiB/s" in said


def test_throughput_that_was_held_back_is_bought_with_room(desk, lab):
    volume_id = add(lab, "media", size_gib=100)
    put_throughput(lab, volume_id, 127)
    found = volume_in(desk.run("advise", "--json").document, volume_id)
    assert found["advised"]["throughput_mib_s"] == 159  # 127 x 1.25
    assert found["need"]["held_back"]


def test_above_two_weeks_it_reads_means_of_five_minutes(desk, lab):
    volume_id = add_dry(lab)
    document = desk.run("advise", "--days", "60", "--json").document
    assert document["history"]["period_s"] == 300
    assert document["history"]["start"] == "2026-09-21T17:55:00Z"
    found = volume_in(document, volume_id)
    assert 13.9 < found["usage"]["days"] < 14.2
    assert "5-minute mean" in found["risks"][0]


def test_a_large_fleet_is_read_by_five_minutes_and_is_told_so(desk, lab, monkeypatch):
    monkeypatch.setattr(metric_resolution, "MOST_BY_THE_MINUTE", 1)
    add(lab, "a"), add(lab, "b")
    ran = desk.run("advise", "--json")
    assert ran.document["history"]["period_s"] == 300
    assert "2 volumes are read by means of five minutes" in ran.err


def test_the_json_has_every_key_and_numbers_as_numbers(desk, lab):
    add_dry(lab), add(lab, "new", days=0.001, size_gib=200), add(lab, "spare", attached=False)
    document = desk.run("advise", "--json").document
    assert document["schema"] == "burstwatch.advice/v1"
    assert document["generated_at"] == "2026-11-20T18:00:00Z"
    assert document["prices"] == {
        "region": "us-east-1",
        "as_of": "2026-10-28",
        "source": "price_list",
        "faults": [],
    }
    keys = {frozenset(each) for each in document["volumes"]}
    assert len(keys) == 1
    assert {each["verdict"] for each in document["volumes"]} == {"move", "undecided"}
    assert document["totals"]["by_target"] == {"gp3": 2, "stay": 1}
    assert document["totals"]["undecided"] == 1
    assert document["totals"]["ends_the_watch"] is False
    dry = document["volumes"][0]
    assert dry["usage"]["iops"]["at_percentile"] == 300  # it had spent its credits an hour after it began
    assert dry["danger"] == "ran_dry"
    assert dry["command"].startswith("burstctl flip vol-")


@pytest.mark.parametrize(
    "name", ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", 'a"b,c', "a\nb",
     "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(A1)"],
)  # fmt: skip
def test_no_name_acts_in_a_spreadsheet(desk, lab, name):
    volume_id = add(lab, name, days=1)
    ran = desk.run("advise", "--csv")
    [row] = rows_of(ran)
    assert row["volume_id"] == volume_id
    assert not row["name"].startswith(("=", "+", "-", "@", "\t", "\r", "\n", " "))
    assert not row["name"].startswith(("\uff1d", "\uff0b", "\uff0d", "\uff20"))
    assert len(ran.out.splitlines()) == 2
    for column, value in row.items():
        if value.startswith(("=", "+", "@", "\t", "\r")) or (value.startswith("-") and not float(value)):
            pytest.fail(f"{column} acts: {value!r}")


def test_csv_has_a_line_for_each_volume_with_its_command(desk, lab):
    dry = add_dry(lab)
    add(lab, "lake", size_gib=200)
    ran = desk.run("advise", "--csv")
    first, second = rows_of(ran)
    assert (first["volume_id"], first["verdict"], first["iops_advised"]) == (dry, "move", "3000")
    assert float(first["usd_per_month_difference"]) == -1.88
    assert first["command"].startswith(f"burstctl flip {dry} --to gp3")
    assert (second["verdict"], second["command"]) == ("stay", "")


def test_no_saving_is_counted_where_gp3_does_not_exist(desk, lab):
    """100 GiB idle gp2 that a flip would make cheaper: one here, one on an Outpost, one where AWS refused."""
    here = add(lab, "here", days=1)
    outpost = add(lab, "outpost", days=1, outpost_arn="arn:aws:outposts:us-east-1:1:outpost/op-1")
    boston = add(lab, "boston", days=1, zone="us-east-1-bos-1a", lacks_gp3=True)
    refused = desk.run("flip", boston, "--to", "gp3", "--yes")
    assert "type_not_available" in refused.err + refused.out
    found = {each["volume_id"]: each for each in desk.run("advise", "--json").document["volumes"]}
    assert "gp3" in found[here]["options"]
    for volume_id in (outpost, boston):
        assert not found[volume_id]["options"].keys() & {"gp3", "flip"}
        assert found[volume_id]["advised"]["volume_type"] != "gp3"
        assert any(reason.startswith("gp3 is left out: ") for reason in found[volume_id]["reasons"])
    assert found[boston]["usd_per_month_difference"] >= 0


def test_csv_of_no_volume_is_its_header(desk, lab):
    ran = desk.run("advise", "--csv")
    assert ran.code == 0
    assert ran.out.startswith("volume_id,name,region,")
    assert len(ran.out.splitlines()) == 1


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("terraform", '  type       = "gp3"'),
        ("cloudformation", "      VolumeType: gp3"),
        ("cdk", "    volume_type=ec2.EbsDeviceVolumeType.GP3,"),
    ],
)
def test_the_definition_is_data_alone(desk, lab, kind, line):
    dry = add_dry(lab)
    ran = desk.run("advise", dry, "--iac", kind)
    assert ran.code == 0
    assert line in ran.out.splitlines()
    assert "read 5 metrics" not in ran.out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--iac", "terraform"], "--iac is about volumes that you name"),
        (["--csv", "--json"], "exclude each other"),
        ([THE_VOLUME, "--csv", "--iac", "cdk"], "exclude each other"),
        (["--days", "0"], "0 is not in the range 1<=x<=62"),
        (["--days", "63"], "63 is not in the range"),
        (["--percentile", "101"], "101"),
        (["--iac", "pulumi"], "'pulumi' is not one of"),
        (["vol-1"], "is no volume id"),
    ],
)
def test_misuse_is_told_before_anything_is_read(desk, lab, arguments, why):
    ran = desk.run("advise", *arguments)
    assert ran.code == 2
    assert why in joined(ran.err)
    assert not lab.faults.calls()


def test_reads_that_cost_more_than_five_dollars_need_a_yes(desk, lab, monkeypatch):
    monkeypatch.setattr(collect, "MOST_USD", 0.00009)
    add(lab, "a"), add(lab, "b")
    ran = desk.run("advise")
    assert ran.code == 2
    assert "reading the history of 2 volumes costs $0.00" in ran.err
    assert "add --yes to read it, or name some of the volumes" in ran.err
    assert "GetMetricData" not in lab.faults.calls()
    assert desk.run("advise", "--yes").code == 0


def test_5_dollars_are_a_hundred_thousand_volumes():
    collect._check_cost(100_000, collect.Request())
    with pytest.raises(collect.SettingsError, match=r"100,001 volumes costs \$5.00"):
        collect._check_cost(100_001, collect.Request())


def test_a_volume_that_is_not_there_fails_and_the_others_are_advised_on(desk, lab):
    dry = add_dry(lab)
    ran = desk.run("advise", dry, THE_VOLUME)
    assert ran.code == 1
    assert "Make it gp3" in ran.out
    assert f"there is no volume {THE_VOLUME} in us-east-1" in ran.complaints[0]


def test_a_volume_that_cannot_be_read_fails_and_says_why_once(desk, lab):
    add_dry(lab)
    for name in "ab":
        unread = add(lab, name)
        lab.fleet.find(unread).metric_fault = MetricFault(status_code="Forbidden", message="no")
    ran = desk.run("advise")
    assert ran.code == 1
    assert "1 volume in us-east-1" in ran.out
    assert "Keep the watch until all are judged: 2 unread" in joined(ran.out)
    [complaint] = ran.complaints
    assert "no advice on vol-" in complaint


def test_volumes_that_cannot_be_listed_fail(desk, lab):
    add_dry(lab)
    lab.faults.add(Fault(action="DescribeVolumes", code="UnauthorizedOperation"))
    ran = desk.run("advise")
    assert ran.code == 1
    assert "ec2:DescribeVolumes failed" in ran.complaints[0]
    assert "there is no volume to advise on" not in ran.err


def test_instances_that_cannot_be_asked_limit_nothing_and_are_complained_of(desk, lab):
    add_dry(lab)
    lab.faults.add(Fault(action="DescribeInstanceTypes", code="UnauthorizedOperation"))
    ran = desk.run("advise")
    assert ran.code == 1
    assert "gp3 3,000 IOPS" in ran.out
    assert "ec2:DescribeInstanceTypes failed" in ran.complaints[0]


def test_prices_that_cannot_be_had_fall_back_loudly_and_are_no_failure(desk, lab):
    add_dry(lab)
    lab.faults.add(Fault(action="GetProducts", code="AccessDeniedException"))
    ran = desk.run("advise")
    assert ran.code == 0
    assert "list prices of us-east-1 of 2026-09-30, built in" in joined(ran.out)
    assert "prices: the built-in prices of us-east-1 of 2026-09-30 are used" in ran.err
    assert "grant pricing:GetProducts" in ran.err


def test_prices_are_those_of_the_region(desk):
    with a_lab(desk, region="eu-west-1") as lab:
        volume_id = add(lab, "a")
        found = volume_in(desk.run("advise", "--json").document, volume_id)
    assert found["usd_per_month_now"] == pytest.approx(11.00)  # a tenth more, in the lab
    assert found["command"].endswith("--region eu-west-1")


def test_a_type_that_there_is_no_advice_for_is_named(desk, lab):
    disk = add(lab, "tape", size_gib=500, volume_type="st1")
    ran = desk.run("advise", disk)
    assert ran.code == 0
    assert f"no advice: {disk}: st1 is not a type there is advice for" in ran.err


def test_a_managed_volume_is_left_to_its_manager(desk, lab):
    managed = add_dry(lab, managed_by="eks.amazonaws.com")
    said = desk.run("advise", managed).out
    assert "Change it where eks.amazonaws.com is told what it shall be." in said
    assert "burstctl flip" not in said


def test_an_ignored_volume_is_advised_on_when_it_is_named(desk, lab):
    ignored = add_dry(lab, tags={"burstwatch:ignore": "true"})
    assert "ignored by tag" in desk.run("advise").err
    assert "Make it gp3" in desk.run("advise", ignored).out


def test_of_many_volumes_the_first_are_shown_and_all_on_demand(desk, lab):
    for nth in range(25):
        add(lab, f"v{nth}", days=1)
    few, everything = desk.run("advise", "--days", "1").out, desk.run("advise", "--days", "1", "--all").out
    assert few.count("\nvol-") == 20
    assert "and 5 more (--all shows them, --csv and --json have them)" in few
    assert everything.count("\nvol-") == 25


def test_names_from_outside_stay_text(desk, lab):
    volume_id = add_dry(lab, "\u202eevil\x9b31m" + "wide\uff21" * 20)
    for arguments in ([], [volume_id], [volume_id, "--iac", "cdk"]):
        out = desk.run("advise", *arguments).out
        assert all(character.isprintable() or character == "\n" for character in out)


def test_a_fleet_without_volumes_says_so(desk, lab):
    ran = desk.run("advise")
    assert (ran.code, ran.out) == (0, "")
    assert "there is no volume to advise on in us-east-1" in ran.err

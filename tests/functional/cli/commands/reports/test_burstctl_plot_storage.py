"""burstctl plot of file systems and databases: their units, which bucket is drawn, or why none is."""

import pytest

from burstlab.fake_aws.faults import Fault
from burstwatch.core.text import display_width
from support.cli.plotted_storage import HOME, add_database, add_file_system

MIB = 2**20


@pytest.mark.parametrize("name", [HOME, "shared-home"])
def test_a_file_system_is_drawn_in_per_cent_and_in_metered_mib(cli, home, name):
    result = cli.run("plot", name)

    lines = result.out.splitlines()
    assert result.code == 0
    assert lines[0] == f"{HOME} (shared-home), bursting, 58 GiB in Standard: burst credits"
    assert lines[1] == "warning: 44.6 % at 17:50, empty in 7 h (01:09 Sat), not before 20:38 UTC"
    assert lines[2] == "last 6h: lowest 44.6 % at 17:40, busiest 40 metered MiB/s at 12:00, 25 % reads"
    assert "MiB/s   █ most metered in 10 min  ─ baseline 2.8  ┄ burst 100 (off the scale)" in lines
    assert max(map(display_width, lines)) <= 80
    assert f"next: burstctl explain {HOME}" in result.err


def test_the_baseline_of_a_small_file_system_is_what_efs_leaves_it(cli, lab):
    add_file_system(lab, size_gib=10, load="steady:240@256%50", balance_pct=80)
    assert "─ baseline 1  ┄ burst 100" in cli.run("plot", HOME).out


def test_the_document_of_a_file_system_has_what_is_metered(cli, home):
    document = cli.run("plot", HOME, "--json").document

    assert (document["resource_id"], document["resource_type"]) == (HOME, "efs")
    assert (document["bucket"], document["volume_id"]) == ("efs-bytes", None)
    series = document["series"]
    assert {rate for _, rate in series["served_mib_s"]} == {40.0}
    assert {rate for _, rate in series["read_mib_s"]} == {10.0}
    assert series["served_iops"] == series["read_iops"] == []
    assert max(pct for _, pct in series["burst_balance_pct"]) <= 80
    [limit] = document["limits"]
    assert (limit["sustained_mib_s"], limit["most_mib_s"]) == (2.832, 100)
    assert document["forecast"]["drain_per_s"] == pytest.approx(40 - 2.832, abs=0.01)
    assert document["forecast"]["from_pct"] == pytest.approx(series["burst_balance_pct"][-1][1], abs=0.001)


def test_a_picture_of_a_file_system_shows_a_third_of_the_reads_as_metered(cli, home):
    result = cli.run("plot", HOME, "--to", "home.svg")
    png = cli.run("plot", HOME, "--to", "home.png")

    assert (result.code, png.code) == (0, 0)
    assert "busiest 40 metered MiB/s" in (cli.directory / "home.svg").read_text()
    assert (cli.directory / "home.png").read_bytes().startswith(b"\x89PNG")


def test_an_empty_file_system_that_is_idle_is_drawn(cli, lab):
    add_file_system(lab, size_gib=0)

    result = cli.run("plot", HOME)

    assert result.code == 0
    assert "lowest 100.0 % at 12:00, idle" in result.out
    assert "─ baseline 1  ┄ burst 100 (off the scale)" in result.out


def test_a_throttled_file_system_has_more_than_it_earns(cli, lab):
    add_file_system(lab, size_gib=10, load="steady:600@256", balance_pct=0)

    assert "busiest 1 metered MiB/s" in cli.run("plot", HOME).out
    assert "EXHAUSTED: burst credits used up, so the limit of 1 MiB/s applies" in cli.run("explain", HOME).out


def test_the_bucket_of_a_database_that_empties_first_is_drawn(cli, orders):
    result = cli.run("plot", orders)

    lines = result.out.splitlines()
    assert result.code == 0
    assert lines[0] == "db:orders, db.t3.medium, 100 GiB of gp2: storage credits"
    assert lines[2].endswith("busiest 2,500/s at 17:30, 30 % reads")
    assert any(line.endswith("─ baseline 300  ┄ burst 3,000") for line in lines)
    assert max(map(display_width, lines)) <= 80


@pytest.mark.parametrize(
    ("bucket", "name", "period_s", "rates", "limits"),
    [
        ("storage", "rds-io", 60, "served_iops", ("sustained_iops", 300, "most_iops", 3_000)),
        ("io", "instance-io", 300, "served_iops", ("sustained_iops", 2_000, "most_iops", 6_000)),
        (
            "throughput",
            "instance-throughput",
            300,
            "served_mib_s",
            ("sustained_mib_s", 41.4, "most_mib_s", 248.6),
        ),
    ],
)
def test_each_bucket_of_a_database_is_drawn_in_its_unit(cli, orders, bucket, name, period_s, rates, limits):
    document = cli.run("plot", orders, "--bucket", bucket, "--json").document

    assert (document["resource_type"], document["bucket"]) == ("rds", name)
    assert document["period_s"] == period_s
    assert {rate for _, rate in document["series"][rates]} == {2_500 if rates == "served_iops" else 39.062}
    [limit] = document["limits"]
    sustained_key, sustained, most_key, most = limits
    assert round(limit[sustained_key], 1) == sustained
    assert round(limit[most_key], 1) == most


def test_levels_and_alerts_of_a_database_are_on_its_picture(cli, lab, orders):
    (cli.directory / "policy.yaml").write_text("version: 1\nresources: {rds: {watch: true}}\n")
    cli.run("watch", "--once")
    lab.clock.advance(300)

    document = cli.run("plot", orders, "--json").document

    assert [level["level"] for level in document["levels"]][-1] in {"critical", "exhausted"}
    assert document["marks"][0]["told"] is True


def test_a_file_system_in_another_mode_is_not_drawn(cli, lab):
    add_file_system(lab, throughput_mode="elastic")

    result = cli.run("plot", HOME)

    assert (result.code, result.out) == (1, "")
    assert result.error_lines == [
        f"error: the burst credits of {HOME} cannot drain, so nothing can be plotted: its throughput mode is"
        " elastic: only bursting mode depends on burst credits."
    ]
    assert f"fix: burstctl explain {HOME}" in result.err


def test_a_file_system_has_no_bucket_to_choose(cli, home):
    result = cli.run("plot", HOME, "--bucket", "throughput")

    assert result.code == 2
    assert f"--bucket throughput: not a bucket of {HOME}" in result.err


@pytest.mark.parametrize(
    ("fields", "options", "message", "fix"),
    [
        (
            {"engine": "aurora-mysql", "storage_type": "aurora"},
            [],
            "no bucket of db:orders can drain, so nothing can be plotted: it is Aurora",
            "burstctl explain db:orders",
        ),
        (
            {"storage_type": "gp3", "instance_class": "db.t3.medium"},
            ["--bucket", "storage"],
            "db:orders: the storage credits cannot drain, so nothing can be plotted: its storage is gp3",
            "burstctl plot db:orders --bucket ",
        ),
        (
            {},
            ["--bucket", "throughput"],
            "db:orders: the EBS throughput credits of its class cannot drain",
            "burstctl plot db:orders --bucket storage",
        ),
        (
            {"stopped": True},
            [],
            "no datapoint of db:orders in the last 6h: it is stopped, so it has no metrics",
            "a longer --last may show more",
        ),
    ],
    ids=["Aurora", "gp3", "large class", "stopped"],
)
def test_a_database_is_not_drawn_and_the_reason_is_stated(cli, lab, fields, options, message, fix):
    add_database(lab, **fields)

    result = cli.run("plot", "db:orders", *options)

    assert (result.code, result.out) == (1, "")
    assert message in result.err
    assert f"fix: {fix}" in result.err


@pytest.mark.parametrize(("name", "noun"), [("fs-0123456789abcdeff", "file system"), ("db:gone", "database")])
def test_what_does_not_exist_is_not_drawn(cli, lab, name, noun):
    result = cli.run("plot", name)

    assert result.code == 1
    assert f"no {noun} {name} in us-east-1" in result.err
    assert f"burstctl history {name}" in result.err


@pytest.mark.usefixtures("home", "orders")
@pytest.mark.parametrize(
    ("action", "name", "permission"),
    [
        ("DescribeFileSystems", HOME, "elasticfilesystem:DescribeFileSystems"),
        ("DescribeDBInstances", "db:orders", "rds:DescribeDBInstances"),
    ],
)
def test_a_resource_that_may_not_be_read_is_not_drawn(cli, lab, action, name, permission):
    lab.faults.add(Fault(action=action, code="AccessDenied", message="denied", status=403))

    result = cli.run("plot", name)

    assert (result.code, result.out) == (1, "")
    assert permission in result.err


def test_what_is_ignored_by_tag_is_drawn_and_not_judged(cli, lab):
    add_file_system(lab, load="steady:40@256", balance_pct=30, tags={"burstwatch:ignore": "true"})
    add_database(lab, load="steady:1500", tags={"burstwatch:ignore": "true"})

    for name in (HOME, "db:orders"):
        result = cli.run("plot", name)
        assert result.code == 0
        assert result.out.splitlines()[1].startswith("ignored by tag, so nothing is decided about it")

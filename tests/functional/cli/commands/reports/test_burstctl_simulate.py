"""burstctl simulate: an instance of the lab, its recorded I/O, and instance types as AWS describes them."""

import struct
import sys
import xml.etree.ElementTree as ET
from datetime import timedelta

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.instances.instance import InstanceBalances
from burstwatch.core.text import display_width
from support.cli.cli_session import START, add_lab_volume
from support.lab.instance_load import publish_load
from support.lab.simulated_instance import (
    DAY_S,
    END_S,
    HOUR_S,
    INSTANCE,
    OPERATION_KIB,
    add_instance,
    nightly_job,
)


def topic(result, label) -> str:
    """What the output says under a label, on one line."""
    lines = result.out.splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith(label))
    rest = lines[first + 1 :]
    count = next((index for index, line in enumerate(rest) if not line.startswith(" " * 10)), len(rest))
    return " ".join(" ".join([lines[first][10:], *rest[:count]]).split())


def test_how_often_for_how_long_and_when_first_it_would_have_been_empty(cli, night):
    add_instance(night)

    result = cli.run("simulate", INSTANCE, "--to", "m5.large")

    # m5.large sustains 3,600 and holds 27,270,000: 6,000 - 3,600 = 2,400 a second last 11,362.5 s, to 5:09.
    # The 3,037.5 s until 6:00 leave 7,290,000 waiting. 3,600 - 900 = 2,700 a second serve them in 2,700 s.
    # That is 5,737.5 s a night; 14 nights: 80,325 s.
    assert result.code == 0
    assert result.out.startswith(f"{INSTANCE} (ci-7), m5.xlarge: 14.0 days until Fri 20 Nov 17:50 UTC")
    assert topic(result, "Answer") == (
        "m5.large would have been empty 14 times, for 22 h 18 min in all, first on Sat 7 Nov at 05:09 UTC."
        " It is the I/O bucket (EBSIOBalance%) that is empty."
    )
    assert topic(result, "Enough") == "The smallest that would never have been empty: m5.xlarge."
    [first, *_] = [line for line in result.out.splitlines() if line.startswith("Sat 7 Nov")]
    assert " ".join(first.split()) == "Sat 7 Nov 05:09 06:45 95 min I/O 7,290,000 operations"
    assert max(map(display_width, result.out.splitlines())) <= 80


def test_the_document_has_each_spell_and_every_type(cli, night):
    add_instance(night)

    document = cli.run("simulate", INSTANCE, "--to", "m5.large", "--json").document

    target = document["target"]
    assert (target["empty_times"], target["empty_s"]) == (14, 80_325)
    assert target["first_empty_at"] == "2026-11-07T05:09:22Z"
    assert target["spells"][0]["buckets"] == ["instance-io"]
    io, throughput = target["buckets"]
    assert io["spells"][0]["waiting_at_most"] == 7_290_000
    assert (io["capacity"], io["lowest_pct"], throughput["lowest_pct"]) == (27_270_000, 0.0, 100.0)
    assert document["smallest"] == ["m5.xlarge"]
    by_name = {entry["instance_type"]: entry for entry in document["types"]}
    assert by_name["m5.xlarge"]["enough"]
    assert by_name["m5.4xlarge"]["sustained"]
    assert document["cost"]["metrics_requested"] == 6
    assert document["unserved"] == "queued"


def test_a_type_without_a_bucket_has_no_lowest_balance(cli, night):
    add_instance(night)

    result = cli.run("simulate", INSTANCE, "--to", "m5.4xlarge")

    assert "it sustains its maximum" in topic(result, "Answer")
    assert not [line for line in result.out.splitlines() if line.startswith("Lowest")]


def test_it_is_read_only_and_never_writes_a_ledger(cli, night):
    add_instance(night)
    calls = cli.run("simulate", INSTANCE, "--to", "m5.large", "--json").document["api_calls"]
    assert not cli.ledger_path.exists()
    assert calls == {
        "cloudwatch:GetMetricData": 1,
        "ec2:DescribeInstanceTypes": 1,
        "ec2:DescribeInstances": 1,
        "ec2:DescribeVolumes": 1,
        "ssm:GetParametersByPath": 1,
    }


def test_volumes_that_cannot_draw_more_than_the_baseline_are_the_proof(cli, lab, monkeypatch):
    publish_load(monkeypatch, lambda _: 2_900.0, operation_kib=OPERATION_KIB)
    add_instance(lab, volume_iops=3_000)

    result = cli.run("simulate", INSTANCE, "--to", "m5.large")

    assert (
        "The I/O bucket cannot drain: m5.large sustains 3,600 IOPS, and the volumes serve at most 3,000."
        in (topic(result, "Volumes"))
    )
    assert "m5.large would never have been empty." in topic(result, "Answer")
    assert "its load was at the limit of its volumes for 14 d 0 h" in topic(result, "Measured")


def test_a_planned_volume_raises_what_the_instance_may_have_to_carry(cli, lab, monkeypatch):
    # each night at the limit of today's 3,000; with 3,000 more the same hours may have 6,000
    publish_load(monkeypatch, lambda at_s: min(3_000, nightly_job(at_s)), operation_kib=OPERATION_KIB)
    add_instance(lab, volume_iops=3_000)

    result = cli.run("simulate", INSTANCE, "--to", "m5.large", "--with-volume", "gp3:3000:125")
    document = cli.run(
        "simulate", INSTANCE, "--to", "m5.large", "--with-volume", "gp3:3000:125", "--json"
    ).document

    assert topic(result, "Plan") == (
        "With gp3:3000:125, the volumes serve at most 6,000 IOPS and 250 MiB/s. For 2 d 8 h the load was at"
        " the limit of today's volumes. With the plan it may rise: m5.large would then have been empty up to"
        " 14 times, for 22 h 18 min in all."
    )
    assert "m5.large would never have been empty." in topic(result, "Answer")
    assert document["plan"]["empty_times_at_most"] == 14
    assert document["plan"]["volume_limits"] == {"iops": 6_000, "mib_s": 250.0}
    assert document["target"]["empty_times"] == 0


def test_a_planned_change_replaces_the_limits_of_the_volume(cli, night):
    volume_id = add_instance(night)
    plan = f"{volume_id}=gp3:3500:125"
    document = cli.run("simulate", INSTANCE, "--with-volume", plan, "--json").document
    assert document["plan"]["volume_limits"] == {"iops": 3_500, "mib_s": 125.0}
    # the plan itself now holds the nightly job back
    assert document["target"]["instance_type"] == "m5.xlarge"
    assert document["target"]["buckets"][0]["cannot_drain"]
    assert document["target"]["at_maximum_s"] > 0


def test_a_change_of_a_volume_that_is_not_attached_is_refused(cli, night):
    add_instance(night)
    result = cli.run("simulate", INSTANCE, "--with-volume", "vol-0aaaaaaaaaaaaaaaa=gp3:3500:125")
    assert result.code == 2
    assert "vol-0aaaaaaaaaaaaaaaa is not attached.\n  fix: leave it out to add a volume" in result.err


def test_a_type_that_sustains_its_maximum_is_never_empty(cli, night):
    add_instance(night)
    result = cli.run("simulate", INSTANCE, "--to", "m5.4xlarge")
    assert topic(result, "Answer") == (
        "m5.4xlarge has no EBS burst credits, so it is never empty: it sustains its maximum of 18,750 IOPS"
        " and 566 MiB/s."
    )


def test_other_families_can_be_searched(cli, night):
    add_instance(night)
    document = cli.run(
        "simulate", INSTANCE, "--to", "m5.large", "--types", "t3.*, m6g.large", "--json"
    ).document
    names = [entry["instance_type"] for entry in document["types"]]
    assert names[0] == "m5.large"
    assert "t3.2xlarge" in names
    assert "m6g.large" in document["left_out"], "it is arm64"
    assert len(document["smallest"]) == len({name.partition(".")[0] for name in document["smallest"]})


def test_if_no_type_of_the_family_is_enough_the_next_step_finds_one_in_another(cli, lab, monkeypatch):
    add_instance(lab, "t4g.small")
    publish_load(monkeypatch, lambda _at_s: 5_000)
    enough = topic(cli.run("simulate", INSTANCE, "--last", "2d"), "Enough")
    assert enough == "None of the 7 types looked at. To look in other families: --types 'c?g.*,m?g.*,r?g.*'."
    patterns = enough.split("'")[1]
    result = cli.run("simulate", INSTANCE, "--last", "2d", "--types", patterns)
    assert topic(result, "Enough").startswith("The smallest that")


def test_a_daily_reset_at_a_given_time(cli, night):
    add_instance(night)
    result = cli.run("simulate", INSTANCE, "--to", "m5.large", "--daily-reset", "04:00")
    # from 4:00 on the full bucket lasts until 6:00
    assert "m5.large would never have been empty." in topic(result, "Answer")
    assert "AWS fills them daily at 04:00 UTC, as --daily-reset says." in topic(result, "Assumed")


def test_holes_are_reported_and_keep_the_balance(cli, lab, monkeypatch):
    hole = range(END_S - 10 * HOUR_S, END_S - 7 * HOUR_S)
    publish_load(monkeypatch, lambda at_s: None if at_s in hole else nightly_job(at_s), operation_kib=4)
    add_instance(lab)
    result = cli.run("simulate", INSTANCE, "--to", "m5.large")
    assert topic(result, "Data") == (
        "3 h 00 min without data in 1 gap, the longest 3 h 00 min: unknown, so the balances stay as"
        " they were."
    )


def test_an_interval_in_which_one_metric_is_missing_is_a_hole(cli, lab, monkeypatch):
    publish_load(monkeypatch, nightly_job, without={"EBSReadBytes": {END_S - HOUR_S}})
    add_instance(lab)
    assert cli.run("simulate", INSTANCE, "--json").document["unknown_s"] == 300


def test_a_much_shorter_history_than_requested_is_warned_about(cli, lab):
    add_instance(lab)
    lab.fleet.set_load(next(iter(lab.fleet)).volume_id, "steady:100")
    lab.clock.advance(4 * HOUR_S)

    result = cli.run("simulate", INSTANCE, "--to", "m5.large")

    warning = "WARNING: CloudWatch has 4 h 20 min of its I/O, not 14d: a load that comes once a day"
    assert warning in topic(result, "Data")
    assert "WARNING" not in cli.run("simulate", INSTANCE, "--to", "m5.large", "--last", "4h").out


def test_an_instance_that_was_throttled_is_warned_about(cli, night):
    add_instance(night, "m5.large")
    instance = night.fleet.instances[INSTANCE]
    instance.set_balances(InstanceBalances(END_S - 3 * DAY_S, 100, 100))
    instance.set_balances(InstanceBalances(END_S - HOUR_S, 0, 100))

    result = cli.run("simulate", INSTANCE, "--to", "m5.xlarge")

    assert (
        "WARNING: its own EBSIOBalance% was at most 1 % for 60 min, first on Fri 20 Nov 16:50. The real load"
        " was higher."
    ) in topic(result, "Measured")


def test_the_present_type_was_empty_as_its_balance_shows_although_the_load_would_fit(cli, throttled):
    result = cli.run("simulate", INSTANCE)
    assert topic(result, "Answer").startswith(
        "m5.large was empty once, for 3 h 00 min in all, first on Fri 20 Nov at 14:50 UTC. It is the I/O"
        " bucket (EBSIOBalance%) that is empty. That was measured."
    )
    assert "never" not in result.out
    document = cli.run("simulate", INSTANCE, "--json").document
    assert document["throttled_s"] == 3 * HOUR_S
    assert document["target"]["measured"]
    assert not document["target"]["enough"]
    assert document["target"]["empty_s"] == 3 * HOUR_S
    assert "m5.large" not in document["smallest"]


def test_no_type_is_enough_for_certain_if_the_load_was_throttled(cli, throttled):
    result = cli.run("simulate", INSTANCE, "--to", "m5.xlarge")
    assert topic(result, "Answer") == (
        "m5.xlarge would not have been empty by the load that was served. Whether it is enough is not known:"
        " for 3 h 00 min less was served than was wanted."
    )
    assert "by the load that was served" in topic(result, "Enough")
    assert "never" not in result.out


def test_a_smaller_type_would_have_been_empty_at_least_as_often(cli, throttled):
    answer = topic(cli.run("simulate", INSTANCE, "--to", "t3.small"), "Answer")
    assert "t3.small would have been empty at least once" in answer


def test_a_type_that_sustains_no_more_than_was_served_while_throttled_is_not_named_as_enough(cli, throttled):
    # t3.nano sustains 250 IOPS, and its full bucket of 20,790,000 would have lasted for what was served
    document = cli.run("simulate", INSTANCE, "--to", "t3.nano", "--types", "m5.*", "--json").document
    assert document["smallest"] == ["t3.large", "m5.xlarge"]
    by_name = {entry["instance_type"]: entry for entry in document["types"]}
    assert not by_name["m5.large"]["enough"]
    enough = topic(cli.run("simulate", INSTANCE, "--to", "t3.nano"), "Enough")
    assert enough == (
        "The smallest that would not have been empty by the load that was served: t3.large, or larger."
    )


@pytest.mark.parametrize("plan", ["gp3:6000:250", "gp3:3000:125"])
def test_a_plan_that_adds_a_volume_does_not_make_a_type_enough_that_was_empty(cli, throttled, plan):
    result = cli.run("simulate", INSTANCE, "--with-volume", plan)
    document = cli.run("simulate", INSTANCE, "--with-volume", plan, "--json").document
    assert topic(result, "Answer").startswith("m5.large was empty once, for 3 h 00 min in all")
    assert "by the load that was served: m5.xlarge, or larger." in topic(result, "Enough")
    assert document["smallest"] == ["m5.xlarge"]
    assert document["plan"]["empty_times_at_most"] is None


def test_how_a_plan_raises_a_throttled_load_is_not_known(cli, lab, monkeypatch):
    publish_load(monkeypatch, lambda at_s: 2_950 if at_s == END_S - 3 * HOUR_S else 500, operation_kib=4)
    add_instance(lab, "t3.micro", volume_iops=3_000)
    lab.fleet.instances[INSTANCE].set_balances(InstanceBalances(END_S - 3 * HOUR_S, 0, 100))
    result = cli.run("simulate", INSTANCE, "--with-volume", "gp3:6000:250")
    assert topic(result, "Plan").endswith(
        "With the plan it may rise: t3.micro may then have been empty, but for how long is not known."
    )


def test_simulate_names_the_type_that_explain_recommends(cli, throttled):
    # held to 3,600; its volume serves 8,000, which m5.2xlarge sustains
    assert topic(cli.run("simulate", INSTANCE), "Enough").endswith(
        "m5.xlarge, or larger. m5.2xlarge sustains all of its load without credits."
    )
    assert "m5.2xlarge is the smallest of its family that sustains that" in (
        " ".join(cli.run("explain", INSTANCE).out.split())
    )


def test_a_plan_that_cannot_drain_the_bucket_makes_the_type_enough(cli, throttled):
    [volume] = throttled.fleet
    plan = f"{volume.volume_id}=gp3:3000:125"
    document = cli.run("simulate", INSTANCE, "--with-volume", plan, "--json").document
    assert not document["target"]["measured"]


def test_a_balance_of_an_earlier_type_shows_that_the_load_was_throttled_and_nothing_else(cli, throttled):
    throttled.fleet.instances[INSTANCE].launched_at = START - timedelta(minutes=10)
    throttled.fleet.instances[INSTANCE].instance_type = "m5.xlarge"
    result = cli.run("simulate", INSTANCE, "--types", "t3.*")
    document = cli.run("simulate", INSTANCE, "--types", "t3.*", "--json").document
    assert not document["target"]["measured"]
    assert topic(result, "Answer").startswith("m5.xlarge would not have been empty by the load that was")
    # m5.large sustains what was served when it was empty: 3,600
    assert document["smallest"] == ["m5.xlarge", "t3.large"]


def test_a_load_above_the_baseline_empties_the_bucket_later_if_it_goes_on(cli, lab, monkeypatch):
    # t3.nano sustains 250 and holds (11,800 - 250) x 1,800 = 20,790,000: at 2,000 a second 198 min
    publish_load(monkeypatch, lambda at_s: 2_000 if at_s >= END_S - HOUR_S else None, operation_kib=4)
    add_instance(lab, "t3.large", volume_iops=6_000)
    result = cli.run("simulate", INSTANCE, "--to", "t3.nano")
    document = cli.run("simulate", INSTANCE, "--to", "t3.nano", "--json").document
    assert topic(result, "Answer") == (
        "t3.nano would not have been empty in the 60 min of data, but its I/O bucket falls: the load is 2,000"
        " IOPS on average, and the type sustains 250. If it goes on, the bucket is empty about 2 h 18 min"
        " later."
    )
    assert "t3.nano" not in document["smallest"]
    assert not document["target"]["enough"]
    [line] = [line for line in result.out.splitlines() if line.startswith("t3.nano")]
    assert "if it goes on" in line


def test_without_two_weeks_of_data_the_answer_is_about_the_data(cli, lab, monkeypatch):
    publish_load(monkeypatch, lambda at_s: 20 if at_s >= END_S - HOUR_S else None)
    add_instance(lab, "m5.large")
    result = cli.run("simulate", INSTANCE)
    assert topic(result, "Answer").startswith("m5.large would not have been empty in the 60 min of data.")
    assert topic(result, "Enough") == (
        "The smallest that would not have been empty in the 60 min of data: m5.large."
    )


def test_a_volume_without_credits_throttled_the_load(cli, lab, monkeypatch):
    publish_load(monkeypatch, lambda _: 300.0, operation_kib=4)
    add_instance(lab, "m5.large", volume_iops=None)
    volume_id = add_lab_volume(lab, "root", size_gib=100, instance_id=INSTANCE, balance_pct=0)
    lab.fleet.set_load(volume_id, "steady:2900")
    lab.clock.advance(4 * HOUR_S)
    result = cli.run("simulate", INSTANCE)
    assert f"the BurstBalance of {volume_id} was at most 1 % for" in topic(result, "Measured")
    assert "less was served than was wanted" in topic(result, "Answer")


def test_of_types_with_the_same_limits_the_smallest_is_named(cli, lab, monkeypatch):
    # t3.large, t3.xlarge and t3.2xlarge sustain the same
    publish_load(monkeypatch, lambda _: 3_000.0, operation_kib=4)
    add_instance(lab, "t3.large")
    document = cli.run("simulate", INSTANCE, "--json").document
    assert document["smallest"] == ["t3.large"]
    names = [entry["instance_type"] for entry in document["types"]]
    assert names[-3:] == ["t3.large", "t3.xlarge", "t3.2xlarge"]


def test_without_balances_a_load_at_the_baseline_is_warned_about(cli, lab, monkeypatch):
    publish_load(monkeypatch, lambda at_s: 3_600 if at_s >= END_S - HOUR_S else 100)
    add_instance(lab, "m5.large")
    lab.fleet.hide_metrics(INSTANCE, from_at=START - timedelta(days=20), to_at=START, only_balance=True)
    measured = topic(cli.run("simulate", INSTANCE, "--to", "m5.xlarge"), "Measured")
    assert "its I/O was at the baseline of m5.large (balance unknown) for 60 min" in measured
    assert "CloudWatch has no EBSIOBalance% and EBSByteBalance% of it." in measured


def test_an_instance_that_was_started_within_the_time_may_have_had_another_type(cli, lab, monkeypatch):
    publish_load(monkeypatch, lambda at_s: 21_000 if at_s < END_S - 10 * DAY_S else 100, operation_kib=4)
    add_instance(lab, "m5.large", days=9)
    measured = topic(cli.run("simulate", INSTANCE, "--to", "m5.large"), "Measured")
    assert "It was started on Wed 11 Nov 18:00. A type can change while an instance is stopped" in measured
    assert "On Fri 6 Nov 17:50 it served more than m5.large can: it was another type." in measured


def test_detailed_monitoring_explains_missing_balances(cli, night):
    add_instance(night, detailed_monitoring=True)
    night.fleet.hide_metrics(INSTANCE, from_at=START - timedelta(days=20), to_at=START, only_balance=True)
    measured = topic(cli.run("simulate", INSTANCE, "--to", "m5.large"), "Measured")
    assert "it has detailed monitoring, and AWS publishes them with basic monitoring only" in measured


def test_an_unknown_instance(cli, night):
    result = cli.run("simulate", INSTANCE, "--to", "m5.large")
    assert result.code == 1
    assert result.error_lines == [f"error: no instance {INSTANCE} in us-east-1."]
    assert "  fix: check the ID, the Region and the account" in result.err


def test_an_unknown_type(cli, night):
    add_instance(night)
    result = cli.run("simulate", INSTANCE, "--to", "m5.larg")
    assert result.code == 2
    assert "no instance type m5.larg in us-east-1.\n  fix: check the spelling" in result.err


def test_a_type_without_known_limits(cli, night):
    add_instance(night)
    result = cli.run("simulate", INSTANCE, "--to", "t2.micro")
    assert result.code == 2
    assert "EC2 shows no EBS limits of t2.micro, so its buckets cannot be simulated" in result.err


@pytest.mark.parametrize(
    ("state", "reason", "fix"),
    [
        ("stopped", "it is stopped", "give a longer --last, up to 62d, to see when it was in use"),
        (
            "running",
            "EC2 publishes it for instances on Nitro only",
            "check the type, or give a longer --last",
        ),
    ],
)
def test_an_instance_without_metrics(cli, lab, monkeypatch, state, reason, fix):
    publish_load(monkeypatch, lambda _: None)
    add_instance(lab, state=state)
    result = cli.run("simulate", INSTANCE, "--to", "m5.large")
    assert result.code == 1
    assert result.error_lines == [
        f"error: CloudWatch has no EBSReadOps of {INSTANCE} in the last 14d: {reason}."
    ]
    assert f"  fix: {fix}" in result.err


DENIED = {"code": "UnauthorizedOperation", "message": "You are not authorized to perform this operation."}


def test_a_planned_change_is_played_although_the_volumes_cannot_be_read(cli, night):
    add_instance(night)
    night.faults.add(Fault(action="DescribeVolumes", status=403, **DENIED))
    result = cli.run("simulate", INSTANCE, "--with-volume", "vol-0aaaaaaaaaaaaaaaa=gp3:3500:125")
    assert result.code == 1
    assert "They could not be read, so only the instance type limits the load." in topic(result, "Volumes")


@pytest.mark.parametrize(
    ("call", "still_answers"),
    [
        ("DescribeVolumes", True),
        ("DescribeInstances", True),
        ("DescribeInstanceTypes", False),
        ("GetMetricData", False),
    ],
)
def test_access_denied_for_one_call_is_reported_once(cli, night, call, still_answers):
    add_instance(night)
    night.faults.add(Fault(action=call, status=403, **DENIED))

    result = cli.run("simulate", INSTANCE, "--to", "m5.large")

    assert result.code == 1
    [line] = result.error_lines
    assert call in line
    assert "Traceback" not in result.err
    assert ("m5.large would have been empty 14 times" in result.out) is still_answers


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["i-123"], "'i-123' is not a valid instance ID"),
        ([INSTANCE, "--to", "large"], "'large' is not an instance type. fix: write one such as m7g.large"),
        (
            [INSTANCE, "--types", "m7g"],
            "'m7g' is not a pattern of instance types. fix: write one such as m7g.*",
        ),
        (
            [INSTANCE, "--daily-reset", "24:00"],
            "'24:00' is not a time in UTC. fix: write one such as 00:00, or none",
        ),
        ([INSTANCE, "--last", "63d"], "63d is out of range. fix: give from 1h to 62d"),
        (
            [INSTANCE, "--with-volume", "gp3"],
            "'gp3' is not a planned volume. fix: write [VOLUME=]TYPE:IOPS:MIB_S[:GIB]",
        ),
        ([INSTANCE, "--with-volume", "gp4:1:1"], "'gp4' is not a type. fix: write gp3, io1, io2"),
        (
            [INSTANCE, "--with-volume", "gp3:90000:250"],
            "90,000 IOPS is out of range. fix: gp3 takes 3,000 to 80,000 IOPS",
        ),
        (
            [INSTANCE, "--with-volume", "gp3:3000:900"],
            "900 MiB/s is out of range. fix: gp3 with 3,000 IOPS takes 125 to 750 MiB/s",
        ),
        (
            [INSTANCE, "--with-volume", "io1:1000:900"],
            "900 MiB/s is out of range. fix: io1 with 1,000 IOPS reaches 250 MiB/s",
        ),
        (
            [INSTANCE, "--with-volume", "io2:5000:100:2"],
            "2 GiB is out of range. fix: io2 takes 4 to 65,536 GiB",
        ),
        (
            [INSTANCE, "--picture", "a.pdf"],
            "--picture a.pdf names no kind of picture. fix: give a name that ends in .png",
        ),
    ],
)
def test_a_wrong_argument_is_one_message_before_any_call(cli, lab, arguments, message):
    result = cli.run("simulate", *arguments)
    assert result.code == 2
    assert message in " ".join(result.err.split())
    assert not lab.faults.call_counts()


@pytest.mark.parametrize("name", ["m5.png", "m5.svg"])
def test_a_picture_of_both_balances_and_the_load(cli, night, name):
    add_instance(night)
    result = cli.run("simulate", INSTANCE, "--to", "m5.large", "--picture", name)
    assert result.code == 0
    assert f"wrote {name}" in result.err
    content = (cli.directory / name).read_bytes()
    if name.endswith(".png"):
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", content[16:24]) == (1725, 990)
    else:
        ET.fromstring(content)
    assert b"would have been empty 14 times" in content


def test_the_same_values_give_the_same_picture(cli, night):
    add_instance(night)
    for name in ("1.png", "2.png"):
        cli.run("simulate", INSTANCE, "--to", "m5.4xlarge", "--picture", name)
    assert (cli.directory / "1.png").read_bytes() == (cli.directory / "2.png").read_bytes()


def test_without_matplotlib_the_error_names_the_package(cli, night, monkeypatch):
    monkeypatch.setitem(sys.modules, "burstctl.simulate.matplotlib_picture", None)
    result = cli.run("simulate", INSTANCE, "--picture", "a.png")
    assert result.code == 2
    assert "--picture needs matplotlib, which is not installed here" in result.err

"""burstctl which: over HTTP against the lab, in which instances really hold load back."""

import json
from datetime import timedelta

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.volume import MetricFault
from burstwatch.core.text import display_width
from support.cli.cli_session import (
    INSTANCE,
    START,
    add_calm,
    add_exhausted,
    add_gp3,
    add_lab_instance,
    add_lab_volume,
    add_warning,
    run_on_terminal,
)


def add_instance(lab, instance_type="m5.large", **fields) -> str:
    return add_lab_instance(lab, INSTANCE, instance_type, name="ci-host", **fields)


def states(document) -> dict:
    return {limit["kind"]: limit["state"] for limit in document["limits"]}


def answer_of(result) -> str:
    """The sentences before the table, on one line."""
    return " ".join(result.out.split("\n\n")[0].split())


def limit_of(document, kind) -> dict:
    return next(limit for limit in document["limits"] if limit["kind"] == kind)


def evidence_of(document, kind) -> str:
    return "; ".join(limit_of(document, kind)["evidence"])


def test_an_empty_gp2_volume_is_held_to_its_baseline(cli, lab):
    volume_id = add_exhausted(lab)

    result = cli.run("which", volume_id)
    document = cli.run("which", volume_id, "--json").document

    assert result.code == 3
    assert answer_of(result) == (
        f"{volume_id} (etcd-1) is limited now by the credits of the volume: they are used up, so the baseline"
        " of 300 IOPS applies."
    )
    assert f"next: burstctl flip {volume_id} --dry-run --region us-east-1" in result.err
    assert max(map(display_width, result.out.splitlines())) <= 80
    assert document["applies_now"] == [{"resource_id": volume_id, "kind": "volume-credits"}]
    assert limit_of(document, "volume-credits") | {"evidence": []} == {
        "resource_id": volume_id,
        "kind": "volume-credits",
        "state": "now",
        "unit": "IOPS",
        "limit": 300.0,
        "use": 300.0,
        "headroom": 0.0,
        "balance_pct": 0.0,
        "datapoint_age_s": 60,
        "time_to_empty_s": 0,
        "soonest_empty_s": 0,
        "empty_at": "2026-11-20T18:00:00Z",
        "evidence": [],
    }
    assert "BurstBalance was 0.0 % at 17:59 UTC, 60 s ago" in evidence_of(document, "volume-credits")


def test_exit_zero_excuses_a_limit_that_applies(cli, lab):
    assert cli.run("which", add_exhausted(lab), "--exit-zero").code == 0


def test_a_draining_volume_is_next_with_the_time_and_the_bound(cli, lab):
    volume_id = add_warning(lab)
    result = cli.run("which", volume_id)
    assert result.code == 0
    assert answer_of(result) == (
        f"No limit applies to {volume_id} (build-3) now. Next: the credits of the volume are used up in"
        " 40 min (18:40 UTC), not before 18:12 UTC; then 300 IOPS applies."
    )


def test_a_gp3_volume_at_its_iops_limit(cli, lab):
    add_instance(lab, "m5.4xlarge")
    volume_id = add_gp3(lab, load="steady:5000")

    result = cli.run("which", volume_id)
    document = cli.run("which", volume_id, "--json").document

    assert result.code == 3
    assert answer_of(result) == (
        f"{volume_id} (data) is limited now by the IOPS limit of the volume: it serves 3,000 IOPS at most."
    )
    assert "next: burstctl advise" in result.err
    limit = limit_of(document, "volume-iops")
    assert (limit["state"], limit["limit"], limit["use"], limit["headroom"]) == ("now", 3_000, 3_000, 0)
    assert "exceeded in 5 of the last 5 min" in evidence_of(document, "volume-iops")
    assert states(document)["instance-io-credits"] == "never"
    assert "sustains its maximum" in evidence_of(document, "instance-io-credits")


def test_the_credits_of_the_instance_hold_back_a_volume_that_is_fine(cli, lab):
    add_instance(lab, io_pct=40)
    volume_id = add_gp3(lab, load="steady:3000")
    add_gp3(lab, "other", "steady:2900")

    result = cli.run("which", volume_id)
    document = cli.run("which", volume_id, "--json").document

    # 5,900 - 3,600 = 2,300 a second used up 40 % of 27,270,000 in 79 min of the two hours.
    assert result.code == 3
    assert answer_of(result) == (
        f"{volume_id} (data) is limited now by the EBS I/O credits of {INSTANCE}: they are used up, so the"
        " baseline of 3,600 IOPS applies."
    )
    assert f"next: burstctl simulate {INSTANCE}" in result.err
    assert states(document) == {
        "instance-io-credits": "now",
        "instance-throughput-credits": "no",
        "volume-iops": "no",
        "volume-throughput": "no",
        "instance-iops": "never",
        "instance-throughput": "never",
    }


def test_the_bucket_of_the_instance_is_the_next_to_be_empty(cli, lab):
    add_instance(lab, io_pct=90)
    add_gp3(lab, load="steady:3000", iops=4_000)
    add_gp3(lab, "other", "steady:2900", iops=4_000)

    result = cli.run("which", INSTANCE)
    document = cli.run("which", INSTANCE, "--json").document

    # After 115 min 90 % less 58.2 % are left: 8,673,000 credits, 3,770 s of 2,300 a second, less 5 min.
    assert result.code == 0
    assert document["next"] == {"resource_id": INSTANCE, "kind": "instance-io-credits"}
    limit = limit_of(document, "instance-io-credits")
    assert limit["balance_pct"] == pytest.approx(31.8, abs=0.1)
    assert limit["time_to_empty_s"] == pytest.approx(3_470, abs=15)
    assert "Next: the EBS I/O credits of the instance are used up in 58 min" in " ".join(result.out.split())


def test_an_instance_whose_volumes_cannot_take_more_than_its_baseline_is_proved(cli, lab):
    add_instance(lab, "m5.xlarge")
    add_gp3(lab, load="steady:100")
    document = cli.run("which", INSTANCE, "--json").document
    assert states(document)["instance-io-credits"] == "never"
    assert evidence_of(document, "instance-io-credits") == (
        "Its volume serves 3,000 IOPS at most, no more than the 6,000 IOPS that m5.xlarge sustains"
    )
    assert limit_of(document, "instance-io-credits")["balance_pct"] is None


def test_nothing_limits_a_calm_volume(cli, lab):
    add_instance(lab, "m5.4xlarge")
    volume_id = add_gp3(lab, load="steady:900")
    result = cli.run("which", volume_id)
    assert result.code == 0
    assert answer_of(result) == (
        f"No limit applies to {volume_id} (data) now. If its load grows, it first reaches the IOPS limit of"
        " the volume of 3,000 IOPS; it uses 30 % of it."
    )
    assert "read 12 metrics for $0.00012" in result.err


def test_it_is_read_only_and_never_writes_a_ledger(cli, lab):
    add_instance(lab)
    volume_id = add_gp3(lab)
    calls = cli.run("which", volume_id, "--json").document["api_calls"]
    assert not cli.ledger_path.exists()
    assert calls == {
        "cloudwatch:GetMetricData": 4,
        "ec2:DescribeInstanceTypes": 1,
        "ec2:DescribeInstances": 1,
        "ec2:DescribeVolumes": 2,
        "ec2:DescribeVolumesModifications": 1,
        "ssm:GetParametersByPath": 1,
    }


def test_without_permission_for_the_types_the_volume_is_still_answered(cli, lab):
    add_instance(lab)
    volume_id = add_gp3(lab, load="steady:3000")
    lab.faults.add(Fault(action="DescribeInstanceTypes", code="UnauthorizedOperation", status=403))

    result = cli.run("which", volume_id)
    document = cli.run("which", volume_id, "--json").document

    assert result.code == 1
    assert len([line for line in result.error_lines if "DescribeInstanceTypes" in line]) == 1
    assert states(document) == {
        "volume-iops": "now",
        "volume-throughput": "no",
        "instance-io-credits": "unknown",
        "instance-throughput-credits": "unknown",
        "instance-iops": "unknown",
        "instance-throughput": "unknown",
    }


@pytest.mark.parametrize("action", ["DescribeInstanceTypes", "DescribeInstances"])
def test_limits_of_the_instance_that_are_unknown_are_in_the_answer(cli, lab, action):
    add_instance(lab, "t3.micro", io_pct=0)
    volume_id = add_gp3(lab, load="steady:90")
    lab.faults.add(Fault(action=action, code="UnauthorizedOperation", status=403))
    assert answer_of(cli.run("which", volume_id)) == (
        f"No known limit applies to {volume_id} (data) now, but 4 limits of {INSTANCE} are unknown. If its"
        " load grows, the first of the known limits that it reaches is the IOPS limit of the volume of 3,000"
        " IOPS; it uses 3 % of it."
    )


def test_a_limit_that_applies_is_named_beside_those_that_are_unknown(cli, lab):
    add_instance(lab)
    volume_id = add_gp3(lab, load="steady:5000")
    lab.fleet.set_metric_fault(INSTANCE, MetricFault(status_code="Forbidden", message="not yours"))
    assert answer_of(cli.run("which", volume_id)) == (
        f"{volume_id} (data) is limited now by the IOPS limit of the volume: it serves 3,000 IOPS at most."
        f" But 1 limit of {INSTANCE} is unknown."
    )


@pytest.mark.parametrize("action", ["DescribeInstances", "DescribeVolumes", "GetMetricData"])
def test_what_is_denied_is_unknown_and_the_rest_is_answered(cli, lab, action):
    add_instance(lab, io_pct=40)
    volume_id = add_gp3(lab, load="steady:3000")
    lab.faults.add(Fault(action=action, code="UnauthorizedOperation", status=403))

    result = cli.run("which", INSTANCE, "--json")

    assert result.code == 1
    assert len([line for line in result.error_lines if action in line]) == 1
    states_by_id = {limit["resource_id"]: set() for limit in result.document["limits"]}
    for limit in result.document["limits"]:
        states_by_id[limit["resource_id"]].add(limit["state"])
    expected = {
        "DescribeInstances": {INSTANCE: {"unknown"}, volume_id: {"now", "no"}},
        "DescribeVolumes": {INSTANCE: {"no", "next"}},
        "GetMetricData": {INSTANCE: {"unknown", "never"}, volume_id: {"unknown"}},
    }
    assert states_by_id == expected[action]


def test_a_hole_in_the_balance_is_unknown_and_never_full(cli, lab):
    add_instance(lab)
    volume_id = add_gp3(lab, iops=8_000, load="steady:5000")
    from_at = START - timedelta(minutes=40)
    lab.fleet.hide_metrics(INSTANCE, from_at=from_at, to_at=START, only_balance=True)

    result = cli.run("which", volume_id)
    document = cli.run("which", volume_id, "--json").document

    unknown = f"No known limit applies to {volume_id} (data) now, but 2 limits of {INSTANCE} are unknown."
    assert answer_of(result).startswith(unknown)
    assert states(document)["instance-io-credits"] == "unknown"
    assert evidence_of(document, "instance-io-credits") == (
        "No datapoint for 30 min while the instance is running"
    )
    assert limit_of(document, "instance-io-credits")["use"] == 5_000


def test_a_balance_that_is_never_published_is_taken_for_none_as_by_explain(cli, lab):
    add_instance(lab)
    add_gp3(lab, iops=8_000, load="steady:5000")
    lab.fleet.hide_metrics(INSTANCE, from_at=START - timedelta(days=9), to_at=START, only_balance=True)
    reason = "CloudWatch has other metrics of it and no EBSIOBalance%: m5.large is taken to have none"
    document = cli.run("which", INSTANCE, "--json").document
    assert states(document)["instance-io-credits"] == "never"
    assert evidence_of(document, "instance-io-credits") == reason
    assert reason in " ".join(cli.run("explain", INSTANCE).out.split())


def test_an_unknown_type_has_unknown_limits(cli, lab):
    add_instance(lab, "t2.micro")
    document = cli.run("which", add_gp3(lab), "--json").document
    assert states(document)["instance-iops"] == "unknown"
    assert evidence_of(document, "instance-iops") == "EC2 shows no EBS limits of the type t2.micro"
    assert evidence_of(document, "instance-io-credits") == (
        "EC2 shows no EBS limits of t2.micro, and CloudWatch has no EBSIOBalance% of it"
    )


def test_a_stopped_instance_uses_nothing_and_is_not_read(cli, lab):
    add_instance(lab, state="stopped")
    volume_id = add_gp3(lab)
    result = cli.run("which", volume_id)
    assert result.code == 0
    assert answer_of(result) == (
        f"{volume_id} (data): {INSTANCE} is stopped, so no process uses it and no limit applies."
    )
    assert "read 0 metrics" in result.err
    assert "it is stopped, so no process uses it" in " ".join(cli.run("which", INSTANCE).out.split())


def test_a_detached_volume_is_used_by_nothing(cli, lab):
    volume_id = add_calm(lab, attached=False)
    result = cli.run("which", volume_id)
    assert result.code == 0
    assert "it is not attached, so no process uses it" in " ".join(result.out.split())


def test_a_modification_in_progress_has_a_note_about_the_limits(cli, lab):
    add_instance(lab)
    volume_id = add_gp3(lab, size_gib=100)
    lab.fleet.modify(volume_id, volume_type="gp3", iops=6_000, throughput_mib_s=250)

    result = cli.run("which", volume_id)

    note = " ".join(result.err.split())
    assert (
        f"note: AWS is modifying {volume_id} from 100 GiB of gp3 with 3,000 IOPS and 125 MiB/s to 100 GiB of"
        " gp3 with 6,000 IOPS and 250 MiB/s (modifying, 0 %); until that is completed, what it serves is"
        " between the two"
    ) in note


def test_a_limit_that_was_exceeded_before_a_modification_does_not_apply_after_it(cli, lab):
    add_instance(lab)
    volume_id = add_gp3(lab, "busy", "steady:4000", minutes=20)
    before = cli.run("which", volume_id)
    lab.fleet.modify(volume_id, volume_type="gp3", iops=6_000, throughput_mib_s=250)
    lab.clock.advance(75)
    after = cli.run("which", volume_id)

    assert before.code == 3
    assert "is limited now by the IOPS limit" in before.out
    assert "is limited now by" not in after.out


def test_a_multi_attach_volume_has_a_note_about_its_other_instances(cli, lab):
    add_instance(lab)
    volume_id = add_lab_volume(
        lab,
        "shared",
        volume_type="io2",
        size_gib=500,
        iops=1_000,
        multi_attached=True,
        instance_ids=(INSTANCE, "i-0aaaaaaaaaaaaaaaa"),
    )
    result = cli.run("which", volume_id)
    assert result.code == 0
    assert f"note: {volume_id} allows multi-attach" in result.err


def test_sixty_volumes_stay_readable_with_the_worst_first(cli, lab):
    add_instance(lab, "m5.24xlarge")
    for number in range(59):
        add_gp3(lab, f"data-{number}", minutes=20)
    busy = add_gp3(lab, "busy", "steady:4000", minutes=20)

    result = cli.run("which", INSTANCE)
    document = cli.run("which", INSTANCE, "--json").document

    assert result.code == 3
    assert f"now    {busy} IOPS" in result.out
    assert "50 volumes more, which --json shows" in result.out
    assert len(result.out.splitlines()) < 60
    assert max(map(display_width, result.out.splitlines())) <= 80
    assert len(document["limits"]) == 4 + 2 * 60
    assert document["limits"][0]["resource_id"] == busy
    assert document["cost"]["metrics_requested"] == 60 * 6 + 6


def test_a_malformed_id_is_refused_before_any_call(cli, lab):
    result = cli.run("which", "vol-xyz")
    assert result.code == 2
    assert "'vol-xyz' is not a valid volume ID" in result.err
    assert not lab.faults.call_counts()


def test_a_unique_name_names_its_volume(cli, lab):
    volume_id = add_lab_volume(lab, "data", "steady:100")
    assert volume_id in cli.run("which", "data").out
    assert "has the name 'date'" in cli.run("which", "date").err


@pytest.mark.parametrize("value", ["vol-0aaaaaaaaaaaaaaaa", "i-0aaaaaaaaaaaaaaaa"])
def test_a_resource_that_does_not_exist(cli, lab, value):
    result = cli.run("which", value)
    assert result.code == 1
    assert result.error_lines == [
        f"error: no {'volume' if value.startswith('vol') else 'instance'} {value} in us-east-1."
    ]
    assert "fix: check the ID, the Region and the account" in result.err
    assert cli.run("which", value, "--json").document["missing"] == [value]


def write_reading(directory, volume_id, **changes):
    reading = {
        "schema": "burstwatch.reading/v1",
        "time": "2026-11-20T17:58:00.000Z",
        "volume_ids": [volume_id],
        "verdict": "crit",
        "cause": "stalled",
        "reason": "a write of 10 MiB took 12.0 s",
    }
    directory.mkdir(exist_ok=True)
    (directory / "nvme1n1.json").write_text(json.dumps(reading | changes))


def test_the_probe_of_the_host_sees_a_stall_that_no_limit_explains(cli, lab, tmp_path):
    volume_id = add_calm(lab)
    write_reading(tmp_path / "ddprobe", volume_id)

    result = cli.run("which", volume_id, "--run-dir", tmp_path / "ddprobe")

    assert result.code == 3
    assert answer_of(result) == (
        f"No known limit of AWS applies to {volume_id} (calm) now, but its host reports: ddprobe (in its run"
        " directory), 2 min ago: crit, stalled."
    )
    assert "a write of 10 MiB took 12.0 s" in result.out
    assert "next: burstctl runbook HostStallReported" in result.err


def test_readings_of_other_volumes_are_named_and_not_used(cli, lab, tmp_path):
    volume_id = add_calm(lab)
    write_reading(tmp_path / "ddprobe", "vol-0aaaaaaaaaaaaaaaa")
    result = cli.run("which", volume_id, "--run-dir", tmp_path / "ddprobe")
    assert result.code == 0
    assert "has readings of vol-0aaaaaaaaaaaaaaaa only" in result.err


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda folder: None, "is not a directory."),
        (lambda folder: folder.mkdir(), "has no reading of ddprobe"),
        (lambda folder: write_reading(folder, "vol-0aaaaaaaaaaaaaaaa", schema="x"), "its schema is not"),
        (lambda folder: write_reading(folder, "vol-0aaaaaaaaaaaaaaaa", time="now"), "is not a reading"),
        (lambda folder: write_reading(folder, "vol-0aaaaaaaaaaaaaaaa", cause=None), "cause is None"),
    ],
)
def test_a_run_directory_that_cannot_be_used_is_one_message_and_the_rest_is_answered(
    cli, lab, tmp_path, prepare, message
):
    volume_id = add_exhausted(lab)
    prepare(tmp_path / "ddprobe")
    result = cli.run("which", volume_id, "--run-dir", tmp_path / "ddprobe")
    assert result.code == 1
    [line] = result.error_lines
    assert message in line
    assert "is limited now by the credits of the volume" in " ".join(result.out.split())


@pytest.mark.parametrize("width", [60, 80])
def test_the_table_fits_the_terminal(cli, lab, width):
    add_instance(lab, io_pct=40)
    add_gp3(lab, load="steady:3000")
    add_gp3(lab, "other", "steady:2900")
    sent = run_on_terminal(cli, "which", INSTANCE, width=width, NO_COLOR="1")
    table = [line for line in sent.splitlines() if line.startswith(("STATE", "now", "no ", "never"))]
    assert len(table) == 7
    assert max(map(display_width, sent.splitlines())) <= width
    assert "STATE  LIMIT" in table[0]


def test_a_note_below_the_table_fits_a_narrow_terminal(cli, lab):
    add_instance(lab)
    add_gp3(lab)
    sent = run_on_terminal(cli, "which", INSTANCE, width=60, NO_COLOR="1")
    assert "only the nearest limit is shown" in sent
    assert max(map(display_width, sent.splitlines())) <= 60

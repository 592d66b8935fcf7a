"""burstctl assess: what it shows, to whom, and what its exit code says."""

import json
from datetime import timedelta

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.model.volume import MetricFault
from support.cli.cli_session import add_calm, add_critical, add_lab_volume, add_warning


def test_volumes_are_shown_most_urgent_first_with_the_estimate_and_the_bound(cli, lab):
    add_calm(lab, "web-1")
    warning, critical = add_warning(lab), add_critical(lab)

    result = cli.run("assess")

    header, first, second, third = result.out.splitlines()
    assert " ".join(header.split()) == "LEVEL VOLUME NAME BALANCE EMPTY UTC DRAIN/S BASELINE SIZE INSTANCE"
    assert first.split()[:3] == ["critical", critical, "ci-7"]
    assert "33.0 %  in 10 min (18:10), not before 18:10    2,700       300  100 GiB  i-0" in first
    assert second.split()[:3] == ["warning", warning, "build-3"]
    assert "41.0 %  in 40 min (18:40), not before 18:12      900       300  100 GiB  i-0" in second
    assert third.split()[:1] == ["ok"]
    assert "100.0 %  not draining" in third
    assert result.code == 3


def test_a_pipe_gets_no_colour_and_no_trailing_space(cli, lab):
    add_critical(lab)

    result = cli.run("assess")

    assert "\x1b" not in result.out
    assert all(line == line.rstrip() for line in result.out.splitlines())


def test_words_go_to_stderr_totals_calls_dollars_the_age_of_the_data_and_what_to_run_next(cli, lab):
    critical = add_critical(lab)
    add_calm(lab)

    result = cli.run("assess")

    totals, effort, *next_commands = result.err.splitlines()
    # no policy, so it looks at the instances as well; their type has no buckets
    assert totals == (
        "2 volumes and 2 instances in us-east-1 at 2026-11-20T18:00:00Z: 1 critical, 1 ok, 2 unwatched"
    )
    # two balances and the operations of the critical one; $0.01 a thousand
    # every 15 min: 2,880 looks in 30 days, $0.0288 each; critical: every minute, three metrics, $1.296
    assert effort == (
        "newest datapoint 60 s old; 9 calls to AWS, 4 metrics read for $0.00004;"
        " watching costs $1.32 a month at this activity,"
        " $0.06 while all are calm"
    )
    assert next_commands == [
        f"next: burstctl explain {critical}",
        f"      burstctl flip {critical} --dry-run",
    ]


def test_the_default_policy_and_ledger_are_named_only_with_verbose(cli, lab):
    add_calm(lab)
    assert not [line for line in cli.run("assess").err.splitlines() if line.startswith(("policy", "ledger"))]

    policy, ledger, *_ = cli.run("assess", "-v").err.splitlines()

    assert policy == "policy: built-in defaults (no --policy, BURSTWATCH_POLICY or ./policy.yaml)"
    assert ledger == f"ledger: sqlite:{cli.ledger_path} (none yet)"


def test_a_policy_and_a_ledger_that_are_not_the_default_are_named(cli, lab, tmp_path):
    (tmp_path / "mine.yaml").write_text("version: 1\n")
    ledger_path = tmp_path / "mine.sqlite"

    text = cli.run("assess", "--policy", tmp_path / "mine.yaml", "--ledger", f"sqlite:{ledger_path}").err

    assert f"policy: {tmp_path / 'mine.yaml'} (--policy)" in text
    assert f"ledger: sqlite:{ledger_path} (none yet)" in text


def test_json_is_one_object_with_every_key_of_the_contract(cli, lab):
    critical = add_critical(lab, tags={"burstwatch:mode": "auto"})

    result = cli.run("assess", "--json")

    report = result.document
    assert report["schema"] == "burstwatch.report/v1"
    assert report["generated_at"] == "2026-11-20T18:00:00Z"
    assert report["ledger"] == f"sqlite:{cli.ledger_path}"
    assert {"region", "totals", "cost", "api_calls", "volumes", "missing", "failures"} <= set(report)
    (volume,) = report["volumes"]
    assert volume | {"instance_id": "i-1"} == volume | {
        "volume_id": critical, "name": "ci-7", "volume_type": "gp2", "size_gib": 100, "instance_id": "i-1",
        "baseline_iops": 300, "burst_balance_pct": 33.0, "credits": 1_782_000, "drain_per_s": 2700.0,
        "time_to_empty_s": 600, "soonest_empty_s": 600, "datapoint_age_s": 60, "level": "critical",
        "unknown_reason": None, "fault": False, "mode": "auto",
    }  # fmt: skip
    assert volume["decision"]["action"] == "flip", "it says what it would do"
    assert volume["outcome"] == {
        "action": "none", "because": None, "error_code": None, "refusal": None, "retry_at": None,
    }  # fmt: skip
    assert report["totals"]["by_level"] == {"critical": 1, "unknown": 1}
    assert report["api_calls"]["ec2:DescribeVolumes"] == 1


def test_json_may_be_requested_before_the_command_as_well(cli, lab):
    add_calm(lab)

    assert cli.run("--json", "assess").document["totals"]["volumes"] == 1
    assert cli.run("--region", "eu-west-1", "assess", "--json").document["region"] == "eu-west-1"


def test_nothing_is_written_anywhere(cli, lab):
    add_critical(lab)

    cli.run("assess")

    assert not cli.ledger_path.parent.exists()
    assert "ModifyVolume" not in lab.faults.call_counts()


def test_what_the_watchdog_remembers_counts_and_stays_as_it_was(cli, lab):
    volume_id = add_warning(lab)
    cli.run("watch", "--once")
    lab.fleet.set_load(volume_id, "steady:300")
    lab.clock.advance(300)
    before = cli.ledger_path.read_bytes()

    result = cli.run("assess", "--json")

    assert result.document["volumes"][0]["level"] == "warning", "a level is kept until its leaving rule holds"
    assert result.document["volumes"][0]["decision"]["action"] == "none", "people know already"
    assert cli.ledger_path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["assess"], 3), (["assess", "--exit-zero"], 0), (["--exit-zero", "assess"], 0)],
)
def test_a_volume_at_warning_is_attention_and_exit_zero_excuses_it(cli, lab, arguments, code):
    add_warning(lab)

    assert cli.run(*arguments).code == code


def test_a_calm_fleet_exits_0_and_so_does_an_empty_one(cli, lab):
    empty = cli.run("assess")
    assert (empty.code, empty.out) == (0, "")
    assert empty.err.splitlines() == [
        "nothing that has burst credits in us-east-1 (account 123456789012)",
        "next: burstctl assess --region all",
    ]
    add_calm(lab)
    add_lab_volume(lab, "lake", size_gib=1200)
    add_lab_volume(lab, "spare", attached=False)

    assert cli.run("assess").code == 0


def test_missing_data_needs_attention_and_precedes_what_is_only_watched(cli, lab):
    add_lab_volume(lab, "low", balance_pct=80)
    silent = add_lab_volume(
        lab, "silent", "steady:50", minutes=90, created_at=lab.clock.now().replace(year=2025)
    )
    lab.fleet.hide_metrics(
        silent, from_at=lab.clock.now() - timedelta(hours=2), to_at=lab.clock.now(), only_balance=True
    )

    result = cli.run("assess")

    assert result.code == 3
    assert [line.split()[0] for line in result.out.splitlines()] == ["LEVEL", "unknown", "watch"]
    assert (
        f"fault: {silent} (silent): no datapoint for 30 min while attached to a running instance"
        in result.err
    )


def test_an_unread_volume_is_a_failure_that_exit_zero_does_not_excuse(cli, lab):
    add_critical(lab)
    unread = add_calm(lab, "secret")
    lab.fleet.set_metric_fault(unread, MetricFault(status_code="Forbidden", message="not yours"))

    result = cli.run("assess", "--exit-zero")

    assert result.code == 1
    assert "critical" in result.out, "the others are shown"
    [error] = result.error_lines
    assert error.startswith("error: cloudwatch:GetMetricData failed (Forbidden)")
    assert error.endswith("; 1 volume could not be read: secret.")
    assert "watching costs" not in result.err, "it would be wrong without that volume"


def test_one_cause_that_affects_every_volume_is_reported_once(cli, lab):
    for number in range(10):
        add_calm(lab, f"web-{number}")
    lab.faults.add(Fault(action="GetMetricData", code="AccessDenied"))

    result = cli.run("assess")

    assert result.code == 1
    assert result.err.count("may not call cloudwatch:GetMetricData") == 1
    [error] = result.error_lines
    assert error == (
        "error: this identity may not call cloudwatch:GetMetricData; 10 volumes could not be read:"
        " web-0, web-1, web-2 and 7 more."
    )


def test_of_two_unread_volumes_with_the_same_name_neither_hides_the_other(cli, lab):
    first, second = add_calm(lab, "data"), add_calm(lab, "data")
    for volume_id, message in ((first, "not yours"), (second, "nor yours")):
        lab.fleet.set_metric_fault(volume_id, MetricFault(status_code="Forbidden", message=message))

    errors = sorted(cli.run("assess").error_lines)

    assert [error.partition("Forbidden: ")[2] for error in errors] == [
        f"not yours; 1 volume could not be read: {first} (data).",
        f"nor yours; 1 volume could not be read: {second} (data).",
    ]


def test_a_short_name_of_an_unread_volume_replaces_no_letters(cli, lab):
    lab.fleet.set_metric_fault(
        add_calm(lab, "b"), MetricFault(status_code="Forbidden", message="a bad bucket")
    )

    [error] = cli.run("assess").error_lines

    assert error.endswith("a bad bucket; 1 volume could not be read: b.")


def test_only_the_volumes_requested_are_evaluated(cli, lab):
    add_critical(lab)
    volume_id = add_calm(lab, "web-1")

    result = cli.run("assess", volume_id, volume_id, "--json")

    assert [volume["volume_id"] for volume in result.document["volumes"]] == [volume_id]
    assert result.code == 0


def test_each_unknown_volume_is_named_and_the_others_are_shown(cli, lab):
    known = add_calm(lab)
    gone = "vol-0123456789abcdef0", "vol-12345678"

    result = cli.run("assess", *gone, known)

    assert result.code == 1
    assert known in result.out
    assert result.error_lines == [f"error: no volume {volume_id} in us-east-1." for volume_id in gone]
    assert cli.run("assess", *gone, "--json").document["missing"] == list(gone)


@pytest.mark.parametrize(
    "volume_id",
    ["vol-123", "vol-0123456789ABCDEF0", "vol-012345678", "vol-0123456\n8"],
)
def test_an_invalid_volume_id_is_a_usage_error_before_any_call(cli, lab, volume_id):
    result = cli.run("assess", "vol-0123456789abcdef0", volume_id)

    assert result.code == 2
    assert (
        f"{volume_id!r} is not a valid volume ID. fix: write vol- and 17 (or 8) digits from 0-9a-f"
        in " ".join(result.err.split())
    )
    assert lab.faults.call_counts() == {}


@pytest.mark.parametrize("name", ["", " ", "x" * 257])
def test_what_cannot_be_a_name_is_a_usage_error_before_any_call(cli, lab, name):
    result = cli.run("assess", name)

    assert result.code == 2
    assert "is not a name.\n  fix: VOLUME is the ID or the unique Name tag of a volume" in result.err
    assert lab.faults.call_counts() == {}


def test_hostile_names_and_tags_are_inert(cli, lab):
    tags = {"burstwatch:mode": "auto\u202e\u2028oops"}
    add_warning(lab, "evil\u0085name\u202e[red]x[/red] \u200b:smile:\tend", tags=tags)

    result = cli.run("assess")

    row = result.out.splitlines()[1]
    assert "evil name?[red]x[/red] ?:smile: end" in row
    assert len(result.out.splitlines()) == 2
    for text in (result.out, result.err):
        assert not {"\u202e", "\u200b", "\u2028", "\u0085", "\x1b", "\t"} & set(text)
    assert "(evil name?[red]x[/red] ?:smile: end): burstwatch:mode='auto??oops' is not observe" in result.err
    as_json = cli.run("assess", "--json").out
    assert as_json.isascii()
    assert json.loads(as_json)["volumes"][0]["name"].startswith("evil\u0085name\u202e")


def test_ignored_volumes_are_named_on_stderr_and_not_judged(cli, lab):
    ignored = add_critical(lab, tags={"burstwatch:ignore": "true"})

    result = cli.run("assess")

    assert result.code == 0
    assert result.out == ""
    assert f"ignored by tag: {ignored}" in result.err


def test_of_a_large_fleet_the_urgent_are_shown_and_the_calm_are_counted(cli, lab):
    for number in range(25):
        add_calm(lab, f"web-{number}")
    add_lab_volume(lab, "nearly", balance_pct=96.2, minutes=2)
    add_lab_volume(lab, "lake", size_gib=1200)
    add_warning(lab)

    result = cli.run("assess")

    assert [line.split()[0] for line in result.out.splitlines()[:2]] == ["LEVEL", "warning"]
    assert result.out.splitlines()[2:] == [
        "and 26 calm volumes, lowest 96.2 %",
        "and 29 unwatched resources: 28 no burst bucket, 1 cannot become empty",
        "(--all shows everything)",
    ]
    assert len(cli.run("assess", "--all", "--kind", "ebs").out.splitlines()) == 1 + 28


def test_a_pass_takes_few_calls(cli, lab):
    for number in range(30):
        add_calm(lab, f"web-{number}")

    cli.run("assess")  # without a policy, so it looks at every kind

    named = {
        action: count for action, count in lab.faults.call_counts().items() if not action.endswith("unnamed")
    }
    assert named == {
        "GetParametersByPath": 1,  # is a stack deployed here?
        "DescribeVolumes": 1,
        "DescribeVolumesModifications": 1,
        "DescribeInstances": 1,
        "DescribeInstanceTypes": 1,
        "DescribeFileSystems": 1,
        "DescribeDBInstances": 1,
        "GetMetricData": 1,
    }

"""burstctl doctor without a stack: what it finds, what fixes it, and that it only reads."""

import os
import re
import sqlite3
from dataclasses import replace
from datetime import timedelta

import pytest

from burstctl.context.sqlite_inspect import inspect_ledger_file
from burstctl.doctor.check_ledger import judge_file
from burstctl.doctor.check_permissions import READS, Importance
from burstctl.doctor.finding import CheckStatus
from burstlab.fake_aws.faults import Fault
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.errors import LedgerError
from burstwatch.core.ledger.flip_state import Hold, ModificationUse
from burstwatch.core.ledger.ledger import Change, TickKind
from support.aws.loopback_aws import ec2_error, loopback_aws
from support.builders.states import build_state
from support.cli.cli_session import (
    ROOT,
    START,
    add_calm,
    add_lab_volume,
    count_modify_calls,
    modification_targets,
    start_lab,
)
from support.cli.doctor_findings import READ_PERMISSIONS, deny, findings_for, single_finding

AUTO = {"burstwatch:mode": "auto"}
NOW_S = int(START.timestamp())
KEYS = {"check", "group", "about", "verdict", "seen", "fix", "commands", "page", "trouble"}


def verdicts(result):
    return {finding["verdict"] for finding in result.document["findings"]}


def test_a_cli_session_without_problems(cli, lab):
    volume_id = add_calm(lab, tags=AUTO)
    cli.set(BURSTWATCH_TOPIC_ARN=lab.client("sns").create_topic(Name="alerts")["TopicArn"])
    lab.client("sns").subscribe(
        TopicArn=os.environ["BURSTWATCH_TOPIC_ARN"], Protocol="email", Endpoint="oncall@example.com"
    )

    result = cli.run("doctor", "--json")

    assert result.code == 0, result.err
    assert verdicts(result) == {"ok", "skipped"}
    assert all(finding.keys() == KEYS for finding in result.document["findings"])
    head = {key: result.document[key] for key in ("schema", "region", "account", "stack", "verdict")}
    assert head == {
        "schema": "burstwatch.doctor/v1",
        "region": "us-east-1",
        "account": "123456789012",
        "stack": None,
        "verdict": "ok",
    }
    assert result.document["generated_at"] == "2026-11-20T18:00:00Z"
    assert "dry run" in single_finding(result, "permissions", "ec2:ModifyVolume")["seen"]
    assert "simulation" in single_finding(result, "permissions", "sns:Publish")["seen"]
    assert single_finding(result, "subscriptions")["seen"] == "received by email"
    assert (count_modify_calls(lab), modification_targets(lab, volume_id)) == (1, [])


def test_doctor_only_reads_except_for_a_dry_run_and_leaves_no_file(cli, lab):
    volume_id = add_calm(lab, tags=AUTO)

    result = cli.run("doctor", "--json")

    calls = result.document["api_calls"]
    assert {call for call in calls if not READ_PERMISSIONS.match(call)} == {"ec2:ModifyVolume"}
    assert modification_targets(lab, volume_id) == []
    assert not cli.ledger_path.exists()
    assert result.document["cost"] == {"metrics_requested": 2}, (
        "the smallest request, and one look at the volume"
    )


def test_the_actions_that_doctor_uses_are_on_the_page_of_permissions(cli, lab):
    add_calm(lab)

    calls = cli.run("doctor", "--json").document["api_calls"]

    rows = [
        line for line in (ROOT / "docs" / "permissions.md").read_text().splitlines() if line.startswith("| ")
    ]
    actions = {call.replace("service-quotas:", "servicequotas:") for call in calls}
    for action in actions - {"sts:GetCallerIdentity"}:
        assert any(action in row or action.partition(":")[2] in row for row in rows), action


@pytest.mark.parametrize(
    ("permission", "attempt"), READS, ids=lambda parameter: getattr(parameter, "action", "")
)
def test_each_missing_permission_is_named_with_what_it_is_for(cli, lab, permission, attempt):
    add_calm(lab)
    deny(lab, permission.action)

    result = cli.run("doctor", "--json")

    finding = single_finding(result, "permissions", permission.action)
    expected = {
        Importance.REQUIRED: ("broken", 3),
        Importance.RECOMMENDED: ("warning", 3),
        Importance.OPTIONAL: ("skipped", 0),
    }
    assert (finding["verdict"], result.code) == expected[permission.importance]
    assert permission.purpose in finding["seen"]
    assert "arn:aws:iam::123456789012:user/ann may not call" in finding["seen"]
    assert permission.action in finding["fix"]
    other_findings = [
        item for item in findings_for(result, "permissions") if item["about"] != permission.action
    ]
    assert {item["verdict"] for item in other_findings} <= {"ok", "skipped"}
    assert {item["verdict"] for item in findings_for(result, "versions")} == {"ok"}


def test_a_volume_that_opted_in_and_may_not_be_modified(cli):
    with start_lab(cli, modify_needs_tag=("team", "storage")) as lab:
        volume_id = add_calm(lab, tags=AUTO)

        result = cli.run("doctor", "--json")

        finding = single_finding(result, "permissions", "ec2:ModifyVolume")
        assert (finding["verdict"], result.code) == ("warning", 3)
        assert "according to a dry run; it is needed for burstctl flip, and watch --act" in finding["seen"]
        assert modification_targets(lab, volume_id) == []


def test_without_a_volume_to_try_it_on_the_permission_to_modify_is_simulated(cli, lab):
    add_calm(lab)
    lab.account.denied_actions.add("ec2:ModifyVolume")

    denied = cli.run("doctor", "--json")
    deny(lab, "iam:SimulatePrincipalPolicy")
    unknown = cli.run("doctor", "--json")

    finding = single_finding(denied, "permissions", "ec2:ModifyVolume")
    assert finding["seen"].startswith("not allowed by IAM's simulation: no policy allows it")
    finding = single_finding(unknown, "permissions", "ec2:ModifyVolume")
    assert finding["verdict"] == "skipped"
    assert finding["seen"].startswith("not known: no volume carries the opt-in tag burstwatch:mode=auto")
    assert (denied.code, unknown.code, count_modify_calls(lab)) == (0, 0, 0)


def test_missing_credentials_are_reported_once_and_other_checks_still_run(cli, lab):
    cli.unset("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

    result = cli.run("doctor", "--json")

    assert result.code == 1
    finding = single_finding(result, "credentials")
    assert (finding["verdict"], finding["trouble"]) == ("broken", "failed")
    assert "no AWS credentials found" in finding["seen"]
    assert "aws sso login" in finding["fix"]
    assert result.document["totals"]["broken"] == 1
    assert single_finding(result, "volumes")["seen"] == "unknown; see credentials"
    assert single_finding(result, "policy")["verdict"] == "ok"
    assert result.document["account"] is None


def test_a_token_that_has_expired(cli, lab):
    with loopback_aws(lambda *_: ec2_error("ExpiredToken", "The token is expired", 403)) as aws:
        cli.set(AWS_ENDPOINT_URL=aws.url)
        result = cli.run("doctor", "--json")

    assert result.code == 1
    assert single_finding(result, "credentials")["seen"] == "the AWS credentials have expired (ExpiredToken)"
    assert result.document["totals"]["broken"] == 1
    assert set(result.document["api_calls"]) == {"sts:GetCallerIdentity"}, (
        "no call can succeed, so none is made"
    )


def test_an_unreachable_endpoint(cli, lab, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    cli.set(AWS_ENDPOINT_URL="http://127.0.0.1:9")

    result = cli.run("doctor")

    assert result.code == 1
    text = " ".join(result.out.split())
    assert text.count("http://127.0.0.1:9 could not be reached") == 1, "what says the same is told once"
    assert result.out.startswith("BROKEN   credentials, clock, permissions, quotas, stack")
    assert "Traceback" not in result.err
    assert re.search(r"ok +policy +built-in defaults", result.out)


def test_throttling_by_aws(cli, lab, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    add_calm(lab)
    lab.faults.add(Fault(action="GetMetricData", kind="throttle"))

    result = cli.run("doctor", "--json")

    assert result.code == 1
    broken = single_finding(result, "permissions", "cloudwatch:GetMetricData")
    assert (broken["verdict"], broken["trouble"]) == ("broken", "failed")
    assert "AWS limits how often this may be called" in broken["seen"]
    (unread,) = [finding for finding in findings_for(result, "volumes") if finding["verdict"] == "broken"]
    assert (unread["trouble"], unread["page"]) == ("failed", "runbooks/TelemetryGap.md")
    assert single_finding(result, "permissions", "ec2:DescribeVolumes")["verdict"] == "ok"


def test_no_region(cli, lab):
    cli.unset("AWS_REGION", "AWS_DEFAULT_REGION")

    result = cli.run("doctor", "--json")

    assert result.code == 2
    finding = single_finding(result, "credentials")
    assert finding["seen"] == "no AWS Region"
    assert finding["trouble"] == "misused"
    assert result.document["region"] is None


def test_an_unknown_profile_and_an_invalid_ledger(cli, lab):
    add_calm(lab)
    assert (
        "could not be found"
        in single_finding(cli.run("doctor", "--json", "--profile", "x"), "credentials")["seen"]
    )

    result = cli.run("doctor", "--json", "--ledger", "floppy:a")

    assert result.code == 2
    assert single_finding(result, "ledger")["seen"].startswith("'floppy:a' is not a valid ledger")
    assert single_finding(result, "holds")["seen"] == "unknown; see ledger"
    assert single_finding(result, "volumes")["verdict"] == "ok", "a bad ledger hides no volume"


def test_every_fault_of_a_policy_and_the_rest_goes_on(cli, lab):
    add_calm(lab)
    (cli.directory / "policy.yaml").write_text("version: 1\nlevels:\n  warning_within: 5x\nmood: good\n")

    result = cli.run("doctor", "--json")

    assert result.code == 2
    faults = findings_for(result, "policy")
    assert len(faults) == 2
    assert {item["verdict"] for item in faults} == {"broken"}
    assert faults[0]["commands"] == ["burstctl policy check policy.yaml"]
    assert {item["seen"] for item in findings_for(result, "volumes")} == {"1 volume watched"}


def test_exit_zero_excuses_attention_and_no_failure(cli, lab):
    add_calm(lab, tags={"burstwatch:mode": "automatic"})

    assert cli.run("doctor").code == 3
    assert cli.run("doctor", "--exit-zero").code == 0
    cli.unset("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    assert cli.run("doctor", "--exit-zero").code == 1


@pytest.mark.parametrize(("ahead_s", "verdict"), [(0, "ok"), (-45, "warning"), (420, "broken")])
def test_the_local_clock_against_the_aws_clock(cli, lab, monkeypatch, ahead_s, verdict):
    cli.set(BURSTWATCH_CLOCK="wall")
    monkeypatch.setattr("burstctl.doctor.context.time", lambda: NOW_S + ahead_s)

    result = cli.run("doctor", "--json")

    finding = single_finding(result, "clock")
    assert finding["verdict"] == verdict
    assert {0: "to the second", -45: "45 s behind", 420: "7 min ahead of"}[ahead_s] in finding["seen"]
    assert bool(finding["commands"]) is bool(ahead_s)


def test_volumes_that_cannot_be_watched_and_why(cli):
    with start_lab(cli, idle_publishes=False) as lab:
        silent = add_lab_volume(lab, "silent", "steady:50", minutes=120)
        lab.fleet.hide_metrics(
            silent, from_at=lab.clock.now() - timedelta(hours=2), to_at=lab.clock.now(), only_balance=True
        )
        add_lab_volume(lab, "resting", minutes=120)
        add_lab_volume(lab, "spare", attached=False)
        add_lab_volume(lab, "lake", size_gib=2000)
        add_lab_volume(lab, "busy", "steady:300")

        result = cli.run("doctor", "--json")

    reported = {item["seen"]: item for item in findings_for(result, "volumes")}
    gap = reported["no datapoint for 30 min while attached to a running instance"]
    assert gap["verdict"] == "warning"
    assert silent in gap["about"]
    assert gap["commands"] == [f"burstctl explain {silent} --region us-east-1"]
    assert "1 volume watched" in reported
    assert {(text.partition(", vol-")[0], item["fix"]) for text, item in reported.items() if item["fix"]} >= {
        (
            "idle, no datapoint: 1 volume",
            "nothing to do: a full volume that serves nothing need not publish a balance",
        ),
        ("detached: 1 volume", "nothing to do: looked at from the minute it is attached"),
        ("cannot become empty: 1 volume", "nothing to do: it earns credits as fast as it can spend them"),
    }
    assert result.code == 3


def test_cloudwatch_is_behind(cli):
    with start_lab(cli) as lab:
        add_lab_volume(lab, "old", minutes=90)
        (cli.directory / "policy.yaml").write_text("version: 1\ncadence:\n  metric_lag: 1m\n")
        lab.clock.advance(30)

        age, spacing = findings_for(cli.run("doctor", "--json"), "telemetry")

    assert spacing["seen"] == "time between datapoints (60 s: 1 bucket)"
    assert age["verdict"] == "warning"
    assert "and cadence.metric_lag counts on 60 s" in age["seen"]


def test_datapoints_every_five_minutes_call_for_another_metric_lag_at_its_price(cli):
    with start_lab(cli, balance_every_s=300) as lab:
        add_lab_volume(lab, "old", "steady:50", size_gib=8, minutes=90)
        _, spacing = findings_for(cli.run("doctor", "--json"), "telemetry")
        assert spacing["verdict"] == "warning"
        assert "come every 5 min, not every minute: a drain is seen up to 4 min later" in spacing["seen"]
        assert "cadence: {metric_lag: 10m}" in spacing["fix"]
        assert "$0.04 a month while all are calm, not $0.03" in spacing["fix"]
        (cli.directory / "policy.yaml").write_text("version: 1\ncadence:\n  metric_lag: 10m\n")
        _, spacing = findings_for(cli.run("doctor", "--json"), "telemetry")
        assert spacing["verdict"] == "ok"


def test_the_mode_that_stops_what_opted_in_and_tags_that_do_nothing(cli, lab):
    add_calm(lab, tags=AUTO)
    add_calm(lab, "typo", tags={"burstwatch:taget": "io1"})
    (cli.directory / "policy.yaml").write_text("version: 1\nmode:\n  highest: propose\n")

    result = cli.run("doctor", "--json")

    assert (
        "1 volume with the opt-in tag burstwatch:mode=auto, and the policy's mode.highest is propose"
        in (single_finding(result, "opt-in")["seen"])
    )
    finding = single_finding(result, "tags")
    assert (finding["verdict"], finding["seen"][:18]) == ("warning", "'burstwatch:taget'")
    assert result.code == 3


def test_hostile_names_are_only_shown(cli, lab):
    add_calm(lab, "a\u202e\nrm -rf\u200b", tags={"burstwatch:mode": "auto\r\u202e\u0085"})

    plain, document = cli.run("doctor"), cli.run("doctor", "--json")

    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202e]", plain.out + plain.err)
    assert document.out.isascii()
    assert "rm -rf" in plain.out


def test_it_fits_80_columns_and_what_is_broken_comes_first(cli, lab):
    add_calm(lab, tags={"burstwatch:mode": "automatic"})
    deny(lab, "cloudwatch:GetMetricData")

    result = cli.run("doctor")

    lines = result.out.splitlines()
    # a path is in one piece, and those of tests are long
    assert max(len(line) for line in lines if str(cli.directory) not in line) <= 80
    marks = [line.split()[0] for line in lines if line and not line.startswith("    ")]
    assert marks[0] == "BROKEN"
    assert marks.index("WARNING") > max(index for index, mark in enumerate(marks) if mark == "BROKEN")
    assert marks.index("ok") > max(index for index, mark in enumerate(marks) if mark == "WARNING")
    assert re.fullmatch(
        r"2 broken, 1 warning, \d+ ok, \d+ skipped; \d+ calls to AWS, \d+ metrics read\n"
        r"next: burstctl runbook TelemetryGap\n",
        result.err,
    )


# The ledger


def a_ledger(cli):
    with cli.open_ledger() as ledger:
        ledger.bind("account 123456789012 in us-east-1")
    return cli.ledger_path


def test_an_existing_ledger_is_checked_and_not_changed(cli, lab):
    path = a_ledger(cli)
    before = (path.read_bytes(), list(path.parent.iterdir()))

    finding = single_finding(cli.run("doctor", "--json"), "ledger")

    assert re.fullmatch(rf"sqlite:{path}, schema 2, 0\.\d MiB", finding["seen"])
    assert (path.read_bytes(), list(path.parent.iterdir())) == before


def test_a_ledger_with_the_first_schema_is_upgraded_by_other_commands(cli, lab):
    path = a_ledger(cli)
    _with_schema(path, 1)
    before = path.read_bytes()

    result = cli.run("doctor", "--json")

    assert "brought up to schema 2 when it is next used" in single_finding(result, "ledger")["seen"]
    assert single_finding(result, "holds")["verdict"] == "skipped"
    assert path.read_bytes() == before


def test_a_ledger_of_another_account_hides_no_volume(cli, lab):
    add_calm(lab)
    with cli.open_ledger() as ledger:
        ledger.bind("account 1 in eu-west-1")

    result = cli.run("doctor", "--json")

    _, finding = findings_for(result, "ledger")
    assert (finding["verdict"], result.code) == ("broken", 3)
    assert (
        "is that of account 1 in eu-west-1, and this is account 123456789012 in us-east-1" in finding["seen"]
    )
    assert single_finding(result, "volumes")["verdict"] == "ok"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b""), "is damaged (it is empty)"),
        (lambda path: path.write_bytes(b"hello" * 1000), "is damaged"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: _with_schema(path, 0, "CREATE TABLE t (x)"), "another program"),
    ],
)
def test_a_file_that_is_not_a_ledger(tmp_path, make, message):
    make(tmp_path / "ledger")

    with pytest.raises(LedgerError, match=re.escape(message)):
        inspect_ledger_file(tmp_path / "ledger")


def test_a_ledger_of_a_later_schema_or_one_that_may_not_be_written_to(tmp_path):
    SqliteLedger.open(tmp_path / "ledger").close()
    _with_schema(tmp_path / "ledger", 9)
    file = inspect_ledger_file(tmp_path / "ledger")

    (later,) = judge_file(tmp_path / "ledger", file)
    (locked,) = judge_file(tmp_path / "ledger", replace(file, schema=2, is_writable=False))
    (damaged,) = judge_file(tmp_path / "ledger", replace(file, faults=("row 1 missing from index",)))

    assert "written by a newer burstwatch; this one supports schemas up to 2" in later.summary
    assert "may not write to it" in locked.summary
    assert "is damaged: row 1 missing from index" in damaged.summary
    assert {item.verdict for item in (later, locked, damaged)} == {CheckStatus.BROKEN}


def _with_schema(path, version, statement="SELECT 1"):
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def test_the_heartbeat_of_a_watch_here(cli, lab):
    with cli.open_ledger() as ledger:
        ledger.complete_tick(TickKind.SWEEP, NOW_S - 300, fleet_fingerprints=frozenset({1}))
        ledger.complete_tick(TickKind.FOCUS, NOW_S - 3600)

    result = cli.run("doctor", "--json")

    finding = single_finding(result, "heartbeat", "sweep")
    assert (finding["verdict"], finding["seen"]) == ("ok", "the last was completed 5 min ago")
    finding = single_finding(result, "heartbeat", "focus")
    assert (finding["verdict"], finding["commands"]) == ("warning", ["burstctl watch --region us-east-1"])
    assert finding["seen"].startswith("the last was completed 60 min ago; normally it is")


def test_holds_and_modifications_that_are_used_up(cli, lab):
    hold = Hold(volume_id=None, by="ben", reason="INC-42", placed_at_s=NOW_S, until_s=NOW_S + 600)
    used = tuple(ModificationUse(at_s=NOW_S - hours * 3600, by="burstwatch") for hours in (9, 6, 3))
    state = build_state("vol-0a1", 1, used=used)
    with cli.open_ledger() as ledger:
        ledger.place_hold(hold)
        ledger.commit([Change(volume_id="vol-0a1", expected_revision=None, state=state)], channels=[])

    result = cli.run("doctor", "--json")

    finding = single_finding(result, "holds")
    assert finding["verdict"] == "warning"
    assert "all changes are on hold" in finding["seen"]
    assert finding["commands"] == ["burstctl release --all --region us-east-1"]
    finding = single_finding(result, "modifications", "vol-0a1")
    free_at = START - timedelta(hours=9) + timedelta(days=1)
    assert (
        f"3 of AWS's 4 modifications in 24 h are used: none by itself before {free_at:%Y-%m-%dT%H}"
        in finding["seen"]
    )


# Quotas


def test_quotas_that_are_nearly_used_up_or_too_small_for_what_opted_in(cli, lab):
    add_calm(lab, size_gib=900)
    add_calm(lab, size_gib=900, tags=AUTO)
    lab.account.quotas |= {"L-D18FCD1D": 2.0, "L-7A658B76": 0.5, "L-B3A130E6": 50_000.0}
    del lab.account.quotas["L-8D977E7E"]

    result = cli.run("doctor", "--json")

    finding = single_finding(result, "quotas", "gp2 storage")
    assert (finding["verdict"], finding["seen"]) == ("warning", "1.8 TiB of 2.0 TiB in use: nearly all")
    assert finding["commands"][0].startswith(
        "aws service-quotas request-service-quota-increase --service-code ebs"
    )
    finding = single_finding(result, "quotas", "gp3 storage")
    assert "the volumes that opted in would need 0.9 TiB more of it" in finding["seen"]
    assert "AWS allows 50,000" in single_finding(result, "quotas", "flip.io1_iops_limit")["seen"]
    assert single_finding(result, "quotas", "io2 IOPS")["verdict"] == "skipped"


def test_quotas_that_may_not_be_seen_are_not_known(cli, lab):
    deny(lab, "servicequotas:ListServiceQuotas")

    result = cli.run("doctor", "--json")

    finding = single_finding(result, "quotas")
    assert (finding["verdict"], result.code) == ("skipped", 0)
    assert "may not call servicequotas:ListServiceQuotas" in finding["seen"]


# Slack and the topic


def test_slack_is_checked_without_posting(cli, lab, webhook):
    result = cli.run("doctor", "--json")

    assert single_finding(result, "slack")["seen"] == (
        "reached; the webhook is valid: it refused an empty message (no_text)"
    )
    assert webhook.messages == []
    assert webhook.url not in result.out + result.err


def test_an_invalid_webhook_address_or_one_without_a_server(cli, lab):
    cli.set(BURSTWATCH_SLACK_WEBHOOK="hooks.slack.com/services/T0/B0/secret")
    wrong = cli.run("doctor", "--json")
    cli.set(BURSTWATCH_SLACK_WEBHOOK="http://127.0.0.1:9/services/T0/B0/secret")
    silent = cli.run("doctor", "--json")

    assert (wrong.code, silent.code) == (2, 1)
    assert "is not an https:// one; copy it again" in single_finding(wrong, "slack")["seen"]
    assert "Slack could not be reached (Connection refused)" in single_finding(silent, "slack")[
        "seen"
    ].replace("[Errno 111] ", "")
    assert "secret" not in wrong.err + silent.out + silent.err


@pytest.mark.parametrize(
    ("topic_arn", "message"),
    [
        ("arn:aws:sns:us-east-1:123456789012:nobody", "there is no topic arn:aws:sns:us-east-1"),
        ("arn:aws:sns:eu-west-1:123456789012:alerts", "it is in eu-west-1, and this is us-east-1"),
    ],
)
def test_a_topic_that_alerts_do_not_get_to(cli, lab, topic_arn, message):
    lab.client("sns").list_topics()  # moto takes its time to load it
    cli.set(BURSTWATCH_TOPIC_ARN=topic_arn)

    finding = single_finding(cli.run("doctor", "--json"), "topic")

    assert finding["verdict"] == "broken"
    assert finding["seen"].startswith(message)


def test_an_unresponsive_service_is_not_called_twice(cli, lab, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    lab.faults.add(Fault(action="GetCallerIdentity", kind="reset"))
    lab.faults.add(Fault(action="ListServiceQuotas", kind="reset"))
    add_calm(lab)

    result = cli.run("doctor", "--json")

    assert lab.faults.call_counts()["GetCallerIdentity"] == 2
    assert lab.faults.call_counts()["ListServiceQuotas"] == 1
    assert {finding["verdict"] for finding in findings_for(result, "volumes")} == {"ok"}, (
        "the others may be there"
    )


def test_a_region_without_volumes_is_not_reported_as_watched(cli, lab):
    finding = single_finding(cli.run("doctor", "--json"), "volumes")

    assert (finding["verdict"], finding["seen"]) == (
        "skipped",
        "there is no gp2 volume in us-east-1: nothing is watched",
    )
    assert "--region" in finding["fix"]


def test_volumes_that_opted_in_without_a_watchdog_that_flips(cli, lab):
    add_calm(lab, tags=AUTO)

    finding = single_finding(cli.run("doctor", "--json"), "opt-in")

    assert finding["verdict"] == "skipped"
    assert finding["seen"].endswith(": no stack is known that would flip them")
    assert finding["fix"] == "a burstctl watch --act flips them, for as long as it runs"

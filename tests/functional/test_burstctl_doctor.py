"""burstctl doctor at a desk: what it finds, what mends it, and that it does nothing but look."""

import os
import re
import sqlite3
from dataclasses import replace
from datetime import timedelta

import pytest
from loopback_aws import ec2_error, loopback_aws
from operators_desk import ROOT, START, OperatorsDesk, a_lab, add, add_calm, asked, modified

from burstctl.doctor.check_ledger import judge_file
from burstctl.doctor.check_permissions import READS, Need
from burstctl.doctor.finding import Verdict
from burstctl.doctor.sqlite_inspect import look_into
from burstlab.fake_aws.faults import Fault
from burstlab.fake_aws.slack import SlackReceiver
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.core.errors import LedgerError
from burstwatch.core.ledger.flip_state import Hold, Spent
from burstwatch.core.ledger.ledger import Change, TickKind, VolumeState

AUTO = {"burstwatch:mode": "auto"}
NOW_S = int(START.timestamp())
KEYS = {"check", "group", "about", "verdict", "seen", "fix", "commands", "page", "trouble"}
READING = re.compile(r"^[\w-]+:(Describe|Get|List|BatchGet|Query|Simulate)")


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    made = OperatorsDesk(tmp_path, monkeypatch, capsys)
    made.set(LOGNAME="anna")
    return made


@pytest.fixture
def lab(desk):
    with a_lab(desk) as endpoint:
        yield endpoint


def found(ran, check, about=None):
    """What a check found, of all or of one thing."""
    findings = [each for each in ran.document["findings"] if each["check"] == check]
    return findings if about is None else [each for each in findings if each["about"] == about]


def the_one(ran, check, about=None):
    (finding,) = found(ran, check, about)
    return finding


def verdicts(ran):
    return {each["verdict"] for each in ran.document["findings"]}


def deny(lab, action):
    """Let AWS refuse this action, in its own words."""
    service, _, operation = action.partition(":")
    code = "UnauthorizedOperation" if service == "ec2" else "AccessDeniedException"
    said = f"User: arn:aws:iam::123456789012:user/ann is not authorized to perform: {action} on resource: *"
    lab.faults.add(Fault(action=operation, code=code, message=said, status=403))


def test_a_desk_where_all_is_well(desk, lab):
    volume_id = add_calm(lab, tags=AUTO)
    desk.set(BURSTWATCH_TOPIC_ARN=lab.client("sns").create_topic(Name="alerts")["TopicArn"])
    lab.client("sns").subscribe(
        TopicArn=os.environ["BURSTWATCH_TOPIC_ARN"], Protocol="email", Endpoint="oncall@example.com"
    )

    ran = desk.run("doctor", "--json")

    assert ran.code == 0, ran.err
    assert verdicts(ran) == {"ok", "skipped"}
    assert all(each.keys() == KEYS for each in ran.document["findings"])
    head = {key: ran.document[key] for key in ("schema", "region", "account", "stack", "verdict")}
    assert head == {
        "schema": "burstwatch.doctor/v1",
        "region": "us-east-1",
        "account": "123456789012",
        "stack": None,
        "verdict": "ok",
    }
    assert ran.document["generated_at"] == "2026-11-20T18:00:00Z"
    assert "dry run" in the_one(ran, "permissions", "ec2:ModifyVolume")["seen"]
    assert "simulation" in the_one(ran, "permissions", "sns:Publish")["seen"]
    assert the_one(ran, "subscriptions")["seen"] == "heard by email"
    assert (asked(lab), modified(lab, volume_id)) == (1, [])


def test_it_only_reads_but_for_a_dry_run_and_leaves_no_file(desk, lab):
    volume_id = add_calm(lab, tags=AUTO)

    ran = desk.run("doctor", "--json")

    calls = ran.document["api_calls"]
    assert {call for call in calls if not READING.match(call)} == {"ec2:ModifyVolume"}
    assert modified(lab, volume_id) == []
    assert not desk.ledger_path.exists()
    assert ran.document["cost"] == {"metrics_requested": 2}, (
        "the smallest request, and one look at the volume"
    )


def test_what_it_asks_for_is_in_the_readmes_table(desk, lab):
    add_calm(lab)

    calls = desk.run("doctor", "--json").document["api_calls"]

    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("| ")]
    actions = {call.replace("service-quotas:", "servicequotas:") for call in calls}
    for action in actions - {"sts:GetCallerIdentity"}:
        assert any(action in row or action.partition(":")[2] in row for row in rows), action


@pytest.mark.parametrize(("permission", "attempt"), READS, ids=lambda each: getattr(each, "action", ""))
def test_each_missing_permission_is_named_with_what_it_is_for(desk, lab, permission, attempt):
    add_calm(lab)
    deny(lab, permission.action)

    ran = desk.run("doctor", "--json")

    told = the_one(ran, "permissions", permission.action)
    expected = {Need.ALWAYS: ("broken", 3), Need.SOMETIMES: ("warning", 3), Need.HARDLY: ("skipped", 0)}
    assert (told["verdict"], ran.code) == expected[permission.need]
    assert permission.purpose in told["seen"]
    assert "arn:aws:iam::123456789012:user/ann may not call" in told["seen"]
    assert permission.action in told["fix"]
    others = [each for each in found(ran, "permissions") if each["about"] != permission.action]
    assert {each["verdict"] for each in others} <= {"ok", "skipped"}
    assert {each["verdict"] for each in found(ran, "versions")} == {"ok"}


def test_a_volume_that_opted_in_and_may_not_be_modified(desk):
    with a_lab(desk, modify_needs_tag=("team", "storage")) as lab:
        volume_id = add_calm(lab, tags=AUTO)

        ran = desk.run("doctor", "--json")

        told = the_one(ran, "permissions", "ec2:ModifyVolume")
        assert (told["verdict"], ran.code) == ("warning", 3)
        assert "says AWS to a dry run; it is needed for burstctl flip, and watch --act" in told["seen"]
        assert modified(lab, volume_id) == []


def test_without_a_volume_to_try_it_on_the_permission_to_modify_is_simulated(desk, lab):
    add_calm(lab)
    lab.account.denied.add("ec2:ModifyVolume")

    denied = desk.run("doctor", "--json")
    deny(lab, "iam:SimulatePrincipalPolicy")
    unknown = desk.run("doctor", "--json")

    told = the_one(denied, "permissions", "ec2:ModifyVolume")
    assert told["seen"].startswith("not allowed, says IAM's simulation: no policy allows it")
    told = the_one(unknown, "permissions", "ec2:ModifyVolume")
    assert told["verdict"] == "skipped"
    assert told["seen"].startswith("not known: no volume carries the opt-in tag burstwatch:mode=auto")
    assert (denied.code, unknown.code, asked(lab)) == (0, 0, 0)


def test_no_credentials_are_told_once_and_what_needs_none_is_still_looked_at(desk, lab):
    desk.unset("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

    ran = desk.run("doctor", "--json")

    assert ran.code == 1
    told = the_one(ran, "credentials")
    assert (told["verdict"], told["trouble"]) == ("broken", "failed")
    assert "no AWS credentials were found" in told["seen"]
    assert "aws sso login" in told["fix"]
    assert ran.document["totals"]["broken"] == 1
    assert the_one(ran, "volumes")["seen"] == "not known, because of what is said at credentials"
    assert the_one(ran, "policy")["verdict"] == "ok"
    assert ran.document["account"] is None


def test_a_token_that_has_expired(desk, lab):
    with loopback_aws(lambda *_: ec2_error("ExpiredToken", "The token is expired", 403)) as aws:
        desk.set(AWS_ENDPOINT_URL=aws.url)
        ran = desk.run("doctor", "--json")

    assert ran.code == 1
    assert the_one(ran, "credentials")["seen"] == "the AWS credentials have expired (ExpiredToken)"
    assert ran.document["totals"]["broken"] == 1
    assert set(ran.document["api_calls"]) == {"sts:GetCallerIdentity"}, "no call can succeed, so none is made"


def test_nothing_there_to_answer(desk, lab, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    desk.set(AWS_ENDPOINT_URL="http://127.0.0.1:9")

    ran = desk.run("doctor")

    assert ran.code == 1
    said = " ".join(ran.out.split())
    assert said.count("http://127.0.0.1:9 could not be reached") == 1, "what says the same is told once"
    assert ran.out.startswith("BROKEN   credentials, clock, permissions, quotas, stack")
    assert "Traceback" not in ran.err
    assert re.search(r"ok +policy +built-in defaults", ran.out)


def test_aws_limits_how_often_it_may_be_asked(desk, lab, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    add_calm(lab)
    lab.faults.add(Fault(action="GetMetricData", kind="throttle"))

    ran = desk.run("doctor", "--json")

    assert ran.code == 1
    told = the_one(ran, "permissions", "cloudwatch:GetMetricData")
    assert (told["verdict"], told["trouble"]) == ("broken", "failed")
    assert "AWS limits how often this may be called" in told["seen"]
    (unread,) = [each for each in found(ran, "volumes") if each["verdict"] == "broken"]
    assert (unread["trouble"], unread["page"]) == ("failed", "runbooks/TelemetryGap.md")
    assert the_one(ran, "permissions", "ec2:DescribeVolumes")["verdict"] == "ok"


def test_no_region(desk, lab):
    desk.unset("AWS_REGION", "AWS_DEFAULT_REGION")

    ran = desk.run("doctor", "--json")

    assert ran.code == 2
    told = the_one(ran, "credentials")
    assert told["seen"] == "no AWS region; give --region, set AWS_REGION, or add one to the profile"
    assert told["trouble"] == "misused"
    assert ran.document["region"] is None


def test_an_unknown_profile_and_a_ledger_that_is_none(desk, lab):
    add_calm(lab)
    assert (
        "could not be found" in the_one(desk.run("doctor", "--json", "--profile", "x"), "credentials")["seen"]
    )

    ran = desk.run("doctor", "--json", "--ledger", "floppy:a")

    assert ran.code == 2
    assert the_one(ran, "ledger")["seen"].startswith("'floppy:a' is no ledger")
    assert the_one(ran, "holds")["seen"] == "not known, because of what is said at ledger"
    assert the_one(ran, "volumes")["verdict"] == "ok", "a bad ledger hides no volume"


def test_every_fault_of_a_policy_and_the_rest_goes_on(desk, lab):
    add_calm(lab)
    (desk.directory / "policy.yaml").write_text("version: 1\nlevels:\n  warning_within: 5x\nmood: good\n")

    ran = desk.run("doctor", "--json")

    assert ran.code == 2
    faults = found(ran, "policy")
    assert len(faults) == 2
    assert {each["verdict"] for each in faults} == {"broken"}
    assert faults[0]["commands"] == ["burstctl policy check policy.yaml"]
    assert {each["seen"] for each in found(ran, "volumes")} == {"1 volume watched"}


def test_exit_zero_excuses_attention_and_no_failure(desk, lab):
    add_calm(lab, tags={"burstwatch:mode": "automatic"})

    assert desk.run("doctor").code == 3
    assert desk.run("doctor", "--exit-zero").code == 0
    desk.unset("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    assert desk.run("doctor", "--exit-zero").code == 1


@pytest.mark.parametrize(("ahead_s", "verdict"), [(0, "ok"), (-45, "warning"), (420, "broken")])
def test_this_machines_clock_against_awss(desk, lab, monkeypatch, ahead_s, verdict):
    desk.set(BURSTWATCH_CLOCK="wall")
    monkeypatch.setattr("burstctl.doctor.context.time", lambda: NOW_S + ahead_s)

    ran = desk.run("doctor", "--json")

    told = the_one(ran, "clock")
    assert told["verdict"] == verdict
    assert {0: "to the second", -45: "45 s behind", 420: "7 min ahead of"}[ahead_s] in told["seen"]
    assert bool(told["commands"]) is bool(ahead_s)


def test_volumes_that_cannot_be_watched_and_why(desk):
    with a_lab(desk, idle_publishes=False) as lab:
        silent = add(lab, "silent", "steady:50", minutes=120)
        lab.fleet.hide_metrics(
            silent, from_at=lab.clock.now() - timedelta(hours=2), to_at=lab.clock.now(), only_balance=True
        )
        add(lab, "resting", minutes=120)
        add(lab, "spare", attached=False)
        add(lab, "lake", size_gib=2000)
        add(lab, "busy", "steady:300")

        ran = desk.run("doctor", "--json")

    told = {each["seen"]: each for each in found(ran, "volumes")}
    gap = told["no datapoint for 30 min while attached to a running instance"]
    assert gap["verdict"] == "warning"
    assert silent in gap["about"]
    assert gap["commands"] == [f"burstctl explain {silent} --region us-east-1"]
    assert "1 volume watched" in told
    assert {(seen.partition(":")[0], each["fix"]) for seen, each in told.items() if each["fix"]} >= {
        ("1 volume idle", "nothing to do: a full volume that serves nothing need not publish a balance"),
        ("1 volume detached", "nothing to do: looked at from the minute it is attached"),
        ("1 volume cannot run dry", "nothing to do: from 1,000 GiB on it earns what it can spend"),
    }
    assert ran.code == 3


def test_cloudwatch_is_behind(desk):
    with a_lab(desk) as lab:
        add(lab, "old", minutes=90)
        (desk.directory / "policy.yaml").write_text("version: 1\ncadence:\n  metric_lag: 1m\n")
        lab.clock.advance(30)

        told, spacing = found(desk.run("doctor", "--json"), "telemetry")

    assert spacing["seen"] == "time between datapoints (60 s: 1 volume)"
    assert told["verdict"] == "warning"
    assert "and cadence.metric_lag counts on 60 s" in told["seen"]


def test_datapoints_every_five_minutes_call_for_another_metric_lag_at_its_price(desk):
    with a_lab(desk, balance_every_s=300) as lab:
        add(lab, "old", "steady:50", size_gib=8, minutes=90)
        _, spacing = found(desk.run("doctor", "--json"), "telemetry")
        assert spacing["verdict"] == "warning"
        assert "come every 5 min, not every minute: a drain is seen up to 4 min later" in spacing["seen"]
        assert "cadence: {metric_lag: 10m}" in spacing["fix"]
        assert "$0.04 a month while all are calm, not $0.03" in spacing["fix"]
        (desk.directory / "policy.yaml").write_text("version: 1\ncadence:\n  metric_lag: 10m\n")
        _, spacing = found(desk.run("doctor", "--json"), "telemetry")
        assert spacing["verdict"] == "ok"


def test_the_mode_that_stops_what_opted_in_and_tags_that_do_nothing(desk, lab):
    add_calm(lab, tags=AUTO)
    add_calm(lab, "typo", tags={"burstwatch:taget": "io1"})
    (desk.directory / "policy.yaml").write_text("version: 1\nmode:\n  highest: propose\n")

    ran = desk.run("doctor", "--json")

    assert (
        "1 volume with the opt-in tag burstwatch:mode=auto, and the policy's mode.highest is propose"
        in (the_one(ran, "opt-in")["seen"])
    )
    told = the_one(ran, "tags")
    assert (told["verdict"], told["seen"][:18]) == ("warning", "'burstwatch:taget'")
    assert ran.code == 3


def test_hostile_names_are_only_shown(desk, lab):
    add_calm(lab, "a\u202e\nrm -rf\u200b", tags={"burstwatch:mode": "auto\r\u202e\u0085"})

    plain, document = desk.run("doctor"), desk.run("doctor", "--json")

    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202e]", plain.out + plain.err)
    assert document.out.isascii()
    assert "rm -rf" in plain.out


def test_it_fits_80_columns_and_what_is_broken_comes_first(desk, lab):
    add_calm(lab, tags={"burstwatch:mode": "automatic"})
    deny(lab, "cloudwatch:GetMetricData")

    ran = desk.run("doctor")

    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 80
    marks = [line.split()[0] for line in lines if line and not line.startswith("    ")]
    assert marks[0] == "BROKEN"
    assert marks.index("WARNING") > max(index for index, mark in enumerate(marks) if mark == "BROKEN")
    assert marks.index("ok") > max(index for index, mark in enumerate(marks) if mark == "WARNING")
    assert re.fullmatch(
        r"2 broken, 1 warning, \d+ ok, \d+ skipped; \d+ calls to AWS, \d+ metrics read\n", ran.err
    )


# The ledger


def a_ledger(desk):
    with desk.open_ledger() as ledger:
        ledger.bind("account 123456789012 in us-east-1")
    return desk.ledger_path


def test_a_ledger_that_is_there_is_looked_at_and_not_touched(desk, lab):
    path = a_ledger(desk)
    before = (path.read_bytes(), list(path.parent.iterdir()))

    told = the_one(desk.run("doctor", "--json"), "ledger")

    assert re.fullmatch(rf"sqlite:{path}, schema 2, 0\.\d MiB", told["seen"])
    assert (path.read_bytes(), list(path.parent.iterdir())) == before


def test_a_ledger_of_the_first_schema_is_upgraded_by_others(desk, lab):
    path = a_ledger(desk)
    _with_schema(path, 1)
    before = path.read_bytes()

    ran = desk.run("doctor", "--json")

    assert "brought up to schema 2 when it is next used" in the_one(ran, "ledger")["seen"]
    assert the_one(ran, "holds")["verdict"] == "skipped"
    assert path.read_bytes() == before


def test_a_ledger_of_another_account_hides_no_volume(desk, lab):
    add_calm(lab)
    with desk.open_ledger() as ledger:
        ledger.bind("account 1 in eu-west-1")

    ran = desk.run("doctor", "--json")

    _, told = found(ran, "ledger")
    assert (told["verdict"], ran.code) == ("broken", 3)
    assert "is that of account 1 in eu-west-1, and this is account 123456789012 in us-east-1" in told["seen"]
    assert the_one(ran, "volumes")["verdict"] == "ok"


@pytest.mark.parametrize(
    ("make", "seen"),
    [
        (lambda path: path.write_bytes(b""), "is damaged (it is empty)"),
        (lambda path: path.write_bytes(b"hello" * 1000), "is damaged"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: _with_schema(path, 0, "CREATE TABLE t (x)"), "another program"),
    ],
)
def test_a_file_that_is_no_ledger(tmp_path, make, seen):
    make(tmp_path / "ledger")

    with pytest.raises(LedgerError, match=re.escape(seen)):
        look_into(tmp_path / "ledger")


def test_a_ledger_of_a_later_schema_or_one_that_may_not_be_written_to(tmp_path):
    SqliteLedger.open(tmp_path / "ledger").close()
    _with_schema(tmp_path / "ledger", 9)
    file = look_into(tmp_path / "ledger")

    (later,) = judge_file(tmp_path / "ledger", file)
    (locked,) = judge_file(tmp_path / "ledger", replace(file, schema=2, is_writable=False))
    (damaged,) = judge_file(tmp_path / "ledger", replace(file, faults=("row 1 missing from index",)))

    assert "made by a newer burstwatch, this one knows schemas up to 2" in later.seen
    assert "may not write to it" in locked.seen
    assert "is damaged: row 1 missing from index" in damaged.seen
    assert {each.verdict for each in (later, locked, damaged)} == {Verdict.BROKEN}


def _with_schema(path, version, statement="SELECT 1"):
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def test_the_heartbeat_of_a_watch_here(desk, lab):
    with desk.open_ledger() as ledger:
        ledger.complete_tick(TickKind.SWEEP, NOW_S - 300, roster=frozenset({1}))
        ledger.complete_tick(TickKind.FOCUS, NOW_S - 3600)

    ran = desk.run("doctor", "--json")

    told = the_one(ran, "heartbeat", "sweep")
    assert (told["verdict"], told["seen"]) == ("ok", "the last was completed 5 min ago")
    told = the_one(ran, "heartbeat", "focus")
    assert (told["verdict"], told["commands"]) == ("warning", ["burstctl watch --region us-east-1"])
    assert told["seen"].startswith("the last was completed 60 min ago; while all is well")


def test_holds_and_modifications_that_are_used_up(desk, lab):
    hold = Hold(volume_id=None, by="ben", reason="INC-42", placed_at_s=NOW_S, until_s=NOW_S + 600)
    spent = tuple(Spent(at_s=NOW_S - hours * 3600, by="burstwatch") for hours in (9, 6, 3))
    state = VolumeState(volume_id="vol-0a1", revision=1, spent=spent)
    with desk.open_ledger() as ledger:
        ledger.place_hold(hold)
        ledger.commit([Change(volume_id="vol-0a1", expected_revision=None, state=state)], channels=[])

    ran = desk.run("doctor", "--json")

    told = the_one(ran, "holds")
    assert told["verdict"] == "warning"
    assert "everything is kept as it is" in told["seen"]
    assert told["commands"] == ["burstctl release --all --region us-east-1"]
    told = the_one(ran, "modifications", "vol-0a1")
    free_at = START - timedelta(hours=9) + timedelta(days=1)
    assert (
        f"3 of AWS's 4 modifications in 24 h are used: none by itself before {free_at:%Y-%m-%dT%H}"
        in told["seen"]
    )


# Quotas


def test_quotas_that_are_nearly_used_up_or_too_small_for_what_opted_in(desk, lab):
    add_calm(lab, size_gib=900)
    add_calm(lab, size_gib=900, tags=AUTO)
    lab.account.quotas |= {"L-D18FCD1D": 2.0, "L-7A658B76": 0.5, "L-B3A130E6": 50_000.0}
    del lab.account.quotas["L-8D977E7E"]

    ran = desk.run("doctor", "--json")

    told = the_one(ran, "quotas", "gp2 storage")
    assert (told["verdict"], told["seen"]) == ("warning", "1.8 TiB of 2.0 TiB in use: nearly all")
    assert told["commands"][0].startswith(
        "aws service-quotas request-service-quota-increase --service-code ebs"
    )
    told = the_one(ran, "quotas", "gp3 storage")
    assert "the volumes that opted in would need 0.9 TiB more of it" in told["seen"]
    assert "AWS allows 50,000" in the_one(ran, "quotas", "flip.io1_iops_limit")["seen"]
    assert the_one(ran, "quotas", "io2 IOPS")["verdict"] == "skipped"


def test_quotas_that_may_not_be_seen_are_not_known(desk, lab):
    deny(lab, "servicequotas:ListServiceQuotas")

    ran = desk.run("doctor", "--json")

    told = the_one(ran, "quotas")
    assert (told["verdict"], ran.code) == ("skipped", 0)
    assert "may not call servicequotas:ListServiceQuotas" in told["seen"]


# Slack and the topic


@pytest.fixture
def slack(desk):
    with SlackReceiver() as receiver:
        desk.set(BURSTWATCH_SLACK_WEBHOOK=receiver.url)
        yield receiver


def test_slack_is_reached_and_nothing_is_posted(desk, lab, slack):
    ran = desk.run("doctor", "--json")

    assert the_one(ran, "slack")["seen"] == (
        "reached; the webhook is good: it refused an empty message (no_text)"
    )
    assert slack.messages == []
    assert slack.url not in ran.out + ran.err


def test_a_webhook_that_is_no_address_or_where_nobody_listens(desk, lab):
    desk.set(BURSTWATCH_SLACK_WEBHOOK="hooks.slack.com/services/T0/B0/secret")
    wrong = desk.run("doctor", "--json")
    desk.set(BURSTWATCH_SLACK_WEBHOOK="http://127.0.0.1:9/services/T0/B0/secret")
    silent = desk.run("doctor", "--json")

    assert (wrong.code, silent.code) == (2, 1)
    assert "is not an https:// one: copy it again" in the_one(wrong, "slack")["seen"]
    assert "Slack was not reached (Connection refused)" in the_one(silent, "slack")["seen"].replace(
        "[Errno 111] ", ""
    )
    assert "secret" not in wrong.err + silent.out + silent.err


@pytest.mark.parametrize(
    ("topic_arn", "seen"),
    [
        ("arn:aws:sns:us-east-1:123456789012:nobody", "there is no topic arn:aws:sns:us-east-1"),
        ("arn:aws:sns:eu-west-1:123456789012:alerts", "it is in eu-west-1, and this is us-east-1"),
    ],
)
def test_a_topic_that_alerts_do_not_get_to(desk, lab, topic_arn, seen):
    lab.client("sns").list_topics()  # moto takes its time to load it
    desk.set(BURSTWATCH_TOPIC_ARN=topic_arn)

    told = the_one(desk.run("doctor", "--json"), "topic")

    assert told["verdict"] == "broken"
    assert told["seen"].startswith(seen)


def test_where_aws_was_silent_once_it_is_not_asked_twice_again(desk, lab, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    lab.faults.add(Fault(action="GetCallerIdentity", kind="reset"))
    lab.faults.add(Fault(action="ListServiceQuotas", kind="reset"))
    add_calm(lab)

    ran = desk.run("doctor", "--json")

    assert lab.faults.calls()["GetCallerIdentity"] == 2
    assert lab.faults.calls()["ListServiceQuotas"] == 1
    assert {each["verdict"] for each in found(ran, "volumes")} == {"ok"}, "the others may be there"


def test_a_region_without_a_volume_is_not_called_well_watched(desk, lab):
    told = the_one(desk.run("doctor", "--json"), "volumes")

    assert (told["verdict"], told["seen"]) == (
        "skipped",
        "there is no gp2 volume in us-east-1: nothing is watched",
    )
    assert "--region" in told["fix"]


def test_volumes_that_opted_in_where_nobody_is_known_to_flip(desk, lab):
    add_calm(lab, tags=AUTO)

    told = the_one(desk.run("doctor", "--json"), "opt-in")

    assert told["verdict"] == "skipped"
    assert told["seen"].endswith(": no stack is known that would flip them")
    assert told["fix"] == "a burstctl watch --act flips them, for as long as it runs"

"""burstctl watch: one pass or many, the same watchdog as deployed, and nothing that stops it but a signal."""

import json
import signal
import subprocess
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.httpsession import URLLib3Session

from burstctl.cli.signals import StopSignal
from burstctl.watch import loop
from burstlab.fake_aws.faults import Fault
from burstlab.fake_aws.slack import SlackReceiver, SlowResponse
from burstlab.model.database import LabDatabase
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.notify import slack_webhook
from burstwatch.core.ledger.ledger_entry import EntryKind
from support.cli.cli_session import (
    START,
    add_calm,
    add_critical,
    add_draining_instance,
    add_exhausted,
    add_lab_volume,
    add_warning,
    modification_targets,
)
from support.waiting import wait_until


def test_once_evaluates_records_and_alerts(cli, lab):
    critical = add_critical(lab)
    add_calm(lab)

    result = cli.run("watch", "--once")

    assert result.code == 3
    assert [line.split()[0] for line in result.out.splitlines()] == ["LEVEL", "critical", "ok"]
    assert "alerts: terminal" in result.err
    assert "CRITICAL: ci-7 is empty in about 10 min" in result.err
    with SqliteLedger.open(cli.ledger_path) as ledger:
        assert [entry.kind for entry in ledger.entries(critical)] == [
            EntryKind.LEVEL_CHANGED,
            EntryKind.ALERT,
            EntryKind.DELIVERED,
        ]


def test_once_in_json_is_one_object_and_lists_what_was_proposed(cli, lab):
    add_critical(lab)

    report = cli.run("watch", "--once", "--json").document

    assert report["volumes"][0]["outcome"]["action"] == "proposed"
    assert report["ledger"] == f"sqlite:{cli.ledger_path}"


def test_a_second_pass_repeats_no_alert(cli, lab):
    add_critical(lab)
    cli.run("watch", "--once")

    result = cli.run("watch", "--once")

    assert result.code == 3
    assert "empty in about" not in result.err


def test_many_alerts_at_once_are_one_digest(cli, lab):
    for number in range(11):
        add_critical(lab, f"ci-{number}")

    result = cli.run("watch", "--once")

    assert "11 burst-balance alerts at once (us-east-1)" in result.err
    assert result.err.count("What to do:") == 1


def test_it_never_modifies(cli, lab):
    add_critical(lab, tags={"burstwatch:mode": "auto"})

    cli.run("watch", "--once")

    assert not {
        action for action in lab.faults.call_counts() if action.startswith(("Modify", "Create", "Delete"))
    }


@contextmanager
def a_webhook(status=200):
    """A Slack of our own; answers with the path and the bodies it was sent."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"ok" if status == 200 else b"no_service")

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/services/T0/B0/secretsecret", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_webhook_that_others_may_use_is_warned_of_and_used(cli, lab, mode):
    add_critical(lab)
    with a_webhook() as (address, received):
        (cli.directory / "webhook").write_text(address)
        (cli.directory / "webhook").chmod(mode)
        result = cli.run("watch", "--once", "--slack-webhook-file", "webhook")
    assert len(received) == 1
    assert f"(mode {mode:04o}).\n  fix: chmod 600 webhook\n" in result.err
    assert "secretsecret" not in result.err


@pytest.mark.parametrize("from_file", [True, False])
def test_alerts_go_to_slack_whose_address_is_shown_nowhere(cli, lab, from_file):
    add_critical(lab)
    with a_webhook() as (address, received):
        if from_file:
            (cli.directory / "webhook").write_text(address + "\n")
            (cli.directory / "webhook").chmod(0o600)
            result = cli.run("watch", "--once", "--slack-webhook-file", "webhook")
        else:
            cli.set(BURSTWATCH_SLACK_WEBHOOK=address)
            result = cli.run("watch", "--once")

    assert len(received) == 1
    assert "ci-7" in received[0]
    assert "alerts: terminal, slack" in result.err
    assert "CRITICAL: ci-7" in result.err, "the terminal gets it as well"
    assert "secretsecret" not in result.err + result.out


@pytest.mark.parametrize("response", SlowResponse)
def test_a_slack_that_never_finishes_an_answer_keeps_no_pass_from_its_flips(cli, lab, monkeypatch, response):
    monkeypatch.setattr(slack_webhook, "_TIMEOUT_S", 0.2)
    add_critical(lab, "web-3")
    volume_id = add_critical(lab, tags={"burstwatch:mode": "auto"})
    with SlackReceiver() as slack:
        slack.start_slow_response(response, interval_s=0.02)
        cli.set(BURSTWATCH_SLACK_WEBHOOK=slack.url)
        result = cli.run("watch", "--act", "--once")

    assert modification_targets(lab, volume_id) == ["gp3"]
    assert slack.all_messages
    assert any(
        "error: slack: " in complaint and "for the next pass" in complaint for complaint in result.error_lines
    )


def test_an_alert_that_a_channel_refuses_is_a_failure_and_waits(cli, lab):
    add_critical(lab)
    with a_webhook(status=404) as (address, _):
        cli.set(BURSTWATCH_SLACK_WEBHOOK=address)
        result = cli.run("watch", "--once")
    assert result.code == 1
    assert result.error_lines[0].startswith("error: slack: 1 alert waits for the next pass: ")

    with a_webhook() as (address, received):
        cli.set(BURSTWATCH_SLACK_WEBHOOK=address)
        assert cli.run("watch", "--once").code == 3

    assert len(received) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the Slack webhook cannot be read from webhook: No such file or directory"),
        (b"\xff\xfe", "the Slack webhook cannot be read from webhook: it is not text"),
        (b"\n", "webhook is empty."),
        (b"ftp://x", "the Slack webhook's address (a secret, so not shown) is not an https:// one"),
    ],
)
def test_a_webhook_that_cannot_be_used_is_a_usage_error(cli, lab, content, message):
    if content is not None:
        (cli.directory / "webhook").write_bytes(content)
        (cli.directory / "webhook").chmod(0o600)

    result = cli.run("watch", "--once", "--slack-webhook-file", "webhook")

    assert result.code == 2
    assert result.error_lines[0].startswith(f"error: {message}")


def test_alerts_go_to_an_sns_topic(cli, lab):
    add_critical(lab)
    topic = lab.client("sns").create_topic(Name="alerts")["TopicArn"]

    result = cli.run("watch", "--once", "--topic-arn", topic, "--json")

    assert result.code == 3
    assert "alerts: terminal, sns" in result.err


def test_calls_to_sns_are_counted(cli, lab):
    add_critical(lab)
    topic = lab.client("sns").create_topic(Name="alerts")["TopicArn"]
    cli.set(BURSTWATCH_TOPIC_ARN=topic)

    assert cli.run("watch", "--once", "--json").document["api_calls"]["sns:Publish"] == 1


def test_each_pass_is_one_line_of_json_at_its_own_tick(cli, fast_lab):
    add_exhausted(fast_lab)

    result = cli.run("watch", "--passes", "3", "--json")

    times = [json.loads(line)["generated_at"][:16] for line in result.out.splitlines()]
    assert len(set(times)) == len(times) == 3
    assert result.code == 3


def test_a_pass_shows_only_what_is_not_calm_and_sums_up_in_a_line(cli, lab):
    add_warning(lab)
    add_calm(lab)

    result = cli.run("watch", "--passes", "1")

    assert [line.split()[0] for line in result.out.splitlines()] == ["LEVEL", "warning"]
    assert "watching us-east-1 every 1m; press Ctrl-C to stop (within 15 s)" in result.err
    assert (
        "18:00 UTC: looked at 2 of 2 volumes; fleet: 1 warning, 1 ok; newest datapoint 60 s old"
        in result.err.splitlines()
    )


def test_the_line_of_a_pass_counts_every_kind_of_resource(cli, lab):
    add_draining_instance(lab, io_pct=60)
    add_warning(lab)
    kinds = "version: 1\nresources: {{ebs: {{watch: {}}}, instance: {{watch: true}}, rds: {{watch: true}}}}\n"
    lab.fleet.databases.add(
        LabDatabase(
            identifier="orders", load="steady:3000@16%0", balance_pct=0, starts_at=START - timedelta(hours=1)
        )
    )
    others = "1 instance and 1 database"
    levels = "other buckets: 1 exhausted, 1 critical, 1 watch"
    for watches_volumes, scope in (
        ("true", f"1 of 1 volume, {others}; fleet: 1 warning; {levels};"),
        ("false", f"{others}; {levels};"),
    ):
        (cli.directory / "policy.yaml").write_text(kinds.format(watches_volumes))
        result = cli.run("watch", "--passes", "1", "--ledger", f"sqlite:{cli.directory / watches_volumes}.db")
        assert f"looked at {scope}" in result.err


def test_a_tick_that_was_done_is_not_done_again(cli, lab):
    add_calm(lab)
    cli.run("watch", "--passes", "1")

    result = cli.run("watch", "--passes", "1", "--json")

    assert result.code == 0
    assert result.out == ""
    assert "18:00 UTC: done already, by another process or before a clock was set back" in result.err


def test_a_pass_that_fails_is_one_line_and_the_next_one_comes(cli, fast_lab, monkeypatch):
    add_exhausted(fast_lab)
    real_commit, calls = SqliteLedger.commit, []

    def commit(self, *args, **options):
        calls.append(args)
        if len(calls) == 1:
            raise LookupError("a bug")
        return real_commit(self, *args, **options)

    monkeypatch.setattr(SqliteLedger, "commit", commit)

    result = cli.run("watch", "--passes", "3")

    assert len(result.error_lines) == 1
    assert result.error_lines[0].startswith("error: unexpected LookupError: a bug.")
    assert "Traceback" not in result.err
    assert result.err.count("What to do:") == 1, "a later pass did what the first could not"
    assert result.code == 3, "the last pass counts"


def test_an_aws_that_is_down_for_a_pass_does_not_end_the_watch(cli, fast_lab):
    add_exhausted(fast_lab)
    fast_lab.faults.add(
        Fault(action="DescribeVolumes", code="AuthFailure", message="no", status=401, times=1)
    )

    result = cli.run("watch", "--passes", "4")

    assert len(result.error_lines) == 1
    assert "this machine's clock is " in result.error_lines[0], "AWS refuses the time of the signature"
    assert result.err.count("What to do:") == 1


def test_the_exit_code_is_that_of_the_last_pass(cli, lab):
    add_critical(lab)
    lab.faults.add(Fault(action="DescribeVolumes", code="AuthFailure", message="no", status=401))

    assert cli.run("watch", "--passes", "1").code == 1


def test_an_endpoint_without_a_date_header_is_retried(cli, lab, monkeypatch):
    add_calm(lab)
    waits, real_send = [], URLLib3Session.send

    def send(self, request):
        if not waits and request.method == "HEAD":
            raise EndpointConnectionError(endpoint_url=request.url)
        return real_send(self, request)

    monkeypatch.setattr(URLLib3Session, "send", send)
    monkeypatch.setattr(StopSignal, "wait", lambda _self, seconds: waits.append(seconds))

    result = cli.run("watch", "--passes", "1")

    assert waits == [5.0]
    assert result.error_lines[0].startswith(f"error: no pass: {lab.url} could not be reached")
    assert result.code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_between_two_passes(cli, lab, number):
    add_calm(lab)
    with cli.start_subprocess("watch", "--json") as process:
        first = process.stdout.readline()
        process.send_signal(number)
        rest, text = process.communicate(timeout=60)

    assert json.loads(first)["totals"]["volumes"] == 1
    assert rest == ""
    assert process.returncode == 0
    assert "Traceback" not in text


def test_a_signal_during_a_pass_lets_it_finish(cli, lab):
    add_critical(lab)
    lab.faults.set_latency(300, "GetMetricData")
    with cli.start_subprocess("watch", "--json") as process:
        wait_until(lambda: "GetMetricData" in lab.faults.call_counts())
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)

    assert json.loads(out)["volumes"][0]["level"] == "critical"
    assert process.returncode == 3
    with SqliteLedger.open(cli.ledger_path) as ledger:
        assert ledger.pending_deliveries(channels=["terminal"]) == []
        assert len(ledger.states()) == 1


def test_a_second_signal_ends_it_at_once(cli, lab):
    add_critical(lab)
    lab.faults.set_latency(20_000, "DescribeVolumes")
    with cli.start_subprocess("watch") as process:
        wait_until(lambda: "DescribeVolumes" in lab.faults.call_counts())
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "interrupted" in text


def test_two_watches_on_one_ledger_alert_once(cli, fast_lab):
    add_exhausted(fast_lab)
    with (
        cli.start_subprocess("watch", "--passes", "4") as item,
        cli.start_subprocess("watch", "--passes", "4") as other,
    ):
        text = item.communicate(timeout=60)[1] + other.communicate(timeout=60)[1]

    assert text.count("What to do:") == 1
    assert "Traceback" not in text


def test_a_policy_that_turns_bad_alerts_once_and_the_last_good_one_stays(cli, fast_lab, monkeypatch):
    policy = cli.directory / "policy.yaml"
    policy.write_text("version: 1\nlevels:\n  warning_within: 30m\n")
    add_warning(fast_lab)
    in_force = []
    passes_to_change = {2: "version: 1\nlevels:\n  warning_within: soon\n", 4: "version: 1\n"}

    real_run_tick = loop.run_tick

    def run_tick(shell, **fields):
        in_force.append(str(shell.policy.levels.warning_within))
        if (text := passes_to_change.get(len(in_force))) is not None:
            policy.write_text(text)
        return real_run_tick(shell, **fields)

    monkeypatch.setattr(loop, "run_tick", run_tick)

    result = cli.run("watch", "--passes", "5")

    assert in_force == ["0:30:00"] * 4 + ["1:00:00"], "good, good, bad, bad, mended"
    assert result.err.count("policy rejected; the last valid one stays in force") == 1
    assert "policy.yaml:3: levels.warning_within: 'soon' is not a valid duration" in result.err
    assert "burstctl policy check policy.yaml" in result.err
    assert "policy: policy.yaml (found here) is valid and in force from now on" in result.err
    with SqliteLedger.open(cli.ledger_path) as ledger:
        assert [entry.kind for entry in ledger.entries("policy")] == [
            EntryKind.POLICY_REJECTED,
            EntryKind.ALERT,
        ]


@pytest.mark.parametrize("every", ["30s", "90s", "6m", "0m", "1h", "often"])
def test_ticks_are_whole_minutes_from_one_to_five(cli, lab, every):
    result = cli.run("watch", "--every", every)

    assert result.code == 2
    assert "Invalid value for '--every'" in result.err


def test_ticks_longer_than_a_minute_come_with_a_warning(cli, lab):
    add_lab_volume(lab, "low", balance_pct=80)

    result = cli.run("watch", "--every", "5m", "--passes", "1")

    assert "with longer ticks they are checked later than promised" in result.err


def test_once_and_passes_exclude_each_other(cli, lab):
    assert cli.run("watch", "--once", "--passes", "2").code == 2
    assert list(cli.directory.iterdir()) == []


def test_a_watch_continues_without_a_known_account(cli, lab):
    add_calm(lab)
    lab.faults.add(Fault(action="GetCallerIdentity", kind="error", code="AccessDenied", status=403))
    result = cli.run("watch", "--once")
    assert "the account is not known, so the ledger is not checked against it" in result.err
    assert result.code == 0


def test_the_ledger_of_another_region_is_refused(cli, lab):
    add_calm(lab)
    assert cli.run("watch", "--once", "--ledger", "sqlite:mine").code == 0
    with SqliteLedger.open(cli.directory / "other") as other:
        other.bind("account 123456789012 in eu-west-1")
    result = cli.run("watch", "--once", "--ledger", "sqlite:other")
    assert result.code == 1
    assert "is that of account 123456789012 in eu-west-1" in result.error_lines[0]


def test_regions_have_ledgers_of_their_own(cli, lab):
    add_calm(lab)
    cli.run("watch", "--once")
    assert [path.name for path in cli.ledger_path.parent.glob("*.sqlite")] == ["ledger-us-east-1.sqlite"]


def test_the_commands_of_an_alert_use_the_ledger_that_was_given(cli, lab):
    volume_id = add_critical(lab, tags={"burstwatch:mode": "auto"})

    result = cli.run("watch", "--once", "--ledger", "sqlite:other name.sqlite")

    text = " ".join(result.err.replace("\\\n", " ").split())
    ledger_option = "--ledger 'sqlite:other name.sqlite'"
    assert f"--region us-east-1 --to gp3 --iops 3750 --throughput 128 {ledger_option}" in text
    assert f"--region us-east-1 --for 2h --reason 'looking at it' {ledger_option}" in text
    assert f"burstctl explain {volume_id} --region us-east-1 {ledger_option}" in text

"""burstctl watch: one pass or many, the same watchdog as deployed, and nothing that stops it but a signal."""

import json
import signal
import subprocess
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.httpsession import URLLib3Session
from operators_desk import (
    OperatorsDesk,
    a_lab,
    add,
    add_calm,
    add_critical,
    add_exhausted,
    add_warning,
    modified,
)

from burstctl.cli.signals import StopSignal
from burstctl.watch import loop
from burstlab.fake_aws.faults import Fault
from burstlab.fake_aws.slack import Drip, SlackReceiver
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.notify import slack_webhook
from burstwatch.core.ledger.ledger import EntryKind


@pytest.fixture
def desk(tmp_path, monkeypatch, capsys):
    return OperatorsDesk(tmp_path, monkeypatch, capsys)


@pytest.fixture
def lab(desk):
    with a_lab(desk) as endpoint:
        yield endpoint


@pytest.fixture
def fast_lab(desk):
    """Ten minutes of the lab pass in a second."""
    with a_lab(desk, speed=600) as endpoint:
        yield endpoint


def wait_for(condition):
    until_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until_s, "it did not come about within 10 s"
        time.sleep(0.01)


def test_once_looks_at_everything_records_and_alerts(desk, lab):
    critical = add_critical(lab)
    add_calm(lab)

    ran = desk.run("watch", "--once")

    assert ran.code == 3
    assert [line.split()[0] for line in ran.out.splitlines()] == ["LEVEL", "critical", "ok"]
    assert "alerts: terminal" in ran.err
    assert "critical: ci-7, dry in about 10 min" in ran.err
    with SqliteLedger.open(desk.ledger_path) as ledger:
        assert [entry.kind for entry in ledger.entries(critical)] == [
            EntryKind.LEVEL_CHANGED,
            EntryKind.ALERT,
            EntryKind.DELIVERED,
        ]


def test_once_in_json_is_one_object_and_says_what_was_proposed(desk, lab):
    add_critical(lab)

    report = desk.run("watch", "--once", "--json").document

    assert report["volumes"][0]["outcome"]["action"] == "proposed"
    assert report["ledger"] == f"sqlite:{desk.ledger_path}"


def test_a_second_time_nobody_is_told_again(desk, lab):
    add_critical(lab)
    desk.run("watch", "--once")

    ran = desk.run("watch", "--once")

    assert ran.code == 3
    assert "dry in about" not in ran.err


def test_many_alerts_at_once_are_one_digest(desk, lab):
    for number in range(11):
        add_critical(lab, f"ci-{number}")

    ran = desk.run("watch", "--once")

    assert "11 burst-balance alerts at once in us-east-1" in ran.err
    assert ran.err.count("What to do:") == 1


def test_it_never_modifies(desk, lab):
    add_critical(lab, tags={"burstwatch:mode": "auto"})

    desk.run("watch", "--once")

    assert not {action for action in lab.faults.calls() if action.startswith(("Modify", "Create", "Delete"))}


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
def test_a_webhook_that_others_may_use_is_warned_of_and_used(desk, lab, mode):
    add_critical(lab)
    with a_webhook() as (address, received):
        (desk.directory / "webhook").write_text(address)
        (desk.directory / "webhook").chmod(mode)
        ran = desk.run("watch", "--once", "--slack-webhook-file", "webhook")
    assert len(received) == 1
    assert f"(mode {mode:04o}): chmod 600 it" in ran.err
    assert "secretsecret" not in ran.err


@pytest.mark.parametrize("from_file", [True, False])
def test_alerts_go_to_slack_whose_address_is_shown_nowhere(desk, lab, from_file):
    add_critical(lab)
    with a_webhook() as (address, received):
        if from_file:
            (desk.directory / "webhook").write_text(address + "\n")
            (desk.directory / "webhook").chmod(0o600)
            ran = desk.run("watch", "--once", "--slack-webhook-file", "webhook")
        else:
            desk.set(BURSTWATCH_SLACK_WEBHOOK=address)
            ran = desk.run("watch", "--once")

    assert len(received) == 1
    assert "ci-7" in received[0]
    assert "alerts: terminal, slack" in ran.err
    assert "critical: ci-7" in ran.err, "the terminal gets it as well"
    assert "secretsecret" not in ran.err + ran.out


@pytest.mark.parametrize("drip", Drip)
def test_a_slack_that_never_finishes_an_answer_keeps_no_pass_from_its_flips(desk, lab, monkeypatch, drip):
    monkeypatch.setattr(slack_webhook, "_TIMEOUT_S", 0.2)
    add_critical(lab, "web-3")
    volume_id = add_critical(lab, tags={"burstwatch:mode": "auto"})
    with SlackReceiver() as slack:
        slack.drip(drip, every_s=0.02)
        desk.set(BURSTWATCH_SLACK_WEBHOOK=slack.url)
        ran = desk.run("watch", "--act", "--once")

    assert modified(lab, volume_id) == ["gp3"]
    assert slack.posted
    assert any("burstctl: slack: " in said and "for the next pass" in said for said in ran.complaints)


def test_an_alert_that_a_channel_refuses_is_a_failure_and_waits(desk, lab):
    add_critical(lab)
    with a_webhook(status=404) as (address, _):
        desk.set(BURSTWATCH_SLACK_WEBHOOK=address)
        ran = desk.run("watch", "--once")
    assert ran.code == 1
    assert ran.complaints[0].startswith("burstctl: slack: 1 alert waits for the next pass: ")

    with a_webhook() as (address, received):
        desk.set(BURSTWATCH_SLACK_WEBHOOK=address)
        assert desk.run("watch", "--once").code == 3

    assert len(received) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "the Slack webhook cannot be read from webhook: No such file or directory"),
        (b"\xff\xfe", "the Slack webhook cannot be read from webhook: it is no text"),
        (b"\n", "webhook is empty: put the address of the Slack webhook into it"),
        (b"ftp://x", "the Slack webhook's address (a secret, so not shown) is not an https:// one"),
    ],
)
def test_a_webhook_that_cannot_be_used_is_misuse(desk, lab, content, said):
    if content is not None:
        (desk.directory / "webhook").write_bytes(content)
        (desk.directory / "webhook").chmod(0o600)

    ran = desk.run("watch", "--once", "--slack-webhook-file", "webhook")

    assert ran.code == 2
    assert ran.complaints[0].startswith(f"burstctl: {said}")


def test_alerts_go_to_an_sns_topic(desk, lab):
    add_critical(lab)
    topic = lab.client("sns").create_topic(Name="alerts")["TopicArn"]

    ran = desk.run("watch", "--once", "--topic-arn", topic, "--json")

    assert ran.code == 3
    assert "alerts: terminal, sns" in ran.err


def test_calls_to_sns_are_counted(desk, lab):
    add_critical(lab)
    topic = lab.client("sns").create_topic(Name="alerts")["TopicArn"]
    desk.set(BURSTWATCH_TOPIC_ARN=topic)

    assert desk.run("watch", "--once", "--json").document["api_calls"]["sns:Publish"] == 1


def test_each_pass_is_one_line_of_json_at_its_own_tick(desk, fast_lab):
    add_exhausted(fast_lab)

    ran = desk.run("watch", "--passes", "3", "--json")

    times = [json.loads(line)["generated_at"][:16] for line in ran.out.splitlines()]
    assert len(set(times)) == len(times) == 3
    assert ran.code == 3


def test_a_pass_shows_only_what_is_not_calm_and_sums_up_in_a_line(desk, lab):
    add_warning(lab)
    add_calm(lab)

    ran = desk.run("watch", "--passes", "1")

    assert [line.split()[0] for line in ran.out.splitlines()] == ["LEVEL", "warning"]
    assert "watching us-east-1 every 1m; press Ctrl-C to stop (within 15 s)" in ran.err
    assert "18:00 UTC: 1 warning, 1 ok; newest datapoint 60 s old" in ran.err.splitlines()


def test_a_tick_that_was_done_is_not_done_again(desk, lab):
    add_calm(lab)
    desk.run("watch", "--passes", "1")

    ran = desk.run("watch", "--passes", "1", "--json")

    assert ran.code == 0
    assert ran.out == ""
    assert "18:00 UTC: done already, by another process or before a clock was set back" in ran.err


def test_a_pass_that_fails_is_one_line_and_the_next_one_comes(desk, fast_lab, monkeypatch):
    add_exhausted(fast_lab)
    real_commit, calls = SqliteLedger.commit, []

    def commit(self, *given, **more):
        calls.append(given)
        if len(calls) == 1:
            raise LookupError("a bug")
        return real_commit(self, *given, **more)

    monkeypatch.setattr(SqliteLedger, "commit", commit)

    ran = desk.run("watch", "--passes", "3")

    assert len(ran.complaints) == 1
    assert ran.complaints[0].startswith("burstctl: unexpected LookupError: a bug;")
    assert "Traceback" not in ran.err
    assert ran.err.count("What to do:") == 1, "a later pass did what the first could not"
    assert ran.code == 3, "the last pass counts"


def test_an_aws_that_is_down_for_a_pass_does_not_end_the_watch(desk, fast_lab):
    add_exhausted(fast_lab)
    fast_lab.faults.add(
        Fault(action="DescribeVolumes", code="AuthFailure", message="no", status=401, times=1)
    )

    ran = desk.run("watch", "--passes", "4")

    assert len(ran.complaints) == 1
    assert "ec2:DescribeVolumes failed (AuthFailure)" in ran.complaints[0]
    assert ran.err.count("What to do:") == 1


def test_the_exit_code_is_that_of_the_last_pass(desk, lab):
    add_critical(lab)
    lab.faults.add(Fault(action="DescribeVolumes", code="AuthFailure", message="no", status=401))

    assert desk.run("watch", "--passes", "1").code == 1


def test_an_endpoint_that_tells_no_time_is_asked_again(desk, lab, monkeypatch):
    add_calm(lab)
    waits, real_send = [], URLLib3Session.send

    def send(self, request):
        if not waits and request.method == "HEAD":
            raise EndpointConnectionError(endpoint_url=request.url)
        return real_send(self, request)

    monkeypatch.setattr(URLLib3Session, "send", send)
    monkeypatch.setattr(StopSignal, "wait", lambda _self, seconds: waits.append(seconds))

    ran = desk.run("watch", "--passes", "1")

    assert waits == [5.0]
    assert ran.complaints[0].startswith("burstctl: no pass: reading the endpoint's clock failed")
    assert ran.code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_between_two_passes(desk, lab, number):
    add_calm(lab)
    with desk.start("watch", "--json") as process:
        first = process.stdout.readline()
        process.send_signal(number)
        rest, said = process.communicate(timeout=10)

    assert json.loads(first)["totals"]["volumes"] == 1
    assert rest == ""
    assert process.returncode == 0
    assert "Traceback" not in said


def test_a_signal_during_a_pass_lets_it_finish(desk, lab):
    add_critical(lab)
    lab.faults.set_latency(300, "GetMetricData")
    with desk.start("watch", "--json") as process:
        wait_for(lambda: "GetMetricData" in lab.faults.calls())
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=10)

    assert json.loads(out)["volumes"][0]["level"] == "critical"
    assert process.returncode == 3
    with SqliteLedger.open(desk.ledger_path) as ledger:
        assert ledger.waiting(channels=["terminal"]) == []
        assert len(ledger.states()) == 1


def test_a_second_signal_ends_it_at_once(desk, lab):
    add_critical(lab)
    lab.faults.set_latency(20_000, "DescribeVolumes")
    with desk.start("watch") as process:
        wait_for(lambda: "DescribeVolumes" in lab.faults.calls())
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10)

    assert process.returncode == 130
    assert "burstctl: interrupted" in said


def test_two_watches_share_one_ledger_and_tell_once(desk, fast_lab):
    add_exhausted(fast_lab)
    with desk.start("watch", "--passes", "4") as one, desk.start("watch", "--passes", "4") as other:
        said = one.communicate(timeout=30)[1] + other.communicate(timeout=30)[1]

    assert said.count("What to do:") == 1
    assert "Traceback" not in said


def test_a_policy_that_turns_bad_alerts_once_and_the_last_good_one_stays(desk, fast_lab, monkeypatch):
    policy = desk.directory / "policy.yaml"
    policy.write_text("version: 1\nlevels:\n  warning_within: 30m\n")
    add_warning(fast_lab)
    in_force = []
    passes_to_change = {2: "version: 1\nlevels:\n  warning_within: soon\n", 4: "version: 1\n"}

    real_run_tick = loop.run_tick

    def run_tick(shell, **given):
        in_force.append(str(shell.policy.levels.warning_within))
        if (text := passes_to_change.get(len(in_force))) is not None:
            policy.write_text(text)
        return real_run_tick(shell, **given)

    monkeypatch.setattr(loop, "run_tick", run_tick)

    ran = desk.run("watch", "--passes", "5")

    assert in_force == ["0:30:00"] * 4 + ["1:00:00"], "good, good, bad, bad, mended"
    assert ran.err.count("policy rejected; the last good one stays in force") == 1
    assert "policy.yaml:3: levels.warning_within: 'soon' is not a span" in ran.err
    assert "burstctl policy check policy.yaml" in ran.err
    assert "policy: policy.yaml (found here) is good and in force from now on" in ran.err
    with SqliteLedger.open(desk.ledger_path) as ledger:
        assert [entry.kind for entry in ledger.entries("policy")] == [
            EntryKind.POLICY_REJECTED,
            EntryKind.ALERT,
        ]


@pytest.mark.parametrize("every", ["30s", "90s", "6m", "0m", "1h", "often"])
def test_ticks_are_whole_minutes_from_one_to_five(desk, lab, every):
    ran = desk.run("watch", "--every", every)

    assert ran.code == 2
    assert "Invalid value for '--every'" in ran.err


def test_ticks_longer_than_a_minute_come_with_a_warning(desk, lab):
    add(lab, "low", balance_pct=80)

    ran = desk.run("watch", "--every", "5m", "--passes", "1")

    assert "with longer ticks they are seen later than promised" in ran.err


def test_once_and_many_passes_contradict_each_other(desk, lab):
    assert desk.run("watch", "--once", "--passes", "2").code == 2
    assert list(desk.directory.iterdir()) == []


def test_a_watch_goes_on_where_nobody_tells_the_account(desk, lab):
    add_calm(lab)
    lab.faults.add(Fault(action="GetCallerIdentity", kind="error", code="AccessDenied", status=403))
    ran = desk.run("watch", "--once")
    assert "account unknown" in ran.err
    assert ran.code == 0


def test_the_ledger_of_another_region_is_refused(desk, lab):
    add_calm(lab)
    assert desk.run("watch", "--once", "--ledger", "sqlite:mine").code == 0
    with SqliteLedger.open(desk.directory / "other") as other:
        other.bind("account 123456789012 in eu-west-1")
    ran = desk.run("watch", "--once", "--ledger", "sqlite:other")
    assert ran.code == 1
    assert "is that of account 123456789012 in eu-west-1" in ran.complaints[0]


def test_regions_have_ledgers_of_their_own(desk, lab):
    add_calm(lab)
    desk.run("watch", "--once")
    assert [path.name for path in desk.ledger_path.parent.glob("*.sqlite")] == ["ledger-us-east-1.sqlite"]

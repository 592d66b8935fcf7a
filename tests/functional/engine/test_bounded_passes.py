"""A pass ends, and stops when it should: between two volumes, with nothing half done."""

import signal
import socket
import subprocess
import sys
import time as wall
from dataclasses import replace

import pytest
from boto3.session import Session
from botocore.exceptions import PaginationError

from burstctl.watch import exporter_http_server as exporter
from burstctl.watch.exporter_collector import FleetCollector
from burstlab.fake_aws.server import ACCESS_KEY
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws.botocore_hooks import MAX_PAGES, paginate
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.http_deadline import limit_response_time
from burstwatch.adapters.ledger import dynamodb_table
from burstwatch.adapters.ledger.dynamodb_table import Table
from burstwatch.core.errors import LedgerError
from burstwatch.core.flips.outcome import OutcomeStatus
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.policy.policy import Policy
from burstwatch.engine import evaluate_volumes
from burstwatch.engine.alert_delivery import deliver
from burstwatch.engine.flip_executor import WORKERS
from burstwatch.engine.tick_pass import run_tick
from burstwatch.handlers.runtime import limit_to_invocation
from burstwatch.wiring import bootstrap
from burstwatch.wiring.bootstrap import build_modifier, build_services, build_topic_client
from support.aws.slow_peer import LATEST_S, WITHIN_S, a_peer
from support.builders.alerts import NOW_S, PLACE, numbered_alert
from support.delivery.fake_delivery import FakeChannel, FakeLedger
from support.watch_pass_setup import tick, warm_up

NOON_S = 1_795_000_020
AUTO = {"burstwatch:mode": "auto"}


def a_session():
    return Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name="us-east-1")


def enable_flips(shell, lab):
    return replace(shell, modifier=build_modifier(a_session(), shell.calls, endpoint_url=lab.url))


def add_draining(lab, count):
    warm_up(lab)
    volume_ids = [lab.fleet.add(LabVolume(size_gib=100, tags=AUTO)) for _ in range(count)]
    for volume_id in volume_ids:
        lab.fleet.set_load(volume_id, "steady:3000")
        lab.fleet.set_balance(volume_id, 20)
    lab.clock.advance(300)
    return volume_ids


# Listings


def test_a_listing_with_ever_new_tokens_ends_with_one_clear_error():
    requests = []

    def call(**request):
        requests.append(request)
        return {"Volumes": [], "NextToken": str(len(requests))}

    with pytest.raises(PaginationError, match=r"the list of Volumes did not end after 1,000 pages"):
        list(paginate(call, list_key="Volumes"))
    assert len(requests) == MAX_PAGES


def test_a_listing_of_as_many_pages_as_are_allowed_is_read_whole():
    def call(NextToken="0"):  # noqa: N803 - AWS's name
        following = {"NextToken": str(int(NextToken) + 1)} if NextToken != "9" else {}
        return {"Volumes": [NextToken], **following}

    assert len(list(paginate(call, 10, list_key="Volumes"))) == 10


def test_a_query_of_the_table_that_never_ends_is_given_up(monkeypatch):
    class Endless:
        def query(self, **_):
            return {"Items": [], "LastEvaluatedKey": {"pk": {"S": "x"}, "sk": {"S": "y"}}}

    monkeypatch.setattr(dynamodb_table, "_MAX_PAGES", 5)
    table = Table(Endless(), "credits", workers=1, sleep=wall.sleep)
    with pytest.raises(LedgerError, match="did not end after 5 pages of a query"):
        list(table.query("states"))


# The time for reads


def test_a_pass_whose_time_for_reads_is_over_reads_no_more_and_reports_it(shell, lab):
    lab.fleet.add(LabVolume(size_gib=100))
    warm_up(lab)
    report = tick(replace(shell, read_limit_s=0.0), lab)
    assert not [call for call in lab.faults.call_counts() if call.startswith("Describe")]
    assert report.has_failed
    assert "the 0 s that a pass has for its reads are over; the next pass reads it" in report.failures[0]


def test_a_slow_aws_response_does_not_extend_a_pass(ledger, monkeypatch):
    quick = bootstrap._DEFAULT_CONFIG.merge(bootstrap.Config(read_timeout=WITHIN_S, connect_timeout=1))
    monkeypatch.setattr(bootstrap.build_client, "__kwdefaults__", {"endpoint_url": None, "config": quick})
    limit_response_time()
    with a_peer(b"HTTP/1.1 200 OK\r\nX-A: ", b"a") as aws:
        url = f"http://127.0.0.1:{aws.port}"
        shell = build_services(a_session(), endpoint_url=url, policy=Policy(), ledger=ledger)
        started_at_s = wall.monotonic()
        report = run_tick(replace(shell, read_limit_s=WITHIN_S / 2), tick_at_s=NOON_S, now_s=NOON_S)
        assert wall.monotonic() - started_at_s < WITHIN_S + 3 * LATEST_S
    assert report.has_failed


def test_modifications_and_deliveries_are_not_limited():
    calls = CallCounter()
    calls.limit_reads(0)
    for event in ("before-send.ec2.ModifyVolume", "before-send.sns.Publish", "before-send.ssm.GetParameters"):
        calls._count_call(event)
    assert sum(calls.calls.values()) == 3


def test_an_alert_is_sent_to_a_topic_once_in_a_pass():
    config = build_topic_client(a_session(), CallCounter()).meta.config
    assert config.retries["total_max_attempts"] == 1
    assert config.connect_timeout + config.read_timeout <= 10


# Stopping


def test_a_pass_that_should_stop_evaluates_no_further_volume_and_leaves_its_ticks(shell, lab, monkeypatch):
    monkeypatch.setattr(evaluate_volumes, "_CHUNK_SIZE", 2)
    lab.fleet.add_all(LabVolume(size_gib=100) for _ in range(5))
    warm_up(lab)
    requests = []

    def should_stop():
        requests.append(True)
        return len(requests) > 1

    stopped = tick(replace(shell, should_stop=should_stop), lab)
    assert len(stopped.decisions) == 2
    assert (
        "the pass was stopped: 3 volumes were not evaluated; the next pass evaluates them" in stopped.failures
    )
    assert len(tick(shell, lab, 1).decisions) == 5, "the sweep was not marked as done"


def test_if_every_pass_is_stopped_each_volume_is_evaluated_by_one_of_them(shell, lab, monkeypatch):
    monkeypatch.setattr(evaluate_volumes, "_CHUNK_SIZE", 2)
    volume_ids = lab.fleet.add_all(LabVolume(size_gib=100) for _ in range(7))
    warm_up(lab)
    evaluated = set()
    for _ in range(12):
        answers = iter([False])
        stopped = tick(replace(shell, should_stop=lambda answers=answers: next(answers, True)), lab, 1)
        evaluated |= {decision.volume_id for decision in stopped.decisions}
    assert evaluated == set(volume_ids)


def test_a_pass_that_should_stop_records_no_further_intent_and_leaves_none_half_done(shell, lab, ledger):
    volume_ids = add_draining(lab, WORKERS + 2)
    shell = enable_flips(shell, lab)
    sent = []
    real = shell.modifier

    class Modifier:
        def modify(self, volume_id, configuration):
            sent.append(volume_id)
            return real.modify(volume_id, configuration)

    stopping = replace(shell, modifier=Modifier(), should_stop=lambda: bool(sent))
    report = tick(stopping, lab)
    intents = [i for i in volume_ids for entry in ledger.entries(i) if entry.kind is EntryKind.INTENT]
    accepted = [i for i in volume_ids for entry in ledger.entries(i) if entry.kind is EntryKind.ACCEPTED]
    assert 1 <= len(sent) < len(volume_ids)
    assert sorted(intents) == sorted(accepted) == sorted(sent)
    remaining = [report.outcomes[i] for i in volume_ids if i not in sent]
    assert {outcome.status for outcome in remaining} == {OutcomeStatus.NONE}
    tick(shell, lab, 1)
    assert all(lab.fleet.modifications(i) for i in volume_ids), "the next pass asks for the others"


def test_a_process_that_hangs_ends_soon_after_the_signal():
    code = (
        "import socket, sys\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from burstctl.cli.signals import StopSignal\n"
        "ours, theirs = socket.socketpair()\n"
        "with StopSignal(grace_s=0.3), ThreadPoolExecutor() as pool:\n"
        "    print('ready', flush=True)\n"
        "    pool.submit(ours.recv, 1).result()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        started_at_s = wall.monotonic()
        process.send_signal(signal.SIGTERM)
        _, text = process.communicate(timeout=60)
    finally:
        process.kill()
    assert wall.monotonic() - started_at_s < LATEST_S
    assert process.returncode == 1
    assert "did not end within 0.3 s of the signal" in text
    assert "Traceback" not in text


def test_an_invocation_stops_a_pass_before_its_own_end(shell):
    remaining = [100.0]
    bounded = limit_to_invocation(shell, lambda: remaining[0])
    assert bounded.read_limit_s == 70.0
    assert not bounded.should_stop()
    remaining[0] = 11.0
    assert bounded.should_stop()
    remaining[0] = 20.0
    assert limit_to_invocation(shell, lambda: remaining[0]).read_limit_s == 10.0


# Deliveries


class SlowChannel(FakeChannel):
    def __init__(self, takes_s):
        super().__init__("slack")
        self.now_s = NOW_S
        self._takes_s = takes_s

    def send(self, alert):
        self.now_s += self._takes_s
        super().send(alert)

    def clock(self):
        return self.now_s


def delivered_alerts(ledger, channel, *other_channels, **options):
    return deliver(
        ledger,
        [channel, *other_channels],
        digest_above=100,
        location=PLACE,
        runbooks_url="runbooks",
        now_s=channel.now_s,
        clock=channel.clock,
        **options,
    )


def test_a_slow_channel_gets_a_few_seconds_of_a_pass_and_the_rest_in_the_next():
    ledger, slow, quick = FakeLedger(), SlowChannel(takes_s=4), FakeChannel("sns")
    ledger.put([numbered_alert(n) for n in range(5)], ["slack", "sns"])
    report = delivered_alerts(ledger, slow, quick)
    assert (len(slow.sent), len(quick.sent), report.failed) == (3, 5, 0)
    slow.now_s += 60
    delivered_alerts(ledger, slow, quick)
    assert len(slow.sent) == 5
    assert ledger.rows == {}


def test_a_pass_that_should_stop_waits_for_no_slow_channel():
    ledger, slow = FakeLedger(), SlowChannel(takes_s=4)
    ledger.put([numbered_alert(n) for n in range(5)], ["slack"])
    delivered_alerts(ledger, slow, should_stop=lambda: True)
    assert len(slow.sent) == 1


def test_a_silent_scraper_is_disconnected(monkeypatch):
    monkeypatch.setattr(exporter, "_SCRAPER_TIMEOUT_S", 0.2)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    listener.close()
    with (
        exporter.metrics_server(FleetCollector(version="1"), address="127.0.0.1", port=port),
        socket.create_connection(("127.0.0.1", port), timeout=LATEST_S) as silent,
    ):
        assert silent.recv(1) == b""

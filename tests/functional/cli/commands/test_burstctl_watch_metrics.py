"""burstctl watch --metrics-port: its metrics, for how long, and a scrape by a real Prometheus."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from burstctl.watch import exporter_metrics
from burstctl.watch.exporter_collector import FleetCollector
from burstctl.watch.exporter_http_server import metrics_server
from burstctl.watch.exporter_metrics import MAX_VOLUMES, METRICS, MetricKind
from burstctl.watch.loop import FinishedPass, PassStatus
from burstwatch.core.assessment.assess_resource import BucketReading, assess_resource
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.volume_ceiling import VolumeCeiling
from burstwatch.core.flips.outcome import Outcome, OutcomeStatus
from burstwatch.core.instances.instance_buckets import INSTANCE_IO
from burstwatch.core.ledger.flip_state import FlipStatus, Hold
from burstwatch.core.policy.policy import Policy
from burstwatch.core.watch.fleet_summary import FleetSummary
from burstwatch.core.watch.pass_report import PassReport
from support.builders.core_values import (
    a_decision,
    a_flip,
    a_volume,
    an_assessment,
    an_instance,
    at,
    balances,
    draining_to,
    sparse_balances,
)
from support.cli.cli_session import (
    ROOT,
    add_calm,
    add_critical,
    add_exhausted,
    add_lab_volume,
)
from support.waiting import wait_until

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
HOSTILE = 'x"} 1\nburstwatch_volumes{level="ok"} 666\n\\" \u202e<script>' + "w" * 300
ADDRESS = re.compile(r"metrics: (http://\S+)")


def a_finished_pass(*decisions, now="12:00", result=PassStatus.COMPLETE, **facts):
    """A pass that was carried through."""
    report = PassReport(
        now_s=at(now), region="us-east-1", ledger="", decisions=decisions, cadence=Policy().cadence, **facts
    )
    return FinishedPass(status=result, started_at_s=at(now), duration_s=0.5, report=report)


def a_decision_for(number, balance, *, flip=None, tags=None):
    volume = a_volume(volume_id=f"vol-{number:017x}", tags=tags or {})
    return replace(a_decision(an_assessment(balance, volume=volume)), flip=flip)


def sample_values(collector, metric):
    """The values of a metric by its labels, without the region."""
    result = [reading for reading in collector.metric_values if reading.metric is metric]
    assert all(len(reading.labels) == len(metric.labels) for reading in result)
    return {reading.labels[1:]: reading.value for reading in result}


def exported_volume_ids(collector):
    return [labels[0] for labels in sample_values(collector, exporter_metrics.VOLUME_INFO)]


# -- what is exported


def test_names_and_units_follow_the_conventions():
    for metric in METRICS:
        assert re.fullmatch(r"burstwatch_[a-z]+(_[a-z]+)*", metric.full_name)
        assert metric.full_name.endswith("_total") is (metric.kind is MetricKind.COUNTER)
        assert not re.search(r"_(pct|percent|ms|minutes|hours|gib|usd)(_|$)", metric.full_name)
        assert metric.help.endswith(".")
        assert metric is exporter_metrics.BUILD_INFO or metric.labels[0] == "region"


def test_a_watch_that_only_proposes_for_a_time_is_exported_as_one_that_does_not_act(collector):
    for only_proposes, acts in ((True, "false"), (False, "true")):
        collector.record_pass(replace(a_finished_pass(), only_proposes=only_proposes))
        assert sample_values(collector, exporter_metrics.WATCH_INFO) == {("111122223333", acts): 1}


def test_a_draining_volume_is_exported_in_base_units(collector):
    # 100 GiB earn 300; 20 % are 1,080,000 credits; 3 % a minute are 2,700/s: 400 s, less the minute of lag
    collector.record_pass(a_finished_pass(a_decision_for(1, draining_to(20, 3), tags={"Name": "ci-7"})))

    key = ("vol-00000000000000001",)
    assert sample_values(collector, exporter_metrics.VOLUME_BALANCE) == {key: 0.2}
    assert sample_values(collector, exporter_metrics.VOLUME_BASELINE) == {key: 300}
    assert sample_values(collector, exporter_metrics.VOLUME_DRAIN) == {key: pytest.approx(2700)}
    assert sample_values(collector, exporter_metrics.VOLUME_TIME_TO_EMPTY) == {key: pytest.approx(340)}
    assert sample_values(collector, exporter_metrics.VOLUME_SOONEST_EMPTY) == {key: pytest.approx(340)}
    assert sample_values(collector, exporter_metrics.VOLUME_DATAPOINT_TIME) == {key: at("11:59")}
    assert sample_values(collector, exporter_metrics.WORST_DATAPOINT_AGE) == {(): 60}
    assert sample_values(collector, exporter_metrics.VOLUME_LEVEL) == {(*key, "critical", ""): 1}
    assert sample_values(collector, exporter_metrics.VOLUME_INFO) == {
        (*key, "ci-7", "gp2", "i-0a1", "propose"): 1
    }
    assert sample_values(collector, exporter_metrics.SOONEST_EMPTY) == {(): pytest.approx(340)}


def a_draining_instance():
    """An m5.large with 12 % of its I/O credits, which two gp3 volumes of 3,000 IOPS drain."""
    ceilings = tuple(
        VolumeCeiling(volume_id=f"vol-0b{number}", volume_type="gp3", iops=3_000, mib_s=125)
        for number in range(2)
    )
    return a_decision(
        assess_resource(
            an_instance(tags={"Name": "build-host"}, ceilings=ceilings),
            INSTANCE_IO,
            BucketReading(balance=sparse_balances(*(17.28 - 0.88 * index for index in range(7)))),
            now_s=at("12:00"),
            telemetry=Policy().telemetry,
        )
    )


def test_a_draining_bucket_of_an_instance_is_exported_under_the_instance(collector):
    collector.record_pass(a_finished_pass(a_draining_instance()))

    key = ("i-0a1", "instance-io")
    assert sample_values(collector, exporter_metrics.BUCKET_BALANCE) == {key: pytest.approx(0.12)}
    assert sample_values(collector, exporter_metrics.BUCKET_INFO) == {
        (*key, "build-host", "instance", "m5.large", "propose"): 1
    }
    assert sample_values(collector, exporter_metrics.BUCKET_DRAIN).keys() == {key}
    assert sample_values(collector, exporter_metrics.BUCKET_TIME_TO_EMPTY).keys() == {key}
    assert exported_volume_ids(collector) == []


def test_a_calm_volume_has_no_metrics_of_its_own_and_loses_those_it_had(collector):
    collector.record_pass(
        a_finished_pass(a_decision_for(1, draining_to(20, 3)), a_decision_for(2, balances(100, 100)))
    )
    assert exported_volume_ids(collector) == ["vol-00000000000000001"]

    collector.record_pass(a_finished_pass(a_decision_for(1, balances(*[100] * 9)), now="12:01"))

    assert exported_volume_ids(collector) == []
    assert sample_values(collector, exporter_metrics.SOONEST_EMPTY) == {}


def test_a_volume_that_was_not_due_keeps_its_metrics_and_one_that_vanished_loses_them(collector):
    collector.record_pass(a_finished_pass(a_decision_for(1, draining_to(20, 3))))

    collector.record_pass(a_finished_pass(now="12:10"))
    assert len(exported_volume_ids(collector)) == 1

    collector.record_pass(a_finished_pass(now="12:12"))
    assert exported_volume_ids(collector) == []


def test_a_volume_that_is_ignored_from_now_on_loses_its_metrics(collector):
    collector.record_pass(a_finished_pass(a_decision_for(1, draining_to(20, 3))))
    collector.record_pass(a_finished_pass(now="12:01", ignored=["vol-00000000000000001"]))
    assert exported_volume_ids(collector) == []


def test_missing_data_is_exported_with_its_reason_and_never_as_zero(collector):
    collector.record_pass(
        a_finished_pass(a_decision_for(1, balances(50, newest_starts_at="11:00")), a_decision_for(2, None))
    )

    assert set(sample_values(collector, exporter_metrics.VOLUME_LEVEL)) == {
        ("vol-00000000000000001", "unknown", "telemetry_gap"),
        ("vol-00000000000000002", "unknown", "read_failed"),
    }
    assert sample_values(collector, exporter_metrics.VOLUME_BALANCE) == {}
    assert sample_values(collector, exporter_metrics.UNREAD) == {(): 1}


def test_a_flip_in_progress_is_exported_and_a_permanent_one_is_not(collector):
    under_way = a_flip(status=FlipStatus.IN_PROGRESS, is_stuck_alerted=True)
    calm = balances(*[100] * 9)
    collector.record_pass(
        a_finished_pass(
            a_decision_for(1, calm, flip=under_way), a_decision_for(2, calm, flip=a_flip(is_permanent=True))
        )
    )

    assert sample_values(collector, exporter_metrics.VOLUME_FLIP_INFO) == {
        ("vol-00000000000000001", "changing", "out", "draining", "gp3"): 1
    }
    assert sample_values(collector, exporter_metrics.STUCK) == {(): 1}


def test_only_the_most_urgent_of_a_large_fleet_have_their_own_metrics(collector):
    low = [a_decision_for(number, balances(*[90 - number / 100] * 9)) for number in range(MAX_VOLUMES + 200)]
    collector.record_pass(a_finished_pass(*low, a_decision_for(9999, draining_to(20, 3))))

    assert len(exported_volume_ids(collector)) == MAX_VOLUMES
    assert exported_volume_ids(collector)[0] == f"vol-{9999:017x}"
    assert sample_values(collector, exporter_metrics.VOLUMES_LEFT_OUT) == {(): 201}
    assert len(collector.metric_values) < 10 * MAX_VOLUMES


def test_the_fleet_is_exported_as_the_ledger_counts_it(collector):
    levels = dict.fromkeys(Level, 0) | {Level.OK: 7, Level.CRITICAL: 2}
    fleet = FleetSummary(watched=9, in_focus=3, flipped=1, by_level=levels, lowest_balance_pct=12.5)
    hold = Hold(volume_id=None, by="anna", reason="INC-42", placed_at_s=0, until_s=at("13:00"))
    collector.record_pass(a_finished_pass(fleet=fleet, holds=[hold], undelivered=2))

    assert sample_values(collector, exporter_metrics.VOLUMES)[("critical",)] == 2
    assert sample_values(collector, exporter_metrics.VOLUMES)[("ok",)] == 7
    assert sample_values(collector, exporter_metrics.WATCHED) == {(): 9}
    assert sample_values(collector, exporter_metrics.LOWEST_BALANCE) == {(): 0.125}
    assert sample_values(collector, exporter_metrics.HOLDS) == {("everything",): 1, ("volume",): 0}
    assert sample_values(collector, exporter_metrics.ALERTS_WAITING) == {(): 2}


def test_a_fleet_that_could_not_be_listed_is_a_gap_and_unread_volumes(collector):
    fleet = FleetSummary(watched=9, in_focus=0, flipped=0, by_level=dict.fromkeys(Level, 0))
    collector.record_pass(a_finished_pass(fleet=fleet))
    collector.record_pass(
        a_finished_pass(now="12:01", fleet=fleet, unreadable_count=9, result=PassStatus.PARTIAL)
    )

    assert sample_values(collector, exporter_metrics.VOLUMES) == {}
    assert sample_values(collector, exporter_metrics.UNREAD) == {(): 9}


def test_counters_start_at_zero_and_only_rise(collector):
    assert sample_values(collector, exporter_metrics.OUTCOMES) == dict.fromkeys(
        [("flipped",), ("flipped_back",), ("refused",), ("failed",)], 0
    )
    outcomes = {
        "vol-1": Outcome(status=OutcomeStatus.FLIPPED),
        "vol-2": Outcome(status=OutcomeStatus.REFUSED),
    }
    for minute in range(3):
        collector.record_pass(
            a_finished_pass(
                now=f"12:0{minute}",
                outcomes=outcomes,
                sent=2,
                failures=["no"],
                metrics_requested=5,
                api_calls={"ec2:DescribeVolumes": 2},
            )
        )

    assert sample_values(collector, exporter_metrics.OUTCOMES)[("flipped",)] == 3
    assert sample_values(collector, exporter_metrics.ALERTS_SENT) == {(): 6}
    assert sample_values(collector, exporter_metrics.FAILURES) == {(): 3}
    assert sample_values(collector, exporter_metrics.METRICS_READ) == {(): 15}
    assert sample_values(collector, exporter_metrics.AWS_CALLS) == {("ec2:DescribeVolumes",): 6}


def test_the_heartbeat_is_the_last_pass_that_was_carried_through(collector):
    collector.record_pass(a_finished_pass())
    for minute, result in enumerate((PassStatus.FAILED, PassStatus.ELSEWHERE), start=1):
        collector.record_pass(FinishedPass(status=result, started_at_s=at(f"12:0{minute}")))

    assert sample_values(collector, exporter_metrics.LAST_PASS) == {(): at("12:00")}
    assert sample_values(collector, exporter_metrics.PASSES) == {
        ("complete",): 1, ("partial",): 0, ("failed",): 1, ("elsewhere",): 1,
    }  # fmt: skip


# -- over HTTP


@contextmanager
def a_watch(cli, *arguments):
    """A watch in its own process that exports metrics; what answers a scrape once a pass is over."""
    log = cli.directory / "watch.log"
    command = ("watch", "--metrics-port", "0", *arguments)
    with log.open("w") as text, cli.start_subprocess(*command, stdout=text, stderr=text):
        url = wait_until(lambda: ADDRESS.search(log.read_text()))[1]
        wait_until(lambda: "burstwatch_last_pass_timestamp_seconds{" in fetch(url))
        yield url


def fetch(url, *, timeout=10):
    with urlopen(url, timeout=timeout) as answer:
        return answer.read().decode()


def samples_of(text):
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_watch_exports_its_fleet_and_hostile_names_stay_labels(cli, lab):
    add_critical(lab, HOSTILE, tags={"burstwatch:mode": "observe"})
    calm = add_calm(lab, "web-1")
    with a_watch(cli) as url:
        text = fetch(url)

    result = samples_of(text)
    assert result["burstwatch_volumes", frozenset({"region": "us-east-1", "level": "ok"}.items())] == 1
    names = [dict(labels)["name"] for name, labels in result if name == "burstwatch_volume_info"]
    assert len(names) == 1
    assert names[0].startswith('x"} 1 burstwatch_volumes{level="ok"}')
    assert len(names[0]) <= 40
    assert calm not in text
    assert "process_resident_memory_bytes" in text
    assert text.count("# HELP") == text.count("# TYPE") == len(set(re.findall(r"# TYPE (\S+)", text)))


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool_accepts_the_exported_metrics(cli, lab):
    add_critical(lab, tags={"burstwatch:mode": "auto"})
    add_exhausted(lab)
    with a_watch(cli, "--act") as url:
        text = fetch(url)

    checked = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False
    )

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_every_metric_is_written_with_its_help_and_type(collector):
    flip = a_flip(status=FlipStatus.IN_PROGRESS)
    fleet = FleetSummary(
        watched=1, in_focus=1, flipped=1, by_level=dict.fromkeys(Level, 0), lowest_balance_pct=12.5
    )
    served = replace(an_assessment(draining_to(20, 3)), consumed_read_iops=1000.0, consumed_write_iops=2000.0)
    decision = replace(a_decision(served), flip=flip)
    decisions = (decision, a_draining_instance())
    collector.record_pass(a_finished_pass(*decisions, fleet=fleet, api_calls={"ec2:DescribeVolumes": 1}))
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))
        port = bound_socket.getsockname()[1]
    with metrics_server(collector, address="127.0.0.1", port=port):
        text = fetch(f"http://127.0.0.1:{port}/metrics")

    for metric in METRICS:
        assert f"# TYPE {metric.full_name} {metric.kind}\n" in text
        assert f"\n{metric.full_name}{{" in text


def test_nothing_listens_any_more_when_the_watch_is_over(cli, lab):
    add_calm(lab)
    result = cli.run("watch", "--passes", "1", "--metrics-port", "0")

    assert result.code == 0
    with pytest.raises(URLError):
        fetch(ADDRESS.search(result.err)[1])


def test_a_port_that_is_taken_is_a_usage_error_before_any_call_to_aws(cli, lab):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = cli.run("watch", "--metrics-port", port)

    assert result.code == 2
    assert result.error_lines == [f"error: port {port} at 127.0.0.1 is taken."]
    assert not lab.faults.call_counts()


@pytest.mark.parametrize("address", ["192.0.2.1", "nowhere.invalid", "not an address"])
def test_an_address_of_another_machine_is_a_usage_error(cli, lab, address, monkeypatch):
    def resolve(host, *args, **options):
        if not host[0].isdigit():
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *args, **options)

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    result = cli.run("watch", "--metrics-port", "0", "--metrics-address", address)

    assert result.code == 2
    assert result.error_lines == [f"error: --metrics-address {address!r} is not an address of this machine."]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--once", "--metrics-port", "0"], "leave out --metrics-port"),
        (["--metrics-address", "127.0.0.1"], "add --metrics-port PORT"),
        (["--metrics-port", "65536"], "Invalid value for '--metrics-port'"),
    ],
)
def test_invalid_option_combinations_are_usage_errors(cli, lab, arguments, message):
    result = cli.run("watch", *arguments)

    assert result.code == 2
    assert message in result.err


def test_beyond_loopback_it_warns_that_names_can_be_read(cli, lab):
    add_calm(lab)
    text = cli.run("watch", "--passes", "1", "--metrics-port", "0", "--metrics-address", "0.0.0.0").err
    assert "anyone who can reach this address can read the names of your volumes" in text


def test_an_error_in_the_exporter_does_not_end_the_watch(cli, lab, monkeypatch):
    def take(self, ended):
        raise LookupError("a bug")

    add_critical(lab)
    monkeypatch.setattr(FleetCollector, "record_pass", take)
    result = cli.run("watch", "--passes", "1", "--metrics-port", "0")

    assert result.code == 3
    assert result.error_lines[0].startswith("error: unexpected LookupError: a bug.")


def test_without_metrics_the_exporter_is_not_imported():
    code = (
        "import sys, burstctl.watch.command, burstctl.assess.command\n"
        "print([name for name in sys.modules if name.startswith(('prometheus_client', 'burstctl.exporter'))])"
    )
    roots = os.pathsep.join(str(ROOT / root) for root in ("lambdas", "runbooks"))
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": roots},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout.strip() == "[]"


# -- a real Prometheus


@contextmanager
def a_prometheus(directory, url):
    """Debian's own, which asks every second; what asks its HTTP API."""
    host = url.removeprefix("http://").removesuffix("/metrics")
    config = directory / "prometheus.yml"
    job = {"job_name": "burstwatch", "static_configs": [{"targets": [host]}]}
    config.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = [
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (directory / "prometheus.log").open("w") as log:
        process = subprocess.Popen([PROMETHEUS, *arguments], stdout=log, stderr=log)
        try:
            yield lambda query: query_prometheus(port, query)
        finally:
            process.terminate()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def query_prometheus(port, query):
    try:
        answer = json.loads(fetch(f"http://127.0.0.1:{port}/api/v1/query?query={quote(query)}"))
    except OSError:
        return []
    return answer["data"]["result"]


@pytest.mark.skipif(PROMETHEUS is None, reason="prometheus is not installed (Debian: prometheus)")
def test_a_real_prometheus_scrapes_it_and_answers_about_the_fleet(cli, lab):
    critical = add_critical(lab, HOSTILE)
    add_lab_volume(lab, "low", balance_pct=80)
    with a_watch(cli) as url, a_prometheus(cli.directory, url) as query:
        [up] = wait_until(lambda: query("up == 1"))
        joined = query(
            "burstwatch_volume_time_to_empty_seconds"
            " * on (region, volume_id) group_left (name) burstwatch_volume_info"
        )
        [balance] = query(f'burstwatch_volume_burst_balance_ratio{{volume_id="{critical}"}}')
        levels = query("burstwatch_volumes > 0")

    assert up["metric"]["job"] == "burstwatch"
    assert balance["value"][1] == "0.33"
    assert {item["metric"]["volume_id"]: float(item["value"][1]) for item in joined} == {critical: 600}
    assert joined[0]["metric"]["name"].startswith('x"} 1')
    assert {item["metric"]["level"]: item["value"][1] for item in levels} == {"critical": "1", "watch": "1"}

"""Whole stories of file systems and databases, tick by tick, with real boto3 before the lab.

The lab plays EFS and RDS; each story says when an alert must be out, and what people read in it.
"""

from datetime import timedelta

import pytest

from burstlab.fake_aws.faults import Fault
from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.database import LabDatabase
from burstlab.model.file_system import LabFileSystem
from burstlab.model.fleet import LabFleet, LabSettings
from burstwatch.adapters.aws.efs import EfsReader
from burstwatch.core.alerts.alert import AlertKind, format_sentences, format_title
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.policy.policy import Policy
from support.lab.lab_start import START
from support.watch_pass_setup import PAST, services_with, tick, warm_up

DRAINING, EXHAUSTED, RECOVERED = AlertKind.DRAINING, AlertKind.EXHAUSTED, AlertKind.RECOVERED
GAP = AlertKind.TELEMETRY_GAP
WATCHING = Policy.from_mapping(
    {"version": "1", "resources": {"efs": {"watch": "true"}, "rds": {"watch": "true"}}}
)

pytestmark = pytest.mark.pass_policy(WATCHING)

METERED_40 = "steady:240@256%50"  # 30 MiB/s read, of which a third counts, and 30 MiB/s written


def add_file_system(lab, **facts):
    facts = {"size_gib": 58, "starts_at": START - PAST, "tags": {"Name": "shared-home"}} | facts
    return lab.fleet.file_systems.add(LabFileSystem(**facts))


def add_database(lab, identifier="orders", **facts):
    return lab.fleet.databases.add(LabDatabase(identifier=identifier, starts_at=START - PAST, **facts))


def watch_for(shell, lab, minutes):
    """The reports of this many ticks, a minute apart."""
    reports = [tick(shell, lab, minutes=1) for _ in range(minutes)]
    return [report for report in reports if report is not None]


def until_alert(shell, lab, recorder, kind, *, within_min):
    """The minute and the alert of this kind that comes first."""
    for minute in range(1, within_min + 1):
        tick(shell, lab, minutes=1)
        for alert in recorder.alerts:
            if alert.kind is kind:
                return minute, alert
    raise AssertionError(f"no {kind} within {within_min} min, but {recorder.alert_kinds}")


def judged(reports, resource_id):
    """The newest decision about each bucket of a resource, by the name of the bucket."""
    return {
        decision.assessment.kind.name: decision
        for report in reports
        for decision in report.decisions
        if decision.assessment.resource.resource_id == resource_id
    }


def test_a_file_system_that_drains_is_announced_hours_ahead_and_what_serves_it(shell, lab, recorder):
    """58 GiB earn 2.8 MiB/s and lose 40: 30 % of 2.1 TiB are empty after 4.9 h. It was idle for a day."""
    file_system_id = add_file_system(lab, balance_pct=19, starts_at=START - timedelta(days=1))
    warm_up(lab)
    lab.fleet.file_systems.set_load(file_system_id, METERED_40)
    lab.fleet.file_systems.set_balance(file_system_id, 30)

    minute, alert = until_alert(shell, lab, recorder, DRAINING, within_min=150)

    assert alert.level is Level.WARNING
    assert alert.resource["resource_id"] == file_system_id
    assert alert.resource["bucket"] == "efs-bytes"
    assert alert.volume["volume_id"] is None
    title, text = format_title(alert), "\n".join(format_sentences(alert))
    assert title.startswith("WARNING: shared-home burst credits: empty in about")
    assert "then 2.8 MiB/s; nine idle days to refill" in text
    assert "40 MiB/s metered: 30 MiB/s read, which count one third, and 30 MiB/s written" in text
    assert "If the load of its busiest five minutes lasts: provisioned with 40 MiB/s, $223.01 a month" in text
    assert alert.action == (
        f"aws efs update-file-system --file-system-id {file_system_id} --throughput-mode provisioned"
        " --provisioned-throughput-in-mibps 40 --region us-east-1"
    )
    assert "#/file-systems/fs-" in alert.console_url
    lead_min = empty_after_min(shell, lab, file_system_id)
    assert lead_min >= 120, f"announced after {minute} min, {lead_min} min ahead"


def empty_after_min(shell, lab, file_system_id):
    """After how many more minutes the file system is empty."""
    for minutes in range(10, 600, 10):
        lab.clock.advance(600)
        if lab.fleet.file_systems.find(file_system_id).balance_bytes == 0:
            return minutes
    raise AssertionError("it never became empty")


def test_an_empty_bucket_is_polled_every_ten_minutes_and_its_end_is_reported(shell, lab, recorder):
    file_system_id = add_file_system(lab, balance_pct=0, load="steady:400@256%0")
    warm_up(lab)
    _, alert = until_alert(shell, lab, recorder, EXHAUSTED, within_min=5)
    assert format_title(alert).startswith("EXHAUSTED: shared-home is out of burst credits, throttled to 2.8")
    before = lab.faults.call_counts()["DescribeFileSystems"]
    reports = watch_for(shell, lab, 60)
    polls = sum(1 for report in reports if judged([report], file_system_id))
    assert polls in (6, 7)
    assert lab.faults.call_counts()["DescribeFileSystems"] - before <= 12 + polls, "12 sweeps, and each poll"
    assert recorder.alert_kinds == [EXHAUSTED], "the reminder of such a long state comes after twelve hours"
    lab.fleet.file_systems.set_load(file_system_id, "idle")
    lab.fleet.file_systems.set_balance(file_system_id, 50)
    until_alert(shell, lab, recorder, RECOVERED, within_min=60)


def test_a_change_of_the_mode_closes_the_alert_and_is_no_fault(shell, lab, recorder):
    file_system_id = add_file_system(lab, balance_pct=0, load="steady:400@256%0")
    warm_up(lab)
    until_alert(shell, lab, recorder, EXHAUSTED, within_min=5)
    lab.client("efs").update_file_system(FileSystemId=file_system_id, ThroughputMode="elastic")
    until_alert(shell, lab, recorder, RECOVERED, within_min=30)
    reports = watch_for(shell, lab, 60)
    assert GAP not in recorder.alert_kinds
    assert not any(report.failures for report in reports)
    assert judged(reports, file_system_id) == {}, "it is not polled in another mode"


def test_a_file_system_in_another_mode_is_a_reason_and_costs_nothing(shell, lab):
    add_file_system(lab, throughput_mode="elastic")
    warm_up(lab)
    reports = watch_for(shell, lab, 10)
    assert sum(report.metrics_requested for report in reports) == 0
    assert not any(report.needs_attention for report in reports)


def test_an_empty_file_system_has_the_credits_that_it_was_created_with(shell, lab, recorder):
    """It earns nothing, so every byte is lost permanently; without credits, 1 MiB/s is left."""
    file_system_id = add_file_system(lab, size_gib=0, balance_pct=100)
    warm_up(lab)
    reports = watch_for(shell, lab, 6)
    assert judged(reports, file_system_id)["efs-bytes"].level is Level.OK
    lab.fleet.file_systems.set_balance(file_system_id, 0)
    lab.fleet.file_systems.set_load(file_system_id, "steady:400@256%0")
    lab.clock.advance(3_600)
    _, alert = until_alert(shell, lab, recorder, EXHAUSTED, within_min=70)
    assert "throttled to 1 MiB/s; it does not refill" in "\n".join(format_sentences(alert))


def test_a_database_that_empties_in_its_nightly_batch_is_announced(shell, lab, recorder):
    """100 GiB of gp2 earn 300 IOPS; 2,500 drain 2,200 a second: empty after 40.9 min."""
    add_database(lab)
    warm_up(lab)
    watch_for(shell, lab, 10)
    assert recorder.alerts == []
    lab.fleet.databases.set_load("orders", "steady:2500@16%30")

    minute, alert = until_alert(shell, lab, recorder, DRAINING, within_min=40)

    assert minute <= 20, "more than 20 min are left"
    assert alert.resource["resource_id"] == "db:orders"
    assert alert.resource["bucket"] == "rds-io"
    text = "\n".join(format_sentences(alert))
    assert "then 300 IOPS; five idle hours to refill" in text
    assert "it served 750 reads/s and 1,750 writes/s of 16 KiB each" in text
    assert "gp3 has 3,000 IOPS and 125 MiB/s at any time, without credits" in text
    assert alert.action == (
        "aws rds modify-db-instance --db-instance-identifier orders --storage-type gp3 --apply-immediately"
        " --region us-east-1"
    )
    until_alert(shell, lab, recorder, EXHAUSTED, within_min=45)


def test_an_alert_shows_that_the_database_drains_at_this_hour_every_night(shell, lab, recorder):
    add_database(lab)
    warm_up(lab)
    for _ in range(3):  # three nights before, and this one
        lab.fleet.databases.set_load("orders", "steady:2500@16%30")
        lab.clock.advance(1_500)
        lab.fleet.databases.set_load("orders", "idle")
        lab.clock.advance(86_400 - 1_500)
    watch_for(shell, lab, 1)
    lab.fleet.databases.set_load("orders", "steady:2500@16%30")
    _, alert = until_alert(shell, lab, recorder, DRAINING, within_min=40)
    assert "The same drain at this hour on each of" in "\n".join(format_sentences(alert))


def test_the_buckets_of_the_class_are_watched_and_a_faster_storage_is_not_advised(shell, lab, recorder):
    """An m5.large sustains 3,600 IOPS; 400 GiB of gp2 serve 12,000."""
    add_database(lab, allocated_gib=400, instance_class="db.m5.large", io_pct=20, load="steady:9000@4%50")
    warm_up(lab)
    _, alert = until_alert(shell, lab, recorder, EXHAUSTED, within_min=30)
    assert alert.resource["bucket"] == "instance-io"
    text = "\n".join([format_title(alert), *format_sentences(alert)])
    assert "EBS I/O credits" in text
    assert "faster storage does not help" in text
    assert "--db-instance-class db.m5.2xlarge" in alert.action


def test_an_alert_has_the_cautions_of_the_command_that_it_proposes(shell, lab, recorder):
    add_database(lab, free_gib=2)
    warm_up(lab)
    watch_for(shell, lab, 10)
    lab.fleet.databases.set_load("orders", "steady:2500@16%30")
    _, alert = until_alert(shell, lab, recorder, DRAINING, within_min=40)
    text = "\n".join(format_sentences(alert))
    assert "Caution: 2 GiB are free" in text
    assert "AWS refuses it until the optimization ends." in text
    assert "Caution: Its status is then storage-optimization for hours" in text


def test_a_class_without_credits_comes_before_the_storage(shell, lab, recorder):
    """A t3.micro sustains 500 IOPS; 100 GiB of gp2 with credits serve 3,000."""
    add_database(lab, instance_class="db.t3.micro", io_pct=0, load="steady:2900@4%50", balance_pct=30)
    warm_up(lab)
    lab.fleet.databases.set_load("orders", "steady:490@4%50")
    tick(shell, lab, minutes=10)
    lab.fleet.databases.set_load("orders", "steady:2900@4%50")
    _, alert = until_alert(shell, lab, recorder, EXHAUSTED, within_min=30)
    assert "--db-instance-class db.t3." in alert.action
    assert "--storage-type" not in alert.action


def test_replicas_are_watched_each_with_its_own_storage(shell, lab, recorder):
    add_database(lab, "main")
    add_database(lab, "copy", replica_of="main", load="steady:3000@16%0", balance_pct=10)
    warm_up(lab)
    _, alert = until_alert(shell, lab, recorder, EXHAUSTED, within_min=15)
    assert {item.resource["resource_id"] for item in recorder.alerts} == {"db:copy"}
    assert alert.evidence["proposal"]
    assert any("read replica of main" in reason for reason in alert.evidence["proposal"])


def test_a_stopped_database_is_no_fault_and_is_watched_when_it_starts(shell, lab, recorder):
    add_database(lab, load="steady:3000@16%0")
    warm_up(lab)
    lab.fleet.databases.set_running("orders", running=False)
    watch_for(shell, lab, 60)
    recorder.alerts.clear()
    reports = watch_for(shell, lab, 60)
    assert recorder.alerts == []
    assert not any(report.needs_attention for report in reports)
    lab.fleet.databases.set_running("orders", running=True)
    reports = watch_for(shell, lab, 25)
    assert judged(reports, "db:orders")["rds-io"].assessment.unknown_reason is None


@pytest.mark.parametrize(
    "faults", [{"lag_s": 240}, {"lag_s": 30, "lag_most_s": 290}, {"double_datapoint_every": 2}], ids=str
)
def test_late_and_doubled_datapoints_neither_hide_a_drain_nor_invent_one(ledger, recorder, faults):
    fleet = LabFleet(LabClock.manual(START - PAST), LabSettings(**({"lag_s": 60} | faults)))
    with Endpoint(fleet) as lab:
        check_late_and_doubled(services_with(lab, ledger, recorder, policy=WATCHING), lab, recorder)


def check_late_and_doubled(shell, lab, recorder):
    calm = add_file_system(lab, tags={"Name": "calm"})
    add_file_system(lab, balance_pct=0, load="steady:400@256%0", tags={"Name": "full-load"})
    add_database(lab, "quiet")
    add_database(lab, "busy", load="steady:3000@16%0")
    warm_up(lab)
    reports = watch_for(shell, lab, 30)
    named = {item.resource["called"] or item.resource["resource_id"] for item in recorder.alerts}
    assert named == {"full-load", "db:busy"}
    assert not any(report.failures for report in reports)
    assert judged(reports, calm) == {} or judged(reports, calm)["efs-bytes"].level is Level.OK


@pytest.mark.parametrize(
    ("service", "denied", "other"),
    [("elasticfilesystem", "DescribeFileSystems", "db:orders"), ("rds", "DescribeDBInstances", "fs-")],
)
def test_access_denied_for_one_service_is_loud_and_leaves_the_other_alone(
    shell, lab, recorder, service, denied, other
):
    add_file_system(lab, balance_pct=0, load="steady:400@256%0")
    add_database(lab, load="steady:3000@16%0")
    warm_up(lab)
    lab.faults.add(Fault(service=service, code="AccessDeniedException", message="not authorized", status=403))
    reports = watch_for(shell, lab, 10)
    assert {alert.resource["resource_id"].startswith(other) for alert in recorder.alerts} == {True}
    failures = {failure for report in reports for failure in report.failures}
    assert failures
    assert all(denied in str(failure) for failure in failures)
    assert all(report.unreadable_count for report in reports if report.failures)


@pytest.mark.parametrize("method", ["file_systems", "file_systems_by_id"])
def test_an_internal_error_about_one_kind_hides_no_other(shell, lab, recorder, monkeypatch, method):
    add_file_system(lab, balance_pct=0, load="steady:400@256%0")
    add_database(lab, load="steady:3000@16%0")
    warm_up(lab)
    watch_for(shell, lab, 2)
    recorder.alerts.clear()

    def fail(*_, **__):
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(EfsReader, method, fail)
    lab.fleet.databases.set_load("orders", "idle")
    lab.fleet.databases.set_balance("orders", 60, "rds-io")
    reports = watch_for(shell, lab, 15)
    assert "db:orders" in {alert.resource["resource_id"] for alert in recorder.alerts}
    errors = {error for report in reports for error in report.internal_errors}
    reason = "because of an internal error: ZeroDivisionError: a mistake"
    assert errors == {f"not all file systems were evaluated {reason}"}


def test_a_class_whose_limits_cannot_be_read_leaves_the_storage_watched(shell, lab, recorder):
    add_database(lab, instance_class="db.m5.large", load="steady:3000@16%0")
    warm_up(lab)
    lab.faults.add(
        Fault(action="DescribeInstanceTypes", code="UnauthorizedOperation", message="denied", status=403)
    )
    reports = watch_for(shell, lab, 20)
    decisions = judged(reports, "db:orders")
    assert decisions["rds-io"].assessment.unknown_reason is None
    assert "rds-io" in {alert.resource["bucket"] for alert in recorder.alerts}
    assert any("DescribeInstanceTypes" in str(failure) for failure in reports[0].failures)


def test_aurora_members_of_clusters_and_other_storage_are_reasons_and_not_read(shell, lab):
    add_database(lab, "aurora", engine="aurora-postgresql", storage_type="aurora")
    add_database(lab, "member", cluster_id="c-1", storage_type="gp3", allocated_gib=400)
    add_database(lab, "modern", storage_type="gp3", allocated_gib=400)
    warm_up(lab)
    reports = watch_for(shell, lab, 10)
    assert sum(report.metrics_requested for report in reports) == 0
    assert not any(report.needs_attention or report.failures for report in reports)


def test_a_kind_that_is_not_watched_is_not_read(lab, ledger, recorder):
    add_file_system(lab, balance_pct=0)
    add_database(lab, balance_pct=0)
    warm_up(lab)
    watch_for(services_with(lab, ledger, recorder), lab, 10)
    assert not {"DescribeFileSystems", "DescribeDBInstances"} & lab.faults.call_counts().keys()


def test_a_gap_of_the_metric_is_a_fault_with_an_alert(shell, lab, recorder):
    file_system_id = add_file_system(lab)
    warm_up(lab)
    watch_for(shell, lab, 10)
    lab.fleet.file_systems.find(file_system_id).gaps.append((lab.fleet.now_s(), lab.fleet.now_s() + 86_400))
    _, alert = until_alert(shell, lab, recorder, GAP, within_min=130)
    assert alert.reading["unknown_reason"] == UnknownReason.TELEMETRY_GAP
    assert "while the file system exists" in "\n".join(format_sentences(alert))


def test_what_was_deleted_is_forgotten_and_its_alert_closed(shell, lab, recorder):
    file_system_id = add_file_system(lab, balance_pct=0, load="steady:400@256%0")
    warm_up(lab)
    until_alert(shell, lab, recorder, EXHAUSTED, within_min=5)
    lab.fleet.file_systems.remove(file_system_id)
    until_alert(shell, lab, recorder, RECOVERED, within_min=30)
    watch_for(shell, lab, 5)
    assert shell.ledger.states() == {}


def test_a_pass_lists_each_page_once_however_many_there_are(shell, lab):
    for number in range(250):
        add_file_system(lab, tags={"Name": f"home-{number}"})
        add_database(lab, f"db-{number}")
    warm_up(lab)
    lab.clock.advance(timedelta(minutes=5).total_seconds())
    report = tick(shell, lab)
    assert report.api_calls["efs:DescribeFileSystems"] == 3
    assert report.api_calls["rds:DescribeDBInstances"] == 3

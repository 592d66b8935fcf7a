"""What drained a volume: read over real HTTP from days of the lab, in its alert and in the ledger."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from burstctl.context.on_demand_pass import evaluate_fleet
from burstlab.fake_aws.faults import Fault
from burstlab.model.fleet import LabInstance
from burstlab.model.volume import LabVolume, MetricFault
from burstwatch.adapters.aws.drain_metrics import MAX_VOLUMES, METRICS_PER_VOLUME
from burstwatch.core.alerts.alert import Alert, AlertKind, format_sentences, format_title
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.policy.policy import Policy
from burstwatch.engine import evaluate_volumes
from burstwatch.engine.services import Services
from support.paths import ROOT

RUNBOOKS = ROOT / "runbooks"
BEGINS = datetime(2026, 11, 12, 0, 0, tzinfo=UTC)
NIGHT = datetime(2026, 11, 20, 2, 20, tzinfo=UTC)
"""The eighth night: the batch has been at work since two o'clock."""


NO_DIGEST = replace(Policy(), alerts=replace(Policy().alerts, digest_above=1_000))

pytestmark = [pytest.mark.begins_at(BEGINS), pytest.mark.pass_policy(NO_DIGEST)]


def advance_until(lab, moment=NIGHT):
    lab.clock.advance((moment - lab.fleet.clock.now()).total_seconds())


def run_passes(shell, lab, minutes=0):
    lab.clock.advance(60 * minutes)
    return evaluate_fleet(shell, now_s=lab.fleet.now_s())


def add_nightly(lab, **changes):
    """334 GiB earn 1,002 IOPS; at 2,500 the bucket loses 1.66 % a minute."""
    return lab.fleet.add(LabVolume(**{"size_gib": 334, "load": "nightly-batch:2@64%20"} | changes))


def test_a_nightly_batch_is_recognised(lab, shell, recorder, ledger):
    volume_id = add_nightly(lab, tags={"Name": "reports"}, device="/dev/sdf")
    advance_until(lab)
    report = run_passes(shell, lab)
    [alert] = recorder.alerts
    assert format_sentences(alert)[3:5] == [
        "The drain began at 02:00 UTC, at 100.0 %; since then it served 500 reads/s and 2,000 writes/s of"
        " 64 KiB each (80 % writes).",
        "The same drain at this hour on each of the last 7 days.",
    ]
    assert "reports is empty in about 4" in format_title(alert)
    # the balance, the operations, and then what they moved and the days
    assert report.metrics_requested == 1 + 2 + METRICS_PER_VOLUME
    assert report.api_calls["cloudwatch:GetMetricData"] == 2 + 2
    [entry] = [entry for entry in ledger.entries(volume_id) if entry.kind is EntryKind.ALERT]
    assert Alert.from_document(entry.body) == alert


def test_a_first_drain_at_this_hour_is_reported_as_such(lab, shell, recorder):
    old = lab.fleet.add(LabVolume(size_gib=100))
    advance_until(lab, NIGHT - timedelta(hours=2))
    new = lab.fleet.add(LabVolume(size_gib=100, tags={"Name": "new"}))
    lab.clock.advance(3600)
    for volume_id in (old, new):
        lab.fleet.set_load(volume_id, "steady:3000@4%100")
    advance_until(lab, NIGHT - timedelta(minutes=40))
    run_passes(shell, lab)
    reported = {alert.volume_id: " ".join(format_sentences(alert)) for alert in recorder.alerts}
    assert "No such drain at this hour on any of the last 7 days." in reported[old]
    assert "served 3,000 reads/s of 4 KiB and no writes." in reported[new]
    assert "at this hour" not in reported[new]


def test_a_reminder_reads_nothing_more(lab, shell, recorder):
    add_nightly(lab)
    advance_until(lab)
    run_passes(shell, lab)
    repeated = run_passes(shell, lab)
    assert len(recorder.alerts) == 1
    assert repeated.metrics_requested == 1 + 2
    soon = replace(shell.policy.alerts, remind_every=timedelta(minutes=5))
    reminded = run_passes(replace(shell, policy=replace(shell.policy, alerts=soon)), lab, 5)
    assert [alert.is_reminder for alert in recorder.alerts] == [False, True]
    assert reminded.metrics_requested == 1 + 2
    assert "at this hour" not in " ".join(format_sentences(recorder.alerts[-1]))


@pytest.mark.parametrize("count", [1, 30, MAX_VOLUMES + 5])
def test_many_drains_take_only_two_more_calls(lab, shell, recorder, count):
    for _ in range(count):
        lab.fleet.add(LabVolume(size_gib=100, balance_pct=50, load="steady:3000"))
    advance_until(lab, BEGINS + timedelta(minutes=10))
    report = run_passes(shell, lab)
    assert len(recorder.alerts) == count
    assert report.api_calls["cloudwatch:GetMetricData"] == 2 + 2
    assert report.metrics_requested == count * 3 + min(count, MAX_VOLUMES) * METRICS_PER_VOLUME
    unread = [alert for alert in recorder.alerts if alert.evidence["drain"]["not_read"]]
    assert len(unread) == max(0, count - MAX_VOLUMES)
    assert all("more than 40 volumes at once" in format_sentences(alert)[-2] for alert in unread)
    assert not report.failures


@pytest.mark.parametrize(
    ("fault", "reason", "is_retried"),
    [
        (Fault(action="GetMetricData", kind="throttle", every=3, times=1), "Throttling", False),
        (Fault(action="GetMetricData", kind="reset", every=3, times=1), "ConnectionClosedError", False),
        (Fault(action="GetMetricData", kind="timeout", every=3, times=1), "ReadTimeoutError", False),
        (Fault(action="GetMetricData", code="AccessDenied", every=3, times=1), "AccessDenied", True),
        (Fault(action="GetMetricData", kind="throttle", every=4, times=1), "Throttling", True),
    ],
    ids=lambda value: f"{value.kind}-{value.every}" if isinstance(value, Fault) else None,
)
def test_a_read_that_fails_neither_holds_up_nor_loses_the_alert(
    lab, shell, recorder, fault, reason, is_retried
):
    """The first two calls are for the balance and the operations; nothing is asked twice of who is silent."""
    add_nightly(lab)
    advance_until(lab)
    lab.faults.add(fault)
    report = run_passes(shell, lab)
    [alert] = recorder.alerts
    assert f"What drained it was not read in full: cloudwatch:GetMetricData: {reason}." in format_sentences(
        alert
    )
    assert format_sentences(alert)[3].startswith("The drain began at 02:00 UTC, at 100.0 %")
    assert report.api_calls["cloudwatch:GetMetricData"] == (4 if is_retried else 3)
    assert [reason in failure for failure in report.failures] == [True]


def test_one_volume_that_cannot_be_read_takes_nothing_from_another(lab, shell, recorder):
    torn, whole = add_nightly(lab), add_nightly(lab)
    advance_until(lab)
    run_passes(shell, lab)
    first = {alert.volume_id: alert for alert in recorder.alerts}
    lab.fleet.set_metric_fault(torn, MetricFault(status_code="PartialData"))
    report = run_passes(shell, lab, 28)
    second = {alert.volume_id: alert for alert in recorder.alerts[2:]}
    assert all(alert.evidence["drain"]["days_alike"] == 7 for alert in first.values())
    assert second[whole].evidence["drain"]["days_alike"] == 7
    assert torn not in second
    assert report.unread


def test_an_internal_error_in_it_is_reported_and_the_alert_goes_out(lab, shell, recorder, monkeypatch):
    add_nightly(lab)
    advance_until(lab)

    def mistake(*_args, **_kwargs):
        raise ZeroDivisionError("of nothing")

    monkeypatch.setattr(evaluate_volumes, "describe_drain_cause", mistake)
    report = run_passes(shell, lab)
    assert [alert.kind for alert in recorder.alerts] == [AlertKind.DRAINING]
    assert report.internal_errors == [
        "what drained 1 volume was not read because of an internal error: ZeroDivisionError: of nothing"
    ]


def test_a_pass_that_was_slow_already_reads_no_more(lab, shell, recorder, monkeypatch):
    """Its function is ended after a while, and its tick can be claimed again after 50 seconds."""
    add_nightly(lab)
    advance_until(lab)
    elapsed_s = iter(range(0, 10_000, 31))
    monkeypatch.setattr(
        Services, "build_collector", _with_clock(Services.build_collector, lambda: next(elapsed_s))
    )
    report = run_passes(shell, lab)
    [alert] = recorder.alerts
    assert format_sentences(alert)[3] == "The drain began at 02:00 UTC, at 100.0 %."
    assert "What drained it was not read in full: this pass took too long for it." in format_sentences(alert)
    assert report.api_calls["cloudwatch:GetMetricData"] == 2


def _with_clock(known, monotonic):
    return lambda shell, now_s: replace(known(shell, now_s), monotonic=monotonic)


def test_an_instance_with_a_name_tag_is_called_by_it(lab, shell, recorder):
    lab.fleet.add_instance(
        LabInstance(instance_id="i-0000000000000003", launched_at=BEGINS, tags={"Name": "build-3"})
    )
    volume_id = lab.fleet.add(
        LabVolume(
            size_gib=100,
            load="steady:50",
            tags={"Name": "ci-7"},
            instance_id="i-0000000000000003",
            device="/dev/sdf",
        )
    )
    advance_until(lab, BEGINS + timedelta(hours=2))
    lab.fleet.hide_metrics(volume_id, from_at=BEGINS + timedelta(hours=1), to_at=NIGHT, only_balance=True)
    report = run_passes(shell, lab)
    [alert] = recorder.alerts
    assert format_title(alert) == ("UNKNOWN: ci-7 has no burst balance to read (us-east-1)")
    assert alert.volume["instance_name"] == "build-3"
    assert report.to_document()["volumes"][0]["instance_name"] == "build-3"
    assert report.api_calls["ec2:DescribeInstances"] == 1

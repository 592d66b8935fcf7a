"""Passes over instances: what is read, decided and sent, with AWS played by values."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from burstctl.context.on_demand_pass import assess_volumes, evaluate_fleet
from burstwatch.core.alerts.alert import AlertKind, format_sentences, format_title
from burstwatch.core.assessment.assess import UnknownReason
from burstwatch.core.assessment.severity import Level
from burstwatch.core.policy.policy import Mode, Policy
from burstwatch.core.watch.polling.due_volumes import due_in_focus
from burstwatch.engine.tick_pass import run_tick
from support.aws.played_aws import DENIED, FAMILY, START_S, make_services
from support.builders.core_values import M5_LARGE, a_volume, an_instance


def tick(services, aws, minutes=1):
    reports = []
    for _ in range(minutes):
        aws.now_s += 60
        reports.append(run_tick(services, tick_at_s=aws.now_s, now_s=aws.now_s))
    return [report for report in reports if report is not None]


def sweep(services, aws, hours):
    """Only the ticks that sweep, every five minutes: with nothing in focus, the others have nothing to do."""
    for _ in range(hours * 12):
        tick_at_s = aws.now_s = aws.now_s + 300
        run_tick(services, tick_at_s=tick_at_s, now_s=tick_at_s)
        assert due_in_focus(services.ledger.states(), tick_at_s + 240) == set()


def constant(pct):
    return lambda _at_s: pct


def falling(per_minute, from_pct=100.0, since_s=START_S):
    return lambda at_s: max(0.0, from_pct - max(0, at_s - since_s) / 60 * per_minute)


def calm(aws, instance_id="i-0a1"):
    aws.balances[instance_id, "EBSIOBalance%"] = constant(100.0)
    aws.balances[instance_id, "EBSByteBalance%"] = constant(100.0)


def drain_after_calm(aws, watch, recorder):
    """It loses half a per cent a minute until it is empty; when that began."""
    calm(aws)
    tick(watch, aws, 20)
    assert recorder.alerts == []
    drains_from_s = aws.now_s
    aws.balances["i-0a1", "EBSIOBalance%"] = falling(0.5, since_s=drains_from_s)
    aws.sums = {"EBSReadOps": constant(300 * 1_000), "EBSWriteOps": constant(300 * 4_873)}
    tick(watch, aws, 240)
    return drains_from_s


def test_a_draining_instance_is_announced_in_rising_order_and_names_its_bucket(aws, watch, recorder, ledger):
    aws.add()
    drains_from_s = drain_after_calm(aws, watch, recorder)
    assert [(alert.kind, alert.level) for alert in recorder.alerts if not alert.is_reminder] == [
        (AlertKind.DRAINING, Level.WARNING),
        (AlertKind.DRAINING, Level.CRITICAL),
        (AlertKind.EXHAUSTED, Level.EXHAUSTED),
    ]
    first = recorder.alerts[0]
    assert (first.volume_id, first.resource_id) == ("i-0a1#instance-io", "i-0a1")
    assert first.to_document()["volume"] is None
    assert first.resource["bucket"] == "instance-io"
    # 27.27 million operations at 0.5 % a minute: empty 200 min after the drain began
    assert drains_from_s + 200 * 60 - first.at_s >= 30 * 60
    assert set(ledger.states()) == {"i-0a1#instance-io"}
    assert {entry.kind for entry in ledger.entries("i-0a1#instance-io")} >= {"alert", "level_changed"}


def test_the_alert_reports_which_limit_applies_and_which_types_help(aws, watch, recorder):
    aws.add(tags={"Name": "web-1"})
    calm(aws)
    tick(watch, aws, 10)
    aws.balances["i-0a1", "EBSIOBalance%"] = falling(0.5, since_s=aws.now_s)
    # 5,873 IOPS lose 2,273 a second: 0.5 % a minute of 27.27 million
    aws.sums = {
        "EBSReadOps": constant(300 * 1_000),
        "EBSWriteOps": constant(300 * 4_873),
        "InstanceEBSIOPSExceededCheck": constant(0.0),
    }
    tick(watch, aws, 220)
    warning, exhausted = recorder.alerts[0], recorder.alerts[-1]
    assert format_title(warning).startswith("WARNING: web-1 EBS I/O credits: empty in about")
    assert format_title(exhausted).endswith(
        "web-1 is out of EBS I/O credits, throttled to 3,600 IOPS (us-east-1)"
    )
    sentences = format_sentences(warning)
    assert any(sentence.startswith("Its EBS I/O credits: ") for sentence in sentences)
    assert "baseline 3,600 IOPS (m5.large)." in " ".join(sentences)
    assert (
        "Its 2 volumes serve 6,000 IOPS at most, more than the 3,600 IOPS that m5.large sustains."
        in sentences
    )
    assert any("has not exceeded the limit of the instance in IOPS" in sentence for sentence in sentences)
    assert any("1,000 reads/s" in sentence and "4,873 writes/s" in sentence for sentence in sentences)
    assert warning.evidence["capacity"] == 27_270_000
    assert warning.evidence["observed_capacity"] == pytest.approx(27_270_000, rel=0.02)
    assert warning.action.startswith("aws ec2 stop-instances --region us-east-1 --instance-ids i-0a1 && ")
    assert "--instance-type Value=m5.xlarge" in warning.action
    assert any("m5.xlarge is the smallest of its family that sustains that" in s for s in sentences)


def test_a_bucket_that_cannot_drain_is_not_read_and_its_proof_is_kept(aws, watch):
    aws.add(volumes=1)
    calm(aws)
    tick(watch, aws, 30)
    assert aws.read_metrics["EBSIOBalance%"] == 0
    assert aws.read_metrics["EBSByteBalance%"] > 0
    report = assess_volumes(watch, now_s=aws.now_s)
    by_bucket = {decision.assessment.kind.name: decision.assessment for decision in report.decisions}
    proven = by_bucket["instance-io"]
    assert proven.unknown_reason is UnknownReason.NEVER_EMPTY
    assert proven.unknown_because == (
        "its volume serves 3,000 IOPS at most, no more than the 3,600 IOPS that m5.large sustains"
    )
    (document,) = report.to_document()["instances"]
    assert [bucket["cannot_drain"] for bucket in document["buckets"]] == [True, False]


def test_an_instance_costs_at_most_18_cents_a_month_and_nothing_if_it_cannot_drain(aws, watch):
    aws.add()
    calm(aws)
    tick(watch, aws, 60)  # what is new is in focus for a while
    aws.read_metrics.clear()
    tick(watch, aws, 24 * 60)
    metrics = sum(aws.read_metrics.values())
    assert 0 < metrics * 30 * 0.01 / 1_000 <= 0.18
    aws.limits = {"m5.large": FAMILY["m5.2xlarge"]}
    tick(watch, aws, 5)
    aws.read_metrics.clear()
    sweep(watch, aws, 24)
    assert sum(aws.read_metrics.values()) == 0


def in_mode(watch, mode):
    return replace(watch, policy=replace(watch.policy, mode=replace(watch.policy.mode, default=mode)))


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.PROPOSE])
def test_an_instance_that_stays_empty_costs_at_most_18_cents_a_month_too(aws, watch, mode):
    """With the load and the checks for each reminder; nothing else is news until it recovers."""
    aws.add()
    calm(aws)
    tick(watch, aws, 20)
    for metric in ("EBSIOBalance%", "EBSByteBalance%"):
        aws.balances["i-0a1", metric] = falling(3.0, since_s=aws.now_s)
    aws.sums = {"EBSReadOps": constant(300 * 1_000), "EBSWriteOps": constant(300 * 4_873)}
    tick(in_mode(watch, mode), aws, 120)
    aws.read_metrics.clear()
    tick(in_mode(watch, mode), aws, 24 * 60)
    assert aws.read_metrics["EBSIOBalance%"] == 24 * 6
    assert sum(aws.read_metrics.values()) * 30 * 0.01 / 1_000 <= 0.18


def add_empty_volume(aws):
    aws.volumes_of_region.append(a_volume(volume_id="vol-0e", instance_id="i-0a1"))
    aws.balances["vol-0e", "BurstBalance"] = constant(0.0)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.PROPOSE])
def test_the_balances_of_an_instance_are_not_read_by_the_minute_for_an_empty_volume(
    aws, watch, recorder, mode
):
    """They come every five minutes, and matter for its alerts only, as the volume is not flipped."""
    aws.add()
    calm(aws)
    add_empty_volume(aws)
    tick(in_mode(watch, mode), aws, 120)
    recorder.alerts.clear()
    aws.read_metrics.clear()
    tick(in_mode(watch, mode), aws, 12 * 60)
    assert aws.read_metrics["BurstBalance"] == 12 * 60
    assert aws.read_metrics["EBSIOBalance%"] <= 12 * 12 + len(recorder.alerts)


def test_an_alert_about_a_critical_tag_does_not_recommend_a_flip_that_cannot_help(aws, watch, recorder):
    """It comes when no alert about the level is due."""
    aws.add()
    add_empty_volume(aws)
    for metric in ("EBSIOBalance%", "EBSByteBalance%"):
        aws.balances["i-0a1", metric] = constant(0.0)
    aws.sums = {"EBSReadOps": constant(300 * 1_000), "EBSWriteOps": constant(300 * 2_600)}
    tick(watch, aws, 40)
    recorder.alerts.clear()
    aws.volumes_of_region[-1] = replace(aws.volumes_of_region[-1], tags={"burstwatch:critical": "true"})
    tick(watch, aws, 12)
    [alert] = [alert for alert in recorder.alerts if alert.kind is AlertKind.CRITICAL_ON_BURST]
    assert alert.action.startswith("instance i-0a1, not the volume, is the bottleneck")


def test_an_instance_whose_volumes_are_not_known_is_watched_within_the_budget(aws, watch):
    """Bounded by its type alone, a full bucket lasts 30 minutes: a shorter lead, but not a higher bill."""
    aws.add(volumes=3)
    aws.volumes_of_region = []
    calm(aws)
    tick(watch, aws, 60)
    aws.read_metrics.clear()
    sweep(watch, aws, 24)
    assert sum(aws.read_metrics.values()) * 30 * 0.01 / 1_000 <= 0.18
    decision = next(iter(assess_volumes(watch, now_s=aws.now_s).decisions))
    assert decision.act_lead_s == 12 * 60


def test_without_the_setting_nothing_of_instances_is_requested(aws, ledger, recorder):
    aws.add()
    aws.listing_error = DENIED
    services = make_services(aws, ledger, recorder, Policy())
    (report, *_) = tick(services, aws, 10)
    assert report.failures == []
    assert aws.volume_filters[0] == {"volume-type": ["gp2"]}


def test_the_volumes_of_every_type_are_listed_once_for_both_kinds(aws, watch):
    aws.add()
    aws.volumes_of_region.append(a_volume(volume_id="vol-gp2"))
    aws.balances["vol-gp2", "BurstBalance"] = constant(100.0)
    calm(aws)
    report = evaluate_fleet(watch, now_s=aws.now_s)
    assert aws.volume_filters == [{}]
    totals = report.to_document()["totals"]
    assert (totals["volumes"], totals["resources"], totals["by_level"]) == (1, 2, {"ok": 2})


def test_instances_whose_limits_cannot_be_read_are_unread_and_one_failure(aws, watch, recorder):
    for number in range(20):
        aws.add(f"i-{number:02x}")
        calm(aws, f"i-{number:02x}")
    aws.types_error = DENIED
    later = [report for report in tick(watch, aws, 6) if report.decisions]
    for report in (assess_volumes(watch, now_s=aws.now_s), *later):
        assert len(report.unread) == 40
        assert len(report.to_document()["instances"]) == 20
        assert (len(report.failures), "denied" in report.failures[0]) == (1, True)
    assert len(later) > 1
    assert (aws.read_metrics["EBSIOBalance%"], recorder.alerts) == (0, [])
    aws.types_error = None
    tick(watch, aws, 6)
    assert aws.read_metrics["EBSIOBalance%"] == 20


def test_access_denied_for_instances_is_one_failure_and_volumes_are_watched(aws, watch, recorder):
    for number in range(20):
        aws.add(f"i-{number:02x}")
    aws.volumes_of_region.append(a_volume(volume_id="vol-gp2"))
    aws.balances["vol-gp2", "BurstBalance"] = constant(100.0)
    aws.listing_error = DENIED
    report = tick(watch, aws)[-1]
    assert [decision.volume_id for decision in report.decisions] == ["vol-gp2"]
    assert len(report.failures) == 1
    assert "denied" in report.failures[0]
    assert report.unreadable_count == 1
    assert recorder.alerts == []


def test_denied_metrics_are_unread_and_other_kinds_are_not_affected(aws, watch):
    aws.add()
    calm(aws)
    aws.unread_metrics = {"EBSIOBalance%", "EBSByteBalance%"}
    aws.volumes_of_region.append(a_volume(volume_id="vol-gp2"))
    aws.balances["vol-gp2", "BurstBalance"] = constant(100.0)
    report = tick(watch, aws)[-1]
    assert {decision.volume_id: decision.level for decision in report.decisions} == {
        "vol-gp2": Level.OK,
        "i-0a1#instance-io": Level.UNKNOWN,
        "i-0a1#instance-throughput": Level.UNKNOWN,
    }
    assert len(report.unread) == 2


def reasons(report):
    return {
        decision.assessment.kind.name: decision.assessment.unknown_reason for decision in report.decisions
    }


def test_an_unknown_type_that_publishes_no_balance_has_no_bucket_and_no_alert(aws, watch, recorder):
    aws.add(instance_type="z9.huge")  # nor a companion, as of a type without Nitro
    report = evaluate_fleet(watch, now_s=aws.now_s)
    assert set(reasons(report).values()) == {UnknownReason.NO_SUCH_BUCKET}
    assert {decision.assessment.unknown_because for decision in report.decisions} == {
        f"EC2 shows no EBS limits of z9.huge, and CloudWatch has no {metric} of it"
        for metric in ("EBSIOBalance%", "EBSByteBalance%")
    }
    tick(watch, aws, 60)
    sweep(watch, aws, 4 * 24 - 1)
    assert recorder.alerts == []
    aws.read_metrics.clear()
    sweep(watch, aws, 24)
    assert aws.read_metrics["EBSIOBalance%"] == 1


def test_the_balance_of_an_unknown_type_is_judged_by_what_a_full_bucket_lasts_at_least(aws, watch, recorder):
    aws.add(instance_type="z9.huge")
    drains_from_s = drain_after_calm(aws, watch, recorder)
    alerts = [alert for alert in recorder.alerts if not alert.is_reminder]
    assert [alert.level for alert in alerts] == [Level.WARNING, Level.CRITICAL, Level.EXHAUSTED]
    warning, exhausted = alerts[0], alerts[-1]
    assert drains_from_s + 200 * 60 - warning.at_s >= 30 * 60
    text = " ".join(format_sentences(warning))
    assert (
        "EC2 shows no EBS limits of z9.huge: its balance is judged by AWS's rule that a full bucket lasts"
        " 30 min at least." in text
    )
    assert "IOPS" not in text
    assert "operations" not in text
    assert warning.action.startswith("reduce its I/O, or move it to an instance type with")
    assert "throttled to its baseline, which is not known" in format_title(exhausted)
    [bucket] = [item for item in describe_buckets(watch, aws) if item["bucket"] == "instance-io"]
    unknown = ("capacity", "refill_per_s", "highest_drain_per_s", "drain_per_s", "observed_capacity")
    assert bucket["level"] == "exhausted"
    assert {bucket[name] for name in unknown} == {None}


def describe_buckets(watch, aws):
    return assess_volumes(watch, now_s=aws.now_s).to_document()["instances"][0]["buckets"]


def first_alert_at_s(aws, watch, recorder, level, hours=26):
    """When the first alert of this level about the I/O bucket is sent; None if none is."""
    for _ in range(hours * 60):
        tick(watch, aws)
        levels = {alert.level for alert in recorder.alerts if alert.resource["bucket"] == "instance-io"}
        if level in levels:
            return aws.now_s
    return None


def test_a_calm_balance_that_is_missing_for_a_while_is_a_gap_and_its_drain_is_noticed(aws, watch, recorder):
    aws.add()
    calm(aws)
    aws.sums = {"EBSReadOps": constant(300 * 500), "EBSWriteOps": constant(300 * 500)}
    tick(watch, aws, 120)
    gap_s = range(aws.now_s + 1, aws.now_s + 46 * 60)
    drains = falling(0.5, since_s=gap_s[-1] + 10 * 60)
    aws.balances["i-0a1", "EBSIOBalance%"] = lambda at_s: None if at_s in gap_s else drains(at_s)
    warned_at_s = first_alert_at_s(aws, watch, recorder, Level.WARNING)
    assert gap_s[-1] + 210 * 60 - warned_at_s >= 30 * 60  # empty 210 min after the gap
    kinds = [alert.kind for alert in recorder.alerts]
    assert kinds == [AlertKind.TELEMETRY_GAP, AlertKind.RECOVERED, AlertKind.DRAINING]


def test_a_gap_under_detailed_monitoring_is_no_fault_and_the_drain_after_it_is_noticed(aws, watch, recorder):
    """AWS does not document that detailed monitoring ends the balance: it may come all the time."""
    aws.add(has_detailed_monitoring=True)
    calm(aws)
    tick(watch, aws, 120)
    gap_s = range(aws.now_s + 1, aws.now_s + 46 * 60)
    drains = falling(0.5, since_s=gap_s[-1] + 10 * 60)
    aws.balances["i-0a1", "EBSIOBalance%"] = lambda at_s: None if at_s in gap_s else drains(at_s)
    warned_at_s = first_alert_at_s(aws, watch, recorder, Level.WARNING)
    assert gap_s[-1] + 210 * 60 - warned_at_s >= 30 * 60
    assert [alert.kind for alert in recorder.alerts] == [AlertKind.DRAINING]


def test_a_new_instance_whose_balance_begins_late_is_watched_without_an_alert(aws, watch, recorder):
    aws.add()
    calm(aws)
    aws.sums = {"EBSReadOps": constant(300 * 500), "EBSWriteOps": constant(300 * 500)}
    tick(watch, aws, 30)
    launched_at_s = aws.now_s
    aws.add("i-0b2", launched_at=datetime.fromtimestamp(launched_at_s, UTC))
    drains = falling(0.5, since_s=launched_at_s + 60 * 60)
    begins_at_s = launched_at_s + 20 * 60
    aws.balances["i-0b2", "EBSByteBalance%"] = lambda at_s: 100.0 if at_s > launched_at_s + 300 else None
    aws.balances["i-0b2", "EBSIOBalance%"] = lambda at_s: drains(at_s) if at_s > begins_at_s else None
    warned_at_s = first_alert_at_s(aws, watch, recorder, Level.WARNING)
    assert launched_at_s + 260 * 60 - warned_at_s >= 30 * 60  # empty 200 min after the drain began
    assert [alert.kind for alert in recorder.alerts] == [AlertKind.DRAINING]


def test_a_balance_that_was_never_published_is_read_once_a_day_after_three_days(aws, watch, recorder):
    """EC2 shows that m5.large bursts: until then it is read as often as any calm bucket, without an alert."""
    aws.add()
    aws.balances["i-0a1", "EBSReadOps"] = constant(1.0)
    tick(watch, aws, 60)
    assert set(reasons(assess_volumes(watch, now_s=aws.now_s)).values()) == {UnknownReason.NO_SUCH_BUCKET}
    aws.read_metrics.clear()
    sweep(watch, aws, 24)
    assert sum(aws.read_metrics.values()) * 30 * 0.01 / 1_000 <= 0.18
    assert aws.read_metrics["EBSReadOps"] == 0
    sweep(watch, aws, 49)
    aws.read_metrics.clear()
    sweep(watch, aws, 24)
    assert aws.read_metrics["EBSIOBalance%"] == 1
    assert recorder.alerts == []


def test_a_failed_read_does_not_make_a_balance_that_was_never_published_a_gap(aws, watch, recorder):
    aws.add()
    aws.balances["i-0a1", "EBSReadOps"] = constant(1.0)
    sweep(watch, aws, 24)
    aws.unread_metrics = {"EBSIOBalance%", "EBSByteBalance%"}
    tick(watch, aws, 20)
    assert set(reasons(assess_volumes(watch, now_s=aws.now_s)).values()) == {UnknownReason.READ_FAILED}
    aws.unread_metrics = set()
    sweep(watch, aws, 24)
    assert set(reasons(assess_volumes(watch, now_s=aws.now_s)).values()) == {UnknownReason.NO_SUCH_BUCKET}
    assert recorder.alerts == []


def test_a_full_balance_that_stops_is_a_gap_though_nothing_is_remembered_of_it(aws, watch, recorder, ledger):
    aws.add()
    calm(aws)
    aws.balances["i-0a1", "EBSReadOps"] = constant(1.0)
    tick(watch, aws, 60)
    assert ledger.states() == {}
    stopped_at_s = aws.now_s
    aws.balances["i-0a1", "EBSIOBalance%"] = lambda at_s: None if at_s > stopped_at_s else 100.0
    tick(watch, aws, 90)
    assert [alert.kind for alert in recorder.alerts] == [AlertKind.TELEMETRY_GAP]


def test_a_type_that_sustains_its_maximum_is_never_read(aws, watch, recorder):
    aws.limits["m5.large"] = replace(
        M5_LARGE, baseline_iops=18_750, baseline_throughput_mib_s=M5_LARGE.max_throughput_mib_s
    )
    aws.add(volumes=9)
    sweep(watch, aws, 24)
    assert set(reasons(assess_volumes(watch, now_s=aws.now_s)).values()) == {UnknownReason.NO_SUCH_BUCKET}
    assert (sum(aws.read_metrics.values()), recorder.alerts, watch.ledger.states()) == (0, [], {})


def test_a_missing_metric_under_detailed_monitoring_is_no_fault_and_is_never_full(aws, watch, recorder):
    aws.add(has_detailed_monitoring=True)
    tick(watch, aws, 60)
    report = assess_volumes(watch, now_s=aws.now_s)
    assert set(reasons(report).values()) == {UnknownReason.DETAILED_MONITORING}
    assert {decision.level for decision in report.decisions} == {Level.UNKNOWN}
    assert recorder.alerts == []


def test_metrics_that_stop_are_a_gap_with_an_alert(aws, watch, recorder):
    aws.add()
    calm(aws)
    aws.balances["i-0a1", "EBSReadOps"] = constant(1.0)
    aws.balances["i-0a1", "EBSIOBalance%"] = falling(0.2, from_pct=90.0)
    tick(watch, aws, 30)
    aws.balances["i-0a1", "EBSIOBalance%"] = constant(None)
    tick(watch, aws, 60)
    assert [alert.kind for alert in recorder.alerts] == [AlertKind.TELEMETRY_GAP]


def test_a_stopped_instance_closes_its_alert_and_is_read_again_when_it_runs(aws, watch, recorder, ledger):
    aws.add()
    calm(aws)
    aws.balances["i-0a1", "EBSIOBalance%"] = falling(0.5, since_s=aws.now_s)
    tick(watch, aws, 150)
    assert recorder.alerts[-1].kind is AlertKind.DRAINING
    running = aws.instances[0]
    aws.instances = [replace(running, state="stopped")]
    tick(watch, aws, 10)
    assert recorder.alerts[-1].kind is AlertKind.RECOVERED
    assert ledger.states() == {}
    restarted_at = datetime.fromtimestamp(aws.now_s, UTC)
    aws.instances = [replace(running, instance_type="m5.xlarge", launched_at=restarted_at)]
    aws.read_metrics.clear()
    tick(watch, aws, 6)
    assert aws.read_metrics["EBSByteBalance%"] >= 1


def test_a_terminated_instance_is_forgotten(aws, watch, recorder, ledger):
    aws.add()
    calm(aws)
    aws.balances["i-0a1", "EBSIOBalance%"] = falling(0.5, since_s=aws.now_s)
    tick(watch, aws, 150)
    aws.instances = []
    tick(watch, aws, 10)
    assert recorder.alerts[-1].kind is AlertKind.RECOVERED
    assert ledger.states() == {}


def test_a_kind_that_is_disabled_again_is_forgotten(aws, watch, ledger, recorder):
    aws.add()
    calm(aws)
    aws.balances["i-0a1", "EBSIOBalance%"] = falling(0.5, since_s=aws.now_s)
    tick(watch, aws, 150)
    assert ledger.states()
    tick(make_services(aws, ledger, recorder, Policy()), aws, 10)
    assert ledger.states() == {}


def test_an_ignored_instance_is_not_judged(aws, watch):
    aws.add(tags={"burstwatch:ignore": "true"})
    calm(aws)
    report = evaluate_fleet(watch, now_s=aws.now_s)
    assert (report.decisions, report.ignored) == ([], ["i-0a1"])


def test_sixty_volumes_and_a_shared_one_count_for_every_instance_that_has_them(aws, watch):
    aws.add(volumes=60)
    shared = a_volume(
        volume_id="vol-shared", volume_type="io2", provisioned_iops=60_000, multi_attach_enabled=True
    )
    aws.volumes_of_region.append(shared)
    for number in (1, 2):
        aws.instances.append(
            an_instance(instance_id=f"i-{number}", volume_ids=("vol-shared",), limits=None, ceilings=None)
        )
    calm(aws)
    report = assess_volumes(watch, now_s=aws.now_s)
    limits = {d.assessment.resource.instance_id: d.assessment.resource.volumes_iops for d in report.decisions}
    assert limits == {"i-0a1": 180_000, "i-1": 60_000, "i-2": 60_000}


def test_a_jump_to_full_is_recognised_as_a_reset(aws, watch):
    aws.add()
    calm(aws)
    reset_at_s = START_S + 7_200
    before = falling(0.4, since_s=START_S)
    aws.balances["i-0a1", "EBSIOBalance%"] = lambda at_s: before(at_s) if at_s < reset_at_s else 100.0
    aws.now_s = reset_at_s + 1_500
    report = assess_volumes(watch, ["i-0a1"], now_s=aws.now_s)
    assessment = next(d.assessment for d in report.decisions if d.assessment.kind.name == "instance-io")
    assert assessment.reset_at_s == reset_at_s - 300
    assert assessment.forecast.time_to_empty_s is None


def test_an_instance_that_changes_its_type_between_two_sweeps_is_judged_by_the_new_limits(
    aws, watch, recorder, ledger
):
    aws.add()
    calm(aws)
    aws.balances["i-0a1", "EBSIOBalance%"] = falling(0.5, since_s=aws.now_s)
    tick(watch, aws, 150)
    assert recorder.alerts[-1].kind is AlertKind.DRAINING
    restarted_at = datetime.fromtimestamp(aws.now_s, UTC)
    aws.instances = [replace(aws.instances[0], instance_type="m5.2xlarge", launched_at=restarted_at)]
    aws.read_metrics.clear()
    tick(watch, aws, 10)
    # m5.2xlarge sustains 12,000 IOPS and 274 MiB/s, its two volumes serve 6,000 and 250
    assert recorder.alerts[-1].kind is AlertKind.RECOVERED
    assert ledger.states() == {}
    assert aws.read_metrics["EBSIOBalance%"] == 0


def test_a_drain_from_before_a_change_of_type_does_not_make_it_exhausted(aws, watch, recorder):
    aws.limits["m5.large"] = replace(FAMILY["m5.large"], max_iops=6_000, baseline_iops=3_000)
    aws.limits["m5.medium"] = replace(FAMILY["m5.large"], max_iops=6_000, baseline_iops=3_600)
    aws.add()
    calm(aws)
    drains = falling(0.5, since_s=aws.now_s)
    aws.balances["i-0a1", "EBSIOBalance%"] = drains
    tick(watch, aws, 185)
    assert recorder.alerts[-1].level is Level.CRITICAL
    changed_at_s = aws.now_s
    aws.balances["i-0a1", "EBSIOBalance%"] = lambda at_s: drains(at_s) if at_s <= changed_at_s else 100.0
    aws.instances = [
        replace(
            aws.instances[0],
            instance_type="m5.medium",
            launched_at=datetime.fromtimestamp(changed_at_s, UTC),
        )
    ]
    tick(watch, aws, 30)
    assert recorder.alerts[-1].kind is AlertKind.RECOVERED
    assert not any(alert.level is Level.EXHAUSTED for alert in recorder.alerts)


def test_a_drain_with_holes_in_its_metric_is_announced_in_time(aws, watch, recorder):
    aws.add()
    calm(aws)
    tick(watch, aws, 20)
    drains_from_s = aws.now_s
    drains = falling(0.5, since_s=drains_from_s)
    # of four datapoints, two come
    aws.balances["i-0a1", "EBSIOBalance%"] = lambda at_s: drains(at_s) if at_s // 300 % 4 < 2 else None
    tick(watch, aws, 200)
    announced = [alert for alert in recorder.alerts if alert.kind is AlertKind.DRAINING]
    assert announced[0].level is Level.WARNING
    assert drains_from_s + 200 * 60 - announced[0].at_s >= 20 * 60
    assert not any(alert.kind is AlertKind.TELEMETRY_GAP for alert in recorder.alerts)


def test_an_exhausted_instance_that_is_enlarged_recovers_and_is_not_alerted_about_again(
    aws, watch, recorder, ledger
):
    """Nothing before the launch is about the new type, neither a balance nor the level."""
    aws.add(volumes=6)
    calm(aws)
    tick(watch, aws, 20)
    aws.balances["i-0a1", "EBSIOBalance%"] = falling(2.0, since_s=aws.now_s)
    tick(watch, aws, 80)
    assert recorder.alerts[-1].level is Level.EXHAUSTED
    recorder.alerts.clear()
    launched_at_s = aws.now_s + 60
    aws.balances["i-0a1", "EBSIOBalance%"] = lambda at_s: 0.0 if at_s <= launched_at_s else 100.0
    enlarged = replace(
        aws.instances[0],
        instance_type="m5.2xlarge",
        launched_at=datetime.fromtimestamp(launched_at_s, UTC),
    )
    aws.instances = [enlarged]
    aws.now_s += 120
    report = assess_volumes(watch, ["i-0a1"], now_s=aws.now_s)
    assert reasons(report)["instance-io"] is UnknownReason.TOO_NEW
    tick(watch, aws, 60)
    assert [alert.kind for alert in recorder.alerts] == [AlertKind.RECOVERED]
    entries = [entry.body for entry in ledger.entries("i-0a1#instance-io") if entry.kind == "level_changed"]
    assert entries[-1] == {"from": "exhausted", "to": "ok"}


def test_volumes_are_counted_without_the_buckets_of_other_resources(aws, watch):
    aws.add()
    calm(aws)
    for number in (1, 2):
        aws.volumes_of_region.append(a_volume(volume_id=f"vol-0d{number}", size_gib=100))
        aws.balances[f"vol-0d{number}", "BurstBalance"] = constant(0.0)
    for report in tick(watch, aws, 10):  # sweeps, and passes in between that list nothing
        assert report.fleet.watched == 2
        assert {level: count for level, count in report.fleet.by_level.items() if count} == {
            Level.EXHAUSTED: 2
        }


def stopping_after(services, stages):
    """Services of a pass that is stopped after N stages, of volumes and of other buckets."""
    calls = []
    return replace(services, should_stop=lambda: len(calls) >= stages or calls.append(True))


def test_a_pass_that_is_stopped_before_the_buckets_is_not_completed(aws, watch, ledger):
    aws.add()
    calm(aws)
    aws.now_s += 300
    tick_s = aws.now_s
    stopped = run_tick(stopping_after(watch, 0), tick_at_s=tick_s, now_s=tick_s)
    assert stopped.failures == [
        "the pass was stopped: 2 buckets were not evaluated; the next pass evaluates them"
    ]
    assert stopped.has_failed
    assert ledger.fleet_snapshot() is None
    (report,) = tick(watch, aws)
    assert {decision.assessment.subject for decision in report.decisions} == {
        "i-0a1#instance-io",
        "i-0a1#instance-throughput",
    }


@pytest.mark.parametrize("every_min", [1, 2, 5])
def test_neither_volumes_nor_buckets_are_left_out_if_every_pass_is_stopped_in_between(
    aws, watch, recorder, every_min
):
    aws.add()
    calm(aws)
    tick(watch, aws, 20)
    aws.volumes_of_region.append(a_volume(volume_id="vol-0d1", size_gib=100))
    aws.balances["i-0a1", "EBSIOBalance%"] = falling(2.0, since_s=aws.now_s)
    aws.balances["vol-0d1", "BurstBalance"] = falling(2.0, since_s=aws.now_s)
    for _ in range(90 // every_min):
        aws.now_s += 60 * every_min
        run_tick(stopping_after(watch, 1), tick_at_s=aws.now_s, now_s=aws.now_s)
    exhausted = {alert.volume_id for alert in recorder.alerts if alert.level is Level.EXHAUSTED}
    assert exhausted == {"vol-0d1", "i-0a1#instance-io"}

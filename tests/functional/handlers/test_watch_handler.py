"""The watch function as its schedules invoke it: over real HTTP, against the lab."""

from dataclasses import replace
from datetime import timedelta

import pytest

from burstlab.fake_aws.faults import Fault
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.watch import decide
from burstwatch.handlers.event_time import EventError
from burstwatch.handlers.pass_metrics import PassError
from support.aws.fake_stack import deploy_stack, put_parameter
from support.builders.functions import (
    ALL_METRICS,
    AUTO,
    PLACEHOLDER,
    DeployedFunctions,
    to_instant,
)
from support.cli.cli_session import (
    START,
    add_calm,
    add_critical,
    add_exhausted,
    add_lab_instance,
    add_lab_volume,
    add_warning,
    count_modify_calls,
    modification_targets,
)

UNTRUSTED_TIMES = "version: 1\nlevels:\n  warning_within: soon\n"
RETURNS = "version: 1\nflip_back:\n  return: always\n  dwell: 5m\n  calm_for: 5m\n"
NO_FLIPS = "version: 1\nmode:\n  highest: propose\n"


def add_fluctuating(lab) -> str:
    """Drains by 500 - 300 = 200/s, 2 % in nine minutes: in focus, and far from empty."""
    return add_lab_volume(lab, "restless", "steady:500", balance_pct=90, minutes=20)


def count_evaluations(*outputs) -> int:
    return sum(line.result["looked_at"] for line in outputs)


def test_a_sweep_evaluates_the_fleet_and_a_focus_tick_the_volumes_in_focus(functions, lab):
    add_calm(lab)
    restless = add_fluctuating(lab)
    assert functions.watch("sweep").result["looked_at"] == 2
    assert count_evaluations(*(item for _ in range(4) for item in functions.tick(1))) == 0, "nothing is due"
    lab.clock.advance(60)
    assert functions.watch("focus").result["looked_at"] == 1
    assert functions.ledger.states()[restless].next_poll_at_s == lab.clock.now_s() + 300


def test_a_draining_volume_is_alerted_once_with_what_people_and_programs_need(functions, lab):
    volume_id = add_warning(lab)
    functions.tick()
    for _ in range(4):
        functions.tick(1)
    [alert] = functions.alerts()
    assert (alert["schema"], alert["kind"]) == ("burstwatch.alert/v1", "BurstBalanceDraining")
    assert (alert["volume"]["volume_id"], alert["volume"]["account"]) == (volume_id, "123456789012")
    assert alert["action"].startswith("burstctl flip")


@pytest.mark.parametrize("order", [("sweep", "focus"), ("focus", "sweep")])
def test_both_events_of_a_minute_work_once_in_either_order(functions, lab, order):
    """12 calm volumes of 100 GiB are looked at every 15 minutes; one is in focus, and due every five."""
    for number in range(12):
        add_calm(lab, f"calm-{number}")
    add_fluctuating(lab)
    functions.tick()
    functions.watch("focus")
    outputs = []
    for _ in range(3):
        lab.clock.advance(300)
        outputs += [functions.watch(mode) for mode in order]
        assert functions.ledger.fleet_snapshot().tick_at_s == lab.clock.now_s()
    assert count_evaluations(*outputs) == 12 + 3
    assert functions.alert_kinds() == []


def test_a_sweep_leaves_the_volumes_in_focus_to_the_focus_ticks(functions, lab):
    """A sweep of a large region takes minutes; nothing that drains may wait for its end."""
    add_critical(lab, tags=AUTO)
    functions.tick()
    lab.clock.advance(300)
    assert functions.watch("sweep").result["looked_at"] == 0
    assert functions.watch("focus").result["looked_at"] == 1


@pytest.mark.parametrize("mode", ["sweep", "focus"])
def test_a_doubled_event_adds_nothing(functions, lab, mode):
    """A sweep finds a volume that is new, a focus tick one that drains."""
    if mode == "focus":
        add_critical(lab, tags=AUTO)
    functions.tick()
    functions.requested_flips()
    if mode == "sweep":
        add_critical(lab, tags=AUTO)
    lab.clock.advance(300)
    time = to_instant(lab.clock.now_s())
    assert functions.watch(mode).result["looked_at"] == 1
    assert len(functions.requested_flips()) == 1
    functions.alerts()
    states = functions.ledger.states()
    lab.clock.advance(20)
    output = functions.watch(mode, time=time)
    assert output.result == {"looked_at": 0}
    [message] = output.messages
    assert message.endswith("already claimed")
    assert (functions.ledger.states(), functions.requested_flips(), functions.alerts()) == (states, [], [])


def test_a_lost_sweep_is_made_up_for_by_the_next_focus_tick(functions, lab):
    add_calm(lab)
    functions.tick()
    for number in range(12):
        add_calm(lab, f"new-{number}")
    lab.clock.advance(300)
    assert functions.watch("focus").result["looked_at"] == 0, "the sweep has its own event"
    lab.clock.advance(60)
    assert functions.watch("focus").result["looked_at"] >= 12
    late = functions.watch("sweep", time=to_instant(lab.clock.now_s() - 60))
    assert late.result == {"looked_at": 0}


def test_a_lost_focus_tick_is_made_up_for_by_the_one_after_it(functions, lab):
    volume_id = add_critical(lab, tags=AUTO)
    functions.tick()
    functions.flip()
    lab.clock.advance(120)
    output = functions.watch("focus")
    assert output.lines_about(volume_id)


def test_a_tick_that_comes_more_than_two_minutes_late_only_settles_what_is_open(functions, lab):
    flipped = add_critical(lab, "flipped", tags=AUTO)
    functions.tick()
    functions.flip()
    wanting = add_exhausted(lab, "wanting", tags=AUTO)
    lab.fleet.end_modification(flipped)
    lab.clock.advance(121)
    output = functions.watch("sweep", time=to_instant(lab.clock.now_s() - 121))
    assert output.metrics["LateTicks"] == 1
    [late] = [line for line in output.lines if line["level"] == "WARNING"]
    assert (late["late_s"], late["mode"]) == (121.0, "sweep")
    assert "only open flips are reconciled" in late["message"]
    assert output.result["looked_at"] == 1
    assert functions.history(flipped)[-1] in ("reached", "stayed")
    assert functions.requested_flips() == []
    assert wanting not in functions.ledger.states()


def test_a_late_tick_that_settles_something_does_not_request_it_again(functions, lab):
    """The call to AWS got lost: that it never was sent is known after two minutes and two reads."""
    volume_id = add_critical(lab, tags=AUTO)
    functions.tick()
    lab.faults.add(Fault(action="ModifyVolume", kind="reset", times=1))
    functions.flip()
    functions.tick(1)
    lab.clock.advance(240)
    functions.watch("focus", time=to_instant(lab.clock.now_s() - 180))
    assert functions.history(volume_id)[-1] == "not_done"
    assert functions.requested_flips() == []
    functions.tick(1)
    assert len(functions.requested_flips()) == 1


def test_a_tick_that_comes_two_minutes_late_does_all_its_work(functions, lab):
    volume_id = add_critical(lab, tags=AUTO)
    due = to_instant(lab.clock.now_s())
    lab.clock.advance(120)
    output = functions.watch("sweep", time=due)
    assert "LateTicks" not in output.metrics
    assert [request["MessageGroupId"] for request in functions.requested_flips()] == [volume_id]


def test_by_the_events_clock_an_old_event_is_of_now_and_a_replay_of_it_adds_nothing(functions, lab):
    functions.clock = "event"
    volume_id = add_critical(lab, tags=AUTO)
    due = to_instant(lab.clock.now_s())
    lab.clock.advance(3600)
    lab.fleet.set_load(volume_id, "idle")
    first = functions.watch("sweep", time=due)
    assert "LateTicks" not in first.metrics
    assert first.metrics["NewestDatapointAge"] < 3600
    assert functions.ledger.fleet_snapshot().tick_at_s == lab.clock.now_s() - 3600
    functions.requested_flips()
    reported = functions.alert_kinds()
    assert functions.watch("sweep", time=due).result == {"looked_at": 0}
    assert (functions.requested_flips(), functions.alert_kinds(), reported) == (
        [],
        [],
        ["BurstBalanceDraining"],
    )


def test_a_time_that_scheduler_left_unsubstituted_is_the_invocations_own_and_that_is_reported(functions, lab):
    add_calm(lab)
    lab.clock.advance(7)
    output = functions.watch("sweep", time="<aws.scheduler.scheduled-time>")
    assert output.result["looked_at"] == 1
    assert functions.ledger.fleet_snapshot().tick_at_s == lab.clock.now_s() - 7
    [warning] = output.warnings
    assert PLACEHOLDER in warning


@pytest.mark.parametrize(
    ("event", "names"),
    [
        ({}, '"mode": "sweep" | "focus"'),
        ({"mode": "nap", "time": "2026-11-20T18:00:00Z"}, '"mode": "sweep" | "focus"'),
        (["sweep"], '"mode": "sweep" | "focus"'),
        (None, '"mode": "sweep" | "focus"'),
        ({"mode": ["sweep"]}, '"mode": "sweep" | "focus"'),
        ({"mode": "sweep"}, "time is None, not an instant"),
        ({"mode": "sweep", "time": "tomorrow"}, "time is 'tomorrow', not an instant"),
        ({"mode": "sweep", "time": 1795197600}, "time is 1795197600, not an instant"),
        ({"mode": "sweep", "time": "2026-11-20T18:00:00"}, "which has no time zone"),
        ({"mode": "sweep", "time": "x" * 5000}, "…"),
    ],
)
def test_an_invalid_event_is_one_clear_error_and_makes_no_call(functions, lab, event, names):
    with pytest.raises(EventError) as exc_info:
        functions.invoke("watch", event)
    assert names in str(exc_info.value)
    assert len(str(exc_info.value)) < 160
    assert functions.last.lines == []
    assert not lab.faults.call_counts().get("DescribeVolumes")


def test_a_time_to_come_cannot_hold_up_the_ticks_before_it(functions, lab):
    add_calm(lab)
    functions.watch("focus", time="2036-01-01T00:00:00Z")
    assert functions.watch("sweep").result["looked_at"] == 1
    assert functions.tick(1)[0].messages[-1].endswith("volumes evaluated")


# ---- asking for flips


def test_each_volume_is_requested_in_a_group_of_its_own_and_nothing_is_modified_here(functions, lab):
    ids = {add_critical(lab, f"ci-{number}", tags=AUTO) for number in range(3)}
    add_critical(lab, "not-opted-in")
    output = functions.watch("sweep")
    messages = functions.requested_flips()
    assert {message["MessageGroupId"] for message in messages} == ids
    assert len({message["MessageDeduplicationId"] for message in messages}) == 3
    assert output.result["outcomes"] == {"in_flight": 3}
    assert count_modify_calls(lab) == 0


def test_another_look_in_the_same_minute_adds_no_request_and_one_a_minute_later_does(functions, lab):
    """What is a minute old may have been given up; after the flip nothing is requested any more."""
    add_critical(lab, tags=AUTO)
    functions.tick()
    [first] = functions.requested_flips()
    functions.watch()
    assert functions.requested_flips() == []
    functions.tick(1)
    [again] = functions.requested_flips()
    assert again["MessageDeduplicationId"] != first["MessageDeduplicationId"]
    functions.tick(1)
    functions.flip()
    functions.tick(1)
    assert functions.requested_flips() == []


def test_after_a_refusal_by_aws_it_is_requested_again_and_the_queue_does_not_swallow_it(functions, lab):
    volume_id = add_critical(lab, tags=AUTO)
    lab.faults.add(Fault(action="ModifyVolume", kind="throttle", times=1))
    functions.tick()
    functions.flip()
    assert modification_targets(lab, volume_id) == []
    for _ in range(3):
        functions.tick(1)
        functions.run_flip_requests()
    assert modification_targets(lab, volume_id) == ["gp3"]
    assert count_modify_calls(lab) == 2


@pytest.mark.parametrize("code", ["AccessDenied", "AWS.SimpleQueueService.NonExistentQueue"])
def test_a_request_that_the_queue_does_not_take_is_loud_and_the_pass_goes_on(functions, lab, code):
    wanting = add_critical(lab, tags=AUTO)
    other = add_warning(lab)
    lab.faults.add(Fault(action="SendMessageBatch", code=code, message="no"))
    output = functions.watch("sweep")
    assert output.metrics["FlipsFailed"] == 1
    [line] = output.lines_about(wanting)
    assert (line["action_taken"], line["error_code"]) == ("failed", "unsent")
    [warning] = output.warnings
    assert wanting in warning
    assert code.rpartition(".")[2] in warning
    assert output.lines_about(other)
    assert sorted(functions.alert_kinds()) == ["BurstBalanceDraining", "BurstBalanceDraining"]
    lab.faults.clear()
    functions.tick(1)
    assert len(functions.requested_flips()) == 1


def test_a_throttled_queue_is_tried_again_and_then_reported(functions, lab, monkeypatch):
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    add_critical(lab, tags=AUTO)
    lab.faults.add(Fault(action="SendMessageBatch", code="ThrottlingException", times=2))
    output = functions.watch("sweep")
    assert output.warnings == []
    assert len(functions.requested_flips()) == 1
    lab.faults.add(Fault(action="SendMessageBatch", code="ThrottlingException"))
    [output] = functions.tick(1)
    assert output.metrics["FlipsFailed"] == 1
    assert "ThrottlingException" in output.warnings[0]


def test_what_was_flipped_is_flipped_back_through_the_queue_as_well(functions, lab):
    functions.deploy_policy(RETURNS)
    lab.clock.advance(29)
    volume_id = add_critical(lab, tags=AUTO | {"burstwatch:target": "io1"})
    functions.tick()
    functions.flip()
    lab.fleet.set_load(volume_id, "idle")
    lab.fleet.end_modification(volume_id)
    messages = []
    for _ in range(6):
        functions.tick(5)
        messages.append(functions.run_flip_requests())
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]
    assert sum(line.metrics.get("FlipsBack", 0) for line in messages if line) == 1
    assert {"VolumeFlipped", "VolumeFlippedBack"} <= set(functions.alert_kinds())


# ---- what may be requested at all


def test_without_a_queue_it_only_proposes(functions, lab):
    functions.flips = False
    volume_id = add_critical(lab, tags=AUTO)
    output = functions.watch("sweep")
    assert output.result["outcomes"] == {"proposed": 1}
    [line] = output.lines_about(volume_id)
    assert line["action_taken"] == "proposed"
    [alert] = functions.alerts()
    assert alert["action"].startswith(f"burstctl flip {volume_id}")
    assert functions.requested_flips() == []
    assert "NotStanding" not in output.metrics


def test_a_second_deployment_only_proposes_and_explains_why(functions, lab, monkeypatch):
    functions.watch("focus")
    lab.clock.advance(60)
    second = DeployedFunctions(lab=lab, monkeypatch=monkeypatch, name="another")
    add_exhausted(lab, tags=AUTO)
    text = second.watch("sweep")
    assert text.metrics["NotStanding"] == 1
    assert text.result["outcomes"] == {"proposed": 1}
    [warning] = text.warnings
    assert "'burstwatch' has been in this account and region since 2026-11-20T18:00:00Z" in warning
    assert second.requested_flips() == []
    assert functions.watch("sweep").metrics.get("NotStanding") is None
    assert len(functions.requested_flips()) == 1


def test_the_second_deployment_flips_when_the_first_is_destroyed(functions, lab, monkeypatch):
    lab.clock.advance(60)
    second = DeployedFunctions(lab=lab, monkeypatch=monkeypatch, name="another")
    add_exhausted(lab, tags=AUTO)
    second.tick()
    functions.ssm.delete_parameter(Name="/burstwatch/deployments/burstwatch")
    for _ in range(14):
        second.tick(1)
        assert second.requested_flips() == [], "warm functions of the first may flip for five minutes more"
    second.tick(1)
    assert len(second.requested_flips()) == 1


def test_a_first_deployment_that_is_deployed_again_goes_on_flipping(functions, lab, monkeypatch):
    functions.watch("focus")
    lab.clock.advance(60)
    DeployedFunctions(lab=lab, monkeypatch=monkeypatch, name="another")
    lab.clock.advance(60)
    deploy_stack(lab, functions.name, topic_arn=functions.topic_arn)
    functions.end_invocation()
    add_exhausted(lab, tags=AUTO)
    output = functions.watch("sweep")
    assert "NotStanding" not in output.metrics
    assert len(functions.requested_flips()) == 1


# ---- the policy


def test_a_changed_policy_takes_effect_without_a_cold_start(functions, lab):
    add_critical(lab, tags=AUTO)
    functions.deploy_policy(NO_FLIPS)
    lab.clock.advance(29)
    output = functions.watch("sweep")
    assert output.result["outcomes"] == {}
    assert functions.requested_flips() == []


def test_a_warm_function_reads_the_policy_once_in_a_while_and_then_follows_it(functions, lab):
    add_critical(lab, tags=AUTO)
    functions.tick()
    assert len(functions.requested_flips()) == 1
    functions.deploy_policy(NO_FLIPS)
    lab.clock.advance(29)
    functions.tick()
    assert functions.requested_flips() == []


def test_a_policy_that_turns_bad_leaves_the_last_good_one_in_force_and_one_alert(functions, lab):
    functions.deploy_policy(NO_FLIPS)
    lab.clock.advance(29)
    add_critical(lab, tags=AUTO)
    functions.tick()
    functions.alerts()
    functions.push_policy(UNTRUSTED_TIMES)
    lab.clock.advance(29)
    text = [functions.tick()[0]]
    functions.end_invocation()
    text += [item for _ in range(4) for item in functions.tick(1)]
    assert all(item.metrics.get("PolicyRejected") == 1 for item in text)
    assert all("levels.warning_within" in " ".join(item.warnings) for item in text)
    [alert] = functions.alerts()
    assert alert["kind"] == "PolicyRejected"
    assert "levels.warning_within" in alert["evidence"]["faults"][0]
    assert functions.requested_flips() == [], (
        "the last good policy stops all flips, the built-in one does not"
    )


def test_without_any_valid_policy_cautious_defaults_apply(functions, lab):
    functions.deploy_policy("version: 7\n")
    lab.clock.advance(29)
    add_critical(lab, tags=AUTO)
    output = functions.watch("sweep")
    assert sorted(functions.alert_kinds()) == ["BurstBalanceDraining", "PolicyRejected"]
    assert functions.requested_flips() == []
    assert "built-in defaults, without flips" in output.warnings[0]


def test_a_deleted_policy_leaves_the_last_good_one_also_after_a_cold_start(functions, lab):
    functions.deploy_policy(NO_FLIPS)
    lab.clock.advance(29)
    functions.tick()
    functions.ssm.delete_parameter(Name="/burstwatch/burstwatch/policy")
    functions.end_invocation()
    add_exhausted(lab, tags=AUTO)
    for _ in range(6):
        functions.tick(1)
    assert functions.alert_kinds().count("PolicyRejected") == 1
    assert functions.last.metrics["PolicyRejected"] == 1
    assert functions.requested_flips() == []


def test_a_policy_that_comes_back_is_in_force_again_and_a_new_fault_is_reported_again(functions, lab):
    functions.tick()
    functions.push_policy(UNTRUSTED_TIMES)
    lab.clock.advance(29)
    functions.tick()
    functions.push_policy("version: 1\n")
    lab.clock.advance(29)
    assert "PolicyRejected" not in functions.tick()[0].metrics
    functions.push_policy(UNTRUSTED_TIMES.replace("soon", "later"))
    lab.clock.advance(29)
    functions.tick()
    assert functions.alert_kinds() == ["PolicyRejected", "PolicyRejected"]


def test_while_parameter_store_is_down_a_warm_function_goes_on_as_before(functions, lab, monkeypatch):
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    functions.tick()
    for action in ("GetParameters", "GetParametersByPath"):
        lab.faults.add(Fault(action=action, code="InternalServerError", status=500))
    lab.clock.advance(301)
    volume_id = add_exhausted(lab, tags=AUTO)
    lab.clock.advance(299)
    output = functions.watch("sweep")
    assert output.lines_about(volume_id)
    assert output.metrics["PolicyRejected"] == 1
    assert functions.alert_kinds() == ["BurstBalanceExhausted"], "it passes by itself: no alert is sent"
    assert len(functions.requested_flips()) == 1


def test_when_parameter_store_never_answered_it_only_proposes(functions, lab, monkeypatch):
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    for action in ("GetParameters", "GetParametersByPath"):
        lab.faults.add(Fault(action=action, code="InternalServerError", status=500))
    add_exhausted(lab, tags=AUTO)
    output = functions.watch("sweep")
    assert output.metrics["NotStanding"] == 1
    assert functions.alert_kinds() == ["BurstBalanceExhausted"]
    assert functions.requested_flips() == []


def test_a_revoked_permission_to_read_the_policy_alerts(functions, lab):
    functions.tick()
    lab.faults.add(Fault(action="GetParameters", code="AccessDeniedException", message="not authorized"))
    lab.clock.advance(240)
    functions.tick(1)
    functions.tick(1)
    [alert] = functions.alerts()
    assert alert["kind"] == "PolicyRejected"
    assert "ssm:GetParameters" in alert["evidence"]["faults"][0]


# ---- when AWS or we fail


def test_a_fleet_that_cannot_be_listed_is_reported_and_swept_by_the_next_tick(functions, lab, monkeypatch):
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    add_calm(lab)
    lab.faults.add(Fault(action="DescribeVolumes", kind="throttle", times=5))
    output = functions.watch("sweep")
    assert output.result["failures"] == 1
    assert "ec2:DescribeVolumes" in output.warnings[0]
    assert functions.ledger.fleet_snapshot() is None
    lab.clock.advance(60)
    assert functions.watch("focus").result["looked_at"] == 1


def test_volumes_that_cannot_be_read_are_counted(functions, lab):
    add_warning(lab)
    lab.faults.add(Fault(action="GetMetricData", code="AccessDenied", message="no", status=403))
    output = functions.watch("sweep")
    assert output.metrics["VolumesUnread"] == 1
    assert "cloudwatch:GetMetricData" in output.warnings[0]


def test_alerts_that_the_topic_does_not_take_wait_and_are_counted(functions, lab):
    add_warning(lab)
    lab.faults.add(Fault(action="Publish", code="AuthorizationError", message="no", status=403, times=1))
    output = functions.watch("sweep")
    assert (output.metrics["AlertsSent"], output.metrics["AlertsNotDelivered"]) == (0, 1)
    assert "sns" in output.warnings[0].lower()
    functions.tick(1)
    assert functions.alert_kinds() == ["BurstBalanceDraining"]


def test_an_internal_error_about_one_volume_hides_no_other_and_fails_the_invocation(
    functions, lab, monkeypatch
):
    broken = add_critical(lab, "broken", tags=AUTO)
    fine = add_critical(lab, "fine", tags=AUTO)
    real = decide.evaluate_flip

    def consider(assessment, *args, **kwargs):
        if assessment.volume.volume_id == broken:
            raise ZeroDivisionError("division by zero")
        return real(assessment, *args, **kwargs)

    monkeypatch.setattr(decide, "evaluate_flip", consider)
    with pytest.raises(PassError, match=f"{broken} was not evaluated.*ZeroDivisionError"):
        functions.watch("sweep")
    output = functions.last
    assert output.lines_about(fine)
    assert output.metrics["Ticks"] == 1
    assert [request["MessageGroupId"] for request in functions.requested_flips()] == [fine]
    assert [alert["volume"]["volume_id"] for alert in functions.alerts()] == [fine]


def test_a_table_that_is_gone_fails_the_invocation_by_name(functions, lab):
    lab.tables.clear()
    add_warning(lab)
    with pytest.raises(Exception, match="burstwatch-ledger"):
        functions.watch("sweep")


# ---- what it says of itself


QUIET_PASS_METRICS = {
    "Ticks": "Count",
    "VolumesWatched": "Count",
    "VolumesFlipped": "Count",
    "VolumesUnread": "Count",
    "VolumesOk": "Count",
    "VolumesWarning": "Count",
    "VolumesCritical": "Count",
    "VolumesExhausted": "Count",
    "NewestDatapointAge": "Seconds",
}


def test_a_quiet_pass_reports_the_fleet_and_emits_no_billed_metric(functions, lab):
    add_calm(lab)
    functions.tick()
    assert functions.units == QUIET_PASS_METRICS


BUCKET_METRICS = {"BucketsWarning", "BucketsCritical", "BucketsExhausted", "BucketsUnknown"}
VOLUME_METRICS = ALL_METRICS - BUCKET_METRICS


def test_every_metric_of_volumes_is_emitted_with_its_unit(functions, lab):
    """A day on which everything happens."""
    functions.deploy_policy(RETURNS)
    lab.clock.advance(29)
    lab.faults.add(Fault(action="Publish", code="AuthorizationError", message="no", status=403, times=1))
    returning = add_critical(lab, "returning", tags=AUTO | {"burstwatch:target": "io1"})
    refused = add_critical(lab, "refused", tags=AUTO)
    failing = add_critical(lab, "failing", tags=AUTO)
    add_lab_volume(lab, "draining", "steady:1200", balance_pct=90, minutes=20)
    functions.watch("sweep")
    lab.fleet.modify(refused, volume_type="gp3")
    lab.faults.add(Fault(action="ModifyVolume", code="InvalidParameterValue", volume_ids=[failing]))
    functions.flip()
    lab.fleet.set_load(returning, "idle")
    lab.fleet.end_modification(returning)
    lab.faults.clear()
    for _ in range(6):
        functions.tick(5)
        functions.run_flip_requests()
    assert modification_targets(lab, returning) == ["io1", "gp2"]
    lab.fleet.change_settings(modify_outcome="stuck")
    add_exhausted(lab, "stuck", tags=AUTO)
    for _ in range(6):
        functions.tick(1)
        functions.run_flip_requests()
    lab.clock.advance(6 * 3600)
    functions.watch("focus")
    functions.watch("focus", time=to_instant(lab.clock.now_s() - 600))
    functions.settle({"source": "burstwatch.ddprobe", "time": to_instant(lab.clock.now_s())})
    ebs = {"source": "aws.ec2", "detail-type": "EBS Volume Notification"}
    functions.settle(ebs | {"time": to_instant(lab.clock.now_s() - 600)})
    put_parameter(functions.ssm, "/burstwatch/deployments/burstwatch", "{}")
    put_parameter(functions.ssm, "/burstwatch/deployments/another", "{}")
    functions.push_policy(UNTRUSTED_TIMES)
    lab.fleet.settings = replace(lab.fleet.settings, lag_s=900, balance_every_s=300)
    add_lab_volume(lab, "late", "steady:1300", balance_pct=90, minutes=60)
    add_lab_volume(lab, "refilling", "steady:290", balance_pct=60, minutes=60)
    lab.clock.advance(270)
    functions.watch("sweep")
    functions.watch("focus")

    assert functions.units.keys() == VOLUME_METRICS
    ages = ("NewestDatapointAge", "WorstDatapointAge", "DatapointSpacing")
    in_seconds = dict.fromkeys(("SoonestTimeToEmpty", *ages), "Seconds")
    other_units = in_seconds | {"LowestBurstBalance": "Percent"}
    assert functions.units == dict.fromkeys(VOLUME_METRICS, "Count") | other_units


def test_buckets_of_instances_are_counted_by_level_apart_from_volumes(functions, lab):
    functions.deploy_policy("version: 1\nresources: {instance: {watch: true}}\n")
    # m5.large holds 27,270,000 operations; 6,000 a second drain 2,400, which is 31.7 % an hour
    for number, io_pct in enumerate((56.0, 36.0, 20.0, 100.0)):
        instance_id = add_lab_instance(lab, f"i-0a1b2c3d4e5f6000{number}", io_pct=io_pct)
        gp3 = {"volume_type": "gp3", "iops": 6_000, "throughput_mib_s": 125}
        add_lab_volume(lab, "data", "steady:6000", minutes=60, instance_id=instance_id, **gp3)
    lab.fleet.hide_metrics(instance_id, from_at=START - timedelta(minutes=40), to_at=START, only_balance=True)
    output = functions.watch("sweep")
    counts = {name: count for name, count in output.metrics.items() if name.startswith("Buckets")}
    assert counts == {"BucketsWarning": 1, "BucketsCritical": 1, "BucketsExhausted": 1, "BucketsUnknown": 2}
    assert output.metrics["VolumesCritical"] == 0


def test_the_numbers_are_those_of_the_fleet(functions, lab):
    add_calm(lab)
    add_critical(lab)
    output = functions.watch("sweep")
    assert {name: output.metrics[name] for name in ("VolumesWatched", "VolumesOk", "VolumesCritical")} == {
        "VolumesWatched": 2,
        "VolumesOk": 1,
        "VolumesCritical": 1,
    }
    # 33 % at 17:59 is 1,782,000 credits; 2,700 a second leave: empty 660 s after, which is 600 s from now
    assert (output.metrics["LowestBurstBalance"], output.metrics["SoonestTimeToEmpty"]) == (33, 600)
    [blob] = output.metric_blobs
    [block] = blob["_aws"]["CloudWatchMetrics"]
    assert (block["Namespace"], block["Dimensions"]) == ("Burstwatch", [["service"]])
    assert blob["service"] == functions.service


def test_a_focus_tick_reports_the_whole_fleet_too(functions, lab):
    add_calm(lab)
    add_calm(lab, "other")
    add_warning(lab)
    functions.tick()
    [output] = functions.tick(1)
    assert (
        output.metrics["VolumesWatched"],
        output.metrics["VolumesOk"],
        output.metrics["VolumesWarning"],
    ) == (
        3,
        2,
        1,
    )


def test_before_the_first_full_sweep_the_healthy_count_is_unknown(functions, lab):
    add_calm(lab)
    output = functions.watch("focus")
    assert not {"VolumesWatched", "VolumesOk"} & output.metrics.keys()


def test_flipped_volumes_and_stuck_ones_are_counted(functions, lab):
    lab.fleet.change_settings(modify_outcome="stuck")
    add_critical(lab, tags=AUTO)
    functions.tick()
    functions.flip()
    [text] = functions.tick(1)
    assert (text.metrics["VolumesFlipped"], text.metrics["FlipsStuck"]) == (1, 0)
    lab.clock.advance(6 * 3600)
    [text] = [functions.watch("focus")]
    assert (text.metrics["VolumesFlipped"], text.metrics["FlipsStuck"]) == (1, 1)
    assert "FlipStuck" in functions.alert_kinds()


def test_one_log_line_per_volume_with_news(functions, lab):
    add_calm(lab)
    volume_id = add_critical(lab, tags=AUTO)
    output = functions.watch("sweep")
    reported = {line["volume_id"]: line for line in output.lines if "volume_id" in line}
    assert reported.keys() == {volume_id}
    line = reported[volume_id]
    assert (line["volume_level"], line["decision"], line["action_taken"]) == ("critical", "flip", "in_flight")
    assert line["reason"].startswith("critical: ")
    assert all(
        {"level", "timestamp", "service", "function_request_id"} <= item.keys() for item in output.lines
    )


def test_a_hold_on_everything_stops_flip_requests_once_reported(functions, lab):
    now_s = int(lab.clock.now_s())
    hold = Hold(volume_id=None, by="anna", reason="freeze", placed_at_s=now_s, until_s=now_s + 3600)
    functions.ledger.place_hold(hold)
    add_critical(lab, tags=AUTO)
    functions.tick()
    functions.flip()
    functions.tick(1)
    assert functions.requested_flips() == []
    assert sorted(functions.alert_kinds()) == ["BurstBalanceDraining", "FlipRefused"]
    assert count_modify_calls(lab) == 0


def test_many_refused_volumes_do_not_hold_up_the_request_for_a_new_one(functions, lab, monkeypatch):
    """A pass requests again what was refused for a few volumes only, and in turn for all."""
    functions.deploy_policy("version: 1\nflip:\n  fleet_cap: 1\n")
    lab.clock.advance(29)
    monkeypatch.setattr("burstwatch.engine.dispatch._MAX_WAITING", 2, raising=False)
    volumes = [add_exhausted(lab, f"ci-{number}", tags=AUTO) for number in range(6)]
    functions.tick()
    while functions.run_flip_requests():
        pass
    assert count_modify_calls(lab) == 1
    refused = {volume_id for volume_id in volumes if not modification_targets(lab, volume_id)}
    urgent = add_critical(lab, "urgent", tags=AUTO)
    functions.tick(4)
    requested = {request["MessageGroupId"] for request in functions.requested_flips()}
    assert urgent in requested
    assert len(requested & refused) == 2
    all_requested = set(requested)
    for _ in range(10):
        functions.tick(1)
        result = {request["MessageGroupId"] for request in functions.requested_flips()}
        assert len(result & refused) <= 2
        all_requested |= result
    assert refused <= all_requested


def test_volumes_that_ec2_does_not_describe_count_as_unread(functions, lab):
    """If the permission to describe is revoked, the watchdog must not become blind without an alert."""
    add_critical(lab, tags=AUTO)
    add_calm(lab)
    assert functions.watch("sweep").metrics["VolumesUnread"] == 0
    lab.faults.add(Fault(action="DescribeVolumes", code="UnauthorizedOperation", message="no", status=403))
    [focus] = functions.tick(1)
    assert focus.metrics["VolumesUnread"] == 1
    sweep, *_ = functions.tick(4)
    assert sweep.metrics["VolumesUnread"] == 2
    assert not sweep.metrics["VolumesCritical"], "what is remembered is not told as if it were seen"

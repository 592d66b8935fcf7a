"""The watch function as its schedules invoke it: over real HTTP, against the lab."""

from dataclasses import replace

import pytest
from a_stack import a_stack, put
from operators_desk import add, add_calm, add_critical, add_exhausted, add_warning, asked, modified
from some_functions import ALL_METRICS, AUTO, PLACEHOLDER, Functions, instant, some_functions

from burstlab.fake_aws.faults import Fault
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.core.watch import decide
from burstwatch.handlers.event_time import EventError
from burstwatch.handlers.pass_metrics import PassError

DOUBTFUL = "version: 1\nlevels:\n  warning_within: soon\n"
RETURNS = "version: 1\nflip_back:\n  return: always\n  dwell: 5m\n  calm_for: 5m\n"
NO_FLIPS = "version: 1\nmode:\n  highest: propose\n"


@pytest.fixture
def functions(monkeypatch):
    with some_functions(monkeypatch) as found:
        yield found


@pytest.fixture
def lab(functions):
    return functions.lab


def add_restless(lab) -> str:
    """Drains by 500 - 300 = 200/s, 2 % in nine minutes: in focus, and far from dry."""
    return add(lab, "restless", "steady:500", balance_pct=90, minutes=20)


def looks(*said) -> int:
    return sum(each.result["looked_at"] for each in said)


def test_a_sweep_looks_at_the_whole_fleet_and_a_focus_tick_at_what_is_in_focus(functions, lab):
    add_calm(lab)
    restless = add_restless(lab)
    assert functions.watch("sweep").result["looked_at"] == 2
    assert looks(*(said for _ in range(4) for said in functions.tick(1))) == 0, "nothing is due"
    lab.clock.advance(60)
    assert functions.watch("focus").result["looked_at"] == 1
    assert functions.ledger.states()[restless].next_look_at_s == lab.clock.now_s() + 300


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
def test_both_events_of_a_minute_do_their_work_once_whichever_comes_first(functions, lab, order):
    """12 calm volumes of 100 GiB are looked at every 15 minutes; one is in focus, and due every five."""
    for number in range(12):
        add_calm(lab, f"calm-{number}")
    add_restless(lab)
    functions.tick()
    functions.watch("focus")
    seen = []
    for _ in range(3):
        lab.clock.advance(300)
        seen += [functions.watch(mode) for mode in order]
        assert functions.ledger.roster().tick_s == lab.clock.now_s()
    assert looks(*seen) == 12 + 3
    assert functions.kinds() == []


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
    functions.asked()
    if mode == "sweep":
        add_critical(lab, tags=AUTO)
    lab.clock.advance(300)
    time = instant(lab.clock.now_s())
    assert functions.watch(mode).result["looked_at"] == 1
    assert len(functions.asked()) == 1
    functions.alerts()
    held = functions.ledger.states()
    lab.clock.advance(20)
    said = functions.watch(mode, time=time)
    assert said.result == {"looked_at": 0}
    [message] = said.messages
    assert message.endswith("has this tick")
    assert (functions.ledger.states(), functions.asked(), functions.alerts()) == (held, [], [])


def test_a_lost_sweep_is_made_up_for_by_the_next_focus_tick(functions, lab):
    add_calm(lab)
    functions.tick()
    for number in range(12):
        add_calm(lab, f"new-{number}")
    lab.clock.advance(300)
    assert functions.watch("focus").result["looked_at"] == 0, "the sweep has its own event"
    lab.clock.advance(60)
    assert functions.watch("focus").result["looked_at"] >= 12
    late = functions.watch("sweep", time=instant(lab.clock.now_s() - 60))
    assert late.result == {"looked_at": 0}


def test_a_lost_focus_tick_is_made_up_for_by_the_one_after_it(functions, lab):
    volume_id = add_critical(lab, tags=AUTO)
    functions.tick()
    functions.flip()
    lab.clock.advance(120)
    said = functions.watch("focus")
    assert said.of(volume_id)


def test_a_tick_that_comes_more_than_two_minutes_late_only_settles_what_is_open(functions, lab):
    flipped = add_critical(lab, "flipped", tags=AUTO)
    functions.tick()
    functions.flip()
    wanting = add_exhausted(lab, "wanting", tags=AUTO)
    lab.fleet.end_modification(flipped)
    lab.clock.advance(121)
    said = functions.watch("sweep", time=instant(lab.clock.now_s() - 121))
    assert said.metrics["LateTicks"] == 1
    [late] = [line for line in said.lines if line["level"] == "WARNING"]
    assert (late["late_s"], late["mode"]) == (121.0, "sweep")
    assert "only what is open is settled" in late["message"]
    assert said.result["looked_at"] == 1
    assert functions.history(flipped)[-1] in ("reached", "stayed")
    assert functions.asked() == []
    assert wanting not in functions.ledger.states()


def test_a_late_tick_that_settles_something_does_not_ask_for_it_again(functions, lab):
    """The call to AWS got lost: that it never was sent is known after two minutes and two reads."""
    volume_id = add_critical(lab, tags=AUTO)
    functions.tick()
    lab.faults.add(Fault(action="ModifyVolume", kind="reset", times=1))
    functions.flip()
    functions.tick(1)
    lab.clock.advance(240)
    functions.watch("focus", time=instant(lab.clock.now_s() - 180))
    assert functions.history(volume_id)[-1] == "not_done"
    assert functions.asked() == []
    functions.tick(1)
    assert len(functions.asked()) == 1


def test_a_tick_that_comes_two_minutes_late_does_all_its_work(functions, lab):
    volume_id = add_critical(lab, tags=AUTO)
    due = instant(lab.clock.now_s())
    lab.clock.advance(120)
    said = functions.watch("sweep", time=due)
    assert "LateTicks" not in said.metrics
    assert [each["MessageGroupId"] for each in functions.asked()] == [volume_id]


def test_by_the_events_clock_an_old_event_is_of_now_and_a_replay_of_it_adds_nothing(functions, lab):
    functions.clock = "event"
    volume_id = add_critical(lab, tags=AUTO)
    due = instant(lab.clock.now_s())
    lab.clock.advance(3600)
    lab.fleet.set_load(volume_id, "idle")
    first = functions.watch("sweep", time=due)
    assert "LateTicks" not in first.metrics
    assert first.metrics["NewestDatapointAge"] < 3600
    assert functions.ledger.roster().tick_s == lab.clock.now_s() - 3600
    functions.asked()
    told = functions.kinds()
    assert functions.watch("sweep", time=due).result == {"looked_at": 0}
    assert (functions.asked(), functions.kinds(), told) == ([], [], ["BurstBalanceDraining"])


def test_a_time_that_scheduler_left_unsubstituted_is_the_invocations_own_and_that_is_said(functions, lab):
    add_calm(lab)
    lab.clock.advance(7)
    said = functions.watch("sweep", time="<aws.scheduler.scheduled-time>")
    assert said.result["looked_at"] == 1
    assert functions.ledger.roster().tick_s == lab.clock.now_s() - 7
    [warning] = said.warnings
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
def test_a_wrong_event_is_one_clear_error_and_nothing_is_asked_of_anybody(functions, lab, event, names):
    with pytest.raises(EventError) as caught:
        functions.invoke("watch", event)
    assert names in str(caught.value)
    assert len(str(caught.value)) < 160
    assert functions.last.lines == []
    assert not lab.faults.calls().get("DescribeVolumes")


def test_a_time_to_come_cannot_hold_up_the_ticks_before_it(functions, lab):
    add_calm(lab)
    functions.watch("focus", time="2036-01-01T00:00:00Z")
    assert functions.watch("sweep").result["looked_at"] == 1
    assert functions.tick(1)[0].messages[-1].startswith("looked at")


# ---- asking for flips


def test_each_volume_is_asked_for_in_a_group_of_its_own_and_nothing_is_modified_here(functions, lab):
    ids = {add_critical(lab, f"ci-{number}", tags=AUTO) for number in range(3)}
    add_critical(lab, "not-opted-in")
    said = functions.watch("sweep")
    messages = functions.asked()
    assert {message["MessageGroupId"] for message in messages} == ids
    assert len({message["MessageDeduplicationId"] for message in messages}) == 3
    assert said.result["outcomes"] == {"in_flight": 3}
    assert asked(lab) == 0


def test_another_look_in_the_same_minute_adds_no_request_and_one_a_minute_later_does(functions, lab):
    """What is a minute old may have been given up; after the flip nothing is asked for any more."""
    add_critical(lab, tags=AUTO)
    functions.tick()
    [first] = functions.asked()
    functions.watch()
    assert functions.asked() == []
    functions.tick(1)
    [again] = functions.asked()
    assert again["MessageDeduplicationId"] != first["MessageDeduplicationId"]
    functions.tick(1)
    functions.flip()
    functions.tick(1)
    assert functions.asked() == []


def test_after_a_refusal_by_aws_it_is_asked_for_again_and_the_queue_does_not_swallow_it(functions, lab):
    volume_id = add_critical(lab, tags=AUTO)
    lab.faults.add(Fault(action="ModifyVolume", kind="throttle", times=1))
    functions.tick()
    functions.flip()
    assert modified(lab, volume_id) == []
    for _ in range(3):
        functions.tick(1)
        functions.carry_out()
    assert modified(lab, volume_id) == ["gp3"]
    assert asked(lab) == 2


@pytest.mark.parametrize("code", ["AccessDenied", "AWS.SimpleQueueService.NonExistentQueue"])
def test_a_request_that_the_queue_does_not_take_is_loud_and_the_pass_goes_on(functions, lab, code):
    wanting = add_critical(lab, tags=AUTO)
    other = add_warning(lab)
    lab.faults.add(Fault(action="SendMessageBatch", code=code, message="no"))
    said = functions.watch("sweep")
    assert said.metrics["FlipsFailed"] == 1
    [line] = said.of(wanting)
    assert (line["action_taken"], line["error_code"]) == ("failed", "unsent")
    [warning] = said.warnings
    assert wanting in warning
    assert code.rpartition(".")[2] in warning
    assert said.of(other)
    assert sorted(functions.kinds()) == ["BurstBalanceDraining", "BurstBalanceDraining"]
    lab.faults.clear()
    functions.tick(1)
    assert len(functions.asked()) == 1


def test_a_throttled_queue_is_tried_again_and_then_told(functions, lab, monkeypatch):
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    add_critical(lab, tags=AUTO)
    lab.faults.add(Fault(action="SendMessageBatch", code="ThrottlingException", times=2))
    said = functions.watch("sweep")
    assert said.warnings == []
    assert len(functions.asked()) == 1
    lab.faults.add(Fault(action="SendMessageBatch", code="ThrottlingException"))
    [said] = functions.tick(1)
    assert said.metrics["FlipsFailed"] == 1
    assert "ThrottlingException" in said.warnings[0]


def test_what_was_flipped_is_brought_back_through_the_queue_as_well(functions, lab):
    functions.deploy_policy(RETURNS)
    lab.clock.advance(29)
    volume_id = add_critical(lab, tags=AUTO | {"burstwatch:target": "io1"})
    functions.tick()
    functions.flip()
    lab.fleet.set_load(volume_id, "idle")
    lab.fleet.end_modification(volume_id)
    said = []
    for _ in range(30):
        functions.tick(1)
        said.append(functions.carry_out())
    assert modified(lab, volume_id) == ["io1", "gp2"]
    assert sum(each.metrics.get("FlipsBack", 0) for each in said if each) == 1
    assert {"VolumeFlipped", "VolumeFlippedBack"} <= set(functions.kinds())


# ---- what may be asked for at all


def test_without_a_queue_it_only_proposes(functions, lab):
    functions.flips = False
    volume_id = add_critical(lab, tags=AUTO)
    said = functions.watch("sweep")
    assert said.result["outcomes"] == {"proposed": 1}
    [line] = said.of(volume_id)
    assert line["action_taken"] == "proposed"
    [alert] = functions.alerts()
    assert alert["action"].startswith(f"burstctl flip {volume_id}")
    assert functions.asked() == []
    assert "NotStanding" not in said.metrics


def test_a_second_deployment_only_proposes_and_says_so(functions, lab, monkeypatch):
    functions.watch("focus")
    lab.clock.advance(60)
    second = Functions(lab=lab, monkeypatch=monkeypatch, name="another")
    add_exhausted(lab, tags=AUTO)
    said = second.watch("sweep")
    assert said.metrics["NotStanding"] == 1
    assert said.result["outcomes"] == {"proposed": 1}
    [warning] = said.warnings
    assert "'burstwatch' has been in this account and region since 2026-11-20T18:00:00Z" in warning
    assert second.asked() == []
    assert functions.watch("sweep").metrics.get("NotStanding") is None
    assert len(functions.asked()) == 1


def test_the_second_deployment_flips_when_the_first_is_destroyed(functions, lab, monkeypatch):
    lab.clock.advance(60)
    second = Functions(lab=lab, monkeypatch=monkeypatch, name="another")
    add_exhausted(lab, tags=AUTO)
    second.tick()
    functions.ssm.delete_parameter(Name="/burstwatch/deployments/burstwatch")
    for _ in range(14):
        second.tick(1)
        assert second.asked() == [], "warm functions of the first may flip for five minutes more"
    second.tick(1)
    assert len(second.asked()) == 1


def test_a_first_deployment_that_is_deployed_again_goes_on_flipping(functions, lab, monkeypatch):
    functions.watch("focus")
    lab.clock.advance(60)
    Functions(lab=lab, monkeypatch=monkeypatch, name="another")
    lab.clock.advance(60)
    a_stack(lab, functions.name, topic_arn=functions.topic_arn)
    functions.end()
    add_exhausted(lab, tags=AUTO)
    said = functions.watch("sweep")
    assert "NotStanding" not in said.metrics
    assert len(functions.asked()) == 1


# ---- the policy


def test_a_changed_policy_takes_effect_without_a_cold_start(functions, lab):
    add_critical(lab, tags=AUTO)
    functions.deploy_policy(NO_FLIPS)
    lab.clock.advance(29)
    said = functions.watch("sweep")
    assert said.result["outcomes"] == {}
    assert functions.asked() == []


def test_a_warm_function_reads_the_policy_once_in_a_while_and_then_follows_it(functions, lab):
    add_critical(lab, tags=AUTO)
    functions.tick()
    assert len(functions.asked()) == 1
    functions.deploy_policy(NO_FLIPS)
    lab.clock.advance(29)
    functions.tick()
    assert functions.asked() == []


def test_a_policy_that_turns_bad_leaves_the_last_good_one_in_force_and_one_alert(functions, lab):
    functions.deploy_policy(NO_FLIPS)
    lab.clock.advance(29)
    add_critical(lab, tags=AUTO)
    functions.tick()
    functions.alerts()
    functions.push_policy(DOUBTFUL)
    lab.clock.advance(29)
    said = [functions.tick()[0]]
    functions.end()
    said += [each for _ in range(4) for each in functions.tick(1)]
    assert all(each.metrics.get("PolicyRejected") == 1 for each in said)
    assert all("levels.warning_within" in " ".join(each.warnings) for each in said)
    [alert] = functions.alerts()
    assert alert["kind"] == "PolicyRejected"
    assert "levels.warning_within" in alert["evidence"]["faults"][0]
    assert functions.asked() == [], "the last good policy stops all flips, the built-in one does not"


def test_a_policy_that_was_never_good_leaves_the_cautious_defaults(functions, lab):
    functions.deploy_policy("version: 7\n")
    lab.clock.advance(29)
    add_critical(lab, tags=AUTO)
    said = functions.watch("sweep")
    assert sorted(functions.kinds()) == ["BurstBalanceDraining", "PolicyRejected"]
    assert functions.asked() == []
    assert "built-in defaults, without flips" in said.warnings[0]


def test_a_deleted_policy_leaves_the_last_good_one_also_after_a_cold_start(functions, lab):
    functions.deploy_policy(NO_FLIPS)
    lab.clock.advance(29)
    functions.tick()
    functions.ssm.delete_parameter(Name="/burstwatch/burstwatch/policy")
    functions.end()
    add_exhausted(lab, tags=AUTO)
    for _ in range(6):
        functions.tick(1)
    assert functions.kinds().count("PolicyRejected") == 1
    assert functions.last.metrics["PolicyRejected"] == 1
    assert functions.asked() == []


def test_a_policy_that_comes_back_is_in_force_again_and_a_new_fault_is_told_anew(functions, lab):
    functions.tick()
    functions.push_policy(DOUBTFUL)
    lab.clock.advance(29)
    functions.tick()
    functions.push_policy("version: 1\n")
    lab.clock.advance(29)
    assert "PolicyRejected" not in functions.tick()[0].metrics
    functions.push_policy(DOUBTFUL.replace("soon", "later"))
    lab.clock.advance(29)
    functions.tick()
    assert functions.kinds() == ["PolicyRejected", "PolicyRejected"]


def test_while_parameter_store_is_down_a_warm_function_goes_on_as_before(functions, lab, monkeypatch):
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    functions.tick()
    for action in ("GetParameters", "GetParametersByPath"):
        lab.faults.add(Fault(action=action, code="InternalServerError", status=500))
    lab.clock.advance(301)
    volume_id = add_exhausted(lab, tags=AUTO)
    lab.clock.advance(299)
    said = functions.watch("sweep")
    assert said.of(volume_id)
    assert said.metrics["PolicyRejected"] == 1
    assert functions.kinds() == ["BurstBalanceExhausted"], "it passes by itself: nobody is called for it"
    assert len(functions.asked()) == 1


def test_where_parameter_store_never_answered_it_only_proposes(functions, lab, monkeypatch):
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    for action in ("GetParameters", "GetParametersByPath"):
        lab.faults.add(Fault(action=action, code="InternalServerError", status=500))
    add_exhausted(lab, tags=AUTO)
    said = functions.watch("sweep")
    assert said.metrics["NotStanding"] == 1
    assert functions.kinds() == ["BurstBalanceExhausted"]
    assert functions.asked() == []


def test_a_permission_to_read_the_policy_that_was_taken_away_is_told_to_people(functions, lab):
    functions.tick()
    lab.faults.add(Fault(action="GetParameters", code="AccessDeniedException", message="not authorized"))
    lab.clock.advance(240)
    functions.tick(1)
    functions.tick(1)
    [alert] = functions.alerts()
    assert alert["kind"] == "PolicyRejected"
    assert "ssm:GetParameters" in alert["evidence"]["faults"][0]


# ---- when AWS or we fail


def test_a_fleet_that_cannot_be_listed_is_said_and_swept_by_the_next_tick(functions, lab, monkeypatch):
    monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0)
    add_calm(lab)
    lab.faults.add(Fault(action="DescribeVolumes", kind="throttle", times=5))
    said = functions.watch("sweep")
    assert said.result["failures"] == 1
    assert "ec2:DescribeVolumes" in said.warnings[0]
    assert functions.ledger.roster() is None
    lab.clock.advance(60)
    assert functions.watch("focus").result["looked_at"] == 1


def test_volumes_that_cannot_be_read_are_counted(functions, lab):
    add_warning(lab)
    lab.faults.add(Fault(action="GetMetricData", code="AccessDenied", message="no", status=403))
    said = functions.watch("sweep")
    assert said.metrics["VolumesUnread"] == 1
    assert "cloudwatch:GetMetricData" in said.warnings[0]


def test_alerts_that_the_topic_does_not_take_wait_and_are_counted(functions, lab):
    add_warning(lab)
    lab.faults.add(Fault(action="Publish", code="AuthorizationError", message="no", status=403, times=1))
    said = functions.watch("sweep")
    assert (said.metrics["AlertsSent"], said.metrics["AlertsNotDelivered"]) == (0, 1)
    assert "sns" in said.warnings[0].lower()
    functions.tick(1)
    assert functions.kinds() == ["BurstBalanceDraining"]


def test_a_mistake_of_ours_about_one_volume_hides_no_other_and_fails_the_invocation(
    functions, lab, monkeypatch
):
    broken = add_critical(lab, "broken", tags=AUTO)
    fine = add_critical(lab, "fine", tags=AUTO)
    real = decide.consider

    def consider(assessment, *given, **named):
        if assessment.volume.volume_id == broken:
            raise ZeroDivisionError("division by zero")
        return real(assessment, *given, **named)

    monkeypatch.setattr(decide, "consider", consider)
    with pytest.raises(PassError, match=f"{broken} was not judged.*ZeroDivisionError"):
        functions.watch("sweep")
    said = functions.last
    assert said.of(fine)
    assert said.metrics["Ticks"] == 1
    assert [each["MessageGroupId"] for each in functions.asked()] == [fine]
    assert [alert["volume"]["volume_id"] for alert in functions.alerts()] == [fine]


def test_a_table_that_is_gone_fails_the_invocation_by_name(functions, lab):
    lab.tables.clear()
    add_warning(lab)
    with pytest.raises(Exception, match="burstwatch-ledger"):
        functions.watch("sweep")


# ---- what it says of itself


OF_A_QUIET_PASS = {
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


def test_a_quiet_pass_tells_how_the_fleet_is_and_counts_nothing_that_is_billed(functions, lab):
    add_calm(lab)
    functions.tick()
    assert functions.units == OF_A_QUIET_PASS


def test_every_metric_is_told_with_its_unit_when_there_is_something_to_tell(functions, lab):
    """A day on which everything happens."""
    functions.deploy_policy(RETURNS)
    lab.clock.advance(29)
    lab.faults.add(Fault(action="Publish", code="AuthorizationError", message="no", status=403, times=1))
    returning = add_critical(lab, "returning", tags=AUTO | {"burstwatch:target": "io1"})
    refused = add_critical(lab, "refused", tags=AUTO)
    failing = add_critical(lab, "failing", tags=AUTO)
    add(lab, "draining", "steady:1200", balance_pct=90, minutes=20)
    functions.watch("sweep")
    lab.fleet.modify(refused, volume_type="gp3")
    lab.faults.add(Fault(action="ModifyVolume", code="InvalidParameterValue", volume_ids=[failing]))
    functions.flip()
    lab.fleet.set_load(returning, "idle")
    lab.fleet.end_modification(returning)
    lab.faults.clear()
    for _ in range(30):
        functions.tick(1)
        functions.carry_out()
    assert modified(lab, returning) == ["io1", "gp2"]
    lab.fleet.change_settings(modify_outcome="stuck")
    add_exhausted(lab, "stuck", tags=AUTO)
    for _ in range(6):
        functions.tick(1)
        functions.carry_out()
    lab.clock.advance(6 * 3600)
    functions.watch("focus")
    functions.watch("focus", time=instant(lab.clock.now_s() - 600))
    functions.settle({"source": "burstwatch.ddprobe", "time": instant(lab.clock.now_s())})
    ebs = {"source": "aws.ec2", "detail-type": "EBS Volume Notification"}
    functions.settle(ebs | {"time": instant(lab.clock.now_s() - 600)})
    put(functions.ssm, "/burstwatch/deployments/burstwatch", "{}")
    put(functions.ssm, "/burstwatch/deployments/another", "{}")
    functions.push_policy(DOUBTFUL)
    lab.fleet.settings = replace(lab.fleet.settings, lag_s=900, balance_every_s=300)
    add(lab, "late", "steady:1300", balance_pct=90, minutes=60)
    add(lab, "refilling", "steady:290", balance_pct=60, minutes=60)
    lab.clock.advance(270)
    functions.watch("sweep")
    functions.watch("focus")

    assert functions.units.keys() == ALL_METRICS
    ages = ("NewestDatapointAge", "WorstDatapointAge", "DatapointSpacing")
    in_seconds = dict.fromkeys(("SoonestTimeToEmpty", *ages), "Seconds")
    others = in_seconds | {"LowestBurstBalance": "Percent"}
    assert functions.units == dict.fromkeys(ALL_METRICS, "Count") | others


def test_the_numbers_are_those_of_the_fleet(functions, lab):
    add_calm(lab)
    add_critical(lab)
    said = functions.watch("sweep")
    assert {name: said.metrics[name] for name in ("VolumesWatched", "VolumesOk", "VolumesCritical")} == {
        "VolumesWatched": 2,
        "VolumesOk": 1,
        "VolumesCritical": 1,
    }
    # 33 % at 17:59 is 1,782,000 credits; 2,700 a second leave: dry 660 s after, which is 600 s from now
    assert (said.metrics["LowestBurstBalance"], said.metrics["SoonestTimeToEmpty"]) == (33, 600)
    [blob] = said.blobs
    [block] = blob["_aws"]["CloudWatchMetrics"]
    assert (block["Namespace"], block["Dimensions"]) == ("Burstwatch", [["service"]])
    assert blob["service"] == functions.service


def test_a_focus_tick_tells_of_the_whole_fleet_as_well(functions, lab):
    add_calm(lab)
    add_calm(lab, "other")
    add_warning(lab)
    functions.tick()
    [said] = functions.tick(1)
    assert (said.metrics["VolumesWatched"], said.metrics["VolumesOk"], said.metrics["VolumesWarning"]) == (
        3,
        2,
        1,
    )


def test_before_the_first_whole_sweep_nobody_knows_how_many_volumes_are_well(functions, lab):
    add_calm(lab)
    said = functions.watch("focus")
    assert not {"VolumesWatched", "VolumesOk"} & said.metrics.keys()


def test_flipped_volumes_and_stuck_ones_are_counted(functions, lab):
    lab.fleet.change_settings(modify_outcome="stuck")
    add_critical(lab, tags=AUTO)
    functions.tick()
    functions.flip()
    [said] = functions.tick(1)
    assert (said.metrics["VolumesFlipped"], said.metrics["FlipsStuck"]) == (1, 0)
    lab.clock.advance(6 * 3600)
    [said] = [functions.watch("focus")]
    assert (said.metrics["VolumesFlipped"], said.metrics["FlipsStuck"]) == (1, 1)
    assert "FlipStuck" in functions.kinds()


def test_one_line_for_each_volume_about_which_something_is_to_be_said(functions, lab):
    add_calm(lab)
    volume_id = add_critical(lab, tags=AUTO)
    said = functions.watch("sweep")
    told = {line["volume_id"]: line for line in said.lines if "volume_id" in line}
    assert told.keys() == {volume_id}
    line = told[volume_id]
    assert (line["volume_level"], line["decision"], line["action_taken"]) == ("critical", "flip", "in_flight")
    assert line["reason"].startswith("critical: ")
    assert all({"level", "timestamp", "service", "function_request_id"} <= each.keys() for each in said.lines)


def test_an_operators_hold_on_everything_stops_the_asking_once_people_know(functions, lab):
    now_s = int(lab.clock.now_s())
    hold = Hold(volume_id=None, by="anna", reason="freeze", placed_at_s=now_s, until_s=now_s + 3600)
    functions.ledger.place_hold(hold)
    add_critical(lab, tags=AUTO)
    functions.tick()
    functions.flip()
    functions.tick(1)
    assert functions.asked() == []
    assert sorted(functions.kinds()) == ["BurstBalanceDraining", "FlipRefused"]
    assert asked(lab) == 0


def test_many_refused_volumes_do_not_hold_up_the_request_for_a_new_one(functions, lab, monkeypatch):
    """A pass requests again what was refused for a few volumes only, and in turn for all."""
    functions.deploy_policy("version: 1\nflip:\n  fleet_cap: 1\n")
    lab.clock.advance(29)
    monkeypatch.setattr("burstwatch.engine.dispatch._MOST_WAITING", 2, raising=False)
    volumes = [add_exhausted(lab, f"ci-{number}", tags=AUTO) for number in range(6)]
    functions.tick()
    while functions.carry_out():
        pass
    assert asked(lab) == 1
    refused = {volume_id for volume_id in volumes if not modified(lab, volume_id)}
    urgent = add_critical(lab, "urgent", tags=AUTO)
    functions.tick(4)
    requested = {each["MessageGroupId"] for each in functions.asked()}
    assert urgent in requested
    assert len(requested & refused) == 2
    seen = set(requested)
    for _ in range(20):
        functions.tick(1)
        found = {each["MessageGroupId"] for each in functions.asked()}
        assert len(found & refused) <= 2
        seen |= found
    assert refused <= seen


def test_volumes_that_ec2_does_not_describe_count_as_unread(functions, lab):
    """Whoever revokes the permission to describe must not make the watchdog blind in silence."""
    add_critical(lab, tags=AUTO)
    add_calm(lab)
    assert functions.watch("sweep").metrics["VolumesUnread"] == 0
    lab.faults.add(Fault(action="DescribeVolumes", code="UnauthorizedOperation", message="no", status=403))
    [focus] = functions.tick(1)
    assert focus.metrics["VolumesUnread"] == 1
    sweep, *_ = functions.tick(4)
    assert sweep.metrics["VolumesUnread"] == 2
    assert not sweep.metrics["VolumesCritical"], "what is remembered is not told as if it were seen"

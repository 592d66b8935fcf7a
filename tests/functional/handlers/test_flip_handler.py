"""The flip function as SQS invokes it: over real HTTP, against the lab and a FIFO queue."""

import json
from types import SimpleNamespace

import pytest

from burstlab.fake_aws.faults import Fault
from burstwatch.adapters.aws.ec2_modify import Ec2Modifier
from burstwatch.adapters.aws.flip_queue import FlipQueue
from burstwatch.core.ledger.flip_state import Hold
from burstwatch.handlers import flip
from support.builders import functions as some_functions_module
from support.builders.functions import (
    AUTO,
    DeployedFunctions,
    a_message,
    failed_message_ids,
)
from support.cli.cli_session import (
    CliSession,
    add_critical,
    add_exhausted,
    count_modify_calls,
    modification_targets,
)

NO_FLIPS = "version: 1\nmode:\n  highest: propose\n"
NOT_WATCHED = "resources:\n  ebs:\n    watch: false\n  efs:\n    watch: true\n"
RETURNS = "version: 1\nflip_back:\n  return: always\n  dwell: 5m\n  calm_for: 5m\n"


def advance_time_in(monkeypatch, owner, name, *, left_ms):
    """When this is called, no more of the invocation is left than this."""
    real = getattr(owner, name)

    def slow(*args, **kwargs):
        context.left_ms = left_ms
        return real(*args, **kwargs)

    context = SimpleNamespace(left_ms=some_functions_module.TIME_LEFT_MS)
    a_context = some_functions_module.a_lambda_context

    def a_timed_context(*args):
        result = a_context(*args)
        result.get_remaining_time_in_millis = lambda: context.left_ms
        return result

    monkeypatch.setattr(owner, name, slow)
    monkeypatch.setattr(some_functions_module, "a_lambda_context", a_timed_context)


def place_hold(functions, volume_id=None):
    now_s = int(functions.lab.clock.now_s())
    functions.ledger.place_hold(
        Hold(volume_id=volume_id, by="anna", reason="freeze", placed_at_s=now_s, until_s=now_s + 3600)
    )


def single_line(output, volume_id):
    """The last line about a volume: the outcome of its flip."""
    return output.lines_about(volume_id)[-1]


def test_the_kill_switch_of_an_operator_stops_a_flip_that_was_requested(
    functions, lab, flip_candidate, tmp_path, monkeypatch, capsys
):
    cli = CliSession(tmp_path, monkeypatch, capsys)
    cli.set(**lab.environment)
    held = cli.run("hold", "--all", "--for", "1h", "--reason", "INC-42")
    assert (held.code, "This reaches stack burstwatch in us-east-1" in held.out) == (0, True)

    output = functions.flip()

    assert modification_targets(lab, flip_candidate) == []
    assert single_line(output, flip_candidate)["error_code"] == "held"
    assert cli.run("release", "--all").code == 0
    assert functions.ledger.holds(lab.clock.now_s()) == []


def assert_dropped(functions, output, volume_id):
    """Nothing was modified, nothing is tried again, no one is alerted, and the log says why."""
    assert (count_modify_calls(functions.lab), failed_message_ids(output)) == (0, set())
    line = single_line(output, volume_id)
    assert (line["action_taken"], "needed" in line["message"]) == ("none", True)
    assert functions.alert_kinds() == []


def test_a_request_is_carried_out_once_and_its_completion_is_reported(functions, lab, flip_candidate):
    output = functions.flip()
    assert (modification_targets(lab, flip_candidate), failed_message_ids(output)) == (["gp3"], set())
    assert functions.alert_kinds() == ["VolumeFlipped"]
    assert (output.metrics["Flips"], output.metrics["AlertsSent"]) == (1, 0)
    assert (
        single_line(output, flip_candidate)["action_taken"],
        single_line(output, flip_candidate)["decision"],
    ) == (
        "flipped",
        "out",
    )
    assert functions.history(flip_candidate) == ["intent", "accepted"]
    assert functions.requests() == []


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
def test_the_same_message_twice_is_one_modification(functions, lab, flip_candidate, is_cold):
    records = functions.requests()
    functions.flip(records)
    if is_cold:
        functions.end_invocation()
    lab.clock.advance(60)
    output = functions.flip([record | {"receiptHandle": ""} for record in records])
    assert (count_modify_calls(lab), failed_message_ids(output)) == (1, set())
    assert single_line(output, flip_candidate)["action_taken"] == "in_flight"
    assert "Flips" not in output.metrics


def test_the_same_message_twice_in_one_batch_is_one_modification(functions, lab, flip_candidate):
    records = functions.requests()
    output = functions.flip(records * 2)
    assert (count_modify_calls(lab), output.metrics["Flips"]) == (1, 1)


def test_a_message_that_comes_after_the_modification_is_over_does_nothing(functions, lab, flip_candidate):
    records = functions.requests()
    functions.flip(records)
    lab.fleet.end_modification(flip_candidate)
    lab.clock.advance(60)
    output = functions.flip([record | {"receiptHandle": ""} for record in records])
    assert (count_modify_calls(lab), failed_message_ids(output)) == (1, set())
    assert "Flips" not in output.metrics


def test_ten_requests_of_a_batch_are_ten_modifications(functions, lab):
    ids = {add_critical(lab, f"ci-{number}", tags=AUTO) for number in range(10)}
    functions.watch("sweep")
    output = functions.flip()
    assert (output.metrics["Flips"], count_modify_calls(lab)) == (10, 10)
    assert {line["volume_id"] for line in output.lines if line.get("action_taken") == "flipped"} == ids
    assert functions.alert_kinds().count("VolumeFlipped") == 10


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("", "it is not JSON"),
        ("{}", "'schema' is missing"),
        ("[]", "is not an object"),
        ('{"schema": "burstwatch.flip_request/v2"}', "not burstwatch.flip_request/v1"),
        ("\x00" * 9000, "it is not JSON"),
        ("[" * 20_000, "it is not JSON"),
        ("[" * 100_000, "longer than 25,000 characters"),
    ],
)
def test_a_poison_message_fails_alone_and_the_others_go_on(functions, lab, flip_candidate, body, names):
    poison = a_message(body, group="vol-00000000000000bad")
    [good] = functions.requests()
    output = functions.flip([poison, good])
    assert failed_message_ids(output) == {poison["messageId"]}
    assert modification_targets(lab, flip_candidate) == ["gp3"]
    assert output.metrics["FlipsFailed"] == 1
    [error] = [line for line in output.lines if line["level"] == "ERROR"]
    assert names in error["message"]
    assert error["volume_id"] == "vol-00000000000000bad"
    assert len(error["message"]) < 500


def test_behind_a_failed_message_only_those_of_its_volume_wait(functions, lab):
    held, free = (add_critical(lab, name, tags=AUTO) for name in ("held", "free"))
    functions.watch("sweep")
    records = {record["attributes"]["MessageGroupId"]: record for record in functions.requests()}
    poison = a_message("?", group=held)
    output = functions.flip([poison, records[held], records[free]])
    assert failed_message_ids(output) == {poison["messageId"], records[held]["messageId"]}
    assert (modification_targets(lab, held), modification_targets(lab, free)) == ([], ["gp3"])
    functions.flip()
    assert modification_targets(lab, held) == ["gp3"]


def test_an_unreadable_volume_makes_its_message_come_again_and_holds_up_no_other(functions, lab):
    unread, fine = (add_critical(lab, name, tags=AUTO) for name in ("unread", "fine"))
    functions.watch("sweep")
    lab.faults.add(Fault(action="DescribeVolumes", kind="throttle", volume_ids=[unread]))
    output = functions.flip()
    assert len(failed_message_ids(output)) == 1
    assert (modification_targets(lab, unread), modification_targets(lab, fine)) == ([], ["gp3"])
    assert single_line(output, unread)["level"] == "ERROR"
    assert "RequestLimitExceeded" in output.text
    lab.faults.clear()
    output = functions.flip()
    assert failed_message_ids(output) == set()
    assert modification_targets(lab, unread) == ["gp3"]


def test_a_message_that_is_too_old_is_dropped_and_that_is_reported(functions, lab, flip_candidate):
    """The policy's act_lead is 8 minutes."""
    records = functions.requests()
    lab.clock.advance(481)
    output = functions.flip(records)
    assert (count_modify_calls(lab), failed_message_ids(output)) == (0, set())
    assert "requested 8 min ago, too long" in single_line(output, flip_candidate)["message"]
    assert output.metrics["FlipsFailed"] == 1
    assert functions.requests() == []


def test_a_message_of_eight_minutes_is_still_carried_out(functions, lab, flip_candidate):
    records = functions.requests()
    lab.clock.advance(480)
    functions.flip(records)
    assert modification_targets(lab, flip_candidate) == ["gp3"]


def test_by_the_events_clock_a_request_is_of_the_time_of_its_tick(functions, lab, flip_candidate):
    functions.clock = "event"
    records = functions.requests()
    lab.clock.advance(3600)
    functions.flip(records)
    assert modification_targets(lab, flip_candidate) == ["gp3"]
    [alert] = functions.alerts()
    assert alert["time"] == "2026-11-20T18:00:00Z"


def test_a_volume_that_is_gone_fails_and_does_not_come_again(functions, lab, flip_candidate):
    records = functions.requests()
    lab.fleet.remove(flip_candidate)
    output = functions.flip(records)
    assert failed_message_ids(output) == set()
    assert single_line(output, flip_candidate)["error_code"] == "InvalidVolume.NotFound"
    assert output.metrics["FlipsFailed"] == 1


def test_a_request_that_was_given_up_is_sent_again_a_minute_later(functions, flip_candidate):
    """SQS drops what has a deduplication id that it knows, for five of the eight minutes that a flip has."""
    [given_up] = functions.requested_flips()
    functions.watch()
    assert functions.requested_flips() == [], "the same minute"
    functions.tick(1)
    [again] = functions.requested_flips()
    assert again["MessageDeduplicationId"] != given_up["MessageDeduplicationId"]


@pytest.mark.parametrize("is_given_up", [False, True], ids=["tried again", "given up"])
def test_after_three_minutes_of_throttling_the_flip_follows_within_a_minute_and_once(
    functions, lab, flip_candidate, is_given_up
):
    lab.faults.add(Fault(action="DescribeVolumes", kind="throttle"))
    for _ in range(3):
        output = functions.run_flip_requests()
        assert output is None or failed_message_ids(output), "watch asks for nothing while it cannot read"
        if is_given_up:
            functions.requested_flips()
        functions.tick(1)
    assert count_modify_calls(lab) == 0
    lab.faults.clear()
    functions.tick(1)
    functions.run_flip_requests()
    assert modification_targets(lab, flip_candidate) == ["gp3"]
    for _ in range(5):
        functions.tick(1)
        functions.run_flip_requests()
    assert count_modify_calls(lab) == 1


def test_a_request_that_failed_is_put_back_for_a_minute(functions, lab, flip_candidate, monkeypatch):
    """The queue's own time-out is five minutes, and until then its volume's other requests wait."""
    put_back = []
    monkeypatch.setattr(FlipQueue, "put_back", lambda _, handle, after_s: put_back.append((handle, after_s)))
    lab.faults.add(Fault(action="DescribeVolumes", kind="throttle"))
    [record] = functions.requests()
    functions.flip([record])
    assert put_back == [(record["receiptHandle"], 60)]
    lab.faults.clear()
    functions.flip()
    assert len(put_back) == 1


def test_a_poison_message_is_put_back_at_once_and_does_not_hold_up_its_group(functions, lab, monkeypatch):
    put_back = []
    monkeypatch.setattr(FlipQueue, "put_back", lambda _, handle, after_s: put_back.append(after_s))
    functions.invoke("flip", {"Records": [a_message("?") | {"receiptHandle": "a-handle"}]})
    assert put_back == [0]


def test_a_request_that_failed_slowly_is_still_put_back(functions, lab, flip_candidate, monkeypatch):
    lab.faults.add(Fault(action="DescribeVolumes", kind="throttle"))
    advance_time_in(monkeypatch, flip, "reassess_order", left_ms=10_000)
    [record] = functions.requests()
    output = functions.invoke("flip", {"Records": [record]})
    assert failed_message_ids(output) == {record["messageId"]}
    assert lab.faults.call_counts()["ChangeMessageVisibility"] == 1
    assert not any("ChangeMessageVisibility" in warning for warning in output.warnings)


def test_no_intent_is_recorded_that_there_is_no_time_to_send(functions, lab, flip_candidate, monkeypatch):
    advance_time_in(monkeypatch, flip, "execute_flips", left_ms=23_000)
    monkeypatch.setattr("burstwatch.adapters.aws.time_limit._FINISH_RESERVE_S", 0.0)
    [record] = functions.requests()
    output = functions.flip([record])
    assert (count_modify_calls(lab), failed_message_ids(output)) == (0, {record["messageId"]})
    assert functions.history(flip_candidate) == []
    assert "too little of the invocation is left to modify" in output.text


def test_a_modification_that_was_not_sent_for_lack_of_time_is_tried_again_quietly(
    functions, lab, flip_candidate, monkeypatch
):
    advance_time_in(monkeypatch, Ec2Modifier, "modify", left_ms=12_000)
    output = functions.flip()
    assert (count_modify_calls(lab), failed_message_ids(output)) == (0, set())
    assert functions.alert_kinds() == []
    assert "OutOfTimeError" in output.text


def test_a_request_that_cannot_be_put_back_still_fails(functions, lab, flip_candidate):
    functions.flip([a_message("?", group="warm-up")])
    lab.faults.add(Fault(action="ChangeMessageVisibility", code="AccessDenied", message="no", status=403))
    lab.faults.add(Fault(action="DescribeVolumes", kind="throttle"))
    [record] = functions.requests()
    output = functions.invoke("flip", {"Records": [record]})
    assert failed_message_ids(output) == {record["messageId"]}
    assert any("sqs:ChangeMessageVisibility" in warning for warning in output.warnings)


# ---- what happens between asking and flipping


def test_a_tag_that_was_removed_since_drops_the_request(functions, lab, flip_candidate):
    lab.fleet.set_tags(flip_candidate, {"burstwatch:mode": None})
    output = functions.flip()
    assert_dropped(functions, output, flip_candidate)


def test_one_line_of_policy_stops_what_was_requested(functions, lab, flip_candidate):
    functions.deploy_policy(NO_FLIPS)
    output = functions.flip()
    assert_dropped(functions, output, flip_candidate)


def test_a_volume_that_is_not_watched_any_more_is_not_flipped(functions, lab, flip_candidate):
    functions.deploy_policy(f"version: 1\n{NOT_WATCHED}")
    output = functions.flip()
    assert_dropped(functions, output, flip_candidate)


@pytest.mark.parametrize("is_everything", [True, False], ids=["everything", "the volume"])
def test_an_operators_hold_stops_what_was_requested(functions, lab, flip_candidate, is_everything):
    place_hold(functions, None if is_everything else flip_candidate)
    output = functions.flip()
    assert (count_modify_calls(lab), failed_message_ids(output)) == (0, set())
    assert single_line(output, flip_candidate)["error_code"] == "held"
    [alert] = functions.alerts()
    assert (alert["kind"], alert["evidence"]["guard"]) == ("FlipRefused", "held")
    assert "anna: freeze" in " ".join(alert["evidence"]["details"])


def test_a_flip_by_hand_in_the_meantime_is_not_made_again(functions, lab, flip_candidate):
    lab.fleet.modify(flip_candidate, volume_type="gp3")
    output = functions.flip()
    assert (count_modify_calls(lab), failed_message_ids(output)) == (0, set())
    assert len(modification_targets(lab, flip_candidate)) == 1
    assert output.metrics["FlipsRefused"] == 1


def test_a_second_deployment_refuses_to_flip_and_explains_why(functions, lab, flip_candidate, monkeypatch):
    records = functions.requests()
    lab.clock.advance(60)
    second = DeployedFunctions(lab=lab, monkeypatch=monkeypatch, name="another")
    text = second.flip([record | {"receiptHandle": ""} for record in records])
    assert (count_modify_calls(lab), failed_message_ids(text)) == (0, set())
    assert text.metrics["NotStanding"] == 1
    assert any("'burstwatch' has been in this account" in warning for warning in text.warnings)
    assert single_line(text, flip_candidate)["message"] == "not done: this deployment only proposes"


# ---- what AWS says


@pytest.mark.parametrize(
    ("fault", "done", "code", "kind"),
    [
        ({"code": "IncorrectModificationState"}, "refused", "IncorrectModificationState", "FlipRefused"),
        (
            {
                "code": "VolumeModificationRateExceeded",
                "message": "You've reached the maximum modification rate per volume limit. Wait until"
                " 2026-11-20T21:00:00Z before issuing another modification request.",
            },
            "refused",
            "VolumeModificationRateExceeded",
            "FlipRefused",
        ),
        ({"code": "MaxIOPSLimitExceeded"}, "refused", "MaxIOPSLimitExceeded", "FlipRefused"),
        ({"code": "InvalidParameterValue"}, "failed", "InvalidParameterValue", "FlipFailed"),
        (
            {"code": "UnauthorizedOperation", "message": "You are not authorized to perform this operation."},
            "failed",
            "UnauthorizedOperation",
            "FlipFailed",
        ),
    ],
)
def test_what_aws_refuses_is_reported_and_not_sent_again_by_the_queue(
    functions, lab, flip_candidate, fault, done, code, kind
):
    lab.faults.add(Fault(action="ModifyVolume", **fault))
    output = functions.flip()
    assert (count_modify_calls(lab), failed_message_ids(output)) == (1, set())
    line = single_line(output, flip_candidate)
    assert (line["action_taken"], line["error_code"]) == (done, code)
    assert output.metrics["FlipsRefused" if done == "refused" else "FlipsFailed"] == 1
    [alert] = functions.alerts()
    assert alert["kind"] == kind
    assert functions.history(flip_candidate) == ["intent", "not_done"]
    assert functions.ledger.states()[flip_candidate].flip is None


def test_a_permission_that_was_revoked_names_what_to_grant(functions, lab, flip_candidate):
    denied = Fault(
        action="ModifyVolume",
        code="UnauthorizedOperation",
        message=(
            "You are not authorized to perform this operation. User:"
            " arn:aws:sts::123456789012:assumed-role/burstwatch-flip/burstwatch-flip is not authorized to"
            " perform: ec2:ModifyVolume on resource:"
            f" arn:aws:ec2:us-east-1:123456789012:volume/{flip_candidate} because no identity-based policy"
            " allows the ec2:ModifyVolume action"
        ),
        status=403,
    )
    lab.faults.add(denied)
    output = functions.flip()
    assert "grant ec2:ModifyVolume" in single_line(output, flip_candidate)["message"]
    [alert] = functions.alerts()
    assert "grant ec2:ModifyVolume" in " ".join(alert["evidence"]["details"])
    for _ in range(10):
        functions.tick(1)
        functions.run_flip_requests()
    assert count_modify_calls(lab) == 4, "it pauses 1, 2 and 4 minutes before it asks AWS again"
    assert functions.alert_kinds() == ["FlipFailed"] * 2, "after the first, the second and the fourth"


def test_without_the_permission_to_read_the_instance_the_flip_is_refused_and_people_are_alerted(
    functions, lab, flip_candidate
):
    lab.faults.add(Fault(action="DescribeInstanceTypes", code="UnauthorizedOperation", status=403))
    output = functions.flip()
    assert (count_modify_calls(lab), failed_message_ids(output)) == (0, set())
    [alert] = functions.alerts()
    assert alert["kind"] == "FlipRefused"
    assert "is the bottleneck is not known: ec2:DescribeInstanceTypes failed" in alert["evidence"]["reason"]
    assert alert["action"].startswith("burstctl explain i-")
    lab.faults.clear()
    functions.tick(1)
    functions.run_flip_requests()
    assert modification_targets(lab, flip_candidate) == ["gp3"]


@pytest.mark.parametrize("action", ["DescribeInstances", "DescribeInstanceTypes"])
def test_an_instance_that_cannot_be_read_makes_the_message_come_again(functions, lab, flip_candidate, action):
    lab.faults.add(Fault(action=action, kind="throttle"))
    output = functions.flip()
    assert (count_modify_calls(lab), len(failed_message_ids(output))) == (0, 1)
    assert f"ec2:{action}" in output.text
    lab.faults.clear()
    output = functions.flip()
    assert (modification_targets(lab, flip_candidate), failed_message_ids(output)) == (["gp3"], set())


def test_throttled_by_aws_it_is_quiet_and_tried_again_by_a_later_tick(functions, lab, flip_candidate):
    lab.faults.add(Fault(action="ModifyVolume", kind="throttle", times=1))
    output = functions.flip()
    assert (single_line(output, flip_candidate)["action_taken"], failed_message_ids(output)) == (
        "failed",
        set(),
    )
    assert functions.alert_kinds() == []
    for _ in range(3):
        functions.tick(1)
        functions.run_flip_requests()
    assert modification_targets(lab, flip_candidate) == ["gp3"]


@pytest.mark.parametrize("kind", ["reset", "error"])
def test_an_answer_that_got_lost_is_settled_by_a_query_and_never_sent_again(
    functions, lab, flip_candidate, kind
):
    lab.faults.add(
        Fault(action="ModifyVolume", kind=kind, code="InternalError", status=500, after_effect=True)
    )
    output = functions.flip()
    assert (single_line(output, flip_candidate)["action_taken"], failed_message_ids(output)) == (
        "in_flight",
        set(),
    )
    lab.faults.clear()
    for _ in range(4):
        functions.tick(1)
        assert functions.requests() == []
    assert (count_modify_calls(lab), modification_targets(lab, flip_candidate)) == (1, ["gp3"])
    assert "VolumeFlipped" in functions.alert_kinds()


def test_a_request_that_never_reached_aws_is_requested_again_after_two_minutes(
    functions, lab, flip_candidate
):
    lab.faults.add(Fault(action="ModifyVolume", kind="reset", times=1))
    functions.flip()
    for _ in range(6):
        functions.tick(1)
        functions.run_flip_requests()
    assert (count_modify_calls(lab), modification_targets(lab, flip_candidate)) == (2, ["gp3"])


# ---- when something of ours fails


def test_alerts_about_flips_go_out_with_the_next_tick_and_what_the_topic_refuses_with_the_one_after(
    functions, lab, flip_candidate
):
    """Many flips at once are reported in one message: one for each flip would flood people."""
    functions.flip()
    lab.faults.add(Fault(action="Publish", code="AuthorizationError", message="no", status=403))
    *_, output = functions.tick(1)
    assert (output.metrics["AlertsSent"], output.metrics["AlertsNotDelivered"]) == (0, 1)
    assert output.warnings
    lab.faults.clear()
    *_, output = functions.tick(1)
    assert output.metrics["AlertsSent"] == 1
    assert functions.alert_kinds() == ["VolumeFlipped"]


def test_a_ledger_that_is_down_leaves_the_volume_alone_and_is_reported(functions, lab, flip_candidate):
    functions.flip([a_message("?", group="warm-up")])
    lab.faults.add(Fault(action="TransactWriteItems", code="AccessDeniedException", message="no"))
    output = functions.flip()
    assert (count_modify_calls(lab), len(failed_message_ids(output))) == (0, 1)
    line = single_line(output, flip_candidate)
    assert line["level"] == "ERROR"
    assert "dynamodb" in line["message"].lower()
    lab.faults.clear()
    functions.flip()
    assert modification_targets(lab, flip_candidate) == ["gp3"]


def test_an_internal_error_about_one_volume_is_loud_and_holds_up_no_other(functions, lab, monkeypatch):
    broken, fine = (add_critical(lab, name, tags=AUTO) for name in ("broken", "fine"))
    functions.watch("sweep")
    real = flip.execute_flips

    def carry_out(shell, orders, collector):
        if orders[0].volume_id == broken:
            raise ZeroDivisionError("division by zero")
        return real(shell, orders, collector)

    monkeypatch.setattr(flip, "execute_flips", carry_out)
    output = functions.flip()
    assert len(failed_message_ids(output)) == 1
    assert modification_targets(lab, fine) == ["gp3"]
    [line] = output.lines_about(broken)
    assert line["level"] == "ERROR"
    assert "ZeroDivisionError" in line["exception"]
    assert output.metrics["FlipsFailed"] == 1


@pytest.mark.parametrize("event", [{}, {"Records": []}, {"Records": "?"}, {"detail": 1}])
def test_an_event_that_is_not_a_batch_is_an_error(functions, lab, event):
    with pytest.raises(Exception, match="batch"):
        functions.invoke("flip", event)
    assert count_modify_calls(lab) == 0


# ---- the way back


def test_a_return_is_requested_and_executed_in_the_same_way(functions, lab):
    functions.deploy_policy(RETURNS)
    lab.clock.advance(29)
    volume_id = add_critical(lab, tags=AUTO | {"burstwatch:target": "io1"})
    functions.tick()
    functions.flip()
    lab.fleet.set_load(volume_id, "idle")
    lab.fleet.end_modification(volume_id)
    back = []
    while not back:
        functions.tick(1)
        back = functions.requests()
    assert json.loads(back[0]["body"])["direction"] == "back"
    output = functions.flip(back)
    assert (modification_targets(lab, volume_id), output.metrics["FlipsBack"]) == (["io1", "gp2"], 1)
    output = functions.flip([record | {"receiptHandle": ""} for record in back])
    assert (count_modify_calls(lab), failed_message_ids(output)) == (2, set())


def test_a_flipped_volume_that_is_not_watched_any_more_returns_and_is_not_flipped_again(functions, lab):
    functions.deploy_policy(RETURNS)
    lab.clock.advance(29)
    volume_id = add_critical(lab, tags=AUTO | {"burstwatch:target": "io1"})
    functions.tick()
    functions.flip()
    lab.fleet.end_modification(volume_id)
    functions.deploy_policy(f"{RETURNS}{NOT_WATCHED}")
    lab.fleet.set_load(volume_id, "idle")
    while not (back := functions.requests()):
        functions.tick(1)
    functions.flip(back)
    lab.fleet.end_modification(volume_id)
    functions.tick(1)
    functions.alert_kinds()
    lab.fleet.set_load(volume_id, "steady:3000")
    lab.fleet.set_balance(volume_id, 0.5)
    for _ in range(30):
        functions.tick(1)
    assert (functions.requests(), functions.alert_kinds()) == ([], [])
    assert modification_targets(lab, volume_id) == ["io1", "gp2"]


def test_a_tag_removed_before_the_return_leaves_the_volume_where_it_is(functions, lab):
    functions.deploy_policy(RETURNS)
    lab.clock.advance(29)
    volume_id = add_critical(lab, tags=AUTO | {"burstwatch:target": "io1"})
    functions.tick()
    functions.flip()
    lab.fleet.set_load(volume_id, "idle")
    lab.fleet.end_modification(volume_id)
    back = []
    while not back:
        functions.tick(5)
        back = functions.requests()
    lab.fleet.set_tags(volume_id, {"burstwatch:mode": None})
    output = functions.flip(back)
    assert (modification_targets(lab, volume_id), failed_message_ids(output)) == (["io1"], set())
    assert "its automatic return is not allowed" in single_line(output, volume_id)["message"]


def test_caps_hold_over_requests_of_several_invocations(functions, lab):
    functions.deploy_policy("version: 1\nflip:\n  fleet_cap: 1\n")
    lab.clock.advance(29)
    for number in range(3):
        add_exhausted(lab, f"ci-{number}", tags=AUTO)
    functions.watch("sweep")
    for record in functions.requests():
        functions.flip([record])
    assert count_modify_calls(lab) == 1
    assert sorted(functions.alert_kinds())[-3:] == ["FlipRefused", "FlipRefused", "VolumeFlipped"]

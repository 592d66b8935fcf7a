"""The deployed watchdog, from ``cdk bootstrap`` to ``cdk destroy``: one story, because deploying takes time.

What the local AWS cannot show is proved elsewhere: permissions and alarms on the template (tests/infra),
AWS's refusals by errors injected in the lab (tests/functional).
"""

import json
import time
from collections import Counter
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta

from botocore.exceptions import ClientError

from burstlab.deployed.deployed_stack import DeployedStack
from burstlab.deployed.local_aws import ROOT
from burstlab.model.volume import LabVolume
from support.runbooks.external_commands import page_command, without_comment
from support.stack.deployed_scenario import MINUTE_S, TIMEOUT_S, effects
from support.waiting import wait_until

POLICY = """\
version: 1
flip:
  target: io1
flip_back:
  dwell: 15m
  calm_for: 10m
"""
SECOND = """\
name: second
recipients:
  slack_secret: second-slack
"""


def test_the_deployed_watchdog_from_bootstrap_to_destroy(scenario, tmp_path):
    with logs_shown(scenario):
        the_app_is_deployed_as_it_is_and_a_second_deploy_changes_nothing(scenario)
        another_deployment_comes_later(scenario)
        a_policy_is_pushed_and_a_volume_held(scenario, tmp_path)
        draining_volume_is_flipped_despite_poison_message(scenario)
        the_second_deployment_has_only_proposed(scenario)
        deleted_policy_changes_nothing_and_alerts(scenario)
        flipped_volume_returns_under_pushed_policy(scenario)
        poison_message_is_dead_lettered(scenario)
        burstctl_shows_the_same_history(scenario)
        the_schedule_fires_by_itself_in_real_time(scenario)
        an_old_event_or_tick_changes_nothing(scenario)
        created_critical_volume_alerts_before_any_tick(scenario)
        in_an_account_of_ten_concurrent_executions_a_burst_of_events_delays_no_pass(scenario)
        slack_received_each_message_once(scenario)
        the_ledger_outlives_the_stack(scenario)


def the_app_is_deployed_as_it_is_and_a_second_deploy_changes_nothing(scenario):
    prepare = page_command("docs/deploying.md", "cdk bootstrap")
    deploy_only = page_command("docs/deploying.md", "cdk deploy")
    deploy_command = page_command("README.md", "cdk bootstrap && cdk deploy")
    assert deploy_command.text == f"{without_comment(prepare.text)} && {deploy_only.text}"
    scenario.paste(deploy_command)
    text = scenario.paste(
        page_command("docs/deploying.md", "git pull && make setup && cdk diff && cdk deploy")
    )
    assert (scenario.checkout.folder / "NEWS").exists()
    assert "(no changes)" in text
    scenario.stage = DeployedStack.find(scenario.aws, scenario.endpoint)
    assert set(scenario.stage.functions) == {"watch", "flip", "settle", "probe", "notify"}
    scenario.stage.set_schedule_state(is_on=False)
    scenario.stage.use_lab_endpoint()
    scenario.stage.set_slack_webhook(scenario.slack.url)


def another_deployment_comes_later(scenario):
    (scenario.checkout.folder / "stage.yaml").write_text(SECOND)
    secrets = scenario.aws.client("secretsmanager")
    secrets.create_secret(Name="second-slack", SecretString=json.dumps({"url": scenario.other_slack.url}))
    scenario.paste(page_command("docs/deploying.md", "cdk deploy --all -c stage=stage.yaml"))
    scenario.second = DeployedStack.find(scenario.aws, scenario.endpoint, name="second")
    scenario.second.set_schedule_state(is_on=False)
    scenario.second.use_lab_endpoint()


def a_policy_is_pushed_and_a_volume_held(scenario, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    scenario.burstctl("policy", "push", str(file), "--stack", "burstwatch", "--yes")
    scenario.burstctl("hold", scenario.frozen, "--for", "6h", "--reason", "audit snapshot")


def draining_volume_is_flipped_despite_poison_message(scenario):
    scenario.stage.client("sqs").send_message(
        QueueUrl=scenario.stage.flip_queue_url,
        MessageBody='{"schema": "burstwatch.flip_request/v9"}',
        MessageGroupId=scenario.reports,
        MessageDeduplicationId="poison",
    )
    scenario.stage.set_max_receive_count(2)
    scenario.run_until(21, on_tick=scenario.second.tick)
    scenario.wait_for_slack("builds", "flipped", "io1")
    scenario.wait_for_slack("cache", "flipped", "gp3")
    scenario.wait_for_slack("reports", "critical", "burstctl flip", scenario.reports)
    assert (scenario.volume_types(scenario.builds), scenario.volume_types(scenario.cache)) == (
        ["io1"],
        ["gp3"],
    )
    assert scenario.volume_types(scenario.reports) == []
    scenario.wait_for_slack("frozen", "was not flipped", "audit snapshot")
    assert scenario.volume_types(scenario.frozen) == []


def the_second_deployment_has_only_proposed(scenario):
    assert scenario.endpoint.faults.call_counts()["ModifyVolume"] == 2
    assert scenario.second.count_messages(scenario.second.flip_queue_url) == 0
    assert not [line for line in scenario.second.log_lines("flip") if "START" in line]
    text = list(scenario.second.log_records("watch"))
    assert any("'second' only proposes" in record.get("message", "") for record in text)
    assert any("NotStanding" in record for record in text)
    reported = scenario.other_slack.wait_for(
        lambda m: f"burstctl flip {scenario.builds}" in m.full_text, timeout_s=TIMEOUT_S
    )
    assert reported, "people can still do what it may not"


def deleted_policy_changes_nothing_and_alerts(scenario):
    parameters = scenario.aws.client("ssm")
    names = [scenario.stage.settings["BURSTWATCH_POLICY"] + end for end in ("", "-pushed")]
    parameters.delete_parameters(Names=names)
    for verb in ("watch", "settle", "flip"):  # a cold start each: nothing is remembered but in the ledger
        scenario.stage.update_environment(verb, {"LAB_COLD_START": "1"})
    scenario.run_until(40)
    scenario.wait_for_slack("the last valid one stays in force")


def flipped_volume_returns_under_pushed_policy(scenario):
    scenario.run_until(75)
    assert scenario.volume_types(scenario.builds) == ["io1", "gp2"]
    assert scenario.fleet.find(scenario.builds).volume_type == "gp2"
    out, back = scenario.fleet.modifications(scenario.builds)
    # the deployed policy would have kept it for an hour, and half an hour of calm
    assert timedelta(minutes=15) <= back.started_at - out.ended_at < timedelta(minutes=60)
    scenario.wait_for_slack("builds", "flipped back")
    assert scenario.volume_types(scenario.cache) == ["gp3"], "it costs no more than gp2 did, and stays"
    builds, cache, reports = (
        scenario.fleet.truth(item).stalled_s for item in (scenario.builds, scenario.cache, scenario.reports)
    )
    assert cache == 0
    assert builds < 0.25 * reports, "AWS takes longer over it than its half a bucket lasts"
    assert scenario.fleet.truth(scenario.reports).first_dry_at is not None, (
        "it was not flipped: the load was real"
    )
    scenario.wait_for_slack("reports", "exhausted")


def poison_message_is_dead_lettered(scenario):
    wait_until(lambda: scenario.stage.count_messages(scenario.stage.dead_letter_queue_url) == 1, within_s=150)
    assert scenario.stage.count_messages(scenario.stage.flip_queue_url) == 0
    scenario.stage.stuck_requests = 0
    assert any("burstwatch.flip_request/v9" in line for line in scenario.stage.log_lines("flip"))


def burstctl_shows_the_same_history(scenario):
    flip_entries = ["intent", "accepted", "reached"]
    reported = scenario.history(scenario.builds)
    assert effects(reported) == [*flip_entries, "intent", "accepted", "restored"]
    assert effects(scenario.history(scenario.cache)) == [*flip_entries, "stayed"]
    assert effects(scenario.history(scenario.reports)) == []
    accepted = [datetime.fromisoformat(entry["at"]) for entry in reported if entry["kind"] == "accepted"]
    assert accepted == [
        modification.started_at for modification in scenario.fleet.modifications(scenario.builds)
    ]
    arguments = scenario.burstctl("--policy", str(ROOT / "policy.yaml"), "history", scenario.builds)
    assert scenario.stage.ledger in arguments.stderr, "found by itself: the deployed stack's"
    assert "io1" in arguments.stdout
    assert "gp2" in arguments.stdout


def the_schedule_fires_by_itself_in_real_time(scenario):
    scenario.clock.advance(max(0.0, time.time() - scenario.clock.now_s()))
    scenario.clock.set_speed(1)
    for verb in scenario.stage.functions:
        scenario.stage.update_environment(verb, {"BURSTWATCH_CLOCK": "wall"})
    scenario.endpoint.faults.reset_calls()
    ticks = completed_invocations(scenario.stage.log_lines("watch"))
    scenario.stage.set_schedule_state(is_on=True)
    wait_until(lambda: "DescribeVolumes" in scenario.endpoint.faults.call_counts())
    wait_until(lambda: completed_invocations(scenario.stage.log_lines("watch")) > ticks)
    scenario.stage.set_schedule_state(is_on=False)
    # a pass that the schedule began, and a flip that it asked for, are not part of what comes next
    wait_until(lambda: check_no_modify_calls(scenario))
    scenario.stage.wait_until_idle()


def check_no_modify_calls(scenario, for_s=2.0):
    before = scenario.endpoint.faults.call_counts()
    time.sleep(for_s)
    return scenario.endpoint.faults.call_counts() == before


def an_old_event_or_tick_changes_nothing(scenario):
    before = [effects(scenario.history(volume_id)) for volume_id in (scenario.builds, scenario.cache)]
    scenario.endpoint.faults.reset_calls()
    old = [event.body for event in scenario.fleet.events if event.volume_id == scenario.builds][:3]
    assert [body["detail"]["result"] for body in old] == ["modifying", "optimizing", "completed"]
    for body in old:
        scenario.stage.put_events(body)
    scenario.stage.invoke_watch("focus", scenario.began_at.timestamp())
    wait_until(lambda: dropped_events(scenario.stage.log_lines("settle")) == len(old))
    scenario.stage.wait_until_idle()
    assert "ModifyVolume" not in scenario.endpoint.faults.call_counts()
    assert [effects(scenario.history(volume_id)) for volume_id in (scenario.builds, scenario.cache)] == before


def created_critical_volume_alerts_before_any_tick(scenario):
    scenario.clock.advance(MINUTE_S)
    scenario.fleet.add(
        LabVolume(
            size_gib=20,
            load="steady:20",
            tags={"Name": "etcd-9", "burstwatch:critical": "true"},
            created_at=scenario.clock.now(),
            attached_at=scenario.clock.now(),
        )
    )
    assert scenario.stage.forward_events()
    scenario.wait_for_slack("etcd-9", "critical")


def in_an_account_of_ten_concurrent_executions_a_burst_of_events_delays_no_pass(scenario):
    limits = scenario.aws.client("lambda").get_account_settings()["AccountLimit"]
    assert limits["ConcurrentExecutions"] == 10
    scenario.endpoint.faults.reset_calls()
    # not those of notify: before, on a slow machine, alerts sent at once start more functions than that
    throttles_before = scenario.stage.count_throttles("watch", "settle")
    at = f"{scenario.clock.now():%Y-%m-%dT%H:%M:%SZ}"
    burst = [attached(f"vol-{number:017x}", at, scenario) for number in range(400)]
    scenario.stage.put_events(*burst)
    for _ in range(5):
        scenario.stage.invoke_watch("focus")
    queue = scenario.stage.event_queue_arn.rpartition(":")[2]
    url = scenario.stage.client("sqs").get_queue_url(QueueName=queue)["QueueUrl"]
    wait_until(lambda: scenario.stage.count_messages(url) == 0)
    assert scenario.stage.count_throttles("watch", "settle") == throttles_before
    assert scenario.endpoint.faults.call_counts()["DescribeVolumes"] < 100


def attached(volume_id, at, scenario):
    """EBS's event for a volume that was attached to an instance."""
    arn = f"arn:aws:ec2:{scenario.aws.region}:{scenario.aws.account}:volume/{volume_id}"
    return {
        "version": "0",
        "id": f"00000000-0000-0000-0000-{volume_id.removeprefix('vol-')[-12:]}",
        "detail-type": "EBS Volume Notification",
        "source": "aws.ec2",
        "account": scenario.aws.account,
        "time": at,
        "region": scenario.aws.region,
        "resources": [arn],
        "detail": {"event": "attachVolume", "result": "attached", "cause": "", "request-id": volume_id},
    }


def slack_received_each_message_once(scenario):
    for slack in (scenario.slack, scenario.other_slack):
        assert [message.problems for message in slack.all_messages if message.problems] == []
        ids = [block["elements"][0]["text"] for m in slack.messages for block in contexts(m)]
        assert [message_id for message_id, times in Counter(ids).items() if times > 1] == []


def contexts(message):
    return [block for block in message.payload["blocks"] if block["type"] == "context"]


def the_ledger_outlives_the_stack(scenario):
    destroy = page_command("runbooks/Uninstall.md", "cdk destroy")
    assert page_command("docs/deploying.md", "cdk destroy").text == destroy.text
    scenario.paste(destroy)
    assert scenario.stage.ledger_table in scenario.aws.client("dynamodb").list_tables()["TableNames"]
    names = [
        function["FunctionName"] for function in scenario.aws.client("lambda").list_functions()["Functions"]
    ]
    assert not set(names) & set(scenario.stage.functions.values())
    reported = scenario.burstctl("--ledger", scenario.stage.ledger, "history", scenario.builds)
    assert "io1" in reported.stdout


def dropped_events(log):
    """How many events settle dropped because they were old."""
    return sum(json.loads(line).get("EbsEventsDropped", [0])[0] for line in log if line.startswith("{"))


def completed_invocations(log):
    """How many runs of a function are over."""
    return sum(line.startswith("REPORT") for line in log)


@contextmanager
def logs_shown(scenario):
    """Where a claim fails, what the functions said last is shown with it."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"at minute {scenario.run_minute()} of the story")
        for stage, verb in (
            (s, verb) for s in (scenario.stage, scenario.second) if s for verb in s.functions
        ):
            with suppress(ClientError):  # a stack that was destroyed says nothing
                lines = [
                    line[:400] for line in stage.log_lines(verb) if not line.startswith(("START", "END"))
                ]
                error.add_note("\n".join([f"--- {stage.name} {verb}", *lines[-20:]]))
        raise

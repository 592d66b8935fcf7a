"""The deployed watchdog, from ``cdk bootstrap`` to ``cdk destroy``: one story, because deploying takes time.

What the local AWS cannot show is proved elsewhere: permissions and alarms on the template (tests/infra),
AWS's refusals by errors injected in the lab (tests/functional).
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from tests.runbooks.a_checkout import Checkout, check_shown
from tests.runbooks.pasted import the_line, without_comment

from burstlab.deployed.deployed_stack import DeployedStage
from burstlab.deployed.local_aws import ROOT, LocalAws
from burstlab.fake_aws.server import Endpoint
from burstlab.fake_aws.slack import SlackReceiver
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume

BURSTCTL = [sys.executable, "-c", "import sys; from burstctl.main import main; sys.exit(main())"]
MINUTE_S = 60
LEAST_S = 1.0
"""Wall seconds a simulated minute takes at least: no more than sixty times as fast as life."""
PATIENCE_S = 90.0
"""How long is waited for what comes by itself: on a busy machine a cold start takes its time."""
AGO = timedelta(minutes=150)
"""How far in the past the story begins, so that its end is before now, where the schedule takes over."""
PAST = timedelta(minutes=40)
BUSY = "nab_c0d644*16+791100"
"""A recorded disk, sixteen times: 55 minutes at about 2,000 operations a second, then next to none."""

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


class Story:
    """Who plays, and what was seen of them."""

    def __init__(self, aws, endpoint, slack, other_slack, folder):
        self.checkout = Checkout(folder, environment_of(aws))
        self.aws, self.endpoint, self.slack, self.other_slack = aws, endpoint, slack, other_slack
        self.fleet, self.clock = endpoint.fleet, endpoint.clock
        self.stage = None
        self.second = None
        self.began_at = self.clock.now()
        # 64 GiB: an io1 of 50 IOPS a GiB is as fast as the burst, so the policy's io1 is what it gets
        self.builds = self.enter("builds", 64, 50, {"burstwatch:mode": "auto"})
        self.cache = self.enter("cache", 33, 60, {"burstwatch:mode": "auto", "burstwatch:target": "gp3"})
        self.reports = self.enter("reports", 33, 45, {})
        self.frozen = self.enter("frozen", 33, 55, {"burstwatch:mode": "auto"})

    def enter(self, name, size_gib, balance_pct, tags):
        volume = LabVolume(
            size_gib=size_gib,
            balance_pct=balance_pct,
            load=f"steady:{max(100, 3 * size_gib)}",
            tags={"Name": name, **tags},
            starts_at=self.began_at - PAST,
        )
        volume_id = self.fleet.add(volume)
        self.fleet.set_load(volume_id, BUSY, self.began_at)
        return volume_id

    def paste(self, line):
        """Run a page's command as it stands there; what it shows below it is what is seen."""
        code, said = self.checkout.paste(line, within_s=900)
        assert code == 0, "\n".join([f"$ {line.text}", *said[-30:]])
        check_shown(line, said)
        return "\n".join(said)

    def minute(self):
        """Where in the story we are."""
        return round((self.clock.now_s() - self.began_at.timestamp()) / MINUTE_S)

    def play(self, until, *, each=lambda: None):
        """Let time pass up to this minute of the story: the schedule ticks, EBS tells, functions run."""
        while self.minute() < until:
            began = time.monotonic()
            self.clock.advance(MINUTE_S)
            for event in self.stage.tell_events():
                self.is_settled_at_once(event)
            self.stage.stuck = 1 - self.stage.waiting(self.stage.dead_letters)
            self.stage.tick()
            each()
            time.sleep(max(0.0, LEAST_S - (time.monotonic() - began)))

    def is_settled_at_once(self, event):
        """A modification that completed is in the ledger before any tick."""
        detail = event["detail"]
        if (detail["event"], detail["result"]) == ("modifyVolume", "completed"):
            volume_id = event["resources"][0].rpartition("/")[2]
            wanted = "restored" if self.fleet.find(volume_id).volume_type == "gp2" else "reached"
            assert is_soon_so(lambda: wanted in effects(self.history(volume_id))), f"not {wanted}"

    def history(self, volume_id):
        told = self.burstctl(
            "--ledger",
            self.stage.ledger,
            "--policy",
            str(ROOT / "policy.yaml"),
            "history",
            volume_id,
            "--json",
        )
        return json.loads(told.stdout)["entries"]

    def burstctl(self, *arguments, exits=(0,)):
        done = subprocess.run(
            [*BURSTCTL, *arguments],
            env=self.stage.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode in exits, (
            f"burstctl {arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done

    def types(self, volume_id):
        """What became of a volume, as AWS has it."""
        return [modification.target.volume_type for modification in self.fleet.modifications(volume_id)]

    def heard(self, *words, within_s=PATIENCE_S):
        """The message in Slack in which all these words stand."""
        message = self.slack.wait_for(lambda m: all(word in m.words for word in words), within_s=within_s)
        told = "\n".join(m.text for m in self.slack.posted)
        assert message, f"no message with {words} among {len(self.slack.posted)}:\n{told}"
        return message


@pytest.fixture
def story(tmp_path):
    now = datetime.now(UTC)
    began_at = (now - AGO).replace(minute=(now - AGO).minute // 5 * 5, second=0, microsecond=0)
    clock = LabClock.by_hand(began_at - PAST)
    with (
        LocalAws(folder=tmp_path / "aws") as aws,
        Endpoint(LabFleet(clock, LabSettings(lag_s=60, account_id=aws.account))) as endpoint,
        SlackReceiver() as slack,
        SlackReceiver() as other_slack,
    ):
        clock.advance(PAST.total_seconds())
        yield Story(aws, endpoint, slack, other_slack, a_clone(tmp_path))


def environment_of(aws):
    """What somebody has who deploys there, and a cdk that asks nobody else."""
    silence = {"CDK_DISABLE_CLI_TELEMETRY": "true", "CDK_DISABLE_VERSION_CHECK": "true"}
    path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**aws.environment, **silence, "CDK_HOME": str(aws.folder), "PATH": path}


def a_clone(folder):
    """A folder to pull into: there is a commit above it that it has not."""
    upstream, clone = folder / "upstream", folder / "burstwatch"
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.com"]

    def git(*words):
        subprocess.run(["git", *who, *words], check=True, capture_output=True, timeout=60)

    git("init", "--quiet", upstream)
    git("-C", upstream, "commit", "--quiet", "--allow-empty", "--message", "old")
    git("clone", "--quiet", upstream, clone)
    (upstream / "NEWS").write_text("what an upgrade brings\n")
    git("-C", upstream, "add", "NEWS")
    git("-C", upstream, "commit", "--quiet", "--message", "new")
    return clone


def test_the_deployed_watchdog_tells_its_story(story, tmp_path):
    with logs_shown(story):
        the_app_is_deployed_as_it_is_and_a_second_deploy_changes_nothing(story)
        another_deployment_comes_later(story)
        a_policy_is_pushed_and_a_volume_held(story, tmp_path)
        what_drains_is_told_and_flipped_though_a_request_is_poison(story)
        the_second_deployment_has_only_proposed(story)
        a_policy_that_is_gone_changes_nothing_and_is_told(story)
        what_was_flipped_comes_back_as_the_pushed_policy_says(story)
        the_poison_ends_among_the_dead_letters(story)
        burstctl_tells_the_same_story_from_the_same_ledger(story)
        the_schedule_fires_by_itself_in_real_time(story)
        an_old_event_or_tick_changes_nothing(story)
        a_critical_volume_that_is_created_is_told_before_any_tick(story)
        in_an_account_of_ten_concurrent_executions_a_burst_of_events_delays_no_pass(story)
        slack_took_every_message_and_got_none_twice(story)
        the_ledger_outlives_the_stack(story)


def the_app_is_deployed_as_it_is_and_a_second_deploy_changes_nothing(story):
    prepare = the_line("docs/deploying.md", "cdk bootstrap")
    put_there = the_line("docs/deploying.md", "cdk deploy")
    both = the_line("README.md", "cdk bootstrap && cdk deploy")
    assert both.text == f"{without_comment(prepare.text)} && {put_there.text}"
    story.paste(both)
    said = story.paste(the_line("docs/deploying.md", "git pull && make setup && cdk diff && cdk deploy"))
    assert (story.checkout.folder / "NEWS").exists()
    assert "(no changes)" in said
    story.stage = DeployedStage.find(story.aws, story.endpoint)
    assert set(story.stage.functions) == {"watch", "flip", "settle", "notify"}
    story.stage.set_schedule(is_on=False)
    story.stage.look_at_the_lab()
    story.stage.tell_slack(story.slack.url)


def another_deployment_comes_later(story):
    (story.checkout.folder / "stage.yaml").write_text(SECOND)
    secrets = story.aws.client("secretsmanager")
    secrets.create_secret(Name="second-slack", SecretString=json.dumps({"url": story.other_slack.url}))
    story.paste(the_line("docs/deploying.md", "cdk deploy --all -c stage=stage.yaml"))
    story.second = DeployedStage.find(story.aws, story.endpoint, name="second")
    story.second.set_schedule(is_on=False)
    story.second.look_at_the_lab()


def a_policy_is_pushed_and_a_volume_held(story, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    story.burstctl("policy", "push", str(file), "--stack", "burstwatch", "--yes")
    story.burstctl("hold", story.frozen, "--for", "6h", "--reason", "audit snapshot")


def what_drains_is_told_and_flipped_though_a_request_is_poison(story):
    story.stage.client("sqs").send_message(
        QueueUrl=story.stage.flip_queue,
        MessageBody='{"schema": "burstwatch.flip_request/v9"}',
        MessageGroupId=story.reports,
        MessageDeduplicationId="poison",
    )
    story.stage.set_most_receives(2)
    story.play(21, each=story.second.tick)
    story.heard("builds", "flipped", "io1")
    story.heard("cache", "flipped", "gp3")
    story.heard("reports", "critical", "burstctl flip", story.reports)
    assert (story.types(story.builds), story.types(story.cache)) == (["io1"], ["gp3"])
    assert story.types(story.reports) == []
    story.heard("frozen", "flip refused", "audit snapshot")
    assert story.types(story.frozen) == []


def the_second_deployment_has_only_proposed(story):
    assert story.endpoint.faults.calls()["ModifyVolume"] == 2
    assert story.second.waiting(story.second.flip_queue) == 0
    assert not [line for line in story.second.log("flip") if "START" in line]
    said = list(story.second.log_records("watch"))
    assert any("'second' only proposes" in record.get("message", "") for record in said)
    assert any("NotStanding" in record for record in said)
    told = story.other_slack.wait_for(
        lambda m: f"burstctl flip {story.builds}" in m.words, within_s=PATIENCE_S
    )
    assert told, "people can still do what it may not"


def a_policy_that_is_gone_changes_nothing_and_is_told(story):
    parameters = story.aws.client("ssm")
    names = [story.stage.settings["BURSTWATCH_POLICY"] + end for end in ("", "-pushed")]
    parameters.delete_parameters(Names=names)
    for verb in ("watch", "settle", "flip"):  # a cold start each: nothing is remembered but in the ledger
        story.stage.change_settings(verb, {"LAB_COLD_START": "1"})
    story.play(40)
    story.heard("the last good one stays in force")


def what_was_flipped_comes_back_as_the_pushed_policy_says(story):
    story.play(100)
    assert story.types(story.builds) == ["io1", "gp2"]
    assert story.fleet.find(story.builds).volume_type == "gp2"
    out, back = story.fleet.modifications(story.builds)
    # the deployed policy would have kept it for an hour, and half an hour of calm
    assert timedelta(minutes=15) <= back.started_at - out.ended_at < timedelta(minutes=60)
    story.heard("builds", "flipped back")
    assert story.types(story.cache) == ["gp3"], "it costs no more than gp2 did, and stays"
    builds, cache, reports = (
        story.fleet.truth(each).stalled_s for each in (story.builds, story.cache, story.reports)
    )
    assert cache == 0
    assert builds < 0.25 * reports, "AWS takes longer over it than its half a bucket lasts"
    assert story.fleet.truth(story.reports).first_dry_at is not None, "nobody flipped it: the load was real"
    story.heard("reports", "exhausted")


def the_poison_ends_among_the_dead_letters(story):
    assert is_soon_so(lambda: story.stage.waiting(story.stage.dead_letters) == 1, within_s=150)
    assert story.stage.waiting(story.stage.flip_queue) == 0
    story.stage.stuck = 0
    assert any("burstwatch.flip_request/v9" in line for line in story.stage.log("flip"))


def burstctl_tells_the_same_story_from_the_same_ledger(story):
    there = ["intent", "accepted", "reached"]
    told = story.history(story.builds)
    assert effects(told) == [*there, "intent", "accepted", "restored"]
    assert effects(story.history(story.cache)) == [*there, "stayed"]
    assert effects(story.history(story.reports)) == []
    accepted = [datetime.fromisoformat(entry["at"]) for entry in told if entry["kind"] == "accepted"]
    assert accepted == [modification.started_at for modification in story.fleet.modifications(story.builds)]
    words = story.burstctl("--policy", str(ROOT / "policy.yaml"), "history", story.builds)
    assert story.stage.ledger in words.stderr, "found by itself: the deployed stack's"
    assert "io1" in words.stdout
    assert "gp2" in words.stdout


def effects(entries):
    """What was done to a volume, without what was thought and told of it."""
    return [entry["kind"] for entry in entries if entry["kind"] in EFFECTS]


EFFECTS = ("intent", "accepted", "reached", "stayed", "restored", "failed", "changed_by_others")


def the_schedule_fires_by_itself_in_real_time(story):
    story.clock.advance(max(0.0, time.time() - story.clock.now_s()))
    story.clock.set_speed(1)
    for verb in story.stage.functions:
        story.stage.change_settings(verb, {"BURSTWATCH_CLOCK": "wall"})
    story.endpoint.faults.forget_calls()
    ticks = ended(story.stage.log("watch"))
    story.stage.set_schedule(is_on=True)
    assert is_soon_so(lambda: "DescribeVolumes" in story.endpoint.faults.calls())
    assert is_soon_so(lambda: ended(story.stage.log("watch")) > ticks)
    story.stage.set_schedule(is_on=False)
    # a pass that the schedule began, and a flip that it asked for, are not part of what comes next
    assert is_soon_so(lambda: makes_no_call(story))
    story.stage.wait_until_quiet()


def makes_no_call(story, for_s=2.0):
    before = story.endpoint.faults.calls()
    time.sleep(for_s)
    return story.endpoint.faults.calls() == before


def an_old_event_or_tick_changes_nothing(story):
    before = [effects(story.history(volume_id)) for volume_id in (story.builds, story.cache)]
    story.endpoint.faults.forget_calls()
    old = [event.body for event in story.fleet.events if event.volume_id == story.builds][:3]
    assert [body["detail"]["result"] for body in old] == ["modifying", "optimizing", "completed"]
    for body in old:
        story.stage.tell_event(body)
    story.stage.watch("focus", story.began_at.timestamp())
    assert is_soon_so(lambda: dropped(story.stage.log("settle")) == len(old))
    story.stage.wait_until_quiet()
    assert "ModifyVolume" not in story.endpoint.faults.calls()
    assert [effects(story.history(volume_id)) for volume_id in (story.builds, story.cache)] == before


def a_critical_volume_that_is_created_is_told_before_any_tick(story):
    story.clock.advance(MINUTE_S)
    story.fleet.add(
        LabVolume(
            size_gib=20,
            load="steady:20",
            tags={"Name": "etcd-9", "burstwatch:critical": "true"},
            created_at=story.clock.now(),
            attached_at=story.clock.now(),
        )
    )
    assert story.stage.tell_events()
    story.heard("etcd-9", "critical")


def in_an_account_of_ten_concurrent_executions_a_burst_of_events_delays_no_pass(story):
    limits = story.aws.client("lambda").get_account_settings()["AccountLimit"]
    assert limits["ConcurrentExecutions"] == 10
    story.endpoint.faults.forget_calls()
    at = f"{story.clock.now():%Y-%m-%dT%H:%M:%SZ}"
    burst = [attached(f"vol-{number:017x}", at, story) for number in range(400)]
    story.stage.tell_event(*burst)
    for _ in range(5):
        story.stage.watch("focus")
    queue = story.stage.event_queue_arn.rpartition(":")[2]
    url = story.stage.client("sqs").get_queue_url(QueueName=queue)["QueueUrl"]
    assert is_soon_so(lambda: story.stage.waiting(url) == 0)
    assert story.stage.throttles() == 0
    assert story.endpoint.faults.calls()["DescribeVolumes"] < 100


def attached(volume_id, at, story):
    """EBS's event for a volume that was attached to an instance."""
    arn = f"arn:aws:ec2:{story.aws.region}:{story.aws.account}:volume/{volume_id}"
    return {
        "version": "0",
        "id": f"00000000-0000-0000-0000-{volume_id.removeprefix('vol-')[-12:]}",
        "detail-type": "EBS Volume Notification",
        "source": "aws.ec2",
        "account": story.aws.account,
        "time": at,
        "region": story.aws.region,
        "resources": [arn],
        "detail": {"event": "attachVolume", "result": "attached", "cause": "", "request-id": volume_id},
    }


def slack_took_every_message_and_got_none_twice(story):
    for slack in (story.slack, story.other_slack):
        assert [message.faults for message in slack.posted if message.faults] == []
        ids = [block["elements"][0]["text"] for m in slack.messages for block in contexts(m)]
        assert [told for told, times in Counter(ids).items() if times > 1] == []


def contexts(message):
    return [block for block in message.payload["blocks"] if block["type"] == "context"]


def the_ledger_outlives_the_stack(story):
    destroy = the_line("runbooks/Uninstall.md", "cdk destroy")
    assert the_line("docs/deploying.md", "cdk destroy").text == destroy.text
    story.paste(destroy)
    assert story.stage.table in story.aws.client("dynamodb").list_tables()["TableNames"]
    names = [
        function["FunctionName"] for function in story.aws.client("lambda").list_functions()["Functions"]
    ]
    assert not set(names) & set(story.stage.functions.values())
    told = story.burstctl("--ledger", story.stage.ledger, "history", story.builds)
    assert "io1" in told.stdout


def dropped(log):
    """How many events settle dropped because they were old."""
    return sum(json.loads(line).get("EbsEventsDropped", [0])[0] for line in log if line.startswith("{"))


def ended(log):
    """How many runs of a function are over."""
    return sum(line.startswith("REPORT") for line in log)


def is_soon_so(claim, within_s=PATIENCE_S):
    until = time.monotonic() + within_s
    while not (is_so := claim()) and time.monotonic() < until:
        time.sleep(0.1)
    return is_so


@contextmanager
def logs_shown(story):
    """Where a claim fails, what the functions said last is shown with it."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"at minute {story.minute()} of the story")
        for stage, verb in ((s, verb) for s in (story.stage, story.second) if s for verb in s.functions):
            with suppress(ClientError):  # a stack that was destroyed says nothing
                lines = [line[:400] for line in stage.log(verb) if not line.startswith(("START", "END"))]
                error.add_note("\n".join([f"--- {stage.name} {verb}", *lines[-20:]]))
        raise

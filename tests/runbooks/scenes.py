"""What each page is about, as it comes about in the lab; a page without a scene here finds a calm fleet.

A scene of an alert's page brings about that alert, and a scene of an alarm's page lets that alarm ring.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from io import BytesIO
from typing import Any

from a_moto_stack import MotoStack
from a_stack import a_stack, put
from a_stage import AUTO, HOST, VOLUME, Stage
from a_terminal import Asked
from operators_desk import START
from some_functions import Functions

from burstlab.fake_aws.faults import Fault
from burstlab.model.load import Cycle
from burstwatch.core.errors import BurstwatchError

SCENES: dict[str, Callable[[Stage], None]] = {}
LABS: dict[str, dict[str, Any]] = {
    "FlipStuck": {"modify_outcome": "stuck"},
    "FlipsStuck": {"modify_outcome": "stuck"},
}
"""What the lab of a page is like from the beginning."""

QUICK = {"modifying_s": 30.0, "modify_minutes_per_tib": 60.0}
"""A modification of a small volume that is over within minutes."""

CALM_S, DRAINING_S = 5 * 3600, 56 * 60
SINCE_AN_HOUR = Cycle(((CALM_S, 50.0, 150.0), (DRAINING_S + 12 * 3600, 400.0, 1200.0)))
"""Five hours of calm, then 1,600 operations a second: 100 GiB lose 1,300 credits/s, 1.44 % a minute."""

CI = {"role": "ci"}
MIGRATION = """\
version: 1
windows:
  migration:
    from: 2026-11-21T20:00Z
    to: 2026-11-22T06:00Z
    where: tag:role=ci
"""


def scene(*pages: str, **lab: Any) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    def keep(build: Callable[[Stage], None]) -> Callable[[Stage], None]:
        for page in pages:
            SCENES[page] = build
            if lab:
                LABS[page] = lab
        return build

    return keep


def add_draining(stage: Stage, name: str = "ci-7", **given: Any) -> None:
    """The volume that the page is about: critical, dry in about a dozen minutes."""
    stage.add_volume(name, SINCE_AN_HOUR, minutes=(CALM_S + DRAINING_S) // 60, **given)


def a_calm_fleet(stage: Stage) -> None:
    stage.add_volume("ci-7", "steady:120", tags=CI, minutes=60)
    stage.add("ci-8", "steady:90", tags=CI, minutes=60)
    stage.add("etcd-0", "steady:200", size_gib=80, minutes=60, tags={"burstwatch:critical": "true"})


@scene("README", **QUICK)
def a_fleet_of_six(stage: Stage) -> None:
    """One of each: draining fast, draining, draining slowly, calm, detached, and too large to run dry."""
    stage.write("policy.yaml", MIGRATION)
    stage.add("build-3", "steady:3000", size_gib=8, balance_pct=99, minutes=22)
    stage.add_volume("billing-db", "steady:2400", balance_pct=75, minutes=12, tags=CI)
    stage.add("ci-docker-7", "docker-loop", size_gib=33, balance_pct=75, minutes=55)
    stage.add("etcd-0", "steady:120", size_gib=33, minutes=12)
    stage.add("spare", attached=False)
    stage.add("lake", size_gib=2000)


@scene("docs/deploying", **QUICK)
def it_is_deployed(stage: Stage) -> None:
    a_calm_fleet(stage)
    stage.add_stack()
    parts = stage.add_parts()
    parts.expect_secret("burstwatch/slack")
    parts.add_retained("burstwatch-Ledger-1ABCDEFGHIJKL", role="MY_INSTANCE_ROLE", policy="burstwatch-probe")
    stage.write("policy.yaml", MIGRATION)
    stage.write("webhook.txt", "https://hooks.slack.example/services/T000/B000/example")


# ---- alerts about a balance


@scene("BurstBalanceDraining")
def it_drains(stage: Stage) -> None:
    add_draining(stage, tags=CI)
    stage.add("ci-8", "steady:1200", balance_pct=60, minutes=20, tags=CI)
    stage.add("billing-db", "steady:200", minutes=60)
    stage.watch()


@scene("BurstBalanceExhausted")
def it_is_dry(stage: Stage) -> None:
    stage.add_volume("ci-7", "steady:1600", balance_pct=8, minutes=20, tags=CI)
    stage.watch()


@scene("BurstBalanceRecovered")
def it_recovers(stage: Stage) -> None:
    add_draining(stage)
    stage.watch()
    stage.lab.fleet.set_load(VOLUME, "steady:40")
    for _ in range(13):
        stage.later(5)
        stage.watch()


@scene("TelemetryGap")
def nothing_is_told_of_it(stage: Stage) -> None:
    volume_id = stage.add_volume("spare-3", "steady:40", minutes=120)
    hidden = {"from_at": stage.lab.clock.now() - timedelta(hours=2), "only_balance": True}
    stage.lab.fleet.hide_metrics(volume_id, to_at=stage.lab.clock.now() + timedelta(days=1), **hidden)
    stage.add("ci-8", "steady:90", minutes=60)
    for _ in range(2):
        stage.watch()
        stage.later(5)


def a_report(stall: Mapping[str, Any]) -> dict[str, Any]:
    """What ddprobe puts on its bus."""
    return {
        "version": "0",
        "id": "00000000-0000-4000-8000-000000000000",
        "detail-type": "stall",
        "source": "burstwatch.ddprobe",
        "account": "123456789012",
        "time": "2026-11-20T18:00:00Z",
        "region": "us-east-1",
        "resources": [],
        "detail": stall,
    }


@scene("HostStallReported")
def its_host_reports_a_stall(stage: Stage) -> None:
    stage.add_volume("ci-7", "steady:250", minutes=60, tags=AUTO)
    functions = stage.add_stack()
    stall = {
        "schema": "burstwatch.probe/v1",
        "instance_id": HOST,
        "volume_id": VOLUME,
        "verdict": "crit",
        "cause": "throttled",
        "total_s": 8.25,
        "started_at": "2026-11-20T17:58:40Z",
        "top": [{"comm": "systemd-udevd", "wchan": "blk_mq_get_tag", "count": 3}],
    }
    functions.settle(a_report(stall))


@scene("CriticalVolumeOnBurstStorage")
def something_critical_lives_on_credits(stage: Stage) -> None:
    stage.add_volume("etcd-0", "steady:200", size_gib=80, minutes=60, tags={"burstwatch:critical": "true"})
    stage.watch()


@scene("AlertDigest")
def everything_drains_at_once(stage: Stage) -> None:
    add_draining(stage, tags=CI)
    for number in range(8, 18):
        stage.add(f"ci-{number}", "steady:1600", balance_pct=60 + number, minutes=20, tags=CI)
    stage.watch()


# ---- what people come back to: the scenes of a page's end


@scene("WasFlipped", **QUICK)
def it_was_flipped(stage: Stage) -> None:
    add_draining(stage, tags=CI)
    stage.burstctl("flip", VOLUME, "--yes")
    stage.later(60)
    stage.watch(acts=True)


@scene("FleetWasFlipped", **QUICK)
def a_fleet_was_flipped(stage: Stage) -> None:
    a_calm_fleet(stage)
    stage.burstctl("flip", "--where", "tag:role=ci", "--yes")
    stage.later(60)
    stage.watch(acts=True)


@scene("CriticalWasFlipped", **QUICK)
def what_is_critical_was_flipped(stage: Stage) -> None:
    a_calm_fleet(stage)
    stage.burstctl("flip", "--where", "tag:burstwatch:critical=true", "--yes")
    stage.later(60)
    stage.watch(acts=True)


@scene("WasModified", **QUICK)
def it_was_modified_without_burstctl(stage: Stage) -> None:
    add_draining(stage)
    stage.modify(VolumeType="gp3", Iops=3000, Throughput=128)
    stage.later(60)


@scene("WasReturned", **QUICK)
def it_was_returned(stage: Stage) -> None:
    stage.add_volume("ci-7", "steady:120", minutes=60)
    stage.burstctl("flip", VOLUME, "--to", "io1", "--yes")
    stage.later(60)
    stage.watch(acts=True)
    stage.burstctl("flip-back", VOLUME, "--yes")
    stage.later(60)
    stage.watch(acts=True)


# ---- alerts about flips


@scene("VolumeFlipped")
def it_is_flipped(stage: Stage) -> None:
    add_draining(stage, tags=AUTO)
    stage.watch(acts=True)
    stage.later(3)
    stage.watch(acts=True)


@scene("VolumeFlippedBack", **QUICK)
def it_is_on_its_way_back(stage: Stage) -> None:
    add_draining(stage, tags=AUTO | {"burstwatch:target": "io1"})
    stage.watch(acts=True)
    stage.lab.fleet.set_load(VOLUME, "steady:20", stage.lab.clock.now())
    stage.later(10)
    stage.watch(acts=True)
    stage.later(80)
    stage.watch(acts=True)


@scene("FlipRefused", **QUICK)
def a_guard_says_no(stage: Stage) -> None:
    add_draining(stage, tags=AUTO)
    stage.burstctl("flip", VOLUME, "--yes")
    stage.later(15)
    stage.watch(acts=True)
    stage.burstctl("flip-back", VOLUME, "--yes")
    for minutes in (12, 3):
        stage.later(minutes)
        stage.lab.fleet.set_balance(VOLUME, 12)
        stage.watch(acts=True)


@scene("FlipFailed")
def aws_does_not_make_it(stage: Stage) -> None:
    add_draining(stage, tags=AUTO)
    stage.lab.faults.add(
        Fault(
            action="ModifyVolume",
            kind="error",
            times=1,
            code="UnauthorizedOperation",
            message="You are not authorized to perform this operation.",
        )
    )
    stage.watch(acts=True)


@scene("FlipStuck", "FlipsStuck")
def aws_does_not_finish(stage: Stage) -> None:
    add_draining(stage, tags=AUTO)
    stage.watch(acts=True)
    stage.later(110)
    stage.watch(acts=True)


@scene("LeftOnTarget", **QUICK)
def it_may_not_come_back(stage: Stage) -> None:
    add_draining(stage, tags=AUTO | {"burstwatch:target": "io1"})
    stage.watch(acts=True)
    stage.lab.fleet.set_load(VOLUME, "steady:20", stage.lab.clock.now())
    stage.later(10)
    stage.watch(acts=True)
    stage.lab.fleet.set_tags(VOLUME, {"burstwatch:mode": None})
    stage.later(80)
    stage.watch(acts=True)


@scene("VolumeChangedByOthers", **QUICK)
def somebody_else_changes_it(stage: Stage) -> None:
    add_draining(stage, tags=AUTO)
    stage.watch(acts=True)
    stage.later(12)
    stage.watch(acts=True)
    stage.modify(VolumeType="gp2")
    stage.aws_says("cloudtrail", "LookupEvents", {"Events": [by("terraform", 12), by("burstwatch-flip", 0)]})
    for _ in range(2):
        stage.later(12)
        stage.watch(acts=True)


def by(user: str, minute: int) -> dict[str, Any]:
    """A ModifyVolume as CloudTrail tells it."""
    told = {"eventName": "ModifyVolume", "requestParameters": {"ModifyVolumeRequest": {"VolumeId": VOLUME}}}
    at = START + timedelta(minutes=minute)
    return {
        "EventName": "ModifyVolume",
        "EventTime": at,
        "Username": user,
        "CloudTrailEvent": json.dumps(told),
    }


WINDOWS = """\
version: 1
windows:
  nightly:
    cron: "{minute} {hour} * * *"
    zone: UTC
    duration: 4h
  release:
    from: 2026-12-01T18:00Z
    to: 2026-12-02T06:00Z
    where: tag:role=ci
"""


@scene("WindowStarting")
def a_window_is_near(stage: Stage) -> None:
    stage.write("policy.yaml", WINDOWS.format(minute=0, hour=19))
    stage.add_volume("orders-db", "steady:200", minutes=60, tags=AUTO | {"burstwatch:window": "nightly"})
    stage.add("orders-log", "steady:90", minutes=60, tags={"burstwatch:window": "nightly"})
    stage.watch(acts=True)


@scene("WindowMissed")
def a_window_is_too_near(stage: Stage) -> None:
    stage.write("policy.yaml", WINDOWS.format(minute=5, hour=18))
    stage.add_volume(
        "orders-db", "steady:200", size_gib=500, minutes=60, tags={"burstwatch:window": "nightly"}
    )
    stage.watch(acts=True)


@scene("PolicyRejected")
def a_bad_policy_is_deployed(stage: Stage) -> None:
    stage.add_volume("ci-7", "steady:120", minutes=60)
    functions = stage.add_stack()
    functions.tick()
    functions.deploy_policy("version: 1\nlevels:\n  warning_within: 1\n")
    functions.watch()
    stage.write("policy.yaml", "version: 1\nlevels:\n  warning_within: 45m\n")


@scene("PolicyPushed")
def a_policy_is_pushed_and_another_deployed(stage: Stage) -> None:
    stage.add_volume("ci-7", "steady:120", minutes=60)
    functions = stage.add_stack()
    stage.write("policy.yaml", "version: 1\nlevels:\n  warning_within: 45m\n")
    stage.burstctl("policy", "push", "policy.yaml", "--yes")
    functions.deploy_policy("version: 1\nflip:\n  cooldown: 1h\n")


# ---- planned jobs


@scene("BeforeAMigrationNight")
def a_night_is_near(stage: Stage) -> None:
    a_calm_fleet(stage)
    stage.add_stack()
    stage.write("policy.yaml", MIGRATION)


@scene("OnADesk", **QUICK)
def nothing_is_deployed(stage: Stage) -> None:
    a_calm_fleet(stage)


@scene("MigrationRuns")
def the_window_runs(stage: Stage) -> None:
    a_calm_fleet(stage)
    stage.write("policy.yaml", MIGRATION)
    stage.burstctl("window", "start", "migration", "--yes")


@scene("EtcdOnGp2")
def etcd_lives_on_credits(stage: Stage) -> None:
    stage.add_volume("etcd-0", "etcd", size_gib=20, minutes=180)
    stage.add("etcd-1", "etcd", size_gib=20, minutes=180, tags={"burstwatch:critical": "true"})
    stage.watch()


@scene("Uninstall", "ToUninstall", **QUICK)
def it_is_to_go(stage: Stage) -> None:
    a_calm_fleet(stage)
    stage.add_stack()
    stage.burstctl("flip", "--where", "tag:role=ci", "--yes")
    stage.later(60)
    stage.watch(acts=True)
    parts = stage.add_parts()
    parts.add_secret("burstwatch/slack")
    parts.add_retained("burstwatch-Ledger-1ABCDEFGHIJKL", role="MY_INSTANCE_ROLE", policy="burstwatch-probe")
    (stage.desk.directory / ".local/state/burstwatch").mkdir(parents=True, exist_ok=True)


@scene("MovingToGp3", **QUICK)
def a_fleet_is_to_move(stage: Stage) -> None:
    fortnight = 15 * 24 * 60
    stage.add_volume("ci-7", "nightly-batch:2", tags=CI, minutes=fortnight)
    stage.add("ci-8", "steady:90", tags=CI, minutes=fortnight)
    stage.add("billing-db", "steady:20", size_gib=200, minutes=fortnight)


@scene("MovedToGp3")
def a_fleet_has_moved(stage: Stage) -> None:
    stage.add("ci-7", "nightly-batch:2", volume_type="gp3", minutes=60)
    stage.add("ci-8", "steady:90", volume_type="gp3", minutes=60)


@scene("LessIoInstead")
def it_serves_more_than_it_earns(stage: Stage) -> None:
    stage.add_volume("ci-7", "steady:900", balance_pct=80, minutes=62)


# ---- alarms


def an_alarm_rings(stage: Stage, name: str) -> MotoStack:
    stage.add_stack()
    parts = stage.add_parts()
    parts.alarm(name)
    return parts


@scene("WatchdogSilent")
def the_watchdog_is_silent(stage: Stage) -> None:
    a_calm_fleet(stage)
    parts = an_alarm_rings(stage, "WatchdogSilent")
    functions = stage.functions
    assert functions is not None
    functions.tick()
    parts.disable_schedule("ScheduleFocus4D57D673")
    stage.later(15)

    def invoke(asked: Mapping[str, Any]) -> dict[str, Any]:
        said = functions.invoke("watch", json.loads(asked["body"]))
        return {
            "StatusCode": 200,
            "ExecutedVersion": "$LATEST",
            "Payload": BytesIO(json.dumps(said.result).encode()),
        }

    stage.aws_says("lambda", "Invoke", invoke)


@scene("WatchdogErrors")
def the_watchdog_fails(stage: Stage) -> None:
    a_calm_fleet(stage)
    parts = an_alarm_rings(stage, "WatchdogErrors-watch")
    stage.lab.faults.add(UNREADABLE)
    log_of_watch(stage, parts)
    stage.lab.faults.clear()


UNREADABLE = Fault(
    action="DescribeVolumes",
    code="UnauthorizedOperation",
    message="You are not authorized to perform this operation."
    " with an explicit deny in a service control policy",
)


def log_of_watch(stage: Stage, parts: MotoStack) -> None:
    """A tick, and what the function wrote about it in its log."""
    functions = stage.functions
    assert functions is not None
    with suppress(BurstwatchError):
        functions.watch("sweep")
    log_of(functions, parts, "WatchLogs")


def log_of(functions: Functions, parts: MotoStack, output: str) -> None:
    """What the function wrote when it last ran, a minute ago."""
    assert functions.last is not None
    for line in functions.last.lines:
        parts.log(output, functions.lab.clock.now_s() - 60, line)


@scene("WatchdogThrottled")
def the_account_is_full(stage: Stage) -> None:
    a_calm_fleet(stage)
    an_alarm_rings(stage, "WatchdogThrottled-watch")
    limit = {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 1000}
    stage.aws_says("lambda", "GetAccountSettings", {"AccountLimit": limit})
    used = [(56, 640.0), (57, 998.0), (58, 1000.0), (59, 1000.0)]
    points = [
        {"Timestamp": START - timedelta(minutes=60 - minute), "Maximum": most, "Unit": "Count"}
        for minute, most in used
    ]
    stage.aws_says(
        "cloudwatch", "GetMetricStatistics", {"Label": "ConcurrentExecutions", "Datapoints": points}
    )
    stage.aws_says("lambda", "PutFunctionConcurrency", {"ReservedConcurrentExecutions": 50})
    stage.aws_says("lambda", "DeleteFunctionConcurrency", {})


@scene("TicksDeadLettered")
def a_tick_is_given_up(stage: Stage) -> None:
    a_calm_fleet(stage)
    parts = an_alarm_rings(stage, "TicksDeadLettered")
    parts.send(
        "FailedEventsQueue",
        given_up(
            {"mode": "focus", "time": "2026-11-20T17:57:00Z"},
            "2026-11-20T17:58:03.120Z Task timed out after 60.00 seconds",
        ),
    )


def given_up(event: Mapping[str, Any], error: str) -> dict[str, Any]:
    """What Lambda sends to where failed events go."""
    return {
        "version": "1.0",
        "timestamp": "2026-11-20T17:58:04.211Z",
        "requestContext": {"condition": "RetriesExhausted", "approximateInvokeCount": 1},
        "requestPayload": event,
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "responsePayload": {"errorMessage": error},
    }


@scene("ProbeEventsDropped")
def reports_of_another_host_are_dropped(stage: Stage) -> None:
    a_calm_fleet(stage)
    parts = an_alarm_rings(stage, "ProbeEventsDropped")
    functions = stage.functions
    assert functions is not None
    stall = {
        "schema": "burstwatch.probe/v1",
        "instance_id": "i-0fedcba9876543210",
        "volume_id": VOLUME,
        "verdict": "crit",
        "cause": "throttled",
        "total_s": 8.25,
        "started_at": "2026-11-20T17:58:40Z",
        "top": [],
    }
    functions.settle(*[a_report(stall)] * 5)
    log_of(functions, parts, "SettleLogs")


@scene("EbsEventsDropped")
def events_wait_for_too_long(stage: Stage) -> None:
    a_calm_fleet(stage)
    parts = an_alarm_rings(stage, "EbsEventsDropped")
    functions = stage.functions
    assert functions is not None
    event = {
        "source": "aws.ec2",
        "detail-type": "EBS Volume Notification",
        "time": "2026-11-20T17:51:00Z",
        "resources": [f"arn:aws:ec2:us-east-1:123456789012:volume/{VOLUME}"],
        "detail": {"event": "attachVolume", "result": "attached"},
    }
    functions.settle(*[event] * 100)
    log_of(functions, parts, "SettleLogs")


@scene("FlipRequestsDeadLettered")
def a_request_is_given_up(stage: Stage) -> None:
    add_draining(stage, tags=AUTO)
    parts = an_alarm_rings(stage, "FlipRequestsDeadLettered")
    functions = stage.functions
    assert functions is not None
    functions.tick()
    [record] = functions.requests()
    stage.lab.faults.add(Fault(action="*", code="InternalServerError", message="Internal server error"))
    with suppress(Exception):
        functions.flip([record])
    stage.lab.faults.clear()
    parts.send("DeadFlipsQueue", record["body"], MessageGroupId=VOLUME, MessageDeduplicationId="1")
    log_of(functions, parts, "FlipLogs")


@scene("FlipRequestsWaiting")
def nobody_takes_requests(stage: Stage) -> None:
    add_draining(stage, tags=AUTO)
    an_alarm_rings(stage, "FlipRequestsWaiting").disable_source()


@scene("AlertsDeadLettered")
def an_alert_does_not_arrive(stage: Stage) -> None:
    a_calm_fleet(stage)
    parts = an_alarm_rings(stage, "AlertsDeadLettered")
    error = "1 not delivered: the secret burstwatch/slack does not exist: put the address of a webhook there"
    parts.send(
        "UndeliveredQueue",
        given_up({"Records": [{"Sns": {"Subject": "critical: ci-7, dry in about 12 min"}}]}, error),
    )
    parts.log(
        "NotifyLogs",
        stage.lab.clock.now_s() - 60,
        {"level": "ERROR", "message": "not delivered", "reason": error},
    )
    parts.add_secret("burstwatch/slack")
    stage.write("webhook.txt", "https://hooks.slack.example/services/T000/B000/example")


@scene("AlertsNotDelivered")
def an_alert_cannot_be_sent(stage: Stage) -> None:
    add_draining(stage)
    parts = an_alarm_rings(stage, "AlertsNotDelivered")
    stage.lab.faults.add(
        Fault(
            action="Publish",
            code="KMSDisabled",
            message="The request was rejected because the key is disabled.",
        )
    )
    stage.lab.faults.add(
        Fault(
            action="PublishBatch",
            code="KMSDisabled",
            message="The request was rejected because the key is disabled.",
        )
    )
    log_of_watch(stage, parts)
    stage.lab.faults.clear()


@scene("VolumesUnread")
def a_volume_cannot_be_read(stage: Stage) -> None:
    a_calm_fleet(stage)
    parts = an_alarm_rings(stage, "VolumesUnread")
    stage.lab.faults.add(
        Fault(
            action="GetMetricData",
            code="AccessDenied",
            message="User: arn:aws:sts::123456789012:assumed-role/burstwatch-watch/1 is not authorized to"
            " perform: cloudwatch:GetMetricData",
        )
    )
    log_of_watch(stage, parts)


@scene("DatapointsTooOld", lag_s=900)
def cloudwatch_is_behind(stage: Stage) -> None:
    a_calm_fleet(stage)
    an_alarm_rings(stage, "DatapointsTooOld")
    stage.write("policy.yaml", "version: 1\ncadence:\n  metric_lag: 15m\n")


@scene("FlipsFailed")
def flips_fail(stage: Stage) -> None:
    an_alarm_rings(stage, "FlipsFailed")
    aws_does_not_make_it(stage)


@scene("AnotherDeployment")
def two_are_deployed(stage: Stage) -> None:
    a_calm_fleet(stage)
    an_alarm_rings(stage, "AnotherDeployment")
    first_deployed(stage, "burstwatch", "51af3dc0-da77-11e4-872e-1234567db123")
    stage.later(20 * 24 * 60)
    a_stack(stage.lab, "second")
    first_deployed(stage, "second", "6ab2e4f0-d5f3-11f0-a1b2-0a1b2c3d4e5f")


def first_deployed(stage: Stage, name: str, stack_uuid: str) -> None:
    """What CloudFormation and the functions of a stack write about its first deploy."""
    ssm, path = stage.lab.client("ssm"), f"/burstwatch/deployments/{name}"
    put(ssm, f"{path}/since", name)
    put(ssm, f"{path}/{stack_uuid}/since", f"{stage.lab.clock.now_s():.3f}")


@scene("LowBurstBalance")
def cloudwatch_sees_a_low_balance(stage: Stage) -> None:
    add_draining(stage)
    stage.add_stack()
    stage.add_parts().alarm("WatchdogSilent")
    low = {
        "ContributorId": "9d0c3b1a",
        "ContributorAttributes": {"VolumeId": VOLUME},
        "StateReason": "Threshold Crossed: 1 datapoint [18.8] was less than or equal to the threshold (20.0)",
    }
    stage.aws_says("cloudwatch", "DescribeAlarmContributors", {"AlarmContributors": [low]})


# ---- the experiment


@scene("CreditResetExperiment", **QUICK)
def something_nobody_would_miss(stage: Stage) -> None:
    stage.add_volume("spare-1", "steady:5", size_gib=60, balance_pct=20, minutes=120)


@scene("ExperimentUnderWay", **QUICK)
def an_experiment_is_under_way(stage: Stage) -> None:
    something_nobody_would_miss(stage)
    stage.answer_burstctl(Asked("burstctl", ["experiment", "credit-reset", VOLUME], is_shown=True))
    stage.later(15)
    stage.watch()

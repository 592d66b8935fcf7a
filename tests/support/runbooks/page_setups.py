"""What each page is about, as it comes about in the lab; a page without a scene here finds a calm fleet.

A scene of an alert's page brings about that alert, and a scene of an alarm's page lets that alarm ring.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

from burstlab.fake_aws.faults import Fault
from burstlab.model.database import LabDatabase
from burstlab.model.file_system import LabFileSystem
from burstlab.model.instances.instance import InstanceBalances, LabInstance
from burstlab.model.loads.load import Cycle
from burstwatch.core.errors import BurstwatchError
from support.aws.fake_stack import deploy_stack, put_parameter
from support.builders.functions import DeployedFunctions
from support.cli.cli_session import START
from support.lab.instance_load import publish_load
from support.runbooks.moto_stack import MotoStack
from support.runbooks.page_environment import AUTO, HOST, VOLUME, PageEnvironment
from support.runbooks.pty_shell import ProgramCall

PAGE_SETUPS: dict[str, Callable[[PageEnvironment], None]] = {}
LAB_SETTINGS: dict[str, dict[str, Any]] = {
    "FlipStuck": {"modify_outcome": "stuck"},
    "FlipsStuck": {"modify_outcome": "stuck"},
}
"""What the lab of a page is like from the beginning."""

FAST_MODIFICATIONS = {"modifying_s": 30.0, "modify_minutes_per_tib": 60.0}
"""A modification of a small volume that is over within minutes."""

CALM_S, DRAINING_S = 5 * 3600, 56 * 60
DRAINING_FOR_AN_HOUR = Cycle(((CALM_S, 50.0, 150.0), (DRAINING_S + 12 * 3600, 400.0, 1200.0)))
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


def page_setup(
    *pages: str, **lab: Any
) -> Callable[[Callable[[PageEnvironment], None]], Callable[[PageEnvironment], None]]:
    def keep(build: Callable[[PageEnvironment], None]) -> Callable[[PageEnvironment], None]:
        for page in pages:
            PAGE_SETUPS[page] = build
            if lab:
                LAB_SETTINGS[page] = lab
        return build

    return keep


def add_draining(stage: PageEnvironment, name: str = "ci-7", **fields: Any) -> None:
    """The volume that the page is about: critical, empty in about a dozen minutes."""
    stage.add_volume(name, DRAINING_FOR_AN_HOUR, minutes=(CALM_S + DRAINING_S) // 60, **fields)


def a_calm_fleet(stage: PageEnvironment) -> None:
    stage.add_volume("ci-7", "steady:120", tags=CI, minutes=60)
    stage.add("ci-8", "steady:90", tags=CI, minutes=60)
    stage.add("etcd-0", "steady:200", size_gib=80, minutes=60, tags={"burstwatch:critical": "true"})


@page_setup("README", "docs/burstctl", **FAST_MODIFICATIONS)
def a_fleet_of_six(stage: PageEnvironment) -> None:
    """One of each: draining fast, draining, draining slowly, calm, detached, and too large to empty."""
    stage.write("policy.yaml", MIGRATION)
    stage.add("build-3", "steady:3000", size_gib=8, balance_pct=99, minutes=22)
    stage.add_volume("billing-db", "steady:2400", balance_pct=75, minutes=12, tags=CI)
    stage.add("ci-docker-7", "docker-loop", size_gib=33, balance_pct=75, minutes=55)
    stage.add("etcd-0", "steady:120", size_gib=33, minutes=12)
    stage.add("spare", attached=False)
    stage.add("lake", size_gib=2000)


@page_setup("docs/deploying", **FAST_MODIFICATIONS)
def deployed_stack(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    stage.add_stack()
    parts = stage.add_parts()
    parts.expect_secret("burstwatch/slack")
    parts.add_retained("burstwatch-Ledger-1ABCDEFGHIJKL", role="MY_INSTANCE_ROLE", policy="burstwatch-probe")
    stage.write("policy.yaml", MIGRATION)
    stage.write("webhook.txt", "https://hooks.slack.example/services/T000/B000/example")


# ---- alerts about a balance


DAILY_JOB = Cycle(((23 * 3600, 50.0, 150.0), (3600, 400.0, 1200.0)))
"""The same load for an hour of each day: it begins at 17:04, as on the seven days before."""


@page_setup("BurstBalanceDraining")
def draining_volume(stage: PageEnvironment) -> None:
    stage.add_volume("ci-7", DAILY_JOB, minutes=8 * 24 * 60 - 4, tags=CI)
    stage.add("ci-8", "steady:1200", balance_pct=60, minutes=20, tags=CI)
    stage.add("billing-db", "steady:200", minutes=60)
    stage.watch()


@page_setup("BurstBalanceExhausted")
def empty_volume(stage: PageEnvironment) -> None:
    stage.add_volume("ci-7", "steady:1600", balance_pct=8, minutes=20, tags=CI)
    stage.watch()


@page_setup("BurstBalanceRecovered")
def recovering_volume(stage: PageEnvironment) -> None:
    add_draining(stage)
    stage.watch()
    stage.lab.fleet.set_load(VOLUME, "steady:40")
    for _ in range(13):
        stage.advance_minutes(5)
        stage.watch()


@page_setup("TelemetryGap")
def volume_without_data(stage: PageEnvironment) -> None:
    volume_id = stage.add_volume("spare-3", "steady:40", minutes=120)
    hidden = {"from_at": stage.lab.clock.now() - timedelta(hours=2), "only_balance": True}
    stage.lab.fleet.hide_metrics(volume_id, to_at=stage.lab.clock.now() + timedelta(days=1), **hidden)
    stage.add("ci-8", "steady:90", minutes=60)
    for _ in range(2):
        stage.watch()
        stage.advance_minutes(5)


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


@page_setup("HostStallReported")
def host_stall_reported(stage: PageEnvironment) -> None:
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
    functions.probe(a_report(stall))


@page_setup("CriticalVolumeOnBurstStorage")
def critical_volume_on_burst_storage(stage: PageEnvironment) -> None:
    stage.add_volume("etcd-0", "steady:200", size_gib=80, minutes=60, tags={"burstwatch:critical": "true"})
    stage.watch()


@page_setup("AlertDigest")
def many_volumes_draining(stage: PageEnvironment) -> None:
    add_draining(stage, tags=CI)
    for number in range(8, 18):
        stage.add(f"ci-{number}", "steady:1600", balance_pct=60 + number, minutes=20, tags=CI)
    stage.watch()


# ---- what people come back to: the scenes of a page's end


@page_setup("WasFlipped", **FAST_MODIFICATIONS)
def flipped_volume(stage: PageEnvironment) -> None:
    add_draining(stage, tags=CI)
    stage.burstctl("flip", VOLUME, "--yes")
    stage.advance_minutes(60)
    stage.watch(acts=True)


@page_setup("FleetWasFlipped", **FAST_MODIFICATIONS)
def flipped_fleet(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    stage.burstctl("flip", "--where", "tag:role=ci", "--yes")
    stage.advance_minutes(60)
    stage.watch(acts=True)


@page_setup("CriticalWasFlipped", **FAST_MODIFICATIONS)
def flipped_critical_volume(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    stage.burstctl("flip", "--where", "tag:burstwatch:critical=true", "--yes")
    stage.advance_minutes(60)
    stage.watch(acts=True)


@page_setup("WasModified", **FAST_MODIFICATIONS)
def externally_modified_volume(stage: PageEnvironment) -> None:
    add_draining(stage)
    stage.modify(VolumeType="gp3", Iops=3000, Throughput=128)
    stage.advance_minutes(60)


@page_setup("WasReturned", **FAST_MODIFICATIONS)
def returned_volume(stage: PageEnvironment) -> None:
    stage.add_volume("ci-7", "steady:120", minutes=60)
    stage.burstctl("flip", VOLUME, "--to", "io1", "--yes")
    stage.advance_minutes(60)
    stage.watch(acts=True)
    stage.burstctl("flip-back", VOLUME, "--yes")
    stage.advance_minutes(60)
    stage.watch(acts=True)


# ---- alerts about flips


@page_setup("VolumeFlipped")
def flip_in_progress(stage: PageEnvironment) -> None:
    add_draining(stage, tags=AUTO)
    stage.watch(acts=True)
    stage.advance_minutes(3)
    stage.watch(acts=True)


@page_setup("VolumeFlippedBack", **FAST_MODIFICATIONS)
def return_in_progress(stage: PageEnvironment) -> None:
    add_draining(stage, tags=AUTO | {"burstwatch:target": "io1"})
    stage.watch(acts=True)
    stage.lab.fleet.set_load(VOLUME, "steady:20", stage.lab.clock.now())
    stage.advance_minutes(10)
    stage.watch(acts=True)
    stage.advance_minutes(80)
    stage.watch(acts=True)


@page_setup("FlipRefused", **FAST_MODIFICATIONS)
def refused_by_guard(stage: PageEnvironment) -> None:
    add_draining(stage, tags=AUTO)
    stage.burstctl("flip", VOLUME, "--yes")
    stage.advance_minutes(15)
    stage.watch(acts=True)
    stage.burstctl("flip-back", VOLUME, "--yes")
    for minutes in (12, 3):
        stage.advance_minutes(minutes)
        stage.lab.fleet.set_balance(VOLUME, 12)
        stage.watch(acts=True)


@page_setup("FlipFailed")
def failed_modification(stage: PageEnvironment) -> None:
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


@page_setup("FlipStuck", "FlipsStuck")
def stuck_modification(stage: PageEnvironment) -> None:
    add_draining(stage, tags=AUTO)
    stage.watch(acts=True)
    stage.advance_minutes(110)
    stage.watch(acts=True)


@page_setup("LeftOnTarget", **FAST_MODIFICATIONS)
def return_not_allowed(stage: PageEnvironment) -> None:
    add_draining(stage, tags=AUTO | {"burstwatch:target": "io1"})
    stage.watch(acts=True)
    stage.lab.fleet.set_load(VOLUME, "steady:20", stage.lab.clock.now())
    stage.advance_minutes(10)
    stage.watch(acts=True)
    stage.lab.fleet.set_tags(VOLUME, {"burstwatch:mode": None})
    stage.advance_minutes(80)
    stage.watch(acts=True)


@page_setup("VolumeChangedByOthers", **FAST_MODIFICATIONS)
def changed_by_others(stage: PageEnvironment) -> None:
    add_draining(stage, tags=AUTO)
    stage.watch(acts=True)
    stage.advance_minutes(12)
    stage.watch(acts=True)
    stage.modify(VolumeType="gp2")
    stage.stub_aws_response(
        "cloudtrail",
        "LookupEvents",
        {"Events": [identity_at("terraform", 12), identity_at("burstwatch-flip", 0)]},
    )
    for _ in range(2):
        stage.advance_minutes(12)
        stage.watch(acts=True)


def identity_at(user: str, minute: int) -> dict[str, Any]:
    """A ModifyVolume as CloudTrail records it."""
    reported = {
        "eventName": "ModifyVolume",
        "requestParameters": {"ModifyVolumeRequest": {"VolumeId": VOLUME}},
    }
    at = START + timedelta(minutes=minute)
    return {
        "EventName": "ModifyVolume",
        "EventTime": at,
        "Username": user,
        "CloudTrailEvent": json.dumps(reported),
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


@page_setup("WindowStarting")
def window_soon(stage: PageEnvironment) -> None:
    stage.write("policy.yaml", WINDOWS.format(minute=0, hour=19))
    stage.add_volume("orders-db", "steady:200", minutes=60, tags=AUTO | {"burstwatch:window": "nightly"})
    stage.add("orders-log", "steady:90", minutes=60, tags={"burstwatch:window": "nightly"})
    stage.watch(acts=True)


@page_setup("WindowMissed")
def window_too_soon(stage: PageEnvironment) -> None:
    stage.write("policy.yaml", WINDOWS.format(minute=5, hour=18))
    stage.add_volume(
        "orders-db", "steady:200", size_gib=500, minutes=60, tags={"burstwatch:window": "nightly"}
    )
    stage.watch(acts=True)


@page_setup("PolicyRejected")
def bad_policy_deployed(stage: PageEnvironment) -> None:
    stage.add_volume("ci-7", "steady:120", minutes=60)
    functions = stage.add_stack()
    functions.tick()
    functions.deploy_policy("version: 1\nlevels:\n  warning_within: 1\n")
    functions.watch()
    stage.write("policy.yaml", "version: 1\nlevels:\n  warning_within: 45m\n")


@page_setup("PolicyPushed")
def deployed_under_pushed_policy(stage: PageEnvironment) -> None:
    stage.add_volume("ci-7", "steady:120", minutes=60)
    functions = stage.add_stack()
    stage.write("policy.yaml", "version: 1\nlevels:\n  warning_within: 45m\n")
    stage.burstctl("policy", "push", "policy.yaml", "--yes")
    functions.deploy_policy("version: 1\nflip:\n  cooldown: 1h\n")


@page_setup("TestAlert")
def alerts_tested(stage: PageEnvironment) -> None:
    functions = stage.add_stack()
    stage.add_parts()
    sns = stage.lab.client("sns")
    sns.subscribe(TopicArn=functions.topic_arn, Protocol="email", Endpoint="oncall@example.com")
    stage.burstctl("alert", "--test")


# ---- planned jobs


@page_setup("BeforeAMigrationNight")
def night_window_soon(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    stage.add_stack()
    stage.write("policy.yaml", MIGRATION)


@page_setup("OnADesk", **FAST_MODIFICATIONS)
def no_stack_deployed(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)


@page_setup("MigrationRuns")
def window_running(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    stage.write("policy.yaml", MIGRATION)
    stage.burstctl("window", "start", "migration", "--yes")


@page_setup("EtcdOnGp2")
def etcd_on_burst_storage(stage: PageEnvironment) -> None:
    stage.add_volume("etcd-0", "etcd", size_gib=20, minutes=180, tags={"burstwatch:critical": "true"})
    stage.add("etcd-1", "etcd", size_gib=20, minutes=180)
    stage.watch()


@page_setup("Uninstall", "ToUninstall", **FAST_MODIFICATIONS)
def volume_to_flip(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    stage.add_stack()
    stage.burstctl("flip", "--where", "tag:role=ci", "--yes")
    stage.advance_minutes(60)
    stage.watch(acts=True)
    parts = stage.add_parts()
    parts.add_secret("burstwatch/slack")
    parts.add_retained("burstwatch-Ledger-1ABCDEFGHIJKL", role="MY_INSTANCE_ROLE", policy="burstwatch-probe")
    (stage.cli.directory / ".local/state/burstwatch").mkdir(parents=True, exist_ok=True)


@page_setup("MovingToGp3", **FAST_MODIFICATIONS)
def fleet_to_flip(stage: PageEnvironment) -> None:
    fortnight = 15 * 24 * 60
    stage.add_volume("ci-7", "nightly-batch:2", tags=CI, minutes=fortnight)
    stage.add("ci-8", "steady:90", tags=CI, minutes=fortnight)
    stage.add("billing-db", "steady:20", size_gib=200, minutes=fortnight)


@page_setup("MovedToGp3")
def fleet_flipped(stage: PageEnvironment) -> None:
    stage.add("ci-7", "nightly-batch:2", volume_type="gp3", minutes=60)
    stage.add("ci-8", "steady:90", volume_type="gp3", minutes=60)


@page_setup("ChoosingAnInstanceType")
def instance_with_backups(stage: PageEnvironment) -> None:
    """Twice a week a backup reads 240 MiB/s from 22:00 to 04:00; else 600 operations of 64 KiB a second."""
    launched_at = stage.lab.clock.now() - timedelta(days=200)
    instance = LabInstance(
        instance_id=HOST, launched_at=launched_at, instance_type="m7g.2xlarge", tags={"Name": "search-2"}
    )
    instance.set_balances(InstanceBalances(int(launched_at.timestamp()), 100.0, 100.0))
    stage.lab.fleet.instances[HOST] = instance
    stage.add_volume("search-2", volume_type="gp3", size_gib=500, iops=4_000, throughput_mib_s=250)
    publish_load(stage.monkeypatch, _backup_iops, operation_kib=64)


def _backup_iops(at_s: int) -> float:
    """Tuesdays and Fridays, 22:00 to 04:00."""
    evening = datetime.fromtimestamp(at_s, UTC) - timedelta(hours=22)
    return 3_840 if evening.weekday() in (1, 4) and evening.hour < 6 else 600


def _add_host(stage: PageEnvironment, name: str, instance_type: str, *, io_pct: float) -> None:
    stage.lab.fleet.instances[HOST] = LabInstance(
        instance_id=HOST,
        launched_at=stage.lab.clock.now() - timedelta(days=200),
        instance_type=instance_type,
        tags={"Name": name},
        io_pct=io_pct,
    )


@page_setup("InstanceCredits")
def instance_draining(stage: PageEnvironment) -> None:
    """A gp3 volume is below its limits, and its m7g.large has spent most of its EBS I/O credits."""
    _add_host(stage, "api-1", "m7g.large", io_pct=45)
    gp3 = {"volume_type": "gp3", "size_gib": 200, "iops": 10_000, "throughput_mib_s": 400}
    stage.add_volume("api-1-data", "steady:8000", minutes=90, **gp3)
    stage.add_stack(policy="version: 1\nresources: {instance: {watch: true}}\n").tick()


@page_setup("WhichLimit")
def instance_without_credits(stage: PageEnvironment) -> None:
    """Two gp3 volumes are below their limits, and their m5.large has used up its EBS I/O credits."""
    _add_host(stage, "ci-host", "m5.large", io_pct=40)
    gp3 = {"volume_type": "gp3", "size_gib": 500, "iops": 3_000, "throughput_mib_s": 125}
    stage.add_volume("ci-7", "steady:2900", minutes=120, **gp3)
    stage.add("ci-8", "steady:2800", minutes=120, instance_id=HOST, **gp3)
    reading = {
        "schema": "burstwatch.reading/v1",
        "time": "2026-11-20T17:58:30.000Z",
        "volume_ids": [VOLUME],
        "verdict": "warn",
        "cause": "throttled",
        "reason": "a write of 10 MiB took 1.9 s, 12 times as long as usual",
    }
    (stage.cli.directory / "ddprobe").mkdir()
    stage.write("ddprobe/nvme1n1.json", json.dumps(reading))


WATCHING_STORAGE = "version: 1\nresources:\n  efs: {watch: true}\n  rds: {watch: true}\n"


def add_file_system(stage: PageEnvironment, **fields: Any) -> None:
    """58 GiB, whose clients have read 30 MiB/s and written 30 for six hours."""
    definition = LabFileSystem(
        file_system_id="fs-0123456789abcdef0",
        size_gib=58,
        load="steady:240@256%50",
        balance_pct=80,
        starts_at=stage.lab.clock.now() - timedelta(hours=6),
        tags={"Name": "shared-home"},
        **fields,
    )
    stage.lab.fleet.file_systems.add(definition)
    stage.write("policy.yaml", WATCHING_STORAGE)
    stage.watch()


@page_setup("FileSystemWithoutCredits")
def draining_file_system(stage: PageEnvironment) -> None:
    add_file_system(stage)


@page_setup("FileSystemOnElastic")
def elastic_file_system(stage: PageEnvironment) -> None:
    add_file_system(stage, throughput_mode="elastic")


@page_setup("DatabaseWithoutCredits")
def draining_database(stage: PageEnvironment) -> None:
    """100 GiB of gp2 at 2,500 operations a second, for half an hour."""
    definition = LabDatabase(
        identifier="orders",
        load="steady:2500@16%30",
        starts_at=stage.lab.clock.now() - timedelta(minutes=30),
        tags={"Name": "orders"},
    )
    stage.lab.fleet.databases.add(definition)
    stage.write("policy.yaml", WATCHING_STORAGE)
    stage.watch()


@page_setup("LessIoInstead")
def volume_above_baseline(stage: PageEnvironment) -> None:
    stage.add_volume("ci-7", "steady:900", balance_pct=80, minutes=62)


# ---- alarms


def raise_alarm(stage: PageEnvironment, name: str) -> MotoStack:
    stage.add_stack()
    parts = stage.add_parts()
    parts.alarm(name)
    return parts


@page_setup("WatchdogSilent")
def watchdog_not_running(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    parts = raise_alarm(stage, "WatchdogSilent")
    functions = stage.functions
    assert functions is not None
    functions.tick()
    parts.disable_schedule("ScheduleFocus4D57D673")
    stage.advance_minutes(15)

    def invoke(request: Mapping[str, Any]) -> dict[str, Any]:
        output = functions.invoke("watch", json.loads(request["body"]))
        return {
            "StatusCode": 200,
            "ExecutedVersion": "$LATEST",
            "Payload": BytesIO(json.dumps(output.result).encode()),
        }

    stage.stub_aws_response("lambda", "Invoke", invoke)


@page_setup("WatchdogErrors")
def watchdog_failing(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    parts = raise_alarm(stage, "WatchdogErrors-watch")
    stage.lab.faults.add(UNREADABLE)
    log_of_watch(stage, parts)
    stage.lab.faults.clear()


UNREADABLE = Fault(
    action="DescribeVolumes",
    code="UnauthorizedOperation",
    message="You are not authorized to perform this operation."
    " with an explicit deny in a service control policy",
)


def log_of_watch(stage: PageEnvironment, parts: MotoStack) -> None:
    """A tick, and what the function wrote about it in its log."""
    functions = stage.functions
    assert functions is not None
    with suppress(BurstwatchError):
        functions.watch("sweep")
    log_of(functions, parts, "WatchLogs")


def log_of(functions: DeployedFunctions, parts: MotoStack, output: str) -> None:
    """What the function wrote when it last ran, a minute ago."""
    assert functions.last is not None
    for line in functions.last.lines:
        parts.log(output, functions.lab.clock.now_s() - 60, line)


@page_setup("WatchdogThrottled")
def account_quota_used_up(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    raise_alarm(stage, "WatchdogThrottled-watch")
    limit = {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 1000}
    stage.stub_aws_response("lambda", "GetAccountSettings", {"AccountLimit": limit})
    used = [(56, 640.0), (57, 998.0), (58, 1000.0), (59, 1000.0)]
    points = [
        {"Timestamp": START - timedelta(minutes=60 - minute), "Maximum": most, "Unit": "Count"}
        for minute, most in used
    ]
    stage.stub_aws_response(
        "cloudwatch", "GetMetricStatistics", {"Label": "ConcurrentExecutions", "Datapoints": points}
    )
    stage.stub_aws_response("lambda", "PutFunctionConcurrency", {"ReservedConcurrentExecutions": 50})
    stage.stub_aws_response("lambda", "DeleteFunctionConcurrency", {})


@page_setup("TicksDeadLettered")
def tick_dead_lettered(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    parts = raise_alarm(stage, "TicksDeadLettered")
    parts.send(
        "FailedEventsQueue",
        dead_letter(
            {"mode": "focus", "time": "2026-11-20T17:57:00Z"},
            "2026-11-20T17:58:03.120Z Task timed out after 60.00 seconds",
        ),
    )


def dead_letter(event: Mapping[str, Any], error: str) -> dict[str, Any]:
    """What Lambda sends to where failed events go."""
    return {
        "version": "1.0",
        "timestamp": "2026-11-20T17:58:04.211Z",
        "requestContext": {"condition": "RetriesExhausted", "approximateInvokeCount": 1},
        "requestPayload": event,
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "responsePayload": {"errorMessage": error},
    }


@page_setup("ProbeEventsDropped")
def foreign_host_reports_dropped(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    parts = raise_alarm(stage, "ProbeEventsDropped")
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
    functions.probe(*[a_report(stall)] * 5)
    log_of(functions, parts, "ProbeLogs")


@page_setup("EbsEventsDropped")
def stale_events(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    parts = raise_alarm(stage, "EbsEventsDropped")
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


@page_setup("FlipRequestsDeadLettered")
def flip_request_dead_lettered(stage: PageEnvironment) -> None:
    add_draining(stage, tags=AUTO)
    parts = raise_alarm(stage, "FlipRequestsDeadLettered")
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


@page_setup("FlipRequestsWaiting")
def flip_requests_not_consumed(stage: PageEnvironment) -> None:
    add_draining(stage, tags=AUTO)
    raise_alarm(stage, "FlipRequestsWaiting").disable_source()


@page_setup("AlertsDeadLettered")
def alert_not_delivered(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    parts = raise_alarm(stage, "AlertsDeadLettered")
    error = "1 not delivered: the secret burstwatch/slack does not exist: put the address of a webhook there"
    parts.send(
        "UndeliveredQueue",
        dead_letter({"Records": [{"Sns": {"Subject": "critical: ci-7, empty in about 12 min"}}]}, error),
    )
    parts.log(
        "NotifyLogs",
        stage.lab.clock.now_s() - 60,
        {"level": "ERROR", "message": "not delivered", "reason": error},
    )
    parts.add_secret("burstwatch/slack")
    stage.write("webhook.txt", "https://hooks.slack.example/services/T000/B000/example")


@page_setup("AlertsNotDelivered")
def alert_not_sendable(stage: PageEnvironment) -> None:
    add_draining(stage)
    parts = raise_alarm(stage, "AlertsNotDelivered")
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


@page_setup("VolumesUnread")
def unreadable_volume(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    parts = raise_alarm(stage, "VolumesUnread")
    stage.lab.faults.add(
        Fault(
            action="GetMetricData",
            code="AccessDenied",
            message="User: arn:aws:sts::123456789012:assumed-role/burstwatch-watch/1 is not authorized to"
            " perform: cloudwatch:GetMetricData",
        )
    )
    log_of_watch(stage, parts)


@page_setup("DatapointsTooOld", lag_s=900)
def cloudwatch_is_behind(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    raise_alarm(stage, "DatapointsTooOld")
    stage.write("policy.yaml", "version: 1\ncadence:\n  metric_lag: 15m\n")


@page_setup("FlipsFailed")
def failing_flips(stage: PageEnvironment) -> None:
    raise_alarm(stage, "FlipsFailed")
    failed_modification(stage)


@page_setup("AnotherDeployment")
def two_stacks_deployed(stage: PageEnvironment) -> None:
    a_calm_fleet(stage)
    raise_alarm(stage, "AnotherDeployment")
    first_deployed(stage, "burstwatch", "51af3dc0-da77-11e4-872e-1234567db123")
    stage.advance_minutes(20 * 24 * 60)
    deploy_stack(stage.lab, "second")
    first_deployed(stage, "second", "6ab2e4f0-d5f3-11f0-a1b2-0a1b2c3d4e5f")


def first_deployed(stage: PageEnvironment, name: str, stack_uuid: str) -> None:
    """What CloudFormation and the functions of a stack write about its first deploy."""
    ssm, path = stage.lab.client("ssm"), f"/burstwatch/deployments/{name}"
    put_parameter(ssm, f"{path}/since", name)
    put_parameter(ssm, f"{path}/{stack_uuid}/since", f"{stage.lab.clock.now_s():.3f}")


@page_setup("LowBurstBalance")
def low_balance_alarm(stage: PageEnvironment) -> None:
    add_draining(stage)
    stage.add_stack()
    stage.add_parts().alarm("WatchdogSilent")
    low = {
        "ContributorId": "9d0c3b1a",
        "ContributorAttributes": {"VolumeId": VOLUME},
        "StateReason": "Threshold Crossed: 1 datapoint [18.8] was less than or equal to the threshold (20.0)",
    }
    stage.stub_aws_response("cloudwatch", "DescribeAlarmContributors", {"AlarmContributors": [low]})


# ---- the experiment


@page_setup("CreditResetExperiment", **FAST_MODIFICATIONS)
def expendable_volume(stage: PageEnvironment) -> None:
    stage.add_volume("spare-1", "steady:5", size_gib=60, balance_pct=20, minutes=120)


@page_setup("ExperimentUnderWay", **FAST_MODIFICATIONS)
def experiment_running(stage: PageEnvironment) -> None:
    expendable_volume(stage)
    stage.run_burstctl(ProgramCall("burstctl", ["experiment", "credit-reset", VOLUME], has_terminal=True))
    stage.advance_minutes(15)
    stage.watch()

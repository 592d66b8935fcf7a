from datetime import timedelta

import pytest

from burstctl.watch.exporter_collector import FleetCollector
from burstlab.fake_aws.slack import SlackReceiver
from burstlab.model.database import LabDatabase
from burstlab.model.file_system import LabFileSystem
from burstwatch.core.ledger.ledger import TickKind
from burstwatch.core.location import AwsLocation
from support.aws.doctored_stack import alarm, clear_parameters, reset, schedule
from support.aws.fake_cloudformation import fake_cloudformation
from support.aws.fake_stack import deploy_stack
from support.cli.cli_session import START, start_lab


@pytest.fixture
def checks_lab(checks):
    with checks.start_lab(modify_minutes_per_tib=60) as endpoint:
        yield endpoint


@pytest.fixture
def late_records(monkeypatch):
    """After each ModifyVolume, DescribeVolumesModifications repeats its answer from before for two looks."""
    from botocore.client import BaseClient  # noqa: PLC0415 - patched here only

    make_call, before, stale = BaseClient._make_api_call, {}, []

    def call(client, operation, parameters):
        answer = make_call(client, operation, parameters)
        if operation == "ModifyVolume":
            stale[:] = [before.get("answer", answer | {"VolumesModifications": []})] * 2
        if operation == "DescribeVolumesModifications":
            if stale:
                return stale.pop()
            before["answer"] = answer
        return answer

    monkeypatch.setattr(BaseClient, "_make_api_call", call)


@pytest.fixture
def webhook(cli):
    with SlackReceiver() as receiver:
        cli.set(BURSTWATCH_SLACK_WEBHOOK=receiver.url)
        yield receiver


NOW_S = int(START.timestamp())


@pytest.fixture
def cloudformation(cli, lab):
    """What is deployed, all of it well: to be broken by a test."""
    clear_parameters(lab)
    ledger = deploy_stack(lab)
    for kind in TickKind:
        roster = frozenset({1}) if kind is TickKind.SWEEP else None
        ledger.complete_tick(kind, NOW_S - 60, fleet_fingerprints=roster)
    with fake_cloudformation() as created:
        cli.set(AWS_ENDPOINT_URL_CLOUDFORMATION=created.url, AWS_ENDPOINT_URL_LAMBDA=created.url)
        scheduler, sqs, sns = (lab.client(item) for item in ("scheduler", "sqs", "sns"))
        for name in ("Sweep", "Focus"):
            schedule(scheduler, f"burstwatch-{name}", "burstwatch-Watch", "create_schedule")
        schedule(scheduler, "burstwatch-eu-Focus", "burstwatch-eu-Watch", "create_schedule")
        for output in ("FailedEventsQueue", "UndeliveredQueue", "DeadFlipsQueue"):
            created.outputs[output] = sqs.create_queue(QueueName=output)["QueueUrl"]
        topic_arn = sns.create_topic(Name="burstwatch")["TopicArn"]
        sns.subscribe(TopicArn=topic_arn, Protocol="email", Endpoint="oncall@example.com")
        alarm(lab, "burstwatch-WatchdogSilent", "OK")
        try:
            yield created
        finally:
            reset(lab)


@pytest.fixture
def remembered_orders(cli, lab):
    """A database that the ledger remembers as ``orders``."""
    (cli.directory / "policy.yaml").write_text("version: 1\nresources: {rds: {watch: true}}\n")
    lab.fleet.databases.add(LabDatabase(identifier="orders", load="steady:3000", starts_at=START))
    cli.run("watch", "--once")


@pytest.fixture(params=["before the next pass", "after it"])
def renamed_orders(request, cli, lab, remembered_orders):
    lab.fleet.databases.rename("orders", "orders-old")
    if request.param == "after it":
        cli.run("watch", "--once")


@pytest.fixture
def home(lab):
    """58 GiB in Standard that lose 37 MiB/s, 6 % an hour: 80 % at noon, 45 % at 17:50."""
    load = "steady:240@256%50"  # 60 MiB/s, of which a third of the half that is read is metered: 40 MiB/s
    return lab.fleet.file_systems.add(
        LabFileSystem(
            size_gib=58,
            load=load,
            balance_pct=80,
            starts_at=START - timedelta(hours=6),
            tags={"Name": "shared-home"},
        )
    )


@pytest.fixture
def orders(lab):
    """100 GiB of gp2 at 2,500 operations a second for the last half hour: 26.7 % at 18:00."""
    lab.fleet.databases.add(
        LabDatabase(
            identifier="orders",
            load="steady:2500@16%30",
            starts_at=START - timedelta(minutes=30),
            balance_pct=100,
        )
    )
    return "db:orders"


@pytest.fixture
def unknown_limits(cli, monkeypatch):
    monkeypatch.setattr("burstwatch.adapters.aws.ec2.parse_ebs_limits", lambda _description: None)
    (cli.directory / "policy.yaml").write_text(
        "version: 1\nresources:\n  ebs: {watch: false}\n  instance: {watch: true}\n  rds: {watch: true}\n"
    )


@pytest.fixture
def two_databases_and_a_file_system(lab):
    for name in ("big", "small"):
        lab.fleet.databases.add(
            LabDatabase(identifier=name, instance_class="db.m5.large", starts_at=START - timedelta(hours=1))
        )
    lab.fleet.file_systems.add(
        LabFileSystem(size_gib=58, starts_at=START - timedelta(hours=1), tags={"Name": "home"})
    )


@pytest.fixture
def fast_lab(cli):
    """Ten minutes of the lab pass in a second."""
    with start_lab(cli, speed=600) as endpoint:
        yield endpoint


@pytest.fixture
def collector():
    standing = FleetCollector(version="1.2.3")
    standing.start_watch(AwsLocation(region="us-east-1", account="111122223333"), acts=True)
    return standing

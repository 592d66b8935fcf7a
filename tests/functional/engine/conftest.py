from dataclasses import replace
from functools import cache

import pytest
from boto3.session import Session

from burstlab.fake_aws.server import ACCESS_KEY, Endpoint
from burstlab.fake_aws.slack import SlackReceiver
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws import ec2
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.cloudwatch import CloudWatchReader
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.adapters.notify import slack_webhook
from burstwatch.core.policy.policy import Policy
from burstwatch.engine.collector import Collector
from burstwatch.engine.services import Services
from burstwatch.wiring.bootstrap import build_client, build_modifier
from support.aws.played_aws import PlayedAws, make_services
from support.aws.slow_peer import WITHIN_S
from support.delivery.fake_delivery import FakeChannel, FakeLedger, RealLedger
from support.lab.lab_start import START
from support.lab.paged_region import Region
from support.ledger.ledger_stores import ledger_store
from support.scenario.clock_scenario import ClockScenario, add_flip_candidate
from support.watch_pass_setup import PAST, RecordingChannel, services_with, warm_up


@pytest.fixture
def lab(request):
    """Before 18:00, so that volumes have a past; the mark ``begins_at`` gives another time."""
    mark = request.node.get_closest_marker("begins_at")
    begins_at = mark.args[0] if mark else START - PAST
    fleet = LabFleet(LabClock.manual(begins_at), LabSettings(lag_s=60))
    with Endpoint(fleet) as endpoint:
        yield endpoint


@pytest.fixture
def ledger(request, tmp_path):
    """In memory; or of each kind, for a test with ``each_ledger``."""
    kind = getattr(request, "param", None)
    if kind is None:
        with SqliteLedger.in_memory() as opened:
            yield opened
    else:
        with ledger_store(kind, tmp_path) as store:
            yield store.open()


@pytest.fixture
def recorder():
    return RecordingChannel()


@pytest.fixture
def shell(request, lab, ledger, recorder):
    """What a pass needs; the mark ``pass_policy`` gives it a policy."""
    mark = request.node.get_closest_marker("pass_policy")
    return services_with(lab, ledger, recorder, policy=mark.args[0] if mark else None)


@pytest.fixture
def acting(shell, lab):
    """A shell that flips, as ``burstctl watch --act`` does."""
    session = Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name="us-east-1")
    return replace(shell, modifier=build_modifier(session, shell.calls, endpoint_url=lab.url))


@pytest.fixture(params=["fake", "sqlite"])
def outbox(request):
    if request.param == "fake":
        yield FakeLedger()
    else:
        with RealLedger.in_memory() as real:
            yield real


@pytest.fixture
def sns():
    return FakeChannel("sns")


@pytest.fixture
def slack():
    return FakeChannel("slack")


@pytest.fixture
def world():
    with SqliteLedger.in_memory() as ledger:
        yield ClockScenario(ledger)


@pytest.fixture
def deployed_lab(functions):
    return functions.lab


@pytest.fixture
def flip_candidate(functions, deployed_lab):
    """Such a volume, of which people know, and whose flip is requested."""
    volume_id = add_flip_candidate(deployed_lab)
    functions.watch("sweep")
    assert functions.alert_kinds() == ["CriticalVolumeOnBurstStorage"]
    return volume_id


@pytest.fixture
def reader(lab):
    return a_reader(lab, "ec2", Ec2Reader)


@pytest.fixture
def collect(lab, reader):
    """Begins a pass now."""
    cloudwatch = a_reader(lab, "cloudwatch", CloudWatchReader)

    def begin():
        lab.faults.reset_calls()
        return Collector(ec2=reader, cloudwatch=cloudwatch, now_s=lab.fleet.now_s(), gap_after_s=1_800)

    return begin


@cache
def boto_session():
    """One for all: the descriptions of EC2 and CloudWatch take a while to read."""
    return Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name="us-east-1")


def a_reader(lab, service, kind):
    return kind(build_client(boto_session(), service, CallCounter(), endpoint_url=lab.url))


@pytest.fixture
def drained(lab):
    warm_up(lab)
    volume_id = lab.fleet.add(LabVolume(size_gib=100, tags={"burstwatch:mode": "auto"}))
    lab.fleet.set_load(volume_id, "steady:3000")
    lab.fleet.set_balance(volume_id, 20)
    lab.clock.advance(300)
    return volume_id


WATCHING = Policy.from_mapping({"version": "1", "resources": {"instance": {"watch": "true"}}})


@pytest.fixture
def aws():
    return PlayedAws()


@pytest.fixture
def watch(aws, ledger, recorder):
    return make_services(aws, ledger, recorder, WATCHING)


@pytest.fixture
def region(monkeypatch):
    monkeypatch.setattr(ec2, "PAGE_SIZE", 5)
    fleet = LabFleet(LabClock.manual(START), LabSettings())
    fleet.add_all([LabVolume(size_gib=100)] * 35)
    with Endpoint(fleet) as endpoint, SqliteLedger.in_memory() as ledger:
        region = Region(endpoint, ledger)
        make = Services.build_collector

        def build_collector(shell, now_s):
            created = make(shell, now_s)
            created.monotonic = lambda: region.time_s
            created.__post_init__()
            return created

        monkeypatch.setattr(Services, "build_collector", build_collector)
        yield region


@pytest.fixture
def four(lab):
    """Four volumes at 20 %, which the first tick finds critical."""
    warm_up(lab)
    volume_ids = [lab.fleet.add(LabVolume(size_gib=100, tags={"burstwatch:mode": "auto"})) for _ in range(4)]
    for volume_id in volume_ids:
        lab.fleet.set_load(volume_id, "steady:3000")
        lab.fleet.set_balance(volume_id, 20)
    lab.clock.advance(300)
    return sorted(volume_ids)


@pytest.fixture
def slow_slack(monkeypatch):
    monkeypatch.setattr(slack_webhook, "_TIMEOUT_S", WITHIN_S)
    with SlackReceiver(per_s=None) as receiver:
        yield receiver


@pytest.fixture
def credentials(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

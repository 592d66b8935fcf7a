from datetime import UTC, datetime

import pytest
from botocore.model import ServiceModel

from burstlab.fake_aws.dynamodb import FakeDynamoDb
from burstlab.fake_aws.server import Endpoint
from burstlab.fake_aws.slack import SlackReceiver
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabInstance, LabSettings
from burstlab.model.volume import LabVolume
from support.aws.stub_clients import ONCE
from support.lab.lab_start import INSTANCE, START
from support.ledger.ledger_stores import DynamoStore
from support.marks import lab_settings


@pytest.fixture
def fleet(request):
    """Nothing yet; the mark ``lab_settings`` changes how it behaves."""
    return LabFleet(LabClock.manual(START), LabSettings(**lab_settings(request)))


@pytest.fixture
def ec2(lab):
    """A client that does not repeat a call."""
    client = lab.client("ec2", config=ONCE)
    yield client
    client.close()


@pytest.fixture
def cloudwatch(lab):
    client = lab.client("cloudwatch", config=ONCE)
    yield client
    client.close()


@pytest.fixture
def lab(fleet):
    with Endpoint(fleet) as endpoint:
        yield endpoint


@pytest.fixture
def attached_volume(fleet):
    return fleet.add(LabVolume(size_gib=100, instance_id=INSTANCE))


@pytest.fixture
def three_volumes(fleet):
    """A gp2 modifying to gp3, a larger gp3 optimizing to io2, and one never modified."""
    flipped, shared, never = fleet.add_all(
        [
            LabVolume(size_gib=100),
            LabVolume(size_gib=200, volume_type="gp3", iops=4_000),
            LabVolume(size_gib=8),
        ]
    )
    fleet.modify(shared, volume_type="io2", size_gib=300, iops=5_000, multi_attached=True)
    fleet.clock.advance(60)
    fleet.modify(flipped, volume_type="gp3")
    return {flipped: "flipped", shared: "shared", never: "never"}


@pytest.fixture
def efs(lab):
    return lab.client("efs")


@pytest.fixture(params=["json", "smithy-rpc-v2-cbor", "query"])
def in_any_protocol(lab, request, monkeypatch):
    """A CloudWatch client that speaks one of the three protocols CloudWatch has."""
    monkeypatch.setattr(ServiceModel, "resolved_protocol", request.param)
    client = lab.client("cloudwatch", config=ONCE)
    assert client.meta.service_model.resolved_protocol == request.param
    yield client
    client.close()


@pytest.fixture
def table():
    return FakeDynamoDb(table="t-1")


@pytest.fixture
def client(table):
    home = DynamoStore(endpoint=None, table=table)
    yield home.client
    home.close()


@pytest.fixture
def receiver():
    with SlackReceiver() as running:
        yield running


@pytest.fixture
def ssm(lab):
    return lab.client("ssm")


@pytest.fixture(scope="module")
def account_lab():
    clock = LabClock(datetime(2026, 11, 20, 18, 0, tzinfo=UTC), speed=0)
    with Endpoint(LabFleet(clock, LabSettings(account_id="111122223333"))) as endpoint:
        yield endpoint


@pytest.fixture
def rds(lab):
    return lab.client("rds")


@pytest.fixture
def metered_instance(fleet):
    fleet.add_instance(
        LabInstance(instance_id=INSTANCE, launched_at=START, instance_type="m5.large", tags={}, io_pct=10)
    )

import json

import boto3
import pytest
from botocore.config import Config

from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.efs import EfsReader
from burstwatch.adapters.aws.rds import RdsReader
from burstwatch.wiring import bootstrap
from support.lab.lab_start import START
from support.marks import lab_settings


@pytest.fixture
def fleet(request):
    """Nothing yet; the mark ``lab_settings`` changes how it behaves."""
    return LabFleet(LabClock.manual(START), LabSettings(**lab_settings(request)))


@pytest.fixture
def lab(fleet):
    with Endpoint(fleet) as endpoint:
        yield endpoint


class Faults(dict):
    """Collects what was reported."""

    def __call__(self, volume_id, failure):
        self[volume_id] = failure


@pytest.fixture
def faults():
    return Faults()


@pytest.fixture(scope="module")
def ec2_client():
    return boto3.client(
        "ec2", region_name="us-east-1", aws_access_key_id="testing", aws_secret_access_key="testing"
    )


@pytest.fixture
def calls():
    return CallCounter()


@pytest.fixture
def environment_with_retries(monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "5")
    monkeypatch.setenv("AWS_RETRY_MODE", "adaptive")


@pytest.fixture
def volume_id(lab):
    return lab.fleet.add(LabVolume(size_gib=100))


@pytest.fixture
def short_timeouts(monkeypatch):
    monkeypatch.setattr(
        bootstrap, "_NO_RETRY_CONFIG", bootstrap._NO_RETRY_CONFIG.merge(Config(read_timeout=0.3))
    )


class Failures(dict):
    def __call__(self, file_system_id, failure):
        self[file_system_id] = failure


@pytest.fixture
def failures():
    return Failures()


@pytest.fixture
def efs_reader(lab):
    return EfsReader(lab.client("efs"))


@pytest.fixture
def products(lab):
    """Every product of us-east-1, as the lab lists them."""
    reported = []
    for family in ("Storage", "System Operation", "Provisioned Throughput"):
        filters = {"productFamily": family, "regionCode": "us-east-1"}
        answer = lab.client("pricing").get_products(
            ServiceCode="AmazonEC2",
            Filters=[
                {"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in filters.items()
            ],
        )
        reported += [json.loads(text) for text in answer["PriceList"]]
    return reported


@pytest.fixture
def rds(lab):
    return lab.client("rds")


@pytest.fixture
def rds_reader(rds):
    return RdsReader(rds)

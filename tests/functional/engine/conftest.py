from dataclasses import replace

import pytest
from boto3.session import Session

from burstlab.fake_aws.server import ACCESS_KEY, Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstwatch.adapters.ledger.sqlite import SqliteLedger
from burstwatch.wiring.bootstrap import build_modifier
from support.watch_pass_setup import PAST, START, RecordingChannel, services_with


@pytest.fixture
def lab():
    fleet = LabFleet(LabClock.manual(START - PAST), LabSettings(lag_s=60))
    with Endpoint(fleet) as endpoint:
        yield endpoint


@pytest.fixture
def ledger():
    with SqliteLedger.in_memory() as opened:
        yield opened


@pytest.fixture
def recorder():
    return RecordingChannel()


@pytest.fixture
def shell(lab, ledger, recorder):
    return services_with(lab, ledger, recorder)


@pytest.fixture
def acting(shell, lab):
    """A shell that flips, as ``burstctl watch --act`` does."""
    session = Session(aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY, region_name="us-east-1")
    return replace(shell, modifier=build_modifier(session, shell.calls, endpoint_url=lab.url))

import pytest

from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet, LabSettings
from burstwatch.adapters.ledger.sqlite import SqliteLedger
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

import pytest

from burstlab.fake_aws.server import Endpoint


@pytest.fixture
def lab(fleet):
    with Endpoint(fleet) as endpoint:
        yield endpoint

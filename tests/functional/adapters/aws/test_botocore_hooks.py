"""EC2's listings are parsed by botocore; bytes that are not a response of AWS are a failed call."""

import pytest
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError
from botocore.session import Session

from burstwatch.adapters.aws import botocore_hooks
from support.aws.loopback_aws import CannedResponse, loopback_aws

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


def listing_with(inside):
    return (
        f'<?xml version="1.0"?>\n<DescribeVolumesResponse xmlns="{NAMESPACE}">'
        f"<volumeSet><item>{inside}</item></volumeSet></DescribeVolumesResponse>"
    ).encode()


def describe_volumes(body, **response):
    session = Session()
    botocore_hooks.use_fast_timestamps(session)
    botocore_hooks.use_strict_parser(session)
    with loopback_aws(lambda *_: CannedResponse(body, **response)) as aws:
        client = aws.client("ec2", session=session)
        botocore_hooks.install_hooks(client)
        return client.describe_volumes()["Volumes"]


@pytest.mark.parametrize(
    "inside",
    [
        "<createTime>0001-01-01T00:00:00+05:00</createTime>",
        "<createTime>1e300</createTime>",
        "<size>large</size>",
        "<size>1</size><size>2</size>",
    ],
)
def test_a_value_that_cannot_be_read_is_a_failed_call(inside):
    with pytest.raises(ResponseParserError, match="not a response from AWS"):
        describe_volumes(listing_with(inside))


def test_text_that_looks_like_a_namespace_is_only_text():
    inside = '<snapshotId>see xmlns="it" there</snapshotId>'
    assert describe_volumes(listing_with(inside)) == [{"SnapshotId": 'see xmlns="it" there'}]


def test_a_response_that_is_not_xml_is_a_failed_call():
    with pytest.raises(ResponseParserError, match="captive portal"):
        describe_volumes(b"<html>captive portal")


def test_an_error_of_ec2_keeps_its_code():
    error = b"<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>"
    with pytest.raises(ClientError, match="RequestLimitExceeded"):
        describe_volumes(error, status=400)

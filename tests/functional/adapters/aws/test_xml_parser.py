"""EC2's listings read quickly: exactly what botocore reads, and what is strange is left to botocore."""

from xml.sax.saxutils import escape

import pytest
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError, create_parser
from botocore.session import Session
from hypothesis import given
from hypothesis import strategies as st

from burstlab.fake_aws.server import Endpoint
from burstlab.model.clock import LabClock
from burstlab.model.fleet import LabFleet
from burstlab.model.volume import LabVolume
from burstwatch.adapters.aws import botocore_hooks
from burstwatch.adapters.aws.xml_parser import LISTING_OPERATIONS, read_listing
from support.aws.loopback_aws import CannedResponse, loopback_aws

EC2 = Session().get_service_model("ec2")
NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


def body_of(inside, *, root="DescribeVolumesResponse", namespace=f' xmlns="{NAMESPACE}"'):
    return f'<?xml version="1.0"?>\n<{root}{namespace}>{inside}</{root}>'.encode()


def read(body, operation="DescribeVolumes"):
    result, _ = read_listing(body, EC2.operation_model(operation), botocore_hooks._parse_timestamp)
    return result


def read_by_botocore(body, operation="DescribeVolumes"):
    shape = EC2.operation_model(operation).output_shape
    parser = create_parser("ec2")
    parser._timestamp_parser = botocore_hooks._parse_timestamp
    results = parser.parse({"body": body, "headers": {}, "status_code": 200}, shape)
    return {name: value for name, value in results.items() if name != "ResponseMetadata"}


def a_mixed_fleet():
    fleet = LabFleet(LabClock.manual())
    plain = fleet.add(LabVolume(size_gib=100, tags={"Name": "a < b & c", "empty": "", "ümlaut": "日本"}))
    fleet.add(LabVolume(size_gib=8, attached=False))
    fleet.add(LabVolume(size_gib=100, volume_type="gp3", iops=4000, throughput_mib_s=250))
    fleet.add(LabVolume(size_gib=100, volume_type="io2", iops=4000, multi_attached=True))
    fleet.add(LabVolume(size_gib=500, volume_type="st1"))
    fleet.add(LabVolume(size_gib=30, managed_by="eks.amazonaws.com", hidden=True))
    fleet.add(LabVolume(size_gib=30, service_owner="amazon-aurora"))
    return fleet, plain


def test_what_is_read_quickly_is_what_botocore_reads():
    fleet, plain = a_mixed_fleet()
    with Endpoint(fleet) as lab:
        lab.client("ec2").modify_volume(VolumeId=plain, VolumeType="gp3", Iops=3000, Throughput=128)
        slow, quick = lab.client("ec2"), lab.client("ec2")
        botocore_hooks.install_hooks(quick)
        for operation in ("describe_volumes", "describe_volumes_modifications", "describe_instances"):
            expected, result = (getattr(client, operation)() for client in (slow, quick))
            assert len(expected) > 1
            for answer in (expected, result):
                metadata = answer.pop("ResponseMetadata")
                assert metadata["HTTPStatusCode"] == 200
                assert len(metadata["RequestId"]) == 36
            assert result == expected


VALUES = st.one_of(
    st.sampled_from(["", "true", "false", "gp2", "100", "-1", "1e3", "2026-11-20T18:00:00.000Z", " 7 "]),
    st.text(st.characters(min_codepoint=32, max_codepoint=0xD7FF), max_size=8),
)
LISTING_ELEMENTS = (
    "volumeSet",
    "item",
    "volumeId",
    "size",
    "iops",
    "volumeType",
    "createTime",
    "multiAttachEnabled",
)
NESTED_ELEMENTS = ("attachmentSet", "status", "attachTime", "tagSet", "key", "value", "operator", "managed")
TAGS = st.sampled_from([*LISTING_ELEMENTS, *NESTED_ELEMENTS, "nextToken", "requestId", "somethingNew"])


def an_element(tag, *held):
    return f"<{tag}>{''.join(held)}</{tag}>"


ELEMENTS = st.recursive(
    st.builds(an_element, TAGS, VALUES.map(escape)),
    lambda inner: st.builds(lambda tag, held: an_element(tag, *held), TAGS, st.lists(inner, max_size=4)),
    max_leaves=12,
)


@given(st.lists(ELEMENTS, max_size=4))
def test_whatever_comes_is_read_as_botocore_does_or_left_to_it(elements):
    body = body_of(f"<volumeSet><item>{''.join(elements)}</item></volumeSet>")
    try:
        result = read(body)
    except ValueError:
        return
    assert result == read_by_botocore(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>captive portal",
        body_of("<volumeSet><item><size>large</size></item></volumeSet>"),
        body_of("<volumeSet><item><size>1</size><size>2</size></item></volumeSet>"),
        body_of("<volumeSet/>", root="e:r", namespace=f' xmlns:e="{NAMESPACE}"'),
        body_of(f'<volumeSet xmlns="{NAMESPACE}"/>'),
        body_of('<volumeSet><item><e:size xmlns:e="elsewhere">1</e:size></item></volumeSet>'),
    ],
)
def test_what_is_strange_is_left_to_botocore(body):
    with pytest.raises(ValueError):
        read(body)


def test_words_that_look_like_the_namespace_are_left_alone():
    inside = '<volumeSet><item><snapshotId>see xmlns="it" there</snapshotId></item></volumeSet>'
    assert read(body_of(inside, namespace=""))["Volumes"] == [{"SnapshotId": 'see xmlns="it" there'}]


@pytest.mark.parametrize("instant", ["0001-01-01T00:00:00+05:00", "1e300"])
def test_an_instant_that_no_clock_shows_is_an_answer_that_failed(instant):
    body = body_of(f"<volumeSet><item><createTime>{instant}</createTime></item></volumeSet>")
    session = Session()
    botocore_hooks.use_fast_timestamps(session)
    botocore_hooks.use_strict_parser(session)
    with loopback_aws(lambda *_: CannedResponse(body)) as aws:
        client = aws.client("ec2", session=session)
        botocore_hooks.install_hooks(client)
        with pytest.raises(ResponseParserError, match="no answer of AWS's"):
            client.describe_volumes()


def test_an_answer_that_is_not_a_xml_ends_as_it_does_without_us():
    with loopback_aws(lambda *_: CannedResponse(b"<html>captive portal")) as aws:
        client = aws.client("ec2")
        botocore_hooks.install_hooks(client)
        with pytest.raises(ResponseParserError, match="captive portal"):
            client.describe_volumes()


def test_an_error_is_botocores_to_read():
    error = b"<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>"
    with loopback_aws(lambda *_: CannedResponse(error, status=400)) as aws:
        client = aws.client("ec2")
        botocore_hooks.install_hooks(client)
        with pytest.raises(ClientError, match="RequestLimitExceeded"):
            client.describe_volumes()


def test_every_listing_has_a_shape_that_can_be_read():
    assert [read(body_of(""), listing) for listing in LISTING_OPERATIONS] == [{}] * len(LISTING_OPERATIONS)

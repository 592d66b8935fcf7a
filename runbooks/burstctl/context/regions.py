"""The Regions of an account, and names that are none."""

from difflib import get_close_matches
from typing import TYPE_CHECKING

from burstwatch.adapters.aws.errors import AwsFailure, FailureKind, translate_errors
from burstwatch.core.errors import Problem

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client


def enabled_regions(client: "EC2Client") -> list[str]:
    """The names of the regions that are enabled for the account, sorted.

    Raises:
        AwsError: the regions could not be read.
    """
    with translate_errors("ec2:DescribeRegions"):
        regions = client.describe_regions(AllRegions=False).get("Regions", ())
        return sorted(region["RegionName"] for region in regions if region.get("RegionName"))


def unknown_region_problem(region: str, failure: AwsFailure) -> Problem | None:
    """What is wrong with the name of a Region whose own endpoint does not exist; None if the name is right.

    botocore makes up an endpoint for every name. A Region that is newer than botocore has one, and is not
    refused.
    """
    if failure.kind is not FailureKind.UNREACHABLE or f".{region}." not in failure.message:
        return None
    from botocore.session import Session  # noqa: PLC0415 - only for a name that may be wrong

    session = Session()
    known = [
        name
        for partition in session.get_available_partitions()
        for name in session.get_available_regions("ec2", partition)
    ]
    if region in known:
        return None
    matches = get_close_matches(region, known)
    suggestion = f"did you mean {' or '.join(matches)}? " if matches else ""
    return Problem(f"there is no AWS Region {region!r}", f"{suggestion}Give --region NAME or set AWS_REGION")

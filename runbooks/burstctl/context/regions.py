"""The Regions of an account, and names that are none."""

from collections.abc import Sequence
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
    known = known_regions()
    return None if region in known else _no_such_region(region, known)


def misspelled_region_problem(region: str) -> Problem | None:
    """What is wrong with the name of a Region, without a call; None if it may exist.

    A Region that is newer than botocore is named by the same words and another number, such as us-east-9.
    """
    known = known_regions()
    directions = {part for name in known for part in name.split("-")[1:-1]}
    if region in known or directions.issuperset(region.split("-")[1:-1]):
        return None
    return _no_such_region(region, known)


def known_regions() -> list[str]:
    """Every Region that botocore knows, of all partitions."""
    from botocore.session import Session  # noqa: PLC0415 - only for a name that may be wrong

    session = Session()
    return [
        name
        for partition in session.get_available_partitions()
        for name in session.get_available_regions("ec2", partition)
    ]


def _no_such_region(region: str, known: Sequence[str]) -> Problem:
    matches = get_close_matches(region, known)
    suggestion = f"did you mean {' or '.join(matches)}? " if matches else ""
    return Problem(f"{region!r} is not an AWS Region", f"{suggestion}Give --region NAME or set AWS_REGION")

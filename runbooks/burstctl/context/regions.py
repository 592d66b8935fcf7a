"""The regions of an account."""

from typing import TYPE_CHECKING

from burstwatch.adapters.aws.errors import translate_errors

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

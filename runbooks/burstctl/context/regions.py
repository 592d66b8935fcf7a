"""The regions of an account."""

from typing import TYPE_CHECKING

from burstwatch.adapters.aws.errors import translate_errors

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client


def enabled_regions(client: "EC2Client") -> list[str]:
    """Every region that is enabled for the account, by name.

    Raises:
        AwsError: AWS does not say.
    """
    with translate_errors("ec2:DescribeRegions"):
        regions = client.describe_regions(AllRegions=False).get("Regions", ())
        return sorted(region["RegionName"] for region in regions if region.get("RegionName"))

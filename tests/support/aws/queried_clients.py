"""What the clients of the product ask."""

from burstwatch.adapters.aws.cloudwatch import CloudWatchReader, MetricQuery
from burstwatch.adapters.aws.ec2 import Ec2Reader
from burstwatch.adapters.aws.errors import AwsError
from support.aws.in_memory_aws import NOW_S


def query_clients(clients):
    """Everything that a pass reads, and what went wrong."""
    ec2, cloudwatch = Ec2Reader(clients["ec2"]), CloudWatchReader(clients["cloudwatch"], workers=1)
    failures = []
    reads = (
        lambda: list(ec2.volumes({}, report_failure=lambda _id, failure: failures.append(failure))),
        lambda: list(
            ec2.modifications_in_progress(report_failure=lambda _id, failure: failures.append(failure))
        ),
        lambda: ec2.instance_states(["i-1"]),
        lambda: cloudwatch.read([MetricQuery("vol-1", "BurstBalance", "Minimum")], NOW_S - 600, NOW_S),
    )
    for item in reads:
        try:
            item()
        except AwsError as error:
            failures.append(error.failure)
    return failures

"""The metrics that the watchdog emits, and AWS's metrics of its functions and queues."""

from typing import Final

from aws_cdk import Duration
from aws_cdk.aws_cloudwatch import Metric
from aws_cdk.aws_sqs import IQueue

from infra.functions import WatchdogFunction

NAMESPACE: Final = "Burstwatch"
MINUTE: Final = Duration.minutes(1)
FIVE_MINUTES: Final = Duration.minutes(5)


def service_metric(
    name: str, statistic: str, *, deployment: str, period: Duration = FIVE_MINUTES, label: str = ""
) -> Metric:
    """A metric that our functions emit as a log line (embedded metric format), not by an API call."""
    return Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={"service": deployment},
        statistic=statistic,
        period=period,
        label=label or None,
    )


def lambda_metric(
    name: str, statistic: str, function: WatchdogFunction, *, period: Duration = FIVE_MINUTES, label: str = ""
) -> Metric:
    """Lambda's own metric of a function; it exists even if our code does not run."""
    return Metric(
        namespace="AWS/Lambda",
        metric_name=name,
        dimensions_map={"FunctionName": function.name},
        statistic=statistic,
        period=period,
        label=label or None,
    )


def queue_age_metric(queue: IQueue) -> Metric:
    """The age in seconds of the oldest message in a queue."""
    return Metric(
        namespace="AWS/SQS",
        metric_name="ApproximateAgeOfOldestMessage",
        dimensions_map={"QueueName": queue.queue_name},
        statistic="Maximum",
        period=MINUTE,
    )


def queue_depth_metric(queue: IQueue, *, label: str = "") -> Metric:
    """The number of messages that wait in a queue."""
    return Metric(
        namespace="AWS/SQS",
        metric_name="ApproximateNumberOfMessagesVisible",
        dimensions_map={"QueueName": queue.queue_name},
        statistic="Maximum",
        period=MINUTE,
        label=label or None,
    )

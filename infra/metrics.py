"""The metrics that the watchdog tells of itself, and AWS's of what it is made of."""

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
    """One that our functions emit; the log line that carries it is all it takes."""
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
    """Lambda's own of one function: there also when none of our code runs."""
    return Metric(
        namespace="AWS/Lambda",
        metric_name=name,
        dimensions_map={"FunctionName": function.name},
        statistic=statistic,
        period=period,
        label=label or None,
    )


def queue_age_metric(queue: IQueue) -> Metric:
    """For how many seconds the oldest message of a queue has waited."""
    return Metric(
        namespace="AWS/SQS",
        metric_name="ApproximateAgeOfOldestMessage",
        dimensions_map={"QueueName": queue.queue_name},
        statistic="Maximum",
        period=MINUTE,
    )


def queue_depth_metric(queue: IQueue, *, label: str = "") -> Metric:
    """How many messages a queue holds that nobody has taken."""
    return Metric(
        namespace="AWS/SQS",
        metric_name="ApproximateNumberOfMessagesVisible",
        dimensions_map={"QueueName": queue.queue_name},
        statistic="Maximum",
        period=MINUTE,
        label=label or None,
    )

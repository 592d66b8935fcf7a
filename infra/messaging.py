"""The topics and queues that connect the functions with each other and with people."""

from collections.abc import Sequence
from typing import Final

from aws_cdk import Acknowledgment, Aws, Duration, RemovalPolicy, Validations
from aws_cdk.aws_iam import Effect, PolicyStatement, ServicePrincipal
from aws_cdk.aws_kms import Key
from aws_cdk.aws_lambda import CfnEventSourceMapping
from aws_cdk.aws_sns import Subscription, SubscriptionProtocol, Topic
from aws_cdk.aws_sqs import DeadLetterQueue, Queue, QueueEncryption
from constructs import Construct

from infra.functions import WatchdogFunction
from infra.permissions import (
    Permission,
    change_message_visibility,
    encrypt_messages,
    publish,
    receive_messages,
    send_messages,
)

_VISIBILITY_TIMEOUT_FACTOR: Final = 6
"""The visibility timeout in timeouts of the function, as AWS recommends.

Lambda retries that long when it throttles the function. After a failure, the function itself makes the
message visible again within a minute. Source: Lambda developer guide, SQS.
"""

MAX_RECEIVES: Final = 5
"""Five minutes of retries. SQS FIFO holds back newer requests for the same volume until then."""

_BATCH_SIZE: Final = 1
"""Each request has the whole timeout of an invocation."""

_MAX_CONCURRENCY: Final = 2
"""Concurrent flip functions; with the event queues' four, some remain in an account limited to ten."""

_RETENTION: Final = Duration.days(14)


class Alerts(Construct):
    """The topic to which people subscribe, encrypted with a key that CloudWatch alarms may also use."""

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, emails: Sequence[str], chat: bool
    ) -> None:
        super().__init__(scope, construct_id)
        self.key = Key(
            self,
            "Key",
            description="burstwatch: alerts on their way",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,
            pending_window=Duration.days(7),
        )
        self.key.add_to_resource_policy(
            _alarm_statement(name, "EncryptAlarms", ["kms:Decrypt", "kms:GenerateDataKey*"], "*")
        )
        self.topic = self._make_topic("Topic", "burstwatch alerts")
        self.topic.add_to_resource_policy(
            _alarm_statement(name, "PublishAlarms", ["sns:Publish"], self.topic.topic_arn)
        )
        self.chat_topic = (
            self._make_topic("ChatTopic", "burstwatch alerts, for AWS's chat service") if chat else None
        )
        self.undelivered_queue = make_dead_letter_queue(self, "Undelivered")
        for email in emails:
            self._subscribe(f"To {email}", SubscriptionProtocol.EMAIL, email)

    @property
    def publish_permissions(self) -> tuple[Permission, ...]:
        """The permissions that a function needs to send alerts."""
        return publish(self.topic.topic_arn), encrypt_messages(self.key.key_arn)

    def deliver_to(self, function: WatchdogFunction) -> None:
        """Invoke the function with each alert."""
        function.function.add_permission(
            "Alerts", principal=ServicePrincipal("sns.amazonaws.com"), source_arn=self.topic.topic_arn
        )
        self._subscribe("ToFunction", SubscriptionProtocol.LAMBDA, function.arn)

    def _make_topic(self, construct_id: str, display_name: str) -> Topic:
        return Topic(self, construct_id, display_name=display_name, master_key=self.key, enforce_ssl=True)

    def _subscribe(self, construct_id: str, protocol: SubscriptionProtocol, endpoint: str) -> None:
        Subscription(
            self,
            construct_id,
            topic=self.topic,
            protocol=protocol,
            endpoint=endpoint,
            dead_letter_queue=self.undelivered_queue,
        )


class FlipRequests(Construct):
    """The FIFO queue of flip requests. Each volume is a message group, so no volume holds up another."""

    def __init__(self, scope: Construct, construct_id: str, *, timeout_s: int) -> None:
        """``timeout_s`` is the timeout of the function that takes the requests."""
        super().__init__(scope, construct_id)
        self.dead_letter_queue = make_dead_letter_queue(self, "DeadLetters", fifo=True)
        self.queue = Queue(
            self,
            "Queue",
            fifo=True,
            encryption=QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            visibility_timeout=Duration.seconds(_VISIBILITY_TIMEOUT_FACTOR * timeout_s),
            retention_period=Duration.hours(1),
            dead_letter_queue=DeadLetterQueue(queue=self.dead_letter_queue, max_receive_count=MAX_RECEIVES),
        )

    @property
    def send_permission(self) -> Permission:
        return send_messages(self.queue.queue_arn, sid="AskForFlips")

    def deliver_to(self, function: WatchdogFunction) -> None:
        """Invoke the function with one request at a time; it reports whether the request failed."""
        function.allow(
            receive_messages(self.queue.queue_arn, sid="TakeFlipRequests"),
            change_message_visibility(self.queue.queue_arn),
        )
        source = CfnEventSourceMapping(
            self,
            "Source",
            function_name=function.name,
            event_source_arn=self.queue.queue_arn,
            batch_size=_BATCH_SIZE,
            function_response_types=["ReportBatchItemFailures"],
            scaling_config=CfnEventSourceMapping.ScalingConfigProperty(maximum_concurrency=_MAX_CONCURRENCY),
        )
        source.node.add_dependency(function.role)


def make_dead_letter_queue(scope: Construct, construct_id: str, *, fifo: bool = False) -> Queue:
    """A queue for failed messages, which are kept for people to examine."""
    queue = Queue(
        scope,
        construct_id,
        fifo=fifo or None,
        encryption=QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=_RETENTION,
    )
    reason = "it is where failed messages end: Lambda, Scheduler, EventBridge and SNS are configured with it"
    Validations.of(queue).acknowledge(Acknowledgment(id="AwsSolutions-SQS3", reason=reason))
    return queue


def _alarm_statement(name: str, sid: str, actions: list[str], resource: str) -> PolicyStatement:
    """Allows only the alarms of this stack, by their names, to publish to an encrypted topic."""
    alarm_arns = f"arn:{Aws.PARTITION}:cloudwatch:{Aws.REGION}:{Aws.ACCOUNT_ID}:alarm:{name}-*"
    return PolicyStatement(
        sid=sid,
        effect=Effect.ALLOW,
        principals=[ServicePrincipal("cloudwatch.amazonaws.com")],
        actions=actions,
        resources=[resource],
        conditions={
            "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
            "ArnLike": {"aws:SourceArn": alarm_arns},
        },
    )

"""What each function may do: named actions on named resources, and why each is needed.

A wildcard is used only where AWS requires it. The reason is next to it, and cdk-nag reads it there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aws_cdk import Acknowledgment, Aws, Validations
from aws_cdk.aws_iam import PolicyStatement, Role

_REGION_AND_ACCOUNT: Final = f"{Aws.REGION}:{Aws.ACCOUNT_ID}"
_DESCRIBE_REASON: Final = (
    "EC2 lets the actions that describe be granted on * only; they read, and change nothing"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """Actions on resources; ``sid`` states the purpose, as the documentation does."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Mapping[str, Any] = field(default_factory=dict)
    wildcard_reason: str | None = None
    """Why AWS requires a wildcard in ``resources``."""


READ_VOLUMES: Final = Permission(
    sid="ReadVolumes",
    actions=("ec2:DescribeVolumes", "ec2:DescribeVolumesModifications", "ec2:DescribeInstances"),
    resources=("*",),
    wildcard_reason=_DESCRIBE_REASON,
)
READ_INSTANCE_TYPES: Final = Permission(
    sid="ReadInstanceTypes",
    actions=("ec2:DescribeInstanceTypes",),
    resources=("*",),
    wildcard_reason=_DESCRIBE_REASON,
)
READ_FILE_SYSTEMS: Final = Permission(
    sid="ReadFileSystems",
    actions=("elasticfilesystem:DescribeFileSystems",),
    resources=("*",),
    wildcard_reason="every file system of the Region is listed; it reads, and changes nothing",
)
READ_DATABASES: Final = Permission(
    sid="ReadDatabases",
    actions=("rds:DescribeDBInstances", "rds:DescribeValidDBInstanceModifications"),
    resources=("*",),
    wildcard_reason="every database of the Region is listed; it reads, and changes nothing",
)
READS_OF_KINDS: Final[Mapping[str, tuple[Permission, ...]]] = {
    "instance": (READ_INSTANCE_TYPES,),
    "efs": (READ_FILE_SYSTEMS,),
    # what a class allows is what EC2 shows of the type behind it
    "rds": (READ_DATABASES, READ_INSTANCE_TYPES),
}
"""What each kind of resource needs besides the permissions to read volumes and metrics."""

READ_METRICS: Final = Permission(
    sid="ReadMetrics",
    actions=("cloudwatch:GetMetricData",),
    resources=("*",),
    wildcard_reason="CloudWatch lets GetMetricData be granted on * only; it reads, and changes nothing",
)
TRACE: Final = Permission(
    sid="Trace",
    actions=("xray:PutTraceSegments", "xray:PutTelemetryRecords"),
    resources=("*",),
    wildcard_reason="X-Ray lets segments be put on * only; there is nothing else to name",
)


def modify_opted_in(opt_in_tag: tuple[str, str]) -> Permission:
    """To modify volumes that carry the opt-in tag. IAM denies all others, whatever our code does."""
    key, value = opt_in_tag
    return Permission(
        sid="ModifyOptedInVolumes",
        actions=("ec2:ModifyVolume",),
        resources=(f"arn:{Aws.PARTITION}:ec2:{_REGION_AND_ACCOUNT}:volume/*",),
        conditions={"StringEquals": {f"ec2:ResourceTag/{key}": value}},
        wildcard_reason=(
            "which volumes opt in is not known at deploy time; the condition on their tag bounds it"
        ),
    )


def use_ledger(table_arn: str, *, excluded_partitions: str) -> Permission:
    """To read and write the ledger, except the partition of ``excluded_partitions``.

    It includes neither a scan nor a change of the table itself.
    """
    reads = ("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query")
    writes = ("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:ConditionCheckItem")
    return Permission(
        sid="UseLedger",
        actions=reads + writes,
        resources=(table_arn,),
        conditions={"ForAllValues:StringNotLike": {"dynamodb:LeadingKeys": [excluded_partitions]}},
    )


def use_sent_log(table_arn: str, partition: str) -> Permission:
    """To record sent messages in one part of the ledger's table, without access to the rest."""
    return Permission(
        sid="RememberWhatWasSent",
        actions=("dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"),
        resources=(table_arn,),
        conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [partition]}},
    )


def read_policy(*names: str) -> Permission:
    """To read the policy, deployed or pushed."""
    return Permission(
        sid="ReadPolicy",
        actions=("ssm:GetParameters",),
        resources=tuple(parameter_arn(name) for name in names),
    )


def list_deployments(path: str) -> Permission:
    """To list the other stacks that watch this region."""
    return Permission(
        sid="ListDeployments",
        actions=("ssm:GetParametersByPath",),
        resources=(parameter_arn(path), parameter_arn(f"{path}/")),
    )


def write_parameter_once(name: str) -> Permission:
    """To create a parameter; an existing one cannot be overwritten."""
    return Permission(
        sid="WriteFirstDeploy",
        actions=("ssm:PutParameter",),
        resources=(parameter_arn(name),),
        conditions={"StringNotEquals": {"ssm:Overwrite": "true"}},
    )


def publish(topic_arn: str) -> Permission:
    """To publish to this topic."""
    return Permission(sid="Publish", actions=("sns:Publish",), resources=(topic_arn,))


def encrypt_messages(key_arn: str) -> Permission:
    """To publish to a topic that is encrypted with this key."""
    return Permission(
        sid="EncryptMessages", actions=("kms:Decrypt", "kms:GenerateDataKey"), resources=(key_arn,)
    )


def send_messages(queue_arn: str, *, sid: str) -> Permission:
    """To send messages to this queue."""
    return Permission(sid=sid, actions=("sqs:SendMessage",), resources=(queue_arn,))


def receive_messages(*queue_arns: str, sid: str) -> Permission:
    """To receive messages from these queues."""
    return Permission(
        sid=sid,
        actions=("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
        resources=queue_arns,
    )


def change_message_visibility(queue_arn: str) -> Permission:
    """To make a failed message visible again before its visibility timeout ends."""
    return Permission(
        sid="PutBackFlipRequests",
        actions=("sqs:ChangeMessageVisibility",),
        resources=(queue_arn,),
    )


def read_secret(secret: str) -> Permission:
    """To read this secret, given by name or ARN."""
    if secret.startswith("arn:"):
        return Permission(sid="ReadSecret", actions=("secretsmanager:GetSecretValue",), resources=(secret,))
    return Permission(
        sid="ReadSecret",
        actions=("secretsmanager:GetSecretValue",),
        resources=(f"arn:{Aws.PARTITION}:secretsmanager:{_REGION_AND_ACCOUNT}:secret:{secret}-??????",),
        wildcard_reason="Secrets Manager ends every ARN with six random characters, not known at deploy time",
    )


def write_logs(log_group_arn: str) -> Permission:
    """To write log lines to this group."""
    return Permission(
        sid="WriteLogs", actions=("logs:CreateLogStream", "logs:PutLogEvents"), resources=(log_group_arn,)
    )


def invoke(*function_arns: str) -> Permission:
    """To invoke these functions."""
    return Permission(sid="Invoke", actions=("lambda:InvokeFunction",), resources=function_arns)


def parameter_arn(name: str) -> str:
    """The ARN of a parameter, or of a path of parameters."""
    return f"arn:{Aws.PARTITION}:ssm:{_REGION_AND_ACCOUNT}:parameter{name}"


def grant(role: Role, *permissions: Permission) -> None:
    """Grant these permissions to the role, and state the reason for each wildcard to cdk-nag."""
    for permission in permissions:
        role.add_to_policy(
            PolicyStatement(
                sid=permission.sid,
                actions=list(permission.actions),
                resources=list(permission.resources),
                conditions=dict(permission.conditions),
            )
        )
        for resource in permission.resources:
            if permission.wildcard_reason:
                finding_id = f"AwsSolutions-IAM5[Resource::{_as_reported(resource)}]"
                Validations.of(role).acknowledge(
                    Acknowledgment(id=finding_id, reason=permission.wildcard_reason)
                )


def _as_reported(resource: str) -> str:
    """The resource as cdk-nag names it."""
    for token, name in (
        (Aws.PARTITION, "<AWS::Partition>"),
        (Aws.REGION, "<AWS::Region>"),
        (Aws.ACCOUNT_ID, "<AWS::AccountId>"),
    ):
        resource = resource.replace(token, name)
    return resource

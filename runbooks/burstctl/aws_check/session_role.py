"""A role that may modify two volumes of the run, to try conditions of IAM with session policies.

The IAM policy simulator cannot answer this, because the question is which context EC2 sends. Each attempt is
a dry run, so nothing is modified.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

from botocore.exceptions import ClientError

from burstctl.aws_check.fact_context import GP3, VOLUME_ACTIONS, FactContext, FactRefused
from burstctl.aws_check.resources import make_tags, role_path
from burstctl.aws_check.result import NotMeasuredError

ALLOWED_CODE: Final = "DryRunOperation"
DENIED_CODE: Final = "UnauthorizedOperation"
_ACTION: Final = "ec2:ModifyVolume"
_SESSION_DURATION_S: Final = 900  # the least that AssumeRole takes; Source: STS API reference, AssumeRole
_POLL_INTERVAL_S: Final = 10  # IAM is eventually consistent; the time-out is below
_PROPAGATION_TIMEOUT_S: Final = 180
"""IAM is eventually consistent: a new role may not be effective everywhere at once."""

ACTIONS: Final = (
    *VOLUME_ACTIONS,
    "iam:CreateRole",
    "iam:TagRole",
    "iam:PutRolePolicy",
    "iam:ListRoleTags",
    "iam:ListRolePolicies",
    "iam:DeleteRolePolicy",
    "iam:DeleteRole",
    "sts:AssumeRole",
)


def make_policy(condition: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A policy that allows ModifyVolume, under a condition if one is given."""
    statement: dict[str, Any] = {"Effect": "Allow", "Action": _ACTION, "Resource": "*"}
    if condition is not None:
        statement["Condition"] = condition
    return {"Version": "2012-10-17", "Statement": [statement]}


def create_role(context: FactContext, name: str, volume_ids: Sequence[str]) -> str:
    """Create a role that this account may assume and that may modify these volumes; return its ARN."""
    account, region = context.run_file.account, context.run_file.region
    partition = context.partition
    trust_statement = {"Effect": "Allow", "Principal": {"AWS": f"arn:{partition}:iam::{account}:root"}}
    role_policy = make_policy()
    role_policy["Statement"][0]["Resource"] = [
        f"arn:{partition}:ec2:{region}:{account}:volume/{volume_id}" for volume_id in volume_ids
    ]
    iam = context.client("iam")
    role_name = f"{context.resource_name}-{name}"
    document = {"Version": "2012-10-17", "Statement": [{**trust_statement, "Action": "sts:AssumeRole"}]}

    def create() -> str:
        try:
            iam.create_role(
                RoleName=role_name,
                Path=role_path(context.client),
                AssumeRolePolicyDocument=json.dumps(document),
                Tags=make_tags(context.run_file.run_id),
            )
        except ClientError as error:  # the answer to the first request was lost, and botocore repeated it
            if FactRefused.from_error(error).code != "EntityAlreadyExists":
                raise
        return role_name

    context.create("role", create)
    iam.put_role_policy(RoleName=role_name, PolicyName="modify", PolicyDocument=json.dumps(role_policy))
    return f"arn:{partition}:iam::{account}:role{role_path(context.client)}{role_name}"


def dry_run_as(
    context: FactContext, role_arn: str, policy: Mapping[str, Any], volume_id: str
) -> Generator[float, None, FactRefused]:
    """The response to the role for a dry run of ModifyVolume to gp3 under this session policy.

    Raises:
        ClientError: the role cannot be assumed within the time that IAM may take.
    """
    context.check_owned("volume", volume_id)
    deadline_s = context.now_s() + _PROPAGATION_TIMEOUT_S
    while True:
        try:
            response = context.client("sts").assume_role(
                RoleArn=role_arn,
                RoleSessionName="aws-check",
                Policy=json.dumps(policy),
                DurationSeconds=_SESSION_DURATION_S,
            )
            break
        except ClientError:
            if context.now_s() >= deadline_s:
                raise
        yield _POLL_INTERVAL_S
    ec2 = context.client_as("ec2", response["Credentials"])
    try:
        ec2.modify_volume(VolumeId=volume_id, **GP3, DryRun=True)
    except ClientError as error:
        if (answer := FactRefused.from_error(error)).code not in (ALLOWED_CODE, DENIED_CODE):
            raise  # neither yes nor no
        return answer
    raise NotMeasuredError("AWS carried out a dry run")


def check_effective(*, is_effective: bool) -> None:
    """Refuse to conclude anything from a role that is not allowed anything.

    Raises:
        NotMeasuredError: it may not even modify without a condition.
    """
    if not is_effective:
        raise NotMeasuredError(
            "the role was refused without any condition too: look for an SCP or a boundary"
        )


def wait_until_allowed(
    context: FactContext, role_arn: str, policy: Mapping[str, Any], volume_id: str
) -> Generator[float, None, bool]:
    """Whether it is allowed under this policy before IAM's time to make the role effective is over."""
    deadline_s = context.now_s() + _PROPAGATION_TIMEOUT_S
    while True:
        answer = yield from dry_run_as(context, role_arn, policy, volume_id)
        if answer.code == ALLOWED_CODE or context.now_s() >= deadline_s:
            return answer.code == ALLOWED_CODE
        yield _POLL_INTERVAL_S

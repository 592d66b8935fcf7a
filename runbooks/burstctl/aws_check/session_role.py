"""A role that may modify two volumes of the run, to try conditions of IAM with session policies.

A simulation would not do: it evaluates what we say that EC2 sends, and the question is what EC2 sends. Each
try is a dry run, so nothing is modified.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

from botocore.exceptions import ClientError

from burstctl.aws_check.bench import Bench, Refusal
from burstctl.aws_check.resources import role_path, tags
from burstctl.aws_check.result import NotMeasured

ALLOWED: Final = "DryRunOperation"
DENIED: Final = "UnauthorizedOperation"
_ACTION: Final = "ec2:ModifyVolume"
_LIFE_S: Final = 900
_LOOK_EVERY_S: Final = 10
_PATIENCE_S: Final = 180
"""IAM takes a while until a new role is known everywhere."""

ACTIONS: Final = (
    "ec2:DescribeAvailabilityZones",
    "ec2:CreateVolume",
    "ec2:CreateTags",
    "ec2:DescribeVolumes",
    "ec2:DeleteVolume",
    "iam:CreateRole",
    "iam:TagRole",
    "iam:PutRolePolicy",
    "iam:ListRoleTags",
    "iam:ListRolePolicies",
    "iam:DeleteRolePolicy",
    "iam:DeleteRole",
    "sts:AssumeRole",
)


def policy_of(condition: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A policy that allows ModifyVolume, under a condition if one is given."""
    statement: dict[str, Any] = {"Effect": "Allow", "Action": _ACTION, "Resource": "*"}
    if condition is not None:
        statement["Condition"] = condition
    return {"Version": "2012-10-17", "Statement": [statement]}


def create_role(bench: Bench, name: str, volume_ids: Sequence[str]) -> str:
    """A role that this account may assume, and that may modify these volumes; answers its ARN."""
    account, region = bench.run.account, bench.run.region
    partition = bench.partition
    trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:{partition}:iam::{account}:root"}}
    allowed = policy_of()
    allowed["Statement"][0]["Resource"] = [
        f"arn:{partition}:ec2:{region}:{account}:volume/{volume_id}" for volume_id in volume_ids
    ]
    iam = bench.client("iam")
    role_name = f"{bench.name}-{name}"
    document = {"Version": "2012-10-17", "Statement": [{**trust, "Action": "sts:AssumeRole"}]}

    def create() -> str:
        try:
            iam.create_role(
                RoleName=role_name,
                Path=role_path(bench.client),
                AssumeRolePolicyDocument=json.dumps(document),
                Tags=tags(bench.run.run_id),
            )
        except ClientError as error:  # the answer to the first request was lost, and botocore repeated it
            if Refusal.of(error).code != "EntityAlreadyExists":
                raise
        return role_name

    bench.create("role", create)
    iam.put_role_policy(RoleName=role_name, PolicyName="modify", PolicyDocument=json.dumps(allowed))
    return f"arn:{partition}:iam::{account}:role{role_path(bench.client)}{role_name}"


def dry_run_as(
    bench: Bench, role_arn: str, policy: Mapping[str, Any], volume_id: str
) -> Generator[float, None, Refusal]:
    """What ModifyVolume to gp3 answers to the role under this session policy, as a dry run.

    Raises:
        ClientError: the role cannot be assumed within the time that IAM may take.
    """
    bench.check_ours("volume", volume_id)
    end_s = bench.now_s() + _PATIENCE_S
    while True:
        try:
            response = bench.client("sts").assume_role(
                RoleArn=role_arn,
                RoleSessionName="aws-check",
                Policy=json.dumps(policy),
                DurationSeconds=_LIFE_S,
            )
            break
        except ClientError:
            if bench.now_s() >= end_s:
                raise
        yield _LOOK_EVERY_S
    ec2 = bench.client_as("ec2", response["Credentials"])
    try:
        ec2.modify_volume(VolumeId=volume_id, VolumeType="gp3", Iops=3000, Throughput=125, DryRun=True)
    except ClientError as error:
        if (answer := Refusal.of(error)).code not in (ALLOWED, DENIED):
            raise  # neither yes nor no
        return answer
    raise NotMeasured("AWS carried out a dry run")


def when_allowed(
    bench: Bench, role_arn: str, policy: Mapping[str, Any], volume_id: str
) -> Generator[float, None, bool]:
    """Whether it is allowed under this policy, within the time that IAM may take to know the role."""
    end_s = bench.now_s() + _PATIENCE_S
    while True:
        answer = yield from dry_run_as(bench, role_arn, policy, volume_id)
        if answer.code == ALLOWED or bench.now_s() >= end_s:
            return answer.code == ALLOWED
        yield _LOOK_EVERY_S

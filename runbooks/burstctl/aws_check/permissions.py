"""The IAM policies of a run: it may create, and change or delete only what carries the run's tag.

What would let its holder gain permissions is in a policy of its own, which few facts need.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Final

from burstctl.aws_check.resources import PREFIX, ROLE_PATH, TAG

_READS: Final = ("Describe", "Get", "List")
_TAGGED: Final = frozenset(
    {
        "ec2:AttachVolume",
        "ec2:DeleteVolume",
        "ec2:ModifyVolume",
        "ec2:TerminateInstances",
        "kms:ScheduleKeyDeletion",
    }
)
"""What a condition on the tag narrows; what creates cannot be narrowed so, as there is no tag before it."""

_BY_NAME: Final = {
    "iam": f"arn:aws:iam::*:role{ROLE_PATH}*",
    "sns": f"arn:aws:sns:*:*:{PREFIX}*",
    "sqs": f"arn:aws:sqs:*:*:{PREFIX}*",
    "events": f"arn:aws:events:*:*:rule/{PREFIX}*",
    "cloudwatch": f"arn:aws:cloudwatch:*:*:alarm:{PREFIX}*",
}
_TAGS: Final = "ec2:CreateTags"
"""Allowed while something is created only: who may tag others' volumes could then delete them."""

_ASSUME: Final = "sts:AssumeRole"
_PRIVILEGED_SERVICES: Final = ("iam", "kms")
"""A role with any policy can be created and assumed; any key can be tagged, then deleted by its tag."""


def is_privileged(action: str) -> bool:
    """Whether an action lets its holder gain permissions, or delete keys of others."""
    service, _, operation = action.partition(":")
    return action == _ASSUME or (service in _PRIVILEGED_SERVICES and not operation.startswith(_READS))


def iam_policy(actions: Iterable[str]) -> dict[str, Any]:
    """A policy document that allows these actions as narrowly as IAM lets it, without the privileged ones."""
    return _document({each for each in actions if not is_privileged(each)})


def privileged_iam_policy(actions: Iterable[str]) -> dict[str, Any] | None:
    """A policy document for the privileged ones of these actions; None if there are none."""
    found = {each for each in actions if is_privileged(each)}
    return _document(found) if found else None


def _document(left: AbstractSet[str]) -> dict[str, Any]:
    reads = {each for each in left if each.partition(":")[2].startswith(_READS)}
    tagged = left & _TAGGED
    named = {
        service: {each for each in left - reads - tagged if each.startswith(f"{service}:")}
        for service in _BY_NAME
    }
    if _ASSUME in left:
        named["iam"] = named["iam"] | {_ASSUME}
    others = left - reads - tagged - set().union(*named.values()) - {_TAGS}
    on_creation = {"StringEquals": {"ec2:CreateAction": ["CreateVolume", "RunInstances"]}}
    statements = [
        _statement("Look", reads, "*"),
        _statement("Create", others, "*"),
        _statement("TagWhatIsCreated", {_TAGS} & left, "*", on_creation),
        _statement("OwnByTag", tagged, "*", {"StringLike": {f"aws:ResourceTag/{TAG}": "*"}}),
        *(_statement(f"Own{service.title()}", found, _BY_NAME[service]) for service, found in named.items()),
    ]
    return {"Version": "2012-10-17", "Statement": [each for each in statements if each["Action"]]}


def _statement(
    sid: str, actions: Iterable[str], resource: str, condition: dict[str, Any] | None = None
) -> dict[str, Any]:
    found = {"Sid": sid, "Effect": "Allow", "Action": sorted(actions), "Resource": resource}
    return found if condition is None else {**found, "Condition": condition}

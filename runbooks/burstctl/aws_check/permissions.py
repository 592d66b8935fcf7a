"""The IAM policies of a run: it may create, and change or delete only what carries the run's tag.

Actions with which a user could gain more permissions are in a separate policy; few facts need them.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Final

from burstctl.aws_check.resources import PREFIX, ROLE_PATH, TAG

_READS: Final = ("Describe", "Get", "List")
_TAG_CONDITIONED: Final = frozenset(
    {
        "ec2:AttachVolume",
        "ec2:DeleteVolume",
        "ec2:ModifyVolume",
        "ec2:TerminateInstances",
        "kms:ScheduleKeyDeletion",
    }
)
"""What a condition on the tag narrows; what creates cannot be narrowed so, as there is no tag before it."""

_ARN_BY_SERVICE: Final = {
    "iam": f"arn:aws:iam::*:role{ROLE_PATH}*",
    "sns": f"arn:aws:sns:*:*:{PREFIX}*",
    "sqs": f"arn:aws:sqs:*:*:{PREFIX}*",
    "events": f"arn:aws:events:*:*:rule/{PREFIX}*",
    "cloudwatch": f"arn:aws:cloudwatch:*:*:alarm:{PREFIX}*",
}
_CREATE_TAGS: Final = "ec2:CreateTags"
"""Allowed while something is created only: who may tag others' volumes could then delete them."""

_ASSUME_ROLE: Final = "sts:AssumeRole"
_PRIVILEGED_SERVICES: Final = ("iam", "kms")
"""A role with any policy can be created and assumed; any key can be tagged, then deleted by its tag."""


def is_privileged(action: str) -> bool:
    """Whether an action lets its holder gain permissions, or delete keys of others."""
    service, _, operation = action.partition(":")
    return action == _ASSUME_ROLE or (service in _PRIVILEGED_SERVICES and not operation.startswith(_READS))


def iam_policy(actions: Iterable[str]) -> dict[str, Any]:
    """A policy document that allows these actions as narrowly as IAM lets it, without the privileged ones."""
    return _policy_document({action for action in actions if not is_privileged(action)})


def privileged_iam_policy(actions: Iterable[str]) -> dict[str, Any] | None:
    """A policy document for the privileged ones of these actions; None without any."""
    privileged = {action for action in actions if is_privileged(action)}
    return _policy_document(privileged) if privileged else None


def _policy_document(actions: AbstractSet[str]) -> dict[str, Any]:
    reads = {action for action in actions if action.partition(":")[2].startswith(_READS)}
    tagged = actions & _TAG_CONDITIONED
    by_service = {
        service: {action for action in actions - reads - tagged if action.startswith(f"{service}:")}
        for service in _ARN_BY_SERVICE
    }
    if _ASSUME_ROLE in actions:
        by_service["iam"] = by_service["iam"] | {_ASSUME_ROLE}
    creating = actions - reads - tagged - set().union(*by_service.values()) - {_CREATE_TAGS}
    on_creation = {"StringEquals": {"ec2:CreateAction": ["CreateVolume", "RunInstances"]}}
    statements = [
        _statement("Look", reads, "*"),
        _statement("Create", creating, "*"),
        _statement("TagWhatIsCreated", {_CREATE_TAGS} & actions, "*", on_creation),
        _statement("OwnByTag", tagged, "*", {"StringLike": {f"aws:ResourceTag/{TAG}": "*"}}),
        *(
            _statement(f"Own{service.title()}", service_actions, _ARN_BY_SERVICE[service])
            for service, service_actions in by_service.items()
        ),
    ]
    return {"Version": "2012-10-17", "Statement": [action for action in statements if action["Action"]]}


def _statement(
    sid: str, actions: Iterable[str], resource: str, condition: dict[str, Any] | None = None
) -> dict[str, Any]:
    statement = {"Sid": sid, "Effect": "Allow", "Action": sorted(actions), "Resource": resource}
    return statement if condition is None else {**statement, "Condition": condition}

"""Whom the lab takes callers for, what they may do, and what its account may have.

STS's GetCallerIdentity, IAM's simulation of policies, and the quotas of EBS; the rest is moto's.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from burstlab.fake_aws.ec2.session_policy import Policy
from burstlab.fake_aws.protocols import Answer, Call, form, xml
from burstlab.model.aws_error import AwsError

_IAM: Final = "https://iam.amazonaws.com/doc/2010-05-08/"
_STS: Final = "https://sts.amazonaws.com/doc/2011-06-15/"
_MOST_ACTIONS: Final = 100
_ACTIONS: Final = frozenset({"GetCallerIdentity", "SimulatePrincipalPolicy", "AssumeRole"})
_USER: Final = "AIDABURSTLAB"

QUOTAS: Final[Mapping[str, tuple[str, float]]] = {
    "L-D18FCD1D": ("Storage for General Purpose SSD (gp2) volumes, in TiB", 50.0),
    "L-7A658B76": ("Storage for General Purpose SSD (gp3) volumes, in TiB", 50.0),
    "L-FD252861": ("Storage for Provisioned IOPS SSD (io1) volumes, in TiB", 50.0),
    "L-B3A130E6": ("IOPS for Provisioned IOPS SSD (io1) volumes", 300_000.0),
    "L-09BD8365": ("Storage for Provisioned IOPS SSD (io2) volumes, in TiB", 20.0),
    "L-8D977E7E": ("IOPS for Provisioned IOPS SSD (io2) volumes", 100_000.0),
}
"""Those of EBS that bear on flips, with what a new account has; there are others."""


class AccountApi:
    """Answers for the account; every caller is ``arn``, which is moto's name for somebody.

    Everything is allowed but the actions in ``denied``. ``sessions`` are the policies of roles that were
    assumed, by access key: all of them have to allow what is done. ``quotas`` are the values by code; one
    that is taken out is not told, as AWS does where an account never had a value of its own.
    """

    def __init__(self, account_id: str) -> None:
        self.arn = f"arn:aws:sts::{account_id}:user/moto"
        self.denied: set[str] = set()
        self.sessions: dict[str, list[Policy]] = {}
        self.quotas = {code: value for code, (_, value) in QUOTAS.items()}

    def answers(self, call: Call) -> bool:
        return call.service == "servicequotas" or call.action in _ACTIONS

    def answer(self, call: Call) -> Answer:
        if call.action == "GetCallerIdentity":
            return _told(
                call.action, _STS, {"UserId": _USER, "Account": self.arn.split(":")[4], "Arn": self.arn}
            )
        if call.action == "AssumeRole":
            return self._assume(form(call.body))
        if call.service == "iam":
            results = list(self._decide(form(call.body)))
            return _told(call.action, _IAM, {"EvaluationResults": results, "IsTruncated": False})
        if call.action != "ListServiceQuotas":
            raise AwsError("UnknownOperationException", f"the lab does not know {call.action} of its quotas")
        if json.loads(call.body or b"{}").get("ServiceCode") != "ebs":
            raise AwsError("NoSuchResourceException", "the lab has quotas of ebs only")
        told = {"Quotas": [_quota(code, value) for code, value in self.quotas.items()]}
        return Answer(body=json.dumps(told).encode(), content_type="application/x-amz-json-1.1")

    def _assume(self, asked: Mapping[str, str]) -> Answer:
        """A session of a role that moto holds; the policy it was asked with narrows what it may do."""
        account, role = asked["RoleArn"].split(":")[4], asked["RoleArn"].rpartition("/")[2]
        policies = _policies_of(account, role)
        if policies is None:
            denied = f"sts:AssumeRole on resource: {asked['RoleArn']}"
            raise AwsError("AccessDenied", f"User: {self.arn} is not authorized to perform: {denied}", 403)
        key = f"ASIA{uuid.uuid4().hex[:16].upper()}"
        self.sessions[key] = [*policies, *([json.loads(asked["Policy"])] if "Policy" in asked else [])]
        credentials = {
            "AccessKeyId": key,
            "SecretAccessKey": uuid.uuid4().hex,
            "SessionToken": uuid.uuid4().hex,
            "Expiration": "2099-01-01T00:00:00Z",
        }
        return _told("AssumeRole", _STS, {"Credentials": credentials})

    def _decide(self, asked: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        if "PolicySourceArn" not in asked:
            raise AwsError("InvalidInput", "PolicySourceArn is required")
        for number in range(1, _MOST_ACTIONS + 1):
            if (action := asked.get(f"ActionNames.member.{number}")) is None:
                return
            decision = "implicitDeny" if action in self.denied else "allowed"
            resource = asked.get("ResourceArns.member.1", "*")
            yield {"EvalActionName": action, "EvalResourceName": resource, "EvalDecision": decision}


def _policies_of(account: str, role_name: str) -> list[Policy] | None:
    """The policies in a role; None where there is no such role."""
    from moto.iam.models import iam_backends  # noqa: PLC0415 - heavy, seldom needed

    roles = iam_backends[account]["aws"].roles.values()
    role = next((each for each in roles if each.name == role_name), None)
    return None if role is None else [json.loads(held) for held in role.policies.values()]


def _quota(code: str, value: float) -> dict[str, Any]:
    return {
        "ServiceCode": "ebs",
        "ServiceName": "Amazon Elastic Block Store (Amazon EBS)",
        "QuotaCode": code,
        "QuotaName": QUOTAS[code][0],
        "Value": value,
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def _told(action: str, namespace: str, result: Mapping[str, Any]) -> Answer:
    """A successful answer in the query protocol."""
    text = (
        f'<{action}Response xmlns="{namespace}"><{action}Result>{xml(result, "member")}</{action}Result>'
        f"<ResponseMetadata><RequestId>{uuid.uuid4()}</RequestId></ResponseMetadata></{action}Response>"
    )
    return Answer(body=text.encode(), content_type="text/xml")

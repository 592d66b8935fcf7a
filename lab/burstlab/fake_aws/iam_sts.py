"""Whom the lab takes callers for, what they may do, and what its account may have.

STS's GetCallerIdentity, IAM's simulation of policies, and the quotas of EBS; the rest is moto's.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from burstlab.fake_aws.ec2.session_policy import Policy
from burstlab.fake_aws.protocols import Call, Response, parse_form, render_xml
from burstlab.model.aws_error import AwsError

_IAM: Final = "https://iam.amazonaws.com/doc/2010-05-08/"
_STS: Final = "https://sts.amazonaws.com/doc/2011-06-15/"
_MAX_ACTIONS: Final = 100  # more than the doctor simulates at once
_HANDLED_ACTIONS: Final = frozenset({"GetCallerIdentity", "SimulatePrincipalPolicy", "AssumeRole"})
_USER_ID: Final = "AIDABURSTLAB"

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
    """Serves calls about the account; every caller is ``arn``, which is moto's default.

    Everything is allowed but the actions in ``denied_actions``. ``sessions`` are the policies of assumed
    roles by access key; all of them must allow a call. ``quotas`` are the values by code. A quota that is
    removed is not listed, as in AWS for an account that never had a value of its own.
    """

    def __init__(self, account_id: str) -> None:
        self.arn = f"arn:aws:sts::{account_id}:user/moto"
        self.denied_actions: set[str] = set()
        self.sessions: dict[str, list[Policy]] = {}
        self.quotas = {code: value for code, (_, value) in QUOTAS.items()}

    def handles(self, call: Call) -> bool:
        return call.service == "servicequotas" or call.action in _HANDLED_ACTIONS

    def handle(self, call: Call) -> Response:
        if call.action == "GetCallerIdentity":
            return _query_response(
                call.action, _STS, {"UserId": _USER_ID, "Account": self.arn.split(":")[4], "Arn": self.arn}
            )
        if call.action == "AssumeRole":
            return self._assume_role(parse_form(call.body))
        if call.service == "iam":
            results = list(self._simulate_policy(parse_form(call.body)))
            return _query_response(call.action, _IAM, {"EvaluationResults": results, "IsTruncated": False})
        if call.action != "ListServiceQuotas":
            raise AwsError("UnknownOperationException", f"the lab does not know {call.action} of its quotas")
        if json.loads(call.body or b"{}").get("ServiceCode") != "ebs":
            raise AwsError("NoSuchResourceException", "the lab has quotas of ebs only")
        document = {"Quotas": [_quota_document(code, value) for code, value in self.quotas.items()]}
        return Response(body=json.dumps(document).encode(), content_type="application/x-amz-json-1.1")

    def _assume_role(self, request: Mapping[str, str]) -> Response:
        """A session of a role in moto; its session policy limits what it may do."""
        account, role = request["RoleArn"].split(":")[4], request["RoleArn"].rpartition("/")[2]
        policies = _role_policies(account, role)
        if policies is None:
            denied_action = f"sts:AssumeRole on resource: {request['RoleArn']}"
            raise AwsError(
                "AccessDenied", f"User: {self.arn} is not authorized to perform: {denied_action}", 403
            )
        key = f"ASIA{uuid.uuid4().hex[:16].upper()}"
        self.sessions[key] = [*policies, *([json.loads(request["Policy"])] if "Policy" in request else [])]
        credentials = {
            "AccessKeyId": key,
            "SecretAccessKey": uuid.uuid4().hex,
            "SessionToken": uuid.uuid4().hex,
            "Expiration": "2099-01-01T00:00:00Z",
        }
        return _query_response("AssumeRole", _STS, {"Credentials": credentials})

    def _simulate_policy(self, request: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        if "PolicySourceArn" not in request:
            raise AwsError("InvalidInput", "PolicySourceArn is required")
        for number in range(1, _MAX_ACTIONS + 1):
            if (action := request.get(f"ActionNames.member.{number}")) is None:
                return
            decision = "implicitDeny" if action in self.denied_actions else "allowed"
            resource = request.get("ResourceArns.member.1", "*")
            yield {"EvalActionName": action, "EvalResourceName": resource, "EvalDecision": decision}


def _role_policies(account: str, role_name: str) -> list[Policy] | None:
    """The policies of a role; None if there is no such role."""
    from moto.iam.models import iam_backends  # noqa: PLC0415 - heavy, seldom needed

    roles = iam_backends[account]["aws"].roles.values()
    role = next((candidate for candidate in roles if candidate.name == role_name), None)
    return None if role is None else [json.loads(policy) for policy in role.policies.values()]


def _quota_document(code: str, value: float) -> dict[str, Any]:
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


def _query_response(action: str, namespace: str, result: Mapping[str, Any]) -> Response:
    """A successful answer in the query protocol."""
    text = (
        f"<{action}Response"
        f' xmlns="{namespace}"><{action}Result>{render_xml(result, "member")}</{action}Result>'
        f"<ResponseMetadata><RequestId>{uuid.uuid4()}</RequestId></ResponseMetadata></{action}Response>"
    )
    return Response(body=text.encode(), content_type="text/xml")

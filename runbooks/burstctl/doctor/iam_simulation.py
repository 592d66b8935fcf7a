"""Simulates permissions in IAM that could otherwise only be tested by using them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from burstctl.doctor.context import DoctorContext
from burstwatch.adapters.aws.errors import AwsError, FailureKind, translate_errors
from burstwatch.core.text import sanitise

_ASSUMED_ROLE_PREFIX: Final = "assumed-role/"
_SSO_ROLE_PREFIX: Final = "AWSReservedSSO_"
"""These roles have a path that is not part of the session's ARN."""

_MAX_PAGES: Final = 10  # a page has a hundred results, and far fewer actions are simulated
_MAX_TEXT_LENGTH: Final = 160  # a reason is the end of a sentence


class SimulationOutcome(StrEnum):
    """The result of a simulation."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionSimulation:
    """The result for an action, and the reason if it is not allowed."""

    outcome: SimulationOutcome
    reason: str = ""


def simulate(
    doctor_context: DoctorContext,
    actions: Sequence[str],
    resource: str,
    *,
    request_context: Mapping[str, str] | None = None,
) -> Mapping[str, PermissionSimulation]:
    """Ask IAM whether the caller may do this; without a response, everything is unknown.

    Raises:
        AwsError: IAM did not answer; not being allowed to ask is an answer.
    """
    try:
        principal = find_principal(doctor_context)
        if principal is None:
            reason = "IAM cannot simulate this kind of identity"
            return dict.fromkeys(
                actions, PermissionSimulation(outcome=SimulationOutcome.UNKNOWN, reason=reason)
            )
        return dict(_simulate_pages(doctor_context, principal, actions, resource, request_context or {}))
    except AwsError as error:
        if error.failure.kind not in (FailureKind.REFUSED, FailureKind.NOT_FOUND, FailureKind.BROKEN):
            raise
        reason = sanitise(f"{error.failure.action}: {error.failure.message}", _MAX_TEXT_LENGTH)
        return dict.fromkeys(actions, PermissionSimulation(outcome=SimulationOutcome.UNKNOWN, reason=reason))


def find_principal(context: DoctorContext) -> str | None:
    """The user or role of the caller, as IAM names it; None if nothing can be simulated.

    Raises:
    AwsError: only IAM knows it, and the call fails.
    """
    arn = context.caller().identity.arn
    head, _, resource = arn.rpartition(":")
    if resource.startswith("user/"):
        return arn
    if not resource.startswith(_ASSUMED_ROLE_PREFIX):
        return None
    role = resource.removeprefix(_ASSUMED_ROLE_PREFIX).partition("/")[0]
    default_arn = f"{head.replace(':sts:', ':iam:')}:role/{role}"
    try:
        with translate_errors("iam:GetRole"):
            return str(context.client("iam").get_role(RoleName=role)["Role"]["Arn"])
    except AwsError:
        if role.startswith(_SSO_ROLE_PREFIX):
            raise
        return default_arn


def read_decision(result: Mapping[str, Any]) -> PermissionSimulation:
    """One result; allowed only where nothing that was simulated says no, and nothing was left open."""
    overriding_policies = (
        ("OrganizationsDecisionDetail", "AllowedByOrganizations", "a policy of the organization forbids it"),
        (
            "PermissionsBoundaryDecisionDetail",
            "AllowedByPermissionsBoundary",
            "its permissions boundary leaves it out",
        ),
    )
    for detail, flag, reason in overriding_policies:
        if result.get(detail, {}).get(flag) is False:
            return PermissionSimulation(outcome=SimulationOutcome.DENIED, reason=reason)
    if missing := _missing_context_keys(result):
        reason = sanitise(f"it depends on {', '.join(missing)}", _MAX_TEXT_LENGTH)
        return PermissionSimulation(outcome=SimulationOutcome.UNKNOWN, reason=reason)
    match result.get("EvalDecision"):
        case "allowed":
            return PermissionSimulation(outcome=SimulationOutcome.ALLOWED)
        case "explicitDeny":
            return PermissionSimulation(
                outcome=SimulationOutcome.DENIED, reason="an explicit deny forbids it"
            )
        case "implicitDeny":
            return PermissionSimulation(outcome=SimulationOutcome.DENIED, reason="no policy allows it")
        case decision:
            return PermissionSimulation(outcome=SimulationOutcome.UNKNOWN, reason=f"IAM decided {decision!r}")


def _missing_context_keys(result: Mapping[str, Any]) -> list[str]:
    """The context keys that policies need and the request lacked, for the action or for its resources."""
    parts = (result, *result.get("ResourceSpecificResults", ()))
    missing = (str(key) for part in parts for key in part.get("MissingContextValues", ()))
    return list(dict.fromkeys(missing))


def _simulate_pages(
    doctor_context: DoctorContext,
    principal: str,
    actions: Sequence[str],
    resource: str,
    request_context: Mapping[str, str],
) -> Iterator[tuple[str, PermissionSimulation]]:
    context_values = {"aws:RequestedRegion": doctor_context.region, **request_context}
    request: dict[str, Any] = {
        "PolicySourceArn": principal,
        "ActionNames": list(actions),
        "ResourceArns": [resource],
        "ContextEntries": [
            {"ContextKeyName": name, "ContextKeyType": "string", "ContextKeyValues": [value]}
            for name, value in context_values.items()
        ],
    }
    unanswered = dict.fromkeys(actions)
    for _ in range(_MAX_PAGES):
        with translate_errors("iam:SimulatePrincipalPolicy"):
            response = doctor_context.client("iam").simulate_principal_policy(**request)
        for result in response.get("EvaluationResults", ()):
            unanswered.pop(result["EvalActionName"], None)
            yield result["EvalActionName"], read_decision(result)
        if not response.get("IsTruncated"):
            break
        request["Marker"] = response["Marker"]
    for action in unanswered:
        yield (
            action,
            PermissionSimulation(outcome=SimulationOutcome.UNKNOWN, reason="IAM left it out of its answer"),
        )

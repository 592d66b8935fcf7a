"""What IAM says of permissions that can only be tried by doing something: it is asked to simulate them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from burstctl.doctor.context import Patient
from burstwatch.adapters.aws.errors import AwsError, FailureKind, explained
from burstwatch.core.text import printable

_ROLE: Final = "assumed-role/"
_SSO: Final = "AWSReservedSSO_"
"""These roles are below a path that their sessions do not tell."""

_MOST_PAGES: Final = 10
_LONGEST: Final = 160


class Answer(StrEnum):
    """What the simulation comes to."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """An action's answer, and why where it is not allowed."""

    answer: Answer
    because: str = ""


def simulate(
    patient: Patient,
    actions: Sequence[str],
    resource: str,
    *,
    context: Mapping[str, str] | None = None,
) -> Mapping[str, Simulated]:
    """Ask IAM whether the caller may do this to that; where it does not say, everything is unknown.

    Raises:
        AwsError: IAM did not answer; not being allowed to ask is an answer.
    """
    try:
        principal = principal_of(patient)
        if principal is None:
            because = "IAM cannot simulate this sort of identity"
            return dict.fromkeys(actions, Simulated(answer=Answer.UNKNOWN, because=because))
        return dict(_ask(patient, principal, actions, resource, context or {}))
    except AwsError as error:
        if error.failure.kind not in (FailureKind.REFUSED, FailureKind.NOT_FOUND, FailureKind.BROKEN):
            raise
        because = printable(f"{error.failure.action}: {error.failure.message}", _LONGEST)
        return dict.fromkeys(actions, Simulated(answer=Answer.UNKNOWN, because=because))


def principal_of(patient: Patient) -> str | None:
    """The user or role behind the caller, as IAM names it; None where there is none to simulate.

    Raises:
        AwsError: only IAM knows, and does not tell.
    """
    arn = patient.caller().identity.arn
    head, _, resource = arn.rpartition(":")
    if resource.startswith("user/"):
        return arn
    if not resource.startswith(_ROLE):
        return None
    role = resource.removeprefix(_ROLE).partition("/")[0]
    guess = f"{head.replace(':sts:', ':iam:')}:role/{role}"
    try:
        with explained("iam:GetRole"):
            return str(patient.client("iam").get_role(RoleName=role)["Role"]["Arn"])
    except AwsError:
        if role.startswith(_SSO):
            raise
        return guess


def read_decision(result: Mapping[str, Any]) -> Simulated:
    """One result; allowed only where nothing that was simulated says no, and nothing was left open."""
    by_others = (
        ("OrganizationsDecisionDetail", "AllowedByOrganizations", "a policy of the organization forbids it"),
        (
            "PermissionsBoundaryDecisionDetail",
            "AllowedByPermissionsBoundary",
            "its permissions boundary leaves it out",
        ),
    )
    for detail, flag, because in by_others:
        if result.get(detail, {}).get(flag) is False:
            return Simulated(answer=Answer.DENIED, because=because)
    if missing := _missing_in(result):
        because = printable(f"it depends on {', '.join(missing)}", _LONGEST)
        return Simulated(answer=Answer.UNKNOWN, because=because)
    match result.get("EvalDecision"):
        case "allowed":
            return Simulated(answer=Answer.ALLOWED)
        case "explicitDeny":
            return Simulated(answer=Answer.DENIED, because="an explicit deny forbids it")
        case "implicitDeny":
            return Simulated(answer=Answer.DENIED, because="no policy allows it")
        case decision:
            return Simulated(answer=Answer.UNKNOWN, because=f"IAM decided {decision!r}")


def _missing_in(result: Mapping[str, Any]) -> list[str]:
    """What policies ask for and nobody told; where a resource is named, IAM tells it beside that."""
    parts = (result, *result.get("ResourceSpecificResults", ()))
    missing = (str(key) for part in parts for key in part.get("MissingContextValues", ()))
    return list(dict.fromkeys(missing))


def _ask(
    patient: Patient, principal: str, actions: Sequence[str], resource: str, context: Mapping[str, str]
) -> Iterator[tuple[str, Simulated]]:
    known = {"aws:RequestedRegion": patient.region, **context}
    request: dict[str, Any] = {
        "PolicySourceArn": principal,
        "ActionNames": list(actions),
        "ResourceArns": [resource],
        "ContextEntries": [
            {"ContextKeyName": name, "ContextKeyType": "string", "ContextKeyValues": [value]}
            for name, value in known.items()
        ],
    }
    unanswered = dict.fromkeys(actions)
    for _ in range(_MOST_PAGES):
        with explained("iam:SimulatePrincipalPolicy"):
            told = patient.client("iam").simulate_principal_policy(**request)
        for result in told.get("EvaluationResults", ()):
            unanswered.pop(result["EvalActionName"], None)
            yield result["EvalActionName"], read_decision(result)
        if not told.get("IsTruncated"):
            break
        request["Marker"] = told["Marker"]
    for action in unanswered:
        yield action, Simulated(answer=Answer.UNKNOWN, because="IAM left it out of its answer")

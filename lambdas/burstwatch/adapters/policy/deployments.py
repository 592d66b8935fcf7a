"""Which watchdogs are deployed in this account and region, and which of them may flip: only one of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any, Final, Self

from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from burstwatch.adapters.aws import botocore_hooks
from burstwatch.adapters.aws.errors import translate_errors
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.resource_type import ResourceType
from burstwatch.core.text import format_instant, sanitise

if TYPE_CHECKING:
    from types_boto3_ssm import SSMClient

DEPLOYMENTS_PATH: Final = "/burstwatch/deployments"
SCHEMA: Final = "burstwatch.deployment/v1"
_REGISTERED_AT_SUFFIX: Final = "/since"
"""The suffix of parameters that hold a date: CloudFormation's by its own date, the functions' as a value."""

HANDOVER_S: Final = 600.0
"""How long a deployment that receives the authority to flip waits before it uses it.

By then every warm function of the previous one has read the list again, and what it had begun is over.
"""

LIST_MAX_AGE_S: Final = 300.0
"""How long a watchdog that flips uses what it has read about other deployments; less than ``HANDOVER_S``."""

_HAS_AUTHORITY: Final = "stands"
_AUTHORITY_FROM: Final = "stands from "
_YIELDS: Final = "gives way: "
_MAX_SHOWN_CHARS: Final = 120  # keeps the message of a malformed parameter to a line
_MAX_TIMESTAMP_S: Final = 1e11  # the year 5138; a time in milliseconds is later, and is refused


class DeploymentError(BurstwatchError):
    """The parameter in which a deployment describes itself cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A stack's description of itself; ``resources`` are the kinds that it has permission to watch."""

    name: str
    ledger: str
    policy: str
    topic_arn: str
    flips: bool
    opt_in_tag: tuple[str, str]
    resources: tuple[str, ...] = (ResourceType.EBS,)
    recorded_stack_name: str | None = None
    """What CloudFormation calls the stack; None if an earlier version deployed it."""

    @property
    def stack_name(self) -> str:
        """What to call the stack when asking CloudFormation: StackSets and others do not use ``name``."""
        return self.recorded_stack_name or self.name

    @classmethod
    def from_document(cls, text: str) -> Self:
        """Parse what the stack wrote; unknown keys belong to a later version and are ignored.

        Raises:
            DeploymentError: the text is something else.
        """
        try:
            document = json.loads(text)
            if document["schema"] != SCHEMA:
                raise DeploymentError(f"its schema is {_quote(document['schema'])}, not {SCHEMA!r}")
            tag = document["opt_in_tag"]
            flips, strings = document["flips"], [document[key] for key in _STRING_KEYS]
            # a stack of an earlier version watches volumes only, and does not say so
            resources = document.get("resources", [ResourceType.EBS])
            strings += [tag["key"], tag["value"], *resources]
            stack_name = document.get("stack")
            strings += [] if stack_name is None else [stack_name]
            is_listed = isinstance(resources, list) and isinstance(flips, bool)
            if not (is_listed and all(isinstance(string, str) for string in strings)):
                raise DeploymentError("a value in it is of the wrong kind")
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            reason = f"{type(error).__name__}: {sanitise(str(error), _MAX_SHOWN_CHARS)}"
            raise DeploymentError(f"it is not a {SCHEMA} document ({reason})") from error
        return cls(
            **{key: document[key] for key in _STRING_KEYS},
            flips=flips,
            opt_in_tag=(tag["key"], tag["value"]),
            resources=tuple(resources),
            recorded_stack_name=stack_name,
        )


def _quote(value: Any) -> str:
    return sanitise(repr(value), _MAX_SHOWN_CHARS)


_STRING_KEYS: Final = ("name", "ledger", "policy", "topic_arn")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentRecord:
    """A parameter of a deployment: its name, its age and its text.

    ``registered_at_s`` is the date of the parameter, which changes whenever CloudFormation updates it, even
    for a tag. ``first_registered_at_s`` is the first such date, which the deployment wrote once into its
    parameter ``origin_parameter``. ``arn`` is the ARN of the parameter: it names the account and region.
    """

    name: str
    registered_at_s: float
    text: str
    origin_parameter: str | None = None
    first_registered_at_s: float | None = None
    arn: str = ""

    @property
    def may_flip(self) -> bool:
        """Whether it is able to flip; true if that cannot be determined."""
        try:
            return self.read().flips
        except DeploymentError:
            return True

    def read(self) -> Deployment:
        """The description of the deployment.

        Raises:
            DeploymentError: it cannot be read; the message says where it is.
        """
        try:
            return Deployment.from_document(self.text)
        except DeploymentError as error:
            raise DeploymentError(
                f"the SSM parameter {DEPLOYMENTS_PATH}/{self.name} cannot be read: {error}",
                fix="deploy that stack again, with this version of burstwatch or a newer one",
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipAuthority:
    """Whether a deployment may flip; ``reason`` is a sentence for people if it may not."""

    may_flip: bool
    reason: str = ""
    is_only_deployment: bool = False
    """Whether no other deployment flips here."""
    first_registered_at_s: float = inf
    """Since when a deployment that may flip exists."""
    recheck_at_s: float = inf
    """When to check again: a deployment that takes over flips from then on."""


def find_deployments(client: "SSMClient") -> list[DeploymentRecord]:
    """Every deployment of this account and region; the first is the one that may flip.

    They are ordered by the date that each of them wrote once. If one of those that can flip has a version
    that writes no date, all are ordered by the dates of their parameters, as in that version. With two
    different orders, two deployments would flip.

    Raises:
        AwsError: Parameter Store could not be read.
    """
    with translate_errors("ssm:GetParametersByPath"):
        parameter_pages = botocore_hooks.paginate(
            client.get_parameters_by_path, list_key="Parameters", Path=DEPLOYMENTS_PATH, Recursive=True
        )
        parameters = [
            _require_complete(parameter) for page in parameter_pages for parameter in page["Parameters"]
        ]
    modified_at_s = {p["Name"]: p["LastModifiedDate"].timestamp() for p in parameters}
    origin_values = {p["Name"]: p["Value"] for p in parameters if p["Name"].endswith(_REGISTERED_AT_SUFFIX)}
    deployment_parameters = [
        parameter for parameter in parameters if not parameter["Name"].endswith(_REGISTERED_AT_SUFFIX)
    ]
    records = [
        _to_record(deployment_parameter, modified_at_s, origin_values)
        for deployment_parameter in deployment_parameters
    ]
    if all(record.origin_parameter for record in records if record.may_flip):
        return sorted(records, key=lambda record: (_first_registered_at_s(record), record.name))
    return sorted(records, key=lambda record: (record.registered_at_s, record.name))


def _first_registered_at_s(record: DeploymentRecord) -> float:
    """The date that it wrote once, or that it is about to write."""
    return record.registered_at_s if record.first_registered_at_s is None else record.first_registered_at_s


def write_origin(client: "SSMClient", record: DeploymentRecord) -> None:
    """Write once since when a deployment exists; an existing value is kept.

    Raises:
        AwsError: Parameter Store did not accept it.
    """
    if record.origin_parameter is None or record.first_registered_at_s is not None:
        return
    with translate_errors("ssm:PutParameter"):
        try:
            client.put_parameter(
                Name=record.origin_parameter,
                Value=f"{record.registered_at_s:.3f}",
                Type="String",
                Tier="Standard",
                Description="burstwatch: when this stack was first deployed, in seconds since 1970",
                Overwrite=False,
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ParameterAlreadyExists":
                raise


def _require_complete(parameter: Any) -> dict[str, Any]:
    """Require a complete parameter: which deployment is first must not be guessed.

    Raises:
        ResponseParserError: a field is missing.
    """
    match parameter:
        case {"Name": str(), "Value": str(), "LastModifiedDate": datetime()}:
            return dict(parameter)
    raise ResponseParserError(f"a parameter below {DEPLOYMENTS_PATH} is given as {_quote(parameter)}")


def _to_record(
    parameter: dict[str, Any], modified_at_s: Mapping[str, float], origin_values: Mapping[str, str]
) -> DeploymentRecord:
    """The record of a deployment, with the dates from the parameters beside its description."""
    name = parameter["Name"]
    registered_at_s = modified_at_s.get(f"{name}{_REGISTERED_AT_SUFFIX}", modified_at_s[name])
    origin_parameter = _origin_parameter(parameter)
    return DeploymentRecord(
        name=name.removeprefix(f"{DEPLOYMENTS_PATH}/"),
        registered_at_s=registered_at_s,
        text=parameter["Value"],
        origin_parameter=origin_parameter,
        first_registered_at_s=_parse_timestamp(origin_values.get(origin_parameter, ""))
        if origin_parameter
        else None,
        arn=str(parameter.get("ARN", "")),
    )


def _origin_parameter(parameter: dict[str, Any]) -> str | None:
    """The name of the parameter that the functions of this deployment write once, below its description."""
    try:
        origin = json.loads(parameter["Value"])["origin"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    is_own = (
        isinstance(origin, str)
        and origin.startswith(f"{parameter['Name']}/")
        and origin.endswith(_REGISTERED_AT_SUFFIX)
    )
    return origin if is_own else None


def _parse_timestamp(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < _MAX_TIMESTAMP_S else None


def flip_authority(name: str, records: Sequence[DeploymentRecord]) -> FlipAuthority:
    """Whether this deployment may flip: of several only the first, by date and then by name.

    One that was deployed without flips does not count. One that cannot be read does count, because a later
    version may have written it. If none is registered, not even this one, this deployment may flip.
    """
    flipping_records = [record for record in records if record.name == name or record.may_flip]
    if not flipping_records:
        return FlipAuthority(may_flip=True, is_only_deployment=True)
    first = flipping_records[0]
    if first.name == name:
        return FlipAuthority(
            may_flip=True,
            is_only_deployment=len(flipping_records) == 1,
            first_registered_at_s=_first_registered_at_s(first),
        )
    is_known = any(record.name == name for record in records)
    return FlipAuthority(
        may_flip=False,
        reason=(
            f"the deployment {first.name!r} has been in this account and region since"
            f" {format_instant(_first_registered_at_s(first))}, and only the first one flips: {name!r}"
            + (
                " only proposes"
                if is_known
                else f", whose own parameter {DEPLOYMENTS_PATH}/{name} is gone, only proposes"
            )
            + "; destroy one of the two stacks"
        ),
    )


def apply_handover(authority: FlipAuthority, note: str | None, now_s: float) -> tuple[FlipAuthority, str]:
    """The authority that counts now and the note to write, from the note of the last time.

    A deployment that had no authority before waits before it flips, so that two never flip at the same time.
    Without a note it is new, or had a version that wrote none. That version orders deployments by dates that
    only become later than the first ones, so an old deployment that has the authority now had it in that
    version as well. A note that cannot be read makes a deployment wait, unless it is the only one.
    """
    if not authority.may_flip:
        return authority, f"{_YIELDS}{authority.reason}"
    is_unreadable = note is not None and not note.startswith((_HAS_AUTHORITY, _YIELDS))
    is_old = now_s - authority.first_registered_at_s >= HANDOVER_S
    is_new_or_unreadable = note is None or is_unreadable
    if (
        note == _HAS_AUTHORITY
        or (note is None and is_old)
        or (authority.is_only_deployment and is_new_or_unreadable)
    ):
        return authority, _HAS_AUTHORITY
    authority_from_s = (
        _parse_timestamp(note.removeprefix(_AUTHORITY_FROM))
        if note and note.startswith(_AUTHORITY_FROM)
        else None
    )
    if authority_from_s is not None and now_s >= authority_from_s:
        return authority, _HAS_AUTHORITY
    authority_from_s = min(authority_from_s or now_s + HANDOVER_S, now_s + HANDOVER_S)
    reason = (
        f"this deployment flips from {format_instant(authority_from_s)} on: another one may have flipped"
        " until now"
    )
    return FlipAuthority(
        may_flip=False, reason=reason, recheck_at_s=authority_from_s
    ), f"{_AUTHORITY_FROM}{authority_from_s:.0f}"


def had_authority(note: str | None) -> bool:
    """Whether this deployment had the authority to flip when it last wrote its note."""
    return note == _HAS_AUTHORITY

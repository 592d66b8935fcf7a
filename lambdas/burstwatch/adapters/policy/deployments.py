"""Which watchdogs are deployed in this account and region, and which of them stands: it alone may flip."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import TYPE_CHECKING, Any, Final, Self

from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from burstwatch.adapters.aws import botocore_hooks
from burstwatch.adapters.aws.errors import explained
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import format_instant, printable

if TYPE_CHECKING:
    from types_boto3_ssm import SSMClient

PATH: Final = "/burstwatch/deployments"
SCHEMA: Final = "burstwatch.deployment/v1"
_SINCE: Final = "/since"
"""How parameters end that are not cards: of CloudFormation's by its date, of the functions' by its value."""

HANDOVER_S: Final = 600.0
"""How long a deployment that begins to stand waits before it flips: until every warm function of the one that
stood before has read the list again, and what it had begun is over."""

_STANDS: Final = "stands"
_FROM: Final = "stands from "
_GIVES_WAY: Final = "gives way: "
_LONGEST_SHOWN: Final = 120
_LATEST_S: Final = 1e11


class DeploymentError(BurstwatchError):
    """What a deployment says of itself cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What a stack says of itself."""

    name: str
    ledger: str
    policy: str
    topic_arn: str
    flips: bool
    opt_in_tag: tuple[str, str]

    @classmethod
    def from_document(cls, text: str) -> Self:
        """Read what the stack wrote; keys that are not known are those of a later version.

        Raises:
            DeploymentError: it is something else.
        """
        try:
            document = json.loads(text)
            if document["schema"] != SCHEMA:
                raise DeploymentError(f"its schema is {_shown(document['schema'])}, not {SCHEMA!r}")
            tag = document["opt_in_tag"]
            flips, words = document["flips"], [document[key] for key in _WORDS]
            words += [tag["key"], tag["value"]]
            if not (isinstance(flips, bool) and all(isinstance(word, str) for word in words)):
                raise DeploymentError("a value in it is of the wrong kind")
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            said = f"{type(error).__name__}: {printable(str(error), _LONGEST_SHOWN)}"
            raise DeploymentError(f"it is no {SCHEMA} document ({said})") from error
        *named, key, value = words
        return cls(**dict(zip(_WORDS, named, strict=True)), flips=flips, opt_in_tag=(key, value))


def _shown(value: Any) -> str:
    return printable(repr(value), _LONGEST_SHOWN)


_WORDS: Final = ("name", "ledger", "policy", "topic_arn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A parameter of a deployment: its name, since when it is there, and what it says.

    ``since_s`` is the date of a parameter, which moves when CloudFormation updates it, for a changed tag too.
    ``first_s`` is the first such date, which the deployment wrote once into its parameter ``origin``. ``arn``
    is that of the parameter: it names the account and region that were asked.
    """

    name: str
    since_s: float
    text: str
    origin: str | None = None
    first_s: float | None = None
    arn: str = ""

    @property
    def may_flip(self) -> bool:
        """Whether it has what it takes to flip, for all that can be told."""
        try:
            return self.read().flips
        except DeploymentError:
            return True

    def read(self) -> Deployment:
        """What the deployment says of itself.

        Raises:
            DeploymentError: it cannot be read, and where it is.
        """
        try:
            return Deployment.from_document(self.text)
        except DeploymentError as error:
            raise DeploymentError(
                f"the SSM parameter {PATH}/{self.name} cannot be read: {error}; deploy that stack again,"
                " with this version of burstwatch or a newer one"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Whether a deployment may flip; ``because`` is a sentence for people where it may not."""

    may_flip: bool
    because: str = ""
    is_alone: bool = False
    """Whether no other deployment flips here."""
    first_s: float = inf
    """Since when a deployment that may flip is there."""
    waits_until_s: float = inf
    """When it may be asked again: a deployment that takes over flips from then on."""


def find_deployments(client: "SSMClient") -> list[Registered]:
    """Every deployment of this account and region, the one that stands first.

    They are ordered by the date that each wrote once. While one of those that flip is of a version that
    writes none, all are ordered by the dates of their parameters, as that version orders them: by two orders,
    two deployments would flip.

    Raises:
        AwsError: Parameter Store does not say.
    """
    with explained("ssm:GetParametersByPath"):
        listed = botocore_hooks.pages(
            client.get_parameters_by_path, of="Parameters", Path=PATH, Recursive=True
        )
        told = [_whole(parameter) for page in listed for parameter in page["Parameters"]]
    dated_s = {p["Name"]: p["LastModifiedDate"].timestamp() for p in told}
    written = {p["Name"]: p["Value"] for p in told if p["Name"].endswith(_SINCE)}
    cards = [parameter for parameter in told if not parameter["Name"].endswith(_SINCE)]
    found = [_registered(card, dated_s, written) for card in cards]
    if all(one.origin for one in found if one.may_flip):
        return sorted(found, key=lambda one: (_first_s(one), one.name))
    return sorted(found, key=lambda one: (one.since_s, one.name))


def _first_s(one: Registered) -> float:
    """What it wrote once, or what it is about to write."""
    return one.since_s if one.first_s is None else one.first_s


def write_origin(client: "SSMClient", own: Registered) -> None:
    """Write once since when a deployment is there; a value that is there already stays.

    Raises:
        AwsError: Parameter Store does not take it.
    """
    if own.origin is None or own.first_s is not None:
        return
    with explained("ssm:PutParameter"):
        try:
            client.put_parameter(
                Name=own.origin,
                Value=f"{own.since_s:.3f}",
                Type="String",
                Tier="Standard",
                Description="burstwatch: when this stack was first deployed, in seconds since 1970",
                Overwrite=False,
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ParameterAlreadyExists":
                raise


def _whole(parameter: Any) -> dict[str, Any]:
    """A parameter of which nothing is missing: who stands first must not be guessed.

    Raises:
        ResponseParserError: something is.
    """
    match parameter:
        case {"Name": str(), "Value": str(), "LastModifiedDate": datetime()}:
            return dict(parameter)
    raise ResponseParserError(f"a parameter below {PATH} is told as {_shown(parameter)}")


def _registered(card: dict[str, Any], dated_s: Mapping[str, float], written: Mapping[str, str]) -> Registered:
    """A card with the parameters beside it that say since when it is there."""
    name = card["Name"]
    since_s = dated_s.get(f"{name}{_SINCE}", dated_s[name])
    origin = _origin(card)
    return Registered(
        name=name.removeprefix(f"{PATH}/"),
        since_s=since_s,
        text=card["Value"],
        origin=origin,
        first_s=_seconds(written.get(origin, "")) if origin else None,
        arn=str(card.get("ARN", "")),
    )


def _origin(card: dict[str, Any]) -> str | None:
    """The parameter that the functions of this deployment write once, by its card; it lies below the card."""
    try:
        origin = json.loads(card["Value"])["origin"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    is_own = isinstance(origin, str) and origin.startswith(f"{card['Name']}/") and origin.endswith(_SINCE)
    return origin if is_own else None


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < _LATEST_S else None


def standing_of(name: str, found: Sequence[Registered]) -> Standing:
    """Whether this deployment may flip: of several only the first, by when they came and then by name.

    One that was deployed without flips stands in nobody's way. One that cannot be read does: a later version
    may have written it. Where none is registered, not even this one, there is nobody to give way to.
    """
    flipping = [one for one in found if one.name == name or one.may_flip]
    if not flipping:
        return Standing(may_flip=True, is_alone=True)
    first = flipping[0]
    if first.name == name:
        return Standing(may_flip=True, is_alone=len(flipping) == 1, first_s=_first_s(first))
    is_known = any(one.name == name for one in found)
    return Standing(
        may_flip=False,
        because=(
            f"the deployment {first.name!r} has been in this account and region since"
            f" {format_instant(_first_s(first))}, and only the first one flips: {name!r}"
            + (
                " only proposes"
                if is_known
                else f", whose own parameter {PATH}/{name} is gone, only proposes"
            )
            + "; destroy one of the two stacks"
        ),
    )


def take_over(standing: Standing, noted: str | None, now_s: float) -> tuple[Standing, str]:
    """What counts now and what is to be noted, by what this deployment noted the last time.

    One that did not stand so far waits before it flips, so that at no moment two do. Without a note it is
    new, or was of a version that left none until this look. That version orders deployments by dates that
    only move later than the first ones, so an old deployment that stands now stood under it as well. A note
    that cannot be read makes a deployment wait, unless it is the only one.
    """
    if not standing.may_flip:
        return standing, f"{_GIVES_WAY}{standing.because}"
    is_damaged = noted is not None and not noted.startswith((_STANDS, _GIVES_WAY))
    is_old = now_s - standing.first_s >= HANDOVER_S
    is_new_or_damaged = noted is None or is_damaged
    if noted == _STANDS or (noted is None and is_old) or (standing.is_alone and is_new_or_damaged):
        return standing, _STANDS
    from_s = _seconds(noted.removeprefix(_FROM)) if noted and noted.startswith(_FROM) else None
    if from_s is not None and now_s >= from_s:
        return standing, _STANDS
    from_s = min(from_s or now_s + HANDOVER_S, now_s + HANDOVER_S)
    because = (
        f"this deployment flips from {format_instant(from_s)} on: another one may have flipped until now"
    )
    return Standing(may_flip=False, because=because, waits_until_s=from_s), f"{_FROM}{from_s:.0f}"


def stood(noted: str | None) -> bool:
    """Whether this deployment stood when it last noted it."""
    return noted == _STANDS

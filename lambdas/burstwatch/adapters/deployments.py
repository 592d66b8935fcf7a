"""Which watchdogs are deployed in this account and region, and which of them stands: it alone may flip."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self

from botocore.parsers import ResponseParserError

from burstwatch.adapters import wire
from burstwatch.adapters.errors import explained
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.words import format_instant, printable

if TYPE_CHECKING:
    from types_boto3_ssm import SSMClient

PATH: Final = "/burstwatch/deployments"
SCHEMA: Final = "burstwatch.deployment/v1"
_SINCE: Final = "/since"
_LONGEST_SHOWN: Final = 120


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
    """A parameter of a deployment: its name, since when it is there, and what it says."""

    name: str
    since_s: float
    text: str

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


def find_deployments(client: "SSMClient") -> list[Registered]:
    """Every deployment of this account and region, the one that stands first.

    Raises:
        AwsError: Parameter Store does not say.
    """
    with explained("ssm:GetParametersByPath"):
        listed = wire.pages(client.get_parameters_by_path, of="Parameters", Path=PATH, Recursive=True)
        told = [_whole(parameter) for page in listed for parameter in page["Parameters"]]
    dated_s = {p["Name"]: p["LastModifiedDate"].timestamp() for p in told}
    cards = [parameter for parameter in told if not parameter["Name"].endswith(_SINCE)]
    found = [_registered(card, dated_s) for card in cards]
    return sorted(found, key=lambda one: (one.since_s, one.name))


def _whole(parameter: Any) -> dict[str, Any]:
    """A parameter of which nothing is missing: who stands first must not be guessed.

    Raises:
        ResponseParserError: something is.
    """
    match parameter:
        case {"Name": str(), "Value": str(), "LastModifiedDate": datetime()}:
            return dict(parameter)
    raise ResponseParserError(f"a parameter below {PATH} is told as {_shown(parameter)}")


def _registered(card: dict[str, Any], dated_s: Mapping[str, float]) -> Registered:
    """A card with the date of the parameter beside it, which an update of the stack leaves alone."""
    name = card["Name"]
    since_s = dated_s.get(f"{name}{_SINCE}", dated_s[name])
    return Registered(name=name.removeprefix(f"{PATH}/"), since_s=since_s, text=card["Value"])


def standing_of(name: str, found: Sequence[Registered]) -> Standing:
    """Whether this deployment may flip: of several only the first, by when they came and then by name.

    One that was deployed without flips stands in nobody's way. One that cannot be read does: a later version
    may have written it. Where none is registered, not even this one, there is nobody to give way to.
    """
    flipping = [one for one in found if one.name == name or one.may_flip]
    if not flipping or flipping[0].name == name:
        return Standing(may_flip=True)
    first = flipping[0]
    is_known = any(one.name == name for one in found)
    return Standing(
        may_flip=False,
        because=(
            f"the deployment {first.name!r} has been in this account and region since"
            f" {format_instant(first.since_s)}, and only the first one flips: {name!r}"
            + (
                " only proposes"
                if is_known
                else f", whose own parameter {PATH}/{name} is gone, only proposes"
            )
            + "; destroy one of the two stacks"
        ),
    )

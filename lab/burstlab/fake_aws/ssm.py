"""SSM Parameter Store in a box: text by name, with the limits, paging and errors that AWS has.

It holds parameters of type String, one store for each region, each gone with its endpoint. It refuses what it
does not know, so that nothing passes by accident.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from burstlab.fake_aws.protocols import Answer, Call
from burstlab.model.aws_error import AwsError
from burstlab.model.clock import LabClock

STANDARD_BYTES: Final = 4 * 1024
ADVANCED_BYTES: Final = 8 * 1024
MOST_PAGE: Final = 10
_MOST_NAMES: Final = 10
_DEEPEST: Final = 15
_LONGEST_NAME: Final = 1011
_ACCOUNT: Final = "123456789012"
_TIERS: Final = ("Standard", "Advanced", "Intelligent-Tiering")
_NAME: Final = re.compile(r"[A-Za-z0-9_./-]+")
_RESERVED: Final = re.compile(r"/?(aws|ssm)", re.IGNORECASE)
_NESTED: Final = re.compile(r"\{\{.*\}\}", re.DOTALL)
_KNOWN: Final = {
    "GetParameter": {"Name", "WithDecryption"},
    "GetParameters": {"Names", "WithDecryption"},
    "GetParametersByPath": {"Path", "Recursive", "WithDecryption", "MaxResults", "NextToken"},
    "PutParameter": {"Name", "Value", "Type", "Overwrite", "Tier", "Description", "DataType"},
    "DeleteParameter": {"Name"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One version of a parameter; ``modified_s`` is when it became that."""

    name: str
    value: str
    version: int
    modified_s: float
    tier: str


class ParameterStore:
    """Answers for SSM, in every region; ``clock`` tells when a parameter was modified."""

    def __init__(self, clock: LabClock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._regions: dict[str, dict[str, Parameter]] = {}
        self._actions: dict[str, Callable[[dict[str, Parameter], Mapping[str, Any], str], Any]] = {
            "GetParameter": _get,
            "GetParameters": _get_many,
            "GetParametersByPath": _get_by_path,
            "PutParameter": self._put,
            "DeleteParameter": _delete,
        }

    def held(self, region: str) -> dict[str, Parameter]:
        """What a region holds now, by name."""
        with self._lock:
            return dict(self._regions.get(region, {}))

    def answers(self, call: Call) -> bool:
        return call.service == "ssm"

    def answer(self, call: Call) -> Answer:
        action = self._actions.get(call.action)
        if action is None:
            raise AwsError("UnknownOperationException", f"the lab does not know {call.action} of SSM")
        asked = json.loads(call.body or b"{}")
        if unknown := asked.keys() - _KNOWN[call.action]:
            raise _invalid(f"the lab does not know {sorted(unknown)} of {call.action}")
        with self._lock:
            told = action(self._regions.setdefault(call.region, {}), asked, call.region)
        return Answer(body=json.dumps(told).encode(), content_type="application/x-amz-json-1.1")

    def _put(self, held: dict[str, Parameter], asked: Mapping[str, Any], region: str) -> Any:  # noqa: ARG002
        name, value = asked["Name"], asked["Value"]
        _check_name(name)
        before = held.get(name)
        if before is not None and not asked.get("Overwrite", False):
            raise AwsError(
                "ParameterAlreadyExists",
                "The parameter already exists. To overwrite this value, set the overwrite option in the"
                " request to true.",
            )
        if before is None and "Type" not in asked:
            raise _invalid("A parameter type is required when you create a parameter.")
        if asked.get("Type", "String") != "String":
            raise _invalid(f"the lab only knows parameters of type String, not {asked['Type']}")
        held[name] = Parameter(
            name=name,
            value=value,
            version=before.version + 1 if before else 1,
            modified_s=self._clock.now_s(),
            tier=_tier_for(value, asked.get("Tier", "Standard"), before),
        )
        return {"Version": held[name].version, "Tier": held[name].tier}


def _get(held: dict[str, Parameter], asked: Mapping[str, Any], region: str) -> Any:
    return {"Parameter": _told(_found(held, asked["Name"]), region)}


def _get_many(held: dict[str, Parameter], asked: Mapping[str, Any], region: str) -> Any:
    names: Sequence[str] = asked["Names"]
    if not 1 <= len(names) <= _MOST_NAMES:
        raise _invalid(
            f"1 validation error detected: Value '{names}' at 'names' failed to satisfy constraint:"
            f" Member must have length less than or equal to {_MOST_NAMES}"
        )
    return {
        "Parameters": [_told(held[name], region) for name in dict.fromkeys(names) if name in held],
        "InvalidParameters": [name for name in dict.fromkeys(names) if name not in held],
    }


def _get_by_path(held: dict[str, Parameter], asked: Mapping[str, Any], region: str) -> Any:
    path, most = asked["Path"], asked.get("MaxResults", MOST_PAGE)
    if not path.startswith("/"):
        raise _invalid("The parameter doesn't meet the parameter name requirements. It must begin with a /")
    if not 1 <= most <= MOST_PAGE:
        raise _invalid(f"MaxResults is {most}: AWS gives 1 to {MOST_PAGE} at once")
    names = sorted(_below(held, path, is_recursive=asked.get("Recursive", False)))
    after = asked.get("NextToken", "")
    left = [name for name in names if name > after]
    page = left[:most]
    more = {"NextToken": page[-1]} if len(left) > most else {}
    return {"Parameters": [_told(held[name], region) for name in page], **more}


def _delete(held: dict[str, Parameter], asked: Mapping[str, Any], region: str) -> Any:  # noqa: ARG001
    del held[_found(held, asked["Name"]).name]
    return {}


def _found(held: Mapping[str, Parameter], name: str) -> Parameter:
    if name not in held:
        raise AwsError("ParameterNotFound", "")  # AWS gives no message either
    return held[name]


def _below(held: Mapping[str, Parameter], path: str, *, is_recursive: bool) -> Iterator[str]:
    folder = f"{path.rstrip('/')}/"
    for name in held:
        if name.startswith(folder) and (is_recursive or "/" not in name[len(folder) :]):
            yield name


def _told(parameter: Parameter, region: str) -> dict[str, Any]:
    return {
        "ARN": f"arn:aws:ssm:{region}:{_ACCOUNT}:parameter/{parameter.name.lstrip('/')}",
        "Name": parameter.name,
        "Type": "String",
        "DataType": "text",
        "Value": parameter.value,
        "Version": parameter.version,
        "LastModifiedDate": parameter.modified_s,
    }


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or _RESERVED.match(name) or len(name) > _LONGEST_NAME:
        raise _invalid(f"{name!r} is no name of a parameter")
    if "/" in name and not name.startswith("/"):
        raise _invalid("Parameter name must be a fully qualified name.")
    if name.strip("/").count("/") >= _DEEPEST:
        raise AwsError(
            "HierarchyLevelLimitExceededException", f"A hierarchy can have at most {_DEEPEST} levels."
        )


def _tier_for(value: str, tier: str, before: Parameter | None) -> str:
    """The tier the value comes to lie in; one that was advanced never goes back."""
    if tier not in _TIERS:
        raise _invalid(f"{tier!r} is no tier: {', '.join(_TIERS)}")
    if _NESTED.search(value):
        raise _invalid('Parameter value can\'t nest another parameter. Do not use "{{}}" in the value.')
    size_bytes = len(value.encode())
    if not size_bytes:
        raise _invalid("Value at 'value' failed to satisfy constraint: Member must have length of at least 1")
    if size_bytes > ADVANCED_BYTES:
        raise _invalid(
            f"Advanced tier parameters support a maximum parameter value of {ADVANCED_BYTES} characters."
        )
    if tier == "Standard" and size_bytes > STANDARD_BYTES:
        raise _invalid(
            f"Standard tier parameters support a maximum parameter value of {STANDARD_BYTES} characters."
            " To create a larger parameter value, upgrade the parameter to use the advanced-parameter tier."
        )
    is_advanced = before is not None and before.tier == "Advanced"
    is_small = size_bytes <= STANDARD_BYTES and tier != "Advanced" and not is_advanced
    return "Standard" if is_small else "Advanced"


def _invalid(message: str) -> AwsError:
    return AwsError("ValidationException", message)

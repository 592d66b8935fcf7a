"""A fake SSM Parameter Store: text by name, with the limits, paging and errors of AWS.

It has parameters of type String, in a separate store for each region, and loses them when its endpoint stops.
It refuses everything that it does not know, so that no test passes by accident.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from burstlab.fake_aws.protocols import Call, Response
from burstlab.model.aws_error import AwsError
from burstlab.model.clock import LabClock

# Source: Systems Manager API reference, PutParameter
MAX_STANDARD_BYTES: Final = 4 * 1024
MAX_ADVANCED_BYTES: Final = 8 * 1024
# Source: Systems Manager API reference, GetParametersByPath and GetParameters
MAX_PAGE: Final = 10
_MAX_NAMES: Final = 10
# Source: Systems Manager API reference, PutParameter, Name
_MAX_LEVELS: Final = 15
_MAX_NAME_CHARS: Final = 1011
_ACCOUNT: Final = "123456789012"
_TIERS: Final = ("Standard", "Advanced", "Intelligent-Tiering")
_NAME: Final = re.compile(r"[A-Za-z0-9_./-]+")
_RESERVED: Final = re.compile(r"/?(aws|ssm)", re.IGNORECASE)
_NESTED: Final = re.compile(r"\{\{.*\}\}", re.DOTALL)
_KNOWN_PARAMETERS: Final = {
    "GetParameter": {"Name", "WithDecryption"},
    "GetParameters": {"Names", "WithDecryption"},
    "GetParametersByPath": {"Path", "Recursive", "WithDecryption", "MaxResults", "NextToken"},
    "PutParameter": {"Name", "Value", "Type", "Overwrite", "Tier", "Description", "DataType"},
    "DeleteParameter": {"Name"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One version of a parameter; ``modified_at_s`` is when it became that."""

    name: str
    value: str
    version: int
    modified_at_s: float
    tier: str


class ParameterStore:
    """Serves SSM in every region; ``clock`` is the time of modifications."""

    def __init__(self, clock: LabClock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._parameters_by_region: dict[str, dict[str, Parameter]] = {}
        self._actions: dict[str, Callable[[dict[str, Parameter], Mapping[str, Any], str], Any]] = {
            "GetParameter": _get,
            "GetParameters": _get_many,
            "GetParametersByPath": _get_by_path,
            "PutParameter": self._put,
            "DeleteParameter": _delete,
        }

    def parameters(self, region: str) -> dict[str, Parameter]:
        """What a region holds now, by name."""
        with self._lock:
            return dict(self._parameters_by_region.get(region, {}))

    def handles(self, call: Call) -> bool:
        return call.service == "ssm"

    def handle(self, call: Call) -> Response:
        action = self._actions.get(call.action)
        if action is None:
            raise AwsError("UnknownOperationException", f"the lab does not know {call.action} of SSM")
        request = json.loads(call.body or b"{}")
        if unknown := request.keys() - _KNOWN_PARAMETERS[call.action]:
            raise _validation_error(f"the lab does not know {sorted(unknown)} of {call.action}")
        with self._lock:
            response = action(self._parameters_by_region.setdefault(call.region, {}), request, call.region)
        return Response(body=json.dumps(response).encode(), content_type="application/x-amz-json-1.1")

    def _put(self, parameters: dict[str, Parameter], request: Mapping[str, Any], region: str) -> Any:  # noqa: ARG002
        name, value = request["Name"], request["Value"]
        _check_name(name)
        before = parameters.get(name)
        if before is not None and not request.get("Overwrite", False):
            raise AwsError(
                "ParameterAlreadyExists",
                "The parameter already exists. To overwrite this value, set the overwrite option in the"
                " request to true.",
            )
        if before is None and "Type" not in request:
            raise _validation_error("A parameter type is required when you create a parameter.")
        if request.get("Type", "String") != "String":
            raise _validation_error(f"the lab only knows parameters of type String, not {request['Type']}")
        parameters[name] = Parameter(
            name=name,
            value=value,
            version=before.version + 1 if before else 1,
            modified_at_s=self._clock.now_s(),
            tier=_tier_for(value, request.get("Tier", "Standard"), before),
        )
        return {"Version": parameters[name].version, "Tier": parameters[name].tier}


def _get(parameters: dict[str, Parameter], request: Mapping[str, Any], region: str) -> Any:
    return {"Parameter": _to_document(_find(parameters, request["Name"]), region)}


def _get_many(parameters: dict[str, Parameter], request: Mapping[str, Any], region: str) -> Any:
    names: Sequence[str] = request["Names"]
    if not 1 <= len(names) <= _MAX_NAMES:
        raise _validation_error(
            f"1 validation error detected: Value '{names}' at 'names' failed to satisfy constraint:"
            f" Member must have length less than or equal to {_MAX_NAMES}"
        )
    return {
        "Parameters": [
            _to_document(parameters[name], region) for name in dict.fromkeys(names) if name in parameters
        ],
        "InvalidParameters": [name for name in dict.fromkeys(names) if name not in parameters],
    }


def _get_by_path(parameters: dict[str, Parameter], request: Mapping[str, Any], region: str) -> Any:
    path, max_results = request["Path"], request.get("MaxResults", MAX_PAGE)
    if not path.startswith("/"):
        raise _validation_error(
            "The parameter doesn't meet the parameter name requirements. It must begin with a /"
        )
    if not 1 <= max_results <= MAX_PAGE:
        raise _validation_error(f"MaxResults is {max_results}: AWS gives 1 to {MAX_PAGE} at once")
    names = sorted(_names_below(parameters, path, is_recursive=request.get("Recursive", False)))
    after = request.get("NextToken", "")
    remaining = [name for name in names if name > after]
    page = remaining[:max_results]
    next_token = {"NextToken": page[-1]} if len(remaining) > max_results else {}
    return {"Parameters": [_to_document(parameters[name], region) for name in page], **next_token}


def _delete(parameters: dict[str, Parameter], request: Mapping[str, Any], region: str) -> Any:  # noqa: ARG001
    del parameters[_find(parameters, request["Name"]).name]
    return {}


def _find(parameters: Mapping[str, Parameter], name: str) -> Parameter:
    if name not in parameters:
        raise AwsError("ParameterNotFound", "")  # AWS gives no message either
    return parameters[name]


def _names_below(parameters: Mapping[str, Parameter], path: str, *, is_recursive: bool) -> Iterator[str]:
    prefix = f"{path.rstrip('/')}/"
    for name in parameters:
        if name.startswith(prefix) and (is_recursive or "/" not in name[len(prefix) :]):
            yield name


def _to_document(parameter: Parameter, region: str) -> dict[str, Any]:
    return {
        "ARN": f"arn:aws:ssm:{region}:{_ACCOUNT}:parameter/{parameter.name.lstrip('/')}",
        "Name": parameter.name,
        "Type": "String",
        "DataType": "text",
        "Value": parameter.value,
        "Version": parameter.version,
        "LastModifiedDate": parameter.modified_at_s,
    }


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or _RESERVED.match(name) or len(name) > _MAX_NAME_CHARS:
        raise _validation_error(f"{name!r} is not a valid parameter name")
    if "/" in name and not name.startswith("/"):
        raise _validation_error("Parameter name must be a fully qualified name.")
    if name.strip("/").count("/") >= _MAX_LEVELS:
        raise AwsError(
            "HierarchyLevelLimitExceededException", f"A hierarchy can have at most {_MAX_LEVELS} levels."
        )


def _tier_for(value: str, tier: str, before: Parameter | None) -> str:
    """The tier of the value; an advanced parameter never becomes standard again."""
    if tier not in _TIERS:
        raise _validation_error(f"{tier!r} is not a valid tier: {', '.join(_TIERS)}")
    if _NESTED.search(value):
        raise _validation_error(
            'Parameter value can\'t nest another parameter. Do not use "{{}}" in the value.'
        )
    size_bytes = len(value.encode())
    if not size_bytes:
        raise _validation_error(
            "Value at 'value' failed to satisfy constraint: Member must have length of at least 1"
        )
    if size_bytes > MAX_ADVANCED_BYTES:
        raise _validation_error(
            f"Advanced tier parameters support a maximum parameter value of {MAX_ADVANCED_BYTES} characters."
        )
    if tier == "Standard" and size_bytes > MAX_STANDARD_BYTES:
        raise _validation_error(
            f"Standard tier parameters support a maximum parameter value of {MAX_STANDARD_BYTES} characters."
            " To create a larger parameter value, upgrade the parameter to use the advanced-parameter tier."
        )
    is_advanced = before is not None and before.tier == "Advanced"
    is_small = size_bytes <= MAX_STANDARD_BYTES and tier != "Advanced" and not is_advanced
    return "Standard" if is_small else "Advanced"


def _validation_error(message: str) -> AwsError:
    return AwsError("ValidationException", message)

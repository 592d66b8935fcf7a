"""Parameters, filters and pages as the EC2 query protocol has them."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

from burstlab.model.aws_error import AwsError
from burstlab.model.fleet import LabFleet, LabSettings
from burstlab.model.simulated_volume import SimulatedVolume

MAX_FILTER_VALUES: Final = 200
"""The limit that the watchdog's batches assume; EC2 documents no error text for it."""

# Source: EC2 API reference of 2023, DescribeVolumes (5 to 500); newer ones give no numbers
MAX_PAGE: Final = 500
_MIN_PAGE: Final = 5
_HEX_ID: Final = re.compile(r"vol-(?:[0-9a-f]{8}|[0-9a-f]{17})")
_Item = TypeVar("_Item")


def parse_list(parameters: Mapping[str, str], name: str) -> list[str]:
    """``Name.1``, ``Name.2``, ... in their order."""
    numbered_values = []
    for key, value in parameters.items():
        prefix, _, number = key.partition(".")
        if prefix == name and number.isdigit():
            numbered_values.append((int(number), value))
    return [value for _, value in sorted(numbered_values)]


def parse_structures(parameters: Mapping[str, str], name: str) -> list[dict[str, str]]:
    """``Name.1.Field=value`` as one mapping per number."""
    fields_by_number: dict[int, dict[str, str]] = {}
    for key, value in parameters.items():
        prefix, _, rest = key.partition(".")
        number, _, field = rest.partition(".")
        if prefix == name and number.isdigit():
            fields_by_number.setdefault(int(number), {})[field] = value
    return [fields_by_number[number] for number in sorted(fields_by_number)]


def parse_filters(
    parameters: Mapping[str, str], known_filters: Mapping[str, Any]
) -> list[tuple[str, list[str]]]:
    """The filters of a call, each a name and its values."""
    parsed = []
    for structure in parse_structures(parameters, "Filter"):
        name = structure.get("Name", "")
        if name not in known_filters and not (name.startswith("tag:") and "tag-key" in known_filters):
            raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
        parsed.append((name, [value for field, value in structure.items() if field.startswith("Value.")]))
    if sum(len(values) for _, values in parsed) > MAX_FILTER_VALUES:
        raise AwsError(
            "FilterLimitExceeded",
            f"The maximum number of filter values specified on a single call is {MAX_FILTER_VALUES}",
        )
    return parsed


def split_filters(
    requested_filters: Sequence[tuple[str, list[str]]], settings: LabSettings
) -> tuple[list[tuple[str, list[str]]], list[tuple[str, list[str]]]]:
    """The filters applied before a page is cut, and those after it."""
    if not settings.filter_after_page:
        return list(requested_filters), []
    before = [
        requested
        for requested in requested_filters
        if any(fnmatchcase(requested[0], name) for name in settings.filters_before_page)
    ]
    return before, [requested for requested in requested_filters if requested not in before]


def matches(item: Any, filters: Sequence[tuple[str, list[str]]], known_filters: Mapping[str, Any]) -> bool:
    """Whether any value of each filter matches; * and ? are wildcards, and matching is case-sensitive."""
    return all(
        any(
            _matches_pattern(actual, pattern)
            for actual in _field_values(item, name, known_filters)
            for pattern in values
        )
        for name, values in filters
    )


def _field_values(item: Any, name: str, known_filters: Mapping[str, Any]) -> Iterable[str]:
    if name.startswith("tag:"):
        value = item.tags.get(name.removeprefix("tag:"))
        return () if value is None else (value,)
    values: Iterable[str] = known_filters[name](item)
    return values


def _matches_pattern(actual: str, pattern: str) -> bool:
    if "*" in pattern or "?" in pattern:
        return fnmatchcase(actual, pattern.replace("[", "[[]"))
    return actual == pattern


def paginate(
    items: Sequence[_Item], parameters: Mapping[str, str], *, max_items: int, number: Callable[[_Item], int]
) -> tuple[Sequence[_Item], str]:
    """One page, and the element with the token of the next page, which identifies the last item shown."""
    after = _read_token(parameters.get("NextToken"))
    remaining = [item for item in items if number(item) > after]
    if "MaxResults" not in parameters:
        return remaining, ""
    size = int(parameters["MaxResults"])
    if size < _MIN_PAGE:
        raise AwsError(
            "InvalidParameterValue",
            f"Value ( {size} ) for parameter maxResults is invalid. Expecting at least {_MIN_PAGE}.",
        )
    page = remaining[: min(size, max_items)]
    if len(page) == len(remaining):
        return page, ""
    token = urlsafe_b64encode(f"after {number(page[-1])}".encode()).decode()
    return page, f"<nextToken>{token}</nextToken>"


def _read_token(token: str | None) -> int:
    if not token:
        return 0
    try:
        return int(urlsafe_b64decode(token).decode().removeprefix("after "))
    except ValueError as error:
        raise AwsError("InvalidNextToken", f"The token '{token}' is not valid") from error


def no_such_instance(instance_ids: Sequence[str]) -> AwsError:
    """The error of a call with instances that do not exist."""
    if len(instance_ids) == 1:
        return AwsError("InvalidInstanceID.NotFound", f"The instance ID '{instance_ids[0]}' does not exist")
    return AwsError(
        "InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(instance_ids)}' do not exist"
    )


def find_volumes(fleet: LabFleet, volume_ids: Sequence[str]) -> list[SimulatedVolume]:
    """The volumes of a call.

    Raises:
        AwsError: one of the ids is none, or not in the fleet.
    """
    for volume_id in volume_ids:
        _check_volume_id(volume_id)
    missing = [volume_id for volume_id in volume_ids if volume_id not in fleet]
    if missing:
        raise _no_such_volume(missing)
    return [volume for volume in map(fleet.get, dict.fromkeys(volume_ids)) if volume is not None]


def list_volumes(fleet: LabFleet, parameters: Mapping[str, str]) -> Iterable[SimulatedVolume]:
    """The volumes that a list call shows; those operated by a service may be hidden unless requested."""
    includes_managed = parameters.get("IncludeManagedResources") == "true"
    return (volume for volume in fleet if includes_managed or not volume.hidden)


def format_flag(flag: bool) -> str:  # noqa: FBT001
    """A flag as XML has it."""
    return "true" if flag else "false"


def _check_volume_id(volume_id: str) -> None:
    if not volume_id.startswith("vol-"):
        raise AwsError(
            "InvalidParameterValue",
            f"Value ({volume_id}) for parameter volumes is invalid. Expected: 'vol-...'.",
        )
    if not _HEX_ID.fullmatch(volume_id):
        raise AwsError("InvalidVolumeID.Malformed", f'Invalid id: "{volume_id}"')


def _no_such_volume(volume_ids: Sequence[str]) -> AwsError:
    if len(volume_ids) == 1:
        return AwsError("InvalidVolume.NotFound", f"The volume '{volume_ids[0]}' does not exist.")
    return AwsError("InvalidVolume.NotFound", f"The volumes '{', '.join(volume_ids)}' do not exist.")

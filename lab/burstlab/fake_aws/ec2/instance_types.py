"""DescribeInstanceTypes over the table of all types."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

from burstlab.fake_aws.ec2.query import (
    format_flag,
    matches,
    paginate,
    parse_filters,
    parse_list,
    parse_structures,
)
from burstlab.fake_aws.protocols import render_xml
from burstlab.model.aws_error import AwsError
from burstlab.model.instances.instance_types import instance_types

_MAX_PAGE: Final = 100  # Source: EC2 API reference, DescribeInstanceTypes
_DEFAULT_PAGE: Final = "100"  # it pages without MaxResults too


def describe_instance_types(parameters: Mapping[str, str]) -> str:
    """The elements of a DescribeInstanceTypes answer, in the order of the names."""
    names = parse_list(parameters, "InstanceType")
    if unknown := [name for name in names if name not in instance_types()]:
        raise AwsError(
            "InvalidInstanceType",
            f"The following supplied instance types do not exist: [{', '.join(unknown)}]",
        )
    if int(parameters.get("MaxResults", _DEFAULT_PAGE)) > _MAX_PAGE or len(names) > _MAX_PAGE:
        raise AwsError(
            "InvalidParameterValue",
            f"The maximum number of instance types that can be requested at once is {_MAX_PAGE}.",
        )
    filters_by_name = _filters_by_name(parameters)
    requested_filters = parse_filters(parameters, filters_by_name)
    numbered = [
        (number, name)
        for number, name in enumerate(instance_types(), start=1)
        if (not names or name in names) and matches(name, requested_filters, filters_by_name)
    ]
    page, token = paginate(
        numbered,
        {"MaxResults": _DEFAULT_PAGE, **parameters},
        max_items=_MAX_PAGE,
        number=lambda entry: entry[0],
    )
    return f"<instanceTypeSet>{''.join(_type_xml(name) for _, name in page)}</instanceTypeSet>{token}"


@cache
def _type_xml(name: str) -> str:
    return f"<item>{render_xml(_to_document(instance_types()[name]), 'item')}</item>"


_XML_NAMES: Final = {
    "EbsCards": "ebsCardSet",
    "InterfaceTypes": "interfaceTypeSet",
    "Workloads": "workloadSet",
}
"""Those that are not the field's name with a small letter first."""


def _to_document(value: Any) -> Any:
    """The entry with the names of EC2's XML."""
    if isinstance(value, Mapping):
        document = {
            _XML_NAMES.get(name, name[0].lower() + name[1:]): _to_document(element)
            for name, element in value.items()
        }
        if "totalInferenceMemoryInMiB" in document:  # the one list whose elements have another name
            document["accelerators"] = {"member": document["accelerators"][0]}
        return document
    return [_to_document(element) for element in value] if isinstance(value, list) else value


def _filters_by_name(parameters: Mapping[str, str]) -> dict[str, Callable[[str], Iterable[str]]]:
    """The filters of a call that there are; each reads a field of the type with this name."""
    requested = {structure.get("Name", "") for structure in parse_structures(parameters, "Filter")}
    fields = {name: _find_field(name) for name in requested}
    return {name: partial(_field_values, field) for name, field in fields.items() if field is not None}


@cache
def _find_field(filter_name: str) -> str | None:
    """The field behind a filter: ``ebs-info.nvme-support`` is EbsInfo.NvmeSupport.

    The field may be a plural: ``supported-usage-class`` is SupportedUsageClasses.
    """
    parts = filter_name.replace("-", "").split(".")
    for name in instance_types():
        for field in _fields(name):
            keys = field.split(".")
            if len(keys) == len(parts) and all(
                key in (part, f"{part}s", f"{part}es") for part, key in zip(parts, keys, strict=True)
            ):
                return field
    return None


def _field_values(field: str, name: str) -> Sequence[str]:
    # the field with the name itself, by which types are usually found, needs no other field of the type
    return (name,) if field == "instancetype" else _fields(name).get(field, ())


@cache
def _fields(name: str) -> Mapping[str, Sequence[str]]:
    """The fields of a type with their values as text, such as ``ebsinfo.nvmesupport``."""
    fields: dict[str, list[str]] = {}
    _collect_fields(instance_types()[name], "", fields)
    return fields


def _collect_fields(value: Any, field: str, fields: dict[str, list[str]]) -> None:
    if isinstance(value, Mapping):
        for key, element in value.items():
            _collect_fields(element, f"{field}.{key.lower()}" if field else key.lower(), fields)
    elif isinstance(value, list):
        for element in value:
            _collect_fields(element, field, fields)
    else:
        text = format_flag(value) if isinstance(value, bool) else str(value)
        fields.setdefault(field, []).append(text)

"""Parses EC2's listings by tables made once from botocore's shapes, in a third of botocore's time."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from xml.etree.ElementTree import Element, ParseError, XMLParser, tostring

if TYPE_CHECKING:
    from botocore.model import OperationModel

LISTING_OPERATIONS: Final = ("DescribeVolumes", "DescribeVolumesModifications", "DescribeInstances")
"""The operations whose responses are large in a large fleet."""

_NAMESPACE: Final = re.compile(rb'\A(\s*(?:<\?xml[^>]*>\s*)?<\w+)\sxmlns="[^"]*"')
_ElementReader: TypeAlias = Callable[[Element], Any]
_TimestampParser: TypeAlias = Callable[[str], Any]


def read_listing(
    body: bytes, operation: "OperationModel", parse_timestamp: _TimestampParser
) -> tuple[Any, bytes]:
    """The parsed body as botocore would return it, and the rest for botocore to parse: the request ID.

    Raises:
        ValueError: the body has an unexpected form, so botocore must parse all of it.
    """
    parser = XMLParser(encoding="utf-8")  # noqa: S314 - AWS's own words, and botocore parses them no other way
    try:
        parser.feed(_NAMESPACE.sub(rb"\1", body))  # all tags are in one: without it they are shorter
        root = parser.close()
    except ParseError as error:
        raise ValueError(str(error)) from error
    if "}" in root.tag:
        raise ValueError(f"{root.tag} has a namespace of its own")
    parsed = _listing_reader(operation, parse_timestamp)(root)
    remainder = Element("rest")
    remainder.extend(root.findall("requestId"))
    return parsed, tostring(remainder)


@lru_cache(maxsize=8)
def _listing_reader(operation: "OperationModel", parse_timestamp: _TimestampParser) -> _ElementReader:
    return _reader_for_shape(operation.output_shape, parse_timestamp)


def _reader_for_shape(shape: Any, parse_timestamp: _TimestampParser) -> _ElementReader:
    """Make the function that parses an element of this shape.

    Raises:
        ValueError: the listings of EC2 have no such shape.
    """
    match shape.type_name:
        case "string" | "character":
            return _read_text
        case "integer" | "long":
            return lambda element: int(element.text or "")
        case "boolean":
            return lambda element: element.text == "true"
        case "timestamp":
            return lambda element: parse_timestamp(element.text or "")
        case "list" if not shape.serialization.get("flattened"):
            read = _reader_for_shape(shape.member, parse_timestamp)
            return lambda element: [read(child) for child in element]
        case "structure":
            tagged_members = (
                (child.serialization.get("name", name), name, child) for name, child in shape.members.items()
            )
            return _structure_reader(
                {
                    tag: (name, _reader_for_shape(child, parse_timestamp))
                    for tag, name, child in tagged_members
                }
            )
    raise ValueError(f"{shape.name} is a {shape.type_name}")


def _read_text(element: Element) -> str:
    return element.text or ""


def _structure_reader(members: dict[str, tuple[str, _ElementReader]]) -> _ElementReader:
    """Make the parser of a structure; a member that occurs twice or is qualified is unexpected."""

    def read(element: Element) -> dict[str, Any]:
        parsed: dict[str, Any] = {}
        for child in element:
            if (member := members.get(child.tag)) is not None:
                name, read_member = member
                if name in parsed:
                    raise ValueError(f"{child.tag} comes twice")
                parsed[name] = read_member(child)
            elif "}" in child.tag:
                raise ValueError(f"{child.tag} has a namespace of its own")
        return parsed

    return read

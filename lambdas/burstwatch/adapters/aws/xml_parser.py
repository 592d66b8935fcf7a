"""EC2's listings read by tables made of their shapes once: what botocore reads, in a third of the time."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from xml.etree.ElementTree import Element, ParseError, XMLParser, tostring

if TYPE_CHECKING:
    from botocore.model import OperationModel

LISTINGS: Final = ("DescribeVolumes", "DescribeVolumesModifications", "DescribeInstances")
"""What is large in a large fleet."""

_NAMESPACE: Final = re.compile(rb'\A(\s*(?:<\?xml[^>]*>\s*)?<\w+)\sxmlns="[^"]*"')
_Read: TypeAlias = Callable[[Element], Any]
_ReadInstant: TypeAlias = Callable[[str], Any]


def read_listing(body: bytes, operation: "OperationModel", instant: _ReadInstant) -> tuple[Any, bytes]:
    """What botocore would read of this body, and what is left for it to read: the id of the request.

    Raises:
        ValueError: there is something strange about it: botocore is to have it whole.
    """
    parser = XMLParser(encoding="utf-8")  # noqa: S314 - AWS's own words, and botocore parses them no other way
    try:
        parser.feed(_NAMESPACE.sub(rb"\1", body))  # all tags are in one: without it they are shorter
        root = parser.close()
    except ParseError as error:
        raise ValueError(str(error)) from error
    if "}" in root.tag:
        raise ValueError(f"{root.tag} has a namespace of its own")
    found = _reader(operation, instant)(root)
    rest = Element("rest")
    rest.extend(root.findall("requestId"))
    return found, tostring(rest)


@lru_cache(maxsize=8)
def _reader(operation: "OperationModel", instant: _ReadInstant) -> _Read:
    return _read_by(operation.output_shape, instant)


def _read_by(shape: Any, instant: _ReadInstant) -> _Read:
    """How an element of this shape is read.

    Raises:
        ValueError: the shape is one that EC2's listings do not have.
    """
    match shape.type_name:
        case "string" | "character":
            return _text
        case "integer" | "long":
            return lambda element: int(element.text or "")
        case "boolean":
            return lambda element: element.text == "true"
        case "timestamp":
            return lambda element: instant(element.text or "")
        case "list" if not shape.serialization.get("flattened"):
            read = _read_by(shape.member, instant)
            return lambda element: [read(each) for each in element]
        case "structure":
            named = (
                (each.serialization.get("name", name), name, each) for name, each in shape.members.items()
            )
            return _structure({tag: (name, _read_by(each, instant)) for tag, name, each in named})
    raise ValueError(f"{shape.name} is a {shape.type_name}")


def _text(element: Element) -> str:
    return element.text or ""


def _structure(members: dict[str, tuple[str, _Read]]) -> _Read:
    """Members by their tags; one that comes twice, or from elsewhere, is nothing that EC2 says."""

    def read(element: Element) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for child in element:
            if (member := members.get(child.tag)) is not None:
                name, read_member = member
                if name in found:
                    raise ValueError(f"{child.tag} comes twice")
                found[name] = read_member(child)
            elif "}" in child.tag:
                raise ValueError(f"{child.tag} has a namespace of its own")
        return found

    return read

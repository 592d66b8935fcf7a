"""How the sections of a policy are read from text and written back.

A section is a dataclass. The metadata of a field holds ``parse`` (text to value), ``says`` (its description),
``key`` (its key in the document, if that is not the field's name) and ``unit``. Parsers raise ValueError with
a message for people: the value, what is wrong with it, and what to write instead.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, field, fields
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar

from burstwatch.core.durations import format_duration_literal
from burstwatch.core.parsing import DocumentReader, Fault

MAX_DOLLARS: Final = 9_999_999
"""Seven digits: more than any fleet costs, and short enough for a table."""

_PCT = re.compile(r"[0-9]{1,3}(\.[0-9]{1,4})?")
_DOLLARS = re.compile(r"[0-9]{1,7}(\.[0-9]{1,2})?")
_URL = re.compile(
    r"(https://[A-Za-z0-9][A-Za-z0-9._~/%:@-]{0,200}|(?![a-z]+:)[A-Za-z0-9][A-Za-z0-9._~/%@-]{0,200})"
    r"(/\{page\}[A-Za-z0-9._~/-]{0,50})?"
)
_TAG = re.compile(r"[^=\s][^=]{0,127}=[^=]{0,256}")

_Choice = TypeVar("_Choice", bound=StrEnum)


def setting(
    parse: Callable[[str], Any],
    default: Any,
    description: str,
    key: str | None = None,
    unit: str | None = None,
) -> Any:
    """A setting; its key in the document is ``key``, or else the name of the attribute.

    ``unit`` says what to write, unless the parser alone does: a percentage, dollars or a duration.
    """
    return field(default=default, metadata={"parse": parse, "says": description, "key": key, "unit": unit})


def parse_flag(text: str) -> bool:
    """Yes or no."""
    if text not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text == "true"


def parse_pct(text: str) -> float:
    """A percentage from 0 to 100, with up to four decimals."""
    if not _PCT.fullmatch(text) or float(text) > 100:  # noqa: PLR2004 - per cent
        raise ValueError(f"{text!r} is not a percentage; write a number from 0 to 100, without a sign")
    return float(text)


def parse_dollars(text: str) -> float:
    """An amount of dollars, to the cent."""
    if not _DOLLARS.fullmatch(text) or float(text) > MAX_DOLLARS:
        raise ValueError(
            f"{text!r} is not an amount of dollars; write a number from 0 to {MAX_DOLLARS}, without a sign"
        )
    return float(text)


def parse_count(text: str, digits: int = 6) -> int:
    """A whole number of at least 1, with at most ``digits`` digits."""
    if not (text.isascii() and text.isdigit() and len(text) <= digits and int(text) > 0):
        raise ValueError(f"{text!r} is not a count; write a whole number from 1 to {'9' * digits}")
    return int(text)


def parse_tag(text: str) -> tuple[str, str]:
    """The key and value of a tag.

    A key has up to 128 characters, a value up to 256 (EC2 user guide, "Tag restrictions"). The tag also
    becomes a condition of an IAM policy, in which ``$`` begins a variable.
    """
    if not _TAG.fullmatch(text):
        raise ValueError(f"{text!r} is not a tag; write key=value, such as burstwatch:mode=auto")
    if "$" in text:
        raise ValueError(f"{text!r} has a $, with which an IAM variable begins; write a tag without one")
    key, _, value = text.partition("=")
    return key, value


def parse_url(text: str) -> str:
    """An ``https://`` address, or a path relative to the page that contains the link.

    ``{page}`` may stand once for the name of a page.
    """
    if not _URL.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a valid address for links; write an https:// address or a relative path"
        )
    return text


def choice_parser(noun: str, *choices: _Choice) -> Callable[[str], _Choice]:
    """Make a parser for one of a few words; ``noun`` names them in its message (``a mode``)."""
    by_text = {str(choice): choice for choice in choices}
    *others, last = by_text

    def parse(text: str) -> _Choice:
        if text not in by_text:
            raise ValueError(f"{text!r} is not {noun}; write {', '.join(others)} or {last}")
        return by_text[text]

    return parse


def range_faults(path: str, duration: timedelta, minimum: timedelta, maximum: timedelta) -> Iterator[Fault]:
    """A fault if the duration is not from ``minimum`` to ``maximum``."""
    if not minimum <= duration <= maximum:
        yield Fault(
            path,
            f"{format_duration_literal(duration)} must be from {format_duration_literal(minimum)} to"
            f" {format_duration_literal(maximum)}",
        )


def section_settings(name: str, value: Any, faults: list[Fault]) -> Mapping[str, Any]:
    """The settings of a section; none, and a fault, if the value is not a mapping."""
    if isinstance(value, Mapping):
        return value
    if value not in ("", None):
        faults.append(Fault(name, f"{value!r} is not a section; indent its settings below it"))
    return {}


def read_section(name: str, section_type: Any, value: Any, faults: list[Fault]) -> Any:
    """Parse one section and add to ``faults``; a faulty setting keeps its default."""
    reader = DocumentReader(section_settings(name, value, faults), f"{name}.")
    by_key = {_document_key(setting): setting for setting in fields(section_type)}
    reader.reject_unknown(sorted(by_key))
    values = {
        setting.name: reader.parse_optional(key, _scalar_parser(setting.metadata["parse"]), setting.default)
        for key, setting in by_key.items()
    }
    faults += reader.faults
    return section_type(**values)


def write_section(section: Any, show: Callable[[Any], str]) -> dict[str, str]:
    """The settings from which the section would be read, with every default."""
    return {_document_key(setting): show(getattr(section, setting.name)) for setting in fields(section)}


def _document_key(setting: Field[Any]) -> str:
    return setting.metadata.get("key") or setting.name


def _scalar_parser(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    def parse_scalar(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"{value!r} is not a single value; write it on one line after the colon")  # noqa: TRY004
        return parse(str(value))

    return parse_scalar

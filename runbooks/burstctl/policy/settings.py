"""The settings of a policy, each with its unit, default and meaning; and a policy as YAML with comments."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, fields
from functools import reduce
from math import inf
from operator import getitem
from textwrap import indent
from typing import Any, Final

import yaml

from burstwatch.core.durations import parse_duration
from burstwatch.core.policy.parsing import parse_dollars, parse_pct
from burstwatch.core.policy.policy import VERSION, Policy
from burstwatch.core.policy.resources import ResourcesPolicy
from burstwatch.core.text import wrap

WINDOWS: Final = "windows"
RESOURCES: Final = "resources"
_COLUMNS: Final = 80  # of a comment in a file
_UNITS: Final[Mapping[Callable[[str], Any], str]] = {
    parse_duration: "duration",
    parse_pct: "%",
    parse_dollars: "$ a month",
}
"""The units of what these parsers read; other settings name theirs."""

_RESOURCES_COMMENT: Final = (
    "Which kinds of resources are watched, and the thresholds of those that differ from gp2."
)
_WINDOWS_COMMENT: Final = (
    "Named periods in which volumes are kept flipped, such as"
    " {backup: {cron: 0 22 * * fri, duration: 8h, zone: Europe/Berlin}}. A window has cron and duration, or"
    " from and to, or neither and is started by hand. where and size_gib select volumes, as the tag"
    " burstwatch:window does."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting of a policy. ``value`` and ``default`` are as a document has them, without quotes."""

    section: str
    key: str
    value: str
    default: str
    unit: str
    meaning: str

    @property
    def path(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def is_changed(self) -> bool:
        return self.value != self.default

    @property
    def description(self) -> str:
        return f"{self.unit}; default {self.default}: {self.meaning}"


def section_meanings() -> dict[str, str]:
    """What each section is about, in the order of the document: the first line of its class.

    A section within another has its path: ``resources.ebs``.
    """
    sections: dict[str, Any] = {section.name: section.default_factory for section in fields(Policy)}
    del sections[WINDOWS], sections[RESOURCES]
    kinds = {f"{RESOURCES}.{kind.name}": kind.default_factory for kind in fields(ResourcesPolicy)}
    return {name: str(section.__doc__).partition("\n")[0] for name, section in (sections | kinds).items()}


def list_settings(policy: Policy) -> Iterator[Setting]:
    """Every setting of the policy but its windows, in the order of the document."""
    values, defaults = policy.to_mapping(), Policy().to_mapping()
    for section in section_meanings():
        path = section.split(".")
        section_values, section_defaults = (
            reduce(getitem, path, document) for document in (values, defaults)
        )
        for field, (key, value) in zip(
            fields(reduce(getattr, path, policy)), section_values.items(), strict=True
        ):
            yield Setting(
                section=section,
                key=key,
                value=value,
                default=section_defaults[key],
                unit=_unit(field),
                meaning=field.metadata["says"],
            )


def render_policy(policy: Policy, *, has_comments: bool = True, columns: int = _COLUMNS) -> str:
    """The policy as YAML, with every default. It is read back as the same policy.

    Comments are wrapped to this many ``columns``.
    """
    lines = [f"version: {VERSION}"]
    settings = list(list_settings(policy))
    for section, meaning in section_meanings().items():
        *parents, name = section.split(".")
        margin = "  " * len(parents)
        if parents and f"{parents[0]}:" not in lines:
            lines += ["", *_comment(_RESOURCES_COMMENT, columns=columns)] if has_comments else []
            lines.append(f"{parents[0]}:")
        elif not parents and has_comments:
            lines.append("")
        lines += _comment(meaning, margin, columns=columns) if has_comments else []
        lines.append(f"{margin}{name}:")
        for setting in settings:
            if setting.section == section:
                mark = "CHANGED. " if setting.is_changed else ""
                comment = f"{mark}{setting.description}" if has_comments else ""
                lines += render_setting(setting, comment=comment, columns=columns)
    lines += ["", *_comment(_WINDOWS_COMMENT, columns=columns)] if has_comments else []
    lines.append(_dump({WINDOWS: policy.to_mapping()[WINDOWS]}))
    return "\n".join(lines) + "\n"


def render_setting(setting: Setting, *, comment: str, columns: int = _COLUMNS) -> list[str]:
    """The lines of a setting within its section: a comment, unless it is empty, then its key and value."""
    margin = "  " * (setting.section.count(".") + 1)
    comment_lines = _comment(comment, margin, columns=columns) if comment else []
    return [*comment_lines, indent(_dump({setting.key: _number_or_text(setting.value)}), margin)]


def _unit(field: Field[Any]) -> str:
    return field.metadata.get("unit") or _UNITS[field.metadata["parse"]]


def _comment(text: str, indentation: str = "", *, columns: int) -> list[str]:
    prefix = f"{indentation}# "
    # in a comment, only printable text: a tag may hold line breaks
    safe_words = "".join(char if char.isprintable() else "?" for char in text).split()
    return [f"{prefix}{line}" for line in wrap(safe_words, columns - len(prefix))]


def _dump(document: Any) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=inf).rstrip("\n")


def _number_or_text(value: str) -> int | str:
    """A number or flag as such, so that the YAML has no quotes; it is parsed to the same text."""
    if value in ("true", "false"):
        return value == "true"
    return int(value) if value.isascii() and value.isdigit() else value

"""Volumes chosen by their tags: ``--where tag:KEY=VALUE``, each more such term narrowing the choice."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from burstwatch.core.assessment.resource import Resource
from burstwatch.core.errors import Problem

_TERM_PATTERN: Final = re.compile(r"tag:([^=\s][^=]*)(?:=(.*))?", re.DOTALL)
_WILDCARDS: Final = frozenset("*?\\")
"""What EC2's filters read as a pattern; here every value means itself."""


@dataclass(frozen=True, slots=True)
class TagTerm:
    """A tag that a resource must have; without a ``value`` any will do."""

    key: str
    value: str | None = None

    def __str__(self) -> str:
        return f"tag:{self.key}" if self.value is None else f"tag:{self.key}={self.value}"

    def matches(self, resource: Resource) -> bool:
        """Whether the resource has it."""
        return self.is_in(resource.tags)

    def is_in(self, tags: Mapping[str, str]) -> bool:
        """Whether it is one of the tags."""
        tag_value = tags.get(self.key)
        return tag_value is not None and self.value in (None, tag_value)


def parse_term(text: str) -> TagTerm | None:
    """The term; None if the text is none."""
    term_match = _TERM_PATTERN.fullmatch(text)
    return TagTerm(term_match[1], term_match[2]) if term_match else None


class TagTermType(click.ParamType[TagTerm]):
    """A term as it is written on the command line."""

    name = "term"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> TagTerm:
        term = parse_term(str(value))
        if term is None:
            self.fail(
                Problem(f"{str(value)!r} selects nothing", "write tag:KEY=VALUE or tag:KEY"),
                param,
                ctx,
            )
        return term


def ec2_filters(terms: Sequence[TagTerm], volume_types: Sequence[str] = ()) -> Mapping[str, Sequence[str]]:
    """The EC2 filters for the terms that EC2 can evaluate; ``TagTerm.matches`` decides about each volume.

    Without ``volume_types``, the volumes may have any type.
    """
    filters: dict[str, Sequence[str]] = {"volume-type": list(volume_types)} if volume_types else {}
    for term in terms:
        if term.value is None or _WILDCARDS & set(term.value):
            filters.setdefault("tag-key", [term.key])
        else:
            filters.setdefault(f"tag:{term.key}", [term.value])
    return filters

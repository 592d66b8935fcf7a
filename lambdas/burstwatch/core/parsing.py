"""Reads a document from outside value by value, and collects everything that is wrong with it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

_MAX_COMPARED_CHARS = 60
"""No known key is this long, and comparing takes time that grows with the square of the length."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a document, at ``path`` (such as ``levels.warning_within``).

    ``excerpt`` has the faulty line and a second line with a caret below the place, if that helps.
    """

    path: str
    message: str
    excerpt: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class DocumentReader:
    """Reads the values of one mapping; a value that is invalid counts as absent, and its fault is collected.

    A parser takes the value as it is, and raises ValueError with a message for people: the value, what is
    wrong with it, and what to write instead. ``path`` precedes the keys in the paths of the faults.
    """

    def __init__(self, document: Mapping[str, Any], path: str = "") -> None:
        self.document = document
        self.path = path
        self.faults: list[Fault] = []

    def parse(self, key: str, parse: Callable[[Any], Any], default: Any = None) -> Any:
        """The parsed value, which is None if the key is missing; the default if it is invalid."""
        try:
            return parse(self.document.get(key))
        except ValueError as error:
            self.reject(key, str(error))
            return default

    def parse_optional(self, key: str, parse: Callable[[Any], Any], default: Any = None) -> Any:
        """The parsed value; the default if the key is missing or its value is invalid."""
        return self.parse(key, parse, default) if key in self.document else default

    def parse_required(self, key: str, parse: Callable[[Any], Any], missing: str, default: Any = None) -> Any:
        """The same, with the fault ``missing`` if the key is missing."""
        if key not in self.document:
            self.reject(key, missing)
        return self.parse_optional(key, parse, default)

    def has_any(self, *keys: str) -> bool:
        return not self.document.keys().isdisjoint(keys)

    def reject_unknown(self, known_keys: Collection[str]) -> None:
        """Add a fault for each key that is not known, with the key that was probably meant."""
        for key in self.document:
            if key not in known_keys:
                close = get_close_matches(str(key)[:_MAX_COMPARED_CHARS], known_keys, n=1)
                hint = f"did you mean {close[0]}? Known" if close else "known"
                self.reject(key, f"unknown key; {hint} here: {', '.join(known_keys)}")

    def reject(self, key: str, message: str) -> None:
        """Add a fault at a key; at the document itself if the key is empty."""
        self.faults.append(Fault(f"{self.path}{key}" if key else self.path.rstrip("."), message))

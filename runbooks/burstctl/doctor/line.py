"""A line of what doctor shows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """A line to show; the first ``marked`` characters have a ``style``."""

    text: str
    style: str = ""
    marked: int = 0

"""A line of what doctor shows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StyledLine:
    """A line to show; the first ``styled_chars`` characters have a ``style``."""

    text: str
    style: str = ""
    styled_chars: int = 0

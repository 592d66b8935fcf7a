"""Text with styles of rich: in colour on a terminal that has colours, otherwise plain."""

import sys
from collections.abc import Iterable
from typing import NamedTuple

from burstctl.cli.output import supports_colour


class StyledText(NamedTuple):
    """Adjacent characters of one style of rich; rich does not interpret the text."""

    text: str
    style: str = ""


def render_styled(lines: Iterable[Iterable[StyledText]]) -> str:
    """The lines as stdout can show them, without blanks at their ends."""
    if not supports_colour():
        return to_plain_text(lines)
    from rich.console import Console  # noqa: PLC0415 - rich is for screens only
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    with console.capture() as captured:
        for line in lines:
            text = Text.assemble(*line)
            text.rstrip()
            console.print(text)
    return captured.get().rstrip("\n")


def to_plain_text(lines: Iterable[Iterable[StyledText]]) -> str:
    """The lines without any style."""
    return "\n".join("".join(part.text for part in line).rstrip() for line in lines)


def can_encode(characters: str) -> bool:
    """Whether stdout can show these characters."""
    try:
        characters.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True

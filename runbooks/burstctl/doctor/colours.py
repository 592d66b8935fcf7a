"""Lines on the screen of a person, with rich."""

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from burstctl.doctor.line import StyledLine


def render_colours(lines: Iterable[StyledLine]) -> str:
    """The labels in colour, if the terminal has colours and they are not disabled."""
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    with console.capture() as captured:
        for line in lines:
            text = Text(line.text)
            if line.style:
                text.stylize(line.style, 0, line.styled_chars)
            console.print(text)
    return captured.get().rstrip("\n")

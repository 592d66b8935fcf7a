"""Paragraphs on a terminal."""

from typing import Final

from rich.console import Console
from rich.text import Text

from burstwatch.core.text import wrap

COLUMNS: Final = 80


def print_wrapped(console: Console, text: str, *, lead: str = "") -> None:
    """Words in lines of 80 columns after ``lead``, which the later lines leave blank."""
    first, *rest = wrap(text.split(), COLUMNS - len(lead))
    for line in (lead + first, *(" " * len(lead) + line for line in rest)):
        console.print(Text(line), soft_wrap=True)

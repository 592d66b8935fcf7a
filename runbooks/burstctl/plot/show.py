"""A picture on stdout: as wide as the terminal, in its colours and its characters."""

import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Final

from burstctl.cli.output import supports_colour
from burstctl.plot.canvas import ASCII_GLYPHS, UNICODE_GLYPHS, StyledRun
from burstctl.plot.load import VolumePlot
from burstctl.plot.terminal_plot import draw_text

_DEFAULT_SIZE: Final = (80, 24)
"""Columns and lines if the output is no terminal."""

_PROMPT_LINES: Final = 1  # the shell's prompt must not push the first line off the screen


def render_text(volume_plot: VolumePlot) -> str:
    """The picture in the size, colours and characters of stdout."""
    is_terminal = sys.stdout.isatty()
    width, height = get_terminal_size(_DEFAULT_SIZE) if is_terminal else _DEFAULT_SIZE
    glyphs = UNICODE_GLYPHS if _can_encode(UNICODE_GLYPHS.characters) else ASCII_GLYPHS
    lines = draw_text(volume_plot, width=width, height=height - _PROMPT_LINES, glyphs=glyphs)
    return _to_ansi(lines, width) if supports_colour() else to_plain_text(lines)


def to_plain_text(lines: Sequence[Sequence[StyledRun]]) -> str:
    """The lines as text without any style."""
    return "\n".join("".join(run.text for run in line).rstrip() for line in lines)


def _to_ansi(lines: Sequence[Sequence[StyledRun]], width: int) -> str:
    from rich.console import Console  # noqa: PLC0415 - rich is for screens only
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=sys.stdout, width=width, highlight=False, soft_wrap=True)
    with console.capture() as captured:
        for line in lines:
            console.print(Text.assemble(*((run.text, run.style) for run in line)))
    return captured.get().rstrip("\n")


def _can_encode(characters: str) -> bool:
    try:
        characters.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True

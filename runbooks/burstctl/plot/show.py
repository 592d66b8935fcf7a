"""A picture on stdout: as wide as the terminal, in its colours and its characters."""

import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Final

from burstctl.cli.output import takes_colours
from burstctl.plot.canvas import ASCII, BLOCKS, Run
from burstctl.plot.load import Plotted
from burstctl.plot.terminal_plot import draw_text

_ELSEWHERE: Final = (80, 24)
"""Columns and lines where the output is no terminal."""

_PROMPT: Final = 1


def as_text(plotted: Plotted) -> str:
    """The picture for whatever stdout is."""
    is_terminal = sys.stdout.isatty()
    width, height = get_terminal_size(_ELSEWHERE) if is_terminal else _ELSEWHERE
    glyphs = BLOCKS if _can_show(BLOCKS.characters) else ASCII
    lines = draw_text(plotted, width=width, height=height - _PROMPT, glyphs=glyphs)
    return _paint(lines, width) if takes_colours() else plain(lines)


def plain(lines: Sequence[Sequence[Run]]) -> str:
    """The lines as text without any style."""
    return "\n".join("".join(run.text for run in line).rstrip() for line in lines)


def _paint(lines: Sequence[Sequence[Run]], width: int) -> str:
    from rich.console import Console  # noqa: PLC0415 - rich is for screens only
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=sys.stdout, width=width, highlight=False, soft_wrap=True)
    with console.capture() as captured:
        for line in lines:
            console.print(Text.assemble(*((run.text, run.style) for run in line)))
    return captured.get().rstrip("\n")


def _can_show(characters: str) -> bool:
    try:
        characters.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True

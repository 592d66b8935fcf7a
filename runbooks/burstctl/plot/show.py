"""A picture on stdout: as wide as the terminal, in its colours and its characters."""

import sys
from shutil import get_terminal_size
from typing import Final

from burstctl.cli.styled_text import can_encode, render_styled
from burstctl.plot.canvas import ASCII_GLYPHS, UNICODE_GLYPHS
from burstctl.plot.load import BucketPlot
from burstctl.plot.terminal_plot import draw_text

_DEFAULT_SIZE: Final = (80, 24)
"""Columns and lines if the output is not a terminal."""

_PROMPT_LINES: Final = 1  # the shell's prompt must not push the first line off the screen


def render_text(bucket_plot: BucketPlot) -> str:
    """The picture in the size, colours and characters of stdout."""
    is_terminal = sys.stdout.isatty()
    width, height = get_terminal_size(_DEFAULT_SIZE) if is_terminal else _DEFAULT_SIZE
    glyphs = UNICODE_GLYPHS if can_encode(UNICODE_GLYPHS.characters) else ASCII_GLYPHS
    lines = draw_text(bucket_plot, width=width, height=height - _PROMPT_LINES, glyphs=glyphs)
    return render_styled(lines)

"""An animated picture of a terminal: SVG and CSS only, so that a page can show it like any picture."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from string import Template
from typing import Final

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.terminal_theme import TerminalTheme

from documents.recordings.terminal import COLUMNS, LINES

_LINE_HEIGHT: Final = 20 * 1.22  # of rich's export
_FRAME_HEIGHT: Final = LINES * _LINE_HEIGHT

# Every colour can be read on the background, also dimmed: at least 4.5 to 1.
THEME: Final = TerminalTheme(
    (24, 27, 32),
    (222, 226, 230),
    [
        (110, 118, 129),
        (255, 123, 114),
        (86, 211, 100),
        (227, 179, 65),
        (121, 192, 255),
        (210, 168, 255),
        (86, 212, 221),
        (222, 226, 230),
    ],
)

# The frames are one below the other, and one at a time is in sight. Without animations it is the last one.
# $names are ours, {names} are those of rich's export.
_TEMPLATE: Final = Path(__file__).with_name("template.svg")


@dataclass(frozen=True, slots=True)
class Frame:
    """A screen, with the escape sequences of its styles, and how long it is shown."""

    screen: str
    seconds: float


def animate(frames: Sequence[Frame], title: str) -> str:
    """The picture, which begins again after the last frame."""
    console = Console(
        width=COLUMNS, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for frame in frames:
        lines = list(AnsiDecoder().decode(frame.screen))
        for line in [*lines, *[""] * (LINES - len(lines))]:
            console.print(line, no_wrap=True, overflow="crop", highlight=False)
    ends_s = list(accumulate(frame.seconds for frame in frames))
    keyframes = [
        f"{start_s / ends_s[-1]:.2%} {{{{ transform: translateY({-number * _FRAME_HEIGHT:g}px); }}}}"
        for number, start_s in enumerate([0.0, *ends_s[:-1]])
    ]
    code_format = Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=title,
        view_height=f"{_FRAME_HEIGHT + 20:g}",
        frame_height=f"{_FRAME_HEIGHT:g}",
        last=f"{(1 - len(frames)) * _FRAME_HEIGHT:g}",
        duration=f"{ends_s[-1]:g}",
        keyframes="\n".join(keyframes),
        background=THEME.background_color.hex,
    )
    picture = console.export_svg(theme=THEME, code_format=code_format, unique_id="t")
    # rich also writes line breaks as text, and clips each text to its line, which no glyph leaves
    picture = re.sub(r'<text [^>]*>\n</text>| clip-path="[^"]*"', "", picture)
    return picture.replace("&#160;", "\xa0").replace("><text", ">\n<text")

"""Text with styles: in colour on a terminal that has colours (https://no-color.org), otherwise plain."""

import codecs
import os
import sys
from collections.abc import Iterable
from typing import Final, NamedTuple, TextIO

from burstwatch.core.buckets.sparkline import GAP_GLYPH, GLYPHS
from burstwatch.core.text import display_width

_CODES: Final = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "magenta": "35", "cyan": "36",
    "white": "37", "on_red": "41",
}  # fmt: skip
"""The codes of ECMA-48 by our words for them. ANSI blue is not among them: dark terminals hardly show it."""
_ASCII_GLYPHS: Final = str.maketrans(GLYPHS + GAP_GLYPH, "_.-=*# ")


REPLACE: Final = "burstctl.replace"
"""The handler of encoding errors that keeps columns aligned: a wide character becomes two question marks."""


def _replace_wide(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "?" * display_width(error.object[error.start : error.end]), error.end


codecs.register_error(REPLACE, _replace_wide)


class StyledText(NamedTuple):
    """Adjacent characters of one style, which is words such as ``bold red``."""

    text: str
    style: str = ""


def supports_colour(stream: TextIO | None = None) -> bool:
    """Whether a stream, by default stdout, is a terminal with colours, and NO_COLOR is not set."""
    is_colour_disabled = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    return (stream or sys.stdout).isatty() and not is_colour_disabled


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """The text as this stream, by default stdout, shows the style."""
    return _paint(text, style) if supports_colour(stream) else text


def render_styled(lines: Iterable[Iterable[StyledText]]) -> str:
    """The lines as stdout can show them, without blanks at their ends."""
    if not supports_colour():
        return to_plain_text(lines)
    return "\n".join(_paint_line(line) for line in lines)


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


def encode_safely(text: str, stream: TextIO) -> str:
    """Replace characters that the stream's encoding lacks; a sparkline is drawn in ASCII."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if GLYPHS.encode(encoding, "ignore").decode(encoding) != GLYPHS:
        text = text.translate(_ASCII_GLYPHS)
    return text.encode(encoding, REPLACE).decode(encoding)


def _paint_line(line: Iterable[StyledText]) -> str:
    parts = list(line)
    while parts and not parts[-1].text.strip():
        parts.pop()
    if parts:
        parts[-1] = parts[-1]._replace(text=parts[-1].text.rstrip())
    return "".join(_paint(*part) for part in parts)


def _paint(text: str, style: str) -> str:
    if not (text and style):
        return text
    codes = ";".join(_CODES[word] for word in style.replace("on red", "on_red").split())
    return f"\x1b[{codes}m{text}\x1b[0m"

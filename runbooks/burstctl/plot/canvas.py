"""A sheet of characters to draw on, each with its style; a plain text and a coloured one in one."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Final

from burstctl.cli.styled_text import StyledText
from burstwatch.core.text import display_width


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The characters of a picture; ``bars`` are from empty to full."""

    bars: str
    cone: str
    estimate: str
    bound: str
    baseline: str
    burst: str
    now: str
    away: str
    gap: str
    tick: str
    ellipsis: str

    @property
    def characters(self) -> str:
        """All of them."""
        return "".join(getattr(self, field.name) for field in fields(self))


UNICODE_GLYPHS: Final = Glyphs(
    bars=" ▁▂▃▄▅▆▇█", cone="░", estimate="●", bound="╌", baseline="─", burst="┄", now="│", away="/", gap="?",
    tick="╵", ellipsis="…",
)  # fmt: skip
ASCII_GLYPHS: Final = Glyphs(
    bars="   ..::##", cone=":", estimate="*", bound="-", baseline="-", burst="=", now="|", away="/", gap="?",
    tick="'", ellipsis="~",
)  # fmt: skip


class Canvas:
    """A grid of characters with row 0 at the top; what is outside is not drawn."""

    def __init__(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        self._cells = [[(" ", "")] * width for _ in range(height)]

    def put(self, column: int, row: int, character: str, style: str = "", *, overwrite: bool = True) -> None:
        """Put one character into one column; with ``overwrite`` false, only if the place is empty."""
        if not (0 <= column < self.width and 0 <= row < self.height):
            return
        if overwrite or self._cells[row][column][0] == " ":
            self._cells[row][column] = (character, style)

    def write(self, column: int, row: int, text: str, style: str = "", *, end: int | None = None) -> None:
        """A text from a column on, wide characters on two; cut at ``end``."""
        limit = self.width if end is None else min(end, self.width)
        for character in text:
            character_width = display_width(character)
            if character_width == 0:
                continue
            if column + character_width > limit:
                return
            self.put(column, row, character, style)
            if character_width > 1:
                self.put(column + 1, row, "", style)
            column += character_width

    def is_free(self, first: int, end: int, row: int) -> bool:
        """Whether these columns of a row are empty."""
        return all(character == " " for character, _ in self._cells[row][max(0, first) : end])

    def lines(self) -> list[list[StyledText]]:
        """The rows, blanks at their ends left out."""
        return [_styled_runs(row) for row in self._cells]


def _styled_runs(cells: Sequence[tuple[str, str]]) -> list[StyledText]:
    length = max(
        (number for number, (character, _) in enumerate(cells, start=1) if character != " "), default=0
    )
    return [
        StyledText("".join(character for character, _ in group), style)
        for style, group in groupby(cells[:length], key=lambda cell: cell[1])
    ]

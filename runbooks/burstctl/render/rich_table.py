"""A report on the screen of a person, with rich."""

import sys
from shutil import get_terminal_size
from typing import Final

from rich.console import Console
from rich.text import Text

from burstctl.cli.output import supports_colour
from burstctl.render.table import COLUMN_GAP, WIDE_TABLE_COLUMNS, Table, narrow_table, wide_table
from burstwatch.core.watch.pass_report import PassReport

_BLOCKS: Final = "░▏▎▍▌▋▊▉█"
_ASCII: Final = ".#"


def render_for_terminal(report: PassReport, *, shows_all: bool) -> str:
    """The table as this terminal can show it: its width, its colours, its characters."""
    width = get_terminal_size().columns
    bar = _BLOCKS if _can_encode(_BLOCKS) else _ASCII
    table = wide_table(report, width=width, shows_all=shows_all, bar=bar)
    if width < WIDE_TABLE_COLUMNS or table.width() > width:
        table = narrow_table(report, shows_all=shows_all, bar=bar)
    return _to_ansi(table, max(width, 80))


def _to_ansi(table: Table, width: int) -> str:
    console = Console(
        file=sys.stdout,
        width=width,
        highlight=False,
        soft_wrap=True,
        color_system="auto" if supports_colour() else None,  # else rich leaves bold and dim in
    )
    lines = [
        Text(COLUMN_GAP).join(Text(cell.text, style=cell.style) for cell in line) for line in table.padded()
    ]
    lines += [Text(note, style="dim") for note in table.notes]
    for line in lines:
        line.rstrip()
    with console.capture() as captured:
        for line in lines:
            console.print(line)
    return captured.get().rstrip("\n")


def _can_encode(characters: str) -> bool:
    try:
        characters.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True

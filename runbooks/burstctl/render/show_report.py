"""The report on stdout, in the form that its reader can use."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from shutil import get_terminal_size
from typing import Final

from burstctl.cli.output import print_output
from burstctl.cli.styled_text import can_encode, render_styled
from burstctl.cli.text_layout import wrap_hanging
from burstctl.render.flip_status import is_flip_active
from burstctl.render.resource_rows import select_rows
from burstctl.render.table import WIDE_TABLE_COLUMNS, Row, Table, narrow_table, wide_table
from burstwatch.core.assessment.severity import Level
from burstwatch.core.watch.pass_report import PassReport

_BLOCKS: Final = "░▏▎▍▌▋▊▉█"
_ASCII: Final = ".#"


def print_table(reports: Sequence[PassReport], *, shows_all: bool = False) -> None:
    """The resources of one Region or several in one table; nothing without a row."""
    if table := render_table(reports, shows_all=shows_all):
        print_output(table)


def render_pass_table(report: PassReport) -> str:
    """One pass of many: only the volumes that are not calm or not where they were; empty without any."""
    notable = [
        decision
        for decision in report.decisions
        if decision.level.rank >= Level.WATCH.rank
        or decision.assessment.is_fault
        or is_flip_active(decision, report)
    ]
    return render_table([replace(report, decisions=notable)], shows_all=False) if notable else ""


def render_table(reports: Sequence[PassReport], *, shows_all: bool) -> str:
    """The table as stdout can show it: its width, its colours, its characters."""
    rows, notes = select_rows(reports, shows_all=shows_all)
    return render_styled(_fitting_table(rows, notes).to_lines())


def _fitting_table(rows: Sequence[Row], notes: Sequence[str]) -> Table:
    if not sys.stdout.isatty():
        return wide_table(rows, notes, width=None, bar=None)
    width = get_terminal_size().columns
    notes = [line for note in notes for line in wrap_hanging(note, width)]
    bar = _BLOCKS if can_encode(_BLOCKS) else _ASCII
    table = wide_table(rows, notes, width=width, bar=bar)
    if width < WIDE_TABLE_COLUMNS or table.width() > width:
        return narrow_table(rows, notes, width=width, bar=bar)
    return table

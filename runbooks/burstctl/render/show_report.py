"""The report on stdout, in the form that its reader can use."""

import sys
from dataclasses import replace
from shutil import get_terminal_size
from typing import Final

from burstctl.cli.output import print_output, to_json
from burstctl.cli.styled_text import can_encode, render_styled
from burstctl.render.flip_status import is_flip_active
from burstctl.render.table import WIDE_TABLE_COLUMNS, narrow_table, render_plain, wide_table
from burstwatch.core.assessment.severity import Level
from burstwatch.core.watch.pass_report import PassReport

_BLOCKS: Final = "░▏▎▍▌▋▊▉█"
_ASCII: Final = ".#"


def print_report(report: PassReport, *, as_json: bool, shows_all: bool = False) -> None:
    """JSON for programs, colours for a terminal, plain text for everything else."""
    if as_json:
        print_output(to_json(report.to_document()))
    elif report.decisions:
        print_output(_render_table(report, shows_all=shows_all))


def print_pass_table(report: PassReport, *, as_json: bool) -> None:
    """One pass of many: a line of JSON, or only the volumes that are not calm or not where they were."""
    if as_json:
        print_output(to_json(report.to_document(), is_compact=True))
        return
    notable = [
        decision
        for decision in report.decisions
        if decision.level.rank >= Level.WATCH.rank
        or decision.assessment.is_fault
        or is_flip_active(decision, report)
    ]
    if notable:
        print_output(_render_table(replace(report, decisions=notable), shows_all=False))


def _render_table(report: PassReport, *, shows_all: bool) -> str:
    """The table as this terminal can show it: its width, its colours, its characters."""
    if not sys.stdout.isatty():
        return render_plain(wide_table(report, width=None, shows_all=shows_all, bar=None))
    width = get_terminal_size().columns
    bar = _BLOCKS if can_encode(_BLOCKS) else _ASCII
    table = wide_table(report, width=width, shows_all=shows_all, bar=bar)
    if width < WIDE_TABLE_COLUMNS or table.width() > width:
        table = narrow_table(report, shows_all=shows_all, bar=bar)
    return render_styled(table.to_lines())

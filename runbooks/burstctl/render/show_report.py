"""The report on stdout, in the form that its reader can use."""

import sys
from dataclasses import replace

from burstctl.cli.output import show, to_json
from burstctl.render.flip_status import is_moving
from burstctl.render.table import render_plain, wide_table
from burstwatch.core.assessment.severity import Level
from burstwatch.core.watch.report import Report


def show_report(report: Report, *, as_json: bool, everything: bool = False) -> None:
    """JSON for programs, colours for a terminal, plain text for everything else."""
    if as_json:
        show(to_json(report.to_document()))
    elif report.decisions:
        show(_as_table(report, everything=everything))


def show_pass(report: Report, *, as_json: bool) -> None:
    """One pass of many: a line of JSON, or only the volumes that are not calm or not where they were."""
    if as_json:
        show(to_json(report.to_document(), on_one_line=True))
        return
    uneasy = [
        d
        for d in report.decisions
        if d.level.rank >= Level.WATCH.rank or d.assessment.is_fault or is_moving(d, report)
    ]
    if uneasy:
        show(_as_table(replace(report, decisions=uneasy), everything=False))


def _as_table(report: Report, *, everything: bool) -> str:
    if not sys.stdout.isatty():
        return render_plain(wide_table(report, width=None, everything=everything, bar=None))
    from burstctl.render.rich_table import render_for_terminal  # noqa: PLC0415 - rich is for screens only

    return render_for_terminal(report, everything=everything)

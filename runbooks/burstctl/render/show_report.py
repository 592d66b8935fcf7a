"""The report on stdout, in the form that its reader can use."""

import sys
from dataclasses import replace

from burstctl.cli.output import print_output, to_json
from burstctl.render.flip_status import is_flip_active
from burstctl.render.table import render_plain, wide_table
from burstwatch.core.assessment.severity import Level
from burstwatch.core.watch.pass_report import PassReport


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
    if not sys.stdout.isatty():
        return render_plain(wide_table(report, width=None, shows_all=shows_all, bar=None))
    from burstctl.render.rich_table import render_for_terminal  # noqa: PLC0415 - rich is for screens only

    return render_for_terminal(report, shows_all=shows_all)

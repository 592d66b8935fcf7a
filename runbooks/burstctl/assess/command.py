"""``burstctl assess``: which volumes run dry, and when."""

from dataclasses import replace
from typing import Any

import click

from burstctl.cli.exit_codes import Exit, exit_of
from burstctl.cli.options import Command, Options, VolumeId, common_options
from burstctl.cli.output import show, to_json
from burstctl.context.context import reading_desk
from burstctl.context.multi_region import show_heading, to_document, visit
from burstctl.render.pass_summary import tell
from burstctl.render.show_report import show_report
from burstwatch.core.watch.report import Report
from burstwatch.engine.watch_pass import assess_volumes


@click.command(
    cls=Command,
    examples=(
        ("burstctl assess", "every gp2 volume of the region, most urgent first"),
        ("burstctl assess vol-0123456789abcdef0 --region eu-west-1", "one volume, elsewhere"),
        ("burstctl assess --region eu-west-1 --region us-east-1", "two regions; --region all: every one"),
        ("burstctl assess --json | jq '.volumes[0]'", "the most urgent one, for programs"),
    ),
    page="runbooks/BurstBalanceDraining.md",
    takes_regions=True,
)
@click.argument("volumes", metavar="[VOLUME]...", nargs=-1, type=VolumeId())
@click.option("--all", "everything", is_flag=True, help="Show calm volumes too, however many there are.")
@common_options
def assess(volumes: tuple[str, ...], options: Options, *, everything: bool) -> Exit:
    """Show which volumes run dry, and when.

    Looks at the VOLUMEs given, or at every gp2 volume of the region; changes nothing.

    Exits 3 when a volume is at warning or worse, or its data is missing.
    """
    if options.is_for_several:
        if volumes:
            raise click.UsageError("VOLUMEs are in one region: give --region once, with its name.")
        return _assess_regions(options, everything=everything)
    report = _look(options, volumes)
    show_report(report, as_json=options.json, everything=everything or bool(volumes))
    tell(report)
    return exit_of(report, exit_zero=options.exit_zero)


def _look(options: Options, volumes: tuple[str, ...] = ()) -> Report:
    with reading_desk(options) as desk:
        desk.progress.begin()
        try:
            report = assess_volumes(desk.shell, tuple(dict.fromkeys(volumes)), now_s=desk.shell.clock())
        finally:
            desk.progress.end()
        return replace(report, ledger=desk.ledger)


def _assess_regions(options: Options, *, everything: bool) -> Exit:
    reports: list[dict[str, Any]] = []

    def look(here: Options) -> Exit:
        report = _look(here)
        if not options.json and report.decisions:
            show_heading(report.region, is_first=not reports)
            show_report(report, as_json=False, everything=everything)
        if options.json or report.decisions:
            reports.append(report.to_document())
        tell(report)
        return exit_of(report, exit_zero=options.exit_zero)

    visited = visit(options, look)
    if options.json:
        show(to_json(to_document(reports, visited)))
    return visited.exit

"""``burstctl assess``: which volumes will be empty, and when."""

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from burstctl.cli.exit_codes import ExitCode, exit_code_of
from burstctl.cli.options import Command, Options, VolumeId, common_options
from burstctl.cli.output import print_output, to_json
from burstctl.context.context import open_readonly
from burstctl.context.multi_region import print_heading, run_in_regions, to_document
from burstctl.context.on_demand_pass import assess_volumes
from burstctl.render.pass_summary import print_summary
from burstctl.render.show_report import print_report
from burstwatch.core.watch.pass_report import PassReport

if TYPE_CHECKING:
    from documents.report import ReportDocument


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
def assess(volumes: tuple[str, ...], options: Options, *, everything: bool) -> ExitCode:
    """Show which volumes will run out of credits, and when.

    Looks at the VOLUMEs given, or at every gp2 volume of the region; changes nothing.

    Exits 3 when a volume is at warning or worse, or its data is missing.
    """
    if options.has_several_regions:
        if volumes:
            raise click.UsageError("VOLUMEs are in one region: give --region once, with its name.")
        return _assess_regions(options, shows_all=everything)
    report = _assess_region(options, volumes)
    print_report(report, as_json=options.json, shows_all=everything or bool(volumes))
    print_summary(report)
    return exit_code_of(report, exit_zero=options.exit_zero)


def _assess_region(options: Options, volumes: tuple[str, ...] = ()) -> PassReport:
    with open_readonly(options) as context:
        context.progress.begin()
        try:
            report = assess_volumes(
                context.services, tuple(dict.fromkeys(volumes)), now_s=context.services.clock()
            )
        finally:
            context.progress.end()
        return replace(report, ledger=context.ledger_location)


def _assess_regions(options: Options, *, shows_all: bool) -> ExitCode:
    reports: list[ReportDocument] = []

    def assess_region(region_options: Options) -> ExitCode:
        report = _assess_region(region_options)
        if not options.json and report.decisions:
            print_heading(report.region, is_first=not reports)
            print_report(report, as_json=False, shows_all=shows_all)
        if options.json or report.decisions:
            reports.append(report.to_document())
        print_summary(report)
        return exit_code_of(report, exit_zero=options.exit_zero)

    results = run_in_regions(options, assess_region)
    if options.json:
        print_output(to_json(to_document(reports, results)))
    return results.exit_code

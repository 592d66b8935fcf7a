"""``burstctl advise``: the configuration that each volume should have permanently."""

from collections.abc import Sequence
from typing import Final

import click

from burstctl.advise.collect import MAX_USD, AdviceReport, AdviceRequest, collect_advice
from burstctl.advise.iac import IacKind, render_definition
from burstctl.advise.json import to_csv, to_document
from burstctl.advise.text import print_notes, render_advice, render_fleet
from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import Command, Options, VolumeId, common_options
from burstctl.cli.output import print_output, to_json
from burstctl.context.context import open_readonly
from burstctl.context.multi_region import print_heading, run_in_regions
from burstctl.context.multi_region import to_document as to_regions_document

MAX_DAYS: Final = 62
"""CloudWatch keeps means of five minutes for 63 days."""

MAX_PARAGRAPHS: Final = 5
"""The most named volumes that are shown as paragraphs; more are shown as a table."""


@click.command(
    cls=Command,
    examples=(
        ("burstctl advise", "the whole fleet: a type for each volume, and the saving"),
        ("burstctl advise vol-0123456789abcdef0", "one volume, with every reason and risk"),
        ("burstctl advise vol-0123456789abcdef0 --iac terraform", "the lines of its definition to change"),
        ("burstctl advise --days 60 --csv > advice.csv", "two months, for a spreadsheet"),
        ("burstctl advise --region all --csv > advice.csv", "every enabled region"),
    ),
    page="runbooks/MovingToGp3.md",
    takes_regions=True,
)
@click.argument("volumes", metavar="[VOLUME]...", nargs=-1, type=VolumeId())
@click.option(
    "--days",
    type=click.IntRange(1, MAX_DAYS),
    default=14,
    show_default=True,
    help="Days of history: by the minute up to 14, by five minutes above.",
)
@click.option(
    "--percentile",
    type=click.FloatRange(50, 100),
    default=99.9,
    show_default=True,
    help="Serve the load of this percentage of the minutes; 100 is the busiest minute.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, safe to open in a spreadsheet.")
@click.option(
    "--iac",
    type=click.Choice([str(kind) for kind in IacKind]),
    help="Print the changed definitions of the VOLUMEs.",
)
@click.option("--all", "everything", is_flag=True, help="Show every volume, however many there are.")
@click.option("--yes", is_flag=True, help=f"Read the history even if that costs more than ${MAX_USD:g}.")
@common_options
def advise(
    volumes: Sequence[str],
    options: Options,
    *,
    days: int,
    percentile: float,
    as_csv: bool,
    iac: str | None,
    everything: bool,
    yes: bool,
) -> ExitCode:
    """Recommend a permanent type for each volume, from its own history, with its cost.

    Looks at the VOLUMEs given, or at every gp2 volume of the region and those that are flipped; changes
    nothing. It sizes for the served load, with headroom, at the prices of the region.

    Exits 1 if anything could not be read, 2 if reading costs too much and --yes is missing.
    """
    if sum((as_csv, options.json, iac is not None)) > 1:
        raise click.UsageError("--csv, --json and --iac are mutually exclusive: give one of them.")
    if iac is not None and not volumes:
        raise click.UsageError("--iac needs the volumes: add their IDs.")
    request = AdviceRequest(
        volume_ids=list(dict.fromkeys(volumes)), days=days, percentile=percentile, assumes_yes=yes
    )
    if options.has_several_regions:
        if volumes:
            raise click.UsageError("VOLUMEs are in one region: give --region once, with its name.")
        return _advise_regions(options, request, as_csv=as_csv, shows_all=everything)
    with open_readonly(options) as context:
        report = collect_advice(context, request)
        if options.json:
            print_output(to_json(to_document(report)))
        elif as_csv:
            print_output(to_csv(report))
        elif report.advice:
            print_output(_render(report, iac, shows_all=everything))
        print_notes(report)
        return ExitCode.FAILED if report.selection.has_failed else ExitCode.OK


def _advise_regions(options: Options, request: AdviceRequest, *, as_csv: bool, shows_all: bool) -> ExitCode:
    reports: list[AdviceReport] = []

    def advise_region(region_options: Options) -> ExitCode:
        with open_readonly(region_options) as context:
            report = collect_advice(context, request)
        if not (options.json or as_csv) and report.advice:
            print_heading(report.region, is_first=not any(earlier.advice for earlier in reports))
            print_output(_render(report, None, shows_all=shows_all))
        reports.append(report)
        print_notes(report)
        return ExitCode.FAILED if report.selection.has_failed else ExitCode.OK

    results = run_in_regions(options, advise_region)
    if options.json:
        print_output(to_json(to_regions_document([to_document(report) for report in reports], results)))
    elif as_csv:
        print_output(to_csv(*reports))
    return results.exit_code


def _render(report: AdviceReport, iac: str | None, *, shows_all: bool) -> str:
    if iac is not None:
        return "\n\n".join(render_definition(advice, IacKind(iac)) for advice in report.advice)
    if not report.request.is_whole_fleet and len(report.advice) <= MAX_PARAGRAPHS:
        return "\n\n".join(render_advice(advice, report) for advice in report.advice)
    return render_fleet(report, shows_all=shows_all or not report.request.is_whole_fleet)

"""``burstctl advise``: the configuration that each volume should have permanently."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import click

from burstctl.advise.collect import MAX_USD, AdviceReport, AdviceRequest, collect_advice
from burstctl.advise.fleet_text import render_fleet
from burstctl.advise.iac import IacKind, changes_definition, render_definition
from burstctl.advise.json import to_csv, to_document
from burstctl.advise.rightsizing import Advice, AdviceVerdict
from burstctl.advise.text import print_notes, render_advice
from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import (
    ALL_REGIONS,
    Command,
    Duration,
    Options,
    ResourceName,
    common_options,
    last_option,
)
from burstctl.cli.output import print_info, print_next, print_output, to_json
from burstctl.context.context import open_readonly
from burstctl.context.multi_region import describe_empty_regions, read_in_regions
from burstctl.context.multi_region import to_document as to_regions_document
from burstctl.render.planned_flip import flip_options
from burstwatch.core.errors import Problem
from burstwatch.core.text import format_count

MAX_DAYS: Final = 62
"""CloudWatch keeps means of five minutes for 63 days."""

MAX_PARAGRAPHS: Final = 5
"""The most named volumes that are shown as paragraphs; more are shown as a table."""


@click.command(
    cls=Command,
    examples=(
        ("burstctl advise", "the whole fleet: a type for each volume, and the saving"),
        ("burstctl advise ci-7", "one volume, with every reason and risk"),
        ("burstctl advise vol-0123456789abcdef0 --iac terraform", "the lines of its definition to change"),
        ("burstctl advise --iac terraform", "those of every volume that should change"),
        ("burstctl advise --last 60d --csv > advice.csv", "two months, for a spreadsheet"),
        ("burstctl advise --region all --csv > advice.csv", "every enabled region"),
    ),
    page="runbooks/MovingToGp3.md",
    takes_regions=True,
)
@click.argument("volumes", metavar="[VOLUME]...", nargs=-1, type=ResourceName())
@last_option(
    Duration(timedelta(days=1), timedelta(days=MAX_DAYS), in_days=True),
    older="--days",
    default="14d",
    text="Length of history: by the minute up to 14d, by five minutes above.",
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
    help="Print the changed definitions of the VOLUMEs, or of every volume that should change.",
)
@click.option("--all", "everything", is_flag=True, help="Show every volume, however many there are.")
@click.option("--yes", is_flag=True, help=f"Read the history even if that costs more than ${MAX_USD:g}.")
@common_options
def advise(
    volumes: Sequence[str],
    options: Options,
    *,
    last: timedelta,
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
        raise click.UsageError(Problem("--csv, --json and --iac are mutually exclusive", "give one of them"))
    request = AdviceRequest(
        names=list(dict.fromkeys(volumes)), days=last.days, percentile=percentile, assumes_yes=yes
    )
    if options.has_several_regions:
        if volumes:
            raise click.UsageError(Problem("VOLUMEs are in one region", "give --region once, with its name"))
        return _advise_regions(options, request, as_csv=as_csv, iac=iac, shows_all=everything)
    with open_readonly(options) as context:
        report = collect_advice(context, request)
        if options.json:
            print_output(to_json(to_document(report)))
        elif as_csv:
            print_output(to_csv(report))
        elif iac is not None:
            _print_definitions([report], IacKind(iac))
        elif report.advice:
            print_output(_render(report, shows_all=everything))
        print_notes(report)
        if _is_empty(report):
            print_info(f"no volume to advise on in {report.region}")
        report.selection.print_failures(report.region)
        if not (options.json or as_csv):
            _print_next(options, report, has_definitions=iac is not None)
        return _exit_code(report)


def _advise_regions(
    options: Options, request: AdviceRequest, *, as_csv: bool, iac: str | None, shows_all: bool
) -> ExitCode:
    reads = read_in_regions(options, lambda context: collect_advice(context, request))
    reports = list(reads.results.values())
    with_advice = [report for report in reports if report.advice]
    reads.print_beginning()
    if options.json:
        print_output(
            to_json(to_regions_document([to_document(report) for report in reports], reads.failures))
        )
    elif as_csv:
        print_output(to_csv(*reports))
    elif iac is not None:
        _print_definitions(with_advice, IacKind(iac))
    elif with_advice:
        print_output(render_fleet(with_advice, shows_all=shows_all))
    print_notes(*reports)
    if empty := [report.region for report in reports if _is_empty(report)]:
        print_info(describe_empty_regions(options, empty, "no gp2 volumes"))
    reads.print_problems({report.region: report.selection.failures for report in reports})
    for report in reports:
        replace(report.selection, failures=[]).print_failures(report.region)
    if not (options.json or as_csv):
        _print_next(options, *reports, has_definitions=iac is not None)
    return reads.exit_code(_exit_code)


def _exit_code(report: AdviceReport) -> ExitCode:
    return ExitCode.FAILED if report.selection.has_failed else ExitCode.OK


def _is_empty(report: AdviceReport) -> bool:
    """Whether there is nothing to say of a Region or of the volumes named."""
    return not (report.advice or report.selection.has_failed or report.selection.unsuited)


def _print_next(options: Options, *reports: AdviceReport, has_definitions: bool) -> None:
    """Print the commands about the first volume that should be moved, else where there may be one."""
    moves = [
        (advice, report)
        for report in reports
        for advice in report.advice
        if advice.verdict is AdviceVerdict.MOVE
    ]
    region_options = options
    if moves:
        advice, report = min(moves, key=lambda move: move[0].urgency)
        if options.has_several_regions:
            region_options = replace(options, region=report.region)
        commands = _commands_about(advice, is_shown_in_full=has_definitions or _has_paragraphs(report))
    elif unsuited := [volume_id for report in reports for volume_id in report.selection.unsuited]:
        commands = [["which", unsuited[0]]]
    elif advised := [advice.volume.volume_id for report in reports for advice in report.advice]:
        commands = [["assess"]] if reports[0].request.is_whole_fleet else [["explain", advised[0]]]
    elif any(report.selection.has_failed for report in reports):
        commands = [["doctor"]]
    else:
        name = "assess" if ALL_REGIONS in options.regions else "advise"
        region_options, commands = replace(options, region=None), [[name, "--region", ALL_REGIONS]]
    print_next(region_options.command(*command) for command in commands)


def _commands_about(advice: Advice, *, is_shown_in_full: bool) -> list[list[str]]:
    """What to do about a volume that should be moved: see the whole advice, or what a flip would do."""
    volume_id = advice.volume.volume_id
    if is_shown_in_full:
        return [["flip", volume_id, *flip_options(advice.target), "--dry-run"]]
    return [["advise", volume_id], ["advise", volume_id, "--iac", "terraform"]]


def _has_paragraphs(report: AdviceReport) -> bool:
    return not report.request.is_whole_fleet and len(report.advice) <= MAX_PARAGRAPHS


def _print_definitions(reports: Sequence[AdviceReport], kind: IacKind) -> None:
    """Print the definitions of the volumes named; of a fleet, those that change, and count the others."""
    definitions, unchanged_count = [], 0
    for report in reports:
        listed = [
            advice
            for advice in report.advice
            if changes_definition(advice) or not report.request.is_whole_fleet
        ]
        unchanged_count += len(report.advice) - len(listed)
        if listed and len(reports) > 1:
            definitions.append(f"# {report.region}")
        definitions += [render_definition(advice, kind) for advice in listed]
    if definitions:
        print_output("\n\n".join(definitions))
    if unchanged_count:
        print_info(f"{format_count(unchanged_count, 'volume')} without a change")


def _render(report: AdviceReport, *, shows_all: bool) -> str:
    if _has_paragraphs(report):
        return "\n\n".join(render_advice(advice, report) for advice in report.advice)
    return render_fleet([report], shows_all=shows_all or not report.request.is_whole_fleet)

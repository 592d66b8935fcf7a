"""``burstctl assess``: which volumes and other resources will be empty, and when."""

from dataclasses import replace
from functools import partial
from typing import Final

import click

from burstctl.assess.assess_resources import assess_resources, kind_option
from burstctl.cli.exit_codes import ExitCode, exit_code_of
from burstctl.cli.options import Command, Options, ResourceName, common_options
from burstctl.cli.output import print_info, print_output, to_json
from burstctl.context.context import Notes, open_silently
from burstctl.context.multi_region import describe_empty_regions, read_in_regions, to_document
from burstctl.render.pass_summary import (
    failures_of_calls,
    print_excused_kinds,
    print_next_elsewhere,
    print_next_for,
    print_report_failures,
    print_summary,
)
from burstctl.render.show_report import print_table
from burstwatch.adapters.aws.call_counter import CallCounter
from burstwatch.adapters.aws.errors import AwsError
from burstwatch.core.errors import Problem
from burstwatch.core.resource_type import ResourceType
from burstwatch.core.watch.pass_report import PassReport
from burstwatch.wiring.bootstrap import AwsSession, get_caller_identity

_NOTHING: Final = "nothing that has burst credits"


@click.command(
    cls=Command,
    examples=(
        ("burstctl assess", "every watched resource of the region, most urgent first"),
        ("burstctl assess ci-7 --region eu-west-1", "one volume, elsewhere"),
        ("burstctl assess --region eu-west-1 --region us-east-1", "two regions; --region all: every one"),
        ("burstctl assess --kind ebs,instance", "also the EBS credits of EC2 instances"),
        ("burstctl assess --kind efs,rds", "the file systems and the databases of the region"),
        ("burstctl assess --json | jq '.volumes[0]'", "the most urgent one, for programs"),
    ),
    page="runbooks/BurstBalanceDraining.md",
    takes_regions=True,
    without=(),
)
@click.argument("volumes", metavar="[VOLUME]...", nargs=-1, type=ResourceName())
@click.option("--all", "everything", is_flag=True, help="Show calm volumes too, however many there are.")
@kind_option
@common_options
def assess(
    volumes: tuple[str, ...], options: Options, *, everything: bool, kinds: frozenset[ResourceType] | None
) -> ExitCode:
    """Show which volumes and other resources will run out of credits, and when.

    Looks at the VOLUMEs given, or at every watched resource of the region; changes nothing.

    Exits 3 when a resource is at warning or worse, or its data is missing.
    """
    if options.has_several_regions:
        if volumes:
            raise click.UsageError(Problem("VOLUMEs are in one region", "give --region once, with its name"))
        return _assess_regions(options, kinds, shows_all=everything)
    notes = Notes()
    with open_silently(options, notes) as context:
        report, session = assess_resources(volumes, kinds, context), context.session
    notes.print_beginning()
    if options.json:
        print_output(to_json(report.to_document()))
    else:
        print_table([report], shows_all=everything or bool(volumes))
    print_summary(report)
    print_report_failures(report)
    print_excused_kinds(report)
    if report.decisions or not report.failures:
        notes.print_warnings()
    if not options.json and _is_empty(report):
        _print_empty(options, report.region, session)
    elif not options.json:
        print_next_for({report.region: options.repeated}, report)
    return exit_code_of(report, exit_zero=options.exit_zero)


def _is_empty(report: PassReport) -> bool:
    return not (report.decisions or report.failures or report.missing)


def _print_empty(options: Options, region: str, session: AwsSession) -> None:
    """Say that there is nothing to show, and where there may be something."""
    try:
        account = f" (account {get_caller_identity(session, CallCounter()).account})"
    except AwsError:
        account = ""
    print_info(f"{_NOTHING} in {region}{account}")
    print_next_elsewhere(options)


def _assess_regions(options: Options, kinds: frozenset[ResourceType] | None, *, shows_all: bool) -> ExitCode:
    reads = read_in_regions(options, partial(assess_resources, (), kinds))
    reports = list(reads.results.values())
    reads.print_beginning()
    if options.json:
        print_output(to_json(to_document([report.to_document() for report in reports], reads.failures)))
    else:
        print_table(reports, shows_all=shows_all)
    empty = [report.region for report in reports if _is_empty(report)]
    print_summary(*(report for report in reports if report.decisions))
    has_others = len(empty) < len(reports) + len(reads.errors)
    if empty and has_others:
        print_info(describe_empty_regions(options, empty, _NOTHING))
    reads.print_problems({report.region: failures_of_calls(report) for report in reports})
    print_excused_kinds(*reports)
    print_report_failures(*(replace(report, failures=()) for report in reports))
    if not options.json and empty and not has_others:
        _print_empty(options, f"any of {len(empty)} Regions", reads.session)
    elif not options.json:
        print_next_for(
            {region: replace(options, region=region).repeated for region in reads.results}, *reports
        )
    return reads.exit_code(lambda report: exit_code_of(report, exit_zero=options.exit_zero))

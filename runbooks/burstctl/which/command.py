"""``burstctl which``: of all limits between a process and its storage, the one that applies now."""

from pathlib import Path

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import RESOURCE_NAMES, Command, Options, ResourceName, common_options
from burstctl.cli.output import print_error, print_failures, print_next, print_output, to_json
from burstctl.context.context import open_readonly
from burstctl.context.resources import resolve_resource
from burstctl.which.collect import WhichReport, collect
from burstctl.which.json import to_document
from burstctl.which.text import next_command, print_notes, render_report
from burstwatch.core.errors import Problem
from burstwatch.core.resource_type import type_of_id


@click.command(
    cls=Command,
    examples=(
        ("burstctl which ci-7", "its limits, and those of its instance"),
        ("burstctl which i-0123456789abcdef0", "the limits of an instance, and of each of its volumes"),
        ("burstctl which db:orders", "the limits of a database: those of its storage and of its class"),
        ("burstctl which shared-home", "the limits of a file system: its credits, throughput and I/O"),
        (
            "burstctl which vol-0123456789abcdef0 --run-dir /run/ddprobe",
            "on the host: also what ddprobe saw there",
        ),
    ),
    page="runbooks/WhichLimit.md",
)
@click.argument("name", metavar="RESOURCE", type=ResourceName(RESOURCE_NAMES))
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Also read the newest readings of ddprobe in its run directory, on this host.",
)
@common_options
def which(name: str, options: Options, *, run_dir: Path | None) -> ExitCode:
    """Show which limit holds RESOURCE back now, which will be next, and how that is known.

    Changes nothing. Exits with 3 if a limit applies now.
    """
    with open_readonly(options) as context:
        resource = resolve_resource(context, name)
        report = collect(context, resource, run_dir)
        if options.json:
            print_output(to_json(to_document(report, context, options)))
        elif not report.is_missing:
            print_output(render_report(report))
        print_notes(report)
        print_failures(report.failures)
        command = next_command(report, options)
        if command is not None and not options.json:
            print_next([command])
        if report.is_missing:
            print_error(
                Problem(
                    f"no {type_of_id(resource).noun} {resource} in {report.region}",
                    "check the ID, the Region and the account",
                )
            )
        return _exit_code(report, options)


def _exit_code(report: WhichReport, options: Options) -> ExitCode:
    if report.is_missing or report.failures:
        return ExitCode.FAILED
    return ExitCode.ATTENTION if report.answer.now and not options.exit_zero else ExitCode.OK

"""``burstctl which``: of all limits between a process and its storage, the one that applies now."""

import re
from pathlib import Path
from typing import Any, Final

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import Command, Options, common_options
from burstctl.cli.output import print_error, print_failures, print_output, to_json
from burstctl.context.context import open_readonly
from burstctl.which.collect import WhichReport, collect
from burstctl.which.json import to_document
from burstctl.which.text import print_notes, render_report

_RESOURCE_ID: Final = re.compile(r"(?:vol|i)-(?:[0-9a-f]{8}|[0-9a-f]{17})")


class _ResourceId(click.ParamType[str]):
    """AWS's ID of a volume or of an instance."""

    name = "resource"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not _RESOURCE_ID.fullmatch(str(value)):
            shape = "vol- or i- and 17 (or 8) digits from 0-9a-f, such as vol-0123456789abcdef0"
            self.fail(f"{str(value)!r} is not the ID of a volume or an instance: {shape}.", param, ctx)
        return str(value)


@click.command(
    cls=Command,
    examples=(
        ("burstctl which vol-0123456789abcdef0", "its limits, and those of its instance"),
        ("burstctl which i-0123456789abcdef0", "the limits of an instance, and of each of its volumes"),
        (
            "burstctl which vol-0123456789abcdef0 --run-dir /run/ddprobe",
            "on the host: also what ddprobe saw there",
        ),
    ),
    page="runbooks/WhichLimit.md",
)
@click.argument("resource", type=_ResourceId())
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Also read the newest readings of ddprobe in its run directory, on this host.",
)
@common_options
def which(resource: str, options: Options, *, run_dir: Path | None) -> ExitCode:
    """Show which limit holds RESOURCE back now, which will be next, and how that is known.

    RESOURCE is a volume or an instance. Changes nothing. Exits with 3 if a limit applies now.
    """
    with open_readonly(options) as context:
        report = collect(context, resource, run_dir)
        if options.json:
            print_output(to_json(to_document(report, context, options)))
        elif not report.is_missing:
            print_output(render_report(report, options))
        print_notes(report)
        print_failures(report.failures)
        if report.is_missing:
            noun = "instance" if report.is_instance else "volume"
            print_error(
                f"there is no {noun} {resource} in {report.region}: check the ID, the region, the account"
            )
        return _exit_code(report, options)


def _exit_code(report: WhichReport, options: Options) -> ExitCode:
    if report.is_missing or report.failures:
        return ExitCode.FAILED
    return ExitCode.ATTENTION if report.answer.now and not options.exit_zero else ExitCode.OK

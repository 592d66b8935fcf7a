"""``burstctl simulate``: an instance's measured I/O against the EBS credits of another type."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import INSTANCE_NAMES, Command, Duration, Options, ResourceName, common_options
from burstctl.cli.output import print_failures, print_next, print_output, to_json
from burstctl.context.context import open_readonly
from burstctl.context.resources import resolve_instance
from burstctl.plot.output_file import PictureFile
from burstctl.simulate.ceilings import PLANNED_FORM, PlannedVolume, parse_planned_volume
from burstctl.simulate.collect import SimulationReport, SimulationRequest, collect
from burstctl.simulate.json import to_document
from burstctl.simulate.text import print_notes, render_report
from burstwatch.core.durations import HOUR_S, MINUTE_S
from burstwatch.core.errors import Problem

_SPAN: Final = Duration(timedelta(hours=1), timedelta(days=62))
_TYPE: Final = re.compile(r"[a-z0-9-]+\.[a-z0-9-]+")
_PATTERN: Final = re.compile(r"[a-z0-9*?-]+\.[a-z0-9*?-]+")
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


class _TypeName(click.ParamType[str]):
    """The name of an instance type."""

    name = "type"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not _TYPE.fullmatch(str(value)):
            self.fail(
                Problem(f"{str(value)!r} is not an instance type", "write one such as m7g.large"), param, ctx
            )
        return str(value)


class _TypePatterns(click.ParamType[tuple[str, ...]]):
    """Names of instance types with ``*`` and ``?``, separated by commas."""

    name = "patterns"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        patterns = tuple(part.strip() for part in str(value).split(","))
        for pattern in patterns:
            if not _PATTERN.fullmatch(pattern):
                cause = f"{pattern!r} is not a pattern of instance types"
                self.fail(Problem(cause, "write one such as m7g.*"), param, ctx)
        return patterns


class _PlannedVolume(click.ParamType[PlannedVolume]):
    """A volume that is planned."""

    name = "volume"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> PlannedVolume:
        try:
            return parse_planned_volume(str(value))
        except ValueError as error:
            self.fail(Problem.parse(str(error)), param, ctx)


class _DailyReset(click.ParamType[int | None]):
    """A time of day in UTC, in seconds after midnight."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        if value == "none" or isinstance(value, int):
            return None if value == "none" else value
        match = _TIME.fullmatch(str(value))
        if not match:
            self.fail(
                Problem(f"{str(value)!r} is not a time in UTC", "write one such as 00:00, or none"),
                param,
                ctx,
            )
        return int(match[1]) * HOUR_S + int(match[2]) * MINUTE_S


@click.command(
    cls=Command,
    examples=(
        ("burstctl simulate db-1 --to m7g.large", "would the smaller type have been enough?"),
        (
            "burstctl simulate i-0123456789abcdef0 --to m7g.large --types 'm7g.*,r7g.*'",
            "and which types would have been, of these",
        ),
        (
            "burstctl simulate i-0123456789abcdef0 --with-volume gp3:6000:250",
            "the present type, with one more volume",
        ),
        (
            "burstctl simulate i-0123456789abcdef0 --to m7g.large --picture m7g.png",
            "both balances and the load, to show to others",
        ),
    ),
    page="runbooks/ChoosingAnInstanceType.md",
    without=("exit_zero", "policy", "ledger"),
)
@click.argument("name", metavar="INSTANCE", type=ResourceName(INSTANCE_NAMES))
@click.option("--to", type=_TypeName(), metavar="TYPE", help="The instance type. Default: the present one.")
@click.option(
    "--with-volume",
    "volumes",
    multiple=True,
    type=_PlannedVolume(),
    metavar="SPEC",
    help=f"A planned volume, or with VOLUME= a planned change of one: {PLANNED_FORM}. Repeatable.",
)
@click.option(
    "--types",
    type=_TypePatterns(),
    default=None,
    metavar="PATTERNS",
    help="Also look for types that would be enough among these, such as 'm7g.*,c7g.*'.",
)
@click.option(
    "--last",
    type=_SPAN,
    default="14d",
    show_default=True,
    metavar="SPAN",
    help="Length of the measured I/O, up to 62d.",
)
@click.option(
    "--daily-reset",
    type=_DailyReset(),
    default="none",
    show_default=True,
    metavar="HH:MM|none",
    help="Fill the buckets each day at this time (UTC). AWS documents no time.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write an image file: .png or .svg.",
)
@common_options
def simulate(
    name: str,
    options: Options,
    *,
    to: str | None,
    volumes: Sequence[PlannedVolume],
    types: Sequence[str] | None,
    last: timedelta,
    daily_reset: int | None,
    picture: Path | None,
) -> ExitCode:
    """Play the measured I/O of INSTANCE on the EBS credits of another type; changes nothing.

    Shows how often the I/O bucket or the throughput bucket would have been empty, for how long, and which
    types would have been enough. Reads five-minute metrics from CloudWatch.
    """
    file = None if picture is None else PictureFile(picture, "--picture", _load_draw)
    with open_readonly(options) as context:
        instance_id = resolve_instance(context, name)
        request = SimulationRequest(
            instance_id=instance_id,
            target=to,
            planned=volumes,
            patterns=types or (),
            lookback=last,
            daily_reset_s=daily_reset,
        )
        report = collect(context, request)
        if file is not None:
            file.write(report)
        if options.json:
            print_output(to_json(to_document(report, context.ledger_location)))
        else:
            print_output(render_report(report))
        print_notes(report)
        print_failures(report.failures)
        if not options.json:
            print_next([options.command("which", instance_id)])
        return ExitCode.FAILED if report.failures else ExitCode.OK


def _load_draw() -> Callable[[SimulationReport, str], bytes]:
    from burstctl.simulate.matplotlib_picture import draw  # noqa: PLC0415 - matplotlib is for those who want a picture

    return draw

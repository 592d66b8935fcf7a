"""``burstctl plot``: the last hours of a volume as a picture."""

import shlex
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import Command, Duration, Options, ResourceName, common_options
from burstctl.cli.output import print_failures, print_next, print_output, to_json
from burstctl.context.context import open_readonly
from burstctl.context.resources import resolve_volume
from burstctl.plot.json import to_document
from burstctl.plot.load import MAX_SPAN, VolumePlot, load_plot
from burstctl.plot.output_file import PictureFile
from burstctl.plot.show import render_text
from burstctl.render.pass_summary import print_holds
from burstwatch.core.ebs.volume import can_burst

_MIN_SPAN: Final = timedelta(minutes=15)


@click.command(
    cls=Command,
    examples=(
        ("burstctl plot ci-7", "the last six hours and the forecast, on the terminal"),
        ("burstctl plot vol-0123456789abcdef0 --last 14d --to ci-7.png", "two weeks, to show to others"),
        ("burstctl plot vol-0123456789abcdef0 --json", "the numbers behind the picture"),
    ),
    page="runbooks/BurstBalanceDraining.md",
)
@click.argument("name", metavar="VOLUME", type=ResourceName())
@click.option(
    "--last",
    type=Duration(_MIN_SPAN, MAX_SPAN),
    default="6h",
    show_default=True,
    metavar="SPAN",
    help="Length of history: by the minute up to 14d, by five minutes up to 62d, by the hour above.",
)
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write an image file: .png or .svg.",
)
@common_options
def plot(name: str, options: Options, *, last: timedelta, to: Path | None) -> ExitCode:
    """Draw the last hours of VOLUME, and when it will be empty; changes nothing.

    Its balance with the forecast and its bounds, the operations it served against baseline and burst, and
    what happened: levels, alerts, flips, refusals, windows, holds, and what its host reported.
    """
    picture = None if to is None else PictureFile(to, "--to", _load_draw)
    with open_readonly(options) as context:
        volume_plot = load_plot(context, resolve_volume(context, name, prefers=can_burst), last)
        if picture is not None:
            picture.write(volume_plot)
        if options.json:
            print_output(to_json(to_document(volume_plot)))
        elif picture is None:
            print_output(render_text(volume_plot))
        _print_notes(volume_plot)
        if not options.json:
            volume_id = volume_plot.timeline.volume.volume_id
            print_next([shlex.join(["burstctl", "explain", volume_id, *options.repeated])])
        return ExitCode.FAILED if volume_plot.failures else ExitCode.OK


def _load_draw() -> Callable[[VolumePlot, str], bytes]:
    from burstctl.plot.matplotlib_plot import draw  # noqa: PLC0415 - matplotlib is for those who want a picture

    return draw


def _print_notes(volume_plot: VolumePlot) -> None:
    print_holds(volume_plot.holds, volume_plot.timeline.now_s)
    print_failures(volume_plot.failures)

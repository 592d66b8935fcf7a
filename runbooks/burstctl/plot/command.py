"""``burstctl plot``: the last hours of a volume as a picture."""

from datetime import timedelta
from pathlib import Path
from typing import Final

import click

from burstctl.cli.exit_codes import Exit
from burstctl.cli.options import Command, Options, Span, VolumeId, common_options
from burstctl.cli.output import complain, show, to_json
from burstctl.context.context import reading_desk
from burstctl.plot.json import to_document
from burstctl.plot.load import LONGEST, Plotted, read_chronology
from burstctl.plot.output_file import PictureFile
from burstctl.plot.show import as_text
from burstctl.render.pass_summary import tell_holds
from burstwatch.core.text import printable

_LEAST: Final = timedelta(minutes=15)
_LONGEST_COMPLAINT: Final = 600


@click.command(
    cls=Command,
    examples=(
        ("burstctl plot vol-0123456789abcdef0", "the last six hours and the forecast, on the terminal"),
        ("burstctl plot vol-0123456789abcdef0 --last 14d --to ci-7.png", "two weeks, to show to others"),
        ("burstctl plot vol-0123456789abcdef0 --json", "the numbers behind the picture"),
    ),
    page="runbooks/BurstBalanceDraining.md",
)
@click.argument("volume", type=VolumeId())
@click.option(
    "--last",
    type=Span(_LEAST, LONGEST),
    default="6h",
    show_default=True,
    metavar="SPAN",
    help="So much history: by the minute up to 14d, by five minutes up to 62d, by the hour above.",
)
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a picture for people: .png or .svg.",
)
@common_options
def plot(volume: str, options: Options, *, last: timedelta, to: Path | None) -> Exit:
    """Draw the last hours of VOLUME, and when it runs dry; changes nothing.

    Its balance with the forecast and its bounds, the operations it served against baseline and burst, and
    what happened: levels, alerts, flips, refusals, windows, holds, and what its host reported.
    """
    picture = None if to is None else PictureFile(to)
    with reading_desk(options) as desk:
        plotted = read_chronology(desk, volume, last)
        if picture is not None:
            picture.write(plotted)
        if options.json:
            show(to_json(to_document(plotted)))
        elif picture is None:
            show(as_text(plotted))
        _tell(plotted)
        return Exit.FAILED if plotted.failures else Exit.FINE


def _tell(plotted: Plotted) -> None:
    tell_holds(plotted.holds, plotted.chronology.now_s)
    for failure in plotted.failures:
        complain(printable(failure, _LONGEST_COMPLAINT))

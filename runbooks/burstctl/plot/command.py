"""``burstctl plot``: the last hours of a volume or an instance as a picture."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import click

from burstctl.cli.exit_codes import ExitCode
from burstctl.cli.options import (
    RESOURCE_NAMES,
    Command,
    Duration,
    Options,
    ResourceName,
    common_options,
)
from burstctl.cli.output import print_failures, print_next, print_output, to_json
from burstctl.context.context import open_readonly
from burstctl.context.resources import resolve_resource
from burstctl.plot.json import to_document
from burstctl.plot.load import BUCKET_NAMES, MAX_SPAN, BucketPlot, load_plot
from burstctl.plot.output_file import PictureFile
from burstctl.plot.show import render_text
from burstctl.render.pass_summary import print_holds
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ebs.volume_bucket import bucket_of

_MIN_SPAN: Final = timedelta(minutes=15)


@click.command(
    cls=Command,
    examples=(
        ("burstctl plot ci-7", "the last six hours and the forecast, on the terminal"),
        ("burstctl plot i-0123456789abcdef0", "the bucket of an instance that empties first"),
        ("burstctl plot vol-0123456789abcdef0 --last 14d --to ci-7.png", "two weeks, to show to others"),
        ("burstctl plot vol-0123456789abcdef0 --json", "the numbers behind the picture"),
    ),
    page="runbooks/BurstBalanceDraining.md",
)
@click.argument("name", metavar="RESOURCE", type=ResourceName(RESOURCE_NAMES))
@click.option(
    "--bucket",
    type=click.Choice(list(BUCKET_NAMES)),
    help="Of several buckets, the one to draw; default: the one that empties first. An instance has io and"
    " throughput; a database has these two of its class, and storage.",
)
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
def plot(name: str, options: Options, *, bucket: str | None, last: timedelta, to: Path | None) -> ExitCode:
    """Draw the last hours of RESOURCE, and when it will be empty; changes nothing.

    Its balance with the forecast and its bounds, and the IOPS or MiB/s it served against baseline and burst.
    What happened: levels, alerts, flips, refusals, windows, holds, and what its host reported.
    """
    picture = None if to is None else PictureFile(to, "--to", _load_draw)
    with open_readonly(options) as context:
        resource_id = resolve_resource(context, name, prefers=_can_drain)
        bucket_plot = load_plot(context, resource_id, last, bucket)
        if picture is not None:
            picture.write(bucket_plot)
        if options.json:
            print_output(to_json(to_document(bucket_plot)))
        elif picture is None:
            print_output(render_text(bucket_plot))
        _print_notes(bucket_plot)
        if not options.json:
            print_next([options.command("explain", resource_id)])
        return ExitCode.FAILED if bucket_plot.failures else ExitCode.OK


def _can_drain(volume: Volume) -> bool:
    return volume.has_bucket and bucket_of(volume).highest_drain_per_s > 0


def _load_draw() -> Callable[[BucketPlot, str], bytes]:
    from burstctl.plot.matplotlib_plot import draw  # noqa: PLC0415 - matplotlib is for those who want a picture

    return draw


def _print_notes(bucket_plot: BucketPlot) -> None:
    print_holds(bucket_plot.holds, bucket_plot.timeline.now_s)
    print_failures(bucket_plot.failures)

"""``burstlab disk``: a throttled disk with a gp2 bucket, to play with by hand."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import click

from burstlab.disk.options import disk_options
from burstlab.main import HELP

_JOB_INTERVALS_S: Final = {"flood": 0.0, "jobs": 1.0}
_REFRESH_INTERVAL_S: Final = 0.25  # faster than that, the numbers on a board cannot be read

_EXAMPLES: Final = """\b
Examples:
  burstlab disk                            a 33 GiB volume, empty in half a minute
  burstlab disk --load idle                a disk to try things on; it prints where
  burstlab disk --credits 9000             three seconds of burst in the bucket
  burstlab disk --for 40 --backend blkio
  burstlab disk --clean                    remove what a killed run left behind
\b
Time runs faster: at speed 60 a second is a minute of the volume's time. IOPS
are those of EBS, and the bucket is smaller by that factor. With both --speed
and --credits, IOPS are scaled so that it lasts as long in the volume's time.
Page: docs/incident.md
"""


@click.command(context_settings=HELP, epilog=_EXAMPLES)
@click.option(
    "--size",
    "size_gib",
    type=click.IntRange(1, 999),
    default=33,
    show_default=True,
    help="Size of the gp2 volume in GiB, which sets its baseline.",
)
@disk_options(
    speeds=click.FloatRange(1, 1_000),
    speed=None,
    least_balance_pct=0,
    folder_help="Directory of its image, or another one for --clean to search",
)
@click.option(
    "--credits",
    "real_credits",
    type=click.FloatRange(min=1),
    help="Real operations in a full bucket; default: 5.4 million / speed.",
)
@click.option(
    "--load",
    type=click.Choice(["flood", "jobs", "idle"]),
    default="flood",
    show_default=True,
    help="Jobs without a pause, a job a second, or none.",
)
@click.option(
    "--for",
    "seconds",
    type=click.FloatRange(min=0.1),
    help="Stop after this many seconds; default: at Ctrl-C.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    help="Port of the AWS endpoint; default: any free one.",
)
@click.option(
    "--image-mib",
    type=click.IntRange(64, 65_536),
    default=256,
    show_default=True,
    help="Size of the real device in MiB.",
)
@click.option("--clean", is_flag=True, help="Only remove what killed runs left behind.")
def disk(
    size_gib: int,
    balance_pct: float,
    speed: float | None,
    real_credits: float | None,
    backend: str,
    load: str,
    seconds: float | None,
    port: int,
    image_mib: int,
    folder: Path | None,
    clean: bool,  # noqa: FBT001
) -> None:
    """A real block device under a gp2 bucket: it bursts, drains, and falls to its baseline.

    Its balance is what the lab's CloudWatch says, and a ModifyVolume sent there raises the real limit. Needs
    root and loop devices.
    """
    from burstlab.disk.block_device import ThrottledDevice  # noqa: PLC0415
    from burstlab.disk.job_loop import JobLoop  # noqa: PLC0415
    from burstlab.disk.live_view import open_view  # noqa: PLC0415
    from burstlab.disk.simulated_disk import SETTINGS, open_simulated_disk  # noqa: PLC0415
    from burstlab.disk.throttle import TimeScale  # noqa: PLC0415
    from burstlab.fake_aws.server import Endpoint  # noqa: PLC0415
    from burstlab.model.clock import LabClock  # noqa: PLC0415 - help needs none of this
    from burstlab.model.fleet import LabFleet  # noqa: PLC0415
    from burstwatch.core.ebs.volume import baseline_iops  # noqa: PLC0415

    with report_errors():
        if clean:
            clean_up(folder, is_verbose=True)
            return
        time_scale = TimeScale.of(speed=speed, real_credits=real_credits)
        time_scale.check(baseline_iops(size_gib))
        device = ThrottledDevice(backend=backend, size_mib=image_mib, parent=folder)
        clean_up(folder)
        with ExitStack() as stack:
            stack.enter_context(device)
            fleet = LabFleet(LabClock(speed=time_scale.speed), SETTINGS)
            simulated_disk = stack.enter_context(
                open_simulated_disk(fleet, device, time_scale, size_gib=size_gib, balance_pct=balance_pct)
            )
            endpoint = stack.enter_context(Endpoint(fleet, port=port))
            job_loop = None
            if load != "idle":
                job_loop = stack.enter_context(JobLoop(device, pace_s=_JOB_INTERVALS_S[load]))
            print_connection(
                simulated_disk.volume_id, device.path, device.mount, time_scale, endpoint.environment
            )
            show = stack.enter_context(open_view(simulated_disk, job_loop))
            deadline = time.monotonic() + (seconds or float("inf"))
            while time.monotonic() < deadline:
                show()
                simulated_disk.controller.check()
                if job_loop is not None:
                    job_loop.check()
                time.sleep(_REFRESH_INTERVAL_S)
        click.echo("taken down", err=True)


@contextmanager
def report_errors() -> Iterator[None]:
    """Errors as one message, signals as an end with everything taken down."""
    from burstlab.disk.signals import Stopped, stoppable  # noqa: PLC0415
    from burstwatch.core.errors import BurstwatchError  # noqa: PLC0415

    try:
        with stoppable():
            yield
    except Stopped as stopped:
        raise SystemExit(stopped.code) from None
    except (BurstwatchError, OSError) as error:
        raise click.ClickException(str(error)) from error


def clean_up(parent: Path | None = None, *, is_verbose: bool = False) -> None:
    """Take down what killed commands left behind; say so where there was something, or it was asked."""
    from burstlab.disk.block_device import DiskError  # noqa: PLC0415
    from burstlab.disk.cleanup import clean  # noqa: PLC0415

    if is_verbose and os.geteuid() != 0:
        raise DiskError("taking down a disk needs root: run it with sudo")
    count = clean(lambda text: click.echo(text, err=True), parent)
    if is_verbose and not count:
        click.echo("nothing was left behind", err=True)


def print_connection(
    volume_id: str, path: str, mount: Path, time_scale: object, environment: dict[str, str]
) -> None:
    """Where it is, and how AWS clients find its volume; what a shell can use goes to stdout."""
    click.echo(f"{volume_id} is {path}; Ctrl-C takes it down", err=True)
    click.echo(f"mounted on {mount}", err=True)
    click.echo(str(time_scale), err=True)
    for name, value in environment.items():
        click.echo(f"export {name}={value}")

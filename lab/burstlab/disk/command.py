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

_PACES_S: Final = {"flood": 0.0, "jobs": 1.0}
_SHOWN_EVERY_S: Final = 0.25

_EXAMPLES: Final = """\b
Examples:
  burstlab disk                            a 33 GiB volume, dry in half a minute
  burstlab disk --load idle                one to try things on; it says where
  burstlab disk --credits 9000             three seconds of burst in the bucket
  burstlab disk --for 40 --backend blkio
  burstlab disk --clean                    remove what a killed one left behind
\b
Time is lapsed: at speed 60 a second is a minute of the volume's time. IOPS
are those of EBS, and the bucket is so much smaller. Where --speed and --credits
are both given, IOPS are scaled, so that it lasts as long in the volume's time.
Page: docs/incident.md
"""


@click.command(context_settings=HELP, epilog=_EXAMPLES)
@click.option(
    "--size",
    "size_gib",
    type=click.IntRange(1, 999),
    default=33,
    show_default=True,
    help="GiB of the gp2 volume, which make its baseline.",
)
@disk_options(
    speeds=click.FloatRange(1, 1_000),
    speed=None,
    least_balance_pct=0,
    folder_is="Where its image lies, or --clean is to look too",
)
@click.option(
    "--credits",
    "real_credits",
    type=click.FloatRange(min=1),
    help="What a full bucket holds, in real operations; default 5.4 million / speed.",
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
    help="End after so many seconds; default at Ctrl-C.",
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, help="Of the AWS endpoint; default any free one."
)
@click.option(
    "--image-mib",
    type=click.IntRange(64, 65_536),
    default=256,
    show_default=True,
    help="How large the real device is.",
)
@click.option("--clean", is_flag=True, help="Only remove what killed ones left behind.")
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
    from burstlab.disk.block_device import Device  # noqa: PLC0415
    from burstlab.disk.job_loop import JobLoop  # noqa: PLC0415
    from burstlab.disk.live_view import open_view  # noqa: PLC0415
    from burstlab.disk.simulated_disk import SETTINGS, open_box  # noqa: PLC0415
    from burstlab.disk.throttle import Lapse  # noqa: PLC0415
    from burstlab.fake_aws.server import Endpoint  # noqa: PLC0415
    from burstlab.model.clock import LabClock  # noqa: PLC0415 - help needs none of this
    from burstlab.model.fleet import LabFleet  # noqa: PLC0415
    from burstwatch.core.ebs.volume import baseline_iops  # noqa: PLC0415

    with explained():
        if clean:
            clean_up(folder, is_told=True)
            return
        lapse = Lapse.of(speed=speed, real_credits=real_credits)
        lapse.check(baseline_iops(size_gib))
        device = Device(backend=backend, size_mib=image_mib, parent=folder)
        clean_up(folder)
        with ExitStack() as stack:
            stack.enter_context(device)
            fleet = LabFleet(LabClock(speed=lapse.speed), SETTINGS)
            box = stack.enter_context(
                open_box(fleet, device, lapse, size_gib=size_gib, balance_pct=balance_pct)
            )
            lab = stack.enter_context(Endpoint(fleet, port=port))
            loop = None
            if load != "idle":
                loop = stack.enter_context(JobLoop(device, pace_s=_PACES_S[load]))
            tell_the_disk(box.volume_id, device.path, device.mount, lapse, lab.environment)
            show = stack.enter_context(open_view(box, loop))
            ends_s = time.monotonic() + (seconds or float("inf"))
            while time.monotonic() < ends_s:
                show()
                box.governor.check()
                if loop is not None:
                    loop.check()
                time.sleep(_SHOWN_EVERY_S)
        click.echo("taken down", err=True)


@contextmanager
def explained() -> Iterator[None]:
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


def clean_up(parent: Path | None = None, *, is_told: bool = False) -> None:
    """Take down what killed commands left behind; say so where there was something, or it was asked."""
    from burstlab.disk.block_device import DiskError  # noqa: PLC0415
    from burstlab.disk.cleanup import clean  # noqa: PLC0415

    if is_told and os.geteuid() != 0:
        raise DiskError("taking down a disk needs root: run it with sudo")
    found = clean(lambda words: click.echo(words, err=True), parent)
    if is_told and not found:
        click.echo("nothing was left behind", err=True)


def tell_the_disk(volume_id: str, path: str, mount: Path, lapse: object, environment: dict[str, str]) -> None:
    """Where it is, and how AWS clients find its volume; what a shell can use goes to stdout."""
    click.echo(f"{volume_id} is {path}; Ctrl-C takes it down", err=True)
    click.echo(f"mounted on {mount}", err=True)
    click.echo(str(lapse), err=True)
    for name, value in environment.items():
        click.echo(f"export {name}={value}")

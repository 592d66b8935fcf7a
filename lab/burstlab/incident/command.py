"""The command ``burstlab incident``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from burstlab.disk.block_device import DiskError, choose_backend
from burstlab.disk.command import clean_up, explained
from burstlab.disk.docker import check_docker
from burstlab.disk.options import disk_options
from burstlab.incident.run import JOBS, SPEED, Stage, open_stage, play, summary
from burstlab.main import HELP


def run(
    *,
    backend: str,
    speed: float,
    balance_pct: float,
    jobs: str,
    picture: Path,
    folder: Path | None,
    show: Callable[[Stage], None],
) -> Stage:
    """The whole story, and the picture of it."""
    from burstlab.incident.picture import draw  # noqa: PLC0415 - matplotlib takes a second to import

    _make_room(picture)
    with open_stage(backend=backend, speed=speed, balance_pct=balance_pct, jobs=jobs, folder=folder) as stage:
        play(stage, show)
    draw(stage, picture)
    return stage


def _make_room(picture: Path) -> None:
    try:
        picture.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DiskError(f"{picture}: {error.strerror}; give --picture another place") from error


_EXAMPLES: Final = """\b
Examples:
  burstlab incident
  burstlab incident --balance 40 --picture /tmp/incident.png
  burstlab incident --json > incident.json
\b
It takes about a minute and a half. Page: docs/incident.md
"""


@click.command(context_settings=HELP, epilog=_EXAMPLES)
@disk_options(
    speeds=click.FloatRange(60, 600),
    speed=SPEED,
    least_balance_pct=20,
    folder_is="Where the images lie",
)
@click.option(
    "--jobs",
    type=click.Choice(["auto", *JOBS]),
    default="auto",
    show_default=True,
    help="Containers, of the first that can run any here, or processes that write like one.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("demo/burstwatch-incident.png"),
    show_default=True,
    help="Where to leave the picture.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was measured as JSON.")
def incident(
    backend: str,
    speed: float,
    balance_pct: float,
    jobs: str,
    picture: Path,
    folder: Path | None,
    as_json: bool,  # noqa: FBT001
) -> None:
    """The incident on real disks: twice the same loop of jobs, once without the watchdog and once with it.

    The watchdog is the real one, and so are the disks, the jobs' times and ddprobe's; AWS is the lab. Needs
    root and loop devices.
    """
    from rich.console import Console  # noqa: PLC0415 - help needs none of it

    from burstlab.incident.live_view import open_board, tell_the_end, tell_the_start  # noqa: PLC0415 - rich is for screens

    console = Console(stderr=as_json, highlight=False)
    with explained():
        choose_backend(backend)
        if jobs == "docker":
            check_docker()
        _make_room(picture)
        clean_up(folder)
        tell_the_start(console, speed=speed, balance_pct=balance_pct)
        with open_board(console) as show:
            stage = run(
                backend=backend,
                speed=speed,
                balance_pct=balance_pct,
                jobs=jobs,
                picture=picture,
                folder=folder,
                show=show,
            )
    tell_the_end(console, stage)
    console.print(f"The picture: {picture}", soft_wrap=True)
    if as_json:
        click.echo(json.dumps(summary(stage)))

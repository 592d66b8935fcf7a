"""The command ``burstlab incident``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from burstlab.disk.block_device import DiskError, choose_backend
from burstlab.disk.command import clean_up, report_errors
from burstlab.disk.docker import check_docker_tools
from burstlab.disk.options import disk_options
from burstlab.incident.run import JOBS, SPEED, IncidentRun, build_summary, open_incident, run
from burstlab.main import HELP


def run_incident(
    *,
    backend: str,
    speed: float,
    balance_pct: float,
    jobs: str,
    picture: Path,
    directory: Path | None,
    show: Callable[[IncidentRun], None],
) -> IncidentRun:
    """Run the whole incident, and draw its picture."""
    from burstlab.incident.picture import draw  # noqa: PLC0415 - matplotlib takes a second to import

    _make_directory(picture)
    with open_incident(
        backend=backend, speed=speed, balance_pct=balance_pct, jobs=jobs, directory=directory
    ) as incident_run:
        run(incident_run, show)
    draw(incident_run, picture)
    return incident_run


def _make_directory(picture: Path) -> None:
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
    folder_help="Directory of the images",
)
@click.option(
    "--jobs",
    type=click.Choice(["auto", *JOBS]),
    default="auto",
    show_default=True,
    help="Containers of the first runtime that works here, or processes that write like one.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("demo/burstwatch-incident.png"),
    show_default=True,
    help="File for the picture.",
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
    """The incident on real disks: the same loop of jobs twice, once without the watchdog and once with it.

    The watchdog is the real one, and so are the disks, the jobs' times and ddprobe's; AWS is the lab. Needs
    root and loop devices.
    """
    from rich.console import Console  # noqa: PLC0415 - help needs none of it

    from burstlab.incident.live_view import open_view, print_introduction, print_summary  # noqa: PLC0415 - rich is for screens

    console = Console(stderr=as_json, highlight=False)
    with report_errors():
        choose_backend(backend)
        if jobs == "docker":
            check_docker_tools()
        _make_directory(picture)
        clean_up(folder)
        print_introduction(console, speed=speed, balance_pct=balance_pct)
        with open_view(console) as show:
            incident_run = run_incident(
                backend=backend,
                speed=speed,
                balance_pct=balance_pct,
                jobs=jobs,
                picture=picture,
                directory=folder,
                show=show,
            )
    print_summary(console, incident_run)
    console.print(f"The picture: {picture}", soft_wrap=True)
    if as_json:
        click.echo(json.dumps(build_summary(incident_run)))

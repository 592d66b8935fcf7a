"""The command ``burstlab demo``."""

from collections.abc import Callable
from pathlib import Path

import click

from burstlab.demo.run import POLICY, DemoRun, open_demo, run
from burstlab.main import HELP
from burstwatch.adapters.policy.yaml_file import read_policy
from burstwatch.core.errors import BurstwatchError


def run_demo(
    *,
    hours: float,
    seconds: float,
    picture: Path,
    show: Callable[[DemoRun], None],
    log: Callable[[str], None] | None = None,
) -> DemoRun:
    """The whole demo: set up, run, and draw the picture; with ``log`` on the deployed stack."""
    from burstlab.demo.picture import draw  # noqa: PLC0415 - matplotlib takes a second to import

    picture.parent.mkdir(parents=True, exist_ok=True)
    with open_demo(POLICY, log=log) as demo_run:
        run(demo_run, hours=hours, pace_s=seconds / (hours * 60), show=show)
        demo_run.watchdog.finish()
        show(demo_run)
    draw(demo_run.runs, read_policy(POLICY).windows, picture)
    return demo_run


@click.command(context_settings=HELP, epilog="Example: burstlab demo --seconds 30 --picture /tmp/demo.png")
@click.option(
    "--deployed",
    is_flag=True,
    help="Deploy the watchdog with the real CDK onto a local AWS first; this takes half a minute more.",
)
@click.option(
    "--hours", type=click.FloatRange(0.1, 24), default=6.0, show_default=True, help="Simulated time."
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, 3_600),
    default=90.0,
    show_default=True,
    help="Minimum duration in real seconds.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("demo/burstwatch-demo.png"),
    show_default=True,
    help="File for the picture.",
)
def demo(deployed: bool, hours: float, seconds: float, picture: Path) -> None:  # noqa: FBT001 - a flag
    """Every kind of resource, the real watchdog acting over real HTTP, six hours in a minute or two."""
    from rich.console import Console  # noqa: PLC0415 - only the demo needs it

    from burstlab.demo.live_view import open_view, print_introduction, print_summary  # noqa: PLC0415 - rich is for screens

    console = Console()
    print_introduction(console, hours=hours, seconds=seconds, is_deployed=deployed)
    try:
        with open_view(console) as show:
            log = (lambda text: console.print(f"{text} ...", highlight=False)) if deployed else None
            demo_run = run_demo(hours=hours, seconds=seconds, picture=picture, show=show, log=log)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except OSError as error:
        raise click.ClickException(f"{picture}: {error.strerror}; give --picture another place") from error
    except BurstwatchError as error:
        raise click.ClickException(str(error)) from error
    print_summary(console, demo_run)
    console.print(f"The picture: {picture}", soft_wrap=True, highlight=False)

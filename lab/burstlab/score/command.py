"""``burstlab score``: the watchdog and its rivals on recorded load."""

import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import groupby, product
from os import cpu_count
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.progress import Progress

from burstlab.main import HELP
from burstlab.score.aggregate import SCHEMA, Figures, figures
from burstlab.score.cases import Recorded, Shape, find_recordings, make_cases
from burstlab.score.job import Job, Outcome
from burstlab.score.job import score as play
from burstlab.score.metric_delay import Weather
from burstlab.score.plot import draw
from burstlab.score.text import acting_table, alerting_table, promise_sentence
from burstwatch.adapters.policy.yaml_file import read_policy
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.policy.policy import Policy, PolicyError

SIZES: Final = "8,33,100,250,500"
_ALL: Final = "all"
_COLUMNS: Final = 80


class Numbers(click.ParamType[tuple[float, ...]]):
    """Numbers with commas between them."""

    name = "numbers"

    def __init__(self, *, least: float, most: float) -> None:
        self._least, self._most = least, most

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r}: write numbers with commas between them, such as 8,100.", param, ctx)
        if wrong := [number for number in numbers if not self._least <= number <= self._most]:
            self.fail(f"{wrong[0]:g} must be from {self._least:g} to {self._most:g}.", param, ctx)
        return numbers


_SCALE: Final = Numbers(least=0.001, most=1e6)


class Traces(click.ParamType[tuple[Path, tuple[float, ...] | None]]):
    """A folder of recordings, and after an @ scales of its own."""

    name = "traces"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Path, tuple[float, ...] | None]:
        folder, at, scales = str(value).rpartition("@")
        if not at or Path(str(value)).exists():
            return Path(str(value)), None
        return Path(folder), _SCALE.convert(scales, param, ctx)


@click.command(context_settings=HELP, epilog="Example: burstlab score traces/ --sizes 8,100 --scale 4")
@click.argument("traces", nargs=-1, required=True, type=Traces())
@click.option(
    "--policy", "policy_path", type=click.Path(path_type=Path), help="The policy; default: built in."
)
@click.option(
    "--sizes",
    type=Numbers(least=1, most=999),
    default=SIZES,
    show_default=True,
    help="GiB of the volumes, each of which plays every recording.",
)
@click.option(
    "--scale",
    "scales",
    type=_SCALE,
    default="1",
    show_default=True,
    help="Make the recordings so many times as strong.",
)
@click.option(
    "--shape",
    "shapes",
    type=click.Choice([str(shape) for shape in Shape]),
    multiple=True,
    help="Load within a recorded step: as its mean, or as one burst at 3,000. Default: both.",
)
@click.option(
    "--held",
    type=click.Choice(["lost", "queued"]),
    default="lost",
    show_default=True,
    help="What becomes of operations that cannot be served.",
)
@click.option("--every", type=click.IntRange(1), default=1, help="Only every so manieth recording.")
@click.option("--workers", type=click.IntRange(1), default=None, help="Processes; default: one a core.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option("--picture", type=click.Path(path_type=Path), help="Write a picture (.png or .svg).")
def score(
    traces: Sequence[tuple[Path, tuple[float, ...] | None]],
    *,
    policy_path: Path | None,
    sizes: tuple[float, ...],
    scales: tuple[float, ...],
    shapes: Sequence[str],
    held: str,
    every: int,
    workers: int | None,
    as_json: bool,
    picture: Path | None,
) -> None:
    """Play recorded load against the watchdog and what people use today.

    TRACES are folders of recordings (NAME.csv.gz with seconds_since_start, read_ops_per_s, write_ops_per_s);
    FOLDER@4,8 has scales of its own. Each is played on a gp2 volume of each size: exact physics, one-minute
    metrics that come late and with gaps, EC2's rules for modifications, and the real code that looks,
    decides, flips and returns.
    """
    try:
        policy = read_policy(policy_path) if policy_path else Policy()
        recorded = [(find_recordings([folder])[::every], own or scales) for folder, own in traces]
    except PolicyError as error:
        raise click.ClickException("the policy is rejected: " + "; ".join(map(str, error.faults))) from error
    except (BurstwatchError, OSError) as error:
        raise click.ClickException(str(error)) from error
    jobs = [
        job
        for recordings, times in recorded
        for job in make_jobs(
            recordings,
            policy=policy,
            sizes_gib=[int(size) for size in sizes],
            scales=times,
            shapes=[Shape(shape) for shape in shapes] or list(Shape),
            queued=held == "queued",
        )
    ]
    told = tell(run(jobs, workers))
    if picture is not None:
        draw(told[-1], picture)
    if as_json:
        click.echo(
            json.dumps(
                {"schema": SCHEMA, "held": held, "sets": [one.to_document() for one in told]}, indent=1
            )
        )
        return
    console = Console(width=None if sys.stdout.isatty() else _COLUMNS, highlight=False)
    for one in told:
        for target in one.acting:
            console.print(acting_table(one, target))
        console.print(alerting_table(one))
        console.print(promise_sentence(one), "\n")


def make_jobs(
    recordings: Sequence[Recorded],
    *,
    policy: Policy,
    sizes_gib: Sequence[int],
    scales: Sequence[float],
    shapes: Sequence[Shape],
    queued: bool,
) -> list[Job]:
    """A job for each set, scale, size and shape: its volumes are one fleet."""
    weather = Weather()
    by_folder = groupby(sorted(recordings, key=lambda one: one.folder), key=lambda one: one.folder)
    return [
        Job(
            cases=make_cases(group, scales=[scale], sizes_gib=[size_gib], shapes=[shape]),
            policy=policy,
            weather=weather,
            queued=queued,
        )
        for group in [list(group) for _, group in by_folder]
        for scale, size_gib, shape in product(scales, sizes_gib, shapes)
    ]


def run(jobs: Sequence[Job], workers: int | None = None) -> list[Outcome]:
    """Play all jobs, each in a process, with progress on a terminal."""
    console = Console(stderr=True)
    with (
        Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
        ProcessPoolExecutor(workers or cpu_count()) as pool,
    ):
        task = progress.add_task("fleets played", total=len(jobs))
        waiting = {pool.submit(play, job): index for index, job in enumerate(jobs)}
        found: dict[int, list[Outcome]] = {}
        for done in as_completed(waiting):
            found[waiting[done]] = done.result()
            progress.advance(task)
    return [outcome for index in sorted(found) for outcome in found[index]]


def tell(outcomes: Sequence[Outcome]) -> list[Figures]:
    """The figures of each set, and of all together where there are several."""
    folders = dict.fromkeys(outcome.folder for outcome in outcomes)
    told = [figures(folder, [one for one in outcomes if one.folder == folder]) for folder in folders]
    return told if len(told) == 1 else [*told, figures(_ALL, outcomes)]

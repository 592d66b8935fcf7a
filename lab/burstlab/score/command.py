"""``burstlab score``: the watchdog and other contenders on recorded load."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import groupby, product
from os import cpu_count
from pathlib import Path
from typing import Final

import click

from burstlab.main import HELP
from burstlab.output import output_console, print_json, show_progress
from burstlab.score.aggregate import SCHEMA, ScoreSummary, summarise
from burstlab.score.cases import LoadShape, NamedRecording, find_recordings, make_cases
from burstlab.score.job import CaseOutcome, Job, score_job
from burstlab.score.metric_delay import MetricDelay
from burstlab.score.plot import draw
from burstlab.score.text import build_action_table, build_alert_table, describe_guarantee
from burstwatch.adapters.policy.yaml_file import read_policy
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.policy.policy import Policy, PolicyError

SIZES: Final = "8,33,100,250,500"
_ALL: Final = "all"


class NumberList(click.ParamType[tuple[float, ...]]):
    """Numbers with commas between them."""

    name = "numbers"

    def __init__(self, *, minimum: float, maximum: float) -> None:
        self._minimum, self._maximum = minimum, maximum

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r}: write numbers with commas between them, such as 8,100.", param, ctx)
        if out_of_range := [number for number in numbers if not self._minimum <= number <= self._maximum]:
            self.fail(f"{out_of_range[0]:g} must be from {self._minimum:g} to {self._maximum:g}.", param, ctx)
        return numbers


_SCALE: Final = NumberList(minimum=0.001, maximum=1e6)


class TracesWithScales(click.ParamType[tuple[Path, tuple[float, ...] | None]]):
    """A folder of recordings, and after an @ its scales."""

    name = "traces"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Path, tuple[float, ...] | None]:
        folder, separator, scales = str(value).rpartition("@")
        if not separator or Path(str(value)).exists():
            return Path(str(value)), None
        return Path(folder), _SCALE.convert(scales, param, ctx)


@click.command(context_settings=HELP, epilog="Example: burstlab score traces/ --sizes 8,100 --scale 4")
@click.argument("traces", nargs=-1, required=True, type=TracesWithScales())
@click.option(
    "--policy",
    "policy_path",
    type=click.Path(path_type=Path),
    help="Policy file; default: the built-in policy.",
)
@click.option(
    "--sizes",
    type=NumberList(minimum=1, maximum=999),
    default=SIZES,
    show_default=True,
    help="Sizes of the volumes in GiB; each size runs every recording.",
)
@click.option(
    "--scale",
    "scales",
    type=_SCALE,
    default="1",
    show_default=True,
    help="Multiply the recorded load by this.",
)
@click.option(
    "--shape",
    "shapes",
    type=click.Choice([str(shape) for shape in LoadShape]),
    multiple=True,
    help="Load within a recorded step: its mean, or one burst at 3,000 IOPS. Default: both.",
)
@click.option(
    "--held",
    type=click.Choice(["lost", "queued"]),
    default="lost",
    show_default=True,
    help="The fate of operations that cannot be served.",
)
@click.option("--every", type=click.IntRange(1), default=1, help="Use only every n-th recording.")
@click.option(
    "--workers", type=click.IntRange(1), default=None, help="Processes; default: one for each core."
)
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
    """Run recorded load against the watchdog and what people use today.

    TRACES are folders of recordings (NAME.csv.gz with seconds_since_start, read_ops_per_s, write_ops_per_s);
    FOLDER@4,8 has scales of its own. Each runs on a gp2 volume of each size, with exact physics, one-minute
    metrics that come late and with gaps, and EC2's rules for modifications. The code that assesses, decides,
    flips and returns is the real one.
    """
    try:
        policy = read_policy(policy_path) if policy_path else Policy()
        recorded = [
            (find_recordings([folder])[::every], own_scales or scales) for folder, own_scales in traces
        ]
    except PolicyError as error:
        raise click.ClickException("the policy is rejected: " + "; ".join(map(str, error.faults))) from error
    except (BurstwatchError, OSError) as error:
        raise click.ClickException(str(error)) from error
    jobs = [
        job
        for recordings, job_scales in recorded
        for job in make_jobs(
            recordings,
            policy=policy,
            sizes_gib=[int(size) for size in sizes],
            scales=job_scales,
            shapes=[LoadShape(shape) for shape in shapes] or list(LoadShape),
            queued=held == "queued",
        )
    ]
    summaries = summarise_sets(run_jobs(jobs, workers))
    if picture is not None:
        draw(summaries[-1], picture)
    if as_json:
        sets = [summary.to_document() for summary in summaries]
        print_json({"schema": SCHEMA, "held": held, "sets": sets})
        return
    console = output_console()
    for summary in summaries:
        for target in summary.acting:
            console.print(build_action_table(summary, target))
        console.print(build_alert_table(summary))
        console.print(describe_guarantee(summary), "\n")


def make_jobs(
    recordings: Sequence[NamedRecording],
    *,
    policy: Policy,
    sizes_gib: Sequence[int],
    scales: Sequence[float],
    shapes: Sequence[LoadShape],
    queued: bool,
) -> list[Job]:
    """A job for each set, scale, size and shape: its volumes are one fleet."""
    metric_delay = MetricDelay()
    by_folder = groupby(
        sorted(recordings, key=lambda recording: recording.folder), key=lambda recording: recording.folder
    )
    return [
        Job(
            cases=make_cases(group, scales=[scale], sizes_gib=[size_gib], shapes=[shape]),
            policy=policy,
            metric_delay=metric_delay,
            queued=queued,
        )
        for group in [list(group) for _, group in by_folder]
        for scale, size_gib, shape in product(scales, sizes_gib, shapes)
    ]


def run_jobs(jobs: Sequence[Job], workers: int | None = None) -> list[CaseOutcome]:
    """Play all jobs, each in a process, with progress on a terminal."""
    with (
        show_progress("fleets played", len(jobs)) as advance,
        ProcessPoolExecutor(workers or cpu_count()) as pool,
    ):
        index_by_future = {pool.submit(score_job, job): index for index, job in enumerate(jobs)}
        outcomes_by_index: dict[int, list[CaseOutcome]] = {}
        for future in as_completed(index_by_future):
            outcomes_by_index[index_by_future[future]] = future.result()
            advance()
    return [outcome for index in sorted(outcomes_by_index) for outcome in outcomes_by_index[index]]


def summarise_sets(outcomes: Sequence[CaseOutcome]) -> list[ScoreSummary]:
    """The figures of each set, and of all together if there are several."""
    folders = dict.fromkeys(outcome.folder for outcome in outcomes)
    summaries = [
        summarise(folder, [case_outcome for case_outcome in outcomes if case_outcome.folder == folder])
        for folder in folders
    ]
    return summaries if len(summaries) == 1 else [*summaries, summarise(_ALL, outcomes)]

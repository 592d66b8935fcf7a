"""What ``burstlab disk`` shows: a live view on a terminal, otherwise a line every few seconds."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from statistics import mean
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from burstlab.disk.job_loop import JobLoop
from burstlab.disk.simulated_disk import SimulatedDisk
from burstlab.disk.throttle import CONTROL_PERIOD_S, DiskSnapshot
from burstwatch.core.ebs.volume import BURST_IOPS
from burstwatch.core.text import format_clock

# layout of the board on a terminal of 80 columns
COLUMNS: Final = 80
_BAR_WIDTH: Final = 40
_LINE_INTERVAL_S: Final = 2.0  # without a terminal, each look is a line of a log
_SHOWN_JOBS: Final = 5
_LOW_PCT: Final = 25  # below it the bar is yellow
_SPARKS: Final = "▁▂▃▄▅▆▇█"


@contextmanager
def open_view(disk: SimulatedDisk, job_loop: JobLoop | None) -> Iterator[Callable[[], None]]:
    """Give the function that shows the disk as it is now."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _make_line_printer(console, disk, job_loop)
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield lambda: live.update(render(disk, job_loop))


def render(disk: SimulatedDisk, job_loop: JobLoop | None) -> Group:
    """The disk in a few lines."""
    latest, snapshots = disk.controller.latest, disk.controller.snapshots
    rates, max_iops = mean_iops_per_second(snapshots), disk.controller.time_scale.real_iops(BURST_IOPS)
    lines = [
        Text(f"{format_clock(latest.simulated_at_s)} UTC of the volume's time", style="bold"),
        Text.assemble("balance  ", render_balance(latest.balance_pct, _BAR_WIDTH)),
        Text(f"limit    {latest.limit_iops:,} IOPS, {latest.volume_type}"),
        Text(f"served   {mean_iops(snapshots):,.0f} IOPS  {sparkline(rates[-_BAR_WIDTH:], max_iops)}"),
    ]
    if job_loop is not None:
        lines.append(Text(f"jobs     {_describe_jobs(job_loop, latest.at_s)}"))
    return Group(*lines)


def render_balance(balance_pct: float | None, width: int) -> Text:
    """The balance as a bar; a dash if there is no bucket."""
    if balance_pct is None:
        return Text("- (no bucket)", style="green")
    filled = round(balance_pct / 100 * width)
    style = "bold red" if balance_pct <= 0 else "yellow" if balance_pct < _LOW_PCT else "green"
    return Text("█" * filled + "░" * (width - filled) + f" {balance_pct:5.1f} %", style=style)


def mean_iops(snapshots: Sequence[DiskSnapshot], seconds: float = 1.0) -> float:
    """The mean operations per second over the last ``seconds``."""
    return mean(snapshot.iops for snapshot in snapshots[-max(1, round(seconds / CONTROL_PERIOD_S)) :])


def mean_iops_per_second(snapshots: Sequence[DiskSnapshot]) -> list[float]:
    """The device's IOPS, second by second; the last one may be short."""
    rates = []
    for _, group in groupby(snapshots[1:], key=lambda snapshot: int(snapshot.at_s - snapshots[0].at_s)):
        rates.append(mean(snapshot.iops for snapshot in group))
    return rates


def sparkline(values: Sequence[float], maximum: float) -> str:
    """Values as a row of small bars."""
    steps = len(_SPARKS) - 1
    return "".join(_SPARKS[min(steps, max(0, round(value / maximum * steps)))] for value in values)


def _describe_jobs(job_loop: JobLoop, now_s: float) -> str:
    durations = [f"{job.duration_s(now_s):.2f} s" for job in job_loop.jobs[-_SHOWN_JOBS:]]
    if job_loop.running is not None:
        durations.append(f"{job_loop.running.number} runs for {job_loop.running.duration_s(now_s):.1f} s")
    return ", ".join(durations)


def _make_line_printer(console: Console, disk: SimulatedDisk, job_loop: JobLoop | None) -> Callable[[], None]:
    printed_s = float("-inf")

    def show() -> None:
        nonlocal printed_s
        latest = disk.controller.latest
        if latest.at_s - printed_s < _LINE_INTERVAL_S:
            return
        printed_s = latest.at_s
        balance = "no bucket" if latest.balance_pct is None else f"{latest.balance_pct:5.1f} %"
        rate = mean_iops(disk.controller.snapshots, _LINE_INTERVAL_S)
        last = (
            f", last job {job_loop.jobs[-1].duration_s(latest.at_s):.2f} s"
            if job_loop and job_loop.jobs
            else ""
        )
        limit = f"{latest.limit_iops:,} IOPS, {latest.volume_type}"
        console.print(f"{format_clock(latest.simulated_at_s)}  {balance}, {rate:,.0f} of {limit}{last}")

    return show

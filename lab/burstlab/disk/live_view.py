"""What ``burstlab disk`` shows: on a terminal a live board, elsewhere a line every few seconds."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from statistics import mean
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from burstlab.disk.job_loop import JobLoop
from burstlab.disk.simulated_disk import Box
from burstlab.disk.throttle import PERIOD_S, Instant
from burstwatch.core.ebs.volume import BURST_IOPS
from burstwatch.core.text import format_clock

COLUMNS: Final = 80
_BAR: Final = 40
_LINE_EVERY_S: Final = 2.0
_SHOWN_JOBS: Final = 5
_LOW_PCT: Final = 25
_SPARKS: Final = "▁▂▃▄▅▆▇█"


@contextmanager
def open_view(box: Box, loop: JobLoop | None) -> Iterator[Callable[[], None]]:
    """Give the function that shows the disk as it is now."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _line_printer(console, box, loop)
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield lambda: live.update(board(box, loop))


def board(box: Box, loop: JobLoop | None) -> Group:
    """The disk in a few lines."""
    now, instants = box.governor.now, box.governor.instants
    rates, most = per_second(instants), box.governor.lapse.real_iops(BURST_IOPS)
    lines = [
        Text(f"{format_clock(now.lab_s)} UTC of the volume's time", style="bold"),
        Text.assemble("balance  ", bar(now.balance_pct, _BAR)),
        Text(f"limit    {now.limit_iops:,} IOPS, {now.volume_type}"),
        Text(f"served   {served(instants):,.0f} IOPS  {spark(rates[-_BAR:], most)}"),
    ]
    if loop is not None:
        lines.append(Text(f"jobs     {_jobs(loop, now.at_s)}"))
    return Group(*lines)


def bar(balance_pct: float | None, width: int) -> Text:
    """A bucket as a bar; a dash where there is none."""
    if balance_pct is None:
        return Text("- (no bucket)", style="green")
    filled = round(balance_pct / 100 * width)
    style = "bold red" if balance_pct <= 0 else "yellow" if balance_pct < _LOW_PCT else "green"
    return Text("█" * filled + "░" * (width - filled) + f" {balance_pct:5.1f} %", style=style)


def served(instants: Sequence[Instant], seconds: float = 1.0) -> float:
    """Operations per second over the last so many seconds."""
    return mean(instant.iops for instant in instants[-max(1, round(seconds / PERIOD_S)) :])


def per_second(instants: Sequence[Instant]) -> list[float]:
    """The device's IOPS, second by second; the last one may be short."""
    rates = []
    for _, group in groupby(instants[1:], key=lambda each: int(each.at_s - instants[0].at_s)):
        rates.append(mean(each.iops for each in group))
    return rates


def spark(values: Sequence[float], most: float) -> str:
    """Values as a row of small bars."""
    steps = len(_SPARKS) - 1
    return "".join(_SPARKS[min(steps, max(0, round(value / most * steps)))] for value in values)


def _jobs(loop: JobLoop, now_s: float) -> str:
    shown = [f"{job.took_s(now_s):.2f} s" for job in loop.jobs[-_SHOWN_JOBS:]]
    if loop.running is not None:
        shown.append(f"{loop.running.number} runs for {loop.running.took_s(now_s):.1f} s")
    return ", ".join(shown)


def _line_printer(console: Console, box: Box, loop: JobLoop | None) -> Callable[[], None]:
    printed_s = float("-inf")

    def show() -> None:
        nonlocal printed_s
        now = box.governor.now
        if now.at_s - printed_s < _LINE_EVERY_S:
            return
        printed_s = now.at_s
        held = "no bucket" if now.balance_pct is None else f"{now.balance_pct:5.1f} %"
        rate = served(box.governor.instants, _LINE_EVERY_S)
        last = f", last job {loop.jobs[-1].took_s(now.at_s):.2f} s" if loop and loop.jobs else ""
        limit = f"{now.limit_iops:,} IOPS, {now.volume_type}"
        console.print(f"{format_clock(now.lab_s)}  {held}, {rate:,.0f} of {limit}{last}")

    return show

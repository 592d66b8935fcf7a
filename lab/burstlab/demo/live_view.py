"""What the demo shows while it runs and when it ends: a live view on a terminal, otherwise lines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from burstctl.timeline.intervals import TargetInterval
from burstlab.demo.activity import describe_last_event
from burstlab.demo.run import AdvisedRun, DemoRun, History, VolumeHistory, VolumeRun
from burstlab.demo.scenario import STARTS_AT, VOLUMES, DemoFileSystem, DemoInstance, describe_refill
from burstlab.wrapped_text import COLUMNS, print_wrapped
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ledger.ledger_entry import EntryKind
from burstwatch.core.text import format_clock, format_duration, format_usd, sanitise
from burstwatch.core.watch.api_cost import USD_PER_METRIC

COLOURS: Final = {
    "ok": "green",
    "watch": "cyan",
    "warning": "yellow",
    "critical": "bold red",
    "exhausted": "bold white on red",
    "unknown": "magenta",
}
# layout of the board on a terminal of 80 columns
_INDENT: Final = " " * 7
_BAR_WIDTH: Final = 8
_SHOWN_ALERTS: Final = 6


def print_introduction(console: Console, *, hours: float, seconds: float, is_deployed: bool = False) -> None:
    """What is about to be seen."""
    watchdog = (
        "the watchdog is the stack that `cdk deploy` makes, its functions really run"
        if is_deployed
        else "the watchdog is the real one"
    )
    text = (
        f"{len(VOLUMES)} gp2 volumes, an instance, a file system and a database from {STARTS_AT:%H:%M} UTC"
        f" on, {hours:g} hours in about {seconds:g} s."
        f" The lab is a fake AWS on loopback; {watchdog}, and flips volumes tagged auto."
        " A flip takes as long as AWS's documents say: up to 6 h for a TiB."
    )
    print_wrapped(console, text)
    console.print()


@contextmanager
def open_view(console: Console) -> Iterator[Callable[[DemoRun], None]]:
    """Yield the function that shows the state after each tick."""
    if not console.is_terminal:
        yield _make_line_printer(console)
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        yield lambda demo_run: live.update(_render(demo_run))


def _make_line_printer(console: Console) -> Callable[[DemoRun], None]:
    printed = 0

    def show(demo_run: DemoRun) -> None:
        nonlocal printed
        notifications = demo_run.watchdog.notifications
        for notification in sorted(notifications[printed:], key=attrgetter("at_s")):
            print_wrapped(console, notification.headline, lead=f"{format_clock(notification.at_s)}  ")
        printed = len(notifications)

    return show


def _render(demo_run: DemoRun) -> Group:
    table = Table(
        title=f"{format_clock(demo_run.now_s)} UTC",
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    columns = (("resource", 11), ("mode", 7), ("burst balance", 15), ("type", 4), ("level", 9))
    for heading, width in (*columns, ("last", 28)):
        table.add_column(heading, no_wrap=True, width=width)
    for run in demo_run.runs:
        table.add_row(
            run.spec.name,
            run.spec.mode,
            _render_balance(run),
            _render_type(run),
            _render_level(run),
            _describe_last(run),
        )
    alert_lines = [
        Text(
            sanitise(f"{format_clock(notification.at_s)} {notification.headline}", COLUMNS - 1),
            style=COLOURS[notification.level],
        )
        for notification in sorted(demo_run.watchdog.notifications, key=attrgetter("at_s"))[-_SHOWN_ALERTS:]
    ]
    return Group(table, Text(""), Text(demo_run.watchdog.channel_label, style="bold"), *alert_lines)


def _render_balance(run: VolumeRun | AdvisedRun) -> Text:
    balance = run.history.samples[-1].balance_pct
    if balance is None:
        return Text("-", style="green")
    filled = round(balance / 100 * _BAR_WIDTH)
    return Text("█" * filled + "░" * (_BAR_WIDTH - filled) + f" {balance:3.0f} %", style=COLOURS[run.level])


def _render_type(run: VolumeRun | AdvisedRun) -> Text:
    return Text(run.current_type, style="" if run.has_bucket else "bold green")


def _render_level(run: VolumeRun | AdvisedRun) -> Text:
    """The level as judged; none while there is no bucket to judge."""
    level = run.level
    return Text(level, style=COLOURS[level]) if run.has_bucket else Text("-", style="green")


def _describe_last(run: VolumeRun | AdvisedRun) -> str:
    if text := describe_last_event(run.entries):
        return text
    if isinstance(run, AdvisedRun):
        return f"{format_clock(run.changed_at_s)} {run.changed_to}" if run.changed_at_s else ""
    return "" if run.can_drain else "cannot become empty"


def print_summary(console: Console, demo_run: DemoRun) -> None:
    """What happened, what was done and refused, and what it cost."""
    runs = list(demo_run.volume_runs.values())
    _print_comparison(console, demo_run.compared_runs)
    intervals = sorted(
        ((interval, run) for run in runs for interval in run.target_intervals),
        key=lambda pair: pair[0].start_s,
    )
    if intervals:
        _print_heading(console, "What was done, and what it cost above gp2")
    for interval, run in intervals:
        _print_interval(console, run, interval)
    refused_runs = sorted(
        (run for run in runs if run.refused_flips), key=lambda run: run.refused_flips[0].at_s
    )
    if refused_runs:
        _print_heading(console, "What was refused")
    for run in refused_runs:
        _print_refusal(console, run)
    if (empty_at_s := demo_run.instance_run.history.empty_at_s) is not None:
        _print_instance(console, demo_run.instance_run, empty_at_s)
    if any(run.first_alert for run in (demo_run.file_system_run, demo_run.database_run)):
        _print_heading(console, "What people were advised, with the command in the alert")
        _print_file_system(console, demo_run.file_system_run)
        _print_database(console, demo_run.database_run)
    _print_heading(console, "In all")
    _print_totals(console, demo_run, runs)


def _print_comparison(console: Console, runs: list[VolumeRun]) -> None:
    first = runs[0].spec
    _print_heading(console, f"The twins: {first.description}, on {first.size_gib} GiB of gp2 each")
    rows = [
        ("", *(run.spec.name for run in runs)),
        ("mode", *(run.spec.mode for run in runs)),
        ("judged critical", *(_format_clock_or_never(_first_critical_at_s(run)) for run in runs)),
        (
            "flipped",
            *(
                _format_clock_or_never(next((interval.start_s for interval in run.target_intervals), None))
                for run in runs
            ),
        ),
        ("became empty", *(_format_clock_or_never(run.history.empty_at_s) for run in runs)),
        ("stalled", *(format_duration(run.history.stalled_s) for run in runs)),
        ("operations lost", *(f"{run.history.lost_ops:,.0f}" for run in runs)),
        ("paid for the volume", *(format_usd(run.history.usd, decimals=4) for run in runs)),
    ]
    for label, *values in rows:
        console.print(Text(f"{label:<20}" + "".join(f"{value:>15}" for value in values)))


def _format_clock_or_never(at_s: float | None) -> str:
    return "never" if at_s is None else format_clock(at_s)


def _first_critical_at_s(run: VolumeRun) -> int | None:
    changes = (entry for entry in run.entries if entry.kind is EntryKind.LEVEL_CHANGED)
    return next((entry.at_s for entry in changes if entry.body["to"] == Level.CRITICAL), None)


def _print_interval(console: Console, run: VolumeRun, interval: TargetInterval) -> None:
    end = ", to stay" if interval.is_permanent else ""
    line = f"{format_clock(interval.start_s)}  {run.spec.name} to {interval.target}{end}"
    usd = run.history.extra_usd(interval.start_s, interval.return_requested_at_s)
    console.print(Text(f"{line:<68}{_format_usd(usd):>11}"))
    print_wrapped(console, interval.reason, lead=_INDENT)
    notes = [
        f"asked back {format_clock(interval.return_requested_at_s)}"
        if interval.return_requested_at_s
        else "",
        f"gp2 again {format_clock(interval.restored_at_s)}" if interval.restored_at_s else "",
        f"left alone: {_describe_depletion(run.unwatched)}" if run.unwatched.empty_at_s else "",
    ]
    if any(notes):
        print_wrapped(console, "; ".join(filter(None, notes)), lead=_INDENT)


def _print_refusal(console: Console, run: VolumeRun) -> None:
    refused = run.refused_flips[0]
    lead = f"{format_clock(refused.at_s)}  "
    print_wrapped(console, f"{run.spec.name}, {refused.guard}: {refused.reason}", lead=lead)
    later_intervals = [interval for interval in run.target_intervals if interval.start_s > refused.at_s]
    if later_intervals:
        print_wrapped(
            console,
            f"flipped {format_clock(later_intervals[0].start_s)}, when that was over",
            lead=_INDENT,
        )
    elif run.history.empty_at_s:
        print_wrapped(console, f"{_describe_depletion(run.history)}{_describe_warning(run)}", lead=_INDENT)


def _print_instance(console: Console, run: AdvisedRun, empty_at_s: float) -> None:
    """The bucket that no chart of a volume shows."""
    spec = run.spec
    if not isinstance(spec, DemoInstance):
        return
    _print_heading(console, "What no chart of a volume shows")
    text = (
        f"{spec.name} ({spec.instance_type}): its gp3 volume has {spec.volume_iops:,} IOPS and no balance,"
        f" so it looks fine. The instance sustains {spec.baseline:,}."
    )
    print_wrapped(console, text, lead=f"{format_clock(empty_at_s)}  ")
    print_wrapped(console, f"{_describe_depletion(run.history)}{_describe_warning(run)}", lead=_INDENT)


def _print_file_system(console: Console, run: AdvisedRun) -> None:
    """The file system that somebody changed in time."""
    if run.first_alert is None or not isinstance(run.spec, DemoFileSystem):
        return
    spec, unwatched = run.spec, run.unwatched
    print_wrapped(
        console,
        f"{spec.name} ({spec.summary}, {spec.description}): {run.first_alert.body['level']}",
        lead=f"{format_clock(run.first_alert.at_s)}  ",
    )
    notes = []
    if run.changed_at_s is not None:
        notes.append(f"changed by hand {format_clock(run.changed_at_s)}: {run.changed_to}")
    if unwatched is not None and unwatched.empty_at_s is not None:
        empty_at, refill = format_clock(unwatched.empty_at_s), describe_refill(spec)
        notes.append(f"left alone: empty {empty_at}, and {refill} to refill")
    if notes:
        print_wrapped(console, "; ".join(notes), lead=_INDENT)


def _print_database(console: Console, run: AdvisedRun) -> None:
    """The database whose alert was not acted on."""
    if run.first_alert is None:
        return
    spec = run.spec
    print_wrapped(
        console,
        f"{spec.name} ({spec.summary}, {spec.description}): {run.first_alert.body['level']}",
        lead=f"{format_clock(run.first_alert.at_s)}  ",
    )
    if run.history.empty_at_s is not None:
        print_wrapped(console, f"{_describe_depletion(run.history)}{_describe_warning(run)}", lead=_INDENT)


def _describe_warning(run: VolumeRun | AdvisedRun) -> str:
    return "" if run.warning_time_s is None else f"; announced {format_duration(run.warning_time_s)} before"


def _describe_depletion(history: History) -> str:
    return f"empty {_format_clock_or_never(history.empty_at_s)}, stalled {format_duration(history.stalled_s)}"


def _print_totals(console: Console, demo_run: DemoRun, runs: list[VolumeRun]) -> None:
    histories, unwatched = [run.history for run in runs], [run.unwatched for run in runs]
    usd = sum(history.extra_usd() for history in histories)
    print_wrapped(console, f"Left alone, {_summarise(unwatched)}.")
    more = "more" if usd >= 0 else "less"
    print_wrapped(
        console,
        f"Watched, {_summarise(histories)}; the flips cost {format_usd(abs(usd), decimals=4)} {more}"
        f" than gp2.",
    )
    calls = ", ".join(f"{count} {action}" for action, count in sorted(demo_run.api_calls.items()))
    metrics = demo_run.endpoint.metrics_requested
    price = f"{format_usd(metrics * USD_PER_METRIC, decimals=4)} at CloudWatch's price"
    print_wrapped(console, f"{demo_run.ticks} ticks; {metrics:,} metrics read, {price}; {calls}.")


def _summarise(histories: list[VolumeHistory]) -> str:
    empty_count = sum(history.empty_at_s is not None for history in histories)
    stalled = format_duration(sum(history.stalled_s for history in histories))
    lost_ops = sum(history.lost_ops for history in histories)
    return (
        f"{empty_count} of {len(histories)} volumes became empty, stalled {stalled} and lost {lost_ops:,.0f}"
        " operations"
    )


def _format_usd(usd: float) -> str:
    return f"{'-' if usd < 0 else '+'}{format_usd(abs(usd), decimals=4)}"


def _print_heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))

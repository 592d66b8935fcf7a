"""What the incident shows while it runs and when it ends: a live view on a terminal, otherwise lines."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from burstlab.disk.live_view import mean_iops, render_balance
from burstlab.incident.probe import Reading
from burstlab.incident.run import PHASES, SIZE_GIB, DiskUnderTest, IncidentRun
from burstlab.wrapped_text import COLUMNS, print_wrapped
from burstwatch.core.alerts.alert import Alert, format_title
from burstwatch.core.ebs.volume import BURST_IOPS, baseline_iops
from burstwatch.core.text import format_clock, sanitise

# layout of the board on a terminal of 80 columns
_LABEL_WIDTH: Final = 12
_BAR_WIDTH: Final = 16
_SLOW_FACTOR: Final = 5
"""A job that takes this many times the usual duration is reported."""
_SHOWN_EVENTS: Final = 8
_HEARTBEAT_S: Final = 10.0  # without a terminal, a line shows that it goes on
_SHOWN_TASKS: Final = 3
_TITLES: Final = {"alone": "no watchdog", "watched": "with the watchdog"}
_JOB_KIND_TITLES: Final = {
    "docker": "Docker's containers",
    "podman": "podman's containers",
    "built-in": "built-in jobs",
}
_PHASE_TITLES: Final = {"before": "before", "in": "bucket empty", "after": "after the flip"}
_VERDICT_COLOURS: Final = {"ok": "green", "warn": "yellow", "crit": "bold white on red", "unknown": "magenta"}


def print_introduction(console: Console, *, speed: float, balance_pct: float) -> None:
    """What is about to be seen."""
    bucket_text = "full" if balance_pct == 100 else f"at {balance_pct:g} %"  # noqa: PLR2004 - full
    text = (
        f"Two real block devices, each throttled by the bucket of a {SIZE_GIB} GiB gp2 volume ({bucket_text};"
        f" burst {BURST_IOPS:,} IOPS, baseline {baseline_iops(SIZE_GIB)}), each under the same loop of small"
        f" jobs. One second is {speed:g} s of the volumes' time, and the bucket so much smaller. It takes a"
        " minute or two."
    )
    print_wrapped(console, text)
    console.print()


@contextmanager
def open_view(console: Console) -> Iterator[Callable[[IncidentRun], None]]:
    """Yield the function that shows the state."""
    reporter = EventReporter()
    if not console.is_terminal:

        def print_news(incident_run: IncidentRun) -> None:
            for at_s, text in reporter.new_events(incident_run):
                print_wrapped(console, text, lead=f"{at_s:5.1f} s  ")

        yield print_news
        return
    with Live(console=console, refresh_per_second=8, transient=True) as live:

        def update(incident_run: IncidentRun) -> None:
            reporter.new_events(incident_run)
            live.update(render(incident_run, reporter.events))

        yield update


class EventReporter:
    """Reports each thing that happens once."""

    def __init__(self) -> None:
        self.events: list[tuple[float, str]] = []
        self._reported_keys: set[object] = set()
        self._reported_alerts = 0
        self._next_heartbeat_s = _HEARTBEAT_S

    def new_events(self, incident_run: IncidentRun) -> list[tuple[float, str]]:
        """The events that were not shown yet: seconds since the start, and text."""
        previous_count = len(self.events)
        for disk in incident_run.disks:
            self._report_disk(incident_run, disk)
        alerts = incident_run.channel.alerts[self._reported_alerts :]
        self._reported_alerts += len(alerts)
        self.events += [(incident_run.elapsed_s, f"alert: {_alert_headline(alert)}") for alert in alerts]
        if incident_run.opted_in_at_s is not None:
            self._report_once(
                "let in",
                incident_run.opted_in_at_s - incident_run.started_at_s,
                "alone: somebody tags it burstwatch:mode=auto",
            )
        if len(self.events) > previous_count:
            self._next_heartbeat_s = incident_run.elapsed_s + _HEARTBEAT_S
        elif incident_run.elapsed_s >= self._next_heartbeat_s:
            self._next_heartbeat_s += _HEARTBEAT_S
            self.events.append(
                (incident_run.elapsed_s, "; ".join(_describe_disk(disk) for disk in incident_run.disks))
            )
        return self.events[previous_count:]

    def _report_disk(self, incident_run: IncidentRun, disk: DiskUnderTest) -> None:
        if disk.empty_at_s is not None:
            self._report_once(
                (disk.name, "empty"),
                disk.empty_at_s - incident_run.started_at_s,
                f"{disk.name}: the bucket is empty",
            )
        if disk.flip is not None:
            flip_text = f"{disk.name}: ModifyVolume to {disk.flip.target}"
            self._report_once(
                (disk.name, "asked"), disk.flip.requested_at_s - incident_run.started_at_s, flip_text
            )
            if disk.flip.reached_at_s is not None:
                self._report_once(
                    (disk.name, "reached"),
                    disk.flip.reached_at_s - incident_run.started_at_s,
                    f"{disk.name}: it is {disk.flip.target}",
                )
        median_s = median(disk.job_durations_s("before") or [1.0])
        for job in list(disk.jobs):
            if job.ended_at_s is not None and job.ended_at_s - job.started_at_s >= _SLOW_FACTOR * median_s:
                duration_s = job.ended_at_s - job.started_at_s
                factor_text = f"{duration_s / median_s:.0f} times the usual"
                text = f"{disk.name}: job {job.number} took {duration_s:.1f} s, {factor_text}"
                self._report_once(
                    (disk.name, "job", job.number), job.ended_at_s - incident_run.started_at_s, text
                )
        for reading in disk.readings:
            if reading.verdict != "ok":
                self._report_once(
                    (disk.name, "probe", reading.started_at_s),
                    reading.ended_at_s - incident_run.started_at_s,
                    f"{disk.name}: ddprobe {_describe_reading(reading)}",
                )

    def _report_once(self, key: object, at_s: float, text: str) -> None:
        if key not in self._reported_keys:
            self._reported_keys.add(key)
            self.events.append((at_s, text))


def render(incident_run: IncidentRun, events: Sequence[tuple[float, str]]) -> Group:
    """Both disks side by side, and what happened last."""
    simulated_at_s = incident_run.unwatched.simulated_disk.controller.latest.simulated_at_s
    heading = f"{incident_run.elapsed_s:5.1f} s      {format_clock(simulated_at_s)} UTC of the volumes' time"
    rows = [
        Text(heading, style="bold"),
        _render_row("", *(Text(_TITLES[disk.name], style="bold") for disk in incident_run.disks)),
        _render_row(
            "balance",
            *(
                render_balance(disk.simulated_disk.controller.latest.balance_pct, _BAR_WIDTH)
                for disk in incident_run.disks
            ),
        ),
        _render_row("limit", *(Text(_describe_limit(disk)) for disk in incident_run.disks)),
        _render_row(
            "served",
            *(
                Text(f"{mean_iops(disk.simulated_disk.controller.snapshots):,.0f} IOPS")
                for disk in incident_run.disks
            ),
        ),
        _render_row("last job", *(_render_last_job(disk) for disk in incident_run.disks)),
        _render_row("this job", *(_render_running_job(disk) for disk in incident_run.disks)),
        _render_row("ddprobe", *(_render_last_reading(disk) for disk in incident_run.disks)),
        _render_row("in state D", *(Text(_describe_tasks(disk)) for disk in incident_run.disks)),
        Text(""),
    ]
    event_lines = [
        Text(sanitise(f"{at_s:5.1f} s  {text}", COLUMNS - 1)) for at_s, text in events[-_SHOWN_EVENTS:]
    ]
    return Group(*rows, *event_lines)


def _render_row(label: str, *cells: Text) -> Text:
    width = (COLUMNS - _LABEL_WIDTH) // len(cells)
    row = Text(f"{label:<{_LABEL_WIDTH}}")
    for cell in cells:
        cell.truncate(width - 1, pad=True)
        row.append_text(cell).append(" ")
    return row


def _describe_limit(disk: DiskUnderTest) -> str:
    latest = disk.simulated_disk.controller.latest
    return f"{latest.limit_iops:,} IOPS, {latest.volume_type}"


def _render_last_job(disk: DiskUnderTest) -> Text:
    if not disk.jobs:
        return Text("-")
    job, median_s = disk.jobs[-1], median(disk.job_durations_s("before") or [1.0])
    duration_s = job.duration_s(0)
    factor_text = (
        f" ({duration_s / median_s:.0f} times the usual)" if duration_s >= _SLOW_FACTOR * median_s else ""
    )
    return Text(f"{duration_s:.2f} s{factor_text}", style="bold red" if factor_text else "")


def _render_running_job(disk: DiskUnderTest) -> Text:
    running = disk.job_loop.running
    return Text(
        f"runs for {running.duration_s(disk.simulated_disk.controller.latest.at_s):.1f} s" if running else "-"
    )


def _render_last_reading(disk: DiskUnderTest) -> Text:
    if not disk.readings:
        return Text("-")
    reading = disk.readings[-1]
    text = f"{reading.verdict}, {reading.total_s:.2f} s, {reading.cause}"
    return Text(text, style=_VERDICT_COLOURS[reading.verdict])


def _describe_tasks(disk: DiskUnderTest) -> str:
    reading = disk.readings[-1] if disk.readings else None
    if reading is None or not reading.blocked_tasks:
        return "-"
    comm, wchan, _ = reading.tasks[0]
    return f"{reading.blocked_tasks}: {comm} [{wchan}]"


def _describe_reading(reading: Reading) -> str:
    duration_text = (
        f"{reading.total_s:.1f} s" if reading.is_completed else f"not done after {reading.total_s:.1f} s"
    )
    names = ", ".join(f"{count} {comm} [{wchan}]" for comm, wchan, count in reading.tasks[:_SHOWN_TASKS])
    blocked_text = f"; {reading.blocked_tasks} tasks in state D: {names}" if reading.blocked_tasks else ""
    return f"{reading.verdict.upper()}, {reading.cause}, {duration_text}{blocked_text}"


def _describe_disk(disk: DiskUnderTest) -> str:
    latest = disk.simulated_disk.controller.latest
    balance_text = "no bucket" if latest.balance_pct is None else f"{latest.balance_pct:.0f} %"
    job_text = f", a job {disk.jobs[-1].duration_s(0):.2f} s" if disk.jobs else ""
    return f"{disk.name} {balance_text}{job_text}"


def _alert_headline(alert: Alert) -> str:
    """The title without the region: here all volumes are in one."""
    return format_title(alert).removesuffix(f" ({alert.volume['region']})")


def print_summary(console: Console, incident_run: IncidentRun) -> None:
    """What was measured before, in and after, and what the watchdog was good for."""
    unwatched, watched = incident_run.disks
    job_title = _JOB_KIND_TITLES[incident_run.job_kind]
    rows = [(job_title, *(_TITLES[disk.name] for disk in incident_run.disks))]
    rows += [("bucket empty", *(_format_time(incident_run, disk.empty_at_s) for disk in incident_run.disks))]
    rows += [
        (
            "flipped",
            *(
                _format_time(incident_run, disk.flip.requested_at_s if disk.flip else None)
                for disk in incident_run.disks
            ),
        )
    ]
    for phase in PHASES:
        rows.append(
            (
                f"a job, {_PHASE_TITLES[phase]}",
                *(_describe_job_durations(disk, phase) for disk in incident_run.disks),
            )
        )
    for phase in PHASES:
        rows.append(
            (
                f"ddprobe, {_PHASE_TITLES[phase]}",
                *(_describe_probe_durations(disk, phase) for disk in incident_run.disks),
            )
        )
    console.print()
    for label, *cells in rows:
        console.print(Text(f"{label:<24}" + "".join(f"{cell:<28}" for cell in cells).rstrip()))
    console.print()
    worst = max(unwatched.readings_in("in"), key=lambda reading: reading.total_s)
    print_wrapped(console, f"Left alone, at the worst, ddprobe said {_describe_reading(worst)}.")
    if watched.empty_at_s is None and watched.flip is not None:
        lead_s = (unwatched.empty_at_s or 0) - watched.flip.requested_at_s
        lead_min = lead_s * incident_run.time_scale.speed / 60
        print_wrapped(
            console,
            f"Watched, it was flipped {lead_s:.1f} s ({lead_min:.0f} min of its time)"
            f" before the other became empty; its slowest job took {watched.slowest_job_s:.2f} s.",
        )


def _format_time(incident_run: IncidentRun, at_s: float | None) -> str:
    return "never" if at_s is None else f"at {at_s - incident_run.started_at_s:.1f} s"


def _describe_job_durations(disk: DiskUnderTest, phase: str) -> str:
    durations_s, durations_before_s = disk.job_durations_s(phase), disk.job_durations_s("before")
    if not durations_s:
        return "-"
    factor = median(durations_s) / median(durations_before_s) if durations_before_s else 1.0
    return f"{median(durations_s):.2f} s" + (f", {factor:.0f} times" if factor >= _SLOW_FACTOR else "")


def _describe_probe_durations(disk: DiskUnderTest, phase: str) -> str:
    readings = disk.readings_in(phase)
    if not readings:
        return "-"
    worst = max(readings, key=lambda reading: reading.total_s)
    return f"{median([reading.total_s for reading in readings]):.2f} s, {worst.verdict}"

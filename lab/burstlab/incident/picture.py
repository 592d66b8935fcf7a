"""The picture of the incident: both disks on one clock, from what a job takes down to what ddprobe says."""

from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from burstlab.disk.live_view import mean_iops_per_second
from burstlab.incident.probe import Reading
from burstlab.incident.run import PHASES, SIZE_GIB, DiskUnderTest, IncidentRun, median_or_none
from burstwatch.core.ebs.volume import BURST_IOPS, baseline_iops
from burstwatch.core.text import sanitise

INK: Final = "#1b1f24"
FAINT: Final = "#6b7480"
BALANCE: Final = "#1f6fb2"
SERVED: Final = "#14532d"
EMPTY: Final = "#c62828"
TARGET: Final = "#2e7d32"
MODIFYING: Final = "#7fa983"
WARN: Final = "#b8650f"

_TITLES: Final = {"alone": "No watchdog until it has happened", "watched": "With the watchdog"}
_WARN_S, _CRIT_S = 1.0, 5.0
_VERDICT_MARKERS: Final = {
    "ok": ("o", TARGET),
    "warn": ("D", WARN),
    "crit": ("X", EMPTY),
    "unknown": ("s", FAINT),
}
_DURATION_TICKS_S: Final = (0.01, 0.1, 1.0, 10.0, 100.0)
_DURATION_LIMITS_S: Final = (0.005, 150.0)
_MIN_DRAWN_S: Final = 0.008
"""Drawn no lower, so that no mark is cut by the axis."""
# layout: a label further to the right would leave the panel
_MAX_LABEL_POSITION: Final = 0.95
_SHOWN_TASKS: Final = 3
_MAX_NAME_CHARS: Final = 38
_PANEL_WIDTH_CHARS: Final = 76
"""Letters of a name that fit the whole width of a panel; a band has its share of them."""
_LABEL_BOX: Final = {"fc": "white", "ec": "none", "alpha": 0.85, "pad": 1.5}
"""Behind a label, where there may be a hatch."""


def draw(incident_run: IncidentRun, path: Path) -> None:
    """Write the picture as a PNG."""
    with mpl.rc_context({"font.size": 9.5, "axes.linewidth": 0.6, "hatch.linewidth": 0.7}):
        figure = Figure(figsize=(11.5, 9.2), dpi=120, facecolor="white")
        panels = figure.subplots(4, 2, sharex=True, sharey="row", height_ratios=(1.15, 1, 0.8, 1.15))
        figure.subplots_adjust(left=0.085, right=0.985, top=0.835, bottom=0.115, hspace=0.14, wspace=0.04)
        _draw_header(figure, incident_run)
        for column, disk in enumerate(incident_run.disks):
            axes = panels[:, column]
            axes[0].set_title(_TITLES[disk.name], fontsize=12.5, weight="bold", color=INK, loc="left")
            for panel in axes:
                _style_axes(panel, incident_run, disk)
            _draw_jobs(axes[0], incident_run, disk)
            _draw_iops(axes[1], incident_run, disk)
            _draw_balance(axes[2], incident_run, disk)
            _draw_probe(axes[3], incident_run, disk)
            axes[3].set_xlabel(
                f"seconds; each is {incident_run.time_scale.speed / 60:g} min of the volume's time", color=INK
            )
        for axes, label in zip(
            panels[:, 0], ("a job takes", "IOPS", "burst balance", "ddprobe's dd takes"), strict=True
        ):
            axes.set_ylabel(label, color=INK, fontsize=10.5)
        _draw_legend(figure)
        figure.savefig(path, pil_kwargs={"optimize": True})


def _draw_header(figure: Any, incident_run: IncidentRun) -> None:
    unwatched, watched = incident_run.disks
    median_before_s, median_empty_s, median_after_s = (
        median_or_none(unwatched.job_durations_s(phase)) or 0.0 for phase in PHASES
    )
    worst = max(unwatched.readings_in("in"), key=lambda reading: reading.total_s)
    factor_text = f"{median_empty_s / median_before_s:.0f} times as long"
    headline = (
        f"The bucket empties, and a job takes {median_empty_s:.1f} s instead of {median_before_s:.2f} s:"
        f" {factor_text}"
    )
    probe_text = (
        f"ddprobe says {worst.verdict.upper()}: {worst.total_s:.1f} s, {worst.blocked_tasks} tasks in state"
        f" D. After the flip a job takes {median_after_s:.2f} s."
    )
    if watched.empty_at_s is None:
        probe_text += f" Watched, the slowest took {watched.slowest_job_s:.2f} s."
    setup_text = (
        f"Two real loop devices ({incident_run.backend}), each limited by the bucket of a {SIZE_GIB} GiB gp2"
        f" volume of {incident_run.time_scale.real_credits:,.0f} operations; AWS is the lab."
    )
    for y, text, style in (
        (0.970, headline, {"fontsize": 14.5, "weight": "bold", "color": INK}),
        (0.936, probe_text, {"fontsize": 11, "color": INK}),
        (0.908, setup_text, {"fontsize": 9.5, "color": FAINT}),
    ):
        figure.text(0.012, y, text, va="center", **style)


def _style_axes(axes: Any, incident_run: IncidentRun, disk: DiskUnderTest) -> None:
    end_s = incident_run.elapsed_s
    axes.set_xlim(0, end_s)
    axes.grid(axis="x", color="#dfe3e8", lw=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=2, labelcolor=FAINT, labelsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    flip = disk.flip
    requested_at_s = flip.requested_at_s - incident_run.started_at_s if flip else end_s
    reached_at_s = flip.reached_at_s - incident_run.started_at_s if flip and flip.reached_at_s else end_s
    if disk.empty_at_s is not None:
        axes.axvspan(
            disk.empty_at_s - incident_run.started_at_s,
            requested_at_s,
            fc="#fae3e3",
            ec="#dfa0a0",
            hatch="xx",
            lw=0,
            zorder=0,
        )
    axes.axvspan(requested_at_s, reached_at_s, fc="white", ec=MODIFYING, hatch="....", lw=0, zorder=0)
    axes.axvspan(reached_at_s, end_s, color=TARGET, alpha=0.13, lw=0, zorder=0)
    if flip:
        axes.axvline(requested_at_s, color=TARGET, lw=1.6)


def _draw_jobs(axes: Any, incident_run: IncidentRun, disk: DiskUnderTest) -> None:
    _style_duration_axis(axes)
    for job in disk.jobs:
        assert job.ended_at_s is not None
        duration_s, start_s = job.ended_at_s - job.started_at_s, job.started_at_s - incident_run.started_at_s
        axes.plot(
            [start_s, start_s + duration_s], [duration_s] * 2, color=INK, lw=2.4, solid_capstyle="round"
        )
    for phase in PHASES:
        _annotate_median(axes, incident_run, disk, phase)
    if disk.flip:
        at_s = disk.flip.requested_at_s - incident_run.started_at_s
        is_late = at_s > incident_run.elapsed_s / 2
        axes.annotate(
            f"flipped to {disk.flip.target}",
            (at_s, _DURATION_LIMITS_S[1]),
            xytext=(-6 if is_late else 6, -4),
            textcoords="offset points",
            ha="right" if is_late else "left",
            va="top",
            color=TARGET,
            fontsize=10.5,
            weight="bold",
            bbox=_LABEL_BOX,
        )


def _annotate_median(axes: Any, incident_run: IncidentRun, disk: DiskUnderTest, phase: str) -> None:
    jobs = [
        job
        for job in disk.jobs
        if job.ended_at_s and disk.phase_of(job.started_at_s, job.ended_at_s) == phase
    ]
    if not jobs:
        return
    median_s = median_or_none([job.duration_s(0) for job in jobs]) or 0.0
    at_s = (jobs[0].started_at_s + (jobs[-1].ended_at_s or 0)) / 2 - incident_run.started_at_s
    is_slow = phase == "in"
    axes.annotate(
        f"{median_s:.2f} s" if median_s < 1 else f"{median_s:.1f} s",
        (min(at_s, incident_run.elapsed_s * _MAX_LABEL_POSITION), median_s),
        xytext=(0, -8 if is_slow else 8),
        textcoords="offset points",
        ha="center",
        va="top" if is_slow else "bottom",
        fontsize=11.5,
        weight="bold",
        color=EMPTY if is_slow else INK,
        bbox=_LABEL_BOX if is_slow else None,
    )


def _style_duration_axis(axes: Any) -> None:
    axes.set_yscale("log")
    axes.set_ylim(*_DURATION_LIMITS_S)
    axes.set_yticks(_DURATION_TICKS_S)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} s"))
    axes.grid(axis="y", color="#eceff3", lw=0.6)


def _draw_iops(axes: Any, incident_run: IncidentRun, disk: DiskUnderTest) -> None:
    snapshots = disk.simulated_disk.controller.snapshots
    rates = mean_iops_per_second(snapshots)[:-1]  # the last second is not over
    seconds = [snapshots[0].at_s - incident_run.started_at_s + number for number in range(len(rates))]
    axes.step(seconds, rates, where="post", color=SERVED, lw=1.4)
    axes.fill_between(seconds, rates, step="post", color=SERVED, alpha=0.15, lw=0)
    times_s = [snapshot.at_s - incident_run.started_at_s for snapshot in snapshots]
    axes.plot(times_s, [snapshot.limit_iops for snapshot in snapshots], color=EMPTY, lw=1.2, ls=(0, (3, 1.5)))
    baseline = incident_run.time_scale.real_iops(baseline_iops(SIZE_GIB))
    axes.set_ylim(0, 1.12 * incident_run.time_scale.real_iops(BURST_IOPS))
    axes.set_yticks([baseline, 1_000, 2_000, 3_000], [f"{baseline:,.0f}", "1,000", "2,000", "3,000"])


def _draw_balance(axes: Any, incident_run: IncidentRun, disk: DiskUnderTest) -> None:
    snapshots = disk.simulated_disk.controller.snapshots
    times_s = [snapshot.at_s - incident_run.started_at_s for snapshot in snapshots]
    values = [
        float("nan") if snapshot_with_balance.balance_pct is None else snapshot_with_balance.balance_pct
        for snapshot_with_balance in snapshots
    ]
    axes.plot(times_s, values, color=BALANCE, lw=1.8)
    axes.fill_between(times_s, values, color=BALANCE, alpha=0.2, lw=0)
    axes.set_ylim(0, 108)
    axes.set_yticks([0, 50, 100], ["0 %", "50 %", "100 %"])
    if disk.empty_at_s is not None:
        at_s = disk.empty_at_s - incident_run.started_at_s
        axes.annotate(
            f"empty at {at_s:.0f} s",
            (at_s, 4),
            xytext=(6, 8),
            textcoords="offset points",
            color=EMPTY,
            weight="bold",
            bbox=_LABEL_BOX,
        )


def _draw_probe(axes: Any, incident_run: IncidentRun, disk: DiskUnderTest) -> None:
    _style_duration_axis(axes)
    for threshold_s, color in ((_WARN_S, WARN), (_CRIT_S, EMPTY)):
        axes.axhline(threshold_s, color=color, lw=0.9, ls=":")
    for reading in disk.readings:
        marker, color = _VERDICT_MARKERS[reading.verdict]
        start_s, duration_s = (
            reading.started_at_s - incident_run.started_at_s,
            max(reading.total_s, _MIN_DRAWN_S),
        )
        axes.plot(
            [start_s, reading.ended_at_s - incident_run.started_at_s], [duration_s] * 2, color=color, lw=1.6
        )
        axes.plot(start_s, duration_s, marker=marker, color=color, ms=7, mec="white", mew=0.6, clip_on=False)
    worst = max(disk.readings_in("in"), key=lambda reading_in_phase: reading_in_phase.total_s, default=None)
    if worst is not None and disk.empty_at_s is not None and disk.flip is not None:
        width_fraction = (disk.flip.requested_at_s - disk.empty_at_s) / incident_run.elapsed_s
        axes.text(
            (disk.empty_at_s + disk.flip.requested_at_s) / 2 - incident_run.started_at_s,
            _DURATION_LIMITS_S[0] * 1.2,
            _describe_tasks(worst, min(_MAX_NAME_CHARS, round(_PANEL_WIDTH_CHARS * width_fraction))),
            ha="center",
            va="bottom",
            fontsize=8.4,
            color=EMPTY,
            linespacing=1.25,
            bbox=_LABEL_BOX,
            zorder=1,  # below the readings
            clip_on=True,
        )


def _describe_tasks(reading: Reading, max_chars: int) -> str:
    lines = [
        sanitise(f"{count} {comm} [{wchan}]", max_chars)
        for comm, wchan, count in reading.tasks[:_SHOWN_TASKS]
    ]
    return "\n".join(
        [f"{reading.total_s:.1f} s, {reading.cause}", f"{reading.blocked_tasks} tasks in state D:", *lines]
    )


def _draw_legend(figure: Any) -> None:
    handles = [
        Line2D([], [], color=INK, lw=2.4, label="a job, from start to end"),
        Line2D([], [], color=SERVED, lw=1.4, label="IOPS served"),
        Line2D([], [], color=EMPTY, lw=1.2, ls=(0, (3, 1.5)), label="the device's limit"),
        Line2D([], [], color=BALANCE, lw=1.8, label="burst balance"),
        Patch(fc="#fae3e3", ec="#dfa0a0", hatch="xx", lw=0, label="bucket empty"),
        Line2D([], [], color=TARGET, lw=1.6, label="flipped (ModifyVolume)"),
        Patch(fc="white", ec=MODIFYING, hatch="....", lw=0, label="modification under way"),
        Patch(fc=TARGET, alpha=0.13, label="on its target"),
        *(
            Line2D([], [], marker=marker, color=color, ms=7, mec="white", lw=0, label=f"ddprobe: {verdict}")
            for verdict, (marker, color) in list(_VERDICT_MARKERS.items())[:3]
        ),
    ]
    figure.legend(
        handles=handles, loc="lower center", ncols=6, frameon=False, fontsize=9.5, columnspacing=1.4
    )

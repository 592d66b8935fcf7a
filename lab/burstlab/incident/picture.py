"""The picture of the incident: both disks on one clock, from what a job takes down to what ddprobe says."""

from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from burstlab.disk.live_view import per_second
from burstlab.incident.probe import Reading
from burstlab.incident.run import PARTS, SIZE_GIB, Stage, Twin, middle
from burstwatch.core.ebs.volume import BURST_IOPS, baseline_iops
from burstwatch.core.text import printable

INK: Final = "#1b1f24"
FAINT: Final = "#6b7480"
BALANCE: Final = "#1f6fb2"
SERVED: Final = "#14532d"
DRY: Final = "#c62828"
TARGET: Final = "#2e7d32"
UNDER_WAY: Final = "#7fa983"
WARN: Final = "#b8650f"

_TITLES: Final = {"alone": "Nobody watches, until it has happened", "watched": "The watchdog watches"}
_WARN_S, _CRIT_S = 1.0, 5.0
_MARKS: Final = {"ok": ("o", TARGET), "warn": ("D", WARN), "crit": ("X", DRY), "unknown": ("s", FAINT)}
_TIMES: Final = (0.01, 0.1, 1.0, 10.0, 100.0)
_LIMITS_S: Final = (0.005, 150.0)
_LEAST_S: Final = 0.008
"""Drawn no lower, so that no mark is cut by the axis."""
_NEAR_END: Final = 0.95
_NAMED: Final = 3
_NAME: Final = 38
_NAME_IN_FULL_WIDTH: Final = 76
"""Letters of a name that fit the whole width of a panel; a band has its share of them."""
_ON_WHITE: Final = {"fc": "white", "ec": "none", "alpha": 0.85, "pad": 1.5}
"""Behind a label, where there may be a hatch."""


def draw(stage: Stage, path: Path) -> None:
    """Write the picture as a PNG."""
    with mpl.rc_context({"font.size": 9.5, "axes.linewidth": 0.6, "hatch.linewidth": 0.7}):
        figure = Figure(figsize=(11.5, 9.2), dpi=120, facecolor="white")
        panels = figure.subplots(4, 2, sharex=True, sharey="row", height_ratios=(1.15, 1, 0.8, 1.15))
        figure.subplots_adjust(left=0.085, right=0.985, top=0.835, bottom=0.115, hspace=0.14, wspace=0.04)
        _draw_header(figure, stage)
        for column, twin in enumerate(stage.twins):
            axes = panels[:, column]
            axes[0].set_title(_TITLES[twin.name], fontsize=12.5, weight="bold", color=INK, loc="left")
            for each in axes:
                _dress(each, stage, twin)
            _draw_jobs(axes[0], stage, twin)
            _draw_iops(axes[1], stage, twin)
            _draw_balance(axes[2], stage, twin)
            _draw_probe(axes[3], stage, twin)
            axes[3].set_xlabel(
                f"seconds; each is {stage.lapse.speed / 60:g} min of the volume's time", color=INK
            )
        for axes, label in zip(
            panels[:, 0], ("a job takes", "IOPS", "burst balance", "ddprobe's dd takes"), strict=True
        ):
            axes.set_ylabel(label, color=INK, fontsize=10.5)
        _draw_legend(figure)
        figure.savefig(path, pil_kwargs={"optimize": True})


def _draw_header(figure: Any, stage: Stage) -> None:
    alone, watched = stage.twins
    usual, slow, after = (middle(alone.jobs_of(part)) or 0.0 for part in PARTS)
    worst = max(alone.readings_of("in"), key=lambda each: each.total_s)
    times = f"{slow / usual:.0f} times as long"
    first = f"The bucket empties, and a job takes {slow:.1f} s instead of {usual:.2f} s: {times}"
    second = (
        f"ddprobe says {worst.verdict.upper()}: {worst.total_s:.1f} s, {worst.blocked} tasks in state D."
        f" After the flip a job takes {after:.2f} s."
    )
    if watched.dry_s is None:
        second += f" Watched, the slowest took {watched.slowest_s:.2f} s."
    third = (
        f"Two real loop devices ({stage.backend}), each limited by the bucket of a {SIZE_GIB} GiB gp2 volume"
        f" of {stage.lapse.real_credits:,.0f} operations; AWS is the lab."
    )
    for y, text, style in (
        (0.970, first, {"fontsize": 14.5, "weight": "bold", "color": INK}),
        (0.936, second, {"fontsize": 11, "color": INK}),
        (0.908, third, {"fontsize": 9.5, "color": FAINT}),
    ):
        figure.text(0.012, y, text, va="center", **style)


def _dress(axes: Any, stage: Stage, twin: Twin) -> None:
    end_s = stage.passed_s
    axes.set_xlim(0, end_s)
    axes.grid(axis="x", color="#dfe3e8", lw=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=2, labelcolor=FAINT, labelsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    flip = twin.flip
    asked_s = flip.asked_s - stage.began_s if flip else end_s
    reached_s = flip.reached_s - stage.began_s if flip and flip.reached_s else end_s
    if twin.dry_s is not None:
        axes.axvspan(
            twin.dry_s - stage.began_s, asked_s, fc="#fae3e3", ec="#dfa0a0", hatch="xx", lw=0, zorder=0
        )
    axes.axvspan(asked_s, reached_s, fc="white", ec=UNDER_WAY, hatch="....", lw=0, zorder=0)
    axes.axvspan(reached_s, end_s, color=TARGET, alpha=0.13, lw=0, zorder=0)
    if flip:
        axes.axvline(asked_s, color=TARGET, lw=1.6)


def _draw_jobs(axes: Any, stage: Stage, twin: Twin) -> None:
    _seconds_axis(axes)
    for job in twin.jobs:
        assert job.ended_s is not None
        took_s, start_s = job.ended_s - job.started_s, job.started_s - stage.began_s
        axes.plot([start_s, start_s + took_s], [took_s] * 2, color=INK, lw=2.4, solid_capstyle="round")
    for part in PARTS:
        _note_median(axes, stage, twin, part)
    if twin.flip:
        at_s = twin.flip.asked_s - stage.began_s
        is_late = at_s > stage.passed_s / 2
        axes.annotate(
            f"flipped to {twin.flip.target}",
            (at_s, _LIMITS_S[1]),
            xytext=(-6 if is_late else 6, -4),
            textcoords="offset points",
            ha="right" if is_late else "left",
            va="top",
            color=TARGET,
            fontsize=10.5,
            weight="bold",
            bbox=_ON_WHITE,
        )


def _note_median(axes: Any, stage: Stage, twin: Twin, part: str) -> None:
    jobs = [job for job in twin.jobs if job.ended_s and twin.part_of(job.started_s, job.ended_s) == part]
    if not jobs:
        return
    took_s = middle([job.took_s(0) for job in jobs]) or 0.0
    at_s = (jobs[0].started_s + (jobs[-1].ended_s or 0)) / 2 - stage.began_s
    is_slow = part == "in"
    axes.annotate(
        f"{took_s:.2f} s" if took_s < 1 else f"{took_s:.1f} s",
        (min(at_s, stage.passed_s * _NEAR_END), took_s),
        xytext=(0, -8 if is_slow else 8),
        textcoords="offset points",
        ha="center",
        va="top" if is_slow else "bottom",
        fontsize=11.5,
        weight="bold",
        color=DRY if is_slow else INK,
        bbox=_ON_WHITE if is_slow else None,
    )


def _seconds_axis(axes: Any) -> None:
    axes.set_yscale("log")
    axes.set_ylim(*_LIMITS_S)
    axes.set_yticks(_TIMES)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} s"))
    axes.grid(axis="y", color="#eceff3", lw=0.6)


def _draw_iops(axes: Any, stage: Stage, twin: Twin) -> None:
    instants = twin.box.governor.instants
    rates = per_second(instants)[:-1]  # the last second is not over
    seconds = [instants[0].at_s - stage.began_s + number for number in range(len(rates))]
    axes.step(seconds, rates, where="post", color=SERVED, lw=1.4)
    axes.fill_between(seconds, rates, step="post", color=SERVED, alpha=0.15, lw=0)
    at = [instant.at_s - stage.began_s for instant in instants]
    axes.plot(at, [instant.limit_iops for instant in instants], color=DRY, lw=1.2, ls=(0, (3, 1.5)))
    base = stage.lapse.real_iops(baseline_iops(SIZE_GIB))
    axes.set_ylim(0, 1.12 * stage.lapse.real_iops(BURST_IOPS))
    axes.set_yticks([base, 1_000, 2_000, 3_000], [f"{base:,.0f}", "1,000", "2,000", "3,000"])


def _draw_balance(axes: Any, stage: Stage, twin: Twin) -> None:
    instants = twin.box.governor.instants
    at = [instant.at_s - stage.began_s for instant in instants]
    values = [float("nan") if each.balance_pct is None else each.balance_pct for each in instants]
    axes.plot(at, values, color=BALANCE, lw=1.8)
    axes.fill_between(at, values, color=BALANCE, alpha=0.2, lw=0)
    axes.set_ylim(0, 108)
    axes.set_yticks([0, 50, 100], ["0 %", "50 %", "100 %"])
    if twin.dry_s is not None:
        at_s = twin.dry_s - stage.began_s
        axes.annotate(
            f"empty at {at_s:.0f} s",
            (at_s, 4),
            xytext=(6, 8),
            textcoords="offset points",
            color=DRY,
            weight="bold",
            bbox=_ON_WHITE,
        )


def _draw_probe(axes: Any, stage: Stage, twin: Twin) -> None:
    _seconds_axis(axes)
    for line_s, color in ((_WARN_S, WARN), (_CRIT_S, DRY)):
        axes.axhline(line_s, color=color, lw=0.9, ls=":")
    for reading in twin.readings:
        marker, color = _MARKS[reading.verdict]
        start_s, took_s = reading.started_s - stage.began_s, max(reading.total_s, _LEAST_S)
        axes.plot([start_s, reading.ended_s - stage.began_s], [took_s] * 2, color=color, lw=1.6)
        axes.plot(start_s, took_s, marker=marker, color=color, ms=7, mec="white", mew=0.6, clip_on=False)
    worst = max(twin.readings_of("in"), key=lambda each: each.total_s, default=None)
    if worst is not None and twin.dry_s is not None and twin.flip is not None:
        share = (twin.flip.asked_s - twin.dry_s) / stage.passed_s
        axes.text(
            (twin.dry_s + twin.flip.asked_s) / 2 - stage.began_s,
            _LIMITS_S[0] * 1.2,
            _names(worst, min(_NAME, round(_NAME_IN_FULL_WIDTH * share))),
            ha="center",
            va="bottom",
            fontsize=8.4,
            color=DRY,
            linespacing=1.25,
            bbox=_ON_WHITE,
            zorder=1,  # below the readings
            clip_on=True,
        )


def _names(reading: Reading, letters: int) -> str:
    lines = [printable(f"{count} {comm} [{wchan}]", letters) for comm, wchan, count in reading.tasks[:_NAMED]]
    return "\n".join(
        [f"{reading.total_s:.1f} s, {reading.cause}", f"{reading.blocked} tasks in state D:", *lines]
    )


def _draw_legend(figure: Any) -> None:
    handles = [
        Line2D([], [], color=INK, lw=2.4, label="a job, from start to end"),
        Line2D([], [], color=SERVED, lw=1.4, label="IOPS served"),
        Line2D([], [], color=DRY, lw=1.2, ls=(0, (3, 1.5)), label="the device's limit"),
        Line2D([], [], color=BALANCE, lw=1.8, label="burst balance"),
        Patch(fc="#fae3e3", ec="#dfa0a0", hatch="xx", lw=0, label="bucket empty"),
        Line2D([], [], color=TARGET, lw=1.6, label="flipped (ModifyVolume)"),
        Patch(fc="white", ec=UNDER_WAY, hatch="....", lw=0, label="modification under way"),
        Patch(fc=TARGET, alpha=0.13, label="on its target"),
        *(
            Line2D([], [], marker=marker, color=color, ms=7, mec="white", lw=0, label=f"ddprobe: {verdict}")
            for verdict, (marker, color) in list(_MARKS.items())[:3]
        ),
    ]
    figure.legend(
        handles=handles, loc="lower center", ncols=6, frameon=False, fontsize=9.5, columnspacing=1.4
    )

"""A simulation as PNG or SVG, with matplotlib: both balances of the type, and the load against its limits.

Patterns say what colours say, so the picture reads in grey.
"""

import warnings
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import matplotlib as mpl
from matplotlib import dates as mdates
from matplotlib.figure import Figure

from burstctl.plot.matplotlib_plot import (
    BALANCE,
    EMPTY,
    FAINT,
    FORECAST,
    GRID,
    INK,
    RC_PARAMS,
    WRITES,
    render_figure,
    replace_unknown_characters,
)
from burstctl.simulate.collect import SimulationReport
from burstctl.simulate.simulation import InstanceBucket, LoadInterval
from burstctl.simulate.study import TypeStudy
from burstctl.simulate.text import describe_answer, describe_subject

_SIZE_INCHES: Final = (11.5, 6.6)
_MAX_POINTS: Final = 1_500  # about one for each dot of the axes
_COLOURS: Final = {InstanceBucket.IO: BALANCE, InstanceBucket.THROUGHPUT: FORECAST}
_DASHES: Final = {InstanceBucket.IO: "-", InstanceBucket.THROUGHPUT: (0, (5, 1.5))}
_TITLES: Final = {InstanceBucket.IO: "LOAD, IOPS", InstanceBucket.THROUGHPUT: "LOAD, MiB/s"}


def draw(report: SimulationReport, kind: str) -> bytes:
    """The picture as the bytes of a file, ``png`` or ``svg``; the same values give the same bytes."""
    with mpl.rc_context(RC_PARAMS), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        subject, study = describe_subject(report), report.study
        answer = describe_answer(study)
        return render_figure(_draw_figure(report, subject, answer), kind, f"{subject}. {answer}")


def _draw_figure(report: SimulationReport, subject: str, answer: str) -> Figure:
    study = report.study
    figure = Figure(figsize=_SIZE_INCHES, facecolor="white")
    lines = ((0.965, subject, {"fontsize": 11.5, "weight": "bold"}), (0.93, answer, {"fontsize": 11}))
    for height, text, style in lines:
        figure.text(0.06, height, replace_unknown_characters(text), va="center", color=INK, **style)
    axes = figure.subplots(
        3,
        1,
        sharex=True,
        gridspec_kw={
            "height_ratios": [1.5, 1, 1],
            "left": 0.06,
            "right": 0.9,
            "top": 0.87,
            "bottom": 0.06,
            "hspace": 0.3,
        },
    )
    for panel in axes:
        _style(panel)
        for spell in study.target.result.spells:
            panel.axvspan(
                _time(spell.start_s), _time(spell.end_s), fc="#fae3e3", ec="#d08a84", hatch="xx", lw=0.6
            )
    load = study.inputs.load
    _draw_balances(axes[0], study.target, load)
    for panel, bucket in zip(axes[1:], InstanceBucket, strict=True):
        _draw_load(panel, bucket, study.target, load)
    axes[0].set_xlim(_time(study.start_s), _time(study.end_s))
    locator = mdates.AutoDateLocator(tz=UTC, minticks=5, maxticks=12)
    axes[-1].xaxis.set_major_locator(locator)
    formatter = mdates.ConciseDateFormatter(
        locator,
        tz=UTC,
        formats=["%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%S"],
        zero_formats=["", "%b", "%d %b", "%d %b", "%H:%M", "%H:%M"],
        show_offset=False,
    )
    axes[-1].xaxis.set_major_formatter(formatter)
    axes[-1].annotate(
        "UTC",
        (1, 0),
        xycoords="axes fraction",
        xytext=(8, -12),
        textcoords="offset points",
        fontsize=8.5,
        color=FAINT,
    )
    return figure


def _draw_balances(panel: Any, target: TypeStudy, load: Sequence[LoadInterval]) -> None:
    panel.set_ylim(0, 104)
    panel.set_yticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
    for kind in InstanceBucket:
        balances = target.result.of(kind).balances_pct
        if not balances:
            continue
        for piece in _contiguous(load):
            step = -(-len(piece) // _MAX_POINTS)
            times = [_time(load[index].end_s) for index in piece[::step]]
            values = [min(balances[first : first + step]) for first in piece[::step]]
            panel.plot(times, values, color=_COLOURS[kind], ls=_DASHES[kind], lw=1.5, label="_")
        panel.plot([], [], color=_COLOURS[kind], ls=_DASHES[kind], lw=1.5, label=f"{kind.label} bucket")
    panel.fill([], [], fc="#fae3e3", ec="#d08a84", hatch="xx", lw=0.6, label="empty")
    panel.set_title(f"BALANCE ON {target.name}", loc="left", fontsize=9, weight="bold", color=INK)
    panel.legend(
        loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, fontsize=8.5, labelcolor=FAINT
    )


def _draw_load(panel: Any, kind: InstanceBucket, target: TypeStudy, load: Sequence[LoadInterval]) -> None:
    for piece in _contiguous(load):
        step = -(-len(piece) // _MAX_POINTS)
        chosen = [load[first : first + step] for first in piece[::step]]
        times = [_time(group[0].start_s) for group in chosen] + [_time(load[piece[-1]].end_s)]
        values = [max(interval.rate(kind) for interval in group) for group in chosen]
        panel.fill_between(times, [*values, values[-1]], step="post", fc=WRITES, lw=0)
    bucket = target.buckets.of(kind)
    top = 1.1 * max([bucket.refill_per_s, *(interval.rate(kind) for interval in load)])
    panel.set_ylim(0, top)
    panel.set_title(_TITLES[kind], loc="left", fontsize=9, weight="bold", color=INK)
    panel.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:,.0f}"))
    for name, value, dashes in (
        ("sustained", bucket.refill_per_s, "-"),
        ("at most", bucket.burst_per_s, (0, (5, 2))),
    ):
        if value <= top:
            panel.axhline(value, color=EMPTY, lw=1.1, ls=dashes)
            panel.annotate(
                f"{name} {value:,.0f}", (1, value), xycoords=("axes fraction", "data"), xytext=(6, 0),
                textcoords="offset points", va="center", fontsize=8.5, color=EMPTY,
            )  # fmt: skip


def _contiguous(load: Sequence[LoadInterval]) -> Iterator[list[int]]:
    """The indices of intervals without a hole between them."""
    piece = [0]
    for index, (earlier, later) in enumerate(pairwise(load), start=1):
        if later.start_s > earlier.end_s:
            yield piece
            piece = []
        piece.append(index)
    yield piece


def _style(panel: Any) -> None:
    panel.grid(color=GRID, lw=0.6)
    panel.set_axisbelow(True)
    panel.tick_params(bottom=False, left=False, labelsize=8.5, labelcolor=FAINT, pad=3)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)


def _time(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)

"""Every contender on the plane of stalls avoided against cost."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from burstlab.score.aggregate import ActionScore, ScoreSummary
from burstlab.score.job import BURSTWATCH, NO_ACTION, ORACLE

_MARKERS: Final = ("s", "D", "^", "v", "P", "X")
_GREY: Final = "#64748b"
_OWN_STYLE: Final = {
    BURSTWATCH: ("o", "#c2410c", 90),
    ORACLE: ("*", "#111111", 110),
    NO_ACTION: ("x", "#111111", 60),
}
_MIN_PCT: Final = 1e-3
"""Less than this is drawn as none: a logarithm has no zero."""


def draw(summary: ScoreSummary, path: Path) -> None:
    """Write the picture; the kind of file follows from its name."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - it takes half a second, and a table needs none

    figure = Figure(figsize=(11, 5.2), layout="constrained")
    axes = figure.subplots(1, len(summary.acting), squeeze=False)[0]
    for axis, (target, acting) in zip(axes, summary.acting.items(), strict=True):
        _plot(axis, acting)
        axis.set_title(f"flipping to {target}", loc="left", fontsize=10)
        axis.set_xlabel("$ beyond gp2 with watching, for all volumes")
        axis.set_ylabel("avoidable stall that is left")
    figure.suptitle(
        f"{summary.folder}: {summary.cases:,} volumes, {summary.volume_days:,.0f} volume-days;"
        f" without help stalled for {summary.stalled_s / 3600:,.0f} h",
        x=0.01,
        ha="left",
        fontsize=11,
    )
    figure.savefig(path, dpi=130)


def _plot(axis, acting: Sequence[ActionScore]) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - matplotlib has no types
    baselines = [score.contender for score in acting if score.contender not in _OWN_STYLE]
    for score in acting:
        marker, colour, size = _OWN_STYLE.get(score.contender) or (
            _MARKERS[baselines.index(score.contender)],
            _GREY,
            45,
        )
        remaining_pct = max(_MIN_PCT, 100 - (100 if score.avoided_pct is None else score.avoided_pct))
        paid_needless_flips = score.needless_flips - score.needless_free_flips
        flips = f", {score.flips:,} flips, {paid_needless_flips:,} needless" if score.flips else ""
        axis.scatter(
            [score.usd + score.watching_usd],
            [remaining_pct],
            marker=marker,
            color=colour,
            s=size,
            zorder=3,
            label=f"{score.contender}{flips}",
        )
    axis.set_yscale("log")
    axis.set_ylim(_MIN_PCT * 0.8, 250)
    axis.set_yticks([_MIN_PCT, 1e-2, 0.1, 1, 10, 100], ["none", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"])
    axis.axhline(1, color="#94a3b8", linewidth=0.8, linestyle="--")
    axis.margins(x=0.1)
    axis.grid(visible=True, color="#e2e8f0", linewidth=0.6)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=7.5, frameon=False)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)

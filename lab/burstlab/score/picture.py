"""Every contender on the plane of stalls avoided against cost."""

from collections.abc import Sequence
from pathlib import Path

from burstlab.score.figures import Acting, Figures
from burstlab.score.job import NOTHING, ORACLE, OURS

_MARKS = ("s", "D", "^", "v", "P", "X")


def draw(told: Figures, path: Path) -> None:
    """Write the picture; the kind of file follows from its name."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - it takes half a second, and a table needs none

    figure = Figure(figsize=(10, 4.6), layout="constrained")
    axes = figure.subplots(1, len(told.acting), squeeze=False)[0]
    for axis, (target, acting) in zip(axes, told.acting.items(), strict=True):
        _plot(axis, acting)
        axis.set_title(f"flipping to {target}", loc="left", fontsize=10)
        axis.set_xlabel("$ beyond gp2 with watching, for all volumes")
        axis.set_ylabel("stalled seconds left, of those that can be avoided")
    figure.suptitle(
        f"{told.folder}: {told.cases:,} volumes, {told.volume_days:,.0f} volume-days;"
        f" without help stalled for {told.stalled_s / 3600:,.0f} h",
        x=0.01,
        ha="left",
        fontsize=11,
    )
    figure.savefig(path, dpi=130)


def _plot(axis, acting: Sequence[Acting]) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - matplotlib has no types
    rest = [one for one in acting if one.contender not in (OURS, ORACLE, NOTHING)]
    marks = dict(zip([one.contender for one in rest], _MARKS, strict=False))
    for one in acting:
        left_pct = max(1e-3, 100 - (one.avoided_pct if one.avoided_pct is not None else 100))
        usd = one.usd + one.watching_usd
        style = {OURS: ("o", "#c2410c", 90), ORACLE: ("*", "#111111", 110), NOTHING: ("x", "#111111", 60)}
        mark, colour, size = style.get(one.contender, (marks.get(one.contender, "s"), "#64748b", 45))
        axis.scatter([usd], [left_pct], marker=mark, color=colour, s=size, zorder=3)
        axis.annotate(
            f"{one.contender}, {one.needless_flips} needless" if one.flips else one.contender,
            (usd, left_pct),
            textcoords="offset points",
            xytext=(7, 4),
            fontsize=7.5,
            color=colour,
        )
    axis.set_yscale("log")
    axis.set_ylim(8e-4, 250)
    axis.set_yticks([1e-3, 1e-2, 0.1, 1, 10, 100], ["0", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"])
    axis.axhline(1, color="#94a3b8", linewidth=0.8, linestyle="--")
    axis.margins(x=0.3)
    axis.grid(visible=True, color="#e2e8f0", linewidth=0.6)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)

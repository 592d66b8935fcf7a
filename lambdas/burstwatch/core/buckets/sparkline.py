"""The recent history of a balance as one line that can be read with and without its sparkline."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.text import format_instant

GLYPHS: Final = "▁▂▃▅▆▇"
"""From empty to full, without the half and the full block: many fonts draw those two lower or wider."""
GAP_GLYPH: Final = "·"
MAX_POINTS: Final = 16
"""So that the line with its times fits into the 80 columns of a terminal."""
_MIN_POINTS: Final = 4
"""Fewer points show no shape."""


def describe_balance_history(balance: Series) -> dict[str, Any] | None:
    """At most 16 points of a balance, up to its newest sample; None if there are too few for a shape.

    Each point is the newest sample of its step (a whole number of minutes), or None if the step has none.
    """
    newest = balance.newest
    if newest is None:
        return None
    minutes = (newest.start_at_s - balance.starts_at_s[0]) // PERIOD_S + 1
    step_s = -(-minutes // MAX_POINTS) * PERIOD_S
    points: dict[int, float] = {}
    for start_at_s, value in zip(balance.starts_at_s, balance.values, strict=True):
        points[(newest.start_at_s - start_at_s) // step_s] = value
    if len(points) < _MIN_POINTS:
        return None
    oldest = max(points)
    return {
        "first_at": format_instant(newest.end_at_s - oldest * step_s),
        "last_at": format_instant(newest.end_at_s),
        "step_s": step_s,
        "pct": [
            None if (pct := points.get(index)) is None else round(pct, 1) for index in range(oldest, -1, -1)
        ],
    }


def format_balance_history(history: Mapping[str, Any] | None) -> str | None:
    """Format a history: ``Balance from 08:49 to 09:49 UTC: 100.0 % ▇▇▇▇▇▆▅▃▂ 46.0 %``."""
    if not history:
        return None
    pct, (first_at, last_at) = history["pct"], (history[name][11:16] for name in ("first_at", "last_at"))
    return f"Balance from {first_at} to {last_at} UTC: {pct[0]:.1f} % {draw_sparkline(pct)} {pct[-1]:.1f} %"


def draw_sparkline(points: Sequence[float | None]) -> str:
    """One glyph for each point, on a fixed scale from 0 to 100; a gap is a dot."""
    return "".join(GAP_GLYPH if point is None else _glyph(point) for point in points)


def _glyph(pct: float) -> str:
    """One of six glyphs, each for a sixth of the scale."""
    return GLYPHS[max(0, min(len(GLYPHS) - 1, int(pct * len(GLYPHS) / 100)))]

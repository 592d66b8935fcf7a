"""How a balance went lately, in a line that reads with and without its picture."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from burstwatch.core.buckets.series import PERIOD_S, Series
from burstwatch.core.text import format_instant

GLYPHS: Final = "▁▂▃▅▆▇"
"""From empty to full; the half and the full block are left out, as many fonts set them lower or wider."""
GAP_GLYPH: Final = "·"
MAX_POINTS: Final = 16
_MIN_POINTS: Final = 4


def describe_balance_history(balance: Series) -> dict[str, Any] | None:
    """At most 16 points of a balance up to its newest, as alerts carry it; None where there are too few.

    Each is the newest sample of its stretch of minutes, or None where there is none.
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
    """``Balance from 08:49 to 09:49 UTC: 100.0 % ▇▇▇▇▇▆▅▃▂ 46.0 %``; None where there is none."""
    if not history:
        return None
    pct, (first_at, last_at) = history["pct"], (history[name][11:16] for name in ("first_at", "last_at"))
    return f"Balance from {first_at} to {last_at} UTC: {pct[0]:.1f} % {draw_sparkline(pct)} {pct[-1]:.1f} %"


def draw_sparkline(points: Sequence[float | None]) -> str:
    """A glyph to a point, between 0 and 100 whatever the points are; a gap is a dot."""
    return "".join(GAP_GLYPH if point is None else _glyph(point) for point in points)


def _glyph(pct: float) -> str:
    """Six steps of equal height."""
    return GLYPHS[max(0, min(len(GLYPHS) - 1, int(pct * len(GLYPHS) / 100)))]

"""Words of the page: instants, spans, dollars, and what a volume is called in it."""

from datetime import UTC, datetime, timedelta
from typing import Final

from burstctl.render.volume import name_of
from burstctl.report.collect import Reported
from burstwatch.core.watch.decide import Decision

_DAY_S: Final = 86_400
_HOUR_S: Final = 3_600


def instant_words(at_s: float) -> str:
    """``21 Nov 2026, 18:00 UTC``."""
    return f"{datetime.fromtimestamp(at_s, UTC):%d %b %Y, %H:%M} UTC"


def span_words(span: timedelta) -> str:
    """``24 h``, ``90 min``, ``7 days``."""
    seconds = int(span.total_seconds())
    if seconds % _DAY_S == 0 and seconds > _DAY_S:
        return f"{seconds // _DAY_S} days"
    return f"{seconds // _HOUR_S} h" if seconds % _HOUR_S == 0 else f"{seconds // 60} min"


def volumes_words(count: int, adjective: str = "") -> str:
    """``1 volume``, ``3 gp2 volumes``."""
    return f"{count:,} {adjective}volume{'' if count == 1 else 's'}"


def usd_words(dollars: float) -> str:
    """``$1.88``; less than a cent with what there is of it."""
    return f"${dollars:,.2f}" if dollars >= 0.005 or dollars == 0 else f"${dollars:,.4f}"  # noqa: PLR2004 - half a cent


def moment_words(at_s: float) -> str:
    """``21 Nov 18:00``: what stands in lists, where the year and UTC are said once."""
    return f"{datetime.fromtimestamp(at_s, UTC):%d %b %H:%M}"


def id_words(decision: Decision) -> str:
    """The name of the volume, or its id."""
    volume = decision.assessment.volume
    return name_of(volume) or volume.volume_id


def names_of(reported: Reported) -> dict[str, str]:
    """What each volume of the report is called, by its id."""
    return {decision.volume_id: id_words(decision) for decision in reported.decisions}

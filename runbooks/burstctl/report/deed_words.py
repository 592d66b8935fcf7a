"""What was done and refused, newest first, for the page."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from burstctl.report.deeds import Deed, count_deeds
from burstctl.report.gathering import Reported
from burstctl.report.page_words import (
    moment_words,
    names_of,
    span_words,
)
from burstwatch.core.words import format_instant

MOST_DEEDS: Final = 400


def deeds_context(reported: Reported, last: timedelta) -> dict[str, Any]:
    """What the template says of them."""
    deeds, names = reported.deeds, names_of(reported)
    counts = count_deeds(deeds)
    shown = f"the newest {MOST_DEEDS:,} of {len(deeds):,}" if len(deeds) > MOST_DEEDS else f"{len(deeds):,}"
    said = f"{shown} in the last {span_words(last)}, newest first; times are UTC"
    return {
        "deeds": [_deed(deed, names) for deed in deeds[:MOST_DEEDS]],
        "deeds_said": said if deeds else f"The ledger tells of nothing in the last {span_words(last)}.",
        "sorts": [{"sort": sort, "count": f"{count:,}"} for sort, count in counts.items() if count],
    }


def _deed(deed: Deed, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "at": format_instant(deed.at_s),
        "when": moment_words(deed.at_s),
        "sort": str(deed.sort),
        "sort_class": str(deed.sort).replace(" ", "-"),
        "subject": names.get(deed.subject) or deed.subject_words,
        "volume_id": deed.subject if deed.subject in names else None,
        "line": deed.line,
        "details": list(deed.details),
    }

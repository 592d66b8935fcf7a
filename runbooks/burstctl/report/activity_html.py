"""What was done and refused, newest first, for the page."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from burstctl.report.activity import Deed, Sort, count_deeds
from burstctl.report.collect import Reported
from burstctl.report.format import (
    moment_words,
    names_of,
    span_words,
)
from burstwatch.core.text import format_instant

MOST_DEEDS: Final = 400
LEAST_OF_A_SORT: Final = 60
"""So many of each sort are shown, however many of another are newer: alerts must not push out refusals."""


def deeds_context(reported: Reported, last: timedelta) -> dict[str, Any]:
    """What the template says of them."""
    deeds, names = reported.deeds, names_of(reported)
    counts = count_deeds(deeds)
    shown = _shown(deeds)
    said = f"{len(deeds):,} in the last {span_words(last)}, newest first; times are UTC"
    if len(shown) < len(deeds):
        least = f"of each sort {LEAST_OF_A_SORT} at least"
        said = f"{len(shown):,} of {said}: the newest {MOST_DEEDS:,}, and {least}"
    return {
        "deeds": [_deed(deed, names) for deed in shown],
        "deeds_said": said if deeds else f"The ledger tells of nothing in the last {span_words(last)}.",
        "sorts": [{"sort": sort, "count": f"{count:,}"} for sort, count in counts.items() if count],
    }


def _shown(deeds: Sequence[Deed]) -> list[Deed]:
    """The newest of all, and the newest of each sort; in their order."""
    seen: Counter[Sort] = Counter()
    shown = []
    for number, deed in enumerate(deeds):
        seen[deed.sort] += 1
        if number < MOST_DEEDS or seen[deed.sort] <= LEAST_OF_A_SORT:
            shown.append(deed)
    return shown


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

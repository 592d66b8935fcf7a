"""What the windows ask of each volume at one moment."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

from burstwatch.core.alerts.alert import Alert, AlertKind, alert_id, runbook_link
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.flip_state import WindowMark
from burstwatch.core.ledger.ledger import Change, EntryKind, LedgerEntry
from burstwatch.core.location import Place
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.windows import (
    UNTIL_STOPPED,
    ByHand,
    Occurrence,
    Phase,
    WindowState,
    expected_flip,
    flip_lead,
    window_state,
    windows_of,
)
from burstwatch.core.text import format_instant, format_time, format_when

_MOST_LISTED = 100
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Outlook:
    """The windows of a policy and those started or stopped by hand, at ``now``.

    A state is worked out once for all volumes of the same windows and size.
    """

    policy: Policy
    now: datetime
    by_hand: ByHand
    stopped: Mapping[str, datetime]
    unknown: frozenset[str] = frozenset()
    _known: dict[tuple[frozenset[str], int], WindowState] = field(default_factory=dict)

    @classmethod
    def at(cls, now_s: float, policy: Policy, marks: Iterable[WindowMark]) -> Self:
        """The outlook of a pass."""
        told = list(marks)
        known = [mark for mark in told if mark.is_known]
        unknown = frozenset(mark.name for mark in told if not mark.is_known)
        by_hand = {
            mark.name: (_instant(mark.at_s), None if mark.until_s is None else _instant(mark.until_s))
            for mark in known
            if mark.starts
        }
        stopped = {
            mark.name: _instant(mark.until_s)
            for mark in known
            if not mark.starts and mark.until_s is not None
        }
        return cls(policy, _instant(now_s), by_hand, stopped, unknown)

    def of(self, volume: Volume) -> WindowState | None:
        """What its windows ask of a volume; None where it belongs to none."""
        names = windows_of(self.policy.windows, volume)
        if not names:
            return None
        key = (names, volume.size_gib)
        if key not in self._known:
            self._known[key] = self._work_out(names, volume.size_gib)
        return self._known[key]

    def _work_out(self, names: frozenset[str], size_gib: int) -> WindowState:
        if names & self.unknown:
            return WindowState(phase=Phase.BETWEEN)  # neither out nor back while nobody knows
        lead = self.policy.lead
        return window_state(
            self.policy.windows,
            names,
            self.now,
            lead=flip_lead(size_gib, lead),
            expected=expected_flip(size_gib, lead),
            margin=lead.reserve,
            by_hand=self.by_hand,
            stopped=self.stopped,
        )


def _instant(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def _iso(at: datetime) -> str:
    return format_instant(at.timestamp())


def announce_windows(
    states: Mapping[str, WindowState], *, policy: Policy, place: Place, now_s: float
) -> list[Change]:
    """An alert for each start of a window that the first volumes are moved for; the ledger tells it once.

    ``states`` has every volume that belongs to a window, by id.
    """
    starts: dict[tuple[str, int], _Start] = {}
    for volume_id, state in sorted(states.items()):
        for occurrence in state.running or state.upcoming:
            key = (occurrence.window, int(occurrence.span.start_at.timestamp()))
            start = starts.setdefault(key, _Start(occurrence))
            (start.due if state.wants_flip else start.later).append(volume_id)
    return [
        _announcement(start, policy=policy, place=place, now_s=int(now_s))
        for start in starts.values()
        if start.due
    ]


@dataclass(frozen=True, slots=True)
class _Start:
    """One start of a window: the volumes to be moved for it now, and those that still have time."""

    occurrence: Occurrence
    due: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)


def _announcement(start: _Start, *, policy: Policy, place: Place, now_s: int) -> Change:
    occurrence, volume_ids = start.occurrence, sorted(start.due + start.later)
    subject, start_s = f"window {occurrence.window}", int(occurrence.span.start_at.timestamp())
    ends_at = None if occurrence.span.end_at == UNTIL_STOPPED else _iso(occurrence.span.end_at)
    until = f"until burstctl window stop {occurrence.window}"
    if ends_at:
        until = f"until {format_time(occurrence.span.end_at.timestamp(), now_s)} UTC"
    starts = format_when(start_s, now_s, "UTC")
    count = "1 volume" if len(volume_ids) == 1 else f"{len(volume_ids):,} volumes"
    more = len(start.due) - _MOST_NAMED
    named = ", ".join(start.due[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    later = f"; {len(start.later):,} more, smaller or less hurried, follow" if start.later else ""
    alert = Alert(
        alert_id=alert_id(subject, AlertKind.WINDOW_STARTING, start_s),
        kind=AlertKind.WINDOW_STARTING,
        level=Level.OK,
        previous_level=Level.UNKNOWN,
        volume_id=None,
        time_s=now_s,
        volume={"region": place.region, "account": place.account},
        evidence={
            "summary": f"{occurrence.window} {starts}, {count} in {place.region}",
            "details": [
                f"It lasts {until}.",
                f"Due now: {named}{later}.",
                "In mode auto they are moved by a watchdog that may act; the others are left to people.",
            ],
            "window": occurrence.window,
            "starts_at": format_instant(start_s),
            "ends_at": ends_at,
            "by_hand": occurrence.by_hand,
            "volumes": volume_ids[:_MOST_LISTED],
            "volume_count": len(volume_ids),
        },
        action=f"burstctl window list --region {place.region}",
        runbook=runbook_link(AlertKind.WINDOW_STARTING, policy.alerts.runbooks_url),
    )
    entry = LedgerEntry(
        volume_id=subject, revision=start_s, kind=EntryKind.ALERT, at_s=now_s, body=alert.to_document()
    )
    return Change(volume_id=subject, expected_revision=None, state=None, entries=(entry,), alerts=(alert,))

"""What the windows ask of each volume at one moment."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

from burstwatch.core.alerts.alert import AlertKind, make_alert_id, make_fleet_alert
from burstwatch.core.assessment.severity import Level
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.flip_state import ManualWindowOverride
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.location import AwsLocation
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.windows import (
    UNTIL_STOPPED,
    ManualStarts,
    Occurrence,
    WindowPhase,
    WindowState,
    expected_flip_duration,
    flip_lead,
    window_names_of,
    window_state,
)
from burstwatch.core.text import format_instant, format_relative_time, format_time

_MAX_LISTED = 100
_MAX_NAMED = 10


@dataclass(frozen=True, slots=True)
class WindowSchedule:
    """The windows of a policy and those started or stopped by hand, at ``now``.

    A state is worked out once for all volumes of the same windows and size.
    """

    policy: Policy
    now: datetime
    manual_starts: ManualStarts
    manual_stops: Mapping[str, datetime]
    unreadable_names: frozenset[str] = frozenset()
    _cache: dict[tuple[frozenset[str], int], WindowState] = field(default_factory=dict)

    @classmethod
    def at(cls, now_s: float, policy: Policy, overrides: Iterable[ManualWindowOverride]) -> Self:
        """The outlook of a pass."""
        all_overrides = list(overrides)
        readable = [override for override in all_overrides if override.is_readable]
        unreadable_names = frozenset(override.name for override in all_overrides if not override.is_readable)
        manual_starts = {
            override.name: (
                _to_datetime(override.at_s),
                None if override.until_s is None else _to_datetime(override.until_s),
            )
            for override in readable
            if override.is_start
        }
        manual_stops = {
            override.name: _to_datetime(override.until_s)
            for override in readable
            if not override.is_start and override.until_s is not None
        }
        return cls(policy, _to_datetime(now_s), manual_starts, manual_stops, unreadable_names)

    def status_for(self, volume: Volume) -> WindowState | None:
        """What its windows ask of a volume; None if it belongs to none."""
        names = window_names_of(self.policy.windows, volume)
        if not names:
            return None
        key = (names, volume.size_gib)
        if key not in self._cache:
            self._cache[key] = self._compute_status(names, volume.size_gib)
        return self._cache[key]

    def _compute_status(self, names: frozenset[str], size_gib: int) -> WindowState:
        if names & self.unreadable_names:
            return WindowState(phase=WindowPhase.BETWEEN)  # no flip while a window is unknown
        lead = self.policy.lead
        return window_state(
            self.policy.windows,
            names,
            self.now,
            lead=flip_lead(size_gib, lead),
            expected=expected_flip_duration(size_gib, lead),
            margin=lead.reserve,
            manual_starts=self.manual_starts,
            manual_stops=self.manual_stops,
        )


def _to_datetime(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def _format_datetime(moment: datetime) -> str:
    return format_instant(moment.timestamp())


def announce_windows(
    states: Mapping[str, WindowState], *, policy: Policy, location: AwsLocation, now_s: float
) -> list[Change]:
    """An alert for each start of a window for which the first volumes are flipped; the ledger sends it once.

    ``states`` has every volume that belongs to a window, by id.
    """
    starts: dict[tuple[str, int], _WindowStart] = {}
    for volume_id, state in sorted(states.items()):
        for occurrence in state.running or state.upcoming:
            key = (occurrence.window, int(occurrence.interval.start_at.timestamp()))
            start = starts.setdefault(key, _WindowStart(occurrence))
            (start.due if state.wants_flip else start.not_yet_due).append(volume_id)
    return [
        _make_announcement(start, policy=policy, location=location, now_s=int(now_s))
        for start in starts.values()
        if start.due
    ]


@dataclass(frozen=True, slots=True)
class _WindowStart:
    """One start of a window: the volumes to be moved for it now, and those that still have time."""

    occurrence: Occurrence
    due: list[str] = field(default_factory=list)
    not_yet_due: list[str] = field(default_factory=list)


def _make_announcement(
    window_start: _WindowStart, *, policy: Policy, location: AwsLocation, now_s: int
) -> Change:
    occurrence, volume_ids = window_start.occurrence, sorted(window_start.due + window_start.not_yet_due)
    subject, start_at_s = f"window {occurrence.window}", int(occurrence.interval.start_at.timestamp())
    ends_at = (
        None if occurrence.interval.end_at == UNTIL_STOPPED else _format_datetime(occurrence.interval.end_at)
    )
    until = f"until burstctl window stop {occurrence.window}"
    if ends_at:
        until = f"until {format_time(occurrence.interval.end_at.timestamp(), now_s)} UTC"
    starts = format_relative_time(start_at_s, now_s, "UTC")
    count = "1 volume" if len(volume_ids) == 1 else f"{len(volume_ids):,} volumes"
    unlisted = len(window_start.due) - _MAX_NAMED
    listed = ", ".join(window_start.due[:_MAX_NAMED]) + (f" and {unlisted:,} more" if unlisted > 0 else "")
    later = (
        f"; {len(window_start.not_yet_due):,} more, smaller or less urgent, follow"
        if window_start.not_yet_due
        else ""
    )
    alert = make_fleet_alert(
        AlertKind.WINDOW_STARTING,
        make_alert_id(subject, AlertKind.WINDOW_STARTING, start_at_s),
        level=Level.OK,
        evidence={
            "summary": f"{occurrence.window} {starts}, {count} in {location.region}",
            "details": [
                f"It lasts {until}.",
                f"Due now: {listed}{later}.",
                "A watchdog that may act flips the volumes in mode auto; the others require manual action.",
            ],
            "window": occurrence.window,
            "starts_at": format_instant(start_at_s),
            "ends_at": ends_at,
            "by_hand": occurrence.is_manual,
            "volumes": volume_ids[:_MAX_LISTED],
            "volume_count": len(volume_ids),
        },
        action=f"burstctl window list --region {location.region}",
        location=location,
        runbooks_url=policy.alerts.runbooks_url,
        now_s=now_s,
    )
    entry = LedgerEntry(
        volume_id=subject, revision=start_at_s, kind=EntryKind.ALERT, at_s=now_s, body=alert.to_document()
    )
    return Change(volume_id=subject, expected_revision=None, state=None, entries=(entry,), alerts=(alert,))

"""The windows at this moment: what runs, what comes next, for which volumes, and how early they are moved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH, Topic, lay_out_topics
from burstctl.context.context import CommandContext
from burstwatch.adapters.aws.errors import AwsFailure
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.volume import Volume, can_burst
from burstwatch.core.ledger.flip_state import ManualWindowOverride
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.windows import (
    UNTIL_STOPPED,
    Occurrence,
    Recurrence,
    Window,
    WindowPhase,
    WindowState,
    flip_lead,
    volumes_in_window,
    window_names_in_tags,
    window_state,
)
from burstwatch.core.text import format_duration, format_instant, instant_or_none, sanitise
from burstwatch.core.watch.window_status import WindowSchedule

if TYPE_CHECKING:
    from documents.shared import ManualOverrideDocument, OccurrenceDocument, WindowDocument

PHASE_DESCRIPTIONS: Final = {
    WindowPhase.OUTSIDE: "does not run",
    WindowPhase.LEADING: "its next start is near: volumes are being flipped",
    WindowPhase.INSIDE: "runs",
    WindowPhase.BETWEEN: "between two runs: volumes stay flipped, as the next start is near",
    WindowPhase.OVER: "has just ended",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSnapshot:
    """A window at one moment; without ``window`` it is not defined, and can only be started by hand.

    ``flippable`` are its volumes that depend on burst credits, or did before their flip; the others stay as
    they are. ``lead`` is the longest of theirs.
    """

    name: str
    window: Window | None
    state: WindowState
    volumes: Sequence[Volume]
    flippable: Sequence[Volume]
    lead: timedelta
    override: ManualWindowOverride | None

    @property
    def zone(self) -> tzinfo:
        """The zone its schedule is written in."""
        schedule = self.window.schedule if self.window else None
        if isinstance(schedule, Recurrence):
            return schedule.zone
        name = dict(self.window.settings).get("zone") if self.window else None
        return ZoneInfo(name) if name else UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSnapshots:
    """All windows in the policy, in overrides by hand and in tags of volumes, by name."""

    by_name: Mapping[str, WindowSnapshot]
    schedule: WindowSchedule
    states: Mapping[str, ResourceState]
    failures: Sequence[str]

    def with_override(self, override: ManualWindowOverride) -> WindowSnapshot:
        """The window of this mark, once it is made."""
        snapshot, overrides = (
            self.by_name[override.name],
            [candidate.override for candidate in self.by_name.values() if candidate.override],
        )
        other_overrides = [candidate for candidate in overrides if candidate.name != override.name]
        schedule = WindowSchedule.at(
            self.schedule.now.timestamp(), self.schedule.policy, [*other_overrides, override]
        )
        return _snapshot_window(
            snapshot.name, snapshot.window, snapshot.volumes, self.states, schedule, override
        )


def read_windows(context: CommandContext) -> WindowSnapshots:
    """Work out the windows from policy, ledger and the tags of every volume of the region.

    Raises:
        AwsError: the volumes cannot be listed.
    """
    services = context.services
    failures: list[str] = []

    def report(subject: str, failure: AwsFailure) -> None:
        failures.append(f"{subject}: {failure}")

    volumes = list(services.ec2.volumes({"volume-type": list(VolumeType)}, report_failure=report))
    overrides, states, now_s = services.ledger.manual_overrides(), services.ledger.states(), services.clock()
    schedule = WindowSchedule.at(now_s, services.policy, overrides.values())
    defined = {window.name: window for window in services.policy.windows}
    tagged = {name for volume in volumes for name in window_names_in_tags(volume.tags)}
    unreadable = {name for name, override in overrides.items() if not override.is_readable}
    names = [*defined, *sorted((tagged | unreadable | schedule.manual_starts.keys()) - defined.keys())]
    snapshots = {
        name: _snapshot_window(name, defined.get(name), volumes, states, schedule, overrides.get(name))
        for name in names
    }
    return WindowSnapshots(by_name=snapshots, schedule=schedule, states=states, failures=failures)


def _snapshot_window(
    name: str,
    window: Window | None,
    volumes: Sequence[Volume],
    states: Mapping[str, ResourceState],
    schedule: WindowSchedule,
    override: ManualWindowOverride | None,
) -> WindowSnapshot:
    policy = schedule.policy
    selected = volumes_in_window(window or Window(name=name), volumes)
    flippable = [
        volume for volume in selected if can_burst(volume) or _is_flipped(states.get(volume.volume_id))
    ]
    lead = longest_lead(flippable, policy)
    state = window_state(
        policy.windows,
        {name},
        schedule.now,
        lead=lead,
        expected=lead - policy.lead.reserve,
        margin=policy.lead.reserve,
        manual_starts=schedule.manual_starts,
        manual_stops=schedule.manual_stops,
    )
    return WindowSnapshot(
        name=name,
        window=window,
        state=state,
        volumes=selected,
        flippable=flippable,
        lead=lead,
        override=override,
    )


def _is_flipped(state: ResourceState | None) -> bool:
    return state is not None and state.flip is not None


def longest_lead(volumes: Sequence[Volume], policy: Policy) -> timedelta:
    """How early the first of these volumes is moved; of none, as early as the smallest would be."""
    return max(
        (flip_lead(volume.size_gib, policy.lead) for volume in volumes), default=flip_lead(1, policy.lead)
    )


def render_window(snapshot: WindowSnapshot) -> str:
    """A window as text: its times in its own time zone and in UTC."""
    state = snapshot.state
    topics: list[Topic] = [
        (
            "Now",
            [
                PHASE_DESCRIPTIONS[state.phase],
                *(describe_occurrence(occurrence, snapshot.zone) for occurrence in state.running),
            ],
        ),
        ("Next", [describe_occurrence(occurrence, snapshot.zone) for occurrence in state.upcoming]),
        ("Schedule", [_describe_schedule(snapshot.window)]),
        ("Volumes", [_describe_volumes(snapshot)]),
        ("By hand", [_describe_override(snapshot.override)] if snapshot.override else []),
    ]
    return lay_out_topics(sanitise(snapshot.name, MAX_SENTENCE_LENGTH), topics)


def describe_occurrence(occurrence: Occurrence, zone: tzinfo = UTC) -> str:
    """When it starts and ends."""
    span = occurrence.interval
    by_hand = "by hand: " if occurrence.is_manual else ""
    until = (
        "until it is stopped" if span.end_at == UNTIL_STOPPED else f"to {_format_with_utc(span.end_at, zone)}"
    )
    return f"{by_hand}{_format_with_utc(span.start_at, zone)} {until}"


def _format_with_utc(at: datetime, zone: tzinfo) -> str:
    utc = format_instant(at.timestamp())
    return utc if zone is UTC else f"{at.astimezone(zone):%a %Y-%m-%d %H:%M} {zone} ({utc})"


def _describe_schedule(window: Window | None) -> str:
    if window is None:
        return "none: tags of volumes name it, but it is not defined; it can be started by hand"
    if window.schedule is None:
        return "none: it is started by hand"
    return ", ".join(f"{key} {value}" for key, value in window.settings)


def _describe_volumes(snapshot: WindowSnapshot) -> str:
    total, flippable_count = len(snapshot.volumes), len(snapshot.flippable)
    text = (
        f"applies to {total}, of which {flippable_count} depend{'s' if flippable_count == 1 else ''} on"
        " credits or did before a flip"
    )
    return f"{text}; flipped up to {format_duration(snapshot.lead.total_seconds())} before a start"


def _describe_override(override: ManualWindowOverride) -> str:
    at = format_instant(override.at_s)
    if not override.is_readable:
        return "started or stopped, which cannot be read: it moves no volume until it is started or stopped"
    if not override.is_start:
        return f"stopped by {override.by} at {at}"
    until = "until it is stopped" if override.until_s is None else f"until {format_instant(override.until_s)}"
    return f"started by {override.by} at {at}, {until}"


def window_document(snapshot: WindowSnapshot) -> "WindowDocument":
    """A window as JSON, its times in UTC."""
    state = snapshot.state
    return {
        "name": snapshot.name,
        "is_defined": snapshot.window is not None,
        "phase": state.phase,
        "zone": str(snapshot.zone),
        "settings": dict(snapshot.window.settings) if snapshot.window else {},
        "running": [occurrence_document(occurrence) for occurrence in state.running],
        "next": [occurrence_document(occurrence) for occurrence in state.upcoming],
        "volumes": len(snapshot.volumes),
        "volumes_moved": len(snapshot.flippable),
        "longest_lead_s": int(snapshot.lead.total_seconds()),
        "by_hand": _override_document(snapshot.override) if snapshot.override else None,
    }


def occurrence_document(occurrence: Occurrence) -> "OccurrenceDocument":
    """When it starts and ends, as JSON; null while it is to be stopped."""
    end_at = occurrence.interval.end_at
    return {
        "starts_at": format_instant(occurrence.interval.start_at.timestamp()),
        "ends_at": None if end_at == UNTIL_STOPPED else format_instant(end_at.timestamp()),
        "by_hand": occurrence.is_manual,
    }


def _override_document(override: ManualWindowOverride) -> "ManualOverrideDocument":
    return {
        "starts": override.is_start,
        "by": override.by,
        "at": format_instant(override.at_s),
        "until": instant_or_none(override.until_s),
    }

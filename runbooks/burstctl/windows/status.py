"""The windows at this moment: what runs, what comes next, for which volumes, and how early they are moved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from burstctl.cli.output import complain
from burstctl.cli.text_layout import LONGEST_SENTENCE, Topic, lay_out
from burstctl.context.context import Desk
from burstctl.render.plan_json import instant_or_none
from burstctl.render.volume import inert
from burstwatch.adapters.aws.errors import AwsFailure
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.flips.triggers import can_burst
from burstwatch.core.ledger.flip_state import WindowMark
from burstwatch.core.ledger.ledger import VolumeState
from burstwatch.core.policy.policy import Policy
from burstwatch.core.policy.windows import (
    UNTIL_STOPPED,
    Occurrence,
    Phase,
    Recurring,
    Window,
    WindowState,
    flip_lead,
    members,
    named_by_tag,
    window_state,
)
from burstwatch.core.text import format_duration, format_instant, printable
from burstwatch.core.watch.window_status import Outlook

PHASES: Final = {
    Phase.OUTSIDE: "does not run",
    Phase.LEADING: "leads to its next start: volumes are being moved",
    Phase.INSIDE: "runs",
    Phase.BETWEEN: "pauses: the next start is too near to return for",
    Phase.OVER: "is just over",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowNow:
    """A window at one moment; one that nobody defined has no ``window`` and is only started by hand.

    ``moved`` are those of its volumes that live on credits, or did before their flip: the others stay as
    they are. ``lead`` is the longest of theirs.
    """

    name: str
    window: Window | None
    state: WindowState
    volumes: Sequence[Volume]
    moved: Sequence[Volume]
    lead: timedelta
    mark: WindowMark | None

    @property
    def zone(self) -> tzinfo:
        """The zone its schedule is written in."""
        schedule = self.window.schedule if self.window else None
        if isinstance(schedule, Recurring):
            return schedule.zone
        name = dict(self.window.settings).get("zone") if self.window else None
        return ZoneInfo(name) if name else UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowsNow:
    """Every window that the policy, a start by hand or a volume's tag knows, by name."""

    by_name: Mapping[str, WindowNow]
    outlook: Outlook
    states: Mapping[str, VolumeState]
    failures: Sequence[str]

    def after(self, mark: WindowMark) -> WindowNow:
        """The window of this mark, once it is made."""
        this, marks = self.by_name[mark.name], [each.mark for each in self.by_name.values() if each.mark]
        others = [each for each in marks if each.name != mark.name]
        outlook = Outlook.at(self.outlook.now.timestamp(), self.outlook.policy, [*others, mark])
        return _window_now(this.name, this.window, this.volumes, self.states, outlook, mark)


def read_windows(desk: Desk) -> WindowsNow:
    """Work out the windows from policy, ledger and the tags of every volume of the region.

    Raises:
        AwsError: the volumes cannot be listed.
    """
    shell = desk.shell
    failures: list[str] = []

    def report(subject: str, failure: AwsFailure) -> None:
        failures.append(f"{subject}: {failure}")

    volumes = list(shell.ec2.volumes({"volume-type": list(VolumeType)}, report=report))
    marks, states, now_s = shell.ledger.window_marks(), shell.ledger.states(), shell.clock()
    outlook = Outlook.at(now_s, shell.policy, marks.values())
    defined = {window.name: window for window in shell.policy.windows}
    tagged = {name for volume in volumes for name in named_by_tag(volume.tags)}
    names = [*defined, *sorted((tagged | outlook.by_hand.keys()) - defined.keys())]
    found = {
        name: _window_now(name, defined.get(name), volumes, states, outlook, marks.get(name))
        for name in names
    }
    return WindowsNow(by_name=found, outlook=outlook, states=states, failures=failures)


def _window_now(
    name: str,
    window: Window | None,
    volumes: Sequence[Volume],
    states: Mapping[str, VolumeState],
    outlook: Outlook,
    mark: WindowMark | None,
) -> WindowNow:
    policy = outlook.policy
    chosen = members(window or Window(name=name), volumes)
    moved = [v for v in chosen if can_burst(v) or _is_flipped(states.get(v.volume_id))]
    lead = longest_lead(moved, policy)
    state = window_state(
        policy.windows,
        {name},
        outlook.now,
        lead=lead,
        expected=lead - policy.lead.reserve,
        margin=policy.lead.reserve,
        by_hand=outlook.by_hand,
        stopped=outlook.stopped,
    )
    return WindowNow(name=name, window=window, state=state, volumes=chosen, moved=moved, lead=lead, mark=mark)


def _is_flipped(state: VolumeState | None) -> bool:
    return state is not None and state.flip is not None


def longest_lead(volumes: Sequence[Volume], policy: Policy) -> timedelta:
    """How early the first of these volumes is moved; of none, as early as the smallest would be."""
    return max(
        (flip_lead(volume.size_gib, policy.lead) for volume in volumes), default=flip_lead(1, policy.lead)
    )


def window_in_words(this: WindowNow) -> str:
    """A window as people read it: its times on its own clocks and in UTC."""
    state = this.state
    topics: list[Topic] = [
        ("Now", [PHASES[state.phase], *(occurrence_words(each, this.zone) for each in state.running)]),
        ("Next", [occurrence_words(each, this.zone) for each in state.upcoming]),
        ("Schedule", [_schedule_words(this.window)]),
        ("Volumes", [_volume_words(this)]),
        ("By hand", [_mark_words(this.mark)] if this.mark else []),
    ]
    shown = [(topic, [inert(line) for line in lines]) for topic, lines in topics if lines]
    return lay_out(printable(this.name, LONGEST_SENTENCE), shown)


def occurrence_words(occurrence: Occurrence, zone: tzinfo = UTC) -> str:
    """When it starts and ends."""
    span = occurrence.span
    by_hand = "by hand: " if occurrence.by_hand else ""
    until = "until it is stopped" if span.end_at == UNTIL_STOPPED else f"to {_on_clocks(span.end_at, zone)}"
    return f"{by_hand}{_on_clocks(span.start_at, zone)} {until}"


def _on_clocks(at: datetime, zone: tzinfo) -> str:
    utc = format_instant(at.timestamp())
    return utc if zone is UTC else f"{at.astimezone(zone):%a %Y-%m-%d %H:%M} {zone} ({utc})"


def _schedule_words(window: Window | None) -> str:
    if window is None:
        return "none: volumes' tags name it, nobody has defined it; it can be started by hand"
    if window.schedule is None:
        return "none: it is started by hand"
    return ", ".join(f"{key} {value}" for key, value in window.settings)


def _volume_words(this: WindowNow) -> str:
    total, moved = len(this.volumes), len(this.moved)
    said = f"holds for {total}, of which {moved} live{'s' if moved == 1 else ''} on credits or did"
    return f"{said}; moved up to {format_duration(this.lead.total_seconds())} before a start"


def _mark_words(mark: WindowMark) -> str:
    at = format_instant(mark.at_s)
    if not mark.is_known:
        return "started or stopped, which cannot be read: it moves no volume until it is started or stopped"
    if not mark.starts:
        return f"stopped by {mark.by} at {at}"
    until = "until it is stopped" if mark.until_s is None else f"until {format_instant(mark.until_s)}"
    return f"started by {mark.by} at {at}, {until}"


def window_document(this: WindowNow) -> dict[str, Any]:
    """A window as JSON, its times in UTC."""
    state = this.state
    return {
        "name": this.name,
        "is_defined": this.window is not None,
        "phase": str(state.phase),
        "zone": str(this.zone),
        "settings": dict(this.window.settings) if this.window else {},
        "running": [occurrence_document(each) for each in state.running],
        "next": [occurrence_document(each) for each in state.upcoming],
        "volumes": len(this.volumes),
        "volumes_moved": len(this.moved),
        "longest_lead_s": int(this.lead.total_seconds()),
        "by_hand": _mark_document(this.mark) if this.mark else None,
    }


def occurrence_document(occurrence: Occurrence) -> dict[str, Any]:
    """When it starts and ends, as JSON; null while it is to be stopped."""
    end_at = occurrence.span.end_at
    return {
        "starts_at": format_instant(occurrence.span.start_at.timestamp()),
        "ends_at": None if end_at == UNTIL_STOPPED else format_instant(end_at.timestamp()),
        "by_hand": occurrence.by_hand,
    }


def _mark_document(mark: WindowMark) -> dict[str, Any]:
    return {
        "starts": mark.starts,
        "by": mark.by,
        "at": format_instant(mark.at_s),
        "until": instant_or_none(mark.until_s),
    }


def complain_of_failures(failures: Sequence[str]) -> None:
    """Say which volumes could not be read, so that nobody takes the counts for whole."""
    for failure in failures:
        complain(printable(failure, LONGEST_SENTENCE))

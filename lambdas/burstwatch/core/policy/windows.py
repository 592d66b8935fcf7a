"""Windows: named critical periods in which volumes are kept flipped.

A window recurs (cron, zone, duration), is dated (from, to), or is only started by hand. What applies to a
volume is a function of the windows, the manual starts and the present time. Nothing is stored, so a changed
policy takes effect at the next poll.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import partial
from heapq import merge
from itertools import chain, pairwise
from typing import Any, Final
from zoneinfo import ZoneInfo

from burstwatch.core.durations import format_duration_literal, parse_duration
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.parsing import DocumentReader, Fault
from burstwatch.core.policy.cron import CronSchedule, parse_cron
from burstwatch.core.policy.timezones import first_instant, parse_zone
from burstwatch.core.tag_keys import WINDOW
from burstwatch.core.text import format_duration, format_rounded_duration

UNTIL_STOPPED: Final = datetime.max.replace(tzinfo=UTC)
"""The end of a window that was started by hand without one."""

ManualStarts = Mapping[str, tuple[datetime, datetime | None]]
"""Windows started by hand: name to (start, end); with an end of None it lasts until it is stopped."""

ManualStops = Mapping[str, datetime]
"""Windows stopped by hand: occurrences of that name that started before the instant do not count."""

NO_MANUAL_STOPS: Final[ManualStops] = {}

_ZERO: Final = timedelta(0)
_JUST_AFTER: Final = timedelta(seconds=1)
_MIN_DURATION: Final = timedelta(minutes=1)
_MAX_RECURRING_DURATION: Final = timedelta(days=28)
"""The shortest month: a window that is monthly and longer would always run."""
_MAX_DATED_DURATION: Final = timedelta(days=366)
"""A judgement: a longer window is probably a typing error in the year."""
_MAX_LEAD: Final = timedelta(days=7)
"""With a longer lead, a weekly window would keep its volumes flipped all the time."""
_GIB_PER_TIB: Final = 1024
_MIN_ELAPSED_SHOWN_S: Final = 60
SETTING_KEYS: Final = ("cron", "duration", "from", "to", "zone", "where", "size_gib")
_INCOMPLETE_SCHEDULE: Final = "is missing; a window has cron, zone and duration, or from and to"
_NO_NAMES: Final[frozenset[str]] = frozenset()
_NAME_SEPARATOR = re.compile(r"[,\s]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_INSTANT = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_TAG_TERM = re.compile(r"tag:([^=\s][^=]*)(?:=(.*))?")
_SIZE_RANGE = re.compile(r"(\d{1,5})-(\d{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class TimeInterval:
    """A half-open interval of time, ``[start_at, end_at)``; ValueError if it is empty."""

    start_at: datetime
    end_at: datetime

    def __post_init__(self) -> None:
        if self.end_at <= self.start_at:
            raise ValueError(f"a span ends at {self.end_at}, which is not after its start at {self.start_at}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """Starts by the local time of ``zone``; ``duration`` is elapsed time, even if clocks change."""

    cron: CronSchedule
    zone: ZoneInfo
    duration: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A named critical period; without a schedule it is only started by hand.

    It applies to the volumes whose tag names it. If ``tags`` (None: any value) or ``sizes_gib`` are given, it
    also applies to the volumes that match all of them. The type of a volume is not a criterion, because a
    flip changes it. ``settings`` are as written in the policy.
    """

    name: str
    schedule: Recurrence | TimeInterval | None = None
    tags: tuple[tuple[str, str | None], ...] = ()
    sizes_gib: range | None = None
    settings: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def applies_to(self, volume: Volume) -> bool:
        """Whether the window applies to the volume, by its tag or by the window's selector."""
        return self.name in window_names_in_tags(volume.tags) or self.selects(volume)

    def selects(self, volume: Volume) -> bool:
        """Whether the volume matches the window's selector; an empty selector matches no volume."""
        if self.sizes_gib is not None and volume.size_gib not in self.sizes_gib:
            return False
        for key, value in self.tags:
            actual = volume.tags.get(key)
            if actual is None or (value is not None and value != actual):
                return False
        return bool(self.tags or self.sizes_gib)


Windows = tuple[Window, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadPolicy:
    """How early to flip: estimates, to be adjusted by what is measured, because AWS promises no duration.

    A modification takes minutes to hours: a full volume of 1 TiB about 6 h, and sometimes a volume more than
    24 h. Source: the EBS user guide, "Monitor the progress of volume modifications".
    """

    least: timedelta = field(
        default=timedelta(minutes=15),
        metadata={"parse": parse_duration, "says": "what a flip of any volume takes"},
    )
    per_tib: timedelta = field(
        default=timedelta(hours=6),
        metadata={"parse": parse_duration, "says": "what each TiB adds to that"},
    )
    reserve: timedelta = field(
        default=timedelta(minutes=15),
        metadata={"parse": parse_duration, "says": "added for late ticks and retries"},
    )
    at_most: timedelta = field(
        default=timedelta(hours=24),
        metadata={"parse": parse_duration, "says": "no volume is flipped earlier than this before a window"},
    )

    def faults(self) -> Iterator[Fault]:
        """Settings that contradict each other."""
        shortest = self.reserve + self.least
        if not shortest < self.at_most <= _MAX_LEAD:
            yield Fault(
                "lead.at_most",
                f"{format_duration_literal(self.at_most)} must be above reserve"
                f" {format_duration_literal(self.reserve)} + least {format_duration_literal(self.least)} ="
                f" {format_duration_literal(shortest)}, and at most {format_duration_literal(_MAX_LEAD)}",
            )


class WindowPhase(StrEnum):
    """Where the present time is relative to the windows of one volume."""

    OUTSIDE = "outside"
    LEADING = "leading"
    INSIDE = "inside"
    BETWEEN = "between"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One occurrence of a window."""

    window: str
    interval: TimeInterval
    is_manual: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowState:
    """What the windows of one volume ask for now.

    ``upcoming`` is the next occurrence to start, or several if they start together. ``ended`` is the last one
    to end, if that is less than the margin ago. ``missed_by`` is how long after the start a flip that begins
    now would be completed; None if it would be in time, or is not wanted.
    """

    phase: WindowPhase
    running: tuple[Occurrence, ...] = ()
    upcoming: tuple[Occurrence, ...] = ()
    ended: Occurrence | None = None
    missed_by: timedelta | None = None

    @property
    def wants_flip(self) -> bool:
        return self.phase in (WindowPhase.LEADING, WindowPhase.INSIDE)

    @property
    def allows_return(self) -> bool:
        return self.phase in (WindowPhase.OUTSIDE, WindowPhase.OVER)


def flip_lead(size_gib: int, policy: LeadPolicy | None = None) -> timedelta:
    """How long before a start to flip: ``reserve + least + per_tib * size``, capped at ``at_most``.

    The default is 30 min + 6 h per TiB::

          8 GiB   33 min        500 GiB   3 h 26 min       4,011 GiB and more   24 h
        100 GiB   65 min      1,024 GiB   6 h 30 min

    AWS's durations are not linear in the size; the line is meant to be above most of them.
    """
    p = policy or LeadPolicy()
    return min(p.at_most, p.reserve + p.least + p.per_tib * size_gib / _GIB_PER_TIB)


def expected_flip_duration(size_gib: int, policy: LeadPolicy | None = None) -> timedelta:
    """The longest expected duration of a modification: the lead without its reserve for ticks and retries."""
    return flip_lead(size_gib, policy) - (policy or LeadPolicy()).reserve


def format_expected_duration(size_gib: int, policy: LeadPolicy) -> str:
    """How long AWS is expected to take: ``15 min to 3 h 10 min for 500 GiB``."""
    shortest, longest = policy.least, expected_flip_duration(size_gib, policy)
    bounds = dict.fromkeys(format_duration(bound.total_seconds()) for bound in (shortest, longest))
    return f"{' to '.join(bounds)} for {size_gib:,} GiB"


def describe_flip_duration(
    size_gib: int,
    policy: LeadPolicy,
    *,
    time_to_empty_s: float | None,
    elapsed_s: float = 0.0,
    states_time_left: bool = True,
) -> str:
    """Describe how long AWS is expected to take, how long the credits last, and what helps until then.

    ``time_to_empty_s`` is the time until the volume is empty, in seconds; None if it is not draining. A time
    of more than a day is not mentioned. ``elapsed_s`` is how long ago the modification was requested. Without
    ``states_time_left`` it is not repeated, because the text around has it.
    """
    max_s, elapsed = expected_flip_duration(size_gib, policy).total_seconds(), format_duration(elapsed_s)
    sentence = f"AWS is expected to take {format_expected_duration(size_gib, policy)}"
    if elapsed_s > max_s:
        sentence = (
            f"AWS was expected to take {format_expected_duration(size_gib, policy)} and has taken {elapsed}"
            " so far"
        )
    elif elapsed_s >= _MIN_ELAPSED_SHOWN_S:
        sentence += f", {elapsed} of which are over"
    if time_to_empty_s is None or time_to_empty_s > timedelta(days=1).total_seconds():
        return f"{sentence}."
    time_left = (
        f"empty in about {format_rounded_duration(time_to_empty_s)}"
        if time_to_empty_s > 0
        else "its credits are exhausted"
    )
    is_late = elapsed_s > max_s or time_to_empty_s <= max_s - elapsed_s
    parts = [sentence, time_left if states_time_left else "", "reduce load until then" if is_late else ""]
    return f"{'; '.join(filter(None, parts))}."


def window_names_in_tags(tags: Mapping[str, str]) -> frozenset[str]:
    """The windows that a volume's tag names, whether the policy defines them or not."""
    text = tags.get(WINDOW)
    return frozenset(_NAME_SEPARATOR.split(text)) - {""} if text else _NO_NAMES


def window_names_of(windows: Windows, volume: Volume) -> frozenset[str]:
    """The names of the windows of a volume, including those that its tag names and no policy defines."""
    names = window_names_in_tags(volume.tags)
    return names.union(window.name for window in windows if window.selects(volume)) if windows else names


def volumes_in_window(window: Window, volumes: Iterable[Volume]) -> list[Volume]:
    """The volumes to which a window applies."""
    return [volume for volume in volumes if window.applies_to(volume)]


def occurrences(window: Window, since: datetime) -> Iterator[TimeInterval]:
    """The scheduled occurrences that end after ``since``, in order, up to ``SEARCH_YEARS`` ahead."""
    intervals: Iterable[TimeInterval] = ()
    match window.schedule:
        case Recurrence() as recurring:
            intervals = _expand_recurrence(recurring, since)
        case TimeInterval() as interval:
            intervals = (interval,)
    return (interval for interval in intervals if interval.end_at > since)


def window_state(
    windows: Windows,
    names: Collection[str],
    now: datetime,
    *,
    lead: timedelta,
    expected: timedelta,
    margin: timedelta,
    manual_starts: ManualStarts,
    manual_stops: ManualStops = NO_MANUAL_STOPS,
) -> WindowState:
    """What the windows called ``names`` ask for at ``now``.

    A window that is only started by hand need not be in ``windows``. A pause of at most ``lead + margin``
    between two occurrences is ``between``: a return would not be worth its modifications. Otherwise it is
    ``over`` for ``margin``, then ``outside``, and ``leading`` from ``lead`` before the next start.
    """
    past: list[Occurrence] = []
    running: list[Occurrence] = []
    upcoming: list[Occurrence] = []
    for occurrence in _merge_occurrences(windows, names, manual_starts, manual_stops, since=now - margin):
        if upcoming and occurrence.interval.start_at > upcoming[0].interval.start_at:
            break
        is_over, has_begun = occurrence.interval.end_at <= now, occurrence.interval.start_at <= now
        (past if is_over else running if has_begun else upcoming).append(occurrence)
    ended = max(past, key=lambda o: o.interval.end_at, default=None)
    phase = _window_phase(now, running, upcoming, ended, lead, margin)
    target_occurrences = {WindowPhase.INSIDE: running, WindowPhase.LEADING: upcoming}.get(phase)
    late_by = now + expected - target_occurrences[0].interval.start_at if target_occurrences else _ZERO
    return WindowState(
        phase=phase,
        running=tuple(running),
        upcoming=tuple(upcoming),
        ended=ended,
        missed_by=late_by if late_by > _ZERO else None,
    )


def _window_phase(
    now: datetime,
    running: Collection[Occurrence],
    upcoming: Sequence[Occurrence],
    ended: Occurrence | None,
    lead: timedelta,
    margin: timedelta,
) -> WindowPhase:
    # In this order: the lead to the next window counts more than the pause after the last one.
    next_at = upcoming[0].interval.start_at if upcoming else UNTIL_STOPPED
    if running:
        return WindowPhase.INSIDE
    if next_at - now <= lead:
        return WindowPhase.LEADING
    if ended and next_at - ended.interval.end_at <= lead + margin:
        return WindowPhase.BETWEEN
    return WindowPhase.OVER if ended else WindowPhase.OUTSIDE


def manual_stop_at(
    windows: Windows,
    name: str,
    now: datetime,
    *,
    lead: timedelta,
    manual_starts: ManualStarts,
    manual_stops: ManualStops = NO_MANUAL_STOPS,
) -> datetime | None:
    """The instant to record in ``manual_stops`` to stop the occurrence that runs now, or else the next one.

    Later occurrences are not affected. None if there is nothing to stop: none runs, or starts within
    ``lead``.
    """
    stopped_at: datetime | None = None
    for occurrence in _merge_occurrences(windows, {name}, manual_starts, manual_stops, since=now):
        start_at = occurrence.interval.start_at
        if stopped_at is None:
            if start_at > now + lead:
                return None
            stopped_at = max(now, start_at)
        if start_at > stopped_at:
            return min(start_at, stopped_at + _JUST_AFTER)
    return stopped_at and stopped_at + _JUST_AFTER


def _merge_occurrences(
    windows: Windows,
    names: Collection[str],
    manual_starts: ManualStarts,
    manual_stops: ManualStops,
    *,
    since: datetime,
) -> Iterator[Occurrence]:
    """The occurrences of the named windows that end after ``since``, in the order of their starts."""
    scheduled = [_with_window_name(w.name, occurrences(w, since)) for w in windows if w.name in names]
    started = (
        Occurrence(window=name, interval=TimeInterval(started_at, until or UNTIL_STOPPED), is_manual=True)
        for name, (started_at, until) in manual_starts.items()
        if name in names and (until is None or max(started_at, since) < until)
    )
    merged = merge(*scheduled, sorted(started, key=_start_of), key=_start_of)
    return (
        o for o in merged if o.window not in manual_stops or o.interval.start_at >= manual_stops[o.window]
    )


def _with_window_name(name: str, intervals: Iterable[TimeInterval]) -> Iterator[Occurrence]:
    return (Occurrence(window=name, interval=interval) for interval in intervals)


def _start_of(occurrence: Occurrence) -> datetime:
    return occurrence.interval.start_at


def _expand_recurrence(recurring: Recurrence, since: datetime) -> Iterator[TimeInterval]:
    """Occurrences, from the first that can end after ``since``.

    When clocks go forward, two starts may be closer than the duration: then the first ends as the second
    begins.
    """
    zone, duration = recurring.zone, recurring.duration
    local_start = (since - duration).astimezone(zone).replace(tzinfo=None)
    days = recurring.cron.days_from(local_start.date())
    local_starts = (datetime.combine(day, at) for day in days for at in recurring.cron.times)
    starts = (first_instant(start, zone) for start in local_starts if start >= local_start)
    for start_at, next_start_at in pairwise(chain(starts, (UNTIL_STOPPED,))):
        if start_at < next_start_at:
            yield TimeInterval(start_at, min(start_at + duration, next_start_at))


def parse_windows(mapping: Mapping[str, Any]) -> tuple[Windows, list[Fault]]:
    """Read the section ``windows``, names to settings as text; a faulty window is left out."""
    faults: list[Fault] = []
    parsed = [_read_window(str(name), value, faults) for name, value in mapping.items()]
    return tuple(window for window in parsed if window), faults


def to_mapping(windows: Windows) -> dict[str, dict[str, str]]:
    """The section that these windows were read from."""
    return {window.name: dict(window.settings) for window in windows}


def _read_window(name: str, value: Any, faults: list[Fault]) -> Window | None:
    settings = value if isinstance(value, Mapping) else {}
    texts = {str(key): text if isinstance(text, str) else repr(text) for key, text in settings.items()}
    reader = DocumentReader(texts, f"windows.{name}.")
    if not _NAME.fullmatch(name):
        reader.reject(
            "", f"{name!r} is not a valid name; write letters, digits, - and _, at most 63, no - or _ first"
        )
    if not isinstance(value, Mapping) and value not in ("", None):
        reader.reject("", f"{value!r} is not a window; indent its settings below it")
    reader.reject_unknown(SETTING_KEYS)
    window = Window(
        name=name,
        schedule=_read_schedule(reader),
        tags=reader.parse_optional("where", _parse_tag_terms, ()),
        sizes_gib=reader.parse_optional("size_gib", _parse_sizes),
        settings=tuple(texts.items()),
    )
    faults += reader.faults
    return None if reader.faults else window


def _read_schedule(reader: DocumentReader) -> Recurrence | TimeInterval | None:
    def read(key: str, parse: Callable[[str], Any]) -> Any:
        return reader.parse_required(key, parse, _INCOMPLETE_SCHEDULE)

    is_recurring, is_dated = reader.has_any("cron", "duration"), reader.has_any("from", "to")
    if is_recurring and is_dated:
        reader.reject("", "is both recurring (cron, duration) and dated (from, to); keep one of them")
    elif is_recurring:
        zone, cron = read("zone", parse_zone), read("cron", parse_cron)
        duration = read("duration", partial(_parse_recurring_duration, cron))
        return Recurrence(cron=cron, zone=zone, duration=duration) if zone and cron and duration else None
    elif is_dated:
        zone = reader.parse_optional("zone", parse_zone) or (UTC if reader.has_any("zone") else None)
        start_at = read("from", partial(_parse_instant, zone))
        end_at = read("to", partial(_parse_end, zone, start_at))
        return TimeInterval(start_at, end_at) if start_at and end_at else None
    elif reader.has_any("zone"):
        reader.reject("zone", "has nothing to apply to; add cron and duration, or from and to")
    return None


def _parse_recurring_duration(cron: CronSchedule | None, text: str) -> timedelta:
    duration = parse_duration(text)
    if not _MIN_DURATION <= duration <= _MAX_RECURRING_DURATION:
        limits = (
            f"from {format_duration_literal(_MIN_DURATION)} to"
            f" {format_duration_literal(_MAX_RECURRING_DURATION)}"
        )
        raise ValueError(f"{text!r} must be {limits}; for longer write from and to")
    if cron and (wait := cron.find_wait_below(duration)):
        reason = f"{text!r} is longer than the {format_duration_literal(wait)} from one start to the next"
        raise ValueError(f"{reason}: the window overlaps itself; shorten it or start less often")
    return duration


def _parse_instant(zone: tzinfo | None, text: str) -> datetime:
    """The instant in UTC; a text without an offset is a local time of ``zone``."""
    try:
        at = datetime.fromisoformat(text) if _INSTANT.fullmatch(text) else None
    except ValueError:
        at = None
    if at is None:
        raise ValueError(
            f"{text!r} is not a valid time; write 2026-11-20T18:00 and zone, or 2026-11-20T18:00+01:00"
        )
    if at.tzinfo:
        return at.astimezone(UTC)
    if zone is None:
        raise ValueError(f"{text!r} has no time zone; add the setting zone, or an offset such as +01:00")
    return first_instant(at, zone)


def _parse_end(zone: tzinfo | None, start_at: datetime | None, text: str) -> datetime:
    end_at = _parse_instant(zone, text)
    if start_at and not start_at < end_at <= start_at + _MAX_DATED_DURATION:
        limit = (
            f"after from ({start_at.isoformat()}) by at most {format_duration_literal(_MAX_DATED_DURATION)}"
        )
        raise ValueError(f"{text!r} is {end_at.isoformat()}, but must be {limit}")
    return end_at


def _parse_tag_terms(text: str) -> tuple[tuple[str, str | None], ...]:
    terms = [(term.strip(), _TAG_TERM.fullmatch(term.strip())) for term in text.split(",")]
    if invalid_terms := [term for term, match in terms if not match]:
        raise ValueError(
            f"{invalid_terms[0]!r} selects nothing; write tag:KEY=VALUE or tag:KEY, with commas between"
        )
    return tuple((m[1].strip(), m[2] and m[2].strip()) for _, m in terms if m)


def _parse_sizes(text: str) -> range:
    match = _SIZE_RANGE.fullmatch(text)
    sizes = range(int(match[1]), int(match[2]) + 1) if match else range(0)
    if not sizes:
        raise ValueError(
            f"{text!r} is not a valid range of sizes; write the least and the most GiB, such as 100-500"
        )
    return sizes

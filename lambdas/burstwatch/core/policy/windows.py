"""Windows: named critical periods in which volumes are kept flipped.

A window recurs (cron, zone, duration), is dated (from, to), or is only started by hand. What holds for a
volume is a function of windows, starts by hand and now: a changed policy is simply worked out anew.
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

from burstwatch.core.durations import format_span, parse_span
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.policy.cron import Cron, parse_cron
from burstwatch.core.policy.parsing import PolicyFault
from burstwatch.core.policy.timezones import first_instant, parse_zone
from burstwatch.core.tag_keys import WINDOW
from burstwatch.core.text import format_duration, format_roughly

UNTIL_STOPPED: Final = datetime.max.replace(tzinfo=UTC)
"""The end of a window that was started by hand without one."""

KEPT_AT_MOST: Final = timedelta(days=14)
"""How far the end of a union of occurrences is looked for."""

ByHand = Mapping[str, tuple[datetime, datetime | None]]
"""Windows started by hand: name to (started at, until); an ``until`` of None lasts until it is stopped."""

Stopped = Mapping[str, datetime]
"""Windows stopped by hand: of that name, what started before the instant is as if it had never been."""

NONE_STOPPED: Final[Stopped] = {}

_ZERO: Final = timedelta(0)
_JUST_AFTER: Final = timedelta(seconds=1)
_SHORTEST: Final = timedelta(minutes=1)
_LONGEST_RECURRING: Final = timedelta(days=28)
_LONGEST_DATED: Final = timedelta(days=366)
_LONGEST_LEAD: Final = timedelta(days=7)
_GIB_PER_TIB: Final = 1024
_WORTH_SAYING_S: Final = 60
_KEYS: Final = ("cron", "duration", "from", "to", "zone", "where", "size_gib")
_NO_NAMES: Final[frozenset[str]] = frozenset()
_BETWEEN_NAMES = re.compile(r"[,\s]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_INSTANT = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_TAG_TERM = re.compile(r"tag:([^=\s][^=]*)(?:=(.*))?")
_SIZES = re.compile(r"(\d{1,5})-(\d{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open stretch of time, ``[start_at, end_at)``."""

    start_at: datetime
    end_at: datetime

    def __post_init__(self) -> None:
        if self.end_at <= self.start_at:
            raise ValueError(f"a span ends at {self.end_at}, which is not after its start at {self.start_at}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurring:
    """Starts by the clocks of ``zone``; ``duration`` is elapsed time."""

    cron: Cron
    zone: ZoneInfo
    duration: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A named critical period; without a schedule it is only started by hand.

    Beside those that name it by tag, it holds for the volumes that fit all of ``tags`` (None: any value) and
    ``sizes_gib``, if one of these is given. A volume's type is no criterion, because a flip changes it.
    ``settings`` are as written in the policy.
    """

    name: str
    schedule: Recurring | Span | None = None
    tags: tuple[tuple[str, str | None], ...] = ()
    sizes_gib: range | None = None
    settings: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def holds_for(self, volume: Volume) -> bool:
        """Whether the volume is chosen, by its tag or by the window's selector."""
        return self.name in named_by_tag(volume.tags) or self.selects(volume)

    def selects(self, volume: Volume) -> bool:
        """Whether the volume fits the window's selector; no volume fits none."""
        if self.sizes_gib is not None and volume.size_gib not in self.sizes_gib:
            return False
        for key, value in self.tags:
            has = volume.tags.get(key)
            if has is None or (value is not None and value != has):
                return False
        return bool(self.tags or self.sizes_gib)


Windows = tuple[Window, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadPolicy:
    """How early to flip. AWS promises no duration: these are estimates, to be set from what is measured.

    The EBS user guide says minutes to hours, up to about 6 h for a fully used 1 TiB, and sometimes over 24 h.
    """

    least: timedelta = field(
        default=timedelta(minutes=15), metadata={"parse": parse_span, "says": "for a volume of any size"}
    )
    per_tib: timedelta = field(
        default=timedelta(hours=6), metadata={"parse": parse_span, "says": "added for each TiB"}
    )
    reserve: timedelta = field(
        default=timedelta(minutes=15), metadata={"parse": parse_span, "says": "added for ticks and retries"}
    )
    at_most: timedelta = field(
        default=timedelta(hours=24), metadata={"parse": parse_span, "says": "no volume is flipped earlier"}
    )

    def faults(self) -> list[PolicyFault]:
        """Settings that contradict each other."""
        shortest = self.reserve + self.least
        if shortest < self.at_most <= _LONGEST_LEAD:
            return []
        limits = (
            f"above reserve {format_span(self.reserve)} + least {format_span(self.least)}"
            f" = {format_span(shortest)}, and at most {format_span(_LONGEST_LEAD)}"
        )
        reason = f"{format_span(self.at_most)} must be {limits}"
        return [PolicyFault(path="lead.at_most", message=reason)]


class Phase(StrEnum):
    """Where now lies between the windows of one volume."""

    OUTSIDE = "outside"
    LEADING = "leading"
    INSIDE = "inside"
    BETWEEN = "between"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One time that a window happens."""

    window: str
    span: Span
    by_hand: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowState:
    """What the windows of one volume ask for now.

    ``upcoming`` is the next to start, several when they start together; ``ended`` the last to end, if less
    than the margin ago. ``missed_by`` says how much too late a flip that begins only now would be
    completed for the start it is wanted for; None when it would be in time, or is not wanted.
    """

    phase: Phase
    running: tuple[Occurrence, ...] = ()
    upcoming: tuple[Occurrence, ...] = ()
    ended: Occurrence | None = None
    missed_by: timedelta | None = None

    @property
    def wants_flip(self) -> bool:
        return self.phase in (Phase.LEADING, Phase.INSIDE)

    @property
    def allows_return(self) -> bool:
        return self.phase in (Phase.OUTSIDE, Phase.OVER)


def flip_lead(size_gib: int, policy: LeadPolicy | None = None) -> timedelta:
    """How long before a start to flip: ``reserve + least + per_tib * size``, capped at ``at_most``.

    By default 30 min + 6 h per TiB: 65 min for 100 GiB, 6.5 h for 1 TiB, 24 h from 4,011 GiB up. AWS's
    durations are not linear in the size; the line is meant to lie above most of them.
    """
    p = policy or LeadPolicy()
    return min(p.at_most, p.reserve + p.least + p.per_tib * size_gib / _GIB_PER_TIB)


def expected_flip(size_gib: int, policy: LeadPolicy | None = None) -> timedelta:
    """How long a modification is expected to take: the lead without its reserve for ticks and retries."""
    return flip_lead(size_gib, policy) - (policy or LeadPolicy()).reserve


def expected_words(size_gib: int, policy: LeadPolicy) -> str:
    """How long AWS is expected to take: ``15 min to 3 h 10 min for 500 GiB``."""
    least, most = policy.least, expected_flip(size_gib, policy)
    spans = dict.fromkeys(format_duration(span.total_seconds()) for span in (least, most))
    return f"{' to '.join(spans)} for {size_gib:,} GiB"


def duration_sentence(size_gib: int, policy: LeadPolicy, *, empty_s: float | None, ago_s: float = 0.0) -> str:
    """How long AWS is expected to take, beside how long the credits last, and what helps until then.

    ``empty_s`` is the time until the volume is empty, in seconds; None if it is not draining. More than a day
    is not mentioned. ``ago_s`` is how long ago AWS was asked.
    """
    most_s, took = expected_flip(size_gib, policy).total_seconds(), format_duration(ago_s)
    said = f"AWS is expected to take {expected_words(size_gib, policy)}"
    if ago_s > most_s:
        said = f"AWS was expected to take {expected_words(size_gib, policy)} and has taken {took} so far"
    elif ago_s >= _WORTH_SAYING_S:
        said += f", {took} of which are over"
    if empty_s is None or empty_s > timedelta(days=1).total_seconds():
        return f"{said}."
    left = f"empty in about {format_roughly(empty_s)}" if empty_s > 0 else "its credits are exhausted"
    is_late = ago_s > most_s or empty_s <= most_s - ago_s
    return f"{said}; {left}{'; reduce load until then' if is_late else ''}."


def named_by_tag(tags: Mapping[str, str]) -> frozenset[str]:
    """The windows that a volume's tag names, known or not."""
    text = tags.get(WINDOW)
    return frozenset(_BETWEEN_NAMES.split(text)) - {""} if text else _NO_NAMES


def windows_of(windows: Windows, volume: Volume) -> frozenset[str]:
    """The names of the windows of a volume, those that its tag names and nobody knows included."""
    named = named_by_tag(volume.tags)
    return named.union(window.name for window in windows if window.selects(volume)) if windows else named


def members(window: Window, volumes: Iterable[Volume]) -> list[Volume]:
    """The volumes for which a window holds."""
    return [volume for volume in volumes if window.holds_for(volume)]


def occurrences(window: Window, since: datetime) -> Iterator[Span]:
    """The scheduled occurrences that end after ``since``, in order, as far as ``SEARCH_YEARS`` ahead."""
    spans: Iterable[Span] = ()
    match window.schedule:
        case Recurring() as recurring:
            spans = _recurrences(recurring, since)
        case Span() as span:
            spans = (span,)
    return (span for span in spans if span.end_at > since)


def occurrence_at(window: Window, now: datetime) -> Span | None:
    """The scheduled occurrence that runs at ``now``."""
    first = next(occurrences(window, now), None)
    return first if first and first.start_at <= now else None


def next_occurrence(window: Window, now: datetime) -> Span | None:
    """The first scheduled occurrence that starts after ``now``; looks ``SEARCH_YEARS`` ahead."""
    return next((span for span in occurrences(window, now) if span.start_at > now), None)


def window_state(
    windows: Windows,
    names: Collection[str],
    now: datetime,
    *,
    lead: timedelta,
    expected: timedelta,
    margin: timedelta,
    by_hand: ByHand,
    stopped: Stopped = NONE_STOPPED,
) -> WindowState:
    """What the windows called ``names`` ask for at ``now``; one only started by hand needs no policy.

    A pause is ``between``, not worth a return, when the next start follows within ``lead + margin`` of the
    last end. Otherwise it is ``over`` for ``margin``, then ``outside``, until it is ``leading`` to a start.
    """
    past: list[Occurrence] = []
    running: list[Occurrence] = []
    upcoming: list[Occurrence] = []
    for occurrence in _occurrences_of(windows, names, by_hand, stopped, since=now - margin):
        if upcoming and occurrence.span.start_at > upcoming[0].span.start_at:
            break
        is_over, has_begun = occurrence.span.end_at <= now, occurrence.span.start_at <= now
        (past if is_over else running if has_begun else upcoming).append(occurrence)
    ended = max(past, key=lambda o: o.span.end_at, default=None)
    phase = _phase(now, running, upcoming, ended, lead, margin)
    wanted = {Phase.INSIDE: running, Phase.LEADING: upcoming}.get(phase)
    late = now + expected - wanted[0].span.start_at if wanted else _ZERO
    return WindowState(
        phase=phase,
        running=tuple(running),
        upcoming=tuple(upcoming),
        ended=ended,
        missed_by=late if late > _ZERO else None,
    )


def _phase(
    now: datetime,
    running: Collection[Occurrence],
    upcoming: Sequence[Occurrence],
    ended: Occurrence | None,
    lead: timedelta,
    margin: timedelta,
) -> Phase:
    next_at = upcoming[0].span.start_at if upcoming else UNTIL_STOPPED
    if running:
        return Phase.INSIDE
    if next_at - now <= lead:
        return Phase.LEADING
    if ended and next_at - ended.span.end_at <= lead + margin:
        return Phase.BETWEEN
    return Phase.OVER if ended else Phase.OUTSIDE


def kept_until(
    windows: Windows,
    names: Collection[str],
    now: datetime,
    *,
    pause: timedelta,
    by_hand: ByHand,
    stopped: Stopped = NONE_STOPPED,
) -> datetime | None:
    """When the union of occurrences that runs now, or comes next, ends; it includes pauses up to ``pause``.

    None where nothing comes, or the union goes on for ``KEPT_AT_MOST``; it may be ``UNTIL_STOPPED``.
    """
    end_at: datetime | None = None
    limit_at = now + KEPT_AT_MOST
    for occurrence in _occurrences_of(windows, names, by_hand, stopped, since=now):
        span = occurrence.span
        if end_at is None:
            end_at, limit_at = span.end_at, max(now, span.start_at) + KEPT_AT_MOST
        elif end_at == UNTIL_STOPPED or span.start_at - end_at > pause:
            break
        elif span.start_at > limit_at:
            return None
        end_at = max(end_at, span.end_at)
    return end_at


def stop_until(
    windows: Windows,
    name: str,
    now: datetime,
    *,
    lead: timedelta,
    by_hand: ByHand,
    stopped: Stopped = NONE_STOPPED,
) -> datetime | None:
    """What to record in ``stopped`` to stop what runs now or, if nothing does, the next that is led to.

    What starts later still happens. None where there is nothing to stop: none runs or starts within ``lead``.
    """
    stopped_at: datetime | None = None
    for occurrence in _occurrences_of(windows, {name}, by_hand, stopped, since=now):
        start_at = occurrence.span.start_at
        if stopped_at is None:
            if start_at > now + lead:
                return None
            stopped_at = max(now, start_at)
        if start_at > stopped_at:
            return min(start_at, stopped_at + _JUST_AFTER)
    return stopped_at and stopped_at + _JUST_AFTER


def _occurrences_of(
    windows: Windows, names: Collection[str], by_hand: ByHand, stopped: Stopped, *, since: datetime
) -> Iterator[Occurrence]:
    """What happens of the named windows and ends after ``since``, in the order of the starts."""
    scheduled = [_named(w.name, occurrences(w, since)) for w in windows if w.name in names]
    started = (
        Occurrence(window=name, span=Span(started_at, until or UNTIL_STOPPED), by_hand=True)
        for name, (started_at, until) in by_hand.items()
        if name in names and (until is None or max(started_at, since) < until)
    )
    every = merge(*scheduled, sorted(started, key=_start_of), key=_start_of)
    return (o for o in every if o.window not in stopped or o.span.start_at >= stopped[o.window])


def _named(name: str, spans: Iterable[Span]) -> Iterator[Occurrence]:
    return (Occurrence(window=name, span=span) for span in spans)


def _start_of(occurrence: Occurrence) -> datetime:
    return occurrence.span.start_at


def _recurrences(recurring: Recurring, since: datetime) -> Iterator[Span]:
    """Occurrences from the first that can end after ``since``.

    Where clocks going forward bring two starts closer than the duration, the first ends as the second begins.
    """
    zone, duration = recurring.zone, recurring.duration
    local = (since - duration).astimezone(zone).replace(tzinfo=None)
    days = recurring.cron.days_from(local.date())
    local_starts = (datetime.combine(day, at) for day in days for at in recurring.cron.times)
    starts = (first_instant(start, zone) for start in local_starts if start >= local)
    for start_at, following_at in pairwise(chain(starts, (UNTIL_STOPPED,))):
        if start_at < following_at:
            yield Span(start_at, min(start_at + duration, following_at))


def parse_windows(mapping: Mapping[str, Any]) -> tuple[Windows, list[PolicyFault]]:
    """Read the section ``windows``, names to settings as text; a faulty window is left out."""
    faults: list[PolicyFault] = []
    found = [_read_window(str(name), given, faults) for name, given in mapping.items()]
    return tuple(window for window in found if window), faults


def to_mapping(windows: Windows) -> dict[str, dict[str, str]]:
    """The section that these windows were read from."""
    return {window.name: dict(window.settings) for window in windows}


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the settings of one window and collects what is wrong with them."""

    path: str
    settings: Mapping[str, str]
    faults: list[PolicyFault]

    def read(self, key: str, parse: Callable[[str], Any]) -> Any:
        """The parsed setting; None with a fault where it is missing or wrong."""
        if key not in self.settings:
            return self.reject(f".{key}", "is missing; a window has cron, zone and duration, or from and to")
        try:
            return parse(self.settings[key])
        except ValueError as fault:
            return self.reject(f".{key}", str(fault))

    def read_if_given(self, key: str, parse: Callable[[str], Any]) -> Any:
        return self.read(key, parse) if key in self.settings else None

    def has_any(self, *keys: str) -> bool:
        return not self.settings.keys().isdisjoint(keys)

    def reject(self, key: str, message: str) -> None:
        self.faults.append(PolicyFault(path=f"{self.path}{key}", message=message))


def _read_window(name: str, given: Any, faults: list[PolicyFault]) -> Window | None:
    settings = given if isinstance(given, Mapping) else {}
    texts = {str(key): text if isinstance(text, str) else repr(text) for key, text in settings.items()}
    reader = _Reader(f"windows.{name}", texts, [])
    if not _NAME.fullmatch(name):
        reader.reject("", f"{name!r} is no name; write letters, digits, - and _, at most 63, no - or _ first")
    if not isinstance(given, Mapping) and given not in ("", None):
        reader.reject("", f"{given!r} is no window; indent its settings below it")
    for key in texts.keys() - set(_KEYS):
        reader.reject(f".{key}", f"unknown key; known here: {', '.join(_KEYS)}")
    window = Window(
        name=name,
        schedule=_read_schedule(reader),
        tags=reader.read_if_given("where", _tag_terms) or (),
        sizes_gib=reader.read_if_given("size_gib", _sizes),
        settings=tuple(texts.items()),
    )
    faults += reader.faults
    return None if reader.faults else window


def _read_schedule(reader: _Reader) -> Recurring | Span | None:
    recurs, is_dated = reader.has_any("cron", "duration"), reader.has_any("from", "to")
    if recurs and is_dated:
        reader.reject("", "is both recurring (cron, duration) and dated (from, to); keep one of them")
    elif recurs:
        zone, cron = reader.read("zone", parse_zone), reader.read("cron", parse_cron)
        duration = reader.read("duration", partial(_duration, cron))
        return Recurring(cron=cron, zone=zone, duration=duration) if zone and cron and duration else None
    elif is_dated:
        zone = reader.read_if_given("zone", parse_zone) or (UTC if reader.has_any("zone") else None)
        start_at = reader.read("from", partial(_instant, zone))
        end_at = reader.read("to", partial(_end, zone, start_at))
        return Span(start_at, end_at) if start_at and end_at else None
    elif reader.has_any("zone"):
        reader.reject(".zone", "has nothing to apply to; add cron and duration, or from and to")
    return None


def _duration(cron: Cron | None, text: str) -> timedelta:
    duration = parse_span(text)
    if not _SHORTEST <= duration <= _LONGEST_RECURRING:
        limits = f"from {format_span(_SHORTEST)} to {format_span(_LONGEST_RECURRING)}"
        raise ValueError(f"{text!r} must be {limits}; for longer write from and to")
    if cron and (wait := cron.wait_below(duration)):
        reason = f"{text!r} is longer than the {format_span(wait)} from one start to the next"
        raise ValueError(f"{reason}: the window overlaps itself; shorten it or start less often")
    return duration


def _instant(zone: tzinfo | None, text: str) -> datetime:
    """The instant in UTC; without an offset the text is a time on the clocks of ``zone``."""
    try:
        at = datetime.fromisoformat(text) if _INSTANT.fullmatch(text) else None
    except ValueError:
        at = None
    if at is None:
        raise ValueError(
            f"{text!r} is no instant; write 2026-11-20T18:00 and zone, or 2026-11-20T18:00+01:00"
        )
    if at.tzinfo:
        return at.astimezone(UTC)
    if zone is None:
        raise ValueError(f"{text!r} has no time zone; add the setting zone, or an offset such as +01:00")
    return first_instant(at, zone)


def _end(zone: tzinfo | None, start_at: datetime | None, text: str) -> datetime:
    end_at = _instant(zone, text)
    if start_at and not start_at < end_at <= start_at + _LONGEST_DATED:
        limit = f"after from ({start_at.isoformat()}) by at most {format_span(_LONGEST_DATED)}"
        raise ValueError(f"{text!r} is {end_at.isoformat()}, but must be {limit}")
    return end_at


def _tag_terms(text: str) -> tuple[tuple[str, str | None], ...]:
    terms = [(term.strip(), _TAG_TERM.fullmatch(term.strip())) for term in text.split(",")]
    if wrong := [term for term, match in terms if not match]:
        raise ValueError(f"{wrong[0]!r} chooses nothing; write tag:KEY=VALUE or tag:KEY, with commas between")
    return tuple((m[1].strip(), m[2] and m[2].strip()) for _, m in terms if m)


def _sizes(text: str) -> range:
    match = _SIZES.fullmatch(text)
    sizes = range(int(match[1]), int(match[2]) + 1) if match else range(0)
    if not sizes:
        raise ValueError(f"{text!r} is no range of sizes; write the least and the most GiB, such as 100-500")
    return sizes

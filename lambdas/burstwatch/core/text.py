"""Text for people: instants, durations and dollars, and text from outside that is made safe to show."""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import accumulate
from typing import Final
from unicodedata import category, east_asian_width

_COMBINING_MARKS: Final = frozenset({"Mn", "Me"})
_MAX_MARKS: Final = 2
"""A judgement: enough for ordinary text; more marks would overlap other lines."""
_INVISIBLE: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that Unicode calls printable and that no one can see."""

HALF_CENT_USD: Final = 0.005
"""Less than this is nothing when it is rounded to cents."""


def format_instant(at_s: float) -> str:
    """ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(int(at_s), tz=UTC).isoformat().replace("+00:00", "Z")


def instant_or_none(at_s: float | None) -> str | None:
    """The instant as ``format_instant`` writes it; None without an instant."""
    return None if at_s is None else format_instant(at_s)


def rounded_or_none(value: float | None) -> int | None:
    """The nearest whole number; None if there is no value."""
    return None if value is None else round(value)


def tenths_or_none(value: float | None) -> float | None:
    """Rounded to one digit; None if there is no value."""
    return None if value is None else round(value, 1)


def format_clock(at_s: float) -> str:
    """The hour and minute, UTC."""
    return datetime.fromtimestamp(at_s, tz=UTC).strftime("%H:%M")


def format_duration(seconds: float) -> str:
    """A duration for people: ``45 s``, ``11 min``, ``2 h 05 min``, ``3 d 4 h``; fractions are cut off."""
    whole = int(seconds)
    if whole < 120:  # noqa: PLR2004 - two minutes
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 120:  # noqa: PLR2004 - two hours
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:  # noqa: PLR2004 - two days
        return f"{hours} h {minutes:02d} min"
    return f"{hours // 24} d {hours % 24} h"


def format_time(at_s: float, now_s: float) -> str:
    """``18:13``, UTC; with its day if that is not today: ``08:50 Mon``, ``08:50 4 Jan 2027``."""
    at, now = (datetime.fromtimestamp(instant_s, tz=UTC) for instant_s in (at_s, now_s))
    if at.date() == now.date():
        return f"{at:%H:%M}"
    if abs((at.date() - now.date()).days) < 7:  # noqa: PLR2004 - a week: farther off, a weekday is ambiguous
        return f"{at:%H:%M %a}"
    return f"{at:%H:%M} {at.day} {at:%b}{'' if at.year == now.year else f' {at.year}'}"


def format_rounded_duration(seconds: float) -> str:
    """A duration, rounded: ``14 min``, ``19 h``, ``12 d``; at least 1 min."""
    minutes = max(1, round(seconds / 60))
    if minutes < 120:  # noqa: PLR2004 - two hours
        return f"{minutes} min"
    hours = round(seconds / 3600)
    return f"{hours} h" if hours < 48 else f"{round(seconds / 86_400):,} d"  # noqa: PLR2004 - two days


def format_relative_time(at_s: float, now_s: float, zone: str = "") -> str:
    """A moment, relative first: ``in 14 min (18:13)``, ``in 19 h (08:50 Mon)``, ``3 min ago (18:02)``.

    ``zone`` follows the time of day, for texts that do not state otherwise that their times are in UTC.
    """
    distance = format_rounded_duration(abs(at_s - now_s))
    relative = f"in {distance}" if at_s > now_s else f"{distance} ago"
    if abs(at_s - now_s) < 30:  # noqa: PLR2004 - half a minute
        relative = "now"
    return f"{relative} ({format_time(at_s, now_s)}{zone and ' '}{zone})"


def format_until(at_s: float, now_s: float) -> str:
    """How long something lasts: ``for 58 min (until 14:39 UTC)``; ``until 14:39 UTC, which has passed``."""
    if at_s <= now_s:
        return f"until {format_time(at_s, now_s)} UTC, which has passed"
    return f"for {format_rounded_duration(at_s - now_s)} (until {format_time(at_s, now_s)} UTC)"


def format_usd(usd: float, *, decimals: int | None = None) -> str:
    """Dollars for people: ``$1,234.50``, ``-$3.00``; less than half a cent with four digits: ``$0.0012``.

    ``decimals`` is the number of digits after the point, if the text needs another one.
    """
    digits = decimals if decimals is not None else 2 if abs(usd) >= HALF_CENT_USD or not usd else 4
    return f"{'-' if usd < 0 else ''}${abs(usd):,.{digits}f}"


def format_count(count: int, noun: str, plural: str | None = None) -> str:
    """``1 volume``, ``3,000 volumes``; ``plural`` is that of a noun which does not take a plain s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def sanitise(text: str, limit: int) -> str:
    """The text on one line, without anything that a terminal acts on; at most ``limit`` characters.

    White space becomes single spaces. Control characters, direction marks, zero-width and other invisible
    characters become ``?``; a letter keeps at most two marks. A text that is cut ends with ``…``.
    """
    line = " ".join(text.split())
    if not (line.isascii() and line.isprintable()):
        line = _replace_unprintable(line)
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _replace_unprintable(line: str) -> str:
    characters: list[str] = []
    marks = 0
    for character in line:
        marks = marks + 1 if category(character) in _COMBINING_MARKS else 0
        if marks <= _MAX_MARKS:
            characters.append(character if character.isprintable() and character not in _INVISIBLE else "?")
    return "".join(characters)


def display_width(text: str) -> int:
    """How many columns of a terminal the text takes: wide characters two, marks none."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def wrap(parts: Iterable[str], width: int, *, breaks_words: bool = True) -> list[str]:
    """Lines of at most ``width`` columns, broken between words; only a longer word is broken inside.

    Without ``breaks_words``, a longer word has a longer line of its own, so that a path can be copied.
    """
    lines: list[str] = []
    line = ""
    for word in parts:
        joined = f"{line} {word}" if line else word
        if display_width(joined) <= width:
            line = joined
            continue
        *full, rest = _break_word(word, width) if breaks_words else [word]
        lines += [line, *full] if line else full
        line = rest
    return [*lines, line]


def _character_width(character: str) -> int:
    if category(character) in _COMBINING_MARKS:
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def _break_word(word: str, width: int) -> list[str]:
    pieces: list[str] = []
    while display_width(word) > width:
        fitting_count = sum(used_width <= width for used_width in accumulate(map(_character_width, word)))
        pieces.append(word[:fitting_count])
        word = word[fitting_count:]
    return [*pieces, word]

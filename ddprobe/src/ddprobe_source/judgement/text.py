"""Text and numbers: JSON, names that others chose, durations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

MAX_NAME_LENGTH: Final = 64


def json_text(value: object) -> str:
    """Write a value as JSON on one line: the standard module costs ten more files to read at start."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(round(value, 6)) if abs(value) < 1e15 else "null"  # noqa: PLR2004 - and so for inf and nan
    if isinstance(value, str):
        return json_string(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json_string(str(k))}: {json_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(json_text(item) for item in value) + "]"
    raise TypeError(f"no JSON for {type(value).__name__}")


def json_string(text: str) -> str:
    """Quote; everything outside printable ASCII becomes an escape, so that no reader can be led astray."""
    written = []
    for char in text:
        code = ord(char)
        if char in '"\\':
            written.append("\\" + char)
        elif 0x20 <= code < 0x7F:  # noqa: PLR2004 - printable ASCII
            written.append(char)
        elif code <= 0xFFFF:  # noqa: PLR2004 - one UTF-16 unit
            written.append(f"\\u{code:04x}")
        else:
            code -= 0x10000
            written.append(f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}")
    return '"' + "".join(written) + '"'


def sanitise(raw: bytes | str, max_length: int = MAX_NAME_LENGTH) -> str:
    """Show a name that others chose: no control characters, not longer than it may be."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    return "".join(char if char.isprintable() else "?" for char in text.strip())[:max_length]


def parse_integer(text: str) -> int | None:
    """Read a number that the kernel counted, of 64 bits at most; None for what is none."""
    digits = text.strip()
    digits = digits.removeprefix("-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 20  # noqa: PLR2004 - 2**64
    return int(text) if is_number else None


def parse_number(text: str, below: float = 1e9) -> float | None:
    """Read a number from 0 up to a limit; None for what is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < below else None  # and so neither inf nor nan


def is_port(text: str) -> bool:
    """Whether this is the number of a port."""
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536  # noqa: PLR2004 - ports


def format_duration(seconds: float) -> str:
    """Three figures and a unit."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 180 else f"{seconds / 60:.0f} min"  # noqa: PLR2004 - three minutes


def sum_counts(pairs: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    """Sum the counts of each name, in the order in which the names appear."""
    counts: dict[Any, int] = {}
    for name, count in pairs:
        counts[name] = counts.get(name, 0) + count
    return counts


def median(values: Sequence[float]) -> float:
    """Middle one; the lower of two."""
    return sorted(values)[(len(values) - 1) // 2]

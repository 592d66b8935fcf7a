"""The keys in the bytes that a terminal sends."""

import re
from typing import Final

_NAMES: Final = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x03": "ctrl-c",
    "\x1b": "escape",
    "\x7f": "backspace",
    "\b": "backspace",
    "A": "up",
    "B": "down",
    "H": "home",
    "F": "end",
    "1~": "home",
    "4~": "end",
    "5~": "page up",
    "6~": "page down",
}
"""By control character, or by what follows ESC [ or ESC O. Source: xterm, "PC-Style Function Keys"."""

_SEQUENCE: Final = re.compile(r"\x1b[\[O]([0-9;]*[A-Za-z~])|(.)", re.DOTALL)


def read_keys(data: bytes) -> list[str]:
    """The keys in what was sent at once: ``up``, ``enter``, or the character itself.

    A sequence that is not known counts as nothing, so that none of its characters is taken for a key.
    """
    text = data.decode(errors="ignore")
    keys = (
        _NAMES.get(match[1]) if match[1] else _NAMES.get(match[2], match[2])
        for match in _SEQUENCE.finditer(text)
    )
    return [key for key in keys if key]

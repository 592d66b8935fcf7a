"""Alerts as a few plain lines on a terminal, or on whatever the stream leads to."""

import os
import re
from collections.abc import Mapping
from typing import Final, TextIO

from burstwatch.adapters.notify.channel import ChannelError, body_lines, readable
from burstwatch.core.alerts.alert import Alert, action_label, further_commands, is_command, title, urgency
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.sparkline import GAP, GLYPHS
from burstwatch.core.text import fill, format_instant

_COLUMNS: Final = 80
_INDENT: Final = "  "
_BEFORE_OPTION: Final = re.compile(r" (?=--)")
_PLAINER: Final = str.maketrans(GLYPHS + GAP, "_.-=*# ")
_COLOURS: Final = {
    Level.OK: "32",
    Level.WATCH: "36",
    Level.WARNING: "33",
    Level.CRITICAL: "1;31",
    Level.EXHAUSTED: "1;37;41",
}


class TerminalChannel:
    """Writes each alert to a stream, in colour only on a terminal that wants it (https://no-color.org)."""

    name: Final = "terminal"

    def __init__(self, stream: TextIO, *, environ: Mapping[str, str] = os.environ) -> None:
        self._stream = stream
        self._in_colour = (
            stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"
        )

    def send(self, alert: Alert) -> None:
        lines = render(alert)
        if self._in_colour:
            lines[0] = _coloured(lines[0], urgency(alert))
        try:
            self._stream.write(_encodable("\n".join(lines) + "\n", self._stream))
            self._stream.flush()
        except (OSError, ValueError) as error:
            message = f"the alert could not be written ({error}): send the output to an open terminal or file"
            raise ChannelError(message, is_permanent=True) from error


def render(alert: Alert) -> list[str]:
    """The lines of one alert, the word for its level first; 80 columns, but for a long runbook address."""
    shown = readable(alert)
    first, *rest = fill(title(shown).split(), _COLUMNS - len(_INDENT))
    lines = list(rest)
    for sentence in body_lines(shown):
        lines += fill(sentence.split(), _COLUMNS - len(_INDENT))
    if shown.action:
        lines += [
            *fill(f"{action_label(shown)}:".split(), _COLUMNS - len(_INDENT)),
            *(f"{_INDENT}{line}" for line in fill_action(shown.action, _COLUMNS - 2 * len(_INDENT))),
        ]
    for label, command in further_commands(shown):
        lines += [
            f"{label}:",
            *(f"{_INDENT}{line}" for line in fill_action(command, _COLUMNS - 2 * len(_INDENT))),
        ]
    if shown.runbook:
        lines.append(f"Runbook: {shown.runbook}")
    lines.append(f"{format_instant(alert.time_s)}, alert {shown.alert_id}")
    return [first, *(f"{_INDENT}{line}" for line in lines)]


def fill_action(action: str, width: int) -> list[str]:
    """An action on lines of at most so many columns; a command stays one for the shell it is pasted into."""
    if not is_command(action):
        return fill(action.split(), width)
    first, *rest = fill(_BEFORE_OPTION.split(action), width - len(_INDENT) - len(" \\"))
    return f" \\\n{2 * _INDENT}".join([first, *rest]).splitlines()


def _coloured(line: str, level: Level) -> str:
    word, colon, rest = line.partition(":")
    return f"\x1b[{_COLOURS[level]}m{word}\x1b[0m{colon}{rest}" if level in _COLOURS else line


def _encodable(text: str, stream: TextIO) -> str:
    """An alert is not lost over a character that the stream's encoding lacks; a picture is drawn plainer."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if GLYPHS.encode(encoding, "ignore").decode(encoding) != GLYPHS:
        text = text.translate(_PLAINER)
    return text.encode(encoding, "replace").decode(encoding)

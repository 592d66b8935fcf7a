"""Alerts as a few plain lines on a terminal or another stream."""

import os
from collections.abc import Mapping
from typing import Final, TextIO

from burstctl.cli.text_layout import wrap_command
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.message import message_from_alert
from burstwatch.core.alerts.alert import Alert, alert_urgency, is_command
from burstwatch.core.assessment.severity import Level
from burstwatch.core.buckets.sparkline import GAP_GLYPH, GLYPHS
from burstwatch.core.text import wrap

_WIDTH: Final = 80  # the width of an ordinary terminal
_INDENT: Final = "  "
_ASCII_GLYPHS: Final = str.maketrans(GLYPHS + GAP_GLYPH, "_.-=*# ")
_COLOURS: Final = {
    Level.OK: "32",
    Level.WATCH: "36",
    Level.WARNING: "33",
    Level.CRITICAL: "1;31",
    Level.EXHAUSTED: "1;37;41",
}


class TerminalChannel:
    """Writes each alert to a stream, in colour only on a terminal without NO_COLOR (https://no-color.org)."""

    name: Final = "terminal"

    def __init__(self, stream: TextIO, *, environ: Mapping[str, str] = os.environ) -> None:
        self._stream = stream
        self._uses_colour = (
            stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"
        )

    def send(self, alert: Alert) -> None:
        lines = render(alert)
        if self._uses_colour:
            lines[0] = _colour(lines[0], alert_urgency(alert))
        try:
            self._stream.write(_encode_safely("\n".join(lines) + "\n", self._stream))
            self._stream.flush()
        except (OSError, ValueError) as error:
            message = (
                f"the alert could not be written ({error}): direct the output to an open terminal or file"
            )
            raise ChannelError(message, is_permanent=True) from error


def render(alert: Alert) -> list[str]:
    """The lines of one alert in the order of a ``ChatMessage``, beginning with its level.

    They have at most 80 columns, except a long address of the runbook.
    """
    message = message_from_alert(alert)
    first, *lines = _wrap_sentence(message.title)
    lines += _wrap_sentence(message.reason)
    if message.action:
        lines += _labelled_command(message.action_label, message.action)
    for line in message.lines:
        lines += _wrap_sentence(line)
    for label, command in message.extra_commands:
        lines += _labelled_command(label, command)
    lines.append(f"Runbook: {dict(message.links)['Runbook']}")
    lines += _wrap_sentence("; ".join(f"{label}: {text}" for label, text in message.facts))
    lines.append(message.footer)
    return [first, *(f"{_INDENT}{line}" for line in lines if line)]


def _wrap_sentence(text: str) -> list[str]:
    return wrap(text.split(), _WIDTH - len(_INDENT))


def _labelled_command(label: str, command: str) -> list[str]:
    lines = wrap_action(command, _WIDTH - 2 * len(_INDENT))
    return [*_wrap_sentence(f"{label}:"), *(f"{_INDENT}{line}" for line in lines)]


def wrap_action(action: str, width: int) -> list[str]:
    """Wrap an action at ``width`` columns; a wrapped command is still one command for a shell."""
    if not is_command(action):
        return wrap(action.split(), width)
    return wrap_command(action, width)


def _colour(line: str, level: Level) -> str:
    word, colon, rest = line.partition(":")
    return f"\x1b[{_COLOURS[level]}m{word}\x1b[0m{colon}{rest}" if level in _COLOURS else line


def _encode_safely(text: str, stream: TextIO) -> str:
    """Replace characters that the stream's encoding lacks; a sparkline is drawn in ASCII."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if GLYPHS.encode(encoding, "ignore").decode(encoding) != GLYPHS:
        text = text.translate(_ASCII_GLYPHS)
    return text.encode(encoding, "replace").decode(encoding)

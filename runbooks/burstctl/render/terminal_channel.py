"""Alerts as a few plain lines on a terminal or another stream."""

import os
from collections.abc import Mapping
from shutil import get_terminal_size
from typing import Final, TextIO

from burstctl.cli.options import Options
from burstctl.cli.styled_text import encode_safely
from burstctl.cli.text_layout import wrap_command
from burstwatch.adapters.notify.channel import ChannelError
from burstwatch.adapters.notify.message import message_from_alert
from burstwatch.core.alerts.alert import Alert, alert_urgency, is_command
from burstwatch.core.assessment.severity import Level
from burstwatch.core.text import wrap

_WIDTH: Final = 80  # the width of an ordinary terminal
_MIN_WIDTH: Final = 40  # a narrower terminal breaks the lines itself
_INDENT: Final = "  "
_NO_OPTIONS: Final = Options()
_COLOURS: Final = {
    Level.OK: "32",
    Level.WATCH: "36",
    Level.WARNING: "33",
    Level.CRITICAL: "1;31",
    Level.EXHAUSTED: "1;37;41",
}


class TerminalChannel:
    """Writes each alert to a stream, in colour only on a terminal without NO_COLOR (https://no-color.org).

    Its commands have the ``options`` that were given: pasted, they use the same ledger.
    """

    name: Final = "terminal"

    def __init__(
        self, stream: TextIO, *, environ: Mapping[str, str] = os.environ, options: Options = _NO_OPTIONS
    ) -> None:
        self._stream = stream
        self._options = options
        self._uses_colour = (
            stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"
        )

    def send(self, alert: Alert) -> None:
        """Write it, and a blank line between it and what comes next."""
        try:
            columns = get_terminal_size().columns if self._stream.isatty() else _WIDTH
            lines = render(alert, min(_WIDTH, max(_MIN_WIDTH, columns)), self._options)
            if self._uses_colour:
                lines[0] = _colour(lines[0], alert_urgency(alert))
            self._stream.write(encode_safely("\n".join(lines) + "\n\n", self._stream))
            self._stream.flush()
        except (OSError, ValueError) as error:
            message = (
                f"the alert could not be written ({error}): direct the output to an open terminal or file"
            )
            raise ChannelError(message, is_permanent=True) from error


def render(alert: Alert, width: int = _WIDTH, options: Options = _NO_OPTIONS) -> list[str]:
    """The lines of one alert in the order of a ``ChatMessage``, beginning with its level.

    They have at most ``width`` columns, except a long address of the runbook.
    """
    message = message_from_alert(alert)
    first, *lines = _wrap_sentence(message.title, width)
    lines += _wrap_sentence(message.reason, width)
    if message.action:
        lines += _labelled_command(message.action_label, options.complete(message.action), width)
    for line in message.lines:
        lines += _wrap_sentence(line, width)
    for label, command in message.extra_commands:
        lines += _labelled_command(label, options.complete(command), width)
    lines.append(f"Runbook: {dict(message.links)['Runbook']}")
    lines += _wrap_sentence("; ".join(f"{label}: {text}" for label, text in message.facts), width)
    lines += _wrap_sentence(message.footer, width)
    return [first, *(f"{_INDENT}{line}" for line in lines if line)]


def _wrap_sentence(text: str, width: int) -> list[str]:
    return wrap(text.split(), width - len(_INDENT))


def _labelled_command(label: str, command: str, width: int) -> list[str]:
    lines = wrap_action(command, width - 2 * len(_INDENT))
    return [*_wrap_sentence(f"{label}:", width), *(f"{_INDENT}{line}" for line in lines)]


def wrap_action(action: str, width: int) -> list[str]:
    """Wrap an action at ``width`` columns; a wrapped command is still one command for a shell."""
    if not is_command(action):
        return wrap(action.split(), width)
    return wrap_command(action, width)


def _colour(line: str, level: Level) -> str:
    word, colon, rest = line.partition(":")
    return f"\x1b[{_COLOURS[level]}m{word}\x1b[0m{colon}{rest}" if level in _COLOURS else line

"""What alert channels have in common: the port, its error, and alerts made safe to show to people."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from burstwatch.core.alerts.alert import Alert, format_sentences
from burstwatch.core.buckets.sparkline import format_balance_history
from burstwatch.core.ebs.display_name import MAX_NAME_WIDTH
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import sanitise

_NAME_KEYS: Final = frozenset({"name", "called", "claim", "namespace", "cluster", "instance_name"})
_MAX_TEXT_CHARS: Final = 600  # the longest text of ours is a few sentences; only text from outside is longer
_MAX_LINES: Final = 25
"""An alert should fit on one screen of a terminal or a telephone."""


class ChannelError(BurstwatchError):
    """A channel did not take an alert; if it ``is_permanent``, a person must act before it will."""

    def __init__(self, message: str, *, is_permanent: bool) -> None:
        super().__init__(message)
        self.is_permanent = is_permanent


class AlertChannel(Protocol):
    """A way to notify people."""

    @property
    def name(self) -> str:
        """The channel's name in the ledger; alerts that wait for another name are not sent here."""
        ...

    def send(self, alert: Alert) -> None:
        """Send the alert.

        Raises:
            ChannelError: the channel did not take it.
        """
        ...


def sanitise_alert(alert: Alert) -> Alert:
    """The alert with every text printable and truncated: for people, not for programs."""
    return replace(
        alert,
        alert_id=_sanitise(alert.alert_id),
        volume_id=_sanitise(alert.volume_id, MAX_NAME_WIDTH),
        volume=_sanitise(alert.volume),
        resource=_sanitise(alert.resource),
        reading=_sanitise(alert.reading),
        forecast=_sanitise(alert.forecast),
        evidence=_sanitise(alert.evidence),
        action=_sanitise(alert.action),
        runbook=_sanitise(alert.runbook),
        console_url=_sanitise(alert.console_url),
    )


def _sanitise(value: Any, max_chars: int = _MAX_TEXT_CHARS) -> Any:
    match value:
        case str():
            return sanitise(value, max_chars)
        case Mapping():
            return {
                k: _sanitise(v, MAX_NAME_WIDTH if k in _NAME_KEYS else max_chars) for k, v in value.items()
            }
        case list() | tuple():
            return [_sanitise(item, max_chars) for item in value]
        case _:
            return value


def reason_and_details(alert: Alert) -> tuple[str, list[str]]:
    """The reason of an alert, and what else it says; the last line counts those left out."""
    reason, *sentences = format_sentences(alert) or [""]
    lines = [*filter(None, [format_balance_history(alert.evidence.get("course"))]), *sentences]
    dropped_count = len(lines) - _MAX_LINES
    return reason, lines if dropped_count <= 0 else [*lines[:_MAX_LINES], f"… and {dropped_count} more"]

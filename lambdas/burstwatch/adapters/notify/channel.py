"""What alert channels have in common: the port, its error, and an alert made fit for people."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from burstwatch.core.alerts.alert import Alert, sentences
from burstwatch.core.buckets.sparkline import course_words
from burstwatch.core.ebs.display_name import LONGEST_NAME
from burstwatch.core.errors import BurstwatchError
from burstwatch.core.text import printable

_NAMES: Final = frozenset({"name", "called", "claim", "namespace", "cluster", "instance_name"})
_LONGEST_TEXT: Final = 600
_MOST_LINES: Final = 25


class ChannelError(BurstwatchError):
    """A channel did not take an alert; when it ``is_permanent``, somebody must act before it will."""

    def __init__(self, message: str, *, is_permanent: bool) -> None:
        super().__init__(message)
        self.is_permanent = is_permanent


class Channel(Protocol):
    """A way to people."""

    @property
    def name(self) -> str:
        """What the ledger knows the channel by; what waits for another name is not sent here."""
        ...

    def send(self, alert: Alert) -> None:
        """Hand the alert over.

        Raises:
            ChannelError: the channel did not take it.
        """
        ...


def readable(alert: Alert) -> Alert:
    """The alert with every text in it printable and short: for people, not for programs."""
    return replace(
        alert,
        alert_id=_clean(alert.alert_id),
        volume_id=_clean(alert.volume_id, LONGEST_NAME),
        volume=_clean(alert.volume),
        reading=_clean(alert.reading),
        forecast=_clean(alert.forecast),
        evidence=_clean(alert.evidence),
        action=_clean(alert.action),
        runbook=_clean(alert.runbook),
        console_url=_clean(alert.console_url),
    )


def _clean(value: Any, longest: int = _LONGEST_TEXT) -> Any:
    match value:
        case str():
            return printable(value, longest)
        case Mapping():
            return {k: _clean(v, LONGEST_NAME if k in _NAMES else longest) for k, v in value.items()}
        case list() | tuple():
            return [_clean(item, longest) for item in value]
        case _:
            return value


def body_lines(alert: Alert) -> list[str]:
    """How the balance went, and the sentences of a readable alert; the last line counts those too many."""
    said = [*filter(None, [course_words(alert.evidence.get("course"))]), *sentences(alert)]
    more = len(said) - _MOST_LINES
    return said if more <= 0 else [*said[:_MOST_LINES], f"… and {more} more"]

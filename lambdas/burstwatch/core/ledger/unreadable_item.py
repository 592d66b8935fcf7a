"""An item of the ledger that cannot be read: what it is, and what a person can do about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from burstwatch.core.resource_type import is_resource_id, resource_id_in


class ItemKind(StrEnum):
    """What an item of the ledger is."""

    STATE = "state"
    HOLD = "hold"
    WINDOW = "window"
    ALERT = "alert"
    ENTRY = "history entry"
    TICK = "tick"
    CHANNELS = "list of channels"
    TOTALS = "total"
    LAYOUT = "layout"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableItem:
    """An item of the ledger that cannot be read. It stays as it is, and never counts as absent.

    ``subject`` is the volume, window, channel or schedule that it is about; ``key`` is its place in the
    ledger. ``revision`` and ``content`` are those of a state, as far as they can be read.
    """

    kind: ItemKind
    subject: str
    key: str
    reason: str
    revision: int | None = None
    content: str = ""

    def __str__(self) -> str:
        sentence = (
            f"the {self.kind} of {self.subject} in the ledger ({self.key}) cannot be read: {self.reason};"
        )
        next_step = _NEXT_STEPS[self.kind].replace("RESOURCE", resource_id_in(self.subject))
        return f"{sentence} {next_step.replace('RELEASE', release_command(self.subject))}"


def release_command(subject: str) -> str:
    """The command that releases a resource, or everything if this is not the ID of one."""
    return f"burstctl release {subject if is_resource_id(subject) else '--all'}"


_USE_NEWEST_VERSION: Final = "use the newest burstwatch that ever wrote to this ledger"
_NEXT_STEPS: Final[Mapping[ItemKind, str]] = {
    ItemKind.STATE: (
        f"the resource is not evaluated or modified: {_USE_NEWEST_VERSION}, or give up what is remembered of"
        " it with burstctl release RESOURCE"
    ),
    ItemKind.HOLD: "everything is held until RELEASE",
    ItemKind.WINDOW: "it flips no volume until burstctl window start or stop is run again",
    ItemKind.ALERT: f"it is kept and not sent: {_USE_NEWEST_VERSION}",
    ItemKind.ENTRY: f"it is left out: {_USE_NEWEST_VERSION}",
    ItemKind.TICK: "it is treated as absent: everything is swept",
    ItemKind.CHANNELS: "it counts as empty and is written again with the channels in use",
    ItemKind.LAYOUT: f"the ledger is used as one of this version: {_USE_NEWEST_VERSION}",
    ItemKind.TOTALS: "it is counted again from the states: nothing to do, unless this is reported again",
}

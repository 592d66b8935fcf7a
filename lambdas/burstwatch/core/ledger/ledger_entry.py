"""The history of a volume: one entry for each thing that happened to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

FLEET: Final = "*"
"""The subject of entries about everything, such as a hold on no volume in particular."""


class EntryKind(StrEnum):
    """What an entry of the ledger reports. The values are stored and public."""

    LEVEL_CHANGED = "level_changed"
    ALERT = "alert"
    DELIVERED = "delivered"
    POLICY_REJECTED = "policy_rejected"
    INTENT = "intent"
    ACCEPTED = "accepted"
    UNCLEAR = "unclear"
    NOT_DONE = "not_done"
    FAILED = "failed"
    REACHED = "reached"
    STAYED = "stayed"
    STAY_EXTENDED = "kept"
    RESTORED = "restored"
    REFUSED = "refused"
    STUCK = "stuck"
    LEFT_ON_TARGET = "left_on_target"
    CHANGED_BY_OTHERS = "changed_by_others"
    HELD = "held"
    RELEASED = "released"
    WINDOW = "window"
    STALL = "stall"
    ACTING = "acting"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One line of a volume's history; never changed once written."""

    volume_id: str
    revision: int
    kind: EntryKind
    at_s: int
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """What distinguishes it from other entries of the same volume, revision and kind."""
        return " ".join(str(self.body[key]) for key in ("alert_id", "channel") if key in self.body)

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "volume_id": self.volume_id,
            "revision": self.revision,
            "kind": self.kind,
            "at_s": self.at_s,
            "body": self.body,
        }


def delivered_entry(
    alert_id: str,
    volume_id: str,
    *,
    revision: int,
    at_s: int,
    channel: str,
    attempts: int,
    last_error: str | None,
    message_id: str,
) -> LedgerEntry:
    """The entry about an alert that a channel took, in the message ``message_id``: itself, or a digest."""
    body = {
        "alert_id": alert_id,
        "channel": channel,
        "attempts": attempts,
        "last_error": last_error,
        "digest_id": None if alert_id == message_id else message_id,
    }
    return LedgerEntry(volume_id=volume_id, revision=revision, kind=EntryKind.DELIVERED, at_s=at_s, body=body)

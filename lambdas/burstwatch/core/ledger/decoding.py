"""Reading back what a ledger keeps, item by item: one that cannot be read hides no other."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from burstwatch.core import stored_values
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.ledger.flip_state import Hold, WindowMark
from burstwatch.core.ledger.ledger import (
    EntryKind,
    ItemKind,
    LedgerEntry,
    States,
    Unreadable,
    VolumeState,
    is_volume_id,
    release_command,
)
from burstwatch.core.stored_values import UNREADABLE
from burstwatch.core.text import printable

T = TypeVar("T")

EVERYTHING: Final = "*"
"""What a hold on no volume in particular is filed under."""

_NO_END_S: Final = stored_values.FARTHEST_S - 1
_LONGEST_WHY: Final = 120
_LONGEST_CONTENT: Final = 4_000
_NO_VERSION: Final = "no version of burstwatch writes this"


class Unread:
    """What one ledger object came across and could not read, each item once."""

    def __init__(self) -> None:
        self._found: dict[str, Unreadable] = {}

    def add(self, one: Unreadable) -> None:
        self._found[one.key] = one

    def forget(self, key: str) -> None:
        """Do not report an item that was removed or replaced since."""
        self._found.pop(key, None)

    def take(self) -> list[Unreadable]:
        """Those since the last call."""
        found, self._found = self._found, {}
        return list(found.values())

    def read(self, kind: ItemKind, subject: Any, key: str, read: Callable[[], T]) -> T | None:
        """What ``read`` gives; None where it cannot be read, which is noted."""
        try:
            return read()
        except UNREADABLE as error:
            self.add(unreadable(kind, subject, key, error))
            return None


def unreadable(kind: ItemKind, subject: Any, key: str, error: Exception, **more: Any) -> Unreadable:
    """An item that cannot be read, in words that are safe to print."""
    said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__} {error}"
    why = printable(said, _LONGEST_WHY) or _NO_VERSION
    return Unreadable(kind=kind, subject=_word(subject), key=printable(key, _LONGEST_WHY), why=why, **more)


StoredState: TypeAlias = tuple[Any, Any, Any]
"""The volume id, revision and body of a state, before anything of it is believed."""


def read_states(items: Sequence[StoredState], key_of: Callable[[Any], str]) -> States:
    """By volume id; the JSON of all is read at once if it can be, as one by one takes twice as long."""
    documents = _documents(items)
    found: dict[str, VolumeState] = {}
    unread: list[Unreadable] = []
    for item, document in zip(items, documents, strict=True):
        volume_id, revision, _ = item
        try:
            if isinstance(document, Exception):
                raise document
            state = VolumeState.from_document(document)
            if state.volume_id != volume_id or state.revision != revision:
                raise ValueError(f"it is filed as {volume_id!r} at revision {revision!r}")
            found[volume_id] = state
        except UNREADABLE as error:
            unread.append(_unread_state(item, key_of(volume_id), error))
    return States(dict(sorted(found.items())), unread)


def _documents(items: Sequence[StoredState]) -> Sequence[Any]:
    """The JSON of each body, or why that cannot be read."""
    try:
        documents = json.loads(f"[{','.join(body for _, _, body in items)}]")
    except UNREADABLE:
        documents = ()
    return documents if len(documents) == len(items) else [_document(body) for _, _, body in items]


def _document(body: Any) -> Any:
    try:
        return json.loads(body)
    except UNREADABLE as error:
        return error


def _unread_state(item: StoredState, key: str, error: Exception) -> Unreadable:
    volume_id, revision, body = item
    content = printable(body if isinstance(body, str) else repr(body), _LONGEST_CONTENT)
    known = revision if type(revision) is int else None
    return unreadable(ItemKind.STATE, volume_id, key, error, revision=known, content=content)


def read_hold(subject: Any, row: Mapping[str, Any], *, key: str, unread: Unread) -> Hold:
    """A hold; one that cannot be read holds everything, until its end if that can be told."""

    def read() -> Hold:
        return Hold(
            volume_id=None if subject == EVERYTHING else stored_values.text(subject),
            by=stored_values.text(row["placed_by"]),
            reason=stored_values.text(row["reason"]),
            placed_at_s=stored_values.instant(row["placed_at_s"]),
            until_s=stored_values.instant(row["until_s"]),
        )

    hold = unread.read(ItemKind.HOLD, subject, key, read)
    if hold is not None:
        return hold
    try:
        until_s = stored_values.instant(row["until_s"])
    except UNREADABLE:
        until_s = _NO_END_S
    what = "everything" if subject == EVERYTHING else _word(subject)
    ends_it = release_command(_word(subject))
    reason = f"the hold on {what} cannot be read, so it holds everything; {ends_it} ends it"
    damaged = what if is_volume_id(what) else None
    return Hold(
        volume_id=None, by="burstwatch", reason=reason, placed_at_s=0, until_s=until_s, damaged=damaged
    )


def read_mark(name: Any, row: Mapping[str, Any], *, key: str, unread: Unread) -> WindowMark:
    """What was last said of a window by hand; not ``is_known`` where that cannot be read."""

    def read() -> WindowMark:
        if row["starts"] not in (0, 1):
            raise ValueError(f"starts is {row['starts']!r}")
        return WindowMark(
            name=stored_values.text(name),
            starts=bool(row["starts"]),
            by=stored_values.text(row["marked_by"]),
            at_s=stored_values.instant(row["at_s"]),
            until_s=stored_values.or_none(stored_values.instant)(row.get("until_s")),
        )

    mark = unread.read(ItemKind.WINDOW, name, key, read)
    return mark or WindowMark(name=_word(name), starts=False, by="burstwatch", at_s=0, is_known=False)


def read_entry(volume_id: str, row: Mapping[str, Any], *, key: str, unread: Unread) -> LedgerEntry | None:
    """A line of a history; None where it cannot be read, such as one of a kind that came later."""

    def read() -> LedgerEntry:
        entry = LedgerEntry(
            volume_id=volume_id,
            revision=stored_values.whole(row["revision"]),
            kind=EntryKind(row["kind"]),
            at_s=stored_values.instant(row["at_s"]),
            body=stored_values.mapping(json.loads(row["body"])),
        )
        if entry.kind is EntryKind.ALERT and "kind" in entry.body:
            Alert.from_document(entry.body)
        return entry

    return unread.read(ItemKind.ENTRY, volume_id, key, read)


def read_alert(document: Any, volume_id: Any) -> Alert:
    """An alert on its way.

    Raises:
        one of ``UNREADABLE``: no version of burstwatch writes this.
    """
    alert = Alert.from_document(stored_values.mapping(json.loads(document)))
    return replace(alert, volume_id=stored_values.or_none(stored_values.text)(volume_id))


def _word(subject: Any) -> str:
    return printable(subject if isinstance(subject, str) else repr(subject), _LONGEST_WHY)

"""Read back what a ledger stores, item by item: an unreadable item does not affect the others."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from burstwatch.core import stored_values
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.ledger.flip_state import NO_END_S, Hold, ManualWindowOverride
from burstwatch.core.ledger.ledger import States
from burstwatch.core.ledger.ledger_entry import FLEET, EntryKind, LedgerEntry
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.ledger.unreadable_item import ItemKind, UnreadableItem, release_command
from burstwatch.core.resource_type import is_resource_id
from burstwatch.core.stored_values import DECODE_ERRORS
from burstwatch.core.text import sanitise

T = TypeVar("T")

_MAX_REASON_CHARS: Final = 120
"""A judgement: a reason is shown on one line."""
_MAX_CONTENT_CHARS: Final = 4_000
"""A judgement: enough for any state that burstwatch wrote, and short enough for a history entry."""
_UNKNOWN_FORMAT: Final = "no version of burstwatch writes this"


class UnreadableItems:
    """The items that one ledger object found and could not read, each item once."""

    def __init__(self) -> None:
        self._items: dict[str, UnreadableItem] = {}

    def add(self, item: UnreadableItem) -> None:
        self._items[item.key] = item

    def discard(self, key: str) -> None:
        """Do not report an item that was removed or replaced since."""
        self._items.pop(key, None)

    def take_all(self) -> list[UnreadableItem]:
        """Those since the last call."""
        items, self._items = self._items, {}
        return list(items.values())

    def try_read(self, kind: ItemKind, subject: Any, key: str, read: Callable[[], T]) -> T | None:
        """The result of ``read``; None, and the item is noted, if it cannot be read."""
        try:
            return read()
        except DECODE_ERRORS as error:
            self.add(make_unreadable(kind, subject, key, error))
            return None


def make_unreadable(
    kind: ItemKind, subject: Any, key: str, error: Exception, **fields: Any
) -> UnreadableItem:
    """An item that cannot be read, described in text that is safe to print."""
    message = str(error) if isinstance(error, ValueError) else f"{type(error).__name__} {error}"
    reason = sanitise(message, _MAX_REASON_CHARS) or _UNKNOWN_FORMAT
    return UnreadableItem(
        kind=kind,
        subject=_format_subject(subject),
        key=sanitise(key, _MAX_REASON_CHARS),
        reason=reason,
        **fields,
    )


StoredState: TypeAlias = tuple[Any, Any, Any]
"""The volume id, revision and body of a state, before anything of it is believed."""


def read_states(items: Sequence[StoredState], key_of: Callable[[Any], str]) -> States:
    """By volume id; the JSON of all is read at once if it can be, as one by one takes twice as long."""
    documents = _parse_bodies(items)
    states: dict[str, ResourceState] = {}
    unreadable_items: list[UnreadableItem] = []
    for item, document in zip(items, documents, strict=True):
        volume_id, revision, _ = item
        try:
            if isinstance(document, Exception):
                raise document
            state = ResourceState.from_document(document)
            if state.volume_id != volume_id or state.revision != revision:
                raise ValueError(f"it is filed as {volume_id!r} at revision {revision!r}")
            states[volume_id] = state
        except DECODE_ERRORS as error:
            unreadable_items.append(_unreadable_state(item, key_of(volume_id), error))
    return States(dict(sorted(states.items())), unreadable_items)


def _parse_bodies(items: Sequence[StoredState]) -> Sequence[Any]:
    """The JSON of each body, or why that cannot be read."""
    try:
        documents = json.loads(f"[{','.join(body for _, _, body in items)}]")
    except DECODE_ERRORS:
        documents = ()
    return documents if len(documents) == len(items) else [_parse_body(body) for _, _, body in items]


def _parse_body(body: Any) -> Any:
    try:
        return json.loads(body)
    except DECODE_ERRORS as error:
        return error


def _unreadable_state(item: StoredState, key: str, error: Exception) -> UnreadableItem:
    volume_id, revision, body = item
    content = sanitise(body if isinstance(body, str) else repr(body), _MAX_CONTENT_CHARS)
    known_revision = revision if type(revision) is int else None
    return make_unreadable(ItemKind.STATE, volume_id, key, error, revision=known_revision, content=content)


def read_hold(subject: Any, row: Mapping[str, Any], *, key: str, unreadable_items: UnreadableItems) -> Hold:
    """A hold; an unreadable one holds everything, until its end if that can be read."""

    def read() -> Hold:
        return Hold(
            volume_id=None if subject == FLEET else stored_values.read_text(subject),
            by=stored_values.read_text(row["placed_by"]),
            reason=stored_values.read_text(row["reason"]),
            placed_at_s=stored_values.read_instant(row["placed_at_s"]),
            until_s=stored_values.read_instant(row["until_s"]),
        )

    hold = unreadable_items.try_read(ItemKind.HOLD, subject, key, read)
    if hold is not None:
        return hold
    try:
        until_s = stored_values.read_instant(row["until_s"])
    except DECODE_ERRORS:
        until_s = NO_END_S
    held_subject = "everything" if subject == FLEET else _format_subject(subject)
    release = release_command(_format_subject(subject))
    reason = f"the hold on {held_subject} cannot be read, so it holds everything; {release} ends it"
    damaged_volume_id = held_subject if is_resource_id(held_subject) else None
    return Hold(
        volume_id=None,
        by="burstwatch",
        reason=reason,
        placed_at_s=0,
        until_s=until_s,
        damaged_volume_id=damaged_volume_id,
    )


def read_manual_override(
    name: Any, row: Mapping[str, Any], *, key: str, unreadable_items: UnreadableItems
) -> ManualWindowOverride:
    """The last manual start or stop of a window; not ``is_readable`` if it cannot be read."""

    def read() -> ManualWindowOverride:
        if row["starts"] not in (0, 1):
            raise ValueError(f"starts is {row['starts']!r}")
        return ManualWindowOverride(
            name=stored_values.read_text(name),
            is_start=bool(row["starts"]),
            by=stored_values.read_text(row["marked_by"]),
            at_s=stored_values.read_instant(row["at_s"]),
            until_s=stored_values.or_none(stored_values.read_instant)(row.get("until_s")),
        )

    override = unreadable_items.try_read(ItemKind.WINDOW, name, key, read)
    return override or ManualWindowOverride(
        name=_format_subject(name), is_start=False, by="burstwatch", at_s=0, is_readable=False
    )


def read_entry(
    volume_id: str, row: Mapping[str, Any], *, key: str, unreadable_items: UnreadableItems
) -> LedgerEntry | None:
    """An entry of a history; None if it cannot be read, for example if a later version wrote it."""

    def read() -> LedgerEntry:
        entry = LedgerEntry(
            volume_id=volume_id,
            revision=stored_values.read_count(row["revision"]),
            kind=EntryKind(row["kind"]),
            at_s=stored_values.read_instant(row["at_s"]),
            body=stored_values.read_mapping(json.loads(row["body"])),
        )
        if entry.kind is EntryKind.ALERT and "kind" in entry.body:
            Alert.from_document(entry.body)
        return entry

    return unreadable_items.try_read(ItemKind.ENTRY, volume_id, key, read)


def read_alert(document: Any, volume_id: Any) -> Alert:
    """An alert on its way.

    Raises:
        one of ``DECODE_ERRORS``: no version of burstwatch writes this.
    """
    alert = Alert.from_document(stored_values.read_mapping(json.loads(document)))
    return replace(alert, volume_id=stored_values.or_none(stored_values.read_text)(volume_id))


def _format_subject(subject: Any) -> str:
    return sanitise(subject if isinstance(subject, str) else repr(subject), _MAX_REASON_CHARS)

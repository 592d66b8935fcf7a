"""What waits in the DynamoDB ledger to be sent: claims, deliveries, and digests in place of many alerts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from math import inf
from os import urandom
from time import time_ns
from typing import Final

from burstwatch.adapters.ledger.dynamodb_items import (
    Told,
    about,
    delivery_item,
    entry_item,
    parse_alert,
    readable_delivery,
    waiting_key,
    without,
)
from burstwatch.adapters.ledger.dynamodb_table import (
    ABSENT,
    MOST_ACTIONS,
    PRESENT,
    Condition,
    Item,
    Key,
    Table,
    delete,
    put,
    unchanged,
    update,
)
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.ledger.decoding import Unread
from burstwatch.core.ledger.ledger import Delivery, EntryKind, LedgerEntry

_FREE: Final = (
    "attribute_exists(pk) AND attribute_not_exists(draft_until_s)"
    " AND (attribute_not_exists(claimed_until_s) OR claimed_until_s <= :now)"
    " AND (attribute_not_exists(sent_in) OR sent_in = :given_up)"
)
_UNTOUCHED: Final = (
    "attribute_exists(pk) AND attempts = :none AND (attribute_not_exists(sent_in) OR sent_in = :given_up)"
)
_NO_BUNDLE: Final = "none"
_DRAFT_S: Final = 60.0
"""How long a bundle may be in the making before others take its parts back."""


class Outbox:
    """One item for each alert and channel, gone when the channel has taken it.

    A digest may take the place of more alerts than a transaction takes items, so it does in three steps: a
    draft of it, which is not sent; each part bound to this bundle; the draft published, in one write. A draft
    that its maker left is given up by whoever wants one of its parts. Bundles have names that never come
    again, so what was given up can never be published: no alert is lost or told twice in any race.

    An item that cannot be read is left where it is, as if it were not there; the parts of a digest that
    cannot be read go out by themselves.
    """

    def __init__(self, table: Table, *, owner: str, clock: Callable[[], float], unread: Unread) -> None:
        self._table = table
        self._owner = owner
        self._clock = clock
        self._unread = unread

    def waiting(self, channels: Sequence[str]) -> list[Delivery]:
        asked, now_s = list(dict.fromkeys(channels)), self._clock()
        listed = zip(asked, self._table.each(self._items, asked), strict=True)
        found = [
            (item["time_s"], item["told_ns"], channel, item)
            for channel, items in listed
            for item in items.values()
            if "draft_until_s" not in item and not _is_bundled(item, items, now_s)
        ]
        return [
            Delivery(alert=parse_alert(item), channel=channel, attempts=item["attempts"])
            for _, _, channel, item in sorted(found, key=lambda each: each[:2])
        ]

    def claim(self, delivery: Delivery, *, now_s: float, lease_s: float) -> bool:
        key = _key(delivery)
        given_up, tries = _NO_BUNDLE, count()
        taken = {":me": self._owner, ":until": now_s + lease_s, ":one": 1}
        while True:
            claimed = update(
                key,
                "SET claimed_by = :me, claimed_until_s = :until REMOVE sent_as, sent_in ADD attempts :one",
                taken,
                Condition(_FREE, {":now": now_s, ":given_up": given_up}),
            )
            if not self._table.write([claimed]):
                return True
            found = self._table.get(key)
            if found is None or "draft_until_s" in found or found.get("claimed_until_s", now_s) > now_s:
                return False
            if not self._give_up(found):
                return False
            given_up = found.get("sent_in", _NO_BUNDLE)
            self._table.pause(next(tries), "an alert changed hands")

    def not_delivered(self, delivery: Delivery, *, error: str) -> None:
        given_back = update(
            _key(delivery),
            "SET last_error = :error REMOVE claimed_by, claimed_until_s",
            {":error": error},
            Condition("claimed_by = :me", {":me": self._owner}),
        )
        self._table.write([given_back])

    def delivered(self, delivery: Delivery, *, at_s: int) -> None:
        """Record it of every part, and of the digest last: one that stops half-way is sent again."""
        key = _key(delivery)
        sent = self._table.get(key)
        if sent is None or not readable_delivery(sent, self._unread):
            return
        is_alone = not {"bundle", "sent_in"} & sent.keys()
        items = {key[1]: sent} if is_alone else self._items(delivery.channel)
        sent_with = [item for item in items.values() if _root(item, items)["sk"] == key[1]]
        sent_with.sort(key=lambda item: (item["sk"] == key[1], item["told_ns"]))
        clock = count(time_ns())
        told = [_done(item, sent, delivery.channel, at_s=at_s, told_ns=next(clock)) for item in sent_with]
        *parts, last = _in_transactions(told) or [[]]
        self._table.each(self._do, parts)
        self._do(last)

    def bundle(self, alert_ids: Iterable[str], digest: Alert, channel: str) -> None:
        """All or nothing: a digest that names an alert already sent would send it twice."""
        items, now_s = self._items(channel), self._clock()
        self._tidy(items.values(), now_s)
        wanted = set(alert_ids)
        parts = [item for item in items.values() if item["sk"] in wanted and _is_new(item, items, now_s)]
        if not wanted or len(parts) < len(wanted):
            return
        name = urandom(8).hex()
        draft = delivery_item(digest, channel, revision=0, told_ns=time_ns())
        draft |= {"bundle": name, "draft_until_s": now_s + _DRAFT_S}
        is_free = Condition("attribute_not_exists(pk) OR draft_until_s <= :now", {":now": now_s})
        if not self._table.put(draft, is_free):
            return
        key, is_mine = (draft["pk"], draft["sk"]), Condition("bundle = :mine", {":mine": name})
        if self._bind(parts, draft):
            self._table.write([update(key, "REMOVE draft_until_s", {}, is_mine)])
        else:
            self._table.write([delete(key, is_mine)])

    def _tidy(self, items: Iterable[Item], now_s: float) -> None:
        """Remove the drafts that were left: one whose parts went out by themselves has nobody else to."""
        for item in items:
            if item.get("draft_until_s", inf) <= now_s:
                self._drop(item)

    def _bind(self, parts: Sequence[Item], draft: Item) -> bool:
        """Bind each part to the bundle, or say that one is not to be had."""
        if not all(self._give_up(part) for part in parts):
            return False
        bound = [
            update(
                (part["pk"], part["sk"]),
                "SET sent_as = :digest, sent_in = :bundle",
                {":digest": draft["sk"], ":bundle": draft["bundle"]},
                Condition(_UNTOUCHED, {":none": 0, ":given_up": part.get("sent_in", _NO_BUNDLE)}),
            )
            for part in parts
        ]
        chunks = [bound[first : first + MOST_ACTIONS] for first in range(0, len(bound), MOST_ACTIONS)]
        return not any(self._table.each(self._table.write, chunks))

    def _give_up(self, item: Item) -> bool:
        """Make sure that the bundle an item is bound to is never published; False while that may be."""
        if "sent_in" not in item:
            return True
        key, now_s = (item["pk"], item["sent_as"]), self._clock()
        while True:
            digest = self._table.get(key)
            if digest is None or digest.get("bundle") != item["sent_in"]:
                return True
            if not readable_delivery(digest, self._unread):
                return True
            if digest.get("draft_until_s", inf) > now_s:
                return False
            self._drop(digest)

    def _drop(self, draft: Item) -> None:
        """Remove a draft, unless it was published meanwhile, or made anew."""
        is_same = unchanged(draft, "bundle", "draft_until_s")
        self._table.write([delete((draft["pk"], draft["sk"]), is_same)])

    def _items(self, channel: str) -> dict[str, Item]:
        items = self._table.query(waiting_key(channel))
        return {item["sk"]: item for item in items if readable_delivery(item, self._unread)}

    def _do(self, told: Sequence[Told]) -> None:
        """Do what another process has not done before."""
        left = list(told)
        while left and (failed := self._table.write([action for each in left for action in each.actions])):
            left = without(left, failed)


def _key(delivery: Delivery) -> Key:
    return waiting_key(delivery.channel), delivery.alert.alert_id


def _digest_of(item: Item, items: Mapping[str, Item]) -> Item | None:
    """The digest that an alert is bound to, published or in the making."""
    digest = items.get(item.get("sent_as", ""))
    return digest if digest is not None and digest.get("bundle") == item["sent_in"] else None


def _is_bundled(item: Item, items: Mapping[str, Item], now_s: float) -> bool:
    """Whether it goes out in a digest; one that stayed a draft for too long is none."""
    digest = _digest_of(item, items)
    return digest is not None and digest.get("draft_until_s", inf) > now_s


def _is_new(item: Item, items: Mapping[str, Item], now_s: float) -> bool:
    return "draft_until_s" not in item and item["attempts"] == 0 and not _is_bundled(item, items, now_s)


def _root(item: Item, items: Mapping[str, Item]) -> Item:
    """What is sent for this alert: itself, its digest, or the digest that this one is in."""
    while digest := _digest_of(item, items):
        item = digest
    return item


def _done(item: Item, sent: Item, channel: str, *, at_s: int, told_ns: int) -> Told:
    """That it is out of the outbox, and in the history of its volume."""
    gone = delete((item["pk"], item["sk"]), PRESENT)
    if "volume_id" not in item:
        return Told(gone)
    body = {
        "alert_id": item["sk"],
        "channel": channel,
        "attempts": sent["attempts"],
        "last_error": sent.get("last_error"),
        "digest_id": None if item["sk"] == sent["sk"] else sent["sk"],
    }
    entry = LedgerEntry(
        volume_id=item["volume_id"],
        revision=item["revision"],
        kind=EntryKind.DELIVERED,
        at_s=at_s,
        body=body,
    )
    return Told(gone, (put(entry_item(entry, about=about(entry), told_ns=told_ns), ABSENT),))


def _in_transactions(told: Sequence[Told]) -> list[list[Told]]:
    """In order, as many together as a transaction takes."""
    found: list[list[Told]] = []
    room = 0
    for each in told:
        if len(each.actions) > room:
            found.append([])
            room = MOST_ACTIONS
        found[-1].append(each)
        room -= len(each.actions)
    return found

"""The outbox of the DynamoDB ledger: claims, deliveries, and digests that replace many alerts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from math import inf
from os import urandom
from time import time_ns
from typing import Final

from burstwatch.adapters.ledger.dynamodb_items import (
    ActionGroup,
    delivery_item,
    drop_failed,
    entry_item,
    format_json,
    is_readable_delivery,
    parse_alert,
    waiting_key,
)
from burstwatch.adapters.ledger.dynamodb_table import (
    IF_ABSENT,
    IF_PRESENT,
    MAX_ACTIONS,
    Condition,
    Item,
    Key,
    Table,
    delete,
    if_unchanged,
    put,
    update,
)
from burstwatch.core.alerts.alert import Alert
from burstwatch.core.ledger.decoding import UnreadableItems
from burstwatch.core.ledger.ledger import Delivery
from burstwatch.core.ledger.ledger_entry import delivered_entry

_IF_CLAIMABLE: Final = (
    "attribute_exists(pk) AND attribute_not_exists(draft_until_s)"
    " AND (attribute_not_exists(claimed_until_s) OR claimed_until_s <= :now)"
    " AND (attribute_not_exists(sent_in) OR sent_in = :given_up)"
)
_IF_UNTOUCHED: Final = (
    "attribute_exists(pk) AND attempts = :none AND (attribute_not_exists(sent_in) OR sent_in = :given_up)"
)
_NO_BUNDLE: Final = "none"
_DRAFT_LEASE_S: Final = 60.0
"""How long the draft of a digest may exist before others may cancel it."""


class Outbox:
    """One item for each alert and channel, which is removed when the channel has taken the alert.

    A digest may replace more alerts than a transaction has actions, so it is made in three steps. A draft is
    written, which is not sent; each part is bound to it; the draft is published in one write. A process that
    needs a part of an abandoned draft cancels the draft. The names of drafts are unique, so a cancelled draft
    can never be published: no alert is lost or sent twice in any race.

    An item that cannot be read is kept and ignored; the parts of a digest that cannot be read are sent one by
    one.
    """

    def __init__(
        self, table: Table, *, owner: str, clock: Callable[[], float], unreadable_items: UnreadableItems
    ) -> None:
        self._table = table
        self._owner = owner
        self._clock = clock
        self._unreadable_items = unreadable_items

    def pending_deliveries(self, channels: Sequence[str]) -> list[Delivery]:
        channel_names, now_s = list(dict.fromkeys(channels)), self._clock()
        listed = zip(channel_names, self._table.map_parallel(self._read_items, channel_names), strict=True)
        rows = [
            (item["time_s"], item["told_ns"], channel, item)
            for channel, items in listed
            for item in items.values()
            if "draft_until_s" not in item and not _is_in_digest(item, items, now_s)
        ]
        return [
            Delivery(alert=parse_alert(item), channel=channel, attempts=item["attempts"])
            for _, _, channel, item in sorted(rows, key=lambda row: row[:2])
        ]

    def claim_delivery(self, delivery: Delivery, *, now_s: float, lease_s: float) -> bool:
        key = _delivery_key(delivery)
        cancelled_bundle, tries = _NO_BUNDLE, count()
        values = {":me": self._owner, ":until": now_s + lease_s, ":one": 1}
        while True:
            claim_action = update(
                key,
                "SET claimed_by = :me, claimed_until_s = :until REMOVE sent_as, sent_in ADD attempts :one",
                values,
                Condition(_IF_CLAIMABLE, {":now": now_s, ":given_up": cancelled_bundle}),
            )
            if not self._table.write([claim_action]):
                return True
            current = self._table.get(key)
            if current is None or "draft_until_s" in current or current.get("claimed_until_s", now_s) > now_s:
                return False
            if not self._cancel_digest(current):
                return False
            cancelled_bundle = current.get("sent_in", _NO_BUNDLE)
            self._table.pause(next(tries), "an alert changed hands")

    def mark_undelivered(self, delivery: Delivery, *, error: str) -> None:
        release_action = update(
            _delivery_key(delivery),
            "SET last_error = :error REMOVE claimed_by, claimed_until_s",
            {":error": error},
            Condition("claimed_by = :me", {":me": self._owner}),
        )
        self._table.write([release_action])

    def mark_delivered(self, delivery: Delivery, *, at_s: int) -> None:
        """Record the delivery of every part, and of the digest last: after a crash it is sent again."""
        key = _delivery_key(delivery)
        sent_item = self._table.get(key)
        if sent_item is None or not is_readable_delivery(sent_item, self._unreadable_items):
            return
        is_single = not {"bundle", "sent_in"} & sent_item.keys()
        items = {key[1]: sent_item} if is_single else self._read_items(delivery.channel)
        covered_items = [item for item in items.values() if _sent_item(item, items)["sk"] == key[1]]
        covered_items.sort(key=lambda item: (item["sk"] == key[1], item["told_ns"]))
        clock = count(time_ns())
        groups = [
            _delivered_group(item, sent_item, delivery.channel, at_s=at_s, sequence_ns=next(clock))
            for item in covered_items
        ]
        *parts, last_group = _split_into_transactions(groups) or [[]]
        self._table.map_parallel(self._apply_groups, parts)
        self._apply_groups(last_group)

    def replace_with_digest(self, alert_ids: Iterable[str], digest: Alert, channel: str) -> None:
        """Replace all of these alerts or none: a digest with an alert that was sent would send it twice."""
        items, now_s = self._read_items(channel), self._clock()
        self._remove_stale_drafts(items.values(), now_s)
        wanted_ids = set(alert_ids)
        parts = [item for item in items.values() if item["sk"] in wanted_ids and _is_new(item, items, now_s)]
        if not wanted_ids or len(parts) < len(wanted_ids):
            return
        name = urandom(8).hex()
        document = format_json(digest.to_document())
        draft = delivery_item(digest, document, channel, revision=0, sequence_ns=time_ns())
        draft |= {"bundle": name, "draft_until_s": now_s + _DRAFT_LEASE_S}
        if_free = Condition("attribute_not_exists(pk) OR draft_until_s <= :now", {":now": now_s})
        if not self._table.put(draft, if_free):
            return
        key, if_own = (draft["pk"], draft["sk"]), Condition("bundle = :mine", {":mine": name})
        if self._bind_parts(parts, draft):
            self._table.write([update(key, "REMOVE draft_until_s", {}, if_own)])
        else:
            self._table.write([delete(key, if_own)])

    def _remove_stale_drafts(self, items: Iterable[Item], now_s: float) -> None:
        """Remove abandoned drafts; if all parts of a draft were sent one by one, nothing else would."""
        for item in items:
            if item.get("draft_until_s", inf) <= now_s:
                self._remove_draft(item)

    def _bind_parts(self, parts: Sequence[Item], draft: Item) -> bool:
        """Bind each part to the draft; False if one of them is not available."""
        if not all(self._cancel_digest(part) for part in parts):
            return False
        bind_actions = [
            update(
                (part["pk"], part["sk"]),
                "SET sent_as = :digest, sent_in = :bundle",
                {":digest": draft["sk"], ":bundle": draft["bundle"]},
                Condition(_IF_UNTOUCHED, {":none": 0, ":given_up": part.get("sent_in", _NO_BUNDLE)}),
            )
            for part in parts
        ]
        chunks = [
            bind_actions[offset : offset + MAX_ACTIONS] for offset in range(0, len(bind_actions), MAX_ACTIONS)
        ]
        return not any(self._table.map_parallel(self._table.write, chunks))

    def _cancel_digest(self, item: Item) -> bool:
        """Ensure that the draft to which an item is bound is never published; False while it may be."""
        if "sent_in" not in item:
            return True
        key, now_s = (item["pk"], item["sent_as"]), self._clock()
        while True:
            digest = self._table.get(key)
            if digest is None or digest.get("bundle") != item["sent_in"]:
                return True
            if not is_readable_delivery(digest, self._unreadable_items):
                return True
            if digest.get("draft_until_s", inf) > now_s:
                return False
            self._remove_draft(digest)

    def _remove_draft(self, draft: Item) -> None:
        """Remove a draft, unless it has been published or replaced."""
        if_same = if_unchanged(draft, "bundle", "draft_until_s")
        self._table.write([delete((draft["pk"], draft["sk"]), if_same)])

    def _read_items(self, channel: str) -> dict[str, Item]:
        items = self._table.query(waiting_key(channel))
        return {item["sk"]: item for item in items if is_readable_delivery(item, self._unreadable_items)}

    def _apply_groups(self, groups: Sequence[ActionGroup]) -> None:
        """Apply the groups that no other process has applied."""
        remaining = list(groups)
        while remaining and (
            failed := self._table.write([action for group in remaining for action in group.actions])
        ):
            remaining = drop_failed(remaining, failed)


def _delivery_key(delivery: Delivery) -> Key:
    return waiting_key(delivery.channel), delivery.alert.alert_id


def _digest_of(item: Item, items: Mapping[str, Item]) -> Item | None:
    """The digest or draft to which an alert is bound."""
    digest = items.get(item.get("sent_as", ""))
    return digest if digest is not None and digest.get("bundle") == item["sent_in"] else None


def _is_in_digest(item: Item, items: Mapping[str, Item], now_s: float) -> bool:
    """Whether an alert is sent in a digest; a draft that is too old does not count."""
    digest = _digest_of(item, items)
    return digest is not None and digest.get("draft_until_s", inf) > now_s


def _is_new(item: Item, items: Mapping[str, Item], now_s: float) -> bool:
    return "draft_until_s" not in item and item["attempts"] == 0 and not _is_in_digest(item, items, now_s)


def _sent_item(item: Item, items: Mapping[str, Item]) -> Item:
    """What is sent for this alert: itself, its digest, or the digest that contains that one."""
    while digest := _digest_of(item, items):
        item = digest
    return item


def _delivered_group(
    item: Item, sent_item: Item, channel: str, *, at_s: int, sequence_ns: int
) -> ActionGroup:
    """The actions that remove an alert from the outbox and add the delivery to the volume's history."""
    delete_action = delete((item["pk"], item["sk"]), IF_PRESENT)
    if "volume_id" not in item:
        return ActionGroup(delete_action)
    entry = delivered_entry(
        item["sk"],
        item["volume_id"],
        revision=item["revision"],
        at_s=at_s,
        channel=channel,
        attempts=sent_item["attempts"],
        last_error=sent_item.get("last_error"),
        message_id=sent_item["sk"],
    )
    put_action = put(entry_item(entry, fingerprint=entry.fingerprint, sequence_ns=sequence_ns), IF_ABSENT)
    return ActionGroup(delete_action, (put_action,))


def _split_into_transactions(groups: Sequence[ActionGroup]) -> list[list[ActionGroup]]:
    """Split groups, in order, into transactions of at most ``MAX_ACTIONS`` actions."""
    transactions: list[list[ActionGroup]] = []
    remaining_actions = 0
    for group in groups:
        if len(group.actions) > remaining_actions:
            transactions.append([])
            remaining_actions = MAX_ACTIONS
        transactions[-1].append(group)
        remaining_actions -= len(group.actions)
    return transactions

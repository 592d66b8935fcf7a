"""Which volume types a zone or an Outpost does not have: what AWS's API does not show before it refuses.

A first-generation Outpost has gp2 and io1 only, some Local Zones have no gp3, and no call lists what a place
has. So gp3 and io2 count as unavailable on every Outpost, and elsewhere once AWS has refused one. The ledger
remembers that as a history entry of the place, for a week, because AWS may add the type. If AWS accepts the
type there, because a person overrides the guard, that is remembered as well and counts more.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from burstwatch.core import stored_values
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.decoding import make_unreadable
from burstwatch.core.ledger.ledger import Change
from burstwatch.core.ledger.ledger_entry import EntryKind, LedgerEntry
from burstwatch.core.ledger.unreadable_item import ItemKind, UnreadableItem
from burstwatch.core.stored_values import DECODE_ERRORS
from burstwatch.core.text import format_instant

REFUSAL_MEMORY_S: Final = 7 * 24 * 3600
"""A refusal older than this is forgotten: the next flip asks AWS again."""

_MAX_CLOCK_SKEW_S: Final = 120
"""A refusal dated further ahead of now than clocks may differ is damage: it would block flips until then."""

_OUTPOST_REASONS: Final = {
    kind: f"{kind} does not exist on every Outpost (a first-generation one has gp2 and io1 only), and AWS"
    " does not say which generation this one is"
    for kind in (VolumeType.GP3, VolumeType.IO2)
}


def placement_of(volume: Volume) -> str | None:
    """The Outpost or else the zone of a volume, as its refusals are filed; None if AWS names neither."""
    if volume.outpost_arn:
        return f"outpost {volume.outpost_arn.rpartition('/')[2]}"
    return f"zone {volume.zone}" if volume.zone else None


def remember_refusal(volume: Volume, kind: VolumeType, reason: str, now_s: float) -> Change | None:
    """What to commit after AWS has refused a type where this volume is; None if the place is not known."""
    return _remember(volume, EntryKind.REFUSED, {"volume_type": str(kind), "reason": reason}, now_s)


def remember_acceptance(volume: Volume, kind: VolumeType, now_s: float) -> Change | None:
    """What to commit after AWS has accepted a type that it had refused where this volume is."""
    return _remember(volume, EntryKind.ACCEPTED, {"volume_type": str(kind)}, now_s)


def _remember(volume: Volume, kind: EntryKind, body: Mapping[str, str], now_s: float) -> Change | None:
    if (placement := placement_of(volume)) is None:
        return None
    entry = LedgerEntry(
        volume_id=placement,
        revision=int(now_s),
        kind=kind,
        at_s=int(now_s),
        body={**body, "volume_id": volume.volume_id},
    )
    return Change(volume_id=placement, expected_revision=None, state=None, entries=(entry,))


def readable_refusals(
    entries: Iterable[LedgerEntry], now_s: float
) -> tuple[list[LedgerEntry], list[UnreadableItem]]:
    """The refusals in the history of a place that hold, and the entries that cannot be read.

    A refusal no longer holds if AWS has accepted the type since. No entry hides another.
    """
    refusals: list[LedgerEntry] = []
    accepted_at_s: dict[str, int] = {}
    unreadable_items: list[UnreadableItem] = []
    for entry in entries:
        try:
            _check_entry(entry, now_s)
            volume_type = entry.body["volume_type"]
            if entry.kind is EntryKind.REFUSED:
                refusals.append(entry)
            else:
                accepted_at_s[volume_type] = max(entry.at_s, accepted_at_s.get(volume_type, 0))
        except DECODE_ERRORS as error:
            key = f"history of {entry.volume_id}, {entry.kind} at {entry.at_s}, revision {entry.revision}"
            unreadable_items.append(make_unreadable(ItemKind.ENTRY, entry.volume_id, key, error))
    standing = [entry for entry in refusals if entry.at_s > accepted_at_s.get(entry.body["volume_type"], 0)]
    return standing, unreadable_items


def _check_entry(entry: LedgerEntry, now_s: float) -> None:
    """Raise one of ``DECODE_ERRORS`` for what ``_remember`` never writes."""
    if entry.kind not in (EntryKind.REFUSED, EntryKind.ACCEPTED):
        raise ValueError(
            f"it is of kind {entry.kind}, and a place has only {EntryKind.REFUSED} and {EntryKind.ACCEPTED}"
        )
    VolumeType(stored_values.read_text(entry.body["volume_type"]))
    if entry.at_s > now_s + _MAX_CLOCK_SKEW_S:
        raise ValueError(f"it is dated {entry.at_s}, and now is {int(now_s)}")


def unavailable_types(volume: Volume, refusals: Iterable[LedgerEntry]) -> Mapping[VolumeType, str]:
    """Each type that does not exist where the volume is, with the reason.

    ``refusals`` are those of its place, from ``readable_refusals``.
    """
    reasons = dict(_OUTPOST_REASONS) if volume.outpost_arn else {}
    for entry in refusals:
        kind = VolumeType(entry.body["volume_type"])
        until = format_instant(entry.at_s + REFUSAL_MEMORY_S)
        reasons[kind] = (
            f"AWS refused {kind} in {placement_of(volume)} at {format_instant(entry.at_s)}, which is"
            f" remembered until {until}"
        )
    return reasons

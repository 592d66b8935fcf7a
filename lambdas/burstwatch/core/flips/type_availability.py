"""Which volume types a zone or an Outpost does not have: what AWS's API does not tell before it refuses.

A first-generation Outpost has gp2 and io1 only, some Local Zones have no gp3, and no call lists what a place
has. So gp3 and io2 count as unavailable on every Outpost, and elsewhere once AWS has refused one: the ledger
remembers that as a history entry of the place, for a week, because AWS may add the type.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from burstwatch.core import stored_values
from burstwatch.core.ebs.pricing import VolumeType
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.decoding import unreadable
from burstwatch.core.ledger.ledger import Change, EntryKind, ItemKind, LedgerEntry, Unreadable
from burstwatch.core.stored_values import UNREADABLE
from burstwatch.core.text import format_instant

REMEMBERED_FOR_S: Final = 7 * 24 * 3600
"""A refusal older than this is forgotten: the next flip asks AWS again."""

_CLOCKS_DIFFER_S: Final = 120
"""A refusal dated further ahead of now than clocks may differ is damage: it would block flips until then."""

_ON_AN_OUTPOST: Final = {
    kind: f"{kind} does not exist on every Outpost (a first-generation one has gp2 and io1 only), and AWS"
    " does not say which generation this one is"
    for kind in (VolumeType.GP3, VolumeType.IO2)
}


def location_of(volume: Volume) -> str | None:
    """The Outpost or else the zone of a volume, as its refusals are filed; None where AWS names neither."""
    if volume.outpost_arn:
        return f"outpost {volume.outpost_arn.rpartition('/')[2]}"
    return f"zone {volume.zone}" if volume.zone else None


def remember_refusal(volume: Volume, kind: VolumeType, said: str, now_s: float) -> Change | None:
    """What to commit after AWS has refused a type where this volume is; None where the place is not known."""
    if (location := location_of(volume)) is None:
        return None
    entry = LedgerEntry(
        volume_id=location,
        revision=int(now_s),
        kind=EntryKind.REFUSED,
        at_s=int(now_s),
        body={"volume_type": str(kind), "volume_id": volume.volume_id, "reason": said},
    )
    return Change(volume_id=location, expected_revision=None, state=None, entries=(entry,))


def readable_refusals(
    entries: Iterable[LedgerEntry], now_s: float
) -> tuple[list[LedgerEntry], list[Unreadable]]:
    """The refusals in the history of a place, and the entries there that are not one; none hides another."""
    found: list[LedgerEntry] = []
    bad: list[Unreadable] = []
    for entry in entries:
        try:
            _check_refusal(entry, now_s)
            found.append(entry)
        except UNREADABLE as error:
            key = f"history of {entry.volume_id}, {entry.kind} at {entry.at_s}, revision {entry.revision}"
            bad.append(unreadable(ItemKind.ENTRY, entry.volume_id, key, error))
    return found, bad


def _check_refusal(entry: LedgerEntry, now_s: float) -> None:
    """Raise one of ``UNREADABLE`` for what ``remember_refusal`` never writes."""
    if entry.kind is not EntryKind.REFUSED:
        raise ValueError(f"it is of kind {entry.kind}, and a place has only {EntryKind.REFUSED}")
    VolumeType(stored_values.text(entry.body["volume_type"]))
    if entry.at_s > now_s + _CLOCKS_DIFFER_S:
        raise ValueError(f"it is dated {entry.at_s}, and now is {int(now_s)}")


def unavailable_types(volume: Volume, refusals: Iterable[LedgerEntry]) -> Mapping[VolumeType, str]:
    """Each type that does not exist where the volume is, with the reason.

    ``refusals`` are those of its place, from ``readable_refusals``.
    """
    found = dict(_ON_AN_OUTPOST) if volume.outpost_arn else {}
    for entry in refusals:
        kind = VolumeType(entry.body["volume_type"])
        until = format_instant(entry.at_s + REMEMBERED_FOR_S)
        found[kind] = (
            f"AWS refused {kind} in {location_of(volume)} at {format_instant(entry.at_s)}, which is"
            f" remembered until {until}"
        )
    return found

"""Which volume types a zone or an Outpost does not have: what AWS's API does not tell before it refuses.

A first-generation Outpost has gp2 and io1 only, some Local Zones have no gp3, and no call lists what a place
has. So gp3 and io2 count as unavailable on every Outpost, and elsewhere once AWS has refused one: the ledger
remembers that as a history entry of the place, for a week, because AWS may add the type.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from burstwatch.core.ledger import Change, EntryKind, LedgerEntry
from burstwatch.core.prices import VolumeType
from burstwatch.core.volume import Volume
from burstwatch.core.words import format_instant

REMEMBERED_FOR_S: Final = 7 * 24 * 3600
"""A refusal older than this is forgotten: the next flip asks AWS again."""

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


def unavailable_types(volume: Volume, refusals: Iterable[LedgerEntry]) -> Mapping[VolumeType, str]:
    """Each type that does not exist where the volume is, with the reason; ``refusals`` are its place's."""
    found = dict(_ON_AN_OUTPOST) if volume.outpost_arn else {}
    for entry in refusals:
        if (kind := entry.body.get("volume_type")) in frozenset(VolumeType):
            until = format_instant(entry.at_s + REMEMBERED_FOR_S)
            found[VolumeType(str(kind))] = (
                f"AWS refused {kind} in {location_of(volume)} at {format_instant(entry.at_s)}, which is"
                f" remembered until {until}"
            )
    return found

"""A volume in words."""

import re
from typing import Final

from burstctl.cli.text_layout import LONGEST_SENTENCE
from burstwatch.core.ebs import display_name
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.ledger.ledger import VolumeState
from burstwatch.core.text import format_instant, printable

_BLANKS: Final = re.compile(r"( {2,})")
LONGEST_NAME: Final = display_name.LONGEST_NAME
STATE_NOT_KNOWN: Final = "not known: the ledger's state cannot be read"


def name_of(volume: Volume, longest: int = LONGEST_NAME) -> str:
    """What people call the volume, fit to show in so many columns; empty where nobody has named it."""
    return printable(display_name.name_of(volume, longest) or "", longest)


def id_and_name(volume: Volume) -> str:
    """``vol-0123456789abcdef0 (ci-7)``."""
    name = name_of(volume)
    return f"{volume.volume_id} ({name})" if name else volume.volume_id


def describe_in_a_line(volume: Volume) -> str:
    """Which volume it is: id, name, type, size, and where it is attached."""
    parts = [volume.volume_type, f"{volume.size_gib:,} GiB"]
    if volume.instance_id:
        parts.append(f"on {volume.instance_id}" + (f" as {volume.device}" if volume.device else ""))
    if volume.managed_by:
        parts.append(f"managed by {volume.managed_by}")
    return printable(", ".join([id_and_name(volume), *parts]), LONGEST_SENTENCE)


def level_words(state: VolumeState) -> str:
    """The level that a volume is at, and since when it has been, where it ever changed."""
    since = f" since {format_instant(state.level_since_s)}" if state.level_since_s else ""
    return f"{state.level}{since}"


def inert(line: str) -> str:
    """The line with nothing in it that acts instead of showing; blanks that align it stay."""
    parts = _BLANKS.split(line)
    return "".join(part if _BLANKS.fullmatch(part) else printable(part, LONGEST_SENTENCE) for part in parts)

"""A volume in words, and what other resources have of that."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from burstctl.cli.text_layout import MAX_SENTENCE_LENGTH
from burstwatch.core.assessment.resource import Resource
from burstwatch.core.buckets.units import format_size
from burstwatch.core.ebs import display_name
from burstwatch.core.ebs.volume import Volume
from burstwatch.core.efs.file_system import FileSystem
from burstwatch.core.instances.instance import Instance
from burstwatch.core.ledger.resource_state import ResourceState
from burstwatch.core.resource_type import ResourceType
from burstwatch.core.text import format_count, format_instant, sanitise

MAX_NAME_CHARS: Final = display_name.MAX_NAME_WIDTH
UNREADABLE_STATE: Final = "not known: the ledger's state cannot be read"


def display_name_of(resource: Resource, max_length: int = MAX_NAME_CHARS) -> str:
    """The resource's display name, cut to this many columns; empty if it has no name."""
    if isinstance(resource, Volume):
        return sanitise(display_name.display_name_of(resource, max_length) or "", max_length)
    return sanitise(display_name.shorten(resource.name or "", max_length), max_length)


def format_id_and_name(resource: Resource) -> str:
    """``vol-0123456789abcdef0 (ci-7)``."""
    name = display_name_of(resource)
    return f"{resource.resource_id} ({name})" if name else resource.resource_id


def count_resources(resources: Iterable[Resource]) -> str:
    """``1 volume``, ``12 volumes and 3 instances``; ``0 volumes`` without a resource."""
    counts = Counter(resource.resource_type for resource in resources)
    parts = [format_count(count, kind.noun) for kind in ResourceType if (count := counts[kind])]
    if len(parts) > 2:  # noqa: PLR2004 - commas from three parts on
        parts = [", ".join(parts[:-1]), parts[-1]]
    return " and ".join(parts) or format_count(0, ResourceType.EBS.noun)


def describe_volume(volume: Volume) -> str:
    """Which volume it is: id, name, type, size, and where it is attached."""
    parts = [volume.volume_type, f"{volume.size_gib:,} GiB"]
    if volume.instance_id:
        parts.append(f"on {volume.instance_id}" + (f" as {volume.device}" if volume.device else ""))
    if volume.managed_by:
        parts.append(f"managed by {volume.managed_by}")
    return sanitise(", ".join([format_id_and_name(volume), *parts]), MAX_SENTENCE_LENGTH)


def describe_place(resource: Resource) -> str:
    """Where it is, or what belongs to it: ``i-0a1 as /dev/sdf``, ``2 volumes``, ``100 GiB``."""
    if isinstance(resource, Volume):
        device = f" as {resource.device}" if resource.device else ""
        return f"{resource.instance_id or 'no instance'}{device}"
    if isinstance(resource, Instance):
        return format_count(len(resource.volume_ids), ResourceType.EBS.noun)
    if isinstance(resource, FileSystem):
        return f"{format_size(resource.standard_bytes)} in Standard"
    return f"{resource.allocated_gib:,} GiB of {resource.storage_type}"


def describe_level(state: ResourceState) -> str:
    """The level that a volume is at, and since when it has been, where it ever changed."""
    since = f" since {format_instant(state.level_since_s)}" if state.level_since_s else ""
    return f"{state.level}{since}"

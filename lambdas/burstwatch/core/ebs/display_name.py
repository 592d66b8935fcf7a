"""The name of a volume: given by people, by Kubernetes, or derived from its attachment.

The tags are those of the EBS CSI driver, and of the in-tree volume plugin that Kubernetes had before it. The
tag with the claim exists only if the provisioner was started with ``--extra-create-metadata``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from burstwatch.core.ebs.volume import Volume
from burstwatch.core.text import display_width

MAX_NAME_WIDTH: Final = 40
"""Longer names are shortened in every output: a table with an ID beside it fits into 80 columns."""

_CLAIM_TAG: Final = "kubernetes.io/created-for/pvc/name"
_NAMESPACE_TAG: Final = "kubernetes.io/created-for/pvc/namespace"
_PERSISTENT_VOLUME_TAGS: Final = ("kubernetes.io/created-for/pv/name", "CSIVolumeName")
NAME_TAGS: Final = ("Name", _CLAIM_TAG, *_PERSISTENT_VOLUME_TAGS)
"""The tags whose values ``names_of`` returns, or builds its names from."""

_CLUSTER_TAG: Final = "KubernetesCluster"
_OWNING_CLUSTER_PREFIX: Final = "kubernetes.io/cluster/"

_GENERATED_NAME: Final = re.compile(r"(.*-)?pvc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""``prod-dynamic-pvc-0b1f…``: the Name tag that the driver writes when it creates a volume."""

_MAX_CHARACTERS_PER_COLUMN: Final = 3
"""A letter with two combining marks takes one column; longer text is cut before it is measured."""

_ORDINAL_SUFFIX: Final = re.compile(r"-\d{1,5}$")
"""The number that distinguishes the volumes of one StatefulSet, or the hosts of one role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The Kubernetes claim that a volume was created for; ``namespace`` is None if no tag contains it."""

    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        return f"claim {self.name}" + (f" in {self.namespace}" if self.namespace else "")


def claim_of(volume: Volume) -> Claim | None:
    """The claim that the volume's tags name; None if they name none."""
    name = _tag(volume, _CLAIM_TAG)
    return Claim(name=name, namespace=_tag(volume, _NAMESPACE_TAG)) if name else None


def cluster_of(volume: Volume) -> str | None:
    """The Kubernetes cluster that owns the volume; None unless its tags name exactly one."""
    owning_clusters = {
        key.removeprefix(_OWNING_CLUSTER_PREFIX)
        for key in volume.tags
        if key.startswith(_OWNING_CLUSTER_PREFIX)
    }
    return _tag(volume, _CLUSTER_TAG) or (
        owning_clusters.pop() or None if len(owning_clusters) == 1 else None
    )


def display_name_of(volume: Volume, max_width: int = MAX_NAME_WIDTH) -> str | None:
    """What people call the volume, in at most ``max_width`` columns; None if it has no name.

    It is the Name tag, unless a machine wrote that tag and the claim is known. Then it is the claim, such as
    ``claim data-etcd-0 in kube-system``, or else the persistent volume. The text is as it was tagged: callers
    must sanitise it before they print it.
    """
    forms = _name_forms(volume)
    fitting = next((form for form in forms if display_width(form) <= max_width), None)
    return fitting or (shorten(forms[-1], max_width) if forms else None)


def names_of(volume: Volume) -> frozenset[str]:
    """Every name by which outputs may call the volume, and its Name tag."""
    name = _tag(volume, "Name")
    return frozenset([*_name_forms(volume), *([name] if name else [])])


def format_attachment(device: str | None, instance_id: str | None, instance_name: str | None) -> str | None:
    """Format an attachment from its parts; the instance's name comes last, because it is seldom known."""
    instance = " ".join(filter(None, (instance_id, instance_name)))
    return " on ".join(filter(None, (device, instance))) or None


def shorten(text: str, width: int) -> str:
    """The text in at most ``width`` columns; a cut shows as ``…``, and a number at the end is kept."""
    if display_width(text) <= width:
        return text
    ordinal = _ORDINAL_SUFFIX.search(text)
    end = ordinal[0] if ordinal and len(ordinal[0]) + 1 < width else ""
    start = text.removesuffix(end)[: _MAX_CHARACTERS_PER_COLUMN * width]
    while start and display_width(start) + 1 + len(end) > width:
        start = start[:-1]
    return f"{start.rstrip()}…{end}"


def _name_forms(volume: Volume) -> Sequence[str]:
    """The forms of one name, from the longest to the shortest."""
    name, claim = _tag(volume, "Name"), claim_of(volume)
    if claim is not None and (name is None or _is_generated(volume, name)):
        namespaced = f"{claim.namespace}/{claim.name}" if claim.namespace else claim.name
        return str(claim), namespaced, claim.name
    if name is not None:
        return (name,)
    return tuple(filter(None, (_tag(volume, key) for key in _PERSISTENT_VOLUME_TAGS)))[:1]


def _is_generated(volume: Volume, name: str) -> bool:
    volume_names = [volume_name for key in _PERSISTENT_VOLUME_TAGS if (volume_name := _tag(volume, key))]
    return name.endswith(tuple(volume_names)) or _GENERATED_NAME.fullmatch(name) is not None


def _tag(volume: Volume, key: str) -> str | None:
    return volume.tags.get(key, "").strip() or None

"""What a volume is called: by people, by Kubernetes, or by where it is attached.

The tags are those of the EBS CSI driver and of Kubernetes' own volume plugin before it; the claim is among
them where the provisioner was started with ``--extra-create-metadata``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from burstwatch.core.ebs.volume import Volume
from burstwatch.core.text import display_width

MAX_NAME_WIDTH: Final = 40
"""Longer names are shortened wherever people read them."""

_CLAIM_TAG: Final = "kubernetes.io/created-for/pvc/name"
_NAMESPACE_TAG: Final = "kubernetes.io/created-for/pvc/namespace"
_PERSISTENT_VOLUME_TAGS: Final = ("kubernetes.io/created-for/pv/name", "CSIVolumeName")
_CLUSTER_TAG: Final = "KubernetesCluster"
_OWNING_CLUSTER_PREFIX: Final = "kubernetes.io/cluster/"

_GENERATED_NAME: Final = re.compile(r"(.*-)?pvc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""``prod-dynamic-pvc-0b1f…``: what the driver writes into the Name tag of a volume that it made."""

_MAX_CHARACTERS_PER_COLUMN: Final = 3
"""A letter with two marks on it takes one column: what is longer is cut before it is measured."""

_ORDINAL_SUFFIX: Final = re.compile(r"-\d{1,5}$")
"""What tells the volumes of one StatefulSet apart, and hosts of one role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The claim in Kubernetes that a volume was made for; ``namespace`` is None where no tag tells it."""

    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        return f"claim {self.name}" + (f" in {self.namespace}" if self.namespace else "")


def claim_of(volume: Volume) -> Claim | None:
    """The claim that the volume's tags tell of."""
    name = _tag(volume, _CLAIM_TAG)
    return Claim(name=name, namespace=_tag(volume, _NAMESPACE_TAG)) if name else None


def cluster_of(volume: Volume) -> str | None:
    """The cluster of Kubernetes that owns the volume, where its tags name exactly one."""
    owning_clusters = {
        key.removeprefix(_OWNING_CLUSTER_PREFIX)
        for key in volume.tags
        if key.startswith(_OWNING_CLUSTER_PREFIX)
    }
    return _tag(volume, _CLUSTER_TAG) or (
        owning_clusters.pop() or None if len(owning_clusters) == 1 else None
    )


def display_name_of(volume: Volume, max_width: int = MAX_NAME_WIDTH) -> str | None:
    """What people call the volume, in at most so many columns; None where nobody has named it.

    Its Name tag, unless a machine wrote that and the claim is known; then the claim, such as
    ``claim data-etcd-0 in kube-system``; then the persistent volume. As it was tagged: not yet safe to show.
    """
    forms = _name_forms(volume)
    fitting = next((form for form in forms if display_width(form) <= max_width), None)
    return fitting or (shorten(forms[-1], max_width) if forms else None)


def describe_attachment(volume: Volume) -> str | None:
    """Where it is attached: ``/dev/sdf on i-0123456789abcdef0 build-3``; None where it is not."""
    return format_attachment(volume.device, volume.instance_id, volume.instance_name)


def format_attachment(device: str | None, instance_id: str | None, instance_name: str | None) -> str | None:
    """The same from its parts; the instance's own name comes last, as it is seldom known."""
    instance = " ".join(filter(None, (instance_id, instance_name)))
    return " on ".join(filter(None, (device, instance))) or None


def shorten(text: str, width: int) -> str:
    """The text in at most so many columns; a cut shows as ``…``, and a number at the end stays."""
    if display_width(text) <= width:
        return text
    ordinal = _ORDINAL_SUFFIX.search(text)
    end = ordinal[0] if ordinal and len(ordinal[0]) + 1 < width else ""
    start = text.removesuffix(end)[: _MAX_CHARACTERS_PER_COLUMN * width]
    while start and display_width(start) + 1 + len(end) > width:
        start = start[:-1]
    return f"{start.rstrip()}…{end}"


def _name_forms(volume: Volume) -> Sequence[str]:
    """The same name, from the fullest form to the shortest."""
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

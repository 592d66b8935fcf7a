"""What a volume is called: by people, by Kubernetes, or by where it is attached.

The tags are those of the EBS CSI driver and of Kubernetes' own volume plugin before it; the claim is among
them where the provisioner was started with ``--extra-create-metadata``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from burstwatch.core.ebs.volume import Volume
from burstwatch.core.text import columns

LONGEST_NAME: Final = 40
"""Longer names are shortened wherever people read them."""

_CLAIM: Final = "kubernetes.io/created-for/pvc/name"
_NAMESPACE: Final = "kubernetes.io/created-for/pvc/namespace"
_PERSISTENT_VOLUME: Final = ("kubernetes.io/created-for/pv/name", "CSIVolumeName")
_CLUSTER: Final = "KubernetesCluster"
_OWNING_CLUSTER: Final = "kubernetes.io/cluster/"

_MACHINE_MADE: Final = re.compile(r"(.*-)?pvc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""``prod-dynamic-pvc-0b1f…``: what the driver writes into the Name tag of a volume that it made."""

_MOST_PER_COLUMN: Final = 3
"""A letter with two marks on it takes one column: what is longer is cut before it is measured."""

_ORDINAL: Final = re.compile(r"-\d{1,5}$")
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
    name = _tag(volume, _CLAIM)
    return Claim(name=name, namespace=_tag(volume, _NAMESPACE)) if name else None


def cluster_of(volume: Volume) -> str | None:
    """The cluster of Kubernetes that owns the volume, where its tags name exactly one."""
    owning = {key.removeprefix(_OWNING_CLUSTER) for key in volume.tags if key.startswith(_OWNING_CLUSTER)}
    return _tag(volume, _CLUSTER) or (owning.pop() or None if len(owning) == 1 else None)


def name_of(volume: Volume, longest: int = LONGEST_NAME) -> str | None:
    """What people call the volume, in at most so many columns; None where nobody has named it.

    Its Name tag, unless a machine wrote that and the claim is known; then the claim, such as
    ``claim data-etcd-0 in kube-system``; then the persistent volume. As it was tagged: not yet safe to show.
    """
    forms = _forms(volume)
    fitting = next((form for form in forms if columns(form) <= longest), None)
    return fitting or (shortened(forms[-1], longest) if forms else None)


def where(volume: Volume) -> str | None:
    """Where it is attached: ``/dev/sdf on i-0123456789abcdef0 build-3``; None where it is not."""
    return place_words(volume.device, volume.instance_id, volume.instance_name)


def place_words(device: str | None, instance_id: str | None, instance_name: str | None) -> str | None:
    """The same from its parts; the instance's own name comes last, as it is seldom known."""
    instance = " ".join(filter(None, (instance_id, instance_name)))
    return " on ".join(filter(None, (device, instance))) or None


def shortened(text: str, width: int) -> str:
    """The text in at most so many columns; a cut shows as ``…``, and a number at the end stays."""
    if columns(text) <= width:
        return text
    found = _ORDINAL.search(text)
    end = found[0] if found and len(found[0]) + 1 < width else ""
    start = text.removesuffix(end)[: _MOST_PER_COLUMN * width]
    while start and columns(start) + 1 + len(end) > width:
        start = start[:-1]
    return f"{start.rstrip()}…{end}"


def _forms(volume: Volume) -> Sequence[str]:
    """The same name, from the fullest form to the shortest."""
    name, claim = _tag(volume, "Name"), claim_of(volume)
    if claim is not None and (name is None or _is_machine_made(volume, name)):
        within = f"{claim.namespace}/{claim.name}" if claim.namespace else claim.name
        return str(claim), within, claim.name
    if name is not None:
        return (name,)
    return tuple(filter(None, (_tag(volume, key) for key in _PERSISTENT_VOLUME)))[:1]


def _is_machine_made(volume: Volume, name: str) -> bool:
    made_for = [made for key in _PERSISTENT_VOLUME if (made := _tag(volume, key))]
    return name.endswith(tuple(made_for)) or _MACHINE_MADE.fullmatch(name) is not None


def _tag(volume: Volume, key: str) -> str | None:
    return volume.tags.get(key, "").strip() or None

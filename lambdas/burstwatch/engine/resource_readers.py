"""How each kind of resource other than volumes is read: listed, found by ID, and looked at in trouble.

The rest of the engine is the same for all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from burstwatch.core.assessment.resource import AdvisedResource
from burstwatch.core.instances.instance import Instance
from burstwatch.core.resource_type import ResourceType, type_of_id
from burstwatch.core.watch.evidence import Evidence, InstanceEvidence
from burstwatch.engine.collector import Collector


class ResourceReader(Protocol):
    """Reads one kind; what fails is in the ``failures`` of the collector, and never affects another kind."""

    def list_all(self) -> Sequence[AdvisedResource] | None:
        """Every resource of the Region that may have a bucket; None if that is not known."""
        ...

    def find(self, resource_ids: Iterable[str]) -> tuple[Sequence[AdvisedResource], Sequence[str]]:
        """These resources, and the IDs of those that do not exist."""
        ...

    def read_evidence(self, resources: Sequence[AdvisedResource]) -> Mapping[str, Evidence]:
        """What else CloudWatch and others show of these resources, by ID."""
        ...


@dataclass(frozen=True, slots=True)
class InstanceReader:
    """EC2 instances: what their volumes serve and what their types allow comes from EC2."""

    collector: Collector

    def list_all(self) -> Sequence[AdvisedResource] | None:
        return self.collector.instances()

    def find(self, resource_ids: Iterable[str]) -> tuple[Sequence[AdvisedResource], Sequence[str]]:
        return self.collector.instances_by_id(resource_ids)

    def read_evidence(self, resources: Sequence[AdvisedResource]) -> Mapping[str, Evidence]:
        instances = [resource for resource in resources if isinstance(resource, Instance)]
        metrics = self.collector.instance_metrics(instance.instance_id for instance in instances)
        return {
            instance.instance_id: InstanceEvidence(
                instance=instance,
                metrics=metrics[instance.instance_id],
                family=self.collector.larger_types(instance.instance_type) if instance.limits else {},
            )
            for instance in instances
        }


_READERS: Final[Mapping[ResourceType, type[InstanceReader]]] = {ResourceType.INSTANCE: InstanceReader}
ADVISED_KINDS: Final = tuple(_READERS)
"""The kinds that have a reader here: all but volumes."""


def list_resources(collector: Collector, kind: ResourceType) -> Sequence[AdvisedResource] | None:
    """Every resource of a kind that may have a bucket; None if that is not known."""
    return _READERS[kind](collector).list_all()


def find_resources(
    collector: Collector, resource_ids: Iterable[str]
) -> tuple[list[AdvisedResource], list[str]]:
    """These resources of any kind, and the IDs of those that do not exist."""
    ids_by_kind: dict[ResourceType, list[str]] = {}
    for resource_id in resource_ids:
        ids_by_kind.setdefault(type_of_id(resource_id), []).append(resource_id)
    found: list[AdvisedResource] = []
    missing: list[str] = []
    for kind, ids in ids_by_kind.items():
        found_of_kind, missing_of_kind = _READERS[kind](collector).find(ids)
        found += found_of_kind
        missing += missing_of_kind
    return found, missing


def read_evidence(collector: Collector, resources: Iterable[AdvisedResource]) -> dict[str, Evidence]:
    """What else is known of these resources in trouble, by ID."""
    by_kind: dict[ResourceType, dict[str, AdvisedResource]] = {}
    for resource in resources:
        by_kind.setdefault(resource.resource_type, {})[resource.resource_id] = resource
    evidence: dict[str, Evidence] = {}
    for kind, resources_by_id in by_kind.items():
        evidence |= _READERS[kind](collector).read_evidence(list(resources_by_id.values()))
    return evidence

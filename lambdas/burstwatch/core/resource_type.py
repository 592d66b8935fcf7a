"""The kinds of resources that have buckets of burst credits, and how the ledger names a bucket."""

from enum import StrEnum


class ResourceType(StrEnum):
    """Public: keys of the policy's ``resources``, and ``resource_type`` in documents.

    Each has a ``noun`` for people.
    """

    EBS = "ebs"
    INSTANCE = "instance"

    @property
    def noun(self) -> str:
        return {ResourceType.EBS: "volume", ResourceType.INSTANCE: "instance"}[self]


def subject_of(resource_type: ResourceType, resource_id: str, bucket_name: str) -> str:
    """The key under which the ledger remembers one bucket of one resource.

    A volume has one bucket, and its key is its ID, as the first version wrote it. Any other resource may have
    several: ``i-0a1#instance-io``.
    """
    return resource_id if resource_type is ResourceType.EBS else f"{resource_id}#{bucket_name}"


def resource_id_in(subject: str) -> str:
    """The ID of the resource in a key of the ledger."""
    return subject.partition("#")[0]


def is_volume_subject(subject: str) -> bool:
    """Whether a key of the ledger is that of a volume."""
    return "#" not in subject

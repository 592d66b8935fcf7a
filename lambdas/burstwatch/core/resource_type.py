"""The kinds of resources that have buckets of burst credits, and how the ledger names a bucket."""

import re
from enum import StrEnum
from typing import Final


class ResourceType(StrEnum):
    """Public: keys of the policy's ``resources``, and ``resource_type`` in documents.

    Each has a ``noun`` for people.
    """

    EBS = "ebs"
    INSTANCE = "instance"
    EFS = "efs"
    RDS = "rds"

    @property
    def noun(self) -> str:
        return _NOUNS[self]


_NOUNS: Final = {
    ResourceType.EBS: "volume",
    ResourceType.INSTANCE: "instance",
    ResourceType.EFS: "file system",
    ResourceType.RDS: "database",
}
DATABASE_PREFIX: Final = "db:"
VOLUME_ID: Final = re.compile(r"vol-([0-9a-f]{8}|[0-9a-f]{17})")
INSTANCE_ID: Final = re.compile(r"i-([0-9a-f]{8}|[0-9a-f]{17})")
FILE_SYSTEM_ID: Final = re.compile(r"fs-([0-9a-f]{8}|[0-9a-f]{17})")
DATABASE_ID: Final = re.compile(r"db:[a-zA-Z][a-zA-Z0-9-]{0,62}")
"""The name of a database after ``db:``. Source: RDS API reference, CreateDBInstance, DBInstanceIdentifier."""
_TYPES_BY_PREFIX: Final = {
    "i-": ResourceType.INSTANCE,
    "fs-": ResourceType.EFS,
    DATABASE_PREFIX: ResourceType.RDS,
}


def is_resource_id(text: str) -> bool:
    """Whether an ID of one of the kinds has this form."""
    forms = (VOLUME_ID, INSTANCE_ID, FILE_SYSTEM_ID, DATABASE_ID)
    return any(form.fullmatch(text) for form in forms)


def type_of_id(resource_id: str) -> ResourceType:
    """The kind of resource that has this ID, or this key of the ledger; anything else is a volume.

    The ID of a database is its name after a prefix: ``db:orders``.
    """
    kinds = (kind for prefix, kind in _TYPES_BY_PREFIX.items() if resource_id.startswith(prefix))
    return next(kinds, ResourceType.EBS)


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

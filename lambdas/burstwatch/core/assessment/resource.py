"""The resources that have buckets of burst credits."""

from typing import TypeAlias

from burstwatch.core.ebs.volume import Volume
from burstwatch.core.efs.file_system import FileSystem
from burstwatch.core.instances.instance import Instance
from burstwatch.core.rds.db_instance import DbInstance

AdvisedResource: TypeAlias = Instance | FileSystem | DbInstance
"""A resource that the watchdog never changes: it advises people. It may have several buckets."""

Resource: TypeAlias = Volume | AdvisedResource


def lasting_id_of(resource: Resource) -> str | None:
    """What stays if its ID changes, which only happens to a database: its ID is its name."""
    return resource.dbi_resource_id if isinstance(resource, DbInstance) else None


def type_name_of(resource: AdvisedResource) -> str:
    """The type that bounds its buckets, in a word: ``m5.large``, ``bursting``, ``db.m5.large``."""
    if isinstance(resource, FileSystem):
        return resource.throughput_mode
    return resource.instance_class if isinstance(resource, DbInstance) else resource.instance_type

"""EFS file systems and RDS database instances as the core has them."""

from datetime import UTC, datetime

from burstwatch.core.efs.file_system import FileSystem
from burstwatch.core.rds.db_instance import DbInstance

GIB = 2**30
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


def a_file_system(gib=58, **changes):
    """A file system in bursting mode with this much in Standard."""
    size = int(gib * GIB)
    facts = {
        "file_system_id": "fs-0123456789abcdef0",
        "throughput_mode": "bursting",
        "standard_bytes": size,
        "size_bytes": size,
        "state": "available",
        "created_at": NEW_YEAR,
        "tags": {"Name": "shared-home"},
    }
    return FileSystem(**(facts | changes))


def a_database(gib=100, **changes):
    """A PostgreSQL instance with gp2 storage of this size."""
    facts = {
        "identifier": "orders",
        "dbi_resource_id": "db-ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "engine": "postgres",
        "instance_class": "db.m5.large",
        "storage_type": "gp2",
        "allocated_gib": gib,
        "status": "available",
        "created_at": NEW_YEAR,
    }
    return DbInstance(**(facts | changes))

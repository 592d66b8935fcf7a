"""Storage that is drawn."""

from datetime import timedelta

from burstlab.model.database import LabDatabase
from burstlab.model.file_system import LabFileSystem
from support.cli.cli_session import START

HOME = "fs-0123456789abcdef0"


def add_file_system(lab, hours=6, **fields):
    """A file system that has been living for this long before 18:00."""
    defaults = {"file_system_id": HOME, "size_gib": 58, "tags": {"Name": "shared-home"}}
    return lab.fleet.file_systems.add(
        LabFileSystem(**defaults | {"starts_at": START - timedelta(hours=hours)} | fields)
    )


def add_database(lab, hours=3.0, **fields):
    defaults = {"identifier": "orders", "starts_at": START - timedelta(hours=hours)}
    return lab.fleet.databases.add(LabDatabase(**defaults | fields))

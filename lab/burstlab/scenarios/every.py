"""Every scenario, in the order of the table."""

from burstlab.scenarios import rows_disk, rows_host, rows_paths
from burstlab.scenarios.rows import ROWS

__all__ = ["ROWS", "rows_disk", "rows_host", "rows_paths"]

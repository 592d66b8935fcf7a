"""Every scenario, in the order of the table."""

from burstlab.probe_scenarios import rows_disk, rows_host, rows_paths
from burstlab.probe_scenarios.rows import ROWS

__all__ = ["ROWS", "rows_disk", "rows_host", "rows_paths"]

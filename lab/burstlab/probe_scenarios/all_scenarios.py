"""Every scenario, in the order of the table."""

from burstlab.probe_scenarios import disk_scenarios, host_scenarios, path_scenarios
from burstlab.probe_scenarios.registry import SCENARIOS

__all__ = ["SCENARIOS", "disk_scenarios", "host_scenarios", "path_scenarios"]

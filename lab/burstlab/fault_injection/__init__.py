"""The fault campaign: one scenario, run once for every fault of each of its effects."""

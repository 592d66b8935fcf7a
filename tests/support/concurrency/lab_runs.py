"""How long the runs of several watchdogs are."""

MINUTES = 28
"""With the quiet minutes: until all that drain are flipped and known to be well, and before any returns."""

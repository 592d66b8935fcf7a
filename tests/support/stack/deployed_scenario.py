"""A deployed stack that watches a volume of the lab."""

MINUTE_S = 60


TIMEOUT_S = 90.0
"""How long is waited for what comes by itself: on a busy machine a cold start takes its time."""


def effects(entries):
    """What was done to a volume, without assessments and alerts."""
    return [entry["kind"] for entry in entries if entry["kind"] in EFFECTS]


EFFECTS = ("intent", "accepted", "reached", "stayed", "restored", "failed", "changed_by_others")

"""The occurrences of a window around a time, by the function that the watchdog reads them with."""

from burstwatch.core.policy.windows import occurrences


def occurrence_at(window, now):
    """The scheduled occurrence that runs at ``now``; None if no occurrence does."""
    first = next(occurrences(window, now), None)
    return first if first and first.start_at <= now else None


def next_occurrence(window, now):
    """The first scheduled occurrence that starts after ``now``; None if the window has no more."""
    return next((interval for interval in occurrences(window, now) if interval.start_at > now), None)
